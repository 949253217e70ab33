"""The reference of the description-length price against enumeration of masks and its objective."""

from itertools import combinations
from math import comb, log

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
                occur = 3 if d < back.p else np.count_nonzero(back.counts[d - back.p])
                cost += (occur - 1) * h - cluster.gain[d]
        cost += log(D + 1) + log(comb(D, int(now.mask[k].sum())))
        np.testing.assert_allclose(now.gain[k], np.array(cluster.gain)[t.columns], atol=1e-9)
        assert now.cost[k] == pytest.approx(cost, rel=1e-10, abs=1e-9)
        J += cost
    np.testing.assert_allclose(now.J, J, rtol=1e-10, atol=1e-9)
