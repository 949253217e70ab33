"""The kernels of CRAFT against reference implementations in NumPy, written from the formulas."""

from __future__ import annotations

import numpy as np
import pytest

from craftc._common.threads import aligned
from craftc._common.validation import integer_weights
from craftc._kernels import craft as kernel
from craftc._kernels.craft_rows import rows_in
from craftc.craft.background import Background
from craftc.craft.clusters import assign_only
from craftc.craft.paper.clusters import PaperClusters
from craftc.craft.parameters import ModelSpec
from craftc.table.moments import Moments, integer_grid
from tests.common import random_table


def fitted(seed, n=120, n_clusters=5, **shape):
    """(table, clusters) of a random partition with every feature selected."""
    table = random_table(seed, n=n, **shape)
    weight, unit = integer_weights(None)
    grid = integer_grid(table, weight)
    labels = (np.random.default_rng(seed).permutation(n) % n_clusters).astype(np.int32)
    total = Moments.of_partition(grid, unit, table, weight, np.zeros(n, np.int32), 1)
    moments = Moments.of_partition(grid, unit, table, weight, labels, n_clusters)
    return table, PaperClusters(moments, Background(total), ModelSpec(fraction=1.0))


def reference_costs(table, clusters):
    """own - background of every row and cluster, cell by cell."""
    background, K = clusters.background, len(clusters.mask)
    p, out = table.numeric.shape[1], np.zeros((len(table), K))
    eta = clusters.level_probabilities()
    seen = background.level_present(clusters.moments.counts)
    for i in range(len(table)):
        for k in range(K):
            for d in range(p):
                z = (float(table.numeric[i, d]) - background.centre[d]) * background.scale[d]
                if clusters.mask[k, d] and clusters.moments.present[k, d] and not np.isnan(z):
                    own = 0.5 * (z - clusters.shift[k, d]) ** 2 * clusters.precision[k, d]
                    out[i, k] += own - 0.5 * np.log(clusters.precision[k, d]) - 0.5 * z * z
            for j in range(table.codes.shape[1]):
                t = background.grid.level_start[j] + table.codes[i, j]
                if clusters.mask[k, p + j] and seen[k, j] and background.frequency[t] > 0:
                    out[i, k] += np.log(background.frequency[t]) - np.log(eta[k, t])
    return out


@pytest.mark.parametrize("n_clusters", [1, 2, 7, 8, 9, 17, 70])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_costs_and_assignment(n_clusters, dtype):
    table, clusters = fitted(n_clusters, n=141, n_clusters=n_clusters, p=3, q=3, dtype=dtype)
    tables = clusters.tables()
    out = np.empty((len(table), n_clusters))
    kernel.costs(table.numeric, table.codes, tables, aligned((1, kernel.scratch_size(tables))), out)
    np.testing.assert_allclose(out, reference_costs(table, clusters), atol=1e-9)
    labels = np.full(len(table), -1, np.int32)
    assign_only(table, tables, labels, 1)
    np.testing.assert_array_equal(labels, out.argmin(axis=1))


@pytest.mark.parametrize(("p", "q"), [(0, 3), (3, 0), (1, 1), (70, 2), (2, 70)])
def test_any_number_of_columns(p, q):
    table, clusters = fitted(3, n=61, p=p, q=q)
    tables = clusters.tables()
    out = np.empty((len(table), 5))
    kernel.costs(table.numeric, table.codes, tables, aligned((1, kernel.scratch_size(tables))), out)
    np.testing.assert_allclose(out, reference_costs(table, clusters), atol=1e-9)


def test_only_selected_features_cost():
    table, clusters = fitted(5, p=4, q=4)
    clusters.mask[:, [0, 2, 5]] = 0
    clusters.mask[1] = 0
    tables = clusters.tables()
    assert tables.numeric.tolist() == [1, 3]
    out = np.empty((len(table), 5))
    kernel.costs(table.numeric, table.codes, tables, aligned((1, kernel.scratch_size(tables))), out)
    np.testing.assert_allclose(out, reference_costs(table, clusters), atol=1e-9)
    assert (out[:, 1] == 0).all()


def test_a_row_costs_the_same_wherever_it_stands():
    table, clusters = fitted(6, n=64, p=3, q=2)
    tables = clusters.tables()
    scratch = aligned((1, kernel.scratch_size(tables)))
    whole, alone = np.empty((64, 5)), np.empty((1, 5))
    kernel.costs(table.numeric, table.codes, tables, scratch, whole)
    for i in range(64):
        one = table.take(np.array([i]))
        kernel.costs(one.numeric, one.codes, tables, scratch, alone)
        np.testing.assert_array_equal(alone[0], whole[i])


def test_a_row_stays_unless_it_gains():
    table, clusters = fitted(7, n=40, p=2, q=0, n_clusters=1)
    both = PaperClusters(clusters.moments, clusters.background, clusters.spec)
    both.moments.open()
    both.moments.groups[1] = both.moments.groups[0]  # equal clusters: every row costs the same in both
    equal = PaperClusters(both.moments, clusters.background, clusters.spec)
    labels = (np.arange(40) % 2).astype(np.int32)
    assign_only(table, equal.tables(), labels, 1)
    np.testing.assert_array_equal(labels, np.arange(40) % 2)
    fresh = np.full(40, -1, np.int32)
    assign_only(table, equal.tables(), fresh, 1)
    assert (fresh == 0).all()


def test_first_above():
    best, limit = np.array([1.0, 3.0, 2.0, 5.0]), np.array([2.0, 2.0, np.inf, 4.0])
    assert kernel.first_above(best, limit, 0) == 1
    assert kernel.first_above(best, limit, 2) == 3
    assert kernel.first_above(best, limit, 4) == -1


def test_a_row_at_its_limit_is_not_above_it():
    best, limit = np.array([1.0, 2.0, 3.0]), np.array([1.0, 2.0, 2.5])
    assert kernel.first_above(best, limit, 0) == 2
    assert kernel.first_above(best[:2], limit[:2], 0) == -1


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_costs_of_levels_are_summed_in_the_order_of_the_columns(dtype):
    rng = np.random.default_rng(0)
    widths = np.array([3, 7, 2])
    first, level = np.cumsum(widths) - widths, rng.normal(size=widths.sum())
    codes = rng.integers(0, widths, (50, 3)).astype(dtype)
    found, expected = np.empty(50), np.zeros(50)
    kernel.level_costs(codes, first, level, found)
    for d in range(3):
        expected += level[first[d] + codes[:, d]]
    np.testing.assert_array_equal(found, expected)
    nothing = np.ones(4)
    kernel.level_costs(np.empty((4, 0), dtype), first[:0], level, nothing)
    assert not nothing.any()
    for wrong in ((first[:2], level, found), (first, level, found[1:]), (first, level[:9], found)):
        with pytest.raises(ValueError, match=r"first|cost"):
            kernel.level_costs(codes, *wrong)


def test_rows_with_a_label():
    labels = np.random.default_rng(0).integers(-1, 4, 500).astype(np.int32)
    for k in range(-1, 6):
        np.testing.assert_array_equal(rows_in(labels, k), np.flatnonzero(labels == k))
    assert rows_in(labels, 0).dtype == np.int32
    assert rows_in(labels[:0], 0).shape == (0,)
