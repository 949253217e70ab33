"""Objective, masks, costs of rows, merges and splits on tables of every kind of column, against the reference
of tilts.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from craftc._kernels import craft_pooled as pooled_kernel
from craftc._kernels import craft_price as price_kernel
from craftc._kernels import craft_splits as splits_kernel
from craftc.craft.background import one_point_costs, pricing_of
from craftc.craft.clusters import Clusters
from craftc.craft.rows import Candidates
from craftc.craft.rows.local import LocalRows
from craftc.craft.search import FitConfig
from craftc.craft.search.merges import MergeSplitSearch
from tests.kernels.test_craft_pooled import best_merge
from tests.level_cases import POOLED, Case, mixed_case, mixed_columns, random_labels
from tests.reference import automatic, forms, pooled


def usable_mask(case, mask):
    return mask[:, case.background.usable > 0] > 0


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("seed", range(30))
def test_objective_and_masks(seed, weighted):
    """Those of the rule, with missing cells and weights; by the statistics of the package and by its own."""
    found = mixed_case(seed, K=1 + seed % 4, weighted=weighted)
    case, labels = found.case, found.labels
    clusters = case.clusters(labels)
    t = case.problem()
    stats = case.sums(t, labels)
    mask = usable_mask(case, clusters.mask)
    np.testing.assert_allclose(pooled.objective(t, stats, mask), clusters.objective, rtol=1e-8)
    assert clusters.objective <= pooled.best_masks(t, stats)[0] * (1.0 + 1e-8)
    assert not clusters.mask[:, case.background.usable == 0].any()
    t = case.problem(rounded=False)
    np.testing.assert_allclose(pooled.objective(t, case.sums(t, labels), mask), clusters.objective, rtol=2e-7)
    assert case.background.cost == pytest.approx(t.l0, rel=1e-12)
    np.testing.assert_allclose(case.background.priced_parameters[t.columns], t.parameters, rtol=1e-12)


def test_masks_are_the_optimum():
    """Of all masks; of random labels, a rule may miss a little. Ties included."""
    missed = []
    for seed in range(40):
        found = mixed_case(seed, K=1 + seed % 4, weighted=seed % 3 == 0)
        case, labels = found.case, found.labels
        clusters, t = case.clusters(labels), case.problem()
        J, best = pooled.best_masks_exhaustive(t, case.sums(t, labels))
        assert clusters.objective >= J * (1.0 - 1e-8)
        if clusters.objective > J * (1.0 + 1e-8):
            missed.append(clusters.objective - J)
        else:
            np.testing.assert_array_equal(usable_mask(case, clusters.mask), best)
    assert len(missed) <= 1
    assert max(missed, default=0.0) < 0.5


@pytest.mark.parametrize("K", [6, 13, 70])
@pytest.mark.parametrize("seed", range(3))
def test_masks_of_many_clusters_cost_no_more_than_those_of_the_rule(seed, K):
    columns, kinds, periods = mixed_columns(seed, n=40 + 4 * K, q=4)
    case, labels = Case(columns, kinds, periods), random_labels(seed, 40 + 4 * K, K)
    clusters, t = case.clusters(labels), case.problem()
    J, _ = pooled.best_masks(t, case.sums(t, labels))
    assert clusters.objective <= J + 1e-8 * abs(J)


@pytest.mark.parametrize("price_factor", [0.5, 3.0])
def test_price_factor(price_factor):
    found = mixed_case(4, n=200, q=5)
    case, labels = found.case, found.labels
    clusters = Clusters(case.moments(labels), case.background, replace(POOLED, price_factor=price_factor))
    t = case.problem(price_factor=price_factor)
    mask = usable_mask(case, clusters.mask)
    J = pooled.objective(t, case.sums(t, labels), mask)
    assert clusters.objective == pytest.approx(J, rel=1e-8)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("seed", range(15))
def test_costs_of_rows(seed, weighted):
    found = mixed_case(seed, K=4, weighted=weighted)
    case, labels = found.case, found.labels
    clusters, t = case.clusters(labels), case.problem()
    costs = pooled.row_costs(t, t.rows, case.sums(t, labels), usable_mask(case, clusters.mask))
    np.testing.assert_allclose(clusters.row_costs(case.encoded)[t.rows], costs, rtol=1e-5, atol=1e-5)
    # a row alone costs the same
    for i in (0, 7, 41):
        np.testing.assert_array_equal(
            clusters.row_costs(case.encoded.take(slice(i, i + 1)))[0], clusters.row_costs(case.encoded)[i]
        )
    # the background has the shared distributions
    own = clusters.background_costs(case.encoded)[t.rows]
    expected = np.zeros(len(t.rows))
    for d, column in enumerate(t.columns):
        sums = pooled.column_sums(t, case.sums(t, labels), d)
        rest = ~usable_mask(case, clusters.mask)[:, d]
        expected += pooled.cell_costs(t, d, t.rows, pooled.fit(t, d, sums[rest].sum(axis=0)))
        codes = case.encoded.codes[t.rows, column]
        start = case.background.grid.level_start[column]
        b = case.background.frequency[start + codes.astype(int)]
        expected -= np.log(np.where(codes < case.encoded.n_levels[column], b, 1.0))
    np.testing.assert_allclose(own, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_costs_of_one_row_clusters(seed, weighted):
    """Of every row under the distributions of its own cells alone."""
    case = mixed_case(seed, weighted=weighted).case
    t, expected = case.problem(), np.zeros(len(case.table))
    for form, column in zip(t.forms, t.columns, strict=True):
        for code in range(int(case.encoded.n_levels[column])):
            has = np.flatnonzero(case.encoded.codes[:, column] == code)
            cells = form.member[has[:1]]
            if (
                len(has)
                and cells.any()
                and case.background.frequency[case.background.grid.level_start[column] + code]
            ):
                expected[has] -= form.ratios(cells)[0] @ cells[0]
    found = one_point_costs(case.background, case.encoded)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-5)


@pytest.mark.parametrize("seed", range(10))
def test_probabilities_of_levels(seed):
    """Of every selected column: those of the distribution that the costs are of."""
    found = mixed_case(seed, K=3, n=150, q=4)
    case, labels = found.case, found.labels
    clusters, t = case.clusters(labels), case.problem()
    p = clusters.level_probabilities()
    stats, starts = case.sums(t, labels), case.background.grid.level_start
    for d, column in enumerate(t.columns):
        T = int(case.encoded.n_levels[column])
        own = p[:, starts[column] : starts[column] + T]
        np.testing.assert_allclose(own.sum(axis=1), 1.0, rtol=1e-6)
        b = case.background.frequency[starts[column] : starts[column] + T]
        ratios = t.forms[d].ratios(pooled.column_sums(t, stats, d))
        np.testing.assert_allclose(
            own[:, b > 0], (b[b > 0] * np.exp(ratios.reshape(len(p), -1)))[:, :T], rtol=1e-5, atol=1e-8
        )


# ----------------------------------------------------------------------------------------
# Merges
# ----------------------------------------------------------------------------------------


def relative_costs(t, stats, mask, groups, gain=None):
    """Gains of groups over the distributions that clusters with these sums and masks share, and the function
    from masks of the groups to their costs. `gain`: gains (n, D) over the table, by which groups are ranked.
    """
    gain = pooled.gains(t, groups) if gain is None else gain.copy()
    for d in range(t.D):
        sums = pooled.column_sums(t, stats, d)
        pool = pooled.fit(t, d, sums[~mask[:, d]].sum(axis=0))
        gain[:, d] -= pooled.log_likelihood(t, d, pooled.column_sums(t, groups, d), pool)
    return gain, lambda own: automatic.cluster_cost(gain, own, groups[:, 0], t.parameters, t.N)


def searched(found):
    """A case with a search and its partition, and the reference's problem, sums of the clusters and masks."""
    case = found.case
    rows = LocalRows(case.encoded, case.weight)
    search = MergeSplitSearch(FitConfig(rows, case.weight, case.background, POOLED, 20, 0, 1), 1)
    part, t = search.partition(found.labels.astype(np.int32)), case.problem()
    return case, search, part, t, case.sums(t, part.labels), usable_mask(case, part.mask[: part.K])


