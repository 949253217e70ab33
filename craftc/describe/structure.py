"""Whether a table has groups, and how many, in words."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from craftc._common.merge_path import n_clusters_within, shortest_step
from craftc._common.messages import quoted
from craftc.describe.words import listing, nats, percent, plural, range_of, ratio

CLEAR = 0.9  # least probability of a row that is clearly placed; least share of such rows in clear groups
FIRM = 0.75  # least overlap of a cluster that is found again, and least agreement of fits
WITHOUT_BOUNDS = "Whether there are more groups without these bounds was not tried."
_NEARLY_ALL = 0.95  # least share of the rows in one cluster if the others may be outliers
_SAME = 0.9  # least agreement of fits that are nearly equal
_FIRMER = 1.25  # times what clusters of permuted columns save; two such savings differ by less
_TIE = 5.0  # nats by which another number of clusters is nearly as good, at a price factor of 1


@dataclass(frozen=True)
class Structure:
    """What is known about the clusters of a table as a whole, and one sentence that says it.

    Attributes
    ----------
    n_clusters : int
        Clusters of the model.
    saving : float or None
        Nats by which they are shorter than one cluster; None without a merge path.
    null_savings : sequence of float
        The same saving in tables with permuted columns.
    n_sampled : int
        Rows of the sample that `saving` and `null_savings` are of; 0 if they are of the whole table.
    one_and_two : (float, float) or None
        J of one cluster, and of the best partition into two, where no clusters were found.
    asked : bool
        Whether the number of clusters was given.
    bounded : bool
        Whether bounds on their number or sizes, or groups of rows, were given.
    fewer : (int, float) or None
        The number of clusters further along the merge path that describes the table best, if it is better
        than the number that was asked for, and the nats it saves more.
    links, factor, dependence_ratio : float
        Nats that links between columns and one continuous factor behind them save, and what the better of the
        two saves over what clusters save.
    pattern : float or None
        What the dependence between columns inside clusters is to what clusters save, where these touch and it
        points from each to the next, as in pieces of a gradual pattern.
    largest : float or None
        Share of the rows that are in the largest cluster.
    slices : int or None
        Clusters that are left at four times the price, where these are few because columns depend on each
        other.
    clear : float or None
        Share of the rows that are clearly placed.
    agreement : sequence of float
        Adjusted Rand indices with fits from other seeds or, of a long table, on another sample.
    overlap : float or None
        Mean overlap of the clusters with those of refits on parts of the rows.
    nearly : float
        Nats by which a description may be longer and is nearly as good.
    column : (str, float) or None
        A column whose values alone tell all clusters apart, and its share of what these save, if that is more
        than half of it.
    scattered : (int, float) or None
        Clusters of outliers or tails, and the share of the rows in them: their rows lie farther apart than
        those of the whole table or of the clusters that they surround, or one number sets them apart from a
        larger cluster.
    """

    n_clusters: int
    saving: float | None = None
    null_savings: Sequence[float] = ()
    n_sampled: int = 0
    one_and_two: tuple[float, float] | None = None
    asked: bool = False
    bounded: bool = False
    fewer: tuple[int, float] | None = None
    links: float = 0.0
    factor: float = 0.0
    dependence_ratio: float = math.nan
    pattern: float | None = None
    largest: float | None = None
    slices: int | None = None
    clear: float | None = None
    agreement: Sequence[float] = ()
    overlap: float | None = None
    nearly: float = 0.0
    column: tuple[str, float] | None = None
    scattered: tuple[int, float] | None = None

    @property
    def kind(self) -> str:
        """The first that holds of one, none, weak, more, seed, parts, gradual, price, outliers, column,
        unknown, soft and clear.

        none: clusters save nothing in any number on the merge path, or hardly more than in a table with
        permuted columns. weak: one cluster is nearly as good. more: fewer clusters than were asked for are
        the better description, and links save less than these. seed, parts: fits from other seeds, or on
        parts of the rows, find other clusters. gradual: links between columns, or one continuous factor, save
        more, or columns depend on each other inside clusters as they do between them. price: four times the
        price leaves much fewer clusters, because columns depend on each other. outliers: all clusters but one
        hold outliers or tails of that one. column: clusters are the values of one column, and the others add
        less than half of what they save. soft: fewer than 90 % of the rows are clearly placed.
        """
        if self.n_clusters == 1:
            return "one"
        more = 1 < self._best < self.n_clusters  # these may cost more than one cluster
        by_chance = max(self.null_savings, default=-math.inf)
        least = max(-math.inf if more else 0.0, by_chance, _FIRMER * by_chance)
        if self.saving is not None and self.saving <= least:
            return "none"
        if self.saving is not None and not self.n_sampled and not more and self.saving <= self.nearly:
            return "weak"
        gradual = self.dependence_ratio > 1.0 or self.pattern is not None
        if more and not gradual:
            return "more"
        if len(self.agreement) and float(np.mean(self.agreement)) < FIRM:
            return "seed"
        if self.overlap is not None and self.overlap < FIRM:
            return "parts"
        if gradual:
            return "gradual"
        if self.slices is not None:
            return "price"
        if self.scattered is not None and self.scattered[0] == self.n_clusters - 1:
            return "outliers"
        if self.column is not None:
            return "column"
        if self.clear is None:
            return "unknown"
        return "clear" if self.clear >= CLEAR else "soft"

    @property
    def _best(self) -> int:
        """The number of clusters on the merge path that describes the table best."""
        return self.n_clusters if self.fewer is None else self.fewer[0]

    @property
    def rival(self) -> str:
        """What describes the table best without groups, with its verb."""
        factor = self.factor > self.links
        return "one continuous factor behind the columns saves" if factor else "links between columns save"

    @property
    def groups(self) -> str:
        """What the clusters are: ``3 clear groups``."""
        K = self.n_clusters
        return {
            "one": plural(K, "group"),
            "none": f"{K} groups without structure",
            "weak": f"{K} weakly supported groups",
            "more": f"{K} groups, more than the {self._best} that would be found",
            "seed": f"{K} groups that move with the seed",
            "parts": f"{K} groups that change when rows are left out",
            "gradual": f"{K} pieces of a gradual pattern",
            "price": f"{K} groups whose number depends on the price",
            "outliers": "one group with outliers",
            "column": f"{K} groups by the values of one column",
            "soft": self._besides_outliers("overlapping groups"),
            "clear": self._besides_outliers("clear groups"),
            "unknown": self._besides_outliers("groups"),
        }[self.kind]

    def _besides_outliers(self, groups: str) -> str:
        """``3 clear groups and 2 clusters of possible outliers``."""
        if self.scattered is None:
            return f"{self.n_clusters} {groups}"
        n = self.scattered[0]
        return f"{self.n_clusters - n} {groups} and {plural(n, 'cluster')} of possible outliers"

    @property
    def sentence(self) -> str:
        """The kind and the facts that it follows from; empty if nothing is known."""
        facts, kind = self.facts, self.kind
        if kind == "one":
            if self.asked:
                return f"One cluster: {facts}." if facts else ""
            if self.bounded:
                known = f": {facts}" if facts else ""
                return f"One cluster, within the bounds asked for{known}. {WITHOUT_BOUNDS}"
            return f"No clusters found: {facts}." if facts else "No clusters found."
        head = {
            "none": "no structure",
            "more": f"more groups than the {self._best} that would be found",
            "outliers": self.groups,
        }.get(kind, self.groups.partition(" ")[2])
        return f"{head[0].upper()}{head[1:]}: {facts}." if facts else ""

    @property
    def facts(self) -> str:
        """All that is known, as main clauses."""
        return "; ".join(self._of_one_cluster() if self.n_clusters == 1 else self._of_clusters())

    def _of_one_cluster(self) -> Iterator[str]:
        if self.one_and_two is not None:
            one, two = self.one_and_two
            more = f"{nats(abs(two - one))} {'more' if two >= one else 'less'}"
            yield f"{self._sample}one cluster costs {nats(one)} nats, the best partition into two {more}"
        if self.links > 0.0:
            yield f"columns depend on each other, and links between them save {nats(self.links)} nats"

    def _of_clusters(self) -> Iterator[str]:
        if self.saving is not None:
            they = f"{self.n_clusters} groups" if self.kind == "none" else "they"
            sign = 1.0 if self.saving >= 0.0 else -1.0
            verb, than = ("save", "over one cluster") if sign > 0.0 else ("cost", "more than one cluster")
            null = ""
            if n := len(self.null_savings):
                tables = f"in {n} tables " if n > 1 else ""
                savings = [sign * saving + 0.0 for saving in self.null_savings]
                null = f", {tables}with permuted columns {range_of(savings, nats)}"
            yield f"{self._sample}{they} {verb} {nats(abs(self.saving))} nats {than}{null}"
        if self.fewer is not None and self._best > 1:
            yield f"{self._best} groups save {nats(self.fewer[1])} nats more"
        if math.isinf(self.dependence_ratio):
            yield f"{self.rival} {nats(max(self.links, self.factor))} nats"
        elif self.dependence_ratio > 1.0:
            yield f"{self.rival} {ratio(self.dependence_ratio)} times as much as groups"
        if self.pattern is not None:
            part = f"{percent(self.pattern)} of what groups save"
            yield f"columns depend on each other inside groups as they do between them, by {part}"
        if self.largest is not None and self.largest >= _NEARLY_ALL:
            others = "the other one" if self.n_clusters == 2 else "the others"
            yield f"one of them holds {percent(self.largest)} of the rows, and {others} may be outliers"
        if self.scattered is not None:
            n, share = self.scattered
            which = "the rows of one of them" if n == 1 else f"the rows of {n} of them"
            apart = "lie far apart, or one number sets them apart from a larger group"
            yield f"{which} ({percent(share)} of all) {apart}: they may be outliers"
        if self.column is not None:
            name, share = self.column
            yield f"the values of {quoted(name)} alone tell them apart: {percent(share)} of what they save"
        if self.slices is not None:
            yield f"{self.slices} of them would be left at four times the price"
        if self.clear is not None:
            placed = f"{percent(self.clear)} of the rows are placed"
            yield f"{placed} with at least {percent(CLEAR)} probability"
        if n := len(self.agreement):
            fits = f"{plural(n, 'other fit')} {'agrees' if n == 1 else 'agree'} with them"
            yield f"{fits} by {float(np.mean(self.agreement)):.2f} (adjusted Rand index)"
        if self.overlap is not None:
            yield f"refits on 80 % of the rows overlap with them by {percent(self.overlap)}"

    @property
    def _sample(self) -> str:
        return f"in a sample of {plural(self.n_sampled, 'row')} " if self.n_sampled else ""


@dataclass(frozen=True)
class Starts:
    """Fits from several seeds, that of the lowest J first."""

    seeds: Sequence[int]
    n_clusters: Sequence[int]
    objectives: Sequence[float]
    agreement: Sequence[float]  # adjusted Rand index of every other fit with the first

    @property
    def disagreement(self) -> str:
        """One line about other partitions or numbers of clusters; empty if all fits are nearly equal."""
        n = len(self.agreement)
        if not n or (min(self.agreement) >= _SAME and len({*self.n_clusters}) == 1):
            return ""
        one, *others = self.objectives
        K = range_of(self.n_clusters[1:], str)
        have, cost, agree = ("has", "costs", "agrees") if n == 1 else ("have", "cost", "agree")
        return (
            f"Seeds disagree: {plural(n, 'other fit')} {have} {K} cluster{'' if K == '1' else 's'}, {cost} "
            f"{range_of([each - one for each in others], nats)} nats more and {agree} with this one, of seed "
            f"{self.seeds[0]}, by {range_of(self.agreement, '{:.2f}'.format)} (adjusted Rand index)."
        )


def clearly_better(objectives: Sequence[tuple[int, float]], price_factor: float) -> tuple[int, float] | None:
    """The best number of clusters of a merge path and the nats by which it is better than the first, if the
    first is not nearly as good.
    """
    K, least = objectives[shortest_step(objectives)] if objectives else (0, math.inf)
    better = objectives[0][1] - least if objectives else 0.0
    return (K, better) if better > (0.0 if K == 1 else nearly(price_factor)) else None


def nearly(price_factor: float) -> float:
    """Nats by which a description may be longer and is nearly as good."""
    return _TIE * max(1.0, price_factor)


def nearly_as_good(
    objectives: Sequence[tuple[int, float]], price_factor: float
) -> tuple[float, list[int], str]:
    """5 nats, times a price factor above 1; the numbers of clusters of a merge path within these of the best;
    and a sentence, which is empty if there is only one.
    """
    most = nearly(price_factor)
    numbers = n_clusters_within(objectives, most) if objectives else []
    several = f"{listing(numbers)} clusters describe the table nearly as well: within {nats(most)} nats."
    return most, numbers, several if len(numbers) > 1 else ""
