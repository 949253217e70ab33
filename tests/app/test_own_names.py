"""Names of one's own for columns and clusters, and answers of one column that are read as one."""

from __future__ import annotations

import html
import io
import json

import numpy as np
import pytest

import craftc
from craftc.cli import main
from craftc.datasets import load_heart
from craftc.describe.overview import HtmlOverview

pd = pytest.importorskip("pandas", reason="files are read with pandas")

N = 200
GROUP = np.random.default_rng(0).integers(0, 2, N)
NAMES = "column,name\nlang,Languages\nage,Age (years)\ncluster 1,Data people\ncluster 2,Engineers\n"
HOSTILE = '<script>alert("&")</script>'


def answers(seed=1):
    """Languages of every row, separated by semicolons."""
    rng = np.random.default_rng(seed)
    options = np.array(["Python", "SQL", "R", "C++", "Java"])
    share = np.array([[0.9, 0.8, 0.1, 0.1, 0.1], [0.1, 0.1, 0.2, 0.8, 0.9]])[GROUP]
    return [";".join(options[each]) for each in rng.random((N, 5)) < share]


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(2)
    return pd.DataFrame({"lang": answers(), "age": rng.normal(30 + 10 * GROUP, 3.0).round(1)})


@pytest.fixture
def shell(run, table, tmp_path):
    """Run `craftc cluster` with a file of names; returns exit code, page, errors and the folder."""

    def shell(names, *options):
        table.to_csv(tmp_path / "t.csv", index=False)
        (tmp_path / "names.csv").write_text(names, encoding="utf-8")
        command = ("cluster", tmp_path / "t.csv", "--clusters", 2, "--labels", tmp_path / "names.csv")
        return *run(*command, "--out", tmp_path / "out", *options), tmp_path / "out"

    return shell


def models(table):
    numbers = load_heart().data[["age", "chol", "max_hr", "oldpeak"]].astype(float).head(80)
    numbers = (numbers - numbers.mean()) / numbers.std()
    yield craftc.CRAFT(2, random_state=0).fit(table)
    yield craftc.PaperCRAFT(2, random_state=0).fit(table)
    yield craftc.KModes(2, random_state=0).fit(table)
    yield craftc.KPrototypes(2, random_state=0).fit(table)
    yield craftc.DPMeans(n_clusters=2, random_state=0).fit(numbers)
    yield craftc.FeatureSelectionMixture(2, random_state=0).fit(numbers)
    yield craftc.ConvexClustering().fit(numbers)


def test_every_summary_has_the_names_and_files_keep_them(table, tmp_path):
    for model in models(craftc.read_table(table)):
        assert "name" not in model.summary().columns
        assert model.rename_clusters({np.int64(0): HOSTILE}) is model
        summary = model.summary()
        assert dict(zip(summary["cluster"], summary["name"], strict=True))[0] == HOSTILE
        craftc.save_model(model, tmp_path / "m.craftc")
        loaded = craftc.load_model(tmp_path / "m.craftc")
        pd.testing.assert_frame_equal(loaded.summary(), summary)
        if isinstance(model, HtmlOverview):
            page = model._repr_html_inner()
            assert html.escape(HOSTILE) in page
            assert HOSTILE not in page


def test_a_fit_forgets_names_and_fewer_clusters_have_none(table):
    read = craftc.read_table(table)
    model = craftc.CRAFT(2, random_state=0).fit(read)
    automatic = model.cluster_names_
    model.rename_clusters({automatic[0]: " A ", 1: "B"})
    assert model.cluster_names_ == ["A", "B"]
    assert model.at(2).cluster_names_ == ["A", "B"]
    assert model.at(1).cluster_names_ == ["like the whole table"]
    assert model.cluster_names_ == ["A", "B"]
    assert model.rename_clusters({"A": None}).cluster_names_ == [automatic[0], "B"]
    assert craftc.compare(model, read).names == [automatic[0], "B"]
    assert model.fit(read).cluster_names_ == automatic


@pytest.mark.parametrize(
    ("names", "error", "match"),
    [
        ({2: "x"}, ValueError, r"there is no cluster 2; the labels are 0 to 1"),
        ({-1: "x"}, ValueError, r"there is no cluster -1"),
        ({True: "x"}, ValueError, r"there is no cluster True"),
        ({0.0: "x"}, ValueError, r"there is no cluster 0.0"),
        ({"nobody": "x"}, ValueError, r"no cluster has the name 'nobody'; the names are "),
        ({0: "x", 1: " x "}, ValueError, r"clusters 0 and 1 would both be named 'x'"),
        ({0: " \n"}, ValueError, r"the name of 0 is empty"),
        ({0: 5}, TypeError, r"a name must be a text, got 5 for 0"),
        (["x", "y"], TypeError, r"pass a mapping such as"),
    ],
)
def test_bad_names_of_clusters_change_nothing(table, names, error, match):
    model = craftc.CRAFT(2, random_state=0).fit(craftc.read_table(table))
    model.rename_clusters({0: "first"})
    with pytest.raises(error, match=match):
        model.rename_clusters(names)
    assert model.cluster_names_[0] == "first"
    with pytest.raises(ValueError, match="not fitted"):
        craftc.CRAFT().rename_clusters({0: "x"})


