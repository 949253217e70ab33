"""Searches in a sample of a large table against the same searches in all of its rows: the limits from which a
table is large are lowered, so that one table is searched both ways.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from craftc import CRAFT, BPMeans, DPMeans, GraphSpectralFeatures, KFeatures
from craftc._common.random import DPMeansStream, spread
from craftc.bpmeans import model_order
from craftc.craft.answers import path as merge_path
from craftc.craft.search import automatic, starts
from craftc.dpmeans import penalty as dpmeans_penalty
from craftc.dpmeans import starts as dpmeans_starts
from craftc.spectral import factorization
from tests.common import random_table
from tests.kernels.test_craft_seeding import config_of

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
N, SAMPLE = 2000, 400


@pytest.fixture
def large(monkeypatch):
    """Tables are large above 400 rows."""

    def lower():
        for module in (automatic, dpmeans_penalty, dpmeans_starts, merge_path, factorization):
            monkeypatch.setattr(module, "SAMPLE_ROWS", SAMPLE)
        monkeypatch.setattr(dpmeans_penalty, "_FEWEST_SEARCHED", SAMPLE)
        monkeypatch.setattr(dpmeans_penalty, "_CELLS_SEARCHED", SAMPLE)
        monkeypatch.setattr(dpmeans_penalty, "_MOST_PER_CLUSTER", 40)
        monkeypatch.setattr(model_order, "_CHOICE_ROWS", SAMPLE)
        monkeypatch.setattr(factorization, "SHARE", 4)

    return lower


def clusters(seed, sizes=(700, 600, 400, 200, 100)):
    """Rows of clusters of unequal sizes, in random order."""
    rng = np.random.default_rng(seed)
    group = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    return (4.0 * rng.normal(size=(len(sizes), 6)))[group] + rng.normal(size=(len(group), 6)), group


# ---- DP-means ----


@pytest.mark.parametrize("n_clusters", [2, 3, 4, 5])
def test_a_price_of_a_cluster_is_that_of_the_table(large, n_clusters):
    """A cluster is as cheap in a sample as in the table, relative to what it saves there."""
    X, _ = clusters(0)
    path = DPMeans(random_state=0).penalty_path(X, 8)
    price = float(np.sqrt(path[n_clusters - 2] * path[n_clusters - 1]))
    whole = DPMeans(price, max_clusters=20, random_state=1).fit(X)
    large()
    some = DPMeans(price, max_clusters=20, random_state=1).fit(X)
    assert some.n_clusters_ == whole.n_clusters_ == n_clusters
    assert adjusted_rand_score(some.labels_, whole.labels_) > 0.95
    assert some.objective_ == pytest.approx(whole.objective_, rel=0.02)


@pytest.mark.parametrize("parameters", [{}, {"n_clusters": 5}], ids=str)
def test_the_penalty_that_is_chosen(large, parameters):
    X, group = clusters(1)
    whole = DPMeans(**parameters, random_state=0).fit(X)
    path = DPMeans(random_state=0).penalty_path(X, 8)
    large()
    some = DPMeans(**parameters, random_state=0).fit(X)
    assert some.n_clusters_ == whole.n_clusters_ == 5
    assert adjusted_rand_score(some.labels_, group) > 0.95
    assert 0.5 < some.cluster_penalty_ / whole.cluster_penalty_ < 2.0
    np.testing.assert_allclose(DPMeans(random_state=0).penalty_path(X, 4), path[:4], rtol=0.5)


@pytest.mark.parametrize("mode", ["serial", "delayed"])
def test_rows_outside_the_sample_open_no_clusters(large, mode):
    """lambda^2 of a sample is raised to the rows of the table that are further out."""
    X, group = clusters(1)
    large()
    sampled = np.zeros(N, bool)
    sampled[spread(N, SAMPLE, 0, DPMeansStream.PENALTY_SAMPLE)] = True
    far = np.flatnonzero(~sampled & (group == 0))[:3]
    X[far] += np.eye(6)[:3] * 18.0
    model = DPMeans(mode=mode, random_state=0).fit(X)
    assert model.n_clusters_ == 5
    assert model.cluster_penalty_ >= model.transform(X).min(axis=1).max() ** 2


# ---- CRAFT ----


def test_craft(large):
    X, group = clusters(2)
    whole = CRAFT(covariance="diagonal", n_init=2, random_state=0).fit(X)
    large()
    some = CRAFT(covariance="diagonal", n_init=2, random_state=0).fit(X)
    assert adjusted_rand_score(whole.labels_, group) > 0.95
    assert adjusted_rand_score(some.labels_, group) > 0.95
    assert some.price_factor_ == whole.price_factor_
    assert some.objective_ == pytest.approx(whole.objective_, rel=0.01)


@pytest.mark.parametrize(("factor", "expected"), [(8.0, 1.6), (3.0, 1.0), (1.0, 1.0), (0.5, 0.5)])
def test_the_price_factor_of_a_sample(factor, expected):
    """In proportion to the rows above 1: a fifth of them has a fifth of every gain."""
    config = config_of(random_table(0, n=1000, p=2, q=2), None)
    config = replace(config, spec=replace(config.spec, price_factor=factor))
    rows, sample = config.sample(200, 14)
    assert len(rows) == 200
    assert sample.spec.price_factor == pytest.approx(expected)


@pytest.mark.parametrize("kind", ["random", "farthest", "k-means++"])
def test_starts_differ(kind):
    config = config_of(random_table(1, n=300, p=3, q=2), None)
    found = [
        starts.kmeans_plus_plus_labels(config, 6, start)
        if kind == "k-means++"
        else starts.start_labels(config, kind, 6, start)
        for start in range(5)
    ]
    assert len({labels.tobytes() for labels in found}) >= (4 if kind != "farthest" else 2)


@pytest.mark.parametrize("pair", [(1, 9), (2, 4), (2, 6), (9, 17)])
def test_every_automatic_start_has_its_own_draws(pair):
    config = config_of(random_table(1, n=300, p=3, q=2), None)
    first, other = (automatic.start_partition(config, "auto", start)[0] for start in pair)
    assert first.tobytes() != other.tobytes()


def test_the_null_of_a_sample(large):
    X, _ = clusters(3)
    model = CRAFT(covariance="diagonal", n_init=1, random_state=0).fit(X)
    whole = model.null_test(X, n=1)
    large()
    some = model.null_test(X, n=1)
    assert (whole.sampled, some.sampled) == (False, True)
    assert some.saving < 0.5 * whole.saving


# ---- features ----


def sums(seed):
    rng = np.random.default_rng(seed)
    shown = rng.random((N, 3)) < [0.5, 0.4, 0.3]
    return shown @ np.array([[5.0, 0, 0, 3, 0], [0, 4.0, 2, 0, 0], [0, 0, 3, 0, 6.0]]) + rng.normal(
        size=(N, 5)
    )


@pytest.mark.parametrize(
    "estimator",
    [
        KFeatures(n_init=1, random_state=0),
        pytest.param(BPMeans(n_init=2, random_state=0), marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_the_number_of_features(large, estimator):
    X = sums(0)
    whole = estimator.fit(X)
    expected, error, interval = whole.n_features_, whole.inertia_, whole.penalty_interval_
    large()
    some = estimator.fit(X)
    assert some.n_features_ == expected
    assert some.inertia_ == pytest.approx(error, rel=0.05)
    np.testing.assert_allclose(some.penalty_interval_, interval, rtol=0.5)


# ---- factors ----


def test_factors_from_a_sample(large):
    table = random_table(4, n=N, p=3, q=3)
    whole = GraphSpectralFeatures(3, random_state=0).fit(table)
    large()
    some = GraphSpectralFeatures(3, random_state=0).fit(table)
    assert some.objective_ == pytest.approx(whole.objective_, rel=0.02)
