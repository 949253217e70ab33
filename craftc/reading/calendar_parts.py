"""Columns that have one value for each month, weekday or hour of another column: seasons, weekends, parts of
the day.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from craftc._common.messages import quoted
from craftc._common.typing import Floats
from craftc.reading.dates import month_of, weekday_of
from craftc.reading.year_parts import season_of
from craftc.table.dates import DAYS_OF_YEAR, parts_of, repeats

if TYPE_CHECKING:
    import pandas as pd

    from craftc.table.declared import KindInput

_FEWEST, _OTHERS = 20, 10  # rows, and rows of other values than the most frequent one, that show it
_FEWEST_PARTS = 4  # months, weekdays or hours, more than
_PERIODS = {24.0: "hour", 7.0: "weekday", 12.0: "month"}  # of columns that are these parts
_LOOKED_AT = 2000  # rows that are looked at first
_RUNS = 2  # of the other column's values, that each value has at most on average
_SEVERAL = 3  # months that occur in several years
_LAST_MONTH = 16.0  # more than the months of a year


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
    for part in _parts(columns, kinds):
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


def _parts(columns: Mapping[str, pd.Series], kinds: Mapping[str, KindInput]) -> Iterator[_Part]:
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
