"""The search of DP-means from its definitions: scatter of a partition, gains of cuts, costs of merges.

Brute force for a few rows.
"""

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
    return (
        scatter(X, w) - scatter(X[sides], w[sides]) - scatter(X[~sides], w[~sides])
        if sides.any() and not sides.all()
        else 0.0
    )


def best_gain(X, w):
    """The largest gain of all cuts of one cluster."""
    n = len(X)
    cuts = (
        np.isin(np.arange(n), chosen) for m in range(1, n // 2 + 1) for chosen in combinations(range(n), m)
    )
    return max((gain(X, w, sides) for sides in cuts), default=0.0)


def two_means(X, w, labels, sides, planes, kept, most, few):
    """2-means within every cluster; sides after the sweeps, and the weight that changed sides in each.

    Parameters
    ----------
    X, w, labels : ndarray
        `w` may be None.
    sides : ndarray (n,) of bool
        Those before the first cut.
    planes : tuple of (K, D) origins and directions, or None
        Of the first cut; None: the first planes are those between the means of the sides.
    kept : int
        First sweeps whose planes keep their origins.
    most : int
        Sweeps after the first cut.
    few : float
        A sweep in which at most this weight changes sides is the last.
    """
    X, w, sides = X.astype(np.float64), np.ones(len(X)) if w is None else w, sides.copy()
    changes = []

    def cut(origins, directions):
        new = ((X - origins[labels]) * directions[labels]).sum(axis=1) > 0.0
        changes.append(w[new != sides].sum())
        sides[:] = new

    origins = directions = None
    if planes is not None:
        origins, directions = planes
        cut(origins, directions)
    for sweep in range(most):
        K, D = int(labels.max()) + 1, X.shape[1]
        means = np.zeros((K, 2, D))
        for k in range(K):
            parts = [(labels == k) & (sides == side) & (w > 0) for side in (False, True)]
            if all(part.any() for part in parts):  # otherwise there is no plane
                means[k] = [np.average(X[part], axis=0, weights=w[part]) for part in parts]
        origins, directions = origins if sweep < kept else means.mean(axis=1), means[:, 1] - means[:, 0]
        cut(origins, directions)
        if changes[-1] <= few:
            break
    return sides, changes


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
