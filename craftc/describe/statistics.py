"""Statistics of every input column: in each cluster and in the whole table, in the units of the table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.special import ndtr, ndtri

from craftc._common.cluster_moments import ClusterMoments
from craftc._common.typing import Array, Floats, Ints
from craftc.describe import words
from craftc.table.mixed_table import Schema
from craftc.table.moments import Moments
from craftc.table.numeric_encoding import EncodingRecipe, NumericEncoding

BINS = 24  # of a histogram, at most
_POINTS = 65  # by which a normal distribution is represented
_NORMAL = ndtri((np.arange(_POINTS) + 0.5) / _POINTS)
_NORMAL = _NORMAL / np.sqrt((_NORMAL**2).mean())
_QUARTILES = ndtri(np.array([0.25, 0.5, 0.75]))
_FARTHEST = 1e-12  # share beyond which a normal score is constant
_BEYOND_SCORES = 1000.0  # more than any normal score
_MOST_CELLS = 0.5  # share of the cells of a spike
_AT_THE_END = 0.01  # share of the cells beyond a value at the end of a column
_YEARS = 1900.0, 2100.0
_BEYOND = 0.005  # share of the values beyond each end of an axis
_ROUNDING = 1e-15  # of a mean, relative to the largest number of its column


#: Parts of a typical value: a text, which may be shortened, and the share that follows it.
Parts = list[tuple[str, float | None]]


@dataclass(frozen=True)
class NumericColumn:
    """A numeric column over its present cells, in its units: in the K clusters and, last, in the whole table.

    NaN stands for a cluster without values. `shift`, `quartiles` and `value` follow the encoding of the
    model: one outlier hardly changes them.
    """

    means: Floats  # (K + 1,)
    deviations: Floats  # (K + 1,)
    shift: Floats  # (K + 1,) mean normal score in the table; of a normal column: difference in deviations
    quartiles: Floats  # (K + 1, 3)
    value: Floats  # (K + 1,) the value of all cells; NaN if there are two
    missing: Floats  # (K + 1,) share of the cells without a value
    style: str = "number"  # | "year" | "day": days since 1970-01-01
    spike: Spike | None = None

    @cached_property
    def skewed(self) -> bool:
        """Whether a mean is outside the middle half of the cells, so that medians describe better."""
        low, _, high = self.quartiles.T
        outside = (self.means < low) | (self.means > high)
        return bool(low[-1] < high[-1] and (outside & np.isnan(self.value)).any())

    @property
    def centres(self) -> Floats:
        """(K + 1,) means, or medians of a skewed column."""
        return self.quartiles[:, 1] if self.skewed else self.means

    @property
    def ranges(self) -> Floats:
        """(K + 1,) distances of the outer quartiles."""
        return np.asarray(self.quartiles[:, 2] - self.quartiles[:, 0])

    def in_order(self, rows: Ints) -> NumericColumn:
        """The column with its K + 1 groups in another order."""
        names = ("means", "deviations", "shift", "quartiles", "value", "missing")
        spike = None if self.spike is None else replace(self.spike, shares=self.spike.shares[rows])
        return replace(self, spike=spike, **{name: getattr(self, name)[rows] for name in names})

    def text(self, x: float) -> str:
        return words.day(x) if self.style == "day" else words.number(x, years=self.style == "year")

    def typical(self, k: int, _: Sequence[int] | None = None) -> Parts:
        """Mean and standard deviation, ``54.43 ± 9.109``, in cluster k; -1: in the whole table."""
        if self.missing[k] == 1 or not np.isfinite(self.means[k]):
            return []
        mean, deviation = float(self.means[k]), float(self.deviations[k])
        if np.isfinite(self.value[k]):
            return [(f"{self.text(float(self.value[k]))} ± 0", None)]
        if self.style == "day":
            return [(f"{words.day(mean)} ± {words.number(deviation)} days", None)]
        return [(words.mean_and_deviation(mean, deviation, years=self.style == "year"), None)]


@dataclass(frozen=True)
class Spike:
    """The value of at least half of a column's cells, which is below or above all others."""

    value: float
    low: bool  # whether it is below the others
    shares: Floats  # (K + 1,) of the cells


