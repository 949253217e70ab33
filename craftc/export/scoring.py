"""How a model scores a row, as tables and formulas of plain numbers, from which SQL and ONNX are made.

A row costs, in every cluster, ``base`` plus one term for each cell that is present: an entry of a look-up
table, or a polynomial of the number. A block adds a quadratic form of several cells. The cheapest cluster is
that of the row; of equal costs the first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from craftc._common.typing import Floats, Ints, Labels
from craftc.describe.view import numbers_by_size, numbers_of
from craftc.table.level_column import Level

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator


@dataclass(frozen=True, eq=False)
class Texts:
    """Cells that are equal to a level; other cells are missing."""

    levels: tuple[Level, ...]
    missing: int | None = None  # the level of missing cells, if they have one
    others: Mapping[str, int] = field(default_factory=dict)  # further spellings of levels

    def codes(self) -> dict[str, int]:
        """The level of every text, as LevelColumn.translate finds it: a level that is this text, otherwise
        the last that is written so.
        """
        of_text = {**self.others, **{str(level): t for t, level in enumerate(self.levels)}}
        return of_text | {level: t for t, level in enumerate(self.levels) if isinstance(level, str)}


@dataclass(frozen=True, eq=False)
class Intervals:
    """Numbers between bounds, which are exact in float64: level l holds bounds[l - 1] < x <= bounds[l]."""

    bounds: Floats  # ascending; of a periodic column the last one separates the last level from the first
    period: float = 0.0
    n_levels: int = 0


@dataclass(frozen=True, eq=False)
class Values:
    """Numbers in [low, high] of a level; all others are of the last level."""

    low: Floats
    high: Floats


@dataclass(frozen=True, eq=False)
class LookUp:
    """A column whose levels have costs."""

    column: int  # of `Scoring.columns`
    reader: Texts | Intervals | Values
    costs: Floats  # (T, K)
    scores: Floats | None = None  # (T,) cells of blocks
    inside: float | None = None  # variance inside the levels, of cells of blocks
    common: Floats | None = None  # (T,) cost in all clusters, which a comparison does not need


@dataclass(frozen=True, eq=False)
class Polynomial:
    """A number z = (x - centre) * scale, clipped to `most`, which costs a (z - o)^2 + b (z - o) + c."""

    column: int
    origin: Floats  # (K,) o
    square: Floats  # (K,) a
    linear: Floats  # (K,) b
    offset: Floats  # (K,) c
    centre: float = 0.0
    scale: float = 1.0
    most: float = np.inf
    single: bool = False  # x is rounded to float32 first
    apart: Values | None = None  # numbers that count as missing
    knots: Floats | None = None  # x is replaced by `scores`, linear between these knots, constant outside
    scores: Floats | None = None
    inside: None = None  # a number is no interval
    common: tuple[float, float] = (0.0, 0.0)  # a, c: a z^2 + c is the cost in all clusters


@dataclass(frozen=True, eq=False)
class Block:
    """A quadratic form of m cells in one cluster: factor (z - mean)' matrix^-1 (z - mean) + constant.

    Of a row with missing cells: that of the observed rows and columns of the matrix, factor log of the ratio
    of the determinants, and, where levels have a variance inside, factor times what the diagonal of the
    inverse changes, times the variance.
    """

    cluster: int
    cells: Ints  # (m,) positions of terms
    mean: Floats  # (m,)
    matrix: Floats  # (m, m)
    factor: float
    constant: float  # of a row without missing cells

    def shares(self, other: Block) -> bool:
        """Whether the clusters of both share cells and matrix."""
        return np.array_equal(self.cells, other.cells) and np.array_equal(self.matrix, other.matrix)


@dataclass(frozen=True, eq=False)
class Scoring:
    """How a model scores rows."""

    title: str  # "CRAFT, 5 clusters"
    columns: tuple[str, ...]
    expected: tuple[
        str, ...
    ]  # of every column: "number", "date" (days since 1970-01-01), "text", "true or false"
    terms: Sequence[LookUp | Polynomial]
    base: Floats  # (K,)
    sizes: Floats  # (K,) rows of every cluster
    names: Sequence[str] = ()  # of the clusters; empty: they have none
    order: Labels | None = None  # (K,) clusters by their numbers; None: by size
    unit: str = "nats"  # of costs
    proper: bool = False  # whether exp(-cost) are weights of the clusters
    blocks: Sequence[Block] = ()
    refused: tuple[int, ...] = ()  # columns in which predict refuses missing cells
    unseen: tuple[int, ...] = ()  # positions of terms in which predict refuses unseen levels
    parts: dict[int, tuple[int, str]] = field(default_factory=dict)  # column: its date, and the part
    trims: bool = False  # whether blanks around a text are no part of it, as `read_table` reads it

    @property
    def number_of(self) -> Labels:
        """(K,) the number of every cluster in the report."""
        return numbers_by_size(self.sizes) if self.order is None else numbers_of(self.order)


def float64_bounds(bounds: Floats, dtype: np.dtype[np.floating]) -> Floats:
    """Bounds b' such that x > b' for x in float64 where x is > b after rounding to `dtype`."""
    if dtype == np.float64:
        return bounds
    below = bounds.astype(np.float32)
    below = np.where(below > bounds, np.nextafter(below, np.float32(-np.inf)), below).astype(np.float32)
    above = np.nextafter(below, np.float32(np.inf))
    middle = below.astype(np.float64) / 2 + above.astype(np.float64) / 2
    even = above.view(np.uint32) % 2 == 0  # a tie is rounded to the even neighbour
    return np.where(even, np.nextafter(middle, -np.inf), middle)


def values_of(values: Sequence[float] | Floats, dtype: np.dtype[np.floating]) -> Values:
    """The numbers in float64 that are equal to values after rounding to `dtype`."""
    exact = np.asarray(values, np.float64)
    if dtype == np.float64:
        return Values(exact, exact)
    single = exact.astype(np.float32)
    lower = np.nextafter(single, np.float32(-np.inf)).astype(np.float64)
    return Values(
        np.nextafter(float64_bounds(lower, dtype), np.inf), float64_bounds(single.astype(np.float64), dtype)
    )


def title_of(model: BaseEstimator, n_clusters: int) -> str:
    """The class of a model and its number of clusters."""
    return f"{type(model).__name__}, {n_clusters} cluster{'' if n_clusters == 1 else 's'}"
