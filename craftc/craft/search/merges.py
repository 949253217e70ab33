"""Merge/split search for the number of clusters under the description-length price.

Every accepted step lowers J, which depends on the partition alone, so the search ends. Merges and splits are
priced from exact moments; the rows are read only by passes, which are fully parallel because no clusters open
in them, and once for each cluster to be split.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from craftc._common.labels import compact, join, numbering, rows_in_cluster
from craftc._common.random import SAMPLE_ROWS, CraftStream
from craftc._common.threads import threads_for
from craftc._common.typing import Floats, Integers, Labels, Mask
from craftc._kernels import craft_merges as merges_kernel
from craftc._kernels import craft_price as price_kernel
from craftc._kernels import craft_splits as splits_kernel
from craftc._kernels import moments as moments_kernel
from craftc.craft.clusters import Clusters, pass_work
from craftc.craft.description_length import feature_prices, pricing_of
from craftc.craft.rows.candidates import Candidates, Cells
from craftc.craft.rows.local import ClusterRows, Passes, PassSpace, SplitRows
from craftc.craft.search.config import FitConfig, drop_empty
from craftc.craft.search.screening import MOST_ROWS, net_gains
from craftc.table.moments import Moments

MAX_PASSES = 50
_LOCAL_PASSES = 10
_SOFT_PASSES = 10
_FORCED_PAIRS = 5
_FORCED_TRIES = 400
START_CLUSTERS = 20
_MOST_CANDIDATES, _SCREENED = (
    256,
    64,
)  # above the former, as many as the latter are left by screening; each costs O(rows x columns)
_SPLIT_SAMPLE = 2048  # rows by which the candidates of a cluster are ranked
_CELLS_AT_ONCE = 200_000_000  # cell visits between two checks for an interrupt, a fraction of a second
_MERGE_TOLERANCE, _SPLIT_TOLERANCE = (
    1e-9,
    1e-6,
)  # nats by which a merge, or a split with the passes after it, must lower J
_ROUNDING = (
    2.0**-46
)  # of N D nats: a smaller change of J may be rounding, and a search that accepts it may not end


@dataclass
class Partition:
    """A partition in the search: labels, exact moments and costs of the clusters.

    Arrays over clusters have room for `capacity` clusters; the first `K` entries are in use.
    """

    labels: Any  # as the rows hold them
    groups: Integers
    K: int
    cost: Floats
    mask: Mask
    converged: bool = False  # whether passes converged after the last change
    excess: float = 0.0  # pooled background: J less the cost of the whole table's distribution, nats
    shared: Integers | None = None  # pooled background: (width,) moments of the cells that clusters share

    @property
    def objective(self) -> float:
        """J less the cost of the whole table's distribution, nats: the sum of the cluster costs, or what a
        joint choice of masks gives.
        """
        return float(np.add.reduce(self.cost[: self.K])) if self.shared is None else self.excess

    @property
    def key(self) -> bytes:
        """Equal for partitions of the same clusters and masks, however they are numbered."""
        clusters = [self.groups[k].tobytes() + self.mask[k].tobytes() for k in range(self.K)]
        return blake2b(b"".join(sorted(clusters))).digest()

    def copy(self) -> Partition:
        labels = None if self.labels is None else self.labels.copy()
        return replace(
            self, labels=labels, groups=self.groups.copy(), cost=self.cost.copy(), mask=self.mask.copy()
        )


@dataclass
class Split:
    """A split of a cluster in two, after its local passes."""

    delta: float
    moved: Any  # the rows that leave, as the rows of the search take them
    groups: Integers  # (2, width) what stays, what leaves
    cost: Floats  # (2,)
    mask: Mask  # (2, D)


class MergeSplitSearch:
    """The search of one start; several may run in parallel, each with its own buffers.

    Parameters
    ----------
    config : FitConfig
        With the description-length price.
    n_threads : int
        Threads for the rows of a pass.
    """

    def __init__(self, config: FitConfig, n_threads: int) -> None:
        self.config, self.n_threads = config, n_threads
        self.selection = self.local_selection = price_kernel.SELECTIONS[config.spec.selection]
        self.capacity = max(config.max_clusters, START_CLUSTERS)
        self.pricing = pricing_of(
            config.background, config.spec, total_weight=config.total_weight, room=self.capacity
        )
        grid, D = config.background.grid, self.pricing.D
        rounding = _ROUNDING * config.background.weight * D
        self._merge_tolerance, self._split_tolerance = (
            max(_MERGE_TOLERANCE, rounding),
            max(_SPLIT_TOLERANCE, rounding),
        )
        self.rows, self._space = config.rows, PassSpace(self.pricing, self.capacity, n_threads)
        self._work = self._space.work
        self._union = np.empty((n_threads, grid.width), np.int64)
        self._mask = np.empty((max(n_threads, 2), D), np.uint8)
        self._rejected: set[bytes] = set()
        self._small = self._is_small()
        self.n_passes, self.excess = (
            0,
            0.0,
        )  # of all passes; J less the cost of the whole table's distribution after the last

    def again(self, config: FitConfig) -> Self:
        """The search of another start of the same table, in the same buffers; of two such searches one makes
        a step at a time.
        """
        other = object.__new__(type(self))
        vars(other).update(vars(self))
        other.config, other._rejected, other.n_passes = config, set(), 0
        return other

    # ---- steps ----

    def partition(self, labels: Any, priced: bool = True) -> Partition:
        """A partition from labels 0..K-1, with masks and costs if it is `priced`."""
        background = self.config.background
        moments = self.rows.moments(
            background.grid, background.count_weight, labels, self.rows.n_clusters(labels), self.n_threads
        )
        labels, _ = drop_empty(self.rows, moments, labels)
        K = moments.n_clusters
        groups = np.zeros((max(self.capacity, K), moments.grid.width), np.int64)
        groups[:K] = moments.groups
        part = Partition(
            labels, groups, K, np.empty(len(groups)), np.zeros((len(groups), self.pricing.D), np.uint8)
        )
        if priced:
            self.price(part)
        return part

    def price(self, part: Partition, choose_given: bool = True) -> None:
        """Masks and costs of the clusters from their moments."""
        K = part.K
        work = self._work if len(self._work) >= K else np.empty((K, self._work.shape[1]))
        price_kernel.price_groups(
            part.groups[:K],
            self.pricing,
            self.selection,
            choose_given,
            work[:K],
            part.mask[:K],
            part.cost[:K],
        )

    def stop_if_asked(self) -> None:
        """Raise KeyboardInterrupt if another search of this fit has ended by one."""
        if self.config.stop.is_set():
            raise KeyboardInterrupt

    def passes(self, part: Partition, selection: int | None = None, max_passes: int = MAX_PASSES) -> int:
        """Batch passes until convergence (see `FitConfig.least_fall`); returns their number."""
        config, grid = self.config, self.config.background.grid
        work = pass_work(len(self.rows), grid.p + grid.q, part.K)
        threads, path = threads_for(self.n_threads, work), np.empty(max_passes + 1)
        most = min(max_passes, at_once(work))
        clusters = Passes(
            part.groups,
            part.K,
            part.mask,
            part.cost,
            self.pricing,
            self.selection if selection is None else selection,
            True,
            config.least_fall,
        )
        made, part.converged = 0, False
        while made < max_passes and not part.converged:
            self.stop_if_asked()
            part.labels, last = self.rows.passes(
                part.labels, clusters, min(most, max_passes - made), path, self._space, threads
            )
            part.K, part.converged = clusters.K, clusters.converged
            made += last
            if config.callback:
                config.callback(last, part.K, config.background.cost + float(path[last]))
        self.n_passes += made
        self.excess = float(path[last])
        return made

    def merge_until_stable(self, part: Partition) -> None:
        """Passes and merges in turn until no merge lowers J."""
        while True:
            self.passes(part)
            if not self.merge_while_cheaper(part):
                return

    def merge_while_cheaper(self, part: Partition) -> bool:
        """Merge the cheapest pair while that lowers J; returns whether any pair was merged."""
        deltas = self.pair_deltas(part)
        before = part.K
        place = numbering(before)  # the present cluster of each cluster of the labels
        while part.K > 1:
            i, j = best_pair(deltas)
            if not deltas[i, j] < -self._merge_tolerance:
                break
            deltas = self._merge(part, i, j, deltas)
            join(place, i, j)
        if before > part.K:
            self.relabel(part, place)
        return before > part.K

    def pair_deltas(self, part: Partition, only: int = -1, deltas: Floats | None = None) -> Floats:
        """(K, K) change of J by each merge; +inf on and below the diagonal."""
        K = part.K
        if deltas is None:
            deltas = np.full((K, K), np.inf)
        threads = threads_for(self.n_threads, K * (K if only < 0 else 1) * self.pricing.grid.width * 20)
        merges_kernel.pair_deltas(
            part.groups[:K],
            part.cost[:K],
            self.pricing,
            self.selection,
            part.mask[0],
            only,
            deltas,
            self._union,
            self._work,
            self._mask,
            threads,
        )
        return deltas

    def _merge(self, part: Partition, i: int, j: int, deltas: Floats) -> Floats:
        """Merge cluster j into i < j; the caller updates the labels. Returns the deltas of the pairs left."""
        self.merge_groups(part, i, j)
        return self._deltas_left(part, i, j, deltas)

    def _deltas_left(self, part: Partition, i: int, j: int, deltas: Floats) -> Floats:
        """The deltas of the pairs that are left after cluster j has joined cluster i, those of cluster i
        computed again.
        """
        rest = np.empty((part.K, part.K))
        for rows, of_rows in ((slice(j), slice(j)), (slice(j, None), slice(j + 1, None))):
            rest[rows, :j], rest[rows, j:] = deltas[of_rows, :j], deltas[of_rows, j + 1 :]
        return self.pair_deltas(part, i, rest)

    def merge_groups(self, part: Partition, i: int, j: int) -> None:
        """Merge cluster j into i < j, all but the labels; later clusters shift down."""
        add_group(part.groups[i], part.groups[j], self.pricing)
        for array in (part.groups, part.cost, part.mask):
            array[j : part.K - 1] = array[j + 1 : part.K]
        part.K, part.converged = part.K - 1, False
        one = slice(i, i + 1)
        price_kernel.price_groups(
            part.groups[one],
            self.pricing,
            self.selection,
            False,
            self._work[:1],
            part.mask[one],
            part.cost[one],
        )

    def split_while_cheaper(self, part: Partition) -> None:
        """Split clusters and merge until stable, in turn, while that lowers J."""
        while self.split_once(part):
            pass

    def split_once(self, part: Partition) -> bool:
        """Split all clusters whose best split lowers J, and merge until stable; returns whether J fell."""
        splits = sorted(self._accepted_splits(part), key=lambda entry: entry[:2])
        splits = splits[: max(self.config.max_clusters - part.K, 0)]
        if not splits:
            return False
        before = part.copy() if self.config.spec.selection == "threshold" else None
        for _, k, split in splits:
            self.apply_split(part, k, split)
        self.merge_until_stable(part)
        # the masks of "threshold" do not minimise J, and passes may undo a split
        if before is not None and part.objective >= before.objective - 1e-9:
            vars(part).update(vars(before))
            return False
        return True

    def _accepted_splits(self, part: Partition) -> list[tuple[float, int, Split]]:
        """J, number and split of the clusters whose best split lowers J; a cluster that has none is not tried
        again.
        """
        clusters = self.splittable(part) if self.config.max_clusters > part.K else []
        accepted = []
        for k, splits in zip(clusters, self.splits(part, clusters), strict=True):
            split = best_split(splits)
            if split is not None and split.delta < -self._split_tolerance:
                accepted.append((split.delta, k, split))
            else:
                self._rejected.add(part.groups[k].tobytes())
        return accepted

    def splittable(self, part: Partition) -> list[int]:
        """The clusters of at least four rows whose splits have not been rejected."""
        groups, unit = part.groups, self.pricing.count_weight
        return [
            k for k in range(part.K) if groups[k].tobytes() not in self._rejected and groups[k, 0] * unit >= 4
        ]

    def splits(
        self, part: Partition, clusters: Sequence[int], at_any_price: bool = False
    ) -> list[list[Split]]:
        """The most promising splits of each of some clusters, see `_splits_of`."""
        found: list[list[Split]]
        if self._small:
            found = [self._splits_at_once(part, k, at_any_price) for k in clusters]
        else:
            found = self.rows.together(self._splits_of(part, k, at_any_price) for k in clusters)
        return found

    def _is_small(self) -> bool:
        """Whether the candidates of every cluster are tried by one kernel call, without a sample and on one
        thread.
        """
        grid, n = self.pricing.grid, len(self.rows)
        most = grid.p + 3 * grid.q
        few = n <= _SPLIT_SAMPLE and most <= _MOST_CANDIDATES
        return (
            few
            and not self.rows.is_partitioned
            and threads_for(self.n_threads, n * most * (grid.p + grid.q)) == 1
        )

    def _splits_at_once(self, part: Partition, k: int, at_any_price: bool) -> list[Split]:
        """As `_splits_of`, of a small table."""
        rows = rows_in_cluster(part.labels, k)
        for most, max_passes in ((3, _LOCAL_PASSES), (1, 0)) if at_any_price else ((3, _LOCAL_PASSES),):
            sides, groups = (
                np.empty((most, len(rows)), np.int32),
                np.empty((most, 2, part.groups.shape[1]), np.int64),
            )
            mask, cost, table = (
                np.empty((most, 2, self.pricing.D), np.uint8),
                np.empty((most, 2)),
                self.rows.table,
            )
            n = splits_kernel.local_splits(
                table.numeric,
                table.codes,
                self.rows.weight,
                rows,
                part.groups[k],
                part.cost[k],
                part.mask[0],
                self.pricing,
                self.selection,
                self.local_selection,
                max_passes,
                self._space.slab,
                self._space.scratch,
                self._space.work,
                np.empty(max_passes + 1),
                sides,
                groups,
                mask,
                cost,
            )
            if n:
                break
        own, costs = float(part.cost[k]), cost[:n].tolist()
        return [
            Split(costs[i][0] + costs[i][1] - own, SplitRows(rows, sides[i]), groups[i], cost[i], mask[i])
            for i in range(n)
        ]

    async def _splits_of(self, part: Partition, k: int, at_any_price: bool) -> list[Split]:
        """The three most promising splits of a cluster, each after its local passes; without those of which
        the passes empty a side.

        Of a cluster of more than 16 384 rows only the most promising one: most are found on the sample of the
        table. If all are rejected and `at_any_price` is set: the most promising one without its local passes.
        """
        candidates, n = Candidates.of_group(part.groups[k], self.pricing)
        if n == 0:
            return []
        cluster = await self.rows.cluster(part.labels, k)
        seed = self.config.seed
        if n > _MOST_CANDIDATES:
            cells = await cluster.sample(MOST_ROWS, seed, CraftStream.SCREENING_SAMPLE)
            candidates, n = self._screened(part, k, cells, candidates, n), _SCREENED
        cells = await cluster.sample(_SPLIT_SAMPLE, seed, CraftStream.SPLIT_SAMPLE)
        every_row = len(cells) == len(cluster)
        sides, score = self._scored(part, k, cells, every_row, candidates, n)
        found = []
        promising = three_best(score)[: 1 if len(cluster) > SAMPLE_ROWS else 3]
        for c in promising:
            one = candidates.one(c)
            moments = (
                sides[c] if every_row else await cluster.leaving_moments(self.pricing, one, self.n_threads)
            )
            split = await self._local_passes(part, k, cluster, one, moments, _LOCAL_PASSES)
            if split is not None:
                found.append(split)
        if not found and at_any_price and promising:
            one = candidates.one(promising[0])
            moments = await cluster.leaving_moments(self.pricing, one, self.n_threads)
            split = await self._local_passes(part, k, cluster, one, moments, 0)
            found = [] if split is None else [split]
        return found

    def _screened(self, part: Partition, k: int, cells: Cells, candidates: Candidates, n: int) -> Candidates:
        """The most promising candidates of a wide table, by chi-squared; a sample represents a cluster of
        many rows.
        """
        table, config, grid, rows = cells.table, self.config, self.pricing.grid, cells.rows
        z = (table.numeric[rows].astype(np.float64) - self.pricing.centre[: grid.p]) * self.pricing.scale[
            : grid.p
        ]
        scores = net_gains(
            z,
            table.codes[rows],
            cells.weights,
            grid.level_start,
            grid.n_levels,
            cells.leaving_rows(self.pricing, candidates, n),
            feature_prices(config.background, config.spec)[0],
            float(part.groups[k, 0]) * self.pricing.count_weight,
        )
        return candidates.some(np.sort(np.argsort(-scores, kind="stable")[:_SCREENED]))

    def _scored(
        self, part: Partition, k: int, cells: Cells, every_row: bool, candidates: Candidates, n: int
    ) -> tuple[Integers, Floats]:
        """(n, width) moments of the leaving rows and (n,) change of J of every candidate; a sample represents
        a large cluster.
        """
        group, cost, pricing = part.groups[k], part.cost[k], self.pricing
        if every_row:
            sides = cells.leaving_moments(pricing, candidates, n, n_threads=self.n_threads)
        else:
            config = self.config
            sides = cells.leaving_moments(pricing, candidates, n + 1, n, self.n_threads)
            scale_up = float(group[0]) / max(float(sides[n, 0]), 1.0)
            pricing = pricing_of(config.background, config.spec, scale_up, config.total_weight)
            pricing.shared, pricing.relative = self.pricing.shared, self.pricing.relative
            group, one = np.ascontiguousarray(sides[n]), self._mask[:1]
            one[:] = part.mask[0]
            whole = np.empty(1)
            price_kernel.price_groups(group[None], pricing, self.selection, False, self._work[:1], one, whole)
            cost, sides = float(whole[0]), sides[:n]
        score = np.empty(n)
        splits_kernel.split_scores(
            group,
            cost,
            sides,
            pricing,
            self.selection,
            part.mask[0],
            score,
            self._union,
            self._work,
            self._mask,
            threads_for(self.n_threads, 20 * sides.size),
        )
        return sides, score

    async def _local_passes(
        self,
        part: Partition,
        k: int,
        cluster: ClusterRows,
        candidate: Candidates,
        leaving: Integers,
        max_passes: int,
    ) -> Split | None:
        """Passes with two clusters over the rows of cluster k; None if one side takes all rows."""
        grid = self.pricing.grid
        groups = np.stack([part.groups[k], leaving])
        subtract_group(groups[0], leaving, self.pricing)
        mask, cost = np.repeat(part.mask[:1], 2, axis=0), np.empty(2)
        halves = Passes(groups, 2, mask, cost, self.pricing, self.local_selection, False, 0.0)
        threads = threads_for(self.n_threads, len(cluster) * (grid.p + grid.q))
        sides = await cluster.sides(self.pricing, candidate)
        sides = await cluster.passes(sides, halves, max_passes, self._space, threads)
        if halves.K < 2:
            return None
        if self.local_selection != self.selection:
            price_kernel.price_groups(groups, self.pricing, self.selection, False, self._work[:2], mask, cost)
        return Split(float(cost[0] + cost[1] - part.cost[k]), cluster.leavers(sides), groups, cost, mask)

    def apply_split(self, part: Partition, k: int, split: Split) -> None:
        """Split cluster k; the rows that leave become the last cluster."""
        part.labels = self.rows.moved(part.labels, split.moved, part.K)
        for side, cluster in ((0, k), (1, part.K)):
            part.groups[cluster], part.cost[cluster], part.mask[cluster] = (
                split.groups[side],
                split.cost[side],
                split.mask[side],
            )
        part.K, part.converged = part.K + 1, False

    def learn_from(self, other: MergeSplitSearch) -> None:
        """Take over the rejected splits and the number of passes of another start."""
        self._rejected |= other._rejected
        self.n_passes = max(self.n_passes, other.n_passes)

    def cross(self, part: Partition, other: Partition) -> Partition:
        """The intersections of two partitions, merged and split while that lowers J; the first partition if
        the result is no better.
        """
        trial = self.partition(common_parts(part, other, self.capacity))
        self.merge_while_cheaper(trial)
        self.merge_until_stable(trial)
        self.split_while_cheaper(trial)
        return trial if trial.objective < part.objective - self._split_tolerance else part

    def forced_merges(self, part: Partition) -> Partition:
        """Merge the cheapest pairs although J rises, run passes and splits, and keep the result if it has a
        lower J.
        """
        tried: set[bytes] = set()
        improved = True
        while improved and part.K > 1:
            improved = False
            for i, j in self._untried_pairs(part, tried):
                trial = part.copy()
                self.force_merge(trial, i, j)
                self.passes(trial)
                self.split_while_cheaper(trial)
                if trial.objective < part.objective - self._split_tolerance:
                    part, improved = trial, True
                    break
        return part

    def _untried_pairs(self, part: Partition, tried: set[bytes]) -> Iterator[tuple[int, int]]:
        """The cheapest pairs whose union has not been tried, a few for each partition."""
        deltas = self.pair_deltas(part)
        order = np.argsort(deltas, axis=None, kind="stable")[: part.K * (part.K - 1) // 2]
        n_pairs = 0
        for flat in order:
            i, j = divmod(int(flat), part.K)
            union = part.groups[i].copy()
            add_group(union, part.groups[j], self.pricing)
            key = union.tobytes()
            if key in tried:
                continue
            if n_pairs == _FORCED_PAIRS or len(tried) >= _FORCED_TRIES:
                return
            tried.add(key)
            n_pairs += 1
            yield i, j

    def cheapest_pair(self, part: Partition) -> tuple[int, int]:
        """The pair i < j whose merge adds the least to J."""
        return best_pair(self.pair_deltas(part))

    def force_merge(self, part: Partition, i: int, j: int) -> None:
        """Merge clusters i < j at any cost."""
        place = numbering(part.K)
        join(place, i, j)
        self.merge_groups(part, i, j)
        self.relabel(part, place)

    def relabel(self, part: Partition, place: NDArray[np.int32]) -> None:
        """Renumber the labels of a partition, if it has labels: cluster k becomes place[k]; the last entry is
        that of -1.
        """
        if part.labels is not None:
            part.labels = self.rows.renumbered(part.labels, place)

    # ---- the search ----

    def begin(self, labels: Any, soft: bool) -> Partition:
        """Passes and merges from a start partition; splits may follow.

        `soft` first runs passes at no price, for a random partition, which would collapse to one cluster at
        once under prices.
        """
        part = self.partition(labels, priced=not soft)
        if soft:
            self.passes(part, price_kernel.SELECTIONS["soft"], _SOFT_PASSES)
            self.price(part)
        self.merge_until_stable(part)
        return part

    def clusters(self, part: Partition) -> Clusters:
        """The clusters of a partition, with their cost tables."""
        return Clusters(self.moments(part), self.config.background, self.config.spec)

    def moments(self, part: Partition) -> Moments:
        """Exact moments of a partition."""
        return Moments.of_groups(
            self.config.background.grid, self.config.background.count_weight, part.groups[: part.K]
        )


def at_once(work: float) -> int:
    """Steps of so many cell visits each between two checks for an interrupt."""
    return max(1, int(_CELLS_AT_ONCE // max(work, 1)))


def common_parts(part: Partition, other: Partition, room: int) -> Labels:
    """Labels of the intersections of two partitions, numbered by cluster of the first, then of the second.

    If there are more than `room`, the smallest are joined with the largest intersection of their cluster in
    the first partition.
    """
    cell = np.maximum(part.labels, 0) * np.int32(other.K) + np.maximum(
        other.labels, 0
    )  # a row without weight may have no cluster
    size = np.bincount(cell, minlength=part.K * other.K).reshape(part.K, other.K)
    if np.count_nonzero(size) <= max(room, part.K):
        return compact(cell)
    largest = size.argmax(axis=1)
    rank = size.copy()
    rank[np.arange(part.K), largest] = len(cell) + 1
    kept = np.zeros(rank.size, bool)
    kept[np.argsort(-rank, axis=None, kind="stable")[: max(room, part.K)]] = True
    own = np.arange(rank.size)
    place = np.where(kept, own, np.repeat(np.arange(part.K) * other.K + largest, other.K))
    return compact(place[cell].astype(np.int32))


def best_pair(deltas: Floats) -> tuple[int, int]:
    """First pair (i < j) within 1e-9 of the smallest entry."""
    i, j = divmod(int((deltas <= deltas.min() + 1e-9).argmax()), len(deltas))
    return i, j


def best_split(splits: list[Split]) -> Split | None:
    """The split that lowers J most; within 1e-9 the earlier."""
    best: Split | None = None
    for split in splits:
        if best is None or split.delta < best.delta - 1e-9:
            best = split
    return best


def three_best(score: Floats) -> list[int]:
    """Positions of up to three finite scores, lowest first; within 1e-9 the earlier position is first."""
    chosen: list[int] = []
    scores = score.tolist()  # of few candidates: faster than an array
    while len(chosen) < 3 and (least := min(scores, default=math.inf)) < math.inf:
        chosen.append(next(c for c, one in enumerate(scores) if one <= least + 1e-9))
        scores[chosen[-1]] = math.inf
    return chosen


def add_group(group: Integers, other: Integers, pricing: price_kernel.Pricing) -> None:
    """group += other, exactly."""
    moments_kernel.merge(group, other, 1, pricing.grid.first_numeric)


def subtract_group(group: Integers, other: Integers, pricing: price_kernel.Pricing) -> None:
    """group -= other, exactly."""
    moments_kernel.merge(group, other, -1, pricing.grid.first_numeric)
