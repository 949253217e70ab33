"""Parts of dates that repeat: hours of the day, days of the week, and seasons."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

import numpy as np

from craftc._common.typing import Array, Floats
from craftc.table.frames import ColumnSource
from craftc.table.kinds import ColumnKind
from craftc.table.level_column import LevelColumn

DAYS_OF_YEAR = 365.2425
#: Parts of a date, the period of each, and the days of a period.
PARTS = {"hour": (24.0, 1.0), "weekday": (7.0, 7.0), "season": (12.0, DAYS_OF_YEAR)}
FEWEST_PERIODS = 12  # that dates span; of fewer, a part says what the date itself says


#: Names of columns that are periodic, the period, the least and the largest value, and whether values are
#: whole numbers.
_NAMED = tuple(
    (re.compile(rf"(^|[^a-z])({names})([^a-z]|$)", re.IGNORECASE), period, low, high, whole)
    for names, period, low, high, whole in (
        (
            r"wind[_ -]?dir(ection)?|wd|(wind|compass|wave|flow|swell)[_ -]?(deg|degrees|angle)|dir(ection)?"
            r"|bearing|heading|azimuth|aspect|windrichtung|richtung|hue",
            360.0,
            0.0,
            360.0,
            False,
        ),
        (r"hour|hr|hour[_ -]?of[_ -]?day|stunde|heure|hora", 24.0, 0.0, 24.0, True),
        (r"weekday|day[_ -]?of[_ -]?week|dow|wochentag", 7.0, 0.0, 7.0, True),
        (r"month[_ -]?of[_ -]?year|calendar[_ -]?month|month|mnth|monat|mois|mes", 12.0, 0.0, 12.0, True),
        (r"day[_ -]?of[_ -]?year|doy|yday|julian[_ -]?day", 365.2425, 0.0, 366.0, True),
    )
)
_COVERED = 0.8  # share of a period that the values of a column span, at least


def named_period(name: str, distinct: Floats) -> float:
    """The period of a column by its name, if its values, ascending, span most of it; otherwise 0."""
    for names, period, low, high, whole in _NAMED:
        if names.search(name) is None or distinct[0] < low or distinct[-1] > high:
            continue
        if distinct[-1] - distinct[0] >= _COVERED * (period - whole) and (
            not whole or (distinct == np.floor(distinct)).all()
        ):
            return period
    return 0.0


def parts_of(days: Floats) -> dict[str, Floats]:
    """The parts of dates: hours of the day, if they have any, days of the week, months since 1 January."""
    known = ~np.isnan(days)
    day = np.floor(np.where(known, days, 0.0))
    whole = day.astype(np.int64).astype("datetime64[D]")
    month = whole.astype("datetime64[M]")
    next_month = month + np.timedelta64(1, "M")
    length = (next_month.astype("datetime64[D]") - month.astype("datetime64[D]")).astype(np.float64)
    in_month = (whole - month.astype("datetime64[D]")).astype(np.float64) / length
    parts = {
        "hour": np.round((days - day) * 24.0, 6) % 24.0,
        "weekday": np.where(known, (day + 3.0) % 7.0, np.nan),
        "season": np.where(known, month.astype(np.int64) % 12 + in_month, np.nan),
    }
    return parts


def repeats(days: Floats, part: str) -> bool:
    """Whether dates with times of day or other such parts span enough periods of them."""
    span = float(np.nanmax(days) - np.nanmin(days))
    varies = part != "hour" or bool((np.floor(days) < days).any())
    return varies and span >= FEWEST_PERIODS * PARTS[part][1]


def part_name(name: str, part: str, taken: Collection[str]) -> str:
    """The name of a part of a date, which no column of the table has."""
    new = f"{name} {part}"
    while new in taken:
        new += "_"
    return new


def parts_among(names: Collection[str], dates: Collection[str]) -> dict[str, tuple[str, str]]:
    """The parts that can be made of the dates among the columns of a table: date and part, by name."""
    return {f"{name} {part}": (name, part) for name in names if name in dates for part in PARTS}


def with_parts(source: ColumnSource, dates: Collection[str], columns: Collection[str]) -> ColumnSource:
    """A table whose dates have the parts among these columns, and no others, whatever periods they span."""
    parts = parts_among(source.names, dates)
    if not parts:
        return source
    absent = [name for name in parts if name in columns and name not in source.names]
    kept = [j for j, name in enumerate(source.names) if name in columns or name not in parts]
    chosen = source.chosen(np.array(kept, np.intp))
    return _WithParts(chosen, {name: parts[name] for name in absent}) if absent else chosen


class _WithParts(ColumnSource):
    """A table and parts of its dates, which follow its columns."""

    named = True

    def __init__(self, source: ColumnSource, parts: dict[str, tuple[str, str]]) -> None:
        self._source, self._parts, self.n_rows = source, list(parts.values()), source.n_rows
        self.names = (*source.names, *parts)
        self.kinds = source.kinds + [ColumnKind.NUMBER] * len(parts)
        self.narrow = source.narrow + [False] * len(parts)

    def _number(self, j: int) -> Array:
        width = len(self._source.names)
        if j < width:
            return self._source._number(j)
        name, part = self._parts[j - width]
        date = np.array([self._source.names.index(name)])
        return parts_of(self._source.numbers(date, np.dtype(np.float64))[:, 0])[part]

    def cells(self, j: int) -> Iterable[object]:
        return self._source.cells(j)

    def column(self, j: int) -> LevelColumn:
        return self._source.column(j)
