from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import disjoint_base

from craftc._kernels.craft_shared import Tilts
from craftc._kernels.moments import Grid

_Floats = NDArray[np.float64]
_Integers = NDArray[np.int64]
_Flags = NDArray[np.uint8]
_Positions = NDArray[np.intp]

SELECTIONS: dict[str, int]

@disjoint_base
class Pricing:
    grid: Grid
    arguments: tuple[Any, ...]
    count_weight: float
    total: float
    h: float
    feature_price: float
    code: float
    eps_c: float
    mixing: bool
    relative: bool
    shared: Any
    D: int
    n_usable: int
    n_codes: int
    n_numeric: int
    n_categorical: int
    usable_weight: float
    centre: _Floats
    scale: _Floats
    widths: _Positions
    tilts: Tilts
    def __init__(
        self,
        grid: Grid,
        count_weight: float,
        total: float,
        h: float,
        feature_price: float,
        mixing: bool,
        centre: _Floats,
        scale: _Floats,
        mean: _Floats,
        variance: _Floats,
        inverse_deviation: _Floats,
        frequency: _Floats,
        usable: _Flags,
        price: _Floats,
        code: float,
        log_choose: _Floats,
        entropy: _Floats,
        n_numeric: int,
        n_categorical: int,
        thresholds: tuple[float, _Floats],
        tilts: Tilts,
    ) -> None: ...
    def among(self, usable: _Flags, code: float, log_choose: _Floats) -> Pricing: ...

def gains(
    groups: _Integers,
    grid: Grid,
    count_weight: float,
    frequency: _Floats,
    variance: _Floats,
    usable: _Flags,
    shift: _Floats,
    deviations: _Floats,
    prior: float,
    tilts: Tilts,
    gain: _Floats,
) -> None: ...
def parts_size(pricing: Pricing) -> int: ...
def gains_of_parts(pricing: Pricing, work: _Floats) -> _Floats: ...
def level_likelihoods_of_parts(pricing: Pricing, work: _Floats, levels: _Positions) -> _Floats: ...
def mixing_costs(groups: _Integers, pricing: Pricing, cost: _Floats) -> None: ...
def choose_features(
    gain: _Floats,
    groups: _Integers,
    pricing: Pricing,
    selection: int,
    work: _Floats,
    mask: _Flags,
    cost: _Floats,
) -> None: ...
def best_features(gain: _Floats, pricing: Pricing, count: int, work: _Floats, mask: _Flags) -> None: ...
def price_groups(
    groups: _Integers, pricing: Pricing, selection: int, work: _Floats, mask: _Flags, cost: _Floats
) -> None: ...
