"""Columns of 0 and 1 that are one answer in several columns, joined to the one column that they are."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from craftc._common.messages import as_text, listed, need_pandas, quoted
from craftc.table.kinds import float_of, truth_of
from craftc.table.tick_groups import FEWEST_ROWS, is_off, on_level, stem_of, tick_groups

if TYPE_CHECKING:
    import pandas as pd

_SAMPLE = 5000  # rows in which groups are looked for
_LONGEST = 60  # characters of a name that is made of those of all columns
NONE = "none"  # the level of a row without a tick


@dataclass(frozen=True)
class Joined:
    """Columns that are joined to one, whose levels are what is ticked."""

    name: str
    parts: list[str]
    levels: list[str]
    ticks: list[str]  # the level of each part that is a tick
    exactly: bool  # whether every row has one

    @property
    def recipe(self) -> dict[str, object]:
        """What a model keeps of it."""
        return {
            "joined": self.parts,
            "levels": self.levels,
            "ticks": self.ticks,
            "exactly": int(self.exactly),
        }

    @classmethod
    def of_recipe(cls, name: str, recipe: Mapping[str, object]) -> Joined | None:
        """The columns that a fit has joined; None if it has not."""
        lists = [recipe.get(each) for each in ("joined", "levels", "ticks")]
        texts = [list(map(str, each)) for each in lists if isinstance(each, list)]
        if len(texts) < len(lists):
            return None
        return cls(name, texts[0], texts[1], texts[2], bool(recipe.get("exactly")))

    @property
    def note(self) -> str:
        """The note about it."""
        which = "exactly" if self.exactly else "at most"
        return (
            f"{listed(self.parts)} are one answer in several columns, {which} one of them set in every row: "
            f"joined to {quoted(self.name)}; on_unusable='keep' keeps them."
        )

    def column(self, columns: Mapping[str, pd.Series] | pd.DataFrame) -> pd.Series:
        """The joined column: what is ticked, "none", or missing where cells are missing or contradict."""
        pandas = need_pandas()
        ticked = np.column_stack(
            [_cells(columns[part], tick) for part, tick in zip(self.parts, self.ticks, strict=True)]
        )
        on, known = ticked == 1, (ticked >= 0).all(axis=1)
        codes = np.where(on.sum(axis=1) == 1, on.argmax(axis=1), -1)
        levels = list(self.levels)
        if not self.exactly:
            codes = np.where(known & ~on.any(axis=1), len(levels), codes)
            levels.append(NONE)
        order = sorted(range(len(levels)), key=levels.__getitem__)
        rank = np.full(len(levels) + 1, -1)
        rank[order] = np.arange(len(levels))
        cells = pandas.Categorical.from_codes(rank[codes], [levels[i] for i in order])
        index = columns[self.parts[0]].index
        joined: pd.Series = pandas.Series(cells.remove_unused_categories(), index=index)
        return joined


def find_joined(columns: Mapping[str, pd.Series], taken: Collection[str]) -> list[Joined]:
    """The groups among columns that have two levels, one of them a tick; `taken`: names of all columns."""
    pd = need_pandas()
    ticks: dict[str, str] = {}
    cells: dict[str, NDArray[np.int8]] = {}
    for name, column in columns.items():
        if isinstance(column.dtype, pd.CategoricalDtype) and len(column.cat.categories) == 2:
            levels = [as_text(level) for level in column.cat.categories]
            if (on := on_level(levels)) is not None:
                ticks[name], cells[name] = levels[on], _cells(column, levels[on])
    names = list(ticks)
    if len(names) < 2:
        return []
    all_cells = np.column_stack(list(cells.values()))
    complete = np.flatnonzero((all_cells >= 0).all(axis=1))
    if len(complete) < FEWEST_ROWS:
        return []
    some = complete[:: max(1, len(complete) // _SAMPLE)]
    found: list[Joined] = []
    for group in tick_groups(names, all_cells[some] == 1):
        own = all_cells[:, list(group.columns)]
        number = (own == 1).sum(axis=1)
        full = (own >= 0).all(axis=1)
        if group.count != 1 or (number > 1).any() or (group.exactly and (number[full] != 1).any()):
            continue
        parts = [names[j] for j in group.columns]
        name, levels = _named(parts, [*taken, *(each.name for each in found)])
        found.append(Joined(name, parts, levels, [ticks[part] for part in parts], group.exactly))
    return found


def _cells(column: pd.Series, tick: str) -> NDArray[np.int8]:
    """1 for a tick, 0 for none, -1 for a missing or another cell; another word for true is a tick, too."""
    pd = need_pandas()
    codes, cells = pd.factorize(column.astype(object))
    number, is_truth = float_of(tick), truth_of(tick) is True

    def of(cell: object) -> int:
        text = as_text(cell).strip()
        if text.casefold() == tick.casefold() or (number is not None and float_of(text) == number):
            return 1
        said = truth_of(text) if is_truth else None
        if is_off(text) or said is False:
            return 0
        return 1 if said else -1

    ticked: NDArray[np.int8] = np.array([*map(of, cells), -1], np.int8)[codes]
    return ticked


def _named(parts: list[str], taken: Collection[str]) -> tuple[str, list[str]]:
    """The name of joined columns, their stem or all their names, and the levels."""
    stems = {stem_of(part) for part in parts}
    stem = stems.pop() if len(stems) == 1 else ""
    levels = [part[len(stem) :].lstrip(" _.:=-") for part in parts] if stem else parts
    if len({*levels, "", NONE}) < len(levels) + 2:
        levels = parts
    name = stem or " / ".join(parts)
    if len(name) > _LONGEST:
        name = f"{parts[0]} / … / {parts[-1]}"
    while name in taken:
        name += "_"
    return name, levels


def joined_of(recipes: Mapping[str, object], wanted: Collection[str]) -> list[Joined]:
    """What a fit has joined, of its columns `wanted`."""
    found = []
    for name, recipe in recipes.items():
        if name in wanted and isinstance(recipe, Mapping) and (each := Joined.of_recipe(name, recipe)):
            found.append(each)
    return found
