from threading import Event
from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import disjoint_base

_Array = NDArray[Any]
_Floats = NDArray[np.float64]
_Integers = NDArray[np.int64]
_Integers32 = NDArray[np.int32]
_Masks = NDArray[np.uint64]

MOST: int
EXACT: int
TRIALS: int

@disjoint_base
class Run:
    arrays: dict[str, Any]
    def __init__(
        self,
        X: _Array,
        products: _Floats | None,
        norm: _Floats,
        mean: _Floats,
        mean_products: _Floats,
        middle: _Floats,
        scale: _Floats,
        step: _Floats,
        penalty: float,
        cap: int,
        collapsed: bool,
        reseed: bool,
        dependent: bool,
        exact: int,
        max_iter: int,
        order: _Integers32,
        n_threads: int,
    ) -> None: ...
    def greedy(self, base: int, n_features: int, draws: _Floats, n_trials: int) -> None: ...
    def start(self, masks: _Masks, n_features: int) -> None: ...
    def exchange(self, masks: _Masks, n_features: int, dropped: int, draws: _Floats) -> None: ...
    def advance(self, sweeps: int, stop: Event | None = None) -> bool: ...
    @property
    def n_features(self) -> int: ...
    @property
    def n_iter(self) -> int: ...
    @property
    def converged(self) -> bool: ...
    @property
    def objective(self) -> float: ...
    def removal_costs(self) -> _Floats: ...
    @property
    def features(self) -> _Floats: ...
    @property
    def scatter(self) -> float: ...
    @property
    def masks(self) -> _Masks: ...
    @property
    def path(self) -> _Floats: ...

def restarts(
    runs: list[Run],
    bases: _Integers32,
    n_features: int,
    draws: _Floats,
    n_trials: _Integers32,
    objective: _Floats,
    outcome: _Integers,
) -> None: ...
