"""The last step of the automatic search: covariances in the clusters of the diagonal solution, and the merges
that they make worthwhile.

Under the diagonal form a slanted cloud is cut into slices. Once a cluster may hold a covariance, the union of
such slices is shorter than the slices. Passes and merges alternate until J stops falling. A union of
separated round clusters has a covariance, too: a merge that pays by its covariance alone is refused where the
density has a valley between the two clusters.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Generic

import numpy as np
from numpy.typing import NDArray

from craftc._common.labels import join, numbering, without
from craftc._common.merge_path import MergePath
from craftc._common.random import SAMPLE_ROWS, CraftStream, spread
from craftc._common.typing import Floats, Integers, Mask
from craftc._kernels import craft_valley as valley_kernel
from craftc.craft.background import Background, pricing_of
from craftc.craft.clusters import Clusters
from craftc.craft.covariance import (
    MOST_COLUMNS,
    BlockPricing,
    CrossProducts,
    covariance_columns,
    n_complete_columns,
    unions,
)
from craftc.craft.fitted import PathClusters
from craftc.craft.rows import L, S
from craftc.craft.search import FitConfig, drop_empty
from craftc.table.moments import Moments

_MAX_PASSES = 50
_TOLERANCE = 1e-9  # nats by which a step must lower J
_ROUNDING = 2.0**-46  # the same as a share of N D nats
_VALLEY = 0.7  # share of the lower peak: a density below it separates two clusters
# rows of a cluster that a valley can separate: the density of fewer, in the tail of another, is all valleys
_FEWEST_ROWS = 20
_MOST_PAIRS = 200  # pairs that are tried for one merge
_FEW_CLUSTERS = 30  # clusters up to which every merge may be followed by passes before J is compared


@dataclass
class CovarianceState(Generic[S]):
    """A partition whose clusters may hold covariances."""

    before: S  # labels before the latest merges; -1: a row of weight 0 without a cluster
    place: NDArray[np.int32]  # current cluster of each former label; the last entry maps label -1
    clusters: Clusters
    cross: CrossProducts
    K: int
    objective: float  # J, nats


class CovarianceSearch(Generic[L, S]):
    """Passes and merges of clusters that may hold covariances of these numeric columns (P,)."""

    def __init__(self, config: FitConfig[L, S], columns: NDArray[np.intp]) -> None:
        self.config, self.rows, self.columns = config, config.rows, columns
        pricing = pricing_of(config.background, config.spec)
        self.prices = BlockPricing(pricing, config.background, config.spec, columns)
        self.tolerance = max(_TOLERANCE, _ROUNDING * config.background.weight * pricing.D)
        self.n_passes = 0
        self._separated: dict[tuple[bytes, bytes], bool] = {}  # of two clusters, known by their sums

    def state(self, labels: L, snapshot: S, moments: Moments, mask: Mask) -> CovarianceState[S]:
        """The state of a partition, with a snapshot of its labels; `mask`: the masks from which the choice
        of features continues.
        """
        config, K = self.config, moments.n_clusters
        grid = config.background.grid
        cross = self.rows.cross_products(self.columns, grid, labels, K, config.n_threads)
        return self._priced(snapshot, numbering(K), moments, cross, mask)

    def _priced(
        self, before: S, place: NDArray[np.int32], moments: Moments, cross: CrossProducts, mask: Mask
    ) -> CovarianceState[S]:
        clusters = Clusters(moments, self.config.background, self.config.spec, mask, cross, self.prices)
        return CovarianceState(before, place, clusters, cross, moments.n_clusters, clusters.objective)

    def labels_of(self, state: CovarianceState[S]) -> L:
        """The present cluster of every row."""
        return self.rows.renumbered(self.rows.restored(state.before), state.place)

    # ---- steps ----

    def passes(self, state: CovarianceState[S], fewest: int = 1) -> CovarianceState[S]:
        """Batch passes while J falls and at least `fewest` clusters remain."""
        config = self.config
        large = len(config.rows) > SAMPLE_ROWS
        for _ in range(_MAX_PASSES if state.K > 1 else 0):
            if config.stop.is_set():
                raise KeyboardInterrupt
            self.n_passes += 1
            threads = config.threads(state.K * (1 + len(self.columns) // 2))
            labels, moved = self.rows.reassigned(state.clusters, self.labels_of(state), self.columns, threads)
            if not moved:
                break
            moments = config.moments(labels, state.K)
            labels, left = drop_empty(self.rows, moments, labels)
            snapshot = self.rows.snapshot(labels, len(left))
            new = self.state(labels, snapshot, moments, state.clusters.diagonal_mask[left])
            fell = state.objective - new.objective
            if fell <= self.tolerance or fewest > new.K:
                break
            state = new
            if config.callback:
                config.callback(1, state.K, state.objective)
            if large and fell < self.prices.h:
                break
        return state

    def pair_deltas(self, state: CovarianceState[S], only: int = -1) -> tuple[Floats, Floats]:
        """(K, K) change of J by each merge, with covariances and without; +inf on and below the diagonal, and
        where `only` is no part.
        """
        K, clusters = state.K, state.clusters
        each = np.arange(K)
        chosen = each[:, None] < each
        if only >= 0:
            chosen &= (each[:, None] == only) | (each == only)
        first, second = np.divmod(np.flatnonzero(chosen), K)
        groups, blocks = clusters.moments.groups, clusters.covariances
        with_block, diagonal = self.prices.union_costs(
            clusters.pricing, groups, state.cross.sums, first, second, self.config.n_threads
        )
        deltas = np.full((2, K, K), np.inf)
        own_diagonal = clusters.costs + blocks.saving if blocks is not None else clusters.costs
        deltas[0][first, second] = with_block - clusters.costs[first] - clusters.costs[second]
        deltas[1][first, second] = diagonal - own_diagonal[first] - own_diagonal[second]
        return deltas[0], deltas[1]

    def merge(self, state: CovarianceState[S], i: int, j: int) -> CovarianceState[S]:
        """The state after cluster j has joined cluster i < j; later clusters shift down."""
        place = state.place.copy()
        join(place, i, j)
        old = state.clusters.moments
        moments = Moments(old.grid, old.unit, state.K - 1)
        moments.groups[:] = without(old.groups, j)
        moments.groups[i] = unions(old.groups, np.array([i]), np.array([j]), old.grid.first_numeric)[0]
        mask = state.clusters.diagonal_mask
        union = without(mask, j)
        union[i] |= mask[j]
        return self._priced(state.before, place, moments, state.cross.merged(i, j), union)

    def cheapest_merge(
        self, state: CovarianceState[S], deltas: Floats, diagonal: Floats, guarded: bool = True
    ) -> CovarianceState[S] | None:
        """Merge the cheapest pair, at any price; None if the cheapest ones are separated. `deltas` are
        updated in place for the next merge.

        `guarded`: no pair is merged that does not pay without covariances and has a valley between.
        """
        K = state.K
        for _ in range(_MOST_PAIRS if K > 1 else 0):
            i, j = best_pair(deltas[:K, :K])
            if not deltas[i, j] < np.inf:
                return None
            if guarded and diagonal[i, j] >= -self.tolerance and self.separated(state, i, j):
                deltas[i, j] = np.inf
                continue
            state = self.merge(state, i, j)
            rest = without(np.arange(K), j)
            for old, new in zip((deltas, diagonal), self.pair_deltas(state, i), strict=True):
                old[: K - 1, : K - 1] = old[rest[:, None], rest]
                old[i, : K - 1], old[: K - 1, i] = new[i, :], new[:, i]
            return state
        return None

    def shortest_merges(
        self, state: CovarianceState[S], fewest: int = 1, guarded: bool = True
    ) -> tuple[CovarianceState[S], CovarianceState[S] | None]:
        """The shortest description on the way of cheapest merges down to `fewest` clusters; the state itself
        if none is shorter.

        And the state after the first of these merges; None if there is none.

        The way leads over merges that lengthen the description: the first slices of a cloud that are joined
        seldom pay for a covariance of many columns, all of them together do.
        """
        best, first = state, None
        deltas, diagonal = self.pair_deltas(state)
        while fewest < state.K:
            trial = self.cheapest_merge(state, deltas, diagonal, guarded)
            if trial is None:
                break
            state, first = trial, trial if first is None else first
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
            merged = self.cheapest_merge(merged, *self.pair_deltas(merged)) if fewest < merged.K else None
        return state

    @cached_property
    def _sample(self) -> tuple[NDArray[np.intp], Floats, Floats]:
        """Rows, their weights and their cells (m, P) in units of the table, by which valleys are seen."""
        background, n = self.config.background, len(self.config.rows)
        rows: NDArray[np.intp] = (
            np.arange(n)
            if n <= SAMPLE_ROWS
            else spread(n, SAMPLE_ROWS, self.config.seed, CraftStream.VALLEY_SAMPLE)
        )
        sample = self.config.of_rows(rows)
        counts: Integers = sample.weight if len(sample.weight) else np.ones(len(rows), np.int64)
        z = np.array(sample.table.numeric[:, self.columns][counts > 0], dtype=np.float64, order="C")
        rows, counts = rows[counts > 0], counts[counts > 0]
        z -= background.centre[self.columns]
        z *= background.scale[self.columns]
        return rows, np.asarray(counts * background.count_weight, dtype=np.float64), z

    def separated(self, state: CovarianceState[S], i: int, j: int) -> bool:
        """Whether the density along the discriminant of two clusters has a valley below a share of its lower
        peak; the answer for the same clusters is computed once.
        """
        groups = state.clusters.moments.groups
        key = groups[i].tobytes(), groups[j].tobytes()
        if key in self._separated:
            return self._separated[key]
        rows, weight, z = self._sample
        labels, moments = state.place[self.rows.labels_at(state.before, rows)], state.clusters.moments
        each = np.array([i, j])
        within = self.prices.deviations(moments.groups, state.cross.sums, each, np.array([-1, -1])).sum(
            axis=0
        )
        mean, sizes = state.clusters.shift[each].take(self.columns, axis=1), moments.sizes[each]
        n, P = float(sizes.sum()), len(within)
        # a ridge of 2 % of the mean variance keeps the discriminant defined
        inverse = np.linalg.inv(within / n + (0.02 * np.trace(within) / n / P + 1e-9) * np.eye(P))
        depth = valley_kernel.valley_depth(z, weight, labels, i, j, inverse, mean, sizes, _FEWEST_ROWS)
        self._separated[key] = depth < _VALLEY
        return self._separated[key]

    # ---- the step ----

    def run(self, state: CovarianceState[S], target: int | None) -> CovarianceState[S]:
        """Passes and merges in turn until J stops falling; with a target, merges down to it at any price,
        never below.
        """
        fewest = 1 if target is None else target
        state = self.passes(state, fewest)
        before = np.inf
        while state.objective < before:
            before = state.objective
            shortest, merged = self.shortest_merges(state, fewest)
            if shortest.K < state.K:
                state = self.passes(shortest, fewest)
            elif len(self.rows) <= SAMPLE_ROWS:
                state = self.shorter_after_passes(state, merged, fewest)
        while target is not None and target < state.K:
            state, _ = self.merge_best(state, target)
        return state

    def merge_best(
        self, state: CovarianceState[S], fewest: int = 1
    ) -> tuple[CovarianceState[S], tuple[int, int]]:
        """One step down the merge path, and the merged pair: the cheapest merge, then passes."""
        pair = best_pair(self.pair_deltas(state)[0]) if state.K > 2 else (0, 1)
        return self.passes(self.merge(state, *pair), fewest), pair

    def number_by_first_appearance(self, state: CovarianceState[S]) -> CovarianceState[S]:
        """Assign rows of weight 0 whose cluster was dropped, then number the clusters by first appearance."""
        labels, config = self.labels_of(state), self.config
        if len(config.weight) and isinstance(labels, np.ndarray):
            lost = np.flatnonzero(labels < 0)
            of_lost = labels[lost]
            state.clusters.assign(config.rows.take(lost), np.zeros(len(lost), np.int64), of_lost, 1)
            labels[lost] = of_lost
        order = self.rows.first_appearance(labels, state.K)
        same = numbering(state.K)
        clusters = state.clusters
        if np.array_equal(order, same[:-1]):
            return replace(state, before=self.rows.snapshot(labels, state.K), place=same)
        numbered = self.rows.snapshot(
            self.rows.renumbered(labels, np.argsort(order).astype(np.int32)), state.K
        )
        return self._priced(
            numbered,
            same,
            clusters.moments.select(order),
            state.cross.select(order),
            clusters.diagonal_mask[order],
        )

    def merge_path(self, state: CovarianceState[S]) -> tuple[MergePath, PathClusters]:
        """The partition, numbered by first appearance, and every partition on the way down to one cluster;
        and their clusters.

        A table of more than 16 384 rows is merged without passes, which would read all rows each.
        """
        path = self.rows.merge_path(state.before, state.K, state.objective)
        clusters = PathClusters.begin(state.clusters.moments, state.clusters.diagonal_mask, state.cross)
        while state.K > 1:
            if len(self.rows) > SAMPLE_ROWS:
                i, j = best_pair(self.pair_deltas(state)[0])
                state = self.merge(state, i, j)
                path.append_merge(state.objective, i, j)  # the clusters stay numbered by first appearance
            else:
                before = state.before  # numbered by first appearance
                state, pair = self.merge_best(state)
                state = self.number_by_first_appearance(state)
                self.rows.append_step(path, state.K, state.objective, before, state.before, pair)
            clusters.append(
                path.changes()[-1].place,
                state.clusters.moments.groups,
                state.clusters.diagonal_mask,
                state.cross,
            )
        return path, clusters

    def n_clusters_at(self, state: CovarianceState[S], factor: float) -> int:
        """Clusters that are left if clusters are merged while that lowers J at `factor` times the price,
        whatever lies between them.
        """
        spec = replace(self.config.spec, price_factor=factor * self.config.spec.price_factor)
        scaled = CovarianceSearch(replace(self.config, spec=spec), self.columns)
        start = scaled._priced(
            state.before, state.place, state.clusters.moments, state.cross, state.clusters.diagonal_mask
        )
        return scaled.shortest_merges(start, guarded=False)[0].K


def covariance_step(
    config: FitConfig[L, S], snapshot: S, moments: Moments, mask: Mask, target: int | None
) -> tuple[CovarianceSearch[L, S], CovarianceState[S]] | None:
    """The last step of the automatic search from a partition with these moments and masks, clusters numbered
    by first appearance; None if no cluster holds a covariance.

    `target` is the number of clusters of the result, at most that of the partition; None: automatic.
    """
    assert config.encoding is not None
    encoding = config.encoding.with_scores()
    if not 2 <= n_complete_columns(encoding, moments.total()) <= MOST_COLUMNS:
        return None
    rows, labels = config.rows.scored(encoding), config.rows.restored(snapshot)
    unit, threads = config.background.count_weight, config.n_threads
    moments = rows.moments(rows.grid(), unit, labels, moments.n_clusters, threads)
    background = Background(moments.total(), encoding)
    columns = covariance_columns(background, moments.total())
    if len(columns) < 2:
        return None
    config = replace(config, rows=rows, background=background, encoding=encoding)
    search = CovarianceSearch(config, columns)
    mask = np.hstack([np.zeros((len(mask), background.grid.p), np.uint8), mask])
    state = search.run(search.state(labels, snapshot, moments, mask), target)
    if state.clusters.covariances is None or not state.clusters.covariances.block.any():
        return None
    return search, search.number_by_first_appearance(state)


def best_pair(deltas: Floats) -> tuple[int, int]:
    """First pair (i < j) within 1e-9 of the smallest entry."""
    i, j = divmod(int((deltas <= deltas.min() + 1e-9).argmax()), len(deltas))
    return i, j
