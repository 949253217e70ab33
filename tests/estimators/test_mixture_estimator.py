"""The mixture as an estimator: known clusters, densities, full covariances, verbose output."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from scipy import integrate, stats
from sklearn.base import clone
from sklearn.metrics import normalized_mutual_info_score

from craftc import FeatureSelectionMixture
from craftc.mixture.priors import Priors
from tests.estimators.mixture_cases import assert_same_bits, every_model, model_of, synthetic, table

# ---- what is found ----


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize(
    ("kind", "selection", "right"),
    [("local", "local", 0.93), ("global", "global", 1.0), ("global", "local", 1.0)],
)
def test_clusters_and_their_features_are_recovered(seed, kind, selection, right):
    X, group, mask = synthetic(kind, seed)
    model = model_of(selection, 12).fit(X)
    assert normalized_mutual_info_score(group, model.labels_) == pytest.approx(1.0)
    assert (
        model.feature_mask_[model.labels_[:3]] == mask
    ).mean() >= right  # rows 0, 1, 2 are one of each cluster
    np.testing.assert_allclose(
        model.means_[model.labels_[:3]][mask],
        [X[group == k, d].mean() for k, d in np.argwhere(mask)],
        atol=0.5,
    )
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
    """So that two masks correlate by rho / (m (1 - m)): the larger rho ties them together, other than in the
    paper's text.
    """
    priors = Priors(
        2,
        kind="gaussian",
        full=False,
        own_noise=False,
        tied=False,
        fraction=fraction,
        variance=variance,
        learn=False,
        own_fractions=False,
        fraction_prior=(1.0, 1.0),
        concentration=1.0,
        all_selected=False,
        learn_concentration=False,
        concentration_prior=(1.0, 1.0),
        mean_precision=0.1,
        freedom=2.0,
        scatter=1.0,
    )
    share = stats.beta(*priors.share_shapes(fraction))
    assert share.mean() == pytest.approx(fraction)
    assert share.var() == pytest.approx(variance)


def test_selection_ties_masks():
    """Share of columns that some clusters select and some do not: most of all with "local", none with
    "shared".
    """
    vary = {}
    for selection in ("local", "global", "shared"):
        masks = [model_of(selection, 10).fit(synthetic("local", seed)[0]).feature_mask_ for seed in range(4)]
        vary[selection] = np.mean([mask.any(axis=0) & ~mask.all(axis=0) for mask in masks])
    assert vary["local"] > vary["global"] > vary["shared"] == 0.0


def test_concentration_and_merges_decide_how_many_clusters():
    X = np.random.default_rng(0).normal(size=(150, 6))
    assert (
        model_of(K=10, n_init=1).fit(X).n_clusters_ < model_of(K=10, n_init=1, merge=False).fit(X).n_clusters_
    )


# ---- densities ----


@pytest.mark.parametrize("scale", ["scalar", "standard", "none"])
def test_the_density_integrates_to_one(scale):
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(-4, 0.5, 40), rng.normal(3, 2, 60)])[:, None]
    model = model_of(scale=scale).fit(X)
    total = sum(
        integrate.quad(lambda x: np.exp(model.score_samples([[x]])[0]), *ends, limit=300)[0]
        for ends in ((-np.inf, 0), (0, np.inf))
    )
    assert total == pytest.approx(1.0, abs=1e-5)


def test_the_density_of_two_columns_integrates_to_one_and_a_missing_cell_is_integrated_out():
    X = synthetic("local", 1, 90, 2)[0] + [100.0, -3.0]
    model = model_of().fit(X)
    u = np.linspace(-9, 9, 601)
    grid, step = np.sinh(u), np.cosh(u) * (u[1] - u[0])
    x, y = grid + 100.0, grid - 3.0
    density = np.exp(
        model.score_samples(np.stack(np.meshgrid(x, y, indexing="ij"), axis=-1).reshape(-1, 2))
    ).reshape(601, 601)
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
        stats.t(2 * q.a, q.mean, np.sqrt(q.b / q.a * (1 + 1 / q.kappa))).pdf(z)
        for q in (posterior.background, *posterior.clusters)
    )
    parts = [
        np.prod(p * cells + (1 - p) * noise, axis=1)
        for p, cells in zip(model.feature_probabilities_, own, strict=True)
    ]
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
            np.testing.assert_allclose(
                logs[:50], stats.nbinom(a, b / (b + exposure)).logpmf(counts[:50]), rtol=1e-9, atol=1e-9
            )
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
    np.testing.assert_allclose(
        far.score_samples(10.0 * X), near.score_samples(X) - cells * np.log(10.0), rtol=1e-7
    )
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
    np.testing.assert_allclose(
        np.bincount(labels, minlength=model.n_clusters_) / 40_000, model.weights_, atol=0.01
    )
    for k in range(model.n_clusters_):
        sure = np.abs(model.feature_probabilities_[k] - 0.5) > 0.499
        cells = new[labels == k]
        deviation = np.sqrt(model.variances_[k])
        np.testing.assert_allclose(
            (cells.mean(axis=0) - model.means_[k])[sure], 0.0, atol=(0.05 * deviation + 1e-9)[sure].max()
        )
        np.testing.assert_allclose(cells.var(axis=0)[sure], model.variances_[k][sure], rtol=0.15)
    if name != "counts":  # whose rows have a total each, and new ones that of the mean
        np.testing.assert_allclose(new.mean(axis=0), X.mean(axis=0), atol=0.1 * X.std(axis=0).max())
    again, _ = model.sample(5, random_state=np.random.RandomState(1))
    np.testing.assert_array_equal(again, model.sample(5, random_state=1)[0])
    np.testing.assert_array_equal(model.sample(3)[0], model.sample(3, random_state=0)[0])


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
        "cluster",
        "rows",
        "share",
        "feature",
        "gain",
        "probability",
        "in the cluster",
        "in the whole table",
    ]
    assert frame["cluster"].is_monotonic_increasing
    for k, part in frame.groupby("cluster"):
        assert part["gain"].is_monotonic_decreasing
        chosen = [names.index(feature) for feature in part["feature"]]
        assert sorted(chosen) == np.flatnonzero(model.feature_mask_[k]).tolist()
        np.testing.assert_array_equal(part["gain"], model.feature_gains_[k, chosen])
        np.testing.assert_array_equal(part["probability"], model.feature_probabilities_[k, chosen])
        assert (part["rows"] == model.cluster_sizes_[k]).all()
        assert (part["share"] == model.cluster_sizes_[k] / len(X)).all()  # of the rows, as in all summaries
        for d, inside, everywhere in zip(
            chosen, part["in the cluster"], part["in the whole table"], strict=True
        ):
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
    assert [line[:9] for line in lines[:2]] == ["start 0: ", "start 1: "]
    assert len(lines) == 3  # the best of them once more, at its end
    assert all("components after" in line for line in lines)
    model_of(n_init=2, verbose=2).fit(X)
    assert "components" in capsys.readouterr().out


@pytest.mark.parametrize("selection", ["local", "shared"])
def test_a_feature_that_all_select_is_deselected(selection):
    """From the true labels every column is selected by all, which leaves the noise without cells: updates
    alone stay there.
    """
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
    """Two clusters that differ only in the correlation of two columns, and two columns of noise."""
    rng = np.random.default_rng(seed)
    labels = np.repeat([0, 1], 200)
    pair = rng.normal(size=(400, 2)) @ np.linalg.cholesky([[1.0, 0.95], [0.95, 1.0]]).T
    pair[labels == 1, 1] *= -1
    return np.column_stack([pair + 3.0 * labels[:, None], 2.0 * rng.normal(size=(400, 2))]), labels


@pytest.mark.slow_except(6)
def test_full_covariances():
    X, labels = correlated(0)
    model = FeatureSelectionMixture(6, covariance="full", random_state=0).fit(X)
    assert normalized_mutual_info_score(labels, model.labels_) > 0.95
    assert model.feature_mask_[:, :2].all()
    within = [
        model.covariances_[k][0, 1] / np.sqrt(model.covariances_[k][0, 0] * model.covariances_[k][1, 1])
        for k in range(2)
    ]
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
    one, two = (
        FeatureSelectionMixture(5, covariance="full", random_state=0, n_threads=k).fit(X) for k in (1, 3)
    )
    np.testing.assert_array_equal(one.labels_, two.labels_)
    np.testing.assert_array_equal(one.elbo_path_, two.elbo_path_)
    np.testing.assert_array_equal(one.covariances_, two.covariances_)


@pytest.mark.parametrize("n", [6, 12, 60])
def test_variances_are_those_of_the_posterior(n):
    """The mean of 1 / tau under Gamma(a, b) is b / (a - 1), which shows where rows are few."""
    group = np.arange(2 * n) % 2
    X = np.random.default_rng(n).normal(size=(2 * n, 3)) + 9.0 * group[:, None]
    model = FeatureSelectionMixture(2, n_init=1, random_state=0).fit(X)
    assert model.n_clusters_ == 2
    own, units = model._posterior.clusters, model._posterior.scaling.scale
    selected = model.feature_mask_
    assert selected.any()
    expected = own.b / (own.a - 1.0) / units**2
    np.testing.assert_allclose(model.variances_[selected], expected[selected], rtol=1e-12)
    assert (own.a[selected] < 2.0 * n).all()


def test_clusters_have_the_noise_of_columns_that_they_do_not_select():
    rng = np.random.default_rng(0)
    X = np.c_[rng.normal(size=200) + 9.0 * (np.arange(200) % 2), rng.normal(size=(200, 3))]
    model = FeatureSelectionMixture(2, noise="feature", n_init=1, random_state=0).fit(X)
    shared = ~model.feature_mask_.any(axis=0)
    assert shared.tolist() == [False, True, True, True]
    for values in (model.means_, model.variances_):
        np.testing.assert_array_equal(values[0, shared], values[1, shared])
        assert (values[0, ~shared] != values[1, ~shared]).all()
