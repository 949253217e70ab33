"""Partitions on the workers of a Dask cluster.

A task is a pure function of the driver's message and of the partition that the worker holds. A worker that
does not hold the partition, or lacks labels of it, says so; the driver then has the partition read and its
recipes followed again, on any worker. Nothing waits for a worker that is gone: a task whose worker has left
the cluster is given to another one.
"""

from __future__ import annotations

import sys
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from craftc._common.typing import DaskClient, DaskFuture
from craftc.distributed.dask.tasks import end_here, end_job, has_ended, task_of
from craftc.distributed.engine import Engine, read_again, read_part, rebuilt
from craftc.distributed.partitions import (
    Absent,
    Call,
    Content,
    Message,
    Part,
    PartitionReading,
    Summary,
    answer,
)

if TYPE_CHECKING:
    from dask.delayed import Delayed

T = TypeVar("T")

_PATIENCE = 60.0  # seconds without any worker that runs tasks after which a fit is given up
_GLANCE = 1.0  # seconds between two looks at the workers while no task ends
_OFTEN_LOST = 3  # times that a partition may be lost before it is blamed
_STALE = 3600.0  # seconds without a question after which a worker forgets the partitions of a fit

_PATIENCE_AT_END = 10.0  # seconds that a fit that has failed waits for the tasks that still run

_fits: dict[str, dict[int, Part]] = {}  # on a worker: the partitions of every fit
_asked: dict[str, float] = {}  # on a worker: when they were last asked for


