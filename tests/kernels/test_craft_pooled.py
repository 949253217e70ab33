"""Masks and prices of categories under the pooled background (craft_pooled.pyx, craft_masks.pyx), against
the reference and the exact optimum.
"""

from __future__ import annotations

import numpy as np
import pytest

from craftc import MixedTable
from craftc._kernels import craft_merges as merges_kernel
from craftc._kernels import craft_pooled as pooled_kernel
from craftc._kernels import craft_price as price_kernel
from craftc._kernels import craft_splits as splits_kernel
from craftc._kernels.craft_shared import Fits, Shared
from craftc.craft.background import Background, pricing_of
from craftc.craft.clusters import Clusters
from craftc.craft.parameters import ModelSpec
from craftc.datasets import make_subspaces
from craftc.table.moments import Moments, integer_grid
from tests.common import random_table
from tests.reference import automatic, pooled
from tests.reference.craft_cases import partition, subspaces

NO_WEIGHT = np.empty(0, np.int64)
POOLED = ModelSpec(selection="priced", price=None, pooled=True)


def moments_of(table, labels, weight=NO_WEIGHT):
    labels = labels.astype(np.int32)
    return Moments.of_partition(
        integer_grid(table, weight), 1.0, table, weight, labels, int(labels.max()) + 1
    )


def clusters_of(table, labels, weight=NO_WEIGHT):
    moments = moments_of(table, labels, weight)
    return Clusters(moments, Background(moments_of(table, np.zeros(len(labels)), weight)), POOLED)


def problem_of(table, labels):
    return partition(
        (table.numeric.astype(float), table.codes.astype(int), [int(n) for n in table.n_levels]), labels
    )


def random_partition(seed, K, **shape):
    table, rng = random_table(seed, p=0, **shape), np.random.default_rng(seed)
    labels = np.unique(rng.integers(K, size=table.n_rows), return_inverse=True)[1]
    return table, labels


@pytest.mark.slow_except(30)
@pytest.mark.parametrize("seed", range(80))
def test_masks_and_objective_are_the_optimum(seed):
    table, labels = random_partition(seed, 1 + seed % 4)
    clusters = clusters_of(table, labels)
    t, _, stats = problem_of(table, labels)
    J, mask = pooled.best_masks_exhaustive(t, stats)
    assert clusters.objective == pytest.approx(J, rel=1e-9)
    found = clusters.mask[:, clusters.background.usable > 0] > 0
    np.testing.assert_array_equal(found, mask)  # ties included
    assert not clusters.mask[:, clusters.background.usable == 0].any()


@pytest.mark.slow_except(10)
@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize(
    "K", [6, 13, 70]
)  # up to 12 clusters change one by one; a word has one bit for each of 64
def test_masks_of_many_clusters_cost_no_more_than_those_of_the_rule(seed, K):
    table, labels = random_partition(seed, K, n=40 + 4 * K, q=3 + seed % 3)
    clusters = clusters_of(table, labels)
    t, _, stats = problem_of(table, labels)
    J, _ = pooled.best_masks(t, stats)
    assert clusters.objective <= J + 1e-9 * abs(J)


@pytest.mark.parametrize("q", [30, 90])  # 690 and 2070 choices: four starts and one
def test_masks_that_are_continued_follow_the_reference(q):
    """Without missing cells: it starts from the clusters with most cells, the reference from the largest."""
    table, labels = random_partition(0, 23, n=300, q=q, missing=0.0)
    t, _, stats = problem_of(table, labels)
    moments = moments_of(table, labels)
    background = Background(moments_of(table, np.zeros(len(labels))))
    pricing = pricing_of(background, POOLED, room=moments.n_clusters)
    start = np.random.default_rng(1).random((moments.n_clusters, pricing.D)) < 0.2
    start &= background.usable > 0
    mask, used = start.astype(np.uint8), background.usable > 0
    work, cost = np.empty((len(mask), price_kernel.parts_size(pricing))), np.empty(len(mask))
    efforts = pooled_kernel.EFFORTS
    J = pooled_kernel.price_partition(moments.groups, pricing, efforts["continue"], work, mask, cost)
    columns, J_0 = pooled.columns_of(t, stats), pooled.objective(t, stats, np.zeros_like(start[:, used]))
    none = np.zeros_like(mask)
    J -= pooled_kernel.price_partition(moments.groups, pricing, efforts["keep"], work, none, cost)
    expected = {
        n: pooled.objective(t, stats, pooled.sweep(t, stats, columns, start[:, used], n_singles=n)) - J_0
        for n in (1, pooled.WARM_SINGLES)
    }
    assert expected[1] != pytest.approx(expected[pooled.WARM_SINGLES], rel=1e-9)
    assert pooled.warm_singles(t, stats) == (1 if q == 90 else pooled.WARM_SINGLES)
    assert pytest.approx(expected[pooled.warm_singles(t, stats)], rel=1e-9) == J