@pytest.mark.parametrize(
    ("labels", "error", "match"),
    [
        ({"agee": "Age"}, ValueError, r"labels: the table has no column 'agee'. Did you mean 'age'\?"),
        ({"age": ""}, ValueError, r"the name of 'age' is empty"),
        ({"age": 3}, TypeError, r"a name must be a text, got 3"),
        ({"age": "x", "lang": "x"}, ValueError, r"columns 'lang' and 'age' would both be named 'x'"),
        ({"age": "lang"}, ValueError, r"would both be named 'lang'"),
        ({"cluster 1": "x"}, ValueError, r"'cluster 1' is no column; name clusters with rename_clusters"),
        (5, TypeError, r"labels must map names of columns"),
    ],
)
def test_bad_names_of_columns(table, labels, error, match):
    with pytest.raises(error, match=match):
        craftc.read_table(table, labels=labels)


def test_names_of_columns_reach_every_kind_of_model(table, tmp_path):
    (tmp_path / "names.csv").write_text("age;Age (years)\nlang;Languages\n")
    read = craftc.read_table(table, labels=tmp_path / "names.csv")
    assert "age" in read.columns
    for model in (craftc.CRAFT(2, random_state=0), craftc.KPrototypes(2, random_state=0)):
        for data in (read, craftc.MixedTable.from_data(read)):
            assert set(model.fit(data).summary()["feature"]) == {"Languages", "Age (years)"}
        assert model.predict(read).shape == (N,)
    dp = craftc.DPMeans(n_clusters=2, random_state=0).fit(read[["age"]])
    assert set(dp.summary()["feature"]) == {"Age (years)"}
    assert set(dp.fit(read[["age"]].to_numpy()).summary()["feature"]) == {"x0"}


def test_a_file_of_names_in_the_shell(shell, run):
    code, page, err, folder = shell(NAMES)
    assert (code, err) == (0, "")
    report = (folder / "report.html").read_text(encoding="utf-8")
    for text in ("Languages", "Age (years)", "Data people", "Engineers"):
        assert text in page
        assert text in report
    assert "--labels NAMES.csv" in report
    assert "model.rename_clusters({" in html.unescape(report)
    labels, summary = (pd.read_csv(folder / name) for name in ("labels.csv", "summary.csv"))
    number_of = {"Data people": 1, "Engineers": 2}
    for frame in (labels, summary):
        assert (frame["name"].map(number_of) == frame["cluster"]).all()
    assert set(summary["feature"]) == {"Languages", "Age (years)"}
    document = json.loads(shell(NAMES, "--json")[1])
    assert [cluster["name"] for cluster in document["clusters"]] == ["Data people", "Engineers"]
    assert {(f["column"], f["name"]) for f in document["clusters"][0]["features"]} == {
        ("lang", "Languages"),
        ("age", "Age (years)"),
    }
    code, said, _ = run("predict", folder, folder.parent / "t.csv")
    assert code == 0
    assert pd.read_csv(io.StringIO(said))["name"].tolist() == labels["name"].tolist()
    document = json.loads(shell(NAMES, "--json", "--ignore", "Languages")[1])
    assert document["columns"]["not_used"] == {"lang": "--ignore"}


def test_names_of_tables_that_are_read_in_batches(run, table, tmp_path):
    pytest.importorskip("pyarrow", reason="Parquet files are read with pyarrow")
    table.to_parquet(tmp_path / "t.parquet")
    (tmp_path / "names.csv").write_text("age,Age (years)\ncluster 2,Second\n")
    command = ("cluster", tmp_path / "t.parquet", "--out-of-core", "--labels", tmp_path / "names.csv")
    code, page, err = run(*command, "--clusters", 2, "--out", tmp_path / "out")
    assert (code, err) == (0, "")
    assert "Age (years)" in page
    labels = pd.read_csv(tmp_path / "out" / "labels.csv")
    assert (labels["name"] == "Second").equals(labels["cluster"] == 2)


def test_hostile_names_are_text(shell):
    code, _, _, folder = shell(
        f'age,"{HOSTILE.replace(chr(34), chr(34) * 2)}"\ncluster 1,=1+1\n', "--escape-formulas"
    )
    assert code == 0
    report = (folder / "report.html").read_text(encoding="utf-8")
    assert HOSTILE not in report
    assert html.escape("<script>alert(") in report
    assert pd.read_csv(folder / "labels.csv")["name"].str.startswith("'=").any()


