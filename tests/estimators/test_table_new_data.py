"""New data under the schema of a fitted table: columns by name, unknown levels, other types."""

import json

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from craftc import CRAFT
from craftc.table import Schema
from tests.estimators.table_cases import CONTENT, assert_blocks, from_data, pandas_frame


@pytest.mark.parametrize("missing", ["ignore", "category"])
def test_schema_through_json(missing):
    frame = pandas_frame(i=[np.int64(3), 1, 3, 1, 3], f=[0.5, 0.5, 1.5, 0.5, 1.5], flag=[True] * 5)
    table = from_data(frame, categorical=["city", "member", "i", "f", "flag"], missing=missing)
    again = Schema.from_dict(json.loads(json.dumps(table.schema.to_dict())))
    assert again == table.schema
    assert again.levels == table.levels
    kinds = [[type(v) for v in levels] for levels in again.levels]
    assert kinds == [[type(v) for v in levels] for levels in table.levels]
    assert kinds[2:] == [[int, int], [float, float], [bool]]
    assert again.dtype == table.schema.dtype
    new = again.encode(frame)
    np.testing.assert_array_equal(new.codes, table.codes)
    np.testing.assert_array_equal(new.numeric, table.numeric)


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
def test_columns_are_matched_by_name(make):
    table = from_data(pandas_frame())
    mixed_up = make({name: CONTENT[name] for name in ("visits", "member", "age", "city")})
    again = table.schema.encode(mixed_up)
    assert_blocks(again)
    np.testing.assert_array_equal(again.codes, table.codes)
    np.testing.assert_array_equal(again.numeric, table.numeric)
    assert again.schema is table.schema


def test_missing_and_extra_columns():
    schema = from_data(pandas_frame()).schema
    start = r"The feature names should match those that were passed during fit\.\n"
    with pytest.raises(ValueError, match=start + r"Feature names unseen at fit time:\n- new\nPass X\["):
        schema.encode(pandas_frame(new=1))
    absent = r"Feature names seen at fit time, yet now missing:\n- age\n- city\n$"
    with pytest.raises(ValueError, match=start + absent):
        schema.encode(pandas_frame().drop(columns=["city", "age"]))
    both = r"Feature names unseen at fit time:\n- a\n- b\n- c\n- d\n- e\n- \.\.\.\n" + absent
    with pytest.raises(ValueError, match=start + both):
        schema.encode(pandas_frame(**dict.fromkeys("abcdef", 0)).drop(columns=["city", "age"]))


@pytest.mark.parametrize(
    ("words", "others", "are_read"),
    [
        (("yes", "no"), [], True),
        (("T", "F"), [None], True),
        (("Ja", "Nein"), ["weiß nicht"], True),
        (("WAHR", "FALSCH"), [], True),
        (("1", "0"), [], True),
        (("x", "no"), [], True),
        (("yes", "no"), ["Yes"], False),  # which of both is meant is not said
        (("yes", "no"), ["x"], False),
        (("some", "None"), [], False),
    ],
)
def test_truth_values_are_the_words_that_mean_them(words, others, are_read):
    table = from_data(pd.DataFrame({"a": [*words, *words, *others]}))
    new = pd.DataFrame({"a": [True, False]})
    if are_read:
        codes = table.schema.encode(new, unknown="error").codes
        assert [table.levels[0][code] for code in codes[:, 0]] == list(words)
        assert table.schema.encode(pl.from_pandas(new)).codes.tolist() == codes.tolist()
    else:
        with pytest.warns(UserWarning, match="no value of these rows occurred in fit"):
            table.schema.encode(new)


