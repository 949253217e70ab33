"""Predictions for Dask collections: lazy, and with the bits of the same table in memory."""

from __future__ import annotations

import pickle
from functools import cache, partial
from itertools import pairwise

import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import clone

from craftc import (
    CRAFT,
    BPMeans,
    ConvexCovariateClustering,
    DPMeans,
    FeatureSelectionMixture,
    GraphSpectralFeatures,
    KFeatures,
    PaperCRAFT,
)
from craftc.distributed.collections import is_collection, without_rows

pd = pytest.importorskip("pandas", reason="Dask frames need pandas")
dask = pytest.importorskip("dask", reason="pip install 'craftc[dask]'")
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")

N = 240
METHODS = ("predict", "predict_proba", "transform", "score_samples", "margins")
CUTS = [
    (0, N),
    (0, 1, 2, 100, 100, N),
    (0, 0, 120, N, N),
]  # whole; uneven with one row and no row; empty at both ends


@pytest.fixture(autouse=True)
def synchronous():
    with dask.config.set(scheduler="synchronous"):
        yield


def numbers(dtype="float64"):
    rng = np.random.default_rng(0)
    group = rng.integers(0, 3, N)
    cells = rng.normal(size=(N, 5)) + 4.0 * group[:, None] * np.array([1, 0, 1, 0, 1])
    return pd.DataFrame(
        cells.astype(dtype), columns=list("abcde"), index=pd.Index(np.arange(N) * 3, name="key")
    ), group


def mixed():
    frame, group = numbers()
    rng = np.random.default_rng(1)
    frame["text"] = np.array(["x", "y", "z"], object)[np.where(rng.random(N) < 0.9, group, 0)]
    frame.loc[frame.index[::17], "text"] = None
    frame["level"] = pd.Categorical(
        np.array(["low", "high"])[(group > 0).astype(int)], ["low", "mid", "high"]
    )
    frame.loc[frame.index[::13], "a"] = np.nan
    return frame, group


MODELS = {
    "craft": (CRAFT(3, n_init=1, random_state=0), mixed),
    "craft, one cluster": (CRAFT(1, random_state=0), mixed),
    "craft, float32": (CRAFT(3, n_init=1, random_state=0), partial(numbers, "float32")),
    "dp-means": (DPMeans(n_clusters=3), numbers),
    "dp-means, full": (DPMeans(n_clusters=3, covariance="full-sized"), partial(numbers, "float32")),
    "bp-means": (BPMeans(n_init=1, random_state=0), numbers),
    "bp-means, no features": (BPMeans(1e9, base="none", n_init=1, random_state=0), numbers),
    "k-features": (KFeatures(3, n_init=1, random_state=0), numbers),
    "mixture": (FeatureSelectionMixture(4, n_init=1, random_state=0), numbers),
    "mixture, full": (FeatureSelectionMixture(3, covariance="full", n_init=1, random_state=0), numbers),
    "covariates": (ConvexCovariateClustering(1.0), numbers),
    "spectral": (GraphSpectralFeatures(3, random_state=0), mixed),
    "spectral, float32": (GraphSpectralFeatures(3, random_state=0), partial(numbers, "float32")),
}
NAMES = {"score_samples": "score", "margins": "margin"}


@cache
def fitted(name):
    model, table = MODELS[name]
    frame, group = table()
    return clone(model).fit(frame, np.array(["u", "v", "w"])[group]), frame


def method_of(model):
    return model.predict if hasattr(model, "predict") else model.transform


READ = []  # numbers of the partitions that were read


class Partitions:
    """Partitions of a table, whose readings are recorded."""

    def __init__(self, frame, cuts):
        READ.clear()
        self.parts = [frame.iloc[start:stop] for start, stop in pairwise(cuts)]

    def read(self, number):
        READ.append(number)
        return self.parts[number]

    def frame(self):
        known = all(len(part) for part in self.parts)
        divisions = [part.index[0] for part in self.parts] + [self.parts[-1].index[-1]] if known else None
        return dd.from_map(
            self.read, range(len(self.parts)), meta=self.parts[0].iloc[:0], divisions=divisions
        )

    def array(self):
        """Chunks of these rows, and of two and three columns."""

        def read(block_id):
            READ.append(block_id[0])
            columns = slice(0, 2) if block_id[1] == 0 else slice(2, None)
            return self.parts[block_id[0]].to_numpy()[:, columns]

        chunks = tuple(len(part) for part in self.parts), (2, 3)
        cells = self.parts[0].to_numpy()[:0]
        return da.map_blocks(
            lambda block_id=None: read(block_id), chunks=chunks, dtype=cells.dtype, meta=cells
        )


