"""Columns that are the largest or the smallest of other columns: the best of several tries, whether any or
all of several symptoms are there.

Like sums (:mod:`craftc.table.sums`) they count twice what is already in the table.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np
from numpy.typing import NDArray

from craftc._common.typing import Floats
from craftc.table.sums import FEWEST_ROWS, WIDEST, is_indicator, is_measured, named

_FIRST_ROWS = 64  # in which the parts of a column are looked for
_FEWEST_EACH = 5  # rows in which a part alone is the largest, at least


def extremes_of_others(
    numbers: Mapping[str, NDArray[np.floating]], kept: Collection[str] = ()
) -> dict[str, str]:
    """The columns to leave out, each with the reason: ``{"best": "the largest of 'first' and 'second'"}``.

    `numbers`: cells of numeric columns and of indicators, NaN where one is missing; `kept`: columns that
    stay.
    """
    names = [name for name, cells in numbers.items() if is_measured(cells) or is_indicator(cells)]
    if not 3 <= len(names) <= WIDEST:
        return {}
    columns = np.column_stack([np.asarray(numbers[name], np.float64) for name in names])
    present = np.all(np.isfinite(columns), axis=0)
    names, columns = [name for name, own in zip(names, present, strict=True) if own], columns[:, present]
    if len(columns) < FEWEST_ROWS:
        return {}
    out: dict[str, str] = {}
    some = np.linspace(0, len(columns) - 1, min(len(columns), _FIRST_ROWS)).astype(np.intp)
    below = np.all(columns[some, :, None] <= columns[some, None, :], axis=0)
    for words, sign in (("the largest", 1.0), ("the smallest", -1.0)):
        least = below if sign > 0.0 else below.T
        for j, name in enumerate(names):
            parts = [i for i in np.flatnonzero(least[:, j]).tolist() if i != j and names[i] not in out]
            if name in kept or name in out or len(parts) < 2:
                continue
            own = _parts(sign * columns[:, j], sign * columns[:, parts])
            if len(own) > 1:
                which = named([names[parts[i]] for i in own])
                out[name] = f"{'any or all' if is_indicator(columns[:, j]) else words} of {which}"
    return out


def _parts(y: Floats, x: Floats) -> list[int]:
    """The columns of x whose largest one is y in every row; none if there are no such columns."""
    left = np.flatnonzero((x <= y[:, None]).all(axis=0) & (x < y[:, None]).any(axis=0))
    equal = x[:, left] == y[:, None]
    if not equal.any(axis=1).all():
        return []
    for i in np.argsort(equal.sum(axis=0), kind="stable").tolist():  # the rarest first
        without = equal.copy()
        without[:, i] = False
        if without.any(axis=1).all():
            equal = without
    alone = equal[equal.sum(axis=1) == 1].sum(axis=0)
    needed = np.flatnonzero(equal.any(axis=0))
    return left[needed].tolist() if len(needed) and (alone[needed] >= _FEWEST_EACH).all() else []
