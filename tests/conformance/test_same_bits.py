"""The same bits from every estimator, whatever the instruction set and the number of threads."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache

import pytest

import craftc
from craftc._kernels import parallel
from tests.common import ROOT
from tests.conformance.fingerprints import MODELS

LEVELS = ("baseline", "v3", "v4")


@cache
def fingerprints(level, threads):
    """The instruction set that ran in a process of its own, and the hash of each estimator's fit."""
    environment = {
        **os.environ,
        "CRAFTC_SIMD": level,
        "OMP_NUM_THREADS": str(threads),
        "OPENBLAS_NUM_THREADS": "1",
    }
    command = [sys.executable, "-m", "tests.conformance.fingerprints"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.slow
@pytest.mark.parametrize("level", LEVELS)
def test_instruction_sets(level):
    ran, found = fingerprints(level, 1)
    if ran != level:
        pytest.skip(f"this processor, or this compiler, has no {level}: {ran} ran")
    assert found == fingerprints("baseline", 1)[1]
    assert set(found) == set(MODELS)


@pytest.mark.slow
def test_all_that_the_processor_has():  # v4 leaves out AVX-512 IFMA
    assert fingerprints("", 1)[1] == fingerprints("baseline", 1)[1]


@pytest.mark.slow
@pytest.mark.parametrize("threads", [2, 7])
def test_threads(threads):
    assert fingerprints("v4", threads)[1] == fingerprints("v4", 1)[1]


def test_show_versions_says_which_runs(capsys):
    craftc.show_versions()
    assert f"simd: {parallel.simd()}" in capsys.readouterr().out
    done = subprocess.run(
        [sys.executable, "-c", "import craftc; craftc.show_versions()"],
        cwd=ROOT,
        env={**os.environ, "CRAFTC_SIMD": "baseline"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "simd: baseline" in done.stdout
