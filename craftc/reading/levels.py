"""Categorical columns of texts and of numbers that are codes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from craftc._common.messages import as_text, need_pandas
from craftc._common.typing import Floats

if TYPE_CHECKING:
    import pandas as pd


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
