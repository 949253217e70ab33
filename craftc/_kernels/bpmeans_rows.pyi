from typing import Any

import numpy as np
from numpy.typing import NDArray

def assign(
    X: NDArray[Any],
    A: NDArray[np.float64],
    exact: int,
    masks: NDArray[np.uint64],
    residual: NDArray[np.float64],
    n_threads: int,
) -> None: ...
def left_over(
    X: NDArray[Any],
    A: NDArray[np.float64],
    masks: NDArray[np.uint64],
    residual: NDArray[np.float64],
    n_threads: int,
) -> None: ...
def norms(X: NDArray[Any], norm: NDArray[np.float64]) -> None: ...
def products(
    X: NDArray[Any], vectors: NDArray[np.float64], out: NDArray[np.float64], n_threads: int
) -> None: ...
