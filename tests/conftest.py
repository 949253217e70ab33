"""Fixtures of all tests, and how many examples hypothesis draws."""

from __future__ import annotations

import os
import signal
from collections import defaultdict
from pathlib import Path

import pytest
from hypothesis import settings

# before NumPy is loaded: threads of BLAS wait busily, and those of one worker of pytest-xdist would slow down
# the others
os.environ.setdefault(
    "OPENBLAS_NUM_THREADS",
    str(max(1, (os.cpu_count() or 1) // int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")))),
)

from tests.common import ROOT

settings.register_profile("ci", max_examples=60, deadline=None)  # on a busy machine a case takes any time
settings.register_profile("dev", max_examples=15, deadline=None)


def pytest_configure(config):
    """Interrupts, and the profile that HYPOTHESIS_PROFILE names; otherwise `dev` where slow tests are left
    out, and `ci`.
    """
    if (
        signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    ):  # as in a background job of a script; tests interrupt processes
        signal.signal(signal.SIGINT, signal.default_int_handler)
    quick = "not slow" in config.getoption("markexpr")
    settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "dev" if quick else "ci"))


@pytest.hookimpl(tryfirst=True)  # before -m deselects
def pytest_collection_modifyitems(items):
    """Mark the slow cases of tests marked `slow_except`."""
    cases = defaultdict(list)
    for item in items:
        if mark := item.get_closest_marker("slow_except"):
            cases[item.path, item.originalname].append((item, *mark.args))
    for same in cases.values():
        for i, (item, fast) in enumerate(same):
            if i * fast // len(same) == (i - 1) * fast // len(same):
                item.add_marker("slow")


@pytest.fixture(scope="session")
def data_folder():
    """Folder of the real tables: environment variable CRAFTC_DATA, or ../shared/data."""
    folder = Path(os.environ.get("CRAFTC_DATA", ROOT.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip("the real tables are not here: set CRAFTC_DATA to their folder")
    return folder


@pytest.fixture
def run(capsys):
    """Run a command; returns exit code, stdout and stderr."""

    def run(*argv):
        from craftc.cli import main  # needs the packages of craftc[app]

        code = main([str(word) for word in argv])
        said = capsys.readouterr()
        return code, said.out, said.err

    return run
