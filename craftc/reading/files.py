"""Readers of table files: the content decides format and compression; nothing is executed or fetched."""

from __future__ import annotations

import codecs
import csv
import io
import lzma
import os
import re
import warnings
import zipfile
import zlib
from collections.abc import Iterator, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING

import numpy as np

from craftc._common.messages import as_text, listed, need_pandas, quoted, shown
from craftc.reading.encodings import Encoding, other_encoding, wide_encoding
from craftc.reading.input_file import (
    COLUMNAR,
    HEAD,
    OLD_EXCEL,
    SHEETS_ONLY,
    ZIP,
    InputFile,
    TableError,
    find_file,
    labelled_reader,
)
from craftc.reading.labelled import read_labelled
from craftc.reading.line_cells import is_blank, without_formula
from craftc.reading.no_rows import empty_lines
from craftc.reading.records import (
    BLANKS,
    HEAD_ROWS,
    LONGEST_HEAD,
    MOST_TITLES,
    Delimiter,
    Header,
    distinct_names,
    find_delimiter,
    find_header,
    first_records,
    unquoted_lines,
)
from craftc.reading.sheets import (
    Merged,
    SideBySide,
    hidden_sheets,
    merged_cells,
    n_hidden_rows,
    n_unsolved_formulas,
    percent_cells,
    show_percentages,
    side_by_side,
)
from craftc.reading.text_formats import arff_parts, is_arff, is_json_array, json_columns

if TYPE_CHECKING:
    import pandas as pd

_FEWEST_ROWS = 10  # records that are looked at, however long they are
_SHARE_OF_LONGEST = 0.2  # rows of the sheet that is read, at least; shorter ones explain the table
_NO_ROWS = "{} has no rows below its column names; add at least one."
_MARKUP = re.compile(rb"(\xef\xbb\xbf)?\s*<(!doctype|html|head|body|table|\?xml|svg)\b", re.IGNORECASE)
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
    form: FileForm = field(default_factory=lambda: FileForm())
    labels: dict[str, str] = field(default_factory=dict)  # of columns, in a file of SPSS, Stata or SAS
    n_above: int | None = None  # lines above the rows, as `skip` counts them
    sheets: list[str] = field(default_factory=list)  # of a workbook, that are not empty
    units: dict[str, str] = field(default_factory=dict)  # of columns of numbers, by their format in a sheet
    blank_above: dict[int, int] = field(default_factory=dict)  # rows below blank lines: how many are above


@dataclass(frozen=True)
class FileForm:
    """What the caller says about the form of a file."""

    header: Header = "infer"  # whether the first line holds the column names
    skip: int = 0  # lines before the table
    delimiter: str = "infer"  # one character
    encoding: str = "infer"
    sheet: str | int | None = None  # of a workbook: its name, or its position
    all_lines: bool = False  # whether lines that are no rows, such as totals, are kept

    def __post_init__(self) -> None:
        if self.header is not True and self.header is not False and self.header != "infer":
            raise ValueError(f"header must be 'infer', True or False, got {self.header!r}.")
        if isinstance(self.skip, bool) or not isinstance(self.skip, int) or self.skip < 0:
            raise ValueError(f"skip must be a number of lines >= 0, got {self.skip!r}.")
        mark = self.delimiter
        if not isinstance(mark, str) or (mark != "infer" and (len(mark) != 1 or mark in '"\r\n')):
            raise ValueError(f"delimiter must be 'infer' or one character, got {shown(mark)}.")
        if self.encoding != "infer":
            try:
                codecs.lookup(self.encoding)
            except (LookupError, TypeError) as error:
                raise ValueError(
                    f"encoding must be 'infer' or the name of an encoding, such as 'cp1252', got "
                    f"{shown(self.encoding)}."
                ) from error
        if isinstance(self.sheet, bool) or not isinstance(self.sheet, str | int | None):
            raise ValueError(f"sheet must be the name or the position of a sheet, got {shown(self.sheet)}.")

    def said(self) -> dict[str, object]:
        """What differs from the form that is assumed where nothing is said."""
        return {
            each.name: value for each in fields(self) if (value := getattr(self, each.name)) != each.default
        }

    @property
    def given_delimiter(self) -> Delimiter | None:
        if self.delimiter == "infer":
            return None
        return Delimiter(BLANKS if self.delimiter == " " else self.delimiter)


