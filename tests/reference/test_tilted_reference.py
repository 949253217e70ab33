"""The reference of tilted columns: levels, tilts, the null of independent columns, J by rows and by sums, and
the enumeration of all partitions of small tables.
"""

from itertools import product
from math import log

import numpy as np
import pytest
from scipy.optimize import minimize

from tests.reference import automatic, enumeration, forms, levels, pooled, tilted

KINDS = ("number", "category", "ordered", "periodic", "number")


def raw_table(seed, n=80, q=None, missing=0.1, K=3):
    """(columns, kinds, options) of mixed kinds with some cluster structure, for `levels.table`."""
    rng = np.random.default_rng(seed)
    group = rng.integers(K, size=n)
    kinds = list(rng.permutation(KINDS)[: q or rng.integers(1, 6)])
    columns, n_levels, period = [], {}, {}
    for d, kind in enumerate(kinds):
        shift = rng.normal(scale=2.0, size=K)[group]
        x = rng.normal(size=n) + shift
        if kind == "number":
            x = (x, x.round(), np.exp(1.5 * x))[rng.integers(3)]
        elif kind == "periodic":
            period[d] = (24.0, 1.0, 360.0)[rng.integers(3)]
            x = x / 4.0 * period[d]
            x = x.round() if rng.random() < 0.5 and period[d] > 1.0 else x
        else:
            n_levels[d] = int(rng.integers(2, 7))
            x = np.clip(x + n_levels[d] / 2.0, 0, n_levels[d] - 1).astype(int)
        gone = rng.random(n) < missing
        gone[0] = False
        columns.append(np.where(gone, n_levels.get(d, np.nan), x))
    return columns, kinds, {"n_levels": n_levels, "period": period}


def random_table(seed, weighted=False, **shape):
    """(codes, n_levels, scores) of mixed kinds, the weights, and labels without empty clusters."""
    columns, kinds, options = raw_table(seed, **shape)
    rng = np.random.default_rng(seed)
    n = len(columns[0])
    weight = rng.choice([0.0, 0.5, 1.0, 2.0], size=n) if weighted else np.ones(n)
    n_bins = int(rng.choice([5, 12, 64]))
    table = levels.table(columns, kinds, weight=weight, n_bins=n_bins, **options)
    labels = rng.integers(rng.integers(1, 5), size=n)
    kept = np.unique(labels[weight > 0.0])
    return table, weight, np.searchsorted(kept, labels) % len(kept)


def sums_of(t, labels):
    labels = np.asarray(labels)[t.rows]
    return automatic.sums(t, t.rows, labels, labels.max() + 1)


def distinct_rows(seed, n=8, q=4):
    """A table of n rows, mostly distinct, of mixed kinds; each with three values or more as a rule."""
    columns, kinds, options = raw_table(seed, n=n, q=q, missing=0.05, K=2)
    return levels.table(columns, kinds, **options)


# ----------------------------------------------------------------------------------------
# Levels
# ----------------------------------------------------------------------------------------


def test_few_values_are_the_levels():
    x = np.array([3.0, np.nan, -1.0, 3.0, 2.5])
    made = levels.of_numbers(x)
    np.testing.assert_array_equal(made.value, [-1.0, 2.5, 3.0])
    np.testing.assert_array_equal(made.weight, [1.0, 1.0, 2.0])
    np.testing.assert_array_equal(levels.codes_of_numbers(made, x), [2, 3, 0, 2, 1])
    # new values: the nearest level, the outermost one beyond the ends, the lower one halfway
    np.testing.assert_array_equal(
        levels.codes_of_numbers(made, [-9.0, 0.75, 0.76, 2.75, 9.0]), [0, 0, 1, 1, 2]
    )


def test_distinct_values_are_cut_into_equal_bins():
    made = levels.of_numbers(np.random.default_rng(0).normal(size=6400))
    np.testing.assert_array_equal(made.weight, np.full(64, 100.0))
    assert not made.single.any()
    assert (made.low[1:] > made.high[:-1]).all()


