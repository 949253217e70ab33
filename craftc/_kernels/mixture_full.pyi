import numpy as np
from numpy.typing import NDArray

def switch_columns(
    psi: NDArray[np.float64],
    steps: NDArray[np.float64],
    freedom: NDArray[np.float64],
    against: NDArray[np.float64],
    margin: float,
    tied: bool,
    p: NDArray[np.float64],
    U: NDArray[np.float64],
    column: NDArray[np.int32],
    count: NDArray[np.int32],
) -> None: ...
