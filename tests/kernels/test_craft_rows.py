"""Rows under a fitted mixture (craft_rows.pyx) against NumPy."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from scipy.special import logsumexp, softmax

from craftc._kernels import craft_rows as kernel
from tests.common import assert_same_bits
from tests.kernels.test_craft_buffers import guarded, untouched


def costs_of(n, K, seed=0):
    """(n, K) costs with ties, far clusters and a few in reach."""
    rng = np.random.default_rng([seed, n, K])
    costs = rng.normal(scale=3.0, size=(n, K)).round(1)
    costs[rng.random(costs.shape) < 0.3] += 800.0
    return costs


def cheapest(costs):
    n = len(costs)
    labels, least, second = np.empty(n, np.int32), np.empty(n), np.empty(n)
    kernel.cheapest(costs, labels, least, second)
    return labels, least, second


@pytest.mark.parametrize("n", [0, 1, 300])
@pytest.mark.parametrize("K", [1, 2, 7, 8, 9, 16, 70])
def test_cheapest_clusters(n, K):
    costs = costs_of(n, K)
    labels, least, second = cheapest(costs)
    ordered = np.sort(np.column_stack([costs, np.full(n, np.inf)]), axis=1)
    np.testing.assert_array_equal(labels, costs.argmin(axis=1))
    np.testing.assert_array_equal(least, ordered[:, 0])
    np.testing.assert_array_equal(second, ordered[:, 1])


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n", [0, 1, 300])
@pytest.mark.parametrize("K", [1, 2, 7, 8, 9, 16, 70])
def test_probabilities(n, K, weighted):
    costs = costs_of(n, K, 1)
    least = costs.min(axis=1, initial=np.inf)
    weight = np.random.default_rng(2).uniform(0.0, 3.0, n) if weighted else np.empty(0)
    (total, of_total), (spread, of_spread) = guarded(n), guarded(n)
    sizes = kernel.probabilities(costs, least, weight, total, spread)
    probabilities = softmax(-costs, axis=1)
    entropy = -np.sum(probabilities * np.log(np.maximum(probabilities, 1e-300)), axis=1)
    np.testing.assert_allclose(np.log(total) - least, logsumexp(-costs, axis=1), rtol=0, atol=1e-12)
    np.testing.assert_allclose(np.log(total) - spread / total, entropy, rtol=0, atol=1e-12)
    times = weight[:, None] if weighted else 1.0
    expected = times * probabilities * 2.0**20
    np.testing.assert_allclose(sizes, expected.sum(axis=0), rtol=0, atol=0.51 * max(np.sum(weight), n))
    if not weighted:
        assert (sizes == np.rint(sizes)).all()
        assert abs(sizes.sum() - n * 2.0**20) <= 0.51 * n * K
    assert untouched(total, of_total)
    assert untouched(spread, of_spread)


def test_a_weight_of_two_is_a_repeated_row():
    costs = costs_of(40, 5)
    least, nothing = costs.min(axis=1), np.empty(0)
    twice = kernel.probabilities(costs, least, np.full(40, 2.0), np.empty(40), np.empty(40))
    repeated = np.repeat(costs, 2, axis=0)
    both = kernel.probabilities(repeated, np.repeat(least, 2), nothing, np.empty(80), np.empty(80))
    np.testing.assert_array_equal(twice, both)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("code", [np.uint8, np.uint16])
def test_cells_are_counted(dtype, code):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(50, 4)).astype(dtype)
    X[rng.random(X.shape) < 0.3] = np.nan
    n_levels = np.array([3, 5, 2])
    codes = rng.integers(0, n_levels + 1, size=(50, 3)).astype(code)
    counted = np.array([1, 0, 1, 1], np.uint8)
    (seen, of_seen), (absent, of_absent) = guarded(50, np.int64), guarded(50, np.int64)
    kernel.count_cells(X, codes, counted, n_levels, seen, absent)
    missing = np.isnan(X)[:, counted > 0]
    np.testing.assert_array_equal(seen, (~missing).sum(axis=1))
    np.testing.assert_array_equal(absent, missing.sum(axis=1) + (codes == n_levels).sum(axis=1))
    assert untouched(seen, of_seen)
    assert untouched(absent, of_absent)


def test_wrong_arguments():
    costs, short = costs_of(5, 3), np.empty(4)
    of_rows = np.empty(5)
    with pytest.raises(ValueError, match="costs"):
        kernel.cheapest(np.empty((5, 0)), np.empty(5, np.int32), of_rows, of_rows)
    with pytest.raises(ValueError, match="labels, least or second"):
        kernel.cheapest(costs, np.empty(5, np.int32), of_rows, short)
    with pytest.raises(ValueError, match="weight"):
        kernel.probabilities(costs, of_rows, short, of_rows, of_rows)
    with pytest.raises(ValueError, match="least, total or spread"):
        kernel.probabilities(costs, short, np.empty(0), of_rows, of_rows)
    X, codes, counts = np.zeros((5, 2)), np.zeros((5, 1), np.uint8), np.empty(5, np.int64)
    good = {
        "counted": np.ones(2, np.uint8),
        "n_levels": np.ones(1, np.intp),
        "seen": counts,
        "absent": counts,
    }
    for name in good:
        with pytest.raises(ValueError, match=name):
            kernel.count_cells(X, codes, **(good | {name: good[name][:-1]}))


def digest():
    made = hashlib.sha256()
    for K in (1, 7, 16, 70):
        costs = costs_of(200, K, 4)
        least = costs.min(axis=1)
        total, spread = np.empty((2, 200))
        sizes = kernel.probabilities(costs, least, np.linspace(0.0, 2.0, 200), total, spread)
        for part in (*cheapest(costs), sizes, total, spread):
            made.update(part.tobytes())
    return made.hexdigest()


@pytest.mark.slow
@pytest.mark.parametrize("instructions", ["v3", "v4"])
def test_instruction_sets_give_the_same_bits(instructions):
    assert_same_bits(__name__, instructions)
