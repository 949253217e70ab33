"""Results in files of several formats, by the ending of the name; CSV without the traps of spreadsheets."""

from __future__ import annotations

import gzip
import io
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING, cast

from craftc._common.atomic_write import replacing
from craftc._common.messages import need_pandas
from craftc.describe.sheets import text_cell

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa
if TYPE_CHECKING:
    import pandas as pd

#: The endings of results, the longest first, for which `.csv.gz` is not `.gz`.
FORMATS = ("csv.gz", "parquet", "jsonl", "arrow", "xlsx", "csv")
_MOST_ROWS = 1_048_575  # of a sheet, besides the names of the columns
_FORMULAS = tuple("=+-@\t\r\n＝＋－＠")  # first characters; spreadsheets normalise the wide ones
_CRLF = "\r\n"
Write = Callable[["pd.DataFrame"], None]


def format_of(path: str | os.PathLike[str]) -> str:
    """The format of a file of results; CSV for devices and pipes. Raises ValueError for another ending."""
    name = os.fspath(path)
    for ending in FORMATS:
        if name.lower().endswith(f".{ending}"):
            return ending
    if os.path.exists(name) and not os.path.isfile(name):
        return "csv"
    raise ValueError(f"--out must end in {', '.join(f'.{each}' for each in sorted(FORMATS))}, got {name!r}.")


def names_folder(path: str) -> bool:
    """Whether results go to a folder: one that exists, or a name that ends in a slash or has no ending."""
    return os.path.isdir(path) or path.endswith(("/", os.sep)) or not Path(path).suffix


@contextmanager
def result_file(
    path: str | os.PathLike[str], *, within: str | os.PathLike[str] | None = None
) -> Iterator[Write]:
    """A function that adds rows to a new file, which replaces `path` when the block ends without an error.

    `within`: folder of the temporary file, see :func:`replacing`.
    """
    form = format_of(path)
    if form == "csv":
        with replacing(path, within=within) as text:
            yield csv_writer(text)
        return
    with replacing(path, "wb", within=within) as file, _OPENERS[form](file, Path(path).name) as write:
        yield write


@contextmanager
def _zipped(file: IO[bytes], name: str) -> Iterator[Write]:
    # the same rows give the same bytes: no time, no name
    with gzip.GzipFile("", "wb", 6, file, mtime=0) as packed:
        text = io.TextIOWrapper(packed, encoding="utf-8", newline="")
        yield csv_writer(text)
        text.flush()


@contextmanager
def _json_lines(file: IO[bytes], name: str) -> Iterator[Write]:
    def write(frame: pd.DataFrame) -> None:
        lines = frame.to_json(orient="records", lines=True, double_precision=15, date_format="iso")
        file.write(lines.encode() if lines.strip() else b"")

    yield write


@contextmanager
def _columnar(file: IO[bytes], parquet: bool) -> Iterator[Write]:
    """Parquet or Arrow; the first rows decide the types of the columns."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    writer: pq.ParquetWriter | pa.RecordBatchFileWriter | None = None
    schema: pa.Schema | None = None

    def write(frame: pd.DataFrame) -> None:
        nonlocal writer, schema
        table = pa.Table.from_pandas(frame, preserve_index=False)
        if writer is None:
            schema = pa.schema([each.with_type(_lasting(each.type)) for each in table.schema])
            writer = pq.ParquetWriter(file, schema) if parquet else pa.ipc.new_file(file, schema)
        writer.write_table(table.cast(schema))

    try:
        yield write
    finally:
        if writer is not None:
            writer.close()


def _lasting(of_type: pa.DataType) -> pa.DataType:
    """The type of a column that later rows fit, too: texts for one without values, and no dictionary."""
    import pyarrow as pa

    if pa.types.is_null(of_type):
        return pa.string()
    return of_type.value_type if pa.types.is_dictionary(of_type) else of_type


@contextmanager
def _workbook(file: IO[bytes], name: str) -> Iterator[Write]:
    from openpyxl import Workbook  # type: ignore[import-untyped]

    book = Workbook(write_only=True)
    sheet, n_rows, header = book.create_sheet("clusters"), 0, list[str]()

    def cell_of(value: object) -> object:
        """A value as a cell; texts stay texts, even if they begin like a formula."""
        if isinstance(value, datetime) and value.tzinfo is not None:
            value = value.isoformat()  # cells have no time zones
        return text_cell(sheet, value) if isinstance(value, str) else value

    def write(frame: pd.DataFrame) -> None:
        nonlocal n_rows
        if not header:
            header.extend(str(column) for column in frame.columns)
            sheet.append([cell_of(name) for name in header])
        n_rows += len(frame)
        if n_rows > _MOST_ROWS:
            raise ValueError(
                f"{name!r}: a sheet holds at most {_MOST_ROWS:,} rows; pass a name ending in .csv."
            )
        cells = frame.astype(object).where(frame.notna(), None)
        for row in cells.itertuples(index=False, name=None):
            sheet.append([cell_of(value) for value in row])

    yield write
    book.save(file)


_OPENERS: dict[str, Callable[[IO[bytes], str], AbstractContextManager[Write]]] = {
    "csv.gz": _zipped,
    "jsonl": _json_lines,
    "parquet": lambda file, name: _columnar(file, True),
    "arrow": lambda file, name: _columnar(file, False),
    "xlsx": _workbook,
}


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
