"""Rows of a fitted CRAFT: margins, log densities, and the rows that are typical of a cluster or unusual in the table."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from craftc._common.typing import Floats, Labels
from craftc.craft.clusters import Clusters
from craftc.table import MixedTable

MOST_TYPICAL, MOST_UNUSUAL = 32, 256  # rows of a cluster, and of the table, that a fitted model keeps
_SORTED_AT_ONCE = 16  # rows, for one that is typical
CLEAR = math.log(9.0)  # nats of margin: the row belongs to its cluster with a probability of .9, if only two compete


@dataclass
class RowScores:
    """What a model says of every row.

    Parameters
    ----------
    labels : ndarray (n,) of int32
    margins : ndarray (n,)
        Nats by which every row prefers its cheapest cluster to the second; inf with one cluster.
    densities : ndarray (n,) of float64
        Log density in nats; empty where the model defines none.
    absent : ndarray (n,)
        Missing cells.
    """

    labels: Labels
    margins: NDArray[Any]
    densities: Floats
    absent: NDArray[Any]


def row_scores(clusters: Clusters, table: MixedTable, dtype: type = np.float64, *, densities: bool = True) -> RowScores:
    """Labels, margins in this dtype, and log densities of rows, in one pass over the table."""
    n, K, background = len(table), len(clusters.mask), clusters.background
    varies = background.usable[: background.grid.p] > 0
    equal_weights = 0.0 if clusters.spec.by_length else math.log(K)
    scores = RowScores(
        np.zeros(n, np.int32), np.full(n, np.inf, dtype), np.empty(n if densities else 0), np.zeros(n if densities else 0, np.int32)
    )
    for rows, costs, own in clusters.costs_in_chunks(table, full=densities):
        least = costs.min(axis=1)
        scores.labels[rows] = costs.argmin(axis=1)
        if K > 1:
            second = np.partition(costs, 1, axis=1)[:, 1]
            scores.margins[rows] = np.minimum(second - least, np.finfo(dtype).max)
        if densities:
            part = table.take(rows)
            seen = ~np.isnan(part.numeric)
            normalisers = 0.5 * math.log(2.0 * math.pi) * (seen & varies).sum(axis=1)
            mixture = np.log(np.exp(least[:, None] - costs).sum(axis=1)) - least
            scores.densities[rows] = mixture - own - normalisers - equal_weights
            scores.absent[rows] = (~seen).sum(axis=1) + (part.codes == part.n_levels.astype(part.codes.dtype)).sum(axis=1)
    return scores


def typical_rows(scores: RowScores, n_clusters: int, most: int, counted: NDArray[np.bool_] | None = None) -> list[NDArray[np.intp]]:
    """Positions of the rows of every cluster with the highest densities, highest first.

    Rows count that belong clearly to their cluster and have as few missing cells as any of them, or all rows of a cluster without such
    rows. Of equal densities, which equal rows have, the first is listed.
    """
    out = []
    for k in range(n_clusters):
        members = np.flatnonzero(scores.labels == k if counted is None else (scores.labels == k) & counted)
        clear = members[scores.margins[members] >= CLEAR]
        members = clear if len(clear) else members
        members = members[scores.absent[members] == scores.absent[members].min(initial=np.iinfo(np.int32).max)]
        out.append(_highest(scores.densities, members, most))
    return out


def _highest(densities: Floats, members: NDArray[np.intp], most: int) -> NDArray[np.intp]:
    """The first row of each of the highest densities; all members are sorted only if too many of the leading ones are equal."""
    pools, few = [members], min(_SORTED_AT_ONCE * most, len(members))
    if few < len(members):
        least = np.partition(densities[members], len(members) - few)[len(members) - few]
        pools.insert(0, members[densities[members] >= least])
    for pool in pools:
        order = pool[np.argsort(-densities[pool], kind="stable")]
        order = order[np.flatnonzero(np.diff(densities[order], prepend=np.inf) != 0.0)]
        if len(order) >= most:
            break
    return order[:most]


def unusual_rows(scores: RowScores, most: int, counted: NDArray[np.bool_] | None = None) -> NDArray[np.intp]:
    """Positions of the rows with the lowest densities, lowest first; of equal ones the first."""
    densities = scores.densities if counted is None else np.where(counted, scores.densities, np.inf)
    candidates = np.flatnonzero(densities < np.inf)
    if most < len(candidates):
        candidates = np.flatnonzero(densities <= np.partition(densities, most - 1)[most - 1])
    return candidates[np.argsort(densities[candidates], kind="stable")[:most]]
