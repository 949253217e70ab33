"""Teams of threads: the bits of kernels that they help, and when they end."""

from __future__ import annotations

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np
import pytest

from craftc._kernels import mixture_moves, mixture_split
from craftc._kernels.team import Team
from tests.kernels.test_mixture_kernels import halves_arguments, model_and_reference


@contextmanager
def awake(n_threads):
    """A team whose helpers are there."""
    team = Team(n_threads)
    with ThreadPoolExecutor(n_threads) as pool:
        helpers = [pool.submit(team.help) for _ in range(n_threads - 1)]
        try:
            yield team
        finally:
            team.end()
    assert [helper.result() for helper in helpers] == [None] * (n_threads - 1)


@pytest.mark.parametrize("selection", ["local", "shared", "own fractions"])
@pytest.mark.parametrize("n_threads", [1, 2, 3, 8])
def test_calls_in_turn_have_the_bits_of_one_thread(n_threads, selection):
    """Sweeps, k-means and responsibilities of one model, one call after another."""

    def fit(team):
        model, _ = model_and_reference(3, "gaussian", selection, K=4, D=9)
        model.rows.team = team
        q, rows, found = model.mixture, model.rows, []
        rows.start(q, np.arange(4))
        for passes in (1, 2, 1):
            found += [rows.kmeans(q, passes, 1), q.s1.copy()]
        model._initialise()
        for most in (1, 3, 50):
            elbo = np.empty(most)
            rows.sweep(q, 0.0, -np.inf, elbo, False, 1)
            found += [elbo, *q.state(), mixture_moves.pair_gains(q, team)]
        label = np.empty(len(rows), np.int32)
        rows.e_step(q, 1, gather=False, label=label)
        return [*found, label]

    alone = fit(None)
    with awake(n_threads) as team:
        shared = fit(team)
    for found in (shared, fit(team)):  # and after the end of the team
        for ours, theirs in zip(found, alone, strict=True):
            np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("n_threads", [1, 2, 3, 16])
def test_halves(n_threads):
    alone, arguments = mixture_split.split_gains(*halves_arguments()), halves_arguments()
    with awake(n_threads) as team:
        arguments[1].team = team
        for ours, theirs in zip(mixture_split.split_gains(*arguments), alone, strict=True):
            np.testing.assert_array_equal(ours, theirs)


def test_a_full_team_needs_no_helper():
    with awake(2) as team:
        time.sleep(0.05)
        team.help()
    Team(1).help()
    team.help()


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="no affinity here")
def test_a_thread_that_leaves_may_come_back():
    before = os.sched_getaffinity(0)
    Team(2).leave()
    assert os.sched_getaffinity(0) == before


def test_rows_of_a_team_have_no_threads_of_their_own():
    arguments = halves_arguments(n_threads=2)
    mixture, rows = arguments[:2]
    rows.team = Team(2)
    with pytest.raises(ValueError, match="n_threads"):
        mixture_split.split_gains(*arguments)
    with pytest.raises(ValueError, match="n_threads"):
        rows.e_step(mixture, 2)
    with pytest.raises(TypeError):
        rows.team = 2


def test_a_team_leads_one_call_at_a_time():
    """Calls from several threads with one team raise or are right."""
    team, errors, start = Team(2), [], threading.Barrier(4)
    models = [model_and_reference(3, "gaussian", "local", K=4, D=9)[0] for _ in range(4)]

    def work(model):
        model.rows.team = team
        start.wait()
        for _ in range(20):
            state = model.mixture.state()
            try:
                model.rows.sweep(model.mixture, 0.0, -np.inf, np.empty(20), False, 1)
            except RuntimeError as error:
                errors.append(str(error))
            model.mixture.restore(state)

    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(work, model) for model in models]:
            done.result()
    assert set(errors) <= {"a team leads one kernel call at a time"}
    for model in models:
        model.rows.team = team
        model.rows.sweep(model.mixture, 0.0, -np.inf, np.empty(3), False, 1)


@pytest.mark.parametrize("n_threads", [0, -1, 4097])
def test_numbers_of_threads(n_threads):
    with pytest.raises(ValueError, match="n_threads"):
        Team(n_threads)
