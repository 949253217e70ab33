"""Exact moments: integers that agree with Python's, whatever the order."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from craftc import MixedTable
from craftc._common.validation import integer_weights
from craftc._kernels import moments as kernel
from craftc.table.moments import Moments, integer_grid
from tests.common import examples, random_table

WORD = 1 << 64


def signed(words):
    """Python integer of a pair of words."""
    low, high = (words["low"], words["high"]) if isinstance(words, dict) else words
    value = low + high * WORD
    return value - (1 << 128) if value >= 1 << 127 else value


def wrap(value):
    """Python integer modulo 2^128, signed."""
    value %= 1 << 128
    return value - (1 << 128) if value >= 1 << 127 else value


@examples(300)
@given(
    a=st.integers(-(1 << 127), (1 << 127) - 1),
    b=st.integers(-(1 << 127), (1 << 127) - 1),
    factor=st.integers(-(1 << 63), (1 << 63) - 1),
)
def test_both_kinds_of_128_bit_integers_agree_with_python(a, b, factor):
    limbs, used, value = kernel.int128_check(a % WORD, (a >> 64) % WORD, b % WORD, (b >> 64) % WORD, factor)
    low = a % WORD
    low -= WORD if low >= WORD // 2 else 0
    for total, product, of_words, widened in (limbs, used):
        assert signed(total) == wrap(a + b)
        assert signed(product) == wrap(a * factor)
        assert signed(of_words) == low * factor
        assert signed(widened) == factor
    assert value == pytest.approx(float(a), rel=2.0**-51)


def exact_moments(grid, column, d, weight):
    """S, mean and sum of squared deviations of a column on the grid, in rational numbers."""
    q = [round((x - grid.centre[d]) * grid.scale[d]) for x in column]
    S = sum(weight)
    if S == 0:
        return 0, Fraction(0), Fraction(0)
    mean = Fraction(sum(w * v for w, v in zip(weight, q, strict=True)), S)
    return S, mean, sum(w * (v - mean) ** 2 for w, v in zip(weight, q, strict=True))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_means_and_deviations_are_exact(seed, weighted, dtype):
    table = random_table(seed, n=50, p=3, q=2, dtype=dtype)
    rng = np.random.default_rng(seed)
    weight, unit = integer_weights(rng.integers(0, 5, 50).astype(float) if weighted else None)
    weight[:1] = 1
    grid = integer_grid(table, weight)
    labels = rng.integers(0, 3, 50).astype(np.int32)
    moments = Moments.of_partition(grid, unit, table, weight, labels, 3)
    mean, deviations = moments.means()
    for k in range(3):
        for d in range(3):
            rows = [i for i in range(50) if labels[i] == k and not math.isnan(table.numeric[i, d])]
            w = [int(weight[i]) if weighted else 1 for i in rows]
            S, expected, spread = exact_moments(grid, [float(table.numeric[i, d]) for i in rows], d, w)
            assert moments.present[k, d] == S
            assert mean[k, d] == pytest.approx(float(expected), rel=1e-15)
            assert deviations[k, d] == pytest.approx(float(spread), rel=1e-14)
    counts = np.zeros_like(moments.counts)
    for i in range(50):
        for j in range(2):
            counts[labels[i], grid.level_start[j] + table.codes[i, j]] += weight[i] if weighted else 1
    np.testing.assert_array_equal(moments.counts, counts)


def test_rows_that_come_and_go_leave_no_trace():
    table = random_table(1, n=200, p=3, q=2)
    weight, unit = integer_weights(np.random.default_rng(0).random(200))
    grid = integer_grid(table, weight)
    everything = np.zeros(200, np.int32)
    whole = Moments.of_partition(grid, unit, table, weight, everything, 1)
    rng = np.random.default_rng(1)
    parts = Moments.of_partition(grid, unit, table, weight, rng.integers(0, 7, 200).astype(np.int32), 7)
    np.testing.assert_array_equal(parts.total().groups, whole.groups)
    group = whole.groups[0].copy()
    for k in rng.permutation(7):
        kernel.merge(group, parts.groups[k], -1, grid.first_numeric)
    assert not group.any()


@pytest.mark.parametrize("n_threads", [1, 2, 3, 7])
def test_threads_add_the_same_bits(n_threads, monkeypatch):
    monkeypatch.setattr("craftc._common.threads.SMALL_WORK", 0)
    table = random_table(2, n=9000, p=2, q=2)
    weight, unit = integer_weights(None)
    grid = integer_grid(table, weight)
    labels = np.random.default_rng(0).integers(-1, 4, 9000).astype(np.int32)
    one = Moments.of_partition(grid, unit, table, weight, labels, 4, 1)
    many = Moments.of_partition(grid, unit, table, weight, labels, 4, n_threads)
    np.testing.assert_array_equal(one.groups, many.groups)


def accumulated(X, codes, weight, labels, grid, K):
    groups = np.zeros((K, grid.width), np.int64)
    kernel.accumulate(X, codes, weight, labels, grid, np.zeros((0, K, grid.width), np.int64), groups, 1)
    return groups


def random_cells(seed, n, p, dtype, bits, missing=0.0):
    """Cells within a grid of this many bits, and that grid, with one categorical column."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, p)).astype(dtype)
    X[rng.random((n, p)) < missing] = np.nan
    return X, kernel.Grid(0.01 * rng.normal(size=p), np.full(p, 2.0 ** (bits - 1)), np.zeros(1, np.intp), 4)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("code", [np.uint8, np.uint16])
