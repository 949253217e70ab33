"""Dask data frames and arrays, and files that the workers of a Dask cluster read, as partitions."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from craftc._common.typing import Array, ArrowTable, DaskClient, DaskCollection, FileInput
from craftc.distributed.collections import without_rows
from craftc.distributed.dask.engine import DaskEngine
from craftc.distributed.engine import Engine, SerialEngine
from craftc.distributed.partitioned_table import Output, PartitionedInput, largest_margin
from craftc.distributed.partitions import Content, RecipeEntry
from craftc.table.kinds import ColumnKind
from craftc.table.out_of_core import Batches, FilePart, file_parts, located

if TYPE_CHECKING:
    import dask.array as da
    import dask.dataframe as dd
    import pandas as pd
    from dask.delayed import Delayed
    from sklearn.base import BaseEstimator

_PART_ROWS = 1 << 20  # rows of a partition of a file, unless a row group has more; bounds its memory

# ---- collections ----


class DaskPartitions(PartitionedInput):
    """The partitions of a Dask collection.

    `client` None: the current one; without any, the partitions are computed one by one and kept in scratch
    files of this process. Raises ValueError unless an array has two dimensions and a known number of columns.
    """

    def __init__(self, X: dd.DataFrame | da.Array, client: DaskClient | None) -> None:
        self.is_frame = hasattr(X, "columns")
        if not self.is_frame:
            if X.ndim != 2 or math.isnan(X.shape[1]):
                raise ValueError(
                    f"A Dask array needs the shape (n, D) with a known number of columns, got {X.shape}."
                )
            X = X.rechunk({1: -1})
        self.X, self._client = X, client

    @property
    def examples(self) -> list[tuple[str, Content]]:
        """Rows of the same types, which show the columns."""
        return [
            ("", self.X._meta_nonempty if self.is_frame else np.zeros((1, self.X.shape[1]), self.X.dtype))
        ]

    @property
    def contents(self) -> list[Delayed]:
        delayed = self.X.to_delayed()
        return list(delayed) if self.is_frame else list(delayed[:, 0])

    def engine(self, n_threads: int) -> Engine:
        client = self._client if self._client is not None else _current_client()
        if client is None:
            return SerialEngine(_Computed(self.contents), n_threads)
        return DaskEngine(client, self.contents)

    def labels(self, output: Output, entries: list[RecipeEntry]) -> DaskCollection:
        """Labels of all rows: a Series with the index and the divisions of the frame, or an array.

        Labels that follow from the cells of each row are mapped over the frame, so that Dask aligns them with
        it by partition.
        """
        import dask

        sent = dask.delayed((replace(output, collection=None), entries), traverse=False)
        rowwise = self.is_frame and all(getattr(recipe, "rowwise", False) for _, recipe, _ in entries)
        contents = [] if rowwise else self.contents
        each = [dask.delayed(_labels)(sent, i, content) for i, content in enumerate(contents)]
        if not self.is_frame:
            return _joined(each, self.X.chunks[0], np.dtype(np.int32))
        import dask.dataframe as dd
        import pandas as pd

        labels: DaskCollection
        meta = pd.Series([], dtype=np.int32, index=self.X._meta.index, name="labels")
        if rowwise:
            labels = self.X.map_partitions(
                _labels_by_row, sent, meta=meta, enforce_metadata=False, transform_divisions=False
            )
        else:
            labels = dd.from_delayed(each, meta=meta, divisions=self.X.divisions, verify_meta=False)
        return labels

    def margins(self, model: BaseEstimator) -> DaskCollection:
        margins = model.margins(self.X).clip(None, largest_margin(model))
        narrow: DaskCollection = margins.astype(np.float32)
        return narrow


class _Computed(Sequence[Any]):
    """Partitions that are computed when they are read."""

    def __init__(self, delayed: list[Delayed]) -> None:
        self._delayed = delayed

    def __len__(self) -> int:
        return len(self._delayed)

    def __getitem__(self, i: Any) -> Any:
        return self._delayed[i].compute()

    def __iter__(self) -> Iterator[Content]:
        return (each.compute() for each in self._delayed)


def _current_client() -> DaskClient | None:
    try:
        from distributed import default_client

        client: DaskClient = default_client()
        return client
    except (ImportError, ValueError):  # no package, no client
        return None


def _labels_by_row(content: pd.DataFrame, recipe: tuple[Output, list[RecipeEntry]]) -> pd.Series:
    """Labels of any rows of the frame, with their index."""
    import pandas as pd

    output, entries = recipe
    return pd.Series(output.of_rows(content, entries), index=content.index, name="labels")


def _labels(
    recipe: tuple[Output, list[RecipeEntry]], index: int, content: pd.DataFrame | Array
) -> pd.Series | Array:
    """Labels of one partition, with its index if it has one."""
    output, entries = recipe
    labels = output.of_partition(index, content, entries)
    if not hasattr(content, "index"):
        return labels
    import pandas as pd

    return pd.Series(labels, index=content.index, name="labels")


def _joined(each: list[Delayed], n_rows: Sequence[int], dtype: np.dtype[Any]) -> DaskCollection:
    """Values of the rows of all partitions as one array."""
    import dask.array as da

    blocks = [da.from_delayed(values, (n,), dtype) for values, n in zip(each, n_rows, strict=True)]
    joined: DaskCollection = da.concatenate(blocks)
    return joined


# ---- files ----


class DaskFiles(PartitionedInput):
    """Files as partitions, of some row groups each.

    The workers find the files under the same absolute paths. `columns` None: all but the `ignored` ones.

    Raises FileNotFoundError, TypeError or ValueError if no file matches, or if the files do not have the same
    columns.
    """

    def __init__(
        self,
        X: FileInput,
        client: DaskClient,
        columns: Sequence[str] | None = None,
        ignored: Collection[str] = (),
    ) -> None:
        self._batches, self._client = Batches(X, columns, ignored), client
        self.left_out = self._batches.ignored
        if not self._batches.fragments:
            raise TypeError(
                "A stream of record batches can be read by this process alone; pass files, or fit without "
                "the client."
            )
        self.parts = file_parts(self._batches, _PART_ROWS)

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
            columns[name] = (
                text if is_text else text.dictionary_encode() if kind == ColumnKind.LEVEL else number
            )
        return [("", pa.table(columns))]

    @cached_property
    def contents(self) -> list[Delayed]:
        import dask

        return [dask.delayed(_read, pure=False)(part) for part in self.parts]

    def engine(self, n_threads: int) -> Engine:
        return DaskEngine(self._client, self.contents, self.names)

    def labels(self, output: Output, entries: list[RecipeEntry]) -> DaskCollection:
        return self._array(_labels, np.dtype(np.int32), (replace(output, collection=None), entries))

    def margins(self, model: BaseEstimator) -> DaskCollection:
        return self._array(_margins, np.dtype(np.float32), (without_rows(model), largest_margin(model)))

    def _array(
        self, function: Callable[..., object], dtype: np.dtype[Any], shared: tuple[object, ...]
    ) -> DaskCollection:
        import dask

        sent = dask.delayed(shared, traverse=False)
        each = [dask.delayed(function)(sent, i, content) for i, content in enumerate(self.contents)]
        return _joined(each, [part.n_rows for part in self.parts], dtype)


def _read(part: FilePart) -> ArrowTable:
    if not os.path.exists(part.path):
        raise FileNotFoundError(
            f"{part.path!r} does not exist on a worker; files must be visible to all workers under the same "
            "path."
        )
    table: ArrowTable = part.read()
    return table


def _margins(shared: tuple[BaseEstimator, float], index: int, content: Content) -> Array:
    model, most = shared
    try:
        margins: Array = np.minimum(model.margins(content), most).astype(np.float32)
    except (TypeError, ValueError) as error:
        raise located(error, f"Partition {index}") from error
    return margins
