"""The answer of the shell: its length, its numbers, its words, and the same facts as JSON."""

from __future__ import annotations

import csv
import io
import json
import random
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from rich.cells import cell_len
from sklearn.metrics import adjusted_rand_score

import craftc
from craftc.cli import main
from craftc.cli.layout import PageLayout
from craftc.craft.answers.path import structure_of
from craftc.describe.structure import Starts
from craftc.describe.view import numbers_by_size
from tests.common import ROOT

HEART = str(ROOT / "examples" / "heart.csv")
HOSTILE = [
    "[bold red]x[/]",
    "[/]",
    "<script>alert(1)</script>",
    "\x1b[2J",
    "\u202eevil",
    "a\nb\tc",
    ":smile:",
    "=1+1",
    "%s {0}",
    "\x9b31m",
]


def write(path, frame):
    frame.to_csv(path, index=False)
    return path


def groups(n_groups, rows_each=40, columns=4, seed=0):
    """Separated groups of different sizes in columns of numbers and one of words."""
    rng = np.random.default_rng(seed)
    sizes = rows_each + 3 * np.arange(n_groups)
    group = rng.permutation(np.repeat(np.arange(n_groups), sizes))
    centres = rng.normal(size=(n_groups, columns)) * 30
    frame = pd.DataFrame(
        centres[group] + rng.normal(size=(len(group), columns)), columns=[f"x{j}" for j in range(columns)]
    ).round(3)
    return frame.assign(word=[f"w{g % 7}" for g in group]), group


# ---- length ----


@pytest.mark.slow
@pytest.mark.parametrize("target", [False, True])
def test_at_most_60_lines_of_many_clusters(run, tmp_path, target):
    frame, group = groups(45)
    path = write(tmp_path / "t.csv", frame.assign(known=[f"c{g}" for g in group]))
    command = (
        "cluster",
        path,
        "--price-factor",
        1,
        "--clusters",
        45,
        *(("--target", "known") if target else ("--ignore", "known")),
    )
    code, short, err = run(*command)
    assert (code, err) == (0, "")
    lines = short.splitlines()
    assert 50 <= len(lines) <= 60
    assert "45 clusters, largest first." in lines
    numbers = [line.split()[0] for line in lines if line.startswith("     ")]
    assert [number for number in numbers if number.isdigit()][:20] == [str(i) for i in range(1, 21)]
    assert "and 25 more clusters with " in short
    assert short.count("\nCluster ") >= 1
    assert ": --details shows all." in short
    words = " ".join(short.split())
    assert "For fewer clusters, pass --clusters K." in words
    long = run(*command, "--details")[1]
    assert long.count("\nCluster ") == 45
    assert "more cluster" not in long
    assert "--details" not in long


@pytest.mark.slow
def test_at_most_60_lines_of_many_columns_and_notes(run, tmp_path):
    rng = random.Random(0)
    columns = {
        f"a column with a long name, number {j}": [rng.gauss(3 * (i % 2), 1) for i in range(80)]
        for j in range(120)
    }
    columns |= {
        f"price {j}": [f"${1000 + (i * 7919 * (j + 1)) % 997:,}" for i in range(80)] for j in range(40)
    }
    columns |= {f"constant {j}": ["x"] * 80 for j in range(30)} | {
        f"id {j}": [f"K{j}-{i}" for i in range(80)] for j in range(30)
    }
    path = write(tmp_path / "t.csv", pd.DataFrame(columns))
    code, short, _ = run("cluster", path, "--clusters", 2)
    assert code == 0
    assert len(short.splitlines()) <= 60
    assert max(map(cell_len, short.replace(str(path), "").splitlines())) <= 100
    assert " more\n" in short
    assert "further notes; --details prints all." in short
    long = " ".join(run("cluster", path, "--clusters", 2, "--details")[1].split())
    assert all(name in long for name in columns)


