from typing import Any

import numpy as np
from numpy.typing import NDArray

from craftc._kernels.dpmeans import Sums

_Array = NDArray[Any]
_Floats = NDArray[np.float64]
_Integers32 = NDArray[np.int32]
_Flags = NDArray[np.uint8]

def two_means(
    X: _Array,
    labels: _Integers32,
    origins: _Floats,
    directions: _Floats,
    sides: _Flags,
    sums: Sums,
    middle: _Floats,
    step: _Floats,
    given: bool,
    kept: int,
    most: int,
    few: float,
    n_threads: int,
) -> int: ...
