"""Tables larger than memory: decoding Parquet files into scratch files, passes over mapped blocks, and whole
fits.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

from .tools import Imports, quietly

new = Imports()
with new:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from craftc import CRAFT, MixedTable

    from .common import frame
setup = new.setup

COLUMNS = 8  # of each kind


class _Files:
    """A table in four Parquet files."""

    params: Any = ([20_000, 1_000_000],)
    param_names = ("rows",)

    def setup(self, n: int) -> None:
        self.folder = tempfile.mkdtemp()
        whole = pa.Table.from_pandas(frame(n, COLUMNS, COLUMNS), preserve_index=False)
        for i in range(4):
            rows = whole.slice(i * n // 4, (i + 1) * n // 4 - i * n // 4)
            pq.write_table(rows, Path(self.folder) / f"{i}.parquet")

    def teardown(self, n: int) -> None:
        shutil.rmtree(self.folder)


class Blocks(_Files):
    """The steps of reading."""

    def time_read(self, n: int) -> None:
        """Decode, encode and write."""
        MixedTable.from_parquet(self.folder)

    def peakmem_read(self, n: int) -> None:
        MixedTable.from_parquet(self.folder)

    def time_predict(self, n: int) -> None:
        """Decode, and assign the rows of every batch."""
        self.model.predict(self.folder)

    def setup(self, n: int) -> None:
        super().setup(n)
        self.model = fit(frame(20_000, COLUMNS, COLUMNS))


class OutOfCore(_Files):
    """A fit of the files, and of the table in memory."""

    def time_fit(self, n: int) -> None:
        fit(self.folder)

    def time_fit_in_memory(self, n: int) -> None:
        fit(pq.read_table(self.folder))

    def peakmem_fit(self, n: int) -> None:
        fit(self.folder)

    def track_objective(self, n: int) -> float:
        """Nats; that of the table in memory."""
        return float(fit(self.folder).objective_)

    track_objective.unit = "nats"


def fit(X: Any) -> CRAFT:
    model: CRAFT = quietly(CRAFT(random_state=0, n_threads=1), X)
    return model
