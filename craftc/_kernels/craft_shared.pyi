from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import disjoint_base

from craftc._kernels.craft_sharing import Sharing
from craftc._kernels.moments import Grid

_Floats = NDArray[np.float64]
_Integers = NDArray[np.int64]
_Flags = NDArray[np.uint8]

@disjoint_base
class Fits:
    room: int
    def __init__(self, grid: Grid, room: int) -> None: ...

@disjoint_base
class Shared:
    grid: Grid
    room: int
    group: _Integers
    level: _Floats
    theta: _Floats
    sharing: Sharing
    fits: Any
    def __init__(self, grid: Grid, room: int, feature_sharing: float, fits: Fits | None = None) -> None: ...

@disjoint_base
class Tilts:
    grid: Grid
    statistics: _Floats
    frequency: _Floats
    phase: _Floats
    weight: _Floats
    tilted: _Flags
    periodic: bool
    def __init__(
        self,
        grid: Grid,
        tilted: _Flags,
        frequency: _Floats,
        statistics: _Floats,
        phase: _Floats,
        weight: _Floats,
    ) -> None: ...

def log_ratios(
    counts: _Integers, count_weight: float, tilts: Tilts, gain: _Floats, log_ratio: _Floats
) -> None: ...
