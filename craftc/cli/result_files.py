"""The files that ``craftc cluster --out`` writes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from craftc._common.atomic_write import replacing
from craftc.cli.answer import Answer
from craftc.cli.assignments import assignments, write_csv
from craftc.cli.columns import ColumnRoles
from craftc.model_file import save_model

NAMES = ("labels.csv", "summary.csv", "model.craftc")


def write_files(folder: Path, answer: Answer, roles: ColumnRoles, own_columns: Any | None) -> list[str]:
    """Write the files of a fit and return their names.

    Parameters
    ----------
    folder : path
        Created where it does not exist.
    answer : Answer
    roles : ColumnRoles
    own_columns : pandas.DataFrame, optional
        Columns of the table that labels.csv repeats; None: only the target, if there is one.
    """
    folder.mkdir(parents=True, exist_ok=True)
    model = answer.model
    with replacing(folder / "labels.csv") as file:
        write_csv(_labelled(model, roles, own_columns), file)
    with replacing(folder / "summary.csv") as file:
        summary = model.summary()
        summary.insert(1, "label", summary["cluster"])
        summary["cluster"] = answer.numbers[summary["label"]]
        summary.sort_values("cluster", kind="stable").to_csv(file, index=False, lineterminator="\n")
    save_model(model, folder / "model.craftc")
    return list(NAMES)


def _labelled(model: Any, roles: ColumnRoles, own_columns: Any | None) -> Iterator[Any]:
    """The assignments of all rows with the columns of the table, whose names are changed where they are taken."""
    if own_columns is None:
        own_columns = roles.features[[]] if roles.target is None else roles.target.to_frame()
    table = model.schema_.encode(roles.features, unknown=model.unknown, estimator_name="the model")
    first = 0
    for frame in assignments(model, table, model.labels_):
        own = own_columns.iloc[first : first + len(frame)].reset_index(drop=True)
        frame = frame.drop(columns="cost")
        own.columns = [f"{name}.table" if name in frame.columns else name for name in own.columns]
        yield frame.join(own)
        first += len(frame)
