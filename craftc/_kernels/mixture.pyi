from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import disjoint_base

_Floats = NDArray[np.float64]

@disjoint_base
class Mixture:
    size: _Floats
    reach: _Floats
    s1: _Floats
    s2: _Floats
    entropy: _Floats
    own: _Floats
    noise: _Floats
    divergence: _Floats
    noise_divergence: _Floats
    p: _Floats
    mask_entropy: _Floats
    share: _Floats
    stick: _Floats
    weight: _Floats
    priors: tuple[Any, ...]
    share_prior: tuple[float, float]
    def __init__(
        self,
        K: int,
        D: int,
        prior: tuple[float, float, _Floats],
        noise_prior: tuple[float, float, _Floats],
        concentration: float,
        *,
        counts: bool,
        own_noise: bool,
        tied: bool,
    ) -> None: ...
    def state(self) -> list[_Floats]: ...
    def restore(self, state: list[_Floats]) -> None: ...
    def components(self) -> None: ...
    def masks(self) -> None: ...
    def noises(self) -> None: ...
    def shares(self) -> None: ...
    def sticks(self) -> None: ...
    def gains(self) -> _Floats: ...
    def bound(self) -> float: ...
    def sort(self) -> NDArray[np.intp] | None: ...
    def pair_gains(self) -> _Floats: ...
    def release(self, margin: float) -> int: ...
    def join_value(self, i: int, j: int) -> float: ...
    def join(self, i: int, j: int) -> None: ...

@disjoint_base
class Rows:
    X: NDArray[Any]
    column: NDArray[np.int32]
    centre: _Floats
    scale: _Floats
    exposure: _Floats | None
    def __init__(
        self,
        X: NDArray[Any],
        column: NDArray[np.int32],
        centre: _Floats,
        scale: _Floats,
        exposure: _Floats | None,
        holes: bool,
        K: int,
    ) -> None: ...
    def __len__(self) -> int: ...
    def visit(
        self,
        mixture: Mixture,
        n_threads: int,
        *,
        gather: bool = True,
        hard: bool = False,
        given: _Floats | None = None,
        proba: _Floats | None = None,
        label: NDArray[np.int32] | None = None,
        evidence: _Floats | None = None,
        linear: bool = False,
    ) -> None: ...
    def climb(
        self,
        mixture: Mixture,
        before: float,
        least: float,
        bounds: _Floats,
        linear: bool,
        n_threads: int,
    ) -> int: ...
