"""Properties of the mixture with feature selection on any table: the bound rises, densities are densities, the same bits everywhere."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import normalized_mutual_info_score

from craftc import FeatureSelectionMixture
from craftc import _parallel as parallel
from craftc import mixture as estimator
from craftc._mixture_model import Beliefs
from tests.common import ROOT, examples

MODELS = {
    "local": {},
    "global": {"selection": "global"},
    "shared": {"selection": "shared"},
    "own noise": {"noise": "feature", "scale": "standard"},
    "learnt": {"learn_fraction": True},
    "apart": {"merge": False, "init": "random"},
    "counts": {"component": "poisson"},
    "shared counts": {"component": "poisson", "selection": "shared", "learn_fraction": True},
}
every_model = pytest.mark.parametrize("name", MODELS)


def model_of(name="local", K=6, **parameters):
    """An unfitted model by name, its seed 0."""
    return FeatureSelectionMixture(K, **{"random_state": 0, "n_threads": 1, **MODELS[name], **parameters})


def synthetic(kind, seed, n=240, D=16):
    """(X, clusters, masks): three clusters with normal columns of their own, or all with the same ones; wide noise elsewhere."""
    rng = np.random.default_rng(seed)
    group = np.arange(n) % 3
    mask = rng.random((3, D)) < 0.5 if kind == "local" else np.tile(np.arange(D) < D // 2, (3, 1))
    means = rng.normal(0, 3, (3, D))
    return np.where(mask[group], means[group] + rng.normal(size=(n, D)), rng.normal(0, 3, (n, D))), group, mask


def table(name="local", seed=0, n=120, D=7):
    """Clusters of numbers, or of counts where the model is of counts."""
    if "counts" not in name:
        return synthetic("local", seed, n, D)[0]
    rng = np.random.default_rng(seed)
    return rng.poisson(rng.gamma(1.0, 6.0, (3, D))[np.arange(n) % 3]).astype(float)


def assert_same_bits(a, b):
    """Two fitted models agree to the last bit."""
    for attribute in (
        "labels_", "weights_", "feature_mask_", "feature_probabilities_", "feature_gains_", "means_", "variances_", "cluster_sizes_",
        "elbo_path_", "scale_",
    ):  # fmt: skip
        np.testing.assert_array_equal(getattr(a, attribute), getattr(b, attribute), err_msg=attribute)
    assert (a.elbo_, a.feature_fraction_, a.n_iter_, a.converged_) == (b.elbo_, b.feature_fraction_, b.n_iter_, b.converged_)


def assert_close(a, b, columns=slice(None)):
    """The same result to rounding; b has its columns in another order."""
    np.testing.assert_array_equal(a.labels_, b.labels_)
    assert a.elbo_ == pytest.approx(b.elbo_, rel=1e-7)
    np.testing.assert_allclose(a.feature_probabilities_[:, columns], b.feature_probabilities_, rtol=0, atol=1e-5)
    np.testing.assert_allclose(a.means_[:, columns], b.means_, rtol=1e-5, atol=1e-5 * np.abs(b.means_).max())


# ---- the bound ----


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
def test_the_bound_never_falls(seed, name, init, scale, missing, concentration, dtype):
    rng = np.random.default_rng(seed)
    n, K = int(rng.integers(2, 60)), int(rng.integers(1, 9))
    X = table(name, seed, n, int(rng.integers(1, 20))).astype(dtype)
    X[rng.random(X.shape) < missing] = np.nan
    start = rng.dirichlet(np.ones(K), n) if init == "given" else init
    model = model_of(name, K, init=start, scale=scale, concentration=concentration, n_init=2, random_state=seed, max_iter=4000).fit(X)
    path = np.append(model.elbo_path_, model.elbo_)
    assert (np.diff(path) >= -1e-9 * np.maximum(1.0, np.abs(path[1:]))).all()
    assert model.converged_
    check_state(model, X)


def check_state(model, X):
    """Attributes agree with each other and with what the model says about the rows it was fitted to."""
    K, D = model.n_clusters_, X.shape[1]
    assert (model.labels_.dtype, model.labels_.shape) == (np.int32, (len(X),))
    np.testing.assert_array_equal(model.predict(X), model.labels_)
    assert [np.flatnonzero(model.labels_ == k)[0] for k in range(K)] == sorted(np.unique(model.labels_, return_index=True)[1])
    np.testing.assert_array_equal(model.cluster_sizes_, np.bincount(model.labels_, minlength=K))
    assert model.cluster_sizes_.min() >= 1
    assert model.weights_.sum() == pytest.approx(1.0)
    for values in (model.feature_probabilities_, model.feature_mask_, model.feature_gains_, model.means_, model.variances_):
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
    bounds = [model_of(K=8, init="random", n_init=n_init).fit(X).elbo_ for n_init in (1, 2, 4, 8)]
    assert (np.diff(bounds) >= 0).all()


@pytest.mark.parametrize("name", ["local", "counts"])
def test_it_stops_at_max_iter(name):
    with pytest.warns(ConvergenceWarning, match="stopped after 3 sweeps while the bound still rose"):
        model = model_of(name, max_iter=3, n_init=1).fit(table(name))
    assert (model.n_iter_, len(model.elbo_path_), model.converged_) == (3, 3, False)
    np.testing.assert_array_equal(model.predict(table(name)), model.labels_)


def test_a_solution_as_a_start_stays():
    X = table()
    model = model_of(tol=1e-9).fit(X)
    again = model_of(K=model.n_clusters_, tol=1e-9, init=model.predict_proba(X)).fit(X)
    np.testing.assert_array_equal(again.labels_, model.labels_)
    assert again.n_clusters_ == model.n_clusters_


# ---- what is found ----


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize(("kind", "selection", "right"), [("local", "local", 0.93), ("global", "global", 1.0), ("global", "local", 1.0)])
def test_clusters_and_their_features_are_recovered(seed, kind, selection, right):
    X, group, mask = synthetic(kind, seed)
    model = model_of(selection, 12).fit(X)
    assert normalized_mutual_info_score(group, model.labels_) == pytest.approx(1.0)
    assert (model.feature_mask_[model.labels_[:3]] == mask).mean() >= right  # rows 0, 1, 2 are one of each cluster
    np.testing.assert_allclose(model.means_[model.labels_[:3]][mask], [X[group == k, d].mean() for k, d in np.argwhere(mask)], atol=0.5)
    np.testing.assert_allclose(model.weights_, 1 / 3, atol=0.05)


def test_clusters_of_counts_are_recovered_whatever_their_totals():
    rng = np.random.default_rng(0)
    group, lengths = np.arange(240) % 3, rng.gamma(1.0, 1.0, (240, 1)) + 0.3
    rates = np.full((3, 12), 6.0)
    rates[[0, 1, 2], [0, 4, 8]] = rates[[0, 1, 2], [1, 5, 9]] = 40.0
    X = rng.poisson(rates[group] * lengths).astype(float)
    model = model_of("counts", 10).fit(X)
    assert normalized_mutual_info_score(group, model.labels_) == pytest.approx(1.0)
    assert all(model.feature_mask_[model.labels_[k], [4 * k, 4 * k + 1]].all() for k in range(3))
    e = X.sum(axis=1) / X.sum(axis=1).mean()
    expected = [X[group == k].sum(axis=0) / e[group == k].sum() for k in range(3)]
    chosen = model.feature_mask_[model.labels_[:3]]
    np.testing.assert_allclose(model.means_[model.labels_[:3]][chosen], np.array(expected)[chosen], rtol=1e-6)


@pytest.mark.parametrize(("fraction", "variance"), [(0.5, 0.01), (0.5, 0.2), (0.3, 0.1)])
def test_rho_is_the_variance_of_a_columns_share(fraction, variance):
    """So that two masks correlate by rho / (m (1 - m)): the larger rho ties them together, other than in the paper's text."""
    beliefs = Beliefs(
        2, counts=False, full=False, own_noise=False, tied=False, fraction=fraction, variance=variance, learn=False, concentration=1.0
    )  # fmt: skip
    share = stats.beta(*beliefs.shares(fraction))
    assert share.mean() == pytest.approx(fraction)
    assert share.var() == pytest.approx(variance)


