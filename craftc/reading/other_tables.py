"""Tables that stand next to the one that is read, behind an empty column."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from craftc._common.messages import listed
from craftc._common.typing import Bits, Ints

_SHARE_OF_LONGEST = 0.2  # lines of the table that is read, at least; shorter ones explain it
_SHORT = 0.5  # share of the lines of a table within which those of another one are
_CHANCE = 0.01  # that cells of the same table would be


@dataclass(frozen=True)
class SideBySide:
    """Columns by the table to which they belong."""

    kept: list[int]  # those of the table that is read
    other: list[int]  # those of other tables
    apart: list[int]  # those of the table that is read that stand behind an empty column

    def note(self, names: Sequence[str]) -> str:
        """What was assumed, and what changes it; `names`: of all columns."""
        if self.other:
            n, shown = len(self.other), listed([names[j] for j in self.other])
            return (
                f"Not used: {n:,} column{'s' if n > 1 else ''} of another table next to the rows, behind an "
                f"empty column, {shown}; all_lines=True keeps such columns."
            )
        return (
            f"Behind an empty column, as another table would be, but read with the same rows: "
            f"{listed([names[j] for j in self.apart])}; leave out what does not belong to them."
        )


def side_by_side(filled: Bits, names: Sequence[str]) -> SideBySide | None:
    """The columns that belong to another table; None if no empty column is between others.

    `filled` (n, D): cells, that of the name of a column first. `names`: of the columns, as they are written.

    The table that is read is the first that is not much shorter than the longest. Columns with its names are
    another table. So are those of a few lines, or of lines below its last one.
    """
    blocks = _blocks(np.asarray(filled.any(axis=0)))
    if len(blocks) < 2:
        return None
    lines = [np.flatnonzero(filled[:, block].any(axis=1)) for block in blocks]
    longest = max(map(len, lines))
    main = next(b for b, own in enumerate(lines) if len(own) >= _SHARE_OF_LONGEST * longest)
    own_names = [[names[j] for j in block] for block in blocks]
    other, apart = list[int](), list[int]()
    for b, block in enumerate(blocks):
        if b != main:
            again = len(block) > 1 and own_names[b] == own_names[main]
            (other if again or _is_other(lines[b], lines[main]) else apart).extend(block)
    return SideBySide(sorted([*blocks[main], *apart]), other, apart)


def _blocks(used: Bits) -> list[list[int]]:
    """The columns between empty ones."""
    blocks: list[list[int]] = []
    for j in np.flatnonzero(used).tolist():
        if blocks and blocks[-1][-1] == j - 1:
            blocks[-1].append(j)
        else:
            blocks.append([j])
    return blocks


def _is_other(own: Ints, main: Ints) -> bool:
    """Whether lines with a cell of one block belong to another table than those of the main one."""
    if np.count_nonzero(own > main[-1]) > 1:
        return True
    share = float(own[-1] + 1 - own[0]) / len(main)
    few = len(own) == 1 or share ** (len(own) - 1) < _CHANCE
    return bool(own[-1] < main[-1]) and share <= _SHORT and few
