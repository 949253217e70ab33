"""KModes and KPrototypes against the reference: labels, costs of all passes and prototypes, from the same
start.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from craftc import KModes, KPrototypes, MixedTable
from tests.common import examples
from tests.reference import kprototypes as reference

KINDS = ("matching", "ng", "jaccard", "jaccard-label")


def case(seed, kind, p_most=4, missing=0.1, weighted=False):
    """A table as the estimator and as the reference take it, and a start of distinct rows."""
    rng = np.random.default_rng(seed)
    n, p, q, K = (
        int(rng.integers(10, 60)),
        int(rng.integers(0, p_most + 1)),
        int(rng.integers(1, 6)),
        int(rng.integers(1, 6)),
    )
    levels = 2 if kind == "jaccard" else int(rng.integers(2, 5))
    group = rng.integers(0, 3, n)
    numbers = rng.normal(size=(n, p)) + 2.0 * group[:, None]
    codes = np.where(
        rng.random((n, q)) < 0.5, group[:, None] % levels, rng.integers(0, levels, (n, q))
    ).astype(float)
    codes[:levels] = np.arange(levels)[:, None]  # every level occurs
    numbers[rng.random(numbers.shape) < missing] = codes[rng.random(codes.shape) < missing] = np.nan
    codes[:levels] = np.arange(levels)[:, None]
    numbers[0] = 1.0
    weight = rng.integers(0, 4, n) if weighted else None
    if weight is not None:
        weight[:levels] = 1
    table = MixedTable.from_data(np.concatenate([numbers, codes], axis=1), categorical=list(range(p, p + q)))
    start = rng.integers(0, levels, (K, q)), rng.normal(size=(K, p)) + 2.0 * rng.integers(0, 3, (K, 1))
    rows = [[None if np.isnan(code) else int(code) for code in row] for row in codes]
    return table, numbers.tolist(), rows, weight, start, p


def compare(model, table, found, weight):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(table, sample_weight=weight)
    np.testing.assert_array_equal(model.labels_, found.labels)
    np.testing.assert_allclose(model.epoch_costs_, found.costs, rtol=1e-9, atol=1e-9)
    assert model.n_iter_ == found.n_iter
    held = model._prototypes
    np.testing.assert_allclose(held.means, np.reshape(found.means, held.means.shape), rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(held.modes, found.modes)
    np.testing.assert_array_equal(model.predict(table), model.labels_)
    if weight is not None:
        np.testing.assert_array_equal(
            model.cluster_sizes_, np.bincount(model.labels_, weight, model.n_clusters_)
        )


def check(seed, kind, update, weighted, p_most=4, gamma=1.5):
    table, numbers, rows, weight, (modes, means), p = case(seed, kind, p_most, weighted=weighted)
    used = np.ones(len(rows), bool) if weight is None else weight > 0
    if len(
        {(tuple(a), tuple(b)) for a, b, u in zip(map(repr, numbers), rows, used, strict=True) if u}
    ) <= len(modes):
        return False  # its distinct rows are the prototypes
    parameters = {"n_clusters": len(modes), "cat_dissim": kind, "update": update}
    model = (
        KPrototypes(init=[means, modes], gamma=gamma, random_state=0, **parameters)
        if p
        else KModes(init=modes, random_state=0, **parameters)
    )
    try:
        found = reference.fit(
            numbers, rows, means, modes, weights=weight, kind=kind, gamma=gamma if p else 1.0, update=update
        )
    except reference.EmptyCluster:
        return False
    compare(model, table, found, weight)
    return True


@pytest.mark.slow_except(8)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("update", ["online", "batch"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_same_passes(kind, update, weighted):
    assert sum(check(seed, kind, update, weighted) for seed in range(25)) >= 5


@pytest.mark.parametrize("update", ["online", "batch"])
def test_modes_alone(update):
    assert sum(check(seed, "matching", update, False, p_most=0) for seed in range(40)) >= 10


@examples(60)
@given(st.integers(1000, 10**6), st.sampled_from(KINDS), st.sampled_from(["online", "batch"]), st.booleans())
def test_random_tables(seed, kind, update, weighted):
    check(seed, kind, update, weighted)
