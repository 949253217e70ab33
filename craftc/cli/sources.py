"""Where the rows of a table lie: in memory, in files that are read in batches, or in files that the workers
of a Dask cluster read.
"""

from __future__ import annotations

import glob
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from craftc._common.atomic_write import replacing
from craftc._common.machine import available_memory
from craftc._common.messages import need_pandas
from craftc._common.typing import DaskClient
from craftc.cli.arguments import ClusterOptions, TableOptions
from craftc.cli.assignments import labelled
from craftc.cli.columns import (
    ColumnRoles,
    assign_roles,
    check_named,
    fit_weights,
    groups_in,
    named_exclusions,
    target_of,
)
from craftc.cli.dask_cluster import connected, write_by
from craftc.cli.results import ResultForm, result_files, without_aside
from craftc.cli.writers import without_formulas, write_csv
from craftc.craft import CRAFT, Progress
from craftc.craft.base import CraftBase
from craftc.distributed.dask.inputs import DaskFiles
from craftc.reading.files import FileForm, RawTable
from craftc.reading.input_file import TableError
from craftc.reading.like import match_columns
from craftc.reading.many_files import COLUMNAR_SUFFIXES, is_table_name
from craftc.reading.read_table import open_like, open_table
from craftc.reading.records import Header
from craftc.reading.unusable import DATES
from craftc.saved.save_and_load import load_model
from craftc.table import MixedTable, Schema
from craftc.table.kinds import ColumnKind
from craftc.table.out_of_core import Batches, column_types, decoded_size, files_of

if TYPE_CHECKING:
    import pandas as pd

_SHARE = 8  # a data frame takes several times the size of the decoded file, and the fit as much again
_TIMES = ("date", "timestamp", "time", "duration")
_INDEX = "the index of a data frame"
_IN_BATCHES = (
    "The table was read in batches (--in-memory reads it whole): numeric ids and row counters are not "
    "recognised (--ignore), integers are numbers (--categorical), and texts are not read as numbers or dates."
)
_HEADERS: dict[str, Header] = {"infer": "infer", "yes": True, "no": False}

Callback = Callable[[Progress], object]


class TableSource(ABC):
    """The rows of a table for ``craftc cluster``."""

    files: ClassVar[tuple[str, ...]]  # of results, in a folder

    def __init__(self, options: ClusterOptions) -> None:
        self.options = options

    @abstractmethod
    def roles(self) -> ColumnRoles:
        """Read the table, or only the types of its columns, and decide the roles of the columns."""

    def fit(self, model: CRAFT, roles: ColumnRoles, callback: Callback | None) -> None:
        model.fit(roles.features, sample_weight=roles.weight, groups=roles.groups, callback=callback)

    def write_labels(self, folder: Path, model: CRAFT, roles: ColumnRoles) -> None:
        """Write the cluster of every row."""
        frames = labelled(model, roles, self._own_columns(roles))
        with replacing(folder / "labels.csv") as file:
            write_csv(map(without_formulas, frames) if self.options.escape_formulas else frames, file)

    def _own_columns(self, roles: ColumnRoles) -> pd.DataFrame:
        """The columns of the table that labels.csv repeats."""
        if roles.target is not None:
            return roles.target.to_frame()
        nothing: pd.DataFrame = need_pandas().DataFrame(index=range(len(roles.features)))
        return nothing


class InMemory(TableSource):
    files = ("labels.csv", "summary.csv", "model.craftc", "report.html")

    def roles(self) -> ColumnRoles:
        self._raw = raw_table(self.options)
        return assign_roles(self._raw, self.options)

    def _own_columns(self, roles: ColumnRoles) -> pd.DataFrame:
        return self._raw.frame if self.options.keep else super()._own_columns(roles)


class InBatches(TableSource):
    """Files that are read in batches into scratch files."""

    files = ("labels.csv", "summary.csv", "model.craftc")

    def roles(self) -> ColumnRoles:
        options, columns = self.options, _FileColumns(self.options)
        roles = self._read(columns)
        roles.excluded, roles.notes = columns.excluded, [_IN_BATCHES]
        if options.out is not None:
            need = "and --keep need" if options.keep else "needs"
            roles.notes.append(f"report.html {need} a table in memory, and was left out.")
        roles.numeric = [name for name in columns.names if name not in roles.categorical]
        if options.target is not None:
            target = cells_of_files(options, options.target).to_frame()
            roles.target = target_of(RawTable(target), options)
        if options.groups is not None:
            roles.groups = groups_in(cells_of_files(options, options.groups), options, roles.notes)
        if options.weight is not None:
            roles.weight = fit_weights(cells_of_files(options, options.weight).to_frame(), options)
        return roles

    def _read(self, columns: _FileColumns) -> ColumnRoles:
        table, missing, scratch = self.options.source, self.options.missing, self.options.scratch
        with _column_errors():
            features = MixedTable.from_parquet(
                table, columns=columns.names, categorical=columns.levels, missing=missing, scratch=scratch
            )
        return ColumnRoles(features, categorical=list(features.categorical_names))


