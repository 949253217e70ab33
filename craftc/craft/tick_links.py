"""Links of columns that are one answer in several columns, as an addition to links of pairs.

Given the columns before it, a column of a group depends on how many of them are ticked. It saves the mutual
information of its own tick and that number, and these savings add up to the total correlation of the group
where at most one column is ticked.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from craftc._common.typing import Bits, Floats
from craftc.table import MixedTable
from craftc.table.levels import LevelEncoding
from craftc.table.tick_groups import FEWEST_ROWS, MOST_COLUMNS, TickGroup, on_level, tick_groups

_SOME = 2000  # rows in which groups are looked for


def groups_of_codes(
    encoding: LevelEncoding, codes: NDArray[np.integer]
) -> list[tuple[TickGroup, NDArray[np.intp], Bits]]:
    """The groups among the columns of encoded rows (n, D), each with its rows without missing cells, and
    their ticks, (rows, columns of the group).
    """
    on = _on_levels(encoding)
    at = np.array(sorted(on), np.intp)
    if not 2 <= len(at) <= MOST_COLUMNS:
        return []
    cells = codes[:, at]
    complete = np.flatnonzero((cells < 2).all(axis=1))
    if len(complete) < FEWEST_ROWS:
        return []
    ticks: Bits = cells[complete] == np.array([on[j] for j in at.tolist()])
    found = tick_groups(
        [encoding.input_schema.columns[j] for j in at.tolist()], ticks[:: max(1, len(ticks) // _SOME)]
    )
    return [(each.of(at.tolist()), complete, ticks[:, each.columns]) for each in found]


def groups_of_table(sample: MixedTable) -> list[TickGroup]:
    """The groups among the columns of a table; columns are positions in it."""
    schema = sample.schema
    ticks: dict[int, Bits] = {}
    complete = np.ones(len(sample), bool)
    of_levels = zip(schema.categorical_index.tolist(), schema.levels, sample.codes.T, strict=True)
    for j, levels, codes in of_levels:
        if (on := on_level(levels)) is not None:
            ticks[j] = codes == on
            complete &= (codes >= 0) & (codes < len(levels))
    known = ~np.isnan(sample.numeric)
    binary = (~known | (sample.numeric == 0.0) | (sample.numeric == 1.0)).all(axis=0) & known.any(axis=0)
    for k in np.flatnonzero(binary).tolist():
        ticks[int(schema.numeric_index[k])] = sample.numeric[:, k] == 1.0
        complete &= known[:, k]
    at = sorted(ticks)
    if not 2 <= len(at) <= MOST_COLUMNS or complete.sum() < FEWEST_ROWS:
        return []
    found = tick_groups([schema.columns[j] for j in at], np.column_stack([ticks[j] for j in at])[complete])
    return [each.of(at) for each in found]


def chain_gains(group: TickGroup, ticks: Bits, weight: Floats) -> tuple[Floats, Floats]:
    """What each later column of a group saves, in nats of rows of this weight (n,), and its parameters.

    `ticks` (n, columns of the group).
    """
    before = np.cumsum(ticks, axis=1)[:, :-1]
    gains, parameters = np.zeros(before.shape[1]), np.ones(before.shape[1])
    for j in range(before.shape[1]):
        table = np.zeros((group.count + 1, 2))
        np.add.at(table, (before[:, j], ticks[:, j + 1].astype(np.intp)), weight)
        of_margins = x_log_x(table.sum(axis=0)).sum() + x_log_x(table.sum(axis=1)).sum()
        gains[j] = x_log_x(table).sum() + x_log_x(table.sum(keepdims=True)).sum() - of_margins
        parameters[j] = max((table.sum(axis=1) > 0.0).sum() - 1, 1)
    return gains, parameters


def _on_levels(encoding: LevelEncoding) -> dict[int, int]:
    """The code of the level of a tick, by input column."""
    schema = encoding.input_schema
    on = {}
    for j, levels in zip(schema.categorical_index.tolist(), schema.levels, strict=True):
        if (level := on_level(levels)) is not None:
            on[j] = level
    for j, own in zip(schema.numeric_index.tolist(), encoding.numbers, strict=True):
        if own.values.tolist() == [0.0, 1.0]:
            on[j] = 1
    return on


def x_log_x(x: Floats) -> Floats:
    """x log x, 0 at 0."""
    return x * np.log(np.where(x > 0.0, x, 1.0))
