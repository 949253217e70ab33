"""The mixture's specification: the kind of components, and the priors."""

from __future__ import annotations

import math
from dataclasses import dataclass
from inspect import signature
from typing import Protocol

import numpy as np
from scipy.special import betaln

from craftc._common.messages import shown, warn_user
from craftc._common.validation import Constrained, check_number, check_parameters

NOISE = (0.1, 1.0, 1.0)  # k0, a0, b0 of a column of the noise
BINARY = 1.0  # a0 and b0 of a probability: uniform
COUNT = 1.0  # a0 of a rate; b0 = a0 / mean rate: the prior mean of every column is that of the whole table
SELECTIONS = {"local": 0.01, "global": 0.2, "shared": 0.2, "all": 0.2}  # default rho
AUTO = 5.0  # alpha at the start where it is fitted
# margin of m (1 - m) over rho where m is fitted; with less, the prior's log-odds reach hundreds of nats
LEAST_KAPPA = 0.05


@dataclass(frozen=True)
class Priors:
    """The checked parameters of the model."""

    K: int  # components there is room for
    kind: str  # {"gaussian", "poisson", "bernoulli"} of the columns
    full: bool  # gaussian components with full covariances
    own_noise: bool  # one noise variance for every column
    tied: bool  # one mask for all components
    all_selected: bool  # which is known: every column
    # fraction, variance: m and rho: mean and variance of lambda_d
    fraction: float
    variance: float
    learn: bool  # whether the common m is fitted
    own_fractions: bool  # whether every component has a fraction m_k, in the place of lambda_d
    fraction_prior: tuple[float, float]  # shapes gamma, beta of the prior of m or m_k where they are fitted
    concentration: float  # alpha; of a fitted posterior E alpha
    learn_concentration: bool
    concentration_prior: tuple[float, float]  # shape and rate of the prior of alpha where it is fitted
    mean_precision: float  # k0, nu0, s0 of a Gaussian component, in the units of the model
    freedom: float
    scatter: float

    @property
    def column(self) -> tuple[float, float, float]:
        """k0, a0, b0 of the Normal-Gamma prior of one column of a Gaussian component."""
        return self.mean_precision, self.freedom / 2, self.scatter / 2

    def share_shapes(self, fraction: float) -> tuple[float, float]:
        """Shapes of the Beta prior of lambda_d, m kappa and (1 - m) kappa; with own fractions, of m_k."""
        if self.own_fractions:
            return self.fraction_prior
        kappa = fraction * (1.0 - fraction) / self.variance - 1.0
        return fraction * kappa, (1.0 - fraction) * kappa

    def log_fraction_prior(self, fraction: float) -> float:
        """ln p(m) of a common m that is fitted, equation (8); 0 where it is fixed."""
        a, b = self.fraction_prior
        return (
            float((a - 1.0) * math.log(fraction) + (b - 1.0) * math.log1p(-fraction) - betaln(a, b))
            if self.learn
            else 0.0
        )


def fraction_interval(variance: float, kappa: float = 0.0) -> tuple[float, float]:
    """The feature fractions m that a variance rho allows: m (1 - m) > (1 + kappa) rho."""
    half = math.sqrt(max(0.25 - (1.0 + kappa) * variance, 0.0))
    return 0.5 - half, 0.5 + half


class MixtureParameters(Constrained, Protocol):
    """The parameters of a `FeatureSelectionMixture` that determine its priors."""

    n_components: int
    selection: str
    component: str
    covariance: str
    noise: str
    feature_fraction: float
    feature_variance: float | None
    learn_fraction: bool | str
    fraction_prior: tuple[float, float]
    concentration: float | str
    concentration_prior: tuple[float, float]
    mean_precision_prior: float
    degrees_of_freedom_prior: float
    covariance_prior: float


