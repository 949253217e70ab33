"""The columns of a table as a report counts and draws them, in one pass over the rows of each column."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from craftc._common.typing import Array, Bits, Floats, Integers, Labels
from craftc.describe.columns import AnswersColumn, CategoricalColumn, Column, NumericColumn, PeriodicColumn
from craftc.describe.statistics import bin_edges, by_cluster
from craftc.describe.view import ClusterView
from craftc.describe.words import CELL, distinct, number
from craftc.table import MixedTable
from craftc.table.answers import YES
from craftc.table.personal import is_personal

FEW = 12  # distinct values up to which a column of numbers is shown value by value
SPIKE = 0.5  # share of the cells that a value at the end of a column needs to be shown apart from the others
_FINE, _BANDS = 64, 8  # small bands of equal size, and bands of them by which a histogram is coded
_MOST_LEVELS = 250  # the rarer levels of a column count as one


@dataclass
class DrawnColumn:
    """One column counted by cluster, in the order of the page."""

    name: str
    short: str
    statistics: Column
    place: int  # in the numeric or the categorical block of the table
    style: str = "levels"  # | "values", both bars | "bands" and a frequent value | "curve", a histogram
    labels: list[str] = field(default_factory=list)  # of the codes; a histogram has none
    # (n,) level, value or band of every row, n_codes where the cell is missing
    codes: NDArray[np.uint8] = field(default_factory=lambda: np.empty(0, np.uint8))
    counts: Integers = field(default_factory=lambda: np.empty((0, 0), np.int64))  # (K, n_codes + 1) rows
    bins: Integers = field(default_factory=lambda: np.empty((0, 0), np.int64))  # (K, BINS) of a histogram
    edges: Floats = field(default_factory=lambda: np.empty(0))  # (BINS + 1,), which hold 99 % of the table
    least: float = math.nan
    most: float = math.nan
    whole: bool = False  # whether all numbers are whole

    @property
    def numeric(self) -> bool:
        return isinstance(self.statistics, NumericColumn)

    @cached_property
    def personal(self) -> bool:
        """Whether single cells are not shown, because they may identify persons."""
        of = self.statistics
        return is_personal(self.name, of.texts if isinstance(of, CategoricalColumn) else ())

    @property
    def n_codes(self) -> int:
        """Number of levels, values or bands."""
        return int(self.counts.shape[1]) - 1

    @cached_property
    def short_labels(self) -> list[str]:
        return distinct(self.labels, CELL)

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

    def text(self, x: float) -> str:
        return self.statistics.text(x) if isinstance(self.statistics, NumericColumn) else number(x)

    def cell(self, table: MixedTable, row: int) -> str:
        if isinstance(self.statistics, NumericColumn):
            x = float(table.numeric[row, self.place])
            return "missing" if math.isnan(x) else self.text(x)
        code = int(table.codes[row, self.place])
        texts = self.statistics.texts
        return texts[code] if code < len(texts) else "missing"


@dataclass
class DrawnAnswers(DrawnColumn):
    """The answers of a column of several, each a column of the table."""

    parts: list[DrawnColumn] = field(default_factory=list)

    @cached_property
    def shares(self) -> Floats:
        """(K + 1, n) shares of the rows with each answer."""
        places = [part.labels.index(YES) for part in self.parts]
        return np.column_stack([part.shares[:, t] for part, t in zip(self.parts, places, strict=True)])

    @cached_property
    def missing(self) -> Floats:
        return self.parts[0].missing

    def cell(self, table: MixedTable, row: int) -> str:
        """The answers of a row."""
        cells = [part.cell(table, row) for part in self.parts]
        if "missing" in cells:
            return "missing"
        given = (label for label, cell in zip(self.labels, cells, strict=True) if cell == YES)
        return ", ".join(given) or "none"


def grouped(inputs: list[DrawnColumn], view: ClusterView) -> list[DrawnColumn]:
    """The columns of a grouped view from those of the table."""
    columns: list[DrawnColumn] = []
    for d, at in enumerate(view.members):
        parts, of = [inputs[j] for j in at], view.statistics[d]
        if isinstance(of, AnswersColumn):
            columns.append(DrawnAnswers(view.columns[d], view.short[d], of, -1, labels=of.texts, parts=parts))
        else:
            columns.append(parts[0])
    return columns


def with_rows(view: ClusterView, table: MixedTable, labels: Labels) -> ClusterView:
    """The view with quartiles and single values of numbers from the rows; a model knows them encoded only."""
    groups = [*(np.flatnonzero(labels == k) for k in range(len(view.sizes))), slice(None)]
    statistics: list[Column] = []
    cells = iter(table.numeric.T)
    for column in view.statistics:
        if isinstance(column, NumericColumn):
            x = next(cells).astype(np.float64)
            if isinstance(column, PeriodicColumn):  # whose quartiles lie around its mean direction
                statistics.append(column)
                continue
            quartiles, value = np.full(column.quartiles.shape, np.nan), np.full(len(groups), np.nan)
            for g, rows in enumerate(groups):
                seen = x[rows][~np.isnan(x[rows])]
                if len(seen):
                    quartiles[g] = np.quantile(seen, (0.25, 0.5, 0.75))
                    value[g] = seen[0] if seen.min() == seen.max() else np.nan
            column = replace(column, quartiles=quartiles, value=value)
        statistics.append(column)
    return replace(view, statistics=statistics)


def read_columns(view: ClusterView, table: MixedTable, labels: Labels) -> list[DrawnColumn]:
    """All columns of a view in input order, counted by cluster."""
    schema, columns, K = table.schema, [], len(view.sizes)
    blocks = (schema.numeric_index, schema.categorical_index)
    place_of = {d: place for index in blocks for place, d in enumerate(index.tolist())}
    for d, column in enumerate(view.statistics):
        numeric = isinstance(column, NumericColumn)
        block, read = (table.numeric, _numbers) if numeric else (table.codes, _levels)
        drawn = DrawnColumn(view.columns[d], view.short[d], column, place_of[d])
        read(drawn, block[:, place_of[d]], labels, K)
        columns.append(drawn)
    return columns


def _levels(column: DrawnColumn, codes: Array, labels: Labels, n_clusters: int) -> None:
    texts = column.statistics.texts if isinstance(column.statistics, CategoricalColumn) else []
    n = len(texts)
    code_of = np.arange(n + 1)
    if n > _MOST_LEVELS:
        total = np.bincount(codes, minlength=n + 1)[:n]
        kept = np.sort(np.argsort(-total, kind="stable")[: _MOST_LEVELS - 1])
        code_of[:-1] = _MOST_LEVELS - 1
        code_of[kept], code_of[-1] = np.arange(len(kept)), _MOST_LEVELS
        texts = [*(texts[t] for t in kept), f"{n - len(kept)} rare levels"]
    column.labels, column.codes = texts, code_of.astype(np.uint8)[codes]
    column.counts = by_cluster(column.codes, labels, len(texts) + 1, n_clusters)


def _numbers(column: DrawnColumn, x: Array, labels: Labels, n_clusters: int) -> None:
    x = np.ascontiguousarray(x, dtype=np.float64)
    absent = np.isnan(x)
    seen = np.sort(x[~absent])
    new = np.flatnonzero(np.diff(seen, prepend=-np.inf))
    values, frequency = seen[new], np.diff(np.append(new, len(seen)))
    column.style = "curve"
    column.whole = bool((values == np.round(values)).all())
    column.least, column.most = (float(seen[0]), float(seen[-1])) if len(seen) else (math.nan, math.nan)
    top = int(frequency.argmax()) if len(seen) else 0
    if len(values) <= FEW:
        column.style, column.labels = "values", [column.text(float(v)) for v in values]
        cuts = (values[1:] + values[:-1]) / 2
    elif frequency[top] >= SPIKE * len(seen) and top in (0, len(values) - 1):
        cuts = _bands(column, seen[seen != values[top]], float(values[top]), low=top == 0)
    else:
        cuts = np.unique(seen[np.linspace(0, len(seen) - 1, _FINE + 1).round().astype(np.intp)[1:-1]])
    codes = np.searchsorted(cuts, x, side="right")
    codes[absent] = len(cuts) + 1
    fine = by_cluster(codes, labels, len(cuts) + 2, n_clusters)
    if column.style == "curve":
        _histogram(column, x, absent, labels, n_clusters)
        # a band of `codes` holds about an eighth of the cells
        middle = np.cumsum(fine.sum(axis=0)[:-1]) - fine.sum(axis=0)[:-1] / 2
        band = np.unique(np.floor(_BANDS * middle / max(len(seen), 1)), return_inverse=True)[1]
        band_of = np.append(band, band.max() + 1)
        codes = band_of[codes]
        fine = by_cluster(codes, labels, int(band_of[-1]) + 1, n_clusters)
    column.codes, column.counts = codes.astype(np.uint8), fine


def _bands(column: DrawnColumn, rest: Floats, spike: float, *, low: bool) -> Floats:
    """Label the frequent value at one end and three bands of the others; returns the limits between them."""
    cuts = np.unique(rest[[len(rest) // 3, 2 * len(rest) // 3]])
    cuts = cuts[cuts > rest[0]]
    ends = [*(float(rest[rest < c][-1]) for c in cuts), float(rest[-1])]
    starts = [float(rest[0]), *map(float, cuts)]
    text = column.text
    names = [text(a) if a == b else f"{text(a)} – {text(b)}" for a, b in zip(starts, ends, strict=True)]
    column.style, column.labels = "bands", [text(spike), *names] if low else [*names, text(spike)]
    return np.array([np.nextafter(spike, np.inf), *cuts] if low else [*cuts, spike])


def _histogram(column: DrawnColumn, x: Floats, absent: Bits, labels: Labels, n_clusters: int) -> None:
    column.edges = bin_edges(x[~absent])
    n_bins, first, last = len(column.edges) - 1, column.edges[0], column.edges[-1]
    with np.errstate(invalid="ignore"):
        place = np.clip((x - first) * (n_bins / (last - first)), 0, n_bins - 1)
    bins = np.where(absent, n_bins, place).astype(np.uint8)
    column.bins = by_cluster(bins, labels, n_bins + 1, n_clusters)[:, :-1]


class Pairs:
    """What pairs of columns have in common, counted when it is asked for."""

    def __init__(self, columns: list[DrawnColumn]) -> None:
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
