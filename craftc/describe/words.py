"""Numbers, names and lists as a report prints them."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any

NBSP, MINUS = "\u00a0", "\u2212"

_LONGEST = 200  # characters of a name or level
_CELL = 40  # characters of a level in a cell of the map
_NO_TEXT = {"Cc", "Cs", "Co", "Cn"}
_DIRECTIONS = {
    "\u200e",
    "\u200f",
    "\u061c",
    *map(chr, range(0x202A, 0x202F)),
    *map(chr, range(0x2066, 0x206A)),
}


def clean(value: Any) -> str:
    """A name, level or class as one line without control characters and changes of direction, shortened if it
    is very long.
    """
    text = " ".join(str(value)[: _LONGEST + 1].split())
    text = "".join("\ufffd" if unicodedata.category(c) in _NO_TEXT or c in _DIRECTIONS else c for c in text)
    return shortened(text, _LONGEST) or "(empty text)"


def shortened(text: str, most: int = _CELL) -> str:
    """The text, or its beginning and an ellipsis."""
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


def count(n: float) -> str:
    """A whole number with thousands separators."""
    return f"{round(n):,}"


def plural(n: int, noun: str) -> str:
    """``1 row``, ``2 rows``."""
    return f"{n:,} {noun}" + ("" if n == 1 else "s")


def percent(share: float) -> str:
    """Whole per cent; never 0 or 100 unless exact."""
    whole = round(100 * share)
    if whole == 0 and share > 0:
        return f"<{NBSP}1{NBSP}%"
    if whole == 100 and share < 1:
        return f">{NBSP}99{NBSP}%"
    return f"{whole}{NBSP}%"


def number(x: float, deviation: float | None = None) -> str:
    """A number to a tenth of the column's deviation, or without a deviation with as many digits as a reader
    needs.
    """
    if not math.isfinite(x):
        return "–"
    size = abs(x)
    if size >= 1e12 or (0 < size < 1e-4 and not (deviation and deviation >= 1e-3)):
        return f"{x:.2e}".replace("-", MINUS)
    if deviation and deviation > 0:
        digits = min(6, max(0, math.ceil(-math.log10(deviation)) + 1)) if deviation < 10 else 0
    else:
        digits = 0 if size >= 100 or float(x).is_integer() else 2 if size >= 0.1 else 4
    text = f"{size:,.{digits}f}" if size >= 10_000 else f"{size:.{digits}f}"  # a year has no separator
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return (MINUS if x < 0 and text != "0" else "") + text


def nats(x: float) -> str:
    """Nats to about three figures."""
    return f"{x:,.0f}" if abs(x) >= 100 else f"{x:.1f}" if abs(x) >= 1 else f"{x:.2g}"


def listing(words: Iterable[Any]) -> str:
    """``a, b and c``."""
    words = [str(word) for word in words]
    return " and ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else "".join(words)


def some(words: Sequence[str], most: int) -> str:
    """The first words and how many others there are."""
    return listing(words if len(words) <= most + 1 else [*words[:most], f"{len(words) - most} others"])


def with_share(level: str, share: float) -> str:
    """``red 40 %``; with a colon after a level that is short or ends with a digit."""
    return f"{level}{' ' if len(level) >= 3 and not level[-1].isdigit() else ': '}{percent(share)}"
