"""What kernels refuse at their boundary: numbers of threads, and labels, orders and positions outside of the
arrays they refer to.
"""

import numpy as np
import pytest

from craftc._common.threads import max_useful_threads
from craftc._kernels import (
    bpmeans,
    bpmeans_rows,
    covariates,
    dpmeans,
    dpmeans_sweep,
    mixture,
    mixture_full,
    mixture_updates,
    moments,
    parallel,
    spectral_factor,
)
from craftc._kernels.bpmeans_rows import norms

X = np.arange(24.0).reshape(8, 3)
NO_WEIGHTS, NO_SHARES, NO_ORDER = np.empty(0, np.int64), np.empty(0), np.empty(0, np.int32)


def sums(capacity=2, n_threads=1):
    return dpmeans.Sums(np.zeros(3), np.ones(3), NO_WEIGHTS, NO_SHARES, NO_SHARES, capacity, n_threads)


def labels(last=0):
    return np.array([0, 1, 0, 1, 0, 1, 0, last], np.int32)


def run(penalty=0.0, cap=3, max_iter=10, n_threads=1, order=NO_ORDER):
    norm = np.empty(8)
    norms(X, norm)
    ones = np.ones(3)
    return bpmeans.Run(
        X,
        None,
        norm,
        X.mean(axis=0),
        X @ X.mean(axis=0),
        ones,
        ones,
        ones,
        penalty,
        cap,
        False,
        False,
        False,
        3,
        max_iter,
        order,
        n_threads,
    )


@pytest.mark.parametrize("n_threads", [0, -1, -(2**31), parallel.MOST_THREADS + 1, 2**31 - 1])
def test_numbers_of_threads(n_threads):
    calls = (
        lambda: dpmeans.nearest(X, X[:2], labels(), np.empty(8), n_threads),
        lambda: dpmeans.accumulate(X, labels(), sums(), n_threads),
        lambda: dpmeans.beyond(
            X, dpmeans.Centres(X[:2], X[0], 1.0, 1.0, False), NO_SHARES, np.empty(8, np.uint8), n_threads
        ),
        lambda: sums(n_threads=n_threads),
        lambda: run(n_threads=n_threads),
        lambda: bpmeans_rows.left_over(X, X[:2], np.zeros(8, np.uint64), np.empty(8), n_threads),
    )
    for call in calls:
        with pytest.raises(ValueError, match="n_threads"):
            call()


def test_craftc_asks_for_no_more_threads_than_kernels_take(monkeypatch):
    monkeypatch.setattr("craftc._common.threads._processors", lambda: 10**6)
    assert max_useful_threads() == parallel.MOST_THREADS


def test_more_threads_than_sums_have_room_for():
    with pytest.raises(ValueError, match="n_threads"):
        dpmeans.accumulate(X, labels(), sums(n_threads=2), 3)


@pytest.mark.parametrize("last", [-1, 2, 2**31 - 1, -(2**31)])
def test_labels_and_orders_out_of_range(last):
    grid = moments.Grid(np.zeros(3), np.ones(3), np.empty(0, np.intp), 0)
    groups, codes = np.zeros((2, grid.width), np.int64), np.empty((8, 0), np.uint8)
    bounds, partial = np.zeros(8, np.float32), np.zeros((1, 2, grid.width), np.int64)
    calls = [
        lambda: dpmeans.accumulate(X, labels(last), sums(), 1),
        lambda: dpmeans.farthest(X, X[:2], 1.0, labels(last), bounds),
        lambda: dpmeans.gaps(X[:2], labels(last), 1.0, np.empty(2, np.float32)),
        lambda: dpmeans_sweep.open_at(X, X[:2], 1.0, 7, labels(last), bounds, bounds, sums()),
        lambda: dpmeans_sweep.loosen(labels(last), np.zeros(2, np.float32), 0.0, 1.0, bounds, bounds),
        lambda: covariates.components(2, labels(last).reshape(4, 2), np.ones(4, np.uint8)),
    ]
    if last != -1:  # the label of a row in no group
        calls.append(lambda: moments.accumulate(X, codes, NO_WEIGHTS, labels(last), grid, partial, groups, 1))
    if last != 2:
        calls.append(lambda: run(order=labels(last)))
    for call in calls:
        with pytest.raises(ValueError, match="kernel"):
            call()


def test_weights_of_other_rows():
    other = dpmeans.Sums(np.zeros(3), np.ones(3), np.ones(5, np.int64), NO_SHARES, NO_SHARES, 2, 1)
    with pytest.raises(ValueError, match="weight"):
        dpmeans.accumulate(X, labels(), other, 1)


