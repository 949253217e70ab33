"""Cells of columns and of lines whose meaning is not known yet."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from craftc._common.messages import need_pandas
from craftc._common.typing import Bits, Floats, Ints
from craftc.reading.cells import NA_VALUES, as_number
from craftc.table.kinds import is_absent

if TYPE_CHECKING:
    import pandas as pd

LOOKED_AT = 200  # rows that show what columns hold
_ROUNDING = 1e-6
_FORMULA = re.compile(r'="(.*)"', re.DOTALL)  # of a text, so that a spreadsheet keeps it


def coded(column: pd.Series) -> tuple[Ints, list[object]]:
    """Codes of the cells, -1 for missing ones, and the distinct cells."""
    try:
        codes, cells = need_pandas().factorize(column)
    except TypeError:  # lists
        codes, cells = need_pandas().factorize(column.map(str, na_action="ignore"))
    return codes, list(cells)


def is_blank(column: pd.Series) -> Bits:
    """Which cells of a column are empty."""
    blank = column.isna().to_numpy(bool)
    if column.dtype == object or need_pandas().api.types.is_string_dtype(column.dtype):
        codes, texts = coded(column)
        is_na = [isinstance(text, str) and text.strip() in NA_VALUES for text in texts]
        blank = blank | np.array([*is_na, True])[codes]
    result: Bits = blank
    return result


def filled_cells(row: pd.Series) -> list[tuple[int, str]]:
    """The filled cells of a row: position and text."""
    cells = [(j, "" if is_absent(cell) else str(cell).strip()) for j, cell in enumerate(row.tolist())]
    return [(j, cell) for j, cell in cells if cell not in NA_VALUES]


def occurs(text: str, column: pd.Series) -> bool:
    return bool((column.astype(object).map(lambda cell: str(cell).strip(), na_action="ignore") == text).any())


def numbers_in(column: pd.Series) -> Floats | None:
    """The numbers of a column; None if some cells are none."""
    values, others = numbers_and_others(column)
    if others.any():
        return None
    present: Floats = values[np.isfinite(values)]
    return present


def numbers_and_others(column: pd.Series) -> tuple[Floats, Bits]:
    """The number of each cell, NaN where it is none, and which cells hold something else."""
    if need_pandas().api.types.is_numeric_dtype(column.dtype):
        return column.to_numpy(np.float64, na_value=np.nan), np.zeros(len(column), bool)
    codes, cells = coded(column)
    texts = ["" if is_absent(cell) else str(cell).strip() for cell in cells]
    numbers = [None if text in NA_VALUES else as_number(text) for text in texts]
    is_other = [number is None and text not in NA_VALUES for number, text in zip(numbers, texts, strict=True)]
    values = np.array([*(np.nan if number is None else number for number in numbers), np.nan])
    return values[codes], np.array([*is_other, False])[codes]


def is_close(a: float, b: float) -> bool:
    return abs(a - b) <= max(_ROUNDING * abs(b), 0.011)


def without_formula(cell: str) -> str:
    """The text of a formula that is one text, ``="007"``; any other cell as it is."""
    found = _FORMULA.fullmatch(cell)
    return cell if found is None else found[1]