@pytest.mark.slow
def test_at_most_60_lines_of_everything_at_once(run, tmp_path):
    """Notes about reading and about the fit, columns that are not used for many reasons, many clusters, a
    target, refits and files.
    """
    frame, group = groups(20, rows_each=30)
    n = len(group)
    for j in range(12):
        frame[f"price of a rather long name {j}"] = [
            f"${1000 + (i * 7919 * (j + 1)) % 997:,}" for i in range(n)
        ]
        frame[f"a constant of a rather long name {j}"] = "x"
        frame[f"an id {j}"] = [f"K{j}-{i}" for i in range(n)]
        frame[f"code {j}"] = group % 3
    frame["nothing"], frame["Nr"], frame["known"] = "", range(1, n + 1), [f"c{g}" for g in group]
    folder = tmp_path / ("a folder of a long name " * 5)
    code, said, _ = run(
        "cluster",
        write(tmp_path / "t.csv", frame),
        "--target",
        "known",
        "--clusters",
        20,
        "--stability",
        1,
        "--out",
        folder,
    )
    assert code == 0
    assert len(said.splitlines()) <= 60
    assert said.count("\nNote: ") >= 2
    assert "\ncluster  name" in said
    assert "\n      5  " in said


def test_small_answers_have_all_details(run):
    said = run("cluster", HEART, "--target", "class")[1]
    assert len(said.splitlines()) <= 60
    assert said.count("\nCluster ") == 2
    assert "--details" not in said


def test_names_are_cut_to_the_width():
    layout = PageLayout(sys.__stdout__)
    names = [f"name {i}" for i in range(1000)]
    for most in (1, 2, 3):
        lines = layout.names("  numeric:", names, most=most)
        assert len(lines) == most
        assert lines[-1].endswith(" more")
        shown = " ".join(lines).count("name")
        assert int(lines[-1].split()[-2].replace(",", "")) == 1000 - shown
    assert " ".join(layout.names("x", names)).count("name") == 1000
    assert layout.names("x", names[:1]) == ["x name 0"]


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self):
        return True


def test_texts_are_cut_on_a_terminal_too(monkeypatch):
    """The codes of colours do not count."""
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "80")
    text = " ".join(f"word{i}" for i in range(400))
    for file, style in ((io.StringIO(), ""), (Terminal(), "yellow")):
        lines = PageLayout(file).text(text, "Note:", style=style, most=3)
        assert len(lines) == 3
        plain = [re.sub(r"\x1b\[[\d;]*m", "", line) for line in lines]
        assert plain[-1].rstrip().endswith("…")
        assert max(map(cell_len, plain)) <= 80
        assert " ".join(" ".join(plain).split()).startswith("Note: word0 word1 word2 ")
        assert plain != lines or not style


# ---- numbers ----


def test_numbers_are_those_of_sizes_everywhere(run, tmp_path):
    """On the screen, in labels.csv, summary.csv, the JSON document and predict: 1 is the largest; JSON and
    summary have the labels.
    """
    frame, _ = groups(4, seed=2)
    path, out = write(tmp_path / "t.csv", frame[::-1]), tmp_path / "o"
    page = run("cluster", path, "--out", out)[1]
    content = json.loads(run("cluster", path, "--json")[1])
    model = craftc.load_model(out / "model.craftc")
    assert model.n_clusters_ == 4
    number_of = numbers_by_size(model.cluster_sizes_)
    assert number_of.tolist() != [1, 2, 3, 4]  # the labels are in another order
    sizes = sorted(model.cluster_sizes_, reverse=True)
    assert [row["rows"] for row in content["clusters"]] == sizes
    assert [row["number"] for row in content["clusters"]] == [1, 2, 3, 4]
    for row in content["clusters"]:
        assert number_of[row["label"]] == row["number"]
        assert model.cluster_sizes_[row["label"]] == row["rows"]
        assert row["name"] == model.cluster_names_[row["label"]]
        assert f"\nCluster {row['number']}: {row['name']} - {row['rows']} rows " in page
    labels = pd.read_csv(out / "labels.csv")
    assert labels["cluster"].value_counts().sort_index().tolist() == sizes
    assert (labels["cluster"] == number_of[model.labels_]).all()
    summary = pd.read_csv(out / "summary.csv")
    assert summary["cluster"].is_monotonic_increasing
    assert (number_of[summary["label"]] == summary["cluster"]).all()
    costs = model.transform(craftc.read_table(path))
    next_best = number_of[np.argsort(costs, axis=1, kind="stable")[:, 1]]
    for place in (out, out / "model.craftc"):
        code, said, err = run("predict", place, path)
        assert (code, err) == (0, "")
        predicted = pd.read_csv(io.StringIO(said))
        columns = ["row", "cluster", "name", "cost", "margin", "probability", "next"]
        assert list(predicted.columns) == columns
        assert predicted["name"].tolist() == [model.cluster_names_[k] for k in model.labels_]
        assert predicted["cluster"].tolist() == labels["cluster"].tolist()
        assert predicted["next"].tolist() == labels["next"].tolist() == next_best.tolist()
        assert np.allclose(predicted["margin"], np.sort(costs, axis=1)[:, 1] - costs.min(axis=1), atol=1e-6)
        assert np.allclose(
            predicted["probability"], model.predict_proba(craftc.read_table(path)).max(axis=1), atol=1e-6
        )


