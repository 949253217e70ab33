"""Columns whose numbers have several forms: dots that could separate thousands, and numbers of a spreadsheet
next to texts with decimal commas, or next to dates.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from typing import TYPE_CHECKING

import numpy as np

from craftc._common.messages import as_text, need_pandas
from craftc._common.typing import Floats, Integers
from craftc.reading.cells import (
    ALIKE,
    SEPARATED,
    Numbers,
    as_number_with_comma,
    certain_mark,
    dressed,
    is_number,
    parse_numbers,
)

if TYPE_CHECKING:
    import pandas as pd

#: Whole numbers with dots between thousands.
THOUSANDS = re.compile(r"[1-9]\d{0,2}(?:\.\d{3})+")
_SURELY = 44  # numbers that all have three digits behind a dot: decimal ones hardly ever do, .9^44 = .01
_DAY_0 = "1899-12-30"  # of a spreadsheet
_FIRST_DAY, _LAST_DAY = 7_306, 73_415  # days of 1920 to 2100


def with_thousands(
    numbers: Numbers, texts: Sequence[str], counts: Integers, semicolons: bool, pointless: bool
) -> Numbers:
    """Numbers whose dots could separate thousands, and a change that says whether they do.

    They do in a table without decimal points, `pointless`, if 44 different ones or more have three digits
    behind the dot and others have no dot: of decimal numbers one in ten would end in zero, and be shorter.
    """
    if numbers.mark != "." or not _have_thousands(_bodies(texts), semicolons):
        return numbers
    dotted = ["." in body for body in _bodies(texts)]
    if pointless and _SURELY <= sum(dotted) < len(dotted):
        read = parse_numbers(
            texts, counts, semicolons=semicolons, forced=True, point=",", unsigned=numbers.unsigned
        )
        if read is not None:
            read.changes = [each for each in read.changes if each != SEPARATED]
            read.changes.append("dots separate thousands (decimal='.' takes them as decimal points)")
            return read
    numbers.changes.append(
        "dots are decimal points, although they could separate thousands (decimal=',' takes them so)"
    )
    return numbers


def _bodies(texts: Sequence[str]) -> Iterator[str]:
    """The digits and marks of the texts that are numbers, without sign and unit."""
    for text in texts:
        if (found := dressed(text)) is not None:
            yield found["body"]


def _have_thousands(bodies: Iterable[str], semicolons: bool) -> bool:
    """Whether all could be whole numbers, with dots between thousands in some, but not in all unless
    semicolons separate the cells. It stops at the first that could not be one.
    """
    n = dotted = 0
    for body in bodies:
        if not (THOUSANDS.fullmatch(body) if "." in body else body.isdecimal()):
            return False
        n, dotted = n + 1, dotted + ("." in body)
    return 0 < dotted < n + semicolons


def with_cells_of_one_kind(column: pd.Series, kind: str, decimal: str) -> tuple[pd.Series, str]:
    """A column of mixed cells with numbers of days as dates, or with texts of numbers as Python writes them;
    and what was read, in words, "" if nothing. `kind`: of the cells, as pandas infers it; `decimal`: "infer",
    or the decimal mark that was asked for.
    """
    if kind not in ("mixed", "mixed-integer"):
        return column, ""
    cells = column.dropna().tolist()
    numbers = np.array([float(cell) for cell in cells if is_number(cell)])
    if not len(numbers):
        return column, ""
    if 2 * sum(isinstance(cell, date) for cell in cells) > len(cells):
        are_days = bool(((numbers >= _FIRST_DAY) & (numbers <= _LAST_DAY)).all())
        return _with_dates(column, numbers) if are_days else (column, "")
    texts = [*{cell.strip(): None for cell in cells if isinstance(cell, str)}]
    if texts and decimal == "infer" and _have_commas(texts, numbers):
        return _with_points(column, texts)
    return column, ""


def with_unit(column: pd.Series, unit: str) -> pd.Series:
    """A column with its numbers, which a sheet shows with this unit, as texts with it."""
    return column.map(lambda cell: f"{as_text(cell)}{unit}" if is_number(cell) else cell)


def _with_dates(column: pd.Series, days: Floats) -> tuple[pd.Series, str]:
    """A column with its numbers, days of a spreadsheet, as dates."""
    pd = need_pandas()
    dates = column.map(
        lambda cell: pd.Timestamp(_DAY_0) + pd.Timedelta(days=cell) if is_number(cell) else cell
    )
    return dates, f"numbers such as {as_text(days[0])} among its dates are days of a spreadsheet"


def _with_points(column: pd.Series, texts: Sequence[str]) -> tuple[pd.Series, str]:
    """A column with its texts of numbers, which have decimal commas, as Python writes them."""
    read = {text: as_text(number) for text in texts if (number := as_number_with_comma(text)) is not None}
    plain = column.map(lambda cell: read.get(cell.strip(), cell) if isinstance(cell, str) else cell)
    example = f"texts such as {next((text for text in read if '.' in text), texts[0])!r} among its numbers"
    return plain, f"{example} have decimal commas (decimal='.' takes their dots as decimal points)"


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
