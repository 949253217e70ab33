"""Covariances inside the clusters of CRAFT: the reference implementation of their choice, prices and costs.

A cluster may hold one normal distribution N(mu, Sigma) of the scores of some of its numbers (a block) in
place of their tilts. A level of a column is an interval, u its score, v the variance of the intervals (a mean
with the shares b of the levels) and e its excess, the log density of the column less that of N(0, 1):

- of a column with an atom, or that is skewed (`levels.is_skewed`), intervals of a standard normal variable
  between the cumulative shares, u the mean inside, and e = (v - the variance inside) / 2: the
  density is exp of the mean log density of N(0, 1) in the interval;
- of another one, intervals between the levels with uniform cells inside, u the standardised mean of the
  cells, and e the log ratio of what the column and N(0, 1) have in a window around the middle of the
  interval, the smallest one that holds 1/16 of the column; without what is chance.

In units of the table, z = (u - mean) / sd with sd^2 = the variance of u over the table + v, and v is divided
by sd^2, so that the table has the correlations C. The cost of a cell is the mean over x of mean z_n and
variance v. The block costs, over the rows of the cluster and relative to the table's own distributions,

    sum_n w_n E[ 1/2 log det Sigma + 1/2 (x - mu)' Sigma^-1 (x - mu) - 1/2 |x|^2 + sum_d e_nd ]
        + 1/2 [ tr Sigma^-1 R - m + log det Sigma - log det R ]  +  m (m - 1) / 2 h

What this makes of the shares b of the levels of one column, by the variance Sigma_dd alone, may sum to Z > 1
where a level is wider than the cluster: every cell of the column then costs log Z - max(.1, 3 / sqrt(S))
more, if that is above 0, because log Z has a standard deviation of about 1 / sqrt(S) by chance.

The second term is the one row of prior: the divergence
KL(N(mu, R) || N(mu, Sigma)) of the table's correlations R = 0.95 C + 0.05 I, 0 in a cluster without rows. The
last one is the price of the covariances beyond the 2 m parameters of the columns. Columns in blocks are
selected, but belong to no pool.

Outside blocks, a cluster or a pool may have a normal density as its distribution of the levels of a column
with scores, in place of the tilt of the shares b_l: a tilt of the widths w_l ~ b_l exp(z_l^2 / 2 - e_l) by z
and z^2, with one row of w as prior, where z and e are those of values, also of a skewed column. The gain over
the table of cells with the counts c_l is

    G = sum_l c_l log(p(l) / b_l) + sum_l w_l log(p(l) / w_l);

missing cells count nowhere. Prices are those of tilts. A cluster that selects the column has the larger of
the gains; the pool has a normal density if G is larger than the gain of the tilt by more than 1e-6. The masks
are those of the tilts, and blocks are compared with the larger gains and with what clusters then share.

Tied: all clusters share Sigma over one block, and each has a mean of its own. The rows of all clusters and
one row of prior cost what is written above with mu of their cluster; the price is m (K - 1 + (m - 1) / 2) h,
because the mean and the variance of a column of the table are part of J_0, and the name of the block
log (P + 1) + log C(P, m) of the P columns with scores. Where that is shorter, the columns are independent
inside clusters, which differ in their means only: the price is m (K - 1) h, and R is the identity. The
columns of the block are none of the columns among which masks select.

A row with missing cells is assigned by the marginal of its observed columns. In the costs of clusters its
missing cells z_m have a distribution q = N(z~, C): they are described by the block as if they were observed,
on average over q, and less the entropy of q. So the block costs over N(0, 1)

    E_q[...] + sum_m g_m,    g_m = (1/2) (z~_m^2 + C_mm - 1 - log c_m),

with c_m the variance of z_m given the earlier missing ones, too. That is the cost of the marginal if q is
what the block says of z_m, and more under any other q.

Everything is computed from the rows, with one determinant for every question.
"""

from __future__ import annotations

from math import log
from types import SimpleNamespace

import numpy as np
from scipy.optimize import brentq
from scipy.stats import norm, truncnorm

from tests.reference import automatic, levels, pooled

FEWEST_LEVELS = 4
WORTH, TIE = 1e-6, 1e-9
SHRINKAGE = 0.05  # of the correlations of the table towards 0
FEWEST_OF_FACTORS, FEWEST_OF_OWN_FACTORS = 5, 8
MOST_FACTORS, CELLS_OF_A_FACTOR, LEAST_UNIQUENESS = 3, 6, 0.01
FACTOR_STEPS, RANKING_STEPS = 8, 2  # of a partition; where unions are ranked
MOST_COLUMNS, EM_STEPS = 512, 10
WINDOW = 1.0 / 16.0  # of the cells
CHANCE, ROUGH = 3.0, 0.1  # standard deviations of log Z, and least log Z that counts
STEPS = 2.0**20  # statistics of tilts are multiples of 1 / STEPS


