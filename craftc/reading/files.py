"""Readers of table files: the content decides format and compression; nothing is executed or fetched."""

from __future__ import annotations

import codecs
import csv
import io
import json
import lzma
import os
import re
import warnings
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Literal, TypeAlias

from craftc._common.messages import as_text, listed, need_pandas, quoted
from craftc.reading.cells import DATE, NA_VALUES, NUMERIC_NA_VALUES, as_number
from craftc.reading.input_file import (
    COLUMNAR,
    HEAD,
    OLD_EXCEL,
    SHEETS_ONLY,
    UTF_16,
    ZIP,
    InputFile,
    TableError,
    find_file,
)

if TYPE_CHECKING:
    import pandas as pd

#: Whether the first line of a file holds the column names.
Header: TypeAlias = Literal["infer"] | bool

_DELIMITERS = ",;\t|"
_HEAD_ROWS = 200  # records that show delimiter and header
_FEWEST_ROWS = 10  # records that are looked at, however long they are
_LONGEST_HEAD = 1 << 27  # bytes within which these records must end
_NO_ROWS = "{} has no rows below its column names; add at least one."
_EMPTY = "{} is empty; the first line must contain the column names."

_PROBLEMS = (
    OSError,
    EOFError,
    zlib.error,
    lzma.LZMAError,
    zipfile.BadZipFile,
    RuntimeError,
    NotImplementedError,
    UnicodeError,
    csv.Error,
)
_NOT_OF_THE_FILE = (MemoryError, ImportError)


@dataclass
class RawTable:
    """A table as its file has it: text columns of a text file, typed columns of other formats."""

    frame: pd.DataFrame
    notes: list[str] = field(default_factory=list)
    semicolons: bool = False  # cells are separated by semicolons, so that a comma is rather a decimal comma


def read_file(path: str | os.PathLike[str], *, header: Header = "infer", skip: int = 0) -> RawTable:
    """Read a table file, without interpreting its cells.

    `path`: "-": standard input. The content decides the format: delimited text, JSON lines, an array of
    JSON objects, Excel (.xlsx), Parquet, Feather; each also compressed (gzip, bzip2, xz, a zip archive
    with one file). `header` {"infer", True, False}: whether the first line holds the column names.
    `skip`: number of lines before the table.

    Raises TableError: there is no such file, or it is not a table. Raises ImportError: a package that
    reads this format is missing.
    """
    file = find_file(os.fspath(path))
    try:
        head = file.head()
        if not head.strip():
            raise TableError(_EMPTY.format(file.shown))
        table = _read(file, head, header, skip)
    except _PROBLEMS as error:
        raise TableError(_unreadable(file, error)) from error
    names = list(table.frame.columns)
    if len(set(names)) < len(names):
        raise TableError(f"{file.shown} has duplicate column names; rename the columns.")
    if not len(table.frame):
        raise TableError(_NO_ROWS.format(file.shown))
    return table


def _unreadable(file: InputFile, error: Exception) -> str:
    return f"{file.shown} cannot be read: {str(error).rstrip('.') or type(error).__name__}."


def _read(file: InputFile, head: bytes, header: Header, skip: int) -> RawTable:
    """Read a file by the format that its first bytes show."""
    if head.startswith(COLUMNAR):
        return _read_columnar(file, head)
    if head.startswith(ZIP):
        return _read_excel(file, header, skip)
    if head.startswith(OLD_EXCEL):
        raise TableError(SHEETS_ONLY.format(file.shown, "an Excel file of the format before 2007 (.xls)"))
    encoding = "utf-16" if head.startswith(UTF_16) else "utf-8-sig"
    read = _read_json if _is_json(head) else _read_text
    try:
        return read(file, head, encoding, header, skip)
    except UnicodeDecodeError:
        table = read(file, head, "cp1252", header, skip)
        table.notes.insert(0, "The file is not UTF-8; it was read as Windows (cp1252) text.")
        return table


