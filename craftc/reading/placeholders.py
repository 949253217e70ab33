"""Texts in the place of numbers, dates or times that are not known."""

from __future__ import annotations

import re
from collections.abc import Sequence

from craftc._common.typing import Bits, Integers

MOST_BAD = 0.1  # share of the cells of a column of numbers or dates that may be none

_MANY_VALUES = 30  # different ones at least, next to which a single text is a placeholder
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


def are_few(texts: Sequence[str], good: Bits, counts: Integers, n_values: int) -> bool:
    """Whether the texts that are not `good` are few enough for the column to hold `n_values` different
    numbers or dates: a tenth of the cells, and up to half where they are placeholders, or one text next to
    many values.

    `counts`: cells of each text.
    """
    bad = [(text, int(n)) for text, n, ok in zip(texts, counts, good, strict=True) if not ok]
    one_word = len({text.casefold() for text, _ in bad}) == 1 and n_values > _MANY_VALUES
    n_all, n_bad = int(counts.sum()), sum(n for _, n in bad)
    if 2 * n_bad <= n_all:
        n_bad -= sum(n for text, n in bad if one_word or _PLACEHOLDER.fullmatch(text))
    return n_bad <= MOST_BAD * n_all
