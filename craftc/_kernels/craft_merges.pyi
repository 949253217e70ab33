from typing import Self

import numpy as np
from numpy.typing import NDArray
from typing_extensions import disjoint_base

from craftc._kernels.craft_price import Pricing

def pair_deltas(
    groups: NDArray[np.int64],
    cost: NDArray[np.float64],
    pricing: Pricing,
    selection: int,
    given: NDArray[np.uint8],
    only: int,
    delta: NDArray[np.float64],
    union: NDArray[np.int64],
    work: NDArray[np.float64],
    mask: NDArray[np.uint8],
    n_threads: int,
) -> None: ...

UNKNOWN: int

@disjoint_base
class MergeSpace:
    groups: NDArray[np.int64]
    mask: NDArray[np.uint8]
    cost: NDArray[np.float64]
    capacity: int
    n_threads: int
    def __new__(cls, pricing: Pricing, capacity: int, n_threads: int) -> Self: ...

def best_merge(
    groups: NDArray[np.int64],
    mask: NDArray[np.uint8],
    pairs: NDArray[np.intp],
    pricing: Pricing,
    space: MergeSpace,
) -> tuple[int, int, float]: ...
def merge_while_cheaper(
    groups: NDArray[np.int64],
    mask: NDArray[np.uint8],
    cost: NDArray[np.float64],
    shared: NDArray[np.int64],
    K: int,
    excess: float,
    deltas: NDArray[np.float64],
    known: int,
    place: NDArray[np.int32],
    pricing: Pricing,
    space: MergeSpace,
    pairs: NDArray[np.intp],
    tolerance: float,
    most: int,
    n_threads_of_one: int,
    n_threads: int,
) -> tuple[int, float, int, bool]: ...
def split_while_cheaper(
    groups: NDArray[np.int64],
    mask: NDArray[np.uint8],
    cost: NDArray[np.float64],
    shared: NDArray[np.int64],
    K: int,
    excess: float,
    clusters: NDArray[np.intp],
    halves: NDArray[np.int64],
    selected: NDArray[np.uint8],
    pricing: Pricing,
    space: MergeSpace,
    most_clusters: int,
    tolerance: float,
    accepted: NDArray[np.uint8],
) -> tuple[int, float]: ...
