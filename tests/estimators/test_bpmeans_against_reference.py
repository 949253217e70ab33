"""The feature models equal their reference implementation: the same memberships, J to 1e-10, from products of
rows and from rows alike.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from craftc import BPMeans, KFeatures
from craftc.bpmeans import restarts
from tests.reference import bpmeans as ref

KINDS = ("births", "collapsed", "drop", "reseed")


def random_rows(seed, kind="any", n=None, D=None):
    """Sums of some of a few features and noise: centred, on an offset, in whole numbers, with repeated rows
    or a constant column.
    """
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 28)) if n is None else n
    D = int(rng.integers(1, 28)) if D is None else D
    K = int(rng.integers(1, 6))
    X = (rng.random((n, K)) < 0.4) @ rng.normal(size=(K, D)) * 3.0 + rng.choice([0.1, 1.0]) * rng.normal(
        size=(n, D)
    )
    kind = (
        str(rng.choice(["plain", "offset", "whole", "repeated", "constant", "scaled"]))
        if kind == "any"
        else kind
    )
    if kind == "offset":
        X += rng.choice([2.0, 100.0])
    elif kind == "whole":
        X = np.round(X)
    elif kind == "repeated":
        X = X[rng.integers(0, max(1, n // 2), n)]
    elif kind == "constant":
        X[:, rng.integers(D)] = 3.7
    elif kind == "centred":
        X -= X.mean(axis=0)
    elif kind == "scaled":
        X *= 10.0 ** rng.integers(-4, 5)
    return X


def random_memberships(seed, n, most=6):
    """A start: random columns, now and then one of them twice, the sum of others, or empty."""
    rng = np.random.default_rng(seed)
    Z = rng.random((n, int(rng.integers(1, most + 1)))) < rng.choice([0.2, 0.5, 0.8])
    what = rng.integers(8)
    if what == 0:
        Z[:, -1] = Z[:, 0]
    elif what == 1:
        Z[:, -1] = Z.any(axis=1)
    elif what == 2:
        Z[:, rng.integers(Z.shape[1])] = False
    return Z


def random_penalty(seed, X):
    """lambda^2 from many features to none."""
    rng = np.random.default_rng(seed)
    return float(np.square(X).sum(axis=1).mean() * math.exp(rng.uniform(-5.0, 1.0)) + 1e-300)


def fit_reference(kind, X, Z, penalty, cap=64, exact=False, order=None, A=None, max_iter=60):
    """The reference implementation's fit of a kind."""
    X = X.astype(np.float64)
    if kind == "births":
        return ref.bp_means(X, Z, A, penalty, cap, exact, order, max_iter)
    if kind == "collapsed":
        return ref.collapsed(X, Z, penalty, cap, exact, order, max_iter)
    return ref.k_features(X, Z, A, exact, kind, max_iter)


def config_of(kind, penalty, K, cap, exact, max_iter=60):
    """The settings of a run of a kind; K 0: as many features as lower J."""
    free = kind in ("births", "collapsed")
    return restarts.FeatureConfig(
        penalty=penalty if free else 0.0,
        n_features=0 if free else K,
        cap=cap if free else K,
        exact=16 if exact else 0,
        base="mean",
        n_trials=0,
        max_iter=max_iter,
        n_init=1,
        seed=0,
        collapsed=kind == "collapsed",
        reseed=kind == "reseed",
    )


def forms_of(X):
    """Whether a run may hold the products of all rows in place of the rows."""
    return (True, False) if X.shape[0] <= X.shape[1] else (False,)


def assert_same(memberships, objective, path, n_iter, converged, theirs, X):
    slack = 1e-10 * (theirs.objective + float(np.square(X.astype(float)).sum()))
    np.testing.assert_array_equal(memberships, theirs.Z)
    assert objective == pytest.approx(theirs.objective, rel=1e-10, abs=slack)
    np.testing.assert_allclose(path, theirs.path, rtol=1e-10, atol=slack)
    assert (n_iter, converged) == (theirs.n_iter, theirs.converged)


