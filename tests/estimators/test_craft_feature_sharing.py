"""CRAFT and PaperCRAFT from local to global selection: ends, properties of the search, and the path."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn.base import clone

from craftc import CRAFT, MixedTable, load_model, save_model
from craftc.datasets import load_heart, make_subspaces
from tests.common import random_table

SHARES = (0.2, 0.7, 1.0)


def fitted(X, s, weight=None, **parameters):
    parameters = {"random_state": 0, "n_init": 4, **parameters}
    return CRAFT(feature_sharing=s, **parameters).fit(X, sample_weight=weight)


def assert_same_fit(one, two):
    np.testing.assert_array_equal(one.labels_, two.labels_)
    np.testing.assert_array_equal(one.feature_mask_, two.feature_mask_)
    assert one.objective_ == two.objective_


@pytest.fixture(scope="module")
def heart():
    return load_heart().data


def table_of(seed):
    """Three clusters, numbers and categories, some cells missing."""
    rng = np.random.default_rng(seed)
    z = rng.integers(0, 3, 240)
    numbers = rng.normal(np.where(np.arange(4) % 3 == z[:, None], 2.5, 0.0), 1.0)
    levels = np.where(
        rng.random((240, 4)) < 0.6, (z[:, None] + np.arange(4)) % 3, rng.integers(0, 3, (240, 4))
    )
    X = np.column_stack([numbers, levels]).astype(float)
    X[rng.random(X.shape) < 0.03] = math.nan
    return MixedTable.from_data(X, categorical=[4, 5, 6, 7]), z


def test_zero_is_local_selection(heart):
    assert_same_fit(fitted(heart, 0.0), CRAFT(random_state=0, n_init=4).fit(heart))
    assert_same_fit(fitted(heart, 0), fitted(heart, 0.0))


@pytest.mark.parametrize("seed", range(3))
def test_one_is_global_selection(seed):
    model = fitted(table_of(seed)[0], 1.0, n_clusters=3)
    assert model.n_clusters_ == 3
    assert (model.feature_mask_ == model.feature_mask_[0]).all()
    assert model.feature_mask_.any()
    assert model.covariances_ is None or not any(each is not None for each in model.covariances_)
    for K in (1, 2):
        mask = model.at(K).feature_mask_
        assert (mask == mask[0]).all()


@pytest.mark.parametrize("s", SHARES)
@pytest.mark.parametrize("seed", range(3))
def test_objective_never_rises(seed, s):
    model = fitted(table_of(seed)[0], s, covariance="diagonal")
    assert (np.diff(model.objective_path_) <= 1e-9 * abs(model.objective_)).all()
    objectives = [step.objective for step in model.merge_path_]
    assert min(objectives) >= model.objective_ - 1e-6
    assert objectives[0] == pytest.approx(model.objective_, rel=1e-12)
    one = fitted(table_of(seed)[0], s, n_clusters=1, covariance="diagonal")
    assert objectives[-1] == pytest.approx(one.objective_, rel=1e-12)
    # one cluster has one mask, whose code does not depend on the share
    local = fitted(table_of(seed)[0], 0.0, n_clusters=1, covariance="diagonal")
    assert one.objective_ == pytest.approx(local.objective_, rel=1e-12)


@pytest.mark.parametrize("s", SHARES)
def test_threads_and_repeated_rows(s):
    table, _ = table_of(1)
    model = fitted(table, s, n_threads=1)
    assert_same_fit(model, fitted(table, s, n_threads=3))
    start = np.random.default_rng(0).integers(0, 4, len(table))
    weighted = fitted(table, s, np.full(len(table), 2.0), init=start)
    rows = np.repeat(np.arange(len(table)), 2)
    twice = fitted(table.take(rows), s, init=start[rows])
    np.testing.assert_array_equal(weighted.labels_, twice.labels_[::2])
    np.testing.assert_array_equal(weighted.feature_mask_, twice.feature_mask_)
    assert weighted.objective_ == twice.objective_


@pytest.mark.parametrize("s", SHARES)
def test_order_of_rows_and_columns(s):
    table, _ = table_of(2)
    start, rng = np.random.default_rng(0).integers(0, 4, len(table)), np.random.default_rng(1)
    model = fitted(table, s, init=start)
    rows = rng.permutation(len(table))
    other = fitted(table.take(rows), s, init=start[rows])
    assert other.objective_ == pytest.approx(model.objective_, rel=1e-12)
    assert (np.sort(other.cluster_sizes_) == np.sort(model.cluster_sizes_)).all()


@pytest.mark.parametrize("s", [0.4, 1.0])
def test_partitions_and_files(s, tmp_path):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    from craftc.distributed import Partitions

    frame = pandas.DataFrame(np.round(make_subspaces("2a", random_state=0).data, 6))
    frame.columns = [f"x{j}" for j in range(frame.shape[1])]
    model = fitted(frame, s)
    parts = Partitions([frame.iloc[:100], frame.iloc[100:130], frame.iloc[130:]])
    apart = fitted(parts, s)
    np.testing.assert_array_equal(np.asarray(apart.labels_), model.labels_)
    np.testing.assert_array_equal(apart.feature_mask_, model.feature_mask_)
    assert apart.objective_ == model.objective_
    frame.to_parquet(tmp_path / "table.parquet")
    assert_same_fit(fitted(tmp_path / "table.parquet", s), model)


@pytest.mark.parametrize("s", [0.4, 1.0])
def test_model_file(s, heart, tmp_path):
    model = fitted(heart, s)
    save_model(model, tmp_path / "model.craftc")
    again = load_model(tmp_path / "model.craftc")
    assert_same_fit(model, again)
    assert again.feature_sharing == s
    np.testing.assert_array_equal(again.predict(heart), model.predict(heart))


def test_parameter(heart):
    model = CRAFT(feature_sharing=0.3)
    assert clone(model).get_params()["feature_sharing"] == 0.3
    assert fitted(heart, np.float32(0.5)).n_clusters_ >= 1
    for bad in (-0.1, 1.5, math.nan, math.inf):
        with pytest.raises(ValueError, match=r"feature_sharing must be a number >= 0 and <= 1, got"):
            CRAFT(feature_sharing=bad).fit(heart)
    for bad in (None, "half", True, [0.5]):
        with pytest.raises(TypeError, match=r"feature_sharing must be a number >= 0 and <= 1, got"):
            CRAFT(feature_sharing=bad).fit(heart)
    with pytest.raises(ValueError, match="covariance='full' needs feature_sharing below 1"):
        CRAFT(feature_sharing=1.0, covariance="full").fit(heart)


@pytest.mark.parametrize("s", SHARES)
@pytest.mark.parametrize("n", [1, 2, 5])
def test_small_and_constant_tables(n, s):
    X = np.ones((n, 3))
    X[:, 1] = np.arange(n)
    assert fitted(X, s).labels_.shape == (n,)
    assert fitted(np.ones((n, 2)), s).n_clusters_ == 1
    np.testing.assert_array_equal(fitted(X.astype(np.float32), s).labels_, fitted(X, s).labels_)


def test_masks_of_random_tables():
    """Any table has a fit at any share."""
    for seed in range(6):
        model = fitted(random_table(seed), (0.05, 0.5, 0.99)[seed % 3])
        assert math.isfinite(model.objective_)


def recovered(layout, s):
    """Mean Jaccard index of the masks of three made tables with the own columns of their clusters."""
    scores = []
    for seed in range(3):
        made = make_subspaces(layout, random_state=seed)
        table = MixedTable.from_data(made.data, categorical=made.categorical)
        model = CRAFT(feature_sharing=s, random_state=seed).fit(table)
        assert model.n_clusters_ == 3
        for k, own in enumerate(made.feature_mask > 0):
            found = model.feature_mask_[np.bincount(model.labels_[made.target == k]).argmax()] > 0
            scores.append((own & found).sum() / (own | found).sum())
    return float(np.mean(scores))


@pytest.mark.slow
def test_figures_of_the_paper():
    """Columns of one cluster are found by local selection, columns that two of three share by one between."""
    assert recovered("2a", 0.0) == recovered("2a", 0.5) == 1.0
    assert recovered("2a", 1.0) < 0.5
    assert recovered("3c", 0.5) > recovered("3c", 0.0) + 0.1
    assert recovered("3c", 0.5) > recovered("3c", 1.0) + 0.3


# ---- the path ----


def test_path(heart):
    pytest.importorskip("pandas")
    model = fitted(heart, 0.0)
    path = model.mask_path(heart, (0.0, 0.5, 1.0))
    assert path["feature_sharing"].tolist() == [0.0, 0.5, 1.0]
    assert path["objective"][0] == model.objective_
    assert path["agreement"][0] == 1.0
    assert path["common"].iloc[-1] == 1.0
    assert path["common"].between(0.0, 1.0).all()
    whole = fitted(heart, 1.0)
    assert path["objective"].iloc[-1] == whole.objective_
    assert path["selected"].iloc[-1] == whole.feature_mask_.mean()
    full = fitted(heart, 0.0, covariance="full").mask_path(heart, (0.0, 1.0))
    assert full["objective"].iloc[-1] == whole.objective_
    with pytest.raises(ValueError, match="feature_sharing must be a number >= 0 and <= 1, got 2"):
        model.mask_path(heart, (0.0, 2.0))
    for bad in (0.5, "0.5", None):
        with pytest.raises(TypeError, match="feature_sharing must be a list of numbers from 0 to 1, got"):
            model.mask_path(heart, bad)
    with pytest.raises(ValueError, match="feature_sharing has no values"):
        model.mask_path(heart, ())
