"""Files are replaced whole and together: full disks, killed processes, several writers, hostile folders."""

from __future__ import annotations

import contextlib
import os
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import pandas as pd
import pytest

import craftc
from craftc._common import atomic_write
from craftc._common.atomic_write import replacing, replacing_together, unfinished_files
from craftc.describe.view import numbers_by_size
from tests.common import ROOT

HEART = str(ROOT / "examples" / "heart.csv")
posix = pytest.mark.skipif(os.name != "posix", reason="limits and signals of POSIX")


def write(folder, text, names="abc"):
    with replacing_together(folder, ("former",)) as new:
        for name in names:
            (new / name).parent.mkdir(exist_ok=True)
            with replacing(new / name) as file:
                file.write(text)


def contents(folder):
    return {
        str(path.relative_to(folder)): path.read_text() for path in Path(folder).rglob("*") if path.is_file()
    }


@contextlib.contextmanager
def small_disk(size):
    """No file may grow beyond this size."""
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


# ---- one file ----


def test_the_old_file_stays_until_the_new_one_is_complete(tmp_path):
    path = tmp_path / "t.txt"
    path.write_text("old")

    with contextlib.suppress(KeyError), replacing(path) as file:
        file.write("new")
        assert path.read_text() == "old"
        raise KeyError
    assert contents(tmp_path) == {"t.txt": "old"}
    with replacing(path) as file:
        file.write("new")
    assert contents(tmp_path) == {"t.txt": "new"}


@posix
def test_a_full_disk_names_the_file(tmp_path):
    path = tmp_path / "t.txt"
    path.write_text("old")
    with small_disk(1000), pytest.raises(OSError, match=r"t\.txt") as error, replacing(path) as file:
        file.write("x" * 5000)
    assert error.value.filename == str(path)
    assert contents(tmp_path) == {"t.txt": "old"}


def test_temporary_names_are_not_predictable(tmp_path, monkeypatch):
    """Every temporary file has another name, and is never an existing file."""
    found = []
    for _ in range(3):
        with replacing(tmp_path / "t.txt"):
            found += list(tmp_path.glob(".*"))
    assert len({path.name for path in found}) == 3
    assert all(str(os.getpid()) not in path.name.split(".") for path in found)
    monkeypatch.setattr(atomic_write.secrets, "token_hex", lambda _: "known")
    (tmp_path / "victim").write_text("mine")
    (tmp_path / ".t.txt.known.tmp").write_text("planted")
    with pytest.raises(FileExistsError), replacing(tmp_path / "t.txt"):
        pass
    assert (tmp_path / "victim").read_text() == "mine"


@posix
def test_a_new_file_has_the_usual_mode(tmp_path):
    before = os.umask(0o027)
    try:
        with replacing(tmp_path / "one"):
            pass
        write(tmp_path, "x")
    finally:
        os.umask(before)
    assert {stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("one", "a", "b")} == {0o640}


def test_unfinished_files_of_several_processes(tmp_path):
    """Whoever still writes when the block has ended replaces nothing and leaves nothing."""
    path = tmp_path / "t.txt"
    with unfinished_files(tmp_path) as folder:
        with replacing(path, within=folder) as file:
            file.write("whole")
            assert [each.parent for each in tmp_path.rglob("*.txt.*")] == [folder]
        late, begun = replacing(tmp_path / "late.txt", within=folder), replacing(path, within=folder)
        begun.__enter__().write("half")
    with pytest.raises(FileNotFoundError):
        late.__enter__()
    with pytest.raises(FileNotFoundError):
        begun.__exit__(None, None, None)
    assert contents(tmp_path) == {"t.txt": "whole"}
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(FileNotFoundError) as caught, unfinished_files(tmp_path / "missing"):
        pass
    assert caught.value.filename == str(tmp_path / "missing")


def test_files_that_appear_while_a_folder_is_removed(tmp_path, monkeypatch):
    plain, late = atomic_write.shutil.rmtree, ["b", "a"]

    def rmtree(folder, ignore_errors):
        if late:
            (folder / late.pop()).write_text("of a writer that had found the folder")
            return
        plain(folder, ignore_errors)

    monkeypatch.setattr(atomic_write.shutil, "rmtree", rmtree)
    with unfinished_files(tmp_path):
        pass
    assert list(tmp_path.iterdir()) == []


