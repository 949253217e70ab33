"""``craftc refit``, and what files and reports say after a refit."""

from __future__ import annotations

import json

import numpy as np
import pytest

import craftc
from craftc.cli import main
from tests.estimators.test_craft_refit import MONTH, month

pd = pytest.importorskip("pandas", reason="pip install 'craftc[app]'")
pytest.importorskip("jinja2", reason="pip install 'craftc[app]'")
pytest.importorskip("click", reason="pip install 'craftc[app]'")

LATER = {"a": 90, "b": 80, "c": 130, "far": 140}


@pytest.fixture(scope="module")
def january(tmp_path_factory):
    """The folder of a model of one month, in which the clusters have names."""
    folder = tmp_path_factory.mktemp("january")
    table = month(MONTH)
    model = craftc.CRAFT(random_state=0, n_init=2).fit(table.drop(columns="group"))
    names = {k: table["group"][model.labels_ == k].mode()[0] for k in range(4)}
    craftc.save_model(
        model.rename_clusters({k: f"the {name}" for k, name in names.items()}), folder / "model.craftc"
    )
    return folder


@pytest.fixture
def february(tmp_path):
    month(LATER, seed=5).drop(columns="group").to_csv(tmp_path / "february.csv", index=False)
    return tmp_path / "february.csv"