def normal_intervals(b):
    """Mean of a standard normal variable in each of the intervals with these shares of it, in order; their
    variance, and their excess.
    """
    below, above = np.cumsum(b)[:-1], np.cumsum(b[::-1])[::-1][1:]
    ends = np.concatenate([[-np.inf], np.where(below < 0.5, norm.ppf(below), norm.isf(above)), [np.inf]])
    v = truncnorm.var(ends[:-1], ends[1:])
    return levels.normal_means(b), b @ v, 0.5 * (b @ v - v)


def intervals_of_values(own, b):
    """The same of levels of numbers."""
    between = np.array([(a + c) / 2.0 for a, c in zip(own.high, own.low[1:], strict=False)])
    first, last = min(own.low[0], 2 * own.value[0] - between[0]), 2 * own.value[-1] - between[-1]
    ends = np.concatenate([[first], between, [max(own.high[-1], last)]])
    mean, v = b @ own.value, b @ np.diff(ends) ** 2 / 12.0
    sd = np.sqrt(b @ (own.value - mean) ** 2 + v)
    ends, share = (ends - mean) / sd, np.append(0.0, np.cumsum(b))

    def inside(middle, half):
        return np.diff(np.interp([middle - half, middle + half], ends, share))[0]

    excess = np.empty(len(b))
    for at, middle in enumerate((ends[1:] + ends[:-1]) / 2.0):
        half = brentq(lambda half, middle=middle: inside(middle, half) - WINDOW, 0.0, ends[-1] - ends[0])
        window = np.clip([middle - half, middle + half], ends[0], ends[-1])
        excess[at] = log(inside(middle, half) / np.diff(norm.cdf(window))[0])
    # variance and excess are kept in single precision, as scores are
    return (own.value - mean) / sd, float(np.float32(v / sd**2)), excess.astype(np.float32).astype(float)


def with_scores(t, codes, n_levels, numbers):
    """The problem of `tests.reference.tilted` with ``z``, ``v`` and the excess ``e`` (n, D), NaN where a
    column has no scores: only ``numbers`` (position: levels) with 4 levels or more have, and of more than
    512 such columns the complete ones. Missing cells have the score NaN and an excess of 0.

    Scores are rounded to single precision, in which tables hold them.
    """
    t.z, t.v, t.e = np.full((3, len(codes), t.D), np.nan)
    t.by_value = {}  # scores and excess of the levels of every column with scores, by values
    t.level = {}  # z, log b - e, and v of the levels of the same columns
    missing = codes == n_levels
    t.present = ~missing[:, t.columns]
    scored = [d for d in t.columns if d in numbers and n_levels[d] >= FEWEST_LEVELS]
    if len(scored) > MOST_COLUMNS:
        scored = [d for d in scored if not missing[t.rows, d].any()]
    for place, d in enumerate(t.columns):
        if d not in scored:
            continue
        b = levels.shares(codes[:, d], n_levels[d], t.weight)
        by_rank = levels.atom_of(b) is not None or levels.is_skewed(numbers[d].value, b)
        u, v, e = normal_intervals(b) if by_rank else intervals_of_values(numbers[d], b)
        by_value, _, excess = intervals_of_values(numbers[d], b)
        t.by_value[place] = by_value.astype(np.float32).astype(float), excess
        u = u.astype(np.float32).astype(float)
        seen = t.rows[~missing[t.rows, d]]
        w, cells = t.weight[seen], codes[seen, d]
        mean = w @ u[cells] / w.sum()
        square = w @ (u[cells] - mean) ** 2 / w.sum() + v
        at = np.minimum(codes[:, d], n_levels[d] - 1)
        t.z[:, place] = np.where(missing[:, d], np.nan, (u[at] - mean) / np.sqrt(square))
        # a sample of N(0, 1) has 13 nats by chance
        e = e - max(0.0, min(w @ e[cells] / w.sum(), 13.0 / t.N))
        t.v[:, place], t.e[:, place] = v / square, np.where(missing[:, d], 0.0, e[at])
        occurs = b > 0.0
        t.level[place] = ((u - mean) / np.sqrt(square))[occurs], np.log(b[occurs]) - e[occurs], v / square
    t.R = correlations(t)
    return t


def block_columns(t):
    """Columns with scores."""
    return np.flatnonzero(~np.isnan(t.e[t.rows]).any(axis=0))


def deviations(t, rows, columns):
    """Weighted mean of some columns and the sum of the squares and products of deviations from it, those
    inside the levels and the covariances of missing cells included.
    """
    w, (z, v) = t.weight[rows], cells_of(t, rows, columns)
    mean = w @ z / w.sum()
    rest = z - mean
    return mean, rest.T @ (w[:, None] * rest) + np.diag(w @ v) + covariance_of_missing(t, rows, columns)


def prior(t, columns):
    """R of some columns: the correlations of the whole table, shrunk towards 0."""
    return t.R[np.ix_(columns, columns)]


# ----------------------------------------------------------------------------------------
# Missing cells
# ----------------------------------------------------------------------------------------


