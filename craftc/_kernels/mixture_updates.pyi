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
    def __init__(
        self,
        K: int,
        D: int,
        prior: tuple[float, float, _Floats],
        noise_prior: tuple[float, float, _Floats],
        concentration: float,
        *,
        kind: str,
        own_noise: bool,
        tied: bool,
        own_fractions: bool = False,
        all_selected: bool = False,
    ) -> None: ...
    @property
    def share_prior(self) -> tuple[float, float]: ...
    @share_prior.setter
    def share_prior(self, shapes: tuple[float, float]) -> None: ...
    @property
    def concentration(self) -> float: ...
    @concentration.setter
    def concentration(self, alpha: float) -> None: ...
    def state(self) -> list[_Floats]: ...
    def restore(self, state: list[_Floats]) -> None: ...
    def update_components(self) -> None: ...
    def update_masks(self) -> None: ...
    def update_noise(self) -> None: ...
    def update_shares(self) -> None: ...
    def update_sticks(self) -> None: ...
    def gains(self) -> _Floats: ...
    def elbo(self) -> float: ...
