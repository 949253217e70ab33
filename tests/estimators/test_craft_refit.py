"""CRAFT on further tables: `refit` and `partial_fit`."""

from __future__ import annotations

import copy
from functools import cache
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from craftc import CRAFT, MixedTable, load_model, save_model
from craftc.datasets import load_heart
from tests.common import examples, random_table

PLACES = {"a": (0, 0), "b": (10, 0), "c": (0, 10), "d": (10, 10), "far": (25, 5), "within": (5, 5)}
LEVELS = {"a": "x", "b": "y", "c": "z", "d": "w", "far": "v", "within": "x"}
MONTH = {"a": 150, "b": 200, "c": 120, "d": 100}
FORMS = pytest.mark.parametrize("covariance", ["diagonal", "full"])


def month(sizes, moved=None, seed=0):
    """Rows in groups of these sizes, each around its place."""
    rng, parts = np.random.default_rng(seed), []
    for name, n in sizes.items():
        u, v = np.add(PLACES[name], (moved or {}).get(name, (0, 0)))
        level = np.where(rng.random(n) < 0.85, LEVELS[name], rng.choice(list("xyzw"), n))
        cells = {"u": rng.normal(u, 1, n), "v": rng.normal(v, 1, n), "g": level, "h": rng.normal(size=n)}
        parts.append(pd.DataFrame(cells).assign(group=name))
    return pd.concat(parts, ignore_index=True).sample(frac=1, random_state=seed, ignore_index=True)


@cache
def _fit(covariance):
    table = month(MONTH)
    return CRAFT(covariance=covariance, random_state=0, n_init=4).fit(table.drop(columns="group")), table


def fitted(covariance="diagonal"):
    model, table = _fit(covariance)
    return copy.deepcopy(model), table


def changes(model, table):
    return model.refit(table.drop(columns="group")).changes_


