"""Numbers in the place of missing ones, such as -999."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from craftc._common.messages import as_text
from craftc._common.typing import Floats, Integers

_SHARE, _FEWEST = 0.01, 5  # of the rows that have another sentinel, at least


def sentinels(distinct: Floats, counts: Integers) -> Iterator[tuple[str, int]]:
    """The smallest and the largest of the numbers of a column, ascending, that are repeated and far from the
    others, each with its number of rows.
    """
    for at, rest in ((0, distinct[1:]), (-1, distinct[:-1])):
        often = counts[at] >= max(_FEWEST, _SHARE * counts.sum()) and len(rest) >= 10
        usual = set(as_text(abs(distinct[at])).replace(".", "")) == {"9"}  # 99, 999.9
        often &= usual or float(distinct[at]).is_integer()
        if len(rest) > 1 and ((usual and counts[at] > 1) or often):
            nearest = rest[0] if at == 0 else rest[-1]
            more = counts[at] >= 3 * np.median(counts)
            alone = often and more and distinct[at] <= -1.0 and rest[0] >= 0.0
            if abs(distinct[at] - nearest) > rest[-1] - rest[0] or alone:
                yield as_text(distinct[at]), int(counts[at])
