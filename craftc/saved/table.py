"""The columns of a table and the exact sums of its clusters in a model file; kernels rely on what is checked
here.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from craftc._common.typing import Integers
from craftc._kernels.moments import Grid
from craftc.saved.archive import demand
from craftc.saved.fields import LARGEST, POSITIVE, Kind, Number, Reading, Through, Writing, floats, integers
from craftc.table.mixed_table import Schema
from craftc.table.moments import NUMERIC_CELLS, Moments, level_starts
from craftc.table.numeric_encoding import EncodingRecipe, NumericEncoding


def _stored_schema(state: dict[str, Any]) -> Schema:
    """The schema whose `to_dict` is `state`; ValueError unless it is complete."""
    schema = Schema.from_dict(state)
    positions = np.concatenate([schema.numeric_index, schema.categorical_index])
    each_once = sorted(positions.tolist()) == list(range(schema.n_columns))
    demand(each_once, "the schema does not fit its columns")
    complete = len(schema.levels) == len(schema.categorical_index) and schema.dtype in ("f4", "f8")
    demand(complete, "the schema is not complete")
    demand(
        schema.missing in ("ignore", "category", "error") and type(schema.named) is bool,
        "the schema is not complete",
    )
    for values in (schema.columns, *schema.levels):
        demand(
            all(isinstance(value, str | int | float) for value in values),
            "a name or a level is neither text nor a number",
        )
    distinct = all(len(set(levels)) == len(levels) for levels in schema.levels)
    demand(distinct, "a column has the same level twice")
    return schema


def _stored_encoding(state: dict[str, Any], schema: Schema) -> NumericEncoding:
    """The encoding of numeric columns whose `to_dict` is `state`; ValueError unless it is possible."""
    encoding = NumericEncoding.from_dict(state, schema)
    for recipe in encoding.recipes:
        demand(_possible(recipe), "the encoding of a numeric column is impossible")
    return encoding


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
    return Through(Kind(), NumericEncoding.to_dict, _stored_encoding, (schema,))


class Sums(Kind):
    """Moments of the clusters of a table: the grid on which numbers are integers, and the sums.

    The width of the sums is the length with the name of the attribute. `schema` names what holds the schema
    of the columns.
    """

    def __init__(self, schema: str) -> None:
        self.schema = schema

    def write(self, out: Writing, name: str, value: object) -> None:
        assert isinstance(value, Moments)
        out.values[f"{name}.unit"] = value.unit
        out.arrays |= {
            f"{name}.centre": value.grid.centre,
            f"{name}.scale": value.grid.scale,
            f"{name}.groups": value.groups,
        }

    def read(self, source: Reading, name: str) -> Moments:
        schema = source.found[self.schema]
        assert isinstance(schema, Schema | NumericEncoding)
        columns = schema.schema if isinstance(schema, NumericEncoding) else schema
        p, n_levels = len(columns.numeric_index), columns.n_levels
        unit = Number(least=POSITIVE, most=LARGEST).read(source, f"{name}.unit")
        assert isinstance(unit, float)
        centre = floats(p).read(source, f"{name}.centre").astype(np.float64)
        scale = floats(p, least=POSITIVE).read(source, f"{name}.scale").astype(np.float64)
        grid = Grid(centre, scale, level_starts(n_levels), int((n_levels + 1).sum()))
        source.sizes[name] = grid.width
        groups = integers("K", grid.width).read(source, f"{name}.groups").astype(np.int64)
        check_sums(groups, grid, name)
        return Moments.of_groups(grid, unit, groups)


def check_sums(groups: Integers, grid: Grid, name: str) -> None:
    """Raise unless these can be sums (K, width) of clusters: no weight is negative, those of the levels of a
    column sum to that of the rows, missing cells included, and no sum exceeds that of numbers of 40 bits.
    """
    rows, levels, present = (
        groups[:, :1],
        groups[:, 1 : grid.first_numeric],
        groups[:, grid.first_numeric :: NUMERIC_CELLS],
    )
    sums = groups[:, grid.first_numeric :].reshape(len(groups), grid.p, NUMERIC_CELLS)
    possible = [
        (rows >= 0).all(),
        ((levels >= 0) & (levels <= rows)).all(),
        ((present >= 0) & (present <= rows)).all(),
        # the upper half of a sum of numbers up to 2^39
        (np.abs(sums[:, :, 2].astype(np.float64)) <= 1.0 + rows * 2.0**-24).all(),
    ]
    if grid.q:
        possible.append((np.add.reduceat(levels, grid.level_start, axis=1) == rows).all())
    demand(all(map(bool, possible)), f"{name} are sums that are not possible")
