"""Exact moments of clusters: weights, level counts, sums and sums of squares.

Counts are integers. A numeric column is centred, scaled by a power of two and quantised to 2^-40 of its
range, so that sum x and sum x^2 are 128-bit integers. Integer sums do not depend on the order of the
additions: adding and removing rows by any thread in any order gives the same bits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from craftc._common.threads import threads_for
from craftc._common.typing import Floats, Integers, Labels
from craftc._common.validation import check_ranges, integer_weights
from craftc._kernels import moments as _kernel
from craftc.table.mixed_table import MixedTable, Schema

_GRID_BITS = 40  # bits of a column's range
_LARGEST, _NARROWEST = 1e140, 1e-140  # the sum of 2^53 squares is a float64
NUMERIC_CELLS = _kernel.NUMERIC_CELLS  # integers of a numeric column of a cluster


def integer_grid(table: MixedTable, weight: Integers) -> _kernel.Grid:
    """The integer grid of a table: numeric columns centred on mid-range, with 2^40 steps over the next power
    of two of the range.

    Raises ValueError: the squares of a column would overflow or underflow.
    """
    p = table.numeric.shape[1]
    low, high = np.empty(p), np.empty(p)
    _kernel.column_ranges(table.numeric, weight, low, high, 1)
    return grid_of_ranges(table.schema, low, high)


def grid_of_ranges(schema: Schema, low: Floats, high: Floats) -> _kernel.Grid:
    """The integer grid for (p,) smallest and largest numbers; inf and -inf where a column has none."""
    check_ranges(low, high, schema.numeric_names, largest=_LARGEST, narrowest=_NARROWEST)
    seen = low <= high
    low, high = np.where(seen, low, 0.0), np.where(seen, high, 0.0)
    half = high / 2 - low / 2
    scale = np.where(half > 0, np.ldexp(1.0, _GRID_BITS - 1 - np.frexp(half)[1]), 1.0)
    return _kernel.Grid(
        low / 2 + high / 2, scale, level_starts(schema.n_levels), int((schema.n_levels + 1).sum())
    )


def level_starts(n_levels: NDArray[np.intp]) -> NDArray[np.intp]:
    """First position of each categorical column in the list of all levels, each with a missing level."""
    return np.concatenate([[0], np.cumsum(n_levels + 1)[:-1]]).astype(np.intp)[: len(n_levels)]


class Moments:
    """Weights, level counts, sums and sums of squares of every cluster.

    `grid`: integer grid of the numeric columns and positions of the levels. `unit`: weight of one count,
    see `integer_weights`. `n_clusters`: number of clusters, initially empty. `n_threads`: number of
    threads that may move rows concurrently.
    """

    def __init__(self, grid: _kernel.Grid, unit: float, n_clusters: int, n_threads: int = 1) -> None:
        self.grid, self.unit, self.n_threads = grid, unit, n_threads
        self._groups = np.zeros((max(n_clusters, 1), grid.width), np.int64)
        self._partial = np.zeros((n_threads, *self._groups.shape), np.int64)
        self.n_clusters = n_clusters

    @classmethod
    def of_partition(
        cls,
        grid: _kernel.Grid,
        unit: float,
        table: MixedTable,
        weight: Integers,
        labels: NDArray[np.int32],
        n_clusters: int,
        n_threads: int = 1,
    ) -> Moments:
        """Moments of every cluster of a partition."""
        threads = threads_for(n_threads, len(table) * (grid.p * 4 + grid.q))
        moments = cls(grid, unit, n_clusters, n_threads)
        groups, partial = moments.workplace(threads)
        _kernel.accumulate(table.numeric, table.codes, weight, labels, grid, partial, groups, threads)
        return moments

    @classmethod
    def of_groups(cls, grid: _kernel.Grid, unit: float, groups: Integers) -> Moments:
        """Moments with a copy of these integers of all clusters."""
        moments = cls(grid, unit, len(groups))
        moments.groups[:] = groups
        return moments

    def are_of(self, table: MixedTable, weights: Floats | None, labels: Labels, n_threads: int) -> bool:
        """Whether rows with these weights and labels have exactly these moments."""
        integers, unit = integer_weights(weights)
        found = Moments.of_partition(self.grid, unit, table, integers, labels, self.n_clusters, n_threads)
        return unit == self.unit and np.array_equal(found.groups, self.groups)

    @property
    def groups(self) -> Integers:
        """(K, width) integers of all clusters; src/table/_moments.h defines the layout."""
        return self._groups[: self.n_clusters]

    def workplace(self, n_threads: int) -> tuple[Integers, NDArray[np.int64]]:
        """Storage of the groups, and a zeroed copy per thread, for kernels that move rows."""
        return self._groups, self._partial[:n_threads]

    def open(self) -> int:
        """Add an empty cluster and return its number."""
        if self.n_clusters == len(self._groups):
            self._groups = np.concatenate([self._groups, np.zeros_like(self._groups)])
            self._partial = np.zeros((self.n_threads, *self._groups.shape), np.int64)
        self._groups[self.n_clusters] = 0
        self.n_clusters += 1
        return self.n_clusters - 1

    def keep(self, clusters: NDArray[Any]) -> None:
        """Remove all other clusters and renumber these in the given order."""
        kept = self.groups[clusters]
        self._groups[: len(kept)] = kept
        self.n_clusters = len(kept)

    def select(self, clusters: NDArray[Any]) -> Moments:
        """A copy of some clusters in the given order, without storage for threads."""
        return Moments.of_groups(self.grid, self.unit, self.groups[clusters])

    def total(self, rest: Integers | None = None) -> Moments:
        """Moments of the whole table; `rest` (width,): integers of rows that are in no cluster."""
        total = Moments(self.grid, self.unit, 1)
        for group in [*self.groups, *([] if rest is None else [rest])]:
            _kernel.merge(total.groups[0], group, 1, self.grid.first_numeric)
        return total

    @property
    def sizes(self) -> Floats:
        """(K,) weight of every cluster."""
        return np.asarray(self.groups[:, 0] * self.unit, dtype=np.float64)

    @property
    def counts(self) -> Floats:
        """(K, n_levels) weight of every level; the missing level of a column follows its levels."""
        return np.asarray(self.groups[:, 1 : self.grid.first_numeric] * self.unit, dtype=np.float64)

    @property
    def present(self) -> Floats:
        """(K, p) weight of the observed numeric values."""
        return np.asarray(
            self.groups[:, self.grid.first_numeric :: NUMERIC_CELLS] * self.unit, dtype=np.float64
        )

    def means(self) -> tuple[Floats, Floats]:
        """Means and weighted sums of squared deviations, (K, p) each, in grid steps; empty: 0."""
        mean, deviations = np.empty((2, self.n_clusters, self.grid.p))
        _kernel.means(self.groups, self.grid.first_numeric, mean, deviations)
        return mean, deviations * self.unit


def add_groups(groups: Integers, other: Integers, grid: _kernel.Grid, sign: int = 1) -> None:
    """Add the moments (K, width) of the same clusters of other rows, or subtract them (-1)."""
    for group, more in zip(groups, other, strict=True):
        _kernel.merge(group, more, sign, grid.first_numeric)


@dataclass(frozen=True, eq=False)
class ExactSums:
    """Integer sums of clusters, and the grid on which the numeric cells are integers."""

    groups: Integers  # (K, width); src/table/_moments.h defines the layout
    centre: Floats  # (p,) of the numeric columns
    scale: Floats  # (p,) steps of the grid to a unit of the column
    n_levels: NDArray[np.intp]  # (q,) of the categorical columns
    unit: float  # weight of one count

    @classmethod
    def of(cls, moments: Moments) -> ExactSums:
        """A copy of the sums."""
        grid = moments.grid
        n_levels = np.diff(np.append(grid.level_start, grid.n_levels)) - 1
        return cls(moments.groups.copy(), grid.centre, grid.scale, n_levels, moments.unit)

    @property
    def grid(self) -> _kernel.Grid:
        """The grid as the kernels read it."""
        starts = level_starts(self.n_levels)
        return _kernel.Grid(self.centre, self.scale, starts, int((self.n_levels + 1).sum()))

    def moments(self) -> Moments:
        """The sums as the kernels read them."""
        return Moments.of_groups(self.grid, self.unit, self.groups)