@pytest.mark.parametrize("K", [1, 2, 40, 128, 129])
@pytest.mark.parametrize("p", [0, 1, 3, 8, 16, 17, 33, 300])
def test_rows_summed_together_are_those_added_one_by_one(p, K, code, dtype):
    for n, missing in ((1, 0.0), (900, 0.0), (2100, 0.001)):
        X, grid = random_cells(p, n, p, dtype, 51, missing)
        rng = np.random.default_rng(K)
        codes, labels = rng.integers(0, 4, (n, 1)).astype(code), rng.integers(-1, K, n).astype(np.int32)
        together = accumulated(X, codes, np.empty(0, np.int64), labels, grid, K)
        np.testing.assert_array_equal(together, accumulated(X, codes, np.ones(n, np.int64), labels, grid, K))


@pytest.mark.parametrize("bits", [39, 51])
def test_the_largest_sums_are_exact(bits):
    """1984 rows in one group at the end of the grid: the words of 64 bits are as full as they can be."""
    largest = 2**bits - 1
    for q in (largest, -largest, -(2**51)):
        X, grid = np.full((1984, 2), float(q)), kernel.Grid(np.zeros(2), np.ones(2), np.empty(0, np.intp), 0)
        group = accumulated(
            X, np.empty((1984, 0), np.uint8), np.empty(0, np.int64), np.zeros(1984, np.int32), grid, 1
        )[0]
        assert group[0] == 1984
        for cell in (group[1:6], group[6:]):
            assert (cell[0], signed_words(cell[1:3]), signed_words(cell[3:])) == (
                1984,
                1984 * q,
                1984 * q * q,
            )


def signed_words(words):
    """Python integer of two stored words."""
    return signed([int(word) % WORD for word in words])


def test_numbers_beyond_the_range_of_vectors_are_added_one_by_one():
    q = [2**51, -(2**51) - 1, 2**52, 2**60, 5, -7]
    X, grid = np.array(q, np.float64)[:, None], kernel.Grid(np.zeros(1), np.ones(1), np.empty(0, np.intp), 0)
    group = accumulated(X, np.empty((6, 0), np.uint8), np.empty(0, np.int64), np.zeros(6, np.int32), grid, 1)[
        0
    ]
    exact = [int(x) for x in X[:, 0]]
    assert (signed_words(group[2:4]), signed_words(group[4:6])) == (sum(exact), sum(x * x for x in exact))


