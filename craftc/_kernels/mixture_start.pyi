import numpy as np
from numpy.typing import NDArray

def seed_rows(
    cells: NDArray[np.float64],
    weight: NDArray[np.float64],
    draws: NDArray[np.float64],
    K: int,
    trials: int,
    exchanges: int,
    spread: bool,
) -> NDArray[np.intp]: ...
def visiting_order(
    label: NDArray[np.int32], second: NDArray[np.int32], centres: NDArray[np.float64], group: int
) -> NDArray[np.int32]: ...