def ranked_columns(t):
    """The columns whose gains are those of normal densities where merges and splits are ranked."""
    return [d for d, form in enumerate(t.forms) if isinstance(form, forms.Tilt) and form.is_ranked]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("seed", range(12))
def test_merge_deltas(seed, weighted):
    """Change of J by each merge if the shared distributions stayed, and densities were normal."""
    _, search, part, t, stats, mask = searched(mixed_case(seed, K=6, weighted=weighted, n=120))
    _, of_mask = relative_costs(t, stats, mask, stats)
    own = of_mask(mask)
    np.testing.assert_allclose(part.cost[: part.K], own, rtol=1e-6, atol=1e-4)
    deltas = search.pair_deltas(part)
    for i in range(part.K):
        assert np.isinf(deltas[i, : i + 1]).all()
        for j in range(i + 1, part.K):
            union, apart = stats[[i]] + stats[[j]], pooled.gains(t, stats)
            gain = pooled.gains(t, union)
            for d in ranked_columns(t):
                normal = t.forms[d].normal_gains(pooled.column_sums(t, np.vstack([union, stats[[i, j]]]), d))
                gain[0, d] = max(apart[i, d] + apart[j, d] + normal[0] - normal[1] - normal[2], 0.0)
            gain, of_mask = relative_costs(t, stats, mask, union, gain)
            best = of_mask(automatic.priced_mask(gain, t.parameters, t.N))[0]
            np.testing.assert_allclose(deltas[i, j], best - own[i] - own[j], rtol=1e-6, atol=1e-4)


