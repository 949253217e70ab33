"""Several numbers in each cell: "120/80", "52.52, 13.40", "10 x 20 x 5 cm", "4.8 ± 0.2", "38+5".

All functions work on the distinct texts of a column.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

import numpy as np

from craftc._common.typing import Array, Integers
from craftc.reading.dates import LONGEST, MOST_BAD, SAMPLE

_MOST, _FEWEST_TEXTS = 4, 20  # numbers in a cell, and different cells: fewer are categories
_NUMBERS = {
    point: re.compile(rf"(?:(?:(?<=[ (,;])|^)-)?\d+(?:{re.escape(point)}\d+)?") for point in (".", ",")
}
#: What is between and behind the numbers of a cell, which are "#".
_FORM = re.compile(r"\(?#(?:(?:\s?[/×xX*+±;:]\s?|,\s?|\sby\s|\s\(|\s)#%?\)?)+(?:\s?[^\W\d_]{1,6}|\)|%)?")


def find_parts(texts: Sequence[str], counts: Integers, point: str, n_parts: int = 0) -> Array | None:
    """The numbers (n_texts, n_parts) in the texts of a column, NaN where a text has others; None if the
    texts are something else.

    `point`: the decimal mark. `n_parts`: of an earlier table, 0 if there is none.
    """
    number = _NUMBERS[point or "."]
    forms = [number.sub("#", text) if len(text) <= LONGEST else "" for text in texts[:SAMPLE]]
    if not n_parts:
        if len(texts) <= _FEWEST_TEXTS:
            return None
        form, n = Counter(forms).most_common(1)[0]
        n_parts = form.count("#")
        if n < (1.0 - MOST_BAD) * len(forms) or not 2 <= n_parts <= _MOST or not _FORM.fullmatch(form):
            return None
        forms += [number.sub("#", text) if len(text) <= LONGEST else "" for text in texts[SAMPLE:]]
        own = [number.findall(text) for text, each in zip(texts, forms, strict=True) if each == form]
        good = np.array([each == form for each in forms])
        if counts[~good].sum() > MOST_BAD * counts.sum() or any(map(_has_code, own)):
            return None
    out = np.full((len(texts), n_parts), np.nan)
    for row, text in zip(out, texts, strict=True):
        parts = number.findall(text) if len(text) <= LONGEST else []
        if len(parts) == n_parts:
            row[:] = [float(part.replace(",", ".")) for part in parts]
    return out


def _has_code(parts: Sequence[str]) -> bool:
    """Whether a part is padded with zeros, as in codes and times."""
    return any(len(part) > 1 and part[0] == "0" and part.isdecimal() for part in parts)
