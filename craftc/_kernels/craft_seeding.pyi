from typing import Any

import numpy as np
from numpy.typing import NDArray

from craftc._kernels.craft_shared import Tilts
from craftc._kernels.moments import Grid

_Array = NDArray[Any]
_Floats = NDArray[np.float64]
_Integers = NDArray[np.int64]
_Integers32 = NDArray[np.int32]
_Flags = NDArray[np.uint8]
_Positions = NDArray[np.intp]

def kmeans_plus_plus(
    X: _Array,
    codes: _Array,
    weight: _Integers,
    grid: Grid,
    centre: _Floats,
    scale: _Floats,
    frequency: _Floats,
    mean: _Floats,
    variance: _Floats,
    usable: _Flags,
    prior: float,
    tilts: Tilts,
    own: _Floats,
    draws: _Floats,
    row: int,
    seeds: _Positions,
    labels: _Integers32,
    running: _Floats,
    n_threads: int,
) -> int: ...
