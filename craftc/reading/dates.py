"""Dates and times of day from the texts of cells, and texts in the place of values that are not known.

All functions work on the distinct texts of a column and look at texts of at most 64 characters.
"""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING

import numpy as np

from craftc._common.messages import as_text, need_pandas, quoted
from craftc._common.typing import Array, Bits, Floats, Integers
from craftc.reading.input_file import TableError

if TYPE_CHECKING:
    import pandas as pd

MOST_BAD = 0.1  # share of the cells of a column of numbers or dates that may be none

_MANY_VALUES, _FEW_WORDS = 30, 3  # different values, at least, next to which that many texts are placeholders
_DIGIT = re.compile(r"\d")
_PLACEHOLDER = re.compile(
    r"[^\w\s]{1,5}|[+-]?inf(inity)?|x{1,5}|n\.?d\.?|k\.?a\.?|keine angabe|unbekannt|suppressed|unknown"
    r"|missing|withheld|refused|confidential|pending|tbd|no data|no answer|don'?t know"
    r"|prefer not to (say|answer)"
    r"|not (available|applicable|reported|known|measured|detected|given|stated)"
    r"|#?(ref|value|num|name|error|div/0)[!?]?|below (detection|the limit).*"
    r"|[<>≤≥]?\s*(lod|loq|mdl|dl|bdl|nd)|\([a-z]{1,3}\)|\[[a-z]{1,3}\]"
    r"|0{1,4}[-./]0{1,2}[-./]0{1,4}( 00:00(:00)?)?",  # as databases write no date
    re.IGNORECASE,
)
_DIGITS = 15  # of a whole number that float64 holds for certain
LONGEST = 64  # characters of a number or a date, at most
SAMPLE = 200  # distinct texts that decide whether the others are parsed
_SECONDS = r"(?P<second>\d{2})(?:[.,]\d+)?"
_HALF = r"\s*(?P<half>[AaPp]\.?[Mm]\.?)?"
_ZONES = (
    r"Z|(?:UTC|GMT)[+-]\d{1,2}(?::\d{2})?|(?:UTC|GMT)?[+-]\d{2}(?::?\d{2})?|UTC|[A-Z]{1,3}[A-Z]T|MES?Z|MSK"
)
_OFFSET = rf"\s*(?:{_ZONES})?(?:\s\([^\W\d][^()]{{2,40}}\))?"
_CLOCK = rf"(?P<hour>\d{{1,2}}):(?P<minute>\d{{2}})(?::{_SECONDS})?{_HALF}{_OFFSET}(?:\s?(?:h|Uhr))?"
_CLOCK_OF_DATE = (
    rf"(?P<hour>\d{{1,2}})(?:[:.]|\s?h\s?)(?P<minute>\d{{2}})(?:[:.]{_SECONDS})?{_HALF}{_OFFSET}"
    r"(?:\s?(?:h|Uhr))?"
)
_AT = rf"(?:(?:,?\s+(?:(?:um|at|à|alle)\s+)?|T|:|,\s*|\s*-\s+){_CLOCK_OF_DATE})?"
_ZONE = re.compile(rf":\d{{2}}(?:[.,]\d+)?\s*(?:[AaPp]\.?[Mm]\.?)?\s*({_ZONES})(?:\s\(.+\))?$")
_WEEKDAY = (
    r"(?:(?:mon|tue|wed|thu|fri|sat|sun|mo|di|mi|do|fr|sa|so|lun|mar|mer|mi[eé]|jeu|jue|ven|vie|sam|s[aá]b"
    r"|dim|dom)[a-zéá]{0,7}\.?,?\s+)?"
)
_MONTH = r"(?P<m>[^\W\d_]{3,10})\.?"
_YEAR = r"(?P<y>\d{4}|\d{2})"
_PERIOD_YEAR = r"(?:FY\s?)?(?P<y>(?:19|20)\d{2}|(?<=FY)\d{2}|(?<=[-/ 'Q])\d{2})"
_QUARTER = r"(?:quarter|quartal|trimestre|trim\.?|Q|T)"
#: Forms of dates, each with the order of its parts; "ab" and "a.b" leave it open which one is the day.
_FORMS = tuple(
    (re.compile(form, re.IGNORECASE), order)
    for form, order in (
        (
            rf"{_WEEKDAY}(?P<y>\d{{4}})(?P<s>[-/.:])\s?(?P<m>\d{{1,2}})(?P=s)\s?(?P<d>\d{{1,2}})\.?{_AT}",
            "ymd",
        ),
        (rf"{_WEEKDAY}(?P<a>\d{{1,2}})(?P<s>[-/])(?P<b>\d{{1,2}})(?P=s){_YEAR}{_AT}", "ab"),
        (rf"{_WEEKDAY}(?P<a>\d{{1,2}})\.\s?(?P<b>\d{{1,2}})\.\s?{_YEAR}\.?{_AT}", "a.b"),
        (
            rf"{_WEEKDAY}(?P<d>\d{{1,2}})(?:st|nd|rd|th|er|[º°])?[-./ ]{{0,2}}(?:de |of )?{_MONTH}"
            rf"[-., /]{{0,2}}(?:del? )?{_YEAR}{_AT}",
            "dmy",
        ),
        (
            rf"{_WEEKDAY}{_MONTH}[- ]\s?(?P<d>\d{{1,2}})(?:st|nd|rd|th)?(?:,\s?|\s+|-)(?P<y>\d{{4}}){_AT}",
            "mdy",
        ),
        (rf"{_WEEKDAY}{_MONTH}\s+(?P<d>\d{{1,2}})\s+{_CLOCK}\s+(?:[A-Z]{{3,4}}\s+)?(?P<y>\d{{4}})", "mdy"),
        (r"(?P<y>\d{4})\s?[年년]\s?(?P<m>\d{1,2})\s?[月월]\s?(?P<d>\d{1,2})\s?[日일]" + _AT, "ymd"),
        (r"(?P<y>\d{4})(?:[-/M]|\s?[年년]\s?)(?P<m>\d{1,2})(?:\s?[月월])?", "ym"),
        (r"(?P<m>\d{1,2})[-/](?P<y>\d{4})", "ym"),
        (r"(?P<m>0[1-9]|1[0-2])\.(?P<y>(?:19|20)\d{2})", "m.y"),
        (r"0(?P<m>0[1-9]|1[0-6])\.(?P<y>(?:19|20)\d{2})", "m.y"),  # periods of accounts
        (rf"{_MONTH}[-./, ']{{1,3}}{_YEAR}", "ym"),
        (rf"(?P<y>\d{{4}})[-./ ]{_MONTH}", "ym"),
        (rf"(?:FY\s?)?(?P<y>\d{{4}}|(?<=FY)\d{{2}})[-/ .]{{0,2}}(?:{_QUARTER}|[KH])\s?(?P<q>[1-4])", "ym"),
        (rf"(?:{_QUARTER}|H)\s?(?P<q>[1-4])[-/ .,']{{0,2}}{_PERIOD_YEAR}", "ym"),
        (rf"(?P<q>[1-4])\.?\s?(?:{_QUARTER}|H)[-/ .,']{{0,2}}{_PERIOD_YEAR}", "ym"),
        (r"(?P<y>\d{4})[-/ ]?(?:week|KW|wk|W)[- ]?(?P<week>\d{1,2})", "ym"),
        (r"(?:week|KW|wk|W)[- ]?(?P<week>\d{1,2})[-/, ]{1,2}(?P<y>\d{4})", "ym"),
        (
            r"(?P<y>(?:19|20)\d{2})(?P<m>\d{2})(?P<d>\d{2})[T ](?P<hour>\d{2}):?(?P<minute>\d{2})"
            rf"(?::?{_SECONDS})?{_OFFSET}",
            "ymd",
        ),
        (
            r"(?P<y>(?:19|20)\d{2})(?P<m>\d{2})(?P<d>\d{2})"
            r"(?:(?P<hour>[01]\d|2[0-3])(?P<minute>[0-5]\d)(?P<second>[0-5]\d)?)?",
            "digits",
        ),
    )
)
_LIKE_NUMBERS = ("digits", "m.y")  # forms that numbers could have
_ISO = _FORMS[0][0]  # as the dates of a spreadsheet are written, too
AHEAD = 5  # years from now to which years of two digits go
_FEW_YEARS, _MANY_DAYS, _LATE = 8, 13, 10  # different years and days, and years since 2000
#: The parts of a, b and y that are day, month and year.
_PLACES = {"dmy": ("a", "b", "y"), "mdy": ("b", "a", "y"), "yymd": ("y", "b", "a")}
_BIRTH = re.compile(
    r"birth|dob\b|born|(^|[^a-z])(d\.?o\.?b|geb|bday)([^a-z]|$)|geburt|naiss|nacim|nascit|nascim",
    re.IGNORECASE,
)
_EPOCH = date(1970, 1, 1).toordinal()
#: A cell that looks like a date.
DATE = re.compile(r"(\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.](\d{4}|\d{2}))([ T]\d.*)?")
_MONTHS = {  # by their first letters: English, German, French, Spanish, Italian, Portuguese, Dutch
    start: month
    for month, starts in enumerate(
        (
            "jan ene gen",
            "feb fév fev",
            "mar mär mrz mae mrt",
            "apr avr abr",
            "may mai mag mei",
            "jun juin giu",
            "jul juil lug",
            "aug aoû aou ago",
            "sep set",
            "oct okt ott out",
            "nov",
            "dec dez déc dic",
        ),
        1,
    )
    for start in starts.split()
}
_WEEKDAYS = {  # by their first letters, in the same languages
    start: day
    for day, starts in enumerate(
        (
            "mon mo lun maa seg",
            "tue di mar din ter",
            "wed mi mer mié mie woe qua",
            "thu do jeu jue gio don qui",
            "fri fr ven vie vri sex",
            "sat sa sam sáb sab zat",
            "sun so dim dom zon",
        ),
        1,
    )
    for start in starts.split()
}
_WEEKDAY_NAME = re.compile(rf"({'|'.join(sorted(_WEEKDAYS, key=len, reverse=True))})[^\W\d_]{{0,7}}")
_TIMES = (
    re.compile(_CLOCK),
    re.compile(rf"(?P<hour>\d{{1,2}})\s?h\s?(?P<minute>\d{{2}})(?:\s?m(?:in)?)?(?:\s?{_SECONDS}s?)?"),
    re.compile(rf"(?P<hour>\d{{1,2}})(?:[:.](?P<minute>\d{{2}})(?:[:.]{_SECONDS})?)?\s?Uhr"),
)
_DOTTED_TIME = re.compile(r"(?P<hour>\d{1,2})\.(?P<minute>\d{2})(?:\.(?P<second>\d{2}))?(?:\s?(?:h|Uhr))?")
#: Names of times of day.
TIME_OF_DAY = re.compile(r"time|uhr|zeit|heure|hora\b|orario|clock|tijd", re.IGNORECASE)
_TIME_NAME = re.compile(
    r"time|date|stamp|epoch|unix|created|updated|modified|month|monat|mois|yyyymm|period|(_at|_ts|_on)$",
    re.IGNORECASE,
)
#: The least and the largest number of days, seconds and months, and whether they need a name.
_WRITTEN = ((19000101, 21001231, False), (19000101000000, 21001231235959, False), (190001, 210012, True))
_EPOCHS = (  # seconds, milliseconds, microseconds and nanoseconds of 1973 to 2039
    (1e8, 2.2e9, 1.0),
    (1e11, 2.2e12, 1e3),
    (1e14, 2.2e15, 1e6),
    (1e17, 2.2e18, 1e9),
)
_MONTHS_OF_YEAR = 12
_SEASON = re.compile(r"(\d{4})[-/](\d{4}|\d{1,2})")
_FEWEST_SEASONS = 3  # different years and the next ones; fewer could be months
_FEWEST_MONTHS = 3  # different months of dates that are all on the same day
_FEWEST_TIMES = 5  # different texts such as "13.05", which could be numbers


