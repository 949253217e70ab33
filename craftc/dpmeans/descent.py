"""The search of DP-means: sweeps over the rows from a start partition until nothing moves.

Bounds on the distances of every row to its own centre and to all others (Hamerly 2010) are carried from sweep to sweep: a row whose
centre surely stays the nearest, and within lambda, is not looked at.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from craftc._common.convergence import State, iterate_until_converged, visit_in_order
from craftc._common.labels import first_appearance, renumber
from craftc._common.points import Points
from craftc._common.threads import aligned, threads_for
from craftc._common.typing import Floats, Labels
from craftc._kernels import dpmeans as _kernel

_WINDOW = 4096  # rows of the first window of a walk
_MAX_POLISH = 1000
_PRODUCTS_AT_ONCE = 10_000_000_000  # multiplications between two looks for an interrupt, a fraction of a second
_WIDE = 4096  # centres times columns from which on bounds pay at once
_ANY_ORDER = np.empty(0, np.int32)
_NO_DRIFT = np.empty(0, np.float32)
_NO_CENTRES = np.empty(0, np.int32)


@dataclass
class Outcome:
    """Where a start ended; labels are numbered by first appearance."""

    labels: Labels
    centers: Floats
    sizes: Floats
    inertia: float
    objective: float
    path: list[float]
    n_iter: int
    converged: bool


class Descent:
    """Sweeps of one start.

    Parameters
    ----------
    points : Points
    penalty : float
        lambda^2.
    cap : int
        Most clusters.
    labels : ndarray (n,) of int32
        Start partition 0..K-1; worked on in place.
    order : ndarray (n,) of int32, or empty
        Order of the rows.
    """

    def __init__(self, points: Points, penalty: float, cap: int, labels: Labels, order: NDArray[np.int32]) -> None:
        self.points, self.penalty, self.cap, self.labels, self.order = points, penalty, cap, labels, order
        self.limit = max(penalty, points.resolution)
        self.K = int(labels.max()) + 1
        self.sums = points.sums_of(labels, self.K)
        n = len(points)
        self.upper, self.lower = np.empty((2, n), np.float32)
        self._tile = aligned((points.n_threads, _kernel.TILE // 2 * (points.X.shape[1] + 1))).view(np.float32)
        self._bounded = False  # whether upper and lower say anything
        self._calm = True  # whether it pays to consult them
        self._rested = False  # whether they are those of collapsed moves
        self._newcomer = False  # whether they know nothing of the last centre
        self.mu = np.empty((0, points.X.shape[1]))
        self._before = self.mu  # centres the bounds belong to
        self.n_scanned = 0
        self._drop_empty()
        self.mu = points.means(self.sums, self.K)

    # ---- objective ----

    @property
    def objective(self) -> float:
        """J from the exact sums: the scatter about the grand mean less what lies between the clusters."""
        points = self.points
        shift = self.mu - points.mean
        weight = self.sums.counts[: self.K] * points.unit
        between = math.fsum(weight * (shift**2).sum(axis=1))  # BLAS would add in an order of the processor's
        return max(points.scatter - between, 0.0) + self.price(self.K)

    def price(self, K: int) -> float:
        """(K - 1) lambda^2; the first cluster is free."""
        return (K - 1) * self.penalty if K > 1 else 0.0

    def slack(self, objective: float) -> float:
        """What rounding may add to J."""
        return 1e-12 * (self.points.scatter + abs(objective))

    # ---- sweeps ----

    def run(self, sweep: Callable[[], int], path: list[float], max_iter: int, told: Callable[[int, float], None]) -> tuple[int, bool]:
        """Sweeps until nothing moves."""

        def step() -> tuple[State, float]:
            moved = sweep()
            dropped = self._drop_empty()
            self.mu = self.points.means(self.sums, self.K)
            return "moving" if moved or dropped else "converged", self.objective

        return iterate_until_converged(step, path, max_iter, slack=self.slack, callback=told)

    def sweep(self, mode: str) -> Callable[[], int]:
        """The sweep of a mode."""
        return {"serial": self.serial, "delayed": self.delayed, "collapsed": self.collapsed}[mode]

    def serial(self) -> int:
        """The paper's sweep: every row to its nearest centre or, if all are further than lambda, to a new one at the row."""
        moved, beyond = self._assign()
        if beyond:
            openings = _Openings(self)
            visit_in_order(openings, len(self.points), _WINDOW)
            openings.close(openings.last_place + 1)
            moved += openings.moved
        return moved

    def delayed(self) -> int:
        """Every row to its nearest centre; then one new centre at the furthest row, if that is further than lambda."""
        moved, beyond = self._assign()
        if beyond:
            row = _kernel.farthest(self.points.X, self.mu, self._scale, self.labels, self.upper)
            openings = _Openings(self)
            openings.open(row)
            if self._few_are_cheap:
                self._newcomer = True
            else:
                openings.close(len(self.points))
            moved += 1
        return moved

    def collapsed(self) -> int:
        """Every row in turn to where J is smallest, its own place in the mean accounted for; means follow every move."""
        points, place, moved = self.points, 0, 0
        D, K = points.X.shape[1], self.K
        if not self._rested:
            self.upper[:] = np.inf
            self.lower[:] = 0.0
        self._bounded, self._rested, self._before = False, True, self.mu[:0]
        centres = _kernel.Centres(self.mu, points.reference, points.reach, self.limit, points.single)
        while place < len(points):
            capacity, stop = len(self.sums.counts), min(place + rows_at_once(4 * self.mu.size), len(points))
            mu, travelled = np.zeros((capacity, D)), np.empty(capacity, np.float32)
            place, K, here, looked, far, shrunk = _kernel.collapse(
                points.X, centres, mu, np.zeros((capacity + _kernel.PAD, D + 1), np.float32), np.empty(capacity + _kernel.PAD, np.float32),
                travelled, np.empty(capacity, np.float32), points.step, points.unit, 1e-12 * points.scatter, self.cap, K,
                self.labels, self.upper, self.lower, self.sums, self.order, place, stop, self._tile,
            )  # fmt: skip
            _kernel.loosen(self.labels, travelled, far, shrunk, self.upper, self.lower)
            moved += here
            self.n_scanned += looked
            if place < stop:
                self.sums.grow(2 * capacity)
        self.K = K
        return moved

    def _assign(self) -> tuple[int, int]:
        """Rows that moved to a nearer centre, and rows beyond the limit (none when no cluster may open)."""
        points = self.points
        threads = points.threads(self.K)
        limit = self.limit if self.cap > self.K else np.inf
        self._centres = _kernel.Centres(self.mu, points.reference, points.reach, limit, points.single)
        self._scale = self._centres.scale
        drift = others = half = gap = _NO_DRIFT
        fresh = _NO_CENTRES
        if self._bounded and self._calm:
            drift, half, gap = np.empty((3, self.K), np.float32)
            _kernel.drifts(self._before, self.mu, self._scale, drift)
            fresh = self._fresh(drift)
            others = others_moved(drift, fresh)
            _kernel.gaps(self.mu, np.arange(self.K, dtype=np.int32), 0.5 * self._scale, half)
            _kernel.gaps(self.mu, fresh, self._scale, gap)
        moved = beyond = 0
        rows = rows_at_once(self.mu.size)
        for first in range(0, len(points), rows):
            here, far, scanned = _kernel.assign(
                points.X, self._centres, self.labels, self.upper, self.lower, self.sums, drift, others, half, fresh, gap, first,
                min(first + rows, len(points)), self._tile, threads,
            )  # fmt: skip
            moved, beyond, self.n_scanned = moved + here, beyond + far, self.n_scanned + scanned
        self._newcomer = False
        self._bounded, self._rested, self._before = True, False, self.mu
        # where centres and columns are few, bounds are dearer to keep than a look at all, unless nearly every row stays
        self._calm = self.K * points.X.shape[1] >= _WIDE or moved < len(points) / 200
        return moved, beyond

    @property
    def _few_are_cheap(self) -> bool:
        """Whether a row is compared with a few centres much faster than with all."""
        return bool(self.K >= _kernel.WORTH_CLUSTERS and self.points.X.shape[1] >= _kernel.WORTH_COLUMNS)

    def _fresh(self, drift: NDArray[np.float32]) -> NDArray[np.int32]:
        """Centres that rows should rather be shown than guarded against: a newcomer, and some that moved much further than the rest."""
        fresh = [self.K - 1] if self._newcomer else []
        if self._few_are_cheap:
            furthest = [int(k) for k in np.argsort(-drift, kind="stable")[: _kernel.MOST_FRESH + 1] if k not in fresh]
            for count in range(1, min(_kernel.MOST_FRESH - len(fresh), len(furthest) - 1) + 1):
                if drift[furthest[count]] < 0.25 * drift[furthest[0]]:
                    fresh += furthest[:count]
                    break
        return np.array(fresh, np.int32)

    def _drop_empty(self) -> bool:
        """Forget empty clusters; the others keep their order."""
        kept = np.flatnonzero(self.sums.counts[: self.K])
        if len(kept) == self.K:
            return False
        number = np.zeros(self.K, np.int32)  # a row without weight may be left behind: it goes anywhere
        number[kept] = np.arange(len(kept), dtype=np.int32)
        renumber(self.labels, number)
        self.sums.keep(kept)
        self.K = len(kept)
        if len(self._before):
            self._before = self._before[kept]
        if len(self.points.weight) and not self.points.weight.all():
            self._bounded = False
        return True

    def go_on_from(self, centers: Floats) -> None:
        """Sweep from given centres; the rows stand in the first until they are swept."""
        self.mu, self.K = np.ascontiguousarray(centers), len(centers)
        self.sums.grow(self.K)
        self._bounded = False

    def polish(self, path: list[float], told: Callable[[int, float], None]) -> int:
        """Collapsed sweeps until no row moves; returns how many."""
        return self.run(self.collapsed, path, _MAX_POLISH, told)[0]

    # ---- the end ----

    def _settle_weightless(self) -> None:
        """Rows of weight 0 go to the nearest centre."""
        rows = np.flatnonzero(self.points.weight == 0)
        if len(rows):
            distance = np.empty((len(rows), self.K))
            _kernel.distances(np.ascontiguousarray(self.points.X[rows]), self.mu, distance, 1)
            self.labels[rows] = distance.argmin(axis=1)

    def outcome(self, path: list[float], n_iter: int, converged: bool) -> Outcome:
        """The partition as it stands, its objective worked out anew from the rows."""
        points = self.points
        self._settle_weightless()
        order = first_appearance(self.labels, self.K)
        renumber(self.labels, np.argsort(order).astype(np.int32))
        centers = np.ascontiguousarray(self.mu[order])
        sizes = np.asarray(self.sums.counts[order] * points.unit, dtype=np.float64)
        inertia = points.inertia(self.labels, centers)
        objective = inertia + self.price(self.K)
        return Outcome(self.labels, centers, sizes, inertia, objective, [*path[:-1], objective], n_iter, converged)


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
    """Rows of one kernel call, each of which costs so many multiplications: interrupts are checked between two calls."""
    return max(_WINDOW, _PRODUCTS_AT_ONCE // products)


def others_moved(drift: NDArray[np.float32], fresh: NDArray[np.int32]) -> NDArray[np.float32]:
    """(K,) the furthest that any other centre moved, the fresh ones left out."""
    guarded = drift.copy()
    guarded[fresh] = 0.0
    first = int(guarded.argmax())
    others = np.full(len(drift), guarded[first], np.float32)
    guarded[first] = 0.0
    others[first] = guarded.max()
    return others


class _Openings:
    """The clusters that open in one sweep. Rows are named by their place in the order."""

    def __init__(self, descent: Descent) -> None:
        self.descent = descent
        self.first = descent.K  # number of the first newcomer
        self.moved = 0
        self.last_place = 0  # up to here rows have not seen all the newcomers

    def may_open(self) -> bool:
        return self.descent.cap > self.descent.K

    def next_candidate(self, start: int, stop: int) -> int:
        place: int = _kernel.next_beyond(self.descent.upper, self.descent.order, start, stop)
        return place

    def open(self, row: int) -> None:
        d = self.descent
        points = d.points
        d.mu = np.concatenate([d.mu, points.X[row : row + 1].astype(np.float64)])
        d.K += 1
        if len(d.sums.counts) < d.K:
            d.sums.grow(2 * d.K)
        _kernel.open_at(points.X, d.mu, d._scale, row, d.labels, d.upper, d.lower, d.sums)
        limit = d.limit if self.may_open() else np.inf
        d._centres = _kernel.Centres(d.mu, points.reference, points.reach, limit, points.single)
        d._before = d.mu

    def open_at(self, place: int, stop: int) -> None:
        """The row becomes a centre, shown to the places behind it up to `stop`."""
        d = self.descent
        self.open(int(d.order[place]) if len(d.order) else place)
        self.moved += 1
        self.last_place = place
        self._show(d.K - 1, place + 1, stop)

    def compare_all(self, start: int, stop: int) -> None:
        """All newcomers of this sweep to rows that have seen none."""
        self._show(self.first, start, stop)

    def _show(self, first: int, start: int, stop: int) -> None:
        d = self.descent
        gap = np.empty(d.K, np.float32)
        _kernel.gaps(d.mu, np.arange(first, d.K, dtype=np.int32), d._scale, gap)
        threads = threads_for(d.points.n_threads, (stop - start) * d.points.X.shape[1] * (2 + (d.K - first) / 8))
        if stop > start:
            self.moved += _kernel.show(
                d.points.X, d._centres, first, gap, d.labels, d.upper, d.lower, d.sums, d.order, start, stop, d._tile, threads
            )

    def close(self, stop: int) -> None:
        """Bounds of the rows at places [0, stop), to which some newcomers were not shown."""
        d = self.descent
        gap = np.empty(d.K, np.float32)
        _kernel.gaps(d.mu, np.arange(self.first, d.K, dtype=np.int32), d._scale, gap)
        _kernel.near(gap, d.labels, d.upper, d.lower, d.order, stop, threads_for(d.points.n_threads, 4 * stop))
