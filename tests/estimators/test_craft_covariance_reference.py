"""Covariances of CRAFT against the reference implementation: blocks, costs of rows, the whole last step."""

from __future__ import annotations

import numpy as np
import pytest

from craftc.craft.products import common_factors
from tests.estimators.covariance_cases import clusters_of, encoding_of, problem_of, slanted, table_of
from tests.reference import automatic, covariance


def blocks_of(clusters):
    """Columns of every block, as positions among the columns of levels."""
    held = clusters.covariances
    levels = held.levels - clusters.moments.grid.p
    return [levels[block.astype(bool)].tolist() for block in held.block]


def choice_of(expected):
    """The bits of `Clusters.choice` over the columns of levels."""
    bits = expected.choice[0].astype(np.uint8)
    for k, block in enumerate(expected.block):
        bits[k, block] |= 2
    return bits


def assert_same(clusters, expected, t, rows):
    assert blocks_of(clusters) == [block.tolist() for block in expected.block]
    p = clusters.moments.grid.p
    np.testing.assert_array_equal(clusters.mask[:, p:].astype(bool), expected.mask)
    np.testing.assert_array_equal(clusters.choice[:, p:], choice_of(expected))
    assert clusters.objective == pytest.approx(expected.J, rel=1e-9)
    # the distribution of a pool is not that of one cluster: its last digits count
    np.testing.assert_allclose(clusters.costs, expected.cost, rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(
        clusters.row_costs(rows), covariance.row_costs(t, expected), rtol=1e-6, atol=1e-6
    )


@pytest.mark.slow_except(16)
@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("form", ["auto", "full"])
@pytest.mark.parametrize("missing", [0.0, 0.1])
@pytest.mark.parametrize("seed", range(8))
def test_blocks_and_costs_of_a_partition(seed, missing, form, tied):
    q = seed % 2
    X, truth = slanted(seed, n=120, K=3, p=2 + seed % 4, q=q)
    numbers = X[:, : X.shape[1] - q]
    numbers[np.random.default_rng(seed).random(numbers.shape) < missing] = np.nan
    weight = np.random.default_rng(seed).integers(1, 4, len(X)) if seed % 4 == 2 else None
    labels = truth if seed % 3 else np.random.default_rng(seed).integers(0, 3, len(X))
    labels = np.unique(labels, return_inverse=True)[1]
    t = problem_of(X, q, weight)
    expected = covariance.state(t, labels, full=form == "full", tied=tied)
    table = table_of(X, q)
    given = {} if weight is None else {"weight": weight}
    clusters = clusters_of(table, labels, form, tied=tied, **given)
    assert_same(clusters, expected, t, encoding_of(table, **given).apply(table))


def agreed_state(rng, X, labels, weighted, missing, tied):
    """The state of the reference, that of the code once it is the same, when chosen and when kept; a share of
    the cells is removed before.
    """
    weight = rng.integers(1, 3, len(X)) if weighted else None
    X[rng.random(X.shape) < missing] = np.nan
    t, given = problem_of(X, 0, weight), {} if weight is None else {"weight": weight}
    expected = covariance.state(t, labels, tied=tied)
    clusters = clusters_of(table_of(X), labels, tied=tied, **given)
    assert_same(clusters, expected, t, encoding_of(table_of(X), **given).apply(table_of(X)))
    again = clusters_of(table_of(X), labels, tied=tied, choice=clusters.choice, keep=True, **given)
    assert again.objective == clusters.objective
    return expected


@pytest.mark.parametrize("missing", [0.0, 0.1])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_factors_that_all_clusters_share(seed, weighted, missing):
    """Of eleven columns six have a factor and three another one, or the first alone."""
    rng, n = np.random.default_rng(seed), 150
    labels = np.unique(rng.integers(0, 3, n), return_inverse=True)[1]
    X = rng.normal(size=(n, 11))
    X[:, :6] += rng.normal(size=(n, 1)) + 2.0 * rng.normal(size=(3, 6))[labels]
    X[:, 6:9] += (2.0 if seed else 0.0) * rng.normal(size=(n, 1))
    expected = agreed_state(rng, X, labels, weighted, missing, tied=True)
    assert expected.block[0].tolist() == [*range(9 if seed else 6)]
    off = expected.sigma[0] - np.diag(np.diag(expected.sigma[0]))
    assert abs(np.linalg.det(off[:3, 3:6])) < 1e-9  # one factor behind these


@pytest.mark.parametrize("missing", [0.0, 0.1])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("seed", range(2))
def test_factors_of_single_clusters(seed, weighted, missing):
    """Two clusters of thirteen columns have a factor behind the first ten each, the third has none."""
    rng, n = np.random.default_rng(seed), 270
    labels = np.unique(rng.integers(0, 3, n), return_inverse=True)[1]
    X = rng.normal(size=(n, 13)) + 2.0 * rng.normal(size=(3, 13))[labels]
    loadings = rng.choice([-1.5, 1.5], (3, 10)) * np.array([[1.0], [1.0], [0.0]])
    X[:, :10] += rng.normal(size=(n, 1)) * loadings[labels]
    expected = agreed_state(rng, X, labels, weighted, missing, tied=False)
    assert [len(block) > 5 for block in expected.block] == [True, True, False]
    for block, sigma in zip(expected.block[:2], expected.sigma, strict=False):
        off = sigma - np.diag(np.diag(sigma))
        assert abs(np.linalg.det(off[:2, 2:4])) < 1e-9 * len(block)  # one factor behind these


@pytest.mark.parametrize("n_factors", [0, 1, 4, 8])
@pytest.mark.parametrize("p", [20, 40, 120])
def test_factors_of_many_columns(p, n_factors):
    """Of more than 32 columns the eigenvectors are those of the step before, improved; a partition costs the
    same to a nat.
    """
    rng, n, h = np.random.default_rng(p + n_factors), 400, 3.0
    X = rng.normal(size=(n, n_factors)) @ (0.7 * rng.normal(size=(n_factors, p))) + rng.normal(size=(n, p))
    S = np.cov(X.T) + 0.01 * np.eye(p)
    expected, found = covariance.with_factors(S, n, h), common_factors(S[None], np.array([float(n)]), h)
    assert (expected is None) == (found is None) == (n_factors == 0)
    if expected is None:
        return
    matrix, uniqueness, r = expected
    assert found.r == r == min(n_factors, max(3, p // 6))

    def nats(sigma):
        return 0.5 * n * (np.linalg.slogdet(sigma)[1] + np.trace(np.linalg.solve(sigma, S)))

    assert abs(nats(found.matrix[0]) - nats(matrix)) < 1.0
    np.testing.assert_allclose(found.uniqueness[0], uniqueness, atol=0.01)
    np.testing.assert_allclose(np.diag(found.matrix[0]), np.diag(S), rtol=0.02)


@pytest.mark.parametrize("p", [30, 200])
def test_few_rows_have_fewer_factors(p):
    """As many factors as rows describe any table, and save more than they cost in one of many columns."""
    rng, n, h = np.random.default_rng(p), 30, 0.5 * np.log(30)
    noise = np.corrcoef(rng.normal(size=(n, p)).T)
    noise = 0.95 * noise + 0.05 * np.eye(p)
    assert common_factors(noise[None], np.array([float(n)]), h) is None
    assert covariance.with_factors(noise, n, h) is None
    X = rng.normal(size=(n, 8)) @ (2.0 * rng.normal(size=(8, p))) + rng.normal(size=(n, p))
    S = 0.95 * np.corrcoef(X.T) + 0.05 * np.eye(p)
    found, expected = common_factors(S[None], np.array([float(n)]), h), covariance.with_factors(S, n, h)
    assert found.r == expected[2] == 5


def test_factors_of_a_group_do_not_depend_on_others():
    """One of three groups has no factor; that of the second one vanishes on the way."""
    S, weight, n, h = np.empty((3, 14, 14)), np.full(3, 200.0), 200, 2.65
    for i, (seed, loading) in enumerate([(0, 0.0), (18, 0.18), (1, 0.9)]):
        rng = np.random.default_rng(seed)
        S[i] = np.cov((rng.normal(size=(n, 14)) + loading * rng.normal(size=(n, 1))).T)
    assert covariance.with_factors(S[1], n, h, n_steps=1) is not None
    together = common_factors(S, weight, h)
    assert together is not None
    assert together.r.tolist() == [0, 0, 1]
    for i in range(3):
        expected, alone = covariance.with_factors(S[i], n, h), common_factors(S[i : i + 1], weight[:1], h)
        assert (expected is None) == (alone is None) == (together.r[i] == 0)
        if alone is not None:
            assert np.array_equal(alone.matrix[0], together.matrix[i])
            assert np.array_equal(alone.uniqueness[0], together.uniqueness[i])
            np.testing.assert_allclose(together.matrix[i], expected[0], atol=1e-8)


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_a_choice_continues_and_is_kept(seed, tied):
    """Masks are sought from those of another partition, or masks and blocks stay."""
    rng = np.random.default_rng(seed)
    X, truth = slanted(seed, n=100, K=3, p=3, q=1)
    truth = np.unique(truth, return_inverse=True)[1]
    labels = np.where(rng.random(100) < 0.2, rng.integers(0, 3, 100), truth)
    t, table = problem_of(X, 1), table_of(X, 1)
    rows, before = encoding_of(table).apply(table), covariance.state(t, truth, tied=tied)
    choice = clusters_of(table, truth, tied=tied).choice
    for keep in (False, True):
        expected = covariance.state(t, labels, tied=tied, choice=before.choice, keep=keep)
        found = clusters_of(table, labels, tied=tied, choice=choice, keep=keep)
        assert_same(found, expected, t, rows)
    again = clusters_of(table, truth, tied=tied, choice=choice, keep=True)
    assert_same(again, before, t, rows)


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("form", ["auto", "full"])
def test_columns_that_a_block_may_hold(form, tied):
    """Numbers of at least 4 levels, ties and skewness or not, complete or not."""
    rng = np.random.default_rng(4)
    common, n = rng.normal(size=(150, 1)), 150
    X = common + 0.5 * rng.normal(size=(n, 6))
    for d, T in ((1, 3), (2, 4)):
        X[:, d] = np.searchsorted(np.quantile(X[:, d], np.arange(1, T) / T), X[:, d])
    X[7, 3] = np.nan
    X[:, 4] = np.exp(2.0 * X[:, 4])
    X[:, 5] = np.maximum(X[:, 5], -0.5)
    labels = (rng.random(n) < 0.4).astype(int)
    t = problem_of(X)
    assert covariance.block_columns(t).tolist() == [0, 2, 3, 4, 5]
    expected = covariance.state(t, labels, full=form == "full", tied=tied)
    clusters = clusters_of(table_of(X), labels, form, tied=tied)
    assert any(blocks_of(clusters))
    assert_same(clusters, expected, t, encoding_of(table_of(X)).apply(table_of(X)))


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_a_row_with_missing_cells_costs_the_marginal(seed, tied):
    X, labels = slanted(seed, n=200, K=2, p=4, q=0)
    t, clusters = problem_of(X), clusters_of(table_of(X), labels, tied=tied)
    assert any(len(block) > 2 for block in blocks_of(clusters))
    sparse = X.copy()
    sparse[np.random.default_rng(seed).random(X.shape) < 0.4] = np.nan
    expected = covariance.row_costs(t, covariance.state(t, labels, tied=tied), ~np.isnan(sparse))
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
    X, _ = slanted(1, n=90, K=1, p=3, q=0, noise=0)
    t = problem_of(X)
    columns = np.arange(3)
    (mean,), sigma = covariance.fitted(t, [t.rows], columns)
    best, R = covariance.block_cost(t, [t.rows], columns), covariance.prior(t, columns)
    rng = np.random.default_rng(0)
    for _ in range(20):
        other_mean, root = (
            mean + 0.05 * rng.normal(size=3),
            np.linalg.cholesky(sigma) @ (np.eye(3) + 0.05 * rng.normal(size=(3, 3))),
        )
        other = root @ root.T
        own = sum(covariance.row_cost(*cells, other_mean, other) for cells in zip(t.z, t.v, t.e, strict=True))
        own += 0.5 * (
            np.trace(np.linalg.inv(other) @ R) - 3 + np.log(np.linalg.det(other) / np.linalg.det(R))
        )
        assert own + 3 * automatic.unit_price(t.N) > best


def test_no_rows_cost_only_prices():
    """The row of prior is the distribution of a cluster without rows, which costs nothing but its prices."""
    X, _ = slanted(1, n=90, K=1, p=4, q=0, noise=0)
    t, columns = problem_of(X), np.arange(4)
    h = automatic.unit_price(t.N)
    t.weight[:] *= 1e-9
    light = covariance.block_cost(t, [t.rows], columns)
    assert light == pytest.approx(4 * 3 / 2 * h, abs=1e-5)
