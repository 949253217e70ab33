import numpy as np
from numpy.typing import NDArray

_Floats = NDArray[np.float64]
_Integers32 = NDArray[np.int32]
_Positions = NDArray[np.intp]

def seed_rows(
    cells: _Floats, weight: _Floats, draws: _Floats, K: int, trials: int, exchanges: int, spread: bool
) -> _Positions: ...
def visiting_order(label: _Integers32, second: _Integers32, centres: _Floats, group: int) -> _Integers32: ...
