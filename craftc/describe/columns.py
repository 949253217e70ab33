"""The columns of a table as a report counts and draws them: one pass over the rows of each column gives all
its counts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from craftc._common.typing import Floats, Labels
from craftc.describe.words import clean, number
from craftc.table import MixedTable

FEW = 12  # distinct values up to which a column of numbers is shown value by value
SPIKE = 0.5  # share of the cells that a value at the end of a column needs to be shown apart from the others
BINS = 24  # of a histogram
_FINE = 64  # bands of equal size by which ranks are averaged; neighbours form the bands of `codes`
_BAND = 8
_MOST_LEVELS = 250  # the rarer levels of a column count as one


@dataclass
class Column:
    """Counts of one column by cluster.

    Parameters
    ----------
    name : str
    numeric : bool
    style : {"levels", "values", "bands", "curve"}
        How the column is drawn: bars of levels, of distinct numbers, or of a frequent value and bands of the
        others; or a histogram.
    labels : list of str
        Of the codes; a histogram has none.
    codes : ndarray (n,) of uint8
        Level, value or band of every row, one of eight bands for a histogram; `n_codes` where the cell is
        missing.
    counts : ndarray (K, n_codes + 1)
        Rows of every cluster by code.
    bins : ndarray (K, BINS), edges : ndarray (BINS + 1,)
        Rows of every cluster in the bins of a histogram, which cover 99 % of the table.
    mean, deviation, rank : ndarray (K + 1,)
        Mean, standard deviation and mean rank (0 to 1) of a column of numbers in every cluster and, last, in
        the table.
    place : int
        Position of the column in the numeric or the categorical block of the table.
    n_parameters : int
        What describing the column anew costs, in parameters.
    """

    name: str
    numeric: bool
    place: int
    style: str
    labels: list[str]
    codes: NDArray[np.uint8]
    n_parameters: int
    counts: NDArray[np.int64] = field(default_factory=lambda: np.empty((0, 0), np.int64))
    bins: NDArray[np.int64] = field(default_factory=lambda: np.empty((0, 0), np.int64))
    edges: Floats = field(default_factory=lambda: np.empty(0))
    mean: Floats = field(default_factory=lambda: np.empty(0))
    deviation: Floats = field(default_factory=lambda: np.empty(0))
    rank: Floats = field(default_factory=lambda: np.empty(0))
    least: float = math.nan
    most: float = math.nan
    whole: bool = False
    merged: bool = False  # whether the last label stands for several rare levels

    @property
    def n_codes(self) -> int:
        """Number of levels, values or bands."""
        return int(self.counts.shape[1]) - 1

    @property
    def spread(self) -> float:
        """The deviation of the table, which the digits of its numbers follow."""
        return float(self.deviation[-1])

    @cached_property
    def shares(self) -> Floats:
        """(K + 1, n_codes) shares of the cells present in every cluster and, last, in the table."""
        counts = np.vstack([self.counts, self.counts.sum(axis=0)])[:, :-1].astype(np.float64)
        return np.asarray(counts / np.maximum(counts.sum(axis=1, keepdims=True), 1.0))

    @cached_property
    def missing(self) -> Floats:
        """(K + 1,) shares of missing cells in every cluster and, last, in the table."""
        counts = np.vstack([self.counts, self.counts.sum(axis=0)])
        return np.asarray(counts[:, -1] / np.maximum(counts.sum(axis=1), 1))

    def cell(self, table: MixedTable, row: int) -> str:
        """One cell in words."""
        if self.numeric:
            x = float(table.numeric[row, self.place])
            return "missing" if math.isnan(x) else number(x, None if self.whole else self.spread)
        code = int(table.codes[row, self.place])
        levels = table.levels[self.place]
        return level_text(levels[code]) if code < len(levels) else "missing"


def level_text(level: Any) -> str:
    """A level as text; a whole number without decimals."""
    return clean(int(level) if isinstance(level, float) and level.is_integer() else level)


def read_columns(table: MixedTable, labels: Labels, n_clusters: int) -> list[Column]:
    """All columns in input order, counted by cluster."""
    schema, columns = table.schema, []
    numeric = {int(d): place for place, d in enumerate(schema.numeric_index)}
    categorical = {int(d): place for place, d in enumerate(schema.categorical_index)}
    for d, name in enumerate(schema.columns):
        if d in numeric:
            columns.append(
                _numbers(clean(name), numeric[d], table.numeric[:, numeric[d]], labels, n_clusters)
            )
        else:
            place = categorical[d]
            columns.append(
                _levels(clean(name), place, table.codes[:, place], schema.levels[place], labels, n_clusters)
            )
    return columns


def by_cluster(codes: NDArray[Any], labels: Labels, n_codes: int, n_clusters: int) -> NDArray[np.int64]:
    """(n_clusters, n_codes) number of rows."""
    cells = labels.astype(np.intp) * n_codes + codes
    return np.bincount(cells, minlength=n_clusters * n_codes).reshape(n_clusters, n_codes)


def _levels(
    name: str, place: int, codes: NDArray[Any], levels: tuple[Any, ...], labels: Labels, n_clusters: int
) -> Column:
    total = np.bincount(codes, minlength=len(levels) + 1)[: len(levels)]
    texts = [level_text(level) for level in levels]
    code_of = np.arange(len(levels) + 1)
    if merged := len(levels) > _MOST_LEVELS:
        kept = np.sort(np.argsort(-total, kind="stable")[: _MOST_LEVELS - 1])
        code_of[:-1] = _MOST_LEVELS - 1
        code_of[kept], code_of[-1] = np.arange(len(kept)), _MOST_LEVELS
        texts = [*(texts[t] for t in kept), f"{len(levels) - len(kept)} rare levels"]
    column = Column(
        name,
        False,
        place,
        "levels",
        texts,
        code_of.astype(np.uint8)[codes],
        max(1, int((total > 0).sum()) - 1),
        merged=merged,
    )
    column.counts = by_cluster(column.codes, labels, len(texts) + 1, n_clusters)
    return column


def _numbers(name: str, place: int, x: NDArray[Any], labels: Labels, n_clusters: int) -> Column:
    x = np.ascontiguousarray(x, dtype=np.float64)
    absent = np.isnan(x)
    seen = np.sort(x[~absent])
    new = np.flatnonzero(np.diff(seen, prepend=-np.inf))
    distinct, frequency = seen[new], np.diff(np.append(new, len(seen)))
    column = Column(name, True, place, "curve", [], np.empty(0, np.uint8), 2)
    column.whole = bool((distinct == np.round(distinct)).all())
    column.least, column.most = (float(seen[0]), float(seen[-1])) if len(seen) else (math.nan, math.nan)
    _moments(column, x, absent, labels, n_clusters)
    top = int(frequency.argmax()) if len(seen) else 0
    if len(distinct) <= FEW:
        column.style, column.labels = "values", [number(float(v)) for v in distinct]
        column.n_parameters = min(2, max(1, len(distinct) - 1))
        cuts = (distinct[1:] + distinct[:-1]) / 2
    elif frequency[top] >= SPIKE * len(seen) and top in (0, len(distinct) - 1):
        cuts = _bands(column, seen[seen != distinct[top]], float(distinct[top]), low=top == 0)
    else:
        cuts = np.unique(seen[np.linspace(0, len(seen) - 1, _FINE + 1).round().astype(np.intp)[1:-1]])
    codes = np.searchsorted(cuts, x, side="right")
    codes[absent] = len(cuts) + 1
    fine = by_cluster(codes, labels, len(cuts) + 2, n_clusters)
    column.rank = _mean_ranks(fine[:, :-1])
    if column.style == "curve":
        _histogram(column, x, absent, labels, n_clusters)
        # a band of `codes` holds about an eighth of the cells
        middle = np.cumsum(fine.sum(axis=0)[:-1]) - fine.sum(axis=0)[:-1] / 2
        band = np.unique(np.floor(_BAND * middle / max(len(seen), 1)), return_inverse=True)[1]
        band_of = np.append(band, band.max() + 1)
        codes = band_of[codes]
        fine = by_cluster(codes, labels, int(band_of[-1]) + 1, n_clusters)
    column.codes, column.counts = codes.astype(np.uint8), fine
    return column


def _moments(column: Column, x: Floats, absent: NDArray[np.bool_], labels: Labels, n_clusters: int) -> None:
    """Means and deviations around the table's mean, in which squares of large numbers do not cancel."""
    here, centre = labels[~absent], float(x[~absent].mean())
    z = x[~absent] - centre
    sums = np.array([np.bincount(here, weights, n_clusters) for weights in (np.ones_like(z), z, z * z)])
    n, first, second = np.column_stack([sums, sums.sum(axis=1)])
    with np.errstate(invalid="ignore", divide="ignore"):
        column.mean = centre + first / n
        column.deviation = np.sqrt(np.maximum(second / n - (first / n) ** 2, 0.0))


