from typing import Any

import numpy as np
from numpy.typing import NDArray

from craftc._kernels.craft import CostTables
from craftc._kernels.moments import Columns

def kmeans_plus_plus(
    X: NDArray[Any] | Columns,
    codes: NDArray[Any],
    weight: NDArray[np.int64],
    tables: CostTables,
    frequency: NDArray[np.float64],
    mean: NDArray[np.float64],
    variance: NDArray[np.float64],
    usable: NDArray[np.uint8],
    prior: float,
    own: NDArray[np.float64],
    draws: NDArray[np.float64],
    row: int,
    seeds: NDArray[np.intp],
    labels: NDArray[np.int32],
    running: NDArray[np.float64],
    scratch: NDArray[np.float64],
    n_threads: int,
) -> int: ...
