from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import disjoint_base

from craftc._kernels.mixture_updates import Mixture
from craftc._kernels.team import Team

_Array = NDArray[Any]
_Floats = NDArray[np.float64]
_Floats32 = NDArray[np.float32]
_Integers32 = NDArray[np.int32]
_Positions = NDArray[np.intp]

@disjoint_base
class Rows:
    team: Team | None
    X: _Array
    column: _Integers32
    centre: _Floats
    scale: _Floats
    exposure: _Floats | None
    weight: _Floats | None
    order: _Integers32 | None
    def __init__(
        self,
        X: _Array,
        column: _Integers32,
        centre: _Floats,
        scale: _Floats,
        exposure: _Floats | None,
        missing: bool,
        K: int,
        weight: _Floats | None = None,
    ) -> None: ...
    def __len__(self) -> int: ...
    def cells(self, index: _Positions) -> _Floats: ...
    def start(self, mixture: Mixture, index: _Positions) -> None: ...
    def visit(self, order: _Integers32) -> None: ...
    def behind(self) -> _Floats32 | None: ...
    def e_step(
        self,
        mixture: Mixture,
        n_threads: int,
        *,
        gather: bool = True,
        hard: bool = False,
        given: _Floats | None = None,
        proba: _Floats | None = None,
        label: _Integers32 | None = None,
        evidence: _Floats | None = None,
        linear: bool = False,
    ) -> None: ...
    def kmeans(
        self,
        mixture: Mixture,
        passes: int,
        n_threads: int,
        label: _Integers32 | None = None,
        second: _Integers32 | None = None,
    ) -> bool: ...
    def sweep(
        self, mixture: Mixture, before: float, least: float, elbo: _Floats, linear: bool, n_threads: int
    ) -> int: ...
