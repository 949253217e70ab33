"""Several files, and the files of folders, as one table."""

from __future__ import annotations

import glob
import os
from collections import Counter
from collections.abc import Sequence
from itertools import accumulate, filterfalse
from pathlib import Path
from typing import TYPE_CHECKING

from craftc._common.messages import as_text, listed, need_pandas, quoted
from craftc.reading.cells import NA_VALUES, certain_mark, is_datum
from craftc.reading.files import RawTable
from craftc.reading.input_file import TableError, did_you_mean
from craftc.reading.mixed_cells import with_unit
from craftc.reading.records import NAMELESS
from craftc.table.out_of_core import FORMATS

if TYPE_CHECKING:
    import pandas as pd

#: Extensions of Parquet and Arrow files.
COLUMNAR_SUFFIXES = tuple(FORMATS)
_SUFFIXES = (
    *COLUMNAR_SUFFIXES,
    *(
        ".csv",
        ".tsv",
        ".tab",
        ".txt",
        ".dat",
        ".psv",
        ".json",
        ".jsonl",
        ".ndjson",
        ".arff",
        ".xlsx",
        ".xlsm",
    ),
    *(".sav", ".zsav", ".por", ".dta", ".sas7bdat", ".xpt"),
)
_PACKED = (".gz", ".bz2", ".xz", ".zip")
_MOST = 12  # names that a message lists
_LOOKED_AT = 2000  # cells of a column that show its decimal mark


def paths_of(given: object, notes: list[str]) -> list[str] | None:
    """The files that paths, folders and patterns name; None if this is neither a path nor a list of paths.

    The files of a folder are those with the extension of a table, in the order of their names.
    """
    if isinstance(given, str | os.PathLike):
        return _expanded(os.fspath(given), notes)
    if not isinstance(given, list | tuple) or not all(isinstance(each, str | os.PathLike) for each in given):
        return None
    if not given:
        raise TableError("An empty list of files was passed; pass at least one.")
    paths = [path for each in given for path in _expanded(os.fspath(each), notes)]
    twice = [path for path, n in Counter(paths).items() if n > 1]
    if twice:
        raise TableError(f"{listed(twice)} is named twice, so that its rows would count twice; name it once.")
    return paths


def _expanded(path: str, notes: list[str]) -> list[str]:
    if os.path.isdir(path):
        return _tables_in(path, notes)
    if glob.has_magic(path) and not os.path.exists(path):
        found = sorted(each for each in glob.glob(path) if os.path.isfile(each))
        if not found:
            raise TableError(f"No file matches {path!r}.")
        return found
    return [path]


def _tables_in(folder: str, notes: list[str]) -> list[str]:
    names = sorted(name for name in os.listdir(folder) if not name.startswith((".", "_", "~$")))
    names = [name for name in names if os.path.isfile(os.path.join(folder, name))]
    tables = list(filter(is_table_name, names))
    if not tables:
        has = f"its files are {listed(names)}" if names else "it has no files"
        raise TableError(f"{folder!r} is a folder without tables: {has}; pass the names of files.")
    if others := list(filterfalse(is_table_name, names)):
        notes.append(f"Files of the folder without the extension of a table were left out: {listed(others)}.")
    return [os.path.join(folder, name) for name in tables]


def is_table_name(name: str) -> bool:
    """Whether a file has the extension of a table, which may be compressed."""
    path = Path(name.lower())
    return (Path(path.stem).suffix if path.suffix in _PACKED else path.suffix) in _SUFFIXES


