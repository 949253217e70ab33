"""What the caller says about the columns of a table, and the names and levels that follow from it."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from craftc.reading.several import Answers
from craftc.table.kinds import told_truths

if TYPE_CHECKING:
    import pandas as pd


@dataclass
class Roles:
    """Roles that the caller assigns; the cells decide about the other columns."""

    # categorical, numeric, dates, kept: columns that are categorical, numeric or dates, and columns that
    # stay whatever they hold
    categorical: Collection[str] = ()
    numeric: Collection[str] = ()
    dates: Collection[str] = ()
    kept: Collection[str] = ()
    dates_as: str = "days"  # | "parts": also hour, weekday and season; | "drop": dates are unusable
    decimal: str = "infer"  # decimal mark of the table's texts, or "infer"
    blanks: str = "auto"  # blank cells next to a single value: "auto": "no", "missing"
    split: Collection[str] | str = "auto"  # columns whose cells hold several answers
    # of a fit: how the texts of columns were read, and the answers of split columns
    recipes: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    answers_of: Mapping[str, Answers] = field(default_factory=dict)
    fitted: bool = False  # whether the columns are those of a fit, whatever the cells look like
    # what an error says about a column of `numeric` in which no cell is a number
    numeric_problem: str = "numbers are expected"

    def __post_init__(self) -> None:
        self.categorical, self.numeric, self.dates, self.kept = map(
            frozenset, (self.categorical, self.numeric, self.dates, self.kept)
        )

    @property
    def asked(self) -> set[str]:
        """The columns whose use the caller asks for."""
        return {*self.categorical, *self.numeric, *self.dates, *self.kept}


@dataclass
class PreparedTable:
    """A table ready for an estimator, and how it was made."""

    frame: pd.DataFrame
    notes: list[str] = field(default_factory=list)
    unusable: dict[str, str] = field(default_factory=dict)  # column: reason
    codes: list[str] = field(default_factory=list)  # categorical columns that the table has as whole numbers
    kinds: dict[str, str | tuple[str, float]] = field(default_factory=dict)  # of days and periodic columns


def as_list(recipe: Mapping[str, object], name: str) -> list[str]:
    """The texts that a fit has noted under a name; none if it has not."""
    noted = recipe.get(name)
    return list(map(str, noted)) if isinstance(noted, list) else []


_NEGATIVE = {"no", "n", "false", "nein", "non", "0", "none", "nan"}  # next to these a blank is not "no"


_TICKS = frozenset("x✓✔☑√✅")
_SYMBOL = re.compile(r"[^\w\s.,:;?–—-]")  # one character that is no letter, no digit and no missing cell


def tick_of(level: str) -> str:
    """The text that all spellings of one tick share: "✓" of "x", "X" and "✔"."""
    text = level.casefold()
    return "✓" if text in _TICKS else text


def levels_of_tick(texts: Sequence[str], tick: str, blank: str) -> dict[str, str]:
    """The level that each of these texts is in a column whose levels are a tick and that of a blank cell: a
    text that says true or false, or any mark if it is the only text.
    """
    said = told_truths(texts)
    if len(texts) == 1 and texts[0] not in said and _SYMBOL.fullmatch(texts[0]):
        said = {texts[0]: True}
    of_text = {text: (tick if said[text] else blank) if text in said else text for text in texts}
    return of_text | {text: tick for text in texts if tick_of(text) == tick_of(tick)}


def blank_level(text: str) -> str:
    """The level of a blank cell next to this value alone; "" if it stays missing."""
    if text.casefold() in _NEGATIVE:
        return ""
    if text.casefold() == "true":
        return {"TRUE": "FALSE", "True": "False"}.get(text, "false")
    return "0" if text == "1" else "no"


def answer_name(name: str, option: str, taken: Collection[str]) -> str:
    """The name of the column of an answer, which no column of the table has."""
    new = f"{name}: {option}"
    while new in taken:
        new += "_"
    return new
