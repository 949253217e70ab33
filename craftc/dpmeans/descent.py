"""The descent of DP-means: sweeps over the rows from a start partition until no row moves."""

from __future__ import annotations

import math
from collections.abc import Callable, Sized
from dataclasses import dataclass
from itertools import pairwise
from typing import Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from craftc._common.cluster_moments import ExactMoments
from craftc._common.convergence import State, iterate_until_converged
from craftc._common.dense_data import DenseData, L, NumberTable
from craftc._common.estimator import FitResult
from craftc._common.typing import Array, Floats, Labels, PassCallback
from craftc._kernels import dpmeans as _kernel
from craftc.dpmeans.rows.assignment import Assignment, LocalAssignment
from craftc.dpmeans.rows.bounded import nearest

S = TypeVar("S")  # a start partition

_MAX_POLISH = 1000  # collapsed sweeps at the end of a start, at most


@dataclass
class SphericalFit(FitResult, Generic[L]):
    """Result of a start; labels, an array or those of partitions, are numbered by first appearance.

    `last_centers` (K, D), if any, are those with which the last sweep compared the rows.
    """

    labels: L
    centers: Floats
    sizes: Floats
    inertia: float
    moments: ExactMoments
    last_centers: Floats | None


def limit_of(table: NumberTable[L], penalty: float) -> float:
    """Squared distance beyond which a row opens a cluster: lambda^2, at least the resolution of the sums."""
    return max(penalty, table.resolution)


def _ratio(falls: list[float]) -> float:
    """The larger of the last ratios of falls of J, 1 if there is none below."""
    ratios = [after / before for before, after in pairwise(falls) if 0.0 < before < np.inf]
    return min(max(ratios, default=1.0), 1.0)


class Sweeps(Generic[L]):
    """Sweeps of one start, wherever the rows are.

    `penalty`: lambda^2.
    """

    def __init__(self, rows: Assignment[L], penalty: float) -> None:
        self.table, self.rows, self.penalty = rows.table, rows, penalty

    # ---- objective ----

    @property
    def inertia(self) -> float:
        """Scatter within the clusters: that about the grand mean minus that between clusters."""
        table, rows = self.table, self.rows
        between = _kernel.scatter_between(rows.mu, rows.sums.counts, table.mean) * table.unit
        return max(table.scatter - between, 0.0)

    @property
    def objective(self) -> float:
        """J."""
        return self.inertia + self.price(self.rows.K)

    def price(self, K: int) -> float:
        """(K - 1) lambda^2; the first cluster is free."""
        return (K - 1) * self.penalty if K > 1 else 0.0

    def slack(self, objective: float) -> float:
        """Rounding error that J may show."""
        return 1e-12 * (self.table.scatter + abs(objective))

    # ---- sweeps ----

    def run(
        self,
        sweep: Callable[[], int],
        path: list[float],
        max_iter: int,
        callback: PassCallback | None = None,
        tolerance: float = 0.0,
        ahead: bool = False,
    ) -> tuple[int, bool]:
        """Sweeps until no row moves, or K stays and J falls by less than a share of it; returns (sweeps,
        whether they converged).

        `ahead`: or until it would in the next sweep, if its falls went on as a geometric series; not after a
        sweep that changed K, which later ones may do again. A first sweep, whose J before is not known,
        counts what the means lower.
        """
        falls: list[float] = []

        def step() -> tuple[State, float]:
            nonlocal ahead
            K, compared = self.rows.K, self.rows.mu
            moved = sweep()
            dropped = self.rows.drop_empty()
            self.rows.update_means()
            objective, fall = self.objective, np.inf
            if self.rows.K != K:
                ahead = False
            elif path:
                fall = path[-1] - objective
            elif ahead:
                fall = self._fall_by_means(compared)
            falls.append(fall)
            expected = fall * _ratio(falls[-3:]) if ahead else fall
            flat = tolerance > 0.0 and expected <= tolerance * objective
            return "moving" if (moved or dropped) and not flat else "converged", objective

        return iterate_until_converged(step, path, max_iter, slack=self.slack, callback=callback)

    def _fall_by_means(self, before: Floats) -> float:
        """How much lower J is since the centres moved to the means of their rows, from those before."""
        counts, steps = self.rows.sums.counts[: self.rows.K], self.rows.mu - before
        return math.fsum(counts * (steps**2).sum(axis=1)) * self.table.unit

    def sweep(self, mode: str) -> Callable[[], int]:
        """The sweep of a mode."""
        return {"serial": self.serial, "delayed": self.delayed, "nearest": self.nearest}[mode]

    def nearest(self) -> int:
        """Every row to its nearest centre."""
        return self.rows.assign()[0]

    def serial(self) -> int:
        """The paper's sweep: every row to its nearest centre or, beyond lambda, to a new one at the row."""
        moved, beyond = self.rows.assign()
        if beyond:
            moved += self.rows.open_in_order()
        return moved

    def delayed(self) -> int:
        """Every row to its nearest centre; then one new centre at the furthest row beyond lambda."""
        moved, beyond = self.rows.assign()
        if beyond:
            self.rows.open_farthest()
            moved += 1
        return moved

    # ---- result ----

    def result(self, path: list[float], n_iter: int, converged: bool) -> SphericalFit[L]:
        """The present partition; its objective is that of exact sums over the rows."""
        table, rows = self.table, self.rows
        order = rows.first_appearance()
        rows.renumber(np.argsort(order).astype(np.int32))
        centers = np.ascontiguousarray(rows.mu[order])
        sizes = np.asarray(rows.sums.counts[order] * table.unit, dtype=np.float64)
        moments = table.moments(rows.labels, rows.K)
        inertia = moments.inertia()
        objective = inertia + self.price(rows.K)
        last = rows.compared_centers()
        return SphericalFit(
            objective,
            [*path[:-1], objective],
            n_iter,
            converged,
            rows.labels,
            centers,
            sizes,
            inertia,
            moments,
            None if last is None else np.ascontiguousarray(last[order]),
        )