def filled(t, labels, given):
    """The problem with missing cells as rows with these labels expect them under N(mean_k, sigma_k), `given`
    (K, D) and (K, D, D): their mean in ``z``, their covariances in ``C`` (n: columns, matrix) and their
    divergence from N(0, 1) in ``g`` (n, D).

    Conditional distributions are computed from the covariance of the observed columns of every row.
    """
    out, columns = SimpleNamespace(**vars(t)), block_columns(t)
    out.z, out.v, out.g, out.C = t.z.copy(), t.v.copy(), np.zeros(t.z.shape), {}
    for n, k in zip(t.rows, labels, strict=True):
        o = columns[~np.isnan(t.z[n, columns])]
        m = np.setdiff1d(columns, o)
        if not len(m):
            continue
        mean, sigma = given[0][k], given[1][k]
        slope = np.linalg.solve(sigma[np.ix_(o, o)], sigma[np.ix_(o, m)]).T
        C = sigma[np.ix_(m, m)] - slope @ sigma[np.ix_(o, m)]
        out.z[n, m], out.v[n, m], out.C[n] = mean[m] + slope @ (t.z[n, o] - mean[o]), 0.0, (m, C)
        given_earlier = [np.linalg.det(C[: i + 1, : i + 1]) / np.linalg.det(C[:i, :i]) for i in range(len(m))]
        out.g[n, m] = 0.5 * (out.z[n, m] ** 2 + np.diag(C) - 1.0 - np.log(given_earlier))
    return out


def covariance_of_missing(t, rows, columns):
    """Weighted sum over rows of the covariances of their missing cells."""
    total = np.zeros((t.D, t.D))
    for n in set(np.asarray(rows).tolist()) & set(getattr(t, "C", ())):
        m, C = t.C[n]
        total[np.ix_(m, m)] += t.weight[n] * C
    return total[np.ix_(columns, columns)]


def first_distributions(t, labels):
    """Means and covariances of clusters by which missing cells are expected at first: independent columns."""
    K, columns = int(np.max(labels)) + 1, block_columns(t)
    mean, sigma = np.zeros((K, t.D)), np.tile(np.eye(t.D), (K, 1, 1))
    for k in range(K):
        for d in columns:
            rows = t.rows[(labels == k) & ~np.isnan(t.z[t.rows, d])]
            w = t.weight[rows]
            if len(rows):
                mean[k, d] = w @ t.z[rows, d] / w.sum()
            square = w @ (t.z[rows, d] - mean[k, d]) ** 2
            sigma[k, d, d] = (square + 1.0) / (w.sum() + 1.0) + t.v[0, d]
    return mean, sigma


def distributions(now):
    """The same of the clusters of a state: columns outside the block of a cluster are independent."""
    t, columns = now.filled, block_columns(now.filled)
    mean, sigma = np.zeros((now.K, t.D)), np.tile(np.eye(t.D), (now.K, 1, 1))
    for k in range(now.K):
        means, every = fitted(t, now.groups if now.tied else now.groups[k : k + 1], columns)
        own = np.isin(columns, now.block[k])
        if own.any():
            every[np.ix_(own, own)] = now.sigma[k]
        mean[k, columns] = means[k if now.tied else 0]
        related = (own[:, None] & own) | np.eye(len(columns), dtype=bool)
        sigma[k][np.ix_(columns, columns)] = np.where(related, every, 0.0)
    return mean, sigma


def is_complete(t):
    return not np.isnan(t.z[np.ix_(t.rows, block_columns(t))]).any()


def correlations(t):
    """(D, D) correlations of the whole table, shrunk towards 0; with missing cells after steps of EM, in
    which one row of N(0, I) is part of the table.
    """
    columns, out = block_columns(t), np.eye(t.D)
    if not len(columns):
        return out
    one, every = np.zeros(len(t.rows), int), t if is_complete(t) else None
    mean, sigma = first_distributions(t, one)
    for _ in range(0 if every is t else EM_STEPS):
        every = filled(t, one, (mean, sigma))
        mean[0, columns], found = deviations(every, t.rows, columns)
        sigma[0][np.ix_(columns, columns)] = (found + np.eye(len(columns))) / (t.N + 1.0)
    found = deviations(every, t.rows, columns)[1]
    sd = np.sqrt(np.diag(found))
    shrunk = (1.0 - SHRINKAGE) * found / np.outer(sd, sd) + SHRINKAGE * np.eye(len(columns))
    out[np.ix_(columns, columns)] = shrunk
    return out


# ----------------------------------------------------------------------------------------
# What a block costs
# ----------------------------------------------------------------------------------------


def fitted(t, groups, columns):
    """Means of groups of rows, and the smoothed covariance of some columns around them."""
    found = [deviations(t, rows, columns) for rows in groups]
    S = sum(t.weight[rows].sum() for rows in groups)
    R = prior_of(t, groups, columns)
    return [mean for mean, _ in found], (sum(one for _, one in found) + R) / (S + 1.0)


