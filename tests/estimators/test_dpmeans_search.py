"""The search of DP-means: cuts, merges and exchanges against brute force, known numbers of clusters, the
lowest J.
"""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.datasets import load_iris, load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score
from sklearn.preprocessing import scale

from craftc import DPMeans, load_model, save_model
from craftc._common.cluster_moments import description_length
from craftc._common.dense_data import DenseData
from craftc.dpmeans.cuts import best_cuts
from craftc.dpmeans.descent import SphericalDescent, _ratio
from craftc.dpmeans.penalty import SAMPLE_ROWS, paper_mode
from craftc.dpmeans.rows.local import DPMeansLocalRows
from craftc.dpmeans.split_search import SplitSearch, merge_costs
from tests.reference import dpmeans_search as ref

pytestmark = [
    pytest.mark.filterwarnings("ignore:DPMeans opened:UserWarning"),
    pytest.mark.filterwarnings("ignore:Columns differ in scale:UserWarning"),
]


def clouds(seed, n=400, D=5, K=6, spread=6.0, dtype=np.float64):
    """(rows, true labels)"""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, K, n)
    return (spread * rng.normal(size=(K, D))[labels] + rng.normal(size=(n, D))).astype(dtype), labels


def weights(kind, n, seed=0):
    rng = np.random.default_rng(seed)
    return {"none": None, "whole": rng.integers(1, 4, n).astype(float), "real": rng.uniform(0.1, 2.0, n)}[
        kind
    ]


def same_partition(a, b):
    return len(set(zip(a.tolist(), b.tolist(), strict=True))) == len(set(a.tolist())) == len(set(b.tolist()))


# ---- cuts, merges, exchanges ----


@pytest.mark.parametrize("kind", ["none", "whole", "real"])
@pytest.mark.parametrize("seed", range(6))
def test_gains_are_those_of_the_sides(seed, kind):
    X, labels = clouds(seed, 150, 1 + seed, 4, 1.0, np.float32 if seed % 2 else np.float64)
    weight = weights(kind, 150, seed)
    w = np.ones(150) if weight is None else weight
    labels = labels.astype(np.int32)
    rows = X.astype(np.float64)
    mu = np.array([w[labels == k] @ rows[labels == k] / w[labels == k].sum() for k in range(4)])
    cuts = best_cuts(DenseData(X, weight, 1), labels, mu)
    for k in range(4):
        inside = labels == k
        assert cuts.gains[k] == pytest.approx(ref.gain(rows[inside], w[inside], cuts.sides[inside]), rel=1e-9)


@pytest.mark.parametrize("kind", ["none", "whole"])
def test_most_cuts_of_few_rows_are_the_best(kind):
    found = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        X, weight = rng.normal(size=(9, 1 + seed % 3)), weights(kind, 9, seed)
        w = np.ones(9) if weight is None else weight
        gain = best_cuts(DenseData(X, weight, 1), np.zeros(9, np.int32), (w @ X / w.sum())[None]).gains[0]
        best = ref.best_gain(X, w)
        assert gain <= best * (1.0 + 1e-9)
        assert gain >= 0.3 * best
        found.append(gain >= best * (1.0 - 1e-9))
    assert np.mean(found) > 0.5


def test_a_far_row_is_cut_off():
    X = np.concatenate([np.random.default_rng(0).normal(size=(200, 3)), np.full((2, 3), 60.0)])
    cuts = best_cuts(DenseData(X, None, 1), np.zeros(202, np.int32), X.mean(axis=0)[None])
    assert np.flatnonzero(cuts.sides == cuts.sides[-1]).tolist() == [200, 201]


def test_equal_rows_have_no_cut():
    X = np.repeat([[1.0, 2.0], [5.0, 5.0]], 10, axis=0)
    cuts = best_cuts(DenseData(X, None, 1), np.repeat([0, 1], 10).astype(np.int32), X[[0, 10]])
    assert cuts.gains.tolist() == [0.0, 0.0]


