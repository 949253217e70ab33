"""The rows under a search: the questions that a search asks, and the values in which they are answered.

A search holds exact moments, prices and decisions. The rows answer with integer sums, which do not depend on
where the rows are: `craftc.craft.rows.local` holds the arrays of one table, `craftc.craft.rows.partitioned`
keeps the rows in partitions, which may be on other machines. Labels (L) and snapshots of labels (S) have the
form that a store gives them; a search passes them on and never looks into them.

Questions about the rows of one cluster are asynchronous, so that the questions of several clusters share one
visit of the partitions.
"""

from __future__ import annotations

from collections.abc import Coroutine, Iterable
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from craftc._common.labels import chunks
from craftc._common.merge_path import MergePath
from craftc._common.threads import threads_for
from craftc._common.typing import Array, Floats, Integers, Labels, Mask
from craftc._kernels import craft_price as price_kernel
from craftc._kernels import craft_splits as splits_kernel
from craftc._kernels.craft import CostTables
from craftc._kernels.craft_cross_products import Conditionals
from craftc._kernels.moments import Grid
from craftc.craft.clusters import Clusters
from craftc.craft.fitted import CarriedSums
from craftc.craft.products import CrossProducts
from craftc.craft.rows.scores import RowStatistics
from craftc.table import MixedTable, Schema
from craftc.table.bins import Tally
from craftc.table.levels import LevelEncoding
from craftc.table.moments import Moments
from craftc.table.numeric_encoding import NumericEncoding

L = TypeVar("L")
S = TypeVar("S")
Sides = TypeVar("Sides")
Leaving = TypeVar("Leaving", covariant=True)
Answer = TypeVar("Answer")
Asking = Coroutine[Any, Any, Answer]
Encoding: TypeAlias = NumericEncoding | LevelEncoding


@dataclass
class PassSpace:
    """Workspace of the passes of one search."""

    slab: Floats  # cost tables of `capacity` clusters
    scratch: Floats  # (n_threads, ...)
    partial: Integers  # (n_threads, capacity, width); empty for one thread
    work: Floats  # (max(capacity, 1 + 2 * n_threads), ...) prices of clusters


@dataclass(slots=True)
class Passes:
    """Clusters under passes, and how they are priced. The arrays are changed in place."""

    groups: Integers  # (capacity, width)
    K: int
    mask: Mask  # (capacity, D)
    cost: Floats  # (capacity,)
    pricing: price_kernel.Pricing
    selection: int
    least_fall: float  # nats by which a pass must lower J for another to follow; 0: until no row moves
    converged: bool = False


@dataclass
class Candidates:
    """Numbered candidate splits of a cluster: rows with some levels leave it."""

    level_slot: NDArray[np.int32]  # (1 or 2, n_levels) numbers of candidates, or -1

    @classmethod
    def of_group(cls, group: Integers, pricing: price_kernel.Pricing) -> tuple[Candidates, int]:
        """The candidates of a cluster with these moments, and their number."""
        level_slot = np.empty((1 + pricing.tilts.periodic, pricing.grid.n_levels), np.int32)
        n = splits_kernel.propose_splits(group, pricing, level_slot)
        return cls(level_slot), n

    def some(self, chosen: NDArray[np.intp]) -> Candidates:
        """Some of the candidates, in ascending order, numbered anew."""
        number = np.full(self.level_slot.max(initial=-1) + 2, -1, np.int32)
        number[chosen] = np.arange(len(chosen))  # the last entry is that of "no candidate", -1
        return Candidates(number[self.level_slot])

    def one(self, chosen: int) -> Candidates:
        """One of the candidates, numbered 0."""
        return Candidates((self.level_slot == chosen) - np.int32(1))


