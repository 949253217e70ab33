"""The mixture's specification: the kind of components, and the priors."""

from __future__ import annotations

import math
from dataclasses import dataclass

from scipy.special import betaln

NORMAL = (0.1, 1.0, 0.5)  # k0, a0, b0 of a component's column, in the model's units
NOISE = (0.1, 1.0, 1.0)
BINARY = 1.0  # a0 and b0 of a probability: uniform
COUNT = 1.0  # a0 of a rate; b0 = a0 / mean rate: the prior mean of every column is that of the whole table
LEAST_KAPPA = 0.05  # if the feature fraction is fitted: with a smaller kappa the prior's log-odds reach hundreds of nats


@dataclass(frozen=True)
class Priors:
    """The checked parameters of the model.

    Parameters
    ----------
    K : int
        Components there is room for.
    kind : {"gaussian", "poisson", "bernoulli"}
        Of the columns.
    full : bool
        Gaussian components with full covariances.
    own_noise : bool
        One noise variance for every column.
    tied : bool
        One mask for all components.
    fraction, variance : float
        m and rho: mean and variance of lambda_d.
    learn : bool
        Whether the common m is fitted.
    own_fractions : bool
        Whether every component has a fraction m_k, in the place of lambda_d.
    fraction_prior : (float, float)
        Shapes gamma, beta of the prior of m or m_k where they are fitted.
    concentration : float
        alpha.
    """

    K: int
    kind: str
    full: bool
    own_noise: bool
    tied: bool
    fraction: float
    variance: float
    learn: bool
    own_fractions: bool
    fraction_prior: tuple[float, float]
    concentration: float

    def share_shapes(self, fraction: float) -> tuple[float, float]:
        """Shapes of the Beta prior of lambda_d, m kappa and (1 - m) kappa, kappa = m (1 - m) / rho - 1; with own fractions, of m_k."""
        if self.own_fractions:
            return self.fraction_prior
        kappa = fraction * (1.0 - fraction) / self.variance - 1.0
        return fraction * kappa, (1.0 - fraction) * kappa

    def log_fraction_prior(self, fraction: float) -> float:
        """ln p(m) of a common m that is fitted, equation (8); 0 where it is fixed."""
        a, b = self.fraction_prior
        return float((a - 1.0) * math.log(fraction) + (b - 1.0) * math.log1p(-fraction) - betaln(a, b)) if self.learn else 0.0


def fraction_interval(variance: float, kappa: float = 0.0) -> tuple[float, float]:
    """The feature fractions m that a variance rho allows: m (1 - m) > (1 + kappa) rho."""
    half = math.sqrt(max(0.25 - (1.0 + kappa) * variance, 0.0))
    return 0.5 - half, 0.5 + half
