"""The partition of a descent: centres, exact sums, and the rows, in memory or elsewhere."""

from __future__ import annotations

from typing import Generic, Literal

import numpy as np
from numpy.typing import NDArray

from craftc._common.dense_data import DenseData, L, NumberTable
from craftc._common.labels import first_appearance, renumber
from craftc._common.typing import Array, Floats, Labels
from craftc._kernels import dpmeans as _kernel
from craftc._kernels import dpmeans_sweep as _sweep
from craftc.dpmeans.rows.bounded import BoundedRows, CentreMoves, NewClusters, rows_at_once

_WIDE = 4096  # centres times columns; above, bounds pay at once
_ROWS_PER_MOVE = 20  # rows per row that moved; above, bounds are kept for the next sweep
_ROWS_BOUNDED = 50  # rows per row that moved; above, the next sweep uses the bounds
_OUTSIDE = -1  # label of a row that is not in any sum yet; the next sweep assigns it


class Assignment(Generic[L]):
    """Rows in their clusters: exact sums, centres, and how the centres moved since the bounds of the rows
    were set.

    Subclasses hold the rows: one has them in memory, one asks partitions.

    `limit`: squared distance beyond which a row may open a cluster. `cap`: maximal number of clusters.
    `K`: clusters of the start. `sums`: of these clusters.
    """

    def __init__(self, data: NumberTable[L], limit: float, cap: int, K: int, sums: _kernel.Sums) -> None:
        self.table, self.limit, self.cap, self.K, self.sums = data, limit, cap, K, sums
        self._bounds: Literal["none", "distances", "costs"] = "none"  # costs: of collapsed moves
        self._bounds_pay, self._few_move = True, False
        self._last_is_new = False  # whether the bounds do not cover the last centre
        self._bounded_mu = np.empty((0, data.n_columns))  # centres to which the bounds belong
        if K > 1:  # a single cluster may have no sums before the first sweep
            self.drop_empty()
        self.update_means()

    # ---- clusters ----

    def update_means(self) -> None:
        """Move every centre to the mean of its rows."""
        self.mu = self.table.means(self.sums, self.K)

    def drop_empty(self) -> bool:
        """Remove empty clusters, keep the order of the others; returns whether there were any."""
        counts = self.sums.counts[: self.K]
        if counts.all():
            return False
        kept = np.flatnonzero(counts)
        number = np.zeros(self.K, np.int32)  # rows of weight 0 in an empty cluster go to the first
        number[kept] = np.arange(len(kept), dtype=np.int32)
        self.renumber(number)
        self.sums.keep(kept)
        self.K = len(kept)
        if len(self._bounded_mu):
            self._bounded_mu = self._bounded_mu[kept]
        if len(self.table.weight) and not self.table.weight.all():
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

    def may_open(self) -> bool:
        """Whether one more cluster is allowed."""
        return self.cap > self.K

    def compared_centers(self) -> Floats | None:
        """(K, D) the centres with which the last sweep compared the rows, and the ones it opened."""
        return self._bounded_mu if self._bounds == "distances" and len(self._bounded_mu) == self.K else None

    # ---- parts of a sweep ----

    def assign(self) -> tuple[int, int]:
        """All rows to their nearest centres; returns rows that moved, and rows beyond the limit."""
        self._centres = self._kernel_centres()
        keep = self._keeps_bounds()
        moved, beyond = self._assign(self._moves(), keep)
        self._last_is_new = False
        self._bounds, self._bounded_mu = "distances", self.mu
        self._few_move = moved < len(self.table) / _ROWS_PER_MOVE
        # for few centres and columns, bounds cost more than scans unless nearly every row stays
        self._bounds_pay = keep and (self.mu.size >= _WIDE or moved < len(self.table) / _ROWS_BOUNDED)
        return moved, beyond

    def _keeps_bounds(self) -> bool:
        """Whether the next sweep needs bounds: rows may be beyond the limit, or few will be scanned."""
        return self.may_open() or self.mu.size >= _WIDE or self._few_move

    def add_centres(self, cells: Array) -> None:
        """More centres, at rows (m, D)."""
        self.mu = np.concatenate([self.mu, cells.astype(np.float64)])
        self.K += len(cells)
        if len(self.sums.counts) < self.K:
            self.sums.grow(2 * self.K)
        self._centres = self._kernel_centres()
        self._bounded_mu = self.mu

    def open_in_order(self) -> int:
        """Clusters at rows beyond the limit, in the order of the visits; returns how many rows moved."""
        raise NotImplementedError

    def open_farthest(self) -> None:
        """A cluster at the row beyond the limit that is furthest from its centre."""
        raise NotImplementedError

    def _assign(self, moves: CentreMoves, keep: bool) -> tuple[int, int]:
        """All rows to their nearest centres; returns rows that moved, and rows beyond the limit.

        `keep`: with their bounds.
        """
        raise NotImplementedError

    # ---- labels ----

    def renumber(self, number: NDArray[np.int32]) -> None:
        """labels = number[labels]."""
        raise NotImplementedError

    def first_appearance(self) -> NDArray[np.intp]:
        """The clusters in the order of their first row."""
        raise NotImplementedError

    @property
    def labels(self) -> L:
        """Labels of the rows."""
        raise NotImplementedError

    # ---- what the rows need to know of the centres ----

    def _moves(self) -> CentreMoves:
        limit = self.limit if self.may_open() else np.inf
        if self._bounds != "distances" or not self._bounds_pay:
            return CentreMoves(self.mu, limit)
        scale = self._centres.scale
        drift, half, gap = np.empty((3, self.K), np.float32)
        _kernel.drifts(self._bounded_mu, self.mu, scale, drift)
        apart = self._moved_centers(drift)
        _kernel.gaps(self.mu, np.arange(self.K, dtype=np.int32), 0.5 * scale, half)
        _kernel.gaps(self.mu, apart, scale, gap)
        return CentreMoves(self.mu, limit, drift, others_moved(drift, apart), half, gap, apart)

    def _kernel_centres(self) -> _kernel.Centres:
        return self.table.geometry.centres(self.mu, self.limit if self.may_open() else np.inf)

    def _quick_checks_pay(self) -> bool:
        """Whether comparing a row with a few centres is much faster than a scan of all."""
        return bool(self.K >= _kernel.WORTH_CLUSTERS and self.mu.shape[1] >= _kernel.WORTH_COLUMNS)

    def _moved_centers(self, drift: NDArray[np.float32]) -> NDArray[np.int32]:
        """Centres that the bounds do not cover: a new one, and some that moved much further."""
        found = [self.K - 1] if self._last_is_new else []
        if self._quick_checks_pay():
            furthest = [
                int(k) for k in np.argsort(-drift, kind="stable")[: _kernel.MOST_MOVED + 1] if k not in found
            ]
            for count in range(1, min(_kernel.MOST_MOVED - len(found), len(furthest) - 1) + 1):
                if drift[furthest[count]] < 0.25 * drift[furthest[0]]:
                    found += furthest[:count]
                    break
        return np.array(found, np.int32)


