"""``craftc predict``: assign the rows of a table to the clusters of a model."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path

from craftc._common.atomic_write import replacing
from craftc._common.messages import listed
from craftc._common.threads import effective_n_threads
from craftc.cli.arguments import PredictOptions, clean, in_options
from craftc.cli.assignments import (
    assignments,
    encoded,
    result_files,
    results_in,
    streamed_assignments,
    write_assignments,
    write_csv,
)
from craftc.cli.dask_cluster import connected, write_by
from craftc.cli.models import model_file
from craftc.cli.sources import is_read_in_batches, raw_table, refuse_further_missing_cells
from craftc.craft.base import CraftBase
from craftc.reading.like import match_columns
from craftc.saved.save_and_load import load_model
from craftc.table.out_of_core import files_of


def run(options: PredictOptions) -> None:
    effective_n_threads(options.threads)
    options.check()
    fitted = _model(options)
    if is_read_in_batches(options):
        refuse_further_missing_cells(options)
        _say(_predict_files(fitted, options), options)
        return
    rows, notes = match_columns(raw_table(options, fitted.schema_), fitted.schema_, options.table, options.na)
    _say(notes, options)
    frames = assignments(fitted, encoded(fitted, rows), places=rows.index.to_numpy())
    if options.out is None:
        write_csv(frames, sys.stdout)
    else:
        with replacing(options.out) as file:
            write_csv(frames, file)


def _model(options: PredictOptions) -> CraftBase:
    """The model, which no result overwrites."""
    path = model_file(options.model)
    if options.out is not None and os.path.exists(options.out):
        for name in (path, options.table):
            if os.path.exists(name) and os.path.samefile(options.out, name):
                raise ValueError(f"--out {options.out!r} would overwrite an input file; pass another name.")
    fitted = load_model(path)
    if not isinstance(fitted, CraftBase):
        raise ValueError(
            f"{os.fspath(path)!r} holds a fitted {type(fitted).__name__}; craftc predict needs a CRAFT."
        )
    fitted.n_threads = options.threads
    return fitted


def _predict_files(fitted: CraftBase, options: PredictOptions) -> dict[str, None]:
    """Predict the rows of files in batches, or by the workers of a cluster; returns notes."""
    table, out, notes = options.table, options.out, dict[str, None]()
    files = files_of(table)
    one = files == [table]
    if out is None and one and options.scheduler is not None:
        raise ValueError("The workers of --scheduler write the results: --out needs the name of a file.")
    if out is None and one:
        write_csv(streamed_assignments(fitted, table, notes), sys.stdout)
        return notes
    if not one and (out is None or (os.path.exists(out) and not os.path.isdir(out))):
        raise ValueError(
            f"{table!r} has {len(files)} file(s), which give as many results: --out needs the name of a "
            "folder."
        )
    target = Path(str(out))
    results = {table: target} if one else result_files(table, files, target)
    if options.scheduler is not None:
        with connected(options.scheduler) as client:
            notes |= write_by(client, fitted, results, options.scheduler)
    else:
        for file, result in results.items():
            notes |= write_assignments(fitted, file, result)
    written = set(results.values())
    others = [] if one else [name for name in results_in(target) if target / name not in written]
    if others:
        notes[
            f"{options.out} also holds results that this run has not written: {listed(others)}; remove them "
            "if their tables are gone."
        ] = None
    return notes


def _say(notes: Iterable[str], options: PredictOptions) -> None:
    for note in () if options.quiet else notes:
        print(f"craftc: note: {clean(in_options(note))}", file=sys.stderr)