@pytest.mark.parametrize("kind", ["none", "real"])
def test_costs_of_merges(kind):
    X, labels = clouds(1, 60, 3, 5, 2.0)
    weight = weights(kind, 60)
    w = np.ones(60) if weight is None else weight
    search = SplitSearch(DenseData(X, weight, 1))
    search.relabel(labels.astype(np.int32))
    costs = merge_costs(search.centers, search.sizes)
    for k in range(5):
        for j in range(5):
            expected = np.inf if j == k else ref.merge_cost(X, w, labels, k, j)
            assert costs[k, j] == pytest.approx(expected, rel=1e-9)
    before = ref.inertia(X, w, labels)
    steps = search.merges()
    assert [len(step.sizes) for step in steps] == [4, 3, 2, 1]
    for step in steps:
        after = ref.inertia(X, w, step.numbers[labels])
        assert step.cost == pytest.approx(after - before, rel=1e-8)
        np.testing.assert_allclose(step.sizes, np.bincount(step.numbers[labels], w), rtol=1e-12)
        before = after
    assert steps[0].cost == costs.min()


def test_the_inertia_never_rises():
    X, _ = clouds(3, 600, 4, 12, 2.0)
    search = SplitSearch(DenseData(X, None, 1))
    path = [search.inertia]
    while search.K < 12 and len(search.grow(12)):
        path.append(search.inertia)
    search.exchange()
    path.append(search.inertia)
    assert search.K == 12
    assert (np.diff(path) <= 1e-9 * path[0]).all()
    assert search.inertia == pytest.approx(ref.inertia(X, np.ones(600), search.labels), rel=1e-12)


# ---- a given number of clusters ----


@pytest.mark.slow_except(2)
@pytest.mark.parametrize("seed", range(8))
def test_n_clusters_is_not_above_k_means(seed):
    X, labels = clouds(seed, 900, 3 + seed, 4 + 2 * seed, 3.0)
    K = labels.max() + 1
    model = DPMeans(n_clusters=K, n_threads=1).fit(X)
    assert model.n_clusters_ == K
    assert model.inertia_ <= 1.001 * KMeans(K, n_init=10, random_state=0).fit(X).inertia_
    assert model.converged_
    np.testing.assert_array_equal(model.predict(X), model.labels_)
    assert model.objective_ == pytest.approx(model.inertia_ + (K - 1) * model.cluster_penalty_)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_clusters_of_a_large_table(dtype):
    """Searched in a sample; sweeps over all rows follow."""
    X, labels = clouds(0, 2 * SAMPLE_ROWS, 4, 9, 9.0, dtype)
    assert same_partition(DPMeans(n_clusters=9).fit(X).labels_, labels)
    assert same_partition(DPMeans(random_state=3).fit(X).labels_, labels)
    assert same_partition(DPMeans(80.0, max_clusters=9).fit(X).labels_, labels)


@pytest.mark.parametrize("seed", range(4))
def test_sweeps_of_a_large_table_end_where_the_next_is_expected_to_pay_no_more(seed):
    X = clouds(seed, 2 * SAMPLE_ROWS, 6, 12, 1.5)[0]
    model = DPMeans(40.0, random_state=seed).fit(X)
    path, falls = model.objective_path_, -np.diff(model.objective_path_)
    assert model.converged_
    assert (falls > -1e-9 * path[-1]).all()
    ratios = falls[1:] / falls[:-1]
    expected = falls[2:] * np.minimum(
        1.0, np.maximum(ratios[1:], ratios[:-1])
    )  # earlier ones depend on the centres of the sample
    paid = expected > 1e-4 * path[3:]
    np.testing.assert_array_equal(paid, np.arange(len(paid)) < len(paid) - 1)


def test_falls_that_are_expected():
    """The larger of two ratios: a sudden fall after smaller ones tells nothing."""
    assert (
        _ratio([])
        == _ratio([8.0])
        == _ratio([np.inf, 8.0])
        == _ratio([0.0, 8.0])
        == _ratio([4.0, 8.0])
        == 1.0
    )
    assert _ratio([8.0, 2.0]) == 0.25
    assert _ratio([8.0, 4.0, 1.0]) == _ratio([8.0, 2.0, 1.0]) == 0.5
    assert _ratio([1.0, 8.0, 0.1]) == 1.0


@pytest.mark.parametrize("weighted", [False, True])
def test_what_the_means_lower(weighted):
    X = clouds(0, 300, 3, 4, 5.0)[0]
    weight = np.random.default_rng(0).integers(1, 4, 300).astype(float) if weighted else None
    data = DenseData(X, weight, 1)
    descent = SphericalDescent(data, np.inf, 0, None, data.order(0, 0))
    centres = X[:4].copy()
    descent.rows.replace_centers(centres)
    descent.nearest()
    squared = ((X - centres[descent.rows.labels]) ** 2).sum(axis=1)
    descent.rows.update_means()
    before = squared.sum() if weight is None else weight @ squared
    np.testing.assert_allclose(descent._fall_by_means(centres), before - descent.inertia, rtol=1e-9)


