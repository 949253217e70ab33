"""Numbers with several units of one quantity, such as "12 mo" and "2 y", "850 ms" and "1.2 s" or "5 ft 6 in",
and durations: "25:30", "1:23:45", "1 h 20 min", "2 days 03:00:00", "PT1H20M".

All functions work on the distinct texts of a column.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from craftc._common.typing import Floats, Integers
from craftc.reading.dates import LONGEST, SAMPLE, TIME_OF_DAY, Hours, are_few

_YEAR = 31_557_600.0
_FEWEST_VALUES = 6  # different quantities; fewer are categories
_Units = tuple[tuple[float, str], ...]  # size and names
_GRAMS: _Units = ((1e3, "kg kgs"), (1.0, "g gr gram grams"))
_POUNDS: _Units = (
    (6350.29318, "st stone"),
    (453.59237, "lb lbs pound pounds"),
    (28.349523125, "oz ounce ounces"),
)
_METRES: _Units = ((1e3, "km"), (1.0, "m"), (1e-2, "cm"), (1e-3, "mm"))
_FEET: _Units = (
    (1609.344, "mi mile miles"),
    (0.9144, "yd yards"),
    (0.3048, "ft feet foot '"),
    (0.0254, 'in inch inches "'),
)
#: Units of one quantity, the largest of each system first. A number without a unit behind stones or feet is
#: in the next one.
_FAMILIES: tuple[_Units, ...] = (
    (
        (_YEAR, "y yr yrs year years j jahr jahre an ans año años anno anni"),
        (_YEAR / 12, "mo mos mth mths mon month months monat monate mois mes meses mese mesi"),
        (604_800.0, "w wk wks week weeks woche wochen semaine semaines"),
        (86_400.0, "d day days tag tage tagen jour jours día días"),
        (3600.0, "h hr hrs hour hours std stunde stunden heure heures"),
        (60.0, "min mins minute minutes minuten"),
        (1.0, "s sec secs second seconds sek sekunde sekunden"),
        (1e-3, "ms msec"),
        (1e-6, "µs us"),
        (1e-9, "ns"),
    ),
    ((1e12, "tb"), (1e9, "gb"), (1e6, "mb"), (1e3, "kb"), (1.0, "b byte bytes")),
    ((2**40, "tib"), (2**30, "gib"), (2**20, "mib"), (2**10, "kib"), (1.0, "b byte bytes")),
    ((1e6, "t"), *_GRAMS, (1e-3, "mg"), (1e-6, "µg mcg")),
    _POUNDS,
    (*_POUNDS, *_GRAMS),
    (*_METRES, (1e-6, "µm")),
    _FEET,
    (*_FEET, *_METRES),
    ((1.0, "l"), (0.1, "dl"), (1e-2, "cl"), (1e-3, "ml")),
)
#: The names of units of all families.
UNIT_NAMES = frozenset(name for family in _FAMILIES for _, names in family for name in names.split())
#: A number that needs no unit.
ZERO = re.compile(r"0+(?:[.,]0+)?")
_MINUTES_OR_MONTHS = "m"
_FACTORS = {"M": "m", "B": "b"}  # millions and billions rather than another spelling of these units
_AMOUNT = r"(\d+(?:[.,]\d+)?)\s?([^\W\d_]+\.?|['\"])"
_TEXT = re.compile(rf"[-+]?\s?(?:{_AMOUNT},?\s*)+(?P<rest>\d{{1,2}})?(?:\s(?:ago|old|alt))?")
_PART = re.compile(_AMOUNT)
_SIGNS = str.maketrans(dict(zip("−–′’″”μ\u00a0\u202f", "--''\"\"µ  ", strict=True)))
_SECONDS = r"(?P<second>\d{1,2}(?:[.,]\d+)?)"
_CLOCK = re.compile(rf"(?P<sign>[-−])?(?P<hour>\d{{1,5}}):(?P<minute>[0-5]\d)(?::{_SECONDS})?")
_FORMS = (
    re.compile(r"(?P<sign>[-−])?(?P<minute>\d{1,3}):(?P<second>[0-5]\d[.,]\d{1,6})"),
    re.compile(rf"(?P<sign>-)?(?P<day>\d+) days?,? \+?(?P<hour>\d{{1,2}}):(?P<minute>[0-5]\d):{_SECONDS}"),
    re.compile(
        r"(?P<sign>[-−])?P(?=.)(?:(?P<day>\d+)D)?"
        r"(?:T(?:(?P<hour>\d+)H)?(?:(?P<minute>\d+)M)?(?:(?P<second>\d+(?:\.\d+)?)S)?)?"
    ),
    re.compile(
        r"(?P<sign>[-−–])?\s?(?=\d)(?:(?P<day>\d+(?:[.,]\d+)?)\s?(?:d|days?|tage?|jours?|j)\b,?\s*)?"
        r"(?:(?P<hour>\d+(?:[.,]\d+)?)\s?(?:h|hrs?|hours?|std|stunden?|heures?)\b\.?,?\s*)?"
        r"(?:(?P<minute>\d+(?:[.,]\d+)?)\s?(?:m|min|mins|minutes?|minuten?)\b\.?,?\s*)?"
        r"(?:(?P<second>\d+(?:[.,]\d+)?)\s?(?:s|secs?|seconds?|sek|sekunden?|secondes?)\b\.?)?",
        re.IGNORECASE,
    ),
)
_CLOCK_OF_DAYS = _FORMS[1]
_DECIMALS = 12  # of hours, so that seconds have nine
_HOURS = {"day": 24.0, "hour": 1.0, "minute": 1 / 60, "second": 1 / 3600}
#: Names of columns of durations, whose hours do not begin anew after 24.
_DURATION = re.compile(
    r"duration|dauer|elapsed|dur[eé]e|duraci[oó]n|durata|run[_ -]?time|play[_ -]?time|wait|length|delay"
    r"|versp[aä]tung|overtime|[uü]berstunden|stillstand|time[_ -]?(spent|taken|to|asleep)"
    r"|time[_ -]?(in[_ -]?(bed|hospital|icu|queue|range|state|system|zone)|on[_ -]?(ice|page|site|task))"
    r"|(antwort|arbeits|aufenthalts|ausfall|bearbeitungs|betriebs|durchlauf|fahrt?|gesamt|gespr(ä|ae)chs|lauf"
    r"|netto|pausen|reaktions|reise|runden|r(ü|ue)st|spiel|stand|takt|verweil|warte|zyklus)zeit"
    r"|(travel|working|lap|race|finish(ing)?)[_ -]?time|(^|[^a-z])((up|down)time|(lap|pace)([^a-z]|$))"
    r"|(^|[^a-z])(cycle|dwell|handl(e|ing)|hold|idle|lead|moving|processing|reaction|repair|response|screen"
    r"|talk|total|turn[_ -]?around)[_ -]?time"
    r"|^(up|down)[_ -]time|(^|[^a-z])(aht|sleep|stay|battery[_ -]?life)([_ -]?(time|hours|hrs))?[^a-z]*$",
    re.IGNORECASE,
)
#: Names that are those of durations if the cells have seconds: an activity, and "time".
_ACTIVITY = re.compile(
    r"(^|[^a-z])("
    r"(?!(open|clos|start|end|beginn|land|board|post|book|meet|report|record|sampl|logg|order|depart|arriv"
    r"|morn|even|wedd)ing)[a-z]{2,}ing"
    r"|active|after[_ -]call|average|avg|bike|boot|break|chip|commute|compute|contact|cook|cpu"
    r"|delivery|drive|execution|flight|gross|gun|journey|load|mean|median|net|operation|prep(aration)?"
    r"|queue|recovery|resolution|rest|ride|ring|run|service|session|set[_ -]?up|split|stage|surgery|swim"
    r"|throughput|transit|transport|treatment|trip|usage|view|watch|work|wrap([_ -]?up)?"
    r")[_ -]?time|(flug|geh|koch|lade|liefer|liege)zeit",
    re.IGNORECASE,
)
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")  # between the words of "talkTime"
_SHORT = 6.0  # hours: texts with seconds that are all below are rather durations, and some below one hour


@dataclass
class Quantities:
    """Quantities of distinct texts in one unit, NaN where a text is none."""

    values: Floats
    unit: str
    change: str  # what was converted or added, in words
    units: list[str]  # of the texts, which say what "m" is, in small letters


def parse_quantities(
    texts: Sequence[str], counts: Integers, wanted: str = "", also: Collection[str] = ()
) -> Quantities | None:
    """Read texts with several units of one quantity in the most frequent of these, or in the unit `wanted`.
    `also`: further units of the column, in an earlier table.

    Returns None if too many texts are no quantities, they have one unit, or few different sizes.
    """
    first = [text for text in texts[:SAMPLE] if len(text) <= LONGEST]
    if 2 * sum(_TEXT.fullmatch(text.translate(_SIGNS)) is not None for text in first) < len(first):
        return None
    split = [_parts(text) for text in texts]
    signs = np.array([-1.0 if text.translate(_SIGNS).startswith("-") else 1.0 for text in texts])
    own_name = wanted.translate(_SIGNS).rstrip(".")
    several = next((text for text, parts in zip(texts, split, strict=True) if len(parts) > 1), "")
    written = {_FACTORS.get(unit, unit) for parts in split for _, unit in parts} - {""}
    used = set(map(str.casefold, written))
    if not several and (written <= {own_name} if wanted else len(written) < 2):
        return None
    best: tuple[int, Floats, dict[str, float]] | None = None
    for family in _FAMILIES:
        size_of = {name.casefold(): size for size, names in reversed(family) for name in names.split()}
        if family is _FAMILIES[0]:
            years = not {*used, *also, own_name.casefold()}.isdisjoint(family[0][1].split())
            size_of[_MINUTES_OR_MONTHS] = family[1 if years else 5][0]
        if wanted and own_name.casefold() not in size_of:
            continue
        sizes = [size for size, _ in family]
        read = [
            0.0 if ZERO.fullmatch(text) else _size(parts, size_of, sizes)
            for text, parts in zip(texts, split, strict=True)
        ]
        values = signs * np.array([np.nan if each is None else each for each in read])
        n_cells = int(counts[np.isfinite(values)].sum())
        if best is None or n_cells > best[0]:
            best = n_cells, values, size_of
    if best is None:
        return None
    _, values, size_of = best
    good = np.isfinite(values)
    n_values = len(np.unique(values[good]))
    if n_values < (1 if wanted else _FEWEST_VALUES) or not are_few(texts, good, counts, n_values):
        return None
    units: Counter[str] = Counter()
    for parts, n, ok in zip(split, counts.tolist(), good.tolist(), strict=True):
        if ok and parts:
            units[parts[0][1]] += n
    unit = own_name or units.most_common(1)[0][0]
    own = size_of[unit.casefold()]
    others = sorted(each for each in units if each != unit)
    unit = wanted or unit
    if not others and not several:
        return None
    change = f"{', '.join(map(repr, others))} converted to {unit!r}" if others else ""
    added = f"the parts of cells such as {several!r} added, in {unit!r}" if several else ""
    return Quantities(np.round(values / own, 9), unit, added or change, sorted(used))


def seconds_of(unit: str) -> float:
    """The seconds of a unit of time; 0 if it is none."""
    name = unit.rstrip(".").casefold()
    return next((size for size, names in _FAMILIES[0] if name in names.split()), 0.0)


def units_of(text: str) -> str:
    """The units of the parts of a text, "ft in" of "5 ft 6 in"; "" if it is no quantity."""
    return " ".join(unit for _, unit in _parts(text))


def _parts(text: str) -> list[tuple[float, str]]:
    """The numbers of a text with their units, without its sign; a last number may have no unit."""
    text = text.translate(_SIGNS)
    if len(text) > LONGEST or (found := _TEXT.fullmatch(text)) is None:
        return []
    parts = [(float(number.replace(",", ".")), unit.rstrip(".")) for number, unit in _PART.findall(text)]
    return [*parts, (float(found["rest"]), "")] if found["rest"] else parts


def _size(
    parts: Sequence[tuple[float, str]], size_of: Mapping[str, float], sizes: Sequence[float]
) -> float | None:
    """The sum of the parts of a text, whose units become smaller; None if they are none of these units."""
    total, last = 0.0, np.inf
    for number, unit in parts:
        smaller = [size for size in sizes if size < last]
        size = size_of.get(unit.casefold(), 0.0) if unit else smaller[0] if smaller else 0.0
        if not 0.0 < size < last or number * size >= last:
            return None
        total, last = total + number * size, size
    return total if parts else None


def parse_durations(
    texts: Sequence[str], counts: Integers, name: str = "", known: bool = False
) -> Hours | None:
    """Read the distinct texts of a column as durations, in hours, or return None if too many are none.

    Hours and minutes, also with seconds, are times of day, unless some exceed 24 hours or are negative, or
    `name` is that of a duration; `known`: or they were durations in an earlier table. Where some seconds are
    not zero, an activity in the name is enough, or that all are short and the name is not that of a time. One
    number with one unit ("90 min") is
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
            with_seconds = any(match and float((match["second"] or "0").replace(",", ".")) for match in found)
            if not (known or beyond or _names_duration(name, hours[good], with_seconds)):
                return None
        elif form is _FORMS[-1] and not known and not any(match and _n_parts(match) > 1 for match in found):
            return None
        return Hours(hours, [text for text, ok in zip(texts, good, strict=True) if not ok])
    return None


def _names_duration(name: str, hours: Floats, with_seconds: bool) -> bool:
    """Whether hours of a clock are durations by the name of their column, or by their size."""
    words = _CAMEL.sub(" ", name)
    if _DURATION.search(words) or (with_seconds and _ACTIVITY.search(words)):
        return True
    short = bool(len(hours)) and hours.max() < _SHORT and hours.min() < 1.0
    return with_seconds and short and TIME_OF_DAY.search(words) is None


def could_be_times(texts: Sequence[str]) -> bool:
    """Whether texts are hours of a clock, which are written as times of day and as durations."""
    clocks = [match for text in texts[:SAMPLE] if (match := _CLOCK.fullmatch(text))]
    return bool(clocks) and all(not match["sign"] and int(match["hour"]) < 24 for match in clocks)


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
    if negative and match.re is _CLOCK_OF_DAYS:  # -1 days +23:00:00 is one hour before
        return round(hours - 48.0 * float(parts["day"]), _DECIMALS)
    return round(-hours if negative else hours, _DECIMALS)
