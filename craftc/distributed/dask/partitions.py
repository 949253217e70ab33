"""Dask data frames and arrays as partitions."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from craftc._common.typing import Array, DaskClient, DaskCollection
from craftc.distributed.dask.engine import DaskEngine
from craftc.distributed.engine import Engine, SerialEngine
from craftc.distributed.partitioned_table import Output, PartitionedInput
from craftc.distributed.partitions import Content, RecipeEntry

if TYPE_CHECKING:
    import dask.array as da
    import dask.dataframe as dd
    import pandas as pd
    from dask.delayed import Delayed
    from sklearn.base import BaseEstimator


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
        """The partitions, each to be computed."""
        delayed = self.X.to_delayed()
        return list(delayed) if self.is_frame else list(delayed[:, 0])

    def engine(self, n_threads: int) -> Engine:
        """The engine that asks the partitions."""
        client = self._client if self._client is not None else _current_client()
        return (
            SerialEngine(_Computed(self.contents), n_threads)
            if client is None
            else DaskEngine(client, self.contents)
        )

    def labels(self, output: Output, entries: list[RecipeEntry]) -> DaskCollection:
        """Labels of all rows: a Series with the index and the divisions of the frame, or an array.

        Labels that follow from the cells of each row are mapped over the frame, so that Dask aligns them with
        it by partition.
        """
        import dask

        sent = dask.delayed((replace(output, collection=None), entries), traverse=False)
        labels: DaskCollection
        if self.is_frame and all(getattr(recipe, "rowwise", False) for _, recipe, _ in entries):
            labels = self.X.map_partitions(
                _labels_by_row,
                sent,
                meta=self._no_labels(),
                enforce_metadata=False,
                transform_divisions=False,
            )
            return labels
        each = [dask.delayed(_labels)(sent, i, content) for i, content in enumerate(self.contents)]
        if self.is_frame:
            import dask.dataframe as dd

            labels = dd.from_delayed(
                each, meta=self._no_labels(), divisions=self.X.divisions, verify_meta=False
            )
            return labels
        import dask.array as da

        blocks = [
            da.from_delayed(of_part, (n,), np.int32)
            for of_part, n in zip(each, self.X.chunks[0], strict=True)
        ]
        labels = da.concatenate(blocks)
        return labels

    def _no_labels(self) -> pd.Series:
        """Labels of no rows."""
        import pandas as pd

        return pd.Series([], dtype=np.int32, index=self.X._meta.index, name="labels")

    def margins(self, model: BaseEstimator) -> DaskCollection:
        """The margins of all rows under a model."""
        margins = model.margins(self.X)
        most = np.finfo(np.float32).max if model.n_clusters_ > 1 else np.inf
        capped: DaskCollection = margins.clip(None, most).astype(np.float32)
        return capped


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
    """The client that Dask would use, or None."""
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