@pytest.mark.parametrize("layout", ["2a", "4a"])
@pytest.mark.parametrize("seed", range(2))
def test_figures(layout, seed):
    bunch = make_subspaces(layout, random_state=seed)
    table = MixedTable.from_data(bunch.data, categorical=bunch.categorical)
    t, stats, _ = subspaces(layout, seed)
    J, mask = pooled.best_masks_exhaustive(t, stats)
    clusters = clusters_of(table, bunch.target)
    assert clusters.objective == pytest.approx(J, rel=1e-10)
    np.testing.assert_array_equal(clusters.mask > 0, mask)


@pytest.mark.parametrize("seed", range(12))
def test_costs_of_rows(seed):
    """Under the clusters relative to the shared distributions, and of the background itself."""
    table, labels = random_partition(seed, 4)
    clusters = clusters_of(table, labels)
    t, _, stats = problem_of(table, labels)
    costs = pooled.row_costs(t, t.rows, stats, clusters.mask[:, clusters.background.usable > 0] > 0)
    np.testing.assert_allclose(clusters.row_costs(table), costs, rtol=1e-7, atol=1e-8)
    # summed over the rows, with what the priors and the prices charge, the costs are the objective
    own = clusters.row_costs(table)[np.arange(len(labels)), labels] + clusters.background_costs(table)
    mask = clusters.mask[:, clusters.background.usable > 0] > 0
    charged = clusters.objective - own.sum()
    columns = pooled.columns_of(t, stats)
    prior = 0.0
    for column in columns:
        groups = [column.sums[k] for k in np.flatnonzero(mask[:, column.d])]
        rest = column.sums[~mask[:, column.d]]
        groups += [rest.sum(axis=0)] if len(rest) else []
        prior += (
            sum(
                pooled.penalty(t, column.d, pooled.fit(t, column.d, group)) + column.price for group in groups
            )
            - column.price
        )
    code = len(mask) * automatic.unit_price(t.N) + pooled.naming(t)[mask.sum(axis=1)].sum()
    assert charged == pytest.approx(prior + code, rel=1e-6, abs=1e-6)


def priced(pricing, groups, effort, mask):
    """J, masks and costs, as bytes."""
    K = len(groups)
    work, cost, mask = np.empty((K, price_kernel.parts_size(pricing))), np.empty(K), mask[:K].copy()
    J = pooled_kernel.price_partition(groups, pricing, pooled_kernel.EFFORTS[effort], work, mask, cost)
    return J, mask.tobytes(), cost.tobytes()


@pytest.mark.parametrize("seed", range(10))
def test_prices_do_not_depend_on_what_was_priced_before(seed):
    """Fits of pools are kept for other partitions, masks and efforts, not for another weight of the rows."""
    table, labels = random_partition(seed, 6, n=120, q=5)
    background = Background(moments_of(table, np.zeros(len(labels))))
    rng = np.random.default_rng(seed)
    used = {scale_up: pricing_of(background, POOLED, scale_up, room=6) for scale_up in (1.0, 2.0)}
    used[2.0].shared = used[1.0].shared
    for effort in ("anew", "thorough", "continue", "keep", "thorough", "anew"):
        labels = np.unique(rng.integers(rng.integers(1, 7), size=table.n_rows), return_inverse=True)[1]
        groups = moments_of(table, labels).groups
        mask = rng.integers(0, 2, (6, background.usable.size)).astype(np.uint8) * background.usable
        for scale_up, pricing in used.items():
            fresh = pricing_of(background, POOLED, scale_up, room=6)
            assert priced(pricing, groups, effort, mask) == priced(fresh, groups, effort, mask)


@pytest.mark.parametrize("K", [3, 70])
def test_searches_that_share_fits_price_as_others(K):
    """Of up to 64 clusters pools are found again; fits with room for fewer clusters are not taken."""
    table, labels = random_partition(1, K, n=300, q=5)
    background = Background(moments_of(table, np.zeros(len(labels))))
    groups, spec = moments_of(table, labels).groups, POOLED
    pricings = [pricing_of(background, spec, room=len(groups)) for _ in range(3)]
    fits = Fits(background.grid, len(groups))
    assert Shared(background.grid, len(groups) + 1, 0.0, fits).fits is not fits
    mask = np.zeros((len(groups), pricings[0].D), np.uint8)
    expected = priced(pricings[0], groups, "continue", mask)
    for pricing in pricings[1:]:
        pricing.shared = Shared(background.grid, len(groups), 0.0, fits)
        assert pricing.shared.fits is fits
        assert priced(pricing, groups, "continue", mask) == expected