def assert_same_bits(a, b):
    """Two models agree in all that follows from their sums."""
    np.testing.assert_array_equal(a._fitted.sums.groups, b._fitted.sums.groups)
    np.testing.assert_array_equal(a._fitted.original.groups, b._fitted.original.groups)
    np.testing.assert_array_equal(a.feature_gains_, b.feature_gains_)
    np.testing.assert_array_equal(a.feature_mask_, b.feature_mask_)
    np.testing.assert_array_equal(a.centers_, b.centers_)
    np.testing.assert_array_equal(a.variances_, b.variances_)
    for one, other in zip(a.level_probabilities_, b.level_probabilities_, strict=True):
        np.testing.assert_array_equal(one, other)
    assert a.merge_path_.objectives() == b.merge_path_.objectives()
    assert (a.objective_, a.price_factor_) == (b.objective_, b.price_factor_)
    np.testing.assert_equal(a.dependence_ratio_, b.dependence_ratio_)
    for one, other in zip(a.covariances_, b.covariances_, strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            np.testing.assert_array_equal(one.matrix, other.matrix)


# ---- what became of the clusters ----


@FORMS
def test_the_table_of_the_fit_keeps_everything(covariance):
    model, table = fitted(covariance)
    before = copy.deepcopy(model)
    found = changes(model, table)
    assert {each.change for each in found.segments} == {"kept"}
    assert all(each.cluster == each.former and each.then == each.now for each in found.segments)
    np.testing.assert_array_equal(model.labels_, before.labels_)
    assert_same_bits(model, before)


@FORMS
def test_another_sample_of_the_groups_keeps_numbers_and_names(covariance):
    model, table = fitted(covariance)
    group_of = [table["group"][model.labels_ == k].mode()[0] for k in range(4)]
    model.rename_clusters({k: f"the {name}" for k, name in enumerate(group_of)})
    for seed in (1, 2):
        new = month({"a": 90, "b": 80, "c": 130, "d": 140}, seed=seed)  # other sizes, another order
        found = changes(model, new)
        assert [each.change for each in found.segments] == ["kept"] * 4
        assert [new["group"][model.labels_ == k].mode()[0] for k in range(4)] == group_of
        assert model.cluster_names_ == [f"the {name}" for name in group_of]
    assert [each.cluster for each in found.segments] == np.argsort(
        -fitted(covariance)[0].cluster_sizes_
    ).tolist()


@FORMS
@pytest.mark.parametrize("gone", ["a", "b", "d"])
def test_a_group_that_is_gone_died(covariance, gone):
    model, table = fitted(covariance)
    label = {name: int(np.bincount(model.labels_[table["group"] == name]).argmax()) for name in MONTH}
    found = changes(model, month({name: n for name, n in MONTH.items() if name != gone}, seed=3))
    (dead,) = found.of("died")
    assert (dead.former, dead.cluster, dead.now) == (label[gone], -1, 0.0)
    kept = found.of("kept")
    assert len(kept) == 3
    # a cluster whose label still exists keeps it
    assert all(each.cluster == each.former for each in kept if each.former < 3)
    assert sorted(each.cluster for each in kept) == [0, 1, 2]


@FORMS
@pytest.mark.parametrize("new", ["far", "within"])
def test_a_new_group_was_born(covariance, new):
    model, _ = fitted(covariance)
    found = changes(model, month(MONTH | {new: 120}, seed=4))
    assert [each.change for each in found.segments] == ["kept"] * 4 + ["born"]
    assert all(each.cluster == each.former for each in found.of("kept"))
    assert (found.of("born")[0].cluster, found.of("born")[0].former) == (4, -1)


def test_a_new_group_in_the_place_of_one_that_is_gone():
    model, table = fitted()
    label = int(np.bincount(model.labels_[table["group"] == "d"]).argmax())
    model.rename_clusters({label: "theirs"})
    found = changes(model, month({"a": 150, "b": 200, "c": 120, "far": 120}, seed=5))
    assert [each.former for each in found.of("died")] == [label]
    assert len(found.of("born")) == 1
    assert "theirs" not in model.cluster_names_


def test_two_groups_in_one_place_merged():
    model, table = fitted()
    label = {name: int(np.bincount(model.labels_[table["group"] == name]).argmax()) for name in MONTH}
    found = changes(model, month(MONTH, {"a": (5, 0), "b": (-5, 0)}, seed=6))
    assert sorted(each.former for each in found.of("merged")) == sorted([label["a"], label["b"]])
    (gone,) = [each for each in found.of("merged") if each.cluster < 0]
    (left,) = [each for each in found.of("merged") if each.cluster >= 0]
    assert gone.other == left.cluster
    assert len(found.of("kept")) == 2
    assert "merged with" in repr(found)


@FORMS
def test_more_clusters_split_and_fewer_merge(covariance):
    model, table = fitted(covariance)
    table = table.drop(columns="group")
    two = copy.deepcopy(model).set_params(n_clusters=2)
    two.refit(table)
    assert two.n_clusters_ == 2
    assert two.changes_.of("merged")
    split = two.set_params(n_clusters=4).refit(table).changes_
    assert [each.change for each in split.segments].count("split") >= 2
    parts = [each for each in split.of("split") if each.former < 0]
    assert parts
    assert all(0 <= each.other < 2 for each in parts)


def test_groups_that_drift_are_kept():
    model, _ = fitted()
    found = changes(model, month(MONTH, {"a": (1, 0), "b": (-1.5, 0.5)}, seed=7))
    assert [each.change for each in found.segments] == ["kept"] * 4


def test_shares_and_the_frame():
    model, _ = fitted()
    found = changes(model, month(MONTH | {"far": 120}, seed=4))
    frame = found.clusters()
    assert frame.columns.tolist() == ["change", "cluster", "name", "former", "other", "then", "now"]
    assert frame["then"].sum() == pytest.approx(1.0)
    assert frame["now"].sum() == pytest.approx(1.0)
    np.testing.assert_allclose(
        frame.sort_values("cluster")["now"], model.cluster_sizes_ / model.cluster_sizes_.sum()
    )
    assert repr(found).startswith("Changes(690 rows; 4 kept, 1 born\n  ")


# ---- reading ----


def test_levels_keep_their_order_and_new_ones_follow():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"g": rng.choice(["m", "b"], 200), "x": rng.normal(size=200)})
    model = CRAFT(random_state=0).fit(table)
    new = table.assign(g=np.where(rng.random(200) < 0.2, "a", table["g"]))
    model.refit(new)
    assert model.levels_ == [["b", "m", "a"]]
    assert model.changes_.notes == ["'g' has new levels: 'a'."]
    model.refit(new[new["g"] != "b"])
    assert model.levels_ == [["b", "m", "a"]]


