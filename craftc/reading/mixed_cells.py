"""Columns of a spreadsheet that hold numbers and, among them, texts of numbers with decimal commas."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from craftc._common.messages import as_text, need_pandas
from craftc._common.typing import Floats
from craftc.reading.cells import ALIKE, THOUSANDS, as_number_with_comma, certain_mark

if TYPE_CHECKING:
    import pandas as pd


def with_decimal_points(column: pd.Series) -> tuple[pd.Series, str]:
    """The column with its texts of numbers as Python writes them, and what was read, in words: "" if it has
    no numbers or no texts with decimal commas.
    """
    if need_pandas().api.types.infer_dtype(column, skipna=True) not in ("mixed", "mixed-integer"):
        return column, ""
    cells = column.dropna().tolist()
    texts = [*{cell.strip(): None for cell in cells if isinstance(cell, str)}]
    numbers = [float(cell) for cell in cells if isinstance(cell, int | float) and not isinstance(cell, bool)]
    if not texts or not numbers or not _have_commas(texts, np.array(numbers)):
        return column, ""
    plain = {text: as_number_with_comma(text) for text in texts}
    shown = next((text for text, number in plain.items() if number is not None and "." in text), "")
    read = {text: as_text(number) for text, number in plain.items() if number is not None}
    column = column.map(lambda cell: read.get(cell.strip(), cell) if isinstance(cell, str) else cell)
    example = f"texts such as {shown or texts[0]!r} among its numbers"
    return column, f"{example} have decimal commas (decimal='.' takes their dots as decimal points)"


def _have_commas(texts: Sequence[str], numbers: Floats) -> bool:
    """Whether texts have decimal commas: some show one, or all their dots are between thousands, as the size
    of the numbers next to them shows.
    """
    if mark := certain_mark(texts):
        return mark == ","
    dotted = [text for text in texts if "." in text]
    if not dotted or not all(THOUSANDS["."].fullmatch(text) for text in dotted):
        return False
    size = float(np.median(np.abs(numbers)))
    read = float(np.median([float(text.replace(".", "")) for text in dotted]))
    return size <= ALIKE * read and read <= ALIKE * size
