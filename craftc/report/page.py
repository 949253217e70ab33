"""The content of a report: everything that the templates print, computed from the public attributes of a
model and its table.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from craftc._common.merge_path import objectives_of
from craftc.describe.columns import read_columns
from craftc.describe.facts import REPEATS, Fact, Facts, whole_table
from craftc.describe.words import clean, count, listing, number, percent, plural
from craftc.report import reproduce
from craftc.report.cautions import Caution, cautions
from craftc.report.figures import Figure, figure
from craftc.report.links import Link, column_links
from craftc.report.merge_tree import MergeTree, merge_tree
from craftc.report.rows import BETWEEN, CLEAR, Row, certainty, typical, unusual
from craftc.report.target import Target
from craftc.table import MixedTable

FIGURES = 6  # of a card
_OPEN_CARDS = 12  # clusters whose cards are open
_MORE = 8  # further features named in a card
_MAP_ROWS = 30
_STABLE = ((0.85, "stable"), (0.75, "fairly stable"), (0.6, "doubtful"))  # mean overlaps from which on


@dataclass
class Overlap:
    """How far a cluster comes back in refits: Jaccard mean and lowest, share of refits in which it is found,
    and a reading.
    """

    mean: float
    lowest: float
    found: float
    reading: str


@dataclass
class Card:
    """One cluster."""

    k: int
    label: int
    name: str
    n: int
    share: float
    leading: list[Fact]
    facts: list[Fact]
    figures: list[tuple[Fact, Figure, str]]
    placed: float
    probable: float
    between: float
    nearest: int
    typical: list[Row]
    unusual: list[Row]
    row_columns: list[str]
    overlap: Overlap | None
    open: bool
    mix: list[float] = field(default_factory=list)
    target: tuple[str, str] = ("", "")
    order: float = 0.0

    @property
    def sentence(self) -> str:
        """What sets it apart."""
        return "; ".join(fact.long for fact in self.leading)

    @property
    def more(self) -> str:
        """Further features in which it differs."""
        rest = [fact for fact in self.facts[len(self.figures) :] if fact.state != "background"]
        named = [fact.long for fact in rest[:_MORE]]
        return "; ".join(
            [*named, *([plural(len(rest) - _MORE, "other feature")] if len(rest) > _MORE else [])]
        )


class Page:
    """The content of a report.

    Parameters
    ----------
    model : CRAFT
        The clusters shown.
    found : CRAFT
        The model whose merge path contains them.
    table : MixedTable
        The rows of the fit.
    target : Target or None
        Read with `labels` and `n_clusters` of `display_order`.
    stability : object with `overlap`, `n_clusters`, `agreement`; or None
    title : str
    """

    def __init__(
        self, model: Any, found: Any, table: MixedTable, target: Target | None, stability: Any, title: str
    ) -> None:
        self.model, self.found, self.table, self.target, self.stability, self.title = (
            model,
            found,
            table,
            target,
            stability,
            title,
        )
        self.K, self.N, self.D = int(model.n_clusters_), len(table), table.schema.n_columns
        self.order, self.labels = display_order(model)
        self.sizes = np.bincount(self.labels, minlength=self.K)
        self.columns = read_columns(table, self.labels, self.K)
        weight = np.asarray(model.cluster_sizes_, dtype=np.float64)[self.order]
        self.weighted = bool((weight != self.sizes).any())
        self.facts = Facts(
            self.columns, np.asarray(model.feature_gains_)[self.order], np.maximum(weight, 1e-300)
        )
        importance = np.nan_to_num(np.asarray(model.feature_importances_, dtype=np.float64))
        self.importance = importance / max(float(importance.max(initial=0.0)), 1e-300)
        self.ranked = np.argsort(-importance, kind="stable").tolist()
        names = model.cluster_names_
        self.names = [clean(names[label]) for label in self.order]
        self.sure = certainty(model, table, self.labels, self.order)
        self.clear = float((self.sure.probability >= CLEAR).mean())
        self.ratio = float(found.dependence_ratio_)
        self.links: list[Link] = column_links(found, self.columns, self.facts.pairs, table)
        self.suggested = int(found.suggested_n_clusters_ or self.K)
        self.tree: MergeTree | None = (
            merge_tree(found.merge_path_, self.labels, self.K, self.suggested) if found.merge_path_ else None
        )
        self.found_k = int(found.n_clusters_)
        self.members = np.split(np.argsort(self.labels, kind="stable"), np.cumsum(self.sizes)[:-1])
        self.cards = [self._card(k) for k in range(self.K)]

    # ---- cards ----

    def _card(self, k: int) -> Card:
        facts, rows, label = self.facts.ranked(k), self.members[k], int(self.order[k])
        shown = facts[:FIGURES]
        columns = [self.columns[fact.d] for fact in shown]
        p, second = self.sure.probability[rows], self.sure.second[rows]
        card = Card(
            k + 1,
            label,
            self.names[k],
            int(self.sizes[k]),
            float(self.sizes[k] / self.N),
            self.facts.leading(k),
            facts,
            [(fact, figure(self.columns[fact.d], k), self._missing(fact)) for fact in shown],
            float((p >= CLEAR).mean()),
            float(((p >= BETWEEN) & (p < CLEAR)).mean()),
            float((p < BETWEEN).mean()),
            int(np.bincount(second, minlength=self.K).argmax()) + 1 if self.K > 1 else 0,
            typical(self.representatives[label], columns, self.table, self.sure, self.target),
            unusual(rows, self.columns, self.table, self.sure, self.target),
            [column.name for column in columns],
            self._overlap(label),
            k < _OPEN_CARDS,
        )
        if self.target is not None:
            card.mix, card.target, card.order = (
                self.target.mix[k].tolist(),
                self.target.words[k],
                self.target.order[k],
            )
        return card

    @cached_property
    def representatives(self) -> list[NDArray[np.intp]]:
        """Typical rows of every cluster, by the labels of the model."""
        return list(self.model.representatives(30, self.table))

    def _missing(self, fact: Fact) -> str:
        share = float(self.columns[fact.d].missing[fact.k])
        return percent(share) if share > 0 else ""

    def _overlap(self, label: int) -> Overlap | None:
        if self.stability is None:
            return None
        overlap = np.asarray(self.stability.overlap, dtype=np.float64)[:, label]
        overlap = overlap[~np.isnan(overlap)]
        if not len(overlap):  # no row of the cluster is in any refit
            return None
        mean = float(overlap.mean())
        reading = next((word for least, word in _STABLE if mean >= least), "unstable")
        return Overlap(mean, float(overlap.min()), float((overlap >= 0.75).mean()), reading)

    # ---- the top of the page ----

    @cached_property
    def headline(self) -> str:
        """One sentence: how many groups, and what they are."""
        rows = f"The {count(self.N)} rows"
        if self.K == 1:
            return f"{rows} do not fall into groups: one description fits them all."
        if self.K == 2:
            one, two = self.cards
            return f"{rows} fall into 2 groups: {one.name} ({percent(one.share)}), and {two.name} ({percent(two.share)})."
        named: list[int] = []
        for d in self.ranked:
            if self.importance[d] > 0 and all(self.facts.pairs.alike(d, e) < REPEATS for e in named):
                named.append(d)
            if len(named) == 3:
                break
        by = f", which differ mainly in {listing(self._spoken(d) for d in named)}" if named else ""
        largest = self.cards[0]
        return (
            f"{rows} fall into {self.K} groups{by}; the largest ({percent(largest.share)}) is {largest.name}."
        )

    def _spoken(self, d: int) -> str:
        """A column, or the category that says the same as a number: education rather than education_num."""
        same = (e for e in self.ranked if not self.columns[e].numeric and self.facts.pairs.alike(d, e) >= 0.9)
        return self.columns[next(same, d) if self.columns[d].numeric else d].name

    @cached_property
    def verdict(self) -> str:
        """How clear and how firm the groups are."""
        clearly = "clear" if self.clear >= 0.9 else "soft at the borders"
        placed = f"{percent(self.clear)} of the rows are placed with at least {percent(CLEAR)} probability"
        overlaps, sizes = [], []
        for card, size in zip(self.cards, self.sizes, strict=True):
            if card.overlap is not None:
                overlaps.append(card.overlap)
                sizes.append(size)
        if not overlaps:
            return f"The groups are {clearly}: {placed}. Whether they come back without some of the rows has not been computed."
        mean = float(np.average([overlap.mean for overlap in overlaps], weights=sizes))
        firm = mean >= _STABLE[0][0] and min(overlap.mean for overlap in overlaps) >= _STABLE[1][0]
        back = (
            "come back" if firm else "mostly come back" if mean >= _STABLE[1][0] else "come back only in part"
        )
        return (
            f"The groups are {clearly} and {back} when a fifth of the rows is left out: {placed}, and the "
            "groups of "
            f"{self.n_refits} such refits overlap with these by {percent(mean)} on average."
        )

    @property
    def n_refits(self) -> int:
        """Number of refits of `stability`."""
        return len(self.stability.overlap)

    @cached_property
    def refits(self) -> str:
        """How many clusters refits find, and how far fits from other seeds agree."""
        values, times = np.unique(np.asarray(self.stability.n_clusters), return_counts=True)
        found = ", ".join(f"{k} in {n}" for k, n in zip(values.tolist(), times.tolist(), strict=True))
        agreement = np.asarray(self.stability.agreement, dtype=np.float64)
        seeds = ""
        if len(agreement):
            seeds = (
                f" {plural(len(agreement), 'fit')} of all rows from other seeds: adjusted Rand index with "
                "these clusters "
                f"{number(float(agreement.mean()), 0.1)} on average, {number(float(agreement.min()), 0.1)} "
                "at least."
            )
        return f"Number of clusters in the refits: {found}.{seeds}"

    @property
    def best(self) -> int:
        """The number of clusters on the merge path with the shortest description; 0 without a path."""
        return int(min(objectives_of(self.found.merge_path_), key=lambda step: step[1], default=(0, 0.0))[0])

    @cached_property
    def shown_words(self) -> str:
        """Where the number of clusters comes from."""
        if self.found_k > self.K:
            return f"of {self.found_k} found"
        asked = self.found.n_clusters
        if asked is not None:
            return (
                "the suggested number"
                if isinstance(asked, str)
                else "as asked for"
                if asked == self.K
                else f"{asked} were asked for"
            )
        return "all that pay for themselves" if self.found.merge_path_ else "at the price given"

    @property
    def sections(self) -> list[tuple[str, str]]:
        """Anchor and name of every section."""
        groups = [
            ("overview", "Overview"),
            ("number", "How many"),
            ("map", "Map"),
            ("clusters", "Each cluster"),
        ]
        first = [("cautions", "Before you use this")] if self.cautions else []
        middle = groups if self.K > 1 else [("columns", "Columns")]
        last = [("sure", "How sure")] if self.K > 1 else []
        return [
            *first,
            *middle,
            ("links", "Linked columns"),
            *last,
            ("repeat", "Reproduce"),
            ("method", "Method"),
        ]

    @property
    def one_cluster(self) -> float:
        """The objective of one cluster."""
        return float(self.found.merge_path_[-1].objective)

    @cached_property
    def cautions(self) -> list[Caution]:
        """What could mislead a reader, important first."""
        return cautions(self)

    # ---- map, links and the end ----

    @cached_property
    def map_rows(self) -> list[tuple[str, float, str, list[Fact]]]:
        """Name, importance, the table's value, and the facts of the most important columns."""
        return [
            (
                self.columns[d].name,
                float(self.importance[d]),
                whole_table(self.columns[d]),
                [self.facts.of(k, d) for k in range(self.K)],
            )
            for d in self.ranked[:_MAP_ROWS]
        ]

    @property
    def other_columns(self) -> list[str]:
        """Names of the columns that the map leaves out."""
        return [self.columns[d].name for d in self.ranked[_MAP_ROWS:]]

    @cached_property
    def column_figures(self) -> list[tuple[str, str, Figure, str]]:
        """Name, value, figure and missing cells of the columns of the whole table, for a page without groups."""
        return [
            (
                column.name,
                whole_table(column),
                figure(column, None),
                percent(float(column.missing[-1])) if column.missing[-1] > 0 else "",
            )
            for column in self.columns[:_MAP_ROWS]
        ]

    @cached_property
    def only_unusual(self) -> list[Row]:
        """Unusual rows of a page without groups."""
        return self.cards[0].unusual

    def names_of(self, *, numeric: bool) -> str:
        """The columns of one kind."""
        return ", ".join(column.name for column in self.columns if column.numeric == numeric) or "none"

    def n_of(self, *, numeric: bool) -> int:
        """Number of columns of one kind."""
        return sum(column.numeric == numeric for column in self.columns)

    @cached_property
    def python(self) -> str:
        """The Python that gives these clusters."""
        return reproduce.python(self)

    @cached_property
    def command(self) -> str:
        """The shell command that gives these clusters, or an empty string where there is none."""
        return reproduce.command(self)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the cells as read."""
        return reproduce.fingerprint(self.table)

    @cached_property
    def versions(self) -> str:
        """Versions of what computed the clusters."""
        return reproduce.versions()

    @cached_property
    def seed(self) -> str:
        """The seed in words."""
        return reproduce.seed(self.found)


def display_order(model: Any) -> tuple[NDArray[np.intp], NDArray[np.int32]]:
    """The model's label of every cluster, largest first, and the labels of the rows in this order."""
    labels = np.asarray(model.labels_)
    sizes = np.bincount(labels, minlength=int(model.n_clusters_))
    order = np.argsort(-sizes, kind="stable")
    place = np.empty(len(order), np.int32)
    place[order] = np.arange(len(order))
    return order, place[labels]
