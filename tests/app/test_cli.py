"""The command line: what it reads, prints and writes, and the message of every error."""

from __future__ import annotations

import csv
import gzip
import itertools
import os
import pickle
import random
import re
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from rich.cells import cell_len
from sklearn.exceptions import ConvergenceWarning

import craftc
from craftc.cli import page
from craftc.cli.arguments import in_options
from craftc.describe import words
from craftc.describe.view import numbers_by_size
from craftc.describe.words import mean_and_deviation

ROOT = Path(__file__).resolve().parents[2]
HEART = str(ROOT / "examples" / "heart.csv")
OURS = ["labels.csv", "model.craftc", "report.html", "summary.csv"]


@pytest.fixture
def fails(run):
    """Run a command that must end with exit code 2 and one line; returns the line."""

    def fails(*argv):
        code, out, err = run(*argv)
        assert (code, out) == (2, "")
        assert err.startswith("craftc: ")
        assert err.endswith("\n")
        assert err.count("\n") == 1
        return err

    return fails


@pytest.fixture
def strange(tmp_path):
    """A TSV of strange column names, missing values, an id, dates and an empty column."""
    rng = random.Random(3)
    rows = [["Kunden Nr.", "=SUM(A1)", 'say "hi", ok', "größe in €", "日本語", "visit", "blank", "n"]]
    for i in range(90):
        g = i % 3
        rows.append(
            [
                f"K{i:04d}",
                ["low", "mid", "NA"][g],
                f"{rng.gauss(3 * g, 1):.2f}" if rng.random() > 0.2 else "NA",
                f"{rng.gauss(170 + 9 * g, 3):.0f}",
                ["東京", "大阪", "名古屋の非常に長い名前のレベル" * 3][g] if rng.random() > 0.1 else "?",
                f"2024-{1 + i % 12:02d}-{1 + i % 28:02d}",
                "",
                ["", "?", "1", "2", "3"][i % 5],
            ]
        )
    path = tmp_path / "strange.tsv"
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file, delimiter="\t").writerows(rows)
    return path


def write(path, text):
    path.write_text(text, encoding="utf-8")
    return path


def predictions(text):
    rows = list(csv.DictReader(text.splitlines()))
    return [int(row["cluster"]) for row in rows], [float(row["cost"]) for row in rows]


def numbered(model):
    """The numbers by size of the clusters of the rows of fit."""
    return numbers_by_size(model.cluster_sizes_)[model.labels_].tolist()


# ---- cluster ----


def test_heart(run, tmp_path):
    """No number of clusters is asked for: it comes out of the table."""
    out = tmp_path / "new" / "folder"
    code, said, err = run("cluster", HEART, "--target", "class", "--out", out)
    assert (code, err) == (0, "")
    for text in (
        "270 rows; 5 numeric columns, 8 categorical columns, no missing values",
        "numeric:     age, rest_bp, chol, max_hr, oldpeak",
        "of these, integers with at most 5 values: sex, chest_pain, fbs, restecg, exang, slope, ca, thal",
        "not used (the target): class",
        "2 clusters, largest first",
        "Fewer clusters: 1 costs 1",
        "Pieces of a gradual pattern: they save 1",
        "nats over one cluster, with permuted columns 0; links between columns save 1.",
        "of the rows are placed with at least 90 % probability.",
        "strongest links: oldpeak - slope, age - max_hr",
        "purity 0.",
        "NMI 0.",
        "ARI 0.",
        "cluster absent present",
    ):
        assert " ".join(text.split()) in " ".join(said.split())  # long paths wrap the lines
    assert max(map(cell_len, said.replace(str(out), "out").splitlines())) <= 100
    assert sorted(path.name for path in out.iterdir()) == OURS
    labels = pd.read_csv(out / "labels.csv")
    assert list(labels.columns) == ["row", "cluster", "name", "margin", "probability", "next", "class"]
    assert (labels["row"] == np.arange(270)).all()
    assert (labels["class"] == pd.read_csv(HEART)["class"]).all()
    fitted = craftc.load_model(out / "model.craftc")
    assert (numbers_by_size(fitted.cluster_sizes_)[fitted.labels_] == labels["cluster"]).all()
    for cluster, rows in labels["cluster"].value_counts().items():
        label = list(numbers_by_size(fitted.cluster_sizes_)).index(cluster)
        facts = f"{rows} rows ({100 * rows / 270:.0f} %), margin {fitted.cluster_margins_[label]:.1f} nats\n"
        assert f"\nCluster {cluster}: {fitted.cluster_names_[label]} - {facts}" in said
    assert np.allclose(labels["margin"], fitted.margins_, atol=1e-5)
    assert (labels["next"] == 3 - labels["cluster"]).all()
    of_row = fitted.predict_proba(craftc.read_table(HEART).drop(columns="class")).max(axis=1)
    assert np.allclose(labels["probability"], of_row, atol=1e-6)
    summary = pd.read_csv(out / "summary.csv")
    assert set(summary["cluster"]) == {1, 2}
    assert (summary["cluster"] == numbers_by_size(fitted.cluster_sizes_)[summary["label"]]).all()


