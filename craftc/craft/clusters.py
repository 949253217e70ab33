"""Clusters of CRAFT: what each saves over the background, feature by feature, and its cost tables.

Paper: V. K. Garg, C. Rudin and T. Jaakkola, "CRAFT: ClusteR-specific Assorted Feature selecTion", AISTATS
2016. The default model ("likelihood") is the coherent form of its objective, a penalised likelihood that
every step minimises exactly in one block of variables:

    J = sum_n sum_d l0_d(x_n) + Lambda K + sum_k [ F_Delta |v_k| - sum_{d in v_k} gain_kd ]        (nats)

with l0 the cost of a cell under the background, the distribution of the whole table.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from craftc._common.labels import CHUNK, chunks
from craftc._common.threads import aligned
from craftc._common.typing import Floats, Integers, Labels, Mask
from craftc._kernels import craft as craft_kernel
from craftc._kernels import craft_covariance as covariance_kernel
from craftc._kernels import craft_pooled as pooled_kernel
from craftc._kernels import craft_price as price_kernel
from craftc._kernels.craft_shared import Shared
from craftc._kernels.moments import Grid
from craftc.craft.background import Background
from craftc.craft.covariance import BlockPricing, ClusterCovariances, CrossProducts
from craftc.craft.description_length import choose_features, pricing_of, same_prices
from craftc.craft.parameters import ModelSpec
from craftc.table import MixedTable
from craftc.table.moments import Moments

#: Moments for kernels that must leave moments as they are.
NO_MOMENTS = np.empty((0, 0, 0), np.int64), np.empty((0, 0), np.int64)


class Clusters:
    """Exact parameters, gains, masks and costs of a partition, from its moments.

    Parameters
    ----------
    moments : Moments
        Of K clusters, none empty.
    background : Background
    spec : ModelSpec
    mask : ndarray (K, D) of uint8, optional
        Under the pooled background: the masks found by a search, which are kept unless better ones are found.
    cross : CrossProducts, optional
        Sums by which clusters may hold covariances.
    prices : BlockPricing, optional
        Prices of this background and model, where they are known.

    Attributes
    ----------
    mask : ndarray (K, D) of uint8
        Selected features.
    costs : ndarray (K,)
        Cost of every cluster, nats: what it adds to the objective beyond the background. Under the pooled
        background, whose distributions depend on the masks, they are relative to these distributions and do
        not sum to the objective.
    excess : float
        Objective less that of the distribution of the whole table, nats.
    diagonal_mask : ndarray (K, D) of uint8
        Selected features before covariances were chosen, which may add features to those of a cluster.
    tabled_mask : ndarray (K, D) of uint8
        Selected features outside the covariances, whose costs are in cost tables.
    covariances : ClusterCovariances or None
        The covariances that clusters hold; None without `cross`.
    """

    def __init__(
        self,
        moments: Moments,
        background: Background,
        spec: ModelSpec,
        mask: Mask | None = None,
        cross: CrossProducts | None = None,
        prices: BlockPricing | None = None,
    ) -> None:
        self.moments, self.background, self.spec = moments, background, spec
        K = moments.n_clusters
        self.pricing = (
            pricing_of(background, spec, room=K) if prices is None else same_prices(prices.pricing, K)
        )
        mean, self.deviations = moments.means()
        self.shift: Floats = (mean - background.mean) / np.sqrt(background.variance)
        if spec.pooled:
            self.mask, self.costs, self.excess = _pooled(
                self, mask, "thorough" if mask is None else "continue"
            )
        else:
            self.mask, self.costs = (
                _priced_by_length(self) if spec.features_by_length else _at_fixed_price(self)
            )
            self.excess = float(self.costs.sum())
        self.diagonal_mask = self.tabled_mask = self.mask
        self.covariances: ClusterCovariances | None = None
        if cross is not None:
            self._hold_covariances(
                cross,
                BlockPricing(self.pricing, background, spec, cross.columns) if prices is None else prices,
            )

    def __getstate__(self) -> dict[str, Any]:
        """Arguments from which the clusters follow bit for bit; prices are objects of a compiled module."""
        return {
            "moments": self.moments,
            "spec": self.spec,
            "mask": self.diagonal_mask if self.spec.pooled else None,
            "cross": None if self.covariances is None else self.covariances.cross,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        Clusters.__init__(self, background=Background(state["moments"].total()), **state)

    def _hold_covariances(self, cross: CrossProducts, prices: BlockPricing) -> None:
        """Give covariances to the clusters that they make shorter; features that a covariance adds are
        selected.
        """
        gains = _relative_gains(self) if self.spec.pooled else self.gains
        held = ClusterCovariances.choose(prices, self.moments, self.shift, gains, self.mask, cross)
        of_blocks = held.features(self.mask.shape[1])
        self.mask = self.mask | of_blocks
        if self.spec.pooled:  # a feature more in one cluster changes the distribution that the others share
            self.mask, self.costs, self.excess = _pooled(self, self.mask, "keep")
            held.saving = held.saving_over_diagonal(prices.h)
            self.excess -= float(held.saving.sum())
            shared = self.pricing.shared
            held.shift, held.precision = shared.shift[cross.columns], shared.precision[cross.columns]
        self.tabled_mask = self.mask & ~of_blocks
        self.costs = self.costs - held.saving
        if not self.spec.pooled:
            self.excess = float(self.costs.sum())
        self.covariances = held

    @cached_property
    def gains(self) -> Floats:
        """(K, D) what every feature saves in every cluster over the distribution of the whole table, nats."""
        moments, background = self.moments, self.background
        gains = np.empty((moments.n_clusters, moments.grid.p + moments.grid.q))
        price_kernel.gains(
            moments.groups,
            moments.grid,
            moments.unit,
            background.frequency,
            background.variance,
            background.usable,
            self.shift,
            self.deviations,
            1.0,
            gains,
        )
        return gains

    @cached_property
    def precision(self) -> Floats:
        """(K, p) sigma_0^2 / sigma_k^2."""
        present, ratio = self.moments.present, self.deviations / self.background.variance
        if self.spec.model == "paper-fixed":
            return np.broadcast_to(self.background.unit_precision, ratio.shape).copy()
        if self.spec.fits_variance:
            return 1.0 / np.maximum(ratio / np.maximum(present, 1e-300), 1e-3)
        return (present + 1.0) / (ratio + 1.0)

    @property
    def price(self) -> float:
        """Price of a cluster in nats: Lambda, or price_factor * (1/2) log N."""
        return self.pricing.h

    @property
    def objective(self) -> float:
        """J, nats."""
        background = self.background.cost if self.spec.coherent else self.background.categorical_cost
        return background + self.excess

    @property
    def objective_of_one(self) -> float:
        """J of one cluster without a covariance under the description-length price, nats."""
        return self.background.cost + self.pricing.h + math.log(self.pricing.n_usable + 1.0)

    def level_probabilities(self) -> Floats:
        """(K, n_levels) eta = (c + alpha eta_0) / (S + alpha); 0 for missing levels."""
        counts, background = self.moments.counts, self.background
        seen = np.repeat(background.level_present(counts), background.level_widths, axis=1)
        alpha = self.spec.prior
        eta: Floats = (counts + alpha * background.frequency) / (seen + alpha)
        return eta * (background.frequency > 0)

    def tables(self) -> craft_kernel.CostTables:
        """Cost tables for a pass, without the features in blocks; the cost of every row contains the mixing
        cost, where it is priced.
        """
        extra, groups = np.empty(len(self.mask)), self.moments.groups
        price_kernel.mixing_costs(groups, self.pricing, extra)
        if not self.spec.coherent:  # the paper charges the mask to every row
            extra += self.spec.f_delta * self.mask.sum(axis=1)
        unit, shared = self.moments.unit, self.pricing.shared
        return cost_tables(
            groups,
            unit,
            self.background,
            self.spec,
            self.shift,
            self.precision,
            self.tabled_mask,
            extra,
            shared,
        )

    def background_costs(self, table: MixedTable) -> Floats:
        """(n,) cost of every row under the background, nats without (1/2) log 2 pi."""
        return self._background_costs(table, self._shared_tables())

    def _shared_tables(self) -> craft_kernel.CostTables | None:
        """Cost tables of the shared distributions, relative to that of the whole table; None: the clusters
        share the latter.
        """
        shared = self.pricing.shared
        if shared is None:
            return None
        lone = np.ascontiguousarray(self.background.usable[None])
        return cost_tables(
            shared.group[None],
            self.moments.unit,
            self.background,
            self.spec,
            shared.shift[None],
            shared.precision[None],
            lone,
            np.zeros(1),
        )

    def _background_costs(self, table: MixedTable, shared: craft_kernel.CostTables | None) -> Floats:
        if not self.spec.coherent:
            return self.background.categorical_row_costs(table.codes)
        out = self.background.row_costs(table.numeric, table.codes)
        if shared is not None:
            relative, scratch = np.empty((len(table), 1)), aligned((1, craft_kernel.scratch_size(shared)))
            craft_kernel.costs(table.numeric, table.codes, shared, scratch, relative)
            out += relative[:, 0]
        return out

    def assign(self, table: MixedTable, weight: Integers, labels: Labels, n_threads: int) -> int:
        """Assign every row to its cheapest cluster; returns the number of rows of weight > 0 that moved, 0
        without covariances.
        """
        tables = self.tables()
        if self.covariances is None:
            assign_only(table, tables, labels, n_threads)
            return 0
        return assign_with_blocks(table, weight, tables, self.covariances.blocks(), labels, n_threads)

    def row_costs(self, table: MixedTable) -> Floats:
        """(n, K) costs of rows, relative to the cost under the background."""
        out = np.empty((len(table), len(self.mask)))
        for rows, costs, _ in self.costs_in_chunks(table):
            out[rows] = costs
        return out

    def full_costs(self, table: MixedTable) -> Floats:
        """(n, K) costs of rows, those of the background included."""
        out = np.empty((len(table), len(self.mask)))
        for rows, costs, background in self.costs_in_chunks(table, full=True):
            np.add(costs, background[:, None], out=out[rows])
        return out

    def costs_in_chunks(
        self, table: MixedTable, full: bool = False
    ) -> Iterator[tuple[slice, Floats, Floats]]:
        """Slices of rows, their (m, K) costs relative to the background, and with `full` their (m,) costs
        under the background.

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

        def costs_of(part: MixedTable) -> tuple[Floats, Floats]:
            costs = room[: len(part)]
            if blocks is None:
                craft_kernel.costs(part.numeric, part.codes, tables, scratch, costs)
            else:
                covariance_kernel.costs(part.numeric, part.codes, tables, blocks, scratch, costs)
            return costs, self._background_costs(part, shared) if full else nothing

        for rows in chunks(len(table)):
            yield rows, *costs_of(table.take(rows))


