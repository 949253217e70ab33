"""``craftc compare``: how far the rows of a table are from those of the fit."""

from __future__ import annotations

import json

from craftc._common.threads import effective_n_threads
from craftc.cli.arguments import CompareOptions, clean, clusters_of
from craftc.cli.columns import own_column_names
from craftc.cli.drift import Comparison, Drift
from craftc.cli.log import Log
from craftc.cli.results import rows_as_seen, streamed_tables
from craftc.cli.sources import is_read_in_batches, refuse_further_missing_cells, table_like
from craftc.craft.base import CraftBase
from craftc.table.out_of_core import files_of

_MOST = 10  # columns that a page lists


def run(options: CompareOptions) -> None:
    effective_n_threads(options.threads)
    options.check()
    fitted = clusters_of(options.model, options.threads, options.table)
    drift, notes = Drift(fitted), dict[str, None]()
    log = Log(False, options.quiet)
    with log.warnings_as_notes():
        if is_read_in_batches(options):
            refuse_further_missing_cells(options)
            for file in files_of(options.table):
                for table, _, _ in streamed_tables(fitted, file, notes):
                    drift.add(table)
        else:
            _, rows, noted = table_like(options, fitted.schema_)
            notes |= dict.fromkeys(noted)
            drift.add(rows_as_seen(fitted, rows, options.table))
        log.notes(notes)
    found = drift.comparison()
    print(_document(fitted, found, options.table) if options.as_json else _page(fitted, found))


def _clusters(fitted: CraftBase, found: Comparison) -> list[tuple[int, str, int, float, float]]:
    """Number, name, rows, share and share in the fit of every cluster."""
    order, n = fitted._fitted.by_number.tolist(), max(found.rows, 1)
    names = fitted.cluster_names_
    return [
        (number, names[k], size, size / n, share)
        for number, (k, size, share) in enumerate(
            zip(order, found.sizes.tolist(), found.shares_of_fit.tolist(), strict=True), 1
        )
    ]


def _document(fitted: CraftBase, found: Comparison, table: str) -> str:
    content = {
        "table": table,
        "rows": found.rows,
        "drift": {"nats": found.drift, "cause": found.cause},
        "score": {"nats": found.score_nats, "mean": found.score, "mean_of_fit": found.score_of_fit},
        "shares": {"nats": found.shares_nats},
        "clusters": [
            {"number": number, "name": name, "rows": rows, "share": share, "share_of_fit": of_fit}
            for number, name, rows, share, of_fit in _clusters(fitted, found)
        ],
        "columns": [
            {
                "column": each.column,
                "nats": each.nats,
                "missing": each.missing,
                "missing_of_fit": each.missing_of_fit,
            }
            for each in found.columns
        ],
    }
    return json.dumps(content, indent=1)


def _page(fitted: CraftBase, found: Comparison) -> str:
    most = f"drift {found.drift:.3f} nats per row in {found.cause}" if found.drift > 0.0 else "no drift"
    lines = [f"{found.rows:,} rows, {most}.", ""]
    lines.append("cluster       rows   share  in the fit  name")
    for number, name, rows, share, of_fit in _clusters(fitted, found):
        lines.append(f"{number:7d}  {rows:9,d}  {share:6.1%}  {of_fit:10.1%}  {clean(name)}")
    lines += ["", f"Shares of the clusters: {found.shares_nats:.3f} nats."]
    if found.score is not None and found.score_of_fit is not None:
        lines.append(
            f"Log probability of a row: {found.score:.2f} nats, in the fit {found.score_of_fit:.2f}; lost "
            f"beyond chance: {found.score_nats:.3f}."
        )
    moved = [each for each in found.columns if each.nats > 0.0]
    lines += ["", f"Columns, the furthest first ({len(found.columns) - len(moved)} have not moved):"]
    names = own_column_names(fitted._own_names["columns"], fitted.schema_)
    for each in moved[:_MOST]:
        lost = f"; missing or unseen {each.missing:.1%}, in the fit {each.missing_of_fit:.1%}"
        same = each.missing == each.missing_of_fit == 0.0
        name = clean(names.get(each.column, each.column))
        lines.append(f"  {each.nats:7.3f} nats  {name}{'' if same else lost}")
    if len(moved) > _MOST:
        lines.append(f"  and {len(moved) - _MOST} more (--json lists all).")
    return "\n".join(lines)
