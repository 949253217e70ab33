import numpy as np
from numpy.typing import NDArray
from typing_extensions import disjoint_base

from craftc._kernels.craft_price import Pricing

_Floats = NDArray[np.float64]
_Integers = NDArray[np.int64]
_Integers32 = NDArray[np.int32]
_Flags = NDArray[np.uint8]
_Positions = NDArray[np.intp]

UNKNOWN: int

def pair_deltas(
    groups: _Integers,
    cost: _Floats,
    pricing: Pricing,
    only: int,
    delta: _Floats,
    union: _Integers,
    fits: _Floats,
    work: _Floats,
    mask: _Flags,
    n_threads: int,
) -> None: ...

@disjoint_base
class MergeSpace:
    groups: _Integers
    mask: _Flags
    cost: _Floats
    capacity: int
    n_threads: int
    def __init__(self, pricing: Pricing, capacity: int, n_threads: int) -> None: ...

def best_merge(
    groups: _Integers, mask: _Flags, pairs: _Positions, pricing: Pricing, space: MergeSpace
) -> tuple[int, int, float]: ...
def merge_while_cheaper(
    groups: _Integers,
    mask: _Flags,
    cost: _Floats,
    shared: _Integers,
    K: int,
    excess: float,
    deltas: _Floats,
    known: int,
    place: _Integers32,
    pricing: Pricing,
    space: MergeSpace,
    pairs: _Positions,
    tolerance: float,
    most: int,
    n_threads_of_one: int,
    n_threads: int,
) -> tuple[int, float, int, bool]: ...
def split_while_cheaper(
    groups: _Integers,
    mask: _Flags,
    cost: _Floats,
    shared: _Integers,
    K: int,
    excess: float,
    clusters: _Positions,
    halves: _Integers,
    selected: _Flags,
    pricing: Pricing,
    space: MergeSpace,
    most_clusters: int,
    tolerance: float,
    accepted: _Flags,
) -> tuple[int, float]: ...
