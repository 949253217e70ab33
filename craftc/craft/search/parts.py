"""Whether the clusters of a long table fall into clearly separate groups, which its price merges.

A price factor above 1 keeps the number of clusters from growing with the rows where columns depend on each
other inside clusters. It also merges many small groups, whose shares of the rows are too small to pay for
their parameters in a table of 1000 rows. Pieces of a cluster whose columns depend on each other touch, so
that many rows lie between two of them; hardly a row lies between such groups.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from craftc._common.random import CraftStream
from craftc.craft.rows import L, S
from craftc.craft.rows.scores import CLEAR_MARGIN, margins_of
from craftc.craft.search import FitConfig
from craftc.craft.search.merges import MergeSplitSearch

_ROWS = 1 << 12  # that represent the table
_CLEAR = 0.96  # least share of clearly placed rows in clearly separate groups


def falls_apart(config: FitConfig[L, S], labels: S) -> bool:
    """Whether splits at a price factor of 1, from a partition and among a sample of the rows, end in more
    clusters with hardly a row between them. `labels`: a snapshot of the partition.
    """
    positions, sample = config.sample(_ROWS, CraftStream.COVARIANCE_SAMPLE)
    sample = replace(sample, spec=replace(sample.spec, price_factor=1.0))
    search = MergeSplitSearch(sample, sample.n_threads)
    part = search.partition(config.rows.labels_at(labels, positions))
    before = part.K
    while search.split_once(part):
        pass
    if before == part.K:
        return False
    placed = margins_of(search.clusters(part), sample.table) >= CLEAR_MARGIN
    weight = sample.weight if len(sample.weight) else np.ones(len(placed))
    return bool(placed @ weight >= _CLEAR * weight.sum())
