"""The state of a fitted ConvexClustering in a model file: its fitted attributes, with the partitions of the
path.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from craftc._common.cluster_moments import ClusterMoments
from craftc.convex.estimator import ConvexClustering, RowsPoint
from craftc.saved.archive import Archive, Arrays, demand, estimator_head, restored_estimator

FORMAT_VERSION = 4  # 3: without checksum

_SCALARS = {"fusion_penalty_": float, "objective_": float, "duality_gap_": float, "n_iter_": int}


def state_of(model: ConvexClustering) -> tuple[dict[str, Any], Arrays]:
    """The head and the arrays of a fitted model."""
    points = model._points
    return estimator_head(model, ("weights",), _SCALARS), {
        "labels": model.labels_,
        "centers": model.cluster_centers_,
        "means": model._moments.means,
        "variances": model._moments.variances,
        "path_labels": np.stack(
            [point.labels for point in points], axis=1
        ),  # (rows, points), so that a row's numbers are neighbours
        "path_numbers": np.array([[point.fusion_penalty, point.objective, point.gap] for point in points]),
    }


def restored(archive: Archive) -> ConvexClustering:
    """The model."""
    model = restored_estimator(ConvexClustering, archive.head, **_SCALARS)
    model._check_parameters()
    D = model.n_features_in_
    model.cluster_centers_ = archive.floats("centers", (None, D))
    K = model.n_clusters_ = len(model.cluster_centers_)
    model.labels_ = archive.labels("labels", (None,), K)
    n = len(model.labels_)
    sizes = np.bincount(model.labels_, minlength=K).astype(np.float64)
    demand(bool((sizes > 0).all()) and n > 0, "a cluster is empty")
    model._moments = ClusterMoments(
        sizes, archive.floats("means", (K, D)), archive.floats("variances", (K, D), least=0.0)
    )
    numbers = archive.array("path_numbers", "float64", (None, 3))
    demand(
        bool(np.isfinite(numbers[:, :2]).all()) and not np.isnan(numbers).any(),
        "the path contains values that are not possible",
    )
    labels = archive.labels("path_labels", (n, len(numbers)), n)
    model._points = [
        RowsPoint(penalty, int(label.max()) + 1, label.copy(), objective, gap)
        for (penalty, objective, gap), label in zip(numbers.tolist(), labels.T, strict=True)
    ]
    return model