@dataclass(frozen=True)
class CategoricalColumn:
    """Shares of the levels of a categorical column among its present cells; NaN where there are none."""

    levels: tuple[object, ...]  # T of them
    shares: Floats  # (K + 1, T), last of the whole table

    @cached_property
    def texts(self) -> list[str]:
        """(T,) levels as texts; different levels differ."""
        return words.distinct([words.level_text(level) for level in self.levels], words.LONGEST)

    @cached_property
    def short(self) -> list[str]:
        """`texts` of at most 30 characters."""
        return words.distinct(self.texts, words.SHORT)

    def in_order(self, rows: Ints) -> CategoricalColumn:
        return replace(self, shares=self.shares[rows])

    def leading(self, k: int) -> list[int]:
        """The most frequent levels of cluster k; one that nearly all cells have alone."""
        share = self.shares[k]
        order = [t for t in np.argsort(-share, kind="stable")[: words.LEADING].tolist() if share[t] > 0]
        return order[:1] if order and share[order[0]] >= words.NEARLY_ALL else order

    def typical(self, k: int, levels: Sequence[int] | None = None) -> Parts:
        """Levels, by default the leading ones, and their shares in cluster k; -1: in the whole table."""
        if np.isnan(self.shares[k]).any():
            return []
        levels = self.leading(k) if levels is None else levels
        return [(self.texts[t], float(self.shares[k, t])) for t in levels]


Column = NumericColumn | CategoricalColumn


def typical_text(parts: Sequence[tuple[str, float | None]]) -> str:
    texts = (text if share is None else words.with_share(text, share) for text, share in parts)
    return ", ".join(texts) or words.NO_VALUES


def column_statistics(
    moments: Moments, schema: Schema, encoded: Moments | None = None, encoding: NumericEncoding | None = None
) -> list[Column]:
    """Statistics of the input columns, in input order, from moments of a partition in the units of the table.

    `encoded`: moments of the same partition of the table as the model sees it.
    """
    moments = _with_total(moments)
    grid, size, counts, present = moments.grid, moments.sizes, moments.counts, moments.present
    columns: list[Column | None] = [None] * schema.n_columns
    means, deviations = in_units(moments)
    shapes = None if encoded is None or encoding is None else _Shapes(_with_total(encoded), encoding)
    for j, d in enumerate(schema.numeric_index.tolist()):
        centre, half = float(grid.centre[j]), 2.0**39 / grid.scale[j]  # at least half of the column's range
        style, missing = _style(schema.columns, d, centre - half, centre + half), 1.0 - present[:, j] / size
        shape = None if shapes is None else shapes.of(j)
        columns[d] = _numeric(means[:, j], deviations[:, j], missing, shape, style)
    for j, d in enumerate(schema.categorical_index.tolist()):
        at = slice(grid.level_start[j], grid.level_start[j] + len(schema.levels[j]))
        columns[d] = CategoricalColumn(schema.levels[j], level_shares(counts[:, at]))
    return [column for column in columns if column is not None]


def numeric_statistics(moments: ClusterMoments, total: ClusterMoments | None = None) -> list[NumericColumn]:
    """Statistics of the columns of a table of numbers, from floating-point moments of its clusters."""
    total = moments.total() if total is None else total
    means = np.vstack([moments.means, total.means])
    deviations = np.sqrt(np.vstack([moments.variances, total.variances]))
    rounding = _ROUNDING * (np.abs(means) + deviations).max(axis=0)
    means, deviations = (np.where(np.abs(x) <= rounding, 0.0, x) for x in (means, deviations))
    nothing = np.zeros(len(means))
    both = zip(means.T, deviations.T, strict=True)
    return [_numeric(mean, deviation, nothing, None, "number") for mean, deviation in both]


def _with_total(moments: Moments) -> Moments:
    groups = np.vstack([moments.groups, moments.total().groups])
    return Moments.of_groups(moments.grid, moments.unit, groups)


def _style(names: Sequence[str], d: int, low: float, high: float) -> str:
    """How the values of a column are written. `read_table` derives "NAME day number" from a date."""
    name = str(names[d])
    if name.endswith(" day number") and f"{name.removesuffix('day number')}year" in map(str, names):
        return "day"
    return "year" if _YEARS[0] <= low and high <= _YEARS[1] else "number"


