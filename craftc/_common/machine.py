"""The memory that this process may use, within the limit of a control group, as containers set it."""

from __future__ import annotations

import os
from pathlib import Path

_GROUPS = Path("/sys/fs/cgroup")


def available_memory() -> int | None:
    """Bytes of memory that can be used within the limit of a container; None if unknown."""
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
