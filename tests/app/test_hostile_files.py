"""Files and options that are made to break the command line: long texts, wide tables, endless files, control
characters, defects.
"""

from __future__ import annotations

import csv
import gzip
import os
import re
import subprocess
import sys
import time

import pandas as pd
import pytest

import craftc
from craftc.cli import errors
from craftc.reading import input_file
from craftc.reading.files import read_file
from tests.common import ROOT

HEART = str(ROOT / "examples" / "heart.csv")
CONTROL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def write(path, text):
    path.write_text(text, encoding="utf-8")
    return path


def table(cell, n=60, name="text"):
    return f"{name},x\n" + "".join(f"{cell(i)},{i % 7}.5\n" for i in range(n))


def wide(names, n=12):
    rows = ("".join(f"{i * j % 7 + 0.5}," for j in range(len(names)))[:-1] for i in range(n))
    return ",".join(names) + "\n" + "\n".join(rows) + "\n"


# ---- long texts ----


def test_long_texts(run, tmp_path):
    """Reviews, notes, abstracts: the page, the report and all plots look at the beginning only."""
    path = write(tmp_path / "t.csv", table(lambda i: "abc"[i % 3] * 15_000))
    start = time.process_time()
    code, said, err = run("cluster", path, "--clusters", 2, "--details", "--out", tmp_path / "out")
    assert time.process_time() - start < 60  # quadratic: many minutes
    assert (code, err) == (0, "")
    assert max(map(len, said.splitlines())) < 200
    assert (tmp_path / "out" / "report.html").stat().st_size < 200_000
    assert run("predict", tmp_path / "out", path)[0] == 0


@pytest.mark.slow_except(1)
@pytest.mark.parametrize("where", ["cell", "name", "two names", "option", "note"])
def test_a_text_of_10_million_characters(run, tmp_path, where):
    long = "y" * 10_000_000
    options = []
    if where == "cell":
        text = table(lambda i: long if i == 5 else "abc"[i % 3])
    elif where == "name":
        text = table(lambda i: "abc"[i % 3], name=long)
    elif where == "two names":
        text = f"{long},{long}\n" + "".join(f"{'abc'[i % 3]},{i % 7}.5\n" for i in range(60))
    elif where == "note":
        text = table(lambda i: f'"${1000 + 37 * i:,}"', name=long)
    else:
        text, options = table(lambda i: "abc"[i % 3], name=long), ["--ignore", long[:-1]]
    path = write(tmp_path / "t.csv", text)
    start = time.process_time()
    code, said, err = run("cluster", path, "--clusters", 2, "--json", "--out", tmp_path / "out", *options)
    assert time.process_time() - start < 60
    if where == "option":
        assert code == 2
        assert len(err) < 2200
    else:
        assert (code, err) == (0, "")
        assert '"n_clusters": 2' in said


# ---- wide tables ----


def test_a_header_of_more_than_64_kib(tmp_path):
    names = [f"gene{i:05d}" for i in range(9000)]
    raw = read_file(write(tmp_path / "t.csv", wide(names, 6)))
    assert list(raw.frame.columns) == names
    assert len(raw.frame) == 6


def test_many_columns_of_one_name(tmp_path):
    start = time.process_time()
    raw = read_file(write(tmp_path / "t.csv", wide(["a"] * 20_000, 3)))
    assert time.process_time() - start < 20  # cubic: hours
    assert list(raw.frame.columns) == ["a", *(f"a.{i}" for i in range(2, 20_001))]
    assert raw.notes == [
        "19,999 columns have the name of another one and became 'a.2', 'a.3', 'a.4', 'a.5', 'a.6', …."
    ]


def test_names_that_numbers_would_repeat(tmp_path):
    read = craftc.read_table(
        write(tmp_path / "t.csv", wide(["a", "a.2", "a", "a", "", "column 5", "a.2"], 6)), on_unusable="keep"
    )
    assert list(read.columns) == ["a", "a.2", "a.3", "a.4", "column 5", "column 5.2", "a.2.2"]


