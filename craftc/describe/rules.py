"""Rules of clusters, and a small tree for all of them, as text and frames."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from craftc._common.estimator import output_frame
from craftc._common.typing import Array, Bits, Floats, OutputFrame
from craftc.describe.columns import CategoricalColumn, Column, NumericColumn
from craftc.describe.rule_search import Condition, Node, Rule
from craftc.describe.words import count, percent, plural
from craftc.table import Schema
from craftc.table.levels import NumberLevels

ALL_ROWS = "all rows"


@dataclass(frozen=True)
class RuleColumn:
    """A column as conditions show and test it."""

    name: str
    statistics: Column
    numbers: NumberLevels | None  # of a number

    def text(self, allowed: Bits) -> str:
        """A condition in words: ``age <= 54``, ``thal is 6 or 7``."""
        inside, missing = np.flatnonzero(allowed[:-1]), bool(allowed[-1])
        if not len(inside):
            return f"{self.name} is missing"
        if len(inside) == len(allowed) - 1:
            return f"{self.name} is not missing"
        of = self.statistics
        text = self._range(inside) if self.numbers is not None else ""
        if isinstance(of, CategoricalColumn):
            others = np.flatnonzero(~allowed[:-1])
            few = len(inside) <= len(others)
            phrase = of.phrase((inside if few else others).tolist(), of.texts)
            text = f"{self.name} is {'' if few else 'not '}{phrase}"
        return f"{text} or is missing" if missing else text

    @property
    def _whole(self) -> bool:
        """Whether the column holds whole numbers: its ends are whole, and so is the sum of the two cells
        between which each bound is the middle.
        """
        assert self.numbers is not None
        known = np.append(2.0 * self.numbers.bounds, self.numbers.ends)
        return bool((known == np.round(known)).all())

    def _range(self, inside: Array) -> str:
        assert self.numbers is not None
        assert isinstance(self.statistics, NumericColumn)
        first, last, text = int(inside[0]), int(inside[-1]), self.statistics.text
        bounds, top = self.numbers.bounds, len(self.numbers.values) - 1
        whole = self.statistics.style == "day" or self._whole
        low, high = (float(bounds[first - 1]) if first else 0.0), (float(bounds[last]) if last < top else 0.0)
        least = f">= {text(np.floor(low) + 1.0)}" if whole else f"> {text(low)}"
        most = f"<= {text(np.floor(high) if whole else high)}"
        ends = ([f"{self.name} {least}"] if first else []) + ([f"{self.name} {most}"] if last < top else [])
        return " and ".join(ends)


@dataclass(frozen=True, repr=False)
class Rules:
    """One short rule for every cluster, and one small tree for all; the result of ``CRAFT.rules``.

    `str(rules)` is the text of both; ``craftc.to_sql(rules, table)`` writes them for a database.

    Attributes
    ----------
    frame : pandas.DataFrame, or polars.DataFrame where `fit` received one
        One row per cluster, the largest first: ``cluster``, ``name``, ``rows``, ``rule``, ``conditions``
        (their number), ``coverage`` (share of the rows of the cluster for which the rule holds) and
        ``precision`` (share of the cluster among the rows for which it holds).
    tree : list of str
        The lines of the tree.
    agreement : float
        Share of the rows for which the tree gives their cluster.
    notes : list of str
        One line on what was assumed.
    """

    columns: Sequence[RuleColumn] = field(repr=False)
    rules: Sequence[Rule]  # (K,) by label
    root: Node
    sizes: Floats  # (K,)
    order: Sequence[int]  # labels, the largest cluster first
    headings: Sequence[str]  # (K,) by label
    notes: list[str]
    schema: Schema
    library: str | None

    def __repr__(self) -> str:
        return (
            f"Rules({plural(len(self.rules), 'cluster')}; tree of "
            f"{plural(self.root.n_leaves, 'leaf', 'leaves')}, agreement {percent(self.agreement)})"
        )

    def __str__(self) -> str:
        lines = []
        for k in self.order:
            rule = self.rules[k]
            shares = f"coverage {percent(rule.coverage)}, precision {percent(rule.precision)}"
            lines.append(f"{self.headings[k]}: {self.text(rule.conditions)} ({shares})")
        lines.append(f"Tree, which gives {percent(self.agreement)} of the rows their cluster:")
        return "\n".join([*lines, *(f"  {line}" for line in self.tree), *self.notes])

    def text(self, conditions: Sequence[Condition]) -> str:
        """Some conditions in words."""
        return " and ".join(self.columns[d].text(allowed) for d, allowed in conditions) or ALL_ROWS

    @cached_property
    def frame(self) -> OutputFrame:
        """One row per cluster."""
        own = [self.rules[k] for k in self.order]
        table = {
            "cluster": list(self.order),
            "name": [self.headings[k] for k in self.order],
            "rows": [self.sizes[k].item() for k in self.order],
            "rule": [self.text(rule.conditions) for rule in own],
            "conditions": [len(rule.conditions) for rule in own],
            "coverage": [rule.coverage for rule in own],
            "precision": [rule.precision for rule in own],
        }
        return output_frame(table, self.library, {"notes": self.notes})

    @property
    def agreement(self) -> float:
        """Share of the rows for which the tree gives their cluster."""
        return self.root.agreement / float(self.sizes.sum())

    @cached_property
    def tree(self) -> list[str]:
        """The lines of the tree; what is indented holds under the condition above it."""
        return list(self._lines(self.root, ""))

    def _lines(self, node: Node, indent: str) -> Iterator[str]:
        if node.split is None:
            total = float(node.counts.sum())
            share = percent(float(node.counts.max()) / max(total, 1e-300))
            yield f"{indent}{self.headings[node.cluster]} ({count(total)}, {share} of them)"
            return
        yield f"{indent}if {self.text([node.split])}"
        yield from self._lines(node.children[0], indent + "  ")
        yield f"{indent}else"
        yield from self._lines(node.children[1], indent + "  ")
