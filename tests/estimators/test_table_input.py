"""What a mixed table refuses, and arrays as input."""

import datetime

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import sparse

import craftc
from tests.estimators.table_cases import CONTENT, assert_blocks, decode, from_data, pandas_frame

# ---------------------------------------------------------------- refusals


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
def test_text_that_differs_in_every_row(make):
    content = {"id": ["k1", "k2", None, "k3"], "x": [1, 2, 3, 4]}
    with pytest.raises(ValueError, match=r"'id' has a different text in every row.*Categorical"):
        from_data(make(content))
    assert from_data(make(content), categorical=["id"]).n_levels.tolist() == [3]
    assert from_data(make({"id": ["k1", "k2"]})).n_levels.tolist() == [2]
    assert from_data(make({"id": ["k1", None, None, "k1"]})).n_levels.tolist() == [1]


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
def test_numbers_as_text_are_a_warning(make, tmp_path):
    texts = [f"{x / 2}" for x in range(-4, 4)] * 3
    said = "Column 'x' holds numbers as text, so that its 8 values are categories; convert it"
    with pytest.warns(UserWarning, match=said):
        assert from_data(make({"x": texts})).schema.numeric_names == ()
    with pytest.raises(ValueError, match=r"'x' has a different text in every row.*convert it"):
        from_data(make({"x": texts[:8]}))
    pq.write_table(pa.table({"x": texts}), tmp_path / "t.parquet")
    with pytest.warns(UserWarning, match=said):
        craftc.MixedTable.from_parquet(tmp_path / "t.parquet")
    from_data(make({"x": texts}), categorical=["x"])
    from_data(make({"x": ["1", "2", "3", "4", "5"] * 3, "y": [f"00{i}" for i in range(8)][:5] * 3}))
    from_data(make({"x": [*texts, "other", "other"]}))


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
            TypeError, match=r"Column 'odd' (has dtype .*, which is neither|holds bytes|contains obj)"
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
    for cells in ([1, "a"], ["a", True]):
        frame = pd.DataFrame({"x": [1, 2], "o": pd.Series(cells, dtype=object)})
        with pytest.raises(TypeError, match=r"Column 'o' mixes values of different types"):
            from_data(frame)
    mixed = pd.DataFrame({"o": pd.Series(["b", 2, None, "a", 1], dtype=object)})
    assert from_data(mixed, categorical=["o"]).levels == ((1, 2, "a", "b"),)
    for cells in ([object(), None], [{"a": 1}, "b"], [(1, 2), "a"]):
        frame = pd.DataFrame({"o": pd.Series(cells, dtype=object)})
        for categorical in ("auto", ["o"]):
            with pytest.raises(TypeError, match=r"Column 'o' contains objects .* neither text nor numbers"):
                from_data(frame, categorical=categorical)


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
def test_text_and_booleans_are_no_numbers(make):
    frame = make({"x": [1, 2], "flag": [True, False], "c": ["u", "v"]})
    with pytest.raises(TypeError, match=r"Column 'flag' contains Boolean values where numbers are"):
        from_data(frame, categorical=[False, False, True])
    with pytest.raises(TypeError, match=r"Column 'c' contains String values where numbers are"):
        from_data(frame, categorical=[False, True, False])
    assert from_data(frame, categorical=["x"]).categorical_names == ("x", "flag", "c")
    assert from_data(frame, categorical=[1]).numeric_names == ("x",)


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
    with pytest.raises(TypeError, match=r"A lazy frame was passed, .*; pass X\.collect\(\)"):
        from_data(pl.LazyFrame(CONTENT))


def test_duplicate_names():
    arrow = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])
    for frame in (pd.DataFrame([[1, 2]], columns=["a", "a"]), arrow):
        with pytest.raises(ValueError, match=r"names must be unique, got \['a', 'a'\]"):
            from_data(frame)
    with pytest.raises(ValueError, match=r"names must be unique, got \['1', '1'\]"):
        from_data(pd.DataFrame([[1, 2]], columns=[1, "1"]))


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, np.asarray])
def test_empty_input(make):
    with pytest.raises(ValueError, match=r"0 sample\(s\) \(shape=\(0, 3\)\) while a minimum of 1"):
        from_data(make(pd.DataFrame(np.empty((0, 3)), columns=["a", "b", "c"])))


@pytest.mark.parametrize("make", [pd.DataFrame, np.asarray])
def test_no_columns(make):
    with pytest.raises(ValueError, match=r"0 feature\(s\) \(shape=\(12, 0\)\) while a minimum of 1"):
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
    table = from_data(X)
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


def test_lists_keep_numbers_next_to_text():
    table = from_data([["b", 2, 0.5], ["a", 1, None]], categorical=[0, 1])
    assert table.levels == (("a", "b"), (1, 2))
    np.testing.assert_array_equal(table.numeric, [[0.5], [np.nan]])


