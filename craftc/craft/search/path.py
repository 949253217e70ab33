"""From the result of the search to another number of clusters, and down the merge path to one cluster."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from craftc._common.merge_path import MergePath
from craftc.craft.rows.path_sums import PathClusters
from craftc.craft.search.config import assign_zero_weight_rows
from craftc.craft.search.merges import MergeSplitSearch, Partition, best_split


def reach_n_clusters(search: MergeSplitSearch, part: Partition, target_n_clusters: int) -> None:
    """Best merges down, or best splits up, to the target, or as near as the table allows."""
    while target_n_clusters < part.K:
        merge_best(search, part)
    undone: set[bytes] = set()
    while target_n_clusters > part.K:
        if not _split_best(search, part, undone):
            return


def _split_best(search: MergeSplitSearch, part: Partition, undone: set[bytes]) -> bool:
    """The cheapest split that remains after passes over all rows; if there is none, the cheapest split
    without passes.

    `undone` are sums of clusters whose splits passes have undone; such a split is not tried again while the
    cluster stays the same.
    """
    found = [best_split(each) for each in search.splits(part, range(part.K), at_any_price=True)]
    splits = [(split.delta, k, split) for k, split in enumerate(found) if split is not None]
    splits.sort(key=lambda entry: entry[:2])
    for _, k, split in splits:
        key = part.groups[k].tobytes()
        if key in undone:
            continue
        trial = part.copy()
        search.apply_split(trial, k, split)
        search.passes(trial)
        if trial.K > part.K:
            vars(part).update(vars(trial))
            return True
        undone.add(key)
    if splits:
        search.apply_split(part, *splits[0][1:])
    return bool(splits)


def merge_best(search: MergeSplitSearch, part: Partition) -> tuple[int, int]:
    """One step down the merge path: the cheapest merge, then passes; returns the merged pair."""
    pair = search.cheapest_pair(part)
    search.force_merge(part, *pair)
    search.passes(part)
    return pair


def number_by_first_appearance(search: MergeSplitSearch, part: Partition) -> None:
    """Assign rows of weight 0 whose cluster was dropped, then number the clusters by first appearance."""
    config = search.config
    if len(config.weight) and (part.labels < 0).any():
        assign_zero_weight_rows(config, search.clusters(part).tables(), part.labels)
    order = search.rows.first_appearance(part.labels, part.K)
    search.relabel(part, np.append(np.argsort(order), -1).astype(np.int32))
    for array in (part.groups, part.cost, part.mask):
        array[: part.K] = array[order]


def merge_path(search: MergeSplitSearch, part: Partition, snapshot: Any) -> tuple[MergePath, PathClusters]:
    """The partition, numbered by first appearance, and every partition on the way down to one cluster; and
    their clusters.

    `part` becomes the last of them; `snapshot` is that of its labels.
    """
    pooled = search.config.spec.pooled
    path = search.rows.merge_path(snapshot, part.K, search.config.background.cost + part.objective)
    clusters = PathClusters.begin(search.moments(part), part.mask[: part.K] if pooled else None)
    while part.K > 1:
        _append_merge(search, part, path)
        clusters.append(
            path.changes()[-1].place, part.groups[: part.K], part.mask[: part.K] if pooled else None
        )
    return path, clusters


def _append_merge(search: MergeSplitSearch, part: Partition, path: MergePath) -> None:
    """One step down the path, which takes it."""
    before = search.rows.snapshot(part.labels, part.K)
    pair = merge_best(search, part)
    number_by_first_appearance(search, part)
    path.append(part.K, search.config.background.cost + part.objective, before, part.labels, pair)


def n_clusters_at(search: MergeSplitSearch, part: Partition, factor: float) -> int:
    """Clusters that are left of a partition if clusters are merged while that lowers J at `factor` times the
    price.
    """
    spec = replace(search.config.spec, price_factor=factor * search.config.spec.price_factor)
    scaled = type(search)(replace(search.config, spec=spec), 1)
    part = replace(part, labels=None).copy()
    scaled.price(part)
    scaled.merge_while_cheaper(part)
    return part.K
