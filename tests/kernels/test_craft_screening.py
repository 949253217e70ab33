"""Screening in single precision decides as the costs in double precision do: ties, large numbers, missing
cells, few columns selected.
"""

from __future__ import annotations

import numpy as np
import pytest

from craftc._common.threads import aligned
from craftc._common.validation import integer_weights
from craftc._kernels import craft as kernel
from craftc.craft.background import Background
from craftc.craft.clusters import assign_only
from craftc.craft.paper.clusters import PaperClusters
from craftc.craft.parameters import ModelSpec
from craftc.table import MixedTable
from craftc.table.moments import Moments, integer_grid
from tests.common import random_table

N = 1500  # more rows than those from which tables are rounded


def setting(seed, K, spread=1.0, fraction=1.0, **shape):
    """(table, tables, costs) of a random partition; the first column is multiplied by up to `spread`."""
    rng = np.random.default_rng(seed)
    table = random_table(seed, n=N, **shape)
    if table.numeric.shape[1]:
        numeric = table.numeric * rng.choice([1.0, spread], size=(N, 1)).astype(table.numeric.dtype)
        table = MixedTable._trusted(numeric, table.codes, table.schema)
    weight, unit = integer_weights(None)
    grid = integer_grid(table, weight)
    labels = (rng.permutation(N) % K).astype(np.int32)
    total = Moments.of_partition(grid, unit, table, weight, np.zeros(N, np.int32), 1)
    tables = PaperClusters(
        Moments.of_partition(grid, unit, table, weight, labels, K),
        Background(total),
        ModelSpec(fraction=fraction),
    ).tables()
    costs = np.empty((N, K))
    kernel.costs(table.numeric, table.codes, tables, aligned((1, kernel.scratch_size(tables))), costs)
    return table, tables, costs


def reference_labels(costs, labels):
    """A row moves to its cheapest cluster, the first of equal ones, if that saves more than 1e-12 nats."""
    out = costs.argmin(axis=1)
    own = np.flatnonzero(labels >= 0)
    stays = own[costs[own, labels[own]] <= costs[own, out[own]] + 1e-12]
    out[stays] = labels[stays]
    return out


@pytest.mark.parametrize(
    "shape",
    [{"p": 3, "q": 3}, {"p": 20, "q": 0}, {"p": 0, "q": 4}, {"p": 1, "q": 1}, {"p": 40, "q": 35}],
    ids=str,
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("K", [1, 2, 8, 9, 16, 17, 33, 70])
def test_screened_labels_are_those_of_the_costs(K, dtype, shape):
    for seed, spread, fraction in [(0, 1.0, 1.0), (1, 1e3, 1.0), (2, 1e12, 1.0), (3, 1.0, 0.1)]:
        table, tables, costs = setting(
            seed + K, K, spread, fraction, dtype=dtype, missing=0.1 * (seed % 2), **shape
        )
        rng = np.random.default_rng(seed)
        for labels in (np.full(N, -1), costs.argmin(axis=1), rng.integers(-1, K, N)):
            own = labels.astype(np.int32)
            assign_only(table, tables, own, 1)
            np.testing.assert_array_equal(own, reference_labels(costs, labels))


@pytest.mark.parametrize("K", [2, 16, 17])
def test_cells_beyond_single_precision_are_left_to_the_costs(K):
    table, tables, costs = setting(K, K, 1e60, dtype=np.float64, p=5, q=2)
    for labels in (np.full(N, -1), costs.argmin(axis=1)):
        own = labels.astype(np.int32)
        assign_only(table, tables, own, 1)
        np.testing.assert_array_equal(own, reference_labels(costs, labels))


@pytest.mark.parametrize("gap", [0.0, 1e-13, 1e-11, 1e-9, 1e-7, 1e-5])
def test_clusters_that_rounding_cannot_tell_apart(gap):
    table, tables, _ = setting(5, 6, p=4, q=2)
    for array in (
        tables.base,
        tables.constant,
        tables.square.T,
        tables.linear.T,
        tables.offset.T,
        tables.level.T,
    ):
        array[3] = array[1]
    tables.base[3] += gap
    tables.constant[3] += gap
    costs = np.empty((N, 6))
    kernel.costs(table.numeric, table.codes, tables, aligned((1, kernel.scratch_size(tables))), costs)
    for labels in (np.full(N, -1), np.full(N, 1), np.full(N, 3)):
        own = labels.astype(np.int32)
        assign_only(table, tables, own, 1)
        np.testing.assert_array_equal(own, reference_labels(costs, labels))


def test_costs_beyond_single_precision():
    table, tables, _ = setting(6, 4, p=3, q=2, missing=0.0)
    tables.square[0, :4] = [1e300, 2e300, 1e38, 1e39]
    costs = np.empty((N, 4))
    kernel.costs(table.numeric, table.codes, tables, aligned((1, kernel.scratch_size(tables))), costs)
    own = np.full(N, -1, np.int32)
    assign_only(table, tables, own, 1)
    np.testing.assert_array_equal(own, reference_labels(costs, np.full(N, -1)))
