"""The descent of DP-means: sweeps over the rows from a start partition until no row moves.

Bounds on the distances of every row to its own centre and to all others (Hamerly 2010) are kept from sweep to sweep. A row is scanned only
if its bounds do not prove that its centre is still the nearest, and within lambda.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from craftc._common.cluster_moments import ExactMoments
from craftc._common.convergence import State, iterate_until_converged, visit_in_order
from craftc._common.dense_data import DenseData
from craftc._common.estimator import FitResult
from craftc._common.labels import first_appearance, renumber
from craftc._common.threads import aligned, threads_for
from craftc._common.typing import Floats, Labels
from craftc._kernels import dpmeans as _kernel
from craftc._kernels import dpmeans_sweep as _sweep

Callback = Callable[[int, float], None]

_WINDOW = 4096  # rows of the first window of a serial sweep
_MAX_POLISH = 1000
_PRODUCTS_AT_ONCE = 10_000_000_000  # multiplications between two checks for an interrupt, a fraction of a second
_WIDE = 4096  # centres times columns from which on bounds pay at once
_NO_DRIFT = np.empty(0, np.float32)
_NO_CENTERS = np.empty(0, np.int32)


@dataclass
class SphericalFit(FitResult):
    """Result of a start; labels are numbered by first appearance."""

    labels: Labels
    centers: Floats
    sizes: Floats
    inertia: float
    moments: ExactMoments


class Assignment:
    """Rows in their clusters: labels, exact sums, centres, and the bounds on the rows' distances.

    Parameters
    ----------
    data : DenseData
    limit : float
        Squared distance beyond which a row may open a cluster.
    cap : int
        Maximal number of clusters.
    labels : ndarray (n,) of int32
        Start partition 0..K-1; updated in place.
    order : ndarray (n,) of int32, or empty
        Rows in the order of the visits; a position is an index into it.
    """

    def __init__(self, data: DenseData, limit: float, cap: int, labels: Labels, order: NDArray[np.int32]) -> None:
        self.data, self.limit, self.cap, self.labels, self.order = data, limit, cap, labels, order
        self.K = int(labels.max()) + 1
        self.sums = data.sums_of(labels, self.K)
        self.n_scanned = 0
        self._upper, self._lower = np.empty((2, len(data)), np.float32)
        self._tile = aligned((data.n_threads, _kernel.TILE // 2 * (data.X.shape[1] + 1))).view(np.float32)
        self._bounds: Literal["none", "distances", "costs"] = "none"  # costs: of collapsed moves
        self._bounds_pay = True
        self._last_is_new = False  # whether the bounds do not cover the last centre
        self._bounded_mu = np.empty((0, data.X.shape[1]))  # centres to which the bounds belong
        self.drop_empty()
        self.update_means()

    # ---- clusters ----

    def update_means(self) -> None:
        """Move every centre to the mean of its rows."""
        self.mu = self.data.means(self.sums, self.K)

    def drop_empty(self) -> bool:
        """Remove empty clusters, keep the order of the others; returns whether there were any."""
        kept = np.flatnonzero(self.sums.counts[: self.K])
        if len(kept) == self.K:
            return False
        number = np.zeros(self.K, np.int32)  # rows of weight 0 in an empty cluster go to the first
        number[kept] = np.arange(len(kept), dtype=np.int32)
        renumber(self.labels, number)
        self.sums.keep(kept)
        self.K = len(kept)
        if len(self._bounded_mu):
            self._bounded_mu = self._bounded_mu[kept]
        if len(self.data.weight) and not self.data.weight.all():
            self.forget_bounds()
        return True

    def replace_centers(self, centers: Floats) -> None:
        """Continue with other centres; all rows belong to the first until the next sweep."""
        self.mu, self.K = np.ascontiguousarray(centers), len(centers)
        self.sums.grow(self.K)
        self.forget_bounds()

    def forget_bounds(self) -> None:
        """Scan every row in the next sweep."""
        self._bounds = "none"

    # ---- parts of a sweep ----

    def assign(self) -> tuple[int, int]:
        """All rows to their nearest centres; returns rows that moved and rows beyond the limit (0 if no cluster may open)."""
        data = self.data
        threads = data.threads(self.K)
        self._centres = self._kernel_centres()
        scale = self._centres.scale
        drift = others = half = gap = _NO_DRIFT
        moved_centers = _NO_CENTERS
        if self._bounds == "distances" and self._bounds_pay:
            drift, half, gap = np.empty((3, self.K), np.float32)
            _kernel.drifts(self._bounded_mu, self.mu, scale, drift)
            moved_centers = self._moved_centers(drift)
            others = others_moved(drift, moved_centers)
            _kernel.gaps(self.mu, np.arange(self.K, dtype=np.int32), 0.5 * scale, half)
            _kernel.gaps(self.mu, moved_centers, scale, gap)
        moved = beyond = 0
        step = rows_at_once(self.mu.size)
        for first in range(0, len(data), step):
            here, far, scanned = _sweep.assign(
                data.X, self._centres, self.labels, self._upper, self._lower, self.sums, drift, others, half, moved_centers, gap, first,
                min(first + step, len(data)), self._tile, threads,
            )  # fmt: skip
            moved, beyond, self.n_scanned = moved + here, beyond + far, self.n_scanned + scanned
        self._last_is_new = False
        self._bounds, self._bounded_mu = "distances", self.mu
        # for few centres and columns, bounds cost more than scans unless nearly every row stays
        self._bounds_pay = self.mu.size >= _WIDE or moved < len(data) / 200
        return moved, beyond

    def may_open(self) -> bool:
        """Whether one more cluster is allowed."""
        return self.cap > self.K

    def next_beyond(self, start: int, stop: int) -> int:
        """First position of [start, stop) whose row is beyond the limit, or -1."""
        position: int = _sweep.next_beyond(self._upper, self.order, start, stop)
        return position

    def farthest_beyond(self) -> int:
        """The row beyond the limit that is furthest from its centre."""
        row: int = _kernel.farthest(self.data.X, self.mu, self._centres.scale, self.labels, self._upper)
        return row

    def open_at(self, row: int) -> None:
        """Open a cluster at a row; no other row has been compared with it."""
        data = self.data
        self.mu = np.concatenate([self.mu, data.X[row : row + 1].astype(np.float64)])
        self.K += 1
        if len(self.sums.counts) < self.K:
            self.sums.grow(2 * self.K)
        _sweep.open_at(data.X, self.mu, self._centres.scale, row, self.labels, self._upper, self._lower, self.sums)
        self._centres = self._kernel_centres()
        self._bounded_mu = self.mu

    def reassign_to_new(self, first: int, start: int, stop: int) -> int:
        """Rows at positions [start, stop) to the nearest of the centres from `first` on, if nearer; returns how many moved."""
        if stop <= start:
            return 0
        data = self.data
        threads = threads_for(data.n_threads, (stop - start) * data.X.shape[1] * (2 + (self.K - first) / 8))
        moved: int = _sweep.reassign_to_new(
            data.X, self._centres, first, self._gap(first), self.labels, self._upper, self._lower, self.sums, self.order, start, stop,
            self._tile, threads,
        )  # fmt: skip
        return moved

    def bound_new(self, first: int, stop: int) -> None:
        """Bounds of the rows at positions [0, stop), which were not compared with all centres from `first` on."""
        threads = threads_for(self.data.n_threads, 4 * stop)
        _sweep.bound_new(self._gap(first), self.labels, self._upper, self._lower, self.order, stop, threads)

    def bound_last(self) -> None:
        """The same for a single new centre, left to the next sweep where that is faster."""
        if self._quick_checks_pay():
            self._last_is_new = True
        else:
            self.bound_new(self.K - 1, len(self.data))

    def collapse(self) -> int:
        """Every row in turn to the cluster where J is smallest, the means follow every move; returns how many moved."""
        data, position, moved = self.data, 0, 0
        D, K = data.X.shape[1], self.K
        if self._bounds != "costs":
            self._upper[:] = np.inf
            self._lower[:] = 0.0
        self._bounds, self._bounded_mu = "costs", self.mu[:0]
        centres = _kernel.Centres(self.mu, data.reference, data.reach, self.limit, data.single)
        while position < len(data):
            capacity, stop = len(self.sums.counts), min(position + rows_at_once(4 * self.mu.size), len(data))
            mu, travelled = np.zeros((capacity, D)), np.empty(capacity, np.float32)
            position, K, here, scanned, far, shrunk = _sweep.collapse(
                data.X, centres, mu, np.zeros((capacity + _kernel.PAD, D + 1), np.float32), np.empty(capacity + _kernel.PAD, np.float32),
                travelled, np.empty(capacity, np.float32), data.step, data.unit, 1e-12 * data.scatter, self.cap, K,
                self.labels, self._upper, self._lower, self.sums, self.order, position, stop, self._tile,
            )  # fmt: skip
            _sweep.loosen(self.labels, travelled, far, shrunk, self._upper, self._lower)
            moved += here
            self.n_scanned += scanned
            if position < stop:
                self.sums.grow(2 * capacity)
        self.K = K
        return moved

    def _kernel_centres(self) -> _kernel.Centres:
        data = self.data
        return _kernel.Centres(self.mu, data.reference, data.reach, self.limit if self.may_open() else np.inf, data.single)

    def _gap(self, first: int) -> NDArray[np.float32]:
        """(K,) distance of every centre to the nearest other one from `first` on."""
        gap = np.empty(self.K, np.float32)
        _kernel.gaps(self.mu, np.arange(first, self.K, dtype=np.int32), self._centres.scale, gap)
        return gap

    def _quick_checks_pay(self) -> bool:
        """Whether comparing a row with a few centres is much faster than a scan of all."""
        return bool(self.K >= _kernel.WORTH_CLUSTERS and self.mu.shape[1] >= _kernel.WORTH_COLUMNS)

    def _moved_centers(self, drift: NDArray[np.float32]) -> NDArray[np.int32]:
        """Centres that rows are compared with directly: a new one, and some that moved much further than the others."""
        found = [self.K - 1] if self._last_is_new else []
        if self._quick_checks_pay():
            furthest = [int(k) for k in np.argsort(-drift, kind="stable")[: _kernel.MOST_MOVED + 1] if k not in found]
            for count in range(1, min(_kernel.MOST_MOVED - len(found), len(furthest) - 1) + 1):
                if drift[furthest[count]] < 0.25 * drift[furthest[0]]:
                    found += furthest[:count]
                    break
        return np.array(found, np.int32)


class NewClusters:
    """The clusters that open in one serial sweep; a visitor of :func:`visit_in_order`."""

    def __init__(self, rows: Assignment) -> None:
        self.rows, self.first = rows, rows.K
        self.moved = 0
        self._compared_from = 0  # rows at earlier positions were not compared with all new clusters

    def may_open(self) -> bool:
        return self.rows.may_open()

    def next_candidate(self, start: int, stop: int) -> int:
        return self.rows.next_beyond(start, stop)

    def open_at(self, row: int, stop: int) -> None:
        order = self.rows.order
        self.rows.open_at(int(order[row]) if len(order) else row)
        self._compared_from = row + 1
        self.moved += 1 + self.rows.reassign_to_new(self.rows.K - 1, row + 1, stop)

    def compare_all(self, start: int, stop: int) -> None:
        self.moved += self.rows.reassign_to_new(self.first, start, stop)

    def close(self) -> None:
        """Bound the distances of the earlier rows to the new clusters."""
        self.rows.bound_new(self.first, self._compared_from)


class Descent:
    """Sweeps of one start.

    Parameters
    ----------
    data : DenseData
    penalty : float
        lambda^2.
    cap : int
        Maximal number of clusters.
    labels : ndarray (n,) of int32
        Start partition 0..K-1; updated in place.
    order : ndarray (n,) of int32, or empty
        Order of the rows.
    """

    def __init__(self, data: DenseData, penalty: float, cap: int, labels: Labels, order: NDArray[np.int32]) -> None:
        self.data, self.penalty = data, penalty
        self.rows = Assignment(data, max(penalty, data.resolution), cap, labels, order)

    # ---- objective ----

    @property
    def objective(self) -> float:
        """J from the exact sums: the scatter about the grand mean minus the scatter between the clusters."""
        data, rows = self.data, self.rows
        shift = rows.mu - data.mean
        weight = rows.sums.counts[: rows.K] * data.unit
        between = math.fsum(weight * (shift**2).sum(axis=1))  # the order of a BLAS sum depends on the processor
        return max(data.scatter - between, 0.0) + self.price(rows.K)

    def price(self, K: int) -> float:
        """(K - 1) lambda^2; the first cluster is free."""
        return (K - 1) * self.penalty if K > 1 else 0.0

    def slack(self, objective: float) -> float:
        """Rounding error that J may show."""
        return 1e-12 * (self.data.scatter + abs(objective))

    # ---- sweeps ----

    def run(self, sweep: Callable[[], int], path: list[float], max_iter: int, callback: Callback | None = None) -> tuple[int, bool]:
        """Sweeps until no row moves; returns (sweeps, whether they converged)."""

        def step() -> tuple[State, float]:
            moved = sweep()
            dropped = self.rows.drop_empty()
            self.rows.update_means()
            return "moving" if moved or dropped else "converged", self.objective

        return iterate_until_converged(step, path, max_iter, slack=self.slack, callback=callback)

    def sweep(self, mode: str) -> Callable[[], int]:
        """The sweep of a mode."""
        return {"serial": self.serial, "delayed": self.delayed, "collapsed": self.rows.collapse}[mode]

    def serial(self) -> int:
        """The paper's sweep: every row to its nearest centre or, if all are further than lambda, to a new one at the row."""
        moved, beyond = self.rows.assign()
        if beyond:
            new = NewClusters(self.rows)
            visit_in_order(new, len(self.data), _WINDOW)
            new.close()
            moved += new.moved
        return moved

    def delayed(self) -> int:
        """Every row to its nearest centre; then one new centre at the furthest row, if that is further than lambda."""
        moved, beyond = self.rows.assign()
        if beyond:
            self.rows.open_at(self.rows.farthest_beyond())
            self.rows.bound_last()
            moved += 1
        return moved

    def polish(self, path: list[float], callback: Callback | None = None) -> int:
        """Collapsed sweeps until no row moves; returns how many."""
        return self.run(self.rows.collapse, path, _MAX_POLISH, callback)[0]

    # ---- result ----

    def result(self, path: list[float], n_iter: int, converged: bool) -> SphericalFit:
        """The present partition; its objective is that of exact sums over the rows."""
        data, rows = self.data, self.rows
        self._assign_zero_weight_rows()
        order = first_appearance(rows.labels, rows.K)
        renumber(rows.labels, np.argsort(order).astype(np.int32))
        centers = np.ascontiguousarray(rows.mu[order])
        sizes = np.asarray(rows.sums.counts[order] * data.unit, dtype=np.float64)
        moments = data.moments(rows.labels, rows.K)
        inertia = moments.inertia()
        objective = inertia + self.price(rows.K)
        return SphericalFit(objective, [*path[:-1], objective], n_iter, converged, rows.labels, centers, sizes, inertia, moments)

    def _assign_zero_weight_rows(self) -> None:
        """Rows of weight 0 to their nearest centres."""
        rows = np.flatnonzero(self.data.weight == 0)
        if len(rows):
            self.rows.labels[rows] = nearest(np.ascontiguousarray(self.data.X[rows]), self.rows.mu, 1)[0]


def nearest(X: NDArray[Any], centers: Floats, n_threads: int) -> tuple[Labels, Floats]:
    """Labels of the nearest centres (ties: the lowest) and the squared distances to them."""
    labels, squared = np.empty(len(X), np.int32), np.empty(len(X))
    centers = np.ascontiguousarray(centers)
    threads = threads_for(n_threads, X.size * (2 + len(centers) / 8))
    step = rows_at_once(centers.size)
    for first in range(0, len(X), step):
        rows = slice(first, first + step)
        _kernel.nearest(X[rows], centers, labels[rows], squared[rows], threads)
    return labels, squared


def rows_at_once(products: int) -> int:
    """Rows of one kernel call, at so many multiplications each: interrupts are checked between two calls."""
    return max(_WINDOW, _PRODUCTS_AT_ONCE // products)


def others_moved(drift: NDArray[np.float32], moved_centers: NDArray[np.int32]) -> NDArray[np.float32]:
    """(K,) the furthest that any other centre moved, the moved centres left out."""
    guarded = drift.copy()
    guarded[moved_centers] = 0.0
    first = int(guarded.argmax())
    others = np.full(len(drift), guarded[first], np.float32)
    guarded[first] = 0.0
    others[first] = guarded.max()
    return others
