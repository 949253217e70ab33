"""Fits on the workers of a Dask cluster of this machine, which read Parquet files."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from .tools import Imports

new = Imports()
with new:
    import pyarrow as pa
    import pyarrow.parquet as pq
    from distributed import Client, LocalCluster

    from .common import frame
    from .partitions import COLUMNS, counted_rounds, fit
setup = new.setup


class Dask:
    """A fit of Parquet files by worker processes of one thread: as many rows for each worker ("weak"), or the
    same rows ("strong").
    """

    params: Any = (["weak", "strong"], [1, 2], [20_000, 1_000_000])
    param_names = ("scaling", "workers", "rows")
    timeout = 300

    def setup(self, scaling: str, n_workers: int, n: int) -> None:
        """Rows: of a worker, or half of all."""
        n_files = 2 * n_workers if scaling == "weak" else 4
        self.folder = tempfile.mkdtemp()
        whole = pa.Table.from_pandas(frame(n * n_files // 2, COLUMNS, COLUMNS), preserve_index=False)
        for i in range(n_files):
            pq.write_table(whole.slice(i * n // 2, n // 2), Path(self.folder) / f"{i}.parquet")
        self.cluster = LocalCluster(
            n_workers=n_workers, threads_per_worker=1, processes=True, dashboard_address=":0"
        )
        self.client = Client(self.cluster)
        self.fit()  # workers import craftc

    def teardown(self, scaling: str, n_workers: int, n: int) -> None:
        self.client.close()
        self.cluster.close()
        shutil.rmtree(self.folder)

    def fit(self) -> Any:
        return fit(self.folder, client=self.client)

    def time_fit(self, scaling: str, n_workers: int, n: int) -> None:
        self.fit()

    def track_cpu(self, scaling: str, n_workers: int, n: int) -> float:
        """Processor time of this process and of the workers."""
        start = self._cpu()
        self.fit()
        return self._cpu() - start

    def track_n_rounds(self, scaling: str, n_workers: int, n: int) -> int:
        """Rounds of messages to the workers."""
        return counted_rounds(self.fit)

    track_cpu.unit = "seconds"

    def _cpu(self) -> float:
        return sum(self.client.run(cpu_seconds).values()) + cpu_seconds()


def cpu_seconds() -> float:
    """Processor time of a process so far."""
    times = os.times()
    return times.user + times.system
