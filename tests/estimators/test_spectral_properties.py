"""Properties of graph spectral features on any table: what leaves the graph as it is, features and back, the same bits everywhere."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys

import networkx as nx
import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import pairwise_distances
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline

from craftc import CRAFT, GraphSpectralFeatures, MixedTable
from craftc._common import threads as parallel
from craftc.datasets import load_heart
from craftc.spectral import estimator
from tests.conftest import ROOT
from tests.twins import spectral as twin

MODELS = {
    "default": {},
    "singular": {"factorization": "svd"},
    "dense": {"conditionals": "dense"},
    "logistic": {"groups": "logistic", "unary": False},
    "sparse": {"l1": 0.05},
    "observed": {"objective": "observed"},
    "uphill": {"objective": "observed", "sign": 1, "factorization": "svd"},
    "absolute": {"laplacian": "abs", "normalized": False, "skip_first": True},
}
every_model = pytest.mark.parametrize("name", MODELS)
quiet = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
FITTED = ("graph_", "encoded_names_", "components_", "eigenvalues_", "spectrum_", "codes_", "objective_path_", "encoded_columns_")


def model_of(name="default", n_components=3, **parameters):
    """An unfitted model by name, its seed 0."""
    return GraphSpectralFeatures(n_components, **{"random_state": 0, "n_threads": 1, **MODELS[name], **parameters})


def table(seed=0, n=120, p1=3, P=2, holes=0.0, dtype=np.float64):
    """Numeric columns that go together, and variables of 2 to 4 levels that each follow one of them."""
    rng = np.random.default_rng(seed)
    hidden = rng.normal(size=(n, max(p1, 1)))
    numeric = (hidden @ rng.normal(size=(max(p1, 1), max(p1, 1))))[:, :p1] * 10.0 ** rng.integers(-3, 4, p1) + rng.normal(0, 3, p1)
    numeric[rng.random((n, p1)) < holes] = np.nan
    columns = {f"n{j}": numeric[:, j].astype(dtype) for j in range(p1)}
    for d in range(P):
        m = 2 + d % 3
        code = np.clip(np.rint(hidden[:, d % max(p1, 1)] + rng.normal(0, 1, n)) + m // 2, 0, m - 1).astype(int)
        code[rng.permutation(n)[:m]] = np.arange(m)
        cells = np.array(list("abcd"), dtype=object)[code]
        cells[rng.random(n) < holes] = None
        columns[f"c{d}"] = cells
    return pd.DataFrame(columns)


def assert_same_bits(a, b):
    """Two fitted models agree to the last bit."""
    for attribute in FITTED:
        np.testing.assert_array_equal(getattr(a, attribute), getattr(b, attribute), err_msg=attribute)
    assert (a.objective_, a.n_iter_, a.converged_, a.n_numeric_) == (b.objective_, b.n_iter_, b.converged_, b.n_numeric_)


def encoded(model, X):
    """The encoded columns, by features of a model that has as many as them."""
    return model.transform(X) @ model.components_


# ---- the objective ----


@settings(max_examples=100, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    conditionals=st.sampled_from(["codes", "dense"]),
    groups=st.sampled_from(["softmax", "logistic"]),
    unary=st.booleans(),
    factorization=st.sampled_from(["hals", "svd"]),
    missing=st.sampled_from(["ignore", "category"]),
    holes=st.sampled_from([0.0, 0.0, 0.1, 0.4]),
    l2=st.sampled_from([0.003, 0.1, 3.0]),
    grid_size=st.sampled_from([4, 16]),
    dtype=st.sampled_from([np.float64, np.float32]),
)
@pytest.mark.filterwarnings("ignore:Constant columns:UserWarning")
def test_the_objective_never_rises(seed, missing, holes, dtype, **parameters):
    rng = np.random.default_rng(seed)
    p1, P = rng.integers(1, 5), rng.integers(1, 5)
    if rng.random() < 0.3:
        p1, P = (0, P + 1) if rng.random() < 0.5 else (p1 + 1, 0)
    X = table(seed, int(rng.integers(20, 90)), p1, P, holes, dtype)
    model = GraphSpectralFeatures(missing=missing, random_state=seed, n_threads=1, **parameters).fit(X)
    path = model.objective_path_
    assert (np.diff(path) <= 1e-12 * np.abs(path).max()).all()
    assert model.converged_
    check_state(model, X)


def check_state(model, X):
    """Attributes agree with each other."""
    p, kept = len(model.encoded_names_), min(model.n_components, len(model.encoded_names_))
    assert model.graph_.shape == (p, p)
    np.testing.assert_array_equal(model.graph_, model.graph_.T)
    assert np.isfinite(model.graph_).all()
    assert not model.graph_[model.encoded_columns_[:, None] == model.encoded_columns_].any()
    assert model.components_.shape == (kept, p)
    np.testing.assert_allclose(model.components_ @ model.components_.T, np.eye(kept), atol=1e-12)
    assert model.spectrum_.shape == (p,)
    assert (np.diff(model.spectrum_) >= 0).all()
    assert model.spectrum_[0] >= -1e-12
    np.testing.assert_array_equal(model.eigenvalues_, model.spectrum_[:kept])
    assert model.n_iter_ == len(model.objective_path_)
    assert model.objective_ == pytest.approx(model.objective_path_[-1], rel=1e-12)
    assert model.codes_.shape == (p, 2)
    assert np.isnan(model.codes_[: model.n_numeric_]).all()
    if X.notna().all(axis=None):
        assert (model.codes_[model.n_numeric_ :].prod(axis=1) <= 0).all()
    assert (np.abs(model.codes_[model.n_numeric_ :]) <= model.beta * (1 + 1e-12)).all()
    names = list(X.columns)
    for j, name in zip(model.encoded_columns_, model.encoded_names_, strict=True):
        assert name == names[j] or name.startswith(f"{names[j]}=")
    features = model.transform(X)
    assert features.shape == (len(X), kept)
    assert np.isfinite(features).all()


def test_the_sparse_search_ends_lower_than_it_began():
    """Its path may rise here and there, as it has momentum."""
    for seed in range(5):
        path = model_of("sparse").fit(table(seed)).objective_path_
        assert path[-1] <= path.min() + 1e-8
        assert path[-1] < path[0]


@pytest.mark.parametrize("name", ["default", "sparse"])
def test_it_stops_at_max_iter(name):
    with pytest.warns(ConvergenceWarning, match=r"stopped after 3 steps with a gradient of .* above tol=0.0001; raise max_iter") as caught:
        model = model_of(name, max_iter=3).fit(table())
    assert caught[0].filename == __file__
    assert (model.n_iter_, len(model.objective_path_), model.converged_) == (3, 3, False)
    assert np.isfinite(model.transform(table())).all()


@quiet
@pytest.mark.parametrize("max_iter", [1, 2, 4])
def test_it_stops_at_max_iter_on_the_way_by_a_sample(max_iter, monkeypatch):
    monkeypatch.setattr(estimator, "SAMPLED", 100)
    monkeypatch.setattr(estimator, "SHARE", 3)
    model = model_of(max_iter=max_iter, tol=1e-9).fit(table())
    assert model.n_iter_ == len(model.objective_path_) <= max_iter
    assert not model.converged_


def test_a_finer_tolerance_changes_little():
    rough, fine = (model_of(tol=tol).fit(table()).graph_ for tol in (1e-4, 1e-7))
    assert 1e-8 < np.abs(rough - fine).max() < 5e-3


def test_a_ridge_shrinks_edges():
    sizes = [np.linalg.norm(model_of(l2=l2).fit(table()).graph_) for l2 in (0.001, 0.01, 0.1, 1.0, 10.0, 1e4)]
    assert (np.diff(sizes) < 0).all()
    assert sizes[-1] < 1e-3


# ---- what does not change the graph ----

PLAIN = {"factorization": "svd", "tol": 1e-7}


@pytest.mark.parametrize("holes", [0.0, 0.1])
@pytest.mark.parametrize("name", ["default", "dense", "logistic", "sparse", "observed"])
def test_rows_may_be_shuffled_or_repeated(name, holes):
    X = table(holes=holes)
    plain = model_of(name, **PLAIN).fit(X)
    for rows in (np.random.default_rng(0).permutation(len(X)), np.tile(np.arange(len(X)), 2), np.repeat(np.arange(len(X)), 3)):
        model = model_of(name, **PLAIN).fit(X.iloc[rows])
        np.testing.assert_allclose(model.graph_, plain.graph_, rtol=0, atol=3e-6)
        assert model.objective_ == pytest.approx(plain.objective_, abs=1e-9)
        np.testing.assert_allclose(model.components_.T @ model.components_, plain.components_.T @ plain.components_, atol=1e-5)


@pytest.mark.parametrize("holes", [0.0, 0.1])
@pytest.mark.parametrize("name", ["default", "dense", "logistic", "sparse", "observed"])
def test_columns_may_be_shuffled(name, holes):
    X = table(P=3, holes=holes)
    plain = model_of(name, **PLAIN).fit(X)
    for seed in range(3):
        columns = np.random.default_rng(seed).permutation(X.columns)
        model = model_of(name, **PLAIN).fit(X[columns])
        order = [model.encoded_names_.tolist().index(name) for name in plain.encoded_names_]
        np.testing.assert_allclose(model.graph_[np.ix_(order, order)], plain.graph_, rtol=0, atol=3e-6)
        assert [columns[j] for j in model.encoded_columns_[order]] == [X.columns[j] for j in plain.encoded_columns_]
        projectors = [m.components_.T @ m.components_ for m in (model, plain)]
        np.testing.assert_allclose(projectors[0][np.ix_(order, order)], projectors[1], atol=1e-5)


def test_beta_does_not_change_the_graph():
    """It depends on eps / beta. The tiny ridge of the unary terms, which are per unit of the scaled numbers, makes a small difference."""
    X = table()
    for unary, far in ((False, 0.0), (True, 1e-3)):
        graphs = [model_of(beta=beta, unary=unary, **PLAIN).fit(X).graph_ for beta in (1.0, 0.7, 2.0, 4.0)]
        for graph in graphs[1:]:
            if not far:
                np.testing.assert_allclose(graph, graphs[0], rtol=0, atol=1e-6)
            assert 1.0 - (graph * graphs[0]).sum() / np.linalg.norm(graph) / np.linalg.norm(graphs[0]) <= far + 1e-12
    given = [model_of(beta=beta, eps=0.1 * beta, unary=False, **PLAIN).fit(X).graph_ for beta in (1.0, 2.0)]
    np.testing.assert_allclose(given[1], given[0], rtol=0, atol=1e-6)
    other = model_of(eps=0.6, unary=False, **PLAIN).fit(X).graph_
    assert np.abs(other - given[0]).max() > 0.01


def test_units_do_not_matter():
    X = table(holes=0.1)
    numbers = ["n0", "n1", "n2"]
    moved = X.copy()
    moved[numbers] = 3.0 * X[numbers] + 17.0
    scaled = X.copy()
    scaled[numbers] = np.ldexp(X[numbers].to_numpy(), [-40, 100, 7])
    plain = model_of(**PLAIN).fit(X)
    np.testing.assert_allclose(model_of(**PLAIN).fit(moved).graph_, plain.graph_, atol=1e-5)
    assert_same_bits(model_of(**PLAIN).fit(scaled), plain)
    np.testing.assert_array_equal(model_of(**PLAIN).fit(scaled).transform(scaled), plain.transform(X))


def test_a_column_that_points_the_other_way_turns_its_edges_among_numbers():
    X = table(P=0, p1=4)
    plain, turned = (model_of(**PLAIN).fit(frame) for frame in (X, X.assign(n1=-X["n1"])))
    sign = np.where(np.arange(4) == 1, -1.0, 1.0)
    clear = np.abs(plain.graph_) > 0.05  # eps makes small numbers alike, so that the mirror is not exact
    assert clear.sum() >= 4
    assert (np.sign(turned.graph_) == np.sign(plain.graph_ * np.outer(sign, sign)))[clear].all()


def test_constant_columns_are_left_out():
    X = table(holes=0.1)
    row = np.arange(len(X))
    wide = X.assign(k=3.0, l="same", m=np.where(row % 3, None, "once"), z=np.where(row % 2, np.nan, -1.0))
    wide = wide[["k", "c1", "n0", "m", "n1", "l", "c0", "z", "n2"]]
    rest = ["c1", "n0", "n1", "c0", "n2"]
    with pytest.warns(UserWarning, match="are left out: 'k', 'm', 'l', 'z'") as caught:
        model = model_of(n_components=6).fit(wide)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    plain = model_of(n_components=6).fit(X[rest])
    for attribute in ("graph_", "encoded_names_", "components_", "codes_", "objective_path_"):
        np.testing.assert_array_equal(getattr(model, attribute), getattr(plain, attribute))
    np.testing.assert_array_equal(wide.columns[model.encoded_columns_], X[rest].columns[plain.encoded_columns_])
    np.testing.assert_array_equal(model.transform(wide), plain.transform(X[rest]))
    np.testing.assert_array_equal(model.transform(wide.assign(k=-7.0, l="other", z=1e9)), plain.transform(X[rest]))
    back = model.inverse_transform(model.transform(wide))
    assert back.columns.tolist() == wide.columns.tolist()
    assert (back[["k", "z"]] == [3.0, -1.0]).all(axis=None)
    assert (back[["l", "m"]] == ["same", "once"]).all(axis=None)


def test_a_hole_beside_a_level_is_no_constant_where_it_is_a_level():
    X = table().assign(m=["once" if i % 3 else None for i in range(120)])
    model = model_of(missing="category").fit(X)
    assert model.encoded_names_[-1] == "m=(missing)"
    assert model.n_numeric_ == 3


# ---- features ----


@every_model
@pytest.mark.parametrize("holes", [0.0, 0.1])
def test_features_are_the_encoded_rows_times_the_components(name, holes):
    X = table(holes=holes)
    all_of_it = model_of("singular", n_components=len(model_of("singular").fit(X).encoded_names_)).fit(X)
    x = encoded(all_of_it, X)
    model = model_of(name, 2).fit(X)
    np.testing.assert_allclose(model.transform(X), x @ model.components_.T, atol=1e-12)
    np.testing.assert_allclose(model.fit_transform(X), model.transform(X), atol=0)
    scaled, indicators = x[:, :3], x[:, 3:]
    there = X.notna().to_numpy()[:, model.encoded_columns_]
    np.testing.assert_allclose(np.abs(scaled).max(axis=0), 2.0, rtol=1e-12)
    np.testing.assert_allclose(scaled.sum(axis=0), 0.0, atol=1e-10)
    np.testing.assert_allclose(np.abs(indicators[there[:, 3:]]), 1.0, rtol=1e-12)
    for j in range(x.shape[1]):  # a hole is the mean
        np.testing.assert_allclose(x[~there[:, j], j], x[there[:, j], j].mean(), atol=1e-12)


def test_all_components_are_a_rotation():
    """Distances stay, so that k-means finds the same clusters of the same inertia."""
    X = table(n=150, P=3)
    p = len(model_of().fit(X).encoded_names_)
    model = model_of(n_components=p).fit(X)
    phi = model.transform(X)
    x = phi @ model.components_
    np.testing.assert_allclose(model.components_ @ model.components_.T, np.eye(p), atol=1e-12)
    np.testing.assert_allclose(pairwise_distances(phi), pairwise_distances(x), atol=1e-6)
    found = [KMeans(4, init=rows[:4], n_init=1).fit(rows) for rows in (phi, x)]
    assert found[0].inertia_ == pytest.approx(found[1].inertia_, rel=1e-12)
    np.testing.assert_array_equal(found[0].labels_, found[1].labels_)


def test_new_rows_one_by_one_and_many():
    X = table(n=100, holes=0.1)
    model = model_of().fit(X)
    all_rows = model.transform(X)
    np.testing.assert_allclose(np.concatenate([model.transform(X.iloc[i : i + 1]) for i in range(100)]), all_rows, atol=1e-13)
    many = pd.concat([X] * 90, ignore_index=True)  # more rows than a slice
    np.testing.assert_allclose(model.transform(many), np.tile(all_rows, (90, 1)), atol=1e-13)
    np.testing.assert_array_equal(model.transform(X[X.columns[::-1]]), all_rows)
    np.testing.assert_array_equal(model.transform(pl.from_pandas(X)), all_rows)
    np.testing.assert_array_equal(model.transform(X.to_numpy(object)), all_rows)  # by position where there are no names


def test_levels_never_seen():
    X = table()
    model = model_of().fit(X)
    new = X.iloc[:5].assign(c0=["a", "new", "b", None, "newer"])
    blank = new.assign(c0=["a", None, "b", None, None])
    np.testing.assert_array_equal(model.transform(new), model.transform(blank))
    assert model.score(new) == model.score(blank)
    strict = model_of(unknown="error").fit(X)
    np.testing.assert_array_equal(strict.transform(blank), model.transform(blank))
    for call in (strict.transform, strict.score):
        with pytest.raises(ValueError, match=r"Column 'c0' contains 2 level\(s\) that did not occur in fit: 'new', 'newer'"):
            call(new)


@pytest.mark.parametrize("name", ["default", "dense", "observed"])
def test_missing_cells(name):
    X = table(holes=0.1)
    numbers, labels = ["n0", "n1", "n2"], ["c0", "c1"]
    filled = X.assign(**{c: X[c].fillna(X[c].mean()) for c in numbers})
    filled = filled.assign(**{c: X[c].where(X[c].notna(), "(missing)") for c in labels})
    for factorization in ("svd", "hals"):
        ways = {missing: model_of(name, missing=missing, factorization=factorization).fit(X) for missing in ("ignore", "category")}
        expected = model_of(name, factorization=factorization).fit(filled)
        order = [ways["category"].encoded_names_.tolist().index(c) for c in expected.encoded_names_]
        if factorization == "svd":  # seeds belong to columns, whose order differs: "(missing)" is the last level, not the first
            assert_close = {"rtol": 0, "atol": 1e-3 if name != "observed" else 1e-9}
            np.testing.assert_allclose(ways["category"].graph_[np.ix_(order, order)], expected.graph_, **assert_close)
        features = [encoded(m.set_params(n_components=len(order)).fit(r), r) for m, r in ((ways["category"], X), (expected, filled))]
        np.testing.assert_allclose(features[0][:, order], features[1], atol=1e-10)
        assert len(ways["ignore"].encoded_names_) < len(order)
        assert not any("missing" in column for column in ways["ignore"].encoded_names_)
    with pytest.raises(ValueError, match=r"Column 'n0' has \d+ missing cell\(s\); fill them"):
        model_of(name, missing="error").fit(X)
    whole = table()
    strict = model_of(name, missing="error").fit(whole)
    assert_same_bits(strict, model_of(name).fit(whole))
    with pytest.raises(ValueError, match=r"Column 'n0' has \d+ missing cell"):
        strict.transform(X)


def test_a_row_without_a_cell():
    """It has no term, and is the mean in the features."""
    X = table()
    holed = pd.concat([X, pd.DataFrame([[np.nan] * 3 + [None] * 2], columns=X.columns)], ignore_index=True)
    plain, model = (model_of("singular", unary=False, l2=0.0, tol=1e-7).fit(frame) for frame in (X, holed))
    np.testing.assert_allclose(model.transform(holed)[-1], model.transform(X).mean(axis=0), atol=1e-12)
    assert model.objective_ * 121 == pytest.approx(plain.objective_ * 120, rel=1e-3)  # but for the factors, which see one row more
    assert plain.score(holed) * 121 == pytest.approx(plain.score(X) * 120, rel=1e-12)


@every_model
def test_float32_stays_float32(name):
    X = table(dtype=np.float32, holes=0.05)
    double = X.astype(dict.fromkeys(["n0", "n1", "n2"], np.float64))
    single, expected = model_of(name).fit(X), model_of(name).fit(double)
    assert_same_bits(single, expected)
    assert single.transform(X).dtype == np.float32
    assert expected.transform(double).dtype == np.float64
    np.testing.assert_allclose(single.transform(X), expected.transform(double), rtol=1e-6, atol=1e-6)
    assert single.transform(double).dtype == np.float32  # the dtype of the fit
    assert single.inverse_transform(single.transform(X))["n0"].dtype == np.float32


# ---- the inverse ----


def test_all_components_give_the_table_back():
    rng = np.random.default_rng(0)
    X = table(P=3).assign(
        flag=rng.random(120) < 0.3,
        kind=pd.Categorical(rng.choice([3, 1, 2], 120), categories=[3, 1, 2]),
        often=rng.integers(0, 1000, 120),
    )
    p = len(model_of().fit(X).encoded_names_)
    for name in MODELS:
        model = model_of(name, p - MODELS[name].get("skip_first", False)).fit(X)
        back = model.inverse_transform(model.transform(X))
        assert back.columns.tolist() == X.columns.tolist()
        if model.skip_first:
            continue
        for column in X:
            if X[column].dtype.kind in "fi":
                np.testing.assert_allclose(back[column], X[column], rtol=1e-9, atol=1e-9)
            else:
                assert back[column].tolist() == X[column].tolist()


def test_a_table_of_numbers_without_names_comes_back_as_an_array():
    X = table(P=0, p1=5).to_numpy()
    for dtype in (np.float64, np.float32):
        model = model_of(n_components=5).fit(X.astype(dtype))
        back = model.inverse_transform(model.transform(X.astype(dtype)))
        assert isinstance(back, np.ndarray)
        assert back.dtype == dtype
        np.testing.assert_allclose(back, X, rtol=1e-4 if dtype == np.float32 else 1e-10, atol=1e-3 if dtype == np.float32 else 1e-9)
    mixed = np.column_stack([X[:, :2], np.arange(120) % 3])
    model = model_of(n_components=5, categorical=[2]).fit(mixed)
    back = model.inverse_transform(model.transform(mixed))
    assert back.columns.tolist() == ["x0", "x1", "x2"]
    np.testing.assert_allclose(back.to_numpy(float), mixed, atol=1e-9)


def test_fewer_components_give_a_row_of_the_same_features():
    """Other directions are at their means."""
    X = table(P=0, p1=5)
    for n_components in (1, 2, 4):
        model = model_of(n_components=n_components).fit(X)
        features = np.random.default_rng(n_components).normal(size=(30, n_components))
        rows = model.inverse_transform(features)
        np.testing.assert_allclose(model.transform(rows), features, atol=1e-10)
        every = model_of(n_components=5).fit(X)
        np.testing.assert_allclose(every.transform(rows)[:, n_components:], 0.0, atol=1e-10)


@pytest.mark.parametrize("n_components", [1, 3, 5])
def test_the_mean_of_the_features_is_the_mean_row(n_components):
    """However few components there are: means of the numbers, and of every variable the level that most rows have."""
    X = table(P=3, n=150)
    model = model_of(n_components=n_components).fit(X)
    mean = model.inverse_transform(model.transform(X).mean(axis=0, keepdims=True))
    numbers = ["n0", "n1", "n2"]
    np.testing.assert_allclose(mean[numbers].to_numpy()[0], X[numbers].mean(), rtol=1e-9)
    for column in ("c0", "c1", "c2"):
        assert mean[column].item() == X[column].mode().item()
    shares = [X[column].value_counts(normalize=True).max() for column in ("c0", "c1", "c2")]
    assert max(shares) < 0.9  # no level takes nearly all rows


# ---- isolated columns ----


def test_columns_without_edges():
    """Each is a null vector of its own; where no edge is left the features are columns."""
    X = table(seed=3).assign(noise=np.random.default_rng(5).normal(size=120))
    model = model_of("sparse", 7, l1=0.2, l2=0.0).fit(X)
    alone = ~model.graph_.any(axis=0)
    assert "noise" in model.encoded_names_[alone]
    assert 0 < alone.sum() < len(alone)
    null = model.components_[model.eigenvalues_ < 1e-10]
    np.testing.assert_allclose((null**2).sum(axis=0)[alone], 1.0, atol=1e-10)
    assert np.isfinite(model.transform(X)).all()
    assert len(model.edges()) == np.count_nonzero(model.graph_) // 2
    for laplacian, normalized in (("abs", True), ("signed", False), ("abs", False)):
        other = model_of("sparse", 7, l1=0.2, l2=0.0, laplacian=laplacian, normalized=normalized).fit(X)
        np.testing.assert_array_equal(other.graph_, model.graph_)
        assert (other.spectrum_ > -1e-12).all()
        assert (other.spectrum_ < 1e-10).sum() >= alone.sum()
    empty = model_of("sparse", 7, l1=50.0).fit(X)
    assert not empty.graph_.any()
    assert empty.edges().empty
    assert not empty.spectrum_.any()
    np.testing.assert_allclose(np.abs(empty.components_).sum(axis=1), 1.0)
    assert empty.edges().columns.tolist() == ["source", "target", "weight", "sign"]


# ---- edges ----


def test_edges():
    X = table(P=3)
    model = model_of().fit(X)
    frame = model.edges()
    assert frame.columns.tolist() == ["source", "target", "weight", "sign"]
    assert frame["weight"].abs().is_monotonic_decreasing
    assert (frame["sign"] == np.sign(frame["weight"])).all()
    place = {name: j for j, name in enumerate(model.encoded_names_)}
    s, t = frame["source"].map(place), frame["target"].map(place)
    assert (s < t).all()
    np.testing.assert_array_equal(frame["weight"], model.graph_[s, t])
    assert len(frame) == np.count_nonzero(np.triu(model.graph_))
    pd.testing.assert_frame_equal(model.edges(4), frame.head(4))
    pd.testing.assert_frame_equal(model.edges(top=10**6), frame)
    assert model.edges(top=0).empty
    graph = nx.from_pandas_edgelist(frame, edge_attr=["weight", "sign"])
    assert graph.number_of_edges() == len(frame)
    assert set(graph) == set(model.encoded_names_)
    assert graph["n0"][frame[frame["source"] == "n0"].iloc[0]["target"]]["weight"] == frame[frame["source"] == "n0"].iloc[0]["weight"]


def test_a_tied_pair_has_the_strongest_edge_and_its_sign():
    rng = np.random.default_rng(0)
    x = rng.normal(size=300)
    X = pd.DataFrame({"x": x, "noise": rng.normal(size=300), "near": x + 0.3 * rng.normal(size=300)})
    X["high"] = np.where(x > 0, "yes", "no")
    X["low"] = np.where(x + 0.5 * rng.normal(size=300) < 0, "yes", "no")
    frame = model_of().fit(X).edges()
    weight = {frozenset(pair): w for *pair, w in frame[["source", "target", "weight"]].itertuples(index=False)}
    assert weight[frozenset(["x", "near"])] > 0.5
    assert weight[frozenset(["x", "high=yes"])] > 0.1
    assert weight[frozenset(["high=yes", "low=yes"])] < -0.1
    assert max(abs(w) for pair, w in weight.items() if "noise" in pair) < min(weight[frozenset(["x", "near"])], 0.3)


# ---- the score ----


@pytest.mark.parametrize("holes", [0.0, 0.1])
@pytest.mark.parametrize("missing", ["ignore", "category"])
@pytest.mark.parametrize("name", ["default", "singular", "logistic", "sparse"])
def test_the_score_of_the_rows_of_the_fit_is_the_objective_without_penalties(name, missing, holes):
    X = table(holes=holes)
    model = model_of(name, missing=missing).fit(X)
    weights = model.edges()["weight"].to_numpy()
    b, c = model._parameters[1:]
    penalty = model.l2 * (weights**2).sum() / 2 + model.l1 * np.abs(weights).sum() + 1e-4 * ((b**2).sum() + (c**2).sum()) / 2
    assert -model.score(X) + penalty == pytest.approx(model.objective_, rel=1e-12)
    assert model.score(X.iloc[:60]) * 0.5 + model.score(X.iloc[60:]) * 0.5 == pytest.approx(model.score(X), rel=1e-12)
    assert model.score(X, y=np.zeros(120)) == model.score(X)


def test_numbers_out_of_range_count_as_its_ends():
    X = table()
    model = model_of().fit(X)
    far = X.iloc[:4].assign(n0=[1e300, -1e300, X["n0"].max() + 1.0, 0.0])
    ends = far.assign(n0=far["n0"].clip(X["n0"].min(), X["n0"].max()))
    assert model.score(far) == model.score(ends)
    single = X.astype(dict.fromkeys(["n0", "n1", "n2"], np.float32))
    other = model_of().fit(single)
    assert other.score(single.iloc[:4].assign(n0=np.float32(3e38))) == other.score(single.iloc[:4].assign(n0=single["n0"].max()))


def test_the_score_chooses_a_penalty():
    """Much of it where columns say nothing about each other, little where they do."""
    rng = np.random.default_rng(0)
    apart = pd.DataFrame(rng.normal(size=(80, 2)), columns=["x", "y"]).assign(c=rng.choice(["a", "b"], 80), d=rng.choice(["a", "b"], 80))
    grid = {"l2": [1e-3, 0.1, 100.0]}
    found = {}
    for name, X in (("apart", apart), ("tied", table(n=300, P=3))):
        search = GridSearchCV(model_of(), grid, cv=4).fit(X)
        found[name] = search.best_params_["l2"]
        assert np.isfinite(search.cv_results_["mean_test_score"]).all()
        assert search.transform(X).shape == (len(X), 3)
    assert found["apart"] == 100.0
    assert found["tied"] < 100.0
    scores = cross_val_score(model_of(), table(), cv=3)
    assert scores.shape == (3,)
    assert np.isfinite(scores).all()


@pytest.mark.parametrize("parameters", [{"objective": "observed"}, {"conditionals": "dense"}])
def test_there_is_no_score_without_a_density(parameters):
    model = model_of(**parameters)
    assert not hasattr(model, "score")
    model.fit(table())
    assert not hasattr(model, "score")
    with pytest.raises(AttributeError, match="has no attribute 'score'"):
        model.score(table())
    with pytest.raises(TypeError, match="score"):
        cross_val_score(model, table(), cv=3)


# ---- the same bits ----


@quiet
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@every_model
def test_any_number_of_threads(name, dtype, monkeypatch):
    """A small table made to take the way of the large ones: several runs of rows."""
    monkeypatch.setattr(parallel, "SMALL_WORK", 0)
    X = table(1, 4200, 2, 3, 0.02, dtype)
    fits = [model_of(name, max_iter=8, n_steps=5, n_threads=n_threads).fit(X) for n_threads in (1, 2, 3)]
    for other in fits[1:]:
        assert_same_bits(fits[0], other)
        np.testing.assert_array_equal(fits[0].transform(X), other.transform(X))
        if hasattr(other, "score"):
            assert fits[0].score(X) == other.score(X)


@quiet
def test_a_large_table_on_any_number_of_threads():
    """Nothing is changed here: there is enough work for several threads, and there are rows enough to go by way of a sample."""
    X = table(2, 17_000, 4, 4)
    assert len(X) > estimator.SAMPLED
    fits = [model_of(max_iter=3, n_threads=n_threads).fit(X) for n_threads in (1, 2, 3)]
    wanted = {n: fit._likelihood(fit._encoding, MixedTable.from_data(X), None).n_threads for n, fit in zip((1, 2, 3), fits, strict=True)}
    assert wanted == {n: parallel.effective_n_threads(n) for n in (1, 2, 3)}
    for other in fits[1:]:
        assert_same_bits(fits[0], other)


def run(script, **environment):
    """What a script prints."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore", **environment}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, cwd=ROOT, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_same_bits_on_every_instruction_set_and_with_any_number_of_blas_threads():
    script = (
        "import hashlib, numpy as np; from craftc import GraphSpectralFeatures\n"
        "h = hashlib.sha256()\n"
        f"for seed, more in enumerate({list(MODELS.values())}):\n"
        "    rng = np.random.default_rng(seed)\n"
        "    X = rng.normal(size=(700, 5)) @ rng.normal(size=(5, 5))\n"
        "    X = np.where(np.arange(5) < 1 + seed % 4, X, np.rint(X / 3).clip(-1, 1 + seed // 4)).astype([np.float32, float][seed % 2])\n"
        "    X[rng.random(X.shape) < 0.1 * (seed % 2)] = np.nan\n"
        "    labels = list(range(1 + seed % 4, 5))\n"
        "    m = GraphSpectralFeatures(2, categorical=labels, max_iter=12, random_state=0, n_threads=2, **more).fit(X)\n"
        "    for a in (m.graph_, m.components_, m.spectrum_, m.codes_, m.objective_path_, m.transform(X), m.objective_):\n"
        "        h.update(np.ascontiguousarray(a).tobytes())\n"
        "print(h.hexdigest())\n"
    )
    levels = (("baseline", "1"), ("v3", "2"), ("v4", "3"))
    assert len({run(script, CRAFTC_SIMD=level, OPENBLAS_NUM_THREADS=threads) for level, threads in levels}) == 1


