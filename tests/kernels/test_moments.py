"""Exact moments: integers that agree with Python's, whatever the order."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from craftc._common.weights import integer_weights
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
    limbs, used, value = kernel.int128_check(
        a % WORD, (a >> 64) % WORD, b % WORD, (b >> 64) % WORD, factor
    )
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


def test_variance_survives_a_large_offset_and_a_tight_cluster():
    rng = np.random.default_rng(0)
    x = np.concatenate([1e6 + 1e-6 * rng.normal(size=1000), 1e6 + rng.normal(size=1000)])[:, None]
    from craftc import MixedTable

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
