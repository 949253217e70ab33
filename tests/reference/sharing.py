"""The code of the masks between local and global selection, and the masks of least cost, by enumeration.

A fourth of a code: with s = ``sharing`` masks (K, D) cost

    (1 - s) sum_k [log(D + 1) + log C(D, q_k)]  -  s log integral_0^1 prod_d B_m(c_d) dm

where c_d clusters select column d and B_m(c) is the probability that a given set of c of K clusters selects
a column whose selections have a beta-Bernoulli distribution of mean m and correlation s. The integral is
computed by adaptive quadrature.
"""

from __future__ import annotations

from itertools import product

import numpy as np
from scipy.integrate import quad
from scipy.special import betaln, gammaln

from tests.reference import pooled


def log_choose(n, q):
    return gammaln(n + 1) - gammaln(q + 1) - gammaln(n - q + 1)


def log_set_probability(K, c, m, s):
    """log B_m(c) for 0 < s < 1."""
    a, b = m * (1.0 - s) / s, (1.0 - m) * (1.0 - s) / s
    return betaln(a + c, b + K - c) - betaln(a, b)


def column_code(mask, s):
    """- log integral_0^1 prod_d B_m(c_d) dm."""
    K, D = np.shape(mask)
    c = np.sum(mask, axis=0)
    if s == 1.0:
        q = np.count_nonzero(c)
        return np.log(D + 1.0) + log_choose(D, q) if set(c.tolist()) <= {0, K} else np.inf
    if s == 0.0:  # independent: one Bernoulli sequence of K D cells
        return np.log(K * D + 1.0) + log_choose(K * D, c.sum())

    def probability(m):
        return np.exp(sum(log_set_probability(K, each, m, s) for each in c))

    return -np.log(quad(probability, 0.0, 1.0, limit=200)[0])


def local_code(mask):
    """sum_k log(D + 1) + log C(D, q_k)."""
    K, D = np.shape(mask)
    return K * np.log(D + 1.0) + log_choose(D, np.sum(mask, axis=1)).sum()


def code(mask, s):
    """Cost of masks in nats."""
    local = (1.0 - s) * local_code(mask) if s < 1.0 else 0.0
    return local + (s * column_code(mask, s) if s > 0.0 else 0.0)


def objective(t, stats, mask, s):
    """J of clusters known by their sums."""
    return pooled.objective(t, stats, mask) - local_code(mask) + code(mask, s)


def best_masks(t, stats, s):
    """(J, mask) of the least J over all masks: small K and D only. Ties go to the heaviest rest."""
    K, S = len(stats), stats[:, 0]
    base = pooled.objective(t, stats, np.zeros((K, t.D), bool)) - local_code(np.zeros((K, t.D)))
    choices = [np.array(choice, bool) for choice in product((False, True), repeat=K)]
    none = np.zeros(K, bool)
    values = []
    for column in pooled.columns_of(t, stats):
        nothing = pooled.column_value(t, column, none, np.full(K, column.price))
        values.append(
            [pooled.column_value(t, column, chosen, np.full(K, column.price)) - nothing for chosen in choices]
        )
    best, weight, found, known = np.inf, 0.0, None, {}
    for picked in product(range(len(choices)), repeat=t.D):
        mask = np.array([choices[i] for i in picked]).T.reshape(K, t.D)
        counts = tuple(sorted(mask.sum(axis=0).tolist()))
        if s > 0.0 and counts not in known:
            known[counts] = s * column_code(mask, s)
        J = base + sum(values[d][i] for d, i in enumerate(picked)) + known.get(counts, 0.0)
        J += (1.0 - s) * local_code(mask) if s < 1.0 else 0.0
        rest = float(S @ (~mask).sum(axis=1))
        if pooled.is_better(J, rest, best, weight):
            best, weight, found = J, rest, mask
    return best, found


# ---- PaperCRAFT: a column that c of K clusters select costs the excess of its code over a straight line ----


def excess(K, m, s):
    """(K + 1,) - log B_m(c), less the straight line through c = 0 and c = K."""
    code = -log_set_probability(K, np.arange(K + 1), m, s)
    return code - (code[0] + (code[K] - code[0]) * np.arange(K + 1) / K)


def paper_cost(mask, gains, f_delta, m, s):
    """What masks (K, D) cost, less the gains (K, D) of the selected features."""
    c = mask.sum(axis=0)
    if s == 1.0 and not np.isin(c, (0, len(mask))).all():
        return np.inf
    own = ((f_delta - gains) * mask).sum()
    return own + (excess(len(mask), m, s)[c].sum() if 0.0 < s < 1.0 else 0.0)


def paper_best(gains, allowed, f_delta, m, s):
    """(cost, mask) of least cost of all masks whose rows are in `allowed` (n, D)."""
    masks = (allowed[list(rows)] for rows in product(range(len(allowed)), repeat=len(gains)))
    return min(((paper_cost(mask, gains, f_delta, m, s), mask) for mask in masks), key=lambda each: each[0])
