import numpy as np
from numpy.typing import NDArray

_Floats = NDArray[np.float64]
_Integers32 = NDArray[np.int32]
_Flags = NDArray[np.uint8]
_Positions = NDArray[np.intp]

FLOW_FOUND: int
NO_FLOW: int
FLOW_UNDECIDED: int

def edge_pass(
    b: _Floats,
    edge: _Integers32,
    radius: _Floats,
    step: _Floats,
    relax: float,
    lam: _Floats,
    fused: _Flags,
    sums: _Floats,
    work: _Floats,
    n_threads: int,
) -> float: ...
def newton_terms(
    theta: _Floats,
    edge: _Integers32,
    radius: _Floats,
    sigma: _Floats,
    lam: _Floats,
    projected: _Floats,
    fused: _Flags,
    gradient: _Floats,
    hessian: _Floats,
) -> float: ...
def components(n: int, edge: _Integers32, joined: _Flags) -> tuple[_Integers32, int]: ...
def flows(
    load: _Floats,
    edge: _Integers32,
    radius: _Floats,
    first_edge: _Positions,
    node: _Integers32,
    first_node: _Positions,
    tolerance: _Floats,
    max_iter: int,
    lam: _Floats,
    saturated: _Flags,
    residual: _Floats,
    status: _Integers32,
    work: _Floats,
    step: _Floats,
    capacity: _Floats,
    aggregate: _Integers32 | None = None,
    parts: _Positions | None = None,
    inverse: _Floats | None = None,
    potential: _Floats | None = None,
) -> None: ...
