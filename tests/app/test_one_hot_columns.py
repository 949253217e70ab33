"""One-hot columns are read as the one column that they are."""

from __future__ import annotations

import numpy as np
import pytest

import craftc
from craftc.cli import main
from craftc.reading.input_file import TableError

pd = pytest.importorskip("pandas", reason="files are read with pandas")

N = 120
RNG = np.random.default_rng(0)
GROUP = RNG.integers(0, 2, N)
COLOUR = RNG.choice(["red", "blue", "green"], N)
NUMBERS = pd.DataFrame({"x": RNG.normal(4 * GROUP).round(2), "y": RNG.normal(-4 * GROUP).round(2)})


def dummies(tick=1, no=0, names=("red", "blue", "green"), stem="colour_"):
    return NUMBERS.assign(**{f"{stem}{name}": np.where(name == COLOUR, tick, no) for name in names})


@pytest.mark.slow_except(5)
@pytest.mark.parametrize(("tick", "no"), [(1, 0), (1.0, 0.0), ("x", ""), ("yes", "no"), ("TRUE", "FALSE")])
@pytest.mark.parametrize("stem", ["colour_", "colour: ", "colour."])
def test_one_hot_columns_are_one_column(tick, no, stem):
    table = craftc.read_table(dummies(tick, no, stem=stem))
    assert list(table) == ["x", "y", "colour"]
    assert table["colour"].tolist() == COLOUR.tolist()
    assert "are one answer in several columns, exactly one of them set" in " ".join(table.attrs["notes"])
    assert len(craftc.read_table(dummies(tick, no), on_unusable="keep").columns) == 5


def test_without_the_first_level():
    table = craftc.read_table(dummies(names=("red", "blue")))
    assert table["colour"].tolist() == ["none" if each == "green" else each for each in COLOUR]


def test_names_without_a_stem():
    table = craftc.read_table(dummies(stem=""))
    assert list(table)[2:] == ["red / blue / green"]
    taken = dummies().assign(colour=np.arange(N) % 7)
    assert "colour_" in list(craftc.read_table(taken))


def test_columns_that_are_no_group_stay():
    rng = np.random.default_rng(1)
    for columns in (
        {f"tick_{j}": rng.integers(0, 2, N) for j in range(3)},
        {
            f"tick_{j}": np.where(rng.random(N) < 0.9, j == 1, rng.random(N) < 0.5).astype(int)
            for j in range(3)
        },
    ):
        assert set(columns) <= set(craftc.read_table(NUMBERS.assign(**columns)))


def test_new_rows_have_the_columns_of_the_file(tmp_path):
    table = dummies()
    model = craftc.CRAFT(random_state=0).fit(craftc.read_table(table))
    assert model.n_clusters_ == 2
    craftc.save_model(model, tmp_path / "m.craftc")
    model = craftc.load_model(tmp_path / "m.craftc")
    new = table[:4].assign(colour_red=[0.0, 1, 1, np.nan], colour_blue=[0.0, 1, 0, 1], colour_green="0")
    read = craftc.read_table(new, like=model)
    assert read["colour"].tolist()[2:] == ["red", "blue"]
    assert read["colour"].isna().tolist() == [True, True, False, False]
    assert (model.predict(craftc.read_table(table, like=model)) == model.labels_).all()
    with pytest.raises(TableError, match="lacks column\\(s\\) of the model: 'colour_red'"):
        craftc.read_table(table.drop(columns="colour_red"), like=model)
    assert craftc.compare(model, table).drift < 0.01


SPELLINGS = [(1, 0), (1.0, 0.0), (True, False), ("1", "0"), ("yes", "no"), ("TRUE", "FALSE"), ("x", "")]


@pytest.mark.parametrize(
    ("fitted", "names"),
    [
        *((fitted, ("red", "blue", "green")) for fitted in (SPELLINGS[0], SPELLINGS[2], *SPELLINGS[-3:])),
        (SPELLINGS[0], ("red", "blue")),
    ],
)
def test_ticks_of_new_rows_in_another_spelling(tmp_path, fitted, names):
    model = craftc.CRAFT(random_state=0).fit(craftc.read_table(dummies(*fitted, names)))
    for n in (N, 1):
        expected = [each if each in names else "none" for each in COLOUR[:n]]
        for tick, no in SPELLINGS:
            if (no == "") > (fitted[1] == ""):
                continue  # a blank cell is "no" where it was so in the fit
            new = dummies(tick, no, names)[:n]
            new.to_csv(tmp_path / "new.csv", index=False)
            new.to_parquet(tmp_path / "new.parquet")
            paths = (
                [tmp_path / f"new.{each}" for each in ("csv", "parquet")] if n == 1 or tick is True else []
            )
            for table in (new, *paths):
                assert craftc.read_table(table, like=model)["colour"].tolist() == expected


def test_other_cells_are_no_ticks():
    model = craftc.CRAFT(random_state=0).fit(craftc.read_table(dummies()))
    new = dummies()[:3].assign(colour_red=["2", "maybe", None], colour_blue="2", colour_green="2")
    assert craftc.read_table(new, like=model)["colour"].isna().all()


@pytest.mark.slow
def test_one_hot_columns_in_the_shell(tmp_path, capsys):
    dummies().to_csv(tmp_path / "t.csv", index=False)
    assert main(["cluster", str(tmp_path / "t.csv"), "--out", str(tmp_path / "r")]) == 0
    page = " ".join(capsys.readouterr().out.split())
    assert "categorical: colour " in page
    assert "joined to 'colour'; --categorical NAMES keeps them" in page
    assert (
        main(["predict", str(tmp_path / "r"), str(tmp_path / "t.csv"), "--out", str(tmp_path / "o.csv")]) == 0
    )
    labels = pd.read_csv(tmp_path / "r" / "labels.csv")["cluster"]
    assert (pd.read_csv(tmp_path / "o.csv")["cluster"] == labels).all()
    names = ["colour_red", "colour_blue", "colour_green"]
    assert main(["cluster", str(tmp_path / "t.csv"), "--clusters", "1", "--categorical", *names]) == 0
    assert "categorical: colour_red, colour_blue, colour_green" in " ".join(capsys.readouterr().out.split())