def read_file(path: str | os.PathLike[str], form: FileForm | None = None) -> RawTable:
    """Read a table file, without interpreting its cells.

    `path`: "-": standard input. The content decides the format: delimited text, JSON, Excel (.xlsx), Parquet,
    Feather; each also compressed (gzip, bzip2, xz, a zip archive with one file).

    Raises TableError: there is no such file, or it is not a table. Raises ImportError: a package that
    reads this format is missing.
    """
    file = find_file(os.fspath(path))
    try:
        head = file.head()
        if not head.strip():
            raise TableError(_EMPTY.format(file.shown))
        table = _read(file, head, form or FileForm())
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


def _read(file: InputFile, head: bytes, form: FileForm) -> RawTable:
    """Read a file by the format that its first bytes show."""
    if form.sheet is not None and not head.startswith((ZIP, OLD_EXCEL)):
        raise TableError(f"{file.shown} is no workbook: sheet={form.sheet!r} has no effect on it.")
    if head.startswith(COLUMNAR):
        return _read_columnar(file, head)
    if head.startswith(ZIP):
        return _read_excel(file, form)
    if labelled_reader(head)[0]:
        return _read_labelled(file, head)
    if head.startswith(OLD_EXCEL):
        raise TableError(SHEETS_ONLY.format(file.shown, "an Excel file of the format before 2007 (.xls)"))
    if _MARKUP.match(head):
        raise TableError(SHEETS_ONLY.format(file.shown, "a page in HTML or a file in XML"))
    read = _read_json if _is_json(head) else _read_arff if is_arff(head) else _read_text
    if form.encoding != "infer":
        try:
            return read(file, head, Encoding(form.encoding), form)
        except UnicodeDecodeError as error:
            raise TableError(
                f"{file.shown} is not {form.encoding} text: byte {error.start:,} is none of its characters; "
                "encoding='infer' finds another encoding."
            ) from error
    try:
        return read(file, head, Encoding(wide_encoding(head) or "utf-8-sig"), form)
    except UnicodeDecodeError:
        with file.opened() as opened:
            encoding, note = other_encoding(opened.read())
        table = read(file, head, encoding, form)
        table.notes.insert(0, note)
        return table


@contextmanager
def _refused(file: InputFile) -> Iterator[None]:
    """Raise TableError, whatever a reader of another package makes of a damaged file."""
    try:
        yield
    except _NOT_OF_THE_FILE:
        raise
    except Exception as error:
        raise TableError(_unreadable(file, error)) from error


def _read_columnar(file: InputFile, head: bytes) -> RawTable:
    pd = need_pandas()
    with _refused(file):
        with file.opened() as opened:
            content = io.BytesIO(opened.read()) if file.packings or file.data is not None else file.path
        if head.startswith(b"PAR1"):
            frame = pd.read_parquet(content, engine="pyarrow", page_checksum_verification=True)
        else:
            frame = pd.read_feather(content)
    return RawTable(plain_frame(frame))


def plain_frame(frame: pd.DataFrame) -> pd.DataFrame:
    """A pandas frame with texts as column names, a named index as columns, and no attributes."""
    named = frame.index.name is not None or frame.index.nlevels > 1
    frame = frame.reset_index(drop=not named)
    frame.columns = [str(column) for column in frame.columns]
    frame.attrs = {}
    return frame


def _read_labelled(file: InputFile, head: bytes) -> RawTable:
    with _refused(file):
        frame, notes, labels = read_labelled(file, head)
    return RawTable(plain_frame(frame), notes, labels=labels)


# ---- sheets and JSON ----


