from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import disjoint_base

from craftc._kernels.moments import Grid

_Array = NDArray[Any]
_Floats = NDArray[np.float64]
_Integers = NDArray[np.int64]
_Integers32 = NDArray[np.int32]
_Positions = NDArray[np.intp]

BLOCK: int
KINDS: tuple[str, ...]

@disjoint_base
class Prototypes:
    grid: Grid
    n_levels: _Positions
    mean: _Floats
    mode: _Integers32
    def __init__(
        self,
        grid: Grid,
        n_levels: _Positions,
        kind: int,
        gamma: float,
        means: _Floats,
        modes: _Integers32,
        mean: _Floats,
        mode: _Integers32,
        groups: _Integers,
    ) -> None: ...
    @property
    def n_clusters(self) -> int: ...
    @property
    def means(self) -> _Floats: ...
    @property
    def modes(self) -> _Integers32: ...
    def refit(self, groups: _Integers) -> None: ...
    def scratch_size(self) -> int: ...

def assign(
    X: _Array,
    codes: _Array,
    weight: _Integers,
    prototypes: Prototypes,
    labels: _Integers32,
    best: _Floats,
    cost: _Floats,
    scratch: _Floats,
    partial: _Integers,
    groups: _Integers,
    n_threads: int,
) -> int: ...
def move_in_order(
    X: _Array,
    codes: _Array,
    weight: _Integers,
    prototypes: Prototypes,
    first_row: int,
    fixed: bool,
    labels: _Integers32,
    scratch: _Floats,
    groups: _Integers,
) -> tuple[int, int, int]: ...
def move_one(
    X: _Array,
    codes: _Array,
    weight: _Integers,
    prototypes: Prototypes,
    row: int,
    cluster: int,
    labels: _Integers32,
    groups: _Integers,
) -> None: ...
def mismatches(codes: _Array, limits: _Array, out: _Integers32) -> None: ...
