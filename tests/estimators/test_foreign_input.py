"""Arrays and frames of other libraries: every estimator reads them as it reads those of NumPy and pandas."""

from __future__ import annotations

import decimal
import uuid
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from sklearn.base import clone

import craftc

RNG = np.random.default_rng(0)
LABELS = np.repeat([0, 1], 30)
NUMBERS = RNG.normal(size=(60, 3)).round(3) + 4.0 * LABELS[:, None]
FRAME = pd.DataFrame(NUMBERS, columns=["a", "b", "c"])
SEEDED = {"random_state": 0, "n_init": 1}
MODELS = {
    "CRAFT": craftc.CRAFT(**SEEDED),
    "PaperCRAFT": craftc.PaperCRAFT(**SEEDED),
    "DPMeans": craftc.DPMeans(),
    "KFeatures": craftc.KFeatures(2, **SEEDED),
    "BPMeans": craftc.BPMeans(random_state=0),
    "KModes": craftc.KModes(2, **SEEDED),
    "KPrototypes": craftc.KPrototypes(2, **SEEDED),
    "FeatureSelectionMixture": craftc.FeatureSelectionMixture(random_state=0),
    "ConvexClustering": craftc.ConvexClustering(),
    "ConvexCovariateClustering": craftc.ConvexCovariateClustering(),
    "GraphSpectralFeatures": craftc.GraphSpectralFeatures(2, random_state=0),
}
pytestmark = [
    pytest.mark.parametrize("name", MODELS),
    pytest.mark.filterwarnings("ignore:.*converge:sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore:Columns differ in scale:UserWarning"),
]


class Stream:
    """Only the protocol of Arrow streams, as relations of duckdb and tables of ibis have it."""

    def __init__(self, table):
        self.table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self.table.__arrow_c_stream__(requested_schema)


class Interface:
    """Only the interface of arrays."""

    def __init__(self, array):
        self.array, self.__array_interface__ = array, array.__array_interface__


class Converted:
    """Only the conversion to an array."""

    def __init__(self, array):
        self.array = array

    def __array__(self, dtype=None, copy=None):
        return self.array if dtype is None else self.array.astype(dtype)


def fitted(name, X):
    model = clone(MODELS[name])
    return model.fit(X, LABELS) if name == "ConvexCovariateClustering" else model.fit(X)


def results(name, model, X):
    """What a model says about its own and about new rows."""
    found = [np.asarray(getattr(model, "labels_", ()))]
    for method in ("predict", "transform", "score_samples", "predict_proba"):
        if hasattr(model, method):
            found.append(np.asarray(getattr(model, method)(X() if callable(X) else X)))
    return found


def assert_same(name, given, plain, make=None):
    """The same from an input (`make`: of one use) as from the plain one."""
    ours, theirs = fitted(name, make() if make else given), fitted(name, plain)
    for mine, other in zip(results(name, ours, make or given), results(name, theirs, plain), strict=True):
        np.testing.assert_array_equal(mine, other)
    assert ours.n_features_in_ == theirs.n_features_in_
    return ours


@pytest.mark.slow_except(22)
@pytest.mark.parametrize("offset", [1, 4, 7])
@pytest.mark.parametrize("dtype", ["<f8", "<f4"])
def test_arrays_that_are_not_aligned(name, offset, dtype, tmp_path: Path):
    plain = NUMBERS.astype(dtype)
    (tmp_path / "numbers").write_bytes(b"x" * offset + plain.tobytes())
    mapped = np.memmap(tmp_path / "numbers", dtype, "r", offset=offset, shape=plain.shape)
    if offset % mapped.itemsize:
        assert not mapped.flags.aligned
    assert_same(name, mapped, plain)
    packed = np.zeros(60, np.dtype([("skip", "i1"), ("cells", dtype, 3)]))
    packed["cells"] = plain
    assert_same(name, packed["cells"], plain)


