"""Model files of the clusterings whose fitted attributes a table declares: one table of each."""

from __future__ import annotations

import math

import numpy as np

from craftc._common.cluster_moments import ClusterMoments
from craftc._common.labels import number_by_appearance
from craftc._common.typing import Floats
from craftc._kernels.bpmeans import MOST
from craftc.bpmeans.estimators import BPMeans, KFeatures
from craftc.convex.estimator import ConvexClustering, RowsPoint
from craftc.covariates.estimator import ConvexCovariateClustering, PathPoint, SelectionPoint
from craftc.dpmeans.estimator import DPMeans
from craftc.dpmeans.gaussian import ClusterShapes, Gaussian
from craftc.kprototypes.dissimilarity import CATEGORICAL, name_of
from craftc.kprototypes.estimators import KModes, KPrototypes, PrototypeClustering
from craftc.kprototypes.fitted import Prototypes
from craftc.kprototypes.problem import NG
from craftc.saved.archive import demand
from craftc.saved.fields import (
    ABSENT,
    LARGEST,
    POSITIVE,
    Array,
    Kind,
    Optional,
    Ragged,
    Reading,
    Same,
    StoredNumber,
    StoredRecord,
    StoredRecords,
    Through,
    Writing,
    floats,
    integers,
    labels,
)
from craftc.saved.layout import CONVERGED, FIT, FRAMES, Layout
from craftc.saved.table import SCHEMA, check_sums, sums_of

# ---- KFeatures and BPMeans ----

_FEATURES = {
    **FRAMES,
    **FIT,
    **CONVERGED,
    "inertia_": StoredNumber(),
    "features_": floats("K", "D"),
    "assignments_": Array("bool", ("n", "K")),
    "objective_path_": floats("steps"),
    "penalty_interval_": StoredNumber(least=0.0, count=2),
}


def _complete_features(model: KFeatures | BPMeans) -> None:
    model.n_features_ = len(model.features_)
    demand(model.n_features_ <= MOST, f"it has {model.n_features_} features")


# ---- ConvexClustering ----

_CONVEX = {
    **FRAMES,
    "fusion_penalty_": StoredNumber(),
    **FIT,
    "duality_gap_": StoredNumber(),
    "cluster_centers_": floats("K", "D"),
    "labels_": labels("n", below="K"),
    "_moments": StoredRecord(
        ClusterMoments,
        sizes=floats("K", least=POSITIVE),
        means=floats("K", "D"),
        variances=floats("K", "D", least=0.0),
    ),
    "_points": StoredRecords(RowsPoint, labels=labels("n", below="n"), gap=StoredNumber(least=-LARGEST)),
}


def _complete_convex(model: ConvexClustering) -> None:
    model._check_parameters()
    K = model.n_clusters_ = len(model.cluster_centers_)
    demand(bool(np.bincount(model.labels_, minlength=K).all()), "a cluster has no rows")
    for point in model._points:
        possible = point.n_clusters == point.labels.max() + 1
        demand(possible, "the path contains numbers of clusters that are not possible")


# ---- ConvexCovariateClustering ----


class _Classes(Kind):
    """The classes, distinct and in order; texts that are Python objects lie in the head."""

    def write(self, out: Writing, name: str, value: object) -> None:
        classes = np.asarray(value)
        is_text = classes.dtype == object  # scikit-learn refuses other objects
        Optional(Kind()).write(out, f"{name}.texts", classes.tolist() if is_text else None)
        if not is_text:
            out.arrays[name] = classes

    def read(self, source: Reading, name: str) -> object:
        texts = Optional(Kind()).read(source, f"{name}.texts")
        if texts is None:
            classes = source.archive.array(name, None)
        else:
            assert isinstance(texts, list)
            demand(all(isinstance(text, str) for text in texts), "the classes are not text")
            classes = np.array(texts, dtype=object)
        demand(classes.ndim == 1 and len(classes) > 1, "the classes are not possible")
        demand(bool((classes[1:] > classes[:-1]).all()), "the classes are not distinct")
        source.sizes["classes"] = len(classes)
        return classes


_ANY = StoredNumber(missing=True)
_COVARIATES = {
    **FIT,
    "duality_gap_": StoredNumber(),
    "fusion_penalty_": StoredNumber(),
    "sparsity_": StoredNumber(),
    "sigma_": Optional(StoredNumber(), ABSENT),
    "classes_": _Classes(),
    "coef_": floats("classes", "D"),
    "intercept_": floats("classes"),
    "_means": floats("D"),  # in place of missing cells
    "_points": StoredRecords(
        PathPoint,
        labels=labels("D", below="D"),
        gap=_ANY,
        evidence=_ANY,
        coefficients=floats("clusters", "classes"),
    ),
    "_selection_points": StoredRecords(SelectionPoint, gap=_ANY, evidence=_ANY),
}


def _complete_covariates(model: ConvexCovariateClustering) -> None:
    model._check_parameters()
    for point in model._points:
        numbered = point.labels.copy()
        number_by_appearance(numbered)
        demand(
            np.array_equal(point.labels, numbered), "the clusters of the path are not numbered by appearance"
        )
        complete = point.n_clusters == len(point.coefficients) == point.labels.max() + 1
        demand(complete, "the path contains numbers of clusters that are not possible")
    for selected in model._selection_points:
        demand(
            0 <= selected.n_covariates <= model.n_features_in_, "the path of the selection is not possible"
        )
    chosen = [point for point in model._points if point.fusion_penalty == model.fusion_penalty_]
    demand(len(chosen) == 1, "the chosen point is not on the path")
    model.best_ = chosen[0]
    model.covariate_labels_, model.n_clusters_ = model.best_.labels, model.best_.n_clusters


