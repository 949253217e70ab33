"""Rules of clusters and their tree as a statement of SQL."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from sqlglot import exp

from craftc._common.typing import Bits
from craftc.describe.rule_search import Condition, Node
from craftc.describe.rules import Rules
from craftc.describe.view import numbers_of
from craftc.export.clusters import expected_types, texts_of
from craftc.export.expressions import Dialect, case, column, every, is_null, number
from craftc.export.scoring import float64_bounds


class RuleStatement:
    """One SELECT: the key, the cluster by the tree, and 1 or 0 for the rule of every cluster."""

    def __init__(self, rules: Rules, dialect: Dialect, table: exp.Table, keys: Sequence[str]) -> None:
        self._rules, self._dialect, self._table, self._keys = rules, dialect, table, keys
        self._number_of = numbers_of(np.asarray(rules.order))
        self._types = expected_types(rules.schema)

    def text(self) -> str:
        """The statement, after comments with the rules in words."""
        own: list[exp.Expr] = [column(key) for key in self._keys]
        own.append(exp.alias_(self._of_node(self._rules.root), "cluster"))
        comments = []
        for n, k in enumerate(self._rules.order, 1):
            rule = self._rules.rules[k]
            holds = every(map(self._condition, rule.conditions)) if rule.conditions else None
            one = exp.Literal.number(1)
            own.append(
                exp.alias_(one if holds is None else case([(holds, one)], exp.Literal.number(0)), f"rule_{n}")
            )
            text = " ".join(f"{n} ({self._rules.headings[k]}): {self._rules.text(rule.conditions)}".split())
            comments.append(f"-- rule_{text}\n")
        statement = exp.select(*own, copy=False).from_(self._table, copy=False)
        return f"{''.join(comments)}{self._dialect.text(statement)}\n"

    def _of_node(self, node: Node) -> exp.Expr:
        """The number of the cluster; a condition that is NULL goes on with ELSE, so that it never includes
        missing cells.
        """
        if node.split is None:
            return exp.Literal.number(int(self._number_of[node.cluster]))
        split, (first, second) = node.split, node.children
        if split.allowed[-1]:
            split, first, second = Condition(split.column, ~split.allowed), second, first
        return case([(self._condition(split), self._of_node(first))], self._of_node(second))

    def _condition(self, condition: Condition) -> exp.Expr:
        """A condition that is true where a present cell has one of the levels."""
        d, allowed = condition
        name, expected, schema = self._rules.schema.columns[d], self._types[d], self._rules.schema
        if (numbers := self._rules.columns[d].numbers) is not None:
            of = self._dialect.days if expected == "date" else self._dialect.number_cell
            cell = of(column(name))
            bounds = float64_bounds(numbers.bounds, schema.dtype)
            inside, top = np.flatnonzero(allowed[:-1]), len(allowed) - 2
            parts: list[exp.Expr] = []
            if inside[0] > 0:
                parts.append(exp.GT(this=cell, expression=number(float(bounds[inside[0] - 1]))))
            if inside[-1] < top:
                parts.append(exp.LTE(this=cell.copy(), expression=number(float(bounds[inside[-1]]))))
            return every(parts) if parts else exp.Not(this=is_null(cell))
        return self._one_of(d, name, expected, allowed)

    def _one_of(self, d: int, name: str, expected: str, allowed: Bits) -> exp.Expr:
        categorical = self._rules.schema.categorical_index.tolist()
        reader, dialect = texts_of(self._rules.schema, categorical.index(d)), self._dialect
        cell: exp.Expr = column(name)
        if expected == "text":
            trimmed = dialect.trimmed(cell) if self._rules.schema.reading else cell
            texts = [text for text, t in reader.codes().items() if allowed[t] and t != reader.missing]
            cell, levels = dialect.text_cell(trimmed), [dialect.literal(text) for text in texts]
        else:
            cell = dialect.number_cell(cell) if expected == "number" else cell
            kept = [level for t, level in enumerate(reader.levels) if allowed[t] and t != reader.missing]
            levels = [dialect.level(level) for level in kept]
        parts: list[exp.Expr] = [exp.In(this=cell, expressions=levels)] if levels else []
        if reader.missing is not None and allowed[reader.missing]:
            parts.append(is_null(cell.copy()))
        return exp.paren(exp.or_(*parts)) if len(parts) > 1 else parts[0]
