import numpy as np
from numpy.typing import NDArray

from craftc._kernels.mixture import Rows
from craftc._kernels.mixture_updates import Mixture

_Floats = NDArray[np.float64]
_Positions = NDArray[np.intp]

def split_gains(
    mixture: Mixture, rows: Rows, order: _Positions, first: _Positions, n_threads: int
) -> tuple[_Floats, _Floats, _Floats]: ...
def split(mixture: Mixture, k: int, empty: int, size: _Floats, sums: _Floats) -> None: ...
