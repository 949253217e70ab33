"""``craftc cluster``: read a table, fit CRAFT, print the answer and write the files."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import Any

import numpy as np

from craftc._common.threads import effective_n_threads
from craftc.cli import target as targets
from craftc.cli.answer import Answer
from craftc.cli.columns import assign_roles
from craftc.cli.dask_cluster import connected
from craftc.cli.json_output import document
from craftc.cli.layout import Layout
from craftc.cli.out_of_core import column_errors, is_read_in_batches, read_roles
from craftc.cli.page import Result, page
from craftc.cli.progress_bar import ProgressBar
from craftc.cli.text import clean
from craftc.cli.words import in_options
from craftc.craft import CRAFT
from craftc.reading.read_table import open_table

HEADERS = {"infer": "infer", "yes": True, "no": False}


def run(
    *,
    table: str,
    clusters: int | str | None,
    target: str | None,
    ignore: Sequence[str],
    categorical: Sequence[str],
    numeric: Sequence[str],
    na: Sequence[str],
    skip: int,
    header: str,
    dates: str,
    missing: str,
    price_factor: float | str,
    seed: int,
    threads: int | None,
    stability: int | None,
    details: bool,
    all_features: bool,
    as_json: bool,
    quiet: bool,
    out: str | None,
    keep: bool,
    escape_formulas: bool,
    in_batches: bool | None,
    scratch: str | None,
    scheduler: str | None,
) -> None:
    """Run the command; the parameters are its options."""
    effective_n_threads(threads)
    if out is not None and not out.strip():
        raise ValueError("--out needs the name of a folder, got an empty one.")
    if out is not None and Path(out).exists() and not Path(out).is_dir():
        raise ValueError(f"--out {out!r} is a file; pass the name of a folder.")
    if scheduler is not None and in_batches is False:
        raise ValueError("--scheduler reads files in batches; leave out --in-memory.")
    with (
        ProgressBar(on=not quiet) as bar,
        warnings.catch_warnings(record=True) as caught,
        ExitStack() as stack,
    ):
        warnings.simplefilter("always")
        client = None if scheduler is None else stack.enter_context(connected(scheduler))
        bar.stage(f"reading {table}")
        chosen: dict[str, Any] = {
            "target": target,
            "ignore": ignore,
            "categorical": categorical,
            "numeric": numeric,
            "na_values": na,
        }
        chosen["split_dates"] = dates == "parts"
        raw = None
        if is_read_in_batches(table, True if scheduler is not None else in_batches):
            if stability is not None:
                raise ValueError("--stability needs a table in memory; pass --in-memory, or leave it out.")
            roles = read_roles(table, missing=missing, scratch=scratch, client=client, **chosen)
            if out is not None:
                roles.notes.append(
                    f"report.html {'and --keep need' if keep else 'needs'} a table in memory, and was left "
                    "out."
                )
        else:
            raw = open_table(table, header=HEADERS[header], skip=skip)
            roles = assign_roles(raw, **chosen)
        if roles.target is not None:
            roles.target = targets.without_infinities(roles.target, roles.notes)
        model = CRAFT(
            clusters if isinstance(clusters, int) else None,
            price_factor=price_factor,
            categorical="auto" if client is None else roles.levels,
            missing=missing,
            random_state=seed,
            n_threads=threads,
        )
        with column_errors() if client is not None else nullcontext():
            model.fit(roles.features, callback=bar.callback)
        n_found = model.n_clusters_
        if clusters == "suggested":
            model = model.at("suggested", roles.features if client is None else None)
        if stability is not None:
            bar.stage(f"stability: {stability} refits")
        stable = None if stability is None else model.stability(roles.features, stability)
        bar.stage("writing" if out is not None else "")
        answer = Answer(model)
        roles.notes = [in_options(note) for note in roles.notes]
        warned = list(dict.fromkeys(in_options(str(warning.message)) for warning in caught))
        result = Result(table, roles, clusters, n_found, answer, warned, stability=stable)
        if roles.target is not None:
            positions = answer.numbers[np.asarray(model.labels_)] - 1
            result.target = targets.compare(
                str(roles.target.name), roles.target, positions, model.n_clusters_
            )
        if out is not None:
            from craftc.cli.result_files import (
                in_report,
                write_far_files,
                write_files,
            )  # the report takes time to import

            title = "" if table == "-" else Path(table).name
            own = raw.frame if keep and raw is not None else None
            result.folder = out
            how: dict[str, Any] = {"escape_formulas": escape_formulas, "waiting": None if quiet else _note}
            if client is None:
                result.files = write_files(
                    Path(out), answer, roles, own_columns=own, stability=stable, title=title, **how
                )
            else:
                result.files = write_far_files(Path(out), answer, table, client, str(scheduler), **how)
            result.n_reported = model.n_clusters_ if roles.in_batches else in_report(model).n_clusters_
    if as_json:
        print(document(result))
    elif not quiet:
        print(
            "\n".join(
                page(Layout(sys.stdout), result, details=details or all_features, all_features=all_features)
            )
        )


def _note(text: str) -> None:
    print(f"craftc: note: {clean(text)}", file=sys.stderr)
