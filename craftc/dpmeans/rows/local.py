"""The rows of a fit of DP-means in memory, and the partitions from which descents start."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from craftc._common.dense_data import DenseData
from craftc._common.labels import compact
from craftc._common.random import DPMeansStream, uniform
from craftc._common.threads import threads_for
from craftc._common.typing import Array, Floats, Integers, Labels
from craftc._kernels import dpmeans as _kernel
from craftc.dpmeans.descent import SphericalDescent, SphericalFit
from craftc.dpmeans.penalty import farthest_first
from craftc.dpmeans.rows.bounded import WINDOW, nearest, rows_beyond
from craftc.dpmeans.seeding import random_row

_ROWS_AT_ONCE = 1 << 17  # rows whose distances are kept, 12 bytes each
_LEADERS_AT_ONCE = 256  # centres that one kernel call finds


class DPMeansLocalRows:
    """`DPMeansRows` in memory."""

    def __init__(self, data: DenseData) -> None:
        self.data = self.table = data
        self._counted = np.flatnonzero(data.weight) if len(data.weight) else None
        self.n_counted = len(data) if self._counted is None else len(self._counted)

    def __len__(self) -> int:
        return len(self.data)

    # ---- start partitions ----

    def one_cluster(self) -> Labels | None:
        return None

    def random_labels(self, K: int, seed: int, start: int) -> Labels:
        return compact((uniform(seed, DPMeansStream.LABEL, start, np.arange(len(self))) * K).astype(np.int32))

    def nearest_labels(self, centers: Floats) -> Labels:
        return compact(nearest(self.data.X, centers, self.data.n_threads)[0])

    def farthest(self, centers: Floats, labels: Labels | None = None) -> tuple[float, Array]:
        data, largest, row = self.data, -1.0, 0
        for first in range(0, len(data), _ROWS_AT_ONCE):
            some = slice(first, min(first + _ROWS_AT_ONCE, len(data)))
            X = data.X[some]
            if labels is None:
                rows, squared = np.arange(len(X)), nearest(X, centers, data.n_threads)[1]
            else:
                rows, squared = _farthest_candidates(
                    X, data.weight[some], centers, labels[some], data.n_threads
                )
            if len(data.weight):
                squared[data.weight[some][rows] == 0] = 0.0
            at = int(squared.argmax())
            if squared[at] > largest:
                largest, row = float(squared[at]), first + int(rows[at])
        return largest, data.X[row]

    def sweeps(
        self, penalty: float, cap: int, labels: Labels | None, seed: int, number: int
    ) -> SphericalDescent:
        return SphericalDescent(self.data, penalty, cap, labels, self.data.order(seed, number))

    def leaders(self, limit: float, cap: int) -> Floats:
        data, centers, start, size = self.data, self.data.mean[None], 0, WINDOW

        def beyond(X: Array, share: Floats, centers: Floats) -> NDArray[np.intp]:
            return np.flatnonzero(
                rows_beyond(X, share, data.geometry.centres(centers, limit), data.n_threads)
            )

        while start < len(data) and len(centers) < cap:
            rows = slice(start, start + size)
            X, share = data.X[rows], data.unit_weight[rows]
            far = beyond(X, share, centers)
            start, size = start + size, WINDOW if len(far) > WINDOW else min(2 * size, _ROWS_AT_ONCE)
            while len(far) and len(centers) < cap:
                found = np.empty((min(len(far), cap - len(centers), _LEADERS_AT_ONCE), X.shape[1]))
                n_found, stop = _kernel.leaders(X, far, share, limit, found)
                centers, far = np.concatenate([centers, found[:n_found]]), far[stop:]
                if len(far):
                    far = far[beyond(X[far], share[far] if len(share) else share, found)]
        return centers

    # ---- single rows ----

    def gathered(self, rows: NDArray[np.intp] | None = None) -> DenseData:
        if rows is None:
            return self.data
        return self.data.of_rows(rows if self._counted is None else self._counted[rows])

    def counted(self) -> DenseData:
        if self._counted is None or self.n_counted == len(self):
            return self.data
        return self.data.of_rows(self._counted)

    def labels_of_all(self, counted: Labels) -> Labels:
        if self._counted is None:
            return counted
        labels = np.zeros(len(self), np.int32)
        labels[self._counted] = counted
        return labels

    def random_row(self, seed: int, start: int) -> Floats:
        return random_row(self.data, seed, start)

    def farthest_first(self, n_clusters: int) -> tuple[NDArray[np.intp], Floats, Floats]:
        rows, squared = farthest_first(self.data, n_clusters)
        return rows, self.data.X[rows].astype(np.float64), squared

    # ---- the result ----

    def in_form_of_input(self, fit: SphericalFit[Labels]) -> Labels:
        return fit.labels


def _farthest_candidates(
    X: Array, weight: Integers, centers: Floats, labels: Labels, n_threads: int
) -> tuple[NDArray[np.intp], Floats]:
    """Rows among which the one of weight > 0 is that is furthest from its nearest centre, and their squared
    distances to that.

    No row is further from the nearest centre than from the centre of its cluster.
    """
    own = np.empty(len(X))
    _kernel.own_distances(X, centers, labels, own, threads_for(n_threads, 2 * X.size))
    if len(weight):
        own[weight == 0] = 0.0
    at = int(own.argmax())
    within = nearest(X[at : at + 1], centers, 1)[1]
    # own[at] is less where it is 0 and the row lacks weight
    rows = np.flatnonzero(own >= np.minimum(within, own[at]))
    return rows, nearest(np.ascontiguousarray(X[rows]), centers, 1)[1]
