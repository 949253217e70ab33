"""The parts of the soak.

Each returns a line with its figures and raises AssertionError where a guarantee fails.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import resource
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from craftc._common import threads
from tests.soak.fits import KINDS, hash_of_fit, quiet

ROOT = Path(__file__).resolve().parents[2]
MOST_GROWTH = 5 << 20  # bytes of resident memory after the warm-up
OMP = ("banana", "-3", "99999999999", "0", "", "2,2", "1.5", "2")
_TIMEOUT = 120.0  # seconds for the fits of a pool of processes
_DISTINCT = 200  # fits whose hashes are compared


@quiet()
def memory(fits: int, warm_up: int) -> str:
    """Resident memory over many fits of mixed kinds in one process: flat after the warm-up."""
    start = time.monotonic()
    sizes = []
    for number in range(fits):
        hash_of_fit(number)
        if number + 1 >= warm_up and (number + 1 - warm_up) % max(1, fits // 20) == 0:
            gc.collect()
            sizes.append(_resident())
    growth = max(sizes) - sizes[0]
    assert growth <= MOST_GROWTH, (
        f"resident memory grew by {growth / 2**20:.1f} MiB after {warm_up} of {fits} fits: {sizes}"
    )
    seconds = time.monotonic() - start
    return (
        f"{fits} fits in {seconds:.0f} s, resident {sizes[0] / 2**20:.1f} MiB after {warm_up}, "
        f"at most {growth / 2**20:+.2f} MiB later"
    )


@quiet()
def python_threads(n_threads: int, fits: int) -> str:
    """Many Python threads, each with its own fits, all with the bits of serial fits; kernels use threads as
    well.
    """
    numbers = range(min(fits, _DISTINCT))
    expected = [hash_of_fit(number) for number in numbers]

    def work(thread: int) -> int:
        wrong = 0
        for turn in range(fits):
            number = (turn + thread * 31) % len(numbers)
            wrong += hash_of_fit(number, 1 + (turn + thread) % 2) != expected[number]
        return wrong

    start, before = time.monotonic(), threads.SMALL_WORK
    threads.SMALL_WORK = 0
    try:
        with ThreadPoolExecutor(n_threads) as pool:
            wrong = sum(pool.map(work, range(n_threads)))
    finally:
        threads.SMALL_WORK = before
    assert wrong == 0, f"{wrong} of {n_threads * fits} fits differ from the serial ones"
    return f"{n_threads} threads x {fits} fits in {time.monotonic() - start:.0f} s: the bits of serial fits"


@quiet()
def processes(fits: int) -> str:
    """Children started by fork, spawn and forkserver after parallel fits: no hang, the same bits."""
    before = threads.SMALL_WORK
    threads.SMALL_WORK = 0
    try:
        expected = [hash_of_fit(number, 2) for number in range(fits)]
    finally:
        threads.SMALL_WORK = before
    methods = [
        each for each in ("fork", "spawn", "forkserver") if each in multiprocessing.get_all_start_methods()
    ]
    for method in methods:
        with multiprocessing.get_context(method).Pool(2) as pool:
            found = pool.starmap_async(hash_of_fit, [(number, 2) for number in range(fits)]).get(_TIMEOUT)
        assert found == expected, f"fits in children of {method!r} differ"
    return f"{fits} fits in children of {', '.join(methods)}: the same bits"


@quiet()
def environment() -> str:
    """Values of OMP_NUM_THREADS that are no number of threads: the same bits, no error."""
    code = f"from tests.soak.fits import hash_of_fit; print(*(hash_of_fit(i, None) for i in range({KINDS})))"
    expected = [hash_of_fit(number) for number in range(KINDS)]
    for value in OMP:
        variables = os.environ | {"OMP_NUM_THREADS": value}
        done = subprocess.run(
            [sys.executable, "-c", code],
            env=variables,
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT,
        )
        assert done.returncode == 0, f"OMP_NUM_THREADS={value!r}: exit code {done.returncode}\n{done.stderr}"
        assert done.stdout.split() == expected, f"OMP_NUM_THREADS={value!r}: other bits"
    return f"OMP_NUM_THREADS of {', '.join(map(repr, OMP))}: the same bits"


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
