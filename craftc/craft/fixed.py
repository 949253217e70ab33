"""Clusters that stay as they are while rows are added to them.

All sums are integers, so that the sums of a table and of further rows are those of one table, however the
rows are divided. Rows are assigned by the clusters of the last fit, whatever has been added since.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from craftc._common.labels import chunks
from craftc._common.merge_path import Change, MergePath
from craftc._common.typing import Integers, Labels, Mask
from craftc._common.validation import WEIGHT_BITS
from craftc._kernels import moments as moments_kernel
from craftc._kernels.moments import Grid
from craftc.craft.background import Background
from craftc.craft.clusters import Clusters
from craftc.craft.fitted import CarriedSums, ColumnLinks, FittedClusters, PathClusters, RowCounts
from craftc.craft.products import CrossProducts, add_products, products_of
from craftc.table import MixedTable
from craftc.table.moments import NUMERIC_CELLS, Moments, add_groups

_LARGEST_STEP = 2.0**62  # an integer of a cell
_LARGEST_SQUARES = 2.0**125  # a sum of squares, of 128 bits


@dataclass(frozen=True, eq=False)
class FixedClusters:
    """The clusters of the last fit, by which rows are assigned."""

    groups: Integers  # (K, width)
    mask: Mask  # (K, D) as `FittedClusters.mask`
    cross: Integers | None  # (K, P (P + 1)), if clusters hold covariances
    unit: float  # weight of one count
    price_factor: float
    links: ColumnLinks
    counts: Integers | None = None  # (K,) of rows, where `FittedClusters.rows` has them

    @classmethod
    def of(cls, fitted: FittedClusters) -> FixedClusters:
        """Those of a fitted model."""
        assert fitted.mask is not None
        cross, spec = None if fitted.cross is None else fitted.cross.sums, fitted.spec
        sums = fitted.sums
        counts = None if fitted.rows is None else fitted.rows.counts
        return cls(sums.groups, fitted.mask, cross, sums.unit, spec.price_factor, fitted.links, counts)

    def clusters(self, fitted: FittedClusters) -> Clusters:
        """The clusters with their cost tables; `fitted`: the model that has them."""
        spec = replace(fitted.spec, price_factor=self.price_factor)
        sums = replace(fitted.sums, groups=self.groups, unit=self.unit)
        cross = _products(fitted, self.cross)
        rows = fitted.rows
        if rows is not None and self.counts is not None:
            rows = replace(rows, counts=self.counts)
        return replace(fitted, spec=spec, sums=sums, mask=self.mask, cross=cross, rows=rows).clusters


@dataclass(frozen=True, eq=False)
class RowSums:
    """Exact sums of rows in every cluster."""

    groups: Integers  # as the model sees the rows
    original: Integers  # in the original units
    cross: Integers | None
    rows: RowCounts | None = None  # if clusters are fixed and have sums of an earlier table

    def added(self, fitted: FittedClusters) -> RowSums:
        """The sums of a model and of these rows."""
        groups, original = self.groups.copy(), self.original.copy()
        pairs = ((groups, fitted.sums), (original, fitted.original))
        for own, known in pairs[: 1 if fitted.encoding.identity else 2]:
            add_groups(own, known.groups, known.grid)
        cross = None
        if fitted.cross is not None and self.cross is not None:
            cross = self.cross.copy()
            add_products(cross, fitted.cross.sums)
        rows = fitted.rows
        if rows is not None:
            rows = replace(rows, counts=rows.counts + self.groups[:, 0])
        return RowSums(groups, groups if fitted.encoding.identity else original, cross, rows)


def sums_of_rows(
    fitted: FittedClusters,
    fixed: Clusters,
    columns: MixedTable,
    seen: MixedTable,
    weight: Integers,
    unit: float,
    labels: Labels,
    n_threads: int,
) -> RowSums:
    """The sums of rows with these labels, in `columns` as they are and in `seen` as the model sees them.

    Raises ValueError where a number lies so far beyond those of the fit that its squares would overflow.
    """
    K = fixed.moments.n_clusters
    check_far(fitted, columns, weight)
    cross = None
    if fitted.cross is not None:
        assert fixed.covariances is not None
        conditionals = fixed.covariances.conditionals()
        cross = products_of(
            fitted.cross.columns, fitted.sums.grid, seen, weight, labels, K, conditionals, n_threads
        )
    grid = fitted.sums.grid
    groups = Moments.of_partition(grid, unit, seen, weight, labels, K, n_threads).groups
    original = groups
    if not fitted.encoding.identity:
        grid = fitted.original.grid
        original = Moments.of_partition(grid, unit, columns, weight, labels, K, n_threads).groups
    return RowSums(groups, original, cross)


def check_far(fitted: FittedClusters, columns: MixedTable, weight: Integers) -> None:
    """Raise ValueError if sums of the squares of numbers overflow, and say whether the numbers or the weights
    are too large.
    """
    grid, names = fitted.original.grid, fitted.schema.numeric_names
    ends = np.empty((2, grid.p))
    moments_kernel.column_ranges(columns.numeric, np.empty(0, np.int64), ends[0], ends[1], 1)
    squares = fitted.original.groups[:, grid.first_numeric + 4 :: NUMERIC_CELLS].sum(axis=0) * 2.0**64
    with np.errstate(over="ignore"):
        far = np.where(ends[0] <= ends[1], np.abs(ends - grid.centre).max(axis=0) * grid.scale, 0.0)
        sums = squares
        for rows in chunks(len(columns)):
            steps = (columns.numeric[rows] - grid.centre) * grid.scale
            own = weight[rows].astype(np.float64)[:, None] if len(weight) else 1.0
            sums = sums + np.nansum(own * steps**2, axis=0)
    beyond = np.flatnonzero((far >= _LARGEST_STEP) | (sums >= _LARGEST_SQUARES))
    if len(beyond):
        d, unit = int(beyond[0]), fitted.sums.unit
        counts = int(fitted.original.groups[:, 0].sum()) + (
            int(weight.sum()) if len(weight) else len(columns)
        )
        if counts > 2 << WEIGHT_BITS:
            raise ValueError(
                f"The rows of the fit and those of X have a weight of {counts * unit:.3g} together, counted "
                f"in steps of {unit:.3g}, and exact sums of column {names[d]!r} overflow; fit with whole "
                "weights, or refit(X) with keep='numbers'."
            )
        value = ends[int(np.abs(ends[:, d] - grid.centre[d]).argmax()), d]
        raise ValueError(
            f"Column {names[d]!r} contains {value:.6g}, so far beyond the numbers of the fit that exact sums "
            "overflow; check its unit, or refit(X) with keep='numbers'."
        )


def updated(
    fitted: FittedClusters,
    fixed: FixedClusters,
    sums: RowSums,
    unit: float,
    labels: Labels | None,
    price_factor: float,
) -> FittedClusters:
    """The model with other sums of its clusters, which keep their numbers, and its merges in their order;
    `labels` of all rows, if they are known.
    """
    own = replace(fitted.sums, groups=sums.groups, unit=unit)
    original = own if fitted.encoding.identity else replace(fitted.original, groups=sums.original, unit=unit)
    moments = own.moments()
    rest = None if sums.rows is None else sums.rows.rest
    background = Background(moments.total(rest), fitted.levels)
    scale = float(moments.sizes.sum()) / (float(fixed.groups[:, 0].sum()) * fixed.unit)
    links = fixed.links.scaled(scale)
    spec = replace(fitted.spec, price_factor=price_factor)
    possible = _possible(fitted, background)
    mask, cross = fixed.mask & possible, _products(fitted, sums.cross)
    clusters = Clusters(moments, background, spec, mask, cross, keep=True)
    state = replace(
        fitted, spec=spec, sums=own, original=original, links=links, mask=mask, cross=cross, rows=sums.rows
    )
    path, along = _path(state, clusters, possible, labels)
    state = replace(state, path=path, along=along, order=fitted.by_number.astype(np.int32))
    state.remember(clusters)
    return state


def _products(fitted: FittedClusters, sums: Integers | None) -> CrossProducts | None:
    return None if fitted.cross is None or sums is None else replace(fitted.cross, sums=sums)


def _possible(fitted: FittedClusters, background: Background) -> Mask:
    """(D,) what clusters can select in a table with this background."""
    possible = background.usable.copy()
    if fitted.cross is not None:
        columns = fitted.cross.columns
        if not background.varies[columns].all():
            d = fitted.encoding.source[columns[int(background.varies[columns].argmin())]]
            raise ValueError(
                f"Column {fitted.schema.columns[d]!r} has one value in X, but clusters hold covariances of "
                "it; refit(X) with keep='numbers' chooses them anew."
            )
        possible[background.levels_of_scores[columns]] |= 2
    return possible


def _path(
    fitted: FittedClusters, clusters: Clusters, possible: Mask, labels: Labels | None
) -> tuple[MergePath, PathClusters]:
    """The merges of the path that a model has, in their order, from these clusters, which have its sums."""
    assert fitted.path is not None
    assert fitted.along is not None
    assert fitted.mask is not None
    moments, cross = clusters.moments, fitted.cross
    K = moments.n_clusters
    snapshot = None if labels is None else labels.astype(np.min_scalar_type(-K))
    path = MergePath(snapshot, K, clusters.objective)
    along = PathClusters.begin(moments, fitted.mask, cross)
    original = fitted.original.moments()
    if not fitted.encoding.identity:
        along.original = CarriedSums(original.groups, original.grid.first_numeric)
    groups, own = moments.groups, original.groups
    for change, mask in zip(fitted.path.changes(), fitted.along.masks[1:], strict=True):
        heirs, mask = change.heirs, mask & possible
        groups = _joined(groups, heirs, moments.grid)
        of_step = Moments.of_groups(moments.grid, moments.unit, groups)
        cross = None if cross is None else replace(cross, sums=_joined(cross.sums, heirs, None))
        J = Clusters(of_step, clusters.background, fitted.spec, mask, cross, keep=True).objective
        path.append_change(len(groups), J, Change(change.merged, heirs, heirs))
        along.append(heirs, groups, mask, cross)
        if along.original is not None:
            own = _joined(own, heirs, original.grid)
            along.original.append(heirs, own)
    return path, along


def _joined(groups: Integers, heirs: Labels, grid: Grid | None) -> Integers:
    """The sums of clusters that continue as others; `grid`: of moments, None: of products of columns."""
    carried = CarriedSums(groups, None if grid is None else grid.first_numeric)
    return carried.carried(groups, heirs, int(heirs.max()) + 1)
