"""Benchmarks never rot: each one of benches/suite runs once, at its smallest parameters."""

from __future__ import annotations

import importlib
import inspect
import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pandas", reason="the suite builds tables from pandas frames")

ROOT = Path(__file__).resolve().parents[2]
SUITE = ROOT / "benches" / "suite"
KINDS = ("time_", "timeraw_", "peakmem_", "track_")


def found():
    """Everything asv would run, as (class, method) or (None, function), with its name as id."""
    for path in sorted(SUITE.glob("[!_]*.py")):
        module = importlib.import_module(f"benches.suite.{path.stem}")
        for name, thing in vars(module).items():
            if name.startswith("_") or getattr(thing, "__module__", "") != module.__name__:
                continue
            if inspect.isclass(thing):
                for method in filter(lambda method: method.startswith(KINDS), dir(thing)):
                    yield pytest.param(thing, method, id=f"{path.stem}.{name}.{method}")
            elif name.startswith(KINDS):
                yield pytest.param(None, thing, id=f"{path.stem}.{name}")


@pytest.mark.parametrize(("cls", "method"), list(found()))
def test_benchmark_runs(cls, method):
    if cls is None:
        subprocess.run([sys.executable, "-c", method()], cwd=ROOT, check=True)
        return
    assert len(cls.param_names) == len(cls.params)
    benchmark, smallest = cls(), [values[0] for values in cls.params]
    benchmark.setup(*smallest)
    result = getattr(benchmark, method)(*smallest)
    assert (result is not None) == method.startswith("track_")


def test_asv_finds_its_way():
    config = json.loads((ROOT / "benches" / "asv.conf.json").read_text(encoding="utf-8"))
    assert (ROOT / "benches" / config["repo"]).resolve() == ROOT
    assert (ROOT / "benches" / config["benchmark_dir"]).resolve() == SUITE
    assert "regressions_thresholds" in config  # asv ignores any other spelling without a word