@pytest.mark.slow
def test_100_000_columns(tmp_path):
    names = [f"c{i}" for i in range(100_000)]
    start = time.process_time()
    raw = read_file(write(tmp_path / "t.csv", wide(names, 10)))
    assert time.process_time() - start < 60
    assert raw.frame.shape == (10, 100_000)
    assert list(raw.frame.columns) == names


def test_lines_that_differ_in_length(run, tmp_path):
    code, _, err = run("cluster", write(tmp_path / "t.csv", "a,b\n" + "1,2,3\n" * 9))
    assert (code, err.endswith("there are 2 column names, but the lines below have more cells.\n")) == (
        2,
        True,
    )


def test_no_line_ends(tmp_path, monkeypatch):
    from craftc.reading import files

    monkeypatch.setattr(files, "LONGEST_HEAD", 1 << 18)
    with pytest.raises(
        ValueError, match="its first 10 rows have more than 0 MiB; check line ends and quotes"
    ):
        craftc.read_table(write(tmp_path / "t.csv", "1,2," * 200_000))


def test_near_duplicate_columns_are_a_few_warnings():
    frame = pd.DataFrame({f"c{i}": [(7 * j) % 11 + 0.25 for j in range(40)] for i in range(60)})
    with pytest.warns(UserWarning, match="near-duplicates") as caught:
        craftc.CRAFT(n_clusters=2, random_state=0).fit(frame)
    said = [str(each.message) for each in caught if "near-duplicates" in str(each.message)]
    assert len(said) == 11
    assert said[0].startswith("Columns 'c0' and 'c1' are near-duplicates")
    assert said[-1] == "More than 10 pairs of columns are near-duplicates."


# ---- memory ----


def test_content_that_does_not_fit_into_memory(run, tmp_path, monkeypatch):
    """A small file may hold more than the memory."""
    bomb = tmp_path / "t.csv.gz"
    bomb.write_bytes(gzip.compress(b"a,b\n" + b"1,2\n" * 5_000_000))
    plain = write(tmp_path / "t.csv", "a,b\n" + "1,2\n" * 5_000_000)
    records = write(tmp_path / "t.jsonl", '{"a": 1}\n' * 2_000_000)
    monkeypatch.setattr(input_file, "available_memory", lambda: 15 << 20)
    for path in (bomb, plain, records):
        code, said, err = run("cluster", path)
        assert (code, said) == (2, "")
        words = (
            rf"craftc: {re.escape(repr(str(path)))} does not fit into memory: 1\d MiB have been read, "
            r"and 15 MiB of memory are left"
        )
        assert re.match(words, err)
    monkeypatch.setattr(input_file, "available_memory", lambda: None)
    assert len(input_file.find_file(str(bomb)).first(1000)) > 0


@pytest.mark.skipif(not os.path.exists("/dev/zero"), reason="no /dev/zero")
def test_endless_files(run, tmp_path, monkeypatch):
    (tmp_path / "t.csv").symlink_to("/dev/zero")
    for path in ("/dev/zero", tmp_path / "t.csv"):
        assert run("cluster", path)[::2] == (
            2,
            f"craftc: {str(path)!r} is not a text file; save the table as .csv, for example.\n",
        )


def test_an_endless_stream(monkeypatch):
    monkeypatch.setattr(input_file, "available_memory", lambda: 40 << 20)
    process = subprocess.Popen(
        [sys.executable, "-c", "while True: print('a,b\\n1,2\\n' * 10000)"], stdout=subprocess.PIPE
    )
    try:
        with pytest.raises(MemoryError, match="standard input does not fit into memory"):
            input_file._whole(process.stdout, "standard input")
    finally:
        process.kill()
        process.communicate()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="limits of address space")
