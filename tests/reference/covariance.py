"""Covariances inside the clusters of CRAFT: the reference implementation of their choice, prices and costs.

A cluster may hold one normal distribution N(mu, Sigma) of the normal scores of some of its numbers (a block)
in place of their tilts. With the shares b of the levels of a column, a level stands for the interval of a
standard normal variable between its cumulative shares; u is the mean inside the interval, v the variance. In
units of the table, z = (u - mean) / sd with sd^2 = the variance of u over the table + the mean of v, and v is
divided by sd^2, so that the table is N(0, I). The cost of a cell is the mean over its interval. The block
costs, over the rows of the cluster and relative to the table,

    sum_n w_n E[ 1/2 log det Sigma + 1/2 (x - mu)' Sigma^-1 (x - mu) - 1/2 |x|^2 ]
        + 1/2 [ tr Sigma^-1 - m + log det Sigma ]  +  m (m - 1) / 2 h

with E over x of mean z_n and covariance diag(v_n). The second term is the one row of prior, the last one the
price of the covariances beyond the 2 m parameters of the columns. Columns in blocks are selected, but belong
to no pool. Everything is computed from the rows, with one determinant for every question.
"""

from __future__ import annotations

from math import log
from types import SimpleNamespace

import numpy as np
from scipy.stats import norm, truncnorm

from tests.reference import automatic, levels, pooled

FEWEST_LEVELS = 11
WORTH, TIE = 1e-6, 1e-9
BINS, POINTS = 500, 200


def intervals(b):
    """Mean and variance (T,) of a standard normal variable in each of the intervals with these shares of it,
    in order.
    """
    below, above = np.cumsum(b)[:-1], np.cumsum(b[::-1])[::-1][1:]
    ends = np.concatenate([[-np.inf], np.where(below < 0.5, norm.ppf(below), norm.isf(above)), [np.inf]])
    return levels.normal_means(b), truncnorm.var(ends[:-1], ends[1:])


def with_scores(t, codes, n_levels, numbers):
    """The problem of `tests.reference.tilted` with ``z`` and ``v`` (n, D), NaN where a column has no scores:
    only complete ones of ``numbers`` (columns of the table) with 11 levels or more have.

    Means of intervals are rounded to single precision, in which tables hold them.
    """
    t.z, t.v = np.full((2, len(codes), t.D), np.nan)
    for place, d in enumerate(t.columns):
        if d not in numbers or n_levels[d] < FEWEST_LEVELS or (codes[t.rows, d] == n_levels[d]).any():
            continue
        u, v = intervals(levels.shares(codes[:, d], n_levels[d], t.weight))
        u = u.astype(np.float32).astype(float)
        w, cells = t.weight[t.rows], codes[t.rows, d]
        mean = w @ u[cells] / t.N
        square = (w @ (u[cells] - mean) ** 2 + w @ v[cells]) / t.N
        at = np.minimum(codes[:, d], n_levels[d] - 1)  # a missing cell is of weight 0
        t.z[:, place], t.v[:, place] = (u[at] - mean) / np.sqrt(square), v[at] / square
    return t


def block_columns(t):
    """Columns with scores."""
    return np.flatnonzero(~np.isnan(t.z[t.rows]).any(axis=0))


def fitted(t, rows, columns):
    """Mean and smoothed covariance of some columns, and the weight of the rows."""
    w, z, v = t.weight[rows], t.z[np.ix_(rows, columns)], t.v[np.ix_(rows, columns)]
    S = w.sum()
    mean = w @ z / S
    outer = (z - mean).T @ (w[:, None] * (z - mean)) + np.diag(w @ v)
    return mean, (outer + np.eye(len(columns))) / (S + 1.0), S


def block_cost(t, rows, columns):
    """What the cells of a block cost, less their cost under N(0, I), prior and price of the correlations
    included.
    """
    mean, sigma, _ = fitted(t, rows, columns)
    m, w = len(columns), t.weight[rows]
    own = w @ [row_cost(z, v, mean, sigma) for z, v in zip(*cells_of(t, rows, columns), strict=True)]
    prior = 0.5 * (np.trace(np.linalg.inv(sigma)) - m + np.linalg.slogdet(sigma)[1])
    return own + prior + 0.5 * m * (m - 1) * automatic.unit_price(t.N, t.price_factor)


