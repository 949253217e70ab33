"""Things observed several times: patients with visits."""

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
    assert said(numbers.rename(columns={"patient_id": "weight"})) is None


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
