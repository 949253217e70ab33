"""Columns that say what a date says: its year, quarter, month or week."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from craftc._common.messages import need_pandas, quoted
from craftc._common.typing import Floats
from craftc.reading.dates import month_of
from craftc.table.dates import FEWEST_PERIODS
from craftc.table.sums import numbers_of

if TYPE_CHECKING:
    import pandas as pd

_FEWEST = 20  # rows that show that one column is a part of another
_YEAR = 365.2425


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
            cells = _numbers(column)
            known = ~np.isnan(days) & ~np.isnan(cells)
            if known.sum() < _FEWEST or np.isnan(cells[~np.isnan(days)]).any():
                continue
            for part, values in parts:
                same = values[known] == cells[known]
                if same.all() and np.ptp(cells[known]) > 0.0 and (values[known] != days[known]).any():
                    out[other] = f"the {part} of {quoted(name)}"
                    break
    return out


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
    if np.nanmax(days) - np.nanmin(days) < FEWEST_PERIODS * _YEAR:
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