def are_few(texts: Sequence[str], good: Bits, counts: Integers, n_values: int) -> bool:
    """Whether the texts that are not `good` are few enough for the column to hold `n_values` different
    numbers or dates: a tenth of the cells, up to half where they are placeholders, and all but those of many
    values where they are up to three words.

    `counts`: cells of each text.
    """
    bad = [(text, int(n)) for text, n, ok in zip(texts, counts, good, strict=True) if not ok]
    words = {text.casefold() for text, _ in bad}
    many = n_values > _MANY_VALUES
    few_words = many and len(words) <= _FEW_WORDS and not any(map(_DIGIT.search, words))
    n_all, n_bad = int(counts.sum()), sum(n for _, n in bad)
    if 2 * n_bad <= n_all or few_words:
        alone = few_words or (many and len(words) == 1)
        n_bad -= sum(n for text, n in bad if alone or _PLACEHOLDER.fullmatch(text))
    return n_bad <= MOST_BAD * n_all


@dataclass
class Dates:
    """Days since 1970-01-01 of distinct texts, NaN where a text is no date."""

    days: Floats
    bad: list[str]
    remark: str = ""
    monthly: bool = False  # months, quarters or weeks without days
    order: str = ""  # of year, month and day
    first_year: int = 0  # of the hundred years of years of two digits


