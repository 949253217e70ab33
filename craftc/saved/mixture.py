"""Model files of FeatureSelectionMixture: the posterior of its clusters and of the noise."""

from __future__ import annotations

from typing import Any

import numpy as np

from craftc.mixture.estimator import FeatureSelectionMixture
from craftc.mixture.full_covariance import FullPosterior
from craftc.mixture.posterior import ColumnDensities, Posterior
from craftc.mixture.priors import Priors
from craftc.mixture.scaling import ColumnScaling
from craftc.mixture.wishart import NormalWishart
from craftc.saved.archive import demand
from craftc.saved.fields import (
    ABSENT,
    POSITIVE,
    Optional,
    StoredChoice,
    StoredNumber,
    StoredRecord,
    StoredRecords,
    Through,
    floats,
    labels,
)
from craftc.saved.layout import CONVERGED, FIT, FRAMES, Layout

_KIND, _POSITIVE = StoredChoice(("gaussian", "poisson", "bernoulli")), StoredNumber(least=POSITIVE)


def _columns(*shape: str) -> StoredRecord:
    array = floats(*shape)
    return StoredRecord(ColumnDensities, kind=_KIND, mean=array, kappa=array, a=array, b=array)


def _made(**parts: Any) -> Posterior:
    """The posterior, of the class that has these fields."""
    if parts["components"] is not ABSENT:
        return FullPosterior(**parts)
    return Posterior(**{name: parts[name] for name in Posterior.__annotations__})


_SCALING = StoredRecord(
    ColumnScaling,
    kind=_KIND,
    mean=floats("D", missing=True),
    variance=floats("D", missing=True),
    column=labels("columns", below="D"),
    centre=floats("columns"),
    scale=floats("columns", least=POSITIVE),
)
_PRIORS = StoredRecord(
    Priors,
    kind=_KIND,
    fraction=_POSITIVE,
    variance=_POSITIVE,
    fraction_prior=StoredNumber(count=2),
    concentration=_POSITIVE,
    concentration_prior=StoredNumber(count=2),
    mean_precision=_POSITIVE,
    freedom=_POSITIVE,
    scatter=_POSITIVE,
)
_COMPONENTS = StoredRecords(
    NormalWishart,
    column=labels("selected", below="columns"),
    kappa=_POSITIVE,
    mean=floats("selected"),
    inverse=floats("selected", "selected"),
)
_POSTERIOR = StoredRecord(
    Posterior,
    _made,
    scaling=_SCALING,
    priors=_PRIORS,
    fractions=Optional(floats("K")),
    p=floats("K", "columns", least=0.0, most=1.0),
    gains=floats("K", "columns"),
    own=floats("terms", "K", "columns"),
    noise=floats("terms", "columns"),
    weight=floats("K"),
    weights=floats("K", least=0.0),
    clusters=_columns("K", "columns"),
    background=_columns("columns"),
    components=Optional(_COMPONENTS, ABSENT),
    psi=Optional(floats("K", "columns", "columns"), ABSENT),
)
_FIELDS = {
    **FRAMES,
    **FIT,
    **CONVERGED,
    "cluster_sizes_": floats("K", least=0.0),
    "labels_": labels("n", below="K"),
    "objective_path_": floats("steps"),
    "feature_fraction_": Through(floats("fractions"), np.atleast_1d, np.asarray),
    "_posterior": _POSTERIOR,
}


def _complete(model: FeatureSelectionMixture) -> None:
    model.fraction_prior = model.fraction_prior[0], model.fraction_prior[1]
    model.concentration_prior = model.concentration_prior[0], model.concentration_prior[1]
    model.n_clusters_ = len(model.cluster_sizes_)
    demand(model.n_clusters_ > 0, "it has no clusters")
    model.elbo_, model.elbo_path_ = -model.objective_, -model.objective_path_
    posterior, fraction = model._posterior, model.feature_fraction_
    _check(posterior, model.n_clusters_)
    if isinstance(posterior, FullPosterior):
        _check_components(posterior)
    model._set_posterior(posterior)
    own = posterior.fractions
    model.feature_fraction_ = np.asarray(fraction).item() if own is None else own
    same = np.array_equal(fraction, np.atleast_1d(model.feature_fraction_))
    demand(same, "the fractions contradict each other")


def _check(posterior: Posterior, K: int) -> None:
    """What the kernels rely on, besides types, shapes and ranges."""
    scaling, priors = posterior.scaling, posterior.priors
    kinds = {scaling.kind, priors.kind, posterior.clusters.kind, posterior.background.kind}
    demand(len(kinds) == 1, "the kind of the components is unknown")
    fits = priors.K == K and priors.full == isinstance(posterior, FullPosterior)
    fits &= priors.own_fractions == (posterior.fractions is not None)
    fits &= not (priors.full and priors.kind != "gaussian")
    demand(fits, "the priors are not possible")
    demand(bool((np.diff(scaling.column) > 0).all()), "the columns of the model do not exist")
    demand(bool((scaling.variance[scaling.column] > 0).all()), "the scales of the columns are not positive")
    rates = scaling.mean[scaling.column]
    demand(scaling.kind != "poisson" or bool((rates > 0).all()), "the rates of the columns are not positive")
    demand(abs(posterior.weights.sum() - 1.0) < 1e-6, "the probabilities are not possible")
    terms = len(scaling.mixture(priors).own)
    demand(len(posterior.own) == terms, "the coefficients of the densities have a wrong shape")


def _check_components(posterior: FullPosterior) -> None:
    """Raise unless every component is a distribution of columns of the model."""
    demand(len(posterior.components) == posterior.priors.K, "a cluster has no component")
    for one in posterior.components:
        q = len(one.column)
        demand(q == len(one.mean) == len(one.inverse), "a component has another number of columns")
        demand(one.freedom > q - 1, "a component is not a distribution")


LAYOUTS = {
    "FeatureSelectionMixture": Layout(FeatureSelectionMixture, _FIELDS, _complete, ("init", "random_state"))
}
