"""Search for new clusters next to fixed ones, which keep the sums of an earlier table.

The clusters are those of a table of two parts: the former rows of the fixed clusters, and the rows of X in
new clusters. Rows of X in a fixed cluster change nothing but its share. What is minimised is

    J of the clusters + what the rows of X in fixed clusters cost there over the background        (nats)

with labels of the rows of X only, the background of all former rows and all rows of X, and a price of the
distributions that new clusters share.

New clusters are searched among all rows, and among the rows that one further cluster takes from the fixed
ones. Passes over all clusters follow, in which only the sums of the new ones change; a new cluster that does
not pay for itself is removed, and the rows of the new clusters are searched again, until the sum stops
falling.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from craftc._common.labels import first_appearance, join
from craftc._common.merge_path import MergePath
from craftc._common.typing import Floats, Integers, Labels, Mask
from craftc._kernels.moments import Grid
from craftc.craft.background import Background, feature_prices, half_log, mask_codes
from craftc.craft.clusters import Clusters, tilted_shares
from craftc.craft.fitted import CarriedSums, FittedClusters, PathClusters
from craftc.craft.search import LocalConfig
from craftc.craft.search.automatic import automatic_fit
from craftc.craft.search.merges import MergeSplitSearch
from craftc.craft.search.starts import kmeans_starts, low_rank_scores
from craftc.table import MixedTable
from craftc.table.levels import LevelEncoding
from craftc.table.moments import ExactSums, Moments

_MAX_PASSES = 60
_PATIENCE = 3  # passes without a lower sum, after which no more follow
_ROUNDS = 6  # searches among the rows of the new clusters
_TOLERANCE = 1e-6  # nats by which a step must lower the sum


@dataclass
class NewClusters:
    """Fixed clusters, then new ones, and the rows of X in them."""

    labels: Labels  # (n,) by which the sums were made
    clusters: Clusters
    counts: Integers  # (K,) of the rows of X
    cheapest: Labels  # (n,)
    other: Labels  # (n,) the cheapest other cluster if all had equal shares; of one cluster itself
    loss: Floats  # (n,) nats that a row would pay more there, without what shares cost
    prices: Floats  # (K - F,) of the new clusters
    lent: float  # price of the shared distributions
    J: float

    @property
    def converged(self) -> bool:
        return np.array_equal(self.labels, self.cheapest)


class NewClusterSearch:
    """The search on rows of X as the model of the fixed clusters sees them.

    Parameters
    ----------
    fixed : FittedClusters
        The fixed clusters alone.
    config : FitConfig
        The rows of X in the encoding of `fixed`, and how clusters are searched among them.
    n_new : (int, int)
        Smallest and largest number of new clusters.
    n_starts, init : int, str
        Of a search among some of the rows.
    """

    def __init__(
        self, fixed: FittedClusters, config: LocalConfig, n_new: tuple[int, int], n_starts: int, init: str
    ) -> None:
        assert isinstance(fixed.encoding, LevelEncoding)
        assert fixed.mask is not None
        self.fixed, self.F, self.encoding = fixed, len(fixed.mask), fixed.encoding
        self.low, self.high = n_new
        self.n_starts, self.init = n_starts, init
        self.seen, self.unit = config.table, fixed.sums.unit
        self.weight = config.weight if len(config.weight) else np.ones(len(self.seen), np.int64)
        self.spec = replace(fixed.spec, price_factor=config.spec.price_factor)
        own = config.rows.moments(
            fixed.sums.grid, self.unit, config.rows.one_cluster(), 1, config.n_threads
        ).groups
        whole = Moments.of_groups(fixed.sums.grid, self.unit, np.vstack([fixed.sums.groups, own])).total()
        self.background = Background(whole, self.encoding)
        self.config = replace(config, background=self.background)
        self.mask = np.repeat(self.background.usable[None], self.F, axis=0)
        self.of_background = self.background.row_costs(self.seen.numeric, self.seen.codes)
        self.n_passes = 0

    # ---- states ----

    def state(
        self, labels: Labels, choice: Mask | None = None, counts: Integers | None = None
    ) -> NewClusters:
        """The clusters of these labels, new ones without weight left out. `choice` (K, D): masks from which
        better ones of the new clusters are sought. `counts`: of the rows, where the labels do not say it.
        """
        F, grid, fixed = self.F, self.fixed.sums.grid, self.fixed
        K = max(int(labels.max()) + 1, F) if choice is None else len(choice)
        sizes = np.zeros(K, np.int64)
        np.add.at(sizes, labels, self.weight)
        kept = np.append(np.arange(F), F + np.flatnonzero(sizes[F:]))
        if len(kept) < K:
            number = np.zeros(K, np.int32)  # rows without weight go anywhere for now
            number[kept] = np.arange(len(kept))
            labels, K = number[labels], len(kept)
            choice = None if choice is None else choice[kept]
        own = Moments.of_partition(
            grid, self.unit, self.seen, self.config.weight, labels, K, self.config.n_threads
        ).groups
        counts = own[:, 0].copy() if counts is None else counts
        moments = Moments.of_groups(grid, self.unit, np.vstack([fixed.sums.groups, own[F:]]))
        clusters = self._clusters(moments, choice, counts)
        cheapest, other, loss, of_fixed = self._assigned(clusters, labels)
        held = moments.sizes  # whose labels are counted in `excess`
        excess = clusters.excess + float((held * np.log(held / self.background.weight)).sum())
        lent = self._lent(clusters)
        J = excess + of_fixed + entropy(np.asarray(counts * self.unit, np.float64)) + lent
        return NewClusters(labels, clusters, counts, cheapest, other, loss, self._prices(clusters), lent, J)

    def _clusters(self, moments: Moments, choice: Mask | None, counts: Integers) -> Clusters:
        """The clusters with the best masks found of the new ones; fixed ones share nothing."""
        background, masks = self.background, self.mask
        if moments.n_clusters > self.F:
            chosen = Clusters(moments, background, self.spec, choice).mask
            masks = np.vstack([masks, chosen[self.F :]])
        return Clusters(moments, background, self.spec, masks, keep=True, counts=counts)

    def _assigned(self, clusters: Clusters, labels: Labels) -> tuple[Labels, Labels, Floats, float]:
        """The cheapest and the other cluster of every row, the difference, and what the rows with labels of
        fixed clusters cost over the background, without shares.
        """
        n, shares = len(self.seen), clusters.mixing_costs()
        cheapest, other, loss, cost = np.empty(n, np.int32), np.zeros(n, np.int32), np.zeros(n), np.empty(n)
        for rows, costs, of_table, shared in clusters.costs_in_chunks(self.seen, full=True):
            at = np.arange(len(costs)), costs.argmin(axis=1)
            cheapest[rows] = at[1]
            costs -= shares
            cost[rows] = costs[at[0], labels[rows]] + (of_table + shared) - self.of_background[rows]
            if costs.shape[1] > 1:
                least = costs[at]
                costs[at] = np.inf
                other[rows] = costs.argmin(axis=1)
                loss[rows] = costs[at[0], other[rows]] - least
        self.n_passes += 1
        if self.config.stop.is_set():
            raise KeyboardInterrupt
        return cheapest, other, loss, float(((cost * self.weight)[labels < self.F] * self.unit).sum())

    def _prices(self, clusters: Clusters) -> Floats:
        """(K - F,) nats of every new cluster: its own price, those of its features, and the code of these."""
        mask, background = clusters.mask[self.F :] > 0, clusters.background
        codes = mask_codes(background, background.usable, mask, self.spec)
        features = (mask * feature_prices(background, self.spec)).sum(axis=1)
        return np.asarray(half_log(background, self.spec) + codes + features)

    def _lent(self, clusters: Clusters) -> float:
        """Nats of the distributions that new clusters share.

        Without fixed clusters they follow from those of the whole table and of the other clusters. Here they
        are parameters as those of a selected feature: either paid for, or what they save does not count.
        """
        background = self.background
        p, first = background.grid.p, background.grid.first_numeric
        widths, counts = background.level_widths, clusters.moments.groups[:, 1:first]
        shares_them = np.repeat(clusters.mask[:, p:] == 0, widths, axis=1)
        every = np.zeros((1, background.grid.width), np.int64)
        every[0, 1:first] = np.where(shares_them, counts, 0)[self.F :].sum(axis=0)
        own = np.asarray(every[:, 1:first] * self.unit, np.float64)
        seen = np.repeat(background.level_present(own), widths, axis=1)
        alpha, b = self.spec.prior, background.frequency
        shares = tilted_shares(background, every, (own + alpha * b) / (seen + alpha))
        ratios = np.log(np.where(b > 0, shares[0], 1.0) / np.where(b > 0, b, 1.0))
        saves = np.add.reduceat(own[0] * ratios, background.grid.level_start) * background.column_weights[p:]
        return float(np.clip(saves, 0.0, feature_prices(background, self.spec)[p:]).sum())

    # ---- steps ----

    def passes(self, state: NewClusters) -> NewClusters:
        """The state of the lowest sum on the way to one whose rows are all in their cheapest clusters."""
        best, waited = state, 0
        for _ in range(_MAX_PASSES):
            if state.converged:  # a smoothed distribution may cost a little more at its end
                return state if best.J + half_log(state.clusters.background, self.spec) > state.J else best
            state = self.state(state.cheapest, state.clusters.choice)
            best, waited = (state, 0) if best.J - _TOLERANCE > state.J else (best, waited + 1)
            if waited > _PATIENCE:
                break
        return best

    def without_needless(self, state: NewClusters) -> NewClusters:
        """New clusters removed while that lowers the sum, or there are too many of them."""
        while (n := len(state.prices)) > self.low:
            rise = self._rises(state)
            better = None
            for k in (self.F + np.argsort(rise, kind="stable")).tolist():
                if rise[k - self.F] >= state.lent and n <= self.high:
                    break
                labels = np.where(state.cheapest == k, state.other, state.cheapest)
                found = self.passes(self.state(np.where(labels > k, labels - 1, labels).astype(np.int32)))
                if n > self.high or found.J < state.J - _TOLERANCE:
                    better = found
                    break
            if better is None:
                return state
            state = better
        return state

    def _rises(self, state: NewClusters) -> Floats:
        """(K - F,) nats by which the sum rises without each of the new clusters, if no other row moves."""
        K, weight = len(state.counts), self.weight * self.unit
        pairs = np.zeros((K, K))
        np.add.at(pairs, (state.cheapest, state.other), weight)
        lost = np.bincount(state.cheapest, state.loss * weight, K)
        sizes, rise = pairs.sum(axis=1), np.empty(K - self.F)
        for k in range(self.F, K):
            after = sizes + pairs[k]
            after[k] = 0.0
            rise[k - self.F] = lost[k] + entropy(after) - entropy(sizes) - state.prices[k - self.F]
        return rise

    def searched(self, state: NewClusters, rows: NDArray[np.intp]) -> NewClusters | None:
        """The state after a search for new clusters among some rows; None if there are too few."""
        if np.count_nonzero(self.weight[rows]) < max(self.low, 1):
            return None
        some = self.config.of_rows(rows)
        found = automatic_fit(some, self.n_starts, None, self.init, None).labels.astype(np.int32)
        if found.max() + 1 < self.low:
            found = kmeans_starts(some, low_rank_scores(some), self.low)[0]
        labels = state.cheapest.copy()
        labels[rows] = self.F + np.maximum(found, 0)
        return self.without_needless(self.passes(self.state(labels)))

    def run(self) -> NewClusters | None:
        """The best state; None if none has the number of clusters that is asked for."""
        n, F = len(self.seen), self.F
        former = self.fixed.sums.groups[:, 0]
        alone = self.passes(self.state(self.state(np.zeros(n, np.int32), counts=former).cheapest))
        found = [alone]
        if self.high:
            # one further cluster, at first of all rows, next to the fixed ones with the rows they have alone
            counts = np.append(np.maximum(alone.counts, 1), self.weight.sum())
            first = self.state(np.full(n, F, np.int32), counts=counts)
            one = self.passes(self.state(first.cheapest, first.clusters.choice))
            starts = [np.flatnonzero(one.cheapest >= F), np.arange(n)]
            for state, rows in zip((one, alone), starts, strict=True):
                found += [state, *self._rounds(state, rows)]
        allowed = [state for state in found if self.low <= len(state.prices) <= self.high]
        return min(allowed, key=lambda state: state.J, default=None)

    def _rounds(self, state: NewClusters, rows: NDArray[np.intp]) -> list[NewClusters]:
        """States after searches among the rows of the new clusters, while the sum falls."""
        found: list[NewClusters] = []
        for _ in range(_ROUNDS):
            new = self.searched(state, rows)
            if new is None:
                break
            fell = not found or found[-1].J - _TOLERANCE > new.J
            if fell:
                found.append(new)
            rows = np.flatnonzero(new.cheapest >= self.F)
            state = new
            if not fell or not len(rows):
                break
        return found

    def in_order(self, state: NewClusters) -> NewClusters:
        """The state with its new clusters numbered by first appearance."""
        F, K = self.F, len(state.counts)
        if K - F < 2:
            return state
        order = np.append(np.arange(F), F + first_appearance(state.labels[state.labels >= F] - F, K - F))
        clusters, counts = state.clusters, state.counts[order]
        moments, choice = clusters.moments.select(order), clusters.choice[order]
        again = Clusters(moments, self.background, self.spec, choice, keep=True, counts=counts)
        number = np.argsort(order).astype(np.int32)
        return replace(state, labels=number[state.labels], clusters=again, counts=counts)

    def rest(self, state: NewClusters, grid: Grid, table: MixedTable) -> Integers:
        """(width,) sums of the rows of X in fixed clusters, in a form of their table."""
        of_new = (state.labels >= self.F).astype(np.int32)
        weight, threads = self.config.weight, self.config.n_threads
        found = Moments.of_partition(grid, self.unit, table, weight, of_new, 2, threads).groups
        return np.asarray(found[0].copy())

    @staticmethod
    def sums_along(path: MergePath, sums: ExactSums) -> CarriedSums:
        """Other sums of the clusters along a path."""
        carried, groups = CarriedSums(sums.groups, sums.grid.first_numeric), sums.groups
        for change in path.changes():
            groups = carried.carried(groups, change.place, len(groups) - 1)
            carried.append(change.place, groups)
        return carried

    def path(self, state: NewClusters) -> tuple[MergePath, PathClusters]:
        """The clusters and their merges down to one, each of the lowest J; no row moves by itself."""
        clusters, K = state.clusters, len(state.counts)
        path = MergePath(state.labels.astype(np.min_scalar_type(-K)), K, clusters.objective)
        along = PathClusters.begin(clusters.moments, clusters.choice)
        search = MergeSplitSearch(replace(self.config, max_clusters=K), 1)
        while K > 1:
            i, j = search.best_pair(search.of_groups(clusters.moments.groups))
            place = np.arange(K, dtype=np.int32)
            join(place, i, j)
            choice = np.delete(clusters.choice, j, axis=0)
            choice[i] |= clusters.choice[j]
            sums = along.sums.carried(clusters.moments.groups, place, K - 1)
            moments = Moments.of_groups(clusters.moments.grid, self.unit, sums)
            clusters = Clusters(moments, self.background, self.spec, choice, keep=True)
            path.append_merge(clusters.objective, i, j)
            along.append(place, sums, clusters.choice)
            K -= 1
        return path, along


def entropy(sizes: Floats) -> float:
    """Nats of the labels of all rows in clusters of these sizes."""
    held = sizes[sizes > 0]
    return float(-(held * np.log(held / held.sum())).sum())
