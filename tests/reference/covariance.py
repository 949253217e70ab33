"""Covariances inside the clusters of CRAFT: the reference implementation of their choice, prices and costs.

A cluster may hold one normal distribution N(mu, Sigma) of some of its numeric columns (a block) in place of
independent ones. Cells are z = (x - zeta_0) / sigma_0. The block costs, over the rows of the cluster,

    sum_n w_n [ 1/2 log det Sigma + 1/2 (z_n - mu)' Sigma^-1 (z_n - mu) ]  +  1/2 [ tr Sigma^-1 - m + log det
    Sigma ]  +  m (m - 1) / 2 h

The second term is the one row of prior, the last one the price of the covariances beyond the 2 m
parameters of the columns. Everything is computed from the rows, with one determinant for every question.
"""

from __future__ import annotations

import numpy as np

from tests.reference import automatic

SINGULAR, WORTH, TIE = 1e-10, 1e-6, 1e-9
BINS, POINTS = 500, 200


def block_columns(t):
    """Numeric columns of the problem without a missing cell."""
    return np.flatnonzero(t.present[t.rows].all(axis=0))


def fitted(t, rows, columns):
    """Mean and smoothed covariance of some columns, and the weight of the rows."""
    w, Z = t.weight[rows], t.Z[np.ix_(rows, columns)]
    S = w.sum()
    mean = w @ Z / S
    return mean, ((Z - mean).T @ (w[:, None] * (Z - mean)) + np.eye(len(columns))) / (S + 1.0), S


def block_cost(t, rows, columns):
    """What the cells of a block cost, less their cost under the background N(0, I), prior and price of the
    correlations included.
    """
    mean, sigma, _ = fitted(t, rows, columns)
    m, Z, w = len(columns), t.Z[np.ix_(rows, columns)], t.weight[rows]
    inverse, logarithm = np.linalg.inv(sigma), np.linalg.slogdet(sigma)[1]
    distance = np.einsum("ni,ij,nj->n", Z - mean, inverse, Z - mean)
    own = w @ (0.5 * logarithm + 0.5 * distance - 0.5 * (Z**2).sum(axis=1))
    prior = 0.5 * (np.trace(inverse) - m + logarithm)
    return own + prior + 0.5 * m * (m - 1) * automatic.unit_price(t.N, t.price_factor)


def cluster_cost(t, rows, stats, gain, mask, block):
    """The description length of one cluster with a mask and a block."""
    mask = mask.copy()
    mask[block] = True
    cost = automatic.priced(t, stats[None], gain[None], mask[None])[0]
    if len(block) > 1:
        cost += gain[block].sum() + block_cost(t, rows, block)
    return cost


def repeated(t, rows, columns):
    """Columns whose values the earlier ones determine in these rows."""
    w = np.sqrt(t.weight[rows])[:, None]
    mean = fitted(t, rows, columns)[0]
    R, kept, out = w * (t.Z[np.ix_(rows, columns)] - mean), [], []
    for j in range(len(columns)):
        size = (R[:, j] ** 2).sum()
        rest = R[:, j]
        if kept:
            rest = rest - R[:, kept] @ np.linalg.lstsq(R[:, kept], rest, rcond=None)[0]
        if (rest**2).sum() > SINGULAR * size:
            kept.append(j)
        else:
            out.append(columns[j])
    return out


def choose_block(t, rows, stats, gain, mask, full=False):
    """The block of one cluster and its cost: from the selected columns and from all, columns leave while the
    description gets shorter.

    A single column is a block that saves nothing but keeps its place in the mask, so that two columns are
    compared with it.
    """
    plain = cluster_cost(t, rows, stats, gain, mask, np.array([], int))
    columns = block_columns(t)
    columns = np.array([d for d in columns if d not in repeated(t, rows, columns)], int)
    if full:
        return (
            (columns, cluster_cost(t, rows, stats, gain, mask, columns))
            if len(columns) > 1
            else (columns[:0], plain)
        )
    best, at = plain - WORTH, np.array([], int)
    for start in (columns[mask[columns]], columns):
        block = start
        while len(block) > 1:
            cost = cluster_cost(t, rows, stats, gain, mask, block)
            smaller = [np.delete(block, i) for i in range(len(block))]
            others = np.array([cluster_cost(t, rows, stats, gain, mask, one) for one in smaller])
            i = int(np.argmax(others <= others.min() + TIE))
            if not others[i] < cost - TIE:
                if cost < best:
                    best, at = cost, block
                break
            block = smaller[i]
    return at, (plain if len(at) == 0 else best)


def state(t, labels, full=False):
    """A partition of the rows of positive weight whose clusters hold the covariances that shorten their
    description.
    """
    now = automatic.partition(t, labels)
    now.block, now.plain = [], now.cost.copy()
    for k in range(now.K):
        rows = t.rows[now.labels == k]
        block, cost = choose_block(t, rows, now.stats[k], now.gain[k], now.mask[k], full)
        now.block.append(block)
        now.cost[k] = cost
        now.mask[k, block] = True
    now.J = t.l0 + now.cost.sum()
    return now


def distances(t, now, Z=None):
    """(n, K) costs of rows; with missing cells (NaN in Z) the marginal of the observed columns."""
    mask = now.mask.copy()
    for k, block in enumerate(now.block):
        mask[k, block] = False
    d = automatic.distances(t, t.rows, now.stats, mask)
    Z = t.Z[t.rows] if Z is None else Z
    for k, block in enumerate(now.block):
        if len(block):
            mean, sigma, _ = fitted(t, t.rows[now.labels == k], block)
            d[:, k] += [marginal(row[block], mean, sigma) for row in Z]
    return d


def marginal(z, mean, sigma):
    """Cost of one row under N(mean, sigma), less its cost under N(0, I); NaN: missing."""
    seen = ~np.isnan(z)
    if not seen.any():
        return 0.0
    sigma, rest = sigma[np.ix_(seen, seen)], (z - mean)[seen]
    return (
        0.5 * np.linalg.slogdet(sigma)[1]
        + 0.5 * rest @ np.linalg.solve(sigma, rest)
        - 0.5 * (z[seen] ** 2).sum()
    )


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
