"""k-prototypes word for word: the reference implementation of the kernels.

Z. Huang, "Extensions to the k-means algorithm for clustering large data sets with categorical
values", Data Mining and Knowledge Discovery 2, 1998; Ng, Li, Huang & He, IEEE TPAMI 29, 2007.
Nothing here is fast: rows and clusters are Python loops, counts and means are taken from scratch.

A row has numbers (NaN: missing) and codes of levels (None: missing). A prototype has means and
modes. The cost of a row is the sum of (x - mean)^2 plus gamma times the dissimilarity of the
codes; missing cells add nothing.
"""

from __future__ import annotations

from math import fsum, isnan
from types import SimpleNamespace

import numpy as np


class EmptyCluster(Exception):
    """A cluster has lost its last row, and what follows depends on random numbers."""


def dissimilarity(kind, codes, modes, rows):
    """Of the codes of a row and the modes of a cluster with these rows, (weight, codes) each."""
    pairs = [(code, mode) for code, mode in zip(codes, modes, strict=True) if code is not None]
    if kind == "matching":
        return sum(code != mode for code, mode in pairs)
    if kind == "ng":
        size = sum(weight for weight, _ in rows)
        total = 0.0
        for d, (code, mode) in enumerate(zip(codes, modes, strict=True)):
            if code is None:
                continue
            if code != mode:
                total += 1.0
            elif size:
                total += 1.0 - sum(weight for weight, other in rows if other[d] == code) / size
        return total
    if kind == "jaccard":
        a, b = (
            {d for d, code in enumerate(codes) if code == 1},
            {d for d, mode in enumerate(modes) if mode == 1},
        )
    else:
        a, b = {code for code in codes if code is not None}, set(modes)
    return 1.0 - len(a & b) / len(a | b) if a | b else 0.0


def most_frequent(codes, weights, otherwise):
    """The level of the largest weight, the lowest of several; `otherwise` if no code is present."""
    counts = {}
    for code, weight in zip(codes, weights, strict=True):
        if code is not None and weight:
            counts[code] = counts.get(code, 0) + weight
    return min(counts, key=lambda code: (-counts[code], code)) if counts else otherwise


def mean(numbers, weights, otherwise):
    """The weighted mean of the numbers that are present."""
    some = [(x, w) for x, w in zip(numbers, weights, strict=True) if not isnan(x) and w]
    return fsum(x * w for x, w in some) / sum(w for _, w in some) if some else otherwise


class Clusters:
    """A table, a partition of its rows, and prototypes."""

    def __init__(self, numbers, codes, weights, kind, gamma, means, modes):
        self.numbers, self.codes, self.weights, self.kind, self.gamma = numbers, codes, weights, kind, gamma
        self.means, self.modes = [list(row) for row in means], [list(row) for row in modes]
        self.labels = [None] * len(codes)
        self.mean = [mean(column, weights, 0.0) for column in zip(*numbers, strict=True)]
        self.mode = [most_frequent(column, weights, 0) for column in zip(*codes, strict=True)]

    def members(self, k):
        return [i for i, label in enumerate(self.labels) if label == k and self.weights[i]]

    def cost(self, i, k):
        squares = sum(
            (x - m) ** 2 for x, m in zip(self.numbers[i], self.means[k], strict=True) if not isnan(x)
        )
        rows = [(self.weights[j], self.codes[j]) for j in self.members(k)] if self.kind == "ng" else ()
        return squares + self.gamma * dissimilarity(self.kind, self.codes[i], self.modes[k], rows)

    def nearest(self, i):
        costs = [self.cost(i, k) for k in range(len(self.modes))]
        return costs.index(min(costs)), min(costs)

    def assigned(self):
        """(labels, cost) of all rows under these prototypes."""
        found = [self.nearest(i) for i in range(len(self.codes))]
        return [label for label, _ in found], fsum(
            cost * w for (_, cost), w in zip(found, self.weights, strict=True)
        )

    def refit(self, k, columns=None):
        """Means, and the modes of these columns (None: of all)."""
        rows = self.members(k)
        weights = [self.weights[i] for i in rows]
        self.means[k] = [
            mean([self.numbers[i][d] for i in rows], weights, self.mean[d]) for d in range(len(self.mean))
        ]
        for d in range(len(self.mode)) if columns is None else columns:
            self.modes[k][d] = most_frequent([self.codes[i][d] for i in rows], weights, self.mode[d])

    def weight_of(self, k, d, code):
        return sum(self.weights[i] for i in self.members(k) if self.codes[i][d] == code)

    def move(self, i, new):
        """Move a row; both prototypes change at once."""
        old, self.labels[i] = self.labels[i], new
        codes = self.codes[i]
        changed = [
            d
            for d, code in enumerate(codes)
            if code is not None and self.weight_of(new, d, code) > self.weight_of(new, d, self.modes[new][d])
        ]
        self.refit(new, [])
        for d in changed:
            self.modes[new][d] = codes[d]
        self.refit(
            old, [d for d, code in enumerate(codes) if code is not None and code == self.modes[old][d]]
        )
        if not self.members(old):
            raise EmptyCluster

    def pass_in_order(self):
        """Every row in turn to its nearest prototype; returns the number that moved."""
        moved = 0
        for i in range(len(self.codes)):
            new = self.nearest(i)[0]
            if self.weights[i] and new != self.labels[i]:
                self.move(i, new)
                moved += 1
        return moved


def fit(
    numbers, codes, means, modes, *, weights=None, kind="matching", gamma=1.0, update="online", max_iter=100
):
    """Passes from initial prototypes until no row moves or the cost does not fall."""
    weights = [1] * len(codes) if weights is None else list(weights)
    state = Clusters(numbers, codes, weights, kind, gamma, means, modes)
    for i in range(len(codes)):
        label = state.nearest(i)[0]
        if weights[i]:
            state.labels[i] = label
    for k in range(len(modes)):
        if not state.members(k):
            raise EmptyCluster
        state.refit(k)
    labels, cost = state.assigned()
    costs, n_iter = [cost], 0
    while n_iter < max_iter:
        n_iter += 1
        best = [list(row) for row in state.means], [list(row) for row in state.modes]
        if update == "online":
            moved = state.pass_in_order()
            labels, cost = state.assigned()
        else:
            before = labels
            state.labels = [label if w else None for label, w in zip(before, weights, strict=True)]
            for k in range(len(modes)):
                if not state.members(k):
                    raise EmptyCluster
                state.refit(k)
            labels, cost = state.assigned()
            moved = sum(a != b for a, b, w in zip(labels, before, weights, strict=True) if w)
            if cost > costs[-1]:
                labels, cost = before, costs[-1]
                state.means, state.modes = best
        costs.append(cost)
        if not moved or cost >= costs[-2]:
            break
    return SimpleNamespace(
        labels=np.array(labels),
        cost=costs[-1],
        costs=costs,
        n_iter=n_iter,
        means=state.means,
        modes=state.modes,
    )
