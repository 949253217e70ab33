"""The numbers that a method can use: their squares, and sums of these, must neither overflow nor underflow in
float64.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.sparse import issparse

from craftc._common.typing import Floats

LARGEST = 1e150  # in absolute value
NARROWEST = 1e-150  # range of a column that varies


def check_ranges(
    low: Floats, high: Floats, names: Sequence[Any], *, largest: float = LARGEST, narrowest: float = NARROWEST
) -> None:
    """Raise ValueError where the smallest and largest numbers of a column show that its squares overflow or
    underflow.

    Parameters
    ----------
    low, high : ndarray (D,)
        Of the numbers of a column; `low` > `high` where it has none.
    names : sequence (D,)
        Of the columns.
    largest, narrowest : float
        Limits of the absolute values and of the ranges that are not 0.
    """
    spread = np.where(low <= high, high / 2 - low / 2, 0.0)
    size = np.where(low <= high, np.maximum(np.abs(low), np.abs(high)), 0.0)
    unusable = (size > largest) | ((spread > 0) & (spread < narrowest / 2))
    if unusable.any():
        d = int(unusable.argmax())
        raise ValueError(
            f"Column {str(names[d])!r} ranges from {low[d]:.3g} to {high[d]:.3g}; squares of its values "
            "overflow or underflow, so "
            f"scale it {'down' if size[d] > 1 else 'up'}."
        )


def column_ranges(X: Any) -> tuple[Floats, Floats]:
    """(D,) smallest and largest number of every column of an array or sparse array, NaN left out; inf and
    -inf where a column has none.
    """
    if issparse(X):
        return X.min(axis=0).toarray().ravel(), X.max(axis=0).toarray().ravel()
    low = np.fmin.reduce(X, axis=0, initial=np.inf).astype(np.float64)
    high = np.fmax.reduce(X, axis=0, initial=-np.inf).astype(np.float64)
    return low, high
