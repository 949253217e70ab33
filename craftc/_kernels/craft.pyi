from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import disjoint_base

from craftc._kernels.craft_shared import Shared
from craftc._kernels.moments import Grid

PAD: int
FAR: float

@disjoint_base
class CostTables:
    base: NDArray[np.float64]
    constant: NDArray[np.float64]
    square: NDArray[np.float64]
    linear: NDArray[np.float64]
    offset: NDArray[np.float64]
    level: NDArray[np.float64]
    numeric: NDArray[np.intp]
    categorical: NDArray[np.intp]
    centre: NDArray[np.float64]
    scale: NDArray[np.float64]
    level_offset: NDArray[np.int32]
    grid: Grid
    def __init__(
        self,
        n_clusters: int,
        grid: Grid,
        centre: NDArray[np.float64],
        scale: NDArray[np.float64],
        base: NDArray[np.float64],
        constant: NDArray[np.float64],
        square: NDArray[np.float64],
        linear: NDArray[np.float64],
        offset: NDArray[np.float64],
        level: NDArray[np.float64],
        numeric: NDArray[np.intp],
        categorical: NDArray[np.intp],
    ) -> None: ...

def tables_in(
    n_clusters: int,
    grid: Grid,
    centre: NDArray[np.float64],
    scale: NDArray[np.float64],
    rows: NDArray[np.float64],
    numeric: NDArray[np.intp],
    categorical: NDArray[np.intp],
) -> CostTables: ...
def scratch_size(tables: CostTables) -> int: ...
def cost_tables(
    groups: NDArray[np.int64],
    grid: Grid,
    count_weight: float,
    centre: NDArray[np.float64],
    scale: NDArray[np.float64],
    frequency: NDArray[np.float64],
    shift: NDArray[np.float64],
    precision: NDArray[np.float64],
    mask: NDArray[np.uint8],
    extra: NDArray[np.float64],
    prior: float,
    background: bool,
    shared: Shared | None,
    rows: NDArray[np.float64],
) -> CostTables: ...
def assign(
    X: NDArray[Any],
    codes: NDArray[Any],
    weight: NDArray[np.int64],
    tables: CostTables,
    labels: NDArray[np.int32],
    best: NDArray[np.float64],
    scratch: NDArray[np.float64],
    partial: NDArray[np.int64],
    groups: NDArray[np.int64],
    n_threads: int,
) -> int: ...
def reassign_if_cheaper(
    X: NDArray[Any],
    codes: NDArray[Any],
    weight: NDArray[np.int64],
    tables: CostTables,
    new_cluster: int,
    first_row: int,
    labels: NDArray[np.int32],
    best: NDArray[np.float64],
    scratch: NDArray[np.float64],
    partial: NDArray[np.int64],
    groups: NDArray[np.int64],
    n_threads: int,
) -> int: ...
def costs(
    X: NDArray[Any],
    codes: NDArray[Any],
    tables: CostTables,
    scratch: NDArray[np.float64],
    out: NDArray[np.float64],
) -> None: ...
def first_above(best: NDArray[np.float64], limit: NDArray[np.float64], cursor: int) -> int: ...
