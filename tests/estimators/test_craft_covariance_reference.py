"""Covariances of CRAFT against the reference implementation: blocks, costs of rows, the whole last step."""

from __future__ import annotations

import numpy as np
import pytest

from tests.estimators.covariance_cases import clusters_of, encoding_of, problem_of, slanted, table_of
from tests.reference import automatic, covariance


def blocks_of(clusters):
    """Columns of every block, as positions among the columns of levels."""
    held = clusters.covariances
    levels = held.levels - clusters.moments.grid.p
    return [levels[block.astype(bool)].tolist() for block in held.block]


@pytest.mark.parametrize("form", ["auto", "full"])
@pytest.mark.parametrize("seed", range(8))
def test_blocks_and_costs_of_a_partition(seed, form):
    q = seed % 2
    X, truth = slanted(seed, n=120, K=3, p=2 + seed % 4, q=q)
    weight = np.random.default_rng(seed).integers(1, 4, len(X)) if seed % 4 == 2 else None
    labels = truth if seed % 3 else np.random.default_rng(seed).integers(0, 3, len(X))
    labels = np.unique(labels, return_inverse=True)[1]
    t = problem_of(X, q, weight)
    expected = covariance.state(t, labels, form == "full")
    table = table_of(X, q)
    given = () if weight is None else (weight,)
    clusters = clusters_of(table, labels, form, *given)
    assert blocks_of(clusters) == [block.tolist() for block in expected.block]
    p = clusters.moments.grid.p
    np.testing.assert_array_equal(clusters.mask[:, p:].astype(bool), expected.mask)
    assert clusters.objective == pytest.approx(expected.J, rel=1e-9)
    # the distribution of a pool is not that of one cluster: its last digits count
    np.testing.assert_allclose(clusters.costs, expected.cost, rtol=1e-7, atol=1e-7)
    found = clusters.row_costs(encoding_of(table, *given).apply(table))
    np.testing.assert_allclose(found, covariance.row_costs(t, expected), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("form", ["auto", "full"])
def test_columns_that_a_block_may_hold(form):
    """Complete numbers of at least 11 levels, ties and skewness or not."""
    rng = np.random.default_rng(4)
    common, n = rng.normal(size=(150, 1)), 150
    X = common + 0.5 * rng.normal(size=(n, 6))
    for d, T in ((1, 10), (2, 11)):
        X[:, d] = np.searchsorted(np.quantile(X[:, d], np.arange(1, T) / T), X[:, d])
    X[7, 3] = np.nan
    X[:, 4] = np.exp(2.0 * X[:, 4])
    X[:, 5] = np.maximum(X[:, 5], -0.5)
    labels = (rng.random(n) < 0.4).astype(int)
    t = problem_of(X)
    assert covariance.block_columns(t).tolist() == [0, 2, 4, 5]
    expected = covariance.state(t, labels, form == "full")
    clusters = clusters_of(table_of(X), labels, form)
    assert blocks_of(clusters) == [block.tolist() for block in expected.block]
    assert any(blocks_of(clusters))
    assert clusters.objective == pytest.approx(expected.J, rel=1e-9)
    found = clusters.row_costs(encoding_of(table_of(X)).apply(table_of(X)))
    np.testing.assert_allclose(found, covariance.row_costs(t, expected), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("seed", range(4))
def test_a_row_with_missing_cells_costs_the_marginal(seed):
    X, labels = slanted(seed, n=200, K=2, p=4, q=0)
    t, clusters = problem_of(X), clusters_of(table_of(X), labels)
    assert any(len(block) > 2 for block in blocks_of(clusters))
    sparse = X.copy()
    sparse[np.random.default_rng(seed).random(X.shape) < 0.4] = np.nan
    expected = covariance.row_costs(t, covariance.state(t, labels), ~np.isnan(sparse))
    found = clusters.row_costs(encoding_of(table_of(X)).apply(table_of(sparse)))
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)


def test_a_row_without_cells_costs_its_label():
    X, labels = slanted(0, n=200, K=2, p=4, q=0)
    clusters = clusters_of(table_of(X), labels)
    assert any(blocks_of(clusters))
    sparse = X.copy()
    sparse[0] = np.nan
    found = clusters.row_costs(encoding_of(table_of(X)).apply(table_of(sparse)))
    np.testing.assert_allclose(found[0], -np.log(clusters.moments.sizes / len(X)))


def test_the_reference_costs_are_a_density():
    """The cost of a block is minus the logarithm of a normal density with the prior's share, which no other
    parameters lower.
    """
    X, labels = slanted(1, n=90, K=1, p=3, q=0, noise=0)
    t = problem_of(X)
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
        own = sum(covariance.row_cost(z, v, other_mean, other) for z, v in zip(t.z, t.v, strict=True))
        own += 0.5 * (np.trace(inverse) - 3 + np.linalg.slogdet(other)[1]) + 3 * automatic.unit_price(t.N)
        assert own > best
    assert len(labels) == S
