"""``craftc predict`` as a job of every night; what ``craftc info`` and ``craftc compare`` say of a model."""

from __future__ import annotations

import gzip
import json

import numpy as np
import pytest

import craftc
from craftc.cli.results import write_assignments
from craftc.cli.writers import FORMATS
from craftc.craft.answers.comparison import Drift

pd = pytest.importorskip("pandas", reason="pip install 'craftc[app]'")
pa = pytest.importorskip("pyarrow", reason="pip install 'craftc[app]'")
pq = pytest.importorskip("pyarrow.parquet")
pytest.importorskip("openpyxl", reason="pip install 'craftc[app]'")
pytest.importorskip("click", reason="pip install 'craftc[app]'")


def customers(seed, n=300, shift=0.0):
    rng = np.random.default_rng(seed)
    groups = rng.integers(0, 2, n)
    return pd.DataFrame(
        {
            "customer": [f"0{i:05d}" for i in range(n)],
            "spent": rng.normal(20.0 + 60.0 * groups + shift, 8.0).round(2),
            "shop": np.array(["town", "web"])[np.where(rng.random(n) < 0.1, 1 - groups, groups)],
        }
    )


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """The file of a model."""
    path = tmp_path_factory.mktemp("model") / "model.craftc"
    fitted = craftc.CRAFT(2, n_init=1, random_state=0).fit(customers(0).drop(columns="customer"))
    craftc.save_model(fitted, path)
    return path


@pytest.fixture
def folder(tmp_path):
    """A folder of three files."""
    out = tmp_path / "sales"
    out.mkdir()
    for i in range(3):
        customers(i, 50 + i).to_parquet(out / f"day{i}.parquet")
    return out


def read(path):
    name = path.name
    if name.endswith(("csv", "csv.gz")):
        return pd.read_csv(path, dtype={"customer": str})
    if name.endswith("parquet"):
        return pd.read_parquet(path)
    if name.endswith("arrow"):
        with pa.OSFile(str(path)) as file:
            return pa.ipc.open_file(file).read_all().to_pandas()
    if name.endswith("xlsx"):
        return pd.read_excel(path, dtype={"customer": str})
    return pd.read_json(path, lines=True, dtype={"customer": str})


@pytest.mark.slow_except(4)
@pytest.mark.parametrize("ending", FORMATS)
@pytest.mark.parametrize("source", ["csv", "parquet"])
def test_formats_by_their_endings(run, model, tmp_path, ending, source):
    table, fitted = customers(1), craftc.load_model(model)
    path, out = tmp_path / f"t.{source}", tmp_path / f"results.{ending}"
    table.to_csv(path, index=False) if source == "csv" else table.to_parquet(path)
    way = () if source == "csv" else ("--out-of-core",)
    code, said, err = run("predict", model, path, "--out", out, "--id", "customer", "--quiet", *way)
    assert (code, said, err) == (0, "", "")
    found = read(out)
    assert list(found.columns) == ["customer", "cluster", "name", "cost", "margin", "probability", "next"]
    assert found["customer"].tolist() == table["customer"].tolist()
    labels = fitted.predict(table.drop(columns="customer"))
    assert found["name"].tolist() == [fitted.cluster_names_[k] for k in labels]
    np.testing.assert_allclose(found["margin"], fitted.margins(table.drop(columns="customer")), atol=2e-6)


def test_another_ending_is_an_error(run, model, tmp_path):
    customers(0).to_csv(tmp_path / "t.csv", index=False)
    for name in ("results", "results.txt", "results.gz"):
        code, _, err = run("predict", model, tmp_path / "t.csv", "--out", tmp_path / name)
        assert code == 2
        assert "--out must end in .arrow, .csv, .csv.gz" in err
        assert not (tmp_path / name).exists()


def test_the_same_rows_give_the_same_bytes(run, model, tmp_path):
    customers(0).to_csv(tmp_path / "t.csv", index=False)
    for name in ("a.csv.gz", "b.csv.gz"):
        assert run("predict", model, tmp_path / "t.csv", "--out", tmp_path / name, "--quiet")[0] == 0
    assert (tmp_path / "a.csv.gz").read_bytes() == (tmp_path / "b.csv.gz").read_bytes()
    assert gzip.decompress((tmp_path / "a.csv.gz").read_bytes()).startswith(b"row,cluster,name,")