def _read_columnar(file: InputFile, head: bytes) -> RawTable:
    pd = need_pandas()
    try:
        with file.opened() as opened:
            content = io.BytesIO(opened.read()) if file.packings or file.data is not None else file.path
        frame = pd.read_parquet(content) if head.startswith(b"PAR1") else pd.read_feather(content)
    except _NOT_OF_THE_FILE:
        raise
    except Exception as error:  # whatever the reader makes of a damaged file
        raise TableError(_unreadable(file, error)) from error
    return RawTable(plain_frame(frame))


def plain_frame(frame: pd.DataFrame) -> pd.DataFrame:
    """A pandas frame with texts as column names, a named index as columns, and no attributes."""
    named = frame.index.name is not None or frame.index.nlevels > 1
    frame = frame.reset_index(drop=not named)
    frame.columns = [str(column) for column in frame.columns]
    frame.attrs = {}
    return frame


# ---- sheets and JSON ----


def _read_excel(file: InputFile, header: Header, skip: int) -> RawTable:
    pd = need_pandas()
    with file.opened() as opened:
        content = io.BytesIO(opened.read())
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of openpyxl, about styles that it does not know
            sheets = pd.read_excel(
                content, sheet_name=None, header=None, dtype=object, engine="openpyxl", keep_default_na=False
            )
    except ImportError as error:
        raise ImportError(
            f"{file.shown} is an Excel file, which needs openpyxl: pip install 'craftc[app]'."
        ) from error
    except _NOT_OF_THE_FILE:
        raise
    except Exception as error:  # whatever the reader makes of a damaged file
        raise TableError(_unreadable(file, error)) from error
    filled = {name: sheet for name, sheet in sheets.items() if sheet.size}
    if not filled:
        raise TableError(_EMPTY.format(file.shown))
    name, sheet = next(iter(filled.items()))
    sheet = sheet.astype(object).where(sheet.notna() & (sheet != ""), None)
    sheet = sheet.loc[:, sheet.notna().any()]
    notes = (
        []
        if len(filled) == 1
        else [f"The file has {len(filled)} sheets; the first, {quoted(str(name))}, was read."]
    )
    first = sheet.head(_HEAD_ROWS + min(skip, len(sheet)))
    rows = [["" if cell is None else as_text(cell) for cell in row] for row in first.itertuples(index=False)]
    start, names = _header(rows, header, skip, notes)
    frame = sheet.iloc[start:].dropna(how="all").reset_index(drop=True)
    frame.columns = names
    return RawTable(frame.infer_objects(), notes)


def _is_json(head: bytes) -> bool:
    """Whether a text begins with a JSON object, or with an array of them."""
    text = head.removeprefix(codecs.BOM_UTF8).lstrip()
    if not text.startswith((b"{", b"[")):
        return False
    return re.match(rb'(\[\s*)?\{\s*("(?:[^"\\]|\\.)*"\s*:|\})', text) is not None


def _read_json(file: InputFile, head: bytes, encoding: str, header: Header, skip: int) -> RawTable:
    with file.opened() as opened:
        text = opened.read().decode(encoding)
    line = 1
    try:
        if text.lstrip().startswith("["):
            records = json.loads(text)
        else:
            records = []
            for line, each in enumerate(text.split("\n"), 1):  # noqa: B007
                if each.strip():
                    records.append(json.loads(each))
    except (ValueError, RecursionError) as error:
        reason = str(error) if isinstance(error, ValueError) else "it is nested too deeply"
        raise TableError(f"{file.shown} cannot be read as JSON lines: line {line}: {reason}.") from error
    if not all(isinstance(record, dict) for record in records):
        raise TableError(
            f'{file.shown} cannot be read as JSON lines: every line must be one object such as {{"age": 31}}.'
        )
    names = dict.fromkeys(name for record in records for name in record)
    return RawTable(
        need_pandas().DataFrame({name: [record.get(name) for record in records] for name in names})
    )


# ---- delimited text ----