# ---- laid out in memory ----


@pytest.mark.parametrize("order", ["F", "strided", "columns", "read-only"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ["default", "observed"])
def test_any_memory_layout(name, dtype, order):
    X = np.column_stack([table(P=0).to_numpy(), np.arange(120) % 3, np.random.default_rng(0).integers(0, 2, 120)]).astype(dtype)
    laid = {"F": np.asfortranarray(X), "strided": np.repeat(X, 2, axis=0)[::2], "columns": np.repeat(X, 2, axis=1)[:, ::2]}
    laid["read-only"] = X.copy()
    laid[order].flags.writeable = order != "read-only"
    model, expected = (model_of(name, categorical=[3, 4]).fit(rows) for rows in (laid[order], X))
    assert_same_bits(model, expected)
    np.testing.assert_array_equal(model.transform(laid[order]), expected.transform(X))


def test_frames_arrays_and_tables():
    X = table(holes=0.1)
    expected = model_of().fit(X)
    ready = MixedTable.from_data(X)
    block, codes = ready.numeric.copy(), ready.codes.copy()
    for frame in (pl.from_pandas(X), pl.from_pandas(X).to_arrow(), ready):
        model = model_of().fit(frame)
        assert_same_bits(model, expected)
        assert model.feature_names_in_.tolist() == X.columns.tolist()
        assert model.n_features_in_ == 5
        np.testing.assert_array_equal(model.transform(frame), expected.transform(X))
    np.testing.assert_array_equal(ready.numeric, block)
    np.testing.assert_array_equal(ready.codes, codes)
    model_of(missing="category").fit(MixedTable.from_data(X, missing="category"))
    array = model_of(categorical=[3, 4]).fit(X.to_numpy(object))
    np.testing.assert_array_equal(array.graph_, expected.graph_)
    renamed = {"n0": "x0", "n1": "x1", "n2": "x2", "c0": "x3", "c1": "x4"}
    assert array.encoded_names_.tolist() == [renamed[name[:2]] + name[2:] for name in expected.encoded_names_]
    assert not hasattr(array, "feature_names_in_")


def test_a_level_that_the_rows_do_not_have():
    """A table of some rows keeps the levels of all: those that do not occur have no column, and are missing in new rows."""
    X = table(P=3)
    whole = MixedTable.from_data(X)
    rows = np.flatnonzero(X["c1"] != "b")
    model, plain = model_of().fit(whole.take(rows)), model_of().fit(X.iloc[rows])
    assert model.encoded_names_.tolist() == plain.encoded_names_.tolist()
    np.testing.assert_allclose(model.graph_, plain.graph_, rtol=0, atol=1e-9)
    assert "c1=c" in model.encoded_names_
    assert "c1=a" not in model.encoded_names_  # two levels are left, which are one column
    np.testing.assert_allclose(model.transform(whole), plain.transform(X), atol=1e-9)
    p = len(model.encoded_names_)
    back = model.set_params(n_components=p).fit(whole.take(rows)).inverse_transform(model.transform(whole.take(rows)))
    assert back["c1"].tolist() == X["c1"].iloc[rows].tolist()


# ---- small and strange tables ----


@pytest.mark.parametrize("X", [
    [[0.0, 1.0], [1.0, 3.0]],
    [[0.0, 1.0], [1.0, 0.0], [1.0, 1.0]],
    np.eye(4),
    np.random.default_rng(0).normal(size=(5, 40)),
])  # fmt: skip
@every_model
def test_few_rows(name, X):
    model = model_of(name, 1).fit(X)
    assert np.isfinite(model.graph_).all()
    assert model.transform(X).shape == (len(X), 1)
    assert np.isfinite(model.transform(X)).all()


@every_model
def test_one_kind_of_column(name):
    for shape in ((4, 0), (0, 4), (1, 1), (0, 2)):
        X = table(0, 60, *shape)
        model = model_of(name, 2 if name != "absolute" else 1).fit(X)
        assert model.n_numeric_ == shape[0]
        assert np.isfinite(model.transform(X)).all()


def test_many_levels():
    """More than a byte holds."""
    n = 900
    rng = np.random.default_rng(0)
    code = np.arange(n) % 300
    X = pd.DataFrame({"x": (code % 7) + rng.normal(size=n), "c": [f"level {k:03d}" for k in code], "d": np.where(code % 2, "odd", "even")})
    model = model_of(max_iter=400, tol=1e-3).fit(X)
    assert model.graph_.shape == (302, 302)
    assert model.encoded_names_[1] == "c=level 000"
    assert (model.graph_[1:301:2, 301] < 0).all()  # even levels
    assert (model.graph_[2:301:2, 301] > 0).all()
    np.testing.assert_array_equal(model.transform(X.iloc[:1]), model.transform(X)[:1])


STRANGE = {
    "tiny": {"n0": 1e-130, "n1": 1e-130},
    "huge": {"n0": 1e130, "n1": 1e130},
    "mixed units": {"n0": 1e-60, "n1": 1e60},
}


@pytest.mark.parametrize("kind", STRANGE)
@every_model
def test_strange_but_good_numbers_are_quiet(name, kind):
    X = table()
    strange = X.assign(**{column: X[column] * factor for column, factor in STRANGE[kind].items()})
    model, plain = model_of(name).fit(strange), model_of(name).fit(X)
    np.testing.assert_allclose(model.graph_, plain.graph_, rtol=0, atol=1e-8)
    np.testing.assert_allclose(model.transform(strange), plain.transform(X), atol=1e-8)


def test_an_offset_changes_little():
    X = table()
    far = X.assign(n0=X["n0"] + 1e6 * X["n0"].std())
    np.testing.assert_allclose(model_of(**PLAIN).fit(far).graph_, model_of(**PLAIN).fit(X).graph_, atol=1e-5)


def graph_or_sentence(X):
    """The graph of a table, or why there is none."""
    try:
        return model_of().fit(X).graph_
    except ValueError as error:
        return str(error)


@pytest.mark.parametrize("factor", [1e-310, 1e307, 1.5e308])
def test_numbers_at_the_end_of_the_range_are_scaled_or_refused(factor):
    """A right graph, or a sentence; never numbers that are not finite."""
    X = table()
    X["n0"] *= factor / X["n0"].abs().max()
    found = graph_or_sentence(X)
    if isinstance(found, str):
        assert "n0" in found
    else:
        np.testing.assert_allclose(found, graph_or_sentence(table()), atol=1e-3)


def test_perfectly_tied_columns():
    """Their edges grow, and the ridge ends that."""
    X = table(P=2)
    model = model_of().fit(X.assign(copy=X["c0"], twice=2.0 * X["n0"]))
    assert model.converged_
    strongest = model.edges(1).iloc[0]
    assert {strongest["source"], strongest["target"]} in ({"n0", "twice"}, {"c0=b", "copy=b"})


# ---- the estimator ----


def test_names_of_the_features_and_frames_of_them():
    X = table()
    model = model_of().fit(X)
    names = [f"graphspectralfeatures{j}" for j in range(3)]
    assert model.get_feature_names_out().tolist() == names
    plain = model.transform(X)
    frame = model.set_output(transform="pandas").transform(X.set_index(np.arange(7, 127)))
    assert isinstance(frame, pd.DataFrame)
    assert frame.columns.tolist() == names
    assert frame.index[0] == 7
    np.testing.assert_array_equal(frame, plain)
    polars = model.set_output(transform="polars").transform(X)
    assert isinstance(polars, pl.DataFrame)
    assert polars.columns == names
    for features in (frame, polars):
        back = model.inverse_transform(features)
        np.testing.assert_array_equal(back["n0"], model.inverse_transform(plain)["n0"])
        assert back["c1"].tolist() == model.inverse_transform(plain)["c1"].tolist()


def test_pipelines():
    heart = load_heart()
    X, y = heart.data, heart.target
    clusters = make_pipeline(model_of(), KMeans(3, n_init=2, random_state=0)).fit(X)
    assert clusters.predict(X).shape == (270,)
    craft = make_pipeline(model_of(), CRAFT(n_init=2, random_state=0, n_threads=1)).fit(X)
    assert craft[-1].n_features_in_ == 3
    np.testing.assert_array_equal(craft.predict(X), craft[-1].labels_)
    accuracy = cross_val_score(make_pipeline(model_of(n_components=8), LogisticRegression()), X, y, cv=3)
    assert accuracy.mean() > 0.7
    search = GridSearchCV(make_pipeline(model_of(), LogisticRegression()), {"graphspectralfeatures__n_components": [1, 6]}, cv=3).fit(X, y)
    assert search.best_score_ > 0.7


@every_model
def test_clone_and_pickle(name):
    X = table(holes=0.05)
    model = model_of(name).fit(X)
    again = pickle.loads(pickle.dumps(model))
    assert_same_bits(again, model)
    np.testing.assert_array_equal(again.transform(X), model.transform(X))
    assert again.inverse_transform(again.transform(X)).equals(model.inverse_transform(model.transform(X)))
    if hasattr(model, "score"):
        assert again.score(X) == model.score(X)
    copy = clone(model)
    assert not hasattr(copy, "graph_")
    assert_same_bits(copy.fit(X), model)


def test_a_refit_leaves_nothing_behind():
    first, second = table(P=3, holes=0.1), table(4, 50, 2, 1)
    unnamed = MixedTable.from_data(second.to_numpy(object), categorical=[2])
    for before in MODELS:
        for after, X in (("default", second), ("observed", second), ("sparse", second.to_numpy(object)), ("dense", unnamed)):
            model = model_of(before).fit(first)
            fresh = model_of(after, categorical="auto" if X is second else [2]).fit(X)
            model.set_params(**fresh.get_params()).fit(X)
            assert_same_bits(model, fresh)
            assert vars(model).keys() == vars(fresh).keys()
            assert model.n_features_in_ == 3
            np.testing.assert_array_equal(model.transform(X), fresh.transform(X))


def test_random_states():
    X = table()
    assert_same_bits(model_of(random_state=3).fit(X), model_of(random_state=np.int64(3)).fit(X))
    first, second = (model_of(random_state=np.random.RandomState(1)).fit(X) for _ in range(2))
    assert_same_bits(first, second)
    seeds = [model_of(random_state=seed).fit(X).graph_ for seed in (0, 1)]
    assert not np.array_equal(*seeds)
    assert (seeds[0] * seeds[1]).sum() / np.linalg.norm(seeds[0]) / np.linalg.norm(seeds[1]) > 0.9
    assert_same_bits(model_of("singular", random_state=0).fit(X), model_of("singular", random_state=1).fit(X))


def test_the_default_number_of_components_is_cut_to_what_there_is():
    for p in (2, 4):
        X = table(P=0, p1=p)
        assert GraphSpectralFeatures(random_state=0).fit_transform(X).shape == (120, p)
        assert GraphSpectralFeatures(skip_first=True, random_state=0).fit_transform(X).shape == (120, p - 1)
    assert GraphSpectralFeatures(random_state=0).fit_transform(table(P=3)).shape == (120, 5)


def test_verbose_prints(capsys):
    X = table()
    for name in ("default", "sparse"):
        model_of(name).fit(X)
        assert capsys.readouterr().out == ""
        model = model_of(name, verbose=1).fit(X)
        lines = capsys.readouterr().out.splitlines()
        assert len(lines) == 1
        assert lines[0].startswith(f"{model.n_iter_} steps: objective {model.objective_:.6f}, gradient ")
        model_of(name, verbose=2).fit(X)
        lines = capsys.readouterr().out.splitlines()
        assert len(lines) == model.n_iter_ + 1
        assert lines[0].startswith("step 1: objective ")


# ---- what is found ----


def test_known_graphs_are_found():
    """Ten samples of a graph with 14 edges: AUC .950, plain correlation .928."""
    found = {"graph": [], "correlation": []}
    for seed in range(10):
        numeric, categorical, theta = twin.gibbs("hard", seed)
        X = pd.DataFrame(numeric, columns=[f"n{j}" for j in range(6)]).join(pd.DataFrame(categorical, columns=[f"c{j}" for j in range(6)]))
        model = model_of(n_components=12, l2=0.3).fit(X)
        s, t = np.triu_indices(12, 1)
        truth = theta[s, t] != 0.0
        found["graph"].append(twin.auc(model.graph_[s, t], truth))
        found["correlation"].append(twin.auc(np.corrcoef(encoded(model, X).T)[s, t], truth))
        right = np.sign(model.graph_[s, t]) == np.sign(theta[s, t])
        assert right[truth & (np.abs(theta[s, t]) > 0.3)].mean() > 0.7
    graph, correlation = (np.array(values) for values in found.values())
    assert graph.mean() >= 0.93
    assert graph.mean() > correlation.mean() + 0.005
    assert (graph > correlation).sum() >= 7