class DaskEngine(Engine):
    """Partitions on the workers of a cluster; `names` identify them in error messages."""

    def __init__(
        self, client: DaskClient, contents: Sequence[Delayed], names: Sequence[str] | None = None
    ) -> None:
        super().__init__()
        self.names = [f"Partition {i}" for i in range(len(contents))] if names is None else list(names)
        self.client, self.contents, self.n_partitions = client, contents, len(contents)
        self._fit = f"craftc-{uuid.uuid4().hex[:12]}"
        self._address = str(client.scheduler.addr) if client.scheduler is not None else "of the client"
        self._home: dict[int, str] = {}  # worker of every partition
        self._threads: dict[str, int] = {}  # of every worker
        self._lost: Counter[int] = Counter()  # times that a partition was lost with its worker

    # ---- rounds ----

    def _load(self) -> list[Summary]:
        summaries: dict[int, Summary] = {}
        with self._connected():
            for i, result in self._from_contents(
                _load, range(self.n_partitions), lambda i: (self.names[i], self.reading)
            ):
                self._home[i], summaries[i] = result
        self._threads = self._workers()
        return [summaries[i] for i in range(self.n_partitions)]

    def _round(self, message: Message) -> list[list[Any]]:
        self.n_rounds += 1
        found: dict[int, list[Any]] = {}

        def to_repeat(i: int) -> tuple[object, ...]:
            return self.names[i], self.reading, self.digests[i], *self.everything(message, i)

        with self._connected():
            for indices, result in self._results(self._step_tasks(message)):
                answers = zip(indices, result or (), strict=result is not None)  # None: its worker has left
                found |= {i: answer for i, answer in answers if answer is not None}
            if absent := [i for i in range(self.n_partitions) if i not in found]:
                for i, result in self._from_contents(_repeat, absent, to_repeat):
                    self._home[i], found[i] = result
                self._threads = self._workers()
        return [found[i] for i in range(self.n_partitions)]

    # ---- tasks ----

    def _step_tasks(self, message: Message) -> dict[DaskFuture, list[int]]:
        """A task for every thread of a worker, each with a group of the partitions that the worker holds."""
        tasks: dict[DaskFuture, list[int]] = {}
        of_worker: dict[str, list[int]] = {}
        for i in range(self.n_partitions):
            of_worker.setdefault(self._home[i], []).append(i)
        for worker, indices in of_worker.items():
            n_threads = self._threads.get(worker, 1)
            n_groups = min(len(indices), n_threads)
            where = {"workers": [worker], "allow_other_workers": False, "pure": False}
            for group in (indices[first::n_groups] for first in range(n_groups)):
                args = self._fit, group, message.for_partitions(group), n_threads // n_groups
                tasks[self.client.submit(_step, *args, key=self._key("step"), **where)] = group
        return tasks

    def _from_contents(
        self, function: Callable[..., T], indices: Sequence[int], args_of: Callable[[int], tuple[object, ...]]
    ) -> Iterator[tuple[int, T]]:
        """The results of tasks that read a partition on any worker; lost ones are sent again."""
        import dask

        each, waiting = dask.delayed(function, pure=False), list(indices)
        while waiting:
            parts = [(i, dask.delayed(args_of(i), traverse=False), self.contents[i]) for i in waiting]
            # sent at once, so that common ancestors of their contents are computed once
            futures: list[DaskFuture] = self.client.compute(
                [each(self._fit, *part, dask_key_name=self._key("read")) for part in parts]
            )
            tasks = dict(zip(futures, ([i] for i in waiting), strict=True))
            waiting = []
            for (i,), result in self._results(tasks, on_any_worker=True):
                if result is None:
                    waiting.append(i)
                else:
                    yield i, result

    def _key(self, kind: str) -> str:
        return f"{self._fit}-{kind}-{uuid.uuid4().hex[:8]}"

    def _results(
        self, tasks: dict[DaskFuture, list[int]], on_any_worker: bool = False
    ) -> Iterator[tuple[list[int], Any]]:
        """The results of tasks as they end; None for one lost with its worker that Dask does not move."""
        from distributed import CancelledError

        pending, patience = dict(tasks), dict.fromkeys(tasks, _GLANCE)
        seen = time.monotonic()
        try:
            while pending:
                done = self._ended_tasks(pending)
                if not done:
                    workers, active = self._workers(), active_workers(self.client)
                    if not on_any_worker:
                        homes = {task: self._home[indices[0]] for task, indices in pending.items()}
                        done = {task for task in pending if homes[task] not in workers}
                        active &= set(homes.values())
                    seen = time.monotonic() if active else seen
                    if time.monotonic() - seen > _PATIENCE:
                        raise self._gives_up(paused=bool(workers))
                for task in done:
                    indices = pending.pop(task)
                    seen = time.monotonic()
                    if task.status == "finished":
                        try:
                            result = task.result(timeout=patience[task])
                        except TimeoutError:  # a slow network, or its worker left after the task
                            self._workers()
                            pending[task], patience[task] = indices, 2.0 * patience[task]
                            continue
                        except CancelledError:
                            result = None
                        yield indices, result
                    else:
                        if task.status == "error":
                            self._blame(task, indices)
                        task.cancel()
                        yield indices, None
                    del task
        except BaseException:
            if self.client.status == "running":
                self.client.cancel(list(pending), force=True)
            raise

    def _ended_tasks(self, pending: dict[DaskFuture, list[int]]) -> set[DaskFuture]:
        """Tasks that have ended or are lost, as soon as there are any; none after a second."""
        from distributed import CancelledError, wait

        try:
            with self.client.as_current():  # whose tasks they are; another client may be the current one
                ended: set[DaskFuture] = wait(
                    list(pending), timeout=_GLANCE, return_when="FIRST_COMPLETED"
                ).done
        except TimeoutError:
            return set()
        except CancelledError:  # the scheduler is lost, or has lost its tasks
            self._workers()
            return {task for task in pending if task.status != "pending"}
        return ended

    def _blame(self, task: DaskFuture, indices: list[int]) -> None:
        """Raise the error of a task, unless its worker is to blame and partitions were not lost often."""
        from distributed import KilledWorker

        error = task.exception()
        if not isinstance(error, KilledWorker):
            raise error
        for i in indices:
            self._lost[i] += error.allowed_failures + 1
            if self._lost[i] >= _OFTEN_LOST:
                raise RuntimeError(
                    f"{self.names[i]} has been lost with its worker {self._lost[i]} times; give the workers "
                    "more memory, or make partitions smaller."
                ) from error

    @contextmanager
    def _connected(self) -> Iterator[None]:
        """Errors of a client that has been closed, because its scheduler is lost, name the scheduler."""
        try:
            yield
        except Exception as error:
            if self.client.status in ("closed", "closing") and not isinstance(error, ConnectionError):
                raise self._unreachable(error) from error
            raise

    def _unreachable(self, error: BaseException) -> ConnectionError:
        return ConnectionError(f"The Dask scheduler {self._address} cannot be reached: {error}")

    def _workers(self) -> dict[str, int]:
        """Threads of every worker of the cluster."""
        try:
            if self.client.status in ("closed", "closing"):
                raise OSError("the client is closed")
            threads: dict[str, int] = self.client.nthreads()
        except (OSError, TimeoutError) as error:
            raise self._unreachable(error) from error
        return threads

    def _gives_up(self, paused: bool) -> RuntimeError:
        if paused:
            return RuntimeError(
                f"The workers of the Dask cluster {self._address} have been paused for {_PATIENCE:.0f} s, "
                "because their memory is nearly full; give them more memory, or make partitions smaller."
            )
        return RuntimeError(
            f"The Dask cluster {self._address} has had no worker for {_PATIENCE:.0f} s; start workers and "
            "fit again."
        )

    def close(self) -> None:
        interrupted = isinstance(sys.exc_info()[1], KeyboardInterrupt)
        end_job(self.client, self._fit, 0.0 if interrupted else _PATIENCE_AT_END, _forget)


