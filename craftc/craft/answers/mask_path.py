"""Fits of CRAFT from local to global selection of features."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from craftc._common.messages import need_pandas
from craftc._common.typing import DaskClient, WeightInput
from craftc.craft.answers.null_test import rows_to_test
from craftc.craft.answers.stability import refit
from craftc.craft.base import CraftBase
from craftc.distributed.open_input import FitTable
from craftc.metrics import adjusted_rand_index

if TYPE_CHECKING:
    from pandas import DataFrame


def mask_path(
    model: CraftBase,
    X: FitTable,
    shares: list[float],
    seed: int,
    sample_weight: WeightInput,
    client: DaskClient | None,
) -> DataFrame:
    """A line for the refit of a model at every share of feature sharing, on at most 16 384 rows."""
    table, weight, _ = rows_to_test(model, X, seed, sample_weight, client)
    fits = [refit(model, table, weight, seed, parameters=_parameters(share)) for share in shares]
    masks = [fit.feature_mask_.astype(bool) for fit in fits]
    path: DataFrame = need_pandas().DataFrame(
        {
            "feature_sharing": shares,
            "n_clusters": [fit.n_clusters_ for fit in fits],
            "objective": [fit.objective_ for fit in fits],
            "selected": [float(mask.mean()) for mask in masks],
            "common": [float(np.mean(mask.all(axis=0) | ~mask.any(axis=0))) for mask in masks],
            "agreement": [adjusted_rand_index(fits[0].labels_, fit.labels_) for fit in fits],
        }
    )
    return path


def _parameters(share: float) -> dict[str, float | str]:
    """With one mask for all clusters, none holds a covariance of its own."""
    return {"feature_sharing": share} | ({"covariance": "diagonal"} if share == 1.0 else {})
