"""Numbers and dates in the place of missing ones, such as -999 and 9999-12-31."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date

import numpy as np

from craftc._common.messages import as_text
from craftc._common.typing import Floats, Integers

_SHARE, _FEWEST = 0.01, 5  # of the rows that have another sentinel, at least
_MANY = 10  # other numbers or dates, from which one can be far
_OFTEN = 3  # times the rows of another number or date, of one in the place of missing ones
_LONG = 1e16  # numbers that are written with an exponent
_MOST_CODES = 4  # that stand for different reasons
_FROM_ZERO, _MOST_ZEROS = 1.5, 0.2  # deviations of the others from 0, least, and share of the rows, most
_FEW_VALUES, _JUMP = 4, 3.0  # other values, at least, and gap in front of a code in their largest gaps
#: Codes of answers that are missing, by the size of the other numbers.
_CODES = [
    {float(code) for code in codes}
    for codes in ((7, 8, 9), (66, 77, 88, 97, 98, 99), (666, 777, 888, 997, 998, 999), (9997, 9998, 9999))
]
_EPOCH = date(1970, 1, 1).toordinal()
_NO_DATES = {
    float(date.fromisoformat(day).toordinal() - _EPOCH)
    for day in (
        *("0001-01-01", "1753-01-01", "1899-12-30", "1899-12-31", "1900-01-01", "1970-01-01"),
        *("2099-12-31", "2999-12-31", "9999-01-01", "9999-12-31"),
    )
}


def sentinels(distinct: Floats, counts: Integers) -> Iterator[tuple[str, int]]:
    """The smallest and the largest of the numbers of a column, ascending, that are repeated and far from the
    others, or are codes of missing answers, each with its number of rows.
    """
    found: set[int] = set()
    for lowest in (True, False):
        for n in range(1, min(_MOST_CODES, len(distinct) - 1) + 1):
            group = slice(0, n) if lowest else slice(len(distinct) - n, None)
            rest = slice(n, None) if lowest else slice(0, len(distinct) - n)
            alone = n == 1 and _is_far(distinct, counts, 0 if lowest else -1)
            alone |= n == 1 and lowest and _is_zero(distinct, counts)
            if alone or _are_codes(distinct[group], counts[group], distinct[rest], counts[rest]):
                found.update(range(len(distinct))[group])
    for at in sorted(found):
        number = float(distinct[at])
        yield (as_text(number) if abs(number) < _LONG else repr(number)), int(counts[at])


def _is_far(distinct: Floats, counts: Integers, at: int) -> bool:
    """Whether the number at one end is repeated and far from the others, or the only negative one."""
    rest = distinct[1:] if at == 0 else distinct[:-1]
    often = counts[at] >= max(_FEWEST, _SHARE * counts.sum()) and len(rest) >= _MANY
    usual = set(as_text(abs(distinct[at])).replace(".", "")) == {"9"}  # 99, 999.9
    often &= usual or float(distinct[at]).is_integer()
    if len(rest) < 2 or not ((usual and counts[at] > 1) or often):
        return False
    nearest = rest[0] if at == 0 else rest[-1]
    more = counts[at] >= _OFTEN * np.median(counts)
    alone = often and more and distinct[at] <= -1.0 and rest[0] >= 0.0
    return bool(abs(distinct[at] - nearest) > rest[-1] - rest[0] or alone)


def _is_zero(distinct: Floats, counts: Integers) -> bool:
    """Whether the lowest number is a repeated 0 which the others do not come near: a weight of 0 kg."""
    n_rest, least = counts[1:], max(_FEWEST, _SHARE * counts.sum())
    if distinct[0] != 0.0 or len(n_rest) < _MANY or not least <= counts[0] <= _MOST_ZEROS * counts.sum():
        return False
    rest = distinct[1:] / distinct[-1]  # whose squares do not overflow
    deviation = float(np.sqrt(np.average((rest - np.average(rest, weights=n_rest)) ** 2, weights=n_rest)))
    steps = np.diff(rest[: len(rest) // 2 + 1])
    return bool(rest[0] >= _FROM_ZERO * deviation and rest[0] >= _JUMP * steps.max())


def _are_codes(codes: Floats, n_rows: Integers, rest: Floats, n_rest: Integers) -> bool:
    """Whether the numbers at one end are codes of answers that are missing: -9 and -8, or 98 and 99.

    They are repeated, and a gap separates them from the other numbers.
    """
    lowest, on_scale = bool(codes[0] < rest[0]), _are_a_scale(rest, n_rest)
    few = on_scale and not lowest and n_rows.min() > 1  # are sufficient next to the answers of one question
    if len(rest) < _FEW_VALUES or not (few or _are_enough(n_rows, n_rest, lowest=lowest)):
        return False
    sizes = set(np.abs(codes).tolist())
    gap = float(rest[0] - codes[-1] if lowest else codes[0] - rest[-1])
    far = gap > rest[-1] - rest[0]
    if codes[0] < 0.0:
        known = any(sizes <= {*each, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0} and sizes & each for each in _CODES)
        alone = rest[0] >= 0.0 > codes[-1]
        scale = np.diff(rest).max() == 1.0 and (np.diff(codes) > 1.0).any() | (codes[-1] < -5.0)
        often = len(rest) >= _MANY and (n_rows >= _OFTEN * np.median(n_rest)).all()
        no_answer = len(codes) <= 2 and codes[0] >= -2.0 and codes[-1] == -1.0 and on_scale and rest[0] == 1.0
        return bool((known and codes[-1] < 0.0 and (far or (alone and (scale or often)))) or no_answer)
    whole, total = bool((rest == np.floor(rest)).all()), n_rows.sum() + n_rest.sum()
    return (
        whole
        and any(sizes <= each and (max(each) in sizes or (far and min(sizes) > 9.0)) for each in _CODES)
        and gap >= _JUMP * float(np.diff(rest).max())
        and bool(far or few or (n_rows >= np.median(n_rest)).all() or n_rows.sum() >= 3 * _SHARE * total)
    )


def _are_a_scale(numbers: Floats, counts: Integers) -> bool:
    """Whether numbers are all steps of a scale from 0 or 1, whose ends are no tails as those of counts."""
    steps = numbers[0] in (0.0, 1.0) and bool((np.diff(numbers) == 1.0).all())
    return steps and bool(2 * counts[-1] >= np.median(counts))


def _are_enough(n_rows: Integers, n_rest: Integers, *, lowest: bool) -> bool:
    """Whether numbers at one end are repeated: each often, or all together where the next number is no rare
    one, such as the last but a few of counts.
    """
    least = max(_FEWEST, _SHARE * (n_rows.sum() + n_rest.sum()))
    next_to_them = n_rest[0 if lowest else -1]
    together = n_rows.min() > 1 and n_rows.sum() >= least and 2 * next_to_them >= np.median(n_rest)
    return bool((n_rows >= least).all() or together)


def sentinel_dates(days: Floats) -> Iterator[tuple[str, int]]:
    """The first and the last of the dates of a column, days since 1970-01-01 or NaN, that are repeated and
    far from the others, or stand for no date in many systems, each with its number of rows.
    """
    distinct, counts = np.unique(days[~np.isnan(days)], return_counts=True)
    for at, rest in ((0, distinct[1:]), (-1, distinct[:-1])):
        if len(rest) < 2 or counts[at] < max(_FEWEST, _SHARE * counts.sum()):
            continue
        gap, span = abs(distinct[at] - rest[0 if at == 0 else -1]), rest[-1] - rest[0]
        usual = distinct[at] in _NO_DATES and counts[at] >= _OFTEN * np.median(counts)
        if usual or (gap > span and len(rest) >= _MANY):
            yield date.fromordinal(int(distinct[at]) + _EPOCH).isoformat(), int(counts[at])
