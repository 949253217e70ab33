"""The test of structure: savings in the table, and in tables whose columns are permuted on their own."""

from __future__ import annotations

import itertools
import pickle

import numpy as np
import pandas as pd
import pytest

from craftc import CRAFT, MixedTable
from craftc._common.random import CraftStream, uniform
from craftc.craft.answers.path import NullTest, permuted
from craftc.datasets import load_heart
from craftc.distributed import Partitions
from tests.distributed.same_fit import cut, even, mixed

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def same(a, b):
    return (
        (a.saving, a.n_clusters, a.n_rows, a.sampled) == (b.saving, b.n_clusters, b.n_rows, b.sampled)
        and np.array_equal(a.null_savings, b.null_savings)
        and np.array_equal(a.null_n_clusters, b.null_n_clusters)
    )


@pytest.fixture(scope="module")
def heart():
    return load_heart().data


@pytest.fixture(scope="module")
def fitted(heart):
    return CRAFT(random_state=0).fit(heart)


def test_a_table_with_groups(fitted, heart):
    found = fitted.null_test(heart, n=19)
    assert found.saving == fitted.merge_path_[-1].objective - fitted.objective_
    assert found.n_clusters == 2
    assert found.null_savings.tolist() == [0.0] * 19
    assert found.null_n_clusters.tolist() == [1] * 19
    assert found.p_value == 1 / 20
    assert (found.n_rows, found.sampled) == (270, False)
    assert repr(found) == (
        "NullTest(2 clusters save 107 nats; 19 tables with permuted columns: 0 nats, 1 cluster; p = 0.05)"
    )


def test_a_table_without_groups():
    X = np.random.default_rng(0).normal(size=(200, 4))
    found = CRAFT(random_state=0).fit(X).null_test(X, n=3)
    assert (found.saving, found.n_clusters, found.p_value) == (0.0, 1, 1.0)


@pytest.mark.slow
def test_a_given_number_is_compared_at_that_number():
    """Four clusters of noise cost more than one, there and in tables with permuted columns."""
    X = np.random.default_rng(0).normal(size=(200, 4))
    found = CRAFT(4, random_state=0).fit(X).null_test(X, n=9)
    assert found.null_n_clusters.tolist() == [4] * 9
    assert found.saving < 0.0
    assert found.p_value > 0.05


@pytest.mark.parametrize("saving", [-1.0, 0.0, 3.0, 3.5, 9.0])
def test_p_values_by_counting(saving):
    """The share of all tables, the given one among them, that save at least as much as it."""
    null = [0.0, 0.0, 3.0, 7.0]
    found = NullTest(saving, 2, np.array(null), np.array([1, 1, 2, 3]), 100, False)
    at_least = [each for each in [saving, *null] if each >= saving]
    assert found.p_value == len(at_least) / 5


@pytest.mark.slow
def test_p_values_of_exchangeable_tables_are_uniform():
    """Independent columns: the table and its permutations are equally likely, so that P(p <= a) <= a."""
    rng, values = np.random.default_rng(1), []
    for _ in range(20):
        X = rng.normal(size=(40, 3))
        values.append(CRAFT(3, random_state=0, n_init=1).fit(X).null_test(X, n=4).p_value)
    assert min(values) >= 0.2
    assert np.mean(np.array(values) <= 0.4) < 0.75


def test_every_column_keeps_its_cells_in_an_order_of_its_own():
    frame = mixed(300, missing=0.1)
    table = MixedTable.from_data(frame)
    other = permuted(table, 3, 2)
    schema = table.schema
    for blocks, columns in (("numeric", schema.numeric_index), ("codes", schema.categorical_index)):
        before, after = getattr(table, blocks), getattr(other, blocks)
        for d, j in enumerate(columns):
            draws = [uniform(3, CraftStream.PERMUTATION, 2, int(j), i) for i in range(300)]
            order = sorted(range(300), key=draws.__getitem__)
            np.testing.assert_array_equal(after[:, d], before[order, d])
    X = np.arange(200.0)[:, None] * np.ones(6)
    orders = permuted(MixedTable.from_data(X), 0, 0).numeric.T
    assert all(not np.array_equal(a, b) for a, b in itertools.combinations(orders, 2))
    assert np.abs(np.corrcoef(orders) - np.eye(6)).max() < 0.3


def test_the_first_tables_do_not_depend_on_their_number(fitted, heart):
    four, two = fitted.null_test(heart, n=4), fitted.null_test(heart, n=2)
    np.testing.assert_array_equal(four.null_savings[:2], two.null_savings)


