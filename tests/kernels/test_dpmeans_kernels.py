"""The DP-means kernels against plain NumPy: distances, nearest centres and their bounds, exact sums, new
centres.
"""

from __future__ import annotations

import numpy as np
import pytest

from craftc._common.dense_data import DenseData
from craftc._kernels import dpmeans as kernel
from craftc._kernels import dpmeans_cuts as cuts
from craftc._kernels import dpmeans_sweep as sweep
from craftc.dpmeans.rows.local import DPMeansLocalRows
from tests.reference import dpmeans_search as ref

NONE, ALL_ROWS = np.empty(0, np.float32), np.empty(0, np.int32)


def squared(X, mu):
    return ((X.astype(np.float64)[:, None] - mu) ** 2).sum(axis=2)


def setting(seed, dtype, n=700, weight=None):
    """(X, mu, reference, reach, sums) of a made table."""
    rng = np.random.default_rng(seed)
    D, K = int(rng.choice([1, 3, 16, 17, 70])), int(rng.choice([1, 2, 7, 30]))
    mu = 3 * rng.normal(size=(K, D))
    X = (mu[rng.integers(0, K, n)] + rng.normal(size=(n, D))).astype(dtype)
    middle = X.mean(axis=0).astype(np.float32).astype(np.float64)
    empty = np.empty(0)
    sums = kernel.Sums(
        middle,
        np.full(D, 2.0**30),
        np.empty(0, np.int64) if weight is None else weight,
        empty,
        empty,
        K + 4,
        1,
    )
    return X, mu, middle, float(np.abs(X - middle).max()), sums


def tile(D):
    return np.empty((1, kernel.TILE * (D + 1)), np.float32)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("seed", range(8))