def _read_excel(file: InputFile, form: FileForm) -> RawTable:
    pd = need_pandas()
    with file.opened() as opened:
        content = io.BytesIO(opened.read())
    try:
        with _refused(file), warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of openpyxl, about styles that it does not know
            sheets = pd.read_excel(
                content, sheet_name=None, header=None, dtype=object, engine="openpyxl", keep_default_na=False
            )
    except ImportError as error:
        raise ImportError(
            f"{file.shown} is an Excel file, which needs openpyxl: pip install 'craftc[app]'."
        ) from error
    filled = {name: sheet for name, sheet in sheets.items() if sheet.size}
    if not filled:
        raise TableError(_EMPTY.format(file.shown))
    with _refused(file):
        hidden = hidden_sheets(content) & filled.keys()
    name, notes = _chosen_sheet(file, filled, form.sheet, hidden)
    sheet = filled[name]
    sheet = sheet.astype(object).where(sheet.notna() & (sheet != ""), None)
    with _refused(file):
        merged, formatted = merged_cells(content, name), percent_cells(content, name)
        n_hidden, n_unsolved = n_hidden_rows(content, name), n_unsolved_formulas(content, name)
    if n_hidden:
        notes.append(f"{n_hidden:,} row(s) that the sheet hides, as by a filter, were read, too.")
    if n_unsolved:
        notes.append(
            f"{n_unsolved:,} formula(s) without a stored result are missing cells; a spreadsheet program "
            "that opens and saves the file stores the results."
        )
    tall = [each for each in merged if each.last > each.first]
    for each in tall:
        sheet.iloc[each.first : each.last + 1, each.left] = sheet.iat[each.first, each.left]
    firsts = [as_text(sheet[j].dropna().iloc[0]) if sheet[j].notna().any() else "" for j in sheet]
    found = None if form.all_lines else side_by_side(sheet.notna().to_numpy(bool), firsts)
    if found is not None:
        sheet = sheet.iloc[:, found.kept]
        merged = [each for each in merged if each.left in sheet.columns]
    sheet = sheet.loc[:, sheet.notna().any()]
    first = sheet.head(HEAD_ROWS + min(form.skip, len(sheet)))
    rows = [["" if cell is None else as_text(cell) for cell in row] for row in first.itertuples(index=False)]
    start, names = find_header(rows, form.header, form.skip, notes)
    if found is not None:
        own = dict(zip(sheet.columns, names, strict=True))
        notes.append(found.note([own.get(j, first) for j, first in enumerate(firsts)]))
    if n_tall := sum(each.last > start for each in tall):
        notes.append(f"{n_tall:,} merged cell(s) hold in each of their rows.")
    if not form.all_lines:
        _set_headings_aside(sheet, [each for each in merged if each.first >= start], notes)
    frame = sheet.iloc[start:].copy()
    in_percent = set(show_percentages(frame, formatted))
    units = {name: "%" for name, column in zip(names, frame.columns, strict=True) if column in in_percent}
    frame = frame.reset_index(drop=True).set_axis(names, axis=1)
    return RawTable(frame.infer_objects(), notes, n_above=start, sheets=list(filled), units=units)


def _set_headings_aside(sheet: pd.DataFrame, merged: Sequence[Merged], notes: list[str]) -> None:
    """Empty the lines that are one text over merged cells: headings of the rows below them."""
    wide = {each.first: each.left for each in merged if each.first == each.last and each.right > each.left}
    filled = sheet.notna().sum(axis=1)
    headings = [row for row in wide if filled.iloc[row] == 1 and sheet.shape[1] > 2]
    if headings:
        shown = quoted(as_text(sheet.loc[:, wide[headings[0]]].iloc[headings[0]]))
        notes.append(
            f"{len(headings):,} heading(s) over merged cells count as empty lines, the first {shown}."
        )
        sheet.iloc[headings] = None


def _chosen_sheet(
    file: InputFile, sheets: dict[str, pd.DataFrame], wanted: str | int | None, hidden: Set[str]
) -> tuple[str, list[str]]:
    """The name of the sheet that is read: the wanted one, or the first that is a table and not `hidden`; and
    notes.
    """
    names = list(sheets)
    if isinstance(wanted, int) and -len(names) <= wanted < len(names):
        return names[wanted], []
    if wanted is not None:
        if wanted in sheets:
            return str(wanted), []
        raise TableError(f"{file.shown} has no sheet {wanted!r}; its sheets are {listed(names, 20)}.")
    seen = [name for name in names if name not in hidden] or names
    tables = [name for name in seen if _is_filled(sheets[name])] or seen[:1]
    longest = max(len(sheets[name]) for name in tables)
    name = next(name for name in tables if len(sheets[name]) >= _SHARE_OF_LONGEST * longest)
    if len(names) == 1:
        return name, []
    which = "the first" if name == names[0] else "the first that is a table"
    which += " and not hidden" if name != names[0] and hidden else ""
    return name, [
        f"The file has {len(names)} sheets; {which}, {quoted(name)}, was read; sheet='...' names another."
    ]


