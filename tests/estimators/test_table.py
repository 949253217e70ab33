"""The mixed table: what is read, what is refused and in which words, and the same codes later."""

import datetime
import decimal
import json

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from craftc.table import MixedTable, Schema

from_data = MixedTable.from_data

CONTENT = {
    "age": [31.5, None, 54.0, 20.0, 44.0],
    "city": ["Bern", "", None, "Basel", "Bern"],
    "member": [True, False, True, None, False],
    "visits": [3, 1, 4, 1, 2],
}
CODES = np.array([[2, 1], [0, 0], [3, 1], [1, 2], [2, 0]])


def pandas_frame(**extra):
    return pd.DataFrame(CONTENT | extra)


def decode(table):
    """Return the categorical columns as lists of values, None where missing."""
    lookup = [(*levels, None) for levels in table.levels]
    return [
        [values[c] for c in column] for values, column in zip(lookup, table.codes.T, strict=True)
    ]


def frames(content):
    return [pd.DataFrame(content), pl.DataFrame(content), pa.table(content)]


def assert_blocks(table):
    """Check what every kernel relies on."""
    assert table.numeric.flags.c_contiguous
    assert table.codes.flags.c_contiguous
    assert table.numeric.dtype in (np.float32, np.float64)
    assert table.numeric.dtype == table.schema.dtype
    assert table.numeric.dtype.isnative
    assert table.codes.dtype in (np.uint8, np.uint16)
    assert table.numeric.shape == (len(table), len(table.numeric_names))
    assert table.codes.shape == (len(table), len(table.categorical_names))
    assert (table.codes <= table.n_levels).all()


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
    assert repr(table) == (
        "MixedTable(5 rows, 2 numeric float64, 2 categorical uint8, missing='ignore')"
    )
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
            "ad": pd.Series(
                ["u", None, "v"], dtype=pd.ArrowDtype(pa.dictionary(pa.int8(), pa.string()))
            ),
        }
    )
    table = from_data(frame)
    assert table.numeric_names == ("i", "f", "ai")
    np.testing.assert_array_equal(table.numeric, [[3, 1.5, 1], [np.nan] * 3, [5, 2.5, 2]])
    assert decode(table) == [
        [True, None, False], ["u", None, "u"], ["u", None, "v"], ["u", None, "v"]
    ]  # fmt: skip


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
    declared = ["unused", "low", "high"]
    for ordered in (False, True):
        frame = pd.DataFrame({"c": pd.Categorical(cells, categories=declared, ordered=ordered)})
        table = from_data(frame)
        assert table.levels == (("low", "high"),)
        assert table.codes.ravel().tolist() == [0, 2, 1, 0]
    table = from_data(pl.DataFrame({"c": pl.Series(cells, dtype=pl.Enum(declared))}))
    assert table.levels == (("low", "high"),)
    assert table.codes.ravel().tolist() == [0, 2, 1, 0]


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
    assert table.levels == (("(0, 1]", "(1, 2]"),)
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
        ["a", "c"], ("c", "a"), np.array(["a", "c"]), pd.Index(["a", "c"]), [0, 2], ["a", 2],
        np.array([2, 0]), [True, False, True], np.array([True, False, True]),
    ],
)  # fmt: skip
def test_ways_to_name_categorical_columns(categorical):
    frame = pd.DataFrame({"a": [1, 2], "b": [3, 4], "c": ["u", "v"]})
    table = from_data(frame, categorical=categorical)
    assert table.categorical_names == ("a", "c")
    assert table.schema.categorical_index.tolist() == [0, 2]
    assert table.schema.numeric_index.tolist() == [1]


def test_no_categorical_columns_at_all():
    assert from_data(pd.DataFrame({"a": [1, 2]}), categorical=[]).codes.shape == (2, 0)