def test_rows_that_the_sample_lacks():
    X = np.concatenate([clouds(0, 3 * SAMPLE_ROWS, 2, 3, 1.0)[0], [[1e5, 0.0]]])
    assert DPMeans(n_clusters=4).fit(X).cluster_sizes_.min() == 1.0


@pytest.mark.filterwarnings("ignore:DPMeans found")
def test_more_clusters_than_different_rows():
    X = np.repeat(np.arange(6.0)[:, None], 4, axis=0)
    model = DPMeans(n_clusters=50).fit(X)
    assert (model.n_clusters_, model.inertia_) == (6, 0.0)
    assert DPMeans(n_clusters=3).fit([[1.0, 2.0]]).n_clusters_ == 1
    assert DPMeans().fit([[1.0, 2.0]] * 7).n_clusters_ == 1


def test_a_price_and_a_cap():
    X, labels = clouds(2, 300, 3, 5, 9.0)
    price = float(DPMeans().penalty_path(X, 10)[4])
    assert same_partition(DPMeans(price, max_clusters=200).fit(X).labels_, labels)
    assert DPMeans(price, max_clusters=3).fit(X).n_clusters_ == 3
    assert DPMeans(1e9, max_clusters=3).fit(X).n_clusters_ == 1


# ---- the number of clusters from the table ----


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("D", "K"), [(2, 3), (4, 12), (20, 30)])
def test_the_number_of_round_clusters(seed, D, K):
    rng = np.random.default_rng(seed)
    grid = 12.0 * np.stack(np.unravel_index(np.arange(K), (6, 6)), axis=1)
    centres = np.concatenate([grid, np.zeros((K, D - 2))], axis=1)
    labels = rng.integers(0, K, 60 * K)
    X = centres[labels] + rng.normal(size=(60 * K, D))
    model = DPMeans(random_state=seed).fit(X)
    assert same_partition(model.labels_, labels)
    scatter = ref.scatter(X, np.ones(len(X)))
    low, here, high = (
        description_length(m.cluster_sizes_, D, m.inertia_, scatter)
        for m in (DPMeans(n_clusters=K - 1).fit(X), model, DPMeans(n_clusters=K + 1).fit(X))
    )
    assert here < min(low, high)


@pytest.mark.parametrize("parameters", [{}, {"max_clusters": 700}])
def test_many_clear_clusters(parameters):
    rng = np.random.default_rng(0)
    labels = rng.permutation(np.repeat(np.arange(600), 20))
    X = 12.0 * rng.normal(size=(600, 8))[labels] + rng.normal(size=(len(labels), 8))
    assert same_partition(DPMeans(**parameters, random_state=0).fit(X).labels_, labels)


@pytest.mark.parametrize("seed", [200849, 200916, 201020, 100491])
def test_the_search_ends_where_exchanges_lengthen_the_description(seed, monkeypatch):
    """Clusters that overlap: one more or less shortens the description, and an exchange that lowers the
    inertia undid that for ever.
    """
    calls, improve = [], SplitSearch._improve
    monkeypatch.setattr(
        SplitSearch,
        "_improve",
        lambda self, *most: calls.append(self) or (len(calls) < 200 and improve(self, *most)),
    )
    rng = np.random.default_rng(seed)
    n, D, K = int(rng.integers(300, 3000)), int(rng.choice([8, 16, 32])), int(rng.integers(10, 50))
    share = rng.dirichlet(np.full(K, rng.choice([1.0, 3.0])))
    labels = rng.choice(K, n, p=share)
    centres = rng.normal(size=(K, D)) * rng.choice([0.7, 1.0, 1.5])
    X = centres[labels] + rng.normal(size=(n, D)) * rng.uniform(0.5, 1.5, K)[labels][:, None]
    DPMeans().fit(X.astype(np.float32))
    assert len(calls) < 50


def test_a_continuum_has_few_clusters():
    """Many clusters shorten its description, but are not clear."""
    X = np.random.default_rng(0).normal(size=(8000, 6)) * [20, 10, 5, 1, 1, 1]
    assert DPMeans(random_state=0).fit(X).n_clusters_ <= 128


@pytest.mark.parametrize("D", [1, 2, 10, 60])
def test_noise_is_one_cluster(D):
    assert DPMeans().fit(np.random.default_rng(D).normal(size=(500, D))).n_clusters_ == 1