class LocalAssignment(Assignment[Labels]):
    """Rows in memory.

    `limit`, `cap`: as above. `labels` (n,): start partition 0..K-1; updated in place. None: one cluster,
    whose sums the first sweep makes. `order` (n,): rows in the order of the visits; a position is an
    index into it.
    """

    def __init__(
        self, data: DenseData, limit: float, cap: int, labels: Labels | None, order: NDArray[np.int32]
    ) -> None:
        self.data = data
        # before the bounds exist: the moments of the table need labels of their own
        geometry, _ = data.geometry, data.scatter
        upper, lower = np.empty((2, len(data)), np.float32)
        rows = np.full(len(data), _OUTSIDE, np.int32) if labels is None else labels
        self.rows = BoundedRows(data.X, geometry, rows, upper, lower, order, data.n_threads)
        K = 1 if labels is None else int(labels.max()) + 1
        super().__init__(
            data, limit, cap, K, data.sums_with_room(K) if labels is None else data.sums_of(labels, K)
        )

    @property
    def labels(self) -> Labels:
        return self.rows.labels

    def replace_centers(self, centers: Floats) -> None:
        super().replace_centers(centers)
        self.rows.labels[:] = _OUTSIDE
        self.sums.clear()

    def renumber(self, number: NDArray[np.int32]) -> None:
        renumber(self.rows.labels, number)

    def first_appearance(self) -> NDArray[np.intp]:
        return first_appearance(self.rows.labels, self.K)

    def _assign(self, moves: CentreMoves, keep: bool) -> tuple[int, int]:
        return self.rows.assign(moves, self._centres, self.sums, keep)

    def open_in_order(self) -> int:
        return RowsBeyond(self).visit()

    def open_farthest(self) -> None:
        rows = self.rows
        self.open_at(_kernel.farthest(self.data.X, self.mu, self._centres.scale, rows.labels, rows.upper))
        if self._quick_checks_pay():
            self._last_is_new = True  # the next sweep bounds it
        else:
            rows.bound_new(self._centres, self.K - 1, len(self.data))

    def open_at(self, row: int) -> None:
        """Open a cluster at a row; no other row has been compared with it."""
        self.add_centres(self.data.X[row : row + 1])
        self.rows.open_at(row, self._centres, self.sums)

    def collapse(self) -> int:
        """Move every row in turn to the cluster where J is smallest; returns how many moved."""
        data, rows, position, moved = self.data, self.rows, 0, 0
        if not self.sums.counts[: self.K].any():  # no sweep has made them
            rows.labels[:] = 0
            self.sums = data.sums_of(rows.labels, self.K)
        D, K = data.X.shape[1], self.K
        if self._bounds != "costs":
            rows.upper[:] = np.inf
            rows.lower[:] = 0.0
        self._bounds, self._bounded_mu = "costs", self.mu[:0]
        centres = data.geometry.centres(self.mu, self.limit)
        while position < len(data):
            capacity = len(self.sums.counts)
            stop = min(position + rows_at_once(4 * capacity * D), len(data))  # up to `capacity` may open
            mu, travelled = np.zeros((capacity, D)), np.empty(capacity, np.float32)
            position, K, here, _, far, shrunk = _sweep.collapse(
                data.X,
                centres,
                mu,
                np.zeros((capacity + _kernel.PAD, D + 1), np.float32),
                np.empty(capacity + _kernel.PAD, np.float32),
                travelled,
                np.empty(capacity, np.float32),
                data.step,
                data.unit,
                1e-12 * data.scatter,
                self.cap,
                K,
                rows.labels,
                rows.upper,
                rows.lower,
                self.sums,
                rows.order,
                position,
                stop,
                rows.tile,
            )
            _sweep.loosen(rows.labels, travelled, far, shrunk, rows.upper, rows.lower)
            moved += here
            if position < stop:
                self.sums.grow(2 * capacity)
        self.K = K
        return moved


class RowsBeyond(NewClusters):
    """The rows beyond their limit open clusters."""

    def __init__(self, of: LocalAssignment) -> None:
        super().__init__(of.rows, of._centres, of.sums)
        self.of = of

    def may_open(self) -> bool:
        return self.of.may_open()

    def next_candidate(self, start: int, stop: int) -> int:
        position: int = _sweep.next_beyond(self.rows.upper, self.rows.order, start, stop)
        return position

    def _open(self, row: int) -> None:
        self.of.open_at(row)
        self.centres = self.of._centres


def others_moved(drift: NDArray[np.float32], apart: NDArray[np.int32]) -> NDArray[np.float32]:
    """(K,) the furthest that any other centre moved, those of `apart` left out."""
    guarded = drift.copy()
    guarded[apart] = 0.0
    first = int(guarded.argmax())
    others = np.full(len(drift), guarded[first], np.float32)
    guarded[first] = 0.0
    others[first] = guarded.max()
    return others
