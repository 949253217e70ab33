"""The reference of the pooled background against its objective by rows and the best of all masks."""

from math import log

import numpy as np
import pytest

from tests.reference import automatic, pooled
from tests.reference.craft_cases import mixed_table, partition, random_case, subspaces


def random_partition(seed, weighted=False, **options):
    """A random table with missing cells and random labels; with weights 0, 1/2, 1 and 2, if weighted."""
    (numeric, codes, n_levels, labels), _ = random_case(seed)
    if weighted:
        options["weight"] = np.random.default_rng(seed).choice([0.0, 0.5, 1.0, 2.0], size=len(labels))
        options["weight"][0] = 1.0
    table = numeric, codes, n_levels
    return table, labels, *partition(table, labels, **options)


def clustered_partition(seed):
    """A table of clusters, a fifth of whose labels are random."""
    rng, K, n = np.random.default_rng(seed), 2 + seed % 3, 60 + 10 * (seed % 10)
    table, truth = mixed_table(
        seed, n=n, K=2 + seed % 4, p=2 + seed % 3, q=2, irrelevant=1, shift=1 + seed % 3, missing=0.1
    )
    labels = np.where(rng.random(len(truth)) < 0.8, truth % K, rng.integers(K, size=len(truth)))
    return table, *partition(table, labels)


@pytest.mark.slow_except(20)
@pytest.mark.parametrize("price_factor", [1.0, 2.5])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("seed", range(10))
def test_objective_from_rows_and_from_sums(seed, weighted, price_factor):
    """Missing cells, weights, constant columns; random masks, none and all."""
    table, labels, t, _, stats = random_partition(seed, weighted, price_factor=price_factor)
    known = np.unique(np.asarray(labels)[t.rows])
    labels = np.searchsorted(known, labels)  # labels that only rows of weight 0 have count nowhere
    shape, rng = (len(stats), t.D), np.random.default_rng(seed)
    for mask in (rng.random(shape) < 0.5, np.zeros(shape, bool), np.ones(shape, bool)):
        from_rows = pooled.objective_of_rows(*table, labels, mask, weight=t.weight, price_factor=price_factor)
        assert pooled.objective(t, stats, mask) == pytest.approx(from_rows, rel=1e-9, abs=1e-9)


def test_a_background_without_cells_is_not_paid_for():
    """One column, two clusters: a pool of one cluster costs what that cluster would, its own price in place
    of the pool's.
    """
    numbers = np.array([[0.0], [1.0], [5.0], [6.0]]), np.empty((4, 0), int), []
    categories = np.empty((4, 0)), np.array([[0], [0], [1], [2]]), [3]
    for table in (numbers, categories):
        t, _, stats = partition(table, [0, 0, 1, 1])
        own = automatic.gains(t, stats)[:, 0]
        free = t.l0 + 2 * 0.5 * log(4) + 2 * log(2) + 4 * log(2)  # h, log(D+1) and the sizes; log C(1, q) = 0
        paid = t.parameters[0] * 0.5 * log(4)
        assert pooled.objective(t, stats, [[False], [False]]) == pytest.approx(free)
        assert pooled.objective(t, stats, [[True], [False]]) == pytest.approx(free + paid - own.sum())
        assert pooled.objective(t, stats, [[True], [True]]) == pytest.approx(free + paid - own.sum())


def assert_optimal(t, stats):
    J, mask = pooled.best_masks(t, stats)
    best, best_mask = pooled.best_masks_exhaustive(t, stats)
    assert pytest.approx(best, rel=1e-11, abs=1e-9) == J
    np.testing.assert_array_equal(mask, best_mask)  # ties included


@pytest.mark.slow_except(20)
@pytest.mark.parametrize("seed", range(24))
def test_rule_finds_the_optimum_of_random_labels(seed):
    _, _, t, _, stats = random_partition(seed)
    assert_optimal(t, stats)


@pytest.mark.slow_except(8)
@pytest.mark.parametrize("seed", range(16))
def test_rule_finds_the_optimum_of_clusters(seed):
    _, t, _, stats = clustered_partition(seed)
    assert_optimal(t, stats)


@pytest.mark.slow_except(1)
@pytest.mark.parametrize("layout", ["2a", "3a", "4a", "4c"])
def test_rule_finds_the_optimum_of_the_figures(layout):
    t, stats, _ = subspaces(layout, 0)
    assert_optimal(t, stats)


def test_exhaustive_is_the_best_of_all_masks():
    """Every mask of 3 clusters and 3 columns, by the formula."""
    for seed in range(3):
        table, truth = mixed_table(seed, n=40, K=3, p=1, q=1, irrelevant=0)
        table = np.column_stack([table[0], np.random.default_rng(seed).normal(size=40)]), *table[1:]
        t, _, stats = partition(table, truth)
        every = (np.array([bits >> i & 1 for i in range(9)], bool).reshape(3, 3) for bits in range(2**9))
        lowest = min(pooled.objective(t, stats, mask) for mask in every)
        J, mask = pooled.best_masks_exhaustive(t, stats)
        assert pytest.approx(lowest, rel=1e-12) == J
        assert pytest.approx(lowest, rel=1e-12) == pooled.objective(t, stats, mask)


@pytest.mark.slow_except(4)
@pytest.mark.parametrize("seed", range(10))
def test_row_costs_are_differences_of_the_likelihood(seed):
    """Cost of a row under k minus under l: its cells under the parameters in force, and the sizes."""
    _, t, _, stats = clustered_partition(seed)
    mask = np.random.default_rng(seed).random((len(stats), t.D)) < 0.5
    costs = pooled.row_costs(t, t.rows, stats, mask)
    full = np.tile(-np.log(stats[:, 0] / t.N), (len(t.rows), 1))
    for d in range(t.D):
        sums = pooled.column_sums(t, stats, d)
        for k in range(len(stats)):
            group = [k] if mask[k, d] else np.flatnonzero(~mask[:, d])
            full[:, k] += pooled.cell_costs(t, d, t.rows, pooled.fit(t, d, sums[group].sum(axis=0)))
    np.testing.assert_allclose(costs - costs[:, :1], full - full[:, :1], rtol=1e-9, atol=1e-9)
