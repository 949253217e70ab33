"""k-means++ seeds and the rows that leave under candidate splits, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from craftc._common.random import CraftStream, drawn, uniform
from craftc._common.validation import integer_weights
from craftc._kernels import craft_seeding as kernel
from craftc._kernels import craft_splits as splits_kernel
from craftc.craft.background import Background
from craftc.craft.parameters import ModelSpec
from craftc.craft.rows import Candidates
from craftc.craft.rows.local import LocalRows
from craftc.craft.search import FitConfig
from craftc.craft.search.starts import farthest_row, kmeans_plus_plus_seeds, reassign_to_seed
from craftc.table.moments import Moments, integer_grid
from tests.common import random_table


def config_of(table, weights, n_threads=1):
    weight, unit = integer_weights(weights)
    total = Moments.of_partition(
        integer_grid(table, weight), unit, table, weight, np.zeros(len(table), np.int32), 1
    )
    spec = ModelSpec(selection="priced", price=None)
    return FitConfig(LocalRows(table, weight), weight, Background(total), spec, 10, 3, n_threads)


def seeds_by_numpy(config, n_seeds, start):
    n = len(config.table)
    own, best, labels = config.own_costs, np.full(n, np.inf), np.full(n, -1, np.int32)
    row, seeds = config.random_row(start, CraftStream.SEED, 0), []
    for draw in uniform(config.seed, start, CraftStream.SEED, np.arange(1, n_seeds + 1)):
        seeds.append(row)
        reassign_to_seed(config, row, len(seeds) - 1, labels, best)
        distance = np.maximum(best - own, 0.0) * (config.weight if len(config.weight) else 1)
        running = np.cumsum(distance)
        if not running[-1] > 1e-9:
            break
        row = drawn(running, draw)
    return seeds, labels


@pytest.mark.parametrize("seed", range(20))
def test_seeds_are_those_of_numpy(seed):
    rng = np.random.default_rng(seed)
    table = random_table(seed, dtype=(np.float64, np.float32)[seed % 2])
    weights = rng.integers(0, 3, len(table)) + (np.arange(len(table)) == 0) if seed % 3 else None
    config = config_of(table, None if weights is None else weights.astype(float), 1 + seed % 2)
    for start in range(3):
        found, labels = kmeans_plus_plus_seeds(config, 12, start)
        seeds, nearest = seeds_by_numpy(config, 12, start)
        assert found.tolist() == seeds
        np.testing.assert_array_equal(labels, nearest)


def test_there_are_no_more_seeds_than_distinct_rows():
    table = random_table(0, n=3, p=2, q=1, missing=0.0)
    table = table.take(np.array([0, 1, 2, 1, 0, 2, 2]))
    assert len(kmeans_plus_plus_seeds(config_of(table, None), 7, 0)[0]) == 3


def test_seeding_checks_its_arguments(monkeypatch):
    table, calls = random_table(1, n=20, p=2, q=2), []
    monkeypatch.setattr(
        "craftc.craft.search.starts.seeding_kernel.kmeans_plus_plus", lambda *given: calls.append(given) or 0
    )
    kmeans_plus_plus_seeds(config_of(table, None), 4, 0)
    monkeypatch.undo()
    for at, wrong, name in (
        (4, np.empty(3), "centre"),
        (5, np.empty(3), "scale"),
        (6, np.empty(1), "frequency"),
        (7, np.empty(3), "mean"),
        (8, np.empty(3), "variance"),
        (9, np.ones(1, np.uint8), "usable"),
        (11, config_of(random_table(1, n=20, p=2, q=3), None).background.tilts, "tilts"),
        (14, 20, "row"),
        (14, -1, "row"),
        (15, np.empty(9, np.intp), "seeds"),
        (16, np.empty(3, np.int32), "labels"),
        (17, np.empty(3), "running"),
        (18, 0, "n_threads"),
    ):
        arguments = list(calls[0])
        arguments[at] = wrong
        with pytest.raises(ValueError, match=name):
            kernel.kmeans_plus_plus(*arguments)


@pytest.mark.parametrize("seed", range(10))
def test_leaving_rows_are_those_of_numpy(seed):
    table = random_table(seed, n=50, p=0)
    config = config_of(table, None)
    pricing, grid = config.pricing, config.background.grid
    group = Moments.of_partition(grid, 1.0, table, config.weight, np.zeros(50, np.int32), 1).groups[0]
    candidates, n = Candidates.of_group(group, pricing)
    rows = np.random.default_rng(seed).permutation(50)[:30].astype(np.int32)
    expected = np.zeros((30, n), np.uint8)
    for d, start in enumerate(grid.level_start):
        slot = candidates.level_slot[0, start + table.codes[rows, d].astype(np.intp)]
        expected[np.flatnonzero(slot >= 0), slot[slot >= 0]] = 1
    found = np.full((30, n), 7, np.uint8)

    def leaving(given, out):
        splits_kernel.leaving_rows(
            table.numeric,
            table.codes,
            rows,
            pricing,
            given.level_slot,
            out,
        )

    leaving(candidates, found)
    np.testing.assert_array_equal(found, expected)
    for c in range(n):
        alone = np.empty((30, 1), np.uint8)
        leaving(candidates.one(c), alone)
        np.testing.assert_array_equal(alone[:, 0], expected[:, c])
    with pytest.raises(ValueError, match="sides of"):
        leaving(candidates, np.empty((30, n - 1), np.uint8))


def test_the_farthest_row_has_weight():
    best, own = np.array([3.0, 9.0, 5.0, 7.0]), np.array([1.0, 0.0, 0.0, 1.0])
    assert farthest_row(best, own, np.empty(0, np.int64)) == (1, 9.0)
    assert farthest_row(best, own, np.array([1, 0, 2, 1])) == (3, 6.0)
    assert farthest_row(best, own, np.array([1, 0, 1, 0])) == (2, 5.0)
