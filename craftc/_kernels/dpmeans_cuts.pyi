from typing import Any

import numpy as np
from numpy.typing import NDArray

from craftc._kernels.dpmeans import Sums

def two_means(
    X: NDArray[Any],
    labels: NDArray[np.int32],
    origins: NDArray[np.float64],
    directions: NDArray[np.float64],
    sides: NDArray[np.uint8],
    sums: Sums,
    middle: NDArray[np.float64],
    step: NDArray[np.float64],
    given: bool,
    kept: int,
    most: int,
    few: float,
    n_threads: int,
) -> int: ...
