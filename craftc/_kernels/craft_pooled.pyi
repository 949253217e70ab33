import numpy as np
from numpy.typing import NDArray

from craftc._kernels.craft_price import Pricing

_Floats = NDArray[np.float64]
_Integers = NDArray[np.int64]
_Flags = NDArray[np.uint8]

EFFORTS: dict[str, int]

def price_partition(
    groups: _Integers, pricing: Pricing, effort: int, work: _Floats, mask: _Flags, cost: _Floats
) -> float: ...
def subtract_shared(groups: _Integers, pricing: Pricing, work: _Floats) -> None: ...
def use_shared(pricing: Pricing, group: _Integers) -> None: ...
