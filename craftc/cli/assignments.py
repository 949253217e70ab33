"""The rows of a table with their clusters, for labels.csv and ``craftc predict``."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, cast

import numpy as np
from scipy.special import softmax

from craftc._common.atomic_write import replacing
from craftc._common.messages import need_pandas
from craftc._common.typing import Ints, Labels
from craftc.cli.columns import ColumnRoles
from craftc.craft import CRAFT
from craftc.describe.view import numbers_by_size
from craftc.reading.files import RawTable, plain_frame
from craftc.reading.like import match_columns
from craftc.table import MixedTable
from craftc.table.out_of_core import tables_of

if TYPE_CHECKING:
    import pandas as pd

_ROWS_AT_ONCE = 1 << 16
_FORMULAS = tuple("=+-@\t\r\n＝＋－＠")  # first characters; spreadsheets normalise the wide ones
_FIRST_COLUMNS = b"row,cluster,"
_CRLF = "\r\n"
_DIGITS = 6  # after the point of margins (nats) and probabilities


def assignments(
    model: CRAFT, table: MixedTable, labels: Labels | None = None, places: Ints | None = None
) -> Iterator[pd.DataFrame]:
    """Frames of some rows each: row, cluster, cost, margin, probability, next.

    `places` (n,): numbers of the rows in their file; None: 0, 1, 2, ...

    `cluster` and `next`, the cheapest of the other clusters, are numbers by size from 1; `name` is there if
    clusters have names of their own. `labels` (n,)
    replace the cheapest cluster of each row. `cost` is in nats, `margin` the nats by which `next` costs more.
    Missing: margin and next with one cluster, probability of a model that defines none.
    """
    pd, number_of = need_pandas(), numbers_by_size(model.cluster_sizes_)
    names = np.array(model.cluster_names_, object) if model._own_names["clusters"] else None
    several = len(number_of) > 1
    for first in range(0, len(table), _ROWS_AT_ONCE):
        part = table.take(slice(first, first + _ROWS_AT_ONCE))
        n = len(part)
        costs = model.transform(part)
        own = model.predict(part) if labels is None else labels[first : first + n]
        at = np.arange(n)
        cost = costs[at, own]
        probability = (
            softmax(-costs, axis=1)[at, own] if hasattr(model, "predict_proba") else np.full(n, np.nan)
        )
        others = costs.copy()
        others[at, own] = np.inf
        following = others.argmin(axis=1)
        yield pd.DataFrame(
            {
                "row": at + first if places is None else places[first : first + n],
                "cluster": number_of[own],
                **({} if names is None else {"name": names[own]}),
                "cost": cost,
                "margin": np.round(others[at, following] - cost, _DIGITS) if several else np.full(n, np.nan),
                "probability": np.round(probability, _DIGITS),
                "next": number_of[following] if several else pd.array([pd.NA] * n, dtype="Int32"),
            }
        )


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


def write_csv(frames: Iterable[pd.DataFrame], file: IO[str]) -> None:
    """Write frames with the same columns one after the other as CSV; numbers read back to the same bits."""
    lines = cast("IO[str]", _Lines(file))  # pandas calls write alone, its stubs want a whole file
    for i, frame in enumerate(frames):
        frame.to_csv(lines, index=False, header=i == 0, lineterminator="\r\n")


class _Lines:
    """Replaces the CR LF of lines by LF: the module csv quotes CR and LF in cells only if both end lines."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file

    def write(self, line: str) -> None:
        self._file.write(f"{line.removesuffix(_CRLF)}\n")


def encoded(fitted: CRAFT, rows: pd.DataFrame) -> MixedTable:
    """The rows as a model sees them."""
    return fitted.schema_.encode(rows, unknown=fitted.unknown, estimator_name="the model")


def labelled(model: CRAFT, roles: ColumnRoles, own_columns: pd.DataFrame) -> Iterator[pd.DataFrame]:
    """The assignments of the rows of a fit, and own columns."""
    table = roles.here
    assert table is not None  # workers that hold the rows write them: dask_cluster.write_by
    places = None
    if not isinstance(table, MixedTable):
        places = table.index.to_numpy()
        table = encoded(model, table)
    first = 0
    for frame in assignments(model, table, model.labels_, places):
        own = own_columns.iloc[first : first + len(frame)].reset_index(drop=True)
        frame = frame.drop(columns="cost")
        own.columns = _free_names(own.columns, frame.columns)
        yield frame.join(own)
        first += len(frame)


def _free_names(names: Iterable[str], taken: Iterable[str]) -> list[str]:
    """The names; ".table" is appended to names that are taken."""
    used, out = set(taken), []
    for name in names:
        while name in used:
            name = f"{name}.table"
        used.add(name)
        out.append(name)
    return out


# ---- files ----


def result_files(table: str, files: Sequence[str], folder: Path) -> dict[str, Path]:
    """The file of the results of each file: sales/may.parquet gives sales/may.csv; folders are created."""
    results = {file: folder / name for file, name in zip(files, result_names(table, files), strict=True)}
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


def result_names(table: str, files: Sequence[str]) -> list[str]:
    """The names of the files of results, relative to their folder."""
    parents = [os.path.dirname(os.path.abspath(file)) for file in files]
    folder = table if os.path.isdir(table) else os.path.commonpath(parents)
    inside = [os.path.relpath(os.path.abspath(file), os.path.abspath(folder)) for file in files]
    short = [str(Path(name).with_suffix(".csv")) for name in inside]
    return [own if short.count(own) == 1 else f"{name}.csv" for own, name in zip(short, inside, strict=True)]


def write_assignments(
    fitted: CRAFT,
    file: str,
    result: str | os.PathLike[str],
    *,
    within: str | os.PathLike[str] | None = None,
    check: Callable[[], None] | None = None,
) -> dict[str, None]:
    """Write the assignments of a file's rows, in folder `within` until done; returns notes on columns."""
    notes: dict[str, None] = {}
    with replacing(result, within=within) as out:
        write_csv(streamed_assignments(fitted, file, notes, check), out)
    return notes


def streamed_assignments(
    fitted: CRAFT, file: str, notes: dict[str, None], check: Callable[[], None] | None = None
) -> Iterator[pd.DataFrame]:
    """The assignments of the rows of a file, in parts, each after a call of `check`; adds to `notes`."""
    first = 0
    for part in tables_of(file):
        rows, noted = match_columns(RawTable(plain_frame(part.to_pandas())), fitted.schema_, file)
        notes |= dict.fromkeys(noted)
        for frame in assignments(fitted, encoded(fitted, rows)):
            if check is not None:
                check()
            yield frame.assign(row=frame["row"] + first)
        first += len(part)
    if not first:  # the names of the columns
        schema = fitted.schema_
        levels = {name: own[0] for name, own in zip(schema.categorical_names, schema.levels, strict=True)}
        cells = {name: [levels[name]] if name in levels else [0.0] for name in schema.columns}
        yield next(assignments(fitted, encoded(fitted, need_pandas().DataFrame(cells)))).iloc[:0]
