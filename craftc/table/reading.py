"""How a table was read from its texts, as `read_table` notes it and a model keeps it for new tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

#: "file": what was said about the form of the file; "columns": how the texts of each column were read;
#: "labels": names of one's own of columns.
Reading: TypeAlias = dict[str, dict[str, object]]

_PARTS = ("file", "columns", "labels")


def reading_of(X: object) -> Reading:
    """How a table was read, as the attributes of its frame say; empty if they do not."""
    noted = getattr(X, "attrs", {}).get("reading") if hasattr(X, "dtypes") else None
    return (
        {part: dict(noted[part]) for part in noted} if isinstance(noted, dict) and is_reading(noted) else {}
    )


def is_reading(value: object) -> bool:
    """Whether a value can say how a table was read."""
    if not isinstance(value, Mapping) or not all(part in _PARTS for part in value):
        return False
    if not all(
        isinstance(part, Mapping) and all(isinstance(key, str) for key in part) for part in value.values()
    ):
        return False
    columns = value.get("columns", {})
    known = all(isinstance(each, Mapping) and _are_plain(each) for each in columns.values())
    known &= all(isinstance(each, str) for each in value.get("labels", {}).values())
    return known and _are_plain(value.get("file", {}))


def _are_plain(values: Mapping[str, object]) -> bool:
    """Whether values are texts, numbers, or lists of texts."""
    return all(
        isinstance(each, str | int | float)
        or (isinstance(each, list) and all(isinstance(text, str) for text in each))
        for each in values.values()
    )
