from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import disjoint_base

_Array = NDArray[Any]
_Floats = NDArray[np.float64]
_Integers = NDArray[np.int64]
_Integers32 = NDArray[np.int32]
_Positions = NDArray[np.intp]

NUMERIC_CELLS: int

@disjoint_base
class Grid:
    centre: _Floats
    scale: _Floats
    level_start: _Positions
    p: int
    q: int
    n_levels: int
    first_numeric: int
    width: int
    def __init__(self, centre: _Floats, scale: _Floats, level_start: _Positions, n_levels: int) -> None: ...

def column_ranges(X: _Array, weight: _Integers, low: _Floats, high: _Floats, n_threads: int) -> bool: ...
def accumulate(
    X: _Array,
    codes: _Array,
    weight: _Integers,
    labels: _Integers32,
    grid: Grid,
    partial: _Integers,
    groups: _Integers,
    n_threads: int,
) -> None: ...
def merge_partial(partial: _Integers, groups: _Integers, first_numeric: int) -> None: ...
def merge(group: _Integers, other: _Integers, sign: int, first_numeric: int) -> None: ...
def means(groups: _Integers, first_numeric: int, mean: _Floats, deviations: _Floats) -> None: ...
def int128_check(a_low: int, a_high: int, b_low: int, b_high: int, factor: int) -> tuple[Any, Any, float]: ...
def write_levels(
    X: _Array, bounds: _Floats, first: _Positions, place: _Positions, codes: _Array, n_threads: int
) -> None: ...
