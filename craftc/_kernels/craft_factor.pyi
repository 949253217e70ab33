import numpy as np
from numpy.typing import NDArray

_Floats = NDArray[np.float64]
_Integers32 = NDArray[np.int32]
_Flags = NDArray[np.uint8]
_Positions = NDArray[np.intp]

def fit(
    rows: _Integers32,
    weight: _Floats,
    starts: _Positions,
    sizes: _Positions,
    statistics: _Floats,
    column_weight: _Floats,
    shares: _Floats,
    price: _Floats,
    held: _Flags,
    nodes: _Floats,
    places: _Floats,
    log_prior: _Floats,
    prune: _Positions,
    fewest: int,
    most: int,
    enough: float,
    log_shares: _Floats,
) -> float: ...
def sums_of_rows(rows: _Integers32, of_level: _Floats, out: _Floats) -> None: ...
def sums_of_levels(rows: _Integers32, of_row: _Floats, out: _Floats) -> None: ...
