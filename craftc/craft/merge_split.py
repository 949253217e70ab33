"""The moves of the search for the number of clusters: passes, merges, splits and forced merges on the description-length objective.

Every accepted move lowers J, which depends on the partition alone, so the search ends. Merges and splits are priced from exact
moments; rows are only touched by passes (fully parallel, no chain of openings) and by the one look a split takes at its cluster.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from craftc._common.labels import compact, first_appearance, renumber
from craftc._common.merge_path import MergePath
from craftc._common.random import spread
from craftc._common.threads import aligned, threads_for
from craftc._common.typing import Floats, Integers, Labels, Mask
from craftc._kernels import craft as _pass
from craftc._kernels import craft_passes as _passes
from craftc._kernels import craft_price as _kernel
from craftc._kernels import moments as _moments
from craftc.craft.description_length import PricedClusters, pricing_of
from craftc.craft.fixed_price import Problem, drop_empty, settle_weightless
from craftc.table.moments import Moments

_MAX_PASSES = 50
_LOCAL_PASSES = 10
_SOFT_PASSES = 10
_FORCED_PAIRS = 5
_FORCED_TRIES = 400
START_CLUSTERS = 20
_SPLIT_SAMPLE = 2048  # rows by which the cuts of a cluster are ranked
_CELLS_AT_ONCE = 200_000_000  # cell visits between two looks for an interrupt, a fraction of a second
_SPLIT_DRAW = 13  # first key of its random stream
_MERGE_TIE, _SPLIT_TIE = 1e-9, 1e-6  # nats by which a merge, or a split and what follows it, must lower J
_ROUNDING = 2.0**-46  # of N D nats: a change of J that is smaller may be rounding, and accepting it could go on for ever
_NO_ROWS = np.empty(0, np.int32)


@dataclass
class Partition:
    """A partition in the search: labels, exact moments, and what each cluster costs.

    Arrays over clusters have room for `capacity`; the first `K` entries count.
    """

    labels: Labels
    groups: Integers
    K: int
    cost: Floats
    mask: Mask

    @property
    def objective(self) -> float:
        """Sum of the cluster costs: J less the background, nats."""
        return float(np.add.reduce(self.cost[: self.K]))

    def copy(self) -> Partition:
        return Partition(self.labels.copy(), self.groups.copy(), self.K, self.cost.copy(), self.mask.copy())


@dataclass
class Cuts:
    """Candidate cuts of a cluster by number: one level against the rest, or above the mean."""

    level_slot: NDArray[np.int32]  # (n_levels,) number of the cut, or -1
    numeric_slot: NDArray[np.int32]  # (p,) number of the cut, or -1
    threshold: Floats  # (p,) the mean, in deviations of the table

    def only(self, c: int) -> Cuts:
        """Cut c alone, as number 0."""
        level, numeric = (np.where(slot == c, 0, -1).astype(np.int32) for slot in (self.level_slot, self.numeric_slot))
        return Cuts(level, numeric, self.threshold)


@dataclass
class Split:
    """A way to cut a cluster in two, after its local passes."""

    delta: float
    moved: NDArray[np.int32]  # rows that leave
    groups: Integers  # (2, width) what stays, what leaves
    cost: Floats  # (2,)
    mask: Mask  # (2, D)


class Search:
    """One line of search over a table; several may run side by side, each with a workplace of its own.

    Parameters
    ----------
    problem : Problem
        With rules that price by description length; its cap bounds the clusters.
    n_threads : int
        Threads for the rows of a pass.
    """

    def __init__(self, problem: Problem, n_threads: int) -> None:
        self.problem, self.n_threads = problem, n_threads
        self.pricing = pricing_of(problem.background, problem.rules, total=problem.total)
        self.selection = _kernel.SELECTIONS[problem.rules.selection]
        self.capacity = max(problem.cap, START_CLUSTERS)
        grid, D = problem.background.grid, self.pricing.D
        rounding = _ROUNDING * problem.background.weight * D
        self._merge_tie, self._split_tie = max(_MERGE_TIE, rounding), max(_SPLIT_TIE, rounding)
        self._slab = aligned((_passes.slab_size(self.pricing, self.capacity),))
        self._scratch = aligned((n_threads, _passes.pass_scratch_size(self.pricing, self.capacity)))
        self._partial = np.zeros((n_threads if n_threads > 1 else 0, self.capacity, grid.width), np.int64)
        self._work = np.empty((max(self.capacity, n_threads), _kernel.parts_size(self.pricing)))
        self._union = np.empty((n_threads, grid.width), np.int64)
        self._mask = np.empty((max(n_threads, 2), D), np.uint8)
        self._failed: set[bytes] = set()
        self.n_passes = 0

    # ---- the steps ----

    def partition(self, labels: Labels) -> Partition:
        """A partition from labels 0..K-1, priced."""
        problem = self.problem
        K = int(labels.max()) + 1
        moments = Moments.of_partition(
            problem.background.grid, problem.background.unit, problem.table, problem.weight, labels, K, self.n_threads
        )
        drop_empty(moments, labels)
        K = moments.n_clusters
        groups = np.zeros((max(self.capacity, K), moments.grid.width), np.int64)
        groups[:K] = moments.groups
        part = Partition(labels, groups, K, np.empty(len(groups)), np.zeros((len(groups), self.pricing.D), np.uint8))
        self._price(part)
        return part

    def _price(self, part: Partition, choose_given: bool = True) -> None:
        K = part.K
        work = self._work if len(self._work) >= K else np.empty((K, self._work.shape[1]))
        _kernel.price_groups(part.groups[:K], self.pricing, self.selection, choose_given, work[:K], part.mask[:K], part.cost[:K])

    def passes(self, part: Partition, selection: int | None = None, max_passes: int = _MAX_PASSES) -> int:
        """Batch passes until nothing moves; returns how many were made."""
        problem, table = self.problem, self.problem.table
        grid = problem.background.grid
        work = len(table) * (grid.p + grid.q) * (-(-part.K // _pass.PAD))
        threads, path = threads_for(self.n_threads, work), np.empty(max_passes + 1)
        at_once = max(1, min(max_passes, int(_CELLS_AT_ONCE // max(work, 1))))
        made = last = 0
        while made < max_passes and last in (0, at_once):
            if problem.stop.is_set():
                raise KeyboardInterrupt
            part.K, last = _passes.passes(
                table.numeric, table.codes, problem.weight, _NO_ROWS, part.labels, part.groups, part.K, self.pricing,
                self.selection if selection is None else selection, True, min(at_once, max_passes - made), self._slab, self._scratch,
                self._partial, self._work, part.mask, part.cost, path, threads,
            )  # fmt: skip
            made += last
        self.n_passes += made
        if problem.on_pass:
            problem.on_pass(made, part.K, problem.background.cost + part.objective)
        return made

    def settle(self, part: Partition) -> None:
        """Passes and merges in turn until no merge pays."""
        while True:
            self.passes(part)
            if not self._merge_while_it_pays(part):
                return

    def _merge_while_it_pays(self, part: Partition) -> bool:
        deltas = self._pair_deltas(part)
        before = part.K
        place = np.arange(before, dtype=np.int32)  # where the clusters of the labels have gone
        while part.K > 1:
            i, j = best_pair(deltas)
            if not deltas[i, j] < -self._merge_tie:
                break
            deltas = self._merge(part, i, j, deltas)
            place[place == j] = i
            place[place > j] -= 1
        if before > part.K:
            relabel(part.labels, place)
        return before > part.K

    def _pair_deltas(self, part: Partition, only: int = -1, deltas: Floats | None = None) -> Floats:
        """(K, K) what each merge would add to J; +inf on and below the diagonal."""
        K = part.K
        if deltas is None:
            deltas = np.full((K, K), np.inf)
        threads = threads_for(self.n_threads, K * (K if only < 0 else 1) * self.pricing.grid.width * 20)
        _kernel.pair_deltas(
            part.groups[:K], part.cost[:K], self.pricing, self.selection, part.mask[0], only, deltas,
            self._union, self._work, self._mask, threads,
        )  # fmt: skip
        return deltas

    def _merge(self, part: Partition, i: int, j: int, deltas: Floats) -> Floats:
        """Cluster j joins i < j; later numbers shift down. Labels are the caller's. Returns the table of pairs that is left."""
        add_group(part.groups[i], part.groups[j], self.pricing)
        for array in (part.groups, part.cost, part.mask):
            array[j : part.K - 1] = array[j + 1 : part.K]
        part.K -= 1
        one = slice(i, i + 1)
        _kernel.price_groups(part.groups[one], self.pricing, self.selection, False, self._work[:1], part.mask[one], part.cost[one])
        rest = np.delete(np.arange(part.K + 1), j)
        return self._pair_deltas(part, i, np.ascontiguousarray(deltas[np.ix_(rest, rest)]))

    def grow(self, part: Partition) -> None:
        """Split every cluster that a split makes cheaper, all together, settle, and again until none is left."""
        while True:
            splits = [(split.delta, k, split) for k, split in self._paying_splits(part)]
            splits.sort(key=lambda entry: entry[:2])
            splits = splits[: max(self.problem.cap - part.K, 0)]
            if not splits:
                return
            before = part.copy() if self.problem.rules.selection == "threshold" else None
            for _, k, split in splits:
                self._apply(part, k, split)
            self.settle(part)
            if before is not None and part.objective >= before.objective - 1e-9:  # thresholds minimise nothing: passes may undo a split
                vars(part).update(vars(before))
                return

    def _paying_splits(self, part: Partition) -> Iterator[tuple[int, Split]]:
        if self.problem.cap <= part.K:
            return
        for k in range(part.K):
            key = part.groups[k].tobytes()
            if key in self._failed or part.groups[k, 0] * self.pricing.unit < 4:
                continue
            split = self.best_split(part, k)
            if split is not None and split.delta < -self._split_tie:
                yield k, split
            else:
                self._failed.add(key)

    def best_split(self, part: Partition, k: int, at_any_price: bool = False) -> Split | None:
        """The best of the three most promising cuts of a cluster, each after its local passes.

        A cut of which the passes empty a side is no cut, unless there is no other and one is wanted at any price.
        """
        grid = self.pricing.grid
        cuts = Cuts(np.empty(grid.n_levels, np.int32), np.empty(grid.p, np.int32), np.empty(grid.p))
        n_candidates = _kernel.propose_splits(part.groups[k], self.pricing, cuts.level_slot, cuts.numeric_slot, cuts.threshold)
        if n_candidates == 0:
            return None
        rows = np.flatnonzero(part.labels == k).astype(np.int32)
        best: Split | None = None
        sides, score = self._scored(part, k, rows, cuts, n_candidates)
        promising = three_best(score)
        for c in promising:
            far = sides[c] if len(rows) <= _SPLIT_SAMPLE else self._far_side(rows, cuts.only(c))
            split = self._local_passes(part, k, rows, self._side(rows, c, cuts), far, _LOCAL_PASSES)
            if split is not None and (best is None or split.delta < best.delta - 1e-9):
                best = split
        if best is None and at_any_price and promising:
            c = promising[0]
            best = self._local_passes(part, k, rows, self._side(rows, c, cuts), self._far_side(rows, cuts.only(c)), 0)
        return best

    def _scored(self, part: Partition, k: int, rows: NDArray[np.int32], cuts: Cuts, n: int) -> tuple[Integers, Floats]:
        """(n, width) far sides of the candidate cuts and (n,) what each would add to J; a large cluster is judged by a sample."""
        group, cost, pricing = part.groups[k], part.cost[k], self.pricing
        if len(rows) <= _SPLIT_SAMPLE:
            sides = self._sides(rows, cuts, n, -1)
        else:
            problem = self.problem
            sample = rows[spread(len(rows), _SPLIT_SAMPLE, problem.seed, _SPLIT_DRAW, len(rows))]
            sides = self._sides(sample, cuts, n + 1, n)
            scale_up = float(group[0]) / max(float(sides[n, 0]), 1.0)
            pricing = pricing_of(problem.background, problem.rules, scale_up, problem.total)
            group, one = np.ascontiguousarray(sides[n]), self._mask[:1]
            one[:] = part.mask[0]
            whole = np.empty(1)
            _kernel.price_groups(group[None], pricing, self.selection, False, self._work[:1], one, whole)
            cost, sides = float(whole[0]), sides[:n]
        score = np.empty(n)
        _kernel.split_scores(
            group, cost, sides, pricing, self.selection, part.mask[0], score, self._union, self._work, self._mask,
            threads_for(self.n_threads, 20 * sides.size),
        )  # fmt: skip
        return sides, score

    def _sides(self, rows: NDArray[np.int32], cuts: Cuts, n: int, everything: int) -> Integers:
        """(n, width) moments of the far side of every cut, and of all the rows in slot `everything`."""
        grid, table = self.pricing.grid, self.problem.table
        threads = threads_for(self.n_threads, len(rows) * n * (grid.p + grid.q))
        sides = np.zeros((threads, n, grid.width), np.int64)
        work = np.empty((threads, _kernel.split_work_size(self.pricing)))
        _kernel.split_moments(
            table.numeric, table.codes, self.problem.weight, rows, self.pricing, cuts.level_slot, cuts.numeric_slot, cuts.threshold,
            everything, sides, work, threads,
        )  # fmt: skip
        first: Integers = sides[0]
        return first

    def _far_side(self, rows: NDArray[np.int32], cut: Cuts) -> Integers:
        """(width,) moments of the far side of one cut, numbered 0."""
        far: Integers = self._sides(rows, cut, 1, -1)[0]
        return far

    def _side(self, rows: NDArray[np.int32], c: int, cuts: Cuts) -> Labels:
        """(m,) 1 for the rows on the far side of candidate c."""
        table, grid = self.problem.table, self.pricing.grid
        at = np.flatnonzero(cuts.level_slot == c)
        if len(at):
            d = int(np.searchsorted(grid.level_start, at[0], side="right")) - 1
            return np.asarray(table.codes[rows, d] == at[0] - grid.level_start[d], dtype=np.int32)
        d = int(np.flatnonzero(cuts.numeric_slot == c)[0])
        z = (table.numeric[rows, d].astype(np.float64) - self.pricing.centre[d]) * self.pricing.scale[d]
        return np.asarray(z > cuts.threshold[d], dtype=np.int32)

    def _local_passes(
        self, part: Partition, k: int, rows: NDArray[np.int32], side: Labels, far: Integers, max_passes: int
    ) -> Split | None:
        """Two-cluster passes over the rows of cluster k; None when one side takes all."""
        table, grid = self.problem.table, self.pricing.grid
        groups = np.stack([part.groups[k], far])
        subtract_group(groups[0], far, self.pricing)
        mask = np.repeat(part.mask[:1], 2, axis=0)
        cost, path = np.empty(2), np.empty(max_passes + 1)
        threads = threads_for(self.n_threads, len(rows) * (grid.p + grid.q))
        K, _ = _passes.passes(
            table.numeric, table.codes, self.problem.weight, rows, side, groups, 2, self.pricing, self.selection, False,
            max_passes, self._slab, self._scratch, self._partial, self._work, mask, cost, path, threads,
        )  # fmt: skip
        if K < 2:
            return None
        return Split(float(cost[0] + cost[1] - part.cost[k]), rows[side == 1], groups, cost, mask)

    def _apply(self, part: Partition, k: int, split: Split) -> None:
        """Cut cluster k; what leaves becomes the last cluster."""
        part.labels[split.moved] = part.K
        for side, cluster in ((0, k), (1, part.K)):
            part.groups[cluster], part.cost[cluster], part.mask[cluster] = split.groups[side], split.cost[side], split.mask[side]
        part.K += 1

    def learn_from(self, other: Search) -> None:
        """Take over what another line over the same table found out."""
        self._failed |= other._failed
        self.n_passes = max(self.n_passes, other.n_passes)

    def cross(self, part: Partition, other: Partition) -> Partition:
        """What two partitions agree on, merged while it pays, settled and grown; the first one where that is no better."""
        trial = self.partition(common_parts(part, other, self.capacity))
        self._merge_while_it_pays(trial)
        self.settle(trial)
        self.grow(trial)
        return trial if trial.objective < part.objective - self._split_tie else part

    def forced_merges(self, part: Partition) -> Partition:
        """Merge the cheapest pairs although J rises, let the rest find its place, and keep what ends lower."""
        tried: set[bytes] = set()
        improved = True
        while improved and part.K > 1:
            improved = False
            for i, j in self._untried_pairs(part, tried):
                trial = part.copy()
                self._force(trial, i, j)
                self.passes(trial)
                self.grow(trial)
                if trial.objective < part.objective - self._split_tie:
                    part, improved = trial, True
                    break
        return part

    def _untried_pairs(self, part: Partition, tried: set[bytes]) -> Iterator[tuple[int, int]]:
        deltas = self._pair_deltas(part)
        order = np.argsort(deltas, axis=None, kind="stable")[: part.K * (part.K - 1) // 2]
        given = 0
        for flat in order:
            i, j = divmod(int(flat), part.K)
            union = part.groups[i].copy()
            add_group(union, part.groups[j], self.pricing)
            key = union.tobytes()
            if key in tried:
                continue
            if given == _FORCED_PAIRS or len(tried) >= _FORCED_TRIES:
                return
            tried.add(key)
            given += 1
            yield i, j

    def _force(self, part: Partition, i: int, j: int) -> None:
        """Merge i < j whatever it costs."""
        place = np.arange(part.K, dtype=np.int32)
        place[j] = i
        place[place > j] -= 1
        self._merge(part, i, j, np.full((part.K, part.K), np.inf))
        relabel(part.labels, place)

    # ---- the search ----

    def run(self, labels: Labels, soft: bool) -> Partition:
        """Settle and grow from a start partition; a random one is softened first, for priced it would collapse at once."""
        part = self.partition(labels)
        if soft:
            self.passes(part, _kernel.SELECTIONS["soft"], _SOFT_PASSES)
            self._price(part)
        self.settle(part)
        self.grow(part)
        return part

    def towards(self, part: Partition, wish: int) -> None:
        """Best merges down, or best splits up, to `wish` clusters (as near as the table allows)."""
        while wish < part.K:
            self.merge_best(part)
        while wish > part.K:
            if not self._split_somewhere(part):
                return

    def _split_somewhere(self, part: Partition) -> bool:
        """The cheapest split that survives the passes, or, if none does, the cheapest as it stands."""
        splits = [(split.delta, k, split) for k in range(part.K) if (split := self.best_split(part, k, at_any_price=True)) is not None]
        splits.sort(key=lambda entry: entry[:2])
        for _, k, split in splits:
            trial = part.copy()
            self._apply(trial, k, split)
            self.passes(trial)
            if trial.K > part.K:
                vars(part).update(vars(trial))
                return True
        if splits:
            self._apply(part, *splits[0][1:])
        return bool(splits)

    def merge_best(self, part: Partition) -> None:
        """One step down the merge path."""
        i, j = best_pair(self._pair_deltas(part))
        self._force(part, i, j)
        self.passes(part)

    def merge_path(self, part: Partition) -> MergePath:
        """The partition (labels by first appearance, every row in a cluster) and every one on the way down to one cluster."""
        constant = self.problem.background.cost
        path = MergePath(part.labels, part.K, constant + part.objective)
        part = part.copy()
        while part.K > 1:
            before = part.labels.astype(np.uint8 if part.K <= 256 else np.int32)
            self.merge_best(part)
            self.reorder(part, first_appearance(self.settled(part), part.K))
            path.append(part.K, constant + part.objective, before, part.labels)
        return path

    def settled(self, part: Partition) -> Labels:
        """The partition's labels, rows of weight 0 that lost their cluster put into the cheapest."""
        if len(self.problem.weight) and (part.labels < 0).any():
            clusters = PricedClusters(self.moments(part), self.problem.background, self.problem.rules)
            settle_weightless(self.problem, clusters.tables(), part.labels)
        return part.labels

    def reorder(self, part: Partition, order: NDArray[np.intp]) -> None:
        """Number the clusters anew; none is lost."""
        renumber(part.labels, np.argsort(order).astype(np.int32))
        for array in (part.groups, part.cost, part.mask):
            array[: part.K] = array[order]

    def moments(self, part: Partition) -> Moments:
        """Exact moments of a partition."""
        moments = Moments(self.problem.background.grid, self.problem.background.unit, part.K)
        moments.groups[:] = part.groups[: part.K]
        return moments


def clusters_at(problem: Problem, part: Partition, factor: float) -> int:
    """Clusters that are left of a partition when merges alone follow a price that is `factor` times as high."""
    rules = replace(problem.rules, price_factor=factor * problem.rules.price_factor)
    search = Search(replace(problem, rules=rules), 1)
    part = Partition(np.empty(0, np.int32), part.groups.copy(), part.K, part.cost.copy(), part.mask.copy())
    search._price(part)
    search._merge_while_it_pays(part)
    return part.K


def common_parts(part: Partition, other: Partition, room: int) -> Labels:
    """Labels of the intersections of two partitions, numbered by cluster of the first, then of the second.

    Where there are more than `room`, the smallest stay with the largest one of their cluster in the first.
    """
    cell = np.maximum(part.labels, 0) * np.int32(other.K) + np.maximum(other.labels, 0)  # a row without weight may have no cluster
    size = np.bincount(cell, minlength=part.K * other.K).reshape(part.K, other.K)
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
    i, j = divmod(int(np.argmax(deltas <= deltas.min() + 1e-9)), len(deltas))
    return i, j


def three_best(score: Floats) -> list[int]:
    """Up to three finite scores, best first; within 1e-9 the earlier counts as better."""
    chosen: list[int] = []
    score = score.copy()
    while len(chosen) < 3 and np.isfinite(score.min(initial=np.inf)):
        chosen.append(int(np.argmax(score <= score.min() + 1e-9)))
        score[chosen[-1]] = np.inf
    return chosen


def relabel(labels: Labels, place: NDArray[np.int32]) -> None:
    """labels = place[labels] in place; -1 stays."""
    renumber(labels, np.append(place, np.int32(-1)))


def add_group(group: Integers, other: Integers, pricing: _kernel.Pricing) -> None:
    """group += other, exactly."""
    _moments.merge(group, other, 1, pricing.grid.first_numeric)


def subtract_group(group: Integers, other: Integers, pricing: _kernel.Pricing) -> None:
    """group -= other, exactly."""
    _moments.merge(group, other, -1, pricing.grid.first_numeric)
