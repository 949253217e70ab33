"""Durations from the texts of cells: "25:30", "1:23:45", "1 h 20 min", "2 days 03:00:00", "PT1H20M"."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from craftc._common.typing import Floats, Integers
from craftc.reading.dates import LONGEST, SAMPLE, Hours
from craftc.reading.placeholders import are_few
from craftc.reading.quantities import ZERO, seconds_of

_SECONDS = r"(?P<second>\d{1,2}(?:[.,]\d+)?)"
_CLOCK = re.compile(rf"(?P<sign>[-−])?(?P<hour>\d{{1,5}}):(?P<minute>[0-5]\d)(?::{_SECONDS})?")
_FORMS = (
    re.compile(r"(?P<sign>[-−])?(?P<minute>\d{1,3}):(?P<second>[0-5]\d[.,]\d{1,6})"),
    re.compile(rf"(?P<sign>-)?(?P<day>\d+) days?,? \+?(?P<hour>\d{{1,2}}):(?P<minute>[0-5]\d):{_SECONDS}"),
    re.compile(
        r"P(?=.)(?:(?P<day>\d+)D)?(?:T(?:(?P<hour>\d+)H)?(?:(?P<minute>\d+)M)?(?:(?P<second>\d+(?:\.\d+)?)S)?)?"
    ),
    re.compile(
        r"(?=\d)(?:(?P<day>\d+)\s?(?:d|days?|tage?|jours?|j)\b,?\s*)?"
        r"(?:(?P<hour>\d+)\s?(?:h|hrs?|hours?|std|stunden?|heures?)\b\.?,?\s*)?"
        r"(?:(?P<minute>\d+)\s?(?:m|min|mins|minutes?|minuten?)\b\.?,?\s*)?"
        r"(?:(?P<second>\d+(?:[.,]\d+)?)\s?(?:s|secs?|seconds?|sek|sekunden?|secondes?)\b\.?)?",
        re.IGNORECASE,
    ),
)
_DECIMALS = 12  # of hours, so that seconds have nine
_HOURS = {"day": 24.0, "hour": 1.0, "minute": 1 / 60, "second": 1 / 3600}
#: Names of columns of durations, whose hours do not begin anew after 24.
_DURATION = re.compile(
    r"duration|dauer|elapsed|laufzeit|fahrzeit|arbeitszeit|wartezeit|reisezeit|spielzeit|dur[eé]e|duraci[oó]n"
    r"|durata|run[_ -]?time|play[_ -]?time|wait|length|delay|versp[aä]tung|overtime|[uü]berstunden"
    r"|time[_ -]?(spent|taken|to)|(travel|working|lap|race|finish(ing)?)[_ -]?time"
    r"|(^|[^a-z])(lap|pace)([^a-z]|$)",
    re.IGNORECASE,
)


def parse_durations(
    texts: Sequence[str], counts: Integers, name: str = "", known: bool = False
) -> Hours | None:
    """Read the distinct texts of a column as durations, in hours, or return None if too many are none.

    Hours and minutes alone are times of day, unless some exceed 24 hours or are negative, or `name` is that
    of a duration; `known`: or they were durations in an earlier table. One number with one unit ("90 min") is
    a number, unless others have two.
    """
    for form in (_CLOCK, *_FORMS):
        if not any(form.fullmatch(text) for text in texts[:SAMPLE] if len(text) <= LONGEST):
            continue
        found = [form.fullmatch(text) if len(text) <= LONGEST else None for text in texts]
        hours = np.array([np.nan if match is None else _hours_of(match) for match in found])
        hours[[ZERO.fullmatch(text) is not None for text in texts]] = 0.0
        good = np.isfinite(hours)
        if not are_few(texts, good, counts, len(np.unique(hours[good]))):
            continue
        if form is _CLOCK:
            beyond = bool((hours[good] > 24.0).any() or (hours[good] < 0.0).any())
            if not (known or beyond or _DURATION.search(name)):
                return None
        elif form is _FORMS[-1] and not known and not any(match and _n_parts(match) > 1 for match in found):
            return None
        return Hours(hours, [text for text, ok in zip(texts, good, strict=True) if not ok])
    return None


def in_unit(hours: Floats, unit: str) -> Floats:
    """Hours in a unit of time; units of numbers are rounded, so that 40 minutes are 40."""
    values: Floats = hours / (seconds_of(unit) / 3600.0)
    return values if unit in ("hours", "days") else np.round(values, 9)


def _n_parts(match: re.Match[str]) -> int:
    return sum(match[part] is not None for part in _HOURS)


def _hours_of(match: re.Match[str]) -> float:
    """The hours of a duration; NaN for a text without any part."""
    parts = {part: match[part] for part in _HOURS if part in match.re.groupindex and match[part] is not None}
    if not parts:
        return np.nan
    hours = sum(float(number.replace(",", ".")) * _HOURS[part] for part, number in parts.items())
    negative = "sign" in match.re.groupindex and match["sign"]
    if negative and "day" in parts:  # -1 days +23:00:00 is one hour before
        return round(hours - 48.0 * float(parts["day"]), _DECIMALS)
    return round(-hours if negative else hours, _DECIMALS)
