"""Splits of components into empty ones: what they find, that they raise the ELBO, and that they equal the
reference.
"""

from __future__ import annotations

import numpy as np
import pytest

from craftc import FeatureSelectionMixture
from craftc.mixture.variational import Ascent
from tests.estimators.mixture_cases import MODELS, model_of, table
from tests.reference.mixture import ReferenceMixture


@pytest.fixture
def splits(monkeypatch):
    """Whether each attempt of a fit to split components was kept."""
    kept, split = [], Ascent._split

    def recorded(ascent):
        before = ascent.elbo
        kept.append(split(ascent))
        assert ascent.elbo >= before
        return kept[-1]

    monkeypatch.setattr(Ascent, "_split", recorded)
    return kept


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("selection", ["local", "global", "shared", "own fractions"])
@pytest.mark.parametrize("component", ["gaussian", "poisson", "bernoulli"])
def test_joined_clusters_are_split_as_in_the_reference(component, selection, seed, splits):
    """Four clusters in two components, with room for five: whole paths."""
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 4, 120)
    if component == "poisson":
        X = rng.poisson(rng.gamma(1.0, 8.0, (4, 9))[group]).astype(float)
    elif component == "bernoulli":
        X = (rng.random((120, 9)) < rng.beta(0.3, 0.3, (4, 9))[group]).astype(float)
    else:
        X = np.where(rng.random((4, 9)) < 0.6, rng.normal(0, 4, (4, 9)), 0.0)[group] + rng.normal(
            size=(120, 9)
        )
    X[rng.random(X.shape) < 0.05] = np.nan
    R, weight = np.eye(5)[group // 2], rng.gamma(4.0, 0.25, 120)
    own = selection == "own fractions"
    parameters = {"component": component, "selection": "local" if own else selection, "scale": "scalar"}
    model = FeatureSelectionMixture(
        5, init=R, learn_fraction="component" if own else False, n_threads=1, **parameters
    )
    model.fit(X, sample_weight=weight)
    ref = ReferenceMixture(X, R, own_fractions=own, weight=weight, **parameters).fit(1e-6, 500)
    np.testing.assert_allclose(model.elbo_path_, ref.elbo_path_, rtol=1e-8)
    np.testing.assert_array_equal(model.labels_, ref.labels_)
    assert splits[-1] is False
    assert np.diff(model.elbo_path_).min() >= -1e-9 * abs(model.elbo_)
    if component != "bernoulli":
        assert splits[0]
        assert model.n_clusters_ >= 3


@pytest.mark.parametrize("name", MODELS)
def test_splits_never_lower_the_elbo(name, splits):
    """Fits from one component, whatever the model."""
    X = table(name, 3, 150)
    model = model_of(name, 6, init=np.ones((150, 1))).fit(X)
    assert np.diff(model.elbo_path_).min() >= -1e-9 * abs(model.elbo_)
    assert model.converged_
    assert splits[-1:] == [False] * model.merge
    assert model.n_clusters_ > 1 or not any(splits)


def test_no_room_no_splits(splits):
    X = table(n=200)
    assert model_of(K=3, init=np.eye(3)[np.arange(200) % 3]).fit(X).n_clusters_ == 3
    assert splits == [False]


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("kind", ["unequal", "own columns"])
def test_thirty_clusters(kind, seed):
    """30 of 30 from 30 components: sizes from 1 to 20; and every cluster shifted in three to five columns of
    its own.
    """
    rng = np.random.default_rng(seed)
    share = 20.0 ** np.linspace(0.0, 1.0, 30)
    group = rng.choice(30, 50_000, p=share / share.sum())
    means = 3 * rng.normal(size=(30, 10))
    if kind == "own columns":
        means = np.zeros((30, 24))
        for row in means:
            own = rng.choice(24, rng.integers(3, 6), replace=False)
            row[own] = rng.choice([-1, 1], len(own)) * rng.uniform(3, 5, len(own))
    model = FeatureSelectionMixture(30, random_state=seed).fit(
        means[group] + rng.normal(size=(50_000, means.shape[1]))
    )
    pairs, counts = np.unique(np.stack([group, model.labels_]), axis=1, return_counts=True)
    largest = {int(k): int(label) for k, label in pairs[:, np.argsort(counts)].T}
    assert len(set(largest.values())) == 30
