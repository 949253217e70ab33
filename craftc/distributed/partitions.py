"""Partitions of a table, each with its encoded rows and labels, as a worker holds them.

A worker holds no state that cannot be made again. The rows of a partition follow from its source, and its
labels from recipes: "all rows in one cluster", "every row in its cheapest cluster of these cost tables",
"renumbered by this array". A worker that meets a partition for the first time, because the one that held it
was lost, reads the source and follows the recipes, and arrives at the same bits.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from craftc._about import version
from craftc._common.typing import Array, FrameInput, Labels
from craftc._kernels.moments import Grid
from craftc.table.blocks import Scratch, release_pages
from craftc.table.frames import ColumnSource, count_missing, open_source
from craftc.table.kinds import ColumnKind
from craftc.table.level_column import LevelColumn
from craftc.table.mixed_table import MixedTable, Schema

#: Rows of a partition as they are read; None: no rows.
Content: TypeAlias = "FrameInput | None"

#: The rows of a partition as they were read, as levels, and as levels with their scores.
STAGES = ("source", "table", "scored")
#: Labels that a recipe may hold; more are made again by a longer chain of recipes.
MOST_GIVEN = 1 << 14


@dataclass(frozen=True)
class PartitionReading:
    names: tuple[str, ...]  # of the columns
    named: bool  # whether partitions have names of columns, by which their columns are found
    numeric: tuple[int, ...]  # positions of the numeric columns
    categorical: tuple[int, ...]  # positions of the categorical columns
    dtype: str  # of the numeric block
    scratch: str | os.PathLike[str] | None = None  # of scratch files; None: the worker's temporary folder
    ignored: tuple[str, ...] = ()  # columns that are not read
    version: str = field(default_factory=version)  # of craftc in the process that fits

    def check_version(self) -> None:
        """Raise RuntimeError on a worker with another version, which may arrive at other numbers."""
        if self.version != version():
            raise RuntimeError(
                f"A worker has craftc {version()}, and the process that fits has {self.version}; install the "
                "same version on all of them."
            )

    def positions(self, source: ColumnSource) -> NDArray[np.intp]:
        """The positions of the columns in a partition; raise ValueError if it has others."""
        every = (*self.names, *self.ignored)
        if source.named and self.named:
            absent = [name for name in self.names if name not in source.names]
            extra = [name for name in source.names if name not in every]
            if absent or extra:
                problem = f"has column {extra[0]!r}, which the collection lacks" if extra else ""
                if absent:
                    problem = f"lacks column {absent[0]!r}, which the collection has"
                raise ValueError(f"it {problem}; its columns are {list(source.names)}.")
        elif source.named != self.named or len(source.names) != len(every):
            own, common = (
                f"the columns {list(names)}" if named else f"{len(names)} columns without names"
                for names, named in ((source.names, source.named), (every, self.named))
            )
            raise ValueError(f"it has {own}, but the collection has {common}.")
        return np.array([source.names.index(name) for name in self.names], np.intp)

    def check_width(self, source: ColumnSource, numeric: NDArray[np.intp]) -> None:
        """Raise ValueError if the dtype of the collection cannot represent the numbers of a partition."""
        wide = [
            source.names[j] for j in numeric if not source.narrow[j] and source.kinds[j] != ColumnKind.EMPTY
        ]
        if self.dtype == "float32" and wide:
            raise ValueError(
                f"column {wide[0]!r} has more digits than the float32 of the collection; convert it, or the "
                "collection."
            )


@dataclass
class PartLevels:
    """The distinct values of a categorical column in one partition, as in `LevelColumn`."""

    values: list[Any]
    used: Array
    declared: bool
    scale: list[Any]


@dataclass
class Summary:
    """Size and categories of a partition that has been read."""

    n_rows: int
    n_missing: Array  # (D,) intp, missing values of every column
    values: list[PartLevels]  # of every categorical column
    digest: int  # checksum of the content


class LabelRecipe(Protocol):
    """How the labels of a partition follow from earlier ones."""

    @property
    def labels(self) -> Callable[..., Array | Placed]:
        """A method (part, *labels of the parents) that returns the labels of the rows of a partition."""
        ...


#: Number, recipe and numbers of the parents of labels.
RecipeEntry: TypeAlias = tuple[int, LabelRecipe, tuple[int, ...]]


class Part:
    """One partition on the worker that holds it; its rows lie in scratch files."""

    source: MixedTable  # the rows as they were read
    table: MixedTable  # the rows as the model sees them
    scored: MixedTable  # these with their scores, where they are needed

    def __init__(self, reading: PartitionReading, content: Content) -> None:
        reading.check_version()
        self.first = 0  # position of the first row in the whole table
        self.n_threads = 1  # of the next operation
        self.known: dict[int, Array | Placed] = {}
        self._scratch = Scratch(reading.scratch)
        numeric_index, dtype = np.array(reading.numeric, np.intp), np.dtype(reading.dtype)
        n_missing = np.zeros(len(reading.names), np.intp)
        if content is None or not n_rows_of(content):
            numbers = np.empty((0, len(numeric_index)), dtype)
            columns = [_no_cells(reading.names[j]) for j in reading.categorical]
        else:
            source = open_source(content)
            place = reading.positions(source)
            reading.check_width(source, place[numeric_index])
            numbers = source.numbers(place[numeric_index], dtype)
            n_missing[numeric_index] = count_missing(numbers, [reading.names[j] for j in reading.numeric])
            columns = [source.column(int(place[j])) for j in reading.categorical]
            n_missing[list(reading.categorical)] = [column.n_missing for column in columns]
        self._numbers = self._stored(numbers)
        narrowest = np.result_type(np.int8, *(column.codes.dtype for column in columns))
        codes = self._scratch.empty((len(numbers), len(columns)), narrowest)
        for d, column in enumerate(columns):
            codes[:, d] = column.codes
            column.codes = codes[:, d]
        self._columns = columns
        digest = zlib.crc32(_bytes(codes), zlib.crc32(_bytes(self._numbers)))
        digest = zlib.crc32(repr([column.values for column in columns]).encode(), digest)
        values = [
            PartLevels(column.values[:-1], column.used[:-1], column.declared, column.scale)
            for column in columns
        ]
        self.summary = Summary(len(numbers), n_missing, values, digest)

    def __len__(self) -> int:
        return len(self._numbers)

    def _stored(self, block: Array) -> Array:
        kept = self._scratch.empty(block.shape, block.dtype)
        kept[:] = block
        return kept

    def release_pages(self) -> None:
        """Drop the pages of the scratch files from the memory of the process, which Dask limits."""
        tables = [vars(self)[name] for name in STAGES if name in vars(self)]
        for block in (self._numbers, *(block for table in tables for block in (table.numeric, table.codes))):
            release_pages(block)

    def at(self, stage: str) -> MixedTable:
        """The rows at a stage, one of `STAGES`."""
        table: MixedTable = getattr(self, stage)
        return table

    def of_grid(self, grid: Grid) -> MixedTable:
        """The encoded rows, with their scores if the grid has numeric columns."""
        return self.scored if grid.p else self.table

    def own(self, rows: NDArray[np.int64]) -> tuple[slice, NDArray[np.int64]]:
        """Which of some ascending rows of the whole table are in the partition, and their positions in it."""
        here = slice(*(int(at) for at in np.searchsorted(rows, (self.first, self.first + len(self)))))
        return here, rows[here] - self.first

    def encode(self, schema: Schema, first: int) -> None:
        """Translate the categories to the codes of the whole table, whose row `first` is the first here."""
        if "source" in vars(self):  # a message that is answered twice
            return
        self.first = first
        encoded = schema._table(self._numbers, self._columns, "ignore")
        self.source = self.table = MixedTable._trusted(
            self._numbers, self._stored(encoded.codes), schema, self._scratch
        )
        self._columns = []


@dataclass(frozen=True)
class OneCluster:
    """The recipe of all rows in cluster 0."""

    rowwise: ClassVar[bool] = True

    def labels(self, part: Part) -> Labels:
        return np.zeros(len(part), np.int32)


class Placed(Protocol):
    """Labels of the rows of a partition, with data that belongs to them."""

    def renumbered(self, number: NDArray[np.int32]) -> Placed: ...


@dataclass(frozen=True, eq=False)
class Renumbered:
    """The recipe number[labels]; rows without a cluster, -1, have the last entry."""

    number: NDArray[np.int32]
    rowwise: ClassVar[bool] = True

    def labels(self, part: Part, before: Labels | Placed) -> Labels | Placed:
        return self.number[before] if isinstance(before, np.ndarray) else before.renumbered(self.number)


@dataclass(frozen=True)
class Call:
    """One operation on all partitions."""

    function: Callable[..., Any]  # (part, *labels, *args), of a module
    args: tuple[object, ...] = ()
    labels: tuple[int, ...] = ()  # their numbers
    each: Sequence[object] | Mapping[int, object] | None = None  # a further last argument for every partition


@dataclass
class Message:
    """The requests to partitions in one round."""

    recipes: list[RecipeEntry] = field(default_factory=list)  # labels to make first, in this order
    calls: list[Call] = field(default_factory=list)
    dropped: list[int] = field(default_factory=list)  # labels that are no longer needed

    def for_partitions(self, indices: list[int]) -> Message:
        """The message with the arguments of some partitions only."""
        calls = [
            call if call.each is None else replace(call, each={index: call.each[index] for index in indices})
            for call in self.calls
        ]
        return replace(self, calls=calls)

    def for_partition(self, index: int) -> Message:
        """The message with the arguments of one partition only."""
        calls = [
            call if call.each is None else Call(call.function, (*call.args, call.each[index]), call.labels)
            for call in self.calls
        ]
        return Message(self.recipes, calls, self.dropped)


class Absent(Exception):
    """A worker lacks a partition, or labels of it."""


def answer(part: Part, message: Message) -> list[Any]:
    """The results of the calls of a message for one partition; the same if it is answered twice."""
    known, last = part.known, _last_uses(message)
    for number, recipe, parents in message.recipes:
        if number not in known:
            if any(parent not in known for parent in parents):
                raise Absent
            known[number] = recipe.labels(part, *(known[parent] for parent in parents))
        for parent in parents:
            if last.get(parent) == number:
                known.pop(parent, None)
    if any(number not in known for call in message.calls for number in call.labels):
        raise Absent
    results = [
        call.function(part, *(known[number] for number in call.labels), *call.args) for call in message.calls
    ]
    for number in message.dropped:
        known.pop(number, None)
    return results


def n_rows_of(content: Content) -> int:
    """Rows of a data frame, dict, array or sparse array."""
    rows: Any = next(iter(content.values()), ()) if isinstance(content, Mapping) else content
    return int(rows.shape[0]) if hasattr(rows, "shape") else len(rows)


def _last_uses(message: Message) -> dict[int, int]:
    """The last recipe that uses dropped labels that no call needs: long chains then take little memory."""
    last = {parent: number for number, _, parents in message.recipes for parent in parents}
    asked = {number for call in message.calls for number in call.labels}
    return {number: last[number] for number in message.dropped if number in last and number not in asked}


def _no_cells(name: str) -> LevelColumn:
    return LevelColumn(name, np.empty(0, np.int8), [], strict=True, declared=True)


def _bytes(block: Array) -> memoryview:
    return block.reshape(-1).view(np.uint8).data
