"""Rows that fit no cluster, and cells that are odd in the cluster of their row.

The *outlier score* of a row is what it costs in its cheapest cluster, its label included, less what it costs
without clusters, under the table's own distributions of the columns:

    s_n = min_k c_nk - sum_d l0_d(x_nd)      (nats).

A negative score says what the clusters save in the row; summed over the rows this is, but for prices and
priors, what they save in the table. With P = `outlier_price`, a row belongs to a cluster if it saves P nats
there: a likelihood ratio of e^P against no cluster. Other rows are outliers. Where the whole table is one
cluster, this is the table's own description: rows save nothing by definition, and none is an outlier.

The *surprisal* of a cell is minus the log probability of its level in the cluster of its row, less the mean
of this over the cluster's own distribution p, its entropy H:

    u_nd = - log p(x_nd) - H(p)

so that it is 0 on average, whatever the number of levels. A column that the cluster holds in a covariance is
described by the normal density of its score given the row's other scores in this covariance: with r the
deviation from its mean, in standard deviations, u = (r^2 - 1) / 2.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from craftc._common.labels import chunks
from craftc._common.typing import Floats, Labels
from craftc._kernels.craft import FAR
from craftc.craft.clusters import Clusters, distributions_of
from craftc.craft.covariance import ClusterCovariances
from craftc.craft.rows.scores import row_scores
from craftc.table import MixedTable

OUTLIER = -1  # label of a row that fits no cluster
_ROUNDING = 1e-6  # nats: a row that costs the same in its cluster as without is no outlier


def outlier_scores_of(clusters: Clusters, table: MixedTable) -> NDArray[np.float32]:
    """(n,) outlier scores of encoded rows, nats."""
    found = [scores.outlier_scores for _, scores in row_scores(clusters, table)]
    return np.concatenate(found or [np.empty(0)]).astype(np.float32)


def is_whole_table(clusters: Clusters) -> bool:
    """Whether the only cluster describes rows as the table's own distributions do."""
    held = clusters.covariances
    return len(clusters.mask) == 1 and not clusters.mask.any() and (held is None or not held.block.any())


def marked(labels: Labels, scores: NDArray[np.float32], price: float, clusters: Clusters) -> Labels:
    """The labels, those of outliers replaced; without clusters there are none."""
    if is_whole_table(clusters):
        return labels
    most = float(np.finfo(np.float32).max)
    allowed = np.float32(np.clip(_ROUNDING - price, -most, most))
    return np.where(scores > allowed, np.int32(OUTLIER), labels)


def surprisals(clusters: Clusters, table: MixedTable, source: NDArray[np.intp], n_columns: int) -> Floats:
    """(n, n_columns) surprisals of encoded rows in their cheapest clusters, nats; NaN for missing cells and
    levels without a row in the fit. `source`: the input column of every encoded column.
    """
    grid, probability = clusters.moments.grid, distributions_of(clusters)[2]
    with np.errstate(divide="ignore", invalid="ignore"):
        cost = np.where(probability > 0, 0.0 - np.log(probability), np.nan)
        terms = np.where(probability > 0, probability * cost, 0.0)
    usual = np.add.reduceat(terms, grid.level_start, axis=1) if grid.q else np.empty((len(cost), 0))
    cost -= np.repeat(usual, clusters.background.level_widths, axis=1)
    out, labels = np.full((len(table), n_columns), np.nan), clusters.cheapest(table, 1)
    for rows in chunks(len(table)):
        for d, start in enumerate(grid.level_start):
            level = start + table.codes[rows, d].astype(np.intp)
            out[rows, source[grid.p + d]] = cost[labels[rows], level]
    held = clusters.covariances
    for k in np.flatnonzero([] if held is None else held.block.any(axis=1)).tolist():
        assert held is not None
        of_k, block = np.flatnonzero(labels == k), held.block[k] > 0
        z = table.numeric[of_k][:, held.cross.columns[block]].astype(np.float64) - held.centre[block]
        z = np.clip(z * held.scale[block], -FAR, FAR)
        out[np.ix_(of_k, source[held.cross.columns[block]])] = _given_others(held, k, block, z)
    return out


def _given_others(held: ClusterCovariances, k: int, block: NDArray[np.bool_], z: Floats) -> Floats:
    """(n, m) surprisals of scores in the covariance of cluster k, each given the others of its row."""
    out, missing = np.full(z.shape, np.nan), np.isnan(z)
    patterns, of = np.unique(missing, axis=0, return_inverse=True)
    columns = np.flatnonzero(block)
    for at, pattern in enumerate(patterns):
        seen, rows = columns[~pattern], np.flatnonzero(of.reshape(-1) == at)
        if len(seen):
            precision = np.linalg.inv(held.matrix[k][np.ix_(seen, seen)])
            white = (z[np.ix_(rows, ~pattern)] - held.mean[k, seen]) @ precision
            out[np.ix_(rows, ~pattern)] = 0.5 * (white * white / np.diag(precision) - 1.0)
    return out
