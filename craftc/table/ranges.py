"""Columns that follow from one that is left out: its ranges, as a class of the body mass index,
or its ranks.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from craftc._common.messages import quoted
from craftc._common.typing import Floats
from craftc.table.sums import FEWEST_ROWS, is_measured

_MOST_RANGES, _FEWEST_EACH = 20, 5  # of a column, and rows in each
_MISPLACED = 0.01  # share of the rows in another range, at most: the column was rounded after it was divided
_RANKED = 0.999  # least correlation of the ranks of a copy on another scale


def follow_from(
    derived: Mapping[str, str],
    numbers: Mapping[str, NDArray[np.floating]],
    codes: Mapping[str, NDArray[np.integer]],
    kept: Collection[str] = (),
) -> dict[str, str]:
    """The columns to leave out with the columns `derived`, whose reasons name the columns from which they
    follow and which stay, each with the reason: ``{"class": "ranges of 'bmi'"}``.

    `numbers`: cells of numeric columns, NaN where one is missing; `codes`: of categorical columns, -1 for a
    missing cell; `kept`: columns that stay.
    """
    gone = [name for name in derived if is_measured(numbers[name])]
    out: dict[str, str] = {}
    for name in gone:
        x = np.asarray(numbers[name], np.float64)
        for other in {**numbers, **codes}:
            if other in (*gone, *kept, *out) or quoted(other) in derived[name]:
                continue
            if other in codes and _are_ranges(x, codes[other]):
                out[other] = f"ranges of {quoted(name)}"
            elif other in numbers and _is_ranked(x, np.asarray(numbers[other], np.float64)):
                out[other] = f"{quoted(name)} on another scale"
    return out


def _are_ranges(x: Floats, codes: NDArray[np.integer]) -> bool:
    """Whether each code is that of a range of the numbers x."""
    present = ~np.isnan(x) & (codes >= 0)
    x, codes = x[present], codes[present]
    used, codes, counts = np.unique(codes, return_inverse=True, return_counts=True)
    if not 2 <= len(used) <= _MOST_RANGES or len(x) < FEWEST_ROWS or counts.min() < _FEWEST_EACH:
        return False
    middles = np.array([np.median(x[codes == code]) for code in range(len(used))])
    order = np.argsort(middles, kind="stable")
    parts = [x[codes == code] for code in order]
    cuts = [
        (np.quantile(low, 1.0 - _MISPLACED) + np.quantile(high, _MISPLACED)) / 2.0
        for low, high in pairwise(parts)
    ]
    if (np.diff(cuts) <= 0.0).any():
        return False
    rank = np.argsort(order)[codes]
    return bool((np.searchsorted(cuts, x) != rank).mean() <= _MISPLACED)


def _is_ranked(x: Floats, y: Floats) -> bool:
    """Whether y ranks the rows as x does, or in reverse."""
    present = ~np.isnan(x) & ~np.isnan(y)
    x, y = x[present], y[present]
    if len(x) < FEWEST_ROWS or not is_measured(x) or not is_measured(y):
        return False
    ranks = np.vstack([np.unique(cells, return_inverse=True)[1] for cells in (x, y)])
    steps = np.diff(y[np.lexsort((y, x))])
    against = min((steps < 0.0).mean(), (steps > 0.0).mean())
    return bool(abs(float(np.asarray(np.corrcoef(ranks))[0, 1])) >= _RANKED and against <= _MISPLACED)
