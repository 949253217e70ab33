"""Tables that the command line reads in batches, because they do not fit into memory."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from craftc._common.atomic_write import replacing
from craftc._common.machine import available_memory
from craftc._common.messages import need_pandas
from craftc.cli.assignments import assignments, write_csv
from craftc.cli.columns import ColumnRoles, check_named, match_columns
from craftc.distributed.dask.files import DaskFiles
from craftc.reading.files import RawTable, plain_frame
from craftc.reading.input_file import TableError
from craftc.reading.read_table import Roles, prepare
from craftc.reading.unusable import DATES
from craftc.table import MixedTable
from craftc.table.kinds import Kind
from craftc.table.out_of_core import Batches, column_types, decoded_size, files_of, tables_of

_SHARE = 8  # a data frame takes several times the size of the decoded file, and the fit as much again
_SUFFIXES = (".parquet", ".pq", ".feather", ".arrow", ".ipc")
_TIMES = ("date", "timestamp", "time", "duration")
_INDEX = "the index of a data frame"
_LEFT_OUT = (
    "The table was read in batches (--in-memory reads it whole): numeric ids and row counters are not "
    "recognised (--ignore), integers are "
    "numbers (--categorical), and texts are not read as numbers or dates."
)


def is_read_in_batches(table: str, wanted: bool | None) -> bool:
    """Whether a table is read in batches.

    Parameters
    ----------
    table : str
        File, folder or pattern.
    wanted : bool or None
        What an option says; None: folders and patterns, and Parquet or Arrow files above an eighth of the
        memory that is available.
    """
    several = table != "-" and (os.path.isdir(table) or (glob.has_magic(table) and not os.path.exists(table)))
    if several and wanted is False:
        raise ValueError(f"--in-memory reads one file, but {table!r} is a folder or a pattern.")
    if wanted is not None:
        return wanted
    if several:
        try:
            return bool(files_of(table))
        except (OSError, ImportError, ValueError, TypeError):  # the reader in memory says what is wrong
            return False
    if not table.lower().endswith(_SUFFIXES) or not os.path.isfile(table):
        return False
    available = available_memory()
    try:
        return available is not None and _SHARE * decoded_size(table) > available
    except (OSError, ImportError, ValueError):
        return False


def read_roles(
    table: str,
    *,
    target: str | None,
    ignore: Sequence[str],
    categorical: Sequence[str],
    numeric: Sequence[str],
    na_values: Sequence[str],
    split_dates: bool,
    missing: str,
    scratch: str | None,
    client: Any = None,
) -> ColumnRoles:
    """The columns of a table in scratch files, or of files that the workers of a cluster read; the types of
    its columns decide their roles.

    Parameters
    ----------
    table : str
        File, folder or pattern.
    target, ignore, categorical, numeric, na_values, split_dates
        As in `assign_roles`. Further missing cells, and dates that are split, are errors.
    missing : {"ignore", "category", "error"}
    scratch : str, optional
        Folder of the scratch files.
    client : distributed.Client, optional
        Of a cluster whose workers read the files.

    Returns
    -------
    ColumnRoles
        `features` is a MixedTable, or DaskFiles.
    """
    if na_values:
        raise ValueError("--na needs a table in memory; pass --in-memory, or write the cells as null.")
    types = column_types(table)
    check_named(list(types), target, ignore, categorical, numeric)
    for name in numeric:
        if types[name][0] not in (Kind.NUMBER, Kind.EMPTY):
            raise TableError(
                f"--numeric: {name!r} is {types[name][1]}, which batches do not convert; pass --in-memory, "
                "or write numbers."
            )
    excluded = {name: _INDEX for name in types if re.fullmatch(r"__index_level_\d+__", name)}
    excluded |= {
        name: "the target" if name == target else "--ignore"
        for name in types
        if name == target or name in ignore
    }
    others = {
        name: of_type
        for name, (kind, of_type) in types.items()
        if kind == Kind.OTHER and name not in excluded
    }
    if not split_dates:
        excluded |= {name: DATES for name, of_type in others.items() if of_type.startswith(_TIMES)}
    refused = [name for name in others if name not in excluded]
    if refused:
        words = " ".join(f"'{name}'" if " " in name else name for name in refused)
        found = ", ".join(f"{name!r} is {others[name]}" for name in refused)
        raise TableError(
            f"Tables that are read in batches hold numbers, text and booleans, but {found}: "
            f"--ignore {words} excludes {'it' if len(refused) == 1 else 'them'}, --in-memory reads dates."
        )
    names = [name for name in types if name not in excluded]
    if not names:
        raise TableError(
            "No column is left to cluster: all of them are named by --target or --ignore, or are dates."
        )
    levels: Any = "auto"
    if categorical or numeric:
        levels = [
            name
            for name in names
            if name in categorical or (types[name][0].is_categorical and name not in numeric)
        ]
    if client is None:
        with column_errors():
            features: Any = MixedTable.from_parquet(
                table, columns=names, categorical=levels, missing=missing, scratch=scratch
            )
        own = list(features.categorical_names)
    else:
        features = DaskFiles(table, client, names)
        own = [name for name in names if types[name][0].is_categorical] if levels == "auto" else levels
    roles = ColumnRoles(features, levels, excluded=excluded, notes=[_LEFT_OUT])
    roles.numeric, roles.categorical = [name for name in names if name not in own], own
    if target is not None:
        roles.target = _one_column(table, target)
    return roles


@contextmanager
def column_errors() -> Iterator[None]:
    """Errors about columns say how a column is excluded."""
    try:
        yield
    except ValueError as error:
        if "Column " not in str(error):
            raise
        raise TableError(f"{str(error).rstrip('.')} (--ignore COL excludes a column).") from error


def _one_column(table: str, name: str) -> Any:
    """A column of the whole table as a Series."""
    parts = [batch.to_pandas()[name] for _, batch in Batches(table, [name])]
    frame = need_pandas().concat(parts, ignore_index=True).to_frame()
    return prepare(RawTable(frame), Roles(kept=[name]), drop=False).frame[name]


# ---- predictions ----


def result_names(table: str, files: Sequence[str]) -> list[str]:
    """The file of the results of every file, relative to the folder of results: sales/may.parquet gives
    sales/may.csv.
    """
    folder = (
        table
        if os.path.isdir(table)
        else os.path.commonpath([os.path.dirname(os.path.abspath(file)) for file in files])
    )
    inside = [os.path.relpath(os.path.abspath(file), os.path.abspath(folder)) for file in files]
    short = [str(Path(name).with_suffix(".csv")) for name in inside]
    return [own if short.count(own) == 1 else f"{name}.csv" for own, name in zip(short, inside, strict=True)]


def write_assignments(
    fitted: Any,
    file: str,
    result: str | os.PathLike[str],
    *,
    within: str | os.PathLike[str] | None = None,
    check: Callable[[], None] | None = None,
) -> dict[str, None]:
    """Write the assignments of the rows of a file; returns the notes about its columns.

    The unfinished file lies in the folder `within`; `check` is called before each part, and stops the writing
    by an error.
    """
    notes: dict[str, None] = {}
    with replacing(result, within=within) as out:
        frames = streamed_assignments(fitted, file, notes)
        write_csv(frames if check is None else _checked(frames, check), out)
    return notes


def _checked(frames: Iterator[Any], check: Callable[[], None]) -> Iterator[Any]:
    for frame in frames:
        check()
        yield frame


def streamed_assignments(fitted: Any, file: str, notes: dict[str, None]) -> Iterator[Any]:
    """The assignments of the rows of a file, some at a time; what was noted about its columns is added to
    `notes`.
    """
    first = 0
    for part in tables_of(file):
        rows, noted = match_columns(RawTable(plain_frame(part.to_pandas())), fitted.schema_, file)
        notes |= dict.fromkeys(noted)
        for frame in assignments(
            fitted, fitted.schema_.encode(rows, unknown=fitted.unknown, estimator_name="the model")
        ):
            yield frame.assign(row=frame["row"] + first)
        first += len(part)
    if not first:  # the names of the columns
        schema = fitted.schema_
        levels = {name: own[0] for name, own in zip(schema.categorical_names, schema.levels, strict=True)}
        cells = {name: [levels[name]] if name in levels else [0.0] for name in schema.columns}
        one = schema.encode(need_pandas().DataFrame(cells), unknown="ignore", estimator_name="the model")
        yield next(assignments(fitted, one)).iloc[:0]
