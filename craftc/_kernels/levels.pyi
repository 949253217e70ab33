from typing import Any

import numpy as np
from numpy.typing import NDArray

_Array = NDArray[Any]
_Floats = NDArray[np.float64]
_Positions = NDArray[np.intp]

def write_levels(
    X: _Array, bounds: _Floats, first: _Positions, place: _Positions, codes: _Array, n_threads: int
) -> None: ...