def parse_dates(
    texts: Sequence[str],
    counts: Integers,
    *,
    name: str = "",
    forced: bool = False,
    known: tuple[str, int] = ("", 0),
) -> Dates | None:
    """Read the distinct texts of a column as dates or timestamps, or return None if too many are none.

    `known`: order, and first of the hundred years of years of two digits, of an earlier table.
    Years of two digits are those of a hundred years that end soon, or today for dates of birth by `name`.
    Months, quarters and weeks become their first day. A time zone is ignored: weekday and hour are those of
    the place where the time was written. Dates of a spreadsheet, or ISO dates, may stand among texts of
    another form.
    """
    if texts and texts[0].startswith("["):  # as servers log them
        texts = [text.removeprefix("[").removesuffix("]") for text in texts]
    dates = _of_one_form(texts, counts, name, forced, known)
    if dates is not None and not dates.bad:
        return dates
    return _of_two_forms(texts, counts, name, forced, known) or dates


def _of_two_forms(
    texts: Sequence[str], counts: Integers, name: str, forced: bool, known: tuple[str, int]
) -> Dates | None:
    """ISO dates and dates of one other form; None if the texts are something else."""
    matches = [_ISO.fullmatch(text) for text in texts]
    iso = np.array([match is not None for match in matches], bool)
    if not iso.any() or iso.all():
        return None
    others = [text for text, is_iso in zip(texts, iso, strict=True) if not is_iso]
    dates = _of_one_form(others, counts[~iso], name, forced, known)
    if dates is None or dates.order in _LIKE_NUMBERS:
        return None
    written = [match for match in matches if match is not None]
    days = np.empty(len(texts))
    days[iso], days[~iso] = [_day(match, "ymd", 0) for match in written], dates.days
    dates.bad += [match[0] for match, day in zip(written, days[iso], strict=True) if np.isnan(day)]
    dates.days, dates.monthly = days, False
    small = all(int(match["d"]) <= 12 for match in written)
    if dates.order == "dmy" and small and min(len(written), len(others)) >= _MANY_DAYS:
        of_text = [int(text.split(".")[0].split("/")[0]) for text in others if text[:2].isdecimal()]
        if len(of_text) == len(others) and min(of_text) > 12:
            swapped = (
                "dates have days up to 12 and texts later ones: a spreadsheet may have swapped day and month"
            )
            dates.remark = f"{dates.remark}; {swapped}" if dates.remark else swapped
    return dates


