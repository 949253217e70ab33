"""Merge/split search for the number of clusters under the description-length price.

Every accepted step lowers J, which depends on the partition and its masks alone, so the search ends. Merges
and splits are priced from exact moments; the rows are read only by passes, which are fully parallel because
no clusters open in them, and once for each cluster to be split.

The clusters that do not select a feature share one distribution of it, which depends on the masks of all
clusters. Merges and splits are proposed by their costs against the present shared distributions, as if these
stayed, and accepted by the exact J, for which the masks of all clusters are chosen again.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from operator import attrgetter
from typing import Any, Generic, Self, cast

import numpy as np
from numpy.typing import NDArray

from craftc._common.labels import join, numbering
from craftc._common.threads import aligned, threads_for
from craftc._common.typing import Floats, Integers, Labels, Mask
from craftc._kernels import craft_merges as merges_kernel
from craftc._kernels import craft_passes as passes_kernel
from craftc._kernels import craft_pooled as pooled_kernel
from craftc._kernels import craft_price as price_kernel
from craftc._kernels import moments as moments_kernel
from craftc._kernels.craft_merges import MergeSpace
from craftc.craft.background import pricing_of
from craftc.craft.clusters import Clusters, pass_work
from craftc.craft.rows import L, Passes, PassSpace, S
from craftc.craft.rows.local import LocalRows
from craftc.craft.search import FitConfig, drop_empty
from craftc.craft.search.splits import Split, SplitFinder
from craftc.table.moments import Moments

START_CLUSTERS = 20
_DELTA = attrgetter("delta")
_MAX_PASSES = 50
_SOFT_PASSES = 10
_FORCED_PAIRS, _FORCED_TRIES = 5, 400  # unions that are tried for one partition, and in all
_TRIED_PAIRS, _TRIED_SPLITS = 4, 2  # proposed merges, and splits of a cluster, whose exact J is computed
_OPERATIONS = 20  # of a merge or split per moment of every pair or cluster; decides the number of threads
_HOPELESS = 60.0  # nats by which a proposed split may raise J against the present shared distributions
# clusters, and clusters times features, above which a new partition takes its masks from a quick choice
_MANY_CLUSTERS, _MANY_CHOICES = 20, 4000
_CELLS_AT_ONCE = 200_000_000  # cell visits between two checks for an interrupt, a fraction of a second
# nats by which a merge, or a split with the passes after it, must lower J
_MERGE_TOLERANCE, _SPLIT_TOLERANCE = 1e-9, 1e-6


@dataclass
class Partition(Generic[L]):
    """A partition in the search: labels, exact moments and costs of the clusters.

    Arrays over clusters have room for `capacity` clusters; the first `K` entries are in use.
    """

    labels: L  # None where only the clusters are of interest
    groups: Integers
    K: int
    cost: Floats
    mask: Mask
    shared: Integers  # (width,) moments of the cells that clusters share
    converged: bool = False  # whether passes converged after the last change
    objective: float = math.inf  # J less the cost of the whole table's distribution, nats

    @property
    def key(self) -> bytes:
        """Equal for partitions of the same clusters and masks, however they are numbered."""
        digests = []
        for own, mask in zip(self.groups[: self.K], self.mask[: self.K], strict=True):
            of_cluster = blake2b(own.data)
            of_cluster.update(mask.data)
            digests.append(of_cluster.digest())
        return blake2b(b"".join(sorted(digests))).digest()


class MergeSplitSearch(Generic[L, S]):
    """The search of one start; several may run in parallel, each with its own buffers. `n_threads` are for
    the rows of a pass.
    """

    def __init__(self, config: FitConfig[L, S], n_threads: int) -> None:
        self.config, self.n_threads, self.rows = config, n_threads, config.rows
        self.capacity = max(config.max_clusters, START_CLUSTERS) + 1  # one more on the way of an exchange
        self.pricing = pricing_of(
            config.background, config.spec, total_weight=config.total_weight, room=self.capacity
        )
        self._merge_tolerance = max(_MERGE_TOLERANCE, config.rounding)
        self.split_tolerance = max(_SPLIT_TOLERANCE, config.rounding)
        width, shape = config.background.grid.width, (n_threads if n_threads > 1 else 0, self.capacity)
        self._space = PassSpace(
            aligned((passes_kernel.slab_size(self.pricing, self.capacity),)),
            aligned((n_threads, passes_kernel.pass_scratch_size(self.pricing, self.capacity))),
            np.zeros((*shape, width), np.int64),
            np.empty((max(self.capacity, 1 + 2 * n_threads), price_kernel.parts_size(self.pricing))),
        )
        self._merge_space, self._work = MergeSpace(self.pricing, self.capacity, n_threads), self._space.work
        self._finder = SplitFinder(config, self._space, self.pricing.D, n_threads)
        self._rejected: set[bytes] = set()
        self._improved: dict[bytes, float] = {}  # J of partitions whose masks have been chosen thoroughly
        self.n_passes = 0

    def again(self, config: FitConfig[L, S]) -> Self:
        """The search of another start of the same table, in the same buffers; of two such searches one makes
        a step at a time.
        """
        other = object.__new__(type(self))
        vars(other).update(vars(self))
        other.config, other._rejected, other._improved, other.n_passes = config, set(), {}, 0
        return other

    # ---- partitions and their masks ----

    def partition(self, labels: L, priced: bool = True) -> Partition[L]:
        """A partition from labels 0..K-1, with masks and costs if it is `priced`."""
        background = self.config.background
        moments = self.rows.moments(
            background.grid, background.count_weight, labels, self.rows.n_clusters(labels), self.n_threads
        )
        labels, _ = drop_empty(self.rows, moments, labels)
        return self.of_groups(moments.groups, labels, priced)

    def of_groups(self, own: Integers, labels: L = cast(L, None), priced: bool = True) -> Partition[L]:  # noqa: B008
        """A partition from the sums of its clusters; its labels may be None."""
        K, width = own.shape
        groups = np.zeros((max(self.capacity, K), width), np.int64)
        groups[:K] = own
        mask = np.zeros((len(groups), self.pricing.D), np.uint8)
        part = Partition(labels, groups, K, np.empty(len(groups)), mask, np.zeros(width, np.int64))
        if priced:
            self.price(part)
        return part

    def copy(self, part: Partition[L]) -> Partition[L]:
        """A partition whose arrays may change."""
        labels = part.labels if part.labels is None else self.rows.copied(part.labels)
        groups, cost, mask = (_used(own, part.K) for own in (part.groups, part.cost, part.mask))
        return replace(part, labels=labels, groups=groups, cost=cost, mask=mask)

    def price(self, part: Partition[L]) -> None:
        """Masks and costs of a new partition."""
        K = part.K
        quick = K > _MANY_CLUSTERS or K * self.pricing.D > _MANY_CHOICES
        if quick:
            pricing, _ = self._room_for(K)
            pricing.relative = False
            price_kernel.price_groups(
                part.groups[:K],
                pricing,
                price_kernel.SELECTIONS["priced"],
                self._work[:K],
                part.mask[:K],
                part.cost[:K],
            )
        self._choose_masks(part, "continue" if quick else "anew")

    def _choose_masks(self, part: Partition[L], effort: str) -> None:
        """Masks of all clusters, the distributions that they share, and J."""
        K = part.K
        pricing, _ = self._room_for(K)
        part.objective = pooled_kernel.price_partition(
            part.groups[:K], pricing, pooled_kernel.EFFORTS[effort], self._work, part.mask[:K], part.cost[:K]
        )
        part.shared = pricing.shared.group.copy()

    def _improve_masks(self, part: Partition[L]) -> bool:
        """Choose the masks of a partition thoroughly; returns whether J fell."""
        key, before = digest(part.groups[: part.K]), part.objective
        if self._improved.get(key, -math.inf) >= before:
            return False  # the same partition with these masks
        self._choose_masks(part, "thorough")
        self._improved[key] = part.objective
        return part.objective < before - self.split_tolerance

    def _room_for(self, K: int) -> tuple[price_kernel.Pricing, MergeSpace]:
        """The pricing, and workspace of merges and splits, with room for K clusters."""
        config = self.config
        if self.pricing.shared.room < K:
            self.pricing = pricing_of(
                config.background, config.spec, total_weight=config.total_weight, room=K
            )
        if self._merge_space.capacity < K:
            self._merge_space = MergeSpace(self.pricing, K, self.n_threads)
        if len(self._work) < K:
            self._work = np.empty((K, self._work.shape[1]))
        return self.pricing, self._merge_space

    # ---- passes ----

    def stop_if_asked(self) -> None:
        """Raise KeyboardInterrupt if another search of this fit has ended by one."""
        if self.config.stop.is_set():
            raise KeyboardInterrupt

    def passes(self, part: Partition[L], max_passes: int = _MAX_PASSES, soft: bool = False) -> int:
        """Batch passes until convergence (see `FitConfig.least_fall`), or until `max_passes`; masks and
        shared distributions follow every pass. `soft`: at no price. Returns the number of passes.
        """
        config, grid = self.config, self.config.background.grid
        self.pricing.relative = False
        work = pass_work(len(self.rows), grid.p + grid.q, part.K)
        threads, path = threads_for(self.n_threads, work), np.empty(max_passes + 1)
        most = min(max_passes, at_once(work))
        selection = price_kernel.SELECTIONS["soft" if soft else "pooled"]
        clusters = Passes(
            part.groups, part.K, part.mask, part.cost, self.pricing, selection, config.least_fall
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
        if not soft:
            part.objective, part.shared = float(path[last]), self.pricing.shared.group.copy()
        return made

    def merge_until_stable(self, part: Partition[L]) -> None:
        """Passes, merges and a thorough choice of the masks in turn until none of them lowers J."""
        while True:
            self._passes_and_merges(part)
            if not self._improve_masks(part):
                return

    def _passes_and_merges(self, part: Partition[L]) -> None:
        """Passes and merges in turn until no merge lowers J; one kernel call if the table is small and no
        callback is set.
        """
        at_once = self._finder.small and part.K <= START_CLUSTERS and not self.config.callback
        if not (at_once and isinstance(self.rows, LocalRows)):
            self.passes(part)
            while self.merge_while_cheaper(part):
                self.passes(part)
            return
        self.stop_if_asked()
        (pricing, merge_space), of, space = self._room_for(part.K), self.rows, self._space
        part.shared = np.empty(pricing.grid.width, np.int64)
        part.K, part.objective, made, part.converged = passes_kernel.passes_and_merges(
            of.table.numeric,
            of.table.codes,
            of.weight,
            cast(Labels, part.labels),
            part.groups,
            part.K,
            pricing,
            _MAX_PASSES,
            self.config.least_fall,
            space.slab,
            space.scratch,
            space.work,
            part.mask,
            part.cost,
            part.shared,
            np.empty(_MAX_PASSES + 1),
            merge_space,
            _TRIED_PAIRS,
            self._merge_tolerance,
        )
        self.n_passes += made

    # ---- merges ----

    def merge_while_cheaper(self, part: Partition[L]) -> bool:
        """Merge the pair that lowers J most, of those proposed, while one does; returns whether any pair was
        merged.
        """
        before, place = part.K, numbering(part.K)
        deltas, known, ended = np.empty((before, before)), merges_kernel.UNKNOWN, part.K == 1
        pricing, space = self._room_for(before)
        part.shared = part.shared.copy()
        work = before * pricing.grid.width * _OPERATIONS  # of the pairs of one cluster
        of_one, of_all = threads_for(self.n_threads, work), threads_for(self.n_threads, work * before)
        while not ended:
            self.stop_if_asked()
            part.K, part.objective, known, ended = merges_kernel.merge_while_cheaper(
                part.groups,
                part.mask,
                part.cost,
                part.shared,
                part.K,
                part.objective,
                deltas,
                known,
                place,
                pricing,
                space,
                np.empty((_TRIED_PAIRS, 2), np.intp),
                self._merge_tolerance,
                at_once(work * before),
                of_one,
                of_all,
            )
        if before > part.K:
            part.converged = False
            self.relabel(part, place)
        return before > part.K

    def pair_deltas(self, part: Partition[L]) -> Floats:
        """(K, K) change of J by each merge if the shared distributions stayed; +inf on and below the
        diagonal.
        """
        K, n_threads = part.K, self.n_threads
        pooled_kernel.use_shared(self.pricing, part.shared)
        deltas = np.full((K, K), np.inf)
        threads = threads_for(n_threads, K * K * self.pricing.grid.width * _OPERATIONS)
        merges_kernel.pair_deltas(
            part.groups[:K],
            part.cost[:K],
            self.pricing,
            -1,
            deltas,
            np.empty((n_threads, part.groups.shape[1]), np.int64),
            np.empty((K, price_kernel.parts_size(self.pricing))),
            self._space.work,
            np.empty((max(n_threads, 2), self.pricing.D), np.uint8),
            threads,
        )
        return deltas

    def best_pair(self, part: Partition[L]) -> tuple[int, int]:
        """The clusters i < j whose merge has the lowest J of those proposed."""
        K, deltas = part.K, self.pair_deltas(part)
        order = np.argsort(deltas, axis=None, kind="stable")[: min(_TRIED_PAIRS, K * (K - 1) // 2)]
        pairs, space = np.column_stack(np.divmod(order, K)), self._room_for(K)[1]
        best = merges_kernel.best_merge(part.groups[:K], part.mask[:K], pairs, self.pricing, space)[0]
        i, j = pairs[best].tolist()
        return i, j

    def merge_best(self, part: Partition[L]) -> tuple[int, int]:
        """One step down the merge path: the merge of the lowest J of those proposed, then passes; returns the
        merged pair.
        """
        pair = self.best_pair(part)
        self.force_merge(part, *pair)
        self.passes(part)
        return pair

    def force_merge(self, part: Partition[L], i: int, j: int) -> None:
        """Merge clusters i < j at any cost. The union selects what both select, or what one selects."""
        K, place, pair = part.K, numbering(part.K), np.array([[i, j]])
        join(place, i, j)
        pricing, space = self._room_for(K)
        _, at, part.objective = merges_kernel.best_merge(part.groups[:K], part.mask[:K], pair, pricing, space)
        merged = space.groups[at], space.cost, space.mask[at]
        part.groups, part.cost, part.mask = (_used(own, K - 1) for own in merged)
        part.K, part.converged, part.shared = K - 1, False, pricing.shared.group.copy()
        self.relabel(part, place)

    def relabel(self, part: Partition[L], place: NDArray[np.int32]) -> None:
        """Renumber the labels of a partition: cluster k becomes place[k]; the last entry is that of -1."""
        if part.labels is not None:
            part.labels = self.rows.renumbered(part.labels, place)

    # ---- splits ----

    def apply_split(self, part: Partition[L], k: int, split: Split) -> None:
        """Split cluster k; both halves select what the cluster selected, or each what pays against the
        present shared distributions.
        """
        self._split(part, [(k, split)], -math.inf, self.capacity)

    def _split(
        self, part: Partition[L], splits: Sequence[tuple[int, Split]], tolerance: float, most_clusters: int
    ) -> set[int]:
        """Split clusters, in order and each at most once, where that lowers J by more than a tolerance, up to
        a number of clusters; returns the clusters split.
        """
        pricing, space = self._room_for(self.capacity)
        part.shared, done = part.shared.copy(), set[int]()
        at_a_time = at_once(self.capacity * pricing.grid.width * _OPERATIONS)
        for first in range(0, len(splits), at_a_time):
            self.stop_if_asked()
            some = [(k, split) for k, split in splits[first : first + at_a_time] if k not in done]
            if not some:
                continue
            n, K = len(some), part.K
            clusters, accepted = np.array([k for k, _ in some], np.intp), np.empty(n, np.uint8)
            halves = np.empty((n, 2, pricing.grid.width), np.int64)
            selected = np.empty((n, 2, pricing.D), np.uint8)
            for s, (_, split) in enumerate(some):
                halves[s], selected[s] = split.groups, split.mask
            part.K, part.objective = merges_kernel.split_while_cheaper(
                part.groups,
                part.mask,
                part.cost,
                part.shared,
                K,
                part.objective,
                clusters,
                halves,
                selected,
                pricing,
                space,
                most_clusters,
                tolerance,
                accepted,
            )
            for new, s in enumerate(np.flatnonzero(accepted).tolist(), start=K):
                k, split = some[s]
                part.labels = self.rows.moved(part.labels, split.moved, new)
                part.converged = False
                done.add(k)
        return done

    def splits(
        self, part: Partition[L], clusters: Sequence[int], at_any_price: bool = False
    ) -> list[list[Split]]:
        """The most promising splits of each of some clusters, each after its local passes against the present
        shared distributions.
        """
        pooled_kernel.use_shared(self.pricing, part.shared)
        return self._finder.splits(part.labels, part.groups, part.cost, clusters, self.pricing, at_any_price)

    def split_once(self, part: Partition[L]) -> bool:
        """Split clusters while that lowers J, each at most once, and merge until stable; returns whether J
        fell.
        """
        if self.config.max_clusters <= part.K:
            return False
        groups, unit = part.groups, self.pricing.count_weight
        tried: dict[int, bytes] = {}
        for k in range(part.K):
            key = digest(groups[k])
            if groups[k, 0] * unit >= 4 and key not in self._rejected:
                tried[k] = key
        proposed: list[tuple[int, Split]] = []
        for k, splits in zip(tried, self.splits(part, list(tried)), strict=True):
            for split in sorted(splits, key=_DELTA)[:_TRIED_SPLITS]:
                if split.delta < _HOPELESS:
                    proposed.append((k, split))
        deltas = np.array([split.delta for _, split in proposed])
        order = np.argsort(deltas, kind="stable").tolist()  # of equal ones the lower cluster first
        in_order = [proposed[at] for at in order]
        done = self._split(part, in_order, self.split_tolerance, self.config.max_clusters)
        for k in done:
            del tried[k]
        self._rejected.update(tried.values())
        if done:
            self.merge_until_stable(part)
        return bool(done)

    def learn_from(self, other: MergeSplitSearch[L, S]) -> None:
        """Take over the rejected splits and the number of passes of another start."""
        self._rejected |= other._rejected
        self.n_passes = max(self.n_passes, other.n_passes)

    # ---- the search ----

    def begin(self, labels: L, soft: bool) -> Partition[L]:
        """Passes and merges from a start partition; splits may follow.

        `soft` first runs passes at no price, for a random partition, which would collapse to one cluster at
        once under prices.
        """
        part = self.partition(labels, priced=not soft)
        if soft:
            self.passes(part, _SOFT_PASSES, soft=True)
            self.price(part)
        self.merge_until_stable(part)
        part.groups = _used(part.groups, part.K)  # frees what the merged clusters of a wide table have taken
        return part

    def forced_merges(self, part: Partition[L]) -> Partition[L]:
        """Merge the cheapest pairs although J rises, run passes and splits, and keep the result if it has a
        lower J.
        """
        tried: set[bytes] = set()
        improved = True
        while improved and part.K > 1:
            improved = False
            for i, j in self._untried_pairs(part, tried):
                trial = self.copy(part)
                self.force_merge(trial, i, j)
                self.passes(trial)
                while self.split_once(trial):
                    pass
                if trial.objective < part.objective - self.split_tolerance:
                    part, improved = trial, True
                    break
        return part

    def _untried_pairs(self, part: Partition[L], tried: set[bytes]) -> Iterator[tuple[int, int]]:
        """The cheapest pairs whose union has not been tried, a few for each partition."""
        deltas = self.pair_deltas(part)
        order = np.argsort(deltas, axis=None, kind="stable")[: part.K * (part.K - 1) // 2]
        n_pairs = 0
        for flat in order:
            i, j = divmod(int(flat), part.K)
            union = part.groups[i].copy()
            moments_kernel.merge(union, part.groups[j], 1, self.pricing.grid.first_numeric)
            key = digest(union)
            if key in tried:
                continue
            if n_pairs == _FORCED_PAIRS or len(tried) >= _FORCED_TRIES:
                return
            tried.add(key)
            n_pairs += 1
            yield i, j

    def clusters(self, part: Partition[L]) -> Clusters:
        """The clusters of a partition, with the masks that the search has found."""
        return Clusters(self.moments(part), self.config.background, self.config.spec, part.mask[: part.K])

    def moments(self, part: Partition[L]) -> Moments:
        """Exact moments of a partition."""
        background = self.config.background
        return Moments.of_groups(background.grid, background.count_weight, part.groups[: part.K])


def digest(sums: Integers) -> bytes:
    """What identifies the sums of clusters in few bytes; those of a wide table are megabytes."""
    return blake2b(sums.data).digest()


def _used(own: NDArray[Any], K: int) -> NDArray[Any]:
    """A copy of an array over clusters that takes memory for K of them; it has room for the others."""
    out = np.empty_like(own)
    out[:K] = own[:K]
    return out


def at_once(work: float) -> int:
    """Steps of this number of cell visits between two checks for an interrupt."""
    return max(1, int(_CELLS_AT_ONCE // max(work, 1)))
