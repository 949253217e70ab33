"""`craftc predict --scheduler`: the files of results that the command writes without a cluster."""

from __future__ import annotations

import itertools
import os
import signal
import time
from unittest import mock

import numpy as np
import pytest

from craftc.cli import dask_cluster, main

pa = pytest.importorskip("pyarrow", reason="Parquet files need pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
pd = pytest.importorskip("pandas")
pytest.importorskip("click", reason="pip install 'craftc[app]'")
distributed = pytest.importorskip("distributed", reason="pip install 'craftc[dask]'")

pytestmark = pytest.mark.slow  # a cluster takes seconds to start


@pytest.fixture(scope="module")
def cluster():
    options = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": ":0"}
    with distributed.LocalCluster(**options) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def sales(tmp_path_factory):
    """A folder of three files, one of them without rows, and a model."""
    base = tmp_path_factory.mktemp("predict")
    rng = np.random.default_rng(5)
    group = rng.integers(0, 2, 300)
    cells = {
        "spent": rng.normal(20.0 + 60.0 * group, 8.0),
        "shop": np.array(["town", "web"])[group],
        "more": np.arange(300),
    }
    for i, (start, n) in enumerate(((0, 100), (100, 0), (100, 200))):
        path = base / "sales" / str(2024 + i) / "may.parquet"
        path.parent.mkdir(parents=True)
        pq.write_table(pa.table(cells).slice(start, n), path)
    assert (
        main(["cluster", str(base / "sales"), "--ignore", "more", "--out", str(base / "model"), "--quiet"])
        == 0
    )
    return base


def contents(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_the_same_files(run, sales, cluster, tmp_path):
    local, remote = tmp_path / "local", tmp_path / "remote"
    plain = run("predict", sales / "model", sales / "sales", "--out", local)
    assert plain[0] == 0
    assert (
        run(
            "predict",
            sales / "model",
            sales / "sales",
            "--out",
            remote,
            "--scheduler",
            cluster.scheduler_address,
        )
        == plain
    )
    assert contents(remote) == contents(local)
    assert len(contents(local)) == 4
    assert "manifest.json" in contents(local)
    one = sales / "sales" / "2026" / "may.parquet"
    assert (
        run(
            "predict",
            sales / "model",
            one,
            "--out",
            tmp_path / "one.csv",
            "--scheduler",
            cluster.scheduler_address,
        )[0]
        == 0
    )
    assert (tmp_path / "one.csv").read_bytes() == (local / "2026" / "may.csv").read_bytes()


def test_a_relative_path(run, sales, cluster, tmp_path, monkeypatch):
    """The workers have other working directories."""
    monkeypatch.chdir(sales)
    out = os.path.relpath(tmp_path / "out", sales)
    code, _, err = run(
        "predict", "model", "sales", "--out", out, "--scheduler", cluster.scheduler_address, "--quiet"
    )
    assert (code, err) == (0, "")
    assert sorted(contents(tmp_path / "out")) == [
        "2024/may.csv",
        "2025/may.csv",
        "2026/may.csv",
        "manifest.json",
    ]


def test_a_file_that_cannot_be_read(run, sales, cluster, tmp_path):
    folder = tmp_path / "files"
    folder.mkdir()
    pq.write_table(pa.table({"spent": [1.0], "shop": ["web"]}), folder / "good.parquet")
    pq.write_table(pa.table({"spent": [1.0]}), folder / "a.without.parquet")
    (folder / "b.broken.parquet").write_bytes(b"no table")
    code, _, err = run(
        "predict",
        sales / "model",
        folder,
        "--out",
        tmp_path / "out",
        "--scheduler",
        cluster.scheduler_address,
    )
    assert code == 2
    assert "2 of 3 files failed" in err
    assert "a.without.parquet" in err
    assert "b.broken.parquet" in err
    assert "'shop'" in err
    assert set(contents(tmp_path / "out")) == {"good.csv", "manifest.json"}


class Endless:
    """On a worker: the results of the first file have no end; that of the other one fails once they begin."""

    def __init__(self, folder, signal_to=None):
        self.folder, self.signal_to = folder, signal_to

    def __call__(self, fitted, file, *args, **options):
        from craftc.cli import results

        if "good" not in file:
            while not (self.folder / "began").exists():
                time.sleep(0.01)
            raise PermissionError(13, "Permission denied", file)
        with mock.patch.object(results, "streamed_assignments", self.frames):
            try:
                return results.write_assignments(fitted, file, *args, **options)
            finally:
                (self.folder / "ended").touch()

    def frames(self, *args):
        frame = pd.DataFrame({"row": [0], "cluster": [1]})
        for i in itertools.count():
            yield frame
            if i == 1:
                (self.folder / "began").touch()
                if self.signal_to is not None:
                    os.kill(self.signal_to, signal.SIGINT)
            time.sleep(0.01)


@pytest.fixture
def endless(tmp_path, monkeypatch):
    """A folder of two files whose first one never ends, on a worker that tells the end of its task."""
    files, marks = tmp_path / "files", tmp_path / "marks"
    files.mkdir()
    marks.mkdir()
    pq.write_table(pa.table({"spent": [1.0], "shop": ["web"]}), files / "good.parquet")
    pq.write_table(pa.table({"spent": [1.0]}), files / "without.parquet")

    def of(signal_to=None):
        monkeypatch.setattr(dask_cluster, "write_assignments", Endless(marks, signal_to))
        return files, marks

    return of


def test_no_worker_writes_after_an_error(run, sales, cluster, tmp_path, endless):
    files, marks = endless()
    address = cluster.scheduler_address
    code, _, err = run("predict", sales / "model", files, "--out", tmp_path / "out", "--scheduler", address)
    assert (marks / "ended").exists()
    assert code == 2
    assert "without.parquet" in err
    assert contents(tmp_path / "out") == {}
    assert list((tmp_path / "out").iterdir()) == []


def test_no_worker_writes_after_ctrl_c(run, sales, cluster, tmp_path, endless):
    files, marks = endless(os.getpid())
    (files / "without.parquet").unlink()
    address = cluster.scheduler_address
    result = run("predict", sales / "model", files, "--out", tmp_path / "out", "--scheduler", address)
    assert (marks / "ended").exists()
    assert result == (130, "", "")
    assert list((tmp_path / "out").iterdir()) == []


def test_results_that_the_workers_cannot_write(run, sales, cluster, tmp_path, monkeypatch):
    def refused(*_, **__):
        raise PermissionError(13, "Permission denied", "elsewhere")

    monkeypatch.setattr(dask_cluster, "write_assignments", refused)
    code, _, err = run(
        "predict",
        sales / "model",
        sales / "sales",
        "--out",
        tmp_path / "out",
        "--scheduler",
        cluster.scheduler_address,
    )
    assert code == 2
    assert "must be visible to all workers" in err
    assert contents(tmp_path / "out") == {}


def test_arguments(run, sales, tmp_path, monkeypatch):
    address = "tcp://127.0.0.1:9"
    model, one = sales / "model", sales / "sales" / "2026" / "may.parquet"
    code, _, err = run("predict", model, one, "--scheduler", address)
    assert (code, "--out needs the name of a file" in err) == (2, True)
    code, _, err = run("predict", model, one, "--in-memory", "--scheduler", address)
    assert (code, "leave out --in-memory" in err) == (2, True)
    monkeypatch.setattr(dask_cluster, "_PATIENCE", 1)
    for wrong in (address, "no address", "tcp://127.0.0.1"):
        code, _, err = run("predict", model, sales / "sales", "--out", tmp_path / "out", "--scheduler", wrong)
        assert code == 2
        assert f"No Dask scheduler answers at {wrong!r}" in err
    assert contents(tmp_path / "out") == {}


def test_a_cluster_without_workers(run, sales, tmp_path, monkeypatch):
    monkeypatch.setattr(dask_cluster, "_PATIENCE", 1)
    with distributed.LocalCluster(n_workers=0, dashboard_address=":0") as empty:
        code, _, err = run(
            "predict",
            sales / "model",
            sales / "sales",
            "--out",
            tmp_path / "out",
            "--scheduler",
            empty.scheduler_address,
        )
    assert code == 2
    assert "has had no workers for 1 seconds" in err
    assert contents(tmp_path / "out") == {}


def slow(fitted, file, result, *, within, check):
    """Begin a file of results, and never finish."""
    from craftc._common.atomic_write import replacing

    with replacing(result, within=within) as out:
        out.write("row,")
        out.flush()
        time.sleep(600)


def test_a_lost_scheduler(run, sales, tmp_path, monkeypatch):
    """The error names it, and the files that workers have begun are removed."""
    import threading

    monkeypatch.setattr(dask_cluster, "write_assignments", slow)
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, processes=True, dashboard_address=":0"
    ) as cluster:
        address = cluster.scheduler_address

        def stop():
            while not list(tmp_path.rglob("*.tmp")):
                time.sleep(0.05)
            cluster.close()

        thread = threading.Thread(target=stop)
        thread.start()
        began = time.monotonic()
        code, _, err = run(
            "predict", sales / "model", sales / "sales", "--out", tmp_path / "out", "--scheduler", address
        )
        thread.join()
    assert code == 2
    assert f"The scheduler {address} was lost" in err
    assert time.monotonic() - began < 30
    assert contents(tmp_path / "out") == {}
