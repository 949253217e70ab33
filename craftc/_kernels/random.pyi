from typing import Any

import numpy as np
from numpy.typing import NDArray

def uniform_number(seed: Any, keys: tuple[Any, ...]) -> float: ...
def uniform_numbers(
    seed: Any, keys: tuple[Any, ...], further: NDArray[np.uint64], out: NDArray[np.float64]
) -> None: ...