def test_a_limit_of_memory_is_named(tmp_path):
    path = write(tmp_path / "t.csv", "a,b\n" + "1,2\n" * 30_000_000)
    limited = f"ulimit -v 2500000; exec {sys.executable} -m craftc cluster {path}"
    done = subprocess.run(
        ["bash", "-c", limited],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 2
    assert "memory" in done.stderr
    assert "Traceback" not in done.stderr


# ---- errors by origin ----


def raising(error):
    def run(*_, **__):
        raise error

    return run


def indexing(*_, **__):
    return [][7]


def test_a_defect_is_named_as_such(run, monkeypatch):
    monkeypatch.setattr(craftc.CRAFT, "fit", indexing)
    how = "CRAFTC_TRACEBACK=1 prints the traceback"
    defect = (
        f"craftc: this is a defect of craftc, please report it ({how}): IndexError: list index out of range\n"
    )
    assert run("cluster", HEART) == (3, "", defect)
    monkeypatch.setenv("CRAFTC_TRACEBACK", "1")
    code, said, err = run("cluster", HEART)
    assert (code, said) == (3, "")
    assert err.startswith("Traceback (most recent call last):\n")
    assert err.endswith(
        "defect of craftc, please report it (see the traceback above): IndexError: list index out of range\n"
    )


@pytest.mark.parametrize(
    "error",
    [
        ValueError("of another package"),
        TypeError("unhashable"),
        KeyError("k"),
        RecursionError("deep"),
        AssertionError(),
    ],
)
def test_errors_that_craftc_did_not_raise_are_defects(run, monkeypatch, error):
    monkeypatch.setattr(craftc.CRAFT, "fit", raising(error))
    code, said, err = run("cluster", HEART)
    assert (code, said, err.count("\n")) == (3, "", 1)
    assert f"{type(error).__name__}: {error}".rstrip() in err


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (MemoryError(), "not enough memory for this table"),
        (MemoryError("'t.csv' does not fit into memory."), "craftc: 't.csv' does not fit into memory."),
        (OSError(28, "No space left on device"), "No space left on device."),
        (OSError(28, "No space left on device", "t\x1b.csv"), r"No space left on device: 't\x1b.csv'."),
        (ImportError("pip install it"), "pip install it"),
    ],
)
def test_errors_of_the_machine(run, monkeypatch, error, message):
    monkeypatch.setattr(craftc.CRAFT, "fit", raising(error))
    code, said, err = run("cluster", HEART)
    assert (code, said) == (2, "")
    assert message in err


def test_which_errors_craftc_raised():
    def caught(call):
        try:
            call()
        except Exception as error:
            return error

    assert errors.is_expected(caught(lambda: craftc.read_table("no such file")))
    assert errors.is_expected(caught(lambda: craftc.CRAFT(n_clusters=0).fit([[1.0], [2.0]])))
    assert not errors.is_expected(caught(lambda: craftc.read_table("t.csv", skip=0, na=1)))
    assert not errors.is_expected(caught(lambda: int("x")))
    assert not errors.is_expected(ValueError("never raised"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--clusters", "0"], "--clusters must be"),
        (["--clusters", "9" * 30], "at most 2147483647"),
        (["--seed", "9" * 24], "--seed"),
        (["--seed", "-1"], "--seed"),
        (["--skip", "9" * 30], "No line is left after --skip"),
        (["--stability", "9" * 20], "--stability"),
        (["--price-factor", "1e400"], "--price-factor must be a number > 0"),
        (["--threads", "x"], "--threads"),
        (["--header", "\x1b[2J"], "--header"),
        (["--\x1b[31m"], "No such option"),
    ],
)
def test_options_that_are_nonsense(run, options, message):
    code, said, err = run("cluster", HEART, *options)
    assert (code, said, err.count("\n")) == (2, "", 1)
    assert message in err
    assert not CONTROL.search(err)


@pytest.mark.parametrize("scale", [10**18, 10**19, 10**30, 10**400])
@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_integers_beyond_64_bits(run, tmp_path, scale, form):
    if form == "csv":
        path = write(tmp_path / "t.csv", "a,b\n" + "".join(f"{scale + i},{i % 3}.5\n" for i in range(60)))
    else:
        path = write(
            tmp_path / "t.jsonl", "".join(f'{{"a": {scale + i}, "b": {i % 3}.5}}\n' for i in range(60))
        )
    code, said, err = run("cluster", path)
    assert (code, err) == (0, "")
    assert "not used (" in said


