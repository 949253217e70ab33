"""The best cut of every cluster into two: 2-means within the clusters of a partition, from exact sums."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from craftc._common.dense_data import DenseData
from craftc._common.typing import Floats, Labels
from craftc._kernels import dpmeans as _kernel

_AT_THE_MEAN = 2  # sweeps whose threshold is the mean of the cluster, which turn the direction towards the widest one
_SWEEPS = 7  # all of them
_FEW = 0.01  # share of the weight; a sweep that moves fewer ends the search

Sides = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Cuts:
    """Cuts of the clusters of a partition.

    Parameters
    ----------
    gains : ndarray (K,)
        By how much the sum of squared distances falls; 0 where a cluster has only equal rows.
    sides : ndarray (n,) of bool
        Rows on the second side.
    """

    gains: Floats
    sides: Sides


def best_cuts(data: DenseData, labels: Labels, mu: Floats) -> Cuts:
    """Cuts of all clusters, by sweeps of 2-means from the direction of the row that is furthest from the mean.

    Where that row alone, with those that are equal to it, gains more, a second search starts with it on one side.

    Parameters
    ----------
    data : DenseData
        Rows of weight > 0.
    labels : ndarray (n,) of int32
    mu : ndarray (K, D)
        Means of the clusters, none of which is empty.
    """
    K = len(mu)
    squared = np.empty(len(data))
    _kernel.own_distances(data.X, mu, labels, squared, data.threads_of_pass)
    far, equal = _furthest(data, squared, labels, K)
    cuts = _swept(data, labels, K, mu, _beyond(data, labels, mu, data.X[far] - mu))
    total, own = _weights(data, labels, K, np.arange(len(data))), _weights(data, labels, K, equal)
    alone = np.divide(total * own * squared[far], total - own, out=np.zeros(K), where=total > own)
    if not (alone > cuts.gains).any():
        return cuts
    sides = np.zeros(len(data), np.bool_)
    sides[equal] = True
    other = _swept(data, labels, K, None, sides)
    better = other.gains > cuts.gains
    return Cuts(np.where(better, other.gains, cuts.gains), np.where(better[labels], other.sides, cuts.sides))


def _swept(data: DenseData, labels: Labels, K: int, mu: Floats | None, sides: Sides) -> Cuts:
    """Sweeps of 2-means within every cluster; with `mu`, the first use the means of the clusters as thresholds."""
    sums = data.no_sums(2 * K)
    for sweep in range(_SWEEPS):
        gains, means = _halves(data, labels, sides, K, sums)
        thresholds = means.mean(axis=1) if mu is None or sweep >= _AT_THE_MEAN else mu
        moved = _beyond(data, labels, thresholds, means[:, 1] - means[:, 0])
        changed = moved != sides
        weight = data.weight[changed].sum() * data.unit if len(data.weight) else np.count_nonzero(changed)
        if weight <= _FEW * data.total:
            break
        sides = moved
    else:
        gains = _halves(data, labels, sides, K, sums)[0]
    return Cuts(gains, sides)


def _halves(data: DenseData, labels: Labels, sides: Sides, K: int, sums: _kernel.Sums) -> tuple[Floats, Floats]:
    """The gains of cuts, and the means (K, 2, D) of both sides; zeros for clusters with all rows on one side."""
    halves = 2 * labels + sides
    data.sum_again(halves.astype(np.int32, copy=False), sums)
    weights = sums.counts.reshape(K, 2) * data.unit
    means = data.means(sums, 2 * K).reshape(K, 2, -1)
    cut = (weights > 0).all(axis=1)
    means[~cut] = 0.0
    squared = ((means[:, 1] - means[:, 0]) ** 2).sum(axis=1)
    return np.where(cut, weights[:, 0] * weights[:, 1] / weights.sum(axis=1), 0.0) * squared, means


def _beyond(data: DenseData, labels: Labels, thresholds: Floats, directions: Floats) -> Sides:
    """Rows whose projection on the direction of their cluster is larger than that of its threshold."""
    projections = np.empty(len(data))
    _kernel.project(data.X, thresholds, directions, labels, projections, data.threads_of_pass)
    return np.asarray(projections > 0.0)


def _furthest(data: DenseData, squared: Floats, labels: Labels, K: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """(K,) the row of every cluster with the largest squared distance (ties: the first), and all rows that are equal to these."""
    most = np.zeros(K)
    np.maximum.at(most, labels, squared)
    candidates = np.flatnonzero(squared == most[labels])
    far = np.zeros(K, np.intp)
    far[labels[candidates[::-1]]] = candidates[::-1]
    equal = (data.X[candidates] == data.X[far[labels[candidates]]]).all(axis=1)
    return far, candidates[equal]


def _weights(data: DenseData, labels: Labels, K: int, rows: NDArray[np.intp]) -> Floats:
    """(K,) sums of the weights of some rows in every cluster."""
    weight = data.weight[rows] * data.unit if len(data.weight) else np.ones(len(rows))
    return np.asarray(np.bincount(labels[rows], weight, K), dtype=np.float64)
