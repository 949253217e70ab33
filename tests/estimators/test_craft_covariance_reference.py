"""Covariances of CRAFT against the reference implementation: blocks, costs of rows, the whole last step."""

from __future__ import annotations

import numpy as np
import pytest

from tests.estimators.covariance_cases import clusters_of, slanted, table_of
from tests.reference import automatic, covariance


def problem_of(X, q, weight=None, **options):
    p = X.shape[1] - q
    return automatic.problem(X[:, :p], np.nan_to_num(X[:, p:], nan=3.0), [3] * q, weight=weight, **options)


def blocks_of(clusters):
    held = clusters.covariances
    return [held.cross.columns[block.astype(bool)].tolist() for block in held.block]


@pytest.mark.parametrize("form", ["auto", "full"])
@pytest.mark.parametrize("seed", range(8))
def test_blocks_and_costs_of_a_partition(seed, form):
    X, truth = slanted(seed, n=120, K=3, p=2 + seed % 4, q=seed % 2)
    q = seed % 2
    labels = truth if seed % 3 else np.random.default_rng(seed).integers(0, 3, len(X))
    labels = np.unique(labels, return_inverse=True)[1]
    t = problem_of(X, q)
    expected = covariance.state(t, labels, form == "full")
    clusters = clusters_of(table_of(X, q), labels, form)
    assert blocks_of(clusters) == [block.tolist() for block in expected.block]
    np.testing.assert_array_equal(clusters.mask.astype(bool), expected.mask)
    np.testing.assert_allclose(clusters.costs, expected.cost, rtol=1e-9, atol=1e-8)
    np.testing.assert_allclose(
        clusters.row_costs(table_of(X, q)), covariance.distances(t, expected), rtol=1e-7, atol=1e-8
    )


@pytest.mark.parametrize("seed", range(4))
def test_a_row_with_missing_cells_costs_the_marginal(seed):
    X, labels = slanted(seed, n=200, K=2, p=4, q=0)
    t, clusters = problem_of(X, 0), clusters_of(table_of(X), labels)
    assert any(len(block) > 2 for block in blocks_of(clusters))
    sparse = X.copy()
    sparse[np.random.default_rng(seed).random(X.shape) < 0.4] = np.nan
    sparse[0] = np.nan
    expected = covariance.state(t, labels)
    t.present = ~np.isnan(sparse)
    cells = np.where(t.present, t.Z, np.nan)
    found = clusters.row_costs(table_of(sparse))
    np.testing.assert_allclose(found, covariance.distances(t, expected, cells), rtol=1e-7, atol=1e-8)
    np.testing.assert_allclose(
        found[0], -np.log(clusters.moments.sizes / len(X))
    )  # nothing observed: the sizes alone


def test_the_reference_costs_are_a_density():
    """The cost of a block is minus the logarithm of a normal density with the prior's share, which no other
    parameters lower.
    """
    X, labels = slanted(1, n=90, K=1, p=3, q=0, noise=0)
    t = problem_of(X, 0)
    columns = np.arange(3)
    mean, sigma, S = covariance.fitted(t, t.rows, columns)
    best = covariance.block_cost(t, t.rows, columns)
    rng = np.random.default_rng(0)
    for _ in range(20):
        other_mean, root = (
            mean + 0.05 * rng.normal(size=3),
            np.linalg.cholesky(sigma) @ (np.eye(3) + 0.05 * rng.normal(size=(3, 3))),
        )
        other = root @ root.T
        inverse = np.linalg.inv(other)
        own = sum(covariance.marginal(z, other_mean, other) for z in t.Z)
        own += 0.5 * (np.trace(inverse) - 3 + np.linalg.slogdet(other)[1]) + 3 * automatic.unit_price(t.N)
        assert own > best
    assert len(labels) == S
