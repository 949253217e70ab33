"""CRAFT with the number of clusters and of features from the data: the reference implementation of its
prices, gains and masks against the distribution of the whole table.

The model is the likelihood model of `tests.reference.craft` with alpha = kappa = 1. A partition
costs (classification likelihood with prices, ICL)

    J = sum_n sum_d l0_d(x_n) + sum_k cost_k
    cost_k = h + log(D+1) + log C(D, q_k) + sum_{d in v_k} (p_d h - gain_kd) - S_k log(S_k / N)

where h = price_factor 1/2 log N, D counts the columns that are not constant, q_k = |v_k|, p_d = 2
for a numeric column and one less than the levels that occur for a categorical one, S_k is the
weight of the cluster and N that of all rows. The second and the third term are the code of the
mask. J depends on the partition alone.

Inside a problem only the rows of positive weight and the columns that are not constant exist;
columns stand in kernel order: numeric first. Numeric cells are measured as
z = (x - zeta_0) / sigma_0, so that the background is N(0, 1). All that a cluster has to know are
the sums of its rows of one wide matrix, the design: 1, then for the numeric columns the presence,
z and z^2, then the levels of the categorical columns as 0 and 1. A merge adds two rows of sums.
"""

from __future__ import annotations

from math import lgamma, log, pi, sqrt
from types import SimpleNamespace

import numpy as np

from tests.reference import craft, forms

QUANTUM = 1e-9  # values of J and scores closer than this are ties


# ----------------------------------------------------------------------------------------
# The problem: table, background, prices
# ----------------------------------------------------------------------------------------


def problem(numeric, codes, n_levels, *, price_factor=1.0, weight=None):
    """The table as a design, its background and prices, in one namespace.

    ``Z``, ``present`` (n, P), ``levels`` (n, L) and ``design`` are those of all rows; ``rows`` are the
    numbers of the rows of positive weight, the only ones that count.
    """
    numeric, codes = np.asarray(numeric, float), np.asarray(codes, int)
    cells, weight, back, _ = craft.prepare(numeric, codes, n_levels, [0] * len(numeric), weight)
    weight = np.array(weight)
    varies = np.array(back.varies, bool)
    numbers = np.flatnonzero(varies[: back.p])
    categories = np.flatnonzero(varies[back.p :])

    sigma_0 = np.sqrt(np.array(back.variance, float)[numbers])
    Z = (numeric[:, numbers] - np.array(back.zeta, float)[numbers]) / sigma_0
    present = ~np.isnan(Z)
    Z = np.where(present, Z, 0.0)
    # a level that only rows of weight 0 have is none: such a cell costs nothing, as if missing
    occurring = [(j, d, t) for j, d in enumerate(categories) for t in np.nonzero(back.counts[d])[0]]
    levels = np.array([codes[:, d] == t for _, d, t in occurring], float).reshape(-1, len(codes)).T
    column = np.array([j for j, _, _ in occurring], int)

    t = SimpleNamespace(Z=Z, present=present, levels=levels, weight=weight)
    t.P, t.Q, t.D = len(numbers), len(categories), len(numbers) + len(categories)
    t.rows = np.flatnonzero(weight > 0.0)
    t.N = float(weight.sum())
    t.design = np.hstack([np.ones((len(Z), 1)), present, Z, Z**2, levels])
    t.eta_0 = np.array([back.eta[d][level] for _, d, level in occurring], float)
    t.column = column  # of a level among the categorical columns
    t.in_column = (column[:, None] == np.arange(t.Q)).astype(float)  # (L, Q)
    shares = [priced_shares(T, t.N) for T in t.in_column.sum(axis=0).tolist()]
    t.parameters = np.concatenate([np.full(t.P, 2.0), shares])
    t.l0 = sum(
        w * craft.background_cost(back, d, row[d])
        for w, row in zip(weight, cells, strict=True)
        for d in range(back.D)
        if w > 0.0
    )
    t.price_factor = price_factor
    t.columns = np.concatenate([numbers, back.p + categories])  # kernel order of the whole table
    t.all_columns = back.D
    of_number = [1 + np.array([j, t.P + j, 2 * t.P + j]) for j in range(t.P)]
    of_category = [np.flatnonzero(column == j) for j in range(t.Q)]
    t.forms = [forms.Normal(Z[:, j], present[:, j], places) for j, places in enumerate(of_number)]
    t.forms += [forms.Shares(levels[:, own], t.eta_0[own], 1 + 3 * t.P + own) for own in of_category]
    return t


def sums(t, rows, labels, K):
    """Weighted sums (K, M) of the design over the rows of every cluster."""
    member = (np.asarray(labels) == np.arange(K)[:, None]).astype(float)
    return member @ (t.weight[rows, None] * t.design[rows])


def parts(t, stats):
    """The sums by name: weight of the clusters; cells, sum, sum of squares of z; counts."""
    P = t.P
    return (
        stats[:, 0],
        stats[:, 1 : 1 + P],
        stats[:, 1 + P : 1 + 2 * P],
        stats[:, 1 + 2 * P : 1 + 3 * P],
        stats[:, 1 + 3 * P :],
    )


def priced_shares(T, N):
    """Parameters by which the T shares of a category are priced, for N rows: one less than T; of more than
    two levels, at most the logarithm of the normalising constant of N / 2 rows, in units of (1/2) log N.
    """
    T = int(T)
    if T < 3 or N < 2.0:
        return T - 1.0
    return min(T - 1.0, log_constant(T, N / 2.0) / (0.5 * log(N)))


