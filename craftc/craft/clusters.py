"""The model of CRAFT: what a cluster saves over the background, feature by feature, and its cost tables.

Paper: Garg, Rudin & Jaakkola, "CRAFT: ClusteR-specific Assorted Feature selecTion", AISTATS 2016. The default
("likelihood") is the coherent form of its objective, one penalised likelihood of which every step is an exact coordinate
minimiser:

    J = sum_n sum_d l0_d(x_n) + Lambda K + sum_k [ F_Delta |v_k| - sum_{d in v_k} gain_kd ]        (nats)

with l0 the cost of a cell under the whole table's own distribution (the background).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from craftc._common.threads import aligned
from craftc._common.typing import Floats, Mask
from craftc._kernels import craft as _kernel
from craftc._kernels.moments import Grid
from craftc.table.moments import Moments

#: Scores closer than this, relative to the largest, are ties; ties go to the lower column.
TIE = 1e-9


def price_terms(fraction: float, sharing: float | None = None) -> tuple[float, float, float]:
    """F_0, F_1 and F_Delta = F_1 - F_0 of the beta prior on feature selection (nats; paper section 2, computed from s).

    Parameters
    ----------
    fraction : float
        m, expected share of selected features, in (0, 1].
    sharing : float, optional
        rho, variance of the prior, in (0, m(1 - m)); None: max(m(1 - m) - 0.01, m(1 - m) / 2).
    """
    m = fraction
    if m == 1.0:
        return 0.0, 0.0, 0.0
    zero, one, s = selection_odds(m, sharing)
    f_0, f_1 = s * _entropy(zero), s * _entropy(one)
    return f_0, f_1, 0.0 if m == 0.5 else f_1 - f_0


def selection_odds(fraction: float, sharing: float | None = None) -> tuple[float, float, float]:
    """nu_0, nu_1 (chance that a new cluster selects what another left out, selected) and s = m(1 - m) / rho."""
    m, most = fraction, fraction * (1 - fraction)
    if m == 1.0:
        return 1.0, 1.0, 1.0
    s = most / (max(most - 0.01, most / 2) if sharing is None else sharing)
    return m * (1 - 1 / s), m + (1 - m) / s, s


def _entropy(p: float) -> float:
    return -sum(x * math.log(x) for x in (p, 1 - p) if x > 0)


@dataclass(frozen=True)
class Rules:
    """What is priced and how features are chosen; the papers' numbers by name."""

    model: str = "likelihood"  # | "paper" | "paper-fixed"
    selection: str = "fixed"  # | "priced" | "free" | "threshold" | "global"
    price: float | None = 0.0  # Lambda; None: description length
    price_factor: float = 1.0  # on the description length
    fraction: float = 0.5  # m
    sharing: float | None = None  # rho
    categorical_threshold: float = 0.95  # eps_c
    numeric_threshold: float = 0.5  # eps_v, relative to the column's variance

    @property
    def by_length(self) -> bool:
        """Clusters and features are priced by description length."""
        return self.price is None

    @property
    def features_by_length(self) -> bool:
        """Features pay for their parameters."""
        return self.by_length or self.selection == "priced"

    @property
    def coherent(self) -> bool:
        """Every step minimises one objective."""
        return self.model == "likelihood"

    def monotone(self, n_features: int) -> bool:
        """Whether the objective provably never rises: exact masks, and no cluster that would be worth having empty."""
        price = self.price if self.price is not None else 0.0
        return self.coherent and self.selection != "threshold" and price + min(self.f_delta, 0.0) * n_features >= 0.0

    @property
    def prior(self) -> float:
        """alpha, pseudo-count of the background in a cluster's level probabilities."""
        return 1.0 if self.coherent else 0.1

    @cached_property
    def f_delta(self) -> float:
        """F_Delta, price of one selected feature."""
        return price_terms(self.fraction, self.sharing)[2]