@pytest.mark.parametrize(
    ("categorical", "sentence"),
    [
        (["nowhere"], r"categorical contains column 'nowhere', but X has the columns 'age', 'city'"),
        ([4], r"categorical contains position 4, but X has 4 columns"),
        ([-1], r"categorical contains position -1"),
        ([True, False], r"categorical is a mask of length 2, but X has 4 columns"),
        ("city", r"categorical must be 'auto', a list .* got 'city'"),
        (None, r"categorical must be 'auto', a list .* got None"),
        (3, r"categorical must be 'auto', a list .* got 3"),
    ],
)
def test_wrong_categorical(categorical, sentence):
    with pytest.raises(ValueError, match=sentence):
        from_data(pandas_frame(), categorical=categorical)


def test_code_type_grows_with_the_levels():
    for n_levels, dtype in ((255, np.uint8), (256, np.uint16), (65535, np.uint16)):
        column = np.repeat(np.arange(n_levels), 2)
        frame = pd.DataFrame({"few": column % 2, "many": column, "last": column % 3})
        table = from_data(frame, categorical=[0, 1, 2])
        assert table.codes.dtype == dtype
        np.testing.assert_array_equal(table.codes, frame)
        again = table.schema.encode(frame.assign(many=-1))
        assert again.codes.dtype == dtype
        assert (again.codes[:, 1] == n_levels).all()


def test_too_many_levels():
    with pytest.raises(ValueError, match=r"Column 'x1' has 65536 levels, but at most 65535 .* merge rare levels"):
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
    with pytest.raises(ValueError, match=r"Column 'age' has 1 missing value\(s\) \(NaN or null\); impute them"):
        from_data(make(CONTENT), missing="error")
    with pytest.raises(ValueError, match=r"Column 'c' has 2 missing value\(s\)"):
        from_data(make({"x": [1, 2, 3], "c": [None, "a", None]}), missing="error")
    full = {"x": [1.0, 2.0], "c": ["a", "b"]}
    table = from_data(make(full), missing="error")
    for name in full:
        with pytest.raises(ValueError, match=rf"Column '{name}' has 1 missing"):
            table.schema.encode(make(full | {name: [None, full[name][0]]}))


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
@pytest.mark.parametrize(
    "cells", [[None, None], [float("nan")] * 2, ["a", "b"]], ids=["none", "nan", "text"]
)
def test_all_missing_columns(make, cells):
    if cells == ["a", "b"]:
        cells = [None, None]
        make = {
            pd.DataFrame: lambda d: pd.DataFrame(d, dtype="category"),
            pl.DataFrame: lambda d: pl.DataFrame(d, schema={"x": pl.Int8, "hole": pl.String}),
            pa.table: lambda d: pa.table(
                d, schema=pa.schema({"x": pa.int8(), "hole": pa.string()})
            ),
        }[make]
    with pytest.raises(ValueError, match=r"Column 'hole' has no value in any of its 2 row"):
        from_data(make({"x": [1, 2], "hole": cells}))


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
def test_all_missing_columns_are_fine_later(make):
    schema = from_data(make({"x": [1.0, 2.0], "c": ["a", "b"]})).schema
    for hole in ([None, None], [float("nan")] * 2):
        table = schema.encode(make({"x": hole, "c": hole}))
        assert np.isnan(table.numeric).all()
        assert table.codes.ravel().tolist() == [2, 2]


# ---------------------------------------------------------------- refusals


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
def test_text_that_differs_in_every_row(make):
    content = {"id": ["k1", "k2", None, "k3"], "x": [1, 2, 3, 4]}
    with pytest.raises(ValueError, match=r"'id' has a different text in every row.*Categorical"):
        from_data(make(content))
    assert from_data(make(content), categorical=["id"]).n_levels.tolist() == [3]
    assert from_data(make({"id": ["k1", "k2"]})).n_levels.tolist() == [2]
    assert from_data(make({"id": ["k1", None, None, "k1"]})).n_levels.tolist() == [1]


def test_categories_may_differ_in_every_row():
    keys = ["k1", "k2", "k3"]
    assert from_data(pd.DataFrame({"id": pd.Categorical(keys)})).n_levels.tolist() == [3]
    for dtype in (pl.Categorical, pl.Enum(keys)):
        frame = pl.DataFrame({"id": pl.Series(keys, dtype=dtype)})
        assert from_data(frame).n_levels.tolist() == [3]


