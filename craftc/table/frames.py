"""Readers of frames, dicts of columns and arrays, column by column.

A :class:`ColumnSource` wraps the input and classifies its columns by dtype. It returns numeric columns as one
block, and a categorical column as a :class:`LevelColumn`: codes into its distinct values. The schema of a
table assigns the final codes.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard, cast

import narwhals.stable.v2 as nw
import numpy as np
from scipy.sparse import issparse
from sklearn.utils import check_array

from craftc._common.foreign_input import (
    A_SERIES,
    as_table,
    columns_of_records,
    is_records,
    is_series,
    known_input,
    lazy_refusal,
    with_texts,
)
from craftc._common.labels import chunks
from craftc._common.messages import no_table, other_names, warn_user
from craftc._common.typing import Array, Ints
from craftc.table.kinds import (
    ColumnKind,
    foreign_type,
    has_lists,
    is_block,
    is_missing,
    is_narrow,
    is_object,
    kind_of_cells,
    kind_of_dtype,
    kind_of_series,
)
from craftc.table.level_column import (
    NOT_LEVELS,
    LevelColumn,
    common_order,
    dictionary_codes,
    equal_pair,
    infinite_cell,
)

if TYPE_CHECKING:
    import pandas as pd

_NOT_NUMBERS = (
    "Column {!r} contains {} values where numbers are expected; convert it to numbers, or name it in "
    "`categorical` when fitting."
)
_NOT_EITHER = (
    "Column {!r} has dtype {}, which is neither numeric nor categorical; drop it, or pass the table "
    "craftc.read_table(X), which makes days of dates, and a column of yes and no of each entry of lists."
)
_TOGETHER = 8  # columns of a block that are written together, a cache line of each row
_DUPLICATES = "Column names must be unique, got {}; rename the columns."


class ColumnSource(ABC):
    """An input, read column by column.

    `narrow` marks the columns that float32 represents exactly.
    """

    names: tuple[str, ...]
    named: bool
    n_rows: int
    kinds: list[ColumnKind]
    narrow: list[bool]

    def chosen(self, positions: Ints) -> ColumnSource:
        """Some of the columns."""
        return self if len(positions) == len(self.names) else _ChosenSource(self, positions)

    def categorical_mask(self) -> Array:
        """Which columns are categorical by their dtype; readers and encodings apply further rules."""
        return np.array([kind.is_categorical for kind in self.kinds])

    def float_type(self, positions: Array) -> type[np.floating[Any]]:
        """Return the float type that represents these numeric columns."""
        narrow = len(positions) and all(self.narrow[j] for j in positions)
        return np.float32 if narrow else np.float64

    def numbers(self, positions: Array, dtype: np.dtype[Any]) -> Array:
        """Return these columns as one block."""
        block = np.empty((self.n_rows, len(positions)), dtype=dtype)
        for first in range(0, len(positions), _TOGETHER):
            columns = [self._number(j) for j in positions[first : first + _TOGETHER]]
            if dtype == np.float32:  # as in a column with missing values; direct conversion may round apart
                columns = [
                    cells.astype(np.float64) if cells.dtype.kind in "iu" else cells for cells in columns
                ]
            with np.errstate(over="ignore"):  # `count_missing` raises on infinite values
                for rows in chunks(self.n_rows):
                    for d, cells in enumerate(columns, first):
                        block[rows, d] = cells[rows]
        return block

    @abstractmethod
    def cells(self, j: int) -> Iterable[object]:
        """The cells of one column as they are."""

    @abstractmethod
    def _number(self, j: int) -> Array:
        """Return one column as numbers."""

    @abstractmethod
    def column(self, j: int) -> LevelColumn:
        """Return one column as codes."""


class _ChosenSource(ColumnSource):
    """Some columns of an input."""

    def __init__(self, source: ColumnSource, positions: Ints) -> None:
        self._source, self._positions, self.named, self.n_rows = (
            source,
            positions,
            source.named,
            source.n_rows,
        )
        chosen = positions.tolist()
        self.names = tuple(source.names[j] for j in chosen)
        self.kinds, self.narrow = [source.kinds[j] for j in chosen], [source.narrow[j] for j in chosen]

    def numbers(self, positions: Array, dtype: np.dtype[Any]) -> Array:
        return self._source.numbers(self._positions[positions], dtype)

    def cells(self, j: int) -> Iterable[object]:
        return self._source.cells(int(self._positions[j]))

    def _number(self, j: int) -> Array:
        return self._source._number(int(self._positions[j]))

    def column(self, j: int) -> LevelColumn:
        return self._source.column(int(self._positions[j]))


class _FrameSource(ColumnSource):
    """A data frame, read by its own dtypes."""

    named = True

    def __init__(self, frame: nw.DataFrame[Any]) -> None:
        if frame.implementation.value not in _READERS:  # Modin, cuDF
            frame = nw.from_native(frame.to_pandas(), eager_only=True)
        self._read = _READERS[frame.implementation.value]
        self._series = cast("list[nw.Series[Any]]", list(frame.iter_columns()))
        self.n_rows = len(frame)
        self.names = _checked_names(frame.columns, self.n_rows)
        self.kinds = [kind_of_series(series) for series in self._series]
        self.narrow = [str(series.dtype) in ("Float16", "Float32") for series in self._series]

    def cells(self, j: int) -> Iterable[object]:
        return self._series[j].to_list()

    def _number(self, j: int) -> Array:
        series, name, kind = self._series[j], self.names[j], self.kinds[j]
        if kind == ColumnKind.EMPTY:
            return np.full(self.n_rows, np.nan)
        if kind == ColumnKind.MIXED:
            if (other := foreign_type(self.cells(j))) is not None:
                raise TypeError(NOT_LEVELS.format(name, other))
            raise TypeError(
                f"Column {name!r} mixes values of different types; convert it to numbers or text, or name it "
                "in `categorical`."
            )
        if kind == ColumnKind.OTHER:
            raise _refusal(series, name)
        if kind != ColumnKind.NUMBER:
            raise TypeError(_NOT_NUMBERS.format(name, series.dtype))
        if is_object(series):
            return _object_numbers(series.to_native().to_numpy(), name)
        if series.dtype.is_decimal() or str(series.dtype).endswith("Int128"):
            series = series.cast(nw.Float64)
        cells: Array = series.to_numpy()
        if series.dtype.is_integer():
            warn_of_rounding(cells, name)
        return cells

    def column(self, j: int) -> LevelColumn:
        series, name, kind = self._series[j], self.names[j], self.kinds[j]
        if kind == ColumnKind.OTHER:
            raise _refusal(series, name)
        if kind == ColumnKind.EMPTY:
            return LevelColumn(name, np.full(self.n_rows, -1), [], strict=True)
        if series.dtype.is_decimal():
            series = series.cast(nw.Float64)
        try:
            codes, values, declared, scale = self._read(series, name)
        except TypeError as error:
            raise TypeError(NOT_LEVELS.format(name, error)) from error
        mixed = kind == ColumnKind.MIXED
        equal = equal_pair(self.cells(j)) if mixed else None
        return LevelColumn(name, codes, values, strict=mixed, declared=declared, scale=scale, equal=equal)


class _BlockSource(ColumnSource):
    """A pandas frame of numbers of one NumPy type, whose columns are read without an object for each."""

    named = True

    def __init__(self, frame: pd.DataFrame) -> None:
        self._frame, self._cells = frame, frame.to_numpy()
        self.n_rows = len(frame)
        self.names = _checked_names(list(frame.columns), self.n_rows)
        self.kinds = [ColumnKind.NUMBER] * len(self.names)
        self.narrow = [is_narrow(self._cells.dtype)] * len(self.names)

    def cells(self, j: int) -> Iterable[object]:
        return cast("list[object]", self._cells[:, j].tolist())

    def _number(self, j: int) -> Array:
        cells: Array = self._cells[:, j]
        if cells.dtype.kind in "iu":
            warn_of_rounding(cells, self.names[j])
        return cells

    def column(self, j: int) -> LevelColumn:
        return _FrameSource(nw.from_native(self._frame.iloc[:, [j]], eager_only=True)).column(0)


def _checked_names(names: Sequence[Any], n_rows: int) -> tuple[str, ...]:
    """The names of columns as texts; ValueError if two are equal, or the table has no rows or no columns."""
    texts = tuple(str(name) for name in names)
    if len(set(texts)) < len(texts):
        raise ValueError(_DUPLICATES.format(list(texts)))
    for size, unit in ((n_rows, "sample"), (len(texts), "feature")):
        if size == 0:  # the message of scikit-learn
            raise ValueError(
                f"Found array with 0 {unit}(s) (shape={(n_rows, len(texts))}) while a minimum of 1 is "
                "required."
            )
    return texts


def _refusal(series: nw.Series[Any], name: str) -> Exception:
    native = series.to_native()
    unknown = getattr(native, "dtype", getattr(native, "type", "unknown"))
    dtype = str(series.dtype if series.dtype != nw.Unknown else unknown)
    if is_object(series) and has_lists(native):
        dtype = "list"
    if "complex" in dtype:
        return ValueError(
            f"Complex data not supported: column {name!r}; pass real and imaginary parts as two columns."
        )
    if is_object(series) and any(isinstance(cell, bytes) for cell in native):
        return TypeError(f'Column {name!r} holds bytes; make text of them: X[{name!r}].str.decode("utf-8").')
    return TypeError(_NOT_EITHER.format(name, dtype))


#: Codes of the cells, distinct values, whether their order is declared, and the scale of an ordered column.
_Read: TypeAlias = tuple[Array, list[Any], bool, list[Any]]


def _read_pandas(series: nw.Series[Any], name: str) -> _Read:
    native = series.to_native()
    if hasattr(native.dtype, "categories"):
        categories = native.cat.categories.tolist()
        return native.cat.codes.to_numpy(), categories, True, categories if native.cat.ordered else []
    codes, values = native.factorize()
    return codes, values.tolist(), False, []


def _read_polars(series: nw.Series[Any], name: str) -> _Read:
    # the physical codes of a Categorical are shared by all columns of the process, so they are recomputed
    native = series.to_native()
    values = native.drop_nulls().unique()
    declared = series.dtype == nw.Enum
    if declared:
        values = values.sort()  # an Enum sorts as declared
    codes = native.replace_strict(values, np.arange(len(values), dtype=np.int32), default=-1)
    scale = native.dtype.categories.to_list() if declared else []
    return codes.to_numpy(), values.to_list(), declared, scale


def _read_pyarrow(series: nw.Series[Any], name: str) -> _Read:
    native = series.to_native()
    scale: list[Any] = []
    if hasattr(native.type, "value_type"):
        if native.type.ordered:
            scale = common_order(name, (chunk.dictionary.to_pylist() for chunk in native.chunks))
        if str(native.type.value_type) in ("string", "large_string"):
            found = dictionary_codes(native)
            if found is not None:
                return *found, False, scale
        native = native.cast(native.type.value_type)
    if str(native.type) == "halffloat":  # whose dictionaries pyarrow unifies as integers
        native = native.cast("float32")
    array = native.dictionary_encode().unify_dictionaries().combine_chunks()
    codes = array.indices.cast("int64").fill_null(-1).to_numpy()
    return codes, array.dictionary.to_pylist(), False, scale


_READERS = {"pandas": _read_pandas, "polars": _read_polars, "pyarrow": _read_pyarrow}


class _ArraySource(ColumnSource):
    """An array: all columns are numeric, unless it is Boolean or holds objects, whose types decide as in a
    frame, or the caller names categorical columns.
    """

    named = False

    def __init__(self, X: object) -> None:
        if isinstance(X, list | tuple) and _as_array(X).dtype.kind in "US":
            X = np.asarray(X, dtype=object)  # otherwise NumPy converts numbers in mixed lists to text
        cells = check_array(X, dtype=None, ensure_all_finite=False) if not _is_read(X) else X
        cells = with_texts(cells)
        self._is_text = cells.dtype.kind in "US"
        self._X: Array = cells.astype(str).astype(object) if self._is_text else cells
        self.n_rows, n_columns = cells.shape
        self.names = tuple(f"x{j}" for j in range(n_columns))
        self.kinds, self.narrow = self._kinds(), [is_narrow(cells.dtype)] * n_columns
        if cells.dtype != object and self.kinds[0] == ColumnKind.OTHER:
            raise TypeError(_NOT_EITHER.format("x0", cells.dtype))

    def _kinds(self) -> list[ColumnKind]:
        """By the dtype; of cells of any type, by those of every column, as in a frame of objects."""
        if self._is_text:
            return [ColumnKind.MIXED] * len(self.names)
        if self._X.dtype == object:
            return [kind_of_cells(self._X[:, j]) for j in range(len(self.names))]
        return [kind_of_dtype(self._X.dtype)] * len(self.names)

    def categorical_mask(self) -> Array:
        if self._is_text:
            raise TypeError(
                "The array contains text; pass a DataFrame, or name its categorical columns in `categorical`."
            )
        return super().categorical_mask()

    def numbers(self, positions: Array, dtype: np.dtype[Any]) -> Array:
        if self._X.dtype == object or self.kinds[0] != ColumnKind.NUMBER:
            return super().numbers(positions, dtype)
        X = self._X if len(positions) == len(self.names) else np.take(self._X, positions, axis=1)
        for j in positions if X.dtype.kind in "iu" and X.dtype.itemsize == 8 else ():
            warn_of_rounding(self._X[:, j], self.names[j])
        with np.errstate(over="ignore"):
            return np.asarray(np.require(X, dtype, ["C", "ALIGNED"]))

    def cells(self, j: int) -> Iterable[object]:
        return self._X[:, j]

    def _number(self, j: int) -> Array:
        if self.kinds[j] == ColumnKind.LEVEL:
            raise TypeError(_NOT_NUMBERS.format(self.names[j], "Boolean"))
        return _object_numbers(self._X[:, j], self.names[j])

    def column(self, j: int) -> LevelColumn:
        return _array_column(self._X[:, j], self.names[j])


def _is_read(X: object) -> TypeGuard[Array]:
    """Whether X is an array that scikit-learn's `check_array` returns as it is."""
    return type(X) is np.ndarray and X.dtype.kind in "biuf" and X.ndim == 2 and X.size > 0


