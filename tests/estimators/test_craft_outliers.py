"""Outlier scores, rows that fit no cluster, and the surprisal of cells, against NumPy."""

from __future__ import annotations

import copy
import warnings

import numpy as np
import pandas as pd
import pytest

import craftc
from craftc import CRAFT
from craftc.datasets import load_heart
from craftc.distributed import Partitions


def categories(n=400, seed=0):
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 2, n)
    codes = np.column_stack([rng.random(n) < 0.1 + 0.8 * group for _ in range(4)] + [rng.random(n) < 0.3])
    return (codes + 0).astype(int) + np.array([0, 0, 0, 0, 1]) * rng.integers(0, 2, (n, 1))


def shares_of(model, codes):
    """(K, D) shares of the levels in each cluster, those of the pool where it does not select the column."""
    out = []
    for d in range(codes.shape[1]):
        T = codes[:, d].max() + 1
        counts = np.array(
            [np.bincount(codes[model.labels_ == k, d], minlength=T) for k in range(model.n_clusters_)]
        )
        b, rest = counts.sum(axis=0) / len(codes), ~model.feature_mask_[:, d]
        counts[rest] = counts[rest].sum(axis=0)
        out.append(((counts + b) / (counts.sum(axis=1, keepdims=True) + 1.0), b))
    return out


@pytest.mark.parametrize("weights", [None, {"c": 2.5, "e": 0}])
def test_scores_and_surprisals_by_hand(weights):
    codes = categories()
    frame = pd.DataFrame(codes.astype(str), columns=list("abcde"), index=np.arange(400) + 7)
    model = CRAFT(2, column_weights=weights, random_state=0).fit(frame)
    w = [(weights or {}).get(name, 1.0) for name in frame]
    costs = -np.log(np.bincount(model.labels_) / 400)[None, :].repeat(400, axis=0)
    without = np.zeros(400)
    for d, (shares, b) in enumerate(shares_of(model, codes)):
        costs -= w[d] * np.log(shares[:, codes[:, d]].T)
        without -= w[d] * np.log(b[codes[:, d]])
    np.testing.assert_allclose(model.outlier_scores_, costs.min(axis=1) - without, atol=1e-5)
    np.testing.assert_array_equal(model.outlier_scores(frame), model.outlier_scores_)
    found, own = model.surprisal(frame), model.predict(frame)
    assert list(found.columns) == list("abcde")
    assert found.index.equals(frame.index)
    for d, (shares, _) in enumerate(shares_of(model, codes)):
        entropy = -(shares * np.log(shares)).sum(axis=1)
        np.testing.assert_allclose(found.iloc[:, d], -np.log(shares[own, codes[:, d]]) - entropy[own])
    # up to priors and prices, the scores are what the clusters save, their labels paid
    paid = -np.log(np.bincount(model.labels_)[model.labels_] / 400).sum()
    assert model.outlier_scores_.sum() == pytest.approx(paid - model.feature_gains_.sum(), abs=20)


def test_an_odd_cell_is_found_and_missing_ones_are_nan():
    rng = np.random.default_rng(3)
    group = rng.integers(0, 3, 300)
    frame = pd.DataFrame({f"x{j}": rng.normal(5.0 * (group == j), 1.0) for j in range(3)})
    frame["kind"] = np.array(["red", "green", "blue"])[group]
    model = CRAFT(3, n_init=2, random_state=0).fit(frame)
    row = int(np.flatnonzero(group == 1)[0])
    frame.loc[row, "kind"], frame.loc[5, "x0"], frame.loc[6, "kind"] = "red", np.nan, "unseen"
    odd = model.surprisal(frame)
    assert odd.loc[row].idxmax() == "kind"
    assert odd.loc[row, "kind"] == odd.to_numpy()[~odd.isna()].max()
    assert np.argwhere(odd.isna().to_numpy()).tolist() == [[5, 0], [6, 3]]
    assert model.outlier_scores(frame).argmax() == row
    assert abs(odd.mean()).max() < 0.1
    polars = pytest.importorskip("polars")
    assert isinstance(model.surprisal(polars.from_pandas(frame)), polars.DataFrame)


def test_cells_of_a_covariance_are_described_given_the_others():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(600, 1)) + 0.3 * rng.normal(size=(600, 3))
    X[0, 2] += 3.0  # unusual only with the other cells of its row
    X[1, 1] = 0.0
    model = CRAFT(1, covariance="full", random_state=0).fit(X)
    new = X.copy()
    new[1, 1] = np.nan
    found = model.surprisal(new).to_numpy()
    held, scores = (
        model._fitted.clusters.covariances,
        model._fitted.encoding.apply(model.schema_.encode(new, estimator_name="CRAFT")).numeric,
    )
    z = (scores.astype(float) - held.centre) * held.scale
    for row, d, others in ((0, 2, [0, 1]), (7, 0, [1, 2]), (1, 0, [2]), (1, 2, [0])):
        S, m = held.matrix[0], held.mean[0]
        slope = np.linalg.solve(S[np.ix_(others, others)], S[others, d])
        variance = S[d, d] - S[d, others] @ slope
        r = z[row, d] - m[d] - (z[row, others] - m[others]) @ slope
        assert found[row, d] == pytest.approx(0.5 * (r * r / variance - 1.0), rel=1e-9)
    assert np.isnan(found[1, 1])
    assert found[0, 2] == np.nanmax(found)
    assert abs(np.nanmean(found)) < 0.1


