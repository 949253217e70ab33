"""Stability of the clusters of a fitted CRAFT over parts of the rows and over seeds (Hennig 2007)."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from sklearn.base import clone

from craftc._common.random import CraftStream, uniform
from craftc._common.typing import Floats, Ints, Labels, TableInput, WeightInput
from craftc._common.validation import check_number
from craftc.craft.bounds import GroupsInput, groups_of
from craftc.craft.parameters import size_in_rows
from craftc.craft.rows import distinct_rows
from craftc.describe.structure import FIRM
from craftc.describe.words import plural
from craftc.metrics import adjusted_rand_index
from craftc.table import MixedTable
from craftc.table.levels import LevelEncoding

if TYPE_CHECKING:
    from craftc.distributed.open_input import FitTable

_SHARE = 0.8  # of the rows of a refit
_SETTINGS = {"n": 1, "n_seeds": 0, "random_state": 0}  # and their least values


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
