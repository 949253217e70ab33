"""The kernels of the feature models against plain NumPy: products, assignment, exact ranks, least squares."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from craftc._kernels import bpmeans as kernel
from craftc._kernels import bpmeans_rows as of_rows
from craftc.bpmeans import restarts
from tests.reference import bpmeans as ref


def table(seed, dtype, n=70):
    """Rows, and how many of them: any width, beyond a run of columns as well."""
    rng = np.random.default_rng(seed)
    D = [1, 3, 8, 17, 40, 1030][seed % 6]
    return (rng.normal(size=(n, D)) * 10.0 ** rng.integers(-3, 4) + rng.normal()).astype(dtype)


def features_and_masks(seed, X, K):
    rng = np.random.default_rng(seed)
    Z = rng.random((len(X), K)) < 0.4
    return rng.normal(size=(K, X.shape[1])) * float(np.abs(X).max()), Z


def begun(X, Z, penalty, gram=False, exact=0):
    """A run that has read a start: dependent columns gone where there is a penalty, features fitted."""
    K = Z.shape[1]
    config = restarts.FeatureConfig(
        penalty=penalty,
        n_features=0 if penalty else K,
        cap=64 if penalty else K,
        exact=exact,
        base="none",
        n_trials=1,
        max_iter=9,
        n_init=1,
        seed=0,
    )
    run = restarts.run_for(restarts.FeatureData(X, 1), config, 1, gram=gram)
    run.start(restarts.pack(Z), K)
    return run


# ---- rows ----


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("seed", range(6))
def test_norms_and_products(seed, dtype):
    X = table(seed, dtype)
    exact, norm = X.astype(np.float64), np.empty(len(X))
    of_rows.norms(X, norm)
    np.testing.assert_allclose(norm, np.square(exact).sum(axis=1), rtol=1e-12)
    vectors = np.random.default_rng(seed).normal(size=(X.shape[1], kernel.TRIALS))
    alone, shared = np.empty((2, len(X), kernel.TRIALS))
    of_rows.products(X, vectors, alone, 1)
    of_rows.products(X, vectors, shared, 3)
    np.testing.assert_array_equal(alone, shared)
    np.testing.assert_allclose(
        alone, exact @ vectors, rtol=0, atol=1e-12 * float((np.abs(exact) @ np.abs(vectors)).max())
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("K", [0, 1, 8, 9, 64])
@pytest.mark.parametrize("seed", range(6))
def test_left_over(seed, K, dtype):
    X = table(seed, dtype, n=1100 if seed < 2 else 40)
    A, Z = features_and_masks(seed, X, K)
    alone, shared = np.empty((2, len(X)))
    of_rows.left_over(X, A, restarts.pack(Z), alone, 1)
    of_rows.left_over(X, A, restarts.pack(Z), shared, 3)
    np.testing.assert_array_equal(alone, shared)
    np.testing.assert_allclose(alone, np.square(X - Z @ A).sum(axis=1), rtol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("K", [1, 2, 3, 5, 8, 10])
@pytest.mark.parametrize("seed", range(5))
def test_assign_finds_the_nearest_of_all_sums(seed, K, dtype):
    rng = np.random.default_rng(seed)
    D = [2, 5, 9, 30, 70][seed]
    A = rng.normal(size=(K, D))
    X = ((rng.random((1100, K)) < 0.5) @ A + 0.5 * rng.normal(size=(1100, D))).astype(dtype)
    masks, left = np.zeros((2, 1100), np.uint64), np.empty((2, 1100))
    for t, n_threads in enumerate((1, 3)):
        of_rows.assign(X, A, 10, masks[t], left[t], n_threads)
    np.testing.assert_array_equal(masks[0], masks[1])
    np.testing.assert_array_equal(left[0], left[1])
    sums = ref.all_codes(K) @ A
    costs = (
        np.square(X).astype(float).sum(axis=1)[:, None]
        - 2.0 * X.astype(float) @ sums.T
        + np.square(sums).sum(axis=1)
    )
    best = np.sort(costs, axis=1)
    clear = best[:, 1] > best[:, 0] + 1e-9 if K else slice(None)
    np.testing.assert_array_equal(masks[0][clear], costs.argmin(axis=1)[clear])
    np.testing.assert_allclose(
        left[0], np.square(X - restarts.unpack(masks[0], K) @ A).sum(axis=1), rtol=1e-9, atol=1e-12
    )


@pytest.mark.parametrize("K", [3, 8, 17, 64])
@pytest.mark.parametrize("seed", range(3))
def test_assign_bit_after_bit_until_nothing_wins(seed, K):
    rng = np.random.default_rng(seed)
    A, D = rng.normal(size=(K, 24)), 24
    X = (rng.random((60, K)) < 0.3) @ A + 0.3 * rng.normal(size=(60, D))
    masks, left = np.zeros(60, np.uint64), np.empty(60)
    of_rows.assign(X, A, 0, masks, left, 1)
    for n in range(60):
        z, alone, moved = np.zeros(K, bool), np.zeros(K, bool), True
        while moved:
            after = ref.bits_in_turn(X[n], z, alone, A, 0.0, 2.0**-44 * (ref.square(X[n]) + ref.square(A)))
            moved, z = bool((after != z).any()), after
        np.testing.assert_array_equal(restarts.unpack(masks[n : n + 1], K)[0], z)
    np.testing.assert_allclose(left, np.square(X - restarts.unpack(masks, K) @ A).sum(axis=1), rtol=1e-9)


def test_masks_are_bits():
    Z = np.random.default_rng(0).random((50, 64)) < 0.5
    np.testing.assert_array_equal(restarts.unpack(restarts.pack(Z), 64), Z)
    assert restarts.pack(Z[:, :0]).tolist() == [0] * 50
    assert restarts.pack(np.eye(64, dtype=bool)).tolist() == [1 << k for k in range(64)]


# ---- exact ranks ----


def kept_by_fractions(Z):
    """Columns that raise the rank from left to right, as in the reference but by columns of integers without
    common factors.
    """
    basis, kept = [], []
    rows = np.unique(Z, axis=0).astype(object)
    for k in range(Z.shape[1]):
        v = [Fraction(int(x)) for x in rows[:, k]]
        for i, p in basis:
            if v[i]:
                factor = v[i] / p[i]
                v = [a - factor * b if b else a for a, b in zip(v, p, strict=True)]
        if any(v):
            basis.append((next(i for i, a in enumerate(v) if a), v))
            kept.append(k)
    return kept


def kept_by_kernel(Z):
    """What is left of the columns of Z as a start; the features are recognised by their columns, which
    differ.
    """
    X = np.random.default_rng(0).normal(size=(len(Z), 2))
    run = begun(X, Z, 1.0)
    return restarts.unpack(run.masks, run.n_features)


@pytest.mark.parametrize("n", [1, 2, 5, 9, 40])
@pytest.mark.parametrize("seed", range(12))
def test_independent_columns_of_random_tables(seed, n):
    rng = np.random.default_rng(seed)
    Z = rng.random((n, int(rng.integers(1, 13)))) < rng.uniform(0.15, 0.85)
    np.testing.assert_array_equal(kept_by_kernel(Z), Z[:, kept_by_fractions(Z)])


def made_dependent(seed, n, K):
    """Duplicates, unions of disjoint columns, complements of a full one, and empty columns, all at random."""
    rng = np.random.default_rng(seed)
    Z = rng.random((n, K)) < 0.4
    Z[:, 0] = True
    for k in range(3, K):
        what, j = rng.integers(9), int(rng.integers(1, k))
        if what == 0:
            Z[:, k] = Z[:, j]
        elif what == 1:
            Z[:, k] = ~Z[:, j]  # the first column less this one
        elif what == 2:
            Z[:, k] = False
        elif what == 3:
            Z[:, k] = Z[:, j] & ~Z[:, j - 1]
            if k + 1 < K:
                Z[:, k + 1] = Z[:, j] & Z[:, j - 1]  # the two add up to column j
    return Z


@pytest.mark.slow_except(3)
@pytest.mark.parametrize(("n", "K"), [(30, 8), (30, 20), (60, 36), (60, 37), (80, 64), (50, 64), (500, 64)])
@pytest.mark.parametrize("seed", range(3))
def test_independent_columns_of_dependent_tables(seed, n, K):
    Z = made_dependent(seed, n, K)
    kept = kept_by_fractions(Z)
    assert len(kept) < K
    np.testing.assert_array_equal(kept_by_kernel(Z), Z[:, kept])


@pytest.mark.parametrize("K", [16, 32, 36, 40, 64])
def test_large_determinants_and_near_dependence(K):
    """0/1 minors as large as they get (cyclic quadratic residues), and a column that one row alone makes
    independent.
    """
    p = next(p for p in range(K - 1, 200) if all(p % q for q in range(2, p)) and p % 4 == 3)
    residues = {x * x % p for x in range(1, p)}
    Z = np.array([[(i - j) % p in residues for j in range(p)] for i in range(p)])[:, : min(p, K)]
    np.testing.assert_array_equal(kept_by_kernel(Z), Z)
    rng = np.random.default_rng(K)
    Z = rng.random((200, K)) < 0.5
    Z[:, -1] = Z[:, 0]
    np.testing.assert_array_equal(kept_by_kernel(Z), Z[:, :-1])
    Z[137, -1] = not Z[137, 0]
    np.testing.assert_array_equal(kept_by_kernel(Z), Z)


def test_many_rows_of_few_kinds():
    Z = (np.random.default_rng(0).random((9, 5)) < 0.5)[np.random.default_rng(1).integers(0, 9, 3000)]
    np.testing.assert_array_equal(kept_by_kernel(Z), Z[:, kept_by_fractions(Z)])


# ---- least squares ----


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("K", [1, 4, 8, 9, 30, 64])
@pytest.mark.parametrize("seed", range(3))
def test_features_are_least_squares(seed, K, dtype):
    rng = np.random.default_rng(seed)
    X = (rng.normal(size=(150, [5, 40, 300][seed])) + [0.0, 3.0, 1e3][seed]).astype(dtype)
    Z = rng.random((150, K)) < 0.4
    run, A = begun(X, Z, 1.0), ref.lstsq(Z, X.astype(np.float64))
    assert run.n_features == K
    np.testing.assert_allclose(run.features, A, rtol=0, atol=1e-10 * float(np.abs(X).max()))
    error, some = (
        ref.objective(X, Z, A, 0.0),
        np.unique(np.linspace(0, K - 1, 12).astype(int)),
    )  # a fit of NumPy for each
    assert run.removal_costs()[some] == pytest.approx(
        [ref.objective(X, np.delete(Z, k, 1), ref.lstsq(np.delete(Z, k, 1), X), 0.0) - error for k in some],
        rel=1e-8,
        abs=1e-10 * ref.square(X.astype(float)),
    )


@pytest.mark.parametrize(("n", "K"), [(3, 7), (6, 4), (20, 6), (20, 12), (60, 40)])
@pytest.mark.parametrize("seed", range(5))
def test_features_of_dependent_columns_are_of_minimum_norm(seed, n, K):
    """K-features keep dependent columns; only empty ones go."""
    X = np.random.default_rng(seed).normal(size=(n, 4))
    Z = made_dependent(seed, n, K)
    run, Z = begun(X, Z, 0.0), Z[:, Z.any(axis=0)]
    assert run.n_features == Z.shape[1]
    np.testing.assert_allclose(run.features, ref.lstsq(Z, X), rtol=0, atol=1e-9)


@pytest.mark.parametrize("penalty", [0.0, 1.0])
@pytest.mark.parametrize("K", [1, 4, 9, 20])
@pytest.mark.parametrize("seed", range(4))
def test_both_forms_descend_alike(seed, K, penalty):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(40, 50)) + 1.0
    Z = rng.random((40, K)) < 0.5
    rows, products = (begun(X, Z, penalty, gram=gram) for gram in (False, True))
    for run in (rows, products):
        run.advance(3)
    np.testing.assert_array_equal(rows.masks, products.masks)
    np.testing.assert_allclose(rows.path, products.path, rtol=1e-11, atol=1e-12 * ref.square(X))
    np.testing.assert_allclose(rows.removal_costs(), products.removal_costs(), rtol=1e-8)


def test_products_of_rows_add_up_exactly():
    """The table of all products is on a grid on which sums have no order."""
    X = np.random.default_rng(0).normal(size=(50, 70)) * np.logspace(-3, 3, 50)[:, None]
    S = restarts.FeatureData(X, 1).products
    np.testing.assert_array_equal(S, S.T)
    np.testing.assert_allclose(S, X @ X.T, rtol=0, atol=1e-13 * np.abs(S).max())
    some = np.random.default_rng(1).permutation(50)
    np.testing.assert_array_equal(S.sum(axis=0), S[some].cumsum(axis=0)[-1])
    assert restarts.FeatureData(X[:, :49].copy(), 1).products is None
