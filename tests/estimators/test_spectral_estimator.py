"""Graph spectral features as an estimator: small and strange tables, names, pipelines, known graphs."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline

from craftc import CRAFT, GraphSpectralFeatures, MixedTable
from craftc.datasets import load_heart
from tests.estimators.spectral_cases import (
    MODELS,
    PLAIN,
    assert_same_bits,
    encoded,
    every_model,
    model_of,
    table,
)
from tests.reference import spectral as ref

# ---- small and strange tables ----


@pytest.mark.parametrize(
    "X",
    [
        [[0.0, 1.0], [1.0, 3.0]],
        [[0.0, 1.0], [1.0, 0.0], [1.0, 1.0]],
        np.eye(4),
        np.random.default_rng(0).normal(size=(5, 40)),
    ],
)
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
    X = pd.DataFrame(
        {
            "x": (code % 7) + rng.normal(size=n),
            "c": [f"level {k:03d}" for k in code],
            "d": np.where(code % 2, "odd", "even"),
        }
    )
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
    search = GridSearchCV(
        make_pipeline(model_of(), LogisticRegression()), {"graphspectralfeatures__n_components": [1, 6]}, cv=3
    ).fit(X, y)
    assert search.best_score_ > 0.7


@every_model
def test_clone_and_pickle(name):
    X = table(p_missing=0.05)
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


@pytest.mark.slow
def test_a_refit_leaves_nothing_behind():
    first, second = table(P=3, p_missing=0.1), table(4, 50, 2, 1)
    unnamed = MixedTable.from_data(second.to_numpy(object), categorical=[2])
    for before in MODELS:
        for after, X in (
            ("default", second),
            ("sparse", second.to_numpy(object)),
            ("dense", unnamed),
        ):
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


@pytest.mark.slow
def test_known_graphs_are_found():
    """Ten samples of a graph with 14 edges: AUC .955, plain correlation .931."""
    found = {"graph": [], "correlation": []}
    for seed in range(10):
        numeric, categorical, theta = ref.gibbs("hard", seed, sweeps=40)
        X = pd.DataFrame(numeric, columns=[f"n{j}" for j in range(6)]).join(
            pd.DataFrame(categorical, columns=[f"c{j}" for j in range(6)])
        )
        model = model_of(n_components=12, l2=0.3).fit(X)
        s, t = np.triu_indices(12, 1)
        truth = theta[s, t] != 0.0
        found["graph"].append(ref.auc(model.graph_[s, t], truth))
        found["correlation"].append(ref.auc(np.corrcoef(encoded(model, X).T)[s, t], truth))
        right = np.sign(model.graph_[s, t]) == np.sign(theta[s, t])
        assert right[truth & (np.abs(theta[s, t]) > 0.3)].mean() > 0.7
    graph, correlation = (np.array(values) for values in found.values())
    assert graph.mean() >= 0.93
    assert graph.mean() > correlation.mean() + 0.005
    assert (graph > correlation).sum() >= 7
