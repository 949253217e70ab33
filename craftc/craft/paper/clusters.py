"""Clusters of PaperCRAFT: every cluster has its price, and the other features follow the whole table.

Paper: V. K. Garg, C. Rudin and T. Jaakkola, "CRAFT: ClusteR-specific Assorted Feature selecTion", AISTATS
2016. The model "likelihood" is the coherent form of its objective, a penalised likelihood that every step
minimises exactly in one block of variables:

    J = sum_n sum_d l0_d(x_n) + Lambda K + sum_k [ F_Delta |v_k| - sum_{d in v_k} gain_kd ] + sum_d e(c_d)

in nats, with l0 the cost of a cell under the distribution of the whole table, and e(c) the price of a column
that c clusters select, where features are shared.

**Between local and global selection.** In the prior of the paper a column is selected with a probability of
mean m and variance rho. Where all clusters have the same probability, with s = rho / (m (1 - m)), a given set
of c of K clusters selects the column with the beta-binomial probability

    B(c) = prod_{i<c} (m (1 - s) + i s) prod_{i<K-c} ((1 - m) (1 - s) + i s) / prod_{i<K} (1 - s + i s) .

PaperCRAFT already charges F_Delta for every selection. What is left to charge is the excess of - log B(c)
over the straight line from c = 0 to c = K,

    e(c) = - log B(c) + (c / K) log B(K) + (1 - c / K) log B(0) ,

which is 0 at s = 0, so that the selection is local, and infinite for 0 < c < K at s = 1, so that it is
global. It is never negative, because log B is convex in c, and never rises where a cluster disappears.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from craftc._common.typing import Floats, Mask
from craftc._kernels import craft_price as price_kernel
from craftc._kernels.craft_price import Pricing
from craftc.craft.background import Background, choose_features
from craftc.craft.clusters import Clusters
from craftc.craft.parameters import ModelSpec
from craftc.table import MixedTable
from craftc.table.moments import Moments

_LEAST_FALL = 1e-9  # nats; what another mask must save, relative to the cost of the masks


def excess(n_clusters: int, spec: ModelSpec) -> Floats:
    """(K + 1,) e(c) in nats of a column that c of K clusters select, for 0 <= s < 1."""
    m, s, i = spec.fraction, spec.feature_sharing, np.arange(n_clusters)
    selected, others = m * (1.0 - s) + i * s, (1.0 - m) * (1.0 - s) + i * s
    log_set = np.append(0.0, np.cumsum(np.log(selected)))
    log_set += np.append(0.0, np.cumsum(np.log(others)))[::-1]
    line = np.linspace(log_set[0], log_set[-1], n_clusters + 1)
    out: Floats = np.maximum(line - log_set, 0.0)
    out[[0, -1]] = 0.0
    return out


def cost_of_columns(mask: Mask, spec: ModelSpec) -> float:
    """Sum of e(c) over the columns of masks (K, D), nats."""
    if not spec.couples:
        return 0.0
    return float(excess(len(mask), spec)[mask.sum(axis=0, dtype=np.intp)].sum())


def next_prices(mask: Mask, spec: ModelSpec) -> tuple[Floats, float]:
    """What a cluster more costs by its features: (D,) e(c + 1) - e(c) of K + 1 clusters if it selects a
    column, and what it costs without features, nats.
    """
    others = mask.sum(axis=0, dtype=np.intp)
    after = excess(len(mask) + 1, spec)
    return after[others + 1] - after[others], float(after[others].sum()) - cost_of_columns(mask, spec)


def global_mask(pricing: Pricing, spec: ModelSpec, gains: Floats) -> Mask:
    """(K, D) the one mask of all clusters of least cost."""
    summed = gains.sum(axis=0, keepdims=True)
    chosen, _ = choose_features(
        pricing, spec.selection, summed if spec.selection == "fixed" else summed / len(gains)
    )
    return np.repeat(chosen, len(gains), axis=0)


def coupled_mask(pricing: Pricing, spec: ModelSpec, gains: Floats, starts: list[Mask]) -> Mask:
    """(K, D) masks of low cost: from every start, each cluster in turn selects the features of least cost,
    given those of the others, until no cluster changes. Ties: the earlier start.
    """
    costs = [_descend(pricing, spec, gains, start) for start in starts]
    best = min(range(len(starts)), key=lambda i: costs[i][1])
    return costs[best][0]


def _descend(pricing: Pricing, spec: ModelSpec, gains: Floats, start: Mask) -> tuple[Mask, float]:
    mask, prices = start.copy(), excess(len(start), spec)
    counts: NDArray[np.intp] = mask.sum(axis=0, dtype=np.intp)

    def cost_of(k: int, features: Mask, others: NDArray[np.intp]) -> float:
        own = float(((spec.f_delta - gains[k]) * features).sum())
        return own + float(prices[others + features].sum())

    moved = True
    while moved:
        moved = False
        for k in range(len(mask)):
            others = counts - mask[k]
            found, _ = choose_features(
                pricing, spec.selection, (gains[k] - prices[others + 1] + prices[others])[None]
            )
            now = cost_of(k, mask[k], others)
            if cost_of(k, found[0], others) < now - _LEAST_FALL * max(1.0, abs(now)):
                mask[k], counts, moved = found[0], others + found[0], True
    total = float(((spec.f_delta - gains) * mask).sum()) + float(prices[counts].sum())
    return mask, total


class PaperClusters(Clusters):
    """Parameters, gains, masks and costs of a partition at a fixed price of a cluster, from its moments.

    `mask` (K, D): the features that a search has selected, where these depend on each other; None: chosen
    from the gains.
    """

    def __init__(
        self, moments: Moments, background: Background, spec: ModelSpec, mask: Mask | None = None
    ) -> None:
        super().__init__(moments, background, spec, mask)

    @classmethod
    def after(
        cls, moments: Moments, background: Background, spec: ModelSpec, mask: Mask | None
    ) -> PaperClusters:
        """The clusters after a pass. `mask` (K, D): the features before it, which are a start of the choice
        where features depend on each other, so that the objective does not rise; None: there are none.
        """
        clusters = cls(moments, background, spec)
        if not spec.couples or mask is None:
            return clusters
        # at equal costs the features are those chosen anew: after a merge the others may save nothing
        again = coupled_mask(clusters.pricing, spec, clusters.gains, [clusters.mask, mask])
        return cls(moments, background, spec, again)

    @cached_property
    def precision(self) -> Floats:
        """(K, p) sigma_0^2 / sigma_k^2."""
        if self.spec.coherent:
            return super().precision
        ratio: Floats = self.deviations / self.background.variance
        if self.spec.model == "paper-fixed":
            return np.broadcast_to(self.background.unit_precision, ratio.shape).copy()
        return 1.0 / np.maximum(ratio / np.maximum(self.moments.present, 1e-300), 1e-3)

    @property
    def objective(self) -> float:
        """J, nats."""
        background = self.background.cost if self.spec.coherent else self.background.categorical_cost
        return background + self.excess

    def mixing_costs(self) -> Floats:
        extra = super().mixing_costs()
        if not self.spec.coherent:  # the paper charges the mask to every row
            extra += self.spec.f_delta * self.mask.sum(axis=1)
        return extra

    def _table_costs(self, table: MixedTable) -> Floats:
        if self.spec.coherent:
            return super()._table_costs(table)
        return self.background.categorical_row_costs(table.codes)

    def _chosen(self, mask: Mask | None, effort: str, work: Floats) -> tuple[Mask, Floats, float]:
        by_length = self.spec.selection == "priced"
        chosen, costs = self._priced_by_length(work) if by_length else self._at_fixed_price(mask)
        return chosen, costs, float(costs.sum()) + cost_of_columns(chosen, self.spec)

    def _priced_by_length(self, work: Floats) -> tuple[Mask, Floats]:
        """Masks and costs under the description-length price of features."""
        pricing, groups = self.pricing, self.moments.groups
        mask, cost = np.zeros(self.gains.shape, np.uint8), np.empty(len(groups))
        price_kernel.price_groups(
            groups, pricing, price_kernel.SELECTIONS[self.spec.selection], work, mask, cost
        )
        return mask, cost

    def _at_fixed_price(self, given: Mask | None) -> tuple[Mask, Floats]:
        """Masks and costs where a feature costs F_Delta."""
        spec, gains, pricing = self.spec, self.gains, self.pricing
        if spec.couples and given is not None:
            mask = given
        elif spec.couples:
            local, _ = choose_features(pricing, spec.selection, gains)
            mask = coupled_mask(pricing, spec, gains, [local, global_mask(pricing, spec, gains)])
        elif spec.is_global:
            mask = global_mask(pricing, spec, gains)
        elif spec.coherent or spec.selection != "fixed":
            mask, _ = choose_features(pricing, spec.selection, gains, self.moments.groups)
            if spec.selection == "threshold" and not spec.coherent:
                expected, own = self._entropies()
                mask[:, self.moments.grid.p :] = expected - own > spec.categorical_threshold * expected
        else:
            mask, _ = choose_features(pricing, "fixed", self._scores())
        if spec.coherent:
            selected = self.pricing.h + spec.f_delta * mask.sum(axis=1)
            return mask, np.asarray(selected - np.where(mask, gains, 0.0).sum(axis=1))
        # without features a cluster would be at distance 0 from every row
        empty = np.flatnonzero(~mask.any(axis=1))
        best = np.zeros((len(empty), mask.shape[1]), np.uint8)
        price_kernel.best_features(gains[empty], pricing, 1, np.empty(price_kernel.parts_size(pricing)), best)
        mask[empty] = best
        return mask, self._costs(mask.astype(bool))

    def _costs(self, mask: NDArray[np.bool_]) -> Floats:
        """(K,) costs of the clusters in the paper's objective."""
        moments, background = self.moments, self.background
        p, counts = moments.grid.p, moments.counts * (background.frequency > 0)
        selected = self.pricing.h + self.spec.f_delta * mask.sum(axis=1)
        numeric = 0.5 * self.deviations / background.variance * self.precision
        probability = self.level_probabilities()
        with np.errstate(divide="ignore", invalid="ignore"):
            saved = np.where(counts > 0, counts * (np.log(probability) + background.level_cost), 0.0)
        start = moments.grid.level_start
        categorical = np.add.reduceat(saved, start, axis=1) if len(start) else np.zeros((len(mask), 0))
        numbers = np.where(mask[:, :p], numeric, 0.0).sum(axis=1)
        return np.asarray(selected + numbers - np.where(mask[:, p:], categorical, 0.0).sum(axis=1))

    def _scores(self) -> Floats:
        """(K, D) scores of the paper's fixed budget: the lowest sigma_kd ("paper-relative": over sigma_0),
        and G_d - G_kd.
        """
        moments, background = self.moments, self.background
        present = moments.present
        scale = background.variance if self.spec.model == "paper-relative" else moments.grid.scale**2
        with np.errstate(divide="ignore", invalid="ignore"):
            numeric = -np.sqrt(self.deviations / present / scale)
        seen = background.level_present(moments.counts)
        expected, own = self._entropies()
        scores = np.where(present > 0, numeric, -np.inf), np.where(seen > 0, expected - own, -np.inf)
        return np.concatenate(scores, axis=1)

    def _entropies(self) -> tuple[Floats, Floats]:
        """(K, q) G_d and G_kd of the paper: cost of a cluster's cells under the table's and under its own
        distribution, from raw counts.

        G_d - G_kd = S KL(eta_k || eta_0) >= 0.
        """
        background, counts = self.background, self.moments.counts
        if not self.moments.grid.q:
            return np.zeros((len(counts), 0)), np.zeros((len(counts), 0))
        expected = np.add.reduceat(counts * background.level_cost, self.moments.grid.level_start, axis=1)
        return expected, background.level_present(counts) * background.column_entropy(counts)


def comparable_objective(
    objective: float, moments: Moments, background: Background, spec: ModelSpec
) -> float:
    """The objective by which the results of several starts are compared, nats.

    In "paper" and "paper-relative" the numeric part of J is S_k / 2 for every selected column, whatever the
    clusters (the normaliser counts once per cluster), so that J of a table with numeric columns would always
    prefer the start with the fewest clusters. Their partitions are compared by description length instead:
    Lambda is in the units of the columns, not in nats.
    """
    if spec.model not in ("paper", "paper-relative") or not background.grid.p:
        return objective
    by_length = replace(spec, model="likelihood", selection="priced", price=None)
    return PaperClusters(moments, background, by_length).objective