def assert_same_run(run, theirs, X):
    while not run.advance(1):
        pass
    assert_same(
        restarts.unpack(run.masks, run.n_features),
        run.objective,
        run.path,
        run.n_iter,
        run.converged,
        theirs,
        X,
    )


def assert_same_model(model, theirs, X):
    """The public objective is worked out row by row, more exactly than the last of the path."""
    assert_same(
        model.assignments_,
        model.objective_,
        model.objective_path_,
        model.n_iter_,
        model.converged_,
        theirs,
        X,
    )
    assert model.n_features_ == theirs.Z.shape[1]
    np.testing.assert_allclose(
        model.features_, theirs.A, rtol=1e-8, atol=1e-8 * float(np.abs(X).max() + 1e-300)
    )
    own = np.square(X - model.assignments_ @ model.features_).sum()
    assert model.inertia_ == pytest.approx(
        own, rel=1e-10, abs=1e-13 * float(np.square(X.astype(float)).sum())
    )


# ---- from given memberships ----


@pytest.mark.slow_except(15)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("exact", [False, True], ids=["sweep", "exact"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(12))
def test_runs_in_both_forms(seed, kind, exact, dtype):
    """Orders, caps, and starts with columns that are empty, twice there or depend on others."""
    X = random_rows(seed).astype(dtype)
    Z, rng = random_memberships(seed, len(X)), np.random.default_rng(seed)
    K, penalty = Z.shape[1], random_penalty(seed, X)
    cap = max(K, int(rng.choice([64, 3, 5, 8])))
    order = (
        rng.permutation(len(X)).astype(np.int32)
        if seed % 3 == 0 and kind in ("births", "collapsed")
        else np.empty(0, np.int32)
    )
    theirs = fit_reference(kind, X, Z, penalty, cap, exact, order if len(order) else None)
    data, config = restarts.FeatureData(X, 1), config_of(kind, penalty, K, cap, exact)
    for gram in forms_of(X):
        run = restarts.run_for(data, config, 1, order, gram=gram)
        for _ in range(2):  # the memory of a run may be used again
            run.start(restarts.pack(Z), K)
            assert_same_run(run, theirs, X)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(20))
def test_the_classes_from_given_memberships(seed, kind):
    X = random_rows(1000 + seed, dtype_kind(seed))
    if seed % 4 == 3:
        X = X.astype(np.float32)
    Z, penalty, exact = random_memberships(seed, len(X)), random_penalty(seed, X), seed % 2 == 0
    options = {"init": Z, "assignment": "exact" if exact else "sweep", "n_threads": 1, "max_iter": 60}
    if kind in ("births", "collapsed"):
        cap, shuffle = (None, 6)[seed % 3 == 0], seed % 5 == 0
        model = BPMeans(
            penalty,
            collapsed=kind == "collapsed",
            max_features=cap,
            shuffle=shuffle,
            random_state=seed,
            **options,
        )
        order = restarts.FeatureData(X, 1).points.order(seed, 1) if shuffle else None
        theirs = fit_reference(kind, X, Z, penalty, cap or 64, exact, order)
    else:
        model, theirs = KFeatures(empty=kind, **options), fit_reference(kind, X, Z, penalty, exact=exact)
    assert_same_model(model.fit(X), theirs, X)
    if kind in ("births", "collapsed") and model.n_features_:
        low, high = model.penalty_interval_
        left = np.square(X - model.assignments_ @ model.features_).sum(axis=1)
        without = [np.delete(theirs.Z, k, 1) for k in range(model.n_features_)]
        grows = [ref.objective(X, fewer, ref.lstsq(fewer, X), 0.0) - model.inertia_ for fewer in without]
        slack = 1e-11 * float(np.square(X.astype(float)).sum())
        assert (low, high) == pytest.approx((left.max(), min(grows)), rel=1e-7, abs=slack)


def dtype_kind(seed):
    """Tables for single precision: offsets of 100 leave it too few bits to break ties the same way."""
    return ("plain", "whole", "repeated", "constant", "offset", "scaled")[seed % 6]


