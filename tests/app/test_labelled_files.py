"""Files of SPSS, Stata and SAS, with labels of values and columns."""

from __future__ import annotations

import gzip
import sys

import numpy as np
import pytest

import craftc
from craftc.cli import main

pd = pytest.importorskip("pandas", reason="files are read with pandas")
pyreadstat = pytest.importorskip("pyreadstat", reason="craftc[stats] reads these files")

N = 120
RNG = np.random.default_rng(0)
GROUP = RNG.integers(0, 2, N)
FRAME = pd.DataFrame(
    {
        "q1": np.clip(RNG.integers(1, 3, N) + 3 * GROUP, 1, 5).astype(float),
        "sex": RNG.integers(1, 3, N).astype(float),
        "age": (RNG.integers(18, 40, N) + 30 * GROUP).astype(float),
        "town": np.array(["Ulm", "Köln", ""])[RNG.integers(0, 3, N)],
        "day": pd.date_range("2024-01-01", periods=N),
    }
)
FRAME.loc[[3, 4], "q1"] = 9.0
FRAME.loc[5, "age"] = 999.0
SCALE = {1: "very bad", 2: "bad", 3: "so so", 4: "good", 5: "very good", 9: "no answer"}
LABELS = {"q1": SCALE, "sex": {1: "m", 2: "f"}, "age": {999: "refused"}}
MEASURES = {"q1": "ordinal", "sex": "nominal", "age": "scale", "day": "scale", "town": "nominal"}
COLUMNS = {"q1": "How satisfied are you?", "age": "Age in years"}


@pytest.fixture
def spss(tmp_path):
    path = tmp_path / "t.sav"
    pyreadstat.write_sav(
        FRAME,
        path,
        column_labels=COLUMNS,
        variable_value_labels=LABELS,
        missing_ranges={"q1": [9]},
        variable_measure=MEASURES,
    )
    return path


def test_spss(spss, tmp_path):
    table = craftc.read_table(spss)
    assert list(table.columns) == list(FRAME.columns)
    levels = list(SCALE.values())[:5]
    assert (table["q1"].cat.ordered, table["q1"].cat.categories.tolist()) == (True, levels)
    assert table["q1"].isna().to_numpy().nonzero()[0].tolist() == [3, 4]  # declared as missing
    assert table["q1"][0] == SCALE[FRAME["q1"][0]]
    assert (table["sex"] == "m").tolist() == (FRAME["sex"] == 1).tolist()
    assert not table["sex"].cat.ordered
    assert table["age"].tolist() == FRAME["age"].tolist()
    assert table["day"][0] == 19723
    assert table["town"].isna().sum() == (FRAME["town"] == "").sum()
    notes = " | ".join(table.attrs["notes"])
    assert "Numbers with labels of a few values stay numbers: 'age'" in notes
    assert "'age' has 999, 'refused', in 1 row; na_values=['999'] makes it missing" in notes
    assert craftc.read_table(spss, na_values=["999"])["age"].isna().sum() == 1
    assert craftc.read_table(spss, na_values=["bad"])["q1"].isna().sum() == 2 + (FRAME["q1"] == 2).sum()
    (tmp_path / "t.sav.gz").write_bytes(gzip.compress(spss.read_bytes()))
    pd.testing.assert_frame_equal(craftc.read_table(tmp_path / "t.sav.gz"), table)


def test_models_of_labelled_tables(spss, capsys, tmp_path):
    table = craftc.read_table(spss, na_values=["999"])
    model = craftc.CRAFT(random_state=0).fit(table)
    assert "q1" in [model.schema_.columns[j] for j in model.schema_.ordered]
    new = craftc.read_table(spss, na_values=["999"], like=model)
    assert model.predict(new).tolist() == model.labels_.tolist()
    assert main(["cluster", str(spss), "--na", "999", "--out", str(tmp_path / "out")]) == 0
    page = capsys.readouterr().out
    assert "Age in years" in page  # the label of "age"
    assert main(["predict", str(tmp_path / "out"), str(spss), "--na", "999"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == N + 1


def test_answers_that_are_not_declared_as_missing(tmp_path):
    path = tmp_path / "t.sav"
    pyreadstat.write_sav(FRAME, path, variable_value_labels=LABELS, variable_measure=MEASURES)
    table = craftc.read_table(path)
    assert table["q1"].cat.categories.tolist() == [SCALE[value] for value in (1, 2, 4, 5, 9)]
    assert not table["q1"].cat.ordered
    assert any(
        "'q1' is not ordered, because of its level 'no answer'" in note for note in table.attrs["notes"]
    )
    pyreadstat.write_sav(
        FRAME[FRAME["q1"] < 9], path, variable_value_labels=LABELS, variable_measure=MEASURES
    )
    table = craftc.read_table(path)
    assert (table["q1"].cat.ordered, len(table["q1"].cat.categories)) == (True, 5)


def test_partly_labelled_and_equal_labels(tmp_path):
    path = tmp_path / "t.sav"
    ends = {"q1": {1: "never", 5: "always"}, "sex": {1: "x", 2: "x"}}
    pyreadstat.write_sav(FRAME, path, variable_value_labels=ends, variable_measure=MEASURES)
    table = craftc.read_table(path)
    assert table["q1"].cat.categories.tolist() == ["never", "2", "4", "always", "9"]
    assert table["q1"].cat.ordered
    assert table["sex"].cat.categories.tolist() == ["x (1)", "x (2)"]


def test_stata_and_sas(tmp_path):
    path = tmp_path / "t.dta"
    for version in (8, 12, 15):
        frame = FRAME if version > 12 else FRAME.assign(town=FRAME["town"].replace("Köln", "Koln"))
        pyreadstat.write_dta(frame, path, variable_value_labels={"sex": {1: "m", 2: "f"}}, version=version)
        table = craftc.read_table(path)
        assert (table["sex"] == "m").tolist() == (FRAME["sex"] == 1).tolist()
        assert (table["age"].tolist(), table["day"][0]) == (FRAME["age"].tolist(), 19723)
    for version in (5, 8):
        path = tmp_path / "t.xpt"
        pyreadstat.write_xport(FRAME.drop(columns="day"), path, file_format_version=version)
        assert craftc.read_table(path)["age"].tolist() == FRAME["age"].tolist()


def test_folders_of_labelled_files(spss):
    for other in ("u.sav", "v.sav"):
        (spss.parent / other).write_bytes(spss.read_bytes())
    table = craftc.read_table(spss.parent)
    assert (len(table), table["q1"].cat.ordered) == (3 * N, True)


def test_refusals(spss, monkeypatch):
    spss.write_bytes(spss.read_bytes()[:400])
    with pytest.raises(ValueError, match="cannot be read: "):
        craftc.read_table(spss)
    monkeypatch.setitem(sys.modules, "pyreadstat", None)
    with pytest.raises(
        ImportError, match=r"is a file of SPSS, which needs pyreadstat: pip install 'craftc\[stats\]'"
    ):
        craftc.read_table(spss)
