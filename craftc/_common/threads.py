"""How many threads a piece of work gets. The result never depends on the answer."""

from __future__ import annotations

import math
import numbers
import os
import warnings
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from craftc._kernels import parallel as _kernel

T = TypeVar("T")
S = TypeVar("S")

#: Cell visits below which a parallel region costs more than it saves (waking a thread takes some 20 microseconds).
SMALL_WORK = 400_000

_state = {"parallel": False, "forked": False, "warned": False}


def _after_fork() -> None:
    _state["forked"] = _state["parallel"]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def effective_n_threads(n_threads: int | None = None) -> int:
    """Number of threads that `n_threads` asks for.

    Parameters
    ----------
    n_threads : int or None
        None: OMP_NUM_THREADS, else the processors this process may use. Negative: that many from the end
        (-1 = all). 0 is an error. More than `most_threads()` counts as that many.

    Returns
    -------
    int
        At least 1; 1 in a child forked after a parallel region, where the OpenMP runtime would hang.
    """
    whole = isinstance(n_threads, numbers.Real) and math.isfinite(n_threads) and int(n_threads) == n_threads
    if n_threads is not None and (isinstance(n_threads, bool) or not whole):
        raise ValueError(f"n_threads must be None or a whole number, got {n_threads!r}.")
    if n_threads == 0:
        raise ValueError("n_threads=0 asks for no thread at all; give None for all or a number from 1 up.")
    if not _kernel.openmp():
        return 1
    if _state["forked"]:
        if not _state["warned"]:
            _state["warned"] = True
            warnings.warn(
                "craftc runs on one thread here: this process was forked after a parallel fit, and OpenMP cannot go on "
                "in the child. Start workers with 'spawn' or 'forkserver' to use more.",
                RuntimeWarning,
                stacklevel=2,
            )
        return 1
    processors = _processors()
    if n_threads is None:
        n_threads = _kernel.max_threads() if os.environ.get("OMP_NUM_THREADS") else processors
    elif n_threads < 0:
        n_threads = max(1, processors + 1 + int(n_threads))
    return min(int(n_threads), most_threads())


def most_threads() -> int:
    """Four threads for each processor, at least 16: more only cost stacks and scratch, and thousands crash the OpenMP runtime."""
    return max(16, 4 * _processors())


def _processors() -> int:
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else (os.cpu_count() or 1)


def threads_for(n_threads: int, work: float) -> int:
    """Threads for one kernel call of `work` cell visits: one when it is too small to share."""
    if n_threads == 1 or work < SMALL_WORK:
        return 1
    _state["parallel"] = True
    return n_threads


def map_side_by_side(function: Callable[[S], T], items: Iterable[S], n_threads: int, stop: Event | None = None) -> list[T]:
    """``[function(item) for item in items]``, on Python threads when that is asked for; kernels release the GIL.

    `stop` is set when one fails or is interrupted, so that the others may give up: the pool waits for them.
    """
    items = list(items)
    if n_threads == 1 or len(items) < 2:
        return [function(item) for item in items]
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
    """An uninitialised array whose first element starts a cache line, for tables and scratch that vectors read."""
    size = math.prod(shape)
    room = np.empty(size + 8)
    skip = -room.ctypes.data // 8 % 8
    return room[skip : skip + size].reshape(shape)
