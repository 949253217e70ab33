"""Labels of rows: renumbered in place, a slice at a time, and kept along a path of merges."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from craftc._common.typing import Labels

_CHUNK = 8192  # rows of a slice


def chunks(n: int) -> Iterator[slice]:
    """Slices of at most _CHUNK rows: temporaries stay small."""
    return (slice(first, min(first + _CHUNK, n)) for first in range(0, n, _CHUNK))


def renumber(labels: Labels, number: NDArray[np.int32]) -> None:
    """labels = number[labels], in place."""
    for rows in chunks(len(labels)):
        labels[rows] = number[labels[rows]]


def compact(labels: Labels) -> Labels:
    """Labels in 0..K-1 in the order of value, in place; empty numbers go."""
    used = np.zeros(int(labels.max()) + 1, bool)
    for rows in chunks(len(labels)):
        used[labels[rows]] = True
    if not used.all():
        renumber(labels, (np.cumsum(used) - 1).astype(np.int32))
    return labels


def first_appearance(labels: Labels, n_clusters: int) -> NDArray[np.intp]:
    """(K,) clusters in the order they first occur."""
    order: list[int] = []
    for rows in chunks(len(labels)):
        values, first = np.unique(labels[rows], return_index=True)
        order += [int(k) for k in values[np.argsort(first)] if k not in order]
        if len(order) == n_clusters:
            break
    return np.array(order, np.intp)


def number_by_appearance(labels: Labels) -> NDArray[np.intp]:
    """Labels 0..K-1 in the order in which they first occur, in place; returns their old numbers in that order."""
    order = first_appearance(labels, len(np.unique(labels)))
    number = np.zeros(int(order.max()) + 1, np.int32)
    number[order] = np.arange(len(order), dtype=np.int32)
    renumber(labels, number)
    return order


def canonical(labels: Labels) -> Labels:
    """A copy, numbered by first appearance."""
    numbered = labels.copy()
    number_by_appearance(numbered)
    return numbered


class MergeStep(NamedTuple):
    """A partition on the way down from the result to one cluster."""

    n_clusters: int
    objective: float
    labels: NDArray[Any]


class MergePath(Sequence[MergeStep]):
    """Partitions down to one cluster, kept as what changes from one to the next; labels are worked out when asked for.

    Parameters
    ----------
    labels : ndarray (n,) of int32
        Labels of the first step.
    n_clusters : int
    objective : float
    """

    def __init__(self, labels: Labels, n_clusters: int, objective: float) -> None:
        self._labels = labels
        self._steps = [(n_clusters, objective)]
        self._changes: list[tuple[Labels, Labels, Labels]] = []  # new number of every cluster; rows that moved, and where

    def append(self, n_clusters: int, objective: float, before: NDArray[Any], after: Labels) -> None:
        """One step further: the partition `before`, numbered as its step is, becomes `after`, numbered by first appearance."""
        pairs = np.zeros((self._steps[-1][0], n_clusters), np.int64)
        for rows in chunks(len(before)):
            np.add.at(pairs, (before[rows], after[rows]), 1)
        place = pairs.argmax(axis=1).astype(np.int32)  # where most of a cluster's rows went
        moved = np.concatenate([rows.start + np.flatnonzero(place[before[rows]] != after[rows]) for rows in chunks(len(before))])
        self._steps.append((n_clusters, objective))
        self._changes.append((place, moved.astype(np.int32), after[moved]))

    def __len__(self) -> int:
        return len(self._steps)

    def __getitem__(self, i: Any) -> Any:
        if isinstance(i, slice):
            return [self[j] for j in range(*i.indices(len(self)))]
        i = range(len(self))[i]
        labels = self._labels.copy()
        for place, moved, where in self._changes[:i]:
            renumber(labels, place)
            labels[moved] = where
        n_clusters, objective = self._steps[i]
        return MergeStep(n_clusters, objective, labels)