def _as_array(rows: Sequence[Any]) -> Array:
    """Rows as an array; raise ValueError unless they have the same number of cells."""
    try:
        return np.asarray(rows)
    except ValueError as error:
        lengths = [len(row) if hasattr(row, "__len__") else 1 for row in rows]
        other = next((i for i, length in enumerate(lengths) if length != lengths[0]), 0)
        if not other:
            raise ValueError(
                f"X must be one table, a cell one number or text, got a list of {len(lengths)} items of "
                f"length {lengths[0]} with arrays or lists in them; join tables of the same rows with "
                "np.column_stack or pandas.concat(axis=1)."
            ) from error
        raise ValueError(
            f"The rows of X must be of equal length, got {lengths[0]} cell(s) in row 0 and {lengths[other]} "
            f"in row {other}; a cell is one number or text."
        ) from error


def _array_column(cells: Array, name: str) -> LevelColumn:
    """A column of an array as codes."""
    if cells.dtype != object:
        distinct, codes = np.unique(cells, return_inverse=True)
        return LevelColumn(name, codes, distinct.tolist(), strict=True)
    index: defaultdict[Any, int] = defaultdict()
    index.default_factory = index.__len__  # a new value has the next number, without Python code per cell
    try:
        codes = np.fromiter(map(index.__getitem__, cells.tolist()), dtype=np.intp, count=len(cells))
    except TypeError as error:
        raise TypeError(NOT_LEVELS.format(name, error)) from error
    return LevelColumn(name, codes, list(index), strict=True, equal=equal_pair(cells))


