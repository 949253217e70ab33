"""observed_graph, and graphs that are given to GraphSpectralFeatures."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone

from craftc import GraphSpectralFeatures, MixedTable
from craftc._common import threads
from craftc.spectral import observed_graph
from tests.estimators.spectral_cases import assert_same_bits, table
from tests.estimators.test_spectral_bad_input import TABLES


def graph_of(X, **parameters):
    return observed_graph(X, **{"random_state": 0, "n_threads": 1, **parameters})


def assert_same_graph(a, b):
    assert a.names == b.names
    np.testing.assert_array_equal(a.weights, b.weights)
    np.testing.assert_array_equal(a.objective_path, b.objective_path)
    assert a.objective == b.objective


# ---- the function ----


@pytest.mark.parametrize("scaling", ["range", "normal"])
@pytest.mark.parametrize("missing", ["ignore", "category"])
def test_the_graph_has_the_columns_of_the_estimator(scaling, missing):
    X = table(p_missing=0.1)
    graph = graph_of(X, scaling=scaling, missing=missing)
    model = GraphSpectralFeatures(2, scaling=scaling, missing=missing, random_state=0).fit(X)
    assert graph.names == tuple(model.encoded_names_)
    assert graph.weights.shape == model.graph_.shape
    np.testing.assert_array_equal(graph.weights, graph.weights.T)
    same_variable = model.encoded_columns_[:, None] == model.encoded_columns_
    assert not graph.weights[same_variable].any()
    assert graph.weights[~same_variable].all()
    assert graph.objective_path.shape == (20,)
    assert np.linalg.norm(graph.weights) == pytest.approx(np.sqrt((~same_variable).sum()))


def test_every_kind_of_table_gives_the_same_bits():
    X = table(p_missing=0.1)
    graph = graph_of(X)
    for other in (pl.from_pandas(X), MixedTable.from_data(X)):
        assert_same_graph(graph_of(other), graph)
    unnamed = graph_of(X.to_numpy(object), categorical=[3, 4])
    np.testing.assert_array_equal(unnamed.weights, graph.weights)
    assert unnamed.names[0] == "x0"
    numbers = np.column_stack([table(P=0).to_numpy(), np.arange(120) % 3])
    for laid in (np.asfortranarray(numbers), np.repeat(numbers, 2, axis=0)[::2]):
        assert_same_graph(graph_of(laid, categorical=[3]), graph_of(numbers, categorical=[3]))


def test_the_seed_decides_the_bits_and_threads_do_not(monkeypatch):
    monkeypatch.setattr(threads, "SMALL_WORK", 0)
    X = table()
    assert_same_graph(graph_of(X, n_threads=3), graph_of(X))
    assert not np.array_equal(graph_of(X, random_state=1).weights, graph_of(X).weights)
    singular = [graph_of(X, factorization="svd", random_state=seed) for seed in (0, 1)]
    assert_same_graph(*singular)


@pytest.mark.parametrize("p_missing", [0.0, 0.1])
def test_rows_and_columns_may_be_shuffled(p_missing):
    X = table(P=3, p_missing=p_missing)
    plain = graph_of(X, factorization="svd")
    for seed in range(3):
        rng = np.random.default_rng(seed)
        other = graph_of(X.iloc[rng.permutation(len(X))][rng.permutation(X.columns)], factorization="svd")
        order = [other.names.index(name) for name in plain.names]
        np.testing.assert_allclose(other.weights[np.ix_(order, order)], plain.weights, rtol=0, atol=1e-8)
        assert other.objective == pytest.approx(plain.objective, rel=1e-9)


def test_a_missing_cell_as_a_level_is_that_level():
    X = table(p_missing=0.1)
    filled = X.assign(**{c: X[c].fillna(X[c].mean()) for c in ("n0", "n1", "n2")})
    filled = filled.assign(**{c: X[c].where(X[c].notna(), "(missing)") for c in ("c0", "c1")})
    ours, expected = (
        graph_of(X, missing="category", factorization="svd"),
        graph_of(filled, factorization="svd"),
    )
    order = [ours.names.index(name) for name in expected.names]
    np.testing.assert_allclose(ours.weights[np.ix_(order, order)], expected.weights, rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"sign": 0}, r"sign must be -1 \(as printed\) or 1 \(uphill\), got 0"),
        ({"sign": True}, "sign must be -1"),
        ({"sign": "up"}, "sign must be -1"),
        ({"sign": None}, "sign must be -1"),
        ({"theta0": 0}, "theta0 must not be 0, got 0: the gradient is 0 there"),
        ({"theta0": np.inf}, "theta0 must be a finite number"),
        ({"theta0": "one"}, "theta0 must be a number"),
        ({"rate": 0.0}, "rate must be a number > 0"),
        ({"rate": "slow"}, "rate must be a number > 0"),
        ({"n_steps": -1}, "n_steps must be a whole number >= 0"),
        ({"n_steps": 2.5}, "n_steps must be a whole number >= 0"),
        ({"n_steps": 10**10}, "n_steps must be a whole number of at most"),
        ({"scaling": "log"}, "scaling must be one of 'range', 'normal', got 'log'"),
        ({"factorization": "nmf"}, "factorization must be one of 'hals', 'svd'"),
        ({"missing": "drop"}, "missing must be one of 'ignore', 'category', 'error', got 'drop'"),
        ({"categorical": ["nobody"]}, "categorical names column 'nobody'"),
        ({"beta": 0}, "beta must be a number >= 1e-100"),
        ({"eps": 2.0}, "eps must be a number > 0 and < 2 = beta, got 2.0"),
        ({"eps": 1e-320}, "eps=1e-320 is less than 1e-100 of beta"),
        ({"indicator_weight": 0.0}, "indicator_weight must be a number > 0"),
        ({"n_factors": 50}, "n_factors must be at most p = 7, the number of encoded columns, got 50"),
        ({"random_state": "monday"}, "random_state must be None, a whole number"),
        ({"n_threads": 0}, "n_threads=0"),
        ({"theta0": 1e300, "rate": 1e300}, "The steps overflow at theta0=1e.300"),
    ],
)
def test_bad_parameters(parameters, sentence):
    with pytest.raises((ValueError, TypeError), match=sentence):
        graph_of(table(), **parameters)


@pytest.mark.parametrize(("rows", "sentence"), TABLES)
def test_bad_tables(rows, sentence):
    with pytest.raises((ValueError, TypeError), match=sentence):
        graph_of(rows)


# ---- a given graph ----


def test_a_given_graph_is_the_graph():
    X = table()
    graph = graph_of(X)
    model = GraphSpectralFeatures(3, graph=graph).fit(X)
    np.testing.assert_array_equal(model.graph_, graph.weights)
    learned = GraphSpectralFeatures(3, random_state=0).fit(X)
    again = GraphSpectralFeatures(3, graph=learned.graph_).fit(X)
    np.testing.assert_array_equal(again.components_, learned.components_)
    np.testing.assert_array_equal(again.transform(X), learned.transform(X))
    assert again.edges().equals(learned.edges())
    for name in ("codes_", "objective_", "objective_path_", "n_iter_", "converged_"):
        assert hasattr(learned, name)
        assert not hasattr(again, name)


def test_every_form_of_a_graph_gives_the_same_bits():
    X = table()
    graph = graph_of(X)
    frame = pd.DataFrame(graph.weights, graph.names, graph.names)
    expected = GraphSpectralFeatures(3, graph=graph).fit(X)
    weights = graph.weights
    diagonal, rounded = weights + np.eye(7), weights * (1 + 1e-15 * np.triu(np.ones((7, 7)), 1))
    for form in (
        weights,
        weights.tolist(),
        frame,
        pl.from_pandas(frame),
        np.asfortranarray(weights),
        diagonal,
    ):
        model = GraphSpectralFeatures(3, graph=form).fit(X)
        np.testing.assert_array_equal(model.graph_, expected.graph_)
        np.testing.assert_array_equal(model.components_, expected.components_)
    model = GraphSpectralFeatures(3, graph=rounded).fit(X)
    np.testing.assert_array_equal(model.graph_, model.graph_.T)
    np.testing.assert_allclose(model.graph_, expected.graph_, rtol=1e-14)


def test_a_graph_of_other_columns_is_refused():
    graph = graph_of(table())
    renamed = table().rename(columns={"n1": "other"})
    with pytest.raises(
        ValueError, match=r"encoded columns .*, got 'n1' at position 1, where the table has 'other'"
    ):
        GraphSpectralFeatures(3, graph=graph).fit(renamed)
    swapped = pd.DataFrame(graph.weights, graph.names, graph.names)[[*graph.names[::-1]]]
    with pytest.raises(
        ValueError, match=r"encoded columns of the table in their order, got 'c1=c' at position 0"
    ):
        GraphSpectralFeatures(3, graph=swapped).fit(table())


def test_a_refit_leaves_nothing_of_the_other_kind():
    X = table()
    graph = graph_of(X)
    given, learned = GraphSpectralFeatures(3, graph=graph), GraphSpectralFeatures(3, random_state=0)
    given.fit(X)
    learned.fit(X)
    changed = clone(learned).fit(X).set_params(graph=graph, random_state=None)
    with pytest.raises(AttributeError, match="has no attribute 'score'"):
        changed.score(X)
    assert vars(changed.fit(X)).keys() == vars(given).keys()
    changed.set_params(graph=None, random_state=0)
    with pytest.raises(AttributeError, match="has no attribute 'score'"):
        changed.score(X)
    assert_same_bits(changed.fit(X), learned)
    assert changed.score(X) == learned.score(X)


def test_the_graph_is_not_changed_and_is_pickled():
    X = table()
    graph = graph_of(X)
    kept = graph.weights.copy()
    model = GraphSpectralFeatures(3, graph=graph).fit(X)
    model.graph_[:] = 0.0
    np.testing.assert_array_equal(graph.weights, kept)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.transform(X), model.transform(X))
    assert_same_graph(again.graph, graph)
    assert clone(model).graph.names == graph.names
