"""Parts of dates in SQL, as `craftc.table.dates` computes them from days since 1970-01-01.

The calendar is counted in years that begin in March, so that the leap day is the last of its year: H.
Hinnant, "chrono-compatible low-level date algorithms", days_from_civil.
"""

from __future__ import annotations

_EPOCH = 719_468  # days from 0000-03-01 to 1970-01-01
_LENGTHS = (31, 30, 31, 30, 31, 31, 30, 31, 30, 31, 31)  # days of the months from March to January


def steps_of_part(part: str, days: str, name: str, floor: str) -> list[dict[str, str]]:
    """Formulas of a part of a date, a step after the other: column and formula. The last step has `name`.

    `days` is the column of the date, which is not before the year 0, and `floor` a template of the largest
    whole number below a value that is not negative.
    """

    def whole(value: str) -> str:
        return floor.format(value)

    day, own = f"{name}_day", f"{name}_"
    first = {day: whole(f"{days} + {_EPOCH}e0")}
    if part == "weekday":
        return [first, {name: f"{day} + 2e0 - 7e0 * {whole(f'({day} + 2e0) / 7e0')}"}]
    if part == "hour":
        millionths = whole(f"({days} - {day} + {_EPOCH}e0) * 24e6 + 5e-1")
        return [
            first,
            {own + "h": f"{millionths} / 1e6"},
            {name: f"CASE WHEN {own}h >= 24e0 THEN 0e0 ELSE {own}h END"},
        ]
    e, y, d, m = (f"{own}{letter}" for letter in "eydm")
    years = (
        f"({e} - {whole(f'{e} / 146e1')} + {whole(f'{e} / 36524e0')} - {whole(f'{e} / 146096e0')}) / 365e0"
    )
    lengths = " ".join(f"WHEN {m} = {i} THEN {length}e0" for i, length in enumerate(_LENGTHS))
    divisible = {by: f"{y} + 1e0 = {by}e0 * {whole(f'({y} + 1e0) / {by}e0')}" for by in (4, 100, 400)}
    leap = f"{divisible[400]} OR ({divisible[4]} AND NOT ({divisible[100]}))"
    length = f"CASE {lengths} WHEN {leap} THEN 29e0 ELSE 28e0 END"
    month = f"CASE WHEN {m} < 10 THEN {m} + 2e0 ELSE {m} - 10e0 END"
    return [
        first,
        {e: f"{day} - 146097e0 * {whole(f'{day} / 146097e0')}"},
        {y: whole(years)},
        {d: f"{e} - 365e0 * {y} - {whole(f'{y} / 4e0')} + {whole(f'{y} / 100e0')}"},
        {m: whole(f"(5e0 * {d} + 2e0) / 153e0")},
        {name: f"{month} + ({d} - {whole(f'(153e0 * {m} + 2e0) / 5e0')}) / {length}"},
    ]
