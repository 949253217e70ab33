"""CRAFT with bounds on the sizes of clusters: a search by random restarts, for comparison.

Every restart begins with a random partition within the bounds, and with passes in which every cluster selects
every column, because a random partition would select none. Passes assign the rows at the least cost within
the bounds and fit the masks again (Bradley, Bennett & Demiriz 2000: constrained k-means) until J stops
falling; then merges of every two clusters, each followed by passes, are taken while one lowers J.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
from scipy.optimize import linear_sum_assignment

from tests.reference import automatic, pooled

FREE, PASSES = 10, 12
FORCED = 1e6  # nats by which the places that must be filled are cheaper
QUANTUM = 1e-6


def assigned(cost, least, most):
    """(n,) the cluster of every row at the least cost, such that every cluster has `least` to `most` rows.

    A cluster has `most` places; the first `least` of them are so cheap that all are taken.
    """
    K = cost.shape[1]
    places = np.repeat(np.arange(K), most)
    must = np.tile(np.arange(most) < least, K)
    taken = linear_sum_assignment(cost[:, places] - FORCED * must)[1]
    return places[taken]


def passes(t, labels, mask, least, most):
    """(J, labels, mask) after passes from a partition within the bounds, while J falls."""
    stats = automatic.sums(t, t.rows, labels, labels.max() + 1)
    mask = pooled.sweep(t, stats, pooled.columns_of(t, stats), mask, n_singles=pooled.warm_singles(t, stats))
    best = pooled.objective(t, stats, mask), labels, mask
    for _ in range(PASSES):
        cost = pooled.row_costs(t, t.rows, stats, best[2])
        labels = assigned(cost, least, most)
        stats = automatic.sums(t, t.rows, labels, labels.max() + 1)
        n_singles = pooled.warm_singles(t, stats)
        mask = pooled.sweep(t, stats, pooled.columns_of(t, stats), best[2], n_singles=n_singles)
        J = pooled.objective(t, stats, mask)
        if best[0] - QUANTUM <= J:
            break
        best = J, labels, mask
    return best


def from_random(t, n_clusters, least, most, fewest, rng):
    """(J, labels) of one restart with this number of clusters at its beginning, at least `fewest` at its
    end.
    """
    n = len(t.rows)
    sizes = np.full(n_clusters, least)
    while sizes.sum() < n:
        sizes[rng.choice(np.flatnonzero(sizes < most))] += 1
    labels = rng.permutation(np.repeat(np.arange(n_clusters), sizes))
    everything = np.ones((n_clusters, t.D), bool)
    for _ in range(FREE):
        cost = pooled.row_costs(t, t.rows, automatic.sums(t, t.rows, labels, n_clusters), everything)
        before, labels = labels, assigned(cost, least, most)
        if np.array_equal(before, labels):
            break
    best = passes(t, labels, everything, least, most)
    merged = True
    while merged and best[1].max() + 1 > fewest:
        merged = False
        for i, j in combinations(range(best[1].max() + 1), 2):
            union = np.where(best[1] == j, i, best[1])
            union -= union > j
            if np.bincount(union).max() > most:
                continue
            mask = np.delete(best[2], j, axis=0)
            mask[i] |= best[2][j]
            trial = passes(t, union, mask, least, most)
            if trial[0] < best[0] - QUANTUM:
                best, merged = trial, True
                break
    return best[:2]


def search(t, least, most, *, restarts, seed, low=1, high=8):
    """(J, labels) of the best of random restarts; weights are not considered."""
    n = len(t.rows)
    low, high = max(low, -(-n // most)), min(high, n // least)
    rng = np.random.default_rng(seed)
    ends = [from_random(t, int(rng.integers(low, high + 1)), least, most, low, rng) for _ in range(restarts)]
    return min(ends, key=lambda end: end[0])