# ---- columns in two blocks ----


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [1, 2, 7, 1000])
@pytest.mark.parametrize("p", [1, 2, 5, 16, 17, 333, 1023, 1024, 1500])
def test_ranges_are_those_of_numpy_whatever_the_threads(p, n, dtype):
    rng = np.random.default_rng(p + n)
    X = rng.normal(size=(n, p)).astype(dtype)
    X[rng.random((n, p)) < 0.1] = -0.0
    X[0, 0], X[-1, -1] = -0.0, np.inf
    weight = rng.integers(0, 2, n)
    weight[-1] = 1
    with_missing = X.copy()
    with_missing[rng.random((n, p)) < 0.3] = np.nan
    for n_threads in (1, 3):
        low, high = np.empty((2, p))
        assert kernel.column_ranges(X, np.empty(0, np.int64), low, high, n_threads) is False
        assert np.array_equal([low, high], [X.min(axis=0), X.max(axis=0)])
        assert not np.signbit([*low[low == 0], *high[high == 0]]).any()
        kernel.column_ranges(X, weight, low, high, n_threads)
        assert np.array_equal([low, high], [X[weight > 0].min(axis=0), X[weight > 0].max(axis=0)])
        assert (
            kernel.column_ranges(with_missing, np.empty(0, np.int64), low, high, n_threads)
            == np.isnan(with_missing).any()
        )
        assert np.array_equal(low, np.fmin.reduce(with_missing, axis=0, initial=np.inf))
        assert np.array_equal(high, np.fmax.reduce(with_missing, axis=0, initial=-np.inf))
        assert (
            kernel.column_ranges(with_missing, weight, low, high, n_threads)
            == np.isnan(with_missing[weight > 0]).any()
        )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("n", "p"), [(4099, 1), (1400, 3), (259, 16), (11, 700), (7, 2100)])
def test_one_cell_anywhere_is_seen(n, p, dtype):
    """The smallest, the largest or the only missing cell, wherever it is in the blocks of rows that are
    compared at once.
    """
    X = np.random.default_rng(n).uniform(-1, 1, (n, p)).astype(dtype)
    none, low, high = np.empty(0, np.int64), np.empty(p), np.empty(p)
    for place in np.random.default_rng(p).choice(n * p, 60, replace=False):
        i, j = divmod(int(place), p)
        for cell in (-9.0, 9.0, np.nan, np.inf):
            changed = X.copy()
            changed[i, j] = cell
            assert kernel.column_ranges(changed, none, low, high, 1) == bool(np.isnan(cell))
            assert np.array_equal(low, np.nanmin(changed, axis=0))
            assert np.array_equal(high, np.nanmax(changed, axis=0))


def test_variance_survives_a_large_offset_and_a_tight_cluster():
    rng = np.random.default_rng(0)
    x = np.concatenate([1e6 + 1e-6 * rng.normal(size=1000), 1e6 + rng.normal(size=1000)])[:, None]
    table = MixedTable.from_data(x)
    weight, unit = integer_weights(None)
    grid = integer_grid(table, weight)
    labels = np.repeat([0, 1], 1000).astype(np.int32)
    _, deviations = Moments.of_partition(grid, unit, table, weight, labels, 2).means()
    tight = (x[:1000, 0] - 1e6) * grid.scale[0]  # the cells themselves carry the rounding of 1e6
    assert deviations[0, 0] == pytest.approx(1000 * tight.var(), rel=1e-6)


@pytest.mark.parametrize(
    ("weight", "unit"), [([1.0, 2.0, 0.0], 1.0), ([0.5, 0.25, 0.0], 2.0**-46), ([2.0**50, 1.0, 3.0], 2.0**5)]
)
def test_weights_become_integers(weight, unit):
    counts, found = integer_weights(np.array(weight))
    assert found == pytest.approx(unit, rel=2)  # a power of two near it
    np.testing.assert_allclose(counts * found, weight, atol=2 * found)
    assert counts.sum() <= 2**47