@pytest.mark.slow
def test_the_report_has_the_same_numbers(run, tmp_path):
    """It names the file and has the clusters of the page in the same order."""
    said = run("cluster", HEART, "--target", "class", "--stability", 2, "--out", tmp_path / "few")[1]
    assert f"Wrote labels.csv, summary.csv, model.craftc, report.html in {tmp_path / 'few'}\n" in said
    html = (tmp_path / "few" / "report.html").read_text(encoding="utf-8")
    names = craftc.load_model(tmp_path / "few" / "model.craftc").cluster_names_
    assert "heart.csv" in html
    assert "class" in html
    assert all(name.split(",")[0] in html for name in names)

    frame, _ = groups(18, rows_each=60)
    path, out = write(tmp_path / "t.csv", frame), tmp_path / "many"
    said = run("cluster", path, "--price-factor", 1, "--out", out)[1]
    model = craftc.load_model(out / "model.craftc")
    assert model.n_clusters_ > 15
    assert "For fewer clusters, pass --clusters K." in said
    assert f"{model.n_clusters_} groups" in (out / "report.html").read_text(encoding="utf-8")


def test_ties_go_to_the_lower_label():
    assert numbers_by_size(np.array([5, 9, 5, 9])).tolist() == [3, 1, 4, 2]


def test_a_folder_without_a_model(run, tmp_path):
    code, said, err = run("predict", tmp_path, HEART)
    assert (code, said) == (2, "")
    assert "has no model.craftc; pass a folder that craftc cluster --out has written" in err


def test_models_of_python(run, tmp_path):
    """A model at a level of the merge path, one without probabilities, and one of another method."""
    heart = craftc.read_table(HEART).drop(columns="class")
    model = craftc.CRAFT(5, random_state=0).fit(heart)
    craftc.save_model(model.at(3), tmp_path / "three")
    three = pd.read_csv(io.StringIO(run("predict", tmp_path / "three", HEART)[1]))
    assert (
        three["cluster"].tolist()
        == numbers_by_size(model.at(3).cluster_sizes_)[model.at(3).predict(heart)].tolist()
    )
    craftc.save_model(craftc.PaperCRAFT(3, random_state=0).fit(heart), tmp_path / "paper")
    paper = pd.read_csv(io.StringIO(run("predict", tmp_path / "paper", HEART)[1]))
    assert paper["probability"].isna().all()
    assert paper["margin"].notna().all()
    craftc.save_model(craftc.DPMeans(n_clusters=3).fit(heart[["age", "chol"]]), tmp_path / "dp")
    code, said, err = run("predict", tmp_path / "dp", HEART)
    assert (code, said) == (2, "")
    assert "holds a fitted DPMeans; this command needs a CRAFT." in err


def test_own_columns(run, tmp_path):
    frame = pd.DataFrame(
        {
            "cluster": list("abcd") * 10,
            "id": [f"k{i}" for i in range(40)],
            "x": [i % 2 * 9 + i / 40 for i in range(40)],
        }
    )
    path = write(tmp_path / "t.csv", frame)
    assert run(
        "cluster", path, "--clusters", 2, "--ignore", "cluster", "--keep", "--out", tmp_path, "--quiet"
    ) == (0, "", "")
    labels = pd.read_csv(tmp_path / "labels.csv")
    assert list(labels.columns) == [
        "row",
        "cluster",
        "name",
        "margin",
        "probability",
        "next",
        "cluster.table",
        "id",
        "x",
    ]
    assert (labels["cluster.table"] == frame["cluster"]).all()
    assert (labels["id"] == frame["id"]).all()
    assert np.allclose(labels["x"], frame["x"])


# ---- options ----


