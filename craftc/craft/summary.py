"""The summary of a fitted CRAFT: size and typical values of every cluster, compared with the whole table."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from craftc._common.merge_path import objectives_of
from craftc.craft.covariance import too_many_columns
from craftc.craft.dependence import dependence_sentence
from craftc.craft.description_length import feature_prices
from craftc.describe.frames import summary_frame, typical_values


def cluster_summary(model: Any) -> Any:
    """The frame of ``CRAFT.summary``: one row per cluster and selected feature, largest gain first."""
    schema, moments = model.schema_, model._moments_original_units
    inside, everywhere = typical_values(moments, schema), typical_values(moments.total(), schema)[0]
    attrs: dict[str, Any] = {
        "merges": objectives_of(model.merge_path_),
        "dependence": dependence_sentence(model),
    }
    names = ("price_factor", "suggested_n_clusters", "dependence_ratio", "column_links")
    attrs |= {name: getattr(model, f"{name}_") for name in names}
    clusters = model._clusters
    encoded = [str(schema.columns[column]) for column in model._encoding.source]
    attrs["notes"] = too_many_columns(clusters.background, clusters.moments.total(), clusters.spec)
    if clusters.covariances is not None:
        attrs["notes"] += clusters.covariances.notes(encoded, moments.sizes)
    return summary_frame(
        model,
        moments.sizes / moments.sizes.sum(),
        schema.columns,
        inside,
        everywhere,
        differing_features(model),
        attrs,
        distribution=distributions(model),
    )


def distributions(model: Any) -> NDArray[Any]:
    """(K, n_columns) whose distribution the cells of each cluster have: "own", "shared with n clusters", or
    "whole table".

    A cluster has its own distribution of a column if it selects the column, or if all other clusters select
    it.
    """
    selected = model.feature_mask_
    if not model._spec.pooled:
        return np.where(selected, "own", "whole table").astype(object)
    others = np.maximum((~selected).sum(axis=0) - 1, 0)
    shared = np.array(
        [
            "own" if n == 0 else "shared with 1 cluster" if n == 1 else f"shared with {n} clusters"
            for n in others
        ],
        object,
    )
    return np.where(selected, "own", shared[None, :])


def differing_features(model: Any) -> NDArray[np.bool_]:
    """(K, n_columns) features that a cluster selects, or shares with others but not with the whole table: the
    gain exceeds its price.
    """
    clusters, listed = model._clusters, model.feature_mask_.copy()
    if model._spec.pooled:
        pays = clusters.gains > feature_prices(clusters.background, model._spec)[0]
        for d, column in enumerate(model._encoding.source):
            listed[:, column] |= pays[:, d]
    return np.asarray(listed)
