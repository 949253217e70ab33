"""``craftc refit``: the clusters of a model on another table, and what became of them."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from craftc._common.atomic_write import replacing, replacing_together
from craftc._common.messages import need_pandas
from craftc._common.threads import effective_n_threads
from craftc._common.typing import Floats
from craftc.cli.arguments import RefitOptions, clean, in_options
from craftc.cli.assignments import labelled
from craftc.cli.cluster import ProgressBar, say, write_summary
from craftc.cli.columns import ColumnRoles
from craftc.cli.log import Log
from craftc.cli.sources import (
    cells_of_files,
    clusters_of,
    is_read_in_batches,
    refuse_further_missing_cells,
    table_like,
)
from craftc.cli.weights import LaterWeights
from craftc.cli.writers import without_formulas, write_csv
from craftc.craft import CRAFT
from craftc.craft.changes import Changes
from craftc.describe.view import numbers_of
from craftc.describe.words import count
from craftc.saved.save_and_load import save_model
from craftc.table import MixedTable
from craftc.table.extended import read_extended, recoded
from craftc.table.out_of_core import column_types

if TYPE_CHECKING:
    import pandas as pd

NAMES = ("labels.csv", "summary.csv", "changes.csv", "model.craftc", "report.html")


def run(options: RefitOptions) -> None:
    effective_n_threads(options.threads)
    options.check()
    model = clusters_of(options.model, options.threads, options.table)
    if not isinstance(model, CRAFT):
        raise ValueError(
            f"{options.model!r} holds a {type(model).__name__}, which craftc refit does not carry on; fit it "
            "again with craftc cluster."
        )
    log = Log(False, options.quiet)
    with ProgressBar(on=not options.quiet) as bar, warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        bar.stage(f"reading {options.shown}")
        weights = LaterWeights(model, options)
        table, own, of_rows, notes = _read(options, model, weights)
        keep = "clusters" if options.keep_clusters else "numbers"
        model.refit(table, sample_weight=of_rows, keep=keep, callback=bar.callback)
        if weights.used is not None:
            model._weight = weights.used
        notes = [
            *weights.notes(0.0 if of_rows is None else float(of_rows.sum())),
            *notes,
            *model.changes_.notes,
            *(str(each.message) for each in warned),
        ]
        if options.out is not None:
            bar.stage("writing")
            _write_files(options, model, table, own)
    log.notes(notes)
    if options.as_json:
        print(_document(options, model, notes))
    elif not options.quiet:
        print("\n".join(_page(options, model, table)))


def _read(
    options: RefitOptions, model: CRAFT, weights: LaterWeights
) -> tuple[pd.DataFrame | MixedTable, pd.DataFrame | None, Floats | None, list[str]]:
    """The table with the columns of a model, the table as it is (of batches None), weights, and notes."""
    schema = model.schema_
    if is_read_in_batches(options):
        refuse_further_missing_cells(options)
        if options.keep:
            raise ValueError("--keep needs a table in memory; pass --in-memory, or leave it out.")
        of_rows = weights.of(
            column_types(options.source), lambda name: cells_of_files(options, name).to_frame()
        )
        return read_extended(schema, options.source, "the model"), None, weights.scale(of_rows), []
    raw, rows, notes = table_like(options, schema, aside=weights.column, new_levels=not options.keep_clusters)
    own = raw.frame.loc[rows.index]
    return rows, own, weights.scale(weights.of(own.columns, lambda name: own[[name]])), notes


def _write_files(
    options: RefitOptions, model: CRAFT, table: pd.DataFrame | MixedTable, own: pd.DataFrame | None
) -> None:
    """Write the files of a refit, which replace earlier files together."""
    pd = need_pandas()
    escaped = without_formulas if options.escape_formulas else lambda frame: frame
    with replacing_together(Path(str(options.out)), NAMES, None if options.quiet else say) as new:
        rows = recoded(table, model.schema_) if isinstance(table, MixedTable) else table
        kept = own if options.keep and own is not None else pd.DataFrame(index=range(len(rows)))
        with replacing(new / "labels.csv") as file:
            write_csv(map(escaped, labelled(model, ColumnRoles(rows), kept)), file)
        write_summary(model, new / "summary.csv", options.escape_formulas)
        with replacing(new / "changes.csv") as file:
            write_csv([escaped(_frame(model))], file)
        save_model(model, new / "model.craftc")
        if own is not None:
            from craftc import report

            title = "" if options.shown == "-" else Path(options.shown).name
            report.write(model, table, new / "report.html", title=title)


def _frame(model: CRAFT) -> pd.DataFrame:
    """What became of every cluster, by the numbers of reports and files; blank where it has none."""
    found, numbers = model.changes_, numbers_of(model._fitted.by_number).tolist()
    lines = [
        {
            "change": each.change,
            "cluster": numbers[each.cluster] if each.cluster >= 0 else None,
            "name": each.name,
            "former": found.former_numbers[each.former] if each.former >= 0 else None,
            "other": _other(found, each.change, each.other, numbers),
            "then": each.then,
            "now": each.now,
        }
        for each in found.segments
    ]
    frame: pd.DataFrame = need_pandas().DataFrame(lines)
    return frame.astype(dict.fromkeys(("cluster", "former", "other"), "Int32"))


def _other(found: Changes, change: str, other: int, numbers: Sequence[int]) -> int | None:
    """The number of the cluster that was split, or that another one has joined."""
    if other < 0:
        return None
    return numbers[other] if change == "merged" else found.former_numbers[other]


def _document(options: RefitOptions, model: CRAFT, notes: Sequence[str]) -> str:
    found = model.changes_
    content = {
        "table": options.shown,
        "rows": found.rows,
        "keep": "clusters" if options.keep_clusters else "numbers",
        "n_clusters": model.n_clusters_,
        "objective": model.objective_,
        "notes": [in_options(note) for note in notes],
        "changes": json.loads(_frame(model).to_json(orient="records", double_precision=15)),
    }
    return json.dumps(content, indent=1)


def _page(options: RefitOptions, model: CRAFT, table: pd.DataFrame | MixedTable) -> list[str]:
    found, numbers = model.changes_, numbers_of(model._fitted.by_number).tolist()
    lines = [f"{count(found.rows)} rows: {found.counts}.", ""]
    lines += [f"  {clean(sentence)}" for sentence in found.sentences(numbers)]
    if options.out is not None:
        names = [name for name in NAMES if name != "report.html" or not isinstance(table, MixedTable)]
        lines += ["", f"Wrote {', '.join(names)} in {os.fspath(options.out)}"]
    return lines
