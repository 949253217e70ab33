"""Properties of every fit of the mixture: monotone ELBO, equal bits, invariances, strange tables."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import normalized_mutual_info_score

from craftc import FeatureSelectionMixture
from craftc._common import threads as parallel
from craftc.mixture import estimator
from tests.common import examples, run
from tests.estimators.mixture_cases import (
    MODELS,
    assert_close,
    assert_same_bits,
    every_model,
    model_of,
    synthetic,
    table,
)

# ---- ELBO ----


@examples(200)
@given(
    seed=st.integers(0, 10**6),
    name=st.sampled_from(sorted(MODELS)),
    init=st.sampled_from(["kmeans", "random", "given"]),
    scale=st.sampled_from(["auto", "scalar", "standard", "none"]),
    missing=st.sampled_from([0.0, 0.0, 0.1, 0.5]),
    concentration=st.sampled_from([0.1, 5.0, 100.0]),
    dtype=st.sampled_from([np.float64, np.float32]),
)
@pytest.mark.filterwarnings("ignore:Columns without variance:UserWarning")
@pytest.mark.filterwarnings("ignore:.*which are too few to show distributions:UserWarning")
def test_the_elbo_never_decreases(seed, name, init, scale, missing, concentration, dtype):
    rng = np.random.default_rng(seed)
    n, K = int(rng.integers(2, 60)), int(rng.integers(1, 9))
    X = table(name, seed, n, int(rng.integers(1, 20))).astype(dtype)
    X[rng.random(X.shape) < missing] = np.nan
    X[0, np.isnan(X).all(axis=0)] = 1.0
    start = rng.dirichlet(np.ones(K), n) if init == "given" else init
    model = model_of(
        name,
        K,
        init=start,
        scale=scale,
        concentration=concentration,
        n_init=2,
        random_state=seed,
        max_iter=4000,
    ).fit(X)
    path = np.append(model.elbo_path_, model.elbo_)
    assert (np.diff(path) >= -1e-9 * np.maximum(1.0, np.abs(path[1:]))).all()
    assert model.converged_
    check_state(model, X)


def check_state(model, X):
    """Attributes agree with each other and with what the model says about the rows it was fitted to."""
    K, D = model.n_clusters_, X.shape[1]
    assert (model.labels_.dtype, model.labels_.shape) == (np.int32, (len(X),))
    np.testing.assert_array_equal(model.predict(X), model.labels_)
    assert [np.flatnonzero(model.labels_ == k)[0] for k in range(K)] == sorted(
        np.unique(model.labels_, return_index=True)[1]
    )
    np.testing.assert_array_equal(model.cluster_sizes_, np.bincount(model.labels_, minlength=K))
    assert model.cluster_sizes_.min() >= 1
    assert model.weights_.sum() == pytest.approx(1.0)
    for values in (
        model.feature_probabilities_,
        model.feature_mask_,
        model.feature_gains_,
        model.means_,
        model.variances_,
    ):
        assert values.shape == (K, D)
    np.testing.assert_array_equal(model.feature_mask_, model.feature_probabilities_ > 0.5)
    assert model.n_iter_ == len(model.elbo_path_)
    assert model.objective_ == -model.elbo_
    np.testing.assert_array_equal(model.objective_path_, -model.elbo_path_)
    proba = model.predict_proba(X)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0, rtol=1e-12)
    np.testing.assert_array_equal(proba.argmax(axis=1), model.labels_)
    scores = model.score_samples(X)
    assert np.isfinite(scores).all()
    assert model.score(X) == pytest.approx(scores.mean())


def test_more_starts_never_hurt():
    X = table(seed=4, n=60)
    elbos = [model_of(K=8, init="random", n_init=n_init).fit(X).elbo_ for n_init in (1, 2, 4, 8)]
    assert (np.diff(elbos) >= 0).all()


@pytest.mark.parametrize("name", ["local", "counts"])
def test_it_stops_at_max_iter(name):
    with pytest.warns(
        ConvergenceWarning, match="stopped after 3 sweeps before convergence; raise max_iter or tol"
    ):
        model = model_of(name, max_iter=3, n_init=1).fit(table(name))
    assert (model.n_iter_, len(model.elbo_path_), model.converged_) == (3, 3, False)
    np.testing.assert_array_equal(model.predict(table(name)), model.labels_)


def test_a_solution_as_a_start_stays():
    X = table()
    model = model_of(tol=1e-9).fit(X)
    again = model_of(K=model.n_clusters_, tol=1e-9, init=model.predict_proba(X)).fit(X)
    np.testing.assert_array_equal(again.labels_, model.labels_)
    assert again.n_clusters_ == model.n_clusters_


# ---- the same bits ----


@every_model
def test_starts_side_by_side_on_any_number_of_threads(name, monkeypatch):
    monkeypatch.setattr(parallel, "SMALL_WORK", 0)
    X = table(name)
    X[3, 2] = np.nan
    fits = [model_of(name, n_init=5, n_threads=n_threads).fit(X) for n_threads in (1, 2, 3, 7)]
    for other in fits[1:]:
        assert_same_bits(fits[0], other)
        np.testing.assert_array_equal(fits[0].predict_proba(X), other.predict_proba(X))


@pytest.mark.slow_except(4)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@every_model
def test_rows_shared_out_on_any_number_of_threads(name, dtype, monkeypatch):
    """A small table made to take the way of the large ones: several segments of rows."""
    monkeypatch.setattr(parallel, "SMALL_WORK", 0)
    monkeypatch.setattr(estimator, "_PARALLEL_STARTS", 0)
    X = table(name, 1, 2600, 5).astype(dtype)
    X[np.random.default_rng(0).random(X.shape) < 0.02] = np.nan
    weight = None if dtype is np.float64 else np.random.default_rng(1).gamma(1.0, 1.0, len(X))
    fits = [
        model_of(name, n_init=2, max_iter=15, n_threads=n_threads).fit(X, sample_weight=weight)
        for n_threads in (1, 2, 3, 7)
    ]
    for other in fits[1:]:
        assert_same_bits(fits[0], other)
        np.testing.assert_array_equal(fits[0].predict_proba(X), other.predict_proba(X))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_large_table_on_any_number_of_threads():
    X = synthetic("local", 0, 30_000, 12)[0].astype(np.float32)
    assert X.size * 30 > estimator._PARALLEL_STARTS * parallel.SMALL_WORK
    fits = [model_of(K=30, n_init=1, max_iter=6, n_threads=n_threads).fit(X) for n_threads in (1, 2, 3, 7)]
    for other in fits[1:]:
        assert_same_bits(fits[0], other)
    np.testing.assert_array_equal(fits[0].predict(X), fits[3].predict(X))


@pytest.mark.slow
def test_the_same_bits_on_every_instruction_set_and_block_size():
    script = (
        "import hashlib, numpy as np; from craftc import FeatureSelectionMixture\n"
        "h = hashlib.sha256()\n"
        "for seed in range(12):\n"
        "    rng = np.random.default_rng(seed)\n"
        "    n, D = [(40, 1), (90, 7), (33, 8), (700, 17), (64, 40), (40, 70)][seed // 2]\n"
        "    X = rng.normal(size=(n, D)) + 3 * rng.normal(size=(3, D))[np.arange(n) % 3]\n"
        "    more = [{}, {'selection': 'shared'}, {'noise': 'feature'}, {'learn_fraction': True}][seed % 4]\n"
        "    if seed % 3 == 2:\n"
        "        X, more = np.rint(abs(X)), {'component': 'poisson'}\n"
        "    X[rng.random(X.shape) < 0.1 * (seed % 2)] = np.nan\n"
        "    X = X.astype([np.float32, np.float64][seed // 2 % 2])\n"
        "    m = FeatureSelectionMixture(5, n_threads=2, n_init=2, random_state=seed, max_iter=30, "
        "**more).fit(X)\n"
        "    for a in (m.labels_, m.elbo_path_, m.feature_probabilities_, m.predict_proba(X), m.elbo_, "
        "m.means_):\n"
        "        h.update(np.ascontiguousarray(a).tobytes())\n"
        "print(h.hexdigest())\n"
    )
    levels = (("baseline", "1024"), ("v3", "8"), ("v4", "100000"))
    assert len({run(script, CRAFTC_SIMD=level, CRAFTC_BLOCK=block) for level, block in levels}) == 1


# ---- moved, scaled, shuffled, laid out ----


@pytest.mark.parametrize("k", [-140, -40, 1, 7, 100])
@pytest.mark.parametrize("scale", ["scalar", "standard", "auto"])
def test_a_power_of_two_scales_every_bit(scale, k):
    X = table()
    plain, scaled = model_of(scale=scale).fit(X), model_of(scale=scale).fit(np.ldexp(X, k))
    np.testing.assert_array_equal(plain.labels_, scaled.labels_)
    np.testing.assert_array_equal(plain.elbo_path_, scaled.elbo_path_)
    np.testing.assert_array_equal(plain.feature_probabilities_, scaled.feature_probabilities_)
    np.testing.assert_array_equal(np.ldexp(plain.means_, k), scaled.means_)


def test_columns_standardised_may_have_any_units():
    X, powers = table(), np.arange(-21, 21, 6)
    plain, scaled = (model_of(scale="standard").fit(x) for x in (X, np.ldexp(X, powers)))
    np.testing.assert_array_equal(plain.elbo_path_, scaled.elbo_path_)
    np.testing.assert_array_equal(plain.labels_, scaled.labels_)
    np.testing.assert_array_equal(np.ldexp(plain.variances_, 2 * powers), scaled.variances_)
    assert model_of(scale="auto").fit(np.ldexp(X, powers)).elbo_ == scaled.elbo_
    assert model_of(scale="auto").fit(X).elbo_ == model_of(scale="scalar").fit(X).elbo_ != plain.elbo_


def test_an_offset_changes_nothing():
    X = np.rint(table() * 512) / 512  # so that X + 10^6 is exact
    near, far = model_of().fit(X), model_of().fit(X + 1e6)
    assert_close(near, model_of().fit(X))
    np.testing.assert_array_equal(near.labels_, far.labels_)
    assert far.elbo_ == pytest.approx(near.elbo_, rel=1e-7)
    np.testing.assert_allclose(far.means_ - 1e6, near.means_, atol=1e-5)


@every_model
@pytest.mark.parametrize("seed", range(2))
def test_rows_and_columns_may_be_shuffled(seed, name):
    """From given responsibilities; sums of cells run in another order, so that the last bits may differ."""
    X, rng = table(name, seed, 90), np.random.default_rng(seed)
    X[rng.random(X.shape) < 0.05] = np.nan
    R, rows, columns = rng.dirichlet(np.ones(4), 90), rng.permutation(90), rng.permutation(7)
    plain = model_of(name, 4, init=R).fit(X)
    shuffled = model_of(name, 4, init=R).fit(X[:, columns])
    assert_close(plain, shuffled, columns)
    shuffled = model_of(name, 4, init=R[rows]).fit(X[rows])
    assert shuffled.elbo_ == pytest.approx(plain.elbo_, rel=1e-7)
    pairs = set(zip(shuffled.labels_.tolist(), plain.labels_[rows].tolist(), strict=True))
    assert (
        len(pairs) == plain.n_clusters_ == shuffled.n_clusters_
    )  # the numbers follow the rows, the clusters are the same


@every_model
def test_float32_is_float64_of_the_same_numbers(name):
    X = table(name).astype(np.float32)
    X[7, 1] = np.nan
    single, double = model_of(name).fit(X), model_of(name).fit(X.astype(np.float64))
    assert_same_bits(single, double)
    np.testing.assert_array_equal(single.predict_proba(X), double.predict_proba(X.astype(np.float64)))
    np.testing.assert_array_equal(single.score_samples(X), double.score_samples(X.astype(np.float64)))


@pytest.mark.parametrize("order", ["F", "strided", "columns", "read-only"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ["local", "counts"])
def test_any_memory_layout(name, order, dtype):
    X = table(name).astype(dtype)
    laid = {
        "F": np.asfortranarray(X),
        "strided": np.repeat(X, 2, axis=0)[::2],
        "columns": np.repeat(X, 2, axis=1)[:, ::2],
    }
    laid["read-only"] = X.copy()
    laid[order].flags.writeable = order != "read-only"
    model, expected = model_of(name).fit(laid[order]), model_of(name).fit(X)
    assert_same_bits(model, expected)
    np.testing.assert_array_equal(model.predict_proba(laid[order]), expected.predict_proba(X))
    R = np.random.default_rng(0).dirichlet(np.ones(3), len(X))
    given = {
        "F": np.asfortranarray(R),
        "strided": np.repeat(R, 2, axis=0)[::2],
        "columns": np.repeat(R, 2, axis=1)[:, ::2],
    }
    given["read-only"] = R.copy()
    given[order].flags.writeable = order != "read-only"
    assert_same_bits(model_of(name, init=given[order]).fit(X), model_of(name, init=R).fit(X))


def test_data_frames_lists_and_whole_numbers():
    X, names = np.rint(table()), list("abcdefg")
    expected = model_of().fit(X)
    assert_same_bits(model_of().fit(X.astype(int)), expected)
    assert_same_bits(model_of().fit(X.tolist()), expected)
    for frame in (pd.DataFrame(X, columns=names), pl.DataFrame(X, schema=names)):
        model = model_of().fit(frame)
        assert_same_bits(model, expected)
        assert model.feature_names_in_.tolist() == names
        np.testing.assert_array_equal(model.predict(frame), expected.predict(X))
        np.testing.assert_array_equal(model.predict(frame[list("bacdefg")]), expected.predict(X))
        with pytest.raises(ValueError, match="feature names"):
            model.predict(frame[list("bacdef")])
    X[4, 3] = np.nan
    with_missing = model_of().fit(X)
    assert_same_bits(model_of().fit(pd.DataFrame(X)), with_missing)
    assert_same_bits(model_of().fit(pl.DataFrame(X)), with_missing)


# ---- what a table may look like ----


@pytest.mark.slow_except(5)
@pytest.mark.filterwarnings("ignore:Columns without variance:UserWarning")
@pytest.mark.filterwarnings("ignore:.*which are too few to show distributions:UserWarning")
@every_model
@pytest.mark.parametrize("shape", [(2, 1), (2, 5), (3, 1), (5, 70)])
def test_few_rows_and_more_components_than_rows(name, shape):
    X = (
        np.eye(*shape) if name == "binary" else table(name, 0, *shape) + np.eye(*shape)
    )  # no column of the first five is constant
    for K in (1, 2, 30):
        model = model_of(name, K, max_iter=5000).fit(X)
        assert 1 <= model.n_clusters_ <= min(K, shape[0])
        check_state(model, X)


@every_model
def test_constant_columns_change_nothing(name):
    X = table(name)
    first, last = (1.0, 0.0) if name == "binary" else (3.0, 5.0)
    wide = np.column_stack(
        [
            np.full(len(X), first),
            X[:, :4],
            np.where(np.arange(len(X)) == 7, 1.0, np.nan),
            X[:, 4:],
            np.where(np.arange(len(X)) % 2, last, np.nan),
        ]
    )
    with pytest.warns(UserWarning, match="columns 0, 5, 9") as caught:
        model = model_of(name, scale="standard").fit(wide)
    assert len(caught) == 1
    plain, there = model_of(name, scale="standard").fit(X), [1, 2, 3, 4, 6, 7, 8]
    np.testing.assert_array_equal(model.labels_, plain.labels_)
    np.testing.assert_array_equal(model.elbo_path_, plain.elbo_path_)
    for attribute in ("feature_probabilities_", "feature_gains_", "means_", "variances_"):
        np.testing.assert_array_equal(getattr(model, attribute)[:, there], getattr(plain, attribute))
    assert not model.feature_mask_[:, [0, 5, 9]].any()
    assert not model.feature_probabilities_[:, [0, 5, 9]].any()
    assert (model.means_[:, [0, 9]] == [first, last]).all()
    assert not model.variances_[:, [0, 9]].any()
    constant = np.isin(np.arange(10), [0, 5, 9])
    moved = np.where(constant, 1.0 - wide, wide) if name == "binary" else wide + constant * 7.0
    np.testing.assert_array_equal(model.predict_proba(moved), plain.predict_proba(X))
    if "counts" not in name:
        np.testing.assert_array_equal(model.score_samples(moved), plain.score_samples(X))


@every_model
def test_nothing_but_constants(name):
    value = 1.0 if name == "binary" else 2.0
    X = np.column_stack([np.full(6, value), np.where(np.arange(6) == 2, 1.0, np.nan)])
    with pytest.warns(UserWarning, match="columns 0, 1"):
        model = model_of(name).fit(X)
    assert model.n_clusters_ == 1
    assert not model.labels_.any()
    assert not model.feature_mask_.any()
    check_state(model, X)
    assert model.sample(3)[0][:, 0].tolist() == [value] * 3
    assert model.summary()[["feature", "gain", "probability"]].to_numpy().tolist() == [
        ["(none: like the whole table)", 0.0, 0.0]
    ]


@every_model
def test_missing_cells(name):
    """A row without cells goes where most rows are; one cell missing moves its row's numbers only."""
    X = table(name)
    X[5] = np.nan
    model = model_of(name).fit(X)
    check_state(model, X)
    proba = model.predict_proba(np.full((2, 7), np.nan))
    np.testing.assert_array_equal(proba[0], proba[1])
    assert model.cluster_sizes_[proba[0].argmax()] >= model.cluster_sizes_.max() - 2
    new = table(name)[:20]
    new[3, 2] = np.nan
    rest = np.arange(20) != 3
    np.testing.assert_array_equal(model.predict_proba(new)[rest], model.predict_proba(table(name)[:20])[rest])


