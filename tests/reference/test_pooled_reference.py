"""The reference implementation of the pooled background has the properties of its objective, and its masks
are the optimum.
"""

from math import log

import numpy as np
import pytest

from craftc.datasets import make_subspaces
from tests.reference import automatic, pooled
from tests.reference.test_automatic_reference import mixed_table
from tests.reference.test_craft_reference import random_case


def partition(table, labels, **options):
    """A problem, labels 0..K-1 of its rows, and the sums of the clusters."""
    t = automatic.problem(*table, **options)
    labels = np.unique(np.asarray(labels)[t.rows], return_inverse=True)[1]
    return t, labels, automatic.sums(t, t.rows, labels, labels.max() + 1)


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


def subspaces(layout, seed):
    """The paper's table under its true labels, and the true masks."""
    bunch = make_subspaces(layout, random_state=seed)
    none = np.empty((len(bunch.data), 0))
    binary = layout in ("2a", "4a")
    table = (
        (none, bunch.data.astype(int), [2] * bunch.data.shape[1])
        if binary
        else (bunch.data, none.astype(int), [])
    )
    t, _, stats = partition(table, bunch.target)
    return t, stats, bunch.feature_mask


def masks_of_table(t, stats):
    """Masks and J under the background of the whole table."""
    gain = automatic.gains(t, stats)
    mask = automatic.masks(t, stats, gain)
    return mask, t.l0 + automatic.priced(t, stats, gain, mask).sum()


def jaccard(a, b):
    return float(np.mean((a & b).sum(axis=1) / (a | b).sum(axis=1)))


# The objective -------------------------------------------------------------------------------


@pytest.mark.slow_except(10)
@pytest.mark.parametrize("seed", range(20))
def test_gains_are_those_of_clusters(seed):
    _, _, t, _, stats = random_partition(seed, weighted=True)
    expected = automatic.gains(t, stats)
    for d in range(t.D):
        sums = pooled.column_sums(t, stats, d)
        np.testing.assert_allclose(
            [pooled.gain(t, d, own) for own in sums], expected[:, d], rtol=1e-9, atol=1e-9
        )


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


@pytest.mark.slow_except(10)
@pytest.mark.parametrize("seed", range(16))
def test_never_above_the_background_of_the_table(seed):
    _, _, t, _, stats = random_partition(seed)
    mask, J = masks_of_table(t, stats)
    assert pooled.objective(t, stats, mask) <= J + 1e-9
    for other in (np.zeros_like(mask), np.ones_like(mask)):
        of_table = t.l0 + automatic.priced(t, stats, automatic.gains(t, stats), other).sum()
        assert pooled.objective(t, stats, other) <= of_table + 1e-9
    assert pooled.best_masks(t, stats)[0] <= J + 1e-9


@pytest.mark.slow_except(8)
@pytest.mark.parametrize("seed", range(20))
def test_one_cluster_has_the_objective_of_the_table(seed):
    table, labels, *_ = random_partition(seed)
    t, _, stats = partition(table, np.zeros(len(labels), int))
    J, mask = pooled.best_masks(t, stats)
    assert not mask.any()
    assert pytest.approx(masks_of_table(t, stats)[1], rel=1e-12) == J
    assert pooled.best_masks_exhaustive(t, stats)[0] == pytest.approx(J, rel=1e-12)


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


def test_weight_two_is_a_repeated_row():
    (numeric, codes, n_levels), truth = mixed_table(4, n=60, K=3, missing=0.1)
    weight = np.random.default_rng(4).integers(0, 3, size=60).astype(float)
    times = np.repeat(np.arange(60), weight.astype(int))
    t, labels, stats = partition((numeric, codes, n_levels), truth, weight=weight)
    again, labels_again, stats_again = partition((numeric[times], codes[times], n_levels), truth[times])
    J, mask = pooled.best_masks(t, stats)
    J_again, mask_again = pooled.best_masks(again, stats_again)
    assert pytest.approx(J, rel=1e-12) == J_again
    np.testing.assert_array_equal(mask, mask_again)
    cost = pooled.row_costs(t, t.rows, stats, mask)
    cost_again = pooled.row_costs(again, again.rows, stats_again, mask)
    np.testing.assert_allclose(
        np.repeat(cost, weight[t.rows].astype(int), axis=0), cost_again, rtol=1e-9, atol=1e-9
    )
    np.testing.assert_array_equal(np.repeat(labels, weight[t.rows].astype(int)), labels_again)


