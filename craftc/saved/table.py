"""The columns of a table and the exact sums of its clusters in a model file; kernels rely on what is checked
here.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from craftc._common.typing import Integers
from craftc._kernels.moments import Grid
from craftc.saved.archive import demand
from craftc.saved.fields import LARGEST, POSITIVE, Kind, StoredNumber, StoredRecord, Through, floats, integers
from craftc.table.bins import MAX_LEVELS
from craftc.table.column_weights import LARGEST_WEIGHT, LEAST_WEIGHT
from craftc.table.levels import LevelEncoding, NumberLevels
from craftc.table.mixed_table import Schema
from craftc.table.moments import NUMERIC_CELLS, ExactSums
from craftc.table.numeric_encoding import EncodingRecipe, NumericEncoding
from craftc.table.reading import is_reading


def _stored_schema(state: dict[str, Any]) -> Schema:
    """The schema whose `to_dict` is `state`; ValueError unless it is complete."""
    schema = Schema.from_dict(state)
    positions = np.concatenate([schema.numeric_index, schema.categorical_index])
    each_once = sorted(positions.tolist()) == list(range(schema.n_columns))
    demand(each_once, "the schema does not fit its columns")
    complete = len(schema.levels) == len(schema.categorical_index) and schema.dtype in ("f4", "f8")
    demand(complete, "the schema is not complete")
    complete = schema.missing in ("ignore", "category", "error") and type(schema.named) is bool
    demand(complete, "the schema is not complete")
    for values in (schema.columns, *schema.levels):
        known = all(isinstance(value, str | int | float) for value in values)
        demand(known, "a name or a level is neither text nor a number")
    in_order = all(type(j) is int and j in schema.categorical_index for j in schema.ordered)
    demand(in_order, "an order belongs to no column of levels")
    days = all(type(j) is int and j in schema.numeric_index for j in schema.dates)
    demand(days, "a date belongs to no column of numbers")
    demand(is_reading(schema.reading), "how the table was read is not known")
    named = all(type(name) is str and name not in schema.columns for name in schema.ignored)
    demand(named, "an ignored column is part of the table")
    distinct = all(len(set(levels)) == len(levels) for levels in schema.levels)
    demand(distinct, "a column has the same level twice")
    return schema


def _stored_encoding(state: dict[str, Any], schema: Schema) -> NumericEncoding | LevelEncoding:
    """The encoding of columns whose `to_dict` is `state`; ValueError unless it is possible."""
    if "numbers" in state:
        levels = LevelEncoding.from_dict(state, schema)
        flags = [state["scored"], *(each["ordered"] for each in state["numbers"])]
        possible = all(type(flag) is bool for flag in flags) and all(map(_possible_levels, levels.numbers))
        demand(levels.null in ("marginals", "normal"), "the distribution without clusters is unknown")
        demand(possible, "the levels of a column are impossible")
        weighed = all(w == 0.0 or LEAST_WEIGHT / 2 <= w <= LARGEST_WEIGHT for w in levels.weights)
        demand(weighed, "the weight of a column is impossible")
        return levels
    encoding = NumericEncoding.from_dict(state, schema)
    for recipe in encoding.recipes:
        demand(_possible(recipe), "the encoding of a numeric column is impossible")
    return encoding


def _possible_levels(own: NumberLevels) -> bool:
    """Whether a numeric column can have these levels."""
    values, bounds, shares = own.values, own.bounds, own.shares
    if not (values.ndim == bounds.ndim == shares.ndim == 1 and len(values) == len(shares) <= MAX_LEVELS):
        return False
    n_bounds = len(values) if own.period else max(len(values) - 1, 0)
    if len(bounds) != n_bounds or not 0.0 <= own.period <= LARGEST:
        return False
    if not np.isfinite([*values, *bounds, *shares, *own.ends]).all():
        return False
    if own.period and len(values) and not (values[0] >= 0.0 and values[-1] <= own.period):
        return False
    if len(values) and not own.ends[0] <= values[0] <= values[-1] <= own.ends[1]:
        return False
    if len(shares) and not ((shares > 0).all() and abs(shares.sum() - 1.0) < 1e-6):
        return False
    inside = bounds[: len(values) - 1]  # without the last one of a period
    return bool((np.diff(values) > 0).all() and (np.diff(bounds) > 0).all() and (inside < values[1:]).all())


def _possible(recipe: EncodingRecipe) -> bool:
    """Whether a column can have this encoding."""
    values, scores = recipe.values, recipe.scores
    if values.ndim != 1 or scores.shape != (values.shape if recipe.rest == "ranks" else (0,)):
        return False
    if not np.isfinite([*recipe.spikes, *recipe.shares, *values, *scores]).all():
        return False
    if len(recipe.spikes) != len(recipe.shares) or not (np.diff(values) > 0).all():
        return False
    if recipe.rest == "numbers":
        return not len(values)
    return recipe.rest in ("values", "ranks") and len(values) > 0


SCHEMA = Through(Kind(), Schema.to_dict, _stored_schema)


def encoding_of(schema: str) -> Through:
    """The encoding of the columns of a schema, by the name of what holds that schema."""
    return Through(Kind(), lambda encoding: encoding.to_dict(), _stored_encoding, (schema,))


def _checked(sums: ExactSums, columns: Schema | NumericEncoding | LevelEncoding) -> ExactSums:
    """Exact sums; ValueError unless they can be those of clusters of a table with these columns."""
    schema = columns if isinstance(columns, Schema) else columns.schema
    fits = np.array_equal(sums.n_levels, schema.n_levels) and len(sums.groups) > 0
    fits &= len(sums.centre) == len(sums.scale) == len(schema.numeric_index)
    demand(fits and sums.groups.shape[1] == sums.grid.width, "the sums do not fit the schema")
    check_sums(sums.groups, sums.grid)
    return sums


def sums_of(columns: str, width: str = "width") -> Through:
    """The exact sums (K, width) of clusters; `columns` is the name of what holds the schema."""
    record = StoredRecord(
        ExactSums,
        groups=integers("K", width),
        centre=floats(None),
        scale=floats(None, least=POSITIVE),
        n_levels=integers(None, least=0),
        unit=StoredNumber(least=POSITIVE, most=LARGEST),
    )
    return Through(record, lambda sums: sums, _checked, (columns,))


def check_sums(groups: Integers, grid: Grid) -> None:
    """Raise unless these can be the sums (K, width) of clusters, of numbers whose squares sum to less than
    2^125.
    """
    rows, levels = groups[:, :1], groups[:, 1 : grid.first_numeric]
    sums = groups[:, grid.first_numeric :].reshape(len(groups), grid.p, NUMERIC_CELLS)
    # halves of a sum and of a sum of squares; a square of a sum is at most the rows times that of squares
    present, upper, squares = (sums[:, :, i].astype(np.float64) for i in (0, 2, 4))
    known = (np.abs(upper) <= 1.0 + np.sqrt(rows * (np.abs(squares) + 1.0))) & (np.abs(squares) < 2.0**61)
    possible = bool((rows >= 0).all() and known.all())
    for weights in (levels, present):
        possible &= bool(((weights >= 0) & (weights <= rows)).all())
    if grid.q:
        possible &= bool((np.add.reduceat(levels, grid.level_start, axis=1) == rows).all())
    demand(possible, "sums of clusters are not possible")
