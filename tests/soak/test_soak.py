"""A short soak; `python -m tests.soak` runs the long one."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.soak.parts import ROOT, environment, python_threads

pytestmark = pytest.mark.slow


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_memory_and_children():
    """In a process of its own: memory and thread pools of other tests would count."""
    code = "from tests.soak.parts import memory, processes; print(memory(400, 200)); print(processes(20))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr


def test_python_threads():
    assert python_threads(4, 40)


def test_omp_num_threads():
    assert environment()
