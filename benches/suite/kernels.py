"""CRAFT step by step: the pass over all rows, exact sums, gains and cost tables, and what the automatic
search calls.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .tools import Imports, Replay, aligned, aligned_copy

new = Imports()
with new:
    from craftc import CRAFT, MixedTable
    from craftc._common.validation import integer_weights
    from craftc._kernels import craft as craft_kernel
    from craftc._kernels import craft_price as price_kernel
    from craftc._kernels import craft_rows as rows_kernel
    from craftc._kernels import craft_shared as shared_kernel
    from craftc._kernels import moments as moments_kernel
    from craftc._kernels.moments import Grid
    from craftc.craft.background import Background
    from craftc.craft.paper.clusters import PaperClusters
    from craftc.craft.parameters import ModelSpec
    from craftc.table.bins import tally
    from craftc.table.levels import LevelEncoding
    from craftc.table.moments import Moments, integer_grid

    from .common import SEED, made, mixed_table
setup = new.setup

COLUMNS = {  # numbers, categories, dtype of the numbers
    "16 numbers": (16, 0, "float64"),
    "16 float32": (16, 0, "float32"),
    "16 categories": (0, 16, "float64"),
    "8 + 8": (8, 8, "float64"),
    "8 float32 + 8": (8, 8, "float32"),
    "100 + 100": (100, 100, "float64"),
}


@dataclass
class Partition:
    """A table cut into clusters: all that one step of a fit is given."""

    table: MixedTable
    grid: Grid
    weight: NDArray[np.int64]
    unit: float
    labels: NDArray[np.int32]
    moments: Moments
    background: Background
    clusters: PaperClusters


@lru_cache(maxsize=2)
def partition(n: int, p: int, q: int, k: int, dtype: str = "float64") -> Partition:
    """The clusters of a made table, a fifth of the rows put elsewhere; half the features each."""
    table = mixed_table(n, p, q, k, dtype)
    rng = np.random.default_rng(SEED)
    labels = made(n, p, q, k).target.astype(np.int32)
    stray = rng.random(n) < 0.2
    labels[stray] = rng.integers(0, k, int(stray.sum()))
    weight, unit = integer_weights(None)
    grid = integer_grid(table, weight)
    everything = np.zeros(n, np.int32)
    background = Background(Moments.of_partition(grid, unit, table, weight, everything, 1))
    moments = Moments.of_partition(grid, unit, table, weight, labels, k)
    clusters = PaperClusters(moments, background, ModelSpec(selection="fixed", fraction=0.5))
    return Partition(table, grid, weight, unit, labels, moments, background, clusters)


class _OnRows:
    """Work that grows with the rows: 20 000 of them."""

    params: Any = ([*COLUMNS][:-1], [4, 64])
    param_names = ("columns", "clusters")

    def setup(self, columns: str, k: int) -> None:
        p, q, dtype = COLUMNS[columns]
        self.given = partition(20_000, p, q, k, dtype)


class Assign(_OnRows):
    """The pass over all rows: cheapest cluster, moments of the rows that move; and the pass against one new
    cluster.
    """

    def setup(self, columns: str, k: int) -> None:
        super().setup(columns, k)
        self.tables = self.given.clusters.tables()
        self.scratch = aligned((1, craft_kernel.scratch_size(self.tables)))
        self.best = aligned(self.given.labels.shape)
        self.groups, self.labels = aligned_copy(self.given.moments.groups), aligned_copy(self.given.labels)
        self.partial = aligned_copy(np.zeros((1, *self.groups.shape), np.int64))
        self.restart()
        self.assign()

    def restart(self) -> None:
        self.labels[:] = self.given.labels
        self.groups[:] = self.given.moments.groups

    def assign(self) -> int:
        table = self.given.table
        return craft_kernel.assign(
            table.numeric,
            table.codes,
            self.given.weight,
            self.tables,
            self.labels,
            self.best,
            self.scratch,
            self.partial,
            self.groups,
            1,
        )

    def time_nothing_moves(self, *_: Any) -> None:
        self.assign()

    def time_a_fifth_moves(self, *_: Any) -> None:
        self.restart()
        self.assign()

    def time_reassign_if_cheaper(self, *_: Any) -> None:
        """By the last cluster, which wins nothing more."""
        table = self.given.table
        craft_kernel.reassign_if_cheaper(
            table.numeric,
            table.codes,
            self.given.weight,
            self.tables,
            len(self.groups) - 1,
            0,
            self.labels,
            self.best,
            self.scratch,
            self.partial,
            self.groups,
            1,
        )


class Accumulate(_OnRows):
    """Exact moments of all rows from scratch."""

    def setup(self, columns: str, k: int) -> None:
        super().setup(columns, k)
        self.groups = aligned_copy(self.given.moments.groups)
        self.partial = aligned_copy(np.zeros((1, *self.groups.shape), np.int64))

    def time_accumulate(self, *_: Any) -> None:
        given = self.given
        self.groups.fill(0)
        moments_kernel.accumulate(
            given.table.numeric,
            given.table.codes,
            given.weight,
            given.labels,
            given.grid,
            self.partial,
            self.groups,
            1,
        )


class Rows(_OnRows):
    """What the statistics of rows need: cheapest clusters, probabilities, counts of cells."""

    def setup(self, columns: str, k: int) -> None:
        super().setup(columns, k)
        self.costs = self.given.clusters.row_costs(self.given.table)
        self.least, self.second, self.total = np.empty((3, len(self.costs)))
        self.labels = np.empty(len(self.costs), np.int32)
        self.time_cheapest()

    def time_cheapest(self, *_: Any) -> None:
        rows_kernel.cheapest(self.costs, self.labels, self.least, self.second)

    def time_probabilities(self, *_: Any) -> None:
        rows_kernel.probabilities(self.costs, self.least, np.empty(0), self.total, self.second)

    def time_cells(self, *_: Any) -> None:
        table = self.given.table
        counted, counts = np.ones(table.numeric.shape[1], np.uint8), np.empty((2, len(table)), np.int64)
        rows_kernel.count_cells(table.numeric, table.codes, counted, table.n_levels, *counts)


class Refit:
    """What a pass costs per cluster and feature: gains, and the cost tables of the next pass.

    Fifty times each.
    """

    params: Any = (["8 + 8", "100 + 100"], [4, 64])
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
        for _time in range(50):
            price_kernel.gains(
                given.moments.groups,
                given.grid,
                given.unit,
                background.frequency,
                background.variance,
                background.usable,
                clusters.shift,
                clusters.deviations,
                1.0,
                background.tilts,
                self.gain,
            )

    def time_cost_tables(self, *_: Any) -> None:
        for _time in range(50):
            self.given.clusters.tables()


class Levels:
    """Codes of the levels of 16 numeric columns, 20 000 rows, and the tilts of groups of these rows."""

    params: Any = ([4, 64],)
    param_names = ("groups",)

    def setup(self, groups: int) -> None:
        self.table = mixed_table(20_000, 16, 0)
        numbers = self.table.numeric.T
        self.encoding = LevelEncoding.of_tallies(self.table.schema, [tally(x, None) for x in numbers])
        weight, unit = integer_weights(None)
        encoded = self.encoding.apply(self.table)
        grid = integer_grid(encoded, weight)
        labels = np.arange(20_000, dtype=np.int32) % groups
        moments = Moments.of_partition(grid, unit, encoded, weight, labels, groups)
        total = Moments.of_partition(grid, unit, encoded, weight, np.zeros_like(labels), 1)
        self.tilts = Background(total, self.encoding).tilts
        self.counts = np.ascontiguousarray(moments.groups[:, 1 : grid.first_numeric])

    def time_codes(self, *_: Any) -> None:
        self.encoding.apply(self.table)

    def time_tilts(self, *_: Any) -> None:
        gains, ratios = np.empty(len(self.counts)), np.zeros(self.counts.shape)
        shared_kernel.log_ratios(self.counts, 1.0, self.tilts, gains, ratios)


class Automatic:
    """What the search for the number of clusters calls, once more: passes at a price, prices of groups,
    merges, splits.
    """

    params: Any = (
        [
            "craft_merges.best_merge",
            "craft_merges.merge_while_cheaper",
            "craft_merges.pair_deltas",
            "craft_merges.split_while_cheaper",
            "craft_passes.passes",
            "craft_passes.passes_and_merges",
            "craft_pooled.price_partition",
            "craft_price.price_groups",
            "craft_seeding.kmeans_plus_plus",
            "craft_splits.leaving_rows",
            "craft_splits.local_splits",
            "craft_splits.split_moments",
            "craft_splits.split_scores",
        ],
    )
    param_names = ("kernel",)
    number = 1

    def setup(self, kernel: str) -> None:
        self.calls = automatic(kernel).ready()

    def time_calls(self, kernel: str) -> None:
        self.calls()


class Covariances:
    """What the last steps of a fit call, once more: products of columns, columns of covariances, rows under
    covariances, the factor behind the columns.
    """

    params: Any = (
        [
            "craft_cross_products.cross_products",
            "craft_covariance.choose_blocks",
            "craft_covariance.assign",
            "craft_covariance.block_savings",
            "craft_factor.fit",
        ],
    )
    param_names = ("kernel",)
    number = 1

    def setup(self, kernel: str) -> None:
        self.calls = slanted(kernel).ready()

    def time_calls(self, kernel: str) -> None:
        self.calls()


class Wide:
    """Fits of tables of many columns, whose candidate splits are screened."""

    params: Any = ([300, 3_000],)
    param_names = ("columns",)

    def setup(self, columns: int) -> None:
        rng = np.random.default_rng(0)
        self.X = rng.normal(size=(50, columns))
        self.X[:25, : columns // 10] += 2.0

    def time_fit(self, columns: int) -> None:
        CRAFT(n_init=1, random_state=0, n_threads=1).fit(self.X)


@lru_cache(maxsize=1)
def slanted(kernel: str) -> Replay:
    rng = np.random.default_rng(0)
    factors, group = rng.normal(size=(3, 3, 12)), rng.integers(0, 3, 20_000)
    X = (
        4.0 * group[:, None]
        + np.einsum("na,nab->nb", rng.normal(size=(20_000, 3)), factors[group])
        + rng.normal(size=(20_000, 12))
    )
    return Replay(kernel, lambda: CRAFT(n_init=2, random_state=0, n_threads=1).fit(X))


@lru_cache(maxsize=1)
def automatic(kernel: str) -> Replay:
    X = mixed_table(2_000, 20, 20, 8)
    return Replay(kernel, lambda: CRAFT(n_init=8, random_state=0, n_threads=1).fit(X))
