"""Numbers from the texts of cells.

All functions work on the distinct texts of a column and look at the first 64 characters only, so that reading
is linear in the cells.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from craftc._common.typing import Floats, Integers
from craftc.reading.bare_texts import bare_texts
from craftc.reading.dates import DATE, LONGEST, MOST_BAD, SAMPLE, are_few
from craftc.reading.quantities import parse_quantities, units_of

#: Texts of missing values in every column, and in columns of numbers and dates only (in any case).
NA_VALUES = ("", "?")
NUMERIC_NA_VALUES = (
    *("na", "n/a", "n.a.", "#n/a", "#nv", "<na>", "nan", "nat", "null", "none", "\\n", "(blank)", "(leer)"),
    *("-", "--", "---", "–", "—", ".", "k.a.", "k. a.", "keine angabe"),
)
#: The change of numbers whose thousands were separated.
SEPARATED = "thousands separators removed"
#: A column of whole numbers with at most this many distinct values holds codes of categories.
MAX_INTEGER_CODES = 5

_BOUNDS, _ROUGHLY = "bounds", "rough numbers"  # the first words of the changes that these cause
_NEGATIVE = "numbers in parentheses are negative"
_PLURALS = ("s", "e", "n", "en", "es")
_NO_CENTS = "dashes in the place of cents removed"
#: Signs of negative numbers that are none in some columns, and the change that says so.
_UNSIGNED = {"(": "parentheses removed", "-": "dashes in the place of whole amounts removed"}
_TIMES_OUT = "multiplied out"  # the last words of the change that "k" or "Mio" causes
#: Largest ratio of the medians of two kinds of numbers of a column that are of one size.
ALIKE = 10.0

_CURRENCY = (
    r"(?:US\$|R\$|[AC]\$|[$€£¥₹₽₩₺₴₪₫₱฿]|(?:USD|EUR|GBP|CHF|JPY|CNY|INR|AUD|CAD|NZD|SEK|NOK|DKK|PLN|CZK|HUF|BRL|MXN|ZAR|RUB|KRW|TRY|SGD|HKD"
    r")\b|Fr\.|kr\b|zł|Kč|Rs\.?)"
)
_FACTORS = {
    **dict.fromkeys(("k", "tsd", "tausend", "thousand"), 1e3),
    **dict.fromkeys(("lakh", "lakhs", "lac", "lacs"), 1e5),
    **dict.fromkeys(("m", "mn", "mio", "mill", "million", "millions", "millionen"), 1e6),
    **dict.fromkeys(("cr", "crore", "crores"), 1e7),
    **dict.fromkeys(("b", "bn", "mrd", "billion", "billions", "milliarde", "milliarden"), 1e9),
}
_LESS_OR_MORE = (
    r"more|over|above|older|up|less|under|below|younger|mehr|älter|darüber|weniger|jünger|plus|moins"
)
_BOUND = (  # words in front of a number that is a bound
    r"[<>≤≥]=?\s*|(?i:under|below|less than|up to|at most|over|above|more than|at least"
    r"|unter|weniger als|höchstens|bis(?: zu)?|über|mehr als|mindestens|ab|moins de|plus de)\s+"
)
_ROUGH = r"(?:[~≈]|c\.|ca\.|approx\.)\s*|(?:about|approx|circa|ca|rund|etwa|environ)\s+"  # or a rough one
_TEN = r"[x×·*]\s?10(?:\^|\*\*)?[-⁻\d⁰¹²³⁴⁵⁶⁷⁸⁹]{1,3}(?:\s?/\s?[^\d\s]{1,6})?"  # x 10^9/L
_MILLION = rf"m(?:(?=\s?{_CURRENCY})|(?(before)|(?!)))"  # next to a currency, where metres have no place
_DRESSED = re.compile(
    rf"(?:(?P<bound>{_BOUND})|(?P<rough>{_ROUGH}))?(?P<sign>[-+–]?)\s*(?P<outer>\()?(?P<before>{_CURRENCY})?\s*(?P<open>\()?(?P<inner>[-+–]?)"
    r"(?P<body>(?:\d|[.,]\d)(?:[\d.,]|[ '](?=\d))*(?:[eE][+-]?\d+)?)(?P<cents>(?<=[.,])(?:--?|[–—])|/[-–—])?"
    r"(?:\s?(?P<plus>\+))?\s*"
    r"(?:(?P<times>[kKMB]|[bB]n|mn|[mM]io|[mM]rd|[mM]ill|[tT]sd|Tausend|thousand|[mM]illions?|[bB]illions?|Millionen"
    rf"|Milliarden?|[lL]akhs?|[lL]acs?|[cC]rores?|Cr|{_MILLION})\b\.?\s*)?(?P<also>\+\s?)?"
    rf"(?P<after>{_CURRENCY}(?:\s?/\s?[^\W\d_]{{1,8}}|\s(?:per|pro|je)\s[^\W\d_]{{1,12}})?|{_TEN}|[%‰]|(?!(?:and|or|und|oder|et|ou)\s)[^\W\d_°µ][^\d()<>,;]{{0,11}}?|[°µ\"'][^\d]{{0,4}})?"
    rf"(?P<close>\))?(?P<minus>-?)(?P<more>\s(?:and|or|&|und|oder|et|ou) (?:{_LESS_OR_MORE}))?",
)
_NOTHING = re.compile(rf"(?P<before>{_CURRENCY})\s*[-–—]|[-–—]\s*(?P<after>{_CURRENCY})")  # 0 in accounts
_GRADE = re.compile(r"[1-6]\s?[-+]")  # 2+ and 3- are no bounds and no negative numbers
_TWO_ANSWERS = re.compile(r"\d, ?\d")
_FEWEST_PAIRS = 5  # different pairs of answers
_ALSO_ALONE = 0.6  # share of the second answers that other cells have alone or first
_ONLY_CENTS = re.compile(r"(--|[-–—])(?=[.,]\d\d(?!\d))")  # -.50 next to 5.- in a list of prices
_BODY = {  # no zero begins a number with thousands, and none has an exponent
    ".": re.compile(
        r"(?!.*,.*[eE])"
        r"(?:\d+|[1-9]\d{0,2}(?:[, ']\d{3})+|[1-9]\d?(?:,\d\d)+,\d{3}|0[, ]000)(?:\.\d*)?(?:[eE][+-]?\d+)?"
        r"|\.\d+(?:[eE][+-]?\d+)?"
    ),
    ",": re.compile(
        r"(?!.*\..*[eE])"
        r"(?:\d+|[1-9]\d{0,2}(?:[. ']\d{3})+|0[. ]000)(?:,\d*)?(?:[eE][+-]?\d+)?|,\d+(?:[eE][+-]?\d+)?"
    ),
}
#: Texts that have a decimal comma or point for certain: their mark separates no thousands.
_CERTAIN = {
    mark: re.compile(
        rf"[^\d]*(?:\d*{sign}(?:\d{{1,2}}|\d{{4,}})|0{sign}(?!000)\d+"
        rf"|\d{{4,}}{sign}\d+|\d+{sign}\d+[eE][+-]?\d+|\d{{1,3}}(?:{other}\d{{3}})+{sign}\d+)[^\d]*"
    )
    for mark, sign, other in ((",", ",", "[. ']"), (".", r"\.", "[, ']"))
}
_MANY_STEPS = 20  # numbers beyond which bounds are no categories
_IS_CURRENCY = re.compile(_CURRENCY)
_AS_TEXT = re.compile(r"'[-+]?\d[\d.,]*")
_FOOTNOTE = re.compile(
    r"(.*\d)\s*(?:\*{1,3}|[†‡§¹²³#^]|\[[a-z\d]\]|\((?:p|e|r|est|prov|[a-z\d])\.?\)|(?<!10)\^[a-z\d])",
    re.IGNORECASE,
)
#: Numbers with a letter: corrected, estimated, provisional, revised.
_LETTERED = re.compile(r"(.*\d\d\d)\s?[ceprx]", re.IGNORECASE)
_SPACES = str.maketrans(
    {"−": "-", "\u00a0": " ", "\u2009": " ", "\u202f": " ", "’": "'", "℃": "°C", "℉": "°F"}
)


@dataclass
class Numbers:
    """The numbers of distinct texts, NaN where a text is none, and what was removed from the texts."""

    values: Floats
    bad: list[str]  # texts that are no number
    changes: list[str] = field(default_factory=list)  # what was removed or interpreted
    unit: str = ""
    mark: str = ""  # decimal mark of the texts, if they need one to be read
    scaled: bool = False  # whether thousands and millions were multiplied out
    units: list[str] = field(default_factory=list)  # of one quantity, which were converted
    unsigned: str = ""  # which of "(" and "-" are no signs: all numbers have "(", or "-.50" is half a franc


@dataclass(slots=True)
class _Parsed:
    value: float
    unit: str
    marks: tuple[str, ...]
    times: str = ""  # "k", "Mio": what the number has to be multiplied by

    @property
    def is_bound(self) -> bool:
        """Whether the text shows a bound, as "< 5" does."""
        return any(mark.startswith(_BOUNDS) for mark in self.marks)

    @property
    def is_zero(self) -> bool:
        """Whether the text shows a zero without unit, which has every unit."""
        return self.value == 0.0 and not self.unit


def as_number(text: str) -> float | None:
    """The number that a text without unit shows, or None."""
    parsed = _parse(text, ".") or _parse(text, ",")
    return (
        parsed.value
        if parsed is not None
        and not parsed.times
        and (not parsed.unit or _IS_CURRENCY.fullmatch(parsed.unit) or parsed.unit == "%")
        else None
    )


def plain_text(text: str) -> str:
    """A text without blanks around it, and a number without the apostrophe of a spreadsheet's text."""
    text = text.strip()
    return text[1:] if _AS_TEXT.fullmatch(text) else text


