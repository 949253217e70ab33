"""Tables with dependence inside clusters, and what tests of the covariances of CRAFT share."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import make_blobs

from craftc import MixedTable
from craftc.craft.background import Background
from craftc.craft.clusters import Clusters
from craftc.craft.parameters import ModelSpec
from craftc.craft.products import CrossProducts, covariance_columns, first_conditionals, most_columns
from craftc.craft.rows.local import LocalRows
from craftc.craft.search import FitConfig
from craftc.craft.search.forms import prior_of
from craftc.table.bins import tally
from craftc.table.levels import LevelEncoding
from craftc.table.moments import Moments, integer_grid
from tests.level_cases import Case
from tests.reference import covariance as reference
from tests.reference import levels

pd = pytest.importorskip("pandas")

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


def spread_apart(p, seed, n=600):
    """(X, truth): three round groups whose deviations are 1, 2.5 and .5."""
    return make_blobs(n, p, centers=3, cluster_std=[1.0, 2.5, 0.5], random_state=seed)


def spread_apart_mixed():
    """A frame of such groups with a category and missing cells."""
    X, _ = spread_apart(3, 3)
    frame = pd.DataFrame(X, columns=list("abc"))
    frame["d"] = np.where(np.random.default_rng(0).random(len(X)) < 0.1, "u", "v")
    frame.loc[::17, "a"] = np.nan
    return frame


def table_of(X, q=0):
    """A table whose last q columns are categories."""
    return MixedTable.from_data(X, categorical=list(range(X.shape[1] - q, X.shape[1])))


def encoding_of(table, weight=NO_WEIGHT):
    """The levels of a table, and the scores of its numbers."""
    given = weight if len(weight) else None
    tallies = [tally(cells, given) for cells in table.numeric.T]
    return LevelEncoding.of_tallies(table.schema, tallies).with_scores()


def clusters_of(
    table, labels, covariance="auto", weight=NO_WEIGHT, n_threads=1, tied=False, choice=None, keep=False
):
    """The clusters of a partition, with covariances of their own or one that they share."""
    labels, K = np.ascontiguousarray(labels, np.int32), int(np.max(labels)) + 1
    encoding = encoding_of(table, weight)
    encoded = encoding.apply(table)
    grid = integer_grid(encoded, weight)
    moments = Moments.of_partition(grid, 1.0, encoded, weight, labels, K, n_threads)
    background = Background(moments.total(), encoding)
    columns = covariance_columns(background, most_columns(covariance))
    rows = LocalRows(encoded, weight)
    conditionals = first_conditionals(background, columns, moments)
    sums = rows.cross_products(columns, grid, labels, K, conditionals, n_threads)
    cross = CrossProducts(columns, sums, prior_of(rows, background, columns, n_threads))
    spec = ModelSpec(selection="priced", price=None, pooled=True, covariance=covariance, tied=tied)
    return Clusters(moments, background, spec, choice, cross, keep=keep)


def config_of(X, q=0, weight=NO_WEIGHT, covariance="auto", tied=False, n_threads=1):
    """The configuration of the search of a table, whose last q columns are categories, and the columns that
    covariances may hold.
    """
    table = table_of(X, q)
    encoding = encoding_of(table, weight)
    rows = LocalRows(encoding.apply(table), weight)
    total = Moments.of_partition(rows.grid(), 1.0, rows.table, weight, np.zeros(len(X), np.int32), 1)
    spec = ModelSpec(selection="priced", price=None, pooled=True, covariance=covariance, tied=tied)
    config = FitConfig(rows, weight, Background(total, encoding), spec, 100, 0, n_threads, encoding=encoding)
    return config, covariance_columns(config.background, most_columns(covariance))


def problem_of(X, q=0, weight=None):
    """The same table for the reference; its last q columns are categories."""
    p = X.shape[1] - q
    case = Case(X.T, ["number"] * p + ["category"] * q, weight=weight)
    codes, n_levels, _ = case.reference()
    numbers = {d: levels.of_numbers(X[:, d], weight) for d in range(p)}
    return reference.with_scores(case.problem(), codes, n_levels, numbers)
