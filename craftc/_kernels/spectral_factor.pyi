from typing import Any

import numpy as np
from numpy.typing import NDArray

_Array = NDArray[Any]
_Floats = NDArray[np.float64]
_Positions = NDArray[np.intp]

def hals(
    numeric: _Array,
    column: _Positions,
    low: _Floats,
    scale: _Floats,
    fill: _Floats,
    codes: _Array,
    variable: _Positions,
    first_state: _Positions,
    first: _Positions,
    state_of: _Positions,
    missing_state: _Positions,
    shares: _Floats,
    root: float,
    scores: _Floats,
    loadings: _Floats,
    sums: _Floats,
    errors: _Floats,
    runs: int,
    n_threads: int,
) -> None: ...