# ---- control characters and formulas ----

HOSTILE = "x\x1b[31m\x1b]0;title\x07\x1b[2J\x9b5m\x08\u202e"


def test_control_characters(run, tmp_path):
    path = tmp_path / f"t{HOSTILE}.csv"
    with open(path, "w", newline="", encoding="utf-8") as file:
        rows = [[f"{'ab'[i % 2]}{HOSTILE}", i % 2 * 9 + i / 7, HOSTILE] for i in range(60)]
        csv.writer(file).writerows([[f"k{HOSTILE}", f"v{HOSTILE}", f"w{HOSTILE}"], *rows])
    for options in (
        [],
        ["--details", "--out", tmp_path / f"o{HOSTILE}"],
        ["--target", f"k{HOSTILE}"],
        ["--target", HOSTILE],
    ):
        code, said, err = run("cluster", path, *options)
        assert code == (2 if options == ["--target", HOSTILE] else 0)
        assert not CONTROL.search(said + err)


@pytest.mark.skipif(os.name != "posix", reason="a terminal of POSIX")
def test_the_progress_line(tmp_path):
    """On a terminal, where a path is shown while the table is read."""
    import pty

    folder = tmp_path / "d\x1b[31mEVIL\x07"
    folder.mkdir()
    path = folder / "t.csv"
    path.write_bytes((ROOT / "examples" / "heart.csv").read_bytes())
    primary, secondary = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "craftc", "cluster", str(path)],
        cwd=ROOT,
        stderr=secondary,
        stdout=subprocess.PIPE,
    )
    os.close(secondary)
    shown = b""
    try:
        while piece := os.read(primary, 1 << 16):
            shown += piece
    except OSError:  # the end of a terminal on Linux
        pass
    said = process.communicate(timeout=60)[0]
    os.close(primary)
    assert process.returncode == 0
    assert b"reading " in shown
    assert b"EVIL" in shown + said
    assert b"\x1b[31mEVIL" not in shown + said
    assert b"\x07" not in shown + said


def test_formulas(run, tmp_path):
    """Unchanged by default; with --escape-formulas after an apostrophe, but numbers stay numbers."""
    cell, name = "=cmd|' /C calc'!A0", "@name"
    rows = "".join(f'"{cell if i % 2 else "+b"}",{-i % 2 * 9 - i / 7:.2f},-{i % 3}\n' for i in range(60))
    path = write(tmp_path / "t.csv", f"{name},v,w\n{rows}")
    for options, prefix in (([], ""), (["--escape-formulas"], "'")):
        assert run("cluster", path, "--clusters", 2, "--keep", "--out", tmp_path, "--quiet", *options)[0] == 0
        labels, summary = (pd.read_csv(tmp_path / f"{kind}.csv", dtype=str) for kind in ("labels", "summary"))
        assert set(labels[prefix + name]) == {prefix + cell, f"{prefix}+b"}
        assert labels["v"].astype(float).min() < 0
        assert set(labels["w"]) == {"-0", "-1", "-2"}
        assert prefix + name in set(summary["feature"])
        assert any(value.startswith(f"{prefix}{cell}") for value in summary["in the cluster"])


def test_cells_with_line_ends_stay_one_cell(run, tmp_path):
    levels = ["one\rtwo", "one\ntwo", "one\r\ntwo"]
    with open(tmp_path / "t.csv", "w", newline="") as file:
        csv.writer(file).writerows([["k", "v"], *([levels[i % 3], i / 7] for i in range(60))])
    assert run("cluster", tmp_path / "t.csv", "--keep", "--out", tmp_path / "out", "--quiet")[0] == 0
    with open(tmp_path / "out" / "labels.csv", newline="", encoding="utf-8") as file:
        text = file.read()
    assert text.count("\r\n") == 20
    rows = list(csv.reader(text.splitlines(keepends=True)))
    assert {len(row) for row in rows} == {8}
    assert [row[6] for row in rows[1:]] == levels * 20