class Background:
    """The whole table as one distribution: frequencies eta_0, means zeta_0, variances sigma_0^2.

    Parameters
    ----------
    total : Moments
        Of the whole table, one cluster.
    """

    def __init__(self, total: Moments) -> None:
        grid = self.grid = total.grid
        self.unit, self.weight = total.unit, float(total.sizes[0])
        mean, deviations = total.means()
        present, counts = total.present[0], total.counts[0].copy()
        counts[grid.level_start[1:] - 1] = 0.0
        counts[grid.n_levels - 1 :] = 0.0  # missing cells have no level
        seen = np.add.reduceat(counts, grid.level_start) if grid.q else np.empty(0)
        self.frequency: Floats = counts / np.repeat(np.maximum(seen, 1e-300), self.level_widths)
        spread = deviations[0] / np.maximum(present, 1e-300)
        distinct = np.add.reduceat(counts > 0, grid.level_start, dtype=np.intp) if grid.q else seen
        self.usable: Mask = np.concatenate([spread > 0, distinct > 1]).astype(np.uint8)
        self.variance: Floats = np.where(spread > 0, spread, 1.0)
        deviation = np.sqrt(self.variance)
        # The centre is the rounded mean, and the model's zeta_0 is that very number.
        self.centre: Floats = grid.centre + mean[0] / grid.scale
        self.mean: Floats = (self.centre - grid.centre) * grid.scale
        self.scale: Floats = grid.scale / deviation
        with np.errstate(divide="ignore", invalid="ignore"):
            self.level_cost: Floats = np.where(counts > 0, -np.log(self.frequency), 0.0)
        # sigma in the column's own units; a constant column costs nothing
        self.log_deviation: Floats = np.where(spread > 0, np.log(deviation) - np.log(grid.scale), 0.0)
        numeric = present * (self.log_deviation + 0.5)
        self.categorical_cost = float((counts * self.level_cost).sum())
        self.cost = float(numeric[spread > 0].sum()) + self.categorical_cost
        self.entropy = self.column_entropy(counts[None])[0]

    @cached_property
    def level_widths(self) -> NDArray[np.intp]:
        """(q,) levels of every categorical column, its missing level included."""
        return np.diff(np.append(self.grid.level_start, self.grid.n_levels))

    @property
    def unit_precision(self) -> Floats:
        """(p,) sigma_0^2 / 1 in the columns' own units: the paper's sigma = 1."""
        return self.variance / self.grid.scale**2

    def budget(self, fraction: float) -> tuple[int, int]:
        """How many numeric and categorical features a fixed budget selects (round half up, at least one per kind)."""
        p = self.grid.p
        numeric, categorical = int(self.usable[:p].sum()), int(self.usable[p:].sum())
        return tuple(min(c, max(1, math.floor(fraction * c + 0.5 + 1e-9))) for c in (numeric, categorical))  # type: ignore[return-value]

    def column_entropy(self, counts: Floats) -> Floats:
        """(K, q) entropy in nats of raw level counts (K, n_levels), missing cells left out; 0 where nothing is present."""
        if not self.grid.q:
            return np.zeros((len(counts), 0))
        counts = counts * (self.frequency > 0)
        with np.errstate(divide="ignore", invalid="ignore"):
            inner = np.where(counts > 0, counts * np.log(counts), 0.0)
            seen = np.add.reduceat(counts, self.grid.level_start, axis=1)
            entropy = np.log(seen) - np.add.reduceat(inner, self.grid.level_start, axis=1) / seen
        return np.where(seen > 0, entropy, 0.0)

    def level_present(self, counts: Floats) -> Floats:
        """(K, q) weight of the present cells of every categorical column."""
        if not self.grid.q:
            return np.zeros((len(counts), 0))
        return np.add.reduceat(counts * (self.frequency > 0), self.grid.level_start, axis=1)

    def row_costs(self, numeric: NDArray[Any], codes: NDArray[Any]) -> Floats:
        """(n,) sum of l0 over the present cells of every row, nats without (1/2) log 2 pi."""
        usable = self.usable[: self.grid.p].astype(bool)
        out = self.categorical_row_costs(codes)
        for d in np.flatnonzero(usable):
            cell = np.clip((numeric[:, d] - self.centre[d]) * self.scale[d], -_kernel.FAR, _kernel.FAR)
            out += np.where(np.isnan(cell), 0.0, 0.5 * cell * cell + self.log_deviation[d])
        return out

    def categorical_row_costs(self, codes: NDArray[Any]) -> Floats:
        """(n,) sum of l0 over the present categorical cells."""
        out = np.zeros(len(codes))
        for d, start in enumerate(self.grid.level_start):
            out += self.level_cost[start + codes[:, d].astype(np.intp)]
        return out


