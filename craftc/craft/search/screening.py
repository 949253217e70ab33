"""Screening of the candidate splits of a cluster in a wide table.

The exact change of J under a candidate costs time proportional to the columns, and there are about as many
candidates as columns. Screening replaces it by half of Pearson's chi-squared of the split against every
column, to which the gain of a column tends for weak dependence, on at most `MOST_ROWS` rows. Only the
candidates of the largest net gains are then scored exactly.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from craftc._common.typing import Floats
from craftc._kernels.craft_splits import screen_splits

MOST_ROWS = 256  # a cluster is represented by at most so many rows
_UNIT = 2.0**8  # grid steps of a numeric cell to a standard deviation of the table
_LARGEST = 2.0**15  # grid steps: cells further away are clipped
_HEAVIEST = 2**10  # weights are clipped
_STEPS = 2.0**10  # steps of a score to a nat
_COLUMNS_AT_ONCE = 64  # whose cells stay in the second-level cache


def net_gains(
    z: Floats,
    codes: NDArray[Any],
    weight: NDArray[np.int64],
    level_start: NDArray[np.intp],
    n_levels: int,
    leaving: NDArray[np.uint8],
    price: Floats,
    cluster_weight: float,
) -> NDArray[np.int64]:
    """Sum over the columns of what half the chi-squared of a split exceeds the column's price by, in steps of
    2^-10 nats.

    Parameters
    ----------
    z : ndarray (m, p)
        Numeric cells of rows of the cluster, in standard deviations of the table; NaN counts as the table's
        mean.
    codes : ndarray (m, q)
    weight : ndarray (m,)
    level_start : ndarray (q,)
        First level of every categorical column among the n_levels; the last level of a column is its missing
        one, which counts nothing.
    leaving : ndarray (m, C)
        1 where a row leaves under a candidate, 0 elsewhere.
    price : ndarray (p + q,)
        Nats.
    cluster_weight : float
        Weight of the cluster, in rows.

    Returns
    -------
    ndarray (C,)
        Larger is more promising.
    """
    p = z.shape[1]
    w = np.minimum(weight, _HEAVIEST).astype(np.float64)
    cells = np.zeros((len(z), p + n_levels))
    cells[:, :p] = np.clip(np.rint(np.nan_to_num(z) * _UNIT), -_LARGEST, _LARGEST)
    np.put_along_axis(cells, p + level_start + codes.astype(np.intp), 1.0, axis=1)
    weighted = cells * w[:, None]
    total, sums, size = w.sum(), weighted.sum(axis=0), (leaving * w[:, None]).sum(axis=0)
    spread = (weighted * cells).sum(
        axis=0
    ) * total - sums * sums  # total^2 times the variance, of levels: times the frequency
    spread[p:] = total * sums[p:]
    first = np.concatenate([np.arange(p), p + level_start, [p + n_levels]]).astype(np.intp)
    spread[first[p + 1 :] - 1] = 0.0
    per_column = np.divide(1.0, spread, out=np.zeros(len(spread)), where=spread > 0)
    divides = (size > 0) & (size < total)
    per_split = np.divide(
        _STEPS * 0.5 * cluster_weight, size * (total - size), out=np.zeros(len(size)), where=divides
    )
    scores = np.empty(len(size), np.int64)
    rows = np.nonzero(leaving.T)[1].astype(np.int32)
    begin = np.concatenate([[0], np.cumsum(np.count_nonzero(leaving, axis=0))]).astype(np.intp)
    work = np.empty((len(z) + 1, max(_COLUMNS_AT_ONCE, int(np.diff(first).max(initial=0)))))
    screen_splits(
        weighted, rows, begin, sums, size, total, per_column, per_split, first, _STEPS * price, work, scores
    )
    return scores