def as_number_with_comma(text: str) -> float | None:
    """The number that a text without unit shows with a decimal comma, or None."""
    parsed = _parse(text, ",")
    return None if parsed is None or parsed.unit or parsed.times else parsed.value


def is_datum(cell: str) -> bool:
    """Whether a cell looks like a number or a date."""
    return as_number(cell) is not None or DATE.fullmatch(cell[:64]) is not None


def _parse(text: str, point: str, lettered: bool = False) -> _Parsed | None:
    """The number of a text, its unit and what else it shows, with this decimal point.

    `lettered`: whether a letter after a number is a footnote mark.
    """
    if len(text) > LONGEST:
        return None
    if nothing := _NOTHING.fullmatch(text):
        return _Parsed(0.0, nothing["before"] or nothing["after"], (f"cells such as {text!r} taken as 0",))
    noted = _FOOTNOTE.fullmatch(text) or (_LETTERED.fullmatch(text) if lettered else None)
    plain = text if noted is None else noted[1]
    found = dressed(plain)
    if found is None or _BODY[point].fullmatch(found["body"]) is None:
        return None
    n_open = (found["outer"] is not None) + (found["open"] is not None)
    signs = sum((found[part] or "") in ("-", "–") for part in ("sign", "inner", "minus")) + n_open
    two_units = found["before"] is not None and found["after"] is not None
    if two_units or n_open != (found["close"] is not None) or signs > 1:
        return None
    digits, marks = _plain_digits(found["body"], point)
    marks += ["footnote marks removed"] * (noted is not None)
    if n_open:
        marks.append(_NEGATIVE)
    if found["cents"]:
        marks.append(_NO_CENTS)
    if found["bound"] or found["plus"] or found["also"] or found["more"]:
        marks.append(f"{_BOUNDS} such as {text!r} taken as their number")
    if found["rough"]:
        marks.append(f"{_ROUGHLY} such as {text!r} taken as their number")
    unit = (found["before"] or found["after"] or "").strip()
    return _Parsed(-float(digits) if signs else float(digits), unit, tuple(marks), found["times"] or "")


