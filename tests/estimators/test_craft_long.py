"""CRAFT on long tables: the price factor, the sample, the end of the passes, and numbers of
clusters.
"""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from craftc import CRAFT, MixedTable, load_model, save_model
from craftc._common.merge_path import n_clusters_within
from craftc.craft import search as fitting
from craftc.craft.background import Background
from craftc.craft.clusters import Clusters
from craftc.craft.rows.local import LocalRows
from craftc.craft.search import FitConfig
from craftc.craft.search.merges import MergeSplitSearch
from craftc.datasets import load_heart, make_mixed
from craftc.table.moments import Moments
from tests.level_cases import POOLED, Case

pd = pytest.importorskip("pandas")


def mixed(n, n_clusters=4, seed=0, **parameters):
    made = make_mixed(n, n_clusters, 4, 4, 2, random_state=seed, **parameters)
    return MixedTable.from_data(made.data, categorical=made.categorical), made.target


# ---- the price factor ----


@pytest.mark.parametrize(("n", "factor"), [(400, 1.0), (1000, 1.0), (2500, 2.5)])
def test_the_price_factor_is_the_rows_in_thousands(n, factor):
    table, _ = mixed(n)
    auto = CRAFT(random_state=0, n_init=2).fit(table)
    given = CRAFT(random_state=0, n_init=2, price_factor=factor).fit(table)
    assert auto.price_factor_ == given.price_factor_ == factor
    assert auto.cluster_price_ == pytest.approx(factor * 0.5 * math.log(n), rel=1e-15)
    np.testing.assert_array_equal(auto.labels_, given.labels_)
    assert auto.objective_ == given.objective_


def test_weights_count_as_rows_in_the_price_factor():
    table, target = mixed(400)
    assert CRAFT(init=target).fit(table, sample_weight=np.full(400, 5.0)).price_factor_ == 2.0
    assert CRAFT(init=target).fit(table, sample_weight=np.full(400, 0.5)).price_factor_ == 1.0


def test_slices_of_a_dependent_table_do_not_grow_with_the_rows():
    rng = np.random.default_rng(0)
    factor = rng.normal(size=(12_000, 1))
    X = factor + 0.7 * rng.normal(size=(12_000, 8))
    few, many = (
        CRAFT(covariance="diagonal", random_state=0, n_init=2).fit(X[:n]).n_clusters_ for n in (1200, 12_000)
    )
    assert many <= few + 1
    assert (
        CRAFT(covariance="diagonal", random_state=0, n_init=2, price_factor=1).fit(X).n_clusters_ > many + 1
    )


# ---- tables above 16 384 rows ----


def test_a_small_cluster_of_a_long_table_is_found_on_the_sample():
    """400 of 40 000 rows, 1 %: 164 rows of the sample, at the price of the whole table 28 parameters of 217
    nats each. A cell of a cluster of this share saves at most log 100 nats.
    """
    n, small = 40_000, 400
    table, target = mixed(n, 5, n_own=6, shift=4.5, proportions=[(1 - small / n) / 4] * 4 + [small / n])
    model = CRAFT(random_state=0).fit(table)
    assert model.price_factor_ == 40.0
    assert model.n_clusters_ == 5
    assert adjusted_rand_score(target, model.labels_) > 0.99
    from_truth = CRAFT(init=target).fit(table)
    assert model.objective_ <= from_truth.objective_ + 0.5 * math.log(n)


@pytest.fixture
def small_is_large(monkeypatch):
    """Tables above 500 rows are treated as those above 16 384."""
    monkeypatch.setattr(fitting, "SAMPLE_ROWS", 500)
    monkeypatch.setattr("craftc.craft.search.automatic.SAMPLE_ROWS", 500)


def test_passes_end_before_their_tail(small_is_large, monkeypatch):
    table, _ = mixed(3000, 6, seed=3, shift=1.5)
    start = np.random.default_rng(0).integers(0, 6, 3000)
    options = {"covariance": "diagonal", "price_factor": 1.0}
    short = CRAFT(init=start, **options).fit(table)
    again = CRAFT(init=short.labels_, **options).fit(table)
    monkeypatch.setattr(fitting, "SAMPLE_ROWS", 10**9)
    exact = CRAFT(init=start, **options).fit(table)
    assert short.n_iter_ < exact.n_iter_
    assert short.converged_
    assert again.objective_ <= short.objective_
    # labels, sums and the objective belong together although the last pass moved rows
    moments, encoding = short._fitted.clusters.moments, short._fitted.encoding
    whole = Moments.of_partition(
        moments.grid, 1.0, encoding.apply(table), np.empty(0, np.int64), short.labels_, short.n_clusters_
    )
    np.testing.assert_array_equal(whole.groups, moments.groups)
    mask = short._fitted.mask
    assert (
        Clusters(whole, Background(whole.total(), encoding), short._fitted.spec, mask).objective
        == short.objective_
        == short.objective_path_[-1]
    )


