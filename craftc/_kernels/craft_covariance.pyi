from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import disjoint_base

from craftc._kernels.craft import CostTables

def choice_work_size(n_columns: int) -> int: ...
def choose_blocks(
    deviation: NDArray[np.float64],
    weight: NDArray[np.float64],
    selected: NDArray[np.uint8],
    rise: NDArray[np.float64],
    code: NDArray[np.float64],
    h: float,
    full: bool,
    work: NDArray[np.float64],
    repeated: NDArray[np.uint8],
    block: NDArray[np.uint8],
    saving: NDArray[np.float64],
    n_threads: int,
) -> None: ...
def block_savings(
    matrix: NDArray[np.float64],
    block: NDArray[np.uint8],
    weight: NDArray[np.float64],
    h: float,
    saving: NDArray[np.float64],
) -> None: ...

@disjoint_base
class Blocks:
    columns: NDArray[np.intp]
    centre: NDArray[np.float64]
    scale: NDArray[np.float64]
    shift: NDArray[np.float64]
    precision: NDArray[np.float64]
    cluster: NDArray[np.intp]
    member: NDArray[np.uint8]
    mean: NDArray[np.float64]
    covariance: NDArray[np.float64]
    def __init__(
        self,
        columns: NDArray[np.intp],
        centre: NDArray[np.float64],
        scale: NDArray[np.float64],
        shift: NDArray[np.float64],
        precision: NDArray[np.float64],
        cluster: NDArray[np.intp],
        member: NDArray[np.uint8],
        mean: NDArray[np.float64],
        covariance: NDArray[np.float64],
    ) -> None: ...

def scratch_size(tables: CostTables, blocks: Blocks) -> int: ...
def assign(
    X: NDArray[Any],
    codes: NDArray[Any],
    weight: NDArray[np.int64],
    tables: CostTables,
    blocks: Blocks,
    labels: NDArray[np.int32],
    scratch: NDArray[np.float64],
    n_threads: int,
) -> int: ...
def costs(
    X: NDArray[Any],
    codes: NDArray[Any],
    tables: CostTables,
    blocks: Blocks,
    scratch: NDArray[np.float64],
    out: NDArray[np.float64],
) -> None: ...
