"""``craftc predict``: assign the rows of a table to the clusters of a model."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from craftc._common.messages import listed
from craftc._common.threads import effective_n_threads
from craftc.cli.arguments import DriftError, PredictOptions
from craftc.cli.dask_cluster import connected, write_by
from craftc.cli.drift import Drift
from craftc.cli.log import Log
from craftc.cli.manifest import NAME, Manifest, checksum_of
from craftc.cli.models import model_file
from craftc.cli.results import (
    ResultForm,
    Seen,
    Written,
    result_files,
    rows_as_seen,
    streamed_assignments,
    with_columns,
    write_assignments,
)
from craftc.cli.sources import is_read_in_batches, raw_table, refuse_further_missing_cells
from craftc.cli.text_output import csv_writer
from craftc.cli.writers import format_of, result_file
from craftc.craft.base import CraftBase
from craftc.reading.like import match_columns
from craftc.saved.save_and_load import load_model
from craftc.table.out_of_core import files_of


def run(options: PredictOptions) -> None:
    effective_n_threads(options.threads)
    options.check()
    log = Log(options.log == "json", options.quiet)
    fitted = clusters_of(options.model, options.threads, options.table, options.out)
    log.stage("model", file=str(model_file(options.model)), n_clusters=fitted.n_clusters_)
    drift = None if options.fail_on_drift is None else Drift(fitted)
    if is_read_in_batches(options):
        refuse_further_missing_cells(options)
        _predict_files(fitted, options, log, drift)
    else:
        _predict_table(fitted, options, log, drift)
    log.stage("end")
    if drift is not None and options.fail_on_drift is not None:
        found = drift.comparison()
        log.stage("drift", nats=found.drift, cause=found.cause)
        if found.drift > options.fail_on_drift:
            raise DriftError(
                f"{options.table!r} has drifted by {found.drift:.3g} nats in {found.cause}, more than "
                f"--fail-on-drift {options.fail_on_drift:g}; craftc compare shows all columns."
            )


def clusters_of(model: str, threads: int | None, table: str, out: str | None = None) -> CraftBase:
    """The model of a command, which no result overwrites."""
    path = model_file(model)
    if out is not None and os.path.exists(out):
        for name in (path, table):
            if os.path.exists(name) and os.path.samefile(out, name):
                raise ValueError(f"--out {out!r} would overwrite an input file; pass another name.")
    fitted = load_model(path)
    if not isinstance(fitted, CraftBase):
        raise ValueError(
            f"{os.fspath(path)!r} holds a fitted {type(fitted).__name__}; this command needs a CRAFT."
        )
    fitted.n_threads = threads
    return fitted


def _form(options: PredictOptions) -> ResultForm:
    return ResultForm(tuple(options.id), options.keep)


def _predict_table(fitted: CraftBase, options: PredictOptions, log: Log, drift: Drift | None) -> None:
    """Predict the rows of a table in memory."""
    form, table = _form(options), options.table
    if options.out is not None:
        format_of(options.out)  # an error before the work begins
    raw = raw_table(options, fitted.schema_)
    rows, notes = match_columns(raw, fitted.schema_, table, options.na)
    log.notes(notes)
    seen = rows_as_seen(fitted, rows, table)
    if drift is not None:
        drift.add(seen)
    own = raw.frame.loc[rows.index] if form.ids or form.keep else None
    frames = with_columns(fitted, seen, rows.index.to_numpy(), own, form, table)
    if options.out is None:
        write = csv_writer(sys.stdout)
        for frame in frames:
            write(frame)
    else:
        with result_file(options.out) as write:
            for frame in frames:
                write(frame)
    log.stage("file", file=table, rows=len(rows), result=options.out)


def _predict_files(fitted: CraftBase, options: PredictOptions, log: Log, drift: Drift | None) -> None:
    """Predict the rows of files in batches, or by the workers of a cluster."""
    table, out, form = options.table, options.out, _form(options)
    seen = None if drift is None else drift.add
    files = files_of(table)
    one = files == [table]
    if options.scheduler is not None and drift is not None:
        raise ValueError("--fail-on-drift reads the rows itself; leave out --scheduler.")
    if out is None and one and options.scheduler is not None:
        raise ValueError("The workers of --scheduler write the results: --out needs the name of a file.")
    if out is None and one:
        notes, write, rows = dict[str, None](), csv_writer(sys.stdout), 0
        for frame in streamed_assignments(fitted, table, form, notes, seen):
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
        _predict_folder(fitted, options, log, result_files(table, files, target, options.format), seen)
        return
    format_of(target)
    if options.scheduler is not None:
        with connected(options.scheduler) as client:
            log.notes(write_by(client, fitted, {table: target}, options.scheduler, form))
        return
    _finish(table, write_assignments(fitted, table, target, form, seen=seen), target, log)


def _predict_folder(
    fitted: CraftBase, options: PredictOptions, log: Log, results: dict[str, Path], seen: Seen | None
) -> None:
    """Predict the rows of several files that are not done yet."""
    form, folder = _form(options), Path(str(options.out))
    settings: dict[str, object] = {
        "model": checksum_of(model_file(options.model)),
        "id": list(form.ids),
        "keep": form.keep,
        "format": options.format,
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

    def done(file: str, written: Written) -> None:
        manifest.finished(file, written.rows)
        _finish(file, written, results[file], log)

    if options.scheduler is not None and manifest.left:
        with connected(options.scheduler) as client:
            rest = {file: results[file] for file in manifest.left}
            write_by(client, fitted, rest, options.scheduler, form, done)
        return
    for file in manifest.left:
        try:
            written = write_assignments(fitted, file, results[file], form, seen=seen)
        except Exception as error:
            manifest.failed(file, str(error))
            log.stage("failed", file=file, message=str(error))
            raise
        done(file, written)


def _finish(file: str, written: Written, result: Path, log: Log) -> None:
    log.notes(written.notes, file)
    log.stage("file", file=file, rows=written.rows, result=str(result))
