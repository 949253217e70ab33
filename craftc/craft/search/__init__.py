"""What every search of CRAFT shares: the configuration of a fit, its result, parallel starts, and clusters
without weight.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from threading import Event
from typing import Any, Generic, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from craftc._common.estimator import FitResult
from craftc._common.merge_path import MergePath
from craftc._common.random import SAMPLE_ROWS, CraftStream, spread, uniform
from craftc._common.threads import parallel_map, threads_for
from craftc._common.typing import Array, Floats, Integers, Labels, Mask, WeightInput
from craftc._common.validation import check_countable, check_weight, integer_weights
from craftc._kernels import craft as craft_kernel
from craftc._kernels import craft_price as price_kernel
from craftc._kernels.moments import Grid
from craftc.craft.background import Background, one_point_costs, pricing_of
from craftc.craft.clusters import Clusters, assign_only, pass_work
from craftc.craft.fitted import PathClusters
from craftc.craft.parameters import ModelSpec
from craftc.craft.products import CrossProducts
from craftc.craft.progress import ProgressMeter
from craftc.craft.rows import Encoding, L, RowStore, S
from craftc.craft.rows.local import LocalRows
from craftc.table import MixedTable
from craftc.table.levels import LevelEncoding
from craftc.table.moments import Moments

Result = TypeVar("Result")
#: Chooses the encoding of the columns of a store, whose rows have these weights.
Encode: TypeAlias = Callable[[RowStore[Any, Any], "Floats | None"], Encoding]

_WORTH_A_THREAD, _WORTH_ALL_THREADS = 20_000, 4_000_000  # cells of a table whose starts run in parallel
_MANY_LEVELS = 1 << 14
_ROUNDING = 2.0**-46


@dataclass
class EncodedRows(Generic[L, S]):
    """The rows of a fit, as they were read and as the model sees them."""

    source: RowStore[L, S]
    rows: RowStore[L, S]
    encoding: Encoding
    source_grid: Grid
    background: Background
    weights: Floats | None  # (n,) as given
    weight: Integers  # (n,) as counts; empty: all one

    @classmethod
    def of_table(
        cls, table: MixedTable, sample_weight: WeightInput, n_threads: int, encode: Encode
    ) -> EncodedRows[Labels, NDArray[np.signedinteger]]:
        """The rows of a table of this process."""
        weights = check_weight(sample_weight, len(table))
        check_countable(weights)
        weight, unit = integer_weights(weights)
        return EncodedRows.of_store(LocalRows(table, weight), weights, weight, unit, n_threads, encode)

    @staticmethod
    def of_store(
        source: RowStore[L, S],
        weights: Floats | None,
        weight: Integers,
        unit: float,
        n_threads: int,
        encode: Encode,
    ) -> EncodedRows[L, S]:
        """The rows of a store, whose counts weigh `unit` each; `encode` chooses the encoding of their
        columns.
        """
        source_grid, rows, encoding = source.grid(), source, encode(source, weights)
        grid = source_grid
        if not encoding.identity:
            rows = source.encoded(encoding, n_threads)
            grid = rows.grid()
        total = rows.moments(grid, unit, rows.one_cluster(), 1, n_threads)
        levels = encoding if isinstance(encoding, LevelEncoding) else None
        background = Background(total, levels)
        return EncodedRows(source, rows, encoding, source_grid, background, weights, weight)

    def with_codes(self, columns: Collection[int]) -> EncodedRows[L, S]:
        """The same rows, in which these numeric columns, as positions among these, are codes."""
        encoding = self.encoding
        assert isinstance(encoding, LevelEncoding)
        each = enumerate(encoding.numbers)
        numbers = tuple(replace(own, ordered=own.ordered and d not in columns) for d, own in each)
        coded = replace(encoding, numbers=numbers)
        return replace(self, encoding=coded, background=Background(self.background.total, coded))

    def in_original_units(self, moments: Moments, labels: S, n_threads: int) -> Moments:
        """The moments of a partition in the units of the table."""
        if self.encoding.identity:
            return moments
        unit, restored = moments.unit, self.rows.restored(labels)
        found = self.source.moments(self.source_grid, unit, restored, moments.n_clusters, n_threads)
        return found.select(np.arange(moments.n_clusters))


@dataclass
class FitConfig(Generic[L, S]):
    """The rows of a table as the model sees them, and how their partition is searched."""

    rows: RowStore[L, S]
    weight: Integers  # (n,) counts of the rows; empty: all one
    background: Background
    spec: ModelSpec
    max_clusters: int
    seed: int
    n_threads: int
    max_iter: int = 100  # passes of a start at a fixed price
    callback: Callable[[int, int, float], None] | None = None  # (passes, number of clusters, objective)
    total_weight: float | None = None  # of the rows, if they are only some of the rows of the background
    stop: Event = field(
        default_factory=Event
    )  # once set, searches raise KeyboardInterrupt at their next pass
    meter: ProgressMeter = field(default_factory=ProgressMeter)
    encoding: LevelEncoding | None = None  # of the rows; None: covariances are not sought

    @property
    def table(self) -> MixedTable:
        """The table, for steps that read rows of this process only."""
        assert isinstance(self.rows, LocalRows)
        return self.rows.table

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

    @cached_property
    def capped_weight(self) -> Floats | None:
        """(n,) min(w, 1) of every row; None: all one."""
        return np.minimum(self.weight * self.background.count_weight, 1.0) if len(self.weight) else None

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

    @property
    def rounding(self) -> float:
        """Nats: a smaller change of J may be rounding, and a search that accepts it may not end."""
        return _ROUNDING * self.background.weight * self.background.usable.size

    def threads(self, n_clusters: int) -> int:
        """Threads for one pass over n_clusters."""
        grid = self.background.grid
        return threads_for(self.n_threads, pass_work(len(self.rows), grid.p + grid.q, n_clusters))

    def random_row(self, *key: int) -> int:
        """A random row of weight > 0."""
        draw = uniform(self.seed, *key)
        if not len(self.weight):
            return int(draw * len(self.rows))
        positive = np.flatnonzero(self.weight)
        return int(positive[int(draw * len(positive))])

    def of_start(self, start: int) -> FitConfig[L, S]:
        """The same configuration, which reports to the part of a start, if a callback is set."""
        callback = self.meter.of_part(start)
        return self if callback is None else replace(self, callback=callback)

    def moments(self, labels: L, n_clusters: int) -> Moments:
        """Exact moments of a partition."""
        background = self.background
        return self.rows.moments(background.grid, background.count_weight, labels, n_clusters, self.n_threads)

    def of_rows(self, rows: NDArray[np.intp]) -> FitConfig[Labels, NDArray[np.signedinteger]]:
        """The same configuration for some of the rows, with the background of the whole table."""
        weight = self.weight[rows] if len(self.weight) else self.weight
        total = float(weight.sum()) * self.background.count_weight if len(weight) else float(len(rows))
        taken = LocalRows(self.rows.take(rows), weight)
        return replace(self, rows=taken, weight=weight, total_weight=total)  # type: ignore[arg-type, return-value]

    def of_sample(self, rows: NDArray[np.intp]) -> FitConfig[Labels, NDArray[np.signedinteger]]:
        """As `of_rows`, of rows that represent the table.

        A price factor above 1 is multiplied by the sample's share of the table, but not below 1, because
        gains are proportional to the rows: a cluster that pays for itself in the table then also does in the
        sample.
        """
        sample = self.of_rows(rows)
        factor, share = self.spec.price_factor, sample.rows_weight / self.rows_weight
        return replace(sample, spec=replace(self.spec, price_factor=max(min(factor, 1.0), factor * share)))

    def sample(
        self, most: int, stream: CraftStream
    ) -> tuple[NDArray[np.intp], FitConfig[Labels, NDArray[np.signedinteger]]]:
        """At most `most` of the rows, ascending, and the configuration by which they are searched."""
        n = len(self.rows)
        if n <= most and isinstance(self.rows, LocalRows):
            return np.arange(n), self
        rows = np.arange(n) if n <= most else spread(n, most, self.seed, stream)
        return rows, self.of_sample(rows)


#: Of the rows of a table of this process.
LocalConfig: TypeAlias = FitConfig[Labels, Array]


@dataclass
class CraftResult(FitResult, Generic[S]):
    """A partition, its clusters numbered by first appearance, and how it was found."""

    labels: S
    moments: Moments
    spec: ModelSpec


@dataclass
class AutomaticResult(CraftResult[S]):
    """A partition found under the description-length price, and its way down to one cluster."""

    merge_path: MergePath
    path_clusters: PathClusters
    n_clusters_at_4: int | None  # clusters left at four times the price, of many
    mask: Mask
    cross: CrossProducts | None = None  # if clusters hold covariances
    clusters: Clusters | None = None  # where they are known; with covariances, of the rows with their scores


def drop_empty(rows: RowStore[L, S], moments: Moments, labels: L) -> tuple[L, NDArray[np.intp]]:
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


def run_starts(run: Callable[[int], Result], starts: Sequence[int], config: FitConfig[L, S]) -> list[Result]:
    """The result of every start, in order; after an interrupt the other starts end at their next pass."""
    return parallel_map(run, starts, n_parallel_starts(config, len(starts)), config.stop)


def n_parallel_starts(config: FitConfig[L, S], n_starts: int) -> int:
    """Starts that run in parallel: several, where a pass is too short to be shared by threads but a whole
    start is worth a thread. Of a table of many levels every start would hold counts of all of them.
    """
    if n_starts == 1 or config.background.grid.n_levels > _MANY_LEVELS:
        return 1
    cells = len(config.rows) * (config.background.grid.p + config.background.grid.q)
    return config.n_threads if _WORTH_A_THREAD <= cells <= _WORTH_ALL_THREADS else 1


def assign_zero_weight_rows(config: FitConfig[L, S], tables: craft_kernel.CostTables, labels: Labels) -> None:
    """Assign the rows whose cluster was dropped; only rows of weight 0 can have lost theirs."""
    lost = np.flatnonzero(labels < 0)
    if len(config.weight) and len(lost):
        found = labels[lost]
        assign_only(config.rows.take(lost), tables, found, 1)
        labels[lost] = found
