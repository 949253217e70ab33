"""The state of a fitted DPMeans in a model file: its fitted attributes, and the factors of covariances."""

from __future__ import annotations

from typing import Any

import numpy as np

from craftc._common.cluster_moments import ClusterMoments
from craftc._common.typing import Floats
from craftc.distributed.collections import is_collection
from craftc.dpmeans.estimator import DPMeans
from craftc.dpmeans.gaussian import Gaussian, Shapes
from craftc.saved.archive import Archive, Arrays, demand, estimator_head, restored_estimator

FORMAT_VERSION = 4  # 3: without checksum

_SCALARS = {
    "cluster_penalty_": float,
    "objective_": float,
    "inertia_": float,
    "n_iter_": int,
    "converged_": bool,
}


def state_of(model: DPMeans) -> tuple[dict[str, Any], Arrays]:
    """The head and the arrays of a fitted model; labels that lie on a cluster are left out."""
    head = estimator_head(model, ("init", "random_state"), _SCALARS)
    if model._limit != model.cluster_penalty_:  # of a search
        head["limit"] = model._limit
    arrays: Arrays = {
        "centers": model.cluster_centers_,
        "sizes": model.cluster_sizes_,
        "variances": model._moments.variances,
        "objective_path": model.objective_path_,
    }
    labels = getattr(model, "labels_", None)  # a copy of a model with lazy labels has none
    if labels is None or is_collection(labels):
        head["labels"] = False
    else:
        arrays["labels"] = labels
    if model._shape is not None:
        arrays["factor"], arrays["inverse"] = model._shape
    if hasattr(model, "covariances_"):
        gaussian, shapes = model._gaussian, model._shapes
        head |= {
            "penalty": gaussian.penalty,
            "phi": gaussian.phi,
            "sized": gaussian.sized,
            "known": gaussian.known is not None,
        }
        arrays |= {"covariances": shapes.covariances, "factors": shapes.factors, "log_det": shapes.log_det}
    return head, arrays


def restored(archive: Archive) -> DPMeans:
    """The model; whatever the kernels rely on is checked here."""
    head = archive.head
    model = restored_estimator(DPMeans, head, **_SCALARS)
    D = model.n_features_in_
    model.cluster_centers_ = archive.floats("centers", (None, D))
    K = model.n_clusters_ = len(model.cluster_centers_)
    demand(K > 0, "it has no clusters")
    if head.get("labels", True):
        model.labels_ = archive.labels("labels", (None,), K)
    model.cluster_sizes_ = archive.floats("sizes", (K,), least=0.0)
    model.objective_path_ = archive.array("objective_path", "float64", (None,))
    model._limit = float(head.get("limit", model.cluster_penalty_))
    demand(model._limit >= 0.0, "limit is not possible")
    # with an infinite lambda^2, more than one cluster has an infinite price
    possible = np.isfinite(model.objective_path_) | (
        (model.objective_path_ == np.inf) & (model.cluster_penalty_ == np.inf)
    )
    demand(bool(possible.all()), "objective_path contains values that are not possible")
    model._moments = ClusterMoments(
        model.cluster_sizes_, model.cluster_centers_, archive.floats("variances", (K, D), least=0.0)
    )
    if not isinstance(model.covariance, str):
        model.covariance = np.array(model.covariance, np.float64)
    model._check_parameters()
    model._shape = (
        (_triangles(archive, "factor", (D, D)), _triangles(archive, "inverse", (D, D)))
        if "factor" in archive
        else None
    )
    if "covariances" in archive:
        model.covariances_ = archive.floats("covariances", (K, D, D))
        factors, log_det = _triangles(archive, "factors", (K, D, D)), archive.floats("log_det", (K,))
        model._shapes = Shapes(
            model.cluster_sizes_, model.cluster_centers_, model.covariances_, factors, log_det
        )
        demand(
            type(head["sized"]) is bool and type(head["known"]) is bool,
            "the model of the covariances is not complete",
        )
        model._gaussian = Gaussian(
            float(head["penalty"]),
            float(head["phi"]),
            head["sized"],
            model.covariances_ if head["known"] else None,
        )
    return model


def _triangles(archive: Archive, name: str, shape: tuple[int, ...]) -> Floats:
    """Lower triangles with positive diagonals."""
    factors = archive.floats(name, shape)
    regular = np.array_equal(factors, np.tril(factors)) and bool(
        (np.diagonal(factors, axis1=-2, axis2=-1) > 0).all()
    )
    demand(regular, f"{name} are not regular triangles")
    return factors
