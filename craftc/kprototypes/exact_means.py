"""The means of a partition to the last digit: those of the passes have 2^-40 of the range of a column.

Numbers are taken as places on the integer grid, whose sums are known, and remainders. Remainders become whole
numbers, too, as fine as float64 can sum: 2^-80 of the range for thousands of rows, 2^-48 with weights that
are not whole.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from craftc._common.typing import Floats, Integers, Labels
from craftc.kprototypes.problem import Problem
from craftc.table.moments import NUMERIC_CELLS

_EXACT_BITS = 53  # a float64 adds whole numbers exactly up to 2^53


def exact_means(problem: Problem, members: Labels, groups: Integers, means: Floats) -> Floats:
    """(K, p) means of the clusters `members` (n,), whose moments are `groups`; `means` where none is present.

    A member of -1 is a row of weight 0. Means are rounded once, so that neither the order of the rows nor a
    row given twice in place of its weight changes a bit.
    """
    grid, out = problem.grid, means.copy()
    weight = problem.weight
    common = int(np.bitwise_or.reduce(weight)) if len(weight) else 1
    unit = common & -common  # the largest power of two that divides all weights
    members = np.maximum(members, 0)
    for d in range(grid.p):
        cells = groups[:, grid.first_numeric + NUMERIC_CELLS * d :]
        bits = _EXACT_BITS - (sum(cells[:, 0].tolist()) // unit).bit_length()
        rests = np.rint(np.ldexp(_remainders(problem, d), bits))
        remainders = np.bincount(members, rests * (weight // unit) if len(weight) else rests, len(groups))
        centre, scale = Fraction(float(grid.centre[d])), Fraction(float(grid.scale[d]))
        for k, (count, low, high) in enumerate(cells[:, :3].tolist()):
            if count:
                steps = (high << 64) + low % 2**64 + unit * Fraction(int(remainders[k]), 2**bits)
                out[k, d] = float(centre + steps / (count * scale))
    return out


def _remainders(problem: Problem, d: int) -> Floats:
    """(n,) what the cells of column d are above their places on the grid, in steps; missing cells: 0."""
    x = problem.table.numeric[:, d].astype(np.float64)
    centre, scale = problem.grid.centre[d], problem.grid.scale[d]
    offset = x - centre
    taken = offset - x
    lost = (x - (offset - taken)) - (centre + taken)  # exactly what the rounded difference lacks
    steps = offset * scale
    rest = (steps - np.rint(steps)) + lost * scale
    return np.where(np.isnan(rest), 0.0, rest)