class _DictSource(ColumnSource):
    """A dict of columns, arrays or sequences; the types of the cells decide, as in a frame."""

    named = True

    def __init__(self, columns: Mapping[Any, Any]) -> None:
        self._cells = [_cells(cells, str(name)) for name, cells in columns.items()]
        self.n_rows = len(self._cells[0]) if self._cells else 0
        self.names = _checked_names(list(columns), self.n_rows)
        for name, cells in zip(self.names, self._cells, strict=True):
            if len(cells) != self.n_rows:
                raise ValueError(
                    f"All columns must have the same length, but {self.names[0]!r} has {self.n_rows} cells "
                    f"and {name!r} has {len(cells)}."
                )
        self.kinds = [kind_of_cells(cells) for cells in self._cells]
        self.narrow = [is_narrow(cells.dtype) for cells in self._cells]

    def cells(self, j: int) -> Iterable[object]:
        return self._cells[j]

    def _number(self, j: int) -> Array:
        cells, name, kind = self._cells[j], self.names[j], self.kinds[j]
        if kind == ColumnKind.OTHER:
            raise TypeError(_NOT_EITHER.format(name, cells.dtype))
        if kind.is_categorical:
            raise TypeError(_NOT_NUMBERS.format(name, "text" if kind == ColumnKind.TEXT else "Boolean"))
        if cells.dtype.kind in "iu":
            warn_of_rounding(cells, name)
        return _object_numbers(cells, name) if cells.dtype == object else cells

    def column(self, j: int) -> LevelColumn:
        if self.kinds[j] == ColumnKind.OTHER:
            raise TypeError(_NOT_EITHER.format(self.names[j], self._cells[j].dtype))
        return _array_column(self._cells[j], self.names[j])