@dataclass
class Cells:
    """Some rows of a table.

    Parameters
    ----------
    table : MixedTable
    weight : ndarray of int64
        Counts of the rows of the table; empty: all one.
    rows : ndarray (m,) of int32
    """

    table: MixedTable
    weight: Integers
    rows: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def weights(self) -> Integers:
        """(m,) counts of these rows."""
        return self.weight[self.rows] if len(self.weight) else np.ones(len(self.rows), np.int64)

    def some(self, positions: NDArray[np.intp]) -> Cells:
        """Some of these rows."""
        return Cells(self.table, self.weight, self.rows[positions])

    def leaving_moments(
        self,
        pricing: price_kernel.Pricing,
        candidates: Candidates,
        n: int,
        everything: int = -1,
        n_threads: int = 1,
    ) -> Integers:
        """(n, width) moments of the rows that leave under every candidate, and of all rows as number
        `everything`.
        """
        grid, table = pricing.grid, self.table
        threads = threads_for(n_threads, len(self) * n * grid.q)
        sides = np.zeros((threads, n, grid.width), np.int64)
        work = np.empty((threads, grid.q), np.intp)
        splits_kernel.split_moments(
            table.numeric,
            table.codes,
            self.weight,
            self.rows,
            pricing,
            candidates.level_slot,
            everything,
            sides,
            work,
            threads,
        )
        first: Integers = sides[0]
        return first

    def leaving_rows(
        self, pricing: price_kernel.Pricing, candidates: Candidates, n: int
    ) -> NDArray[np.uint8]:
        """(m, n) 1 for the rows that leave under every candidate."""
        leaving = np.empty((len(self), n), np.uint8)
        splits_kernel.leaving_rows(
            self.table.numeric,
            self.table.codes,
            self.rows,
            pricing,
            candidates.level_slot,
            leaving,
        )
        return leaving


class RowwiseMargins(Protocol):
    """A fitted estimator."""

    n_clusters_: int
    merge_path_: MergePath

    def margins(self, X: Any) -> Floats: ...


class ClusterRows(Protocol[Sides, Leaving]):
    """The rows of one cluster. Sides are 0 for rows that stay, 1 for rows that leave."""

    def __len__(self) -> int: ...

    async def sample(self, m: int, seed: int, stream: int) -> Cells:
        """The cells of all rows, or of m rows spread over the cluster."""
        ...

    async def leaving_moments(
        self, pricing: price_kernel.Pricing, candidate: Candidates, n_threads: int
    ) -> Integers:
        """(width,) moments of the rows that leave under one candidate, numbered 0."""
        ...

    async def sides(self, pricing: price_kernel.Pricing, candidate: Candidates) -> Sides:
        """The side of every row under one candidate, numbered 0."""
        ...

    async def passes(
        self, sides: Sides, clusters: Passes, max_passes: int, space: PassSpace, n_threads: int
    ) -> Sides:
        """Passes with the two sides as clusters until no row moves; returns the sides."""
        ...

    def leavers(self, sides: Sides) -> Leaving:
        """The rows that leave, as `RowStore.moved` takes them."""
        ...


