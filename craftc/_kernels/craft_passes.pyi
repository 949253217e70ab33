from typing import Any

import numpy as np
from numpy.typing import NDArray

from craftc._kernels.craft import CostTables
from craftc._kernels.craft_merges import MergeSpace
from craftc._kernels.craft_price import Pricing

_Array = NDArray[Any]
_Floats = NDArray[np.float64]
_Integers = NDArray[np.int64]
_Integers32 = NDArray[np.int32]
_Flags = NDArray[np.uint8]

def slab_size(pricing: Pricing, capacity: int) -> int: ...
def pass_scratch_size(pricing: Pricing, capacity: int) -> int: ...
def passes(
    X: _Array,
    codes: _Array,
    weight: _Integers,
    rows: _Integers32,
    labels: _Integers32,
    groups: _Integers,
    K: int,
    pricing: Pricing,
    selection: int,
    max_passes: int,
    least_fall: float,
    slab: _Floats,
    scratch: _Floats,
    partial: _Integers,
    work: _Floats,
    mask: _Flags,
    cost: _Floats,
    path: _Floats,
    n_threads: int,
) -> tuple[int, int, bool]: ...
def passes_and_merges(
    X: _Array,
    codes: _Array,
    weight: _Integers,
    labels: _Integers32,
    groups: _Integers,
    K: int,
    pricing: Pricing,
    max_passes: int,
    least_fall: float,
    slab: _Floats,
    scratch: _Floats,
    work: _Floats,
    mask: _Flags,
    cost: _Floats,
    shared: _Integers,
    path: _Floats,
    space: MergeSpace,
    n_pairs: int,
    tolerance: float,
) -> tuple[int, float, int, bool]: ...
def pass_tables(
    pricing: Pricing, groups: _Integers, K: int, work: _Floats, mask: _Flags, slab: _Floats
) -> CostTables: ...
def drop_empty(groups: _Integers, mask: _Flags, K: int) -> tuple[int, _Integers32]: ...
def price(
    pricing: Pricing, selection: int, groups: _Integers, K: int, work: _Floats, mask: _Flags, cost: _Floats
) -> float: ...
