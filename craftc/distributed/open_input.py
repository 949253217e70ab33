"""The door of every fit for its table: where the rows lie is asked here, once."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias

import numpy as np

from craftc.table.estimator_input import set_input_attributes
from craftc.table.mixed_table import MixedTable
from craftc.table.out_of_core import is_out_of_core

if TYPE_CHECKING:
    from craftc._common.typing import ColumnSelection, DaskClient, TableInput
    from craftc.distributed.partitioned_table import PartitionedInput, PartitionedTable

Place = Literal["memory", "files", "partitions"]
#: What `fit` takes as X where rows may lie in partitions.
FitTable: TypeAlias = "TableInput | PartitionedInput"


def place_of(X: FitTable, client: DaskClient | None = None) -> Place:
    """Where the rows of an input lie: in memory, in files that this process reads in batches, or in
    partitions (`Partitions`, a Dask collection, or files that the workers of a client read).
    """
    if client is None and isinstance(X, np.ndarray | MixedTable):
        return "memory"
    from craftc.distributed.read import is_partitioned

    if is_partitioned(X, client):
        return "partitions"
    return "files" if is_out_of_core(X) else "memory"


class FitInput:
    """The X of one fit, as a context that closes the engine of partitions.

    Attributes
    ----------
    place : {"memory", "files", "partitions"}
    table : MixedTable or PartitionedTable
        Once `read` has been called.
    """

    table: MixedTable | PartitionedTable

    def __init__(self, X: Any, client: DaskClient | None = None) -> None:
        self.X, self.client, self.place = X, client, place_of(X, client)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.place == "partitions" and hasattr(self, "table"):
            self.table.engine.close()  # type: ignore[union-attr]

    def require_memory(self, reason: str) -> None:
        """Raise ValueError unless the table is in memory."""
        if self.place == "files":
            remedy = "choose columns by MixedTable.from_parquet(path, columns=[...])"
        else:
            remedy = "choose the columns of the collection"
        if self.place != "memory":
            raise ValueError(f"{reason} needs a table in memory; {remedy}.")

    def read(
        self, categorical: ColumnSelection, missing: str, n_threads: int
    ) -> MixedTable | PartitionedTable:
        """Read the table, in memory or into scratch files; rows in partitions stay there."""
        if self.place == "partitions":
            from craftc.distributed.read import read_partitions

            self.table = read_partitions(self.X, self.client, categorical, missing, n_threads)
        elif self.place == "files":
            self.table = MixedTable.from_parquet(self.X, categorical=categorical, missing=missing)
        else:
            self.table = MixedTable.from_data(self.X, categorical=categorical, missing=missing)
        return self.table

    def describe(self, estimator: Any) -> None:
        """Set n_features_in_ and feature_names_in_; called when nothing can be refused any more."""
        set_input_attributes(estimator, self.X, self.table)
