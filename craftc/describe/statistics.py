"""Statistics of every input column: in each cluster and in the whole table, in the units of the table."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
from scipy.special import ndtri

from craftc._common.cluster_moments import ClusterMoments
from craftc._common.typing import Array, Floats, Integers, Labels
from craftc.describe.columns import (
    CategoricalColumn,
    CodesColumn,
    Column,
    NumericColumn,
    OrderedColumn,
    PeriodicColumn,
    Spike,
)
from craftc.table.levels import NumberLevels
from craftc.table.mixed_table import Schema
from craftc.table.moments import Moments

BINS = 24  # of a histogram, at most
MOST_NUMBERED_CLASSES = 20  # distinct numbers up to which a numeric target holds classes
_QUARTILES = ndtri(np.array([0.25, 0.5, 0.75]))
_EXACT = 1e-12  # rounding of a sum of shares
_MOST_CELLS = 0.5  # share of the cells of a spike
_AT_THE_END = 0.01  # share of the cells beyond a value at the end of a column
_YEARS, _NAMED_YEARS = (1900.0, 2100.0), (1000.0, 3000.0)  # numbers that are years, and those with the name
_YEAR_NAME = re.compile(
    r"(^|[^a-z])(year|yr|jahr|baujahr|jahrgang|ann[eé]e|anno|a[nñ]o|founded|built|vintage|born)s?($|[^a-z])",
    re.IGNORECASE,
)
_RESOLVED = 2.0**-40  # share of the largest value below which bins have no width
_BEYOND = 0.005  # share of the values beyond each end of an axis
_ROUNDING = 1e-15  # of a mean, relative to the largest number of its column


def column_statistics(
    moments: Moments,
    schema: Schema,
    encoded: Moments | None = None,
    numbers: Sequence[NumberLevels] = (),
    rests: tuple[Integers, Integers] | None = None,
) -> list[Column]:
    """Statistics of the input columns, in input order, from moments of a partition in the units of the table.

    `encoded`: moments of the same partition of the table as the model sees it, `numbers`: the levels of its
    numeric columns, in the order of the columns. `rests`: sums of rows of the table that are in no cluster,
    in both.
    """
    rest, encoded_rest = (None, None) if rests is None else rests
    moments = _with_total(moments, rest)
    grid, size, counts, present = moments.grid, moments.sizes, moments.counts, moments.present
    columns: list[Column | None] = [None] * schema.n_columns
    means, deviations = in_units(moments)
    whole = None if encoded is None else _with_total(encoded, encoded_rest)
    for j, d in enumerate(schema.numeric_index.tolist()):
        centre, half = float(grid.centre[j]), 2.0**39 / grid.scale[j]  # at least half of the column's range
        style = "day" if d in schema.dates else style_of(centre - half, centre + half, schema.columns[d])
        missing = np.where(size > 0, 1.0 - present[:, j] / np.where(size > 0, size, 1.0), 0.0)
        own = means[:, j], deviations[:, j], missing, style
        if whole is not None and numbers and len(numbers[j].values):
            first = whole.grid.level_start[d]
            cells = level_shares(whole.counts[:, first : first + len(numbers[j].values)])
            of_levels = _of_period if numbers[j].period else _of_levels if numbers[j].ordered else _of_codes
            columns[d] = of_levels(*own, numbers[j], cells)
        else:
            columns[d] = _normal(*own)
    for j, d in enumerate(schema.categorical_index.tolist()):
        at = slice(grid.level_start[j], grid.level_start[j] + len(schema.levels[j]))
        kind = OrderedColumn if d in schema.ordered else CategoricalColumn
        columns[d] = kind(schema.levels[j], level_shares(counts[:, at]))
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


def _with_total(moments: Moments, rest: Integers | None) -> Moments:
    groups = np.vstack([moments.groups, moments.total(rest).groups])
    return Moments.of_groups(moments.grid, moments.unit, groups)


def style_of(low: float, high: float, name: str) -> str:
    """How the values of a column between these are written."""
    first, last = _NAMED_YEARS if _YEAR_NAME.search(name) else _YEARS
    return "year" if first <= low and high <= last else "number"


def amounts(name: str, means: Floats, deviations: Floats, ends: tuple[float, float]) -> NumericColumn:
    """A numeric column by its means and deviations in the clusters and, last, in the whole table; `ends`: its
    smallest and its largest number.
    """
    return _normal(means, deviations, np.zeros(len(means)), style_of(*ends, name))


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
    largest = max(abs(low), abs(high))
    if not high - low > _RESOLVED * largest:  # one value, or values that edges between them could not part
        half = max(0.5, _RESOLVED * largest)
        return np.array([low - half, high + half])
    if (values == np.round(values)).all():
        step = max(1, int(np.ceil((high - low + 1) / BINS)))
        return np.arange(np.floor(low), np.ceil(high) + step + 0.1, step) - 0.5
    return np.linspace(low, high, BINS + 1)


def by_cluster(
    codes: Array, labels: Labels, n_codes: int, n_clusters: int, weight: Floats | None = None
) -> Array:
    """(n_clusters, n_codes) number of rows, or sum of their weights."""
    cells = labels.astype(np.intp) * n_codes + codes
    return np.bincount(cells, weight, n_clusters * n_codes).reshape(n_clusters, n_codes)


def circular(angle: Floats, length: Floats, period: float) -> tuple[Floats, Floats, Floats]:
    """Mean directions, circular standard deviations and mean resultant lengths of groups, from the angles and
    the lengths of the means of exp(2 pi i x / period) in them.
    """
    length = np.clip(length, 1e-300, 1.0)
    directions = np.mod(angle / (2.0 * np.pi) * period, period)
    spread = np.minimum(np.sqrt(-2.0 * np.log(length)) / (2.0 * np.pi), 0.5) * period
    return directions, spread, length


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
    shift = shares @ levels.normal_scores
    value = np.where((np.count_nonzero(shares, axis=1) == 1) & (deviations == 0), means, np.nan)
    quartiles, spike = _quartiles(levels.values, shares), _spike(levels.values, shares)
    return NumericColumn(means, deviations, shift - shift[-1], quartiles, value, missing, style, spike)


def _of_codes(
    means: Floats, deviations: Floats, missing: Floats, style: str, levels: NumberLevels, shares: Floats
) -> CodesColumn:
    """A column of codes whose values have these shares (G, T)."""
    column = _of_levels(means, deviations, missing, style, levels, shares)
    codes = CategoricalColumn(tuple(map(int, levels.values)), shares)
    own = column.means, column.deviations, column.shift, column.quartiles, column.value, column.missing
    return CodesColumn(*own, style, codes=codes)


def _of_period(
    means: Floats, deviations: Floats, missing: Floats, style: str, levels: NumberLevels, shares: Floats
) -> PeriodicColumn:
    """A periodic column whose levels have these shares (G, T): mean directions and circular deviations."""
    period = levels.period
    turn = shares @ np.exp(2j * np.pi * levels.values / period)
    directions, spread, length = circular(np.angle(turn), np.abs(turn), period)
    value = np.where((np.count_nonzero(shares, axis=1) == 1) & (deviations == 0), means, np.nan)
    quartiles = np.full((len(means), 3), np.nan)
    for g in np.flatnonzero(np.isfinite(directions)):
        away = np.mod(levels.values - directions[g] + period / 2, period) - period / 2
        order = np.argsort(away, kind="stable")
        quartiles[g] = directions[g] + _quartiles(away[order], shares[g : g + 1, order])[0]
    own = directions, spread, means * 0.0, quartiles, value, missing
    return PeriodicColumn(*own, period=period, lengths=length)


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