def in_units(moments: Moments) -> tuple[Floats, Floats]:
    """(K, p) means and deviations in units, NaN without values; a mean within a grid step is 0."""
    grid, present = moments.grid, moments.present
    mean, squares = moments.means()
    unseen = np.where(present > 0, 0.0, np.nan)
    centre = grid.centre + mean / grid.scale
    centre = np.where(np.abs(centre) * grid.scale < 1.0, 0.0, centre)
    deviation = np.sqrt(squares / np.where(present > 0, present, 1.0)) / grid.scale
    return centre + unseen, deviation + unseen


def bin_edges(values: Array) -> Floats:
    """At most 25 edges of bins that hold 99 % of some values: one outlier does not change the axis."""
    if not len(values):
        return np.linspace(0.0, 1.0, BINS + 1)
    low = float(np.quantile(values, _BEYOND, method="higher"))
    high = float(np.quantile(values, 1.0 - _BEYOND, method="lower"))
    if high <= low:
        low, high = float(values.min()), float(values.max())
    if high <= low:
        return np.array([low - 0.5, low + 0.5])
    if (values == np.round(values)).all():
        step = max(1, int(np.ceil((high - low + 1) / BINS)))
        return np.arange(np.floor(low), np.ceil(high) + step + 0.1, step) - 0.5
    return np.linspace(low, high, BINS + 1)


def level_shares(counts: Floats) -> Floats:
    """(K, T) shares of the levels of a column, NaN without values."""
    size = counts.sum(axis=1, keepdims=True)
    return np.where(size > 0, counts / np.where(size > 0, size, 1.0), np.nan)


@dataclass(frozen=True)
class _Shape:
    """A numeric column as the model sees it, in every group: values, and the others as normal."""

    values: Floats  # (A,)
    counts: Floats  # (G, A)
    size: Floats  # (G,) of the normal part
    mean: Floats  # (G,)
    deviation: Floats  # (G,)
    recipe: EncodingRecipe


class _Shapes:
    def __init__(self, moments: Moments, encoding: NumericEncoding) -> None:
        self._counts_of_levels, self._present = moments.counts, moments.present
        self._level_start = moments.grid.level_start
        self._means, self._deviations = in_units(moments)
        self._encoding = encoding
        schema = encoding.schema
        self._numeric = {d: j for j, d in enumerate(schema.numeric_index.tolist())}
        self._categorical = {d: j for j, d in enumerate(schema.categorical_index.tolist())}
        kernel_order = np.concatenate([schema.numeric_index, schema.categorical_index])
        self._derived: dict[int, list[int]] = {}
        for place, d in zip(encoding.source.tolist(), kernel_order.tolist(), strict=True):
            self._derived.setdefault(place, []).append(d)

    def of(self, j: int) -> _Shape:
        """The shape of numeric input column j."""
        recipe, G = self._encoding.recipes[j], len(self._means)
        derived = sorted(self._derived[int(self._encoding.input_schema.numeric_index[j])])
        atoms = [self._counts(d)[:, 1:2] for d in derived[: len(recipe.spikes)]]
        values = list(recipe.spikes)
        size, mean, deviation = np.zeros((3, G))
        if recipe.rest == "values":
            atoms.append(self._counts(derived[-1])[:, : len(recipe.values)])
            values += recipe.values.tolist()
        else:
            at = self._numeric[derived[-1]]
            size = self._present[:, at]
            mean, deviation = np.nan_to_num(self._means[:, at]), np.nan_to_num(self._deviations[:, at])
        counts = np.column_stack(atoms) if atoms else np.zeros((G, 0))
        return _Shape(np.array(values), counts, size, mean, deviation, recipe)

    def _counts(self, d: int) -> Floats:
        start = self._level_start[self._categorical[d]]
        levels = self._encoding.schema.levels[self._categorical[d]]
        return self._counts_of_levels[:, start : start + len(levels)]


