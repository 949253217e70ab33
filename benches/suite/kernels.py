"""One step of a CRAFT fit at a time, on one thread."""

from __future__ import annotations

from typing import Any

import numpy as np

from craftc._kernels import craft as craft_kernel
from craftc._kernels import moments as moments_kernel

from .common import partition

COLUMNS = {  # numbers, categories, dtype of the numbers
    "16 numbers": (16, 0, "float64"),
    "16 float32": (16, 0, "float32"),
    "16 categories": (0, 16, "float64"),
    "8 + 8": (8, 8, "float64"),
    "8 float32 + 8": (8, 8, "float32"),
    "100 + 100": (100, 100, "float64"),
}


class _OnRows:
    """Work that grows with the rows."""

    params: Any = ([20_000, 100_000], [*COLUMNS][:-1], [4, 16, 64])
    param_names = ("rows", "columns", "clusters")

    def setup(self, n: int, columns: str, k: int) -> None:
        p, q, dtype = COLUMNS[columns]
        self.given = partition(n, p, q, k, dtype)


class Assign(_OnRows):
    """The pass over all rows: cheapest cluster, moments of the rows that move."""

    def setup(self, n: int, columns: str, k: int) -> None:
        super().setup(n, columns, k)
        self.tables = self.given.clusters.tables()
        self.scratch = np.empty((1, craft_kernel.scratch_size(self.tables)))
        self.best = np.empty(n)
        self.groups = np.empty_like(self.given.moments.groups)
        self.partial = np.zeros((1, *self.groups.shape), np.int64)
        self.labels = np.empty_like(self.given.labels)
        self.restart()
        self.assign()

    def restart(self) -> None:
        self.labels[:] = self.given.labels
        self.groups[:] = self.given.moments.groups

    def assign(self) -> int:
        table = self.given.table
        return craft_kernel.assign(
            table.numeric, table.codes, self.given.weight, self.tables, self.labels, self.best,
            self.scratch, self.partial, self.groups, 1,
        )  # fmt: skip

    def time_nothing_moves(self, *_: Any) -> None:
        self.assign()

    def time_a_fifth_moves(self, *_: Any) -> None:
        self.restart()
        self.assign()


class Accumulate(_OnRows):
    """Exact moments of all rows from scratch."""

    def setup(self, n: int, columns: str, k: int) -> None:
        super().setup(n, columns, k)
        self.groups = np.empty_like(self.given.moments.groups)
        self.partial = np.zeros((1, *self.groups.shape), np.int64)

    def time_accumulate(self, *_: Any) -> None:
        given = self.given
        self.groups.fill(0)
        moments_kernel.accumulate(
            given.table.numeric, given.table.codes, given.weight, given.labels, given.grid,
            self.partial, self.groups, 1,
        )  # fmt: skip


class Refit:
    """What a pass costs per cluster and feature: gains, and the cost tables of the next pass."""

    params: Any = (["8 + 8", "100 + 100"], [4, 16, 64])
    param_names = ("columns", "clusters")

    def setup(self, columns: str, k: int) -> None:
        p, q, dtype = COLUMNS[columns]
        self.given = partition(2_000, p, q, k, dtype)
        clusters = self.given.clusters
        self.gain = np.empty_like(clusters.gains)
        clusters.tables()  # what is computed once is computed here

    def time_gains(self, *_: Any) -> None:
        given = self.given
        background, clusters = given.background, given.clusters
        craft_kernel.gains(
            given.moments.groups, given.grid, given.unit, background.frequency, background.variance,
            background.usable, clusters.shift, clusters.deviations, 1.0, self.gain,
        )  # fmt: skip

    def time_cost_tables(self, *_: Any) -> None:
        self.given.clusters.tables()