def test_a_new_level_of_an_order_has_no_place():
    rng = np.random.default_rng(1)
    table = pd.DataFrame({"size": rng.choice(["s", "m", "l"], 200), "x": rng.normal(size=200)})
    model = CRAFT(kinds={"size": ["s", "m", "l"]}, random_state=0).fit(table)
    with pytest.raises(
        ValueError, match=r"'size' is ordered, and 1 new level\(s\) .* 'xl'; fit again with kinds"
    ):
        model.refit(table.replace({"size": {"m": "xl"}}))
    numbers = table.assign(size=rng.choice([1, 5, 9], 200))
    model = CRAFT(kinds={"size": "ordered"}, random_state=0).fit(numbers)
    assert model.refit(numbers.replace({"size": {9: 3}})).levels_ == [[1, 3, 5, 9]]


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        (1e-19, "counted in steps of .*; pass sample_weight"),
        (1e-3, "; pass sample_weight"),
        (0.3, "exact sums of column 'x.' overflow; fit with whole weights"),
    ],
)
@pytest.mark.filterwarnings("ignore:2 clusters are more than the columns tell apart")
@pytest.mark.filterwarnings("ignore:sample_weight counts")
def test_rows_much_heavier_than_those_of_the_fit_are_refused(weight, message):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3)) + 9.0 * (np.arange(40) % 2)[:, None]
    weights = weight * rng.random(40)
    model = CRAFT(2, n_init=1, random_state=0).fit(X, sample_weight=weights)
    before = model.cluster_sizes_
    for further in (model.partial_fit, lambda X: CRAFT(n_init=1, random_state=0).fit(X, fixed=model)):
        with pytest.raises(ValueError, match=message):
            further(X)
    assert model.cluster_sizes_ is before
    model.partial_fit(X, sample_weight=weights)
    assert model.cluster_sizes_.sum() == pytest.approx(2.0 * before.sum(), rel=1e-9)


@pytest.mark.parametrize("method", ["refit", "partial_fit"])
def test_a_table_without_some_columns_is_refused(method):
    model, table = fitted()
    table, before = table.drop(columns="group"), copy.deepcopy(model)
    for bad in (table.drop(columns=["u", "g"]), MixedTable.from_data(table.drop(columns=["u", "g"]))):
        with pytest.raises(ValueError, match=r"(?s)\bg\b.*\bu\b|\bu\b.*\bg\b"):
            getattr(model, method)(bad)
    with pytest.raises((ValueError, TypeError), match="u"):
        getattr(model, method)(table.assign(u="text"))
    assert vars(model).keys() == vars(before).keys()
    assert_same_bits(model, before)


def test_columns_in_another_order_and_in_files(tmp_path):
    model, _ = fitted()
    new = month(MONTH, seed=8).drop(columns="group")
    paths = [tmp_path / "one.parquet", tmp_path / "two.parquet"]
    for path, part in zip(paths, (new[:250], new[250:]), strict=True):
        part.to_parquet(path)
    new.to_csv(tmp_path / "new.csv", index=False)
    for method, options in (("refit", {}), ("refit", {"keep": "clusters"}), ("partial_fit", {})):
        expected = getattr(copy.deepcopy(model), method)(new, **options)
        for X in (new[["h", "g", "v", "u"]], list(map(str, paths)), str(tmp_path / "new.csv")):
            found = getattr(copy.deepcopy(model), method)(X, **options)
            assert_same_bits(found, expected)
            np.testing.assert_array_equal(found.labels_, expected.labels_)
            assert found.feature_names_in_.tolist() == ["u", "v", "g", "h"]


def test_a_dask_collection_is_refused():
    dd = pytest.importorskip("dask.dataframe")
    model, table = fitted()
    for method in ("refit", "partial_fit"):
        with pytest.raises(ValueError, match="not Partitions or Dask collections"):
            getattr(model, method)(dd.from_pandas(table.drop(columns="group"), npartitions=2))


# ---- fixed clusters ----


@examples(12)
@given(
    cuts=st.lists(st.integers(0, 270), max_size=3),
    threads=st.sampled_from([1, 2, 7]),
    covariance=st.sampled_from(["diagonal", "full"]),
    missing=st.booleans(),
)
def test_parts_of_further_rows_give_the_same_bits(cuts, threads, covariance, missing):
    model, further = _heart(covariance, missing)
    every = copy.deepcopy(model).partial_fit(further)
    parts = copy.deepcopy(model).set_params(n_threads=threads)
    ends = sorted({0, *(cut for cut in cuts if cut < len(further)), len(further)})
    for start, stop in pairwise(ends):
        parts.partial_fit(further[start:stop])
    assert_same_bits(parts, every)
    np.testing.assert_array_equal(parts.labels_, every.labels_)


@cache
def _heart(covariance, missing):
    """A model of some rows, and further rows."""
    heart = load_heart().data
    model, rest = CRAFT(covariance=covariance, random_state=0, n_init=2).fit(heart[:150]), heart[150:]
    if missing:  # in columns of no covariance
        complete = {d for each in model.covariances_ if each is not None for d in each.columns.tolist()}
        absent = np.random.default_rng(0).random(rest.shape) < 0.1
        absent[:, sorted(complete)] = False
        rest = rest.mask(absent)
    return model, rest