class RowStore(Protocol[L, S]):
    """All rows of a table. Labels may be changed in place by the operations that return labels."""

    is_partitioned: bool

    def __len__(self) -> int: ...

    @property
    def schema(self) -> Schema:
        """Schema of the table."""
        ...

    def n_distinct(self, enough: int) -> int:
        """Number of distinct rows, counted up to `enough`."""
        ...

    def take(self, rows: NDArray[np.intp]) -> MixedTable:
        """The table of some rows, in ascending order, in this process."""
        ...

    # ---- labels ----

    def one_cluster(self) -> L:
        """Labels of one cluster."""
        ...

    def n_clusters(self, labels: L) -> int:
        """Number of clusters of labels 0..K-1."""
        ...

    def assigned(self, tables: CostTables, n_threads: int) -> L:
        """Every row in its cheapest cluster, numbered without gaps."""
        ...

    def renumbered(self, labels: L, number: NDArray[np.int32]) -> L:
        """number[labels]; -1 is the last entry."""
        ...

    def moved(self, labels: L, leavers: Any, k: int) -> L:
        """The labels after some rows, as `ClusterRows.leavers` gives them, have joined cluster k."""
        ...

    def copied(self, labels: L) -> L:
        """Labels that keep their values when the given ones are changed in place."""
        ...

    def labels_at(self, labels: S, rows: NDArray[np.intp]) -> Labels:
        """Labels of some ascending rows."""
        ...

    def first_appearance(self, labels: L, n_clusters: int) -> NDArray[np.intp]:
        """The clusters in the order of their first row."""
        ...

    def snapshot(self, labels: L, n_clusters: int) -> S:
        """The labels as they are now, in little memory; -1 stays -1."""
        ...

    def restored(self, snapshot: S) -> L:
        """The labels of a snapshot."""
        ...

    def merge_path(self, snapshot: S, n_clusters: int, objective: float) -> MergePath:
        """A merge path that begins with the labels of a snapshot."""
        ...

    def append_step(
        self,
        path: MergePath,
        n_clusters: int,
        objective: float,
        before: S,
        after: L | S,
        merged: tuple[int, int],
    ) -> None:
        """Add a step to a path: the partition `before`, numbered as the last step, becomes `after`, numbered
        by first appearance.
        """
        ...

    def adopted(self, path: MergePath, labels: Array) -> tuple[S, MergePath]:
        """The labels and the merge path of a search on gathered rows, as this store keeps them."""
        ...

    def restated(self, labels: S, clusters: Clusters, path: MergePath) -> S:
        """The labels of a result, in their shortest form."""
        ...

    def in_form_of_input(self, labels: S) -> Any:
        """The labels of a result as an estimator returns them."""
        ...

    def margins(self, model: RowwiseMargins, statistics: RowStatistics) -> Any:
        """The margins of all rows as an estimator returns them; partitions are not needed any more."""
        ...

    # ---- sums ----

    def tallies(self, weights: Floats | None, n_threads: int) -> Iterable[Tally]:
        """Distinct values of every numeric column and their integer weights."""
        ...

    def encoded(self, encoding: Encoding, n_threads: int) -> RowStore[L, S]:
        """The rows as the model sees them."""
        ...

    def scored(self, encoding: LevelEncoding) -> RowStore[L, S]:
        """These encoded rows with the scores of their levels."""
        ...

    def grid(self) -> Grid:
        """The integer grid of the numeric columns."""
        ...

    def moments(self, grid: Grid, unit: float, labels: L, n_clusters: int, n_threads: int) -> Moments:
        """Exact moments of a partition."""
        ...

    def cross_products(
        self,
        columns: NDArray[np.intp],
        grid: Grid,
        labels: L,
        n_clusters: int,
        conditionals: Conditionals | None,
        n_threads: int,
    ) -> Integers:
        """Exact sums of products of columns, of every cluster of a partition; `conditionals`: distributions
        of missing cells, if there are any.
        """
        ...

    def sums_after(
        self,
        before: S,
        place: NDArray[np.int32],
        labels: L,
        moments: Moments,
        cross: CrossProducts,
        conditionals: Conditionals | None,
        n_threads: int,
    ) -> tuple[Moments, CrossProducts]:
        """Moments and products of the partition `labels`, from those of the partition place[before], from
        which a pass has led to it.
        """
        ...

    def sums_along(self, path: MergePath, moments: Moments, n_threads: int) -> CarriedSums:
        """Moments of the table along a path, from those of its first step."""
        ...

    def statistics(
        self, clusters: Clusters, labels: S, weights: Floats | None, n_threads: int
    ) -> RowStatistics:
        """Margins, typical and unusual rows under a model."""
        ...

    # ---- passes ----

    def passes(
        self, labels: L, clusters: Passes, max_passes: int, path: Floats, space: PassSpace, n_threads: int
    ) -> tuple[L, int]:
        """Batch passes until convergence; `path` takes J less the cost of the background.

        Returns the labels and the number of passes.
        """
        ...

    def reassigned(
        self, clusters: Clusters, labels: L, columns: NDArray[np.intp], n_threads: int
    ) -> tuple[L, int]:
        """Every row in its cheapest cluster, of clusters that may hold covariances; and the number of rows
        that moved.

        `columns` are those of the sums of products that will be asked for.
        """
        ...

    # ---- the rows of single clusters ----

    async def cluster(self, labels: L, k: int) -> ClusterRows[Any, Any]:
        """The rows of one cluster."""
        ...

    def together(self, questions: Iterable[Asking[Answer]]) -> list[Answer]:
        """The results of coroutines that ask `ClusterRows`."""
        ...


def distinct_rows(table: MixedTable, enough: int) -> set[bytes]:
    """The cells of distinct rows, at most `enough` of them."""
    seen: set[bytes] = set()
    for rows in chunks(len(table)):
        for x, code in zip(table.numeric[rows], table.codes[rows], strict=True):
            seen.add((x + 0.0).tobytes() + code.tobytes())  # 0.0 and -0.0 are one value
            if len(seen) >= enough:
                return seen
    return seen
