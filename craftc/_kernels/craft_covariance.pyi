from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import disjoint_base

from craftc._kernels.craft import CostTables

_Array = NDArray[Any]
_Floats = NDArray[np.float64]
_Integers = NDArray[np.int64]
_Integers32 = NDArray[np.int32]
_Flags = NDArray[np.uint8]
_Positions = NDArray[np.intp]

def log_norms(
    mean: _Floats,
    variance: _Floats,
    weight: _Floats,
    score: _Floats,
    log_level: _Floats,
    lengths: _Positions,
    inside: _Floats,
    out: _Floats,
) -> None: ...
def choice_work_size(n_columns: int) -> int: ...
def choose_blocks(
    deviation: _Floats,
    weight: _Floats,
    selected: _Flags,
    rise: _Floats,
    code: _Floats,
    prior: _Floats,
    h: float,
    full: bool,
    work: _Floats,
    block: _Flags,
    saving: _Floats,
    n_threads: int,
) -> None: ...
def block_savings(
    matrix: _Floats, block: _Flags, weight: _Floats, prior: _Floats, h: float, saving: _Floats
) -> None: ...

@disjoint_base
class Blocks:
    columns: _Positions
    cluster: _Positions
    centre: _Floats
    scale: _Floats
    shift: _Floats
    precision: _Floats
    mean: _Floats
    covariance: _Floats
    member: _Flags
    inside: _Floats
    def __init__(
        self,
        columns: _Positions,
        centre: _Floats,
        scale: _Floats,
        shift: _Floats,
        precision: _Floats,
        cluster: _Positions,
        member: _Flags,
        mean: _Floats,
        covariance: _Floats,
        inside: _Floats,
    ) -> None: ...

def scratch_size(tables: CostTables, blocks: Blocks) -> int: ...
def assign(
    X: _Array,
    codes: _Array,
    weight: _Integers,
    tables: CostTables,
    blocks: Blocks,
    labels: _Integers32,
    scratch: _Floats,
    n_threads: int,
) -> int: ...
def costs(
    X: _Array, codes: _Array, tables: CostTables, blocks: Blocks, scratch: _Floats, out: _Floats
) -> None: ...
