"""Kinds of columns that the caller declares, or the types of a table: ordered and periodic columns."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.metrics import adjusted_rand_score

from craftc import CRAFT, MixedTable, load_model, save_model
from craftc.distributed import Partitions
from craftc.table.bins import tally
from craftc.table.declared import parse_kinds, period_of, plan_columns
from craftc.table.level_column import common_order
from craftc.table.levels import NumberLevels
from tests.reference import levels as reference

SCALE = ["never", "rarely", "sometimes", "often", "always"]


def answers(seed=0, n=300, columns=5, levels=5):
    """Answers on a scale from 0 of three groups of rows, and the groups."""
    rng = np.random.default_rng(seed)
    group = rng.integers(3, size=n)
    ends = np.linspace(-1.5, 1.5, levels - 1)
    shift = [rng.permutation([-1.2, 0.0, 1.2])[group] for _ in range(columns)]
    return np.stack([np.searchsorted(ends, rng.normal(each)) for each in shift], axis=1), group


def hours(seed=0, n=300, columns=5, concentration=2.0):
    """Hours of three groups of rows, and the groups."""
    rng = np.random.default_rng(seed)
    group = rng.integers(3, size=n)
    direction = [rng.permutation([0.0, 2.1, 4.2])[group] + rng.uniform(0, 2 * np.pi) for _ in range(columns)]
    angles = [np.mod(rng.vonmises(0.0, concentration, n) + each, 2 * np.pi) for each in direction]
    return np.stack([np.floor(each / (2 * np.pi) * 24) % 24 for each in angles], axis=1), group


def frame_of(cells, scale=SCALE):
    return pd.DataFrame({f"q{j}": np.array(scale, object)[column] for j, column in enumerate(cells.T)})


def fit(X, **parameters):
    return CRAFT(**{"n_init": 2, "random_state": 0, "n_threads": 1} | parameters).fit(X)


# ---------------------------------------------------------------- what `kinds` may be


@pytest.mark.parametrize(
    ("kinds", "error", "message"),
    [
        (["a"], TypeError, "kinds must be a mapping of columns to kinds, or None, got"),
        ("ordered", TypeError, "kinds must be a mapping"),
        (
            {1.5: "number"},
            TypeError,
            "kinds must name columns by str, or those of an array by position, got 1.5",
        ),
        ({True: "number"}, TypeError, "by position, got True"),
        (
            {"a": "nominal"},
            ValueError,
            "Every value of kinds must be 'number', .*, got 'nominal' for column 'a'",
        ),
        ({"a": 7}, TypeError, "got 7 for column 'a'"),
        ({"a": None}, TypeError, "got None for column 'a'"),
        (
            {"a": ("periodic", 0)},
            ValueError,
            "period that kinds gives column 'a' must be a finite number > 0, got 0",
        ),
        (
            {"a": ("periodic", "24")},
            ValueError,
            "period that kinds gives column 'a' must be a finite number > 0, got '24'",
        ),
        (
            {"a": ("periodic", 1e-320)},
            ValueError,
            "period that kinds gives column 'a' must be at least 1e-100, got 1e-320",
        ),
        ({"a": ("periodic", -24)}, ValueError, "> 0, got -24"),
        ({"a": ("periodic", np.inf)}, ValueError, "> 0, got inf"),
        ({"a": ("periodic", np.nan)}, ValueError, "> 0, got nan"),
        ({"a": ("periodic", None)}, ValueError, "> 0, got None"),
        ({"a": []}, ValueError, "order that kinds gives column 'a' is empty"),
        ({"b": ["x", "y", "x"]}, ValueError, "column 'b' has the level 'x' twice"),
        ({"a": [1, 2, 1.0]}, ValueError, "column 'a' has the level 1.0 twice"),
        ({"b": ["x", None]}, ValueError, "has None among its levels; levels are text or finite numbers"),
        ({"a": [1.0, np.nan]}, ValueError, "has nan among its levels"),
        (
            {"b": ["x"]},
            ValueError,
            "The order of column 'b' lacks 1 level.s. that occur: 'y'; list all levels",
        ),
        ({"a": [1, 2, 3]}, ValueError, "The order of column 'a' lacks 3 level.s. that occur: 0, 4, 5"),
        ({"z": "number"}, ValueError, "kinds names column 'z', but X has the columns 'a', 'b', 'c'"),
        ({0: "number"}, ValueError, "kinds names column 0, but X has the columns 'a'"),
        ({"b": "number"}, ValueError, "column 'b' is 'number', but it holds text or categories; convert it"),
        ({"b": "periodic"}, ValueError, "column 'b' is 'periodic', but it holds text"),
        ({"b": "date"}, ValueError, "column 'b' is 'date', but it holds text"),
        ({"b": "ordered"}, ValueError, "column 'b' is 'ordered', but its levels have no order of their own"),
        ({"c": "periodic"}, ValueError, "period of column 'c' is not known: its values lie between -1.5 and"),
        (dict.fromkeys("abc", "ignore"), ValueError, "kinds ignores all columns of X"),
    ],
)
@pytest.mark.parametrize("source", ["frame", "dict", "parts", "files"])
def test_errors_name_the_problem_and_change_nothing(kinds, error, message, source, tmp_path):
    columns = {"a": np.arange(60) % 6, "b": np.array(["x", "y"], object)[np.arange(60) % 2]}
    columns["c"] = np.where(np.arange(60) < 30, -1.5, 4.0)
    frame = pd.DataFrame(columns)
    model = fit(frame)
    before = dict(vars(model))
    model.kinds = kinds
    if source == "files":
        frame.to_parquet(tmp_path / "a.parquet")
    X = {
        "frame": frame,
        "dict": columns,
        "parts": Partitions([frame[:20], frame[20:]]),
        "files": str(tmp_path / "a.parquet"),
    }[source]
    with pytest.raises(error, match=message):
        model.fit(X)
    assert vars(model) == before | {"kinds": kinds}


@pytest.mark.parametrize(
    ("kinds", "categorical"),
    [
        ({"a": "number"}, ["a", "b"]),
        ({"a": "periodic"}, [True, True]),
        ({"b": ["x", "y"]}, [True, False]),
        ({"a": "ordered"}, [False, True]),
        ({"a": "ignore"}, ["a", "b"]),
    ],
)
def test_kinds_and_categorical_must_agree(kinds, categorical):
    frame = pd.DataFrame({"a": np.arange(40) % 4, "b": np.array(["x", "y"], object)[np.arange(40) % 2]})
    with pytest.raises(
        ValueError, match=r"kinds says that column '\w' is '\w+', but categorical (names|does not)"
    ):
        fit(frame, kinds=kinds, categorical=categorical)
    fit(frame, kinds={"a": "ordered", "b": ["y", "x"]}, categorical=["a", "b"])
    model = fit(frame, kinds={"b": ["y", "x"]}, categorical=["a"])
    assert (model.schema_.categorical_names, model.schema_.ordered) == (("a", "b"), (1,))


def test_an_array_has_columns_by_position():
    cells, _ = hours()
    same = [
        fit(cells, kinds=dict.fromkeys(names, "periodic"))
        for names in (range(5), [f"x{j}" for j in range(5)])
    ]
    assert same[0].objective_ == same[1].objective_
    for kinds, message in (
        ({5: "number"}, "kinds names column 5, but X has the columns 'x0'"),
        ({-1: "number"}, "kinds names column -1"),
        ({0: "number", "x0": "number"}, "kinds names column 'x0' twice"),
        ({"a": "number"}, "kinds names column 'a'"),
    ):
        with pytest.raises(ValueError, match=message):
            fit(cells, kinds=kinds)


def test_a_mixed_table_has_its_kinds():
    frame = frame_of(answers()[0])
    frame["hour"] = np.arange(300) % 24
    table = MixedTable.from_data(frame, kinds={"q0": SCALE, "q1": "category"})
    assert table.schema.ordered == (0,)
    assert table.levels[0] == tuple(SCALE)
    for kinds in ({"q0": SCALE}, {"q0": "ordered", "q1": "category", "hour": ("periodic", 24)}):
        fit(table, kinds=kinds)
    for kinds, message in (
        ({"q0": SCALE[::-1]}, "with the levels of 'q0' in the order"),
        ({"q0": "category"}, "with 'q0' as 'ordered', which differs"),
        ({"q1": "ordered"}, "with 'q1' as 'category'"),
        ({"hour": "ignore"}, "with 'hour' as 'number'"),
    ):
        with pytest.raises(ValueError, match=message):
            fit(table, kinds=kinds)


def test_parsed_kinds_and_plan():
    parsed = parse_kinds({"a": ("periodic", np.float32(24)), "b": np.array([3, 1]), "c": ["periodic", 7]})
    assert (parsed["a"].period, parsed["b"].order, parsed["c"].period) == (24.0, (3, 1), 7.0)
    assert parse_kinds({"a": ["periodic", "x"]})["a"].order == ("periodic", "x")
    plan = plan_columns(
        ["a", "b", "c", "d"], True, lambda: np.array([0, 1, 0, 1]), kinds={"a": "ordered", "c": "ignore"}
    )
    assert plan.names == ("a", "b", "d")
    assert plan.ignored == ("c",)
    assert plan.categorical.tolist() == [True, True, True]
    assert plan.by_type.tolist() == [False, True, True]


# ---------------------------------------------------------------- ordered columns


def test_every_way_to_declare_an_order_gives_the_same_bits(tmp_path):
    cells, _ = answers(1)
    text = frame_of(cells)
    text.iloc[::17, 1] = None
    ordered = text.astype(pd.CategoricalDtype(SCALE, ordered=True))
    ordered.to_parquet(tmp_path / "pandas.parquet", row_group_size=64)
    enum = pl.from_pandas(text).cast(pl.Enum(SCALE))
    enum.write_parquet(tmp_path / "polars.parquet", row_group_size=64)
    by_list = dict.fromkeys(text, SCALE)
    models = [
        fit(ordered),
        fit(enum),
        fit(pa.Table.from_pandas(ordered)),
        fit(text, kinds=by_list),
        fit({name: column.to_numpy() for name, column in text.items()}, kinds=by_list),
        fit(text.astype(pd.CategoricalDtype(SCALE)), kinds=dict.fromkeys(text, "ordered")),
        fit(str(tmp_path / "pandas.parquet")),
        fit(pq.ParquetFile(tmp_path / "pandas.parquet").read()),
        fit(Partitions([ordered[:100], ordered[100:]])),
        fit(Partitions([text[:100], text[100:]]), kinds=by_list),
    ]
    if pq.read_schema(tmp_path / "polars.parquet").field(0).type.ordered:  # older polars writes no order
        models.append(fit(str(tmp_path / "polars.parquet")))
    for model in models:
        assert model.objective_ == models[0].objective_
        np.testing.assert_array_equal(model.labels_, models[0].labels_)
        assert model.levels_ == [SCALE] * 5
        assert model.schema_.ordered == tuple(range(5))
    numbers = fit(cells.astype(float), kinds=dict.fromkeys(range(5), "ordered"))
    assert numbers.levels_ == [[0.0, 1.0, 2.0, 3.0, 4.0]] * 5
    np.testing.assert_array_equal(numbers.labels_, fit(frame_of(cells), kinds=by_list).labels_)
    as_categories = fit(text)
    assert as_categories.schema_.ordered == ()
    assert as_categories.objective_ != models[0].objective_


def test_names_of_levels_do_not_matter_but_their_order_does():
    cells, _ = answers(2)
    first = fit(frame_of(cells), kinds={f"q{j}": SCALE for j in range(5)})
    other = ["e", "a", "d", "b", "c"]
    renamed = fit(frame_of(cells, other), kinds={f"q{j}": other for j in range(5)})
    assert renamed.objective_ == first.objective_
    assert renamed.levels_ == [other] * 5
    backwards = fit(frame_of(cells), kinds={f"q{j}": SCALE[::-1] for j in range(5)})
    assert backwards.objective_ == pytest.approx(first.objective_, abs=1e-3)
    mixed = fit(frame_of(cells), kinds={f"q{j}": [*SCALE[1::2], *SCALE[::2]] for j in range(5)})
    assert mixed.objective_ != pytest.approx(first.objective_, abs=1.0)


def test_numbers_have_an_order_by_value():
    cells, _ = answers(3)
    frame = pd.DataFrame(cells.astype(np.int64), columns=list("abcde"))
    kinds = {"a": [0, 1, 2, 3, 4], "b": np.arange(5), "c": ["0", "1", "2", "3", "4"], "d": "ordered"}
    model = fit(frame, kinds=kinds | {"e": [9, 4, 3, 2, 1, 0]})
    assert model.levels_ == [[0, 1, 2, 3, 4]] * 2 + [list("01234"), [0, 1, 2, 3, 4], [9, 4, 3, 2, 1, 0]]
    np.testing.assert_array_equal(model.predict(frame), model.labels_)
    floats = frame.astype(dict.fromkeys("abde", float))
    np.testing.assert_array_equal(model.predict(floats), model.labels_)


def test_missing_cells_as_a_level_have_no_place_on_a_scale():
    frame = frame_of(answers(4)[0])
    frame.loc[::5, "q0"] = None
    model = fit(frame, kinds=dict.fromkeys(frame, SCALE), missing="category")
    assert model.levels_[0] == [*SCALE, "(missing)"]
    assert model.schema_.ordered == (1, 2, 3, 4)


def test_orders_of_parts():
    assert common_order("a", []) == []
    assert common_order("a", ["abc", "ac", "bc", [None, "c"]]) == ["a", "b", "c"]
    assert common_order("a", [["a", "b"], ["b", "c"]]) == ["a", "b", "c"]
    for orders in (["ab", "ba"], ["ab", "ac"]):
        with pytest.raises(ValueError, match=r"Parts of column 'a' declare the orders .* pass kinds="):
            common_order("a", orders)
    low, high = (pd.CategoricalDtype(levels, ordered=True) for levels in (SCALE, SCALE[::-1]))
    frame = frame_of(answers()[0])
    with pytest.raises(ValueError, match="Parts of column 'q0' declare the orders"):
        fit(Partitions([frame[:50].astype(low), frame[50:].astype(high)]))
    fit(Partitions([frame[:50].astype(low), frame[50:].astype(low)]))


# ---------------------------------------------------------------- periodic columns


@pytest.mark.parametrize(
    ("values", "period"),
    [
        (range(7), 7),
        (range(1, 8), 7),
        (range(1, 13), 12),
        (range(24), 24),
        ([0, 24], 31),
        (range(1, 32), 31),
        (range(1, 53), 52),
        (range(53), 53),
        ([0, 59], 60),
        ([1, 365], 365),
        ([1, 366], 366),
        ([-3, 3], 7),
        ([5], 7),
        ([0.5, 3.0], 2 * np.pi),
        ([0.0, np.float32(2 * np.pi)], 2 * np.pi),
        ([0.5, 7.0], 360.0),
        ([0.5, 360.0], 360.0),
        ([], 1.0),
    ],
)
def test_the_period_is_found(values, period):
    assert period_of("a", np.array(list(values), float)) == period


@pytest.mark.parametrize("values", [[1, 400], [-0.5, 1.0], [0.5, 361.0]])
def test_the_period_is_asked_for(values):
    with pytest.raises(ValueError, match=r"column 'a' is not known: .*kinds=\{'a': \('periodic', period\)\}"):
        period_of("a", np.array(values, float))


@pytest.mark.parametrize("seed", range(6))
def test_levels_of_a_period_are_those_of_the_reference(seed):
    rng = np.random.default_rng(seed)
    period = (24.0, 1.0, 360.0)[seed % 3]
    x = rng.vonmises(seed, 1.0, 400) / (2 * np.pi) * period
    x = np.round(x) if seed == 0 else x
    x[::9] = np.nan
    x[:3] = -1e-20, period, 0.0
    own, expected = NumberLevels.of_values(*tally(x, None), period), reference.of_numbers(x, period=period)
    np.testing.assert_allclose(own.values, expected.value, atol=1e-9)
    assert (own.values < period).all()
    new = np.concatenate([x, rng.uniform(-period, 2 * period, 2000), [0.0, np.nan, period]])
    np.testing.assert_array_equal(own.apply(new), reference.codes_of_numbers(expected, new))


def test_a_turned_period_has_the_same_clusters():
    cells, group = hours(5)
    kinds = dict.fromkeys(range(5), ("periodic", 24))
    first = fit(cells, kinds=kinds)
    assert first.n_clusters_ == 3
    assert adjusted_rand_score(group, first.labels_) > 0.8
    for turn in (1, 7, 12, -100):
        turned = fit(cells + turn, kinds=kinds)
        assert turned.objective_ == pytest.approx(first.objective_, rel=1e-8)
        np.testing.assert_array_equal(turned.labels_, first.labels_)
    found = fit(cells, kinds=dict.fromkeys(range(5), "periodic"))
    assert found.objective_ == first.objective_
    mirrored = fit(24 - cells, kinds=kinds)
    assert mirrored.objective_ == pytest.approx(first.objective_, rel=1e-8)


def test_new_rows_of_a_period(tmp_path):
    cells, _ = hours(6)
    cells[np.isin(cells, (3.0, 4.0))] = np.nan
    kinds = dict.fromkeys("abcde", ("periodic", 24))
    frame = pd.DataFrame(cells, columns=list("abcde"))
    model = fit(frame, kinds=kinds)
    np.testing.assert_array_equal(model.predict(frame + 24), model.labels_)
    np.testing.assert_array_equal(model.predict(frame - 240.2), model.labels_)
    unseen = frame.where(frame != 2.0, 3.0)
    assert np.isfinite(model.margins(unseen)).all()
    np.testing.assert_array_equal(model.predict(unseen), model.labels_)
    save_model(model, tmp_path / "m.craftc")
    again = load_model(tmp_path / "m.craftc")
    assert again.objective_ == model.objective_
    np.testing.assert_array_equal(again.predict(unseen), model.labels_)
    np.testing.assert_array_equal(again.transform(frame), model.transform(frame))


def test_refits_keep_the_periods():
    cells, _ = hours(6)
    frame = pd.DataFrame(cells, columns=list("abcde"))
    frame.attrs["kinds"] = dict.fromkeys("abcde", ("periodic", 30.0))
    noted, declared = fit(frame), fit(cells, kinds=dict.fromkeys(range(5), ("periodic", 30.0)))
    assert noted.objective_ == declared.objective_
    assert noted._fitted.encoding.periods == frame.attrs["kinds"]
    firm = [model.stability(X, 2, n_seeds=1) for model, X in ((noted, frame), (declared, cells))]
    np.testing.assert_array_equal(firm[0].overlap, firm[1].overlap)
    assert (firm[0].overlap > 0.6).all()
    own = fit(frame, kinds={"a": "number", "b": ("periodic", 24)})
    assert sorted(own._fitted.encoding.periods.items())[0] == ("b", ("periodic", 24.0))
    frame["a"] = "at " + frame["a"].astype(str)  # is no number any more
    assert list(fit(frame)._fitted.encoding.periods) == list("bcde")
    assert list(fit(frame, categorical=["a", "b"])._fitted.encoding.periods) == list("cde")


def test_partitions_and_files_have_the_bits_of_the_table(tmp_path):
    cells, _ = hours(7)
    frame = pd.DataFrame(cells, columns=list("abcde"))
    frame["day"] = pd.Timestamp("2026-01-01")
    kinds = dict.fromkeys("abcde", "periodic") | {"day": "ignore"}
    model = fit(frame, kinds=kinds)
    frame.to_parquet(tmp_path / "a.parquet")
    for X in (Partitions([frame[:90], frame[90:91], frame[91:]]), str(tmp_path / "a.parquet")):
        other = fit(X, kinds=kinds)
        assert other.objective_ == model.objective_
        np.testing.assert_array_equal(other.labels_, model.labels_)
        assert list(other.feature_names_in_) == list("abcde")


# ---------------------------------------------------------------- ignored columns


def test_ignored_columns_take_no_part(tmp_path):
    frame = pd.DataFrame(answers(8)[0].astype(float), columns=list("abcde"))
    alone = fit(frame.drop(columns=["b", "d"]))
    frame["when"] = pd.Timestamp("2026-01-01")
    kinds = {"b": "ignore", "d": "ignore", "when": "ignore"}
    for unusable in ("error", "drop"):
        model = fit(frame, kinds=kinds, unusable=unusable)
        assert model.objective_ == alone.objective_
        assert model.n_features_in_ == 3
        assert list(model.feature_names_in_) == ["a", "c", "e"]
        for X in (frame, frame.drop(columns="when"), frame[["e", "c", "a"]], pl.from_pandas(frame)):
            np.testing.assert_array_equal(model.predict(X), alone.labels_)
    frame.to_parquet(tmp_path / "a.parquet")
    np.testing.assert_array_equal(model.predict(str(tmp_path / "a.parquet")), alone.labels_)
    model = fit(frame, kinds=kinds)
    with pytest.raises(ValueError, match="Feature names unseen at fit time:\n- f"):
        model.predict(frame.assign(f=1.0))
    save_model(model, tmp_path / "m.craftc")
    np.testing.assert_array_equal(load_model(tmp_path / "m.craftc").predict(frame), alone.labels_)


def test_ignored_columns_of_an_array():
    cells = answers(9)[0].astype(float)
    alone = fit(cells[:, [0, 2, 3]])
    model = fit(cells, kinds={1: "ignore", "x4": "ignore"})
    assert model.objective_ == alone.objective_
    assert model.schema_.columns == ("x0", "x2", "x3")
    for X in (cells, cells[:, [0, 2, 3]], cells.tolist()):
        np.testing.assert_array_equal(model.predict(X), alone.labels_)
    with pytest.raises(ValueError, match="X has 4 features, but CRAFT is expecting 3 features"):
        model.predict(cells[:, :4])


# ---------------------------------------------------------------- clusters


@pytest.mark.parametrize(("made", "kind"), [(answers, "ordered"), (hours, "periodic")])
@pytest.mark.parametrize("seed", range(2))
def test_groups_are_found_and_noise_has_none(made, kind, seed):
    own = {"levels": 7} if made is answers else {}
    cells, group = made(seed, n=600, columns=6, **own)
    rng = np.random.default_rng(seed)
    noise = np.stack([rng.permutation(column) for column in cells.T[:4]], axis=1)
    X = np.hstack([cells, noise]).astype(float)
    model = fit(X, kinds=dict.fromkeys(range(10), kind), n_init=8)
    assert model.n_clusters_ == 3
    assert adjusted_rand_score(group, model.labels_) > 0.7
    assert not model.feature_mask_[:, 6:].any()
    permuted = np.stack([rng.permutation(column) for column in X.T], axis=1)
    assert fit(permuted, kinds=dict.fromkeys(range(10), kind)).n_clusters_ == 1


def test_arrays_and_lists_of_objects_as_a_frame():
    frame = pd.DataFrame({"x": [1.0, 2.5, 4.0], "code": ["10", "11", "10"], "yes": [True, False, True]})
    cells = frame.to_numpy(object)
    for same in (cells, cells.tolist()):
        table = MixedTable.from_data(same)
        assert (table.numeric_names, table.categorical_names) == (("x0",), ("x1", "x2"))
        assert table.schema.levels == (("10", "11"), (False, True))
