"""DP-means equals its reference implementation in NumPy: the same labels, J to 1e-10, for every mode, weight,
start and order.
"""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from craftc import DPMeans
from craftc._common.dense_data import DenseData
from craftc.dpmeans.rows.local import DPMeansLocalRows
from craftc.dpmeans.seeding import random_row
from craftc.dpmeans.starts import Starts
from tests.common import examples
from tests.reference import dpmeans as ref

MODES = ("serial", "delayed", "collapsed")


def random_points(seed, kind="any", dtype=np.float64):
    """A table of any scale: one cloud, three clouds, a constant column, or repeated rows."""
    rng = np.random.default_rng(seed)
    n, D = int(rng.integers(1, 36)), int(rng.integers(1, 6))
    X = rng.normal(size=(n, D))
    kinds = {"any": ["cloud", "clouds", "constant", "repeated"], "distinct": ["cloud", "clouds", "constant"]}
    kind = str(rng.choice(kinds.get(kind, [kind])))
    if kind == "clouds":
        X += 6.0 * rng.integers(0, 3, (n, 1))
    elif kind == "constant":
        X[:, rng.integers(D)] = 3.7
    elif kind == "repeated":
        X = X[rng.integers(0, max(1, n // 2), n)]
    return (X * 10.0 ** rng.integers(-5, 6)).astype(dtype)


def random_weight(seed, n, kind):
    """Weights of a kind, or None."""
    rng = np.random.default_rng(seed)
    whole, real, light = (
        rng.integers(1, 4, n).astype(float),
        rng.uniform(0.01, 2.0, n),
        rng.uniform(0.01, 0.5, n),
    )
    return {"none": None, "whole": whole, "real": real, "light": light}[kind]


def random_penalty(seed, X):
    """lambda^2 from a few clusters to many."""
    rng = np.random.default_rng(seed)
    return float(X.astype(float).var() * X.shape[1] * math.exp(rng.uniform(-3.5, 1.0)) + 1e-300)


def assert_same(ours, theirs, X, exact=True):
    """Fractional weights leave fewer bits to a cell, which the means show and the objective at its minimum
    does not.
    """
    np.testing.assert_array_equal(ours.labels_, theirs.labels)
    loose = 1.0 if exact else 1e3
    slack = 1e-13 * float(((X.astype(float) - X.astype(float).mean(axis=0)) ** 2).sum())
    assert ours.objective_ == pytest.approx(theirs.objective, rel=1e-10, abs=slack)
    np.testing.assert_allclose(
        ours.objective_path_, theirs.path, rtol=1e-10 * loose, atol=100 * slack * loose
    )
    np.testing.assert_allclose(
        ours.cluster_centers_, theirs.centers, rtol=1e-8, atol=1e-8 * float(np.abs(X).max())
    )
    assert (ours.n_iter_, ours.converged_) == (theirs.n_iter + theirs.n_polish, theirs.converged)


@examples(300)
@given(
    seed=st.integers(0, 10**6),
    mode=st.sampled_from(MODES),
    polish=st.booleans(),
    cap=st.sampled_from([None, None, 1, 2, 5]),
    weights=st.sampled_from(["none", "whole", "real", "light"]),
    start=st.sampled_from(["single", "labels"]),
    dtype=st.sampled_from([np.float64, np.float32]),
)
def test_every_mode(seed, mode, polish, cap, weights, start, dtype):
    tied = start == "labels" or weights in (
        "real",
        "light",
    )  # copies of a row in two clusters: rounding decides
    X = random_points(seed, "distinct" if tied else "any", dtype)
    n, rng = len(X), np.random.default_rng(seed)
    labels = None if start == "single" else rng.integers(0, rng.integers(1, 6), n)
    assume(
        mode != "delayed" or labels is None or 2 not in np.bincount(labels)
    )  # two rows are as far from their mean: rounding decides
    penalty, weight = random_penalty(seed, X), random_weight(seed, n, weights)
    ours = DPMeans(
        penalty,
        mode=mode,
        polish=polish,
        max_clusters=cap,
        init="single" if labels is None else labels,
        n_threads=1,
    )
    ours.fit(X, sample_weight=weight)
    theirs = ref.fit(
        X, penalty, mode=mode, polish=polish, cap=cap, labels=labels, weight=weight, max_iter=300
    )
    assert_same(ours, theirs, X, exact=weights in ("none", "whole"))


@pytest.mark.parametrize("start", ["single", "labels"])
@pytest.mark.parametrize("penalty", [0.0, np.inf])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("seed", range(6))
def test_penalty_nought_and_infinity(seed, mode, penalty, start):
    X = random_points(seed, "clouds")
    labels = None if start == "single" else np.arange(len(X)) % 3
    ours = DPMeans(penalty, mode=mode, init="single" if labels is None else labels, n_threads=1).fit(X)
    assert_same(ours, ref.fit(X, penalty, mode=mode, labels=labels), X)


@pytest.mark.parametrize("seed", range(4))
def test_every_row_may_have_a_cluster_of_its_own(seed):
    # the grand mean counts as a centre until the sweep is over, so that n + 1 are needed
    X = np.random.default_rng(seed).normal(size=(4, 2))
    for penalty in (1e-6, 0.3, 1.0):
        assert_same(DPMeans(penalty).fit(X), ref.fit(X, penalty), X)


def test_a_constant_column_opens_and_closes_nothing():
    X = np.array([[0.0, 5.0], [0.9, 5.0]])
    assert DPMeans(0.1).fit(X[:, :1]).labels_.tolist() == DPMeans(0.1).fit(X).labels_.tolist() == [0, 1]


def alone(model, X, weight, start):
    """(J, labels) of one start by itself, and (J, labels) of the reference's."""
    points = DenseData(X, weight, 1)
    starts, order = (
        Starts(model, DPMeansLocalRows(points), model.random_state),
        points.order(model.random_state, start),
    )
    labels = starts.labels(start)
    begin = np.zeros(len(X), np.int32) if labels is None else labels.copy()
    ours = starts.descend(model.cluster_penalty, labels, start)
    theirs = ref.fit(
        X,
        model.cluster_penalty,
        mode=model.mode,
        polish=model.polish,
        cap=model.max_clusters,
        labels=begin,
        weight=weight,
        order=order if len(order) else None,
    )
    return (ours.objective, ours.labels), (theirs.objective, theirs.labels)


@pytest.mark.parametrize("init", ["single", "random"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("seed", range(8))
def test_orders_and_starts(seed, mode, init):
    """Every start equals the reference's in that order, and the best of them comes out of the batch."""
    X = random_points(seed, "clouds", np.float32 if seed % 2 else np.float64)
    weight = random_weight(seed, len(X), ("none", "whole", "real", "light")[seed % 4])
    model = DPMeans(
        random_penalty(seed, X),
        mode=mode,
        init=init,
        n_init=4,
        random_state=seed,
        polish=seed % 3 == 0,
        max_clusters=(None, 4)[seed % 2],
        n_threads=1,
    )
    both = [alone(model, X, weight, start) for start in range(4)]
    for ours, theirs in both:
        np.testing.assert_array_equal(ours[1], theirs[1])
        assert ours[0] == pytest.approx(theirs[0], rel=1e-10)
    model.fit(X, sample_weight=weight)
    best = min(both, key=lambda pair: pair[0][0])[0]
    assert model.objective_ == best[0]
    np.testing.assert_array_equal(model.labels_, best[1])
    if init == "single":
        assert len({tuple(DenseData(X, weight, 1).order(seed, start)) for start in range(1, 4)}) == (
            3 if len(X) > 3 else 1
        )


@pytest.mark.parametrize("seed", range(12))
def test_penalty_path(seed):
    X = random_points(seed)
    weight = random_weight(seed, len(X), ("none", "real")[seed % 2])
    K = min(len(X), 9)
    path = DPMeans().penalty_path(X, K, sample_weight=weight, scale="radius")
    expected = ref.penalty_path(X, K, weight)
    np.testing.assert_allclose(
        path, expected, rtol=1e-10 if weight is None else 1e-7, atol=1e-13 * expected[0]
    )
    assert (np.diff(path) <= 0).all()
    asked = DPMeans(n_clusters=min(3, K), mode="serial").fit(X, sample_weight=weight)
    assert asked.cluster_penalty_ == path[min(3, K) - 1]


@pytest.mark.slow_except(6)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("seed", range(6))
def test_the_choice_of_the_penalty(seed, mode):
    """The partition of the path with the least description length, at a value that may be larger than its
    own.
    """
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(40, 2)) + 5.0 * rng.integers(0, 3, (40, 2)) * (seed % 3 > 0)
    path, fits = list(ref.penalty_path(X, 8)), []  # five rows for each cluster at least
    while ref.fit(X, path[0], mode=mode).n_clusters > 1:  # one cluster is a candidate
        path.insert(0, 2.0 * path[0])
    for penalty in path:
        fitted = ref.fit(X, penalty, mode=mode)
        if fitted.n_clusters > 8:
            break
        fits.append(fitted.labels)
    d, before = ref.dimensions(X, np.zeros(40, int)), 0.0
    while abs(d - before) > 0.05 * before:
        lengths = [ref.icl(X, labels, d) for labels in fits]
        best = int(np.argmin(lengths))
        before, d = d, ref.dimensions(X, fits[best])
    ours = DPMeans(mode=mode, n_threads=1).fit(X)
    assert path[best] * (1.0 - 1e-10) <= ours.cluster_penalty_ <= path[max(best - 1, 0)] * (1.0 + 1e-10)
    assert ref.icl(X, ours.labels_, before) <= lengths[best] + 1e-8
    penalty = ours.cluster_penalty_ * (1.0 + 1e-12)  # a row may be exactly lambda away
    np.testing.assert_array_equal(ours.labels_, ref.fit(X, penalty, mode=mode).labels)


@pytest.mark.parametrize("weights", ["none", "real"])
@pytest.mark.parametrize("seed", range(8))
def test_partial_fit_is_a_serial_sweep(seed, weights):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(40, 3)) + 6.0 * rng.integers(0, 4, (40, 1))
    weight = random_weight(seed, 40, weights)
    model = DPMeans(25.0, max_clusters=(None, 4)[seed % 2], mode="serial", n_threads=1)
    model.fit(X[:15], sample_weight=None if weight is None else weight[:15])
    w = None if weight is None else weight[15:]
    expected, n_births, _ = ref.serial_sweep(
        X[15:], [0] * 25, list(model.cluster_centers_), 25.0, model.max_clusters, None, w
    )
    K = model.n_clusters_
    model.partial_fit(X[15:], sample_weight=w)
    np.testing.assert_array_equal(model.labels_, expected)
    assert model.n_clusters_ == K + n_births


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("seed", range(6))
def test_the_first_centre_is_a_random_row(seed, mode):
    """DP-means(R): in the first sweep a row joins that row or opens a cluster; the loop over rows, one at a
    time.
    """
    X = random_points(seed, "clouds")
    penalty = random_penalty(seed, X)
    one = DPMeans(penalty, mode=mode, init="random-row", random_state=seed, max_iter=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        one.fit(X)
    row = random_row(DenseData(X, None, 1), seed, 0)[0]
    assert (row == X).all(axis=1).any()
    squared = np.square(X - row).sum(axis=1)
    centers, labels = [row], []
    for x, own in zip(X, squared, strict=True):
        distances = [np.square(x - c).sum() for c in centers]
        far = (
            min(distances) > penalty
            if mode != "delayed"
            else len(centers) == 1 and own == squared.max() > penalty
        )
        centers += [x] if far else []
        labels.append(len(centers) - 1 if far else int(np.argmin(distances)) if mode != "delayed" else 0)
    np.testing.assert_array_equal(one.labels_, [list(dict.fromkeys(labels)).index(k) for k in labels])
    full = DPMeans(penalty, mode=mode, init="random-row", random_state=seed).fit(X)
    assert full.converged_
    assert full.objective_ <= one.objective_ * (1 + 1e-12)


def test_random_rows_follow_the_weights():
    X = np.arange(50.0)[:, None]
    data = DenseData(X, np.where(np.arange(50) % 2, 1.0, 0.0), 1)
    rows = {float(random_row(data, 0, start)[0, 0]) for start in range(100)}
    assert len(rows) > 15
    assert all(row % 2 for row in rows)
