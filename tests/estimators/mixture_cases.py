"""Models and tables of the tests of the mixture with feature selection."""

from __future__ import annotations

import numpy as np
import pytest

from craftc import FeatureSelectionMixture

MODELS = {
    "local": {},
    "global": {"selection": "global"},
    "shared": {"selection": "shared"},
    "own noise": {"noise": "feature", "scale": "standard"},
    "learnt": {"learn_fraction": True},
    "apart": {"merge": False, "init": "random"},
    "counts": {"component": "poisson"},
    "shared counts": {"component": "poisson", "selection": "shared", "learn_fraction": True},
    "own fractions": {"learn_fraction": "component", "fraction_prior": (0.5, 0.5)},
    "U-shaped": {"learn_fraction": "shared", "fraction_prior": (0.2, 0.2), "selection": "global"},
    "everything": {"selection": "all", "concentration": "auto"},
    "binary": {"component": "bernoulli"},
}
every_model = pytest.mark.parametrize("name", MODELS)


def model_of(name="local", K=6, **parameters):
    """An unfitted model by name, its seed 0."""
    return FeatureSelectionMixture(K, **{"random_state": 0, "n_threads": 1, **MODELS[name], **parameters})


def synthetic(kind, seed, n=240, D=16):
    """(X, clusters, masks): three clusters with normal columns of their own, or all with the same ones; wide
    noise elsewhere.
    """
    rng = np.random.default_rng(seed)
    group = np.arange(n) % 3
    mask = rng.random((3, D)) < 0.5 if kind == "local" else np.tile(np.arange(D) < D // 2, (3, 1))
    means = rng.normal(0, 3, (3, D))
    return (
        np.where(mask[group], means[group] + rng.normal(size=(n, D)), rng.normal(0, 3, (n, D))),
        group,
        mask,
    )


def table(name="local", seed=0, n=120, D=7):
    """Clusters of numbers, or of counts or indicators where the model is of these."""
    if name == "binary":
        rng = np.random.default_rng(seed)
        return (rng.random((n, D)) < 0.1 + 0.8 * rng.beta(0.4, 0.4, (3, D))[np.arange(n) % 3]).astype(float)
    if "counts" not in name:
        return synthetic("local", seed, n, D)[0]
    rng = np.random.default_rng(seed)
    return rng.poisson(rng.gamma(1.0, 6.0, (3, D))[np.arange(n) % 3]).astype(float)


def assert_same_bits(a, b):
    """Two fitted models agree to the last bit."""
    for attribute in (
        "labels_",
        "weights_",
        "feature_mask_",
        "feature_probabilities_",
        "feature_gains_",
        "means_",
        "variances_",
        "cluster_sizes_",
        "elbo_path_",
        "scale_",
        "feature_fraction_",
    ):
        np.testing.assert_array_equal(getattr(a, attribute), getattr(b, attribute), err_msg=attribute)
    assert (a.elbo_, a.n_iter_, a.converged_) == (b.elbo_, b.n_iter_, b.converged_)


def assert_close(a, b, columns=slice(None)):
    """The same result to rounding; b has its columns in another order."""
    np.testing.assert_array_equal(a.labels_, b.labels_)
    assert a.elbo_ == pytest.approx(b.elbo_, rel=1e-7)
    np.testing.assert_allclose(
        a.feature_probabilities_[:, columns], b.feature_probabilities_, rtol=0, atol=1e-5
    )
    np.testing.assert_allclose(a.means_[:, columns], b.means_, rtol=1e-5, atol=1e-5 * np.abs(b.means_).max())
