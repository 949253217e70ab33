"""The nodes of ONNX that score rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from craftc._common.typing import Floats
from craftc.export.onnx_graph import Graph
from craftc.export.scoring import Block, Intervals, LookUp, Polynomial, Scoring, Texts, Values
from craftc.table.level_column import MISSING_LEVEL


class Scorer:
    """The graph of a scoring."""

    def __init__(self, scoring: Scoring, outputs: Sequence[str]) -> None:
        prefix = "craftc/"
        while any(name.startswith(prefix) for name in scoring.columns):
            prefix = f"_{prefix}"
        self.scoring, self.graph = scoring, Graph(prefix)
        self._cells: dict[int, str] = {}  # (n,) numbers of the columns
        self._absent: dict[int, str] = {}  # (n,) whether they are missing
        self._z: dict[int, str] = {}  # (n,) cells of blocks, by term
        self._sweeps: list[tuple[Block, tuple[str, str]]] = []  # of the blocks so far
        self._refused: list[str] = []
        for name, value in zip(outputs, self._results(), strict=True):
            self.graph.named(name, value)

    def _results(self) -> tuple[str, str, str, str]:
        """Labels, numbers, margins and costs."""
        graph, scoring = self.graph, self.scoring
        for j in scoring.refused:
            self._refused.append(self._is_missing(j))
        costs = [graph.constant(np.where(np.isfinite(scoring.base), scoring.base, 1e308)[None])]
        for i, term in enumerate(scoring.terms):
            costs.append(self._looked_up(i, term) if isinstance(term, LookUp) else self._computed(i, term))
        if scoring.blocks:
            costs.append(self._of_blocks())
        total = graph.total(costs)
        if not scoring.terms:  # one row for each of the input
            some = self._some_column()
            total = graph.add("Add", total, graph.column(some))
        label = graph.add("ArgMin", total, axis=1, keepdims=0)
        least = graph.add("ReduceMin", total, axes=[1], keepdims=1)
        K = len(scoring.base)
        own = graph.add("Equal", graph.column(label), graph.constant(np.arange(K)[None]))
        others = graph.add("Where", own, graph.constant(np.array(np.inf)), total)
        margin = graph.flat(graph.add("Sub", graph.add("ReduceMin", others, axes=[1], keepdims=1), least))
        number = graph.gathered(scoring.number_of.astype(np.int64), label)
        if self._refused:
            refused = graph.all_of(self._refused, "Or")
            label, number = (
                graph.add("Where", refused, graph.constant(np.array(-1)), each) for each in (label, number)
            )
            margin = graph.add("Where", refused, graph.constant(np.array(np.nan)), margin)
        return label, number, margin, total

    # ---- cells ----

    def _some_column(self) -> str:
        """(n,) zeros."""
        number = self._number(0) if self.scoring.expected[0] != "text" else self._code_of_text(0, Texts(()))
        return self.graph.add(
            "Mul", self.graph.as_double(self.graph.as_integer(number)), self.graph.constant(0.0)
        )

    def _number(self, j: int) -> str:
        if j not in self._cells:
            self._cells[j] = self.graph.flat(self.scoring.columns[j])
        return self._cells[j]

    def _is_missing(self, j: int) -> str:
        if j not in self._absent:
            if self.scoring.expected[j] == "text":
                code = self._code_of_text(j, Texts((MISSING_LEVEL,)))
                self._absent[j] = self.graph.add("Equal", code, self.graph.constant(np.array(0)))
            else:
                self._absent[j] = self.graph.add("IsNaN", self._number(j))
        return self._absent[j]

    def _code_of_text(self, j: int, reader: Texts) -> str:
        """(n,) position of the level of every text; the number of levels for others."""
        graph = self.graph
        flat = graph.flat(self.scoring.columns[j])
        of_text = reader.codes()
        if reader.missing is not None:
            of_text.setdefault(MISSING_LEVEL, reader.missing)
        if not of_text:  # no operator has an empty table
            of_text = {MISSING_LEVEL: 0}
        return graph.add(
            "LabelEncoder",
            flat,
            domain="ai.onnx.ml",
            keys_strings=list(of_text),
            values_int64s=list(of_text.values()),
            default_int64=len(reader.levels),
        )

    def _code(self, term: LookUp) -> str:
        """(n,) the level of every cell; the number of levels for missing and unseen ones."""
        graph, reader, j = self.graph, term.reader, term.column
        T = len(term.costs)
        if isinstance(reader, Texts) and self.scoring.expected[j] == "text":
            return self._code_of_text(j, reader)
        x, missing = self._number(j), self._is_missing(j)
        wide = graph.column(x)
        if isinstance(reader, Texts):
            numbers = [
                np.nan if t == reader.missing else float(level) for t, level in enumerate(reader.levels)
            ]
            code = self._position(graph.add("Equal", wide, graph.constant(np.array([numbers]))), T)
            if reader.missing is not None:
                code = graph.add("Where", missing, graph.constant(np.array(reader.missing)), code)
            return code
        if isinstance(reader, Values):
            above = graph.add("GreaterOrEqual", wide, graph.constant(reader.low[None]))
            below = graph.add("LessOrEqual", wide, graph.constant(reader.high[None]))
            code = self._position(graph.add("And", above, below), T - 1)
        else:
            code = self._interval(reader, wide)
        return graph.add("Where", missing, graph.constant(np.array(T)), code)

    def _position(self, equal: str, otherwise: int) -> str:
        """(n,) the position of the true value of every row (n, T), or `otherwise`."""
        graph = self.graph
        whole = graph.as_integer(equal)
        found = graph.summed(whole, 1)
        at = graph.add("ArgMax", whole, axis=1, keepdims=0)
        some = graph.add("Greater", found, graph.constant(np.array(0)))
        return graph.add("Where", some, at, graph.constant(np.array(otherwise)))

    def _interval(self, reader: Intervals, x: str) -> str:
        graph, T = self.graph, reader.n_levels
        if not len(reader.bounds):
            return graph.flat(
                graph.add("Mul", graph.as_integer(graph.add("IsNaN", x)), graph.constant(np.array(0)))
            )
        if not reader.period:
            above = graph.add("Greater", x, graph.constant(reader.bounds[None]))
            return graph.summed(graph.as_integer(above), 1)
        period = graph.constant(reader.period)
        whole = graph.add("Floor", graph.add("Div", x, period))
        residue = graph.add("Sub", x, graph.add("Mul", whole, period))
        code = graph.summed(
            graph.as_integer(graph.add("Greater", residue, graph.constant(reader.bounds[None]))), 1
        )
        code = graph.add("Mod", code, graph.constant(np.array(T)))
        first = graph.flat(
            graph.add("LessOrEqual", residue, graph.constant(float(reader.bounds[-1] - reader.period)))
        )
        return graph.add("Where", first, graph.constant(np.array(T - 1)), code)

    # ---- costs ----

    def _looked_up(self, i: int, term: LookUp) -> str:
        """(n, K) entries of a table, whose last row belongs to missing cells."""
        graph, K = self.graph, term.costs.shape[1]
        code, common = self._code(term), 0.0 if term.common is None else term.common[:, None]
        if i in self.scoring.unseen:
            unseen = graph.add("Equal", code, graph.constant(np.array(len(term.costs))))
            known = graph.add("Not", self._is_missing(term.column))
            self._refused.append(graph.add("And", unseen, known))
        if term.scores is not None:
            self._z[i] = graph.gathered(np.append(term.scores, np.nan), code)
        return graph.gathered(np.vstack([term.costs + common, np.zeros(K)]), code)

    def _computed(self, i: int, term: Polynomial) -> str:
        """(n, K) polynomials of a number."""
        graph, x, missing = self.graph, self._number(term.column), self._is_missing(term.column)
        if term.single:
            x = graph.rounded(x)
        if term.apart is not None:
            wide = graph.column(self._number(term.column))
            above = graph.add("GreaterOrEqual", wide, graph.constant(term.apart.low[None]))
            below = graph.add("LessOrEqual", wide, graph.constant(term.apart.high[None]))
            found = graph.summed(graph.as_integer(graph.add("And", above, below)), 1)
            missing = graph.add("Or", missing, graph.add("Greater", found, graph.constant(np.array(0))))
        if term.knots is not None and term.scores is not None:
            x = self._interpolated(term.knots, term.scores, x)
        z = graph.add("Mul", graph.add("Sub", x, graph.constant(term.centre)), graph.constant(term.scale))
        if np.isfinite(term.most):
            z = graph.add("Clip", z, graph.constant(-term.most), graph.constant(term.most))
        self._z[i] = graph.add("Where", missing, graph.constant(np.array(np.nan)), z)
        wide = graph.column(z)
        step = graph.add("Sub", wide, graph.constant(term.origin[None]))
        cost = graph.add("Mul", step, graph.constant(term.square[None]))
        cost = graph.add("Add", cost, graph.constant(term.linear[None]))
        cost = graph.add(
            "Add", graph.add("Mul", cost, step), graph.constant(term.offset[None] + term.common[1])
        )
        if term.common[0]:
            squared = graph.add("Mul", graph.add("Mul", wide, wide), graph.constant(term.common[0]))
            cost = graph.add("Add", cost, squared)
        return graph.add("Where", graph.column(missing), graph.constant(np.array(0.0)), cost)

    def _interpolated(self, knots: Floats, scores: Floats, x: str) -> str:
        graph = self.graph
        above = graph.add("Greater", graph.column(x), graph.constant(knots[None]))
        segment = graph.summed(graph.as_integer(above), 1)
        with np.errstate(over="ignore"):
            slopes = np.diff(scores) / np.diff(knots)
        slopes = np.concatenate([[0.0], np.where(np.isfinite(slopes), slopes, 0.0), [0.0]])
        left, heights = np.append(knots[0], knots), np.append(scores[0], scores)
        step = graph.add("Sub", x, graph.gathered(left, segment))
        # beyond the knots the slope is 0, but the step may be infinite
        bounded = graph.add("Clip", step, graph.constant(0.0), graph.constant(float(knots[-1] - knots[0])))
        rise = graph.add("Mul", bounded, graph.gathered(slopes, segment))
        return graph.add("Add", graph.gathered(heights, segment), rise)

    # ---- blocks ----

    def _of_blocks(self) -> str:
        """(n, K) costs of the blocks: of complete rows alone by the whole matrices, of others by the observed
        parts.
        """
        graph, scoring = self.graph, self.scoring
        cells = sorted({i for own in scoring.blocks for i in own.cells.tolist()})
        absent = graph.all_of([graph.add("IsNaN", self._z[i]) for i in cells], "Or")
        any_absent = graph.add(
            "Greater",
            graph.add("ReduceSum", graph.as_integer(absent), keepdims=0),
            graph.constant(np.array(0)),
        )
        whole, parts = Graph(graph.prefix, graph), Graph(graph.prefix, graph)
        return graph.add(
            "If",
            any_absent,
            then_branch=parts.branch(self._in_clusters(parts, self._marginal)),
            else_branch=whole.branch(self._in_clusters(whole, self._quadratic)),
        )

    def _in_clusters(self, graph: Graph, cost_of: Callable[[Graph, Block], str]) -> str:
        """(n, K) costs of the blocks."""
        costs = []
        for own in self.scoring.blocks:
            place = np.zeros((1, len(self.scoring.base)))
            place[0, own.cluster] = 1.0
            costs.append(graph.add("Mul", graph.column(cost_of(graph, own)), graph.constant(place)))
        return graph.total(costs)

    def _joined(self, graph: Graph, own: Block) -> str:
        """(n, m) cells of a block."""
        return graph.add("Concat", *(graph.column(self._z[i]) for i in own.cells.tolist()), axis=1)

    def _quadratic(self, graph: Graph, own: Block) -> str:
        """(n,) cost of complete rows."""
        step = graph.add("Sub", self._joined(graph, own), graph.constant(own.mean[None]))
        white = graph.add("MatMul", step, graph.constant(np.linalg.inv(np.linalg.cholesky(own.matrix)).T))
        squared = graph.summed(graph.add("Mul", white, white), 1)
        scaled = graph.add("Mul", squared, graph.constant(own.factor))
        return graph.add("Add", scaled, graph.constant(own.constant))

    def _marginal(self, graph: Graph, own: Block) -> str:
        """(n,) cost of rows with missing cells."""
        m = len(own.cells)
        nothing = graph.constant(np.array(0.0))
        z = self._joined(graph, own)
        step = graph.add("Sub", z, graph.constant(own.mean[None]))
        step = graph.add("Where", graph.add("IsNaN", z), nothing, step)
        swept, cost = self._swept(graph, own)
        wide = graph.add("Reshape", step, graph.constant([-1, m, 1]))
        product = graph.add("Mul", graph.add("MatMul", swept, wide), wide)  # of minus the inverse
        squared = graph.add("Neg", graph.add("ReduceSum", product, graph.constant([1, 2]), keepdims=0))
        return graph.add("Mul", graph.add("Add", cost, squared), graph.constant(own.factor))

    def _swept(self, graph: Graph, own: Block) -> tuple[str, str]:
        """(n, m, m) minus the inverse of the observed part of the matrix, in which a missing cell has the
        variance 1 and no covariance, by one sweep for each cell; (n,) its log determinant and the variances
        inside levels. Clusters that share a matrix share both.
        """
        for other, found in self._sweeps:
            if own.shares(other):
                return found
        m = len(own.cells)
        missing, unit = graph.add("IsNaN", self._joined(graph, own)), graph.constant(np.eye(m, dtype=bool))
        row = graph.add("Reshape", missing, graph.constant([-1, 1, m]))
        column = graph.add("Reshape", missing, graph.constant([-1, m, 1]))
        either = graph.add("Or", row, column)
        swept = graph.add("Where", either, graph.constant(np.eye(m)[None]), graph.constant(own.matrix[None]))
        logs = []
        for t in range(m):
            at = graph.constant(np.array([t]))
            across = graph.add("Gather", swept, at, axis=1)  # (n, 1, m)
            along = graph.add("Gather", swept, at, axis=2)  # (n, m, 1)
            pivot = graph.add("Gather", across, at, axis=2)  # (n, 1, 1)
            logs.append(graph.add("Reshape", graph.add("Log", pivot), graph.constant([-1])))
            rest = graph.add("Sub", swept, graph.add("Div", graph.add("Mul", along, across), pivot))
            in_row, in_column = (graph.add("Gather", unit, at, axis=axis) for axis in (0, 1))
            divided = graph.add("Div", swept, pivot)
            new = graph.add("Where", graph.add("Or", in_row, in_column), divided, rest)
            inverse = graph.add("Div", graph.constant(-1.0), pivot)
            swept = graph.add("Where", graph.add("And", in_row, in_column), inverse, new)
        cost = graph.total(logs)
        variances = [self.scoring.terms[i].inside for i in own.cells.tolist()]
        if variances[0] is not None:
            diagonal = graph.summed(graph.add("Mul", swept, graph.constant(np.eye(m)[None])), 2)
            whole = graph.constant(np.diag(np.linalg.inv(own.matrix))[None])
            change = graph.add("Neg", graph.add("Add", diagonal, whole))
            inside = graph.add("Mul", change, graph.constant(np.array(variances, np.float64)[None]))
            nothing = graph.constant(np.array(0.0))
            cost = graph.add("Add", cost, graph.summed(graph.add("Where", missing, nothing, inside), 1))
        self._sweeps.append((own, (swept, cost)))
        return swept, cost
