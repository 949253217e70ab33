"""The reference of k-prototypes against results by hand."""

from __future__ import annotations

import math

import pytest

from tests.reference import kprototypes as reference


def test_two_clusters_of_levels():
    codes = [[0, 0], [0, 1], [1, 2], [1, 2]]
    for update in ("online", "batch"):
        found = reference.fit([[]] * 4, codes, [[], []], [[0, 0], [1, 2]], update=update)
        assert found.labels.tolist() == [0, 0, 1, 1]
        assert found.costs == [1, 1]
        assert found.modes == [[0, 0], [1, 2]]


def test_numbers_and_levels_are_added():
    state = reference.Clusters([[3.0, math.nan]], [[1, None]], [1], "matching", 10.0, [[1.0, 7.0]], [[0, 0]])
    assert state.cost(0, 0) == 4.0 + 10.0


def test_dissimilarities():
    rows = [(1, [0, 1]), (3, [0, 0])]
    assert reference.dissimilarity("matching", [0, 1], [0, 0], rows) == 1
    assert reference.dissimilarity("ng", [0, 0], [0, 0], rows) == 0.25
    assert reference.dissimilarity("ng", [0, 0], [0, 0], []) == 0.0
    assert reference.dissimilarity("jaccard", [1, 1, 0], [1, 0, 0], ()) == 0.5
    assert reference.dissimilarity("jaccard-label", [1, 2, 2], [2, 3, 4], ()) == pytest.approx(0.75)
    assert reference.dissimilarity("jaccard", [0], [0], ()) == 0.0


def test_a_mode_stays_where_a_level_only_draws_level():
    state = reference.Clusters([[]] * 4, [[1], [0], [0], [0]], [1] * 4, "matching", 1.0, [[], []], [[1], [0]])
    state.labels = [0, 1, 1, 1]
    state.move(1, 0)
    assert state.modes == [[1], [0]]
    state.move(2, 0)
    assert state.modes == [[0], [0]]
