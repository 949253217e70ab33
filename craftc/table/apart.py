"""Some columns of a table apart from the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import narwhals.stable.v2 as nw

from craftc._common.messages import shown
from craftc._common.typing import EncodedTable, FrameInput
from craftc.table.mixed_table import MixedTable


def columns_apart(
    table: FrameInput | EncodedTable, names: Sequence[str]
) -> tuple[FrameInput | EncodedTable, FrameInput] | None:
    """The table without some of its columns, and these columns; None if it lacks one of them."""
    if isinstance(table, Mapping):
        if any(name not in table for name in names):
            return None
        others = {name: column for name, column in table.items() if name not in names}
        return others, {name: table[name] for name in names}
    if isinstance(table, MixedTable):
        return None
    frame = nw.from_native(table, eager_only=True, pass_through=True)
    if not isinstance(frame, nw.DataFrame) or any(name not in frame.columns for name in names):
        return None
    return frame.drop(list(names)).to_native(), frame.select(list(names)).to_native()


def as_names(option: str, names: object) -> list[str]:
    """A name, or several different ones, as a list."""
    each = [names] if isinstance(names, str) else names
    if not isinstance(each, list | tuple) or not all(isinstance(name, str) for name in each):
        raise TypeError(f"{option} must be the name of a column or a list of names, got {shown(names)}.")
    return list(dict.fromkeys(each))