DAY = datetime.date(2026, 1, 1)


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
@pytest.mark.parametrize(
    "cell",
    [DAY, datetime.datetime(2026, 1, 1), datetime.timedelta(1), datetime.time(1), [1.0], b"raw"],
    ids=str,
)
def test_columns_that_are_neither(make, cell):
    frame = make({"x": [1, 2], "odd": [cell, cell]})
    for categorical in ("auto", ["odd"]):
        with pytest.raises(
            TypeError, match=r"Column 'odd' (has dtype .*, which is neither|mixes|contains obj)"
        ):
            from_data(frame, categorical=categorical)
    schema = from_data(make({"x": [1, 2], "odd": ["a", "b"]})).schema
    with pytest.raises(TypeError, match=r"Column 'odd' "):
        schema.encode(frame)


def test_structs_and_periods():
    with pytest.raises(TypeError, match=r"Column 's' has dtype Struct.*which is neither"):
        from_data(pl.DataFrame({"s": [{"a": 1}]}))
    with pytest.raises(TypeError, match=r"Column 'p' has dtype period\[D\], which is neither"):
        from_data(pd.DataFrame({"p": pd.period_range("2026-01-01", periods=2)}))
    with pytest.raises(TypeError, match=r"Column 'o' has dtype Object, which is neither"):
        from_data(pl.DataFrame({"o": pl.Series([object()], dtype=pl.Object)}))


def test_pandas_objects():
    for cells in ([1, "a"], ["a", True], [object(), None], [{"a": 1}, None], [(1, 2), "a"]):
        frame = pd.DataFrame({"x": [1, 2], "o": pd.Series(cells, dtype=object)})
        with pytest.raises(TypeError, match=r"Column 'o' mixes values of different types"):
            from_data(frame)
    mixed = pd.DataFrame({"o": pd.Series(["b", 2, None, "a", 1], dtype=object)})
    assert from_data(mixed, categorical=["o"]).levels == ((1, 2, "a", "b"),)
    for cells in ([object(), None], [{"a": 1}, "b"], [(1, 2), "a"]):
        frame = pd.DataFrame({"o": pd.Series(cells, dtype=object)})
        with pytest.raises(
            TypeError, match=r"Column 'o' contains objects .* neither text nor numbers"
        ):
            from_data(frame, categorical=["o"])


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
def test_text_and_booleans_are_no_numbers(make):
    frame = make({"x": [1, 2], "flag": [True, False], "c": ["u", "v"]})
    with pytest.raises(TypeError, match=r"Column 'flag' contains Boolean values where numbers are"):
        from_data(frame, categorical=["c"])
    with pytest.raises(TypeError, match=r"Column 'c' contains String values where numbers are"):
        from_data(frame, categorical=["flag"])


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
def test_infinity(make):
    frame = make({"x": [1.0, 2.0], "y": [1.0, -np.inf]})
    with pytest.raises(ValueError, match=r"contains infinity: column 'y' contains inf, -inf or a"):
        from_data(frame)
    with pytest.raises(ValueError, match=r"contains infinity: column 'y' contains inf"):
        from_data(frame, categorical=["y"])
    with pytest.raises(ValueError, match=r"contains infinity: column 'x' .* dtype\('float32'\)"):
        from_data(make({"x": [1e300, 2.0]}), dtype=np.float32)
    with pytest.raises(ValueError, match="infinity"):
        from_data(np.array([[1e300, 2.0]]), dtype=np.float32)
    with pytest.raises(ValueError, match="infinity"):
        from_data(make({"x": [1.0, 2.0], "y": [1.0, 3.0]})).schema.encode(frame)


def test_complex_numbers():
    with pytest.raises(ValueError, match="Complex data not supported"):
        from_data(np.array([[1j, 2]]))
    with pytest.raises(ValueError, match="Complex data not supported: column 'z'"):
        from_data(pd.DataFrame({"z": [1j, 2]}))