def pass_work(n_rows: int, n_columns: int, n_clusters: int) -> int:
    """Cell visits of one pass: a vector of clusters costs as much as one cluster."""
    return n_rows * n_columns * _vectors(n_clusters)


def _vectors(n_clusters: int) -> int:
    """Vectors that hold one value for each cluster, the last one padded."""
    return (n_clusters + craft_kernel.PAD - 1) // craft_kernel.PAD


def _priced_by_length(clusters: Clusters) -> tuple[Mask, Floats]:
    """Masks and costs under the description-length price, from the same sums."""
    pricing, groups = clusters.pricing, clusters.moments.groups
    mask, cost = np.zeros(clusters.gains.shape, np.uint8), np.empty(len(groups))
    work = np.empty((len(groups), price_kernel.parts_size(pricing)))
    price_kernel.price_groups(
        groups, pricing, price_kernel.SELECTIONS[clusters.spec.selection], True, work, mask, cost
    )
    return mask, cost


def _pooled(clusters: Clusters, mask: Mask | None, effort: str) -> tuple[Mask, Floats, float]:
    """Masks, costs against the shared distributions, and J - J_0 under the pooled background."""
    pricing, groups = clusters.pricing, clusters.moments.groups
    chosen = (
        np.zeros((len(groups), pricing.D), np.uint8) if mask is None else np.array(mask, np.uint8, order="C")
    )
    cost, work = np.empty(len(groups)), np.empty((len(groups), price_kernel.parts_size(pricing)))
    excess = pooled_kernel.price_partition(groups, pricing, pooled_kernel.EFFORTS[effort], work, chosen, cost)
    return chosen, cost, excess


