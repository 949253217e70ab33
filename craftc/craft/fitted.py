"""What a fitted CRAFT holds: exact sums of its clusters, from which its attributes and answers follow.

Everything here is plain data (numbers, text, arrays, dataclasses of these), so that a fitted estimator can be
written by tools that know no compiled objects. Cost tables and prices are computed from it when they are
first needed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from craftc._common.labels import renumber
from craftc._common.merge_path import MergePath, objectives_of, saving_of
from craftc._common.typing import Array, Bits, Floats, Integers, Ints, Labels, Mask, WeightInput
from craftc._common.validation import check_weight, counts_in
from craftc._kernels import craft_cross_products as cross_kernel
from craftc._kernels import moments as moments_kernel
from craftc.craft.background import Background, feature_prices
from craftc.craft.clusters import Clusters
from craftc.craft.covariance import too_many_columns
from craftc.craft.one_factor import OneFactor
from craftc.craft.paper.clusters import PaperClusters
from craftc.craft.parameters import ModelSpec
from craftc.craft.products import CrossProducts
from craftc.describe.columns import Column
from craftc.describe.statistics import column_statistics
from craftc.describe.view import ClusterView, links_of, order_by_size
from craftc.table import MixedTable, Schema
from craftc.table.answers import answer_groups
from craftc.table.column_weights import weights_note
from craftc.table.declared import codes_note
from craftc.table.levels import LevelEncoding
from craftc.table.moments import ExactSums, Moments, add_groups
from craftc.table.numeric_encoding import NumericEncoding


class CarriedSums:
    """Integer sums of the clusters at every step of a merge path; only sums that do not follow from the step
    before are stored.

    Parameters
    ----------
    sums : ndarray (K, width) of int64
        Of the first step.
    first_numeric : int or None
        Position of the first numeric cell of moments; None: the sums are products of columns.
    """

    def __init__(self, sums: Integers, first_numeric: int | None) -> None:
        self._first = self._last = sums.copy()
        self._first_numeric = first_numeric
        # places, clusters whose rows changed, their sums
        self._changes: list[tuple[Labels, Labels, Integers]] = []

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
    """The clusters at every step of a merge path."""

    sums: CarriedSums  # moments
    masks: list[Mask]  # (K, D) of every step; FittedClusters.mask
    cross: CarriedSums | None = None  # products of columns, where clusters hold covariances
    original: CarriedSums | None = None  # moments in the original units, where the encoding changes them

    @classmethod
    def begin(cls, moments: Moments, mask: Mask, cross: CrossProducts | None = None) -> PathClusters:
        """The first step."""
        products = None if cross is None else CarriedSums(cross.sums, None)
        return cls(CarriedSums(moments.groups, moments.grid.first_numeric), [mask.copy()], products)

    def append(self, place: Labels, groups: Integers, mask: Mask, cross: CrossProducts | None = None) -> None:
        """Add a step, in which the clusters go to these places."""
        self.sums.append(place, groups)
        self.masks.append(mask.copy())
        if self.cross is not None and cross is not None:
            self.cross.append(place, cross.sums)

    def after(self, start: int) -> PathClusters:
        """The clusters from one step on."""
        cross, original = (
            None if sums is None else sums.after(start) for sums in (self.cross, self.original)
        )
        return PathClusters(self.sums.after(start), self.masks[start:], cross, original)


def sums_of_table(
    path: MergePath, moments: Moments, table: MixedTable, weight: Integers, n_threads: int
) -> CarriedSums:
    """Moments of another encoding of the table along a path, from those of its first step; only the rows that
    moved are read. `weight` holds the counts of the rows; empty: all one.
    """
    grid, unit = moments.grid, moments.unit
    sums = CarriedSums(moments.groups, grid.first_numeric)
    first = path.first_labels()
    assert first is not None  # the rows are here
    groups, labels = moments.groups, first.copy()
    for (n_clusters, _), change in zip(path.objectives()[1:], path.changes(), strict=True):
        groups, rows = sums.carried(groups, change.place, n_clusters), change.moved
        if len(rows):
            part, of_rows = table.take(rows), weight[rows] if len(weight) else weight
            for sign, where in ((-1, change.place[labels[rows]]), (1, change.where)):
                moved = Moments.of_partition(grid, unit, part, of_rows, where, n_clusters, n_threads)
                add_groups(groups, moved.groups, grid, sign)
        renumber(labels, change.place)
        labels[rows] = change.where
        sums.append(change.place, groups)
    return sums


@dataclass
class ColumnLinks:
    """Links between columns, which describe a table without clusters. Columns are positions of input columns,
    the earlier first.
    """

    saving: float = 0.0  # nats by which links of columns that clusters describe shorten the description
    pairs: list[tuple[int, int, float]] = field(default_factory=list)  # and the nats they save, most first
    # columns that share at least half of the information of the simpler one, and this share
    alike: list[tuple[int, int, float]] = field(default_factory=list)
    # column, level, other column, its level: nine of ten rows with the first level have the second
    implied: list[tuple[int, int, int, int]] = field(default_factory=list)
    factor: OneFactor = field(default_factory=OneFactor)  # behind columns that clusters describe
    besides: float = 0.0  # `saving` without links that groups along the factor explain

    @property
    def rival(self) -> float:
        """What links or one factor save."""
        return max(self.saving, self.factor.gradual)

    def ratio(self, saved: float) -> float:
        """What links or one factor save over what clusters save; infinity if clusters save nothing, NaN if
        nothing does.

        Where the places of the rows on the factor are a few points, groups explain the links between its
        columns, so that only the other links can make the ratio exceed 1.
        """
        if saved > 0.0:
            return (max(self.besides, min(self.rival, saved)) if self.factor.separate else self.rival) / saved
        return math.inf if self.rival > 0.0 else math.nan

    def scaled(self, scale: float) -> ColumnLinks:
        """The links of a table that is `scale` times as long."""
        return replace(
            self,
            saving=self.saving * scale,
            pairs=[(a, b, nats * scale) for a, b, nats in self.pairs],
            factor=replace(self.factor, saving=self.factor.saving * scale),
            besides=self.besides * scale,
        )


class WeightColumn(NamedTuple):
    """The column of a file that holds the weights of the rows of a fit."""

    column: str
    scaled: bool  # to the number of rows that they are worth


@dataclass(frozen=True, eq=False)
class RowCounts:
    """The rows of a fit with fixed clusters, whose sums are those of an earlier table.

    The whole table is that table's rows of the fixed clusters, and all rows of the fit.
    """

    counts: Integers  # (K,) of the rows of fit
    fixed: Mask  # (K,)
    rest: Integers  # (width,) sums of the rows of fit in fixed clusters, as the model sees them
    original: Integers  # (original width,) and in the original units
    # (K, original width) sums of the tables whose distributions smooth those of clusters; 0: whole table
    former: Integers
    # (K, D) features that fixed clusters selected in their model; here all distributions are their own, so
    # that other clusters do not change them
    mask: Mask

    def merged(self, place: Labels) -> RowCounts:
        """After the clusters have gone to these places."""
        K = int(place.max()) + 1
        counts, fixed = np.zeros(K, np.int64), np.zeros(K, np.uint8)
        np.add.at(counts, place, self.counts)
        np.maximum.at(fixed, place, self.fixed)
        former = np.zeros((K, self.former.shape[1]), np.int64)
        alone = np.bincount(place, minlength=K)[place] == 1
        former[place[alone]] = self.former[alone]
        mask = np.zeros((K, self.mask.shape[1]), np.uint8)
        np.maximum.at(mask, place, self.mask)
        return replace(self, counts=counts, fixed=fixed, former=former, mask=mask)


_CLUSTERS: WeakKeyDictionary[FittedClusters, Clusters] = WeakKeyDictionary()
_STATISTICS: WeakKeyDictionary[FittedClusters, list[Column]] = WeakKeyDictionary()


@dataclass(frozen=True, eq=False)
class FittedClusters:
    """The state of a fitted CRAFT or PaperCRAFT."""

    spec: ModelSpec
    schema: Schema  # of the input
    encoding: NumericEncoding | LevelEncoding
    sums: ExactSums  # of the table as the model sees it
    original: ExactSums  # of the table in its original units; `sums` if the encoding changes nothing
    mask: Mask | None = None  # (K, D) features that the search selected (1), of covariances (2), both (3)
    cross: CrossProducts | None = None  # if clusters hold covariances
    path: MergePath | None = None  # from these clusters down to one
    along: PathClusters | None = None  # the clusters at every step of the path
    links: ColumnLinks = field(default_factory=ColumnLinks)
    order: Labels | None = None  # (K,) clusters by their numbers, after a refit; None: by size
    rows: RowCounts | None = None  # if clusters are fixed

    @property
    def levels(self) -> LevelEncoding | None:
        """The encoding of CRAFT; None: that of PaperCRAFT."""
        return self.encoding if isinstance(self.encoding, LevelEncoding) else None

    @property
    def _counts(self) -> Integers | None:
        return None if self.rows is None else self.rows.counts

    @property
    def _rest(self) -> Integers | None:
        return None if self.rows is None else self.rows.rest

    @property
    def clusters(self) -> Clusters:
        """The clusters with their prices and cost tables."""
        if self not in _CLUSTERS:
            moments = self.sums.moments()
            background = Background(moments.total(self._rest), self.levels)
            _CLUSTERS[self] = (
                Clusters(
                    moments, background, self.spec, self.mask, self.cross, keep=True, counts=self._counts
                )
                if self.spec.pooled
                else PaperClusters(moments, background, self.spec, self.mask)
            )
        return _CLUSTERS[self]

    def remember(self, clusters: Clusters) -> None:
        """Use these clusters, which have the same sums."""
        _CLUSTERS[self] = clusters

    @property
    def sizes(self) -> Array:
        """(K,) rows of every cluster; with weights that are not whole: their sum."""
        moments = self.clusters.moments
        sizes = moments.sizes if self.rows is None else self.rows.counts * moments.unit
        return sizes.astype(np.int64) if moments.unit == 1.0 else sizes

    @property
    def weight(self) -> float:
        """Weight of the rows of fit."""
        return float(np.sum(self.sizes))

    @property
    def gains(self) -> Floats:
        """(K, n_columns) what every column saves in every cluster over the whole table, nats; of a fixed
        cluster for its rows of fit, by the mean of its former ones.
        """
        gains = self.of_columns(self.clusters.gains)
        return gains if self.rows is None else gains * (self.sizes / self.clusters.moments.sizes)[:, None]

    @property
    def by_number(self) -> Ints:
        """(K,) clusters by their numbers in reports and files."""
        return order_by_size(self.sizes) if self.order is None else self.order.astype(np.intp)

    @property
    def original_moments(self) -> Moments:
        """Moments of the clusters in the original units of the table."""
        return self.clusters.moments if self.encoding.identity else self.original.moments()

    @property
    def statistics(self) -> list[Column]:
        """Statistics of the input columns."""
        if self not in _STATISTICS:
            _STATISTICS[self] = column_statistics(
                self.original_moments,
                self.schema,
                self.clusters.moments,
                () if self.levels is None else self.levels.numbers,
                None if self.rows is None else (self.rows.original, self.rows.rest),
            )
        return _STATISTICS[self]

    @property
    def original_clusters(self) -> Clusters:
        """The clusters in the original units, for means, variances and level probabilities."""
        if self.encoding.identity:
            return self.clusters
        moments = self.original.moments()
        return self._in_original(moments, self._original_total)

    @property
    def _original_total(self) -> Moments:
        return self.original.moments().total(None if self.rows is None else self.rows.original)

    def _in_original(self, moments: Moments, total: Moments) -> Clusters:
        """Clusters in the original units, smoothed by the distributions of a table."""
        if self.encoding.identity:
            return Clusters(moments, Background(total, self.levels), self.spec)
        return PaperClusters(moments, Background(total), ModelSpec())

    @property
    def former_tables(self) -> Integers:
        """(K, original width) sums of the tables whose distributions smooth those of the clusters."""
        out = np.repeat(self._original_total.groups, len(self.sums.groups), axis=0)
        if self.rows is not None:
            known = self.rows.former.any(axis=1)
            out[known] = self.rows.former[known]
        return out

    @property
    def smoothed(self) -> tuple[Floats, Floats]:
        """(K, p) variances and (K, n_levels) shares in the original units; those of fixed clusters are
        smoothed by the table that they come from.
        """
        variances, shares = _smoothed(self.original_clusters)
        if self.rows is not None:
            moments = self.original.moments()
            tables, of = np.unique(self.rows.former, axis=0, return_inverse=True)
            for t in np.flatnonzero(tables.any(axis=1)).tolist():
                at = np.flatnonzero(of.ravel() == t)
                total = Moments.of_groups(moments.grid, moments.unit, tables[[t]])
                variances[at], shares[at] = _smoothed(self._in_original(moments.select(at), total))
        return variances, shares

    @property
    def dependence_ratio(self) -> float:
        """What links or one factor save over what clusters save."""
        return self.links.ratio(saved_by(self.clusters, self.path, self.cross is not None))

    @property
    def selected(self) -> Bits:
        """(K, n_columns) input columns that each cluster selected, in one of their parts at least."""
        return self.of_columns(self.own_masks) > 0

    @property
    def own_masks(self) -> Mask:
        """(K, D) features that each cluster selected, a fixed one in its model."""
        mask = self.clusters.mask
        return mask if self.rows is None else np.where(self.rows.fixed[:, None], self.rows.mask, mask)

    @property
    def differs(self) -> Bits:
        """(K, n_columns) features that a cluster selects, or shares with others but not with the whole table:
        the gain exceeds its price. The only rule by which a feature defines a cluster. A whole table that is
        one cluster differs in none.
        """
        if not self.spec.pooled:
            return self.selected
        clusters, whole = self.clusters, len(self.sizes) == 1 and self.rows is None
        pays = clusters.gains > feature_prices(clusters.background, self.spec)
        return (self.selected | (self.of_columns(pays.astype(np.uint8)) > 0)) & (not whole)

    @property
    def distributions(self) -> Array:
        """(K, n_columns) whose distribution the cells of each cluster have: "own", "shared with n clusters",
        or "whole table".

        A cluster has its own distribution of a column if it selects the column, or if all other clusters
        select it.
        """
        selected = self.selected
        if not self.spec.pooled:
            return np.where(selected, "own", "whole table").astype(object)
        own = selected | (self.of_columns(self.clusters.mask) > 0)
        others = np.maximum((~own).sum(axis=0) - 1, 0).tolist()
        shared = ["own" if n == 0 else f"shared with {n} cluster{'' if n == 1 else 's'}" for n in others]
        return np.where(own, "own", np.array(shared, object)[None, :])

    def distributions_of(self, members: Sequence[Sequence[int]]) -> Array:
        """(K, n) the distributions of groups of columns: "own" where one of them has its own."""
        each = (self.distributions[:, at] for at in members)
        return np.column_stack([np.where((of == "own").any(axis=1), "own", of[:, 0]) for of in each])

    @property
    def view(self) -> ClusterView:
        """The clusters for every description."""
        return ClusterView(
            self.schema.columns,
            self.statistics,
            self.sizes,
            self.differs,
            self.selected,
            self.gains,
            links_of(self.links.alike, self.links.implied),
            groups=answer_groups(self.schema),
            given_order=self.order,
        )

    @property
    def column_weights(self) -> list[float]:
        """Weights of the input columns."""
        levels = self.levels
        return [1.0] * self.schema.n_columns if levels is None else levels.column_weights.tolist()

    @property
    def _fixed_note(self) -> list[str]:
        if self.rows is None:
            return []
        k = ", ".join(str(k) for k in np.flatnonzero(self.rows.fixed).tolist())
        return [
            f"Fixed clusters have the distributions of the model that they come from (label {k}). Sizes "
            "count rows of this table; the whole table contains their former rows, too."
        ]

    @property
    def notes(self) -> list[str]:
        """What a summary says of weights of columns, of codes, and of covariances."""
        levels, columns = self.levels, self.schema.columns
        weighted = [] if levels is None else weights_note(columns, levels.weights) + codes_note(levels.codes)
        return (
            self._fixed_note
            + weighted
            + too_many_columns(levels, self.clusters.moments.total(self._rest), self.spec)
        )

    def check_rows(
        self, table: MixedTable, sample_weight: WeightInput, n: int, labels: Labels | None, n_threads: int
    ) -> Floats | None:
        """The weights of encoded rows; ValueError unless they can be those of the n rows of the fit and, with
        `labels`, have the clusters' sums.
        """
        if len(table) != n:
            raise ValueError(
                f"X has {len(table)} rows, but the model was fitted on {n}; pass the table of fit."
            )
        weights, whole = check_weight(sample_weight, n), self.weight
        given = float(n) if weights is None else float(weights.sum())
        if not math.isclose(given, whole, rel_tol=1e-9):
            raise ValueError(
                f"The rows of fit have a weight of {whole:g} in all, these one of {given:g}; pass the "
                "sample_weight of fit."
            )
        if labels is not None and not self.are_rows(table, weights, labels, n_threads):
            raise ValueError(
                "X is not the table of fit, or its rows are in another order: the sums of the rows of its "
                "clusters are others; pass the table of fit."
            )
        return weights

    def are_rows(self, table: MixedTable, weights: Floats | None, labels: Labels, n_threads: int) -> bool:
        """Whether encoded rows with these weights and labels have the clusters' sums; of a fixed cluster, as
        many rows.
        """
        moments = self.clusters.moments
        if self.rows is None:
            return moments.are_of(table, weights, labels, n_threads)
        weight = counts_in(moments.unit, weights, len(table))
        K, grid = moments.n_clusters, moments.grid
        found = Moments.of_partition(grid, moments.unit, table, weight, labels, K, n_threads).groups
        known = (found == moments.groups).all(axis=1) | (self.rows.fixed > 0)
        return bool(known.all() and (found[:, 0] == self.rows.counts).all())

    def of_columns(self, values: Floats | Mask) -> Floats:
        """(K, n_columns) sums of (K, D) values over the parts into which the encoding splits a column."""
        out = np.zeros((len(values), self.schema.n_columns))
        for d, column in enumerate(self.encoding.source):
            out[:, column] += values[:, d]
        return out

    def at(self, step: int) -> FittedClusters:
        """The state at a later step of the merge path."""
        assert self.path is not None
        assert self.along is not None
        along = self.along
        sums = original = replace(self.sums, groups=along.sums.at(step))
        if along.original is not None:
            original = replace(self.original, groups=along.original.at(step))
        cross, rows = None, self.rows
        if rows is not None:
            for change in self.path.changes()[:step]:
                rows = rows.merged(change.place)
        if self.cross is not None and along.cross is not None:
            cross = replace(self.cross, sums=along.cross.at(step))
        return replace(
            self,
            sums=sums,
            original=original,
            mask=along.masks[step],
            cross=cross,
            path=self.path.after(step),
            along=along.after(step),
            order=None,
            rows=rows,
        )

    def without_collection(self) -> FittedClusters:
        """The state as it is copied or sent, without a collection that holds the labels of its path."""
        path = None if self.path is None else self.path.without_collection()
        return self if path is self.path else replace(self, path=path)

    def for_new_rows(self) -> FittedClusters:
        """The state without its merge path."""
        return replace(self, path=None, along=None)


def _smoothed(clusters: Clusters) -> tuple[Floats, Floats]:
    """(K, p) variances and (K, n_levels) shares of clusters in the original units."""
    grid, background = clusters.moments.grid, clusters.background
    usable = background.usable[: grid.p] > 0
    variances = background.variance / clusters.precision / grid.scale**2 * usable
    return variances, clusters.level_probabilities()


def saved_by(clusters: Clusters, path: MergePath | None, covariances: bool) -> float:
    """What clusters on their merge path save over one cluster, nats. With covariances the last step of the
    path holds links of its columns, and the one cluster is one without.
    """
    objectives = [] if path is None else objectives_of(path)
    saved = saving_of(objectives) if objectives else 0.0
    if saved > 0.0 and covariances:
        return clusters.objective_of_one - min(objective for _, objective in objectives)
    return saved
