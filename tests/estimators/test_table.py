"""The mixed table: frames of every library, levels and their order, missing cells, tables as input."""

import decimal
import json

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from craftc.table import Schema
from tests.common import examples
from tests.estimators.table_cases import (
    CODES,
    CONTENT,
    assert_blocks,
    decode,
    frames,
    from_data,
    pandas_frame,
)

# ---------------------------------------------------------------- frames


@pytest.mark.parametrize("frame", frames(CONTENT), ids=["pandas", "polars", "pyarrow"])
def test_the_same_content_gives_the_same_table(frame):
    table = from_data(frame)
    assert_blocks(table)
    np.testing.assert_array_equal(
        table.numeric, [[31.5, 3], [np.nan, 1], [54, 4], [20, 1], [44, 2]], strict=True
    )
    np.testing.assert_array_equal(table.codes, CODES)
    assert table.codes.dtype == np.uint8
    assert table.levels == (("", "Basel", "Bern"), (False, True))
    assert table.numeric_names == ("age", "visits")
    assert table.categorical_names == ("city", "member")
    assert table.schema.columns == ("age", "city", "member", "visits")
    assert table.schema.named
    assert table.n_levels.tolist() == [3, 2]
    assert table.schema == from_data(pandas_frame()).schema


def test_table_attributes():
    table = from_data(pandas_frame())
    assert len(table) == table.n_rows == 5
    assert table.shape == (5, 4)
    assert table.nbytes == 5 * 2 * 8 + 5 * 2
    assert repr(table) == ("MixedTable(5 rows, 2 numeric float64, 2 categorical uint8, missing='ignore')")
    assert table.schema.n_columns == 4


@pytest.mark.parametrize(
    "rows",
    [[2, 0, 2], np.array([True, False, True, False, True]), slice(None, None, 2), slice(1, 3)],
)
def test_take(rows):
    table = from_data(pandas_frame())
    part = table.take(rows)
    assert_blocks(part)
    np.testing.assert_array_equal(part.numeric, table.numeric[rows])
    np.testing.assert_array_equal(part.codes, table.codes[rows])
    assert part.schema is table.schema


def test_take_needs_rows():
    with pytest.raises(ValueError, match=r"rows must be positions, a boolean mask or a slice"):
        from_data(pandas_frame()).take(2)


def test_pandas_nullable_dtypes():
    frame = pd.DataFrame(
        {
            "i": pd.array([3, None, 5], dtype="Int64"),
            "f": pd.array([1.5, None, 2.5], dtype="Float32"),
            "b": pd.array([True, None, False], dtype="boolean"),
            "s": pd.array(["u", None, "u"], dtype="string"),
            "as": pd.Series(["u", None, "v"], dtype=pd.ArrowDtype(pa.string())),
            "ai": pd.Series([1, None, 2], dtype=pd.ArrowDtype(pa.int64())),
            "ad": pd.Series(["u", None, "v"], dtype=pd.ArrowDtype(pa.dictionary(pa.int8(), pa.string()))),
        }
    )
    table = from_data(frame)
    assert table.numeric_names == ("i", "f", "ai")
    np.testing.assert_array_equal(table.numeric, [[3, 1.5, 1], [np.nan] * 3, [5, 2.5, 2]])
    assert decode(table) == [[True, None, False], ["u", None, "u"], ["u", None, "v"], ["u", None, "v"]]


def test_pandas_object_columns_are_read_by_what_they_hold():
    frame = pd.DataFrame(
        {
            "text": ["b", None, "a", "b"],
            "flag": [True, np.nan, pd.NA, np.bool_(False)],
            "count": [1, None, pd.NA, 2**70],
            "price": [decimal.Decimal("1.5"), None, decimal.Decimal(2), decimal.Decimal(3)],
        },
        dtype=object,
    )
    with pytest.warns(UserWarning, match=r"Column 'count' has whole numbers from 2\*\*53 on"):
        table = from_data(frame)
    assert decode(table) == [["b", None, "a", "b"], [True, None, None, False]]
    assert [type(level) for level in table.levels[1]] == [bool, bool]
    nan = np.nan
    np.testing.assert_array_equal(table.numeric.T, [[1, nan, nan, 2.0**70], [1.5, nan, 2, 3]])