def test_selection_ties_masks():
    """Share of columns that some clusters select and some do not: most of all with "local", none with "shared"."""
    vary = {}
    for selection in ("local", "global", "shared"):
        masks = [model_of(selection, 10).fit(synthetic("local", seed)[0]).feature_mask_ for seed in range(4)]
        vary[selection] = np.mean([mask.any(axis=0) & ~mask.all(axis=0) for mask in masks])
    assert vary["local"] > vary["global"] > vary["shared"] == 0.0


def test_concentration_and_merges_decide_how_many_clusters():
    X = np.random.default_rng(0).normal(size=(150, 6))
    assert model_of(K=10, n_init=1).fit(X).n_clusters_ < model_of(K=10, n_init=1, merge=False).fit(X).n_clusters_


# ---- densities ----


@pytest.mark.parametrize("scale", ["scalar", "standard", "none"])
def test_the_density_integrates_to_one(scale):
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(-4, 0.5, 40), rng.normal(3, 2, 60)])[:, None]
    model = model_of(scale=scale).fit(X)
    total = sum(
        integrate.quad(lambda x: np.exp(model.score_samples([[x]])[0]), *ends, limit=300)[0] for ends in ((-np.inf, 0), (0, np.inf))
    )
    assert total == pytest.approx(1.0, abs=1e-5)


