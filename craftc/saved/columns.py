"""The columns of a table as a model file stores them: values of JSON, which are checked because kernels rely
on them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from craftc.saved.archive import demand
from craftc.table.mixed_table import Schema
from craftc.table.numeric_encoding import EncodingRecipe, NumericEncoding


def stored_schema(state: dict[str, Any]) -> Schema:
    """The schema of which `state` is the `to_dict`; ValueError unless it is complete."""
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


def stored_encoding(state: dict[str, Any], schema: Schema) -> NumericEncoding:
    """The encoding of numeric columns of which `state` is the `to_dict`; ValueError unless it is possible."""
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
