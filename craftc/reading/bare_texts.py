"""Texts of a column without what surrounds their numbers and says nothing, or only a sign: "7/10",
"10 - very likely", "48.2° S", "▼ 3 %", "5.1 H", "2010/11".

All functions work on the distinct texts of a column.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from craftc._common.typing import Floats
from craftc.reading.dates import LONGEST, SAMPLE, first_year_of

_FEWEST = 6  # different numbers; fewer are categories
_MOSTLY, _MOST_ENDS = 0.9, 4  # share of the texts of one form, and ends of a scale that have a label
_STEPS = 5  # of the shortest scale without its labels
_LABELS = "labels"  # the first word of the change that these cause
_OF = re.compile(
    r"(?P<n>0|[1-9]\d*(?:[.,]\d+)?|0[.,]\d+)\s?(?:/|(?:out )?of |von |sur )\s?(?P<of>[1-9]\d*)"
    r"(?:\s[^\W\d_]{1,12})?"
)
_LABELLED = re.compile(r"(-?\d{1,3})\s?(?:[-–=:.]|\()\s?[^\W\d_].*")
_WHOLE = re.compile(r"-?\d{1,3}")
_NUMBER = r"\d[\d.,' ]*"
_SIDE = re.compile(
    rf"(?P<n>{_NUMBER}?)\s?°?\s?(?P<side>[NSEWO]|CR|DR|Cr|Dr|H)\.?|(?P<first>[NSEWO])\s?(?P<m>{_NUMBER})°?"
)
_ANGLE = re.compile(
    r"(?P<first>[NSEWO])?\s?(?P<degree>\d{1,3})\s?°\s?(?P<minute>\d{1,2}(?:[.,]\d+)?)\s?['′’]"
    r"(?:\s?(?P<second>\d{1,2}(?:[.,]\d+)?)\s?(?:[\"″”]|''))?\s?(?P<side>[NSEWO])?"
)
#: Letters that stand for the two signs, the negative one first.
_SIDES = (("S", "N"), ("W", "E"), ("W", "O"), ("DR", "CR"), ("S", "H"))
_CENTS = re.compile(r"[.,]\d\d$")
_ARROW = re.compile(rf"(?P<arrow>[▲△↑▼▽↓])\s?(?P<n>{_NUMBER}.*)")
_FLAG = re.compile(rf"(?P<n>[-+−–]?\s?{_NUMBER})\s?(?P<flag>HH|LL|H|L|[↑↓▲▼]{{1,2}})")
_LETTER = re.compile(rf"(?P<n>[-+−–]?{_NUMBER}?)\s(?P<flag>[bepru]{{1,2}})")
_UP = "▲△↑"
_Found = tuple[list[str | None], str] | None


def bare_texts(texts: Sequence[str], known: bool = False) -> tuple[list[str], list[str]]:
    """The texts of a column without what surrounds their numbers, and what was removed, in words.

    `known`: whether the column held numbers without a unit in an earlier table, and a single text shows its
    form.
    """
    short = [text if len(text) <= LONGEST else "" for text in texts]
    for form in (
        _without_denominator,
        _without_labels,
        _with_sides,
        _with_arrows,
        _without_flags,
        _without_letters,
        _first_years,
    ):
        if form(short[:SAMPLE], known) is None:
            continue
        if (found := form(short, known)) is not None:
            bare, change = found
            return [text if own is None else own for text, own in zip(texts, bare, strict=True)], [change]
    return list(texts), []


def _without_denominator(texts: Sequence[str], known: bool) -> _Found:
    """Shares of one whole number, "7/10" or "4.5 out of 5"."""
    found = [_OF.fullmatch(text) for text in texts]
    wholes = {match["of"] for match in found if match}
    parts = {match["n"] for match in found if match}
    if len(wholes) != 1 or not _are_most(found) or (len(parts) < _FEWEST and not known):
        return None
    (whole,) = wholes
    if any(float(part.replace(",", ".")) > float(whole) for part in parts):
        return None
    return [match and match["n"] for match in found], f"taken as numbers out of {whole}"


def _without_labels(texts: Sequence[str], known: bool) -> _Found:
    """A scale with labels at its ends: "0 - not at all", 1, ..., "10 - extremely"."""
    labelled = [_LABELLED.fullmatch(text) for text in texts]
    ends = [int(match[1]) for match in labelled if match]
    steps = [int(text) for text in texts if _WHOLE.fullmatch(text)]
    scale = {*ends, *steps}
    many = len(scale) >= _FEWEST and len(ends) <= min(_MOST_ENDS, len(steps) - 1)
    if not ends or not (known or many or _is_of_five(scale, {*ends})):
        return None
    if len(set(ends)) < len(ends) or (not known and not {min(scale), max(scale)} & {*ends}):
        return None
    example = next(match[0] for match in labelled if match)
    return [match and match[1] for match in labelled], f"{_LABELS} such as that of {example!r} removed"


def _is_of_five(scale: set[int], ends: set[int]) -> bool:
    """Whether numbers are the answers to a question with five steps and labels at its ends; one end may not
    occur.
    """
    span = max(scale) - min(scale)
    return (
        len(scale) >= _STEPS - 1
        and ends <= {min(scale), max(scale)}
        and (span == _STEPS - 1 or (span == _STEPS - 2 and len(ends) == 1))
    )


def are_labelled_codes(changes: Sequence[str], values: Floats) -> bool:
    """Whether numbers are as few as those of codes, and lost nothing but the labels of their scale."""
    only_labels = len(changes) == 1 and changes[0].startswith(_LABELS)
    return only_labels and len(np.unique(values[~np.isnan(values)])) < _FEWEST


def number_of_label(text: str) -> str:
    """The number in front of a label, as in "5 - very likely"; the text itself if it has none."""
    found = _LABELLED.fullmatch(text[:LONGEST])
    return found[1] if found else text


def _with_sides(texts: Sequence[str], known: bool) -> _Found:
    """Degrees north and south, east and west; also with minutes. Credit and debit."""
    angles = [_ANGLE.fullmatch(text) for text in texts]
    found = angles if _are_most(angles) else [_SIDE.fullmatch(text) for text in texts]
    if not _are_most(found):
        return None
    sides = [((match["side"] or match["first"] or "") if match else "").upper() for match in found]
    shown = {side for side in sides if side}
    negative = next((low for low, high in _SIDES if shown == {low, high}), "")
    if "H" in shown and not all(match is None or _CENTS.search(match["n"] or "") for match in found):
        negative = ""  # seconds and hours, perhaps
    if known and not negative:
        negative = next((low for low, _ in _SIDES if shown == {low}), "")
    if not negative and found is not angles:
        return None

    def bare(match: re.Match[str] | None, side: str) -> str | None:
        if match is None:
            return None
        number = _degrees(match) if found is angles else (match["n"] or match["m"]).strip()
        return f"-{number}" if side and side == negative else number

    of_angle = ["minutes and seconds of arc in degrees"] * (found is angles)
    change = "; ".join([*of_angle, *([f"{negative!r} is negative"] if negative else [])])
    return [bare(match, side) for match, side in zip(found, sides, strict=True)], change


def _degrees(match: re.Match[str]) -> str:
    degree, minute, second = (
        float((match[part] or "0").replace(",", ".")) for part in ("degree", "minute", "second")
    )
    return f"{degree + minute / 60.0 + second / 3600.0:.9f}"


def _with_arrows(texts: Sequence[str], known: bool) -> _Found:
    """Changes with an arrow in the place of their sign."""
    found = [_ARROW.fullmatch(text) for text in texts]
    if not _are_most(found):
        return None
    bare = [match and f"{'' if match['arrow'] in _UP else '-'}{match['n']}" for match in found]
    return bare, "arrows are signs"


def _without_flags(texts: Sequence[str], known: bool) -> _Found:
    """Measurements with flags for high or low: "9.8 H"."""
    found = [_FLAG.fullmatch(text) for text in texts]
    flags = {match["flag"] for match in found if match}
    both = {"H", "L"} <= flags or not flags.isdisjoint("↑↓▲▼")
    if not flags or not (both or known) or not any(text and text[-1].isdigit() for text in texts):
        return None
    shown = ", ".join(map(repr, sorted(flags)))
    return [match and match["n"].strip() for match in found], f"flags {shown} removed"


def _without_letters(texts: Sequence[str], known: bool) -> _Found:
    """Numbers of statistics with letters for breaks, estimates and provisional ones: "5.5 b", "6.1 p"."""
    found = [_LETTER.fullmatch(text) for text in texts]
    letters = {match["flag"] for match in found if match}
    some_bare = any(text[-1:].isdigit() for text in texts)
    if not letters or (not known and not (len(letters) > 1 and some_bare)):
        return None
    shown = ", ".join(map(repr, sorted(letters)))
    return [match and match["n"] for match in found], f"flags {shown} removed"


def _first_years(texts: Sequence[str], known: bool) -> _Found:
    """Seasons and school years, "2010/11"."""
    years = [first_year_of(text) or None for text in texts]
    if not _are_most(years) or (len(set(years)) < _FEWEST and not known):
        return None
    return years, "years with the next one taken as the first of the two"


def _are_most(found: Sequence[object]) -> bool:
    return sum(each is not None for each in found) >= _MOSTLY * len(found)
