from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import disjoint_base

from craftc._kernels.moments import Grid

_Array = NDArray[Any]
_Floats = NDArray[np.float64]
_Integers = NDArray[np.int64]
_Integers32 = NDArray[np.int32]
_Positions = NDArray[np.intp]

def cross_width(n_columns: int) -> int: ...
def room_size(n_columns: int) -> int: ...

@disjoint_base
class Conditionals:
    def __init__(self, centre: _Floats, scale: _Floats, mean: _Floats, covariance: _Floats) -> None: ...
    def select(self, clusters: _Positions) -> Conditionals: ...

def cross_products(
    X: _Array,
    weight: _Integers,
    labels: _Integers32,
    grid: Grid,
    columns: _Positions,
    conditionals: Conditionals | None,
    partial: _Integers,
    cross: _Integers,
    cells: _Integers,
    room: _Floats,
    n_threads: int,
) -> None: ...
def add_cross(cross: _Integers, other: _Integers, sign: int = 1) -> None: ...
def deviations(
    groups: _Integers,
    cross: _Integers,
    grid: Grid,
    columns: _Positions,
    scale: _Floats,
    count_weight: float,
    first: _Positions,
    second: _Positions,
    mean: _Floats,
    divergence: _Floats,
    out: _Floats,
) -> None: ...
