"""The clusters of a fitted CRAFT for every description: features that differ, frame of `summary`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from craftc._common.merge_path import MergeStep, objectives_of
from craftc._common.typing import Array, Bits, Floats
from craftc.craft.clusters import Clusters
from craftc.craft.covariance import too_many_columns
from craftc.craft.dependence import ColumnLinks, dependence_sentence
from craftc.craft.description_length import feature_prices
from craftc.craft.parameters import ModelSpec
from craftc.describe.frames import summary_frame
from craftc.describe.statistics import column_statistics
from craftc.describe.view import ClusterView, links_of
from craftc.table import Schema
from craftc.table.moments import Moments
from craftc.table.numeric_encoding import NumericEncoding


class DescribedModel(Protocol):
    """A fitted CRAFT."""

    schema_: Schema
    cluster_sizes_: Array
    feature_mask_: Bits
    feature_gains_: Floats
    merge_path_: Sequence[MergeStep]
    _moments_original_units: Moments
    _clusters: Clusters
    _encoding: NumericEncoding
    _links: ColumnLinks
    _spec: ModelSpec
    _frame_library: str | None


def cluster_view(model: DescribedModel) -> ClusterView:
    """The clusters of a fitted CRAFT."""
    return ClusterView(
        model.schema_.columns,
        column_statistics(
            model._moments_original_units, model.schema_, model._clusters.moments, model._encoding
        ),
        np.asarray(model.cluster_sizes_),
        differing_features(model),
        model.feature_mask_,
        model.feature_gains_,
        links_of(model._links.alike, model._links.implied),
    )


def cluster_summary(model: DescribedModel) -> Any:
    """The frame of ``CRAFT.summary``: one row per cluster and selected feature, largest gain first."""
    view = cluster_view(model)
    attrs: dict[str, object] = {
        "merges": objectives_of(model.merge_path_),
        "dependence": dependence_sentence(model),
    }
    names = ("price_factor", "suggested_n_clusters", "dependence_ratio", "column_links")
    attrs |= {name: getattr(model, f"{name}_") for name in names}
    clusters = model._clusters
    notes = too_many_columns(clusters.background, clusters.moments.total(), clusters.spec)
    if clusters.covariances is not None:
        encoded = [view.columns[column] for column in model._encoding.source]
        notes += clusters.covariances.notes(encoded, view.sizes)
    return summary_frame(
        view, model._frame_library, attrs | {"notes": notes}, distribution=distributions(model)
    )


def distributions(model: DescribedModel) -> Array:
    """(K, n_columns) whose distribution the cells of each cluster have: "own", "shared with n clusters", or
    "whole table".

    A cluster has its own distribution of a column if it selects the column, or if all other clusters select
    it.
    """
    selected = model.feature_mask_
    if not model._spec.pooled:
        return np.where(selected, "own", "whole table").astype(object)
    others = np.maximum((~selected).sum(axis=0) - 1, 0)
    shared = ["own" if n == 0 else f"shared with {n} cluster{'' if n == 1 else 's'}" for n in others.tolist()]
    return np.where(selected, "own", np.array(shared, object)[None, :])


def differing_features(model: DescribedModel) -> Bits:
    """(K, n_columns) features that a cluster selects, or shares with others but not with the whole table: the
    gain exceeds its price.

    It is the only rule by which a feature defines a cluster.
    """
    clusters, listed = model._clusters, model.feature_mask_.copy()
    if model._spec.pooled:
        pays = clusters.gains > feature_prices(clusters.background, model._spec)[0]
        for d, column in enumerate(model._encoding.source):
            listed[:, column] |= pays[:, d]
    return np.asarray(listed)