def test_ids_and_kept_columns(run, model, tmp_path):
    table = customers(1).assign(cluster="mine", row=7)
    table.to_csv(tmp_path / "t.csv", index=False)
    options = ("--id", "customer", "row", "--keep", "--quiet", "--out", tmp_path / "r.csv")
    assert run("predict", model, tmp_path / "t.csv", *options)[0] == 0
    found = read(tmp_path / "r.csv")
    assert list(found.columns) == [
        *("customer", "row", "cluster", "name", "cost", "margin", "probability", "next"),
        *("spent", "shop", "cluster.table"),
    ]
    assert found["cluster.table"].eq("mine").all()
    code, _, err = run("predict", model, tmp_path / "t.csv", "--id", "custmer")
    assert code == 2
    assert "--id:" in err
    assert "has no column 'custmer'. Did you mean 'customer'" in err


def test_texts_of_a_workbook_are_no_formulas(run, model, tmp_path):
    ids = ["=1+1", "bell\a", "+1", *(f"k{i}" for i in range(297))]
    customers(1).assign(customer=ids).to_parquet(tmp_path / "t.parquet")
    options = ("--id", "customer", "--out", tmp_path / "r.xlsx", "--quiet")
    assert run("predict", model, tmp_path / "t.parquet", *options)[0] == 0
    assert read(tmp_path / "r.xlsx")["customer"].tolist()[:3] == ["=1+1", "bell\ufffd", "+1"]


def test_rows_that_need_no_reading_have_the_same_results(run, model, tmp_path, monkeypatch):
    rows = customers(2).assign(whole=range(300))
    rows.loc[::5, "spent"], rows.loc[::7, "shop"] = None, None
    rows.to_parquet(tmp_path / "t.parquet", row_group_size=100)
    results = []
    for name in ("fast.csv", "slow.csv"):
        options = ("--out", tmp_path / name, "--out-of-core")
        said = run("predict", model, tmp_path / "t.parquet", *options)
        assert said[0] == 0
        results.append((said, (tmp_path / name).read_bytes()))
        monkeypatch.setattr("craftc.cli.results._as_it_is", lambda *arguments: None)
    assert results[0] == results[1]


def test_a_second_run_continues(run, model, folder, tmp_path):
    out = tmp_path / "out"
    broken = folder / "day1.parquet"
    whole = broken.read_bytes()
    pq.write_table(pa.table({"spent": [1.0]}), broken)
    code, _, err = run("predict", model, folder, "--out", out, "--format", "parquet", "--quiet")
    assert code == 2
    assert "day1.parquet" in err
    states = {each["file"]: each for each in json.loads((out / "manifest.json").read_text())["files"]}
    assert [each["state"] for each in states.values()] == ["done", "failed", "done"]
    assert "1 of 3 files failed, and the next run tries them again; all others are done." in err
    assert states[str(folder / "day0.parquet")]["rows"] == 50
    assert "shop" in states[str(broken)]["error"]
    first = (out / "day0.parquet").stat().st_mtime_ns
    broken.write_bytes(whole)

    code, _, err = run("predict", model, folder, "--out", out, "--format", "parquet")
    assert code == 0
    assert "2 of 3 file(s) are done" in err
    assert (out / "day0.parquet").stat().st_mtime_ns == first
    files = json.loads((out / "manifest.json").read_text())["files"]
    assert [(each["state"], each["rows"]) for each in files] == [("done", 50), ("done", 51), ("done", 52)]
    assert len(read(out / "day2.parquet")) == 52

    customers(7, 60).to_parquet(folder / "day0.parquet")  # a file that has changed
    (out / "day2.parquet").unlink()  # results that are gone
    assert run("predict", model, folder, "--out", out, "--format", "parquet", "--quiet")[0] == 0
    assert [len(read(out / f"day{i}.parquet")) for i in range(3)] == [60, 51, 52]
    # other columns are other results
    assert run("predict", model, folder, "--out", out, "--format", "parquet", "--keep", "--quiet")[0] == 0
    assert all("spent" in read(out / f"day{i}.parquet") for i in range(3))


