"""Numbers from the texts of cells.

All functions work on the distinct texts of a column and look at the first 64 characters only, so that reading
is linear in the cells.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from craftc._common.typing import Floats, Integers
from craftc.reading.dates import DATE, LONGEST, MOST_BAD, SAMPLE

#: Texts of missing values in every column, and in columns of numbers and dates only (in any case).
NA_VALUES = ("", "?")
NUMERIC_NA_VALUES = ("na", "n/a", "#n/a", "<na>", "nan", "nat", "null", "none", "-", "--", ".")
#: A column of whole numbers with at most this many distinct values holds codes of categories.
MAX_INTEGER_CODES = 5

_MANY_NUMBERS = 30  # different ones at least, next to which a single text is a placeholder
_BOUNDS = "bounds"  # the first word of the change that a bound causes

_CURRENCY = (
    r"(?:US\$|R\$|[AC]\$|[$€£¥₹₽₩₺₴₪₫₱฿]|(?:USD|EUR|GBP|CHF|JPY|CNY|INR|AUD|CAD|NZD|SEK|NOK|DKK|PLN|CZK|HUF|BRL|MXN|ZAR|RUB|KRW|TRY|SGD|HKD"
    r")\b|Fr\.|kr\b|zł|Kč|Rs\.?)"
)
_DRESSED = re.compile(
    rf"(?P<bound>[<>≤≥~≈]=?\s*)?(?P<sign>[+-]?)\s*(?P<outer>\()?(?P<before>{_CURRENCY})?\s*(?P<open>\()?(?P<inner>[+-]?)"
    r"(?P<body>(?:\d|[.,]\d)(?:[\d.,]|[ '](?=\d))*(?:[eE][+-]?\d+)?)\s*"
    rf"(?P<after>{_CURRENCY}|[%‰]|[^\W\d_°µ][^\d()<>,;]{{0,11}}|[°µ\"'][^\d]{{0,4}})?"
    r"(?P<close>\))?(?P<minus>-?)"
)
_BODY = {  # no zero begins a number with thousands
    ".": re.compile(
        r"(?:\d+|[1-9]\d{0,2}(?:[, ']\d{3})+|[1-9]\d?(?:,\d\d)+,\d{3}|0[, ]000)(?:\.\d*)?(?:[eE][+-]?\d+)?"
        r"|\.\d+(?:[eE][+-]?\d+)?"
    ),
    ",": re.compile(
        r"(?:\d+|[1-9]\d{0,2}(?:[. ']\d{3})+|0[. ]000)(?:,\d*)?(?:[eE][+-]?\d+)?|,\d+(?:[eE][+-]?\d+)?"
    ),
}
#: Texts that have a decimal comma or point for certain: their mark separates no thousands.
_CERTAIN = {
    mark: re.compile(
        rf"[^\d]*(?:\d*{sign}(?:\d{{1,2}}|\d{{4,}})|0{sign}(?!000)\d+"
        rf"|\d{{4,}}{sign}\d+|\d{{1,3}}(?:{other}\d{{3}})+{sign}\d+)[^\d]*"
    )
    for mark, sign, other in ((",", ",", "[. ']"), (".", r"\.", "[, ']"))
}
_THOUSANDS = {".": re.compile(r"[1-9]\d{0,2}(?:\.\d{3})+"), ",": re.compile(r"[1-9]\d{0,2}(?:,\d{3})+")}
_IS_CURRENCY = re.compile(_CURRENCY)
_FOOTNOTE = re.compile(
    r"(.*\d)\s*(?:\*{1,3}|[†‡§¹²³#^]|\[[a-z\d]\]|\((?:p|e|r|est|prov|[a-z\d])\.?\)|\^[a-z\d])", re.IGNORECASE
)
#: Numbers with a letter: corrected, estimated, provisional, revised.
_LETTERED = re.compile(r"(.*\d\d\d)\s?[ceprx]", re.IGNORECASE)
#: Texts in the place of numbers that are not known.
_PLACEHOLDER = re.compile(
    r"[^\w\s]{1,5}|x{1,5}|n\.?d\.?|k\.?a\.?|keine angabe|unbekannt|suppressed|unknown|missing|withheld"
    r"|refused|confidential|pending|tbd|no data|no answer|don'?t know|prefer not to (say|answer)"
    r"|not (available|applicable|reported|known|measured|detected|given|stated)"
    r"|#?(ref|value|num|name|error|div/0)[!?]?|below (detection|the limit).*"
    r"|[<>≤≥]?\s*(lod|loq|mdl|dl|bdl|nd)|\([a-z]{1,3}\)|\[[a-z]{1,3}\]",
    re.IGNORECASE,
)
_SPACES = str.maketrans({"−": "-", "\u00a0": " ", "\u2009": " ", "\u202f": " ", "’": "'"})


@dataclass
class Numbers:
    """The numbers of distinct texts, NaN where a text is none, and what was removed from the texts."""

    values: Floats
    bad: list[str]  # texts that are no number
    changes: list[str] = field(default_factory=list)  # what was removed or interpreted
    unit: str = ""
    mark: str = ""  # decimal mark of the texts, if they need one to be read


@dataclass(slots=True)
class _Parsed:
    value: float
    unit: str
    marks: tuple[str, ...]

    @property
    def is_bound(self) -> bool:
        """Whether the text shows a bound, as "< 5" does."""
        return any(mark.startswith(_BOUNDS) for mark in self.marks)


def as_number(text: str) -> float | None:
    """The number that a text without unit shows, or None."""
    parsed = _parse(text, ".") or _parse(text, ",")
    return (
        parsed.value
        if parsed is not None
        and (not parsed.unit or _IS_CURRENCY.fullmatch(parsed.unit) or parsed.unit == "%")
        else None
    )


def is_datum(cell: str) -> bool:
    """Whether a cell looks like a number or a date."""
    return as_number(cell) is not None or DATE.fullmatch(cell[:64]) is not None


def _parse(text: str, point: str, lettered: bool = False) -> _Parsed | None:
    """The number of a text, its unit and what else it shows, with this decimal point.

    `lettered`: whether a letter after a number is a footnote mark.
    """
    if len(text) > LONGEST:
        return None
    noted = _FOOTNOTE.fullmatch(text) or (_LETTERED.fullmatch(text) if lettered else None)
    plain = text if noted is None else noted[1]
    found = _DRESSED.fullmatch(plain if plain.isascii() else plain.translate(_SPACES))
    if found is None or _BODY[point].fullmatch(found["body"]) is None:
        return None
    n_open = (found["outer"] is not None) + (found["open"] is not None)
    signs = (found["sign"], found["inner"], found["minus"]).count("-") + n_open
    two_units = found["before"] is not None and found["after"] is not None
    if two_units or n_open != (found["close"] is not None) or signs > 1:
        return None
    digits, marks = _plain_digits(found["body"], point)
    marks += ["footnote marks removed"] * (noted is not None)
    if n_open:
        marks.append("numbers in parentheses are negative")
    if found["bound"]:
        marks.append(f"{_BOUNDS} such as {text!r} taken as their number")
    unit = (found["before"] or found["after"] or "").strip()
    return _Parsed(-float(digits) if signs else float(digits), unit, tuple(marks))


def _plain_digits(body: str, point: str) -> tuple[str, list[str]]:
    """A number as Python reads it, and what was removed from it."""
    plain = body.replace(" ", "").replace("'", "")
    separated = plain != body or ("," if point == "." else ".") in plain
    marks = ["thousands separators removed"] * separated
    if point == ".":
        return plain.replace(",", ""), marks
    return plain.replace(".", "").replace(",", "."), marks + ["decimal commas"] * ("," in plain)


def certain_mark(texts: Sequence[str]) -> str:
    """The decimal mark that the texts of a column show for certain; "" if they show none, or both."""
    first = [text.strip() for text in texts[:SAMPLE] if len(text) <= LONGEST]
    if 2 * sum(as_number(text) is not None for text in first) < len(first):
        return ""
    shown = [mark for mark, form in _CERTAIN.items() if any(map(form.fullmatch, first))]
    return shown[0] if len(shown) == 1 else ""


def table_mark(columns: Iterable[Sequence[object]]) -> str:
    """The comma if columns of texts show it as decimal mark for certain, and none shows a point; or ""."""
    marks = set()
    for cells in columns:
        texts = {cell for cell in cells if isinstance(cell, str) and cell not in NA_VALUES}
        if any("," in text or "." in text for text in texts):
            marks.add(certain_mark(sorted(texts)))
    return "," if marks - {""} == {","} else ""


def have_thousands(texts: Sequence[str], mark: str, semicolons: bool) -> bool:
    """Whether all texts could be whole numbers, with this mark between thousands in some, but not in all
    unless semicolons separate the cells.
    """
    marked = sum(mark in text for text in texts)
    return 0 < marked < len(texts) + semicolons and all(
        _THOUSANDS[mark].fullmatch(text) if mark in text else text.isdecimal() for text in texts
    )


def parse_numbers(
    texts: Sequence[str], counts: Integers, *, semicolons: bool, forced: bool, point: str = ""
) -> Numbers | None:
    """Read the distinct texts of a column as numbers.

    `texts`: distinct, stripped, none of them missing. `counts`: number of cells of each text.
    `semicolons`: whether cells are separated by semicolons: "1,234" is then a decimal comma, otherwise a
    thousands separator, unless `point`, the decimal mark of the table, decides. `forced`: whether any number
    of cells may be no numbers.

    Returns None if too many cells are no numbers, or their units differ.
    """
    thousands = point == "," and any("." in text for text in texts)
    if not thousands and (plain := _plain_numbers(texts)) is not None:
        return Numbers(plain, [], mark="." if any("." in text for text in texts) else "")
    first = texts[:SAMPLE]
    if not forced and 2 * sum(bool(_parse(text, ".") or _parse(text, ",")) for text in first) < len(first):
        return None
    read = _of_one_unit(_with_better_point(texts, counts, semicolons, point), counts)
    good = [each for each in read if each is not None]
    bad = [text for text, each in zip(texts, read, strict=True) if each is None]
    if not good or (not forced and _is_category(texts, read, good, counts)):
        return None
    values = np.array([np.nan if each is None else each.value for each in read])
    changes = _changes(good)
    marked = any("," in text or "." in text for text in texts)
    units = Counter(each.unit for each in good if each.unit)
    unit = units.most_common(1)[0][0] if units else ""
    return Numbers(
        values, bad, changes, unit, ("," if "decimal commas" in changes else ".") if marked else ""
    )


def _with_better_point(
    texts: Sequence[str], counts: Integers, semicolons: bool, point: str
) -> list[_Parsed | None]:
    """The texts with the decimal point, or the decimal comma where that reads more cells; `point` decides
    where both read equally many.
    """
    of_letters = _cells_of([_LETTERED.fullmatch(text) for text in texts], counts)
    lettered = 0 < 2 * of_letters <= counts.sum()
    with_points = [_parse(text, ".", lettered) for text in texts]
    if None not in with_points and (
        point == "." or (not semicolons and point != ",")
    ):  # no reading with decimal commas is better
        return with_points
    with_commas = [_parse(text, ",", lettered) for text in texts]
    better = _cells_of(with_commas, counts) - _cells_of(with_points, counts)
    commas = any("," in text for text, each in zip(texts, with_commas, strict=True) if each)
    preferred = point == "," or (point == "" and semicolons and commas)
    return with_commas if better > 0 or (better == 0 and preferred) else with_points


def _is_category(
    texts: Sequence[str], read: list[_Parsed | None], good: list[_Parsed], counts: Integers
) -> bool:
    """Whether the texts are rather levels: few different numbers with units, bounds or texts among them, or
    too many cells that are bounds or no numbers.
    """
    n_good, n_all = _cells_of(read, counts), int(counts.sum())
    n_bounds = sum(int(n) for n, each in zip(counts, read, strict=True) if each and each.is_bound)
    unit = any(each.unit and not _is_symbol(each.unit) for each in good)
    n_numbers = len({each.value for each in good})
    few = n_numbers <= MAX_INTEGER_CODES
    if few and (len(good) < len(read) or unit or n_bounds):
        return True
    words = {text.casefold() for text, each in zip(texts, read, strict=True) if each is None}
    one_word = len(words) == 1 and n_numbers > _MANY_NUMBERS
    placeholders = sum(
        int(n)
        for text, n, each in zip(texts, counts, read, strict=True)
        if each is None and (one_word or _PLACEHOLDER.fullmatch(text))
    )
    n_bad = n_all - n_good
    if placeholders and 2 * n_good >= n_all:
        n_bad -= placeholders
    return 2 * n_bounds > n_good or n_bad > MOST_BAD * n_all


def _changes(good: list[_Parsed]) -> list[str]:
    """What was removed from texts or interpreted, each once; of bounds one example."""
    changes = dict.fromkeys(f"{each.unit!r} removed" for each in good if each.unit)
    bounded = False
    for each in good:
        changes |= dict.fromkeys(mark for mark in each.marks if not (bounded and mark.startswith(_BOUNDS)))
        bounded |= each.is_bound
    return list(changes)


def _plain_numbers(texts: Sequence[str]) -> Floats | None:
    """The numbers of texts that Python's float reads, or None if one of them has more than a number."""
    if any("_" in text for text in texts):
        return None
    try:
        return np.array(texts, dtype=object).astype(np.float64)
    except ValueError:
        return None