@pytest.mark.filterwarnings("ignore:X (has|does not have)")
def test_names_on_one_side_only():
    frame = pd.DataFrame({"a": [1.0, 2.0], "c": [7, 8]})
    named = from_data(frame, categorical=["c"])
    plain = from_data(frame.to_numpy(), categorical=[1])
    for schema in (named.schema, plain.schema):
        for X in (frame, frame.to_numpy(), frame.to_numpy().tolist()):
            table = schema.encode(X)
            np.testing.assert_array_equal(table.codes, named.codes)
            np.testing.assert_array_equal(table.numeric, named.numeric)
    for schema, X in ((named.schema, np.ones((1, 3))), (plain.schema, pd.DataFrame({"a": [1]}))):
        n = X.shape[1]
        with pytest.raises(ValueError, match=rf"X has {n} features, but this model is expecting 2 f"):
            schema.encode(X)
    with pytest.raises(ValueError, match=r"X has 3 features, but CRAFT is expecting 2 features as"):
        plain.schema.encode(np.ones((1, 3)), estimator_name="CRAFT")


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
def test_unknown_levels(make):
    schema = from_data(make({"c": ["b", "a", "b"]})).schema
    new = make({"c": ["b", "?7", "?1", None, "?2", "?3", "?4", "?5"]})
    assert schema.encode(new).codes.ravel().tolist() == [1, 2, 2, 2, 2, 2, 2, 2]
    with pytest.raises(
        ValueError, match=r"Column 'c' contains 6 level\(s\) that did not .*('\?\d', ){5}\.\.\.;"
    ):
        schema.encode(new, unknown="error")
    assert schema.encode(make({"c": ["a", None]}), unknown="error").codes.ravel().tolist() == [0, 2]


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
@pytest.mark.parametrize("missing", ["ignore", "category"])
def test_a_column_without_a_level_of_the_fit_is_a_warning(make, missing):
    schema = from_data(make({"c": ["b", "a", "b"]}), missing=missing).schema
    foreign = "Column 'c': no value of these rows occurred in fit"
    with pytest.warns(UserWarning, match=foreign):
        schema.encode(make({"c": ["B", "A", None, "B"]}))
    model = CRAFT(1).fit(make({"c": ["b", "a"] * 9, "d": [1, 2, 3] * 6}))
    with pytest.warns(UserWarning, match=foreign):
        model.predict(make({"c": ["B"] * 3, "d": [1, 2, 3]}))
    for known in (["B", "a"], ["B"], [None, None], [None, "B"]):  # one cell may be a new level
        schema.encode(make({"c": pd.Series(known, dtype="str") if make is pd.DataFrame else known}))


def test_unused_categories_are_not_unknown():
    schema = from_data(pd.DataFrame({"c": pd.Categorical(["a", "b"])})).schema
    new = pd.DataFrame({"c": pd.Categorical(["b"], categories=["x", "b"])})
    assert schema.encode(new, unknown="error").codes.ravel().tolist() == [1]


@pytest.mark.parametrize(
    ("seen", "new"),
    [
        ([1, 2, 1], [1.0, 2.0, np.nan]),
        ([1.0, 2.0, 1.0], [1, 2, 3]),
        ([False, True, False], [0, 1, 7]),
        ([0, 1, 0], [False, True, None]),
        (["1", "2", "1"], [1, 2, 3]),
        ([1, 2, 1], ["1", "2", "3"]),
        (["1", "2", "1"], [1.0, 2.0, np.nan]),
        (["1.0", "2.0", "1.0"], [1, 2, 3]),
        ([1.0, 2.0, 1.0], ["1", "2", "3"]),
        ([1.0, 2.0, 1.0], ["1.0", "2.0", "2.00"]),
        ([1, 2, 1], ["1.0", "2.0", None]),
        (["False", "True", "True"], [False, True, None]),
        ([False, True, True], ["False", "True", "true"]),
        ([0.5, 1.5, 0.5], ["0.5", "1.5", "1.50"]),
    ],
)
@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
def test_levels_of_another_type(make, seen, new):
    schema = from_data(make({"c": seen}), categorical=["c"]).schema
    assert schema.encode(make({"c": new})).codes.ravel().tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("seen", "new", "codes"),
    [
        (["1", "1.0", "1"], [1.0, np.nan], [1, 2]),
        (["1", "1.0", "1"], [1], [0]),
        (["1", "2", "1"], ["1.0", "2"], [2, 1]),  # texts are other levels, such as versions
        (["01", "02", "01"], [1.0, 2.0], [2, 2]),
        ([str(2**60), "1", "1"], [2.0**60, 1.0], [2, 0]),
    ],
)
@pytest.mark.filterwarnings("ignore:Column 'c'. no value of these rows")
def test_levels_of_another_type_that_are_others(seen, new, codes):
    schema = from_data(pd.DataFrame({"c": seen}), categorical=["c"]).schema
    assert schema.encode(pd.DataFrame({"c": new})).codes.ravel().tolist() == codes


