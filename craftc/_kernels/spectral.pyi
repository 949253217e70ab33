from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import disjoint_base

_Array = NDArray[Any]
_Floats = NDArray[np.float64]
_Positions = NDArray[np.intp]

MISSING: int
CUT: float
LANES: int

@disjoint_base
class Conditionals:
    n: int
    runs: int
    seen: int
    shapes: tuple[tuple[int, ...], ...]
    def __init__(
        self,
        numeric: _Array,
        column: _Positions,
        centre: _Floats,
        scale: _Floats,
        codes: _Array,
        variable: _Positions,
        first_state: _Positions,
        first: _Positions,
        joint: _Positions,
        stride: _Positions,
        first_row: _Positions,
        indicator: _Positions,
        low_rank: _Floats | None,
        first_node: _Positions,
        n_nodes: _Positions,
        grid: _Floats,
        minus: _Floats,
        plus: _Floats,
        eps: float,
        softmax: bool,
        runs: int,
    ) -> None: ...
    def sums(
        self,
        unary: _Floats,
        pair: _Floats,
        node_table: _Floats | None,
        bias: _Floats,
        bias_table: _Floats,
        cross: _Floats,
        n_threads: int,
        terms: tuple[_Positions, _Positions, _Floats, _Floats, _Floats] | None = None,
    ) -> tuple[_Floats, ...]: ...
    def observed(self, n_threads: int) -> tuple[_Floats, _Floats]: ...
    def spread(self, start: _Positions, term: _Positions, by_term: _Floats, out: _Floats) -> None: ...
    def collect(self, start: _Positions, term: _Positions, by_row: _Floats) -> _Floats: ...
