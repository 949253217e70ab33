import numpy as np
from numpy.typing import NDArray

_Floats = NDArray[np.float64]

TILE: int

def evaluate(
    first: NDArray[np.intp],
    column: NDArray[np.int32],
    x: _Floats,
    beta: _Floats,
    y: NDArray[np.int32],
    proba: _Floats,
    work: _Floats,
    n_threads: int,
) -> tuple[float, float]: ...
def gradient(
    first: NDArray[np.intp],
    column: NDArray[np.int32],
    x: _Floats,
    y: NDArray[np.int32],
    proba: _Floats,
    out: _Floats,
    work: _Floats,
    n_threads: int,
) -> None: ...
def hessian_product(
    first: NDArray[np.intp],
    column: NDArray[np.int32],
    x: _Floats,
    proba: _Floats,
    direction: _Floats,
    out: _Floats,
    work: _Floats,
    n_threads: int,
) -> None: ...
def class_curvature(
    first: NDArray[np.intp],
    column: NDArray[np.int32],
    square: _Floats,
    proba: _Floats,
    out: _Floats,
    work: _Floats,
    n_threads: int,
) -> None: ...
def weighted_gram(
    first: NDArray[np.intp],
    column: NDArray[np.int32],
    x: _Floats,
    weight: _Floats,
    out: _Floats,
) -> None: ...
