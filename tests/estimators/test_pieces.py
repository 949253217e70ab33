"""Pieces of gradual patterns, which neither links between columns nor one factor describe."""

from __future__ import annotations

import numpy as np
import pytest

from craftc import CRAFT, load_model, save_model
from craftc.craft import found
from craftc.craft.dependence import pattern_inside

N = 1500


def ring(rng):
    a = rng.uniform(0.0, 2.0 * np.pi, N)
    waves = np.column_stack([np.cos(a), np.sin(a), np.cos(2 * a), np.sin(2 * a)])
    return 2.0 * waves + 0.3 * rng.normal(size=(N, 4))


def seasons(rng):
    a = rng.uniform(0.0, 2.0 * np.pi, N)
    warm = 12.0 + 10.0 * np.sin(a - 1.9) + 3.0 * rng.normal(size=N)
    heating = 50.0 - 1.5 * warm + 6.0 * rng.normal(size=N)
    return np.column_stack([np.sin(a), np.cos(a), warm, heating])


def surface(rng):
    return 2.0 * np.tanh(rng.normal(size=(N, 2)) @ rng.normal(size=(2, 8))) + 0.35 * rng.normal(size=(N, 8))


def slanted_groups(rng):
    """Two overlapping groups whose columns are correlated inside them."""
    group = rng.integers(0, 2, N)
    along, across = rng.normal(size=(2, N))
    along, across = 1.5 * along, 0.5 * across + 1.8 * group
    return np.column_stack([along + across, along - across, rng.normal(size=N) + group])


@pytest.fixture
def measured(monkeypatch):
    """The arguments and results of the measure in fits."""
    calls = []

    def measure(*args):
        calls.append((args, pattern_inside(*args)))
        return calls[-1][1]

    monkeypatch.setattr(found, "pattern_inside", measure)
    return calls


@pytest.mark.filterwarnings("ignore:CRAFT found 1. clusters; :UserWarning")
@pytest.mark.parametrize("pattern", [ring, seasons, surface])
def test_pieces_of_a_pattern(pattern, tmp_path):
    X = pattern(np.random.default_rng(1))
    model = CRAFT(random_state=0, n_init=2).fit(X)
    found = model._structure()
    assert found.n_clusters > 2
    assert found.dependence_ratio <= 1.0
    assert found.kind == "gradual"
    assert "columns depend on each other inside groups as they do between them, by " in found.sentence
    save_model(model, tmp_path / "m")
    assert load_model(tmp_path / "m")._structure() == found
    assert model.at(2)._structure().pattern is None
    assert model.set_params(n_clusters=1).fit(X)._structure().pattern is None


def test_overlapping_groups_with_correlated_columns(measured):
    X = slanted_groups(np.random.default_rng(0))
    model = CRAFT(random_state=0, n_init=2).fit(X)
    assert model.n_clusters_ == 2
    ((config, _, _, gains), (nats, along)), *_ = measured
    assert nats > 0.1 * (model.merge_path_[-1].objective - model.objective_)
    assert along < 0.0
    assert model._structure().clear < 0.94
    assert model._structure().kind in ("clear", "soft")
    assert pattern_inside(config, np.zeros(N, np.int32), 1, gains) == (0.0, 0.0)


def test_weights_are_repeated_rows(measured):
    X = np.hstack([ring(np.random.default_rng(1)), np.random.default_rng(2).integers(0, 3, (N, 1))])
    start = np.random.default_rng(3).integers(0, 8, N)
    model = CRAFT(init=[start], categorical=[4]).fit(X, sample_weight=np.full(N, 2.0))
    again = CRAFT(init=[np.repeat(start, 2)], categorical=[4]).fit(np.repeat(X, 2, axis=0))
    np.testing.assert_array_equal(again.labels_, np.repeat(model.labels_, 2))
    assert measured[0][1] == measured[-1][1]
    assert model._structure().pattern == again._structure().pattern


def test_groups_of_independent_columns_have_no_pattern(measured):
    rng = np.random.default_rng(0)
    group = rng.integers(0, 3, N)
    X = rng.normal(size=(N, 5)) + 1.6 * rng.normal(size=(3, 5))[group]
    model = CRAFT(random_state=0, n_init=2).fit(X)
    assert model.n_clusters_ == 3
    assert model._structure().pattern is None
    for _, (nats, along) in measured:
        assert nats < 0.05 * (model.merge_path_[-1].objective - model.objective_)
        assert along < 0.1
