"""``craftc compare``: how far the rows of a table are from those of the fit."""

from __future__ import annotations

import json

from craftc._common.threads import effective_n_threads
from craftc.cli.arguments import CompareOptions, clean
from craftc.cli.columns import own_column_names
from craftc.cli.log import Log
from craftc.cli.results import rows_as_seen, streamed_tables
from craftc.cli.sources import clusters_of, is_read_in_batches, refuse_further_missing_cells, table_like
from craftc.cli.weights import LaterRows
from craftc.craft.answers.comparison import Comparison
from craftc.craft.base import CraftBase
from craftc.describe.words import count
from craftc.table.out_of_core import files_of

_MOST = 10  # columns that a page lists


def run(options: CompareOptions) -> None:
    effective_n_threads(options.threads)
    options.check()
    fitted = clusters_of(options.model, options.threads, options.table)
    drift, notes = LaterRows(fitted, options), dict[str, None]()
    log = Log(False, options.quiet)
    with log.warnings_as_notes():
        if is_read_in_batches(options):
            refuse_further_missing_cells(options)
            for file in files_of(options.table):
                for table, part, _ in streamed_tables(fitted, file, notes, drift.aside):
                    drift.add(table, part)
        else:
            raw, rows, noted = table_like(options, fitted.schema_, aside=drift.aside)
            notes |= dict.fromkeys(noted)
            drift.add(rows_as_seen(fitted, rows, options.table), raw.frame.loc[rows.index])
        log.notes([*drift.notes(), *notes])
    found = drift.comparison()
    print(_document(fitted, found, drift, options.table) if options.as_json else _page(fitted, found))


def _clusters(fitted: CraftBase, found: Comparison) -> list[tuple[int, str, float, float, float]]:
    """Number, name, rows, share and share in the fit of every cluster."""
    return [
        (number, found.names[k], float(found.sizes[k]), float(found.now[k]), float(found.then[k]))
        for number, k in enumerate(fitted._fitted.by_number.tolist(), 1)
    ]


def _columns(found: Comparison) -> list[tuple[str, float, float, float]]:
    """Name, nats, and shares of missing or unseen cells then and now of every column, the furthest first."""
    each = zip(map(str, found.columns), found.feature_drift.tolist(), *found.missing.tolist(), strict=True)
    return sorted(each, key=lambda column: -column[1])


def _document(fitted: CraftBase, found: Comparison, drift: LaterRows, table: str) -> str:
    of_fit, mean = found.scores or (None, None)
    content = {
        "table": table,
        "rows": found.n_rows,
        "weight": None if drift.weight is None else drift.weight._asdict(),
        "drift": {"nats": found.drift, "cause": found.cause},
        "score": {"nats": found.score_drift, "mean": mean, "mean_of_fit": of_fit},
        "shares": {"nats": found.cluster_drift},
        "clusters": [
            {
                "number": number,
                "name": name,
                "rows": int(rows) if rows.is_integer() else rows,
                "share": share,
                "share_of_fit": share_of_fit,
            }
            for number, name, rows, share, share_of_fit in _clusters(fitted, found)
        ],
        "columns": [
            {"column": name, "nats": moved, "missing": now, "missing_of_fit": then}
            for name, moved, then, now in _columns(found)
        ],
    }
    return json.dumps(content, indent=1)


def _page(fitted: CraftBase, found: Comparison) -> str:
    most = f"drift {found.drift:.3f} nats per row in {found.cause}" if found.drift > 0.0 else "no drift"
    lines = [f"{found.n_rows:,} rows, {most}.", ""]
    lines.append("cluster       rows   share  in the fit  name")
    for number, name, rows, share, of_fit in _clusters(fitted, found):
        lines.append(f"{number:7d}  {count(rows):>9}  {share:6.1%}  {of_fit:10.1%}  {clean(name)}")
    lines += ["", f"Shares of the clusters: {found.cluster_drift:.3f} nats."]
    if found.scores is not None:
        of_fit, mean = found.scores
        lost = f"lost beyond chance: {found.score_drift:.3f}"
        lines.append(f"Log probability of a row: {mean:.2f} nats, in the fit {of_fit:.2f}; {lost}.")
    columns = _columns(found)
    moved = [each for each in columns if each[1] > 0.0]
    lines += ["", f"Columns, the furthest first ({len(columns) - len(moved)} have not moved):"]
    names = own_column_names(fitted._own_names["columns"], fitted.schema_)
    for column, drift, then, now in moved[:_MOST]:
        missing = f"; missing or unseen {now:.1%}, in the fit {then:.1%}" if then > 0.0 or now > 0.0 else ""
        lines.append(f"  {drift:7.3f} nats  {clean(names.get(column, column))}{missing}")
    if len(moved) > _MOST:
        lines.append(f"  and {len(moved) - _MOST} more (--json lists all).")
    return "\n".join(lines)