def cells_of(t, rows, columns):
    return t.z[np.ix_(rows, columns)], t.v[np.ix_(rows, columns)]


def row_cost(z, v, mean, sigma):
    """Cost of one row under N(mean, sigma), less its cost under N(0, I); NaN: missing.

    A row with missing cells costs the marginal of the others.
    """
    seen = ~np.isnan(z)
    if not seen.any():
        return 0.0
    sigma, rest = sigma[np.ix_(seen, seen)], (z - mean)[seen]
    inverse = np.linalg.inv(sigma)
    inside = 0.5 * (np.diag(inverse) - 1.0) @ v[seen]
    return 0.5 * (np.linalg.slogdet(sigma)[1] + rest @ inverse @ rest - z[seen] @ z[seen]) + inside


# ----------------------------------------------------------------------------------------
# The choice of blocks
# ----------------------------------------------------------------------------------------


def cluster_cost(t, own, mask, block):
    """The description length of one cluster with a mask and a block, less the cost of its cells under the
    pools.
    """
    mask = mask.copy()
    mask[block] = True
    rest = mask.copy()
    rest[block] = False
    h = automatic.unit_price(t.N, t.price_factor)
    cost = h + pooled.naming(t)[mask.sum()] - own.S * log(own.S / t.N) + h * t.parameters[mask].sum()
    cost -= (own.gain - own.shared)[rest].sum()
    return cost + (own.shared[block].sum() + block_cost(t, own.rows, block) if len(block) > 1 else 0.0)


def choose_block(t, own, mask, full=False):
    """The block of one cluster: from the selected columns and from all, columns leave while the description
    gets shorter.
    """
    none, columns = np.array([], int), block_columns(t)
    if full:
        return columns if len(columns) > 1 else none
    best, at = cluster_cost(t, own, mask, none) - WORTH, none
    for block in (columns[mask[columns]], columns):
        while len(block) > 1:
            cost = cluster_cost(t, own, mask, block)
            smaller = [np.delete(block, i) for i in range(len(block))]
            others = np.array([single_or_block_cost(t, own, mask, one) for one in smaller])
            i = int(np.argmax(others <= others.min() + TIE))
            if not others[i] < cost - TIE:
                if cost < best:
                    best, at = cost, block
                break
            block = smaller[i]
    return at


def single_or_block_cost(t, own, mask, block):
    """The cost with a block, which may be one normal density, so that two columns are compared with it."""
    if len(block) > 1:
        return cluster_cost(t, own, mask, block)
    single = mask.copy()
    single[block] = True
    cost = cluster_cost(t, own, single, block[:0]) + own.gain[block].sum()
    return cost + block_cost(t, own.rows, block)


def sums_under_pools(t, stats, mask):
    """(K, D) gains over the table and log-likelihoods under the pools, over the table: 0 where all clusters
    select a column.
    """
    gain, shared = np.zeros((2, len(stats), t.D))
    for d in range(t.D):
        sums = pooled.column_sums(t, stats, d)
        gain[:, d] = t.forms[d].gains(sums)
        theta = pooled.fit(t, d, sums[~mask[:, d]].sum(axis=0))
        shared[:, d] = pooled.log_likelihood(t, d, sums, theta)
    return gain, shared


def state(t, labels, full=False):
    """A partition whose clusters hold the covariances that shorten their description.

    Blocks are chosen against the pools of the best masks without blocks; then their columns leave the pools.
    ``labels`` are those of the rows of positive weight.
    """
    now = SimpleNamespace(labels=np.asarray(labels), K=int(np.max(labels)) + 1)
    now.stats = stats = automatic.sums(t, t.rows, labels, now.K)
    mask = pooled.best_masks(t, stats)[1]
    gain, shared = sums_under_pools(t, stats, mask)
    now.block = []
    for k in range(now.K):
        own = SimpleNamespace(rows=t.rows[now.labels == k], S=stats[k, 0], gain=gain[k], shared=shared[k])
        now.block.append(choose_block(t, own, mask[k], full))
    now.mask = mask.copy()
    for k, block in enumerate(now.block):
        now.mask[k, block] = True
    gain, shared = sums_under_pools(t, stats, now.mask)
    now.J, now.cost = pooled.objective(t, stats, now.mask), np.empty(now.K)
    for k, block in enumerate(now.block):
        own = SimpleNamespace(rows=t.rows[now.labels == k], S=stats[k, 0], gain=gain[k], shared=shared[k])
        now.cost[k] = cluster_cost(t, own, now.mask[k], block)
        if len(block):
            now.J += gain[k, block].sum() + block_cost(t, own.rows, block)
    return now


