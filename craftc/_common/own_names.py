"""Names of one's own for columns and clusters, which a fitted estimator keeps and every description uses."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Mapping
from typing import TypedDict

from craftc._common.estimator import frame_library
from craftc._common.messages import quoted, shown


class OwnNames(TypedDict):
    """Names of clusters by their labels, and of columns by their names in the table."""

    clusters: dict[int, str]
    columns: dict[str, str]


def remember_input(estimator: object, X: object) -> None:
    """Set the library of the frame of a fit, and the names of columns that it brings; names of clusters end
    with the clusters that had them.
    """
    own = OwnNames(clusters={}, columns=labels_of(X))
    vars(estimator).update(_frame_library=frame_library(X), _own_names=own)


def labels_of(X: object) -> dict[str, str]:
    """The names of columns that a frame of `read_table`, or a MixedTable of one, brings."""
    reading = getattr(getattr(X, "schema", None), "reading", None)
    if not isinstance(reading, Mapping):
        attrs = getattr(X, "attrs", None)
        reading = attrs.get("reading") if isinstance(attrs, Mapping) else None
    labels = reading.get("labels") if isinstance(reading, Mapping) else None
    return dict(labels) if isinstance(labels, Mapping) else {}


def checked_name(option: str, of: object, name: object) -> str:
    """A name of one's own as one line; TypeError if it is no text, ValueError if it is empty."""
    if not isinstance(name, str):
        raise TypeError(f"{option}: a name must be a text, got {shown(name)} for {shown(of)}.")
    if not (text := " ".join(name.split())):
        raise ValueError(f"{option}: the name of {shown(of)} is empty; give it a text, or leave it out.")
    return text


def checked_columns(labels: object, columns: Collection[str], option: str = "labels") -> dict[str, str]:
    """Names of columns, checked: each column exists, and the names that result are all different."""
    if not isinstance(labels, Mapping):
        raise TypeError(f"{option} must map names of columns to names of your own, got {shown(labels)}.")
    for column in labels:
        if column not in columns:
            close = difflib.get_close_matches(str(column), list(map(str, columns)), n=2)
            hint = f" Did you mean {' or '.join(map(quoted, close))}?" if close else ""
            raise ValueError(f"{option}: the table has no column {quoted(str(column))}.{hint}")
    own = {str(column): checked_name(option, column, name) for column, name in labels.items()}
    check_distinct(option, "columns", [(column, own.get(column, column)) for column in map(str, columns)])
    return own


def check_distinct(option: str, what: str, names: Iterable[tuple[object, str]]) -> None:
    """Raise ValueError if two columns or clusters have one name."""
    seen: dict[str, object] = {}
    for of, name in names:
        if name in seen:
            both = f"{shown(seen[name])} and {shown(of)}"
            raise ValueError(
                f"{option}: {what} {both} would both be named {quoted(name)}; change one of them."
            )
        seen[name] = of
