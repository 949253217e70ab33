from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import disjoint_base

from craftc._kernels.moments import Grid

SELECTIONS: dict[str, int]

@disjoint_base
class Pricing:
    grid: Grid
    arguments: tuple[Any, ...]
    centre: NDArray[np.float64]
    scale: NDArray[np.float64]
    widths: NDArray[np.intp]
    count_weight: float
    total: float
    h: float
    feature_price: float
    mixing: bool
    eps_c: float
    D: int
    n_usable: int
    n_numeric: int
    n_categorical: int
    relative: bool
    shared: Any  # Shared, or None under the background of the whole table
    def __init__(
        self,
        grid: Grid,
        count_weight: float,
        total: float,
        h: float,
        feature_price: float,
        mixing: bool,
        centre: NDArray[np.float64],
        scale: NDArray[np.float64],
        mean: NDArray[np.float64],
        variance: NDArray[np.float64],
        inverse_deviation: NDArray[np.float64],
        frequency: NDArray[np.float64],
        usable: NDArray[np.uint8],
        price: NDArray[np.float64],
        log_choose: NDArray[np.float64],
        entropy: NDArray[np.float64],
        n_numeric: int,
        n_categorical: int,
        thresholds: tuple[float, NDArray[np.float64]],
    ) -> None: ...

def gains(
    groups: NDArray[np.int64],
    grid: Grid,
    count_weight: float,
    frequency: NDArray[np.float64],
    variance: NDArray[np.float64],
    usable: NDArray[np.uint8],
    shift: NDArray[np.float64],
    deviations: NDArray[np.float64],
    prior: float,
    gain: NDArray[np.float64],
) -> None: ...
def parts_size(pricing: Pricing) -> int: ...
def gains_of_parts(pricing: Pricing, work: NDArray[np.float64]) -> NDArray[np.float64]: ...
def mixing_costs(groups: NDArray[np.int64], pricing: Pricing, cost: NDArray[np.float64]) -> None: ...
def choose_features(
    gain: NDArray[np.float64],
    groups: NDArray[np.int64],
    pricing: Pricing,
    selection: int,
    work: NDArray[np.float64],
    mask: NDArray[np.uint8],
    cost: NDArray[np.float64],
) -> None: ...
def best_features(
    gain: NDArray[np.float64],
    pricing: Pricing,
    count: int,
    work: NDArray[np.float64],
    mask: NDArray[np.uint8],
) -> None: ...
def price_groups(
    groups: NDArray[np.int64],
    pricing: Pricing,
    selection: int,
    choose_given: bool,
    work: NDArray[np.float64],
    mask: NDArray[np.uint8],
    cost: NDArray[np.float64],
) -> None: ...
