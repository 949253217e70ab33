"""Weights of columns: what multiplies the nats of a column in the clusters of CRAFT."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from numbers import Real
from typing import Protocol, TypeAlias, cast

import numpy as np

from craftc._common.messages import listed, quoted, shown
from craftc.table.declared import name_of

#: Weights of columns, by name, or by position in an array.
WeightsInput: TypeAlias = "Mapping[str, float] | Mapping[int, float] | None"

LEAST_WEIGHT, LARGEST_WEIGHT = 1e-3, 1e3  # of a column that is used
_MOST_NAMED = 20  # columns in a note or an error
_STEPS = 2.0**30  # to a weight of 1: sums of weights are exact


class NamedColumns(Protocol):
    """The schema of a table."""

    @property
    def columns(self) -> tuple[str, ...]: ...
    @property
    def named(self) -> bool: ...
    @property
    def ignored(self) -> tuple[str, ...]: ...


class WeightsParameter:
    """The constraint of the parameter `column_weights`."""

    def check(self, name: str, value: object) -> None:
        _parsed(value)


def _parsed(weights: object) -> dict[str | int, float]:
    """The weights that a mapping gives to columns; raise ValueError or TypeError for what is no weight."""
    if weights is None:
        return {}
    if not isinstance(weights, Mapping):
        raise TypeError(f"column_weights must be a mapping of columns to weights, got {shown(weights)}.")
    for column, weight in weights.items():
        if isinstance(column, bool) or not isinstance(column, str | int | np.integer):
            raise TypeError(
                "column_weights must name columns by str, or those of an array by position, got "
                f"{shown(column)}."
            )
        if isinstance(weight, bool | np.bool_) or not isinstance(weight, Real):
            raise TypeError(
                f"column_weights must give column {column!r} a number, got {shown(weight)}; 2 counts it "
                "twice, 0 shows it but does not use it."
            )
        value = float(cast(float, weight))
        if value != 0.0 and not LEAST_WEIGHT <= value <= LARGEST_WEIGHT:
            raise ValueError(
                f"column_weights must give column {column!r} 0, or a weight from {LEAST_WEIGHT:g} to "
                f"{LARGEST_WEIGHT:g}, got {shown(weight)}."
            )
    return {column: float(weight) for column, weight in weights.items()}


def check_weighted_columns(weights: WeightsInput, schema: NamedColumns, set_aside: Collection[str]) -> None:
    """Raise ValueError if weights name a column that a table lacks or does not read, or name it twice, or
    leave no column; `set_aside`: columns that cannot be used, whose weights are not needed.
    """
    seen: set[str] = set()
    for column in _parsed(weights):
        name = name_of(column, schema.named)
        if name in schema.ignored:
            raise ValueError(
                f"column_weights names column {name!r}, which kinds ignores; with a weight of 0 and without "
                "'ignore' it is shown, but not used."
            )
        if name not in schema.columns and name not in set_aside:
            known = listed(schema.columns, _MOST_NAMED)
            raise ValueError(f"column_weights names column {column!r}, but X has the columns {known}.")
        if name in seen:
            raise ValueError(f"column_weights names column {name!r} twice; name it once.")
        seen.add(name)
    found = weights_of(weights, schema)
    if found and not any(found):
        raise ValueError("column_weights is 0 for all columns of X; at least one must be used.")


def weights_of(weights: WeightsInput, schema: NamedColumns) -> tuple[float, ...]:
    """The weight of every column of a table, in steps of 2^-30; empty if all are 1."""
    given = {name_of(column, schema.named): weight for column, weight in _parsed(weights).items()}
    found = tuple(math.ldexp(round(given.get(name, 1.0) * _STEPS), -30) for name in schema.columns)
    return () if all(weight == 1.0 for weight in found) else found


def weights_note(columns: Collection[str], weights: tuple[float, ...]) -> list[str]:
    """A note on the columns whose weight is not 1."""
    others = [(name, w) for name, w in zip(columns, weights, strict=True) if w != 1.0] if weights else []
    if not others:
        return []
    each = [f"{quoted(name)} " + (f"{w:g}" if w else "0 (shown, not used)") for name, w in others]
    more = ", …" if len(each) > _MOST_NAMED else ""
    return [f"Weights of columns: {', '.join(each[:_MOST_NAMED])}{more}."]
