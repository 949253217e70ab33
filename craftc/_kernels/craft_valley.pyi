import numpy as np
from numpy.typing import NDArray

def valley_depth(
    z: NDArray[np.float64],
    weight: NDArray[np.float64],
    labels: NDArray[np.int32],
    first: int,
    second: int,
    inverse: NDArray[np.float64],
    mean: NDArray[np.float64],
    size: NDArray[np.float64],
    fewest: float,
) -> float: ...
