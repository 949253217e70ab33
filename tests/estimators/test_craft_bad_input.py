"""Bad input gets a sentence and changes nothing."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix
from sklearn.exceptions import NotFittedError

from craftc import CRAFT, PaperCRAFT
from craftc.datasets import load_heart
from craftc.distributed import Partitions

X = np.random.default_rng(0).normal(size=(20, 3))
WITH_NAN = X.copy()
WITH_NAN[3, 1] = np.nan
FRAME = pd.DataFrame({"a": X[:, 0], "b": pd.Categorical(["u", "v"] * 10)})

PARAMETERS = [
    ({"price_factor": 0.0}, "price_factor must be"),
    ({"n_clusters": 0}, "n_clusters must be"),
    ({"n_clusters": 2.5}, "n_clusters must be"),
    ({"n_clusters": 21}, "more than the 20 rows"),
    ({"max_clusters": 0}, "max_clusters must be"),
    ({"n_init": 0}, "n_init must be"),
    ({"missing": "drop"}, "missing must be one of"),
    ({"unknown": "guess"}, "unknown must be one of"),
    ({"init": "kmeans"}, "init must be one of"),
    ({"init": [0, 1]}, "one label for each row"),
    ({"init": np.full(20, -1)}, "must contain non-negative cluster labels; got -1"),
    ({"init": np.zeros(20)}, "integer labels.*got float64"),
    ({"init": np.arange(20), "max_clusters": 5}, "at most 5"),
    ({"init": [np.zeros(20, int), np.zeros(19, int)]}, "one label for each row"),
    ({"n_threads": 0}, "n_threads=0"),
    ({"categorical": ["nobody"]}, "nobody"),
    ({"categorical": [7]}, "7"),
]

OF_THE_PAPER = [
    ({"feature_fraction": 0.0}, "feature_fraction must be"),
    ({"feature_fraction": 1.5}, "feature_fraction must be"),
    ({"feature_fraction": 5e-324}, "feature_fraction must be a number >= 1e-09"),
    ({"feature_fraction": float("nan")}, "feature_fraction must be"),
    ({"feature_variance": 0.0}, "feature_variance must be"),
    ({"feature_variance": 0.25}, "feature_variance must be"),
    ({"feature_variance": 0.1, "feature_fraction": 1.0}, "feature_variance has no meaning"),
    ({"numeric_threshold": -0.5}, "numeric_threshold must be a number >= 0"),
    ({"numeric_threshold": ("absolute", -4.0)}, "numeric_threshold must be a number >= 0, got -4.0"),
    ({"numeric_threshold": ("relative", 4.0)}, 'or ."absolute", number., got'),
    ({"cluster_price": -1.0}, "cluster_price must be"),
    ({"cluster_price": "cheap"}, "cluster_price must be"),
    ({"max_iter": 0}, "max_iter must be"),
    ({"selection": "best"}, "selection must be one of"),
    ({"model": "bayes"}, "model must be one of"),
    ({"selection": "priced"}, "selection=.priced. needs model=.likelihood."),
    ({"n_clusters": "all"}, "n_clusters must be"),
    ({"price_factor": "auto"}, "price_factor must be"),
]


@pytest.mark.parametrize(
    ("estimator", "parameters", "sentence"),
    [(CRAFT, *case) for case in PARAMETERS] + [(PaperCRAFT, *case) for case in PARAMETERS + OF_THE_PAPER],
)
def test_parameters(estimator, parameters, sentence):
    model = estimator(**parameters)
    with pytest.raises((ValueError, TypeError), match=sentence):
        model.fit(X)
    assert not hasattr(model, "labels_")


TABLES = [
    (np.empty((0, 3)), {}, "0 sample"),
    (np.empty((5, 0)), {}, "0 feature"),
    (WITH_NAN, {"missing": "error"}, "NaN"),
    (np.where(np.arange(60).reshape(20, 3) == 5, np.inf, X), {}, "inf"),
    (np.column_stack([X, np.full(20, np.nan)]), {}, "x3"),
    (X.astype(complex), {}, "Complex data not supported"),
    (np.array([["a", 1.0], ["b", object()]], dtype=object), {}, "DataFrame|categorical|argument must be"),
    (csr_matrix(X), {}, "[Ss]parse"),
    (X[:, 0], {}, "1D array|2D array"),
    (pd.DataFrame({"when": pd.date_range("2026-01-01", periods=5), "x": range(5)}), {}, "when"),
    (pd.DataFrame({"id": [f"row {i}" for i in range(9)], "x": range(9)}), {}, "id"),
    (pd.DataFrame({"thing": [object() for _ in range(9)], "x": range(9)}), {}, "thing"),
    (pd.DataFrame({"many": pd.Categorical(np.arange(140_000) % 70_000), "x": 1.0}), {}, "many.*levels"),
]


@pytest.mark.parametrize(("table", "parameters", "sentence"), TABLES)
def test_tables(table, parameters, sentence):
    model = CRAFT(**parameters)
    with pytest.raises((ValueError, TypeError), match=sentence):
        model.fit(table)
    assert not hasattr(model, "labels_")


@pytest.mark.parametrize(
    ("weight", "sentence"),
    [
        (-np.ones(20), "finite and >= 0"),
        (np.full(20, np.nan), "finite and >= 0"),
        (np.full(20, np.inf), "finite and >= 0"),
        (np.zeros(20), "zero"),
        (np.ones(19), "one weight for every row"),
        (np.ones((20, 1)), "1D"),
        (["heavy"] * 20, "numbers"),
    ],
)
def test_weights(weight, sentence):
    with pytest.raises(ValueError, match=sentence):
        CRAFT().fit(X, sample_weight=weight)


def test_columns_at_predict():
    model = CRAFT(n_clusters=2, random_state=0).fit(FRAME)
    for frame, sentence in [
        (FRAME.rename(columns={"a": "c"}), "(?s)unseen.*c.*missing.*a"),
        (FRAME[["a"]], "(?s)missing.*b"),
        (FRAME.assign(extra=1.0), "(?s)unseen.*extra"),
        (FRAME.assign(a="text"), "a"),
    ]:
        with pytest.raises((ValueError, TypeError), match=sentence):
            model.predict(frame)
    with (
        pytest.warns(UserWarning, match="X does not have valid feature names, but CRAFT was fitted with"),
        pytest.raises(ValueError, match="3 features"),
    ):
        model.predict(X)
    np.testing.assert_array_equal(model.predict(FRAME), model.labels_)  # nothing was lost


def test_a_failed_refit_keeps_the_old_result():
    heart = load_heart().data
    model = CRAFT(n_clusters=2, random_state=0).fit(heart)
    labels = model.labels_.copy()
    with pytest.raises(ValueError, match="more than the 1 rows"):
        model.fit(heart.head(1))
    np.testing.assert_array_equal(model.predict(heart), labels)


def test_it_says_when_it_did_not_converge():
    from sklearn.exceptions import ConvergenceWarning

    with pytest.warns(ConvergenceWarning, match="raise max_iter"):
        PaperCRAFT(6, cluster_price=0.0, max_iter=1, n_init=1, random_state=0).fit(load_heart().data)


def test_a_refused_fit_leaves_a_fitted_estimator_as_it_was():
    small, wide = (
        pd.DataFrame({"a": [1.0, 2.0, 4.0] * 9, "b": list("xyzzxxyzy") * 3}),
        np.random.default_rng(0).normal(size=(27, 4)),
    )
    model = CRAFT(random_state=0, n_init=1).fit(small)
    before = {name: repr(value) for name, value in vars(model).items() if not name.startswith("_")}
    for weight in (-np.ones(27), np.ones(5), np.full(27, 1e300)):
        with pytest.raises(ValueError, match="sample_weight"):
            model.fit(wide, sample_weight=weight)
    assert {name: repr(value) for name, value in vars(model).items() if not name.startswith("_")} == before
    assert list(model.predict(small)) == list(model.labels_)


def test_the_paper_reads_no_collections():
    parts = Partitions([X[:9], X[9:]])
    with pytest.raises(ValueError, match="PaperCRAFT reads tables in this process, got a Partitions"):
        PaperCRAFT().fit(parts)


@pytest.mark.parametrize("ask", [lambda m: m.cut(2), lambda m: m.outliers(3), lambda m: m.representatives(3)])
def test_answers_of_a_model_without_fit_say_so(ask):
    with pytest.raises(NotFittedError, match="not fitted yet"):
        ask(CRAFT())