def dressed(text: str) -> re.Match[str] | None:
    """The parts of a number with sign, unit and what else surrounds it."""
    return _DRESSED.fullmatch(text if text.isascii() else text.translate(_SPACES))


def _plain_digits(body: str, point: str) -> tuple[str, list[str]]:
    """A number as Python reads it, and what was removed from it."""
    plain = body.replace(" ", "").replace("'", "")
    separated = plain != body or ("," if point == "." else ".") in plain
    marks = [SEPARATED] * separated
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


def table_marks(columns: Iterable[Sequence[object]]) -> set[str]:
    """The decimal marks that columns of texts show for certain."""
    marks = set()
    for cells in columns:
        texts = {cell for cell in cells if isinstance(cell, str) and cell not in NA_VALUES}
        if any("," in text or "." in text for text in texts):
            marks.add(certain_mark(sorted(texts)))
    return marks - {""}


def parse_numbers(
    texts: Sequence[str],
    counts: Integers,
    *,
    semicolons: bool,
    forced: bool,
    point: str = "",
    scaled: bool | None = None,
    unit: str = "",
    units: Collection[str] = (),
    unsigned: str | None = None,
    millions: bool = False,
) -> Numbers | None:
    """Read the distinct texts of a column as numbers.

    `texts`: distinct, stripped, none of them missing. `counts`: number of cells of each text.
    `semicolons`: whether cells are separated by semicolons: "1,234" is then a decimal comma, otherwise a
    thousands separator, unless `point`, the decimal mark of the table, decides. `forced`: whether any number
    of cells may be no numbers. `scaled`: whether thousands and millions ("1.2k", "3 Mio.") are multiplied
    out; None: where they stand next to each other, or next to other numbers. `unit`: of an earlier table,
    to which other units of the same quantity are converted, and thousands and millions of it. `units`: all
    that were converted in the earlier table. `unsigned`: of that table; None: the texts decide. `millions`:
    whether "m" stands for millions, as in that table.

    Returns None if too many cells are no numbers, or their units differ.
    """
    thousands = point == "," and any("." in text for text in texts)
    as_written = not thousands and "-" not in (unsigned or "")
    if as_written and (plain := _plain_numbers(texts)) is not None:
        return Numbers(plain, [], mark="." if any("." in text for text in texts) else "")
    shown = texts
    texts, bared = bare_texts(texts, forced and not unit)
    if (found := parse_quantities(texts, counts, unit, units)) is not None:
        bad = [text for text, value in zip(shown, found.values, strict=True) if np.isnan(value)]
        return Numbers(found.values, bad, [*bared, found.change], found.unit, units=found.units)
    first = texts[:SAMPLE]
    if not forced and 2 * sum(bool(_parse(text, ".") or _parse(text, ",")) for text in first) < len(first):
        return None
    better, read_as = _with_better_point(texts, counts, semicolons, point)
    parsed = _multiplied(_with_millions(better, millions), scaled, unit)
    if not forced and (_are_grades(texts, parsed) or _are_answers(texts)):
        return None
    signed = _without_francs(texts, _not_all_negative(parsed, unsigned), unsigned)
    read = _of_one_unit(_of_one_number(signed, unit), counts)
    good = [each for each in read if each is not None]
    bad = [text for text, each in zip(shown, read, strict=True) if each is None]
    if not good or (not forced and _is_category(texts, read, good, counts)):
        return None
    values = np.array([np.nan if each is None else each.value for each in read])
    changes = [*bared, *_changes(good)]
    marked = any("," in text or "." in text for text in texts)
    shares = Counter(each.unit for each in good if each.unit)
    unit = shares.most_common(1)[0][0] if shares else ""
    return Numbers(
        values,
        bad,
        changes,
        unit,
        mark=read_as if marked else "",
        scaled=any(_is_scaled(each) for each in good),
        unsigned="".join(
            sign for sign, change in _UNSIGNED.items() if any(change in each.marks for each in good)
        ),
    )


