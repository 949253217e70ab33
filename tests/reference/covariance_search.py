"""The search of partitions whose clusters hold covariances of their own or share one: the reference of the
last step of the automatic search of CRAFT.

A state is that of `tests.reference.covariance`. A pass assigns every row to its cheapest cluster, and
clusters without rows go. A merge is ranked by what the union costs under what the clusters of the partition
share; its J is that of the whole partition after it. Passes and merges alternate until J stops falling;
merges lead down to one cluster, and the shortest description on the way is taken. Forms are compared by L.

Everything is computed from the rows; the changes of J of all pairs are kept as the search keeps them: after a
merge only the pairs of the union are computed anew.
"""

from __future__ import annotations

import math
from itertools import combinations
from operator import attrgetter
from types import SimpleNamespace

import numpy as np

from tests.reference import automatic, covariance, craft, pooled

MAX_PASSES, FEW_CLUSTERS = 50, 30
STABLE = 0.1  # nats
NONE = np.array([], int)


class Search:
    """Passes and merges of one form."""

    def __init__(self, t, *, tied=False, full=False):
        self.t, self.tied, self.full = t, tied, full
        self.complete = covariance.is_complete(t)
        self.tolerance = max(1e-9, 2.0**-46 * t.N * t.D)

    def state(self, labels, choice=None, keep=False, filled=None):
        """`filled`: the problem with missing cells as they are expected; None: from independent columns."""
        t = self.t if filled is None else filled
        return covariance.state(t, labels, tied=self.tied, full=self.full, choice=choice, keep=keep)

    def expected(self, now, labels):
        """The problem with missing cells as rows with these labels expect them in the clusters of a state."""
        if self.complete:
            return self.t
        return covariance.filled(self.t, labels, covariance.distributions(now))

    def expected_anew(self, now):
        """The same partition with missing cells as its clusters expect them, if that is shorter."""
        if self.complete:
            return now
        new = self.state(now.labels, (now.choice[0], None), filled=self.expected(now, now.labels))
        return new if new.J < now.J else now

    # ---- passes ----

    def passes(self, now, fewest=1):
        """Passes while J falls and at least ``fewest`` clusters remain."""
        now.converged, stable = getattr(now, "converged", False), False
        for _ in range(MAX_PASSES if now.K > 1 else 0):
            cost = covariance.row_costs(self.t, now)
            stay = cost[np.arange(len(cost)), now.labels]
            labels = np.where(stay - cost.min(axis=1) > craft.STAY_SLACK, cost.argmin(axis=1), now.labels)
            stays = np.array_equal(labels, now.labels)
            if stays and (self.complete or stable):
                now.converged = True
                break
            filled = self.expected(now, labels)
            left, labels = np.unique(labels, return_inverse=True)
            choice = now.choice[0][left], [now.choice[1][k] for k in left]
            new = self.state(labels, choice, filled=filled)
            if not now.J - self.tolerance > new.J:  # the former masks and blocks may be shorter
                new = self.state(labels, choice, keep=True, filled=filled)
            if self.tolerance >= now.J - new.J or fewest > new.K:
                now.converged = stays
                break
            stable = now.J - new.J < STABLE
            now, now.converged = new, False
        return now

    # ---- merges ----

    def union_cost(self, now, k, other):
        """What the union of two clusters costs, relative to the tilts of the pools of the partition, with the
        best mask of tilts and the best block; a shared block is not part of it.
        """
        t = now.rest
        rows = np.concatenate([now.groups[k], now.groups[other]])
        stats = (now.stats[k] + now.stats[other])[None]
        outside = np.setdiff1d(np.arange(self.t.D), now.block[0] if self.tied else NONE)
        gain, shared = np.zeros((2, t.D))
        for d in range(t.D):
            pool = ~now.mask[:, outside[d]]
            theta = pooled.fit(t, d, pooled.column_sums(t, now.stats[pool], d).sum(axis=0))
            sums = pooled.column_sums(t, stats, d)
            gain[d] = t.forms[d].gains(sums)[0]
            shared[d] = pooled.log_likelihood(t, d, sums, theta)[0]
        mask = automatic.priced_mask(gain - shared, t.parameters, t.N, t.price_factor)
        own = SimpleNamespace(rows=rows, S=stats[0, 0], gain=gain, shared=shared)
        if self.tied:
            return covariance.cluster_cost(t, own, mask, NONE)
        if not self.full:
            own.gain = np.maximum(gain, covariance.normal_gains(t, stats)[0])
            own.shared = covariance.under_normals(t, stats, shared[None], now.shared_normals)[0]
        cost = covariance.chosen_block(t, own, mask, self.full, covariance.RANKING_STEPS)[1]
        return cost - (own.shared - shared).sum()

    def pair_deltas(self, now, only=None):
        """(K, K) changes of J by merges, ranked as above; infinite where ``only`` is no part."""
        delta = np.full((now.K, now.K), np.inf)
        cost = now.rest_cost if self.tied else now.cost
        for i, j in combinations(range(now.K), 2):
            if only is None or only in (i, j):
                delta[i, j] = self.union_cost(now, i, j) - cost[i] - cost[j]
        return delta

    def ranked_tied_deltas(self, now):
        """(K, K) what ranks merges: `tied_deltas` without the row of prior, (N / 2) (log det (Sigma + B / N)
        - log det Sigma) - m h with B the scatter between the two clusters.
        """
        delta, block = np.zeros((now.K, now.K)), now.block[0]
        if self.tied and len(block):
            sigma, t = now.sigma[0], self.t
            means = covariance.fitted(now.filled, now.groups, block)[0]
            size = [t.weight[rows].sum() for rows in now.groups]
            for i, j in combinations(range(now.K), 2):
                apart = means[i] - means[j]
                B = size[i] * size[j] / (size[i] + size[j]) * np.outer(apart, apart)
                if np.count_nonzero(sigma) == len(block):
                    B = np.diag(np.diag(B))
                grown = np.linalg.slogdet(sigma + B / t.N)[1] - np.linalg.slogdet(sigma)[1]
                price = len(block) * automatic.unit_price(t.N, t.price_factor)
                delta[i, j] = 0.5 * t.N * grown - price
        return delta

    def tied_deltas(self, now):
        """(K, K) changes by merges of what the shared block costs with all correlations, or without any if it
        has none.
        """
        delta, block = np.zeros((now.K, now.K)), now.block[0]
        if self.tied and len(block):
            alone = np.count_nonzero(now.sigma[0]) == len(block)
            form = covariance.independent if alone else covariance.correlated
            before = form(now.filled, now.groups, block)[0]
            price = len(block) * automatic.unit_price(self.t.N, self.t.price_factor)
            for i, j in combinations(range(now.K), 2):
                groups = [rows for k, rows in enumerate(now.groups) if k != j]
                groups[i] = np.concatenate([now.groups[i], now.groups[j]])
                delta[i, j] = form(now.filled, groups, block)[0] - before - price
        return delta

    def merge(self, now, i, j):
        labels = np.where(now.labels == j, i, now.labels)
        labels = np.where(labels > j, labels - 1, labels)
        mask = np.delete(now.choice[0], j, axis=0)
        mask[i] |= now.choice[0][j]
        return self.state(labels, (mask, None), filled=now.filled)

    def cheapest_merge(self, now, delta):
        """The cheapest merge, and the changes by the merges after it."""
        i, j = best_pair(delta + self.ranked_tied_deltas(now))
        now = self.expected_anew(self.merge(now, i, j))
        delta, new = np.delete(np.delete(delta, j, 0), j, 1), self.pair_deltas(now, i)
        delta[i], delta[:, i] = new[i], new[:, i]
        return now, delta

    def shortest_merges(self, now, fewest):
        """The shortest description on the way of cheapest merges, and the state after the first of them."""
        best, first, delta = now, None, self.pair_deltas(now)
        while fewest < now.K:
            now, delta = self.cheapest_merge(now, delta)
            first = first or now
            if best.J - self.tolerance > now.J:
                best = now
        return best, first

    # ---- the step ----

    def run(self, now, fewest=1, far=False):
        """Passes and merges until J stops falling; ``far``: also passes after each of many merges."""
        now, before = self.passes(now, fewest), np.inf
        while before > now.J:
            before = now.J
            best, first = self.shortest_merges(now, fewest)
            if best.K < now.K:
                now = self.passes(best, fewest)
            elif far:
                now = self.after_passes(now, first, fewest)
        return now

    def after_passes(self, now, merged, fewest):
        while merged is not None and merged.K < FEW_CLUSTERS:
            merged = self.passes(merged, fewest)
            if now.J - self.tolerance > merged.J:
                return merged
            if fewest >= merged.K:
                break
            merged = self.cheapest_merge(merged, self.pair_deltas(merged))[0]
        return now

    def merged_down(self, now, n_clusters):
        """Down the merge path, with passes after every merge."""
        while n_clusters < now.K:
            pair = best_pair(self.pair_deltas(now) + self.ranked_tied_deltas(now)) if now.K > 2 else (0, 1)
            now = self.passes(self.merge(now, *pair))
        return now


