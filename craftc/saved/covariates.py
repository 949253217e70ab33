"""Model files of ConvexCovariateClustering."""

from __future__ import annotations

import numpy as np

from craftc._common.labels import number_by_appearance
from craftc.covariates.estimator import ConvexCovariateClustering, PathPoint, SelectionPoint
from craftc.saved.archive import demand
from craftc.saved.fields import (
    ABSENT,
    Kind,
    Number,
    Optional,
    Reading,
    Records,
    Writing,
    floats,
    labels,
)
from craftc.saved.layout import FIT, Layout


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


_ANY = Number(missing=True)
_FIELDS = {
    **FIT,
    "duality_gap_": Number(),
    "fusion_penalty_": Number(),
    "sparsity_": Number(),
    "sigma_": Optional(Number(), ABSENT),
    "classes_": _Classes(),
    "coef_": floats("classes", "D"),
    "intercept_": floats("classes"),
    "_points": Records(
        PathPoint,
        labels=labels("D", below="D"),
        gap=_ANY,
        evidence=_ANY,
        coefficients=floats("clusters", "classes"),
    ),
    "_selection_points": Records(SelectionPoint, gap=_ANY, evidence=_ANY),
}


def _complete(model: ConvexCovariateClustering) -> None:
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


LAYOUTS = {
    "ConvexCovariateClustering": Layout(ConvexCovariateClustering, _FIELDS, _complete, ("similarity",))
}
