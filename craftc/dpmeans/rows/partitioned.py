"""Rows in partitions under DP-means: the same answers as those of `craftc.dpmeans.rows.local`.

Sums of partitions are integers, so that their total is that of the whole table. In a serial sweep this
process visits the rows beyond lambda in order and decides which of them open clusters; then every partition
compares its rows with the new centres of earlier rows.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from craftc._common.dense_data import DenseData, NumberTable
from craftc._common.labels import by_first_row
from craftc._common.random import DPMeansStream, spread, uniform
from craftc._common.typing import Array, DaskCollection, Floats, Integers, Labels
from craftc._kernels import dpmeans as _kernel
from craftc._kernels import dpmeans_sweep as _sweep
from craftc._kernels import moments as _moments
from craftc.distributed.engine import FarLabels
from craftc.distributed.partitioned_table import PartitionedTable
from craftc.distributed.partitions import MOST_GIVEN, OneCluster, Renumbered
from craftc.dpmeans.descent import SphericalFit, Sweeps, limit_of
from craftc.dpmeans.rows import recipes as operations
from craftc.dpmeans.rows.assignment import Assignment
from craftc.dpmeans.rows.bounded import CentreMoves
from craftc.dpmeans.rows.recipes import (
    LabelsAlone,
    Nearest,
    NearestBounded,
    NearestSoFar,
    Opened,
    RandomLabels,
)

_PAGE = 4096  # rows that may open a cluster in one answer of a partition
_FEWEST_OF_PAGE = 16  # the same of a partition whose rows may have to wait for earlier ones


Start = tuple[FarLabels, int]  # labels and an upper limit of their number of clusters


class PartitionedNumbers(NumberTable[FarLabels]):
    """The numbers of a table in partitions."""

    def __init__(self, table: PartitionedTable) -> None:
        self.partitions, self.engine = table, table.engine
        low, high = table.column_ranges()
        super().__init__(
            len(table), low, high, float(len(table)), 1.0, 1.0, bool(table.schema.dtype == np.float32)
        )

    def one_cluster(self) -> FarLabels:
        return self.engine.labels(OneCluster())

    def sums_of(self, labels: FarLabels, K: int) -> _kernel.Sums:
        """Exact sums of every cluster of a partition, and room for some more."""
        sums = self.sums_with_room(K)
        for of_part, counts in self.engine.ask(operations.sums_of, (labels,), self.middle, self.grid, K):
            sums.sums[:K] += of_part
            sums.counts[:K] += counts
        return sums

    def _groups(self, labels: FarLabels, some: slice, whole: bool, grid: _moments.Grid) -> Integers:
        K = some.stop - some.start
        found = np.stack(self.engine.ask(operations.groups, (labels,), None if whole else some, K, grid))
        total = np.zeros((K, grid.width), np.int64)
        _moments.merge_partial(found, total, grid.first_numeric)
        return total


class PartitionedAssignment(Assignment[FarLabels]):
    """Rows in partitions.

    `limit`, `cap`: as those of `Assignment`. `labels`: start partition. `K`: its labels are 0..K-1; some
    may be unused.
    """

    def __init__(self, data: PartitionedNumbers, limit: float, cap: int, labels: FarLabels, K: int) -> None:
        self.data, self.engine, self._labels = data, data.engine, labels
        super().__init__(data, limit, cap, K, data.sums_of(labels, K))

    @property
    def labels(self) -> FarLabels:
        return self._labels

    def renumber(self, number: NDArray[np.int32]) -> None:
        self._labels = self.engine.labels(Renumbered(number), self._labels)

    def first_appearance(self) -> NDArray[np.intp]:
        return by_first_row(self.engine.ask(operations.first_rows, (self._labels,), self.K))

    def _assign(self, moves: CentreMoves, keep: bool) -> tuple[int, int]:
        return self._changed(self.engine.labels(NearestBounded(self.table.geometry, moves), self._labels))

    def _changed(self, labels: FarLabels) -> tuple[int, int]:
        """Continue with labels whose recipe counts what it does."""
        self._labels = labels
        changes = [each for each in self.engine.ask(operations.change, (labels,)) if each is not None]
        for change in changes:
            self.sums.sums[: self.K] += change.sums
            self.sums.counts[: self.K] += change.counts
        return sum(change.moved for change in changes), sum(change.beyond for change in changes)

    def open_in_order(self) -> int:
        rows, cells = self._opening_rows()
        self.add_centres(cells)
        return self._changed(
            self.engine.labels(Opened(self.table.geometry, self.mu, rows, True, True), self._labels)
        )[0]

    def _opening_rows(self) -> tuple[NDArray[np.int64], Array]:
        """The rows that open clusters in a serial sweep, and their cells; candidates come in pages."""
        starts, after = self.data.partitions.starts, -1
        rows: list[int] = []
        cells = np.empty((0, self.data.n_columns))
        while True:
            current = int(np.searchsorted(starts[1:], after + 1, side="right"))
            most = [
                _PAGE if i <= current else max(_FEWEST_OF_PAGE, _PAGE // self.engine.n_partitions)
                for i in range(self.engine.n_partitions)
            ]
            pages = self.engine.ask(
                operations.candidates, (self._labels,), cells, self.limit, after, each=most
            )
            seen = len(cells)
            for positions, page, more in pages:
                squared, first = np.full(len(page), np.inf), 0
                for centre in cells[seen:]:
                    _kernel.update_nearest(page, centre, squared, 1)
                while len(far := np.flatnonzero(squared[first:] > self.limit)):
                    first += int(far[0]) + 1
                    rows.append(int(positions[first - 1]))
                    cells = np.concatenate([cells, page[first - 1 : first].astype(np.float64)])
                    if self.K + len(rows) == self.cap:
                        return np.array(rows, np.int64), cells
                    _kernel.update_nearest(page, cells[-1], squared, 1)
                if len(page):
                    after = int(positions[-1])
                if more:  # rows of later partitions wait for the rest of this one
                    break
            else:
                return np.array(rows, np.int64), cells

    def open_farthest(self) -> None:
        found = [
            each
            for each in self.engine.ask(operations.farthest, (self._labels,), self.mu, self._centres.scale)
            if each
        ]
        _, row, cluster, cells = max(found, key=lambda each: (each[0], -each[1]))
        self.add_centres(cells)
        labels, bounds = np.array([cluster], np.int32), np.zeros((2, 1), np.float32)
        _sweep.open_at(cells, self.mu, self._centres.scale, 0, labels, bounds[0], bounds[1], self.sums)
        self._last_is_new = self._quick_checks_pay()  # the next sweep bounds it
        moved = Opened(self.table.geometry, self.mu, np.array([row], np.int64), False, not self._last_is_new)
        self._labels = self.engine.labels(moved, self._labels)


class DPMeansPartitionedRows:
    """`DPMeansRows` in partitions."""

    def __init__(self, partitions: PartitionedTable) -> None:
        self.partitions, self.engine = partitions, partitions.engine
        self.table = PartitionedNumbers(partitions)
        self.n_counted = len(partitions)

    def __len__(self) -> int:
        return len(self.partitions)

    # ---- start partitions ----

    def one_cluster(self) -> Start:
        return self.table.one_cluster(), 1

    def random_labels(self, K: int, seed: int, start: int) -> Start:
        return self.engine.labels(RandomLabels(K, seed, start)), K

    def nearest_labels(self, centers: Floats) -> Start:
        return self.engine.labels(Nearest(centers)), len(centers)

    def farthest(self, centers: Floats, labels: FarLabels | None = None) -> tuple[float, Array]:
        squared, _, cells = _farthest(self.engine.ask(operations.farthest_from, (), centers))
        return squared, cells

    def sweeps(self, penalty: float, cap: int, start: Start, seed: int, number: int) -> Sweeps[FarLabels]:
        labels, K = start
        return Sweeps(
            PartitionedAssignment(self.table, limit_of(self.table, penalty), cap, labels, K), penalty
        )

    def leaders(self, limit: float, cap: int) -> Floats:
        rows = PartitionedAssignment(self.table, limit, cap, *self.one_cluster())
        if rows.may_open():
            rows.assign()
            rows.add_centres(rows._opening_rows()[1])
        return rows.mu

    def labels_of_all(self, counted: Labels) -> Start:
        raise NotImplementedError("The search on all rows needs them in memory.")

    # ---- single rows ----

    def gathered(self, rows: NDArray[np.intp] | None = None) -> DenseData:
        chosen = np.arange(len(self)) if rows is None else rows
        return DenseData(np.ascontiguousarray(self.partitions.take(chosen).numeric), None, 1)

    def counted(self) -> DenseData:
        return self.gathered()

    def spread_rows(self, most: int) -> Array:
        """Rows spread evenly over the table, or all."""
        n = len(self)
        return self.gathered(None if n <= most else spread(n, most, 0)).X

    def random_row(self, seed: int, start: int) -> Floats:
        row = min(int(float(uniform(seed, DPMeansStream.ROW, start)) * len(self)), len(self) - 1)
        return self.gathered(np.array([row])).X.astype(np.float64)

    def farthest_first(self, n_clusters: int) -> tuple[NDArray[np.intp], Floats, Floats]:
        rows, found = np.zeros(n_clusters, np.intp), np.zeros(n_clusters)
        cells = np.zeros((n_clusters, self.table.n_columns))
        labels = self.engine.labels(NearestSoFar(self.table.mean))
        for k in range(n_clusters):
            found[k], rows[k], cells[k] = _farthest(self.engine.ask(operations.largest, (labels,)))
            labels = self.engine.labels(NearestSoFar(cells[k].copy()), labels)
        return rows, cells, found

    # ---- the result ----

    def in_form_of_input(self, fit: SphericalFit[FarLabels]) -> DaskCollection | Array:
        """The labels as the collection returns them, by a recipe of the last centres where that is short."""
        labels = self.engine.labels(LabelsAlone(), fit.labels)
        if fit.last_centers is not None:
            found = self.engine.ask(operations.exceptions, (labels,), fit.last_centers, MOST_GIVEN + 1)
            rows, given = (np.concatenate(arrays) for arrays in zip(*found, strict=True))
            if len(rows) <= MOST_GIVEN:
                labels = self.engine.labels(Nearest(fit.last_centers, rows, given))
        output: DaskCollection | Array = self.partitions.output().labels(labels.node)
        return output


def _farthest(each: Iterable[tuple[float, int, Array] | None]) -> tuple[float, int, Array]:
    """Of the farthest rows of all partitions that have rows (ties: the first)."""
    found: tuple[float, int, Array] = max((one for one in each if one), key=lambda one: (one[0], -one[1]))
    return found