def prior_of(t, groups, columns):
    """The row of prior of a covariance that groups of rows share: R, in units of `prior_variances`."""
    sd = np.sqrt(prior_variances(t, groups, columns))
    return prior(t, columns) * np.outer(sd, sd)


def prior_variances(t, groups, columns):
    """Variances of the row of prior: of one group those of the table, of several those inside them, shrunk
    towards these.
    """
    if len(groups) == 1:
        return np.ones(len(columns))
    S = sum(t.weight[rows].sum() for rows in groups)
    inside = sum(np.diag(deviations(t, rows, columns)[1]) for rows in groups) / S
    return (1.0 - SHRINKAGE) * inside + SHRINKAGE


def block_cost(t, groups, columns):
    """What the cells of a block cost that groups of rows share, less their cost in the table; prior and price
    of the correlations are included.
    """
    means, sigma = fitted(t, groups, columns)
    m, R = len(columns), prior_of(t, groups, columns)
    own = sum(
        cells_cost(t, rows, columns, mean, sigma, np.diag(sigma))
        for rows, mean in zip(groups, means, strict=True)
    )
    row = np.trace(np.linalg.solve(sigma, R)) - m + np.linalg.slogdet(sigma)[1] - np.linalg.slogdet(R)[1]
    return own + 0.5 * row + 0.5 * m * (m - 1) * automatic.unit_price(t.N, t.price_factor)


def log_norms(t, columns, mean, variance, S):
    """log Z of every column of a group of S rows beyond chance, or 0."""
    out = []
    for d, own, square in zip(columns, mean, variance, strict=True):
        z, log_share, v = t.level[d]
        log_density = norm.logpdf(z, own, np.sqrt(square)) - norm.logpdf(z) - 0.5 * (1.0 / square - 1.0) * v
        out.append(max(0.0, log(np.exp(log_share + log_density).sum()) - max(ROUGH, CHANCE / np.sqrt(S))))
    return np.array(out)


def cells_cost(t, rows, columns, mean, sigma, variance):
    """What rows cost under N(mean, sigma), less their cost in the table: at most, if cells are missing.
    `variance`: of the columns, which is not that of sigma where common factors leave a column too little.
    """
    w, (z, v) = t.weight[rows], cells_of(t, rows, columns)
    inverse, rest = np.linalg.inv(sigma), z - mean
    own = ((rest @ inverse) * rest).sum(axis=1) + v @ np.diag(inverse) + np.linalg.slogdet(sigma)[1]
    cost = w @ (0.5 * (own - (z * z + v).sum(axis=1)) + t.e[np.ix_(rows, columns)].sum(axis=1))
    cost += w @ t.present[np.ix_(rows, columns)] @ log_norms(t, columns, mean, variance, w.sum())
    if hasattr(t, "C"):
        C = covariance_of_missing(t, rows, columns)
        cost += 0.5 * ((inverse * C).sum() - np.trace(C)) + w @ t.g[np.ix_(rows, columns)].sum(axis=1)
    return cost


def cells_of(t, rows, columns):
    return t.z[np.ix_(rows, columns)], t.v[np.ix_(rows, columns)]


def row_cost(z, v, e, mean, sigma):
    """Cost of one row under N(mean, sigma), less its cost in the table; NaN: missing.

    A row with missing cells costs the marginal of the others.
    """
    seen = ~np.isnan(z)
    if not seen.any():
        return 0.0
    sigma, rest = sigma[np.ix_(seen, seen)], (z - mean)[seen]
    inverse = np.linalg.inv(sigma)
    inside = 0.5 * (np.diag(inverse) - 1.0) @ v[seen] + e[seen].sum()
    return 0.5 * (np.linalg.slogdet(sigma)[1] + rest @ inverse @ rest - z[seen] @ z[seen]) + inside


# ----------------------------------------------------------------------------------------
# Normal densities as distributions of levels
# ----------------------------------------------------------------------------------------


def normal_density(t, d, counts):
    """log p(l) / b(l) (T,) of the normal density of a group with these counts of the levels, 0 where a level
    does not occur; and the log likelihood of its row of prior.
    """
    form = t.forms[d]
    occurs = form.b > 0.0
    z, e, b = t.by_value[d][0][occurs], t.by_value[d][1][occurs], form.b[occurs]
    w = b * np.exp(z**2 / 2.0 - e)
    w /= w.sum()
    s = np.rint(levels.statistics(z, w) * STEPS) / STEPS
    over_widths = levels.log_ratios(s, *levels.fit(w, s, counts[None, occurs]))[0]
    ratios = np.zeros(len(occurs))
    ratios[occurs] = over_widths + np.log(w / b)
    return ratios, w @ over_widths


def normal_gains(t, stats):
    """G (K, D) of groups, each under its own normal density; minus infinity where a column has no scores."""
    gains = np.full((len(stats), t.D), -np.inf)
    for d in block_columns(t):
        for k, counts in enumerate(pooled.column_sums(t, stats, d)):
            ratios, prior = normal_density(t, d, counts)
            gains[k, d] = counts @ ratios + prior
    return gains


