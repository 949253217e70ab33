"""What a column is: one table of kinds for frames, dicts of columns, arrays, Arrow files and read texts; and
words for true and false, which databases and programs turn into truth values and back.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from enum import StrEnum
from numbers import Number
from typing import TYPE_CHECKING, Any, TypeGuard, TypeVar

import narwhals.stable.v2 as nw
import numpy as np

from craftc._common.typing import Array, ArrowField, ArrowSchema

if TYPE_CHECKING:
    import pandas as pd

_MANY_COLUMNS = 100  # from which an object for each takes longer to make than a copy of the frame
#: Results of infer_dtype for moments in time, and for durations.
INFERRED_DATES = ("datetime", "datetime64", "date", "period")
INFERRED_DURATIONS = ("timedelta", "timedelta64")
T = TypeVar("T")
_PAIRS = (
    ("true", "false"),
    ("t", "f"),
    ("yes", "no"),
    ("y", "n"),
    ("on", "off"),
    ("ja", "nein"),
    ("j", "n"),
    ("wahr", "falsch"),
    ("oui", "non"),
    ("vrai", "faux"),
    ("sí", "no"),
    ("si", "no"),
    ("verdadero", "falso"),
    ("vero", "falso"),
)
_MARKS = (("1", "0"), ("1.0", "0.0"), ("x", "no"), ("✓", "no"), ("✔", "no"))  # of numbers and ticked boxes


class ColumnKind(StrEnum):
    """Kind of a column by the types of its cells."""

    NUMBER = "number"
    LEVEL = "level"  # declared categories, booleans
    TEXT = "text"
    EMPTY = "empty"  # no value
    MIXED = "mixed"  # text and numbers, or other objects
    OTHER = "other"  # dates, lists: never read

    @property
    def is_categorical(self) -> bool:
        """Whether a column of this kind is categorical unless the caller says otherwise."""
        return self in (ColumnKind.LEVEL, ColumnKind.TEXT)


#: Kind by the result of pandas.api.types.infer_dtype; all others are OTHER.
INFERRED = {
    "string": ColumnKind.TEXT,
    "boolean": ColumnKind.LEVEL,
    "empty": ColumnKind.EMPTY,
    **dict.fromkeys(
        ("integer", "floating", "mixed-integer-float", "decimal", "integer-na"), ColumnKind.NUMBER
    ),
    **dict.fromkeys(("mixed", "mixed-integer"), ColumnKind.MIXED),
}
_OF_DTYPE = {"b": ColumnKind.LEVEL, "i": ColumnKind.NUMBER, "u": ColumnKind.NUMBER, "f": ColumnKind.NUMBER}


def is_missing(cell: object) -> bool:
    """Whether an object is None or one of pandas' missing values; NaN is a number."""
    return cell is None or type(cell).__name__ in ("NAType", "NaTType")


def kind_of_dtype(dtype: np.dtype[np.generic]) -> ColumnKind:
    """Kind of the columns of an array that does not hold objects."""
    return _OF_DTYPE.get(dtype.kind, ColumnKind.OTHER)


def is_narrow(dtype: np.dtype[np.generic]) -> bool:
    """Whether float32 represents the values of a dtype exactly; integers become float64."""
    return dtype.kind == "f" and dtype.itemsize <= 4


def is_object(series: nw.Series[Any]) -> bool:
    """Whether a column of a frame holds Python objects."""
    return bool(series.implementation.is_pandas() and series.to_native().dtype == object)


def is_block(X: object) -> TypeGuard[pd.DataFrame]:
    """Whether X is a pandas frame of many columns, all numbers of one NumPy type; of a frame of few columns,
    which may hold each for itself, no copy is made.
    """
    if not nw.dependencies.is_pandas_dataframe(X) or X.shape[1] < _MANY_COLUMNS:
        return False
    one, *others = set(X.dtypes)
    return not others and isinstance(one, np.dtype) and one.kind in "iuf"


def is_absent(cell: object) -> bool:
    """Whether an object is NaN, or a missing value."""
    return is_missing(cell) or (isinstance(cell, float) and cell != cell)


def has_lists(cells: Iterable[object]) -> bool:
    """Whether the cells are lists, sets or arrays of answers, or missing."""
    present = [cell for cell in cells if not is_absent(cell)]
    return bool(present) and all(
        isinstance(cell, list | tuple | set | frozenset | np.ndarray) for cell in present
    )


def foreign_type(cells: Iterable[object]) -> str | None:
    """The type of a cell that is neither a text nor a number nor missing; None if there is none."""
    present = (cell for cell in cells if not is_absent(cell))
    return next((type(cell).__name__ for cell in present if not isinstance(cell, str | Number)), None)


def kind_of_series(series: nw.Series[Any]) -> ColumnKind:
    """Kind of a column of a frame."""
    dtype = series.dtype
    if is_object(series):
        infer = nw.get_native_namespace(series).api.types.infer_dtype
        kind = INFERRED.get(infer(series.to_native(), skipna=True), ColumnKind.OTHER)
        return ColumnKind.OTHER if kind == ColumnKind.MIXED and has_lists(series.to_native()) else kind
    if dtype.is_numeric():
        return ColumnKind.NUMBER
    if dtype in (nw.Categorical, nw.Enum, nw.Boolean):
        return ColumnKind.LEVEL
    if series.null_count() == len(series):
        return ColumnKind.EMPTY
    return ColumnKind.TEXT if dtype == nw.String else ColumnKind.OTHER


