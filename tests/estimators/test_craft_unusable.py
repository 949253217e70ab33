"""Columns that cannot define clusters: refused one by one, or set aside with one warning."""

from __future__ import annotations

import datetime

import numpy as np
import pytest

import craftc
from craftc import CRAFT, MixedTable

N = 60
GROUP = np.arange(N) % 2
GOOD = {
    "size": np.random.default_rng(0).normal(size=N) + 6 * GROUP,
    "kind": [f"k{g}{i % 3 // 2}" for i, g in enumerate(GROUP)],
}
BAD = {
    "key": ([f"K{i}" for i in range(N)], "a different text in every row"),
    "nr": (list(range(5, N + 5)), "row counter"),
    "customer_id": ([7 * i % 61 for i in range(N)], "a different number in every row, and the name of an id"),
    "when": (
        [datetime.date(2024, 1, 1 + i % 9) for i in range(N)],
        "dates, or other values that are neither numbers nor text",
    ),
    "day": ([f"2024-01-0{1 + i % 9}" for i in range(N)], "dates"),
    "nothing": ([None] * N, "no value in any row"),
    "nan": ([float("nan")] * N, "no value in any row"),
    "same": ([1.5] * N, "one value in every row"),
    "country": (["CH"] * N, "one value in every row"),
    "yes": ([True] * N, "one value in every row"),
}
USED = {"gap": [None if i % 9 == 0 else 1.0 for i in range(N)], "numbers": [(i * i) % 59 for i in range(N)]}


def columns(*extra):
    return {**{name: cells for name, (cells, _) in BAD.items() if name in extra or not extra}, **GOOD}


def craft(**options):
    return CRAFT(n_clusters=2, n_init=1, random_state=0, **options)


def makers():
    yield "dict", dict
    for name in ("pandas", "polars"):
        yield name, lambda table, name=name: pytest.importorskip(name).DataFrame(table)
    yield "pyarrow", lambda table: pytest.importorskip("pyarrow").table(table)


@pytest.mark.parametrize("make", [pytest.param(make, id=name) for name, make in makers()])
def test_all_are_set_aside_with_one_warning(make):
    X, good = make(columns()), make(GOOD)
    with pytest.warns(UserWarning, match="Columns that cannot define clusters are not used") as caught:
        model = craft(unusable="drop").fit(X)
    assert len(caught) == 1
    for name, (_, reason) in list(BAD.items())[:5]:
        assert f"{name!r}: {reason}" in str(caught[0].message)
    assert "; and 5 more." in str(caught[0].message)
    expected = craft().fit(good)
    assert model.feature_names_in_.tolist() == list(GOOD)
    assert model.objective_ == expected.objective_
    assert model.predict(X).tolist() == model.predict(good).tolist() == expected.labels_.tolist()
    assert model.transform(X).tolist() == expected.transform(good).tolist()


@pytest.mark.parametrize("name", BAD)
def test_every_reason(name):
    with pytest.warns(UserWarning, match=f"not used: {name!r}: {BAD[name][1]}."):
        assert craft(unusable="drop").fit(columns(name)).feature_names_in_.tolist() == list(GOOD)


def test_the_others_are_used():
    model = craft(unusable="drop").fit({**GOOD, **USED})
    assert model.feature_names_in_.tolist() == [*GOOD, *USED]


@pytest.mark.parametrize(
    ("name", "error"), [("key", ValueError), ("when", TypeError), ("nothing", ValueError)]
)
def test_an_error_by_default(name, error):
    with pytest.raises(error, match=f"Column {name!r}"):
        craft().fit(columns(name))


@pytest.mark.parametrize("categorical", [["key", "kind"], [0, 2], [True, False, True]])
def test_columns_that_are_named_stay(categorical):
    with pytest.warns(UserWarning, match="'key' and 'size' are near-duplicates"):
        model = craft(unusable="drop", categorical=categorical).fit(columns("key"))
    assert model.schema_.categorical_names == ("key", "kind")
    with pytest.warns(UserWarning, match="'nothing'"):
        model = craft(unusable="drop", categorical=[2]).fit(columns("nothing"))
    assert model.schema_.categorical_names == ("kind",)


def test_nothing_is_left():
    with pytest.raises(ValueError, match=r"No column is left to cluster \('key': a different text"):
        craft(unusable="drop").fit({"key": BAD["key"][0]})
    assert CRAFT(unusable="drop").fit({"same": [1.5] * N, "country": ["CH"] * N}).n_clusters_ == 1
    with pytest.raises(ValueError, match="unusable must be"):
        craft(unusable="keep").fit(GOOD)


def test_arrays_and_tables_have_no_columns_to_drop():
    X = np.column_stack([GOOD["size"], np.ones(N)])
    assert craft(unusable="drop").fit(X).n_features_in_ == 2
    assert craft(unusable="drop").fit(MixedTable.from_data(GOOD)).predict(
        MixedTable.from_data(GOOD)
    ).shape == (N,)


def test_a_saved_model_accepts_them(tmp_path):
    with pytest.warns(UserWarning, match="not used"):
        model = craft(unusable="drop").fit(columns())
    craftc.save_model(model, tmp_path / "m.craftc")
    assert craftc.load_model(tmp_path / "m.craftc").predict(columns()).tolist() == model.labels_.tolist()


@pytest.mark.parametrize("options", [{"categorical": ["code"]}, {"kinds": {"code": "category"}}])
def test_cells_of_several_types_that_are_categories_stay(options):
    X = {**GOOD, "code": [1 if i % 3 else "a" for i in range(N)]}
    assert "code" in craft(unusable="drop", **options).fit(X).schema_.columns