@pytest.mark.parametrize("kind", [Interface, Converted])
def test_arrays_without_a_shape(name, kind):
    assert_same(name, kind(NUMBERS), NUMBERS)


def test_streams(name):
    table = pa.Table.from_pandas(FRAME)
    model = assert_same(name, Stream(table), table)
    assert list(model.feature_names_in_) == ["a", "b", "c"]
    # a stream of batches is read once
    assert_same(
        name,
        None,
        table,
        make=lambda: pa.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=17)),
    )


def test_rare_types_of_arrow(name):
    whole = np.round(NUMBERS[:, 0])
    table = pa.table(
        {
            "a": pa.array([decimal.Decimal(f"{x:.3f}") for x in NUMBERS[:, 0]], pa.decimal256(50, 3)),
            "b": NUMBERS[:, 1],
            "c": pc.run_end_encode(pa.array(whole)),
        }
    )
    plain = pa.table({"a": NUMBERS[:, 0].round(3), "b": NUMBERS[:, 1], "c": whole})
    assert_same(name, table, plain)
    assert_same(name, Stream(table), plain)


@pytest.mark.skipif(not hasattr(pa, "uuid"), reason="pyarrow has no uuid")
def test_uuids_are_texts(name):
    ids = [uuid.UUID(int=k % 2) for k in range(60)]
    column = pa.array([each.bytes for each in ids], pa.uuid())
    table = pa.table({"id": column, "b": NUMBERS[:, 1], "c": NUMBERS[:, 2]})
    plain = pd.DataFrame({"id": [str(each) for each in ids], "b": NUMBERS[:, 1], "c": NUMBERS[:, 2]})
    if name in ("CRAFT", "PaperCRAFT", "KModes", "KPrototypes", "GraphSpectralFeatures"):
        assert_same(name, table, plain)
    else:
        with pytest.raises(TypeError, match="Column 'id' cannot be read as numbers"):
            fitted(name, table)


@pytest.mark.slow_except(11)
@pytest.mark.parametrize("dtype", [float, bool, "int64"])
def test_sparse_columns_of_pandas(name, dtype):
    plain = pd.DataFrame(np.random.default_rng(1).integers(0, 2, (60, 3)).astype(dtype), columns=list("abc"))
    sparse = plain.astype(pd.SparseDtype(dtype, dtype(0) if callable(dtype) else 0))
    sparse["x"], plain["x"] = NUMBERS[:, 0], NUMBERS[:, 0]
    if name == "BPMeans":
        sparse, plain = sparse[["x", "a"]], plain[["x", "a"]]
    before = sparse.dtypes.tolist()
    assert_same(name, sparse, plain)
    assert sparse.dtypes.tolist() == before


@pytest.mark.skipif(not hasattr(pl, "Int128"), reason="polars has no integers of 128 bits")
@pytest.mark.parametrize("alone", [False, True])
def test_integers_of_128_bits(name, alone):
    wide = pl.DataFrame({"a": pl.Series(range(60), dtype=pl.Int128)})
    plain = pl.DataFrame({"a": np.arange(60.0)})
    if not alone:
        wide, plain = (frame.with_columns(b=pl.Series(NUMBERS[:, 1])) for frame in (wide, plain))
    if name == "GraphSpectralFeatures" and alone:
        pytest.skip("It needs two columns.")
    assert_same(name, wide, plain)


def test_dicts_and_records(name):
    columns = {column: FRAME[column].to_numpy() for column in FRAME}
    model = assert_same(name, columns, FRAME)
    assert list(model.feature_names_in_) == ["a", "b", "c"]
    assert_same(name, FRAME.to_dict("records"), FRAME)
    assert_same(name, FRAME.to_records(index=False), FRAME)  # a structured array
    for method in ("predict", "transform"):
        if hasattr(model, method):
            of = getattr(model, method)
            swapped = {column: columns[column] for column in "cab"}
            np.testing.assert_array_equal(of(swapped), of(columns))
            with pytest.raises(ValueError, match=r"\bc\b"):
                of({column: columns[column] for column in "ab"})
    if name not in ("CRAFT", "PaperCRAFT", "KModes", "KPrototypes", "GraphSpectralFeatures"):
        with pytest.raises(TypeError, match=r"Column 'a' cannot be read as numbers.*got 'x'"):
            fitted(name, {**columns, "a": ["x"] * 60})


