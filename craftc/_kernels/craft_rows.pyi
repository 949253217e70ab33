from typing import Any

import numpy as np
from numpy.typing import NDArray

_Array = NDArray[Any]
_Floats = NDArray[np.float64]
_Integers = NDArray[np.int64]
_Integers32 = NDArray[np.int32]
_Flags = NDArray[np.uint8]
_Positions = NDArray[np.intp]

STEPS: float

def cheapest(costs: _Floats, labels: _Integers32, least: _Floats, second: _Floats) -> None: ...
def probabilities(
    costs: _Floats, least: _Floats, weight: _Floats, total: _Floats, spread: _Floats
) -> _Floats: ...
def rows_in(labels: _Integers32, k: int) -> _Integers32: ...
def find_extremes(
    labels: _Integers32,
    rank: _Integers,
    density: _Floats,
    best: _Integers,
    least: _Floats,
    highest: float,
    typical: _Flags,
    unusual: _Flags,
) -> None: ...
def count_cells(
    X: _Array, codes: _Array, counted: _Flags, n_levels: _Positions, seen: _Integers, absent: _Integers
) -> None: ...
