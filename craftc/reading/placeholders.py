"""Texts in the place of numbers, dates or times that are not known."""

from __future__ import annotations

import re
from collections.abc import Sequence

from craftc._common.typing import Bits, Integers

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
