"""Lines that fill few of the columns: headings of groups of rows, and tables or remarks below the rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from craftc._common.typing import Bits

_FULL = 0.5  # share of the columns that a row fills, more than
_FEWEST = 10  # rows, at least, above another table
_SHORTEST = 3.0  # rows for each line of another table, and for each heading


def headings(filled: Bits, keep: Bits) -> list[int]:
    """Positions of lines of one cell above groups of rows: `filled` (n, D) cells, `keep` (n,) lines.

    The first line is one, there are several in one column, and each stands above a row.
    """
    rows = np.flatnonzero(keep)
    count = filled[rows].sum(axis=1)
    if filled.shape[1] < 3 or len(rows) < 4 or count[0] != 1:
        return []
    alone = np.flatnonzero(count == 1)
    follow = alone + 1
    usual = np.median(count[count > 1]) if (count > 1).any() else 0
    one_column = len(set(filled[rows[alone]].argmax(axis=1).tolist())) == 1
    if (
        len(alone) < 2
        or not one_column
        or usual <= max(2, _FULL * filled.shape[1])
        or _SHORTEST * len(alone) > len(rows)
        or follow[-1] >= len(rows)
        or (count[follow] == 1).any()
    ):
        return []
    return [int(i) for i in rows[alone]]


def lower_table(filled: Bits, gaps: Sequence[int], keep: Bits) -> list[int]:
    """Positions of lines below an empty line that fill few columns, as a legend below the rows does.

    `gaps`: empty lines, or lines below one.
    """
    width = filled.shape[1]
    for gap in gaps:
        above, below = np.flatnonzero(keep[:gap]), gap + np.flatnonzero(keep[gap:])
        if len(above) < max(_FEWEST, _SHORTEST * len(below)) or not len(below) or width < 3:
            continue
        used = int(filled[below].any(axis=0).sum())
        least = np.quantile(filled[above].sum(axis=1), 0.05)
        if used <= _FULL * width and used < least:
            return [int(i) for i in below]
    return []