@pytest.mark.parametrize("seed", range(8))
def test_the_best_merge_has_its_objective(seed):
    found = mixed_case(seed, K=5, n=120)
    case, labels = found.case, found.labels
    clusters = case.clusters(labels)
    K = clusters.moments.n_clusters
    pricing = pricing_of(case.background, POOLED, room=K)
    pairs = [(i, j) for i in range(K) for j in range(i + 1, K)]
    which, J, _, mask, *_ = best_merge(clusters.moments.groups, clusters.mask, pairs, pricing)
    i, j = pairs[which]
    merged = np.unique(np.where(labels == j, i, labels), return_inverse=True)[1]
    t = case.problem()
    expected = pooled.objective(t, case.sums(t, merged), usable_mask(case, mask))
    assert case.background.cost + J == pytest.approx(expected, rel=1e-8)
    # the best of its own merges
    least = min(best_merge(clusters.moments.groups, clusters.mask, [pair], pricing)[1] for pair in pairs)
    assert least == J


@pytest.mark.parametrize("seed", range(6))
def test_efforts_never_raise_the_objective(seed):
    found = mixed_case(seed, K=6, n=150, q=5)
    case, labels = found.case, found.labels
    groups = case.moments(labels).groups
    K, rng = len(groups), np.random.default_rng(seed)
    pricing = pricing_of(case.background, POOLED, room=K)
    mask = rng.integers(0, 2, (K, case.background.usable.size)).astype(np.uint8) * case.background.usable
    work, cost, last = np.empty((K, price_kernel.parts_size(pricing))), np.empty(K), np.inf
    for effort in ("keep", "continue", "anew", "thorough", "keep"):
        J = pooled_kernel.price_partition(groups, pricing, pooled_kernel.EFFORTS[effort], work, mask, cost)
        assert last + 1e-8 >= J
        last = J
        t = case.problem()
        expected = pooled.objective(t, case.sums(t, labels), usable_mask(case, mask))
        assert case.background.cost + J == pytest.approx(expected, rel=1e-8)


# ----------------------------------------------------------------------------------------
# Splits
# ----------------------------------------------------------------------------------------