def test_permuted_rows_and_threads():
    X, _ = clouds(5, 700, 4, 8, 4.0)
    order = np.random.default_rng(0).permutation(700)
    for parameters in ({}, {"n_clusters": 8}, {"n_clusters": 11}):
        model = DPMeans(n_threads=1, **parameters).fit(X)
        assert same_partition(DPMeans(n_threads=2, **parameters).fit(X[order]).labels_, model.labels_[order])


@pytest.mark.parametrize(
    "parameters", [{"n_clusters": 7}, {"max_clusters": 5}, {"cluster_penalty": 60.0, "max_clusters": 9}]
)
def test_weights_are_repeated_rows(parameters):
    X, _ = clouds(6, 200, 3, 6, 2.0)
    weight = np.random.default_rng(1).integers(1, 4, 200)
    model = DPMeans(**parameters).fit(X, sample_weight=weight)
    repeated = DPMeans(**parameters).fit(np.repeat(X, weight, axis=0))
    assert (model.objective_, model.cluster_penalty_) == (repeated.objective_, repeated.cluster_penalty_)
    np.testing.assert_array_equal(np.repeat(model.labels_, weight), repeated.labels_)


def test_rows_without_weight_belong_to_the_nearest_cluster():
    X, _ = clouds(7, 300, 3, 4, 8.0)
    weight = (np.arange(300) % 3 > 0).astype(float)
    for parameters in ({}, {"n_clusters": 4}, {"cluster_penalty": 500.0, "mode": "lowest"}):
        model = DPMeans(**parameters).fit(X, sample_weight=weight)
        alone = DPMeans(**parameters).fit(X[weight > 0])
        assert model.objective_ == alone.objective_
        np.testing.assert_array_equal(model.labels_[weight == 0], model.predict(X[weight == 0]))


# ---- prices and radii ----


def test_rows_equal_to_their_centres_after_one_without_weight():
    X = np.array([[9.0, 9.0], [0.0, 0.0], [0.0, 0.0], [4.0, 0.0]])
    model = DPMeans(n_clusters=2).fit(X, sample_weight=[0.0, 1.0, 1.0, 1.0])
    assert model.inertia_ == 0.0
    assert model.labels_[1:].tolist() == [model.labels_[1]] * 2 + [1 - model.labels_[1]]


def test_the_path_of_prices():
    X, _ = clouds(8, 120, 2, 4, 30.0)
    path = DPMeans().penalty_path(X, 30)
    assert (np.diff(path) <= 0).all()
    assert path[2] > 20 * path[3]  # four clusters
    assert DPMeans(path[3], mode="lowest").fit(X).n_clusters_ == 4
    few = X[:8]
    assert DPMeans().penalty_path(few, 1)[0] <= ref.best_gain(few, np.ones(8)) * (1.0 + 1e-9)
    assert DPMeans().penalty_path(few, 20)[8:].tolist() == [0.0] * 12
    with pytest.raises(ValueError, match="scale must be one of 'price', 'radius'"):
        DPMeans().penalty_path(X, scale="gain")
    with pytest.raises(ValueError, match="Column 'x1' ranges"):
        DPMeans().penalty_path([[1.0, 2.0], [3.0, 1e200]])


def test_the_radius_of_a_search_covers_its_rows(tmp_path):
    X, _ = clouds(9, 300, 3, 4, 9.0)
    model = DPMeans().fit(X)
    assert (model.predict(X, open_cluster=True) == model.labels_).all()
    assert model.radius_ == pytest.approx(model.transform(X).min(axis=1).max())
    save_model(model, tmp_path / "model")
    far = np.full((1, 3), 200.0)
    for same in (model, load_model(tmp_path / "model"), pickle.loads(pickle.dumps(model))):
        assert same.radius_ == model.radius_
        assert same.predict(far, open_cluster=True).tolist() == [-1]
        K = same.n_clusters_
        same.partial_fit(np.concatenate([X[:5], far]))
        assert same.n_clusters_ == K + 1
        assert same.objective_ == pytest.approx(same.inertia_ + K * same.cluster_penalty_)
    assert DPMeans(9.0).fit(X).radius_ == 3.0