@examples(10)
@given(
    seed=st.integers(0, 10**6),
    missing=st.sampled_from([0.0, 0.2]),
    dtype=st.sampled_from([np.float64, np.float32]),
    cut=st.integers(1, 79),
    covariance=st.sampled_from(["auto", "diagonal", "full", "tied"]),
)
@pytest.mark.filterwarnings("ignore")
def test_any_tables(seed, missing, dtype, cut, covariance):
    rows = random_table(seed, n=200, missing=missing, dtype=dtype)
    table, further = rows.take(slice(0, 120)), rows.take(slice(120, None))
    model = CRAFT(covariance=covariance, random_state=0, n_init=2).fit(table)
    parts = copy.deepcopy(model).partial_fit(further.take(slice(0, cut)))
    parts.partial_fit(further.take(slice(cut, None)))
    assert_same_bits(parts, copy.deepcopy(model).partial_fit(further))
    model.refit(further)
    for shares in zip(*((each.then, each.now) for each in model.changes_.segments), strict=True):
        assert sum(shares) == pytest.approx(1.0)
    assert sorted(each.cluster for each in model.changes_.segments if each.cluster >= 0) == list(
        range(model.n_clusters_)
    )
    assert model.refit(further).changes_.counts == f"{model.n_clusters_} kept"


@FORMS
def test_added_rows_are_those_of_one_pass(covariance):
    model, table = fitted(covariance)
    new = month(MONTH, seed=9)
    both = pd.concat([table, new], ignore_index=True).drop(columns="group")
    added = copy.deepcopy(model).partial_fit(new.drop(columns="group"))
    one = copy.deepcopy(model).refit(both, keep="clusters")
    np.testing.assert_array_equal(model.labels_, model.predict(table.drop(columns="group")))
    assert_same_bits(added, one)
    np.testing.assert_array_equal(added.labels_, one.labels_)
    assert added.cluster_sizes_.sum() == len(both)
    # sums of all rows, on the grid of the fit
    for k in range(4):
        own = both[added.labels_ == k]
        np.testing.assert_allclose(added.centers_[k], own[["u", "v", "h"]].mean(), rtol=1e-9, atol=1e-9)
    assert {each.change for each in one.changes_.segments} == {"kept"}


def test_repeated_rows_are_weights_and_their_order_does_not_matter():
    model, _ = fitted("full")
    new = month(MONTH, seed=10).drop(columns="group")
    weight = np.random.default_rng(0).integers(0, 3, len(new))
    repeated = new.loc[np.repeat(np.arange(len(new)), weight)]
    expected = copy.deepcopy(model).partial_fit(repeated)
    assert_same_bits(copy.deepcopy(model).partial_fit(new, sample_weight=weight), expected)
    assert_same_bits(copy.deepcopy(model).partial_fit(repeated[::-1]), expected)
    kept = copy.deepcopy(model).refit(repeated, keep="clusters")
    assert_same_bits(copy.deepcopy(model).refit(new, None, weight, keep="clusters"), kept)
    np.testing.assert_allclose(kept.soft_sizes_.sum(), weight.sum())
    again = copy.deepcopy(model).refit(new, sample_weight=weight)
    assert again.cluster_sizes_.sum() == weight.sum()
    with pytest.raises(ValueError, match="whole numbers"):
        model.partial_fit(new, sample_weight=np.full(len(new), 0.5))


def test_weights_that_are_not_whole():
    table = month(MONTH).drop(columns="group")
    model = CRAFT(random_state=0, n_init=2).fit(table, sample_weight=np.full(len(table), 0.7))
    model.partial_fit(table).partial_fit(table, sample_weight=np.full(len(table), 0.3))
    assert model.cluster_sizes_.sum() == pytest.approx(2.0 * len(table), rel=1e-9)


@FORMS
@pytest.mark.filterwarnings("ignore:Column 'h'. cells of 10000 lie outside")
def test_new_levels_values_outside_the_range_and_missing_cells(covariance):
    model, table = fitted(covariance)
    new = month(MONTH, seed=11).drop(columns="group")
    new.loc[:20, "g"] = "new"
    new.loc[10:30, "h"] = 1e4
    new.loc[25:40, "v"] = np.nan
    added, parts = copy.deepcopy(model).partial_fit(new), copy.deepcopy(model)
    for start in range(0, len(new), 100):
        parts.partial_fit(new[start : start + 100])
    assert_same_bits(parts, added)
    both = pd.concat([table["h"], new["h"]]).to_numpy()
    for k in range(4):
        assert added.centers_[k, 2] == pytest.approx(both[added.labels_ == k].mean(), rel=1e-9)
    assert added.predict(new).max() < 4
    with pytest.raises(ValueError, match="'g' contains 1 level"):
        copy.deepcopy(model).set_params(unknown="error").partial_fit(new)