def _with_better_point(
    texts: Sequence[str], counts: Integers, semicolons: bool, point: str
) -> tuple[list[_Parsed | None], str]:
    """The texts with the decimal point, or the decimal comma where that reads more cells, and which it is;
    `point` decides where both read equally many.
    """
    of_letters = _cells_of([_LETTERED.fullmatch(text) for text in texts], counts)
    lettered = 0 < 2 * of_letters <= counts.sum()
    of_points = [_parse(text, ".", lettered) for text in texts]
    if None not in of_points and (
        point == "." or (not semicolons and point != ",")
    ):  # no reading with decimal commas is better
        return of_points, "."
    of_commas = [_parse(text, ",", lettered) for text in texts]
    better = _cells_of(of_commas, counts) - _cells_of(of_points, counts)
    commas = any("," in text for text, each in zip(texts, of_commas, strict=True) if each)
    preferred = point == "," or (point == "" and semicolons and commas)
    if better > 0 or (better == 0 and preferred):
        return _of_both_marks(texts, counts, of_commas, of_points, ","), ","
    return _of_both_marks(texts, counts, of_points, of_commas, "."), "."


def _of_both_marks(
    texts: Sequence[str], counts: Integers, read: list[_Parsed | None], other: list[_Parsed | None], mark: str
) -> list[_Parsed | None]:
    """The numbers `read` with this decimal mark. Where texts show the other one for certain, too, these are
    read with it, and texts with it that could separate thousands are no numbers, unless more cells are lost.
    """
    another = "." if mark == "," else ","
    sure, shown = (
        [form.fullmatch(text) is not None for text in texts] for form in (_CERTAIN[another], _CERTAIN[mark])
    )
    each = zip(read, other, sure, strict=True)
    gained = np.array([not own and bool(of_other) and certain for own, of_other, certain in each])
    lost = np.array([another in text for text in texts]) & ~gained & ~np.array(shown)
    if not any(shown) or counts[gained].sum() <= counts[lost].sum():
        return read
    out: list[_Parsed | None] = []
    for own, of_other, gain, lose in zip(read, other, gained, lost, strict=True):
        parsed = of_other if gain else own
        if parsed is not None and gain:
            parsed = replace(parsed, marks=(*parsed.marks, "both decimal marks"))
        out.append(None if lose else parsed)
    return out


