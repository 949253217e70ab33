"""The search for few clusters of low scatter: best-first cuts, sweeps, cheapest merges, exchanges."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from craftc._common.dense_data import DenseData
from craftc._common.typing import Floats, Labels
from craftc._kernels import dpmeans as _kernel
from craftc.dpmeans.cuts import best_cuts
from craftc.dpmeans.descent import SphericalDescent

TOLERANCE = 1e-5  # relative fall of the sum of squares below which sweeps end
_STALE = 0.1  # share of the rows of a cluster that may have moved since its cut was sought
_SWEEPS = 100  # sweeps after a cut or merge, at most
_ROUNDS = 32  # rounds of exchanges, at most
_PAYS = 1.0 + 1e-9  # tolerance for rounding: a gain must exceed a cost by this factor
_MAY_PAY = 0.2  # share of the cost of a merge above which a cut is tried: sweeps may raise its gain
_TRIALS = 12  # such cuts that are tried one by one
_PATIENCE = 16  # clusters beyond twice the best number, while the description does not become shorter
_UNCERTAIN = 64  # clusters below which cuts of very many clusters may gain as little as cuts of noise
_CLEAR = (
    8.0  # cost of the cheapest merge over gain of the best cut of clear clusters; 8: equal pieces of a line
)
_FEWEST = 4  # rows, or weight, of a clear cluster
MOST_PAIRED = 1024  # clusters whose pairs are all compared, at most
MOST_CHOSEN = 128  # clusters that the description length may choose although they are not clear


@dataclass(frozen=True)
class Schedule:
    """How a search grows."""

    share: float  # of the largest gain; cuts that gain less wait
    beyond: float  # clusters before the merges, as a multiple of the requested number


FAST, THOROUGH = Schedule(0.3, 1.25), Schedule(0.7, 2.0)


@dataclass(frozen=True, eq=False)
class ClusterMerge:
    """A step of successive merges."""

    cost: float  # by how much the sum of squares rises
    numbers: NDArray[np.int32]  # (K,) the new number of every cluster of the start
    sizes: Floats  # weights of the clusters after the step


def merge_costs(centers: Floats, sizes: Floats) -> Floats:
    """(K, K) by how much merges of two clusters raise the inertia; inf on the diagonal."""
    costs = np.empty((len(sizes), len(sizes)))
    _kernel.pair_distances(np.ascontiguousarray(centers), costs)
    costs *= sizes * sizes[:, None] / (sizes + sizes[:, None])
    np.fill_diagonal(costs, np.inf)
    return costs


class SplitSearch:
    """A partition that changes by cuts, merges and sweeps.

    `data`: rows of weight > 0. `labels` (n,): partition to start with, 0..K-1, which changes in place;
    one cluster by default.
    """

    def __init__(self, data: DenseData, schedule: Schedule = FAST, labels: Labels | None = None) -> None:
        self.data, self._schedule = data, schedule
        self._start(data.one_cluster() if labels is None else labels)
        self._forget_cuts()
        self._sides = np.zeros(len(data), np.bool_)
        self.most_cut = self.labels  # the partition of `choose` before its merges

    def _start(self, labels: Labels) -> None:
        self._descent = SphericalDescent(self.data, 0.0, 0, labels, self.data.order(0, 0))

    # ---- the partition ----

    @property
    def labels(self) -> Labels:
        """Labels of the rows."""
        labels: Labels = self._descent.rows.labels
        return labels

    @property
    def K(self) -> int:
        """Number of clusters."""
        return self._descent.rows.K

    @property
    def centers(self) -> Floats:
        """(K, D) means."""
        return self._descent.rows.mu

    @property
    def sizes(self) -> Floats:
        """(K,) sums of the weights."""
        return np.asarray(self._descent.rows.sums.counts[: self.K] * self.data.unit, dtype=np.float64)

    @property
    def inertia(self) -> float:
        """Sum of squared distances of the rows to their centres."""
        return self._descent.objective  # at a price of 0

    def relabel(self, labels: Labels) -> None:
        """Continue with another partition 0..K-1; all cuts are sought anew."""
        self._start(labels)
        self._forget_cuts()

    def _forget_cuts(self) -> None:
        """Gains of the best cuts, and weight that has moved since they were sought."""
        self._gains, self._moved = np.zeros(self.K), np.full(self.K, np.inf)

    def sweep(self, most: int = 1) -> None:
        """Rows to their nearest centres, means follow, until the inertia hardly falls."""
        before, K = self.labels.copy(), self.K
        self._descent.run(self._descent.nearest, [], most, tolerance=TOLERANCE)
        if self.K < K:
            self._forget_cuts()
            return
        rows = np.flatnonzero(before != self.labels)
        weight = self.data.weight[rows] * self.data.unit if len(self.data.weight) else np.ones(len(rows))
        self._moved += np.bincount(before[rows], weight, K) + np.bincount(self.labels[rows], weight, K)
        self._sides[rows] = False

    def _present(self) -> tuple[Labels, Floats, Floats, NDArray[np.bool_]]:
        """The partition and its cuts, to return to."""
        return self.labels.copy(), self._gains, self._moved, self._sides.copy()

    def _return_to(self, partition: tuple[Labels, Floats, Floats, NDArray[np.bool_]]) -> None:
        labels, self._gains, self._moved, sides = partition
        self._start(labels.copy())
        self._sides = sides.copy()

    # ---- cuts ----

    def gains(self) -> Floats:
        """(K,) gains of the best cuts; a cut is sought again once a tenth of its cluster has moved."""
        due = self._moved > _STALE * self.sizes
        if due.any():
            number = np.where(due, np.cumsum(due, dtype=np.int32) - np.int32(1), np.int32(-1))
            cuts = best_cuts(self.data, number[self.labels], self.centers[due])
            np.copyto(self._sides, cuts.sides, where=due[self.labels])
            self._gains[due], self._moved[due] = cuts.gains, 0.0
        return self._gains

    def grow(self, most: int, least: float = 0.0) -> Floats:
        """Cut clusters that gain nearly as much as the best, up to `most`; returns the gains."""
        gains = self.gains()
        chosen = np.flatnonzero((gains > least * _PAYS) & (gains >= self._schedule.share * gains.max()))
        chosen = chosen[np.argsort(-gains[chosen], kind="stable")][: max(most - self.K, 0)]
        accepted = gains[chosen]
        if len(chosen):
            self._cut(chosen)
            self.sweep()
        return accepted

    def _cut(self, clusters: NDArray[np.intp]) -> None:
        """Cut some clusters; the second sides are appended as new ones."""
        K, m = self.K, len(clusters)
        number = np.full(K, -1, np.int32)
        number[clusters] = np.arange(K, K + m, dtype=np.int32)
        labels = self.labels
        apart = number[labels]
        self._start(np.where(self._sides & (apart >= 0), apart, labels).astype(np.int32, copy=False))
        if K + m > self.K:  # rows have moved since, and left one side
            self._forget_cuts()
            return
        self._gains = np.concatenate([self._gains, np.zeros(m)])
        self._moved = np.concatenate([self._moved, np.full(m, np.inf)])
        self._moved[clusters] = np.inf

    def cut_clear(self, most: int, price: float) -> None:
        """Cut clusters whose cut gains more than the price and much more than further cuts."""
        for _ in range(_ROUNDS):
            gains, before, K = self.gains(), self._present(), self.K
            chosen = np.flatnonzero(gains > price * _PAYS)
            self._cut(chosen)
            if K + len(chosen) > self.K:  # rows have moved since the cuts were sought, and left one side
                return self._return_to(before)
            sides = np.stack([chosen, np.arange(K, self.K)])
            clear = (gains[chosen] >= _CLEAR * self.gains()[sides].max(axis=0)) & (
                self.sizes[sides].min(axis=0) >= _FEWEST
            )
            self._return_to(before)
            chosen = chosen[clear][np.argsort(-gains[chosen][clear], kind="stable")][: max(most - K, 0)]
            if not len(chosen):
                return None
            self._cut(chosen)
            self.sweep(_SWEEPS)
        return None

    # ---- merges ----

    def merges(self, most: int | None = None) -> list[ClusterMerge]:
        """Successive merges of the pair whose merge costs least, down to one cluster, or `most` of them."""
        costs, sizes, means = merge_costs(self.centers, self.sizes), self.sizes, self.centers.copy()
        partner, least = costs.argmin(axis=1), costs.min(axis=1)
        alive, number = np.ones(self.K, np.bool_), np.arange(self.K, dtype=np.int32)
        steps: list[ClusterMerge] = []
        for _ in range(self.K - 1 if most is None else min(most, self.K - 1)):
            one = int(least.argmin())
            cost, k, j = float(least[one]), *sorted((one, int(partner[one])))
            total = sizes[k] + sizes[j]
            means[k] += (sizes[j] / total) * (means[j] - means[k])
            sizes[k], alive[j] = total, False
            number[number == j] = k
            squared = np.empty((self.K, 1))
            _kernel.distances(means, means[k : k + 1], squared, 1)
            joined = squared[:, 0] * (sizes * total / (sizes + total))
            joined[~alive] = joined[k] = np.inf
            costs[k], costs[:, k] = joined, joined
            costs[j], costs[:, j] = np.inf, np.inf
            nearer = (joined < least) | ((joined == least) & (k < partner))
            partner[nearer], least[nearer] = k, joined[nearer]
            lost = np.flatnonzero(alive & ~nearer & ((partner == k) | (partner == j)))
            changed = np.append(lost, (k, j))
            partner[changed], least[changed] = costs[changed].argmin(axis=1), costs[changed].min(axis=1)
            steps.append(
                ClusterMerge(cost, (np.cumsum(alive, dtype=np.int32) - np.int32(1))[number], sizes[alive])
            )
        return steps

    def merge(self, step: ClusterMerge) -> None:
        """Merge as in a step of :meth:`merges`, and sweep."""
        self.relabel(step.numbers[self.labels])
        self.sweep(_SWEEPS)

    def shrink(self, n_clusters: int, price: float) -> None:
        """Merge the cheapest pairs down to `n_clusters`, and while a merge costs less than the price."""
        if self.K <= MOST_PAIRED:
            steps = self.merges(None if price > 0.0 else self.K - n_clusters)
            last = sum(len(step.sizes) >= n_clusters or step.cost * _PAYS < price for step in steps)
            if last:
                self.merge(steps[last - 1])

    # ---- exchanges ----

    def exchange(self) -> None:
        """Cut a cluster and merge two others as long as that lowers the inertia."""
        if not 2 < self.K <= MOST_PAIRED:
            return
        for _ in range(_ROUNDS):
            together = self._exchanges(_PAYS)
            halves = [together[: len(together) >> i] for i in range(len(together).bit_length())]
            if not any(
                self._lowers(triples)
                for triples in halves + [[one] for one in self._exchanges(_MAY_PAY)[:_TRIALS]]
            ):
                return

    def _exchanges(self, least: float) -> list[tuple[int, int, int]]:
        """Disjoint triples (cut, merged, merged) worth trying, cheapest merges first."""
        gains, costs = self.gains(), np.triu(merge_costs(self.centers, self.sizes))
        first, second = np.nonzero((costs > 0.0) & (least * costs < gains.max()))
        found: list[tuple[int, int, int]] = []
        best = np.argsort(-gains, kind="stable").tolist()
        used: set[int] = set()
        for at in np.argsort(costs[first, second], kind="stable").tolist():
            k, j = int(first[at]), int(second[at])
            if k in used or j in used:
                continue
            cut = next((c for c in best if c not in used and c not in (k, j)), -1)
            if cut < 0 or gains[cut] <= least * costs[k, j]:
                break
            found.append((cut, k, j))
            used |= {cut, k, j}
        return found

    def _lowers(self, triples: list[tuple[int, int, int]]) -> bool:
        """Exchange, and sweep, if that lowers the inertia; returns whether it does."""
        before, labels, inertia = self._present(), self.labels, self.inertia
        number, apart = np.arange(self.K, dtype=np.int32), np.full(self.K, -1, np.int32)
        for cut, k, j in triples:
            number[j], apart[cut] = k, j
        second = apart[labels]
        self.relabel(np.where(self._sides & (second >= 0), second, number[labels]))
        self.sweep(_SWEEPS)
        if self.inertia < inertia * (1.0 - TOLERANCE):
            return True
        self._return_to(before)
        return False

    # ---- whole searches ----

    def run(self, n_clusters: int, price: float = 0.0) -> None:
        """The partition of at most `n_clusters` clusters that cost `price` each.

        The search goes beyond that number, and merges then repair cuts that were made too early.
        """
        beyond = max(min(int(self._schedule.beyond * n_clusters) + 2, MOST_PAIRED), n_clusters)
        while len(self.grow(beyond, price)):
            pass
        self.sweep(3)
        self.shrink(n_clusters, price)
        self.sweep(_SWEEPS)
        self.exchange()

    def choose(self, most: int, length: Callable[[Floats, float], float]) -> None:
        """The partition with the smallest description length; more than 128 clusters only if they are clear.

        The best partition of the cuts and the best of the merges after the last cut are both improved, and
        the shorter one is kept.

        `most`: maximal number of clusters. `length`: description length by the sizes and the inertia.
        """
        few, best, labels, K = min(most, MOST_CHOSEN), length(self.sizes, self.inertia), self.labels.copy(), 1
        while self.K - 2 * K < _PATIENCE and len(self.grow(few)):
            here = length(self.sizes, self.inertia)
            if here < best - 1e-9:
                best, labels, K = here, self.labels.copy(), self.K
        self.most_cut = self.labels.copy()
        if self._find_many(most, best, length):
            return
        self.relabel(self.most_cut.copy())
        self._merge_to_shortest(np.inf, length)
        shortest = self._shorten(few, length)
        merged = self._present()
        self.relabel(labels)
        self.sweep(_SWEEPS)
        if not self._shorten(few, length) < shortest - 1e-9:
            self._return_to(merged)

    def _shorten(self, most: int, length: Callable[[Floats, float], float]) -> float:
        """Exchanges, one cluster more or less, and merges while they shorten the description; returns it."""
        while True:
            shortest, before = length(self.sizes, self.inertia), self._present()
            self.exchange()
            if length(self.sizes, self.inertia) > shortest:  # it lowers the inertia, not always the length
                self._return_to(before)
            if self._improve(most, length):
                continue
            shortest, before = length(self.sizes, self.inertia), self._present()
            self._merge_to_shortest(shortest, length)
            if not length(self.sizes, self.inertia) < shortest - 1e-9:
                self._return_to(before)
                return shortest

    def _find_many(self, most: int, best: float, length: Callable[[Floats, float], float]) -> bool:
        """Go on cutting while that shortens the description; returns whether that finds clear clusters, and a
        shorter one than `best`.

        Where clusters are many, the first cuts lengthen the description as those of noise do, but later ones
        shorten it. A continuum and heavy tails have shorter descriptions by many clusters, too, whose cuts
        gain nearly what their merges cost.
        """
        before, here = np.inf, length(self.sizes, self.inertia)
        while (self.K < _UNCERTAIN or here < before) and len(self.grow(most)):
            before, here = here, length(self.sizes, self.inertia)
        if not min(before, here) < best or self.K > MOST_PAIRED:
            return False
        self._merge_to_shortest(np.inf, length)
        self.exchange()
        if not self.is_clear:
            return False
        while self._improve(most, length):
            pass
        return length(self.sizes, self.inertia) < best

    def choose_small(self, least: int, most: int, clear: Callable[[Labels], float]) -> bool:
        """Replicates: from `least` to `most` clusters of few rows that are far apart. Returns whether there
        are any: whether the cheapest merge of two costs `clear` times as much as any merge inside of them.

        Whether their number is too large for the description length is not asked, since so few rows say
        little about the scatter inside clusters.
        """
        while len(self.grow(most)):
            pass
        self.sweep(_SWEEPS)
        steps = self.merges()
        costs = np.array([self.gains().max(), *(step.cost for step in steps)])
        K = self.K - np.arange(len(steps))  # clusters before each step
        ratios = np.where((least <= K) & (costs[:-1] > 0.0), costs[1:] / np.maximum(costs[:-1], 1e-300), 0.0)
        if not ratios.max(initial=0.0) >= clear(self.labels):
            return False
        n_merges = int(ratios.argmax())
        if n_merges:
            self.merge(steps[n_merges - 1])
        return least <= self.K

    @property
    def is_clear(self) -> bool:
        """Whether, in the median, the cheapest merge of a cluster costs much more than its best cut gains."""
        if not 1 < self.K <= MOST_PAIRED:
            return False
        merges = merge_costs(self.centers, self.sizes).min(axis=1)
        return bool(np.median(merges) > _CLEAR * np.median(self.gains()))

    def _merge_to_shortest(self, best: float, length: Callable[[Floats, float], float]) -> None:
        """Merge to the shortest description, if it is below `best`."""
        inertia, chosen = self.inertia, None
        for step in self.merges():
            inertia += step.cost
            here = length(step.sizes, inertia)
            if here < best - 1e-9:
                best, chosen = here, step
        if chosen is not None:
            self.merge(chosen)

    def _improve(self, most: int, length: Callable[[Floats, float], float]) -> bool:
        """One cluster more or less where that shortens the description; returns whether it does."""
        shortest, before = length(self.sizes, self.inertia), self._present()
        for change in (self._one_more, self._one_less):
            if change(most) and length(self.sizes, self.inertia) < shortest - 1e-9:
                return True
            self._return_to(before)
        return False

    def _one_more(self, most: int) -> bool:
        gains = self.gains()
        if most <= self.K or not gains.max() > 0.0:
            return False
        self._cut(np.array([gains.argmax()]))
        self.sweep(_SWEEPS)
        return True

    def _one_less(self, most: int) -> bool:
        if self.K == 1:
            return False
        self.merge(self.merges(1)[0])
        return True

    def price_range(self) -> tuple[float, float]:
        """The prices of a cluster at which neither the best cut nor the cheapest merge pays."""
        cheapest = (
            float(merge_costs(self.centers, self.sizes).min())
            if 1 < self.K <= MOST_PAIRED
            else self.data.scatter
        )
        return float(self.gains().max()), cheapest
