"""The command line with tables that are read in batches: the results of tables in memory, and what is left
out.
"""

from __future__ import annotations

import csv
import datetime
import json
import os
import re
from types import SimpleNamespace

import numpy as np
import pytest

from craftc import CRAFT
from craftc.cli import sources
from craftc.cli.results import result_names
from craftc.table import out_of_core as batches

pa = pytest.importorskip("pyarrow", reason="Parquet files need pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


@pytest.fixture
def whole():
    rng = np.random.default_rng(5)
    group = rng.integers(0, 2, 300)
    return pa.table(
        {
            "spent": pa.array(rng.normal(20.0 + 60.0 * group, 8.0), mask=rng.random(300) < 0.1),
            "shop": np.where(rng.random(300) < 0.9, np.array(["town", "web"])[group], "phone"),
            "class": pa.array(np.array(["a", "b"])[group], mask=rng.random(300) < 0.05),
        }
    )


@pytest.fixture
def folder(tmp_path, whole, monkeypatch):
    """Three files, the second of them without rows."""
    monkeypatch.setattr(batches, "_BATCH_ROWS", 64)
    for i, (start, n) in enumerate(((0, 100), (100, 0), (100, 200))):
        path = tmp_path / "sales" / str(2024 + i) / "may.parquet"
        path.parent.mkdir(parents=True)
        pq.write_table(whole.slice(start, n), path)
    return tmp_path / "sales"


def rows_of(path):
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("missing", ["ignore", "category"])
def test_the_same_results_as_in_memory(run, tmp_path, folder, whole, missing, monkeypatch):
    one = tmp_path / "one.parquet"
    pq.write_table(whole, one)
    options = ["--target", "class", "--missing", missing, "--json", "--quiet"]
    code, said, err = run("cluster", one, "--in-memory", "--out", tmp_path / "memory", *options)
    assert (code, err) == (0, "")
    expected = json.loads(said)

    def refused(*_, **__):
        raise AssertionError("the table was read whole")

    monkeypatch.setattr(sources, "open_table", refused)
    for i, table in enumerate((folder, folder / "*" / "*.parquet", one)):
        out = tmp_path / f"out{i}"
        code, said, err = run(
            "cluster", table, "--out-of-core", "--scratch", tmp_path, "--out", out, *options
        )
        assert (code, err) == (0, "")
        found = json.loads(said)
        assert any("read in batches" in note for note in found["notes"])
        assert any(note.startswith("report.html needs a table in memory") for note in found["notes"])
        for name in ("rows", "missing_values", "columns", "n_clusters", "objective", "clusters", "target"):
            assert found[name] == expected[name], name
        assert sorted(os.listdir(out)) == ["labels.csv", "model.craftc", "summary.csv"]
        for name in ("labels.csv", "summary.csv"):
            assert (out / name).read_bytes() == (tmp_path / "memory" / name).read_bytes(), name


def test_the_page(run, folder):
    code, said, err = run("cluster", folder, "--ignore", "class", "--clusters", "2")
    assert (code, err) == (0, "")
    assert "300 rows; 1 numeric column, 1 categorical column" in said
    assert "not used (--ignore): class" in said
    assert "was read in batches" in said


def in_batches(table, wanted=None, **options):
    return sources.is_read_in_batches(
        SimpleNamespace(table=table, more=(), in_batches=wanted, scheduler=None), **options
    )


def test_the_size_decides(folder, tmp_path, whole, monkeypatch):
    one = str(tmp_path / "one.parquet")
    pq.write_table(whole, one, row_group_size=70)
    size = batches.decoded_size(one)
    content = pq.ParquetFile(one).metadata
    assert size == sum(content.row_group(i).total_byte_size for i in range(content.num_row_groups))
    cases = [
        (8 * size, None, False),
        (8 * size - 1, None, True),
        (None, None, False),
        (1, False, False),
        (10**12, True, True),
    ]
    for available, wanted, expected in cases:
        monkeypatch.setattr(sources, "available_memory", lambda available=available: available)
        assert in_batches(one, wanted) is expected
    files = [str(folder), str(folder / "*" / "*.parquet")]
    for available, each_file in ((1, False), (10**12, True)):
        monkeypatch.setattr(sources, "available_memory", lambda available=available: available)
        assert all(in_batches(table, each_file=each_file) for table in files)
    assert in_batches(files[0])  # whose folders the reader in memory leaves out
    assert not in_batches(files[1])
    monkeypatch.setattr(sources, "available_memory", lambda: 1)
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 no more")
    for table in ("-", "nothing.parquet", str(tmp_path / "broken.parquet"), __file__):
        assert not in_batches(table)


def test_available_memory():
    available = sources.available_memory()
    assert available is None or available > 1 << 20


def test_predict_writes_a_file_for_each_file(run, tmp_path, folder, whole):
    assert run("cluster", folder, "--ignore", "class", "--out", tmp_path / "model", "--quiet")[0] == 0
    code, said, err = run("predict", tmp_path / "model", folder, "--out", tmp_path / "results")
    assert (code, said) == (0, "")
    assert err == "craftc: note: columns that are not in the model are ignored: 'class'.\n"
    results = sorted(
        str(path.relative_to(tmp_path / "results")) for path in (tmp_path / "results").rglob("*.csv")
    )
    assert results == [os.path.join(str(year), "may.csv") for year in (2024, 2025, 2026)]
    found = [rows_of(tmp_path / "results" / name) for name in results]
    assert list(map(len, found)) == [100, 0, 200]
    assert [row["row"] for row in found[2]] == list(map(str, range(200)))
    with open(tmp_path / "results" / results[1], encoding="utf-8") as file:
        assert file.read() == "row,cluster,name,cost,margin,probability,next\n"
    labels = rows_of(tmp_path / "model" / "labels.csv")
    assert [row["cluster"] for rows in found for row in rows] == [row["cluster"] for row in labels]

    one = tmp_path / "one.parquet"
    pq.write_table(whole, one)
    texts = [run("predict", tmp_path / "model", one, way)[1] for way in ("--in-memory", "--out-of-core")]
    assert texts[0] == texts[1]
    for way in ("--in-memory", "--out-of-core"):
        assert run("predict", tmp_path / "model", one, way, "--out", tmp_path / f"{way}.csv")[0] == 0
    assert (tmp_path / "--in-memory.csv").read_bytes() == (tmp_path / "--out-of-core.csv").read_bytes()


def test_files_of_equal_names():
    files = [os.path.join("a", "x.parquet"), os.path.join("a", "x.pq"), os.path.join("a", "b", "y.parquet")]
    assert result_names(os.path.join("a", "*"), files) == [
        "x.parquet.csv",
        "x.pq.csv",
        os.path.join("b", "y.csv"),
    ]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--stability", "3"], "--stability needs a table in memory; pass --in-memory"),
        (["--na", "x"], "--na needs a table in memory"),
        (["--target", "clas"], "--target: the table has no column 'clas'"),
        (["--numeric", "shop"], "--numeric: 'shop' is string, which batches do not convert"),
        (["--ignore", "spent", "shop", "class"], "No column is left"),
        (["--missing", "error"], "'spent' has .* missing"),
        (["--scratch", "nowhere"], "scratch folder does not exist: 'nowhere'"),
    ],
)
def test_refusals(run, folder, options, message):
    code, said, err = run("cluster", folder, *options)
    assert (code, said) == (2, "")
    assert err.count("\n") == 1
    assert re.search(message, err), err


