"""Things observed several times: patients with visits; and exact copies of rows."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest

from craftc import CRAFT, MixedTable
from craftc.craft.repeated_rows import repeated_rows

N, VISITS = 60, 4


def visits(seed=0):
    """Patients of two kinds, which differ in two values of the blood, and their visits."""
    rng = np.random.default_rng(seed)
    patient, kind = np.repeat(np.arange(N), VISITS), np.repeat(rng.random(N) < 0.4, VISITS)
    return kind, pd.DataFrame(
        {
            "patient": np.char.add("P", patient.astype(str)),
            "age": np.repeat(rng.normal(60, 9, N).round(), VISITS),
            "sex": np.repeat(rng.choice(["f", "m"], N), VISITS),
            "visit": np.tile([f"V{j}" for j in range(VISITS)], N),
            "crp": np.exp(rng.normal(0.5 + 2.0 * kind, 0.5)),
            "ferritin": np.exp(rng.normal(4.0 + 1.8 * kind, 0.5)),
        }
    )


def said(table):
    return repeated_rows(MixedTable.from_data(table))


def test_the_hint_leads_to_the_groups():
    kind, table = visits()
    with pytest.warns(UserWarning, match="same 'patient' are equal in 'sex', 'age', .* groups='patient'"):
        CRAFT(random_state=0).fit(table)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*patient")
        model = CRAFT(random_state=0).fit(table, groups="patient")
    assert model.n_clusters_ == 2
    assert (model.labels_ == (kind != kind[0])).mean() > 0.95


def test_codes_of_numbers_and_missing_cells():
    _, table = visits()
    numbers = table.assign(patient_id=1000 + np.repeat(np.arange(N), VISITS)).drop(columns="patient")
    numbers.loc[::5, ["age", "sex"]] = None
    assert "same 'patient_id' are equal in 'sex', 'age'" in said(numbers)
    small = numbers.assign(case=numbers.patient_id - 999).drop(columns="patient_id")
    assert "same 'case' are equal in 'sex', 'age'" in said(small)
    assert said(small.assign(case=small.case + 0.5)) is None


def test_columns_that_follow_from_a_number():
    """Classes of an age, and parts of a day, are no persons and no days that were observed several times."""
    rng = np.random.default_rng(0)
    age, hour = rng.integers(18, 80, 600), rng.integers(0, 24, 600)
    table = pd.DataFrame(
        {"age": age, "decade": age // 10, "adult": age >= 21, "hour": hour, "x": rng.normal(size=600)}
    )
    table = table.assign(retired=age >= 65, night=(hour < 6) | (hour > 21), half=hour // 12, part=hour // 6)
    assert said(table.astype({"adult": str, "retired": str, "night": str})) is None


@pytest.mark.parametrize("seed", range(20))
def test_independent_numbers_have_no_hint(seed):
    rng = np.random.default_rng(seed)
    n, most = int(rng.integers(60, 400)), rng.integers(2, 60, 25)
    assert said({f"x{j}": rng.integers(0, most[j], n).astype(float) for j in range(25)}) is None


def test_other_tables_have_no_hint():
    _, table = visits()
    rng = np.random.default_rng(1)
    assert said(table.assign(age=table.age + (rng.random(len(table)) < 0.02), sex="f")) is None
    assert said(table.assign(patient=rng.permutation(table.patient))) is None
    assert said(table[["patient", "visit", "crp"]]) is None
    # equal in repeated rows by chance: nearly all cells are equal
    rare = pd.DataFrame({"town": [f"town {j}" for j in rng.integers(0, 150, 250)]})
    rare["a"], rare["b"] = (np.arange(250) == 3).astype(str), (np.arange(250) == 9).astype(str)
    assert said(rare) is None


# ---- exact copies ----


def hint_of_copies(table, **options):
    """The warning about copies of rows in a fit, or None."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        CRAFT(random_state=0, n_init=2).fit(table, **options)
    return next((said for each in caught if "exact copies" in (said := str(each.message))), None)


@pytest.mark.parametrize(("least", "most"), [(1, 20), (5, 15), (8, 12)])
def test_rows_with_different_numbers_of_copies(least, most):
    hints = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(60, 5)).repeat(rng.integers(least, most + 1, 60), axis=0)
        hints.append(hint_of_copies(X) is not None)
    assert sum(hints) >= 3


@pytest.mark.parametrize(("n", "times"), [(60, 12), (300, 2)])
def test_copies_of_rows(n, times):
    X = np.random.default_rng(0).normal(size=(n, 5))
    X[: n // 2, :3] += 4.0 * (times == 2)  # two groups, which are found in two copies of a row
    X[0, 0], X[1, 1] = 0.0, np.nan
    copies = np.tile(X, (times, 1))
    copies[n:][copies[n:] == 0.0] = -0.0
    assert f"on average {times} rows are equal" in hint_of_copies(copies)
    assert hint_of_copies(X, sample_weight=np.full(n, times)) is None
    again = np.arange(len(copies)) < 1.3 * n
    assert hint_of_copies(copies[again]) is None
    assert hint_of_copies(copies, sample_weight=again) is None


def test_some_rows_of_a_long_table_are_compared():
    X = np.random.default_rng(0).normal(size=(20_000, 4))
    X[::3] += 3.0
    assert hint_of_copies(X) is None
    assert "on average 2 rows are equal" in hint_of_copies(np.repeat(X, 2, axis=0))


def test_rows_that_are_equal_by_chance():
    """Two groups, and items of a factor: few answers, which most rows share with others."""
    rng = np.random.default_rng(0)
    group = rng.random(2000) < 0.4
    yes = rng.random((2000, 12)) < np.where(group, 0.97, 0.05)[:, None]
    assert hint_of_copies(yes.astype(float)) is None
    items = np.digitize(1.5 * rng.normal(size=(2000, 1)) + rng.normal(size=(2000, 6)), [-1.0, 0.0, 1.0])
    table = {f"item {j}": np.array(list("abcd"))[own] for j, own in enumerate(items.T)}
    assert pd.DataFrame(table).duplicated(keep=False).mean() > 0.6
    assert hint_of_copies(table) is None