def test_an_object_column_is_judged_by_all_its_rows():
    late = pd.Series([None] * 200 + [1, 2], dtype=object)
    table = from_data(pd.DataFrame({"late": late}))
    assert table.numeric_names == ("late",)
    assert table.numeric[-1, 0] == 2


def test_decimals_are_numbers():
    values = [decimal.Decimal("1.50"), None, decimal.Decimal("2.25")]
    for frame in frames({"d": values}):
        np.testing.assert_array_equal(from_data(frame).numeric.ravel(), [1.5, np.nan, 2.25])
        assert from_data(frame, categorical=["d"]).levels == ((1.5, 2.25),)


@pytest.mark.filterwarnings("ignore:Column .* has whole numbers from:UserWarning")
def test_big_integers():
    for make in (pd.DataFrame, pl.DataFrame, pa.table, lambda d: np.array(d["big"])[:, None]):
        table = from_data(make({"big": [2**62 + 1, 1]}))
        np.testing.assert_array_equal(table.numeric.ravel(), [2.0**62, 1])
    for frame in frames({"big": [2**62 + 1, None]}):
        np.testing.assert_array_equal(from_data(frame).numeric.ravel(), [2.0**62, np.nan])
    nullable = pd.DataFrame({"big": pd.array([2**62 + 1, None], dtype="Int64")})
    np.testing.assert_array_equal(from_data(nullable).numeric.ravel(), [2.0**62, np.nan])
    if hasattr(pl, "Int128"):
        frame = pl.DataFrame({"huge": pl.Series([2**100, 1], dtype=pl.Int128)})
        np.testing.assert_array_equal(from_data(frame).numeric.ravel(), [2.0**100, 1])


def test_column_names_become_text():
    table = from_data(pd.DataFrame([[1.0, "a"], [2.0, "b"]], columns=[0, 1]))
    assert table.schema.columns == ("0", "1")
    assert table.schema.encode(pd.DataFrame({1: ["b"], 0: [7.0]})).numeric[0, 0] == 7


def test_repeated_index_and_sliced_frames():
    frame = pandas_frame().iloc[::-1]
    frame.index = [5, 5, 5, 5, 5]
    np.testing.assert_array_equal(from_data(frame).codes, CODES[::-1])
    chunked = pl.concat([pl.DataFrame(CONTENT), pl.DataFrame(CONTENT)], rechunk=False)
    np.testing.assert_array_equal(from_data(chunked).codes, np.tile(CODES, (2, 1)))
    arrow = pa.concat_tables([pa.table(CONTENT), pa.table(CONTENT)]).slice(1, 7)
    np.testing.assert_array_equal(from_data(arrow).codes, np.tile(CODES, (2, 1))[1:8])


# ---------------------------------------------------------------- levels and their order


def test_declared_order_without_unused_levels():
    cells = ["low", None, "high", "low"]
    frame = pd.DataFrame({"c": pd.Categorical(cells, categories=["unused", "low", "high"])})
    table = from_data(frame)
    assert table.levels == (("low", "high"),)
    assert table.schema.ordered == ()
    assert table.codes.ravel().tolist() == [0, 2, 1, 0]


def test_unused_levels_of_a_scale_keep_their_place():
    cells = ["low", None, "high", "low"]
    declared = ["low", "unused", "high"]
    scale = pd.Categorical(cells, categories=declared, ordered=True)
    frames = [pd.DataFrame({"c": scale}), pl.DataFrame({"c": pl.Series(cells, dtype=pl.Enum(declared))})]
    frames.append(pa.Table.from_pandas(frames[0]))
    for frame in frames:
        table = from_data(frame)
        assert table.levels == (("low", "unused", "high"),)
        assert table.schema.ordered == (0,)
        assert table.codes.ravel().tolist() == [0, 3, 2, 0]