def _read_text(file: InputFile, head: bytes, encoding: str, header: Header, skip: int) -> RawTable:
    """Parse delimited text with a known encoding; every column stays text."""
    pd = need_pandas()
    delimiter, rows = _first_records(file, head, encoding, skip)
    notes: list[str] = []
    if not any(rows):
        raise TableError(_EMPTY.format(file.shown))
    start, names = _header(rows, header, skip, notes)
    try:
        with warnings.catch_warnings(), file.opened() as opened:
            warnings.simplefilter("error", pd.errors.ParserWarning)
            frame = pd.read_csv(
                opened,
                sep=delimiter,
                encoding=encoding,
                names=names,
                header=None,
                skiprows=start,
                index_col=False,
                dtype=str,
                na_filter=False,
                skipinitialspace=True,
                low_memory=False,
            )
    except pd.errors.EmptyDataError as error:
        raise TableError(_NO_ROWS.format(file.shown)) from error
    except (pd.errors.ParserError, pd.errors.ParserWarning) as error:
        if "out of memory" in str(error):
            raise MemoryError(f"{file.shown} does not fit into memory.") from error
        raise TableError(
            f"{file.shown} cannot be read as a table: {_parser_problem(str(error), len(names))}."
        ) from error
    return RawTable(frame, notes, semicolons=delimiter == ";")


def _parser_problem(message: str, n_names: int) -> str:
    if found := re.search(r"Expected (\d+) fields in line (\d+), saw (\d+)", message):
        return "line {1} has {2} cells, the lines before have {0}".format(*found.groups())
    if found := re.search(r"EOF inside string starting at row (\d+)", message):
        return f"a quote that opens in line {int(found[1]) + 1} is not closed"
    if "Length of header or names does not match length of data" in message:
        return f"there are {n_names} column names, but the lines below have more cells"
    return message.rstrip(".")


def _first_records(file: InputFile, head: bytes, encoding: str, skip: int) -> tuple[str, list[list[str]]]:
    """The delimiter and the first records, read from more bytes where records are long."""
    size = HEAD
    while True:
        # incremental, because the last character may be incomplete
        text = codecs.getincrementaldecoder(encoding)().decode(head)
        whole = len(head) < size
        if whole or text.count("\n") + text.count("\r") > _FEWEST_ROWS + skip:
            delimiter = _delimiter(text, whole, skip)
            rows = _records(text, delimiter, whole, skip)
            if whole or len(rows) > _FEWEST_ROWS + skip:
                return delimiter, rows
        if size >= _LONGEST_HEAD:
            raise TableError(
                f"{file.shown} is not a table: its first {_FEWEST_ROWS + skip} rows have more than "
                f"{size >> 20} MiB; check line ends and quotes."
            )
        size *= 4
        head = file.first(size)


@contextmanager
def _fields_of_any_length() -> Iterator[None]:
    before = csv.field_size_limit(_LONGEST_HEAD)
    try:
        yield
    finally:
        csv.field_size_limit(before)


def _records(text: str, delimiter: str, whole: bool, skip: int) -> list[list[str]]:
    """The first records; blank lines are empty records.

    The last one may be incomplete unless this is the whole text.
    """
    reader, most = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter), _HEAD_ROWS + skip
    with _fields_of_any_length():
        rows = [row for _, row in zip(range(most + 1), reader, strict=False)]
    return rows[:most] if whole or len(rows) < 2 else rows[:-1]


def _delimiter(text: str, whole: bool, skip: int) -> str:
    """The delimiter that splits the first lines into equally many cells; ties: the most columns."""
    best, delimiter = (False, False, 1), ","
    for candidate in _DELIMITERS:
        try:
            rows = [row for row in _records(text, candidate, whole, skip)[skip:] if row]
        except csv.Error:
            continue
        start = next((i for i, row in enumerate(rows[:20]) if len(row) > 1), 0)  # after lines of a title
        width = len(rows[start]) if rows else 1
        rank = (all(len(row) == width for row in rows[start:]), start == 0, width)
        if width > 1 and rank > best:
            best, delimiter = rank, candidate
    return delimiter


# ---- header ----


