"""The reference implementation of the automatic search has the properties of its objective."""

from itertools import combinations, pairwise
from math import comb, log

import numpy as np
import pytest

from tests.reference import automatic, craft
from tests.reference import automatic_search as ref_search
from tests.reference.test_craft_reference import random_case

PRICED = ("priced", "free", "fixed", "global")  # masks that minimise J, so that it never rises


def start_partitions(numeric, codes, seed, number=4):
    """One cluster, then rows to the nearest of K0 random rows and random labels, softened."""
    rng = np.random.default_rng(seed)
    n = len(numeric)
    K0 = max(2, min(20, n // 5))
    starts = [np.zeros(n, int)]
    with np.errstate(invalid="ignore"):
        scale = np.nanstd(numeric, axis=0, keepdims=True) if n else 1.0
    Z = np.nan_to_num(numeric / np.where(scale > 0.0, scale, 1.0))
    for i in range(1, number):
        if i % 4 == 3:
            starts.append((rng.integers(K0, size=n), "soft"))
        else:
            seeds = rng.choice(n, size=min(K0, n), replace=False)
            far = ((Z[:, None] - Z[seeds]) ** 2).sum(axis=2)
            far += 2.0 * (codes[:, None] != codes[seeds]).sum(axis=2)
            starts.append(far.argmin(axis=1))
    return starts


def mixed_table(seed, *, n=120, K=4, p=4, q=4, irrelevant=2, shift=3.0, purity=0.8, missing=0.0):
    """Clusters in p numeric and q categorical columns, beside irrelevant ones of either kind."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(K, size=n)
    numeric = rng.normal(size=(n, p + irrelevant))
    numeric[:, :p] += shift * rng.normal(size=(K, p))[truth]
    codes = rng.integers(4, size=(n, q + irrelevant))
    own = rng.random((n, q)) < purity
    codes[:, :q] = np.where(own, rng.integers(4, size=(K, q))[truth], codes[:, :q])
    numeric[rng.random(numeric.shape) < missing] = np.nan
    codes[rng.random(codes.shape) < missing] = 4
    return (numeric, codes, [4] * codes.shape[1]), truth


def hard_table(seed):
    """Six clusters that overlap."""
    return mixed_table(seed, n=150, K=6, p=3, q=3, irrelevant=4, shift=2.0, purity=0.7)[0]


def assert_never_rises(fitted):
    for step in fitted.log:
        assert step.after <= step.before + 1e-9 * max(1.0, abs(step.before)), step
        if step.kind != "pass":
            assert step.after < step.before


# Prices and masks ----------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(40))
def test_priced_mask_is_the_best_of_all_masks(seed):
    rng = np.random.default_rng(seed)
    D, N = int(rng.integers(1, 10)), float(rng.integers(10, 500))
    p = rng.integers(1, 6, size=D).astype(float)
    gain = rng.gamma(1.0, 8.0, size=D) * (rng.random(D) < 0.7)
    factor = float(rng.choice([0.5, 1.0, 3.0]))
    net = gain - p * factor * 0.5 * log(N)
    best = max(
        sum(net[list(chosen)]) - log(comb(D, q)) for q in range(D + 1) for chosen in combinations(range(D), q)
    )
    mask = automatic.priced_mask(gain, p, N, factor)
    assert net[mask].sum() - log(comb(D, int(mask.sum()))) == pytest.approx(best, abs=1e-7)


def test_a_mask_that_only_breaks_even_stays_empty():
    N = np.exp(2.0)  # h = 1
    for excess in (0.0, 1e-12, -1e-12):
        assert not automatic.priced_mask(np.full(2, 1.0 + excess), np.ones(2), N).any()
    # a little is enough where the code is free, log C(2, 2) = 0, and is not beside a third column
    assert automatic.priced_mask([1.01, 1.01], [1.0, 1.0], N).all()
    assert not automatic.priced_mask([1.01, 1.01, 0.0], [1.0, 1.0, 1.0], N).any()
    np.testing.assert_array_equal(
        automatic.priced_mask([[1.6, 1.6, 0.0], [0.0, 0.0, 5.0]], [1.0, 1.0, 3.0], N),
        [[True, True, False], [False, False, True]],
    )


@pytest.mark.parametrize("selection", automatic.SELECTIONS)
@pytest.mark.parametrize("seed", range(12))
def test_objective_is_built_from_the_clusters_of_craft(seed, selection):
    """l0 of all rows, then for every cluster its prices minus its gains, by the formula."""
    (numeric, codes, n_levels, labels), _ = random_case(seed, n=40)
    weight = np.random.default_rng(seed).choice([0.0, 0.5, 1.0, 2.0], size=40)
    t = automatic.problem(numeric, codes, n_levels, selection=selection, weight=weight)
    now = automatic.partition(t, labels[t.rows])
    rows, w, back, _ = craft.prepare(numeric, codes, n_levels, labels, weight)
    D, h = sum(back.varies), 0.5 * log(sum(w))
    J = sum(
        x * craft.background_cost(back, d, row[d])
        for x, row in zip(w, rows, strict=True)
        for d in range(back.D)
        if x > 0.0
    )
    for k, label in enumerate(np.unique(labels[t.rows])):
        here = np.flatnonzero(labels == label)
        cluster = craft.fit_cluster([rows[n] for n in here], weight[here], back, "likelihood")
        cost = h - cluster.weight * log(cluster.weight / sum(w))
        for d, selected in zip(t.columns, now.mask[k], strict=True):
            if selected:
                occur = 3 if d < back.p else np.count_nonzero(back.counts[d - back.p])
                cost += (occur - 1) * h - cluster.gain[d]
        if selection == "priced":
            cost += log(D + 1) + log(comb(D, int(now.mask[k].sum())))
        np.testing.assert_allclose(now.gain[k], np.array(cluster.gain)[t.columns], atol=1e-9)
        assert now.cost[k] == pytest.approx(cost, rel=1e-10, abs=1e-9)
        J += cost
        if selection == "threshold":
            settings = craft.settings(price=0.0, selection="threshold")
            expected = np.array(craft.within_thresholds(cluster, back, settings))
            np.testing.assert_array_equal(now.mask[k], expected[t.columns])
    np.testing.assert_allclose(now.J, J, rtol=1e-10, atol=1e-9)


def test_one_cluster_selects_nothing_and_pays_its_place():
    (numeric, codes, n_levels), _ = mixed_table(0)
    t = automatic.problem(numeric, codes, n_levels)
    one = automatic.partition(t, np.zeros(len(numeric), int))
    assert not one.mask.any()
    assert one.cost[0] == pytest.approx(0.5 * log(len(numeric)) + log(t.D + 1))


@pytest.mark.parametrize("selection", automatic.SELECTIONS)
def test_deltas_are_differences_of_the_objective(selection):
    table, truth = mixed_table(3, missing=0.1)
    t = automatic.problem(*table, selection=selection)
    now = automatic.partition(t, truth // 2)
    delta = ref_search.pair_deltas(t, now)
    slack = 1e-9 if selection == "global" else -1e-9  # there the new mask can only do better
    for i, j in combinations(range(now.K), 2):
        change = ref_search.united(t, now, i, j).J - now.J
        assert change <= delta[i, j] + abs(slack)
        assert slack > 0.0 or change >= delta[i, j] + slack
    splits = [ref_search.best_split(t, now, k) for k in range(now.K)]
    assert any(splits)
    for split in filter(None, splits):
        labels = now.labels.copy()
        labels[split[1]] = now.K
        change = automatic.partition(t, labels).J - now.J
        assert change <= split[0] + abs(slack)
        assert slack > 0.0 or change >= split[0] + slack


def test_split_candidates_stand_in_order_of_creation():
    numeric = np.array([[0.0], [1.0], [np.nan], [9.0], [0.0], [0.0]])
    codes = np.array([[2, 0, 0], [2, 0, 1], [1, 1, 2], [1, 1, 0], [0, 2, 1], [3, 0, 2]])
    t = automatic.problem(numeric, codes, [4, 2, 3])
    candidates = ref_search.split_candidates(t, np.arange(6))
    sides = [np.flatnonzero(b).tolist() for b in candidates]
    # levels 1 and 2 of the first column are equally frequent, then level 0 before level 3; the
    # second has two levels, and row 4 is missing there
    assert sides == [[2, 3], [0, 1], [4], [0, 1, 5], [0, 3], [1, 4], [2, 5], [3]]
    only = ref_search.split_candidates(t, np.array([1, 2]))
    # the only number is its own mean
    assert [b.tolist() for b in only] == [[False, True], [True, False], [True, False]]


# The search ----------------------------------------------------------------------------------


@pytest.mark.parametrize("selection", PRICED)
@pytest.mark.parametrize("seed", range(0, 40, 4))
def test_no_accepted_move_raises_the_objective(seed, selection):
    n = 20 + 3 * seed
    table, _ = mixed_table(seed, n=n, K=2 + seed % 4, p=seed % 4, q=4, shift=2.0, missing=0.1)
    weight = np.random.default_rng(seed).choice([0.0, 0.5, 1.0, 2.0], size=n)
    starts = start_partitions(*table[:2], seed)
    fitted = ref_search.fit(*table, starts, selection=selection, weight=weight)
    assert_never_rises(fitted)
    assert fitted.objective <= min(fitted.start_objectives) + 1e-9
    t = automatic.problem(*table, selection=selection, weight=weight)
    assert fitted.objective == pytest.approx(t.l0 + fitted.costs.sum(), rel=1e-12)
    again = automatic.partition(t, fitted.labels[t.rows])
    np.testing.assert_allclose(again.cost, fitted.costs, rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(again.mask, fitted.mask[:, t.columns])
    K = fitted.n_clusters
    assert list(dict.fromkeys(fitted.labels.tolist())) == list(range(K))
    sizes = [step[0] for step in fitted.merge_path]
    assert sizes[0] == K
    assert sizes[-1] == 1
    assert all(a > b for a, b in pairwise(sizes))
    for size, J, labels in fitted.merge_path:
        assert len(set(labels.tolist())) == size
        np.testing.assert_allclose(automatic.partition(t, labels[t.rows]).J, J, rtol=1e-12)


@pytest.mark.slow_except(2)
@pytest.mark.parametrize("seed", range(6))
def test_thresholds_end_though_passes_may_raise_the_objective(seed):
    """Without taking splits back, this does not end: passes undo what splits bring."""
    table, _ = mixed_table(seed, n=150, K=5)
    starts = start_partitions(*table[:2], seed, number=2)
    fitted = ref_search.fit(*table, starts, selection="threshold")
    assert fitted.n_clusters > 1
    assert all(step.after < step.before for step in fitted.log if step.kind != "pass")


# Starts and forced merges --------------------------------------------------------------------


@pytest.mark.parametrize(("seed", "number"), [(52, 1), (85, 1), (9, 1), (78, 4), (97, 4)])
def test_a_forced_merge_is_accepted(seed, number):
    table = hard_table(seed)
    starts = start_partitions(*table[:2], seed, number=number)
    plain = ref_search.fit(*table, starts, forced=False)
    fitted = ref_search.fit(*table, starts)
    accepted = [step for step in fitted.log if step.kind == "forced"]
    assert accepted
    assert accepted[0].before == plain.objective
    assert accepted[-1].after == fitted.objective < plain.objective - 1.0
    assert fitted.start_objectives == plain.start_objectives


def test_the_best_partition_comes_from_a_later_start():
    table = hard_table(1)
    fitted = ref_search.fit(*table, start_partitions(*table[:2], 1, number=8))
    assert int(np.argmin(fitted.start_objectives)) == 6
    assert sorted(fitted.start_objectives)[1] > fitted.objective + 0.5
