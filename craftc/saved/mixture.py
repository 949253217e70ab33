"""The state of a fitted FeatureSelectionMixture in a model file: the posterior of its clusters and of the
noise.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np

from craftc._common.typing import Floats
from craftc.mixture.estimator import FeatureSelectionMixture
from craftc.mixture.full_covariance import FullPosterior, NormalWishart
from craftc.mixture.posterior import ColumnDensities, Posterior
from craftc.mixture.priors import Priors
from craftc.mixture.scaling import ColumnScaling
from craftc.saved.archive import Archive, Arrays, demand, estimator_head, restored_estimator

FORMAT_VERSION = 4  # 3: without checksum

_SCALARS = {"objective_": float, "n_iter_": int, "converged_": bool}
_COLUMNS = ("mean", "kappa", "a", "b")
_COMPONENT = ("kappa", "freedom", "log_det", "evidence")


def state_of(model: FeatureSelectionMixture) -> tuple[dict[str, Any], Arrays]:
    """The head and the arrays of a fitted model."""
    posterior = model._posterior
    scaling = posterior.scaling
    head = estimator_head(model, ("init", "random_state"), _SCALARS)
    head |= {"kind": scaling.kind, "priors": asdict(posterior.priors)}
    arrays = {
        "labels": model.labels_,
        "sizes": model.cluster_sizes_,
        "objective_path": model.objective_path_,
        "fraction": np.asarray(model.feature_fraction_, np.float64),
        "means": scaling.mean,
        "variances": scaling.variance,
        "column": scaling.column,
        "centre": scaling.centre,
        "scale": scaling.scale,
    }
    arrays |= {name: getattr(posterior, name) for name in ("p", "gains", "own", "noise", "weight", "weights")}
    arrays |= {f"cluster_{name}": getattr(posterior.clusters, name) for name in _COLUMNS}
    arrays |= {f"noise_{name}": getattr(posterior.background, name) for name in _COLUMNS}
    if isinstance(posterior, FullPosterior):
        held = posterior.components
        arrays |= {f"component_{name}": np.array([getattr(one, name) for one in held]) for name in _COMPONENT}
        arrays |= {
            "component_counts": np.array([len(one.column) for one in held], np.int64),
            "component_columns": np.concatenate([one.column for one in held]).astype(np.int32),
            "component_means": np.concatenate([one.mean for one in held]),
            "component_inverses": np.concatenate([one.inverse.ravel() for one in held]),
            "psi": posterior.psi,
        }
    return head, arrays


def restored(archive: Archive) -> FeatureSelectionMixture:
    """The model; whatever the kernels rely on is checked here."""
    model = restored_estimator(FeatureSelectionMixture, archive.head, **_SCALARS)
    model.fraction_prior = model.fraction_prior[0], model.fraction_prior[1]
    model.cluster_sizes_ = archive.floats("sizes", (None,), least=0.0)
    K = model.n_clusters_ = len(model.cluster_sizes_)
    demand(K > 0, "it has no clusters")
    model.labels_ = archive.labels("labels", (None,), K)
    model.objective_path_ = archive.floats("objective_path", (None,))
    model.elbo_, model.elbo_path_ = -model.objective_, -model.objective_path_
    posterior = _posterior(archive, K, model.n_features_in_)
    model._set_posterior(posterior)
    fraction = posterior.fractions
    model.feature_fraction_ = archive.floats("fraction", ()).item() if fraction is None else fraction
    return model


def _posterior(archive: Archive, K: int, width: int) -> Posterior:
    kind, priors = archive.head["kind"], _priors(archive.head["priors"], K)
    scaling = _scaling(archive, kind, width)
    demand(kind == priors.kind, "the kind of the components is unknown")
    D = len(scaling.column)
    own, noise = (archive.floats(name, (None, *shape)) for name, shape in (("own", (K, D)), ("noise", (D,))))
    demand(
        len(own) == len(noise) == len(scaling.mixture(priors).own),
        "the coefficients of the densities have a wrong shape",
    )
    clusters = [archive.floats(f"cluster_{name}", (K, D)) for name in _COLUMNS]
    background = [archive.floats(f"noise_{name}", (D,)) for name in _COLUMNS]
    p, weights = archive.floats("p", (K, D), least=0.0), archive.floats("weights", (K,), least=0.0)
    demand(bool((p <= 1.0).all()) and abs(weights.sum() - 1.0) < 1e-6, "the probabilities are not possible")
    state: dict[str, Any] = {
        "scaling": scaling,
        "priors": priors,
        "fractions": archive.floats("fraction", (K,)) if priors.own_fractions else None,
        "p": p,
        "gains": archive.floats("gains", (K, D)),
        "own": own,
        "noise": noise,
        "weight": archive.floats("weight", (K,)),
        "weights": weights,
        "clusters": ColumnDensities(kind, *clusters),
        "background": ColumnDensities(kind, *background),
    }
    if not priors.full:
        return Posterior(**state)
    return FullPosterior(**state, components=_components(archive, K, D), psi=archive.floats("psi", (K, D, D)))


def _priors(state: dict[str, Any], K: int) -> Priors:
    """The specification of the model, of valid types."""
    shapes = state["fraction_prior"]
    priors = Priors(**state | {"fraction_prior": (float(shapes[0]), float(shapes[1]))})
    flags = priors.full, priors.own_noise, priors.tied, priors.learn, priors.own_fractions
    numbers = priors.fraction, priors.variance, priors.concentration
    fits = (
        priors.K == K
        and priors.kind in ("gaussian", "poisson", "bernoulli")
        and not (priors.full and priors.kind != "gaussian")
    )
    fits &= all(type(flag) is bool for flag in flags) and all(
        type(number) is float and number > 0 for number in numbers
    )
    demand(fits, "the priors are not possible")
    return priors


def _scaling(archive: Archive, kind: str, width: int) -> ColumnScaling:
    """The columns of the model and their units."""
    mean, variance = (
        archive.floats("means", (width,), missing=True),
        archive.floats("variances", (width,), missing=True),
    )
    column = archive.array("column", "int32", (None,))
    inside = bool((np.diff(column) > 0).all()) and (
        not len(column) or (column[0] >= 0 and column[-1] < width)
    )
    demand(inside, "the columns of the model do not exist")
    centre, scale = archive.floats("centre", column.shape), archive.floats("scale", column.shape)
    demand(
        bool((scale > 0).all() and (variance[column] > 0).all()), "the scales of the columns are not positive"
    )
    demand(kind != "poisson" or bool((mean[column] > 0).all()), "the rates of the columns are not positive")
    return ColumnScaling(kind, mean, variance, column, centre, scale)


def _components(archive: Archive, K: int, D: int) -> list[NormalWishart]:
    """The normal-inverse-Wishart distributions of the clusters."""
    counts = archive.array("component_counts", "int64", (K,))
    demand(bool(((counts >= 0) & (counts <= D)).all()), "the clusters select columns that do not exist")
    total, squares = int(counts.sum()), int((counts**2).sum())
    column = archive.array("component_columns", "int32", (total,))
    demand(bool(((column >= 0) & (column < D)).all()), "the clusters select columns that do not exist")
    kappa, freedom, log_det, evidence = (archive.floats(f"component_{name}", (K,)) for name in _COMPONENT)
    demand(bool((kappa > 0).all() and (freedom > counts - 1).all()), "a component is not a distribution")
    ends = np.cumsum(counts)[:-1]
    columns, means = np.split(column, ends), np.split(archive.floats("component_means", (total,)), ends)
    inverses: list[Floats] = np.split(
        archive.floats("component_inverses", (squares,)), np.cumsum(counts**2)[:-1]
    )
    return [
        NormalWishart(
            columns[k],
            float(kappa[k]),
            means[k],
            float(freedom[k]),
            inverses[k].reshape(counts[k], counts[k]),
            float(log_det[k]),
            float(evidence[k]),
        )
        for k in range(K)
    ]
