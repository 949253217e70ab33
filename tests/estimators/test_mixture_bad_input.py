"""Bad input to the mixture with feature selection gets a sentence and changes nothing."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

from craftc import FeatureSelectionMixture

X = np.random.default_rng(0).normal(size=(20, 3))
MISSING = X.copy()
MISSING[3, 1] = np.nan
COUNTS = np.rint(np.abs(4.0 * X))
R = np.full((20, 2), 0.5)


def model_of(**parameters):
    return FeatureSelectionMixture(**{"n_components": 4, "random_state": 0, "n_threads": 1, **parameters})


PARAMETERS = [
    ({"n_components": 0}, "n_components must be a whole number >= 1"),
    ({"n_components": 2.0}, "n_components must be a whole number"),
    ({"n_components": True}, "n_components must be a whole number"),
    ({"n_components": "many"}, "n_components must be a whole number"),
    ({"selection": "none"}, "selection must be one of 'local', 'global', 'shared'"),
    ({"selection": None}, "selection must be one of"),
    ({"component": "multinomial"}, "component must be one of 'gaussian', 'poisson'"),
    ({"covariance": "diag"}, "covariance must be one of 'diagonal', 'full'"),
    ({"component": "poisson", "covariance": "full"}, 'covariance="full" requires component="gaussian"'),
    ({"noise": "none"}, "noise must be one of 'isotropic', 'feature'"),
    ({"scale": None}, "scale must be one of 'auto', 'scalar', 'standard', 'none'"),
    ({"feature_fraction": 0.0}, "feature_fraction must be a number > 0 and < 1"),
    ({"feature_fraction": 1}, "feature_fraction must be a number > 0 and < 1"),
    ({"feature_fraction": np.nan}, "feature_fraction must be a number"),
    ({"feature_fraction": "half"}, "feature_fraction must be a number"),
    ({"feature_fraction": 0.01}, "between 0.0101021 and 0.989898 for feature_variance 0.01"),
    ({"feature_fraction": 0.99}, "needs m .1 - m. > rho.*got 0.99.*Lower feature_variance"),
    (
        {"feature_fraction": 0.8, "selection": "global"},
        "between 0.276393 and 0.723607 for feature_variance 0.2",
    ),
    (
        {"feature_fraction": 0.2, "selection": "shared"},
        "between 0.276393 and 0.723607 for feature_variance 0.2",
    ),
    ({"feature_fraction": 0.2, "feature_variance": 0.16}, "between 0.2 and 0.8 for feature_variance 0.16"),
    ({"feature_variance": 0.0}, "feature_variance must be a number >= 1e-06 and < 0.25"),
    ({"feature_variance": 0.25}, "feature_variance must be a number >= 1e-06 and < 0.25"),
    ({"feature_variance": -0.1}, "feature_variance must be a number >= 1e-06"),
    ({"feature_variance": "small"}, "feature_variance must be a number"),
    ({"feature_variance": True}, "feature_variance must be a number"),
    ({"feature_variance": 0.24, "learn_fraction": True}, "learn_fraction needs feature_variance < 0.2381"),
    ({"learn_fraction": "no"}, "learn_fraction must be True, False, 'shared' or 'component', got 'no'"),
    ({"learn_fraction": None}, "learn_fraction must be True, False, 'shared' or 'component', got None"),
    ({"learn_fraction": 1}, "learn_fraction must be True, False, 'shared' or 'component', got 1"),
    (
        {"learn_fraction": "component", "selection": "shared"},
        'needs selections of every component, got selection="shared"',
    ),
    (
        {"learn_fraction": "component", "covariance": "full"},
        'needs selections of every component, got covariance="full"',
    ),
    (
        {"fraction_prior": 1.0},
        "fraction_prior must be two numbers > 0, the shapes of a Beta distribution, got 1.0",
    ),
    ({"fraction_prior": (1.0,)}, "fraction_prior must be two numbers > 0"),
    ({"fraction_prior": (1.0, 0.0)}, r"fraction_prior\[1\] must be a number >= 1e-06.*got 0.0"),
    ({"fraction_prior": ("a", 1.0)}, r"fraction_prior\[0\] must be a number"),
    ({"component": "bernoulli", "covariance": "full"}, 'covariance="full" requires component="gaussian"'),
    ({"merge": "no"}, "merge must be True or False"),
    ({"merge": 1}, "merge must be True or False"),
    ({"concentration": 0}, "concentration must be a number >= 1e-09"),
    ({"concentration": np.inf}, "concentration must be a number >= 1e-09"),
    ({"concentration": "fit"}, "concentration must be one of 'auto' or a number >= 1e-09 and <= 1e"),
    (
        {"concentration_prior": 1.0},
        "concentration_prior must be two numbers > 0, the shape and rate of a Gamma",
    ),
    ({"concentration_prior": (1.0, 0.0)}, r"concentration_prior\[1\] must be a number >= 1e-06.*got 0.0"),
    ({"mean_precision_prior": 0.0}, "mean_precision_prior must be a number >= 1e-09"),
    ({"degrees_of_freedom_prior": -1.0}, "degrees_of_freedom_prior must be a number >= 1e-06"),
    ({"covariance_prior": np.eye(2)}, "covariance_prior must be a number >= 1e-09"),
    ({"learn_fraction": True, "selection": "all"}, 'needs a selection of features, got selection="all"'),
    ({"n_init": 0}, "n_init must be a whole number >= 1"),
    ({"n_init": 1.5}, "n_init must be a whole number"),
    ({"max_iter": 0}, "max_iter must be a whole number >= 1"),
    ({"max_iter": None}, "max_iter must be a whole number"),
    ({"tol": -1e-9}, "tol must be a number >= 0"),
    ({"tol": np.nan}, "tol must be a number >= 0"),
    ({"tol": 1e307}, "tol must be a number >= 0 and <= 1"),
    ({"tol": "fine"}, "tol must be a number"),
    ({"random_state": "monday"}, "random_state must be None, a whole number"),
    ({"random_state": -1}, "random_state must be None"),
    ({"n_threads": 0}, "n_threads=0"),
    ({"n_threads": 1.5}, "n_threads must be"),
    ({"n_threads": "all"}, "n_threads must be"),
    ({"verbose": "loud"}, "verbose must be"),
    ({"verbose": -1}, "verbose must be"),
    ({"init": "k-means"}, "init must be one of 'kmeans', 'random' or responsibilities"),
    ({"init": None}, r"init must be responsibilities of shape \(20, K\).*got shape \(\)"),
    ({"init": np.ones(20)}, r"got shape \(20,\)"),
    ({"init": R[:19]}, r"got shape \(19, 2\)"),
    ({"init": R[:, :0]}, r"got shape \(20, 0\)"),
    ({"init": R[None]}, r"got shape \(1, 20, 2\)"),
    ({"init": np.full((20, 5), 0.2)}, r"K between 1 and n_components = 4, got shape \(20, 5\)"),
    ({"init": 0.9 * R}, "init must be responsibilities: finite, >= 0, with rows that sum to 1"),
    ({"init": np.where(np.arange(20)[:, None] == 7, 0.0, R)}, "with rows that sum to 1"),
    ({"init": np.where(np.arange(20)[:, None] == 7, np.nan, R)}, "init must be responsibilities: finite"),
    ({"init": np.where(np.arange(20)[:, None] == 7, np.inf, R)}, "init must be responsibilities: finite"),
    ({"init": R + np.array([1.0, -1.0])}, "init must be responsibilities: finite, >= 0"),
    ({"init": np.full((20, 1), "sure")}, "takes numbers only|init must be"),
]


@pytest.mark.parametrize(("parameters", "sentence"), PARAMETERS)
def test_parameters(parameters, sentence):
    model = model_of(**parameters)
    with pytest.raises((ValueError, TypeError), match=sentence):
        model.fit(X)
    assert not hasattr(model, "labels_")
    assert not hasattr(model, "elbo_")


@pytest.mark.parametrize("selection", ["local", "global", "shared"])
@pytest.mark.parametrize("variance", [None, 1e-6, 0.249])
def test_every_fraction_inside_its_interval_is_good(selection, variance):
    rho = {"local": 0.01, "global": 0.2, "shared": 0.2}[selection] if variance is None else variance
    half = np.sqrt(0.25 - rho)
    for fraction in (0.5 - 0.999 * half, 0.5, 0.5 + 0.999 * half):
        model = model_of(
            selection=selection, feature_variance=variance, feature_fraction=fraction, max_iter=4000
        ).fit(X)
        assert np.isfinite(model.elbo_)
        assert model.feature_fraction_ == fraction
    for fraction in (0.5 - 1.001 * half, 0.5 + 1.001 * half):
        with pytest.raises(ValueError, match="feature_fraction must"):
            model_of(selection=selection, feature_variance=variance, feature_fraction=fraction).fit(X)


def test_one_row():
    with pytest.raises(ValueError, match=r"1 sample.*minimum of 2"):
        model_of().fit(X[:1])


@pytest.mark.parametrize("wrong", [-1.0, 2.5, -0.25])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_what_is_no_count_is_named(wrong, dtype):
    bad = COUNTS.astype(dtype)
    bad[4, 1], bad[7, 1], bad[9, 0] = wrong, np.nan, np.nan
    model = model_of(component="poisson")
    with pytest.raises(
        ValueError,
        match=f"counts, whole numbers >= 0; other values in column 1 .the first: {wrong:g}.*gaussian",
    ):
        model.fit(bad)
    with pytest.raises(ValueError, match="other values in column 'words'"):
        model.fit(pd.DataFrame(bad, columns=["a", "words", "b"]))
    with pytest.raises(ValueError, match="other values in columns 0, 1, 2, 3, 4 and 7 more"):
        model.fit(np.tile(COUNTS, 4) + 0.5)
    bad[4, 1] = 3.0
    model.fit(bad)
    for call in (model.predict, model.predict_proba, model.score_samples, model.score):
        with pytest.raises(ValueError, match="other values in column 2"):
            call(np.column_stack([COUNTS[:, :2], COUNTS[:, 2] - 0.5]))


def test_what_is_no_indicator_is_named():
    bad = np.tile([[0.0, 1.0], [1.0, 1.0], [1.0, 0.0]], (4, 1))
    model = model_of(component="bernoulli").fit(bad)
    bad[4, 1] = 2.0
    for call in (model.fit, model.predict, model.predict_proba, model.score_samples):
        with pytest.raises(
            ValueError,
            match=r'component="bernoulli" needs 0 and 1; other values in column 1 \(the first: 2\)',
        ):
            call(bad)


def test_full_covariances_refuse_missing_cells():
    with pytest.raises(ValueError, match='covariance="full" does not accept missing cells, got NaN'):
        model_of(covariance="full").fit(MISSING)


# ---- warnings ----


@pytest.mark.parametrize("component", ["gaussian", "poisson"])
def test_constant_columns_are_said_once_by_name(component):
    table = np.column_stack([COUNTS, np.full(20, 3.0), COUNTS[:, 0], np.ones(20)])
    model = model_of(component=component, n_init=5)
    for rows, words in (
        (table, "columns 3, 5."),
        (table[:, :4], "column 3."),
        (pd.DataFrame(table, columns=list("abcdef")), "columns 'd', 'f'."),
        (np.column_stack([COUNTS, np.zeros((20, 8))]), "columns 3, 4, 5, 6, 7 and 3 more."),
    ):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model.fit(rows)
        assert [str(w.message) for w in caught] == [
            f"Columns without variance are kept but never selected: {words}"
        ]
        assert caught[0].category is UserWarning
        assert caught[0].filename == __file__
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            model.predict(rows)


def test_a_column_without_a_value_is_refused_by_name():
    empty = pd.DataFrame(COUNTS, columns=list("abc")).assign(d=np.nan)
    with pytest.raises(ValueError, match=r"Column 'd' has no value in any of its 20 row\(s\); drop it"):
        model_of().fit(empty)
    with pytest.raises(ValueError, match=r"Column 'x3' has no value in any of its 20 row\(s\); drop it"):
        model_of(component="poisson").fit(empty.to_numpy())
    empty.loc[0, "d"] = 1.0
    with pytest.raises(ValueError, match=r"Column 'd' has no value in any of its 19 row\(s\)"):
        model_of().fit(empty, sample_weight=np.arange(20) > 0)


def test_nearly_a_cluster_for_each_row_is_a_warning():
    noise = np.random.default_rng(0).normal(size=(10, 500))
    with pytest.warns(UserWarning, match="found 10 clusters in 10 rows, which are too few") as caught:
        FeatureSelectionMixture(random_state=0).fit(noise)
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        FeatureSelectionMixture(5, random_state=0).fit(noise)
        FeatureSelectionMixture(random_state=0).fit(np.random.default_rng(0).normal(size=(20, 500)))


@pytest.mark.parametrize("covariance", ["diagonal", "full"])
def test_a_constant_table_is_one_cluster_without_features(covariance):
    model = model_of(covariance=covariance)
    with pytest.warns(UserWarning, match="never selected: columns 0, 1"):
        model.fit(np.ones((10, 2)))
    assert model.n_clusters_ == 1
    assert not model.feature_mask_.any()
    np.testing.assert_array_equal(model.means_, np.ones((1, 2)))
    np.testing.assert_array_equal(model.predict_proba(np.zeros((3, 2))), np.ones((3, 1)))


STRANGE = {
    "tiny": X * 1e-130,
    "huge": X * 1e130,
    "far": X + 1e9,
    "missing": MISSING,
    "large float32": (np.abs(X) * 1e38).astype(np.float32),
    "mixed units": X * [1e-60, 1.0, 1e60],
    "one cell a row": np.where(np.eye(3, dtype=bool)[np.arange(20) % 3], X, np.nan),
}


@pytest.mark.parametrize("kind", STRANGE)
def test_strange_but_good_input_is_quiet(kind):
    table = STRANGE[kind]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = model_of().fit(table)
        proba, scores = model.predict_proba(table), model.score_samples(table)
    assert np.isfinite(model.elbo_)
    assert np.isfinite(scores).all()
    np.testing.assert_allclose(proba.sum(axis=1), 1.0)
    assert np.isfinite(model.means_).all()
    assert (model.variances_ > 0).all()


@pytest.mark.parametrize("wild", [1e25, 1e150, 1e160, 1e200, 1e307])
def test_a_wild_row_disturbs_no_other(wild):
    model = model_of().fit(np.concatenate([X, X + 8.0]))
    rows = np.vstack([np.full(3, wild), [wild, np.nan, -wild], X])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        proba, scores = model.predict_proba(rows), model.score_samples(rows)
    np.testing.assert_array_equal(proba[2:], model.predict_proba(X))
    np.testing.assert_array_equal(scores[2:], model.score_samples(X))
    np.testing.assert_allclose(proba.sum(axis=1), 1.0)
    assert not np.isnan(scores).any()


# ---- new rows, and none before a fit ----


def test_new_rows():
    model = model_of().fit(X)
    before = model.means_.copy()
    for call in (model.predict, model.predict_proba, model.score_samples, model.score):
        with pytest.raises(ValueError, match="2 features"):
            call(X[:, :2])
        with pytest.raises(ValueError, match="infinity"):
            call(np.where(np.isnan(MISSING), np.inf, X))
        with pytest.raises(ValueError, match="2D array"):
            call(X[0])
        with pytest.raises(ValueError, match="0 sample"):
            call(X[:0])
        call(X[:1])
        call(MISSING)
    for bad, sentence in (
        (0, "n_samples must be a whole number >= 1"),
        (1.5, "n_samples must be a whole"),
        (None, "n_samples must be"),
    ):
        with pytest.raises((ValueError, TypeError), match=sentence):
            model.sample(bad)
    with pytest.raises(ValueError, match="random_state must be None"):
        model.sample(2, random_state="monday")
    np.testing.assert_array_equal(model.means_, before)


@pytest.mark.parametrize(
    "method", ["predict", "predict_proba", "score_samples", "score", "sample", "summary"]
)
def test_nothing_before_a_fit(method):
    call = getattr(FeatureSelectionMixture(), method)
    with pytest.raises(NotFittedError, match="not fitted yet"):
        call() if method in ("sample", "summary") else call(X)


def test_a_failed_refit_keeps_the_old_result():
    model = model_of().fit(X)
    before = model.labels_.copy()
    for parameters in ({"selection": "none"}, {"init": R[:3]}, {"feature_fraction": 2.0}):
        with pytest.raises(ValueError, match="must"):
            model.set_params(**parameters).fit(X)
        model.set_params(selection="local", init="kmeans", feature_fraction=0.5)
    with pytest.raises(ValueError, match="infinity"):
        model.fit(np.where(np.isnan(MISSING), np.inf, X))
    np.testing.assert_array_equal(model.labels_, before)
    np.testing.assert_array_equal(model.predict(X), before)
