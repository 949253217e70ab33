"""`craftc cluster --scheduler`: the answer of the command without a cluster."""

from __future__ import annotations

import json

import numpy as np
import pytest

from craftc import load_model

pa = pytest.importorskip("pyarrow", reason="Parquet files need pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
pd = pytest.importorskip("pandas")
pytest.importorskip("click", reason="pip install 'craftc[app]'")
distributed = pytest.importorskip("distributed", reason="pip install 'craftc[dask]'")

pytestmark = pytest.mark.slow  # a cluster takes seconds to start


@pytest.fixture(scope="module")
def address():
    options = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": ":0"}
    with distributed.LocalCluster(**options) as cluster:
        yield cluster.scheduler_address


@pytest.fixture(scope="module")
def sales(tmp_path_factory):
    """A folder of three files with numbers, text and a target."""
    folder, rng = tmp_path_factory.mktemp("cluster") / "sales", np.random.default_rng(5)
    folder.mkdir()
    group = rng.integers(0, 3, 3000)
    cells = {
        "spent": rng.normal(20.0 + 60.0 * group, 8.0),
        "shop": np.array(["town", "web", "mail"])[group],
        "n": np.arange(3000),
    }
    cells["spent"][::50] = np.nan
    for i, (start, n) in enumerate(((0, 1000), (1000, 1), (1001, 1999))):
        pq.write_table(pa.table(cells | {"known": group}).slice(start, n), folder / f"{i}.parquet")
    return folder


@pytest.mark.parametrize("options", [(), ("--target", "known", "--clusters", "3"), ("--clusters", "2")])
def test_the_same_answer(run, sales, address, tmp_path, options):
    local, far = tmp_path / "local", tmp_path / "far"
    common = ("cluster", sales, "--ignore", "n", *options, "--json", "--quiet")
    code, here, _ = run(*common, "--out-of-core", "--out", local)
    assert code == 0
    code, there, said = run(*common, "--scheduler", address, "--out", far)
    assert code == 0, said
    here, there = json.loads(here), json.loads(there)
    for each in (here, there):
        each.pop("files", None), each.pop("output", None)
    assert there["unusual_rows"] is None  # the rows are on the workers
    apart = {"notes", "unusual_rows"}
    assert {key: there[key] for key in there if key not in apart} == {
        key: here[key] for key in here if key not in apart
    }
    assert (far / "summary.csv").read_bytes() == (local / "summary.csv").read_bytes()
    parts = pd.concat([pd.read_csv(path) for path in sorted((far / "labels").iterdir())], ignore_index=True)
    whole = pd.read_csv(local / "labels.csv")
    assert (parts["cluster"] == whole["cluster"]).all()
    model = load_model(far / "model.craftc")
    assert not hasattr(model, "labels_")
    assert model.n_clusters_ == load_model(local / "model.craftc").n_clusters_


def test_errors_name_what_is_wrong(run, sales, address, tmp_path):
    code, _, said = run("cluster", sales, "--scheduler", address, "--in-memory")
    assert code == 2
    assert "--in-memory" in said
    pq.write_table(pa.table({"a": [1.0, np.inf, 3.0], "b": ["x", "y", "x"]}), tmp_path / "bad.parquet")
    code, _, said = run("cluster", tmp_path / "bad.parquet", "--scheduler", address)
    assert code == 2
    assert "bad.parquet" in said
    assert "'a' contains inf" in said
