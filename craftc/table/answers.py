"""Columns that are the answers of one column of the table that was read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from craftc.table.mixed_table import Schema

YES = "yes"  # the level of an answer that was given


class AnswerGroup(NamedTuple):
    """The columns into which a column of several answers was split."""

    name: str
    positions: tuple[int, ...]
    options: tuple[str, ...]


def answer_groups(schema: Schema) -> list[AnswerGroup]:
    """The groups of columns of a table that are answers of one column of the table that was read."""
    place, groups = {name: d for d, name in enumerate(schema.columns)}, []
    levels = dict(zip(schema.categorical_names, schema.levels, strict=True))
    for name, recipe in schema.reading.get("columns", {}).items():
        options = recipe.get("options") if isinstance(recipe, Mapping) else None
        if not isinstance(options, list) or name in place:
            continue
        of_option = {f"{name}: {option}": option for option in options}
        known = [(place[each], option) for each, option in of_option.items() if YES in levels.get(each, ())]
        if len(known) > 1:
            positions, kept = zip(*sorted(known), strict=True)
            groups.append(AnswerGroup(name, positions, kept))
    return groups
