"""``craftc predict``: assign the rows of a table to the clusters of a model."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from craftc._common.messages import listed
from craftc._common.threads import effective_n_threads
from craftc.cli.arguments import DriftError, PredictOptions
from craftc.cli.dask_cluster import connected, write_by
from craftc.cli.errors import is_expected, message_of
from craftc.cli.log import Log
from craftc.cli.results import (
    NAME,
    Manifest,
    ResultForm,
    Written,
    checksum_of,
    counting_outliers,
    result_files,
    rows_as_seen,
    streamed_assignments,
    with_columns,
    write_assignments,
)
from craftc.cli.sources import (
    clusters_of,
    is_read_in_batches,
    model_file,
    refuse_further_missing_cells,
    table_like,
)
from craftc.cli.weights import LaterRows
from craftc.cli.writers import csv_writer, format_of, names_folder, result_file
from craftc.craft.base import CraftBase
from craftc.reading.many_files import paths_of
from craftc.table.out_of_core import files_of

if TYPE_CHECKING:
    import pandas as pd

_MOST_REASONS = 3  # of files that failed, in one message
_READING = ("header", "skip", "delimiter", "encoding", "sheet", "decimal", "blanks", "all_lines")


def run(options: PredictOptions) -> None:
    effective_n_threads(options.threads)
    options.check()
    log = Log(options.log == "json", options.quiet)
    fitted = clusters_of(options.model, options.threads, options.table, options.out)
    log.stage("model", file=str(model_file(options.model)), n_clusters=fitted.n_clusters_)
    drift = None if options.fail_on_drift is None else LaterRows(fitted, options)
    try:
        with log.warnings_as_notes():
            if is_read_in_batches(options, each_file=True):
                refuse_further_missing_cells(options)
                _predict_files(fitted, options, log, drift)
            else:
                _predict_tables(fitted, options, log, drift)
    except Exception:
        log.notes(_beyond(options, log, drift))  # the next run skips the files that are done
        raise
    log.stage("end")
    for message in _beyond(options, log, drift):
        raise DriftError(message)


def _beyond(options: PredictOptions, log: Log, drift: LaterRows | None) -> list[str]:
    """Log how far the rows that were read are from those of the fit; a message where that is too far."""
    if drift is None or options.fail_on_drift is None or not drift.n_rows:
        return []
    found = drift.comparison()
    log.notes(drift.notes())
    log.stage("drift", rows=found.n_rows, nats=found.drift, cause=found.cause)
    if found.drift <= options.fail_on_drift:
        return []
    return [
        f"{options.table!r} has drifted by {found.drift:.3g} nats in {found.cause}, more than "
        f"--fail-on-drift {options.fail_on_drift:g}; craftc compare shows all columns."
    ]


def _form(options: PredictOptions) -> ResultForm:
    return ResultForm(tuple(options.id), options.keep)


def _predict_tables(fitted: CraftBase, options: PredictOptions, log: Log, drift: LaterRows | None) -> None:
    """Predict the rows of files that are read whole: as one table, or each into a file of a folder."""
    table, out = options.table, options.out
    files = _several(table) if out is not None and names_folder(out) else []
    if out is not None and files:

        def write(file: str, result: Path) -> Written:
            return _write_table(fitted, replace(options, table=file), result, drift)

        _predict_folder(fitted, options, log, result_files(table, files, Path(out), options.format), write)
        return
    if out is None:
        rows, notes, frames = _assigned(fitted, options, drift)
        log.notes(notes)
        to_screen = csv_writer(sys.stdout)
        for frame in counting_outliers(frames, lambda note: log.notes([note])):
            to_screen(frame)
        log.stage("file", file=table, rows=rows)
        return
    format_of(out)  # an error before the work begins
    written = _write_table(fitted, options, out, drift)
    log.notes(written.notes)
    log.stage("file", file=table, rows=written.rows, result=out)


def _several(table: str) -> list[str]:
    """The files of a folder or pattern; none of a file."""
    if table == "-" or os.path.isfile(table):
        return []
    paths = paths_of(table, [])
    return [] if paths is None or paths == [table] else paths


def _assigned(
    fitted: CraftBase, options: PredictOptions, seen: LaterRows | None
) -> tuple[int, list[str], Iterator[pd.DataFrame]]:
    """The number of rows of a table that is read whole, notes, and the results in parts."""
    form, table = _form(options), options.table
    raw, rows, notes = table_like(options, fitted.schema_, aside=None if seen is None else seen.aside)
    as_seen = rows_as_seen(fitted, rows, table)
    if seen is not None:
        seen.add(as_seen, raw.frame.loc[rows.index])
    own = raw.frame.loc[rows.index] if form.ids or form.keep else None
    return len(rows), notes, with_columns(fitted, as_seen, rows.index.to_numpy(), own, form, table)


def _write_table(
    fitted: CraftBase, options: PredictOptions, result: str | os.PathLike[str], seen: LaterRows | None
) -> Written:
    """Write the results of a table that is read whole."""
    rows, notes, frames = _assigned(fitted, options, seen)
    with result_file(result) as write:
        for frame in counting_outliers(frames, notes.append):
            write(frame)
    return Written(rows, notes)


def _predict_files(fitted: CraftBase, options: PredictOptions, log: Log, drift: LaterRows | None) -> None:
    """Predict the rows of files in batches, or by the workers of a cluster."""
    table, out, form = options.table, options.out, _form(options)
    files = files_of(table)
    one = files == [table]
    if options.scheduler is not None and drift is not None:
        raise ValueError("--fail-on-drift reads the rows itself; leave out --scheduler.")
    if out is None and one and options.scheduler is not None:
        raise ValueError("The workers of --scheduler write the results: --out needs the name of a file.")
    if out is None and one:
        notes, write, rows = dict[str, None](), csv_writer(sys.stdout), 0
        for frame in counting_outliers(
            streamed_assignments(fitted, table, form, notes, drift), lambda note: notes.setdefault(note)
        ):
            write(frame)
            rows += len(frame)
        log.notes(notes)
        log.stage("file", file=table, rows=rows)
        return
    if not one and (out is None or (os.path.exists(out) and not os.path.isdir(out))):
        raise ValueError(
            f"{table!r} has {len(files)} file(s), which give as many results: --out needs the name of a "
            "folder."
        )
    target = Path(str(out))
    if not one:

        def write_file(file: str, result: Path) -> Written:
            return write_assignments(fitted, file, result, form, seen=drift)

        _predict_folder(fitted, options, log, result_files(table, files, target, options.format), write_file)
        return
    format_of(target)
    if options.scheduler is not None:
        with connected(options.scheduler) as client:
            log.notes(write_by(client, fitted, {table: target}, options.scheduler, form))
        return
    _finish(table, write_assignments(fitted, table, target, form, seen=drift), target, log)


def _predict_folder(
    fitted: CraftBase,
    options: PredictOptions,
    log: Log,
    results: dict[str, Path],
    write: Callable[[str, Path], Written],
) -> None:
    """Predict the rows of several files that are not done yet, by `write` or by the workers of a cluster."""
    form, folder = _form(options), Path(str(options.out))
    settings: dict[str, object] = {
        "model": checksum_of(model_file(options.model)),
        "id": list(form.ids),
        "keep": form.keep,
        "format": options.format,
        "reading": {name: getattr(options, name) for name in _READING} | {"na": list(options.na)},
    }
    manifest = Manifest(folder, results, settings)
    for entry in manifest.done:
        log.stage("skipped", file=entry.file, rows=entry.rows, result=str(results[entry.file]))
    if manifest.done:
        n = len(manifest.done)
        log.notes([f"{n} of {len(results)} file(s) are done, as {NAME} says, and were skipped."])
    if manifest.others:
        log.notes(
            [
                f"{options.out} also holds results that this run has not written: {listed(manifest.others)}; "
                "remove them if their tables are gone."
            ]
        )

    failures: dict[str, Exception] = {}

    def done(file: str, written: Written) -> None:
        manifest.finished(file, written.rows)
        _finish(file, written, results[file], log)

    def not_done(file: str, error: Exception) -> None:
        failures[file] = error
        manifest.failed(file, message_of(error))
        log.stage("failed", file=file, message=message_of(error))

    if options.scheduler is not None and manifest.left:
        with connected(options.scheduler) as client:
            rest = {file: results[file] for file in manifest.left}
            write_by(client, fitted, rest, options.scheduler, form, done, not_done)
        _raise_failures(failures, len(results))
        return
    for file in manifest.left:
        try:
            written = write(file, results[file])
        except Exception as error:  # others may be readable
            not_done(file, error)
        else:
            done(file, written)
    _raise_failures(failures, len(results))


def _raise_failures(failures: Mapping[str, Exception], n_files: int) -> None:
    """Raise an error if files have failed: a defect as it is, otherwise ValueError with their reasons."""
    for error in failures.values():
        if not is_expected(error):
            raise error
    if failures:
        each = [(file, message_of(error)) for file, error in failures.items()]
        said = [text if file in text else f"{file!r}: {text}" for file, text in each[:_MOST_REASONS]]
        more = f" {len(each) - len(said)} more are in {NAME}." if len(each) > len(said) else ""
        raise ValueError(
            f"{len(each)} of {n_files} files failed, and the next run tries them again; all others are done. "
            f"{' '.join(said)}{more}"
        )


def _finish(file: str, written: Written, result: Path, log: Log) -> None:
    log.notes(written.notes, file)
    log.stage("file", file=file, rows=written.rows, result=str(result))
