"""Predictions on Spark: the function that Spark calls with batches of rows, and Spark itself where it is
installed.
"""

from __future__ import annotations

import os
import pickle
import shutil
import sys

import numpy as np
import pytest

from craftc import (
    CRAFT,
    BPMeans,
    ConvexClustering,
    ConvexCovariateClustering,
    DPMeans,
    FeatureSelectionMixture,
    GraphSpectralFeatures,
)
from craftc.distributed import spark_predict
from tests.common import ROOT

pd = pytest.importorskip("pandas", reason="Spark passes pandas frames")


def table(n=120):
    """Rows with missing cells, a key, and their groups."""
    rng = np.random.default_rng(0)
    group = rng.integers(0, 2, n)
    text = np.array(["town", "web"], object)[np.where(rng.random(n) < 0.9, group, 0)]
    frame = pd.DataFrame({"key": np.arange(n), "spent": rng.normal(20.0 + 60.0 * group, 8.0), "shop": text})
    frame.loc[::11, "spent"] = np.nan
    frame.loc[::13, "shop"] = None
    return frame, group


@pytest.fixture(scope="module")
def craft():
    frame, _ = table()
    return CRAFT(2, n_init=1, random_state=0).fit(frame[["spent", "shop"]])


def batches(frame, *ends):
    return [frame.iloc[start:stop] for start, stop in zip([0, *ends], [*ends, len(frame)], strict=True)]


def test_batches(craft):
    """Several, of one row and of no rows, with missing cells and levels that the fit has not seen."""
    frame, _ = table()
    frame.loc[5, "shop"] = "phone"
    expected = frame.assign(cluster=craft.predict(frame[["spent", "shop"]]))
    assign = pickle.loads(pickle.dumps(spark_predict(craft)))
    parts = batches(frame, 0, 1, 60, 60)
    found = list(assign(iter(parts)))
    assert [len(part) for part in found] == [0, 1, 59, 0, 60]
    for part in found:
        assert part.columns.tolist() == ["key", "spent", "shop", "cluster"]
        assert part["cluster"].dtype == np.int32
    pd.testing.assert_frame_equal(pd.concat(found), expected)
    assert "cluster" not in frame.columns
    assert list(assign(iter([]))) == []


def test_batches_come_one_by_one(craft):
    frame, _ = table()
    read = []

    def source():
        for i, part in enumerate(batches(frame, 40, 80)):
            read.append(i)
            yield part

    found = spark_predict(craft)(source())
    next(found)
    assert read == [0]


def test_columns_and_output(craft):
    frame, _ = table()
    [found] = spark_predict(craft, output="segment", columns=["key"])(iter([frame]))
    assert found.columns.tolist() == ["key", "segment"]
    np.testing.assert_array_equal(found["segment"], craft.labels_)
    [found] = spark_predict(craft, columns=[])(iter([frame]))
    assert found.columns.tolist() == ["cluster"]
    with pytest.raises(ValueError, match="has a column 'key'; pass another name as output"):
        list(spark_predict(craft, output="key")(iter([frame])))
    with pytest.raises(ValueError, match=r"now missing:\n- spent"):
        list(spark_predict(craft)(iter([frame.drop(columns="spent")])))
    with pytest.raises(TypeError, match=r"columns must be a sequence of names, got 'key'; pass \['key'\]"):
        spark_predict(craft, columns="key")
    with pytest.raises(ValueError, match=r"columns names 'zz', 'yy', which the input lacks; it has .*'key'"):
        list(spark_predict(craft, columns=["zz", "key", "yy"])(iter([frame])))


def test_other_models():
    frame, group = table()
    numbers = pd.DataFrame({"a": frame["key"] * 1.0, "b": 9.0 * group}).assign(c=0.5 * frame["key"] + group)
    for model in (
        DPMeans(n_clusters=2),
        FeatureSelectionMixture(3, n_init=1, random_state=0),
        ConvexCovariateClustering(1.0),
    ):
        model.fit(numbers, np.array(["no", "yes"])[group])
        [empty, rows] = spark_predict(model)(iter([numbers.iloc[:0], numbers]))
        np.testing.assert_array_equal(rows["cluster"], model.predict(numbers))
        assert len(empty) == 0
    model = DPMeans(n_clusters=2).fit(numbers.to_numpy())  # without names: by position
    with pytest.warns(UserWarning, match="fitted without feature names"):
        [rows] = spark_predict(model)(iter([numbers]))
    np.testing.assert_array_equal(rows["cluster"], model.labels_)


@pytest.mark.filterwarnings("ignore:.*standard deviations:UserWarning")
def test_models_without_one_label_per_row():
    frame, _ = table()
    X = np.column_stack([frame["key"], frame["key"] % 7, frame["key"] % 3]).astype(float)[:40]
    for model in (BPMeans(99.0, n_init=1, random_state=0), ConvexClustering(1.0), GraphSpectralFeatures(1)):
        with pytest.raises(TypeError, match=f"one label for each row, got {type(model).__name__}"):
            spark_predict(model.fit(X))
    with pytest.raises(ValueError, match="is not fitted yet"):
        spark_predict(CRAFT())


def test_the_function_is_small():
    frame, _ = table(30_000)
    model = CRAFT(2, n_init=1, random_state=0).fit(frame[["spent", "shop"]])
    assert len(pickle.dumps(model)) > 120_000
    assert len(pickle.dumps(spark_predict(model))) < 30_000


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of Spark and its libraries
def test_a_local_spark(craft, monkeypatch):
    sql = pytest.importorskip(
        "pyspark.sql", reason="pyspark is not installed; it is no part of craftc[test], for its size"
    )
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java, which is not on the path")
    frame, _ = table()
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
    session = sql.SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    try:
        rows = session.createDataFrame(
            [tuple(row) for row in frame.itertuples(index=False)], "key long, spent double, shop string"
        )
        found = (
            rows.repartition(3)
            .mapInPandas(spark_predict(craft, columns=["key"]), "key long, cluster int")
            .toPandas()
        )
    finally:
        session.stop()
    found = found.sort_values("key")
    assert found["cluster"].dtype == np.int32
    np.testing.assert_array_equal(found["cluster"], craft.predict(frame[["spent", "shop"]]))
