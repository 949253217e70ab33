"""The most promising splits of clusters: candidates, their ranking, and local passes with two clusters.

A candidate puts the rows with some levels of a column on one side. In a wide table, candidates are first
screened: half of Pearson's chi-squared of the split against every column, to which the gain of a column tends
for weak dependence, replaces the exact change of J, whose cost is proportional to the columns. Only the
candidates of the largest net gains are then scored exactly. Screening costs candidates times columns, so that
of many candidates only those with the largest chi-squared summed over all columns are screened; products of
the rows give that sum for all of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic

import numpy as np
from numpy.typing import NDArray

from craftc._common.random import SAMPLE_ROWS, CraftStream
from craftc._common.threads import threads_for
from craftc._common.typing import Array, Floats, Integers, Mask
from craftc._kernels import craft_price as price_kernel
from craftc._kernels import craft_splits as splits_kernel
from craftc._kernels import moments as moments_kernel
from craftc._kernels.craft_rows import rows_in
from craftc.craft.background import feature_prices, pricing_of
from craftc.craft.rows import Candidates, Cells, ClusterRows, L, Passes, PassSpace, S
from craftc.craft.rows.local import LocalCluster, LocalRows, SplitRows
from craftc.craft.search import FitConfig

_PRICED, _FREE = price_kernel.SELECTIONS["priced"], price_kernel.SELECTIONS["free"]
_LOCAL_PASSES = 10
_MOST_CANDIDATES, _SCREENED = 256, 16  # screening starts above 256 candidates and keeps 16
_MOST_SCREENED = 512  # at most this number of them is compared with every column
_SPLIT_SAMPLE = 2048  # rows by which the candidates of a cluster are ranked
_TRIAL_SAMPLE = 8192  # rows by which the best split of a long cluster is tried before all are read
_SCREENING_SAMPLE = 256  # rows by which they are screened
_UNIT = 2.0**8  # grid steps of a screened numeric cell to a standard deviation of the table
_LARGEST = 2.0**15  # grid steps: cells further away are clipped
_HEAVIEST = 2**10  # weights are clipped
_STEPS = 2.0**10  # steps of a screening score to a nat
_COLUMNS_AT_ONCE = 64  # whose cells stay in the second-level cache
_PRODUCTS_AT_ONCE = 1 << 12  # columns whose products of rows are summed at a time
# steps to a standard deviation of a cell in these products, the largest cell in steps, and the largest
# weight: all sums are whole numbers below 2^53
_CELL_STEPS, _LARGEST_CELL, _LARGEST_WEIGHT = 2.0**5, 2.0**9, 2.0**4


@dataclass
class Split:
    """A split of a cluster in two, after its local passes."""

    delta: float  # change of J against the present shared distributions, nats
    moved: Any  # the rows that leave, as the store of the rows takes them
    groups: Integers  # (2, width) what stays, what leaves
    cost: Floats  # (2,)
    mask: Mask  # (2, D)


class SplitFinder(Generic[L, S]):
    """Finds splits of clusters with given moments; rows are read once for each cluster."""

    def __init__(self, config: FitConfig[L, S], space: PassSpace, D: int, n_threads: int) -> None:
        self.config, self.rows, self.n_threads, self._space = config, config.rows, n_threads, space
        grid, n = config.background.grid, len(config.rows)
        self._union = np.empty((n_threads, grid.width), np.int64)
        self._mask = np.empty((max(n_threads, 2), D), np.uint8)
        most = 3 * grid.q
        #: whether the table is so small that one kernel call on one thread tries all candidates of a cluster
        self.small = (
            n <= _SPLIT_SAMPLE
            and most <= _MOST_CANDIDATES
            and not config.rows.is_partitioned
            and threads_for(n_threads, n * most * grid.q) == 1
        )

    def splits(
        self,
        labels: L,
        groups: Integers,
        costs: Floats,
        clusters: Sequence[int],
        pricing: price_kernel.Pricing,
        at_any_price: bool = False,
    ) -> list[list[Split]]:
        """The most promising splits of each of some clusters, each after its local passes, at the prices of
        `pricing`.

        Splits that end with an empty side are dropped. If no split is left and `at_any_price` is set: the
        most promising one without its local passes.
        """
        if self.small and isinstance(self.rows, LocalRows) and isinstance(labels, np.ndarray):
            return [
                self._splits_at_once(
                    self.rows, rows_in(labels, k), groups[k], costs[k], pricing, at_any_price
                )
                for k in clusters
            ]
        return self.rows.together(
            self._splits_of(labels, k, groups[k], float(costs[k]), pricing, at_any_price) for k in clusters
        )

    def _splits_at_once(
        self,
        store: LocalRows,
        rows: NDArray[np.int32],
        group: Integers,
        own: float,
        pricing: price_kernel.Pricing,
        at_any_price: bool,
    ) -> list[Split]:
        """As `_splits_of`, of a small table."""
        n = 0
        for most, max_passes in ((3, _LOCAL_PASSES), (1, 0)) if at_any_price else ((3, _LOCAL_PASSES),):
            sides = np.empty((most, len(rows)), np.int32)
            groups = np.empty((most, 2, len(group)), np.int64)
            mask, cost = np.empty((most, 2, pricing.D), np.uint8), np.empty((most, 2))
            n = splits_kernel.local_splits(
                store.table.numeric,
                store.table.codes,
                store.weight,
                rows,
                group,
                own,
                pricing,
                max_passes,
                self._space.slab,
                self._space.scratch,
                self._space.work,
                np.empty(max_passes + 1),
                sides,
                groups,
                mask,
                cost,
            )
            if n:
                break
        costs = cost[:n].tolist()
        return [
            Split(
                costs[i][0] + costs[i][1] - float(own), SplitRows(rows, sides[i]), groups[i], cost[i], mask[i]
            )
            for i in range(n)
        ]

    async def _splits_of(
        self,
        labels: L,
        k: int,
        group: Integers,
        own: float,
        pricing: price_kernel.Pricing,
        at_any_price: bool,
    ) -> list[Split]:
        """The three most promising splits of cluster k with these moments and cost.

        Of a cluster of more than 16 384 rows only the most promising one, and only if it promises to pay in a
        sample: most are found on the sample of the table.
        """
        candidates, n = Candidates.of_group(group, pricing)
        if n == 0:
            return []
        cluster = await self.rows.cluster(labels, k)
        seed = self.config.seed
        if n > _MOST_CANDIDATES:
            cells = await cluster.sample(_SCREENING_SAMPLE, seed, CraftStream.SCREENING_SAMPLE)
            candidates, n = self._screened(group, cells, candidates, n, pricing)
        cells = await cluster.sample(_SPLIT_SAMPLE, seed, CraftStream.SPLIT_SAMPLE)
        every_row = len(cells) == len(cluster)
        leaving, score = self._scored(group, own, cells, every_row, candidates, n, pricing)
        found = []
        long = len(cluster) > SAMPLE_ROWS
        promising = three_best(score, leaving)[: 1 if long else 3]
        for c in promising:
            one = candidates.one(c)
            if long and not (at_any_price or await self._promises(group, cluster, one, pricing)):
                continue
            moments = leaving[c] if every_row else await cluster.leaving_moments(pricing, one, self.n_threads)
            split = await self._local_passes(group, own, cluster, one, moments, _LOCAL_PASSES, pricing)
            if split is not None:
                found.append(split)
        if not found and at_any_price and promising:
            one = candidates.one(promising[0])
            moments = await cluster.leaving_moments(pricing, one, self.n_threads)
            split = await self._local_passes(group, own, cluster, one, moments, 0, pricing)
            found = [] if split is None else [split]
        return found

    def _screened(
        self, group: Integers, cells: Cells, candidates: Candidates, n: int, pricing: price_kernel.Pricing
    ) -> tuple[Candidates, int]:
        """The most promising candidates of a wide table, by chi-squared on a sample of the cluster, and their
        number.
        """
        config, grid, tilts = self.config, pricing.grid, pricing.tilts
        codes, tilted = cells.table.codes[cells.rows], tilts.tilted > 0
        at = grid.level_start[tilted] + codes[:, tilted].astype(np.intp)
        price, weight = feature_prices(config.background, config.spec), tilts.weight
        leaving = cells.leaving_rows(pricing, candidates, n)
        distinct = distinct_divisions(leaving[cells.weights > 0])
        scores = net_gains(
            np.moveaxis(tilts.statistics[:, at], 0, 2),
            codes[:, ~tilted],
            cells.weights,
            config.background.level_widths[~tilted],
            leaving[:, distinct],
            np.concatenate([price[tilted], price[~tilted]]),
            np.concatenate([weight[tilted], weight[~tilted]]),
            float(group[0]) * pricing.count_weight,
        )
        chosen = np.sort(distinct[np.argsort(-scores, kind="stable")[:_SCREENED]])
        return candidates.some(chosen), len(chosen)

    def _scored(
        self,
        group: Integers,
        cost: float,
        cells: Cells,
        every_row: bool,
        candidates: Candidates,
        n: int,
        pricing: price_kernel.Pricing,
    ) -> tuple[Integers, Floats]:
        """(n, width) moments of the leaving rows and (n,) change of J of every candidate; a sample represents
        a large cluster.
        """
        work = self._space.work
        if every_row:
            sides = cells.leaving_moments(pricing, candidates, n, n_threads=self.n_threads)
        else:
            sides = cells.leaving_moments(pricing, candidates, n + 1, n, self.n_threads)
            pricing = self._scaled(pricing, group, sides[n])
            group, sides = np.ascontiguousarray(sides[n]), sides[:n]
            cost = self._costs(group[None], pricing, _PRICED)
        score = np.empty(n)
        splits_kernel.split_scores(
            group,
            cost,
            sides,
            pricing,
            score,
            self._union,
            work,
            self._mask,
            threads_for(self.n_threads, 20 * sides.size),
        )
        return sides, score

    def _scaled(
        self, pricing: price_kernel.Pricing, group: Integers, sample: Integers
    ) -> price_kernel.Pricing:
        """The prices by which a sample with these moments represents a cluster."""
        config, scale_up = self.config, float(group[0]) / max(float(sample[0]), 1.0)
        scaled = pricing_of(config.background, config.spec, scale_up, config.total_weight)
        scaled.shared, scaled.relative = pricing.shared, pricing.relative
        return scaled

    def _costs(self, groups: Integers, pricing: price_kernel.Pricing, selection: int) -> float:
        """The sum of the costs of at most two clusters."""
        K, cost = len(groups), np.empty(len(groups))
        price_kernel.price_groups(groups, pricing, selection, self._space.work[:K], self._mask[:K], cost)
        return float(cost.sum())

    async def _promises(
        self,
        group: Integers,
        cluster: ClusterRows[Any, Any],
        candidate: Candidates,
        pricing: price_kernel.Pricing,
    ) -> bool:
        """Whether a split, after local passes in a sample of the cluster, saves there at least half of what
        it costs. Passes fit the sample, so that they rather promise too much.
        """
        cells = await cluster.sample(_TRIAL_SAMPLE, self.config.seed, CraftStream.SPLIT_SAMPLE)
        leaving, whole = cells.leaving_moments(pricing, candidate, 2, 1, self.n_threads)
        scaled, own = self._scaled(pricing, group, whole), np.ascontiguousarray(whole)
        sample = LocalCluster(LocalRows(cells.table, cells.weight), cells.rows, 0)
        cost = self._costs(own[None], scaled, _PRICED)
        split = await self._local_passes(own, cost, sample, candidate, leaving, _LOCAL_PASSES, scaled)
        if split is None:
            return False
        saved = self._costs(own[None], scaled, _FREE) - self._costs(split.groups, scaled, _FREE)
        return split.delta < saved

    async def _local_passes(
        self,
        group: Integers,
        own: float,
        cluster: ClusterRows[Any, Any],
        candidate: Candidates,
        leaving: Integers,
        max_passes: int,
        pricing: price_kernel.Pricing,
    ) -> Split | None:
        """Passes with two clusters over the rows of a cluster; None if one side takes all rows."""
        grid = pricing.grid
        groups = np.stack([group, leaving])
        moments_kernel.merge(groups[0], leaving, -1, grid.first_numeric)
        mask, cost = np.zeros((2, pricing.D), np.uint8), np.empty(2)
        # two weak halves may differ before the codes of their masks pay: features are free
        halves = Passes(groups, 2, mask, cost, pricing, _FREE, 0.0)
        threads = threads_for(self.n_threads, len(cluster) * grid.q)
        sides = await cluster.sides(pricing, candidate)
        sides = await cluster.passes(sides, halves, max_passes, self._space, threads)
        if halves.K < 2:
            return None
        price_kernel.price_groups(groups, pricing, _PRICED, self._space.work[:2], mask, cost)
        return Split(float(cost[0] + cost[1] - own), cluster.leavers(sides), groups, cost, mask)


def best_split(splits: list[Split]) -> Split | None:
    """The split that lowers J most; within 1e-9 the earlier."""
    best: Split | None = None
    for split in splits:
        if best is None or split.delta < best.delta - 1e-9:
            best = split
    return best


def three_best(score: Floats, leaving: Integers) -> list[int]:
    """Positions of up to three finite scores, lowest first; within 1e-9 the earlier position is first. Of
    candidates under which rows of the same moments (C, width) leave, as of equal columns, one is chosen.
    """
    chosen: list[int] = []
    scores = score.tolist()  # of few candidates: faster than an array
    while len(chosen) < 3 and (least := min(scores, default=math.inf)) < math.inf:
        best = next(c for c, one in enumerate(scores) if one <= least + 1e-9)
        scores[best] = math.inf
        if not any(np.array_equal(leaving[best], leaving[c]) for c in chosen):
            chosen.append(best)
    return chosen


def distinct_divisions(leaving: NDArray[np.uint8]) -> NDArray[np.intp]:
    """The first of the candidates `leaving` (m, C) that divide the rows alike, whichever side leaves."""
    sides = np.packbits(leaving != leaving[:1], axis=0).T
    first: dict[bytes, int] = {}
    for c, side in enumerate(sides):
        first.setdefault(side.tobytes(), c)
    return np.array(list(first.values()), np.intp)


def net_gains(
    z: Floats,
    codes: Array,
    weight: NDArray[np.int64],
    widths: NDArray[np.intp],
    leaving: NDArray[np.uint8],
    price: Floats,
    column_weight: Floats,
    cluster_weight: float,
) -> NDArray[np.int64]:
    """(C,) sum over the features of what half the chi-squared of a split exceeds the feature's price by, in
    steps of 2^-10 nats; larger is more promising.

    Of m rows of the cluster: `z` (m, t, r) r statistics of t features in standard deviations of the table;
    `codes` (m, q) of the features with shares, which have `widths` (q,) levels, the last of them the missing
    one, which counts nothing; `weight` (m,); `leaving` (m, C) is 1 where a row leaves under a candidate.
    `price` (t + q,) is in nats, `column_weight` (t + q,) multiplies the gains, `cluster_weight` is in rows.
    """
    m, t, r = z.shape
    p, start = t * r, np.cumsum(widths) - widths
    w = np.minimum(weight, _HEAVIEST).astype(np.float64)
    cells = np.zeros((m, p + int(widths.sum())))
    cells[:, :p] = np.clip(np.rint(z.reshape(m, p) * _UNIT), -_LARGEST, _LARGEST)
    np.put_along_axis(cells, p + start + codes.astype(np.intp), 1.0, axis=1)
    weighted = cells * w[:, None]
    total, sums, size = w.sum(), weighted.sum(axis=0), (leaving * w[:, None]).sum(axis=0)
    spread = (weighted * cells).sum(
        axis=0
    ) * total - sums * sums  # total^2 times the variance, of levels: times the frequency
    spread[p:] = total * sums[p:]
    first = np.concatenate([np.arange(0, p, max(r, 1)), p + start, [cells.shape[1]]]).astype(np.intp)
    spread[first[t + 1 :] - 1] = 0.0
    factor = np.repeat(column_weight, np.diff(first))
    per_column = np.divide(factor, spread, out=np.zeros(len(spread)), where=spread > 0)
    divides = (size > 0) & (size < total)
    per_split = np.divide(
        _STEPS * 0.5 * cluster_weight, size * (total - size), out=np.zeros(len(size)), where=divides
    )
    scores = np.full(len(size), -1)
    some = np.arange(len(size))
    if len(size) > _MOST_SCREENED:
        gains = gains_of_all(cells, w, leaving, np.sqrt(per_column) * total)
        some = np.sort(np.argsort(-gains, kind="stable")[:_MOST_SCREENED])
    rows = np.nonzero(leaving[:, some].T)[1].astype(np.int32)
    begin = np.concatenate([[0], np.cumsum(np.count_nonzero(leaving[:, some], axis=0))]).astype(np.intp)
    of_some = np.empty(len(some), np.int64)
    work = np.empty((m + 1, max(_COLUMNS_AT_ONCE, int(np.diff(first).max(initial=0)))))
    splits_kernel.screen_splits(
        weighted,
        rows,
        begin,
        sums,
        size[some],
        total,
        per_column,
        per_split[some],
        first,
        _STEPS * price,
        work,
        of_some,
    )
    scores[some] = of_some
    return scores


def gains_of_all(cells: Floats, weight: Floats, leaving: NDArray[np.uint8], scale: Floats) -> Floats:
    """(C,) chi-squared of every split against all columns together, up to one factor; 0 where a side is
    empty.

    `cells` (m, W) times `scale` (W,) have variance 1 over rows of `weight` (m,). With x the deviations of the
    rows that leave from the mean, the sum over the columns of (sum of x)^2 is s' G s, for G (m, m) the sums
    of products of rows, and s the rows that leave: linear in columns and in splits.
    """
    m, most = len(cells), weight.max()
    w = weight if most <= _LARGEST_WEIGHT else np.maximum(np.rint(weight * (_LARGEST_WEIGHT / most)), 1.0)
    products, mean = np.zeros((m, m)), weight @ cells / weight.sum()
    for start in range(0, cells.shape[1], _PRODUCTS_AT_ONCE):
        part = slice(start, start + _PRODUCTS_AT_ONCE)
        x = np.rint((cells[:, part] - mean[part]) * (scale[part] * _CELL_STEPS))
        x = np.clip(x, -_LARGEST_CELL, _LARGEST_CELL) * w[:, None]
        products += x @ x.T
    out = ((products @ leaving) * leaving).sum(axis=0)
    size = w @ leaving
    rest = size * (w.sum() - size)
    return np.asarray(np.divide(out, rest, out=np.zeros(len(out)), where=rest > 0))