def row_costs(t, now, seen=None):
    """(n, K) costs of rows, relative to the pools; with missing cells, where ``seen`` (n, D) is False."""
    n = len(t.rows)
    seen = np.ones((n, t.D), bool) if seen is None else seen
    cost = np.tile(-np.log(now.stats[:, 0] / t.N), (n, 1))
    for d in range(t.D):
        sums = pooled.column_sums(t, now.stats, d)
        shared = pooled.cell_costs(t, d, t.rows, pooled.fit(t, d, sums[~now.mask[:, d]].sum(axis=0)))
        for k in np.flatnonzero(now.mask[:, d]):
            own = np.zeros(n)  # a block is added below
            if d not in now.block[k]:
                own = pooled.cell_costs(t, d, t.rows, pooled.fit(t, d, sums[k]))
            cost[:, k] += np.where(seen[:, d], own - shared, 0.0)
    for k, block in enumerate(now.block):
        if len(block):
            mean, sigma, _ = fitted(t, t.rows[now.labels == k], block)
            z, v = cells_of(t, t.rows, block)
            z = np.where(seen[:, block], z, np.nan)
            cost[:, k] += [row_cost(a, b, mean, sigma) for a, b in zip(z, v, strict=True)]
    return cost


# ----------------------------------------------------------------------------------------
# Valleys
# ----------------------------------------------------------------------------------------


def valley_depth(w, Z):
    """Least density between two clusters, of these weights and rows, over the lower of the peaks on its two
    sides.
    """
    u = [_left_out(w, Z, k) for k in (0, 1)]
    place = [a @ x / a.sum() for a, x in zip(w, u, strict=True)]
    spread = [np.sqrt(a @ (x - m) ** 2 / a.sum()) for a, x, m in zip(w, u, place, strict=True)]
    both, weight = np.concatenate(u), np.concatenate(w)
    width = max(
        0.9 * min(spread) * min(one.sum() for one in w) ** -0.2, 1e-3 * (both.max() - both.min()) + 1e-12
    )
    counts, edges = np.histogram(both, BINS, weights=weight)
    at = np.linspace(both.min(), both.max(), POINTS)
    density = np.exp(-0.5 * ((at[:, None] - (edges[1:] + edges[:-1]) / 2) / width) ** 2) @ counts
    a, b = sorted(int(np.argmin(np.abs(at - m))) for m in place)
    lowest = a + int(np.argmin(density[a : b + 1]))
    return density[lowest] / min(density[: lowest + 1].max(), density[lowest:].max())


def _left_out(w, Z, k):
    """Positions of the rows of cluster k of two, each along the discriminant of all others: one count of the
    row is left out.
    """

    def means_and_scatter(w):
        mean = [a @ z / a.sum() for a, z in zip(w, Z, strict=True)]
        return mean, sum((z - m).T @ (a[:, None] * (z - m)) for a, z, m in zip(w, Z, mean, strict=True))

    n, P = sum(one.sum() for one in w), Z[0].shape[1]
    mean, within = means_and_scatter(w)
    ridge, out = (0.02 * np.trace(within) / n / P + 1e-9) * np.eye(P), []
    for row in range(len(Z[k])):
        others = [one.copy() for one in w]
        others[k][row] -= 1.0
        left, scatter = means_and_scatter(others)
        direction = np.linalg.solve(scatter / n + ridge, left[0] - left[1])
        out.append(direction @ (Z[k][row] - (mean[0] + mean[1]) / 2))
    return np.array(out)
