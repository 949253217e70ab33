from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import disjoint_base

TILE: int
PAD: int
MOST_MOVED: int
WORTH_CLUSTERS: int
WORTH_COLUMNS: int

@disjoint_base
class Centres:
    mu: NDArray[np.float64]
    def __init__(
        self, mu: NDArray[np.float64], ref: NDArray[np.float64], reach: float, limit: float, single: bool
    ) -> None: ...
    @property
    def scale(self) -> float: ...

@disjoint_base
class Sums:
    centre: NDArray[np.float64]
    scale: NDArray[np.float64]
    weight: NDArray[np.int64]
    share: NDArray[np.float64]
    unit_weight: NDArray[np.float64]
    sums: NDArray[np.int64]
    counts: NDArray[np.int64]
    n_threads: int
    def __init__(
        self,
        centre: NDArray[np.float64],
        scale: NDArray[np.float64],
        weight: NDArray[np.int64],
        share: NDArray[np.float64],
        unit_weight: NDArray[np.float64],
        capacity: int,
        n_threads: int,
    ) -> None: ...
    def grow(self, capacity: int) -> None: ...
    def keep(self, clusters: NDArray[np.intp]) -> None: ...
    def clear(self) -> None: ...

def accumulate(
    X: NDArray[Any],
    labels: NDArray[np.int32] | None,
    sums: Sums,
    n_threads: int,
) -> None: ...
def farthest(
    X: NDArray[Any],
    mu: NDArray[np.float64],
    scale: float,
    labels: NDArray[np.int32],
    upper: NDArray[np.float32],
) -> int: ...
def nearest(
    X: NDArray[Any],
    mu: NDArray[np.float64],
    labels: NDArray[np.int32],
    squared: NDArray[np.float64],
    n_threads: int,
) -> None: ...
def beyond(
    X: NDArray[Any],
    centres: Centres,
    share: NDArray[np.float64],
    out: NDArray[np.uint8],
    n_threads: int,
) -> None: ...
def leaders(
    X: NDArray[Any],
    rows: NDArray[np.intp],
    share: NDArray[np.float64],
    limit: float,
    found: NDArray[np.float64],
) -> tuple[int, int]: ...
def distances(
    X: NDArray[Any],
    mu: NDArray[np.float64],
    out: NDArray[np.float64],
    n_threads: int,
) -> None: ...
def pair_distances(
    mu: NDArray[np.float64],
    out: NDArray[np.float64],
) -> None: ...
def own_distances(
    X: NDArray[Any],
    mu: NDArray[np.float64],
    labels: NDArray[np.int32],
    squared: NDArray[np.float64],
    n_threads: int,
) -> None: ...
def update_nearest(
    X: NDArray[Any],
    point: NDArray[np.float64],
    nearest: NDArray[np.float64],
    n_threads: int,
) -> None: ...
def gaps(
    mu: NDArray[np.float64],
    some: NDArray[np.int32],
    factor: float,
    out: NDArray[np.float32],
) -> None: ...
def means(
    sums: NDArray[np.int64],
    counts: NDArray[np.int64],
    middle: NDArray[np.float64],
    step: NDArray[np.float64],
    out: NDArray[np.float64],
) -> None: ...
def scatter_between(
    mu: NDArray[np.float64],
    counts: NDArray[np.int64],
    mean: NDArray[np.float64],
) -> float: ...
def drifts(
    before: NDArray[np.float64],
    after: NDArray[np.float64],
    scale: float,
    out: NDArray[np.float32],
) -> None: ...