def _of_one_form(
    texts: Sequence[str], counts: Integers, name: str, forced: bool, known: tuple[str, int]
) -> Dates | None:
    """Dates of the first form that most of the texts have."""
    if 2 * sum(any(map(str.isdecimal, text)) for text in texts[:SAMPLE]) < len(texts[:SAMPLE]):
        return None
    for pattern, order in _FORMS:
        found = [pattern.fullmatch(text) if len(text) <= LONGEST else None for text in texts[:SAMPLE]]
        if 2 * sum(map(bool, found)) < len(found) or not any(found):
            continue
        found += [pattern.fullmatch(text) if len(text) <= LONGEST else None for text in texts[SAMPLE:]]
        like_numbers = order in _LIKE_NUMBERS and not forced
        if like_numbers and (len(texts) < 3 or not all(found)):
            return None
        remark = ""
        if order in ("ab", "a.b"):
            dotted = order == "a.b"
            # the order of slashes says nothing of dots, which most often part a day from its month
            if known[0].rstrip(".") in ("dmy", "mdy", "yymd") and not (dotted and known[0] == "mdy"):
                order = known[0].rstrip(".")
                _check_order(name, found, order)
            else:
                order, remark = _order(found, dotted)
        if order == "ym" and (_are_days(found) or (not forced and not known[0] and _are_seasons(texts))):
            continue
        if order == "m.y" and any(match and int(match["m"]) > _MONTHS_OF_YEAR for match in found):
            remark = "periods after the twelfth are taken as the twelfth"
        first_year = known[1] or _first_year(found, name, order)
        days = np.array([np.nan if match is None else _day(match, order, first_year) for match in found])
        good = np.isfinite(days)
        if not (good.all() if like_numbers else are_few(texts, good, counts, len(np.unique(days[good])))):
            continue
        bad = [text for text, ok in zip(texts, good, strict=True) if not ok]
        zones = {zone[1] for zone in map(_ZONE.search, texts) if zone}
        if len(zones) > 1:
            offsets = f"hours are local times, of the UTC offsets {', '.join(sorted(zones)[:5])}"
            remark = f"{remark}; {offsets}" if remark else offsets
        if first_year and not known[1]:
            years = (
                f"years of two digits are those of {first_year} to {first_year + 99}; write four to change it"
            )
            remark = f"{remark}; {years}" if remark else years
        written = f"{order}." if order == "mdy" and "." in texts[0] else order
        return Dates(days, bad, remark, order in ("ym", "m.y"), written, first_year)
    return None


