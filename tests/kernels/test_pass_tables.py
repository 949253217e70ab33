"""A pass in single steps, for rows that are elsewhere: tables, an assignment by tables that were sent, empty
clusters, prices.
"""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from craftc._common.threads import aligned
from craftc._kernels import craft as craft_kernel
from craftc._kernels import craft_covariance as covariance_kernel
from craftc._kernels import craft_passes as kernel
from craftc._kernels import craft_price as price_kernel
from craftc._kernels import parallel
from craftc.craft.background import Background, pricing_of
from craftc.craft.clusters import NO_MOMENTS
from craftc.craft.parameters import ModelSpec
from craftc.table.moments import Moments, integer_grid
from tests.common import random_table

NO_WEIGHT = np.empty(0, np.int64)
SELECTION = price_kernel.SELECTIONS["priced"]


class Setting:
    """K clusters of a random table, and the buffers of passes."""

    def __init__(self, K, seed=0, **shape):
        self.table = table = random_table(seed, n=40 * K + 5, **shape)
        self.grid, self.K = integer_grid(table, NO_WEIGHT), K
        whole = Moments.of_partition(self.grid, 1.0, table, NO_WEIGHT, np.zeros(len(table), np.int32), 1)
        self.pricing = pricing_of(Background(whole), ModelSpec(price=None, selection="priced"))
        self.labels = np.random.default_rng(seed).integers(0, K, len(table)).astype(np.int32)
        self.groups = Moments.of_partition(self.grid, 1.0, table, NO_WEIGHT, self.labels, K).groups.copy()
        self.work = np.empty((K, price_kernel.parts_size(self.pricing)))
        self.mask, self.cost = np.zeros((K, self.pricing.D), np.uint8), np.empty(K)

    def fused(self, max_passes):
        labels, groups, mask, cost = (
            self.labels.copy(),
            self.groups.copy(),
            self.mask.copy(),
            self.cost.copy(),
        )
        path = np.empty(max_passes + 1)
        scratch = aligned((1, kernel.pass_scratch_size(self.pricing, self.K)))
        K, made, _ = kernel.passes(
            self.table.numeric,
            self.table.codes,
            NO_WEIGHT,
            np.empty(0, np.int32),
            labels,
            groups,
            self.K,
            self.pricing,
            SELECTION,
            max_passes,
            0.0,
            aligned((kernel.slab_size(self.pricing, self.K),)),
            scratch,
            np.zeros((0, self.K, self.grid.width), np.int64),
            self.work.copy(),
            mask,
            cost,
            path,
            1,
        )
        return labels, groups[:K], mask[:K], cost[:K], path[: made + 1]

    def in_steps(self, max_passes):
        labels, groups, mask, K = self.labels.copy(), self.groups.copy(), self.mask.copy(), self.K
        path = [kernel.price(self.pricing, SELECTION, groups, K, self.work, mask, self.cost)]
        for _ in range(max_passes):
            slab = aligned((kernel.slab_size(self.pricing, K),))
            tables = pickle.loads(
                pickle.dumps(kernel.pass_tables(self.pricing, groups, K, self.work, mask, slab))
            )
            before = labels.copy()
            scratch = aligned((1, craft_kernel.scratch_size(tables)))
            craft_kernel.assign(
                self.table.numeric,
                self.table.codes,
                NO_WEIGHT,
                tables,
                labels,
                np.empty(0),
                scratch,
                *NO_MOMENTS,
                1,
            )
            path.append(path[-1])
            if (before == labels).all():
                break
            groups[:K] = Moments.of_partition(self.grid, 1.0, self.table, NO_WEIGHT, labels, K).groups
            K, number = kernel.drop_empty(groups, mask, K)
            labels = number[labels]
            path[-1] = kernel.price(self.pricing, SELECTION, groups, K, self.work, mask, self.cost)
        return labels, groups[:K], mask[:K], self.cost[:K], np.array(path)


@pytest.mark.parametrize(
    "shape", [{"p": 3, "q": 3}, {"p": 6, "q": 0}, {"p": 0, "q": 4}, {"p": 70, "q": 1}], ids=str
)
@pytest.mark.parametrize("K", [1, 2, 8, 9, 17])
def test_steps_are_the_passes(K, shape):
    setting = Setting(K, **shape)
    for fused, stepped in zip(setting.fused(12), setting.in_steps(12), strict=True):
        np.testing.assert_array_equal(fused, stepped)


def test_some_of_these_passes_drop_clusters():
    sizes = [
        (len(setting.fused(12)[1]), len(setting.in_steps(12)[1]))
        for setting in (Setting(17, seed, p=1, q=1) for seed in range(5))
    ]
    assert all(fused == stepped for fused, stepped in sizes)
    assert any(fused < 17 for fused, _ in sizes)


def test_empty_clusters_leave_the_others_in_order():
    setting = Setting(5, p=2, q=2)
    groups, mask = setting.groups.copy(), np.arange(5 * setting.pricing.D, dtype=np.uint8).reshape(5, -1)
    groups[[1, 3]] = 0
    kept, number = kernel.drop_empty(groups, mask, 5)
    assert kept == 3
    np.testing.assert_array_equal(number, [0, -1, 1, -1, 2])
    np.testing.assert_array_equal(groups[:3], setting.groups[[0, 2, 4]])
    np.testing.assert_array_equal(mask[:3, 0], np.arange(5)[[0, 2, 4]] * setting.pricing.D)


def test_small_buffers_are_refused():
    setting = Setting(9, p=2, q=2)
    slab = aligned((kernel.slab_size(setting.pricing, 8),))
    with pytest.raises(ValueError, match="too small"):
        kernel.pass_tables(setting.pricing, setting.groups, 9, setting.work, setting.mask, slab)
    with pytest.raises(ValueError, match="too small"):
        kernel.drop_empty(setting.groups, setting.mask, 10)
    with pytest.raises(ValueError, match="too small"):
        kernel.price(setting.pricing, SELECTION, setting.groups, 9, setting.work, setting.mask, np.empty(8))


def test_blocks_can_be_sent():
    rng = np.random.default_rng(0)
    factor = rng.normal(size=(2, 3, 3))
    covariance = np.einsum("bij,bkj->bik", factor, factor) + np.eye(3)
    mean = rng.normal(size=(2, 3))
    arrays = (
        np.arange(3),
        np.zeros(3),
        np.ones(3),
        np.zeros(3),
        np.ones(3),
        np.arange(2),
        np.ones((2, 3), np.uint8),
        mean,
    )
    blocks = covariance_kernel.Blocks(*arrays, covariance, rng.random(3))
    sent = pickle.loads(pickle.dumps(blocks))
    for name in (
        "columns",
        "centre",
        "scale",
        "shift",
        "precision",
        "inside",
        "cluster",
        "member",
        "mean",
        "covariance",
    ):
        np.testing.assert_array_equal(getattr(sent, name), getattr(blocks, name))


@pytest.mark.parametrize("shape", [(1,), (3, 7), (2, 64)])
def test_workspaces_begin_a_cache_line(shape):
    for _ in range(5):
        room = aligned(shape)
        assert room.shape == shape
        assert room.flags.c_contiguous
        assert room.ctypes.data % 64 == 0
    with pytest.raises(ValueError, match="room"):
        parallel.first_aligned(np.empty(0))