@pytest.mark.parametrize("kind", ["births", "drop"])
@pytest.mark.parametrize("seed", range(6))
def test_auto_is_exact_up_to_ten_features(seed, kind, monkeypatch):
    X = random_rows(seed, "plain", n=14 + seed, D=12 + 2 * seed)
    Z, penalty = (
        np.random.default_rng(seed).random((len(X), 9 + seed % 3)) < 0.4,
        0.2 * float(np.square(X).sum(axis=1).mean()),
    )
    monkeypatch.setattr(ref, "EXACT_MOST", 10)
    theirs = fit_reference(kind, X, Z, penalty, exact=True)
    model = BPMeans(penalty, init=Z, assignment="auto") if kind == "births" else KFeatures(init=Z)
    assert_same_model(model.fit(X), theirs, X)


@pytest.mark.parametrize("kind", ["births", "collapsed"])
@pytest.mark.parametrize("seed", range(4))
def test_many_features_at_a_small_penalty(seed, kind):
    """More than a block of eight features, up to one per row."""
    X = random_rows(seed, "plain", n=22, D=(8, 30)[seed % 2])
    penalty, data = 0.03 * float(np.square(X).sum(axis=1).mean()), restarts.FeatureData(X, 1)
    Z = np.random.default_rng(seed).random((22, 2)) < 0.5
    theirs = fit_reference(kind, X, Z, penalty)
    assert theirs.Z.shape[1] > 8
    for gram in forms_of(X):
        run = restarts.run_for(data, config_of(kind, penalty, 2, 64, False), 1, gram=gram)
        run.start(restarts.pack(Z), 2)
        assert_same_run(run, theirs, X)


