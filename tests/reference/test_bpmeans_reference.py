"""The reference of the feature models against enumeration, least squares and examples by hand."""

import numpy as np
import pytest

from tests.reference import bpmeans

VARIANTS = [(kind, exact) for kind in ("bp", "k_drop", "k_reseed", "collapsed") for exact in (False, True)]


def fit(kind, X, Z0, A0, penalty, cap=64, exact=False, order=None, max_iter=1000):
    """One of the fits; K-features pay no penalty and the collapsed fit takes no values."""
    if kind == "bp":
        return bpmeans.bp_means(X, Z0, A0, penalty, cap, exact, order, max_iter)
    if kind == "collapsed":
        return bpmeans.collapsed(X, Z0, penalty, cap, exact, order, max_iter)
    return bpmeans.k_features(X, Z0, A0, exact, kind[2:], max_iter, order)


def random_case(seed, n=None, most=6):
    """A table, a penalty, a greedy start and the options of a fit."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 16)) if n is None else n
    D = int(rng.integers(1, 5))
    X = [
        rng.normal(size=(n, D)),
        rng.integers(-2, 3, (n, D)).astype(float),
        3.0 * rng.integers(0, 2, (n, 3)) @ rng.normal(size=(3, D)) + 0.2 * rng.normal(size=(n, D)),
    ][seed % 3]
    penalty, cap = float(10.0 ** rng.uniform(-2.0, 1.0)), int(rng.integers(1, most + 1))
    K, base = (None, cap)[seed % 2], ("mean", "none")[seed // 2 % 2]
    Z0, A0 = bpmeans.greedy_init(X, K, penalty, cap, base, rng.random((cap, 3)), lambda k: 1 + min(k, 2))
    if rng.random() < 0.4:
        Z0, A0 = rng.random((n, cap)) < 0.5, None
    return X, penalty, Z0, A0, {"cap": cap, "order": None if rng.random() < 0.5 else rng.permutation(n)}


@pytest.mark.parametrize(("kind", "exact"), VARIANTS)
@pytest.mark.parametrize("seed", range(9))
def test_brute_force_is_never_undercut(seed, kind, exact):
    X, penalty, Z0, A0, options = random_case(seed, n=3 + seed % 3, most=3)
    fitted = fit(kind, X, Z0, A0, penalty, exact=exact, **options)
    best = bpmeans.k_optimum(X, fitted.Z.shape[1]) if kind[0] == "k" else bpmeans.optimum(X, penalty, 3)
    assert fitted.objective >= best - 1e-12 * bpmeans.square(X)


@pytest.mark.parametrize("exact", [False, True])
def test_the_optimum_is_found_from_itself_and_from_nothing(exact):
    features = np.array([[9.0, 0.0, 0.0], [0.0, 7.0, 0.0]])
    Z = np.array([[1, 0], [1, 1], [0, 1], [0, 0], [1, 0]], dtype=bool)
    X = Z @ features
    for kind in ("bp", "collapsed"):
        for start in (Z, np.zeros((5, 0), dtype=bool)):
            assert fit(kind, X, start, None, 1.0, exact=exact).objective == pytest.approx(2.0, rel=1e-12)
    assert bpmeans.optimum(X, 1.0, 3) == pytest.approx(2.0, rel=1e-12)
    assert bpmeans.k_optimum(X, 2) == pytest.approx(0.0, abs=1e-12)


def test_redundancy_is_the_exact_rank():
    rng = np.random.default_rng(5)
    for _ in range(60):
        Z = rng.random((int(rng.integers(1, 12)), int(rng.integers(0, 9)))) < rng.uniform(0.2, 0.8)
        kept = bpmeans.redundancy(Z)
        ranks = [0] + [np.linalg.matrix_rank(Z[:, : k + 1]) if len(Z) else 0 for k in range(Z.shape[1])]
        assert kept == [k for k in range(Z.shape[1]) if ranks[k + 1] > ranks[k]]
    assert bpmeans.redundancy(np.zeros((0, 3), dtype=bool)) == []


def test_a_row_leaves_its_own_feature_for_the_penalty():
    X, A = np.array([[1.0], [5.0]]), np.array([[1.0], [5.0]])
    Z = np.eye(2, dtype=bool)
    for exact in (False, True):
        # the first row costs 1 without its feature, the second 16 with that of the first
        left, values, changed = bpmeans.sweep(X, Z, A, 2.0, 64, exact=exact)
        assert changed
        np.testing.assert_array_equal(left, [[False], [True]])
        np.testing.assert_array_equal(values, [[5.0]])
        same, _, changed = bpmeans.sweep(X, Z, A, 0.5, 64, exact=exact)
        assert not changed
        np.testing.assert_array_equal(same, Z)


def test_a_newborn_feature_serves_the_next_rows():
    X = np.array([[4.0, 0.0], [4.0, 0.1], [0.0, 3.0], [4.0, 3.0]])
    nothing = np.zeros((4, 0), dtype=bool), np.zeros((0, 2))
    Z, A, changed = bpmeans.sweep(X, *nothing, 1.0, 64)
    assert changed
    np.testing.assert_array_equal(Z, [[1, 0], [1, 0], [0, 1], [1, 1]])
    np.testing.assert_array_equal(A, [[4.0, 0.0], [0.0, 3.0]])
    Z, _, _ = bpmeans.sweep(X, *nothing, 1.0, 64, order=[3, 2, 1, 0])
    np.testing.assert_array_equal(Z[3], [True] + [False] * (Z.shape[1] - 1))
    assert bpmeans.sweep(X, *nothing, 1.0, 1)[0].shape[1] == 1
    assert bpmeans.sweep(X, *nothing, 1.0, 64, births=False)[0].shape[1] == 0


def test_a_lost_feature_is_dropped_or_reseeded():
    X = np.array([[10.0, 0.0], [10.0, 0.5], [0.0, 2.0]])
    Z0, A0 = np.array([[1, 1], [1, 0], [0, 0]], dtype=bool), np.array([[10.0, 0.0], [-50.0, 0.0]])
    assert bpmeans.k_features(X, Z0, A0, empty="drop").Z.shape[1] == 1
    reseeded = bpmeans.k_features(X, Z0, A0, empty="reseed")
    np.testing.assert_array_equal(reseeded.Z, [[1, 0], [1, 0], [0, 1]])
    assert reseeded.objective == pytest.approx(0.125, rel=1e-12)


@pytest.mark.parametrize("seed", range(10))
def test_the_increase_of_a_row_is_that_of_least_squares_from_scratch(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(int(rng.integers(2, 12)), 3))
    Z = rng.random((len(X), 4)) < 0.5
    Z = Z[:, bpmeans.redundancy(Z[1:])]
    f = bpmeans.increase(X[1:], Z[1:], X[0])

    def sse(X, Z):
        return bpmeans.square(X - Z @ bpmeans.lstsq(Z, X))

    for z in bpmeans.all_codes(Z.shape[1]):
        Z[0] = z
        assert f(z) == pytest.approx(sse(X, Z) - sse(X[1:], Z[1:]), rel=1e-9, abs=1e-11)
        # a feature of its own fits the row whatever its other bits
        own = bpmeans.with_column(Z, bpmeans.unit(len(X), 0))
        assert sse(X, own) == pytest.approx(sse(X[1:], Z[1:]), rel=1e-9, abs=1e-11)


def test_the_greedy_start_by_hand():
    X = np.array([[4.0], [4.0], [8.0], [0.0]])
    Z, A = bpmeans.greedy_init(X, 2, 1.0, 2, "mean", np.array([[0.9], [0.4]]), 1)
    # residuals 0, 0, 4, -4 after the mean: 0.4 of the total is passed at the third row
    np.testing.assert_array_equal(A, [[4.0], [4.0]])
    np.testing.assert_array_equal(Z, [[1, 0], [1, 0], [1, 1], [1, 0]])
    Z, A = bpmeans.greedy_init(X, 1, 1.0, 1, "none", np.array([[0.1, 0.5]]), 2)
    # running sums 16, 32, 96: the rows 0 and 2 are proposed, with SSE 16 and 32
    np.testing.assert_array_equal(A, [[4.0]])
    np.testing.assert_array_equal(Z[:, 0], [True, True, True, False])
