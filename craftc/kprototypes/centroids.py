"""Prototypes as arrays and columns of levels and numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from craftc._common.typing import Array
from craftc.kprototypes.fitted import Prototypes
from craftc.table import Schema


def centroid_columns(prototypes: Prototypes, schema: Schema) -> list[Array]:
    """The values of the prototypes in every input column, in input order."""
    columns: list[Array] = [np.empty(0)] * schema.n_columns
    for j, d in enumerate(schema.numeric_index):
        columns[d] = prototypes.means[:, j]
    for j, d in enumerate(schema.categorical_index):
        levels = schema.levels[j]
        columns[d] = array_of_levels([levels[code] for code in prototypes.modes[:, j]])
    return columns


def centroid_array(prototypes: Prototypes, schema: Schema) -> Array:
    """(K, D) numeric columns first, then categorical ones, as kmodes has them; of objects unless all are
    numbers, or all are text.
    """
    columns = centroid_columns(prototypes, schema)
    ordered = [columns[d] for d in [*schema.numeric_index, *schema.categorical_index]]
    kinds = {
        "text" if column.dtype.kind == "U" else "objects" if column.dtype == object else "numbers"
        for column in ordered
    }
    return np.column_stack(ordered if len(kinds) == 1 else [column.astype(object) for column in ordered])


def array_of_levels(levels: list[Any]) -> Array:
    """Levels as an array of numbers or text; of objects if they are mixed."""
    kinds = {isinstance(level, str) for level in levels}
    return np.array(levels) if len(kinds) == 1 else np.array(levels, dtype=object)