@pytest.mark.slow_except(13)
@pytest.mark.parametrize("cuts", CUTS)
@pytest.mark.parametrize("name", MODELS)
def test_frames(name, cuts):
    model, frame = fitted(name)
    for method in filter(lambda method: hasattr(model, method), METHODS):
        expected = np.asarray(getattr(model, method)(frame))
        source = Partitions(frame, cuts)
        X = source.frame()
        lazy = getattr(model, method)(X)
        assert READ == []
        assert (lazy.npartitions, lazy.divisions) == (X.npartitions, X.divisions)
        found = lazy.compute()
        assert sorted(READ) == list(range(len(cuts) - 1))
        assert found.index.equals(frame.index)
        assert found.index.name == "key"
        typed = (
            expected.size > 0 and expected.dtype.kind != "U"
        )  # a frame without columns has no dtype; pandas has its own for text
        np.testing.assert_array_equal(found.to_numpy(), expected, err_msg=method, strict=typed)
        if expected.ndim == 1:
            assert isinstance(lazy, dd.Series)
            assert (lazy.name, lazy.dtype) == (found.name, found.dtype)
            assert found.name == NAMES.get(method, "class" if hasattr(model, "classes_") else "cluster")
        else:
            assert isinstance(lazy, dd.DataFrame)
            assert list(lazy.columns) == list(found.columns)
            assert lazy.dtypes.tolist() == found.dtypes.tolist()
        for part, rows in zip(lazy.partitions, source.parts, strict=True):
            each = part.compute()
            assert type(each) is type(found)
            assert each.index.equals(rows.index)


@pytest.mark.filterwarnings("ignore:X does not have valid feature names:UserWarning")
@pytest.mark.parametrize("cuts", CUTS)
@pytest.mark.parametrize("name", [name for name in MODELS if MODELS[name][1] is not mixed])
def test_arrays(name, cuts):
    model, frame = fitted(name)
    for method in filter(lambda method: hasattr(model, method), METHODS):
        expected = np.asarray(getattr(model, method)(frame.to_numpy()))
        source = Partitions(frame, cuts)
        X = source.array()
        lazy = getattr(model, method)(X)
        assert READ == []
        assert lazy.chunks == (X.chunks[0], *((each,) for each in expected.shape[1:]))
        assert lazy.dtype == expected.dtype
        np.testing.assert_array_equal(lazy.compute(), expected, err_msg=method, strict=True)


@pytest.mark.filterwarnings("ignore:X does not have valid feature names:UserWarning")
def test_arrays_of_unknown_lengths():
    model, frame = fitted("dp-means")
    X = dd.from_pandas(frame, npartitions=3).to_dask_array()
    assert np.isnan(X.chunks[0]).all()
    labels, distances = model.predict(X), model.transform(X)
    assert np.isnan(labels.chunks[0]).all()
    assert distances.chunks[1] == (3,)
    np.testing.assert_array_equal(labels.compute(), model.predict(frame))
    np.testing.assert_array_equal(distances.compute(), model.transform(frame))


def test_unknown_divisions_and_new_columns():
    model, frame = fitted("craft")
    X = dd.from_pandas(frame, npartitions=3).clear_divisions()
    assert not model.predict(X).known_divisions
    both = X.assign(cluster=model.predict(X), margin=model.margins(X)).compute()
    np.testing.assert_array_equal(both["cluster"], model.predict(frame))
    np.testing.assert_array_equal(both["margin"], model.margins(frame))


@pytest.mark.parametrize("change", ["known", "unknown", "arrow", "object", "order"])
def test_types_of_columns(change):
    """Categories that Dask knows or not, text of pyarrow, columns in another order."""
    model, frame = fitted("craft")
    X = dd.from_pandas(frame, npartitions=3)
    assert X["level"].cat.known
    if change == "unknown":
        X = X.assign(level=X["level"].cat.as_unknown())
    elif change == "arrow":
        X = X.astype({"text": pd.ArrowDtype(pytest.importorskip("pyarrow").string())})
    elif change == "object":
        with dask.config.set({"dataframe.convert-string": False}):
            X = dd.from_pandas(frame.astype({"text": object, "level": object}), npartitions=3)
    elif change == "order":
        X = X[list(frame.columns[::-1])]
    np.testing.assert_array_equal(model.predict(X).compute(), model.predict(frame))
    np.testing.assert_array_equal(model.transform(X).compute(), model.transform(frame))


def test_parquet_files(tmp_path):
    pytest.importorskip("pyarrow", reason="Parquet files need pyarrow")
    model, frame = fitted("craft")
    for i in range(3):
        frame.iloc[80 * i : 80 * (i + 1)].reset_index(drop=True).to_parquet(tmp_path / f"{i}.parquet")
    np.testing.assert_array_equal(model.predict(dd.read_parquet(tmp_path)).compute(), model.predict(frame))


