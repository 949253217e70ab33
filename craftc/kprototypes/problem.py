"""The table of a fit, and what every start needs of it."""

from __future__ import annotations

import math
from dataclasses import InitVar, dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from craftc._common.random import spread
from craftc._common.ranges import ROWS_COMPARED
from craftc._common.threads import aligned, threads_for
from craftc._common.typing import Array, Floats, Integers, Ints, Labels
from craftc._kernels import kprototypes as _kernel
from craftc._kernels.moments import Grid
from craftc.table import MixedTable
from craftc.table.moments import Moments

MATCHING, NG = _kernel.KINDS.index("matching"), _kernel.KINDS.index("ng")
NO_WEIGHT, _NO_COST = np.empty(0, np.int64), np.empty(0)
_FEWEST = 20  # rows of a column whose levels are compared with their number
_CELLS_AT_ONCE = 1 << 18  # cells that are compared at a time in the search for distinct rows; bounds memory
_NO_PARTIAL, _NO_GROUPS = np.empty((0, 0, 0), np.int64), np.empty((0, 0), np.int64)


@dataclass
class Problem:
    """A table, its weights, and the dissimilarity."""

    table: MixedTable
    weight: Integers  # (n,) empty: all one
    unit: float  # weight of one count
    grid: Grid
    kind: int  # position of the dissimilarity of categories in KINDS of the kernel
    # factor of the dissimilarity of categories; None: half the mean standard deviation of the numeric
    # columns (1 if none varies)
    given_gamma: InitVar[float | None]
    n_threads: int
    gamma: float = field(init=False)
    n_levels: Ints = field(init=False)
    mean: Floats = field(init=False)  # (p,) of the whole table
    deviation: Floats = field(init=False)  # (p,)
    counts: Integers = field(init=False)  # (n_levels,) of the whole table
    mode: NDArray[np.int32] = field(init=False)  # (q,)
    totals: Integers = field(init=False)  # (q,) weights of the present cells
    # sums of the weights of the first levels, all columns one after the other
    running: Integers = field(init=False)

    def __post_init__(self, given_gamma: float | None) -> None:
        table = self.table
        self.n_levels = table.n_levels
        everything = np.zeros(len(table), np.int32)
        total = Moments.of_partition(self.grid, self.unit, table, self.weight, everything, 1, self.n_threads)
        mean, squares = total.means()
        present = np.where(total.present[0] > 0, total.present[0], 1.0)
        self.mean = self.grid.centre + mean[0] / self.grid.scale
        self.deviation = np.sqrt(squares[0] / present) / self.grid.scale
        self.counts = total.groups[0, 1 : self.grid.first_numeric]
        self.mode = np.array([int(self.counts_of(d).argmax()) for d in range(self.grid.q)], np.int32)
        counts = self.counts.copy()
        counts[self.grid.level_start + self.n_levels] = 0
        self.running = np.cumsum(counts)
        self.totals = np.array([self.counts_of(d).sum() for d in range(self.grid.q)], np.int64)
        half = 0.5 * float(self.deviation.mean()) if self.deviation.any() else 1.0
        self.gamma = half if given_gamma is None else given_gamma

    def __len__(self) -> int:
        return len(self.table)

    def counts_of(self, d: int) -> Integers:
        """Weights of the levels of a categorical column."""
        start = self.grid.level_start[d]
        return self.counts[start : start + self.n_levels[d]]

    def columns_of_single_rows(self) -> list[str]:
        """Categorical columns in which a level has less than two rows on average."""
        names = self.table.categorical_names
        found = [np.count_nonzero(self.counts_of(d)) for d in range(self.grid.q)]
        rows = self.totals * self.unit
        return [name for name, k, n in zip(names, found, rows, strict=True) if _FEWEST <= n < 2 * k]

    def prototypes(
        self, means: Floats, modes: NDArray[np.int32], groups: Integers | None = None
    ) -> _kernel.Prototypes:
        """Prototypes with means (K, p) and modes (K, q); `groups`: moments for Ng's dissimilarity."""
        return prototypes_of(self, means, modes, groups)

    def codes_of(self, rows: int | Ints) -> NDArray[np.int32]:
        """The codes of these rows, or of one row, as modes; a missing cell has the mode of its column."""
        codes = self.table.codes[rows]
        return np.where(codes < self.n_levels, codes, self.mode).astype(np.int32)

    def numbers_of(self, rows: int | Ints) -> Floats:
        """The numbers of these rows as means; a missing cell has the mean of its column."""
        numbers = self.table.numeric[rows].astype(np.float64)
        return np.where(np.isnan(numbers), self.mean, numbers)

    def dissimilarities(self, mode: NDArray[np.int32], kind: int) -> Floats:
        """(n,) dissimilarity of the categories of every row and one mode (q,)."""
        if kind == MATCHING:
            return self.mismatches(mode).astype(np.float64)
        grid = Grid(np.empty(0), np.empty(0), self.grid.level_start, self.grid.n_levels)
        one = _kernel.Prototypes(
            grid,
            self.n_levels,
            kind,
            1.0,
            np.empty((1, 0)),
            mode[None],
            np.empty(0),
            self.mode,
            np.zeros((1, grid.width), np.int64),
        )
        codes, out = self.table.codes, np.empty(len(self))
        nearest(
            np.empty((len(self), 0)), codes, NO_WEIGHT, one, threads_for(self.n_threads, codes.size), best=out
        )
        return out

    def mismatches(self, mode: NDArray[np.int32]) -> NDArray[np.int32]:
        """(n,) number of the present cells of every row that differ from a mode (q,)."""
        codes, out = self.table.codes, np.empty(len(self), np.int32)
        limits = np.empty((2, len(mode)), codes.dtype)
        limits[0], limits[1] = mode, self.n_levels
        _kernel.mismatches(codes, limits, out)
        return out

    def distinct_rows(self, most: int, order: Ints | None = None) -> Ints:
        """Positions of the first `most` different rows of weight > 0, in the given order of the rows."""
        seen: dict[bytes, int] = {}
        numeric, codes, weight, n = self.table.numeric, self.table.codes, self.weight, len(self)
        largest = max(1, _CELLS_AT_ONCE // (numeric.shape[1] + codes.shape[1]))
        first, size = 0, min(4 * most, largest)  # a few rows have enough distinct ones in most tables
        while first < n:
            rows = np.arange(first, min(first + size, n)) if order is None else order[first : first + size]
            first, size = first + size, min(2 * size, largest)
            if len(weight):
                rows = rows[weight[rows] > 0]
            if not len(rows):
                continue
            cells = [
                (numeric[rows] + 0.0).view(np.uint8).reshape(len(rows), -1),
                codes[rows].view(np.uint8).reshape(len(rows), -1),
            ]
            joined = np.ascontiguousarray(np.concatenate(cells, axis=1))
            _, positions = np.unique(
                joined.view(np.dtype((np.void, joined.shape[1]))).ravel(), return_index=True
            )
            for i in np.sort(positions):
                seen.setdefault(joined[i].tobytes(), int(rows[i]))
                if len(seen) == most:
                    return np.array(list(seen.values()), np.intp)
        return np.array(list(seen.values()), np.intp)


class Workplace:
    """Labels, moments and scratch of one start; `assign` and `move_in_order` call the kernels with them.

    `n_threads`: threads of a pass.
    """

    def __init__(self, problem: Problem, n_clusters: int, n_threads: int) -> None:
        self.problem, table = problem, problem.table
        self.threads = threads_for(
            n_threads, len(table) * (table.numeric.shape[1] + table.codes.shape[1]) * n_clusters
        )
        self.labels: Labels = np.full(len(table), -1, np.int32)
        self.groups: Integers = np.zeros((n_clusters, problem.grid.width), np.int64)
        self.partial = np.zeros((self.threads, *self.groups.shape), np.int64)
        self.scratch: Floats | None = None

    def _scratch(self, prototypes: _kernel.Prototypes) -> Floats:
        if self.scratch is None:
            self.scratch = aligned((self.threads, prototypes.scratch_size()))
        return self.scratch

    def partition(self) -> tuple[Integers, Labels]:
        """Copies of the moments of the clusters and of the cluster of every row."""
        return self.groups.copy(), self.labels.copy()

    def clear(self) -> None:
        """Take all rows out of their clusters."""
        self.labels[:] = -1
        self.groups[:] = 0

    def assign(self, prototypes: _kernel.Prototypes) -> tuple[int, float]:
        """Assign all rows to their nearest prototypes; returns (rows that moved, cost)."""
        problem, cost = self.problem, block_costs(len(self.labels))
        moved = _kernel.assign(
            problem.table.numeric,
            problem.table.codes,
            problem.weight,
            prototypes,
            self.labels,
            _NO_COST,
            cost,
            self._scratch(prototypes),
            self.partial,
            self.groups,
            self.threads,
        )
        return moved, math.fsum(cost.flat) * problem.unit

    def nearest(self, prototypes: _kernel.Prototypes) -> tuple[Labels, float]:
        """The nearest prototype of every row, and the cost; the partition stays as it is."""
        table, scratch = self.problem.table, self._scratch(prototypes)
        labels, cost = nearest(
            table.numeric, table.codes, self.problem.weight, prototypes, self.threads, scratch
        )
        return labels, cost * self.problem.unit

    def move_in_order(
        self, prototypes: _kernel.Prototypes, first_row: int, fixed: bool
    ) -> tuple[int, int, int]:
        """Rows from `first_row` on in turn; returns next row, rows that moved, emptied cluster or -1."""
        table = self.problem.table
        return _kernel.move_in_order(
            table.numeric,
            table.codes,
            self.problem.weight,
            prototypes,
            first_row,
            fixed,
            self.labels,
            self._scratch(prototypes),
            self.groups,
        )

    def move_one(self, prototypes: _kernel.Prototypes, row: int, cluster: int) -> None:
        """Move one row."""
        table = self.problem.table
        _kernel.move_one(
            table.numeric,
            table.codes,
            self.problem.weight,
            prototypes,
            row,
            cluster,
            self.labels,
            self.groups,
        )


def nearest(
    X: Array,
    codes: Array,
    weight: Integers,
    prototypes: _kernel.Prototypes,
    n_threads: int,
    scratch: Floats | None = None,
    best: Floats = _NO_COST,
) -> tuple[Labels, float]:
    """The nearest prototype of every row, and the weighted cost; `best` (n,), if given, receives costs."""
    labels: Labels = np.zeros(len(codes), np.int32)
    cost = block_costs(len(codes))
    scratch = aligned((n_threads, prototypes.scratch_size())) if scratch is None else scratch
    _kernel.assign(
        X, codes, weight, prototypes, labels, best, cost, scratch, _NO_PARTIAL, _NO_GROUPS, n_threads
    )
    return labels, math.fsum(cost.flat)


def block_costs(n: int) -> Floats:
    """Room for the cost of every block of rows, as two numbers whose sum is exact but for 2^-100 of it."""
    return np.empty((-(-n // _kernel.BLOCK), 2))


class PrototypeParts(Protocol):
    """What prototypes take from a problem or a fitted model."""

    kind: int
    gamma: float
    mean: Floats
    mode: NDArray[np.int32]

    @property
    def n_levels(self) -> Ints: ...

    @property
    def grid(self) -> Grid: ...


def some_numbers(table: MixedTable) -> Array:
    """Numbers of at most `ROWS_COMPARED` rows, spread evenly, with means in place of missing cells."""
    rows = spread(len(table), ROWS_COMPARED, 0) if len(table) > ROWS_COMPARED else slice(None)
    numbers = table.numeric[rows]
    missing = np.isnan(numbers)
    present = (~missing).sum(axis=0)
    means = np.where(missing, 0.0, numbers).sum(axis=0, dtype=np.float64) / np.maximum(present, 1)
    return np.where(missing, means, numbers)


def prototypes_of(
    parts: PrototypeParts, means: Floats, modes: NDArray[np.int32], groups: Integers | None = None
) -> _kernel.Prototypes:
    """Prototypes of a problem or a fitted model."""
    if groups is None:
        groups = np.zeros((len(means), parts.grid.width), np.int64)
    return _kernel.Prototypes(
        parts.grid, parts.n_levels, parts.kind, parts.gamma, means, modes, parts.mean, parts.mode, groups
    )


def moments_of(problem: Problem, labels: Labels, n_clusters: int) -> Moments:
    """The moments of the clusters of a partition."""
    moments = Moments.of_partition(
        problem.grid, problem.unit, problem.table, problem.weight, labels, n_clusters, problem.n_threads
    )
    return moments.select(np.arange(n_clusters))
