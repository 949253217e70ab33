"""What a partition does for DP-means: labels with bounds by recipes, and sums of its rows.

All of it can be sent to a worker.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from craftc._common.dense_data import Geometry, groups_of
from craftc._common.labels import chunks
from craftc._common.random import DPMeansStream, uniform
from craftc._common.threads import threads_for
from craftc._common.typing import Array, Floats, Integers, Labels
from craftc._kernels import dpmeans as _kernel
from craftc._kernels import moments as _moments
from craftc.distributed.partitioned_table import first_rows_of
from craftc.distributed.partitions import Part
from craftc.dpmeans.rows.bounded import BoundedRows, CentreMoves, NewClusters, nearest

_NO_WEIGHT = np.empty(0, np.int64)
_NO_ORDER = np.empty(0, np.int32)


@dataclass(eq=False)
class PassChange:
    """What a recipe did with the rows of a partition."""

    moved: int  # rows that moved
    beyond: int  # rows beyond their limit
    sums: Integers  # (K, D) what the sums of every cluster gained
    counts: Integers  # (K,)


@dataclass(eq=False)
class PlacedRows:
    """Labels of the rows of a partition, and bounds on their distances."""

    labels: Labels  # (n,)
    # upper, lower: (n,) see `BoundedRows`
    upper: NDArray[np.float32]
    lower: NDArray[np.float32]
    change: PassChange | None = None

    def renumbered(self, number: NDArray[np.int32]) -> PlacedRows:
        """number[labels]; the bounds are unchanged."""
        return PlacedRows(number[self.labels], self.upper, self.lower)


# ---- recipes ----


@dataclass(frozen=True)
class RandomLabels:
    """Random labels 0..K-1 that belong to (seed, start, row)."""

    K: int
    seed: int
    start: int

    def labels(self, part: Part) -> Labels:
        rows = part.first + np.arange(len(part))
        return np.asarray(
            (uniform(self.seed, DPMeansStream.LABEL, self.start, rows) * self.K).astype(np.int32)
        )


@dataclass(frozen=True, eq=False)
class Nearest:
    """Every row in the cluster of its nearest centre (ties: the lowest); some rows have given labels."""

    centers: Floats  # (K, D)
    # (m,) ascending positions in the whole table
    rows: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    given: Labels = field(default_factory=lambda: np.empty(0, np.int32))  # (m,)

    @property
    def rowwise(self) -> bool:
        """Whether the label of a row depends on its cells alone."""
        return not len(self.rows)

    def labels(self, part: Part) -> Labels:
        labels = nearest(part.source.numeric, self.centers, part.n_threads)[0]
        here, rows = part.own(self.rows)
        labels[rows] = self.given[here]
        return labels


@dataclass(frozen=True, eq=False)
class NearestSoFar:
    """Squared distance of every row to the nearest point of a traversal."""

    point: Floats

    def labels(self, part: Part, before: Floats | None = None) -> Floats:
        squared = np.full(len(part), np.inf) if before is None else before.copy()
        _kernel.update_nearest(
            part.source.numeric,
            self.point,
            squared,
            threads_for(part.n_threads, 2 * part.source.numeric.size),
        )
        return squared


@dataclass(frozen=True, eq=False)
class NearestBounded:
    """Every row with its nearest centre, and bounds; a row keeps its own unless another one is nearer."""

    geometry: Geometry
    moves: CentreMoves

    def labels(self, part: Part, before: Labels | PlacedRows) -> PlacedRows:
        placed, rows, sums = _copied(part, self.geometry, before, len(self.moves.mu))
        moved, beyond = rows.assign(self.moves, self.geometry.centres(self.moves.mu, self.moves.limit), sums)
        placed.change = PassChange(moved, beyond, sums.sums, sums.counts)
        return placed


@dataclass(frozen=True, eq=False)
class Opened:
    """Some rows become the centres of new clusters."""

    geometry: Geometry
    mu: Floats  # (K, D) all centres, the new ones last
    rows: NDArray[np.int64]  # (m,) the rows that become centres, ascending positions in the whole table
    compared: bool  # later rows join a new cluster that is nearer than their own
    bounded: bool  # the bounds of all rows cover the new centres

    def labels(self, part: Part, before: Labels | PlacedRows) -> PlacedRows:
        n, first = len(part), len(self.mu) - len(self.rows)
        placed, rows, sums = _copied(part, self.geometry, before, len(self.mu))
        here, opening = part.own(self.rows)
        new = GivenClusters(rows, self, first + here.start, opening, sums)
        if not self.compared:
            for row in new.openings:
                new._open(int(row))
            moved = len(new.openings)
        else:
            moved = rows.reassign_to_new(new.centres, first, 0, n, sums) if here.start else 0
            moved += new.visit()
        # the bounds of all rows cover the centres before
        covered = first + here.stop if self.compared else first
        if self.bounded and covered < len(self.mu):
            rows.bound_new(self.geometry.centres(self.mu, np.inf), covered, n)
        placed.change = PassChange(moved, 0, sums.sums, sums.counts)
        return placed


class GivenClusters(NewClusters):
    """Clusters that open at given rows of a partition.

    `K`: clusters that exist before the first of these rows. `openings` (m,): ascending positions in the
    partition.
    """

    def __init__(
        self, rows: BoundedRows, opened: Opened, K: int, openings: NDArray[np.int64], sums: _kernel.Sums
    ) -> None:
        super().__init__(rows, opened.geometry.centres(opened.mu[:K], np.inf), sums)
        self.opened, self.openings = opened, openings

    def may_open(self) -> bool:
        return True

    def next_candidate(self, start: int, stop: int) -> int:
        at = int(np.searchsorted(self.openings, start))
        return int(self.openings[at]) if at < len(self.openings) and self.openings[at] < stop else -1

    def _open(self, row: int) -> None:
        self.centres = self.opened.geometry.centres(self.opened.mu[: len(self.centres.mu) + 1], np.inf)
        self.rows.open_at(row, self.centres, self.sums)


@dataclass(frozen=True)
class LabelsAlone:
    """The labels without bounds."""

    def labels(self, part: Part, before: Labels | PlacedRows) -> Labels:
        return _labels(before)


def _labels(of: Labels | PlacedRows) -> Labels:
    return of.labels if isinstance(of, PlacedRows) else of


def _copied(
    part: Part, geometry: Geometry, before: Labels | PlacedRows, K: int
) -> tuple[PlacedRows, BoundedRows, _kernel.Sums]:
    """A copy of the labels and bounds of a partition, its rows with them, and no sums of K clusters."""
    if isinstance(before, PlacedRows):
        placed = PlacedRows(before.labels.copy(), before.upper.copy(), before.lower.copy())
    else:
        placed = PlacedRows(before.copy(), *np.empty((2, len(part)), np.float32))
    rows = BoundedRows(
        part.source.numeric, geometry, placed.labels, placed.upper, placed.lower, _NO_ORDER, part.n_threads
    )
    return placed, rows, geometry.no_sums(K, part.n_threads)


# ---- what a partition answers ----


def sums_of(
    part: Part, labels: Labels | PlacedRows, middle: Floats, grid: Floats, K: int
) -> tuple[Integers, Integers]:
    """Sums and counts of every cluster."""
    X = part.source.numeric
    sums = Geometry(middle, grid, middle, 1.0, X.dtype == np.float32).no_sums(K, part.n_threads)
    _kernel.accumulate(X, _labels(labels), sums, threads_for(part.n_threads, 2 * X.size))
    return sums.sums, sums.counts


def groups(
    part: Part, labels: Labels | PlacedRows, some: slice | None, K: int, grid: _moments.Grid
) -> Integers:
    """(K, width) exact moments of the clusters in `some`, or of all."""
    X = part.source.numeric
    return groups_of(X, _NO_WEIGHT, _labels(labels), some, K, grid, threads_for(part.n_threads, 2 * X.size))


def change(part: Part, placed: PlacedRows) -> PassChange | None:
    """What the last recipe did with the rows."""
    return placed.change


def farthest(
    part: Part, placed: PlacedRows, mu: Floats, scale: float
) -> tuple[float, int, int, Array] | None:
    """The row beyond its limit furthest from its centre: squared distance, position, cluster, cells."""
    X = part.source.numeric
    row = _kernel.farthest(X, mu, scale, placed.labels, placed.upper) if len(part) else -1
    if row < 0:
        return None
    cells, cluster, squared = np.array(X[row : row + 1]), int(placed.labels[row]), np.empty((1, 1))
    _kernel.distances(cells, mu[cluster : cluster + 1], squared, 1)
    return float(squared[0, 0]), part.first + row, cluster, cells


def candidates(
    part: Part, placed: PlacedRows, new: Floats, limit: float, after: int, most: int
) -> tuple[NDArray[np.int64], Array, bool]:
    """Rows after `after` beyond all centres: positions, cells, whether more follow."""
    X, found = part.source.numeric, np.empty(0, np.intp)
    rows = np.flatnonzero(placed.upper < 0)
    rows = rows[np.searchsorted(rows, after - part.first, side="right") :]
    for some in chunks(len(rows)):
        far = nearest(X[rows[some]], new, part.n_threads)[1] > limit if len(new) else slice(None)
        found = np.concatenate([found, rows[some][far]])
        if len(found) > most:
            break
    return part.first + found[:most], np.array(X[found[:most]]), len(found) > most


def largest(part: Part, squared: Floats) -> tuple[float, int, Array] | None:
    """The largest of the squared distances (ties: the first), the position of its row and its cells."""
    if not len(part):
        return None
    row = int(squared.argmax())
    return float(squared[row]), part.first + row, np.array(part.source.numeric[row])


def farthest_from(part: Part, centers: Floats) -> tuple[float, int, Array] | None:
    """The largest squared distance of a row to its nearest centre, the position of the row and its cells."""
    return largest(part, nearest(part.source.numeric, centers, part.n_threads)[1])


def first_rows(part: Part, labels: Labels | PlacedRows, n_clusters: int) -> dict[int, int]:
    """The position in the whole table of the first row of every cluster that the partition has."""
    return first_rows_of(part, _labels(labels), n_clusters)


def exceptions(
    part: Part, labels: Labels | PlacedRows, centers: Floats, most: int
) -> tuple[NDArray[np.int64], Labels]:
    """At most `most` rows that are not in the cluster that `Nearest` finds, and their labels."""
    own = _labels(labels)
    rows = np.flatnonzero(nearest(part.source.numeric, centers, part.n_threads)[0] != own)[:most]
    return part.first + rows, own[rows]