def kind_of_cells(cells: Array) -> ColumnKind:
    """Kind of a column of a dict."""
    if cells.dtype != object:
        return kind_of_dtype(cells.dtype)
    present = {type(cell) for cell in cells if not (is_missing(cell) or cell != cell)}
    if not present:
        return ColumnKind.EMPTY
    if all(issubclass(each, str) for each in present):
        return ColumnKind.TEXT
    if all(issubclass(each, bool | np.bool_) for each in present):
        return ColumnKind.LEVEL
    if all(issubclass(each, Number) for each in present):
        return ColumnKind.NUMBER
    return ColumnKind.MIXED if all(issubclass(each, str | Number) for each in present) else ColumnKind.OTHER


def kind_of_field(field: ArrowField) -> tuple[ColumnKind, bool]:
    """Kind of an Arrow column by its type, and whether float32 represents its values exactly."""
    import pyarrow.types as types

    of = field.type
    if types.is_dictionary(of) or types.is_boolean(of):
        return ColumnKind.LEVEL, False
    # pyarrow 15 has no test for views
    if types.is_string(of) or types.is_large_string(of) or str(of) == "string_view":
        return ColumnKind.TEXT, False
    if types.is_null(of):
        return ColumnKind.EMPTY, False
    if _is_number(of):
        return ColumnKind.NUMBER, types.is_float16(of) or types.is_float32(of)
    return ColumnKind.OTHER, False


def common_kind(name: str, schemas: Sequence[tuple[str, ArrowSchema]]) -> ColumnKind:
    """Kind of a column that files have together; `schemas`: name and schema of every file.

    Raises TypeError if the column has other types in some of them: 1, "1" and True are different levels.
    """
    fields = [schema.field(name) for _, schema in schemas]
    families = [_family(field) for field in fields]
    family = next((each for each in families if each != ColumnKind.EMPTY), ColumnKind.NUMBER)
    for own, field, (path, _) in zip(families, fields, schemas, strict=True):
        if own not in (family, ColumnKind.EMPTY):
            raise TypeError(
                f"Column {name!r} holds {field.type} in {path}, but other types in other files; convert it."
            )
    return ColumnKind.NUMBER if family == ColumnKind.NUMBER else ColumnKind.LEVEL


def _family(field: ArrowField) -> str:
    """NUMBER, EMPTY, or what the levels of a categorical column are."""
    import pyarrow.types as types

    kind = kind_of_field(field)[0]
    if not kind.is_categorical:
        return kind
    of: Any = field.type
    values = of.value_type if types.is_dictionary(of) else of
    return "level of booleans" if types.is_boolean(values) else f"level{' of numbers' * _is_number(values)}"


def _is_number(of: object) -> bool:
    import pyarrow.types as types

    return bool(types.is_integer(of) or types.is_floating(of) or types.is_decimal(of))


def truth_words(words: Collection[str]) -> dict[bool, str]:
    """Which of these words means true and which false; empty if there is another word."""
    own = {word.casefold(): word for word in words}
    for pair in _PAIRS:
        if len(own) == len(words) and own.keys() <= set(pair):
            return {word == pair[0]: own[word] for word in pair if word in own}
    return {}


def same_truth(text: str, words: Collection[str]) -> str | None:
    """The one of these words that means what a text does, where the text or the words are true and false."""
    if text.casefold() in _PAIRS[0]:
        return truth_level(text.casefold() == "true", words)
    own, said = truth_words(words), truth_words([text])
    if {each.casefold() for each in own.values()}.isdisjoint(_PAIRS[0]):
        return None
    said = said or {
        one: text
        for marks in _MARKS[:2]
        for one, mark in zip((True, False), marks, strict=True)
        if text == mark
    }
    return next((own[value] for value in said if value in own), None)


def told_truths(texts: Collection[str]) -> dict[str, bool]:
    """What texts say that are words for true and false, numbers or ticked boxes of one pair; empty if they
    are of several pairs, or if other numbers show that they are codes.
    """
    words = {text: text.casefold() for text in texts if truth_of(text) is not None}
    others = [text for text in texts if text not in words]
    pairs = [pair for pair in (*_PAIRS, *_MARKS) if set(words.values()) <= set(pair)]
    numbers = [number for text in others if (number := float_of(text)) is not None]
    if not pairs or any(number == number for number in numbers):
        return {}
    return {text: word == pairs[0][0] for text, word in words.items()}


def float_of(cell: object) -> float | None:
    """A cell as a float; None if it is no number."""
    try:
        return float(cell)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return None


def truth_of(text: str) -> bool | None:
    """What a word, a number or a ticked box says; None: neither true nor false."""
    word = text.casefold()
    return next((word == pair[0] for pair in (*_PAIRS, *_MARKS) if word in pair), None)


def truth_level(value: bool, levels: Iterable[T]) -> T | None:
    """The level that a truth value stands for where both words of a pair are levels, as "yes" and "no" are;
    None if no pair is, or several are.
    """
    pairs = (*_PAIRS, *_MARKS)
    known = {word for pair in pairs for word in pair}
    own = [level for level in levels if str(level).casefold() in known]
    of_word = {str(level).casefold(): level for level in own}
    for pair in pairs:
        if len(own) == len(of_word) == 2 and of_word.keys() == set(pair):
            return of_word[pair[0 if value else 1]]
    return None
