"""The best cut of every cluster into two: 2-means within the clusters of a partition, from exact sums."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from craftc._common.dense_data import DenseData
from craftc._common.threads import threads_for
from craftc._common.typing import Floats, Labels
from craftc._kernels import dpmeans as _kernel
from craftc._kernels import dpmeans_cuts as _cuts

_AT_THE_MEAN = 2  # first sweeps, which cut at the mean and turn towards the direction of largest variance
_SWEEPS = 7  # sweeps of a cut, at most
_AS_MUCH = 1.0 - 1e-9  # share of a gain that rounding may take
_FEW = 0.01  # share of the weight that moves in a sweep below which the search ends

Sides = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Cuts:
    """Cuts of the clusters of a partition."""

    # (K,) by how much the sum of squared distances falls; 0 where a cluster has only equal rows
    gains: Floats
    sides: Sides  # (n,) rows on the second side


def best_cuts(data: DenseData, labels: Labels, mu: Floats) -> Cuts:
    """Cuts of all clusters, by sweeps of 2-means from the direction of the row that is furthest from the
    mean.

    Where that row and its copies alone gain as much, a second search starts with them on one side.

    `data`: rows of weight > 0. `labels` (n,): -1: the row is left out. `mu` (K, D): means of the
    clusters, which are not empty.
    """
    K, rows = len(mu), np.flatnonzero(labels >= 0)
    squared = np.empty(len(data))
    _kernel.own_distances(
        data.X, mu, labels, squared, threads_for(data.n_threads, len(rows) * data.n_columns / 2)
    )
    far, equal = _furthest(data.X, squared, labels, rows, K)
    total, own = _weights(data, labels, K, rows), _weights(data, labels, K, equal)
    halves = _ClusterHalves(data, labels, K, len(rows), float(total.sum()))
    cuts = halves.from_planes(mu.copy(), data.X[far] - mu)
    alone = np.divide(total * own * squared[far], total - own, out=np.zeros(K), where=total > own)
    if not (alone >= cuts.gains * _AS_MUCH).any():
        return cuts
    other = halves.from_rows(equal)
    better = other.gains > cuts.gains
    return Cuts(np.where(better, other.gains, cuts.gains), np.where(better[labels], other.sides, cuts.sides))


class _ClusterHalves:
    """The two sides of every cluster, with their exact sums; `n` rows of weight `total` have labels."""

    def __init__(self, data: DenseData, labels: Labels, K: int, n: int, total: float) -> None:
        self.data, self.labels, self.n, self.total = data, labels, n, total
        self.sums = data.no_sums(2 * K)  # side 1 of cluster k is 2 k + 1
        self.sides = np.zeros(len(data), np.bool_)

    def from_planes(self, origins: Floats, directions: Floats) -> Cuts:
        """The cuts that start from planes (K, D); the first keep their origins. Overwrites both arrays."""
        return self._swept(origins, directions, given=True)

    def from_rows(self, rows: NDArray[np.intp]) -> Cuts:
        """The cuts from these rows alone on the second sides."""
        self.sides = np.zeros(len(self.data), np.bool_)
        self.sides[rows] = True
        self.sums.clear()
        origins, directions = np.empty((2, len(self.sums.counts) // 2, self.data.n_columns))
        return self._swept(origins, directions, given=False)

    def _swept(self, origins: Floats, directions: Floats, *, given: bool) -> Cuts:
        """The cuts after sweeps of 2-means, from planes that are given or from the present sides."""
        data = self.data
        _cuts.two_means(
            data.X,
            self.labels,
            origins,
            directions,
            self.sides.view(np.uint8),
            self.sums,
            data.middle,
            data.step,
            given,
            _AT_THE_MEAN if given else 0,
            _SWEEPS,
            _FEW * self.total / data.unit,
            threads_for(data.n_threads, 2 * self.n * data.n_columns * _SWEEPS),
        )
        return Cuts(self._gains(), self.sides)

    def _gains(self) -> Floats:
        """(K,) by how much cuts lower the inertia; 0 for clusters with all rows on one side."""
        weights = self.sums.counts.reshape(-1, 2) * self.data.unit
        means = self.data.means(self.sums, len(self.sums.counts)).reshape(len(weights), 2, -1)
        squared = ((means[:, 1] - means[:, 0]) ** 2).sum(axis=1)
        return np.asarray(
            np.where((weights > 0).all(axis=1), weights[:, 0] * weights[:, 1] / weights.sum(axis=1), 0.0)
            * squared
        )


def _furthest(
    X: NDArray[Any], squared: Floats, labels: Labels, rows: NDArray[np.intp], K: int
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """(K,) the row of every cluster with the largest squared distance, and all rows equal to these."""
    most = np.zeros(K)
    np.maximum.at(most, labels[rows], squared[rows])
    candidates = rows[squared[rows] == most[labels[rows]]]
    far = np.zeros(K, np.intp)
    far[labels[candidates[::-1]]] = candidates[::-1]
    equal = (X[candidates] == X[far[labels[candidates]]]).all(axis=1)
    return far, candidates[equal]


def _weights(data: DenseData, labels: Labels, K: int, rows: NDArray[np.intp]) -> Floats:
    """(K,) sums of the weights of some rows in every cluster."""
    weight = data.weight[rows] * data.unit if len(data.weight) else np.ones(len(rows))
    return np.asarray(np.bincount(labels[rows], weight, K), dtype=np.float64)
