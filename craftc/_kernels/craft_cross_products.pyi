from typing import Any

import numpy as np
from numpy.typing import NDArray

from craftc._kernels.moments import Grid

def cross_width(n_columns: int) -> int: ...
def cross_products(
    X: NDArray[Any],
    weight: NDArray[np.int64],
    labels: NDArray[np.int32],
    grid: Grid,
    columns: NDArray[np.intp],
    partial: NDArray[np.int64],
    cross: NDArray[np.int64],
    cells: NDArray[np.int64],
    n_threads: int,
) -> None: ...
def add_cross(cross: NDArray[np.int64], other: NDArray[np.int64]) -> None: ...
def deviations(
    groups: NDArray[np.int64],
    cross: NDArray[np.int64],
    grid: Grid,
    columns: NDArray[np.intp],
    scale: NDArray[np.float64],
    count_weight: float,
    first: NDArray[np.intp],
    second: NDArray[np.intp],
    out: NDArray[np.float64],
) -> None: ...
