from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import disjoint_base

from craftc._kernels.craft_shared import Shared, Tilts
from craftc._kernels.moments import Grid

_Array = NDArray[Any]
_Floats = NDArray[np.float64]
_Integers = NDArray[np.int64]
_Integers32 = NDArray[np.int32]
_Flags = NDArray[np.uint8]
_Positions = NDArray[np.intp]

PAD: int
FAR: float

@disjoint_base
class CostTables:
    base: _Floats
    constant: _Floats
    square: _Floats
    linear: _Floats
    offset: _Floats
    level: _Floats
    centre: _Floats
    scale: _Floats
    numeric: _Positions
    categorical: _Positions
    level_offset: _Integers32
    grid: Grid
    def __init__(
        self,
        n_clusters: int,
        grid: Grid,
        centre: _Floats,
        scale: _Floats,
        base: _Floats,
        constant: _Floats,
        square: _Floats,
        linear: _Floats,
        offset: _Floats,
        level: _Floats,
        numeric: _Positions,
        categorical: _Positions,
    ) -> None: ...

def tables_in(
    n_clusters: int,
    grid: Grid,
    centre: _Floats,
    scale: _Floats,
    rows: _Floats,
    numeric: _Positions,
    categorical: _Positions,
) -> CostTables: ...
def scratch_size(tables: CostTables) -> int: ...
def assign(
    X: _Array,
    codes: _Array,
    weight: _Integers,
    tables: CostTables,
    labels: _Integers32,
    best: _Floats,
    scratch: _Floats,
    partial: _Integers,
    groups: _Integers,
    n_threads: int,
) -> int: ...
def first_above(best: _Floats, limit: _Floats, cursor: int) -> int: ...
def reassign_if_cheaper(
    X: _Array,
    codes: _Array,
    weight: _Integers,
    tables: CostTables,
    new_cluster: int,
    first_row: int,
    labels: _Integers32,
    best: _Floats,
    scratch: _Floats,
    partial: _Integers,
    groups: _Integers,
    n_threads: int,
) -> int: ...
def costs(X: _Array, codes: _Array, tables: CostTables, scratch: _Floats, out: _Floats) -> None: ...
def level_costs(codes: _Array, first: _Positions, level: _Floats, cost: _Floats) -> None: ...
def cost_tables(
    groups: _Integers,
    grid: Grid,
    count_weight: float,
    centre: _Floats,
    scale: _Floats,
    frequency: _Floats,
    shift: _Floats,
    precision: _Floats,
    mask: _Flags,
    extra: _Floats,
    prior: float,
    background: bool,
    shared: Shared | None,
    tilts: Tilts,
    rows: _Floats,
) -> CostTables: ...