def best_pair(delta):
    """The first pair within 1e-9 of the least entry."""
    return divmod(int(np.argmax(delta <= delta.min() + 1e-9)), len(delta))


def best_form(t, starts, by_kmeans, target=None, covariances="auto"):
    """Whether the best state of all forms is tied, and the state; None where the last start is as short with
    tilts alone. ``starts``: (labels, masks); ``by_kmeans(n)``: labels of n clusters, by default 8 and at most
    one for 10 rows. 16 are tried where a form is shorter than tilts alone. Where rows are less than ten times
    the columns, and three quarters of the clusters or more are left, twice as many are tried. Rows are at
    least ten times the 16 clusters, and five times other numbers of clusters.
    """
    fewest, found = target or 1, []
    first = target or min(8, int(t.N // 10))
    again = target is None and first == 8
    few = 10 * len(covariance.block_columns(t)) > t.N
    plain = length(t, of_masks(t, *starts[-1]), target) if covariances == "auto" else math.inf
    for tied in {"full": [False], "tied": [True]}.get(covariances, [True, False]):
        search = Search(t, tied=tied, full=covariances in ("full", "tied"))

        def begin(labels, mask, search=search):
            return search.state(labels, None if mask is None else (mask, None))

        def best_of_kmeans(n, begin=begin):
            return sorted((begin(labels, None) for labels in by_kmeans(n)), key=attrgetter("J"))[:1]

        begun = best_of_kmeans(first)
        begun += [begin(*start) for start in starts]
        begun += [begin(end.labels, None) for _, _, end in found]
        ends = [search.run(now, fewest) for now in begun if fewest <= now.K]
        if target is not None:
            ends = [search.merged_down(end, target) for end in ends]
        ends = [end for end in ends if fewest <= end.K]
        if ends:
            end, n = min(ends, key=attrgetter("J")), first
            while again and 10 * n <= t.N:
                shorter = n == 8 and 20 * n <= t.N and length(t, end, None) < plain
                if not (shorter or (few and 3 * n <= 4 * end.K)):
                    break
                n *= 2
                further = [search.run(now, fewest) for now in best_of_kmeans(n)]
                end = min([end, *further], key=attrgetter("J"))
            found.append((length(t, end, target), search, end))
    if not found:
        return None
    _, search, end = min(found, key=lambda one: one[0])
    if target is None:
        end = search.run(end, fewest, far=True)
    if plain <= length(t, end, target) + search.tolerance:
        return None
    differs = any(len(block) for block in end.block) or end.normal.any()
    return (search.tied, end) if differs else None


def length(t, now, target):
    return now.J if target is not None else covariance.soft_length(t, now)


def of_masks(t, labels, mask):
    """The state of a partition with these masks and tilts alone."""
    K = int(np.max(labels)) + 1
    return covariance.state(t, labels, full=True, choice=(mask, [NONE] * K), keep=True)