def candidates_of(case, group):
    """The levels that leave, as pairs of a column and a tuple of levels, of every candidate."""
    pricing = pricing_of(case.background, POOLED)
    candidates, n = Candidates.of_group(group, pricing)
    starts, found = case.background.grid.level_start, []
    for number in range(n):
        leaving = np.flatnonzero((candidates.level_slot == number).any(axis=0))
        column = int(np.searchsorted(starts, leaving[0], side="right")) - 1
        found.append((column, tuple((leaving - starts[column]).tolist())))
    return found


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("seed", range(15))
def test_split_candidates(seed, weighted):
    """The same rows leave the clusters."""
    found = mixed_case(seed, K=3, weighted=weighted, n=100)
    case, labels = found.case, found.labels
    t = case.problem(rounded=False)
    groups = case.moments(labels).groups
    for k in range(len(groups)):
        own = []
        for column, leaving in candidates_of(case, groups[k]):
            moved = np.isin(case.encoded.codes[:, column], leaving) & (labels == k)
            own.append((column, tuple(np.flatnonzero(moved[t.rows]).tolist())))
        expected = [
            (int(t.columns[d]), tuple(np.flatnonzero(moved).tolist()))
            for d, moved in pooled.split_candidates(t, labels[t.rows], k)
        ]
        assert sorted(own) == sorted(expected)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("seed", range(12))
def test_split_scores(seed, weighted):
    """Change of J by each split if the shared distributions stayed, and densities were normal."""
    case, search, part, t, stats, mask = searched(mixed_case(seed, K=3, weighted=weighted, n=150))
    pooled_kernel.use_shared(search.pricing, part.shared)
    for k in range(part.K):
        moved = [
            np.isin(case.encoded.codes[:, column], leaving) & (part.labels == k)
            for column, leaving in candidates_of(case, part.groups[k])
        ]
        if not moved:
            continue
        sides = np.array([case.moments(leaves.astype(int)).groups[1] for leaves in moved])
        score, parts = np.empty(len(sides)), price_kernel.parts_size(search.pricing)
        rest, used = np.empty((1, sides.shape[1]), np.int64), np.empty((1, search.pricing.D), np.uint8)
        splits_kernel.split_scores(
            part.groups[k], part.cost[k], sides, search.pricing, score, rest, np.empty((3, parts)), used, 1
        )
        for leaves, found_score in zip(moved, score, strict=True):
            of_side = case.sums(t, np.where(leaves, 1, 0))[1]
            two = np.stack([of_side, stats[k] - of_side])
            gain = pooled.gains(t, two)
            for d in ranked_columns(t):
                form, group = t.forms[d], pooled.column_sums(t, stats[[k]], d)[0]
                own = pooled.column_sums(t, two, d)
                ratio = form.log_likelihood(own, form.fit(group)) - form.normal_likelihood(own, group)
                gain[:, d] = np.maximum(ratio + form.normal_gains(own), 0.0)
            gain, of_mask = relative_costs(t, stats, mask, two, gain)
            own_masks = np.vstack([automatic.priced_mask(gain[[s]], t.parameters, t.N) for s in range(2)])
            expected = of_mask(own_masks).sum() - part.cost[k]
            np.testing.assert_allclose(found_score, expected, rtol=1e-6, atol=2e-4)


def test_split_candidates_of_every_kind():
    case = Case(
        [
            np.array([0, 0, 0, 1, 1, 2, 2, 3, np.nan, np.nan]),
            np.array([0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, np.nan]),
            np.array([22.0, 23.0, 0.0, 1.0, 2.0, 10.0, 11.0, 12.0, 13.0, 14.0]),
            np.array([0, 0, 0, 0, 0, 1, 1, 2, 2, 2]),
        ],
        ["category", "number", "periodic", "ordered"],
        {2: 24.0},
    )
    found = candidates_of(case, case.moments(np.zeros(10)).groups[0])
    assert found[:5] == [(0, (0,)), (0, (1,)), (0, (2,)), (1, (5, 6, 7, 8)), found[4]]
    assert {column for column, _ in found[4:6]} == {2}
    assert set(found[5][1]) in ({0, 1, 2, 8, 9}, {3, 4, 5, 6, 7})  # around midnight and around noon
    assert found[6:] == [(3, (1, 2))]
    one = case.moments(np.arange(10) // 9).groups[1]
    assert candidates_of(case, one) == []  # a cluster of one row
