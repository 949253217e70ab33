"""What every search of CRAFT shares: the configuration of a fit, its result, parallel starts, and clusters
without weight.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from threading import Event
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from craftc._common.estimator import FitResult
from craftc._common.merge_path import MergePath
from craftc._common.random import SAMPLE_ROWS, uniform
from craftc._common.threads import aligned, parallel_map, threads_for
from craftc._common.typing import Floats, Integers, Labels, Mask
from craftc._kernels import craft as craft_kernel
from craftc._kernels import craft_price as price_kernel
from craftc.craft.background import Background
from craftc.craft.clusters import Clusters, assign_only, pass_work
from craftc.craft.covariance import CrossProducts
from craftc.craft.description_length import pricing_of
from craftc.craft.one_point import one_point_costs
from craftc.craft.parameters import ModelSpec
from craftc.craft.progress import ProgressMeter
from craftc.craft.rows.local import LocalRows
from craftc.craft.rows.path_sums import PathClusters
from craftc.table import MixedTable
from craftc.table.moments import Moments

T = TypeVar("T")

_WORTH_A_THREAD, _WORTH_ALL_THREADS = 20_000, 4_000_000  # cells of a table whose starts run in parallel


@dataclass
class FitConfig:
    """A table, and how its partition is searched.

    Parameters
    ----------
    table : MixedTable
    weight : ndarray (n,) of int64
        Counts of the rows; empty: all one.
    background : Background
    spec : ModelSpec
    max_clusters : int
    max_iter : int
    seed : int
    n_threads : int
    capped_weight : ndarray (n,), optional
        min(w, 1) of every row; None: all one.
    callback : callable, optional
        Called with (pass, number of clusters, objective).
    meter : ProgressMeter
        Reports the progress over all starts and stages.
    total_weight : float, optional
        Weight of the rows, if they are only some of the rows of the background.
    stop : Event
        Once set, all searches that share it raise KeyboardInterrupt at their next pass.
    """

    table: MixedTable
    weight: Integers
    background: Background
    spec: ModelSpec
    max_clusters: int
    max_iter: int
    seed: int
    n_threads: int
    capped_weight: Floats | None = None
    callback: Callable[[int, int, float], None] | None = None
    total_weight: float | None = None
    stop: Event = field(default_factory=Event)
    meter: ProgressMeter = field(default_factory=ProgressMeter)

    @cached_property
    def rows(self) -> Any:
        """The rows of the table, as a search uses them."""
        return rows_of(self.table, self.weight)

    @cached_property
    def pricing(self) -> price_kernel.Pricing:
        """Prices and selection of features."""
        return pricing_of(self.background, self.spec, total_weight=self.total_weight)

    @cached_property
    def own_costs(self) -> Floats:
        """(n,) cost of every row, relative to the background, under its own one-point cluster with all
        features.
        """
        return one_point_costs(self.background, self.table)

    @property
    def rows_weight(self) -> float:
        """Weight of the rows."""
        return self.background.weight if self.total_weight is None else self.total_weight

    @property
    def least_fall(self) -> float:
        """Nats by which a pass must lower J for another to follow; 0: passes follow until no row moves.

        (1/2) log N for a table of weight N > 16 384, whose last passes move a few rows each and lower J by
        less than one parameter costs.
        """
        return 0.5 * math.log(self.rows_weight) if self.rows_weight > SAMPLE_ROWS else 0.0

    def threads(self, n_clusters: int) -> int:
        """Threads for one pass over n_clusters."""
        grid = self.background.grid
        return threads_for(self.n_threads, pass_work(len(self.table), grid.p + grid.q, n_clusters))

    def scratch(self, tables: craft_kernel.CostTables, n_threads: int) -> Floats:
        """Scratch of every thread, each on its own cache lines."""
        return aligned((n_threads, craft_kernel.scratch_size(tables)))

    def random_row(self, *key: int) -> int:
        """A random row of weight > 0."""
        draw = uniform(self.seed, *key)
        if not len(self.weight):
            return int(draw * len(self.table))
        positive = np.flatnonzero(self.weight)
        return int(positive[int(draw * len(positive))])

    def of_start(self, start: int) -> FitConfig:
        """The same configuration, which reports to the part of a start, if anybody looks."""
        callback = self.meter.of_part(start)
        return self if callback is None else replace(self, callback=callback)

    def moments(self, labels: Labels, n_clusters: int) -> Moments:
        """Exact moments of a partition."""
        background = self.background
        moments: Moments = self.rows.moments(
            background.grid, background.count_weight, labels, n_clusters, self.n_threads
        )
        return moments

    def of_rows(self, rows: NDArray[np.intp]) -> FitConfig:
        """The same configuration for some of the rows, with the background of the whole table."""
        weight = self.weight[rows] if len(self.weight) else self.weight
        capped = None if self.capped_weight is None else self.capped_weight[rows]
        total = float(weight.sum()) * self.background.count_weight if len(weight) else float(len(rows))
        return replace(
            self, table=self.table.take(rows), weight=weight, capped_weight=capped, total_weight=total
        )


@dataclass
class CraftResult(FitResult):
    """A partition, its clusters numbered by first appearance, and how it was found."""

    labels: Any  # a snapshot, as the rows keep it
    moments: Moments
    spec: ModelSpec
    merge_path: MergePath | None = None
    path_clusters: PathClusters | None = None
    n_clusters_at_4: int | None = None  # clusters left at four times the price, of many
    mask: Mask | None = None  # under the pooled background
    cross: CrossProducts | None = None  # if clusters hold covariances
    clusters: Clusters | None = None  # where they are known


def rows_of(table: Any, weight: Integers) -> Any:
    """The rows of a table, as a search uses them."""
    if isinstance(table, MixedTable):
        return LocalRows(table, weight)
    from craftc.craft.rows.partitioned import PartitionedRows  # which ordinary tables do not need

    return PartitionedRows(table)


def drop_empty(rows: Any, moments: Moments, labels: Any) -> tuple[Any, NDArray[np.intp]]:
    """Remove clusters without weight; the others keep their order. Rows of weight 0 in them get label -1.

    Returns the labels and the clusters that are left.
    """
    kept = moments.groups[:, 0].nonzero()[0]
    if len(kept) < moments.n_clusters:
        number = np.full(moments.n_clusters + 1, -1, np.int32)
        number[kept] = np.arange(len(kept), dtype=np.int32)
        labels = rows.renumbered(labels, number)
        moments.keep(kept)
    return labels, kept


def assign_zero_weight_rows(config: FitConfig, tables: craft_kernel.CostTables, labels: Labels) -> None:
    """Assign the rows whose cluster was dropped; only rows of weight 0 can have lost theirs."""
    lost = np.flatnonzero(labels < 0) if len(config.weight) else ()
    if len(lost):
        found = labels[lost]
        assign_only(config.table.take(lost), tables, found, 1)
        labels[lost] = found


def n_parallel_starts(config: FitConfig, n_starts: int) -> int:
    """Starts that run in parallel: several, where a pass is too short to be shared by threads but a whole
    start is worth a thread.
    """
    if n_starts == 1:
        return 1
    cells = len(config.table) * (config.background.grid.p + config.background.grid.q)
    return config.n_threads if _WORTH_A_THREAD <= cells <= _WORTH_ALL_THREADS else 1


def run_starts(run: Callable[[int], T], starts: Sequence[int], config: FitConfig) -> list[T]:
    """The result of every start, in order; after an interrupt the other starts end at their next pass."""
    return parallel_map(run, starts, n_parallel_starts(config, len(starts)), config.stop)
