"""Means and variances of the columns in every cluster of a table of numbers, for summaries."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from craftc._common.labels import chunks
from craftc._common.typing import Floats, Labels

T = TypeVar("T")


@dataclass
class ClusterMoments:
    """Weight, means and variances of every cluster; an empty cluster has variances of 0."""

    sizes: Floats  # (K,) sums of the weights
    means: Floats  # (K, D)
    variances: Floats  # (K, D) mean squared differences from the mean, divided by the size

    @classmethod
    def of(
        cls,
        X: NDArray[Any],
        labels: Labels,
        n_clusters: int,
        weight: Floats | None = None,
        means: Floats | None = None,
    ) -> ClusterMoments:
        """The moments of a partition (n,) of rows (n, D); `means`, if they are known."""
        sizes = np.bincount(labels, weight, n_clusters).astype(np.float64)
        share = 1.0 / np.where(sizes > 0, sizes, 1.0)[:, None]
        if means is None:
            # so that a constant column has its value as mean
            start = np.broadcast_to(X[0].astype(np.float64), (n_clusters, X.shape[1]))
            means = start + share * _sums(X, labels, start, weight, 1)
        return cls(sizes, means, share * _sums(X, labels, means, weight, 2))

    def total(self) -> ClusterMoments:
        """The moments of the whole table, as of one cluster."""
        share = (self.sizes / self.sizes.sum())[:, None]
        mean = self.means[0] + (share * (self.means - self.means[0])).sum(axis=0)
        variance = (share * (self.variances + (self.means - mean) ** 2)).sum(axis=0)
        return ClusterMoments(self.sizes.sum(keepdims=True), mean[None], variance[None])

    def joined(self, more: ClusterMoments) -> ClusterMoments:
        """The moments after further rows, of these clusters and possibly new ones after them."""
        before = ClusterMoments(*(np.zeros_like(array) for array in (more.sizes, more.means, more.variances)))
        K = len(self.sizes)
        before.sizes[:K], before.means[:K], before.variances[:K] = self.sizes, self.means, self.variances
        sizes = before.sizes + more.sizes
        share = (more.sizes / np.where(sizes > 0, sizes, 1.0))[:, None]
        step = more.means - before.means
        variances = (
            before.variances + share * (more.variances - before.variances) + share * (1.0 - share) * step**2
        )
        return ClusterMoments(sizes, before.means + share * step, variances)


@dataclass
class ExactMoments:
    """Weight, means and scatter of every cluster, from exact integer sums."""

    sizes: Floats  # (K,) sums of the weights
    origin: Floats  # (D,) A point within the table
    # (K, D) means minus the origin; 0 for an empty cluster. Means of columns far from 0 have fewer digits
    offsets: Floats
    scatters: Floats  # (K, D) weighted sums of squared differences from the mean

    def inertia(self, centers: Floats | None = None) -> float:
        """Weighted sum of squared distances of rows to their cluster's mean, or to centres (K, D)."""
        inside = math.fsum(self.scatters.sum(axis=1))  # the order of a BLAS sum depends on the processor
        if centers is None:
            return inside
        steps = centers - self.origin - self.offsets
        return inside + math.fsum(self.sizes * (steps**2).sum(axis=1))

    def around(self, means: Floats) -> ClusterMoments:
        """Sizes and variances, with the means (K, D) of the model."""
        return ClusterMoments(
            self.sizes, means, self.scatters / np.where(self.sizes > 0, self.sizes, 1.0)[:, None]
        )


def _sums(X: NDArray[Any], labels: Labels, centres: Floats, weight: Floats | None, power: int) -> Floats:
    """(K, D) weighted sums of (x - centre)^power."""
    out = np.zeros(centres.shape)
    for rows in chunks(len(X)):
        label = labels[rows]
        step = (X[rows] - centres[label]) ** power
        share = np.ones(len(label)) if weight is None else weight[rows]
        out += csr_array((share, label, np.arange(len(label) + 1)), shape=(len(label), len(out))).T @ step
    return out


