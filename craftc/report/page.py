"""The content of a report: everything that the templates print, from a model and its table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from craftc._common.merge_path import objectives_of, saving_of, shortest_step
from craftc._common.typing import Ints, Labels
from craftc.describe.columns import CodesColumn, NumericColumn, PeriodicColumn
from craftc.describe.facts import REPEATS, Fact, Facts, whole_table
from craftc.describe.structure import CLEAR, FIRM, WITHOUT_BOUNDS, Structure, nearly_as_good
from craftc.describe.table_one import Profile
from craftc.describe.view import numbers_of, order_by_size
from craftc.describe.words import count, listing, number, percent, plural
from craftc.report.assigning import PageRules, page_profile, page_rules
from craftc.report.columns import DrawnColumn, Pairs, grouped, read_columns, with_rows
from craftc.report.figures import Figure, figure
from craftc.report.links import Link, column_links
from craftc.report.map import PageMap, page_map
from craftc.report.merge_tree import MergeTree, merge_tree
from craftc.report.rows import BETWEEN, Row, certainty, typical, unusual
from craftc.report.target import Target
from craftc.table import MixedTable
from craftc.table.personal import HIDDEN

if TYPE_CHECKING:
    from markupsafe import Markup

    from craftc.craft.answers.stability import Stability
    from craftc.craft.base import CraftBase
    from craftc.craft.changes import Changes

FIGURES = 6  # of a card
_OPEN_CARDS = 12  # clusters whose cards are open
_MORE = 8  # further features named in a card
_MOST_FEATURES = 30
_STABLE = ((0.85, "stable"), (FIRM, "fairly stable"), (0.6, "doubtful"))  # least mean overlaps


@dataclass
class Overlap:
    """How far a cluster comes back in refits: Jaccard overlaps, and the share of refits that find it."""

    mean: float
    lowest: float
    found: float
    reading: str


@dataclass
class Card:
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
        return "; ".join(fact.long for fact in self.leading)

    @property
    def more(self) -> str:
        """Further features in which it differs."""
        rest = [fact for fact in self.facts[len(self.figures) :] if fact.state != "background"]
        named = [fact.long for fact in rest[:_MORE]]
        if len(rest) > _MORE:
            named.append(plural(len(rest) - _MORE, "other feature"))
        return "; ".join(named)


class Change(NamedTuple):
    """What became of a cluster; number 0: it has none."""

    number: int
    name: str
    what: str
    was: int  # its number in the former model
    then: float
    now: float


class Page:
    """The content of a report on a model."""

    def __init__(
        self,
        model: CraftBase,
        table: MixedTable,
        target: Target | None,
        stability: Stability | None,
        title: str,
        structure: Structure,
        numbers: Ints,
    ) -> None:
        self.model, self.table, self.target = model, table, target
        self.stability, self.title = stability, title
        self.n_refits = 0 if stability is None else len(stability.overlap)
        self.K, self.N = int(model.n_clusters_), len(table)
        self.order, self.labels = display_order(model)
        self.sizes = np.bincount(self.labels, minlength=self.K)
        by_input = model._input_clusters().in_order(self.order)
        self.names = Facts(by_input.grouped).names()
        self._by_input = by_input = with_rows(by_input, table, self.labels)
        view = by_input.grouped
        self.facts = Facts(view)
        self.inputs = read_columns(by_input, table, self.labels)  # of the table, each answer by itself
        self.columns = grouped(self.inputs, view)
        self.D = len(self.columns)
        self.weighted = bool((view.sizes != self.sizes).any())
        importance = view.importances
        self.importance = importance / max(float(importance.max(initial=0.0)), 1e-300)
        self.ranked = np.argsort(-importance, kind="stable").tolist()
        self.sure = certainty(model, table, self.labels, self.order, numbers)
        self.clear = float((self.sure.probability >= CLEAR).mean())
        self.structure = replace(structure, clear=self.clear)
        self.ratio = float(model.dependence_ratio_)
        self.separate = model._fitted.links.factor.separate
        self.on_factor = listing(self.inputs[j].short for j in model._on_factor)
        self.links: list[Link] = column_links(model, self.inputs, Pairs(self.inputs), table)
        self.tree: MergeTree | None = merge_tree(model.merge_path_, self.sizes, np.argsort(self.order))
        self.members = np.split(np.argsort(self.labels, kind="stable"), np.cumsum(self.sizes)[:-1])
        self.cards = [self._card(k) for k in range(self.K)]

    # ---- cards ----

    def _card(self, k: int) -> Card:
        facts, rows, label = self.facts.ranked(k), self.members[k], int(self.order[k])
        shown = facts[:FIGURES]
        columns = [self.columns[fact.d] for fact in shown]
        p, second = self.sure.probability[rows], self.sure.second[rows]
        p = p if len(p) else np.ones(1)  # a fixed cluster may have no rows
        card = Card(
            k + 1,
            label,
            self.names[k],
            int(self.sizes[k]),
            float(self.sizes[k] / self.N),
            self.facts.leading(k) or facts[:1],
            facts,
            [(fact, figure(column, k), _gap(column, k)) for fact, column in zip(shown, columns, strict=True)],
            float((p >= CLEAR).mean()),
            float(((p >= BETWEEN) & (p < CLEAR)).mean()),
            float((p < BETWEEN).mean()),
            int(np.bincount(second, minlength=self.K).argmax()) + 1 if self.K > 1 else 0,
            typical(self.representatives[label], columns, self.table, self.sure, self.target),
            unusual(self.model, rows, self.inputs, self.table, self.sure, self.target),
            [column.short for column in columns if not column.personal],
            self._overlap(label),
            k < _OPEN_CARDS,
        )
        if (target := self.target) is not None:
            card.mix, card.target, card.order = target.mix[k].tolist(), target.words[k], target.order[k]
        return card

    @cached_property
    def representatives(self) -> list[Ints]:
        """Typical rows of every cluster, by the labels of the model."""
        return list(self.model.representatives(30, self.table))

    def _overlap(self, label: int) -> Overlap | None:
        if self.stability is None:
            return None
        overlap = np.asarray(self.stability.overlap, dtype=np.float64)[:, label]
        overlap = overlap[~np.isnan(overlap)]
        if not len(overlap):  # no row of the cluster is in any refit
            return None
        mean = float(overlap.mean())
        reading = next((word for least, word in _STABLE if mean >= least), "unstable")
        return Overlap(mean, float(overlap.min()), float((overlap >= FIRM).mean()), reading)

    # ---- the top of the page ----

    @cached_property
    def headline(self) -> str:
        """One sentence: how many groups, whether they are clear, and what they are."""
        rows = f"The {count(self.N)} rows"
        if self.K == 1:
            if self.model._asked:
                return f"{rows} are one group, {self.shown_words}."
            return f"{rows} do not fall into groups: one description fits them all."
        if self.structure.kind == "none":
            better = "columns in a random order make groups of the same worth"
            if (self.structure.saving or 0.0) <= 0.0:
                better = f"{self.K} groups describe them no better than one"
            return f"{rows} show no structure: {better}."
        fall = f"{rows} fall into {self.structure.groups}"
        if self.K == 2:
            groups = (f"{card.name} ({percent(card.share)})" for card in self.cards)
            return f"{fall}: {', and '.join(groups)}."
        named, links = list[int](), self.facts.view.links
        for d in self.ranked:
            if self.importance[d] > 0 and all(links.share(d, e) < REPEATS for e in named):
                named.append(d)
            if len(named) == 3:
                break
        by = f", which differ mainly in {listing(self._spoken(d) for d in named)}" if named else ""
        largest = max(self.cards, key=lambda card: card.n)
        return f"{fall}{by}; the largest ({percent(largest.share)}) is {largest.name}."

    def _spoken(self, d: int) -> str:
        """A column, or the category that says the same as a number: education rather than education_num."""
        share = self.facts.view.links.share
        same = (e for e in self.ranked if not self.columns[e].numeric and share(d, e) >= 0.9)
        return self.columns[next(same, d) if self.columns[d].numeric else d].short

    @cached_property
    def verdict(self) -> str:
        """How clear and how firm the groups are."""
        facts = self.structure.facts
        text = f"{facts[0].upper()}{facts[1:]}." if facts else ""
        if self.K == 1 and self.model._bounded:
            return f"{text} {WITHOUT_BOUNDS}".lstrip()
        if self.stability is not None or self.K == 1:
            return text
        return f"{text} Whether they come back without some of the rows has not been computed."

    @cached_property
    def refits(self) -> str:
        """How many clusters refits find, and how far fits from other seeds agree."""
        if self.stability is None:
            return ""
        times = Counter(self.stability.n_clusters.tolist())
        found = ", ".join(f"{k} in {n}" for k, n in sorted(times.items()))
        agreement = self.stability.agreement
        seeds = ""
        if len(agreement):
            seeds = (
                f" {plural(len(agreement), 'fit')} of all rows from other seeds: adjusted Rand index with "
                f"these clusters {number(round(float(agreement.mean()), 2))} on average, "
                f"{number(round(float(agreement.min()), 2))} at least."
            )
        return f"Number of clusters in the refits: {found}.{seeds}"

    @property
    def best(self) -> int:
        """The number of clusters on the merge path with the shortest description; 0 without a path."""
        objectives = objectives_of(self.model.merge_path_)
        return objectives[shortest_step(objectives)][0] if objectives else 0

    @cached_property
    def nearly(self) -> str:
        """Other numbers of clusters that describe the table nearly as well."""
        return nearly_as_good(objectives_of(self.model.merge_path_), self.model.price_factor_)[2]

    @cached_property
    def shown_words(self) -> str:
        """Where the number of clusters comes from."""
        asked = self.model.n_clusters
        if isinstance(asked, int | np.integer):
            return "as asked for" if asked == self.K else f"{asked} were asked for"
        if 1 < self.model.max_clusters <= self.K:
            return "the most that max_clusters allows"
        if self.model._asked:
            return "within the bounds asked for"
        return "all that pay for themselves" if self.model.merge_path_ else "at the price given"

    @property
    def sections(self) -> list[tuple[str, str]]:
        links, end = ("links", "Linked columns"), [("repeat", "Reproduce"), ("method", "Method")]
        since = [("since", "Since last time")] if self.changes else []
        if self.K == 1:
            return [("columns", "Columns"), *since, links, *end]
        rules = [("rules", "Rules")] if self.rules else []
        groups = [("overview", "Overview"), *since, ("map", "Map"), ("features", "Features"), *rules]
        evidence = [("number", "How many"), ("sure", "How sure"), links, ("table", "All columns")]
        return [*groups, ("clusters", "Each cluster"), *evidence, *end]

    @property
    def by_size(self) -> bool:
        """Whether the clusters are numbered by size, and not as they were before a refit."""
        return self.model._fitted.order is None

    @property
    def largest_share(self) -> float:
        """Share of the rows of the largest cluster."""
        return max(card.share for card in self.cards)

    @cached_property
    def changes(self) -> list[Change]:
        """What became of the clusters in the latest refit; empty after a fit."""
        found: Changes | None = getattr(self.model, "changes_", None)
        if found is None:
            return []
        number_of, former, out = numbers_of(self.order), found.former_numbers, []
        for each in found.segments:
            what, other = each.change, each.other
            if other >= 0:
                what += f" with {number_of[other]}" if what == "merged" else f" from {former[other]}"
            number = int(number_of[each.cluster]) if each.cluster >= 0 else 0
            was = former[each.former] if each.former >= 0 else 0
            out.append(Change(number, each.name, what, was, each.then, each.now))
        return out

    @cached_property
    def chance(self) -> float | None:
        """Share of the most that clusters save which tables with permuted columns reach; None without."""
        savings, sampled = self.structure.null_savings, self.structure.n_sampled
        if not savings or self.tree is None:
            return None
        times = self.N / sampled if sampled else 1.0
        return times * max(0.0, *savings) / saving_of(objectives_of(self.model.merge_path_))

    @property
    def one_cluster(self) -> float:
        return float(objectives_of(self.model.merge_path_)[-1][1])

    # ---- map, rules and all columns ----

    @cached_property
    def map(self) -> PageMap:
        return page_map(self.model, self.table, self.labels, self.order)

    @cached_property
    def rules(self) -> PageRules | None:
        """Short rules by the columns of the map of features."""
        members = (self.facts.view.members[d] for d in self.ranked[:_MOST_FEATURES])
        return page_rules(self.model, self.table, self.labels, self.K, [d for at in members for d in at])

    @cached_property
    def _profile(self) -> tuple[Profile, int]:
        ranked = np.argsort(-self._by_input.importances, kind="stable").tolist()
        return page_profile(self.table, self.labels, self._by_input, self.names, ranked)

    @property
    def profile_table(self) -> Markup:
        """The table of all columns by cluster."""
        from markupsafe import Markup

        return Markup(self._profile[0]._html_table())

    @property
    def n_profiled(self) -> int:
        """The columns of that table."""
        return self._profile[1]

    # ---- features, links and the end ----

    @cached_property
    def feature_rows(self) -> list[tuple[str, float, str, list[Fact]]]:
        """Name, importance, the table's value, and the facts of the most important columns."""
        rows = []
        for d in self.ranked[:_MOST_FEATURES]:
            facts = [self.facts.of(k, d) for k in range(self.K)]
            hidden = self.columns[d].personal and not self.columns[d].numeric
            value = HIDDEN if hidden else whole_table(self.facts.view, d)
            rows.append((self.columns[d].name, float(self.importance[d]), value, facts))
        return rows

    @property
    def other_columns(self) -> list[str]:
        return [self.columns[d].name for d in self.ranked[_MOST_FEATURES:]]

    @cached_property
    def column_figures(self) -> list[tuple[str, str, Figure, str]]:
        """Name, value, figure and missing cells of the columns of the table, for a page without groups."""
        figures = []
        for d, column in enumerate(self.columns[:_MOST_FEATURES]):
            if column.personal and not column.numeric:
                figures.append((column.name, HIDDEN, Figure(column.name), _gap(column, -1)))
                continue
            value = whole_table(self.facts.view, d)
            of = column.statistics
            if isinstance(of, NumericColumn) and not isinstance(of, PeriodicColumn | CodesColumn):
                value = value if of.spike is not None else f"{'median' if of.skewed else 'mean'} {value}"
            figures.append((column.name, value, figure(column, None), _gap(column, -1)))
        return figures

    @cached_property
    def used(self) -> list[DrawnColumn]:
        """The columns of a weight above 0."""
        weights = self.model._fitted.column_weights
        members = zip(self.columns, self.facts.view.members, strict=True)
        return [column for column, at in members if any(weights[j] > 0.0 for j in at)]

    @property
    def units(self) -> str:
        """The units of the columns, as the table was read: "wait in hours, price in €"; empty without any."""
        schema, found = self.model.schema_, []
        recipes = schema.reading.get("columns", {})
        for column, at in zip(self.columns, self.facts.view.members, strict=True):
            recipe = recipes.get(schema.columns[at[0]])
            said = recipe if isinstance(recipe, Mapping) else {}
            if said.get("unit") and column.numeric:
                found.append(f"{column.name} in {said['unit']}")
        return ", ".join(found)

    def names_of(self, *, numeric: bool) -> str:
        return ", ".join(column.name for column in self.used if column.numeric == numeric) or "none"

    def n_of(self, *, numeric: bool) -> int:
        return sum(column.numeric == numeric for column in self.used)


def _gap(column: DrawnColumn, k: int) -> str:
    """The share of missing cells in a cluster; empty without any."""
    return percent(float(column.missing[k])) if column.missing[k] > 0 else ""


def display_order(model: CraftBase) -> tuple[Ints, Labels]:
    """The model's labels of the clusters by their numbers, and the labels of the rows in this order."""
    labels = np.asarray(model._partition)
    order = model._fitted.by_number
    if model._fitted.order is None:
        order = order_by_size(np.bincount(labels, minlength=int(model.n_clusters_)))
    place = np.empty(len(order), np.int32)
    place[order] = np.arange(len(order))
    return order, place[labels]
