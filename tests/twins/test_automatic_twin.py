"""The twin of the search with prices keeps the promises of its objective."""

from itertools import combinations
from math import comb, log

import numpy as np
import pytest

from tests.twins import automatic, craft
from tests.twins.test_craft_twin import random_table

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


def noise(kind, seed, n=300, D=12):
    rng = np.random.default_rng(seed)
    p = {"gaussian": D, "categorical": 0, "mixed": D // 2}[kind]
    n_levels = rng.integers(2, 8, size=D - p)
    codes = np.column_stack([rng.integers(T, size=n) for T in n_levels] or [np.empty((n, 0), int)])
    return rng.normal(size=(n, p)), codes, n_levels.tolist()


def same_partition(a, b):
    pairs = set(zip(np.asarray(a).tolist(), np.asarray(b).tolist(), strict=True))
    return len(pairs) == len(set(a)) == len(set(b))


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
        sum(net[list(chosen)]) - log(comb(D, q))
        for q in range(D + 1)
        for chosen in combinations(range(D), q)
    )
    mask = automatic.priced_mask(gain, p, N, factor)
    assert net[mask].sum() - log(comb(D, int(mask.sum()))) == pytest.approx(best, abs=1e-7)


def test_priced_mask_takes_the_smaller_mask_and_the_lower_column_of_a_tie():
    N = np.exp(2.0)  # h = 1
    two_for_nothing = np.array([1.0, 1.0]) + [0.0, 0.0]
    assert not automatic.priced_mask(two_for_nothing, [1.0, 1.0], N).any()
    # one of two equal columns pays log C(2, 1) = log 2, both together pay log C(2, 2) = 0
    gain = np.array([3.0, 5.0, 5.0, 1.0])
    alone = gain - [2.0, 4.5, 4.5, 1.0]
    mask = automatic.priced_mask(gain, [2.0, 4.5, 4.5, 1.0], N)
    assert alone.max() == 1.0 < log(4)
    assert not mask.any()
    mask = automatic.priced_mask(np.array([9.0, 9.0 + 1e-12, 0.0]), [1.0, 7.95, 7.95], N)
    np.testing.assert_array_equal(mask, [True, False, False])
    mask = automatic.priced_mask(np.array([0.0, 9.0, 9.0 + 1e-12]), [9.0, 1.0, 8.0], N)
    np.testing.assert_array_equal(mask, [False, True, False])


@pytest.mark.parametrize("selection", automatic.SELECTIONS)
@pytest.mark.parametrize("seed", range(12))
def test_objective_is_built_from_the_other_twins_clusters(seed, selection):
    """l0 of all rows, then for every cluster its prices minus its gains, by the formula."""
    (numeric, codes, n_levels, labels), _ = random_table(seed, n=40)
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
    assert now.J == pytest.approx(J, rel=1e-10, abs=1e-9)


def test_one_cluster_selects_nothing_and_pays_its_place():
    (numeric, codes, n_levels), _ = mixed_table(0)
    t = automatic.problem(numeric, codes, n_levels)
    one = automatic.partition(t, np.zeros(len(numeric), int))
    assert not one.mask.any()
    assert one.cost[0] == pytest.approx(0.5 * log(len(numeric)) + log(t.D + 1))


@pytest.mark.parametrize("selection", automatic.SELECTIONS)
def test_deltas_are_differences_of_the_objective(selection):
    (numeric, codes, n_levels), truth = mixed_table(3, missing=0.1)
    t = automatic.problem(numeric, codes, n_levels, selection=selection)
    now = automatic.partition(t, truth)
    delta = automatic.pair_deltas(t, now)
    slack = 1e-9 if selection == "global" else -1e-9  # there the new mask can only do better
    for i, j in combinations(range(now.K), 2):
        change = automatic.united(t, now, i, j).J - now.J
        assert change <= delta[i, j] + abs(slack)
        assert slack > 0.0 or change >= delta[i, j] + slack
    for k in range(now.K):
        split = automatic.best_split(t, now, k)
        labels = now.labels.copy()
        labels[split[1]] = now.K
        change = automatic.partition(t, labels).J - now.J
        assert change <= split[0] + abs(slack)
        assert slack > 0.0 or change >= split[0] + slack