def active_workers(client: DaskClient) -> set[str]:
    """Addresses of the workers that run tasks; paused ones (memory nearly full) only complete those begun."""
    workers = client.scheduler_info(n_workers=-1)["workers"]
    return {
        address
        for address, worker in workers.items()
        if worker["status"] == "running" or worker["metrics"].get("task_counts", {}).get("executing", 0)
    }


# ---- on a worker ----


def _here() -> str:
    from distributed import get_worker

    return str(get_worker().address)


def _parts(fit: str) -> dict[int, Part]:
    """The partitions of a fit; fits without a question for an hour are forgotten."""
    now = time.monotonic()
    for other in [each for each, asked in list(_asked.items()) if now - asked > _STALE]:
        _drop(other)
    _asked[fit] = now
    return _fits.setdefault(fit, {})


def _load(fit: str, index: int, args: tuple[str, PartitionReading], content: Content) -> tuple[str, Summary]:
    name, reading = args
    with task_of(fit):
        part = read_part(name, reading, content)
        _keep(fit, index, part)
        return _here(), part.summary


def _step(fit: str, indices: list[int], message: Message, n_threads: int) -> list[list[Any] | None]:
    """The answers of some partitions; None for one that is not here."""
    with task_of(fit) as check:
        parts, answers = _parts(fit), []
        for i in indices:
            check()
            answers.append(_answer(parts.get(i), message.for_partition(i), n_threads))
        return answers


def _answer(part: Part | None, message: Message, n_threads: int) -> list[Any] | None:
    if part is None:
        return None
    part.n_threads = n_threads
    try:
        return answer(part, message)
    except Absent:
        return None
    finally:
        part.release_pages()


def _repeat(
    fit: str, index: int, args: tuple[str, PartitionReading, int, list[Call], Message], content: Content
) -> tuple[str, list[Any]]:
    """Read a partition again, follow the recipes, and answer."""
    name, reading, digest, prelude, message = args
    with task_of(fit):
        part = read_again(name, reading, digest, content)
        results = rebuilt(part, prelude, message)
        _keep(fit, index, part)
        return _here(), results


def _keep(fit: str, index: int, part: Part) -> None:
    """Keep a partition, unless its fit has ended while it was read."""
    _parts(fit)[index] = part
    part.release_pages()
    if has_ended(fit):
        _forget(fit)


def _forget(fit: str) -> int:
    """End a fit on this worker and free its partitions; the number of its tasks that still run."""
    n_running = end_here(fit)
    _drop(fit)
    return n_running


def _drop(fit: str) -> None:
    """Free the partitions of a fit; they are read again if the fit asks for them."""
    _fits.pop(fit, None)
    _asked.pop(fit, None)