def test_the_density_of_two_columns_integrates_to_one_and_a_missing_cell_is_integrated_out():
    X = synthetic("local", 1, 90, 2)[0] + [100.0, -3.0]
    model = model_of().fit(X)
    u = np.linspace(-9, 9, 601)
    grid, step = np.sinh(u), np.cosh(u) * (u[1] - u[0])
    x, y = grid + 100.0, grid - 3.0
    density = np.exp(model.score_samples(np.stack(np.meshgrid(x, y, indexing="ij"), axis=-1).reshape(-1, 2))).reshape(601, 601)
    assert step @ density @ step == pytest.approx(1.0, abs=2e-3)
    some = slice(250, 350, 10)
    alone = np.exp(model.score_samples(np.column_stack([x[some], np.full(10, np.nan)])))
    np.testing.assert_allclose(density[some] @ step, alone, rtol=2e-3)
    assert model.score_samples([[np.nan, np.nan]])[0] == pytest.approx(0.0, abs=1e-12)


def test_the_density_is_a_mixture_of_student_ts():
    X = synthetic("local", 1, 90, 5)[0]
    model = model_of(scale="none").fit(X)
    posterior = model._posterior
    z = X - X.mean(axis=0)
    noise, *own = (
        stats.t(2 * q.a, q.mean, np.sqrt(q.b / q.a * (1 + 1 / q.kappa))).pdf(z) for q in (posterior.background, *posterior.clusters)
    )
    parts = [np.prod(p * cells + (1 - p) * noise, axis=1) for p, cells in zip(model.feature_probabilities_, own, strict=True)]
    np.testing.assert_allclose(model.score_samples(X), np.log(model.weights_ @ parts), rtol=1e-9)


def test_the_predictive_of_counts_sums_to_one_for_an_exposure():
    X = table("counts", n=60, D=3)
    X[0, 1] = np.nan
    model = model_of("counts").fit(X)
    posterior = model._posterior
    counts = np.arange(3000.0)[:, None] * np.ones(3)
    for columns in (*posterior.clusters, posterior.background):
        for exposure in (0.1, 1.0, 7.0):
            logs = columns.log_density(counts, np.full(3000, exposure))
            np.testing.assert_allclose(np.exp(logs).sum(axis=0), 1.0, rtol=1e-6)
            a, b = columns.a, columns.b
            np.testing.assert_allclose(logs[:50], stats.nbinom(a, b / (b + exposure)).logpmf(counts[:50]), rtol=1e-9, atol=1e-9)
    by_hand, rows = np.zeros((5, model.n_clusters_)), X[:5]
    e = np.nansum(rows, axis=1) / (~np.isnan(rows) * np.nanmean(X, axis=0)).sum(axis=1)
    for k, own in enumerate(posterior.clusters):
        inside, outside = np.exp(own.log_density(rows, e)), np.exp(posterior.background.log_density(rows, e))
        by_hand[:, k] = np.prod(posterior.p[k] * inside + (1 - posterior.p[k]) * outside, axis=1)
    np.testing.assert_allclose(model.score_samples(rows), np.log(by_hand @ model.weights_), rtol=1e-9)


