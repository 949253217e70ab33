"""Versions and numbers of sections, "1.1" and "1.10", which look like numbers."""

from __future__ import annotations

import re
from collections.abc import Sequence

_COUNTERS = re.compile(r"\d{1,3}\.(0|[1-9]\d?)")  # which no zero pads, as it does cents
_NAME = re.compile(
    r"(^|[^a-z])(version|release|section|chapter|clause|paragraph|kapitel|abschnitt|ziffer|chapitre)s?"
    r"($|[^a-z])",
    re.IGNORECASE,
)
_SHORTER = re.compile(r"[-+]?\d+[.,][1-9]")
_LAST, _MOST = 11, 0.8  # counter behind the dot, at least, and share of those up to it that occur


def equal_texts(texts: Sequence[str]) -> tuple[str, ...]:
    """The first two texts that are one number, "1.1" and "1.10"; empty if no two are."""
    known = set(texts)
    return next(
        ((text[:-1], text) for text in texts if text[-1:] == "0" and text[:-1] in known and _ends(text[:-1])),
        (),
    )


def _ends(text: str) -> bool:
    """Whether a number has one digit behind its dot or comma, and not 0."""
    return _SHORTER.fullmatch(text) is not None


def are_versions(name: str, texts: Sequence[str]) -> bool:
    """Whether numbers are versions: some are equal, so that the digits behind the dot count, and these count
    up from 0 or 1, or the column has the name of versions.
    """
    if not equal_texts(texts):
        return False
    found = [_COUNTERS.fullmatch(text) for text in texts]
    behind = {int(match[1]) for match in found if match}
    if not behind or None in found:
        return False
    last = max(behind)
    return _NAME.search(name) is not None or (last >= _LAST and len(behind - {0}) >= _MOST * last)
