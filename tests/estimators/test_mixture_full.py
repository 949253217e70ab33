"""Full covariances of the mixture equal their reference implementation in NumPy: whole fits, and switches of
blocks of columns.
"""

from __future__ import annotations

from itertools import product
from threading import Event

import numpy as np
import pytest

from craftc import FeatureSelectionMixture
from craftc.mixture.full_covariance import FullModel
from craftc.mixture.priors import checked_priors
from craftc.mixture.variational import Ascent, MixtureConfig
from tests.estimators.mixture_cases import synthetic
from tests.reference.mixture_full import ReferenceFullMixture


def started(R, parameters, **more):
    """An estimator that starts from responsibilities."""
    return FeatureSelectionMixture(R.shape[1], init=R, covariance="full", n_threads=1, **parameters, **more)


@pytest.mark.parametrize("copies", ["equal", "sum", "multiple"])
def test_columns_that_depend_on_others_without_a_prior(copies):
    """The prior is what keeps their covariance regular; where rounding removes it, the error says so."""
    X = np.random.default_rng(0).normal(size=(30, 3)) * 1e6
    more = {"equal": X[:, :1], "sum": X[:, :1] + X[:, 1:2], "multiple": 3.0 * X[:, 2:]}[copies]
    table, options = np.hstack([X, more]), {"covariance": "full", "selection": "all", "random_state": 0}
    with pytest.raises(ValueError, match=r"covariance_prior=1e-09 is lost in columns .* Raise"):
        FeatureSelectionMixture(1, scale="none", covariance_prior=1e-9, **options).fit(table)
    assert np.isfinite(FeatureSelectionMixture(1, scale="standard", **options).fit(table).elbo_)


def assert_close(ours, theirs):
    assert abs(ours - theirs) <= 1e-8 * max(1.0, abs(theirs)), (ours, theirs)