def test_starts_of_a_restart():
    draws = np.full((3, 3), 0.5)
    for arguments in (
        (3, 3, draws, 1),
        (0, 4, draws, 1),
        (0, -1, draws, 1),
        (0, 3, draws[:2], 1),
        (0, 3, draws, 4),
        (0, 3, draws, -1),
    ):
        with pytest.raises(ValueError, match="kernel"):
            run().greedy(*arguments)
    with pytest.raises(ValueError, match="n_features"):  # J decides how many
        run(penalty=1.0).greedy(0, 3, draws, 1)
    masks, draw = np.ones(8, np.uint64), draws[0]
    for method, arguments in (
        ("start", (masks, 4)),
        ("start", (masks[:7], 3)),
        ("exchange", (masks, 3, 3, draw)),
        ("exchange", (masks, 3, -2, draw)),
        ("exchange", (masks, 3, 0, draw[:0])),
        ("exchange", (masks, 3, 0, np.zeros(9))),
    ):
        with pytest.raises(ValueError, match="kernel"):
            getattr(run(), method)(*arguments)


def test_whole_restarts():
    bases, n_trials, draws = np.zeros(2, np.int32), np.ones(2, np.int32), np.full((2, 3, 3), 0.5)
    one = run()

    def call(runs, bases=bases, n_features=3, draws=draws, n_trials=n_trials):
        bpmeans.restarts(runs, bases, n_features, draws, n_trials, np.empty(2), np.empty((2, 3), np.int64))

    call([one])
    wrong = (
        {"runs": []},
        {"runs": [one, one]},
        {"bases": bases + 3},
        {"n_features": 4},
        {"draws": draws[:1]},
        {"n_trials": n_trials + 3},
    )
    for arguments in wrong:
        with pytest.raises(ValueError, match=r"kernel|n_threads"):
            call(**{"runs": [one], **arguments})
    with pytest.raises(TypeError):
        call([object()])


def test_masks_of_features_that_are_not_there():
    masks = np.array([4] + [0] * 7, np.uint64)
    with pytest.raises(ValueError, match="masks"):
        bpmeans_rows.left_over(X, X[:2], masks, np.empty(8), 1)


def test_priors_without_all_their_parts():
    prior = (1.0, 1.0, np.ones(3))
    for wrong in (prior[:2], [], None, (1.0, 1.0, np.ones(2))):
        for pair in ((wrong, prior), (prior, wrong)):
            with pytest.raises((ValueError, TypeError)):
                mixture_updates.Mixture(2, 3, *pair, 1.0, kind="gaussian", own_noise=True, tied=False)


def test_loadings_of_other_columns():
    column, none = np.arange(3), np.empty(0, np.intp)
    scores, ones = np.ones((8, 2)), np.ones(3)
    right = {
        "numeric": X,
        "column": column,
        "low": ones,
        "scale": ones,
        "fill": ones,
        "codes": np.empty((8, 0), np.uint8),
        "variable": none,
        "first_state": none,
        "first": np.zeros(1, np.intp),
        "state_of": none,
        "missing_state": none,
        "shares": np.empty(0),
        "root": 1.0,
        "scores": scores,
        "loadings": np.ones((3, 2)),
        "sums": np.zeros((5, 2)),
        "errors": np.zeros(1),
        "runs": 1,
        "n_threads": 1,
    }
    spectral_factor.hals(*right.values())
    wrong = {
        "column": column + 1,
        "low": ones[:2],
        "loadings": np.ones((2, 2)),
        "runs": 9,
        "sums": np.zeros((4, 2)),
        "first": np.ones(1, np.intp),
        "state_of": np.zeros(1, np.intp),
        "missing_state": np.zeros(1, np.intp),
        "shares": np.ones(1),
    }
    for name, value in [*wrong.items(), ("runs", 0), ("runs", 2**62)]:
        with pytest.raises(ValueError, match="kernel"):
            spectral_factor.hals(*(right | {name: value}).values())


@pytest.mark.parametrize("K", [0, 1, 2])
def test_tied_columns_are_those_of_all_components(K):
    """A column of another component has no place in the factor, and its solution was written before it."""

    def switch(tied, p):
        p = p[:K].copy()
        count = np.full(K, -1, np.int32)
        psi = np.repeat(np.eye(3)[None], K, axis=0)
        mixture_full.switch_columns(
            *(psi, np.zeros((K, 3)), np.full(K, 9.0), np.zeros((K, 3)), 1e300, tied, p),
            *(np.zeros((K, 3, 3)), np.zeros((K, 3), np.int32), count),
        )
        return count.tolist()

    other = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 1.0]])
    assert switch(False, other) == [1, 2][:K]
    assert switch(True, np.ones((2, 3))) == [3, 3][:K]
    if K == 2:
        with pytest.raises(ValueError, match="kernel"):
            switch(True, other)


@pytest.mark.parametrize("missing", [False, True])
def test_mixtures_of_no_rows(missing):
    """A division by the number of rows of a segment stopped the process."""
    column, ones = np.arange(3, dtype=np.int32), np.ones(3)
    for K in (0, 1, 40):
        assert mixture.Rows(X[:0], column, ones, ones, None, missing, K).order is None
