"""Columns as levels: every column of a table becomes at most 254 levels, one byte a cell.

A number keeps its distinct values where these are few; otherwise a frequent value has a level of its own, and
the values between such values are cut into bins of equal shares. Levels of numbers, of ordered categories and
of periodic columns have scores, from which a cluster's distribution is tilted; those of other categories have
none.

Only observed values of rows with weight > 0 take part, by the integer weights of the sorted distinct values,
so that the levels do not depend on the order of the rows, and weight 2 gives the same bits as a repeated row.
A table of more than 2^18 rows is represented by a sample of that size, except in columns of few distinct
values.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from craftc._common.typing import Array, Floats, Integers
from craftc._kernels.moments import write_levels
from craftc.table.bins import MAX_LEVELS, SLICE_ROWS, Tally, levels_of
from craftc.table.declared import UNKNOWN_PERIOD, period_of
from craftc.table.mixed_table import MixedTable, Schema

LEAST_SHARE = 1e-12  # of a level under a normal density
ATOM_SHARE = 0.1  # of the cells, least of an atom
ATOM_EXCESS = 4.0  # times the share of either neighbouring level, the same
FEWEST_WITH_ATOM = 4  # levels of a column
_FEWEST_APART, _WIDER_APART = 6, 3.0  # levels on both sides of a gap between groups, and times their gaps
FEWEST_SCORES = 4  # levels of a column that a covariance may hold
WINDOW_SHARE = 1 / 16  # of the cells, in the window that gives the density of a level
WINDOW_STEPS = 40  # of the bisection for its width


class Axis(NamedTuple):
    """The scores of the levels of a column in a covariance; the column has mean 0 and variance 1."""

    scores: NDArray[np.float32]  # (T,)
    # inside the levels, the mean over all: no cluster gains from lying where the levels are fine
    variance: float
    excess: Floats  # (T,) log density of the column, less that of N(0, 1)


@dataclass(frozen=True, eq=False)
class NumberLevels:
    """The levels of one numeric column."""

    values: Floats  # (T,) mean, or mean direction, of the cells of every level, ascending
    # (T - 1,) cells above bounds[l] lie above level l; of a periodic column (T,), the last one between the
    # last level and the first one of the next period
    bounds: Floats
    shares: Floats  # (T,) of the cells, without clusters
    ends: tuple[float, float]  # the smallest and the largest cell
    period: float = 0.0  # of a periodic column, whose cells are taken modulo it; otherwise 0
    ordered: bool = True  # whether clusters tilt the levels by their values; codes have shares of their own

    @classmethod
    def of_values(
        cls, values: Array, counts: Array, period: float = 0.0, null: str = "marginals"
    ) -> NumberLevels:
        """The levels of a column with these distinct values, ascending, and integer weights; their shares
        without clusters are those of the table ("marginals"), or of one normal density ("normal").
        """
        values = values.astype(np.float64)
        if period and len(values):
            values, where = _residues(values, period)
            counts = np.bincount(where, counts).astype(np.int64)
        level = levels_of(values, counts.astype(np.int64))
        first = np.flatnonzero(np.diff(level, prepend=-1))
        low, high = values[first], values[np.append(first[1:], len(values)) - 1 if len(first) else first]
        weight = np.add.reduceat(counts, first).astype(np.float64) if len(first) else np.empty(0)
        # the mean from the lowest value, so that a level of one value has exactly that value
        above = (values - low[level]) * counts if len(first) else values
        means = low + (np.add.reduceat(above, first) / weight if len(first) else 0.0)
        if period and len(first) < len(values):
            turn = np.add.reduceat(counts * np.exp(2j * np.pi * values / period), first)
            means = np.where(low < high, _within(np.angle(turn) / (2.0 * np.pi) * period, period), low)
        middle = high[:-1] / 2 + low[1:] / 2
        bounds = np.where(middle < low[1:], middle, high[:-1])  # neighbouring floats have no middle
        if period:
            bounds = np.append(bounds, (high[-1:] + low[:1] + period) / 2)
        share = weight / max(float(weight.sum()), 1.0)
        if null == "normal" and not period and len(means) > 2:
            share = _normal_shares(means, bounds, share)
        ends = (float(low[0]), float(high[-1])) if len(low) else (0.0, 0.0)
        return cls(means, bounds, share, ends, float(period))

    def apply(self, x: Array) -> Array:
        """Codes of cells; of missing ones, the number of levels."""
        T = len(self.values)
        if self.period and T:
            x = _within(x, self.period)
            last = self.bounds[-1]  # beyond it follows the first level
            codes = np.where(x <= last - self.period, T - 1, np.searchsorted(self.bounds, x) % T)
        else:
            codes = np.searchsorted(self.bounds, x)
        return np.where(np.isnan(x), T, codes)

    @property
    def normal_scores(self) -> Floats:
        """(T,) normal scores of the levels."""
        return _normal_levels(self.shares)[0]

    @cached_property
    def axis(self) -> Axis:
        """The levels in a covariance: by standardised values, or normal scores where few cells rule these."""
        if len(self.values) < 2 or self.atom.any() or _is_skewed(self.values, self.shares):
            scores, variances = _normal_levels(self.shares)
            variance = float(self.shares @ variances)
            return Axis(scores.astype(np.float32), variance, 0.5 * (variance - variances))
        return self.axis_of_values

    @cached_property
    def axis_of_values(self) -> Axis:
        """The levels by standardised values, whatever their distribution."""
        return _axis_of_values(self.values, self.bounds, self.shares, self.ends)

    @cached_property
    def atom(self) -> NDArray[np.bool_]:
        """(T,) whether a level has a share of its own in every cluster: one level at most, which is far more
        frequent than its neighbours.
        """
        nearby = np.maximum(np.append(0.0, self.shares)[:-1], np.append(self.shares, 0.0)[1:])
        apart = (self.shares >= ATOM_SHARE) & (self.shares >= ATOM_EXCESS * nearby)
        most = np.where(apart, self.shares, 0.0)
        if self.period or len(most) < FEWEST_WITH_ATOM:
            return np.zeros(len(most), bool)
        return np.asarray(apart & (np.arange(len(most)) == most.argmax()))

    @property
    def statistics(self) -> Floats:
        """(T, 1) values or normal scores, NaN for the atom, or (T, 2) cosines and sines of a periodic column,
        of every level.
        """
        if not self.period:
            shares = np.where(self.atom, 0.0, self.shares)
            shares = shares / max(float(shares.sum()), 1e-300) if self.atom.any() else shares
            own = _normal_levels(shares)[0] if _is_skewed(self.values, shares) else self.values
            return np.where(self.atom, np.nan, own)[:, None]
        phase = 2.0 * np.pi * self.values / self.period
        return np.stack([np.cos(phase), np.sin(phase)], axis=1)

    def to_dict(self) -> dict[str, Any]:
        """The levels as JSON-serializable values; JSON represents floats exactly."""
        own = {name: getattr(self, name).tolist() for name in ("values", "bounds", "shares")}
        return own | {"ends": list(self.ends), "period": self.period, "ordered": self.ordered}

    @classmethod
    def from_dict(cls, state: dict[str, Any]) -> NumberLevels:
        """Restore levels from the result of `to_dict`."""
        values, bounds, shares = (
            np.array(state[name], np.float64) for name in ("values", "bounds", "shares")
        )
        low, high = map(float, state["ends"])
        period, ordered = float(state["period"]), bool(state["ordered"])
        return cls(values, bounds, shares, (low, high), period, ordered)


def _residues(x: Floats, period: float) -> tuple[Floats, Integers]:
    """Distinct cells modulo a period, ascending, and the position in them of every cell of x.

    Decimal fractions a period apart, as .2 and 1.3 of a period of 1.1, differ by the rounding of the larger
    one. They are one residue, that of the cell next to 0.
    """
    error = 4.0 * np.finfo(np.float64).eps * float(np.abs(x).max())
    residue = _within(x, period)
    residue = np.where(residue >= period - error, 0.0, residue)
    order = np.lexsort((np.abs(x), residue))
    ascending = residue[order]
    group = np.cumsum(np.diff(ascending, prepend=ascending[0]) > error)
    where = np.empty(len(x), np.int64)
    where[order] = group
    nearest = np.lexsort((np.abs(x), where))
    first = np.flatnonzero(np.diff(where[nearest], prepend=-1))
    return residue[nearest[first]], where


def _within(x: Array, period: float) -> Floats:
    """Cells modulo a period; those just below 0, which are rounded to the period, become 0."""
    x = np.mod(np.asarray(x, np.float64), period)
    return np.where(x >= period, 0.0, x)


def _normal_levels(shares: Floats) -> tuple[Floats, Floats]:
    """(T,) means and variances of a standard normal variable inside every level, if the levels are its
    intervals in order.
    """
    below, above = np.cumsum(shares)[:-1], np.cumsum(shares[::-1])[-2::-1]
    # from the nearer end, so that both tails are exact
    ends = np.concatenate([[-np.inf], np.where(below < 0.5, ndtri(below), -ndtri(above)), [np.inf]])
    density = np.exp(-0.5 * ends**2) / np.sqrt(2.0 * np.pi)
    share = np.maximum(shares, 1e-300)
    mean = (density[:-1] - density[1:]) / share
    weighted = np.where(np.isfinite(ends), ends, 0.0) * density
    return mean, np.maximum(1.0 + (weighted[:-1] - weighted[1:]) / share - mean**2, 0.0)


def _axis_of_values(values: Floats, bounds: Floats, shares: Floats, ends: tuple[float, float]) -> Axis:
    """Levels, as intervals, on the axis of their standardised values.

    The density of a level, that of the column and that of N(0, 1), is the share of the smallest window around
    it that holds 1/16 of the cells, so that both are smoothed alike.
    """
    low, high = min(ends[0], 2.0 * values[0] - bounds[0]), max(ends[1], 2.0 * values[-1] - bounds[-1])
    unit = high / 2 - low / 2  # of values, whose squares could be beyond the largest float
    z = values / unit - float(shares @ (values / unit))
    # neighbouring floats have no room between them
    width = np.maximum(np.diff(bounds / unit, prepend=low / unit, append=high / unit), LEAST_SHARE)
    inside = float(shares @ width**2) / 12.0
    deviation = math.sqrt(float(shares @ z**2) + inside)
    z, width, inside = z / deviation, width / deviation, inside / deviation**2
    edges = np.append(0.0, np.cumsum(width)) + z[0] - (values[0] / unit - low / unit) / deviation
    middle, below = (edges[1:] + edges[:-1]) / 2, np.append(0.0, np.cumsum(shares))
    # half the width of a window lies between
    near, far = np.zeros(len(z)), np.full(len(z), edges[-1] - edges[0])
    for _ in range(WINDOW_STEPS):
        half = (near + far) / 2
        held = np.interp(middle + half, edges, below) - np.interp(middle - half, edges, below)
        near, far = np.where(held < WINDOW_SHARE, half, near), np.where(held < WINDOW_SHARE, far, half)
    start, stop = np.maximum(middle - far, edges[0]), np.minimum(middle + far, edges[-1])
    held = np.interp(stop, edges, below) - np.interp(start, edges, below)
    excess = np.log(held) - np.log(np.maximum(ndtr(stop) - ndtr(start), LEAST_SHARE))
    # in single precision, so that rounding errors of other units of the column vanish
    return Axis(z.astype(np.float32), float(np.float32(inside)), excess.astype(np.float32).astype(np.float64))


def _is_skewed(values: Floats, shares: Floats) -> bool:
    """Whether few cells rule the values: those of the column, and those of the groups that lie apart and hold
    more than half of it.

    A group that lies apart makes a column as skewed as a long tail does, but rules no other group.
    """
    if not _has_tails(values, shares):
        return False
    first = 1 + np.flatnonzero(_apart(values / 2))  # halves, whose differences do not overflow
    groups = zip(np.split(values, first), np.split(shares, first), strict=True)
    return sum(float(own.sum()) for x, own in groups if _has_tails(x, own)) > 0.5


def _has_tails(values: Floats, shares: Floats) -> bool:
    """Whether values have a skewness above 1 or an excess kurtosis above 2."""
    if not len(values):
        return False
    low, high, b = values[0], values[-1], shares / max(float(shares.sum()), 1e-300)
    z = (values / 2 - (low / 4 + high / 4)) / max(high / 2 - low / 2, 1e-300)
    z = z - b @ z
    second, third, fourth = (float(b @ z**power) for power in (2, 3, 4))
    return second > 0 and bool(abs(third) > second**1.5 or fourth > 5.0 * second**2)


def _apart(values: Floats) -> NDArray[np.bool_]:
    """(T - 1,) whether a gap between ascending values parts two groups: it is three times as wide as every
    gap among six values on either side, which grow outwards in a tail.

    The next gap does not count: a level that holds cells of both groups lies between two wide ones.
    """
    gap, n = np.diff(values), _FEWEST_APART
    out = np.zeros(len(gap), bool)
    if len(gap) > 2 * n:
        widest = np.lib.stride_tricks.sliding_window_view(gap, n - 1).max(axis=1)
        out[n:-n] = gap[n:-n] > _WIDER_APART * np.maximum(widest[: -n - 2], widest[n + 2 :])
    return out


def _normal_shares(values: Floats, bounds: Floats, shares: Floats) -> Floats:
    """(T,) shares of levels under the normal density with the mean and the variance of the levels."""
    mean = float(shares @ values)
    deviation = math.sqrt(float(shares @ (values - mean) ** 2))
    ends = np.concatenate([[-np.inf], (bounds - mean) / deviation, [np.inf]])
    # from the nearer end, so that both tails are exact
    inside = np.where(ends[1:] <= 0.0, ndtr(ends[1:]) - ndtr(ends[:-1]), ndtr(-ends[:-1]) - ndtr(-ends[1:]))
    inside = np.maximum(inside, LEAST_SHARE)
    return np.asarray(inside / inside.sum())


@dataclass(frozen=True, eq=False)
class LevelEncoding:
    """The levels of all columns of a table, fitted once and applied to any rows.

    The encoded table has one column of levels for every input column, in the same order. With `scored`, it
    also has a numeric block: the scores (`Axis`) of the numeric columns that a covariance may hold.

    Parameters
    ----------
    input_schema : Schema
        Schema of the tables that `apply` accepts.
    numbers : tuple of NumberLevels
        One per numeric column, in the order of the numeric block.
    scored : bool
    null : {"marginals", "normal"}
        What codes a number without clusters: the table's own shares of the levels, or a normal density.
    weights : tuple of float
        Weights of the input columns; empty: all 1. A column of another weight than 1 has no scores.

    Examples
    --------
    >>> import numpy as np
    >>> from craftc.table import MixedTable
    >>> from craftc.table.levels import LevelEncoding
    >>> from craftc.table.bins import tally
    >>> table = MixedTable.from_data(np.array([[0.5], [0.5], [2.0], [np.nan]]))
    >>> encoding = LevelEncoding.of_tallies(table.schema, [tally(table.numeric[:, 0], None)])
    >>> encoding.apply(table).codes[:, 0].tolist()
    [0, 0, 1, 2]
    """

    input_schema: Schema
    numbers: tuple[NumberLevels, ...]
    scored: bool = False
    null: str = "marginals"
    weights: tuple[float, ...] = ()

    @classmethod
    def of_tallies(
        cls,
        schema: Schema,
        tallies: Iterable[Tally],
        periods: Sequence[float] = (),
        null: str = "marginals",
        weights: Sequence[float] = (),
    ) -> LevelEncoding:
        """Choose the levels of every numeric column of a table with these tallies.

        `periods`: of every numeric column, 0 where it has none, `UNKNOWN_PERIOD` where it is to be found; by
        default no column has one. `weights`: of the input columns; by default 1.
        """
        every = periods or [0.0] * len(schema.numeric_index)
        numbers = []
        for name, each, period in zip(schema.numeric_names, tallies, every, strict=True):
            known = period_of(name, each[0]) if period == UNKNOWN_PERIOD else period
            numbers.append(NumberLevels.of_values(*each, known, null))
        return cls(schema, tuple(numbers), null=null, weights=tuple(weights))

    @property
    def identity(self) -> bool:
        """Whether `apply` returns the table itself."""
        return not self.numbers

    def with_scores(self) -> LevelEncoding:
        """The same levels and their scores."""
        return replace(self, scored=True)

    @cached_property
    def column_weights(self) -> Floats:
        """(D,) weights of the columns of levels."""
        return np.array(self.weights or [1.0] * self.input_schema.n_columns)

    @cached_property
    def scored_columns(self) -> list[int]:
        """The numeric columns that have scores."""
        weights = self.column_weights[self.input_schema.numeric_index]
        long = [
            d
            for d, (own, weight) in enumerate(zip(self.numbers, weights.tolist(), strict=True))
            if len(own.values) >= FEWEST_SCORES and own.ordered and not own.period and weight == 1.0
        ]
        return long if self.scored else []

    @cached_property
    def schema(self) -> Schema:
        """Schema of the encoded table."""
        given = self.input_schema
        number = dict(zip(given.numeric_index.tolist(), self.numbers, strict=True))
        levels = dict(zip(given.categorical_index.tolist(), given.levels, strict=True))
        names = [given.columns[j] for j in self.scored_levels]
        D = given.n_columns
        return Schema(
            columns=(*given.columns, *names),
            named=given.named,
            numeric_index=np.arange(D, D + len(names)),
            categorical_index=np.arange(D),
            levels=tuple(tuple(number[j].values.tolist()) if j in number else levels[j] for j in range(D)),
            dtype=np.dtype(np.float32),
            missing=given.missing,
        )

    @property
    def codes(self) -> list[str]:
        """The numeric columns that are codes."""
        each = zip(self.input_schema.numeric_names, self.numbers, strict=True)
        return [name for name, own in each if not own.ordered]

    @property
    def axes(self) -> list[Axis]:
        """The axis of every column of scores."""
        return [self.numbers[d].axis for d in self.scored_columns]

    @property
    def scored_levels(self) -> NDArray[np.intp]:
        """The column of levels of every column of scores."""
        return self.input_schema.numeric_index[np.array(self.scored_columns, np.intp)]

    @cached_property
    def source(self) -> NDArray[np.intp]:
        """(D',) input column of each encoded column, in kernel order (scores, then levels)."""
        return np.concatenate([self.scored_levels, np.arange(self.input_schema.n_columns)]).astype(np.intp)

    @property
    def periods(self) -> dict[str, tuple[str, float]]:
        """The kinds of the periodic columns, as `CRAFT` takes them."""
        each = zip(self.input_schema.numeric_names, self.numbers, strict=True)
        return {name: ("periodic", own.period) for name, own in each if own.period}

    @cached_property
    def statistics(self) -> list[Floats | None]:
        """What tilts the levels of every column, (T, 1) or (T, 2); None: its levels have no order."""
        given = self.input_schema
        out: list[Floats | None] = [None] * given.n_columns
        for j, own in zip(given.numeric_index.tolist(), self.numbers, strict=True):
            out[j] = own.statistics if own.ordered else None
        for j, levels in zip(given.categorical_index.tolist(), given.levels, strict=True):
            out[j] = np.arange(float(len(levels)))[:, None] if j in given.ordered else None
        return out

    def apply(self, table: MixedTable, *, n_threads: int = 1) -> MixedTable:
        """The encoded table; each row is encoded independently of the others.

        A number between levels has the nearer one, a number beyond all levels the outermost one.
        """
        given, schema = self.input_schema, self.schema
        if table.schema is not given and table.schema != given:
            raise ValueError(
                "This table has another schema than the table that the encoding was fitted on; build it with "
                "`schema.encode`."
            )
        if self.identity:
            return table
        n = len(table)
        wide = any(len(levels) > MAX_LEVELS for levels in schema.levels)
        codes = table._empty_block((n, given.n_columns), np.dtype(np.uint16 if wide else np.uint8))
        # a column without levels has one code, that of a missing cell
        place = [
            -1 if own.period or not len(own.values) else j
            for own, j in zip(self.numbers, given.numeric_index, strict=True)
        ]
        for start in range(0, n, SLICE_ROWS):
            rows = slice(start, start + SLICE_ROWS)
            for d, j in enumerate(given.categorical_index):
                codes[rows, j] = table.codes[rows, d]
            for d, j in enumerate(given.numeric_index):
                if place[d] < 0:
                    codes[rows, j] = self.numbers[d].apply(table.numeric[rows, d])
        bounds = [own.bounds for own in self.numbers]
        write_levels(
            table.numeric,
            np.concatenate(bounds),
            np.cumsum([0, *map(len, bounds)], dtype=np.intp),
            np.array(place, np.intp),
            codes,
            n_threads,
        )
        nothing = np.empty((n, 0), np.float32)
        encoded = MixedTable._trusted(nothing, codes, replace(self, scored=False).schema, table._scratch)
        return self.with_scores_of(encoded) if self.scored else encoded

    def outside(self, table: MixedTable) -> dict[str, NDArray[np.intp]]:
        """Positions of the rows of a table whose number lies outside the range of its column, by column."""
        out = {}
        for name, own, cells in zip(table.schema.numeric_names, self.numbers, table.numeric.T, strict=True):
            if not own.period:
                out[name] = np.flatnonzero((cells < own.ends[0]) | (cells > own.ends[1]))
        return {name: rows for name, rows in out.items() if len(rows)}

    def with_scores_of(self, encoded: MixedTable) -> MixedTable:
        """An encoded table, whose codes are shared, with the scores of its levels."""
        n, columns = len(encoded), self.scored_columns
        numeric = encoded._empty_block((n, len(columns)), np.dtype(np.float32))
        scores = [np.append(self.numbers[d].axis.scores, np.float32(np.nan)) for d in columns]
        for start in range(0, n, SLICE_ROWS):
            rows = slice(start, start + SLICE_ROWS)
            for place, j in enumerate(self.scored_levels):
                numeric[rows, place] = scores[place].take(encoded.codes[rows, j])
        return MixedTable._trusted(numeric, encoded.codes, self.schema, encoded._scratch)

    def to_dict(self) -> dict[str, Any]:
        """The levels, without the schema, as JSON-serializable values."""
        numbers = [own.to_dict() for own in self.numbers]
        return {
            "numbers": numbers,
            "scored": self.scored,
            "null": self.null,
            "weights": list(self.weights),
        }

    @classmethod
    def from_dict(cls, state: dict[str, Any], schema: Schema) -> LevelEncoding:
        """Restore an encoding from the result of `to_dict` and the schema of the fitted table."""
        numbers = tuple(map(NumberLevels.from_dict, state["numbers"]))
        if len(numbers) != len(schema.numeric_index):
            raise ValueError(
                f"The encoding has {len(numbers)} numeric column(s), the schema {len(schema.numeric_index)}; "
                "restore both from the same model."
            )
        weights = tuple(map(float, state["weights"]))
        if weights and len(weights) != schema.n_columns:
            raise ValueError(
                f"The encoding has {len(weights)} weight(s), the schema {schema.n_columns} column(s); "
                "restore both from the same model."
            )
        return cls(schema, numbers, bool(state["scored"]), str(state["null"]), weights)
