"""`python -m tests.fuzz --cases N --seed S`, and `python -m tests.fuzz --case AREA:SEED` for one case."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before NumPy is imported: tables are small
os.environ.setdefault("OMP_NUM_THREADS", "2")

from tests.fuzz.runner import Limits, report, run, schedule, summary

#: Modules of this package with cases.
AREAS = ("estimators", "model_files", "kernels", "embedding", "command_line")


def load(name: str) -> Any:
    """The module of an area."""
    return importlib.import_module(f"tests.fuzz.{name}")


def parsed(argv: list[str]) -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz", description="Seeded random calls, each in a process of its own."
    )
    parser.add_argument(
        "--cases", type=int, default=1000, help="number of cases, over all areas (default 1000)"
    )
    parser.add_argument(
        "--seed", type=int, default=0, help="seed of the first case of every area (default 0)"
    )
    parser.add_argument(
        "--area",
        action="append",
        metavar="NAME",
        help=f"one of {', '.join(AREAS)}; may be repeated (default all)",
    )
    parser.add_argument("--jobs", type=int, default=1, help="cases at a time (default 1)")
    parser.add_argument(
        "--seconds", type=float, default=Limits().seconds, help="limit of time of a case (default 60)"
    )
    parser.add_argument(
        "--memory",
        type=int,
        default=Limits().memory >> 20,
        metavar="MIB",
        help="limit of memory of a case (default 1024)",
    )
    parser.add_argument(
        "--batch",
        type=int,
        default=10,
        help="cases of one process (default 10); one with a problem is run again alone",
    )
    parser.add_argument(
        "--case",
        action="append",
        metavar="AREA:SEED",
        help="run this case alone; several: one after the other",
    )
    parser.add_argument("--here", action="store_true", help="with --case: in this process, for a debugger")
    return parser.parse_args(argv)


def show(area: Any, seed: int) -> int:
    """Run one case in this process; 1 if it has a problem."""
    with tempfile.TemporaryDirectory() as folder:
        problems = area.case(seed, area.prepare(), Path(folder))
    for each in problems:
        print(f"{each.kind}: {each.what}: {each.detail}")
    return int(bool(problems))


def main(argv: list[str]) -> int:
    """Run the cases; 1 if one of them has a problem."""
    options = parsed(argv)
    limits = Limits(options.seconds, options.memory << 20)
    if options.case:
        cases = [(name, int(seed)) for name, _, seed in (each.rpartition(":") for each in options.case)]
        areas = {name: load(name) for name, _ in cases}
        options.batch = len(cases)
        if options.here:
            return sum(show(areas[name], seed) for name, seed in cases)
    else:
        areas = {name: load(name) for name in options.area or AREAS}
        cases = schedule(areas.values(), options.cases, options.seed)
    failures, done = [], 0
    start = time.monotonic()
    with suppress(KeyboardInterrupt):  # the summary is of what was run
        for outcome in run(areas, cases, limits, options.jobs, options.batch):
            done += 1
            if outcome is not None:
                failures.append(outcome)
                print(report(outcome, bool(options.case)), flush=True)
    print(summary(failures, Counter(name for name, _ in cases[:done]), time.monotonic() - start))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
