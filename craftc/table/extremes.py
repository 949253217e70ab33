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

    `numbers`: cells of numeric columns and of indicators, NaN where one is missing; columns with missing
    cells take no part. `kept`: columns that stay.
    """
    names = [name for name, cells in numbers.items() if is_measured(cells) or is_indicator(cells)]
    if not 3 <= len(names) <= WIDEST:
        return {}
    n = len(numbers[names[0]])
    if n < FEWEST_ROWS:
        return {}
    out: dict[str, str] = {}
    some = np.linspace(0, n - 1, min(n, _FIRST_ROWS)).astype(np.intp)
    sample = np.column_stack([np.asarray(numbers[name], np.float64)[some] for name in names])
    equal = sample[:, :, None] == sample[:, None, :]
    for words, sign in (("the largest", 1.0), ("the smallest", -1.0)):
        part_of = np.all(sign * sample[:, :, None] <= sign * sample[:, None, :], axis=0)
        np.fill_diagonal(part_of, False)
        in_every_row = np.all((equal & part_of).any(axis=1), axis=0)
        for j in np.flatnonzero(in_every_row & (part_of.sum(axis=0) > 1)).tolist():
            parts = [names[i] for i in np.flatnonzero(part_of[:, j]).tolist() if names[i] not in out]
            if names[j] in kept or names[j] in out:
                continue
            y, *x = (sign * np.asarray(numbers[name], np.float64) for name in (names[j], *parts))
            own = _parts(y, np.column_stack(x)) if x else []
            if len(own) > 1:
                which = named([parts[i] for i in own])
                out[names[j]] = f"{'any or all' if is_indicator(y) else words} of {which}"
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
