"""Clusters of an earlier model that a fit keeps (`fixed=`): which they are, and the fit of others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self, TypeAlias, cast

import numpy as np

from craftc._common.estimator import frame_library, warn_not_converged
from craftc._common.messages import quoted, shown
from craftc._common.own_names import OwnNames
from craftc._common.random import seed_of
from craftc._common.typing import (
    Array,
    Floats,
    Integers,
    Ints,
    Mask,
    RandomStateInput,
    TableInput,
    WeightInput,
)
from craftc._common.validation import check_countable, check_weight, counts_in
from craftc.craft.background import Background
from craftc.craft.fitted import FittedClusters, RowCounts
from craftc.craft.fixed import check_far
from craftc.craft.links import column_links
from craftc.craft.parameters import ClusterCount, range_of
from craftc.craft.progress import ProgressMeter
from craftc.craft.refit import WithRefits, _Fits
from craftc.craft.rows.local import LocalRows
from craftc.craft.rows.scores import RowStatistics
from craftc.craft.search import FitConfig, LocalConfig
from craftc.craft.search.new_clusters import NewClusters, NewClusterSearch
from craftc.table import MixedTable
from craftc.table.levels import LevelEncoding
from craftc.table.moments import Moments

#: A fitted CRAFT, or one and the labels or names of some of its clusters.
FixedInput: TypeAlias = "WithRefits | tuple[WithRefits, Sequence[int | str]] | None"

# what the columns are, and how clusters select them
_SAME = (
    "kinds",
    "categorical",
    "column_weights",
    "null",
    "missing",
    "unknown",
    "unusable",
    "feature_sharing",
)


@dataclass(frozen=True, eq=False)
class Kept:
    """The clusters that a fit keeps, and their names."""

    model: WithRefits
    fitted: FittedClusters  # of these clusters alone
    former: Integers  # (F, original width) as `RowCounts.former`
    mask: Mask  # (F, D) as `RowCounts.mask`
    names: list[str]

    @classmethod
    def of(cls, fixed: object, estimator: WithRefits) -> Kept:
        """The clusters that `fixed` gives; ValueError or TypeError if it gives none."""
        model, which = fixed if isinstance(fixed, tuple) and len(fixed) == 2 else (fixed, None)
        if not isinstance(model, type(estimator)):
            raise TypeError(
                f"fixed must be a fitted CRAFT, or (CRAFT, labels or names of clusters), got {shown(fixed)}."
            )
        if not hasattr(model, "_fitted"):
            raise ValueError("fixed must be a fitted CRAFT, but this one is not fitted; call its fit first.")
        assert isinstance(model, WithRefits)
        _check_same(model, estimator)
        fitted: FittedClusters = model._fitted
        names = list(model.cluster_names_)
        chosen = np.arange(len(names)) if which is None else _chosen(which, names)
        if fitted.cross is not None:
            raise ValueError(
                "Clusters of fixed hold covariances, which a fit of others does not carry on; fit that "
                "model with covariance='diagonal'."
            )
        former = fitted.former_tables[chosen]
        mask = fitted.own_masks[chosen]
        return cls(model, _of_clusters(fitted, chosen), former, mask, [names[k] for k in chosen.tolist()])


def _check_same(model: WithRefits, estimator: object) -> None:
    """Raise unless the columns are given by the same parameters."""
    for name in _SAME:
        own, other = getattr(estimator, name), getattr(model, name)
        if _plain(own) != _plain(other):
            raise ValueError(
                f"{name} must be that of the model of fixed, {shown(other)}, whose clusters are described by "
                f"it, got {shown(own)}; pass the same."
            )


def _plain(given: object) -> object:
    """A parameter with its sequences and arrays as lists, which compare by their content."""
    if isinstance(given, Mapping):
        return {key: _plain(value) for key, value in given.items()}
    if isinstance(given, np.ndarray):
        return given.tolist()
    return [*map(_plain, given)] if isinstance(given, list | tuple) else given


def _chosen(which: object, names: list[str]) -> Ints:
    """Labels of clusters that are given by labels or names, in their order there."""
    if isinstance(which, str | bytes) or not isinstance(which, Sequence | np.ndarray) or not len(which):
        raise TypeError(
            f"fixed=(model, clusters) needs a list of labels or names, such as [0, 2], got {shown(which)}."
        )
    found = []
    for key in which:
        whole = isinstance(key, int | np.integer) and not isinstance(key, bool)
        if key in names if isinstance(key, str) else whole and 0 <= key < len(names):
            found.append(names.index(key) if isinstance(key, str) else int(key))
            continue
        known = ", ".join(f"{k} ({quoted(name)})" for k, name in enumerate(names[:8]))
        raise ValueError(f"fixed: {shown(key)} is no cluster of the model; its clusters are {known}.")
    if len(set(found)) < len(found):
        raise ValueError(f"fixed: a cluster is given twice in {shown(which)}; give each once.")
    return np.array(found, np.intp)


def _of_clusters(fitted: FittedClusters, chosen: Ints) -> FittedClusters:
    """The state of some of the clusters, without a merge path."""
    assert fitted.mask is not None
    sums = replace(fitted.sums, groups=fitted.sums.groups[chosen])
    original = sums
    if not fitted.encoding.identity:
        original = replace(fitted.original, groups=fitted.original.groups[chosen])
    return replace(
        fitted,
        sums=sums,
        original=original,
        mask=fitted.mask[chosen],
        path=None,
        along=None,
        order=None,
        rows=None,
    )


class WithFixed(WithRefits):
    """Fits in which clusters of an earlier model are kept."""

    n_clusters: ClusterCount
    max_clusters: int
    n_init: int
    random_state: RandomStateInput
    covariance: str
    feature_names_in_: Array

    def _fit_new(
        self, X: TableInput, fixed: object, sample_weight: WeightInput, meter: ProgressMeter, n_threads: int
    ) -> Self:
        """Find clusters next to fixed ones."""
        kept = Kept.of(fixed, self)
        model, fitted = kept.model, kept.fitted
        if not isinstance(self.init, str):
            raise ValueError(
                f"fixed and init={shown(self.init)} cannot be given together: the search starts from the "
                "fixed clusters; leave init='auto'."
            )
        if (self.min_cluster_size, self.max_cluster_size) != (None, None):
            raise ValueError(
                "fixed cannot be given with min_cluster_size or max_cluster_size, which would move rows out "
                "of their cheapest clusters; leave them None."
            )
        if self.covariance in ("full", "tied"):
            raise ValueError(
                f"Clusters next to fixed ones hold no covariances, got covariance={self.covariance!r}; use "
                "covariance='diagonal'."
            )
        F = len(kept.names)
        low, high = range_of(self.n_clusters, max(int(self.max_clusters), F))
        if high < F:
            raise ValueError(
                f"n_clusters={self.n_clusters} is less than the {F} fixed clusters, which count, too; ask "
                f"for at least {F}, or fix some of them: fixed=(model, [0])."
            )
        table, _ = model._read_further(X, extended=False)
        weights = check_weight(sample_weight, len(table))
        check_countable(weights)
        weight = counts_in(fitted.sums.unit, weights, len(table))
        check_far(fitted, table, weight)
        config = self._config(fitted, table, weight, n_threads)
        n_new = max(low - F, 0), high - F
        search = NewClusterSearch(fitted, config, n_new, int(self.n_init), self.init)
        found = search.run()
        if found is None:
            raise ValueError(
                f"n_clusters={self.n_clusters} is more than the rows tell apart from {F} fixed clusters; "
                "ask for fewer."
            )
        found = search.in_order(found)
        self._set_new(kept, search, found, table, config)
        clusters, threads = self._fitted.clusters, config.n_threads
        self._set_rows(
            RowStatistics.of_rows(clusters, config.table, found.labels, weights, n_threads=threads)
        )
        self.labels_ = found.labels
        self.n_iter_, self.converged_ = search.n_passes, found.converged
        self.objective_path_ = np.array([self.objective_])
        self._forget_former()
        self.__dict__.pop("feature_names_in_", None)
        self.n_features_in_ = model.n_features_in_
        if hasattr(model, "feature_names_in_"):
            self.feature_names_in_ = model.feature_names_in_
        self._frame_library = frame_library(X)
        columns = model._own_names["columns"]
        self._own_names = OwnNames(clusters=dict(enumerate(kept.names)), columns=columns)
        self._mark_outliers()
        if not self.converged_:
            warn_not_converged(self, self.n_iter_, "passes", "some rows cost less in another cluster")
        meter.finish(self.n_clusters_, self.objective_)
        return self

    def _config(
        self, fitted: FittedClusters, table: MixedTable, weight: Integers, n_threads: int
    ) -> LocalConfig:
        """How clusters are searched among the rows of a table."""
        encoding = cast(LevelEncoding, fitted.encoding)
        rows = LocalRows(encoding.apply(table, n_threads=n_threads), weight)
        total = rows.moments(rows.grid(), fitted.sums.unit, rows.one_cluster(), 1, n_threads)
        background = Background(total, encoding)
        spec = replace(cast(_Fits, self)._spec(background.weight), covariance="diagonal")
        limit, seed = int(self.max_clusters), seed_of(self.random_state)
        return FitConfig(rows, weight, background, spec, limit, seed, n_threads, encoding=encoding)

    def _set_new(
        self,
        kept: Kept,
        search: NewClusterSearch,
        found: NewClusters,
        table: MixedTable,
        config: LocalConfig,
    ) -> None:
        """Become the model of these clusters."""
        fixed, clusters, K, F = search.fixed, found.clusters, len(found.counts), search.F
        sums = replace(fixed.sums, groups=clusters.moments.groups.copy())
        original = sums
        path, along = search.path(found)
        if not fixed.encoding.identity:
            own = Moments.of_partition(
                fixed.original.grid, sums.unit, table, config.weight, found.labels, K, config.n_threads
            ).groups
            original = replace(fixed.original, groups=np.vstack([fixed.original.groups, own[F:]]))
            along.original = search.sums_along(path, original)
        rest = search.rest(found, fixed.sums.grid, search.seen)
        own_rest = rest if fixed.encoding.identity else search.rest(found, fixed.original.grid, table)
        former = np.zeros_like(original.groups)
        former[:F] = kept.former
        mask = np.zeros_like(clusters.choice)
        mask[:F] = kept.mask
        rows = RowCounts(found.counts, (np.arange(K) < F).astype(np.uint8), rest, own_rest, former, mask)
        state = replace(
            fixed,
            spec=search.spec,
            sums=sums,
            original=original,
            mask=clusters.choice,
            path=path,
            along=along,
            rows=rows,
        )
        state.remember(clusters)
        gains: Floats = np.where(state.selected, state.gains, 0.0).sum(axis=0)
        links = column_links(config, cast(LevelEncoding, config.encoding), gains)
        # the merge path saves for the former rows, too
        scale = clusters.background.weight / max(state.weight, 1e-300)
        state = replace(state, links=links.scaled(scale))
        state.remember(clusters)
        self._set_fitted(state)
