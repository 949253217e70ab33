"""Names of one's own for columns and clusters, from a mapping or a file of two columns."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping
from typing import TypeAlias

from craftc._common.messages import quoted
from craftc._common.own_names import checked_columns
from craftc.reading.files import FileForm, read_file
from craftc.reading.input_file import TableError

Labels: TypeAlias = Mapping[str, str] | str | os.PathLike[str]

_CLUSTER = re.compile(r"cluster\s+(\d+)", re.IGNORECASE)
_HEADS = "name", "label", "new name", "short name", "title"  # of the second column, above the names


def read_labels(path: str | os.PathLike[str], option: str = "labels") -> dict[str, str]:
    """The lines of a file: a column of the table, or "cluster 1", and its name.

    Raises ValueError: the file has not two columns, or has a line twice.
    """
    frame = read_file(path, FileForm(header=False, all_lines=True)).frame
    shown = quoted(os.fspath(path))
    if frame.shape[1] != 2:
        raise TableError(
            f"{option}: {shown} has {frame.shape[1]} column(s); it needs two: a column of the table, or "
            "'cluster 1', and its name."
        )
    cells = frame.fillna("").astype(str)
    lines = [(old.strip(), new) for old, new in zip(cells.iloc[:, 0], cells.iloc[:, 1], strict=True)]
    if lines and lines[0][1].strip().casefold() in _HEADS and lines[0][0].casefold() != lines[0][1]:
        del lines[0]
    names: dict[str, str] = {}
    for old, new in lines:
        if old in names:
            raise TableError(f"{option}: {shown} names {quoted(old)} twice; keep one of the lines.")
        if old or new.strip():
            names[old] = new
    return names


def parted(names: Mapping[str, str], columns: Collection[str]) -> tuple[dict[str, str], dict[int, str]]:
    """The names of columns, and those of clusters by their numbers."""
    of_columns, of_clusters = dict[str, str](), dict[int, str]()
    for old, new in names.items():
        number = None if old in columns else _CLUSTER.fullmatch(old)
        if number is None:
            of_columns[old] = new
        else:
            of_clusters[int(number[1])] = new
    return of_columns, of_clusters


def column_labels(labels: Labels, columns: Collection[str]) -> dict[str, str]:
    """Names of columns from a mapping or a file; ValueError if one is that of a cluster."""
    names = read_labels(labels) if isinstance(labels, str | os.PathLike) else labels
    if isinstance(names, Mapping):
        texts = {str(old): new for old, new in names.items()}
        clusters = parted(texts, columns)[1]
        if clusters:
            raise TableError(
                f"labels: 'cluster {min(clusters)}' is no column; name clusters with rename_clusters after "
                "the fit."
            )
    return checked_columns(names, columns)
