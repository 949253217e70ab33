"""Statistics of every input column: in each cluster and in the whole table, in the units of the table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.special import ndtri

from craftc._common.cluster_moments import ClusterMoments
from craftc._common.typing import Array, Floats, Ints
from craftc.describe import words
from craftc.table.levels import NumberLevels
from craftc.table.mixed_table import Schema
from craftc.table.moments import Moments

BINS = 24  # of a histogram, at most
_QUARTILES = ndtri(np.array([0.25, 0.5, 0.75]))
_EXACT = 1e-12  # rounding of a sum of shares
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

    NaN stands for a cluster without values. Where the model sees levels, `shift`, `quartiles` and `value`
    follow from these: one outlier hardly changes them.
    """

    means: Floats  # (K + 1,)
    deviations: Floats  # (K + 1,)
    shift: Floats  # (K + 1,) mean normal score in the table; without levels: difference in deviations
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
    moments: Moments, schema: Schema, encoded: Moments | None = None, numbers: Sequence[NumberLevels] = ()
) -> list[Column]:
    """Statistics of the input columns, in input order, from moments of a partition in the units of the table.

    `encoded`: moments of the same partition of the table as the model sees it, `numbers`: the levels of its
    numeric columns, in the order of the columns.
    """
    moments = _with_total(moments)
    grid, size, counts, present = moments.grid, moments.sizes, moments.counts, moments.present
    columns: list[Column | None] = [None] * schema.n_columns
    means, deviations = in_units(moments)
    whole = None if encoded is None else _with_total(encoded)
    for j, d in enumerate(schema.numeric_index.tolist()):
        centre, half = float(grid.centre[j]), 2.0**39 / grid.scale[j]  # at least half of the column's range
        style = "day" if d in schema.dates else _style(centre - half, centre + half)
        missing = 1.0 - present[:, j] / size
        own = means[:, j], deviations[:, j], missing, style
        if whole is not None and numbers and len(numbers[j].values):
            first = whole.grid.level_start[d]
            cells = whole.counts[:, first : first + len(numbers[j].values)]
            columns[d] = _of_levels(*own, numbers[j], level_shares(cells))
        else:
            columns[d] = _normal(*own)
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
    return [_normal(mean, deviation, nothing, "number") for mean, deviation in both]


def _with_total(moments: Moments) -> Moments:
    groups = np.vstack([moments.groups, moments.total().groups])
    return Moments.of_groups(moments.grid, moments.unit, groups)


def _style(low: float, high: float) -> str:
    """How the values of a column between these are written."""
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


def _normal(means: Floats, deviations: Floats, missing: Floats, style: str) -> NumericColumn:
    """A numeric column whose cells are taken as normal in every group."""
    shift = (means - means[-1]) / (deviations[-1] if deviations[-1] > 0 else 1.0)
    quartiles = means[:, None] + _QUARTILES * deviations[:, None]
    value = np.where(deviations == 0, means, np.nan)
    return NumericColumn(means, deviations, shift, quartiles, value, missing, style)


def _of_levels(
    means: Floats, deviations: Floats, missing: Floats, style: str, levels: NumberLevels, shares: Floats
) -> NumericColumn:
    """A numeric column whose levels have these shares (G, T)."""
    shift = shares @ levels.scores
    value = np.where((np.count_nonzero(shares, axis=1) == 1) & (deviations == 0), means, np.nan)
    quartiles, spike = _quartiles(levels.values, shares), _spike(levels.values, shares)
    return NumericColumn(means, deviations, shift - shift[-1], quartiles, value, missing, style, spike)


def _quartiles(values: Floats, shares: Floats) -> Floats:
    """(G, 3) quartiles of ascending values with these shares (G, T); NaN without cells."""
    below = np.cumsum(shares, axis=1)
    at = [(below < share - _EXACT).sum(axis=1) for share in (0.25, 0.5, 0.75)]
    return np.asarray(np.append(values, np.nan)[np.column_stack(at)] + below[:, -1:] * 0.0)


def _spike(values: Floats, shares: Floats) -> Spike | None:
    """The spike of a column with at least three values, which have these shares (G, T)."""
    share = shares[-1]
    if len(values) <= 2 or not (share.max() >= _MOST_CELLS):
        return None
    top = int(share.argmax())
    below, above = float(share[:top].sum()), float(share[top + 1 :].sum())
    return (
        None if min(below, above) > _AT_THE_END else Spike(float(values[top]), below < above, shares[:, top])
    )
