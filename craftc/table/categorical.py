"""The argument `categorical`: columns by name, by position, or as a mask."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from craftc._common.messages import shown
from craftc._common.typing import Array, ColumnSelection


def name_of(column: object, named: bool) -> str:
    """The name of a column that is given by name or, in a table without names, by position."""
    return str(column) if named or isinstance(column, str) else f"x{column}"


def is_mask(categorical: object) -> bool:
    """Whether `categorical` has one boolean for every column."""
    if isinstance(categorical, str) or not isinstance(categorical, Iterable):
        return False
    items = list(categorical)
    return bool(items) and all(isinstance(item, bool | np.bool_) for item in items)


def are_categorical(
    categorical: ColumnSelection, names: tuple[str, ...], named: bool, fitted: Sequence[int]
) -> bool:
    """Whether `categorical` agrees with a table in which the columns at these positions are categorical."""
    mask = column_mask(categorical, names)
    if mask is None:
        return True
    chosen = set(np.flatnonzero(mask).tolist())
    return chosen == set(fitted) or (named and not is_mask(categorical) and chosen.issubset(fitted))


def column_mask(categorical: ColumnSelection, names: tuple[str, ...]) -> Array | None:
    """The mask of the columns that `categorical` names (names, positions or a mask); None for "auto"."""
    if isinstance(categorical, str) and categorical == "auto":
        return None
    scalar = isinstance(categorical, str) or getattr(categorical, "ndim", 1) == 0
    if scalar or not isinstance(categorical, Iterable):
        raise ValueError(
            "categorical must be 'auto' or a list of column names, of positions, or of booleans, got "
            f"{shown(categorical)}."
        )
    items: list[object] = list(categorical)
    if is_mask(items):
        if len(items) != len(names):
            raise ValueError(
                f"categorical is a mask of length {len(items)}, but X has {len(names)} columns; pass one "
                "boolean per column."
            )
        return np.array(items, dtype=bool)
    mask = np.zeros(len(names), dtype=bool)
    for item in items:
        if isinstance(item, int | np.integer):
            if not 0 <= item < len(names):
                raise ValueError(
                    f"categorical names position {item}, but X has {len(names)} columns; positions start at "
                    "0."
                )
            mask[item] = True
        elif str(item) in names:
            mask[names.index(str(item))] = True
        else:
            known = ", ".join(map(repr, names[:20])) + (", ..." if len(names) > 20 else "")
            raise ValueError(f"categorical names column {item!r}, but X has the columns {known}.")
    return mask