def test_gains_over_the_shared_distributions():
    table, labels = random_partition(2, 4, n=120, q=5)
    groups = moments_of(table, labels).groups
    pricing = pricing_of(Background(moments_of(table, np.zeros(len(labels)))), POOLED, room=len(groups))
    found, expected = np.empty((2, len(groups), price_kernel.parts_size(pricing)))
    mask, cost = np.zeros((len(groups), pricing.D), np.uint8), np.empty(len(groups))
    pooled_kernel.price_partition(groups, pricing, pooled_kernel.EFFORTS["anew"], found, mask, cost)
    pooled_kernel.subtract_shared(groups, pricing, found)
    price_kernel.price_groups(groups, pricing, price_kernel.SELECTIONS["priced"], expected, mask, cost)
    found, expected = (price_kernel.gains_of_parts(pricing, parts) for parts in (found, expected))
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("effort", ["anew", "thorough"])
def test_the_objective_of_a_choice_is_that_of_its_masks(seed, effort):
    """Also where a sweep has come to masks whose cost is known."""
    table, labels = random_partition(seed, 5, n=120, q=5)
    groups = moments_of(table, labels).groups
    pricing = pricing_of(Background(moments_of(table, np.zeros(len(labels)))), POOLED, room=len(groups))
    J, mask, cost = priced(pricing, groups, effort, np.zeros((len(groups), pricing.D), np.uint8))
    again = priced(pricing, groups, "keep", np.frombuffer(mask, np.uint8).reshape(len(groups), -1))
    assert again == (J, mask, cost)


@pytest.mark.parametrize("seed", range(10))
def test_efforts_never_raise_the_objective(seed):
    table, labels = random_partition(seed, 6, n=120, q=6)
    moments = moments_of(table, labels)
    background = Background(moments_of(table, np.zeros(len(labels))))
    pricing = pricing_of(background, POOLED, room=moments.n_clusters)
    mask = (
        np.random.default_rng(seed)
        .integers(0, 2, (moments.n_clusters, background.usable.size))
        .astype(np.uint8)
    )
    mask *= background.usable
    work, cost = (
        np.empty((moments.n_clusters, price_kernel.parts_size(pricing))),
        np.empty(moments.n_clusters),
    )
    last = np.inf
    for effort in ("keep", "continue", "anew", "thorough", "keep"):
        J = pooled_kernel.price_partition(
            moments.groups, pricing, pooled_kernel.EFFORTS[effort], work, mask, cost
        )
        assert last + 1e-8 >= J
        last = J


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("K", [2, 6])
def test_a_merge_continues_from_the_better_of_two_masks(seed, K):
    """As the same partition with merged labels, with the union or the intersection of the two masks."""
    table, labels = random_partition(seed, K, n=120, q=6)
    moments, rng = moments_of(table, labels), np.random.default_rng(seed)
    i, j = sorted(rng.choice(moments.n_clusters, 2, replace=False))
    background = Background(moments_of(table, np.zeros(len(labels))))
    mask = (
        rng.integers(0, 2, (moments.n_clusters, background.usable.size)).astype(np.uint8) * background.usable
    )
    after = moments_of(table, np.unique(np.where(labels == j, i, labels), return_inverse=True)[1])
    pricing = pricing_of(background, POOLED, room=moments.n_clusters)
    work, cost = np.empty((after.n_clusters, price_kernel.parts_size(pricing))), np.empty(after.n_clusters)
    starts = []
    for union in (mask[i] | mask[j], mask[i] & mask[j]):
        start = np.delete(mask, j, axis=0)
        start[i] = union
        starts.append(
            (
                pooled_kernel.price_partition(
                    after.groups, pricing, pooled_kernel.EFFORTS["keep"], work, start, cost
                ),
                start,
            )
        )
    best = min(starts, key=lambda entry: entry[0])[1]
    J = pooled_kernel.price_partition(
        after.groups, pricing, pooled_kernel.EFFORTS["continue"], work, best, cost
    )
    expected_shared = pricing.shared.group.copy()
    which, found_J, *arrays = best_merge(moments.groups, mask, [(i, j)], pricing)
    assert (which, found_J) == (0, J)
    for found, expected in zip(arrays, (after.groups, best, cost, expected_shared), strict=True):
        np.testing.assert_array_equal(found, expected)


