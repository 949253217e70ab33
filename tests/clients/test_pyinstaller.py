"""An application with craftc that PyInstaller freezes: `.ci/job clients` installs it."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import entry_points, version
from pathlib import Path

import pytest

import craftc
from craftc._pyinstaller import hook_dirs
from craftc.datasets import load_heart
from tests.common import ROOT

APP = Path(__file__).with_name("app.py")


def test_the_hook_is_found():
    [entry] = [each for each in entry_points(group="pyinstaller40") if each.module.startswith("craftc")]
    assert entry.load() is hook_dirs
    assert [Path(folder, "hook-craftc.py").is_file() for folder in hook_dirs()] == [True]


def test_a_frozen_application(tmp_path):
    pytest.importorskip("PyInstaller", reason="PyInstaller is not installed: .ci/job clients")
    build = [
        *(sys.executable, "-m", "PyInstaller", "--onedir", "--noconfirm", "--log-level", "WARN"),
        *("--paths", str(ROOT), "--workpath", "work", "--specpath", "spec", "--distpath", "dist", str(APP)),
    ]
    done = subprocess.run(build, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-4000:]
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    run = [str(tmp_path / "dist" / "app" / "app"), str(tmp_path)]
    done = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, env=clean)
    assert done.returncode == 0, done.stderr[-4000:]
    heart = load_heart().data
    expected = craftc.CRAFT(random_state=0, n_init=2).fit(heart).summary().to_string()
    assert done.stdout.startswith(expected)
    assert "\nequal True\n" in done.stdout
    assert f"craftc: {craftc.__version__}\n" in done.stdout
    assert f"scikit-learn: {version('scikit-learn')}\n" in done.stdout
    assert "CRAFT" in (tmp_path / "report.html").read_text(encoding="utf-8")