def _is_category(
    texts: Sequence[str], read: list[_Parsed | None], good: list[_Parsed], counts: Integers
) -> bool:
    """Whether the texts are rather levels: few different numbers with units, bounds or texts among them, or
    too many cells that are bounds or no numbers.
    """
    n_good = _cells_of(read, counts)
    n_bounds = sum(int(n) for n, each in zip(counts, read, strict=True) if each and each.is_bound)
    unit = any(each.unit and not _is_symbol(each.unit) for each in good)
    n_numbers = len({each.value for each in good})
    few = n_numbers <= MAX_INTEGER_CODES
    if few and (len(good) < len(read) or unit or n_bounds):
        return True
    is_number = np.array([each is not None for each in read], bool)
    few_steps = n_numbers <= _MANY_STEPS  # and bounds are ranges
    return (2 * n_bounds > n_good and few_steps) or not are_few(texts, is_number, counts, n_numbers)


def _changes(good: list[_Parsed]) -> list[str]:
    """What was removed from texts or interpreted, each once; of bounds and rough numbers one example."""
    changes = {unit: f"{unit!r} removed" for unit in dict.fromkeys(each.unit for each in good) if unit}
    for mark in (mark for each in good for mark in each.marks):
        changes.setdefault(mark.partition(" such as ")[0], mark)
    return list(changes.values())


def _plain_numbers(texts: Sequence[str]) -> Floats | None:
    """The numbers of texts that Python's float reads, or None if one of them has more than a number, or is
    infinite.
    """
    if any("_" in text for text in texts):
        return None
    try:
        numbers = np.array(texts, dtype=object).astype(np.float64)
    except ValueError:
        return None
    return None if np.isinf(numbers).any() else numbers


def _cells_of(parsed: Sequence[object], counts: Integers) -> int:
    """The number of cells whose texts are not None."""
    return int(counts[[each is not None for each in parsed]].sum())


def _is_symbol(unit: str) -> bool:
    return unit in "%‰" or _IS_CURRENCY.fullmatch(unit) is not None


