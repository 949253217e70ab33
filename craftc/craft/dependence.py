"""Dependence between columns: the sums over pairs of columns by which it is measured, and what is left of it
inside clusters.

A number takes part by the normal score of its level, any other column by its levels.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from craftc._common.typing import Floats, Labels
from craftc.craft.background import Background, log_complexity
from craftc.craft.rows import L, S
from craftc.craft.search import FitConfig
from craftc.table.levels import LevelEncoding, NumberLevels

MOST_WIDTH, MOST_LEVELS = 1024, 256  # cells of a row of the design, and levels of a column that takes part
_STEPS = 2.0**8  # integers to a standard deviation
_FARTHEST, _HEAVIEST = 2.0**14, 2.0**24  # largest integer of a cell, and of all weights
_ROWS = 1 << 11  # rows of the design that are multiplied at a time
_FEW_PRODUCTS = 1 << 22  # below, BLAS is not used: its threads spin for longer than a small table takes
# cells of a row by which dependence inside clusters is measured, rows of the smallest of these, standard
# deviations that are more than chance, and rows that two levels must share by chance
_INSIDE_WIDTH, _FEWEST, _SURE, _EXPECTED = 256, 8, 3.0, 0.5
_NARROWEST = 0.05  # least standard deviation by which differences between clusters are measured
PARTS, LEAST_PART = 2**10, 2.0**-7  # integers of a row that counts in several clusters, and least part
_MANY_LEVELS = 8  # of a column whose links cost less than (T_d - 1) (T_e - 1) parameters
DESCRIBED = 0.1  # least share of the best link of a column that clusters save in it


def dependence_inside(
    config: FitConfig[L, S], probabilities: Floats, gains: Floats
) -> tuple[Floats, NDArray[np.bool_]]:
    """(K,) nats of the dependence of all pairs of columns inside clusters of the rows of a sample, and
    whether it is more than chance. `gains` (D,): what the clusters save in every column; columns that they
    hardly describe take no part.

    A row counts in every cluster by its probability (n, K) there. Where the table is a mixture of clusters
    inside which columns are independent, so are the columns of the rows of a cluster that count in this way,
    however much the clusters overlap; of the rows that are nearest to a cluster, they are not.
    """
    n_clusters = probabilities.shape[1]
    nats, sure = np.zeros(n_clusters), np.zeros(n_clusters, np.bool_)
    for k, design in _inside(config, probabilities, gains):
        found, by_chance = design.dependence()
        nats[k], sure[k] = found * design.rows_of_one, found > _SURE * by_chance
    return nats, sure


def pattern_inside(
    config: FitConfig[L, S], labels: Labels, n_clusters: int, gains: Floats
) -> tuple[float, float]:
    """Nats of the dependence inside all clusters, and how far it lies along the differences between them.

    With R the correlations of the columns in a cluster, 0 on the diagonal, and u the differences of their
    means from those of the nearest cluster, in standard deviations, the mean of u'Ru / u'u over the rows. It
    is about 0 where columns depend on each other in other ways inside clusters than between them, and the
    larger the more a cluster extends towards its neighbour, as pieces of a gradual pattern do.
    """
    found = [
        (design.weight, design.dependence()[0], *design.places(), design.correlations())
        for _, design in _inside(config, np.eye(n_clusters)[labels], gains)
    ]
    if len(found) < 2:
        return 0.0, 0.0
    weight, nats, mean, variance = map(np.array, list(zip(*found, strict=True))[:4])
    along = np.zeros(len(found))
    for k, (*_, correlations) in enumerate(found):
        scale = np.sqrt(np.maximum(0.5 * (variance[k] + variance), _NARROWEST**2))
        differences = np.where(variance[k] + variance > 0.0, (mean - mean[k]) / scale, 0.0)
        squares = (differences * differences).sum(axis=1)
        squares[k] = np.inf
        u = differences[squares.argmin()]
        along[k] = u @ correlations @ u / max(float(u @ u), 1e-12)
    return float(nats.sum()), float(weight @ along / weight.sum())


def _inside(config: FitConfig[L, S], probabilities: Floats, gains: Floats) -> Iterator[tuple[int, Design]]:
    """Clusters and their rows, by the columns that clusters describe."""
    background = config.background
    usable = (background.usable[background.grid.p :] > 0) & (gains >= DESCRIBED * gains.mean())
    assert config.encoding is not None
    columns, scores = cells_of(config.encoding, background, usable, gains, _INSIDE_WIDTH)
    if len(columns) < 2:
        return
    for k, parts in enumerate(probabilities.T):
        rows = np.flatnonzero(parts >= LEAST_PART)
        of_rows, parts = config.of_rows(rows), parts[rows]
        if of_rows.rows_weight >= _FEWEST:
            yield k, Design(of_rows, columns, scores, None if (parts == 1.0).all() else parts)


def cells_of(
    encoding: LevelEncoding,
    background: Background,
    usable: NDArray[np.bool_],
    selected_gains: Floats,
    most_width: int,
) -> tuple[list[int], list[Floats]]:
    """The columns that take part, first those of numbers, and the scores of these."""
    each = zip(encoding.input_schema.numeric_index.tolist(), encoding.numbers, strict=True)
    # numbers take part by their scores, unless they are codes, periodic or have fewer than three levels
    numbers = {j: own for j, own in each if len(own.values) >= 3 and own.ordered and not own.period}
    width = encoding.schema.n_levels + 1
    width[list(numbers)] = 3
    chosen = _columns(width, usable, selected_gains, most_width).tolist()
    scores = [_scores(j, numbers[j], background) for j in chosen if j in numbers]
    return sorted(chosen, key=lambda j: j not in numbers), scores


def _scores(j: int, own: NumberLevels, background: Background) -> Floats:
    """The normal score of every level of the number in column j, and last of a missing cell, in steps."""
    first = int(background.grid.level_start[j])
    b = background.frequency[first : first + len(own.values)]
    centred = own.normal_scores - (b * own.normal_scores).sum()
    z = centred / math.sqrt((b * centred * centred).sum())
    return np.append(np.clip(np.rint(z * _STEPS), -_FARTHEST, _FARTHEST), np.nan)


def _columns(
    width: NDArray[np.intp], usable: NDArray[np.bool_], selected_gains: Floats, most_width: int = MOST_WIDTH
) -> NDArray[np.intp]:
    """The columns that take part, ascending; `width`: cells of a row of the design."""
    order = np.argsort(-selected_gains, kind="stable")
    order = order[usable[order] & (width[order] <= MOST_LEVELS + 1)]
    return np.sort(order[np.cumsum(width[order]) <= most_width])


class Design:
    """Exact sums of products over pairs of columns, from integers that float64 represents in any order of
    addition.

    A row holds, for every number, its presence, its score in steps of 2^-8 standard deviations of the table,
    and the square of these; for every other column, one cell per level and one for a missing value.

    `columns` are input columns, first those of numbers, whose levels have these `scores`. `parts` (n,): the
    part of every row that counts. Such rows are worth the fewer whole ones by which a mean over them is as
    sure: `weight` is that of these, and one of them stands for `rows_of_one`.
    """

    def __init__(
        self,
        config: FitConfig[L, S],
        columns: Sequence[int],
        scores: Sequence[Floats],
        parts: Floats | None = None,
    ) -> None:
        table = config.table
        p = self.p = len(scores)
        widths = np.asarray(table.n_levels)[np.array(columns[p:], np.intp)] + 1
        ends = np.cumsum(widths)
        self.start = (ends - widths).astype(np.intp)
        weight = config.weight.astype(np.float64) if len(config.weight) else np.ones(len(table))
        self.weight, self.rows_of_one = float(weight.sum()) * config.background.count_weight, 1.0
        if parts is not None:
            total = float(weight @ parts)
            self.rows_of_one = float(weight @ (parts * parts)) / total
            self.weight = total / self.rows_of_one * config.background.count_weight
            weight *= np.rint(parts * PARTS)
        weighted_rows = parts is not None or len(config.weight) > 0
        if weighted_rows:
            weight = np.rint(weight * min(_HEAVIEST / weight.sum(), 1.0))
        products = np.zeros((3 * p + int(widths.sum()),) * 2)
        for first in range(0, len(table), _ROWS):
            part = slice(first, first + _ROWS)
            codes = table.codes[part][:, columns].astype(np.intp)
            z = np.empty((len(codes), p))
            for d, own in enumerate(scores):
                z[:, d] = own[codes[:, d]]
            cells = np.zeros((len(z), len(products)))
            missing = np.isnan(z)
            z[missing] = 0.0
            cells[:, : 3 * p] = np.hstack([~missing, z, z * z])
            if p < len(columns):
                np.put_along_axis(cells, 3 * p + self.start + codes[:, p:], 1.0, axis=1)
            weighted = cells * weight[part, None] if weighted_rows else cells
            few = cells.size * cells.shape[1] <= _FEW_PRODUCTS
            products += np.einsum("ni,nj->ij", weighted, cells) if few else weighted.T @ cells
        products[:, 3 * p + ends - 1] = products[3 * p + ends - 1] = 0.0  # missing values
        products *= self.weight / weight.sum()
        kinds = [slice(k * p, (k + 1) * p) for k in range(3)]
        present, value, square = kinds
        levels = slice(3 * p, None)
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
            of_table, of_row = self.by_level(x_log_x(self.tables)), self.by_level(self.tables, axes=(1,))
            of_margin = self.by_level(x_log_x(of_row), axes=(0,))
            gain[p:, p:] = of_table - of_margin - of_margin.T + x_log_x(self.by_level(self.tables))
            parameters[p:, p:] = self._table_parameters(free + 1.0)
            parameters[:p, p:], parameters[p:, :p] = free, free[:, None]
        if p and q:
            count, total = self.by_level(self.level_counts, (0,)), self.by_level(self.level_sums, (0,))
            squares = self.by_level(self.level_squares, (0,))
            explained = self.by_level(over(self.level_sums**2, self.level_counts), (0,))
            mixed = (
                0.5
                * count
                * np.log(
                    (squares - over(total**2, count) + 1.0) / (np.maximum(squares - explained, 0.0) + 1.0)
                )
            )
            gain[p:, :p], gain[:p, p:] = mixed, mixed.T
        return gain, parameters

    def _table_parameters(self, n_levels: Floats) -> Floats:
        """(q, q) parameters by which the tables of pairs of columns are priced, 1/2 log M nats each; where
        one of the columns has many levels, at most what its shares in the rows of every level of the other
        one cost above those in all rows.
        """
        out, half_log = np.outer(n_levels - 1.0, n_levels - 1.0), 0.5 * math.log(max(self.weight, 2.0))
        of_level = np.append(np.diag(self.tables), self.weight)
        for d in np.flatnonzero(n_levels >= _MANY_LEVELS).tolist():
            cost = log_complexity(int(n_levels[d]), of_level)
            more = np.maximum(np.add.reduceat(cost[:-1], self.start) - cost[-1], 0.0) / half_log
            out[d], out[:, d] = np.minimum(out[d], more), np.minimum(out[:, d], more)
        return np.asarray(out)

    def dependence(self) -> tuple[float, float]:
        """Nats of the dependence of all pairs of columns, whose mean is 0 where columns are independent, and
        its standard deviation in that case.

        The sum of half of (n - 1) r^2 - 1 over pairs of scores and levels, a level of a share p by 1 - p: of
        two categories, half of Pearson's chi-squared less its degrees of freedom. (n - 1) r^2 has the mean 1
        for any two columns in random order.
        """
        p, n, product, total, share, variance = self.p, *self._cells
        few = n.copy()
        few[p:] *= np.minimum(share, 1.0 - share)[p:]
        worth = np.ones_like(n)
        worth[p:] -= share[p:]
        counted = (
            (self._owner[:, None] < self._owner)
            & (few * few.T >= _EXPECTED * n)
            & (variance * variance.T > 0.0)
        )
        n, worth = n[counted], (worth * worth.T)[counted]
        r_squared = (product - total * share.T)[counted] ** 2 / (variance * variance.T)[counted]
        return 0.5 * float(worth @ ((n - 1.0) * r_squared - 1.0)), math.sqrt(0.5 * float(worth.sum()))

    def places(self) -> tuple[Floats, Floats]:
        """Mean and variance of every score and level."""
        n, _, total, _, variance = self._cells
        count = np.diag(n)
        return over(np.diag(total), count), over(np.diag(variance), count)

    def correlations(self) -> Floats:
        """Correlations of all pairs of scores and levels, 0 of two levels of one column."""
        _, product, total, share, variance = self._cells
        r = over(product - total * share.T, np.sqrt(variance * variance.T))
        r[self._owner[:, None] == self._owner] = 0.0
        return r

    @cached_property
    def _owner(self) -> NDArray[np.intp]:
        """The column of every score and level."""
        widths = np.diff(np.append(self.start, len(self.tables)))
        return np.concatenate([np.arange(self.p), np.repeat(self.p + np.arange(len(widths)), widths)])

    @cached_property
    def _cells(self) -> tuple[Floats, Floats, Floats, Floats, Floats]:
        """For every pair of scores and levels: the rows with both columns, the sum of products, the sum, mean
        and squares around the mean of the first.
        """
        p, widths = self.p, np.diff(np.append(self.start, len(self.tables)))

        def of_column(values: Floats) -> Floats:
            """Sums over the levels of a column, for each of them."""
            return np.repeat(self.by_level(values, (1,)), widths, axis=1) if len(widths) else values

        with_level = of_column(self.level_counts.T)
        n = np.block([[self.both, with_level], [with_level.T, of_column(of_column(self.tables).T)]])
        product = np.block([[self.products, self.level_sums.T], [self.level_sums, self.tables]])
        levels = [self.level_counts, of_column(self.tables)]
        total = np.block([[self.sums, of_column(self.level_sums.T)], levels])
        square = np.block([[self.squares, of_column(self.level_squares.T)], levels])
        share = over(total, n)
        variance = np.maximum(square - total * share, 0.0)
        variance[:p] = np.where(variance[:p] > 1e-6, variance[:p], 0.0)
        return n, product, total, share, variance

    def covariance_gain(self, numeric: NDArray[np.intp]) -> float:
        """What one covariance of numeric columns saves over their variances; 0 if pairs of columns contradict
        each other.
        """
        some = np.ix_(numeric, numeric)
        eigenvalues = np.linalg.eigvalsh(self._correlation[some] + np.eye(len(numeric)))
        gain = -0.5 * float(self.both[some].min() * np.log(eigenvalues).sum()) if eigenvalues[0] > 0 else 0.0
        return gain

    @cached_property
    def _correlation(self) -> Floats:
        """(p, p) correlations over the rows with both values, 0 on the diagonal; squares around the mean
        contain one row of variance 1.
        """
        variance = np.maximum(self.squares - over(self.sums**2, self.both), 0.0) + 1.0
        r = (self.products - over(self.sums * self.sums.T, self.both)) / np.sqrt(variance * variance.T)
        np.fill_diagonal(r, 0.0)
        return np.asarray(r)

    def by_level(self, values: Floats, axes: tuple[int, ...] = (0, 1)) -> Floats:
        """Sums over the levels of every categorical column."""
        for axis in axes:
            values = np.add.reduceat(values, self.start, axis=axis)
        return values


def over(x: Floats, n: Floats) -> Floats:
    """x / n, 0 where n is 0."""
    return np.divide(x, n, out=np.zeros_like(x), where=n > 0)


def x_log_x(x: Floats) -> Floats:
    """x log x, 0 at 0."""
    return x * np.log(np.where(x > 0.0, x, 1.0))
