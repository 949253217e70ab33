"""Normal densities of levels, in place of tilts."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import logsumexp
from sklearn.metrics import adjusted_rand_score

from craftc import CRAFT, load_model, save_model
from craftc.craft.background import NormalLevels
from craftc.craft.clusters import distributions_of
from craftc.distributed import Partitions
from tests.estimators.covariance_cases import clusters_of, spread_apart, spread_apart_mixed, table_of


def has_normals(model):
    return model._fitted.clusters.normals is not None


@pytest.mark.parametrize(("p", "seed"), [(p, seed) for p in (3, 5, 8) for seed in range(6)])
def test_round_groups_of_different_spread(p, seed):
    X, truth = spread_apart(p, seed)
    model = CRAFT(random_state=0).fit(X)
    assert model.n_clusters_ == 3
    assert adjusted_rand_score(truth, model.labels_) > 0.92
    assert has_normals(model)


@pytest.mark.parametrize("p", [3, 5, 8])
@pytest.mark.parametrize("seed", range(2))
def test_a_wide_group_behind_a_narrow_one(p, seed):
    """The wide one makes every column skewed."""
    rng, truth = np.random.default_rng(seed), np.repeat([0, 1], 300)
    X = np.where(truth[:, None] == 0, 0.5, 3.0) * rng.normal(size=(600, p)) + 3.0 * truth[:, None]
    model = CRAFT(random_state=0).fit(X)
    assert model.n_clusters_ == 2
    assert adjusted_rand_score(truth, model.labels_) > 0.9


@pytest.mark.parametrize("shape", ["values", "whole numbers", "zeros", "skewed"])
def test_a_fit_gains_most(shape):
    """The gain over the table is the largest that tilts of the widths have, less the divergence of the row of
    prior; probabilities sum to 1.
    """
    rng = np.random.default_rng(1)
    X = np.concatenate([rng.normal(size=(150, 2)), [4.0, 1.0] + 0.3 * rng.normal(size=(100, 2))])
    if shape == "whole numbers":
        X = np.round(2.0 * X)
    elif shape == "zeros":
        X[rng.random(X.shape) < 0.2] = 0.0
    elif shape == "skewed":
        X = np.exp(2.0 * X)
    clusters = clusters_of(table_of(X), np.arange(250) // 150)
    background, groups = clusters.background, clusters.moments.groups
    held = NormalLevels(background, clusters.covariances.cross.columns)
    ratios, gains = held.fits(groups)
    for d, j in enumerate(held.of_levels):
        levels = slice(background.grid.level_start[j], None)
        levels = slice(levels.start, levels.start + len(background.axes_of_values[d].scores))
        share, width = background.frequency[levels], held.width[levels]
        assert width.sum() == pytest.approx(1.0)
        powers = held.tilts.statistics[:2, levels]
        if shape != "skewed":  # whose z is limited to 8 deviations
            z = background.axes_of_values[d].scores
            fitted = np.polynomial.Polynomial.fit(z, powers[1], 2)
            np.testing.assert_allclose(powers[1], fitted(z), atol=1e-5)
        for k, group in enumerate(groups):
            p = share * np.exp(ratios[k, levels])
            assert p.sum() == pytest.approx(1.0)
            cells = group[1:][levels] * background.count_weight

            def lost(theta, cells=cells, width=width, share=share, powers=powers):
                log_p = theta @ powers
                log_p -= logsumexp(log_p, b=width)
                return -(cells + width) @ log_p - cells @ np.log(width / share)

            best = minimize(lost, np.zeros(len(powers)), method="BFGS", options={"gtol": 1e-9})
            assert gains[k, d] == pytest.approx(-best.fun, abs=1e-3)


def test_all_answers_have_the_distributions():
    """Row costs, contributions and probabilities are those of the densities."""
    frame = spread_apart_mixed()
    model = CRAFT(random_state=0).fit(frame)
    clusters = model._fitted.clusters
    assert clusters.normals.sharing.any()
    np.testing.assert_array_equal(model.predict(frame), model.labels_)
    parts = model.explain(frame).drop(columns=["cluster", "next"])
    np.testing.assert_allclose(parts.sum(axis=1), model.margins_, atol=1e-5)
    probability = distributions_of(clusters)[2]
    of_levels = np.add.reduceat(probability, clusters.moments.grid.level_start, axis=1)
    np.testing.assert_allclose(of_levels, 1.0)
    k, d = np.argwhere(clusters.normals.sharing)[0]
    j = clusters.covariances.levels[d]
    at = clusters.moments.grid.level_start[j - clusters.moments.grid.p]
    levels = slice(at, at + len(clusters.background.axes_of_values[d].scores))
    costs, other = clusters.tables().level[levels], (k + 1) % len(probability)
    ratio = probability[other, levels] / probability[k, levels]
    np.testing.assert_allclose(costs[:, k] - costs[:, other], np.log(ratio), atol=1e-10)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_same_bits_everywhere(tmp_path, dtype):
    """Threads, partitions, weights, files."""
    X = spread_apart(5, 3)[0].astype(dtype)
    model = CRAFT(random_state=0, n_threads=1).fit(X)
    assert has_normals(model)
    save_model(model, tmp_path / "m.craftc")
    parts = CRAFT(random_state=0).fit(Partitions([X[:100], X[100:350], X[350:]]))
    for other in (
        CRAFT(random_state=0, n_threads=3).fit(X),
        CRAFT(random_state=0, n_threads=1).fit(np.asfortranarray(X)),
        load_model(tmp_path / "m.craftc"),
    ):
        assert other.objective_ == model.objective_
        np.testing.assert_array_equal(other.labels_, model.labels_)
        np.testing.assert_array_equal(other.transform(X), model.transform(X))
    assert parts.objective_ == model.objective_
    np.testing.assert_array_equal(np.asarray(parts.labels_), model.labels_)
    start = [model.labels_]
    once = CRAFT(random_state=0, init=start).fit(X, sample_weight=np.full(len(X), 2.0))
    twice = CRAFT(random_state=0, init=[np.repeat(model.labels_, 2)]).fit(np.repeat(X, 2, axis=0))
    assert once.objective_ == twice.objective_
    np.testing.assert_array_equal(np.repeat(once.labels_, 2), twice.labels_)


@pytest.mark.filterwarnings("ignore:CRAFT found 1. clusters; :UserWarning")
def test_one_cluster_and_given_forms_have_none():
    rng = np.random.default_rng(0)
    assert not has_normals(CRAFT(random_state=0).fit(rng.normal(size=(300, 4))))
    X, _ = spread_apart(5, 3)
    for form in ("diagonal", "full", "tied"):
        assert not has_normals(CRAFT(random_state=0, covariance=form).fit(X))
