import numpy as np
from numpy.typing import NDArray

from craftc._kernels.craft_price import Pricing

def best_merge(
    groups: NDArray[np.int64],
    mask: NDArray[np.uint8],
    pairs: NDArray[np.intp],
    pricing: Pricing,
    fits: NDArray[np.float64],
    work: NDArray[np.float64],
    merged: NDArray[np.int64],
    chosen: NDArray[np.uint8],
    cost: NDArray[np.float64],
    shared: NDArray[np.int64],
) -> tuple[int, int, float]: ...
