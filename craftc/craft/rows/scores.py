"""Rows under a fitted CRAFT: margins, log densities, rows that are typical of a cluster or unusual in the
table, rows that fit no cluster, and cells that are odd in the cluster of their row.

The *outlier score* of a row is what it costs in its cheapest cluster, its label included, less what it costs
without clusters, under the table's own distributions of the columns:

    s_n = min_k c_nk - sum_d l0_d(x_nd)      (nats).

A negative score says what the clusters save in the row; summed over the rows this is, but for prices and
priors, what they save in the table. With P = `outlier_price`, a row belongs to a cluster if it saves P nats
there: a likelihood ratio of e^P against no cluster. Other rows are outliers. Where the whole table is one
cluster, this is the table's own description: rows save nothing by definition, and none is an outlier.

The *surprisal* of a cell is minus the log probability of its level in the cluster of its row, less the mean
of this over the cluster's own distribution p, its entropy H:

    u_nd = - log p(x_nd) - H(p)

so that it is 0 on average, whatever the number of levels. A column that the cluster holds in a covariance is
described by the normal density of its score given the row's other scores in this covariance: with r the
deviation from its mean, in standard deviations, u = (r^2 - 1) / 2.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from craftc._common.labels import chunks
from craftc._common.threads import parallel_map, threads_for
from craftc._common.typing import Array, Floats, Labels
from craftc._kernels import craft as craft_kernel
from craftc._kernels import craft_rows as rows_kernel
from craftc._kernels.craft import FAR
from craftc.craft.clusters import Clusters, distributions_of
from craftc.craft.covariance import ClusterCovariances
from craftc.describe.structure import CLEAR
from craftc.table import MixedTable

MOST_TYPICAL, MOST_UNUSUAL = 32, 256  # rows of a cluster, and of the table, that a fitted model keeps
# nats of margin: the row belongs to its cluster with a probability of .9, if only two compete
CLEAR_MARGIN = math.log(CLEAR / (1.0 - CLEAR))
_UNCLEAR = 1 << 31  # added to the missing cells of a row that does not belong clearly to its cluster
_MOST_WAITING = 1 << 12  # rows that may be extremes and are not compared yet
_STEPS = rows_kernel.STEPS  # integers to a nat or a probability of 1
_LARGEST = 2.0**10  # nats: larger margins count as this
# rows of a slice that one thread takes at a time, at least, and slices, at most: a slice begins without
# knowing the extremes of the others
_SLICE, _SLICES = 1 << 17, 16
_FARTHEST = 2.0**20  # nats: log densities that are farther from 0 count as this
OUTLIER = -1  # label of a row that fits no cluster
_ROUNDING = 1e-6  # nats: a row that costs the same in its cluster as without is no outlier


def _nothing() -> Floats:
    return np.empty(0)


@dataclass
class RowScores:
    """What a model says of some rows; without densities all from `densities` on is empty."""

    labels: Labels  # (n,)
    margins: (
        Floats  # (n,) nats by which a row prefers its cheapest cluster to the second; inf with one cluster
    )
    densities: Floats = field(default_factory=_nothing)  # (n,) log densities or probabilities, nats
    # (n,) nats of rows in their cheapest clusters, less those without clusters
    outlier_scores: Floats = field(default_factory=_nothing)
    absent: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))  # (n,) missing cells
    # (n,) sums of the probabilities of the clusters over the largest
    totals: Floats = field(default_factory=_nothing)
    entropies: Floats = field(default_factory=_nothing)  # (n,) entropy of the assignment, nats
    # (K,) weighted sums of the probabilities of the clusters, each rounded to an integer of 2^-20
    sizes: Floats = field(default_factory=_nothing)


def row_scores(
    clusters: Clusters, table: MixedTable, *, densities: bool = True, weights: Floats | None = None
) -> Iterator[tuple[slice, RowScores]]:
    """Slices of the rows, and what the model says of them."""
    for rows, costs, of_table, shared in clusters.costs_in_chunks(table, full=densities):
        labels, (least, second) = np.empty(len(costs), np.int32), np.empty((2, len(costs)))
        rows_kernel.cheapest(costs, labels, least, second)
        scores = RowScores(labels, second - least)
        if densities:
            weight = np.empty(0) if weights is None else weights[rows]
            scores.outlier_scores = least + shared
            own = least + (of_table + shared)
            _add_densities(scores, clusters, table.take(rows), costs, least, own, weight)
        yield rows, scores


def _add_densities(
    scores: RowScores,
    clusters: Clusters,
    part: MixedTable,
    costs: Floats,
    least: Floats,
    own: Floats,
    weight: Floats,
) -> None:
    """What needs the mixture. `own`: costs of the rows in their cheapest clusters."""
    background = clusters.background
    totals, spreads = np.empty((2, len(costs)))
    scores.sizes = rows_kernel.probabilities(costs, least, weight, totals, spreads)
    log_totals = np.log(totals)
    scores.totals, scores.entropies = totals, log_totals - spreads / totals
    # scores of covariances repeat the levels, and do not count as features
    varies = (background.usable[: background.grid.p] > 0).astype(np.uint8)
    seen, absent = np.empty((2, len(costs)), np.int64)
    rows_kernel.count_cells(part.numeric, part.codes, varies, part.n_levels, seen, absent)
    equal_weights = 0.0 if clusters.spec.price is None else math.log(len(clusters.mask))
    scores.densities = log_totals - own - 0.5 * math.log(2.0 * math.pi) * seen - equal_weights
    scores.absent = absent


def margins_of(clusters: Clusters, table: MixedTable) -> Floats:
    """(n,) margins in nats."""
    return np.concatenate(
        [scores.margins for _, scores in row_scores(clusters, table, densities=False)] or [np.empty(0)]
    )


def densities_of(clusters: Clusters, table: MixedTable, penalties: Floats) -> Floats:
    """(n,) log densities in nats, less the penalties (n,) of the rows."""
    found = [scores.densities for _, scores in row_scores(clusters, table)] or [np.empty(0)]
    return np.concatenate(found) - penalties


class RowExtremes:
    """The `most_typical` rows of every cluster with the highest densities and the `most_unusual` rows of the
    table with the lowest, of rows that come in slices.

    Typical are rows that belong clearly to their cluster and have as few missing cells as any of them; in a
    cluster without such rows, all rows count. Of equal densities, which equal rows have, the first is
    typical.
    """

    def __init__(self, n_clusters: int, most_typical: int, most_unusual: int) -> None:
        self._most_typical, self._most_unusual = most_typical, most_unusual
        self._typical = [_Kept()] * n_clusters
        self._unusual = _Kept()
        self._rank = np.full(
            n_clusters, np.iinfo(np.int64).max
        )  # least number of missing cells of a typical row
        self._least = np.full(n_clusters, -np.inf)  # density that a further typical row must exceed
        self._highest = np.inf  # density that a further unusual row must be below
        # rows that wait to be compared: positions, labels, ranks, densities; and positions, densities
        self._may_be_typical: list[tuple[Array, Array, Array, Floats]] = []
        self._may_be_unusual: list[tuple[Array, Floats]] = []
        self._n_waiting = 0

    def add(
        self, first: int, labels: Labels, scores: RowScores, counted: NDArray[np.bool_] | None = None
    ) -> None:
        """Add the rows from position `first` on; only `counted` ones, if given. `compare` ends a series."""
        rank = scores.absent + _UNCLEAR * (scores.margins < CLEAR_MARGIN)
        typical, unusual = np.empty((2, len(labels)), np.uint8)
        own = labels.astype(np.int32, copy=False)
        rows_kernel.find_extremes(
            own, rank, scores.densities, self._rank, self._least, self._highest, typical, unusual
        )
        better, lower = typical.view(np.bool_), unusual.view(np.bool_)
        if counted is not None:
            better, lower = better & counted, lower & counted
        rows, low = np.flatnonzero(better), np.flatnonzero(lower)
        self._may_be_typical.append((first + rows, own[rows], rank[rows], scores.densities[rows]))
        self._may_be_unusual.append((first + low, scores.densities[low]))
        self._n_waiting += len(rows) + len(low)
        if self._n_waiting > _MOST_WAITING:
            self.compare()

    def compare(self) -> None:
        """Compare the rows that wait with the extremes so far."""
        if not self._n_waiting:
            return
        rows, labels, rank, densities = map(np.concatenate, zip(*self._may_be_typical, strict=True))
        for k in np.flatnonzero(np.bincount(labels)).tolist():
            of_k = np.flatnonzero(labels == k)
            of_k = of_k[rank[of_k] == rank[of_k].min()]
            kept = self._typical[k] if rank[of_k[0]] == self._rank[k] else _Kept()
            distinct = kept.joined(rows[of_k], -densities[of_k]).distinct(self._most_typical)
            self._typical[k], self._rank[k] = distinct, rank[of_k[0]]
            self._least[k] = -distinct.keys[-1] if len(distinct.keys) == self._most_typical else -np.inf
        rows, densities = map(np.concatenate, zip(*self._may_be_unusual, strict=True))
        self._unusual = self._unusual.joined(rows, densities).some(slice(self._most_unusual))
        if len(self._unusual.keys) == self._most_unusual:
            self._highest = self._unusual.keys[-1]
        self._may_be_typical, self._may_be_unusual, self._n_waiting = [], [], 0

    def join(self, later: RowExtremes) -> None:
        """Take the extremes of later rows into account."""
        for k, kept in enumerate(later._typical):
            if later._rank[k] < self._rank[k]:
                self._typical[k], self._rank[k] = kept, later._rank[k]
            elif later._rank[k] == self._rank[k]:
                self._typical[k] = self._typical[k].joined(kept.rows, kept.keys).distinct(self._most_typical)
        self._unusual = self._unusual.joined(later._unusual.rows, later._unusual.keys).some(
            slice(self._most_unusual)
        )

    @property
    def typical(self) -> list[NDArray[np.intp]]:
        """Positions of the typical rows of every cluster, highest density first."""
        return [kept.rows for kept in self._typical]

    @property
    def unusual(self) -> NDArray[np.intp]:
        """Positions of the rows with the lowest densities, lowest first; of equal ones the first."""
        return self._unusual.rows


class _Kept(NamedTuple):
    """Rows by ascending key, of equal keys by position."""

    rows: NDArray[np.intp] = np.empty(0, np.intp)
    keys: Floats = np.empty(0)

    def joined(self, rows: NDArray[np.intp], keys: Floats) -> _Kept:
        """These rows and later ones."""
        every, key = np.concatenate([self.rows, rows]), np.concatenate([self.keys, keys])
        order = np.argsort(key, kind="stable")
        return _Kept(every[order], key[order])

    def some(self, chosen: NDArray[np.intp] | slice) -> _Kept:
        return _Kept(self.rows[chosen], self.keys[chosen])

    def distinct(self, most: int) -> _Kept:
        """The first row of every key, of the lowest keys."""
        keys, first = self.keys, np.ones(len(self.keys), bool)
        np.not_equal(keys[1:], keys[:-1], out=first[1:])
        return self.some(first.nonzero()[0][:most])


def extremes_of(
    clusters: Clusters, table: MixedTable, most_typical: int, most_unusual: int, penalties: Floats
) -> RowExtremes:
    """Typical and unusual rows of a table; `penalties` (n,) lower their densities."""
    extremes = RowExtremes(len(clusters.mask), most_typical, most_unusual)
    for rows, scores in row_scores(clusters, table):
        scores.densities -= penalties[rows]
        extremes.add(rows.start, scores.labels, scores)
    extremes.compare()
    return extremes


class MeanMargins:
    """Mean margin of the rows of every cluster, of rows that come in slices; sums of unweighted rows are
    integers, in any order the same.
    """

    def __init__(self, n_clusters: int) -> None:
        self._total, self._size = np.zeros(n_clusters, np.int64), np.zeros(n_clusters)
        self._weighted = np.zeros(n_clusters)

    def add(self, labels: Labels, margins: Floats, weight: Floats | None) -> None:
        """Take further rows into account; margins above 1024 nats count as 1024."""
        K = len(self._size)
        steps = np.rint(np.minimum(margins, _LARGEST) * _STEPS)
        if weight is None:
            self._total += np.bincount(labels, steps, K).astype(np.int64)  # of few rows, exact in float64
            self._size += np.bincount(labels, minlength=K)
        else:
            self._weighted += np.bincount(labels, steps * weight, K)
            self._size += np.bincount(labels, weight, K)

    def join(self, other: MeanMargins) -> None:
        """Take the rows of another part of the table into account."""
        self._total += other._total
        self._size += other._size
        self._weighted += other._weighted

    def values(self) -> Floats:
        """(K,) nats; inf with one cluster."""
        if len(self._size) == 1:
            return np.array([np.inf])
        whole = (self._total + self._weighted) / _STEPS
        return np.asarray(whole / np.where(self._size > 0, self._size, np.nan))


class MixtureSums:
    """Sums of the probabilities of the rows under the mixture, of rows that come in slices; those of
    unweighted rows are integers, in any order the same.
    """

    def __init__(self, n_clusters: int) -> None:
        self._sizes, self._weighted_sizes = np.zeros(n_clusters, np.int64), np.zeros(n_clusters)
        # log density, entropy, rows placed clearly
        self._others, self._weighted_others = [0, 0, 0], np.zeros(3)

    def add(self, scores: RowScores, weight: Floats | None) -> None:
        """Take further rows into account."""
        densities = np.clip(scores.densities, -_FARTHEST, _FARTHEST)
        others = np.stack([densities, scores.entropies, CLEAR * scores.totals <= 1.0])
        others = np.rint(others * _STEPS)
        if weight is None:
            self._sizes += scores.sizes.astype(np.int64)
            self._others = [a + int(b) for a, b in zip(self._others, others.sum(axis=1), strict=True)]
        else:
            self._weighted_sizes += scores.sizes
            self._weighted_others += others @ weight

    def join(self, other: MixtureSums) -> None:
        """Take the rows of another part of the table into account."""
        self._sizes += other._sizes
        self._weighted_sizes += other._weighted_sizes
        self._others = [a + b for a, b in zip(self._others, other._others, strict=True)]
        self._weighted_others += other._weighted_others

    def values(self) -> MixtureFit:
        """The sums in nats and rows."""
        sizes = (self._sizes + self._weighted_sizes) / _STEPS
        others = [(a + float(b)) / _STEPS for a, b in zip(self._others, self._weighted_others, strict=True)]
        return MixtureFit(sizes, *others)


@dataclass(frozen=True)
class MixtureFit:
    """How a mixture fits the rows of its fit; with weights, their sums."""

    sizes: Floats  # (K,) sums of the probabilities of the clusters
    log_likelihood: float  # nats
    entropy: float  # of the assignment of all rows, nats
    clear: float  # rows that are in their most probable cluster with a probability of at least CLEAR


@dataclass
class RowStatistics:
    """What the rows of a fit say: their margins, their probabilities, and which are typical or unusual."""

    margins: NDArray[np.float32]  # (n,)
    outlier_scores: NDArray[np.float32]  # (n,) of densities
    means: MeanMargins
    # None under the paper's models, which are no densities
    extremes: RowExtremes | None
    mixture: MixtureSums | None

    @classmethod
    def of_rows(
        cls,
        clusters: Clusters,
        table: MixedTable,
        labels: Array,
        weights: Floats | None,
        first: int = 0,
        n_threads: int = 1,
    ) -> RowStatistics:
        """The statistics of the rows from position `first` on."""
        n, K, densities = len(table), len(clusters.mask), clusters.spec.coherent
        margins = table._empty_block((n,), np.float32)
        outlier_scores = table._empty_block((n if densities else 0,), np.float32)

        def of_slice(rows: slice) -> RowStatistics:
            own = None if weights is None else weights[rows]
            extremes = RowExtremes(K, MOST_TYPICAL, MOST_UNUSUAL) if densities else None
            mixture = MixtureSums(K) if densities else None
            part = cls(margins[rows], outlier_scores[rows], MeanMargins(K), extremes, mixture)
            part._add(clusters, table.take(rows), labels[rows], own, first + rows.start)
            return part

        size = max(_SLICE, -(-n // _SLICES))
        slices = [slice(start, min(start + size, n)) for start in range(0, max(n, 1), size)]
        work = n * K * len(clusters.background.usable)
        whole, *others = parallel_map(of_slice, slices, threads_for(n_threads, work))
        for later in others:
            whole.join(later)
        whole.margins, whole.outlier_scores = margins, outlier_scores
        return whole

    def _add(
        self, clusters: Clusters, table: MixedTable, labels: Array, weights: Floats | None, first: int
    ) -> None:
        most = np.finfo(np.float32).max if len(clusters.mask) > 1 else np.inf
        densities = self.extremes is not None
        for rows, scores in row_scores(clusters, table, densities=densities, weights=weights):
            own = None if weights is None else weights[rows]
            self.margins[rows] = np.minimum(scores.margins, most)
            self.means.add(labels[rows], scores.margins, own)
            if self.extremes is not None:
                counted = None if own is None else own > 0
                self.extremes.add(first + rows.start, labels[rows], scores, counted)
            if self.mixture is not None:
                self.mixture.add(scores, own)
                self.outlier_scores[rows] = scores.outlier_scores
        if self.extremes is not None:
            self.extremes.compare()

    def join(self, later: RowStatistics) -> None:
        """Take later rows into account; margins and outlier scores stay those of the first rows."""
        self.means.join(later.means)
        if self.extremes is not None and later.extremes is not None:
            self.extremes.join(later.extremes)
        if self.mixture is not None and later.mixture is not None:
            self.mixture.join(later.mixture)


def contributions(
    clusters: Clusters, table: MixedTable
) -> tuple[NDArray[np.intp], NDArray[np.intp], Floats, Floats]:
    """Best and second best cluster of every row, and contributions of features (n, D) and cluster sizes (n,)
    to the margin, nats.
    """
    costs = clusters.row_costs(table)
    order = np.argsort(costs, axis=1, kind="stable")
    own, background, tables = order[:, 0], clusters.background, clusters.tables()
    p, grid = background.grid.p, background.grid
    parts = np.zeros((len(table), len(background.usable)))
    if costs.shape[1] == 1:
        return own, np.full(len(table), -1), parts, np.zeros(len(table))
    other = order[:, 1]
    for d in range(p):
        z = (table.numeric[:, d].astype(np.float64) - background.centre[d]) * background.scale[d]
        z = np.clip(z, -craft_kernel.FAR, craft_kernel.FAR)
        cost = [
            (tables.square[d, k] * z + tables.linear[d, k]) * z + tables.offset[d, k] for k in (own, other)
        ]
        parts[:, d] = np.where(np.isnan(z), 0.0, cost[1] - cost[0])
    held = clusters.covariances
    if held is not None:
        columns = held.cross.columns
        z = (table.numeric[:, columns].astype(np.float64) - held.centre) * held.scale
        z = np.clip(z, -craft_kernel.FAR, craft_kernel.FAR)
        for k in np.flatnonzero(held.block.any(axis=1)):
            for sign, rows in ((-1.0, np.flatnonzero(own == k)), (1.0, np.flatnonzero(other == k))):
                parts[np.ix_(rows, columns)] += sign * held.conditional_costs(z[rows], int(k))
    for d, start in enumerate(grid.level_start):
        at = start + table.codes[:, d].astype(np.intp)
        parts[:, p + d] = tables.level[at, other] - tables.level[at, own]
    return own, other, parts, tables.base[other] - tables.base[own]


def contribution_columns(
    clusters: Clusters, table: MixedTable, columns: list[Any], source: NDArray[np.intp]
) -> dict[Any, Array]:
    """The columns of ``CRAFT.explain``: contributions of the input columns, each the sum of its
    encoded columns.

    An input column with the name of one of the first three columns is listed as "NAME (feature)".
    """
    own, other, parts, sizes = contributions(clusters, table)
    per_column = np.zeros((len(columns), len(table)))
    for d, column in enumerate(source):
        per_column[column] += parts[:, d]
    first = {"cluster": own, "next": other, "size": sizes}
    return first | {
        f"{name} (feature)" if name in first else name: values
        for name, values in zip(columns, per_column, strict=True)
    }


def outlier_scores_of(clusters: Clusters, table: MixedTable) -> NDArray[np.float32]:
    """(n,) outlier scores of encoded rows, nats."""
    found = [scores.outlier_scores for _, scores in row_scores(clusters, table)]
    return np.concatenate(found or [np.empty(0)]).astype(np.float32)


def is_whole_table(clusters: Clusters) -> bool:
    """Whether the only cluster describes rows as the table's own distributions do."""
    held = clusters.covariances
    return len(clusters.mask) == 1 and not clusters.mask.any() and (held is None or not held.block.any())


