"""What holds for every graph: the objective never rises, invariances, equal bits, memory layouts."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning

from craftc import GraphSpectralFeatures, MixedTable
from craftc._common import threads as parallel
from craftc.spectral import factorization
from tests.common import ROOT, examples
from tests.estimators.spectral_cases import (
    MODELS,
    PLAIN,
    assert_same_bits,
    every_model,
    model_of,
    quiet,
    table,
)

# ---- the objective ----


@examples(100)
@given(
    seed=st.integers(0, 10**6),
    conditionals=st.sampled_from(["codes", "dense"]),
    groups=st.sampled_from(["softmax", "logistic"]),
    unary=st.booleans(),
    factorization=st.sampled_from(["hals", "svd"]),
    missing=st.sampled_from(["ignore", "category"]),
    p_missing=st.sampled_from([0.0, 0.0, 0.1, 0.4]),
    l2=st.sampled_from([0.003, 0.1, 3.0]),
    grid_size=st.sampled_from([4, 16]),
    dtype=st.sampled_from([np.float64, np.float32]),
)
@pytest.mark.filterwarnings("ignore:Constant columns:UserWarning")
def test_the_objective_never_rises(seed, missing, p_missing, dtype, **parameters):
    rng = np.random.default_rng(seed)
    p1, P = rng.integers(1, 5), rng.integers(1, 5)
    if rng.random() < 0.3:
        p1, P = (0, P + 1) if rng.random() < 0.5 else (p1 + 1, 0)
    X = table(seed, int(rng.integers(20, 90)), p1, P, p_missing, dtype)
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
    stopped = (
        r"stopped after 3 steps before convergence; the largest entry of the gradient is .* "
        "with tol=0.0001: raise max_iter"
    )
    with pytest.warns(ConvergenceWarning, match=stopped) as caught:
        model = model_of(name, max_iter=3).fit(table())
    assert caught[0].filename == __file__
    assert (model.n_iter_, len(model.objective_path_), model.converged_) == (3, 3, False)
    assert np.isfinite(model.transform(table())).all()


@quiet
@pytest.mark.parametrize("max_iter", [1, 2, 4])
def test_it_stops_at_max_iter_on_the_way_by_a_sample(max_iter, monkeypatch):
    monkeypatch.setattr(factorization, "SAMPLE_ROWS", 100)
    monkeypatch.setattr(factorization, "SHARE", 3)
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


@pytest.mark.slow_except(2)
@pytest.mark.parametrize("p_missing", [0.0, 0.1])
@pytest.mark.parametrize("name", ["default", "dense", "logistic", "sparse"])
def test_rows_may_be_shuffled_or_repeated(name, p_missing):
    X = table(p_missing=p_missing)
    plain = model_of(name, **PLAIN).fit(X)
    for rows in (
        np.random.default_rng(0).permutation(len(X)),
        np.tile(np.arange(len(X)), 2),
        np.repeat(np.arange(len(X)), 3),
    ):
        model = model_of(name, **PLAIN).fit(X.iloc[rows])
        np.testing.assert_allclose(model.graph_, plain.graph_, rtol=0, atol=3e-6)
        assert model.objective_ == pytest.approx(plain.objective_, abs=1e-9)
        np.testing.assert_allclose(
            model.components_.T @ model.components_, plain.components_.T @ plain.components_, atol=1e-5
        )


@pytest.mark.slow_except(2)
@pytest.mark.parametrize("p_missing", [0.0, 0.1])
@pytest.mark.parametrize("name", ["default", "dense", "logistic", "sparse"])
def test_columns_may_be_shuffled(name, p_missing):
    X = table(P=3, p_missing=p_missing)
    plain = model_of(name, **PLAIN).fit(X)
    for seed in range(3):
        columns = np.random.default_rng(seed).permutation(X.columns)
        model = model_of(name, **PLAIN).fit(X[columns])
        order = [model.encoded_names_.tolist().index(name) for name in plain.encoded_names_]
        np.testing.assert_allclose(model.graph_[np.ix_(order, order)], plain.graph_, rtol=0, atol=3e-6)
        assert [columns[j] for j in model.encoded_columns_[order]] == [
            X.columns[j] for j in plain.encoded_columns_
        ]
        projectors = [m.components_.T @ m.components_ for m in (model, plain)]
        np.testing.assert_allclose(projectors[0][np.ix_(order, order)], projectors[1], atol=1e-5)


def test_beta_does_not_change_the_graph():
    """It depends on eps / beta.

    The tiny ridge of the unary terms, which are per unit of the scaled numbers, makes a small difference.
    """
    X = table()
    for unary, far in ((False, 0.0), (True, 1e-3)):
        graphs = [model_of(beta=beta, unary=unary, **PLAIN).fit(X).graph_ for beta in (1.0, 0.7, 2.0, 4.0)]
        for graph in graphs[1:]:
            if not far:
                np.testing.assert_allclose(graph, graphs[0], rtol=0, atol=1e-6)
            assert (
                1.0 - (graph * graphs[0]).sum() / np.linalg.norm(graph) / np.linalg.norm(graphs[0])
                <= far + 1e-12
            )
    given = [model_of(beta=beta, eps=0.1 * beta, unary=False, **PLAIN).fit(X).graph_ for beta in (1.0, 2.0)]
    np.testing.assert_allclose(given[1], given[0], rtol=0, atol=1e-6)
    other = model_of(eps=0.6, unary=False, **PLAIN).fit(X).graph_
    assert np.abs(other - given[0]).max() > 0.01


def test_units_do_not_matter():
    X = table(p_missing=0.1)
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
    X = table(p_missing=0.1)
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
    np.testing.assert_array_equal(
        wide.columns[model.encoded_columns_], X[rest].columns[plain.encoded_columns_]
    )
    np.testing.assert_array_equal(model.transform(wide), plain.transform(X[rest]))
    np.testing.assert_array_equal(
        model.transform(wide.assign(k=-7.0, l="other", z=1e9)), plain.transform(X[rest])
    )
    back = model.inverse_transform(model.transform(wide))
    assert back.columns.tolist() == wide.columns.tolist()
    assert (back[["k", "z"]] == [3.0, -1.0]).all(axis=None)
    assert (back[["l", "m"]] == ["same", "once"]).all(axis=None)


def test_a_missing_cell_and_a_level_are_no_constant_where_it_is_a_level():
    X = table().assign(m=["once" if i % 3 else None for i in range(120)])
    model = model_of(missing="category").fit(X)
    assert model.encoded_names_[-1] == "m=(missing)"
    assert model.n_numeric_ == 3


# ---- the same bits ----


@pytest.mark.slow_except(6)
@quiet
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@every_model
def test_any_number_of_threads(name, dtype, monkeypatch):
    """A small table made to take the way of the large ones: several runs of rows."""
    monkeypatch.setattr(parallel, "SMALL_WORK", 0)
    X = table(1, 4200, 2, 3, 0.02, dtype)
    fits = [model_of(name, max_iter=8, n_threads=n_threads).fit(X) for n_threads in (1, 2, 3)]
    for other in fits[1:]:
        assert_same_bits(fits[0], other)
        np.testing.assert_array_equal(fits[0].transform(X), other.transform(X))
        if hasattr(other, "score"):
            assert fits[0].score(X) == other.score(X)


@quiet
def test_a_large_table_on_any_number_of_threads():
    """Nothing is changed here: there is enough work for several threads, and there are rows enough to go by
    way of a sample.
    """
    X = table(2, 17_000, 4, 4)
    assert len(X) > factorization.SAMPLE_ROWS
    fits = [model_of(max_iter=3, n_threads=n_threads).fit(X) for n_threads in (1, 2, 3)]
    wanted = {
        n: fit._likelihood(fit._encoding, MixedTable.from_data(X), None).n_threads
        for n, fit in zip((1, 2, 3), fits, strict=True)
    }
    assert wanted == {n: parallel.effective_n_threads(n) for n in (1, 2, 3)}
    for other in fits[1:]:
        assert_same_bits(fits[0], other)


def run(script, **environment):
    """What a script prints."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore", **environment}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, cwd=ROOT, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.slow