def test_frequent_values_have_levels_of_their_own():
    """Half of the cells are 0, in the middle of the others, and one value of a 64th is just frequent."""
    rest = np.concatenate([-1.0 - np.arange(320) / 320.0, 1.0 + np.arange(300) / 300.0, np.full(20, 3.0)])
    x = np.concatenate([np.zeros(640), rest])
    made = levels.of_numbers(x)
    single = made.value[made.single & (made.weight > 1)]
    np.testing.assert_array_equal(single, [0.0, 3.0])
    assert len(made.low) == 16 + 1 + 15 + 1
    codes = levels.codes_of_numbers(made, x)
    np.testing.assert_array_equal(np.bincount(codes), made.weight)
    for level in range(len(made.low)):
        cells = x[codes == level]
        assert (cells.min(), cells.max()) == (made.low[level], made.high[level])
        assert cells.mean() == pytest.approx(made.value[level], abs=1e-12)


@pytest.mark.parametrize("seed", range(10))
def test_levels_of_weighted_and_of_repeated_rows(seed):
    rng = np.random.default_rng(seed)
    x, weight = rng.lognormal(size=300).round(seed % 3), rng.integers(0, 4, size=300)
    for scale in (1.0, 0.25):
        weighted = levels.of_numbers(x, scale * weight, n_bins=16)
        repeated = levels.of_numbers(np.repeat(x, weight), n_bins=16)
        np.testing.assert_array_equal(weighted.low, repeated.low)
        np.testing.assert_array_equal(weighted.high, repeated.high)
        np.testing.assert_allclose(weighted.weight, scale * repeated.weight)
        np.testing.assert_allclose(weighted.value, repeated.value)


def test_never_more_levels_than_a_byte_holds():
    """Frequent and rare values by turns: a run between any two of them has a bin."""
    x = np.repeat(np.arange(400.0), np.tile([9, 1], 200))
    made = levels.of_numbers(x, n_bins=250)
    assert 200 < len(made.low) <= 254


def test_a_period_has_no_ends():
    made = levels.of_numbers([0.0, 24.0, -1.0, 23.0, 12.0, -1e-20], period=24.0)
    np.testing.assert_array_equal(made.value, [0.0, 12.0, 23.0])
    np.testing.assert_array_equal(made.weight, [3.0, 1.0, 2.0])
    np.testing.assert_array_equal(
        levels.codes_of_numbers(made, [23.4, 23.6, -0.4, 17.5, 17.6]), [2, 0, 0, 1, 2]
    )
    late = levels.of_numbers([3.0, 12.0, 23.0], period=24.0)
    np.testing.assert_array_equal(levels.codes_of_numbers(late, [0.5, 1.0, 1.5, 23.5]), [2, 2, 0, 2])


def test_columns_without_cells_and_of_one_value_are_not_usable():
    columns = [np.full(5, np.nan), np.full(5, 3.0), np.array([1.0, 2.0, 2.0, np.nan, 1.0])]
    codes, n_levels, scores = levels.table(columns, ["number"] * 3)
    assert n_levels == [0, 1, 2]
    t = tilted.problem(codes, n_levels, scores)
    np.testing.assert_array_equal(t.columns, [2])
    assert t.parameters == [1.0]
    nothing = tilted.problem(codes[:, :2], n_levels[:2], scores[:2])
    found = enumeration.global_minimum(nothing)
    assert nothing.D == 0
    assert pytest.approx(0.5 * log(5)) == found.J


# ----------------------------------------------------------------------------------------
# Tilts
# ----------------------------------------------------------------------------------------


