"""The search against the shortest description of small tables, by all 4 140 partitions of eight rows that
are six times in the table.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from craftc import CRAFT
from tests.level_cases import Case, mixed_columns
from tests.reference import enumeration

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # columns of so few rows repeat each other

N_TABLES = 120
COPIES = 6


@cache
def small_table(seed):
    """Eight rows of one to five usable columns: those rows with their weight, and all rows."""
    for again in range(1000):
        columns, kinds, periods = mixed_columns(
            [seed, again], n=8, q=1 + seed % 5, missing=0.05, K=2 + seed % 2, apart=3.0
        )
        if all(len(np.unique(column[~np.isnan(column)])) > 1 for column in columns):
            break
    distinct = Case(columns, kinds, periods, np.full(8, COPIES))
    return distinct, Case([np.repeat(column, COPIES) for column in columns], kinds, periods)


@cache
def shortest(seed, n_clusters=None):
    """(J, K, distinct rows) of the shortest description."""
    t = small_table(seed)[0].problem()
    found = enumeration.global_minimum(t, n_clusters=n_clusters)
    rows = len(np.unique(small_table(seed)[0].encoded.codes, axis=0))
    return found.J, int(found.labels.max()) + 1, rows


def excess(seed, K=None):
    """Nats by which CRAFT, asked for K clusters, exceeds the shortest description; 0 within rounding."""
    case = small_table(seed)[1]
    model = CRAFT(K, kinds=case.declared, covariance="diagonal", random_state=0).fit(case.X)
    J = shortest(seed, K)[0]
    rounding, over = 1e-6 * max(1.0, abs(J)), model.objective_ - J
    assert over >= -rounding
    return over if over > rounding else 0.0


@pytest.mark.slow
def test_tables_are_of_every_kind():
    cases = [small_table(seed)[1] for seed in range(N_TABLES)]
    assert {kind for case in cases for kind in case.kinds} == {"number", "category", "ordered", "periodic"}
    assert sum(np.isnan(case.X).any() for case in cases) > 10
    clusters = np.bincount([shortest(seed)[1] for seed in range(N_TABLES)])
    assert (clusters[1:4] >= 10).all()


def test_automatic_search_reaches_the_global_minimum():
    """Of 118 of 120 tables; the other two need more starts (2.7 and 1.6 nats)."""
    over = np.array([excess(seed) for seed in range(N_TABLES)])
    assert np.count_nonzero(over) <= 3
    assert over.max() < 4.0


@pytest.mark.slow
def test_the_number_of_clusters_of_the_minimum():
    """The same, if that number is asked for."""
    over = np.array([excess(seed, shortest(seed)[1]) for seed in range(N_TABLES)])
    assert np.count_nonzero(over) <= 3
    assert over.max() < 4.0


@pytest.mark.slow
def test_other_numbers_of_clusters():
    """A number that does not fit the data is reached by splits or merges of the best partition, without a
    search at that number: 37 % of them have the shortest description, 2.3 nats more on average.
    """
    over = np.array(
        [
            excess(seed, K)
            for seed in range(0, N_TABLES, 3)
            for K in (2, 3, 4)
            if shortest(seed)[2] >= K and shortest(seed)[1] != K
        ]
    )
    assert np.mean(over == 0.0) >= 0.3
    assert over.mean() < 3.5
