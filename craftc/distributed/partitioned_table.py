"""A mixed table whose rows lie in partitions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from craftc._common.labels import first_rows
from craftc._common.threads import threads_for
from craftc._common.typing import Array, DaskCollection, Floats, Integers, Labels
from craftc._kernels import moments as moments_kernel
from craftc.distributed.engine import Engine, LabelNode, read_again, read_part, rebuilt
from craftc.distributed.partitions import Call, Content, Message, Part, PartitionReading, RecipeEntry
from craftc.table.bins import SAMPLED_ABOVE, few_values, joined_tally, may_be_few, sampled_rows, tally
from craftc.table.levels import LevelEncoding
from craftc.table.mixed_table import MixedTable, Schema

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

#: One value of every row, in the form of the input.
OfRows: TypeAlias = Array | DaskCollection

_COLUMNS_AT_ONCE = 8  # whose samples of 2^20 cells are gathered at once


class PartitionedTable:
    """A table whose rows lie in partitions; stands for a `MixedTable` where rows are not read one by one."""

    grid: moments_kernel.Grid | None = None  # of the numeric columns, once it is known

    def __init__(
        self,
        schema: Schema,
        engine: Engine,
        starts: Integers,
        collection: PartitionedInput,
        source: PartitionedTable | None = None,
        scored: bool = False,
    ) -> None:
        self.schema, self.engine = schema, engine
        self.starts = starts  # (n_partitions + 1,) first row of every partition, and the number of rows
        self.collection = collection  # the input, in whose form labels are returned
        self.source = source  # the table as it was read, if this is that table as the model sees it
        self.scored = scored  # whether this is the encoded table with its scores

    @property
    def stage(self) -> str:
        """The block of every partition that holds the rows: "source", "table" or "scored"."""
        return "scored" if self.scored else "source" if self.source is None else "table"

    def __len__(self) -> int:
        return int(self.starts[-1])

    @property
    def numeric_names(self) -> tuple[str, ...]:
        return self.schema.numeric_names

    @property
    def n_levels(self) -> Array:
        return self.schema.n_levels

    def by_partition(self, rows: Array) -> list[Integers]:
        """Ascending rows as positions inside every partition."""
        ends = np.searchsorted(rows, self.starts)
        each = zip(ends[:-1], ends[1:], self.starts[:-1], strict=True)
        return [rows[first:last].astype(np.int64) - start for first, last, start in each]

    def take(self, rows: Array) -> MixedTable:
        """The table of some rows, in ascending order, in this process."""
        found = self.engine.ask(_cells, (), self.stage, each=self.by_partition(np.asarray(rows)))
        numeric, codes = (np.concatenate(blocks) for blocks in zip(*found, strict=True))
        return MixedTable._trusted(numeric, codes, self.schema)

    def column_ranges(self) -> tuple[Floats, Floats]:
        """(p,) the smallest and the largest number of every column; inf and -inf without any."""
        low, high = zip(*self.engine.ask(_ranges, (), self.stage), strict=True)
        return np.min(low, axis=0), np.max(high, axis=0)

    def tallies(self) -> Iterator[tuple[Array, Array]]:
        """Distinct values of every numeric column and their numbers, as `table_tally` of the whole table
        gives them.
        """
        p, n = len(self.schema.numeric_index), len(self)
        if n <= SAMPLED_ABOVE:
            yield from (tally(self._cells_of([j], None)[:, 0], None) for j in range(p))
            return
        rows = self.by_partition(sampled_rows(n))
        for first in range(0, p, _COLUMNS_AT_ONCE):
            columns = list(range(first, min(first + _COLUMNS_AT_ONCE, p)))
            samples = [tally(cells, None) for cells in self._cells_of(columns, rows).T]
            short = [j for j, (values, _) in zip(columns, samples, strict=True) if may_be_few(values)]
            found = zip(*self.engine.ask(_few_values, (), short), strict=True) if short else ()
            exact = {j: joined_tally(of_column) for j, of_column in zip(short, found, strict=True)}
            yield from (exact.get(j) or sample for j, sample in zip(columns, samples, strict=True))

    def _cells_of(self, columns: list[int], rows: list[Integers] | None) -> Array:
        """Numeric columns, of all rows or of some rows of every partition."""
        each = [None] * self.engine.n_partitions if rows is None else rows
        return np.concatenate(self.engine.ask(_numbers, (), columns, each=each))

    def encoded(self, encoding: LevelEncoding) -> PartitionedTable:
        """The table as the model sees it."""
        if encoding.identity:
            return self
        self.engine.prepare(_encode, encoding)
        return PartitionedTable(encoding.schema, self.engine, self.starts, self.collection, self)

    def with_scores(self, encoding: LevelEncoding) -> PartitionedTable:
        """This encoded table with the scores of its levels."""
        self.engine.prepare(_score, encoding)
        source = self if self.source is None else self.source
        return PartitionedTable(encoding.schema, self.engine, self.starts, self.collection, source, True)

    def output(self) -> Output:
        """All that is needed to compute labels of all rows again from the input."""
        return Output(self.collection, self.engine.reading, self.engine.digests, list(self.engine.prelude))


class PartitionedInput(ABC):
    n_missing = 0  # missing cells, once the input has been read
    left_out: tuple[str, ...] = ()  # columns of files that are not read

    @property
    @abstractmethod
    def examples(self) -> list[tuple[str, Content]]:
        """Rows that show the columns, each with the name of its partition for error messages."""

    @abstractmethod
    def engine(self, n_threads: int) -> Engine:
        """The engine that asks the partitions."""

    @abstractmethod
    def labels(self, output: Output, entries: list[RecipeEntry]) -> OfRows:
        """Labels of all rows in the form of the input."""

    @abstractmethod
    def margins(self, model: BaseEstimator) -> OfRows:
        """The margins of all rows under a model, in the same form."""


def largest_margin(model: BaseEstimator) -> float:
    """The largest margin of a row as float32; infinite if there is no other cluster."""
    return float(np.finfo(np.float32).max) if model.n_clusters_ > 1 else np.inf


@dataclass(frozen=True)
class Output:
    """Computes labels of all rows again from the input, without the engine of the fit."""

    collection: PartitionedInput | None  # None in the graph of a collection
    reading: PartitionReading
    digests: list[int]  # checksums of the partitions
    prelude: list[Call]

    def labels(self, node: LabelNode) -> OfRows:
        assert self.collection is not None
        return self.collection.labels(self, [each.entry() for each in node.chain()])

    def of_partition(self, index: int, content: Content, entries: list[RecipeEntry]) -> Labels:
        part = read_again(f"Partition {index}", self.reading, self.digests[index], content)
        return self._labels(part, index, entries)

    def of_rows(self, content: Content, entries: list[RecipeEntry]) -> Labels:
        """Labels of any rows of the input, by recipes that depend on the cells of a row alone."""
        return self._labels(read_part("The collection", self.reading, content), 0, entries)

    def _labels(self, part: Part, index: int, entries: list[RecipeEntry]) -> Labels:
        *earlier, last = (entry[0] for entry in entries)
        prelude = Message([], self.prelude, []).for_partition(index).calls
        labels: Labels = rebuilt(part, prelude, Message(entries, [Call(labels_of, (), (last,))], earlier))[0]
        return labels


def first_rows_of(part: Part, labels: Labels, n_clusters: int) -> dict[int, int]:
    """The position in the whole table of the first row of every cluster that the partition has."""
    return {k: part.first + row for k, row in first_rows(labels, n_clusters).items()}


def labels_of(part: Part, labels: Labels) -> Labels:
    return labels


def _cells(part: Part, stage: str, rows: Integers) -> tuple[Array, Array]:
    table = part.at(stage)
    return table.numeric[rows], table.codes[rows]


def _ranges(part: Part, stage: str) -> tuple[Floats, Floats]:
    table = part.at(stage)
    low, high = np.empty((2, table.numeric.shape[1]))
    moments_kernel.column_ranges(
        table.numeric, np.empty(0, np.int64), low, high, threads_for(part.n_threads, 2 * table.numeric.size)
    )
    return low, high


def _numbers(part: Part, columns: list[int], rows: Integers | None) -> Array:
    cells = part.source.numeric if rows is None else part.source.numeric[rows]
    return np.ascontiguousarray(cells[:, columns])


def _few_values(part: Part, columns: list[int]) -> list[tuple[Array, Array] | None]:
    return [few_values(part.source.numeric[:, j], None) for j in columns]


def _encode(part: Part, encoding: LevelEncoding) -> None:
    part.table = encoding.apply(part.source, n_threads=part.n_threads)


def _score(part: Part, encoding: LevelEncoding) -> None:
    part.scored = encoding.with_scores_of(part.table)