def checked_priors(model: MixtureParameters) -> Priors:
    """The priors of the parameters of an estimator; raise unless they can be used."""
    check_parameters(model)
    if model.component != "gaussian" and model.covariance == "full":
        raise ValueError(
            'covariance="full" requires component="gaussian"; use covariance="diagonal" for counts and '
            "indicators."
        )
    fractions, prior = _checked_fractions(model)
    gamma = _checked_pair(
        "concentration_prior", model.concentration_prior, "shape and rate of a Gamma distribution"
    )
    _warn_without_role(model, fractions)
    fraction = float(model.feature_fraction)
    variance = float(
        SELECTIONS[model.selection] if model.feature_variance is None else model.feature_variance
    )
    low, high = fraction_interval(variance)
    if not low < fraction < high:
        raise ValueError(
            f"feature_fraction must lie between {low:.6g} and {high:.6g} for feature_variance {variance:g} "
            f"(a fraction m with variance rho needs m (1 - m) > rho), got {fraction!r}. Lower "
            "feature_variance or move feature_fraction towards 0.5."
        )
    if fractions == "shared" and (1.0 + LEAST_KAPPA) * variance >= 0.25:
        raise ValueError(
            f"learn_fraction needs feature_variance < {0.25 / (1.0 + LEAST_KAPPA):.4g}, so that m can vary, "
            f"got {variance!r}."
        )
    return Priors(
        int(model.n_components),
        kind=model.component,
        full=model.covariance == "full",
        own_noise=model.noise == "feature",
        tied=model.selection in ("shared", "all"),
        all_selected=model.selection == "all",
        fraction=fraction,
        variance=variance,
        learn=fractions == "shared",
        own_fractions=fractions == "component",
        fraction_prior=prior,
        concentration=AUTO if isinstance(model.concentration, str) else float(model.concentration),
        learn_concentration=isinstance(model.concentration, str),
        concentration_prior=gamma,
        mean_precision=float(model.mean_precision_prior),
        freedom=float(model.degrees_of_freedom_prior),
        scatter=float(model.covariance_prior),
    )


def _checked_pair(name: str, pair: object, meaning: str) -> tuple[float, float]:
    """Two numbers > 0."""
    if not isinstance(pair, (tuple, list, np.ndarray)) or getattr(pair, "ndim", 1) != 1 or len(pair) != 2:
        raise ValueError(f"{name} must be two numbers > 0, the {meaning}, got {shown(pair)}.")
    a, b = (check_number(f"{name}[{i}]", pair[i], least=1e-6, most=1e6) for i in (0, 1))
    return a, b


def _checked_fractions(model: MixtureParameters) -> tuple[str | None, tuple[float, float]]:
    """Which fractions are fitted, and their prior."""
    learn = model.learn_fraction
    if isinstance(learn, (bool, np.bool_)):
        fractions = "shared" if learn else None
    elif isinstance(learn, str) and learn in ("shared", "component"):
        fractions = learn
    else:
        raise TypeError(f"learn_fraction must be True, False, 'shared' or 'component', got {shown(learn)}.")
    shapes = _checked_pair("fraction_prior", model.fraction_prior, "shapes of a Beta distribution")
    if model.selection == "all" and fractions is not None:
        raise ValueError(
            f'learn_fraction={learn!r} needs a selection of features, got selection="all"; use '
            'selection="local", or learn_fraction=False.'
        )
    if fractions == "component" and (model.selection == "shared" or model.covariance == "full"):
        other = 'selection="shared"' if model.selection == "shared" else 'covariance="full"'
        raise ValueError(
            f'learn_fraction="component" needs selections of every component, got {other}; use '
            'learn_fraction="shared".'
        )
    return fractions, shapes


def _warn_without_role(model: MixtureParameters, fractions: str | None) -> None:
    """Warn about parameters that were set and have no role in this model."""

    def differs(name: str) -> bool:
        default = signature(type(model)).parameters[name].default
        value = getattr(model, name)
        return tuple(value) != default if isinstance(default, tuple) else bool(value != default)

    roles = {
        f"learn_fraction={model.learn_fraction!r}": {
            "fraction_prior": fractions is None,
            "feature_variance": fractions == "component",
        },
        'selection="all"': dict.fromkeys(("feature_fraction", "feature_variance"), model.selection == "all"),
        f"concentration={model.concentration!r}": {
            "concentration_prior": not isinstance(model.concentration, str)
        },
        f'component="{model.component}"': dict.fromkeys(
            ("mean_precision_prior", "degrees_of_freedom_prior", "covariance_prior"),
            model.component != "gaussian",
        ),
    }
    for reason, without in roles.items():
        for name, has_none in without.items():
            if has_none and differs(name):
                warn_user(f"{name} has no role with {reason} and is ignored.")