def test_numbers_of_clusters_that_are_nearly_as_good(run):
    """The page and the document list them if there are several."""
    lengths = set()
    for factor in (1.0, 2.0, 3.2, 4.0):
        command = ("cluster", HEART, "--ignore", "class", "--clusters", 3, "--price-factor", factor)
        found = json.loads(run(*command, "--json")[1])
        costs = {each["n_clusters"]: each["objective"] for each in found["objectives"]}
        nats, numbers = found["n_clusters_nearly_as_good"].values()
        assert nats == 5.0 * factor
        assert numbers == sorted(k for k, cost in costs.items() if cost <= min(costs.values()) + nats)
        said = " ".join(run(*command)[1].split())
        assert ("clusters describe the table nearly as well: within" in said) == (len(numbers) > 1)
        lengths.add(len(numbers))
    assert lengths >= {1, 2}


def test_json_has_what_the_page_says(run, tmp_path):
    page = " ".join(run("cluster", HEART, "--target", "class")[1].split())
    code, said, err = run("cluster", HEART, "--target", "class", "--json", "--quiet")
    assert (code, err) == (0, "")
    content = json.loads(said)
    assert content["columns"]["numeric"] == ["age", "rest_bp", "chol", "max_hr", "oldpeak"]
    assert content["columns"]["not_used"] == {"class": "the target"}
    target = content["target"]
    for name in ("purity", "nmi", "ari"):
        assert f"{name if name == 'purity' else name.upper()} {target[name]:.3f}" in page
    heart, model = (
        pd.read_csv(HEART),
        craftc.CRAFT(random_state=0).fit(craftc.read_table(HEART).drop(columns="class")),
    )
    assert target["ari"] == pytest.approx(adjusted_rand_score(heart["class"], model.labels_))
    assert content["objective"] == model.objective_
    for row in content["clusters"]:
        inside = heart[model.labels_ == row["label"]]
        assert row["share"] == len(inside) / 270
        shares = (inside["class"].value_counts() / len(inside)).to_dict()
        assert row["target"]["shares"] == pytest.approx(shares)
        gains = [feature["gain"] for feature in row["features"]]
        assert gains == sorted(gains, reverse=True)
        for feature in row["features"]:
            cells = inside[feature["column"]]
            if "mean" in feature["in_cluster"]:
                assert feature["in_cluster"]["mean"] == pytest.approx(cells.mean())
                assert feature["in_cluster"]["deviation"] == pytest.approx(cells.std(ddof=0), abs=1e-6)
                assert feature["in_table"]["mean"] == pytest.approx(heart[feature["column"]].mean())
            else:
                best = feature["in_cluster"]["levels"][0]
                assert best["share"] == pytest.approx((cells.astype(str) == best["level"]).mean())
    one = json.loads(run("cluster", HEART, "--clusters", 1, "--json")[1])
    assert one["clusters"][0]["margin"] is None  # not a number JSON has


def test_quiet(run, tmp_path):
    assert run("cluster", HEART, "--quiet", "--out", tmp_path) == (0, "", "")
    assert run("predict", tmp_path, HEART, "--quiet", "--out", tmp_path / "p.csv") == (0, "", "")
    assert run("predict", tmp_path, HEART, "--quiet")[2] == ""


def test_a_target_of_numbers(run, tmp_path):
    frame, group = groups(3)
    price = np.round(1000.0 * group + np.random.default_rng(0).normal(size=len(group)) * 50 + 5000)
    path = write(tmp_path / "t.csv", frame.assign(price=price.astype(int)))
    page = run("cluster", path, "--target", "price")[1]
    content = json.loads(run("cluster", path, "--target", "price", "--json")[1])
    model = craftc.CRAFT(random_state=0).fit(frame)
    within = pd.Series(price).groupby(model.labels_).transform("mean")
    assert content["target"]["explained_variance"] == pytest.approx(within.var(ddof=0) / price.var())
    assert "purity" not in page
    assert "clusters explain >99 % of the variance" in " ".join(page.split())
    for row in content["clusters"]:
        inside = price[model.labels_ == row["label"]]
        assert row["target"]["mean"] == pytest.approx(inside.mean())
        assert row["target"]["deviation"] == pytest.approx(inside.std())
        assert f"{inside.mean():,.0f} ± " in page