def pool_of(t, stats, mask, d):
    """Counts of the cells of the clusters that do not select a column."""
    return pooled.column_sums(t, stats[~mask[:, d]], d).sum(axis=0)


def over_tilt(t, d, counts):
    """What a group gains by a normal density over its tilt."""
    (ratios, prior), tilt = normal_density(t, d, counts), pooled.fit(t, d, counts)
    return counts @ (ratios - tilt) + prior - t.forms[d].b @ tilt


def normals_of_pools(t, stats, mask):
    """Normal densities of the pools that gain more by them than by tilts: column: log p(l) / b(l)."""
    normals = {}
    for d in block_columns(t):
        if not mask[:, d].all():
            pool = pool_of(t, stats, mask, d)
            if over_tilt(t, d, pool) > WORTH:
                normals[int(d)] = normal_density(t, d, pool)[0]
    return normals


def under_normals(t, stats, shared, normals):
    """Log-likelihoods (K, D) under what clusters share: those under the tilts of the pools, `shared`, with
    normal densities in place of these.
    """
    shared = shared.copy()
    for d, ratios in normals.items():
        shared[:, d] = pooled.log_likelihood(t, d, pooled.column_sums(t, stats, d), ratios)
    return shared


def gains_and_shared(t, stats, mask, full):
    """Gains and log-likelihoods as `sums_under_pools` has them, with normal densities where they are used,
    and those of the pools; unless `full`.
    """
    gain, shared = sums_under_pools(t, stats, mask)
    if full:
        return gain, shared, {}
    normals = normals_of_pools(t, stats, mask)
    return np.maximum(gain, normal_gains(t, stats)), under_normals(t, stats, shared, normals), normals


# ----------------------------------------------------------------------------------------
# The choice of blocks
# ----------------------------------------------------------------------------------------


def cluster_cost(t, own, mask, block, of_block=None):
    """The description length of one cluster with a mask and a block, less the cost of its cells under what
    clusters share. `of_block`: what the block costs; None: with all covariances.
    """
    mask = mask.copy()
    mask[block] = True
    rest = mask.copy()
    rest[block] = False
    h = automatic.unit_price(t.N, t.price_factor)
    cost = h + pooled.naming(t)[mask.sum()] - own.S * log(own.S / t.N) + h * t.parameters[mask].sum()
    cost -= (own.gain - own.shared)[rest].sum()
    if len(block) < 2:
        return cost
    if of_block is None:
        of_block = block_cost(t, [own.rows], block)
    return cost + own.shared[block].sum() + of_block


def choose_block(t, own, mask, full=False):
    """The block of one cluster."""
    return chosen_block(t, own, mask, full)[0]


def chosen_block(t, own, mask, full=False, n_steps=FACTOR_STEPS):
    """The same, and what the cluster costs with it; by as many steps for its common factors. Its correlations
    pay for themselves, unless `full`.
    """
    columns, groups = block_columns(t), [own.rows]
    without = cluster_cost(t, own, mask, columns[:0])
    block = shortest_block(
        columns,
        columns[mask[columns]],
        lambda block: single_or_block_cost(t, own, mask, block),
        without,
        full,
    )
    least = cluster_cost(t, own, mask, block)
    factors = None if full else factors_of(t, groups, FEWEST_OF_OWN_FACTORS, n_steps)
    if factors is not None:
        h = automatic.unit_price(t.N, t.price_factor)
        apart = np.where(mask, own.gain, own.shared + h * t.parameters)
        rise = [block_cost(t, groups, columns[i : i + 1]) + apart[d] for i, d in enumerate(columns)]
        other = columns_of_factors(columns, factors, own.S, h, rise)
        if len(other):
            cost = cluster_cost(t, own, mask, other, factor_cost(t, groups, other, factors))
            if cost < least:
                block, least = other, cost
    if full or not len(block):
        return block, least
    correlated = [block_cost(t, groups, block)]
    if factors is not None and len(block) >= FEWEST_OF_FACTORS:
        correlated.append(factor_cost(t, groups, block, factors))
    return (block, least) if min(correlated) < independent(t, groups, block)[0] else (columns[:0], without)


def shortest_block(columns, selected, cost, without, full):
    """The block of least cost that is found: from the selected columns and from all, columns leave while that
    lowers the cost. No column unless that is below the cost without a block; `full`: all columns.
    """
    if full:
        return columns if len(columns) > 1 else columns[:0]
    best, at = without - WORTH, columns[:0]
    for block in (selected, columns):
        while len(block) > 1:
            now, smaller = cost(block), [np.delete(block, i) for i in range(len(block))]
            others = np.array([cost(one) for one in smaller])
            i = int(np.argmax(others <= others.min() + TIE))
            if not others[i] < now - TIE:
                if now < best:
                    best, at = now, block
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
    return cost + block_cost(t, [own.rows], block)


