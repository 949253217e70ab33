"""Bad input to DP-means gets a sentence and changes nothing."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from craftc import DPMeans

X = np.random.default_rng(0).normal(size=(20, 3))
WITH_NAN = X.copy()
WITH_NAN[3, 1] = np.nan

PARAMETERS = [
    ({"cluster_penalty": -1.0}, "cluster_penalty must be a number >= 0"),
    ({"cluster_penalty": -np.inf}, "cluster_penalty must be a number >= 0"),
    ({"cluster_penalty": np.nan}, "cluster_penalty must be a number >= 0"),
    ({"cluster_penalty": "cheap"}, "cluster_penalty must be one of 'auto' or a number"),
    ({"cluster_penalty": None}, "cluster_penalty must be a number"),
    ({"cluster_penalty": True}, "cluster_penalty must be a number"),
    ({"cluster_penalty": np.ones(2)}, "cluster_penalty must be a number"),
    ({"cluster_penalty": 1.0, "n_clusters": 2}, "leave one out"),
    ({"n_clusters": 3, "max_clusters": 2}, "n_clusters=3 is more than max_clusters=2; leave one out"),
    ({"n_clusters": 3, "max_clusters": 2, "mode": "lowest"}, "n_clusters=3 is more than max_clusters=2"),
    ({"covariance": np.eye(200)}, r"got array\(\[\[1., 0.*… of shape \(200, 200\)\.$"),
    ({"n_clusters": 0}, "n_clusters must be a whole number >= 1"),
    ({"n_clusters": 2.5}, "n_clusters must be a whole number"),
    ({"n_clusters": "two"}, "n_clusters must be a whole number"),
    ({"max_clusters": 0}, "max_clusters must be a whole number >= 1"),
    ({"max_clusters": 1.5}, "max_clusters must be a whole number"),
    ({"mode": "fast"}, "mode must be one of 'auto', 'serial', 'delayed', 'collapsed', 'lowest'"),
    ({"mode": None}, "mode must be one of"),
    ({"polish": "no"}, "polish must be"),
    ({"covariance": "diagonal"}, "covariance must be one of"),
    ({"covariance_prior": -1.0}, "covariance_prior must be a number >= 0"),
    ({"covariance_prior": np.nan}, "covariance_prior must be a number >= 0"),
    (
        {"init": "kmeans"},
        "init must be one of 'auto', 'single', 'random', 'random-row', 'farthest' or labels",
    ),
    ({"init": None}, "init must be integer labels.*got object"),
    (
        {"init": [0, 1]},
        r"init must be integer labels of shape \(20,\), one label for each row.*got int64 of shape \(2,\)",
    ),
    ({"init": np.zeros((20, 1), int)}, r"shape \(20, 1\)"),
    ({"init": np.zeros(20)}, "integer labels.*got float64"),
    ({"init": np.full(20, -1)}, "must contain non-negative cluster labels; got -1"),
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
]


@pytest.mark.parametrize(("parameters", "sentence"), PARAMETERS)
def test_parameters(parameters, sentence):
    model = DPMeans(**parameters)
    for call in (model.fit, model.partial_fit):
        with pytest.raises((ValueError, TypeError), match=sentence):
            call(X)
        assert not hasattr(model, "labels_")
        assert not hasattr(model, "cluster_penalty_")


def test_new_rows():
    model = DPMeans(1.0).fit(X)
    before = model.cluster_centers_.copy()
    for call in (model.predict, model.transform, model.partial_fit):
        with pytest.raises(ValueError, match="2 features"):
            call(X[:, :2])
        with pytest.raises(ValueError, match="NaN"):
            call(WITH_NAN)
        with pytest.raises(ValueError, match="2D array"):
            call(X[0])
    with pytest.raises(ValueError, match="zero"):
        model.partial_fit(X, sample_weight=np.zeros(20))
    np.testing.assert_array_equal(model.cluster_centers_, before)
    np.testing.assert_array_equal(model.predict(X), model.labels_)


def test_nothing_before_a_fit():
    for call in (DPMeans().predict, DPMeans().transform):
        with pytest.raises(NotFittedError, match="not fitted yet"):
            call(X)


@pytest.mark.parametrize("n_clusters", [0, 1.5, "many"])
def test_penalty_path(n_clusters):
    with pytest.raises((ValueError, TypeError), match="n_clusters must be a whole number"):
        DPMeans().penalty_path(X, n_clusters)


def test_a_failed_refit_keeps_the_old_result():
    model = DPMeans(1.0).fit(X)
    labels = model.labels_.copy()
    for parameters in ({"mode": "fast"}, {"init": np.zeros(3, int)}, {"cluster_penalty": -1.0}):
        with pytest.raises(ValueError, match="must be"):
            DPMeans.fit(model.set_params(**parameters), X)
        model.set_params(mode="serial", init="single", cluster_penalty=1.0)
    np.testing.assert_array_equal(model.predict(X), labels)
    assert model.cluster_penalty_ == 1.0


@pytest.mark.parametrize("scale", [1e-130, 1.0, 1e130])
@pytest.mark.parametrize("weight", [1e-30, 1.0, 1e30])
def test_strange_but_good_input_is_quiet(scale, weight):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = DPMeans(scale**2).fit(X * scale, sample_weight=np.full(20, weight))
    assert np.isfinite(model.objective_)
    np.testing.assert_array_equal(model.predict(X * scale), model.labels_)


def test_a_table_too_wide_for_squares_is_refused():
    with pytest.raises(ValueError, match=r"ranges from.*scale it down"):
        DPMeans(1.0).fit(X * 1e155)


@pytest.mark.parametrize("penalty", [0.0, 1e-6, 1e-4])
def test_more_clusters_than_sweeps(penalty):
    """Above 16 384 rows, sweeps that open one cluster each end at max_iter, and the warning says so."""
    X = np.random.default_rng(0).normal(size=(17_000, 2))
    with pytest.warns(ConvergenceWarning, match="every sweep opens one cluster.*mode='serial'"):
        model = DPMeans(penalty, max_iter=4).fit(X)
    assert not model.converged_
    with pytest.warns(ConvergenceWarning, match="raise max_iter.$"):
        DPMeans(1.0, max_iter=1, mode="delayed").fit(X)
