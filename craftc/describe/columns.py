"""Columns of a clustering as descriptions know them: numbers, categories, scales and periods."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeAlias

import numpy as np

from craftc._common.typing import Floats, Ints
from craftc.describe import words

VISIBLE = 0.2  # shift from which a number is higher or lower
MOST = 0.6  # share of rows from which levels describe a cluster
_SECOND, _SECOND_LIFT = 0.15, 1.25  # share of a second level, and its factor over the table's
_INNER, _CLEARER = 3, 1.25  # levels inside a scale that tell more than its ends, by this factor
_DIRECTED = 0.15  # mean resultant length from which cells have a main direction
_TELLING = 0.25  # share of the largest difference of an answer from which another one counts
_HOURS = 24.0  # period that is written as times of day

#: Parts of a typical value: a text, which may be shortened, and the share that follows it.
Parts = list[tuple[str, float | None]]


@dataclass(frozen=True)
class NumericColumn:
    """A numeric column over its present cells, in its units: in the K clusters and, last, in the whole table.

    NaN stands for a cluster without values. Where the model sees levels, `shift`, `quartiles` and `value`
    follow from these: one outlier hardly changes them.
    """

    means: Floats  # (K + 1,)
    deviations: Floats  # (K + 1,)
    shift: Floats  # (K + 1,) mean normal score in the table; without levels: difference in deviations
    quartiles: Floats  # (K + 1, 3)
    value: Floats  # (K + 1,) the value of all cells; NaN if there are two
    missing: Floats  # (K + 1,) share of the cells without a value
    style: str = "number"  # | "year" | "day": days since 1970-01-01
    spike: Spike | None = None

    @cached_property
    def skewed(self) -> bool:
        """Whether medians describe better: a mean is outside the middle half of the cells, or lies on the
        other side of the table's mean than most of them.
        """
        low, _, high = self.quartiles.T
        misleading = (self.means < low) | (self.means > high)
        misleading |= (np.abs(self.shift) >= VISIBLE) & (self.shift * (self.means - self.means[-1]) < 0)
        return bool(low[-1] < high[-1] and (misleading & np.isnan(self.value)).any())

    @property
    def centres(self) -> Floats:
        """(K + 1,) means, or medians of a skewed column."""
        return self.quartiles[:, 1] if self.skewed else self.means

    @property
    def ranges(self) -> Floats:
        """(K + 1,) distances of the outer quartiles."""
        return np.asarray(self.quartiles[:, 2] - self.quartiles[:, 0])

    def in_order(self, rows: Ints) -> NumericColumn:
        """The column with its K + 1 groups in another order."""
        names = ("means", "deviations", "shift", "quartiles", "value", "missing")
        spike = None if self.spike is None else replace(self.spike, shares=self.spike.shares[rows])
        return replace(self, spike=spike, **{name: getattr(self, name)[rows] for name in names})

    def text(self, x: float) -> str:
        return words.day(x) if self.style == "day" else words.number(x, years=self.style == "year")

    def typical(self, k: int, *_: Sequence[int] | Sequence[str] | None) -> Parts:
        """Mean and standard deviation, ``54.43 ± 9.109``, in cluster k; -1: in the whole table."""
        if self.missing[k] == 1 or not np.isfinite(self.means[k]):
            return []
        mean, deviation = float(self.means[k]), float(self.deviations[k])
        if np.isfinite(self.value[k]):
            return [(f"{self.text(float(self.value[k]))} ± 0", None)]
        if self.style == "day":
            return [(f"{words.day(mean)} ± {words.number(deviation)} days", None)]
        return [(words.mean_and_deviation(mean, deviation, years=self.style == "year"), None)]


@dataclass(frozen=True)
class Spike:
    """The value of at least half of a column's cells, which is below or above all others."""

    value: float
    low: bool  # whether it is below the others
    shares: Floats  # (K + 1,) of the cells