# ---- all files of a folder ----


def test_files_are_replaced_together(tmp_path):
    write(tmp_path / "new" / "folder", "1", ["a", "b/c"])
    assert contents(tmp_path / "new" / "folder") == {"a": "1", "b/c": "1"}
    write(tmp_path, "old")
    (tmp_path / "own").write_text("mine")
    (tmp_path / "former").write_text("of another run")

    before = contents(tmp_path)
    with contextlib.suppress(KeyError), replacing_together(tmp_path) as new:
        (new / "a").write_text("new")
        assert contents(tmp_path)["a"] == "old"
        raise KeyError
    assert contents(tmp_path) == before
    write(tmp_path, "new", "ab")
    expected = {"a": "new", "b": "new", "c": "old", "own": "mine", "new/folder/a": "1", "new/folder/b/c": "1"}
    assert contents(tmp_path) == expected


@pytest.mark.parametrize("call", range(6))
def test_a_failing_exchange_changes_nothing(tmp_path, monkeypatch, call):
    write(tmp_path, "old")
    calls = []
    rename = os.rename

    def failing(source, target):
        calls.append(source)
        if len(calls) == call + 1:
            raise PermissionError(13, "open in another program", str(source))
        rename(source, target)

    monkeypatch.setattr(os, "rename", failing)
    with pytest.raises(PermissionError, match="open in another program"):
        write(tmp_path, "new")
    assert contents(tmp_path) == dict.fromkeys("abc", "old")
    assert sorted(os.listdir(tmp_path)) == ["a", "b", "c"]


def test_a_folder_is_never_replaced(tmp_path):
    write(tmp_path, "old")
    (tmp_path / "b").unlink()
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "own").write_text("mine")
    with pytest.raises(FileExistsError, match="is no file and cannot be replaced"):
        write(tmp_path, "new")
    assert contents(tmp_path) == {"a": "old", "c": "old", "b/own": "mine"}


KILLED = """
import os, signal, sys
from pathlib import Path
from tests.app.test_result_files import contents, write

folder = Path(sys.argv[1])
for step in range(1, 1000):
    write(folder, "old")
    child = os.fork()
    if child == 0:
        calls = 0
        def counted(real):
            def call(*args, **how):
                global calls
                calls += 1
                if calls == step:
                    os.kill(os.getpid(), signal.SIGKILL)
                return real(*args, **how)
            return call
        for name in ("rename", "replace", "fsync", "unlink", "mkdir", "rmdir", "open", "close"):
            setattr(os, name, counted(getattr(os, name)))
        write(folder, "new")
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    visible = {name: text for name, text in contents(folder).items() if not name.startswith(".")}
    assert len(set(visible.values())) <= 1, (step, visible)
    print(step, status, sorted(visible.items()))
    write(folder, "next")
    assert contents(folder) == dict.fromkeys("abc", "next"), (step, contents(folder))
    assert sorted(os.listdir(folder)) == ["a", "b", "c"]
    if status == 0:
        break
"""


