"""Files of results: the clusters of the rows of tables, as ``craftc predict`` writes them, and the manifest
of a folder of results, which says which files are done, so that a second run continues where the first ended.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from craftc._about import version
from craftc._common.atomic_write import replacing
from craftc._common.messages import need_pandas
from craftc._common.typing import Ints
from craftc.cli.assignments import assignments, encoded, free_names
from craftc.cli.weights import LaterRows
from craftc.cli.writers import result_file
from craftc.craft.base import CraftBase
from craftc.craft.rows.scores import OUTLIER
from craftc.describe.words import plural
from craftc.reading.files import RawTable, plain_frame
from craftc.reading.input_file import TableError, did_you_mean
from craftc.reading.like import match_columns, note_of_unused
from craftc.table import MixedTable, Schema
from craftc.table.out_of_core import tables_of

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

_FIRST_COLUMNS = b"row,cluster,"

NAME = "manifest.json"


@dataclass(frozen=True)
class ResultForm:
    """What the rows of results hold besides the clusters."""

    ids: tuple[str, ...] = ()  # columns in place of the number of the row
    keep: bool = False  # whether all columns of the table follow


@dataclass(frozen=True)
class Written:
    """What was written to a file."""

    rows: int = 0
    notes: list[str] = field(default_factory=list)


def write_assignments(
    fitted: CraftBase,
    file: str,
    result: str | os.PathLike[str],
    form: ResultForm,
    *,
    within: str | os.PathLike[str] | None = None,
    check: Callable[[], None] | None = None,
    seen: LaterRows | None = None,
) -> Written:
    """Write the assignments of a file's rows, in folder `within` until done.

    `check` is called before rows are written; `seen` counts them.
    """
    notes, rows = dict[str, None](), 0
    with result_file(result, within=within) as write:
        for frame in counting_outliers(
            streamed_assignments(fitted, file, form, notes, seen), lambda note: notes.setdefault(note)
        ):
            if check is not None:
                check()
            write(frame)
            rows += len(frame)
    return Written(rows, list(notes))


def counting_outliers(frames: Iterable[pd.DataFrame], say: Callable[[str], object]) -> Iterator[pd.DataFrame]:
    """The frames; `say` gets a note behind the last one if rows fit no cluster."""
    rows = outliers = 0
    for frame in frames:
        rows += len(frame)
        outliers += int((frame["cluster"] == OUTLIER).sum())
        yield frame
    if outliers:
        say(f"{outliers} of {plural(rows, 'row')} fit no cluster and have the cluster {OUTLIER}.")


def without_aside(frame: pd.DataFrame, schema: Schema, aside: str | None) -> pd.DataFrame:
    """The frame without a column that is used, though not by the model."""
    used = aside in frame.columns and not (schema.named and aside in schema.columns)
    return frame.drop(columns=[aside]) if used else frame


def streamed_tables(
    fitted: CraftBase, file: str, notes: dict[str, None], aside: str | None = None
) -> Iterator[tuple[MixedTable, pa.Table, pd.DataFrame | None]]:
    """The rows of a file in parts: as the model sees them, as they are, and their data frame where cells had
    to be read; adds to `notes`. `aside`: a column that is used, though not by the model.
    """
    first = 0
    for part in tables_of(file):
        frame: pd.DataFrame | None = None
        table = _as_it_is(fitted, part, notes, aside)
        if table is None:
            frame = plain_frame(part.to_pandas())
            rows, noted = match_columns(
                RawTable(without_aside(frame, fitted.schema_, aside)), fitted.schema_, file
            )
            notes |= dict.fromkeys(noted)
            table = rows_as_seen(fitted, rows, file, first)
        yield table, part, frame
        first += len(part)


def streamed_assignments(
    fitted: CraftBase, file: str, form: ResultForm, notes: dict[str, None], seen: LaterRows | None = None
) -> Iterator[pd.DataFrame]:
    """The assignments of the rows of a file, in parts; adds to `notes`."""
    first = 0
    aside = None if seen is None else seen.aside
    for table, part, frame in streamed_tables(fitted, file, notes, aside):
        if frame is None and (form.ids or form.keep):
            frame = plain_frame(part.to_pandas())
        if seen is not None:
            seen.add(table, part)
        yield from with_columns(fitted, table, np.arange(first, first + len(part)), frame, form, file)
        first += len(part)
    if not first:  # the names of the columns
        schema = fitted.schema_
        levels = {name: own[0] for name, own in zip(schema.categorical_names, schema.levels, strict=True)}
        cells = {name: [levels[name]] if name in levels else [0.0] for name in schema.columns}
        table = encoded(fitted, need_pandas().DataFrame(cells))
        own = need_pandas().DataFrame({name: [None] for name in form.ids}) if form.ids else None
        only = ResultForm(form.ids)
        yield next(with_columns(fitted, table, np.zeros(1, np.intp), own, only, file)).iloc[:0]


def with_columns(
    fitted: CraftBase,
    table: MixedTable,
    places: Ints,
    own: pd.DataFrame | None,
    form: ResultForm,
    file: str,
) -> Iterator[pd.DataFrame]:
    """The assignments of rows: ids or the number of the row, cluster, its name, cost, margin, probability,
    next, and the other columns of the table.

    `own` has the rows of `table`; None: no columns are repeated.
    """
    pd, first = need_pandas(), 0
    absent = [name for name in form.ids if own is None or name not in own.columns]
    if absent:
        known = [] if own is None else [str(name) for name in own.columns]
        raise TableError(f"--id: {file!r} has no column {absent[0]!r}.{did_you_mean(absent[0], known)}")
    for frame in assignments(fitted, table, places=places):
        if own is not None:
            cells = own.iloc[first : first + len(frame)].reset_index(drop=True)
            if form.ids:
                frame = frame.drop(columns="row")
                frame = pd.concat([_renamed(cells[list(form.ids)], frame), frame], axis=1)
            if form.keep:
                frame = pd.concat([frame, _renamed(cells.drop(columns=list(form.ids)), frame)], axis=1)
        first += len(frame)
        yield frame


def _renamed(columns: pd.DataFrame, others: pd.DataFrame) -> pd.DataFrame:
    """Columns whose names differ from those of others."""
    return columns.set_axis(free_names(columns.columns, others.columns), axis=1)


# ---- rows as the model sees them ----


def _as_it_is(
    fitted: CraftBase, part: pa.Table, notes: dict[str, None], aside: str | None = None
) -> MixedTable | None:
    """The rows of a file that hold what the model expects, so that no cell has to be read; None: others.

    Texts that are no level may be another spelling of one, or a sign for a missing cell: they are read.
    """
    import pyarrow as pa

    schema, reading = fitted.schema_, fitted.schema_.reading
    recipes = reading.get("columns", {})
    if not schema.named or reading.get("file", {}).get("na_values") or schema.dates:
        return None
    names, known = list(schema.columns), set(part.column_names)
    if not known.issuperset(names) or any(name in recipes for name in names):
        return None
    for name in schema.numeric_names:
        of_type = part.schema.field(name).type
        if not (pa.types.is_integer(of_type) or pa.types.is_floating(of_type)):
            return None
    try:
        table = schema.encode(part.select(names), unknown="error")
    except (ValueError, TypeError):  # which the careful way explains, or reads
        return None
    unused = [name for name in part.column_names if name not in schema.columns and name != aside]
    if unused:
        notes[note_of_unused(unused)] = None
    return table


def rows_as_seen(fitted: CraftBase, rows: pd.DataFrame, file: str, first: int = 0) -> MixedTable:
    """The rows as the model sees them; an error names the file and the row. `first`: number of the first
    row, unless the index has the numbers.
    """
    try:
        return encoded(fitted, rows)
    except (ValueError, TypeError):
        low, high = 0, len(rows)  # the first `low` rows have no error, the first `high` have one
        while high - low > 1:
            middle = (low + high) // 2
            try:
                encoded(fitted, rows.iloc[:middle])
                low = middle
            except (ValueError, TypeError) as earlier:
                high, error = middle, earlier
        raise ValueError(f"{file!r}, row {first + int(rows.index[low])}: {error}") from error


# ---- names ----


def result_files(table: str, files: Sequence[str], folder: Path, ending: str) -> dict[str, Path]:
    """The file of the results of each file: sales/may.parquet gives sales/may.csv; folders are created."""
    names = result_names(table, files, ending)
    results = {file: folder / name for file, name in zip(files, names, strict=True)}
    for result in results.values():
        result.parent.mkdir(parents=True, exist_ok=True)
    return results


def results_in(folder: Path) -> list[str]:
    """The results of earlier runs in a folder and in those within it: tables that begin with our columns."""
    found = []
    for path in sorted(folder.rglob("*.csv")):
        with path.open("rb") as file:
            if file.readline(len(_FIRST_COLUMNS)) == _FIRST_COLUMNS:
                found.append(str(path.relative_to(folder)))
    return found


def result_names(table: str, files: Sequence[str], ending: str = "csv") -> list[str]:
    """The names of the files of results, relative to their folder."""
    parents = [os.path.dirname(os.path.abspath(file)) for file in files]
    folder = table if os.path.isdir(table) else os.path.commonpath(parents)
    inside = [os.path.relpath(os.path.abspath(file), os.path.abspath(folder)) for file in files]
    short = [f"{Path(name).with_suffix('')}.{ending}" for name in inside]
    return [
        own if short.count(own) == 1 else f"{name}.{ending}" for own, name in zip(short, inside, strict=True)
    ]


@dataclass(frozen=True)
class Entry:
    """One file of the table, and its results."""

    file: str
    result: str  # relative to the folder of the manifest
    state: str  # {"done", "failed", "waiting"}
    rows: int | None = None
    bytes: int | None = None  # of the file, when its rows were read
    modified: int | None = None  # of the file, nanoseconds since 1970
    error: str | None = None


def checksum_of(path: str | os.PathLike[str]) -> str:
    """The SHA-256 of a file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class Manifest:
    """The states of the files of one table, written after every change.

    `settings`: what the results depend on besides the files; those of other settings are not continued.
    """

    def __init__(self, folder: Path, results: Mapping[str, Path], settings: Mapping[str, object]) -> None:
        self._path, self._settings = folder / NAME, {"craftc": version(), **settings}
        former_settings, former = self._read()
        own = {os.path.relpath(each, folder) for each in results.values()}
        #: Results of an earlier run that are still there and that this one does not write.
        self.others = sorted(self._present(former.values()).difference(own))
        if former_settings != self._settings:
            former = {}
        self.entries = dict[str, Entry]()
        for file, result in results.items():
            name = os.path.relpath(result, folder)
            before = former.get(file)
            done = before is not None and before.result == name and self._is_done(before, result)
            self.entries[file] = before if done and before is not None else Entry(file, name, "waiting")

    @property
    def left(self) -> list[str]:
        """The files that are not done."""
        return [file for file, entry in self.entries.items() if entry.state != "done"]

    @property
    def done(self) -> list[Entry]:
        """The files that are done."""
        return [entry for entry in self.entries.values() if entry.state == "done"]

    def finished(self, file: str, rows: int) -> None:
        """Results of a file are complete."""
        entry, found = self.entries[file], os.stat(file)
        self.entries[file] = Entry(file, entry.result, "done", rows, found.st_size, found.st_mtime_ns)
        self._write()

    def failed(self, file: str, error: str) -> None:
        """Results of a file could not be written."""
        self.entries[file] = Entry(file, self.entries[file].result, "failed", error=error)
        self._write()

    def _read(self) -> tuple[object, dict[str, Entry]]:
        """The settings and the entries of the run before."""
        try:
            content = json.loads(self._path.read_text(encoding="utf-8"))
            return content["settings"], {each["file"]: Entry(**each) for each in content["files"]}
        except (FileNotFoundError, ValueError, KeyError, TypeError):  # none, or of another program
            return None, {}

    def _present(self, former: Iterable[Entry]) -> set[str]:
        """The results in the folder: those of the run before, and others that begin with our columns."""
        folder = self._path.parent
        return {each.result for each in former if (folder / each.result).exists()}.union(results_in(folder))

    @staticmethod
    def _is_done(entry: Entry, result: Path) -> bool:
        """Whether the results are there, and those of the file as it is now."""
        if entry.state != "done" or not result.exists():
            return False
        found = os.stat(entry.file)
        return (found.st_size, found.st_mtime_ns) == (entry.bytes, entry.modified)

    def _write(self) -> None:
        files = [
            {name: value for name, value in asdict(entry).items() if value is not None}
            for entry in self.entries.values()
        ]
        with replacing(self._path) as file:
            json.dump({"settings": self._settings, "files": files}, file, indent=1)
            file.write("\n")