@pytest.mark.parametrize("scale", ["scalar", "standard", "auto"])
def test_densities_are_in_units_of_the_table(scale):
    X = table()
    X[5, 2] = np.nan
    near, far = model_of(scale=scale).fit(X), model_of(scale=scale).fit(10.0 * X)
    np.testing.assert_array_equal(near.labels_, far.labels_)
    cells = (~np.isnan(X)).sum(axis=1)
    np.testing.assert_allclose(far.score_samples(10.0 * X), near.score_samples(X) - cells * np.log(10.0), rtol=1e-7)
    np.testing.assert_allclose(far.means_, 10.0 * near.means_, rtol=1e-7)
    np.testing.assert_allclose(far.variances_, 100.0 * near.variances_, rtol=1e-7)
    np.testing.assert_allclose(far.scale_, near.scale_ / 10.0, rtol=1e-12)


@pytest.mark.parametrize("name", ["local", "own noise", "counts"])
def test_samples_are_like_the_table(name):
    X = table(name, n=600, D=5)
    X = np.column_stack([X, np.full(600, 4.0)])
    with pytest.warns(UserWarning, match="without variance"):
        model = model_of(name).fit(X)
    new, labels = model.sample(40_000, random_state=1)
    assert (new.shape, labels.shape) == ((40_000, 6), (40_000,))
    assert (new[:, 5] == 4.0).all()
    np.testing.assert_allclose(np.bincount(labels, minlength=model.n_clusters_) / 40_000, model.weights_, atol=0.01)
    for k in range(model.n_clusters_):
        sure = np.abs(model.feature_probabilities_[k] - 0.5) > 0.499
        cells = new[labels == k]
        deviation = np.sqrt(model.variances_[k])
        np.testing.assert_allclose((cells.mean(axis=0) - model.means_[k])[sure], 0.0, atol=(0.05 * deviation + 1e-9)[sure].max())
        np.testing.assert_allclose(cells.var(axis=0)[sure], model.variances_[k][sure], rtol=0.15)
    if name != "counts":  # whose rows have a total each, and new ones that of the mean
        np.testing.assert_allclose(new.mean(axis=0), X.mean(axis=0), atol=0.1 * X.std(axis=0).max())
    again, _ = model.sample(5, random_state=np.random.RandomState(1))
    np.testing.assert_array_equal(again, model.sample(5, random_state=1)[0])
    np.testing.assert_array_equal(model.sample(3)[0], model.sample(3, random_state=0)[0])


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


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@every_model
def test_rows_shared_out_on_any_number_of_threads(name, dtype, monkeypatch):
    """A small table made to take the way of the large ones: several segments of rows."""
    monkeypatch.setattr(parallel, "SMALL_WORK", 0)
    monkeypatch.setattr(estimator, "_SIDE_BY_SIDE", 0)
    X = table(name, 1, 2600, 5).astype(dtype)
    X[np.random.default_rng(0).random(X.shape) < 0.02] = np.nan
    fits = [model_of(name, n_init=2, max_iter=15, n_threads=n_threads).fit(X) for n_threads in (1, 2, 3, 7)]
    for other in fits[1:]:
        assert_same_bits(fits[0], other)
        np.testing.assert_array_equal(fits[0].predict_proba(X), other.predict_proba(X))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_large_table_on_any_number_of_threads():
    X = synthetic("local", 0, 30_000, 12)[0].astype(np.float32)
    assert X.size * 30 > estimator._SIDE_BY_SIDE * parallel.SMALL_WORK
    fits = [model_of(K=30, n_init=1, max_iter=6, n_threads=n_threads).fit(X) for n_threads in (1, 2, 3, 7)]
    for other in fits[1:]:
        assert_same_bits(fits[0], other)
    np.testing.assert_array_equal(fits[0].predict(X), fits[3].predict(X))