def test_assign_finds_the_nearest_and_bounds_the_distances(seed, dtype):
    X, mu, middle, reach, sums = setting(seed, dtype)
    D2 = squared(X, mu)
    limit = float(np.median(D2.min(axis=1)))
    labels, (upper, lower) = np.zeros(len(X), np.int32), np.empty((2, len(X)), np.float32)
    kernel.accumulate(X, labels, sums, 1)
    centres = kernel.Centres(mu, middle, reach, limit, dtype == np.float32)
    moved, beyond, scanned = sweep.assign(
        X,
        centres,
        labels,
        upper,
        lower,
        sums,
        NONE,
        NONE,
        NONE,
        ALL_ROWS,
        NONE,
        0,
        len(X),
        tile(X.shape[1]),
        1,
    )
    np.testing.assert_array_equal(labels, D2.argmin(axis=1))
    ordered = np.sqrt(np.sort(D2, axis=1)) * centres.scale
    assert (moved, beyond, scanned) == ((labels != 0).sum(), (D2.min(axis=1) > limit).sum(), len(X))
    np.testing.assert_array_equal(upper < 0, D2.min(axis=1) > limit)
    assert (np.abs(upper) >= ordered[:, 0]).all()
    np.testing.assert_allclose(np.abs(upper), ordered[:, 0], rtol=1e-3)
    assert (lower <= (ordered[:, 1] if len(mu) > 1 else np.inf)).all()
    q = np.rint((X.astype(np.float64) - middle) * 2.0**30).astype(np.int64)
    for k in range(len(mu)):
        assert sums.counts[k] == (labels == k).sum()
        np.testing.assert_array_equal(sums.sums[k], q[labels == k].sum(axis=0))
    assert kernel.farthest(X, mu, centres.scale, labels, upper) == int(D2.min(axis=1).argmax())


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("seed", range(8))
def test_bounds_that_are_not_kept_change_no_row(seed, dtype):
    X, mu, middle, reach, sums = setting(seed, dtype)
    limit = float(np.median(squared(X, mu).min(axis=1)))
    centres = kernel.Centres(mu, middle, reach, limit, dtype == np.float32)
    found = []
    for n in (len(X), 0):
        labels, (upper, lower) = np.zeros(len(X), np.int32), np.empty((2, n), np.float32)
        sums.clear()
        kernel.accumulate(X, labels, sums, 1)
        counts = sweep.assign(
            X,
            centres,
            labels,
            upper,
            lower,
            sums,
            NONE,
            NONE,
            NONE,
            ALL_ROWS,
            NONE,
            0,
            len(X),
            tile(X.shape[1]),
            1,
        )
        found.append((counts, labels, sums.sums.copy(), sums.counts.copy()))
    assert found[0][0] == found[1][0]
    for one, other in zip(found[0][1:], found[1][1:], strict=True):
        np.testing.assert_array_equal(one, other)
    drift = np.zeros(len(mu), np.float32)
    with pytest.raises(ValueError, match="upper"):  # rows that may stay need their bounds
        sweep.assign(
            X,
            centres,
            labels,
            NONE,
            NONE,
            sums,
            drift,
            drift,
            drift,
            ALL_ROWS,
            drift,
            0,
            len(X),
            tile(X.shape[1]),
            1,
        )


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("seed", range(4))
def test_rows_outside_the_sums_enter_them_where_they_belong(seed, dtype, weighted):
    weight = np.random.default_rng(seed).integers(0, 4, 700) if weighted else None
    X, mu, middle, reach, sums = setting(seed, dtype, weight=weight)
    limit = float(np.median(squared(X, mu).min(axis=1)))
    centres = kernel.Centres(mu, middle, reach, limit, dtype == np.float32)
    found = []
    for first in (0, -1):
        labels, (upper, lower) = np.full(len(X), first, np.int32), np.empty((2, len(X)), np.float32)
        sums.clear()
        if first == 0:
            kernel.accumulate(X, labels, sums, 1)
        counts = sweep.assign(
            X,
            centres,
            labels,
            upper,
            lower,
            sums,
            NONE,
            NONE,
            NONE,
            ALL_ROWS,
            NONE,
            0,
            len(X),
            tile(X.shape[1]),
            1,
        )
        found.append((counts, labels, upper, lower, sums.sums.copy(), sums.counts.copy()))
    assert found[0][0] == found[1][0]
    for one, other in zip(found[0][1:], found[1][1:], strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("n_threads", [1, 3])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("D", [1, 15, 16, 17, 40, 4097])
def test_sums_of_all_rows_are_those_of_one_cluster(D, dtype, weighted, n_threads):
    rng = np.random.default_rng(D)
    X, empty = rng.normal(size=(300, D)).astype(dtype), np.empty(0)
    weight = rng.integers(0, 5, 300) if weighted else np.empty(0, np.int64)
    found = []
    for labels in (None, np.zeros(300, np.int32)):
        sums = kernel.Sums(np.full(D, 0.25), np.full(D, 2.0**30), weight, empty, empty, 1, n_threads)
        kernel.accumulate(X, labels, sums, n_threads)
        found.append((sums.sums.copy(), sums.counts.copy()))
    np.testing.assert_array_equal(found[0][0], found[1][0])
    q = np.rint((X.astype(np.float64) - 0.25) * 2.0**30).astype(np.int64)
    np.testing.assert_array_equal(
        found[0][0][0], (q * weight[:, None]).sum(axis=0) if weighted else q.sum(axis=0)
    )
    assert found[0][1] == found[1][1] == (weight.sum() if weighted else 300)


@pytest.mark.parametrize("n_threads", [1, 3])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("D", [1, 3, 7, 8, 9, 16, 19, 24, 31, 33])
def test_sums_of_clusters(D, dtype, n_threads):
    rng = np.random.default_rng(D)
    X, labels, empty = (
        rng.normal(size=(300, D)).astype(dtype),
        rng.integers(0, 5, 300).astype(np.int32),
        np.empty(0),
    )
    middle, scale = rng.normal(size=D), 2.0 ** rng.integers(20, 40, D)
    sums = kernel.Sums(middle, scale, np.empty(0, np.int64), empty, empty, 5, n_threads)
    kernel.accumulate(X, labels, sums, n_threads)
    q = np.rint((X.astype(np.float64) - middle) * scale).astype(np.int64)
    for k in range(5):
        np.testing.assert_array_equal(sums.sums[k], q[labels == k].sum(axis=0))
        assert sums.counts[k] == (labels == k).sum()


@pytest.mark.parametrize("n_threads", [1, 2])
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("seed", range(8))
def test_rows_beyond_the_limit_of_all_centres(seed, dtype, shared, n_threads):
    X, mu, middle, reach, _ = setting(seed, dtype)
    share = np.random.default_rng(seed).random(len(X)) if shared else np.empty(0)
    distance = np.empty((len(X), len(mu)))
    kernel.distances(X, mu, distance, 1)
    least = distance.min(axis=1) * (share if shared else 1.0)
    for limit in (
        0.0,
        float(np.median(least)),
        np.nextafter(float(np.median(least)), 0.0),
        float(least.max()),
        np.inf,
    ):
        beyond = np.full(len(X), 7, np.uint8)
        kernel.beyond(
            X, kernel.Centres(mu, middle, reach, limit, dtype == np.float32), share, beyond, n_threads
        )
        np.testing.assert_array_equal(beyond, least > limit)


@pytest.mark.parametrize("room", [1, 4, 50])
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("seed", range(4))
def test_leaders_are_further_than_the_limit_from_those_before(seed, dtype, shared, room):
    X = setting(seed, dtype)[0]
    share = np.random.default_rng(seed).random(len(X)) if shared else np.empty(0)
    rows = np.flatnonzero(np.random.default_rng(seed + 1).random(len(X)) < 0.5)
    for limit in (0.0, 0.5 * float(X.var(axis=0).sum()), np.inf):
        expected = []
        for position, i in enumerate(rows):
            away = squared(X[i : i + 1], X[expected].astype(np.float64))[0] * (share[i] if shared else 1.0)
            if len(expected) < room and (away > limit).all():
                expected.append(i)
                last = position
        found = np.full((room + 2, X.shape[1]), 7.0)
        n, stop = kernel.leaders(X, rows, share, limit, found[1:-1])
        np.testing.assert_array_equal(found[1 : n + 1], X[expected].astype(np.float64))
        assert stop == (last + 1 if n == room else len(rows))
        assert (found[n + 1 :] == 7.0).all()
        assert (found[0] == 7.0).all()
    assert kernel.leaders(X, rows[:0], share, limit, found) == (0, 0)
    with pytest.raises(ValueError, match="rows"):
        kernel.leaders(X, np.array([0, len(X)]), share, limit, found)


def test_scatter_between_clusters_loses_nothing():
    mu, mean = np.array([[1e8, 0.0], [0.0, 1.0], [3.0, 0.0]]), np.zeros(2)
    counts = np.array([1, 3, 2, 99])
    for order in ([0, 1, 2], [2, 1, 0], [1, 0, 2]):
        found = kernel.scatter_between(np.ascontiguousarray(mu[order]), np.append(counts[order], 99), mean)
        assert found == float(10**16 + 21)
    assert kernel.scatter_between(np.empty((0, 2)), counts, mean) == 0.0


@pytest.mark.parametrize("seed", range(8))
def test_bounds_skip_only_rows_that_stay(seed):
    X, mu, middle, reach, sums = setting(seed, np.float64)
    labels, (upper, lower) = np.zeros(len(X), np.int32), np.empty((2, len(X)), np.float32)
    centres = kernel.Centres(mu, middle, reach, np.inf, False)
    sweep.assign(
        X,
        centres,
        labels,
        upper,
        lower,
        sums,
        NONE,
        NONE,
        NONE,
        ALL_ROWS,
        NONE,
        0,
        len(X),
        tile(X.shape[1]),
        1,
    )
    after = mu + 0.05 * np.random.default_rng(seed).normal(size=mu.shape)
    drift, half = np.empty((2, len(mu)), np.float32)
    kernel.drifts(mu, after, centres.scale, drift)
    kernel.gaps(after, np.arange(len(mu), dtype=np.int32), 0.5 * centres.scale, half)
    others = np.array([np.delete(drift, k).max(initial=0) for k in range(len(mu))], np.float32)
    centres = kernel.Centres(after, middle, reach, np.inf, False)
    _, _, scanned = sweep.assign(
        X,
        centres,
        labels,
        upper,
        lower,
        sums,
        drift,
        others,
        half,
        ALL_ROWS,
        drift,
        0,
        len(X),
        tile(X.shape[1]),
        1,
    )
    np.testing.assert_array_equal(labels, squared(X, after).argmin(axis=1))
    assert scanned < len(X)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("apart", [3.0, 30.0])  # pairs of near clusters; at 30 distances lose digits
@pytest.mark.parametrize(("D", "n_moved"), [(3, 0), (3, 2), (70, 0), (70, 2)])  # 70: rows have a quick check
def test_bounds_hold_after_every_pass(D, n_moved, apart, dtype):
    rng, K, n = np.random.default_rng(D), 30, 700
    mu = np.repeat(apart * rng.normal(size=(K // 2, D)), 2, axis=0) + rng.normal(size=(K, D))
    X = (mu[rng.integers(0, K, n)] + (0.3 if D == 3 else 1.0) * rng.normal(size=(n, D))).astype(dtype)
    middle = X.mean(axis=0).astype(np.float32).astype(np.float64)
    sums = kernel.Sums(middle, np.full(D, 2.0**30), np.empty(0, np.int64), np.empty(0), np.empty(0), K, 1)
    labels, (upper, lower) = np.zeros(n, np.int32), np.empty((2, n), np.float32)
    drift, others, half, gap = np.empty((4, K), np.float32)
    bounds, stayed = [NONE, NONE, NONE, ALL_ROWS, NONE], 0
    for step in range(6):
        centres = kernel.Centres(mu, middle, float(np.abs(X - middle).max()), np.inf, dtype == np.float32)
        _, _, scanned = sweep.assign(X, centres, labels, upper, lower, sums, *bounds, 0, n, tile(D), 1)
        distance = np.sqrt(squared(X, mu)) * centres.scale
        np.testing.assert_array_equal(labels, distance.argmin(axis=1))
        own = np.take_along_axis(distance, labels[:, None], axis=1)[:, 0]
        np.put_along_axis(distance, labels[:, None], np.inf, axis=1)
        assert (np.abs(upper) >= own).all()
        assert (lower <= distance.min(axis=1)).all()
        stayed += n - scanned if step else 0
        before, moved = mu, rng.permutation(K)[:n_moved].astype(np.int32)
        mu = mu + 0.02 * rng.normal(size=mu.shape) / D
        mu[moved] += rng.normal(size=(n_moved, D)) / D
        kernel.drifts(before, mu, centres.scale, drift)
        kernel.gaps(mu, np.arange(K, dtype=np.int32), 0.5 * centres.scale, half)
        kernel.gaps(mu, moved, centres.scale, gap)
        covered = np.where(np.isin(np.arange(K), moved), 0.0, drift)
        others[:] = [np.delete(covered, k).max() for k in range(K)]
        bounds = [drift, others, half, moved, gap]
    assert stayed > n


def test_ties_go_to_the_first():
    """Of rows equally far from their centres, and of centres equally near to a row."""
    rng = np.random.default_rng(0)
    for D in (1, 3, 17):
        X, mu = rng.integers(-9, 10, (40, D)).astype(np.float64), rng.integers(-9, 10, (5, D)).astype(float)
        X, mu = np.concatenate([X, X, X]), np.concatenate([mu, mu])
        centres = kernel.Centres(mu, np.zeros(D), 9.0, 0.0, False)
        sums = kernel.Sums(
            np.zeros(D), np.full(D, 2.0**30), np.empty(0, np.int64), np.empty(0), np.empty(0), 10, 1
        )
        labels, (upper, lower) = np.zeros(120, np.int32), np.empty((2, 120), np.float32)
        bounds = NONE, NONE, NONE, ALL_ROWS, NONE
        sweep.assign(X, centres, labels, upper, lower, sums, *bounds, 0, 120, tile(D), 1)
        D2 = squared(X, mu)
        np.testing.assert_array_equal(labels, D2.argmin(axis=1))
        assert kernel.farthest(X, mu, centres.scale, labels, upper) == D2.min(axis=1).argmax()
        found, distance = np.empty(120, np.int32), np.empty(120)
        kernel.nearest(X, mu, found, distance, 1)
        np.testing.assert_array_equal(found, labels)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("D", [*range(1, 21), 31, 32, 33, 65])
def test_the_scan_finds_the_nearest_in_rows_of_any_width(D, dtype):
    rng = np.random.default_rng(D)
    for K in range(1, 14):
        X, mu = rng.normal(size=(70, D)).astype(dtype), rng.normal(size=(K, D))
        labels, least = np.empty(70, np.int32), np.empty(70)
        kernel.nearest(X, mu, labels, least, 1)
        np.testing.assert_array_equal(labels, squared(X, mu).argmin(axis=1))
        np.testing.assert_allclose(least, squared(X, mu).min(axis=1), rtol=1e-12)


@pytest.mark.parametrize("n_new", [1, 2, 4])
def test_reassign_to_new_compares_with_the_new_centres_alone(n_new):
    X, mu, middle, reach, sums = setting(3, np.float32)
    rng = np.random.default_rng(0)
    labels, (upper, lower) = np.zeros(len(X), np.int32), np.empty((2, len(X)), np.float32)
    kernel.accumulate(X, labels, sums, 1)
    centres = kernel.Centres(mu, middle, reach, np.inf, True)
    sweep.assign(
        X,
        centres,
        labels,
        upper,
        lower,
        sums,
        NONE,
        NONE,
        NONE,
        ALL_ROWS,
        NONE,
        0,
        len(X),
        tile(X.shape[1]),
        1,
    )
    more = np.concatenate([mu, X[rng.choice(len(X), n_new, replace=False)].astype(np.float64)])
    new = np.arange(len(mu), len(more), dtype=np.int32)
    gap = np.empty(len(more), np.float32)
    kernel.gaps(more, new, centres.scale, gap)
    order = rng.permutation(len(X)).astype(np.int32)
    before = labels.copy()
    centres = kernel.Centres(more, middle, reach, np.inf, True)
    sweep.reassign_to_new(
        X, centres, len(mu), gap, labels, upper, lower, sums, order, 100, 600, tile(X.shape[1]), 1
    )
    D2 = squared(X, more)
    seen = np.isin(np.arange(len(X)), order[100:600])
    np.testing.assert_array_equal(labels[seen], D2.argmin(axis=1)[seen])
    np.testing.assert_array_equal(labels[~seen], before[~seen])
    others = np.where(np.arange(len(more)) == labels[:, None], np.inf, np.sqrt(D2) * centres.scale)
    assert (lower[seen] <= others.min(axis=1)[seen]).all()


def test_distances_are_one_formula_for_any_dtype_and_thread():
    rng = np.random.default_rng(1)
    X, mu = rng.normal(size=(300, 37)).astype(np.float32), rng.normal(size=(5, 37))
    single, double, shared = np.empty((3, 300, 5))
    kernel.distances(X, mu, single, 1)
    kernel.distances(X.astype(np.float64), mu, double, 1)
    kernel.distances(X, mu, shared, 3)
    np.testing.assert_array_equal(single, double)
    np.testing.assert_array_equal(single, shared)
    np.testing.assert_allclose(single, squared(X, mu), rtol=1e-13)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("D", [1, 7, 8, 37])
def test_own_distances(D, dtype):
    rng = np.random.default_rng(D)
    X, mu = rng.normal(size=(2200, D)).astype(dtype), rng.normal(size=(4, D))
    labels = rng.integers(0, 4, 2200).astype(np.int32)
    X.flags.writeable = labels.flags.writeable = False
    out = np.empty((2, 2200))
    for i, n_threads in enumerate((1, 3)):
        kernel.own_distances(X, mu, labels, out[i], n_threads)
    np.testing.assert_array_equal(out[0], out[1])
    np.testing.assert_allclose(out[0], squared(X, mu)[np.arange(2200), labels], rtol=1e-13)
    some = np.where(labels == 2, np.int32(-1), labels)
    kernel.own_distances(X, mu, some, out[1], 1)
    np.testing.assert_array_equal(out[1], np.where(some < 0, 0.0, out[0]))


def two_means(
    data, labels, origins, directions, sides, sums, n_threads, *, given=True, kept=0, most=0, few=0.0
):
    """The kernel on the rows of a table; the planes are overwritten."""
    return cuts.two_means(
        data.X,
        labels,
        origins,
        directions,
        sides.view(np.uint8),
        sums,
        data.middle,
        data.step,
        given,
        kept,
        most,
        few,
        n_threads,
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("D", [1, 7, 8, 37])
def test_sides_of_a_cut_and_their_sums(D, weighted, dtype):
    rng = np.random.default_rng(D)
    X, (mu, directions) = rng.normal(size=(2200, D)).astype(dtype), rng.normal(size=(2, 4, D))
    labels, weight = (
        rng.integers(0, 4, 2200).astype(np.int32),
        rng.integers(0, 3, 2200).astype(float) if weighted else None,
    )
    X.flags.writeable = labels.flags.writeable = False
    along = ((X.astype(np.float64) - mu[labels]) * directions[labels]).sum(axis=1)
    clear = abs(along) > 1e-12  # rounding decides about the others
    data, before = DenseData(X, weight, 3), rng.random(2200) < 0.5
    found = []
    for n_threads in (1, 3):
        sides, sums = before.copy(), data.no_sums(8)
        changed = two_means(data, labels, mu, directions, sides, sums, n_threads)
        assert changed == (np.ones(2200, int) if weight is None else data.weight)[sides != before].sum()
        np.testing.assert_array_equal(sides[clear], (along > 0)[clear])
        of_sides = data.sums_of((2 * labels + sides).astype(np.int32), 8)
        np.testing.assert_array_equal(sums.sums, of_sides.sums[:8])
        np.testing.assert_array_equal(sums.counts, of_sides.counts[:8])
        found.append(sides)
    np.testing.assert_array_equal(found[0], found[1])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_threads", [1, 3])
@pytest.mark.parametrize("given", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("D", [1, 5, 40])
def test_two_means_is_that_of_the_reference(D, weighted, given, n_threads, dtype):
    rng = np.random.default_rng(D + 100 * given)
    K, kept, most, few = 5, 2, 6, 3.0
    labels = rng.integers(0, K, 3000).astype(np.int32)
    labels[labels == 3] = 4  # an empty cluster
    labels[:2] = 3, 3
    X = (
        rng.normal(size=(3000, D)) + 3.0 * rng.normal(size=(K, 2, D))[labels, rng.integers(0, 2, 3000)]
    ).astype(dtype)
    X[1] = X[0]  # a cluster of equal rows
    weight = rng.integers(0, 3, 3000).astype(float) if weighted else None
    data, sides = DenseData(X, weight, n_threads), rng.random(3000) < 0.5
    origins, directions, sums = rng.normal(size=(K, D)), rng.normal(size=(K, D)), data.no_sums(2 * K)
    expected, changes = ref.two_means(
        X, weight, labels, sides, (origins, directions) if given else None, kept if given else 0, most, few
    )
    changed = two_means(
        data,
        labels,
        origins,
        directions,
        sides,
        sums,
        n_threads,
        given=given,
        kept=kept * given,
        most=most,
        few=few,
    )
    np.testing.assert_array_equal(sides, expected)
    assert changed == changes[-1]
    of_sides = data.sums_of((2 * labels + sides).astype(np.int32), 2 * K)
    np.testing.assert_array_equal(sums.sums, of_sides.sums[: 2 * K])
    np.testing.assert_array_equal(sums.counts, of_sides.counts[: 2 * K])


@pytest.mark.parametrize("n_threads", [1, 3])
@pytest.mark.parametrize("given", [False, True])
def test_rows_without_a_label_are_not_cut(given, n_threads):
    rng = np.random.default_rng(1)
    X, labels, before = (
        rng.normal(size=(3000, 6)),
        rng.integers(-1, 3, 3000).astype(np.int32),
        rng.random(3000) < 0.5,
    )
    of_all, planes, rows = (
        DenseData(X, None, n_threads),
        rng.normal(size=(2, 3, 6)),
        np.flatnonzero(labels >= 0),
    )
    sides, sums, some = before.copy(), of_all.no_sums(6), before[rows]
    two_means(of_all, labels, *planes.copy(), sides, sums, n_threads, given=given, most=4)
    np.testing.assert_array_equal(sides[labels < 0], before[labels < 0])
    part = of_all.of_rows(rows)
    two_means(part, labels[rows], *planes.copy(), some, part.no_sums(6), 1, given=given, most=4)
    np.testing.assert_array_equal(sides[rows], some)
    assert sums.counts[:6].sum() == len(rows)


def test_two_means_of_no_rows():
    data = DenseData(np.arange(6.0).reshape(3, 2), None, 1)
    none, planes = np.empty((0, 2)), np.zeros((2, 1, 2))
    changed = cuts.two_means(
        none,
        np.empty(0, np.int32),
        *planes,
        np.empty(0, np.uint8),
        data.no_sums(2),
        data.middle,
        data.step,
        True,
        0,
        3,
        0.0,
        1,
    )
    assert changed == 0


def test_a_cut_refuses_what_does_not_fit():
    X, labels = np.zeros((5, 2)), np.zeros(5, np.int32)
    data = DenseData(X + np.arange(2), None, 1)
    planes, sides, sums = np.zeros((2, 2)), np.zeros(5, bool), data.no_sums(4)
    for wrong in (labels + np.int32(2), labels - np.int32(2)):
        with pytest.raises(ValueError, match="labels from -1 to 1"):
            two_means(data, wrong, planes, planes, sides, sums, 1)
    with pytest.raises(ValueError, match="X"):
        two_means(data, labels[:4], planes, planes, sides, sums, 1)
    with pytest.raises(ValueError, match="directions"):
        two_means(data, labels, planes, planes[:1], sides, sums, 1)
    with pytest.raises(ValueError, match="sides"):
        two_means(data, labels, planes, planes, sides[:4], sums, 1)
    with pytest.raises(ValueError, match="sums"):
        two_means(data, labels, np.zeros((3, 2)), np.zeros((3, 2)), sides, sums, 1)
    with pytest.raises(ValueError, match="n_threads"):
        two_means(data, labels, planes, planes, sides, sums, 2)
    with pytest.raises(ValueError, match="middle or step"):
        cuts.two_means(
            X,
            labels,
            planes,
            planes,
            sides.view(np.uint8),
            sums,
            data.middle[:1],
            data.step,
            True,
            0,
            0,
            0.0,
            1,
        )


def test_rows_of_another_type_than_that_of_the_centres_are_refused():
    X, mu, middle, reach, sums = setting(0, np.float64)
    centres = kernel.Centres(mu, middle, reach, np.inf, True)
    labels, (upper, lower) = np.zeros(len(X), np.int32), np.empty((2, len(X)), np.float32)
    with pytest.raises(ValueError, match="X"):
        sweep.assign(
            X,
            centres,
            labels,
            upper,
            lower,
            sums,
            NONE,
            NONE,
            NONE,
            ALL_ROWS,
            NONE,
            0,
            len(X),
            tile(X.shape[1]),
            1,
        )


@pytest.mark.parametrize("share", [False, True])
def test_sums_after_moves_are_those_of_the_rows(share):
    X, _, middle, _, _ = setting(5, np.float64)
    weight = np.random.default_rng(0).integers(1, 5, len(X))
    given = weight * 0.37 if share else np.empty(0)
    sums = kernel.Sums(middle, np.full(X.shape[1], 2.0**30), weight, given, np.empty(0), 3, 1)
    labels = np.zeros(len(X), np.int32)
    kernel.accumulate(X, labels, sums, 1)
    start = sums.sums.copy()
    mu, (upper, lower) = np.stack([middle, middle + 1.0]), np.zeros((2, len(X)), np.float32)
    for row in (3, 77):
        sweep.open_at(X, mu, 1.0, row, labels, upper, lower, sums)
    np.testing.assert_array_equal(sums.sums.sum(axis=0), start.sum(axis=0))
    assert sums.counts.tolist() == [weight.sum() - weight[3] - weight[77], weight[3] + weight[77], 0]
    factor = given[3] if share else 1
    q = np.rint((X[[3, 77]] - middle) * 2.0**30 * (given[[3, 77], None] if share else factor)).astype(
        np.int64
    )
    np.testing.assert_array_equal(sums.sums[1], (q if share else q * weight[[3, 77], None]).sum(axis=0))


@pytest.mark.parametrize("weighted", [False, True])
def test_the_farthest_row_is_the_same_with_and_without_clusters(weighted):
    rng = np.random.default_rng(3)
    for n, K in ((1, 1), (50, 3), (2000, 7)):
        X, centers = rng.integers(0, 60, (n, 2)).astype(np.float64), rng.normal(size=(K, 2))
        weight = None
        if weighted:  # the farthest row is without weight
            weight = rng.integers(0, 2, n).astype(float)
            weight[0], weight[squared(X, centers).min(axis=1).argmax()] = 1.0, float(n == 1)
        rows = DPMeansLocalRows(DenseData(X, weight, 1))
        most, cells = rows.farthest(centers)
        for labels in (
            rng.integers(0, K, n).astype(np.int32),
            squared(X, centers).argmin(axis=1).astype(np.int32),
        ):
            found, at = rows.farthest(centers, labels)
            assert found == most
            np.testing.assert_array_equal(at, cells)
