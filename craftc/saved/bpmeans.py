"""The state of a fitted KFeatures or BPMeans in a model file: its fitted attributes."""

from __future__ import annotations

from typing import Any

import numpy as np

from craftc._kernels.bpmeans import MOST
from craftc.bpmeans.estimators import BPMeans, KFeatures
from craftc.saved.archive import Archive, Arrays, demand, estimator_head, restored_estimator

FORMAT_VERSION = 4  # 3: without checksum

_SCALARS = {"objective_": float, "inertia_": float, "n_iter_": int, "converged_": bool}


def state_of(model: KFeatures | BPMeans) -> tuple[dict[str, Any], Arrays]:
    """The head and the arrays of a fitted model; memberships take a bit each."""
    return estimator_head(model, ("init", "random_state"), _scalars(type(model))), {
        "features": model.features_,
        "assignments": np.packbits(model.assignments_, axis=1),
        "objective_path": model.objective_path_,
        "penalty_interval": np.array(model.penalty_interval_, np.float64),
    }


def restored(archive: Archive) -> KFeatures | BPMeans:
    """The model; whatever the kernels rely on is checked here."""
    cls = BPMeans if archive.head["estimator"] == "BPMeans" else KFeatures
    model = restored_estimator(cls, archive.head, **_scalars(cls))
    model.features_ = archive.floats("features", (None, model.n_features_in_))
    K = model.n_features_ = len(model.features_)
    demand(K <= MOST, f"it has {K} features")
    model.assignments_ = archive.bits("assignments", K)
    model.objective_path_ = archive.floats("objective_path", (None,))
    low, high = archive.array("penalty_interval", "float64", (2,)).tolist()
    demand(low >= 0 and high >= 0, "the interval of the penalty is not possible")
    model.penalty_interval_ = low, high
    return model


def _scalars(cls: type) -> dict[str, type]:
    return _SCALARS | {"feature_penalty_": float} if cls is BPMeans else _SCALARS