def _cells(column: object, name: str) -> Array:
    """A column of a dict as an array with one axis; text becomes an object array of str."""
    if isinstance(column, np.ma.MaskedArray):
        raise TypeError(f"Column {name!r} is a masked array; call .filled(np.nan) to mark missing values.")
    try:
        cells = with_texts(np.asarray(column))
    except ValueError as error:  # lists of different lengths
        raise TypeError(_NOT_EITHER.format(name, "list")) from error
    if cells.dtype.kind in "US":  # NumPy converts numbers in mixed lists to text
        cells = (
            cells.astype(str).astype(object)
            if isinstance(column, np.ndarray)
            else np.array(column, dtype=object)
        )
    if cells.ndim != 1:
        raise ValueError(f"Column {name!r} must be a sequence of cells, got an array of shape {cells.shape}.")
    return cells


def open_source(X: object) -> ColumnSource:
    """Wrap an accepted input, or raise TypeError."""
    X = known_input(X, in_batches=False)
    if issparse(X):
        raise TypeError(
            "Sparse data was passed, but craftc needs dense data. Call .toarray(), or merge indicator "
            "columns into one categorical column."
        )
    if isinstance(X, str | os.PathLike):
        raise TypeError(no_table(os.fspath(X)))
    if hasattr(X, "__dask_graph__"):
        raise TypeError(
            "A Dask collection was passed where rows are read in this process; call .compute() on it first."
        )
    if is_series(X):
        raise ValueError(A_SERIES)
    if is_records(X):
        X = columns_of_records(X)
    if isinstance(X, Mapping):
        return _DictSource(X)
    if isinstance(X, np.ndarray):
        return _ArraySource(X)
    if is_block(X):
        return _BlockSource(X)
    frame = as_frame(X)
    return _ArraySource(X) if frame is None else _FrameSource(frame)


