"""Covariances in SQL: a quadratic form for complete rows, a linear one where all clusters share a covariance,
and the marginal of its observed cells for others.

The marginal follows by sweeps of the matrix [Sigma, y; y', 0], one for each observed cell: Sigma becomes
minus the inverse of its observed part, and the corner minus the squared distance (Little and Rubin,
Statistical Analysis with Missing Data, section 7.4.3). Clusters that share Sigma have a row y and a corner
each. Every sweep is one common table expression, which the rows with missing cells alone go through.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from sqlglot import exp

from craftc._common.typing import Floats, Ints
from craftc.export.expressions import Dialect, formula, number_text
from craftc.export.scoring import Block, Scoring

_MOST_SWEEPS = 6_000  # expressions, 0.8 MB; of more, rows with missing cells are refused
_MOST_COLUMNS = 600  # of the matrices of one step

Step = tuple[str, exp.Query]


@dataclass(frozen=True, eq=False)
class _Sweep:
    """A block of one cluster, or that which all clusters share."""

    clusters: list[int]
    cells: Ints  # (m,) positions of terms
    mean: Floats  # (K, m)
    matrix: Floats  # (m, m)
    factor: float
    constant: float
    shared: bool

    @classmethod
    def of_blocks(cls, blocks: Sequence[Block], n_clusters: int) -> list[_Sweep]:
        """One sweep for each block, or one for all if the clusters share it."""
        shared = 1 < len(blocks) == n_clusters and all(map(blocks[0].shares, blocks))
        return [
            cls(
                [own.cluster for own in part],
                part[0].cells,
                np.array([own.mean for own in part]),
                part[0].matrix,
                part[0].factor,
                part[0].constant,
                shared,
            )
            for part in ([blocks] if shared else [[own] for own in blocks])
        ]

    @property
    def n_entries(self) -> int:
        K, m = len(self.clusters), len(self.cells)
        return m * (m + 1) // 2 + K * (m + 1)


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
        blocks = [own for own in scoring.blocks if own.cluster in clusters]
        self.sweeps = _Sweep.of_blocks(blocks, len(clusters))
        self.cells = sorted({i for own in self.sweeps for i in own.cells.tolist()})
        columns = {scoring.terms[i].column for i in self.cells}
        self.complete = columns <= set(scoring.refused)  # rows with missing cells are refused before
        length = sum(len(own.cells) * own.n_entries for own in self.sweeps)
        self.refused = length > _MOST_SWEEPS and not self.complete

    def steps(self, last: str) -> Iterator[Step]:
        """The steps after `last`; the last of them has the costs."""
        absent = " OR ".join(f"z{i} IS NULL" for i in self.cells)
        form = {k: text for own in self.sweeps for k, text in _complete(own).items()}
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

    def _groups(self) -> Iterator[list[_Sweep]]:
        """Blocks that are swept together."""
        group: list[_Sweep] = []
        for own in self.sweeps:
            if group and sum(each.n_entries for each in [*group, own]) > _MOST_COLUMNS:
                yield group
                group = []
            group.append(own)
        if group:
            yield group

    def _sweeps(self, group: list[_Sweep], source: str, first: int, absent: str) -> Iterator[Step]:
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
        marginal = {f"c{k}": self._marginal(own, at) for own in group for at, k in enumerate(own.clusters)}
        sums = {name: f"{name} + {marginal[name]}" if name in marginal else name for name in costs}
        yield f"swept{first + len(contents)}", _select(carried, sums, source)

    def _marginal(self, own: _Sweep, at: int) -> str:
        """The cost of a row in the cluster at this position: the log determinant, the squared distance, and
        variances inside levels.
        """
        m, factor = len(own.cells), number_text(-own.factor)
        corner = _at(own, m + at, m + at)
        terms = [f"{number_text(own.factor)} * {_log_det(own)}", f"{factor} * {corner}"]
        whole = np.diag(np.linalg.inv(own.matrix)).tolist()
        for t, i in enumerate(own.cells.tolist()):
            inside = self.scoring.terms[i].inside
            if inside is not None:
                change = f"({_at(own, t, t)} + {number_text(whole[t])}) * {number_text(inside)}"
                terms.append(f"CASE WHEN z{i} IS NULL THEN 0e0 ELSE {factor} * {change} END")
        return " + ".join(terms)


def _complete(own: _Sweep) -> dict[int, str]:
    """The costs of a complete row: factor z'Pz - 2 factor z'P mean + constant; without z'Pz where all
    clusters share it.
    """
    P = np.linalg.inv(own.matrix)
    P = (P + P.T) / 2
    shares = (own.factor * (2.0 - np.eye(len(P))) * P).tolist()
    cells, out = own.cells.tolist(), dict[int, str]()
    for k, mean in zip(own.clusters, own.mean, strict=True):
        linear = (-2.0 * own.factor * (P @ mean)).tolist()
        terms = [number_text(own.constant + own.factor * float(mean @ P @ mean))]
        for a, i in enumerate(cells):
            rest = [] if own.shared else range(a, len(cells))
            inner = [number_text(linear[a]), *(f"{number_text(shares[a][b])} * z{cells[b]}" for b in rest)]
            terms.append(f"z{i} * ({' + '.join(inner)})")
        out[k] = " + ".join(terms)
    return out


def _at(own: _Sweep, i: int, j: int) -> str:
    """The column of an entry of the swept matrix."""
    return f"a{own.clusters[0]}_{max(i, j)}_{min(i, j)}"


def _log_det(own: _Sweep) -> str:
    """The column of the log determinant so far."""
    return f"q{own.clusters[0]}"


def _entries(own: _Sweep) -> Iterator[tuple[int, int]]:
    """Rows and columns of the entries: the lower triangle of Sigma; y and the corner of every cluster."""
    m = len(own.cells)
    for a in range(m + len(own.clusters)):
        yield from ((a, b) for b in range(min(a + 1, m)))
        if a >= m:
            yield a, a


def _names(own: _Sweep) -> list[str]:
    """The columns of the entries and the log determinant."""
    return [*(_at(own, a, b) for a, b in _entries(own)), _log_det(own)]


def _start(own: _Sweep) -> list[str]:
    """The columns before the first sweep."""
    m, out = len(own.cells), list[str]()
    for a, b in _entries(own):
        if a < m:
            out.append(number_text(float(own.matrix[a, b])))
        elif b < m:
            out.append(f"z{own.cells[b]} - ({number_text(float(own.mean[a - m, b]))})")
        else:
            out.append("0e0")
    return [*out, "0e0"]


def _swept(own: _Sweep, t: int, log: str) -> list[str]:
    """The columns after the sweep of cell t, where that is present."""
    if t >= len(own.cells):
        return _names(own)
    pivot, log_det, condition = _at(own, t, t), _log_det(own), f"CASE WHEN z{own.cells[t]} IS NULL THEN"

    def one(a: int, b: int) -> str:
        old = _at(own, a, b)
        if a == b == t:
            new = f"-1e0 / {pivot}"
        elif t in (a, b):
            new = f"{old} / {pivot}"
        else:
            new = f"{old} - {_at(own, a, t)} * {_at(own, b, t)} / {pivot}"
        return f"{condition} {old} ELSE {new} END"

    swept = [one(a, b) for a, b in _entries(own)]
    return [*swept, f"{condition} {log_det} ELSE {log_det} + {log}({pivot}) END"]