@pytest.mark.parametrize("seed", range(4))
def test_the_mode_of_the_paper(seed):
    """Serial sweeps shatter clusters where lambda^2 is between one and two squared distances to the mean."""
    X, _ = clouds(seed, 1500, 100, 5, 3.0)
    rows = DPMeansLocalRows(DenseData(X, None, 1))
    assert [paper_mode(rows, penalty, 0) for penalty in (170.0, 300.0, np.inf)] == [
        "delayed",
        "serial",
        "serial",
    ]
    assert DPMeans(170.0).fit(X).n_clusters_ < 12
    assert DPMeans(170.0, mode="serial").fit(X).n_clusters_ > 100


@pytest.mark.parametrize(
    ("n", "kind"), [(1_000, "none"), (1_000, "whole"), (1_000, "real"), (20_000, "none")]
)
def test_clear_cuts_after_delayed_sweeps(n, kind):
    """Delayed sweeps leave two clusters together whose rows are within lambda of the mean of all."""
    rng = np.random.default_rng(3)
    centers = 4.0 * rng.normal(size=(8, 64))
    centers[7] = centers[6] + np.sqrt(40.0 / 64)
    truth = np.arange(n, dtype=np.int32) % 8
    X, weight, penalty = (
        (centers[truth] + rng.normal(size=(n, 64))).astype(np.float32),
        weights(kind, n),
        2.0 * 64,
    )
    assert paper_mode(DPMeansLocalRows(DenseData(X, weight, 1)), penalty, 0) == "delayed"
    delayed = DPMeans(penalty, mode="delayed").fit(X, sample_weight=weight)
    model = DPMeans(penalty, random_state=0).fit(X, sample_weight=weight)
    agreement = [adjusted_rand_score(truth, each.labels_) for each in (delayed, model)]
    assert agreement[0] < 0.95 < 0.995 < agreement[1]
    assert model.n_clusters_ <= delayed.n_clusters_ + 1
    assert model.objective_ < 0.99 * delayed.objective_
    assert len(model.objective_path_) == model.n_iter_
    assert (np.diff(model.objective_path_) <= 1e-12 * model.objective_).all()
    for most in (1, 2, 5) if n < SAMPLE_ROWS else ():  # the sweeps over a sample do not count
        with pytest.warns(ConvergenceWarning):
            few = DPMeans(penalty, max_iter=most, random_state=0).fit(X, sample_weight=weight)
        assert (few.n_iter_, few.converged_) == (most, False)


def test_clusters_are_cut_where_they_are_clearly_two():
    X, truth = clouds(2, 1_200, 5, 3, 30.0)
    search = SplitSearch(DenseData(X, None, 1))
    search.cut_clear(2, 0.0)
    assert (
        search.K == 1
    )  # neither is a cut of three clusters much better than the next, nor one of a single cluster
    search.relabel(np.where(truth == 2, 0, truth).astype(np.int32))
    for most, price, K in ((2, 0.0, 2), (9, 1e9, 2), (9, 0.0, 3)):
        search.cut_clear(most, price)
        assert search.K == K
    assert len(set(zip(truth, search.labels, strict=True))) == 3


# ---- the lowest J ----


@pytest.mark.slow_except(2)
@pytest.mark.parametrize("seed", range(6))
def test_lowest_is_not_above_the_other_modes(seed):
    X, _ = clouds(seed, 500, 2 + seed, 6, 3.0)
    penalty = (4.0, 30.0, 400.0)[seed % 3]
    lowest = DPMeans(penalty, mode="lowest", random_state=0).fit(X)
    for mode in ("serial", "delayed", "collapsed"):
        assert lowest.objective_ <= DPMeans(penalty, mode=mode, polish=True).fit(X).objective_ * 1.001
    assert (np.diff(lowest.objective_path_) <= 1e-9 * lowest.objective_).all()
    assert lowest.objective_ == pytest.approx(
        ref.inertia(X, np.ones(500), lowest.labels_) + (lowest.n_clusters_ - 1) * penalty
    )


def test_lowest_of_few_rows():
    found = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        X, penalty = rng.normal(size=(7, 2)), float(rng.uniform(0.2, 4.0))
        J, best = DPMeans(penalty, mode="lowest").fit(X).objective_, ref.lowest(X, np.ones(7), penalty)
        assert best * (1.0 - 1e-9) <= J
        found.append(best * (1.0 + 1e-9) >= J)
    assert np.mean(found) > 0.7


