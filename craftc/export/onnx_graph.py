"""Graphs of ONNX: nodes with constants, in double precision."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx import GraphProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper

from craftc._common.typing import Array, Floats


class Graph:
    """A graph under construction; its methods add nodes and return the names of their results."""

    def __init__(self, prefix: str, parent: Graph | None = None) -> None:
        self.prefix, self.nodes = prefix, list[NodeProto]()
        self.constants: list[TensorProto] = [] if parent is None else parent.constants
        self._count: list[int] = [0] if parent is None else parent._count

    def name(self) -> str:
        """A new name."""
        self._count[0] += 1
        return f"{self.prefix}{self._count[0]}"

    def add(self, operator: str, *inputs: str, domain: str = "", **attributes: Any) -> str:
        """The result of an operator."""
        out = self.name()
        self.nodes.append(helper.make_node(operator, list(inputs), [out], domain=domain, **attributes))
        return out

    def named(self, name: str, value: str) -> None:
        """Give a result the name of an output."""
        self.nodes.append(helper.make_node("Identity", [value], [name]))

    def constant(self, value: Array | float | Sequence[int]) -> str:
        """A constant; floats are doubles, whole numbers of 64 bits."""
        array = np.asarray(value)
        if array.dtype.kind not in "bU":
            array = array.astype(np.float64 if array.dtype.kind == "f" else np.int64)
        name = self.name()
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    # ---- arithmetic ----

    def total(self, values: Sequence[str]) -> str:
        """The sum, in the given order."""
        out = values[0]
        for value in values[1:]:
            out = self.add("Add", out, value)
        return out

    def as_double(self, value: str) -> str:
        """A value as doubles."""
        return self.add("Cast", value, to=TensorProto.DOUBLE)

    def as_integer(self, value: str) -> str:
        """A value as whole numbers of 64 bits."""
        return self.add("Cast", value, to=TensorProto.INT64)

    def rounded(self, value: str) -> str:
        """A value rounded to single precision, as doubles."""
        return self.as_double(self.add("Cast", value, to=TensorProto.FLOAT))

    def summed(self, value: str, axis: int) -> str:
        """The sums along an axis."""
        return self.add("ReduceSum", value, self.constant([axis]), keepdims=0)

    def all_of(self, values: Sequence[str], operator: str) -> str:
        """Truth values joined by And or Or."""
        out = values[0]
        for value in values[1:]:
            out = self.add(operator, out, value)
        return out

    def flat(self, value: str) -> str:
        """(n, 1) as (n,)."""
        return self.add("Reshape", value, self.constant([-1]))

    def column(self, value: str) -> str:
        """(n,) as (n, 1)."""
        return self.add("Reshape", value, self.constant([-1, 1]))

    def gathered(self, table: Floats, rows: str) -> str:
        """The rows of a constant table."""
        return self.add("Gather", self.constant(table), rows, axis=0)

    def finished(
        self, inputs: Sequence[ValueInfoProto], outputs: Sequence[ValueInfoProto], name: str
    ) -> GraphProto:
        """The graph."""
        return helper.make_graph(self.nodes, name, list(inputs), list(outputs), initializer=self.constants)

    def branch(self, result: str) -> GraphProto:
        """The nodes as a branch of If, whose constants belong to the whole graph."""
        return helper.make_graph(self.nodes, self.name(), [], [ValueInfoProto(name=result)])
