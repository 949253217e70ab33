"""Links between the columns of a table without clusters: the reference implementation, pair by pair.

A link of two columns saves, over the weight n of the rows that have a value in both, the gain below less its
parameters times h and less log(P + 1), P the number of pairs of columns that vary.

    categories d, e    sum_ab n_ab log(n_ab n / (n_a n_b)),    (T_d - 1)(T_e - 1) parameters, T levels seen;
                       if T_e >= 8, at most sum_a log C(T_e, n_a) - log C(T_e, M) nats at (1/2) log M each
    category, number   (n / 2) log((SS + 1) / (SS_within + 1)),    T_d - 1 parameters
    numbers            -(n / 2) log(1 - r^2),                      1 parameter

Numbers are z, deviations of normal scores from their mean in standard deviations, in steps of 2^-8; r = sum
of products around the means of these rows over the root of (SS_i + 1)(SS_j + 1). All numbers with one
covariance save -(n / 2) log det R, n the least of any pair, less p(p - 1)/2 h.

A sample of weight M of a table of weight N: gains count N / M times, and the price is at least N / M times
that of the sample, with (1/2) log M for h.
"""

from __future__ import annotations

import itertools
from math import log

import numpy as np
from scipy.stats import norm

from tests.reference import automatic, levels

MANY_LEVELS = 8


def normal_scores(numeric, weight=None):
    """The normal score of the level of every cell: the mean of a standard normal variable in the interval
    that has the level's share, above the intervals of lower levels.
    """
    out = np.full(numeric.shape, np.nan)
    weight = np.ones(len(numeric)) if weight is None else np.asarray(weight, float)
    for d, x in enumerate(numeric.T):
        seen = ~np.isnan(x)
        found = levels.of_numbers(x[seen & (weight > 0)], weight[seen & (weight > 0)])
        share = found.weight / found.weight.sum()
        ends = norm.pdf(norm.ppf(np.append(0.0, np.minimum(np.cumsum(share), 1.0))))
        scores = (ends[:-1] - ends[1:]) / share
        out[seen, d] = scores[levels.codes_of_numbers(found, x[seen])]
    return out


def scores(numeric, weight):
    """z of every cell in steps of 2^-8."""
    z = np.empty(numeric.shape)
    for d, x in enumerate(numeric.T):
        seen = ~np.isnan(x)
        mean = np.sum(weight[seen] * x[seen]) / weight[seen].sum()
        deviation = np.sqrt(np.sum(weight[seen] * (x[seen] - mean) ** 2) / weight[seen].sum())
        z[:, d] = np.rint((x - mean) / deviation * 256) / 256
    return z


def squares(x, weight):
    """Sum of squares around the mean."""
    return (
        float(np.sum(weight * x * x) - np.sum(weight * x) ** 2 / np.sum(weight))
        if np.sum(weight) > 0
        else 0.0
    )


def pair_of_numbers(x, y, weight):
    """(gain, r, n)"""
    seen = ~np.isnan(x) & ~np.isnan(y)
    x, y, w = x[seen], y[seen], weight[seen]
    if not w.sum():
        return 0.0, 0.0, 0.0
    product = np.sum(w * x * y) - np.sum(w * x) * np.sum(w * y) / w.sum()
    r = product / np.sqrt((squares(x, w) + 1.0) * (squares(y, w) + 1.0))
    return -0.5 * w.sum() * log(1.0 - r * r), r, w.sum()


def pair_of_categories(a, b, weight, levels):
    """(gain, parameters); codes equal to the number of levels are missing."""
    seen = (a < levels[0]) & (b < levels[1])
    table = np.zeros(levels)
    np.add.at(table, (a[seen], b[seen]), weight[seen])
    gain = 0.0
    for i, j in np.argwhere(table > 0):
        gain += table[i, j] * log(table[i, j] * table.sum() / (table[i].sum() * table[:, j].sum()))
    counts = [np.bincount(x[x < T], weight[x < T], T) for x, T in ((a, levels[0]), (b, levels[1]))]
    counts = [own[own > 0] for own in counts]
    parameters = (len(counts[0]) - 1) * (len(counts[1]) - 1)
    for own, other in (counts, counts[::-1]):
        if len(other) >= MANY_LEVELS:
            cost = sum(automatic.log_constant(len(other), n) for n in own)
            cost -= automatic.log_constant(len(other), weight.sum())
            parameters = min(parameters, max(cost, 0.0) / (0.5 * log(weight.sum())))
    return gain, parameters


def category_and_number(a, x, weight, levels):
    """(gain, parameters)"""
    occurring = len(np.unique(a[(a < levels) & (weight > 0)]))
    seen = (a < levels) & ~np.isnan(x)
    a, x, w = a[seen], x[seen], weight[seen]
    within = sum(squares(x[a == t], w[a == t]) for t in range(levels) if w[a == t].sum() > 0)
    return 0.5 * w.sum() * log((squares(x, w) + 1.0) / (within + 1.0)), occurring - 1


def links(numeric, codes, n_levels, h, *, weight=None, of_weight=None):
    """What links save, and what each link of the best forest saves.

    Parameters
    ----------
    numeric : array (n, p)
        Columns that vary.
    codes : array (n, q)
    n_levels : sequence of q ints
    h : float
        Price of a parameter.
    weight : array (n,), optional
    of_weight : float, optional
        N, weight of the table the rows are sampled from.

    Returns
    -------
    saving : float
    forest : dict of (int, int) -> float
        By numbers of columns, numeric ones first.
    """
    n, p = numeric.shape
    D = p + codes.shape[1]
    weight = np.ones(n) if weight is None else np.asarray(weight, float)
    M = weight.sum()
    N = M if of_weight is None else of_weight
    z, name = scores(numeric, weight), log(D * (D - 1) / 2 + 1)

    def net(gain, parameters, name):
        price = parameters * h + name
        if M < N:
            price = max(price, N / M * (parameters * 0.5 * log(M) + name))
        return N / M * gain - price

    saves, correlation, least = {}, np.eye(p), np.inf
    for i, j in itertools.combinations(range(D), 2):
        if j < p:
            gain, correlation[i, j], both = pair_of_numbers(z[:, i], z[:, j], weight)
            correlation[j, i], least, parameters = correlation[i, j], min(least, both), 1
        elif i < p:
            gain, parameters = category_and_number(codes[:, j - p], z[:, i], weight, n_levels[j - p])
        else:
            gain, parameters = pair_of_categories(
                codes[:, i - p], codes[:, j - p], weight, (n_levels[i - p], n_levels[j - p])
            )
        saves[i, j] = net(gain, parameters, name)
    forest = heaviest_forest(saves, range(D))
    saving = sum(forest.values())
    if p > 2:
        least = min(least, *(weight[~np.isnan(x)].sum() for x in z.T))
        if np.linalg.eigvalsh(correlation)[0] > 0:
            together = net(-0.5 * least * np.linalg.slogdet(correlation)[1], p * (p - 1) / 2, 0.0)
        else:
            together = net(0.0, p * (p - 1) / 2, 0.0)
        saving = max(saving, together + sum(heaviest_forest(saves, [0] * p + list(range(p, D))).values()))
    return saving, forest


def heaviest_forest(saves, tree):
    """Kruskal's algorithm: links of positive saving, the largest first, between different trees; `tree`
    numbers those of the start.
    """
    tree, chosen = list(tree), {}
    for (i, j), value in sorted(saves.items(), key=lambda item: -item[1]):
        if value > 0 and tree[i] != tree[j]:
            chosen[i, j] = value
            tree = [tree[i] if t == tree[j] else t for t in tree]
    return chosen