def test_constant_columns_and_columns_of_one_category_do_not_exist():
    (numeric, codes, n_levels), truth = mixed_table(5, n=60, K=3)
    t, _, stats = partition((numeric, codes, n_levels), truth)
    wider = (
        np.column_stack([np.full(60, 7.0), numeric]),
        np.column_stack([codes, np.full(60, 2), np.zeros(60, int)]),
        [*n_levels, 4, 1],
    )
    more, _, more_stats = partition(wider, truth)
    J, mask = pooled.best_masks(t, stats)
    J_more, mask_more = pooled.best_masks(more, more_stats)
    assert pytest.approx(J, rel=1e-12) == J_more
    np.testing.assert_array_equal(mask, mask_more)
    labels = np.unique(truth, return_inverse=True)[1]
    assert pooled.objective_of_rows(*wider, labels, mask) == pytest.approx(J, rel=1e-9)


def test_a_table_of_constant_columns():
    t, _, stats = partition((np.full((6, 1), 3.0), np.zeros((6, 1), int), [1]), [0, 0, 1, 1, 1, 1])
    J, mask = pooled.best_masks(t, stats)
    assert mask.shape == (2, 0)
    assert pytest.approx(log(6) - 2 * log(2 / 6) - 4 * log(4 / 6)) == J


# Masks ---------------------------------------------------------------------------------------


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


def test_masks_of_the_figures():
    """Every cluster selects all columns under the background of the table, its own ones under the pooled
    background.
    """
    t, stats, truth = subspaces("2a", 0)
    table = masks_of_table(t, stats)[0]
    assert jaccard(table, truth) < 0.4
    assert jaccard(pooled.best_masks(t, stats)[1], truth) >= 0.95
    t, stats, truth = subspaces("3a", 0)
    assert jaccard(masks_of_table(t, stats)[0], truth) < 0.5
    assert jaccard(pooled.best_masks(t, stats)[1], truth) >= 0.85


@pytest.mark.parametrize("seed", range(6))
def test_of_two_clusters_the_larger_one_is_the_rest(seed):
    """All columns differ: either cluster may select all of them, or both, at the same J."""
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.repeat([0, 1], (20, 40) if seed % 2 else (40, 20)))
    numeric = rng.normal(size=(60, 3)) + 6.0 * labels[:, None]
    t, _, stats = partition((numeric, np.empty((60, 0), int), []), labels)
    J, mask = pooled.best_masks(t, stats)
    larger = int(seed % 2)
    assert mask[1 - larger].all()
    assert not mask[larger].any()
    assert pooled.objective(t, stats, ~mask) == pytest.approx(J, rel=1e-12)
    assert pooled.objective(t, stats, np.ones_like(mask)) == pytest.approx(J, rel=1e-12)


@pytest.mark.slow_except(3)
@pytest.mark.parametrize("seed", range(6))
def test_order_of_clusters_does_not_matter(seed):
    _, t, labels, stats = clustered_partition(seed)
    order = np.random.default_rng(seed).permutation(len(stats))
    J, mask = pooled.best_masks(t, stats)
    J_permuted, permuted = pooled.best_masks(t, stats[order])
    assert pytest.approx(J, rel=1e-12) == J_permuted
    np.testing.assert_array_equal(permuted, mask[order])
    costs = pooled.row_costs(t, t.rows, stats, mask)
    np.testing.assert_allclose(
        pooled.row_costs(t, t.rows, stats[order], permuted), costs[:, order], rtol=1e-9, atol=1e-9
    )
    assert pooled.objective(
        t, automatic.sums(t, t.rows, np.argsort(order)[labels], len(stats)), permuted
    ) == pytest.approx(J, rel=1e-12)


@pytest.mark.slow_except(3)
@pytest.mark.parametrize("seed", range(6))
def test_a_start_is_never_made_worse(seed):
    _, t, _, stats = clustered_partition(seed)
    start = np.random.default_rng(seed).random((len(stats), t.D)) < 0.5
    J = pooled.objective(t, stats, start)
    warm = pooled.sweep(t, stats, pooled.columns_of(t, stats), start, n_singles=pooled.WARM_SINGLES)
    assert pooled.objective(t, stats, warm) <= J + 1e-9
    assert pooled.best_masks(t, stats, start)[0] <= min(J, pooled.best_masks(t, stats)[0]) + 1e-9


# Passes --------------------------------------------------------------------------------------


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


@pytest.mark.slow_except(8)
@pytest.mark.parametrize("seed", range(12))
def test_a_pass_never_raises_the_objective(seed):
    if seed % 2:
        _, _, t, labels, stats = random_partition(seed, weighted=True)
    else:
        _, t, labels, stats = clustered_partition(seed)
    J, mask = pooled.best_masks(t, stats)
    if seed % 3 == 0:  # from masks that are not the best ones
        mask = np.random.default_rng(seed).random(mask.shape) < 0.5
        J = pooled.objective(t, stats, mask)
    first = J
    for _ in range(50):
        before, former = labels, J
        labels, mask, J = pooled.one_pass(t, labels, mask)
        assert former + 1e-9 * max(1.0, abs(former)) >= J
        assert mask.shape == (labels.max() + 1, t.D)
        if np.array_equal(labels, before):
            break
    if seed % 2 == 0:  # a fifth of the labels were random
        assert first - 1.0 > J
