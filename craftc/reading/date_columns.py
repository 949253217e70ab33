"""Columns that repeat a date: its year, quarter, month or week; two columns that say when in the year a row
is, one more finely than the other; seasons, weekends and parts of the day, which have one value for each
month, weekday or hour of another column.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from craftc._common.messages import need_pandas, quoted
from craftc._common.typing import Floats
from craftc.reading.dates import month_of, weekday_of
from craftc.table.dates import DAYS_OF_YEAR, FEWEST_PERIODS, parts_of, repeats
from craftc.table.sums import numbers_of

if TYPE_CHECKING:
    import pandas as pd
if TYPE_CHECKING:
    import pandas as pd

    from craftc.table.declared import KindInput

_FEWEST = 20  # rows that show that one column is a part of another, or has one value for each
_UNITS = (1.0, 24.0, 1440.0, 86_400.0, 86_400e3, 86_400e6, 86_400e9)  # in a day
_YEAR_LABEL = re.compile(r"[^\W\d]*[ -]?((?:19|20)\d{2})(?:\s?[-/–]\s?(?:\d{2}|\d{4}))?")
_MONDAY = 4.0  # days since 1970-01-01
_ROUNDED = 1.0 - 1e-6  # of a unit, by which dates of the same time differ
_ALIKE = 0.1  # largest distance of a unit from the ratio of rounded dates
_EXACT = 1e-9  # rounding of dates in another unit, in units of their range
_FEWEST_OF_YEAR = 50  # rows that show that two columns say when in the year they are
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
_OTHERS = 10  # rows of other values than the most frequent one, where a column has one value for each part
_FEWEST_PARTS = 4  # months, weekdays or hours, more than
_PERIODS = {24.0: "hour", 7.0: "weekday", 12.0: "month"}  # of columns that are these parts
_LOOKED_AT = 2000  # rows that are looked at first
_RUNS = 2  # of the other column's values, that each value has at most on average
_SEVERAL = 3  # months that occur in several years
_LAST_MONTH = 16.0  # more than the months of a year


def copies_of_dates(
    columns: Mapping[str, pd.Series], dates: Collection[str], kept: Collection[str] = ()
) -> dict[str, str]:
    """The columns that are parts of dates, each with the reason: ``{"year": "the year of 'day'"}``.

    `dates`: columns of days since 1970-01-01; `kept`: columns that stay. Quarters, months and weeks of the
    year stay next to dates that span enough years for them to repeat.
    """
    out: dict[str, str] = {}
    for name in dates:
        if name not in columns or name in out:
            continue
        days = columns[name].to_numpy(np.float64, na_value=np.nan)
        if not (days[~np.isnan(days)] > -700_000).all() or np.isnan(days).all():
            continue
        parts = list(_parts(days))
        for other, column in columns.items():
            if other in (name, *out, *kept):
                continue
            if _are_years_of(days, column):
                out[other] = f"the year of {quoted(name)}"
                continue
            cells = _numbers(column)
            known = ~np.isnan(days) & ~np.isnan(cells)
            if known.sum() < _FEWEST or np.isnan(cells[~np.isnan(days)]).any():
                continue
            own, of = cells[known], days[known]
            if np.ptp(own) == 0.0:
                continue
            head = np.flatnonzero(known)[:_FEWEST]  # most columns differ there
            alike = ((part, values) for part, values in parts if (values[head] == own[:_FEWEST]).all())
            same = (part for part, values in alike if (values[known] == own).all())
            if (part := next(same, None)) is not None and (own != of).any():
                out[other] = f"the {part} of {quoted(name)}"
            elif any(_are_the_same(each, own) for each in (of, np.floor(of))):
                out[other] = f"{quoted(name)} again, in the same or another unit"
    return out


def _are_years_of(days: Floats, column: pd.Series) -> bool:
    """Whether a column names years that follow each other as dates do: "FY2024", "2023/24"."""
    if not isinstance(column.dtype, need_pandas().CategoricalDtype):
        return False
    years = [_YEAR_LABEL.fullmatch(str(level)) for level in column.cat.categories]
    if len(years) < 2 or not all(years):
        return False
    named = np.array([*(int(each[1]) for each in years if each), 0])[column.cat.codes.to_numpy()]
    known = ~np.isnan(days) & (named > 0)
    if known.sum() < _FEWEST:
        return False
    order = np.argsort(days[known], kind="stable")
    apart = np.floor(days[known] / DAYS_OF_YEAR) + 1970.0 - named[known]
    return bool((np.diff(named[known][order]) >= 0).all() and np.abs(apart).max() <= 1.0)


def _are_the_same(days: Floats, cells: Floats) -> bool:
    """Whether numbers are these dates, counted from any day in a unit of time."""
    first, last = int(days.argmin()), int(days.argmax())
    if days[first] == days[last]:
        return False
    rate = float((cells[last] - cells[first]) / (days[last] - days[first]))
    unit = min(_UNITS, key=lambda each: abs(abs(rate) - each) / each)
    if abs(abs(rate) - unit) > _ALIKE * unit or len(np.unique(days)) <= 2:
        return False
    rest = cells - np.sign(rate) * unit * days
    finest = max(_resolution(days), _resolution(cells / unit))
    exact = _EXACT * max(np.ptp(cells), np.abs(cells).max())
    return bool(np.ptp(rest) <= max(exact, _ROUNDED * finest * unit))


def _resolution(days: Floats) -> float:
    """The unit of time to which dates are written: a day, an hour, a minute, a second, or less."""
    for unit in _UNITS:
        if np.abs(days * unit - np.round(days * unit)).max() <= _EXACT * unit * max(1.0, np.abs(days).max()):
            return 1.0 / unit
    return 0.0


def _parts(days: Floats) -> Iterator[tuple[str, Floats]]:
    """The parts of dates that say nothing else."""
    known = ~np.isnan(days)
    whole = np.floor(np.where(known, days, 0.0)).astype(np.int64).astype("datetime64[D]")
    month = whole.astype("datetime64[M]")
    year = month.astype("datetime64[Y]")

    def of(values: NDArray[np.floating]) -> Floats:
        return np.where(known, values, np.nan).astype(np.float64)

    number = month.astype(np.int64) % 12 + 1.0
    years = year.astype(np.int64) + 1970.0
    yield "year", of(years)
    yield "month", of(month.astype("datetime64[D]").astype(np.int64).astype(np.float64))
    yield "month", of(100.0 * years + number)
    quarter = (month.astype(np.int64) // 3 * 3).astype("datetime64[M]")
    yield "quarter", of(quarter.astype("datetime64[D]").astype(np.int64).astype(np.float64))
    yield "year", of(year.astype("datetime64[D]").astype(np.int64).astype(np.float64))
    yield "day", of(np.floor(days))
    yield "week", of(np.floor((days - _MONDAY) / 7.0) * 7.0 + _MONDAY)
    if np.nanmax(days) - np.nanmin(days) < FEWEST_PERIODS * DAYS_OF_YEAR / 12.0:
        yield "day of the month", of((whole - month.astype("datetime64[D]")).astype(np.float64) + 1.0)
    if np.nanmax(days) - np.nanmin(days) < FEWEST_PERIODS * DAYS_OF_YEAR:
        pd = need_pandas()
        yield "month", of(number)
        yield "quarter", of(np.floor((number - 1.0) / 3.0) + 1.0)
        if np.nanmin(days) > -100_000 and np.nanmax(days) < 100_000:
            weeks = pd.Series(whole.astype("datetime64[s]")).dt.isocalendar().week
            yield "week", of(weeks.to_numpy(np.float64))


def _numbers(column: pd.Series) -> Floats:
    """The cells as numbers; names of months and quarters are their numbers, other texts NaN."""
    if not isinstance(column.dtype, need_pandas().CategoricalDtype):
        return np.asarray(column.to_numpy(np.float64, na_value=np.nan))
    levels = [_number_of(str(level)) for level in column.cat.categories]
    cells = numbers_of(column.cat.codes.to_numpy(np.intp), levels)
    return np.full(len(column), np.nan) if cells is None else cells


def _number_of(level: str) -> str:
    """A number, or that of a month or of a quarter, as text."""
    if month := month_of(level.strip(". ")):
        return str(month)
    quarter = level.upper().removeprefix("Q").removesuffix(". QUARTAL").removesuffix("Q").strip()
    return quarter if quarter in ("1", "2", "3", "4") else level


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
        return len(away) >= _FEWEST_OF_YEAR and bool(near.mean() >= _AGREE)


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


@dataclass(frozen=True)
class _Part:
    """A part of a column by row, NaN where it is missing."""

    said: str  # "month of 'day'"
    of: str  # the name of the column
    cells: Floats
    shown: bool  # whether the column itself shows it, as dates of a few years show their month
    once: bool = False  # whether each month occurs in one year, so that only seasons are known by their names


def parts_of_the_calendar(
    columns: Mapping[str, pd.Series], kinds: Mapping[str, KindInput], kept: Collection[str] = ()
) -> dict[str, str]:
    """The columns that have one value for each month, weekday or hour of another column, with the reason:
    ``{"season": "one value for each month of 'day'"}``.

    `kinds`: dates and periodic columns; `kept`: columns that stay. Where the other column does not show the
    part itself, the column of the most values stays.
    """
    out: dict[str, str] = {}
    numbers = cache(lambda name: as_numbers(columns[name]))
    for part in _parts_of_columns(columns, kinds):
        if part.of in out or len(np.unique(part.cells[~np.isnan(part.cells)])) <= _FEWEST_PARTS:
            continue
        others = (name for name in columns if name not in (part.of, *out))
        may_be = (name for name in others if not part.once or _names_seasons(columns[name]))
        found = {name: n for name in may_be if (n := one_value_for_each(part.cells, numbers(name)))}
        finest = None if part.shown else max(found, key=found.__getitem__, default=None)
        for name in found:
            if name != finest and name not in kept:
                out[name] = f"one value for each {part.said}"
    return out


def _parts_of_columns(columns: Mapping[str, pd.Series], kinds: Mapping[str, KindInput]) -> Iterator[_Part]:
    for name, column in columns.items():
        kind = kinds.get(name)
        if kind == "date":
            yield from _parts_of_date(name, column.to_numpy(np.float64, na_value=np.nan))
        elif isinstance(kind, tuple) and kind[1] in _PERIODS:
            cells = np.floor(column.to_numpy(np.float64, na_value=np.nan))
            yield _Part(f"{_PERIODS[float(kind[1])]} of {quoted(name)}", name, cells, shown=True)
        elif hasattr(column, "cat") and len(column.cat.categories) > _FEWEST_PARTS:
            levels = [str(level).strip(". ") for level in column.cat.categories]
            for place in (month_of, weekday_of):
                places = list(map(place, levels))
                if all(places):
                    cells = np.array([*places, np.nan])[column.cat.codes.to_numpy()]
                    yield _Part(f"value of {quoted(name)}", name, cells, shown=True)


def _parts_of_date(name: str, days: Floats) -> Iterator[_Part]:
    if np.isnan(days).all():
        return
    parts = parts_of(days)
    month = np.floor(parts["season"])
    year = np.floor(days / DAYS_OF_YEAR)
    pairs = np.unique((year * _LAST_MONTH + month)[~np.isnan(days)])
    once = bool(np.count_nonzero(np.unique(pairs % _LAST_MONTH, return_counts=True)[1] > 1) < _SEVERAL)
    yield _Part(f"month of {quoted(name)}", name, month, not repeats(days, "season"), once)
    yield _Part(f"weekday of {quoted(name)}", name, parts["weekday"], shown=False)
    if (np.floor(days) < days).any():
        yield _Part(f"hour of {quoted(name)}", name, np.floor(parts["hour"]), shown=False)


def _names_seasons(column: pd.Series) -> bool:
    return hasattr(column, "cat") and all(season_of(str(level)) for level in column.cat.categories)


def one_value_for_each(of: Floats, own: Floats) -> int:
    """The number of values of a column that has one for each value `of` another one; 0 if it has not, or if
    that may be chance. NaN is a missing cell.
    """
    step = len(own) // _LOOKED_AT
    if step > 1 and not one_value_for_each(of[::step], own[::step]):
        return 0
    known = ~np.isnan(of) & ~np.isnan(own)
    values, place = np.unique(own[known], return_inverse=True)
    group = np.unique(of[known], return_inverse=True)[1]
    if len(place) < _FEWEST or len(values) < 2:
        return 0
    one = np.zeros(group.max() + 1, np.intp)
    one[group] = place
    several = np.bincount(group)[group] > 1
    others = (place != np.bincount(place).argmax()) & several
    n_runs = np.count_nonzero(one != np.roll(one, 1))  # a season is a few runs of months
    found = (one[group] == place).all() and n_runs <= _RUNS * len(values) and others.sum() >= _OTHERS
    return len(values) if found else 0


def as_numbers(column: pd.Series) -> Floats:
    """The cells as numbers, those of a category as places of its levels."""
    if hasattr(column, "cat"):
        codes = column.cat.codes.to_numpy(np.float64)
        return np.where(codes < 0.0, np.nan, codes)
    return np.asarray(column.to_numpy(np.float64, na_value=np.nan))
