"""Checks of the input of the metrics: labels and tables of features."""

from __future__ import annotations

from decimal import Decimal
from numbers import Real

import numpy as np

from craftc._common.typing import Array, Floats, FrameInput, RowsInput

_EXPECTED = "labels must be strings or integers"


def _is_missing(value: object) -> bool:
    """Whether a value is None, NaN, NaT or pandas' NA (whose comparison raises TypeError)."""
    try:
        return value is None or bool(value != value)
    except TypeError:
        return True


def check_labels(values: RowsInput, name: str) -> Array:
    """Labels as a 1-D array of strings or integers; anything else raises ValueError."""
    # lists are converted through objects, because NumPy converts a NaN among strings to "nan"
    labels = np.asarray(values, dtype=None if hasattr(values, "dtype") else object)
    if labels.ndim != 1:
        raise ValueError(
            f"{name} must be one-dimensional, got an array of shape {labels.shape}; pass one label per row."
        )
    if labels.size == 0:
        raise ValueError(f"{name} is empty; pass one label per row.")
    kind = labels.dtype.kind
    if kind == "O":
        if any(_is_missing(value) for value in labels):
            raise ValueError(f"{name} contains missing values; drop these rows or give them a label.")
        if len({isinstance(value, str) for value in labels}) > 1:
            raise ValueError(f"{name} mixes strings and other labels; use one kind of label.")
        labels = np.array(labels.tolist())
        kind = labels.dtype.kind
    if kind == "f":
        if not np.all(np.isfinite(labels)):
            raise ValueError(f"{name} contains NaN or infinite values; drop these rows or give them a label.")
        if np.any(labels != np.floor(labels)):
            fraction = labels[labels % 1 != 0][0]
            raise ValueError(f"{name} contains fractions such as {fraction}; {_EXPECTED}.")
    elif kind not in "iubUST":
        raise ValueError(f"{name} has dtype {labels.dtype}; {_EXPECTED}.")
    return labels


def check_features(features: FrameInput) -> Floats:
    """Features as float64 (n, l) with n >= 2 and l >= 1; anything else raises ValueError."""
    rows_and_columns = "pass one row per observation and one column per feature"
    try:
        values = np.asarray(features)
    except ValueError:
        raise ValueError(f"features has rows of different lengths; {rows_and_columns}.") from None
    if values.ndim != 2:
        raise ValueError(
            f"features must be two-dimensional, got an array of shape {values.shape}; {rows_and_columns}."
        )
    if values.shape[0] < 2 or values.shape[1] < 1:
        raise ValueError(
            f"features needs at least two rows and one column, got shape {values.shape}; {rows_and_columns}."
        )
    kind = values.dtype.kind
    if kind == "O":
        if any(_is_missing(cell) for cell in values.flat):
            raise ValueError("features contains NaN or other missing values; drop these rows or impute them.")
        others = (cell for cell in values.flat if not isinstance(cell, (Real, Decimal, np.bool_)))
        strange = ", ".join(sorted({type(cell).__name__ for cell in others}))
        if strange:
            raise ValueError(f"features contains non-numeric values ({strange}); encode these columns first.")
    elif kind not in "fiub":
        raise ValueError(
            f"features has dtype {values.dtype} but must contain real numbers; encode other columns first."
        )
    try:
        with np.errstate(over="ignore"):  # long doubles may overflow to inf, which is rejected below
            numbers = values.astype(np.float64)
    except OverflowError:
        raise ValueError(
            "features contains integers beyond the range of float64; scale these columns down."
        ) from None
    if not np.isfinite(numbers).all():
        raise ValueError("features contains NaN or infinite values; drop these rows or impute the values.")
    return numbers