def test_the_same_bits_on_every_instruction_set_and_with_any_number_of_blas_threads():
    script = (
        "import hashlib, numpy as np; from craftc import GraphSpectralFeatures\n"
        "h = hashlib.sha256()\n"
        f"for seed, more in enumerate({list(MODELS.values())}):\n"
        "    rng = np.random.default_rng(seed)\n"
        "    X = rng.normal(size=(700, 5)) @ rng.normal(size=(5, 5))\n"
        "    X = np.where(np.arange(5) < 1 + seed % 4, X, np.rint(X / 3).clip(-1, 1 + seed // "
        "4)).astype([np.float32, float][seed % 2])\n"
        "    X[rng.random(X.shape) < 0.1 * (seed % 2)] = np.nan\n"
        "    labels = list(range(1 + seed % 4, 5))\n"
        "    m = GraphSpectralFeatures(2, categorical=labels, max_iter=12, random_state=0, n_threads=2, "
        "**more).fit(X)\n"
        "    for a in (m.graph_, m.components_, m.spectrum_, m.codes_, m.objective_path_, m.transform(X), "
        "m.objective_):\n"
        "        h.update(np.ascontiguousarray(a).tobytes())\n"
        "print(h.hexdigest())\n"
    )
    levels = (("baseline", "1"), ("v3", "2"), ("v4", "3"))
    assert (
        len({run(script, CRAFTC_SIMD=level, OPENBLAS_NUM_THREADS=threads) for level, threads in levels}) == 1
    )


# ---- laid out in memory ----


@pytest.mark.parametrize("order", ["F", "strided", "columns", "read-only"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_any_memory_layout(dtype, order):
    X = np.column_stack(
        [table(P=0).to_numpy(), np.arange(120) % 3, np.random.default_rng(0).integers(0, 2, 120)]
    ).astype(dtype)
    laid = {
        "F": np.asfortranarray(X),
        "strided": np.repeat(X, 2, axis=0)[::2],
        "columns": np.repeat(X, 2, axis=1)[:, ::2],
    }
    laid["read-only"] = X.copy()
    laid[order].flags.writeable = order != "read-only"
    model, expected = (model_of(categorical=[3, 4]).fit(rows) for rows in (laid[order], X))
    assert_same_bits(model, expected)
    np.testing.assert_array_equal(model.transform(laid[order]), expected.transform(X))


def test_frames_arrays_and_tables():
    X = table(p_missing=0.1)
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
    """A table of some rows keeps the levels of all: levels that do not occur have no column, and are missing
    in new rows.
    """
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
    back = (
        model.set_params(n_components=p)
        .fit(whole.take(rows))
        .inverse_transform(model.transform(whole.take(rows)))
    )
    assert back["c1"].tolist() == X["c1"].iloc[rows].tolist()