def test_further_arguments():
    model, frame = fitted("dp-means")
    X = dd.from_pandas(frame + 1000.0 * (np.arange(N) == 7)[:, None], npartitions=3)
    for labels in (model.predict(X, True), model.predict(X=X, open_cluster=True)):
        assert labels.compute().tolist().index(-1) == 7


def test_further_columns_of_a_model_that_drops_columns():
    frame, _ = mixed()
    model = CRAFT(3, unusable="drop", n_init=1, random_state=0).fit(frame)
    X = dd.from_pandas(frame.assign(more=1.0), npartitions=2)
    np.testing.assert_array_equal(model.predict(X).compute(), model.predict(frame))


@pytest.mark.parametrize("name", ["covariates", "spectral"])
def test_files_are_read_in_batches(name, tmp_path):
    """Also by estimators whose fit reads tables in memory only."""
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    model, frame = fitted(name)
    for i in range(2):
        pq.write_table(
            pa.Table.from_pandas(frame.iloc[120 * i : 120 * (i + 1)], preserve_index=False),
            tmp_path / f"{i}.parquet",
        )
    np.testing.assert_array_equal(model.transform(tmp_path), model.transform(frame), strict=True)


# ---- what is in the graph ----


def size(collection):
    """Bytes of the tasks of a graph; each is sent by itself."""
    return sum(len(pickle.dumps(task)) for task in dict(collection.__dask_graph__()).values())


LONG = 20_000


@cache
def long_table():
    rng = np.random.default_rng(0)
    group = rng.integers(0, 3, LONG)
    return pd.DataFrame(rng.normal(size=(LONG, 3)) + 5.0 * group[:, None], columns=list("abc")), group


def rows_of_long(number):
    return long_table()[0].iloc[100 * number : 100 * (number + 1)]


@pytest.mark.filterwarnings("ignore:X does not have valid feature names:UserWarning")
@pytest.mark.filterwarnings("ignore:DPMeans ended with")
@pytest.mark.parametrize(
    ("model", "n"),
    [
        (CRAFT(3, init=np.arange(LONG) % 5, random_state=0), LONG),
        (DPMeans(n_clusters=3, init=np.arange(LONG) % 5), LONG),
        (KFeatures(2, n_init=1, exchanges=False, random_state=0), LONG),
        (
            FeatureSelectionMixture(3, init=np.full((LONG, 3), 1 / 3), max_iter=3, tol=1.0, random_state=0),
            LONG,
        ),
        (ConvexCovariateClustering(), 300),
        (GraphSpectralFeatures(2, random_state=0), 2000),
    ],
    ids=lambda value: type(value).__name__,
)
def test_the_graph_holds_one_light_model(model, n):
    frame, group = long_table()
    model = clone(model).fit(frame.iloc[:n], group[:n])
    light = len(pickle.dumps(without_rows(model)))
    assert light < 30_000
    X = dd.from_map(rows_of_long, range(200), meta=frame.iloc[:0])
    Y = da.zeros((LONG, 3), chunks=(100, 3))
    for collection in (X, Y):  # 200 models would take more
        assert size(method_of(model)(collection)) - size(collection) < light + 200 * 1500


def test_a_light_model():
    """`without_rows` changes its copy only, which predicts as the model does."""
    model, frame = fitted("craft")
    before = dict(vars(model))
    light = without_rows(model)
    assert vars(model) == before
    assert not {"labels_", "margins_", "merge_path_"} & vars(light).keys()
    assert light.get_params() == model.get_params() | {"random_state": None}
    np.testing.assert_array_equal(light.predict(frame), model.predict(frame))


def test_a_model_that_was_fitted_on_a_collection():
    """Its labels are a collection, which no graph of predictions may hold."""
    frame, _ = mixed()
    X = dd.from_pandas(frame, npartitions=3)
    model = CRAFT(3, n_init=1, random_state=0).fit(X)
    assert is_collection(model.labels_)
    assert [name for name, value in vars(without_rows(model)).items() if is_collection(value)] == []
    assert len(pickle.dumps(without_rows(model))) < 45_000
    np.testing.assert_array_equal(model.predict(X).compute(), model.labels_.compute())
    np.testing.assert_array_equal(model.predict(frame), model.labels_.compute())


def test_a_result_does_not_change_with_the_model():
    frame, _ = numbers()
    model = DPMeans(n_clusters=3).fit(frame)
    expected, lazy = model.predict(frame), model.predict(dd.from_pandas(frame, npartitions=2))
    model.set_params(n_clusters=2).fit(frame * 2.0)
    np.testing.assert_array_equal(lazy.compute(), expected)


# ---- refusals ----


def test_what_is_a_collection():
    frame, _ = numbers()
    for X in (
        dd.from_pandas(frame, npartitions=1),
        da.zeros((3, 2)),
        dask.delayed(frame),
        dd.from_pandas(frame["a"], npartitions=1),
    ):
        assert is_collection(X)
    for X in (frame, frame.to_numpy(), "folder", None, [1.0], {"a": [1.0]}):
        assert not is_collection(X)


