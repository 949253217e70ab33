"""Dependence between the columns of a table, as an alternative to its clusters.

Columns that depend on each other are covered by clusters although there are no groups. The table without
clusters but with links between columns is the other description: what links save over independent columns,
each at its price, is compared with what clusters save.

With h the price of one parameter, a link of two columns saves, over the rows with a value in both (n of
them),

    two categorical columns           n MI - (T_d - 1)(T_e - 1) h               MI: mutual information of the
    pair table a categorical and a numeric one   (n / 2) log(SS / SS_within) - (T_d - 1) h    SS: squares
    around the mean, and around those of levels two numeric columns               -(n / 2) log(1 - r^2) - h

less log(P + 1) nats, which name one of the P pairs. The links that save most together and form no cycle are a
maximum spanning forest (Chow & Liu 1968). Alternatively all numeric columns have one full covariance, at p(p
- 1)/2 parameters, and the forest joins it to the categorical columns. Sums of squares contain one row of the
table's variance, as those of clusters do.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from craftc._common.random import SAMPLE_ROWS, CraftStream, spread
from craftc._common.typing import Floats
from craftc.craft.description_length import half_log
from craftc.craft.search.config import FitConfig

MOST_WIDTH, MOST_LEVELS = 1024, 256  # cells of a row of the design, and levels of a column that takes part
_STEPS, _FARTHEST, _HEAVIEST = (
    2.0**8,
    2.0**14,
    2.0**24,
)  # integers: to a standard deviation, of the largest cell, of all weights
_ROWS = 1 << 11  # of the design at a time
_FEW_PRODUCTS = 1 << 22  # up to which BLAS is not used: its threads spin for longer than a small table takes
_ALIKE, _BANDS = (
    0.5,
    8,
)  # share of the information of two columns; levels as which a numeric column counts there
_NO_COLUMNS = np.empty(0, np.intp)
_IMPLIED, _LEADING = 0.9, 30  # share of the rows with a level; columns of which levels are compared


@dataclass
class ColumnLinks:
    """What links between columns save, and the links of the forest.

    Parameters
    ----------
    saving : float
        Nats.
    pairs : list of (int, int, float)
        Positions of two input columns, the earlier first, and the nats that their links save; the largest
        first.
    alike : list of (int, int, float)
        Positions of two input columns, the earlier first, that share at least half of the information of the
        simpler one, and this share.
    implied : list of (int, int, int, int)
        Column, level, other column, its level: nine of ten rows of the table with the first level have the
        second. Categorical input columns, at most the 30 in which the clusters save most.
    """

    saving: float = 0.0
    pairs: list[tuple[int, int, float]] = field(default_factory=list)
    alike: list[tuple[int, int, float]] = field(default_factory=list)
    implied: list[tuple[int, int, int, int]] = field(default_factory=list)

    def ratio(self, clusters_save: float) -> float:
        """The saving over that of the clusters; where these save nothing, infinity, or NaN if links save
        nothing either.
        """
        if clusters_save > 0.0:
            return self.saving / clusters_save
        return math.inf if self.saving > 0.0 else math.nan


def dependence_sentence(model: Any) -> str:
    """What a ratio above 1 means, as a sentence; otherwise empty."""
    if not model.dependence_ratio_ > 1.0:
        return ""
    links = f"links between columns save {model._links.saving:,.0f} nats"
    if math.isinf(model.dependence_ratio_):
        return f"Columns depend on each other, but clusters save nothing: {links}."
    save = model._links.saving / model.dependence_ratio_
    return f"Columns that depend on each other describe this table better than groups of rows: {links}, clusters {save:,.0f}."


def column_links(
    config: FitConfig,
    source: NDArray[np.intp],
    selected_gains: Floats,
    categorical: NDArray[np.intp] = _NO_COLUMNS,
) -> ColumnLinks:
    """Links between the columns of a table without clusters.

    Parameters
    ----------
    config : FitConfig
        A table of more than 16 384 rows is represented by the sample that is searched first. A link must then
        pay for itself in the sample alone, too, because the mutual information of independent columns grows
        with the rows that one row of a sample stands for.
    source : ndarray (D,)
        Input column of every column of the table, in kernel order; parts of one column are not linked.
    selected_gains : ndarray (D,)
        What the clusters save in every column. Of a wide table the columns take part in which they save most,
        as far as a row has at most `MOST_WIDTH` cells, three for a numeric and one for each level of a
        categorical column; a column of more than `MOST_LEVELS` levels is left out.
    categorical : ndarray of intp
        Categorical input columns, of which levels that imply each other are listed.

    Returns
    -------
    ColumnLinks
    """
    background, p = config.background, config.background.grid.p
    chosen = _columns(np.asarray(config.table.n_levels), background.usable > 0, selected_gains)
    if len(chosen) < 2:
        return ColumnLinks()
    design = _Design(config.of_rows(_rows(config)), chosen[chosen < p], chosen[chosen >= p] - p)
    gains, parameters = design.pair_gains()
    N, M, h = background.weight, design.weight, half_log(background, config.spec)
    name = math.log(background.usable.sum() * (background.usable.sum() - 1) / 2 + 1)

    def net(gain: Any, parameters: Any, name: float) -> Any:
        price = parameters * h + name
        if M < N:
            price = np.maximum(price, N / M * (parameters * 0.5 * math.log(M) + name))
        return N / M * gain - price

    saves = net(gains, parameters, name)
    saves[source[chosen][:, None] == source[chosen]] = -np.inf
    edges = _forest(saves)
    total = sum(saves[i, j] for i, j in edges)
    p = design.p
    if p > 2:
        block = float(net(design.covariance_gain(), p * (p - 1) / 2, 0.0))
        joined = np.full((len(saves) - p + 1,) * 2, -np.inf)
        joined[1:, 1:] = saves[p:, p:]
        joined[0, 1:] = joined[1:, 0] = saves[:p, p:].max(axis=0, initial=-np.inf)
        total = max(total, block + sum(joined[i, j] for i, j in _forest(joined)))
    source, selected_gains = source[chosen], selected_gains[chosen]
    implied = _implied(design, source, np.where(np.isin(source, categorical), selected_gains, -np.inf))
    return ColumnLinks(float(total), _by_column(edges, saves, source), _alike(design, gains, source), implied)


def _rows(config: FitConfig) -> NDArray[np.intp]:
    """Rows of weight > 0, or a sample of them."""
    counted = np.flatnonzero(config.weight) if len(config.weight) else None
    n = len(config.table) if counted is None else len(counted)
    rows = spread(n, SAMPLE_ROWS, config.seed, CraftStream.STAGE_SAMPLE) if n > SAMPLE_ROWS else np.arange(n)
    return np.asarray(rows if counted is None else counted[rows])


def _columns(n_levels: NDArray[Any], usable: NDArray[np.bool_], selected_gains: Floats) -> NDArray[np.intp]:
    """The columns that take part, in kernel order."""
    width = np.concatenate([np.full(len(usable) - len(n_levels), 3), n_levels + 1])
    order = np.argsort(-selected_gains, kind="stable")
    order = order[usable[order] & (width[order] <= MOST_LEVELS + 1)]
    return np.sort(order[np.cumsum(width[order]) <= MOST_WIDTH])


def _forest(saves: Floats) -> list[tuple[int, int]]:
    """Edges of the forest of the largest sum, all of them positive (Prim's algorithm, from every root)."""
    left, best, parent = np.ones(len(saves), bool), np.zeros(len(saves)), np.full(len(saves), -1)
    edges = []
    for _ in range(len(saves)):
        j = int(np.argmax(np.where(left, best, -1.0)))
        left[j] = False
        if parent[j] >= 0:
            edges.append((min(int(parent[j]), j), max(int(parent[j]), j)))
        nearer = left & (saves[j] > best)
        best[nearer], parent[nearer] = saves[j, nearer], j
    return edges


def _by_column(
    edges: list[tuple[int, int]], saves: Floats, source: NDArray[np.intp]
) -> list[tuple[int, int, float]]:
    """The links of pairs of input columns, summed over the parts of the columns."""
    nats: dict[tuple[int, int], float] = {}
    for i, j in sorted(edges):
        pair = min(int(source[i]), int(source[j])), max(int(source[i]), int(source[j]))
        nats[pair] = nats.get(pair, 0.0) + float(saves[i, j])
    return sorted(((a, b, value) for (a, b), value in nats.items()), key=lambda link: (-link[2], link[:2]))


def _alike(design: _Design, gains: Floats, source: NDArray[np.intp]) -> list[tuple[int, int, float]]:
    """Pairs of input columns with a mutual information of at least half the smaller entropy; a numeric column
    has that of 8 levels.
    """
    p, q = design.p, len(design.start)
    entropy = np.full(p + q, math.log(_BANDS))
    if q:
        counts = np.diag(design.tables)
        total = design._by_level(counts, (0,))
        entropy[p:] = np.log(np.maximum(total, 1.0)) - _over(design._by_level(_x_log_x(counts), (0,)), total)
    share = gains / design.weight / np.maximum(np.minimum(entropy, entropy[:, None]), 1e-12)
    found: dict[tuple[int, int], float] = {}
    for i, j in np.argwhere(np.triu(share >= _ALIKE, 1)).tolist():
        a, b = sorted((int(source[i]), int(source[j])))
        if a != b:
            found[a, b] = max(found.get((a, b), 0.0), min(float(share[i, j]), 1.0))
    return sorted((a, b, value) for (a, b), value in found.items())


def _implied(
    design: _Design, source: NDArray[np.intp], selected_gains: Floats
) -> list[tuple[int, int, int, int]]:
    """Pairs of levels of which the first nearly always occurs with the second, although the second is not
    nearly everywhere.
    """
    p, start, tables = design.p, design.start, design.tables
    order = np.argsort(-selected_gains[p:], kind="stable")
    leading = [int(c) for c in order[:_LEADING] if np.isfinite(selected_gains[p + c])]
    counts, ends = np.diag(tables), np.append(start, len(tables))
    out = []
    for a in leading:
        rows = slice(ends[a], ends[a + 1])
        for b in leading:
            if a == b:
                continue
            table = tables[rows, ends[b] : ends[b + 1]]
            share, of_all = _over(table, table.sum(axis=1, keepdims=True)), counts[ends[b] : ends[b + 1]]
            found = (share >= _IMPLIED) & (of_all < _IMPLIED * of_all.sum())
            out += [(int(source[p + a]), s, int(source[p + b]), t) for s, t in np.argwhere(found).tolist()]
    return sorted(out)


class _Design:
    """Exact sums of products over pairs of columns, from integers that float64 represents in any order of
    addition.

    A row holds, for every numeric column, its presence, its value in steps of 2^-8 standard deviations of the
    table, and the square of these; for every categorical column, one cell per level and one for a missing
    value.
    """

    def __init__(self, config: FitConfig, numeric: NDArray[np.intp], categorical: NDArray[np.intp]) -> None:
        background, table = config.background, config.table
        self.p = len(numeric)
        widths = np.asarray(table.n_levels)[categorical] + 1
        ends = np.cumsum(widths)
        self.start = (ends - widths).astype(np.intp)
        weight = config.weight.astype(np.float64) if len(config.weight) else np.ones(len(table))
        self.weight = float(weight.sum()) * background.count_weight
        if len(config.weight):
            weight = np.rint(weight * min(_HEAVIEST / weight.sum(), 1.0))
        products = np.zeros((3 * self.p + int(widths.sum()),) * 2)
        for first in range(0, len(table), _ROWS):
            part = slice(first, first + _ROWS)
            z = (
                table.numeric[part][:, numeric].astype(np.float64) - background.centre[numeric]
            ) * background.scale[numeric]
            z = np.clip(np.rint(z * _STEPS), -_FARTHEST, _FARTHEST)
            cells = np.zeros((len(z), len(products)))
            missing = np.isnan(z)
            z[missing] = 0.0
            cells[:, : self.p], cells[:, self.p : 2 * self.p], cells[:, 2 * self.p : 3 * self.p] = (
                ~missing,
                z,
                z * z,
            )
            if len(categorical):
                np.put_along_axis(
                    cells,
                    3 * self.p + self.start + table.codes[part][:, categorical].astype(np.intp),
                    1.0,
                    axis=1,
                )
            products += _products(cells * weight[part, None] if len(config.weight) else cells, cells)
        products[:, 3 * self.p + ends - 1] = products[3 * self.p + ends - 1] = 0.0  # missing values
        products *= self.weight / weight.sum()
        kinds = [slice(k * self.p, (k + 1) * self.p) for k in range(3)]
        present, value, square = kinds
        levels = slice(3 * self.p, None)
        self.both, self.products = products[present, present], products[value, value] / _STEPS**2
        self.sums, self.squares = products[value, present] / _STEPS, products[square, present] / _STEPS**2
        self.level_counts, self.level_sums = products[levels, present], products[levels, value] / _STEPS
        self.level_squares, self.tables = products[levels, square] / _STEPS**2, products[levels, levels]

    def pair_gains(self) -> tuple[Floats, Floats]:
        """(D, D) gain in nats, and number of parameters, of every pair of columns, numeric ones first."""
        p, q = self.p, len(self.start)
        gain, parameters = np.zeros((p + q, p + q)), np.ones((p + q, p + q))
        gain[:p, :p] = -0.5 * self.both * np.log1p(-(self._correlation**2))
        if q:
            free = np.add.reduceat(np.diag(self.tables) > 0, self.start, dtype=np.float64) - 1.0
            of_table, of_row = self._by_level(_x_log_x(self.tables)), self._by_level(self.tables, axes=(1,))
            of_margin = self._by_level(_x_log_x(of_row), axes=(0,))
            gain[p:, p:] = of_table - of_margin - of_margin.T + _x_log_x(self._by_level(self.tables))
            parameters[p:, p:] = np.outer(free, free)
            parameters[:p, p:], parameters[p:, :p] = free, free[:, None]
        if p and q:
            count, total = self._by_level(self.level_counts, (0,)), self._by_level(self.level_sums, (0,))
            squares = self._by_level(self.level_squares, (0,))
            explained = self._by_level(_over(self.level_sums**2, self.level_counts), (0,))
            mixed = (
                0.5
                * count
                * np.log(
                    (squares - _over(total**2, count) + 1.0) / (np.maximum(squares - explained, 0.0) + 1.0)
                )
            )
            gain[p:, :p], gain[:p, p:] = mixed, mixed.T
        return gain, parameters

    def covariance_gain(self) -> float:
        """What one covariance of all numeric columns saves over their variances; 0 if pairs of columns
        contradict each other.
        """
        eigenvalues = np.linalg.eigvalsh(self._correlation + np.eye(self.p))
        return -0.5 * float(self.both.min() * np.log(eigenvalues).sum()) if eigenvalues[0] > 0 else 0.0

    @cached_property
    def _correlation(self) -> Floats:
        """(p, p) correlations over the rows with both values, 0 on the diagonal; squares around the mean
        contain one row of variance 1.
        """
        variance = np.maximum(self.squares - _over(self.sums**2, self.both), 0.0) + 1.0
        r = (self.products - _over(self.sums * self.sums.T, self.both)) / np.sqrt(variance * variance.T)
        np.fill_diagonal(r, 0.0)
        return np.asarray(r)

    def _by_level(self, values: Floats, axes: tuple[int, ...] = (0, 1)) -> Floats:
        """Sums over the levels of every categorical column."""
        for axis in axes:
            values = np.add.reduceat(values, self.start, axis=axis)
        return values


def _products(a: Floats, b: Floats) -> Floats:
    """a' b, of integers."""
    few = a.size * b.shape[1] <= _FEW_PRODUCTS
    return np.asarray(np.einsum("ni,nj->ij", a, b) if few else a.T @ b)


def _x_log_x(x: Floats) -> Floats:
    return x * np.log(np.where(x > 0, x, 1.0))


def _over(x: Floats, n: Floats) -> Floats:
    """x / n, 0 where n is 0."""
    return np.divide(x, n, out=np.zeros_like(x), where=n > 0)
