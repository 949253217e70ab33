"""Rows in their clusters, with bounds on their distances to the centres (Hamerly 2010).

A row is scanned only if its bounds do not prove that its centre is still the nearest, and within lambda.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from craftc._common.convergence import visit_in_order
from craftc._common.dense_data import Geometry
from craftc._common.threads import aligned, threads_for
from craftc._common.typing import Array, Floats, Labels
from craftc._kernels import dpmeans as _kernel
from craftc._kernels import dpmeans_sweep as _sweep

WINDOW = 1024  # rows of the first window of a serial sweep
_PRODUCTS_AT_ONCE = 10_000_000_000  # multiplications between two checks for an interrupt: less than a second
_NO_FLOATS = np.empty(0, np.float32)
_NO_CENTERS = np.empty(0, np.int32)


@dataclass(frozen=True, eq=False)
class CentreMoves:
    """Centres, and how far they moved since the bounds of the rows were set."""

    mu: Floats  # (K, D)
    limit: float  # squared distance beyond which a row may open a cluster; inf: none may
    # (K,) how far each centre moved, scaled; empty: there are no bounds
    drift: NDArray[np.float32] = field(default_factory=lambda: _NO_FLOATS)
    # (K,) the furthest that any other centre moved, `apart` left out
    others: NDArray[np.float32] = field(default_factory=lambda: _NO_FLOATS)
    # half, gap: (K,) half the distance to the nearest other centre, and the distance to the nearest other
    # one of `apart`
    half: NDArray[np.float32] = field(default_factory=lambda: _NO_FLOATS)
    gap: NDArray[np.float32] = field(default_factory=lambda: _NO_FLOATS)
    # centres that the bounds do not cover: a new one, and some that moved much further than the others
    apart: NDArray[np.int32] = field(default_factory=lambda: _NO_CENTERS)


class BoundedRows:
    """Rows with their labels and bounds, which change in place.

    `X` (n, D). `labels` (n,). `upper`, `lower` (n,): bounds on the distances to the own centre (negative:
    beyond the limit) and to all others, scaled. `order` (n,): rows in the order of the visits; a position
    is an index into it.
    """

    def __init__(
        self,
        X: Array,
        geometry: Geometry,
        labels: Labels,
        upper: NDArray[np.float32],
        lower: NDArray[np.float32],
        order: NDArray[np.int32],
        n_threads: int,
    ) -> None:
        self.X, self.geometry, self.labels = X, geometry, labels
        self.upper, self.lower, self.order, self.n_threads = upper, lower, order, n_threads
        self.tile = aligned((n_threads, _kernel.TILE // 2 * (X.shape[1] + 1))).view(np.float32)

    def assign(
        self, moves: CentreMoves, centres: _kernel.Centres, sums: _kernel.Sums, keep: bool = True
    ) -> tuple[int, int]:
        """All rows to their nearest centres; returns rows that moved, and rows beyond the limit.

        Bounds that are not kept take no time, and no memory as long as none has been.
        """
        upper, lower = (self.upper, self.lower) if keep else (_NO_FLOATS, _NO_FLOATS)
        threads = threads_for(self.n_threads, self.X.size * (1 + len(moves.mu) / 16))
        moved = beyond = 0
        step = rows_at_once(moves.mu.size)
        for first in range(0, len(self.X), step):
            here, far, _ = _sweep.assign(
                self.X,
                centres,
                self.labels,
                upper,
                lower,
                sums,
                moves.drift,
                moves.others,
                moves.half,
                moves.apart,
                moves.gap,
                first,
                min(first + step, len(self.X)),
                self.tile,
                threads,
            )
            moved, beyond = moved + here, beyond + far
        return moved, beyond

    def open_at(self, row: int, centres: _kernel.Centres, sums: _kernel.Sums) -> None:
        """Move a row to the last of the centres, a new one at the row."""
        _sweep.open_at(self.X, centres.mu, centres.scale, row, self.labels, self.upper, self.lower, sums)

    def reassign_to_new(
        self, centres: _kernel.Centres, first: int, start: int, stop: int, sums: _kernel.Sums
    ) -> int:
        """Move rows at [start, stop) to nearer centres from `first` on; returns how many moved."""
        if stop <= start:
            return 0
        K, D = centres.mu.shape
        threads = threads_for(self.n_threads, (stop - start) * D * (2 + (K - first) / 8))
        moved: int = _sweep.reassign_to_new(
            self.X,
            centres,
            first,
            _gap(centres, first),
            self.labels,
            self.upper,
            self.lower,
            sums,
            self.order,
            start,
            stop,
            self.tile,
            threads,
        )
        return moved

    def bound_new(self, centres: _kernel.Centres, first: int, stop: int) -> None:
        """Bounds of the rows at [0, stop), which were not compared with centres from `first` on."""
        threads = threads_for(self.n_threads, 4 * stop)
        _sweep.bound_new(_gap(centres, first), self.labels, self.upper, self.lower, self.order, stop, threads)


class NewClusters:
    """The clusters that open in one serial sweep; a visitor of :func:`visit_in_order`. Subclasses know which
    rows open them.

    `centres`: all that exist so far.
    """

    def __init__(self, rows: BoundedRows, centres: _kernel.Centres, sums: _kernel.Sums) -> None:
        self.rows, self.centres, self.sums, self.first = rows, centres, sums, len(centres.mu)
        self.moved = 0
        self._compared_from = 0  # rows at earlier positions were not compared with all new clusters

    def visit(self) -> int:
        """Visit all rows in order; returns how many moved."""
        visit_in_order(self, len(self.rows.X), WINDOW)
        self.rows.bound_new(self.centres, self.first, self._compared_from)
        return self.moved

    def may_open(self) -> bool:
        """Whether one more cluster may open."""
        raise NotImplementedError

    def next_candidate(self, start: int, stop: int) -> int:
        """First position of [start, stop) whose row opens a cluster, or -1."""
        raise NotImplementedError

    def _open(self, row: int) -> None:
        """Open a cluster at a row; the centres include it then."""
        raise NotImplementedError

    def open_at(self, row: int, stop: int) -> None:
        order = self.rows.order
        self._open(int(order[row]) if len(order) else row)
        self._compared_from = row + 1
        last = len(self.centres.mu) - 1
        self.moved += 1 + self.rows.reassign_to_new(self.centres, last, row + 1, stop, self.sums)

    def compare_all(self, start: int, stop: int) -> None:
        self.moved += self.rows.reassign_to_new(self.centres, self.first, start, stop, self.sums)


def _gap(centres: _kernel.Centres, first: int) -> NDArray[np.float32]:
    """(K,) distance of every centre to the nearest other one from `first` on."""
    gap = np.empty(len(centres.mu), np.float32)
    _kernel.gaps(centres.mu, np.arange(first, len(centres.mu), dtype=np.int32), centres.scale, gap)
    return gap


def rows_at_once(products: int) -> int:
    """Rows of one kernel call, at this many multiplications each: interrupts are checked between calls."""
    return max(WINDOW, _PRODUCTS_AT_ONCE // products)


def nearest(X: Array, centers: Floats, n_threads: int) -> tuple[Labels, Floats]:
    """Labels of the nearest centres (ties: the lowest) and the squared distances to them."""
    labels, squared = np.empty(len(X), np.int32), np.empty(len(X))
    centers = np.ascontiguousarray(centers)
    threads = threads_for(n_threads, X.size * (2 + len(centers) / 8))
    step = rows_at_once(centers.size)
    for first in range(0, len(X), step):
        rows = slice(first, first + step)
        _kernel.nearest(X[rows], centers, labels[rows], squared[rows], threads)
    return labels, squared


def rows_beyond(X: Array, share: Floats, centres: _kernel.Centres, n_threads: int) -> NDArray[np.bool_]:
    """Whether the squared distance to every centre, times the share if given, exceeds the limit."""
    beyond = np.empty(len(X), np.uint8)
    threads = threads_for(n_threads, X.size * (2 + len(centres.mu) / 8))
    step = rows_at_once(centres.mu.size)
    for first in range(0, len(X), step):
        rows = slice(first, first + step)
        _kernel.beyond(X[rows], centres, share[rows], beyond[rows], threads)
    return beyond.view(np.bool_)
