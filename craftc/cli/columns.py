"""The roles of a table's columns on the command line, and the columns that a model expects.

The role of a column is decided in three steps, each with its own rule: in `craftc.reading.read_table`, by the
cells of a file or frame; in `craftc.table.frames`, by the dtype of a frame's column; and in
`craftc.table.numeric_encoding`, which converts numeric columns within the model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from craftc._common.messages import as_text, listed, need_pandas, quoted
from craftc.distributed.dask.inputs import DaskFiles
from craftc.reading.cells import NA_VALUES, NUMERIC_NA_VALUES
from craftc.reading.files import RawTable
from craftc.reading.input_file import TableError, did_you_mean
from craftc.reading.prepare import Roles, prepare
from craftc.table import MixedTable, Schema
from craftc.table.dates import PARTS, part_name
from craftc.table.level_column import MISSING_LEVEL

if TYPE_CHECKING:
    import pandas as pd

    from craftc.cli.arguments import ClusterOptions

_ROWS = 1 << 16  # in which missing cells are counted at a time
_MOST = 12  # names that an error lists


@dataclass
class ColumnRoles:
    """The role of every column of a table, and the columns that are clustered."""

    features: pd.DataFrame | MixedTable | DaskFiles  # in memory, read in batches, or read by workers
    levels: str | list[str] = "auto"  # `categorical` of the estimator
    target: pd.Series | None = None  # known classes or numbers
    numeric: list[str] = field(default_factory=list)
    categorical: list[str] = field(default_factory=list)
    codes: list[str] = field(default_factory=list)  # categorical columns that the file has as integers
    excluded: dict[str, str] = field(default_factory=dict)  # column: reason
    notes: list[str] = field(default_factory=list)

    @property
    def here(self) -> pd.DataFrame | MixedTable | None:
        """The rows, unless workers of a cluster hold them."""
        return None if isinstance(self.features, DaskFiles) else self.features

    @cached_property
    def n_missing(self) -> int:
        """Missing cells of the columns that are clustered."""
        table = self.features
        if isinstance(table, DaskFiles):
            return table.n_missing
        if not isinstance(table, MixedTable):
            return int(table.isna().to_numpy().sum())
        code = [
            len(levels) - (levels[-1:] == (MISSING_LEVEL,) and table.schema.missing == "category")
            for levels in table.levels
        ]
        slices = (slice(start, start + _ROWS) for start in range(0, len(table), _ROWS))
        return sum(
            int(np.isnan(table.numeric[rows]).sum()) + int((table.codes[rows] == code).sum())
            for rows in slices
        )


def assign_roles(raw: RawTable, options: ClusterOptions) -> ColumnRoles:
    """Decide the role of each column of a table, as `craftc.read_table` does."""
    names = list(raw.frame.columns)
    check_named(names, options)
    named = named_exclusions(options)
    excluded = {name: named[name] for name in names if name in named}
    if len(excluded) == len(names):
        raise TableError("No column is left to cluster: all of them are named by --target or --ignore.")
    features = RawTable(raw.frame.drop(columns=list(excluded)), raw.notes, raw.semicolons)
    dates_as = "days" if options.dates == "auto" else options.dates
    wanted = Roles(
        options.categorical,
        options.numeric,
        dates_as=dates_as,
        decimal=options.decimal,
        numeric_problem="--numeric needs numbers",
    )
    table = prepare(features, wanted, na_values=options.na)
    roles = ColumnRoles(table.frame, codes=table.codes, notes=table.notes, excluded=table.unusable | excluded)
    if options.target is not None:
        classes = RawTable(raw.frame[[options.target]], [], raw.semicolons)
        roles.target = target_of(classes, options)
    is_numeric = need_pandas().api.types.is_numeric_dtype
    for name in table.frame.columns:
        (roles.numeric if is_numeric(table.frame[name].dtype) else roles.categorical).append(name)
    return roles


def target_of(classes: RawTable, options: ClusterOptions) -> pd.Series:
    """The target, converted as a column of the table."""
    name = options.target
    return prepare(classes, Roles(kept=[str(name)]), na_values=options.na, drop=False).frame[name]


def named_exclusions(options: ClusterOptions) -> dict[str, str]:
    """The columns that options exclude, each with the reason."""
    target = {} if options.target is None else {options.target: "the target"}
    return dict.fromkeys(options.ignore, "--ignore") | target


def check_named(names: Sequence[str], options: ClusterOptions) -> None:
    """Raise TableError unless the columns that options name exist and have one role."""
    known_names = set(names)
    for option, requested in (
        ("--target", [] if options.target is None else [options.target]),
        ("--ignore", options.ignore),
        ("--categorical", options.categorical),
        ("--numeric", options.numeric),
    ):
        for name in requested:
            if name not in known_names:
                known = did_you_mean(name, names) or f" The columns are {listed(names, _MOST)}."
                raise TableError(f"{option}: the table has no column {quoted(name)}.{known}")
    for name in options.categorical:
        if name in options.numeric:
            raise TableError(
                f"Column {quoted(name)} is named by both --categorical and --numeric; keep one of them."
            )


# ---- new rows for a model ----


def match_columns(
    raw: RawTable, schema: Schema, path: str, na_values: Sequence[str] = ()
) -> tuple[pd.DataFrame, list[str]]:
    """Select and convert the columns that a model expects, whatever the cells are; returns them, and notes.

    `path` names the table in messages.
    """
    frame = raw.frame
    if not schema.named:  # the model was fitted on an array
        if frame.shape[1] != schema.n_columns:
            raise TableError(
                f"{path!r} has {frame.shape[1]} columns, but the model was fitted on {schema.n_columns} "
                "columns without names; pass a table with the same columns in the same order."
            )
        frame = frame.set_axis(list(schema.columns), axis=1)
    names, wanted = list(frame.columns), set(schema.columns)
    parts = {name: {part_name(name, part, frame.columns) for part in PARTS} for name in names}
    dates = {name for name, columns in parts.items() if not columns.isdisjoint(wanted)}
    dates |= {schema.columns[j] for j in schema.dates}
    found = {*names, *(part for name in dates for part in parts.get(name, ()))}
    absent = [name for name in schema.columns if name not in found]
    unused = [name for name in names if name not in dates and name not in wanted]
    if absent:
        hint = did_you_mean(absent[0], unused)
        raise TableError(f"{path!r} lacks column(s) of the model: {listed(absent, _MOST)}.{hint}")
    roles = Roles(
        schema.categorical_names,
        [name for name in schema.numeric_names if name not in dates],
        dates,
        dates_as="parts",
        all_parts=True,
        numeric_problem="the model expects numbers",
    )
    used = RawTable(frame.drop(columns=unused), raw.notes, raw.semicolons)
    table = prepare(used, roles, na_values=na_values, drop=False)
    notes = list(table.notes)
    if unused:
        notes.append(f"columns that are not in the model are ignored: {listed(unused, _MOST)}.")
    absent = [name for name in schema.columns if name not in table.frame.columns]
    if absent:
        lacks = f"{path!r} lacks column(s) of the model: {listed(absent, _MOST)}"
        raise TableError(f"{lacks}, because a column holds no dates.")
    columns: dict[str, pd.Series | None] = dict.fromkeys(schema.columns)
    for name in schema.numeric_names:
        columns[name] = table.frame[name].astype(np.float64)
    for name, levels in zip(schema.categorical_names, schema.levels, strict=True):
        columns[name] = _levels(table.frame[name], {str(level) for level in levels}, notes)
    return need_pandas().DataFrame(columns), notes


def _levels(column: pd.Series, known: set[str], notes: list[str]) -> pd.Series:
    """A categorical column with its cells replaced by the model's spelling of the levels."""
    level_of: dict[object, str | None] = {}
    for cell in column.dropna().unique():
        text = as_text(cell)
        level_of[cell] = next((spelling for spelling in _spellings(text) if spelling in known), text)
        if level_of[cell] not in known and text.casefold() in (*NA_VALUES, *NUMERIC_NA_VALUES):
            level_of[cell] = None
    unseen = sorted(level for level in level_of.values() if level is not None and level not in known)
    if unseen:
        notes.append(
            f"{quoted(str(column.name))}: levels that did not occur in fit are treated as missing: "
            f"{listed(unseen)}."
        )
    return column.astype(object).map(level_of).astype("category")


def _spellings(text: str) -> list[str]:
    """Equivalent spellings of a level: 1 and 1.0, TRUE and True."""
    spellings = [text, text.capitalize()] if text.casefold() in ("true", "false") else [text]
    try:
        value = float(text)
    except ValueError:
        return spellings
    return [*spellings, as_text(value), str(value)] if np.isfinite(value) else spellings
