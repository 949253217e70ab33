"""Valleys between two clusters (craft_valley.pyx), against NumPy, which computes the discriminant anew
for every row.
"""

from __future__ import annotations

import numpy as np
import pytest

from craftc._kernels import craft_valley as kernel
from tests.reference import covariance as reference


def clusters(seed, n=(40, 55), P=3, apart=3.0):
    """Rows, weights and labels of three clusters; the first two are compared."""
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.repeat([4, 1, 2], [*n, 30])).astype(np.int32)
    z = rng.normal(size=(len(labels), P)) @ rng.normal(size=(P, P))
    z[:, 0] += apart * (labels == 1) + 100.0 * (labels == 2)
    return z, rng.integers(1, 4, len(labels)).astype(float), labels


def depth(z, weight, labels, fewest=0.0, extra=1.0):
    """By the kernel; `extra`: how often every row is in the clusters that the rows are sampled from."""
    w, Z = ([array[labels == k] for k in (4, 1)] for array in (weight, z))
    mean = np.array([a @ x / a.sum() for a, x in zip(w, Z, strict=True)])
    within = extra * sum((x - m).T @ (a[:, None] * (x - m)) for a, x, m in zip(w, Z, mean, strict=True))
    size = extra * np.array([a.sum() for a in w])
    n, P = size.sum(), z.shape[1]
    inverse = np.linalg.inv(within / n + (0.02 * np.trace(within) / n / P + 1e-9) * np.eye(P))
    return kernel.valley_depth(z, weight, labels, 4, 1, inverse, mean, size, fewest)


@pytest.mark.parametrize("P", [1, 2, 7])
@pytest.mark.parametrize("apart", [0.0, 2.0, 5.0, 40.0])
def test_depth_is_that_of_the_reference(P, apart):
    z, weight, labels = clusters(P, P=P, apart=apart)
    expected = reference.valley_depth(*([array[labels == k] for k in (4, 1)] for array in (weight, z)))
    assert depth(z, weight, labels) == pytest.approx(expected, rel=1e-8, abs=1e-200)


def test_a_hump_and_a_valley():
    assert depth(*clusters(0, apart=0.0)) > 0.7
    assert depth(*clusters(0, apart=8.0)) < 0.1


def test_a_small_cluster_has_no_valley():
    z, weight, labels = clusters(0, apart=8.0)
    rows = weight[labels == 4].sum()
    assert depth(z, weight, labels, rows) < 0.1
    assert depth(z, weight, labels, rows + 0.5) == 1.0


def test_equal_rows_have_no_valley():
    z, weight, labels = clusters(0)
    assert depth(np.ones_like(z), weight, labels) == 1.0


def test_rows_may_be_a_sample():
    z, weight, labels = clusters(0, apart=4.0)
    assert depth(z, weight, labels, extra=50.0) == pytest.approx(depth(z, weight, labels), rel=0.2)


@pytest.mark.parametrize("at", range(9))
def test_arguments_that_do_not_fit(at):
    z, weight, labels = clusters(0)
    arguments = [z, weight, labels, 4, 1, np.eye(3), np.zeros((2, 3)), np.ones(2), 0.0]
    wrong = [z[:, :2].copy(), weight[1:], labels[1:], 1, 4, np.eye(4), np.zeros((2, 2)), np.ones(3), "x"]
    arguments[at] = wrong[at]
    with pytest.raises((ValueError, TypeError)):
        kernel.valley_depth(*arguments)
