"""Small fits of every estimator, in every mode and on tables of odd shapes, for the job that runs them under
memory sanitizers.

Without a sanitizer they show that no fit ends the process and that every result is finite.
"""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

from craftc import CRAFT, BPMeans, DPMeans, FeatureSelectionMixture, KFeatures, MixedTable
from tests.common import random_table
from tests.registry import fit, modes, name_of, needs_classes, reads_categories, suited, takes_weights

pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore:Constant columns:UserWarning"),
    pytest.mark.filterwarnings("ignore:Columns without variance:UserWarning"),
    pytest.mark.filterwarnings("ignore:(BPMeans|KFeatures) found:UserWarning"),
    pytest.mark.filterwarnings("ignore:.* clusters have at most D:UserWarning"),
    pytest.mark.filterwarnings("ignore:.* fewer than n_clusters=:UserWarning"),
    pytest.mark.filterwarnings("ignore:Columns differ in scale:UserWarning"),
]

#: Numbers of clusters on both sides of the lanes of a vector and of the default max_clusters.
LANES = (1, 2, 8, 9, 17, 20, 97, 100)

MODES = modes()


def modes_of(condition):
    """Names of the modes whose model fulfils the condition."""
    return [mode for mode, model in MODES.items() if condition(model)]


def reads_mixed_tables(model):
    """Not KModes, to which every column is one of categories: its tables here are numbers."""
    return reads_categories(name_of(model)) and name_of(model) != "KModes"


def allows_missing(model):
    return model.__sklearn_tags__().input_tags.allow_nan


def needs_two(model):
    """Whether a fit needs two rows: two classes, or a variance."""
    return needs_classes(name_of(model)) or name_of(model) == "FeatureSelectionMixture"


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
    """Rows around three centres."""
    rng = np.random.default_rng(n + D)
    X = rng.normal(size=(n, D)) + 3.0 * rng.normal(size=(3, D))[np.arange(n) % 3]
    return X.astype(dtype)


def check_rows(mode, X, **keywords):
    model = clone(MODES[mode])
    X = suited(model, X)
    check_answers(fit(model, X, **keywords), X)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(("n", "D"), SHAPES)
@pytest.mark.parametrize("mode", modes_of(lambda model: not reads_mixed_tables(model)))
def test_rows(mode, n, D, dtype):
    check_rows(mode, rows(n, D, dtype))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("mode", modes_of(lambda model: not (reads_mixed_tables(model) or needs_two(model))))
def test_one_row(mode, dtype):
    check_rows(mode, rows(1, 2, dtype))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(("n", "D"), SHAPES)
@pytest.mark.parametrize(
    "mode", modes_of(lambda model: allows_missing(model) and not reads_mixed_tables(model))
)
def test_rows_with_missing_cells(mode, n, D, dtype):
    X = rows(n, D, dtype)
    X[1:][np.random.default_rng(0).random((n - 1, D)) < 0.2] = np.nan
    check_rows(mode, X)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(
    ("n", "p", "q"), [(2, 2, 0), (5, 0, 2), (12, 1, 1), (17, 3, 2), (40, 8, 9), (61, 9, 1)]
)
@pytest.mark.parametrize("mode", modes_of(reads_mixed_tables))
def test_mixed_tables(mode, n, p, q, dtype):
    table = random_table(n, n, p, q, missing=0.1, dtype=dtype)
    check_answers(clone(MODES[mode]).fit(table), table)


@pytest.mark.parametrize("mode", modes_of(lambda model: name_of(model) in ("CRAFT", "PaperCRAFT")))
def test_one_row_one_column_one_level(mode):
    sized = getattr(MODES[mode], "max_cluster_size", None) is not None  # one or two rows cannot be divided so
    for X in ([[1.5]], [[1.0], [2.0]], np.zeros((12, 1)))[2 * sized :]:
        for categorical in ([], [0]):
            table = MixedTable.from_data(np.asarray(X), categorical=categorical)
            model = clone(MODES[mode]).set_params(n_clusters=None).fit(table)
            check_answers(model, table)


@pytest.mark.filterwarnings("ignore:Columns differ in scale:UserWarning")
@pytest.mark.filterwarnings("ignore:sample_weight counts repeated rows:UserWarning")
@pytest.mark.parametrize("mode", modes_of(lambda model: takes_weights(name_of(model))))
def test_weights(mode):
    table = random_table(5, 60, 3, 0, missing=0.0)
    weight = np.random.default_rng(0).choice([0.0, 0.25, 1.0, 7.0], size=60)
    if reads_mixed_tables(MODES[mode]):
        check_answers(fit(clone(MODES[mode]), table, sample_weight=weight), table)
    else:
        check_rows(mode, table.numeric, sample_weight=weight)


@pytest.fixture(scope="module")
def separate():
    """120 clusters far from each other, ten rows in each."""
    rng = np.random.default_rng(0)
    return np.repeat(100.0 * rng.normal(size=(120, 6)), 10, axis=0) + rng.normal(size=(1200, 6))


@pytest.mark.slow_except(3)
@pytest.mark.parametrize("K", LANES)
def test_craft_with_as_many_clusters_as_allowed(separate, K):
    model = CRAFT(max_clusters=K, n_init=2, random_state=0).fit(separate)
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
    X = rows(80, 7)
    for model in (
        KFeatures(K, n_init=1, max_iter=1, random_state=0),
        BPMeans(1e-3, max_features=K, n_init=1, max_iter=1, random_state=0),
    ):
        check_answers(model.fit(X), X)
