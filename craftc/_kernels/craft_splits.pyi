from typing import Any

import numpy as np
from numpy.typing import NDArray

from craftc._kernels.craft_price import Pricing

_Array = NDArray[Any]
_Floats = NDArray[np.float64]
_Integers = NDArray[np.int64]
_Integers32 = NDArray[np.int32]
_Flags = NDArray[np.uint8]
_Positions = NDArray[np.intp]

def propose_splits(group: _Integers, pricing: Pricing, level_slot: _Integers32) -> int: ...
def screen_splits(
    cells: _Floats,
    rows: _Integers32,
    begin: _Positions,
    sums: _Floats,
    size: _Floats,
    total: float,
    per_column: _Floats,
    per_split: _Floats,
    first: _Positions,
    floor: _Floats,
    work: _Floats,
    score: _Integers,
) -> None: ...
def leaving_rows(
    X: _Array, codes: _Array, rows: _Integers32, pricing: Pricing, level_slot: _Integers32, leaving: _Flags
) -> None: ...
def split_moments(
    X: _Array,
    codes: _Array,
    weight: _Integers,
    rows: _Integers32,
    pricing: Pricing,
    level_slot: _Integers32,
    everything: int,
    sides: _Integers,
    work: _Positions,
    n_threads: int,
) -> None: ...
def split_scores(
    group: _Integers,
    cost: float,
    sides: _Integers,
    pricing: Pricing,
    score: _Floats,
    rest: _Integers,
    work: _Floats,
    mask: _Flags,
    n_threads: int,
) -> None: ...
def local_splits(
    X: _Array,
    codes: _Array,
    weight: _Integers,
    rows: _Integers32,
    group: _Integers,
    cost: float,
    pricing: Pricing,
    max_passes: int,
    slab: _Floats,
    scratch: _Floats,
    work: _Floats,
    path: _Floats,
    sides: _Integers32,
    groups: _Integers,
    mask: _Flags,
    costs: _Floats,
) -> int: ...
