"""The price factor of a long table: N / 1000, but 1 where that merges separate groups."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from craftc import CRAFT, MixedTable
from craftc.metrics import adjusted_rand_index

N, K = 1800, 24


def separate_groups(n=N, n_groups=K, seed=0):
    """A group of each row, and 6 numbers and 4 categories in which the groups differ."""
    rng = np.random.default_rng(seed)
    group = rng.integers(0, n_groups, n)
    numbers = rng.normal(size=(n, 6)) + 3.5 * rng.normal(size=(n_groups, 6))[group]
    ends = rng.dirichlet(np.full(4, 0.3), size=(n_groups, 4)).cumsum(axis=2)
    levels = (rng.random((n, 4))[:, :, None] > ends[group][:, :, :-1]).sum(axis=2)
    names = np.array(list("abcd"))
    columns = {f"x{j}": numbers[:, j] for j in range(6)} | {f"c{j}": names[levels[:, j]] for j in range(4)}
    return group, columns


def overlapping_groups(n, n_groups, n_columns, n_levels, concentration, seed=0):
    """A group of each row, and categories by which some rows belong to several groups."""
    rng = np.random.default_rng(seed)
    group = rng.integers(0, n_groups, n)
    shares = rng.dirichlet(np.full(n_levels, concentration), size=(n_groups, n_columns))
    levels = (rng.random((n, n_columns))[:, :, None] > shares.cumsum(axis=2)[group][:, :, :-1]).sum(axis=2)
    return group, {f"c{j}": np.array(list("abcdefgh"))[levels[:, j]] for j in range(n_columns)}


def random_walks(n=2000, seed=0):
    """Columns that follow a path without groups."""
    rng = np.random.default_rng(seed)
    return np.cumsum(rng.normal(size=(n, 6)), axis=0) + 3.0 * rng.normal(size=(n, 6))


def slanted_clouds(n=N, seed=0):
    """Four clusters whose columns depend on each other inside them."""
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 4, n)
    shapes = rng.normal(size=(4, 8, 8))
    return group, 8.0 * rng.normal(size=(4, 8))[group] + np.einsum(
        "nij,nj->ni", shapes[group], rng.normal(size=(n, 8))
    )


@pytest.fixture(scope="module")
def told_apart():
    group, table = separate_groups()
    return group, table, CRAFT(random_state=0, n_init=2).fit(table)


def test_many_small_groups_are_told_apart(told_apart):
    group, table, model = told_apart
    merged = CRAFT(random_state=0, n_init=2, price_factor=N / 1000).fit(table)
    assert merged.n_clusters_ < K
    assert model.price_factor_ == 1.0
    assert model.n_clusters_ == K
    assert adjusted_rand_score(group, model.labels_) > 0.98
    np.testing.assert_array_equal(model.predict(table), model.labels_)


def test_it_is_the_fit_at_a_price_factor_of_1(told_apart):
    _, table, model = told_apart
    one = CRAFT(random_state=0, n_init=2, price_factor=1.0).fit(table)
    np.testing.assert_array_equal(model.labels_, one.labels_)
    assert model.objective_ == one.objective_
    assert model.cluster_price_ == one.cluster_price_


def test_threads_and_memory_do_not_matter(told_apart):
    _, table, model = told_apart
    again = CRAFT(random_state=0, n_init=2, n_threads=2).fit(MixedTable.from_data(table))
    np.testing.assert_array_equal(again.labels_, model.labels_)
    assert again.objective_ == model.objective_


@pytest.mark.parametrize(
    ("shape", "before", "least"), [((4000, 16, 12, 8, 0.8), 1, 0.75), ((3000, 20, 8, 6, 0.35), 12, 0.85)]
)
def test_overlapping_groups_are_told_apart_where_columns_are_independent_inside(shape, before, least):
    group, table = overlapping_groups(*shape)
    merged = CRAFT(random_state=0, n_init=2, price_factor=shape[0] / 1000).fit(table)
    assert merged.n_clusters_ <= before
    model = CRAFT(random_state=0, n_init=2).fit(table)
    assert model.price_factor_ == 1.0
    assert adjusted_rand_index(group, model.labels_) > least


def overlapping_numbers(n, n_groups, distance, correlation=0.0, seed=0):
    """A group of each row, and 8 numbers whose correlation inside the groups is that given."""
    rng = np.random.default_rng(seed)
    group = rng.integers(0, n_groups, n)
    shared = np.sqrt(correlation) * rng.normal(size=(n, 1))
    own = np.sqrt(1.0 - correlation) * rng.normal(size=(n, 8))
    return group, shared + own + distance * rng.normal(size=(n_groups, 8))[group]


@pytest.mark.parametrize(
    ("shape", "factor", "least"),
    [((6000, 12, 1.5), 6.0, 0.85), ((6000, 16, 1.1), 1.0, 0.4), ((6000, 50, 2.2, 0.2), 1.0, 0.8)],
)
def test_overlapping_groups_of_numbers_are_told_apart(shape, factor, least):
    """Columns are independent inside the first two kinds of groups and correlated inside the last."""
    group, X = overlapping_numbers(*shape)
    merged = CRAFT(random_state=0, n_init=2, price_factor=len(X) / 1000).fit(X)
    model = CRAFT(random_state=0, n_init=2).fit(X)
    assert model.price_factor_ == factor  # of the first, the price of a long table is enough
    assert (adjusted_rand_index(group, merged.labels_) < least) == (factor == 1.0)
    assert adjusted_rand_index(group, model.labels_) > least


def test_groups_that_the_price_finds_are_not_split():
    """Twelve clear groups whose columns depend on each other inside; at a factor of 1 there are more."""
    group, X = overlapping_numbers(6000, 12, 4.0, 0.3)
    model = CRAFT(random_state=0, n_init=2, covariance="diagonal").fit(X)
    assert (model.n_clusters_, model.price_factor_) == (12, 6.0)
    assert adjusted_rand_index(group, model.labels_) > 0.99


def test_a_ring_stays_merged():
    rng = np.random.default_rng(0)
    angle = rng.uniform(0.0, 2.0 * np.pi, 4000)
    X = 3.0 * np.cos(angle[:, None] + rng.uniform(0.0, 6.0, 9)) + 0.5 * rng.normal(size=(4000, 9))
    assert CRAFT(random_state=0, n_init=2).fit(X).price_factor_ == 4.0


def test_groups_are_told_apart_where_links_save_more_than_one_cluster():
    """Ten columns in which forty groups differ, and two that copy each other."""
    group, table = overlapping_groups(6000, 40, 10, 6, 0.3)
    x = np.random.default_rng(1).normal(size=(6000, 1))
    table |= {"x": x[:, 0], "y": x[:, 0] + np.random.default_rng(2).normal(size=6000)}
    model = CRAFT(random_state=0, n_init=1).fit(table)
    merged = CRAFT(random_state=0, n_init=1, price_factor=6.0).fit(table)
    assert merged.dependence_ratio_ > 1.0
    assert model.price_factor_ == 1.0
    assert adjusted_rand_index(group, model.labels_) > 0.9


def test_pieces_of_a_path_stay_merged():
    X = random_walks()
    model = CRAFT(random_state=0, n_init=2).fit(X)
    assert 1 < model.n_clusters_ < CRAFT(random_state=0, n_init=2, price_factor=1).fit(X).n_clusters_
    assert model.price_factor_ == len(X) / 1000


def test_pieces_of_dependent_clusters_stay_merged():
    group, X = slanted_clouds()
    model = CRAFT(random_state=0, n_init=2).fit(X)
    assert model.price_factor_ == N / 1000
    assert model.n_clusters_ == 4
    assert adjusted_rand_index(group, model.labels_) > 0.95


@pytest.mark.parametrize("seed", range(3))
def test_independent_columns_stay_one_cluster(seed):
    rng = np.random.default_rng(seed)
    model = CRAFT(random_state=0, n_init=2).fit(
        np.column_stack([rng.normal(size=(N, 4)), rng.exponential(size=(N, 4))])
    )
    assert (model.n_clusters_, model.price_factor_) == (1, N / 1000)


def test_a_number_that_the_higher_price_does_not_find(told_apart):
    group, table = overlapping_groups(4000, 16, 12, 8, 0.8)
    model = CRAFT(16, random_state=0, n_init=2).fit(table)
    assert (model.price_factor_, model._structure().groups) == (1.0, "16 overlapping groups")
    assert adjusted_rand_index(group, model.labels_) > 0.75
    in_range = CRAFT((2, 40), random_state=0, n_init=2).fit(told_apart[1])
    assert in_range.objective_ == told_apart[2].objective_


def test_what_is_asked_for_is_not_changed():
    group, table = separate_groups(1200, 8)
    factor = 1.2
    for options in ({"n_clusters": 5}, {"n_clusters": (2, 6)}, {"init": [group]}, {"price_factor": factor}):
        assert CRAFT(random_state=0, n_init=1, **options).fit(table).price_factor_ == factor


def test_more_rows_keep_the_price_factor(told_apart):
    _, table, model = told_apart
    some = {name: column[:600] for name, column in table.items()}
    assert copy.deepcopy(model).partial_fit(some).price_factor_ == 1.0
    again = copy.deepcopy(model).refit(table)
    assert again.price_factor_ == 1.0
    np.testing.assert_array_equal(again.labels_, model.labels_)


@pytest.mark.slow
@pytest.mark.parametrize("n", [20_000, 200_000])
def test_the_length_of_the_table_does_not_matter(n):
    group, table = separate_groups(n, 60)
    model = CRAFT(random_state=0, n_init=2).fit(table)
    assert (model.n_clusters_, model.price_factor_) == (60, 1.0)
    assert adjusted_rand_score(group, model.labels_) > 0.98