@pytest.mark.parametrize("way", ["--in-memory", "--out-of-core"])
def test_errors_name_the_file_and_the_row(run, tmp_path, way):
    frame = customers(0).drop(columns="customer")
    strict = craftc.CRAFT(2, missing="error", unknown="error", n_init=1, random_state=0).fit(frame)
    craftc.save_model(strict, tmp_path / "strict.craftc")
    for column, cell, problem in (
        ("shop", "moon", "'moon'"),
        ("spent", None, "missing value"),
        ("shop", None, ""),
    ):
        rows = frame.copy()
        rows.loc[[217, 250], column] = cell
        rows.to_parquet(tmp_path / "new.parquet")
        code, _, err = run("predict", tmp_path / "strict.craftc", tmp_path / "new.parquet", way)
        assert code == 2
        assert "new.parquet', row 217: " in err
        assert problem in err


@pytest.mark.parametrize("ending", ["csv", "tsv.gz", "xlsx"])
def test_a_folder_of_files_that_are_read_whole(run, model, tmp_path, ending):
    source, out, files = tmp_path / "incoming", tmp_path / "assigned", []
    source.mkdir()
    for day in range(3):
        frame, path = customers(day, 40 + day), source / f"day{day}.{ending}"
        if ending == "xlsx":
            frame.to_excel(path, index=False)
        else:
            frame.to_csv(path, index=False, sep="\t" if "tsv" in ending else ",")
        files.append(path)
    words = ("predict", model, source, "--out", out, "--format", "parquet", "--id", "customer", "--quiet")
    good = files[1].read_bytes()
    files[1].write_bytes(b"spent,customer\n1,2\n")  # lacks a column
    code, _, err = run(*words)
    assert code != 0
    assert files[1].name in err
    states = {
        entry["file"]: entry["state"] for entry in json.loads((out / "manifest.json").read_text())["files"]
    }
    assert [states[str(path)] for path in files] == ["done", "failed", "done"]
    files[1].write_bytes(good)
    before = (out / f"{files[0].name.split('.')[0]}{'.tsv' * ('tsv' in ending)}.parquet").stat().st_mtime_ns
    assert run(*words)[0] == 0
    results = sorted(out.glob("*.parquet"))
    assert len(results) == 3
    assert results[0].stat().st_mtime_ns == before
    fitted = craftc.load_model(model)
    for day, result in enumerate(results):
        rows = pd.read_parquet(result)
        frame = customers(day, 40 + day)
        labels = fitted.predict(frame.drop(columns="customer"))
        assert rows["customer"].astype(str).str.zfill(6).tolist() == frame["customer"].tolist()
        assert len(pd.crosstab(labels, rows["cluster"]).stack().loc[lambda n: n > 0]) == 2
    code, _, err = run(*words[:-1], "--decimal", ".")  # another way of reading: nothing is continued
    assert code == 0
    assert "skipped" not in err


def test_files_that_are_no_tables_do_not_stop_the_others(run, model, tmp_path):
    source, out = tmp_path / "incoming", tmp_path / "out"
    source.mkdir()
    for day in range(3):
        customers(day, 30).to_csv(source / f"c{day}.csv", index=False)
    (source / "a.csv").write_text("")
    for name in ("readme.txt", "b.csv", "d.csv", "e.csv"):
        (source / name).write_text("what these files are\n")
    for n_read in (3, 0):
        code, _, err = run("predict", model, source, "--out", out, "--log", "json")
        lines = [json.loads(line) for line in err.splitlines()]
        assert (code, lines[-1]["stage"]) == (2, "error")
        assert "5 of 8 files failed" in lines[-1]["message"]
        assert "a.csv' is empty" in lines[-1]["message"]
        assert "2 more are in manifest.json." in lines[-1]["message"]
        assert [each["stage"] for each in lines].count("failed") == 5
        assert [each["stage"] for each in lines].count("file") == n_read
    states = {
        each["file"]: each["state"] for each in json.loads((out / "manifest.json").read_text())["files"]
    }
    assert sorted(states.values()) == ["done"] * 3 + ["failed"] * 5
    assert sorted(path.name for path in out.glob("*.csv")) == ["c0.csv", "c1.csv", "c2.csv"]