def _header(rows: list[list[str]], header: Header, skip: int, notes: list[str]) -> tuple[int, list[str]]:
    """The number of records before the first row of the table, and the names of its columns."""
    filled = [i for i, row in enumerate(rows) if i >= skip and any(cell.strip() for cell in row)]
    if not filled:
        raise TableError(f"No line is left after skip={skip}; the table has {len(rows)} lines.")
    width = Counter(len(rows[i]) for i in filled).most_common(1)[0][0]
    n_title = 0
    if header == "infer":
        while n_title < len(filled) - 2 and _is_title(
            rows[filled[n_title]], rows[filled[n_title + 1]], width
        ):
            n_title += 1
    first, below = rows[filled[n_title]], [rows[i] for i in filled[n_title + 1 :]]
    if n_title:
        title = ", ".join(filter(None, rows[filled[0]]))[:60]
        notes.append(f"{n_title} line(s) above the column names were skipped, the first: {title!r}.")
    absent = _is_data(first, below) if header == "infer" else not header
    if absent and header == "infer":
        notes.append(
            f"The first line looks like data ({', '.join(first)[:60]!r}), so the columns are named 'column "
            f"1' to 'column {len(first)}'; header=True takes it as column names."
        )
    names = distinct_names([""] * len(first) if absent else [cell.strip() for cell in first], notes)
    return filled[n_title] + (not absent), names


def _is_title(row: list[str], following: list[str], width: int) -> bool:
    """Whether a record above the table is a title or a comment: a single cell where the table has several."""
    if width < 2:
        return row[0].startswith("#")
    if len(row) < width:
        return sum(map(bool, row)) <= 1 or row[0].startswith("#")
    return width >= 3 and bool(row[0]) and not any(row[1:]) and all(following) and len(following) == width


def _is_data(first: list[str], below: list[list[str]]) -> bool:
    """Whether the first record is a row: numbers above numbers, or only levels that occur below."""
    below = [row for row in below if len(row) == len(first)]
    numbers: list[float] = []
    repeated: list[bool] = []
    for cell, column in zip(first, zip(*below, strict=True), strict=False):
        name, cells = cell.strip(), [each.strip() for each in column]
        cells = [each for each in cells if each not in NA_VALUES and each.casefold() not in NUMERIC_NA_VALUES]
        if not cells or name in NA_VALUES:
            continue
        if sum(map(_is_datum, cells)) >= 0.9 * len(cells):
            if not _is_datum(name) and name.casefold() not in NUMERIC_NA_VALUES:
                return False
            number = as_number(name)
            numbers.append(0.5 if number is None else number)  # a date is no label
        else:
            repeated.append(name in cells)
    if numbers:
        return not _are_labels(numbers)
    return len(repeated) >= 2 and all(repeated)


def _is_datum(cell: str) -> bool:
    return as_number(cell) is not None or DATE.fullmatch(cell[:64]) is not None


def _are_labels(numbers: list[float]) -> bool:
    """Whether numbers above columns of numbers are names: years, or 0, 1, 2, ..."""
    whole = all(number.is_integer() for number in numbers)
    rising = all(b - a == 1 for a, b in pairwise(numbers))
    years = all(1800 <= number <= 2200 for number in numbers) and sorted(set(numbers)) == numbers
    return whole and (years or (rising and len(numbers) > 1))


def distinct_names(names: Sequence[str], notes: list[str]) -> list[str]:
    """Unique column names: empty names become their position, duplicates get a number."""
    out: dict[str, None] = {}
    count: dict[str, int] = {}  # the number that a name got last
    renamed = []
    for position, name in enumerate(names):
        base = name or f"column {position + 1}"
        new = base
        while new in out:
            count[base] = count.get(base, 1) + 1
            new = f"{base}.{count[base]}"
        if name and new != name:
            renamed.append(new)
        out[new] = None
    if renamed:
        s, have = ("", "has") if len(renamed) == 1 else ("s", "have")
        notes.append(
            f"{len(renamed):,} column{s} {have} the name of another one and became {listed(renamed)}."
        )
    return list(out)