def test_arrays_that_are_no_table():
    with pytest.raises(ValueError, match="Expected 2D array, got 1D array instead"):
        from_data(np.arange(3.0))
    with pytest.raises(ValueError, match="dim 3"):
        from_data(np.ones((2, 2, 2)))
    with pytest.raises(ValueError, match="A Series was passed"):
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


def test_a_record_batch_is_a_table():
    from craftc import CRAFT, KPrototypes, PaperCRAFT, read_table

    frame = pd.DataFrame(CONTENT)
    batch = pa.RecordBatch.from_pandas(frame)
    table, same = from_data(batch), from_data(pa.Table.from_batches([batch]))
    assert table.schema == same.schema
    np.testing.assert_array_equal(table.codes, same.codes)
    np.testing.assert_array_equal(table.numeric, same.numeric)
    assert read_table(batch).equals(read_table(frame))
    rng = np.random.default_rng(0)
    batch = pa.RecordBatch.from_pydict({"a": rng.normal(size=40), "b": ["u", "v", "w", "u"] * 10})
    for estimator in (CRAFT, PaperCRAFT, KPrototypes):
        model = estimator(2, random_state=0).fit(batch)
        assert model.feature_names_in_.tolist() == ["a", "b"]
        np.testing.assert_array_equal(model.predict(batch), model.labels_)


@pytest.mark.parametrize(
    "make",
    [
        lambda cells: pd.DataFrame({"a": cells}),
        lambda cells: pd.DataFrame({"a": pd.array([*cells.tolist(), None], dtype="Int64")}),
        lambda cells: pl.DataFrame({"a": cells}),
        lambda cells: pa.table({"a": cells}),
        lambda cells: {"a": cells},
        lambda cells: np.column_stack([np.arange(len(cells), dtype=cells.dtype), cells]),
    ],
)
def test_whole_numbers_that_are_rounded(make):
    """Floats have 53 bits."""
    cells = 2**53 - 5 + np.arange(5)
    from_data(make(cells))
    for big in (cells + 1, -cells - 1, (cells + 1).astype(np.uint64)):
        with pytest.warns(UserWarning, match=r"Column '(a|x1)' has whole numbers from 2\*\*53"):
            from_data(make(big))


@pytest.mark.parametrize(
    "model",
    [
        craftc.CRAFT(random_state=0),
        craftc.PaperCRAFT(random_state=0),
        craftc.KPrototypes(2, random_state=0),
        craftc.KModes(2, categorical=["a", "b"], random_state=0),
        craftc.DPMeans(5.0, random_state=0),
        craftc.FeatureSelectionMixture(2, random_state=0),
        craftc.KFeatures(2),
    ],
    ids=lambda model: type(model).__name__,
)
@pytest.mark.filterwarnings("ignore:.*converge")
def test_arrays_after_a_frame_and_frames_after_an_array(model):
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, (80, 2)) * 4 + rng.integers(0, 2, (80, 2))
    frame = pd.DataFrame(X.astype(float), columns=["a", "b"])
    model.fit(frame)
    name = type(model).__name__
    with pytest.warns(UserWarning, match=f"X does not have valid feature names, but {name} was fitted with"):
        model.predict(frame[["b", "a"]].to_numpy())
    expected = model.predict(frame)
    if name in ("CRAFT", "KPrototypes", "KModes"):  # which find columns by name
        np.testing.assert_array_equal(model.predict(frame[["b", "a"]]), expected)
    if name != "KModes":
        model.fit(frame.to_numpy())
        with pytest.warns(UserWarning, match=f"X has feature names, but {name} was fitted without"):
            model.predict(frame)


@pytest.mark.parametrize("encoded_again", [False, True])
@pytest.mark.parametrize("dictionaries", [("bca", "zba"), ("abc", "a"), ("aba", "abc"), (["a", None], "ab")])
def test_dictionaries_of_arrow_are_read_as_their_texts(dictionaries, encoded_again):
    """Different dictionaries of two chunks, texts that do not occur, nulls and texts that occur twice."""
    chunks = []
    for texts in dictionaries:
        indices = pa.array([len(texts) - 1, None, 0, len(texts) - 1, 0], pa.int8())
        chunks.append(pa.DictionaryArray.from_arrays(indices, pa.array(list(texts))))
    column = pa.chunked_array(chunks)
    number = pa.array(np.arange(10.0))
    if encoded_again:
        column = column.cast("string").dictionary_encode()
    found = from_data(pa.table({"a": column, "x": number}))
    expected = from_data(pa.table({"a": column.cast("string"), "x": number}))
    assert found.schema == expected.schema
    np.testing.assert_array_equal(found.codes, expected.codes)