def choose_tied_block(t, groups, own, mask, full=False):
    """The block that all clusters share, from the columns that some cluster selects and from all.

    It replaces what the columns save over the table under the pools, so that the rest stays as it is.
    """
    columns = block_columns(t)
    h = automatic.unit_price(t.N, t.price_factor)
    apart = np.where(mask, own.gain - h * t.parameters, own.shared).sum(axis=0)
    block = shortest_block(
        columns,
        columns[mask[:, columns].any(axis=0)],
        lambda block: tied_cost(t, groups, block) + apart[block].sum(),
        0.0,
        full,
    )
    if full:
        return block
    factors = factors_of(t, groups, FEWEST_OF_FACTORS)
    rise = np.array([tied_cost(t, groups, columns[i : i + 1]) + apart[d] for i, d in enumerate(columns)])
    found = [block]
    if factors is not None:
        found.append(columns_of_factors(columns, factors, t.N, h, rise))
    if (rise < 0.0).sum() > 1:
        found.append(columns[rise < 0.0])
    cost = [names_of_masks(t, mask, one) + tied_name(t, one) for one in found]
    for i, one in enumerate(found):
        if len(one):
            cost[i] += tied_cost(t, groups, one, False) + apart[one].sum()
    return found[int(np.argmin(cost))]


def tied_cost(t, groups, block, full=True):
    """What a shared block costs over the distributions of the table, without its name."""
    return shared_block(t, groups, block, full)[0]


def shared_block(t, groups, block, full):
    """The same, and the covariance."""
    cost, sigma = held(t, groups, block, full, FEWEST_OF_FACTORS)
    return cost + (len(groups) - 1) * len(block) * automatic.unit_price(t.N, t.price_factor), sigma


def held(t, groups, block, full, fewest):
    """What a block costs, and its covariance: with all correlations, or, unless ``full``, with common factors
    or with variances alone where that is shorter.
    """
    found = [correlated(t, groups, block)]
    if full:
        return found[0]
    factors = None if len(block) < FEWEST_OF_FACTORS else factors_of(t, groups, fewest)
    if factors is not None:
        found.append((factor_cost(t, groups, block, factors), within(t, factors[0], block)))
    found.append(independent(t, groups, block))
    return min(found, key=lambda one: one[0])


def correlated(t, groups, block):
    """What a block costs with all correlations, and its covariance."""
    return block_cost(t, groups, block), fitted(t, groups, block)[1]


def independent(t, groups, block):
    """What a block costs whose columns are independent inside the groups, with a row of prior of independent
    columns, and its covariance.
    """
    means, S = fitted(t, groups, block)
    variance, v = np.diag(S), prior_variances(t, groups, block)
    cost = sum(
        cells_cost(t, rows, block, mean, np.diag(variance), variance)
        for rows, mean in zip(groups, means, strict=True)
    )
    return cost + 0.5 * (v / variance - 1.0 + np.log(variance / v)).sum(), np.diag(variance)


def within(t, matrix, block):
    """The rows and columns of a block of a matrix of all columns with scores."""
    at = np.searchsorted(block_columns(t), block)
    return matrix[np.ix_(at, at)]


def factors_of(t, groups, fewest, n_steps=FACTOR_STEPS):
    """Common factors of all columns with scores around the means of groups, if there are enough columns."""
    columns, N = block_columns(t), sum(t.weight[rows].sum() for rows in groups)
    if len(columns) < fewest:
        return None
    h = automatic.unit_price(t.N, t.price_factor)
    return with_factors(fitted(t, groups, columns)[1], N, h, n_steps)


def columns_of_factors(columns, factors, N, h, rise):
    """Columns that factors of all make shorter although normal densities cost `rise` more than what the
    columns have; none if they are few.
    """
    found = columns[-(N + 1.0) / 2.0 * np.log(factors[1]) - factors[2] * h > rise]
    return found if len(found) >= FEWEST_OF_FACTORS else found[:0]


def factor_cost(t, groups, block, factors):
    """What a block costs with common factors, as `block_cost` has it without."""
    sigma, R, m, r = within(t, factors[0], block), prior_of(t, groups, block), len(block), factors[2]
    means, S = fitted(t, groups, block)
    cost = sum(
        cells_cost(t, rows, block, mean, sigma, np.diag(S)) for rows, mean in zip(groups, means, strict=True)
    )
    row = np.trace(np.linalg.solve(sigma, R)) - m + np.linalg.slogdet(sigma)[1] - np.linalg.slogdet(R)[1]
    return cost + 0.5 * row + (r * m - r * (r - 1) / 2) * automatic.unit_price(t.N, t.price_factor)