@posix
def test_a_killed_process_leaves_files_of_one_run(tmp_path):
    """Killed before each of its system calls; the next process is not blocked, and removes what was left."""
    command = [sys.executable, "-W", "ignore:This process:DeprecationWarning", "-c", KILLED, str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[-1].endswith("0 [('a', 'new'), ('b', 'new'), ('c', 'new')]")
    assert len(lines) > 30
    assert any("'old'" in line for line in lines)
    assert any(line.count("'new'") in (1, 2) for line in lines)


RACE = """
import sys
from tests.app.test_result_files import write
for i in range(40):
    write(sys.argv[1], f"{sys.argv[2]}{i}")
"""


@pytest.mark.slow
def test_two_writers_take_turns(tmp_path):
    processes = [
        subprocess.Popen([sys.executable, "-c", RACE, str(tmp_path), name], cwd=ROOT) for name in "xy"
    ]
    assert [process.wait(120) for process in processes] == [0, 0]
    found = contents(tmp_path)
    assert sorted(found) == ["a", "b", "c"]
    assert set(found.values()) in ({"x39"}, {"y39"})


def test_a_second_writer_says_who_is_writing(tmp_path, monkeypatch):
    said, ready, done = [], threading.Event(), threading.Event()

    def first():
        with replacing_together(tmp_path) as new:
            (new / "a").write_text("first")
            ready.set()
            assert done.wait(60)

    thread = threading.Thread(target=first)
    thread.start()
    assert ready.wait(60)
    with monkeypatch.context() as patch:
        patch.setattr(atomic_write, "_PATIENCE", 0.0)
        with (
            pytest.raises(BlockingIOError, match=r"is writing to .* and does not end; pass another folder"),
            replacing_together(tmp_path),
        ):
            pass
    timer = threading.Timer(0.3, done.set)
    timer.start()
    with replacing_together(tmp_path, (), said.append) as new:
        (new / "a").write_text("second")
    thread.join()
    assert contents(tmp_path) == {"a": "second"}
    assert len(said) == 1
    if os.name == "posix":
        assert said[0].startswith(f"waiting because process {os.getpid()} on ")
    assert said[0].endswith(f" is writing to {str(tmp_path)!r}.")


@posix
def test_the_lock_follows_no_link(tmp_path):
    (tmp_path / "victim").write_text("mine")
    (tmp_path / ".craftc.lock").symlink_to(tmp_path / "victim")
    with pytest.raises(OSError, match=r"\.craftc\.lock"):
        write(tmp_path, "new")
    assert (tmp_path / "victim").read_text() == "mine"


ALONE = """
import os, signal, sys
from craftc._common.atomic_write import replacing
with replacing(sys.argv[1]) as file:
    file.write("half")
    file.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""


@posix
@pytest.mark.parametrize("name", ["out.csv", "a[0-9]*.csv", "x" * 240])
def test_temporary_files_of_killed_processes_are_removed(tmp_path, name):
    target, other = tmp_path / name, tmp_path / "other"
    for path in (target, target, other):
        subprocess.run([sys.executable, "-c", ALONE, path], check=False, capture_output=True)
    left = [each for each in tmp_path.iterdir() if each.name.endswith(".tmp")]
    assert len(left) == 2  # the second process has removed the file of the first
    (tmp_path / f".{name[:200]}.notes.tmp").write_text("mine")
    with replacing(target) as first:
        first.write("whole")
        with replacing(target) as second:  # which does not take the first for an abandoned one
            second.write("also whole")
    assert target.read_text() == "whole"
    assert sum(each.name.startswith(".other.") for each in tmp_path.iterdir()) == 1
    assert len(list(tmp_path.iterdir())) == 3


# ---- the command line ----


@pytest.mark.slow
@posix
def test_a_full_disk_keeps_all_files_of_the_former_fit(run, tmp_path):
    out = tmp_path / "out"
    assert run("cluster", HEART, "--clusters", 2, "--out", out, "--quiet") == (0, "", "")
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    sizes = sorted(len(content) for content in before.values())
    for size in (0, 100, sizes[0], sizes[1], sizes[2], sizes[3] - 100):
        with small_disk(size):
            code, said, err = run("cluster", HEART, "--clusters", 3, "--out", out)
        assert (code, said) == (2, "")
        assert err.startswith(f"craftc: File too large: '{out}/")
        assert {path.name: path.read_bytes() for path in out.iterdir()} == before


def test_a_report_of_a_former_fit_is_removed(run, tmp_path):
    table = tmp_path / "heart.parquet"
    pd.read_csv(HEART).to_parquet(table)
    out = tmp_path / "out"
    assert run("cluster", table, "--clusters", 2, "--out", out, "--quiet")[0] == 0
    assert (out / "report.html").exists()
    (out / "mine.txt").write_text("mine")
    assert run("cluster", table, "--clusters", 3, "--out", out, "--quiet", "--out-of-core")[0] == 0
    assert sorted(path.name for path in out.iterdir()) == [
        "labels.csv",
        "mine.txt",
        "model.craftc",
        "summary.csv",
    ]


def test_labels_of_files_of_a_former_fit_are_removed(run, tmp_path):
    """A fit of several files by a scheduler writes one file of labels for each into labels/."""
    out = tmp_path / "out"
    (out / "labels" / "north").mkdir(parents=True)
    header = "row,cluster,margin,probability,next"
    for name in ("may.csv", "north/june.csv"):
        (out / "labels" / name).write_text(f"{header}\n0,1,2.0,1.0,2\n")
    assert run("cluster", HEART, "--clusters", 2, "--out", out, "--quiet")[0] == 0
    assert not (out / "labels").exists()
    (out / "labels").mkdir()
    (out / "labels" / "mine.csv").write_text("name,label\n")
    (out / "labels" / "may.csv").write_text(f"{header}\n0,1,2.0,1.0,2\n")
    assert run("cluster", HEART, "--clusters", 3, "--out", out, "--quiet")[0] == 0
    assert [path.name for path in (out / "labels").iterdir()] == ["mine.csv"]


def test_results_of_other_files_are_named(run, tmp_path):
    sales, out, model = tmp_path / "sales", tmp_path / "out", tmp_path / "model"
    sales.mkdir()
    heart = pd.read_csv(HEART)
    for name in ("may", "june"):
        heart.to_parquet(sales / f"{name}.parquet")
    assert run("cluster", HEART, "--clusters", 2, "--out", model, "--quiet")[0] == 0
    assert run("predict", model, sales, "--out", out) == (0, "", "")
    (sales / "may.parquet").unlink()
    heart.to_parquet(sales / "july.parquet")
    (out / "mine.csv").write_text("name\n")
    code, said, err = run("predict", model, sales, "--out", out)
    assert (code, said) == (0, "")
    assert f"craftc: note: {out} also holds results that this run has not written: 'may.csv';" in err


@pytest.mark.slow
@posix
def test_two_fits_into_one_folder(tmp_path):
    def fit(k):
        command = [
            sys.executable,
            "-m",
            "craftc",
            "cluster",
            HEART,
            "--clusters",
            str(k),
            "--out",
            str(tmp_path),
            "--quiet",
        ]
        return subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE)

    for _ in range(2):
        processes = [fit(k) for k in (2, 3, 4)]
        assert [(process.communicate(timeout=120)[1], process.returncode) for process in processes] == [
            (b"", 0)
        ] * 3
        fitted = craftc.load_model(tmp_path / "model.craftc")
        assert (
            pd.read_csv(tmp_path / "labels.csv")["cluster"].tolist()
            == numbers_by_size(fitted.cluster_sizes_)[fitted.labels_].tolist()
        )
        assert set(pd.read_csv(tmp_path / "summary.csv")["cluster"]) == set(range(1, fitted.n_clusters_ + 1))
        assert sorted(path.name for path in tmp_path.iterdir()) == [
            "labels.csv",
            "model.craftc",
            "report.html",
            "summary.csv",
        ]


@pytest.mark.slow
@posix
def test_killed_fits_leave_files_of_one_run(tmp_path):
    """Killed at some moment of writing."""
    assert (
        subprocess.run(
            [
                sys.executable,
                "-m",
                "craftc",
                "cluster",
                HEART,
                "--clusters",
                "2",
                "--out",
                str(tmp_path),
                "--quiet",
            ],
            cwd=ROOT,
            timeout=120,
        ).returncode
        == 0
    )
    for delay in (0.0, 0.005, 0.01, 0.02, 0.04, 0.08):
        process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "craftc",
                "cluster",
                HEART,
                "--clusters",
                "3",
                "--out",
                str(tmp_path),
                "--quiet",
            ],
            cwd=ROOT,
        )
        while process.poll() is None and not list(tmp_path.glob(".craftc-*")):
            time.sleep(0.001)
        time.sleep(delay)
        process.kill()
        process.wait(60)
        if (tmp_path / "model.craftc").exists() and (tmp_path / "labels.csv").exists():
            fitted = craftc.load_model(tmp_path / "model.craftc")
            labels = pd.read_csv(tmp_path / "labels.csv")["cluster"].tolist()
            assert labels == numbers_by_size(fitted.cluster_sizes_)[fitted.labels_].tolist()
    assert (
        subprocess.run(
            [
                sys.executable,
                "-m",
                "craftc",
                "cluster",
                HEART,
                "--clusters",
                "4",
                "--out",
                str(tmp_path),
                "--quiet",
            ],
            cwd=ROOT,
            timeout=120,
        ).returncode
        == 0
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "labels.csv",
        "model.craftc",
        "report.html",
        "summary.csv",
    ]
