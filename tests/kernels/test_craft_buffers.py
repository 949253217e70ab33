"""Buffers of CRAFT's passes: what a kernel is given room for is what it writes, to the last double."""

from __future__ import annotations

import numpy as np
import pytest

from craftc._kernels import craft as craft_kernel
from craftc._kernels import craft_passes as kernel
from craftc._kernels import craft_price as price_kernel
from craftc._kernels import moments as moments_kernel
from craftc._kernels import spectral_factor as factor_kernel
from craftc.craft.background import Background, pricing_of
from craftc.craft.parameters import ModelSpec
from craftc.table.moments import Moments, integer_grid
from tests.common import random_table

GUARD = 1.2345e-67
N_GUARDS = 512  # more than the 172 doubles by which the tables once were too short


def guarded(size, dtype=np.float64):
    """An array of exactly `size` items that starts a cache line, and the whole block it lies in, full of
    guard values.
    """
    block = np.full(size + 2 * N_GUARDS, GUARD if dtype == np.float64 else 77, dtype)
    first = N_GUARDS - (block.ctypes.data // block.itemsize + N_GUARDS) % (64 // block.itemsize)
    return block[first : first + size], block


def untouched(part, block):
    """Whether everything around `part` still holds the guard value."""
    first = (part.ctypes.data - block.ctypes.data) // block.itemsize
    guard = GUARD if block.dtype == np.float64 else 77
    return bool((block[:first] == guard).all() and (block[first + part.size :] == guard).all())


def one_pass(capacity, short=0, n_threads=1, K=None, **shape):
    """Passes over `capacity` clusters in buffers of exactly the documented sizes, less `short` doubles;
    whether the guards survive.
    """
    table = random_table(capacity, n=4 * capacity + 5, missing=0.0, **shape)
    K = capacity if K is None else K
    labels = (np.arange(len(table)) % K).astype(np.int32)
    grid = integer_grid(table, np.empty(0, np.int64))
    whole = Moments.of_partition(grid, 1.0, table, np.empty(0, np.int64), np.zeros(len(table), np.int32), 1)
    pricing = pricing_of(Background(whole), ModelSpec(price=None, selection="priced"))
    groups = Moments.of_partition(grid, 1.0, table, np.empty(0, np.int64), labels, K).groups.copy()
    buffers = {
        "slab": guarded(kernel.slab_size(pricing, capacity) - short),
        "scratch": guarded(n_threads * kernel.pass_scratch_size(pricing, capacity)),
        "work": guarded(capacity * price_kernel.parts_size(pricing)),
        "mask": guarded(capacity * pricing.D, np.uint8),
        "cost": guarded(capacity),
        "path": guarded(4),
    }
    part = {name: pair[0] for name, pair in buffers.items()}
    kernel.passes(
        table.numeric,
        table.codes,
        np.empty(0, np.int64),
        np.empty(0, np.int32),
        labels,
        groups,
        K,
        pricing,
        price_kernel.SELECTIONS["priced"],
        3,
        0.0,
        part["slab"],
        part["scratch"].reshape(n_threads, -1),
        np.zeros((n_threads if n_threads > 1 else 0, capacity, grid.width), np.int64),
        part["work"].reshape(capacity, -1),
        part["mask"].reshape(capacity, -1),
        part["cost"],
        part["path"],
        n_threads,
    )
    assert labels.min() >= 0
    assert labels.max() < K
    return all(untouched(*pair) for pair in buffers.values())


@pytest.mark.parametrize("n_threads", [1, 3])
@pytest.mark.parametrize(
    "shape", [{"p": 3, "q": 3}, {"p": 6, "q": 0}, {"p": 0, "q": 4}, {"p": 70, "q": 1}], ids=str
)
@pytest.mark.parametrize("capacity", [1, 2, 8, 9, 17, 20, 97, 100])
def test_passes_stay_inside_their_buffers(capacity, shape, n_threads):
    assert one_pass(capacity, n_threads=n_threads, **shape)


@pytest.mark.parametrize("capacity", [1, 9, 97])
def test_short_buffers_are_refused(capacity):
    with pytest.raises(ValueError, match="too small"):
        one_pass(capacity, short=200, p=3, q=3)
    with pytest.raises(ValueError, match="too small"):
        one_pass(capacity, K=capacity + 1, p=3, q=3)


@pytest.mark.parametrize("cost", [np.nan, np.inf])
@pytest.mark.parametrize("n_clusters", [1, 5, 8, 9])
def test_rows_without_a_finite_cost_keep_their_cluster(n_clusters, cost):
    """A cost of NaN loses every comparison with the +inf of padding lanes, which are no clusters."""
    table = random_table(2, n=19, p=2, q=0, missing=0.0)
    grid = integer_grid(table, np.empty(0, np.int64))
    lanes = (n_clusters + craft_kernel.PAD - 1) // craft_kernel.PAD * craft_kernel.PAD
    base, constant = np.full((2, lanes), np.inf)
    base[:n_clusters] = constant[:n_clusters] = cost
    square, linear, offset = np.zeros((3, 2, lanes))
    columns = np.arange(2, dtype=np.intp), np.empty(0, np.intp)
    tables = craft_kernel.CostTables(
        n_clusters,
        grid,
        np.zeros(2),
        np.ones(2),
        base,
        constant,
        square,
        linear,
        offset,
        np.zeros((0, lanes)),
        *columns,
    )
    before = (np.arange(19) % n_clusters).astype(np.int32)
    for start, expected in ((before, before), (np.full(19, -1, np.int32), np.zeros(19, np.int32))):
        labels = start.copy()
        groups, partial = (
            np.zeros((n_clusters, grid.width), np.int64),
            np.zeros((1, n_clusters, grid.width), np.int64),
        )
        scratch = np.empty((1, craft_kernel.scratch_size(tables)))
        craft_kernel.assign(
            table.numeric,
            table.codes,
            np.empty(0, np.int64),
            tables,
            labels,
            np.empty(0),
            scratch,
            partial,
            groups,
            1,
        )
        np.testing.assert_array_equal(labels, expected)


def test_kernels_refuse_none():
    grid = moments_kernel.Grid(np.zeros(1), np.ones(1), np.empty(0, np.intp), 0)
    with pytest.raises(TypeError):
        moments_kernel.merge(None, np.zeros(6, np.int64), 1, grid.first_numeric)
    with pytest.raises(TypeError):
        moments_kernel.means(None, 1, np.zeros((1, 1)), np.zeros((1, 1)))
    with pytest.raises(TypeError):
        kernel.slab_size(None, 3)
    with pytest.raises(TypeError):
        craft_kernel.scratch_size(None)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((np.zeros(2), np.zeros(1), np.empty(0, np.intp), 0), "one value for each"),
        ((np.zeros(1), np.ones(1), np.array([5, 1]), 7), "increase"),
        ((np.zeros(1), np.ones(1), np.array([0, 9]), 9), "increase"),
        ((np.zeros(1), np.ones(1), np.empty(0, np.intp), -3), "n_levels"),
    ],
)
def test_grids_that_do_not_fit(arguments, message):
    with pytest.raises(ValueError, match=message):
        moments_kernel.Grid(*arguments)


def test_strided_arrays_are_refused_where_only_a_pointer_is_kept():
    numeric, codes, one = np.zeros((5, 4))[:, ::2], np.zeros((5, 0), np.uint8), np.zeros(2)
    index, none = np.empty(0, np.intp), np.empty(0)
    with pytest.raises(ValueError, match="contiguous"):
        factor_kernel.hals(
            numeric,
            np.arange(2),
            one,
            one,
            one,
            codes,
            index,
            index,
            np.zeros(1, np.intp),
            index,
            index,
            none,
            1.0,
            np.ones((5, 2)),
            np.ones((2, 2)),
            np.zeros((4, 2)),
            np.zeros(1),
            1,
            1,
        )
