"""The door of every fit for its table: where the rows lie is asked here, once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

import numpy as np
from sklearn.utils.validation import validate_data

from craftc._common.foreign_input import is_record_batch, is_records
from craftc._common.own_names import remember_input
from craftc.table.mixed_table import MixedTable, Schema
from craftc.table.out_of_core import is_out_of_core

if TYPE_CHECKING:
    from craftc._common.typing import ColumnSelection, DaskClient, TableInput
    from craftc.distributed.partitioned_table import PartitionedInput, PartitionedTable
    from craftc.table.declared import KindsInput

#: What `fit` takes as X where rows may lie in partitions.
FitTable: TypeAlias = "TableInput | PartitionedInput"


@dataclass
class FitInput:
    """The X of one fit, and where its rows lie; partitions include files that a client's workers read."""

    X: Any
    client: DaskClient | None
    place: Literal["memory", "files", "partitions"]
    table: MixedTable | PartitionedTable | None = None  # once it is read

    def require_memory(self, reason: str) -> None:
        """Raise ValueError unless the table is in memory."""
        if self.place == "files":
            remedy = "choose columns by MixedTable.from_parquet(path, columns=[...])"
        else:
            remedy = "choose the columns of the collection"
        if self.place != "memory":
            raise ValueError(f"{reason} needs a table in memory; {remedy}.")

    def read(
        self, categorical: ColumnSelection, missing: str, n_threads: int, kinds: KindsInput = None
    ) -> MixedTable | PartitionedTable:
        """Read the table, in memory or into scratch files; rows in partitions stay there."""
        if self.place == "partitions":
            from craftc.distributed.read import read_partitions

            self.table = read_partitions(self.X, self.client, categorical, missing, n_threads, kinds)
        elif self.place == "files":
            self.table = MixedTable.from_parquet(
                self.X, categorical=categorical, missing=missing, kinds=kinds
            )
        else:
            self.table = MixedTable.from_data(self.X, categorical=categorical, missing=missing, kinds=kinds)
        return self.table


@contextmanager
def open_input(X: FitTable, client: DaskClient | None = None) -> Iterator[FitInput]:
    """The input of a fit; the engine of partitions is closed at the end."""
    if client is None and isinstance(X, np.ndarray | MixedTable):
        yield FitInput(X, client, "memory")
        return
    from craftc.distributed.read import is_partitioned

    if not is_partitioned(X, client):
        yield FitInput(X, client, "files" if is_out_of_core(X) else "memory")
        return
    source = FitInput(X, client, "partitions")
    try:
        yield source
    finally:
        if source.table is not None and not isinstance(source.table, MixedTable):
            source.table.engine.close()


class HasSchema(Protocol):
    @property
    def schema(self) -> Schema: ...


def set_input_attributes(estimator: object, X: FitTable, table: HasSchema) -> None:
    """Set n_features_in_, feature_names_in_ and the library of X, when nothing can be refused any more."""
    attributes, schema = vars(estimator), table.schema
    remember_input(estimator, X)
    ours = isinstance(X, MixedTable | Mapping | np.ndarray) or not isinstance(table, MixedTable)
    ours = ours or is_record_batch(X) or is_records(X)
    text_names = schema.named and all(isinstance(name, str) for name in getattr(X, "columns", (None,)))
    if not (ours or text_names or schema.ignored or is_out_of_core(X)):
        validate_data(estimator, X, skip_check_array=True, reset=True)
        return
    attributes["n_features_in_"] = schema.n_columns
    attributes.pop("feature_names_in_", None)
    if schema.named:
        attributes["feature_names_in_"] = np.array(schema.columns, dtype=object)
