import numpy as np
from numpy.typing import NDArray
from typing_extensions import disjoint_base

from craftc._kernels.moments import Grid

_Floats = NDArray[np.float64]
_Integers = NDArray[np.int64]

@disjoint_base
class Shared:
    grid: Grid
    room: int
    group: _Integers
    shift: _Floats
    precision: _Floats
    level: _Floats
    theta: _Floats
    def __init__(self, grid: Grid, room: int) -> None: ...
