"""Number of threads of a kernel call, and parallel maps. Results never depend on the number of threads."""

from __future__ import annotations

import math
import numbers
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from pathlib import Path, PurePosixPath
from threading import Event
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from craftc._common.messages import shown, warn_user
from craftc._kernels import parallel as _kernel

T = TypeVar("T")
S = TypeVar("S")

#: Cell visits of a kernel call below which it runs in one thread; waking another takes 20 to 100 us.
SMALL_WORK = 1_000_000

_state = {"parallel": False, "forked": False, "warned": False}


def _after_fork() -> None:
    _state["forked"] = _state["parallel"]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


@cache
def _libraries() -> ThreadpoolController:
    import scipy.linalg  # noqa: F401  loads its BLAS, which a search before would miss

    return ThreadpoolController()  # the search takes milliseconds, as long as a small fit


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """A context or decorator in which NumPy and SciPy compute products in one thread, so that small products
    do not wait for threads, and bits do not depend on their number.
    """
    with _libraries().limit(limits=1, user_api="blas"):
        yield


def effective_n_threads(n_threads: int | None = None) -> int:
    """Resolve the parameter `n_threads`.

    `n_threads`: None: OMP_NUM_THREADS if set, else the number of processors available to this process by
    its affinity and the CPU limit of its control group (container). Negative: counted from the number of
    processors (-1 = all). 0 raises ValueError. The number is capped at `max_useful_threads()`.

    At least 1; exactly 1 in a child forked after a parallel region, where the OpenMP runtime
    would hang.
    """
    whole = isinstance(n_threads, numbers.Integral) or (
        isinstance(n_threads, numbers.Real) and float(n_threads).is_integer()
    )
    if n_threads is not None and (isinstance(n_threads, bool) or not whole):
        raise ValueError(f"n_threads must be None or a whole number, got {shown(n_threads)}.")
    if n_threads == 0:
        raise ValueError(
            "n_threads=0 is not a number of threads; pass None for all processors or a number >= 1."
        )
    if not _kernel.openmp():
        return 1
    if _state["forked"]:
        if not _state["warned"]:
            _state["warned"] = True
            warn_user(
                "craftc uses one thread: this process was forked after a parallel fit, and OpenMP cannot "
                "continue in the child. Start workers with 'spawn' or 'forkserver' to use more.",
                RuntimeWarning,
            )
        return 1
    processors = _processors()
    if n_threads is None:
        n_threads = _kernel.max_threads() if os.environ.get("OMP_NUM_THREADS") else processors
    elif n_threads < 0:
        n_threads = max(1, processors + 1 + int(n_threads))
    return min(int(n_threads), max_useful_threads())


def max_useful_threads() -> int:
    """Upper limit of `n_threads`: four per processor, at least 16.

    More cost memory, and thousands crash the OpenMP runtime.
    """
    return min(max(16, 4 * _processors()), _kernel.MOST_THREADS)


def _processors() -> int:
    """Processors on which this process may run, at most those whose time its control group allows."""
    affinity = getattr(os, "sched_getaffinity", None)
    processors = len(affinity(0)) if affinity else (os.cpu_count() or 1)
    return min(processors, cpu_limit() or processors)


def threads_for(n_threads: int, work: float) -> int:
    """Threads for one kernel call with `work` cell visits: one if it is too small for a parallel region."""
    if n_threads == 1 or work < SMALL_WORK:
        return 1
    _state["parallel"] = True
    return n_threads


def parallel_map(
    function: Callable[[S], T], items: Iterable[S], n_threads: int, stop: Event | None = None
) -> list[T]:
    """``[function(item) for item in items]`` on up to `n_threads` Python threads; kernels release the GIL.

    If a call fails or is interrupted, `stop` is set so that the others can end early; the pool waits for
    them.
    """
    items = list(items)
    if n_threads == 1 or len(items) < 2:
        return list(map(function, items))
    with ThreadPoolExecutor(min(n_threads, len(items))) as pool:
        futures: list[Any] = [pool.submit(function, item) for item in items]
        try:
            return [future.result() for future in futures]
        except BaseException:
            if stop is not None:
                stop.set()
            for future in futures:
                future.cancel()
            raise


def aligned(shape: tuple[int, ...]) -> NDArray[np.float64]:
    """An uninitialised array aligned to a cache line, for tables and workspaces read by SIMD code."""
    size = math.prod(shape)
    room = np.empty(size + 8)
    skip = _kernel.first_aligned(room)
    return room[skip : skip + size].reshape(shape)


@cache
def cpu_limit(root: Path = Path("/")) -> int | None:
    """Processors' worth of time per period that the control groups of this process allow, rounded up.

    `root`: folder that holds ``proc`` and ``sys``.

    At least 1; None without a limit, and where there are no control groups.

    Notes
    -----
    The limit of a group holds for the groups inside it, so the lowest counts. Inside a container the path of
    the own group may be that of the host, which does not exist here; the parents of that path end at the
    group of the container. The file is ``cpu.max`` in version 2, ``cpu.cfs_quota_us`` and
    ``cpu.cfs_period_us`` in version 1.
    """
    limits = [
        max(1, math.ceil(quota / period)) for quota, period in _quotas(root) if quota > 0 and period > 0
    ]
    return min(limits, default=None)


def _quotas(root: Path) -> Iterator[tuple[int, int]]:
    """Quota and period of every group that contains this process; a quota <= 0 is no limit."""
    mounts = root / "sys/fs/cgroup"
    for line in _text(root / "proc/self/cgroup").splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        own = PurePosixPath(path.lstrip("/"))
        for group in (own, *own.parents):
            if number == "0" and not controllers:
                quota, _, period = _text(mounts / group / "cpu.max").partition(" ")
                yield _whole(quota), _whole(period)
            elif "cpu" in controllers.split(","):
                for mount in dict.fromkeys(("cpu", controllers)):
                    folder = mounts / mount / group
                    yield (
                        _whole(_text(folder / "cpu.cfs_quota_us")),
                        _whole(_text(folder / "cpu.cfs_period_us")),
                    )


def _text(path: Path) -> str:
    """Contents of a file; empty if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError):
        return ""


def _whole(text: str) -> int:
    """A whole number; -1 for other texts, as "max"."""
    return int(text) if text.strip().isdecimal() else -1
