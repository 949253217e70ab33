"""Covariances in SQL: a quadratic form for complete rows, and the marginal of its observed cells for others.

The marginal follows by sweeps of the matrix [Sigma, y; y', 0], one for each observed cell: Sigma becomes
minus the inverse of its observed part, and the corner minus the squared distance (Little and Rubin,
Statistical Analysis with Missing Data, section 7.4.3). Every sweep is one common table expression, which the
rows with missing cells alone go through.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from sqlglot import exp

from craftc.export.expressions import Dialect, formula, number_text
from craftc.export.scoring import Block, Scoring

_MOST_SWEEPS = 6_000  # expressions, 0.8 MB; of more, rows with missing cells are refused
_MOST_COLUMNS = 600  # of the matrices of one step

Step = tuple[str, exp.Query]


def too_large(blocks: Sequence[Block]) -> bool:
    """Whether the sweeps of rows with missing cells would be too long a statement."""
    return sum(len(own.cells) * _entries(own) for own in blocks) > _MOST_SWEEPS


def _entries(block: Block) -> int:
    m = len(block.cells) + 1
    return m * (m + 1) // 2


def _select(carried: Sequence[str], computed: dict[str, str], source: str) -> exp.Select:
    """Columns of the step before, and formulas of them."""
    own = [formula(name) for name in carried]
    own += [exp.alias_(formula(text), name) for name, text in computed.items()]
    return exp.select(*own, copy=False).from_(source, copy=False)


class Blocks:
    """The steps that add the costs of blocks to those of the cells."""

    def __init__(
        self, scoring: Scoring, dialect: Dialect, clusters: Sequence[int], kept: Sequence[str], refuses: bool
    ) -> None:
        self.scoring, self.dialect, self.clusters = scoring, dialect, clusters
        self.kept = [*kept, *(["r"] if refuses else [])]
        self.blocks = [own for own in scoring.blocks if own.cluster in clusters]
        self.cells = sorted({i for own in self.blocks for i in own.cells.tolist()})
        columns = {scoring.terms[i].column for i in self.cells}
        self.complete = columns <= set(scoring.refused)  # rows with missing cells are refused before
        self.refused = too_large(scoring.blocks) and not self.complete

    def steps(self, last: str) -> Iterator[Step]:
        """The steps after `last`; the last of them has the costs."""
        absent = " OR ".join(f"z{i} IS NULL" for i in self.cells)
        form = {own.cluster: _quadratic(own) for own in self.blocks}
        costs = {f"c{k}": f"c{k} + {form[k]}" if k in form else f"c{k}" for k in self.clusters}
        if self.refused:
            costs["r"] = f"CASE WHEN {absent} THEN 1 ELSE r END"
        query = _select([name for name in self.kept if name not in costs], costs, last)
        if self.refused or self.complete:
            yield "block", query
            return
        yield "whole", query.where(formula(f"NOT ({absent})"), copy=False)
        source, number = last, 0
        for group in self._groups():
            for name, body in self._sweeps(group, source, number, absent):
                yield name, body
                source, number = name, number + 1
            absent = ""
        halves = [_select([*self.kept, *costs], {}, name) for name in ("whole", source)]
        yield "block", exp.union(*halves, distinct=False, copy=False)

    def _groups(self) -> Iterator[list[Block]]:
        """Blocks that are swept together."""
        group: list[Block] = []
        for own in self.blocks:
            if group and sum(map(_entries, [*group, own])) > _MOST_COLUMNS:
                yield group
                group = []
            group.append(own)
        if group:
            yield group

    def _sweeps(self, group: list[Block], source: str, first: int, absent: str) -> Iterator[Step]:
        """One step for every cell of the blocks, and one that adds the costs; the first reads the rows where
        `absent` holds from `source`.
        """
        carried = [*self.kept, *(f"z{i}" for i in self.cells)]
        costs, names = [f"c{k}" for k in self.clusters], [name for own in group for name in _names(own)]
        contents = [[each for own in group for each in _start(own)]]
        for t in range(max(len(own.cells) for own in group)):
            contents.append([each for own in group for each in _swept(own, t, self.dialect.log)])
        for number, cells in enumerate(contents, first):
            query = _select([*carried, *costs], dict(zip(names, cells, strict=True)), source)
            yield f"swept{number}", query.where(formula(absent), copy=False) if absent else query
            source, absent = f"swept{number}", ""
        marginal = {f"c{own.cluster}": self._marginal(own) for own in group}
        sums = {name: f"{name} + {marginal[name]}" if name in marginal else name for name in costs}
        yield f"swept{first + len(contents)}", _select(carried, sums, source)

    def _marginal(self, own: Block) -> str:
        """The cost of a row: the log determinant, the squared distance, and variances inside levels."""
        m, factor = len(own.cells), number_text(-own.factor)
        terms = [f"{number_text(own.factor)} * q{own.cluster}", f"{factor} * {_at(own, m, m)}"]
        whole = np.diag(np.linalg.inv(own.matrix)).tolist()
        for t, i in enumerate(own.cells.tolist()):
            inside = self.scoring.terms[i].inside
            if inside is not None:
                change = f"({_at(own, t, t)} + {number_text(whole[t])}) * {number_text(inside)}"
                terms.append(f"CASE WHEN z{i} IS NULL THEN 0e0 ELSE {factor} * {change} END")
        return " + ".join(terms)


def _quadratic(own: Block) -> str:
    """The cost of a complete row: factor z'Pz - 2 factor z'P mean + constant."""
    P = np.linalg.inv(own.matrix)
    P = (P + P.T) / 2
    linear = (-2.0 * own.factor * (P @ own.mean)).tolist()
    shares = (own.factor * (2.0 - np.eye(len(P))) * P).tolist()
    cells = own.cells.tolist()
    terms = [number_text(own.constant + own.factor * float(own.mean @ P @ own.mean))]
    for a, i in enumerate(cells):
        inner = [f"{number_text(shares[a][b])} * z{cells[b]}" for b in range(a, len(cells))]
        terms.append(f"z{i} * ({' + '.join([number_text(linear[a]), *inner])})")
    return " + ".join(terms)


def _at(own: Block, i: int, j: int) -> str:
    """The column of an entry of the swept matrix."""
    return f"a{own.cluster}_{max(i, j)}_{min(i, j)}"


def _names(own: Block) -> list[str]:
    """The columns of a block: the lower triangle of its matrix, and the log determinant so far."""
    m = len(own.cells) + 1
    return [*(_at(own, a, b) for a in range(m) for b in range(a + 1)), f"q{own.cluster}"]


def _start(own: Block) -> list[str]:
    """The columns before the first sweep."""
    m, out = len(own.cells), list[str]()
    for a in range(m):
        out += [number_text(cell) for cell in own.matrix[a, : a + 1].tolist()]
    out += [
        f"z{i} - ({number_text(mean)})" for i, mean in zip(own.cells.tolist(), own.mean.tolist(), strict=True)
    ]
    return [*out, "0e0", "0e0"]


def _swept(own: Block, t: int, log: str) -> list[str]:
    """The columns after the sweep of cell t, where that is present."""
    names, m = _names(own), len(own.cells)
    if t >= m:
        return names
    pivot, condition = _at(own, t, t), f"CASE WHEN z{own.cells[t]} IS NULL THEN"

    def one(a: int, b: int) -> str:
        old = _at(own, a, b)
        if a == b == t:
            new = f"-1e0 / {pivot}"
        elif t in (a, b):
            new = f"{old} / {pivot}"
        else:
            new = f"{old} - {_at(own, a, t)} * {_at(own, b, t)} / {pivot}"
        return f"{condition} {old} ELSE {new} END"

    swept = [one(a, b) for a in range(m + 1) for b in range(a + 1)]
    return [*swept, f"{condition} {names[-1]} ELSE {names[-1]} + {log}({pivot}) END"]
