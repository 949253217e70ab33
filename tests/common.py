"""Shared by all tests: paths, random mixed tables, hypothesis settings."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings

from craftc import MixedTable, PaperCRAFT

ROOT = Path(__file__).resolve().parent.parent


def examples(most, **options):
    """hypothesis settings: `most` examples under the profile `ci`, in proportion fewer under `dev`."""
    return settings(max_examples=max(2, most * settings.default.max_examples // 100), **options)


def random_table(seed, n=None, p=None, q=None, missing=0.1, dtype=np.float64, constant=False):
    """A MixedTable with some cluster structure and missing cells."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(5, 70)) if n is None else n
    p = int(rng.integers(0, 5)) if p is None else p
    q = int(rng.integers(0 if p else 1, 5)) if q is None else q
    group = rng.integers(0, 3, n)
    numeric = rng.normal(size=(n, p)) + 2.5 * rng.normal(size=(3, p))[group] * rng.integers(0, 2, p)
    numeric = numeric * 10.0 ** rng.integers(-3, 4, p) + 10.0 ** rng.integers(-2, 3, p)
    levels = rng.integers(2, 6, q)
    codes = np.where(rng.random((n, q)) < 0.5, group[:, None] % levels, rng.integers(0, 99, (n, q)) % levels)
    X = np.concatenate([numeric, codes.astype(float)], axis=1)
    X[rng.random(X.shape) < missing] = np.nan
    X[rng.integers(n)] = np.where(np.isnan(X[0]), 0.0, X[0])  # no column is missing altogether
    if constant and p:
        X[:, 0] = 3.0
    return MixedTable.from_data(X.astype(dtype), categorical=list(range(p, p + q)))


def need(*packages):
    """Skip where extensions cannot be compiled."""
    for package in packages:
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed: pip install 'setuptools>=80' 'Cython>=3.3.1,<3.4'")
    compiler = (sysconfig.get_config_var("CC") or "cl").split()[0]
    if shutil.which(compiler) is None:
        pytest.skip(f"no C compiler here ({compiler} is not on the path)")


def run(script, **environment):
    """What a script prints, in a Python of its own."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore", **environment}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, cwd=ROOT, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def assert_same_bits(module, instructions):
    """The result of `digest` of a test module is that of the baseline; skips what this processor lacks."""
    ran, found = digest_of(module, instructions)
    if ran != instructions:
        pytest.skip(f"this processor, or this compiler, has no {instructions}: {ran} ran")
    assert found == digest_of(module, "baseline")[1]


@cache
def digest_of(module, instructions):
    """The instruction set that ran in a process of its own, and the result of `digest` of a test module."""
    script = (
        f"from craftc._kernels import parallel; from {module} import digest; print(parallel.simd(), digest())"
    )
    return run(script, CRAFTC_SIMD=instructions).split()


def fixed_price(n_clusters=None, **parameters):
    """PaperCRAFT with the coherent model, whose features are priced by description length."""
    defaults = {"model": "likelihood", "selection": "priced", "numeric": "auto"}
    return PaperCRAFT(n_clusters, **{**defaults, **parameters})
