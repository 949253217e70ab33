"""Columns that say what a date says: its year, quarter, month or week."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from craftc._common.messages import need_pandas, quoted
from craftc._common.typing import Floats
from craftc.reading.dates import month_of
from craftc.table.dates import DAYS_OF_YEAR, FEWEST_PERIODS
from craftc.table.sums import numbers_of

if TYPE_CHECKING:
    import pandas as pd

_FEWEST = 20  # rows that show that one column is a part of another
_UNITS = (1.0, 24.0, 1440.0, 86_400.0, 86_400e3, 86_400e6, 86_400e9)  # in a day
_YEAR_LABEL = re.compile(r"[^\W\d]*[ -]?((?:19|20)\d{2})(?:\s?[-/–]\s?(?:\d{2}|\d{4}))?")
_MONDAY = 4.0  # days since 1970-01-01
_ROUNDED = 1.0 - 1e-6  # of a unit, by which dates of the same time differ
_ALIKE = 0.1  # largest distance of a unit from the ratio of rounded dates
_EXACT = 1e-9  # rounding of dates in another unit, in units of their range


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
