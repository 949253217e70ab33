"""A table of numbers as DP-means and the feature models see it: exact sums of rows on an integer grid, and orders of visits."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from craftc._common.cluster_moments import ExactMoments
from craftc._common.random import DPMeansStream, uniform
from craftc._common.threads import threads_for
from craftc._common.typing import Floats, Labels
from craftc._common.weights import integer_weights
from craftc._kernels import dpmeans as _kernel
from craftc._kernels import moments as _moments

_SUM_BITS = 62  # sums of integers stay below 2^62
_GRID_BITS = 45  # a cell never needs more, so that rounding by adding 1.5 * 2^52 is exact
_SQUARE_BITS = 125  # sums of squares stay below 2^126
_CELL_BITS = 52  # all that float64 has
_GROUP_WORDS = 1 << 22  # integers of the clusters that are summed in one pass over the rows
_ANY_ORDER = np.empty(0, np.int32)


class DenseData:
    """A table of numbers and what every start shares: weights, the integer grid of the sums, a reference point amid the rows.

    Parameters
    ----------
    X : ndarray (n, D) of float32 or float64, contiguous, finite
    weight : ndarray (n,) of float64 or None
    n_threads : int
    """

    def __init__(self, X: NDArray[Any], weight: Floats | None, n_threads: int) -> None:
        self.X, self.n_threads = X, n_threads
        self.weight, self.unit = integer_weights(weight)
        self._given = weight
        self.total = float(self.weight.sum()) * self.unit if len(self.weight) else float(len(X))
        whole = weight is None or self.unit == 1.0
        self._share = np.empty(0) if whole or weight is None else weight
        self.unit_weight = np.minimum(weight, 1.0) if weight is not None and bool((weight < 1).any()) else np.empty(0)
        low, high = np.empty((2, X.shape[1]))
        _moments.column_ranges(X, self.weight, low, high)
        half = high / 2 - low / 2
        self._exponent = np.frexp(half)[1]  # half < 2^exponent
        largest = 1.0 if whole or weight is None else float(weight.max())
        bits = min(_GRID_BITS - math.ceil(math.log2(largest)), _SUM_BITS - math.ceil(math.log2(self.total)))
        self.middle = low / 2 + high / 2
        self.grid = np.where(half > 0, np.ldexp(1.0, bits - 1 - self._exponent), 1.0)  # steps per unit
        self._varies = half > 0
        self.reach = float(half.max())

    def __len__(self) -> int:
        return len(self.X)

    def of_rows(self, rows: NDArray[np.intp]) -> DenseData:
        """Some of the rows."""
        return DenseData(np.ascontiguousarray(self.X[rows]), None if self._given is None else self._given[rows], self.n_threads)

    @property
    def single(self) -> bool:
        """Whether the table is float32."""
        return bool(self.X.dtype == np.float32)

    def check_width(self) -> None:
        """Raise where the sum of all squared distances would overflow."""
        if self.reach > 0 and 2 * math.log2(self.reach) + math.log2(max(self.total, 1.0) * self.X.shape[1]) > 1020:
            raise ValueError(f"The table spreads over {2 * self.reach:.3g}, and squared distances would overflow: scale it down.")

    @cached_property
    def resolution(self) -> float:
        """Squared distance below which the grid cannot tell a row from its centre."""
        typical = self.total / len(self) if len(self._share) else 1.0
        return float(((1.0 / (self.grid[self._varies] * typical)) ** 2).sum())

    @cached_property
    def _whole(self) -> _kernel.Sums:
        """Sums of all rows."""
        sums = self._no_sums(1)
        _kernel.accumulate(self.X, np.zeros(len(self), np.int32), sums, self.threads(2))
        return sums

    @cached_property
    def mean(self) -> Floats:
        """(D,) grand mean."""
        return np.asarray(self.means(self._whole, 1)[0])

    @cached_property
    def reference(self) -> Floats:
        """(D,) the grand mean, a float32 where the table is: what the scan is centred on."""
        return np.asarray(self.mean.astype(self.X.dtype), dtype=np.float64)

    @cached_property
    def scatter(self) -> float:
        """Sum of squared distances to the grand mean."""
        return self.moments(np.zeros(len(self), np.int32), 1).inertia()

    def _no_sums(self, capacity: int) -> _kernel.Sums:
        return _kernel.Sums(self.middle, self.grid, self.weight, self._share, self.unit_weight, capacity, self.n_threads)

    def sums_of(self, labels: Labels, K: int) -> _kernel.Sums:
        """Exact sums of every cluster of a partition, and room for some more."""
        sums = self._no_sums(max(64, K))
        if K == 1:
            sums.sums[0], sums.counts[0] = self._whole.sums[0], self._whole.counts[0]
        else:
            _kernel.accumulate(self.X, labels, sums, self.threads(2))
        return sums

    @cached_property
    def step(self) -> Floats:
        """(D,) what one step of a sum over one count is worth."""
        return np.asarray(1.0 / (self.grid * self.unit) if len(self._share) else 1.0 / self.grid)

    def means(self, sums: _kernel.Sums, K: int) -> Floats:
        """(K, D) means of the first K clusters; the middle of the table where one is empty."""
        return np.asarray(self.middle + sums.sums[:K] / np.maximum(sums.counts[:K, None], 1) * self.step)

    def moments(self, labels: Labels, K: int) -> ExactMoments:
        """Exact moments of every cluster of a partition; cells have as many bits as the weights leave to the sums of squares."""
        bits = min(_CELL_BITS, (_SQUARE_BITS - math.ceil(math.log2(self.total / self.unit))) // 2)
        scale = np.where(self._varies, np.ldexp(1.0, bits - self._exponent), 1.0)
        grid = _moments.Grid(self.middle, scale, np.empty(0, np.intp), 0)
        sizes, means, scatters = np.empty(K), np.empty((K, grid.p)), np.empty((K, grid.p))
        most, threads, no_codes = max(1, _GROUP_WORDS // grid.width), self.threads(2), np.empty((len(self), 0), np.uint8)
        for first in range(0, K, most):
            some = slice(first, min(first + most, K))
            inside = labels if most >= K else np.where((labels >= first) & (labels < some.stop), labels - np.int32(first), np.int32(-1))
            groups = np.zeros((some.stop - first, grid.width), np.int64)
            partial = np.zeros((threads, *groups.shape) if threads > 1 else (0, 0, grid.width), np.int64)
            _moments.accumulate(self.X, no_codes, self.weight, inside, grid, partial, groups, threads)
            _moments.means(groups, grid.first_numeric, means[some], scatters[some])
            sizes[some] = groups[:, 0] * self.unit
        step = 1.0 / scale
        return ExactMoments(sizes, self.middle, means * step, scatters * self.unit * step * step)

    def threads(self, K: int) -> int:
        """Threads for one sweep over K centres."""
        return threads_for(self.n_threads, len(self) * self.X.shape[1] * (2 + K / 8))

    def order(self, seed: int, start: int) -> NDArray[np.int32]:
        """The order in which a start visits the rows: as they stand for the first, a permutation by (seed, start) for the others."""
        if start == 0:
            return _ANY_ORDER
        return np.argsort(uniform(seed, DPMeansStream.ORDER, start, np.arange(len(self))), kind="stable").astype(np.int32)
