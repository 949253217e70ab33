"""Columns that say when in the year a row is: months, weeks, quarters, halves, days of the year and dates.

Two of them say the same, the one more finely than the other.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from craftc._common.messages import need_pandas, quoted
from craftc._common.typing import Floats
from craftc.reading.dates import month_of
from craftc.table.dates import DAYS_OF_YEAR, parts_of, repeats
from craftc.table.sums import numbers_of

if TYPE_CHECKING:
    import pandas as pd

    from craftc.table.declared import KindInput

_FEWEST = 50  # rows that show it
_NEAR = 0.04  # of a year, two weeks, by which weeks lie across months, and payments are due later
_AGREE = 0.99  # share of the rows
_WEEKS = 52.18  # of a year
_NAMES = tuple(
    (what, re.compile(rf"(^|[^a-z])({names})([^a-z]|$)", re.IGNORECASE), n, last)
    for what, names, n, last in (
        ("month", r"month|mnth|monat|mois|mes|mese", 12.0, 12),
        (
            "week",
            r"week|wk|week_?(of_?year|num|number|no|nr)|kw|kalenderwoche|woche|semaine|semana",
            52.18,
            53,
        ),
        ("day of the year", r"day[_ -]?of[_ -]?year|doy|yday|julian[_ -]?day", DAYS_OF_YEAR, 366),
        ("quarter", r"quarter|qtr|quartal|trimestre", 4.0, 4),
        ("half of the year", r"half|semester|halbjahr|semestre", 2.0, 2),
    )
)
_SEASONS = {
    season: place
    for place, seasons in enumerate(
        (
            "winter hiver invierno inverno",
            "spring frühling frühjahr printemps primavera",
            "summer sommer été verano estate",
            "autumn fall herbst automne otoño autunno",
        ),
        1,
    )
    for season in seasons.split()
}
_TURNED = 0.06  # of a year, by which seasons begin later by the sun than by the month
_QUARTER = re.compile(r"(?:Q|T)\s?([1-4])|([1-4])\.?\s?(?:Q|quarter|quartal|trim\w*)", re.IGNORECASE)
_HALF = re.compile(r"(?:H|HJ|S)\s?([12])|([12])\.?\s?(?:H|HJ|half|halbjahr|sem\w*)", re.IGNORECASE)


@dataclass(frozen=True)
class _WhenInYear:
    """The middle of the part of the year in which each row is, as a share of it, and half its length."""

    what: str
    middle: Floats
    reach: float

    def agrees(self, other: _WhenInYear) -> bool:
        """Whether both are at one time in nearly all rows; seasons are half a year later in the south."""
        turns = (0.0, 0.5) if "season" in (self.what, other.what) else (0.0,)
        return any(self._is_near(other, turn) for turn in turns)

    def _is_near(self, other: _WhenInYear, turn: float) -> bool:
        away = np.abs(self.middle - other.middle + turn) % 1.0
        away = np.minimum(away, 1.0 - away)[~np.isnan(self.middle) & ~np.isnan(other.middle)]
        near = away <= self.reach + other.reach + _NEAR
        return len(away) >= _FEWEST and bool(near.mean() >= _AGREE)


def parts_of_the_year(
    columns: Mapping[str, pd.Series], kinds: Mapping[str, KindInput], kept: Collection[str] = ()
) -> dict[str, str]:
    """The columns that say less finely than another one, or than a date, when in the year a row is, each with
    the reason: ``{"month": "the month of 'week'"}``. Dates of many years do not show it. `kept`: columns that
    stay.
    """
    known = {name: each for name, column in columns.items() if (each := _when(name, column, kinds.get(name)))}
    order = sorted(known, key=lambda name: (known[name].what != "date", known[name].reach))
    out: dict[str, str] = {}
    for place, finer in enumerate(order):
        for coarser in order[place + 1 :] if finer not in out else ():
            one, other = known[finer], known[coarser]
            same = other.what == "date" or (one.what != "date" and one.reach == other.reach)
            if not same and coarser not in (*out, *kept) and one.agrees(other):
                out[coarser] = f"the {other.what} of {quoted(finer)}"
    return out


def _when(name: str, column: pd.Series, kind: KindInput | None) -> _WhenInYear | None:
    """When in the year the rows are, by a date, or by the name of a column and its values."""
    if kind == "date":
        return _when_of_dates(column.to_numpy(np.float64, na_value=np.nan))
    if not isinstance(column.dtype, need_pandas().CategoricalDtype):
        return _when_by_name(name, column.to_numpy(np.float64, na_value=np.nan))
    codes = column.cat.codes.to_numpy()
    levels = [str(level).strip(". ") for level in column.cat.categories]
    for what, n, place in (
        ("month", 12.0, month_of),
        ("quarter", 4.0, _quarter),
        ("half of the year", 2.0, _half),
        ("season", 4.0, season_of),
    ):
        places = list(map(place, levels))
        if len(levels) > 1 and all(places):
            middle = (np.array([*places, np.nan])[codes] - 0.5) / n
            if what == "season":  # from December on
                return _WhenInYear(what, middle - 1.0 / 12.0, 0.5 / n + _TURNED)
            return _WhenInYear(what, middle, 0.5 / n)
    numbers = numbers_of(codes, levels)
    return None if numbers is None else _when_by_name(name, numbers)


def _when_of_dates(days: Floats) -> _WhenInYear | None:
    present = days[~np.isnan(days)]
    if not len(present) or repeats(days, "season"):
        return None
    whole = np.floor(present).astype(np.int64).astype("datetime64[D]")
    monthly = bool((whole == whole.astype("datetime64[M]").astype("datetime64[D]")).all())
    weekly = len(np.unique(np.floor(present) % 7.0)) == 1
    reach = 0.5 / 12.0 if monthly else 0.5 / _WEEKS if weekly else 0.0
    return _WhenInYear("date", parts_of(days)["season"] / 12.0 + reach, reach)


def _when_by_name(name: str, numbers: Floats) -> _WhenInYear | None:
    present = numbers[~np.isnan(numbers)]
    if not len(present) or np.ptp(present) == 0.0 or (present != np.floor(present)).any():
        return None
    for what, names, n, last in _NAMES:
        if names.search(name) and present.min() >= 1.0 and present.max() <= last:
            return _WhenInYear(what, (numbers - 0.5) / n, 0.5 / n)
    return None


def season_of(level: str) -> int:
    """The number of a season, 1 for winter; 0 if this is none."""
    return _SEASONS.get(level.casefold(), 0)


def _quarter(level: str) -> int:
    found = _QUARTER.fullmatch(level)
    return int(found[1] or found[2]) if found else 0


def _half(level: str) -> int:
    found = _HALF.fullmatch(level)
    return int(found[1] or found[2]) if found else 0