def test_a_number_whose_square_overflows_is_refused():
    model, table = fitted()
    before = copy.deepcopy(model)
    for value in (1e30, -1e200, 1e12):
        new = table.drop(columns="group").assign(u=value)
        with pytest.raises(ValueError, match=r"Column 'u' contains .* so far beyond"):
            model.partial_fit(new)
    assert_same_bits(model, before)


def test_rows_that_are_too_few_for_the_former_clusters():
    model, table = fitted()
    table = table.drop(columns="group")
    few = copy.deepcopy(model).refit(table[:3])
    assert few.n_clusters_ < model.n_clusters_
    assert "3 rows may be too few to find 4 clusters again; keep='clusters'" in few.changes_.notes[-1]
    assert not any("too few" in note for note in copy.deepcopy(model).refit(table[::2]).changes_.notes)


def test_a_cluster_without_rows_cannot_be_updated():
    model, table = fitted()
    few = table[model.labels_ != 2].drop(columns="group")
    with pytest.raises(ValueError, match=r"X has no row of 1 of the 4 clusters: 2 \("):
        model.refit(few, keep="clusters")
    assert len(model.labels_) == len(table)


def test_the_first_part_is_a_fit_and_a_new_fit_forgets_the_former_clusters():
    table = month(MONTH).drop(columns="group")
    model = CRAFT(random_state=0).partial_fit(table)
    assert_same_bits(model, CRAFT(random_state=0).fit(table))
    model.partial_fit(table[:50]).fit(table)
    assert_same_bits(model, CRAFT(random_state=0).fit(table))
    assert model._fixed is None
    at = model.refit(table, keep="clusters").at(2)
    assert not hasattr(at, "changes_")
    assert len(at.partial_fit(table[:10]).labels_) == len(table) + 10


@FORMS
def test_model_files_keep_what_further_rows_need(covariance, tmp_path):
    model, table = fitted(covariance)
    new = month(MONTH, seed=12).drop(columns="group")
    model.partial_fit(new[:200])
    model.rename_clusters({1: "mine"})
    save_model(model, tmp_path / "m.craftc")
    loaded = load_model(tmp_path / "m.craftc")
    assert_same_bits(loaded, model)
    assert_same_bits(loaded.partial_fit(new[200:]), model.partial_fit(new[200:]))
    model.refit(month({"a": 90, "b": 80, "c": 130, "far": 140}, seed=13).drop(columns="group"))
    save_model(model, tmp_path / "m.craftc")
    loaded = load_model(tmp_path / "m.craftc")
    assert loaded.changes_ == model.changes_
    np.testing.assert_array_equal(loaded._fitted.by_number, model._fitted.by_number)
    assert_same_bits(loaded.refit(table.drop(columns="group")), model.refit(table.drop(columns="group")))
    assert loaded.changes_ == model.changes_


def test_numbers_in_reports_follow():
    model, _ = fitted()
    order = model._fitted.by_number
    model.refit(month({"a": 90, "b": 80, "c": 130, "d": 140}, seed=1).drop(columns="group"))
    np.testing.assert_array_equal(model._fitted.by_number, order)
    assert model.summary()["cluster"].unique().tolist() == order.tolist()
    model.partial_fit(month({"c": 900}, seed=2).drop(columns="group"))
    np.testing.assert_array_equal(model._fitted.by_number, order)
    at = model.at(3)
    np.testing.assert_array_equal(at._fitted.by_number, np.argsort(-at.cluster_sizes_, kind="stable"))


@pytest.mark.parametrize("n_threads", [1, 2])
def test_a_refit_does_not_depend_on_threads(n_threads):
    model, _ = fitted()
    new = month(MONTH | {"far": 120}, seed=4).drop(columns="group")
    one = copy.deepcopy(model).set_params(n_threads=1).refit(new)
    assert_same_bits(model.set_params(n_threads=n_threads).refit(new), one)
    assert model.changes_ == one.changes_


def test_keep_is_checked():
    model, table = fitted()
    with pytest.raises(ValueError, match="keep must be one of 'numbers', 'clusters', got 'labels'"):
        model.refit(table.drop(columns="group"), keep="labels")
