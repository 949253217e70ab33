"""The shortest description of a small table: all partitions of its rows, each with its best masks.

Works on the problems of `tests.reference.pooled`. A row of weight w stands for w equal rows. The shortest
partition of these repeated rows keeps equal rows together: given the masks and the distributions of any
partition, the costs of a row are the same for all its copies, and with all of them in the cheapest
cluster neither the cells nor, after a new fit, anything else costs more; a cluster that loses all rows
takes its price along.
"""

from __future__ import annotations

from functools import cache
from itertools import product
from types import SimpleNamespace

import numpy as np

from tests.reference import automatic, pooled


@cache
def all_partitions(n):
    """Labels (Bell(n), n) of all partitions of n rows, numbered by first appearance."""
    found = np.zeros((1, 1), int)
    for _ in range(1, n):
        top = found.max(axis=1)
        rows = np.repeat(np.arange(len(found)), top + 2)
        own = np.concatenate([np.arange(t + 2) for t in top])
        found = np.column_stack([found[rows], own])
    return found


@cache
def all_choices(K):
    """(2^K, K) of 0 and 1."""
    return np.array(list(product((0, 1), repeat=K)))


def subset_gains(t):
    """g (D, 2^n) of every subset of the n rows, the gain of none is 0; weight (2^n,) of the subsets."""
    n = len(t.rows)
    subsets = (np.arange(2**n)[:, None] >> np.arange(n)) & 1
    stats = subsets @ (t.weight[t.rows, None] * t.design[t.rows])
    return pooled.gains(t, stats).T, stats[:, 0]


def global_minimum(t, *, every=False, n_clusters=None):
    """The least J over all partitions of the rows of a problem and all masks.

    Exact. The gains of all subsets of rows are computed once. In a partition, a column with its 2^K choices
    of selecting clusters is independent of the other columns but for log C(D, q_k), which is not
    negative: the sum of the columns' least values is a lower bound of J, and these choices together attain
    an upper one. What a choice adds to the least value of its column cannot be more than the
    distance between the bounds; the choices that are left are combined column by column, with the
    best sum for every vector of counts q.

    Parameters
    ----------
    every : bool
        Find the least J of every partition. Otherwise only of those whose lower bound is below the
        least upper bound.
    n_clusters : int, optional
        Only the partitions into this number of clusters.

    Returns
    -------
    namespace
        ``J``, ``labels`` (n,) of ``t.rows`` and ``mask`` (K, D) of the minimum; ``partitions``;
        ``lower``, ``upper``: bounds of the least J of each partition, equal where it is found.
    """
    g, weight = subset_gains(t)
    h = automatic.unit_price(t.N, t.price_factor)
    price, choose = t.parameters * h, automatic.log_choose(t.D)
    partitions = all_partitions(len(t.rows))
    if n_clusters is not None:
        partitions = partitions[partitions.max(axis=1) + 1 == n_clusters]
    lower, upper = np.empty(len(partitions)), np.empty(len(partitions))
    kept = [None] * len(partitions)
    n_blocks = partitions.max(axis=1) + 1
    for K in np.unique(n_blocks):
        of_size = np.flatnonzero(n_blocks == K)
        member = partitions[of_size, None] == np.arange(K)[:, None]
        blocks = member @ (1 << np.arange(len(t.rows)))  # (m, K) subsets of rows
        S, choices = weight[blocks], all_choices(K)
        pool = blocks @ (1 - choices).T  # (m, 2^K)
        base = t.l0 + K * pooled.naming(t)[0] + K * h - (S * np.log(S / t.N)).sum(axis=1)
        value = (price[:, None] - g[:, blocks].swapaxes(0, 1)) @ choices.T  # (m, D, 2^K)
        value -= np.where(pool[:, None] == 0, price[:, None], g[:, pool].swapaxes(0, 1))
        least = value.argmin(axis=2)
        lower[of_size] = base + value.min(axis=2).sum(axis=1)
        upper[of_size] = lower[of_size] + choose[choices[least].sum(axis=1)].sum(axis=1)
        for i, own in zip(of_size, zip(base, value, strict=True), strict=True):
            kept[i] = own
    best = None
    for i in np.argsort(lower, kind="stable"):
        slack = (upper[i] if every or best is None else min(upper[i], best.J)) - lower[i]
        if slack < -pooled.unit_of(lower[i]):
            break
        found = least_sum(kept[i][1], choose, slack)
        if found is None:
            continue  # not shorter than the best partition
        lower[i] = upper[i] = kept[i][0] + found[0]
        if best is None or (upper[i], i) < (best.J, best.i):
            best = SimpleNamespace(J=upper[i], i=i, labels=partitions[i], mask=found[1])
    best.partitions, best.lower, best.upper = partitions, lower, upper
    return best


def least_sum(value, choose, slack):
    """The least sum of a choice in every column and of log C(D, q), and the mask; None if it exceeds the sum
    of the columns' least values by more than ``slack``.

    ``value`` (D, 2^K): of the choices of each column.
    """
    D, K = len(value), value.shape[1].bit_length() - 1
    choices, excess = all_choices(K), value - value.min(axis=1, keepdims=True)
    slack = slack + 1e-9 * max(1.0, np.abs(value).max(initial=0.0))
    unit = (D + 1) ** np.arange(K)  # a vector of counts as one number
    name, total, history = np.zeros(1, int), np.zeros(1), np.empty((1, 0), int)
    for d in range(D):
        left = np.flatnonzero(excess[d] <= slack)
        sums = total[:, None] + excess[d, left]
        row, column = np.nonzero(sums <= slack)
        names = name[row] + (choices @ unit)[left[column]]
        order = np.lexsort((sums[row, column], names))
        first = order[np.flatnonzero(np.diff(names[order], prepend=-1))]
        name, total = names[first], sums[row, column][first]
        history = np.column_stack([history[row[first]], left[column[first]]])
    q = name[:, None] // unit % (D + 1)
    total = total + choose[q].sum(axis=1)
    i = total.argmin()
    if total[i] > slack:
        return None
    mask = choices[history[i]].T.astype(bool).reshape(K, D)
    return total[i] + value.min(axis=1).sum(), mask
