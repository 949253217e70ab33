"""Model files of DPMeans."""

from __future__ import annotations

import math

import numpy as np

from craftc._common.cluster_moments import ClusterMoments
from craftc._common.typing import Floats
from craftc.dpmeans.estimator import DPMeans
from craftc.dpmeans.gaussian import ClusterShapes, Gaussian
from craftc.saved.archive import demand
from craftc.saved.fields import (
    ABSENT,
    LARGEST,
    Array,
    Number,
    Optional,
    Ragged,
    Record,
    Same,
    Through,
    floats,
    labels,
)
from craftc.saved.layout import CONVERGED, FIT, FRAMES, Layout

_FIELDS = {
    **FRAMES,
    "cluster_penalty_": Number(),
    "_limit": Number(least=0.0),
    **FIT,
    **CONVERGED,
    "inertia_": Number(),
    "cluster_centers_": floats("K", "D"),
    "labels_": Optional(labels("n", below="K"), ABSENT),
    "cluster_sizes_": floats("K", least=0.0),
    # with an infinite lambda^2, more than one cluster has an infinite price
    "objective_path_": Array("float64", ("steps",), -LARGEST, math.inf),
    "_moments": Record(
        ClusterMoments,
        sizes=Same("cluster_sizes_"),
        means=Same("cluster_centers_"),
        variances=floats("K", "D", least=0.0),
    ),
    "_shape": Optional(Through(Ragged(floats("D", "D")), tuple, tuple)),
    "covariances_": Optional(floats("K", "D", "D"), ABSENT),
    "_shapes": Optional(
        Record(
            ClusterShapes,
            sizes=Same("cluster_sizes_"),
            means=Same("cluster_centers_"),
            covariances=Same("covariances_"),
            factors=floats("K", "D", "D"),
            log_det=floats("K"),
        ),
        ABSENT,
    ),
    "_gaussian": Optional(Record(Gaussian, known=Optional(Same("covariances_"))), ABSENT),
}


def _complete(model: DPMeans) -> None:
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


LAYOUTS = {"DPMeans": Layout(DPMeans, _FIELDS, _complete, ("init", "random_state"))}
