import numpy as np
from numpy.typing import NDArray
from typing_extensions import disjoint_base

_Floats = NDArray[np.float64]

@disjoint_base
class Sharing:
    share: float
    room: int
    def __init__(self, share: float, room: int) -> None: ...
    def code(self, n_columns: _Floats) -> float: ...
