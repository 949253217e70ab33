"""Whether the clusters of a long table fall into separate groups, which its price merges.

A price factor above 1 keeps the number of clusters from growing with the rows where columns depend on each
other inside clusters. It also merges many small groups, whose shares of the rows are too small to pay for
their parameters in a table of 1000 rows. Two things tell such groups from pieces of a gradual pattern. Pieces
touch, so that many rows lie between two of them; hardly a row lies between groups that are clearly separate.
And inside pieces columns still depend on each other, because no pattern stops where a piece ends; inside
groups they do not, although groups overlap.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from operator import attrgetter

import numpy as np

from craftc._common.merge_path import Change
from craftc._common.random import SAMPLE_ROWS, CraftStream
from craftc.craft.dependence import column_links, dependence_inside
from craftc.craft.fitted import ColumnLinks
from craftc.craft.rows import L, S
from craftc.craft.rows.scores import CLEAR_MARGIN, margins_of
from craftc.craft.search import FitConfig
from craftc.craft.search.merges import START_CLUSTERS, MergeSplitSearch
from craftc.craft.search.starts import kmeans_plus_plus_labels

_FEW_ROWS = 1 << 12  # by which links and the dependence of all pairs of columns are compared
_SEPARATE = 0.7  # least share of rows clearly placed in groups inside which columns are independent
# or: least share of clearly placed rows, and what dependence inside groups is at most to what these save
_CLEAR, _INSIDE = 0.96, 0.1
_LINKED = 2.0  # times what links save: the dependence that links explain
_KMEANS_START = 2  # a start of `start_partition` that begins with k-means++


def falls_apart(
    config: FitConfig[L, S], labels: S, changes: Sequence[Change], links: ColumnLinks, dependent: bool
) -> bool:
    """Whether a search at a price factor of 1, among a sample of the rows, ends in more clusters that are
    separate groups. `labels`: a snapshot of a partition, and what leads from it to the one that is split;
    `dependent`: whether `links` save more than that.
    """
    encoding, none = config.encoding, np.zeros(config.rows.schema.n_columns)
    assert encoding is not None
    if dependent:
        positions, sample = config.sample(_FEW_ROWS, CraftStream.COVARIANCE_SAMPLE)
        together = np.zeros(len(positions), np.int32)
        nats, _ = dependence_inside(sample, together, 1, none)
        if nats[0] <= _LINKED * links.rival * sample.rows_weight / config.rows_weight:
            return False
    positions, sample = config.sample(SAMPLE_ROWS, CraftStream.COVARIANCE_SAMPLE)
    own = config.rows.labels_at(labels, positions)
    for change in changes:
        own = change.place[own]
    if not dependence_inside(sample, own, int(own.max(initial=0)) + 1, none)[1].any():
        return False
    sample = replace(sample, spec=replace(sample.spec, price_factor=1.0))
    search = MergeSplitSearch(sample, sample.n_threads)
    seeds = kmeans_plus_plus_labels(sample, min(START_CLUSTERS, sample.max_clusters), _KMEANS_START)
    parts = [search.partition(own), search.begin(seeds, soft=False)]
    K = parts[0].K
    for part in parts:
        while search.split_once(part):
            pass
    best = min(parts, key=attrgetter("objective"))
    if best.K <= K:
        return False
    clusters, saved = search.clusters(best), -best.objective
    weight = sample.weight if len(sample.weight) else np.ones(len(own))
    placed, everything = margins_of(clusters, sample.table) >= CLEAR_MARGIN, float(weight.sum())
    if placed @ weight < _SEPARATE * everything:
        return False
    selected = np.where(clusters.mask, clusters.gains, 0.0).sum(axis=0)
    gains = np.bincount(encoding.source, selected, len(none)).astype(np.float64)
    inside = np.where(placed, best.labels, -1)
    nats, sure = dependence_inside(sample, inside, best.K, gains)
    separate = np.append(~sure, False)[inside] @ weight
    clear = placed @ weight >= _CLEAR * everything and nats.sum() <= _INSIDE * saved
    if not clear and separate < _SEPARATE * everything:
        return False
    saved *= config.rows_weight / sample.rows_weight
    return column_links(sample, encoding, gains, clusters, saved).ratio(saved) <= 1.0
