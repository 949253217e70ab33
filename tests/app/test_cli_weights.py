"""Weights of rows and columns, and outliers, in the shell."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

import craftc
from craftc import CRAFT
from craftc.cli import main


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A table with whole weights, as text and as Parquet, and the table of repeated rows."""
    rng = np.random.default_rng(0)
    group = rng.integers(0, 2, 160)
    frame = pd.DataFrame(
        {
            "x": np.round(rng.normal(3.0 * group), 2),
            "y": np.round(rng.normal(-2.0 * group), 2),
            "colour": np.array(["red", "blue"])[(rng.random(160) < 0.1 + 0.8 * group).astype(int)],
            "times": rng.integers(0, 4, 160),
        }
    )
    frame.loc[3, "colour"] = "green"
    folder = tmp_path_factory.mktemp("weights")
    frame.to_csv(folder / "t.csv", index=False)
    frame.to_parquet(folder / "t.parquet")
    repeated = frame.loc[frame.index.repeat(frame["times"])].drop(columns="times")
    repeated.to_csv(folder / "repeated.csv", index=False)
    return folder, frame


def answer(capsys, *arguments):
    assert main(["cluster", *map(str, arguments), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_weights_of_rows_are_repeated_rows(files, capsys, tmp_path):
    folder, frame = files
    found = answer(capsys, folder / "t.csv", "--weight", "times", "--out", tmp_path)
    again = answer(capsys, folder / "repeated.csv")
    total = int(frame["times"].sum())
    assert sum(each["rows"] for each in found["clusters"]) == total
    assert [each["rows"] for each in found["clusters"]] == [each["rows"] for each in again["clusters"]]
    assert found["objective"] == pytest.approx(again["objective"])
    assert found["columns"]["not_used"] == {"times": "the weights of the rows"}
    assert f"Rows count by their 'times', {total} in all: sizes are sums of it." in found["notes"]
    assert len(pd.read_csv(tmp_path / "labels.csv")) == 160
    far = answer(capsys, folder / "t.parquet", "--out-of-core", "--weight", "times")
    assert [each["rows"] for each in far["clusters"]] == [each["rows"] for each in found["clusters"]]
    assert main(["cluster", str(folder / "t.csv"), "--weight", "times"]) == 0
    page = capsys.readouterr().out
    assert f"{found['clusters'][0]['rows']}" in page
    assert f"'times', {total} in all" in page


@pytest.fixture(scope="module")
def weighted(files, tmp_path_factory):
    """The folder of a model whose rows have weights."""
    out = tmp_path_factory.mktemp("model")
    assert main(["cluster", str(files[0] / "t.csv"), "--weight", "times", "--out", str(out), "--quiet"]) == 0
    return out


@pytest.mark.parametrize("table", ["t.csv", "t.parquet --out-of-core"])
def test_later_commands_count_rows_as_the_fit(files, weighted, capsys, tmp_path, table):
    folder, frame = files
    name, *how = table.split()
    rows, total = [str(folder / name), *how], int(frame["times"].sum())
    counted = f"Rows count by their 'times', {total} in all"
    assert main(["compare", str(weighted), *rows, "--json"]) == 0
    said = capsys.readouterr()
    found = json.loads(said.out)
    assert (found["rows"], found["drift"]["nats"]) == (int((frame["times"] > 0).sum()), 0.0)
    assert found["weight"] == {"column": "times", "scaled": False}
    assert sum(each["rows"] for each in found["clusters"]) == total
    assert [each["share"] for each in found["clusters"]] == pytest.approx(
        [each["share_of_fit"] for each in found["clusters"]]
    )
    assert counted in said.err
    assert "ignored" not in said.err
    words = ["predict", str(weighted), *rows, "--out", str(tmp_path / "p.csv"), "--fail-on-drift", "0"]
    assert main(words) == 0
    assert counted in capsys.readouterr().err
    assert main(["refit", str(weighted), *rows, "--out", str(tmp_path / "again")]) == 0
    said = capsys.readouterr()
    assert counted in said.err
    assert said.out.startswith(f"{total} rows: ")
    again = craftc.load_model(tmp_path / "again" / "model.craftc")
    fitted = craftc.load_model(weighted / "model.craftc")
    np.testing.assert_array_equal(again.cluster_sizes_, fitted.cluster_sizes_)
    assert main(["compare", str(tmp_path / "again"), *rows, "--json", "--quiet"]) == 0
    assert json.loads(capsys.readouterr().out)["drift"]["nats"] == 0.0
    assert main(["info", str(weighted)]) == 0
    assert "weight: times; rows are sums of it" in capsys.readouterr().out


def test_a_later_table_without_the_weights_of_the_fit(files, weighted, capsys, tmp_path):
    frame = files[1]
    frame.rename(columns={"times": "n"}).to_csv(tmp_path / "n.csv", index=False)
    frame.drop(columns="times").to_parquet(tmp_path / "without.parquet", index=False)
    model, total = str(weighted), int(frame["times"].sum())
    for words in (
        ["compare", model, str(tmp_path / "n.csv")],
        ["compare", model, str(tmp_path / "without.parquet"), "--out-of-core"],
        ["predict", model, str(tmp_path / "n.csv"), "--fail-on-drift", "9", "--out", str(tmp_path / "p.csv")],
        ["refit", model, str(tmp_path / "n.csv"), "--out", str(tmp_path / "once")],
    ):
        assert main(words) == 0
        assert "Warning: The table lacks the column 'times'" in capsys.readouterr().err
    assert main(["info", str(tmp_path / "once"), "--json"]) == 0
    assert "weight" not in json.loads(capsys.readouterr().out)  # its rows count once
    assert main(["compare", model, str(tmp_path / "n.csv"), "--weight", "n", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["drift"]["nats"], sum(each["rows"] for each in found["clusters"])) == (0.0, total)
    assert main(["compare", model, str(tmp_path / "n.csv"), "--weight", "m"]) == 2
    assert "--weight: the table has no column 'm'." in capsys.readouterr().err
    assert main(["predict", model, str(tmp_path / "n.csv"), "--weight", "n"]) == 2
    assert "--weight weighs rows for --fail-on-drift" in capsys.readouterr().err


def test_weights_of_a_survey_are_scaled_as_in_the_fit(files, capsys, tmp_path):
    frame = files[1]
    frame.assign(times=1000.0 + 250.0 * frame["times"]).to_csv(tmp_path / "survey.csv", index=False)
    table, out = str(tmp_path / "survey.csv"), str(tmp_path / "out")
    assert main(["cluster", table, "--weight", "times", "--scale-weight", "--out", out, "--quiet"]) == 0
    fitted = craftc.load_model(tmp_path / "out" / "model.craftc")
    assert fitted.cluster_sizes_.sum() < 160
    assert main(["compare", out, table, "--json", "--quiet"]) == 0
    found = json.loads(capsys.readouterr().out)
    sizes = sorted(each["rows"] for each in found["clusters"])
    np.testing.assert_allclose(sizes, sorted(fitted.cluster_sizes_))
    assert found["weight"] == {"column": "times", "scaled": True}
    assert main(["refit", out, table, "--json", "--keep-clusters", "--quiet"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"] == pytest.approx(fitted.cluster_sizes_.sum())
    assert main(["info", out]) == 0
    assert "scaled to the rows that they are worth" in capsys.readouterr().out


def test_weights_of_columns_and_outliers(files, capsys, tmp_path):
    folder, frame = files
    options = "--ignore", "times", "--column-weight", "colour=0", "x=2.5", "--outlier-price", "0.5"
    found = answer(capsys, folder / "t.csv", *options, "--out", tmp_path)
    model = CRAFT(column_weights={"colour": 0, "x": 2.5}, outlier_price=0.5, random_state=0)
    model.fit(craftc.read_table(folder / "t.csv").drop(columns="times"))
    assert found["column_weights"] == {"x": 2.5, "y": 1.0, "colour": 0.0}
    assert found["objective"] == model.objective_
    n = int((model.labels_ == -1).sum())
    assert found["outliers"] == n > 0
    assert any(f"{n} of 160 rows" in note for note in found["notes"])
    html = (tmp_path / "report.html").read_text("utf-8")
    for shown in ("--column-weight x=2.5 colour=0", "--outlier-price 0.5", f"{n} rows fit no group"):
        assert shown in html
    labels = pd.read_csv(tmp_path / "labels.csv")
    np.testing.assert_array_equal(labels["cluster"] == -1, model.labels_ == -1)
    assert set(labels["name"][labels["cluster"] == -1]) == {"outlier"}
    worst = found["unusual_rows"][0]
    assert worst["row"] == model.outlier_scores_.argmax()
    assert worst["cluster"] == -1
    odd = model.surprisal(frame.drop(columns="times")).iloc[worst["row"]]
    for cell in worst["cells"]:
        assert cell["surprisal"] == pytest.approx(odd[cell["column"]])
    of_model = [str(tmp_path / "model.craftc"), str(folder / "t.csv"), "--out", str(tmp_path / "p.csv")]
    assert main(["predict", *of_model]) == 0
    predicted = pd.read_csv(tmp_path / "p.csv")
    np.testing.assert_array_equal(predicted["cluster"] == -1, model.labels_ == -1)
    assert main(["cluster", str(folder / "t.csv"), *options]) == 0
    page = capsys.readouterr().out
    assert f"row {worst['row']} (" in page
    assert "'x' 2.5, 'colour' 0 (shown, not used)" in page


def test_rows_that_clusters_describe_well_are_not_unusual(capsys, tmp_path):
    group = np.arange(200) % 2
    frame = pd.DataFrame({f"x{j}": 8.0 * group + np.arange(200) // 2 * (j + 3) % 11 for j in range(4)})
    frame.to_csv(tmp_path / "t.csv", index=False)
    assert answer(capsys, tmp_path / "t.csv")["unusual_rows"] == []
    assert CRAFT(random_state=0).fit(frame).outlier_scores_.max() < 0.0


def test_odd_cells_of_a_table_with_several_answers_in_a_cell(capsys, tmp_path):
    """Each answer is a column of the model, but one column of its descriptions."""
    rng = np.random.default_rng(0)
    group = rng.integers(0, 2, 200)
    given = rng.random((200, 4)) < np.array([[0.9, 0.8, 0.2, 0.1], [0.1, 0.3, 0.8, 0.9]])[group]
    drinks = np.array(["tea", "milk", "wine", "beer"])
    frame = pd.DataFrame({"likes": ["; ".join(drinks[row]) or None for row in given]})
    frame["x"] = np.round(rng.normal(6.0 * group), 2)
    frame.to_csv(tmp_path / "t.csv", index=False)
    found = answer(capsys, tmp_path / "t.csv")
    assert any("likes" in note and "answers" in note for note in found["notes"])
    cells = [(row["row"], cell) for row in found["unusual_rows"] for cell in row["cells"]]
    answers = [(row, cell) for row, cell in cells if cell["column"] != "x"]
    assert answers
    for row, cell in answers:
        drink = drinks.tolist().index(cell["column"].removeprefix("likes: "))
        assert cell["value"] == ("yes" if given[row, drink] else "no")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--weight", "nope"), "--weight: the table has no column 'nope'"),
        (("--weight", "colour"), "--weight needs numbers, got"),
        (("--weight", "x"), "--weight"),
        (("--column-weight", "x"), "as income=2, got 'x'"),
        (("--column-weight", "x=much"), "as income=2, got 'x=much'"),
        (("--column-weight", "x=-2"), "0, or a weight from 0.001"),
        (("--column-weight", "z=2"), "no column 'z'"),
        (("--column-weight", "x=2", "x=3"), "names column 'x' twice"),
        (("--column-weight", "x=0", "y=0", "colour=0", "times=0"), "--column-weight is 0 for all columns"),
    ],
)
def test_bad_weights(files, capsys, options, message):
    assert main(["cluster", str(files[0] / "t.csv"), *options]) == 2
    assert message in " ".join(capsys.readouterr().err.split())


def survey(n=80):
    """Independent columns, and weights of respondents that stand for five others on average."""
    rng = np.random.default_rng(3)
    columns = {f"x{j}": np.round(rng.normal(size=n), 1) for j in range(3)}
    columns["w"] = np.round(5 * rng.lognormal(0, 0.6, n), 2)
    return pd.DataFrame(columns)


def test_weights_of_a_survey(tmp_path, capsys):
    frame = survey()
    frame.to_csv(tmp_path / "t.csv", index=False)
    w = frame["w"].to_numpy()
    worth = w.sum() ** 2 / (w @ w)
    columns = frame.drop(columns="w")
    with pytest.warns(UserWarning, match=rf"worth {worth:,.4g} of equal weights.*multiply them by"):
        CRAFT(1, random_state=0).fit(columns, sample_weight=w)
    assert CRAFT(random_state=0).fit(columns, sample_weight=w * w.sum() / (w @ w)).n_clusters_ == 1
    CRAFT(1, random_state=0).fit(columns, sample_weight=np.round(w))  # may count rows
    found = answer(capsys, tmp_path / "t.csv", "--weight", "w", "--scale-weight")
    assert [each["rows"] for each in found["clusters"]] == pytest.approx([worth])
    assert main(["cluster", str(tmp_path / "t.csv"), "--weight", "w", "--clusters", "1"]) == 0
    assert "add --scale-weight" in " ".join(capsys.readouterr().out.split())
    assert main(["cluster", str(tmp_path / "t.csv"), "--scale-weight"]) == 2
    assert "--weight COLUMN" in capsys.readouterr().err
