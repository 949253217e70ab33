"""Numbers of new rows outside the ranges of a fit: other units, and codes of missing cells."""

from __future__ import annotations

import numpy as np

from craftc._common.messages import warn_user
from craftc._common.typing import Array
from craftc.table.levels import LevelEncoding
from craftc.table.mixed_table import MixedTable
from craftc.table.sentinels import sentinels

_FEWEST_OUTSIDE = 5  # numbers outside the range of a column that are no chance
_LOOKED_AT = 1 << 12  # rows, evenly spread, that show the unit of a column


def warn_of_other_ranges(encoding: LevelEncoding | None, table: MixedTable, *, learned: bool = False) -> None:
    """Warn of the columns with most numbers outside the range of the fit: another unit, most likely; and of
    those with repeated numbers there that are far from the others. `learned`: their ranges are learned anew,
    where later dates are no surprise. `encoding` None: the model knows no ranges.
    """
    if encoding is None:
        return
    table = table.take(slice(None, None, max(1, len(table) // _LOOKED_AT)))
    places = dict(zip(table.schema.numeric_names, range(len(encoding.numbers)), strict=True))
    dates = [table.schema.columns[j] for j in table.schema.dates]
    for name, rows in encoding.outside(table).items():
        cells = table.numeric[:, places[name]]
        if len(rows) < _FEWEST_OUTSIDE or (name in dates and learned):
            continue
        low, high = encoding.numbers[places[name]].ends
        ends = f"{low:g} to {high:g}"
        effect = "" if learned else ", and count as the nearest ones in it"
        if 2 * len(rows) <= np.count_nonzero(cells == cells):
            if name not in dates and (codes := _codes_outside(cells, low, high)):
                warn_user(
                    f"Column {name!r}: cells of {codes} lie outside the range of the fit ({ends}){effect}; "
                    "if they stand for missing cells, make them NaN (na_values of read_table)."
                )
            continue
        what, check = "numbers", "unit"
        if name in dates:
            first, last = np.array([low, high]).astype(np.int64).astype("datetime64[D]")
            what, check, ends = "dates", "form", f"{first} to {last}"
        warn_user(
            f"Column {name!r}: most {what} of these rows lie outside the range of the fit "
            f"({ends}){effect}; check their {check}."
        )


def _codes_outside(cells: Array, low: float, high: float) -> str:
    """The repeated numbers of cells that are far from the others, and outside a range."""
    distinct, counts = np.unique(cells[~np.isnan(cells)].astype(np.float64), return_counts=True)
    return ", ".join(code for code, _ in sentinels(distinct, counts) if not low <= float(code) <= high)
