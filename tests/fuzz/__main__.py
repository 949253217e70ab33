"""`python -m tests.fuzz --cases N --seed S`, and `python -m tests.fuzz --case AREA:SEED` for one case."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import os
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before NumPy is imported: tables are small

from tests.fuzz.runner import Limits, report, run, schedule, summary

#: Modules of this package with cases.
AREAS = ("estimators", "model_files", "kernels", "embedding", "command_line")


def present(names: tuple[str, ...] = AREAS) -> list[str]:
    """The areas of which there is a module."""
    return [name for name in names if importlib.util.find_spec(f"tests.fuzz.{name}")]


def load(name: str) -> Any:
    """The module of an area."""
    return importlib.import_module(f"tests.fuzz.{name}")


def parsed(argv: list[str]) -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description="Seeded random calls, each in a process of its own.")
    parser.add_argument("--cases", type=int, default=1000, help="number of cases, over all areas (default 1000)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the first case of every area (default 0)")
    parser.add_argument("--area", action="append", metavar="NAME", help=f"one of {', '.join(present())}; may be repeated (default all)")
    parser.add_argument("--jobs", type=int, default=1, help="cases at a time (default 1)")
    parser.add_argument("--seconds", type=float, default=Limits().seconds, help="limit of wall time of a case (default 60)")
    parser.add_argument("--memory", type=int, default=Limits().memory >> 20, metavar="MIB", help="limit of memory of a case (default 1024)")
    parser.add_argument("--case", metavar="AREA:SEED", help="run this case alone")
    parser.add_argument("--here", action="store_true", help="with --case: in this process, for a debugger")
    return parser.parse_args(argv)


def main(argv: list[str]) -> int:
    """Run the cases; 1 if one of them has a problem."""
    options = parsed(argv)
    limits = Limits(options.seconds, options.memory << 20)
    if options.case:
        name, _, seed = options.case.rpartition(":")
        areas, cases = {name: load(name)}, [(name, int(seed))]
        if options.here:
            with tempfile.TemporaryDirectory() as folder:
                for each in areas[name].case(int(seed), areas[name].prepare(), Path(folder)):
                    print(f"{each.kind}: {each.what}: {each.detail}")
            return 0
    else:
        areas = {name: load(name) for name in options.area or present()}
        cases = schedule(areas.values(), options.cases, options.seed)
    failures = []
    start = time.monotonic()
    for outcome in run(areas, cases, limits, options.jobs):
        if outcome is not None:
            failures.append(outcome)
            print(report(outcome), flush=True)
    print(summary(failures, Counter(name for name, _ in cases), time.monotonic() - start))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
