"""Diagnostics of a fitted CRAFT: margins of rows, contributions of features, and warnings about the table."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from craftc._common.messages import quoted
from craftc._common.typing import Floats
from craftc._kernels import craft as craft_kernel
from craftc.craft.clusters import Clusters
from craftc.table import MixedTable

_SAMPLE = 2000  # rows by which near-duplicate columns are found
_ALIKE = 0.98  # share of the information of a column that another column repeats: near-duplicates
_FEW_VALUES = 64  # distinct values of a numeric column that may encode a category
MANY_CLUSTERS = 10  # from which on it is looked at how many are left at four times the price
_MOST_PAIRS = 10  # of near-duplicate columns that are named
_COLUMNS_AT_ONCE = 512  # whose correlations with all others are held
_LINKED = 0.5  # links between columns save so large a share of what the clusters save
_FRAGILE = 0.7  # share of the clusters that is left at four times the price


def contributions(
    clusters: Clusters, table: MixedTable
) -> tuple[NDArray[np.intp], NDArray[np.intp], Floats, Floats]:
    """Best and second best cluster of every row, and contributions of features (n, D) and cluster sizes (n,)
    to the margin, nats.
    """
    costs = clusters.row_costs(table)
    order = np.argsort(costs, axis=1, kind="stable")
    own, background, tables = order[:, 0], clusters.background, clusters.tables()
    p, grid = background.grid.p, background.grid
    parts = np.zeros((len(table), len(background.usable)))
    if costs.shape[1] == 1:
        return own, np.full(len(table), -1), parts, np.zeros(len(table))
    other = order[:, 1]
    for d in range(p):
        z = (table.numeric[:, d].astype(np.float64) - background.centre[d]) * background.scale[d]
        z = np.clip(z, -craft_kernel.FAR, craft_kernel.FAR)
        cost = [
            (tables.square[d, k] * z + tables.linear[d, k]) * z + tables.offset[d, k] for k in (own, other)
        ]
        parts[:, d] = np.where(np.isnan(z), 0.0, cost[1] - cost[0])
    held = clusters.covariances
    if held is not None:
        columns = held.cross.columns
        z = (table.numeric[:, columns].astype(np.float64) - held.centre) * held.scale
        z = np.clip(z, -craft_kernel.FAR, craft_kernel.FAR)
        for k in np.flatnonzero(held.block.any(axis=1)):
            for sign, rows in ((-1.0, np.flatnonzero(own == k)), (1.0, np.flatnonzero(other == k))):
                parts[np.ix_(rows, columns)] += sign * held.conditional_costs(z[rows], int(k))
    for d, start in enumerate(grid.level_start):
        at = start + table.codes[:, d].astype(np.intp)
        parts[:, p + d] = tables.level[at, other] - tables.level[at, own]
    return own, other, parts, tables.base[other] - tables.base[own]


def contribution_columns(
    clusters: Clusters, table: MixedTable, columns: list[Any], source: NDArray[np.intp]
) -> dict[Any, NDArray[Any]]:
    """The columns of ``CRAFT.explain``: contributions of the input columns, of which the encoded columns are
    parts.

    An input column with the name of one of the first three columns is listed as "NAME (feature)".
    """
    own, other, parts, sizes = contributions(clusters, table)
    per_column = np.zeros((len(columns), len(table)))
    for d, column in enumerate(source):
        per_column[column] += parts[:, d]
    first = {"cluster": own, "next": other, "size": sizes}
    return first | {
        f"{name} (feature)" if name in first else name: values
        for name, values in zip(columns, per_column, strict=True)
    }


def diagnose(table: MixedTable, model: Any, n_clusters_at_4: int | None) -> list[str]:
    """Warnings about a table that the model cannot describe well: near-duplicate columns, and dependence
    inside clusters.

    Separated clusters remain at four times the price; slices of a table with dependent columns do not. If a
    single cluster remains, the table has too few rows for that price, which shows nothing.
    """
    sample = table.take(np.arange(0, len(table), max(1, len(table) // _SAMPLE)))
    pairs = list(islice(_duplicates(sample), _MOST_PAIRS + 1))
    messages = [
        f"Columns {quoted(str(a))} and {quoted(str(b))} are near-duplicates and both count in full, which "
        "exaggerates clusters along them; "
        "drop one."
        for a, b in pairs[:_MOST_PAIRS]
    ]
    if len(pairs) > _MOST_PAIRS:
        messages.append(f"More than {_MOST_PAIRS} pairs of columns are near-duplicates.")
    n_clusters, price_factor = model.n_clusters_, model.price_factor_
    fragile = n_clusters_at_4 is not None and 1 < n_clusters_at_4 <= _FRAGILE * n_clusters
    if fragile and model.dependence_ratio_ > _LINKED:
        messages.append(
            f"CRAFT found {n_clusters} clusters, of which {n_clusters_at_4} would be left at "
            f"price_factor={4 * price_factor:g}. Columns "
            "seem to depend on each other inside clusters, and then the number of clusters is not a "
            "property of the data. Try "
            f"price_factor={2 * price_factor:g} to {4 * price_factor:g}, or cut(k) for fewer."
        )
    return messages


def _duplicates(sample: MixedTable) -> Iterator[tuple[str, str]]:
    """Pairs of columns that determine each other: numeric columns by correlation, others (and numeric ones of
    few values) by entropy.
    """
    names = sample.numeric_names
    if len(sample) < 10:
        return
    scaled = _scaled(_centred(sample.numeric))
    for first in range(0, len(names), _COLUMNS_AT_ONCE):
        correlation = scaled[:, first : first + _COLUMNS_AT_ONCE].T @ scaled[:, first:]
        for i, j in zip(*np.nonzero(np.triu(np.abs(correlation) > 0.9999, 1)), strict=True):
            yield names[first + i], names[first + j]
    columns = [
        (name, column.astype(np.intp))
        for name, column in zip(sample.categorical_names, sample.codes.T, strict=True)
    ]
    n_categorical = len(columns)
    if not n_categorical:
        return
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
    """The columns less their means; 0 for a missing cell."""
    present = ~np.isnan(X)
    count = np.maximum(present.sum(axis=0), 1)
    return np.where(present, X - np.where(present, X, 0.0).sum(axis=0) / count, 0.0).astype(
        np.float64, copy=False
    )


def _scaled(X: Floats) -> Floats:
    """Centred columns with sums of squares of 1, whose products are correlations; 0 for a constant one."""
    size = np.sqrt((X * X).sum(axis=0))
    return np.asarray(X / np.where(size > 0, size, 1.0))


def _entropy(counts: NDArray[np.intp]) -> float:
    share = counts[counts > 0] / counts.sum()
    return float(-(share * np.log(share)).sum())
