"""The background of CRAFT, the distribution of the whole table, and prices in nats against it.

The description-length price is what a cluster and its features must save to exist:

    cost_k = h + log(D + 1) + log C(D, q_k) + sum_{d in v_k} (p_d h - gain_kd) - S_k log(S_k / N),   h =
    factor * (1/2) log N

This is the integrated classification likelihood (ICL) with a price for every part of the description: the
cluster itself, the features it selects, their parameters, and the labels of its rows. Without the mixing cost
-S log(S / N) every split of a column at its mean would lower the objective, even in noise.

**Normal densities** of the levels of a column are in place of tilts where they are shorter. A tilt has the
peaks of the table's distribution b. A wide group behind narrow ones has not: it is nearer to a normal
density, which is a tilt of the widths of the levels in place of their shares,

    p(l) = w_l exp(theta_1 z_l + theta_2 z_l^2 - A(theta)),      w_l ~ b_l exp(z_l^2 / 2 - e_l),

because the excess e_l of a level is the smoothed log density of the table there over that of N(0, 1). z_l is
the standardised value of the level, also of a skewed column, which a wide group makes skewed. One row of w is
the prior, as one of b is that of a tilt; the price is the same, too. With counts c_l and r_l = log (p(l) /
w_l), the gain over the table is sum_l c_l (r_l + log (w_l / b_l)) + sum_l w_l r_l. The clusters that do not
select a column share one normal density, where that is shorter than the tilt which they would share.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import copy
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from craftc._common.labels import chunks
from craftc._common.typing import Array, Floats, Integers, Mask
from craftc._kernels import craft as craft_kernel
from craftc._kernels import craft_price as price_kernel
from craftc._kernels import moments as moments_kernel
from craftc._kernels.craft import FAR
from craftc._kernels.craft_shared import Shared, Tilts, log_ratios
from craftc._kernels.moments import Grid
from craftc.craft.parameters import ModelSpec
from craftc.table import MixedTable
from craftc.table.levels import Axis, LevelEncoding
from craftc.table.moments import NUMERIC_CELLS, Moments, grid_of_ranges

NO_COLUMNS = np.empty(0, np.intp)
NO_GROUPS: Integers = np.empty((0, 0), np.int64)
# to a unit of a statistic: sums of up to 2^33 cells are exact in float64, because their absolute values sum
# to at most the number of cells
_STEPS = 2.0**20
MOST_DEVIATIONS = 8.0  # of a number from its mean, in the statistics of a tilt
_EXCESS_BY_CHANCE = 13.0  # nats a column, measured: the mean of samples of 60 to 1 000 numbers of N(0, 1)
_FLAT = 1e-6  # share of the deviation of a statistic below which the part that is new is rounding error


class Background:
    """The distribution of the whole table, whose moments as one cluster are `total`: level frequencies eta_0,
    means zeta_0, variances sigma_0^2.
    """

    def __init__(self, total: Moments, encoding: LevelEncoding | None = None) -> None:
        """`encoding`: that of a table of levels, whose numeric columns are scores for covariances only."""
        statistics = [] if encoding is None else encoding.statistics
        scored_levels = NO_COLUMNS if encoding is None else encoding.scored_levels
        axes = [] if encoding is None else encoding.axes
        grid, self.total = total.grid, total
        self.grid = grid
        self.count_weight, self.weight = total.unit, float(total.sizes[0])
        #: (q,) levels of every categorical column, its missing level included
        self.level_widths = np.diff(np.append(grid.level_start, grid.n_levels))
        mean, deviations = total.means()
        present, counts = total.present[0], total.counts[0].copy()
        counts[grid.level_start[1:] - 1] = 0.0
        counts[grid.n_levels - 1 :] = 0.0  # missing cells have no level
        seen = np.add.reduceat(counts, grid.level_start) if grid.q else np.empty(0)
        self.frequency: Floats = counts / np.repeat(np.maximum(seen, 1e-300), self.level_widths)
        if encoding is not None and encoding.null == "normal":
            for d, number in zip(encoding.input_schema.numeric_index, encoding.numbers, strict=True):
                at = grid.level_start[d]
                self.frequency[at : at + len(number.shares)] = number.shares
        spread = deviations[0] / np.maximum(present, 1e-300)
        distinct = np.add.reduceat(counts > 0, grid.level_start, dtype=np.intp) if grid.q else seen
        weights = np.ones(grid.q) if encoding is None else encoding.column_weights
        used = (distinct > 1) & (weights > 0)
        self.usable: Mask = np.concatenate([(spread > 0) & (not statistics), used]).astype(np.uint8)
        #: (D,) what multiplies the nats of every feature
        self.column_weights: Floats = np.append(np.ones(grid.p), weights)
        #: (p,) feature that has the levels of every column of scores; empty if numeric columns are features
        self.levels_of_scores: NDArray[np.intp] = grid.p + scored_levels
        self.tilts = tilts_of(grid, statistics, self.frequency, distinct, weights)
        #: (D,) free parameters of the distribution of every feature
        self.n_parameters: Floats = np.concatenate([np.full(grid.p, 2.0), np.maximum(distinct - 1.0, 0.0)])
        for d, start in enumerate(grid.level_start):
            if self.tilts.tilted[d]:
                own = self.tilts.statistics[:, start : start + self.level_widths[d] - 1]
                self.n_parameters[grid.p + d] = np.count_nonzero(own.any(axis=1))
        #: (D,) parameters by which the distribution of every feature is priced
        self.priced_parameters: Floats = self.n_parameters.copy()
        for j in grid.p + np.flatnonzero((self.tilts.tilted == 0) & (distinct > 2)):
            self.priced_parameters[j] = parameters_of_shares(int(self.n_parameters[j]) + 1, self.weight)
        self.varies: NDArray[np.bool_] = spread > 0  # (p,)
        self.complete: NDArray[np.bool_] = present == self.weight  # (p,) no cell of the table is missing
        #: of the columns of scores: their levels, and their levels by values
        self.axes: list[Axis] = axes
        self.axes_of_values: list[Axis] = (
            [] if encoding is None else [encoding.numbers[d].axis_of_values for d in encoding.scored_columns]
        )
        #: of the same columns: (T,) excess of the levels, without what a sample of N(0, 1) has by chance
        self.excess: list[Floats] = []
        chance = _EXCESS_BY_CHANCE / self.weight
        for first, axis in zip(grid.level_start[scored_levels], axes, strict=True):
            found = float(self.frequency[first : first + len(axis.excess)] @ axis.excess)
            self.excess.append(axis.excess - max(min(found, chance), 0.0))
        inside = np.array([axis.variance for axis in axes]) * grid.scale[: len(axes)] ** 2
        spread[: len(axes)] += inside
        self.variance: Floats = np.where(spread > 0, spread, 1.0)
        #: of the columns of scores: variance inside the levels, in units of the table
        self.inside: Floats = inside / self.variance[: len(axes)]
        deviation = np.sqrt(self.variance)
        # the centre is the rounded mean, and zeta_0 of the model is exactly this number
        self.centre: Floats = grid.centre + mean[0] / grid.scale
        self.mean: Floats = (self.centre - grid.centre) * grid.scale
        self.scale: Floats = grid.scale / deviation
        with np.errstate(divide="ignore", invalid="ignore"):
            cost = np.where(counts > 0, -np.log(self.frequency), 0.0)
        #: (n_levels,) l0 of every level, times the weight of its column
        self.level_cost: Floats = cost * np.repeat(weights, self.level_widths)
        # sigma in the column's own units; a constant column costs nothing
        self.log_deviation: Floats = np.where(
            self.usable[: grid.p] > 0, np.log(deviation) - np.log(grid.scale), 0.0
        )
        numeric = present * (self.log_deviation + 0.5)
        self.categorical_cost = float((counts * self.level_cost).sum())
        self.cost = float(numeric[self.usable[: grid.p] > 0].sum()) + self.categorical_cost
        self.entropy = self.column_entropy(counts[None])[0]

    def of_parts(self, n_parts: int) -> Background:
        """The same distribution, for moments with this many counts to one of these."""
        finer = copy(self)
        finer.count_weight = self.count_weight / n_parts
        return finer

    @cached_property
    def one_point_log_ratios(self) -> Floats:
        """(n_levels,) log(p / b) of every level of a tilted column under the tilt of one cell of it."""
        grid, tilted = self.grid, np.repeat(self.tilts.tilted > 0, self.level_widths)
        at = np.arange(grid.n_levels) - np.repeat(grid.level_start, self.level_widths)
        out = np.zeros(grid.n_levels)
        for level in range(int(self.level_widths.max(initial=0)) if tilted.any() else 0):
            counts, ratios = (at == level).astype(np.int64)[None], np.zeros((1, grid.n_levels))
            log_ratios(counts, 1.0, self.tilts, np.empty(1), ratios)
            out = np.where((at == level) & tilted, ratios[0], out)
        return out

    @property
    def unit_precision(self) -> Floats:
        """(p,) sigma_0^2 / 1 in the columns' own units: the paper's sigma = 1."""
        return self.variance / self.grid.scale**2

    def budget(self, fraction: float) -> tuple[int, int]:
        """Numbers of numeric and of categorical features under a fixed budget (round half up, at least one of
        each kind).
        """
        p = self.grid.p
        usable = np.array([self.usable[:p].sum(), self.usable[p:].sum()])
        chosen = np.minimum(usable, np.maximum(1, np.floor(fraction * usable + 0.5 + 1e-9)))
        return int(chosen[0]), int(chosen[1])

    def column_entropy(self, counts: Floats) -> Floats:
        """(K, q) entropy in nats of raw level counts (K, n_levels), missing cells left out; 0 where nothing
        is present.
        """
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

    def row_costs(self, numeric: Array, codes: Array) -> Floats:
        """(n,) sum of l0 over the present cells of every row, nats without (1/2) log 2 pi."""
        usable = self.usable[: self.grid.p].astype(bool)
        out = self.categorical_row_costs(codes)
        for d in np.flatnonzero(usable):
            cell = np.clip((numeric[:, d] - self.centre[d]) * self.scale[d], -FAR, FAR)
            out += np.where(np.isnan(cell), 0.0, 0.5 * cell * cell + self.log_deviation[d])
        return out

    def categorical_row_costs(self, codes: Array) -> Floats:
        """(n,) sum of l0 over the present categorical cells."""
        out = np.empty(len(codes))
        craft_kernel.level_costs(codes, self.grid.level_start, self.level_cost, out)
        return out


def scored_total(encoding: LevelEncoding, total: Moments) -> Moments:
    """The moments of a table of levels, as one cluster, with the scores of its levels: these follow from the
    counts, so that all rows have scores only where a form with covariances is found.
    """
    columns = encoding.scored_levels
    counts = [
        total.groups[0, 1 + start : 1 + start + len(axis.scores)].copy()
        for start, axis in zip(total.grid.level_start[columns].tolist(), encoding.axes, strict=True)
    ]
    occurring = [axis.scores[own > 0] for axis, own in zip(encoding.axes, counts, strict=True)]
    low = np.array([own.min(initial=np.inf) for own in occurring], np.float64)
    high = np.array([own.max(initial=-np.inf) for own in occurring], np.float64)
    grid = grid_of_ranges(encoding.schema, low, high)
    out = Moments(grid, total.unit, 1)
    group = out.groups[0]
    group[: grid.first_numeric] = total.groups[0]
    for d, (axis, own) in enumerate(zip(encoding.axes, counts, strict=True)):
        alone = Grid(grid.centre[d : d + 1], grid.scale[d : d + 1], NO_COLUMNS, 0)
        cells = np.zeros((1, alone.width), np.int64)
        moments_kernel.accumulate(
            axis.scores[:, None],
            np.empty((len(own), 0), np.uint8),
            own,
            np.zeros(len(own), np.int32),
            alone,
            np.zeros((1, *cells.shape), np.int64),
            cells,
            1,
        )
        at = grid.first_numeric + NUMERIC_CELLS * d
        group[at : at + NUMERIC_CELLS] = cells[0, alone.first_numeric :]
    return out


def tilts_of(
    grid: Grid,
    statistics: Sequence[Floats | None],
    frequency: Floats,
    distinct: Floats | NDArray[np.intp],
    weights: Floats,
) -> Tilts:
    """The columns with at least three levels and statistics, each with two that have mean 0 and covariance I
    under the distribution of the whole table. A level whose statistics are NaN has a share of its own.
    `weights` (q,) multiply the nats of the columns.
    """
    ends = np.append(grid.level_start, grid.n_levels)
    tilted, values = np.zeros(grid.q, np.uint8), np.zeros(grid.q, bool)
    raw, phase = np.zeros((2, grid.n_levels)), np.full(grid.n_levels, np.nan)
    for d, own in enumerate(statistics):
        if own is not None and distinct[d] >= 3:
            levels = slice(ends[d], ends[d + 1] - 1)
            tilted[d], values[d] = 1, own.shape[1] == 1
            raw[: own.shape[1], levels] = own.T
            if not values[d]:
                phase[levels] = np.arctan2(own[:, 1], own[:, 0])
    every = np.stack([*raw, np.isnan(raw[0])])
    if tilted.any():
        widths, atoms = np.diff(ends), every[2] > 0
        b = np.where(np.repeat(tilted > 0, widths) & ~atoms, frequency, 0.0)
        total = np.repeat(np.add.reduceat(b, grid.level_start), widths)
        has_atom = np.repeat(np.logical_or.reduceat(atoms, grid.level_start), widths)
        b = np.divide(b, total, out=b, where=has_atom)
        both = orthonormal(np.where(atoms, 0.0, raw), b, grid.level_start, widths, np.repeat(values, widths))
        every[:2] = np.where(atoms, 0.0, both)
    return Tilts(grid, tilted, frequency, every, phase, weights)


def orthonormal(
    raw: Floats, b: Floats, start: NDArray[np.intp], widths: NDArray[np.intp], values: NDArray[np.bool_]
) -> Floats:
    """(2, n_levels) statistics with mean 0 and covariance I under b in every column: of `values` themselves
    and their squares, of other columns both rows of `raw`. One that says nothing new on the levels that occur
    is 0.
    """

    def of_column(sums: Floats) -> Floats:
        return np.asarray(np.repeat(sums, widths))

    def mean(x: Floats) -> Floats:
        return of_column(np.add.reduceat(b * x, start))

    def over(x: Floats, y: Floats) -> Floats:
        return np.divide(x, y, out=np.zeros_like(x), where=y > 0)

    x, occurs = raw[0], b > 0
    largest = of_column(np.maximum.reduceat(np.abs(x), start))
    x = np.ldexp(
        x, -np.frexp(np.where(values, largest, 0.5))[1]
    )  # exact; squares neither overflow nor vanish
    low = of_column(np.minimum.reduceat(np.where(occurs, x, np.inf), start))
    x = np.where(values & np.isfinite(low), x - low, x)
    high = of_column(np.maximum.reduceat(np.where(occurs, x, -np.inf), start))
    x = np.where(values & (high > 0), over(x, np.where(np.isfinite(high), high, 0.0)), x)
    z = x - mean(x)
    z = np.clip(over(z, np.sqrt(mean(z * z))), -MOST_DEVIATIONS, MOST_DEVIATIONS)
    found: list[Floats] = []
    for x in (np.where(values, z, raw[0]), np.where(values, z * z, raw[1])):
        x = x - mean(x)
        deviation = np.sqrt(mean(x * x))
        for _ in range(2):  # the second time, rounding errors of the first are removed
            x = x - mean(x)
            for first in found:
                x = x - mean(first * x) * first
        new = np.sqrt(mean(x * x))
        found.append(np.where(new > _FLAT * deviation, over(x, new), 0.0))
    # where the first one is flat, the second takes its place
    flat = of_column(np.maximum.reduceat(np.abs(found[0]), start)) == 0.0
    both = np.where(flat, found[::-1], found)
    return np.rint(both * _STEPS) / _STEPS


@lru_cache(maxsize=128)
def log_choices(n: float) -> Floats:
    """(ceil(n) + 1,) log C(n, q) of q at equal distances from 0 to n, nats; not to be written to."""
    steps = math.ceil(n)
    q = np.arange(steps + 1) * (n / max(steps, 1))
    return np.asarray(gammaln(n + 1) - gammaln(q + 1) - gammaln(np.maximum(n - q, 0.0) + 1))


def feature_prices(background: Background, spec: ModelSpec) -> Floats:
    """(D,) p_d h of every feature, times its weight, nats."""
    return background.priced_parameters * half_log(background, spec) * background.column_weights


@lru_cache(maxsize=1 << 12)
def parameters_of_shares(T: int, N: float) -> float:
    """Parameters, at 1/2 log N nats each, that T shares of levels cost in a table of N rows: T - 1, or the
    parametric complexity of N / 2 rows (normalised maximum likelihood) where that is less, because levels are
    many.

    Clusters have N / 2 rows or less on average, and the complexity is concave in the rows.
    """
    if N < 2.0:
        return T - 1.0
    return min(T - 1.0, float(log_complexity(T, np.array([N / 2.0]))[0]) / (0.5 * math.log(N)))


def log_complexity(T: int, n: Floats) -> Floats:
    """Logarithm of the parametric complexity of T >= 2 shares in n rows, for every n; 0 where n < 1. It
    follows from that of two levels by the recurrence of Kontkanen & Myllymäki (2007).
    """
    rows = np.maximum(n, 1.0)
    before = np.zeros(n.shape)  # of one level; two levels: Szpankowski (1998)
    found = np.log(np.sqrt(math.pi * rows / 2.0) + 2.0 / 3.0 + np.sqrt(2.0 * math.pi / rows) / 24.0)
    for t in range(1, T - 1):
        before, found = found, found + np.log1p(rows / t * np.exp(before - found))
    return np.where(n >= 1.0, found, 0.0)


def usable_weight(background: Background, usable: Mask) -> float:
    """Sum of the weights of the usable features: their number, where each has a weight of 1."""
    return float(background.column_weights[usable > 0].sum())


def codes_of_masks(n: float, spec: ModelSpec) -> tuple[float, Floats]:
    """Nats: (1 - s) log(n + 1) of the number of features of a mask, of n in all, and (ceil(n) + 1,) (1 - s)
    log C(n, q) of q.
    """
    local = 1.0 - spec.feature_sharing
    return local * math.log(n + 1.0), local * log_choices(n)


def code_of(table: Floats, n: float, q: Floats) -> Floats:
    """Codes of masks of q features of n, by the table of `codes_of_masks`: linear between its
    values, as in the kernels.
    """
    at = np.minimum(q * ((len(table) - 1) / n if n > 0 else 1.0), len(table) - 1.0)
    return np.asarray(np.interp(at, np.arange(len(table)), table))


def mask_codes(background: Background, usable: Mask, mask: Array, spec: ModelSpec) -> Floats:
    """(K,) nats that name the features of masks (K, D) among the usable ones (D,)."""
    n = usable_weight(background, usable)
    code, table = codes_of_masks(n, spec)
    return code + code_of(table, n, (mask * background.column_weights).sum(axis=1))


def half_log(background: Background, spec: ModelSpec) -> float:
    """h = price_factor * (1/2) log N."""
    return spec.price_factor * 0.5 * math.log(background.weight) if background.weight > 1 else 0.0


def pricing_of(
    background: Background,
    spec: ModelSpec,
    scale_up: float = 1.0,
    total_weight: float | None = None,
    room: int = 0,
) -> price_kernel.Pricing:
    """Prices of clusters and features, and selection of features, for the kernels.

    `scale_up` is the weight of a row of a sample that represents the whole table, `total_weight` that of the
    rows that are partitioned, if they are only some of the rows of the background, and `room` the largest
    number of clusters whose masks are chosen together.
    """
    price, code, log_choose = np.zeros(background.usable.size), 0.0, np.zeros(1)
    if spec.selection == "priced":
        price = feature_prices(background, spec)
        code, log_choose = codes_of_masks(usable_weight(background, background.usable), spec)
    with np.errstate(over="ignore"):  # no feature reaches an infinite threshold
        threshold = spec.numeric_threshold * (
            background.grid.scale**2 if spec.absolute else background.variance
        )
    pricing = price_kernel.Pricing(
        background.grid,
        background.count_weight * scale_up,
        background.weight if total_weight is None else total_weight,
        half_log(background, spec) if spec.price is None else spec.price,
        0.0 if spec.selection == "priced" else spec.f_delta,
        spec.price is None,
        background.centre,
        background.scale,
        background.mean,
        background.variance,
        1.0 / np.sqrt(background.variance),
        background.frequency,
        background.usable,
        price,
        code,
        log_choose,
        background.entropy,
        *background.budget(spec.fraction),
        (spec.categorical_threshold, threshold),
        background.tilts,
    )
    if spec.pooled:
        pricing.shared = Shared(background.grid, room, spec.feature_sharing)
    return pricing


def choose_features(
    pricing: price_kernel.Pricing,
    selection: str,
    gains: Floats,
    groups: Integers = NO_GROUPS,
    shared: Mask | None = None,
) -> tuple[Mask, Floats]:
    """Features (n, D) that groups of rows select by a rule of `SELECTIONS`, and what they cost (n,): prices
    and the code of the mask, less the gains.

    `gains` (n, D) is what every feature saves in every group (the paper's models give scores instead),
    `groups` are moments, for "threshold", and `shared` (D,) is the mask of all groups, for "global".
    """
    mask = np.zeros(gains.shape, np.uint8)
    if shared is not None:
        mask[:] = shared
    cost, work = np.empty(len(gains)), np.empty(price_kernel.parts_size(pricing))
    price_kernel.choose_features(gains, groups, pricing, price_kernel.SELECTIONS[selection], work, mask, cost)
    return mask, cost


def one_point_gains(background: Background, table: MixedTable, rows: slice, weight: Floats) -> Floats:
    """(rows, D) gains of the one-point clusters of some rows, of the given weights (rows,); 0 for missing
    cells.
    """
    p = background.grid.p
    numeric, codes = table.numeric[rows], table.codes[rows]
    gains = np.zeros((len(numeric), p + len(background.grid.level_start)))
    z = (numeric.astype(np.float64) - background.centre) * background.scale
    gains[:, :p] = np.nan_to_num(0.5 * weight[:, None] * z * z, copy=False)
    for d, start in enumerate(background.grid.level_start):
        eta = background.frequency[start + codes[:, d].astype(np.intp)]
        with np.errstate(divide="ignore", invalid="ignore"):
            own = (weight + eta) * np.log((weight + eta) / ((weight + 1.0) * eta))
            gains[:, p + d] = np.where(eta > 0, own - (1.0 - eta) * np.log(weight + 1.0), 0.0)
    gains *= background.usable
    return gains


def one_point_costs(background: Background, table: MixedTable) -> Floats:
    """(n,) cost of every row in its own one-point cluster with all features, less that of the background."""
    p, widths, tilts = background.grid.p, background.level_widths, background.tilts
    eta = background.frequency
    known = (eta > 0) & np.repeat(background.usable[p:] > 0, widths)
    shares = np.log(np.where(known, (1.0 + eta) / np.where(known, 2.0 * eta, 1.0), 1.0))
    ratios = np.where(np.repeat(tilts.tilted > 0, widths), background.one_point_log_ratios * known, shares)
    own = np.empty(len(table))
    weighted = ratios * np.repeat(background.column_weights[p:], widths)
    craft_kernel.level_costs(table.codes, background.grid.level_start, weighted, own)
    for rows in chunks(len(table)):
        z = (table.numeric[rows].astype(np.float64) - background.centre) * background.scale
        own[rows] += (np.nan_to_num(0.5 * z * z, copy=False) * background.usable[:p]).sum(axis=1)
    return -own


class NormalLevels:
    """Normal densities of P columns of scores in groups of rows."""

    def __init__(self, background: Background, columns: NDArray[np.intp]) -> None:
        grid, self.unit = background.grid, background.count_weight
        self.of_levels = background.levels_of_scores[columns] - grid.p  # (P,) columns of levels
        self.starts = grid.level_start
        scores: list[Floats | None] = [None] * grid.q
        self.width, self.log_width = np.zeros(grid.n_levels), np.zeros(grid.n_levels)  # w; log w / b
        for d, j in zip(columns, self.of_levels, strict=True):
            axis = background.axes_of_values[d]
            z = axis.scores.astype(np.float64)
            levels = slice(self.starts[j], self.starts[j] + len(z))
            log_width, share = 0.5 * z * z - axis.excess, background.frequency[levels]
            width = share * np.exp(log_width - log_width.max())
            scores[j], self.width[levels] = z[:, None], width / width.sum()
            log_total = np.log(width.sum()) + log_width.max()
            self.log_width[levels] = np.where(share > 0.0, log_width - log_total, 0.0)
        distinct = np.add.reduceat(self.width > 0.0, self.starts, dtype=np.intp)
        self.tilts = tilts_of(grid, scores, self.width, distinct, np.ones(grid.q))

    def fits(self, groups: Integers) -> tuple[Floats, Floats]:
        """(m, n_levels) log p(l) / b_l of groups, 0 in other columns, and (m, P) their gains."""
        counts = self.counts(groups)
        ratios = np.zeros(counts.shape)
        log_ratios(counts, self.unit, self.tilts, np.empty(len(counts)), ratios)
        prior = self._sums(self.width * ratios)
        ratios += self.log_width
        return ratios, self.likelihoods(counts, ratios) + prior

    def counts(self, groups: Integers) -> Integers:
        """(m, n_levels) counts of the levels in groups, in units of the moments."""
        return np.ascontiguousarray(groups[:, 1 : 1 + len(self.width)])

    def likelihoods(self, counts: Integers, ratios: Floats) -> Floats:
        """(m, P) log likelihoods over the table of groups with these counts."""
        return self._sums(counts * ratios) * self.unit

    def _sums(self, of_levels: Floats) -> Floats:
        """(m, P) sums over the levels of every column."""
        found: Floats = np.add.reduceat(of_levels, self.starts, axis=1)[:, self.of_levels]
        return found


class SharedNormals(NamedTuple):
    """Normal densities that clusters share which do not select a column."""

    ratios: Floats  # (n_levels,) log p(l) / b_l
    used: NDArray[np.bool_]  # (P,) whether one takes the place of the shared tilt
    by_priors: float  # nats that the rows of prior of the used ones save over those of tilts


class Normals(NamedTuple):
    """The normal densities outside blocks of the clusters of one partition."""

    own: NDArray[np.bool_]  # (K, P) selected columns whose distribution in a cluster is one
    sharing: NDArray[np.bool_]  # (K, P) other columns, in which the cluster shares one
    gains: Floats  # (K, P) of densities of their own
    ratios: Floats  # (K, n_levels) log p(l) / b_l
    shared: SharedNormals | None  # what clusters share
