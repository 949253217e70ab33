"""Columns of a spreadsheet in which numbers stand next to texts with decimal commas, or next to dates."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import TYPE_CHECKING

import numpy as np

from craftc._common.messages import as_text, need_pandas
from craftc._common.typing import Floats
from craftc.reading.cells import ALIKE, as_number_with_comma, certain_mark
from craftc.reading.thousands import THOUSANDS

if TYPE_CHECKING:
    import pandas as pd

_DAY_0 = "1899-12-30"  # of a spreadsheet
_FIRST_DAY, _LAST_DAY = 7_306, 73_415  # days of 1920 to 2100


def with_cells_of_one_kind(column: pd.Series, kind: str, decimal: str) -> tuple[pd.Series, str]:
    """A column of mixed cells with numbers of days as dates, or with texts of numbers as Python writes them;
    and what was read, in words, "" if nothing. `kind`: of the cells, as pandas infers it; `decimal`: "infer",
    or the decimal mark that was asked for.
    """
    if kind not in ("mixed", "mixed-integer"):
        return column, ""
    cells = column.dropna().tolist()
    numbers = np.array([float(cell) for cell in cells if _is_number(cell)])
    if not len(numbers):
        return column, ""
    if 2 * sum(isinstance(cell, date) for cell in cells) > len(cells):
        are_days = bool(((numbers >= _FIRST_DAY) & (numbers <= _LAST_DAY)).all())
        return _with_dates(column, numbers) if are_days else (column, "")
    texts = [*{cell.strip(): None for cell in cells if isinstance(cell, str)}]
    if texts and decimal == "infer" and _have_commas(texts, numbers):
        return _with_points(column, texts)
    return column, ""


def _with_dates(column: pd.Series, days: Floats) -> tuple[pd.Series, str]:
    """A column with its numbers, days of a spreadsheet, as dates."""
    pd = need_pandas()
    dates = column.map(
        lambda cell: pd.Timestamp(_DAY_0) + pd.Timedelta(days=cell) if _is_number(cell) else cell
    )
    return dates, f"numbers such as {as_text(days[0])} among its dates are days of a spreadsheet"


def _with_points(column: pd.Series, texts: Sequence[str]) -> tuple[pd.Series, str]:
    """A column with its texts of numbers, which have decimal commas, as Python writes them."""
    read = {text: as_text(number) for text in texts if (number := as_number_with_comma(text)) is not None}
    plain = column.map(lambda cell: read.get(cell.strip(), cell) if isinstance(cell, str) else cell)
    example = f"texts such as {next((text for text in read if '.' in text), texts[0])!r} among its numbers"
    return plain, f"{example} have decimal commas (decimal='.' takes their dots as decimal points)"


def _is_number(cell: object) -> bool:
    return isinstance(cell, int | float) and not isinstance(cell, bool)


def _have_commas(texts: Sequence[str], numbers: Floats) -> bool:
    """Whether texts have decimal commas: some show one, or all their dots are between thousands, as the size
    of the numbers next to them shows.
    """
    if mark := certain_mark(texts):
        return mark == ","
    dotted = [text for text in texts if "." in text]
    if not dotted or not all(THOUSANDS.fullmatch(text) for text in dotted):
        return False
    size = float(np.median(np.abs(numbers)))
    read = float(np.median([float(text.replace(".", "")) for text in dotted]))
    return size <= ALIKE * read and read <= ALIKE * size
