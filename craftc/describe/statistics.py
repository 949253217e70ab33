"""Statistics of every input column: in each cluster and in the whole table, in the units of the table."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from craftc._common.typing import Floats
from craftc.table.mixed_table import Schema
from craftc.table.moments import Moments


class NumericColumn(NamedTuple):
    """Means and standard deviations of a numeric column over its present cells; NaN where there are none."""

    means: Floats  # (K,)
    deviations: Floats  # (K,)
    mean: float  # of the whole table
    deviation: float


class CategoricalColumn(NamedTuple):
    """Shares of the levels of a categorical column among its present cells; NaN where there are none."""

    levels: tuple[Any, ...]  # T of them
    shares: Floats  # (K, T)
    share: Floats  # (T,) of the whole table


def column_statistics(moments: Moments, schema: Schema) -> list[NumericColumn | CategoricalColumn]:
    """Statistics of the input columns, in input order, from the moments of a partition in the units of the
    table.
    """
    total = moments.total()
    found: list[NumericColumn | CategoricalColumn | None] = [None] * schema.n_columns
    (means, deviations), (mean, deviation) = in_units(moments), in_units(total)
    for j, d in enumerate(schema.numeric_index):
        found[d] = NumericColumn(means[:, j], deviations[:, j], float(mean[0, j]), float(deviation[0, j]))
    for j, d in enumerate(schema.categorical_index):
        start, levels = moments.grid.level_start[j], schema.levels[j]
        shares, share = (
            level_shares(each.counts[:, start : start + len(levels)]) for each in (moments, total)
        )
        found[d] = CategoricalColumn(levels, shares, share[0])
    return [column for column in found if column is not None]


def in_units(moments: Moments) -> tuple[Floats, Floats]:
    """Means and standard deviations of the numeric columns, (K, p) each, in their units; NaN without values."""
    grid, present = moments.grid, moments.present
    mean, squares = moments.means()
    unseen = np.where(present > 0, 0.0, np.nan)
    deviation = np.sqrt(squares / np.where(present > 0, present, 1.0)) / grid.scale
    return grid.centre + mean / grid.scale + unseen, deviation + unseen


def level_shares(counts: Floats) -> Floats:
    """(K, T) shares of the levels of a column, NaN without values."""
    size = counts.sum(axis=1, keepdims=True)
    return np.where(size > 0, counts / np.where(size > 0, size, 1.0), np.nan)
