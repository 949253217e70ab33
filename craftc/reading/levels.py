"""Categorical columns of texts and of numbers that are codes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from craftc._common.messages import as_text, need_pandas
from craftc._common.typing import Floats, Integers
from craftc.reading.cells import MAX_INTEGER_CODES

if TYPE_CHECKING:
    import pandas as pd

_FEWEST_ITEMS = 5  # columns of a scale that have all of its answers
_LARGEST_TICK = 99.0  # number of an answer next to blank cells; larger ones, such as years, are constants


def text_levels(codes: NDArray[np.intp], texts: list[str]) -> pd.Categorical:
    """A categorical column whose cells have these codes into the texts, -1 for a missing one."""
    order = sorted(range(len(texts)), key=texts.__getitem__)
    rank = np.empty(len(texts) + 1, np.intp)
    rank[order], rank[-1] = np.arange(len(texts)), -1
    levels = [texts[i] for i in order]
    cells: pd.Categorical = need_pandas().Categorical.from_codes(rank[codes], categories=levels)
    return cells


def number_levels(values: Floats) -> pd.Categorical:
    """A categorical column of numbers, NaN for a missing one."""
    distinct = np.unique(values[~np.isnan(values)])
    codes = np.where(np.isnan(values), -1, np.searchsorted(distinct, values))
    levels = [as_text(value) for value in distinct]
    cells: pd.Categorical = need_pandas().Categorical.from_codes(codes, categories=levels)
    return cells


def are_codes(distinct: Floats, counts: Integers, n_rows: int, *, ticks: bool) -> bool:
    """Whether whole numbers are codes of categories: at most five different ones, in two rows each on
    average. `ticks`: whether blank cells next to a single 1 are none, so that one row is enough.
    """
    present = int(counts.sum())
    if len(distinct) == 1 and present < n_rows:
        (number,) = distinct.tolist()
        return abs(number) <= _LARGEST_TICK and (present > 1 or (ticks and number == 1.0))
    return len(distinct) <= MAX_INTEGER_CODES and 2 * len(distinct) <= present


def items_of_scales(columns: Mapping[str, pd.Series]) -> dict[tuple[int, int], dict[str, pd.Series]]:
    """The numbers of the items of questionnaires among columns of codes, by the ends of their scale: at least
    five columns with the same five consecutive numbers, and columns with all but one of these. The order of
    other codes is not known.
    """
    levels = {name: column.cat.categories for name, column in columns.items()}
    values = {  # ticked boxes have fewer levels, which may be words
        name: np.array(own, np.float64) for name, own in levels.items() if len(own) >= MAX_INTEGER_CODES - 1
    }
    whole = [(int(own.min()), int(own.max())) for own in values.values() if len(own) == MAX_INTEGER_CODES]
    out: dict[tuple[int, int], dict[str, pd.Series]] = {}
    for low, high in dict.fromkeys(whole):
        if high - low != MAX_INTEGER_CODES - 1 or whole.count((low, high)) < _FEWEST_ITEMS:
            continue
        out[low, high] = {
            name: columns[name].astype(object).map(float, na_action="ignore").astype(np.float64)
            for name, own in values.items()
            if low <= own.min() and own.max() <= high
        }
        values = {name: own for name, own in values.items() if name not in out[low, high]}
    return out
