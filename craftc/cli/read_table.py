"""Readers of table files for the command line: text (CSV and similar), Parquet and Feather."""

from __future__ import annotations

import codecs
import csv
import difflib
import gzip
import io
import re
import warnings
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from craftc._common.optional import need_pandas

#: Texts of missing values in every column, and in numeric columns only (in any case).
NA_VALUES = ("", "?")
NUMERIC_NA_VALUES = ("na", "n/a", "nan", "null", "none", "-")

_TEXT_ENDINGS = (".csv", ".tsv", ".txt")
_DELIMITERS = ",;\t|"
_HEAD = 1 << 16  # bytes from which delimiter and encoding are detected
_COMMA_NUMBER = re.compile(r"[+-]?\d+(,\d+)?")
_NO_ROWS = "{} has no rows below its column names; add at least one."


class TableError(ValueError):
    """A table or a column that cannot be used; the command line prints the message."""


def read_file(path: str, as_text: Iterable[str] = ()) -> tuple[Any, list[str]]:
    """Read a .csv, .tsv or .txt file (also .gz), a .parquet or a .feather file.

    Parameters
    ----------
    path : str
    as_text : iterable of str
        Columns of a text file that are not converted to numbers ("007").

    Returns
    -------
    frame : pandas.DataFrame
    notes : list of str
        Notes about conversions.
    """
    pd = need_pandas()
    name = path.lower()
    if not Path(path).exists():
        raise TableError(f"There is no file {path!r}.{_similar_file(Path(path))}")
    if Path(path).is_dir():
        raise TableError(f"{path!r} is a folder; pass the name of a file.")
    if name.removesuffix(".gz").endswith(_TEXT_ENDINGS):
        return _read_text(path, set(as_text))
    if not name.endswith((".parquet", ".feather")):
        raise TableError(
            f"{path!r} has an unknown file extension; craftc reads .csv, .tsv and .txt (also .gz), .parquet and .feather. "
            "Save the table as .csv, for example."
        )
    try:
        frame = pd.read_parquet(path) if name.endswith(".parquet") else pd.read_feather(path)
    except (ValueError, OSError) as error:  # pyarrow's errors are among these
        raise TableError(f"{path!r} cannot be read: {error}") from error
    if frame.index.name is not None or frame.index.nlevels > 1:
        frame = frame.reset_index()
    frame.columns = [str(column) for column in frame.columns]
    if len(set(frame.columns)) < len(frame.columns):
        raise TableError(f"{path!r} has duplicate column names; rename the columns.")
    if not len(frame):
        raise TableError(_NO_ROWS.format(repr(path)))
    return frame, []


def _similar_file(path: Path) -> str:
    """A hint at files of the same folder with a similar name, or an empty string."""
    try:
        names = [other.name for other in path.parent.iterdir()]
    except OSError:
        return ""
    return did_you_mean(path.name, names)


def did_you_mean(name: str, names: Sequence[str]) -> str:
    """The hint ``" Did you mean ...?"`` with up to three similar names, or an empty string."""
    folded = {other.casefold(): other for other in reversed(names)}
    close = difflib.get_close_matches(name.casefold(), list(folded), n=3, cutoff=0.6)
    return f" Did you mean {' or '.join(repr(folded[other]) for other in close)}?" if close else ""


