"""Values as an error shows them, and parameters that are arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

_LONG = 100  # characters of a value in an error


def shown(value: Any) -> str:
    """The value as an error shows it: short, and without failing for numbers of thousands of digits."""
    if isinstance(value, int) and value.bit_length() > 200:
        return f"an integer of {value.bit_length()} bits"
    text = " ".join(repr(value).split())
    return text if len(text) <= _LONG else f"{text[:_LONG]}…"


def array_of(name: str, value: Any, wanted: str) -> NDArray[Any]:
    """A parameter as an array; raise ValueError, which says that it must be `wanted`, if its rows differ in
    length.
    """
    try:
        return np.asarray(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{name} must be {wanted}, got {shown(value)}, which is no array.") from error


def numbers_of(name: str, value: Any, wanted: str) -> NDArray[np.float64]:
    """A parameter as an array of float64; raise ValueError, which says that it must be `wanted`, unless it
    has numbers.
    """
    array = array_of(name, value, wanted)
    if array.dtype.kind not in "fiub":
        raise ValueError(f"{name} must be {wanted}, got {shown(value)} of type {array.dtype}.")
    return array.astype(np.float64)
