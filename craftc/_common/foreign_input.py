"""Inputs of other libraries as arrays and frames that are read: Arrow streams, sparse columns, rare types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeGuard

import narwhals.stable.v2 as nw
import numpy as np

from craftc._common.typing import Array

#: Packages whose frames are read as they are, although they have the protocol of Arrow streams.
_READ = ("pandas", "polars", "pyarrow", "narwhals", "modin", "cudf", "dask", "craftc")
_ROWS_OF_LAZY = {
    "polars": "X.collect()",
    "duckdb": "X.to_arrow_table()",
    "ibis": "X.to_pyarrow()",
    "pyspark": "X.toArrow()",
    "sqlframe": "X.toArrow()",
}

#: What a Series lacks.
A_SERIES = (
    "A Series was passed, which is one column or one row; pass series.to_frame() for a column, or "
    "series.to_frame().T for a row."
)


def known_input(X: Any, in_batches: bool = True) -> Any:
    """The input as an array or a frame that is read; any other input as it is.

    An object with the protocol of Arrow streams alone, such as a relation of duckdb, becomes a table of
    pyarrow, an array-like without a shape an array, and a structured array a dict of columns. Sparse columns
    of pandas become dense, and columns of Arrow of the types decimal256, run-end-encoded and uuid become
    float64, their values and texts.

    `in_batches`: whether streams of record batches are read in batches elsewhere; otherwise their rows are
    read here.

    Raises ImportError: pyarrow is not installed. Raises TypeError: the rows of X have not been computed, or
    X is a masked array. Raises ValueError: X is None.
    """
    if X is None:
        raise ValueError("X must be a table (a data frame, dict of columns or array of two axes), got None.")
    if isinstance(X, np.ma.MaskedArray):
        raise TypeError("A masked array was passed; call .filled(np.nan) to mark missing values.")
    if isinstance(X, np.ndarray) and X.dtype.names and X.ndim == 1:
        return {name: X[name] for name in X.dtype.names}
    if type(X) is np.ndarray or isinstance(X, str | bytes | list | tuple | dict):
        return X
    package = type(X).__module__.partition(".")[0]
    if package == "pyarrow":
        return _common_types(X.read_all() if hasattr(X, "read_all") and not in_batches else X)
    if package == "pandas":
        return _dense(X)
    if package == "polars" and type(X).__name__ == "LazyFrame":
        raise TypeError(_not_computed("X.collect()"))
    if hasattr(X, "__arrow_c_stream__") and package not in _READ:
        _need_pyarrow(package)
        return _common_types(nw.from_arrow(X, backend="pyarrow").to_native())
    if hasattr(X, "pandas_api") or hasattr(X, "to_spark"):  # of Spark, and of pandas on Spark
        raise TypeError(_not_computed("X.to_pandas()" if hasattr(X, "to_spark") else "X.toArrow()"))
    if not hasattr(X, "shape") and any(
        hasattr(X, name) for name in ("__array_interface__", "__array_struct__", "__array__")
    ):
        return np.asarray(X)
    return X


def with_texts(cells: Array) -> Array:
    """An array whose bytes, which NumPy reads from files of text, are texts."""
    is_bytes = cells.dtype.kind == "S"
    if not is_bytes and (cells.dtype != object or not any(type(cell) is bytes for cell in cells.flat)):
        return cells
    try:
        if is_bytes:
            return np.char.decode(cells, "utf-8")
        texts = [cell.decode() if type(cell) is bytes else cell for cell in cells.flat]
    except UnicodeDecodeError as error:
        raise TypeError(f"X contains bytes that are not UTF-8 ({error}); decode them to text.") from error
    decoded = np.empty(cells.size, object)
    decoded[:] = texts
    return decoded.reshape(cells.shape)


def lazy_refusal(frame: nw.LazyFrame[Any]) -> TypeError:
    """The error for a frame whose rows have not been computed, with the call that computes them."""
    return TypeError(_not_computed(_ROWS_OF_LAZY.get(frame.implementation.value, "X.collect()")))


def _not_computed(call: str) -> str:
    return f"A lazy frame was passed, whose rows have not been computed; pass {call}."


def _need_pyarrow(package: str) -> None:
    try:
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise ImportError(
            f"An object of {package} with Arrow data was passed, which pyarrow reads: pip install craftc[app]"
        ) from error


def _dense(X: Any) -> Any:
    """A frame of pandas with dense columns."""
    if not hasattr(X, "dtypes") or not hasattr(X, "columns"):
        return X
    sparse = [j for j, dtype in enumerate(X.dtypes) if type(dtype).__name__ == "SparseDtype"]
    if not sparse:
        return X
    dense = X.copy(deep=False)
    for j in sparse:
        dense.isetitem(j, X.iloc[:, j].sparse.to_dense())
    return dense


def _common_types(X: Any) -> Any:
    """A table or record batch of pyarrow without columns of rare types."""
    if not hasattr(X, "schema") or not hasattr(X, "set_column"):
        return X
    for j, field in enumerate(X.schema):
        column = _common_column(X.column(j), str(field.type))
        if column is not None:
            X = X.set_column(j, field.name, column)
    return X


def _common_column(column: Any, kind: str) -> Any:
    """A column of a rare type as one of a common type; None for the others."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if kind.startswith("decimal256"):
        return column.cast(pa.string()).cast(pa.float64())  # correctly rounded
    if kind.startswith("run_end_encoded"):
        return pc.run_end_decode(column)
    if kind == "extension<arrow.uuid>":
        return pa.array([None if value is None else str(value) for value in column.to_pylist()], pa.string())
    return None


def is_records(X: object) -> TypeGuard[Sequence[Mapping[str, object]]]:
    """Whether X is a list of rows as dicts."""
    return isinstance(X, list | tuple) and len(X) > 0 and all(isinstance(row, Mapping) for row in X)


def columns_of_records(X: Sequence[Mapping[str, object]]) -> dict[str, list[object]]:
    """Rows as dicts as a dict of columns."""
    return {name: [row.get(name) for row in X] for name in dict.fromkeys(name for row in X for name in row)}


def is_series(X: object) -> bool:
    """Whether X is a column of pandas or polars."""
    return type(X).__name__ == "Series" and hasattr(X, "to_frame")


def is_record_batch(X: object) -> bool:
    """Whether X is a record batch of pyarrow."""
    return type(X).__name__ == "RecordBatch" and hasattr(X, "schema")


def as_table(X: object) -> object:
    """A record batch as a table of pyarrow, because narwhals reads no batches; anything else as it is."""
    if not is_record_batch(X):
        return X
    import pyarrow as pa

    return pa.Table.from_batches([X])