def _read_text(path: str, as_text: set[str]) -> tuple[Any, list[str]]:
    pd = need_pandas()
    try:
        with gzip.open(path) if path.lower().endswith(".gz") else open(path, "rb") as file:
            head = file.read(_HEAD)
    except (OSError, EOFError, zlib.error) as error:
        raise TableError(f"{path!r} cannot be read: {error}") from error
    if not head.strip():
        raise TableError(f"{path!r} is empty; the first line must contain the column names.")
    encoding = "utf-16" if head[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    if encoding != "utf-16" and b"\0" in head:
        raise TableError(f"{path!r} is not a text file; save the table as .csv, for example.")
    try:
        try:
            return _parse(path, head, encoding, as_text)
        except UnicodeDecodeError:
            frame, notes = _parse(path, head, "cp1252", as_text)
            return frame, ["The file is not UTF-8; it was read as Windows (cp1252) text.", *notes]
    except pd.errors.EmptyDataError as error:
        raise TableError(f"{path!r} is empty; the first line must contain the column names.") from error
    except (pd.errors.ParserError, pd.errors.ParserWarning) as error:
        found = re.search(r"Expected (\d+) fields in line (\d+), saw (\d+)", str(error))
        what = "line {1} has {2} cells, the lines before have {0}".format(*found.groups()) if found else "its lines differ in length"
        raise TableError(f"{path!r} cannot be read as a table: {what}.") from error
    except (OSError, EOFError, zlib.error, UnicodeError, csv.Error) as error:
        raise TableError(f"{path!r} cannot be read: {error}") from error


def _parse(path: str, head: bytes, encoding: str, as_text: set[str]) -> tuple[Any, list[str]]:
    """Parse a text file with a known encoding."""
    pd = need_pandas()
    text = codecs.getincrementaldecoder(encoding)().decode(head)  # incremental, because the last character may be incomplete
    delimiter = _delimiter(text, len(head) < _HEAD)
    notes: list[str] = []
    header = next(_records(text, delimiter), None)
    if header is None:
        raise pd.errors.EmptyDataError
    names = _distinct([cell.strip() for cell in header], notes)
    with warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)
        frame = pd.read_csv(
            path,
            sep=delimiter,
            encoding=encoding,
            names=names,
            header=0,
            index_col=False,
            keep_default_na=False,
            na_values=list(NA_VALUES),
            skipinitialspace=True,
            low_memory=False,
            dtype={name: str for name in names if name in as_text},
        )
    if not len(frame):
        raise TableError(_NO_ROWS.format(repr(path)))
    for name in names:
        if not pd.api.types.is_numeric_dtype(frame[name].dtype):
            frame[name] = _convert_text(frame[name], name in as_text, delimiter == ";", notes)
    return frame, notes


def _delimiter(text: str, whole: bool) -> str:
    """The delimiter that splits the first lines into equally many cells; of several, or of none, that with the most columns."""
    best, delimiter = (False, 1), ","
    for candidate in _DELIMITERS:
        try:
            rows = list(_records(text, candidate))
        except csv.Error:
            continue
        rows = rows[:200] if whole or len(rows) < 2 else rows[:200][:-1]
        width = len(rows[0]) if rows else 1
        rank = (all(len(row) == width for row in rows), width)
        if width > 1 and rank > best:
            best, delimiter = rank, candidate
    return delimiter


def _records(text: str, delimiter: str) -> Iterator[list[str]]:
    return (row for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter) if row)


def _distinct(names: list[str], notes: list[str]) -> list[str]:
    """Unique column names: empty names become their position, duplicates get a number."""
    out: list[str] = []
    for position, name in enumerate(names):
        new, count = name or f"column {position + 1}", 1
        while new in out:
            count += 1
            new = f"{name}.{count}"
        if name and new != name:
            notes.append(f"Several columns are named {name!r}; one was renamed to {new!r}.")
        out.append(new)
    return out


def _convert_text(column: Any, keep: bool, comma: bool, notes: list[str]) -> Any:
    """Strip a text column, and convert it to numbers if all its cells are numbers or numeric NA values."""
    pd = need_pandas()
    if not pd.api.types.is_string_dtype(column.dtype):
        return column  # booleans, possibly with missing values
    column = column.str.strip()
    column = column.mask(column.isin(NA_VALUES))
    cells = column.dropna().unique()
    if keep or not len(cells):
        return column
    missing = np.array([cell.casefold() in NUMERIC_NA_VALUES for cell in cells])
    rest = cells[~missing]
    if len(rest) and comma and all(_COMMA_NUMBER.fullmatch(cell) for cell in rest):
        notes.append(f"{column.name!r} was read as numbers with decimal commas.")
        numbers = {cell: float(cell.replace(",", ".")) for cell in rest}
    else:
        try:
            numbers = {cell: float(cell) for cell in rest if "_" not in cell}
        except ValueError:
            numbers = {}
    if len(rest) and len(numbers) == len(rest):
        return column.map(numbers).astype(float)
    if missing.any():
        levels = ", ".join(repr(cell) for cell in cells[missing])
        notes.append(f"{column.name!r} is a text column: cells {levels} are levels, not missing values.")
    return column