def _is_filled(sheet: pd.DataFrame) -> bool:
    """Whether a sheet is a table: several columns, of whose rows most cells are filled."""
    filled = (sheet.notna() & (sheet != "")).to_numpy(bool)
    filled = filled[filled.any(axis=1)][:, filled.any(axis=0)]
    return min(filled.shape) >= 2 and bool(2 * filled.sum() >= filled.size)


def _is_json(head: bytes) -> bool:
    """Whether a text begins with a JSON object, or with an array of them or of arrays, or a line that is an
    array.
    """
    text = head.removeprefix(codecs.BOM_UTF8).lstrip()
    if not text.startswith((b"{", b"[")):
        return False
    found = re.match(rb'(\[\s*)?\{\s*("(?:[^"\\]|\\.)*"\s*:|\})|\[\s*\[', text)
    return found is not None or is_json_array(text.partition(b"\n")[0])


def _read_json(file: InputFile, head: bytes, encoding: Encoding, form: FileForm) -> RawTable:
    with file.opened() as opened:
        text = opened.read().decode(*encoding)
    columns, notes = json_columns(text, file.shown)
    return RawTable(need_pandas().DataFrame(columns), notes)


def _read_arff(file: InputFile, head: bytes, encoding: Encoding, form: FileForm) -> RawTable:
    pd = need_pandas()
    with file.opened() as opened:
        names, rows = arff_parts(opened.read().decode(*encoding), file.shown)
    notes: list[str] = []
    quote = "'" if rows.count("'") >= rows.count('"') else '"'
    try:
        frame = pd.read_csv(
            io.StringIO(rows),
            names=distinct_names(names, notes),
            header=None,
            index_col=False,
            dtype=str,
            na_filter=False,
            skipinitialspace=True,
            quotechar=quote,
            escapechar="\\",
        )
    except (pd.errors.ParserError, pd.errors.EmptyDataError) as error:
        raise TableError(f"{file.shown} cannot be read as ARFF: {error}.") from error
    return RawTable(frame, notes)


# ---- delimited text ----


def _read_text(file: InputFile, head: bytes, encoding: Encoding, form: FileForm) -> RawTable:
    """Parse delimited text with a known encoding; every column stays text."""
    delimiter, rows = _first_records(file, head, encoding, form)
    notes = [delimiter.note] if delimiter.note else []
    if not any(rows):
        raise TableError(_EMPTY.format(file.shown))
    formulas = any(without_formula(cell) != cell for row in rows for cell in row)
    if formulas:
        rows = [list(map(without_formula, row)) for row in rows]
    start, names = find_header(rows, form.header, form.skip, notes)
    frame, blank_above = _parsed(file, encoding, delimiter, start, names)
    found = None if form.all_lines else _side_by_side(frame, rows[start - 1] if start else [])
    if found is not None and found.other:
        first, before = [[row[j] for j in found.kept if j < len(row)] for row in rows], start
        notes = [*notes[: bool(delimiter.note)], found.note(names)]
        start, own = find_header(first, form.header, form.skip, notes)
        if start != before:
            frame, blank_above = _parsed(file, encoding, delimiter, start, names)
        frame = frame.iloc[:, found.kept].set_axis(own, axis=1)
    elif found is not None:
        notes.append(found.note(names))
    if formulas:
        frame = frame.map(without_formula)
        notes.append('Cells that are formulas of a text, ="…", are that text.')
    return RawTable(frame, notes, semicolons=delimiter.mark == ";", n_above=start, blank_above=blank_above)


def _side_by_side(frame: pd.DataFrame, header: list[str]) -> SideBySide | None:
    """The columns of tables next to the rows, if columns without a name are empty; `header`: the names."""
    names = [*(cell.strip() for cell in header), *[""] * frame.shape[1]][: frame.shape[1]]
    if not any(not name and is_blank(frame.iloc[:, j]).all() for j, name in enumerate(names)):
        return None
    filled = ~np.column_stack([is_blank(frame.iloc[:, j]) for j in range(frame.shape[1])])
    return side_by_side(np.vstack([np.array(names) != "", filled]), names)