def test_structure(run, tmp_path):
    """The page's sentence is that of the library; the document has its facts."""
    table = craftc.read_table(HEART).drop(columns="class")
    model = craftc.CRAFT(random_state=0).fit(table)
    expected = structure_of(model, model.null_test(table, 1))
    content = json.loads(run("cluster", HEART, "--target", "class", "--json")[1])["structure"]
    assert content["sentence"] == expected.sentence
    assert (content["kind"], content["saving"]) == ("gradual", expected.saving)
    assert content["null_savings"] == [0.0]
    assert expected.sentence in " ".join(run("cluster", HEART, "--target", "class")[1].split())
    seeded = json.loads(run("cluster", HEART, "--target", "class", "--seed", 3, "--json")[1])["structure"]
    model = craftc.CRAFT(random_state=3).fit(table)
    assert seeded["sentence"] == structure_of(model, model.null_test(table, 1, random_state=3)).sentence


def test_the_report_repeats_the_headline_of_the_page(run, tmp_path):
    path = write(tmp_path / "t.csv", groups(3)[0])
    said = " ".join(run("cluster", path, "--starts", 2, "--out", tmp_path / "o")[1].split())
    found = re.search(r"Clear groups: (they save .*? with at least 90 % probability)", said)
    html = (tmp_path / "o" / "report.html").read_text(encoding="utf-8").replace("\u00a0", " ")
    assert "rows fall into 3 clear groups" in html
    assert f"T{found[1][1:]}" in html
    assert "1 other fit agrees with them by 1.00 (adjusted Rand index)" in said
    assert "1 other fit agrees with them by 1.00 (adjusted Rand index)" in html


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:CRAFT found")
def test_starts_keep_the_shortest_description(run, tmp_path):
    """At a low price heart has many local optima."""
    options = ("cluster", HEART, "--ignore", "class", "--price-factor", 0.1, "--seed", 5)
    content = json.loads(run(*options, "--starts", 3, "--json")[1])
    table = craftc.read_table(HEART).drop(columns="class")
    models = {s: craftc.CRAFT(price_factor=0.1, random_state=s).fit(table) for s in (5, 6, 7)}
    order = sorted(models, key=lambda seed: models[seed].objective_)
    best, *others = (models[seed] for seed in order)
    agreement = [adjusted_rand_score(best.predict(table), other.predict(table)) for other in others]
    starts = Starts(
        order, [models[s].n_clusters_ for s in order], [models[s].objective_ for s in order], agreement
    )
    assert content["starts"] == vars(starts)
    assert content["objective"] == best.objective_
    assert content["structure"]["agreement"] == agreement
    assert min(agreement) < 0.9
    assert starts.disagreement.startswith("Seeds disagree: 2 other fits have ")
    said = " ".join(run(*options, "--starts", 3, "--out", tmp_path / "o")[1].split())
    assert starts.disagreement in said
    kept = craftc.load_model(tmp_path / "o" / "model.craftc")
    assert (kept.random_state, kept.objective_) == (order[0], best.objective_)
    assert f"--seed {order[0]}" in (tmp_path / "o" / "report.html").read_text(encoding="utf-8")
    alone = run(*options, "--starts", 1)
    assert alone == run(*options)
    assert "Seeds disagree" not in alone[1]


@pytest.mark.slow
def test_stability(run):
    said = " ".join(run("cluster", HEART, "--target", "class", "--stability", 3)[1].split())
    content = json.loads(run("cluster", HEART, "--target", "class", "--stability", 3, "--json")[1])
    assert "Stability: overlap (Jaccard) of a cluster with its best match in 3 refits" in said
    assert len(content["stability"]["n_clusters"]) == 3
    assert content["structure"]["agreement"] == content["stability"]["agreement"]
    assert "5 other fits agree with them by" in said
    for row in content["clusters"]:
        assert 0 <= row["stability"]["lowest"] <= row["stability"]["mean"] <= 1
        assert f" {row['stability']['mean']:.2f} " in said


# ---- words ----


@pytest.mark.parametrize("where", ["name", "level", "class", "file"])
def test_hostile_text_is_text(run, tmp_path, where):
    """Markup, escapes and line breaks in names, levels, classes and file names are shown as characters, and
    never reach a terminal.
    """
    frame = pd.DataFrame(
        {"x": [i % 2 * 9 + i / 200 for i in range(200)], "c": ["u", "v"] * 100, "known": ["p", "q"] * 100}
    )
    if where == "name":
        frame = frame[["x"]].assign(**{name: ["u", "v"] * 100 for name in HOSTILE}, known=frame["known"])
    elif where == "level":
        frame["c"] = [HOSTILE[i % 2 * 3] for i in range(200)]
    elif where == "class":
        frame["known"] = [HOSTILE[i % 2 * 3] for i in range(200)]
    path = tmp_path / ("[red]:smile:\x1b[2J.parquet" if where == "file" else "t.parquet")
    frame.to_parquet(path)
    command = ("cluster", path, "--clusters", 2, "--target", "known")
    code, said, err = run(*command, "--details")
    assert (code, err) == (0, "")
    assert all(c.isprintable() or c == "\n" for c in said)
    if where == "file":
        assert "[red]:smile:�[2J.parquet" in said
    else:
        assert "[bold red]x" in said
        assert (":smile:" if where == "name" else "�[2J") in said
    document = run(*command, "--json")[1]
    assert document.isascii()
    assert all(c.isprintable() or c == "\n" for c in document)
    assert json.loads(document)["n_clusters"] == 2


