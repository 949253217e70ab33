from typing import Any

import numpy as np
from numpy.typing import NDArray

from craftc._kernels.dpmeans import Centres, Sums

_Array = NDArray[Any]
_Floats = NDArray[np.float64]
_Floats32 = NDArray[np.float32]
_Integers32 = NDArray[np.int32]

def assign(
    X: _Array,
    centres: Centres,
    labels: _Integers32,
    upper: _Floats32,
    lower: _Floats32,
    sums: Sums,
    drift: _Floats32,
    drift_others: _Floats32,
    half_gap: _Floats32,
    moved_centers: _Integers32,
    moved_gap: _Floats32,
    start: int,
    stop: int,
    tile: _Floats32,
    n_threads: int,
) -> tuple[int, int, int]: ...
def reassign_to_new(
    X: _Array,
    centres: Centres,
    first: int,
    gap: _Floats32,
    labels: _Integers32,
    upper: _Floats32,
    lower: _Floats32,
    sums: Sums,
    order: _Integers32,
    start: int,
    stop: int,
    tile: _Floats32,
    n_threads: int,
) -> int: ...
def bound_new(
    gap: _Floats32,
    labels: _Integers32,
    upper: _Floats32,
    lower: _Floats32,
    order: _Integers32,
    stop: int,
    n_threads: int,
) -> None: ...
def next_beyond(upper: _Floats32, order: _Integers32, start: int, stop: int) -> int: ...
def open_at(
    X: _Array,
    mu: _Floats,
    scale: float,
    row: int,
    labels: _Integers32,
    upper: _Floats32,
    lower: _Floats32,
    sums: Sums,
) -> None: ...
def collapse(
    X: _Array,
    centres: Centres,
    mu: _Floats,
    centre: _Floats32,
    half: _Floats32,
    travelled: _Floats32,
    shrunk: _Floats32,
    step: _Floats,
    unit: float,
    slack: float,
    cap: int,
    K: int,
    labels: _Integers32,
    upper: _Floats32,
    lower: _Floats32,
    sums: Sums,
    order: _Integers32,
    start: int,
    stop: int,
    tile: _Floats32,
) -> tuple[int, int, int, int, float, float]: ...
def loosen(
    labels: _Integers32, travelled: _Floats32, far: float, shrunk: float, upper: _Floats32, lower: _Floats32
) -> None: ...