class Clusters:
    """Exact parameters, gains, masks and costs of a partition, from its moments.

    Parameters
    ----------
    moments : Moments
        Of K clusters, none empty.
    background : Background
    rules : Rules
    """

    def __init__(self, moments: Moments, background: Background, rules: Rules) -> None:
        self.moments, self.background, self.rules = moments, background, rules
        mean, self.deviations = moments.means()
        self.shift: Floats = (mean - background.mean) / np.sqrt(background.variance)
        self.gains: Floats = np.empty((moments.n_clusters, moments.grid.p + moments.grid.q))
        _kernel.gains(
            moments.groups,
            moments.grid,
            moments.unit,
            background.frequency,
            background.variance,
            background.usable,
            self.shift,
            self.deviations,
            1.0,
            self.gains,
        )
        self.mask: Mask = self._select()

    def _select(self) -> Mask:
        """(K, D) the features of every cluster."""
        return _selected(self)

    @cached_property
    def precision(self) -> Floats:
        """(K, p) sigma_0^2 / sigma_k^2."""
        present, ratio = self.moments.present, self.deviations / self.background.variance
        if self.rules.model == "paper-fixed":
            return np.broadcast_to(self.background.unit_precision, ratio.shape).copy()
        if self.rules.model == "paper":
            return 1.0 / np.maximum(ratio / np.maximum(present, 1e-300), 1e-3)
        return (present + 1.0) / (ratio + 1.0)

    @cached_property
    def costs(self) -> Floats:
        """(K,) what every cluster adds to the objective beyond the background, nats."""
        rules, mask = self.rules, self.mask.astype(bool)
        selected = self.price + rules.f_delta * mask.sum(axis=1)
        if rules.coherent:
            return np.asarray(selected - np.where(mask, self.gains, 0.0).sum(axis=1))
        p, counts = self.moments.grid.p, self.moments.counts * (self.background.frequency > 0)
        numeric = 0.5 * self.deviations / self.background.variance * self.precision
        probability = self.level_probabilities()
        with np.errstate(divide="ignore", invalid="ignore"):
            saved = np.where(counts > 0, counts * (np.log(probability) + self.background.level_cost), 0.0)
        start = self.moments.grid.level_start
        categorical = np.add.reduceat(saved, start, axis=1) if len(start) else np.zeros((len(mask), 0))
        numbers = np.where(mask[:, :p], numeric, 0.0).sum(axis=1)
        return np.asarray(selected + numbers - np.where(mask[:, p:], categorical, 0.0).sum(axis=1))

    @property
    def price(self) -> float:
        """Lambda, nats a cluster pays for itself."""
        return self.rules.price or 0.0

    @property
    def objective(self) -> float:
        """J, nats."""
        background = self.background.cost if self.rules.coherent else self.background.categorical_cost
        return background + float(self.costs.sum())

    def level_probabilities(self) -> Floats:
        """(K, n_levels) eta = (c + alpha eta_0) / (S + alpha); 0 on the missing levels."""
        counts, background = self.moments.counts, self.background
        seen = np.repeat(background.level_present(counts), background.level_widths, axis=1)
        alpha = self.rules.prior
        eta: Floats = (counts + alpha * background.frequency) / (seen + alpha)
        return eta * (background.frequency > 0)

    def tables(self) -> _kernel.Tables:
        """Cost tables of all clusters for a pass."""
        rules = self.rules
        extra = np.zeros(len(self.mask))
        if not rules.coherent:  # the paper charges the mask to every row
            extra += rules.f_delta * self.mask.sum(axis=1)
        return cost_tables(self.moments.groups, self.moments.unit, self.background, rules, self.shift, self.precision, self.mask, extra)


