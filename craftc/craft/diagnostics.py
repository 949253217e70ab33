"""What a fitted CRAFT says about rows: margins, contributions of features, and what looks suspicious."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from craftc._common.threads import aligned
from craftc._common.typing import Floats
from craftc._kernels import craft as _kernel
from craftc.craft.clusters import Clusters
from craftc.table import MixedTable

_CHUNK = 2048  # rows with a temporary per cluster
_SAMPLE = 2000  # rows looked at for suspicions
_ALIKE = 0.98  # share of a column's information that another one repeats: duplicates
_FEW_VALUES = 64  # distinct values of a number that may be a category's code
_MANY_CLUSTERS = 10
_FRAGILE = 0.7


def relative_costs(clusters: Clusters, table: MixedTable) -> Floats:
    """(n, K) costs of rows under clusters, less the row's background."""
    tables = clusters.tables()
    out = np.empty((len(table), len(clusters.mask)))
    scratch = aligned((1, _kernel.scratch_size(tables)))
    _kernel.costs(table.numeric, table.codes, tables, scratch, out)
    return out


def margins(clusters: Clusters, table: MixedTable, dtype: type = np.float64) -> NDArray[Any]:
    """(n,) nats by which every row prefers its cheapest cluster to the next; inf with one cluster."""
    out: NDArray[Any] = np.full(len(table), np.inf, dtype)
    if len(clusters.mask) > 1:
        for rows, costs in _in_chunks(clusters, table):
            two = np.partition(costs, 1, axis=1)[:, :2]
            out[rows] = np.minimum(two[:, 1] - two[:, 0], np.finfo(dtype).max)
    return out


def mean_margins(margin: NDArray[Any], labels: NDArray[np.int32], weight: Floats | None, n_clusters: int) -> Floats:
    """(K,) weighted mean margin of the rows of every cluster."""
    if n_clusters == 1:
        return np.array([np.inf])
    total, size = np.zeros((2, n_clusters))
    for first in range(0, len(labels), _CHUNK):
        rows = slice(first, first + _CHUNK)
        of_rows = np.ones(len(labels[rows])) if weight is None else weight[rows]
        total += np.bincount(labels[rows], margin[rows] * of_rows, n_clusters)
        size += np.bincount(labels[rows], of_rows, n_clusters)
    return total / size


def distinct_rows(table: MixedTable, enough: int) -> int:
    """Number of distinct rows; counting stops once there are enough."""
    seen: set[bytes] = set()
    for first in range(0, len(table), _CHUNK):
        for x, code in zip(table.numeric[first : first + _CHUNK], table.codes[first : first + _CHUNK], strict=True):
            seen.add(x.tobytes() + code.tobytes())
            if len(seen) >= enough:
                return len(seen)
    return len(seen)


def _in_chunks(clusters: Clusters, table: MixedTable) -> Iterator[tuple[slice, Floats]]:
    for first in range(0, len(table), _CHUNK):
        rows = slice(first, min(first + _CHUNK, len(table)))
        yield rows, relative_costs(clusters, table.take(rows))


def contributions(clusters: Clusters, table: MixedTable) -> tuple[NDArray[np.intp], NDArray[np.intp], Floats, Floats]:
    """Own and next cluster of every row, and what each feature (n, D) and the sizes (n,) say for the own one, nats."""
    costs = relative_costs(clusters, table)
    order = np.argsort(costs, axis=1, kind="stable")
    own, background, tables = order[:, 0], clusters.background, clusters.tables()
    p, grid = background.grid.p, background.grid
    parts = np.zeros((len(table), len(background.usable)))
    if costs.shape[1] == 1:
        return own, np.full(len(table), -1), parts, np.zeros(len(table))
    other = order[:, 1]
    for d in range(p):
        z = (table.numeric[:, d].astype(np.float64) - background.centre[d]) * background.scale[d]
        z = np.clip(z, -_kernel.FAR, _kernel.FAR)
        cost = [(tables.square[d, k] * z + tables.linear[d, k]) * z + tables.offset[d, k] for k in (own, other)]
        parts[:, d] = np.where(np.isnan(z), 0.0, cost[1] - cost[0])
    for d, start in enumerate(grid.level_start):
        at = start + table.codes[:, d].astype(np.intp)
        parts[:, p + d] = tables.level[at, other] - tables.level[at, own]
    return own, other, parts, tables.base[other] - tables.base[own]


def suspicions(table: MixedTable, n_clusters: int, at_4: int | None) -> list[str]:
    """Sentences about a table that the model cannot describe well: columns told twice, and dependence inside clusters.

    Clusters that are there stand a price four times as high; slices of a table whose columns depend on each other do not. Where a
    single one is left, the rows are too few for that price and nothing is said.
    """
    sample = table.take(np.arange(0, len(table), max(1, len(table) // _SAMPLE)))
    found = []
    for a, b in _duplicates(sample):
        found.append(
            f"Columns {a!r} and {b!r} say (nearly) the same; each counts in full, so clusters along them look twice as clear. "
            "Leave one out."
        )
    if n_clusters >= _MANY_CLUSTERS and at_4 is not None and 1 < at_4 <= _FRAGILE * n_clusters:
        found.append(
            f"CRAFT found {n_clusters} clusters, of which {at_4} would be left at price_factor=4: columns seem to depend on each other "
            "inside clusters, and then their number grows with the rows. Try price_factor=2 to 4, or cut(k) for fewer."
        )
    return found


def _duplicates(sample: MixedTable) -> Iterator[tuple[str, str]]:
    """Pairs of columns of which each tells the other: numbers in step, or values one to one (numbers of few values included)."""
    names = sample.numeric_names
    if len(sample) < 10:
        return
    correlation = _correlation(np.nan_to_num(_centred(sample.numeric)))
    for i, j in zip(*np.nonzero(np.triu(np.abs(correlation) > 0.9999, 1)), strict=True):
        yield names[i], names[j]
    columns = [(name, column.astype(np.intp)) for name, column in zip(sample.categorical_names, sample.codes.T, strict=True)]
    n_categorical = len(columns)
    for name, numbers in zip(names, sample.numeric.T, strict=True):
        values, codes = np.unique(numbers, return_inverse=True)
        if len(values) <= _FEW_VALUES:
            columns.append((name, codes))
    entropies = [_entropy(np.bincount(codes)) for _, codes in columns]
    for i in range(n_categorical):
        for j in range(i + 1, len(columns)):
            least, most = sorted((entropies[i], entropies[j]))
            if least > 0.1 and least > _ALIKE * most:
                joint = _entropy(np.bincount(columns[i][1] * (columns[j][1].max() + 1) + columns[j][1]))
                if least + most - joint > _ALIKE * most:
                    yield columns[i][0], columns[j][0]


def _centred(X: NDArray[np.float64]) -> Floats:
    seen = ~np.isnan(X)
    count = np.maximum(seen.sum(axis=0), 1)
    return np.asarray(X - np.where(seen, X, 0.0).sum(axis=0) / count, dtype=np.float64)


def _correlation(X: Floats) -> Floats:
    """(D, D) correlations of centred columns; 0 for a constant one."""
    size = np.sqrt((X * X).sum(axis=0))
    unit = X / np.where(size > 0, size, 1.0)
    return np.asarray(unit.T @ unit)


def _entropy(counts: NDArray[np.intp]) -> float:
    share = counts[counts > 0] / counts.sum()
    return float(-(share * np.log(share)).sum())
