"""Merge/split search under the pooled background, whose distributions depend on the masks of all clusters.

Merges and splits are proposed by their costs against the present shared distributions, as if these stayed,
and accepted by the exact J, for which the masks of all clusters are chosen again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import Self

import numpy as np

from craftc._common.labels import numbering
from craftc._common.threads import threads_for
from craftc._common.typing import Floats
from craftc._kernels import craft_merges as merges_kernel
from craftc._kernels import craft_passes as passes_kernel
from craftc._kernels import craft_pooled as pooled_kernel
from craftc._kernels import craft_price as price_kernel
from craftc._kernels.craft_merges import MergeSpace
from craftc.craft.clusters import Clusters
from craftc.craft.description_length import pricing_of
from craftc.craft.search.config import FitConfig
from craftc.craft.search.merges import MAX_PASSES, START_CLUSTERS, MergeSplitSearch, Partition, Split, at_once

_TRIED_PAIRS = 4  # proposed merges of which the exact J is computed
_TRIED_SPLITS = 2  # and splits of a cluster
_STEPS_OF_A_CHANGE = 20  # that a merge or split takes for every moment of every pair or cluster
_HOPELESS = 60.0  # nats by which a proposed split may raise J against the present shared distributions
_MANY_CLUSTERS, _MANY_CHOICES = (
    20,
    4000,
)  # above, by clusters and features, a new partition takes its masks from a quick choice


class PooledSearch(MergeSplitSearch):
    """The search of one start under the pooled background.

    Parameters
    ----------
    config : FitConfig
        With the description-length price and the pooled background.
    n_threads : int
        Threads for the rows of a pass.
    """

    def __init__(self, config: FitConfig, n_threads: int) -> None:
        super().__init__(config, n_threads)
        self._space_of_merges = MergeSpace(self.pricing, self.capacity, n_threads)
        self._improved: dict[bytes, float] = {}  # J of partitions whose masks have been chosen thoroughly
        self.local_selection = price_kernel.SELECTIONS[
            "free"
        ]  # two weak halves may differ before the codes of their masks pay

    def again(self, config: FitConfig) -> Self:
        """The search of another start of the same table, in the same buffers; of two such searches one makes
        a step at a time.
        """
        other = super().again(config)
        other._improved = {}
        return other

    # ---- masks ----

    def price(self, part: Partition, choose_given: bool = True) -> None:
        """Masks of a new partition."""
        quick = part.K > _MANY_CLUSTERS or part.K * self.pricing.D > _MANY_CHOICES
        if quick:
            self.pricing.relative = False
            super().price(part)
        self._choose_masks(part, "continue" if quick else "anew")

    def _choose_masks(self, part: Partition, effort: str) -> None:
        """Masks of all clusters, the distributions that they share, and J."""
        K = part.K
        pricing, work = self._room_for(K)
        part.excess = pooled_kernel.price_partition(
            part.groups[:K], pricing, pooled_kernel.EFFORTS[effort], work, part.mask[:K], part.cost[:K]
        )
        part.shared = pricing.shared.group.copy()

    def _room_for(self, K: int) -> tuple[price_kernel.Pricing, Floats]:
        """The pricing, and workspace, with room for K clusters."""
        if self.pricing.shared.room < K:
            self.pricing = pricing_of(
                self.config.background, self.config.spec, total_weight=self.config.total_weight, room=K
            )
        return self.pricing, self._work if len(self._work) >= K else np.empty((K, self._work.shape[1]))

    def _merge_space(self, K: int) -> tuple[price_kernel.Pricing, MergeSpace]:
        """The pricing, and workspace of merges and splits, with room for K clusters."""
        pricing, _ = self._room_for(K)
        if self._space_of_merges.capacity < K:
            self._space_of_merges = MergeSpace(pricing, K, self.n_threads)
        return pricing, self._space_of_merges

    def _improve_masks(self, part: Partition) -> bool:
        """Choose the masks of a partition thoroughly; returns whether J fell."""
        key, before = blake2b(part.groups[: part.K].data).digest(), part.excess
        if self._improved.get(key, -math.inf) >= before:
            return False  # the same partition with these masks
        self._choose_masks(part, "thorough")
        self._improved[key] = part.excess
        return part.excess < before - self._split_tolerance

    def _against(self, part: Partition) -> None:
        """Price groups of rows against the shared distributions of a partition."""
        assert part.shared is not None
        pooled_kernel.use_shared(self.pricing, part.shared)

    # ---- steps ----

    def passes(self, part: Partition, selection: int | None = None, max_passes: int = MAX_PASSES) -> int:
        """Batch passes until convergence; masks and shared distributions follow every pass."""
        self.pricing.relative = False
        made = super().passes(
            part, price_kernel.SELECTIONS["pooled"] if selection is None else selection, max_passes
        )
        if selection is None:
            part.excess, part.shared = self.excess, self.pricing.shared.group.copy()
        return made

    def merge_until_stable(self, part: Partition) -> None:
        """Passes, merges and a thorough choice of the masks in turn until none of them lowers J."""
        while True:
            self._passes_and_merges(part)
            if not self._improve_masks(part):
                return

    def _passes_and_merges(self, part: Partition) -> None:
        """Passes and merges in turn until no merge lowers J; of a small table in one kernel call, if nobody
        looks on.
        """
        if not self._small or part.K > START_CLUSTERS or self.config.callback:
            super().merge_until_stable(part)
            return
        self.stop_if_asked()
        (pricing, merge_space), of, space = self._merge_space(part.K), self.rows, self._space
        part.shared = np.empty(pricing.grid.width, np.int64)
        part.K, part.excess, made, part.converged = passes_kernel.passes_and_merges(
            of.table.numeric,
            of.table.codes,
            of.weight,
            part.labels,
            part.groups,
            part.K,
            pricing,
            MAX_PASSES,
            self.config.least_fall,
            space.slab,
            space.scratch,
            space.work,
            part.mask,
            part.cost,
            part.shared,
            np.empty(MAX_PASSES + 1),
            merge_space,
            _TRIED_PAIRS,
            self._merge_tolerance,
        )
        self.n_passes += made

    def merge_while_cheaper(self, part: Partition) -> bool:
        """Merge the pair that lowers J most, of those proposed, while one does; returns whether any pair was
        merged.
        """
        before, place = part.K, numbering(part.K)
        deltas, known, ended = np.empty((before, before)), merges_kernel.UNKNOWN, part.K == 1
        pricing, space = self._merge_space(before)
        assert part.shared is not None
        part.shared = part.shared.copy()
        work = before * pricing.grid.width * _STEPS_OF_A_CHANGE  # of the pairs of one cluster
        of_one, of_all = threads_for(self.n_threads, work), threads_for(self.n_threads, work * before)
        while not ended:
            self.stop_if_asked()
            part.K, part.excess, known, ended = merges_kernel.merge_while_cheaper(
                part.groups,
                part.mask,
                part.cost,
                part.shared,
                part.K,
                part.excess,
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

    def pair_deltas(self, part: Partition, only: int = -1, deltas: Floats | None = None) -> Floats:
        """(K, K) change of J by each merge if the shared distributions stayed."""
        self._against(part)
        return super().pair_deltas(part, only, deltas)

    def best_merged(self, part: Partition, pairs: list[tuple[int, int]]) -> tuple[Partition, int, int]:
        """The partition of the lowest J, its labels unchanged, of those with clusters i < j of a pair merged;
        and the pair.

        The union selects what both select, or what one selects.
        """
        K = part.K
        pricing, space = self._merge_space(K)
        best, at, excess = merges_kernel.best_merge(
            part.groups[:K], part.mask[:K], np.array(pairs, np.intp), pricing, space
        )
        trial = replace(
            part,
            groups=space.groups[at].copy(),
            K=K - 1,
            cost=space.cost.copy(),
            mask=space.mask[at].copy(),
            converged=False,
            excess=excess,
            shared=pricing.shared.group.copy(),
        )
        return trial, *pairs[best]

    def cheapest_pair(self, part: Partition) -> tuple[int, int]:
        """The pair i < j whose merge gives the lowest J, of those proposed."""
        _, i, j = self.best_merged(part, cheapest(self.pair_deltas(part), _TRIED_PAIRS))
        return i, j

    def merge_groups(self, part: Partition, i: int, j: int) -> None:
        """Merge cluster j into i < j, all but the labels; later clusters shift down."""
        vars(part).update(vars(self.best_merged(part, [(i, j)])[0]))

    def splits(
        self, part: Partition, clusters: Sequence[int], at_any_price: bool = False
    ) -> list[list[Split]]:
        """The most promising splits of each of some clusters, each after its local passes against the present
        shared distributions.
        """
        self._against(part)
        return super().splits(part, clusters, at_any_price)

    def apply_split(self, part: Partition, k: int, split: Split) -> None:
        """Split cluster k; both halves select what the cluster selected, or each what pays against the
        present shared distributions.
        """
        self._split(part, [(k, split)], -math.inf)

    def _split(self, part: Partition, splits: Sequence[tuple[int, Split]], tolerance: float) -> set[int]:
        """Split clusters, in order and each at most once, where that lowers J by more than a tolerance;
        returns the clusters split.
        """
        pricing, space = self._merge_space(self.capacity)
        assert part.shared is not None
        part.shared, done = part.shared.copy(), set[int]()
        at_a_time = at_once(self.capacity * pricing.grid.width * _STEPS_OF_A_CHANGE)
        for first in range(0, len(splits), at_a_time):
            self.stop_if_asked()
            some = [(k, split) for k, split in splits[first : first + at_a_time] if k not in done]
            if not some:
                continue
            n, K = len(some), part.K
            clusters, accepted = np.array([k for k, _ in some], np.intp), np.empty(n, np.uint8)
            halves, selected = (
                np.empty((n, 2, pricing.grid.width), np.int64),
                np.empty((n, 2, pricing.D), np.uint8),
            )
            for s, (_, split) in enumerate(some):
                halves[s], selected[s] = split.groups, split.mask
            part.K, part.excess = merges_kernel.split_while_cheaper(
                part.groups,
                part.mask,
                part.cost,
                part.shared,
                K,
                part.excess,
                clusters,
                halves,
                selected,
                pricing,
                space,
                self.config.max_clusters,
                tolerance,
                accepted,
            )
            for new, (k, split) in enumerate((some[s] for s in np.flatnonzero(accepted)), start=K):
                part.labels, part.converged = self.rows.moved(part.labels, split.moved, new), False
                done.add(k)
        return done

    def split_once(self, part: Partition) -> bool:
        """Split clusters while that lowers J, each at most once, and merge until stable; returns whether J
        fell.
        """
        if self.config.max_clusters <= part.K:
            return False
        tried = {k: part.groups[k].tobytes() for k in self.splittable(part)}
        proposed = [
            (split.delta, k, split)
            for k, splits in zip(tried, self.splits(part, list(tried)), strict=True)
            for split in sorted(splits, key=lambda split: split.delta)[:_TRIED_SPLITS]
            if split.delta < _HOPELESS
        ]
        proposed.sort(key=lambda entry: entry[:2])
        done = (
            self._split(part, [entry[1:] for entry in proposed], self._split_tolerance) if proposed else set()
        )
        self._rejected |= {key for k, key in tried.items() if k not in done}
        if done:
            self.merge_until_stable(part)
        return bool(done)

    def clusters(self, part: Partition) -> Clusters:
        """The clusters of a partition, with the masks that the search has found."""
        return Clusters(self.moments(part), self.config.background, self.config.spec, part.mask[: part.K])


def cheapest(deltas: Floats, n: int) -> list[tuple[int, int]]:
    """Up to n pairs i < j of the lowest entries; ties to the first."""
    order = np.argsort(deltas, axis=None, kind="stable")[: min(n, len(deltas) * (len(deltas) - 1) // 2)]
    return [divmod(int(flat), len(deltas)) for flat in order]
