"""Predictions on a Dask cluster: its workers read the files, and write one file of results for each."""

from __future__ import annotations

import logging
import os
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager
from pathlib import Path

from craftc._common.atomic_write import unfinished_files
from craftc._common.typing import DaskClient, DaskFuture
from craftc.cli.results import ResultForm, Written, write_assignments
from craftc.craft.base import CraftBase
from craftc.distributed.collections import without_rows
from craftc.distributed.dask.engine import active_workers
from craftc.distributed.dask.tasks import JobEnded, end_job, task_of

_PATIENCE = 30  # seconds to connect, to have no worker that runs tasks, and for tasks to stop


def write_by(
    client: DaskClient,
    fitted: CraftBase,
    results: Mapping[str, Path],
    address: str,
    form: ResultForm,
    done: Callable[[str, Written], None] = lambda file, written: None,
    failed: Callable[[str, Exception], None] | None = None,
) -> dict[str, None]:
    """Write the assignments of the rows of files by the workers of a cluster; returns notes on columns.

    `results`: the file of the results of every file; the workers see both under the same absolute paths.
    `done` is called with every file whose results are complete, and `failed` with every one whose content a
    worker cannot read; None: its error is raised.

    However it ends, no worker writes any more: tasks that have not begun are cancelled, running ones stop
    before their next rows. Raises OSError if the scheduler or all workers are lost, or if a worker cannot
    read or write a file. Complete files of results remain, no parts of files.
    """
    from dask import delayed
    from distributed import KilledWorker

    job, futures = f"craftc-{uuid.uuid4().hex[:12]}", list[DaskFuture]()
    model, write = delayed(without_rows(fitted), traverse=False), delayed(_write, pure=False)
    notes: dict[str, dict[str, None]] = {}
    top = os.path.commonpath([result.parent.absolute() for result in results.values()])
    with unfinished_files(top) as within:
        try:
            shared = job, write_assignments, model, str(within), form
            tasks = [
                write(*shared, os.path.abspath(file), os.path.abspath(results[file])) for file in results
            ]
            futures = client.compute(tasks)
            file_of = dict(zip(futures, results, strict=True))
            for future in _finished(client, futures, address):
                file = file_of[future]
                try:
                    written = future.result()
                    notes[file] = dict.fromkeys(written.notes)
                    done(file, written)
                except (OSError, ValueError, TypeError) as error:
                    of_file = not isinstance(error, OSError) or _is_damaged(error)
                    if of_file and failed is not None:
                        failed(file, error)
                        continue
                    if not isinstance(error, OSError):
                        raise
                    raise OSError(
                        f"{file!r}: a worker of {address} failed ({error}); the files, and the folder of the "
                        "results, must be visible to all workers."
                    ) from error
                except KilledWorker as error:
                    raise OSError(
                        f"{file!r}: several workers of {address} were lost while they predicted its rows."
                    ) from error
        except CancelledError as error:
            raise OSError(f"The scheduler {address} was lost before all files were predicted.") from error
        finally:
            client.cancel(futures)
            end_job(client, job, _PATIENCE)
    return {note: None for file in results for note in notes.get(file, ())}


def _is_damaged(error: OSError) -> bool:
    """Whether the content of a file is the problem, and not the machine or the folder."""
    return error.errno is None and not isinstance(error, FileNotFoundError)


def _write(
    job: str,
    write: Callable[..., Written],
    fitted: CraftBase,
    within: str,
    form: ResultForm,
    file: str,
    result: str,
) -> Written:
    """On a worker: write the assignments of the rows of one file."""
    try:
        with task_of(job) as check:
            return write(fitted, file, result, form, within=within, check=check)
    except JobEnded:
        return Written()


def _finished(client: DaskClient, futures: Sequence[DaskFuture], address: str) -> Iterator[DaskFuture]:
    """The futures as they finish, while the cluster has workers."""
    from distributed import wait

    waiting = set(futures)
    while waiting:
        try:
            done, waiting = wait(waiting, timeout=_PATIENCE, return_when="FIRST_COMPLETED")
        except TimeoutError as error:
            if not active_workers(client):
                raise OSError(
                    f"The scheduler {address} has had no workers for {_PATIENCE} seconds, or only paused "
                    "ones, whose memory is full; start dask workers, or give them more memory."
                ) from error
            continue
        yield from done


@contextmanager
def connected(address: str) -> Iterator[DaskClient]:
    """A client of a scheduler."""
    try:
        from distributed import Client
        from distributed.comm.addressing import parse_address, parse_host_port
    except ImportError as error:
        raise ImportError("--scheduler needs Dask: pip install 'craftc[dask]'.") from error
    loggers = [logging.getLogger(name) for name in ("distributed", "distributed.client")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:  # an error reports a lost scheduler once
        logger.setLevel(logging.CRITICAL)
    try:
        try:
            scheme, location = parse_address(address)
            if scheme in ("tcp", "tls"):  # Client would need a minute to find the address wrong
                parse_host_port(location)
            client = Client(address, timeout=_PATIENCE, set_as_default=False)
        except (OSError, ValueError) as error:
            raise OSError(
                f"No Dask scheduler answers at {address!r} ({error}); pass an address as tcp://HOST:8786."
            ) from error
        with client, client.as_current():
            yield client
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