@pytest.mark.parametrize("n_threads", [1, 3])
def test_a_pass_that_lowers_the_objective_by_little_is_the_last(monkeypatch, n_threads):
    table, target = mixed(800, 4, shift=1.5)
    kinds = ["number"] * table.numeric.shape[1] + ["category"] * table.codes.shape[1]
    case = Case([*table.numeric.T, *table.codes.T], kinds)
    rows = LocalRows(case.encoded, case.weight)
    config = FitConfig(rows, case.weight, case.background, POOLED, 100, 0, n_threads)
    search = MergeSplitSearch(config, n_threads)
    start = np.where(np.arange(800) % 3 == 0, target, np.arange(800) % 5).astype(np.int32)
    one_by_one, objectives = search.partition(start.copy()), []
    while not one_by_one.converged:
        objectives.append(one_by_one.objective)
        search.passes(one_by_one, max_passes=1)
    falls = -np.diff(objectives)
    assert len(falls) > 4
    assert falls.min() > 0
    least = np.sort(falls)[len(falls) // 2]
    expected = 1 + int(np.argmax(falls < least))
    monkeypatch.setattr(FitConfig, "least_fall", least)
    part = search.partition(start.copy())
    assert search.passes(part) == expected
    assert part.converged
    assert part.objective == objectives[expected]


def test_forced_merges_use_the_sample_only(small_is_large, monkeypatch):
    rows, forced_merges = [], MergeSplitSearch.forced_merges

    def noted(search, part):
        rows.append(len(search.rows))
        return forced_merges(search, part)

    monkeypatch.setattr(MergeSplitSearch, "forced_merges", noted)
    table, target = mixed(1500)
    CRAFT(random_state=0, n_init=2).fit(table)
    assert rows == [500]
    CRAFT(init=target).fit(table)
    assert rows == [500]
    CRAFT(random_state=0, n_init=2).fit(table.take(np.arange(400)))
    CRAFT(init=target[:400]).fit(table.take(np.arange(400)))
    assert rows == [500, 400, 400]


def test_weight_two_is_a_repeated_row_above_the_limit(small_is_large):
    table, target = mixed(400)
    start = (target + np.arange(400) % 2) % 4
    weighted = CRAFT(init=start).fit(table, sample_weight=np.full(400, 2))
    repeated = CRAFT(init=np.repeat(start, 2)).fit(table.take(np.repeat(np.arange(400), 2)))
    assert weighted.objective_ == repeated.objective_
    np.testing.assert_array_equal(np.repeat(weighted.labels_, 2), repeated.labels_)


@pytest.mark.parametrize("n_threads", [2, 5])
def test_same_bits_on_any_number_of_threads(small_is_large, monkeypatch, n_threads):
    monkeypatch.setattr("craftc._common.threads.SMALL_WORK", 0)
    table, _ = mixed(3000, 6, missing=0.05)
    one, more = (CRAFT(random_state=0, n_init=2, n_threads=t).fit(table) for t in (1, n_threads))
    np.testing.assert_array_equal(one.labels_, more.labels_)
    assert one.objective_ == more.objective_


@pytest.mark.slow
def test_more_clusters_than_are_allowed():
    """120 separate groups: as many clusters as `max_clusters` allows, in buffers whose last vector of
    clusters is not full.
    """
    rng = np.random.default_rng(0)
    target = np.arange(12_000) % 120
    X = rng.uniform(-500.0, 500.0, size=(120, 8))[target] + rng.normal(size=(12_000, 8))
    with pytest.warns(UserWarning, match="100 clusters are the most that max_clusters allows"):
        model = CRAFT(random_state=0, price_factor=1.0, covariance="diagonal").fit(X)
    assert model.n_clusters_ == 100
    assert len(model.merge_path_) == 100
    np.testing.assert_array_equal(model.predict(X), model.labels_)
    joined = CRAFT(random_state=0, price_factor=1.0).fit(X)  # ellipsoids hold several groups at less
    assert joined.n_clusters_ < 100
    assert joined.objective_ < model.objective_
    np.testing.assert_array_equal(joined.predict(X), joined.labels_)
    full = CRAFT(120, random_state=0, n_init=2, price_factor=1.0).fit(X)
    assert full.n_clusters_ == 120
    assert adjusted_rand_score(target, full.labels_) > 0.99


# ---- the merge path ----


@pytest.mark.parametrize(
    ("path", "nats", "numbers"),
    [
        ([(4, 0.0), (3, 9.0), (2, 11.0), (1, 100.0)], 0.0, [4]),
        ([(4, 0.0), (3, 9.0), (2, 11.0), (1, 100.0)], 9.0, [3, 4]),
        ([(4, 5.0), (3, 0.0), (2, 50.0), (1, 100.0)], 5.0, [3, 4]),  # of four that were asked for
        ([(4, 9.0), (2, 0.0), (1, 3.0)], 5.0, [1, 2]),
        ([(1, 100.0)], 5.0, [1]),
    ],
)
def test_numbers_of_clusters_within_nats_of_the_best(path, nats, numbers):
    assert n_clusters_within(path, nats) == numbers


def test_numbers_of_clusters_within_nats_of_a_fit(tmp_path):
    heart = load_heart().data
    model = CRAFT(n_clusters=6, random_state=0).fit(heart)
    path = [(step.n_clusters, step.objective) for step in model.merge_path_]
    least = min(objective for _, objective in path)
    for nats in (0.0, 5.0, 30.0, 1e9):
        expected = sorted(k for k, objective in path if objective <= least + nats)
        assert model.n_clusters_within(nats) == expected
    save_model(model, tmp_path / "m")
    assert load_model(tmp_path / "m").n_clusters_within(30.0) == model.n_clusters_within(30.0)
    for nats in (-1.0, float("nan"), "5", None):
        with pytest.raises((ValueError, TypeError), match="nats must be a number >= 0"):
            model.n_clusters_within(nats)
    with pytest.raises((ValueError, TypeError), match="n_clusters must be a whole number"):
        model.cut("best")


def test_merge_path_of_a_long_table_with_covariances(monkeypatch):
    """It is merged without passes: every cluster of a step is a union of clusters of the step before,
    numbered by first appearance.
    """
    monkeypatch.setattr("craftc.craft.search.covariances.SAMPLE_ROWS", 500)
    rng = np.random.default_rng(0)
    target = rng.integers(0, 4, 1500)
    slant = np.linalg.cholesky(0.8 * np.ones((4, 4)) + 0.2 * np.eye(4))
    model = CRAFT(4, random_state=0, n_init=2).fit(
        6.0 * rng.normal(size=(4, 4))[target] + rng.normal(size=(1500, 4)) @ slant.T
    )
    assert model.n_clusters_ == 4
    assert any(covariance is not None for covariance in model.covariances_)
    assert [step.n_clusters for step in model.merge_path_] == [4, 3, 2, 1]
    np.testing.assert_array_equal(model.merge_path_[0].labels, model.labels_)
    for step, after in pairwise(model.merge_path_):
        pairs = np.unique(np.column_stack([step.labels, after.labels]), axis=0)
        assert len(pairs) == step.n_clusters
        values, first = np.unique(after.labels, return_index=True)
        assert values.tolist() == np.argsort(first).tolist() == list(range(after.n_clusters))
        assert after.objective > step.objective


# ---- labels and rows in little memory ----


@pytest.mark.parametrize(("n_clusters", "size"), [(1, 1), (128, 1), (129, 2), (32768, 2), (32769, 4)])
def test_snapshots_of_labels(n_clusters, size):
    rows = LocalRows(mixed(3, 2)[0], np.empty(0, np.int64))
    labels = np.array([0, n_clusters - 1, -1], np.int32)
    snapshot = rows.snapshot(labels, n_clusters)
    assert snapshot.itemsize == size
    restored = rows.restored(snapshot)
    assert restored.dtype == np.int32
    np.testing.assert_array_equal(restored, labels)


def test_rows_of_a_split_in_bits(monkeypatch):
    table, target = mixed(3001)
    rows, labels = LocalRows(table, np.empty(0, np.int64)), target.astype(np.int32)
    [cluster] = rows.together([rows.cluster(labels, 2)])
    sides = np.random.default_rng(0).integers(0, 2, len(cluster)).astype(np.int32)
    leaving, expected = cluster.leavers(sides), labels.copy()
    expected[np.flatnonzero(labels == 2)[sides == 1]] = 7
    np.testing.assert_array_equal(rows.moved(labels.copy(), leaving, 7), expected)
    monkeypatch.setattr("craftc.craft.rows.local._LONG", 100)
    packed = cluster.leavers(sides)
    assert packed.bits.nbytes == (len(cluster) + 7) // 8
    np.testing.assert_array_equal(rows.moved(labels.copy(), packed, 7), expected)


def test_bits_of_a_split_change_no_result(monkeypatch):
    table, _ = mixed(4000, 6)
    before = CRAFT(random_state=0, n_init=2).fit(table)
    monkeypatch.setattr("craftc.craft.rows.local._LONG", 10)
    after = CRAFT(random_state=0, n_init=2).fit(table)
    assert before.objective_ == after.objective_
    np.testing.assert_array_equal(before.labels_, after.labels_)
    np.testing.assert_array_equal(before.margins_, after.margins_)


def test_a_form_that_is_short_in_a_sample_only_is_not_taken():
    """In a sample of 4096 rows many weak groups do not pay, in all rows they do."""
    rng, n, K = np.random.default_rng(1), 20_000, 80
    group = rng.integers(0, K, n)
    table = pd.DataFrame(
        {
            f"c{j}": np.where(rng.random(n) < 0.5, rng.integers(0, 4, K)[group], rng.integers(0, 4, n))
            for j in range(8)
        }
    ).astype(str)
    for j in range(2):
        table[f"x{j}"] = 2.0 * rng.normal(size=K)[group] + rng.normal(size=n)
    model = CRAFT(price_factor=1, random_state=0).fit(table)
    diagonal = CRAFT(price_factor=1, random_state=0, covariance="diagonal").fit(table)
    assert model.n_clusters_ > 20
    assert model.objective_ <= diagonal.objective_