@dataclass(frozen=True)
class CategoricalColumn:
    """Shares of the levels of a categorical column among its present cells; NaN where there are none."""

    levels: tuple[object, ...]  # T of them
    shares: Floats  # (K + 1, T), last of the whole table

    @cached_property
    def texts(self) -> list[str]:
        """(T,) levels as texts; different levels differ."""
        return words.distinct([words.level_text(level) for level in self.levels], words.LONGEST)

    @cached_property
    def short(self) -> list[str]:
        """`texts` of at most 30 characters."""
        return words.distinct(self.texts, words.SHORT)

    def in_order(self, rows: Ints) -> CategoricalColumn:
        return replace(self, shares=self.shares[rows])

    def leading(self, k: int) -> list[int]:
        """The most frequent levels of cluster k; one that nearly all cells have alone."""
        share = self.shares[k]
        order = [t for t in np.argsort(-share, kind="stable")[: words.LEADING].tolist() if share[t] > 0]
        return order[:1] if order and share[order[0]] >= words.NEARLY_ALL else order

    def telling(self, k: int) -> tuple[int, ...]:
        """The level that diverges most from the table, or two that only together hold for most rows."""
        own, whole = self.shares[k], self.shares[-1]
        if np.isnan(own).any():
            return ()
        part = np.where(own > 0, own * np.log(np.maximum(own, 1e-300) / np.maximum(whole, 1e-300)), 0.0)
        order = np.argsort(-part, kind="stable").tolist()
        first = order[0]
        if own[first] < MOST and len(own) > 2:
            more = [t for t in order[1:] if own[t] >= max(_SECOND, _SECOND_LIFT * whole[t])]
            if more and own[first] + own[more[0]] >= MOST:
                return tuple(sorted((first, more[0]), key=lambda t: -own[t]))
        return (first,)

    def changes(self, k: int) -> Floats:
        """(T,) nats by which shares of levels in cluster k, larger or smaller, differ from the table's."""
        own, whole = self.shares[k].tolist(), self.shares[-1].tolist()
        return np.array(
            [
                _binary_divergence(p, q) + _binary_divergence(1.0 - p, 1.0 - q)  # one of them is 0
                for p, q in zip(own, whole, strict=True)
            ]
        )

    def phrase(self, levels: Sequence[int], texts: Sequence[str]) -> str:
        """Some levels, by their texts."""
        return " or ".join(texts[t] for t in levels)

    def typical(
        self, k: int, levels: Sequence[int] | None = None, texts: Sequence[str] | None = None
    ) -> Parts:
        """Levels, by default the leading ones, and their shares in cluster k; -1: in the whole table. `texts`
        (T,) replace those of the levels.
        """
        if np.isnan(self.shares[k]).any():
            return []
        levels, texts = self.leading(k) if levels is None else levels, texts or self.texts
        return [(texts[t], float(self.shares[k, t])) for t in levels]


@dataclass(frozen=True)
class OrderedColumn(CategoricalColumn):
    """Shares of the levels of a scale, in its order."""

    def telling(self, k: int) -> tuple[int, ...]:
        """The levels from one end of the scale that differ most from the table; neighbours inside the scale
        where these tell more.
        """
        own, whole = self.shares[k], self.shares[-1]
        T = len(own)
        if np.isnan(own).any() or T < 2:
            return tuple(range(T))
        below, table = (np.concatenate([[0.0], np.cumsum(each)]) for each in (own, whole))
        step = 1 + int(np.abs(below[1:-1] - table[1:-1]).argmax())
        ends = (step, T) if below[step] < table[step] else (0, step)
        spans = [(a, a + n) for n in range(1, min(_INNER, T - 2) + 1) for a in range(1, T - n)]

        def nats(span: tuple[int, int]) -> float:
            a, b = span
            return _binary_divergence(float(below[b] - below[a]), float(table[b] - table[a]))

        inner = max(spans, key=nats, default=ends)
        return tuple(range(*(inner if nats(inner) > _CLEARER * nats(ends) else ends)))

    def leading(self, k: int) -> list[int]:
        """The levels of a cluster that differ most from the table, in their order; of the table, its most
        frequent ones.
        """
        return sorted(super().leading(k)) if k in (-1, len(self.shares) - 1) else list(self.telling(k))

    def phrase(self, levels: Sequence[int], texts: Sequence[str]) -> str:
        """Some levels, by their texts: ``agree or higher``."""
        T, first, last = len(self.levels), levels[0], levels[-1]
        if len(levels) == 1 or len(levels) == T or list(levels) != list(range(first, last + 1)):
            return super().phrase(levels, texts)
        if last == T - 1:
            return f"{texts[first]} or higher"
        if first == 0:
            return f"{texts[last]} or lower"
        return f"{texts[first]} to {texts[last]}"

    def typical(
        self, k: int, levels: Sequence[int] | None = None, texts: Sequence[str] | None = None
    ) -> Parts:
        """Neighbouring levels and their share, ``agree or higher 71 %``; of the table, its leading levels."""
        if levels is None and k in (-1, len(self.shares) - 1):
            return super().typical(k, None, texts)
        if np.isnan(self.shares[k]).any():
            return []
        levels = self.leading(k) if levels is None else levels
        return [(self.phrase(levels, texts or self.texts), float(self.shares[k, list(levels)].sum()))]


