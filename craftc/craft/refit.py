"""The clusters of a fitted CRAFT on another table: `refit` and `partial_fit`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Protocol, Self, TypeVar, cast

import numpy as np

from craftc._common.estimator import all_or_nothing, frame_library
from craftc._common.labels import compact
from craftc._common.merge_path import MergePath
from craftc._common.messages import listed, quoted
from craftc._common.own_names import OwnNames
from craftc._common.threads import effective_n_threads
from craftc._common.typing import Array, Floats, Integers, Labels, TableInput, WeightInput
from craftc._common.validation import (
    check_choice,
    check_countable,
    check_parameters,
    check_weight,
    counts_in,
    integer_weights,
)
from craftc.craft.answers.path import WithMergePath
from craftc.craft.changes import Changes, Segment, Traces, matched, places, segments_of
from craftc.craft.fitted import FittedClusters, PathClusters
from craftc.craft.fixed import FixedClusters, RowSums, sums_of_rows, updated
from craftc.craft.parameters import ROWS_AT_FULL_PRICE, ModelSpec, price_factor_of, range_of
from craftc.craft.progress import Progress, ProgressMeter
from craftc.craft.rows.scores import RowStatistics
from craftc.craft.search import AutomaticResult, Encode, EncodedRows
from craftc.describe.view import numbers_of
from craftc.describe.words import plural
from craftc.distributed.open_input import open_input
from craftc.reading.read_table import as_in_fit
from craftc.reading.unusable import known_columns
from craftc.table import MixedTable
from craftc.table.declared import declared_periods
from craftc.table.extended import new_levels, read_blocks_of, read_extended, recoded
from craftc.table.levels import LevelEncoding
from craftc.table.moments import Moments
from craftc.table.other_ranges import warn_of_other_ranges
from craftc.table.out_of_core import is_out_of_core

S = TypeVar("S")
_FEW_ROWS = 25  # for each of the former clusters, with which fewer clusters may mean too little evidence


class Former:
    """The clusters of a model that is refitted, and the rows of the new table in them."""

    def __init__(self, fitted: FittedClusters, table: MixedTable, weights: Floats | None, n_threads: int):
        assert isinstance(fitted.encoding, LevelEncoding)
        self.fitted, self.weights, self.table = fitted, weights, table
        self.columns = recoded(table, fitted.schema)
        self.seen = fitted.encoding.apply(self.columns, n_threads=n_threads)
        self.labels = fitted.clusters.cheapest(self.seen, n_threads)
        self.order: Labels | None = None

    def starts(self, limit: int) -> list[Labels]:
        """The start partition, unless it has more clusters than are allowed."""
        labels = compact(self.labels.copy())
        return [labels] if labels.max() < limit else []

    def places(self, snapshot: Array, n_threads: int) -> Labels:
        """(K',) the labels of the clusters of a refit; what became of the former ones is noted."""
        labels = snapshot.astype(np.int32)
        traces = self._traces(labels, n_threads)
        successor = matched(traces)
        place = places(np.arange(len(successor)), successor, traces.pairs.shape[1])
        order = np.argsort(place)
        self.successor = np.where(successor >= 0, place[successor], -1).astype(np.int32)
        self.traces = replace(
            traces, pairs=traces.pairs[:, order], now=traces.now[order], outside=traces.outside[order]
        )
        by_number = places(self.fitted.by_number, self.successor, len(order))
        self.order = np.argsort(by_number).astype(np.int32)
        return place

    def _traces(self, labels: Labels, n_threads: int) -> Traces:
        fitted, K, n_now = self.fitted, len(self.fitted.sizes), int(labels.max()) + 1
        encoding = cast(LevelEncoding, fitted.encoding)
        weight, unit = integer_weights(self.weights)
        grid = fitted.sums.grid
        now = Moments.of_partition(grid, unit, self.seen, weight, labels, n_now, n_threads)
        then, first = fitted.clusters.moments, grid.level_start
        ends, own = np.append(first, grid.n_levels), np.ones(grid.n_levels, bool)
        own[ends[1:] - 1] = False  # missing cells
        outside = np.zeros((n_now, fitted.schema.n_columns))
        whole: Floats = np.ones(len(labels)) if self.weights is None else self.weights
        for name, rows in (encoding.outside(self.columns) | self._unseen()).items():
            share = np.bincount(labels[rows], whole[rows], minlength=n_now) / np.maximum(now.sizes, 1e-300)
            outside[:, fitted.schema.columns.index(name)] = share
        pairs = np.bincount(self.labels * np.intp(n_now) + labels, whole, minlength=K * n_now)
        return Traces(
            pairs.reshape(K, n_now).astype(np.float64),
            np.asarray(fitted.sizes / fitted.weight, np.float64),
            then.counts * own,
            now.counts * own,
            ends,
            np.where(fitted.differs, fitted.gains, 0.0),
            outside,
        )

    def _unseen(self) -> dict[str, Integers]:
        """Rows with levels that the fit has not seen, by column."""
        out, known = {}, self.fitted.schema
        for d in range(len(known.levels) if self.table.schema is not known else 0):
            missing = self.columns.codes[:, d] == known.n_levels[d]
            rows = np.flatnonzero(missing & (self.table.codes[:, d] != self.table.schema.n_levels[d]))
            if len(rows):
                out[known.categorical_names[d]] = rows
        return out


def renumbered(result: AutomaticResult[S], place: Labels) -> AutomaticResult[S]:
    """A result whose clusters get these labels."""
    if np.array_equal(place, np.arange(len(place))):
        return result
    order, snapshot = np.argsort(place), cast(Array, result.labels)
    labels = place.astype(snapshot.dtype)[snapshot]
    moments, mask = result.moments.select(order), result.mask[order]
    cross = None if result.cross is None else result.cross.select(order)
    former, along = result.merge_path, result.path_clusters
    path = MergePath(labels, *former.objectives()[0])
    clusters = PathClusters.begin(moments, mask, cross)
    products = [None] * len(along.masks) if along.cross is None else list(along.cross)
    steps = zip(
        former.objectives()[1:],
        former.changes(),
        list(along.sums)[1:],
        along.masks[1:],
        products[1:],
        strict=True,
    )
    for number, ((n_clusters, objective), change, groups, of_step, sums) in enumerate(steps):
        if not number:
            i, j = sorted(int(place[k]) for k in change.merged)
            change = change._replace(merged=(i, j), heirs=change.heirs[order], place=change.place[order])
        path.append_change(n_clusters, objective, change)
        held = None if cross is None or sums is None else replace(cross, sums=sums)
        clusters.append(change.place, groups, of_step, held)
    return replace(
        result,
        labels=cast(S, labels),
        moments=moments,
        mask=mask,
        cross=cross,
        merge_path=path,
        path_clusters=clusters,
        clusters=None,
    )


class _Fits(Protocol):
    """What a refit asks of CRAFT."""

    def _fit(
        self,
        encoded: EncodedRows[Any, Any],
        meter: ProgressMeter,
        n_threads: int,
        former: Former | None = None,
    ) -> Any: ...
    def _levels_by(self, periods: list[float], n_threads: int) -> Encode: ...
    def _spec(self, weight: float) -> ModelSpec: ...


class WithRefits(WithMergePath):
    """Methods of a model whose clusters are carried on to other tables."""

    changes_: Changes
    price_factor: float | str
    verbose: int

    @all_or_nothing
    def refit(
        self,
        X: TableInput,
        y: object = None,
        sample_weight: WeightInput = None,
        *,
        keep: str = "numbers",
        callback: Callable[[Progress], object] | None = None,
    ) -> Self:
        """Fit again to another table; its clusters keep the numbers and the given names of the present ones.

        The search starts from the present clusters, besides the usual starts. Its clusters are matched with
        the present ones by their rows and distributions; `changes_` says which were kept, split, merged, born
        or died. Levels keep their order and new ones follow, kinds of columns and how texts are read stay.

        Parameters
        ----------
        X : data frame, dict of columns, array (n, D), MixedTable, path, dataset or record batches
            The table of the next month, say, with the columns of the model. A file, and a frame with texts or
            dates, are read as in the fit. Not a Dask collection.
        y : ignored
        sample_weight : array (n,), optional
            As in `fit`.
        keep : {"numbers", "clusters"}, default="numbers"
            "clusters": rows are assigned to the clusters of the last fit, as by `partial_fit`, and only sizes
            and distributions are those of X. Numbers beyond the range of that fit belong to the outermost
            intervals, and levels that it has not seen are treated as `unknown` says.
        callback : callable, optional
            As in `fit`.

        Returns
        -------
        The estimator itself. ``copy.deepcopy(model)`` keeps the former one.

        Raises
        ------
        NotFittedError, ValueError, TypeError
            The model is not fitted; X lacks columns, has levels without a place in an order or is a Dask
            collection; with ``keep="clusters"``, a cluster has no row. Nothing is changed then.

        Notes
        -----
        A cluster that continues another keeps its label, and its number in reports and files, where that
        exists; new clusters take free ones. Groups of `fit` are not kept together, and ``keep="clusters"``
        knows no bounds of sizes.

        Examples
        --------
        >>> from craftc import CRAFT
        >>> from craftc.datasets import load_heart
        >>> heart = load_heart().data
        >>> model = CRAFT(random_state=0).fit(heart[:200]).rename_clusters({0: "strained"})
        >>> frame = model.refit(heart).changes_.clusters()
        >>> frame[["change", "cluster", "former"]].values.tolist(), frame["name"][1]
        ([['kept', 1, 1], ['kept', 0, 0]], 'strained')
        """
        former = self._fitted_state()
        check_parameters(self)
        check_choice("keep", keep, ("numbers", "clusters"))
        n_threads, meter = effective_n_threads(self.n_threads), ProgressMeter(callback, int(self.verbose))
        numbered = numbers_of(former.by_number).tolist()
        table, notes = self._read_further(X, extended=keep == "numbers")
        weights = check_weight(sample_weight, len(table))
        check_countable(weights)
        self.__dict__.pop("_weight", None)  # of the former rows
        if keep == "clusters":
            self._replace_rows(table, weights, n_threads)
            self._note_kept(former, notes, frame_library(X))
            return self
        notes += [
            f"{quoted(name)} has new levels: {listed(list(map(str, levels)), 8)}."
            for name, levels in new_levels(former.schema, table.schema).items()
        ]
        if self._is_table_of_fit(table, weights, n_threads):
            self._note_kept(former, notes, frame_library(X))
            return self
        if self._groups is not None:
            notes.append("Groups of rows that fit kept together are not kept together by a refit.")
        names, own_names = self.cluster_names_, self._own_names
        fits, known = cast(_Fits, self), Former(former, table, weights, n_threads)
        assert isinstance(former.encoding, LevelEncoding)
        warn_of_other_ranges(former.encoding, table, learned=True)
        periods = declared_periods(former.encoding.periods, table.schema)
        encoded = EncodedRows.of_table(table, weights, n_threads, fits._levels_by(periods, n_threads))
        self.labels_ = fits._fit(encoded, meter, n_threads, known)
        self._mark_outliers()
        of, n_former = known.successor, len(names)
        if len(self._fitted.by_number) < n_former and len(table) < _FEW_ROWS * n_former:
            notes.append(
                f"{plural(len(table), 'row')} may be too few to find {n_former} clusters again; "
                "keep='clusters' assigns rows to the former ones."
            )
        kept = {int(of[k]): name for k, name in own_names["clusters"].items() if of[k] >= 0}
        self._own_names = OwnNames(clusters=dict(sorted(kept.items())), columns=own_names["columns"])
        self._frame_library = frame_library(X)
        segments = segments_of(known.traces, of, self.cluster_names_, names, self._fitted.by_number)
        self.changes_ = Changes(
            segments, float(known.traces.pairs.sum()), notes, numbered, self._frame_library
        )
        return self

    @all_or_nothing
    def partial_fit(self, X: TableInput, y: object = None, sample_weight: WeightInput = None) -> Self:
        """Add rows to the clusters, which stay where they are: one pass, and exact sums.

        Every row joins its cheapest cluster of the last `fit` or `refit`, whatever has been added since.
        Sizes, distributions and all that follows from them are then those of all rows: the same bits as of
        one pass over all rows, however they are divided into calls. The first call of a model that is not
        fitted is a `fit`.

        Parameters
        ----------
        X : data frame, dict of columns, array (n, D), MixedTable, path, dataset or record batches
            As in `refit` with ``keep="clusters"``.
        y : ignored
        sample_weight : array (n,), optional
            Weights of the rows. Weight 2 gives the same bits as the row twice.

        Returns
        -------
        The estimator itself. `labels_` has the new rows behind the others and marks no outliers, which
        `predict` does; `margins_` and typical rows, which need all rows, are absent.

        Raises
        ------
        ValueError, TypeError
            X lacks columns, is a Dask collection, or a number is so far beyond those of the fit that sums
            overflow; weights are no multiples of the unit of the fit. Nothing is changed then.

        Examples
        --------
        >>> from craftc import CRAFT
        >>> from craftc.datasets import load_heart
        >>> heart = load_heart().data
        >>> model = CRAFT(random_state=0).fit(heart[:200]).partial_fit(heart[200:])
        >>> int(model.cluster_sizes_.sum()), len(model.labels_)
        (270, 270)
        """
        if not hasattr(self, "_fitted"):
            return cast(Any, self).fit(X, sample_weight=sample_weight)  # type: ignore[no-any-return]
        check_parameters(self)
        fitted, n_threads = self._fitted, effective_n_threads(self.n_threads)
        table, _ = self._read_further(X, extended=False)
        weights = check_weight(sample_weight, len(table))
        check_countable(weights)
        unit = fitted.sums.unit
        weight = counts_in(unit, weights, len(table))
        labels, _, sums = self._sums_of(table, weight, unit, n_threads)
        known = self._partition
        every = None if known is None else np.concatenate([known, labels])
        self._set_sums(sums.added(fitted), unit, every)
        self._drop_of_rows()
        return self

    # ---- fixed clusters ----

    def _fixed_clusters(self) -> FixedClusters:
        """The clusters of the last fit."""
        return FixedClusters.of(self._fitted) if self._fixed is None else self._fixed

    def _sums_of(
        self, table: MixedTable, weight: Integers, unit: float, n_threads: int
    ) -> tuple[Labels, MixedTable, RowSums]:
        """The fixed clusters of rows, the rows as the model sees them, and their sums."""
        fitted = self._fitted
        fixed = self._fixed_clusters().clusters(fitted)
        assert isinstance(fitted.encoding, LevelEncoding)
        seen = fitted.encoding.apply(table, n_threads=n_threads)
        labels = fixed.cheapest(seen, n_threads)
        sums = sums_of_rows(fitted, fixed, table, seen, weight, unit, labels, n_threads)
        warn_of_other_ranges(fitted.encoding, table)
        return labels, seen, sums

    def _set_sums(self, sums: RowSums, unit: float, labels: Labels | None) -> None:
        """Become the model with other sums of its clusters."""
        fixed = self._fixed_clusters()
        factor = self._factor_of(float(sums.groups[:, 0].sum()) * unit)
        self._set_fitted(updated(self._fitted, fixed, sums, unit, labels, factor))
        self._fixed = fixed
        self.__dict__.pop("labels_", None)
        if labels is not None:
            self.labels_ = labels
        self.objective_path_ = np.array([self.objective_])
        self.n_iter_, self.converged_ = 1, True

    def _replace_rows(self, table: MixedTable, weights: Floats | None, n_threads: int) -> None:
        """Become the model of these rows in the fixed clusters."""
        weight, unit = integer_weights(weights)
        labels, seen, sums = self._sums_of(table, weight, unit, n_threads)
        if len(empty := np.flatnonzero(sums.groups[:, 0] == 0)):
            names = self.cluster_names_
            which = ", ".join(f"{k} ({names[k]})" for k in empty[:5].tolist())
            raise ValueError(
                f"X has no row of {len(empty)} of the {len(names)} clusters: {which}; they would have no "
                "distribution. refit(X) with keep='numbers' lets clusters die, partial_fit(X) adds rows to "
                "those of the fit."
            )
        self._set_sums(sums, unit, labels)
        clusters = self._fitted.clusters
        self._set_rows(RowStatistics.of_rows(clusters, seen, labels, weights, n_threads=n_threads))
        self._mark_outliers()

    # ---- the table ----

    def _read_further(self, X: TableInput, *, extended: bool) -> tuple[MixedTable, list[str]]:
        """Another table with the columns of the model, and notes. `extended`: new levels are added to those
        of the model.
        """
        schema, name = self._fitted_state().schema, type(self).__name__
        with open_input(cast(Any, X)) as source:
            if source.place == "partitions":
                raise ValueError(
                    "refit, partial_fit and fit(X, fixed=...) read tables in memory or files, not Partitions "
                    "or Dask collections; pass X.compute() or the files, or fit(X) anew."
                )
        read, notes = as_in_fit(self, X, new_levels=extended)
        table: Any = read
        if self.unusable == "drop" and not is_out_of_core(table):
            table = known_columns(table, schema.columns)
        if extended:
            return read_extended(schema, table, name), notes
        if is_out_of_core(table) or isinstance(table, MixedTable):
            return recoded(read_blocks_of(schema, table), schema, self.unknown), notes
        return schema.encode(table, unknown=self.unknown, estimator_name=name), notes

    def _is_table_of_fit(self, table: MixedTable, weights: Floats | None, n_threads: int) -> bool:
        """Whether rows, weights and parameters are those of the last fit, whose result is known then."""
        fitted, labels = self._fitted, self._partition
        if labels is None or len(labels) != len(table) or self._fixed is not None or fitted.rows is not None:
            return False
        original = fitted.original_moments
        weight = float(original.sizes.sum())
        spec = replace(cast(_Fits, self)._spec(weight), price_factor=self._factor_of(weight))
        low, high = range_of(self.n_clusters, len(fitted.sizes))
        bounded = (self.min_cluster_size, self.max_cluster_size) != (None, None)
        asked = low <= len(fitted.sizes) <= high and not bounded
        if table.schema != fitted.schema or replace(fitted.spec, tied=False) != spec or not asked:
            return False
        return original.are_of(table, weights, labels, n_threads)

    def _factor_of(self, weight: float) -> float:
        """The price factor of rows of this weight in the clusters of the fit: 1, if "auto" was 1 in a long
        table, whose clusters are separate groups.
        """
        fitted = self._fitted
        groups = fitted.spec.price_factor == 1.0 and fitted.weight > ROWS_AT_FULL_PRICE
        kept = groups and self.price_factor == "auto"
        return 1.0 if kept else price_factor_of(self.price_factor, weight)

    def _note_kept(self, former: FittedClusters, notes: list[str], library: str | None) -> None:
        """Note that all clusters are kept."""
        then, now = np.asarray(former.sizes, np.float64), np.asarray(self._fitted.sizes, np.float64)
        shares = then / then.sum(), now / now.sum()
        self._frame_library = library
        own = self.cluster_names_
        segments = [
            Segment("kept", k, own[k], k, -1, float(shares[0][k]), float(shares[1][k]))
            for k in former.by_number.tolist()
        ]
        self.changes_ = Changes(
            segments, float(now.sum()), notes, numbers_of(former.by_number).tolist(), library
        )
