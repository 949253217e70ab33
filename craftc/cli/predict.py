"""``craftc predict``: assign the rows of a table to the clusters of a model."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from craftc._common.atomic_write import replacing
from craftc._common.threads import effective_n_threads
from craftc.cli.assignments import assignments, write_csv
from craftc.cli.cluster import HEADERS
from craftc.cli.columns import match_columns
from craftc.cli.text import clean
from craftc.cli.words import in_options
from craftc.craft import CRAFT
from craftc.model_file import load_model
from craftc.table.read import open_table


def run(
    *, model: str, table: str, out: str | None, quiet: bool, na: Sequence[str], skip: int, header: str, threads: int | None
) -> None:
    """Run the command; the parameters are its options."""
    effective_n_threads(threads)
    path = Path(model) / "model.craftc" if Path(model).is_dir() else Path(model)
    if Path(model).is_dir() and not path.exists():
        raise ValueError(f"The folder {model!r} has no model.craftc; pass a folder that craftc cluster --out has written.")
    if out is not None:
        for name in (path, table):
            if os.path.exists(name) and os.path.exists(out) and os.path.samefile(out, name):
                raise ValueError(f"--out {out!r} would overwrite an input file; pass another name.")
    fitted = load_model(path)
    if not isinstance(fitted, CRAFT):
        raise ValueError(f"{os.fspath(path)!r} holds a fitted {type(fitted).__name__}; craftc predict needs a CRAFT.")
    fitted.n_threads = threads
    raw = open_table(table, header=HEADERS[header], skip=skip)
    rows, notes = match_columns(raw, fitted.schema_, table, na)
    if not quiet:
        for note in notes:
            print(f"craftc: note: {clean(in_options(note))}", file=sys.stderr)
    frames = assignments(fitted, fitted.schema_.encode(rows, unknown=fitted.unknown, estimator_name="the model"))
    if out is None:
        write_csv(frames, sys.stdout)
    else:
        with replacing(out) as file:
            write_csv(frames, file)
