"""The selection rules of CRAFT, which src/craft/craft_price.pyx alone contains, against the reference
implementations.
"""

from __future__ import annotations

import numpy as np
import pytest

from craftc import MixedTable
from craftc._common.validation import integer_weights
from craftc._kernels import craft_price as kernel
from craftc.craft.background import Background, choose_features, codes_of_masks, feature_prices, pricing_of
from craftc.craft.paper.clusters import PaperClusters
from craftc.craft.parameters import ModelSpec
from craftc.table.moments import Moments, integer_grid
from tests.common import random_table
from tests.reference import automatic, craft

NO_WEIGHT = np.empty(0, np.int64)


def background_of(seed, p=4, q=3, n=90):
    """The background of a random table with one constant numeric column."""
    table = random_table(seed, n=n, p=p, q=q, constant=True)
    return Background(
        Moments.of_partition(integer_grid(table, NO_WEIGHT), 1.0, table, NO_WEIGHT, np.zeros(n, np.int32), 1)
    )


def random_gains(seed, n, D):
    """Gains, many of them equal or equal up to rounding."""
    rng = np.random.default_rng(seed)
    gains = rng.exponential(8.0, (n, D)) * rng.integers(0, 2, (n, D))
    gains[rng.random((n, D)) < 0.3] = 5.0
    return gains * (1 + 1e-15 * rng.integers(-3, 4, (n, D)))


def reference_top(scores, candidates, count):
    mask = np.zeros(len(scores), bool)
    mask[craft.top(scores, list(candidates), count)] = True
    return mask


@pytest.mark.parametrize("seed", range(6))
def test_priced(seed):
    background, spec = background_of(seed), ModelSpec(selection="priced", price=None, price_factor=0.5)
    gains, usable = random_gains(seed, 50, background.usable.size), background.usable > 0
    mask, cost = choose_features(pricing_of(background, spec), "priced", gains)
    price = feature_prices(background, spec)
    log_choose = codes_of_masks(int(background.usable.sum()), spec)[1]
    h = automatic.unit_price(background.weight, 0.5)
    expected = automatic.priced_mask(gains[:, usable], price[usable] / h, background.weight, 0.5)
    np.testing.assert_array_equal(mask[:, usable] > 0, expected)
    assert not mask[:, ~usable].any()
    net = np.where(mask > 0, price - gains, 0.0).sum(axis=1)
    np.testing.assert_allclose(
        cost, net + log_choose[mask.sum(axis=1)] + np.log(usable.sum() + 1), rtol=1e-12
    )


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("fraction", [0.2, 0.5, 0.9])
def test_fixed_price(seed, fraction):
    background, spec = background_of(seed), ModelSpec(fraction=fraction)
    pricing, usable, p = pricing_of(background, spec), background.usable > 0, background.grid.p
    gains = random_gains(seed, 50, usable.size)
    free, cost = choose_features(pricing, "free", gains)
    np.testing.assert_array_equal(free > 0, (gains > spec.f_delta) & usable)
    np.testing.assert_allclose(cost, np.where(free > 0, spec.f_delta - gains, 0.0).sum(axis=1), atol=1e-12)
    fixed, cost = choose_features(pricing, "fixed", gains)
    for row, found in zip(gains, fixed > 0, strict=True):
        expected = np.zeros(usable.size, bool)
        for kind, count in zip((range(p), range(p, usable.size)), background.budget(fraction), strict=True):
            expected |= reference_top(row, [d for d in kind if usable[d]], count)
        np.testing.assert_array_equal(found, expected)
    np.testing.assert_allclose(cost, np.where(fixed > 0, spec.f_delta - gains, 0.0).sum(axis=1), atol=1e-12)
    shared, cost = choose_features(pricing, "global", gains, shared=fixed[0])
    np.testing.assert_array_equal(shared, np.repeat(fixed[:1], 50, axis=0))
    np.testing.assert_allclose(cost, np.where(shared > 0, spec.f_delta - gains, 0.0).sum(axis=1), atol=1e-12)


@pytest.mark.parametrize("sharing", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("weight", ["none", "whole", "real"])
@pytest.mark.parametrize("groups", ["the same rows twice", "the only cells of columns"])
def test_groups_that_differ_from_the_table_by_rounding_gain_nothing(groups, weight, sharing):
    for seed in range(4):
        table, rng = random_table(7000 + seed, n=300, p=4, q=4), np.random.default_rng(seed)
        cells = np.column_stack([table.numeric, np.where(table.codes == table.n_levels, np.nan, table.codes)])
        labels, equal = np.repeat([0, 1], 150).astype(np.int32), np.ones(8, bool)
        if groups == "the same rows twice":
            cells[150:] = cells[:150]
        else:
            equal[1::2] = False
            cells[150:, equal] = np.nan
        table = MixedTable.from_data(cells, categorical=range(4, 8))
        drawn = {"none": None, "whole": rng.integers(0, 4, 150) + 0.0, "real": rng.random(150) * 2}[weight]
        weights, unit = integer_weights(None if drawn is None else np.tile(drawn, 2))
        grid = integer_grid(table, weights)
        total = Moments.of_partition(grid, unit, table, weights, np.zeros(300, np.int32), 1)
        found = PaperClusters(
            Moments.of_partition(grid, unit, table, weights, labels, 2),
            Background(total),
            ModelSpec(selection="free", feature_sharing=sharing),
        )
        assert not found.gains[:, equal].any()
        assert not found.mask[:, equal].any()


@pytest.mark.parametrize("count", [0, 1, 3, 99])
def test_best_features_of_scores_that_may_be_infinite(count):
    background = background_of(1)
    scores = random_gains(2, 40, background.usable.size)
    scores[np.random.default_rng(0).random(scores.shape) < 0.4] = -np.inf
    pricing, mask = pricing_of(background, ModelSpec()), np.ones(scores.shape, np.uint8)
    kernel.best_features(scores, pricing, count, np.empty(kernel.parts_size(pricing)), mask)
    for row, found in zip(scores, mask > 0, strict=True):
        np.testing.assert_array_equal(found, reference_top(row, np.flatnonzero(background.usable), count))


def test_mixing_costs_belong_to_the_description_length():
    background = background_of(3)
    groups = np.zeros((3, background.grid.width), np.int64)
    groups[:, 0] = 45, 30, 15
    for price, expected in ((None, np.log([2.0, 3.0, 6.0])), (7.0, np.zeros(3))):
        cost = np.empty(3)
        kernel.mixing_costs(groups, pricing_of(background, ModelSpec(price=price)), cost)
        np.testing.assert_allclose(cost, expected, rtol=1e-15)


def test_thresholds_need_moments():
    background = background_of(4)
    with pytest.raises(ValueError, match="needs the moments"):
        choose_features(
            pricing_of(background, ModelSpec(selection="threshold")),
            "threshold",
            np.ones((2, background.usable.size)),
        )
