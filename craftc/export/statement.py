"""The statement that scores rows: common table expressions, one after the other.

`given` renames the cells and makes them numbers or text, `cell` gives them levels, `cost1`, `cost2`, ... look
up and add their costs, `block` adds covariances, `least` finds the smallest cost and `found` the cluster that
has it. The look-up tables stand before them.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from sqlglot import exp

from craftc._common.typing import Floats
from craftc.export.blocks import Blocks
from craftc.export.dates import steps_of_part
from craftc.export.expressions import (
    Dialect,
    case,
    column,
    difference,
    formula,
    is_null,
    number,
    product,
    total,
    with_fallback,
)
from craftc.export.scoring import Intervals, LookUp, Polynomial, Scoring, Texts, Values

_JOINS = 30  # look-up tables of one step; SQLite joins at most 64
_DIGITS = 8  # after the point, of costs in nats
_LARGE = 1e308


class Statement:
    """The statement of a model."""

    def __init__(
        self,
        scoring: Scoring,
        dialect: Dialect,
        table: exp.Table,
        keys: Sequence[str],
        margin: bool,
        probabilities: bool,
    ) -> None:
        self.scoring, self.dialect, self.table, self.keys = scoring, dialect, table, keys
        self.margin, self.probabilities = margin and len(scoring.base) > 0, probabilities
        self._kept = [f"k{i}" for i in range(len(keys))]  # the keys inside the statement
        # an empty cluster of infinite cost has no rows
        self._clusters = np.flatnonzero(np.isfinite(scoring.base)).tolist()
        self._refuses = bool(scoring.refused or scoring.unseen)
        #: Whether rows with missing cells in the columns of a covariance have no cluster.
        self.incomplete_refused = Blocks(scoring, dialect, self._clusters, (), False).refused
        self._refuses |= self.incomplete_refused
        self._steps: list[exp.CTE] = []
        read = {term.column for term in scoring.terms}.union(scoring.refused)
        #: Columns of the model that the statement reads.
        self.columns = sorted({scoring.parts[j][0] if j in scoring.parts else j for j in read})
        self._read = sorted(read)

    def text(self) -> str:
        """The text of the statement."""
        self._cells(self._given())
        last = self._costs()
        if self.scoring.blocks:
            last = self._blocks(last)
        final = self._result(last)
        final.set("with_", exp.With(expressions=self._steps))
        self._rename_steps(final)
        return self.dialect.text(final)

    def _rename_steps(self, final: exp.Select) -> None:
        """Give the steps other names if one of them is that of the table, which it would hide."""
        names = {step.alias for step in self._steps}
        if self.table.name.casefold() not in names:
            return
        own = {id(each) for each in self.table.find_all(exp.Identifier)}
        for each in final.find_all(exp.Identifier):
            if each.this in names and not each.quoted and id(each) not in own:
                each.set("this", f"craftc_{each.this}")

    def _add(self, name: str, body: exp.Query, columns: Sequence[str] = (), fence: bool = True) -> None:
        alias = exp.TableAlias(
            this=exp.to_identifier(name), columns=[exp.to_identifier(each) for each in columns]
        )
        fenced = True if fence and self.dialect.fenced else None
        self._steps.append(exp.CTE(this=body, alias=alias, materialized=fenced))

    def _carried(self, table: str | None = None) -> list[exp.Expr]:
        """The keys, and whether a row is refused."""
        return [exp.column(name, table) for name in [*self._kept, *(["r"] if self._refuses else [])]]

    # ---- cells ----

    def _given(self) -> str:
        """k: keys, x: cells as numbers or text, r: whether the row is refused; returns the last step."""
        scoring = self.scoring
        own = [exp.alias_(column(key), name) for key, name in zip(self.keys, self._kept, strict=True)]
        parts = {j: scoring.parts[j] for j in self._read if j in scoring.parts}
        of_table = sorted(set(self._read).difference(parts).union(date for date, _ in parts.values()))
        cells = {j: self._cell(j) for j in of_table}
        if self._refuses:
            missing = [is_null(cells[j].copy()) for j in scoring.refused if j in cells]
            refused = (
                case([(exp.or_(*missing), exp.Literal.number(1))], exp.Literal.number(0)) if missing else None
            )
            own.append(exp.alias_(refused or exp.Literal.number(0), "r"))
        own += [exp.alias_(cell, f"x{j}") for j, cell in cells.items()]
        self._add("given", exp.select(*own, copy=False).from_(self.table, copy=False))
        last, n_steps = "given", 0
        for j, (date, part) in parts.items():
            for computed in steps_of_part(part, f"x{date}", f"x{j}", self.dialect.floor_text):
                new = [exp.alias_(formula(text), name) for name, text in computed.items()]
                n_steps += 1
                self._add(f"date{n_steps}", exp.select("*", *new, copy=False).from_(last, copy=False))
                last = f"date{n_steps}"
        return last

    def _cell(self, j: int) -> exp.Expr:
        """A cell of the table as a number, as text, or as it is."""
        cell, expected = column(self.scoring.columns[j]), self.scoring.expected[j]
        if expected == "date":
            return self.dialect.days(cell)
        if expected == "number":
            return self.dialect.number_cell(cell)
        if expected != "text":
            return cell
        return self.dialect.text_cell(self.dialect.trimmed(cell) if self.scoring.trims else cell)

    def _cells(self, last: str) -> None:
        """l: what look-up tables are joined by, z: numbers of polynomials."""
        own = self._carried()
        for i, term in enumerate(self.scoring.terms):
            cell = exp.column(f"x{term.column}")
            if isinstance(term, LookUp):
                own.append(exp.alias_(self._level(term, cell), f"l{i}"))
            else:
                own.append(exp.alias_(self._number(term, cell), f"z{i}"))
        self._add("cell", exp.select(*own, copy=False).from_(last, copy=False))

    def _level(self, term: LookUp, cell: exp.Expr) -> exp.Expr:
        """What the look-up table of a term is joined by."""
        reader = term.reader
        if isinstance(reader, Intervals):
            return _interval(self.dialect, reader, cell)
        if isinstance(reader, Values):
            codes = [(within, exp.Literal.number(t)) for t, within in enumerate(_values(reader, cell))]
            other = exp.Literal.number(len(codes))
            return case([(is_null(cell), exp.null()), *codes], other)
        if reader.missing is None:
            return cell
        if self.scoring.expected[term.column] == "text":
            return with_fallback(cell, self.dialect.literal(str(reader.levels[reader.missing])))
        levels = [
            (exp.EQ(this=cell.copy(), expression=self.dialect.level(level)), exp.Literal.number(t))
            for t, level in enumerate(reader.levels)
            if t != reader.missing
        ]
        return case([(is_null(cell), exp.Literal.number(reader.missing)), *levels])

    def _entries(self, term: LookUp) -> list[tuple[int, exp.Expr]]:
        """Levels, and the literals by which their rows of the look-up table are found."""
        reader = term.reader
        codes: list[tuple[int, exp.Expr]] = [(t, exp.Literal.number(t)) for t in range(len(term.costs))]
        if not isinstance(reader, Texts):
            return codes
        if self.scoring.expected[term.column] == "text":
            return [(t, self.dialect.literal(text)) for text, t in reader.codes().items()]
        if reader.missing is not None:
            return codes
        return [(t, self.dialect.level(level)) for t, level in enumerate(reader.levels)]

    def _number(self, term: Polynomial, cell: exp.Expr) -> exp.Expr:
        """z of a polynomial."""
        value = self.dialect.single(cell) if term.single else cell
        if term.knots is not None and term.scores is not None:
            value = _interpolated(term.knots, term.scores, cell)
        if term.centre != 0.0:
            value = exp.paren(difference(value, number(term.centre)))
        if term.scale != 1.0:
            value = product(value, number(term.scale))
        branches: list[tuple[exp.Expr, exp.Expr]] = []
        if term.apart is not None:
            branches += [(within, exp.null()) for within in _values(term.apart, cell)]
        if np.isfinite(term.most) and term.knots is None:
            low, high = term.centre - term.most / term.scale, term.centre + term.most / term.scale
            if np.isfinite(low) and np.isfinite(high):
                branches.append((exp.LT(this=cell.copy(), expression=number(low)), number(-term.most)))
                branches.append((exp.GT(this=cell.copy(), expression=number(high)), number(term.most)))
        return case(branches, value) if branches else value

    # ---- costs ----

    def _costs(self) -> str:
        """c: costs of the clusters, in steps of at most `_JOINS` look-ups; returns the last step."""
        terms = list(enumerate(self.scoring.terms))
        parts = [terms[at : at + _JOINS] for at in range(0, len(terms), _JOINS)] or [[]]
        last = "cell"
        for step, part in enumerate(parts):
            rest = [each for later in parts[step + 1 :] for each in later]
            name = f"cost{step + 1}"
            self._cost_step(name, last, part, rest, first=step == 0)
            last = name
        return last

    def _cost_step(
        self,
        name: str,
        last: str,
        part: list[tuple[int, LookUp | Polynomial]],
        rest: list[tuple[int, LookUp | Polynomial]],
        first: bool,
    ) -> None:
        scoring = self.scoring
        costs: dict[int, list[exp.Expr]] = {
            k: [_double(scoring.base[k]) if first else exp.column(f"c{k}", "a")] for k in self._clusters
        }
        of_blocks = {i for block in scoring.blocks for i in block.cells.tolist()}
        query, carried = exp.select(), self._carried("a")
        for i, term in part:
            if isinstance(term, Polynomial):
                z = exp.column(f"z{i}", "a")
                for k, cost in _polynomial(term, z, self._clusters):
                    costs[k].append(with_fallback(cost, number(0.0)))
                if i in of_blocks:
                    carried.append(exp.alias_(z.copy(), f"z{i}"))
                continue
            entries = self._entries(term)
            used = [k for k in self._clusters if term.costs[:, k].any()]
            self._look_up(f"t{i}", term, entries, used, i in scoring.unseen)
            on = exp.EQ(this=exp.column("l", f"t{i}"), expression=exp.column(f"l{i}", "a"))
            query = query.join(f"t{i}", on=on, join_type="left", copy=False)
            for k in used:
                costs[k].append(with_fallback(exp.column(f"c{k}", f"t{i}"), number(0.0)))
            if i in of_blocks:
                carried.append(exp.alias_(exp.column("z", f"t{i}"), f"z{i}"))
            if i in scoring.unseen:
                at = len(self._kept)
                known = exp.Or(
                    this=is_null(exp.column(f"l{i}", "a")),
                    expression=exp.Not(this=is_null(exp.column("l", f"t{i}"))),
                )
                before = carried[at].this if isinstance(carried[at], exp.Alias) else carried[at]
                carried[at] = exp.alias_(case([(known, before)], exp.Literal.number(1)), "r")
        earlier = {i for i, _ in part} | {i for i, _ in rest}
        for i in sorted(of_blocks - earlier):
            carried.append(exp.column(f"z{i}", "a"))
        carried += [exp.column(f"{'l' if isinstance(term, LookUp) else 'z'}{i}", "a") for i, term in rest]
        sums = [exp.alias_(total(each), f"c{k}") for k, each in costs.items()]
        source = exp.alias_(exp.to_table(last), "a", table=True)
        self._add(name, query.select(*carried, *sums, copy=False).from_(source, copy=False))

    def _look_up(
        self, name: str, term: LookUp, entries: list[tuple[int, exp.Expr]], used: list[int], whole: bool
    ) -> None:
        """The look-up table of a term, without levels that cost nothing unless it is `whole`."""
        digits = _DIGITS if self.scoring.unit == "nats" else 300
        names = ["l", *(f"c{k}" for k in used), *("z" if term.scores is not None else "")]
        rows: list[exp.Expr] = []
        for t, entry in entries:
            costs = term.costs[t, used]
            if not costs.any() and term.scores is None and not whole and rows:
                continue
            cells = [repr(round(cost, digits)).removesuffix(".0") for cost in costs.tolist()]
            if term.scores is not None:
                cells.append(repr(float(term.scores[t])))
            if not rows:  # which gives the columns their type
                rows.append(exp.Tuple(expressions=[entry, *(_double(float(cell)) for cell in cells)]))
                continue
            joined = [", ".join(cells)] if self.dialect.writes_rows and cells else cells
            rows.append(exp.Tuple(expressions=[entry, *map(formula, joined)]))
        if self.dialect.name == "sqlite":
            self._add(name, exp.Values(expressions=rows), names, fence=False)  # type: ignore[arg-type]
            return
        alias = exp.TableAlias(
            this=exp.to_identifier("v"), columns=[exp.to_identifier(each) for each in names]
        )
        values = exp.Values(expressions=rows, alias=alias)
        self._add(name, exp.select(*names, copy=False).from_(values, copy=False), fence=False)

    def _blocks(self, last: str) -> str:
        """Costs with those of the blocks; returns the last step."""
        own = Blocks(self.scoring, self.dialect, self._clusters, self._kept, self._refuses)
        for name, body in own.steps(last):
            self._add(name, body)
            last = name
        return last

    # ---- the result ----

    def _result(self, last: str) -> exp.Select:
        dialect, scoring, numbers = self.dialect, self.scoring, self.scoring.number_of
        costs = [exp.column(f"c{k}") for k in self._clusters]
        least = exp.alias_(dialect.least([each.copy() for each in costs]), "m")
        select = exp.select(*self._carried(), *(each.copy() for each in costs), least, copy=False)
        self._add("least", select.from_(last, copy=False))
        smallest = exp.column("m")
        cheapest: list[tuple[exp.Expr, exp.Expr]] = [
            (exp.LTE(this=cost.copy(), expression=smallest.copy()), exp.Literal.number(int(numbers[k])))
            for k, cost in zip(self._clusters, costs, strict=True)
        ]
        if self._refuses:
            cheapest.insert(0, (exp.EQ(this=exp.column("r"), expression=exp.Literal.number(1)), exp.null()))
        found = exp.alias_(case(cheapest), "n")
        several = len(costs) > 1
        kept = [exp.column(name) for name in self._kept]
        carried = [each.copy() for each in costs] if several or self.probabilities else []
        self._add(
            "found", exp.select(*kept, *carried, smallest, found, copy=False).from_("least", copy=False)
        )
        own = exp.column("n")
        out: list[exp.Expr] = [
            exp.alias_(exp.column(name), key, quoted=True)
            for name, key in zip(self._kept, self.keys, strict=True)
        ]
        out.append(exp.alias_(own, "cluster", quoted=True))
        if len(scoring.names):
            names = [
                (
                    exp.EQ(this=own.copy(), expression=exp.Literal.number(int(numbers[k]))),
                    self._name(scoring.names[k]),
                )
                for k in self._clusters
            ]
            out.append(exp.alias_(case(names), "cluster_name", quoted=True))
        refused = [(is_null(own), exp.null())] if self._refuses else []
        if self.margin:
            out.append(
                exp.alias_(
                    self._margin(costs) if several else exp.cast(exp.null(), "double"), "margin", quoted=True
                )
            )
        if self.probabilities:
            weights = [dialect.weight(difference(cost.copy(), smallest.copy())) for cost in costs]
            whole = exp.paren(total([each.copy() for each in weights]))
            by_number = sorted(
                zip(numbers[self._clusters].tolist(), weights, strict=True), key=lambda pair: pair[0]
            )
            for n, weight in by_number:
                share: exp.Expr = exp.Div(this=weight, expression=whole.copy())
                share = case(refused, share) if refused else share
                out.append(exp.alias_(share, f"probability_{n}", quoted=True))
        return exp.select(*out, copy=False).from_("found", copy=False)

    def _name(self, name: str) -> exp.Expr:
        return exp.National(this=name) if self.dialect.name == "tsql" else exp.Literal.string(name)

    def _margin(self, costs: list[exp.Column]) -> exp.Expr:
        """The second smallest cost less the smallest."""
        numbers = self.scoring.number_of
        others = [
            case(
                [
                    (
                        exp.EQ(this=exp.column("n"), expression=exp.Literal.number(int(numbers[k]))),
                        number(_LARGE),
                    )
                ],
                cost.copy(),
            )
            for k, cost in zip(self._clusters, costs, strict=True)
        ]
        margin: exp.Expr = difference(self.dialect.least(others), exp.column("m"))
        return case([(is_null(exp.column("n")), exp.null())], margin) if self._refuses else margin


# ---- cells ----


def _double(value: float) -> exp.Expr:
    """A number that gives its column the type of double precision."""
    return exp.cast(number(value), exp.DataType.Type.DOUBLE)


def _interval(dialect: Dialect, reader: Intervals, cell: exp.Expr) -> exp.Expr:
    """The level of a number by halves of the bounds."""
    T, bounds = reader.n_levels, reader.bounds.tolist()
    if not reader.period:
        return case([(exp.Not(this=is_null(cell)), _search(cell, bounds, list(range(T))))])
    residue = dialect.residue(cell, reader.period)
    beyond = bounds[-1] - reader.period
    search = _search(residue, bounds, [*range(T), 0])
    last = exp.LTE(this=residue.copy(), expression=number(beyond))
    inside = case([(last, exp.Literal.number(T - 1))], search)
    return case([(exp.Not(this=is_null(cell)), inside)])


def _search(cell: exp.Expr, bounds: Sequence[float], leaves: Sequence[object]) -> exp.Expr:
    """leaves[l] for bounds[l - 1] < cell <= bounds[l]."""
    if not bounds:
        leaf = leaves[0]
        return leaf if isinstance(leaf, exp.Expr) else exp.Literal.number(str(leaf))
    half = len(bounds) // 2
    return case(
        [
            (
                exp.LTE(this=cell.copy(), expression=number(bounds[half])),
                _search(cell, bounds[:half], leaves[: half + 1]),
            )
        ],
        _search(cell, bounds[half + 1 :], leaves[half + 1 :]),
    )


def _values(reader: Values, cell: exp.Expr) -> list[exp.Expr]:
    """Whether a cell is each of some values."""
    return [
        exp.EQ(this=cell.copy(), expression=number(low))
        if low == high
        else exp.Between(this=cell.copy(), low=number(low), high=number(high))
        for low, high in zip(reader.low.tolist(), reader.high.tolist(), strict=True)
    ]


def _interpolated(knots: Floats, scores: Floats, cell: exp.Expr) -> exp.Expr:
    """The piecewise linear function with these knots."""
    segments: list[exp.Expr] = [number(scores[0])]
    for (x0, x1), (y0, y1) in zip(pairwise(knots.tolist()), pairwise(scores.tolist()), strict=True):
        slope = (y1 - y0) / (x1 - x0)
        rise = (
            product(exp.paren(difference(cell.copy(), number(x0))), number(slope))
            if np.isfinite(slope)
            else number(0.0)
        )
        segments.append(total([number(y0), rise]))
    segments.append(number(scores[-1]))
    inside = _search(cell, knots.tolist(), segments)
    return case([(exp.Not(this=is_null(cell)), inside)])


def _polynomial(term: Polynomial, z: exp.Expr, clusters: Sequence[int]) -> list[tuple[int, exp.Expr]]:
    """The clusters in which a number has a cost, and the cost."""
    out = []
    for k in clusters:
        a, b, c, o = (float(each[k]) for each in (term.square, term.linear, term.offset, term.origin))
        step = exp.paren(difference(z.copy(), number(o))) if o else z.copy()
        inner = [product(number(a), step.copy())] if a and a != 1.0 else [step.copy()] if a else []
        inner += [number(b)] if b else []
        summands = [product(exp.paren(total(inner)), step.copy())] if inner else []
        summands += [number(c)] if c else []
        if summands:
            out.append((k, total(summands)))
    return out