def test_a_defect_in_one_file_is_a_defect(run, model, folder, tmp_path, monkeypatch):
    def broken(fitted, file, *arguments, **how):
        if "day1" in file:
            raise KeyError("day1")
        return write_assignments(fitted, file, *arguments, **how)

    monkeypatch.setattr("craftc.cli.predict.write_assignments", broken)
    (folder / "day0.parquet").write_bytes(b"no table")
    code, _, err = run("predict", model, folder, "--out", tmp_path / "out")
    assert code == 3
    assert "KeyError: 'day1'" in err


def test_a_folder_of_texts_as_one_table(run, model, tmp_path):
    source = tmp_path / "incoming"
    source.mkdir()
    for day in range(2):
        customers(day, 30).to_csv(source / f"{day}.csv", index=False)
    assert run("predict", model, source, "--out", tmp_path / "all.csv", "--quiet")[0] == 0
    assert pd.read_csv(tmp_path / "all.csv")["row"].tolist() == list(range(60))
    code, _, err = run("predict", model, source, "--out", tmp_path / "all.json")
    assert code == 2
    assert "--out must end in" in err


def test_a_log_for_programs(run, model, folder, tmp_path):
    code, said, err = run("predict", model, folder, "--out", tmp_path / "out", "--log", "json")
    assert (code, said) == (0, "")
    lines = [json.loads(line) for line in err.splitlines()]
    assert [each["stage"] for each in lines if each["stage"] != "note"] == ["model", *["file"] * 3, "end"]
    assert [each["rows"] for each in lines if each["stage"] == "file"] == [50, 51, 52]
    code, _, err = run("predict", model, folder / "none.csv", "--log=json")
    assert code == 2
    assert json.loads(err.splitlines()[-1])["stage"] == "error"


def test_drift_ends_with_an_exit_code_of_its_own(run, model, tmp_path):
    out = tmp_path / "r.csv"
    customers(5, 2000).to_csv(tmp_path / "same.csv", index=False)
    customers(5, 2000, shift=25.0).to_csv(tmp_path / "moved.csv", index=False)
    options = ("--out", out, "--fail-on-drift", "0.1", "--quiet")
    assert run("predict", model, tmp_path / "same.csv", *options)[0] == 0
    out.unlink()
    code, _, err = run("predict", model, tmp_path / "moved.csv", *options)
    assert code == 4
    assert "has drifted by" in err
    assert "in the probability of the rows, more than --fail-on-drift 0.1" in err
    assert len(read(out)) == 2000


def test_what_drift_counts():
    frame = customers(0, 3000).drop(columns="customer")
    fitted = craftc.CRAFT(2, n_init=1, random_state=0).fit(frame)

    def drift(rows):
        sums = Drift(fitted)
        for first in range(0, len(rows), 700):
            sums.add(fitted.schema_.encode(rows[first : first + 700]))
        return sums.comparison()

    own = drift(frame)
    assert own.drift < 0.01
    assert own.scores[0] == pytest.approx(own.scores[1])
    # what chance explains: the mean over samples of the same source is near 0
    assert (
        np.mean([drift(customers(seed, 200).drop(columns="customer")).drift for seed in range(10, 30)]) < 0.08
    )
    one = drift(frame[frame["shop"] == "web"])
    assert one.features()["feature"][0] in ("shop", "spent")
    assert one.cluster_drift > 0.3
    assert one.drift == max(one.cluster_drift, one.score_drift, *one.feature_drift)
    again = craftc.compare(fitted, frame[frame["shop"] == "web"])
    assert (again.drift, again.cause) == (one.drift, one.cause)
    np.testing.assert_array_equal(again.feature_drift, one.feature_drift)
    with pytest.warns(UserWarning, match="'shop' has no value in any of these rows"):
        lost = drift(frame.assign(shop=None))
    assert lost.cause == "the distribution of column 'shop'"
    assert lost.missing[:, list(lost.columns).index("shop")].tolist() == [0.0, 1.0]


