"""Partitions on the workers of a Dask cluster.

A task is a pure function of what the driver sends and of the partition that the worker holds. A worker that does not hold the partition,
or lacks labels of it, says so; the driver then has the partition read and its recipes followed again, on any worker. Nothing waits for a
worker that is gone: a task whose worker has left the cluster is given to another one.
"""

from __future__ import annotations

import time
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from craftc.distributed.engines import Engine, read_part, rebuilt
from craftc.distributed.partitions import Absent, Message, Part, Reading, Summary, answer

_PATIENCE = 60.0  # seconds without any worker after which a fit is given up
_GLANCE = 1.0  # seconds between two looks at the workers while no task ends
_OFTEN_LOST = 3  # times that a partition may be lost before it is blamed
_STALE = 3600.0  # seconds after which a worker forgets the partitions of a fit that nobody asks for

_fits: dict[str, dict[int, Part]] = {}  # on a worker: the partitions of every fit
_asked: dict[str, float] = {}  # and when they were last asked for


class DaskEngine(Engine):
    """Partitions on the workers of a cluster.

    Parameters
    ----------
    client : distributed.Client
    contents : sequence of Delayed
        The partitions of a collection.
    names : sequence of str, optional
        What error messages call them; None: by their numbers.
    """

    def __init__(self, client: Any, contents: Sequence[Any], names: Sequence[str] | None = None) -> None:
        super().__init__()
        self.names = [f"Partition {i}" for i in range(len(contents))] if names is None else list(names)
        self.client, self.contents, self.n_partitions = client, contents, len(contents)
        self._fit = f"craftc-{uuid.uuid4().hex[:12]}"
        self._home: dict[int, str] = {}
        self._digests: dict[int, int] = {}
        self._lost: Counter[int] = Counter()

    # ---- rounds ----

    def load(self, reading: Reading) -> list[Summary]:
        self.reading = reading
        tasks = {self._content_task(_load, i, self.names[i], reading): [i] for i in range(self.n_partitions)}
        summaries: dict[int, Summary] = {}
        for (i,), result in self._results(tasks, lambda i: self._content_task(_load, i, self.names[i], reading)):
            self._home[i], summaries[i] = result
        self._digests = {i: summary.digest for i, summary in summaries.items()}
        return [summaries[i] for i in range(self.n_partitions)]

    def _round(self, message: Message) -> list[list[Any]]:
        self.n_rounds += 1
        found: dict[int, list[Any]] = {}
        tasks = {self._step_task(worker, indices, message, n_threads): indices for worker, indices, n_threads in self._groups()}
        absent: list[int] = []
        for indices, result in self._results(tasks, None):
            if result is None:  # its worker has left
                absent += indices
                continue
            for i, answers in zip(indices, result, strict=True):
                if answers is None:
                    absent.append(i)
                else:
                    found[i] = answers
        if absent:
            again = {self._repeat_task(i, message): [i] for i in absent}
            for (i,), result in self._results(again, lambda i: self._repeat_task(i, message)):
                self._home[i], found[i] = result
        return [found[i] for i in range(self.n_partitions)]

    def _groups(self) -> Iterator[tuple[str, list[int], int]]:
        """One group of partitions for every thread of a worker: the worker, the partitions, and threads for each."""
        of_worker: dict[str, list[int]] = {}
        for i in range(self.n_partitions):
            of_worker.setdefault(self._home[i], []).append(i)
        threads = self._workers()
        for worker, indices in of_worker.items():
            n_groups = min(len(indices), threads.get(worker, 1))
            for first in range(n_groups):
                yield worker, indices[first::n_groups], max(1, threads.get(worker, 1) // n_groups)

    # ---- tasks ----

    def _step_task(self, worker: str, indices: list[int], message: Message, n_threads: int) -> Any:
        return self.client.submit(
            _step, self._fit, indices, message.for_partitions(indices), n_threads,
            key=self._key("step"), workers=[worker], allow_other_workers=False, pure=False,
        )  # fmt: skip

    def _repeat_task(self, i: int, message: Message) -> Any:
        return self._content_task(_repeat, i, self.names[i], self.reading, self._digests[i], *self.everything(message, i))

    def _content_task(self, function: Any, i: int, *args: Any) -> Any:
        """A task that reads the content of a partition, on any worker."""
        import dask

        sent, key = dask.delayed(args, traverse=False), self._key("read")
        return self.client.compute(dask.delayed(function, pure=False)(self._fit, i, sent, self.contents[i], dask_key_name=key))

    def _key(self, kind: str) -> str:
        return f"{self._fit}-{kind}-{uuid.uuid4().hex[:8]}"

    def _results(self, tasks: dict[Any, list[int]], again: Any) -> Iterator[tuple[list[int], Any]]:
        """The results of tasks as they end. A task whose worker has left is made again by `again`; without it, its result is None."""
        from distributed import wait

        pending = dict(tasks)
        seen = time.monotonic()
        try:
            while pending:
                try:
                    done = wait(list(pending), timeout=_GLANCE, return_when="FIRST_COMPLETED").done
                except TimeoutError:
                    done = set()
                if not done:
                    workers = self._workers()
                    seen = time.monotonic() if workers else seen
                    if time.monotonic() - seen > _PATIENCE:
                        raise RuntimeError(
                            f"The Dask cluster {self._address} has had no worker for {_PATIENCE:.0f} s; start workers and fit again."
                        )
                    if again is None:  # tasks that belong to one worker
                        done = {task for task, indices in pending.items() if self._home[indices[0]] not in workers}
                for task in done:
                    indices = pending.pop(task)
                    seen = time.monotonic()
                    if task.status == "finished":
                        yield indices, task.result()
                    elif task.status == "error":
                        self._blame(task, indices)
                        pending |= {} if again is None else {again(i): [i] for i in indices}
                        if again is None:
                            yield indices, None
                    else:  # lost with its worker, or waiting for one that has left
                        task.cancel()
                        if again is None:
                            yield indices, None
                        else:
                            pending |= {again(i): [i] for i in indices}
                    del task
        except BaseException:
            self.client.cancel(list(pending), force=True)
            raise

    def _blame(self, task: Any, indices: list[int]) -> None:
        """Raise the error of a task, unless only its worker is to blame and the partitions have not been lost often."""
        from distributed import KilledWorker

        error = task.exception()
        if not isinstance(error, KilledWorker):
            raise error
        self._lost.update(indices)
        for i in indices:
            if self._lost[i] >= _OFTEN_LOST:
                raise RuntimeError(
                    f"{self.names[i]} has been lost with its worker {self._lost[i]} times; give the workers more memory, or make "
                    "partitions smaller."
                ) from error

    def _workers(self) -> dict[str, int]:
        """Threads of every worker of the cluster."""
        try:
            if self.client.status in ("closed", "closing"):
                raise OSError("the client is closed")
            threads: dict[str, int] = self.client.nthreads()
        except (OSError, TimeoutError) as error:
            raise ConnectionError(f"The Dask scheduler {self._address} cannot be reached: {error}") from error
        return threads

    @property
    def _address(self) -> str:
        return str(self.client.scheduler.addr) if self.client.scheduler is not None else "of the client"

    def close(self) -> None:
        from distributed import wait

        if self.client.status != "running":
            return
        tasks = [
            self.client.submit(_forget, self._fit, key=self._key("forget"), workers=[worker], pure=False, priority=100)
            for worker in self._workers()
        ]
        try:
            wait(tasks, timeout=5.0)
        except TimeoutError:  # a worker is busy or has left; it forgets later, or has
            return


# ---- on a worker ----


def _here() -> str:
    from distributed import get_worker

    return str(get_worker().address)


def _parts(fit: str) -> dict[int, Part]:
    """The partitions of a fit; those of fits that nobody has asked for during an hour are forgotten."""
    now = time.monotonic()
    for other in [each for each, asked in list(_asked.items()) if now - asked > _STALE]:
        _forget(other)
    _asked[fit] = now
    return _fits.setdefault(fit, {})


def _load(fit: str, index: int, args: tuple[Any, ...], content: Any) -> tuple[str, Summary]:
    """Read a partition."""
    name, reading = args
    part = read_part(name, reading, content)
    _parts(fit)[index] = part
    part.release_pages()
    return _here(), part.summary


def _step(fit: str, indices: list[int], message: Message, n_threads: int) -> list[Any]:
    """The answers of some partitions; None for one that is not here."""
    parts = _parts(fit)
    return [_answer(parts.get(i), message.for_partition(i), n_threads) for i in indices]


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


def _repeat(fit: str, index: int, args: tuple[Any, ...], content: Any) -> tuple[str, list[Any]]:
    """Read a partition again, follow the recipes, and answer."""
    name, reading, digest, prelude, message = args
    part = read_part(name, reading, content)
    if part.summary.digest != digest:
        raise ValueError(
            f"{name} has changed since the fit began: it was read again after a worker was lost, with other content. Files must "
            "not be written during a fit, and the collection must not be random; persist it or write it to Parquet."
        )
    results = rebuilt(part, prelude, message)
    _parts(fit)[index] = part
    part.release_pages()
    return _here(), results


def _forget(fit: str) -> None:
    """Free the partitions of a fit."""
    _fits.pop(fit, None)
    _asked.pop(fit, None)

