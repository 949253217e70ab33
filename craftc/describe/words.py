"""Words and numbers of every description: names, shares, numbers, nats and lists.

Summary, command line, report, plots, HTML overview and names of clusters format through these functions.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from datetime import date, timedelta
from typing import TypeVar

Value = TypeVar("Value", int, float)

SHORT, CELL = 30, 40  # characters of a column or level in a name of a cluster, and in a cell of a table
LEADING = 3  # levels in a typical value
NEARLY_ALL = 0.995  # share of the cells above which a typical value has one level
NO_VALUES = "(all missing)"
LONGEST = 200  # characters of a name or level

_HEAD = 0.6  # of a shortened text comes from its beginning
_SURE = 1e-9  # rounding error of a share, and of a mean in deviations
_DIGITS = 4  # significant digits of a number
_SPREAD_DIGITS = 2  # significant digits of a deviation that its mean resolves
_MOST_DIGITS = 15  # that a float64 resolves
_LARGE, _SMALL = 1e9, 1e-5  # numbers beyond have exponents
_YEARS = 1900, 2100  # whole numbers between have no comma
_EPOCH = date(1970, 1, 1)
_JOINERS = "\u200c\u200d"  # characters of scripts and emoji that do not print alone


# ---- names ----


def clean(value: object, most: int = LONGEST) -> str:
    """A name, level or class as one line of characters that print; a long one is shortened."""
    text = str(value)
    if len(text) > 4 * most:
        text = f"{text[: 2 * most]} {text[-2 * most :]}"
    text = " ".join(text.split())
    text = "".join(c if c.isprintable() or c in _JOINERS else "\ufffd" for c in text)
    return shortened(text, most) or "(empty text)"


def level_text(level: object) -> str:
    """A level as text; a whole number has no decimals."""
    return clean(int(level) if isinstance(level, float) and level.is_integer() else level)


def shortened(text: str, most: int = CELL, width: Callable[[str], int] = len) -> str:
    """The text, or its beginning and its end with an ellipsis between, of a `width` of at most `most`."""
    if width(text) <= most:
        return text
    room = max(most - 1, 0)
    head = _fitting(text, math.ceil(_HEAD * room), width)
    tail = _fitting(text[::-1], room - width(head), width)[::-1]
    return f"{head.rstrip()}…{tail.lstrip()}" if most > 0 else ""


def _fitting(text: str, room: int, width: Callable[[str], int]) -> str:
    n = min(len(text), max(room, 0))
    while n and width(text[:n]) > room:
        n -= 1
    return text[:n]


def distinct(
    names: Sequence[str], most: int = CELL, width: Callable[[str], int] = len, *, heads: bool = True
) -> list[str]:
    """Every name shortened to at most `most`; different names stay different.

    Long names that begin alike are cut where they differ: of the words with which all of them begin as many
    stay as fit, or only the first without `heads`. The words with which all of them end are left out. Names
    that are still equal are numbered.
    """
    short = [shortened(name, most, width) for name in names]
    starts = [name[: math.ceil(_HEAD * most)] if width(name) > most else name for name in names]
    equal = {i for group in _alike(names, short) for i in group}
    for group in (*_alike(names, starts), *_alike(names, short)):
        full = [names[i] for i in group]
        start = _last_word(_common_start(full))
        end = _last_word(_common_start([name[start:][::-1] for name in full]))
        for i in group:
            if i in equal or width(names[i]) > most:
                short[i] = _around(names[i], start, len(names[i]) - end, most, width, heads)
    for group in _alike(names, short):
        numbers = {name: n for n, name in enumerate(dict.fromkeys(names[i] for i in group), 1)}
        for i in group:
            number = f"({numbers[names[i]]})"
            short[i] = shortened(short[i], most - len(number), width) + number
    return short


def _around(name: str, start: int, end: int, most: int, width: Callable[[str], int], heads: bool) -> str:
    """A name of at most `most`: its words before `start`, as far as they fit, or the first of them without
    `heads`, and what lies up to `end`.
    """
    tail = "…" if re.search(r"\w", name[end:]) else ""
    middle = name[start:end].strip()
    if not start:
        return shortened(middle, most - len(tail), width) + tail
    room = most - len(tail) - 1
    head = name[:start] if heads else re.split(r"[\W_]", name[:start], maxsplit=1)[0]
    head = _fitting(head, room - width(middle), width)
    if len(head) < start and name[len(head)].isalnum():
        head = head[: _last_word(head)]
    return f"{head.rstrip()}…{shortened(middle, room - width(head.rstrip()), width)}{tail}"


def _alike(names: Sequence[str], short: Sequence[str]) -> list[list[int]]:
    """Positions of the different names that became equal."""
    groups: dict[str, list[int]] = {}
    for i, name in enumerate(short):
        groups.setdefault(name, []).append(i)
    return [group for group in groups.values() if len({names[i] for i in group}) > 1]


def _common_start(texts: Sequence[str]) -> str:
    first, last = min(texts), max(texts)
    n = next((i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), len(first))
    return first[:n]


def _last_word(text: str) -> int:
    """Length of a text up to the beginning of its last word."""
    return max((found.end() for found in re.finditer(r"[\W_]+", text)), default=0)


# ---- numbers ----


def count(n: float) -> str:
    """Rows: ``1,200``; weights that are no whole number have one decimal."""
    return f"{round(n, 1):,.12g}"


def plural(n: int, one: str, many: str = "") -> str:
    """``1 row``, ``1,200 rows``."""
    return f"{n:,} {one if n == 1 else many or one + 's'}"


def percent(share: float) -> str:
    """A share in whole per cent; ``0 %`` and ``100 %`` are exact, otherwise ``<1 %`` and ``>99 %``."""
    whole = round(100 * share)
    if whole == 0 and share > _SURE:
        return "<1 %"
    return ">99 %" if whole == 100 and share < 1 - _SURE else f"{whole} %"


def number(x: float, *, least_decimals: int | None = None, years: bool = False) -> str:
    """A number to four significant digits, at least to units: ``0.0002``, ``54.43``, ``12,346``, ``1.2e+15``.

    Zeros at the end of the decimals are dropped; a whole number below 1e9 is exact; ``–`` if it is not
    finite. `least_decimals` are shown even beyond the four digits. Years and whole numbers from 1900 to 2100
    have no comma.
    """
    if not math.isfinite(x):
        return "–"
    whole, digits = float(x).is_integer(), _DIGITS
    if abs(x) >= _LARGE or 0 < abs(x) < _SMALL:
        if least_decimals is not None:
            digits = min(max(digits, digits + least_decimals - _decimals(x, digits)), _MOST_DIGITS)
        mantissa, exponent = f"{x:.{digits - 1}e}".split("e")
        return f"{_without_zeros(mantissa)}e{exponent}"
    decimals = 0 if whole else max(_decimals(x, digits), least_decimals or 0, 0)
    comma = "" if years or (whole and _YEARS[0] <= x <= _YEARS[1]) else ","
    return _without_zeros(f"{x:{comma}.{decimals}f}")


def _without_zeros(text: str) -> str:
    """Decimals without zeros at the end."""
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if text == "-0" else text


def _decimals(x: float, digits: int) -> int:
    """Decimals that give a number this many significant digits."""
    return digits - 1 - int(f"{x:.{digits - 1}e}".split("e")[1])


def mean_and_deviation(mean: float, deviation: float, *, years: bool = False) -> str:
    """``54.43 ± 9.109``: four significant digits each; the mean resolves two digits of the deviation.

    A mean that is a rounding error of cells with this deviation, as of a standardised column, is 0.
    """
    if not math.isfinite(mean):
        return NO_VALUES
    mean = 0.0 if abs(mean) <= _SURE * deviation else mean
    finest = _decimals(deviation, _SPREAD_DIGITS) if deviation > 0 else None
    return f"{number(mean, least_decimals=finest, years=years)} ± {number(deviation)}"


def day(days: float) -> str:
    """The date of a number of days since 1970-01-01, for example ``2025-02-17``."""
    if not math.isfinite(days):
        return "–"
    try:
        return str(_EPOCH + timedelta(days=round(days)))
    except OverflowError:
        return number(days)


def clock(hours: float) -> str:
    """A time of day, for example ``22:40``."""
    if not math.isfinite(hours):
        return "–"
    minutes = round(60 * hours) % (24 * 60)
    return f"{minutes // 60:02d}:{minutes % 60:02d}"


def ratio(x: float) -> str:
    """A ratio to two significant digits: ``1.3``, ``12``."""
    return number(float(f"{x:.2g}"))


def lift(share: float, of_table: float) -> str:
    """What a share is times that of the table: ``1.68``; empty if the table has none."""
    return f"{share / of_table:.2f}" if of_table > 0 else ""


def nats(x: float) -> str:
    """``1,234``, ``12.3``, ``0.04``."""
    return f"{x:,.0f}" if abs(x) >= 100 else f"{x:.1f}" if abs(x) >= 1 else f"{x:.2g}"


# ---- lists ----


def range_of(values: Sequence[Value], text: Callable[[Value], str]) -> str:
    """``2``, or ``2 to 5``: the smallest and the largest value."""
    low, high = text(min(values)), text(max(values))
    return low if low == high else f"{low} to {high}"


def listing(words: Iterable[object]) -> str:
    """``a, b and c``."""
    texts = [str(word) for word in words]
    return " and ".join([", ".join(texts[:-1]), texts[-1]]) if len(texts) > 1 else "".join(texts)


def some(words: Sequence[str], most: int) -> str:
    """The first words and how many others there are."""
    return listing(words if len(words) <= most + 1 else [*words[:most], f"{len(words) - most} others"])


def after(level: str, share: float) -> str:
    """The share after a level: ``male 97 %``; with a colon after a digit or a letter: ``2: 73 %``."""
    return (" " if len(level) > 1 and not level[-1].isdigit() else ": ") + percent(share)


def with_share(level: str, share: float) -> str:
    """``male 97 %``, ``2: 73 %``."""
    return level + after(level, share)