@pytest.mark.parametrize("make", [sparse.csr_matrix, sparse.coo_array])
def test_sparse(make):
    with pytest.raises(TypeError, match=r"Sparse data was passed, but craftc needs dense.*toarray"):
        from_data(make(np.eye(3)))


def test_lazy_frame():
    with pytest.raises(TypeError, match=r"A lazy frame was passed; call \.collect\(\)"):
        from_data(pl.LazyFrame(CONTENT))


def test_duplicate_names():
    arrow = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])
    for frame in (pd.DataFrame([[1, 2]], columns=["a", "a"]), arrow):
        with pytest.raises(
            ValueError, match=r"names must be unique, got \['a', 'a'\]"
        ):
            from_data(frame)
    with pytest.raises(ValueError, match=r"names must be unique, got \['1', '1'\]"):
        from_data(pd.DataFrame([[1, 2]], columns=[1, "1"]))


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, np.asarray])
def test_empty_input(make):
    with pytest.raises(ValueError, match=r"0 sample\(s\) \(shape=\(0, 3\)\) while a minimum of 1"):
        from_data(make(pd.DataFrame(np.empty((0, 3)), columns=["a", "b", "c"])))


@pytest.mark.parametrize("make", [pd.DataFrame, np.asarray])
def test_no_columns(make):
    with pytest.raises(
        ValueError, match=r"0 feature\(s\) \(shape=\(12, 0\)\) while a minimum of 1"
    ):
        from_data(make(np.empty((12, 0))))


def test_wrong_options():
    with pytest.raises(ValueError, match=r"missing must be .* got 'drop'"):
        from_data(pandas_frame(), missing="drop")
    with pytest.raises(ValueError, match=r"dtype must be float32, float64 or None"):
        from_data(pandas_frame(), dtype=np.int32)
    with pytest.raises(ValueError, match=r"unknown must be 'ignore' or 'error', got 'x'"):
        from_data(pandas_frame()).schema.encode(pandas_frame(), unknown="x")


# ---------------------------------------------------------------- arrays


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_fitting_array_is_not_copied(dtype, tmp_path):
    X = np.arange(12, dtype=dtype).reshape(4, 3)
    frozen = X.copy()
    frozen.setflags(write=False)
    mapped = np.memmap(tmp_path / "x.bin", dtype=dtype, mode="w+", shape=(4, 3))
    mapped[:] = X
    for array in (X, frozen, mapped):
        table = from_data(array)
        assert_blocks(table)
        assert table.numeric.dtype == dtype
        assert np.shares_memory(table.numeric, array)
        assert np.shares_memory(table.schema.encode(array).numeric, array)
    assert table.schema.columns == ("x0", "x1", "x2")
    assert not table.schema.named
    assert table.codes.shape == (4, 0)


@pytest.mark.parametrize(
    "change",
    [
        np.asfortranarray,
        lambda X: np.repeat(X, 2, axis=0)[::2],
        lambda X: np.repeat(X, 2, axis=1)[:, ::2],
        lambda X: X[::-1][::-1],
        lambda X: X.astype(">f8"),
        lambda X: X.astype(np.int16),
        lambda X: X.astype(np.uint64),
        lambda X: X.astype(np.float16),
        lambda X: X.astype(np.longdouble),
        lambda X: X.astype(object),
        lambda X: X.tolist(),
    ],
)
def test_other_arrays_are_converted(change):
    X = np.arange(12, dtype=np.float64).reshape(4, 3)
    table = from_data(change(X))
    assert_blocks(table)
    np.testing.assert_array_equal(table.numeric, X)
    table = from_data(change(X), categorical=[1])
    assert_blocks(table)
    np.testing.assert_array_equal(table.numeric, X[:, [0, 2]])
    assert table.levels == ((1, 4, 7, 10),)


