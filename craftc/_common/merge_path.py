"""The merge path: partitions from the result of a fit down to one cluster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from craftc._common.labels import chunks, join, renumber
from craftc._common.typing import Labels

#: Share of what the best partition of a merge path saves that a suggested number of clusters keeps.
SHARE_KEPT = 0.9


class MergeStep(NamedTuple):
    """One partition of the merge path."""

    n_clusters: int
    objective: float
    labels: NDArray[Any]


def objectives_of(path: Sequence[MergeStep]) -> list[tuple[int, float]]:
    """(K, J) of every step of a path."""
    return path.objectives() if isinstance(path, MergePath) else [(step.n_clusters, step.objective) for step in path]


def saving_of(objectives: Sequence[tuple[int, float]]) -> float:
    """J(1) - J(best): nats by which the best partition of a path, which ends at one cluster, lowers J."""
    return objectives[-1][1] - min(objective for _, objective in objectives)


def suggested_n_clusters(objectives: Sequence[tuple[int, float]]) -> int:
    """The fewest clusters of a path that keep 90 % of J(1) - J(best); 1 if no partition has a lower J than one cluster."""
    enough = objectives[-1][1] - SHARE_KEPT * saving_of(objectives)
    return min(n_clusters for n_clusters, objective in objectives if objective <= enough)


class MergePath(Sequence[MergeStep]):
    """Partitions down to one cluster, stored as differences; the labels of a step are rebuilt when it is read.

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
        """Add a step: the partition `before`, numbered as the last step, becomes `after`, numbered by first appearance."""
        pairs = np.zeros((self._steps[-1][0], n_clusters), np.int64)
        for rows in chunks(len(before)):
            cell = before[rows].astype(np.intp) * n_clusters + after[rows]
            pairs += np.bincount(cell, minlength=pairs.size).reshape(pairs.shape)
        place = pairs.argmax(axis=1).astype(np.int32)  # where most of a cluster's rows went
        moved = np.concatenate([rows.start + np.flatnonzero(place[before[rows]] != after[rows]) for rows in chunks(len(before))])
        self._steps.append((n_clusters, objective))
        self._changes.append((place, moved.astype(np.int32), after[moved]))

    def objectives(self) -> list[tuple[int, float]]:
        """(K, J) of every step, without its labels."""
        return list(self._steps)

    def append_merge(self, objective: float, i: int, j: int) -> None:
        """Add a step in which cluster j joins cluster i < j and no other row moves; later clusters shift down."""
        n_clusters = self._steps[-1][0]
        place = np.arange(n_clusters, dtype=np.int32)
        join(place, i, j)
        self._steps.append((n_clusters - 1, objective))
        self._changes.append((place, np.empty(0, np.int32), np.empty(0, np.int32)))

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