@pytest.mark.slow_except(6)
@pytest.mark.parametrize("seed", range(18))
def test_full_covariances(seed):
    """Columns switched by rank-one updates of a Cholesky factor, against the reference's evidences from
    scratch: path, labels, masks.
    """
    rng = np.random.default_rng(seed)
    n, D, K = int(rng.integers(5, 40)), int(rng.integers(1, 6)), int(rng.integers(1, 6))
    X = (
        rng.normal(size=(n, D)) @ rng.normal(size=(D, D)) * 2
        + rng.normal(0, 3, (3, D))[rng.integers(0, 3, n)]
    )
    R = rng.dirichlet(np.full(K, 0.3), n)
    parameters = {
        "selection": ("local", "global", "shared", "all")[seed % 4],
        "noise": ("isotropic", "feature")[seed // 2 % 2],
        "scale": ("scalar", "standard", "none")[seed // 3 % 3],
        "concentration": (5.0, "auto")[seed // 4 % 2],
    }
    if seed % 5 == 4:
        parameters |= {"mean_precision_prior": 1.0, "degrees_of_freedom_prior": 5.0, "covariance_prior": 0.4}
    model = started(R, parameters, merge=False, max_iter=300, tol=1e-3).fit(X)
    ref = ReferenceFullMixture(X, R, **parameters).fit(1e-3, 300, merge=False)
    np.testing.assert_allclose(model.elbo_path_, ref.elbo_path_, rtol=1e-8)
    np.testing.assert_array_equal(model.labels_, ref.labels_)
    np.testing.assert_array_equal(model.feature_mask_, ref.feature_mask_)


def correlated_rows(rng, n, D):
    """Columns that are sparse sums of each other."""
    return rng.normal(size=(n, D)) @ (rng.normal(size=(D, D)) * (rng.random((D, D)) < 0.4) + 0.5 * np.eye(D))


@pytest.mark.parametrize("seed", range(12))
def test_blocks_of_columns(seed):
    """Paths by elimination steps of one matrix, against evidences of every mask from scratch: the same masks
    and bound, above that of the start.
    """
    rng = np.random.default_rng(seed)
    n, D, K = int(rng.integers(15, 60)), int(rng.integers(1, 7)), int(rng.integers(1, 5))
    X, R = correlated_rows(rng, n, D), rng.dirichlet(np.full(K, 0.3), n)
    y0 = rng.random((K, D)) < (0.0, 1.0, 0.5)[seed % 3]
    parameters = {
        "selection": ("local", "global", "shared")[seed // 2 % 3],
        "noise": ("isotropic", "feature")[seed % 2],
        "scale": "none",
    }
    y0 = np.tile(y0[:1], (K, 1)) if parameters["selection"] == "shared" else y0
    estimator = started(R, parameters)
    data = estimator._scaled_data(estimator._read(X, reset=True), None)
    model = FullModel(data, checked_priors(estimator), 1)
    model.mixture.p[:] = y0
    model.start_from(R)
    ref = ReferenceFullMixture(X, R, y0=y0, **parameters)
    before = model.elbo()
    assert_close(before, ref.bound())
    switched = model.switch(1e-9)
    assert switched == ref.switch(1e-9)
    np.testing.assert_array_equal(model.mixture.p, ref.p)
    assert_close(model.elbo(), ref.bound())
    assert not switched or model.elbo() > before


@pytest.mark.parametrize("seed", range(10))
def test_one_component_has_the_best_mask(seed):
    """Of all masks of up to seven correlated columns, by enumeration."""
    rng = np.random.default_rng(seed)
    X = correlated_rows(rng, int(rng.integers(15, 80)), int(rng.integers(2, 8)))
    model = FeatureSelectionMixture(1, covariance="full", scale="none", random_state=0).fit(X)
    ref = ReferenceFullMixture(X, np.ones((len(X), 1)), scale="none")
    values = {mask: ref.collapsed(np.array([mask], float)) for mask in product([0, 1], repeat=X.shape[1])}
    assert tuple(model.feature_mask_[0].astype(int)) == max(values, key=values.get)
    ref.p = model.feature_mask_.astype(float)
    ref.theta()
    ref.noise()
    ref.shares()
    assert_close(model.elbo_, ref.bound())


def test_masks_of_known_labels():
    """The updates alone end below the true masks, where columns matter together."""
    X, group, mask = synthetic("local", 0, n=300)
    model, updates = (
        FeatureSelectionMixture(3, covariance="full", init=np.eye(3)[group], merge=merge).fit(X)
        for merge in (True, False)
    )
    np.testing.assert_array_equal(model.feature_mask_, mask)
    assert (updates.feature_mask_ != mask).any()
    assert model.elbo_ > updates.elbo_ + 10.0


@pytest.mark.parametrize("kind", ["one factor", "a sum"])
def test_known_labels_end_at_least_as_high_as_known_masks(kind):
    """From the labels alone, a bound as high as from the labels and the true masks."""
    for seed in (1, 13):
        rng = np.random.default_rng(seed)
        K, D, N = 3, int(rng.integers(5, 11)), 120
        group, X, mask = np.arange(N) % K, rng.normal(size=(N, D)), np.zeros((K, D), bool)
        for k in range(K):
            block = rng.permutation(D)[: int(rng.integers(2, 5))]
            mask[k, block] = True
            place = np.ix_(group == k, block)
            own = X[place]
            if kind == "one factor":
                X[place] = own[:, :1] + 0.3 * rng.normal(size=own.shape)
            else:
                own[:, -1] = own[:, :-1].sum(axis=1) / np.sqrt(len(block) - 1) + 0.1 * own[:, -1]
                X[place] = own
        R = np.eye(K)[group]
        estimator = started(R, {"scale": "none"})
        model = estimator.fit(X)
        known = FullModel(
            estimator._scaled_data(estimator._read(X, reset=True), None), checked_priors(estimator), 1
        )
        known.mixture.p[:] = mask
        known.start_from(R)
        ending = Ascent(known, MixtureConfig(500, 1e-6, True, Event())).run()
        assert model.elbo_ >= -ending.objective - 1.0
