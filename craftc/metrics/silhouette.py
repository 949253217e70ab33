"""Silhouette of clusters by the costs of the rows, which mixed tables have without a distance."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from craftc._common.messages import shown
from craftc._common.typing import Array, TableInput, WeightInput
from craftc._common.validation import check_weight


class WithCosts(Protocol):
    """A fitted clustering whose `transform` returns the cost of every row under every cluster."""

    def transform(self, X: TableInput) -> Array: ...


def cost_silhouette(
    model: WithCosts, X: TableInput, *, labels: Array | None = None, sample_weight: WeightInput = None
) -> float:
    """Mean silhouette of rows, with costs under clusters in the place of mean distances.

    The silhouette of a row is ``(b - a) / max(a, b)``, with a the cost under its own cluster and b the least
    cost under another one: the simplified silhouette of Hruschka et al. [1]_ for numbers, categories and
    missing cells alike. Linear in the rows; no distances between rows.

    Parameters
    ----------
    model : fitted clustering
        CRAFT, KModes, KPrototypes, DPMeans, or another one whose `transform` returns costs of at least 0.
    X : data frame, array (n, D) or MixedTable
    labels : array (n,) of int, optional
        Clusters of the rows; None: those of the least costs, which give no silhouette below 0.
    sample_weight : array (n,), optional

    Returns
    -------
    float
        Between -1 and 1; near 0 where other clusters fit the rows nearly as well. Columns without clusters
        add equal costs to a and b and lower it, so that it compares partitions of one table, not tables.

    Raises
    ------
    ValueError
        There is one cluster, a cost is negative, as the densities of `PaperCRAFT` may be, or a label is not
        one of the clusters.

    References
    ----------
    .. [1] E. R. Hruschka, L. N. de Castro, R. J. G. B. Campello, "Evolutionary algorithms for clustering
       gene-expression data", IEEE International Conference on Data Mining (2004).

    Examples
    --------
    >>> from craftc import CRAFT, metrics
    >>> from craftc.datasets import load_heart
    >>> heart = load_heart().data
    >>> model = CRAFT(random_state=0).fit(heart)
    >>> round(metrics.cost_silhouette(model, heart), 2)
    0.2
    """
    costs = np.asarray(model.transform(X), dtype=np.float64)
    n, K = costs.shape
    if K < 2:
        raise ValueError("The model has one cluster, and a silhouette compares two; fit more clusters.")
    if (costs < 0).any():
        raise ValueError(
            f"A cost is negative ({costs.min():.3g}), so that silhouettes have no scale; pass a model whose "
            "costs are distances or minus log probabilities, such as CRAFT."
        )
    rows = np.arange(n)
    own = costs.argmin(axis=1) if labels is None else _checked(labels, n, K)
    a = costs[rows, own]
    costs[rows, own] = np.inf
    b = costs.min(axis=1)
    larger = np.maximum(a, b)
    silhouettes = np.where(larger > 0, (b - a) / np.where(larger > 0, larger, 1.0), 0.0)
    return float(np.average(silhouettes, weights=check_weight(sample_weight, n)))


def _checked(labels: Array, n: int, n_clusters: int) -> Array:
    own = np.asarray(labels)
    whole = own.shape == (n,) and own.dtype.kind in "iu"
    if not whole or own.min(initial=0) < 0 or own.max(initial=0) >= n_clusters:
        raise ValueError(
            f"labels must hold one of 0 to {n_clusters - 1} for each of the {n} rows, got {shown(labels)}."
        )
    return own
