"""Encoding of numeric columns: unchanged, as categories, with indicators of frequent values, or as ranks.

A normal density is a poor model of most real columns: ties let a cluster's variance collapse, and skewness or
heavy tails look like clusters. ``numeric="auto"`` therefore converts each numeric column by its distribution:

1. A column with at most 10 distinct values becomes categorical.
2. Up to three times, the most frequent value (of ties, the lowest) becomes an indicator column if it has at
   least 20 % of the remaining cells (a spike). These cells are missing in later indicators and in the rest.
   The likelihood factorises exactly, P(x) = P(x = v1) P(x = v2 | x != v1) ... P(x | x is not a spike), so no
   further model is needed. The column has at least 11 distinct values before this step, so the rest has at
   least 8.
3. A rest with at most 10 distinct values becomes categorical. A rest with an absolute skewness above 1, or an
   excess kurtosis above 2 (population moments), is replaced by normal scores of ranks, Phi^-1((midrank - 1/2)
   / n). Any other rest stays unchanged.

``"rank"`` always uses ranks in step 3; ``"raw"`` leaves every column unchanged.

A table of more than 2^18 rows is represented by a sample of that size, except in columns of few distinct
values.

Only observed values of rows with weight > 0 take part. All decisions use the integer weights of the sorted
distinct values (those of the exact sums), so the result does not depend on the order of the rows, and weight
2 is bit-identical to a repeated row. With weights the midrank is the weight below plus half of (weight of the
ties + 1), hence (midrank - 1/2) / n = (below + ties / 2) / n.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from craftc._common.random import TableStream, spread
from craftc._common.threads import parallel_map, threads_for
from craftc._common.typing import Array, Floats, Integers
from craftc._common.validation import integer_weights
from craftc.table.bins import SAMPLED_ABOVE, SLICE_ROWS, table_tally, tally
from craftc.table.mixed_table import MixedTable, Schema

#: A numeric column, or its rest, with at most this many distinct values becomes categorical. Not to be
#: confused with `MAX_INTEGER_CODES` of `craftc.reading.cells`, up to which `read_table` reads integers as
#: codes of categories.
MAX_DISCRETE_VALUES = 10
MAX_SPIKES = 3  # indicator columns of a numeric column
SPIKE_SHARE_INVERSE = 5  # a spike has at least one fifth of the cells
MAX_SKEWNESS = 1.0  # absolute; above, a column is encoded by ranks
MAX_KURTOSIS = 2.0  # in excess of the normal distribution's 3; above, a column is encoded by ranks
MAX_KNOTS = 4096  # knots of the scores of ranks

_SAMPLE = 1 << 12  # cells by which a long column is recognised as continuous


def _no_floats() -> Floats:
    return np.empty(0)


@dataclass(frozen=True, eq=False)
class EncodingRecipe:
    """The encoding of one numeric column."""

    spikes: tuple[float, ...] = ()  # values with an indicator column, in this order
    shares: tuple[float, ...] = ()  # of the spikes among all observed values
    # {"numbers", "values", "ranks"} encoding of the other cells: unchanged, as categories, as normal
    # scores of ranks
    rest: str = "numbers"
    values: Floats = field(default_factory=_no_floats)  # "values": the categories. "ranks": the knots
    # "ranks": the normal score of every knot; linear interpolation between knots, constant outside
    scores: Floats = field(default_factory=_no_floats)

    @property
    def untouched(self) -> bool:
        """Whether the column is unchanged."""
        return self.rest == "numbers" and not self.spikes

    def apply(self, x: Array) -> Iterator[Array]:
        """Yield the derived columns of these cells: codes, or numbers with NaN for missing values."""
        for spike in self.spikes:
            is_spike = x == spike
            yield np.where(np.isnan(x), 2, is_spike)  # codes of False, True, missing
            x = np.where(is_spike, x.dtype.type(np.nan), x)
        if self.rest == "values":
            last = len(self.values) - 1
            code = np.minimum(np.searchsorted(self.values, x), last)
            yield np.where(self.values[code] == x, code, last + 1)
        elif self.rest == "ranks":
            score = np.interp(x, self.values, self.scores)
            # the slope can overflow between knots that are very close
            yield np.clip(score, self.scores[0], self.scores[-1])
        else:
            yield x

    def undo(self, score: Array) -> Array:
        """Return the numbers with these scores ("ranks" without spikes)."""
        return np.interp(score, self.scores, self.values) if self.rest == "ranks" else score

    def describe(self, dtype: np.dtype[Any]) -> str:
        """Return a short description of the encoding."""
        n = len(self.values)
        if not self.spikes:
            if self.rest == "values":
                return "1 value: constant" if n == 1 else f"{n} values: categories"
            return "as numbers" if self.rest == "numbers" else "by rank"
        rest = {
            "numbers": "rest as numbers",
            "values": f"rest of {n} values: categories",
            "ranks": "rest by rank",
        }[self.rest]
        word = "value" if len(self.spikes) == 1 else "values"
        values = ", ".join(_text(value, dtype) for value in self.spikes)
        shares = ", ".join(f"{100 * share:.0f}" for share in self.shares)
        return f"{word} {values} set apart ({shares} %), {rest}"

    def to_dict(self) -> dict[str, Any]:
        """Return the recipe as JSON-serializable values; JSON represents floats exactly."""
        return {
            "spikes": list(self.spikes),
            "shares": list(self.shares),
            "rest": self.rest,
            "values": self.values.tolist(),
            "scores": self.scores.tolist(),
        }

    @classmethod
    def from_dict(cls, state: dict[str, Any]) -> EncodingRecipe:
        """Restore a recipe from the result of `to_dict`."""
        return cls(
            spikes=tuple(map(float, state["spikes"])),
            shares=tuple(map(float, state["shares"])),
            rest=state["rest"],
            values=np.array(state["values"], np.float64),
            scores=np.array(state["scores"], np.float64),
        )


@dataclass(frozen=True, eq=False)
class NumericEncoding:
    """The encoding of all numeric columns of a table; it is fitted once and applied to any rows.

    The derived table has, for each input column in order: a categorical column unchanged (same levels and
    codes), or up to four columns for a numeric one. Without spikes this is a single column ``"x"``; otherwise
    there is an indicator ``"x = 0"`` per spike, followed by ``"x (rest)"``. These names are for display only
    and may coincide with those of other columns.

    Parameters
    ----------
    input_schema : Schema
        Schema of the tables that `apply` accepts.
    recipes : tuple of EncodingRecipe
        One per numeric column, in the order of the numeric block.

    Examples
    --------
    >>> import numpy as np
    >>> from craftc.table import MixedTable
    >>> paid = np.concatenate([np.zeros(30), np.exp(np.linspace(-2.0, 2.0, 20))])
    >>> table = MixedTable.from_data(paid[:, None])
    >>> encoding = NumericEncoding.fit(table, None, "auto")
    >>> encoding.describe()
    [('x0', 'value 0 set apart (60 %), rest by rank')]
    >>> encoding.apply(table).schema.columns
    ('x0 = 0', 'x0 (rest)')
    """

    input_schema: Schema
    recipes: tuple[EncodingRecipe, ...]

    @classmethod
    def fit(
        cls, table: MixedTable, weight: NDArray[np.float64] | None, mode: str, n_threads: int = 1
    ) -> NumericEncoding:
        """Choose the encoding of every numeric column of a table.

        `weight` (n_rows,): non-negative weights of the rows. `mode` {"auto", "rank", "raw"}. `n_threads`:
        columns that are sorted at the same time.
        """
        if mode not in ("auto", "rank", "raw"):
            raise ValueError(f"numeric must be 'auto', 'rank' or 'raw', got {mode!r}.")
        columns = range(table.numeric.shape[1])
        if mode == "raw":
            return cls(table.schema, tuple(EncodingRecipe() for _ in columns))
        whole = None if weight is None else integer_weights(weight)[0]
        cells = table.numeric.T
        threads = threads_for(n_threads, table.numeric.size)
        return cls(
            table.schema, tuple(parallel_map(lambda j: recipe_of(cells[j], whole, mode), columns, threads))
        )

    @classmethod
    def normal(cls, table: MixedTable) -> NumericEncoding:
        """Normal scores of the ranks of every numeric column, ties with their midrank."""
        recipes = []
        for cells in table.numeric.T:
            values, counts = tally(cells, None)
            recipes.append(
                EncodingRecipe((), (), "ranks", *_knots(values, counts)) if len(values) else EncodingRecipe()
            )
        return cls(table.schema, tuple(recipes))

    @property
    def identity(self) -> bool:
        """Whether all columns are unchanged, so that `apply` returns the table itself."""
        return all(recipe.untouched for recipe in self.recipes)

    @cached_property
    def schema(self) -> Schema:
        """Schema of the derived table, whose columns have the order of their sources."""
        return self._derived[0]

    @cached_property
    def source(self) -> NDArray[np.intp]:
        """(D',) input column of each derived column, in kernel order (numeric, then categorical columns)."""
        schema, source = self._derived
        kernel_order = np.concatenate([schema.numeric_index, schema.categorical_index])
        return np.take(source, kernel_order)

    @cached_property
    def _derived(self) -> tuple[Schema, NDArray[np.intp]]:
        """The derived schema, and the input column of each of its columns."""
        given = self.input_schema
        if self.identity:
            return given, np.arange(given.n_columns)
        recipe_of = dict(zip(given.numeric_index.tolist(), self.recipes, strict=True))
        levels_of = dict(zip(given.categorical_index.tolist(), given.levels, strict=True))
        names: list[str] = []
        source: list[int] = []
        levels: list[tuple[Any, ...] | None] = []  # None: numeric
        for j, name in enumerate(given.columns):
            recipe = recipe_of.get(j)
            if recipe is None:
                names.append(name)
                levels.append(levels_of[j])
            else:
                names += [f"{name} = {_text(value, given.dtype)}" for value in recipe.spikes]
                levels += [(False, True)] * len(recipe.spikes)
                names.append(f"{name} (rest)" if recipe.spikes else name)
                as_levels = recipe.rest == "values"
                levels.append(_as_levels(recipe.values, given.dtype) if as_levels else None)
            source += [j] * (len(names) - len(source))
        numeric = np.array([each is None for each in levels], dtype=bool)
        schema = Schema(
            columns=tuple(names),
            named=given.named,
            numeric_index=np.flatnonzero(numeric),
            categorical_index=np.flatnonzero(~numeric),
            levels=tuple(each for each in levels if each is not None),
            dtype=given.dtype,
            missing=given.missing,
        )
        return schema, np.array(source, np.intp)

    def apply(self, table: MixedTable, *, n_threads: int = 1) -> MixedTable:
        """Return the derived table; each row is encoded independently of the others.

        A value that is not one of the known categories becomes missing. The score of a number is interpolated
        between the knots, and is that of the nearest knot outside their range; the rows of the fit are
        encoded with the same knots.
        """
        given = self.input_schema
        if table.schema is not given and table.schema != given:
            raise ValueError(
                "This table has another schema than the table that the encoding was fitted on; build it with "
                "`schema.encode`."
            )
        if self.identity:
            return table
        schema, source = self._derived
        n, first = len(table), np.searchsorted(source, np.arange(given.n_columns))
        numbers = schema.numeric_index.tolist()
        numeric = table._empty_block((n, len(numbers)), table.numeric.dtype)
        codes, copied = table.codes, []
        if len(schema.categorical_index) > len(given.categorical_index):
            # a derived column has at most 10 levels, so the dtype of the codes suffices
            codes = table._empty_block((n, len(schema.categorical_index)), table.codes.dtype)
            copied = given.categorical_index.tolist()
        place = {k: (numeric, d) for d, k in enumerate(numbers)}
        place |= {k: (codes, d) for d, k in enumerate(schema.categorical_index.tolist())}
        for start in range(0, n, SLICE_ROWS):
            rows = slice(start, start + SLICE_ROWS)
            for d, j in enumerate(copied):
                codes[rows, place[first[j]][1]] = table.codes[rows, d]
            for d, j in enumerate(given.numeric_index):
                for k, piece in enumerate(self.recipes[d].apply(table.numeric[rows, d]), first[j]):
                    block, at = place[k]
                    block[rows, at] = piece
        return MixedTable._trusted(numeric, codes, schema, table._scratch)

    def describe(self) -> list[tuple[str, str]]:
        """Return the name and a short description of the encoding of every numeric column."""
        given = self.input_schema
        return [
            (name, recipe.describe(given.dtype))
            for name, recipe in zip(given.numeric_names, self.recipes, strict=True)
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return the recipes, without the schema, as JSON-serializable values."""
        return {"recipes": [recipe.to_dict() for recipe in self.recipes]}

    @classmethod
    def from_dict(cls, state: dict[str, Any], schema: Schema) -> NumericEncoding:
        """Restore an encoding from the result of `to_dict` and the schema of the fitted table."""
        recipes = tuple(map(EncodingRecipe.from_dict, state["recipes"]))
        if len(recipes) != len(schema.numeric_index):
            raise ValueError(
                f"The encoding has {len(recipes)} numeric column(s) and the schema "
                f"{len(schema.numeric_index)}; restore both from the same model."
            )
        return cls(schema, recipes)


def recipe_of(cells: Array, weight: Integers | None, mode: str) -> EncodingRecipe:
    """The encoding of a column by the rules of "auto" or "rank"; `weight`: integers of the rows."""
    if (
        mode == "auto"
        and len(cells) <= SAMPLED_ABOVE
        and weight is None
        and _clearly_continuous(cells)
        and not _far_from_normal(_present(cells), *_range(cells))
    ):
        return EncodingRecipe()
    return decide(*table_tally(cells, weight), mode)


def _clearly_continuous(cells: Array) -> bool:
    """Whether a sample of a long column shows more distinct values than a category may have, and none near
    the share of a spike.

    It saves the sort of the column. A value of a fifth of the cells would have to be in less than a tenth of
    the sample.
    """
    if len(cells) <= 16 * _SAMPLE:
        return False
    sample = cells[spread(len(cells), _SAMPLE, 0, TableStream.TALLY_SAMPLE)]
    counts = np.unique(sample[sample == sample], return_counts=True)[1]
    return bool(
        len(counts) > MAX_DISCRETE_VALUES
        and counts.sum() > _SAMPLE // 4
        and 2 * SPIKE_SHARE_INVERSE * counts.max() < counts.sum()
    )


def _present(cells: Array) -> Callable[[], Iterator[tuple[Floats, Any]]]:
    """The observed cells in slices, each with weight 1, for several passes over them."""

    def slices() -> Iterator[tuple[Floats, Any]]:
        for start in range(0, len(cells), SLICE_ROWS):
            part = cells[start : start + SLICE_ROWS].astype(np.float64)
            yield part[part == part], 1

    return slices


def _range(cells: Array) -> tuple[float, float]:
    """The smallest and the largest observed cell."""
    return float(np.fmin.reduce(cells)), float(np.fmax.reduce(cells))


def decide(values: Array, counts: Array, mode: str) -> EncodingRecipe:
    """Apply the rules of "auto" or "rank", see the module's docstring, to a column with these distinct values
    and weights.

    `counts`, the weights, may be overwritten.
    """
    if not len(values):
        return EncodingRecipe()  # no observed value: ignored later as a constant column
    total = int(counts.sum())
    spikes: list[float] = []
    shares: list[float] = []
    if len(values) > MAX_DISCRETE_VALUES:
        for _ in range(MAX_SPIKES):
            top = int(counts.argmax())  # of ties the first, which is the lowest value
            if SPIKE_SHARE_INVERSE * int(counts[top]) < int(counts.sum()):
                break
            spikes.append(float(values[top]))
            shares.append(int(counts[top]) / total)
            values, counts = np.delete(values, top), np.delete(counts, top)
    if len(values) <= MAX_DISCRETE_VALUES:
        return EncodingRecipe(tuple(spikes), tuple(shares), "values", values.astype(np.float64))
    if mode == "rank" or _far_from_normal(_sliced(values, counts), float(values[0]), float(values[-1])):
        knots, scores = _knots(values, counts)
        return EncodingRecipe(tuple(spikes), tuple(shares), "ranks", knots, scores)
    return EncodingRecipe(tuple(spikes), tuple(shares))


def _sliced(values: Array, counts: Array) -> Callable[[], Iterator[tuple[Floats, Any]]]:
    """Values and their weights in slices, for several passes over them."""
    parts = [slice(start, start + SLICE_ROWS) for start in range(0, len(values), SLICE_ROWS)]
    return lambda: ((values[part].astype(np.float64), counts[part]) for part in parts)


def _far_from_normal(slices: Callable[[], Iterator[tuple[Floats, Any]]], low: float, high: float) -> bool:
    """Whether skewness or excess kurtosis is too large for a normal density; by slices, to limit memory."""
    # in units of half the range around its middle, so that no power overflows or underflows
    middle, half = low / 2 + high / 2, high / 2 - low / 2

    def scaled(values: Floats) -> Floats:
        return np.asarray((values - middle) / half)

    n = sum(
        counts * len(values) if isinstance(counts, int) else int(counts.sum(dtype=np.int64))
        for values, counts in slices()
    )
    second = third = fourth = 0.0
    with np.errstate(over="ignore"):  # NumPy 1.26 reports an overflow when it divides subnormal numbers
        mean = sum(float((counts * scaled(values)).sum()) for values, counts in slices()) / n
        for values, counts in slices():
            x = scaled(values) - mean
            square = x * x
            second += float((counts * square).sum()) / n
            third += float((counts * square * x).sum()) / n
            fourth += float((counts * square * square).sum()) / n
    skewness, kurtosis = third / second**1.5, fourth / second**2 - 3.0
    return bool(abs(skewness) > MAX_SKEWNESS or kurtosis > MAX_KURTOSIS)


def _knots(values: Array, counts: Array) -> tuple[Floats, Floats]:
    """At most 4096 of distinct values in ascending order, including both ends, and their normal scores
    Phi^-1((midrank - 1/2) / n).

    The knots are the values nearest to evenly spaced scores. Evenly spaced shares would leave two knots for
    the tails. The error of a score is at most a few steps of (range of the scores) / 4095, about .002. The
    counts are overwritten with their cumulative sums, and scores are computed only where a knot is searched:
    a long column has a million of them.
    """
    ends = np.cumsum(counts, dtype=counts.dtype, out=counts)  # whole numbers below 2^53

    def score(i: NDArray[np.intp]) -> Floats:
        below = np.where(i > 0, ends[i - 1], 0.0)
        return np.asarray(ndtri((below + ends[i]) / (2.0 * float(ends[-1]))))

    last = len(values) - 1
    if last < MAX_KNOTS:
        return values.astype(np.float64), score(np.arange(last + 1))
    lowest, highest = score(np.array([0, last]))
    wanted = np.linspace(lowest, highest, MAX_KNOTS)
    left, right = np.ones(MAX_KNOTS, np.intp), np.full(MAX_KNOTS, last)
    while (left < right).any():  # the first value of at least the wanted score, by bisection
        middle = (left + right) // 2
        lower = score(middle) < wanted
        left, right = np.where(lower, np.minimum(middle + 1, right), left), np.where(lower, right, middle)
    nearer = wanted - score(right - 1) <= score(right) - wanted
    kept = np.unique(np.where(nearer, right - 1, right))
    return values[kept].astype(np.float64), score(kept)


def _text(value: float, dtype: np.dtype[Any]) -> str:
    """The shortest decimal text that identifies a value in this dtype."""
    return str(dtype.type(value)).removesuffix(".0")


def _as_levels(values: Floats, dtype: np.dtype[Any]) -> tuple[float, ...]:
    """Values as levels for display: integers if all are, else floats with the fewest digits."""
    if all(value.is_integer() and abs(value) < 2.0**53 for value in values.tolist()):
        return tuple(map(int, values))
    return tuple(float(_text(value, dtype)) for value in values)
