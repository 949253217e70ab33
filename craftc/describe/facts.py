"""What sets a cluster apart from the whole table, in words, and the names of clusters.

The model decides *whether* a cluster differs in a column. Direction and figures come from normal scores,
quartiles and shares in the encoding of the model (`NumericColumn.shift`), which one outlier hardly changes:
the names of clusters need no rows and are the same in `summary`, report, plots and command line.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace

import numpy as np

from craftc.describe.columns import (
    MOST,
    VISIBLE,
    AnswersColumn,
    CategoricalColumn,
    NumericColumn,
    PeriodicColumn,
    Spike,
    described,
    typical_text,
)
from craftc.describe.view import ClusterView
from craftc.describe.words import NO_VALUES, listing, percent, with_share
from craftc.table.level_column import MISSING_LEVEL

STEPS = (0.03, 0.10, 0.30, 0.80)  # nats per row from which the colour of a map is deeper
REPEATS = 0.5  # share of information from which one column repeats another
_SAME, _HALF = 0.9, 0.5  # the same of a number and a category with at least half of the rows
_APART = 0.45  # shift from which a number is named high or low
_NARROW, _NARROWER, _WIDER = 0.5, 0.9, 1.1  # ratios of quartile ranges to the table's
_LEAST = 0.04  # nats per row of a fact that leads
_OFTEN, _LIFT = 0.4, 1.5  # a share below `MOST` that exceeds the table's by this factor
_RARELY = 0.1  # share of rows up to which a frequent answer of the table is missing in a cluster
_MOST_FACTS, _FEWEST_FACTS = 3, 2  # of a name; the second number if columns repeat each other
_NOT_WORDS = "true", "false", "yes", "no", "none", "other", "others", "unknown", "nan", "null", "missing"
_DIRECTIONS = (("low", "high"), ("early", "late"))  # of numbers and of times
_SIGNS = {"higher": "▲", "lower": "▼", "mix": "●", "other": "◆"}


@dataclass(frozen=True)
class Fact:
    """One column in one cluster."""

    k: int
    d: int
    way: str  # "higher" | "lower" of a number | "mix" of levels | "other": narrower, wider, another shape
    levels: tuple[int, ...] = ()  # of a mix
    share: float = 1.0  # of the cluster's cells with one of the levels
    per_row: float = 0.0  # gain, nats per row
    words: str = ""  # for the name of a cluster; empty where the difference is too small to see
    long: str = ""  # a clause: the cluster's values and the table's
    caption: str = ""  # the cluster's values
    cell: str = ""  # the same, for a map
    table: str = ""  # the table's values
    state: str = "background"  # | "own" | "shared": the cluster does not differ, differs alone, with others
    others: list[int] = field(default_factory=list)  # clusters with which it is shared

    @property
    def sign(self) -> str:
        return _SIGNS[self.way]

    @property
    def step(self) -> int:
        """Depth of colour in a map, 1 to 4."""
        return max(1, int(np.searchsorted(STEPS, self.per_row, side="right")))

    @property
    def shared_with(self) -> str:
        """The clusters that share it, counted from 1, in words."""
        if len(self.others) > 3:
            return f"{len(self.others)} others"
        return ", ".join(str(k + 1) for k in self.others)


class Facts:
    def __init__(self, view: ClusterView) -> None:
        self.view = view
        self._facts: dict[tuple[int, int], Fact] = {}
        categorical = (each for each in view.statistics if isinstance(each, CategoricalColumn))
        self._n_columns = Counter(text.casefold() for column in categorical for text in column.texts)

    def of(self, k: int, d: int) -> Fact:
        if (k, d) not in self._facts:
            view = self.view
            fact = self._described(k, d)
            if view.differs[k, d]:
                others = np.flatnonzero(view.differs[:, d]).tolist()
                same = [j for j in others if j != k and self._alike(fact, j)]
                fact = replace(fact, state="shared" if same else "own", others=same)
            self._facts[k, d] = fact
        return self._facts[k, d]

    def _alike(self, fact: Fact, j: int) -> bool:
        """Whether another cluster differs in the same direction, or in one of the same levels."""
        column = described(self.view.statistics[fact.d])
        if isinstance(column, CategoricalColumn):
            return not set(fact.levels).isdisjoint(column.telling(j))
        if isinstance(column, PeriodicColumn):
            return column.near(fact.k, j)
        return fact.way == way_of(column, j)

    def ranked(self, k: int) -> list[Fact]:
        """Columns in which a cluster differs, largest gain first; without any, three of the largest gains."""
        columns = self.view.ranked(k) or np.argsort(-self.view.gains[k], kind="stable")[:3].tolist()
        return [self.of(k, d) for d in columns]

    def leading(self, k: int) -> list[Fact]:
        """The facts of a name, at most three: a reader sees them, and they do not repeat each other.

        A category is preferred to a number that says the same. If repeated information leaves fewer than two
        facts, columns that do not say nearly the same are accepted.
        """
        view, links = self.view, self.view.links
        columns = [d for d in view.ranked(k) if view.per_row[k, d] >= _LEAST]
        categories = [d for d in columns if isinstance(view.statistics[d], CategoricalColumn)]
        chosen: list[Fact] = []
        for most_alike, most in ((REPEATS, _MOST_FACTS), (_SAME, _FEWEST_FACTS)):
            for d in columns:
                if len(chosen) >= most:
                    break
                if not (fact := self.of(k, d)).words:
                    continue
                if not fact.levels:
                    same = (self.of(k, other) for other in categories if links.share(d, other) >= _SAME)
                    fact = next((each for each in same if each.words and each.share >= _HALF), fact)
                alike = (links.share(fact.d, other.d) >= most_alike for other in chosen)
                if not (any(alike) or any(self._implies(other, fact) for other in chosen)):
                    chosen.append(fact)
        return chosen

    def _implies(self, fact: Fact, other: Fact) -> bool:
        """Whether rows with the levels of a fact nearly always have those of the other: husbands are male."""
        implied = self.view.links.implied
        return bool(fact.levels and other.levels) and all(
            any((fact.d, s, other.d, t) in implied for t in other.levels) for s in fact.levels
        )

    def names(self) -> list[str]:
        """(K,) names of the clusters, given ones or such as "Husband, often Male, low age"; equal names are
        numbered.
        """
        view = self.view
        names = [view.own[k] if k in view.own else self._found_name(k) for k in range(len(view.sizes))]
        seen = Counter[str]()
        for k in sorted(view.order.tolist(), key=lambda k: k not in view.own):
            seen[names[k]] += 1
            if seen[names[k]] > 1:
                names[k] += f" ({seen[names[k]]})"
        return names

    def _found_name(self, k: int) -> str:
        """The name of a cluster without one of its own: by its facts, or its number."""
        if not self.view.named:
            return f"cluster {k}"
        return ", ".join(fact.words for fact in self.leading(k)) or self._plain_name(k)

    def _plain_name(self, k: int) -> str:
        """The name of a cluster without a fact that a reader sees."""
        if not (ranked := self.view.ranked(k)):
            return "like the whole table"
        column, name = described(self.view.statistics[ranked[0]]), self.view.shortest[ranked[0]]
        if isinstance(column, NumericColumn):
            unit = column.ranges[-1] / 1.349  # the deviation of a normal column
            if 0 < column.ranges[k] < _NARROW * column.ranges[-1]:
                digits = -int(np.floor(np.log10(0.1 * unit)))
                return f"{name} near {column.text(round(column.centres[k], digits))}"
            if (way := way_of(column, k)) != "other":
                return f"rather {_DIRECTIONS[column.style in ('day', 'year')][way == 'higher']} {name}"
        elif isinstance(column, CategoricalColumn) and not np.isnan(column.shares[k]).any():
            level = int(column.changes(k).argmax())
            more = bool(column.shares[k, level] > column.shares[-1, level])
            of = "" if self._is_word(column.texts[level]) else f"{name} "
            return f"{'more' if more else 'less'} often {of}{column.short[level]}"
        return f"another distribution of {name}"

    # ---- words ----

    def _described(self, k: int, d: int) -> Fact:
        column = described(self.view.statistics[d])
        fact = Fact(k, d, "other", per_row=float(self.view.per_row[k, d]))
        if isinstance(column, AnswersColumn):
            return self._of_answers(fact, column)
        if isinstance(column, CategoricalColumn):
            return self._of_levels(fact, column)
        if isinstance(column, PeriodicColumn):
            return self._of_period(fact, column)
        spike = column.spike
        if spike is None or np.isnan(spike.shares[k]) or np.isfinite(column.value[k]):
            return self._of_number(fact, column)
        return self._of_spike(fact, column, spike)

    def _of_levels(self, fact: Fact, column: CategoricalColumn) -> Fact:
        k, name = fact.k, self.view.short[fact.d]
        levels = column.telling(k)
        if not levels:
            return _missing(replace(fact, way="mix"), name)
        here, there = (float(share[list(levels)].sum()) for share in (column.shares[k], column.shares[-1]))
        there_words = f"in {percent(there)} of the table"
        named, text = (column.phrase(levels, texts) for texts in (column.texts, column.short))
        cell = with_share(text, here)
        if not all(self._is_word(column.texts[t]) for t in levels):
            text = f"{self.view.shortest[fact.d]} {text}"
        seen = here >= MOST or _is_often(here, there)
        return replace(
            fact,
            way="mix",
            levels=levels,
            share=here,
            words="" if not seen else text if here >= MOST else f"often {text}",
            long=f"{name} is {named} in {percent(here)} of rows, {there_words}",
            caption=cell,
            cell=cell,
            table=percent(there),
        )

    def _of_answers(self, fact: Fact, column: AnswersColumn) -> Fact:
        """Of a column of several answers: the ones more frequent than in the table, or else rarer."""
        k, name, levels = fact.k, self.view.short[fact.d], column.telling(fact.k)
        if not levels:
            return _missing(replace(fact, way="mix"), name)
        own, whole = column.shares[k], column.shares[-1]
        here, there = float(own[levels[0]]), float(whole[levels[0]])
        often = [t for t in levels if own[t] >= MOST or _is_often(float(own[t]), float(whole[t]))]
        text, rarely = column.phrase(often or levels, column.short), here < there
        if not all(self._is_word(column.texts[t]) for t in levels):
            text = f"{self.view.shortest[fact.d]} {text}"
        seen = bool(often) and not rarely
        if rarely and here <= _RARELY and there >= _OFTEN:
            text, seen = f"without {text}", True
        elif seen and own[often[0]] < MOST:
            text = f"often {text}"
        both = [f"{column.texts[t]} in {percent(float(own[t]))} of rows" for t in levels]
        cell = ", ".join(with_share(column.short[t], float(own[t])) for t in levels)
        of_table = listing(percent(float(whole[t])) for t in levels)
        return replace(
            fact,
            way="mix",
            levels=levels,
            share=here,
            words=text if seen else "",
            long=f"{name}: {listing(both)}, in the table {of_table}",
            caption=cell,
            cell=cell,
            table=of_table,
        )

    def _is_word(self, level: str) -> bool:
        """Whether a level is understood without its column: a word, and a level of this column alone."""
        text = level.casefold()
        alone = text not in (*_NOT_WORDS, MISSING_LEVEL) and self._n_columns[text] == 1
        return alone and len(text) >= 3 and any(c.isalpha() for c in text)

    def _of_period(self, fact: Fact, column: PeriodicColumn) -> Fact:
        """Of a periodic column: its main direction."""
        k, name = fact.k, self.view.short[fact.d]
        if not np.isfinite(column.means[k]):
            return _missing(fact, name)
        own, whole = (typical_text(column.typical(i)) for i in (k, -1))
        directed = column.directed(k)
        cell = column.direction(k) if directed else own
        return replace(
            fact,
            words=f"{self.view.shortest[fact.d]} near {cell}" if directed else "",
            long=f"{name} is {'near ' * directed}{own}, in the table {whole}",
            caption=own,
            cell=cell,
            table=column.direction(-1) if column.directed(-1) else whole,
        )

    def _of_spike(self, fact: Fact, column: NumericColumn, spike: Spike) -> Fact:
        """Of a column with a value of most cells: the share of the others."""
        k, name = fact.k, self.view.short[fact.d]
        here, there = 1.0 - float(spike.shares[k]), 1.0 - float(spike.shares[-1])
        where = f"{'above' if spike.low else 'below'} {column.text(spike.value)}"
        short = self.view.shortest[fact.d]
        words = f"{short} {where}" if here >= MOST else f"often {short} {where}"
        if not (here >= MOST or _is_often(here, there)):
            words = self._of_number(fact, column).words
        return replace(
            fact,
            way=way_of(column, k),
            words=words,
            long=f"{name} is {where} in {percent(here)} of rows, in {percent(there)} of the table",
            caption=f"{where}: {percent(here)}",
            cell=f"{where}: {percent(here)}",
            table=percent(there),
        )

    def _of_number(self, fact: Fact, column: NumericColumn) -> Fact:
        k, name, short = fact.k, self.view.short[fact.d], self.view.shortest[fact.d]
        shift = float(column.shift[k])
        if np.isnan(shift):
            return _missing(fact, name)
        way, cell, table = way_of(column, k), column.text(column.centres[k]), column.text(column.centres[-1])
        fact = replace(fact, way=way, cell=cell, table=table)
        of_time = column.style in ("day", "year")
        words = f"{_DIRECTIONS[of_time][shift > 0]} {short}" if abs(shift) >= _APART else ""
        average = "median" if column.skewed else "mean"
        if np.isfinite(column.value[k]):
            value = column.text(float(column.value[k]))
            rows = "in all rows" if column.missing[k] == 0 else "in all rows with a value"
            return replace(
                fact,
                cell=value,
                words=f"{short} {value}",
                long=f"{name} is {value} {rows} (table {average} {table})",
                caption=f"{value} {rows}",
            )
        if way != "other":
            figures = f"median {cell}" if column.skewed else f"{cell} on average"
            both = f"{figures}, {table} in the table"
            if cell == table:
                both = f"{average} {cell} as in the table"
            compared = {"higher": "later", "lower": "earlier"}[way] if of_time else way
            caption = f"{compared}: {average} {cell}"
            return replace(fact, words=words, long=f"{name} is {compared}: {both}", caption=caption)
        ratio = column.ranges[k] / column.ranges[-1] if column.ranges[-1] > 0 else 1.0
        if _NARROWER <= ratio <= _WIDER:
            shape = f"{name} has another shape around the same {average}, {cell}"
            return replace(fact, long=shape, caption=f"other shape, {average} {cell}")
        own, whole = (_spread(column, i) for i in (k, -1))
        return replace(
            fact,
            table=whole,
            long=f"{name} spreads {'less' if ratio < 1 else 'more'}: {own}, table {whole}",
            caption=f"{'narrower' if ratio < 1 else 'wider'}: {own}",
        )


def way_of(column: NumericColumn, k: int) -> str:
    """ "higher", "lower" or "other": how a number differs from the whole table."""
    if column.spike is not None and not np.isnan(column.spike.shares[k]):
        more = bool(column.spike.shares[k] < column.spike.shares[-1])
        return "higher" if more == column.spike.low else "lower"
    shift = column.shift[k]
    return "higher" if shift >= VISIBLE else "lower" if shift <= -VISIBLE else "other"


def _is_often(here: float, there: float) -> bool:
    return here >= _OFTEN and here >= _LIFT * there


def _spread(column: NumericColumn, k: int) -> str:
    """Mean and deviation, or the quartiles of a skewed column."""
    if column.skewed:
        return f"half within {column.text(column.quartiles[k, 0])} to {column.text(column.quartiles[k, 2])}"
    return typical_text(column.typical(k))


def _missing(fact: Fact, name: str) -> Fact:
    text = f"{name} is missing in all rows"
    return replace(fact, long=text, caption=text, cell="missing")


def names_of(view: ClusterView) -> list[str] | None:
    """(K,) names of the clusters of a view; None if its clusters have none."""
    return Facts(view).names() if view.has_names else None


def whole_table(view: ClusterView, d: int) -> str:
    """The table's value of a column in a map: mean or median, or the most frequent level."""
    column = described(view.statistics[d])
    if isinstance(column, PeriodicColumn):
        return typical_text(column.typical(-1))
    if isinstance(column, NumericColumn):
        if column.spike is not None:
            return with_share(column.text(column.spike.value), float(column.spike.shares[-1]))
        centre = float(column.centres[-1])
        return NO_VALUES if np.isnan(centre) else column.text(centre)
    if np.isnan(column.shares[-1]).any():
        return NO_VALUES
    t = int(column.shares[-1].argmax())
    return with_share(column.short[t], float(column.shares[-1, t]))
