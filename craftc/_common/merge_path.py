"""The merge path: partitions from the result of a fit down to one cluster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from craftc._common.labels import chunks, join, renumber
from craftc._common.typing import Array, Labels

_NO_ROWS: Labels = np.empty(0, np.int32)  # of a step in which no row moves by itself


class MergeStep(NamedTuple):
    """One partition of the merge path."""

    n_clusters: int
    objective: float
    labels: Array
    # clusters of the step before that were merged; passes may move rows afterwards; None: the first step
    merged: tuple[int, int] | None
    # the cluster as which each cluster of the step before continues; None for the first step
    heirs: Labels | None


class Change(NamedTuple):
    """From one step of a path to the next."""

    merged: tuple[int, int]
    heirs: Labels
    place: Labels  # where most rows of every cluster went
    moved: Labels = _NO_ROWS  # the other rows
    where: Labels = _NO_ROWS  # and their clusters


def objectives_of(path: Sequence[MergeStep]) -> list[tuple[int, float]]:
    """(K, J) of every step of a path; none without a path."""
    return path.objectives() if isinstance(path, MergePath) else []


def saving_of(objectives: Sequence[tuple[int, float]]) -> float:
    """J(1) - J(best): nats by which the best partition of a path, which ends at one cluster, lowers J."""
    return objectives[-1][1] - objectives[shortest_step(objectives)][1]


def shortest_step(objectives: Sequence[tuple[int, float]]) -> int:
    """The step of a path with the lowest J, the first of several."""
    return min(range(len(objectives)), key=lambda i: objectives[i][1])


def n_clusters_within(objectives: Sequence[tuple[int, float]], nats: float) -> list[int]:
    """The numbers of clusters of a path whose J is at most `nats` above the lowest, ascending."""
    most = min(objective for _, objective in objectives) + nats
    return sorted(n_clusters for n_clusters, objective in objectives if objective <= most)


class MergePath(Sequence[MergeStep]):
    """Partitions down to one cluster, stored as differences; the labels of a step are rebuilt when it is
    read.

    `labels` (n,): labels of the first step, which are kept; None: the path does not know the rows, and
    the labels of its steps cannot be read.
    """

    def __init__(self, labels: Array | None, n_clusters: int, objective: float) -> None:
        self._labels = labels
        self._steps = [(n_clusters, objective)]
        self._changes: list[Change] = []

    def append(
        self,
        n_clusters: int,
        objective: float,
        before: Array,
        after: Array,
        merged: tuple[int, int] | None = None,
    ) -> None:
        """Add a step: the partition `before`, numbered as the last step, becomes `after`, numbered by first
        appearance.

        `merged` is the pair of clusters that were merged; None: the first two that continue as one.
        """
        change = change_by(shared_rows(before, after, self._steps[-1][0], n_clusters), merged)
        place = change.place
        moved = np.concatenate(
            [rows.start + np.flatnonzero(place[before[rows]] != after[rows]) for rows in chunks(len(before))]
        )
        self._steps.append((n_clusters, objective))
        self._changes.append(
            change._replace(moved=moved.astype(np.int32), where=after[moved].astype(np.int32))
        )

    def append_change(self, n_clusters: int, objective: float, change: Change) -> None:
        """Add a step by its change."""
        self._steps.append((n_clusters, objective))
        self._changes.append(change)

    def append_merge(self, objective: float, i: int, j: int) -> None:
        """Add a step in which cluster j joins cluster i < j; later clusters shift down."""
        n_clusters = self._steps[-1][0]
        place = np.arange(n_clusters, dtype=np.int32)
        join(place, i, j)
        self._steps.append((n_clusters - 1, objective))
        self._changes.append(Change((i, j), place, place))

    @property
    def has_labels(self) -> bool:
        """Whether the labels of the steps can be read."""
        return self._labels is not None

    def objectives(self) -> list[tuple[int, float]]:
        """(K, J) of every step, without its labels."""
        return list(self._steps)

    def changes(self) -> list[Change]:
        """What leads from every step to the next."""
        return list(self._changes)

    def down_to(self, n_clusters: int) -> int:
        """The first step of at most this many clusters."""
        return next(i for i, (K, _) in enumerate(self._steps) if n_clusters >= K)

    def after(self, start: int) -> MergePath:
        """The path from one of its steps on."""
        path = MergePath(
            None if self._labels is None else self._renumbered(self._labels.copy(), start),
            *self._steps[start],
        )
        path._steps, path._changes = self._steps[start:], self._changes[start:]
        return path

    def __repr__(self) -> str:
        return f"MergePath({self._steps[0][0]} to {self._steps[-1][0]} clusters)"

    def __len__(self) -> int:
        return len(self._steps)

    @overload
    def __getitem__(self, i: int) -> MergeStep: ...
    @overload
    def __getitem__(self, i: slice) -> list[MergeStep]: ...
    def __getitem__(self, i: int | slice) -> MergeStep | list[MergeStep]:
        if isinstance(i, slice):
            return [self[j] for j in range(*i.indices(len(self)))]
        i = range(len(self))[i]
        merged, heirs = self._changes[i - 1][:2] if i else (None, None)
        n_clusters, objective = self._steps[i]
        return MergeStep(n_clusters, objective, self._labels_at(i), merged, heirs)

    def _labels_at(self, i: int) -> Array:
        """Labels of a step."""
        if self._labels is None:
            raise AttributeError(
                "The labels of the steps lie where the table of the fit was; at(k).predict(X) assigns the "
                "rows of a table to k clusters."
            )
        return self._renumbered(self._labels.astype(np.int32), i)

    def without_collection(self) -> MergePath:
        """The path as it is copied or sent; its labels may lie in a collection otherwise."""
        return self

    def first_labels(self) -> Array | None:
        """The labels of the first step, in the type in which the path holds them."""
        return self._labels

    def _renumbered(self, labels: Array, i: int) -> Array:
        """Labels of the first step, changed in place to those of step i."""
        for change in self._changes[:i]:
            renumber(labels, change.place)
            labels[change.moved] = change.where
        return labels


def shared_rows(before: Array, after: Array, n_before: int, n_after: int) -> NDArray[np.int64]:
    """(n_before, n_after) rows that every two clusters of two partitions share."""
    pairs = np.zeros((n_before, n_after), np.int64)
    for rows in chunks(len(before)):
        cell = before[rows].astype(np.intp) * n_after + after[rows]
        pairs += np.bincount(cell, minlength=pairs.size).reshape(pairs.shape)
    return pairs


def change_by(pairs: NDArray[np.int64], merged: tuple[int, int] | None) -> Change:
    """The change between two partitions by the rows that their clusters share."""
    heirs = _heirs(pairs, merged)
    if merged is None:
        merged = next((i, j) for j in range(len(heirs)) for i in range(j) if heirs[i] == heirs[j])
    return Change(merged, heirs, pairs.argmax(axis=1).astype(np.int32))


def _heirs(pairs: NDArray[np.int64], merged: tuple[int, int] | None) -> Labels:
    """The cluster as which each cluster continues, from the rows that two partitions share: the merged pair
    as one.

    The others are matched one to one with the clusters of the next step; one that is left over joins the
    cluster of most of its rows.
    """
    place = np.arange(len(pairs), dtype=np.int32)
    if merged is not None:
        join(place, *merged)
        pairs = np.add.reduceat(
            pairs[np.argsort(place, kind="stable")], np.flatnonzero(np.diff(np.sort(place), prepend=-1))
        )
    heir = pairs.argmax(axis=1)
    if len(set(heir.tolist())) < pairs.shape[1]:
        from scipy.optimize import linear_sum_assignment  # rarely needed, and slow to import

        matched, to = linear_sum_assignment(pairs, maximize=True)
        heir[matched] = to
    heirs: Labels = heir[place].astype(np.int32)
    return heirs


# ---- the tree of the merges ----


class Merge(NamedTuple):
    """A node of the tree of a path with two or more parts.

    Nodes 0 to K - 1 are the clusters of the first step, then come the merges in their order.
    """

    parts: tuple[int, ...]  # nodes
    step: int  # of the path, counted from 0


def merges_of(heirs: Sequence[Labels]) -> tuple[list[Merge], list[list[int]]]:
    """The merges of a path, and the nodes of the clusters of every step, from the number in every step of
    each cluster of the step before.
    """
    nodes = [list(range(len(heirs[0])))] if heirs else [[0]]
    merges: list[Merge] = []
    for step, heir in enumerate(heirs, 1):
        parts: list[list[int]] = [[] for _ in range(int(heir.max()) + 1)]
        for k, place in enumerate(heir.tolist()):
            parts[place].append(nodes[-1][k])
        now = []
        for of_cluster in parts:
            if len(of_cluster) > 1:
                merges.append(Merge(tuple(of_cluster), step))
            now.append(len(nodes[0]) + len(merges) - 1 if len(of_cluster) > 1 else of_cluster[0])
        nodes.append(now)
    return merges, nodes


def leaves_of(merges: Sequence[Merge], sizes: Array, node: int | None = None) -> list[int]:
    """The leaves below a node (None: the last) in the order in which no branches cross: at every merge the
    larger part first.
    """
    size = sizes.tolist()
    for merge in merges:
        size.append(sum(size[part] for part in merge.parts))
    order: list[int] = []
    pending = [len(size) - 1 if node is None else node]
    while pending:
        node = pending.pop()
        if node < len(sizes):
            order.append(node)
        else:
            parts = merges[node - len(sizes)].parts
            pending += sorted(parts, key=lambda part: (size[part], -part))  # the last is the next
    return order