def test_float_type_of_the_block():
    single, double = np.ones(2, np.float32), np.ones(2)
    assert from_data(pd.DataFrame({"a": single, "c": ["u", "v"]})).numeric.dtype == np.float32
    if hasattr(nw, "Float16"):
        assert from_data(pd.DataFrame({"a": single.astype("f2")})).numeric.dtype == np.float32
    assert from_data(pl.DataFrame({"a": single})).numeric.dtype == np.float32
    assert from_data(pa.table({"a": single})).numeric.dtype == np.float32
    assert from_data(pd.DataFrame({"a": single, "b": double})).numeric.dtype == np.float64
    assert from_data(pd.DataFrame({"a": single, "b": [1, 2]})).numeric.dtype == np.float64
    assert from_data(pd.DataFrame({"c": ["u", "v"]})).numeric.dtype == np.float64
    assert from_data(single[:, None]).numeric.dtype == np.float32
    assert from_data(single[:, None].astype("f2")).numeric.dtype == np.float32
    table = from_data(double[:, None], dtype=np.float32)
    assert table.numeric.dtype == np.float32
    assert table.schema.encode(double[:, None]).numeric.dtype == np.float32
    assert from_data(single[:, None], dtype=np.dtype("f8")).numeric.dtype == np.float64


def test_boolean_array():
    table = from_data(np.array([[True, False], [False, False]]))
    assert table.levels == ((False, True), (False,))
    assert table.numeric.shape == (2, 0)
    with pytest.raises(TypeError, match=r"Column 'x1' contains Boolean values where numbers"):
        from_data(np.array([[True, False]]), categorical=[0])


def test_text_arrays():
    X = np.array([["u", "1.5"], ["v", "2"]])
    for array in (X, X.astype("S")):
        with pytest.raises(TypeError, match=r"The array contains text; pass a DataFrame"):
            from_data(array)
        table = from_data(array, categorical=[0])
        assert table.levels == (("u", "v"),)
        np.testing.assert_array_equal(table.numeric, [[1.5], [2]])
        with pytest.raises(TypeError, match=r"Column 'x0' cannot be read as numbers"):
            from_data(array, categorical=[1])


def test_object_arrays():
    numbers = np.array([[1, None], [2.5, np.nan], ["3", 4]], dtype=object)
    np.testing.assert_array_equal(from_data(numbers).numeric, [[1, np.nan], [2.5, np.nan], [3, 4]])
    X = np.array([["b", 1, 2], ["a", pd.NA, 3], [None, 2, 4], [np.nan, 5, 5]], dtype=object)
    with pytest.raises(
        TypeError, match=r"'x0' .* argument must be a string or a number.*DataFrame"
    ):
        from_data(X)
    table = from_data(X, categorical=[0])
    assert decode(table) == [["b", "a", None, None]]
    np.testing.assert_array_equal(table.numeric, [[1, 2], [np.nan, 3], [2, 4], [5, 5]])
    X[0, 1] = {"foo": "bar"}
    with pytest.raises(TypeError, match=r"'x1' .* argument must be a string or a number.*'foo'"):
        from_data(X, categorical=[0])
    with pytest.raises(TypeError, match=r"Column 'x1' contains objects .* neither text nor numbers"):
        from_data(X, categorical=[0, 1])
    X[0, 1] = (1, 2)
    with pytest.raises(TypeError, match=r"Column 'x1' contains objects \(tuple\)"):
        from_data(X, categorical=[0, 1])


def test_lists_keep_numbers_beside_text():
    table = from_data([["b", 2, 0.5], ["a", 1, None]], categorical=[0, 1])
    assert table.levels == (("a", "b"), (1, 2))
    np.testing.assert_array_equal(table.numeric, [[0.5], [np.nan]])


def test_arrays_that_are_no_table():
    with pytest.raises(ValueError, match="Expected 2D array, got 1D array instead"):
        from_data(np.arange(3.0))
    with pytest.raises(ValueError, match="dim 3"):
        from_data(np.ones((2, 2, 2)))
    with pytest.raises(ValueError, match="Expected a 2-dimensional container"):
        from_data(pd.Series([1.0, 2.0]))
    with pytest.raises(TypeError, match=r"A masked array was passed; call \.filled"):
        from_data(np.ma.masked_array(np.ones((2, 2)), mask=np.eye(2)))
    with pytest.raises(TypeError, match=r"dtype datetime64\[D\], which is neither"):
        from_data(np.array([["2026-01-01"]], dtype="M8[D]"))


