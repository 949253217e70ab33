import numpy as np
from numpy.typing import NDArray

from craftc._kernels.craft_price import Pricing

EFFORTS: dict[str, int]

def price_partition(
    groups: NDArray[np.int64],
    pricing: Pricing,
    effort: int,
    work: NDArray[np.float64],
    mask: NDArray[np.uint8],
    cost: NDArray[np.float64],
) -> float: ...
def use_shared(pricing: Pricing, group: NDArray[np.int64]) -> None: ...
