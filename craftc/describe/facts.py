"""What sets a cluster apart from the whole table: direction or levels of every feature, in words, and whether
other clusters share it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from craftc._common.typing import Floats
from craftc.describe.columns import Column, Pairs
from craftc.describe.words import number, percent, shortened, with_share

STEPS = (0.03, 0.10, 0.30, 0.80)  # nats per row at which the colour of the map becomes deeper
REPEATS = 0.5  # share of information from which one column says what another one does
_LONG_TABLE = 2000  # rows from which on the price of a feature grows with the table
_VISIBLE = 0.2  # deviations between means that are a direction
_RANKS = 0.45, 0.55  # mean ranks between which there is none
_MOST = 0.6  # share of rows from which levels describe a cluster
_OFTEN, _LIFT = 0.4, 1.5  # or a smaller share, if it is larger than the table's by this factor
_APART, _EXACT = (
    0.45,
    0.02,
)  # deviations of the table: of a mean that is high or low; of values that are all equal
_LEAST, _CANDIDATES = 0.04, 12  # nats per row of a fact that leads, and how many are looked at
_IMPLIED = 0.9
_CLAUSE = 60  # characters of a name or level in a clause

_SIGNS = {"higher": "▲", "lower": "▼", "mix": "●", "other": "◆"}


@dataclass
class Fact:
    """One feature in one cluster.

    Parameters
    ----------
    k, d : int
        Cluster in the order of the page, and column.
    way : {"higher", "lower", "mix", "other"}
        Direction of a number; another mix of levels; narrower, wider or of another shape.
    levels : tuple of int
        The levels that a mix is about.
    long : str
        A clause: the cluster's values and the table's.
    caption, cell, table : str
        The same below a figure and in the map, and the table's value.
    per_row : float
        Gain in nats per row.
    state : {"own", "shared", "background"}
    others : list of int
        Clusters, counted from 1, that share it.
    """

    k: int
    d: int
    name: str
    way: str
    levels: tuple[int, ...] = ()
    long: str = ""
    caption: str = ""
    cell: str = ""
    table: str = ""
    share: float = 1.0
    per_row: float = 0.0
    state: str = "background"
    others: list[int] = field(default_factory=list)

    @property
    def sign(self) -> str:
        """The symbol of the direction."""
        return _SIGNS[self.way]

    @property
    def step(self) -> int:
        """Depth of colour in the map, 1 to 4."""
        return max(1, int(np.searchsorted(STEPS, self.per_row, side="right")))

    @property
    def shared_with(self) -> str:
        """The clusters that share it, in words."""
        return ", ".join(map(str, self.others)) if len(self.others) <= 3 else f"{len(self.others)} others"


class Facts:
    """The features of all clusters.

    A feature is background where describing it anew saves a cluster less than it costs; own where no other
    cluster differs in the same direction, or in one of the same levels; otherwise shared.

    Parameters
    ----------
    columns : list of Column
    gains : ndarray (K, D)
        Nats over the distribution of the whole table.
    weight : ndarray (K,)
        Weight of the rows of every cluster.
    """

    def __init__(self, columns: list[Column], gains: Floats, weight: Floats) -> None:
        self.columns, self.pairs, self.gains = columns, Pairs(columns), gains
        self.per_row = gains / weight[:, None]
        n = float(weight.sum())
        price = (
            0.5
            * math.log(max(n, 1.0))
            * max(1.0, n / _LONG_TABLE)
            * np.array([column.n_parameters for column in columns])
        )
        self.differs: NDArray[np.bool_] = gains > price
        self._facts: dict[tuple[int, int], Fact] = {}

    @cached_property
    def _ways(self) -> list[list[tuple[str, tuple[int, ...]]]]:
        """Direction and levels by column and cluster."""
        return [[_way(column, k) for k in range(len(self.gains))] for column in self.columns]

    def of(self, k: int, d: int) -> Fact:
        """The fact about column d in cluster k."""
        if (k, d) not in self._facts:
            way, levels = self._ways[d][k]
            fact = Fact(k, d, self.columns[d].name, way, levels, per_row=float(self.per_row[k, d]))
            _describe(fact, self.columns[d])
            if self.differs[k, d]:
                same = [
                    j for j in np.flatnonzero(self.differs[:, d]).tolist() if j != k and self._alike(k, j, d)
                ]
                fact.others = [j + 1 for j in same]
                fact.state = "shared" if same else "own"
            self._facts[k, d] = fact
        return self._facts[k, d]

    def _alike(self, k: int, j: int, d: int) -> bool:
        (way, levels), (other, theirs) = self._ways[d][k], self._ways[d][j]
        return way == other and (not levels or not set(levels).isdisjoint(theirs))

    def ranked(self, k: int) -> list[Fact]:
        """The features in which a cluster differs, by falling gain; if there are none, the three with the
        largest gains.
        """
        order = np.argsort(-self.gains[k], kind="stable").tolist()
        return [self.of(k, d) for d in ([d for d in order if self.differs[k, d]] or order[:3])]

    def leading(self, k: int, most: int = 3) -> list[Fact]:
        """The first features of `ranked` that do not repeat each other, and of linked columns the category
        rather than the number.
        """
        chosen: list[Fact] = []
        ranked = self.ranked(k)
        facts = [
            fact for fact in ranked[:_CANDIDATES] if fact.per_row >= _LEAST and self._plain(fact)
        ] or ranked[:1]
        for fact in facts:
            if not fact.levels:
                same = [
                    f
                    for f in facts
                    if f.way == "mix" and f.share >= 0.5 and self.pairs.alike(f.d, fact.d) >= _IMPLIED
                ]
                fact = same[0] if same else fact
            if not any(
                fact is f or self.pairs.alike(fact.d, f.d) >= REPEATS or self._implied(f, fact)
                for f in chosen
            ):
                chosen.append(fact)
            if len(chosen) == most:
                break
        return chosen

    def _plain(self, fact: Fact) -> bool:
        """Whether a reader sees the difference: levels of many rows, a mean far from the table's, equal
        values.
        """
        column = self.columns[fact.d]
        if fact.way == "mix":
            return fact.share >= _MOST or (
                fact.share >= _OFTEN and fact.share >= _LIFT * column.shares[-1, list(fact.levels)].sum()
            )
        unit, mean = column.deviation[-1], column.mean[fact.k]
        return column.style == "bands" or bool(
            column.deviation[fact.k] < _EXACT * unit or abs(mean - column.mean[-1]) >= _APART * unit
        )

    def _implied(self, first: Fact, second: Fact) -> bool:
        """Whether rows with the levels of the first fact have those of the second in nine of ten cases:
        husbands are male.
        """
        if not first.levels or not second.levels:
            return False
        rows = self.pairs.joint(first.d, second.d)[list(first.levels)]
        return bool(rows[:, list(second.levels)].sum() >= _IMPLIED * max(rows.sum(), 1e-12))


def _way(column: Column, k: int) -> tuple[str, tuple[int, ...]]:
    if column.style == "bands":
        spike, p, q = _spike(column), column.shares[k], column.shares[-1]
        return ("higher" if (p[spike] < q[spike]) == (spike == 0) else "lower"), ()
    if not column.numeric:
        return "mix", _levels_of(column, k)
    apart = abs(column.mean[k] - column.mean[-1]) >= _VISIBLE * column.deviation[-1] > 0
    if apart and column.rank[k] > _RANKS[1]:
        return "higher", ()
    if apart and column.rank[k] < _RANKS[0]:
        return "lower", ()
    return "other", ()


def _spike(column: Column) -> int:
    """The code of the frequent value of a column in bands: the first or the last."""
    share = column.shares[-1]
    return 0 if share[0] > share[-1] else len(share) - 1


def _levels_of(column: Column, k: int) -> tuple[int, ...]:
    """The level that says most about a cluster, or two where they hold for most rows only together."""
    p, q = column.shares[k], column.shares[-1]
    score = p * np.log(np.maximum(p, 1e-300) / np.maximum(q, 1e-300))
    if column.merged:
        score[-1] = -np.inf
    first = int(score.argmax())
    if p[first] < _MOST and len(p) > 2:
        for second in np.argsort(-score, kind="stable").tolist():
            if second != first and np.isfinite(score[second]) and p[second] >= max(0.15, 1.25 * q[second]):
                together = sorted((first, second), key=lambda t: -p[t])
                return tuple(together) if p[first] + p[second] >= _MOST else (first,)
    return (first,)


def _describe(fact: Fact, column: Column) -> None:
    """Put the fact in words."""
    k, name = fact.k, shortened(column.name, _CLAUSE)
    if column.style == "bands":
        spike, base = _spike(column), column.labels[_spike(column)]
        here, there = (float(1.0 - column.shares[i, spike]) for i in (k, -1))
        where = "above" if spike == 0 else "below"
        fact.long = f"{name} is {where} {base} in {percent(here)} of rows, in {percent(there)} of the table"
        fact.caption, fact.cell, fact.table = (
            f"{where} {base}: {percent(here)}",
            f"{where} {base}: {percent(here)}",
            percent(there),
        )
        return
    if not column.numeric:
        levels = list(fact.levels)
        here, there = float(column.shares[k, levels].sum()), float(column.shares[-1, levels].sum())
        words = " or ".join(shortened(column.labels[t], _CLAUSE) for t in levels)
        fact.share, fact.table = here, percent(there)
        fact.long = f"{name} is {words} in {percent(here)} of rows, in {percent(there)} of the table"
        fact.caption, fact.cell = with_share(words, here), with_share(shortened(words), here)
        return
    mean, deviation, all_ = float(column.mean[k]), float(column.deviation[k]), float(column.deviation[-1])
    fact.cell, fact.table = number(mean, all_), number(float(column.mean[-1]), all_)
    if not np.isfinite(mean):
        fact.long = fact.caption = f"{name} is missing in all rows"
        fact.cell = "missing"
    elif deviation < _EXACT * all_:
        fact.long, fact.caption = (
            f"{name} is {fact.cell} in all rows (table mean {fact.table})",
            f"{fact.cell} in all rows",
        )
    elif fact.way in ("higher", "lower"):
        fact.long = f"{name} is {fact.way}: {fact.cell} on average, {fact.table} in the table"
        fact.caption = f"{fact.way}: mean {fact.cell}"
    elif deviation < 0.9 * all_ or deviation > 1.1 * all_:
        less = deviation < all_
        both, fact.table = f"{fact.cell} ± {number(deviation, all_)}", f"{fact.table} ± {number(all_, all_)}"
        fact.long = f"{name} spreads {'less' if less else 'more'}: {both}, table {fact.table}"
        fact.caption = f"{'narrower' if less else 'wider'}: {both}"
    else:
        fact.long, fact.caption = (
            f"{name} has another shape around the same mean, {fact.cell}",
            f"other shape, mean {fact.cell}",
        )


def whole_table(column: Column) -> str:
    """The table's value of a column in the map: the mean, or the most frequent level."""
    if column.numeric and column.style != "bands":
        return number(float(column.mean[-1]), column.spread)
    t = int(column.shares[-1].argmax())
    return with_share(shortened(column.labels[t]), float(column.shares[-1, t]))