class OnCluster(InBatches):
    """Files that the workers of a Dask cluster read."""

    files = ("labels/", "summary.csv", "model.craftc")

    def __init__(self, options: ClusterOptions, client: DaskClient) -> None:
        super().__init__(options)
        self.client = client

    def _read(self, columns: _FileColumns) -> ColumnRoles:
        levels, features = columns.levels, DaskFiles(self.options.source, self.client, columns.names)
        categorical = columns.categorical if isinstance(levels, str) else levels
        return ColumnRoles(features, levels, categorical=categorical)

    def fit(self, model: CRAFT, roles: ColumnRoles, callback: Callback | None) -> None:
        with _column_errors():
            super().fit(model, roles, callback)

    def write_labels(self, folder: Path, model: CRAFT, roles: ColumnRoles) -> None:
        """Write one file of labels for each file of the table, by the workers."""
        files = files_of(self.options.source)
        results = result_files(self.options.table, files, folder / "labels", "csv")
        write_by(self.client, model, results, str(self.options.scheduler), ResultForm())


@contextmanager
def opened(options: ClusterOptions) -> Iterator[TableSource]:
    if not is_read_in_batches(options):
        yield InMemory(options)
        return
    if options.stability is not None:
        raise ValueError("--stability needs a table in memory; pass --in-memory, or leave it out.")
    if options.scheduler is None:
        yield InBatches(options)
        return
    needs = (
        options.groups,
        options.min_cluster_size,
        options.max_cluster_size,
        options.weight,
        options.outlier_price,
    )
    if any(need is not None for need in needs):
        raise ValueError(
            "--groups, --min-cluster-size, --max-cluster-size, --weight and --outlier-price need all rows in "
            "one process; leave out --scheduler."
        )
    with connected(options.scheduler) as client:
        yield OnCluster(options, client)


def raw_table(options: TableOptions, schema: Schema | None = None) -> RawTable:
    """The table of the options; `schema` of a model says what they leave open."""
    form = FileForm(
        _HEADERS[options.header],
        options.skip,
        options.delimiter,
        options.encoding,
        options.sheet,
        options.all_lines,
    )
    return open_table(options.source, form) if schema is None else open_like(options.source, form, schema)


def cells_of_files(options: TableOptions, name: str) -> pd.Series:
    """A column of files that are read in batches, in memory."""
    parts = [batch.to_pandas()[name] for _, batch in Batches(options.source, [name])]
    column: pd.Series = need_pandas().concat(parts, ignore_index=True)
    return column


def table_like(
    options: TableOptions, schema: Schema, *, aside: str | None = None, new_levels: bool = False
) -> tuple[RawTable, pd.DataFrame, list[str]]:
    """The table of the options as it is, its rows with the columns of a model, and notes. `aside`: a column
    that is used, though not by the model.
    """
    raw = raw_table(options, schema)
    used = replace(raw, frame=without_aside(raw.frame, schema, aside))
    rows, notes = match_columns(used, schema, options.table, options.na, new_levels=new_levels)
    return raw, rows, notes


def is_read_in_batches(options: TableOptions, each_file: bool = False) -> bool:
    """Whether a table is read in batches: by options, or Parquet or Arrow files that are large, or lie in
    folders of a folder. `each_file`: several files are, however small, because each has a result.
    """
    if options.in_batches is not None or options.scheduler is not None:
        return options.in_batches is not False
    paths = [options.table, *options.more]
    try:  # the reader in memory reports the problem of a file
        several = len(paths) > 1 or not os.path.isfile(options.table)
        named = several or options.table.lower().endswith(COLUMNAR_SUFFIXES)
        if options.table == "-" or not named or not _are_columnar(paths):
            return False
        if several and (each_file or any(map(_has_folders, paths))):
            return True
        available = available_memory()
        return available is not None and _SHARE * decoded_size(paths) > available
    except (OSError, ImportError, ValueError, TypeError):
        return False