# ---- DPMeans ----

_DPMEANS = {
    **FRAMES,
    "cluster_penalty_": StoredNumber(),
    "_limit": StoredNumber(least=0.0),
    **FIT,
    **CONVERGED,
    "inertia_": StoredNumber(),
    "cluster_centers_": floats("K", "D"),
    "labels_": Optional(labels("n", below="K"), ABSENT),
    "cluster_sizes_": floats("K", least=0.0),
    # with an infinite lambda^2, more than one cluster has an infinite price
    "objective_path_": Array("float64", ("steps",), -LARGEST, math.inf),
    "_moments": StoredRecord(
        ClusterMoments,
        sizes=Same("cluster_sizes_"),
        means=Same("cluster_centers_"),
        variances=floats("K", "D", least=0.0),
    ),
    "_shape": Optional(Through(Ragged(floats("D", "D")), tuple, tuple)),
    "covariances_": Optional(floats("K", "D", "D"), ABSENT),
    "_shapes": Optional(
        StoredRecord(
            ClusterShapes,
            sizes=Same("cluster_sizes_"),
            means=Same("cluster_centers_"),
            covariances=Same("covariances_"),
            factors=floats("K", "D", "D"),
            log_det=floats("K"),
        ),
        ABSENT,
    ),
    "_gaussian": Optional(StoredRecord(Gaussian, known=Optional(Same("covariances_"))), ABSENT),
}


def _complete_dpmeans(model: DPMeans) -> None:
    model.n_clusters_ = len(model.cluster_centers_)
    demand(model.n_clusters_ > 0, "it has no clusters")
    finite = np.isfinite(model.objective_path_).all() or model.cluster_penalty_ == np.inf
    demand(bool(finite), "objective_path_ contains values that are not possible")
    if not isinstance(model.covariance, str):
        model.covariance = np.array(model.covariance, np.float64)
    model._check_parameters()
    demand(model._shape is None or len(model._shape) == 2, "the covariance is not complete")
    for factors in model._shape or ():
        _check_triangles(factors)
    full = [hasattr(model, name) for name in ("covariances_", "_shapes", "_gaussian")]
    demand(len(set(full)) == 1, "the model of the covariances is not complete")
    if all(full):
        _check_triangles(model._shapes.factors)


def _check_triangles(factors: Floats) -> None:
    """Raise unless all are lower triangles with positive diagonals."""
    lower = np.array_equal(factors, np.tril(factors))
    positive = (np.diagonal(factors, axis1=-2, axis2=-1) > 0).all()
    demand(lower and bool(positive), "the factors of covariances are not regular triangles")


# ---- KModes and KPrototypes: the prototypes, and the sums of the clusters ----

_PROTOTYPES = {
    **FRAMES,
    "schema_": SCHEMA,
    "cost_": StoredNumber(),
    "n_iter_": StoredNumber(int),
    "converged_": StoredNumber(bool),
    "_prototypes": StoredRecord(
        Prototypes,
        gamma=StoredNumber(least=0.0, most=LARGEST),
        means=floats("K", "numeric"),
        modes=Array("int32", ("K", "categorical"), least=0),
        mean=floats("numeric"),
        mode=Array("int32", ("categorical",), least=0),
        sums=sums_of("schema_"),
        members=Optional(integers("K", "width")),
    ),
    "labels_": labels("n", below="K"),
    "epoch_costs_": Through(floats("passes", least=0.0), np.array, np.ndarray.tolist),
}


def _complete_prototypes(model: PrototypeClustering) -> None:
    held, schema = model._prototypes, model.schema_
    demand(schema.n_columns == model.n_features_in_, "the schema does not fit the columns")
    demand(model._mixed or not len(schema.numeric_index), "KModes has no numeric columns")
    fits = (len(held.mean), len(held.mode)) == (held.grid.p, held.grid.q) and bool((held.n_levels > 0).all())
    demand(fits, "the prototypes do not fit the columns")
    for codes in (held.modes, held.mode):
        demand(bool((codes < held.n_levels).all()), "a mode is none of the levels of its column")
    demand(held.kind == CATEGORICAL.index(name_of(model.cat_dissim)), "the dissimilarity is another one")
    demand((held.kind == NG) == (held.members is not None), "the members of the clusters are not complete")
    if held.members is not None:
        demand(held.members.shape[1] == held.grid.width, "the members of the clusters have a wrong shape")
        check_sums(held.members, held.grid)
    model._set_prototypes(held)
    complete = len(model.epoch_costs_) == model.n_iter_ + 1 and model.epoch_costs_[-1] == model.cost_
    demand(complete, "the costs of the passes do not lead to the cost")


_START = "init", "random_state"
_UNUSED, _NAMED = (*_START, "categorical"), {"cat_dissim": name_of}
LAYOUTS = {
    "KFeatures": Layout(KFeatures, _FEATURES, _complete_features, _START),
    "BPMeans": Layout(BPMeans, _FEATURES | {"feature_penalty_": StoredNumber()}, _complete_features, _START),
    "ConvexClustering": Layout(ConvexClustering, _CONVEX, _complete_convex, ("weights",)),
    "ConvexCovariateClustering": Layout(
        ConvexCovariateClustering, _COVARIATES, _complete_covariates, ("similarity",)
    ),
    "DPMeans": Layout(DPMeans, _DPMEANS, _complete_dpmeans, _START),
    "KModes": Layout(KModes, _PROTOTYPES, _complete_prototypes, _UNUSED, _NAMED),
    "KPrototypes": Layout(
        KPrototypes, _PROTOTYPES, _complete_prototypes, _UNUSED, _NAMED | {"num_dissim": name_of}
    ),
}
