"""Tables with the columns of a known one: its levels keep their place, and new ones follow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from craftc._common.labels import chunks
from craftc._common.messages import listed
from craftc._common.typing import FileInput, TableInput
from craftc.table.dates import with_parts
from craftc.table.frames import open_source
from craftc.table.level_column import MAX_LEVELS, MISSING_LEVEL, Level
from craftc.table.mixed_table import MixedTable, Schema
from craftc.table.out_of_core import is_out_of_core

_WITHOUT_VALUES = "keep='clusters' counts its cells as missing, or fit again without it"


def read_extended(schema: Schema, X: TableInput | FileInput, estimator_name: str) -> MixedTable:
    """A table with the columns of a schema, whose new levels follow those of the schema.

    Parameters
    ----------
    schema : Schema
        Of the table of a fit.
    X : frame, dict of columns, array, MixedTable or files
        Columns are matched as by `Schema.encode`.
    estimator_name : str
        Name of the model in error messages.

    Returns
    -------
    MixedTable
        Its schema is `schema` with further levels; the same object if there are none.

    Raises
    ------
    ValueError, TypeError
        A column is absent, has no value or other cells, or a new level has no place in an order.
    """
    if isinstance(X, MixedTable) or is_out_of_core(X):
        table = read_blocks_of(schema, X)
        own = [
            table.schema.levels[d] for d in _places(table.schema.categorical_names, schema.categorical_names)
        ]
        return recoded(table, _extended(schema, own))
    source = with_parts(open_source(X), [schema.columns[j] for j in schema.dates], schema.columns)
    order = schema._match(source, estimator_name)
    numeric = source.numbers(order[schema.numeric_index], schema.dtype)
    columns = [source.column(j) for j in order[schema.categorical_index]]
    schema.check_missing(schema._count_missing(numeric, columns), source.n_rows, _WITHOUT_VALUES)
    extended = _extended(schema, [column.learn(schema.missing) for column in columns])
    return extended._table(numeric, columns, "ignore")


def read_blocks_of(schema: Schema, X: MixedTable | FileInput) -> MixedTable:
    """A table of blocks with the columns of a schema; files are read into scratch files."""
    if not isinstance(X, MixedTable):
        kinds, names = schema.kinds, schema.columns
        return MixedTable.from_parquet(
            X, columns=names, missing=schema.missing, dtype=schema.dtype, kinds=kinds
        )
    absent = [name for name in schema.columns if name not in X.schema.columns]
    if absent:
        raise ValueError(f"X lacks column(s) of the model: {listed(absent, 12)}; pass a table that has them.")
    for kind, mine, others in (
        ("numbers", schema.numeric_names, X.schema.numeric_names),
        ("levels", schema.categorical_names, X.schema.categorical_names),
    ):
        wrong = [name for name in mine if name not in others]
        if wrong:
            raise ValueError(
                f"Column {wrong[0]!r} has {kind} in the model and not in X; build X with the same kinds."
            )
    return X


def recoded(table: MixedTable, schema: Schema, unknown: str = "ignore") -> MixedTable:
    """The cells of a table in another schema of the same columns; levels that it lacks are missing, or an
    error (`unknown`).
    """
    own, n = table.schema, len(table)
    numbers = _places(own.numeric_names, schema.numeric_names)
    levels = _places(own.categorical_names, schema.categorical_names)
    numeric = table.numeric
    if numbers != list(range(numeric.shape[1])) or numeric.dtype != schema.dtype:
        numeric = table._empty_block((n, len(numbers)), schema.dtype)
        for rows in chunks(n):
            numeric[rows] = table.numeric[rows][:, numbers]
    codes, places = table.codes, []
    for name, of_table, wanted in zip(
        schema.categorical_names, [own.levels[d] for d in levels], schema.levels, strict=True
    ):
        code_of = {str(level): code for code, level in enumerate(wanted)}
        places.append(np.array([*(code_of.get(str(level), len(wanted)) for level in of_table), len(wanted)]))
        unseen = [str(level) for level in of_table if str(level) not in code_of]
        if unseen and unknown == "error":
            raise ValueError(
                f"Column {name!r} contains {len(unseen)} level(s) that did not occur in fit: "
                f"{listed(unseen, 5)}; remove the rows, or pass unknown='ignore' to treat them as missing."
            )
    wide = np.dtype(np.uint8 if max(schema.n_levels, default=0) < 256 else np.uint16)
    same = all(np.array_equal(place, np.arange(len(place))) for place in places)
    if not same or levels != list(range(codes.shape[1])) or codes.dtype != wide:
        codes = table._empty_block((n, len(levels)), wide)
        for rows in chunks(n):
            for d, (at, place) in enumerate(zip(levels, places, strict=True)):
                codes[rows, d] = place[table.codes[rows, at]]
    return MixedTable._trusted(numeric, codes, schema, table._scratch)


def new_levels(former: Schema, schema: Schema) -> dict[str, list[Level]]:
    """The levels of every column that a former schema lacks."""
    out = {}
    for name, known, levels in zip(schema.categorical_names, former.levels, schema.levels, strict=True):
        former_levels = set(known)
        if found := [level for level in levels if level not in former_levels]:
            out[name] = found
    return out


def _places(names: Sequence[str], wanted: Sequence[str]) -> list[int]:
    """The place of every wanted column among the columns of a table."""
    return [names.index(name) for name in wanted]


def _extended(schema: Schema, found: Sequence[Sequence[Level]]) -> Schema:
    """A schema with the levels that were found in each categorical column."""
    levels, ordered = list(schema.levels), set(schema.ordered)
    for d, (j, own) in enumerate(zip(schema.categorical_index.tolist(), found, strict=True)):
        known = {str(level) for level in schema.levels[d]}
        new = [level for level in own if str(level) not in known]
        if new:
            levels[d] = _with_new(schema, d, new, j in ordered)
            if levels[d][-1] == MISSING_LEVEL and schema.missing == "category":
                ordered.discard(j)  # a level for missing cells has no place in an order
    if tuple(levels) == schema.levels:
        return schema
    return replace(schema, levels=tuple(levels), ordered=tuple(sorted(ordered)))


def _with_new(schema: Schema, d: int, new: Sequence[Level], ordered: bool) -> tuple[Level, ...]:
    """The levels of a column and its new ones, numbers of an order in their place."""
    name, of_missing = schema.categorical_names[d], schema.missing == "category"
    every = [*schema.levels[d], *new]
    scale = [level for level in every if not (of_missing and level == MISSING_LEVEL)]
    if ordered and len(scale) > len(schema.levels[d]):
        if any(isinstance(level, str) for level in scale):
            raise ValueError(
                f"Column {name!r} is ordered, and {len(new)} new level(s) have no place in its order: "
                f"{listed(list(map(str, new)), 5)}; fit again with kinds={{{name!r}: [...]}}, all levels in "
                "order."
            )
        scale.sort()
    if len(scale) > MAX_LEVELS:
        raise ValueError(
            f"Column {name!r} has {len(scale)} levels with those of the fit, but at most {MAX_LEVELS} are "
            "supported; merge rare levels, or fit again."
        )
    return (*scale, *([MISSING_LEVEL] if len(scale) < len(every) else []))
