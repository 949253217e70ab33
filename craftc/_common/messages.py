"""Texts for users: values and names in messages, warnings, errors of parameters and missing packages."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Collection
from itertools import islice
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

_INSIDE = ("craftc", "sklearn")  # packages whose frames a warning skips
_LONGEST_VALUE = 100  # characters of a value in an error
_LONGEST_NAME = 60  # characters of a name, level or cell in a message


def warn_user(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the line of the user's code: the innermost caller outside craftc and scikit-learn."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).partition(".")[0] in _INSIDE:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


def shown(value: object) -> str:
    """The value as an error shows it: short, and without failing for numbers of thousands of digits."""
    if isinstance(value, int) and value.bit_length() > 200:
        return f"an integer of {value.bit_length()} bits"
    text = " ".join(repr(value.item() if isinstance(value, np.generic) else value).split())
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}…"


def array_of(name: str, value: object, wanted: str) -> NDArray[Any]:
    """A parameter as an array; raise ValueError, which names what is `wanted`, for ragged rows."""
    try:
        return np.asarray(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{name} must be {wanted}, got {shown(value)}, which is no array.") from error


def numbers_of(name: str, value: object, wanted: str) -> NDArray[np.float64]:
    """A parameter as float64; raise ValueError, which names what is `wanted`, unless it has numbers."""
    array = array_of(name, value, wanted)
    if array.dtype.kind not in "fiub":
        raise ValueError(f"{name} must be {wanted}, got {shown(value)} of type {array.dtype}.")
    return array.astype(np.float64)


def no_value(name: object, n_rows: int | None, remedy: str = "drop it") -> ValueError:
    """The error for a column whose cells are all missing; `remedy`: what to do about it."""
    return ValueError(f"Column {str(name)!r} has no value in any of its {n_rows} row(s); {remedy}.")


def need_pandas() -> ModuleType:
    """The pandas module, or ImportError with the command that installs it."""
    try:
        import pandas as pd
    except ImportError as error:
        raise ImportError("This needs pandas: pip install 'craftc[app]'.") from error
    module: ModuleType = pd
    return module


def as_text(cell: object) -> str:
    """The text of a cell as a level: 1, not 1.0."""
    if isinstance(cell, float | np.floating):
        return str(int(cell)) if float(cell).is_integer() else str(float(cell))
    return str(cell)


def no_table(path: str) -> str:
    """The message about the name of a file in the place of a table."""
    if os.path.isfile(path):
        return f"The name of a file was passed; pass the table craftc.read_table({path[:200]!r})."
    return f"There is no file {path[:200]!r}; pass a table, as craftc.read_table(FILE) returns it."


def check_encodable(files: Collection[str]) -> None:
    """Raise ValueError if pyarrow cannot open a file because of its name."""
    for file in files:
        try:
            file.encode()
        except UnicodeEncodeError as error:
            raise ValueError(
                f"The name {file!a} is not UTF-8, and pyarrow opens no such file; rename the file or its "
                "folder."
            ) from error


def quoted(text: str) -> str:
    """The beginning of a name, level or cell in quotes, for a message."""
    return repr(text if len(text) <= _LONGEST_NAME else text[:_LONGEST_NAME] + "…")


def listed(texts: Collection[str], most: int = 5) -> str:
    """The first names, levels or cells of several in quotes."""
    return ", ".join(map(quoted, islice(texts, most))) + (", …" if len(texts) > most else "")


def other_names(unseen: list[str], absent: list[str]) -> str:
    """The message of scikit-learn about columns that a fit did not have, or had."""
    message = "The feature names should match those that were passed during fit.\n"
    if unseen:
        message += "Feature names unseen at fit time:\n" + _bullets(unseen)
    if not absent:
        message += "Pass X[list(model.feature_names_in_)], or craftc.read_table(X, like=model) for a CRAFT.\n"
    else:
        message += "Feature names seen at fit time, yet now missing:\n" + _bullets(absent)
    return message


def _bullets(names: list[str]) -> str:
    return "".join(f"- {name}\n" for name in [*names[:5], *(["..."] if len(names) > 5 else [])])
