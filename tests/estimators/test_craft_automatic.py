"""The automatic number of clusters."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning

from craftc import CRAFT, MixedTable
from craftc.craft.search.automatic import common_parts
from craftc.datasets import load_heart, make_mixed
from tests.common import examples, random_table


def structured(seed, n=120):
    """A mixed table with missing cells and some clusters in it."""
    rng = np.random.default_rng(seed)
    K, p, q, idle = (
        int(rng.integers(2, 5)),
        int(rng.integers(0, 5)),
        int(rng.integers(1, 5)),
        int(rng.integers(0, 3)),
    )
    made = make_mixed(n, K, p, q, idle, n_own=min(3, p + q), missing=0.08, random_state=seed)
    return MixedTable.from_data(made.data, categorical=made.categorical)


@pytest.mark.parametrize("kind", ["numeric", "categorical", "mixed"])
@pytest.mark.parametrize("seed", range(4))
def test_noise_is_one_cluster(seed, kind):
    rng = np.random.default_rng(seed)
    numbers, letters = rng.normal(size=(300, 12)), rng.integers(0, 5, (300, 12)).astype(float)
    X = {
        "numeric": numbers,
        "categorical": letters,
        "mixed": np.concatenate([numbers[:, :6], letters[:, :6]], axis=1),
    }[kind]
    categorical = {"numeric": [], "categorical": range(12), "mixed": range(6, 12)}[kind]
    model = CRAFT(categorical=list(categorical), random_state=seed).fit(X)
    assert model.n_clusters_ == 1
    assert not model.feature_mask_.any()
    assert np.isinf(model.margins_).all()


@pytest.mark.parametrize("n_clusters", [3, 5])
def test_clusters_that_are_there_are_found(n_clusters):
    made = make_mixed(800, n_clusters, 8, 8, 8, random_state=n_clusters)
    model = CRAFT(categorical=made.categorical, random_state=0).fit(made.data)
    assert model.n_clusters_ == n_clusters
    from sklearn.metrics import adjusted_rand_score

    assert adjusted_rand_score(made.target, model.labels_) > 0.9


@pytest.mark.parametrize("seed", range(5))
def test_overlapping_classes_of_many_levels_are_found(seed):
    """J is about as low as from the classes themselves, in which many rows are typical of both."""
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 2, 1000)
    shares = {f"c{T}": rng.dirichlet(np.full(T, 0.5), size=2) for T in (8, 15, 30)}
    table = {
        name: np.array([f"level {rng.choice(len(p[k]), p=p[k])}" for k in group])
        for name, p in shares.items()
    }
    found, known = CRAFT(random_state=0).fit(table), CRAFT(init=group, random_state=0).fit(table)
    assert found.objective_ < known.objective_ + 3.0


@examples(40)
@given(seed=st.integers(0, 10**6))
def test_every_better_start_and_step_lowers_the_objective(seed):
    table = random_table(seed, n=60)
    model = CRAFT(n_init=3, random_state=seed).fit(table)
    assert (np.diff(model.objective_path_) <= 1e-9).all()
    assert model.objective_ == pytest.approx(model.objective_path_[-1], rel=1e-12)
    one = model.merge_path_[-1]
    assert one.n_clusters == 1
    assert model.objective_ <= one.objective + 1e-9


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_same_bits_on_any_number_of_threads(monkeypatch):
    monkeypatch.setattr("craftc._common.threads.SMALL_WORK", 0)
    made = make_mixed(3000, 4, 4, 4, 2, missing=0.05, random_state=0)
    table = MixedTable.from_data(made.data, categorical=made.categorical)
    fits = [CRAFT(n_init=4, random_state=1, n_threads=n).fit(table) for n in (1, 2, 3, 7)]
    for other in fits[1:]:
        np.testing.assert_array_equal(fits[0].labels_, other.labels_)
        np.testing.assert_array_equal(fits[0].feature_gains_, other.feature_gains_)
        np.testing.assert_array_equal(fits[0].objective_path_, other.objective_path_)


def test_cut_and_the_merge_path():
    heart = load_heart().data
    model = CRAFT(n_clusters=5, random_state=0).fit(heart)
    assert model.n_clusters_ == 5
    assert model.merge_path_[0].n_clusters == 5
    np.testing.assert_array_equal(model.cut(5), model.labels_)
    for k in (1, 2, 3, 4):
        labels = model.cut(k)
        assert len(np.unique(labels)) <= k
        assert labels.dtype == np.int32
        first = [int(np.flatnonzero(labels == c)[0]) for c in np.unique(labels)]
        assert first == sorted(first)
    with pytest.raises(ValueError, match="n_clusters=6"):
        model.cut(6)
    with pytest.raises(ValueError, match="must be"):
        model.cut(0)
    assert model.summary().attrs["merges"][0] == (5, model.objective_)


def test_explain_adds_up_to_the_margin():
    heart = load_heart().data
    model = CRAFT(n_clusters=3, random_state=0).fit(heart)
    why = model.explain(heart.head(20))
    np.testing.assert_array_equal(why["cluster"], model.predict(heart.head(20)))
    np.testing.assert_allclose(
        why.drop(columns=["cluster", "next"]).sum(axis=1), model.margins(heart.head(20)), atol=1e-9
    )
    np.testing.assert_allclose(model.margins(heart), model.margins_, rtol=1e-6)
    assert (model.margins_ >= 0).all()
    means = [model.margins_[model.labels_ == k].mean() for k in range(3)]
    np.testing.assert_allclose(model.cluster_margins_, means, rtol=1e-6)
    assert model.explain(heart).shape == (270, 16)


def test_numeric_columns_in_parts_are_reported_as_one():
    rng = np.random.default_rng(0)
    group = np.repeat([0, 1], 300)
    paid = np.where(
        rng.random(600) < np.where(group == 0, 0.8, 0.3), 0.0, np.exp(rng.normal(size=600) + group)
    )
    other = rng.normal(size=600) + 4 * group
    frame = pd.DataFrame({"paid": paid, "other": other, "third": rng.normal(size=600) - 3 * group})
    model = CRAFT(random_state=0).fit(frame)
    assert model.n_clusters_ == 2
    assert model.feature_mask_.shape == (2, 3)
    assert model.centers_.shape == (2, 3)
    for k in range(2):
        np.testing.assert_allclose(model.centers_[k], frame[model.labels_ == k].mean(), rtol=1e-9)
    np.testing.assert_array_equal(model.predict(frame), model.labels_)
    assert "paid" in set(model.summary()["feature"])


def test_few_rows_and_constant_tables_are_one_cluster():
    assert CRAFT().fit(np.arange(18.0).reshape(9, 2)).n_clusters_ == 1
    flat = CRAFT().fit(pd.DataFrame({"a": [1.0] * 40, "b": ["x"] * 20 + ["x"] * 20}))
    assert flat.n_clusters_ == 1


@pytest.mark.slow
def test_suspicious_tables_are_told():
    rng = np.random.default_rng(0)
    a = rng.integers(0, 3, 400)
    frame = pd.DataFrame(
        {
            "a": pd.Categorical(a),
            "again": pd.Categorical(np.array(["u", "v", "w"])[a]),
            "x": rng.normal(size=400),
        }
    )
    with pytest.warns(UserWarning, match="'a' and 'again' are near-duplicates"):
        CRAFT(random_state=0).fit(frame)
    made = rng.normal(size=(2000, 2)) @ rng.normal(size=(2, 30)) + 0.7 * rng.normal(size=(2000, 30))
    with pytest.warns(UserWarning, match="price_factor"):
        model = CRAFT(covariance="diagonal", random_state=0, n_init=2).fit(made)
    assert model.n_clusters_ >= 10
    fewer = CRAFT(random_state=0, n_init=2, price_factor=4.0, n_clusters=3).fit(made)
    assert fewer.n_clusters_ == 3
    assert CRAFT(random_state=0, n_init=2).fit(made).n_clusters_ == 1  # one cloud, with its covariance


def test_n_clusters_beyond_the_distinct_rows():
    with pytest.raises(ValueError, match="distinct"):
        CRAFT(n_clusters=4).fit(np.repeat([[0.0, 1.0], [1.0, 0.0], [2.0, 2.0]], 10, axis=0))


def test_both_zeros_are_one_value():
    with pytest.raises(ValueError, match="more than the 2 distinct rows"):
        CRAFT(n_clusters=3).fit(np.array([[0.0], [-0.0], [1.0]] * 9))


@pytest.mark.parametrize("factor", [0.0, -1.0, float("nan")])
def test_price_factor_must_be_positive(factor):
    with pytest.raises(ValueError, match="price_factor must be"):
        CRAFT(price_factor=factor).fit(np.zeros((12, 1)))


def test_common_parts_of_two_partitions():
    class Part:
        def __init__(self, labels):
            self.labels, self.K = np.array(labels, np.int32), max(labels) + 1

    first, second = Part([0, 0, 0, 1, 1, 1, 1, 0]), Part([0, 1, 1, 1, 2, 2, 0, 1])
    assert common_parts(first, second, 10).tolist() == [0, 1, 1, 3, 4, 4, 2, 1]
    # room for three: the smallest stay with the largest of their cluster; of equal ones the first is kept
    assert common_parts(first, second, 3).tolist() == [0, 1, 1, 2, 2, 2, 2, 1]
    assert common_parts(first, second, 1).tolist() == [0, 0, 0, 1, 1, 1, 1, 0]


def test_crossed_starts_find_ten_clusters_where_the_best_start_has_seven():
    made = make_mixed(1000, 10, 0, 16, 8, n_own=6, shift=2.5, random_state=0)
    table = MixedTable.from_data(made.data, categorical=made.categorical)
    model = CRAFT(random_state=0, n_threads=1).fit(table)
    from_truth = CRAFT(init=[made.target], n_threads=1).fit(table)
    assert model.n_clusters_ == 10
    assert model.objective_ < from_truth.objective_ + 1.0


def test_a_start_with_other_numbers_changes_nothing(capsys):
    table, rng = structured(3), np.random.default_rng(0)
    labels = rng.integers(0, 4, len(table))
    one = CRAFT(init=[labels], n_threads=1).fit(table)
    both = CRAFT(init=[labels, 3 - labels], n_threads=1, verbose=1).fit(table)
    assert np.array_equal(one.labels_, both.labels_)
    assert (one.objective_, one.n_iter_) == (both.objective_, both.n_iter_)
    lines = [line.split(":")[0] for line in capsys.readouterr().out.splitlines()]
    assert lines[:2] == ["CRAFT start 1/2", "CRAFT start 2/2"]


@pytest.mark.parametrize("limit", [1, 2, 3, 5])
def test_max_clusters_below_the_number_that_is_found(limit):
    """The exchanges that improve a bounded partition pass through one cluster more."""
    rng = np.random.default_rng(0)
    X = 6.0 * rng.normal(size=(6, 5))[rng.integers(0, 6, 300)] + rng.normal(size=(300, 5))
    bounded = CRAFT(max_clusters=limit, random_state=0).fit(X)
    assert bounded.n_clusters_ == limit
    given = CRAFT(n_clusters=limit, max_clusters=limit, covariance="diagonal", random_state=0).fit(X)
    assert given.n_clusters_ == limit
    assert bounded.objective_ <= given.objective_ + 1e-6


@pytest.mark.slow
def test_the_default_of_max_clusters_is_said_where_it_binds():
    rng = np.random.default_rng(0)
    z = np.repeat(np.arange(100), 60)
    X = 20.0 * rng.normal(size=(100, 10))[z] + rng.normal(size=(len(z), 10))
    with pytest.warns(UserWarning, match="100 clusters are the most"):
        model = CRAFT(init=z, price_factor=1.0, covariance="diagonal", random_state=0).fit(X)
    assert model.n_clusters_ == 100


def test_more_clusters_than_the_columns_tell_apart():
    """Rows with equal cells in the selected columns that are split in halves cost the same in both."""
    rng = np.random.default_rng(11)
    table = pd.DataFrame(
        {
            "a": rng.choice(list("xyz"), 100),
            "b": rng.choice(list("uvwpqr"), 100, p=[0.5, 0.3, 0.1, 0.05, 0.03, 0.02]),
            "c": rng.choice(list("kl"), 100),
        }
    )
    with pytest.warns(ConvergenceWarning, match="8 clusters are more than the columns tell apart"):
        model = CRAFT(8, random_state=0).fit(table)
    costs = np.sort(model.transform(table), axis=1)
    assert (costs[:, 0] == costs[:, 1]).any()
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        for n_clusters in (1, 4):
            CRAFT(n_clusters, random_state=0).fit(table)


def test_a_number_far_from_all_others_is_named():
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(300, 3)).round(2), columns=list("abc"))
    table["c"] = np.exp(2.0 * table["c"])  # a long tail
    assert not messages_of(table)
    table.loc[0, "b"], table.loc[:9, "a"] = 1000.0, -999.0
    low, high = table["b"].iloc[1:].agg(["min", "max"])
    of_a, of_b = sorted(messages_of(table))
    assert of_a.startswith("Column 'a': -999 is far from all other cells, ")
    assert of_b.startswith(f"Column 'b': 1000 is far from all other cells, {low:g} to {high:g}. ")
    table.loc[1, "b"] = 990.0
    assert sorted(messages_of(table))[1].startswith("Column 'b': 990 and 1000 are far from all other")


def messages_of(table):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        CRAFT(random_state=0, n_init=1).fit(table)
    return [str(each.message) for each in caught]