def test_split_candidates_stand_in_order_of_creation():
    numeric = np.array([[0.0], [1.0], [np.nan], [9.0], [0.0], [0.0]])
    codes = np.array([[2, 0, 0], [2, 0, 1], [1, 1, 2], [1, 1, 0], [0, 2, 1], [3, 0, 2]])
    t = automatic.problem(numeric, codes, [4, 2, 3])  # the last level of every column is missing?
    candidates = automatic.split_candidates(t, np.arange(6))
    sides = [np.flatnonzero(b).tolist() for b in candidates]
    # levels 1 and 2 of the first column are equally frequent, then level 0 before level 3
    # (code 4 would be missing); the second has two levels, row 4 is missing there
    assert sides == [[2, 3], [0, 1], [4], [0, 1, 5], [0, 3], [1, 4], [2, 5], [3]]
    only = automatic.split_candidates(t, np.array([1, 2]))
    assert [b.tolist() for b in only] == [[False, True], [True, False], [False, True]]


# The search ----------------------------------------------------------------------------------


@pytest.mark.parametrize("selection", PRICED)
@pytest.mark.parametrize("seed", range(40))
def test_no_accepted_move_raises_the_objective(seed, selection):
    n = 20 + 3 * seed
    table, _ = mixed_table(seed, n=n, K=2 + seed % 4, p=seed % 4, q=4, shift=2.0, missing=0.1)
    weight = np.random.default_rng(seed).choice([0.0, 0.5, 1.0, 2.0], size=n)
    starts = start_partitions(*table[:2], seed)
    fitted = automatic.fit(*table, starts, selection=selection, weight=weight)
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
    assert all(a > b for a, b in zip(sizes, sizes[1:], strict=False))
    for size, J, labels in fitted.merge_path:
        assert len(set(labels.tolist())) == size
        assert automatic.partition(t, labels[t.rows]).J == pytest.approx(J, rel=1e-12)


@pytest.mark.parametrize("seed", range(6))
def test_thresholds_end_though_passes_may_raise_the_objective(seed):
    """Without taking splits back, this does not end: passes undo what splits bring."""
    table, _ = mixed_table(seed, n=150, K=5)
    starts = start_partitions(*table[:2], seed, number=2)
    fitted = automatic.fit(*table, starts, selection="threshold")
    assert fitted.n_clusters > 1
    assert all(step.after < step.before for step in fitted.log if step.kind != "pass")


@pytest.mark.parametrize("kind", ["gaussian", "categorical", "mixed"])
@pytest.mark.parametrize("seed", range(4))
def test_noise_is_one_cluster(seed, kind):
    table = noise(kind, seed)
    fitted = automatic.fit(*table, start_partitions(*table[:2], seed, number=8))
    assert fitted.n_clusters == 1
    assert not fitted.mask.any()


@pytest.mark.parametrize("K", [2, 3, 5])
@pytest.mark.parametrize("seed", range(4))
def test_separated_clusters_are_found_with_their_features(seed, K):
    table, truth = mixed_table(seed, n=60 * K, K=K, p=6, q=6)
    fitted = automatic.fit(*table, start_partitions(*table[:2], seed, number=8))
    assert fitted.n_clusters == K
    assert same_partition(fitted.labels, truth)
    irrelevant = [6, 7, 14, 15]
    assert fitted.mask[:, irrelevant].sum() <= 1
    own = np.delete(fitted.mask, irrelevant, axis=1)
    assert own.mean() > 0.5


@pytest.mark.parametrize("seed", range(4))
def test_splits_alone_find_separated_clusters(seed):
    table, truth = mixed_table(seed, n=200, K=4, p=6, q=6)
    fitted = automatic.fit(*table, [np.zeros(200, int)], forced=False)
    assert same_partition(fitted.labels, truth)
    assert {step.kind for step in fitted.log} >= {"split"}
    assert "forced" not in {step.kind for step in fitted.log}