def test_outliers_are_marked(tmp_path):
    heart = load_heart().data
    plain = CRAFT(n_init=1, random_state=0).fit(heart)
    assert (plain.labels_ >= 0).all()
    for price in (-2.0, 1.5):
        model = CRAFT(outlier_price=price, n_init=1, random_state=0).fit(heart)
        out = plain.outlier_scores_ > -price
        np.testing.assert_array_equal(model.labels_, np.where(out, -1, plain.labels_))
        np.testing.assert_array_equal(model.predict(heart), model.labels_)
        np.testing.assert_array_equal(model.cluster_sizes_, plain.cluster_sizes_)
        assert 0 < out.sum() < len(out)
        note = f"{out.sum()} of 270 rows ({100 * out.mean():.0f} %) fit no cluster and have the label -1"
        assert any(note in each for each in model.summary().attrs["notes"])
        assert note in model._repr_html_()
    craftc.save_model(model, tmp_path / "m.craftc")
    again = craftc.load_model(tmp_path / "m.craftc")
    np.testing.assert_array_equal(again.labels_, model.labels_)
    np.testing.assert_array_equal(again.outlier_scores_, model.outlier_scores_)
    assert again.stability(heart, n=1, n_seeds=0).overlap.shape == (1, 2)
    for each in (again, copy.deepcopy(model)):
        np.testing.assert_array_equal(each.profile(heart).sizes, plain.profile(heart).sizes)
        assert (each.at(2, heart).labels_ == model.labels_).all()
        craftc.save_model(each.at(2, heart), tmp_path / "at.craftc")
        assert (craftc.load_model(tmp_path / "at.craftc").at(2, heart).labels_ == model.labels_).all()
        assert each.refit(heart, keep="clusters").labels_.min() == -1
        assert each.partial_fit(heart[:5]).labels_.min() == 0
        assert (
            "The labels of the fit mark no outliers: predict(X) does, by outlier_price=1.5." in each._notes()
        )
    with pytest.raises(ValueError, match=r"outlier_price=1\.5"):
        craftc.to_sql(model, "t")


def test_one_cluster_has_no_outliers_by_itself():
    X = np.random.default_rng(0).normal(size=(100, 3))
    model = CRAFT(1, outlier_price=0.0, random_state=0).fit(X)
    assert not model.labels_.any()
    assert abs(model.outlier_scores_).max() < 1e-5


@pytest.mark.parametrize("price", [-1.0, 0.5, 30.0])
def test_the_whole_table_as_one_cluster_has_no_outliers(price, tmp_path):
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"x": rng.normal(size=60), "y": rng.integers(0, 3, 60).astype(str)})
    model = CRAFT(outlier_price=price, n_init=1, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not model.fit(table).labels_.any()
    new = pd.DataFrame({"x": [50.0, np.nan], "y": ["1", None]})
    assert model.n_clusters_ == 1
    assert model.predict(new).tolist() == [0, 0]
    assert any(f"outlier_price={price:g} leaves out none" in note for note in model.summary().attrs["notes"])
    craftc.save_model(model, tmp_path / "m.craftc")
    for each in (craftc.load_model(tmp_path / "m.craftc"), model.at(1, table), model.refit(table)):
        assert not each.labels_.any()


def test_one_cluster_with_a_covariance_may_have_outliers():
    X = np.random.default_rng(0).normal(size=(200, 4)) @ np.random.default_rng(1).normal(size=(4, 4))
    model = CRAFT(1, covariance="full", outlier_price=1.0, random_state=0).fit(X)
    np.testing.assert_array_equal(model.labels_, np.where(model.outlier_scores_ > -1.0, -1, 0))
    assert 0 < np.count_nonzero(model.labels_ < 0) < 200


def test_a_warning_says_that_no_row_fits_a_cluster():
    heart = load_heart().data
    with pytest.warns(UserWarning, match=r"All 270 rows have the label -1: .* more than [\d.]+ nats"):
        model = CRAFT(outlier_price=80.0, n_init=1, random_state=0).fit(heart)
    assert (model.labels_ == -1).all()
    saved = (
        f"no row saves more than {-model.outlier_scores_.min():.3g} nats in a cluster, and outlier_price=80"
    )
    assert any(saved in note for note in model.summary().attrs["notes"])
    with pytest.warns(UserWarning, match="All 270 rows"):
        model.at(2, heart)


@pytest.mark.parametrize("price", [1e39, 1e300, -1e300, float(np.finfo(float).max)])
def test_prices_beyond_float32(price):
    X = np.random.default_rng(0).normal(size=(30, 2)) + 9.0 * (np.arange(30) % 2)[:, None]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "All 30 rows have the label -1", UserWarning)
        model = CRAFT(2, outlier_price=price, random_state=0).fit(X)
        assert (model.predict(X) == model.labels_).all()
    assert (model.labels_ == -1).all() == (price > 0)


def test_bad_outlier_prices():
    heart = load_heart().data
    with pytest.raises(TypeError, match="outlier_price must be"):
        CRAFT(outlier_price="3").fit(heart)
    with pytest.raises(ValueError, match="outlier_price must be"):
        CRAFT(outlier_price=np.nan).fit(heart)
    with pytest.raises(ValueError, match="needs outlier_price=None, got 2"):
        CRAFT(outlier_price=2).fit(Partitions([heart[:100], heart[100:]]))
