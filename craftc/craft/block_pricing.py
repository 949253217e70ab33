"""The price of covariances inside clusters: a cluster may hold one full covariance of some of its numeric
columns where that is shorter.

A slanted cloud is cut into slices by a model whose features are independent inside clusters. A number is
represented by a score z of its level, in units in which the whole table has mean 0 and variance 1: its value
or, in a column that few cells would rule, its normal score. With m columns in one block, a cluster of S rows
costs, relative to the table's own distributions,

    m (2 + (m - 1) / 2) h - sum_d g_d - (S + 1) / 2 (sum_d log Sigma_dd - log det Sigma),

where h = price_factor * (1/2) log N and Sigma = (SS + S V + R) / (S + 1): SS are the cross products of
deviations over the rows of the cluster, V is diagonal, the variances inside the levels, and R, the shrunk
correlations of the whole table, is one row of prior; it adds -(1/2) log det R, so that a cluster without rows
costs its prices. g_d, the gain of a normal density of column d over N(0, 1), is lessened by the excess of its
levels, what their density in the table is above N(0, 1). The block replaces the tilts of its columns.

The density at the score of a level is more than its share of a cluster where the level is wider than the
cluster, as a frequent value is. Where the shares of all levels of a column would sum to Z_d, and log Z_d is
above .1 and 3 / sqrt(S), which levels and chance explain, every cell costs the difference more.

Tied clusters share one covariance of the same columns, and differ in their means. With SS and V summed over
all clusters and S = N, they cost together

    m (K - 1 + (m - 1) / 2) h - sum_kd g_kd - (N + 1) / 2 (sum_d log Sigma_dd - log det Sigma)
        - (1/2) log det R

because the mean and the variance of a column of the whole table have no price. Their row of prior has the
variances inside the clusters, shrunk towards those of the table as R is towards independence: with those of
the table, it would cost more the farther groups are apart, but would not for a common factor through them.
Where that is shorter, a covariance has common factors (`craftc.craft.products`), m in place of m (m - 1) / 2
for one, or none: then its columns are independent, Sigma is diagonal, and tied clusters differ in their means
only.

Outside blocks, a normal density of the levels (`craftc.craft.background`) replaces a tilt where it is
shorter: that of one cluster, and the one that clusters share. The block of one cluster needs correlations
that save more than they cost.

A row with missing cells costs the marginal of its observed columns. In the sums a missing cell counts as it
is expected from the others (`craftc.craft.products`).
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from craftc._common.threads import threads_for
from craftc._common.typing import Floats, Integers, Mask
from craftc._kernels import craft_covariance as kernel
from craftc._kernels import craft_price as price_kernel
from craftc._kernels import moments as moments_kernel
from craftc._kernels.craft_shared import Fits
from craftc.craft.background import (
    Background,
    NormalLevels,
    SharedNormals,
    code_of,
    codes_of_masks,
    feature_prices,
    half_log,
    log_choices,
    mask_codes,
    usable_weight,
)
from craftc.craft.parameters import ModelSpec
from craftc.craft.products import (
    FEWEST_COLUMNS,
    FEWEST_OWN_COLUMNS,
    RANKING_STEPS,
    SHRINKAGE,
    STEPS,
    CommonFactors,
    CrossProducts,
    Scatter,
    common_factors,
)
from craftc.table.moments import Moments

_DOUBLES_AT_ONCE = 1 << 20  # of the covariances of pairs of clusters
_ROOM = 64  # clusters of the partitions whose fits are found again
_WORTH = 1e-6  # nats that a shared normal density must save


class PricedPartition(NamedTuple):
    """A partition as the diagonal form has priced it."""

    pricing: price_kernel.Pricing  # with the distributions that the clusters share
    moments: Moments
    scatter: Scatter  # of the columns of `cross`
    work: Floats  # (K, parts_size) parts of the clusters
    mask: Mask  # (K, D)
    cross: CrossProducts


class ColumnGains(NamedTuple):
    """Gains (m, P) of the columns of a block over the table, for groups of rows."""

    tilt: Floats  # of a tilt of its own
    normal: Floats  # of a normal density of its own, as a distribution of levels
    block: Floats  # of a normal density in a block
    norms: Floats  # log Z of these densities, or 0
    shared_tilt: Floats  # of the tilt that clusters share which do not select the column
    shared: Floats  # of the distribution that they share: this tilt or a normal density
    ratios: Floats | None  # (m, n_levels) log p(l) / b_l of normal densities of its own
    normals: SharedNormals | None  # that are shared

    def over_tilts(self, selected: Mask) -> Floats:
        """(m, P) what normal densities save where they are shorter than tilts, outside blocks."""
        own = np.maximum(self.normal - self.tilt, 0.0)
        return np.where(selected, own, self.shared - self.shared_tilt)


class Estimates(NamedTuple):
    """Covariances of groups of rows, smoothed by one row of prior, and the common factors behind them."""

    S: Floats  # (g, P, P)
    weight: Floats  # (g,) of the rows
    factors: CommonFactors | None  # None: there are none


class BlockPricing:
    """The choice of covariances: whether a group of rows holds one, over which of P numeric columns, and what
    it saves over the diagonal form, which `pricing` prices.
    """

    def __init__(
        self,
        pricing: price_kernel.Pricing,
        background: Background,
        spec: ModelSpec,
        cross: CrossProducts,
    ) -> None:
        """`cross`: those of any partition of the rows."""
        columns = cross.columns
        self.pricing, self.background, self.columns = pricing, background, columns
        self.fits = Fits(pricing.grid, max(_ROOM, len(cross.sums)))  # of the partitions of a search
        self.full, self.h = spec.covariance in ("full", "tied"), half_log(background, spec)
        prices = feature_prices(background, spec)
        self._column_weights = background.column_weights
        self._usable_weight = usable_weight(background, background.usable)
        self._spec, self._log_choose = spec, codes_of_masks(self._usable_weight, spec)[1]
        self.levels = background.levels_of_scores[columns]  # (P,) the features that they replace
        self.first_level = background.grid.level_start[self.levels - background.grid.p]
        self.inside = background.inside[columns]
        self.excess = [background.excess[d] for d in columns]
        lengths = [len(excess) for excess in self.excess]
        #: positions of the counts of the levels in moments, and of the first one of every column among them
        self._counts = np.concatenate(
            [np.arange(T) + 1 + first for T, first in zip(lengths, self.first_level, strict=True)]
        )
        self._first_counts = np.cumsum([0, *lengths[:-1]])
        self._excess_of_levels = np.concatenate(self.excess)
        #: (P, T) of every column: the scores of its levels, and their log shares over N(0, 1) there
        self._scores, self._log_levels = np.zeros((2, len(columns), max(lengths)))
        for d, column in enumerate(columns.tolist()):
            z = (background.axes[column].scores - background.centre[column]) * background.scale[column]
            self._scores[d, : len(z)] = z
            share = background.frequency[self.first_level[d] :][: len(z)]
            log_share = np.log(share, out=np.full(len(z), -np.inf), where=share > 0)
            self._log_levels[d, : len(z)] = log_share - self.excess[d] + 0.5 * z * z
        self._lengths = np.array(lengths, np.intp)
        self.prices = prices[self.levels]
        self.units = background.centre[columns], background.scale[columns]  # z = (x - centre) * scale
        self.prior = cross.prior  # (P, P) R, the row of prior of every covariance

    @cached_property
    def normals(self) -> NormalLevels:
        """Normal densities of the columns, which forms with one shared covariance do not have."""
        return NormalLevels(self.background, self.columns)

    def features(self, columns: Mask) -> Mask:
        """(K, D) the features that columns (K, P) replace."""
        out = np.zeros((len(columns), self.pricing.D), np.uint8)
        out[:, self.levels] = columns
        return out

    def scatter(
        self, groups: Integers, sums: Integers, first: NDArray[np.intp], second: NDArray[np.intp]
    ) -> Scatter:
        """The columns in unions of two groups (second -1: in one group)."""
        weight = self.pricing.count_weight
        return Scatter.of_unions(self.background, self.columns, groups, sums, first, second, weight)

    def scatter_of(self, groups: Integers, sums: Integers) -> Scatter:
        """The columns in every group."""
        return Scatter.of_groups(self.background, self.columns, groups, sums, self.pricing.count_weight)

    def excess_of(self, groups: Integers) -> Floats:
        """(m, P) sums of the excess of the levels over the cells of groups."""
        cells = groups[:, self._counts] * self._excess_of_levels
        return np.asarray(np.add.reduceat(cells, self._first_counts, axis=1) * self.pricing.count_weight)

    def gains(
        self,
        pricing: price_kernel.Pricing,
        groups: Integers,
        scatter: Scatter,
        work: Floats,
        shared: SharedNormals | None = None,
    ) -> ColumnGains:
        """The gains of groups that `pricing` has priced; `work` holds their parts."""
        tilted = price_kernel.level_likelihoods_of_parts(pricing, work, self.levels)
        tilt = price_kernel.gains_of_parts(pricing, work)[:, self.levels] + tilted
        block, norms = self.normal_gains(groups, scatter)
        if self.full:
            return ColumnGains(tilt, np.full(tilt.shape, -np.inf), block, norms, tilted, tilted, None, None)
        ratios, normal = self.normals.fits(groups)
        found = ColumnGains(tilt, normal, block, norms, tilted, tilted, ratios, None)
        if shared is None:
            return found
        likelihoods = self._shared_likelihoods(found, groups, shared.ratios, shared.used)
        return found._replace(shared=likelihoods, normals=shared)

    def _shared_likelihoods(
        self, found: ColumnGains, groups: Integers, ratios: Floats, used: NDArray[np.bool_]
    ) -> Floats:
        """(m, P) log likelihoods of groups under shared normal densities where they are used, else tilts."""
        likelihoods = self.normals.likelihoods(self.normals.counts(groups), ratios)
        return np.where(used, likelihoods, found.shared_tilt)

    def gains_of(self, part: PricedPartition) -> ColumnGains:
        """The gains of the clusters of a partition, with the normal densities that they share where these
        gain more than the shared tilts.
        """
        groups, rest = part.moments.groups, part.mask.take(self.levels, axis=1) == 0
        found = self.gains(part.pricing, groups, part.scatter, part.work)
        if self.full:
            return found
        (ratios,), (pooled,) = self.normals.fits(part.pricing.shared.group[None])
        # A(theta) of a shared tilt is what its row of prior costs
        log_norms = part.pricing.shared.theta[self.normals.of_levels, 3]
        more = pooled - ((found.shared_tilt * rest).sum(axis=0) - log_norms)
        used = rest.any(axis=0) & (more > _WORTH)
        if not used.any():
            return found
        likelihoods = self._shared_likelihoods(found, groups, ratios, used)
        by_priors = more - ((likelihoods - found.shared_tilt) * rest).sum(axis=0)
        normals = SharedNormals(ratios, used, float(by_priors @ used))
        return found._replace(shared=likelihoods, normals=normals)

    def estimates(
        self, deviations: Floats, weight: Floats, fewest: int = FEWEST_OWN_COLUMNS, n_steps: int = STEPS
    ) -> Estimates:
        """The covariances of groups; common factors are sought in `fewest` columns or more, by as many steps
        of the principal factors.
        """
        S = (deviations + self.prior) / (weight + 1.0)[:, None, None]
        few = self.full or len(self.columns) < fewest
        return Estimates(S, weight, None if few else common_factors(S, weight, self.h, n_steps))

    def choose(
        self, gains: ColumnGains, deviations: Floats, found: Estimates, mask: Mask, n_threads: int = 1
    ) -> tuple[Mask, Floats]:
        """(m, P) blocks of groups, and (m,) nats by which they shorten the description. Correlations pay for
        themselves: a block that saves because its normal densities are smoother would name columns that do
        not depend on each other.
        """
        selected = np.ascontiguousarray(mask.take(self.levels, axis=1))
        own = np.maximum(gains.tilt, gains.normal)
        rise = np.where(selected, own, gains.shared + self.prices) - gains.block
        code = self._codes_of_more((mask * self._column_weights).sum(axis=1))
        block, saving = self._choose(deviations, found.weight, selected, rise, code, n_threads)
        if found.factors is not None:
            other = found.factors.columns(found.weight, rise, self.h)
            value = self._factor_savings(other, found) - (rise * other).sum(axis=1)
            value -= code[np.arange(len(code)), (other & (1 - selected)).sum(axis=1)]
            better = value > saving
            block[better], saving[better] = other[better], value[better]
        if not self.full:
            pays = self._savings(block, found) > 0.0
            pays |= self._factor_savings(block * ~pays[:, None], found) > 0.0
            block, saving = block * pays[:, None], saving * pays
        return block, saving

    def _codes_of_more(self, selected: Floats) -> Floats:
        """(m, P + 1) what 0, 1, ... P more features of weight 1 add to the codes of masks, whose features
        have the weights `selected` (m,).
        """
        q = selected[:, None] + np.arange(len(self.columns) + 1)
        codes = code_of(self._log_choose, self._usable_weight, q)
        return np.ascontiguousarray(codes - codes[:, :1])

    def choose_tied(
        self, part: PricedPartition, excess: Floats, kept: Mask | None
    ) -> tuple[Mask, Floats, float]:
        """(P,) the block of all clusters, or `kept` (K, P); (P, P) the covariance; and the nats that its
        normal densities save over the distributions of the whole table, prices paid. `excess` (K, P): nats
        by which the cells of the clusters shorten those.
        """
        K, P = excess.shape
        pricing, work, weight = part.pricing, part.work, part.moments.sizes
        selected = part.mask.take(self.levels, axis=1)
        shift, total, N = part.scatter.mean, part.scatter.deviations.sum(axis=0), float(weight.sum())
        (spread, prior), all_rows = self._inside_clusters(part), np.array([N])
        normal = 0.5 * (spread + weight @ (shift * shift) - N + np.log(prior))
        normal -= 0.5 * (N + 1.0) * np.log((spread + prior) / (N + 1.0))
        unit = np.sqrt(np.outer(prior, prior))
        total = total / unit
        normal -= (K - 1) * self.h + excess.sum(axis=0)
        own = np.where(
            selected, price_kernel.gains_of_parts(pricing, work)[:, self.levels] - self.prices, 0.0
        )
        lost = (own + price_kernel.level_likelihoods_of_parts(pricing, work, self.levels)).sum(axis=0)
        estimates = self.estimates(total[None], all_rows, FEWEST_COLUMNS)
        if kept is not None:
            blocks = [kept[0]]
        else:
            used = np.bitwise_or.reduce(selected, axis=0, keepdims=True)
            rise, code = (lost - normal)[None], np.zeros((1, P + 1))
            blocks = [self._choose(total[None], all_rows, used, rise, code, 1)[0][0]]
            if estimates.factors is not None:
                blocks += [one for one in estimates.factors.columns(all_rows, rise, self.h) if one.any()]
            means = (normal > lost).astype(np.uint8)  # a difference of means alone saves more here
            if not self.full and means.sum() > 1:
                blocks.append(means)
        found = [(block, *self._shared(block, estimates, normal)) for block in blocks]
        block, matrix, saved = max(
            found, key=lambda one: one[2] - float(lost @ one[0]) - self._names(part.mask, one[0])
        )
        return block, matrix * unit, saved

    def tied_norms(self, part: PricedPartition) -> Floats:
        """(K, P) log norms of clusters that share their variances."""
        spread, prior = self._inside_clusters(part)
        mean, weight = part.scatter.mean, part.moments.sizes
        variance = np.tile((spread + prior) / (float(weight.sum()) + 1.0), (len(weight), 1))
        return self.log_norms(mean, variance, weight)

    def _inside_clusters(self, part: PricedPartition) -> tuple[Floats, Floats]:
        """(P,) sums of squares inside clusters, and the variances of the row of prior: inside the clusters,
        shrunk towards those of the table; of one cluster, those of the table.
        """
        each, N = np.arange(len(self.columns)), float(part.moments.sizes.sum())
        spread = part.scatter.deviations[:, each, each].sum(axis=0)
        prior = (1.0 - SHRINKAGE) * spread / N + SHRINKAGE
        return spread, prior if part.moments.n_clusters > 1 else np.ones(len(spread))

    def _shared(self, block: Mask, found: Estimates, normal: Floats) -> tuple[Floats, float]:
        """The shortest covariance of all clusters over a block, and what it saves."""
        matrix, saving = self.held(block[None], found)
        m = int(block.sum())
        naming = math.log(len(block) + 1.0) + log_choices(len(block))[m] if m else 0.0
        return matrix[0], float(saving[0] + normal @ block - naming)

    def _names(self, mask: Mask, block: Mask) -> float:
        """Nats that masks cost, without a shared block (P,), to name their features."""
        usable = self.background.usable.copy()
        usable[self.levels] *= 1 - block
        return float(mask_codes(self.background, usable, mask * usable, self._spec).sum())

    def held(self, block: Mask, found: Estimates) -> tuple[Floats, Floats]:
        """(g, P, P) the covariances of groups over their blocks (g, P): S, or those with common factors or
        the variances alone where these are shorter; (g,) nats that they save over independent normal columns.
        """
        matrix, saving = found.S, self._savings(block, found)
        if found.factors is not None:
            of_factors = self._factor_savings(block, found)
            matrix = np.where((of_factors > saving)[:, None, None], found.factors.matrix, matrix)
            saving = np.maximum(of_factors, saving)
        alone = saving < 0.0
        if not self.full and alone.any():
            variances = np.where(np.eye(len(self.columns), dtype=bool), found.S, 0.0)
            matrix = np.where(alone[:, None, None], variances, matrix)
            saving[alone] = 0.0
        return matrix, saving

    def _savings(self, block: Mask, found: Estimates) -> Floats:
        """(g,) nats that all correlations in blocks (g, P) save over independent columns, prices paid."""
        saving = np.empty(len(block))
        kernel.block_savings(found.S, block, found.weight, self.prior, self.h, saving)
        return saving

    def _factor_savings(self, block: Mask, found: Estimates) -> Floats:
        """(g,) the same of common factors; -inf where there are none."""
        if found.factors is None:
            return np.full(len(block), -np.inf)
        return found.factors.savings(block, found.S, found.weight, self.prior, self.h)

    def _choose(
        self,
        deviations: Floats,
        weight: Floats,
        selected: Mask,
        rise: Floats,
        code: Floats,
        n_threads: int,
    ) -> tuple[Mask, Floats]:
        """(m, P) blocks, and (m,) nats that they save."""
        m, P = deviations.shape[:2]
        block, saving = np.empty((m, P), np.uint8), np.empty(m)
        threads = threads_for(n_threads, m * P**3)
        kernel.choose_blocks(
            deviations,
            weight,
            selected,
            np.ascontiguousarray(rise),
            code,
            self.prior,
            self.h,
            self.full,
            np.empty((threads, kernel.choice_work_size(P))),
            block,
            saving,
            threads,
        )
        return block, saving

    def normal_gains(self, groups: Integers, scatter: Scatter) -> tuple[Floats, Floats]:
        """(m, P) gains of the columns as normal densities in blocks over those of the whole table, and their
        log norms.
        """
        mean, every = scatter.mean, np.arange(len(self.columns))
        spread, S = scatter.deviations[:, every, every], groups[:, :1] * self.pricing.count_weight
        variance = (spread + 1.0) / (S + 1.0)
        norms = self.log_norms(mean, variance, np.asarray(S[:, 0], np.float64))
        change = spread + S * mean * mean - S - (S + 1.0) * np.log(variance)
        gains = 0.5 * change - self.excess_of(groups) - scatter.divergence - norms * self.present(groups)
        return np.asarray(gains), norms

    def present(self, groups: Integers) -> Floats:
        """(m, P) weight of the cells of groups."""
        cells = np.add.reduceat(groups[:, self._counts], self._first_counts, axis=1)
        return np.asarray(cells * self.pricing.count_weight)

    def log_norms(self, mean: Floats, variance: Floats, weight: Floats) -> Floats:
        """(m, P) logs of the sums over the levels of what normal densities with these means and variances
        make of their shares, for groups of these weights (m,): what is more than chance, or 0.
        """
        out = np.empty(mean.shape)
        levels = self._scores, self._log_levels, self._lengths, self.inside
        kernel.log_norms(np.ascontiguousarray(mean), np.ascontiguousarray(variance), weight, *levels, out)
        return out

    def union_costs(
        self,
        pricing: price_kernel.Pricing,
        groups: Integers,
        cross: Integers | None,
        first: NDArray[np.intp],
        second: NDArray[np.intp],
        shared: SharedNormals | None,
        n_threads: int,
    ) -> Floats:
        """(m,) costs of unions of two clusters under the prices of their partition and the normal densities
        that it shares, with the blocks that their products of columns give; None: without blocks.
        """
        P, D = len(self.columns), pricing.D
        costs = np.empty(len(first))
        at_once = max(1, _DOUBLES_AT_ONCE // max(P * P, pricing.grid.width))
        for start in range(0, len(first), at_once):
            part = slice(start, start + at_once)
            union = unions(groups, first[part], second[part], pricing.grid.first_numeric)
            work, mask = (
                np.empty((len(union), price_kernel.parts_size(pricing))),
                np.zeros((len(union), D), np.uint8),
            )
            price_kernel.price_groups(
                union, pricing, price_kernel.SELECTIONS["priced"], work, mask, costs[part]
            )
            if cross is not None:
                scatter = self.scatter(groups, cross, first[part], second[part])
                gains = self.gains(pricing, union, scatter, work, shared)
                weight = np.asarray(union[:, 0] * pricing.count_weight, np.float64)
                found = self.estimates(scatter.deviations, weight, n_steps=RANKING_STEPS)
                costs[part] -= self.choose(gains, scatter.deviations, found, mask, n_threads)[1]
                costs[part] -= gains.over_tilts(mask.take(self.levels, axis=1)).sum(axis=1)
        return costs


def unions(
    groups: Integers, first: NDArray[np.intp], second: NDArray[np.intp], first_numeric: int
) -> Integers:
    """(m, width) moments of unions of two groups."""
    out = groups[first]
    for union, other in zip(out, second, strict=True):
        moments_kernel.merge(union, groups[other], 1, first_numeric)
    return out