def integer_dates(distinct: Floats, name: str, forced: bool = False) -> Floats | None:
    """Day numbers of whole numbers, ascending, that are written as 20240131 or 20240131235959, or months as
    202401, or Unix times, if values and column name show these; None if they do not.
    """
    by_name = forced or _TIME_NAME.search(name) is not None
    for low, high, named in _WRITTEN:
        if distinct[0] >= low and distinct[-1] <= high and (by_name or not named):
            texts = [as_text(value) for value in distinct]
            if named:
                texts = [f"{text[:4]}-{text[4:]}" for text in texts]
            dates = parse_dates(texts, np.ones(len(texts), np.intp), forced=forced)
            return None if dates is None or dates.bad else dates.days
    for least, largest, per_second in _EPOCHS:
        if distinct[0] >= least and distinct[-1] <= largest and by_name:
            return distinct / (86400.0 * per_second)
    return None


def typed_days(column: pd.Series, kind: str) -> Floats:
    """Days since 1970-01-01 of a typed column, in its own time zone."""
    pd = need_pandas()
    if kind == "period":
        column = pd.PeriodIndex(column).to_timestamp().to_series()
    times = pd.to_datetime(column, errors="coerce")
    if times.dt.tz is not None:
        times = times.dt.tz_localize(None)
    values: Array = times.to_numpy()  # in their own unit: years beyond 2262 do not fit nanoseconds
    return (values - np.zeros(1, values.dtype)) / np.timedelta64(1, "D")


