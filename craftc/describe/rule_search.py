"""Short rules for clusters and one small tree for all, by the levels of the columns.

A condition is a set of levels of one column. All searches read histograms: of each column by cluster, inside
a part of the table. They come from the rows, or from the distributions of a model, in which columns are
independent inside clusters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from craftc._common.typing import Array, Bits, Floats, Integers, Labels
from craftc.describe.statistics import by_cluster

_BEAM = 5  # parts that a search extends
_BEYOND = 2  # times the leaves of a tree to which one grows whose splits may be taken back
_LEAST_EXPECTED = 0.01  # of the smallest cluster, below which a model expects only tails
_LEAST = 0.01  # of F1, by which a further condition, or a second end of a range, has to improve a rule


class Condition(NamedTuple):
    """Cells of a column that have one of some levels; the last place is that of missing cells."""

    column: int
    allowed: Bits  # (T + 1,)


@dataclass(frozen=True)
class Part:
    """Rows that satisfy all of some conditions."""

    conditions: tuple[Condition, ...]
    rows: NDArray[np.intp] | None = None  # where there are rows


class Histograms(Protocol):
    """Weights by cluster and level inside a part of a table."""

    @property
    def ordered(self) -> Sequence[bool]:
        """(D,) whether the levels of a column have an order."""
        ...

    @property
    def used(self) -> Sequence[int]:
        """Columns that may be in a condition."""
        ...

    @property
    def least(self) -> float:
        """The weight that a leaf of a tree exceeds."""
        ...

    def whole(self) -> Part:
        """The whole table."""
        ...

    def of(self, part: Part, column: int) -> Floats:
        """(K, T + 1) weights, missing cells last."""
        ...

    def narrowed(self, part: Part, condition: Condition) -> Part:
        """The rows of a part that satisfy one more condition."""
        ...


@dataclass(frozen=True)
class RowHistograms:
    """Histograms of rows."""

    codes: Array  # (n, D), the number of levels where a cell is missing
    n_levels: Integers  # (D,)
    labels: Labels
    weight: Floats
    n_clusters: int
    ordered: Sequence[bool]
    used: Sequence[int]
    least: float = 0.0

    def whole(self) -> Part:
        return Part((), np.flatnonzero(self.weight > 0))

    def of(self, part: Part, column: int) -> Floats:
        T, rows = int(self.n_levels[column]) + 1, part.rows
        codes, labels, weight = self.codes[rows, column], self.labels[rows], self.weight[rows]
        return by_cluster(codes, labels, T, self.n_clusters, weight).astype(np.float64)

    def narrowed(self, part: Part, condition: Condition) -> Part:
        assert part.rows is not None
        inside = condition.allowed[self.codes[part.rows, condition.column]]
        return Part((*part.conditions, condition), part.rows[inside])


@dataclass(frozen=True)
class ModelHistograms:
    """Histograms that a model expects, whose columns are independent inside clusters."""

    sizes: Floats  # (K,)
    shares: Sequence[Floats]  # of every column (K, T + 1), missing cells last
    ordered: Sequence[bool]
    used: Sequence[int]

    @property
    def least(self) -> float:
        return _LEAST_EXPECTED * float(self.sizes[self.sizes > 0].min(initial=np.inf))

    def whole(self) -> Part:
        return Part(())

    def of(self, part: Part, column: int) -> Floats:
        counts = self.sizes[:, None] * self.shares[column]
        for condition in part.conditions:
            if condition.column == column:
                counts = counts * condition.allowed
            else:
                counts = counts * (self.shares[condition.column] @ condition.allowed)[:, None]
        return np.asarray(counts)

    def narrowed(self, part: Part, condition: Condition) -> Part:
        return Part((*part.conditions, condition))


# ---- rules ----


@dataclass(frozen=True)
class Rule:
    """The rule of one cluster."""

    conditions: tuple[Condition, ...]
    coverage: float  # share of the cluster's rows that it holds for
    precision: float  # share of the cluster among the rows that it holds for

    @property
    def f1(self) -> float:
        """Harmonic mean of coverage and precision."""
        both = self.coverage + self.precision
        return 2.0 * self.coverage * self.precision / both if both > 0 else 0.0


def best_rule(histograms: Histograms, cluster: int, size: float, most: int) -> Rule:
    """The rule of at most that number of conditions with the largest F1 of coverage and precision; a further
    condition is in it only where it adds 0.01.
    """
    whole = histograms.whole()
    total = float(histograms.of(whole, histograms.used[0]).sum()) if histograms.used else size
    best = Rule((), 1.0, size / total)
    beam = [(best, whole)]
    for _ in range(most):
        found: list[tuple[Rule, Part]] = []
        for _, part in beam:
            taken = {condition.column for condition in part.conditions}
            for d in histograms.used:
                if d in taken:
                    continue
                counts = histograms.of(part, d)
                inside = counts[cluster]
                allowed = _best_levels(inside, counts.sum(axis=0), size, histograms.ordered[d])
                hit, held = float(inside[allowed].sum()), float(counts[:, allowed].sum())
                if hit > 0:
                    rule = Rule((*part.conditions, Condition(d, allowed)), hit / size, hit / held)
                    found.append((rule, part))
        found.sort(key=lambda each: -each[0].f1)
        beam = [(rule, histograms.narrowed(part, rule.conditions[-1])) for rule, part in found[:_BEAM]]
        if not beam:
            break
        if beam[0][0].f1 >= best.f1 + _LEAST:
            best = beam[0][0]
    return best


def _f1(hit: Floats, held: Floats, size: float) -> Floats:
    return np.asarray(2.0 * hit / np.maximum(held + size, 1e-300))


def _best_levels(inside: Floats, all_cells: Floats, size: float, ordered: bool) -> Bits:
    """(T + 1,) the levels with the largest F1: a range of ordered ones, otherwise any set; never missing
    cells.
    """
    T, allowed = len(inside) - 1, np.zeros(len(inside), bool)
    if not T:
        return allowed
    if not ordered:
        share = inside[:T] / np.maximum(all_cells[:T], 1e-300)
        order = np.argsort(-share, kind="stable")
        score = _f1(np.cumsum(inside[order]), np.cumsum(all_cells[order]), size)
        allowed[order[: int(score.argmax()) + 1]] = all_cells[order[: int(score.argmax()) + 1]] > 0
        return allowed
    hit, held = (np.concatenate([[0.0], np.cumsum(each[:T])]) for each in (inside, all_cells))
    score = np.triu(_f1(hit[None, :] - hit[:, None], held[None, :] - held[:, None], size), 1)
    one_sided = np.zeros_like(score)
    one_sided[0], one_sided[:, T] = score[0], score[:, T]
    chosen = one_sided if one_sided.max() + _LEAST >= score.max() else score
    first, last = np.unravel_index(int(chosen.argmax()), score.shape)
    allowed[first:last] = True
    return allowed


# ---- the tree ----


@dataclass(frozen=True)
class Node:
    """A node of a tree; a leaf has no split."""

    counts: Floats  # (K,)
    split: Condition | None = None  # rows that satisfy it go to the first child
    children: tuple[Node, ...] = ()

    @property
    def cluster(self) -> int:
        return int(self.counts.argmax())

    @property
    def agreement(self) -> float:
        """Weight of the rows whose leaf has their cluster."""
        return sum(child.agreement for child in self.children) if self.split else float(self.counts.max())

    @property
    def n_leaves(self) -> int:
        return sum(child.n_leaves for child in self.children) if self.split else 1

    def simplified(self) -> Node:
        """The tree without splits whose leaves all have one cluster."""
        if self.split is None:
            return self
        children = tuple(child.simplified() for child in self.children)
        if all(child.split is None for child in children) and len({child.cluster for child in children}) == 1:
            return Node(self.counts)
        return replace(self, children=children)


@dataclass(eq=False)
class _Open:
    """A leaf while a tree grows."""

    part: Part
    counts: Floats
    gain: float = 0.0
    split: Condition | None = None
    children: tuple[_Open, ...] = ()

    def node(self) -> Node:
        if not self.children:
            return Node(self.counts)
        return Node(self.counts, self.split, tuple(child.node() for child in self.children))


def small_tree(histograms: Histograms, sizes: Floats, n_leaves: int) -> Node:
    """A tree of at most that number of leaves, grown at the leaf with the largest gain; of those by the Gini
    impurity and by the entropy the one with more agreement.

    Splits whose leaves have one cluster are taken back, and their leaves used elsewhere.
    """
    trees = [tree for entropy in (False, True) for tree in _grown(histograms, sizes, n_leaves, entropy)]
    return max(trees, key=lambda tree: tree.agreement)


def _grown(histograms: Histograms, sizes: Floats, n_leaves: int, entropy: bool) -> list[Node]:
    """The simplified trees of at most that number of leaves along the growth of one."""
    root = _Open(histograms.whole(), sizes)
    leaves = [root]
    _find_split(root, histograms, entropy)
    trees = [root.node()]
    while len(leaves) < _BEYOND * n_leaves:
        leaf = max(leaves, key=lambda each: each.gain)
        if leaf.split is None or leaf.gain <= 1e-9 * float(sizes.sum()):
            break
        inside, counts = leaf.split, histograms.of(leaf.part, leaf.split.column)
        outside = Condition(inside.column, ~inside.allowed)
        leaf.children = tuple(
            _Open(histograms.narrowed(leaf.part, each), counts[:, each.allowed].sum(axis=1))
            for each in (inside, outside)
        )
        for child in leaf.children:
            _find_split(child, histograms, entropy)
        leaves.remove(leaf)
        leaves += leaf.children
        tree = root.node().simplified()
        if tree.n_leaves > n_leaves:
            break
        trees.append(tree)
    return trees


def _impurity(counts: Floats, entropy: bool) -> Floats:
    """(S,) impurities, times weights, of S parts with counts (K, S)."""
    n = np.maximum(counts.sum(axis=0), 1e-300)
    if not entropy:
        return np.asarray(n - (counts**2).sum(axis=0) / n)
    return np.asarray(-(counts * np.log(np.where(counts > 0, counts, 1.0) / n)).sum(axis=0))


def _find_split(leaf: _Open, histograms: Histograms, entropy: bool) -> None:
    before = float(_impurity(leaf.counts[:, None], entropy)[0])
    if before <= 0:
        return
    for d in histograms.used:
        counts = histograms.of(leaf.part, d)
        T = counts.shape[1] - 1
        if not T:
            continue
        sides = (False, True) if counts[:, T].any() else (False,)
        if histograms.ordered[d]:
            orders = [np.arange(T)]
        else:
            shares = counts[:, :T] / np.maximum(counts[:, :T].sum(axis=0), 1e-300)
            orders = [np.argsort(-share, kind="stable") for share in shares]
        for order in orders:
            first = np.cumsum(counts[:, order], axis=1)
            for with_missing in sides:
                inside = first + counts[:, T:] if with_missing else first
                outside = leaf.counts[:, None] - inside
                least = max(histograms.least, 1e-12 * leaf.counts.sum())
                both = (inside.sum(axis=0) > histograms.least) & (outside.sum(axis=0) > least)
                gains = np.where(
                    both,
                    before - _impurity(inside, entropy) - _impurity(np.maximum(outside, 0.0), entropy),
                    0.0,
                )
                at = int(gains.argmax())
                if gains[at] > leaf.gain * (1.0 + 1e-12):
                    allowed = np.zeros(T + 1, bool)
                    allowed[order[: at + 1]] = True
                    allowed[T] = with_missing
                    leaf.gain, leaf.split = float(gains[at]), Condition(d, allowed)
