from typing import Any

import numpy as np
from numpy.typing import NDArray

_Floats = NDArray[np.float64]
_Masks = NDArray[np.uint64]

def uniform_number(seed: Any, keys: tuple[Any, ...]) -> float: ...
def uniform_numbers(seed: Any, keys: tuple[Any, ...], further: _Masks, out: _Floats) -> None: ...
