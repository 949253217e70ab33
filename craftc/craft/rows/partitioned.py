"""Rows in partitions under the search of CRAFT: the same answers as those of
`craftc.craft.rows.local.LocalRows`.

What a partition does with its rows is a function of this module. Sums of partitions are integers, so their
total is that of the whole table.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from craftc._common.labels import by_first_row, numbering
from craftc._common.merge_path import Change, MergePath, change_by
from craftc._common.random import spread
from craftc._common.threads import aligned
from craftc._common.typing import Array, Floats, Integers, Labels
from craftc._kernels import craft as craft_kernel
from craftc._kernels import craft_passes as passes_kernel
from craftc._kernels import craft_price as price_kernel
from craftc._kernels import moments as moments_kernel
from craftc._kernels.craft import CostTables
from craftc._kernels.craft_cross_products import Conditionals
from craftc._kernels.moments import Grid
from craftc.craft.clusters import Clusters
from craftc.craft.fitted import CarriedSums
from craftc.craft.products import CrossProducts, add_products
from craftc.craft.rows import Answer, Asking, Candidates, Cells, Encoding, Passes, PassSpace, RowwiseMargins
from craftc.craft.rows import recipes as operations
from craftc.craft.rows.local import LocalCluster, LocalRows
from craftc.craft.rows.recipes import Assigned, AssignedBut, Given, RowsMoved, SideMoved, Sides, SidesAssigned
from craftc.craft.rows.scores import RowStatistics
from craftc.distributed.engine import Engine, FarLabels, LabelNode, Question
from craftc.distributed.partitioned_table import PartitionedTable, first_rows_of
from craftc.distributed.partitions import MOST_GIVEN, OneCluster, Renumbered
from craftc.table import MixedTable, Schema
from craftc.table.bins import Tally
from craftc.table.levels import LevelEncoding
from craftc.table.moments import Moments, add_groups, grid_of_ranges

_FEW_ROWS = 1 << 14  # of a cluster whose rows are split in this process
_NO_WEIGHT = np.empty(0, np.int64)


class PartitionedRows:
    """`RowStore` of a `PartitionedTable`; labels are `FarLabels`, which never change."""

    is_partitioned = True

    def __init__(self, table: PartitionedTable) -> None:
        self.table, self.engine = table, table.engine
        self._scored: tuple[list[int], PartitionedRows] | None = None

    def __len__(self) -> int:
        return len(self.table)

    @property
    def schema(self) -> Schema:
        return self.table.schema

    def take(self, rows: NDArray[np.intp]) -> MixedTable:
        return self.table.take(rows)

    def n_distinct(self, enough: int) -> int:
        return len(set().union(*self.engine.ask(operations.distinct, (), enough)))

    # ---- labels ----

    def one_cluster(self) -> FarLabels:
        return self.engine.labels(OneCluster())

    def n_clusters(self, labels: FarLabels) -> int:
        return int(self._counts(labels).shape[1])

    def _counts(self, labels: FarLabels) -> NDArray[np.int64]:
        """(n_partitions, K) rows of every partition in every cluster."""
        if "counts" not in labels.facts:
            found = self.engine.ask(operations.rows_per_cluster, (labels,))
            counts = np.zeros((len(found), max(len(each) for each in found)), np.int64)
            for row, each in zip(counts, found, strict=True):
                row[: len(each)] = each
            labels.facts["counts"] = counts
        counts_of: NDArray[np.int64] = labels.facts["counts"]
        return counts_of

    def assigned(self, tables: CostTables, n_threads: int) -> FarLabels:
        labels = self.engine.labels(Assigned(tables))
        used = self._counts(labels).sum(axis=0) > 0
        return labels if used.all() else self.renumbered(labels, (np.cumsum(used) - 1).astype(np.int32))

    def renumbered(self, labels: FarLabels, number: NDArray[np.int32]) -> FarLabels:
        return self.engine.labels(Renumbered(number), labels)

    def moved(self, labels: FarLabels, leavers: Any, k: int) -> FarLabels:
        if isinstance(leavers, np.ndarray):
            return self.engine.labels(RowsMoved(leavers, k), labels)
        of_rows, old, sides = leavers
        return self.engine.labels(SideMoved(old, k), labels, of_rows, sides)

    def copied(self, labels: FarLabels) -> FarLabels:
        return labels

    def labels_at(self, labels: FarLabels, rows: NDArray[np.intp]) -> Labels:
        if labels.facts.get("rows") is not rows:
            found = self.engine.ask(operations.labels_at, (labels,), each=self.table.by_partition(rows))
            labels.facts |= {"rows": rows, "labels at rows": np.concatenate(found)}
        at: Labels = labels.facts["labels at rows"]
        return at

    def first_appearance(self, labels: FarLabels, n_clusters: int) -> NDArray[np.intp]:
        return by_first_row(self.engine.ask(first_rows_of, (labels,), n_clusters))

    def snapshot(self, labels: FarLabels, n_clusters: int) -> FarLabels:
        return labels

    def restored(self, snapshot: FarLabels) -> FarLabels:
        return snapshot

    def restated(self, labels: FarLabels, clusters: Clusters, path: MergePath) -> FarLabels:
        """The labels of a result by a recipe of their own, if few rows differ from the last pass; also in the
        path. If the labels are not the result of a pass, they are compared with a pass over the clusters.
        """
        same = numbering(clusters.moments.n_clusters)
        number, node = same, labels.node
        while isinstance(node.recipe, Renumbered):
            number, (node,) = number[node.recipe.number], node.parents
        if isinstance(node.recipe, Assigned):
            assigned = node.recipe
        else:
            number = same
            assigned = Assigned(
                clusters.tables(), None if clusters.covariances is None else clusters.covariances.blocks()
            )
        again = self.engine.labels(
            AssignedBut(assigned, number, np.empty(0, np.int64), np.empty(0, np.int32))
        )
        found = self.engine.ask(operations.differences, (labels, again), MOST_GIVEN + 1)
        rows, given = (np.concatenate(arrays) for arrays in zip(*found, strict=True))
        if len(rows) > MOST_GIVEN:
            return labels
        short = again if not len(rows) else self.engine.labels(AssignedBut(assigned, number, rows, given))
        assert isinstance(path, FarMergePath)
        path.begin_with(self.engine, short)
        return short

    def margins(self, model: RowwiseMargins, statistics: RowStatistics) -> Any:
        """The margins of all rows in the form of the input; the merge path forgets the partitions."""
        margins = self.table.collection.margins(model)
        assert isinstance(model.merge_path_, FarMergePath)
        model.merge_path_.release()
        return margins

    def in_form_of_input(self, labels: FarLabels) -> Any:
        return self.table.output().labels(labels.node)

    def adopted(self, path: MergePath, labels: Array) -> tuple[FarLabels, FarMergePath]:
        steps = [self.engine.labels(Given(labels.astype(np.int16)))]
        for step, change in zip(path[1:], path.changes(), strict=True):
            follows = not len(change.moved)
            recipe = (
                Renumbered(np.append(change.place, np.int32(-1)))
                if follows
                else Given(step.labels.astype(np.int16))
            )
            steps.append(self.engine.labels(recipe, *steps[-1:] if follows else ()))
        return steps[0], FarMergePath.of_steps(self, path, steps)

    def merge_path(self, labels: FarLabels, n_clusters: int, objective: float) -> FarMergePath:
        return FarMergePath(self, labels, n_clusters, objective)

    def append_step(
        self,
        path: MergePath,
        n_clusters: int,
        objective: float,
        before: FarLabels,
        after: FarLabels,
        merged: tuple[int, int],
    ) -> None:
        """Add a step to a path that this store began."""
        assert isinstance(path, FarMergePath)
        path.append_labels(n_clusters, objective, before, after, merged)

    # ---- sums ----

    def tallies(self, weights: Floats | None, n_threads: int) -> Iterable[Tally]:
        return self.table.tallies()

    def encoded(self, encoding: Encoding, n_threads: int) -> PartitionedRows:
        assert isinstance(encoding, LevelEncoding)
        return PartitionedRows(self.table.encoded(encoding))

    def scored(self, encoding: LevelEncoding) -> PartitionedRows:
        if self._scored is None or self._scored[0] != encoding.scored_columns:
            self._scored = encoding.scored_columns, PartitionedRows(self.table.with_scores(encoding))
        return self._scored[1]

    def grid(self) -> Grid:
        if self.table.grid is None:
            self.table.grid = grid_of_ranges(self.table.schema, *self.table.column_ranges())
        return self.table.grid

    def moments(self, grid: Grid, unit: float, labels: FarLabels, n_clusters: int, n_threads: int) -> Moments:
        groups = labels.facts.get((self.table.stage, "moments", n_clusters))
        if groups is None:
            groups = _sum(
                self.engine.ask(operations.moments, (labels,), self.table.stage, grid, n_clusters), grid
            )
        return Moments.of_groups(grid, unit, groups)

    def cross_products(
        self,
        columns: NDArray[np.intp],
        grid: Grid,
        labels: FarLabels,
        n_clusters: int,
        conditionals: Conditionals | None,
        n_threads: int,
    ) -> Integers:
        known: tuple[Conditionals | None, Integers] | None = labels.facts.get(("cross", n_clusters))
        if known is not None and known[0] is conditionals:
            return known[1]
        return _cross_sum(
            self.engine.ask(operations.cross_products, (labels,), columns, grid, n_clusters, conditionals)
        )

    def sums_after(
        self,
        before: FarLabels,
        place: NDArray[np.int32],
        labels: FarLabels,
        moments: Moments,
        cross: CrossProducts,
        conditionals: Conditionals | None,
        n_threads: int,
    ) -> tuple[Moments, CrossProducts]:
        grid, K = moments.grid, moments.n_clusters  # the pass gave both
        sums = self.cross_products(cross.columns, grid, labels, K, conditionals, n_threads)
        return self.moments(grid, moments.unit, labels, K, n_threads), replace(cross, sums=sums)

    def sums_along(self, path: MergePath, moments: Moments, n_threads: int) -> CarriedSums:
        assert isinstance(path, FarMergePath)
        return path.sums_of_source(moments)

    def statistics(
        self, clusters: Clusters, labels: FarLabels, weights: Floats | None, n_threads: int
    ) -> RowStatistics:
        first, *later = self.engine.ask(operations.statistics, (labels,), clusters)
        for statistics in later:
            first.join(statistics)
        whole: RowStatistics = first
        return whole

    # ---- passes ----

    def passes(
        self,
        labels: FarLabels,
        clusters: Passes,
        max_passes: int,
        path: Floats,
        space: PassSpace,
        n_threads: int,
    ) -> tuple[FarLabels, int]:
        of, grid = clusters, clusters.pricing.grid
        path[0] = _priced(of, space)
        made, of.converged = 0, False
        while made < max_passes and not of.converged:
            after = self.engine.labels(Assigned(_tables(of, space)), labels)
            found = self.engine.ask(operations.moved, (labels, after), grid, of.K)
            made += 1
            path[made] = path[made - 1]
            of.converged = not any(n_moved for n_moved, _ in found)
            if not of.converged:
                add_groups(of.groups[: of.K], _sum([gained for _, gained in found], grid), grid)
                of.K, number = passes_kernel.drop_empty(of.groups, of.mask, of.K)
                labels = (
                    after if len(number) == of.K else self.renumbered(after, np.append(number, np.int32(-1)))
                )
                path[made] = _priced(of, space)
            of.converged |= of.least_fall > 0.0 and path[made - 1] - path[made] < of.least_fall
        return labels, made

    def reassigned(
        self, clusters: Clusters, labels: FarLabels, columns: NDArray[np.intp], n_threads: int
    ) -> tuple[FarLabels, int]:
        if clusters.covariances is None:
            return labels, 0
        K, grid, conditionals = clusters.moments.n_clusters, clusters.moments.grid, clusters.conditionals
        after = self.engine.labels(Assigned(clusters.tables(), clusters.covariances.blocks()), labels)
        moved, groups, cross = zip(
            *self.engine.ask(operations.reassigned, (labels, after), columns, grid, K, conditionals),
            strict=True,
        )
        after.facts |= {
            (self.table.stage, "moments", K): _sum(groups, grid),
            ("cross", K): (conditionals, _cross_sum(cross)),
        }
        return after, sum(moved)

    # ---- the rows of single clusters ----

    async def cluster(self, labels: FarLabels, k: int) -> FarCluster | GatheredCluster:
        cluster = FarCluster(self, labels, k, self._counts(labels)[:, k])
        return cluster if len(cluster) > _FEW_ROWS else GatheredCluster(*await cluster.gathered())

    def together(self, questions: Iterable[Asking[Answer]]) -> list[Answer]:
        return self.engine.together(questions)


class GatheredCluster(LocalCluster):
    """The rows of a small cluster in this process; `rows` (m,) are their positions in the whole table."""

    def __init__(self, table: MixedTable, rows: NDArray[np.int64]) -> None:
        super().__init__(LocalRows(table, _NO_WEIGHT), np.arange(len(table), dtype=np.int32), 0)
        self.positions = rows

    def leavers(self, sides: Labels) -> NDArray[np.int64]:
        leaving: NDArray[np.int64] = self.positions[sides == 1]
        return leaving


class FarCluster:
    """The rows of cluster k where they are; `counts` (n_partitions,) are its rows in every partition."""

    def __init__(self, store: PartitionedRows, labels: FarLabels, k: int, counts: NDArray[np.int64]) -> None:
        self.store, self.labels, self.k, self.starts = (
            store,
            labels,
            k,
            np.concatenate([[0], np.cumsum(counts)]),
        )

    def __len__(self) -> int:
        return int(self.starts[-1])

    async def gathered(
        self, positions: NDArray[np.intp] | None = None
    ) -> tuple[MixedTable, NDArray[np.int64]]:
        """The table of all rows or of some, and their positions in the whole table."""
        each: list[NDArray[np.intp] | None] = [None] * (len(self.starts) - 1)
        if positions is not None:
            ends = np.searchsorted(positions, self.starts)
            each = [
                positions[a:b] - start
                for a, b, start in zip(ends[:-1], ends[1:], self.starts[:-1], strict=True)
            ]
        found = await Question(operations.cells_of_cluster, (self.labels,), self.k, each=each)
        numeric, codes, rows = (np.concatenate(blocks) for blocks in zip(*found, strict=True))
        return MixedTable._trusted(numeric, codes, self.store.table.schema), rows

    async def sample(self, m: int, seed: int, stream: int) -> Cells:
        n = len(self)
        table, _ = await self.gathered(None if n <= m else spread(n, m, seed, stream, n))
        return Cells(table, _NO_WEIGHT, np.arange(len(table), dtype=np.int32))

    async def leaving_moments(
        self, pricing: price_kernel.Pricing, candidate: Candidates, n_threads: int
    ) -> Integers:
        found = await Question(operations.leaving, (self.labels,), self.k, pricing, candidate)
        moments: Integers = _sum([each[None] for each in found], pricing.grid)[0]
        return moments

    async def sides(self, pricing: price_kernel.Pricing, candidate: Candidates) -> FarLabels:
        return self.store.engine.labels(Sides(self.k, pricing, candidate), self.labels)

    async def passes(
        self, sides: FarLabels, clusters: Passes, max_passes: int, space: PassSpace, n_threads: int
    ) -> FarLabels:
        of, grid = clusters, clusters.pricing.grid
        _priced(of, space)
        for _ in range(max_passes):
            after = self.store.engine.labels(SidesAssigned(self.k, _tables(of, space)), self.labels, sides)
            found = await Question(operations.sides_moved, (self.labels, sides, after), self.k, grid)
            if not any(n_moved for n_moved, _ in found):
                break
            add_groups(of.groups, _sum([gained for _, gained in found], grid), grid)
            sides = after
            of.K, _number = passes_kernel.drop_empty(of.groups, of.mask, of.K)
            _priced(of, space)
            if of.K < 2:
                break
        return sides

    def leavers(self, sides: FarLabels) -> tuple[FarLabels, int, FarLabels]:
        return self.labels, self.k, sides


def _priced(of: Passes, space: PassSpace) -> float:
    """Masks and costs of the clusters; returns J less the cost of the background."""
    return passes_kernel.price(of.pricing, of.selection, of.groups, of.K, space.work, of.mask, of.cost)


def _tables(of: Passes, space: PassSpace) -> craft_kernel.CostTables:
    """Cost tables of clusters that have just been priced."""
    slab = aligned((passes_kernel.slab_size(of.pricing, of.K),))
    return passes_kernel.pass_tables(of.pricing, of.groups, of.K, space.work, of.mask, slab)


def _sum(found: Sequence[Integers], grid: moments_kernel.Grid) -> Integers:
    """The sum of the moments of all partitions."""
    total = np.zeros_like(found[0])
    moments_kernel.merge_partial(np.stack(found), total, grid.first_numeric)
    return total


def _cross_sum(found: Sequence[Integers]) -> Integers:
    total = np.zeros_like(found[0])
    for sums in found:
        add_products(total, sums)
    return total


class FarMergePath(MergePath):
    """A merge path whose labels lie with the partitions; those of a step are returned in the form of the
    input. `labels` are those of the first step.
    """

    def __init__(self, rows: PartitionedRows, labels: FarLabels, n_clusters: int, objective: float) -> None:
        super().__init__(None, n_clusters, objective)
        self._rows: PartitionedRows | None = rows
        self._last: FarLabels | None = labels
        self._nodes: list[LabelNode] = [labels.node]
        self._source_sums: list[
            Integers | None
        ] = []  # of later steps; None: they follow from the step before
        self._output = rows.table.output()

    @classmethod
    def of_steps(cls, rows: PartitionedRows, path: MergePath, labels: Sequence[FarLabels]) -> FarMergePath:
        """The path with these labels of its steps."""
        far = cls(rows, labels[0], *path.objectives()[0])
        for (n_clusters, objective), before, after, change in zip(
            path.objectives()[1:], labels, labels[1:], path.changes(), strict=False
        ):
            far.append_labels(n_clusters, objective, before, after, change.merged)
        return far

    def append_labels(
        self, n_clusters: int, objective: float, before: FarLabels, after: FarLabels, merged: tuple[int, int]
    ) -> None:
        """Add a step: the partition `before`, numbered as the last step, becomes `after`, numbered by first
        appearance.
        """
        assert self._rows is not None
        rows, n_before = self._rows, self._steps[-1][0]
        source_grid = None if rows.table.source is None else rows.table.source.grid
        found = rows.engine.ask(operations.step_of_path, (before, after), n_before, n_clusters, source_grid)
        pairs, sums = zip(*found, strict=True)
        self.append_change(n_clusters, objective, change_by(np.sum(pairs, axis=0), merged))
        self._nodes.append(after.node)
        self._source_sums.append(None if source_grid is None else _sum(sums, source_grid))
        self._last = after

    def append_merge(self, objective: float, i: int, j: int) -> None:
        """Add a step in which cluster j joins cluster i < j and no other row moves; later clusters shift
        down.
        """
        assert self._rows is not None
        assert self._last is not None
        super().append_merge(objective, i, j)
        self._last = self._rows.renumbered(self._last, self._changes[-1].place)
        self._nodes.append(self._last.node)
        self._source_sums.append(None)

    def sums_of_source(self, moments: Moments) -> CarriedSums:
        """Moments of the table as it was read along the path, from those of its first step."""
        groups = moments.groups
        sums = CarriedSums(groups, moments.grid.first_numeric)
        for (n_clusters, _), change, own in zip(
            self._steps[1:], self._changes, self._source_sums, strict=True
        ):
            groups = sums.carried(groups, change.place, n_clusters) if own is None else own
            sums.append(change.place, groups)
        return sums

    def begin_with(self, engine: Engine, labels: FarLabels) -> None:
        """Replace the recipe of the first step, from which the other ones follow."""
        again = {self._nodes[0].number: labels.node}
        for node in self._nodes[-1].chain():
            if any(parent.number in again for parent in node.parents):
                again[node.number] = engine.node(
                    node.recipe, tuple(again.get(parent.number, parent) for parent in node.parents)
                )
        self._nodes = [again.get(node.number, node) for node in self._nodes]

    def release(self) -> None:
        """Forget the partitions: only recipes are left."""
        self._rows, self._last, self._source_sums = None, None, [None] * len(self._changes)

    def after(self, start: int) -> FarMergePath:
        """The path from one of its steps on."""
        path: FarMergePath = object.__new__(FarMergePath)
        vars(path).update(vars(self))
        path._steps, path._changes, path._nodes = (
            self._steps[start:],
            self._changes[start:],
            self._nodes[start:],
        )
        path._source_sums = self._source_sums[start:]
        return path

    @property
    def has_labels(self) -> bool:
        return True

    def _labels_at(self, i: int) -> Any:
        return self._output.labels(self._nodes[i])

    def without_collection(self) -> MergePath:
        """The path as it is copied or sent."""
        return _path_without_rows(self._steps, self._changes)

    def __reduce__(self) -> Any:
        return _path_without_rows, (self._steps, self._changes)


def _path_without_rows(steps: list[tuple[int, float]], changes: list[Change]) -> MergePath:
    """A path as it is copied or sent, without the collection."""
    path = MergePath(None, *steps[0])
    for (n_clusters, objective), change in zip(steps[1:], changes, strict=True):
        path.append_change(n_clusters, objective, change)
    return path
