from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import disjoint_base

_Array = NDArray[Any]
_Floats = NDArray[np.float64]
_Floats32 = NDArray[np.float32]
_Integers = NDArray[np.int64]
_Integers32 = NDArray[np.int32]
_Flags = NDArray[np.uint8]
_Positions = NDArray[np.intp]

TILE: int
PAD: int
MOST_MOVED: int
WORTH_CLUSTERS: int
WORTH_COLUMNS: int

@disjoint_base
class Centres:
    mu: _Floats
    def __init__(self, mu: _Floats, ref: _Floats, reach: float, limit: float, single: bool) -> None: ...
    @property
    def scale(self) -> float: ...

@disjoint_base
class Sums:
    centre: _Floats
    scale: _Floats
    share: _Floats
    unit_weight: _Floats
    weight: _Integers
    sums: _Integers
    counts: _Integers
    n_threads: int
    def __init__(
        self,
        centre: _Floats,
        scale: _Floats,
        weight: _Integers,
        share: _Floats,
        unit_weight: _Floats,
        capacity: int,
        n_threads: int,
    ) -> None: ...
    def grow(self, capacity: int) -> None: ...
    def keep(self, clusters: _Positions) -> None: ...
    def clear(self) -> None: ...

def accumulate(X: _Array, labels: _Integers32 | None, sums: Sums, n_threads: int) -> None: ...
def farthest(X: _Array, mu: _Floats, scale: float, labels: _Integers32, upper: _Floats32) -> int: ...
def nearest(X: _Array, mu: _Floats, labels: _Integers32, squared: _Floats, n_threads: int) -> None: ...
def beyond(X: _Array, centres: Centres, share: _Floats, out: _Flags, n_threads: int) -> None: ...
def leaders(X: _Array, rows: _Positions, share: _Floats, limit: float, found: _Floats) -> tuple[int, int]: ...
def distances(X: _Array, mu: _Floats, out: _Floats, n_threads: int) -> None: ...
def pair_distances(mu: _Floats, out: _Floats) -> None: ...
def own_distances(X: _Array, mu: _Floats, labels: _Integers32, squared: _Floats, n_threads: int) -> None: ...
def update_nearest(X: _Array, point: _Floats, nearest: _Floats, n_threads: int) -> None: ...
def gaps(mu: _Floats, some: _Integers32, factor: float, out: _Floats32) -> None: ...
def means(sums: _Integers, counts: _Integers, middle: _Floats, step: _Floats, out: _Floats) -> None: ...
def scatter_between(mu: _Floats, counts: _Integers, mean: _Floats) -> float: ...
def drifts(before: _Floats, after: _Floats, scale: float, out: _Floats32) -> None: ...