def test_missing_counts_beyond_one_block_of_rows():
    X = np.zeros((150_000, 2))
    X[[1, 70_000, 149_999], 1] = np.nan
    with pytest.raises(ValueError, match=r"Column 'x1' has 3 missing"):
        from_data(X, missing="error")
    X[140_000, 0] = np.inf
    with pytest.raises(ValueError, match=r"infinity: column 'x0'"):
        from_data(X)


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
        from_data(table, categorical=["city"])
    with pytest.raises(ValueError, match=r"built with missing='ignore', which differs"):
        from_data(table, missing="category")
    with pytest.raises(ValueError, match=r"built with dtype=float64, which differs"):
        from_data(table, dtype=np.float32)
    other = from_data(pandas_frame().iloc[:2])
    assert other.schema != table.schema
    assert table.schema != "a schema"
    with pytest.raises(ValueError, match="This MixedTable has another schema"):
        table.schema.encode(other)


# ---------------------------------------------------------------- new data


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
    with pytest.raises(ValueError, match=start + r"Feature names unseen at fit time:\n- new\n$"):
        schema.encode(pandas_frame(new=1))
    absent = r"Feature names seen at fit time, yet now missing:\n- age\n- city\n$"
    with pytest.raises(ValueError, match=start + absent):
        schema.encode(pandas_frame().drop(columns=["city", "age"]))
    both = r"Feature names unseen at fit time:\n- a\n- b\n- c\n- d\n- e\n- \.\.\.\n" + absent
    with pytest.raises(ValueError, match=start + both):
        schema.encode(pandas_frame(**dict.fromkeys("abcdef", 0)).drop(columns=["city", "age"]))


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
        with pytest.raises(
            ValueError, match=rf"X has {n} features, but this model is expecting 2 f"
        ):
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
        (["False", "True", "True"], [False, True, None]),
        ([False, True, True], ["False", "True", "true"]),
        ([0.5, 1.5, 0.5], ["0.5", "1.5", "1.50"]),
    ],
)
@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
def test_levels_of_another_type(make, seen, new):
    schema = from_data(make({"c": seen}), categorical=["c"]).schema
    assert schema.encode(make({"c": new})).codes.ravel().tolist() == [0, 1, 2]


def test_a_numeric_column_that_is_none_later():
    schema = from_data(pd.DataFrame({"x": [1.0, 2.0]})).schema
    with pytest.raises(
        TypeError, match=r"Column 'x' contains String values where numbers are expected"
    ):
        schema.encode(pd.DataFrame({"x": ["1", "2"]}))
    with pytest.raises(TypeError, match=r"Column 'x' contains Boolean values"):
        schema.encode(pd.DataFrame({"x": [True, False]}))
    with pytest.raises(TypeError, match=r"Column 'x0' .* argument must be a string or a number"):
        schema.encode(np.array([["a"]], dtype=object))


def test_text_array_for_a_fitted_schema():
    schema = from_data(pd.DataFrame({"x": [1.0, 2.0], "c": ["a", "b"]})).schema
    table = schema.encode(np.array([["0.5", "b"], ["1", "z"]]))
    np.testing.assert_array_equal(table.numeric, [[0.5], [1]])
    assert table.codes.ravel().tolist() == [1, 2]


def test_empty_new_data():
    schema = from_data(pandas_frame()).schema
    with pytest.raises(ValueError, match=r"0 sample\(s\)"):
        schema.encode(pandas_frame().iloc[:0])


# ---------------------------------------------------------------- any column

CELLS = st.one_of(
    st.lists(st.none() | st.text(max_size=3), min_size=1, max_size=30),
    st.lists(st.none() | st.booleans(), min_size=1, max_size=30),
    st.lists(st.none() | st.integers(-(2**53), 2**53), min_size=1, max_size=30),
    st.lists(st.none() | st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=30),
)


@settings(max_examples=150, deadline=None)
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


@settings(max_examples=60, deadline=None)
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