def log_constant(T, n):
    """Logarithm of the normalising constant C(T, n) of the maximum likelihood of T shares in n rows; 0 for
    less than one row. C(1, n) = 1, C(2, n) as Szpankowski (1998) has it, and
    C(T + 2, n) = C(T + 1, n) + (n / T) C(T, n).
    """
    if n < 1.0:
        return 0.0
    constants = [1.0, sqrt(pi * n / 2.0) + 2.0 / 3.0 + sqrt(2.0 * pi / n) / 24.0]
    while len(constants) < T:
        constants.append(constants[-1] + n / (len(constants) - 1) * constants[-2])
    return log(constants[int(T) - 1])


def parameters(t, stats):
    """Mean and variance of z (K, P) and level probabilities (K, L), with alpha = kappa = 1."""
    _, S, sum_z, sum_zz, counts = parts(t, stats)
    mean = np.divide(sum_z, S, out=np.zeros_like(S), where=S > 0.0)
    variance = (np.maximum(sum_zz - sum_z * mean, 0.0) + 1.0) / (S + 1.0)
    S = counts @ t.in_column
    eta = (counts + t.eta_0) / (S[:, t.column] + 1.0)
    return mean, variance, eta


def gains(t, stats):
    """gain_kd (K, D): what the likelihood of a cluster wins by its own parameters."""
    _, variance, eta = parameters(t, stats)
    _, S, _, sum_zz, counts = parts(t, stats)
    of_numbers = -(S + 1.0) / 2.0 * np.log(variance) - S / 2.0 + sum_zz / 2.0
    S = counts @ t.in_column
    of_categories = (S + 1.0) * ((eta * np.log(eta / t.eta_0)) @ t.in_column)
    return np.maximum(np.hstack([of_numbers, of_categories]), 0.0)


# ----------------------------------------------------------------------------------------
# Masks and costs
# ----------------------------------------------------------------------------------------


def unit_price(N, price_factor=1.0):
    """h: the price of a cluster, and half that of a numeric feature."""
    return price_factor * 0.5 * log(N)


def log_choose(D):
    """log C(D, q) for q = 0 .. D."""
    return np.array([lgamma(D + 1) - lgamma(q + 1) - lgamma(D - q + 1) for q in range(D + 1)])


def priced_mask(gain, p, N, price_factor=1.0):
    """Mask that maximises sum_{d in v} (gain_d - p_d h) - log C(D, |v|).

    Parameters
    ----------
    gain : array (D,) or (K, D)
        Of the columns that are not constant.
    p : array (D,)
        Parameters of the columns.
    N : float
        Weight of all rows.

    Returns
    -------
    array of bool, shape of ``gain``
    """
    gain = np.asarray(gain, float)
    if gain.ndim == 1:
        return priced_mask(gain[None], p, N, price_factor)[0]
    K, D = gain.shape
    net = gain - np.asarray(p) * unit_price(N, price_factor)
    unit = QUANTUM * np.maximum(1.0, np.abs(net).max(axis=1, initial=0.0, keepdims=True))
    rank = np.floor(net / unit + 0.5)
    order = np.argsort(-rank, axis=1, kind="stable")
    won = np.cumsum(np.take_along_axis(net, order, axis=1), axis=1)
    value = np.hstack([np.zeros((K, 1)), won]) - log_choose(D)
    q = np.argmax(value >= value.max(axis=1, keepdims=True) - unit, axis=1)
    mask = np.zeros((K, D), bool)
    np.put_along_axis(mask, order, np.arange(D) < q[:, None], axis=1)
    return mask


def cluster_cost(gain, mask, S, p, N, *, price_factor=1.0):
    """cost_k (K,) of clusters with these gains and masks (K, D) and weights S (K,)."""
    S, D = np.asarray(S, float), np.shape(gain)[1]
    h = unit_price(N, price_factor)
    cost = h + np.where(mask, np.asarray(p) * h - gain, 0.0).sum(axis=1) - S * np.log(S / N)
    return cost + log(D + 1) + log_choose(D)[np.sum(mask, axis=1)]


def priced(t, stats, gain, mask):
    return cluster_cost(
        gain,
        mask,
        stats[:, 0],
        t.parameters,
        t.N,
        price_factor=t.price_factor,
    )


def partition(t, labels):
    """A partition of the rows of positive weight, fitted.

    ``labels`` 0..K-1 (clusters without rows are dropped, the order stays), ``stats``, ``gain``,
    ``mask``, ``cost``, ``J``, ``K``.
    """
    names, labels = np.unique(labels, return_inverse=True)
    now = SimpleNamespace(labels=labels, K=len(names))
    now.stats = sums(t, t.rows, labels, now.K)
    now.gain = gains(t, now.stats)
    now.mask = priced_mask(now.gain, t.parameters, t.N, t.price_factor)
    now.cost = priced(t, now.stats, now.gain, now.mask)
    now.J = t.l0 + now.cost.sum()
    return now


# ----------------------------------------------------------------------------------------
# Rows
# ----------------------------------------------------------------------------------------


def distances(t, rows, stats, mask):
    """d_nk: sum over the selected, present cells of (own - l0), minus log(S_k / N)."""
    mean, variance, eta = parameters(t, stats)
    Z, present = t.Z[rows, None], t.present[rows, None]
    relative = 0.5 * np.log(variance) + (Z - mean) ** 2 / (2.0 * variance) - Z**2 / 2.0
    d = np.where(present & mask[:, : t.P], relative, 0.0).sum(axis=2)
    d += t.levels[rows] @ np.where(mask[:, t.P + t.column], np.log(t.eta_0 / eta), 0.0).T
    return d - np.log(stats[:, 0] / t.N)
