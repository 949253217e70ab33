"""Whether the clusters of a long table fall into clearly separate groups, which its price merges.

A price factor above 1 keeps the number of clusters from growing with the rows where columns depend on each
other inside clusters. It also merges many small groups, whose shares of the rows are too small to pay for
their parameters in a table of 1000 rows. Pieces of a cluster whose columns depend on each other touch, so
that many rows lie between two of them; hardly a row lies between such groups.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from craftc._common.random import CraftStream
from craftc.craft.rows import L, S
from craftc.craft.search import FitConfig, drop_empty
from craftc.craft.search.merges import MergeSplitSearch

_ROWS = 1 << 12  # that represent the table
_PLACED = math.log(9.0)  # nats by which a row is placed with a probability of .9
_CLEAR = 0.96  # least share of such rows in clearly separate groups


def falls_apart(config: FitConfig[L, S], labels: S) -> bool:
    """Whether splits at a price factor of 1, from a partition and among a sample of the rows, end in more
    clusters with hardly a row between them. `labels`: a snapshot of the partition.
    """
    positions, sample = config.sample(_ROWS, CraftStream.COVARIANCE_SAMPLE)
    sample = replace(sample, spec=replace(sample.spec, price_factor=1.0))
    of_sample = config.rows.labels_at(labels, positions)
    whole = sample.moments(of_sample, int(of_sample.max()) + 1)
    of_sample, _ = drop_empty(sample.rows, whole, of_sample)
    search = MergeSplitSearch(sample, sample.n_threads)
    part = search.partition(of_sample)
    before = part.K
    while search.split_once(part):
        pass
    if before == part.K:
        return False
    placed = np.concatenate(
        [
            np.diff(np.partition(costs, 1, axis=1)[:, :2], axis=1)[:, 0] >= _PLACED
            for _, costs, _ in search.clusters(part).costs_in_chunks(sample.table)
        ]
    )
    weight = sample.weight if len(sample.weight) else np.ones(len(placed))
    return bool(placed @ weight >= _CLEAR * weight.sum())