def are_long_codes(texts: Sequence[str], name: str) -> bool:
    """Whether whole numbers have more digits than float64, and are no Unix times by the column's name."""
    long = [text for text in texts if len(text) > _DIGITS and text.isdecimal()]
    times = _TIME_NAME.search(name) and all(len(text) in (16, 19) and text.startswith("1") for text in long)
    return bool(long) and not times


def _are_days(found: Sequence[re.Match[str] | None]) -> bool:
    """Whether numbers of two digits next to months are rather days: "Jan 03" to "Dec 28"."""
    numbers = {match["y"] for match in found if match}
    return len(numbers) >= _MANY_DAYS and all(len(n) == 2 and int(n) <= 31 for n in numbers)


def first_year_of(text: str) -> str:
    """The first of two years in a row, "2010" of "2010/11"; "" if the text is something else."""
    found = _SEASON.fullmatch(text)
    if found is None or len(found[2]) == 1:
        return ""
    return found[1] if str(int(found[1]) + 1).endswith(found[2]) else ""


def _are_seasons(texts: Sequence[str]) -> bool:
    """Whether texts are seasons or school years, "2010/11", not months."""
    years = [first_year_of(text) for text in texts if _SEASON.fullmatch(text)]
    return len(years) >= _FEWEST_SEASONS and all(years)


def _check_order(name: str, found: Sequence[re.Match[str] | None], order: str) -> None:
    """Raise TableError if more cells show the other order of day and month than this one."""
    if order == "yymd":
        return
    day, month = ("a", "b") if order == "dmy" else ("b", "a")
    against = [match for match in found if match and int(match[month]) > 12 >= int(match[day])]
    shown = sum(match is not None and int(match[day]) > 12 >= int(match[month]) for match in found)
    if len(against) > shown:
        first = {"dmy": "day", "mdy": "month"}[order]
        raise TableError(
            f"Column {quoted(name)}: the model was fitted on dates with the {first} first, which "
            f"{quoted(against[0][0])} is not; write the dates as in the fit."
        )


def _order(found: Sequence[re.Match[str] | None], dotted: bool) -> tuple[str, str]:
    """Whether a/b/year is day/month or month/day, and a remark if no cell decides; "yymd": a is a year."""
    first, second, last = ({match[part] for match in found if match} for part in ("a", "b", "y"))
    if all(len(year) == 2 for year in last) and max(map(int, second)) <= 12:
        recent = min(map(int, first)) >= _LATE and max(map(int, first)) <= date.today().year % 100
        few = 1 < len(first) <= _FEW_YEARS and len(last) >= _MANY_DAYS and max(map(int, last)) <= 31
        if (few and recent) or max(map(int, first)) > 31:
            return "yymd", "the year first"
    if max(map(int, first)) > 12 or (dotted and max(map(int, second)) <= 12):
        return "dmy", ""
    if len(first) == 1 and len(second) >= _FEWEST_MONTHS and max(map(int, second)) <= 12:
        return "dmy", f"day before month, as all are on day {int(*first)} of a month"
    return "mdy", "" if max(map(int, second)) > 12 else "month before day, which no cell contradicts"


def _first_year(found: Sequence[re.Match[str] | None], name: str, order: str) -> int:
    """The first of the hundred years that years of two digits mean; 0 if no year has two digits.

    They end a few years from now, unless years of birth, or years that go on beyond, show that all are past.
    """
    part = "a" if order == "yymd" else "y"
    short = {int(match[part]) for match in found if match and len(match[part]) == 2}
    if not short:
        return 0
    now = date.today().year
    ahead = {(year - now) % 100 for year in short}
    past = _BIRTH.search(name) is not None or any(AHEAD < years <= 3 * AHEAD for years in ahead)
    return now - 99 + (0 if past else AHEAD)


