"""Text of results that other programs read: CSV without the traps of spreadsheets."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import IO, TYPE_CHECKING, cast

from craftc._common.messages import need_pandas

if TYPE_CHECKING:
    import pandas as pd

_FORMULAS = tuple("=+-@\t\r\n＝＋－＠")  # first characters; spreadsheets normalise the wide ones
_CRLF = "\r\n"

Write = Callable[["pd.DataFrame"], None]


def without_formulas(frame: pd.DataFrame) -> pd.DataFrame:
    """A frame with an apostrophe before names and texts that a spreadsheet would take as formulas."""
    is_numeric = need_pandas().api.types.is_numeric_dtype
    columns = {
        _no_formula(name): column if is_numeric(column.dtype) else column.map(_no_formula, na_action="ignore")
        for name, column in frame.items()
    }
    escaped: pd.DataFrame = need_pandas().DataFrame(columns, index=frame.index)
    return escaped


def _no_formula(cell: object) -> object:
    if not isinstance(cell, str) or not cell.startswith(_FORMULAS):
        return cell
    try:
        float(cell)
    except ValueError:
        return f"'{cell}"
    return cell


class _Lines:
    """Replaces the CR LF of lines by LF: the module csv quotes CR and LF in cells only if both end lines."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file

    def write(self, line: str) -> None:
        self._file.write(f"{line.removesuffix(_CRLF)}\n")


def csv_writer(file: IO[str]) -> Write:
    """A function that adds frames with the same columns to a file as CSV; numbers read back to the same
    bits.
    """
    lines = cast("IO[str]", _Lines(file))  # pandas calls write alone, its stubs want a whole file
    header = True

    def write(frame: pd.DataFrame) -> None:
        nonlocal header
        frame.to_csv(lines, index=False, header=header, lineterminator=_CRLF)
        header = False

    return write


def write_csv(frames: Iterable[pd.DataFrame], file: IO[str]) -> None:
    """Write frames with the same columns one after the other as CSV."""
    write = csv_writer(file)
    for frame in frames:
        write(frame)
