"""Columns that are coarser copies of numbers: an age group of the age, a class of the income.

Each value of such a column is a range of the number, and the number has neither a gap nor a valley between
two ranges; groups of rows whose numbers are apart leave both. The link of the two saves all that the coarser
column costs, at the price of its cuts. The formula for normal scores would see a part of it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from craftc._common.typing import Floats
from craftc.table.levels import LevelEncoding

ROWS = 4000  # in which copies are looked for
_FIRST = 60  # rows that rule out most columns
_FEWEST, _FEWEST_EACH = 30, 5  # rows with both values, and rows of the second most frequent value
_FINER = 3  # levels of the number for each value of its copy, at least
_LEVELS = 10  # of the number, at least
_GAP, _NEAR = 3.0, 5  # largest distance at a cut, in the median one of that many levels on each side
_VALLEY = 0.75  # rows between two ranges, as a share of those on the sparser side, at least
_MOST_COLUMNS = 512


def step_columns(encoding: LevelEncoding, codes: NDArray[np.integer]) -> list[tuple[int, int]]:
    """Pairs of input columns: a number, and a coarser copy of it. `codes` (n, D) of encoded rows."""
    schema = encoding.input_schema
    if codes.shape[1] > _MOST_COLUMNS or len(codes) < _FEWEST:
        return []
    cells: NDArray[np.intp] = codes[:: max(1, len(codes) // ROWS)].astype(np.intp)
    each = zip(schema.numeric_index.tolist(), encoding.numbers, strict=True)
    values = {j: own.values for j, own in each if not own.period}
    n_levels = encoding.schema.n_levels
    some = cells[np.linspace(0, len(cells) - 1, _FIRST).astype(np.intp)]
    found = []
    for a, own in values.items():
        if len(own) < _LEVELS:
            continue
        coarser = np.flatnonzero((n_levels >= 2) & (n_levels * _FINER <= len(own)))
        sorted_rows = some[np.argsort(some[:, a], kind="stable")][:, coarser]
        changes = (sorted_rows[1:] != sorted_rows[:-1]).sum(axis=0)
        for b in coarser[changes <= 2 * n_levels[coarser]].tolist():
            if b != a and _is_copy(cells[:, a], cells[:, b], own, int(n_levels[b])):
                found.append((a, b))
    return found


def _is_copy(a: NDArray[np.intp], b: NDArray[np.intp], values: Floats, n: int) -> bool:
    """Whether each of the `n` values of b is a range of the number whose levels a have these values."""
    present = (a < len(values)) & (b < n)
    table = np.bincount(a[present] * n + b[present], minlength=len(values) * n).reshape(len(values), n)
    of_b = np.sort(table.sum(axis=0))
    used = np.flatnonzero(table.sum(axis=1))
    if present.sum() < _FEWEST or of_b[-2] < _FEWEST_EACH or len(used) < _LEVELS:
        return False
    table = table[used]
    range_of = table.argmax(axis=1)
    cuts = np.flatnonzero(np.diff(range_of))
    if len(cuts) != (of_b > 0).sum() - 1 or len(set(range_of.tolist())) != len(cuts) + 1:
        return False
    mixed = np.flatnonzero((table > 0).sum(axis=1) > 1)  # intervals that a cut divides
    if not all((np.abs(cuts - level) <= 1).any() for level in mixed.tolist()):
        return False
    steps, last = np.diff(values[used]), np.cumsum(table.sum(axis=1))
    rows = np.repeat(values[used], table.sum(axis=1))  # in order
    ends = [0, *last[cuts].tolist(), len(rows)]
    return all(
        steps[cut] <= _GAP * np.median(steps[max(0, cut - _NEAR) : cut + _NEAR + 1])
        and not _is_valley(rows[start:stop], rows[end - 1])
        for cut, start, end, stop in zip(cuts, ends, ends[1:], ends[2:], strict=False)
    )


def _is_valley(rows: Floats, highest: float) -> bool:
    """Whether numbers of two ranges are rare between their medians; the lower range ends at `highest`."""
    low, high = np.median(rows[rows <= highest]), np.median(rows[rows > highest])
    counts, _ = np.histogram(rows, np.linspace(low, high, 4))
    fewer = min(counts[0], counts[2]) - counts[1]
    return bool(
        counts[1] < _VALLEY * min(counts[0], counts[2]) and fewer > 3.0 * np.sqrt(fewer + 2.0 * counts[1])
    )
