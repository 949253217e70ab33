"""The bins into which the distinct values of a numeric column are cut: levels of about equal shares, in which
frequent values stand alone, and which no gap between groups crosses.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from craftc._common.typing import Floats, Integers

#: Distinct values that are all levels, and bins of a column of more.
N_BINS = 64
MAX_LEVELS = 254  # of a column; with the missing level, codes are bytes
_FEWEST_BESIDE = 6  # values of the levels on both sides of a gap that divides a level


def levels_of(values: Floats, counts: Integers) -> NDArray[np.intp]:
    """(m,) the level of each of the distinct values of a column."""
    n_bins, most = N_BINS, len(values)
    if most <= n_bins:
        return np.arange(most)
    total = int(counts.sum())
    while True:
        frequent = counts * n_bins >= total
        run = np.cumsum(frequent)  # values between two frequent ones have one number
        others = np.where(frequent, 0, counts)
        mass = np.bincount(run, others).astype(np.int64)  # whole numbers below 2^53
        smaller = np.cumsum(others) - counts - (np.cumsum(mass) - mass)[run]
        bins = np.maximum(np.rint(n_bins * mass / total), 1.0).astype(np.int64)[run]
        # of every value: its mid share of the run, in bins
        at = np.minimum((2 * smaller + counts) * bins // np.maximum(2 * mass[run], 1), bins - 1)
        changes = frequent[1:] | frequent[:-1] | (run[1:] != run[:-1]) | (at[1:] != at[:-1])
        level = np.concatenate([[0], np.cumsum(changes)])
        level += _gaps_before(values, level)
        if level[-1] < MAX_LEVELS:
            return level
        n_bins //= 2


def _gaps_before(values: Floats, level: NDArray[np.intp]) -> NDArray[np.intp]:
    """(m,) number of gaps below every one of the ascending values that divide one of these levels: a gap that
    is wider than the distance from either of its ends to the far end of the next level, if the levels on both
    sides have 6 values or more, so that it is seldom by chance.

    The mean of the cells on both sides of a gap lies in the gap, where no group has any.
    """
    first = np.flatnonzero(np.diff(level, prepend=-1))
    last = np.append(first[1:], len(level)) - 1
    half = values / 2  # differences of numbers of different signs do not overflow
    gap = np.diff(half, append=half[-1])
    gap[last] = 0.0
    widest, span = np.maximum.reduceat(gap, first), half[last] - half[first]
    span[last - first < _FEWEST_BESIDE - 1] = np.inf
    out = np.zeros(len(level), np.intp)
    for i in 1 + np.flatnonzero(widest[1:-1] > np.maximum(span[:-2], span[2:])):
        end = int(first[i] + gap[first[i] : last[i]].argmax())
        below, above = half[end] - half[first[i - 1]], half[last[i + 1]] - half[end + 1]
        out[end + 1 :] += bool(widest[i] > max(below, above))
    return out
