"""The state of a fitted ConvexCovariateClustering in a model file: its fitted attributes, with the points of
the paths.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from craftc._common.labels import number_by_appearance
from craftc.covariates.estimator import ConvexCovariateClustering, PathPoint, SelectionPoint
from craftc.saved.archive import Archive, Arrays, demand, estimator_head, restored_estimator

FORMAT_VERSION = 4  # 3: without checksum

_SCALARS = {
    "objective_": float,
    "duality_gap_": float,
    "fusion_penalty_": float,
    "sparsity_": float,
    "n_iter_": int,
}


def state_of(model: ConvexCovariateClustering) -> tuple[dict[str, Any], Arrays]:
    """The head and the arrays of a fitted model."""
    scalars = [*_SCALARS, *(["sigma_"] if hasattr(model, "sigma_") else [])]
    points, classes = model._points, model.classes_
    head = estimator_head(model, ("similarity",), scalars)
    head |= {
        "object_classes": bool(classes.dtype == object),
        "selection_counts": [point.n_covariates for point in model._selection_points],
    }
    if classes.dtype == object:
        head["classes"] = classes.tolist()  # text: scikit-learn refuses other objects
    return head, ({} if classes.dtype == object else {"classes": classes}) | {
        "coef": model.coef_,
        "intercept": model.intercept_,
        "path_labels": np.stack([point.labels for point in points]),
        "path_numbers": np.array(
            [[point.fusion_penalty, point.objective, point.gap, point.evidence] for point in points]
        ),
        "path_coefficients": np.concatenate([point.coefficients for point in points]),
        "selection_numbers": np.array(
            [
                [point.sparsity, point.objective, point.gap, point.evidence]
                for point in model._selection_points
            ]
        ).reshape(-1, 4),
    }


def restored(archive: Archive) -> ConvexCovariateClustering:
    """The model."""
    head = archive.head
    sigma = {"sigma_": float} if "sigma_" in head["scalars"] else {}
    model = restored_estimator(ConvexCovariateClustering, head, **_SCALARS, **sigma)
    model._check_parameters()
    d = model.n_features_in_
    model.classes_ = _classes(archive)
    c = len(model.classes_)
    model.coef_, model.intercept_ = archive.floats("coef", (c, d)), archive.floats("intercept", (c,))
    numbers = _points(archive, "path_numbers", None)
    demand(len(numbers) > 0, "the path is empty")
    labels = archive.labels("path_labels", (len(numbers), d), d)
    for label in labels:
        numbered = label.copy()
        number_by_appearance(numbered)
        demand(np.array_equal(label, numbered), "the clusters of the path are not numbered by appearance")
    counts = labels.max(axis=1) + 1
    parts = np.split(archive.floats("path_coefficients", (int(counts.sum()), c)), np.cumsum(counts)[:-1])
    model._points = [
        PathPoint(penalty, int(count), label.copy(), objective, gap, evidence, coefficients.copy())
        for (penalty, objective, gap, evidence), count, label, coefficients in zip(
            numbers.tolist(), counts, labels, parts, strict=True
        )
    ]
    selected = head["selection_counts"]
    found = _points(archive, "selection_numbers", len(selected))
    demand(all(type(count) is int for count in selected), "the path of the selection is not complete")
    model._selection_points = [
        SelectionPoint(sparsity, count, objective, gap, evidence)
        for (sparsity, objective, gap, evidence), count in zip(found.tolist(), selected, strict=True)
    ]
    chosen = [point for point in model._points if point.fusion_penalty == model.fusion_penalty_]
    demand(len(chosen) == 1, "the chosen point is not on the path")
    model.best_ = chosen[0]
    model.covariate_labels_, model.n_clusters_ = model.best_.labels, model.best_.n_clusters
    return model


def _points(archive: Archive, name: str, length: int | None) -> NDArray[np.float64]:
    """(points, 4) penalty, objective, gap and evidence of the points of a path; the evidence may be missing."""
    numbers = archive.array(name, "float64", (length, 4))
    demand(bool(np.isfinite(numbers[:, :2]).all()), "the path contains values that are not possible")
    return numbers


def _classes(archive: Archive) -> NDArray[Any]:
    """The classes, distinct and in order."""
    if archive.head["object_classes"]:
        texts = (
            archive.head["classes"] if "classes" in archive.head else archive.array("classes", None).tolist()
        )  # format 3
        demand(all(isinstance(text, str) for text in texts), "the classes are not text")
        classes = np.array(texts, dtype=object)
    else:
        classes = archive.array("classes", None)
    demand(classes.ndim == 1 and len(classes) > 1, "the classes are not possible")
    demand(bool((classes[1:] > classes[:-1]).all()), "the classes are not distinct")
    return classes