ROWS_PER_CLUSTER = 5  # minimum average for which the criterion can choose a number of clusters
_MOST_CHOICES = 8  # choices by the dimensions of the former choice, at most
_DIMENSIONS_TOLERANCE = 0.05  # relative change of the dimensions at which they end
_PRODUCTS = 1 << 33  # multiplications that count the dimensions of a scatter


def description_length(sizes: Floats, dimensions: float, inertia: float, scatter: float) -> float:
    """Description length in nats of a table and its labels under spherical clusters of equal variance.

    It is the BIC of the classification likelihood, N d / 2 log(SSE / (N d)) - sum_k n_k log(n_k / N) + K (d +
    1) / 2 log N, with the SSE bounded below by 1e-14 of the total scatter, and d of
    :func:`effective_dimensions`.
    """
    N, K = float(sizes.sum()), len(sizes)
    spread = max(max(inertia, 1e-14 * scatter, np.finfo(float).tiny) / (N * dimensions), np.finfo(float).tiny)
    mixing = math.fsum(size * math.log(size / N) for size in sizes.tolist())
    return float(
        0.5 * N * dimensions * math.log(spread) - mixing + 0.5 * K * (dimensions + 1) * math.log(max(N, 1.0))
    )


def effective_dimensions(residuals: Floats, weight: Floats | None = None) -> float:
    """Dimensions d of a scatter W of rows around their means: (tr W)^2 / tr W^2, 1 to the number of columns.

    A sum of squares of N normal rows has the mean and the variance of a multiple of chi-squared with N d
    degrees of freedom (Satterthwaite). A constant column adds nothing to d, a column that says what others
    say adds little, and D columns of equal variance without correlations have d = D. Three digits: the last
    bits of the sums depend on the processor, and are to decide nothing. 1 for rows without scatter.

    `residuals` (n, D), `weight` (n,).
    """
    rows = residuals if weight is None else residuals * np.sqrt(weight / weight.max())[:, None]
    largest = float(np.abs(rows).max(initial=0.0))
    if largest == 0.0:
        return 1.0
    rows = rows / largest  # whose squares neither overflow nor vanish
    products = rows.T @ rows if rows.shape[1] <= len(rows) else rows @ rows.T
    return max(float(f"{float(np.trace(products)) ** 2 / float((products**2).sum()):.3g}"), 1.0)


def some_for_dimensions(n: int, D: int, products: int = _PRODUCTS) -> slice:
    """Rows at even distances that show the dimensions of a scatter: fewer of a wide table."""
    return slice(None, None, -(-n // max(products // D**2, min(D, math.isqrt(products // D)), 1)))


def consistent_choice(
    choose: Callable[[float], T], dimensions_of: Callable[[T], float], dimensions: float
) -> T:
    """A choice of clusters by the dimensions of its own scatter.

    `choose`: chooses by given dimensions. `dimensions_of`: dimensions of the scatter within the clusters of a
    choice. `dimensions`: those of the whole table, which are too few where distances of clusters stand out in
    few directions.
    """
    chosen = choose(dimensions)
    for _ in range(_MOST_CHOICES - 1):
        found = dimensions_of(chosen)
        if abs(found - dimensions) <= _DIMENSIONS_TOLERANCE * dimensions:
            break
        dimensions = found
        chosen = choose(dimensions)
    return chosen


def clearer_choice(
    chosen: T,
    dimensions: tuple[float, float],
    choose: Callable[[float], T],
    length: Callable[[T, float], float],
    is_clear: Callable[[T], bool],
) -> T:
    """The choice by the dimensions of many small clusters, where it is shorter than `chosen` and clear.

    The dimensions of the whole table hide clusters that differ in few directions and scatter in many; those
    of many small clusters show them.

    `dimensions`: those of `chosen`, and of many small clusters. `choose`: chooses by given dimensions.
    `length`: the description length of a choice in given dimensions; both are compared in the geometric mean.
    """
    before, more = dimensions
    if more > (1.0 + _DIMENSIONS_TOLERANCE) * before:
        finer, between = choose(more), math.sqrt(more * before)
        if length(finer, between) < length(chosen, between) and is_clear(finer):
            return finer
    return chosen
