"""Types of arrays, and of what users pass: tables, columns, weights, random states, callbacks, Dask clients.

The classes of optional libraries are described by protocols, so that nothing is imported for an annotation.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    from narwhals.typing import IntoDataFrame
    from numpy.typing import ArrayLike

Array = NDArray[Any]
Bits = NDArray[np.bool_]
Edges = NDArray[np.int32]
Flags = NDArray[np.uint8]
Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Ints = NDArray[np.intp]
Labels = NDArray[np.int32]
Mask = NDArray[np.uint8]
Masks = NDArray[np.uint64]

# ---- tables ----


class SupportsArray(Protocol):
    """An array, a frame or a column that NumPy can read."""

    def __array__(self) -> Array: ...


class EncodedTable(Protocol):
    """A `MixedTable`, whose module is above this one."""

    @property
    def numeric(self) -> Array: ...
    @property
    def codes(self) -> Array: ...
    @property
    def n_rows(self) -> int: ...


class ArrowTable(Protocol):
    """pyarrow.Table."""

    @property
    def column_names(self) -> Sequence[str]: ...
    @property
    def num_rows(self) -> int: ...
    def select(self, columns: list[str], /) -> ArrowTable: ...
    def __len__(self) -> int: ...


class ArrowDataset(Protocol):
    """pyarrow.dataset.Dataset."""

    @property
    def schema(self) -> ArrowSchema: ...
    def get_fragments(self) -> Iterator[ArrowFragment]: ...


class ArrowFragment(Protocol):
    """pyarrow.dataset.Fragment: a file of a data set."""

    @property
    def physical_schema(self) -> ArrowSchema: ...
    @property
    def partition_expression(self) -> object: ...


class ArrowSchema(Protocol):
    """pyarrow.Schema."""

    @property
    def names(self) -> Sequence[str]: ...
    def field(self, name: str, /) -> ArrowField: ...
    def append(self, field: ArrowField, /) -> ArrowSchema: ...
    def __iter__(self) -> Iterator[ArrowField]: ...


class ArrowField(Protocol):
    """pyarrow.Field."""

    @property
    def name(self) -> str: ...
    @property
    def type(self) -> object: ...


class ArrowStream(Protocol):
    """pyarrow.RecordBatchReader: rows that are read once."""

    @property
    def schema(self) -> ArrowSchema: ...
    def read_next_batch(self) -> object: ...


class DaskCollection(Protocol):
    """A Dask DataFrame or Array."""

    def __dask_graph__(self) -> object: ...
    def __dask_keys__(self) -> Sequence[object]: ...


PathInput: TypeAlias = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
#: Input that is read in batches.
FileInput: TypeAlias = PathInput | ArrowDataset | ArrowStream
#: Rows in memory without types of columns; mypy joins the cells of mixed rows to `object`.
RowsInput: TypeAlias = SupportsArray | Sequence[object]
#: Rows in memory.
FrameInput: TypeAlias = "RowsInput | Mapping[str, object] | IntoDataFrame | ArrowTable"
#: What `fit` of an estimator for mixed tables takes as X.
TableInput: TypeAlias = "FrameInput | EncodedTable | FileInput | DaskCollection"

#: What an estimator returns as a table: a frame of the library of its input, else of pandas.
OutputFrame: TypeAlias = "pd.DataFrame | pl.DataFrame"

# ---- parameters ----

#: Columns by name, by position, or as a mask; "auto".
ColumnSelection: TypeAlias = "str | Sequence[str] | Sequence[int] | Sequence[bool] | SupportsArray"
WeightInput: TypeAlias = "ArrayLike | None"
RandomStateInput: TypeAlias = int | np.integer[Any] | np.random.Generator | np.random.RandomState | None
#: Called with (pass, objective).
PassCallback: TypeAlias = Callable[[int, float], object]

# ---- Dask clients ----


class DaskFuture(Protocol):
    """distributed.Future: a result that a worker computes."""

    @property
    def key(self) -> object: ...
    @property
    def status(self) -> object: ...
    def result(self, timeout: float | None = None) -> Any: ...
    def exception(self) -> BaseException: ...
    def cancel(self) -> object: ...


class DaskClient(Protocol):
    """distributed.Client: the connection to a scheduler and its workers."""

    @property
    def scheduler(self) -> Any: ...
    @property
    def status(self) -> object: ...
    @property
    def as_current(self) -> Callable[[], Any]: ...
    @property
    def submit(self) -> Callable[..., DaskFuture]: ...
    @property
    def compute(self) -> Callable[..., Any]: ...
    @property
    def cancel(self) -> Callable[..., object]: ...
    @property
    def run(self) -> Callable[..., Any]: ...
    @property
    def nthreads(self) -> Callable[..., Any]: ...
    @property
    def scheduler_info(self) -> Callable[..., Any]: ...
