"""The code of masks between local and global selection (craft_sharing.pyx) and the masks of least cost
(craft_masks.pyx), against the reference and all masks.
"""

from __future__ import annotations

import math
import pickle
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from craftc._kernels.craft_sharing import Sharing
from craftc.craft.clusters import Clusters
from tests.level_cases import POOLED, mixed_case
from tests.reference import pooled, sharing

SHARES = (0.01, 0.1, 0.3, 0.5, 0.9, 0.99, 1.0)


def kernel_code(mask, s):
    """Code of masks by the kernel, the local part included."""
    K = len(mask)
    n_columns = np.bincount(np.sum(mask, axis=0), minlength=K + 1)
    return (1.0 - s) * sharing.local_code(mask) + Sharing(s, K).code(n_columns.astype(float))


def random_mask(seed):
    rng = np.random.default_rng(seed)
    s = rng.choice(SHARES)
    mask = rng.random((rng.integers(1, 7), rng.integers(1, 40))) < rng.random()
    return np.repeat(mask[:1], len(mask), axis=0) if s == 1.0 else mask, float(s)


@pytest.mark.parametrize("seed", range(60))
def test_code(seed):
    """That of 64 means; the integral to a little."""
    mask, s = random_mask(seed)
    small = mask.size < 64
    assert kernel_code(mask, s) == pytest.approx(sharing.code(mask, s), rel=1e-9 if small else 2e-4)


@pytest.mark.slow_except(6)
@pytest.mark.parametrize("s", [0.0, *SHARES])
@pytest.mark.parametrize(("K", "D"), [(1, 6), (2, 4), (3, 3), (4, 2)])
def test_probabilities_of_all_masks_sum_to_at_most_one(K, D, s):
    masks = (np.array(cells, bool).reshape(K, D) for cells in product((0, 1), repeat=K * D))
    total = math.fsum(math.exp(-kernel_code(mask, s)) for mask in masks)
    assert total <= 1.0 + 1e-9
    if s in (0.0, 1.0) or K == 1:
        assert total == pytest.approx(1.0)


@pytest.mark.parametrize("seed", range(20))
def test_ends_and_continuity(seed):
    """s = 0 is the local code, s = 1 the code of one mask, and the code moves as little as s."""
    rng = np.random.default_rng(seed)
    mask = rng.random((rng.integers(1, 6), rng.integers(1, 30))) < 0.4
    assert kernel_code(mask, 0.0) == sharing.local_code(mask)
    assert kernel_code(mask, 1e-9) == pytest.approx(sharing.local_code(mask), abs=1e-5)
    for s in (0.2, 0.6, 0.95):
        assert kernel_code(mask, s + 1e-9) == pytest.approx(kernel_code(mask, s), abs=1e-5)
    common = np.repeat(mask[:1], len(mask), axis=0)
    assert kernel_code(common, 1.0) == pytest.approx(sharing.local_code(mask[:1]), rel=1e-9)
    assert kernel_code(common, 1.0 - 1e-9) == pytest.approx(kernel_code(common, 1.0), abs=1e-5)
    if (common != mask).any():
        assert kernel_code(mask, 1.0) == math.inf


@pytest.mark.parametrize("seed", range(20))
def test_a_cluster_less_is_never_longer(seed):
    mask, s = random_mask(seed)
    for k in range(len(mask) if len(mask) > 1 else 0):
        assert kernel_code(np.delete(mask, k, axis=0), s) <= kernel_code(mask, s) + 1e-9


@pytest.mark.parametrize("s", [0.02, 0.5, 1.0])
def test_many_clusters_and_columns(s):
    """Nothing overflows, and likely masks are shorter than unlikely ones."""
    K, D = 400, 3000
    common, apart = np.zeros(K + 1), np.zeros(K + 1)
    common[[0, K]], apart[K // 2] = D // 2, D
    code = Sharing(s, K).code
    assert math.isfinite(code(common))
    assert code(common) < code(apart)


def test_bad_arguments():
    for s in (-0.1, 1.1, math.nan):
        with pytest.raises(ValueError, match="share"):
            Sharing(s, 3)
    code = Sharing(0.5, 3)
    for n_columns in ([3], [1, 2, 3, 4, 5], [1, -1]):
        with pytest.raises(ValueError, match="n_columns"):
            code.code(np.array(n_columns, float))
    again = pickle.loads(pickle.dumps(code))
    assert (again.share, again.room) == (0.5, 3)


# ---- masks ----


def clusters_of(found, s, **model):
    spec = replace(POOLED, feature_sharing=s, **model)
    return Clusters(found.case.moments(found.labels), found.case.background, spec)


@pytest.mark.slow_except(2)
@pytest.mark.parametrize("s", [0.0, 0.1, 0.5, 0.9, 1.0])
def test_objective_and_masks_are_those_of_the_enumeration(s):
    missed = []
    for seed in range(24):
        found = mixed_case(seed, K=2 + seed % 2, q=3, weighted=seed % 3 == 0)
        t = found.case.problem()
        stats, clusters = found.case.sums(t, found.labels), clusters_of(found, s)
        mask = clusters.mask[:, found.case.background.usable > 0] > 0
        assert clusters.objective == pytest.approx(sharing.objective(t, stats, mask, s), rel=1e-8)
        if t.D * len(stats) > 12:
            continue
        J, best = sharing.best_masks(t, stats, s)
        assert clusters.objective >= J * (1.0 - 1e-8)
        if clusters.objective > J * (1.0 + 1e-8):
            missed.append(clusters.objective - J)
        else:
            tie = pooled.rest_weight(stats, mask) == pooled.rest_weight(stats, best)
            assert (mask == best).all() or tie
    assert len(missed) <= 1


@pytest.mark.parametrize("s", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("K", [13, 70])
def test_masks_of_many_clusters(s, K):
    """J is that of the reference; at 1 all masks are equal."""
    found = mixed_case(3, n=40 + 4 * K, K=K, q=4)
    t, clusters = found.case.problem(), clusters_of(found, s)
    stats, mask = found.case.sums(t, found.labels), clusters.mask[:, found.case.background.usable > 0] > 0
    assert clusters.objective == pytest.approx(sharing.objective(t, stats, mask, s), rel=1e-6)
    if s == 1.0:
        assert (mask == mask[0]).all()


@pytest.mark.parametrize("s", [0.3, 1.0])
def test_one_cluster_costs_the_same_at_every_share(s):
    found = mixed_case(5, K=1, q=4)
    clusters = clusters_of(found, s)
    assert clusters.objective == pytest.approx(clusters_of(found, 0.0).objective, rel=1e-12)
    assert clusters.objective_of_one == pytest.approx(clusters.objective, rel=1e-14)


@pytest.mark.parametrize("s", [0.1, 0.7, 1.0])
@pytest.mark.parametrize("seed", range(6))
def test_order_of_the_clusters(seed, s):
    found = mixed_case(seed, K=4, q=5)
    order = np.random.default_rng(seed).permutation(4)
    first = clusters_of(found, s)
    found.labels = np.argsort(order)[found.labels]
    second = clusters_of(found, s)
    assert second.objective == pytest.approx(first.objective, rel=1e-12)
    np.testing.assert_array_equal(second.mask, first.mask[order])
