"""Distinct values of numeric columns with their weights, in little memory, and the bins into which they are
cut: levels of about equal shares, in which frequent values stand alone, and which no gap between groups
crosses.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from craftc._common.random import TableStream, spread
from craftc._common.typing import Floats, Integers

#: Distinct observed values of a column, ascending, and the integer weight of each.
Tally: TypeAlias = "tuple[NDArray[Any], NDArray[Any]]"
_FEW_VALUES = 1 << 10  # distinct values that a sample shows of a column that is tallied exactly
#: Rows of a table above which a sample of as many represents a column of many values.
SAMPLED_ABOVE = 1 << 18
#: Rows of a slice, which stays in the cache of a processor.
SLICE_ROWS = 1 << 15
#: Distinct values that are all levels, and bins of a column of more.
N_BINS = 64
MAX_LEVELS = 254  # of a column; with the missing level, codes are bytes
_FEWEST_BESIDE = 6  # values of the levels on both sides of a gap that divides a level


def tally(cells: NDArray[Any], weight: Integers | None) -> tuple[NDArray[Any], NDArray[Any]]:
    """Distinct observed values of rows with weight > 0, ascending, and the integer weight of each.

    Values keep the type of the cells, and counts of rows are 32-bit integers where these suffice: a long
    column has a million of them.
    """
    present = cells == cells
    if weight is not None:
        present &= weight > 0
    cells = cells[present]  # a copy
    if weight is None:
        del present
        cells.sort()
        return _runs(cells)
    order = np.argsort(cells)
    cells, weight = cells[order], weight[present][order]
    if not len(cells):
        return np.empty(0), np.empty(0, np.int64)
    first = np.flatnonzero(np.concatenate([[True], cells[1:] != cells[:-1]]))
    return cells[first] + 0.0, np.add.reduceat(weight, first)  # + 0.0 turns -0.0 into 0.0


def _runs(cells: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Distinct values of sorted cells and their numbers; by slices, the values in place of the cells."""
    n, m = len(cells), 0
    if not n:
        return np.empty(0), np.empty(0, np.int64)
    first: NDArray[np.signedinteger[Any]] = np.empty(
        n + 1, np.int32 if n <= np.iinfo(np.int32).max else np.int64
    )
    last = np.nan
    for start in range(0, n, SLICE_ROWS):
        part = cells[start : start + SLICE_ROWS]
        new = np.flatnonzero(np.concatenate([[part[0] != last], part[1:] != part[:-1]]))
        last, stop = part[-1], m + len(new)
        first[m:stop] = start + new
        cells[m:stop] = part[new]
        m = stop
    first[m] = n
    for start in range(0, m, SLICE_ROWS):
        rows = slice(start, min(start + SLICE_ROWS, m))
        first[rows] = first[rows.start + 1 : rows.stop + 1] - first[rows]
    values, counts = cells[:m], first[:m]
    values += 0.0  # turns -0.0 into 0.0
    return values, counts


def may_be_few(values: NDArray[Any]) -> bool:
    """Whether a sample shows so few distinct values that the column is tallied exactly."""
    return len(values) <= _FEW_VALUES


def few_values(cells: NDArray[Any], weight: Integers | None) -> tuple[NDArray[Any], NDArray[Any]] | None:
    """The exact tally of a column by slices; None if it has many distinct values."""
    slices = (slice(start, start + SLICE_ROWS) for start in range(0, len(cells), SLICE_ROWS))
    return joined_tally(tally(cells[part], None if weight is None else weight[part]) for part in slices)


def joined_tally(
    tallies: Iterable[tuple[NDArray[Any], NDArray[Any]] | None],
) -> tuple[NDArray[Any], NDArray[Any]] | None:
    """The tally of several parts of a column; None if there are many distinct values."""
    total: dict[float, int] = {}
    for part in tallies:
        if part is None:
            return None
        for value, count in zip(part[0].tolist(), part[1].tolist(), strict=True):
            total[value] = total.get(value, 0) + count
        if len(total) > 2 * _FEW_VALUES:
            return None
    values = np.array(sorted(total))
    return values, np.array([total[value] for value in values.tolist()], np.int64)


def sampled_rows(n: int) -> NDArray[np.intp]:
    """The rows that represent a column of n > 2^18 rows: shares to about .001."""
    rows: NDArray[np.intp] = spread(n, min(n, SAMPLED_ABOVE), 0, TableStream.QUANTILE_SAMPLE)
    return rows


def table_tally(cells: NDArray[Any], weight: Integers | None) -> tuple[NDArray[Any], NDArray[Any]]:
    """The tally of a column; that of a sample of 2^18 rows of a long column, unless its values are few."""
    if len(cells) <= SAMPLED_ABOVE:
        return tally(cells, weight)
    if weight is None:
        sample = tally(cells[sampled_rows(len(cells))], None)
    else:
        counted = np.flatnonzero(weight)
        rows = counted[sampled_rows(len(counted))]
        sample = tally(cells[rows], weight[rows])
    return (few_values(cells, weight) if may_be_few(sample[0]) else None) or sample


def levels_of(values: Floats, counts: Integers) -> NDArray[np.intp]:
    """(m,) the level of each of the distinct values of a column."""
    n_bins, most = N_BINS, len(values)
    if most <= n_bins:
        return np.arange(most)
    total = int(counts.sum())
    while True:
        frequent = counts * n_bins >= total
        run = np.cumsum(frequent)  # values between two frequent ones have one number
        others = np.where(frequent, 0, counts)
        mass = np.bincount(run, others).astype(np.int64)  # whole numbers below 2^53
        smaller = np.cumsum(others) - counts - (np.cumsum(mass) - mass)[run]
        bins = np.maximum(np.rint(n_bins * mass / total), 1.0).astype(np.int64)[run]
        # of every value: its mid share of the run, in bins
        at = np.minimum((2 * smaller + counts) * bins // np.maximum(2 * mass[run], 1), bins - 1)
        changes = frequent[1:] | frequent[:-1] | (run[1:] != run[:-1]) | (at[1:] != at[:-1])
        level = np.concatenate([[0], np.cumsum(changes)])
        level += _gaps_before(values, level)
        if level[-1] < MAX_LEVELS:
            return level
        n_bins //= 2


def _gaps_before(values: Floats, level: NDArray[np.intp]) -> NDArray[np.intp]:
    """(m,) number of gaps below every one of the ascending values that divide one of these levels: a gap that
    is wider than the distance from either of its ends to the far end of the next level, if the levels on both
    sides have 6 values or more, so that it is seldom by chance.

    The mean of the cells on both sides of a gap lies in the gap, where no group has any.
    """
    first = np.flatnonzero(np.diff(level, prepend=-1))
    last = np.append(first[1:], len(level)) - 1
    half = values / 2  # differences of numbers of different signs do not overflow
    gap = np.diff(half, append=half[-1])
    gap[last] = 0.0
    widest, span = np.maximum.reduceat(gap, first), half[last] - half[first]
    span[last - first < _FEWEST_BESIDE - 1] = np.inf
    out = np.zeros(len(level), np.intp)
    for i in 1 + np.flatnonzero(widest[1:-1] > np.maximum(span[:-2], span[2:])):
        end = int(first[i] + gap[first[i] : last[i]].argmax())
        below, above = half[end] - half[first[i - 1]], half[last[i + 1]] - half[end + 1]
        out[end + 1 :] += bool(widest[i] > max(below, above))
    return out
