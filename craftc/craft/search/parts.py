"""Whether the clusters of a long table fall into groups, which its price merges.

A price factor above 1 keeps the number of clusters from growing with the rows where columns depend on each
other inside clusters. It also merges many small groups, whose shares of the rows are too small to pay for
their parameters in a table of 1000 rows. Inside pieces of a gradual pattern columns still depend on each
other, because no pattern stops where a piece ends; inside groups they do not, although groups overlap. Some
groups have dependent columns, too. Three signs together tell these from pieces: few rows lie between two
groups, links between columns save little of what the groups save, and the price gives up much of that.
"""

from __future__ import annotations

from dataclasses import replace
from operator import attrgetter

import numpy as np

from craftc._common.random import SAMPLE_ROWS, CraftStream
from craftc.craft.dependence import dependence_inside
from craftc.craft.found import Found
from craftc.craft.links import column_links
from craftc.craft.rows import L, S
from craftc.craft.rows.scores import CLEAR_MARGIN, margins_of
from craftc.craft.search.merges import START_CLUSTERS, MergeSplitSearch
from craftc.craft.search.starts import kmeans_plus_plus_labels, mixture

_FEW_ROWS = 1 << 12  # by which links and the dependence of all pairs of columns are compared
_INDEPENDENT = 0.5  # least share of the rows that groups have inside which columns are independent
# or: least share of clearly placed rows, and to what all groups save: what links, and what the clusters of
# the price save at most
_PLACED, _FEW_LINKS, _KEPT = 0.8, 0.25, 0.7
_LINKED = 2.0  # times what links save: the dependence that links explain
_KMEANS_START = 2  # a start of `start_partition` that begins with k-means++


def falls_apart(found: Found[L, S]) -> bool:
    """Whether a search at a price factor of 1, among a sample of the rows, ends in more clusters that are
    groups.
    """
    config, links = found.config, found.links
    encoding, none = config.encoding, np.zeros(config.rows.schema.n_columns)
    assert encoding is not None
    if found.dependent:
        positions, sample = config.sample(_FEW_ROWS, CraftStream.COVARIANCE_SAMPLE)
        nats, _ = dependence_inside(sample, np.ones((len(positions), 1)), none)
        if nats[0] <= _LINKED * links.rival * sample.rows_weight / config.rows_weight:
            return False
    positions, sample = config.sample(SAMPLE_ROWS, CraftStream.COVARIANCE_SAMPLE)
    own = config.rows.labels_at(found.snapshot, positions)
    for change in found.changes:
        own = change.place[own]
    sample = replace(sample, spec=replace(sample.spec, price_factor=1.0))
    search = MergeSplitSearch(sample, sample.n_threads)
    merged = search.partition(own)
    if not dependence_inside(sample, mixture(sample, search.clusters(merged)), none)[1].any():
        return False
    seeds = kmeans_plus_plus_labels(sample, min(START_CLUSTERS, sample.max_clusters), _KMEANS_START)
    K, kept, parts = merged.K, -merged.objective, [merged, search.begin(seeds, soft=False)]
    for part in parts:
        while search.split_once(part):
            pass
    best = min(parts, key=attrgetter("objective"))
    if best.K <= K:
        return False
    clusters, saved = search.clusters(best), -best.objective
    selected = np.where(clusters.mask, clusters.gains, 0.0).sum(axis=0)
    gains = np.bincount(encoding.source, selected, len(none)).astype(np.float64)
    weight = sample.weight if len(sample.weight) else np.ones(len(own))
    everything = float(weight.sum())
    probabilities = mixture(sample, clusters)
    _, sure = dependence_inside(sample, probabilities, gains)
    of_all = saved * config.rows_weight / sample.rows_weight
    ratio = column_links(sample, encoding, gains, clusters, of_all).ratio(of_all)
    if weight @ probabilities @ ~sure >= _INDEPENDENT * everything:
        return ratio <= 1.0
    placed = weight @ (margins_of(clusters, sample.table) >= CLEAR_MARGIN)
    return bool(placed >= _PLACED * everything) and ratio <= _FEW_LINKS and kept <= _KEPT * saved