@dataclass(frozen=True)
class AnswersColumn(CategoricalColumn):
    """Shares of the rows with each answer of a column of several answers, which need not sum to 1."""

    def _by_difference(self, k: int) -> list[int]:
        """Answers by the nats that their shares in cluster k differ from the table's, most first."""
        nats = self.changes(k)
        most = float(nats.max())
        return [t for t in np.argsort(-nats, kind="stable").tolist() if nats[t] >= _TELLING * most]

    def telling(self, k: int) -> tuple[int, ...]:
        """At most two answers that are more frequent than in the table and differ clearly, or else the one
        that is rarer.
        """
        own, whole = self.shares[k], self.shares[-1]
        if np.isnan(own).any():
            return ()
        order = self._by_difference(k)
        return tuple([t for t in order if own[t] > whole[t]][:2] or order[:1])

    def leading(self, k: int) -> list[int]:
        """The answers of a cluster that differ most from the table; of the table, its most frequent ones."""
        if k in (-1, len(self.shares) - 1) or np.isnan(self.shares[k]).any():
            return list(map(int, np.argsort(-self.shares[-1], kind="stable")[: words.LEADING]))
        return sorted(self._by_difference(k)[: words.LEADING], key=lambda t: -self.shares[k, t])

    def phrase(self, levels: Sequence[int], texts: Sequence[str]) -> str:
        """Some answers, by their texts."""
        return words.listing(texts[t] for t in levels)


def _binary_divergence(here: float, there: float) -> float:
    """Nats by which a larger share of some levels differs from that of the table; 0 for a smaller one."""
    if here <= there:
        return 0.0
    parts = ((here, there), (1.0 - here, 1.0 - there))
    return sum(p * float(np.log(p / max(q, 1e-300))) for p, q in parts if p > 0.0)


@dataclass(frozen=True)
class PeriodicColumn(NumericColumn):
    """A periodic column: mean directions, and circular standard deviations, of at most half a period."""

    period: float = 1.0
    lengths: Floats = field(default_factory=lambda: np.empty(0))  # (K + 1,) mean resultant lengths

    @property
    def skewed(self) -> bool:
        return False

    def in_order(self, rows: Ints) -> PeriodicColumn:
        """The column with its K + 1 groups in another order."""
        column = super().in_order(rows)
        assert isinstance(column, PeriodicColumn)
        return replace(column, lengths=self.lengths[rows])

    def text(self, x: float) -> str:
        """A value within the period; times of day as ``22:40``."""
        x = x % self.period if np.isfinite(x) else x
        return words.clock(x) if self.period == _HOURS else words.number(x)

    def directed(self, k: int) -> bool:
        """Whether the cells of cluster k have a main direction."""
        return bool(self.lengths[k] >= _DIRECTED)

    def near(self, k: int, j: int) -> bool:
        """Whether two groups have main directions less than an eighth of a period apart."""
        away = abs(float(self.means[k] - self.means[j]))
        both = self.directed(k) and self.directed(j)
        return both and min(away, self.period - away) < self.period / 8

    def typical(self, k: int, *_: Sequence[int] | Sequence[str] | None) -> Parts:
        """Mean direction and deviation, ``22:40 ± 1.9 h`` or ``11.2 ± 1.1 of 12``, in cluster k."""
        if self.missing[k] == 1 or not np.isfinite(self.means[k]):
            return []
        unit = "h" if self.period == _HOURS else f"of {words.number(self.period)}"
        if np.isfinite(self.value[k]):
            return [(f"{self.text(float(self.value[k]))} ± 0 {unit}", None)]
        if not self.directed(k):
            return [(f"spread over {words.number(self.period)}{' h' * (unit == 'h')}", None)]
        return [(f"{self.direction(k)} ± {words.ratio(float(self.deviations[k]))} {unit}", None)]

    def direction(self, k: int) -> str:
        """The mean direction in cluster k, to the digits of its deviation."""
        mean, deviation = float(self.means[k]), float(self.deviations[k])
        if self.period != _HOURS:
            mean = round(mean, max(0, 1 - int(np.floor(np.log10(max(deviation, 1e-9))))))
        return self.text(mean)


@dataclass(frozen=True)
class CodesColumn(NumericColumn):
    """A column of whole numbers that are codes: descriptions are of its values and their shares."""

    codes: CategoricalColumn = field(default_factory=lambda: CategoricalColumn((), np.empty((1, 0))))

    def in_order(self, rows: Ints) -> CodesColumn:
        """The column with its K + 1 groups in another order."""
        column = super().in_order(rows)
        assert isinstance(column, CodesColumn)
        return replace(column, codes=self.codes.in_order(rows))

    def typical(self, k: int, *_: Sequence[int] | Sequence[str] | None) -> Parts:
        """The leading values and their shares in cluster k; -1: in the whole table."""
        return self.codes.typical(k)

    def coded(self, cells: Floats) -> Ints:
        """(n,) positions of cells among the values; T: missing, or none of these."""
        values = np.array(self.codes.levels, np.float64)
        at = np.minimum(np.searchsorted(values, cells), len(values) - 1)
        return np.where(values[at] == cells, at, len(values))


Column: TypeAlias = NumericColumn | CategoricalColumn


def described(column: Column) -> Column:
    """The column that descriptions are of: the values and shares of codes, any other column itself."""
    return column.codes if isinstance(column, CodesColumn) else column


def typical_text(parts: Sequence[tuple[str, float | None]]) -> str:
    texts = (text if share is None else words.with_share(text, share) for text, share in parts)
    return ", ".join(texts) or words.NO_VALUES
