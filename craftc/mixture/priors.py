"""The mixture's specification: the kind of components, and the priors."""

from __future__ import annotations

import math
from dataclasses import dataclass

NORMAL = (0.1, 1.0, 0.5)  # k0, a0, b0 of a component's column, in the model's units
NOISE = (0.1, 1.0, 1.0)
COUNT = 1.0  # a0 of a rate; b0 = a0 / mean rate: the prior mean of every column is that of the whole table
LEAST_KAPPA = 0.05  # if the feature fraction is fitted: with a smaller kappa the prior's log-odds reach hundreds of nats


@dataclass(frozen=True)
class Priors:
    """The checked parameters of the model.

    Parameters
    ----------
    K : int
        Components there is room for.
    counts, full : bool
        Poisson columns; Gaussian components with full covariances.
    own_noise : bool
        One noise variance for every column.
    tied : bool
        One mask for all components.
    fraction, variance : float
        m and rho: mean and variance of lambda_d.
    learn : bool
        Whether m is fitted.
    concentration : float
        alpha.
    """

    K: int
    counts: bool
    full: bool
    own_noise: bool
    tied: bool
    fraction: float
    variance: float
    learn: bool
    concentration: float

    def share_shapes(self, fraction: float) -> tuple[float, float]:
        """Shapes of the Beta prior of lambda_d: m kappa and (1 - m) kappa, kappa = m (1 - m) / rho - 1."""
        kappa = fraction * (1.0 - fraction) / self.variance - 1.0
        return fraction * kappa, (1.0 - fraction) * kappa


def fraction_interval(variance: float, kappa: float = 0.0) -> tuple[float, float]:
    """The feature fractions m that a variance rho allows: m (1 - m) > (1 + kappa) rho."""
    half = math.sqrt(max(0.25 - (1.0 + kappa) * variance, 0.0))
    return 0.5 - half, 0.5 + half
