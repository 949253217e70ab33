"""Figures of every column by cluster: what a Table 1 shows, computed from the cells."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from craftc._common.typing import Array, Floats, Labels
from craftc.describe.association import (
    chi_squared,
    cramers_v,
    kruskal_wallis,
    standardised_difference,
)
from craftc.describe.columns import (
    CategoricalColumn,
    CodesColumn,
    Column,
    NumericColumn,
    OrderedColumn,
    PeriodicColumn,
)
from craftc.describe.statistics import amounts, by_cluster, circular, level_shares
from craftc.table import MixedTable
from craftc.table.personal import is_personal

_MOST_NUMBERS = 12  # levels that are numbers, as those of a rating, up to which they are in their order
_NUMBER = re.compile(r"[-+]?[0-9]+(\.[0-9]+)?", re.ASCII)


@dataclass(frozen=True)
class Groups:
    """The rows of a profile: their clusters and weights."""

    labels: Labels  # (n,)
    weight: Floats  # (n,)
    n_clusters: int

    @property
    def whole(self) -> bool:
        """Whether weights are numbers of rows."""
        return bool((self.weight == np.floor(self.weight)).all())

    def sums(self, of: Array, values: Floats) -> Floats:
        """(K + 1,) sums of values of the rows `of` by cluster and, last, in all."""
        parts = np.bincount(self.labels[of], values, self.n_clusters)
        return np.append(parts, parts.sum())

    @property
    def sizes(self) -> Floats:
        """(K + 1,) weights of the clusters and, last, of all rows."""
        return self.sums(np.arange(len(self.labels)), self.weight)


@dataclass(frozen=True)
class ColumnFigures:
    """One column of a profile, in the K clusters and, last, in all rows."""

    name: str
    statistics: Column  # NumericColumn: its deviations are those of samples
    present: Floats  # (K + 1,) weight of the rows with a value
    missing: Floats  # (K + 1,) and without one
    counts: Floats  # (K + 1, T) of the levels; (K + 1, 0) of a number
    effect: float  # standardised difference of numbers, Cramer's V of levels
    personal: bool  # whether levels are not shown, because they may identify persons
    test: str = ""  # of a column that made no clusters
    p_value: float = np.nan

    @property
    def effect_name(self) -> str:
        return "SMD" if isinstance(self.statistics, NumericColumn) else "V"

    @property
    def shown_levels(self) -> list[int]:
        """Levels in the order of a table: that of a scale, numbers ascending, otherwise the most frequent
        first; none that no row has.
        """
        of_all = self.counts[-1]
        if isinstance(self.statistics, OrderedColumn):
            return list(range(len(of_all)))
        order = np.argsort(-of_all, kind="stable").tolist()
        texts = self.statistics.texts if isinstance(self.statistics, CategoricalColumn) else []
        if 2 < len(texts) <= _MOST_NUMBERS and all(map(_NUMBER.fullmatch, texts)):
            order.sort(key=lambda t: float(texts[t]))
        return [t for t in order if of_all[t] > 0]


def column_figures(
    table: MixedTable, statistics: Sequence[Column], names: Sequence[str], groups: Groups, tested: bool
) -> list[ColumnFigures]:
    """The figures of the columns of a table, in input order.

    `statistics`: of these columns, for how their values are written and for their periods. `tested`: the
    columns made no clusters, so that tests mean something.
    """
    schema, found = table.schema, {}
    for j, d in enumerate(schema.numeric_index.tolist()):
        cells, column = table.numeric[:, j].astype(np.float64), statistics[d]
        found[d] = (
            _of_levels(names[d], column.coded(cells), column.codes, groups, tested)
            if isinstance(column, CodesColumn)
            else _of_numbers(names[d], cells, column, groups, tested)
        )
    for j, d in enumerate(schema.categorical_index.tolist()):
        found[d] = _of_levels(names[d], table.codes[:, j], statistics[d], groups, tested)
    return [found[d] for d in range(schema.n_columns)]


def plain_statistics(table: MixedTable) -> list[Column]:
    """How the values of columns are written, without a model: numbers, dates, years and levels."""
    schema, found = table.schema, dict[int, Column]()
    nothing = np.full(1, np.nan)
    for j, d in enumerate(schema.numeric_index.tolist()):
        cells = table.numeric[:, j]
        ends = float(np.nanmin(cells)), float(np.nanmax(cells))
        column = amounts(schema.columns[d], nothing, nothing, ends)
        found[d] = replace(column, style="day") if d in schema.dates else column
    for levels, d in zip(schema.levels, schema.categorical_index.tolist(), strict=True):
        kind = OrderedColumn if d in schema.ordered else CategoricalColumn
        found[d] = kind(levels, np.full((1, len(levels)), np.nan))
    return [found[d] for d in range(schema.n_columns)]


def _of_levels(name: str, codes: Array, column: Column, groups: Groups, tested: bool) -> ColumnFigures:
    assert isinstance(column, CategoricalColumn)
    K, T = groups.n_clusters, len(column.levels)
    parts: Floats = by_cluster(codes, groups.labels, T + 1, K, groups.weight).astype(np.float64)
    counts = np.vstack([parts, parts.sum(axis=0)])
    return ColumnFigures(
        name,
        replace(column, shares=level_shares(counts[:, :T])),
        counts[:, :T].sum(axis=1),
        counts[:, T],
        counts[:, :T],
        cramers_v(parts[:, :T]),
        is_personal(name, column.texts),
        "chi-squared" if tested else "",
        chi_squared(parts[:, :T]) if tested and groups.whole else np.nan,
    )


def _of_numbers(name: str, cells: Floats, column: Column, groups: Groups, tested: bool) -> ColumnFigures:
    assert isinstance(column, NumericColumn)
    seen = np.flatnonzero(~np.isnan(cells) & (groups.weight > 0))
    x, weight = cells[seen], groups.weight[seen]
    present = groups.sums(seen, weight)
    period = column.period if isinstance(column, PeriodicColumn) else 0.0
    if isinstance(column, PeriodicColumn):
        own: NumericColumn = _round_the_clock(x, weight, seen, present, column, groups)
    else:
        own = _moments(x, weight, seen, present, column, groups)
    missing = groups.sizes - present
    own = replace(own, missing=missing / np.maximum(groups.sizes, 1e-300), spike=None)
    return ColumnFigures(
        name,
        own,
        present,
        missing,
        np.empty((len(present), 0)),
        standardised_difference(own.means[:-1], own.deviations[:-1], period),
        False,
        "Kruskal-Wallis" if tested else "",
        kruskal_wallis(x, groups.labels[seen], weight, groups.n_clusters)
        if tested and groups.whole
        else np.nan,
    )


def _moments(
    x: Floats, weight: Floats, rows: Array, present: Floats, column: NumericColumn, groups: Groups
) -> NumericColumn:
    """Means, sample deviations, quartiles and, where all cells of a group are equal, their value."""
    K, by = groups.n_clusters, groups.labels[rows]
    exponent = int(np.frexp(np.abs(x).max(initial=0.0))[1])
    z = np.ldexp(x, -exponent)  # whose squares neither overflow nor vanish
    centre = float(np.average(z, weights=weight)) if len(z) else 0.0
    with np.errstate(invalid="ignore", divide="ignore"):
        means = centre + groups.sums(rows, weight * (z - centre)) / present
        parts = np.bincount(by, weight * (z - means[by]) ** 2, K)
        squares = np.append(parts, float((weight * (z - means[-1]) ** 2).sum()))
        if groups.whole:
            variances = squares / (present - 1.0)
        else:  # the estimate of surveys: n / (n - 1) times the weighted mean of the squares
            n = groups.sums(rows, np.ones(len(x)))
            variances = squares / present * n / (n - 1.0)
    order = np.lexsort((x, by))
    ends = np.append(0, np.cumsum(np.bincount(by, minlength=K)))
    parts_of = [order[ends[k] : ends[k + 1]] for k in range(K)] + [np.argsort(x, kind="stable")]
    quartiles = np.array([_quartiles(x[at], weight[at], groups.whole) for at in parts_of])
    constant = np.array([len(at) > 0 and x[at[0]] == x[at[-1]] for at in parts_of])
    value = np.array([x[at[0]] if same else np.nan for at, same in zip(parts_of, constant, strict=True)])
    means = np.where(constant, value, np.ldexp(means, exponent))
    deviations = np.ldexp(np.sqrt(np.where(constant & np.isfinite(variances), 0.0, variances)), exponent)
    deviations = np.where(np.isfinite(deviations), deviations, np.nan)
    value = np.where(np.isfinite(deviations), value, np.nan)
    shift = np.zeros(K + 1)
    return replace(column, means=means, deviations=deviations, shift=shift, quartiles=quartiles, value=value)


def _quartiles(x: Floats, weight: Floats, whole: bool) -> Floats:
    """Quartiles of ascending values: with whole weights of the rows that they count, interpolated; otherwise
    the smallest values that reach the share of the weight.
    """
    if not len(x):
        return np.full(3, np.nan)
    shares, reached = np.array([0.25, 0.5, 0.75]), np.cumsum(weight)
    if not whole:
        at = np.searchsorted(reached, shares * reached[-1] * (1.0 - 1e-12), side="left")
        return np.asarray(x[np.minimum(at, len(x) - 1)])
    place = shares * (reached[-1] - 1.0)
    low = x[np.searchsorted(reached, np.floor(place), side="right")]
    high = x[np.searchsorted(reached, np.ceil(place), side="right")]
    return np.asarray(low + (high - low) * (place - np.floor(place)))


def _round_the_clock(
    x: Floats, weight: Floats, rows: Array, present: Floats, column: PeriodicColumn, groups: Groups
) -> PeriodicColumn:
    """Mean directions and circular standard deviations."""
    period, angle = column.period, 2.0 * np.pi * x / column.period
    with np.errstate(invalid="ignore", divide="ignore"):
        cosine, sine = (groups.sums(rows, weight * part) / present for part in (np.cos(angle), np.sin(angle)))
    directions, spread, length = circular(np.arctan2(sine, cosine), np.hypot(cosine, sine), period)
    return replace(
        column,
        means=directions,
        deviations=spread,
        lengths=length,
        shift=np.zeros(len(present)),
        quartiles=np.full((len(present), 3), np.nan),
        value=np.full(len(present), np.nan),
    )