def test_same_command_same_output(run, tmp_path):
    first = run("cluster", HEART, "--ignore", "class", "--threads", 1)
    assert first == run("cluster", HEART, "--ignore", "class", "--threads", 2)
    fewer = run("cluster", HEART, "--ignore", "class", "--price-factor", 9)
    assert "No clusters found" in fewer[1]
    assert "Cluster 0" not in fewer[1]
    assert run("cluster", HEART, "--ignore", "class", "--price-factor", "auto") == first
    assert run("cluster", HEART, "--ignore", "class", "--feature-sharing", 0) == first
    assert run("cluster", HEART, "--ignore", "class", "--feature-sharing", 1)[:2] != first[:2]
    for share in (2, "nan", "much"):
        code, said, err = run("cluster", HEART, "--feature-sharing", share)
        assert (code, said) == (2, "")
        assert "--feature-sharing" in err


@pytest.mark.parametrize(
    ("factor", "message"),
    [
        ("much", "--price-factor: must be auto or a number > 0, got 'much'"),
        ("0", "got 0.0"),
        ("nan", "got nan"),
    ],
)
def test_price_factors_that_make_no_sense(run, factor, message):
    code, said, err = run("cluster", HEART, "--price-factor", factor)
    assert (code, said) == (2, "")
    assert message in err


def test_given_number_of_clusters(run):
    """More clusters than the table shows, and what the merges back would change."""
    command = ("cluster", HEART, "--ignore", "class")
    said = " ".join(run(*command, "--clusters", 22)[1].split())
    assert "22 clusters, largest first" in said
    with pytest.warns(ConvergenceWarning, match="22 clusters are more than the columns tell apart"):
        model = craftc.CRAFT(22, random_state=0).fit(as_the_command_reads(HEART).drop(columns="class"))
    steps = model.merge_path_
    words = [
        f"{step.n_clusters} cost {abs(worse):{'.1f' if abs(worse) < 100 else '.0f'}} nats"
        f" {'more' if worse >= 0 else 'less'}"
        for step in steps[1:5]
        if (worse := step.objective - steps[0].objective) is not None
    ]
    listed = said[said.index("Fewer clusters: ") : said.index(" cluster name ")].replace(" nats", "")
    assert listed.startswith(f"Fewer clusters: {', '.join(words)}, …".replace(" nats", ""))
    assert " Fewer clusters describe the table better. " in listed
    assert "1 cluster, as requested." in run(*command, "--clusters", 1)[1]


def test_bounds_on_clusters(run, fails, tmp_path):
    rows = Path(HEART).read_text(encoding="utf-8").splitlines()
    lines = [f"{row},home" if not i else f"{row},h{i // 2}" for i, row in enumerate(rows[:121])]
    table = write(tmp_path / "homes.csv", "\n".join(lines))
    bounds = ["--clusters", "2-3", "--min-cluster-size", "0.3", "--max-cluster-size", "70"]
    out = run("cluster", table, "--groups", "home", *bounds, "--out", str(tmp_path / "out"))[1]
    assert "not used (the groups): home" in out
    labels = pd.read_csv(tmp_path / "out" / "labels.csv")["cluster"]
    assert 36 <= labels.value_counts().min() <= labels.value_counts().max() <= 70
    homes = pd.Series([line.rpartition(",")[2] for line in lines[1:]])
    assert (labels.groupby(homes).nunique() == 1).all()
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert all(option in page for option in ("--clusters 2-3", "--groups home", "--min-cluster-size 0.3"))
    assert "pass 3-6" in fails("cluster", HEART, "--clusters", "6-3")
    assert "a range as 3-6, got '3-6-7'" in fails("cluster", HEART, "--clusters", "3-6-7")
    assert "--min-cluster-size 300 needs 300 rows" in fails("cluster", HEART, "--min-cluster-size", "300")
    assert "share of the rows as 0.05, got 'a'" in fails("cluster", HEART, "--max-cluster-size", "a")


def as_the_command_reads(path):
    return craftc.read_table(path)