def _mean_ranks(counts: NDArray[np.int64]) -> Floats:
    """(K + 1,) mean rank of the cells of every cluster, 0 to 1: bands count as ties. NaN without a cell."""
    total = counts.sum(axis=0)
    middle = (np.cumsum(total) - total / 2) / max(total.sum(), 1)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.append(counts @ middle / counts.sum(axis=1), 0.5)


def _bands(column: Column, rest: Floats, spike: float, *, low: bool) -> Floats:
    """Labels of the frequent value at one end and of three bands of the others; returns what separates them."""
    cuts = np.unique(rest[[len(rest) // 3, 2 * len(rest) // 3]])
    cuts = cuts[cuts > rest[0]]
    ends = [*(float(rest[rest < c][-1]) for c in cuts), float(rest[-1])]
    starts = [float(rest[0]), *map(float, cuts)]
    names = [number(a) if a == b else f"{number(a)} – {number(b)}" for a, b in zip(starts, ends, strict=True)]
    column.style, column.labels = "bands", [number(spike), *names] if low else [*names, number(spike)]
    return np.array([np.nextafter(spike, np.inf), *cuts] if low else [*cuts, spike])


def _histogram(column: Column, x: Floats, absent: NDArray[np.bool_], labels: Labels, n_clusters: int) -> None:
    low, high = np.quantile(x[~absent], [0.005, 0.995])
    if column.whole and 4 <= high - low <= 60:
        step = max(1, math.ceil((high - low + 1) / BINS))
        column.edges = np.arange(math.floor(low), math.ceil(high) + step + 0.1, step) - 0.5
    else:
        if not high > low:
            low, high = column.least, column.most
        column.edges = np.linspace(low, high, BINS + 1)
    n_bins, first, last = len(column.edges) - 1, column.edges[0], column.edges[-1]
    with np.errstate(invalid="ignore"):
        place = np.clip((x - first) * (n_bins / (last - first)), 0, n_bins - 1)
    bins = np.where(absent, n_bins, place).astype(np.uint8)
    column.bins = by_cluster(bins, labels, n_bins + 1, n_clusters)[:, :-1]


class Pairs:
    """What pairs of columns have in common, counted when it is asked for."""

    def __init__(self, columns: list[Column]) -> None:
        self._columns = columns
        self._joint: dict[tuple[int, int], Floats] = {}

    def joint(self, a: int, b: int) -> Floats:
        """(n_codes of a, n_codes of b) shares of the rows that have both cells."""
        if a > b:
            return self.joint(b, a).T
        if (a, b) not in self._joint:
            one, two = self._columns[a], self._columns[b]
            counts = np.bincount(
                one.codes.astype(np.intp) * (two.n_codes + 1) + two.codes,
                minlength=(one.n_codes + 1) * (two.n_codes + 1),
            )
            inner = counts.reshape(one.n_codes + 1, two.n_codes + 1)[:-1, :-1]
            self._joint[a, b] = inner / max(int(inner.sum()), 1)
        return self._joint[a, b]

    def alike(self, a: int, b: int) -> float:
        """Mutual information of two columns as a share of the smaller entropy, 0 to 1."""
        joint = self.joint(a, b)
        one, two = _entropy(joint.sum(axis=1)), _entropy(joint.sum(axis=0))
        least = min(one, two)
        return min(1.0, max(0.0, (one + two - _entropy(joint)) / least)) if least > 1e-12 else 0.0


def _entropy(share: Floats) -> float:
    share = share[share > 0]
    return float(-(share * np.log(share)).sum())
