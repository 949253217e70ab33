"""PaperCRAFT from local to global selection: price of the columns, masks, and properties of the passes."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from craftc import PaperCRAFT
from craftc.craft.background import Background, pricing_of
from craftc.craft.paper.clusters import cost_of_columns, coupled_mask, excess, global_mask, next_prices
from craftc.craft.parameters import ModelSpec
from craftc.datasets import load_heart, make_subspaces
from craftc.table.moments import Moments, integer_grid
from tests.common import random_table
from tests.reference import sharing

SHARES = (0.05, 0.4, 0.95)
NO_WEIGHT = np.empty(0, np.int64)


def spec_of(s, m=0.4, selection="fixed"):
    return ModelSpec(selection=selection, price=5.0, fraction=m, feature_sharing=s)


def fitted(X, s, weight=None, **parameters):
    parameters = {"model": "likelihood", "cluster_price": 8.0, "random_state": 0, "n_init": 3, **parameters}
    return PaperCRAFT(feature_sharing=s, **parameters).fit(X, sample_weight=weight)


def assert_same_fit(one, two):
    np.testing.assert_array_equal(one.labels_, two.labels_)
    np.testing.assert_array_equal(one.feature_mask_, two.feature_mask_)
    assert one.objective_ == two.objective_


# ---- price of a column ----


@pytest.mark.parametrize("s", [1e-6, 0.05, 0.5, 0.99])
@pytest.mark.parametrize("m", [0.02, 1 / 3, 0.5, 0.9])
def test_excess(m, s):
    """That of the beta-binomial distribution; it is never negative, 0 at the ends and as s falls to 0, and
    never rises where a cluster disappears.
    """
    before = np.zeros(2)
    for K in range(1, 40):
        price = excess(K, spec_of(s, m))
        np.testing.assert_allclose(price, sharing.excess(K, m, s), atol=1e-7)
        assert (price >= 0.0).all()
        assert price[0] == price[K] == 0.0
        if K > 1:
            assert (price[:-1] >= before - 1e-9).all()  # it had not selected the column
            assert (price[1:] >= before - 1e-9).all()
        before = price
    assert excess(7, spec_of(1e-12, m)).max() < 1e-8


def test_next_prices():
    """What the columns cost with a cluster more, less what they cost without it."""
    rng = np.random.default_rng(0)
    for s in SHARES:
        spec, mask = spec_of(s), (rng.random((3, 6)) < 0.5).astype(np.uint8)
        prices, without = next_prices(mask, spec)
        for new in product((0, 1), repeat=6):
            after = cost_of_columns(np.vstack([mask, new]).astype(np.uint8), spec)
            found = without + prices @ np.array(new)
            assert found == pytest.approx(after - cost_of_columns(mask, spec), abs=1e-12)


# ---- masks ----


def pricing_of_numbers(spec, D):
    """Of a table of D numbers."""
    table = random_table(0, 30, D, 0)
    labels = np.zeros(30, np.int32)
    moments = Moments.of_partition(integer_grid(table, NO_WEIGHT), 1.0, table, NO_WEIGHT, labels, 1)
    return pricing_of(Background(moments), spec)


@pytest.mark.slow_except(3)
@pytest.mark.parametrize("selection", ["fixed", "free"])
@pytest.mark.parametrize("s", [*SHARES, 1.0])
def test_masks_are_those_of_the_enumeration(selection, s):
    """Of three clusters and five or three columns; few are worse than the best, and none is worse than local
    or global ones.
    """
    spec, missed, rng = spec_of(s, selection=selection), 0, np.random.default_rng(1)
    D = 5 if selection == "fixed" else 3
    pricing, allowed = pricing_of_numbers(spec, D), np.array(list(product((0, 1), repeat=D)), np.uint8)
    if selection == "fixed":
        allowed = allowed[allowed.sum(axis=1) == 2]
    for _ in range(30):
        gains = rng.gamma(1.0, 2.0, (3, D))
        least, best = sharing.paper_best(gains, allowed, spec.f_delta, 0.4, s)
        local = allowed[np.argmin((allowed[None] * (spec.f_delta - gains[:, None])).sum(axis=2), axis=1)]
        shared = global_mask(pricing, spec, gains)
        if s == 1.0:
            np.testing.assert_array_equal(shared, best)
            continue
        mask = coupled_mask(pricing, spec, gains, [local, shared])
        costs = [sharing.paper_cost(each, gains, spec.f_delta, 0.4, s) for each in (mask, local, shared)]
        assert costs[0] <= min(costs) + 1e-9
        assert costs[0] >= least - 1e-9
        missed += costs[0] > least + 1e-9
    assert missed <= 5


# ---- fits ----


@pytest.mark.parametrize("selection", ["fixed", "free"])
def test_ends(selection):
    """A share near 0 has the bits of local selection, one near 1 of global selection."""
    heart = load_heart().data
    for end, near in ((0.0, 1e-12), (1.0, 1.0 - 1e-12)):
        one = fitted(heart, end, selection=selection, cluster_price=30.0)
        two = fitted(heart, near, selection=selection, cluster_price=30.0)
        np.testing.assert_array_equal(one.labels_, two.labels_)
        np.testing.assert_array_equal(one.feature_mask_, two.feature_mask_)
        assert one.objective_ == pytest.approx(two.objective_, rel=1e-9)
    assert (one.feature_mask_ == one.feature_mask_[0]).all()


@pytest.mark.parametrize("selection", ["fixed", "free"])
@pytest.mark.parametrize("s", SHARES)
def test_objective(s, selection):
    """J is that of the clusters' own prices and gains, with the price of the columns; no pass raises it."""
    for seed in range(4):
        table = random_table(seed)
        model = fitted(table, s, selection=selection, feature_fraction=0.4, max_clusters=6)
        assert (np.diff(model.objective_path_) <= 1e-9 * abs(model.objective_)).all()
        ours = sharing.paper_cost(model.feature_mask_, model.feature_gains_, spec_of(s).f_delta, 0.4, s)
        without = model._fitted.clusters.background.cost + 8.0 * model.n_clusters_
        assert model.objective_ == pytest.approx(without + ours, rel=1e-9)