def test_frames_arrays_files_and_partitions_give_the_same(tmp_path):
    frame = mixed(400)
    path = tmp_path / "table.parquet"
    frame.to_parquet(path)
    here = CRAFT(random_state=0).fit(frame)
    wanted = here.null_test(frame, n=2)
    assert wanted.saving > 0.0
    table = MixedTable.from_data(frame)
    assert same(CRAFT(random_state=0).fit(table).null_test(table, n=2), wanted)
    assert same(CRAFT(random_state=0).fit(path).null_test(path, n=2), wanted)
    parts = Partitions(cut(frame, even(400, 3)))
    far = CRAFT(random_state=0).fit(parts)
    assert same(far.null_test(parts, n=2), wanted)
    assert same(here.null_test(parts, n=2), wanted)
    threads = CRAFT(random_state=0, n_threads=2).fit(frame).null_test(frame, n=2)
    assert same(threads, wanted)


def test_dask_collections_give_the_same():
    dd = pytest.importorskip("dask.dataframe")
    distributed = pytest.importorskip("distributed")
    frame = mixed(300)
    wanted = CRAFT(random_state=0).fit(frame).null_test(frame, n=1)
    with (
        distributed.LocalCluster(n_workers=1, processes=False, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        lazy = dd.from_pandas(frame, npartitions=3)
        assert same(
            CRAFT(random_state=0).fit(lazy, client=client).null_test(lazy, n=1, client=client), wanted
        )


def test_long_tables_are_represented_by_a_sample():
    frame = mixed(20_000)
    here = CRAFT(random_state=0, n_init=2).fit(frame)
    found = here.null_test(frame, n=1)
    assert (found.n_rows, found.sampled) == (1 << 14, True)
    assert found.saving < here.merge_path_[-1].objective - here.objective_
    assert "1 table of 16,384 rows with permuted columns: 0 nats, 1 cluster" in repr(found)
    parts = Partitions(cut(frame, even(20_000, 3)))
    assert same(here.null_test(parts, n=1), found)


def test_weights_stay_and_rows_of_weight_zero_are_left_out(heart):
    weight = np.where(np.arange(270) < 20, 0.0, 1.0)
    model = CRAFT(random_state=0).fit(heart, sample_weight=weight)
    rest = heart.iloc[20:]
    alone = CRAFT(random_state=0).fit(rest).null_test(rest, n=2)
    found = model.null_test(heart, n=2, sample_weight=weight)
    assert found.n_rows == 250
    assert found.saving == model.merge_path_[-1].objective - model.objective_
    np.testing.assert_array_equal(found.null_savings, alone.null_savings)


def test_a_given_number_above_that_of_distinct_rows():
    """Permuted columns may leave fewer distinct rows than the clusters that were asked for."""
    X = pd.DataFrame({"a": ["x"] * 19 + ["y"], "b": ["u"] * 19 + ["v"]})
    X.loc[3, "b"] = "v"
    found = CRAFT(3, random_state=0).fit(X).null_test(X, n=9)
    assert set(found.null_n_clusters.tolist()) <= {2, 3}


def test_starts_and_options_of_the_model(fitted, heart):
    given = CRAFT(random_state=0, init=fitted.labels_).fit(heart)
    assert given.null_test(heart, n=1).null_savings.tolist() == [0.0]
    rng = np.random.default_rng(0)
    X = rng.normal(rng.choice([-5.0, 5.0], (300, 3)))  # two humps a column
    normal = CRAFT(random_state=0, null="normal").fit(X).null_test(X, n=2)
    assert (normal.null_savings > 0.0).all()


def test_refused_input_changes_nothing(fitted, heart):
    before = pickle.dumps(fitted)
    for arguments, message in (
        ({"n": 0}, "n must be a whole number >= 1"),
        ({"n": 2.5}, "n must be a whole number"),
        ({"random_state": -1}, "random_state"),
        ({"sample_weight": np.ones(3)}, "sample_weight"),
        ({"client": "tcp://nowhere"}, "client= belongs to"),
    ):
        with pytest.raises((ValueError, TypeError), match=message):
            fitted.null_test(heart, **arguments)
    with pytest.raises(ValueError, match="pass the table of fit"):
        fitted.null_test(heart.iloc[::-1])
    parts = Partitions(cut(heart, even(270, 2)))
    with pytest.raises(ValueError, match="have no weights"):
        fitted.null_test(parts, sample_weight=np.ones(270))
    assert pickle.dumps(fitted) == before