@pytest.mark.parametrize(
    ("names", "match"),
    [
        ("column,name\nlang,\n", "--labels: the name of 'lang' is empty"),
        ("lang,age\n", "would both be named 'age'"),
        ("langg,x\n", "--labels: the table has no column 'langg'. Did you mean 'lang'"),
        ("cluster 3,x\n", "--labels: there is no cluster 3; the clusters are numbered 1 to 2."),
        ("cluster 1,A\ncluster 2,A\n", "--labels: clusters "),
        ("a,b,c\n", "has 3 column(s); it needs two"),
        ("lang,x\nlang,y\n", "names 'lang' twice"),
    ],
)
def test_bad_files_of_names(shell, names, match):
    code, page, err, folder = shell(names)
    assert (code, page) == (2, "")
    assert match in err
    assert not (folder / "model.craftc").exists()


# ---- answers of one column ----


def test_answers_are_one_column_of_every_description(table, tmp_path):
    pytest.importorskip("jinja2", reason="reports are templates of Jinja2")
    read = craftc.read_table(table)
    model = craftc.CRAFT(2, random_state=0).fit(read)
    summary = model.summary()
    assert summary.groupby("cluster")["feature"].apply(list).tolist() == [["lang", "age"]] * 2
    flags = [name for name in read.columns if name.startswith("lang: ")]
    assert len(flags) == 5
    for k in (0, 1):
        part = summary[(summary["cluster"] == k) & (summary["feature"] == "lang")].iloc[0]
        own = read[model.labels_ == k]
        for text, rows in ((part["in the cluster"], own), (part["in the whole table"], read)):
            for each in text.split(", "):
                option, share = each.rsplit(" ", 2)[0], each.rsplit(" ", 2)[1]
                assert round(100 * (rows[f"lang: {option}"] == "yes").mean()) == int(share)
        positions = [list(read.columns).index(name) for name in flags]
        differs = model._fitted.differs[k, positions]
        assert part["gain"] == pytest.approx(model.feature_gains_[k, positions][differs].sum())
    assert sorted(name.split(", ")[0] for name in model.cluster_names_) == ["Java and C++", "Python and SQL"]
    craftc.report.write(model, read, tmp_path / "r.html")
    report = html.unescape((tmp_path / "r.html").read_text(encoding="utf-8")).replace("\u00a0", " ")
    assert "lang: Python in 9" in report
    assert ">2 <small>1 number, 1 category" in report.replace("\n", "")


@pytest.mark.parametrize("blanks", ["auto", "missing"])
def test_answers_with_blank_cells_and_lists(table, tmp_path, blanks):
    cells = [cell.split(";") if cell else [] for cell in table["lang"]]
    cells[:40] = [None] * 40
    read = craftc.read_table(table.assign(lang=cells), blanks=blanks)
    for model in (craftc.CRAFT(2, random_state=0), craftc.KModes(2, random_state=0)):
        summary = model.fit(read).summary()
        assert set(summary["feature"]) == {"lang", "age"}
        craftc.save_model(model, tmp_path / "m.craftc")
        pd.testing.assert_frame_equal(craftc.load_model(tmp_path / "m.craftc").summary(), summary)


def test_compare_and_info_use_them(tmp_path, capsys):
    rng = np.random.default_rng(0)
    kind = rng.integers(0, 2, 200)
    likes = [";".join(word for word in ("golf", "chess", "yoga") if rng.random() < 0.5) for _ in kind]
    frame = pd.DataFrame({"income": rng.normal(30 * kind, 1).round(1), "likes": likes})
    frame.to_csv(tmp_path / "t.csv", index=False)
    (tmp_path / "names.csv").write_text("column,name\nincome,money\nlikes,hobbies\n")
    frame.assign(income=frame["income"] + 20, likes="golf;yoga").to_csv(tmp_path / "new.csv", index=False)
    out = str(tmp_path / "out")
    words = ["cluster", str(tmp_path / "t.csv"), "--labels", str(tmp_path / "names.csv"), "--out", out]
    assert main([*words, "--clusters", "2", "--quiet"]) == 0
    capsys.readouterr()
    assert main(["compare", out, str(tmp_path / "new.csv")]) == 0
    page = capsys.readouterr().out
    assert "nats  money" in page
    assert "nats  hobbies: chess" in page
    assert main(["info", out]) == 0
    page = capsys.readouterr().out
    assert "  income (money): number" in page
    assert "  likes: chess (hobbies: chess): category, 2 levels" in page
    assert "  likes: blanks 'auto'; answers ';'; options " in page
    assert "{" not in page
