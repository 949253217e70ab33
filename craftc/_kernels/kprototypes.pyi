from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import disjoint_base

from craftc._kernels.moments import Grid

BLOCK: int
KINDS: tuple[str, ...]

@disjoint_base
class Prototypes:
    grid: Grid
    n_levels: NDArray[np.intp]
    mean: NDArray[np.float64]
    mode: NDArray[np.int32]
    def __init__(
        self,
        grid: Grid,
        n_levels: NDArray[np.intp],
        kind: int,
        gamma: float,
        means: NDArray[np.float64],
        modes: NDArray[np.int32],
        mean: NDArray[np.float64],
        mode: NDArray[np.int32],
        groups: NDArray[np.int64],
    ) -> None: ...
    @property
    def n_clusters(self) -> int: ...
    @property
    def means(self) -> NDArray[np.float64]: ...
    @property
    def modes(self) -> NDArray[np.int32]: ...
    def refit(self, groups: NDArray[np.int64]) -> None: ...
    def scratch_size(self) -> int: ...

def assign(
    X: NDArray[Any],
    codes: NDArray[Any],
    weight: NDArray[np.int64],
    prototypes: Prototypes,
    labels: NDArray[np.int32],
    best: NDArray[np.float64],
    cost: NDArray[np.float64],
    scratch: NDArray[np.float64],
    partial: NDArray[np.int64],
    groups: NDArray[np.int64],
    n_threads: int,
) -> int: ...
def move_in_order(
    X: NDArray[Any],
    codes: NDArray[Any],
    weight: NDArray[np.int64],
    prototypes: Prototypes,
    first_row: int,
    fixed: bool,
    labels: NDArray[np.int32],
    scratch: NDArray[np.float64],
    groups: NDArray[np.int64],
) -> tuple[int, int, int]: ...
def mismatches(codes: NDArray[Any], limits: NDArray[Any], out: NDArray[np.int32]) -> None: ...
def move_one(
    X: NDArray[Any],
    codes: NDArray[Any],
    weight: NDArray[np.int64],
    prototypes: Prototypes,
    row: int,
    cluster: int,
    labels: NDArray[np.int32],
    groups: NDArray[np.int64],
) -> None: ...
