"""What the benchmarks share: imports that a past commit may lack, quiet fits, peak memory, kernels called
again as a fit called them.
"""

from __future__ import annotations

import ctypes
import warnings
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning


class Imports:
    """Imports of a module of benchmarks. Where one fails, on a commit before it, all benchmarks of the module
    are skipped.

    ``with new: from craftc import ...``, then ``setup = new.setup``, which asv calls before that of a class.
    It is defined on every commit: asv counts it as part of a benchmark, and compares commits only where it is
    the same.
    """

    lacking: BaseException | None = None

    def __enter__(self) -> Imports:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        self.lacking = error
        return isinstance(error, ImportError)

    def setup(self, *_: Any) -> None:
        if self.lacking is not None:
            raise NotImplementedError(f"This commit lacks it: {self.lacking}")


class Replay:
    """All calls of a kernel during a fit, to be made again one after the other with what they were given.

    One call of many kernels takes microseconds, and a made-up call may be easier than a true one. A benchmark
    takes `ready()` in its setup and sets ``number = 1``: calls leave other arrays behind.

    Parameters
    ----------
    kernel : str
        "module.function" of ``craftc._kernels``.
    run : callable
        The fit. It runs in this thread and calls the kernel by its module.
    """

    def __init__(self, kernel: str, run: Callable[[], Any]) -> None:
        stem, name = kernel.split(".")
        module = import_module(f"craftc._kernels.{stem}")
        if not hasattr(module, name):
            raise NotImplementedError(f"This commit has no {kernel}.")
        self.kernel = getattr(module, name)
        self._kept: dict[tuple[Any, ...], NDArray[Any]] = {}
        self._calls: list[tuple[list[Any], dict[str, Any], set[int]]] = []
        setattr(module, name, self._record)
        try:
            run()
        finally:
            setattr(module, name, self.kernel)
        if not self._calls:
            raise NotImplementedError(f"On this commit the fit makes no call of {kernel}.")

    def _record(self, *given: Any, **named: Any) -> Any:
        before = [self._keep(value) if isinstance(value, np.ndarray) else value for value in given]
        result = self.kernel(*given, **named)
        written = {
            at
            for at, value in enumerate(given)
            if isinstance(value, np.ndarray) and not _same(value, before[at])
        }
        self._calls.append((before, named, written))
        return result

    def _keep(self, array: NDArray[Any]) -> NDArray[Any]:
        """A copy, one for all calls that are given the same."""
        key = array.shape, array.dtype.str, hash(array.tobytes())
        if key not in self._kept:
            self._kept[key] = aligned_copy(array)
        return self._kept[key]

    def ready(self) -> Callable[[], None]:
        """Makes all calls, once: what they write are copies of its own."""
        calls = [
            ([aligned_copy(value) if at in written else value for at, value in enumerate(given)], named)
            for given, named, written in self._calls
        ]

        def run() -> None:
            for given, named in calls:
                self.kernel(*given, **named)

        return run


def aligned(shape: tuple[int, ...], dtype: Any = np.float64) -> NDArray[Any]:
    """An empty array that starts on a cache line, as fits allocate what their kernels write: elsewhere times
    depend on where.
    """
    count, size = int(np.prod(shape)), np.dtype(dtype).itemsize
    room = np.empty(count * size + 64, np.uint8)
    start = -room.ctypes.data % 64
    array: NDArray[Any] = room[start : start + count * size].view(dtype).reshape(shape)
    return array


def aligned_copy(array: NDArray[Any]) -> NDArray[Any]:
    copy = aligned(array.shape, array.dtype)
    copy[...] = array
    return copy


def _same(a: NDArray[Any], b: NDArray[Any]) -> bool:
    return a.tobytes() == b.tobytes()


def quietly(model: Any, *given: Any, **named: Any) -> Any:
    """A fit that may run out of steps without a word."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(*given, **named)


def map_arrays() -> None:
    """From now on the allocator maps arrays from 64 kB on and unmaps them at once: resident memory is memory
    in use.

    It is best called before anything large is allocated: freed parts of the heap are used again, whatever
    their size, and stay resident.
    """
    allocator = ctypes.CDLL(None)
    if hasattr(allocator, "mallopt"):
        trim_threshold, mmap_threshold = -1, -3
        allocator.mallopt(trim_threshold, 0)
        allocator.mallopt(mmap_threshold, 1 << 16)


def peak_beyond(run: Callable[[], Any]) -> int:
    """Bytes by which the resident memory of this process grows at most during `run`; Linux."""
    reset = Path("/proc/self/clear_refs")
    if not reset.exists():
        raise NotImplementedError("Peak memory of a part of a process is measured on Linux alone.")
    map_arrays()
    allocator = ctypes.CDLL(None)
    if hasattr(allocator, "malloc_trim"):
        allocator.malloc_trim(0)
    before = _resident("VmRSS")
    reset.write_text("5")
    run()
    return _resident("VmHWM") - before


def _resident(field: str) -> int:
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith(field)) * 1024