def _numeric(
    means: Floats, deviations: Floats, missing: Floats, shape: _Shape | None, style: str
) -> NumericColumn:
    """A numeric column; without a shape its cells are taken as normal in every group."""
    if shape is None:
        seen = np.isfinite(means) * 1.0
        shape = _Shape(np.empty(0), np.empty((len(means), 0)), seen, means, deviations, EncodingRecipe())
    recipe, ranks = shape.recipe, shape.recipe.rest == "ranks"
    scores = _scores(shape.values, recipe) if ranks else shape.values
    spike = None
    if len(scores):
        normal = shape.mean[:, None] + shape.deviation[:, None] * _NORMAL
        points = np.hstack([np.broadcast_to(scores, shape.counts.shape), normal])
        weights = np.hstack([shape.counts, np.repeat(shape.size[:, None] / _POINTS, _POINTS, axis=1)])
        total = weights.sum(axis=1, keepdims=True)
        weights = np.divide(weights, total, out=np.full(weights.shape, np.nan), where=total > 0)
        rank = _mean_rank(points, scores, weights[-1], float(shape.mean[-1]), float(shape.deviation[-1]))
        shift = (weights * ndtri(np.clip(rank, _FARTHEST, 1 - _FARTHEST))).sum(axis=1)
        quartiles = _quartiles(points, weights)
        spike = _spike(shape, scores, weights)
    else:
        per_unit = 1.0 / shape.deviation[-1] if shape.deviation[-1] > 0 else 0.0
        shift = np.where(shape.size > 0, (shape.mean - shape.mean[-1]) * per_unit, np.nan)
        quartiles = np.where(shape.size > 0, shape.mean + _QUARTILES[:, None] * shape.deviation, np.nan).T
    counted = (shape.counts > 0).sum(axis=1)
    value = np.where((counted == 0) & (shape.size > 0) & (deviations == 0), means, np.nan)
    if ranks:
        exact = np.interp(shape.mean, recipe.scores, recipe.values)
        of_scores = quartiles
        quartiles = np.interp(of_scores, recipe.scores, recipe.values)  # NaN stays
        for score, atom in zip(scores.tolist(), shape.values.tolist(), strict=True):
            quartiles[of_scores == score] = atom
        value = np.where((shape.deviation == 0) & ~np.isnan(value), exact, np.nan)
    single = (counted == 1) & (shape.size == 0)
    if single.any():
        value[single] = shape.values[(shape.counts[single] > 0).argmax(axis=1)]
    return NumericColumn(means, deviations, shift - shift[-1], quartiles, value, missing, style, spike)


def _scores(values: Floats, recipe: EncodingRecipe) -> Floats:
    """The scores of values; those beyond all knots are beyond all scores, in their order."""
    scores = np.interp(values, recipe.values, recipe.scores)
    order = np.argsort(np.argsort(values))
    scores = np.where(values < recipe.values[0], order - _BEYOND_SCORES, scores)
    return np.where(values > recipe.values[-1], order + _BEYOND_SCORES, scores)


def _mean_rank(points: Floats, scores: Floats, weights: Floats, mean: float, deviation: float) -> Floats:
    """Share of the table's cells below each of the points, and half of those equal to it."""
    A = len(scores)
    of_values, normal = weights[:A], float(weights[A:].sum())
    below = ((points[..., None] > scores) + 0.5 * (points[..., None] == scores)) @ of_values
    if normal > 0:
        z = (points - mean) / deviation if deviation > 0 else np.sign(points - mean) * np.inf
        below = below + normal * ndtr(np.nan_to_num(z, nan=0.0))
    return np.asarray(below)


def _quartiles(points: Floats, weights: Floats) -> Floats:
    """(G, 3) quartiles of weighted points; NaN without weight."""
    order = np.argsort(points, axis=1, kind="stable")
    ordered = np.take_along_axis(points, order, 1)
    cumulative = np.cumsum(np.take_along_axis(weights, order, 1), axis=1)
    out = np.full((len(points), 3), np.nan)
    for i, share in enumerate((0.25, 0.5, 0.75)):
        first = np.minimum((cumulative < share - 1e-12).sum(axis=1), points.shape[1] - 1)
        known = np.isfinite(cumulative[:, -1])
        out[known, i] = ordered[known, first[known]]
    return out


def _spike(shape: _Shape, scores: Floats, weights: Floats) -> Spike | None:
    """The spike of a column from its values and points, and their weights in every group."""
    if not shape.recipe.spikes or weights[-1, 0] < _MOST_CELLS:
        return None
    A = len(scores)
    z = (scores[0] - shape.mean[-1]) / shape.deviation[-1] if shape.deviation[-1] > 0 else 0.0
    below = float(weights[-1, :A][scores < scores[0]].sum() + weights[-1, A:].sum() * ndtr(z))
    above = 1.0 - float(weights[-1, 0]) - below
    if min(below, above) > _AT_THE_END:
        return None
    return Spike(float(shape.values[0]), below < above, weights[:, 0])
