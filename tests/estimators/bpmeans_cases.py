"""Models and tables of the tests of the feature models."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

from craftc import BPMeans, KFeatures

MODELS = {
    "births": BPMeans(12.0),
    "births exact": BPMeans(12.0, assignment="exact", max_features=8),
    "collapsed": BPMeans(12.0, collapsed=True),
    "stepped": BPMeans(12.0, init="kfeatures", n_init=3),
    "auto": BPMeans(n_init=3),
    "drop": KFeatures(4),
    "sweep": KFeatures(4, assignment="sweep"),
    "reseed": KFeatures(4, empty="reseed"),
    "stepwise": KFeatures(feature_penalty=12.0, n_init=3),
    "shortest": KFeatures(n_init=3),
}
every_model = pytest.mark.parametrize("name", MODELS)


def model_of(name, **parameters):
    """An unfitted model by name, its seed 0."""
    return clone(MODELS[name]).set_params(**{"random_state": 0, "n_threads": 1, **parameters})


def sums(seed, n=90, D=6, K=4, noise=0.7, offset=0.0):
    """Sums of some of K features, and noise."""
    rng = np.random.default_rng(seed)
    return (
        (rng.random((n, K)) < 0.4) @ rng.normal(size=(K, D)) * 3.0 + noise * rng.normal(size=(n, D)) + offset
    )


def square(X):
    return float(np.square(X.astype(np.float64)).sum())


def assert_same_bits(a, b):
    """Two fitted models agree to the last bit."""
    np.testing.assert_array_equal(a.assignments_, b.assignments_)
    np.testing.assert_array_equal(a.features_, b.features_)
    np.testing.assert_array_equal(a.objective_path_, b.objective_path_)
    assert (a.objective_, a.inertia_, a.n_iter_, a.converged_) == (
        b.objective_,
        b.inertia_,
        b.n_iter_,
        b.converged_,
    )
    assert a.penalty_interval_ == b.penalty_interval_
    assert getattr(a, "feature_penalty_", None) == getattr(b, "feature_penalty_", None)
