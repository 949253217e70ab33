"""Bad input to the feature models raises a clear error and changes nothing."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from craftc import BPMeans, KFeatures

X = np.random.default_rng(0).normal(size=(20, 3))
MISSING = X.copy()
MISSING[3, 1] = np.nan
Z = X > 0.3

COMMON = [
    ({"feature_penalty": 0.0}, "feature_penalty must be a number > 0"),
    ({"feature_penalty": 0}, "feature_penalty must be a number > 0"),
    ({"feature_penalty": -1.0}, "feature_penalty must be a number > 0"),
    ({"feature_penalty": np.nan}, "feature_penalty must be a number > 0"),
    ({"feature_penalty": np.inf}, "feature_penalty must be a number > 0"),
    ({"feature_penalty": True}, "feature_penalty must be a number"),
    ({"feature_penalty": np.ones(2)}, "feature_penalty must be a number"),
    ({"feature_penalty": "cheap"}, "feature_penalty must be "),
    ({"assignment": "fast"}, "assignment must be one of 'auto', 'sweep', 'exact'"),
    ({"assignment": None}, "assignment must be one of"),
    ({"base": "median"}, "base must be one of 'mean', 'none', 'mixed'"),
    ({"base": None}, "base must be one of"),
    ({"n_trials": 0}, "n_trials must be a whole number >= 1 and <= 8"),
    ({"n_trials": 9}, "n_trials must be a whole number >= 1 and <= 8"),
    ({"n_trials": 2.0}, "n_trials must be a whole number"),
    ({"n_trials": "all"}, "n_trials must be a whole number"),
    ({"n_init": 0}, "n_init must be a whole number >= 1"),
    ({"n_init": "auto"}, "n_init must be a whole number"),
    ({"max_iter": 0}, "max_iter must be a whole number >= 1"),
    ({"max_iter": None}, "max_iter must be a whole number"),
    ({"random_state": "monday"}, "random_state must be None, a whole number"),
    ({"random_state": -1}, "random_state must be None"),
    ({"n_threads": 0}, "n_threads=0"),
    ({"n_threads": 1.5}, "n_threads must be"),
    ({"n_threads": "all"}, "n_threads must be"),
    ({"verbose": "loud"}, "verbose must be"),
    ({"verbose": -1}, "verbose must be"),
    ({"init": "kmeans"}, "init must be one of 'greedy'.* or memberships"),
    ({"init": None}, r"init must be memberships of shape \(20, K\)"),
    ({"init": np.zeros(20, bool)}, r"init must be memberships of shape \(20, K\).* got shape \(20,\)"),
    ({"init": Z[:19]}, r"got shape \(19, 3\)"),
    ({"init": Z[:, :0]}, r"K from 1 to 64.*got shape \(20, 0\)"),
    ({"init": np.zeros((20, 65), bool)}, r"K from 1 to 64.*got shape \(20, 65\)"),
    ({"init": Z[None]}, "init must be memberships of shape"),
    ({"init": Z + 1}, "init must be memberships of 0 and 1"),
    ({"init": Z * 2.0}, "init must be memberships of 0 and 1"),
    ({"init": Z * -1}, "init must be memberships of 0 and 1"),
    ({"init": np.where(Z, np.nan, 0.0)}, "init must be memberships of 0 and 1"),
    ({"init": np.where(Z, 0.5, 0.0)}, "init must be memberships of 0 and 1"),
    ({"init": np.where(Z, "yes", "no")}, "init must be memberships of 0 and 1"),
    ({"init": Z.astype(object)}, "init must be memberships of 0 and 1"),
    ({"init": Z * 1j}, "init must be memberships of 0 and 1"),
]

PARAMETERS = [
    *[(kind, parameters, message) for kind in (KFeatures, BPMeans) for parameters, message in COMMON],
    (KFeatures, {"n_features": 0}, "n_features must be a whole number >= 1"),
    (KFeatures, {"n_features": -3}, "n_features must be a whole number >= 1"),
    (KFeatures, {"n_features": 65}, "n_features must be a whole number >= 1 and <= 64, got 65"),
    (KFeatures, {"n_features": 2.5}, "n_features must be a whole number"),
    (KFeatures, {"n_features": 2.0}, "n_features must be a whole number"),
    (KFeatures, {"n_features": True}, "n_features must be a whole number"),
    (KFeatures, {"n_features": "two"}, "n_features must be a whole number"),
    (KFeatures, {"n_features": 17, "assignment": "exact"}, "at most 16 features, got n_features=17"),
    (KFeatures, {"n_features": 2, "init": Z}, "init has 3 features.* n_features=2"),
    (KFeatures, {"empty": "keep"}, "empty must be one of 'drop', 'reseed'"),
    (KFeatures, {"empty": None}, "empty must be one of"),
    (KFeatures, {"init": "kfeatures"}, "init must be one of 'greedy' or memberships"),
    (BPMeans, {"feature_penalty": None}, "feature_penalty must be a number > 0"),
    (BPMeans, {"feature_penalty": "cheap"}, "feature_penalty must be one of 'auto' or a number > 0"),
    (BPMeans, {"max_features": 0}, "max_features must be a whole number >= 1"),
    (BPMeans, {"max_features": 65}, "max_features must be a whole number >= 1 and <= 64, got 65"),
    (BPMeans, {"max_features": 2.5}, "max_features must be a whole number"),
    (BPMeans, {"max_features": True}, "max_features must be a whole number"),
    (BPMeans, {"max_features": 17, "assignment": "exact"}, "at most 16 features, got max_features=17"),
    (BPMeans, {"collapsed": "yes"}, "collapsed must be True or False"),
    (BPMeans, {"collapsed": 1}, "collapsed must be True or False"),
    (BPMeans, {"shuffle": None}, "shuffle must be True or False"),
]


@pytest.mark.parametrize(("kind", "parameters", "message"), PARAMETERS)
def test_parameters(kind, parameters, message):
    model = kind(**parameters)
    with pytest.raises((ValueError, TypeError), match=message):
        model.fit(X)
    assert not hasattr(model, "features_")
    assert not hasattr(model, "feature_penalty_")


def test_seventeen_given_features_are_not_compared_in_all_combinations():
    """No number of features that is asked for, but of those given: the sweep takes over, as documented."""
    many = np.random.default_rng(0).random((40, 17)) < 0.5
    table = np.random.default_rng(1).normal(size=(40, 5))
    exact, sweep = (
        BPMeans(0.2, init=many, assignment=assignment, max_iter=1).fit for assignment in ("exact", "sweep")
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        np.testing.assert_array_equal(exact(table).assignments_, sweep(table).assignments_)


@pytest.mark.parametrize("model", [KFeatures(2, random_state=0), BPMeans(1.0, random_state=0)])
def test_new_rows(model):
    model.fit(X)
    before = model.features_.copy()
    for call in (model.predict, model.transform, model.reconstruct):
        with pytest.raises(ValueError, match="2 features"):
            call(X[:, :2])
        with pytest.raises(ValueError, match="NaN"):
            call(MISSING)
        with pytest.raises(ValueError, match="infinity"):
            call(np.where(np.isnan(MISSING), np.inf, MISSING))
        with pytest.raises(ValueError, match="2D array"):
            call(X[0])
        with pytest.raises(ValueError, match="0 sample"):
            call(X[:0])
    K = model.n_features_
    for bad, message in (
        (np.zeros((2, K + 1)), f"one column per feature, {K}, got {K + 1}"),
        (np.full((2, K), np.nan), "NaN"),
        (np.zeros(K), "2D array"),
    ):
        with pytest.raises(ValueError, match=message):
            model.inverse_transform(bad)
    np.testing.assert_array_equal(model.features_, before)


@pytest.mark.parametrize("kind", [KFeatures, BPMeans])
def test_nothing_before_a_fit(kind):
    model = kind()
    for call in (model.predict, model.transform, model.reconstruct, model.inverse_transform):
        with pytest.raises(NotFittedError, match="not fitted yet"):
            call(X)
    for call in (model.summary, model.get_feature_names_out):
        with pytest.raises(NotFittedError, match="not fitted yet"):
            call()


@pytest.mark.parametrize("kind", [KFeatures, BPMeans])
def test_a_failed_refit_keeps_the_old_result(kind):
    model = kind(feature_penalty=1.0, random_state=0).fit(X)
    before = model.assignments_.copy()
    for parameters in ({"assignment": "fast"}, {"init": np.zeros((3, 1), int)}, {"feature_penalty": -1.0}):
        with pytest.raises(ValueError, match="must be"):
            model.set_params(**parameters).fit(X)
        model.set_params(assignment="sweep", init="greedy", feature_penalty=1.0)
    with pytest.raises(ValueError, match="NaN"):
        model.fit(MISSING)
    np.testing.assert_array_equal(model.assignments_, before)
    assert model.predict(X).shape == before.shape


@pytest.mark.parametrize("scale", [1e-130, 1.0, 1e130])
@pytest.mark.parametrize("kind", [KFeatures, BPMeans])
def test_strange_but_good_input_is_quiet(kind, scale):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        models = [
            kind(random_state=0).fit(X * scale),
            kind(feature_penalty=scale**2, random_state=0).fit(X * scale),
        ]
    for model in models:
        assert np.isfinite(model.objective_)
        assert (
            model.n_features_
            == kind(**{**model.get_params(), "feature_penalty": model.feature_penalty})
            .fit(X * scale)
            .n_features_
        )
        assert np.isfinite(model.reconstruct(X * scale)).all()


@pytest.mark.parametrize("model", [KFeatures(2), KFeatures(), BPMeans(1.0), BPMeans()])
@pytest.mark.parametrize("scale", [1e155, 1e200])
def test_a_table_too_wide_for_squares_is_refused(model, scale):
    with pytest.raises(ValueError, match=r"ranges from.*scale it down"):
        model.fit(X * scale)


@pytest.mark.parametrize("table", [np.full((6, 3), 1e155), X + 1e200], ids=["constant", "offset"])
@pytest.mark.parametrize("model", [KFeatures(1), KFeatures(3), BPMeans(1.0), BPMeans()])
def test_a_table_too_far_away_for_squares_is_refused(model, table):
    with pytest.raises(ValueError, match=r"ranges from.*scale it down"):
        model.fit(table)
