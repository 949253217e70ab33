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
from craftc.cli.assignments import write_assignments
from craftc.craft import CRAFT
from craftc.distributed.collections import without_rows
from craftc.distributed.dask.engine import active_workers
from craftc.distributed.dask.tasks import JobEnded, end_job, task_of

_PATIENCE = 30  # seconds to connect, to have no worker that runs tasks, and for tasks to stop


def write_on_cluster(fitted: CRAFT, results: Mapping[str, Path], address: str) -> dict[str, None]:
    """Write the assignments of the rows of files by the workers of a cluster; returns notes on columns.

    `results`: the file of the results of every file; the workers see both under the same absolute paths.

    Raises OSError: the scheduler or all workers are lost, or a worker cannot read or write a file. Complete
    files of results remain, no parts of files.
    """
    top = os.path.commonpath([result.parent.absolute() for result in results.values()])
    with connected(address) as client, unfinished_files(top) as within:
        return write_by(client, fitted, results, address, within)


def write_by(
    client: DaskClient, fitted: CRAFT, results: Mapping[str, Path], address: str, within: Path
) -> dict[str, None]:
    """As `write_on_cluster`, with a client of the scheduler and a folder for unfinished files.

    However it ends, no worker writes any more: after an error and Ctrl-C, tasks that have not begun are
    cancelled, and running ones stop before their next rows.
    """
    from dask import delayed
    from distributed import KilledWorker

    job = f"craftc-{uuid.uuid4().hex[:12]}"
    model = delayed(without_rows(fitted), traverse=False)
    write = delayed(_write, pure=False)
    futures = client.compute(
        [
            write(
                job,
                write_assignments,
                model,
                os.path.abspath(file),
                os.path.abspath(result),
                within.absolute(),
            )
            for file, result in results.items()
        ]
    )
    file_of = dict(zip(futures, results, strict=True))
    notes: dict[str, dict[str, None]] = {}
    try:
        for future in _finished(client, futures, address):
            try:
                notes[file_of[future]] = future.result()
            except OSError as error:
                raise OSError(
                    f"{file_of[future]!r}: a worker of {address} failed ({error}); the files, and the "
                    "folder of the results, must be "
                    "visible to all workers."
                ) from error
            except KilledWorker as error:
                raise OSError(
                    f"{file_of[future]!r}: several workers of {address} were lost while they predicted its "
                    "rows."
                ) from error
    except CancelledError as error:
        raise OSError(f"The scheduler {address} was lost before all files were predicted.") from error
    finally:
        client.cancel(futures)
        end_job(client, job, _PATIENCE)
    return {note: None for file in results for note in notes[file]}


def _write(
    job: str, write: Callable[..., dict[str, None]], fitted: CRAFT, file: str, result: str, within: Path
) -> dict[str, None]:
    """On a worker: write the assignments of the rows of one file."""
    try:
        with task_of(job) as check:
            return write(fitted, file, result, within=within, check=check)
    except JobEnded:
        return {}


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
                    "ones, whose memory is full; "
                    "start dask workers, or give them more memory."
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
    for logger in loggers:  # what is lost is reported once, by an error
        logger.setLevel(logging.CRITICAL)
    try:
        try:
            scheme, location = parse_address(address)
            if scheme in (
                "tcp",
                "tls",
            ):  # a client that finds the address wrong waits for a minute when it is deleted
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
