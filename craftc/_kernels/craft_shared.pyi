import numpy as np
from numpy.typing import NDArray
from typing_extensions import disjoint_base

from craftc._kernels.moments import Grid

@disjoint_base
class Shared:
    grid: Grid
    room: int
    group: NDArray[np.int64]
    shift: NDArray[np.float64]
    precision: NDArray[np.float64]
    level: NDArray[np.float64]
    def __init__(self, grid: Grid, room: int) -> None: ...
