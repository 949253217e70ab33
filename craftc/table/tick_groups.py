"""Columns of 0 and 1 that are one answer in several columns: exactly one of them is 1 in every row, as after
one-hot encoding, or always as many.

Such columns depend on each other by their making. Pairs of them show little of it, so that clusters repeat
the answers as if they were groups.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from craftc._common.messages import quoted
from craftc._common.typing import Floats

_OFF = frozenset(("0", "0.0", "false", "no", "nein", "non", "n", "falsch", "faux"))
_EXPECTED = 10.0  # rows with two ticks in which independent columns would have them, at least
FEWEST_ROWS = 30  # without a missing cell that show a group
MOST_COLUMNS = 512  # columns of two values among which groups are looked for
_STEM = re.compile(r"(.*[^\W_])[\W_]+[^_]*", re.DOTALL)
_SHOWN = 3  # columns that a message names


@dataclass(frozen=True)
class TickGroup:
    """Columns with always the same number of ticks in a row, or with at most one."""

    columns: tuple[int, ...]
    count: int  # of columns that are 1 in a row
    exactly: bool  # whether that many are 1 in every row

    def said(self, names: Sequence[str]) -> str:
        """``Exactly one of 'a', 'b', 'c' and 2 others is set in every row``."""
        shown = [quoted(names[j]) for j in self.columns]
        if len(shown) > _SHOWN + 1:
            shown[_SHOWN:] = [f"{len(shown) - _SHOWN} others"]
        of_all = " and ".join((", ".join(shown[:-1]), shown[-1]))
        which = "Exactly" if self.exactly else "At most"
        number, are = ("one", "is") if self.count == 1 else (str(self.count), "are")
        return f"{which} {number} of {of_all} {are} set in every row"

    def of(self, positions: Sequence[int]) -> TickGroup:
        """The group in a table whose columns at these positions are those of the group's table."""
        return replace(self, columns=tuple(positions[j] for j in self.columns))


def is_off(level: object) -> bool:
    """Whether a level says that a box is not ticked: 0, "no" or False."""
    return str(level).casefold() in _OFF


def on_level(levels: Sequence[object]) -> int | None:
    """Which of two levels says that a box is ticked: the other one says that it is not. None: neither."""
    off = [j for j, level in enumerate(levels) if is_off(level)]
    return 1 - off[0] if len(levels) == 2 and len(off) == 1 else None


def stem_of(name: str) -> str:
    """The name in front of the last separator: "colour" of "colour_red"; "" if there is none."""
    found = _STEM.fullmatch(name)
    return "" if found is None else found[1]


def tick_groups(names: Sequence[str], ticks: NDArray[np.bool_]) -> list[TickGroup]:
    """The groups among columns of ticks (n, m) with these names: neighbours, or columns of one stem
    ("colour_red", "colour_blue").
    """
    n, m = ticks.shape
    if not 2 <= m <= MOST_COLUMNS:
        return []
    one = ticks.astype(np.float64)
    both = one.T @ one
    share = one.mean(axis=0)
    apart = both == 0.0
    groups: list[TickGroup] = []
    taken: set[int] = set()
    for columns in [*_of_one_stem(names), *_runs(apart)]:
        left = [j for j in columns if j not in taken and 0.0 < share[j] < 1.0]
        if len(left) < 2 or (group := _group(left, one, share, n)) is None:
            continue
        groups.append(group)
        taken.update(group.columns)
    return groups


def _of_one_stem(names: Sequence[str]) -> Iterator[list[int]]:
    stems: dict[str, list[int]] = {}
    for j, name in enumerate(names):
        if stem := stem_of(name):
            stems.setdefault(stem, []).append(j)
    return (columns for columns in stems.values() if len(columns) > 1)


def _runs(apart: NDArray[np.bool_]) -> Iterator[list[int]]:
    """Runs of neighbours that are never ticked in one row, as long as possible."""
    first, m = 0, len(apart)
    while first < m:
        last = first + 1
        while last < m and apart[last, first:last].all():
            last += 1
        if last - first > 1:
            yield list(range(first, last))
        first = last if last > first + 1 else first + 1


def _group(columns: list[int], one: Floats, share: Floats, n: int) -> TickGroup | None:
    """The columns as a group, if the number of ticks in a row is constant, or at most one by no chance."""
    count = one[:, columns].sum(axis=1)
    least, most = int(count.min()), int(count.max())
    p = share[columns]
    overlap = n * (p.sum() ** 2 - (p * p).sum()) / 2.0
    if least == most and 1 <= most < len(columns):
        return TickGroup(tuple(columns), most, True) if len(columns) > 2 else None
    if most == 1 and overlap >= _EXPECTED:
        return TickGroup(tuple(columns), 1, False)
    return None