def _relative_gains(clusters: Clusters) -> Floats:
    """(K, D) gains over the shared distributions."""
    pricing, groups = clusters.pricing, clusters.moments.groups
    mask, cost = np.empty((len(groups), pricing.D), np.uint8), np.empty(len(groups))
    work = np.empty((len(groups), price_kernel.parts_size(pricing)))
    price_kernel.price_groups(groups, pricing, price_kernel.SELECTIONS["priced"], False, work, mask, cost)
    return price_kernel.gains_of_parts(pricing, work)


def _at_fixed_price(clusters: Clusters) -> tuple[Mask, Floats]:
    """Masks and costs where a feature costs F_Delta."""
    spec, gains, pricing, groups = clusters.spec, clusters.gains, clusters.pricing, clusters.moments.groups
    if spec.selection == "global":
        shared, _ = choose_features(pricing, "fixed", gains.sum(axis=0, keepdims=True))
        mask = np.repeat(shared, len(gains), axis=0)
    elif spec.coherent or spec.selection != "fixed":
        mask, _ = choose_features(pricing, spec.selection, gains, groups)
        if spec.selection == "threshold" and not spec.coherent:
            expected, own = _entropies(clusters)
            mask[:, clusters.moments.grid.p :] = expected - own > spec.categorical_threshold * expected
    else:
        mask, _ = choose_features(pricing, "fixed", _paper_scores(clusters))
    if spec.coherent:
        selected = clusters.price + spec.f_delta * mask.sum(axis=1)
        return mask, np.asarray(selected - np.where(mask, gains, 0.0).sum(axis=1))
    empty = np.flatnonzero(
        ~mask.any(axis=1)
    )  # without features a cluster would be at distance 0 from every row
    best = np.zeros((len(empty), mask.shape[1]), np.uint8)
    price_kernel.best_features(gains[empty], pricing, 1, np.empty(price_kernel.parts_size(pricing)), best)
    mask[empty] = best
    return mask, _paper_costs(clusters, mask.astype(bool))