def joined(paths: Sequence[str], tables: Sequence[RawTable], n_lines: Sequence[int]) -> RawTable:
    """The rows of several files as one table, with the columns of the first one.

    `n_lines`: lines of each file before lines that are no rows were removed. The index goes on through the
    files.

    Raises TableError: a file has other columns than the first one, or another decimal mark.
    """
    names = _short(paths)
    first, notes = tables[0].frame, list[str]()
    pandas, frames = need_pandas(), []
    for name, table, start in zip(names, tables, accumulate(n_lines[:-1], initial=0), strict=True):
        frame = table.frame
        if _is_nameless(frame) and not _is_nameless(first):
            frame = _named(frame, [each.frame for each in tables], name)
            table.notes = [note for note in table.notes if not note.startswith(NAMELESS)]
            notes.append(f"{quoted(name)} has no column names; those of {quoted(names[0])} were taken.")
        _check_columns(name, list(frame.columns), names[0], list(first.columns))
        frames.append(frame[first.columns].set_axis(frame.index + start))
    rows = ", ".join(
        f"{quoted(name)} ({len(frame):,} rows)" for name, frame in zip(names, frames, strict=True)
    )
    if len(names) > _MOST:
        rows = f"{listed(names, _MOST)} ({sum(map(len, frames)):,} rows)"
    notes.insert(0, f"{len(names)} files were read as one table, rows numbered through them: {rows}.")
    columns, units = {}, _common_units(tables)
    for column in first.columns:
        parts = [frame[column] for frame in frames]
        if column not in units:
            parts = [
                with_unit(part, table.units[column]) if column in table.units else part
                for part, table in zip(parts, tables, strict=True)
            ]
        _check_marks(str(column), names, parts)
        if any(part.dtype != parts[0].dtype for part in parts):
            columns[column] = pandas.concat([part.astype(object) for part in parts]).infer_objects()
        else:
            columns[column] = pandas.concat(parts)
    return RawTable(
        pandas.DataFrame(columns),
        notes + _notes_of(names, tables),
        all(table.semicolons for table in tables),
        labels=tables[0].labels,
        units=units,
    )


def _common_units(tables: Sequence[RawTable]) -> dict[str, str]:
    """The units that the sheets of all files show."""
    return {
        name: unit for name, unit in tables[0].units.items() if all(name in each.units for each in tables)
    }


def _short(paths: Sequence[str]) -> list[str]:
    """The names of files in messages: without their folder, unless two are then equal."""
    names = [os.path.basename(path) for path in paths]
    return names if len(set(names)) == len(names) else list(paths)


def _is_nameless(frame: pd.DataFrame) -> bool:
    columns = list(frame.columns)
    return columns == [f"column {j + 1}" for j in range(len(columns))]


def _named(frame: pd.DataFrame, others: Sequence[pd.DataFrame], name: str) -> pd.DataFrame:
    """A table without names with those of the other files, if all of them have the same order of columns.

    Raises TableError: they have not, or its columns of numbers are in other places.
    """
    orders = {tuple(other.columns) for other in others if not _is_nameless(other)}
    if len(orders) > 1 or frame.shape[1] != others[0].shape[1] or _kinds(frame) != _kinds(others[0]):
        raise TableError(
            f"{quoted(name)} has no column names that the other files show; add a line of names."
        )
    return frame.set_axis(list(others[0].columns), axis=1)


def _kinds(frame: pd.DataFrame) -> list[bool]:
    """Which columns look like numbers or dates."""
    cells = (frame.iloc[:_LOOKED_AT, j].dropna().map(as_text) for j in range(frame.shape[1]))
    return [len(each) > 0 and bool(each.map(is_datum).mean() > 0.5) for each in cells]


def _check_columns(name: str, columns: list[str], first: str, wanted: list[str]) -> None:
    lacks = [column for column in wanted if column not in columns]
    more = [column for column in columns if column not in wanted]
    if lacks or more:
        parts = [f"lacks {listed(lacks, _MOST)}"] * bool(lacks) + [f"has {listed(more, _MOST)}"] * bool(more)
        hint = did_you_mean(lacks[0], more) if lacks else ""
        raise TableError(
            f"The files have different columns: {quoted(name)} {' and '.join(parts)}, unlike "
            f"{quoted(first)}; make them equal, or read the files apart.{hint}"
        )


def _check_marks(column: str, names: Sequence[str], parts: Sequence[pd.Series]) -> None:
    """Raise TableError if a column has decimal commas in one file, and points in another."""
    shown: dict[str, str] = {}
    for name, part in zip(names, parts, strict=True):
        cells = {cell for cell in part.iloc[:_LOOKED_AT] if isinstance(cell, str)}
        texts = sorted(cells.difference(NA_VALUES))
        if any("," in text or "." in text for text in texts):
            shown.setdefault(certain_mark(texts), name)
    if "," in shown and "." in shown:
        raise TableError(
            f"Column {quoted(column)} has decimal commas in {quoted(shown[','])}, but points in "
            f"{quoted(shown['.'])}; write one of them in all files."
        )


def _notes_of(names: Sequence[str], tables: Sequence[RawTable]) -> list[str]:
    """The notes of all files, those of some with their names."""
    of_note: dict[str, list[str]] = {}
    for name, table in zip(names, tables, strict=True):
        for note in table.notes:
            of_note.setdefault(note, []).append(name)
    return [
        note if len(where) == len(names) else f"{listed(where, 3)}: {note}" for note, where in of_note.items()
    ]
