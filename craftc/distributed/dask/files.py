"""Parquet and Arrow files that the workers of a Dask cluster read themselves."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from craftc._common.typing import Array, ArrowTable, DaskClient, DaskCollection, FileInput
from craftc.distributed.collections import without_rows
from craftc.distributed.dask.engine import DaskEngine
from craftc.distributed.engine import Engine
from craftc.distributed.partitioned_table import Output, PartitionedInput
from craftc.distributed.partitions import Content, RecipeEntry
from craftc.table.kinds import Kind
from craftc.table.out_of_core import Batches, FilePart, file_parts, located

if TYPE_CHECKING:
    from dask.delayed import Delayed
    from sklearn.base import BaseEstimator

_ROWS = 1 << 20  # of a partition, unless a row group has more


class DaskFiles(PartitionedInput):
    """Files as partitions, of some row groups each.

    The workers find the files under the same absolute paths. `columns` None: all.

    Raises FileNotFoundError, TypeError or ValueError if no file matches, or if the files do not have the same
    columns.
    """

    def __init__(self, X: FileInput, client: DaskClient, columns: Sequence[str] | None = None) -> None:
        self._batches, self._client = Batches(X, columns), client
        if not self._batches.fragments:
            raise TypeError(
                "A stream of record batches can be read by this process alone; pass files, or fit without "
                "the client."
            )
        self.parts = file_parts(self._batches, _ROWS)

    def __len__(self) -> int:
        return sum(part.n_rows for part in self.parts)

    @property
    def names(self) -> list[str]:
        """Names of the partitions in error messages."""
        return [part.path for part in self.parts]

    @property
    def examples(self) -> list[tuple[str, Content]]:
        """A row of the same types, which shows the columns."""
        import pyarrow as pa

        read, text = self._batches, pa.array(["a"])
        columns = {}
        for name, kind, is_text, narrow in zip(
            read.names, read.kinds, read.is_text, read.narrow, strict=True
        ):
            number = pa.array([0.0], pa.float32() if narrow else pa.float64())
            columns[name] = text if is_text else text.dictionary_encode() if kind == Kind.LEVEL else number
        return [("", pa.table(columns))]

    @cached_property
    def contents(self) -> list[Delayed]:
        """The partitions, each to be read."""
        import dask

        return [dask.delayed(_read, pure=False)(part) for part in self.parts]

    def engine(self, n_threads: int) -> Engine:
        """The engine that asks the partitions."""
        return DaskEngine(self._client, self.contents, self.names)

    def labels(self, output: Output, entries: list[RecipeEntry]) -> DaskCollection:
        """Labels of all rows as a Dask array."""
        return self._array(_labels, np.dtype(np.int32), (replace(output, collection=None), entries))

    def margins(self, model: BaseEstimator) -> DaskCollection:
        """The margins of all rows under a model as a Dask array."""
        most = np.finfo(np.float32).max if model.n_clusters_ > 1 else np.inf
        return self._array(_margins, np.dtype(np.float32), (without_rows(model), most))

    def _array(
        self, function: Callable[..., Array], dtype: np.dtype[Any], shared: tuple[object, ...]
    ) -> DaskCollection:
        import dask
        import dask.array as da

        sent = dask.delayed(shared, traverse=False)
        each = [dask.delayed(function)(sent, i, content) for i, content in enumerate(self.contents)]
        blocks = [
            da.from_delayed(values, (part.n_rows,), dtype)
            for values, part in zip(each, self.parts, strict=True)
        ]
        joined: DaskCollection = da.concatenate(blocks)
        return joined


def _read(part: FilePart) -> ArrowTable:
    """The rows of a part of a file as a pyarrow table."""
    if not os.path.exists(part.path):
        raise FileNotFoundError(
            f"{part.path!r} does not exist on a worker; files must be visible to all workers under the same "
            "path."
        )
    table: ArrowTable = part.read()
    return table


def _labels(shared: tuple[Output, list[RecipeEntry]], index: int, content: Content) -> Array:
    output, entries = shared
    return output.of_partition(index, content, entries)


def _margins(shared: tuple[BaseEstimator, float], index: int, content: Content) -> Array:
    model, most = shared
    try:
        margins: Array = np.minimum(model.margins(content), most).astype(np.float32)
    except (TypeError, ValueError) as error:
        raise located(error, f"Partition {index}") from error
    return margins
