"""CRAFT on columns of levels: the reference implementation of the problem and of J from the table.

A category has its level shares in each cluster, p_d = (levels that occur) - 1. A number, an ordered category
and a period have a tilt of the table's own shares, p_d = 2 (1 if z^2 is a function of z on the levels
that occur; one more with an atom), if at least three levels occur; with two they are categories. A column of
fewer is not usable. See `tests.reference.levels`. With one cluster J is the entropy of the columns, whatever
their shape, and the price of the cluster, so that no partition of independent columns is shorter:

    sum_d I(labels; x_d) <= I(labels; x) <= H(labels), and H(labels) is what the labels cost.

The objective with the pooled background, its masks, passes and moves are those of `tests.reference.pooled`,
on ``t = tilted.problem(...)``.
"""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
from scipy.optimize import minimize

from tests.reference import automatic, forms, levels, pooled


def problem(codes, n_levels, scores, *, weight=None, price_factor=1.0):
    """The table as a design of level indicators, its background and prices, in one namespace.

    Parameters
    ----------
    codes : array (n, q) of int
        ``n_levels[d]`` where a cell is missing.
    n_levels : list of int
    scores : list
        For each column None (category), z (T,) (number, ordered category) or (cos, sin) (T, 2) (period).
    weight : array (n,), optional
        Rows of weight 0 count nowhere.

    Returns
    -------
    namespace
        As of `tests.reference.automatic.problem`: ``rows``, ``weight``, ``N``, ``D``, ``design``, ``forms``,
        ``parameters``, ``l0`` (the entropy of the columns), ``price_factor``; ``columns``: the usable ones,
        in their order, which are those of masks.
    """
    codes = np.asarray(codes, int)
    weight = np.ones(len(codes)) if weight is None else np.asarray(weight, float)
    t = SimpleNamespace(weight=weight, rows=np.flatnonzero(weight > 0.0), N=float(weight.sum()))
    t.price_factor, t.l0, t.forms, t.columns = price_factor, 0.0, [], []
    design = [np.ones((len(codes), 1))]
    for d, T in enumerate(n_levels):
        member = (codes[:, d, None] == np.arange(T)).astype(float)
        counts = weight @ member
        occurs = counts > 0.0
        if np.count_nonzero(occurs) < 2:
            continue
        b = counts / counts.sum()
        t.l0 -= counts[occurs] @ np.log(b[occurs])
        first = sum(part.shape[1] for part in design)
        if is_tilted(scores[d], occurs):
            t.forms.append(forms.Tilt(member, b, np.arange(first, first + T), scores[d]))
        else:
            member, b = member[:, occurs], b[occurs]
            t.forms.append(forms.Shares(member, b, np.arange(first, first + len(b))))
        t.columns.append(d)
        design.append(member)
    t.design, t.columns, t.D = np.hstack(design), np.array(t.columns, int), len(t.forms)
    t.parameters = np.array(
        [
            automatic.priced_shares(len(form.b), t.N) if isinstance(form, forms.Shares) else form.parameters
            for form in t.forms
        ],
        float,
    )
    return t


def is_tilted(scores, occurs):
    return scores is not None and np.count_nonzero(occurs) >= 3


def objective_of_rows(codes, n_levels, scores, labels, mask, *, weight=None, price_factor=1.0):
    """J from the table: every cell under the distribution of its group, the priors, the prices.

    ``labels`` are those of all rows, 0..K-1, each on some row of positive weight; ``mask`` (K, D) is that of
    the usable columns. Nothing is measured against the whole table, and tilts are fitted to raw
    scores by a general optimiser.
    """
    codes = np.asarray(codes, int)
    weight = np.ones(len(codes)) if weight is None else np.asarray(weight, float)
    shares = [levels.shares(codes[:, d], T, weight) for d, T in enumerate(n_levels)]
    usable = [d for d, b in enumerate(shares) if np.count_nonzero(b) >= 2]

    def cost(place, rows):
        d = usable[place]
        counts = np.zeros(n_levels[d])
        for n in rows:
            if codes[n, d] < n_levels[d]:
                counts[codes[n, d]] += weight[n]
        occurs = shares[d] > 0.0
        z = scores[d][occurs] if is_tilted(scores[d], occurs) else None
        return group_cost(counts[occurs], shares[d][occurs], z)

    parameters = [count_parameters(shares[d], scores[d], weight.sum()) for d in usable]
    return pooled.objective_of_groups(labels, weight.tolist(), mask, parameters, cost, price_factor)


def count_parameters(b, scores, N):
    """p_d of a column with these shares in a table of N rows, as it is priced."""
    occurs = b > 0.0
    if not is_tilted(scores, occurs):
        return automatic.priced_shares(np.count_nonzero(occurs), N)
    return levels.statistics(scores, b).shape[1]


def group_cost(counts, b, scores):
    """Cost of cells, whose levels all occur, under the distribution fitted to them, and of the prior row."""
    cells, total = counts + b, counts.sum() + 1.0
    if scores is None:
        return -counts @ np.log(cells / total) + b @ np.log(b / (cells / total))
    r = levels.raw_statistics(scores)
    r = r / np.abs(r).max(axis=0)
    observed = cells @ r / total

    def distribution(theta):
        p = b * np.exp(r @ theta - (r @ theta).max())
        return p / p.sum()

    def value(theta):
        p = distribution(theta)
        mean = p @ r
        logs = (
            r @ theta
            + np.log(b)
            - (r @ theta).max()
            - np.log(np.sum(b * np.exp(r @ theta - (r @ theta).max())))
        )
        return -(cells @ logs) / total, mean - observed, (r.T * p) @ r - np.outer(mean, mean)

    theta = minimize(
        lambda x: value(x)[:2],
        np.zeros(r.shape[1]),
        jac=True,
        hess=lambda x: value(x)[2],
        method="trust-exact",
        options={"gtol": 1e-12, "maxiter": 500, "max_trust_radius": 1e9},
    ).x
    return total * value(theta)[0] + b @ np.log(b)  # the cells and the row of the prior under p; its entropy