def test_lowest_with_a_given_number():
    X, labels = clouds(11, 400, 3, 7, 9.0)
    model = DPMeans(n_clusters=7, mode="lowest").fit(X)
    assert model.n_clusters_ == 7
    assert model.inertia_ <= ref.inertia(X, np.ones(400), labels)
    assert DPMeans(mode="lowest", max_clusters=3).fit(X).n_clusters_ <= 3
    for init in ("random", labels):
        with pytest.raises(ValueError, match=r"mode='lowest' searches for its start, got init="):
            DPMeans(5.0, mode="lowest", init=init).fit(X)


def test_delayed_sweeps_of_a_large_table_start_from_a_sample():
    """Rows beyond lambda that the sample lacks open clusters; the result depends on the seed alone."""
    X, _ = clouds(3, 30_000, 64, 20, 1.5, np.float32)
    X[[5, 17_001]] += 40.0
    penalty = 1.95 * 64
    model = DPMeans(penalty, random_state=0).fit(X)
    assert model.converged_
    assert paper_mode(DPMeansLocalRows(DenseData(X, None, 1)), penalty, 0) == "delayed"
    assert (model.cluster_sizes_[model.labels_[[5, 17_001]]] == 1.0).all()
    assert model.n_clusters_ < 30
    assert model.objective_ <= DPMeans(penalty, mode="delayed").fit(X).objective_ * 1.001
    again = DPMeans(penalty, random_state=0, n_threads=2).fit(X)
    assert (again.labels_ == model.labels_).all()
    assert again.objective_ == model.objective_


@pytest.mark.parametrize("table", ["wine", "iris"])
@pytest.mark.parametrize("K", [5, 20, 50])
def test_lowest_is_not_above_the_search(table, K):
    X = scale({"wine": load_wine, "iris": load_iris}[table]().data)
    searched = DPMeans(n_clusters=K).fit(X)
    assert DPMeans(n_clusters=K, mode="lowest").fit(X).inertia_ <= searched.inertia_ * (1 + 1e-12)
    price = searched.cluster_penalty_
    priced = DPMeans(price, max_clusters=len(X)).fit(X)
    assert DPMeans(price, mode="lowest").fit(X).objective_ <= priced.objective_ * (1 + 1e-12)


@pytest.mark.parametrize("n", [2, 3, 4])
@pytest.mark.parametrize("n_groups", [5, 20, 40])
def test_replicates_are_found(n, n_groups):
    """Few rows of each of many things, far apart."""
    rng = np.random.default_rng(n * n_groups)
    group = np.repeat(np.arange(n_groups), n)
    X = 100.0 * rng.normal(size=(n_groups, 3))[group] + rng.normal(size=(n * n_groups, 3))
    model = DPMeans().fit(X)
    assert model.n_clusters_ == n_groups
    assert adjusted_rand_score(group, model.labels_) == 1.0
    order = rng.permutation(len(X))
    np.testing.assert_array_equal(
        adjusted_rand_score(DPMeans().fit(X[order]).labels_, model.labels_[order]), 1.0
    )


def test_two_groups_of_three_rows():
    X = np.array([[0.0, 0.0], [0.1, 0.2], [0.2, 0.1], [50.0, 50.0], [50.1, 50.2], [50.2, 50.1]])
    assert DPMeans().fit(X).labels_.tolist() == [0, 0, 0, 1, 1, 1]
    doubled = DPMeans().fit(X[::3], sample_weight=[3.0, 3.0])  # of equal rows nothing is known
    assert doubled.n_clusters_ == 1


@pytest.mark.parametrize("n", [4, 6, 10, 20])
def test_noise_has_no_replicates(n):
    rng = np.random.default_rng(n)
    found = [DPMeans().fit(rng.normal(size=(n, d))).n_clusters_ for d in (1, 2, 3, 5) for _ in range(15)]
    assert np.mean(np.array(found) > max(1, n // 5)) <= 0.02


@pytest.mark.parametrize("most", [2, 3])
@pytest.mark.parametrize("seed", range(5))
def test_a_limit_below_the_number_of_groups(seed, most):
    rng = np.random.default_rng(seed)
    X = 8.0 * rng.normal(size=(4, 3))[np.repeat(np.arange(4), 20)] + rng.normal(size=(80, 3))
    assert DPMeans().fit(X).n_clusters_ == 4
    limited, given = DPMeans(max_clusters=most).fit(X), DPMeans(n_clusters=most).fit(X)
    np.testing.assert_array_equal(limited.labels_, given.labels_)
    assert DPMeans(max_clusters=6).fit(X).n_clusters_ == 4
