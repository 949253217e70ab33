"""Uniform numbers that belong to keys (src/common/random.pyx), against SplitMix64 by Python's integers."""

from __future__ import annotations

import numpy as np
import pytest

from craftc._common.random import spread, uniform
from craftc._kernels import random as kernel

WORD = (1 << 64) - 1


def mixed(z):
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & WORD
    z = (z ^ z >> 27) * 0x94D049BB133111EB & WORD
    return z ^ z >> 31


def number(seed, *key):
    state = mixed((seed + 0x9E3779B97F4A7C15) & WORD)
    for part in key:
        state = mixed(state + (int(part) + 1) * 0x9E3779B97F4A7C15 & WORD)
    return (state >> 11) / 2**53


def test_the_mixer_is_splitmix64():
    """Its first outputs for the seed 1234567, as its authors have published them."""
    golden, seed = 0x9E3779B97F4A7C15, 1234567
    outputs = [mixed(seed + i * golden & WORD) for i in (1, 2, 3)]
    assert outputs == [6457827717110365317, 3203168211198807973, 9817491932198370423]


@pytest.mark.parametrize("seed", [0, 7, 2**31 - 1, 2**63, 2**64 - 1, 2**70 + 3])
@pytest.mark.parametrize("key", [(), (0,), (3, 17), (2**64 - 1, 0, 5), (np.int64(4), np.array(2))])
def test_one_number(seed, key):
    found = uniform(seed, *key)
    assert type(found) is float
    assert found == number(seed, *key)


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint64])
def test_arrays_of_keys(dtype):
    keys = np.arange(2000, dtype=dtype)[::2]
    np.testing.assert_array_equal(uniform(5, 1, keys), [number(5, 1, k) for k in keys])
    assert uniform(5, 1, keys[:0]).shape == (0,)


def test_keys_broadcast():
    rows, columns = np.arange(4)[:, None], np.arange(3)
    expected = [[number(2, 9, i, j, 6) for j in range(3)] for i in range(4)]
    np.testing.assert_array_equal(uniform(2, 9, rows, columns, 6), expected)
    np.testing.assert_array_equal(uniform(2, rows), [[number(2, i)] for i in range(4)])


def test_large_keys_of_several_types_keep_their_bits():
    """Together, int64 and uint64 would become float64."""
    rows, large = np.arange(3), np.array([2**64 - 1, 2**63 + 1, 2**53 + 1], np.uint64)
    np.testing.assert_array_equal(
        uniform(4, rows, large), [number(4, i, j) for i, j in zip(rows, large.tolist(), strict=True)]
    )
    np.testing.assert_array_equal(uniform(4, rows, 2**63 + 1), [number(4, i, 2**63 + 1) for i in rows])
    np.testing.assert_array_equal(uniform(4, large[::2]), [number(4, j) for j in large[::2].tolist()])


def test_arguments_that_do_not_fit():
    with pytest.raises(ValueError, match="out"):
        kernel.uniform_numbers(0, (), np.zeros((3, 1), np.uint64), np.empty(2))
    with pytest.raises((TypeError, ValueError)):
        kernel.uniform_number("x", ())


@pytest.mark.parametrize(("n", "m"), [(5, 5), (6, 5), (16_385, 16_384), (20_000, 16_384), (10**10, 64)])
def test_rows_of_a_sample_are_distinct(n, m):
    rows = spread(n, m, 0, 3)
    assert len(rows) == m
    assert rows[0] >= 0
    assert rows[-1] < n
    assert (np.diff(rows) > 0).all()
    parts = np.arange(m + 1) * n // m
    assert (rows >= parts[:-1]).all()
    assert (rows < parts[1:]).all()
