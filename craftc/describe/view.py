"""What every description of a fitted clustering starts from: sizes, statistics, features that differ."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from craftc._common.typing import Array, Bits, Floats, Ints, Labels
from craftc.describe.columns import AnswersColumn, CategoricalColumn, Column, OrderedColumn, typical_text
from craftc.describe.words import CELL, SHORT, clean, distinct
from craftc.table.answers import YES, AnswerGroup


@dataclass(frozen=True)
class Links:
    """What columns of a table say about each other."""

    #: Positions of two columns, the earlier first: share of the information of the simpler column that the
    #: other repeats; below a half a pair is left out.
    alike: Mapping[tuple[int, int], float] = field(default_factory=dict)
    #: Column, level, other column, its level: nine of ten rows with the first level have the second.
    implied: frozenset[tuple[int, int, int, int]] = frozenset()

    def share(self, a: int, b: int) -> float:
        """Share of the information of the simpler of two columns that the other repeats; 0 below a half."""
        return 1.0 if a == b else self.alike.get((min(a, b), max(a, b)), 0.0)


@dataclass(frozen=True)
class ClusterView:
    """Clusters of a fitted model, for summaries, names, facts, plots, the report and the command line."""

    names: Sequence[object]  # of the D input columns, as given
    statistics: Sequence[Column]  # of the D input columns
    sizes: Floats  # (K,) weight of the rows of each cluster
    differs: Bits  # (K, D) features in which a cluster differs from the whole table: the model's own rule
    selected: Bits  # (K, D) features that the model selects
    gains: Floats  # (K, D) by which features are ranked
    links: Links = field(default_factory=Links)
    named: bool = True  # whether the clusters have names
    own: Mapping[int, str] = field(default_factory=dict)  # names of one's own of clusters
    labels: Mapping[str, str] = field(default_factory=dict)  # and of columns
    groups: Sequence[AnswerGroup] = ()  # of columns of one and the same question
    members: Sequence[Sequence[int]] = ()  # input columns of every column, where groups are one column
    given_order: Labels | None = None  # (K,) clusters by their numbers, where these are not by size

    @property
    def has_names(self) -> bool:
        """Whether the clusters have names, their own or given ones."""
        return self.named or bool(self.own)

    @cached_property
    def features(self) -> list[object]:
        """The D columns by the names that descriptions use."""
        return [self.labels.get(str(name), name) for name in self.names]

    @cached_property
    def columns(self) -> list[str]:
        """`features` as texts of one line; different names differ."""
        return distinct([clean(name) for name in self.features], 200)

    @cached_property
    def short(self) -> list[str]:
        """`columns` of at most 40 characters."""
        return distinct(self.columns, CELL)

    @cached_property
    def shortest(self) -> list[str]:
        """`columns` of at most 30 characters, for names of clusters."""
        return distinct(self.columns, SHORT, heads=False)

    @cached_property
    def order(self) -> Ints:
        """(K,) clusters by their numbers: the largest first, of equal ones the lower label first, unless the
        numbers are given.
        """
        return order_by_size(self.sizes) if self.given_order is None else self.given_order.astype(np.intp)

    @cached_property
    def shares(self) -> Floats:
        return np.asarray(self.sizes / self.sizes.sum())

    @cached_property
    def shared(self) -> Bits:
        """(K, D) features in which a cluster has the distribution of two or more clusters."""
        return np.asarray(~self.selected & ((~self.selected).sum(axis=0) > 1))

    @cached_property
    def importances(self) -> Floats:
        """(D,) gains of every column, summed over the clusters that differ in it."""
        return np.asarray(np.where(self.differs, self.gains, 0.0).sum(axis=0))

    @cached_property
    def per_row(self) -> Floats:
        """(K, D) gains divided by the rows of the cluster."""
        return np.asarray(self.gains / np.maximum(self.sizes, 1e-300)[:, None])

    @cached_property
    def grouped(self) -> ClusterView:
        """The clusters with one column for each group of answers, in the place of its first column."""
        if not self.groups:
            return replace(self, members=[[d] for d in range(len(self.names))])
        group_of = {d: group for group in self.groups for d in group.positions}
        members = [
            list(group_of[d].positions) if d in group_of else [d]
            for d in range(len(self.names))
            if d not in group_of or d == group_of[d].positions[0]
        ]
        differs = np.column_stack([self.differs[:, at].any(axis=1) for at in members])
        own = np.where(self.differs, self.gains, 0.0)
        gains = [
            np.where(differs[:, i], own[:, at].sum(axis=1), self.gains[:, at].sum(axis=1))
            for i, at in enumerate(members)
        ]
        statistics = [
            self.statistics[at[0]] if at[0] not in group_of else self._answers(group_of[at[0]])
            for at in members
        ]
        place = {d: i for i, at in enumerate(members) for d in at}
        alike: dict[tuple[int, int], float] = {}
        for (a, b), share in self.links.alike.items():
            pair = min(place[a], place[b]), max(place[a], place[b])
            if pair[0] != pair[1]:
                alike[pair] = max(share, alike.get(pair, 0.0))
        implied = frozenset(
            (place[a], s, place[b], t)
            for a, s, b, t in self.links.implied
            if a not in group_of and b not in group_of
        )
        return replace(
            self,
            names=[group_of[at[0]].name if at[0] in group_of else self.names[at[0]] for at in members],
            statistics=statistics,
            differs=differs,
            selected=np.column_stack([self.selected[:, at].any(axis=1) for at in members]),
            gains=np.column_stack(gains),
            links=Links(alike, implied),
            groups=(),
            members=members,
        )

    def _answers(self, group: AnswerGroup) -> AnswersColumn:
        """The statistics of a group of answers."""
        columns = [self.statistics[d] for d in group.positions]
        shares = [
            column.shares[:, column.levels.index(YES)]
            for column in columns
            if isinstance(column, CategoricalColumn)
        ]
        return AnswersColumn(group.options, np.column_stack(shares))

    def in_order(self, order: Ints) -> ClusterView:
        rows = np.append(order, -1)
        return replace(
            self,
            own={place: self.own[k] for place, k in enumerate(order.tolist()) if k in self.own},
            statistics=[column.in_order(rows) for column in self.statistics],
            sizes=self.sizes[order],
            differs=self.differs[order],
            selected=self.selected[order],
            gains=self.gains[order],
            given_order=np.arange(len(order), dtype=np.int32),
        )

    def ranked(self, k: int) -> list[int]:
        """Columns in which cluster k differs, the largest gain first."""
        return [d for d in np.argsort(-self.gains[k], kind="stable").tolist() if self.differs[k, d]]

    def typical(self, k: int, d: int, of: int | None = None) -> str:
        """Typical value of a column in cluster k; -1: in the whole table. `of`: the cluster that chooses the
        part of a scale.
        """
        column = self.statistics[d]
        levels = (
            column.leading(of)
            if of is not None and isinstance(column, OrderedColumn | AnswersColumn)
            else None
        )
        return typical_text(column.typical(k, levels))


def order_by_size(sizes: Array) -> Ints:
    """The labels of clusters from the largest to the smallest; of equal ones the lower label first."""
    return np.argsort(-sizes, kind="stable")


def numbers_by_size(sizes: Array) -> Labels:
    """The number 1, 2, ... of the cluster with each label: 1 is the largest."""
    return numbers_of(order_by_size(sizes))


def numbers_of(order: Ints | Labels) -> Labels:
    """The number 1, 2, ... of the cluster with each label, from the clusters by their numbers."""
    number_of = np.empty(len(order), np.int32)
    number_of[order] = np.arange(1, len(order) + 1, dtype=np.int32)
    return number_of


def links_of(alike: Iterable[tuple[int, int, float]], implied: Iterable[tuple[int, int, int, int]]) -> Links:
    return Links({(a, b): share for a, b, share in alike}, frozenset(implied))