def cost_tables(
    groups: NDArray[np.int64],
    unit: float,
    background: Background,
    rules: Rules,
    shift: Floats,
    precision: Floats,
    mask: Mask,
    extra: Floats,
) -> _kernel.Tables:
    """Allocate and fill the cost tables of K clusters."""
    grid: Grid = background.grid
    lanes, p = -(-len(groups) // _kernel.PAD) * _kernel.PAD, grid.p
    slab = aligned((2 + 3 * p + grid.n_levels, lanes))
    base, constant = slab[:2]
    square, linear, offset = slab[2 : 2 + 3 * p].reshape(3, p, lanes)
    level = slab[2 + 3 * p :]
    _kernel.cost_tables(
        groups, grid, unit, background.frequency, shift, precision, mask, extra, rules.prior, rules.coherent,
        base, constant, square, linear, offset, level,
    )  # fmt: skip
    active = np.asarray(mask.any(axis=0))
    return _kernel.Tables(
        len(groups), grid, background.centre, background.scale, base, constant, square, linear, offset, level,
        np.flatnonzero(active[: grid.p]), np.flatnonzero(active[grid.p :]),
    )  # fmt: skip


def top(scores: Floats, usable: Mask, n: int) -> NDArray[np.bool_]:
    """The n best usable columns of every row of scores (K, c); ties within TIE go to the lower column, -inf comes last."""
    candidates = np.flatnonzero(usable)
    chosen = np.zeros(scores.shape, bool)
    if n == 0 or not len(scores):
        return chosen
    scores = scores[:, candidates]
    size = np.abs(scores)
    unit = TIE * np.maximum(1.0, size.max(axis=1, keepdims=True, where=size < np.inf, initial=0.0))
    order = np.argsort(-np.floor(scores / unit + 0.5), axis=1, kind="stable")
    chosen[np.arange(len(scores))[:, None], candidates[order[:, :n]]] = True
    return chosen


def _selected(clusters: Clusters) -> Mask:
    """(K, p + q) features of every cluster under the rules' selection."""
    rules, background, gains = clusters.rules, clusters.background, clusters.gains
    p, usable = clusters.moments.grid.p, background.usable
    mask: NDArray[np.bool_]
    if rules.selection == "free":
        mask = np.asarray((gains > rules.f_delta) & (usable > 0))
    elif rules.selection == "threshold":
        mask = _within_threshold(clusters)
    elif rules.selection == "global":
        total = gains.sum(axis=0, keepdims=True)
        mask = np.repeat(_top_per_kind(total[:, :p], total[:, p:], background, rules), len(gains), axis=0)
    elif rules.coherent:
        mask = _top_per_kind(gains[:, :p], gains[:, p:], background, rules)
    else:
        mask = _top_per_kind(*_paper_scores(clusters), background, rules)
    if not rules.coherent:  # a cluster without features would be at distance 0 from every row
        empty = ~mask.any(axis=1)
        mask[empty] = top(gains[empty], usable, 1)
    return mask.astype(np.uint8)


def _top_per_kind(numeric: Floats, categorical: Floats, background: Background, rules: Rules) -> NDArray[np.bool_]:
    """(K, p + q) the fixed budget: the best numeric (K, p) and the best categorical (K, q) scores."""
    p, usable = numeric.shape[1], background.usable
    n_numeric, n_categorical = background.budget(rules.fraction)
    return np.concatenate([top(numeric, usable[:p], n_numeric), top(categorical, usable[p:], n_categorical)], axis=1)


def _paper_scores(clusters: Clusters) -> tuple[Floats, Floats]:
    """Scores of the paper's fixed budget: lowest sd ("paper": relative to the table's), and G_d - G_kd of raw counts."""
    moments, background = clusters.moments, clusters.background
    present = moments.present
    unit = background.variance if clusters.rules.model == "paper" else moments.grid.scale**2
    with np.errstate(divide="ignore", invalid="ignore"):
        numeric = -np.sqrt(clusters.deviations / present / unit)
    seen = background.level_present(moments.counts)
    categorical = background.entropy - background.column_entropy(moments.counts)
    return np.where(present > 0, numeric, -np.inf), np.where(seen > 0, categorical, -np.inf)


def _within_threshold(clusters: Clusters) -> NDArray[np.bool_]:
    """The approximate budget: raw entropy lost > eps_c G_d, raw variance < eps_v sigma_0^2."""
    moments, background, rules = clusters.moments, clusters.background, clusters.rules
    present = moments.present
    variance = clusters.deviations / np.maximum(present, 1e-300)
    numeric = (present > 0) & (variance < rules.numeric_threshold * background.variance)
    lost = background.entropy - background.column_entropy(moments.counts)
    categorical = (background.level_present(moments.counts) > 0) & (lost > rules.categorical_threshold * background.entropy)
    return np.concatenate([numeric, categorical], axis=1) & (background.usable > 0)