def test_files_and_page_of_a_refit(january, february, tmp_path, capsys):
    out = tmp_path / "out"
    assert main(["refit", str(january), str(february), "--out", str(out)]) == 0
    page = capsys.readouterr()
    assert page.out.startswith("440 rows: 3 kept, 1 born, 1 died.\n\n  1 the b: kept, 36 % then, ")
    assert "\n  - the d: died (was 4), " in page.out
    assert "craftc: note: 'g' has new levels: 'v'." in page.err
    former, model = (craftc.load_model(folder / "model.craftc") for folder in (january, out))
    changed = pd.read_csv(out / "changes.csv")
    assert changed["change"].tolist() == ["kept", "kept", "kept", "born", "died"]
    assert changed["cluster"].tolist()[:4] == [1, 2, 3, 4]
    assert changed["former"].tolist()[:3] == [1, 2, 3]
    kept = changed[changed["change"] == "kept"]
    before = former.cluster_names_
    assert kept["name"].tolist() == [before[k] for k in former._fitted.by_number[:3]]
    labels, table = pd.read_csv(out / "labels.csv"), pd.read_csv(february)
    numbers = np.argsort(model._fitted.by_number) + 1
    assert labels["cluster"].tolist() == numbers[model.labels_].tolist()
    assert (numbers[model.predict(table)] == labels["cluster"]).all()
    assert pd.read_csv(out / "summary.csv")["cluster"].drop_duplicates().tolist() == [1, 2, 3, 4]
    report = (out / "report.html").read_text(encoding="utf-8")
    assert "Since last time" in report
    assert "3 kept, 1 born, 1 died" in report
    assert "craftc refit FORMER TABLE.csv --out FOLDER" in report
    assert "Largest first" not in report
    # the next commands use the same numbers
    assert main(["predict", str(out), str(february), "--out", str(tmp_path / "again.csv")]) == 0
    assert pd.read_csv(tmp_path / "again.csv")["cluster"].tolist() == labels["cluster"].tolist()
    capsys.readouterr()
    assert main(["info", str(out), "--json"]) == 0
    about = json.loads(capsys.readouterr().out)
    assert [each["label"] for each in about["clusters"]] == model._fitted.by_number.tolist()
    assert main(["compare", str(out), str(february), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [each["rows"] for each in found["clusters"]] == labels[
        "cluster"
    ].value_counts().sort_index().tolist()


def test_fixed_clusters_in_place(january, february, tmp_path, capsys):
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "model.craftc").write_bytes((january / "model.craftc").read_bytes())
    table = month(LATER | {"d": 30}, seed=6).drop(columns="group")
    table.to_csv(tmp_path / "march.csv", index=False)
    command = ["refit", str(folder), str(tmp_path / "march.csv"), "--keep-clusters", "--out", str(folder)]
    assert main([*command, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["keep"], found["n_clusters"], found["rows"]) == ("clusters", 4, 470.0)
    assert {each["change"] for each in found["changes"]} == {"kept"}
    assert sum(each["now"] for each in found["changes"]) == pytest.approx(1.0)
    expected = craftc.load_model(january / "model.craftc").refit(table, keep="clusters")
    assert craftc.load_model(folder / "model.craftc").objective_ == expected.objective_
    assert "--keep-clusters" in (folder / "report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(("column", "cells"), [("thal", "new"), ("thal", None), ("oldpeak", np.nan)])
def test_fixed_clusters_of_a_column_without_a_value(column, cells, tmp_path):
    """Clusters were found by a column, and no new row has a value in it."""
    heart = craftc.datasets.load_heart().data
    craftc.save_model(craftc.CRAFT(random_state=0).fit(heart), tmp_path / "model.craftc")
    heart.assign(**{column: cells}).to_csv(tmp_path / "new.csv", index=False)
    args = ["refit", str(tmp_path / "model.craftc"), str(tmp_path / "new.csv"), "--keep-clusters"]
    assert main([*args, "--out", str(tmp_path)]) == 0
    report = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert f">{column}<" in report
    assert "(all missing)" in report
    assert f"{column} is" not in report


def test_a_folder_of_parquet_files(january, tmp_path, capsys):
    table = month(LATER, seed=5).drop(columns="group")
    (tmp_path / "days").mkdir()
    table[:200].to_parquet(tmp_path / "days" / "1.parquet")
    table[200:].to_parquet(tmp_path / "days" / "2.parquet")
    out = tmp_path / "out"
    assert main(["refit", str(january), str(tmp_path / "days"), "--out-of-core", "--out", str(out)]) == 0
    assert "440 rows: 3 kept, 1 born, 1 died." in capsys.readouterr().out
    assert sorted(path.name for path in out.iterdir()) == [
        "changes.csv",
        "labels.csv",
        "model.craftc",
        "summary.csv",
    ]
    expected = craftc.load_model(january / "model.craftc").refit(table)
    model = craftc.load_model(out / "model.craftc")
    np.testing.assert_array_equal(model.labels_, expected.labels_)
    assert model.changes_.segments == expected.changes_.segments


def test_what_is_refused(january, february, tmp_path, capsys):
    bad = tmp_path / "bad.csv"
    pd.read_csv(february).drop(columns=["u", "g"]).to_csv(bad, index=False)
    assert main(["refit", str(january), str(bad), "--out", str(tmp_path / "out")]) == 2
    assert "lacks column(s) of the model: 'u', 'g'" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
    pd.read_csv(february).iloc[:5].to_csv(bad, index=False)
    assert main(["refit", str(january), str(bad), "--keep-clusters"]) == 2
    assert "they would have no distribution" in capsys.readouterr().err
    craftc.save_model(
        craftc.KModes(2, random_state=0).fit(pd.read_csv(february)[["g"]].assign(k="x")),
        tmp_path / "k.craftc",
    )
    assert main(["refit", str(tmp_path / "k.craftc"), str(february)]) == 2
    assert "needs a CRAFT" in capsys.readouterr().err
    assert main(["refit", str(january), str(february), "--out", str(february)]) == 2
    assert "is a file" in capsys.readouterr().err


def test_statements_use_the_numbers_of_last_time(january, february):
    pytest.importorskip("sqlglot", reason="pip install 'craftc[export]'")
    from craftc.export.models import scoring_of

    model = craftc.load_model(january / "model.craftc")
    model.refit(pd.read_csv(february))
    assert (np.argsort(model._fitted.by_number) + 1).tolist() == scoring_of(model).number_of.tolist()
