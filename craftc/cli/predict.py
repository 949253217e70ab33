"""``craftc predict``: assign the rows of a table to the clusters of a model."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from craftc._common.atomic_write import replacing
from craftc._common.threads import effective_n_threads
from craftc.cli.assignments import assignments, write_csv
from craftc.cli.cluster import HEADERS
from craftc.cli.columns import match_columns
from craftc.cli.dask_cluster import write_on_cluster
from craftc.cli.out_of_core import is_read_in_batches, result_names, streamed_assignments, write_assignments
from craftc.cli.text import clean
from craftc.cli.words import in_options
from craftc.craft import CRAFT
from craftc.reading.read_table import open_table
from craftc.saved.save_and_load import load_model
from craftc.table.out_of_core import files_of


def run(
    *,
    model: str,
    table: str,
    out: str | None,
    quiet: bool,
    na: Sequence[str],
    skip: int,
    header: str,
    threads: int | None,
    in_batches: bool | None,
    scheduler: str | None,
) -> None:
    """Run the command; the parameters are its options."""
    effective_n_threads(threads)
    path = Path(model) / "model.craftc" if Path(model).is_dir() else Path(model)
    if Path(model).is_dir() and not path.exists():
        raise ValueError(
            f"The folder {model!r} has no model.craftc; pass a folder that craftc cluster --out has written."
        )
    if out is not None:
        for name in (path, table):
            if os.path.exists(name) and os.path.exists(out) and os.path.samefile(out, name):
                raise ValueError(f"--out {out!r} would overwrite an input file; pass another name.")
    fitted = load_model(path)
    if not isinstance(fitted, CRAFT):
        raise ValueError(
            f"{os.fspath(path)!r} holds a fitted {type(fitted).__name__}; craftc predict needs a CRAFT."
        )
    fitted.n_threads = threads
    if scheduler is not None and in_batches is None:
        in_batches = True
    if is_read_in_batches(table, in_batches):
        if na:
            raise ValueError("--na needs a table in memory; pass --in-memory, or write the cells as null.")
        _predict_files(fitted, table, out, quiet, scheduler)
        return
    if scheduler is not None:
        raise ValueError("--scheduler reads files in batches; leave out --in-memory.")
    raw = open_table(table, header=HEADERS[header], skip=skip)
    rows, notes = match_columns(raw, fitted.schema_, table, na)
    _say(notes, quiet)
    frames = assignments(
        fitted, fitted.schema_.encode(rows, unknown=fitted.unknown, estimator_name="the model")
    )
    if out is None:
        write_csv(frames, sys.stdout)
    else:
        with replacing(out) as file:
            write_csv(frames, file)


def _predict_files(fitted: Any, table: str, out: str | None, quiet: bool, scheduler: str | None) -> None:
    """Predict the rows of files in batches: one file into `out` or the standard output, a folder or pattern
    into the folder `out`.

    With the address of a scheduler, the workers of its cluster read and write.
    """
    notes: dict[str, None] = {}
    files = files_of(table)
    if files == [table] and scheduler is not None:
        if out is None:
            raise ValueError("The workers of --scheduler write the results: --out needs the name of a file.")
        notes |= write_on_cluster(fitted, {table: Path(out)}, scheduler)
    elif files == [table] and out is None:
        write_csv(streamed_assignments(fitted, table, notes), sys.stdout)
    elif files == [table]:
        notes |= write_assignments(fitted, table, str(out))
    elif out is None or (os.path.exists(out) and not os.path.isdir(out)):
        raise ValueError(
            f"{table!r} has {len(files)} file(s), which give as many results: --out needs the name of a "
            "folder."
        )
    else:
        results = {
            path: Path(out) / name for path, name in zip(files, result_names(table, files), strict=True)
        }
        for result in results.values():
            result.parent.mkdir(parents=True, exist_ok=True)
        if scheduler is not None:
            notes |= write_on_cluster(fitted, results, scheduler)
        else:
            for path, result in results.items():
                notes |= write_assignments(fitted, path, result)
    _say(notes, quiet)


def _say(notes: Iterable[str], quiet: bool) -> None:
    for note in () if quiet else notes:
        print(f"craftc: note: {clean(in_options(note))}", file=sys.stderr)
