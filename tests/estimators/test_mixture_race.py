"""The race of the starts: who wins, what it costs in ELBO, and the threads it runs on."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from craftc import FeatureSelectionMixture
from craftc._common.validation import check_weight
from craftc._kernels.team import Team
from craftc.mixture import variational
from craftc.mixture.priors import checked_priors
from craftc.mixture.race import Race
from craftc.mixture.variational import LLOYD, Ascent, DiagonalModel, MixtureConfig
from tests.estimators.mixture_cases import model_of, synthetic, table


def ascents_of(model, X):
    """The starts of a fit, one after the other, not yet run."""
    priors, rows = checked_priors(model), model._read(X, reset=True)
    data = model._scaled_data(rows, check_weight(None, len(rows)))
    config = MixtureConfig(model.max_iter, model.tol, model.merge, threading.Event())
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
    """The mean ELBO of races against that of the best of whole runs from the same starts: ten tables, five
    seeds each.
    """
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


# ---- threads ----


class Steps:
    """A start that takes `n_rough` turns, then is at `elbo`. It notes the team it shares its steps with."""

    def __init__(self, n_rough, elbo, turn=lambda: None):
        self.n_rough, self.elbo, self.turn, self.made, self.ended, self.team = (
            n_rough,
            elbo,
            turn,
            0,
            False,
            None,
        )
        self.model = SimpleNamespace(pause=lambda: None, share=self.share)

    def share(self, team):
        self.team = team

    def rough(self):
        for _ in range(self.n_rough):
            self.turn()
            self.made += 1
            yield

    def finish(self):
        self.ended = True
        return self


def run(n_threads, ascents, stop=None):
    race = Race(n_threads, Team(n_threads), stop or threading.Event())
    return race.run(race.follow(start, ascent) for start, ascent in enumerate(ascents))


@pytest.mark.parametrize("n_threads", [1, 2, 3, 8])
def test_every_start_is_followed_and_one_is_continued(n_threads):
    ascents = [Steps(3 * k, -abs(k - 3.0)) for k in range(5)]
    assert run(n_threads, ascents) is ascents[3]
    assert [ascent.made for ascent in ascents] == [0, 3, 6, 9, 12]
    assert [ascent.ended for ascent in ascents] == [False, False, False, True, False]
    assert (ascents[3].team is not None) == (n_threads > 1)  # one thread, or all of the kernels' own


@pytest.mark.parametrize("n_threads", [2, 3])
def test_the_last_start_shares_its_steps(n_threads):
    pause = partial(time.sleep, 0.001)
    short, long = Steps(2, 1.0, pause), Steps(200, 0.0, pause)
    assert run(n_threads, [short, long]) is short
    assert short.team is long.team is not None


def test_starts_that_tie():
    ascents = [Steps(k, 5.0) for k in (5, 1, 3)]
    for n_threads in (1, 2, 3):
        assert run(n_threads, ascents) is ascents[0]


@pytest.mark.parametrize("n_threads", [1, 2, 3])
@pytest.mark.parametrize("fails", [0, 1, 2])
def test_a_start_that_fails_ends_the_others(n_threads, fails):
    def fail():
        raise ArithmeticError("no result")

    ascents = [Steps(10**6, 0.0) for _ in range(3)]
    ascents[fails] = Steps(4, 0.0, fail)
    with pytest.raises(ArithmeticError, match="no result"):
        run(n_threads, ascents)
    others = ascents[fails + 1 :] if n_threads == 1 else ascents  # one thread has ended those before
    assert all(ascent.made < 10**6 for ascent in others)
    assert not any(ascent.ended for ascent in ascents)


@pytest.mark.parametrize("n_threads", [1, 2, 3])
def test_an_end_that_fails_ends_the_race(n_threads, monkeypatch):
    def fail(_):
        raise ArithmeticError("no end")

    monkeypatch.setattr(Steps, "finish", fail)
    with pytest.raises(ArithmeticError, match="no end"):
        run(n_threads, [Steps(3, 0.0) for _ in range(3)])


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGINT to a process here")
@pytest.mark.parametrize("n_threads", [1, 2, 3])
def test_an_interrupted_race(n_threads):
    """Ctrl-C reaches the calling thread, with or without a start of its own; the others end at their turn."""
    stop, turns = threading.Event(), []

    def turn():
        if stop.is_set():
            raise KeyboardInterrupt
        turns.append(time.sleep(0.001))

    threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        run(n_threads, [Steps(1, 0.0), Steps(1, 0.0), Steps(10**6, 0.0, turn)], stop)
    assert len(turns) < 10**5
