"""Clusters of CRAFT: what each saves over the background, feature by feature, and its cost tables.

    J = sum_n sum_d l0_d(x_n) + sum_k cost_k        (nats)

with l0 the cost of a cell under the background, the distribution of the whole table, and cost_k the
description length of `craftc.craft.background`. The clusters that do not select a feature share one
distribution of it (the pooled background).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from craftc._common.labels import CHUNK, chunks
from craftc._common.threads import aligned
from craftc._common.typing import Floats, Integers, Labels, Mask
from craftc._kernels import craft as craft_kernel
from craftc._kernels import craft_covariance as covariance_kernel
from craftc._kernels import craft_pooled as pooled_kernel
from craftc._kernels import craft_price as price_kernel
from craftc._kernels.craft_cross_products import Conditionals
from craftc._kernels.craft_shared import Shared, log_ratios
from craftc._kernels.moments import Grid
from craftc.craft.background import Background, Normals, codes_of_masks, pricing_of, usable_weight
from craftc.craft.block_pricing import BlockPricing, PricedPartition
from craftc.craft.covariance import ClusterCovariances
from craftc.craft.parameters import ModelSpec
from craftc.craft.products import CrossProducts
from craftc.table import MixedTable
from craftc.table.moments import Moments

#: Moments for kernels that must leave moments as they are.
NO_MOMENTS = np.empty((0, 0, 0), np.int64), np.empty((0, 0), np.int64)


class Clusters:
    """Exact parameters, gains, masks and costs of a partition, from the moments of its K clusters, none
    empty.

    `choice` (K, D): features that a search selected (1), those of covariances (2), both (3); None: chosen
    from the start. Better ones are sought from there, unless `keep`. `cross`: sums by which clusters may hold
    covariances. `prices`: those of this background and model, where they are known. `counts` (K,): rows by
    which clusters are mixed, where the moments have others.
    """

    def __init__(
        self,
        moments: Moments,
        background: Background,
        spec: ModelSpec,
        choice: Mask | None = None,
        cross: CrossProducts | None = None,
        prices: BlockPricing | None = None,
        keep: bool = False,
        counts: Integers | None = None,
    ) -> None:
        self.moments, self.background, self.spec, self.counts = moments, background, spec, counts
        self.covariances: ClusterCovariances | None = None
        K = moments.n_clusters
        if prices is None:
            self.pricing = pricing_of(background, spec, room=K)
        else:  # the same prices, with shared distributions of their own
            self.pricing = price_kernel.Pricing(*prices.pricing.arguments)
            self.pricing.shared = Shared(self.pricing.grid, K, spec.feature_sharing, prices.fits)
        self.shift, self.deviations = shifts(moments, background)
        # (K, D) selected features; (K,) costs relative to the shared distributions, which depend on masks, so
        # that they do not sum to the objective; and J less that of the distribution of the whole table
        effort = "keep" if keep else "thorough" if choice is None else "continue"
        selected: Mask | None = None if choice is None else np.bitwise_and(choice, 1)
        work = np.empty((K, price_kernel.parts_size(self.pricing)))  # parts of the clusters
        self.mask, self.costs, self.excess = self._chosen(selected, effort, work)
        self.tabled_mask = self.mask  # features outside covariances, which have cost tables
        self.choice = self.mask
        self.usable = background.usable  # features that clusters can select
        if cross is not None:
            if prices is None:
                prices = BlockPricing(self.pricing, background, spec, cross)
            kept: Mask | None = None
            if keep and choice is not None:
                kept = np.right_shift(choice.take(prices.levels, axis=1), 1)
            pooled_kernel.subtract_shared(moments.groups, self.pricing, work)
            scatter = prices.scatter_of(moments.groups, cross.sums)
            diagonal = PricedPartition(self.pricing, moments, scatter, work, self.mask, cross)
            if spec.tied:
                self._tie_covariances(diagonal, prices, kept)
            else:
                self._hold_covariances(diagonal, prices, kept)

    def _chosen(self, mask: Mask | None, effort: str, work: Floats) -> tuple[Mask, Floats, float]:
        """Masks, costs against the shared distributions, and `excess`; `work` receives the parts."""
        pricing, groups = self.pricing, self.moments.groups
        chosen = np.zeros((len(groups), pricing.D), np.uint8)
        if mask is not None:
            chosen[:] = mask
        cost = np.empty(len(groups))
        excess = pooled_kernel.price_partition(
            groups, pricing, pooled_kernel.EFFORTS[effort], work, chosen, cost
        )
        return chosen, cost, excess

    def _hold_covariances(self, diagonal: PricedPartition, prices: BlockPricing, kept: Mask | None) -> None:
        """Give covariances and normal densities to the clusters that they make shorter; features that a
        covariance adds are selected.
        """
        deviations, part, block = diagonal.scatter.deviations, diagonal, kept
        found, gains = prices.estimates(deviations, diagonal.moments.sizes), prices.gains_of(diagonal)
        if block is None:
            block = prices.choose(gains, deviations, found, diagonal.mask)[0]
        of_blocks = prices.features(block)
        if (of_blocks > self.mask).any():
            # a feature more in one cluster changes the distribution that the others share
            work = np.empty_like(diagonal.work)
            self.mask, self.costs, self.excess = self._chosen(self.mask | of_blocks, "keep", work)
            pooled_kernel.subtract_shared(diagonal.moments.groups, self.pricing, work)
            part = diagonal._replace(work=work, mask=self.mask)
            gains = prices.gains_of(part)
        held = self.covariances = ClusterCovariances.of_blocks(prices, part, block, found, gains)
        self.excess -= held.saved
        # these densities are ones over that of the whole table
        self.tabled_mask = np.where(prices.features(held.replaced), 2, self.mask).astype(np.uint8)
        self.choice = self.choice | 2 * of_blocks
        self.costs = self.costs - held.saving

    def _tie_covariances(self, diagonal: PricedPartition, prices: BlockPricing, kept: Mask | None) -> None:
        """Give all clusters one covariance, if that is shorter; its features leave the masks, which name what
        differs between clusters.
        """
        held, saved = ClusterCovariances.tie(prices, diagonal, kept)
        self.covariances = held
        if not held.block.any():  # the diagonal form
            return
        of_blocks = prices.features(held.block)
        before = self.pricing, self.usable, self.mask, self.costs, self.excess
        self.usable = (self.usable * (of_blocks[0] == 0)).astype(np.uint8)
        codes = codes_of_masks(usable_weight(self.background, self.usable), self.spec)
        self.pricing = self.pricing.among(self.usable, *codes)
        self.pricing.shared = Shared(
            self.pricing.grid, len(self.mask), self.spec.feature_sharing, prices.fits
        )
        effort = "continue" if kept is None else "keep"
        work = np.empty_like(diagonal.work)
        rest, self.costs, self.excess = self._chosen(self.mask * self.usable, effort, work)
        self.excess -= saved
        if kept is None and not prices.full and self.excess >= before[-1]:
            self.pricing, self.usable, self.mask, self.costs, self.excess = before
            self._tie_covariances(diagonal, prices, np.zeros_like(held.block))
            return
        self.tabled_mask = rest + 2 * of_blocks
        self.choice = np.where(of_blocks, self.mask | 2, rest).astype(np.uint8)
        self.mask = rest | of_blocks
        self.costs = self.costs - held.saving

    @cached_property
    def gains(self) -> Floats:
        """(K, D) what every feature saves in every cluster over the distribution of the whole table, nats."""
        gains = gains_of(self.moments, self.background)
        held = self.covariances
        if held is not None and held.normals is not None:
            own = held.normals.own, held.normals.gains
            gains[:, held.levels] = np.where(*own, gains[:, held.levels])
        return gains

    @property
    def normals(self) -> Normals | None:
        """Normal densities outside the blocks of covariances, if there are any."""
        return None if self.covariances is None else self.covariances.normals

    @cached_property
    def precision(self) -> Floats:
        """(K, p) sigma_0^2 / sigma_k^2."""
        ratio: Floats = self.deviations / self.background.variance
        return (self.moments.present + 1.0) / (ratio + 1.0)

    @cached_property
    def conditionals(self) -> Conditionals | None:
        """The distributions of missing cells in columns that may be in covariances; None: none is missing."""
        held = self.covariances
        if held is None or self.background.complete[held.cross.columns].all():
            return None
        return held.conditionals()

    @property
    def objective(self) -> float:
        """J, nats."""
        return self.background.cost + self.excess

    @property
    def objective_of_one(self) -> float:
        """J of one cluster without a covariance under the description-length price, nats."""
        code = self.pricing.code
        if self.spec.feature_sharing > 0.0:
            code += self.pricing.shared.sharing.code(np.array([self.pricing.usable_weight, 0.0]))
        return self.background.cost + self.pricing.h + code

    def level_probabilities(self) -> Floats:
        """(K, n_levels) eta = (c + alpha eta_0) / (S + alpha); 0 for missing levels."""
        counts, background = self.moments.counts, self.background
        seen = np.repeat(background.level_present(counts), background.level_widths, axis=1)
        alpha = self.spec.prior
        eta: Floats = (counts + alpha * background.frequency) / (seen + alpha)
        eta = tilted_shares(background, self.moments.groups, eta) * (background.frequency > 0)
        if self.normals is not None:
            own = background.frequency * np.exp(self.normals.ratios)
            eta = np.where(self._levels_of(self.normals.own), own, eta)
        return eta

    def tables(self) -> craft_kernel.CostTables:
        """Cost tables for a pass, without the features in blocks; the cost of every row contains the mixing
        cost, where it is priced.
        """
        groups, shared = self.moments.groups, self.pricing.shared
        tables = cost_tables(
            groups,
            self.moments.unit,
            self.background,
            self.spec,
            self.shift,
            self.precision,
            self.tabled_mask,
            self.mixing_costs(),
            shared,
        )
        if self.covariances is not None:
            self.covariances.add_level_costs(tables.level)
        if self.normals is not None:
            own, sharing = self._levels_of(self.normals.own), self._levels_of(self.normals.sharing)
            level = tables.level[:, : len(own)]  # without padding
            level -= np.where(own, self.normals.ratios, 0.0).T
            if self.normals.shared is not None:
                level -= np.where(sharing, self.normals.shared.ratios, 0.0).T
        return tables

    def _levels_of(self, scored: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """(K, n_levels) the levels of columns of scores (K, P)."""
        assert self.covariances is not None
        columns = np.zeros((len(scored), self.moments.grid.q), bool)
        columns[:, self.covariances.levels - self.moments.grid.p] = scored
        return np.repeat(columns, self.background.level_widths, axis=1)

    def mixing_costs(self) -> Floats:
        """(K,) nats that a row pays in every cluster, whatever its cells."""
        if self.counts is not None:  # a cluster without rows counts as one
            shares = np.maximum(self.counts, 1)
            return np.asarray(-np.log(shares / shares.sum()))
        extra = np.empty(len(self.mask))
        price_kernel.mixing_costs(self.moments.groups, self.pricing, extra)
        return extra

    def background_costs(self, table: MixedTable) -> Floats:
        """(n,) cost of every row under the background, nats without (1/2) log 2 pi."""
        return self._table_costs(table) + self._shared_costs(table, self._shared_tables())

    def _shared_tables(self) -> craft_kernel.CostTables | None:
        """Cost tables of the shared distributions, relative to that of the whole table; None: the clusters
        share that of the whole table.
        """
        shared = self.pricing.shared
        if shared is None:
            return None
        lone = np.ascontiguousarray(self.usable[None])
        return cost_tables(
            shared.group[None],
            self.moments.unit,
            self.background,
            self.spec,
            np.zeros((1, self.moments.grid.p)),
            np.ones((1, self.moments.grid.p)),
            lone,
            np.zeros(1),
        )

    def _table_costs(self, table: MixedTable) -> Floats:
        """(n,) cost of every row under the distribution of the whole table."""
        return self.background.row_costs(table.numeric, table.codes)

    def _shared_costs(self, table: MixedTable, shared: craft_kernel.CostTables | None) -> Floats:
        """(n,) what every row costs under the shared distributions over that of the whole table."""
        relative = np.zeros((len(table), 1))
        if shared is not None:
            scratch = aligned((1, craft_kernel.scratch_size(shared)))
            craft_kernel.costs(table.numeric, table.codes, shared, scratch, relative)
        return relative[:, 0]

    def assign(self, table: MixedTable, weight: Integers, labels: Labels, n_threads: int) -> int:
        """Assign every row to its cheapest cluster; returns the number of rows of weight > 0 that moved, 0
        without covariances.
        """
        tables = self.tables()
        if self.covariances is None:
            assign_only(table, tables, labels, n_threads)
            return 0
        return assign_with_blocks(table, weight, tables, self.covariances.blocks(), labels, n_threads)

    def cheapest(self, table: MixedTable, n_threads: int) -> Labels:
        """(n,) the cheapest cluster of every row."""
        labels: Labels = np.full(len(table), -1, np.int32)
        self.assign(table, np.empty(0, np.int64), labels, n_threads)
        return labels

    def row_costs(self, table: MixedTable) -> Floats:
        """(n, K) costs of rows, relative to the cost under the background."""
        out = np.empty((len(table), len(self.mask)))
        for rows, costs, *_ in self.costs_in_chunks(table):
            out[rows] = costs
        return out

    def full_costs(self, table: MixedTable) -> Floats:
        """(n, K) costs of rows, those of the background included."""
        out = np.empty((len(table), len(self.mask)))
        for rows, costs, of_table, shared in self.costs_in_chunks(table, full=True):
            np.add(costs, (of_table + shared)[:, None], out=out[rows])
        return out

    def costs_in_chunks(
        self, table: MixedTable, full: bool = False
    ) -> Iterator[tuple[slice, Floats, Floats, Floats]]:
        """Slices of rows, their (m, K) costs relative to the background, and with `full` their (m,) costs
        under the distribution of the whole table, and what the background costs over that.

        The next slice overwrites the former costs.
        """
        tables, shared = self.tables(), self._shared_tables() if full else None
        blocks = None if self.covariances is None else self.covariances.blocks()
        size = (
            craft_kernel.scratch_size(tables)
            if blocks is None
            else covariance_kernel.scratch_size(tables, blocks)
        )
        scratch, room, nothing = (
            aligned((1, size)),
            np.empty((min(CHUNK, len(table)), len(self.mask))),
            np.empty(0),
        )

        for rows in chunks(len(table)):
            part, costs = table.take(rows), room[: rows.stop - rows.start]
            if blocks is None:
                craft_kernel.costs(part.numeric, part.codes, tables, scratch, costs)
            else:
                covariance_kernel.costs(part.numeric, part.codes, tables, blocks, scratch, costs)
            if full:
                yield rows, costs, self._table_costs(part), self._shared_costs(part, shared)
            else:
                yield rows, costs, nothing, nothing


def shifts(moments: Moments, background: Background) -> tuple[Floats, Floats]:
    """(K, p) distances of the means from those of the table, in its standard deviations, and sums of squared
    deviations.
    """
    mean, deviations = moments.means()
    return (mean - background.mean) / np.sqrt(background.variance), deviations


def gains_of(moments: Moments, background: Background) -> Floats:
    """(K, D) what every feature saves in every cluster over the distribution of the whole table, without
    covariances, nats.
    """
    gains = np.empty((moments.n_clusters, moments.grid.p + moments.grid.q))
    price_kernel.gains(
        moments.groups,
        moments.grid,
        moments.unit,
        background.frequency,
        background.variance,
        background.usable,
        *shifts(moments, background),
        1.0,
        background.tilts,
        gains,
    )
    return gains


def tilted_shares(background: Background, groups: Integers, shares: Floats) -> Floats:
    """(K, n_levels) `shares` of the levels in groups, of tilted columns those of the tilts."""
    tilted = np.repeat(background.tilts.tilted > 0, background.level_widths)
    if not tilted.any():
        return shares
    counts = np.ascontiguousarray(groups[:, 1 : background.grid.first_numeric])
    ratios = np.zeros(counts.shape)
    log_ratios(counts, background.count_weight, background.tilts, np.empty(len(counts)), ratios)
    return np.where(tilted, background.frequency * np.exp(ratios), shares)


def pass_work(n_rows: int, n_columns: int, n_clusters: int) -> int:
    """Cell visits of one pass: a vector of clusters costs as much as one cluster."""
    return n_rows * n_columns * -(-n_clusters // craft_kernel.PAD)


def cost_tables(
    groups: Integers,
    count_weight: float,
    background: Background,
    spec: ModelSpec,
    shift: Floats,
    precision: Floats,
    mask: Mask,
    extra: Floats,
    shared: Shared | None = None,
) -> craft_kernel.CostTables:
    """Allocate and fill the cost tables of K clusters, relative to the shared distributions or to that of the
    whole table.
    """
    grid: Grid = background.grid
    lanes = -(-len(groups) // craft_kernel.PAD) * craft_kernel.PAD  # the last vector is padded
    return craft_kernel.cost_tables(
        groups,
        grid,
        count_weight,
        background.centre,
        background.scale,
        background.frequency,
        shift,
        precision,
        mask,
        extra,
        spec.prior,
        spec.coherent,
        shared,
        background.tilts,
        aligned((2 + 3 * grid.p + grid.n_levels, lanes)),
    )


def assign_only(table: MixedTable, tables: craft_kernel.CostTables, labels: Labels, n_threads: int) -> None:
    """Assign every row to its cheapest cluster and compute no moments."""
    scratch = aligned((n_threads, craft_kernel.scratch_size(tables)))
    craft_kernel.assign(
        table.numeric,
        table.codes,
        np.empty(0, np.int64),
        tables,
        labels,
        np.empty(0),
        scratch,
        *NO_MOMENTS,
        n_threads,
    )


def assign_with_blocks(
    table: MixedTable,
    weight: Integers,
    tables: craft_kernel.CostTables,
    blocks: covariance_kernel.Blocks,
    labels: Labels,
    n_threads: int,
) -> int:
    """As `assign_only`, with the covariances of clusters; returns the number of rows of weight > 0 that
    moved.
    """
    scratch = aligned((n_threads, covariance_kernel.scratch_size(tables, blocks)))
    return covariance_kernel.assign(
        table.numeric, table.codes, weight, tables, blocks, labels, scratch, n_threads
    )


def bhattacharyya(clusters: Clusters) -> Floats:
    """(K, K) sum or integral of sqrt(f_i f_j) over rows, with f_k the distribution of cluster k as the model
    has it.

    Columns are independent except in a covariance, so that the coefficient is a product over columns: of two
    distributions of levels sum_t sqrt(p_it p_jt), and of two normal densities with S = (S_i + S_j) / 2

        log BC = -(m_i - m_j)' S^-1 (m_i - m_j) / 8 - (log |S| - (log |S_i| + log |S_j|) / 2) / 2.

    A column that one of two clusters holds in a covariance counts by its scores, which are taken as normal in
    the other cluster, too.
    """
    mean, variance, probability = distributions_of(clusters)
    usable, grid, K = clusters.background.usable.astype(bool), clusters.moments.grid, len(clusters.mask)
    single, of_levels = usable[: grid.p], np.repeat(usable[None, grid.p :], K, axis=0)
    out, held = np.eye(K), clusters.covariances
    if held is not None:
        block, columns = held.block.astype(bool), held.cross.columns
        own = np.where(block, held.mean, mean[:, columns])
        matrices = np.array([np.diag(each) for each in variance[:, columns]])
        for k in range(K):
            matrices[k][np.ix_(block[k], block[k])] = held.matrix[k][np.ix_(block[k], block[k])]
            of_levels[k, held.levels[block[k]] - grid.p] = False
    root, ends = np.sqrt(probability), np.append(grid.level_start, grid.n_levels)
    for i in range(K):
        for j in range(i):
            both, log = root[i] * root[j], 0.0
            if single.any():
                between = 0.5 * (variance[i, single] + variance[j, single])
                apart = mean[i, single] - mean[j, single]
                log -= (apart**2 / between).sum() / 8
                log -= 0.5 * (np.log(between) - 0.5 * np.log(variance[i, single] * variance[j, single])).sum()
            if held is not None:
                some = np.ix_(block[i] | block[j], block[i] | block[j])
                A, B, apart = matrices[i][some], matrices[j][some], (own[i] - own[j])[block[i] | block[j]]
                of_one, of_other, of_both = np.linalg.slogdet(np.array([A, B, 0.5 * (A + B)]))[1]
                log -= apart @ np.linalg.solve(0.5 * (A + B), apart) / 8
                log -= 0.5 * (of_both - 0.5 * (of_one + of_other))
            by_levels = np.flatnonzero(of_levels[i] & of_levels[j])
            shared = [both[ends[c] : ends[c + 1]].sum() for c in by_levels]
            out[i, j] = out[j, i] = min(np.exp(log) * np.prod(shared), 1.0)
    return out


def distributions_of(clusters: Clusters) -> tuple[Floats, Floats, Floats]:
    """(K, p) means and variances in units of the table, and (K, n_levels) level probabilities; where not
    selected, those shared. Columns of scores are selected with their levels.
    """
    moments, background, shared = clusters.moments, clusters.background, clusters.pricing.shared
    p, selected = moments.grid.p, clusters.mask.astype(bool)
    numbers = selected[:, background.levels_of_scores if len(background.levels_of_scores) else np.arange(p)]
    probability = clusters.level_probabilities()
    if shared is None:
        rest = background.frequency
    else:
        counts = shared.group[1 : moments.grid.first_numeric] * moments.unit
        seen = np.repeat(background.level_present(counts[None]), background.level_widths, axis=1)[0]
        alpha = clusters.spec.prior
        rest = (counts + alpha * background.frequency) / (seen + alpha)
        rest = tilted_shares(background, shared.group[None], rest[None])[0]
    of_level = np.repeat(selected[:, p:], background.level_widths, axis=1)
    probability = np.where(of_level, probability, rest * (background.frequency > 0))
    normals = clusters.normals
    if normals is not None and normals.shared is not None:
        of_normals = background.frequency * np.exp(normals.shared.ratios)
        probability = np.where(clusters._levels_of(normals.sharing), of_normals, probability)
    return (
        np.where(numbers, clusters.shift, 0.0),
        1.0 / np.where(numbers, clusters.precision, 1.0),
        probability,
    )
