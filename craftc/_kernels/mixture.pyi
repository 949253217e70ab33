from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import disjoint_base

from craftc._kernels.mixture_updates import Mixture
from craftc._kernels.team import Team

_Floats = NDArray[np.float64]

@disjoint_base
class Rows:
    X: NDArray[Any]
    column: NDArray[np.int32]
    centre: _Floats
    scale: _Floats
    exposure: _Floats | None
    weight: _Floats | None
    team: Team | None
    order: NDArray[np.int32] | None
    def __init__(
        self,
        X: NDArray[Any],
        column: NDArray[np.int32],
        centre: _Floats,
        scale: _Floats,
        exposure: _Floats | None,
        missing: bool,
        K: int,
        weight: _Floats | None = None,
    ) -> None: ...
    def __len__(self) -> int: ...
    def cells(self, index: NDArray[np.intp]) -> _Floats: ...
    def start(self, mixture: Mixture, index: NDArray[np.intp]) -> None: ...
    def e_step(
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
    def visit(self, order: NDArray[np.int32]) -> None: ...
    def behind(self) -> NDArray[np.float32] | None: ...
    def kmeans(
        self,
        mixture: Mixture,
        passes: int,
        n_threads: int,
        label: NDArray[np.int32] | None = None,
        second: NDArray[np.int32] | None = None,
    ) -> bool: ...
    def sweep(
        self,
        mixture: Mixture,
        before: float,
        least: float,
        elbo: _Floats,
        linear: bool,
        n_threads: int,
    ) -> int: ...