def groups_of_levels(seed, n=4000):
    """(b, s, counts (K, T)) of a column of n cells: both ends, single levels, random cells, no cell."""
    rng = np.random.default_rng(seed)
    kind = ("number", "ordered", "periodic")[seed % 3]
    if kind == "ordered":
        T = int(rng.integers(3, 30))
        codes, T, scores = levels.column(rng.binomial(T - 1, 0.3, size=n), kind, n_levels=T)
    else:
        x = (rng.lognormal(sigma=3.0, size=n), rng.poisson(3.0, size=n) / 24.0, rng.random(n))[
            rng.integers(3)
        ]
        codes, T, scores = levels.column(x, kind, period=1.0)
    order = np.argsort(codes, kind="stable")
    groups = [order[:1], order[: n // 3], order[-n // 50 :], rng.permutation(n)[: n // 5], order[:0]]
    groups += [np.flatnonzero(codes == level) for level in (0, T // 2, T - 1)]
    counts = np.array([np.bincount(codes[group], minlength=T) for group in groups], float)
    b = levels.shares(codes, T)
    return b, levels.statistics(scores, b), counts


@pytest.mark.parametrize("seed", range(30))
def test_statistics_are_orthonormal_and_tilts_have_the_moments(seed):
    b, s, counts = groups_of_levels(seed)
    np.testing.assert_allclose(b @ s, 0.0, atol=1e-9)
    np.testing.assert_allclose((s.T * b) @ s, np.eye(2), atol=1e-9)
    theta, A = levels.fit(b, s, counts)
    ratio = levels.log_ratios(s, theta, A)
    p = b * np.exp(ratio)
    np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=1e-12)
    moments = counts @ s / (counts.sum(axis=1, keepdims=True) + 1.0)
    np.testing.assert_allclose(p @ s, moments, atol=1e-9)
    gain = levels.gain(b, s, counts)
    np.testing.assert_allclose((counts * ratio).sum(axis=1) + ratio @ b, gain, rtol=1e-9, atol=1e-9)
    own = [levels.log_likelihood(s, c[None], th, a)[0] for c, th, a in zip(counts, theta, A, strict=True)]
    np.testing.assert_allclose(np.array(own) - A, gain, rtol=1e-9, atol=1e-9)  # A is KL(b || p)
    # between nothing and the gain of free level shares
    free = (counts + b) / (counts.sum(axis=1, keepdims=True) + 1.0)
    ceiling = np.where(
        free > 0.0, free * np.log(np.where(free > 0.0, free, 1.0) / np.where(b > 0, b, 1.0)), 0.0
    )
    ceiling = (counts.sum(axis=1) + 1.0) * ceiling.sum(axis=1)
    assert (gain > -1e-10).all()
    assert (gain <= ceiling + 1e-8).all()


@pytest.mark.parametrize("seed", range(6))
def test_tilts_are_the_optimum_of_a_general_optimiser(seed):
    b, s, counts = groups_of_levels(seed)
    theta, _ = levels.fit(b, s, counts)
    for own, found in zip(counts[1:4], theta[1:4], strict=True):
        moments = own @ s / (own.sum() + 1.0)
        other = minimize(
            lambda x, m=moments: levels.log_partition(b, s, x[None])[0][0] - x @ m, np.zeros(2)
        ).x
        np.testing.assert_allclose(found, other, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("seed", range(10))
def test_with_three_levels_a_tilt_has_the_level_shares(seed):
    rng = np.random.default_rng(seed)
    b = rng.dirichlet(np.full(3, 2.0))
    counts = rng.integers(0, 30, size=(6, 3)).astype(float)
    values = np.sort(rng.normal(size=3))
    for scores in (
        levels.scores_of_numbers(values, b),
        levels.scores_of_order(b),
        levels.scores_of_period(values, 7.0),
    ):
        tilt, shares = forms.Tilt(None, b, None, scores), forms.Shares(None, b, None)
        np.testing.assert_allclose(tilt.ratios(counts), shares.ratios(counts), atol=1e-9)
        np.testing.assert_allclose(tilt.gains(counts), shares.gains(counts), atol=1e-9)
        assert tilt.parameters == shares.parameters == 2


def test_scores_that_are_clipped_to_two_values_leave_one_statistic():
    x = np.concatenate([np.zeros(10_000), [1e6, 2e6]])
    codes, T, z = levels.column(x, "number")
    np.testing.assert_array_equal(z[1:], [8.0, 8.0])
    form = forms.Tilt(np.eye(T)[codes], levels.shares(codes, T), np.arange(T), z)
    assert form.parameters == 1
    assert np.isfinite(form.gains(np.array([[5.0, 1.0, 0.0], [0.0, 0.0, 1.0]]))).all()


# ----------------------------------------------------------------------------------------
# The objective
# ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("seed", range(10))
def test_objective_from_rows_and_from_sums(seed, weighted):
    """Missing cells, weights, columns of two levels and of one; random masks, none and all."""
    table, weight, labels = random_table(seed, weighted)
    options = {"weight": weight, "price_factor": (1.0, 2.5)[seed % 2]}
    t = tilted.problem(*table, **options)
    stats, rng = sums_of(t, labels), np.random.default_rng(seed)
    shape = (len(stats), t.D)
    for mask in (rng.random(shape) < 0.5, np.zeros(shape, bool), np.ones(shape, bool)):
        from_rows = tilted.objective_of_rows(*table, labels, mask, **options)
        assert pooled.objective(t, stats, mask) == pytest.approx(from_rows, rel=1e-9, abs=1e-8)


def test_one_cluster_costs_the_entropy_of_the_columns():
    table, _, labels = random_table(5, q=5)
    t = tilted.problem(*table)
    entropy = 0.0
    for codes, T in zip(table[0].T, table[1], strict=True):
        counts = np.bincount(codes, minlength=T + 1)[:T]
        entropy -= sum(c * log(c / counts.sum()) for c in counts if c)
    J, mask = pooled.best_masks(t, sums_of(t, 0 * labels))
    assert pytest.approx(entropy + 0.5 * log(t.N) + log(t.D + 1)) == J
    assert not mask.any()


@pytest.mark.parametrize("seed", range(12))
def test_rule_finds_the_best_masks(seed):
    table, _, labels = random_table(seed, q=4)
    t = tilted.problem(*table)
    stats = sums_of(t, labels)
    J, mask = pooled.best_masks(t, stats)
    best, best_mask = pooled.best_masks_exhaustive(t, stats)
    assert pytest.approx(best, rel=1e-11, abs=1e-9) == J
    np.testing.assert_array_equal(mask, best_mask)


@pytest.mark.parametrize("seed", range(6))
def test_passes_lower_the_objective(seed):
    """A pass moves the rows to the cheapest cluster and fits again: never a rise."""
    table, weight, labels = random_table(seed, weighted=True, n=120, q=5)
    t = tilted.problem(*table, weight=weight)
    labels = np.unique(labels[t.rows], return_inverse=True)[1]
    J, mask = pooled.best_masks(t, automatic.sums(t, t.rows, labels, labels.max() + 1))
    for _ in range(20):
        before = labels
        labels, mask, after = pooled.one_pass(t, labels, mask)
        assert after <= J + 1e-9 * abs(J)
        J = after
        if np.array_equal(labels, before):
            break


def test_moves_are_differences_of_the_objective():
    table, _, _ = random_table(3, n=60, q=4)
    t = tilted.problem(*table)
    labels = np.arange(60) % 3
    J = pooled.best_masks(t, sums_of(t, labels))[0]
    delta = pooled.merge_deltas(t, sums_of(t, labels), J)
    assert np.isfinite(delta).sum() == 3
    merged = np.array([0, 1, 0])[labels]
    assert J + delta[0, 2] == pytest.approx(pooled.best_masks_exhaustive(t, sums_of(t, merged))[0])
    # the union of clusters 0 and 2 cut again into these
    again = merged == 0
    moved = again & (labels == 2)
    back = pooled.split_delta(t, merged, moved, J + delta[0, 2])
    assert back == pytest.approx(-delta[0, 2])


# ----------------------------------------------------------------------------------------
# Splits
# ----------------------------------------------------------------------------------------


def test_candidates_of_every_form():
    columns = [
        np.array([0, 0, 0, 1, 1, 2, 2, 3, 4, 4]),  # a category, 4 is missing
        np.array([0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, np.nan]),
        np.array([22.0, 23.0, 0.0, 1.0, 2.0, 10.0, 11.0, 12.0, 13.0, 14.0]),
        np.array([0, 0, 0, 0, 0, 0, 1, 1, 1, 1]),
    ]
    kinds = ["category", "number", "periodic", "ordered"]
    table = levels.table(columns, kinds, n_levels={0: 4, 3: 2}, period={2: 24.0})
    t = tilted.problem(*table)
    assert [type(form) for form in t.forms] == [forms.Shares, forms.Tilt, forms.Tilt, forms.Shares]
    found = pooled.split_candidates(t, np.zeros(10, int), 0)
    assert [d for d, _ in found] == [0, 0, 0, 1, 2, 2, 3]
    leaves = [set(np.flatnonzero(moved)) for _, moved in found]
    assert leaves[:4] == [{0, 1, 2}, {3, 4}, {5, 6}, {5, 6, 7, 8}]
    assert leaves[5] in ({0, 1, 2, 3, 4}, {5, 6, 7, 8, 9})  # around midnight and around noon
    assert leaves[6] == {0, 1, 2, 3, 4, 5}
    one = pooled.split_candidates(t, np.arange(10) // 9, 1)
    assert one == []  # a cluster of one row


# ----------------------------------------------------------------------------------------
# The null: independent columns
# ----------------------------------------------------------------------------------------


def factorial(seed):
    """A table of independent columns, every combination of their levels, with weights that are products."""
    rng = np.random.default_rng(seed)
    shape = [(3, 3), (2, 4), (2, 2, 2), (8,), (4, 2), (3, 3)][seed % 6]
    gone = seed % 4 == 3  # the last level of the first column is a missing cell
    codes = np.array(list(product(*map(range, shape))))
    n_levels = [T - (gone and d == 0) for d, T in enumerate(shape)]
    share = [rng.dirichlet(np.full(T, 3.0)) for T in shape]
    weight = 300.0 * np.prod([own[code] for own, code in zip(share, codes.T, strict=True)], axis=0)
    scores = []
    for d, T in enumerate(n_levels):
        b = levels.shares(codes[:, d], T, weight)
        made = (
            None,
            levels.scores_of_numbers(np.sort(rng.lognormal(size=T)), b),
            levels.scores_of_order(b),
            levels.scores_of_period(rng.random(T), 1.0),
        )
        scores.append(made[rng.integers(4)])
    return tilted.problem(codes, n_levels, scores, weight=weight, price_factor=(1.0, 0.01)[seed % 2])


@pytest.mark.parametrize("seed", range(12))
def test_no_partition_of_independent_columns_pays(seed):
    """Every partition of the combinations of levels, with its best masks, at least what its own code adds."""
    t = factorial(seed)
    found = enumeration.global_minimum(t)
    assert found.labels.max() == 0
    K = found.partitions.max(axis=1) + 1
    cluster = 0.5 * t.price_factor * log(t.N) + log(t.D + 1)
    assert pytest.approx(t.l0 + cluster) == found.J
    assert (found.lower >= t.l0 + K * cluster - 1e-7).all()


@pytest.mark.parametrize("seed", range(12))
def test_random_partitions_of_independent_columns(seed):
    """The gains of all clusters and columns are at most N I(labels; columns), which the sizes cost."""
    t, rng = factorial(seed), np.random.default_rng(seed)
    one = pooled.best_masks(t, sums_of(t, np.zeros(len(t.design), int)))[0]
    for _ in range(5):
        # parts of rows: every combination spread over the clusters in random shares
        K = int(rng.integers(2, 6))
        spread = rng.dirichlet(np.full(K, 0.2), size=len(t.rows)).T
        stats = spread @ (t.weight[t.rows, None] * t.design[t.rows])
        S = stats[:, 0]
        part = spread * t.weight[t.rows]
        some = part > 0.0
        information = (part * np.log(np.where(some, part, 1.0) * t.N / (S[:, None] * t.weight[t.rows])))[some]
        gains = pooled.gains(t, stats)
        assert gains.sum() <= information.sum() + 1e-7
        assert information.sum() <= -S @ np.log(S / t.N) + 1e-7
        J = min(pooled.best_masks(t, stats)[0], pooled.objective(t, stats, np.ones((K, t.D))))
        assert one <= J + 1e-7


@pytest.mark.parametrize("seed", range(4))
def test_clusters_of_permuted_columns_do_not_pay(seed):
    """Descents from partitions of columns that are independent but for chance end above one cluster."""
    (codes, n_levels, scores), _, _ = random_table(seed, n=150, q=5, K=4)
    rng = np.random.default_rng(seed)
    t = tilted.problem(np.column_stack([rng.permutation(column) for column in codes.T]), n_levels, scores)
    one = pooled.best_masks(t, sums_of(t, np.zeros(150, int)))[0]
    for K in (2, 4):
        labels = np.arange(150) % K
        J, mask = pooled.best_masks(t, sums_of(t, labels))
        for _ in range(10):
            labels, mask, J = pooled.one_pass(t, labels, mask)
        assert one <= J + 1e-7


# ----------------------------------------------------------------------------------------
# All partitions
# ----------------------------------------------------------------------------------------


def test_number_of_partitions():
    assert [len(enumeration.all_partitions(n)) for n in range(1, 9)] == [1, 2, 5, 15, 52, 203, 877, 4140]
    assert len(np.unique(enumeration.all_partitions(6), axis=0)) == 203


@pytest.mark.parametrize("seed", range(3))
def test_least_objective_of_every_partition(seed):
    """Five rows: against the dynamic programme over masks, for all partitions."""
    t = tilted.problem(*distinct_rows(seed, n=5, q=3), weight=np.full(5, 6.0))
    found = enumeration.global_minimum(t, every=True)
    np.testing.assert_array_equal(found.lower, found.upper)
    best = [pooled.best_masks_exhaustive(t, sums_of(t, labels))[0] for labels in found.partitions]
    np.testing.assert_allclose(found.upper, best, rtol=1e-10)
    assert pytest.approx(min(best)) == found.J
    assert pooled.objective(t, sums_of(t, found.labels), found.mask) == pytest.approx(found.J, rel=1e-12)


@pytest.mark.parametrize("seed", range(4))
def test_global_minimum_of_eight_rows(seed):
    """Below everything that descents find; the masks of the rule at its partition are its masks."""
    codes, n_levels, scores = distinct_rows(seed)
    t = tilted.problem(codes, n_levels, scores, weight=np.full(8, 6.0))
    found = enumeration.global_minimum(t)
    assert len(found.partitions) == 4140
    assert (found.lower <= found.upper + 1e-9).all()
    assert found.upper.min() + 1e-9 >= found.J
    J, _ = pooled.best_masks(t, sums_of(t, found.labels))
    assert pytest.approx(found.J, rel=1e-11) == J
    # copies of the rows apart from each other never cost less
    many = tilted.problem(np.repeat(codes, 6, axis=0), n_levels, scores)
    rng = np.random.default_rng(seed)
    for labels in (rng.integers(2, size=48), np.where(rng.random(48) < 0.1, 1, np.repeat(found.labels, 6))):
        labels = np.unique(labels, return_inverse=True)[1]
        J, mask = pooled.best_masks(many, sums_of(many, labels))
        for _ in range(10):
            labels, mask, J = pooled.one_pass(many, labels, mask)
        assert J + 1e-9 * abs(J) >= found.J


def test_global_minimum_of_normal_densities():
    """The enumeration serves every form."""
    rng = np.random.default_rng(0)
    numbers = rng.normal(size=(6, 2)) + 5.0 * (np.arange(6) % 2)[:, None]
    t = automatic.problem(numbers, np.empty((6, 0), int), [], weight=np.full(6, 8.0))
    found = enumeration.global_minimum(t)
    best = pooled.best_masks_exhaustive(t, automatic.sums(t, t.rows, found.labels, found.labels.max() + 1))[0]
    assert pytest.approx(best) == found.J
