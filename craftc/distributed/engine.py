"""Engines that bring operations to all partitions: one in this process; `craftc.distributed.dask.engine` has
one on a Dask cluster.
"""

from __future__ import annotations

import weakref
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Callable, Coroutine, Generator, Iterable, Sequence
from typing import Any, Generic, TypeVar

from craftc.distributed.partitions import (
    Call,
    Content,
    LabelRecipe,
    Message,
    Part,
    PartitionReading,
    RecipeEntry,
    Summary,
    answer,
)
from craftc.table.out_of_core import located

T = TypeVar("T")


class FarLabels:
    """Labels of all rows, which lie with the partitions; they never change."""

    def __init__(self, engine: Engine, node: LabelNode, parents: tuple[FarLabels, ...] = ()) -> None:
        self.node = node
        self._parents = parents  # partitions keep these labels until the new ones are made
        self.facts: dict[object, Any] = {}  # answers of the partitions about the labels
        engine.keep(node)
        # the garbage collector may call it in any thread and at any time
        weakref.finalize(self, engine.released.append, node)

    def made(self) -> None:
        self._parents = ()

    def copy(self) -> FarLabels:
        return self


class LabelNode:
    """A recipe of labels, and the nodes of the labels from which they follow, whose numbers are smaller."""

    def __init__(self, number: int, recipe: LabelRecipe, parents: tuple[LabelNode, ...]) -> None:
        self.number, self.recipe, self.parents = number, recipe, parents

    def chain(self) -> list[LabelNode]:
        """The node and all of its ancestors, in the order in which labels are made."""
        found: dict[int, LabelNode] = {}
        waiting = [self]
        while waiting:
            node = waiting.pop()
            if node.number not in found:
                found[node.number] = node
                waiting += node.parents
        return [found[number] for number in sorted(found)]

    def entry(self) -> RecipeEntry:
        return self.number, self.recipe, tuple(parent.number for parent in self.parents)


class Question(Generic[T]):
    """An operation (part, *labels, *args, one of `each`) for whose results a coroutine waits."""

    def __init__(
        self,
        function: Callable[..., T],
        labels: Sequence[FarLabels] = (),
        *args: object,
        each: Sequence[object] | None = None,
    ) -> None:
        self.function, self.labels, self.args, self.each = function, tuple(labels), args, each

    def __await__(self) -> Generator[Question[T], list[T], list[T]]:
        return (yield self)