@pytest.mark.parametrize("s", [*SHARES, 1.0])
def test_threads_weights_and_order(s):
    table = random_table(5, 120)
    model = fitted(table, s, n_threads=1)
    assert_same_fit(model, fitted(table, s, n_threads=3))
    start = np.random.default_rng(0).integers(0, 4, len(table))
    rows = np.repeat(np.arange(len(table)), 2)
    weighted = fitted(table, s, np.full(len(table), 2.0), init=start, max_clusters=4)
    twice = fitted(table.take(rows), s, init=start[rows], max_clusters=4)
    np.testing.assert_array_equal(weighted.labels_, twice.labels_[::2])
    assert weighted.objective_ == twice.objective_
    order = np.random.default_rng(1).permutation(len(table))
    one = fitted(table, s, init=start, max_clusters=4)
    two = fitted(table.take(order), s, init=start[order], max_clusters=4)
    assert one.objective_ == pytest.approx(two.objective_, rel=1e-9)


@pytest.mark.parametrize("s", [*SHARES, 1.0])
def test_small_and_constant_tables(s):
    for n in (1, 2, 5):
        X = np.ones((n, 3))
        X[:, 1] = np.arange(n)
        assert fitted(X, s).labels_.shape == (n,)
        assert fitted(np.ones((n, 2)), s).n_clusters_ == 1
        np.testing.assert_array_equal(fitted(X.astype(np.float32), s).labels_, fitted(X, s).labels_)
    assert fitted(X, s, feature_fraction=1.0).feature_mask_[:, 1].all()


def test_columns_in_common_along_the_path():
    """Figure 4c: columns that two of three clusters own, between local and global selection."""
    made = make_subspaces("4c", random_state=0)
    common = []
    for s in (0.0, 0.5, 0.9, 1.0):
        mask = fitted(made.data, s, init=made.target, max_clusters=3, feature_fraction=0.4).feature_mask_ > 0
        common.append(float(np.mean(mask.all(axis=0) | ~mask.any(axis=0))))
    assert common == sorted(common)
    assert common[0] < common[-1] == 1.0


def test_parameter():
    heart = load_heart().data
    with pytest.raises(ValueError, match="feature_sharing must be a number >= 0 and <= 1, got 2"):
        PaperCRAFT(feature_sharing=2.0).fit(heart)
    with pytest.raises(ValueError, match="feature_sharing between 0 and 1 needs model='likelihood'"):
        PaperCRAFT(feature_sharing=0.5).fit(heart)
    for selection in ("priced", "threshold"):
        with pytest.raises(ValueError, match="feature_sharing needs selection='fixed' or 'free'"):
            PaperCRAFT(feature_sharing=0.5, model="likelihood", selection=selection).fit(heart)
    with pytest.raises(ValueError, match="selection must be"):
        PaperCRAFT(selection="global").fit(heart)
