"""A short fuzz of every area, and the runner's reports of cases that break on purpose."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from tests.fuzz.faults import FAULTS
from tests.fuzz.problems import ROOT, Problems, is_clear

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="forks, and reads /proc"),
]
CASES, SEED = int(os.environ.get("CRAFTC_FUZZ_CASES", "200")), 23


def fuzz(*options):
    """Exit code and output of the program."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.fuzz", *options], cwd=ROOT, capture_output=True, text=True, timeout=1200
    )
    return done.returncode, done.stdout + done.stderr


def test_no_problem():
    code, output = fuzz(
        "--cases", str(CASES), "--seed", str(SEED), "--jobs", str(min(2, os.cpu_count() or 1))
    )
    assert code == 0, output


EXPECTED = {
    "abort": "crash: the case: SIGABRT",
    "sleep": "hang: the case: not ended after 2 s",
    "fill": r"memory: the case: \d+ MiB",
    "allocate": "memory: allocate: MemoryError",
    "divide": "raw error: divide: KeyError",
    "warn": "warning: warn: RuntimeWarning",
    "nothing": "",
}


@pytest.mark.parametrize("number", range(len(FAULTS)))
def test_runner_reports(number):
    name = FAULTS[number].__name__
    limits = ["--memory", "200", *(["--seconds", "2"] if name == "sleep" else [])]
    code, output = fuzz("--case", f"faults:{number}", *limits)
    assert code == bool(EXPECTED[name])
    if code:
        assert output.startswith(f"python -m tests.fuzz --case faults:{number}\n    ")
        assert re.search(EXPECTED[name], output), output
    else:
        assert output.startswith("1 cases (1 faults)")


def test_a_case_of_a_batch_is_run_again_alone():
    """Every fault in one child: each is reported once, with the command that reproduces it alone."""
    numbers = [number for number, fault in enumerate(FAULTS) if fault.__name__ not in ("sleep", "fill")]
    code, output = fuzz(*(word for number in numbers for word in ("--case", f"faults:{number}")))
    assert code == 1
    assert sorted(re.findall(r"^python -m tests.fuzz --case faults:(\d)$", output, re.M)) == [
        str(number) for number in numbers[:-1]
    ]


def test_clear_errors():
    def refuse():
        from craftc import CRAFT

        CRAFT(n_init=0).fit([[1.0], [2.0]])

    found = Problems()
    assert not found.attempt("refuse", refuse).done
    found.attempt("open", open, "/no/such/file")
    assert found == []
    assert not is_clear(KeyError("x"))
    found.attempt("int", int, "x")
    found.finite("result", [1.0, float("nan")])
    assert [each.kind for each in found] == ["raw error", "not finite"]