def run(script, **environment):
    """What a script prints."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore", **environment}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, cwd=ROOT, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


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
        "    m = FeatureSelectionMixture(5, n_threads=2, n_init=2, random_state=seed, max_iter=30, **more).fit(X)\n"
        "    for a in (m.labels_, m.elbo_path_, m.feature_probabilities_, m.predict_proba(X), m.elbo_, m.means_):\n"
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
    assert len(pairs) == plain.n_clusters_ == shuffled.n_clusters_  # the numbers follow the rows, the clusters are the same


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
    laid = {"F": np.asfortranarray(X), "strided": np.repeat(X, 2, axis=0)[::2], "columns": np.repeat(X, 2, axis=1)[:, ::2]}
    laid["read-only"] = X.copy()
    laid[order].flags.writeable = order != "read-only"
    model, expected = model_of(name).fit(laid[order]), model_of(name).fit(X)
    assert_same_bits(model, expected)
    np.testing.assert_array_equal(model.predict_proba(laid[order]), expected.predict_proba(X))
    R = np.random.default_rng(0).dirichlet(np.ones(3), len(X))
    given = {"F": np.asfortranarray(R), "strided": np.repeat(R, 2, axis=0)[::2], "columns": np.repeat(R, 2, axis=1)[:, ::2]}
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
        with pytest.raises(ValueError, match="feature names"):
            model.predict(frame[list("bacdefg")])
    X[4, 3] = np.nan
    holed = model_of().fit(X)
    assert_same_bits(model_of().fit(pd.DataFrame(X)), holed)
    assert_same_bits(model_of().fit(pl.DataFrame(X)), holed)


# ---- what a table may look like ----


@every_model
@pytest.mark.parametrize("shape", [(2, 1), (2, 5), (3, 1), (5, 70)])
def test_few_rows_and_more_components_than_rows(name, shape):
    X = table(name, 0, *shape) + np.eye(*shape)
    for K in (1, 2, 30):
        model = model_of(name, K, max_iter=5000).fit(X)
        assert 1 <= model.n_clusters_ <= min(K, shape[0])
        check_state(model, X)


@every_model
def test_constant_and_empty_columns_change_nothing(name):
    X = table(name)
    wide = np.column_stack(
        [np.full(len(X), 3.0), X[:, :4], np.full(len(X), np.nan), X[:, 4:], np.where(np.arange(len(X)) % 2, 5.0, np.nan)]
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
    assert (model.means_[:, [0, 9]] == [3.0, 5.0]).all()
    assert not model.variances_[:, [0, 9]].any()
    moved = wide + np.isin(np.arange(10), [0, 5, 9]) * 7.0
    np.testing.assert_array_equal(model.predict_proba(moved), plain.predict_proba(X))
    if "counts" not in name:
        np.testing.assert_array_equal(model.score_samples(moved), plain.score_samples(X))


@every_model
def test_nothing_but_constants(name):
    X = np.column_stack([np.full(6, 2.0), np.full(6, np.nan)])
    with pytest.warns(UserWarning, match="columns 0, 1"):
        model = model_of(name).fit(X)
    assert model.n_clusters_ == 1
    assert not model.labels_.any()
    assert not model.feature_mask_.any()
    check_state(model, X)
    assert model.sample(3)[0][:, 0].tolist() == [2.0] * 3
    assert model.summary()[["feature", "gain", "probability"]].to_numpy().tolist() == [["(none: like the whole table)", 0.0, 0.0]]


@every_model
def test_holes(name):
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


def test_a_column_that_is_missing_counts_nothing():
    """The rows are told by the others: the odds change by what the column said."""
    X, group, _ = synthetic("local", 3, 300, 8)
    model, new = model_of().fit(X), X[:40].copy()
    for d in range(8):
        new[:, d] = np.nan
        with np.errstate(divide="ignore"):
            before, after = (np.log(model.predict_proba(rows)) for rows in (new, np.where(np.arange(8) == d, 1e3, new)))
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


# ---- the estimator ----


@every_model
def test_clone_and_pickle(name):
    X = table(name)
    model = model_of(name).fit(X)
    again = pickle.loads(pickle.dumps(model))
    assert_same_bits(again, model)
    for method in ("predict", "predict_proba", "score_samples"):
        np.testing.assert_array_equal(getattr(again, method)(X), getattr(model, method)(X))
    np.testing.assert_array_equal(again.sample(7)[0], model.sample(7)[0])
    copy = clone(model)
    assert not hasattr(copy, "labels_")
    assert_same_bits(copy.fit(X), model)
    np.testing.assert_array_equal(clone(model).fit_predict(X), model.labels_)


def test_random_states():
    X = table()
    assert_same_bits(model_of(random_state=3).fit(X), model_of(random_state=np.int64(3)).fit(X))
    first, second = (model_of(random_state=np.random.RandomState(1), init="random").fit(X) for _ in range(2))
    assert_same_bits(first, second)


def test_summary():
    X = synthetic("local", 1)[0]
    names = [f"f{d}" for d in range(16)]
    model = model_of().fit(pd.DataFrame(X, columns=names))
    frame = model.summary()
    assert list(frame.columns) == [
        "cluster", "rows", "share", "feature", "gain", "probability", "in the cluster", "in the whole table",
    ]  # fmt: skip
    assert frame["cluster"].is_monotonic_increasing
    for k, part in frame.groupby("cluster"):
        assert part["gain"].is_monotonic_decreasing
        chosen = [names.index(feature) for feature in part["feature"]]
        assert sorted(chosen) == np.flatnonzero(model.feature_mask_[k]).tolist()
        np.testing.assert_array_equal(part["gain"], model.feature_gains_[k, chosen])
        np.testing.assert_array_equal(part["probability"], model.feature_probabilities_[k, chosen])
        assert (part["rows"] == model.cluster_sizes_[k]).all()
        assert (part["share"] == model.weights_[k]).all()
        for d, inside, everywhere in zip(chosen, part["in the cluster"], part["in the whole table"], strict=True):
            for words, mean, variance in (
                (inside, model.means_[k, d], model.variances_[k, d]),
                (everywhere, X[:, d].mean(), X[:, d].var()),
            ):
                said = [float(word) for word in words.replace(",", "").split(" ± ")]
                np.testing.assert_allclose(said, [mean, np.sqrt(variance)], rtol=1e-2, atol=1e-3)
    assert set(model_of().fit(X).summary()["feature"]) <= {f"x{d}" for d in range(16)}


def test_verbose_prints(capsys):
    X = table()
    model_of(n_init=2).fit(X)
    assert capsys.readouterr().out == ""
    model_of(n_init=2, verbose=1).fit(X)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    assert "start 1: " in lines[1]
    assert "clusters after" in lines[1]
    model_of(n_init=2, verbose=2).fit(X)
    assert "components" in capsys.readouterr().out


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGINT to a process here")
@pytest.mark.parametrize(("n", "n_threads"), [(6000, 1), (19_000, 2), (60_000, 2)], ids=["one by one", "side by side", "rows"])
def test_ctrl_c_ends_a_long_fit(n, n_threads):
    """Sweeps without an end: they climb by rounding, or for long. The time is from the signal to the exception."""
    script = (
        "import os, signal, threading, time, numpy as np; from craftc import FeatureSelectionMixture\n"
        f"X = np.random.default_rng(0).normal(size=({n}, 20))\n"
        "at = []\n"
        "threading.Timer(1.0, lambda: (at.append(time.monotonic()), os.kill(os.getpid(), signal.SIGINT))).start()\n"
        "try:\n"
        f"    FeatureSelectionMixture(20, tol=0, merge=False, max_iter=10**6, n_init=40, n_threads={n_threads}, random_state=0).fit(X)\n"
        "except KeyboardInterrupt:\n"
        "    print(time.monotonic() - at[0])\n"
    )
    assert float(run(script)) < 1.0


@pytest.mark.parametrize("selection", ["local", "shared"])
def test_a_feature_that_all_select_is_let_go(selection):
    """From the true labels every column is selected by all, which leaves the noise without cells: updates alone stay there."""
    rng = np.random.default_rng(3)
    labels = np.repeat(np.arange(3), 100)
    mask = np.zeros((3, 20), bool)
    if selection == "local":
        for k in range(3):
            mask[k, 5 * k : 5 * k + 10] = True
    else:
        mask[:, :10] = True
    own = rng.normal(0, 3, (3, 20))[labels] + rng.normal(size=(300, 20))
    X = np.where(mask[labels], own, 3 * rng.normal(size=(300, 20)))
    start = np.eye(3)[labels]
    stuck = FeatureSelectionMixture(20, selection=selection, init=start, merge=False).fit(X)
    free = FeatureSelectionMixture(20, selection=selection, init=start).fit(X)
    right = (free.feature_mask_ == mask).mean()
    assert right >= max(0.95, (stuck.feature_mask_ == mask).mean())
    if selection == "local":
        assert free.elbo_ > stuck.elbo_ + 5


def correlated(seed):
    """Two clusters told by the correlation of two columns alone, and two columns of noise."""
    rng = np.random.default_rng(seed)
    labels = np.repeat([0, 1], 200)
    pair = rng.normal(size=(400, 2)) @ np.linalg.cholesky([[1.0, 0.95], [0.95, 1.0]]).T
    pair[labels == 1, 1] *= -1
    return np.column_stack([pair + 3.0 * labels[:, None], 2.0 * rng.normal(size=(400, 2))]), labels


def test_full_covariances():
    X, labels = correlated(0)
    model = FeatureSelectionMixture(6, covariance="full", random_state=0).fit(X)
    assert normalized_mutual_info_score(labels, model.labels_) > 0.95
    assert model.feature_mask_[:, :2].all()
    within = [model.covariances_[k][0, 1] / np.sqrt(model.covariances_[k][0, 0] * model.covariances_[k][1, 1]) for k in range(2)]
    np.testing.assert_allclose(within, [0.95, -0.95], atol=0.02)
    np.testing.assert_array_equal(model.predict(X), model.labels_)
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)
    np.testing.assert_allclose(model.variances_, np.einsum("kdd->kd", model.covariances_))
    assert (np.diff(model.elbo_path_) >= -1e-9 * abs(model.elbo_)).all()
    drawn, of = model.sample(20_000, random_state=0)
    np.testing.assert_allclose(drawn.mean(axis=0), X.mean(axis=0), atol=0.1)
    np.testing.assert_allclose(np.cov(drawn[of == 0][:, :2].T), np.cov(X[labels == 0][:, :2].T), atol=0.1)
    diagonal = FeatureSelectionMixture(6, random_state=0).fit(X)
    assert model.score(X) > diagonal.score(X) + 0.5
    assert not hasattr(model.set_params(covariance="diagonal").fit(X), "covariances_")


def test_the_density_with_full_covariances_integrates_to_one():
    X, _ = correlated(1)
    model = FeatureSelectionMixture(3, covariance="full", random_state=0).fit(X[:, :2])
    at = np.linspace(-30, 30, 601)
    grid = np.stack(np.meshgrid(at, at), axis=-1).reshape(-1, 2)
    assert np.exp(model.score_samples(grid)).sum() * 0.01 == pytest.approx(1.0, abs=2e-3)


def test_full_covariances_have_the_same_bits_on_any_number_of_threads():
    X, _ = correlated(2)
    one, two = (FeatureSelectionMixture(5, covariance="full", random_state=0, n_threads=k).fit(X) for k in (1, 3))
    np.testing.assert_array_equal(one.labels_, two.labels_)
    np.testing.assert_array_equal(one.elbo_path_, two.elbo_path_)
    np.testing.assert_array_equal(one.covariances_, two.covariances_)
