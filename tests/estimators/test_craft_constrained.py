"""CRAFT with bounds on the number of clusters and their sizes, and with groups of rows that stay together."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import linprog
from scipy.sparse import eye, kron, vstack
from sklearn.metrics import adjusted_rand_score

from craftc import CRAFT
from craftc._common.validation import integer_weights
from craftc.craft.bounds import bounds_of
from craftc.craft.search.transport import assign_within
from craftc.datasets import load_heart
from tests.level_cases import Case, mixed_columns
from tests.reference import constrained

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # columns of so few rows repeat each other


def heart():
    return load_heart().data


def drawn(seed, n_from=40, n_to=90):
    """A table of mixed columns, and bounds on sizes that leave more or less room."""
    rng = np.random.default_rng([seed, 51])
    n, K = int(rng.integers(n_from, n_to)), int(rng.integers(2, 6))
    columns, kinds, periods = mixed_columns([seed, 51], n=n, q=int(rng.integers(3, 7)), missing=0.05)
    least, most = int(n / K * rng.uniform(0.3, 1.0)), int(n / K * rng.uniform(1.0, 1.6))
    return Case(columns, kinds, periods), max(least, 1), max(most, -(-n // K))


def fitted(case, least, most, **parameters):
    parameters = {"covariance": "diagonal", "random_state": 0} | parameters
    model = CRAFT(kinds=case.declared, min_cluster_size=least, max_cluster_size=most, **parameters)
    return model.fit(case.X)


# ---- assignment ----


def least_cost(costs, least, most):
    n, K = costs.shape
    of_cluster = kron(np.ones((1, n)), eye(K))
    return linprog(
        costs.ravel(),
        A_ub=vstack([of_cluster, -of_cluster]),
        b_ub=np.r_[np.full(K, most), np.full(K, -least)],
        A_eq=kron(eye(n), np.ones((1, K))),
        b_eq=np.ones(n),
        bounds=(0, 1),
    ).fun


@pytest.mark.parametrize("seed", range(20))
def test_assignment_of_rows_is_the_optimum(seed):
    rng = np.random.default_rng(seed)
    n, K = int(rng.integers(6, 200)), int(rng.integers(1, 7))
    costs = rng.normal(size=(n, K)) + 2.0 * rng.normal(size=K)
    costs = costs.round() if seed % 3 == 0 else costs
    least, most = int(rng.integers(0, n // K + 1)), int(rng.integers(-(-n // K), n + 1))
    labels = assign_within(costs, np.ones(n, np.int64), least, most)
    sizes = np.bincount(labels, minlength=K)
    assert least <= sizes.min() <= sizes.max() <= most
    assert costs[np.arange(n), labels].sum() == pytest.approx(least_cost(costs, least, most), abs=1e-6)


def test_assignment_to_many_small_clusters_is_the_optimum():
    costs = np.random.default_rng(0).normal(size=(60, 30)) + np.linspace(0.0, 3.0, 30)
    labels = assign_within(costs, np.ones(60, np.int64), 1, 2)
    assert set(np.bincount(labels, minlength=30)) <= {1, 2}
    assert costs[np.arange(60), labels].sum() == pytest.approx(least_cost(costs, 1, 2), abs=1e-6)


def test_assignment_of_many_rows_begins_with_prices():
    rng = np.random.default_rng(0)
    costs = rng.normal(size=(20_000, 4)) + np.arange(4)
    labels = assign_within(costs, np.ones(20_000, np.int64), 4000, 6000)
    sizes = np.bincount(labels)
    assert sizes.min() == 4000
    assert sizes.max() == 6000
    own = costs[np.arange(20_000), labels]
    gain = own[:, None] - costs  # a row prefers a cluster only where the sizes forbid it
    allowed = (sizes[labels] > 4000)[:, None] & (sizes < 6000)
    assert gain[allowed].max() <= 0.0


@pytest.mark.parametrize("seed", range(20))
def test_assignment_of_weighted_units_satisfies_bounds(seed):
    rng = np.random.default_rng(seed)
    n, K = int(rng.integers(20, 150)), int(rng.integers(2, 7))
    weight = rng.integers(0, 5, n)
    costs = rng.normal(size=(n, K)) + 2.0 * rng.normal(size=K)
    least, most = int(0.95 * weight.sum() / K), int(np.ceil(1.05 * weight.sum() / K))
    labels = assign_within(costs * weight[:, None], weight, least, most)
    sizes = np.bincount(labels, weight, minlength=K)
    assert least <= sizes.min() <= sizes.max() <= most


def test_assignment_that_does_not_exist():
    assert assign_within(np.zeros((4, 2)), np.array([3, 3, 3, 1]), 5, 5) is None
    assert assign_within(np.zeros((4, 2)), np.ones(4, np.int64), 3, 4) is None


def test_units_change_places_where_no_single_move_helps():
    labels = assign_within(np.zeros((4, 2)), np.array([5, 4, 4, 3]), 8, 8)
    assert np.bincount(labels, [5, 4, 4, 3]).tolist() == [8, 8]


# ---- sizes ----


@pytest.mark.parametrize("seed", [0])
def test_bounds_hold_and_j_is_that_of_the_reference(seed):
    case, least, most = drawn(seed)
    model = fitted(case, least, most, n_init=1)
    sizes = np.bincount(model.labels_)
    assert least <= sizes.min() <= sizes.max() <= most
    best, _ = constrained.search(case.problem(), least, most, restarts=2, seed=seed)
    assert model.objective_ <= 1.01 * best


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40))
def test_j_is_at_most_one_per_cent_above_twenty_restarts(seed):
    case, least, most = drawn(seed)
    model = fitted(case, least, most)
    sizes = np.bincount(model.labels_)
    assert least <= sizes.min() <= sizes.max() <= most
    best, _ = constrained.search(case.problem(), least, most, restarts=20, seed=seed)
    assert model.objective_ <= 1.01 * best


def test_a_result_within_the_bounds_stays_as_it_is():
    free = CRAFT(random_state=0).fit(heart())
    bound = CRAFT(random_state=0, min_cluster_size=100, max_cluster_size=0.6).fit(heart())
    assert bound.labels_.tobytes() == free.labels_.tobytes()
    assert bound.objective_ == free.objective_
    assert bound.merge_path_.objectives() == free.merge_path_.objectives()


@pytest.mark.parametrize("covariance", ["diagonal", pytest.param("full", marks=pytest.mark.slow)])
def test_rows_leave_their_cheapest_cluster_only_where_a_bound_asks_for_it(covariance):
    table = heart()
    model = CRAFT(
        4, random_state=0, n_init=1, covariance=covariance, max_cluster_size=0.3, min_cluster_size=60
    )
    costs = model.fit(table).transform(table)
    sizes = np.bincount(model.labels_)
    own = costs[np.arange(len(costs)), model.labels_][:, None]
    allowed = (sizes[model.labels_] > 60)[:, None] & (sizes < 81)
    assert (own - costs)[allowed].max() <= 1e-6
    assert (model.labels_ != model.predict(table)).sum() < 27


def test_sizes_are_shares_or_weights():
    weight = np.where(np.arange(270) < 50, 2.5, 1.0)
    model = CRAFT(random_state=0, n_init=1, covariance="diagonal", min_cluster_size=0.3, max_cluster_size=0.4)
    sizes = model.fit(heart(), sample_weight=weight).cluster_sizes_
    assert 0.3 * weight.sum() <= sizes.min() <= sizes.max() <= 0.4 * weight.sum()
    assert sizes.tolist() == np.bincount(model.labels_, weight).tolist()


def test_weight_two_is_the_row_twice():
    table, start = heart()[:90], np.arange(90) % 3
    parameters = {"n_clusters": 3, "min_cluster_size": 56, "covariance": "diagonal", "random_state": 0}
    once = CRAFT(init=start, **parameters).fit(table, sample_weight=np.full(90, 2))
    twice = CRAFT(init=start.repeat(2), **parameters).fit(table.loc[table.index.repeat(2)])
    assert once.cluster_sizes_.min() == 56
    assert twice.labels_.tobytes() == once.labels_.repeat(2).tobytes()
    assert twice.objective_ == once.objective_


def test_same_bits_on_any_number_of_threads():
    fits = [
        CRAFT(random_state=0, max_cluster_size=0.4, n_init=1, n_threads=n).fit(heart()[:150]) for n in (1, 2)
    ]
    assert len({fit.labels_.tobytes() for fit in fits}) == 1
    assert len({fit.objective_ for fit in fits}) == 1


@pytest.mark.slow
def test_merges_of_the_path_move_no_row():
    model = CRAFT(random_state=0, max_cluster_size=80, n_init=1, covariance="diagonal").fit(heart())
    path = model.merge_path_
    for before, after in pairwise(path):
        assert after.n_clusters == before.n_clusters - 1
        assert all(len(set(after.labels[before.labels == k])) == 1 for k in range(before.n_clusters))
    assert model.at(2).cluster_sizes_.tolist() == np.bincount(model.cut(2)).tolist()


@pytest.mark.parametrize("groups", [None, np.arange(5000) // 2])
def test_a_long_table_is_searched_on_a_sample(groups):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(5000, 3)) + 4.0 * rng.integers(0, 2, (2500, 1)).repeat(2, axis=0)
    X[:2] += 30.0  # a cluster that the sample may miss
    model = CRAFT((2, 2), random_state=0, max_cluster_size=0.5, n_init=1, covariance="diagonal")
    assert model.fit(X, groups=groups).cluster_sizes_.tolist() == [2500, 2500]
    assert groups is None or len(set(zip(groups, model.labels_, strict=True))) == 2500


@pytest.mark.slow
def test_stability_and_null_test_take_sizes_as_shares():
    table = heart()[:90]
    model = CRAFT(random_state=0, min_cluster_size=28, max_cluster_size=32, n_init=1, covariance="diagonal")
    assert model.fit(table).stability(table, 1, n_seeds=0).n_clusters.tolist() == [3]
    assert model.null_test(table, 1).null_n_clusters.tolist() == [3]


# ---- number of clusters ----


@pytest.mark.parametrize(("bounds", "K"), [((1, 5), 2), ([3, 5], 3)])
def test_number_of_clusters_in_a_range(bounds, K):
    model = CRAFT(bounds, random_state=0).fit(heart())
    assert model.n_clusters_ == K
    assert model.objective_ == CRAFT(None if K == 2 else K, random_state=0).fit(heart()).objective_


@pytest.mark.slow
def test_given_starts_serve_both_searches_of_a_range():
    start = np.arange(270) % 4
    kept = start.copy()
    assert CRAFT((3, 4), init=start, random_state=0).fit(heart()).n_clusters_ in (3, 4)
    assert np.array_equal(start, kept)


# ---- groups ----


def test_groups_stay_together():
    groups = np.arange(270) // 3
    model = CRAFT(random_state=0, n_init=1, min_cluster_size=0.2, max_cluster_size=0.5)
    model.fit(heart(), groups=groups)
    assert 54 <= model.cluster_sizes_.min() <= model.cluster_sizes_.max() <= 135
    for K in range(1, model.n_clusters_ + 1):
        assert len(set(zip(groups, model.cut(K), strict=True))) == 90


def test_groups_by_a_column_of_any_frame():
    pl = pytest.importorskip("polars")
    rows, groups = heart()[:90], np.arange(90) // 2
    expected = CRAFT(2, random_state=0, n_init=1, covariance="diagonal").fit(rows, groups=groups)
    named = rows.assign(home=groups.astype(str))
    for table in (named, pl.from_pandas(named), {name: named[name].to_numpy() for name in named}):
        model = CRAFT(2, random_state=0, n_init=1, covariance="diagonal").fit(table, groups="home")
        assert model.labels_.tobytes() == expected.labels_.tobytes()
        assert "home" not in model.feature_names_in_
    assert np.array_equal(model.predict(named), model.predict(rows))


def test_rows_without_a_group_are_alone():
    free = CRAFT(random_state=0).fit(heart())
    alone = CRAFT(random_state=0).fit(heart(), groups=[None, float("nan")] * 135)
    assert alone.labels_.tobytes() == free.labels_.tobytes()


def test_refits_of_the_stability_keep_groups():
    table = heart().iloc[:60, 6:]
    groups = np.arange(60) // 2
    model = CRAFT(2, random_state=0).fit(table, groups=groups)
    with pytest.raises(ValueError, match="pass the groups of fit"):
        model.stability(table, n=1)
    with pytest.raises(ValueError, match="have no groups"):
        CRAFT(2, random_state=0).fit(table).stability(table, n=1, groups=groups)
    kept = model.stability(table, n=1, n_seeds=1, groups=groups)
    again = CRAFT(2, random_state=1).fit(table, groups=groups).labels_  # as the refit on all rows
    assert kept.agreement == pytest.approx(adjusted_rand_score(model.labels_, again))
    named = table.assign(pair=groups)
    by_name = (
        CRAFT(2, random_state=0).fit(named, groups="pair").stability(named, n=1, n_seeds=1, groups="pair")
    )
    assert (by_name.overlap == kept.overlap).all()
    weight = np.where(np.arange(60) < 50, 1.0, 0.0)  # rows of weight 0 take their groups with them
    weighted = CRAFT(2, random_state=0).fit(table, sample_weight=weight, groups=groups)
    part = weighted.stability(table, n=1, n_seeds=0, sample_weight=weight, groups=groups)
    assert part.overlap.shape == (1, 2)


def test_groups_along_the_clusters_change_nothing():
    free = CRAFT(random_state=0).fit(heart())
    groups = free.labels_ * 1000 + np.arange(270) % 10
    assert CRAFT(random_state=0).fit(heart(), groups=groups).objective_ == free.objective_


# ---- errors ----


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"min_cluster_size": 200, "n_clusters": 2}, "need 2 clusters of 200 rows, but the table has 270"),
        ({"min_cluster_size": 300}, "needs 300 rows, but the table has 270"),
        ({"max_cluster_size": 50, "n_clusters": 3}, "leave room for 150 rows, but the table has 270"),
        ({"max_cluster_size": 0.01}, "leave room for 200 rows, but the table has 270"),
        ({"max_cluster_size": 1, "max_clusters": 20}, "max_clusters=20 leave room for 20 rows"),
        ({"min_cluster_size": 0.5, "max_cluster_size": 0.4}, "135 and 108 rows of the 270"),
        ({"min_cluster_size": 130, "max_cluster_size": 134}, "at most 2 clusters, .* needs at least 3"),
        ({"min_cluster_size": 0}, "min_cluster_size must be a number of rows >= 1"),
        ({"max_cluster_size": float("nan")}, "max_cluster_size must be .* got nan"),
        ({"n_clusters": (5, 3)}, r"pass \(3, 5\)"),
        ({"n_clusters": (1, 2, 3)}, "smallest and the largest number"),
        ({"n_clusters": (0, 3)}, r"n_clusters\[0\] must be a whole number >= 1"),
        ({"n_clusters": (271, 300)}, "n_clusters=271 is more than the 270 rows"),
    ],
)
def test_bounds_that_cannot_hold(parameters, message):
    with pytest.raises(ValueError, match=message):
        CRAFT(**parameters).fit(heart())


@pytest.mark.parametrize("parameters", [{"min_cluster_size": "5"}, {"max_cluster_size": True}])
def test_sizes_are_numbers(parameters):
    with pytest.raises(TypeError, match="_cluster_size must be a number of rows"):
        CRAFT(**parameters).fit(heart())


@pytest.mark.parametrize(
    ("parameters", "groups", "message"),
    [
        ({}, "hous", "groups='hous' is no column of X, whose columns are 'age'"),
        ({}, [1, 2], r"one label for each of the 270 rows, got shape \(2,\)"),
        ({"max_cluster_size": 4, "max_clusters": 300}, np.arange(270) // 5, "one group has 5"),
        ({"n_clusters": 6}, np.arange(270) % 4, "4 groups of positive weight, too few for 6 clusters"),
        (
            {"min_cluster_size": 135, "max_cluster_size": 135},
            np.arange(270) // 4,
            "No partition into 2 to 2 clusters of 135 to 135 rows was found",
        ),
    ],
)
def test_groups_that_cannot_hold(parameters, groups, message):
    with pytest.raises(ValueError, match=message):
        CRAFT(**parameters).fit(heart(), groups=groups)


@pytest.mark.parametrize("size", [600.0, 1e20, 1e300, 1.7e308])
def test_sizes_beyond_the_table(size):
    """With weights that are not whole a row is many counts, and such a size more than float64 holds."""
    counts, unit = integer_weights(np.random.default_rng(0).random(500))
    bounds = bounds_of(None, 5, (None, size), None, counts, unit, 500)
    assert bounds.most == counts.sum()
    with pytest.raises(ValueError, match=r"min_cluster_size=\S+ needs \S+ of weight, but the table has 2"):
        bounds_of(None, 5, (size, None), None, counts, unit, 500)


def test_a_row_heavier_than_a_cluster():
    weight = np.ones(270)
    weight[3] = 200.0
    with pytest.raises(ValueError, match="one row has 200"):
        CRAFT(max_cluster_size=0.4).fit(heart(), sample_weight=weight)


@pytest.mark.parametrize(
    "keywords", [{"groups": np.zeros(40)}, {"min_cluster_size": 2}, {"max_cluster_size": 0.9}]
)
def test_partitions_have_no_bounds_on_sizes(keywords):
    from craftc.distributed import Partitions

    groups = keywords.pop("groups", None)
    parts = Partitions([heart()[:20], heart()[20:40]])
    with pytest.raises(ValueError, match="need all rows in one process"):
        CRAFT(**keywords).fit(parts, groups=groups)


def test_arrays_have_no_named_groups():
    with pytest.raises(ValueError, match="needs a data frame or a dict of columns, got ndarray"):
        CRAFT().fit(np.zeros((5, 2)), groups="home")


def test_clusters_that_k_means_cannot_split_are_halved():
    """The scores of most levels are equal where one column has many and the other one hardly varies."""
    counts = [52, 38, 34, 34, 28, 27, 21, 19, 17, 17, 15, 15, 14, 13, 13, 13, 10, 9, 9, 8, 8, 8]
    counts += [7, 7, 6, 6, 6, 5, 4, 4, 2, 1, 1, 1, 1, 1, 1, 1]
    level = np.repeat(np.arange(len(counts)), counts)
    odd = np.isin(np.arange(len(level)), (0, 60))
    table = pd.DataFrame({"a": level.astype(str), "b": np.where(odd, "odd", "usual")})
    for n_clusters in (5, 7):
        model = CRAFT(n_clusters, max_cluster_size=0.4, n_init=1, random_state=0).fit(table)
        sizes = np.bincount(model.labels_)
        assert len(sizes) == n_clusters
        assert sizes.max() <= 190