def as_frame(X: object) -> nw.DataFrame[Any] | None:
    """A data frame for narwhals, or None; raise if X is a lazy frame, or has two columns of one name."""
    try:
        frame: object = nw.from_native(as_table(X), pass_through=True)
    except nw.exceptions.DuplicateError as error:
        names = getattr(X, "column_names", getattr(X, "columns", ()))
        raise ValueError(_DUPLICATES.format(list(names))) from error
    if isinstance(frame, nw.LazyFrame):
        raise lazy_refusal(frame)
    return frame if isinstance(frame, nw.DataFrame) else None


def _object_numbers(cells: Array, name: str) -> Array:
    """Convert objects to float64; None, NaN and NA become NaN."""
    warn_of_rounding(cells, name)
    try:
        return cells.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        numbers = np.empty(len(cells))  # at least one cell is not a number; the loop finds it
    for i, cell in enumerate(cells):
        try:
            numbers[i] = np.nan if is_missing(cell) else cell
        except (TypeError, ValueError, OverflowError) as error:
            raise TypeError(
                f"Column {name!r} cannot be read as numbers: every argument must be a string or a number "
                f"that fits float64, got {repr(cell)[:60]}; pass a DataFrame, or name the column in "
                "`categorical`."
            ) from error
    return numbers


def warn_of_rounding(cells: Array, name: str) -> None:
    """Warn of whole numbers, NaN where they are missing, that float64 may not represent."""
    if cells.dtype == object:
        cells = np.array([cell for cell in cells if isinstance(cell, int)], dtype=object)
    if cells.dtype.itemsize < 8 or not cells.size:
        return
    if np.fmax.reduce(cells) >= 1 << 53 or np.fmin.reduce(cells) <= -(1 << 53):
        warn_user(
            f"Column {name!r} has whole numbers from 2**53 on, which are rounded to 53 bits; subtract a "
            "constant. If they are codes, name the column in `categorical`, or drop it for an estimator "
            "without this parameter."
        )


def count_missing(block: Array, names: Sequence[str], step: int = 1 << 16) -> Array:
    """Count the missing values of each numeric column; infinite values raise ValueError."""
    n_missing = np.zeros(block.shape[1], dtype=np.intp)
    for start in range(0, len(block), step):
        rows = block[start : start + step]
        if np.isfinite(rows).all():
            continue
        infinite = np.isinf(rows).any(axis=0)
        if infinite.any():
            raise infinite_cell(names[int(infinite.argmax())], repr(block.dtype))
        n_missing += np.isnan(rows).sum(axis=0)
    return n_missing


def check_names(
    source: ColumnSource, fitted: Sequence[str], ignored: Sequence[str], estimator_name: str
) -> None:
    """Compare the names of columns with those of a fit; raise ValueError if they differ.

    Warns, as scikit-learn does, if only one of both has names. `fitted`: the names in the fit, or nothing.
    Numbers are no names, and x0, x1, ... are those of a table without.
    """
    if source.named and fitted:
        unseen = sorted(set(source.names).difference(fitted, ignored))
        absent = sorted(set(fitted).difference(source.names))
        if unseen or absent:
            raise ValueError(other_names(unseen, absent))
    elif source.named and source.names != tuple(f"x{j}" for j in range(len(source.names))):
        warn_user(f"X has feature names, but {estimator_name} was fitted without feature names")
    elif fitted and not all(map(str.isdecimal, fitted)):
        warn_user(f"X does not have valid feature names, but {estimator_name} was fitted with feature names")