def test_fewer_clusters():
    """From a merge path alone: at most four steps."""
    path = [(k, 100.0 + extra) for k, extra in ((4, 0.0), (3, 4.9), (2, 80.14), (1, 1234.5))]
    assert page.fewer(path) == ("Fewer clusters: 3 cost 4.9 nats more, 2 cost 80.1 more, 1 costs 1,234 more.")
    assert page.fewer(path[1:]).startswith("Fewer clusters: 2 cost 75.2 nats more, 1 costs")
    assert page.fewer(path[3:]) == page.fewer([]) == ""
    path = [(k, 100.0 - k) for k in range(9, 0, -1)]
    assert page.fewer(path).count(" cost ") == 4
    assert page.fewer(path).endswith(", …")
    assert page.fewer([(2, 0.0), (1, -3.0)]) == (
        "Fewer clusters: 1 costs 3.0 nats less. Fewer clusters describe the table better."
    )


def test_warnings_are_notes(run, tmp_path):
    rng = random.Random(5)
    lines = ["a,b,c"]
    for i in range(200):
        x = rng.gauss(6 * (i % 2), 1)
        lines.append(f"{x},{2 * x + 1},{rng.gauss(0, 1)}")
    code, said, err = run("cluster", write(tmp_path / "t.csv", "\n".join(lines)))
    assert (code, err) == (0, "")
    assert "\nNote: Columns 'a' and 'b' are near-duplicates" in said
    assert "Warning" not in said


def test_warnings_in_the_words_of_the_command():
    assert in_options("CRAFT found 17 clusters. Try price_factor=2 to 4, or cut(k) for fewer.") == (
        "17 clusters. Try --price-factor 2 to 4, or --clusters K for fewer."
    )
    assert in_options("sample_weight must be numbers, but 'sample_weight' is a text") == (
        "--weight must be numbers, but 'sample_weight' is a text"
    )
    assert in_options("pass kinds={'a': 'ignore'}; na_values=[-9, 99] makes them missing.") == (
        "pass --ignore 'a'; --na -9 99 makes them missing."
    )
    assert in_options("n_clusters=(2, 5) must fit min_cluster_size=3") == (
        "--clusters 2-5 must fit --min-cluster-size 3"
    )


def test_numbers_in_parts_show_their_own_units(run, tmp_path):
    """A zero-inflated, skewed column is taken apart inside, and shown as it is."""
    rng = random.Random(1)
    lines = ["paid,size"]
    for i in range(300):
        g = i % 2
        paid = 0.0 if rng.random() < 0.3 + 0.5 * g else round(rng.lognormvariate(2 - 2 * g, 1), 2)
        lines.append(f"{paid},{rng.gauss(5 * g, 1):.3f}")
    path = write(tmp_path / "t.csv", "\n".join(lines))
    code, said, _ = run("cluster", path, "--all-features", "--out", tmp_path)
    assert code == 0
    model = craftc.load_model(tmp_path / "model.craftc")
    assert not model._fitted.encoding.identity
    assert model.n_clusters_ == 2
    paid = pd.read_csv(path)["paid"]
    for k in range(2):
        here = paid[model.labels_ == k]
        ours, everywhere = (mean_and_deviation(cells.mean(), cells.std(ddof=0)) for cells in (here, paid))
        assert f"\n  paid     {ours} " in said
        assert f" {everywhere} " in said
    code, out, _ = run("predict", tmp_path / "model.craftc", path)
    assert predictions(out)[0] == numbered(model)


def test_no_groups(run, tmp_path):
    rng = random.Random(2)
    rows = [f"{rng.gauss(0, 1)},{rng.choice('abc')}" for _ in range(200)]
    for n in (1, 12, 200):
        path = write(tmp_path / "t.csv", "\n".join(["x,c", *rows[:n]]))
        code, said, err = run("cluster", path, "--out", tmp_path / "o")
        assert (code, err) == (0, "")
        assert f": {n} row{'s' if n > 1 else ''}; " in " ".join(said.split())
        assert "No clusters found" in said
        assert "margin" not in said
        labels = pd.read_csv(tmp_path / "o" / "labels.csv")
        assert set(labels["cluster"]) == {1}
        assert (labels["probability"] == 1).all()
        assert labels[["margin", "next"]].isna().all(axis=None)
    code, out, _ = run("predict", tmp_path / "o" / "model.craftc", path)
    assert predictions(out)[0] == [1] * 200


def test_forced_kinds(run):
    _, said, _ = run(
        *("cluster", HEART, "--ignore", "class", "fbs", "--ignore", "ca", "--clusters", 2),
        *("--numeric", "slope", "--categorical", "age"),
    )
    assert "numeric:     rest_bp, chol, max_hr, oldpeak, slope\n" in said
    assert "categorical: age, sex, chest_pain, restecg, exang, thal\n" in said
    assert "not used (--ignore): fbs, ca, class" in said


