"""Every public estimator is in the registry of the tests and has a fingerprint."""

from __future__ import annotations

import inspect
from pathlib import Path

import numpy as np
import pytest

import craftc
from craftc.cli.options import craftc as cli
from tests.conformance import fingerprints
from tests.fuzz import command_line, estimators, parameters
from tests.registry import ESTIMATORS, fit, methods, name_of, new, public_estimators


def test_every_estimator_is_registered():
    assert sorted(ESTIMATORS) == public_estimators(), "add it to tests/registry.py"


def test_every_estimator_has_a_fingerprint():
    """By them the bits of instruction sets, threads and commits are compared."""
    assert {name_of(model) for model, _, _ in fingerprints.MODELS.values()} == set(ESTIMATORS)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_modes_are_parameters_of_the_estimator(name):
    entry = ESTIMATORS[name]
    assert entry.share > 0
    assert entry.contract
    assert "" in entry.modes
    known = set(getattr(craftc, name)().get_params())
    assert {
        *entry.short,
        *(key for each in (*entry.contract, *entry.modes.values()) for key in each),
    } <= known


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", ESTIMATORS)
def test_the_fuzz_draws_every_parameter_and_calls_every_method(name):
    drawn = parameters.values(np.random.default_rng(0), name, 10, 3)
    assert all(drawn.values())
    assert set(drawn) | {"n_threads"} == set(getattr(craftc, name)().get_params())
    model = fit(new(name), np.random.default_rng(0).normal(size=(20, 3)))
    answers = {"predict", "predict_proba", "score_samples", "transform", "decision_function", "summary"}
    assert {each for each in answers if hasattr(model, each)} <= set(methods(name))


@pytest.mark.parametrize("name", ESTIMATORS)
def test_the_fuzz_draws_every_keyword_of_fit(name):
    taken = set(inspect.signature(getattr(craftc, name).fit).parameters)
    assert taken - {"self", "X", "callback", "client"} <= set(estimators.KEYWORDS)


def test_the_fuzz_draws_every_option_of_cluster():
    options = {word for each in cli.commands["cluster"].params for word in each.opts + each.secondary_opts}
    rng, drawn = np.random.default_rng(0), {"TABLE", "--out", "--scheduler"}
    for _ in range(2000):
        drawn.update(command_line.reading_options(rng))
        drawn.update(command_line.cluster_options(rng, ["a"], Path("nowhere")))
    assert {each for each in options if each.startswith("--")} <= drawn
