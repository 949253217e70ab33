from typing import Any

import numpy as np
from numpy.typing import NDArray

from craftc._kernels.craft import CostTables
from craftc._kernels.craft_merges import MergeSpace
from craftc._kernels.craft_price import Pricing

def slab_size(pricing: Pricing, capacity: int) -> int: ...
def pass_scratch_size(pricing: Pricing, capacity: int) -> int: ...
def passes(
    X: NDArray[Any],
    codes: NDArray[Any],
    weight: NDArray[np.int64],
    rows: NDArray[np.int32],
    labels: NDArray[np.int32],
    groups: NDArray[np.int64],
    K: int,
    pricing: Pricing,
    selection: int,
    choose_given: bool,
    max_passes: int,
    least_fall: float,
    slab: NDArray[np.float64],
    scratch: NDArray[np.float64],
    partial: NDArray[np.int64],
    work: NDArray[np.float64],
    mask: NDArray[np.uint8],
    cost: NDArray[np.float64],
    path: NDArray[np.float64],
    n_threads: int,
) -> tuple[int, int, bool]: ...
def passes_and_merges(
    X: NDArray[Any],
    codes: NDArray[Any],
    weight: NDArray[np.int64],
    labels: NDArray[np.int32],
    groups: NDArray[np.int64],
    K: int,
    pricing: Pricing,
    max_passes: int,
    least_fall: float,
    slab: NDArray[np.float64],
    scratch: NDArray[np.float64],
    work: NDArray[np.float64],
    mask: NDArray[np.uint8],
    cost: NDArray[np.float64],
    shared: NDArray[np.int64],
    path: NDArray[np.float64],
    space: MergeSpace,
    n_pairs: int,
    tolerance: float,
) -> tuple[int, float, int, bool]: ...
def pass_tables(
    pricing: Pricing,
    groups: NDArray[np.int64],
    K: int,
    work: NDArray[np.float64],
    mask: NDArray[np.uint8],
    slab: NDArray[np.float64],
) -> CostTables: ...
def drop_empty(
    groups: NDArray[np.int64], mask: NDArray[np.uint8], K: int
) -> tuple[int, NDArray[np.int32]]: ...
def price(
    pricing: Pricing,
    selection: int,
    groups: NDArray[np.int64],
    K: int,
    work: NDArray[np.float64],
    mask: NDArray[np.uint8],
    cost: NDArray[np.float64],
    choose_given: bool,
) -> float: ...
