"""The rows that start the k-means of the mixture, against the definition: k-means++ with trials, then
exchanges.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from craftc._common.random import uniform
from craftc._kernels.mixture_start import seed_rows
from tests.common import examples


def potential(X, weight, centres):
    """The weighted sum of squared distances to the closest centre."""
    return float(weight @ ((X[:, None] - X[centres]) ** 2).sum(axis=2).min(axis=1))


def drawn(mass, draw):
    running = np.cumsum(mass)
    return (
        None
        if running[-1] <= 0
        else min(int(np.searchsorted(running, draw * running[-1], side="right")), np.flatnonzero(mass)[-1])
    )


def reference(X, weight, draws, K, trials, exchanges, spread):
    """Every potential from scratch."""
    draws, centres = iter(draws), []

    def mass(by_distance):
        if not centres:
            return weight
        near = ((X[:, None] - X[centres]) ** 2).sum(axis=2).min(axis=1)
        return weight * near if by_distance else weight * (near > 0)

    for k in range(K):
        tried = [drawn(mass(spread), next(draws)) for _ in range(trials if k else 1)]
        if tried[0] is None:
            return centres
        centres.append(min(tried, key=lambda row: potential(X, weight, [*centres, row])))
    for _ in range(exchanges if K > 1 else 0):
        row = drawn(mass(True), next(draws))
        if row is None:
            return centres
        changed = [[*centres[:k], row, *centres[k + 1 :]] for k in range(K)]
        best = min(changed, key=lambda rows: potential(X, weight, rows))
        if potential(X, weight, best) < potential(X, weight, centres) * (1 - 1e-9):
            centres = best
    return centres


def seeds(X, weight, draws, K, trials, exchanges, spread=True):
    return seed_rows(np.ascontiguousarray(X.T), weight, draws, K, trials, exchanges, spread)


@examples(200)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(0, 40),
    D=st.integers(0, 9),
    K=st.integers(1, 12),
    trials=st.integers(1, 4),
    exchanges=st.integers(0, 20),
    spread=st.booleans(),
    distinct=st.booleans(),
)
def test_rows_of_the_definition(seed, n, D, K, trials, exchanges, spread, distinct):
    rng = np.random.default_rng(seed)
    X, weight = rng.normal(size=(n, D)), rng.gamma(1.0, 1.0, n) * (rng.random(n) < 0.9)
    if not distinct and n:
        X = X[rng.integers(0, max(1, n // 4), n)]
    draws = rng.random(1 + (K - 1) * trials + exchanges)
    ours, theirs = seeds(X, weight, draws, K, trials, exchanges, spread).tolist(), []
    if n:
        theirs = reference(X, weight, draws, K, trials, exchanges, spread)
    assert len(ours) == len(theirs)
    assert not n or potential(X, weight, ours or [0]) == pytest.approx(
        potential(X, weight, theirs or [0]), rel=1e-9, abs=1e-9
    )
    if distinct and D:
        assert ours == theirs
    assert len(np.unique(X[ours], axis=0)) == len(ours)


def test_trials_and_exchanges_find_all_clusters():
    """30 clusters: one trial misses some, and trials with exchanges none, for every seed."""
    rng = np.random.default_rng(0)
    z, weight, missed = np.arange(1800) % 30, np.ones(1800), []
    X = 4 * rng.normal(size=(30, 8))[z] + rng.normal(size=(1800, 8))
    for trials, exchanges in ((1, 0), (3, 30)):
        draws = [uniform(seed, 1, np.arange(1 + 29 * trials + exchanges)) for seed in range(10)]
        missed.append(
            [30 - len(np.unique(z[seeds(X, weight, each, 30, trials, exchanges)])) for each in draws]
        )
    assert min(missed[0]) > 0 == max(missed[1])


def test_exchanges_never_raise_the_potential():
    rng = np.random.default_rng(0)
    X, weight, draws = rng.normal(size=(300, 3)), rng.gamma(1.0, 1.0, 300), rng.random(1 + 19 * 2 + 40)
    values = [
        potential(X, weight, seeds(X, weight, draws[: 39 + exchanges], 20, 2, exchanges))
        for exchanges in range(41)
    ]
    assert (np.diff(values) <= 1e-9 * values[0]).all()
    assert values[-1] < values[0]


@pytest.mark.parametrize(
    "wrong",
    [
        {"cells": np.zeros(6)},
        {"cells": np.zeros((6, 2)).T},
        {"cells": np.zeros((2, 6), np.float32)},
        {"weight": np.ones(5)},
        {"draws": np.zeros(3)},
        {"draws": np.zeros((5, 1))},
        {"K": 0},
        {"K": -1},
        {"K": 4},
        {"trials": 0},
        {"trials": 2**62},
        {"exchanges": -1},
        {"exchanges": 3},
        {"K": 2**31 + 1, "trials": 2**33},
    ],
)
def test_what_it_refuses(wrong):
    arguments = {
        "cells": np.zeros((2, 6)),
        "weight": np.ones(6),
        "draws": np.zeros(5),
        "K": 3,
        "trials": 2,
        "exchanges": 0,
    } | wrong
    with pytest.raises((ValueError, TypeError), match=r"kernel|contiguous"):
        seed_rows(*arguments.values(), True)