def _paper_costs(clusters: Clusters, mask: NDArray[np.bool_]) -> Floats:
    """(K,) costs of the clusters in the paper's objective."""
    moments, background = clusters.moments, clusters.background
    p, counts = moments.grid.p, moments.counts * (background.frequency > 0)
    selected = clusters.price + clusters.spec.f_delta * mask.sum(axis=1)
    numeric = 0.5 * clusters.deviations / background.variance * clusters.precision
    probability = clusters.level_probabilities()
    with np.errstate(divide="ignore", invalid="ignore"):
        saved = np.where(counts > 0, counts * (np.log(probability) + background.level_cost), 0.0)
    start = moments.grid.level_start
    categorical = np.add.reduceat(saved, start, axis=1) if len(start) else np.zeros((len(mask), 0))
    numbers = np.where(mask[:, :p], numeric, 0.0).sum(axis=1)
    return np.asarray(selected + numbers - np.where(mask[:, p:], categorical, 0.0).sum(axis=1))


def _paper_scores(clusters: Clusters) -> Floats:
    """(K, D) scores of the paper's fixed budget: the lowest sigma_kd ("paper-relative": over sigma_0), and
    G_d - G_kd.
    """
    moments, background = clusters.moments, clusters.background
    present = moments.present
    scale = background.variance if clusters.spec.model == "paper-relative" else moments.grid.scale**2
    with np.errstate(divide="ignore", invalid="ignore"):
        numeric = -np.sqrt(clusters.deviations / present / scale)
    seen = background.level_present(moments.counts)
    expected, own = _entropies(clusters)
    scores = np.where(present > 0, numeric, -np.inf), np.where(seen > 0, expected - own, -np.inf)
    return np.concatenate(scores, axis=1)


def _entropies(clusters: Clusters) -> tuple[Floats, Floats]:
    """(K, q) G_d and G_kd of the paper: cost of a cluster's cells under the table's and under its own
    distribution, from raw counts.

    G_d - G_kd = S KL(eta_k || eta_0) >= 0.
    """
    background, counts = clusters.background, clusters.moments.counts
    if not clusters.moments.grid.q:
        return np.zeros((len(counts), 0)), np.zeros((len(counts), 0))
    expected = np.add.reduceat(counts * background.level_cost, clusters.moments.grid.level_start, axis=1)
    return expected, background.level_present(counts) * background.column_entropy(counts)


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
    lanes = _vectors(len(groups)) * craft_kernel.PAD
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
