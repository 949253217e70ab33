"""Small fits of every estimator, in every mode and on tables of odd shapes, for the job that runs them under
memory sanitizers.

Without a sanitizer they show that no fit ends the process and that every result is finite.
"""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

from craftc import (
    CRAFT,
    BPMeans,
    ConvexClustering,
    ConvexCovariateClustering,
    DPMeans,
    FeatureSelectionMixture,
    GraphSpectralFeatures,
    KFeatures,
    KModes,
    KPrototypes,
    MixedTable,
)
from tests.common import random_table

pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore:Constant columns:UserWarning"),
    pytest.mark.filterwarnings("ignore:Columns without variance:UserWarning"),
    pytest.mark.filterwarnings("ignore:BPMeans found:UserWarning"),
    pytest.mark.filterwarnings("ignore:.* clusters have at most D:UserWarning"),
]

#: Numbers of clusters on both sides of the lanes of a vector and of the default max_clusters.
LANES = (1, 2, 8, 9, 17, 20, 97, 100)

# Every estimator, in the modes that run code of their own.
MIXED = {
    "craft": CRAFT(n_init=2, random_state=0),
    "craft, fixed": CRAFT(2, selection="fixed", cluster_price=2.0, n_init=2, random_state=0),
    "craft, free": CRAFT(2, selection="free", cluster_price=2.0, n_init=2, random_state=0),
    "craft, global": CRAFT(selection="global", n_init=2, random_state=0),
    "craft, threshold": CRAFT(selection="threshold", n_init=2, random_state=0),
    "craft, paper": CRAFT(
        model="paper", cluster_price=2.0, selection="fixed", n_init=2, max_clusters=6, random_state=0
    ),
    "craft, paper-fixed": CRAFT(
        model="paper-fixed", cluster_price=2.0, selection="fixed", n_init=2, max_clusters=6, random_state=0
    ),
    "craft, raw": CRAFT(numeric="raw", n_init=2, random_state=0),
    "craft, rank": CRAFT(numeric="rank", n_init=2, random_state=0),
    "kprototypes": KPrototypes(3, n_init=2, random_state=0),
    "kprototypes, batch": KPrototypes(3, update="batch", n_init=2, random_state=0),
    "kprototypes, Cao, Ng": KPrototypes(3, init="Cao", cat_dissim="ng", n_init=2, random_state=0),
    "kprototypes, labels": KPrototypes(
        3, init="random", cat_dissim="jaccard-label", n_init=2, random_state=0
    ),
    "spectral": GraphSpectralFeatures(2, random_state=0),
    "spectral, dense": GraphSpectralFeatures(2, conditionals="dense", random_state=0),
    "spectral, logistic": GraphSpectralFeatures(2, groups="logistic", unary=False, random_state=0),
    "spectral, free": GraphSpectralFeatures(2, unary="free", random_state=0),
    "spectral, sparse": GraphSpectralFeatures(2, l1=0.05, random_state=0),
    "spectral, svd": GraphSpectralFeatures(2, factorization="svd", random_state=0),
    "spectral, observed": GraphSpectralFeatures(2, objective="observed", n_steps=20, random_state=0),
}
ROWS = {
    "dpmeans": DPMeans(random_state=0),
    "dpmeans, polish": DPMeans(5.0, polish=True, n_init=3, random_state=0),
    "dpmeans, delayed": DPMeans(5.0, mode="delayed", random_state=0),
    "dpmeans, collapsed": DPMeans(5.0, mode="collapsed", random_state=0),
    "dpmeans, full": DPMeans(5.0, covariance="full", covariance_prior=1.0, random_state=0),
    "dpmeans, full-sized": DPMeans(5.0, covariance="full-sized", covariance_prior=1.0, random_state=0),
    "kmodes": KModes(3, random_state=0),
    "bpmeans": BPMeans(n_init=2, random_state=0),
    "bpmeans, exact": BPMeans(2.0, assignment="exact", max_features=6, n_init=2, random_state=0),
    "bpmeans, collapsed": BPMeans(2.0, collapsed=True, max_features=6, n_init=2, random_state=0),
    "kfeatures": KFeatures(n_init=2, random_state=0),
    "kfeatures, exact": KFeatures(3, assignment="exact", n_init=2, random_state=0),
    "kfeatures, reseed": KFeatures(3, empty="reseed", assignment="sweep", n_init=2, random_state=0),
    "convex": ConvexClustering(n_clusters=1),
    "convex, admm": ConvexClustering(0.1, solver="admm"),
}
MIXTURES = {
    "mixture": FeatureSelectionMixture(4, n_init=2, max_iter=30, random_state=0),
    "mixture, global": FeatureSelectionMixture(4, selection="global", n_init=1, max_iter=30, random_state=0),
    "mixture, shared": FeatureSelectionMixture(
        4, selection="shared", noise="feature", max_iter=30, n_init=1, random_state=0
    ),
    "mixture, learnt": FeatureSelectionMixture(
        4, learn_fraction=True, merge=False, max_iter=30, n_init=1, random_state=0
    ),
    "mixture, counts": FeatureSelectionMixture(4, component="poisson", n_init=1, max_iter=30, random_state=0),
    "mixture, full": FeatureSelectionMixture(3, covariance="full", n_init=1, max_iter=30, random_state=0),
}
COVARIATES = {
    "covariates": ConvexCovariateClustering(1.0),
    "covariates, path": ConvexCovariateClustering(),
    "covariates, sparse": ConvexCovariateClustering(1.0, sparsity=0.5),
    "covariates, admm": ConvexCovariateClustering(1.0, solver="admm", max_iter=200),
    "covariates, paper": ConvexCovariateClustering(1.0, solver="paper", max_iter=50),
}
SHAPES = [(2, 1), (3, 2), (9, 1), (17, 3), (33, 8), (41, 9)]


