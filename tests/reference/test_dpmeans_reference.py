"""The reference of DP-means against enumeration of all partitions."""

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
