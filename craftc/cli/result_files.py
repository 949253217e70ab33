"""The files that ``craftc cluster --out`` writes."""

from __future__ import annotations

import sys
from pathlib import Path

from craftc import report
from craftc._common.atomic_write import replacing, replacing_together
from craftc.cli.answer import Answer
from craftc.cli.assignments import without_formulas, write_csv
from craftc.cli.page import Result
from craftc.cli.sources import TableSource
from craftc.cli.text import clean
from craftc.craft import CRAFT
from craftc.report.write import shown_model
from craftc.saved.save_and_load import save_model

NAMES = ("labels.csv", "summary.csv", "model.craftc", "report.html")


def write_files(source: TableSource, result: Result) -> None:
    """Write the files of a fit, which replace earlier files together; the result names them."""
    options, model, roles = source.options, result.answer.model, result.roles
    folder, has_report = Path(str(options.out)), "report.html" in source.files
    reported = _in_report(model) if has_report else model
    with replacing_together(folder, NAMES, None if options.quiet else _say) as new:
        source.write_labels(new, model, reported, roles)
        _write_model(new, result.answer, options.escape_formulas)
        features = roles.here
        if has_report and features is not None:
            report.write(
                model,
                features,
                new / "report.html",
                target=roles.target if roles.target is not None and roles.target.notna().any() else None,
                stability=result.stability if reported is model else None,
                title="" if options.table == "-" else Path(options.table).name,
            )
    result.folder, result.files, result.n_reported = str(options.out), source.files, reported.n_clusters_


def _say(text: str) -> None:
    print(f"craftc: note: {clean(text)}", file=sys.stderr)


def _in_report(model: CRAFT) -> CRAFT:
    """The model whose clusters report.html shows; the model itself, if these are all of its clusters."""
    shown = shown_model(model)
    return shown if shown.n_clusters_ < model.n_clusters_ else model


def _write_model(folder: Path, answer: Answer, escape_formulas: bool) -> None:
    """Write summary.csv and model.craftc."""
    with replacing(folder / "summary.csv") as file:
        summary = answer.model.summary()
        summary.insert(1, "label", summary["cluster"])
        summary["cluster"] = answer.numbers[summary["label"]]
        summary = summary.sort_values("cluster", kind="stable")
        write_csv([without_formulas(summary) if escape_formulas else summary], file)
    save_model(answer.model, folder / "model.craftc")