def _multiplied(parsed: list[_Parsed | None], scaled: bool | None, fitted: str) -> list[_Parsed | None]:
    """Numbers with thousands and millions multiplied out, or with these as part of their unit, unless the
    rest is that of the fit.
    """
    if scaled is None:
        scaled = _are_multiples([each for each in parsed if each])
    if not any(each and each.times for each in parsed):
        return parsed
    return [
        each and (_scaled(each) if scaled or each.unit == fitted != "" else _with_times_as_unit(each))
        for each in parsed
    ]


def _with_millions(parsed: list[_Parsed | None], known: bool) -> list[_Parsed | None]:
    """Numbers with "m" as millions instead of metres, where thousands or billions without a unit are next to
    them, and no other unit; `known`: or where it stood for these in an earlier table.
    """
    units = {each.unit for each in parsed if each}
    factors = {each.times.casefold() for each in parsed if each and not each.unit}
    if not {"m"} <= units <= {"m", ""} or not (known or factors & {"k", "bn"}):
        return parsed
    return [each and (replace(each, unit="", times="m") if each.unit == "m" else each) for each in parsed]


def _are_multiples(numbers: Sequence[_Parsed]) -> bool:
    """Whether numbers have different factors, which are no letters of a code such as "12B"."""
    with_factor = [each for each in numbers if each.times]
    factors = set(map(_factor, with_factor))
    sure = len(factors) > 1 or any(
        each.times not in "MB" or _IS_CURRENCY.fullmatch(each.unit) or each.value % 1.0
        for each in with_factor
    )
    return sure and len(factors) + (len(with_factor) < len(numbers)) > 1


def _factor(number: _Parsed) -> float:
    return _FACTORS[number.times.casefold()] if number.times else 1.0


def _scaled(number: _Parsed) -> _Parsed:
    if not number.times:
        return number
    value = float(f"{number.value * _factor(number):.15g}")
    return replace(number, value=value, times="", marks=(*number.marks, f"{number.times!r} {_TIMES_OUT}"))


def _is_scaled(number: _Parsed) -> bool:
    return any(mark.endswith(_TIMES_OUT) for mark in number.marks)


def _with_times_as_unit(number: _Parsed) -> _Parsed:
    return replace(number, unit=f"{number.times} {number.unit}".strip(), times="")


def _are_grades(texts: Sequence[str], parsed: Sequence[_Parsed | None]) -> bool:
    """Whether texts are marks from 1 to 6 with + and -: "2+", "3-"."""
    numbers = [(text, each) for text, each in zip(texts, parsed, strict=True) if each]
    marked = [text for text, _ in numbers if _GRADE.fullmatch(text)]
    return bool(marked) and all(1.0 <= abs(each.value) <= 6.0 and not each.unit for _, each in numbers)


def _are_answers(texts: Sequence[str]) -> bool:
    """Whether texts are numbers of one answer or two, in ascending order: "4", "1,3". Decimals are rarely all
    above the digit before the comma, and no whole numbers of the same column.
    """
    pairs = [(text[0], text[-1]) for text in texts if _TWO_ANSWERS.fullmatch(text)]
    others = {text for text in texts if not _TWO_ANSWERS.fullmatch(text)}
    answers = others | {first for first, _ in pairs}
    return (
        len(set(pairs)) >= _FEWEST_PAIRS
        and all(first < second for first, second in pairs)
        and all(len(text) == 1 and text.isdecimal() for text in others)
        and sum(second in answers for _, second in pairs) >= _ALSO_ALONE * len(pairs)
    )


def _not_all_negative(parsed: list[_Parsed | None], unsigned: str | None) -> list[_Parsed | None]:
    """Numbers that are all in parentheses as positive ones; of a later table those in parentheses that had no
    sign in the fit.
    """
    all_enclosed = all(each is None or _NEGATIVE in each.marks for each in parsed)
    if not (all_enclosed if unsigned is None else "(" in unsigned):
        return parsed
    return [
        replace(each, value=-each.value, marks=(_UNSIGNED["("],))
        if each and _NEGATIVE in each.marks
        else each
        for each in parsed
    ]


