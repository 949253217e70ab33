"""The reference of the description-length price against enumeration of masks and its objective."""

from itertools import combinations
from math import comb, factorial, log, prod

import numpy as np
import pytest

from tests.reference import automatic, craft
from tests.reference.craft_cases import random_case


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


@pytest.mark.parametrize("seed", range(12))
def test_objective_is_built_from_the_clusters_of_craft(seed):
    """l0 of all rows, then for every cluster its prices minus its gains, by the formula."""
    (numeric, codes, n_levels, labels), _ = random_case(seed, n=40)
    weight = np.random.default_rng(seed).choice([0.0, 0.5, 1.0, 2.0], size=40)
    t = automatic.problem(numeric, codes, n_levels, weight=weight)
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
                occur = 0 if d < back.p else np.count_nonzero(back.counts[d - back.p])
                cost += (automatic.priced_shares(occur, sum(w)) if occur else 2) * h - cluster.gain[d]
        cost += log(D + 1) + log(comb(D, int(now.mask[k].sum())))
        np.testing.assert_allclose(now.gain[k], np.array(cluster.gain)[t.columns], atol=1e-9)
        assert now.cost[k] == pytest.approx(cost, rel=1e-10, abs=1e-9)
        J += cost
    np.testing.assert_allclose(now.J, J, rtol=1e-10, atol=1e-9)


@pytest.mark.parametrize(("T", "n"), [(3, 4), (4, 6), (5, 3), (3, 40)])
def test_price_of_shares_is_the_normalising_constant_of_the_maximum_likelihood(T, n):
    """The sum over all counts of n rows of what the rows of these counts have at most."""
    total = 0.0
    for bars in combinations(range(n + T - 1), T - 1):
        counts = np.diff([-1, *bars, n + T - 1]) - 1
        ways = factorial(n) / prod(factorial(c) for c in counts.tolist())
        total += ways * prod((c / n) ** c for c in counts.tolist())
    found = automatic.priced_shares(T, 2 * n) * 0.5 * log(2 * n)
    assert found == pytest.approx(min(log(total), (T - 1) * 0.5 * log(2 * n)), rel=2e-3)


def test_price_of_few_levels_is_that_of_their_parameters_and_of_many_far_less():
    assert automatic.priced_shares(2, 1000) == 1.0
    assert 1.75 < automatic.priced_shares(3, 1000) < 2.0
    assert automatic.priced_shares(60, 400) < 0.5 * 59
