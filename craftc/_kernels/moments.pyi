from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import disjoint_base

NUMERIC_CELLS: int

@disjoint_base
class Grid:
    centre: NDArray[np.float64]
    scale: NDArray[np.float64]
    level_start: NDArray[np.intp]
    p: int
    q: int
    n_levels: int
    first_numeric: int
    width: int
    def __init__(
        self,
        centre: NDArray[np.float64],
        scale: NDArray[np.float64],
        level_start: NDArray[np.intp],
        n_levels: int,
    ) -> None: ...

@disjoint_base
class Columns:
    ndim: int
    first: NDArray[Any]
    second: NDArray[Any]
    place: tuple[int, ...]
    shape: tuple[int, int]
    dtype: np.dtype[Any]
    def __init__(self, first: NDArray[Any], second: NDArray[Any], place: Iterable[int]) -> None: ...
    def __len__(self) -> int: ...
    def __getitem__(self, key: Any) -> NDArray[Any]: ...

def column_ranges(
    X: NDArray[Any] | Columns,
    weight: NDArray[np.int64],
    low: NDArray[np.float64],
    high: NDArray[np.float64],
    n_threads: int,
) -> bool: ...
def accumulate(
    X: NDArray[Any] | Columns,
    codes: NDArray[Any],
    weight: NDArray[np.int64],
    labels: NDArray[np.int32],
    grid: Grid,
    partial: NDArray[np.int64],
    groups: NDArray[np.int64],
    n_threads: int,
) -> None: ...
def merge_partial(partial: NDArray[np.int64], groups: NDArray[np.int64], first_numeric: int) -> None: ...
def merge(group: NDArray[np.int64], other: NDArray[np.int64], sign: int, first_numeric: int) -> None: ...
def means(
    groups: NDArray[np.int64],
    first_numeric: int,
    mean: NDArray[np.float64],
    deviations: NDArray[np.float64],
) -> None: ...
def int128_check(a_low: int, a_high: int, b_low: int, b_high: int, factor: int) -> tuple[Any, Any, float]: ...