class Engine(ABC):
    """Rounds of questions to all partitions."""

    n_partitions: int
    reading: PartitionReading
    digests: list[int]  # checksum of every partition

    def __init__(self) -> None:
        self.n_rounds = 0  # so far
        self._n_nodes = 0
        self._made: set[int] = set()
        self._dropped: list[int] = []
        self._live: dict[int, LabelNode] = {}
        self._n_handles: Counter[int] = Counter()
        self.released: deque[LabelNode] = deque()  # nodes of labels without references
        self.prelude: list[Call] = []  # operations that a partition repeats when it is read again

    # ---- labels ----

    def labels(self, recipe: LabelRecipe, *parents: FarLabels) -> FarLabels:
        return FarLabels(self, self.node(recipe, tuple(parent.node for parent in parents)), parents)

    def node(self, recipe: LabelRecipe, parents: tuple[LabelNode, ...]) -> LabelNode:
        self._n_nodes += 1
        return LabelNode(self._n_nodes, recipe, parents)

    def keep(self, node: LabelNode) -> None:
        """Count a reference to labels."""
        self._n_handles[node.number] += 1
        self._live[node.number] = node

    def _drop_released(self) -> None:
        """Forget labels without references."""
        while self.released:
            number = self.released.popleft().number
            self._n_handles[number] -= 1
            if not self._n_handles[number]:
                del self._live[number], self._n_handles[number]
                if number in self._made:
                    self._made.discard(number)
                    self._dropped.append(number)

    # ---- rounds ----

    def prepare(
        self, function: Callable[..., object], *args: object, each: Sequence[object] | None = None
    ) -> None:
        """Change the partitions themselves by an operation; a partition that is read again repeats it."""
        call = Call(function, args, (), each)
        self._round(Message([], [call], []))
        self.prelude.append(call)

    def ask(
        self,
        function: Callable[..., T],
        labels: Sequence[FarLabels] = (),
        *args: object,
        each: Sequence[object] | None = None,
    ) -> list[T]:
        """The results of one operation on every partition, in a round of its own."""
        return self._answers([Question(function, labels, *args, each=each)])[0]

    def together(self, coroutines: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
        """The results of coroutines; each round answers one question of every coroutine that has one."""
        running = dict(enumerate(coroutines))
        results: dict[int, T] = {}
        answers: dict[int, list[Any] | None] = dict.fromkeys(running)
        while running:
            questions: dict[int, Question[Any]] = {}
            for i in list(running):
                try:
                    questions[i] = running[i].send(answers[i])
                except StopIteration as end:
                    results[i] = end.value
                    del running[i]
            if questions:
                answers = dict(zip(questions, self._answers(list(questions.values())), strict=True))
        return [results[i] for i in sorted(results)]

    def _answers(self, questions: list[Question[T]]) -> list[list[T]]:
        """For every question the results of all partitions."""
        self._drop_released()
        unmade = (node for q in questions for label in q.labels for node in self._unmade(label.node))
        needed = {node.number: node for node in unmade}
        calls = [
            Call(q.function, q.args, tuple(label.node.number for label in q.labels), q.each)
            for q in questions
        ]
        dropped = [number for number in self._dropped if number not in needed]
        dropped += [number for number in sorted(needed) if number not in self._live]
        results = self._round(Message([needed[number].entry() for number in sorted(needed)], calls, dropped))
        self._made.update(number for number in needed if number in self._live)
        self._dropped = []
        for question in questions:
            for label in question.labels:
                label.made()
        return [list(of_question) for of_question in zip(*results, strict=True)]

    def _unmade(self, node: LabelNode) -> list[LabelNode]:
        """The nodes that partitions must make before they know these labels."""
        found, waiting = [], [node]
        while waiting:
            node = waiting.pop()
            if node.number not in self._made:
                found.append(node)
                waiting += node.parents
        return found

    def everything(self, message: Message, index: int) -> tuple[list[Call], Message]:
        """The calls that a partition repeats when it is read again, and the message with all live labels."""
        prelude = Message([], self.prelude, []).for_partition(index).calls
        asked = {number for call in message.calls for number in call.labels}
        nodes = {
            n.number: n
            for number in self._made | asked
            for n in (self._live[number].chain() if number in self._live else [])
        }
        entries = {number: node.entry() for number, node in nodes.items()} | {
            entry[0]: entry for entry in message.recipes
        }
        kept = self._made | {entry[0] for entry in message.recipes}
        surplus = [number for number in entries if number not in kept]
        of_partition = message.for_partition(index)
        return prelude, Message(
            [entries[number] for number in sorted(entries)], of_partition.calls, [*message.dropped, *surplus]
        )

    @abstractmethod
    def _round(self, message: Message) -> list[list[Any]]:
        """For every partition the results of all calls."""

    # ---- partitions ----

    def load(self, reading: PartitionReading) -> list[Summary]:
        self.reading = reading
        summaries = self._load()
        self.digests = [summary.digest for summary in summaries]
        return summaries

    @abstractmethod
    def _load(self) -> list[Summary]: ...

    @abstractmethod
    def close(self) -> None: ...

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def read_again(name: str, reading: PartitionReading, digest: int, content: Content) -> Part:
    """A partition that was read before; ValueError if its content has changed."""
    part = read_part(name, reading, content)
    if part.summary.digest != digest:
        raise ValueError(
            f"{name} has changed since the fit began: it was read again with other content. Files must not "
            "be written while a fit or its labels need them, and the collection must not be random; persist "
            "it, or write it to Parquet."
        )
    return part


def rebuilt(part: Part, prelude: list[Call], message: Message) -> list[Any]:
    """The answers of a partition that was read again."""
    for call in prelude:
        call.function(part, *call.args)
    return answer(part, message)


class SerialEngine(Engine):
    """Partitions in this process, one after the other, with `n_threads` threads for the rows of each."""

    def __init__(self, contents: Sequence[Content], n_threads: int = 1) -> None:
        super().__init__()
        self.contents, self.n_threads, self.n_partitions = contents, n_threads, len(contents)
        self.parts: list[Part] = []

    def _load(self) -> list[Summary]:
        self.parts = [
            read_part(f"Partition {i}", self.reading, content) for i, content in enumerate(self.contents)
        ]
        return [part.summary for part in self.parts]

    def _round(self, message: Message) -> list[list[Any]]:
        self.n_rounds += 1
        results = []
        for i, part in enumerate(self.parts):
            part.n_threads = self.n_threads
            results.append(answer(part, message.for_partition(i)))
        return results

    def close(self) -> None:
        self.parts = []


def read_part(name: str, reading: PartitionReading, content: Content) -> Part:
    """A partition; an error begins with its name."""
    try:
        return Part(reading, content)
    except (TypeError, ValueError) as error:
        raise located(error, name) from error