@pytest.mark.parametrize("exact", [False, True], ids=["sweep", "exact"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("K", [1, 4])
def test_one_row(K, kind, exact):
    X = np.array([[3.0, 4.0, 0.0]])
    for penalty in (1.0, 24.0, 26.0):
        theirs = fit_reference(kind, X, np.ones((1, K), bool), penalty, exact=exact)
        data, config = restarts.FeatureData(X, 1), config_of(kind, penalty, K, 64, exact)
        for gram in (True, False):
            run = restarts.run_for(data, config, 1, gram=gram)
            run.start(restarts.pack(np.ones((1, K), bool)), K)
            assert_same_run(run, theirs, X)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(3))
def test_it_stops_at_max_iter(seed, kind):
    X = random_rows(seed, "plain", n=16, D=6)
    Z, penalty = (
        np.random.default_rng(seed).random((16, 4)) < 0.5,
        0.1 * float(np.square(X).sum(axis=1).mean()),
    )
    for max_iter in (1, 2):
        theirs = fit_reference(kind, X, Z, penalty, max_iter=max_iter)
        run = restarts.run_for(
            restarts.FeatureData(X, 1), config_of(kind, penalty, 4, 64, False, max_iter), 1, gram=False
        )
        run.start(restarts.pack(Z), 4)
        assert_same_run(run, theirs, X)


@pytest.mark.parametrize("exact", [False, True], ids=["sweep", "exact"])
@pytest.mark.parametrize("seed", range(24))
def test_as_printed_dependent_features_stay(seed, exact):
    """Without exchanges only unused and equal features are dropped."""
    X, rng = random_rows(seed, "plain", n=9 + seed % 20), np.random.default_rng(seed)
    Z, penalty = rng.random((len(X), 3)) < 0.5, random_penalty(seed, X)
    Z = np.column_stack(
        [Z, Z[:, 0] ^ Z[:, 1], Z[:, 0] | Z[:, 1], Z[:, 2]]
    )  # A xor B, A, B and A or B are dependent
    theirs = ref.bp_means(X, Z, None, penalty, exact=exact, max_iter=60, kept=ref.distinct)
    model = BPMeans(
        penalty, init=Z, exchanges=False, assignment="exact" if exact else "sweep", n_threads=1, max_iter=60
    ).fit(X)
    assert_same_model(model, theirs, X)
    np.testing.assert_allclose(model.features_, theirs.A, rtol=1e-7, atol=1e-7 * float(np.abs(X).max()))


def test_dependent_features_stay_only_without_exchanges():
    rng = np.random.default_rng(0)
    A, B = rng.random((2, 40)) < 0.5
    Z = np.column_stack([A, B, A ^ B, A | B])
    X = Z @ np.eye(4, 8) * 9.0
    ranks = [
        np.linalg.matrix_rank(BPMeans(1.0, init=Z, exchanges=exchanges).fit(X).assignments_)
        for exchanges in (True, False)
    ]
    found = [BPMeans(1.0, init=Z, exchanges=exchanges).fit(X).n_features_ for exchanges in (True, False)]
    assert ranks == [3, 3]
    assert found == [3, 4]
    assert (
        BPMeans(1.0, init=Z, exchanges=False, collapsed=True).fit(X).n_features_ == 3
    )  # a collapsed sweep inverts Z'Z


# ---- greedy starts ----


@pytest.mark.parametrize("base", ["mean", "none"])
@pytest.mark.parametrize("kind", ["births", "drop", "reseed"])
@pytest.mark.parametrize("seed", range(40))
def test_greedy_starts_with_given_draws(seed, kind, base):
    X = random_rows(seed, "centred" if seed % 7 == 0 else "any")
    rng, penalty = np.random.default_rng(seed), random_penalty(seed, X)
    K, cap = int(rng.integers(1, 7)), int(rng.choice([2, 8]))
    most, trials = (cap if kind == "births" else K), int(rng.choice([0, 1, 3, 8]))
    draws = rng.random((most, 8))
    Z, A = ref.greedy_init(
        X,
        None if kind == "births" else K,
        penalty,
        most,
        base,
        draws,
        trials or (lambda k: 2 + int(math.log(k + 1))),
    )
    theirs = fit_reference(kind, X, Z, penalty, most, seed % 2 == 0, A=A)
    data, config = restarts.FeatureData(X, 1), config_of(kind, penalty, K, cap, seed % 2 == 0)
    for gram in forms_of(X):
        run = restarts.run_for(data, config, 1, gram=gram)
        run.greedy(data.base if base == "mean" else restarts.NONE, config.n_features, draws, trials)
        np.testing.assert_array_equal(restarts.unpack(run.masks, run.n_features), Z)
        assert_same_run(run, theirs, X)


@pytest.mark.parametrize("base", ["mean", "none", "mixed"])
@pytest.mark.parametrize("kind", ["births", "drop"])
@pytest.mark.parametrize("seed", range(5))
def test_restarts_of_the_search(seed, kind, base):
    """Bases and numbers of draws by turns, each restart the reference's with the same random numbers; the
    batch finds the same J.
    """
    X = random_rows(seed, "offset")
    penalty = random_penalty(seed, X)
    free = kind == "births"
    config = restarts.FeatureConfig(
        penalty=penalty if free else 0.0,
        n_features=0 if free else 3,
        cap=6 if free else 3,
        exact=10,
        base=base,
        n_trials=0,
        max_iter=60,
        n_init=8,
        seed=seed,
    )
    data = restarts.FeatureData(X, 1)
    ends, _ = restarts.parallel_restarts(data, config)
    for r in range(8):
        draws = restarts.random_draws(config, np.array([r]), config.n_features or config.cap)[0]
        own = "none" if base == "none" or (base == "mixed" and r % 2) else "mean"
        trials = 1 if (r // 2 if base == "mixed" else r) % 2 else (lambda k: 2 + int(math.log(k + 1)))
        Z, A = ref.greedy_init(X, config.n_features or None, penalty, config.cap, own, draws, trials)
        theirs = fit_reference(kind, X, Z, penalty, config.cap, True, A=A)
        ours = restarts.run_restart(data, config, r, restarts.run_for(data, config, 1))
        assert ours.objective == ends[r]
        assert_same(
            restarts.unpack(ours.masks, ours.n_features),
            ours.objective,
            ours.path,
            ours.n_iter,
            ours.converged,
            theirs,
            X,
        )