def best_merge(groups, mask, pairs, pricing):
    """The position of the merge, J, and its clusters, masks, costs and shared cells."""
    K = len(groups)
    space = merges_kernel.MergeSpace(pricing, K, 1)
    which, at, J = merges_kernel.best_merge(groups, mask, np.array(pairs, np.intp), pricing, space)
    clusters = space.groups[at, : K - 1].copy(), space.mask[at, : K - 1].copy(), space.cost[: K - 1].copy()
    return which, J, *clusters, pricing.shared.group.copy()


@pytest.mark.parametrize("seed", range(10))
def test_the_best_of_several_merges(seed):
    table, labels = random_partition(seed, 6, n=120, q=6)
    moments = moments_of(table, labels)
    K, rng = moments.n_clusters, np.random.default_rng(seed)
    pricing = pricing_of(Background(moments_of(table, np.zeros(len(labels)))), POOLED, room=K)
    mask = rng.integers(0, 2, (K, pricing.D)).astype(np.uint8)
    pairs = [(i, j) for i in range(K) for j in range(i + 1, K)]
    pairs = [pairs[at] for at in rng.permutation(len(pairs))[:5]]
    each = [best_merge(moments.groups, mask, [pair], pricing) for pair in pairs]
    which, J, *arrays = best_merge(moments.groups, mask, pairs, pricing)
    assert which == int(np.argmin([one[1] for one in each]))
    assert each[which][1] == J
    for found, expected in zip(arrays, each[which][2:], strict=True):
        np.testing.assert_array_equal(found, expected)


def test_room_is_checked():
    table, labels = random_partition(0, 5, n=60)
    moments = moments_of(table, labels)
    pricing = pricing_of(Background(moments_of(table, np.zeros(len(labels)))), POOLED, room=2)
    work = np.empty((moments.n_clusters, price_kernel.parts_size(pricing)))
    mask, cost = np.zeros((moments.n_clusters, pricing.D), np.uint8), np.empty(moments.n_clusters)
    with pytest.raises(ValueError, match="room"):
        pooled_kernel.price_partition(moments.groups, pricing, 1, work, mask, cost)
    roomy = pricing_of(Background(moments_of(table, np.zeros(len(labels)))), POOLED, room=moments.n_clusters)
    for buffers in (
        (work[1:], mask, cost),
        (work, mask[1:], cost),
        (work, mask, cost[1:]),
        (work[:, 1:].copy(), mask, cost),
    ):
        with pytest.raises(ValueError, match="buffers do not fit"):
            pooled_kernel.price_partition(moments.groups, roomy, 1, *buffers)
    for pairs in ([(1, 1)], [(2, 1)], [(-1, 1)], [(0, 1), (0, moments.n_clusters)], np.empty((0, 2))):
        with pytest.raises(ValueError, match="pairs"):
            best_merge(moments.groups, mask, pairs, roomy)
    with pytest.raises(ValueError, match="mask"):
        best_merge(moments.groups, mask[1:], [(0, 1)], roomy)
    with pytest.raises(ValueError, match="room"):
        best_merge(moments.groups, mask, [(0, 1)], pricing)
    with pytest.raises(ValueError, match="pooled cells"):
        pooled_kernel.use_shared(roomy, moments.groups[0, 1:].copy())
    with pytest.raises(ValueError, match="work"):
        pooled_kernel.subtract_shared(moments.groups, roomy, work[1:])


def test_numeric_columns_are_refused():
    """The package shares and splits levels only."""
    table, labels = random_table(0, n=60, p=2, q=1), np.zeros(60)
    moments = moments_of(table, labels)
    pricing = pricing_of(Background(moments), POOLED, room=1)
    work, mask = np.empty((1, price_kernel.parts_size(pricing))), np.zeros((1, pricing.D), np.uint8)
    with pytest.raises(ValueError, match="numeric columns"):
        pooled_kernel.price_partition(moments.groups, pricing, 1, work, mask, np.empty(1))
    with pytest.raises(ValueError, match="numeric columns"):
        splits_kernel.leaving_rows(
            table.numeric,
            table.codes,
            np.zeros(1, np.int32),
            pricing,
            np.full((1, pricing.grid.n_levels), -1, np.int32),
            np.empty((1, 1), np.uint8),
        )