def test_colour_only_on_a_terminal(run, monkeypatch):
    monkeypatch.setenv("TERM", "xterm-256color")
    assert "\x1b" not in run("cluster", HEART)[1]
    monkeypatch.setattr(sys, "stdout", Terminal())
    assert main(["cluster", HEART, "--quiet"]) == main(["cluster", HEART]) == 0
    assert "\x1b[1m2 clusters, largest first." in sys.stdout.getvalue()


# ---- words of the command line ----


def test_several_values(run, tmp_path):
    """Options of several values take all words up to the next option, numbers below 0 too; repeated options
    add up.
    """
    frame = pd.DataFrame(
        {
            "a": [i % 7 - 3 for i in range(60)],
            "b": [i % 2 * 9 + i / 60 for i in range(60)],
            "c": list("xyz") * 20,
        }
    )
    path = write(tmp_path / "t.csv", frame)
    notes = json.loads(run("cluster", path, "--na", "-3", "x", "-", "--clusters", 2, "--json")[1])
    assert notes["missing_values"] == 8 + 20 + 1
    ignored = {"a": "--ignore", "c": "--ignore"}
    for words in (("--ignore", "a", "c"), ("--ignore", "a", "--ignore", "c"), ("--ignore=a", "--ignore=c")):
        for command in ((path, *words), (*words, "--seed", "0", path), (*words, "--", path)):
            content = json.loads(run("cluster", "--json", "--clusters", 2, *command)[1])
            assert content["columns"]["not_used"] == ignored
    content = json.loads(
        run("cluster", "--json", "--ignore", "a", "c", path)[1]
    )  # the table is the last of the words
    assert content["columns"]["not_used"] == ignored
    code, said, err = run("cluster", "--json", "--ignore", "a", "c", "none.csv")
    assert (code, said) == (2, "")
    assert (
        "TABLE is missing: --ignore takes all words after it ('a', 'c', 'none.csv'). Put TABLE before the "
        "options" in err
    )
    assert "--ignore needs at least one value" in run("cluster", path, "--ignore", "--json")[2]


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["custer", HEART], "There is no command 'custer'. Did you mean craftc cluster?"),
        ([HEART], f"There is no command {HEART!r}. Did you mean craftc cluster {HEART}?"),
        (["x!"], "There is no command 'x!'. The commands are cluster, predict, export, compare, refit, info"),
        (["--ignore", "deck", HEART], "--ignore is an option of craftc cluster; name the command first"),
        (["--colour"], "No such option"),
        (["cluster"], "Missing argument 'TABLE ...' (see craftc cluster --help)"),
        (["cluster", HEART, "--targt", "class"], "--target"),
        (
            ["cluster", HEART, "--clusters", "few"],
            "--clusters: must be a whole number or a range as 3-6, got 'few'",
        ),
        (
            ["cluster", HEART, "--clusters", "2.5"],
            "--clusters: must be a whole number or a range as 3-6, got '2.5'",
        ),
        (["cluster", HEART, "--stability", "0"], "--stability: "),
        (["cluster", HEART, HEART], "is named twice, so that its rows would count twice"),
        (["predict", HEART], "Missing argument 'TABLE' (see craftc predict --help)"),
    ],
)
def test_usage(run, argv, message):
    code, said, err = run(*argv)
    assert (code, said) == (2, "")
    assert message in err
    assert err.startswith("craftc: ")
    assert err.count("\n") == 1


