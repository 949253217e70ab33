"""The reference implementation of DP-means has the properties proved in the papers."""

import numpy as np
import pytest

from tests.reference import dpmeans

MODES = ("serial", "delayed", "collapsed")


def random_case(seed, n=None):
    """A table and the options of a fit."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 25)) if n is None else n
    X = rng.normal(size=(n, int(rng.integers(1, 4)))) + 4.0 * rng.integers(0, 3, (n, 1))
    options = {
        "cap": None if rng.random() < 0.6 else int(rng.integers(1, 5)),
        "order": None if rng.random() < 0.5 else rng.permutation(n),
        "weight": None if rng.random() < 0.5 else rng.uniform(0.2, 2.0, n),
    }
    return X, float(rng.uniform(0.1, 15.0)), options


@pytest.mark.parametrize("polish", [False, True])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("seed", range(8))
def test_the_objective_falls_until_nothing_moves(seed, mode, polish):
    X, penalty, options = random_case(seed)
    fitted = dpmeans.fit(X, penalty, mode=mode, polish=polish, **options)
    path = np.array([fitted.start_objective, *fitted.path])
    assert (np.diff(path) <= 1e-12 * path[:-1]).all()
    assert fitted.converged
    assert fitted.objective == pytest.approx(path[-1], rel=1e-13)
    assert options["cap"] is None or fitted.n_clusters <= options["cap"]
    again = dpmeans.fit(X, penalty, mode=mode, labels=fitted.labels, **options)
    np.testing.assert_array_equal(again.labels, fitted.labels)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("seed", range(8))
def test_brute_force_is_never_undercut(seed, mode):
    X, penalty, options = random_case(seed, n=5 + seed % 2)
    best = dpmeans.optimum(X, penalty, options["cap"], options["weight"])
    fitted = dpmeans.fit(X, penalty, mode=mode, polish=True, **options)
    assert fitted.objective >= best.objective * (1 - 1e-12)
    assert dpmeans.objective(X, best.labels, penalty, options["weight"]) == best.objective


def test_there_are_as_many_partitions_as_bell_counted():
    assert [len(list(dpmeans.partitions(n))) for n in range(1, 8)] == [1, 2, 5, 15, 52, 203, 877]


def test_a_tie_moves_no_row():
    X = np.array([[-1.0], [1.0], [0.0]])
    assert dpmeans.serial_sweep(X, [0, 1, 1], [X[0], X[1]], 1.0)[0] == [
        0,
        1,
        1,
    ]  # as near to both, and exactly lambda away
    assert dpmeans.serial_sweep(X, [0, 1, 0], [X[0], X[1]], 1.0)[0] == [0, 1, 0]


@pytest.mark.parametrize("sized", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_covariances(seed, sized):
    X, penalty, options = random_case(seed, n=24)
    start = dpmeans.fit(X, penalty, cap=3).labels
    fitted = dpmeans.fit_gaussian(
        X, start, penalty, sized=sized, weight=options["weight"]
    )  # asserts that J falls
    assert fitted.converged
    again = dpmeans.fit_gaussian(X, fitted.labels, penalty, sized=sized, weight=options["weight"])
    assert again.objective == pytest.approx(fitted.objective, rel=1e-10) or again.n_clusters < len(
        fitted.means
    )
    other = dpmeans.fit_gaussian(X, start, 100.0 * penalty, sized=False, weight=options["weight"])
    plain = dpmeans.fit_gaussian(X, start, penalty, sized=False, weight=options["weight"])
    np.testing.assert_array_equal(other.labels, plain.labels)  # lambda moves no label