def test_other_categories_are_sorted():
    cells = ["z", None, "a", "z"]
    text = pl.DataFrame({"c": pl.Series(cells, dtype=pl.Categorical)})
    first = pa.chunked_array([["z", None], ["a", "z"]]).dictionary_encode()
    for frame in (text, pa.table({"c": first}), pa.table({"c": cells})):
        table = from_data(frame)
        assert table.levels == (("a", "z"),)
        assert table.codes.ravel().tolist() == [1, 2, 0, 1]


def test_arrow_dictionary_that_differs_by_chunk():
    one = pa.array(["z", "a"]).dictionary_encode()
    two = pa.DictionaryArray.from_arrays(pa.array([0, None, 1], pa.uint8()), ["a", None])
    frame = pa.table({"c": pa.chunked_array([one, two.cast(one.type)])})
    assert decode(from_data(frame)) == [["z", "a", "a", None, None]]


def test_categories_of_other_objects_become_their_text():
    cut = pd.cut(pd.Series([0.5, 1.5, 0.7]), [0, 1, 2, 3])
    table = from_data(pd.DataFrame({"c": cut}))
    assert table.levels == (("(0, 1]", "(1, 2]", "(2, 3]"),)
    again = table.schema.encode(pd.DataFrame({"c": pd.cut(pd.Series([1.2, 2.5]), [0, 1, 2, 3])}))
    assert again.codes.ravel().tolist() == [1, 2]


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
def test_numbers_named_as_categorical(make):
    frame = make({"i": [10, 9, 10], "f": [0.5, None, -0.0], "x": [1.0, 2.0, 3.0]})
    table = from_data(frame, categorical=["i", "f"])
    assert table.levels == ((9, 10), (0.0, 0.5))
    assert [type(v) for levels in table.levels for v in levels] == [int, int, float, float]
    assert str(table.levels[1][0]) == "0.0"
    assert table.codes.tolist() == [[1, 1], [0, 2], [1, 0]]


@pytest.mark.parametrize(
    "categorical",
    [
        ["a", "c"],
        ("c", "a"),
        np.array(["a", "c"]),
        pd.Index(["a", "c"]),
        [0, 2],
        ["a", 2],
        np.array([2, 0]),
        [True, False, True],
        np.array([True, False, True]),
    ],
)
def test_ways_to_name_categorical_columns(categorical):
    frame = pd.DataFrame({"a": [1, 2], "b": [3, 4], "c": ["u", "v"]})
    table = from_data(frame, categorical=categorical)
    assert table.categorical_names == ("a", "c")
    assert table.schema.categorical_index.tolist() == [0, 2]
    assert table.schema.numeric_index.tolist() == [1]


def test_no_categorical_columns_at_all():
    assert from_data(pd.DataFrame({"a": [1, 2]}), categorical=[]).codes.shape == (2, 0)


@pytest.mark.parametrize(
    ("categorical", "message"),
    [
        (["nowhere"], r"categorical names column 'nowhere', but X has the columns 'age', 'city'"),
        ([4], r"categorical names position 4, but X has 4 columns"),
        ([-1], r"categorical names position -1"),
        ([True, False], r"categorical is a mask of length 2, but X has 4 columns"),
        ("city", r"categorical must be 'auto' or a list .* got 'city'"),
        (None, r"categorical must be 'auto' or a list .* got None"),
        (3, r"categorical must be 'auto' or a list .* got 3"),
    ],
)
def test_wrong_categorical(categorical, message):
    with pytest.raises(ValueError, match=message):
        from_data(pandas_frame(), categorical=categorical)


