"""Tables with dependence inside clusters, and what tests of the covariances of CRAFT share."""

from __future__ import annotations

import numpy as np

from craftc import MixedTable
from craftc.craft.background import Background
from craftc.craft.covariance import BlockPricing, ClusterCovariances, CrossProducts, covariance_columns
from craftc.craft.paper_clusters import PaperClusters
from craftc.craft.parameters import ModelSpec
from craftc.table.moments import Moments, integer_grid

NO_WEIGHT = np.empty(0, np.int64)


def slanted(seed, n=300, K=2, p=4, q=1, noise=1, apart=2.5):
    """(X, truth): K clusters with full random covariances in p columns, `noise` columns and q categories (the
    last columns).
    """
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, K, n)
    X = rng.normal(size=(n, p + noise + q))
    for k in range(K):
        A = rng.normal(size=(p, p)) * np.exp(rng.normal(0, 0.7, p))
        A /= np.sqrt((A**2).sum(axis=1, keepdims=True))
        rows = truth == k
        X[rows, :p] = apart * rng.normal(size=p) + X[rows, :p] @ A.T
    X[:, p + noise :] = np.where(rng.random((n, q)) < 0.6, truth[:, None], rng.integers(0, 3, (n, q)))
    return X, truth


def table_of(X, q=0):
    """A table whose last q columns are categories."""
    return MixedTable.from_data(X, categorical=list(range(X.shape[1] - q, X.shape[1])))


class TableClusters(PaperClusters):
    """Clusters with covariances whose other features have the distribution of the whole table, as the
    reference implementation has it.
    """

    def __init__(self, moments, background, spec, cross):
        super().__init__(moments, background, spec)
        prices = BlockPricing(self.pricing, background, spec, cross.columns)
        held = ClusterCovariances.choose(prices, moments, self.shift, self.gains, self.mask, cross)
        of_blocks = held.features(self.mask.shape[1])
        self.mask = self.mask | of_blocks
        self.tabled_mask = self.mask & ~of_blocks
        self.costs = self.costs - held.saving
        self.excess = float(self.costs.sum())
        self.covariances = held


def clusters_of(table, labels, covariance="auto", weight=NO_WEIGHT, n_threads=1, columns=None):
    """The clusters of a partition, with covariances."""
    labels, K = np.ascontiguousarray(labels, np.int32), int(np.max(labels)) + 1
    grid = integer_grid(table, weight)
    moments = Moments.of_partition(grid, 1.0, table, weight, labels, K, n_threads)
    background = Background(moments.total())
    columns = covariance_columns(background, moments.total()) if columns is None else columns
    cross = CrossProducts.of_partition(columns, grid, table, weight, labels, K, n_threads)
    spec = ModelSpec(selection="priced", price=None, covariance=covariance)
    return TableClusters(moments, background, spec, cross)
