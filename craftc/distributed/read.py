"""PartitionReading of collections: all partitions together determine the schema of the table."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress
from typing import TYPE_CHECKING

import numpy as np

from craftc._common.typing import Array, ColumnSelection, DaskClient, FrameInput, TableInput
from craftc.distributed.collections import is_collection
from craftc.distributed.engine import Engine, SerialEngine
from craftc.distributed.partitioned_table import (
    Output,
    PartitionedInput,
    PartitionedTable,
    largest_margin,
)
from craftc.distributed.partitions import Content, Part, PartitionReading, RecipeEntry, Summary, n_rows_of
from craftc.table.declared import KindsInput, check_reading, ignored_columns, plan_columns
from craftc.table.frames import open_source
from craftc.table.kinds import ColumnKind
from craftc.table.level_column import LevelColumn, check_text, common_order
from craftc.table.mixed_table import Schema
from craftc.table.out_of_core import is_out_of_core, located

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator


class Partitions(PartitionedInput):
    """A table in parts, which `fit` treats as one table without joining them.

    Parameters
    ----------
    contents : sequence of data frames or arrays
        They have the same columns; some may be empty.

    Examples
    --------
    >>> import numpy as np
    >>> from craftc import CRAFT
    >>> from craftc.distributed import Partitions
    >>> rows = np.random.default_rng(0).normal(size=(200, 2)) + np.repeat([[0.0], [9.0]], 100, axis=0)
    >>> in_parts = CRAFT(random_state=0).fit(Partitions([rows[:70], rows[70:]]))
    >>> bool((in_parts.labels_ == CRAFT(random_state=0).fit(rows).labels_).all())
    True
    """

    def __init__(self, contents: Sequence[FrameInput]) -> None:
        if not len(contents):
            raise ValueError("Partitions needs at least one data frame or array, got an empty list.")
        self.contents = list(contents)

    @property
    def examples(self) -> list[tuple[str, Content]]:
        """The parts with rows, which show the columns, and their names."""
        filled = [i for i, content in enumerate(self.contents) if n_rows_of(content)]
        return [(f"Partition {i}", self.contents[i]) for i in filled or [0]]

    def engine(self, n_threads: int) -> Engine:
        return SerialEngine(self.contents, n_threads)

    def labels(self, output: Output, entries: list[RecipeEntry]) -> Array:
        return np.concatenate(
            [output.of_partition(i, content, entries) for i, content in enumerate(self.contents)]
        )

    def margins(self, model: BaseEstimator) -> Array:
        margins = np.concatenate([model.margins(content) for content in self.contents if n_rows_of(content)])
        narrow: Array = np.minimum(margins, largest_margin(model)).astype(np.float32)
        return narrow


def is_partitioned(X: TableInput | PartitionedInput, client: DaskClient | None = None) -> bool:
    """Whether X is `Partitions`, a Dask data frame or array, or files that a client's workers read."""
    partitioned = (
        isinstance(X, PartitionedInput) or is_collection(X) or (client is not None and is_out_of_core(X))
    )
    if client is not None and not partitioned:
        raise ValueError(
            "client= belongs to Dask collections and files that workers read, but X is a "
            f"{type(X).__name__}; leave it out."
        )
    return partitioned


def partitions_of(
    X: TableInput | PartitionedInput, client: DaskClient | None, ignored: Sequence[str] = ()
) -> PartitionedInput:
    if isinstance(X, PartitionedInput):
        return X
    if client is not None and is_out_of_core(X):
        from craftc.distributed.dask.inputs import DaskFiles

        return DaskFiles(X, client, ignored=ignored)
    from craftc.distributed.dask.inputs import DaskPartitions

    return DaskPartitions(X, client)


