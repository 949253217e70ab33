"""A mixed table as columns of numbers: numeric ones scaled to [-beta, beta], categories as +-1 indicators."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from craftc._common.labels import chunks
from craftc._common.messages import warn_user
from craftc._common.products import row_products
from craftc._common.typing import Array, ColumnSelection, Floats, Ints, TableInput
from craftc._common.validation import Choice, Constraint, Number, check_number
from craftc._kernels.spectral import MISSING
from craftc.table import MixedTable, Schema
from craftc.table.moments import level_starts
from craftc.table.numeric_encoding import NumericEncoding

_NAMED = 5  # columns in a message
#: Constraints of the parameters that the estimator and `observed_graph` share.
SHARED: Mapping[str, Constraint] = {
    "scaling": Choice(("range", "normal")),
    "factorization": Choice(("hals", "svd")),
    "beta": Number(least=1e-100, most=1e100),  # the squares of scaled numbers neither vanish nor overflow
    "indicator_weight": Number(above=0),
    "n_factors": Number(least=1, whole=True, optional=True),
}
_EPS = 0.1  # default of eps, times beta
_SMALLEST_EPS = 1e-100  # times beta


@dataclass(frozen=True, eq=False)
class Encoding:
    """The p encoded columns of a table: the p1 numeric ones, then the indicators, variable by variable.

    A variable of two levels has one indicator, of the second; others have one per level. The states of a
    variable are its levels and then the missing state, as in `level_starts`.
    """

    schema: Schema
    beta: float
    column: Ints  # (p1,) of the numeric block
    centre: Floats  # (p1,) means
    largest: Floats  # (p1,) of |x - mean|
    low: Floats  # (p1,)
    high: Floats  # (p1,)
    values: tuple[Floats, ...]  # (p1) distinct numbers of columns with few, ascending; else empty
    variable: Ints  # (P,) columns of the codes
    first_state: Ints  # (P,)
    first: Ints  # (P + 1,) first indicators
    indicator_of_state: Ints  # (C,) indicator that a state switches on; -1: none, MISSING: missing or unseen
    counts: NDArray[np.int64]  # (C,) rows
    names: tuple[str, ...]  # (p,)
    source: Ints  # (p,) columns of the input
    constants: dict[int, object]  # values of the columns that are left out

    @classmethod
    def of(cls, table: MixedTable, beta: float, few: int = 0) -> Encoding:
        """Learn the encoding, without constant columns (a warning); `few`: most `values` of a column."""
        schema, block = table.schema, table.numeric
        centre, low, high = (np.full(block.shape[1], np.nan) for _ in range(3))
        for j, cells in enumerate(block.T):
            seen = cells[~np.isnan(cells)].astype(np.float64)
            if len(seen):
                with np.errstate(over="ignore", divide="ignore"):
                    centre[j], low[j], high[j] = seen.mean(), seen.min(), seen.max()
                    reach = high[j] - low[j]
                    scale = 8.0 * max(beta, 1.0) / reach if reach else 0.0
                if not np.isfinite([centre[j], reach, scale]).all():
                    raise ValueError(
                        f"Column {schema.numeric_names[j]!r} must have a mean and a scale within the range "
                        f"of float64, got numbers from {low[j]:g} to {high[j]:g}; scale it."
                    )
        fill = schema.missing == "category"
        varying = np.flatnonzero(low < high)
        values = [_few_values(block[:, j], float(centre[j]) if fill else None, few) for j in varying]
        counts = [
            np.bincount(codes, minlength=T + 1)
            for codes, T in zip(table.codes.T, table.n_levels, strict=True)
        ]
        encoding = cls.from_statistics(schema, beta, centre, low, high, values, counts)
        names = [schema.columns[j] for j in sorted(encoding.constants)]
        if names:
            more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
            shown = ", ".join(map(repr, names[:_NAMED])) + more
            warn_user(f"Constant columns carry no information about dependence and are left out: {shown}.")
        return encoding

    @classmethod
    def from_statistics(
        cls,
        schema: Schema,
        beta: float,
        centre: Floats,
        low: Floats,
        high: Floats,
        values: Sequence[Floats],
        counts: Sequence[Ints],
    ) -> Encoding:
        """The encoding from means and ranges of all numeric columns, and rows per level of all categorical
        ones, missing cells last; `values` belong to the columns that vary.
        """
        column = np.flatnonzero(low < high)
        names, source = [schema.numeric_names[j] for j in column], list(schema.numeric_index[column])
        constants: dict[int, object] = {
            int(schema.numeric_index[j]): centre[j] for j in range(len(low)) if not low[j] < high[j]
        }
        variable, first, indicator_of_state, kept = [], [0], [], []
        for d, (levels, count) in enumerate(zip(schema.levels, counts, strict=True)):
            present = np.flatnonzero(count[:-1])
            if len(present) < 2:
                constants[int(schema.categorical_index[d])] = levels[present[0]] if len(present) else None
                continue
            shown = present[1:] if len(present) == 2 else present
            states = np.full(len(levels) + 1, MISSING, np.intp)
            states[present] = -1
            states[shown] = first[-1] + np.arange(len(shown))
            variable.append(d)
            first.append(first[-1] + len(shown))
            indicator_of_state.append(states)
            kept.append(count)
            names += [f"{schema.categorical_names[d]}={levels[c]}" for c in shown]
            source += [schema.categorical_index[d]] * len(shown)
        return cls(
            schema=schema,
            beta=beta,
            column=column,
            centre=centre[column],
            largest=np.maximum(high - centre, centre - low)[column],
            low=low[column],
            high=high[column],
            values=tuple(values),
            variable=np.array(variable, np.intp),
            first_state=level_starts(schema.n_levels[variable]) if variable else np.empty(0, np.intp),
            first=np.array(first, np.intp),
            indicator_of_state=np.concatenate([np.empty(0, np.intp), *indicator_of_state]),
            counts=np.concatenate([np.empty(0, np.int64), *kept]),
            names=tuple(names),
            source=np.array(source, np.intp),
            constants=constants,
        )

    @property
    def p1(self) -> int:
        """Number of numeric columns."""
        return len(self.column)

    @property
    def p2(self) -> int:
        """Number of indicators."""
        return int(self.first[-1])

    @property
    def p(self) -> int:
        """Number of encoded columns."""
        return self.p1 + self.p2

    @cached_property
    def scale(self) -> Floats:
        """(p1,) factor of x - mean."""
        return np.asarray(self.beta / self.largest)

    @cached_property
    def missing_state(self) -> Ints:
        """(P,) the missing state of a variable."""
        return np.append(self.first_state[1:], len(self.indicator_of_state))[: len(self.variable)] - 1

    @cached_property
    def owner(self) -> Ints:
        """(p2,) variable of an indicator."""
        return np.repeat(np.arange(len(self.variable)), np.diff(self.first))

    @cached_property
    def state_owner(self) -> Ints:
        """(C,) variable of a state."""
        return np.repeat(
            np.arange(len(self.variable)), np.diff(np.append(self.first_state, len(self.indicator_of_state)))
        )

    @cached_property
    def state_of(self) -> Ints:
        """(p2,) the state that switches an indicator on."""
        on = np.flatnonzero(self.indicator_of_state >= 0)
        return on[np.argsort(self.indicator_of_state[on], kind="stable")]

    @cached_property
    def known(self) -> NDArray[np.int64]:
        """(P,) rows in which a variable is observed."""
        counts = np.where(self.indicator_of_state == MISSING, 0, self.counts)
        return np.bincount(self.state_owner, counts, len(self.variable)).astype(np.int64)

    @cached_property
    def shares(self) -> Floats:
        """(p2,) share of the rows with the indicator on, among those in which its variable is observed."""
        return np.asarray(self.counts[self.state_of] / self.known[self.owner])

    @cached_property
    def mean(self) -> Floats:
        """(p,) means of the encoded columns."""
        return np.concatenate([np.zeros(self.p1), 2.0 * self.shares - 1.0])

    def edges(self) -> tuple[Ints, Ints]:
        """Pairs s < t of encoded columns of different variables."""
        group = np.concatenate([-1 - np.arange(self.p1), self.owner])
        s, t = np.triu_indices(self.p, 1)
        kept = group[s] != group[t]
        return s[kept], t[kept]

    def scaled(self, table: MixedTable) -> Floats:
        """(n, p1) numeric columns; NaN where a cell is missing."""
        return np.asarray((table.numeric[:, self.column] - self.centre) * self.scale)

    def filled(self, table: MixedTable) -> MixedTable:
        """The table with missing numbers replaced by the means of their columns."""
        return self._changed(table, lambda block: np.where(np.isnan(block), self.centre, block))

    def in_range(self, table: MixedTable) -> MixedTable:
        """The table with numbers clipped to the range of their columns, or moved to the nearest value."""

        def nearest(block: Floats) -> Floats:
            out = np.clip(block, self.low, self.high)
            for s, values in enumerate(self.values):
                if len(values):
                    place = np.searchsorted((values[1:] + values[:-1]) / 2.0, out[:, s])
                    out[:, s] = np.where(np.isnan(out[:, s]), out[:, s], values[place])
            return out

        return self._changed(table, nearest)

    def _changed(self, table: MixedTable, change: Callable[[Floats], Floats]) -> MixedTable:
        numeric = table.numeric.copy()
        numeric[:, self.column] = change(numeric[:, self.column])
        return MixedTable._trusted(numeric, table.codes, table.schema)

    def indicators(self) -> Floats:
        """(C, p2) the +-1 indicators of every state; of a missing state, their means."""
        value = np.zeros((len(self.indicator_of_state), self.p2))
        value[self.state_owner[:, None] == self.owner] = -1.0
        on = np.flatnonzero(self.indicator_of_state >= 0)
        value[on, self.indicator_of_state[on]] = 1.0
        missing = np.flatnonzero(self.indicator_of_state == MISSING)
        value[missing] *= 1.0 - 2.0 * self.shares
        return value

    def project(self, table: MixedTable, components: Floats) -> Array:
        """(n, l) encoded rows times (l, p) components; a missing cell counts as the mean of its column."""
        out = np.empty((table.n_rows, len(components)), table.schema.dtype)
        by_state = self.indicators() @ components[:, self.p1 :].T
        for rows in chunks(table.n_rows):
            part = row_products(
                np.nan_to_num(self.scaled(table.take(rows)), nan=0.0), components[:, : self.p1].T
            )
            for d, first in zip(self.variable, self.first_state, strict=True):
                part += by_state[first + table.codes[rows, d].astype(np.intp)]
            out[rows] = part
        return out

    def decode(self, x: Floats) -> list[Array]:
        """Columns of the input from (n, p) encoded rows; a category is the level of largest indicator."""
        out: dict[int, Array] = {}
        for j, value in self.constants.items():
            kind = object if j in self.schema.categorical_index else self.schema.dtype
            out[j] = np.full(len(x), value, kind)
        for s, j in enumerate(self.source[: self.p1]):
            out[j] = (x[:, s] / self.scale[s] + self.centre[s]).astype(self.schema.dtype)
        for v, d in enumerate(self.variable):
            mine = x[:, self.p1 + self.first[v] : self.p1 + self.first[v + 1]]
            known = np.flatnonzero((self.state_owner == v) & (self.indicator_of_state != MISSING))
            code = (mine[:, 0] > 0.0).astype(np.intp) if mine.shape[1] == 1 else mine.argmax(axis=1)
            levels = np.array([self.schema.levels[d][c] for c in known - self.first_state[v]], dtype=object)
            out[self.schema.categorical_index[d]] = levels[code]
        return [out[j] for j in range(self.schema.n_columns)]


class Prepared(NamedTuple):
    """A table as its dependence graph sees it."""

    given: MixedTable  # as read
    table: MixedTable  # with the scaling of the numbers, and missing cells filled if they count as a level
    encoding: Encoding
    scores: NumericEncoding | None  # normal scores of the ranks of numeric columns

    @classmethod
    def of(
        cls,
        X: TableInput,
        categorical: ColumnSelection,
        missing: str,
        scaling: str,
        beta: float,
        most_values: int = 0,
    ) -> Prepared:
        """Read and encode a table; raise unless two columns vary; `most_values`: `few` of the encoding."""
        given = MixedTable.from_data(X, categorical=categorical, missing=missing)
        if given.schema.ordered and not isinstance(X, MixedTable):
            # a graph has no place for levels of a scale that do not occur
            kinds = dict.fromkeys((given.schema.columns[j] for j in given.schema.ordered), "category")
            given = MixedTable.from_data(X, categorical=categorical, missing=missing, kinds=kinds)
        table = given
        check_rows(table)
        scores = NumericEncoding.normal(table) if scaling == "normal" else None
        if scores is not None:
            table = scores.apply(table)
        encoding = Encoding.of(table, beta, min(most_values, math.isqrt(table.n_rows)))
        usable, n_columns = len(np.unique(encoding.source)), encoding.schema.n_columns
        if usable < 2:
            raise ValueError(
                f"A graph needs at least two columns that vary, got {usable} among {n_columns} feature(s) "
                f"(n_features = {n_columns}); constant columns do not count. Pass more columns."
            )
        return cls(given, encoding.filled(table) if missing == "category" else table, encoding, scores)


def eps_of(eps: float | None, beta: float) -> float:
    """The half-width eps of numbers that are treated as equal, 0.1 beta by default; raise unless possible."""
    if eps is None:
        return _EPS * float(beta)
    check_number("eps", eps, above=0, below=float(beta), hint="beta")
    if float(eps) < _SMALLEST_EPS * float(beta):
        raise ValueError(
            f"eps={eps!r} is less than {_SMALLEST_EPS:g} of beta={beta!r}; their ratio overflows."
        )
    return float(eps)


def _few_values(cells: Array, fill: float | None, few: int) -> Floats:
    """The distinct numbers of a column, with `fill` for missing ones; empty if there are more than `few`."""
    missing = np.isnan(cells)
    values = np.unique(cells[~missing])
    if fill is not None and missing.any():
        values = np.union1d(values, cells.dtype.type(fill))
    return values.astype(np.float64) if len(values) <= few else np.empty(0)


def check_rows(table: MixedTable) -> None:
    """Raise if there are too few rows, or if a column has a different level in every row."""
    if table.n_rows < 2:
        raise ValueError(
            f"A graph needs at least two rows, got {table.n_rows} sample (n_samples = {table.n_rows})."
        )
    for d, name in enumerate(table.categorical_names):
        n_levels = int((np.unique(table.codes[:, d]) < table.n_levels[d]).sum())
        if n_levels == table.n_rows > 2:
            raise ValueError(
                f"Column {name!r} must have fewer levels than rows, got {n_levels} levels in {table.n_rows} "
                "rows, which carry no information about dependence; drop it or merge its levels."
            )
