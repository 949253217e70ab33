"""CRAFT with the pooled background: its result against the reference implementation, and the properties of
its objective.
"""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import adjusted_rand_score as ari

from craftc import CRAFT, MixedTable, load_model, save_model
from craftc.datasets import load_heart, make_mixed, make_subspaces
from tests.common import random_table
from tests.reference import automatic, levels, pooled, tilted


def reference_of(model, table, weight=None):
    """The problem of a table, and the sums of the clusters of a fitted model."""
    p, q = table.numeric.shape[1], table.codes.shape[1]
    columns, kinds = [*table.numeric.T.astype(float), *table.codes.T], ["number"] * p + ["category"] * q
    n_levels = {p + d: int(n) for d, n in enumerate(table.n_levels)}
    t = tilted.problem(
        *levels.table(columns, kinds, weight=weight, n_levels=n_levels),
        weight=weight,
        price_factor=model.price_factor_,
    )
    return t, automatic.sums(t, t.rows, model.labels_[t.rows], model.n_clusters_)


def fitted(table, **options):
    return CRAFT(random_state=0, n_init=4, covariance="diagonal", **options).fit(table)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("price_factor", [0.5, 1.0])
def test_masks_of_the_result_are_the_optimum(seed, price_factor):
    table = random_table(seed, n=60 + 5 * seed, p=1 + seed % 4, q=seed % 3)
    model = fitted(table, price_factor=price_factor)
    t, stats = reference_of(model, table)
    if model.n_clusters_ <= 4:
        J, mask = pooled.best_masks_exhaustive(t, stats)
        usable = model._fitted.clusters.background.usable > 0
        np.testing.assert_array_equal(model.feature_mask_[:, usable], mask)
    else:
        J = pooled.best_masks(t, stats)[0]
    assert model.objective_ <= J + 1e-8 * abs(J)  # statistics of tilts are rounded to 2^-20
    assert model.objective_ == model.merge_path_[0].objective
    assert (np.diff(model.objective_path_) <= 1e-9).all()


@pytest.mark.parametrize("seed", range(6))
def test_no_pass_improves_the_result(seed):
    """The rows are where they cost least, given the masks and distributions of the result."""
    table = random_table(seed, n=90, p=3, q=3)
    model = fitted(table, price_factor=0.5)
    t, stats = reference_of(model, table)
    mask = model.feature_mask_[:, model._fitted.clusters.background.usable > 0]
    cost = pooled.row_costs(t, t.rows, stats, mask)
    own = cost[np.arange(len(cost)), model.labels_]
    assert (own <= cost.min(axis=1) + 1e-9).all()
    np.testing.assert_array_equal(model.predict(table), model.labels_)


def test_figures_of_the_paper():
    for layout in ("2a", "3a"):
        bunch = make_subspaces(layout, random_state=0)
        model = CRAFT(categorical=bunch.categorical, random_state=0).fit(bunch.data)
        assert model.n_clusters_ == 3
        assert ari(bunch.target, model.labels_) == 1.0
        assert (
            model.feature_mask_.mean() < 0.4
        )  # every cluster selects about a third of the columns, not all of them


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_same_bits_for_any_number_of_threads(dtype):
    table = random_table(3, n=4000, p=4, q=4, dtype=dtype)
    fits = [CRAFT(n_init=4, random_state=1, n_threads=n).fit(table) for n in (1, 2, 5)]
    for other in fits[1:]:
        np.testing.assert_array_equal(other.labels_, fits[0].labels_)
        np.testing.assert_array_equal(other.feature_mask_, fits[0].feature_mask_)
        assert other.objective_ == fits[0].objective_
        np.testing.assert_array_equal(other.transform(table), fits[0].transform(table))


@pytest.mark.parametrize("seed", range(4))
def test_order_of_rows_columns_and_levels_does_not_matter(seed):
    table = random_table(seed, n=150, p=3, q=3)
    rng = np.random.default_rng(seed)
    X = np.column_stack(
        [table.numeric.astype(float), np.where(table.codes < table.n_levels, table.codes, np.nan)]
    )
    start = rng.integers(0, 5, 150)
    model = CRAFT(categorical=[3, 4, 5], init=[start], n_threads=1).fit(X)
    rows = rng.permutation(150)
    moved = CRAFT(categorical=[3, 4, 5], init=[start[rows]], n_threads=1).fit(X[rows])
    assert ari(model.labels_[rows], moved.labels_) == 1.0
    assert moved.objective_ == pytest.approx(model.objective_, rel=1e-10)
    columns = np.array([5, 2, 0, 4, 1, 3])
    moved = CRAFT(categorical=[0, 3, 5], init=[start], n_threads=1).fit(X[:, columns])
    assert moved.objective_ == pytest.approx(model.objective_, rel=1e-6)