def read_partitions(
    X: TableInput | PartitionedInput,
    client: DaskClient | None,
    categorical: ColumnSelection,
    missing: str,
    n_threads: int,
    kinds: KindsInput = None,
) -> PartitionedTable:
    """Read a table in partitions; the result stands for `MixedTable.from_data` of the whole table."""
    check_reading(missing, None)
    ignored = ignored_columns(kinds)
    collection = partitions_of(X, client, ignored)
    source = _CommonColumns(collection.examples, ignored)
    plan = plan_columns(
        [*source.names, *collection.left_out],
        source.named,
        lambda: np.append(source.categorical_mask, np.zeros(len(collection.left_out), bool)),
        categorical,
        kinds,
    )
    numeric, categorical_index = plan.numeric_index, plan.categorical_index
    narrow, is_text = source.narrow[plan.kept], source.is_text[plan.kept]
    dtype = np.dtype(np.float32 if len(numeric) and narrow[numeric].all() else np.float64)
    reading = PartitionReading(
        plan.names,
        source.named,
        tuple(numeric.tolist()),
        tuple(categorical_index.tolist()),
        dtype.name,
        ignored=plan.ignored,
    )
    engine = collection.engine(n_threads)
    try:
        summaries = engine.load(reading)
        starts = np.concatenate([[0], np.cumsum([summary.n_rows for summary in summaries])]).astype(np.int64)
        n = int(starts[-1])
        if not n:
            raise ValueError(
                f"Found array with 0 sample(s) (shape=(0, {len(source.names)})) while a minimum of 1 is "
                "required."
            )
        if n >= 2**31:
            raise ValueError(f"The collection has {n} rows, but at most {2**31 - 1} are supported.")
        n_missing = np.sum([summary.n_missing for summary in summaries], axis=0)
        columns = [
            _column(plan.names[j], d, int(n_missing[j]), summaries)
            for d, j in enumerate(categorical_index.tolist())
        ]
        for j, column in zip(categorical_index.tolist(), columns, strict=True):
            if plan.by_type[j] and is_text[j]:
                check_text(column.name, column.present(), n - int(n_missing[j]))
        schema = Schema.of_plan(plan, source.named, columns, dtype, missing)
        schema.check_missing(n_missing, n)
        collection.n_missing = int(n_missing.sum())
        engine.prepare(Part.encode, schema, each=starts[:-1].tolist())
    except BaseException:
        engine.close()
        raise
    return PartitionedTable(schema, engine, starts, collection)


class _CommonColumns:
    """The common columns of parts of a table: which are categorical by type, hold text, or fit float32. The
    ignored columns may hold anything.
    """

    def __init__(self, examples: list[tuple[str, Content]], ignored: list[str]) -> None:
        for i, (where, example) in enumerate(examples):
            try:
                source = open_source(example)
                if not i:
                    self.names, self.named = source.names, source.named
                    self.categorical_mask, self.is_text = np.zeros((2, len(self.names)), bool)
                    self.narrow = np.ones(len(self.names), bool)
                place = PartitionReading(self.names, self.named, (), (), "float64").positions(source)
                self.categorical_mask |= source.categorical_mask()[place]
                source.numbers(
                    np.array(
                        [
                            j
                            for j in place
                            if source.kinds[j] == ColumnKind.OTHER and source.names[j] not in ignored
                        ],
                        np.intp,
                    ),
                    np.dtype(np.float64),
                )  # refuses them
            except (TypeError, ValueError) as error:
                raise located(error, where) from error
            self.is_text |= [source.kinds[j] == ColumnKind.TEXT for j in place]
            self.narrow &= [source.narrow[j] or source.kinds[j] == ColumnKind.EMPTY for j in place]


def _check_families(name: str, d: int, summaries: Sequence[Summary]) -> None:
    """Raise TypeError if the values of a categorical column are of other types in some partitions."""
    name_of, found = {str: "text", bool: "booleans"}, []  # 1, "1" and True are different levels
    for i, summary in enumerate(summaries):
        values = (value for value in summary.values[d].values if value is not None)
        if families := {name_of.get(type(value), "numbers") for value in values}:
            found.append((i, families))
    for i, families in found[1:]:
        first, expected = found[0]
        if families != expected:
            own, other = (" and ".join(sorted(each)) for each in (families, expected))
            raise TypeError(
                f"Partition {i}: column {name!r} holds {own}, but {other} in partition {first}; convert it."
            )


def _column(name: str, d: int, n_missing: int, summaries: Sequence[Summary]) -> LevelColumn:
    """A categorical column of the whole table; its order is declared if all partitions declare the same."""
    _check_families(name, d, summaries)
    filled = [summary.values[d] for summary in summaries if summary.n_rows]
    first = filled[0]
    scale = common_order(name, (part.scale for part in filled))
    if declared := first.declared and all(part.declared and part.values == first.values for part in filled):
        values, used = first.values, np.any([part.used for part in filled], axis=0)
    else:
        values = list(dict.fromkeys(value for part in filled for value in compress(part.values, part.used)))
        used = np.ones(len(values), bool)
    codes = np.append(np.flatnonzero(used), np.full(int(n_missing > 0), -1))
    return LevelColumn(name, codes, values, strict=True, declared=declared, scale=scale)