def test_compare(run, model, tmp_path):
    customers(3, 500, shift=30.0).to_csv(tmp_path / "t.csv", index=False)
    code, said, _ = run("compare", model, tmp_path / "t.csv")
    assert code == 0
    assert said.startswith("500 rows, drift ")
    assert "nats  spent" in said
    content = json.loads(run("compare", model, tmp_path / "t.csv", "--json", "--quiet")[1])
    assert content["rows"] == sum(each["rows"] for each in content["clusters"]) == 500
    assert [each["number"] for each in content["clusters"]] == [1, 2]
    assert content["columns"][0]["column"] == "spent"
    customers(3, 500, shift=30.0).to_parquet(tmp_path / "t.parquet")
    batches = json.loads(
        run("compare", model, tmp_path / "t.parquet", "--json", "--quiet", "--out-of-core")[1]
    )
    assert batches["columns"] == content["columns"]


def test_info_of_a_model(run, model, tmp_path):
    fitted = craftc.load_model(model)
    content = json.loads(run("info", model, "--json")[1])
    assert content["estimator"] == "CRAFT"
    assert content["rows"] == 300
    assert content["n_clusters"] == 2
    assert len(content["sha256"]) == 64
    assert [each["name"] for each in content["columns"]] == ["spent", "shop"]
    assert content["columns"][1] == {"name": "shop", "kind": "category", "n_levels": 2}
    assert sorted(each["rows"] for each in content["clusters"]) == sorted(fitted.cluster_sizes_)
    page = run("info", model)[1]
    assert "spent: number" in page
    assert content["sha256"] in page
    heart = craftc.datasets.load_heart().data[["age", "chol"]]
    craftc.save_model(craftc.DPMeans(n_clusters=2, random_state=0).fit(heart), tmp_path / "dp")
    assert [each["name"] for each in json.loads(run("info", tmp_path / "dp", "--json")[1])["columns"]] == [
        "age",
        "chol",
    ]
    assert json.loads(run("info", "--json")[1])["craftc"] == craftc.__version__


def test_drift_of_files_in_turn(run, model, tmp_path):
    source, out = tmp_path / "incoming", tmp_path / "out"
    source.mkdir()
    customers(5, 2000, shift=25.0).to_parquet(source / "0.parquet", index=False)
    (source / "1.parquet").write_bytes(b"no table")
    words = ("predict", model, source, "--out", out, "--log", "json", "--fail-on-drift", "0.1")
    code, _, err = run(*words)  # the rows before a failure are not compared again: their drift is said now
    lines = [json.loads(line) for line in err.splitlines()]
    assert (code, lines[-1]["stage"]) == (2, "error")
    assert any("has drifted by" in each.get("message", "") for each in lines)
    assert [each["rows"] for each in lines if each["stage"] == "drift"] == [2000]
    (source / "1.parquet").unlink()
    code, _, err = run(*words)  # nothing is read
    assert (code, [each for each in map(json.loads, err.splitlines()) if each["stage"] == "drift"]) == (0, [])


def test_a_column_in_another_spelling_is_a_note(run, model, tmp_path):
    frame = customers(5, 30)
    for name, cells in (
        ("upper.csv", frame["shop"].str.upper()),
        ("upper.parquet", frame["shop"].str.upper()),
    ):
        rows = frame.assign(shop=cells)
        rows.to_csv(tmp_path / name, index=False) if name.endswith("csv") else rows.to_parquet(
            tmp_path / name
        )
        for command in (
            ("predict", model, tmp_path / name, "--out", tmp_path / "r.csv"),
            ("compare", model, tmp_path / name),
        ):
            _, _, err = run(*command)
            assert "note: Column 'shop': no value of these rows occurred in fit" in err
            assert "UserWarning" not in err


def test_no_drift_has_no_cause(run, model, tmp_path):
    customers(0).to_csv(tmp_path / "same.csv", index=False)
    assert run("compare", model, tmp_path / "same.csv")[1].startswith("300 rows, no drift.\n")
    assert json.loads(run("compare", model, tmp_path / "same.csv", "--json")[1])["drift"] == {
        "nats": 0.0,
        "cause": "nothing",
    }
    assert "drift 0 nats; cluster" in repr(
        craftc.compare(craftc.load_model(model), customers(0).drop(columns="customer"))
    )
