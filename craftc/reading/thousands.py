"""Dots that could separate thousands.

All functions work on the distinct texts of a column.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from craftc._common.typing import Integers
from craftc.reading.cells import SEPARATED, Numbers, dressed, parse_numbers

#: Whole numbers with dots between thousands.
THOUSANDS = re.compile(r"[1-9]\d{0,2}(?:\.\d{3})+")
_SURELY = 44  # numbers that all have three digits behind a dot: decimal ones hardly ever do, .9^44 = .01


def with_thousands(
    numbers: Numbers, texts: Sequence[str], counts: Integers, semicolons: bool, pointless: bool
) -> Numbers:
    """Numbers whose dots could separate thousands, and a change that says whether they do.

    They do in a table without decimal points, `pointless`, if 44 different ones or more have three digits
    behind the dot and others have no dot: of decimal numbers one in ten would end in zero, and be shorter.
    """
    if numbers.mark != "." or not _have_thousands(_bodies(texts), semicolons):
        return numbers
    dotted = ["." in body for body in _bodies(texts)]
    if pointless and _SURELY <= sum(dotted) < len(dotted):
        read = parse_numbers(texts, counts, semicolons=semicolons, forced=True, point=",")
        if read is not None:
            read.changes = [each for each in read.changes if each != SEPARATED]
            read.changes.append("dots separate thousands (decimal='.' takes them as decimal points)")
            return read
    numbers.changes.append(
        "dots are decimal points, although they could separate thousands (decimal=',' takes them so)"
    )
    return numbers


def _bodies(texts: Sequence[str]) -> Iterator[str]:
    """The digits and marks of the texts that are numbers, without sign and unit."""
    for text in texts:
        if (found := dressed(text)) is not None:
            yield found["body"]


def _have_thousands(bodies: Iterable[str], semicolons: bool) -> bool:
    """Whether all could be whole numbers, with dots between thousands in some, but not in all unless
    semicolons separate the cells. It stops at the first that could not be one.
    """
    n = dotted = 0
    for body in bodies:
        if not (THOUSANDS.fullmatch(body) if "." in body else body.isdecimal()):
            return False
        n, dotted = n + 1, dotted + ("." in body)
    return 0 < dotted < n + semicolons
