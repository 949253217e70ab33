"""The CPU time and the memory that this process may use: limits of control groups, as containers set them."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path, PurePosixPath


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


_GROUPS = Path("/sys/fs/cgroup")


def available_memory() -> int | None:
    """Bytes of memory that are free or can be freed, within the limit of a container; half of all, where the
    system does not say; None if unknown.
    """
    try:
        with open("/proc/meminfo", encoding="utf-8") as file:
            free = next(int(line.split()[1]) << 10 for line in file if line.startswith("MemAvailable:"))
    except (OSError, StopIteration):
        try:
            return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
        except (AttributeError, OSError, ValueError):
            return None
    limit = _left_in_group()
    return free if limit is None else min(free, limit)


def _left_in_group() -> int | None:
    """Bytes that the control group of this process (cgroup v2) leaves; its cache of files can be freed.

    None without a limit.
    """
    try:
        own = next(
            line[4:] for line in Path("/proc/self/cgroup").read_text().splitlines() if line.startswith("0::/")
        )
        group = _GROUPS / own
        most = int((group / "memory.max").read_text())  # "max" without a limit
        used = int((group / "memory.current").read_text())
        details = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
        return max(most - used + int(details["inactive_file"]) + int(details["active_file"]), 0)
    except (OSError, StopIteration, ValueError, KeyError):
        return None