def _parsed(
    file: InputFile, encoding: Encoding, delimiter: Delimiter, start: int, names: list[str]
) -> tuple[pd.DataFrame, dict[int, int]]:
    """The records from `start` on, as texts, without blank lines, which their labels count; and the rows
    below these, each with the number of blank lines above it.
    """
    whole = _parsed_lines(file, encoding, delimiter, start, names, skip_blank_lines=False)
    empty = empty_lines(whole)
    if not empty.any():
        return whole, {}
    frame = _parsed_lines(file, encoding, delimiter, start, names, skip_blank_lines=True)
    row = np.flatnonzero(~empty_lines(frame))
    n_above = np.flatnonzero(~empty) - row
    below = np.flatnonzero(np.diff(n_above, prepend=0))
    if len(below):
        blank = np.zeros(len(frame), np.intp)
        blank[row] = n_above
        frame.index += np.maximum.accumulate(blank)
    return frame, dict(zip(row[below].tolist(), n_above[below].tolist(), strict=True))


def _parsed_lines(
    file: InputFile,
    encoding: Encoding,
    delimiter: Delimiter,
    start: int,
    names: list[str],
    *,
    skip_blank_lines: bool,
) -> pd.DataFrame:
    """The records from `start` on, as texts."""
    pandas = need_pandas()
    try:
        with warnings.catch_warnings(), file.opened() as opened:
            warnings.simplefilter("error", pandas.errors.ParserWarning)
            parsed: pd.DataFrame = pandas.read_csv(
                _rewritten(opened.read().decode(*encoding), delimiter) if delimiter.is_rewritten else opened,
                sep=delimiter.byte,
                encoding=encoding.name,
                encoding_errors=encoding.errors,
                names=names,
                header=None,
                skiprows=start,
                index_col=False,
                dtype=str,
                na_filter=False,
                skipinitialspace=True,
                low_memory=False,
                skip_blank_lines=skip_blank_lines,
            )
    except pandas.errors.EmptyDataError as error:
        raise TableError(_NO_ROWS.format(file.shown)) from error
    except (pandas.errors.ParserError, pandas.errors.ParserWarning) as error:
        if "out of memory" in str(error):
            raise MemoryError(f"{file.shown} does not fit into memory.") from error
        at = f"; cells were separated at {delimiter.mark!r}" if delimiter.note else ""
        raise TableError(
            f"{file.shown} cannot be read as a table: {_parser_problem(str(error), len(names))}{at}."
        ) from error
    return parsed


def _rewritten(text: str, delimiter: Delimiter) -> io.StringIO:
    """A text as the parser reads it: without quotes around lines, and a delimiter of one byte."""
    plain = unquoted_lines(text) if delimiter.unquote else text
    return io.StringIO(plain.replace(delimiter.mark, delimiter.byte), newline="")


def _parser_problem(message: str, n_names: int) -> str:
    """What the parser found, and how to begin further down: the first lines may be no part of the table."""
    if found := re.search(r"Expected (\d+) fields in line (\d+), saw (\d+)", message):
        before, line, here = map(int, found.groups())
        skip = f"; skip={line - 1} begins at line {line}" if line <= MOST_TITLES else ""
        return f"line {line} has {here} cells, the lines before have {before}{skip}"
    if found := re.search(r"EOF inside string starting at row (\d+)", message):
        return f"a quote that opens in line {int(found[1]) + 1} is not closed"
    if "Length of header or names does not match length of data" in message:
        return f"there are {n_names} column names, but the lines below have more cells"
    return message.rstrip(".")


def _first_records(
    file: InputFile, head: bytes, encoding: Encoding, form: FileForm
) -> tuple[Delimiter, list[list[str]]]:
    """The delimiter and the first records, read from more bytes where records are long."""
    size, skip = HEAD, form.skip
    while True:
        # incremental, because the last character may be incomplete
        text = codecs.getincrementaldecoder(encoding.name)(encoding.errors).decode(head)
        whole = len(head) < size
        if whole or text.count("\n") + text.count("\r") > _FEWEST_ROWS + skip:
            delimiter = form.given_delimiter or find_delimiter(text, whole, skip)
            plain = unquoted_lines(text) if delimiter.unquote else text
            rows = first_records(plain, delimiter.mark, whole, skip)
            if whole or len(rows) > _FEWEST_ROWS + skip:
                return delimiter, rows
        if size >= LONGEST_HEAD:
            raise TableError(
                f"{file.shown} is not a table: its first {_FEWEST_ROWS + skip} rows have more than "
                f"{size >> 20} MiB; check line ends and quotes."
            )
        size *= 4
        head = file.first(size)