@pytest.mark.parametrize("name", ["dp-means", "mixture", "covariates"])
def test_columns_in_another_order(name):
    model, frame = fitted(name)
    method = method_of(model)
    X = dd.from_pandas(frame[frame.columns[::-1]], npartitions=3)
    np.testing.assert_array_equal(method(X).compute(), method(frame))


@pytest.mark.filterwarnings("ignore:X does not have valid feature names:UserWarning")
@pytest.mark.parametrize("name", ["craft", "dp-means", "mixture", "covariates", "spectral"])
def test_other_columns_are_refused_at_once(name):
    model, frame = fitted(name)
    method = method_of(model)
    source = Partitions(frame, CUTS[0])
    X = source.frame()
    for other in (X.drop(columns="a"), X.assign(more=1.0), X.rename(columns={"a": "A"})):
        with pytest.raises(ValueError, match="feature names should match those that were passed during fit"):
            method(other)
    with pytest.raises(ValueError, match=r"X has 3 features, but .* is expecting"):
        method(da.zeros((6, 3)))
    with pytest.raises(ValueError, match="Expected 2D array, got a Dask Array of 1 dimension"):
        method(da.zeros(3))
    square = da.zeros((5, 5))
    with pytest.raises(ValueError, match="number of columns of the Dask Array is unknown"):
        method(square[:, square[0] == 0])
    for other in (X["b"], dask.delayed(frame)):
        with pytest.raises(
            TypeError,
            match=r"takes a Dask DataFrame or a Dask Array of two dimensions, got a Dask (Series|Delayed)",
        ):
            method(other)
    assert READ == []


def test_a_model_that_is_not_fitted():
    frame, _ = numbers()
    for model in (
        CRAFT(),
        DPMeans(),
        KFeatures(),
        FeatureSelectionMixture(),
        ConvexCovariateClustering(),
        GraphSpectralFeatures(),
    ):
        with pytest.raises(ValueError, match="is not fitted yet"):
            method_of(model)(dd.from_pandas(frame, npartitions=1))


@pytest.mark.filterwarnings("ignore:X does not have valid feature names:UserWarning")
def test_errors_name_the_partition():
    model, frame = fitted("dp-means")
    bad = frame.copy()
    bad.iloc[150, 2] = np.inf
    with pytest.raises(ValueError, match=r"Partition 1: .*infinity"):
        model.predict(dd.from_pandas(bad, npartitions=2)).compute()
    with pytest.raises(ValueError, match=r"Partition 1: .*infinity"):
        model.transform(da.from_array(bad.to_numpy(), chunks=(120, 2))).compute()
    model, frame = fitted("craft")
    strict = clone(model).set_params(unknown="error").fit(frame)
    parts = [frame.iloc[:100], frame.iloc[100:].assign(text="new")]
    with pytest.raises(
        ValueError, match=r"Partition 1: Column 'text' contains 1 level\(s\) that did not occur in fit"
    ):
        strict.margins(dd.from_map(lambda number: parts[number], range(2), meta=frame.iloc[:0])).compute()


def test_methods_that_a_model_lacks():
    frame, _ = numbers()
    model = PaperCRAFT(3, n_init=1, random_state=0).fit(frame)
    with pytest.raises(AttributeError, match="predict_proba"):
        model.predict_proba(dd.from_pandas(frame, npartitions=1))


def test_output_of_transform():
    """scikit-learn would convert the result to a table in memory."""
    frame, _ = numbers()
    X = dd.from_pandas(frame, npartitions=2)
    model = DPMeans(n_clusters=3).fit(frame)
    with pytest.raises(ValueError, match="set to 'pandas', a table in memory; call set_output"):
        clone(model).fit(frame).set_output(transform="pandas").transform(X)
    with config_context(transform_output="pandas"):
        with pytest.raises(ValueError, match="set to 'pandas'"):
            model.transform(X)
        assert model.predict(X).compute().tolist() == model.labels_.tolist()


@pytest.mark.slow
def test_on_a_cluster():
    """The results do not depend on who computes them, and the model stays a plain object."""
    distributed = pytest.importorskip("distributed", reason="pip install 'craftc[dask]'")
    model, frame = fitted("craft")
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0"
        ) as cluster,
        distributed.Client(cluster) as client,
        dask.config.set(scheduler=client),
    ):
        X = dd.from_pandas(frame, npartitions=7).persist()
        for method in METHODS:
            np.testing.assert_array_equal(
                getattr(model, method)(X).compute(), getattr(model, method)(frame), err_msg=method
            )
        assert len(pickle.dumps(model)) < 60_000
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict(frame), model.labels_)