@pytest.mark.parametrize("seed", range(6))
def test_a_higher_price_does_not_give_more_clusters(seed):
    table, _ = mixed_table(seed, n=150, K=5, p=4, q=4)
    starts = start_partitions(*table[:2], seed)
    sizes = [
        automatic.fit(*table, starts, price_factor=factor).n_clusters
        for factor in (0.5, 1.0, 2.0, 4.0, 8.0, 64.0)
    ]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[1] == 5
    assert sizes[-1] == 1


# Invariances ---------------------------------------------------------------------------------


@pytest.mark.parametrize("selection", automatic.SELECTIONS)
@pytest.mark.parametrize("seed", range(5))
def test_constant_columns_change_nothing(seed, selection):
    (numeric, codes, n_levels), _ = mixed_table(seed, n=90, missing=0.1)
    n, p = numeric.shape
    starts = start_partitions(numeric, codes, seed)
    plain = automatic.fit(numeric, codes, n_levels, starts, selection=selection)
    wider = automatic.fit(
        np.hstack([np.full((n, 1), 7.0), numeric]),
        np.hstack([codes, np.ones((n, 1), int)]),
        [*n_levels, 3],
        starts,
        selection=selection,
    )
    np.testing.assert_array_equal(wider.labels, plain.labels)
    np.testing.assert_array_equal(wider.mask[:, 1:-1], plain.mask)
    assert not wider.mask[:, [0, -1]].any()
    assert wider.objective == pytest.approx(plain.objective, rel=1e-12)
    assert len(plain.mask[0]) == p + len(n_levels)


@pytest.mark.parametrize("selection", automatic.SELECTIONS)
@pytest.mark.parametrize("seed", range(6))
def test_weight_two_is_a_row_written_twice(seed, selection):
    (numeric, codes, n_levels), _ = mixed_table(seed, n=70, missing=0.1)
    weight = np.random.default_rng(seed).integers(0, 3, size=70)
    starts = start_partitions(numeric, codes, seed)
    repeated = [
        (np.repeat(start[0], weight), "soft") if isinstance(start, tuple)
        else np.repeat(start, weight)
        for start in starts
    ]
    options = {"selection": selection}
    weighted = automatic.fit(numeric, codes, n_levels, starts, weight=weight, **options)
    twice = automatic.fit(
        np.repeat(numeric, weight, axis=0),
        np.repeat(codes, weight, axis=0),
        n_levels,
        repeated,
        **options,
    )
    assert weighted.objective == pytest.approx(twice.objective, rel=1e-10)
    np.testing.assert_allclose(weighted.start_objectives, twice.start_objectives, rtol=1e-10)
    assert same_partition(np.repeat(weighted.labels, weight), twice.labels)


@pytest.mark.parametrize("seed", range(4))
def test_scale_of_a_column_and_names_of_levels_do_not_matter(seed):
    (numeric, codes, n_levels), _ = mixed_table(seed, n=90)
    starts = start_partitions(numeric, codes, seed)
    plain = automatic.fit(numeric, codes, n_levels, starts)
    other = automatic.fit(4.0 * numeric - 8.0, 3 - codes, n_levels, starts)
    np.testing.assert_array_equal(other.labels, plain.labels)
    np.testing.assert_array_equal(other.mask, plain.mask)
    assert other.objective - numeric.size * log(4.0) == pytest.approx(plain.objective, rel=1e-10)


# Starts, forced merges, wishes ---------------------------------------------------------------


def test_a_start_given_twice_changes_nothing():
    table, _ = mixed_table(1, n=90)
    starts = start_partitions(*table[:2], 1)
    once, twice = automatic.fit(*table, starts), automatic.fit(*table, [*starts, *starts])
    np.testing.assert_array_equal(once.labels, twice.labels)
    assert twice.start_objectives == once.start_objectives * 2
    assert once.objective == twice.objective


def hard_table(seed):
    return mixed_table(seed, n=150, K=6, p=3, q=3, irrelevant=4, shift=2.0, purity=0.7)[0]
