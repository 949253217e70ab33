"""The search for a partition whose clusters may hold covariances, of their own or a shared one.

Passes and merges alternate until J stops falling. `craftc.craft.search.forms` compares what they find.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Generic

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from craftc._common.labels import join, numbering, without
from craftc._common.merge_path import MergePath
from craftc._common.random import SAMPLE_ROWS
from craftc._common.typing import Floats, Mask
from craftc._kernels.craft_cross_products import Conditionals
from craftc.craft.block_pricing import BlockPricing, unions
from craftc.craft.clusters import Clusters
from craftc.craft.fitted import PathClusters
from craftc.craft.products import (
    CrossProducts,
    first_conditionals,
)
from craftc.craft.rows import L, S
from craftc.craft.search import FitConfig, drop_empty
from craftc.table.moments import Moments

_MAX_PASSES = 50
_TOLERANCE = 1e-9  # nats by which a step must lower J
_STABLE = 0.1  # nats: expected missing cells that lower J by less stay
_FEW_CLUSTERS = 30  # clusters below which every merge may be followed by passes before J is compared


@dataclass
class CovarianceState(Generic[S]):
    """A partition whose clusters may hold covariances."""

    before: S  # labels before the latest merges; -1: a row of weight 0 without a cluster
    place: NDArray[np.int32]  # current cluster of each former label; the last entry maps label -1
    clusters: Clusters
    cross: CrossProducts
    K: int
    objective: float  # J, nats
    converged: bool = False  # whether the last pass moved no row or, in a long table, lowered J by little


class CovarianceSearch(Generic[L, S]):
    """Passes and merges of clusters that may hold covariances of these numeric columns (P,)."""

    def __init__(self, config: FitConfig[L, S], columns: NDArray[np.intp], prior: Floats) -> None:
        """`prior` (P, P): correlations of the table."""
        self.config, self.rows, self.columns, self.prior = config, config.rows, columns, prior
        self.tolerance = max(_TOLERANCE, config.rounding)
        self.n_passes = 0
        self._prices: BlockPricing | None = None  # the same for all partitions

    def begin(self, labels: L, mask: Mask | None) -> CovarianceState[S]:
        """The state of a start partition; `mask`: None: chosen from the start."""
        K = self.rows.n_clusters(labels)
        moments = self.config.moments(labels, K)
        conditionals = first_conditionals(self.config.background, self.columns, moments)
        return self.state(labels, self.rows.snapshot(labels, K), moments, conditionals, mask)

    def state(
        self,
        labels: L,
        snapshot: S,
        moments: Moments,
        conditionals: Conditionals | None,
        choice: Mask | None,
    ) -> CovarianceState[S]:
        """The state of a partition, with a snapshot of its labels; `choice`: the features from which the
        choice continues.
        """
        config, K = self.config, moments.n_clusters
        grid = config.background.grid
        sums = self.rows.cross_products(self.columns, grid, labels, K, conditionals, config.n_threads)
        cross = CrossProducts(self.columns, sums, self.prior)
        return self._priced(snapshot, numbering(K), moments, cross, choice)

    def _priced(
        self,
        before: S,
        place: NDArray[np.int32],
        moments: Moments,
        cross: CrossProducts,
        choice: Mask | None,
        keep: bool = False,
    ) -> CovarianceState[S]:
        config = self.config
        if self._prices is None:
            self._prices = BlockPricing(config.pricing, config.background, config.spec, cross)
        clusters = Clusters(moments, config.background, config.spec, choice, cross, self._prices, keep)
        return CovarianceState(before, place, clusters, cross, moments.n_clusters, clusters.objective)

    def labels_of(self, state: CovarianceState[S]) -> L:
        """The present cluster of every row."""
        return self.rows.renumbered(self.rows.restored(state.before), state.place)

    # ---- steps ----

    def passes(self, state: CovarianceState[S], fewest: int = 1) -> CovarianceState[S]:
        """Batch passes while J falls and at least `fewest` clusters remain."""
        config = self.config
        large, stable = len(config.rows) > SAMPLE_ROWS, False
        for _ in range(_MAX_PASSES if state.K > 1 else 0):
            if config.stop.is_set():
                raise KeyboardInterrupt
            self.n_passes += 1
            threads = config.threads(state.K * (1 + len(self.columns) // 2))
            labels, moved = self.rows.reassigned(state.clusters, self.labels_of(state), self.columns, threads)
            conditionals = state.clusters.conditionals
            if not moved and (conditionals is None or stable):
                state.converged = True
                break
            moments, cross = self.rows.sums_after(
                state.before,
                state.place,
                labels,
                state.clusters.moments,
                state.cross,
                conditionals,
                config.n_threads,
            )
            labels, left = drop_empty(self.rows, moments, labels)
            snapshot, choice = self.rows.snapshot(labels, len(left)), state.clusters.choice[left]
            sums = numbering(len(left)), moments, cross.select(left), choice
            new = self._priced(snapshot, *sums)
            if new.objective >= state.objective - self.tolerance:  # the choice came to a worse one
                new = self._priced(snapshot, *sums, keep=True)
            del labels  # no second array of labels in the next pass
            fell = state.objective - new.objective
            if fell <= self.tolerance or fewest > new.K:
                state.converged = not moved
                break
            state, stable = new, fell < _STABLE
            if config.callback:
                config.callback(1, state.K, state.objective)
            if large and fell < state.clusters.pricing.h:
                state.converged = True
                break
        return state

    def pair_deltas(self, state: CovarianceState[S], only: int = -1) -> Floats:
        """(K, K) change of J by each merge, without that of a shared covariance; +inf on and below the
        diagonal, and where `only` is no part.
        """
        K, clusters, prices = state.K, state.clusters, self._prices
        held = clusters.covariances
        assert prices is not None
        assert held is not None
        each = np.arange(K)
        chosen = each[:, None] < each
        if only >= 0:
            chosen &= (each[:, None] == only) | (each == only)
        first, second = np.divmod(np.flatnonzero(chosen), K)
        tied = self.config.spec.tied
        own = clusters.costs + held.saving if tied else clusters.costs
        products = None if tied else state.cross.sums
        costs = prices.union_costs(
            clusters.pricing,
            clusters.moments.groups,
            products,
            first,
            second,
            held.normals.shared if held.normals is not None else None,
            self.config.n_threads,
        )
        deltas = np.full((K, K), np.inf)
        deltas[first, second] = costs - own[first] - own[second]
        return deltas

    def tied_deltas(self, state: CovarianceState[S]) -> Floats:
        """(K, K) change of J by each merge, by what the shared covariance costs, but for its row of prior."""
        held, prices = state.clusters.covariances, self._prices
        assert prices is not None
        assert held is not None
        block = np.flatnonzero(held.block[0])
        if not self.config.spec.tied or not len(block):
            return np.zeros((state.K, state.K))
        matrix = held.matrix[0][np.ix_(block, block)]
        white = solve_triangular(np.linalg.cholesky(matrix), held.mean[:, block].T, lower=True).T
        apart = (white[:, None] - white) ** 2
        if np.count_nonzero(matrix) > len(block):
            apart = apart.sum(axis=2, keepdims=True)
        size, N = held.weight, held.weight.sum()
        both = size[:, None] * size / (size[:, None] + size)
        grown = np.log1p(both[:, :, None] * apart / N).sum(axis=2)
        return np.asarray(0.5 * N * grown - len(block) * prices.h)

    def merge(self, state: CovarianceState[S], i: int, j: int) -> CovarianceState[S]:
        """The state after cluster j has joined cluster i < j; later clusters shift down."""
        place = state.place.copy()
        join(place, i, j)
        old = state.clusters.moments
        moments = Moments(old.grid, old.unit, state.K - 1)
        moments.groups[:] = without(old.groups, j)
        moments.groups[i] = unions(old.groups, np.array([i]), np.array([j]), old.grid.first_numeric)[0]
        choice = state.clusters.choice
        union = without(choice, j)
        union[i] |= choice[j]
        return self._priced(state.before, place, moments, state.cross.merged(i, j), union)

    def expected_anew(self, state: CovarianceState[S]) -> CovarianceState[S]:
        """The same partition with missing cells as its clusters expect them, unless the table is complete or
        long.
        """
        conditionals = state.clusters.conditionals
        if conditionals is None or len(self.rows) > SAMPLE_ROWS:
            return state
        labels, moments, choice = self.labels_of(state), state.clusters.moments, state.clusters.choice
        new = self.state(labels, self.rows.snapshot(labels, state.K), moments, conditionals, choice)
        return new if new.objective < state.objective else state

    def cheapest_merge(self, state: CovarianceState[S], deltas: Floats) -> CovarianceState[S]:
        """Merge the cheapest pair, at any price; `deltas` are updated in place for the next merge."""
        K = state.K
        i, j = best_pair(deltas[:K, :K] + self.tied_deltas(state))
        state = self.expected_anew(self.merge(state, i, j))
        rest = without(np.arange(K), j)
        new = self.pair_deltas(state, i)
        deltas[: K - 1, : K - 1] = deltas[rest[:, None], rest]
        deltas[i, : K - 1], deltas[: K - 1, i] = new[i, :], new[:, i]
        return state

    def shortest_merges(
        self, state: CovarianceState[S], fewest: int = 1
    ) -> tuple[CovarianceState[S], CovarianceState[S] | None]:
        """The shortest description on the way of cheapest merges down to `fewest` clusters; the state itself
        if none is shorter.

        And the state after the first of these merges; None if there is none.

        The way leads over merges that lengthen the description: the first slices of a cloud that are joined
        seldom pay for a covariance of many columns, all of them together do.
        """
        best, first = state, None
        deltas = self.pair_deltas(state)
        while fewest < state.K:
            state = self.cheapest_merge(state, deltas)
            first = state if first is None else first
            if state.objective < best.objective - self.tolerance:
                best = state
        return best, first

    def shorter_after_passes(
        self, state: CovarianceState[S], merged: CovarianceState[S] | None, fewest: int
    ) -> CovarianceState[S]:
        """The first shorter description on the same way, from its first merge, with passes after each; the
        state if there is none.
        """
        while merged is not None and merged.K < _FEW_CLUSTERS:
            merged = self.passes(merged, fewest)
            if merged.objective < state.objective - self.tolerance:
                return merged
            merged = self.cheapest_merge(merged, self.pair_deltas(merged)) if fewest < merged.K else None
        return state

    # ---- the step ----

    def run(self, state: CovarianceState[S], fewest: int, far: bool = False) -> CovarianceState[S]:
        """Passes and merges in turn until J stops falling or `fewest` clusters are left.

        `far`: J is also compared after passes that follow each of many merges.
        """
        state = self.passes(state, fewest)
        before = np.inf
        while state.objective < before:
            before = state.objective
            shortest, merged = self.shortest_merges(state, fewest)
            if shortest.K < state.K:
                state = self.passes(shortest, fewest)
            elif far:
                state = self.shorter_after_passes(state, merged, fewest)
        return state

    def merged_down(self, state: CovarianceState[S], n_clusters: int) -> CovarianceState[S]:
        """The partition into at most `n_clusters` clusters on the merge path."""
        while n_clusters < state.K:
            state = self.next_on_path(state)[0]
        return state

    def next_on_path(self, state: CovarianceState[S]) -> tuple[CovarianceState[S], tuple[int, int]]:
        """One step down the merge path, and the merged pair: the cheapest merge, then passes; without passes
        in a table of more than 16 384 rows, which would read all rows each.
        """
        pair = best_pair(self.pair_deltas(state) + self.tied_deltas(state)) if state.K > 2 else (0, 1)
        merged = self.merge(state, *pair)
        return (merged if len(self.rows) > SAMPLE_ROWS else self.passes(merged)), pair

    def number_by_first_appearance(self, state: CovarianceState[S]) -> CovarianceState[S]:
        """Assign rows of weight 0, which no pass waits for, then number the clusters by first appearance."""
        labels, config = self.labels_of(state), self.config
        if len(config.weight) and isinstance(labels, np.ndarray):
            apart = np.flatnonzero(config.weight == 0)
            of_apart = labels[apart]
            state.clusters.assign(config.rows.take(apart), np.zeros(len(apart), np.int64), of_apart, 1)
            labels[apart] = of_apart
        order = self.rows.first_appearance(labels, state.K)
        same = numbering(state.K)
        clusters = state.clusters
        if np.array_equal(order, same[:-1]):
            return replace(state, before=self.rows.snapshot(labels, state.K), place=same)
        numbered = self.rows.snapshot(
            self.rows.renumbered(labels, np.argsort(order).astype(np.int32)), state.K
        )
        moments, cross = clusters.moments.select(order), state.cross.select(order)
        new = self._priced(numbered, same, moments, cross, clusters.choice[order], keep=True)
        return replace(new, converged=state.converged)

    def merge_path(
        self, state: CovarianceState[S]
    ) -> tuple[MergePath, PathClusters, CovarianceState[S] | None]:
        """The partition, numbered by first appearance, and every partition on the way down to one cluster;
        their clusters; and the partition of the lowest J on the way, if it is below that of the first.
        """
        path = self.rows.merge_path(state.before, state.K, state.objective)
        clusters = PathClusters.begin(state.clusters.moments, state.clusters.choice, state.cross)
        least, shortest = state.objective - self.tolerance, None
        while state.K > 1:
            before = state.before  # numbered by first appearance
            state, (i, j) = self.next_on_path(state)
            if len(self.rows) > SAMPLE_ROWS:
                path.append_merge(state.objective, i, j)  # the clusters stay numbered by first appearance
            else:
                state = self.number_by_first_appearance(state)
                self.rows.append_step(path, state.K, state.objective, before, state.before, (i, j))
            clusters.append(
                path.changes()[-1].place, state.clusters.moments.groups, state.clusters.choice, state.cross
            )
            if state.objective < least:
                least, shortest = state.objective, state
        return path, clusters, shortest

    def n_clusters_at(self, state: CovarianceState[S], factor: float) -> int:
        """Clusters that are left if clusters are merged while that lowers J at `factor` times the price."""
        spec = replace(self.config.spec, price_factor=factor * self.config.spec.price_factor)
        scaled = CovarianceSearch(replace(self.config, spec=spec), self.columns, self.prior)
        start = scaled._priced(
            state.before, state.place, state.clusters.moments, state.cross, state.clusters.choice
        )
        return scaled.shortest_merges(start)[0].K

    # ---- forms ----

    def adopted(self, clusters: Clusters, fewest: int) -> CovarianceState[S]:
        """The partition of all rows by clusters of some of them, after passes."""
        labels = self.rows.one_cluster()
        threads = self.config.threads(len(clusters.mask) * (1 + len(self.columns) // 2))
        labels, _ = self.rows.reassigned(clusters, labels, self.columns, threads)
        moments = self.config.moments(labels, len(clusters.mask))
        labels, left = drop_empty(self.rows, moments, labels)
        snapshot = self.rows.snapshot(labels, len(left))
        conditionals = clusters.conditionals
        if conditionals is not None and len(left) < len(clusters.mask):
            conditionals = conditionals.select(left)
        state = self.state(labels, snapshot, moments, conditionals, clusters.choice[left])
        del labels, snapshot
        return self.passes(state, fewest)


def best_pair(deltas: Floats) -> tuple[int, int]:
    """First pair (i < j) within 1e-9 of the smallest entry."""
    i, j = divmod(int((deltas <= deltas.min() + 1e-9).argmax()), len(deltas))
    return i, j
