"""Tables with a row for each value: of one variable, and of one thing."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import permutations
from typing import TYPE_CHECKING

import numpy as np

from craftc._common.messages import quoted
from craftc._common.typing import Ints
from craftc.reading.cells import is_datum
from craftc.reading.line_cells import coded

if TYPE_CHECKING:
    import pandas as pd

_MOST_COLUMNS = 6
_FEWEST_THINGS, _FEWEST_VARIABLES, _MOST_VARIABLES = 20, 3, 60
_COMPLETE = 0.9  # share of the values of all things and variables that are there


def about_long_table(frame: pd.DataFrame) -> list[str]:
    """A note where each row is the value of one variable of one thing: a person, "height", 171, "cm".

    There is one such row for nearly every thing and variable, and other columns follow from one of these.
    """
    if not 3 <= frame.shape[1] <= _MOST_COLUMNS:
        return []
    columns = {str(name): coded(frame[name]) for name in frame}
    codes = {name: np.asarray(own, np.intp) for name, (own, _) in columns.items()}
    for thing, variable in permutations(columns, 2):
        words = [str(cell).strip() for cell in columns[variable][1][: _MOST_VARIABLES + 1]]
        if not _FEWEST_VARIABLES <= len(words) <= _MOST_VARIABLES or any(map(is_datum, words)):
            continue
        n_things = len(columns[thing][1])
        if n_things < _FEWEST_THINGS or not _COMPLETE <= len(frame) / (n_things * len(words)) <= 1.0:
            continue
        others = [name for name in columns if name not in (thing, variable)]
        values = [
            name for name in others if not _follows(codes, name, thing) | _follows(codes, name, variable)
        ]
        if len(values) == 1 and _n_pairs(codes, thing, variable) == len(frame):
            of, by, value = map(quoted, (thing, variable, values[0]))
            return [
                f"Each row is one {value} of one {of} and one {by}, so that clusters are of single values; "
                f"pivot(index={of}, columns={by}, values={value}) of pandas makes a row of each {of}."
            ]
    return []


def _follows(codes: Mapping[str, Ints], name: str, of: str) -> bool:
    """Whether a column has one value for each value of another."""
    return _n_pairs(codes, name, of) == len(np.unique(codes[of]))


def _n_pairs(codes: Mapping[str, Ints], a: str, b: str) -> int:
    """The number of different pairs of cells of two columns."""
    return len(np.unique(codes[a] * (int(codes[b].max()) + 2) + codes[b]))
