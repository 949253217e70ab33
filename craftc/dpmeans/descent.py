"""The descent of DP-means: sweeps over the rows from a start partition until no row moves."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from craftc._common.cluster_moments import ExactMoments
from craftc._common.convergence import State, iterate_until_converged
from craftc._common.dense_data import DenseData, NumberTable
from craftc._common.estimator import FitResult
from craftc._common.typing import Floats, Labels
from craftc._kernels import dpmeans as _kernel
from craftc.dpmeans.rows.assignment import Assignment, LocalAssignment
from craftc.dpmeans.rows.bounded import nearest

Callback = Callable[[int, float], None]

_MAX_POLISH = 1000


@dataclass
class SphericalFit(FitResult):
    """Result of a start; labels, an array or those of partitions, are numbered by first appearance.

    `last_centers` (K, D), if any, are those with which the last sweep compared the rows.
    """

    labels: Any
    centers: Floats
    sizes: Floats
    inertia: float
    moments: ExactMoments
    last_centers: Floats | None


def limit_of(table: NumberTable, penalty: float) -> float:
    """Squared distance beyond which a row opens a cluster: lambda^2, but not less than the grid of the sums
    can tell.
    """
    return max(penalty, table.resolution)


def _ratio(falls: list[float]) -> float:
    """The larger of the last ratios of falls of J, 1 if there is none below."""
    ratios = [after / before for before, after in pairwise(falls) if 0.0 < before < np.inf]
    return min(max(ratios, default=1.0), 1.0)


class Sweeps:
    """Sweeps of one start, wherever the rows are.

    `penalty`: lambda^2.
    """

    def __init__(self, rows: Assignment, penalty: float) -> None:
        self.table, self.rows, self.penalty = rows.table, rows, penalty

    # ---- objective ----

    @property
    def inertia(self) -> float:
        """Scatter within the clusters, from the exact sums: that about the grand mean minus that between the
        clusters.
        """
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
        callback: Callback | None = None,
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
        """The paper's sweep: every row to its nearest centre or, if all are further than lambda, to a new one
        at the row.
        """
        moved, beyond = self.rows.assign()
        if beyond:
            moved += self.rows.open_in_order()
        return moved

    def delayed(self) -> int:
        """Every row to its nearest centre; then one new centre at the furthest row, if that is further than
        lambda.
        """
        moved, beyond = self.rows.assign()
        if beyond:
            self.rows.open_farthest()
            moved += 1
        return moved

    # ---- result ----

    def result(self, path: list[float], n_iter: int, converged: bool) -> SphericalFit:
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


class SphericalDescent(Sweeps):
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

    def polish(self, path: list[float], callback: Callback | None = None) -> int:
        """Collapsed sweeps until no row moves; returns how many."""
        return self.run(self.rows.collapse, path, _MAX_POLISH, callback)[0]

    def result(self, path: list[float], n_iter: int, converged: bool) -> SphericalFit:
        data, labels = self.rows.data, self.rows.labels
        weightless = np.flatnonzero(data.weight == 0)  # each goes to its nearest centre
        if len(weightless):
            labels[weightless] = nearest(np.ascontiguousarray(data.X[weightless]), self.rows.mu, 1)[0]
        return super().result(path, n_iter, converged)
