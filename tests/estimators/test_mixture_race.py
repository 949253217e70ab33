"""The race of the starts: who wins, what it costs in ELBO, and the iterators that share threads."""

from __future__ import annotations

import threading
from collections import deque
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from craftc import FeatureSelectionMixture
from craftc._common.threads import parallel_turns
from craftc._common.validation import check_weight
from craftc.mixture import variational
from craftc.mixture.priors import checked_priors
from craftc.mixture.race import Race
from craftc.mixture.variational import LLOYD, Ascent, DiagonalModel, FitConfig
from tests.estimators.mixture_cases import model_of, synthetic, table


def ascents_of(model, X):
    """The starts of a fit, one after the other, not yet run."""
    priors, rows = checked_priors(model), model._read(X, reset=True)
    data = model._scaled_data(rows, check_weight(None, len(rows)))
    config = FitConfig(model.max_iter, model.tol, model.merge, threading.Event())
    for start in range(model.n_init):
        one = DiagonalModel(data, priors, 1)
        one.start_by_kmeans(model.random_state, start, config, LLOYD)
        yield Ascent(one, config)


@pytest.mark.parametrize("name", ["local", "shared", "counts", "own fractions"])
def test_the_start_that_is_ahead_is_continued(name):
    X = table(name, seed=1, n=200)
    model = model_of(name, K=12, n_init=5)
    ascents = list(ascents_of(model, X))
    for ascent in ascents:
        for _ in ascent.rough():
            pass
    elbos = [ascent.elbo for ascent in ascents]
    best = ascents[int(np.argmax(elbos))]
    result = best.finish()
    assert result.converged
    model.fit(X)
    np.testing.assert_array_equal(model.objective_path_, result.path)
    assert model.elbo_ == -result.objective
    assert model.n_iter_ == result.n_iter


def test_starts_are_compared_after_the_rough_tolerance():
    ascent = next(ascents_of(model_of(K=12, merge=False), np.random.default_rng(0).normal(size=(200, 5))))
    for _ in ascent.rough():
        pass
    rises = np.diff(ascent.path) / 200
    assert rises[-1] <= variational._ROUGH < rises[:-1].min()
    rough = ascent.n_iter
    ascent.finish()
    rises = np.diff(ascent.path)[rough:] / 200
    assert rises[-1] <= ascent.config.tol < rises[:-1].min()
    assert ascent.n_iter > rough


@pytest.mark.slow
def test_the_race_costs_little(monkeypatch):
    """The mean ELBO of races against that of the best of whole runs from the same starts: ten tables, five seeds each."""
    tables = [synthetic("local" if seed % 2 else "global", seed, n=240, D=6)[0] for seed in range(10)]
    models = [FeatureSelectionMixture(20, n_init=3, random_state=seed, n_threads=1) for seed in range(5)]
    raced = np.array([[model.fit(X).elbo_ for model in models] for X in tables])
    monkeypatch.setattr(variational, "_ROUGH", 0.0)
    whole = np.array([[model.fit(X).elbo_ for model in models] for X in tables])
    assert (raced - whole).mean() >= -0.01 * 240
    assert (raced - whole).max() <= 0.1 * 240  # merges in another order


def test_a_race_of_fits_cut_short():
    """Starts that end at max_iter before the comparison are compared as they are."""
    X = table(n=200)
    with pytest.warns(ConvergenceWarning, match="stopped after 2 sweeps"):
        model = model_of(K=12, n_init=4, max_iter=2).fit(X)
    assert (model.n_iter_, model.converged_) == (2, False)


# ---- threads without a start of their own ----


class Steps:
    """A start that takes `n_rough` turns, then is at `elbo`, and takes `n_ending` more to its end."""

    def __init__(self, n_rough, elbo, n_ending):
        self.n_rough, self.elbo, self.n_ending, self.made, self.model = n_rough, elbo, n_ending, 0, SimpleNamespace(pause=lambda: None)

    def rough(self):
        yield from range(self.n_rough)

    def ending(self):
        for _ in range(self.n_ending):
            self.made += 1
            yield

    def result(self):
        return self


def turns(race, start, ascent):
    yield from race.follow(start, ascent)
    yield from race.continue_ahead(start)


@pytest.mark.parametrize(
    ("side", "continued"),
    [
        pytest.param(1, [False, False, False], id="one thread follows every start"),
        pytest.param(2, [False, True, False], id="the second is continued until the last passes it"),
        pytest.param(3, [True, True, False], id="so is the first, until the second passes it"),
    ],
)
def test_a_thread_without_a_start_continues_the_one_ahead(side, continued):
    """Starts of 1, 2 and 5 turns, each ahead of the ones before; here their turns alternate in one thread."""
    ascents = [Steps(1, 1.0, 9), Steps(2, 2.0, 9), Steps(5, 3.0, 9)]
    race = Race(3, side)
    waiting = deque(turns(race, start, ascent) for start, ascent in enumerate(ascents))
    while waiting:
        turn = waiting.popleft()
        if next(turn, "ended") != "ended":
            waiting.append(turn)
    assert [ascent.made > 0 for ascent in ascents] == continued
    assert max(ascent.made for ascent in ascents) < 9  # each until another passed it
    assert race.finish(7) is ascents[2]
    assert (ascents[2].made, ascents[2].model.n_threads) == (9, 7)


def test_starts_that_tie():
    race = Race(2, 2)
    for start in (1, 0):
        for _ in turns(race, start, Steps(1, 5.0, 2)):
            pass
    assert race.ahead == 0


# ---- iterators that share threads ----


@pytest.mark.parametrize("n_threads", [1, 2, 3, 8])
def test_every_iterator_is_exhausted(n_threads):
    steps = [[] for _ in range(5)]

    def run(k):
        for step in range(3 * k):
            steps[k].append(step)
            yield

    parallel_turns([run(k) for k in range(5)], n_threads)
    assert steps == [list(range(3 * k)) for k in range(5)]
    parallel_turns([], n_threads)


@pytest.mark.parametrize("n_threads", [1, 2, 3])
def test_a_step_that_fails_ends_the_others(n_threads):
    stop = threading.Event()

    def endless():
        while not stop.is_set():
            yield

    def failing():
        yield
        raise ArithmeticError("no result")

    with pytest.raises(ArithmeticError, match="no result"):
        parallel_turns([failing(), endless(), endless()], n_threads, stop)
