"""The rows of a table of this process."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from craftc._common.labels import chunks, compact, first_appearance, renumber
from craftc._common.merge_path import MergePath
from craftc._common.random import spread
from craftc._common.threads import parallel_map, threads_for
from craftc._common.typing import Array, Floats, Integers, Labels
from craftc._common.validation import integer_weights
from craftc._kernels import craft_passes as passes_kernel
from craftc._kernels import craft_price as price_kernel
from craftc._kernels.craft import CostTables
from craftc._kernels.craft_cross_products import Conditionals
from craftc._kernels.craft_rows import rows_in
from craftc._kernels.moments import Grid
from craftc.craft.clusters import Clusters, assign_only
from craftc.craft.fitted import CarriedSums, sums_of_table
from craftc.craft.products import CrossProducts, add_products, products_of
from craftc.craft.rows import (
    Answer,
    Asking,
    Candidates,
    Cells,
    Encoding,
    Passes,
    PassSpace,
    distinct_rows,
)
from craftc.craft.rows.scores import RowStatistics
from craftc.table import MixedTable, Schema
from craftc.table.bins import Tally, table_tally
from craftc.table.levels import LevelEncoding
from craftc.table.moments import Moments, add_groups, integer_grid

_NO_ROWS = np.empty(0, np.int32)
# rows above which memory comes first: columns stay in two blocks, rows of a split are kept as bits
_LONG = 1 << 16
# rows above which sums follow the rows that a pass has moved, if they are fewer than one in _FEW
_MANY, _FEW = 1 << 14, 4


class LocalRows:
    """`RowStore` of a table of this process; labels are arrays (n,) of int32. `weight` (n,) are counts of the
    rows; empty: all one.
    """

    is_partitioned = False

    def __init__(self, table: MixedTable, weight: Integers) -> None:
        self.table, self.weight = table, weight
        self._scored: tuple[list[int], LocalRows] | None = None

    def __len__(self) -> int:
        return len(self.table)

    @property
    def schema(self) -> Schema:
        return self.table.schema

    def take(self, rows: NDArray[np.intp]) -> MixedTable:
        return self.table.take(rows)

    def n_distinct(self, enough: int) -> int:
        return len(distinct_rows(self.table, enough))

    # ---- labels ----

    def _filled(self, value: ArrayLike, dtype: DTypeLike = np.int32) -> Array:
        """An array (n,) of a value or of values (n,), in a scratch file if the rows are."""
        array = self.table._empty_block((len(self.table),), dtype)
        array[:] = value
        return array

    def one_cluster(self) -> Labels:
        return self._filled(0)

    def n_clusters(self, labels: Labels) -> int:
        return int(labels.max()) + 1

    def assigned(self, tables: CostTables, n_threads: int) -> Labels:
        labels = self._filled(-1)
        assign_only(self.table, tables, labels, n_threads)
        return compact(labels)

    def renumbered(self, labels: Labels, number: NDArray[np.int32]) -> Labels:
        renumber(labels, number)
        return labels

    def moved(self, labels: Labels, leavers: SplitRows | Leavers, k: int) -> Labels:
        labels[leavers.leaving(labels)] = k
        return labels

    def copied(self, labels: Labels) -> Labels:
        return self._filled(labels)

    def labels_at(self, labels: Array, rows: NDArray[np.intp]) -> Labels:
        return labels[rows].astype(np.int32, copy=False)

    def first_appearance(self, labels: Labels, n_clusters: int) -> NDArray[np.intp]:
        return first_appearance(labels, n_clusters)

    def snapshot(self, labels: Labels, n_clusters: int) -> Array:
        return self._filled(labels, np.min_scalar_type(-max(n_clusters, 1)))

    def restored(self, snapshot: Array) -> Labels:
        return self._filled(snapshot)

    def merge_path(self, snapshot: Array, n_clusters: int, objective: float) -> MergePath:
        return MergePath(snapshot, n_clusters, objective)

    def append_step(
        self,
        path: MergePath,
        n_clusters: int,
        objective: float,
        before: Array,
        after: Labels,
        merged: tuple[int, int],
    ) -> None:
        path.append(n_clusters, objective, before, after, merged)

    def adopted(self, path: MergePath, labels: Array) -> tuple[Array, MergePath]:
        return labels, path

    def restated(self, labels: Array, clusters: Clusters, path: MergePath) -> Array:
        return labels

    def margins(self, model: object, statistics: RowStatistics) -> NDArray[np.float32]:
        return statistics.margins

    def in_form_of_input(self, labels: Array) -> Labels:
        return self._filled(labels)

    # ---- sums ----

    def tallies(self, weights: Floats | None, n_threads: int) -> Iterable[Tally]:
        whole = None if weights is None else integer_weights(weights)[0]
        cells = self.table.numeric.T
        threads = threads_for(n_threads, self.table.numeric.size)
        return parallel_map(lambda j: table_tally(cells[j], whole), range(len(cells)), threads)

    def encoded(self, encoding: Encoding, n_threads: int) -> LocalRows:
        return LocalRows(encoding.apply(self.table, n_threads=n_threads), self.weight)

    def scored(self, encoding: LevelEncoding) -> LocalRows:
        if self._scored is None or self._scored[0] != encoding.scored_columns:
            self._scored = (
                encoding.scored_columns,
                LocalRows(encoding.with_scores_of(self.table), self.weight),
            )
        return self._scored[1]

    def grid(self) -> Grid:
        return integer_grid(self.table, self.weight)

    def moments(self, grid: Grid, unit: float, labels: Labels, n_clusters: int, n_threads: int) -> Moments:
        return Moments.of_partition(grid, unit, self.table, self.weight, labels, n_clusters, n_threads)

    def cross_products(
        self,
        columns: NDArray[np.intp],
        grid: Grid,
        labels: Labels,
        n_clusters: int,
        conditionals: Conditionals | None,
        n_threads: int,
    ) -> Integers:
        return products_of(
            columns, grid, self.table, self.weight, labels, n_clusters, conditionals, n_threads
        )

    def sums_after(
        self,
        before: Array,
        place: NDArray[np.int32],
        labels: Labels,
        moments: Moments,
        cross: CrossProducts,
        conditionals: Conditionals | None,
        n_threads: int,
    ) -> tuple[Moments, CrossProducts]:
        grid, K, n = moments.grid, moments.n_clusters, len(labels)
        moved = np.empty(0, np.intp)
        if n > _MANY and conditionals is None:  # missing cells change in rows that stay, too
            apart = [np.flatnonzero(place[before[rows]] != labels[rows]) + rows.start for rows in chunks(n)]
            moved = np.concatenate(apart)
        if not 0 < _FEW * len(moved) < n:
            sums = self.cross_products(cross.columns, grid, labels, K, conditionals, n_threads)
            return self.moments(grid, moments.unit, labels, K, n_threads), replace(cross, sums=sums)
        part = LocalRows(self.table.take(moved), self.weight[moved] if len(self.weight) else self.weight)
        after, products = moments.select(np.arange(K)), cross.select(np.arange(K))
        for sign, own in ((-1, place[before[moved]]), (1, labels[moved])):
            add_groups(after.groups, part.moments(grid, moments.unit, own, K, n_threads).groups, grid, sign)
            add_products(
                products.sums, part.cross_products(cross.columns, grid, own, K, None, n_threads), sign
            )
        return after, products

    def sums_along(self, path: MergePath, moments: Moments, n_threads: int) -> CarriedSums:
        return sums_of_table(path, moments, self.table, self.weight, n_threads)

    def statistics(
        self, clusters: Clusters, labels: Array, weights: Floats | None, n_threads: int
    ) -> RowStatistics:
        return RowStatistics.of_rows(clusters, self.table, labels, weights, n_threads=n_threads)

    # ---- passes ----

    def passes(
        self,
        labels: Labels,
        clusters: Passes,
        max_passes: int,
        path: Floats,
        space: PassSpace,
        n_threads: int,
        rows: NDArray[np.int32] = _NO_ROWS,
    ) -> tuple[Labels, int]:
        table, of = self.table, clusters
        of.K, made, of.converged = passes_kernel.passes(
            table.numeric,
            table.codes,
            self.weight,
            rows,
            labels,
            of.groups,
            of.K,
            of.pricing,
            of.selection,
            max_passes,
            of.least_fall,
            space.slab,
            space.scratch,
            space.partial,
            space.work,
            of.mask,
            of.cost,
            path,
            n_threads,
        )
        return labels, made

    def reassigned(
        self, clusters: Clusters, labels: Labels, columns: NDArray[np.intp], n_threads: int
    ) -> tuple[Labels, int]:
        return labels, clusters.assign(self.table, self.weight, labels, n_threads)

    # ---- the rows of single clusters ----

    async def cluster(self, labels: Labels, k: int) -> LocalCluster:
        return LocalCluster(self, rows_in(labels, k), k)

    def together(self, questions: Iterable[Asking[Answer]]) -> list[Answer]:
        return [_result(question) for question in questions]


class SplitRows(NamedTuple):
    """The rows of a cluster and the side of each. Most splits are dropped before their leaving rows are
    needed, so these are computed on demand.
    """

    rows: NDArray[np.int32]
    sides: Labels

    def leaving(self, labels: Labels) -> NDArray[np.int32]:
        """The positions in the table of the rows that leave."""
        leaving: NDArray[np.int32] = self.rows[self.sides == 1]
        return leaving


class Leavers(NamedTuple):
    """The rows that leave a cluster as a bit mask over its rows, to save memory on long tables."""

    cluster: int
    bits: NDArray[np.uint8]

    def leaving(self, labels: Labels) -> NDArray[np.int32]:
        """Their positions in the table, by labels under which the cluster is still whole."""
        rows = rows_in(labels, self.cluster)
        leaving: NDArray[np.int32] = rows[np.unpackbits(self.bits, count=len(rows)).view(bool)]
        return leaving


class LocalCluster:
    """The rows (m,) of cluster k of `LocalRows`."""

    def __init__(self, store: LocalRows, rows: NDArray[np.int32], k: int) -> None:
        self.store, self.rows, self.k = store, rows, k
        self.cells = Cells(store.table, store.weight, rows)

    def __len__(self) -> int:
        return len(self.rows)

    async def sample(self, m: int, seed: int, stream: int) -> Cells:
        n = len(self.rows)
        return self.cells if n <= m else self.cells.some(spread(n, m, seed, stream, n))

    async def leaving_moments(
        self, pricing: price_kernel.Pricing, candidate: Candidates, n_threads: int
    ) -> Integers:
        leaving: Integers = self.cells.leaving_moments(pricing, candidate, 1, n_threads=n_threads)[0]
        return leaving

    async def sides(self, pricing: price_kernel.Pricing, candidate: Candidates) -> Labels:
        return self.cells.leaving_rows(pricing, candidate, 1)[:, 0].astype(np.int32)

    async def passes(
        self, sides: Labels, clusters: Passes, max_passes: int, space: PassSpace, n_threads: int
    ) -> Labels:
        self.store.passes(sides, clusters, max_passes, np.empty(max_passes + 1), space, n_threads, self.rows)
        return sides

    def leavers(self, sides: Labels) -> Leavers | SplitRows | NDArray[np.int64]:
        return (
            Leavers(self.k, np.packbits(sides == 1))
            if len(self.rows) > _LONG
            else SplitRows(self.rows, sides)
        )


def _result(question: Asking[Answer]) -> Answer:
    """The result of a coroutine that waits for nothing."""
    try:
        question.send(None)
    except StopIteration as end:
        result: Answer = end.value
        return result
    raise AssertionError("rows of this process answer at once")
