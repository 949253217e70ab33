import numpy as np
from numpy.typing import NDArray

_Floats = NDArray[np.float64]
_Integers32 = NDArray[np.int32]

def switch_columns(
    psi: _Floats,
    steps: _Floats,
    freedom: _Floats,
    against: _Floats,
    margin: float,
    tied: bool,
    p: _Floats,
    U: _Floats,
    column: _Integers32,
    count: _Integers32,
) -> None: ...