def test_frames_in_another_order(name):
    model, swapped = fitted(name, FRAME), FRAME[["c", "a", "b"]]
    for method in ("predict", "transform", "predict_proba"):
        if hasattr(model, method):
            of = getattr(model, method)
            for X in (swapped, pl.DataFrame(swapped), pa.table(dict(swapped))):
                np.testing.assert_array_equal(of(X), of(FRAME))
            with pytest.raises(ValueError, match=r"\bc\b"):
                of(swapped[["b", "a"]])
            with pytest.raises(ValueError, match=r"\bmore\b"):
                of(swapped.assign(more=1.0))


def test_whole_numbers_that_are_rounded(name):
    if name == "KModes":
        pytest.skip("Its cells are levels.")
    large = np.c_[2**60 + np.arange(60), np.arange(60), 3 * np.arange(60)]
    columns = {"a": large[:, 0], "b": large[:, 1], "c": large[:, 2]}
    for X in (large, pd.DataFrame(large), pl.DataFrame(large), columns):
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            fitted(name, X)
        said = [str(each.message) for each in warned if "whole numbers from 2**53 on" in str(each.message)]
        assert all("or drop it for an estimator without this parameter" in each for each in said)
        assert said, type(X)


def test_whole_numbers_in_columns_of_objects_that_are_rounded(name):
    if name == "KModes":
        pytest.skip("Its cells are levels.")
    cells = [2**60 + i if i % 7 else 2**70 for i in range(60)]
    frame = FRAME.assign(a=pd.Series(cells, dtype=object))
    for X in (frame, frame.to_numpy(dtype=object)):
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            fitted(name, X)
        assert any("whole numbers from 2**53 on" in str(each.message) for each in warned), type(X)


def test_no_table_at_all(name):
    with pytest.raises(ValueError, match=r"X must be a table .*, got None"):
        fitted(name, None)


def test_masked_arrays_are_refused(name):
    with pytest.raises(TypeError, match=r"A masked array was passed; call \.filled"):
        fitted(name, np.ma.masked_greater(NUMBERS, 1.0))


@pytest.mark.parametrize("kind", ["timestamp", "date", "duration"])
def test_dates_of_arrow_are_no_numbers(name, kind):
    if name in ("KModes", "KPrototypes", "CRAFT", "PaperCRAFT", "GraphSpectralFeatures"):
        pytest.skip("Another message says so.")
    days = pd.date_range("2024-01-01", periods=60)
    cells = {"timestamp": days, "date": days.date, "duration": days - days[0]}[kind]
    table = pa.table({"a": NUMBERS[:, 0], "t": pa.array(cells)})
    for X in (table, table.to_pandas(types_mapper=pd.ArrowDtype)):
        words = (
            r"Column 't' cannot be read as numbers: it holds dates.*craftc\.read_table\(X\), which makes days"
        )
        with pytest.raises(TypeError, match=words):
            fitted(name, X)


def test_lazy_frames_say_how_to_compute_them(name):
    with pytest.raises(TypeError, match=r"lazy frame was passed.*pass X.collect\(\)"):
        fitted(name, pl.LazyFrame({"a": [1.0, 2.0]}))
    spark = type("DataFrame", (), {"pandas_api": None})()
    with pytest.raises(TypeError, match=r"pass X.toArrow\(\)"):
        fitted(name, spark)
    with pytest.raises(TypeError, match=r"pass X.to_pandas\(\)"):
        fitted(name, type("DataFrame", (), {"to_spark": None, "shape": (2, 1)})())
