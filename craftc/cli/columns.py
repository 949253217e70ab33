"""The columns of a table for the command line: what each one is, and which fit a model."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from craftc._common.optional import need_pandas
from craftc.cli.read_table import HOLES, NUMBER_HOLES, TableError, similar
from craftc.table import Schema

#: Whole numbers with at most so many distinct values are taken for codes of categories.
FEW_VALUES = 5

_DATE = re.compile(
    r"(\d{4}([-/.])\d{1,2}\2\d{1,2}|\d{1,2}([-/])\d{1,2}\3\d{2}(\d{2})?|\d{1,2}\.\d{1,2}\.\d{4})"
    r"([ T]\d{1,2}:\d{2}.*)?"
)

_DATES, _COUNTER = "dates", "counts the rows"
_ADVICE = {
    _DATES: "Dates are set aside; as numbers (a year, an age in days) they could be used.",
    _COUNTER: "A column that only counts the rows is set aside; --numeric COL uses it.",
}


@dataclass
class Choice:
    """What became of the columns of a table."""

    features: Any  # DataFrame
    target: Any = None  # Series of the classes, where one was named
    numbers: list[str] = field(default_factory=list)
    categories: list[str] = field(default_factory=list)
    codes: list[str] = field(default_factory=list)  # categories that the file has as whole numbers
    aside: dict[str, str] = field(default_factory=dict)  # column: why
    notes: list[str] = field(default_factory=list)


def choose(
    frame: Any,
    *,
    target: str | None = None,
    ignore: Sequence[str] = (),
    categorical: Sequence[str] = (),
    numeric: Sequence[str] = (),
) -> Choice:
    """Decide what each column of a frame is.

    Parameters
    ----------
    frame : pandas.DataFrame
    target, ignore, categorical, numeric : names given by the user
        Of the classes; to leave out; to take for categories; to take for numbers.

    Returns
    -------
    Choice
    """
    names = list(frame.columns)
    asked = [("--ignore", ignore), ("--categorical", categorical), ("--numeric", numeric)]
    for option, wanted in [("--target", [target] if target is not None else []), *asked]:
        for name in wanted:
            if name not in names:
                known = similar(name, names) or f" The columns are {_list(names)}."
                raise TableError(f"{option}: the table has no column {name!r}.{known}")
    for name in categorical:
        if name in numeric:
            raise TableError(f"Column {name!r} is named by both --categorical and --numeric.")

    choice = Choice(None, target=frame[target] if target is not None else None)
    columns: dict[str, Any] = {}
    for name in names:
        column = frame[name]
        if name == target or name in ignore:
            choice.aside[name] = "the target" if name == target else "--ignore"
        elif column.isna().all():
            choice.aside[name] = "no value in any row"
        elif name in categorical:
            columns[name] = as_categories(column)
        elif name in numeric:
            columns[name] = _numbers(column, "--numeric: it cannot be read as numbers")
        elif reason := _useless(column):
            choice.aside[name] = reason
        elif _are_codes(column):
            columns[name] = as_categories(column)
            choice.codes.append(name)
        else:
            columns[name] = column
            _hint(column, choice.notes)
        if name in columns:
            kind = choice.numbers if _is_number(columns[name]) else choice.categories
            kind.append(name)
    if not columns:
        why = "; ".join(f"{name!r}: {reason}" for name, reason in list(choice.aside.items())[:5])
        raise TableError(f"No column is left to find clusters with ({why}).")
    choice.notes += [text for why, text in _ADVICE.items() if why in choice.aside.values()]
    choice.features = need_pandas().DataFrame(columns)
    return choice


def _list(names: Sequence[str], most: int = 12) -> str:
    return ", ".join(map(repr, names[:most])) + (", …" if len(names) > most else "")


def _is_number(column: Any) -> bool:
    types = need_pandas().api.types
    return bool(types.is_numeric_dtype(column.dtype) and not types.is_bool_dtype(column.dtype))


def _useless(column: Any) -> str:
    """Why a column cannot say anything about groups, or nothing."""
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
    """Tell whether a column is whole numbers with few distinct values."""
    if not _is_number(column) or need_pandas().api.types.is_complex_dtype(column.dtype):
        return False
    cells = column.dropna().unique()
    if not 0 < len(cells) <= FEW_VALUES or 2 * len(cells) > column.count():
        return False
    return all(float(cell).is_integer() for cell in cells)


def _hint(column: Any, notes: list[str]) -> None:
    """Say that a text column with mostly different cells will hardly describe groups."""
    if not _is_number(column):
        distinct, count = column.nunique(), column.count()
        if distinct > 20 and 2 * distinct > count:
            notes.append(
                f"{column.name!r} has {distinct:,} different texts in {count:,} rows and can "
                f"hardly describe groups; consider --ignore {_quoted(str(column.name))}."
            )


def _quoted(name: str) -> str:
    return name if re.fullmatch(r"[\w.-]+", name) else repr(name)


def as_categories(column: Any) -> Any:
    """The column as categories; whole numbers become their text, in the order of the numbers."""
    pd = need_pandas()
    if not _is_number(column):
        if column.dtype == object or isinstance(column.dtype, pd.CategoricalDtype):
            return column.astype("category")
        return column.astype(str).where(column.notna()).astype("category")
    text = {cell: number_text(cell) for cell in sorted(column.dropna().unique())}
    return column.map(text).astype(pd.CategoricalDtype(list(text.values())))


def number_text(cell: Any) -> str:
    """A number as a level is written: 1, not 1.0."""
    value = float(cell)
    return str(int(value)) if value.is_integer() else str(value)


def _numbers(column: Any, problem: str) -> Any:
    """The column as numbers, or a sentence with a cell that is none."""
    pd = need_pandas()
    if _is_number(column):
        return column
    if pd.api.types.is_bool_dtype(column.dtype):
        return column.astype(float)
    numbers = pd.to_numeric(column.astype(object), errors="coerce").astype(float)
    wrong = column[numbers.isna() & column.notna()]
    wrong = wrong[[str(cell).casefold() not in NUMBER_HOLES for cell in wrong]]
    if len(wrong):
        raise TableError(f"Column {column.name!r}: {problem}, it holds {str(wrong.iloc[0])!r}.")
    return numbers


# ---- new rows for a model ----


def match(frame: Any, schema: Schema, path: str) -> tuple[Any, list[str]]:
    """The columns of a model, as its schema reads them, and sentences about what was not used.

    Parameters
    ----------
    frame : pandas.DataFrame
    schema : Schema
    path : str
        How messages call the table.

    Returns
    -------
    frame : pandas.DataFrame
    notes : list of str
    """
    notes: list[str] = []
    if not schema.named:  # the model was fitted on an array
        if frame.shape[1] != schema.n_columns:
            raise TableError(
                f"{path!r} has {frame.shape[1]} columns, but the model was fitted on "
                f"{schema.n_columns} columns without names."
            )
        frame = frame.set_axis(list(schema.columns), axis=1)
    names = list(frame.columns)
    absent = [name for name in schema.columns if name not in names]
    if absent:
        close = similar(absent[0], [name for name in names if name not in schema.columns])
        raise TableError(f"{path!r} lacks column(s) of the model: {_list(absent)}.{close}")
    extra = [name for name in names if name not in schema.columns]
    if extra:
        notes.append(f"not in the model, so not used: {_list(extra)}.")
    columns: dict[str, Any] = dict.fromkeys(schema.columns)
    for name in schema.numeric_names:
        problem = "the model expects numbers"
        columns[name] = _numbers(frame[name], problem).astype(np.float64)
    for name, levels in zip(schema.categorical_names, schema.levels, strict=True):
        columns[name] = _levels(frame[name], {str(level) for level in levels}, notes)
    return need_pandas().DataFrame(columns), notes


def _levels(column: Any, known: set[str], notes: list[str]) -> Any:
    """The cells of a categorical column in the words of the model's levels."""
    words: dict[Any, str | None] = {}
    for cell in column.dropna().unique():
        text = number_text(cell) if _is_number(column) else str(cell)
        words[cell] = next((word for word in _spellings(text) if word in known), text)
        if words[cell] not in known and text.casefold() in (*HOLES, *NUMBER_HOLES):
            words[cell] = None
    unseen = sorted(word for word in words.values() if word is not None and word not in known)
    if unseen:
        shown = _list(unseen, 5)
        notes.append(f"{column.name!r}: never seen when fitting, so counted as missing: {shown}.")
    return column.astype(object).map(words).astype("category")


def _spellings(text: str) -> list[str]:
    """The ways one level may have been written: 1 and 1.0, TRUE and True."""
    spellings = [text, text.capitalize()] if text.casefold() in ("true", "false") else [text]
    try:
        value = float(text)
    except ValueError:
        return spellings
    return [*spellings, number_text(value), str(value)] if np.isfinite(value) else spellings