@pytest.mark.parametrize("seed", range(4))
def test_weight_two_is_a_repeated_row(seed):
    table = random_table(seed, n=120, p=2, q=3)
    rng = np.random.default_rng(seed)
    start, weight = rng.integers(0, 4, 120), rng.integers(1, 3, 120)
    rows = np.repeat(np.arange(120), weight)
    weighted = CRAFT(init=[start]).fit(table, sample_weight=weight.astype(float))
    repeated = CRAFT(init=[start[rows]]).fit(table.take(rows))
    np.testing.assert_array_equal(weighted.labels_[rows], repeated.labels_)
    np.testing.assert_array_equal(weighted.feature_mask_, repeated.feature_mask_)
    assert weighted.objective_ == repeated.objective_


def test_contributions_sum_to_the_margin_and_name_the_distributions():
    heart = load_heart().data
    model = CRAFT(random_state=0).fit(heart)
    frame = model.explain(heart)
    np.testing.assert_allclose(frame.iloc[:, 2:].sum(axis=1), model.margins_, rtol=1e-5)
    assert len(frame.attrs["distribution"]) == model.n_clusters_
    summary = model.summary()
    assert set(summary["distribution"]) <= {
        "own"
    }  # of two clusters both have their own distribution where one selects
    for k, row in enumerate(frame.attrs["distribution"]):
        own = {feature for feature, whose in row.items() if whose == "own"}
        assert set(summary.loc[summary["cluster"] == k, "feature"]) <= own


def test_summary_names_features_that_clusters_share():
    """Figure 4a: two of three clusters share every column; the third selects it."""
    bunch = make_subspaces("4a", random_state=0)
    model = CRAFT(categorical=bunch.categorical, random_state=0).fit(bunch.data)
    assert "shared with 1 cluster" in set(model.summary()["distribution"])


def test_new_rows_of_a_pickled_and_of_a_saved_model(tmp_path):
    made = make_mixed(400, 4, 4, 4, 0, missing=0.1, random_state=0)
    model = CRAFT(categorical=made.categorical, random_state=0).fit(made.data)
    save_model(model, tmp_path / "model.craftc")
    for again in (pickle.loads(pickle.dumps(model)), load_model(tmp_path / "model.craftc")):
        np.testing.assert_array_equal(again.transform(made.data), model.transform(made.data))
        np.testing.assert_array_equal(again.feature_mask_, model.feature_mask_)
        assert again.objective_ == model.objective_
        pd.testing.assert_frame_equal(again.summary(), model.summary())


@pytest.mark.parametrize(
    "table",
    [
        np.zeros((1, 3)),
        np.zeros((30, 2)),
        np.repeat([[0.0, 1.0], [5.0, 2.0]], 3, axis=0),
        np.column_stack([np.arange(40.0), np.full(40, 2.0)]),
    ],
    ids=["one row", "constant columns", "six rows", "one constant"],
)
def test_small_and_flat_tables(table):
    model = CRAFT(random_state=0).fit(table)
    assert np.isfinite(model.objective_)
    assert np.isfinite(model.transform(table)).all()


def test_a_column_of_one_category_and_read_only_input():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": ["x"] * 60, "b": rng.choice(list("uv"), 60), "c": rng.normal(size=60)})
    assert CRAFT(random_state=0).fit(frame).feature_mask_[:, 0].sum() == 0
    X = rng.normal(size=(80, 8))[::2, ::2]
    X.flags.writeable = False
    np.testing.assert_array_equal(
        CRAFT(random_state=0).fit(X).labels_, CRAFT(random_state=0).fit(X.copy()).labels_
    )


@pytest.mark.slow
def test_more_clusters_than_the_room_of_a_search():
    rng = np.random.default_rng(0)
    table = MixedTable.from_data(rng.normal(size=(400, 3)))
    model = CRAFT(130, random_state=0, init="single", max_clusters=5).fit(table)
    assert model.n_clusters_ == 130
