"""`python -m tests.soak`: the long soak, some minutes; test_soak.py runs a short one."""

from __future__ import annotations

import argparse
import sys
import traceback
from collections.abc import Callable

from tests.soak.parts import environment, memory, processes, python_threads


def main(argv: list[str]) -> int:
    """Run all parts; 1 if one fails."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.soak", description="Many fits in one process, in threads and in children."
    )
    parser.add_argument("--fits", type=int, default=10_000, help="fits in one process (default 10000)")
    parser.add_argument("--threads", type=int, default=8, help="Python threads (default 8)")
    parser.add_argument("--each", type=int, default=1000, help="fits of every Python thread (default 1000)")
    options = parser.parse_args(argv)
    parts: list[Callable[[], str]] = [
        lambda: memory(options.fits, options.fits // 5),
        environment,
        lambda: python_threads(options.threads, options.each),
        lambda: processes(100),
    ]
    failed = 0
    for part in parts:
        try:
            print(part(), flush=True)
        except Exception:
            failed += 1
            traceback.print_exc()
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