def test_dates_and_ids(run, tmp_path, whole):
    days = [datetime.date(2026, 1, 1 + i % 28) for i in range(300)]
    more = whole.append_column("the day", pa.array(days)).append_column(
        "id", pa.array([f"row {i}" for i in range(300)])
    )
    pq.write_table(more, tmp_path / "more.parquet")
    code, _, err = run("cluster", tmp_path / "more.parquet", "--out-of-core")
    assert code == 2
    assert "'the day' is date32[day]: --ignore 'the day' excludes it" in err
    code, _, err = run("cluster", tmp_path / "more.parquet", "--out-of-core", "--dates", "drop")
    assert code == 2
    assert "'id' has a different text in every row" in err
    assert "--ignore COL excludes a column" in err
    code, said, _ = run(
        "cluster", tmp_path / "more.parquet", "--out-of-core", "--dates", "drop", "--ignore", "id"
    )
    assert code == 0
    assert "not used (dates): the day" in said


def test_a_target_of_numbers_and_roles(run, tmp_path, folder, whole):
    options = [
        "--target",
        "spent",
        "--categorical",
        "class",
        "--json",
        "--quiet",
        "--keep",
        "--out",
        tmp_path / "out",
    ]
    code, said, _ = run("cluster", folder, *options)
    assert code == 0
    found = json.loads(said)
    assert found["target"]["kind"] == "numbers"
    assert any("--keep" in note for note in found["notes"])
    assert found["columns"]["categorical"] == ["shop", "class"]
    again = CRAFT(random_state=0).fit(whole.select(["shop", "class"]))
    assert found["objective"] == again.objective_


def test_predict_refusals(run, tmp_path, folder):
    assert run("cluster", folder, "--out", tmp_path / "model", "--quiet")[0] == 0
    code, _, err = run("predict", tmp_path / "model", folder)
    assert (code, "--out needs the name of a folder" in err) == (2, True)
    code, _, err = run("predict", tmp_path / "model", folder, "--na", "x", "--out", tmp_path / "r")
    assert (code, "--na needs a table in memory" in err) == (2, True)


def test_the_index_of_a_data_frame_is_no_column(run, tmp_path, whole):
    frame = whole.to_pandas().drop(columns="class")
    frame[frame["spent"] > 10].to_parquet(tmp_path / "some.parquet")
    code, said, _ = run("cluster", tmp_path / "some.parquet", "--out-of-core")
    assert code == 0
    assert "not used (the index of a data frame): __index_level_0__" in said
