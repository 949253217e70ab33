"""What a partition does for the search of CRAFT: labels by recipes, and sums of its rows.

All of it can be sent to a worker.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from craftc._common.merge_path import shared_rows
from craftc._common.typing import Array, Integers, Labels
from craftc._kernels import craft as craft_kernel
from craftc._kernels import craft_covariance as covariance_kernel
from craftc._kernels import craft_price as price_kernel
from craftc._kernels import moments as moments_kernel
from craftc._kernels.craft_cross_products import Conditionals
from craftc._kernels.craft_rows import rows_in
from craftc.craft.clusters import Clusters, assign_only, assign_with_blocks
from craftc.craft.products import products_of
from craftc.craft.rows import Candidates, Cells, distinct_rows
from craftc.craft.rows.scores import RowStatistics
from craftc.distributed.partitions import Part
from craftc.table import MixedTable
from craftc.table.moments import Moments, add_groups

_NO_WEIGHT = np.empty(0, np.int64)
# rows that are copied at a time: workers of Dask return larger blocks of memory to the system at once
_ROWS = 1 << 12


# ---- recipes of labels ----


@dataclass(frozen=True, eq=False)
class Given:
    """Labels of all rows of the whole table, which is small."""

    given: Labels

    def labels(self, part: Part) -> Labels:
        return self.given[part.first : part.first + len(part)].astype(np.int32)


@dataclass(frozen=True)
class Assigned:
    """Every row in its cheapest cluster, of clusters that may hold covariances (`blocks`); a row that has a
    cluster keeps it unless another one is cheaper.
    """

    tables: craft_kernel.CostTables
    blocks: covariance_kernel.Blocks | None = None
    rowwise: ClassVar[bool] = True

    def labels(self, part: Part, *before: Labels) -> Labels:
        labels = before[0].copy() if before else np.full(len(part), -1, np.int32)
        if self.blocks is None:
            assign_only(part.of_grid(self.tables.grid), self.tables, labels, part.n_threads)
        else:
            assign_with_blocks(part.scored, _NO_WEIGHT, self.tables, self.blocks, labels, part.n_threads)
        return labels


@dataclass(frozen=True, eq=False)
class AssignedBut:
    """Every row in its cheapest cluster k as number[k], but for some rows, ascending positions in the whole
    table, with given labels.
    """

    assigned: Assigned
    number: NDArray[np.int32]
    rows: NDArray[np.int64]
    given: Labels

    @property
    def rowwise(self) -> bool:
        """Whether the label of a row depends on its cells alone."""
        return not len(self.rows)

    def labels(self, part: Part) -> Labels:
        labels = self.number[self.assigned.labels(part)]
        here, rows = part.own(self.rows)
        labels[rows] = self.given[here]
        return labels


@dataclass(frozen=True, eq=False)
class RowsMoved:
    """Some rows, ascending positions in the whole table, join cluster k."""

    rows: NDArray[np.int64]
    k: int

    def labels(self, part: Part, before: Labels) -> Labels:
        labels = before.copy()
        labels[part.own(self.rows)[1]] = self.k
        return labels


@dataclass(frozen=True)
class SideMoved:
    """The rows on side 1 of what was cluster `old` join cluster `new`."""

    old: int
    new: int

    def labels(self, part: Part, before: Labels, of_rows: Labels, sides: Labels) -> Labels:
        labels = before.copy()
        labels[np.flatnonzero(of_rows == self.old)[sides == 1]] = self.new
        return labels


@dataclass(frozen=True, eq=False)
class Sides:
    """Side of every row of cluster k under a split: 0 stays, 1 leaves."""

    k: int
    pricing: price_kernel.Pricing
    candidate: Candidates

    def labels(self, part: Part, of_rows: Labels) -> Labels:
        cells = cluster_cells(part, of_rows, self.k)
        return cells.leaving_rows(self.pricing, self.candidate, 1)[:, 0].astype(np.int32)


@dataclass(frozen=True)
class SidesAssigned:
    """Every row of cluster k on its cheaper side."""

    k: int
    tables: craft_kernel.CostTables

    def labels(self, part: Part, of_rows: Labels, before: Labels) -> Labels:
        sides, rows = before.copy(), np.flatnonzero(of_rows == self.k)
        for some, cells in _copied(part, rows):
            assign_only(cells, self.tables, sides[some], 1)
        return sides


# ---- what a partition answers ----


def cluster_cells(part: Part, labels: Labels, k: int) -> Cells:
    return Cells(part.table, _NO_WEIGHT, rows_in(labels, k))


def rows_per_cluster(part: Part, labels: Labels) -> NDArray[np.int64]:
    return np.bincount(labels)


def distinct(part: Part, enough: int) -> set[bytes]:
    return distinct_rows(part.source, enough)


def moments(part: Part, labels: Labels, stage: str, grid: moments_kernel.Grid, n_clusters: int) -> Integers:
    return Moments.of_partition(
        grid, 1.0, part.at(stage), _NO_WEIGHT, labels, n_clusters, part.n_threads
    ).groups


def cross_products(
    part: Part,
    labels: Labels,
    columns: NDArray[np.intp],
    grid: moments_kernel.Grid,
    n_clusters: int,
    conditionals: Conditionals | None,
) -> Integers:
    return products_of(
        columns, grid, part.scored, _NO_WEIGHT, labels, n_clusters, conditionals, part.n_threads
    )


def moved(
    part: Part, before: Labels, after: Labels, grid: moments_kernel.Grid, n_clusters: int
) -> tuple[int, Integers]:
    """Number of rows that moved, and what the moments of the clusters gain by it."""
    rows = np.flatnonzero(before != after)
    return len(rows), _gained(part, rows, before[rows], after[rows], grid, n_clusters)


def sides_moved(
    part: Part, of_rows: Labels, before: Labels, after: Labels, k: int, grid: moments_kernel.Grid
) -> tuple[int, Integers]:
    """As `moved`, for the two sides of cluster k."""
    places = np.flatnonzero(before != after)
    rows = np.flatnonzero(of_rows == k)[places]
    return len(rows), _gained(part, rows, before[places], after[places], grid, 2)


def _copied(part: Part, rows: NDArray[np.intp]) -> Iterator[tuple[slice, MixedTable]]:
    """Slices of some rows, and copies of their cells, all in the same memory."""
    table = part.table
    blocks = [
        np.empty((min(len(rows), _ROWS), block.shape[1]), block.dtype)
        for block in (table.numeric, table.codes)
    ]
    for first in range(0, len(rows), _ROWS):
        some = slice(first, first + _ROWS)
        for block, copy in zip((table.numeric, table.codes), blocks, strict=True):
            np.take(block, rows[some], axis=0, out=copy[: len(rows[some])], mode="clip")
        numeric, codes = (copy[: len(rows[some])] for copy in blocks)
        yield some, MixedTable._trusted(numeric, codes, table.schema)


def _gained(
    part: Part,
    rows: NDArray[np.intp],
    before: Labels,
    after: Labels,
    grid: moments_kernel.Grid,
    n_clusters: int,
) -> Integers:
    """What the moments of the clusters gain by the moves of some rows."""
    gained = np.zeros((n_clusters, grid.width), np.int64)
    for some, cells in _copied(part, rows):
        for labels, sign in ((after, 1), (before, -1)):
            own = Moments.of_partition(grid, 1.0, cells, _NO_WEIGHT, labels[some], n_clusters)
            add_groups(gained, own.groups, grid, sign)
    return gained


def reassigned(
    part: Part,
    before: Labels,
    after: Labels,
    columns: NDArray[np.intp],
    grid: moments_kernel.Grid,
    n_clusters: int,
    conditionals: Conditionals | None,
) -> tuple[int, Integers, Integers]:
    """Number of rows that moved, moments, and sums of products of columns."""
    n_moved = int(np.count_nonzero(before != after))
    return (
        n_moved,
        moments(part, after, "scored", grid, n_clusters),
        cross_products(part, after, columns, grid, n_clusters, conditionals),
    )


def leaving(
    part: Part, labels: Labels, k: int, pricing: price_kernel.Pricing, candidate: Candidates
) -> Integers:
    moments: Integers = cluster_cells(part, labels, k).leaving_moments(
        pricing, candidate, 1, n_threads=part.n_threads
    )[0]
    return moments


def cells_of_cluster(
    part: Part, labels: Labels, k: int, positions: NDArray[np.intp] | None
) -> tuple[Array, Array, NDArray[np.int64]]:
    """Cells of some rows of cluster k, or of all, and their positions in the whole table."""
    rows = np.flatnonzero(labels == k)
    rows = rows if positions is None else rows[positions]
    return part.table.numeric[rows], part.table.codes[rows], part.first + rows


def differences(part: Part, labels: Labels, others: Labels, most: int) -> tuple[NDArray[np.int64], Labels]:
    """The first rows whose labels differ, as positions in the whole table, and their labels."""
    rows = np.flatnonzero(labels != others)[:most]
    return part.first + rows, labels[rows]


def labels_at(part: Part, labels: Labels, rows: NDArray[np.int64]) -> Labels:
    return labels[rows]


def step_of_path(
    part: Part,
    before: Labels,
    after: Labels,
    n_before: int,
    n_after: int,
    source_grid: moments_kernel.Grid | None,
) -> tuple[NDArray[np.int64], Integers | None]:
    """(n_before, n_after) rows that two clusters share, and the moments of the table as it was read under the
    later labels.
    """
    source = None if source_grid is None else moments(part, after, "source", source_grid, n_after)
    return shared_rows(before, after, n_before, n_after), source


def statistics(part: Part, labels: Labels, clusters: Clusters) -> RowStatistics:
    statistics = RowStatistics.of_rows(
        clusters, part.of_grid(clusters.background.grid), labels, None, part.first
    )
    statistics.margins = statistics.outlier_scores = np.empty(0, np.float32)
    return statistics