def test_without_the_packages_of_the_command_line(tmp_path):
    """One line names the extra; --version and the library need only what is there."""
    for package in ("click", "rich"):
        (tmp_path / f"no-{package}" / package).mkdir(parents=True)
        (tmp_path / f"no-{package}" / package / "__init__.py").write_text(
            f"raise ModuleNotFoundError(name={package!r})"
        )
        code = f"import sys; sys.path.insert(0, {str(tmp_path / f'no-{package}')!r}); "
        code += f"from craftc.cli import main; sys.exit(main(['cluster', {HEART!r}]))"
        process = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, cwd=ROOT, timeout=120, text=True
        )
        assert (process.returncode, process.stdout) == (2, "")
        assert process.stderr == "craftc: the command line needs click and rich: pip install 'craftc[app]'.\n"


def test_starting_is_light():
    """Neither help nor version nor a wrong option loads what only a fit needs."""
    heavy = "{'pandas', 'sklearn', 'scipy', 'rich.console', 'matplotlib'}"
    code = (
        "import sys; from craftc.cli import main; main(['--version']); main(['predict', '--help']); "
        f"print({heavy} & set(sys.modules))"
    )
    process = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, cwd=ROOT, timeout=120, text=True
    )
    assert process.stdout.splitlines()[-1] == "set()"


def test_a_run_imports_slow_modules_only_where_they_are_used():
    """They are there for whoever reads one of their attributes, by whatever form of import; garbage is
    collected again.
    """
    code = (
        f"import gc, sys; from craftc.cli import main; main(['cluster', {HEART!r}, '--quiet'])\n"
        "print(gc.isenabled(), gc.get_freeze_count())\n"
        "print('scipy.stats._stats_py' in sys.modules, 'sklearn.metrics' in sys.modules)\n"
        "held = sys.modules['scipy.stats']\n"
        "import scipy.stats, scipy.stats.distributions\nfrom scipy.stats import rankdata\n"
        "print(held.rankdata is rankdata is scipy.stats.rankdata, scipy.stats is sys.modules['scipy.stats'] "
        "is not held)\n"
    )
    process = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, cwd=ROOT, timeout=120, text=True
    )
    assert process.stdout.splitlines() == ["True 0", "False False", "True True"], process.stderr


def test_rows_of_labels_are_those_of_the_file(run, tmp_path):
    frame, _ = groups(2)
    path = write(tmp_path / "t.csv", frame)
    run("cluster", path, "--out", tmp_path)
    with open(Path(tmp_path) / "labels.csv", encoding="utf-8", newline="") as file:
        assert [int(row["row"]) for row in csv.DictReader(file)] == list(range(len(frame)))


@pytest.mark.parametrize("cells", [["inf", "1.5", "2.5"], ["1e20", "7", "8"], ["", "", ""]])
def test_targets_of_unusual_numbers(tmp_path, capsys, cells):
    """Infinite values, numbers beyond int64, and no value at all."""
    targets = [cells[i % 3] if i % 3 == 0 or not cells[i % 3] else float(cells[i % 3]) + i for i in range(60)]
    lines = [f"{i % 7 + 10 * (i % 2)},{'uv'[i % 2]},{target}" for i, target in enumerate(targets)]
    (tmp_path / "t.csv").write_text("\n".join(["a,b,t", *lines]) + "\n")
    assert main(["cluster", str(tmp_path / "t.csv"), "--target", "t", "--out", str(tmp_path / "out")]) == 0
    shown = capsys.readouterr().out
    assert "nan" not in shown
    assert "inf " not in shown
    assert (tmp_path / "out" / "report.html").exists()


def test_refusals_before_the_fit(capsys):
    for arguments, message in (
        (["--out", ""], "--out needs the name of a folder, got an empty one."),
        (
            ["--seed", "99999999999999999999"],
            "--seed: 99999999999999999999 is not in the range 0<=x<=4294967295",
        ),
    ):
        assert main(["cluster", "examples/heart.csv", *arguments]) == 2
        assert message in capsys.readouterr().err


def test_kept_columns_have_names_of_their_own(tmp_path):
    lines = [f"{i % 2 * 9 + i % 3},{i % 5},{'uv'[i % 2]}" for i in range(60)]
    (tmp_path / "t.csv").write_text("\n".join(["cluster,cluster.table,b", *lines]) + "\n")
    assert (
        main(["cluster", str(tmp_path / "t.csv"), "--quiet", "--keep", "--out", str(tmp_path / "out")]) == 0
    )
    head = (tmp_path / "out" / "labels.csv").read_text().splitlines()[0].split(",")
    assert head[-3:] == ["cluster.table", "cluster.table.table", "b"]