def _of_one_number(parsed: list[_Parsed | None], fitted: str) -> list[_Parsed | None]:
    """Numbers with the plural of their unit: "1 day" next to "2 days", or where the fit had these."""
    units = {fitted, *(each.unit for each in parsed if each)}
    plural = {
        unit: unit + ending
        for unit in units
        for ending in _PLURALS
        if unit + ending in units
        and len(unit) > 1
        and all(abs(each.value) == 1.0 for each in parsed if each and each.unit == unit)
    }
    return [each and replace(each, unit=plural.get(each.unit, each.unit)) for each in parsed]


def _without_francs(
    texts: Sequence[str], parsed: list[_Parsed | None], unsigned: str | None
) -> list[_Parsed | None]:
    """Prices with "-.50" as half a franc, where others are written "5.-" and none is negative, or where the
    fit had such.
    """
    cents = [_ONLY_CENTS.match(text) is not None for text in texts]
    if "-" not in (unsigned or ""):
        negative = any(
            each and each.value < 0.0 and not only for each, only in zip(parsed, cents, strict=True)
        )
        if negative or not any(each and _NO_CENTS in each.marks for each in parsed):
            return parsed
    plain = [
        _parse(_ONLY_CENTS.sub("", text), "," if "," in text else ".") if only else None
        for text, only in zip(texts, cents, strict=True)
    ]
    return [
        (own and replace(own, marks=(*own.marks, _UNSIGNED["-"]))) if only else each
        for each, own, only in zip(parsed, plain, cents, strict=True)
    ]


def units_among(texts: Sequence[str], counts: Integers) -> list[str]:
    """The units of texts that are nearly all numbers, if they have several; "" for none."""
    texts, counts = texts[:SAMPLE], counts[:SAMPLE]
    units: Counter[str] = Counter()
    for text, n in zip(texts, counts, strict=True):
        if (each := _parse(text, ".") or _parse(text, ",")) is not None:
            units[each.unit or each.times] += int(n)
        elif parts := units_of(text):
            units[parts] += int(n)
    n_read = sum(units.values())
    several = 1 < len(units) <= 5 and n_read >= (1.0 - MOST_BAD) * counts.sum()
    return [unit for unit, _ in units.most_common()] if several else []


def _of_one_unit(parsed: list[_Parsed | None], counts: Integers) -> list[_Parsed | None]:
    """Only the numbers of the most frequent unit; numbers without unit count too next to one currency, and
    next to one other unit if both are frequent and of one size. Zero has every unit.
    """
    units: Counter[str] = Counter()
    for each, n in zip(parsed, counts, strict=True):
        if each is not None and not each.is_zero:
            units[each.unit] += int(n)
    if len(units) <= 1:
        return parsed
    named = [unit for unit in units if unit]
    if len(named) == 1 and _IS_CURRENCY.fullmatch(named[0]):
        return parsed
    few = min(units.values()) <= MOST_BAD * units.total()
    if len(named) == 1 and named[0] not in "%‰" and not few:
        sized = [each for each in parsed if each and not each.is_zero]
        with_unit, bare = (
            float(np.median([abs(each.value) for each in sized if bool(each.unit) == with_unit]))
            for with_unit in (True, False)
        )
        if max(with_unit, bare) <= ALIKE * min(with_unit, bare):
            noted = (f"numbers without {named[0]!r} taken as numbers with it",)
            return [
                each and (each if each.unit or each.is_zero else replace(each, marks=each.marks + noted))
                for each in parsed
            ]
    main = units.most_common(1)[0][0]
    if (
        main == ""
        and len(named) == 1
        and all(each is None or not each.unit or each.is_bound for each in parsed)
    ):
        return parsed  # "less than 1 year" next to bare numbers
    return [each if each and (each.unit == main or each.is_zero) else None for each in parsed]


def have_leading_zeros(texts: Sequence[str]) -> bool:
    """Whether whole numbers are padded with zeros, as codes are ("007")."""
    padded = False
    for text in texts:
        if not text.isdecimal():
            return False
        padded |= text.startswith("0") and len(text) > 1
    return padded


def is_number(cell: object) -> bool:
    """Whether a cell of a typed column is a number, which NaN is not."""
    return isinstance(cell, int | float) and not isinstance(cell, bool) and cell == cell
