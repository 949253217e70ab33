"""The clusters at every step of a merge path, as exact sums and masks, from which a model of fewer clusters
follows without the rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from craftc._common.labels import renumber
from craftc._common.merge_path import MergePath
from craftc._common.typing import Integers, Labels, Mask
from craftc._kernels import craft_cross_products as cross_kernel
from craftc._kernels import moments as moments_kernel
from craftc.craft.covariance import CrossProducts
from craftc.table import MixedTable
from craftc.table.moments import Moments


class CarriedSums:
    """Integer sums of the clusters at every step; only those are stored that do not follow from the step
    before.

    Parameters
    ----------
    sums : ndarray (K, width) of int64
        Of the first step.
    first_numeric : int or None
        Moments: position of the sums of the first numeric column. None: sums of products of columns.
    """

    def __init__(self, sums: Integers, first_numeric: int | None) -> None:
        self._first = self._last = sums.copy()
        self._first_numeric = first_numeric
        self._changes: list[
            tuple[Labels, Labels, Integers]
        ] = []  # places, clusters whose rows changed, their sums

    def append(self, place: Labels, sums: Integers) -> None:
        """Add a step, in which the clusters go to these places."""
        carried = self.carried(self._last, place, len(sums))
        changed = np.flatnonzero((carried != sums).any(axis=1)).astype(np.int32)
        self._changes.append((place, changed, sums[changed]))
        self._last = sums.copy()

    def __iter__(self) -> Iterator[Integers]:
        """(K, width) the sums at every step."""
        sums = self._first
        yield sums.copy()
        for place, changed, rows in self._changes:
            sums = self.carried(sums, place, int(max(place.max(), changed.max(initial=0))) + 1)
            sums[changed] = rows
            yield sums.copy()

    def at(self, step: int) -> Integers:
        """(K, width) the sums at one step."""
        return next(islice(self, step, None))

    def after(self, start: int) -> CarriedSums:
        """The sums from one step on."""
        rest = CarriedSums(self.at(start), self._first_numeric)
        rest._last, rest._changes = self._last, self._changes[start:]
        return rest

    def carried(self, sums: Integers, place: Labels, n_clusters: int) -> Integers:
        """The sums after the clusters have gone to these places."""
        out = np.zeros((n_clusters, sums.shape[1]), np.int64)
        for group, to in zip(sums, place, strict=True):
            if self._first_numeric is None:
                cross_kernel.add_cross(out[to], group)
            else:
                moments_kernel.merge(out[to], group, 1, self._first_numeric)
        return out


@dataclass
class PathClusters:
    """The clusters at every step of a merge path.

    Parameters
    ----------
    sums : CarriedSums
        Moments.
    masks : list of ndarray (K, D) of uint8
        Under the pooled background; otherwise empty.
    cross : CarriedSums or None
        Sums of products of columns, where clusters hold covariances.
    original : CarriedSums or None
        Moments of the table in its original units, where the encoding changes it.
    """

    sums: CarriedSums
    masks: list[Mask]
    cross: CarriedSums | None = None
    original: CarriedSums | None = None

    @classmethod
    def begin(cls, moments: Moments, mask: Mask | None, cross: CrossProducts | None = None) -> PathClusters:
        """The first step."""
        masks = [] if mask is None else [mask.copy()]
        return cls(moment_sums(moments), masks, None if cross is None else cross_sums(cross.sums))

    def append(
        self, place: Labels, groups: Integers, mask: Mask | None, cross: CrossProducts | None = None
    ) -> None:
        """Add a step, in which the clusters go to these places."""
        self.sums.append(place, groups)
        if mask is not None:
            self.masks.append(mask.copy())
        if self.cross is not None and cross is not None:
            self.cross.append(place, cross.sums)

    def at(
        self, step: int, moments: Moments, original_units: Moments, cross: CrossProducts | None
    ) -> tuple[Any, ...]:
        """Moments, moments in original units, mask and sums of products at one step; the arguments are those
        of the first step.
        """
        of_step = Moments.of_groups(moments.grid, moments.unit, self.sums.at(step))
        original = of_step
        if self.original is not None:
            original = Moments.of_groups(original_units.grid, original_units.unit, self.original.at(step))
        mask = self.masks[step] if self.masks else None
        if cross is None or self.cross is None:
            return of_step, original, mask, None
        return of_step, original, mask, CrossProducts(cross.columns, self.cross.at(step))

    def after(self, start: int) -> PathClusters:
        """The clusters from one step on."""
        cross, original = (
            None if sums is None else sums.after(start) for sums in (self.cross, self.original)
        )
        return PathClusters(self.sums.after(start), self.masks[start:], cross, original)


def moment_sums(moments: Moments) -> CarriedSums:
    """Moments along a path that begins with these."""
    return CarriedSums(moments.groups, moments.grid.first_numeric)


def cross_sums(sums: Integers) -> CarriedSums:
    """Sums of products of columns along a path that begins with these."""
    return CarriedSums(sums, None)


def sums_of_table(
    path: MergePath, moments: Moments, table: MixedTable, weight: Integers, n_threads: int
) -> CarriedSums:
    """Moments of another encoding of the table along a path, from those of its first step; only the rows that
    moved are read.

    Parameters
    ----------
    path : MergePath
    moments : Moments
        Of the first step.
    table : MixedTable
    weight : ndarray (n,) of int64
        Counts of the rows; empty: all one.
    n_threads : int
    """
    grid, unit, sums = moments.grid, moments.unit, moment_sums(moments)
    first = path.first_labels()
    assert first is not None  # the rows are here
    groups, labels = moments.groups, first.copy()
    for (n_clusters, _), change in zip(path.objectives()[1:], path.changes(), strict=True):
        groups, rows = sums.carried(groups, change.place, n_clusters), change.moved
        if len(rows):
            part, of_rows = table.take(rows), weight[rows] if len(weight) else weight
            for sign, where in ((-1, change.place[labels[rows]]), (1, change.where)):
                moved = Moments.of_partition(grid, unit, part, of_rows, where, n_clusters, n_threads)
                for group, other in zip(groups, moved.groups, strict=True):
                    moments_kernel.merge(group, other, sign, grid.first_numeric)
        renumber(labels, change.place)
        labels[rows] = change.where
        sums.append(change.place, groups)
    return sums
