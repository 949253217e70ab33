"""Cases that break on purpose: what the runner must report. Not part of a run unless it is named."""

from __future__ import annotations

import os
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from tests.fuzz.problems import Problem, Problems

AREA = "faults"
SHARE = 1.0


def prepare() -> None:
    """Nothing."""


def case(seed: int, state: Any, folder: Path) -> list[Problem]:
    """The fault of this number."""
    found = Problems()
    found.attempt(FAULTS[seed].__name__, FAULTS[seed])
    return found


def abort() -> None:
    """A crash."""
    os.abort()


def sleep() -> None:
    """A hang."""
    time.sleep(3600)


def fill() -> None:
    """More memory than allowed, without an error."""
    np.ones(3 << 26)


def allocate() -> None:
    """More memory than the limit of addresses allows."""
    np.ones(1 << 40)


def divide() -> None:
    """An error of Python's."""
    {}["missing"]


def warn() -> None:
    """A warning that is not craftc's."""
    warnings.warn("overflow", RuntimeWarning, stacklevel=2)


def nothing() -> None:
    """No problem."""


FAULTS = [abort, sleep, fill, allocate, divide, warn, nothing]
