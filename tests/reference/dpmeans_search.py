"""The search of DP-means from its definitions: scatter of a partition, gains of cuts, costs of merges. Brute force for a few rows."""

from __future__ import annotations

from itertools import combinations

import numpy as np


def scatter(X, w):
    """Weighted sum of squared distances to the mean."""
    mean = w @ X / w.sum()
    return float((w * ((X - mean) ** 2).sum(axis=1)).sum())


def inertia(X, w, labels):
    """Sum of the scatters of the clusters."""
    return sum(scatter(X[labels == k], w[labels == k]) for k in np.unique(labels))


def gain(X, w, sides):
    """By how much a cut of one cluster lowers the scatter."""
    return scatter(X, w) - scatter(X[sides], w[sides]) - scatter(X[~sides], w[~sides]) if sides.any() and not sides.all() else 0.0


def best_gain(X, w):
    """The largest gain of all cuts of one cluster."""
    n = len(X)
    cuts = (np.isin(np.arange(n), chosen) for m in range(1, n // 2 + 1) for chosen in combinations(range(n), m))
    return max((gain(X, w, sides) for sides in cuts), default=0.0)


def merge_cost(X, w, labels, k, j):
    """By how much the merge of two clusters raises the scatter."""
    merged = np.where(labels == j, k, labels)
    return inertia(X, w, merged) - inertia(X, w, labels)


def lowest(X, w, price):
    """The lowest J of all partitions of a few rows."""
    best = [np.inf]

    def place(labels, K):
        if len(labels) == len(X):
            best[0] = min(best[0], inertia(X, w, np.array(labels)) + (K - 1) * price)
            return
        for k in range(K + 1):
            place([*labels, k], max(K, k + 1))

    place([0], 1)
    return best[0]