def test_code_type_grows_with_the_levels():
    for n_levels, dtype in ((255, np.uint8), (256, np.uint16), (65535, np.uint16)):
        column = np.repeat(np.arange(n_levels), 2)
        frame = pd.DataFrame({"few": column % 2, "many": column, "last": column % 3})
        table = from_data(frame, categorical=[0, 1, 2])
        assert table.codes.dtype == dtype
        np.testing.assert_array_equal(table.codes, frame)
        with pytest.warns(UserWarning, match="'many': no value of these rows occurred in fit"):
            again = table.schema.encode(frame.assign(many=-1))
        assert again.codes.dtype == dtype
        assert (again.codes[:, 1] == n_levels).all()


def test_too_many_levels():
    with pytest.raises(
        ValueError, match=r"Column 'x1' has 65536 levels, but at most 65535 .* merge rare levels"
    ):
        from_data(np.repeat(np.arange(65536)[:, None], 2, axis=1), categorical=[1])


def test_one_row_and_one_level():
    table = from_data(pd.DataFrame({"x": [1.0], "c": ["only"]}))
    assert_blocks(table)
    assert table.levels == (("only",),)
    assert table.codes.tolist() == [[0]]
    assert from_data(pd.DataFrame({"c": ["only"] * 5})).n_levels.tolist() == [1]


# ---------------------------------------------------------------- missing cells


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
def test_missing_as_a_category(make):
    table = from_data(make(CONTENT), missing="category")
    assert table.levels == (("", "Basel", "Bern", "(missing)"), (False, True, "(missing)"))
    np.testing.assert_array_equal(table.codes, CODES)
    assert np.isnan(table.numeric[1, 0])

    full = table.schema.encode(make(CONTENT))
    np.testing.assert_array_equal(full.codes, table.codes)
    # without missing cells in fit there is no such level: a missing cell is then an unknown level
    seen = from_data(make({"c": ["a", "b"]}), missing="category").schema
    assert seen.levels == (("a", "b"),)
    new = make({"c": [None, "a"]})
    assert seen.encode(new).codes.ravel().tolist() == [2, 0]
    with pytest.raises(ValueError, match=r"Column 'c' contains 1 level\(s\) .*: '\(missing\)'"):
        seen.encode(new, unknown="error")


def test_missing_as_a_category_meets_its_own_name():
    frame = pd.DataFrame({"c": ["(missing)", None, "z"]})
    table = from_data(frame, missing="category")
    assert table.levels == (("z", "(missing)"),)
    assert table.codes.ravel().tolist() == [1, 1, 0]


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
def test_missing_as_an_error(make):
    with pytest.raises(
        ValueError, match=r"Column 'age' has 1 missing value\(s\) \(NaN or null\); impute them"
    ):
        from_data(make(CONTENT), missing="error")
    with pytest.raises(ValueError, match=r"Column 'c' has 2 missing value\(s\)"):
        from_data(make({"x": [1, 2, 3], "c": [None, "a", None]}), missing="error")
    full = {"x": [1.0, 2.0], "c": ["a", "b"]}
    table = from_data(make(full), missing="error")
    for name in full:
        with pytest.raises(ValueError, match=rf"Column '{name}' has 1 missing"):
            table.schema.encode(make(full | {name: [None, full[name][0]]}))


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
@pytest.mark.parametrize("cells", [[None, None], [float("nan")] * 2, ["a", "b"]], ids=["none", "nan", "text"])
def test_all_missing_columns(make, cells):
    if cells == ["a", "b"]:
        cells = [None, None]
        make = {
            pd.DataFrame: lambda d: pd.DataFrame(d, dtype="category"),
            pl.DataFrame: lambda d: pl.DataFrame(d, schema={"x": pl.Int8, "empty": pl.String}),
            pa.table: lambda d: pa.table(d, schema=pa.schema({"x": pa.int8(), "empty": pa.string()})),
        }[make]
    with pytest.raises(ValueError, match=r"Column 'empty' has no value in any of its 2 row"):
        from_data(make({"x": [1, 2], "empty": cells}))


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
def test_all_missing_columns_are_fine_later(make):
    schema = from_data(make({"x": [1.0, 2.0], "c": ["a", "b"]})).schema
    for empty in ([None, None], [float("nan")] * 2):
        table = schema.encode(make({"x": empty, "c": empty}))
        assert np.isnan(table.numeric).all()
        assert table.codes.ravel().tolist() == [2, 2]


