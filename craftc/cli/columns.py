"""The roles of a table's columns on the command line, and the columns that a model expects.

The role of a column is decided in three steps, each with its own rule: here, for table files (text, booleans and integers with few distinct
values are categorical); in `craftc.table.frames`, by the dtype of a frame's column; and in `craftc.table.numeric_encoding`, which converts
numeric columns within the model.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from craftc._common.optional import need_pandas
from craftc.cli.read_table import NA_VALUES, NUMERIC_NA_VALUES, TableError, did_you_mean
from craftc.table import Schema

#: An integer column with at most this many distinct values is categorical: its integers are codes. Not to be confused with
#: `MAX_DISCRETE_VALUES` of `craftc.table.numeric_encoding`, up to which the model treats any numeric column value by value.
MAX_INTEGER_CODES = 5

_DATE = re.compile(
    r"(\d{4}([-/.])\d{1,2}\2\d{1,2}|\d{1,2}([-/])\d{1,2}\3\d{2}(\d{2})?|\d{1,2}\.\d{1,2}\.\d{4})"
    r"([ T]\d{1,2}:\d{2}.*)?"
)

_DATES, _COUNTER = "dates", "row counter"
_ADVICE = {
    _DATES: "Dates are excluded; convert them to numbers (a year, an age in days) to use them.",
    _COUNTER: "Row counters are excluded; --numeric COL includes a column.",
}


@dataclass
class ColumnRoles:
    """The role of every column of a table, and the columns that are clustered."""

    features: Any  # DataFrame
    target: Any = None  # Series of the known classes, if a target was named
    numeric: list[str] = field(default_factory=list)
    categorical: list[str] = field(default_factory=list)
    codes: list[str] = field(default_factory=list)  # categorical columns that the file has as integers
    excluded: dict[str, str] = field(default_factory=dict)  # column: reason
    notes: list[str] = field(default_factory=list)


def assign_roles(
    frame: Any,
    *,
    target: str | None = None,
    ignore: Sequence[str] = (),
    categorical: Sequence[str] = (),
    numeric: Sequence[str] = (),
) -> ColumnRoles:
    """Decide the role of each column of a frame.

    Parameters
    ----------
    frame : pandas.DataFrame
    target, ignore, categorical, numeric : names given by the user
        The column of known classes; columns to exclude; columns to treat as categorical; columns to treat as numeric.

    Returns
    -------
    ColumnRoles
    """
    names = list(frame.columns)
    lists = [("--ignore", ignore), ("--categorical", categorical), ("--numeric", numeric)]
    for option, requested in [("--target", [target] if target is not None else []), *lists]:
        for name in requested:
            if name not in names:
                known = did_you_mean(name, names) or f" The columns are {_list(names)}."
                raise TableError(f"{option}: the table has no column {name!r}.{known}")
    for name in categorical:
        if name in numeric:
            raise TableError(f"Column {name!r} is named by both --categorical and --numeric; keep one of them.")

    roles = ColumnRoles(None, target=frame[target] if target is not None else None)
    columns: dict[str, Any] = {}
    for name in names:
        column = frame[name]
        if name == target or name in ignore:
            roles.excluded[name] = "the target" if name == target else "--ignore"
        elif column.isna().all():
            roles.excluded[name] = "no value in any row"
        elif name in categorical:
            columns[name] = as_categories(column)
        elif name in numeric:
            columns[name] = _numbers(column, "--numeric needs numbers")
        elif reason := _uninformative(column):
            roles.excluded[name] = reason
        elif _are_codes(column):
            columns[name] = as_categories(column)
            roles.codes.append(name)
        else:
            columns[name] = column
            _note_many_texts(column, roles.notes)
        if name in columns:
            same_role = roles.numeric if _is_number(columns[name]) else roles.categorical
            same_role.append(name)
    if not columns:
        why = "; ".join(f"{name!r}: {reason}" for name, reason in list(roles.excluded.items())[:5])
        raise TableError(f"No column is left to cluster ({why}); name columns in --numeric or --categorical to include them.")
    roles.notes += [text for why, text in _ADVICE.items() if why in roles.excluded.values()]
    roles.features = need_pandas().DataFrame(columns)
    return roles


def _list(names: Sequence[str], most: int = 12) -> str:
    return ", ".join(map(repr, names[:most])) + (", …" if len(names) > most else "")


def _is_number(column: Any) -> bool:
    types = need_pandas().api.types
    return bool(types.is_numeric_dtype(column.dtype) and not types.is_bool_dtype(column.dtype))


def _uninformative(column: Any) -> str:
    """The reason why a column cannot define clusters, or an empty string."""
    types = need_pandas().api.types
    is_text = types.is_string_dtype(column.dtype) and column.dtype != object
    kind = types.infer_dtype(column, skipna=True)
    if kind in ("datetime", "datetime64", "date", "time", "timedelta", "timedelta64", "period"):
        return _DATES
    if is_text or kind == "string":
        cells = column.dropna().unique()
        if all(_DATE.fullmatch(cell) for cell in cells):
            return _DATES
        if len(cells) == column.count() >= 3:
            return "a different text in every row"
    elif types.is_integer_dtype(column.dtype) and len(column) >= 3 and not column.isna().any():
        step = np.diff(column.to_numpy(np.float64))
        if (step == 1).all():
            return _COUNTER
    return ""


def _are_codes(column: Any) -> bool:
    """Whether a column holds integers with few distinct values, which are codes of categories."""
    if not _is_number(column) or need_pandas().api.types.is_complex_dtype(column.dtype):
        return False
    cells = column.dropna().unique()
    if not 0 < len(cells) <= MAX_INTEGER_CODES or 2 * len(cells) > column.count():
        return False
    return all(float(cell).is_integer() for cell in cells)


def _note_many_texts(column: Any, notes: list[str]) -> None:
    """Add a note if most texts of a column are distinct, because such a column hardly ever defines clusters."""
    if not _is_number(column):
        distinct, count = column.nunique(), column.count()
        if distinct > 20 and 2 * distinct > count:
            notes.append(
                f"{column.name!r} has {distinct:,} distinct texts in {count:,} rows and is unlikely to define clusters; "
                f"consider --ignore {_quoted(str(column.name))}."
            )


def _quoted(name: str) -> str:
    return name if re.fullmatch(r"[\w.-]+", name) else repr(name)


def as_categories(column: Any) -> Any:
    """The column as a Categorical; numbers become text levels in numeric order."""
    pd = need_pandas()
    if not _is_number(column):
        if column.dtype == object or isinstance(column.dtype, pd.CategoricalDtype):
            return column.astype("category")
        return column.astype(str).where(column.notna()).astype("category")
    text = {cell: number_text(cell) for cell in sorted(column.dropna().unique())}
    return column.map(text).astype(pd.CategoricalDtype(list(text.values())))


def number_text(cell: Any) -> str:
    """The text of a number as a level: 1, not 1.0."""
    value = float(cell)
    return str(int(value)) if value.is_integer() else str(value)


def _numbers(column: Any, problem: str) -> Any:
    """The column as numbers, or TableError with the first cell that is not a number."""
    pd = need_pandas()
    if _is_number(column):
        return column
    if pd.api.types.is_bool_dtype(column.dtype):
        return column.astype(float)
    numbers = pd.to_numeric(column.astype(object), errors="coerce").astype(float)
    wrong = column[numbers.isna() & column.notna()]
    wrong = wrong[[str(cell).casefold() not in NUMERIC_NA_VALUES for cell in wrong]]
    if len(wrong):
        raise TableError(f"Column {column.name!r}: {problem}, got {str(wrong.iloc[0])!r}.")
    return numbers


# ---- new rows for a model ----


def match_columns(frame: Any, schema: Schema, path: str) -> tuple[Any, list[str]]:
    """Select and convert the columns that a model expects.

    Parameters
    ----------
    frame : pandas.DataFrame
    schema : Schema
    path : str
        Name of the table in messages.

    Returns
    -------
    frame : pandas.DataFrame
    notes : list of str
        Notes about ignored columns and unseen levels.
    """
    notes: list[str] = []
    if not schema.named:  # the model was fitted on an array
        if frame.shape[1] != schema.n_columns:
            raise TableError(
                f"{path!r} has {frame.shape[1]} columns, but the model was fitted on {schema.n_columns} columns without names; "
                "pass a table with the same columns in the same order."
            )
        frame = frame.set_axis(list(schema.columns), axis=1)
    names = list(frame.columns)
    absent = [name for name in schema.columns if name not in names]
    if absent:
        hint = did_you_mean(absent[0], [name for name in names if name not in schema.columns])
        raise TableError(f"{path!r} lacks column(s) of the model: {_list(absent)}.{hint}")
    extra = [name for name in names if name not in schema.columns]
    if extra:
        notes.append(f"columns that are not in the model are ignored: {_list(extra)}.")
    columns: dict[str, Any] = dict.fromkeys(schema.columns)
    for name in schema.numeric_names:
        columns[name] = _numbers(frame[name], "the model expects numbers").astype(np.float64)
    for name, levels in zip(schema.categorical_names, schema.levels, strict=True):
        columns[name] = _levels(frame[name], {str(level) for level in levels}, notes)
    return need_pandas().DataFrame(columns), notes


def _levels(column: Any, known: set[str], notes: list[str]) -> Any:
    """A categorical column with its cells replaced by the model's spelling of the levels."""
    level_of: dict[Any, str | None] = {}
    for cell in column.dropna().unique():
        text = number_text(cell) if _is_number(column) else str(cell)
        level_of[cell] = next((spelling for spelling in _spellings(text) if spelling in known), text)
        if level_of[cell] not in known and text.casefold() in (*NA_VALUES, *NUMERIC_NA_VALUES):
            level_of[cell] = None
    unseen = sorted(level for level in level_of.values() if level is not None and level not in known)
    if unseen:
        notes.append(f"{column.name!r}: levels that did not occur in fit are treated as missing: {_list(unseen, 5)}.")
    return column.astype(object).map(level_of).astype("category")


def _spellings(text: str) -> list[str]:
    """Equivalent spellings of a level: 1 and 1.0, TRUE and True."""
    spellings = [text, text.capitalize()] if text.casefold() in ("true", "false") else [text]
    try:
        value = float(text)
    except ValueError:
        return spellings
    return [*spellings, number_text(value), str(value)] if np.isfinite(value) else spellings
