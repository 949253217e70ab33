"""Files that the workers of a Dask cluster read, and frames of files."""

from __future__ import annotations

from copy import copy

import numpy as np
import pytest

from craftc import CRAFT, DPMeans

pa = pytest.importorskip("pyarrow", reason="Parquet files need pyarrow")
pd = pytest.importorskip("pandas")
dd = pytest.importorskip("dask.dataframe", reason="pip install 'craftc[dask]'")


@pytest.mark.parametrize("model", [CRAFT(), DPMeans()], ids=["CRAFT", "DPMeans"])
def test_a_stream_cannot_be_read_by_workers(model):
    table = pa.table({"a": np.arange(9.0), "b": np.arange(9.0) % 2})
    stream = table.to_reader()
    with pytest.raises(TypeError, match="stream of record batches"):
        model.fit(stream, client=object())
    assert len(stream.read_all()) == len(table)


@pytest.mark.parametrize("columns", [["a", "b", "c"], ["a"]], ids=str)
def test_labels_join_the_rows_of_files_whose_index_repeats(tmp_path, columns):
    """Dask would join by the index where divisions are unknown; the way of docs/scale.md joins partition by
    partition.
    """
    rng = np.random.default_rng(0)
    whole = pd.DataFrame({name: rng.normal(size=90) + 9.0 * rng.integers(0, 2, 90) for name in "abc"})
    for i in range(3):
        whole[30 * i : 30 * i + 30].reset_index(drop=True).to_parquet(tmp_path / f"{i}.parquet")
    rows = dd.read_parquet(tmp_path)
    assert not rows.known_divisions
    model = DPMeans(20.0)
    expected = model.fit(whole[columns]).labels_
    labels = model.fit(rows[columns]).labels_
    named = dd.map_partitions(
        lambda part, labels: part.assign(cluster=labels), rows, labels, align_dataframes=False
    )
    assert named.compute()["cluster"].tolist() == expected.tolist()
    assert named.partitions[2].compute()["cluster"].tolist() == expected[60:].tolist()
    assert len(set(expected)) > 1


def test_stability_needs_the_labels_of_the_rows():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(60, 2)) + np.repeat([[0.0], [9.0]], 30, axis=0), columns=["a", "b"])
    model = CRAFT(random_state=0).fit(dd.from_pandas(X, npartitions=2))
    for each in (model, copy(model)):
        with pytest.raises(ValueError, match="holds no labels of its rows"):
            each.stability(X, n=1, n_seeds=0)
