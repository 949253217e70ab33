"""Files that the workers of a Dask cluster read."""

from __future__ import annotations

import numpy as np
import pytest

from craftc import CRAFT, DPMeans

pa = pytest.importorskip("pyarrow", reason="Parquet files need pyarrow")


@pytest.mark.parametrize("model", [CRAFT(), DPMeans()], ids=["CRAFT", "DPMeans"])
def test_a_stream_cannot_be_read_by_workers(model):
    batch = pa.record_batch({"a": np.arange(9.0), "b": np.arange(9.0) % 2})
    stream = pa.RecordBatchReader.from_batches(batch.schema, [batch])
    with pytest.raises(TypeError, match="stream of record batches"):
        model.fit(stream, client=object())
    assert len(stream.read_all()) == len(batch)
