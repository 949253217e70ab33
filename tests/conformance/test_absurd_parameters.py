"""Absurd parameters are refused with a clear error, or bounded where the result cannot depend on them; none
costs memory or time.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import craftc
from craftc._common.random import rng_of, seed_of
from tests.registry import ESTIMATORS, counts, fit, takes_seed

X = np.random.default_rng(0).normal(size=(12, 3))
HUGE = (2**31, 2**63, 10**30, 10**400, 10**5000)
RAGGED = [[1, 2], [3]]


def fitted(name, **parameters):
    return fit(getattr(craftc, name)(**parameters), X)


@pytest.mark.parametrize(
    ("name", "parameter"), [(name, each) for name in ESTIMATORS for each in counts(name)]
)
def test_whole_numbers(name, parameter):
    for value in HUGE:
        with pytest.raises(
            ValueError, match=rf"^{parameter} must be a whole number .*got (\d+|an integer of \d+ bits)\.$"
        ):
            fitted(name, **{parameter: value})
    for value in (True, 1.5, "7", [3], pd.NA, 1j, object()):
        with pytest.raises((TypeError, ValueError), match=rf"^{parameter} must be "):
            fitted(name, **{parameter: value})


@pytest.mark.parametrize("name", list(filter(takes_seed, ESTIMATORS)))
def test_random_state(name):
    for value in (-1, 2**64, 10**20, 10**5000, True, 1.5, np.nan, "7", [3], pd.NA, object()):
        with pytest.raises(
            ValueError,
            match=r"^random_state must be None, a whole number >= 0 and < 2\*\*64, or a "
            r"numpy.random.Generator",
        ):
            fitted(name, random_state=value)


def test_seeds():
    assert seed_of(2**64 - 1) == 2**64 - 1
    assert seed_of(np.uint64(2**64 - 1)) == 2**64 - 1
    assert (
        seed_of(np.random.default_rng(3))
        == seed_of(np.random.default_rng(3))
        != seed_of(np.random.default_rng(4))
    )
    assert rng_of(7).random_sample() == np.random.RandomState(7).random_sample()
    assert rng_of(2**32).random_sample() != rng_of(0).random_sample()
    assert (
        rng_of(np.random.default_rng(3)).random_sample() == rng_of(np.random.default_rng(3)).random_sample()
    )
    own = np.random.RandomState(3)
    assert rng_of(own) is own
    first, again = (craftc.DPMeans(n_init=3, random_state=np.random.default_rng(5)).fit(X) for _ in range(2))
    np.testing.assert_array_equal(first.labels_, again.labels_)
    assert fitted("FeatureSelectionMixture", random_state=0).sample(3, random_state=2**64 - 1)[0].shape == (
        3,
        3,
    )


@pytest.mark.filterwarnings("ignore:.*fewer than n_clusters:UserWarning")
def test_limits_that_no_table_reaches_change_nothing():
    for name, parameters in {
        "CRAFT": {"n_init": 2},
        "PaperCRAFT": {"model": "likelihood", "n_init": 2},
        "DPMeans": {},
    }.items():
        one, other = (
            fitted(name, max_clusters=most, random_state=0, **parameters) for most in (100, 2**31 - 1)
        )
        np.testing.assert_array_equal(one.labels_, other.labels_)
        assert one.objective_ == other.objective_
    one, other = (fitted("DPMeans", n_clusters=K) for K in (13, 2**31 - 1))
    assert one.cluster_penalty_ == other.cluster_penalty_
    np.testing.assert_array_equal(one.labels_, other.labels_)
    path = craftc.DPMeans().penalty_path(X, 20)
    assert path.shape == (20,)
    assert (path[:11] > 0).all()
    assert not path[11:].any()


def test_more_components_than_rows():
    assert fitted("FeatureSelectionMixture", n_components=100).n_clusters_ <= 12
    with pytest.raises(
        ValueError,
        match=r"n_components=101 is more than the 12 rows of the table; ask for fewer components\.",
    ):
        fitted("FeatureSelectionMixture", n_components=101)


@pytest.mark.parametrize(
    ("name", "parameter"),
    [(name, each) for name in ESTIMATORS for each in getattr(craftc, name)().get_params()],
)
def test_values_of_no_parameter(name, parameter):
    """Refused by every parameter of every estimator; `n_jobs` is another name of `n_threads`."""
    says = "(must|names)" if parameter in ("categorical", "column_weights") else "must"
    named = {"n_jobs": "n_threads"}.get(parameter, parameter)
    for value in (
        RAGGED,
        pd.NA,
        object(),
        np.array(["a", "b"]),
        np.full(12, "x"),
        {"a": 1},
        np.full(12, pd.NA),
        {3},
        [10**400],
    ):
        with pytest.raises(
            (TypeError, ValueError), match=rf"^(Every value of )?{named}(\[0\])? {says} "
        ) as caught:
            fitted(name, **{parameter: value})
        assert len(str(caught.value)) < 600


def test_threads():
    for value in (10**400, -(10**400), 2**63, np.int64(3), 2.0):
        fitted("DPMeans", n_threads=value)
    for value in (np.nan, np.inf, "7", True, 1.5, 1j, pd.NA, [3]):
        with pytest.raises(ValueError, match=r"^n_threads must be None or a whole number, got "):
            fitted("DPMeans", n_threads=value)
    with pytest.raises(ValueError, match=r"^n_threads must be None or a whole number, got 1j"):
        fitted("KModes", n_jobs=1j, n_threads=1)
