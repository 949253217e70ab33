import numpy as np
from numpy.typing import NDArray

_Floats = NDArray[np.float64]
_Integers32 = NDArray[np.int32]
_Positions = NDArray[np.intp]

TILE: int

def softmax(logits: _Floats, y: _Integers32, weight: _Floats | None = None) -> tuple[float, float]: ...
def evaluate(
    first: _Positions,
    column: _Integers32,
    x: _Floats,
    beta: _Floats,
    y: _Integers32,
    proba: _Floats,
    work: _Floats,
    n_threads: int,
) -> tuple[float, float]: ...
def gradient(
    first: _Positions,
    column: _Integers32,
    x: _Floats,
    y: _Integers32,
    proba: _Floats,
    out: _Floats,
    work: _Floats,
    n_threads: int,
) -> None: ...
def hessian_product(
    first: _Positions,
    column: _Integers32,
    x: _Floats,
    proba: _Floats,
    direction: _Floats,
    out: _Floats,
    work: _Floats,
    n_threads: int,
) -> None: ...
def class_curvature(
    first: _Positions,
    column: _Integers32,
    square: _Floats,
    proba: _Floats,
    out: _Floats,
    work: _Floats,
    n_threads: int,
) -> None: ...
def weighted_gram(
    first: _Positions, column: _Integers32, x: _Floats, weight: _Floats, out: _Floats
) -> None: ...
