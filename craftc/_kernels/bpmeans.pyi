from threading import Event
from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import disjoint_base

MOST: int
EXACT: int
TRIALS: int

@disjoint_base
class Run:
    arrays: dict[str, Any]
    def __init__(
        self,
        X: NDArray[Any],
        products: NDArray[np.float64] | None,
        norm: NDArray[np.float64],
        mean: NDArray[np.float64],
        mean_products: NDArray[np.float64],
        middle: NDArray[np.float64],
        scale: NDArray[np.float64],
        step: NDArray[np.float64],
        penalty: float,
        cap: int,
        collapsed: bool,
        reseed: bool,
        dependent: bool,
        exact: int,
        max_iter: int,
        order: NDArray[np.int32],
        n_threads: int,
    ) -> None: ...
    def greedy(self, base: int, n_features: int, draws: NDArray[np.float64], n_trials: int) -> None: ...
    def start(self, masks: NDArray[np.uint64], n_features: int) -> None: ...
    def exchange(
        self, masks: NDArray[np.uint64], n_features: int, dropped: int, draws: NDArray[np.float64]
    ) -> None: ...
    def advance(self, sweeps: int, stop: Event | None = None) -> bool: ...
    def removal_costs(self) -> NDArray[np.float64]: ...
    @property
    def n_features(self) -> int: ...
    @property
    def n_iter(self) -> int: ...
    @property
    def converged(self) -> bool: ...
    @property
    def objective(self) -> float: ...
    @property
    def features(self) -> NDArray[np.float64]: ...
    @property
    def scatter(self) -> float: ...
    @property
    def masks(self) -> NDArray[np.uint64]: ...
    @property
    def path(self) -> NDArray[np.float64]: ...

def restarts(
    runs: list[Run],
    bases: NDArray[np.int32],
    n_features: int,
    draws: NDArray[np.float64],
    n_trials: NDArray[np.int32],
    objective: NDArray[np.float64],
    outcome: NDArray[np.int64],
) -> None: ...
