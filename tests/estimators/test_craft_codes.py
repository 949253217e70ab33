"""Whole numbers that clusters describe as codes, or by their order."""

from __future__ import annotations

import sqlite3

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

import craftc
from craftc import CRAFT, load_model, save_model
from craftc.datasets import load_heart

pd = pytest.importorskip("pandas", reason="columns are named by frames")

NAMES = [f"v{j}" for j in range(8)]


def nominal(seed, n=1000):
    """Three groups in eight columns of codes 1 to 8, and the groups."""
    rng = np.random.default_rng(seed)
    z = rng.choice(3, n, p=[0.5, 0.3, 0.2])
    shares = [rng.dirichlet(np.full(8, 0.7), 3).cumsum(axis=1)[z] for _ in NAMES]
    codes = [1 + (rng.random((n, 1)) > own).sum(axis=1).clip(0, 7) for own in shares]
    return pd.DataFrame(dict(zip(NAMES, codes, strict=True))), z


def scale(seed, n=600):
    """Three groups in eight items of 1 to 7, which differ in their means, and the groups."""
    rng = np.random.default_rng(seed)
    z = rng.integers(0, 3, n)
    items = np.rint(4.0 + 1.5 * (rng.normal(0.0, 1.2, (3, 8))[z] + rng.normal(size=(n, 8))))
    return pd.DataFrame(np.clip(items, 1, 7).astype(int), columns=NAMES), z


@pytest.mark.parametrize("seed", range(3))
def test_codes_are_found(seed):
    frame, z = nominal(seed)
    model = CRAFT(random_state=0).fit(frame)
    assert adjusted_rand_score(z, model.labels_) > 0.85
    as_categories = CRAFT(random_state=0, kinds=dict.fromkeys(NAMES, "category")).fit(frame)
    assert model.objective_ <= as_categories.objective_ + 50.0
    (note,) = (note for note in model.summary().attrs["notes"] if "codes" in note)
    assert note.startswith("Columns 'v0', 'v1'")
    assert note.endswith("kinds={'v0': 'number'} keeps the order.")
    kept = CRAFT(random_state=0, kinds=dict.fromkeys(NAMES, "number")).fit(frame)
    assert kept.objective_ > model.objective_ + 100.0
    assert not any("codes" in note for note in kept.summary().attrs["notes"])


@pytest.mark.parametrize("seed", range(3))
def test_scales_keep_their_order(seed):
    frame, z = scale(seed)
    model = CRAFT(random_state=0).fit(frame)
    assert model._fitted.encoding.codes == []
    assert adjusted_rand_score(z, model.labels_) > 0.75


def test_only_the_columns_that_are_codes():
    items, z = scale(0)
    rng = np.random.default_rng(1)
    shares = rng.dirichlet(np.full(8, 0.3), 3).cumsum(axis=1)[z]
    frame = items.assign(region=1 + (rng.random((len(z), 1)) > shares).sum(axis=1).clip(0, 7))
    model = CRAFT(random_state=0).fit(frame)
    assert model._fitted.encoding.codes == ["region"]


def test_a_value_that_means_something_else():
    """A quarter of the rows has 0, "does not apply", in every item; all other answers are independent."""
    rng = np.random.default_rng(0)
    X, none = rng.choice(5, (1500, 8), p=[0.4, 0.1, 0.0, 0.1, 0.4]) + 1, rng.random(1500) < 0.25
    X[none] = 0
    model = CRAFT(random_state=0).fit(X)
    assert model.n_clusters_ == 2
    np.testing.assert_array_equal(model.labels_ == model.labels_[none.argmax()], none)


def test_independent_whole_numbers_are_one_cluster():
    X = np.random.default_rng(0).integers(0, 8, (1000, 8))
    model = CRAFT(random_state=0).fit(X)
    assert model.n_clusters_ == 1
    assert model._fitted.encoding.codes == []


@pytest.mark.slow_except(1)
@pytest.mark.parametrize("n", [1000, 6000])
def test_threads_files_and_databases(tmp_path, n):
    frame, _ = nominal(0, n)
    model = CRAFT(random_state=0, n_threads=1).fit(frame)
    assert model._fitted.encoding.codes == NAMES
    assert CRAFT(random_state=0, n_threads=3).fit(frame).objective_ == model.objective_
    save_model(model, tmp_path / "m.craftc")
    again = load_model(tmp_path / "m.craftc")
    np.testing.assert_array_equal(again.predict(frame), model.predict(frame))
    assert again._notes() == model._notes()
    frame.to_parquet(tmp_path / "t.parquet")
    parts = CRAFT(random_state=0).fit(tmp_path / "t.parquet")
    assert parts.objective_ == model.objective_
    with sqlite3.connect(":memory:") as base:
        frame.assign(row=np.arange(n)).to_sql("t", base, index=False)
        found = pd.read_sql(craftc.to_sql(model, "t", dialect="sqlite", key="row"), base)
    assert adjusted_rand_score(found.sort_values("row")["cluster"], model.predict(frame)) == 1.0
    new = model.refit(frame[: n // 2])
    assert new._fitted.encoding.codes == NAMES


def test_tables_without_few_whole_numbers_are_searched_once():
    heart = load_heart().data
    model = CRAFT(random_state=0).fit(heart)
    assert model._fitted.encoding.codes == []


def test_descriptions_show_shares_of_codes():
    frame, _ = nominal(0)
    frame.loc[::20, "v1"] = np.nan
    model = CRAFT(random_state=0).fit(frame)
    assert not any(word in name for name in model.cluster_names_ for word in ("high", "low", "near"))
    summary = model.summary()
    assert not summary["in the cluster"].str.contains("±").any()
    lines = summary.set_index(["cluster", "feature"])["in the cluster"]
    first = frame.loc[model.labels_ == 0, "v1"].value_counts(normalize=True)
    assert lines[0, "v1"].startswith(f"{first.index[0]:.0f}: {100 * first.iloc[0]:.0f} %")
    counted = model.profile(frame).figures
    assert len(counted.loc[(counted["column"] == "v1") & (counted["level"] == "7")]) > 0
    figure = pytest.importorskip("craftc.plot", reason="needs matplotlib").distribution(model, "v1", X=frame)
    assert {label.get_text() for label in figure.get_xticklabels()} == set("12345678")