@pytest.mark.filterwarnings("ignore:X (has|does not have)")
def test_a_numeric_column_that_is_none_later():
    schema = from_data(pd.DataFrame({"x": [1.0, 2.0]})).schema
    with pytest.raises(TypeError, match=r"Column 'x' contains String values where numbers are expected"):
        schema.encode(pd.DataFrame({"x": ["1", "2"]}))
    with pytest.raises(TypeError, match=r"Column 'x' contains Boolean values"):
        schema.encode(pd.DataFrame({"x": [True, False]}))
    with pytest.raises(TypeError, match=r"Column 'x0' .* argument must be a string or a number"):
        schema.encode(np.array([["a"]], dtype=object))


@pytest.mark.filterwarnings("ignore:X (has|does not have)")
def test_text_array_for_a_fitted_schema():
    schema = from_data(pd.DataFrame({"x": [1.0, 2.0], "c": ["a", "b"]})).schema
    table = schema.encode(np.array([["0.5", "b"], ["1", "z"]]))
    np.testing.assert_array_equal(table.numeric, [[0.5], [1]])
    assert table.codes.ravel().tolist() == [1, 2]


def test_empty_new_data():
    schema = from_data(pandas_frame()).schema
    with pytest.raises(ValueError, match=r"0 sample\(s\)"):
        schema.encode(pandas_frame().iloc[:0])


def test_parts_of_dates_are_made():
    """A short table, whose dates do not span enough weeks, has the parts of the model all the same, and a
    long one no others.
    """
    from craftc import CRAFT, read_table

    rng = np.random.default_rng(0)
    days = pd.Timestamp("2020-01-06") + pd.to_timedelta(rng.permutation(300), unit="D")
    noon = np.where(days.day_of_week < 5, 9, 20) + rng.integers(0, 2, 300)
    cells = (days + pd.to_timedelta(noon, unit="h")).strftime("%Y-%m-%d %H:%M")
    frame = pd.DataFrame({"when": cells, "x": rng.normal(3.0 * (days.day_of_week < 5), 1.0)})
    table = read_table(frame, dates="parts")
    assert list(table) == ["when", "when hour", "when weekday", "x"]
    model = CRAFT(random_state=0).fit(table)
    week = np.argsort(days)[:7]
    short = read_table(frame.iloc[week].reset_index(drop=True), dates="parts")
    assert list(short) == ["when", "x"]
    np.testing.assert_array_equal(model.predict(short), model.predict(table.iloc[week]))
    np.testing.assert_array_equal(model.score_samples(short), model.score_samples(table.iloc[week]))
    other = table.assign(**{"when season": 1.0})
    np.testing.assert_array_equal(model.predict(other), model.labels_)
    dask = pytest.importorskip("dask.dataframe")
    collection = dask.from_pandas(table[["when", "x"]], npartitions=3)
    np.testing.assert_array_equal(model.predict(collection).compute(), model.labels_)
    with pytest.raises(ValueError, match="when hour"):
        model.predict(table[["x"]])
    with pytest.raises(ValueError, match="x season"):
        model.predict(table.assign(**{"x season": 1.0}))