def with_factors(S, N, h, n_steps=FACTOR_STEPS):
    """S with common factors, the uniquenesses and the number of factors, by steps of the principal factors;
    None if no factor pays for its loadings. A factor after j others has m - j of them.
    """
    m, sd = len(S), np.sqrt(np.diag(S))
    most = min(max(MOST_FACTORS, m // CELLS_OF_A_FACTOR), N // CELLS_OF_A_FACTOR)
    rho = S / sd / sd[:, None]
    psi = 1.0 / np.diag(np.linalg.inv(rho))
    for _ in range(n_steps):
        values, vectors = np.linalg.eigh(np.diag(psi**-0.5) @ rho @ np.diag(psi**-0.5))
        common, r = np.zeros((m, m)), 0
        for theta, vector in zip(values[::-1], vectors.T[::-1], strict=True):
            pays = theta > 1.0 and (N + 1.0) / 2.0 * (theta - 1.0 - log(theta)) > (m - r) * h
            if r == most or not pays:
                break
            loading, r = np.sqrt(psi * (theta - 1.0)) * vector, r + 1
            common += np.outer(loading, loading)
        if not r:
            return None
        psi = np.clip(1.0 - np.diag(common), LEAST_UNIQUENESS, None)
    return (common + np.diag(psi)) * np.outer(sd, sd), psi, r


def names_of_masks(t, mask, block):
    """Code of the masks of all clusters without the columns of a shared block."""
    q = np.delete(mask, block, axis=1).sum(axis=1)
    return pooled.naming(without(t, block))[q].sum()


def tied_name(t, block):
    """Code of the columns of a shared block, 0 without one."""
    P = len(block_columns(t))
    return log(P + 1) + automatic.log_choose(P)[len(block)] if len(block) else 0.0


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


def continued(t, stats, mask):
    """The masks after sweeps from given ones."""
    return pooled.sweep(t, stats, pooled.columns_of(t, stats), mask, n_singles=pooled.warm_singles(t, stats))


def state(t, labels, *, full=False, tied=False, choice=None, keep=False):
    """A partition whose clusters hold the covariances that shorten their description, or share one.

    Blocks are chosen against what clusters share with the best masks without blocks; then their columns leave
    the pools. ``full``: blocks of all columns, or kept ones, and tilts outside. Missing cells are
    expected from independent columns, unless ``t`` is `filled`. ``labels`` are those of the rows of positive
    weight. ``choice``: masks without blocks and the blocks of a partition of the same clusters: masks are
    sought from there, or masks and blocks are kept.
    """
    if not hasattr(t, "C") and not is_complete(t):
        t = filled(t, labels, first_distributions(t, labels))
    now = SimpleNamespace(labels=np.asarray(labels), K=int(np.max(labels)) + 1, tied=tied, filled=t)
    now.normal, now.shared_normals = np.zeros((now.K, t.D), bool), {}
    now.stats = stats = automatic.sums(t, t.rows, labels, now.K)
    now.groups = [t.rows[now.labels == k] for k in range(now.K)]
    if now.K == 1 and not keep:  # none and all columns cost the same: the larger rest
        mask = np.zeros((1, t.D), bool)
    elif choice is None:
        mask = pooled.best_masks(t, stats)[1]
    else:
        mask = np.array(choice[0], bool) if keep else continued(t, stats, choice[0])
    return (tie if tied else hold)(t, now, mask, full, choice[1] if keep else None)


def hold(t, now, mask, full, kept):
    """The state with a covariance of its own in every cluster that it makes shorter, and normal densities
    outside blocks where they gain more than tilts.
    """
    now.block = kept
    if kept is None:
        gain, shared, _ = gains_and_shared(t, now.stats, mask, full)
        now.block = [choose_block(t, of_cluster(now, gain, shared, k), mask[k], full) for k in range(now.K)]
    now.choice = mask, now.block
    now.mask = mask.copy()
    for k, block in enumerate(now.block):
        now.mask[k, block] = True
    gain, shared, now.shared_normals = gains_and_shared(t, now.stats, now.mask, full)
    tilted = pooled.gains(t, now.stats)
    over_tilts = (shared - sums_under_pools(t, now.stats, now.mask)[1]).sum(axis=1)
    now.normal = now.mask & (gain > tilted)
    now.J, now.cost = pooled.objective(t, now.stats, now.mask), np.empty(now.K)
    now.sigma = [None] * now.K
    for k, block in enumerate(now.block):
        own = of_cluster(now, gain, shared, k)
        cost, now.normal[k, block] = 0.0, False
        if len(block):
            cost, now.sigma[k] = held(t, [own.rows], block, full, FEWEST_OF_OWN_FACTORS)
            now.J += tilted[k, block].sum() + cost
        now.cost[k] = cluster_cost(t, own, now.mask[k], block, cost) - over_tilts[k]
    now.J -= (gain - tilted)[now.normal].sum()
    for d in now.shared_normals:
        now.J -= over_tilt(t, d, pool_of(t, now.stats, now.mask, d))
        now.normal[~now.mask[:, d], d] = True
    now.rest = t
    return now


def of_cluster(now, gain, shared, k):
    return SimpleNamespace(rows=now.groups[k], S=now.stats[k, 0], gain=gain[k], shared=shared[k])


def tie(t, now, mask, full, kept):
    """The state with one covariance of all clusters, if that is shorter."""
    if kept is not None:
        return tied_by(t, now, mask, kept[0], full, keep=True)
    own, none = SimpleNamespace(), np.array([], int)
    own.gain, own.shared = sums_under_pools(t, now.stats, mask)
    block = choose_tied_block(t, now.groups, own, mask, full)
    found = tied_by(t, SimpleNamespace(**vars(now)), mask, block, full)
    if full or not len(block):
        return found
    without_block = tied_by(t, now, mask, none, full)
    return found if found.J < without_block.J else without_block


def tied_by(t, now, mask, block, full, keep=False):
    """The state whose clusters share the covariance of a block."""
    now.rest = rest = without(t, block)
    outside = np.setdiff1d(np.arange(t.D), block)
    masks = mask[:, outside]
    if not keep and now.K > 1:
        masks = continued(rest, now.stats, masks)
    picked, now.mask = mask.copy(), np.ones((now.K, t.D), bool)
    picked[:, outside] = now.mask[:, outside] = masks
    now.block = [block] * now.K
    now.choice = picked, now.block
    now.J = pooled.objective(rest, now.stats, masks)
    if len(block):
        cost, sigma = shared_block(t, now.groups, block, full)
        now.J, now.sigma = now.J + cost + tied_name(t, block), [sigma] * now.K
    gain, shared = sums_under_pools(rest, now.stats, masks)
    h = automatic.unit_price(t.N, t.price_factor)
    now.cost = np.array(
        [
            cluster_cost(rest, of_cluster(now, gain, shared, k), masks[k], np.array([], int))
            for k in range(now.K)
        ]
    )
    now.rest_cost = now.cost.copy()
    if len(block):
        means, S = fitted(t, now.groups, block)
        for k, rows in enumerate(now.groups):
            now.cost[k] += len(block) * h + cells_cost(t, rows, block, means[k], sigma, np.diag(S))
    return now


def without(t, block):
    """The problem without some columns. Sums of groups stay those of all columns."""
    if not len(block):
        return t
    rest = SimpleNamespace(**vars(t))
    left = np.setdiff1d(np.arange(t.D), block)
    rest.D, rest.forms = len(left), [t.forms[d] for d in left]
    rest.parameters, rest.columns = t.parameters[left], t.columns[left]
    rest.z, rest.v, rest.e, rest.present = t.z[:, left], t.v[:, left], t.e[:, left], t.present[:, left]
    rest.level = {place: t.level[d] for place, d in enumerate(left) if d in t.level}
    rest.R = t.R[np.ix_(left, left)]
    if hasattr(t, "C"):
        rest.g, rest.C = t.g[:, left], {}
        for n, (m, C) in t.C.items():
            kept = np.isin(m, left)
            rest.C[n] = np.searchsorted(left, m[kept]), C[np.ix_(kept, kept)]
    return rest


def row_costs(t, now, seen=None):
    """(n, K) costs of rows, relative to the tilts of the pools; with missing cells, where ``seen`` (n, D) is
    False.
    """
    n = len(t.rows)
    seen = np.ones((n, t.D), bool) if seen is None else seen
    cost = np.tile(-np.log(now.stats[:, 0] / t.N), (n, 1))
    for d in range(t.D):
        sums = pooled.column_sums(t, now.stats, d)
        shared = pooled.cell_costs(t, d, t.rows, pooled.fit(t, d, sums[~now.mask[:, d]].sum(axis=0)))
        for k in np.flatnonzero(now.mask[:, d] | now.normal[:, d]):
            own = np.zeros(n)  # a block is added below
            if not now.mask[k, d]:
                own = pooled.cell_costs(t, d, t.rows, now.shared_normals[d])
            elif d not in now.block[k]:
                ratios = normal_density(t, d, sums[k])[0] if now.normal[k, d] else pooled.fit(t, d, sums[k])
                own = pooled.cell_costs(t, d, t.rows, ratios)
            cost[:, k] += np.where(seen[:, d], own - shared, 0.0)
    for k, block in enumerate(now.block):
        if len(block):
            means, S = fitted(now.filled, now.groups if now.tied else now.groups[k : k + 1], block)
            z, v = cells_of(t, t.rows, block)
            z, mean = np.where(seen[:, block], z, np.nan), means[k if now.tied else 0]
            e = t.e[np.ix_(t.rows, block)]
            cost[:, k] += [row_cost(*cells, mean, now.sigma[k]) for cells in zip(z, v, e, strict=True)]
            cost[:, k] += ~np.isnan(z) @ log_norms(t, block, mean, np.diag(S), now.stats[k, 0])
    return cost


def soft_length(t, now):
    """L: J if a row is described by all clusters together, in place of its own."""
    cost, length = row_costs(t, now), now.J
    for n, row in enumerate(t.rows):
        every = sum(np.exp(cost[n, now.labels[n]] - one) for one in cost[n])
        length -= t.weight[row] * log(every)
    return length