def test_all_features(run):
    command = ("cluster", HEART, "--ignore", "class", "--clusters", 20, "--details")
    short, long = run(*command)[1], run(*command, "--all-features")[1]
    assert "with a smaller gain" in short
    assert "with a smaller gain" not in long
    assert len(long) > len(short)


@pytest.mark.parametrize("columns", ["60", "72", "300"])
def test_strange_table(run, strange, tmp_path, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", columns)
    code, said, err = run("cluster", strange, "--clusters", 3, "--dates", "drop", "--out", tmp_path / "o")
    assert (code, err) == (0, "")
    said = said[said.index("\n  numeric:") : said.index("Wrote ")]
    assert max(map(cell_len, said.splitlines())) <= min(int(columns), 160)
    words = " ".join(said.split())
    assert 'numeric: say "hi", ok, größe in € ' in words
    assert "categorical: =SUM(A1), 日本語, n " in words
    assert "not used (a different text in every row): Kunden Nr." in words
    assert "not used (dates): visit" in words
    assert "not used (no value in any row): blank" in words
    assert (
        "'=SUM(A1)': in text columns the cells 'NA' are levels, not missing values; --na 'NA' makes them "
        "missing." in words
    )
    assert "NA 100 %" in said
    assert "…" in said
    with open(tmp_path / "o" / "summary.csv", encoding="utf-8", newline="") as file:
        features = {row["feature"] for row in csv.DictReader(file)}
    assert {"=SUM(A1)", "größe in €", "日本語"} <= features


def test_control_characters_do_not_reach_the_terminal(run, tmp_path):
    rows = "\n".join(f"\x1b[31m{i % 2},{i % 7}.5" for i in range(40))
    code, said, _ = run("cluster", write(tmp_path / "t.csv", f"a\x07b,c\n{rows}\n"), "--clusters", 2)
    assert code == 0
    assert all(c.isprintable() or c == "\n" for c in said)


@pytest.mark.slow
def test_long_cells_are_cheap(run, tmp_path, monkeypatch):
    """Of a name, level or class of 10 MB only the first characters are cleaned and measured."""
    cleaned = []
    monkeypatch.setattr(
        words,
        "shortened",
        lambda text, *room, of=words.shortened: cleaned.append(len(text)) or of(text, *room),
    )
    long = {letter: letter * 10_000_000 for letter in "nab"}
    frame = pd.DataFrame(
        {
            "size": [i % 3 * 9 + i / 60 for i in range(60)],
            long["n"]: ["x", "y", "z"] * 20,
            "known": ["x", "y", "z"] * 20,
        }
    )
    frame.iloc[:2, 1], frame.iloc[2, 2] = [long["a"], long["b"]], long["a"]
    frame.to_parquet(tmp_path / "t.parquet")
    code, said, err = run(
        "cluster", tmp_path / "t.parquet", "--clusters", 3, "--target", "known", "--details"
    )
    assert (code, err) == (0, "")
    assert "…" in said
    assert len(said) < 20_000
    assert 0 < max(cleaned) <= 2001


@pytest.mark.slow_except(2)
@pytest.mark.parametrize("ending", [".csv.gz", ".txt", ".parquet", ".feather", ".CSV"])
def test_file_kinds_agree(run, tmp_path, ending):
    heart, path = pd.read_csv(HEART), tmp_path / f"heart{ending}"
    if ending == ".parquet":
        heart.to_parquet(path)
    elif ending == ".feather":
        heart.to_feather(path)
    else:
        heart.to_csv(path, index=False, sep="|" if ending == ".txt" else ";")
    said = [
        " ".join(run("cluster", file, "--target", "class", "--clusters", 3)[1].split())
        for file in (HEART, path)
    ]
    assert said[0].removeprefix(HEART) == said[1].removeprefix(str(path))


def test_parquet_types(run, tmp_path):
    frame = pd.DataFrame(
        {
            "when": pd.date_range("2024-01-01", periods=40),
            "day": pd.date_range("2024-01-01", periods=40).date,
            "flag": [True, False] * 20,
            "kind": pd.Categorical(["b", "a"] * 20, ["b", "a"]),
            "count": pd.array([1, None, 2, 3] * 10, dtype="Int64"),
            "size": np.linspace(0, 1, 40),
            "empty": [None] * 40,
        },
        index=pd.Index([f"id{i}" for i in range(40)], name="key"),
    )
    frame.to_parquet(tmp_path / "t.parquet")
    code, said, err = run(
        "cluster", tmp_path / "t.parquet", "--clusters", 2, "--dates", "drop", "--out", tmp_path
    )
    assert (code, err) == (0, "")
    assert "numeric:     size\n" in said
    assert "categorical: flag, kind, count\n" in said
    assert "not used (dates): when, day" in said
    assert "not used (a different text in every row): key" in " ".join(said.split())
    code, out, _ = run("predict", tmp_path / "model.craftc", tmp_path / "t.parquet")
    assert predictions(out)[0] == pd.read_csv(tmp_path / "labels.csv")["cluster"].tolist()


def test_european_csv(run, tmp_path):
    rows = "\n".join(f"{i};{i % 2 * 9 + i / 7:.2f};ä{i % 2}".replace(".", ",") for i in range(40))
    path = tmp_path / "t.csv"
    path.write_bytes(f"Nr;Größe;Art\n{rows}\n".encode("latin-1"))
    code, said, _ = run("cluster", path, "--clusters", 2)
    assert code == 0
    assert "numeric:     Größe\n" in said
    assert "categorical: Art\n" in said
    assert "not used (row counter): Nr" in said
    assert "read as Windows (cp1252)" in said
    assert "'Größe' was read as numbers: decimal commas." in said


SALES = "".join(
    f'{i},A-{i},"${i % 2 * 900 + i % 13 * 7 + 1000:,}",2024-{1 + i % 12:02d}-{1 + i % 28:02d},0{i % 3}5,'
    f"{['north', 'south'][i % 2]},{i * i % 37 if i % 30 else 'none of these'}\n"
    for i in range(90)
)


def test_shell_and_python_cluster_the_same_table(run, tmp_path):
    path = write(tmp_path / "sales.txt", f"Sales of 2024\nNr,order,paid,day,code,region,score\n{SALES}")
    code, said, err = run("cluster", path, "--clusters", 3, "--out", tmp_path)
    assert (code, err) == (0, "")
    words = " ".join(said.split())
    assert "numeric: paid, day, score" in words
    assert "categorical: code, region" in words
    assert "not used (row counter): Nr" in words
    assert "Note: 'paid' was read as numbers: '$' removed; thousands separators removed." in words
    assert (
        "Note: 'score' was read as numbers: 3 cells that cannot be read became missing: 'none of these'."
        in words
    )
    table = craftc.read_table(path)
    model = craftc.CRAFT(3, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model.fit(table)
    fitted = craftc.load_model(tmp_path / "model.craftc")
    assert (fitted.schema_, fitted.objective_, fitted.labels_.tolist()) == (
        model.schema_,
        model.objective_,
        model.labels_.tolist(),
    )
    assert predictions(run("predict", tmp_path / "model.craftc", path)[1])[0] == numbered(model)


def test_the_model_decides_how_new_rows_are_read(run, tmp_path):
    """A few rows alone would be read otherwise: a day that may be a number, one price, one code."""
    path = write(
        tmp_path / "sales.txt",
        "Nr,order,paid,day,code,region,score\n" + re.sub(r"2024-(\d\d)-", r"2024\1", SALES),
    )
    run("cluster", path, "--clusters", 3, "--out", tmp_path)
    lines = path.read_text().splitlines()
    labels = pd.read_csv(tmp_path / "labels.csv")["cluster"].tolist()
    for rows in ([5], [30, 31], [7, 8]):
        few = write(tmp_path / "few.csv", "\n".join([lines[0], *(lines[1 + row] for row in rows)]))
        code, out, err = run("predict", tmp_path / "model.craftc", few)
        assert (code, predictions(out)[0]) == (0, [labels[row] for row in rows])
        assert "'Nr', 'order'" in err


def test_options_of_reading(run, fails, tmp_path):
    rows = "".join(
        f"{['NA', 'x', 'y'][i % 3]};{i / 7 + i % 2 * 9:.2f};2024-01-{1 + i % 28:02d}\n" for i in range(60)
    )
    path = write(tmp_path / "t.csv", f"made by hand\n{rows}")
    command = ("cluster", path, "--clusters", 2, "--skip", 1, "--header", "no", "--dates", "drop")
    said = " ".join(run(*command)[1].split())
    assert "60 rows; 1 numeric column, 1 categorical column, no missing values" in said
    assert "not used (dates): column 3" in said
    assert "20 missing values" in run(*command, "--na", "NA", "none")[1]
    assert "59 rows" in " ".join(
        run("cluster", path, "--clusters", 2, "--skip", 1, "--header", "yes")[1].split()
    )
    assert "No line is left after --skip 99" in fails("cluster", path, "--skip", 99)
    assert "skip must be a number of lines >= 0, got -1" in fails("cluster", path, "--skip", -1)


def test_numbers_by_request(run, tmp_path):
    rows = "".join(f"{i % 9 if i % 3 else 'many'},{i % 2 * 9 + i / 7:.2f}\n" for i in range(60))
    path = write(tmp_path / "t.csv", f"a,b\n{rows}")
    assert "categorical: a\n" in run("cluster", path, "--clusters", 2)[1]
    said = run("cluster", path, "--clusters", 2, "--numeric", "a")[1]
    assert "Note: 'a' was read as numbers: 20 cells that cannot be read became missing: 'many'." in " ".join(
        said.split()
    )


def test_repeated_and_missing_names(run, tmp_path):
    rows = "\n".join(f"{i},{i % 7}.5,{i % 2}.5,{i % 5}.5" for i in range(40))
    _, said, _ = run("cluster", write(tmp_path / "t.csv", f",a,a,a.2\n{rows}\n"), "--clusters", 2)
    assert "numeric:     a, a.2, a.2.2" in said
    assert "not used (row counter): column 1" in said


def test_missing_policies(run, fails, strange):
    assert run("cluster", strange, "--clusters", 2, "--missing", "category")[0] == 0
    said = fails("cluster", strange, "--missing", "error")
    assert "missing value(s) (NaN or null); impute them" in said


def test_targets(run, tmp_path):
    rows = "\n".join(
        f"{i % 2 * 5 + i / 100},{'x' if i % 2 else ''},{i / 3:.3f},c{i % 30},{i % 2 * 3}" for i in range(120)
    )
    path = write(tmp_path / "t.csv", f"a,half,value,cluster,two\n{rows}\n")
    command = ("cluster", path, "--clusters", 2, "--ignore", "half", "value", "cluster", "two")
    said = run(*command, "--target", "half")[1]
    assert "60 rows without a value excluded" in said
    assert "NMI" not in said
    said = " ".join(run(*command, "--target", "value")[1].split())
    assert (
        "value (not used for clustering): 19.83 ± 11.55 in the whole table; clusters explain <1 % of the "
        "variance." in said
    )
    assert "value mean ± sd" in said
    said = run(*command, "--target", "cluster", "--out", tmp_path)[1]
    assert "others" in said
    assert max(map(len, said.replace(str(tmp_path), "").splitlines())) <= 100
    assert (
        (tmp_path / "labels.csv")
        .read_text(encoding="utf-8")
        .startswith("row,cluster,name,margin,probability,next,cluster.table\n")
    )
    said = run(*command, "--target", "two")[1]
    assert "purity 1.000 (one cluster 0.500), NMI 1.000, ARI 1.000" in " ".join(said.split())
    assert re.search(r"\n +1 .* 0: 100 % \(50 %, 2\.00\)\n +2 .* 3: 100 % \(50 %, 2\.00\)\n", said)
    assert "\ncluster   0   3\n      1  60   0\n      2   0  60\n" in said


def test_adult(run, data_folder, tmp_path):
    """The first 5000 rows."""
    adult = tmp_path / "adult.csv"
    with gzip.open(data_folder / "adult.csv.gz", "rt", encoding="utf-8") as file:
        write(adult, "".join(itertools.islice(file, 5001)))
    code, said, _ = run("cluster", adult, "--target", "class", "--out", tmp_path)
    assert code == 0
    words = " ".join(said.split())
    assert "5,000 rows; 6 numeric columns, 8 categorical columns, 759 missing values" in words
    assert " cost " in words
    assert "price_factor" not in words
    assert max(map(len, said.replace(str(tmp_path), "").splitlines())) <= 100
    code, out, err = run("predict", tmp_path / "model.craftc", adult)
    assert (code, err) == (0, "craftc: note: columns that are not in the model are ignored: 'class'.\n")
    assert predictions(out)[0] == pd.read_csv(tmp_path / "labels.csv")["cluster"].tolist()


# ---- predict ----


@pytest.fixture
def model(run, tmp_path):
    run("cluster", HEART, "--target", "class", "--clusters", 3, "--out", tmp_path)
    return tmp_path / "model.craftc"


def test_predict_equals_fit(run, model, tmp_path):
    labels = pd.read_csv(tmp_path / "labels.csv")["cluster"].tolist()
    code, out, err = run("predict", model, HEART)
    assert (code, err) == (0, "craftc: note: columns that are not in the model are ignored: 'class'.\n")
    found, costs = predictions(out)
    assert found == labels
    fitted = craftc.load_model(model)
    heart = pd.read_csv(HEART).drop(columns="class")
    assert costs == fitted.transform(heart).min(axis=1).tolist()
    assert run("predict", model, HEART, "--out", tmp_path / "p.csv")[:2] == (0, "")
    assert (tmp_path / "p.csv").read_text() == out


def test_predict_spellings(run, model, tmp_path):
    """Columns in another order, codes written by a program with missing values, an unseen level."""
    labels = pd.read_csv(tmp_path / "labels.csv")["cluster"].tolist()
    heart = pd.read_csv(HEART).drop(columns="class")[::-1].iloc[:, ::-1]
    heart["thal"] = heart["thal"].astype(float)
    heart["extra"] = "x"
    heart.to_csv(tmp_path / "t.csv", index=False)
    heart.to_parquet(tmp_path / "t.parquet")
    for name in ("t.csv", "t.parquet"):
        code, out, err = run("predict", model, tmp_path / name)
        assert (code, predictions(out)[0]) == (0, labels[::-1])
        assert "did not occur" not in err
    heart["thal"] = "8"
    heart["sex"] = "NA"
    heart.to_csv(tmp_path / "t.csv", index=False)
    code, _, err = run("predict", model, tmp_path / "t.csv")
    assert code == 0
    assert "'thal': levels that did not occur in fit are treated as missing: '8'" in err
    assert "'sex': " not in err
    assert err.count("'sex' has no value in any of these rows") == 1


def test_predict_strange(run, strange, tmp_path):
    run("cluster", strange, "--clusters", 3, "--out", tmp_path)
    code, out, err = run("predict", tmp_path / "model.craftc", strange)
    assert code == 0
    assert "did not occur" not in err
    assert predictions(out)[0] == pd.read_csv(tmp_path / "labels.csv")["cluster"].tolist()


def test_predict_with_a_model_of_an_array(run, fails, tmp_path):
    heart = pd.read_csv(HEART)[["age", "chol", "max_hr"]]
    fitted = craftc.CRAFT(n_clusters=2, random_state=0).fit(heart.to_numpy(float))
    craftc.save_model(fitted, tmp_path / "m")
    heart.to_csv(tmp_path / "t.csv", index=False)
    code, out, err = run("predict", tmp_path / "m", tmp_path / "t.csv")
    assert (code, err) == (0, "")
    assert predictions(out)[0] == numbered(fitted)
    assert "14 columns, but the model was fitted on 3" in fails("predict", tmp_path / "m", HEART)


def test_predict_errors(fails, model, tmp_path):
    heart = pd.read_csv(HEART)
    heart.rename(columns={"thal": "Thal"}).to_csv(tmp_path / "t.csv", index=False)
    said = fails("predict", model, tmp_path / "t.csv")
    assert "lacks column(s) of the model: 'thal'. Did you mean 'Thal'?" in said
    heart["age"] = "old"
    heart.to_csv(tmp_path / "t.csv", index=False)
    said = fails("predict", model, tmp_path / "t.csv")
    assert "'age': the model expects numbers, got 'old'" in said
    assert "is not a craftc model" in fails("predict", HEART, HEART)
    assert "No such file" in fails("predict", tmp_path / "none", HEART)
    write(tmp_path / "cut.craftc", "").write_bytes(model.read_bytes()[:2000])
    assert "is damaged or cut short" in fails("predict", tmp_path / "cut.craftc", HEART)
    (tmp_path / "p.craftc").write_bytes(pickle.dumps({"a": 1}))
    assert "is not a craftc model" in fails("predict", tmp_path / "p.craftc", HEART)
    assert "would overwrite" in fails("predict", model, HEART, "--out", model)
    assert model.stat().st_size > 2000


# ---- mistakes ----


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.csv", b"", "is empty"),
        ("t.csv", b"\n\n", "is empty"),
        ("t.csv", b"a,b\n", "has no rows"),
        ("t.csv", b"\xef\xbb\xbf", "is empty"),
        ("t.csv", b"a,b\n1,2\n1,2,3\n", "line 3 has 3 cells, the lines before have 2"),
        ("t.csv", b"a,b\n1,2,3\n1,2,3\n", "cannot be read as a table"),
        ("t.csv", b"PK\0\0\0", "is not a text file"),
        ("t.csv.gz", gzip.compress(b"a,b\n1,2\n" * 99, mtime=0)[:-9], "cannot be read"),
        ("t.parquet", b"PAR1a,b\n1,2\n", "cannot be read"),
        ("t.feather", b"ARROW1\n1,2\n", "cannot be read"),
        ("t.xlsx", b"PK\x03\x04", "cannot be read"),
        ("t.xls", b"\xd0\xcf\x11\xe0", "save the table as .xlsx or .csv"),
        ("t.csv", b"a\nx\ny\nz\n", "name columns in --numeric or --categorical to include them"),
    ],
)
def test_files_that_are_no_tables(fails, tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    assert message in fails("cluster", tmp_path / name, "--out", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_mistakes(fails, tmp_path):
    assert "'heart.csv'" in fails("cluster", HEART.replace("heart", "hart"))
    assert "is a folder without tables" in fails("cluster", tmp_path)
    assert "Did you mean 'class'" in fails("cluster", HEART, "--target", "clas")
    for option in ("--ignore", "--categorical", "--numeric"):
        said = fails("cluster", HEART, option, "Sex", "x!")
        assert f"{option}: the table has no column 'Sex'. Did you mean 'sex'" in said
    both = ("--numeric", "sex", "--categorical", "sex")
    assert "both --categorical and --numeric" in fails("cluster", HEART, *both)
    assert "got 'present'" in fails("cluster", HEART, "--numeric", "class")
    assert "--clusters 999 is more than" in fails("cluster", HEART, "--clusters", "999")
    for option in (("--clusters", "-1"), ("--clusters", "x"), ("--threads", "0")):
        fails("cluster", HEART, *option)
    fails("cluster", HEART, "--price-factor", "0")
    fails("cluster", HEART, "--missing", "drop")
    fails("cluster")
    fails("custer", HEART)
    assert "is a file" in fails("cluster", HEART, "--out", write(tmp_path / "f", "mine"))
    assert (tmp_path / "f").read_text() == "mine"


def test_nothing_half_written(fails, tmp_path, monkeypatch):
    def fail(*args, **keywords):
        raise OSError("disk full")

    monkeypatch.setattr(craftc.CRAFT, "summary", fail)
    assert "disk full" in fails("cluster", HEART, "--clusters", 2, "--out", tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_interrupt(run, monkeypatch):
    def interrupt(*args, **keywords):
        raise KeyboardInterrupt

    monkeypatch.setattr(craftc.CRAFT, "fit", interrupt)
    assert run("cluster", HEART) == (130, "", "")


def test_interrupt_while_importing(run, monkeypatch):
    class Interrupted:
        def find_spec(self, name, *_):
            if name == "craftc.cli.cluster":
                raise KeyboardInterrupt

    monkeypatch.delitem(sys.modules, "craftc.cli.cluster")
    monkeypatch.setattr(sys, "meta_path", [Interrupted(), *sys.meta_path])
    assert run("cluster", HEART) == (130, "", "")


def test_info_and_help(run):
    code, said, _ = run("info")
    assert code == 0
    assert "numpy" in said
    for argv in ([], ["--help"], ["predict", "--help"], ["cluster", "-h"]):
        code, said, err = run(*argv)
        assert (code, err) == (0, "")
        assert said.startswith("Usage: craftc ")
    assert "How a table is read" in said
    assert run("--version")[:2] == (0, f"craftc {craftc._about.version()}\n")


# ---- as a program ----


def program(*argv, **environment):
    return subprocess.Popen(
        [sys.executable, "-m", "craftc", *argv],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=ROOT,
        env={**os.environ, "PYTHONWARNINGS": "error", **environment},
    )


@pytest.mark.slow
def test_program_with_an_ascii_terminal():
    process = program("cluster", HEART, "--clusters", "2", PYTHONIOENCODING="ascii")
    out, err = process.communicate(timeout=120)
    assert (process.returncode, err) == (0, b"")
    assert b"270 rows" in out
    assert b" ###" in out


@pytest.mark.slow
def test_program_with_standard_input(model, tmp_path):
    out = write(tmp_path / "p.csv", "old")
    for command, first in (
        (("cluster", "-"), b"standard input: 270 rows"),
        (("predict", str(model), "-", "--out", str(out)), b""),
    ):
        process = subprocess.run(
            [sys.executable, "-m", "craftc", *command],
            input=Path(HEART).read_bytes(),
            capture_output=True,
            cwd=ROOT,
            timeout=120,
        )
        assert process.returncode == 0
        assert process.stdout.startswith(first)
    assert len(pd.read_csv(out)) == 270


def test_program_with_a_closed_pipe(model):
    process = program("predict", str(model), HEART)
    process.stdout.close()
    err = process.stderr.read()
    process.stderr.close()
    assert process.wait(timeout=120) == 141
    assert err == b"craftc: note: columns that are not in the model are ignored: 'class'.\n"