class DPMeansRows(Sized, Protocol[S, L]):
    """The rows of a fit, in memory or in partitions."""

    n_counted: int  # rows of weight > 0

    @property
    def table(self) -> NumberTable[L]:
        """What is known of the table without its rows."""

    # ---- start partitions ----

    def one_cluster(self) -> S:
        """All rows in one cluster."""

    def random_labels(self, K: int, seed: int, start: int) -> S:
        """Random labels, numbered without gaps."""

    def nearest_labels(self, centers: Floats) -> S:
        """The nearest centre of every row, numbered without gaps."""

    def labels_of_all(self, counted: Labels) -> S:
        """Labels of all rows from those of the rows of weight > 0; the others are in the first cluster."""

    def farthest(self, centers: Floats, labels: L | None = None) -> tuple[float, Array]:
        """The largest squared distance of a row to its nearest centre, and the cells of the row (ties: the
        first); with the clusters of the rows, fewer of them are compared with all centres.
        """

    def sweeps(self, penalty: float, cap: int, start: S, seed: int, number: int) -> Sweeps[L]:
        """A descent from a start partition, in the order of rows of the start's number."""

    def leaders(self, limit: float, cap: int) -> Floats:
        """(K, D) the grand mean, and in order each row beyond the limit of all before (Hartigan 1975)."""

    # ---- single rows, in this process ----

    def gathered(self, rows: NDArray[np.intp] | None = None) -> DenseData:
        """All rows, or some of those of weight > 0."""

    def counted(self) -> DenseData:
        """The rows of weight > 0."""

    def random_row(self, seed: int, start: int) -> Floats:
        """(1, D) a row, drawn in proportion to the weights."""

    def farthest_first(self, n_clusters: int) -> tuple[NDArray[np.intp], Floats, Floats]:
        """Rows of a farthest-first traversal from the grand mean, their cells, and squared distances."""


class SphericalDescent(Sweeps[Labels]):
    """Sweeps of one start over rows in memory.

    `penalty`: lambda^2. `cap`: maximal number of clusters. `labels` (n,): start partition 0..K-1; updated
    in place. None: one cluster. `order` (n,): order of the rows.
    """

    rows: LocalAssignment

    def __init__(
        self, data: DenseData, penalty: float, cap: int, labels: Labels | None, order: NDArray[np.int32]
    ) -> None:
        super().__init__(LocalAssignment(data, limit_of(data, penalty), cap, labels, order), penalty)

    def sweep(self, mode: str) -> Callable[[], int]:
        return self.rows.collapse if mode == "collapsed" else super().sweep(mode)

    def polish(self, path: list[float], callback: PassCallback | None = None) -> int:
        """Collapsed sweeps until no row moves; returns how many."""
        return self.run(self.rows.collapse, path, _MAX_POLISH, callback)[0]

    def result(self, path: list[float], n_iter: int, converged: bool) -> SphericalFit[Labels]:
        data, labels = self.rows.data, self.rows.labels
        weightless = np.flatnonzero(data.weight == 0)  # each goes to its nearest centre
        if len(weightless):
            labels[weightless] = nearest(np.ascontiguousarray(data.X[weightless]), self.rows.mu, 1)[0]
        return super().result(path, n_iter, converged)
