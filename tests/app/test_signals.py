"""Ctrl-C and SIGTERM: an exit code without a traceback, at every moment from the first import on, and no
unfinished files.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import craftc
from craftc.cli import main
from tests.common import ROOT

HEART = str(ROOT / "examples" / "heart.csv")
CODES = {signal.SIGINT: 130, signal.SIGTERM: 143}
pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")


@pytest.mark.parametrize("number", CODES)
def test_a_signal_during_a_fit(run, monkeypatch, number):
    before = signal.getsignal(number)
    monkeypatch.setattr(craftc.CRAFT, "fit", lambda *_, **__: os.kill(os.getpid(), number) or time.sleep(30))
    assert run("cluster", HEART) == (CODES[number], "", "")
    assert signal.getsignal(number) is before


def test_an_import_that_turns_the_interrupt_into_another_error(run, monkeypatch):
    def compiled(*_, **__):
        try:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(30)
        except KeyboardInterrupt:
            raise ImportError("numpy._core.multiarray failed to import") from None

    monkeypatch.setattr(craftc.CRAFT, "fit", compiled)
    assert run("cluster", HEART) == (130, "", "")


def test_signals_that_are_ignored_stay_ignored(run, monkeypatch):
    """As under nohup, or in the background of a script."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        monkeypatch.setattr(
            craftc.CRAFT,
            "fit",
            lambda *_, **__: os.kill(os.getpid(), signal.SIGINT) or pytest.skip("reached"),
        )
        with pytest.raises(pytest.skip.Exception):
            main(["cluster", HEART])
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_thread_runs_commands(capsys):
    codes = []
    thread = threading.Thread(target=lambda: codes.append(main(["info"])))
    thread.start()
    thread.join()
    assert codes == [0]
    assert "numpy" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("number", CODES)
@pytest.mark.parametrize("delay", [0.0, 0.05, 0.1, 0.2, 0.4, 0.8, 1.2])
def test_a_signal_while_modules_are_imported(number, delay):
    """The interpreter prints the name of every module that it has imported."""
    command = [sys.executable, "-X", "importtime", "-m", "craftc", "cluster", HEART]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    for line in process.stderr:
        if line.endswith(" click\n"):  # main has begun
            break
    time.sleep(delay)
    process.send_signal(number)
    said, err = process.communicate(timeout=60)
    assert [line for line in err.splitlines() if not line.startswith("import time:")] == []
    assert process.returncode == CODES[number] or (process.returncode == 0 and "clusters" in said)


@pytest.mark.slow
@pytest.mark.parametrize("number", CODES)
def test_a_signal_while_files_are_written(tmp_path, number):
    rng = np.random.default_rng(0)
    table, out = tmp_path / "t.csv", tmp_path / "out"
    np.savetxt(
        table,
        rng.normal(size=(60_000, 4)) + 6 * rng.integers(0, 3, (60_000, 1)),
        "%.3f",
        ",",
        header="a,b,c,d",
        comments="",
    )
    command = [
        sys.executable,
        "-m",
        "craftc",
        "cluster",
        str(table),
        "--clusters",
        "3",
        "--out",
        str(out),
        "--quiet",
    ]
    process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE)
    while process.poll() is None and not list(out.glob(".craftc-*")):
        time.sleep(0.005)
    process.send_signal(number)
    assert process.communicate(timeout=60)[1] == b""
    left = sorted(path.name for path in out.iterdir())
    complete = ["labels.csv", "model.craftc", "report.html", "summary.csv"]
    assert (process.returncode, left) in ((CODES[number], []), (CODES[number], complete), (0, complete))
