import numpy as np
from numpy.typing import NDArray

_Floats = NDArray[np.float64]
_Integers32 = NDArray[np.int32]

def valley_depth(
    z: _Floats,
    weight: _Floats,
    labels: _Integers32,
    first: int,
    second: int,
    inverse: _Floats,
    mean: _Floats,
    size: _Floats,
    fewest: float,
) -> float: ...
