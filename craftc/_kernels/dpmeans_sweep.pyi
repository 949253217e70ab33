from typing import Any

import numpy as np
from numpy.typing import NDArray

from craftc._kernels.dpmeans import Centres, Sums

def assign(
    X: NDArray[Any],
    centres: Centres,
    labels: NDArray[np.int32],
    upper: NDArray[np.float32],
    lower: NDArray[np.float32],
    sums: Sums,
    drift: NDArray[np.float32],
    drift_others: NDArray[np.float32],
    half_gap: NDArray[np.float32],
    moved_centers: NDArray[np.int32],
    moved_gap: NDArray[np.float32],
    start: int,
    stop: int,
    tile: NDArray[np.float32],
    n_threads: int,
) -> tuple[int, int, int]: ...
def reassign_to_new(
    X: NDArray[Any],
    centres: Centres,
    first: int,
    gap: NDArray[np.float32],
    labels: NDArray[np.int32],
    upper: NDArray[np.float32],
    lower: NDArray[np.float32],
    sums: Sums,
    order: NDArray[np.int32],
    start: int,
    stop: int,
    tile: NDArray[np.float32],
    n_threads: int,
) -> int: ...
def bound_new(
    gap: NDArray[np.float32],
    labels: NDArray[np.int32],
    upper: NDArray[np.float32],
    lower: NDArray[np.float32],
    order: NDArray[np.int32],
    stop: int,
    n_threads: int,
) -> None: ...
def next_beyond(
    upper: NDArray[np.float32],
    order: NDArray[np.int32],
    start: int,
    stop: int,
) -> int: ...
def open_at(
    X: NDArray[Any],
    mu: NDArray[np.float64],
    scale: float,
    row: int,
    labels: NDArray[np.int32],
    upper: NDArray[np.float32],
    lower: NDArray[np.float32],
    sums: Sums,
) -> None: ...
def collapse(
    X: NDArray[Any],
    centres: Centres,
    mu: NDArray[np.float64],
    centre: NDArray[np.float32],
    half: NDArray[np.float32],
    travelled: NDArray[np.float32],
    shrunk: NDArray[np.float32],
    step: NDArray[np.float64],
    unit: float,
    slack: float,
    cap: int,
    K: int,
    labels: NDArray[np.int32],
    upper: NDArray[np.float32],
    lower: NDArray[np.float32],
    sums: Sums,
    order: NDArray[np.int32],
    start: int,
    stop: int,
    tile: NDArray[np.float32],
) -> tuple[int, int, int, int, float, float]: ...
def loosen(
    labels: NDArray[np.int32],
    travelled: NDArray[np.float32],
    far: float,
    shrunk: float,
    upper: NDArray[np.float32],
    lower: NDArray[np.float32],
) -> None: ...