# ---------------------------------------------------------------- a table as input


def test_a_table_is_returned_as_it_is():
    table = from_data(pandas_frame())
    assert from_data(table) is table
    assert from_data(table, categorical=["member", "city"]) is table
    assert from_data(table, categorical=[1, 2], dtype=np.float64) is table
    assert table.schema.encode(table) is table
    copy = Schema.from_dict(table.schema.to_dict())
    assert copy == table.schema
    assert hash(copy) == hash(table.schema)
    assert copy.encode(table) is table


def test_a_table_built_otherwise_is_refused():
    table = from_data(pandas_frame())
    with pytest.raises(ValueError, match=r"built with categorical=\['city', 'member'\], which differs"):
        from_data(table, categorical=["age"])
    assert from_data(table, categorical=["city"]) is table
    with pytest.raises(ValueError, match=r"built with missing='ignore', which differs"):
        from_data(table, missing="category")
    with pytest.raises(ValueError, match=r"built with dtype=float64, which differs"):
        from_data(table, dtype=np.float32)
    other = from_data(pandas_frame().iloc[:2])
    assert other.schema != table.schema
    assert table.schema != "a schema"
    with pytest.raises(ValueError, match="This MixedTable has another schema"):
        table.schema.encode(other)


# ---------------------------------------------------------------- any column

CELLS = st.one_of(
    st.lists(st.none() | st.text(max_size=3), min_size=1, max_size=30),
    st.lists(st.none() | st.booleans(), min_size=1, max_size=30),
    st.lists(st.none() | st.integers(-(2**53), 2**53), min_size=1, max_size=30),
    st.lists(st.none() | st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=30),
)


@examples(150)
@given(cells=CELLS, missing=st.sampled_from(["ignore", "category"]))
def test_decoding_gives_the_column_back(cells, missing):
    if all(cell is None for cell in cells):
        cells = [*cells, 1]
    makers = [
        lambda: pd.DataFrame({"c": pd.Series(cells, dtype=object)}),
        lambda: pd.DataFrame({"c": pd.Series(cells, dtype="category")}),
        lambda: pl.DataFrame({"c": cells}),
        lambda: pa.table({"c": cells}),
        lambda: np.array([[cell] for cell in cells], dtype=object),
    ]
    expected = ["(missing)" if c is None and missing == "category" else c for c in cells]
    for make in makers:
        frame = make()
        table = from_data(frame, categorical=[0], missing=missing)
        assert_blocks(table)
        assert decode(table) == [expected]
        assert len(set(table.levels[0])) == table.n_levels[0]
        np.testing.assert_array_equal(table.schema.encode(frame).codes, table.codes)
        np.testing.assert_array_equal(
            Schema.from_dict(json.loads(json.dumps(table.schema.to_dict()))).encode(frame).codes,
            table.codes,
        )


@examples(60)
@given(data=st.data(), dtype=st.sampled_from([np.float32, np.float64]))
def test_any_numeric_array(data, dtype):
    shape = data.draw(st.tuples(st.integers(1, 8), st.integers(1, 4)))
    floats = st.floats(width=32, allow_infinity=False)
    cells = data.draw(st.lists(floats, min_size=shape[0] * shape[1], max_size=shape[0] * shape[1]))
    X = np.array(cells, dtype=dtype).reshape(shape)
    X[0] = 0.5
    for array in (X, np.asfortranarray(X), pd.DataFrame(X), pl.DataFrame(X)):
        table = from_data(array)
        assert_blocks(table)
        np.testing.assert_array_equal(table.numeric, X, strict=True)