def check_answers(model, X):
    """Every method that maps rows to numbers, for all rows and for one: no NaN.

    The margin over a cluster that is missing is inf.
    """
    for name in (
        "predict",
        "transform",
        "predict_proba",
        "score_samples",
        "decision_function",
        "reconstruct",
    ):
        if hasattr(model, name):
            for some in (X, X.take([0]) if isinstance(X, MixedTable) else X[:1]):
                values = np.asarray(getattr(model, name)(some))
                assert len(values) == len(some), name
                assert not np.isnan(values).any(), name
    assert np.isfinite(model.cost_ if hasattr(model, "cost_") else model.objective_)


def rows(n, D, dtype=np.float64):
    """Rows around three centres, and two classes."""
    rng = np.random.default_rng(n + D)
    X = rng.normal(size=(n, D)) + 3.0 * rng.normal(size=(3, D))[np.arange(n) % 3]
    return X.astype(dtype), np.arange(n) % 2


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(("n", "D"), [(1, 2), *SHAPES])
@pytest.mark.parametrize("name", ROWS)
def test_rows(name, n, D, dtype):
    X, _ = rows(n, D, dtype)
    check_answers(clone(ROWS[name]).fit(X), X)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(("n", "D"), SHAPES)
@pytest.mark.parametrize("name", COVARIATES)
def test_rows_with_classes(name, n, D, dtype):
    X, y = rows(n, D, dtype)
    check_answers(clone(COVARIATES[name]).fit(X, y), X)


@pytest.mark.parametrize("missing", [0.0, 0.2])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(("n", "D"), SHAPES)
@pytest.mark.parametrize("name", MIXTURES)
def test_mixtures(name, n, D, dtype, missing):
    X, _ = rows(n, D, dtype)
    if name == "mixture, counts":
        X = np.rint(np.abs(X))
    if name != "mixture, full":
        X[1:][np.random.default_rng(0).random((n - 1, D)) < missing] = np.nan
    check_answers(clone(MIXTURES[name]).fit(X), X)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(
    ("n", "p", "q"), [(2, 2, 0), (5, 0, 2), (12, 1, 1), (17, 3, 2), (40, 8, 9), (61, 9, 1)]
)
@pytest.mark.parametrize("name", MIXED)
def test_mixed_tables(name, n, p, q, dtype):
    table = random_table(n, n, p, q, missing=0.1, dtype=dtype)
    check_answers(clone(MIXED[name]).fit(table), table)


@pytest.mark.parametrize("name", [name for name in MIXED if name.startswith("craft")])
def test_one_row_one_column_one_level(name):
    for X in ([[1.5]], [[1.0], [2.0]], np.zeros((12, 1))):
        for categorical in ([], [0]):
            table = MixedTable.from_data(np.asarray(X), categorical=categorical)
            model = clone(MIXED[name]).set_params(n_clusters=None).fit(table)
            check_answers(model, table)


WEIGHTED = {**{name: model for name, model in MIXED.items() if name.startswith("craft")}, **ROWS}


@pytest.mark.filterwarnings("ignore:Columns differ in scale:UserWarning")
@pytest.mark.parametrize("name", [name for name in WEIGHTED if name.startswith(("craft", "dpmeans"))])
def test_weights(name):
    table = random_table(5, 60, 3, 0, missing=0.0)
    X = table.numeric if name in ROWS else table
    weight = np.random.default_rng(0).choice([0.0, 0.25, 1.0, 7.0], size=60)
    check_answers(clone(WEIGHTED[name]).fit(X, sample_weight=weight), X)


@pytest.fixture(scope="module")
def separate():
    """120 clusters far from each other, ten rows in each."""
    rng = np.random.default_rng(0)
    return np.repeat(100.0 * rng.normal(size=(120, 6)), 10, axis=0) + rng.normal(size=(1200, 6))


@pytest.mark.slow_except(3)
@pytest.mark.parametrize("K", LANES)
def test_craft_with_as_many_clusters_as_allowed(separate, K):
    model = CRAFT(max_clusters=K, numeric="raw", n_init=2, random_state=0).fit(separate)
    assert model.n_clusters_ <= K
    check_answers(model, separate)


@pytest.mark.parametrize("K", LANES)
def test_dpmeans_and_mixture_of_many_clusters(separate, K):
    for mode in ("serial", "delayed", "collapsed"):
        model = DPMeans(1.0, max_clusters=K, mode=mode, random_state=0).fit(separate)
        assert model.n_clusters_ == K
        check_answers(model, separate)
    check_answers(
        FeatureSelectionMixture(K, n_init=1, max_iter=3, merge=False, random_state=0).fit(separate), separate
    )


@pytest.mark.parametrize("K", [1, 2, 8, 9, 17, 20, 63, 64])
def test_many_features(K):
    X, _ = rows(80, 7)
    for model in (
        KFeatures(K, n_init=1, max_iter=1, random_state=0),
        BPMeans(1e-3, max_features=K, n_init=1, max_iter=1, random_state=0),
    ):
        check_answers(model.fit(X), X)