def _cells_of(parsed: Sequence[object], counts: Integers) -> int:
    """The number of cells whose texts are not None."""
    return int(counts[[each is not None for each in parsed]].sum())


def _is_symbol(unit: str) -> bool:
    return unit in "%‰" or _IS_CURRENCY.fullmatch(unit) is not None


def _of_one_unit(parsed: list[_Parsed | None], counts: Integers) -> list[_Parsed | None]:
    """Only the numbers of the most frequent unit; next to one currency, numbers without unit count too."""
    units: Counter[str] = Counter()
    for each, n in zip(parsed, counts, strict=True):
        if each is not None:
            units[each.unit] += int(n)
    if len(units) <= 1:
        return parsed
    named = [unit for unit in units if unit]
    if len(named) == 1 and _IS_CURRENCY.fullmatch(named[0]):
        return parsed
    main = units.most_common(1)[0][0]
    return [each if each is not None and each.unit == main else None for each in parsed]


def have_leading_zeros(texts: Sequence[str]) -> bool:
    """Whether whole numbers are padded with zeros, as codes are ("007")."""
    padded = False
    for text in texts:
        if not text.isdecimal():
            return False
        padded |= text.startswith("0") and len(text) > 1
    return padded


def float_of(cell: object) -> float | None:
    """A cell as a float; None if it is no number."""
    try:
        return float(cell)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return None
