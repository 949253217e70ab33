"""Evidence for the clusters of a fitted CRAFT: fits of tables with permuted columns (the null test), refits
on parts of the rows and with other seeds (stability, Hennig 2007), and what both say about the structure.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from sklearn.base import clone

from craftc._common.merge_path import objectives_of
from craftc._common.random import SAMPLE_ROWS, CraftStream, spread, uniform
from craftc._common.threads import effective_n_threads
from craftc._common.typing import Array, DaskClient, Floats, Ints, Labels, TableInput, WeightInput
from craftc._common.validation import check_number
from craftc.craft.bounds import GroupsInput, groups_of
from craftc.craft.parameters import size_in_rows
from craftc.craft.rows import distinct_rows
from craftc.describe.structure import FIRM, Structure
from craftc.describe.words import nats, number, plural, range_of
from craftc.distributed.open_input import FitTable, open_input
from craftc.metrics import adjusted_rand_index
from craftc.table import MixedTable
from craftc.table.levels import LevelEncoding

if TYPE_CHECKING:
    from craftc.craft.base import CraftBase
    from craftc.distributed.partitioned_table import PartitionedTable

_SHARE = 0.8  # of the rows of a refit
_SETTINGS = {"n": 1, "n_seeds": 0, "random_state": 0}  # and their least values


@dataclass(frozen=True, repr=False)
class NullTest:
    """Savings of clusters in a table and in tables without structure; the result of ``CRAFT.null_test``.

    Attributes
    ----------
    saving : float
        Nats by which the clusters of the table are shorter than one cluster; below 0 if a given number of
        clusters costs more.
    n_clusters : int
        Clusters of the table.
    null_savings : ndarray (n,) of float64
        The same saving in every table with permuted columns.
    null_n_clusters : ndarray (n,) of int
        Clusters of these tables.
    n_rows : int
        Rows of these tables.
    sampled : bool
        Whether they are a sample of the table, on which `saving` and `n_clusters` are those of a refit.
    one_and_two : (float, float) or None
        J of one cluster, and of the best partition into two, in nats, if no clusters were found.
    agreement : float or None
        Adjusted Rand index of this refit with the model on the sample; None if it is the whole table.
    """

    saving: float
    n_clusters: int
    null_savings: Floats
    null_n_clusters: Ints
    n_rows: int
    sampled: bool
    one_and_two: tuple[float, float] | None = None
    agreement: float | None = None

    @property
    def p_value(self) -> float:
        """(1 + tables with permuted columns that save at least as much) / (n + 1)."""
        return (1 + int((self.null_savings >= self.saving).sum())) / (len(self.null_savings) + 1)

    def __repr__(self) -> str:
        saves = f"{plural(self.n_clusters, 'cluster')} save {nats(self.saving)} nats"
        if self.n_clusters == 1:
            saves = "1 cluster"
        if self.one_and_two is not None:
            one, two = self.one_and_two
            saves = f"no clusters found: one costs {nats(one)} nats, the best two {nats(two)}"
        tables = plural(len(self.null_savings), "table")
        rows = f" of {plural(self.n_rows, 'row')}" if self.sampled else ""
        null = f"{range_of(self.null_savings.tolist(), nats)} nats"
        K = range_of(self.null_n_clusters.tolist(), str)
        of_null = f"{tables}{rows} with permuted columns: {null}, {K} cluster{'' if K == '1' else 's'}"
        return f"NullTest({saves}; {of_null}; p = {number(self.p_value)})"


def null_test(
    model: CraftBase, X: FitTable, n: int, seed: int, sample_weight: WeightInput, client: DaskClient | None
) -> NullTest:
    """Refits of a model on tables with permuted columns, of at most 16 384 rows."""
    table, weight, sampled = rows_to_test(model, X, seed, sample_weight, client)
    found, agreement, one_and_two = model, None, None
    if sampled:
        found = refit(model, table, weight, seed)
        agreement = agreement_of([model, found], table)[0]
    if found.n_clusters_ == 1 and not model._asked:
        two = refit(model, table, weight, seed, parameters={"n_clusters": 2})
        one_and_two = (found.objective_, two.objective_) if two.n_clusters_ == 2 else None
    null = [refit(model, permuted(table, seed, i), weight, seed + i) for i in range(n)]
    return NullTest(
        saving_of_clusters(found),
        int(found.n_clusters_),
        np.array([saving_of_clusters(each) for each in null]),
        np.array([each.n_clusters_ for each in null]),
        len(table),
        sampled,
        one_and_two,
        agreement,
    )


def saving_of_clusters(model: CraftBase) -> float:
    """Nats by which the clusters of a model are shorter than one cluster."""
    return float(objectives_of(model.merge_path_)[-1][1] - model.objective_)


def rows_to_test(
    model: CraftBase, X: FitTable, seed: int, sample_weight: WeightInput, client: DaskClient | None
) -> tuple[MixedTable, Floats | None, bool]:
    """The rows of weight > 0 of the table of fit and their weights, or a sample of them; and whether it is a
    sample.
    """
    weight = None
    with open_input(X, client) as source:
        whole: MixedTable | PartitionedTable
        if source.place == "partitions":
            if sample_weight is not None:
                raise ValueError("The rows of Partitions or a Dask collection have no weights.")
            threads = effective_n_threads(model.n_threads)
            whole = source.read("auto", model.missing, threads, model.schema_.kinds)
        else:
            whole = model._read_columns(cast("TableInput", X))
            weight = model._rows_of_fit(whole, sample_weight)[1]
        rows = np.arange(len(whole)) if weight is None else np.flatnonzero(weight)
        if sampled := len(rows) > SAMPLE_ROWS:
            rows = rows[spread(len(rows), SAMPLE_ROWS, seed, CraftStream.NULL_SAMPLE)]
        table = model.schema_.encode(whole.take(rows))
    return table, None if weight is None else weight[rows], sampled


def permuted(table: MixedTable, seed: int, i: int) -> MixedTable:
    """A table in which every column has its cells in an order of its own, missing ones among them."""
    schema = table.schema

    def block(cells: Array, columns: Sequence[int]) -> Array:
        out = np.empty_like(cells)
        for d, j in enumerate(columns):
            draws = uniform(seed, CraftStream.PERMUTATION, i, j, np.arange(len(cells)))
            out[:, d] = cells[np.argsort(draws, kind="stable"), d]
        return out

    numeric = block(table.numeric, schema.numeric_index.tolist())
    return MixedTable._trusted(numeric, block(table.codes, schema.categorical_index.tolist()), schema)


@dataclass(frozen=True, repr=False)
class Stability:
    """How firm clusters are; the result of ``CRAFT.stability``.

    Attributes
    ----------
    overlap : ndarray (n, K) of float64
        Jaccard coefficient of every cluster with the most similar cluster of every refit on a part of the
        rows; NaN if none of its rows is in the part.
    n_clusters : ndarray (n,) of int
        Clusters of these refits.
    agreement : ndarray (n_seeds,) of float64
        Adjusted Rand index of the refits on all rows with other seeds.
    """

    overlap: Floats
    n_clusters: Ints
    agreement: Floats

    def __repr__(self) -> str:
        mean = ", ".join(f"{k}: {x:.2f}" for k, x in enumerate(self.mean.tolist()))
        text = f"Stability({plural(len(self.overlap), 'refit')}; mean overlap by cluster {mean}"
        if len(self.agreement):
            seeds = plural(len(self.agreement), "other seed")
            text += f"; agreement (ARI) with {seeds} {self.agreement.mean():.2f}"
        return f"{text})"

    @property
    def mean(self) -> Floats:
        """(K,) mean overlap of every cluster; NaN for one without rows in any part."""
        return self._known(np.nanmean)

    @property
    def lowest(self) -> Floats:
        """(K,) lowest overlap of every cluster; NaN for one without rows in any part."""
        return self._known(np.nanmin)

    @property
    def found(self) -> Floats:
        """(K,) share of the refits whose overlap with the cluster is at least .75; NaN for one without rows
        in any part.
        """
        return self._known(
            lambda overlap, axis: (overlap >= FIRM).sum(axis=axis) / (~np.isnan(overlap)).sum(axis=axis)
        )

    def _known(self, statistic: Callable[..., Floats]) -> Floats:
        """A statistic of the overlaps of every cluster that has any."""
        out, known = np.full(self.overlap.shape[1], np.nan), ~np.isnan(self.overlap).all(axis=0)
        out[known] = statistic(self.overlap[:, known], axis=0)
        return out


def stability_of(
    model: Any,
    X: FitTable,
    settings: tuple[int, int, int],
    sample_weight: WeightInput,
    groups: GroupsInput,
) -> Stability:
    """The stability of a fitted model on the table of its fit; settings: n, n_seeds and random_state."""
    for (name, least), value in zip(_SETTINGS.items(), settings, strict=True):
        check_number(name, value, least=least, whole=True)
    table = model._read_columns(cast("TableInput", X))
    if not isinstance(getattr(model, "labels_", None), np.ndarray):
        raise ValueError(
            "This model holds no labels of its rows, which lie in a Dask collection; fit a sample of "
            "the rows."
        )
    _, weights = model._rows_of_fit(table, sample_weight)
    if model._groups is not None and groups is None:
        raise ValueError("The rows of fit have groups; pass the groups of fit.")
    if model._groups is None and groups is not None:
        raise ValueError("The rows of fit have no groups; leave out groups, or fit with them.")
    n, n_seeds, seed = map(int, settings)
    return refits(model, table, weights, groups_of(X, groups, len(table)), n, n_seeds, seed)


def refits(
    model: Any,
    table: MixedTable,
    weight: Floats | None,
    groups: Labels | None,
    n: int,
    n_seeds: int,
    seed: int,
) -> Stability:
    """The stability of a fitted model by n refits on parts of the rows and n_seeds refits on all rows of
    weight > 0. `groups`: of rows that stay together.
    """
    own = model._partition
    if weight is not None:
        counted = np.flatnonzero(weight)
        table, own, weight = table.take(counted), own[counted], weight[counted]
        groups = None if groups is None else groups[counted]
    rows_of_part = max(int(_SHARE * len(table)), 1)
    overlap, n_clusters = np.empty((n, model.n_clusters_)), np.empty(n, np.intp)
    for i in range(n):
        order = np.argsort(
            uniform(seed, CraftStream.STABILITY_SAMPLE, i, np.arange(len(table))), kind="stable"
        )
        rows = np.sort(order[:rows_of_part])
        w = None if weight is None else weight[rows]
        g = None if groups is None else groups[rows]
        labels = refit(model, table.take(rows), w, seed + i, groups=g).labels_
        n_clusters[i] = labels.max() + 1
        overlap[i] = jaccard(own[rows], labels, model.n_clusters_)
    others = [other for other in range(seed, seed + n_seeds + 1) if other != model.random_state][:n_seeds]
    again = [refit(model, table, weight, other, groups=groups).labels_ for other in others]
    return Stability(overlap, n_clusters, np.array([adjusted_rand_index(own, labels) for labels in again]))


def agreement_of(models: Sequence[Any], table: MixedTable) -> list[float]:
    """Adjusted Rand index of the first model with every other one, by their predictions of the rows."""
    first, *others = (model.predict(table) for model in models)
    return [adjusted_rand_index(first, labels) for labels in others]


def refit(
    model: Any,
    table: MixedTable,
    weight: Floats | None,
    seed: int,
    *,
    groups: Labels | None = None,
    parameters: Mapping[str, float | str] | None = None,
) -> Any:
    """A fit with the parameters of the model, but for the seed and the given ones. A given start partition is
    not used, nor a number of clusters above that of distinct rows. Sizes of clusters are shares of the rows.
    """
    if getattr(model._fitted, "rows", None) is not None:
        raise ValueError(
            "A refit does not know the fixed clusters of this model; test models that are fitted without "
            "fixed."
        )
    other = clone(model)
    own = set(other.get_params())
    # columns are as they were read, and clusters, without outliers, are compared
    neutral = {"categorical": "auto", "unusable": "error", "outlier_price": None, "verbose": 0}
    other.set_params(random_state=seed, **{name: neutral[name] for name in own & set(neutral)})
    other.set_params(**(parameters or {}))
    encoding = model._fitted.encoding
    if isinstance(encoding, LevelEncoding):  # parts of the rows may show a shorter period
        other.set_params(kinds=encoding.periods)
    if not isinstance(model.init, str):
        other.set_params(init="auto")
    if other.n_clusters is not None:
        n_clusters = np.atleast_1d(other.n_clusters).tolist()
        fewer = tuple(len(distinct_rows(table, K)) for K in n_clusters)
        other.set_params(n_clusters=fewer if len(fewer) > 1 else fewer[0])
    for name in ("min_cluster_size", "max_cluster_size"):
        size, whole = getattr(other, name, None), float(model.cluster_sizes_.sum())
        if size is not None:  # of fewer rows the same share
            other.set_params(**{name: min(size_in_rows(size, whole) / whole, 1.0)})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the fit of the model has given them
        together = {} if groups is None else {"groups": groups}
        return other.fit(table, sample_weight=weight, **together)


def jaccard(labels: Labels, others: Labels, n_clusters: int) -> Floats:
    """(K,) the largest Jaccard coefficient of every cluster with a cluster of another partition of the same
    rows; NaN without rows.
    """
    n_others = int(others.max()) + 1
    both = np.bincount(labels.astype(np.intp) * n_others + others, minlength=n_clusters * n_others).reshape(
        n_clusters, n_others
    )
    sizes, other_sizes = both.sum(axis=1), both.sum(axis=0)
    union = sizes[:, None] + other_sizes - both
    return np.where(sizes > 0, (both / np.maximum(union, 1)).max(axis=1), np.nan)


def structure_of(
    model: CraftBase,
    null_test: NullTest | None = None,
    stability: Stability | None = None,
    agreement: Sequence[float] = (),
) -> Structure:
    """The structure that a model shows; `agreement`: adjusted Rand indices with fits from other seeds."""
    found: Structure = model._structure()
    if null_test is not None:
        found = replace(
            found,
            saving=null_test.saving,
            null_savings=null_test.null_savings.tolist(),
            n_sampled=null_test.n_rows if null_test.sampled else 0,
            one_and_two=null_test.one_and_two,
        )
    agreement = [
        *agreement,
        *(() if null_test is None or null_test.agreement is None else [null_test.agreement]),
    ]
    if stability is not None and model.n_clusters_ > 1:
        agreement = [*agreement, *stability.agreement.tolist()]
        mean = stability.mean
        known = ~np.isnan(mean)
        if known.any():
            overlap = float(np.average(mean[known], weights=model.cluster_sizes_[known]))
            found = replace(found, overlap=overlap)
    return replace(found, agreement=agreement)
