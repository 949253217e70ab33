"""The files that ``craftc cluster --out`` writes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from craftc import report
from craftc._common.atomic_write import replacing, replacing_together
from craftc._common.messages import need_pandas
from craftc.cli.answer import Answer, numbers_by_size
from craftc.cli.assignments import assignments, without_formulas, write_csv
from craftc.cli.columns import ColumnRoles
from craftc.cli.dask_cluster import write_by
from craftc.cli.out_of_core import result_names
from craftc.report.write import shown_model
from craftc.saved.save_and_load import save_model
from craftc.table.out_of_core import files_of

NAMES = ("labels.csv", "summary.csv", "model.craftc", "report.html")


def write_files(
    folder: Path,
    answer: Answer,
    roles: ColumnRoles,
    *,
    own_columns: Any | None = None,
    stability: Any = None,
    title: str = "",
    escape_formulas: bool = False,
    waiting: Callable[[str], None] | None = None,
) -> list[str]:
    """Write the files of a fit, which replace those of a former one together, and return their names.

    Parameters
    ----------
    folder : path
        Created where it does not exist.
    answer : Answer
    roles : ColumnRoles
    own_columns : pandas.DataFrame, optional
        Columns of the table that labels.csv repeats; None: only the target, if there is one.
    stability : Stability, optional
        Of the clusters of the answer.
    title : str
        Of the report, which a table that was read in batches does not have.
    escape_formulas : bool
        Whether an apostrophe goes before texts that a spreadsheet would take as formulas.
    waiting : callable, optional
        Is called with a sentence if another process is writing to the folder.
    """
    model = answer.model
    shown = model if roles.in_batches else in_report(model)
    with replacing_together(folder, NAMES, waiting) as new:
        with replacing(new / "labels.csv") as file:
            frames = _labelled(model, shown, roles, own_columns)
            write_csv(map(without_formulas, frames) if escape_formulas else frames, file)
        _write_model(new, answer, escape_formulas)
        if roles.in_batches:
            return list(NAMES[:-1])
        report.write(
            model,
            roles.features,
            new / "report.html",
            target=roles.target if roles.target is not None and roles.target.notna().any() else None,
            stability=stability if shown is model else None,
            title=title,
        )
    return list(NAMES)


def write_far_files(
    folder: Path,
    answer: Answer,
    table: str,
    client: Any,
    address: str,
    *,
    escape_formulas: bool = False,
    waiting: Callable[[str], None] | None = None,
) -> list[str]:
    """Write the files of a fit on a cluster and return their names; its workers write the labels, one file
    for each file of the table.

    Parameters
    ----------
    folder : path
        Created where it does not exist; visible to the workers.
    answer : Answer
    table : str
        File, folder or pattern.
    client : distributed.Client
    address : str
        Of the scheduler.
    escape_formulas, waiting
        As in `write_files`.
    """
    files = files_of(table)
    with replacing_together(folder, NAMES, waiting) as new:
        results = {
            file: new / "labels" / name for file, name in zip(files, result_names(table, files), strict=True)
        }
        for result in results.values():
            result.parent.mkdir(parents=True, exist_ok=True)
        write_by(client, answer.model, results, address, new)
        _write_model(new, answer, escape_formulas)
    return ["labels/", *NAMES[1:-1]]


def _write_model(folder: Path, answer: Answer, escape_formulas: bool) -> None:
    """Write summary.csv and model.craftc."""
    with replacing(folder / "summary.csv") as file:
        summary = answer.model.summary()
        summary.insert(1, "label", summary["cluster"])
        summary["cluster"] = answer.numbers[summary["label"]]
        summary = summary.sort_values("cluster", kind="stable")
        write_csv([without_formulas(summary) if escape_formulas else summary], file)
    save_model(answer.model, folder / "model.craftc")


def in_report(model: Any) -> Any:
    """The model whose clusters report.html shows; the model itself, if these are all of its clusters."""
    shown = shown_model(model)
    return shown if shown.n_clusters_ < model.n_clusters_ else model


def _labelled(model: Any, shown: Any, roles: ColumnRoles, own_columns: Any | None) -> Iterator[Any]:
    """The assignments of all rows with the columns of the table, whose names are changed where they are
    taken.

    If report.html shows other clusters, their numbers are the column `report`.
    """
    if own_columns is None:
        own_columns = (
            need_pandas().DataFrame(index=range(len(roles.features)))
            if roles.target is None
            else roles.target.to_frame()
        )
    table = roles.features
    if not roles.in_batches:
        table = model.schema_.encode(table, unknown=model.unknown, estimator_name="the model")
    first = 0
    for frame in assignments(model, table, model.labels_):
        own = own_columns.iloc[first : first + len(frame)].reset_index(drop=True)
        frame = frame.drop(columns="cost")
        if shown is not model:
            frame["report"] = numbers_by_size(shown.cluster_sizes_)[shown.labels_[first : first + len(frame)]]
        own.columns = _free_names(own.columns, frame.columns)
        yield frame.join(own)
        first += len(frame)


def _free_names(names: Iterable[str], taken: Iterable[str]) -> list[str]:
    """The names, with ".table" behind those that are taken."""
    used, out = set(taken), []
    for name in names:
        while name in used:
            name = f"{name}.table"
        used.add(name)
        out.append(name)
    return out
