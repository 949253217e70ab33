"""The features of a graph: rows times components, the inverse, isolated columns, edges, the score."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.cluster import KMeans
from sklearn.metrics import pairwise_distances
from sklearn.model_selection import GridSearchCV, cross_val_score

from tests.estimators.spectral_cases import MODELS, assert_same_bits, encoded, every_model, model_of, table

# ---- features ----


@every_model
@pytest.mark.parametrize("p_missing", [0.0, 0.1])
def test_features_are_the_encoded_rows_times_the_components(name, p_missing):
    X = table(p_missing=p_missing)
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
    for j in range(x.shape[1]):  # a missing cell is the mean
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
    X = table(n=100, p_missing=0.1)
    model = model_of().fit(X)
    all_rows = model.transform(X)
    np.testing.assert_allclose(
        np.concatenate([model.transform(X.iloc[i : i + 1]) for i in range(100)]), all_rows, atol=1e-13
    )
    many = pd.concat([X] * 90, ignore_index=True)  # more rows than a slice
    np.testing.assert_allclose(model.transform(many), np.tile(all_rows, (90, 1)), atol=1e-13)
    np.testing.assert_array_equal(model.transform(X[X.columns[::-1]]), all_rows)
    np.testing.assert_array_equal(model.transform(pl.from_pandas(X)), all_rows)
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        by_position = model.transform(X.to_numpy(object))
    np.testing.assert_array_equal(by_position, all_rows)


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
        with pytest.raises(
            ValueError, match=r"Column 'c0' contains 2 level\(s\) that did not occur in fit: 'new', 'newer'"
        ):
            call(new)


@pytest.mark.parametrize("name", ["default", "dense"])
def test_missing_cells(name):
    X = table(p_missing=0.1)
    numbers, labels = ["n0", "n1", "n2"], ["c0", "c1"]
    filled = X.assign(**{c: X[c].fillna(X[c].mean()) for c in numbers})
    filled = filled.assign(**{c: X[c].where(X[c].notna(), "(missing)") for c in labels})
    for factorization in ("svd", "hals"):
        ways = {
            missing: model_of(name, missing=missing, factorization=factorization).fit(X)
            for missing in ("ignore", "category")
        }
        expected = model_of(name, factorization=factorization).fit(filled)
        order = [ways["category"].encoded_names_.tolist().index(c) for c in expected.encoded_names_]
        if (
            factorization == "svd"
        ):  # seeds belong to columns, whose order differs: "(missing)" is the last level, not the first
            np.testing.assert_allclose(
                ways["category"].graph_[np.ix_(order, order)], expected.graph_, rtol=0, atol=1e-3
            )
        features = [
            encoded(m.set_params(n_components=len(order)).fit(r), r)
            for m, r in ((ways["category"], X), (expected, filled))
        ]
        np.testing.assert_allclose(features[0][:, order], features[1], atol=1e-10)
        assert len(ways["ignore"].encoded_names_) < len(order)
        assert not any("missing" in column for column in ways["ignore"].encoded_names_)
    with pytest.raises(ValueError, match=r"Column 'n0' has \d+ missing value\(s\).*impute them"):
        model_of(name, missing="error").fit(X)
    whole = table()
    strict = model_of(name, missing="error").fit(whole)
    assert_same_bits(strict, model_of(name).fit(whole))
    with pytest.raises(ValueError, match=r"Column 'n0' has \d+ missing value"):
        strict.transform(X)


def test_a_row_without_a_cell():
    """It has no term, and is the mean in the features."""
    X = table()
    with_missing = pd.concat(
        [X, pd.DataFrame([[np.nan] * 3 + [None] * 2], columns=X.columns)], ignore_index=True
    )
    plain, model = (
        model_of("singular", unary=False, l2=0.0, tol=1e-7).fit(frame) for frame in (X, with_missing)
    )
    np.testing.assert_allclose(model.transform(with_missing)[-1], model.transform(X).mean(axis=0), atol=1e-12)
    assert model.objective_ * 121 == pytest.approx(
        plain.objective_ * 120, rel=1e-3
    )  # but for the factors, which see one row more
    assert plain.score(with_missing) * 121 == pytest.approx(plain.score(X) * 120, rel=1e-12)


@every_model
def test_float32_stays_float32(name):
    X = table(dtype=np.float32, p_missing=0.05)
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
        np.testing.assert_allclose(
            back, X, rtol=1e-4 if dtype == np.float32 else 1e-10, atol=1e-3 if dtype == np.float32 else 1e-9
        )
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
    """However few components there are: means of the numbers, and of every variable the level that most rows
    have.
    """
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
    with pytest.warns(UserWarning, match="The graph has no edges, so that .* lower l1 or l2"):
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
    assert (
        graph["n0"][frame[frame["source"] == "n0"].iloc[0]["target"]]["weight"]
        == frame[frame["source"] == "n0"].iloc[0]["weight"]
    )


def test_a_tied_pair_has_the_strongest_edge_and_its_sign():
    rng = np.random.default_rng(0)
    x = rng.normal(size=300)
    X = pd.DataFrame({"x": x, "noise": rng.normal(size=300), "near": x + 0.3 * rng.normal(size=300)})
    X["high"] = np.where(x > 0, "yes", "no")
    X["low"] = np.where(x + 0.5 * rng.normal(size=300) < 0, "yes", "no")
    frame = model_of().fit(X).edges()
    weight = {
        frozenset(pair): w for *pair, w in frame[["source", "target", "weight"]].itertuples(index=False)
    }
    assert weight[frozenset(["x", "near"])] > 0.5
    assert weight[frozenset(["x", "high=yes"])] > 0.1
    assert weight[frozenset(["high=yes", "low=yes"])] < -0.1
    assert max(abs(w) for pair, w in weight.items() if "noise" in pair) < min(
        weight[frozenset(["x", "near"])], 0.3
    )


# ---- the score ----


@pytest.mark.parametrize("p_missing", [0.0, 0.1])
@pytest.mark.parametrize("missing", ["ignore", "category"])
@pytest.mark.parametrize("name", ["default", "singular", "logistic", "sparse"])
def test_the_likelihood_of_the_rows_of_the_fit_is_the_objective_without_penalties(name, missing, p_missing):
    X = table(p_missing=p_missing)
    model = model_of(name, missing=missing).fit(X)
    weights = model.edges()["weight"].to_numpy()
    b, c = model._parameters[1:]
    penalty = (
        model.l2 * (weights**2).sum() / 2
        + model.l1 * np.abs(weights).sum()
        + 1e-4 * ((b**2).sum() + (c**2).sum()) / 2
    )
    encoding, rows = model._encoding, model._new_rows(X)
    likelihood = model._likelihood(encoding, encoding.filled(rows) if missing == "category" else rows, None)
    assert -likelihood(model._parameters)[0] + penalty == pytest.approx(model.objective_, rel=1e-12)
    assert model.score(X.iloc[:60]) * 0.5 + model.score(X.iloc[60:]) * 0.5 == pytest.approx(
        model.score(X), rel=1e-12
    )
    assert model.score(X, y=np.zeros(120)) == model.score(X)


def test_numbers_out_of_range_count_as_its_ends():
    X = table()
    model = model_of().fit(X)
    far = X.iloc[:4].assign(n0=[1e300, -1e300, X["n0"].max() + 1.0, 0.0])
    ends = far.assign(n0=far["n0"].clip(X["n0"].min(), X["n0"].max()))
    assert model.score(far) == model.score(ends)
    single = X.astype(dict.fromkeys(["n0", "n1", "n2"], np.float32))
    other = model_of().fit(single)
    assert other.score(single.iloc[:4].assign(n0=np.float32(3e38))) == other.score(
        single.iloc[:4].assign(n0=single["n0"].max())
    )


def test_the_score_chooses_a_penalty():
    """Much of it where columns say nothing about each other, little where they do."""
    rng = np.random.default_rng(0)
    apart = pd.DataFrame(rng.normal(size=(80, 2)), columns=["x", "y"]).assign(
        c=rng.choice(["a", "b"], 80), d=rng.choice(["a", "b"], 80)
    )
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


@pytest.mark.parametrize("parameters", [{"graph": np.ones((7, 7))}, {"conditionals": "dense"}])
def test_there_is_no_score_without_a_density(parameters):
    model = model_of(**parameters)
    assert not hasattr(model, "score")
    model.fit(table())
    assert not hasattr(model, "score")
    with pytest.raises(AttributeError, match="has no attribute 'score'"):
        model.score(table())
    with pytest.raises(TypeError, match="score"):
        cross_val_score(model, table(), cv=3)
