"""Tables of every kind of column: encoded as levels by the package, and as the reference takes them."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

from craftc import MixedTable
from craftc.craft.background import Background
from craftc.craft.clusters import Clusters
from craftc.craft.parameters import ModelSpec
from craftc.craft.rows.local import LocalRows
from craftc.craft.search import FitConfig
from craftc.craft.search.automatic import automatic_fit
from craftc.table.bins import tally
from craftc.table.declared import declared_periods
from craftc.table.levels import LevelEncoding
from craftc.table.moments import Moments, integer_grid
from tests.reference import automatic, levels, tilted

NO_WEIGHT = np.empty(0, np.int64)
POOLED = ModelSpec(selection="priced", price=None, pooled=True, covariance="diagonal")
KINDS = ("number", "category", "ordered", "periodic", "number", "number")


class Case:
    """A table with columns of these kinds, encoded, and the same as a problem of the reference.

    `columns`: floats, nan where a cell is missing; `periods`: of the periodic columns, by position.
    """

    def __init__(self, columns, kinds, periods=None, weight=None):
        self.kinds, self.periods = [str(kind) for kind in kinds], periods or {}
        self.X = np.stack([np.asarray(column, float) for column in columns], axis=1)
        self.declared = {
            j: ("periodic", self.periods[j]) if kind == "periodic" else kind
            for j, kind in enumerate(self.kinds)
        }
        self.table = MixedTable.from_data(self.X, kinds=self.declared)
        self.weight = NO_WEIGHT if weight is None else np.asarray(weight, np.int64)
        given = None if weight is None else self.weight
        self.encoding = LevelEncoding.of_tallies(
            self.table.schema,
            [tally(cells, given) for cells in self.table.numeric.T],
            declared_periods(self.declared, self.table.schema),
        )
        self.encoded = self.encoding.apply(self.table)
        self.grid = integer_grid(self.encoded, self.weight)
        self.background = Background(self.moments(np.zeros(len(self.X))).total(), self.encoding)

    def moments(self, labels):
        """Exact moments of a partition."""
        labels = np.ascontiguousarray(labels, np.int32)
        return Moments.of_partition(self.grid, 1.0, self.encoded, self.weight, labels, int(labels.max()) + 1)

    def clusters(self, labels):
        return Clusters(self.moments(labels), self.background, POOLED)

    def reference(self):
        """(codes, n_levels, scores) by `tests.reference.levels` alone."""
        weight, n = (self.weight if len(self.weight) else None), self.table.n_levels
        place = dict(zip(self.table.schema.categorical_index.tolist(), range(len(n)), strict=True))
        number = dict(
            zip(self.table.schema.numeric_index.tolist(), self.table.numeric.T.astype(float), strict=True)
        )
        made = [
            levels.column(
                number[j] if j in number else self.table.codes[:, place[j]],
                kind,
                weight=weight,
                n_levels=None if j in number else int(n[place[j]]),
                period=self.periods.get(j),
            )
            for j, kind in enumerate(self.kinds)
        ]
        codes, n_levels, scores = zip(*made, strict=True)
        return np.stack(codes, axis=1), list(n_levels), list(scores)

    def statistics(self, d):
        """(T, 3) statistics of a column, the third one that of an atom; None: shares."""
        start, stop = np.append(self.background.grid.level_start, self.background.grid.n_levels)[d : d + 2]
        tilts = self.background.tilts
        return tilts.statistics[:, start : stop - 1].T if tilts.tilted[d] else None

    def problem(self, *, rounded=True, price_factor=1.0):
        """The problem of the reference; `rounded`: with the statistics of the package, which are rounded."""
        codes, n_levels, scores = self.reference()
        if rounded:
            scores = [self.statistics(d) for d in range(len(n_levels))]
        weight = self.weight if len(self.weight) else None
        return tilted.problem(codes, n_levels, scores, weight=weight, price_factor=price_factor)

    def sums(self, t, labels):
        """Sums of the clusters of a partition for a problem of the reference."""
        labels = np.asarray(labels, int)
        return automatic.sums(t, t.rows, labels[t.rows], labels.max() + 1)

    def fit(self, n_clusters=None, *, price_factor=1.0, n_init=8, seed=0, given=None, n_threads=1):
        """The result of the whole search, without covariances."""
        spec = ModelSpec(
            selection="priced", price=None, pooled=True, covariance="diagonal", price_factor=price_factor
        )
        rows = LocalRows(self.encoded, self.weight)
        config = FitConfig(rows, self.weight, self.background, spec, 100, seed, n_threads)
        return automatic_fit(config, n_init, given, "auto", n_clusters)


def mixed_columns(seed, n=80, q=None, missing=0.1, K=3, apart=2.0):
    """(columns, kinds, periods) with clusters: skewed, rounded and spiked numbers, categories, ordered
    categories and periods.
    """
    rng = np.random.default_rng(seed)
    group, q = rng.integers(K, size=n), int(rng.integers(1, 7)) if q is None else q
    kinds, periods, columns = list(rng.permutation(KINDS)[:q]), {}, []
    for d, kind in enumerate(kinds):
        x = rng.normal(size=n) + apart * rng.normal(size=K)[group]
        if kind == "number":
            x = (x, x.round(), np.exp(1.5 * x), np.where(rng.random(n) < 0.3, 0.0, x))[rng.integers(4)]
        elif kind == "periodic":
            periods[d] = float(rng.choice([24.0, 1.0, 360.0]))
            x = x / 4.0 * periods[d]
            x = x.round() if rng.random() < 0.5 and periods[d] > 1.0 else x
        else:
            T = int(rng.integers(2, 7))
            x = np.clip(np.floor(x + T / 2.0), 0, T - 1)
        gone = rng.random(n) < missing
        gone[0] = False
        columns.append(np.where(gone, np.nan, x))
    return columns, kinds, periods


def random_labels(seed, n, K):
    return np.unique(np.random.default_rng(seed).integers(K, size=n), return_inverse=True)[1]


def mixed_case(seed, K=3, weighted=False, **shape):
    """A case of mixed columns and random labels."""
    columns, kinds, periods = mixed_columns(seed, **shape)
    n = len(columns[0])
    weight = np.random.default_rng([seed, 1]).integers(0, 4, n) if weighted else None
    case = Case(columns, kinds, periods, weight)
    labels = random_labels(seed, n, K)
    if weighted:  # no cluster of rows of weight 0 alone
        kept = np.unique(labels[case.weight > 0])
        labels = np.searchsorted(kept, labels) % len(kept)
    return SimpleNamespace(case=case, labels=labels, table=case.encoded)
