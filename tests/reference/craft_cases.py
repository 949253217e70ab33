"""Tables and partitions as the reference implementations of CRAFT take them."""

from __future__ import annotations

import numpy as np

from craftc.datasets import make_subspaces
from tests.common import random_table
from tests.reference import automatic, craft


def random_case(seed, **shape):
    """A table as the reference implementation takes it, a start partition, and a price."""
    table, rng = random_table(seed, **shape), np.random.default_rng(seed)
    n_levels = [int(number) for number in table.n_levels]
    labels = rng.integers(int(rng.integers(1, 6)), size=table.n_rows)
    options = {"price": float(rng.uniform(0.5, 15.0)), "fraction": float(rng.uniform(0.15, 1.0))}
    options["price"] += table.shape[1] * craft.price_terms(options["fraction"])[0]
    return (table.numeric, table.codes.astype(int), n_levels, labels), options


def mixed_table(seed, *, n=120, K=4, p=4, q=4, irrelevant=2, shift=3.0, purity=0.8, missing=0.0):
    """Clusters in p numeric and q categorical columns, and irrelevant ones of either kind."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(K, size=n)
    numeric = rng.normal(size=(n, p + irrelevant))
    numeric[:, :p] += shift * rng.normal(size=(K, p))[truth]
    codes = rng.integers(4, size=(n, q + irrelevant))
    own = rng.random((n, q)) < purity
    codes[:, :q] = np.where(own, rng.integers(4, size=(K, q))[truth], codes[:, :q])
    numeric[rng.random(numeric.shape) < missing] = np.nan
    codes[rng.random(codes.shape) < missing] = 4
    return (numeric, codes, [4] * codes.shape[1]), truth


def partition(table, labels, **options):
    """A problem, labels 0..K-1 of its rows, and the sums of the clusters."""
    t = automatic.problem(*table, **options)
    labels = np.unique(np.asarray(labels)[t.rows], return_inverse=True)[1]
    return t, labels, automatic.sums(t, t.rows, labels, labels.max() + 1)


def subspaces(layout, seed):
    """The paper's table under its true labels, and the true masks."""
    bunch = make_subspaces(layout, random_state=seed)
    none = np.empty((len(bunch.data), 0))
    binary = layout in ("2a", "4a")
    table = (
        (none, bunch.data.astype(int), [2] * bunch.data.shape[1])
        if binary
        else (bunch.data, none.astype(int), [])
    )
    t, _, stats = partition(table, bunch.target)
    return t, stats, bunch.feature_mask