def marked(labels: Labels, scores: NDArray[np.float32], price: float, clusters: Clusters) -> Labels:
    """The labels, those of outliers replaced; without clusters there are none."""
    if is_whole_table(clusters):
        return labels
    most = float(np.finfo(np.float32).max)
    allowed = np.float32(np.clip(_ROUNDING - price, -most, most))
    return np.where(scores > allowed, np.int32(OUTLIER), labels)


def surprisals(clusters: Clusters, table: MixedTable, source: NDArray[np.intp], n_columns: int) -> Floats:
    """(n, n_columns) surprisals of encoded rows in their cheapest clusters, nats; NaN for missing cells and
    levels without a row in the fit. `source`: the input column of every encoded column.
    """
    grid, probability = clusters.moments.grid, distributions_of(clusters)[2]
    with np.errstate(divide="ignore", invalid="ignore"):
        cost = np.where(probability > 0, 0.0 - np.log(probability), np.nan)
        terms = np.where(probability > 0, probability * cost, 0.0)
    usual = np.add.reduceat(terms, grid.level_start, axis=1) if grid.q else np.empty((len(cost), 0))
    cost -= np.repeat(usual, clusters.background.level_widths, axis=1)
    out, labels = np.full((len(table), n_columns), np.nan), clusters.cheapest(table, 1)
    for rows in chunks(len(table)):
        for d, start in enumerate(grid.level_start):
            level = start + table.codes[rows, d].astype(np.intp)
            out[rows, source[grid.p + d]] = cost[labels[rows], level]
    held = clusters.covariances
    for k in np.flatnonzero([] if held is None else held.block.any(axis=1)).tolist():
        assert held is not None
        of_k, block = np.flatnonzero(labels == k), held.block[k] > 0
        z = table.numeric[of_k][:, held.cross.columns[block]].astype(np.float64) - held.centre[block]
        z = np.clip(z * held.scale[block], -FAR, FAR)
        out[np.ix_(of_k, source[held.cross.columns[block]])] = _given_others(held, k, block, z)
    return out


def _given_others(held: ClusterCovariances, k: int, block: NDArray[np.bool_], z: Floats) -> Floats:
    """(n, m) surprisals of scores in the covariance of cluster k, each given the others of its row."""
    out, missing = np.full(z.shape, np.nan), np.isnan(z)
    patterns, of = np.unique(missing, axis=0, return_inverse=True)
    columns = np.flatnonzero(block)
    for at, pattern in enumerate(patterns):
        seen, rows = columns[~pattern], np.flatnonzero(of.reshape(-1) == at)
        if len(seen):
            precision = np.linalg.inv(held.matrix[k][np.ix_(seen, seen)])
            white = (z[np.ix_(rows, ~pattern)] - held.mean[k, seen]) @ precision
            out[np.ix_(rows, ~pattern)] = 0.5 * (white * white / np.diag(precision) - 1.0)
    return out