def _are_columnar(paths: Sequence[str]) -> bool:
    """Whether files, folders and patterns hold Parquet or Arrow files, and no other tables."""
    names = [path for path in paths if os.path.isfile(path)]
    names += [name for path in paths if os.path.isdir(path) for name in os.listdir(path)]
    others = any(is_table_name(name) and not name.lower().endswith(COLUMNAR_SUFFIXES) for name in names)
    return not others and bool(files_of(paths))


def _has_folders(path: str) -> bool:
    """Whether a folder holds folders, or a pattern matches them, whose files the reader in memory leaves."""
    inside = os.path.join(glob.escape(path), "*") if os.path.isdir(path) else path
    return any(map(os.path.isdir, glob.glob(inside)))


def refuse_further_missing_cells(options: TableOptions) -> None:
    """Raise ValueError if an option names further missing cells of a table that is read in batches."""
    if options.na:
        raise ValueError("--na needs a table in memory; pass --in-memory, or write the cells as null.")


class _FileColumns:
    """The columns of files that are read in batches, whose types decide their roles."""

    def __init__(self, options: ClusterOptions) -> None:
        refuse_further_missing_cells(options)
        types, named = column_types(options.source), named_exclusions(options)
        check_named(list(types), options)
        for name in options.numeric:
            kind, of_type = types[name]
            if kind not in (ColumnKind.NUMBER, ColumnKind.EMPTY):
                raise TableError(
                    f"--numeric: {name!r} is {of_type}, which batches do not convert; pass --in-memory, or "
                    "write numbers."
                )
        self.excluded = {name: _INDEX for name in types if re.fullmatch(r"__index_level_\d+__", name)}
        self.excluded |= {name: named[name] for name in types if name in named}
        others = {
            name: of_type
            for name, (kind, of_type) in types.items()
            if kind == ColumnKind.OTHER and name not in self.excluded
        }
        if options.dates == "drop":
            self.excluded |= {name: DATES for name, of_type in others.items() if of_type.startswith(_TIMES)}
            others = {name: of_type for name, of_type in others.items() if name not in self.excluded}
        if others:
            words = " ".join(f"'{name}'" if " " in name else name for name in others)
            found = ", ".join(f"{name!r} is {of_type}" for name, of_type in others.items())
            raise TableError(
                f"Tables that are read in batches hold numbers, text and booleans, but {found}: "
                f"--ignore {words} excludes {'it' if len(others) == 1 else 'them'}, --in-memory reads dates."
            )
        self.names = [name for name in types if name not in self.excluded]
        if not self.names:
            raise TableError(
                "No column is left to cluster: all of them are named by --target or --ignore, or are dates."
            )
        self.categorical = [name for name in self.names if types[name][0].is_categorical]
        self.levels: str | list[str] = "auto"  # `categorical` of the estimator
        if options.categorical or options.numeric:
            by_type = set(self.categorical).difference(options.numeric)
            self.levels = [name for name in self.names if name in options.categorical or name in by_type]


@contextmanager
def _column_errors() -> Iterator[None]:
    """Errors about columns say how a column is excluded."""
    try:
        yield
    except ValueError as error:
        if "Column " not in str(error):
            raise
        raise TableError(f"{str(error).rstrip('.')} (--ignore COL excludes a column).") from error


def model_file(model: str) -> Path:
    """The file of a model: the argument, or model.craftc in a folder that ``craftc cluster --out`` wrote."""
    path = Path(model)
    if path.is_dir():
        path /= "model.craftc"
        if not path.exists():
            raise ValueError(
                f"The folder {model!r} has no model.craftc; pass a folder that craftc cluster --out has "
                "written."
            )
    return path


def clusters_of(model: str, threads: int | None, table: str, out: str | None = None) -> CraftBase:
    """The model of a command, which no result overwrites."""
    path = model_file(model)
    if out is not None and os.path.exists(out):
        for name in (path, table):
            if os.path.exists(name) and os.path.samefile(out, name):
                raise ValueError(f"--out {out!r} would overwrite an input file; pass another name.")
    fitted = load_model(path)
    if not isinstance(fitted, CraftBase):
        raise ValueError(
            f"{os.fspath(path)!r} holds a fitted {type(fitted).__name__}; this command needs a CRAFT."
        )
    fitted.n_threads = threads
    return fitted
