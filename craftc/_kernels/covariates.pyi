import numpy as np
from numpy.typing import NDArray

_Floats = NDArray[np.float64]

FLOW_FOUND: int
NO_FLOW: int
FLOW_UNDECIDED: int

def edge_pass(
    b: _Floats,
    edge: NDArray[np.int32],
    radius: _Floats,
    step: _Floats,
    relax: float,
    lam: _Floats,
    fused: NDArray[np.uint8],
    sums: _Floats,
    work: _Floats,
    n_threads: int,
) -> float: ...
def newton_terms(
    theta: _Floats,
    edge: NDArray[np.int32],
    radius: _Floats,
    sigma: _Floats,
    lam: _Floats,
    projected: _Floats,
    fused: NDArray[np.uint8],
    gradient: _Floats,
    hessian: _Floats,
) -> float: ...
def components(
    n: int, edge: NDArray[np.int32], joined: NDArray[np.uint8]
) -> tuple[NDArray[np.int32], int]: ...
def flows(
    load: _Floats,
    edge: NDArray[np.int32],
    radius: _Floats,
    first_edge: NDArray[np.intp],
    node: NDArray[np.int32],
    first_node: NDArray[np.intp],
    tolerance: _Floats,
    max_iter: int,
    lam: _Floats,
    saturated: NDArray[np.uint8],
    residual: _Floats,
    status: NDArray[np.int32],
    work: _Floats,
    step: _Floats,
    capacity: _Floats,
    aggregate: NDArray[np.int32] | None = None,
    parts: NDArray[np.intp] | None = None,
    inverse: _Floats | None = None,
    potential: _Floats | None = None,
) -> None: ...
