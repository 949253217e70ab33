"""The number of clusters that a description length chooses does not depend on columns that say nothing, on
copies of columns, or on the origin.
"""

from __future__ import annotations

import numpy as np
import pytest

from craftc import ConvexClustering, DPMeans
from craftc._common.cluster_moments import effective_dimensions
from tests.reference import dpmeans as ref

pytestmark = pytest.mark.filterwarnings("ignore:Columns differ in scale:UserWarning")


def table(seed):
    """Clouds, clouds of correlated columns, long tails of both kinds, and noise."""
    rng = np.random.default_rng(seed)
    K, p, n = int(rng.integers(1, 7)), int(rng.integers(1, 6)), int(rng.integers(60, 400))
    X = rng.normal(size=(n, p)) + 6.0 * rng.normal(size=(K, p))[rng.integers(0, K, n)]
    kinds = (X, X @ rng.normal(size=(p, p)), rng.standard_t(3, size=(n, p)), np.exp(rng.normal(size=(n, p))))
    return kinds[seed % 4] if seed % 5 else rng.normal(size=(n, p))


def saying_nothing(X, rng):
    """Constant, near-constant and copied columns among others."""
    n = len(X)
    return {
        "one constant": np.c_[X, np.ones(n)],
        "constants": np.c_[np.full((n, 9), 1e5), X],
        "near-constant": np.c_[X[:, :1], 3.0 + 1e-3 * X.std() * rng.normal(size=(n, 3)), X[:, 1:]],
        "twice": np.c_[X, X],
        "twice, negated": np.c_[X, -X[:, ::-1]],
    }


@pytest.mark.slow_except(8)
@pytest.mark.parametrize("seed", range(60))
def test_columns_that_say_nothing(seed):
    X = table(seed)
    K = DPMeans().fit(X).n_clusters_
    for kind, wider in saying_nothing(X, np.random.default_rng(seed)).items():
        assert DPMeans().fit(wider).n_clusters_ == K, kind


@pytest.mark.parametrize("mode", ["serial", "delayed"])
@pytest.mark.parametrize("seed", [1, 5, 6, 10])
def test_columns_that_say_nothing_in_modes_of_the_paper(seed, mode):
    X = table(seed)
    K = DPMeans(mode=mode).fit(X).n_clusters_
    for kind, wider in saying_nothing(X, np.random.default_rng(seed)).items():
        assert DPMeans(mode=mode).fit(wider).n_clusters_ == K, kind


@pytest.mark.parametrize("seed", range(8))
def test_dependent_columns_do_not_part_clear_clusters(seed):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 3, 300)
    X = 8.0 * np.array([[0, 0, 0], [1, 0, 1], [0, 1, 1]])[labels] + rng.normal(size=(300, 3))
    for wider in (np.c_[X, X[:, 0]], np.c_[X, X @ rng.normal(size=(3, 2))], np.c_[X, X.sum(axis=1)]):
        assert DPMeans().fit(wider).n_clusters_ == 3


@pytest.mark.slow_except(8)
@pytest.mark.parametrize("seed", range(60))
def test_a_constant_added(seed):
    """Heavy tails have many ends of a search; rounding is not to choose among them."""
    X = table(4 * seed + 2 + seed % 2)
    counts = [DPMeans().fit(X + c).n_clusters_ for c in (0.0, 1.0, 100.0, -1e4, 1e6)]
    assert len(set(counts)) == 1, counts


def test_a_heavy_tail_far_from_zero():
    rng = np.random.default_rng(109)
    X = np.c_[np.exp(1.5 * rng.normal(size=500)), rng.normal(size=(500, 2))]
    assert len({DPMeans().fit(X + c).n_clusters_ for c in (0.0, 1.0, 10.0, 100.0, 1e4, 1e6)}) == 1


@pytest.mark.parametrize("seed", range(4))
def test_convex_clustering(seed):
    rng = np.random.default_rng(seed)
    X = 6.0 * np.array([[0, 0], [1, 0], [0, 1]])[rng.integers(0, 3, 90)] + rng.normal(size=(90, 2))
    for kind, wider in {"alone": X, **saying_nothing(X, rng)}.items():
        assert ConvexClustering().fit(wider).n_clusters_ == 3, kind


@pytest.mark.parametrize("shape", [(1, 1), (30, 1), (40, 5), (6, 20), (200, 3)])
@pytest.mark.parametrize("weighted", [False, True])
def test_dimensions_are_those_of_the_eigenvalues(shape, weighted):
    rng = np.random.default_rng(sum(shape))
    X = rng.normal(size=shape) * rng.uniform(0.1, 3.0, shape[1]) * 10.0 ** rng.integers(-150, 150)
    weight = rng.uniform(0.5, 2.0, len(X)) if weighted else None
    centred = X - np.average(X, axis=0, weights=weight)
    d = effective_dimensions(centred, weight)
    assert d == pytest.approx(ref.dimensions(X, np.zeros(len(X), int), weight), rel=5e-3)
    assert 1.0 <= d <= shape[1]
    if not weighted:
        assert effective_dimensions(np.c_[centred, centred, np.zeros((len(X), 4))]) == d


def test_no_scatter_has_one_dimension():
    assert effective_dimensions(np.zeros((4, 3))) == 1.0


def test_the_farthest_row_may_have_hardly_any_weight():
    X = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, -1.0], [1e90, 1e90]])
    assert effective_dimensions(X, np.array([1.0, 1.0, 1.0, 1e-290])) == effective_dimensions(X[:3])


@pytest.mark.parametrize("mode", ["serial", "delayed", "collapsed"])
def test_modes_of_the_paper_without_clusters(mode):
    """One cluster is a candidate in every mode."""
    for seed in range(8):
        X = np.random.default_rng(seed).normal(size=(300, 6))
        assert DPMeans(mode=mode).fit(X).n_clusters_ == 1


@pytest.mark.parametrize("mode", ["serial", "delayed", "collapsed"])
def test_modes_of_the_paper_and_clusters_in_one_direction(mode):
    """The dimensions of the whole table, which are few, hide them."""
    truth = np.repeat([0, 1, 2], 20)
    X = np.random.default_rng(0).normal(size=(60, 4)) + 4.0 * truth[:, None]
    assert (DPMeans(mode=mode).fit(X).labels_ == truth).mean() > 0.95
