"""A table of numbers for DP-means and the feature models: exact sums on an integer grid, orders of visits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from craftc._common.cluster_moments import ExactMoments
from craftc._common.random import DPMeansStream, uniform
from craftc._common.ranges import column_ranges
from craftc._common.threads import threads_for
from craftc._common.typing import Array, Floats, Integers, Labels
from craftc._common.validation import check_ranges, integer_weights
from craftc._kernels import dpmeans as _kernel
from craftc._kernels import moments as _moments

L = TypeVar("L")  # labels of all rows: an array, or labels that lie with partitions

_SUM_BITS = 62  # sums of integers stay below 2^62
_GRID_BITS = 45  # a cell never needs more, so that rounding by adding 1.5 * 2^52 is exact
_SQUARE_BITS = 125  # sums of squares stay below 2^126
_LIGHTEST = 2.0**-30  # least share of the largest weight: 15 bits of a cell are left
_CELL_BITS = 51  # bits of a cell of the exact moments: the most that vectors of float64 add exactly
_ROOM = 64  # clusters that new sums have room for
_GROUP_WORDS = 1 << 22  # integers of the clusters that one pass over the rows sums; bounds its memory
_ANY_ORDER = np.empty(0, np.int32)
_NONE = np.empty(0)
_NO_WEIGHT = np.empty(0, np.int64)


@dataclass(frozen=True, eq=False)
class Geometry:
    """What kernels know of a table without its rows."""

    # middle, grid: (D,) sums are those of rint((x - middle) * grid)
    middle: Floats
    grid: Floats
    reference: Floats  # (D,) A point within the table whose cells a float32 table can represent
    reach: float  # half the widest range
    single: bool  # whether the table is float32

    def centres(self, mu: Floats, limit: float) -> _kernel.Centres:
        """Centres for the kernels; a row further than `limit` (squared) from all may open a cluster."""
        return _kernel.Centres(mu, self.reference, self.reach, limit, self.single)

    def no_sums(self, capacity: int, n_threads: int) -> _kernel.Sums:
        """Sums of no rows, for rows without weights."""
        return _kernel.Sums(self.middle, self.grid, _NO_WEIGHT, _NONE, _NONE, capacity, n_threads)


class NumberTable(Generic[L]):
    """What every start shares, wherever the rows are: the integer grid of the sums, a reference point amid
    the rows, their weights.

    `n`: rows. `low`, `high` (D,): ranges of the columns. `total`, `unit`: sum of the weights, and the
    weight of a count. `largest`: the largest weight if weights are not whole, else 1. `single`: whether
    the table is float32.
    """

    weight: Integers = _NO_WEIGHT
    unit_weight: Floats = _NONE
    _share: Floats = _NONE
    n_threads = 1

    def __init__(
        self, n: int, low: Floats, high: Floats, total: float, unit: float, largest: float, single: bool
    ) -> None:
        self._n, self.total, self.unit, self.single = n, total, unit, single
        self._low, self._high = low, high
        half = high / 2 - low / 2
        self._exponent = np.frexp(half)[1]  # half < 2^exponent
        bits = min(_GRID_BITS - math.ceil(math.log2(largest)), _SUM_BITS - math.ceil(math.log2(total)))
        self.middle = low / 2 + high / 2
        self.grid = np.where(half > 0, _power_of_two(bits - 1 - self._exponent), 1.0)  # steps per unit
        self._varies = half > 0
        self.reach = float(half.max())

    def __len__(self) -> int:
        return self._n

    @property
    def n_columns(self) -> int:
        """Number of columns."""
        return len(self.middle)

    def check_ranges(self, names: Sequence[str]) -> None:
        """Raise where squared distances, or their sum, would overflow or underflow."""
        # a narrow column among others adds little
        check_ranges(self._low, self._high, names, narrowest=0.0)
        if self.reach == 0:
            return
        spread = 2 * math.log2(self.reach)
        if spread + math.log2(max(self.total, 1.0) * self.n_columns) > 1020:
            raise ValueError(
                f"The table spreads over {2 * self.reach:.3g}, and squared distances would overflow: scale "
                "it down."
            )
        if spread < -1010:
            raise ValueError(
                f"The table spreads over {2 * self.reach:.3g}, and squared distances would underflow: scale "
                "it up."
            )

    @cached_property
    def resolution(self) -> float:
        """Squared distance below which the grid cannot tell a row from its centre."""
        typical = self.total / len(self) if len(self._share) else 1.0
        return float(((1.0 / (self.grid[self._varies] * typical)) ** 2).sum())

    # ---- sums ----

    def sums_with_room(self, K: int) -> _kernel.Sums:
        """Sums of no rows, for K clusters and some more."""
        return self.no_sums(max(_ROOM, K))

    def no_sums(self, capacity: int) -> _kernel.Sums:
        """Sums of no rows."""
        return _kernel.Sums(
            self.middle, self.grid, self.weight, self._share, self.unit_weight, capacity, self.n_threads
        )

    @cached_property
    def step(self) -> Floats:
        """(D,) what one step of a sum over one count is worth."""
        return np.asarray(1.0 / (self.grid * self.unit) if len(self._share) else 1.0 / self.grid)

    def means(self, sums: _kernel.Sums, K: int) -> Floats:
        """(K, D) means of the first K clusters (one: the grand mean); empty: the middle of the table."""
        if K == 1:
            return self.mean[None]
        means = np.empty((K, self.n_columns))
        _kernel.means(sums.sums, sums.counts, self.middle, self.step, means)
        return means

    @cached_property
    def mean(self) -> Floats:
        """(D,) grand mean."""
        return np.asarray(self._of_columns.origin + self._of_columns.offsets[0])

    @cached_property
    def geometry(self) -> Geometry:
        """What the kernels need; the scan is centred on the grand mean, a float32 where the table is."""
        single = np.float32 if self.single else np.float64
        return Geometry(
            self.middle,
            self.grid,
            np.asarray(self.mean.astype(single), dtype=np.float64),
            self.reach,
            self.single,
        )

    # ---- moments ----

    @cached_property
    def _of_columns(self) -> ExactMoments:
        """Exact moments of all rows."""
        return self.moments(self.one_cluster(), 1)

    @cached_property
    def scatter(self) -> float:
        """Sum of squared distances to the grand mean."""
        return self._of_columns.inertia()

    def columns(self) -> Floats:
        """(4, D) smallest and largest number, standard deviation and mean of every column."""
        of = self._of_columns
        # for columns whose squares underflow
        least = (self._high / 2 - self._low / 2) / math.sqrt(len(self) / 2)
        deviation = np.where(of.scatters[0] > 0, np.sqrt(of.scatters[0] / self.total), least)
        return np.array([self._low, self._high, deviation, of.origin + of.offsets[0]])

    def one_cluster(self) -> L:
        """Labels of all rows in one cluster."""
        raise NotImplementedError

    def moments(self, labels: L, K: int) -> ExactMoments:
        """Exact moments of every cluster; the weights leave the other bits to sums of squares."""
        bits = min(_CELL_BITS, (_SQUARE_BITS - math.ceil(math.log2(self.total / self.unit))) // 2)
        scale = np.where(self._varies, _power_of_two(bits - self._exponent), 1.0)
        grid = _moments.Grid(self.middle, scale, np.empty(0, np.intp), 0)
        sizes, means, scatters = np.empty(K), np.empty((K, grid.p)), np.empty((K, grid.p))
        most = max(1, _GROUP_WORDS // grid.width)
        for first in range(0, K, most):
            some = slice(first, min(first + most, K))
            groups = self._groups(labels, some, most >= K, grid)
            _moments.means(groups, grid.first_numeric, means[some], scatters[some])
            sizes[some] = groups[:, 0] * self.unit
        step = 1.0 / scale
        return ExactMoments(sizes, self.middle, means * step, scatters * self.unit * step * step)

    def _groups(self, labels: L, some: slice, whole: bool, grid: _moments.Grid) -> Integers:
        """(k, width) sums of some clusters, or of all."""
        raise NotImplementedError


class DenseData(NumberTable[Labels]):
    """A table of numbers in memory.

    `X` (n, D). `weight` (n,). `ranges` (2, D): smallest and largest numbers of the columns, if they are
    known; not used with weights, which may leave rows out.
    """

    def __init__(self, X: Array, weight: Floats | None, n_threads: int, ranges: Floats | None = None) -> None:
        self.X, self.n_threads = X, n_threads
        self.weight, unit = integer_weights(weight)
        self._given = weight
        whole = weight is None or unit == 1.0
        self._share = np.empty(0) if whole or weight is None else _comparable(weight)
        self.unit_weight = (
            np.minimum(weight, 1.0) if weight is not None and bool((weight < 1).any()) else np.empty(0)
        )
        if ranges is None or weight is not None:
            ranges = np.empty((2, X.shape[1]))
            _moments.column_ranges(X, self.weight, ranges[0], ranges[1], threads_for(n_threads, 2 * X.size))
        total = float(self.weight.sum()) * unit if len(self.weight) else float(len(X))
        largest = 1.0 if whole or weight is None else float(weight.max())
        super().__init__(len(X), ranges[0], ranges[1], total, unit, largest, bool(X.dtype == np.float32))

    def check_ranges(self, names: Sequence[str]) -> None:
        super().check_ranges(names)
        if len(self.weight):  # rows of weight 0 get labels, too
            check_ranges(*column_ranges(self.X), names, narrowest=0.0)

    def of_rows(self, rows: NDArray[np.intp]) -> DenseData:
        """Some of the rows."""
        return DenseData(
            self.X.take(rows, axis=0), None if self._given is None else self._given[rows], self.n_threads
        )

    def one_cluster(self) -> Labels:
        return np.zeros(len(self), np.int32)

    def sums_of(self, labels: Labels, K: int) -> _kernel.Sums:
        """Exact sums of every cluster of a partition, and room for some more."""
        sums = self.sums_with_room(K)
        _kernel.accumulate(self.X, None if K == 1 else labels, sums, self.threads_of_pass)
        return sums

    def _groups(self, labels: Labels, some: slice, whole: bool, grid: _moments.Grid) -> Integers:
        return groups_of(
            self.X,
            self.weight,
            labels,
            None if whole else some,
            some.stop - some.start,
            grid,
            self.threads(2),
        )

    @property
    def threads_of_pass(self) -> int:
        """Threads for a pass that does little with every cell."""
        return threads_for(self.n_threads, len(self) * self.X.shape[1] / 2)

    def threads(self, K: int) -> int:
        """Threads for one sweep over K centres."""
        return threads_for(self.n_threads, len(self) * self.X.shape[1] * (2 + K / 8))

    def order(self, seed: int, start: int) -> NDArray[np.int32]:
        """Order of the visits: the rows as they stand for start 0, else a permutation by (seed, start)."""
        if start == 0:
            return _ANY_ORDER
        return np.argsort(
            uniform(seed, DPMeansStream.ORDER, start, np.arange(len(self))), kind="stable"
        ).astype(np.int32)


def _comparable(weight: Floats) -> Floats:
    """Weights that are not whole; raise ValueError if sums of rows would lose the lightest rows."""
    least, most = float(weight[weight > 0].min()), float(weight.max())
    if least < max(most * _LIGHTEST, float(weight.sum()) * 2.0**-46):
        raise ValueError(
            f"sample_weight ranges from {least:.3g} to {most:.3g}, too far for exact sums; set weights below "
            f"{_LIGHTEST:.1g} of the largest to 0, or raise them. (Whole numbers may differ by any factor.)"
        )
    return weight


def _power_of_two(exponent: NDArray[np.int32]) -> Floats:
    """2^exponent, up to the largest that float64 has: columns of denormal numbers are on a coarser grid."""
    return np.ldexp(1.0, np.minimum(exponent, 1023))


def groups_of(
    X: Array,
    weight: Integers,
    labels: Labels,
    some: slice | None,
    K: int,
    grid: _moments.Grid,
    n_threads: int,
) -> Integers:
    """(K, width) integers of the clusters in `some`, or of all K; src/table/_moments.h defines the layout."""
    if some is not None:
        labels = np.where(
            (labels >= some.start) & (labels < some.stop), labels - np.int32(some.start), np.int32(-1)
        )
    groups = np.zeros((K, grid.width), np.int64)
    # with some groups to spare, the sums of two threads have no pair of cache lines in common
    partial = np.zeros((n_threads, K + 3, grid.width) if n_threads > 1 else (0, K, grid.width), np.int64)
    _moments.accumulate(X, np.empty((len(X), 0), np.uint8), weight, labels, grid, partial, groups, n_threads)
    return groups
