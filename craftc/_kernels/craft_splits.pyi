from typing import Any

import numpy as np
from numpy.typing import NDArray

from craftc._kernels.craft_price import Pricing
from craftc._kernels.moments import Columns

def propose_splits(
    group: NDArray[np.int64],
    pricing: Pricing,
    level_slot: NDArray[np.int32],
    numeric_slot: NDArray[np.int32],
    threshold: NDArray[np.float64],
) -> int: ...
def screen_splits(
    cells: NDArray[np.float64],
    rows: NDArray[np.int32],
    begin: NDArray[np.intp],
    sums: NDArray[np.float64],
    size: NDArray[np.float64],
    total: float,
    per_column: NDArray[np.float64],
    per_split: NDArray[np.float64],
    first: NDArray[np.intp],
    floor: NDArray[np.float64],
    work: NDArray[np.float64],
    score: NDArray[np.int64],
) -> None: ...
def leaving_rows(
    X: NDArray[Any] | Columns,
    codes: NDArray[Any],
    rows: NDArray[np.int32],
    pricing: Pricing,
    level_slot: NDArray[np.int32],
    numeric_slot: NDArray[np.int32],
    threshold: NDArray[np.float64],
    leaving: NDArray[np.uint8],
) -> None: ...
def split_moments(
    X: NDArray[Any],
    codes: NDArray[Any],
    weight: NDArray[np.int64],
    rows: NDArray[np.int32],
    pricing: Pricing,
    level_slot: NDArray[np.int32],
    numeric_slot: NDArray[np.int32],
    threshold: NDArray[np.float64],
    everything: int,
    sides: NDArray[np.int64],
    work: NDArray[np.float64],
    n_threads: int,
) -> None: ...
def split_work_size(pricing: Pricing) -> int: ...
def split_scores(
    group: NDArray[np.int64],
    cost: float,
    sides: NDArray[np.int64],
    pricing: Pricing,
    selection: int,
    given: NDArray[np.uint8],
    score: NDArray[np.float64],
    rest: NDArray[np.int64],
    work: NDArray[np.float64],
    mask: NDArray[np.uint8],
    n_threads: int,
) -> None: ...
def local_splits(
    X: NDArray[Any],
    codes: NDArray[Any],
    weight: NDArray[np.int64],
    rows: NDArray[np.int32],
    group: NDArray[np.int64],
    cost: float,
    given: NDArray[np.uint8],
    pricing: Pricing,
    selection: int,
    local_selection: int,
    max_passes: int,
    slab: NDArray[np.float64],
    scratch: NDArray[np.float64],
    work: NDArray[np.float64],
    path: NDArray[np.float64],
    sides: NDArray[np.int32],
    groups: NDArray[np.int64],
    mask: NDArray[np.uint8],
    costs: NDArray[np.float64],
) -> int: ...