def test_a_missing_column_has_no_influence():
    """Rows are assigned by the other columns; the odds change by the contribution of the column."""
    X, group, _ = synthetic("local", 3, 300, 8)
    model, new = model_of().fit(X), X[:40].copy()
    for d in range(8):
        new[:, d] = np.nan
        with np.errstate(divide="ignore"):
            before, after = (
                np.log(model.predict_proba(rows)) for rows in (new, np.where(np.arange(8) == d, 1e3, new))
            )
        new[:, d] = X[:40, d]
        assert np.isfinite(before).any()
        if not model.feature_probabilities_[:, d].any():
            np.testing.assert_allclose(before, after, atol=1e-12)
    hidden = np.where(np.arange(8) == 2, np.nan, X)
    assert normalized_mutual_info_score(group, model.predict(hidden)) > 0.8


def test_equal_rows_are_one_cluster():
    X = np.repeat([[0.0, 1.0], [5.0, -3.0]], 8, axis=0)
    model = model_of(K=5).fit(X)
    assert model.n_clusters_ <= 2
    assert len(set(model.labels_[:8])) == len(set(model.labels_[8:])) == 1


@pytest.mark.parametrize("correlated", [2, 3, 5])
@pytest.mark.parametrize("selection", ["local", "shared"])
@pytest.mark.parametrize("seed", range(2))
def test_full_covariances_find_columns_that_matter_together_only(seed, selection, correlated):
    rng = np.random.default_rng(seed)
    common = rng.normal(size=(200, 1))
    X = np.c_[common + 0.05 * rng.normal(size=(200, correlated)), rng.normal(size=(200, 3))]
    model = FeatureSelectionMixture(
        1, covariance="full", scale="none", selection=selection, random_state=seed
    ).fit(X)
    assert model.feature_mask_[0].tolist() == [True] * correlated + [False] * 3
