"""Gains and costs of one-point clusters: one for every row, with its cells as mean and the deviations of the
table.
"""

from __future__ import annotations

import numpy as np

from craftc._common.labels import chunks
from craftc._common.typing import Floats
from craftc.craft.background import Background
from craftc.table import MixedTable


def one_point_gains(background: Background, table: MixedTable, rows: slice, weight: Floats) -> Floats:
    """(rows, D) gains of the one-point clusters of some rows, of the given weights (rows,); 0 for missing
    cells.
    """
    p = background.grid.p
    numeric, codes = table.numeric[rows], table.codes[rows]
    gains = np.zeros((len(numeric), p + len(background.grid.level_start)))
    z = (numeric.astype(np.float64) - background.centre) * background.scale
    gains[:, :p] = np.nan_to_num(0.5 * weight[:, None] * z * z, copy=False)
    for d, start in enumerate(background.grid.level_start):
        eta = background.frequency[start + codes[:, d].astype(np.intp)]
        with np.errstate(divide="ignore", invalid="ignore"):
            own = (weight + eta) * np.log((weight + eta) / ((weight + 1.0) * eta))
            gains[:, p + d] = np.where(eta > 0, own - (1.0 - eta) * np.log(weight + 1.0), 0.0)
    gains *= background.usable
    return gains


def one_point_costs(background: Background, table: MixedTable) -> Floats:
    """(n,) cost of every row, relative to the background, under its own one-point cluster with all features."""
    p, own = background.grid.p, np.zeros(len(table))
    for rows in chunks(len(table)):
        gains = one_point_gains(background, table, rows, np.ones(rows.stop - rows.start))
        own[rows] -= gains[:, :p].sum(axis=1)
        for d, level in enumerate(background.grid.level_start):
            eta = background.frequency[level + table.codes[rows, d].astype(np.intp)]
            known = (eta > 0) & (background.usable[p + d] > 0)
            own[rows] -= np.log(np.where(known, (1.0 + eta) / np.where(known, 2.0 * eta, 1.0), 1.0))
    return own
