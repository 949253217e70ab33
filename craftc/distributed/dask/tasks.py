"""Tasks on the workers of a Dask cluster that belong to one job (a fit or a command), and how a job ends.

Dask cannot interrupt a task that runs. A job therefore marks itself as ended on every worker: tasks that
begin later do nothing, running ones stop at their next check, and the driver waits until none is left.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from craftc._common.typing import DaskClient

_PAUSE = 0.02  # seconds between two questions whether tasks still run

_running: dict[object, str] = {}  # on a worker: the job of every task that runs
_ended: deque[str] = deque(maxlen=1 << 10)  # on a worker: jobs that have ended


class JobEnded(Exception):
    """The job of a task has ended: its result is not needed."""


@contextmanager
def task_of(job: str) -> Iterator[Callable[[], None]]:
    """Run the block as a task of a job; yields a function that raises JobEnded once the job has ended."""

    def check() -> None:
        if job in _ended:
            raise JobEnded(job)

    task = object()
    _running[task] = job
    try:
        check()
        yield check
    finally:
        del _running[task]


def has_ended(job: str) -> bool:
    """On a worker: whether a job has ended."""
    return job in _ended


def end_here(job: str) -> int:
    """On a worker: let the tasks of a job stop; returns how many still run."""
    if job not in _ended:
        _ended.append(job)
    return list(_running.values()).count(job)


def end_job(client: DaskClient, job: str, patience: float, end: Callable[[str], int] = end_here) -> None:
    """Stop the tasks of a job on all workers that can be reached, and wait until none runs, at most
    `patience` seconds; its futures have been cancelled.

    `end` runs on every worker, also while its threads are busy, and returns what `end_here` does.
    """
    last = time.monotonic() + patience
    while client.status == "running":
        try:
            running = client.run(end, job, on_error="ignore")
        except (OSError, TimeoutError):  # the scheduler is lost
            return
        if not any(running.values()) or time.monotonic() > last:
            return
        time.sleep(_PAUSE)