def _day(match: re.Match[str], order: str, first_year: int) -> float:
    """Days since 1970-01-01 with the time as a fraction; NaN if there is no such day."""
    part = match.groupdict()
    if "a" in part:
        day, month, year = (part[place] for place in _PLACES[order])
    else:
        day, month, year = part.get("d") or "1", part.get("m") or "", part["y"]
    y = int(year)
    if len(year) == 2:
        y = first_year + (y - first_year) % 100
    if part.get("week"):
        try:
            return float(date.fromisocalendar(y, int(part["week"]), 1).toordinal() - _EPOCH)
        except ValueError:
            return np.nan
    if part.get("q"):
        m = _first_month(match[0], int(part["q"]))
    else:
        m = int(month) if month.isdecimal() else month_of(month)
        m = min(m, _MONTHS_OF_YEAR) if order == "m.y" else m
    if not (1 <= m <= 12 and y >= 1 and 1 <= int(day) <= monthrange(y, m)[1]):
        return np.nan
    return float(date(y, m, int(day)).toordinal() - _EPOCH) + _hours(part) / 24.0


def _first_month(text: str, period: int) -> int:
    """The first month of a quarter, or of half a year; 0 if there is none."""
    if "h" not in text.casefold():
        return 3 * period - 2
    return 6 * period - 5 if period <= 2 else 0


def weekday_of(name: str) -> int:
    """The number of a weekday, 1 for Monday; 0 if this is none."""
    found = _WEEKDAY_NAME.fullmatch(name.casefold())
    return _WEEKDAYS[found[1]] if found else 0


def month_of(name: str) -> int:
    """The number of a month; 0 if this is none."""
    start = name.casefold()
    return _MONTHS.get(start[:4], _MONTHS.get(start[:3], 0))


@dataclass
class Hours:
    """Times of day or durations of distinct texts, NaN where a text is none."""

    values: Floats
    bad: list[str]


def parse_times(texts: Sequence[str], counts: Integers, name: str = "", known: bool = False) -> Hours | None:
    """The hours of texts such as "13:05", "13h05" or "13.05.22", or None if too many are no times.

    Dots separate times where no date has such numbers, or where `name` is that of a time of day; `known`: or
    where they did in an earlier table.
    """
    for pattern in (*_TIMES, _DOTTED_TIME):
        if not any(pattern.fullmatch(text) for text in texts[:SAMPLE] if len(text) <= LONGEST):
            continue
        found = [pattern.fullmatch(text) if len(text) <= LONGEST else None for text in texts]
        matches = [match for match in found if match]
        if not matches or (pattern is _DOTTED_TIME and len(matches) < len(texts)):
            continue
        hours = np.array([np.nan if match is None else _time_of(match) for match in found])
        good = np.isfinite(hours)
        if not are_few(texts, np.array([match is not None for match in found], bool), counts, len(matches)):
            continue
        if pattern is _DOTTED_TIME and not (known or _are_times(matches, name)):
            return None
        if len(matches) > good.sum():  # 12:75 is no time, nor are the others
            return None
        return Hours(hours, [text for text, ok in zip(texts, good, strict=True) if not ok])
    return None


def _time_of(match: re.Match[str]) -> float:
    """The hours of a time of day; NaN if a day has no such time."""
    hours = _hours(match.groupdict())
    sexagesimal = all(int(match[part] or 0) < 60 for part in ("minute", "second"))
    return hours if sexagesimal and hours <= 24.0 else np.nan


def _are_times(found: Sequence[re.Match[str]], name: str) -> bool:
    """Whether numbers between dots are times."""
    if all(match[0].endswith(("h", "r")) for match in found):
        return True
    with_seconds = all(match["second"] is not None for match in found)
    if with_seconds and any(int(match["minute"]) > 12 for match in found):
        return True
    return TIME_OF_DAY.search(name) is not None and (with_seconds or len(found) >= _FEWEST_TIMES)


def _hours(part: Mapping[str, str | None]) -> float:
    hour = int(part.get("hour") or 0)
    if half := part.get("half"):
        hour = hour % 12 + (12 if half[0] in "pP" else 0)
    return hour + int(part.get("minute") or 0) / 60.0 + int(part.get("second") or 0) / 3600.0
