"""Input at the limits of the number formats: a clear error or a right answer, and every fit ends."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from craftc import (
    CRAFT,
    BPMeans,
    ConvexCovariateClustering,
    DPMeans,
    GraphSpectralFeatures,
    KFeatures,
    KPrototypes,
    MixedTable,
    PaperCRAFT,
)
from craftc._common.threads import effective_n_threads, max_useful_threads
from craftc._fusion.conjugate_gradients import cholesky
from craftc._kernels import parallel
from tests.common import ROOT


def centres(n_rows=1200, n_centres=120):
    """Rows around clearly separate centres."""
    rng = np.random.default_rng(0)
    return rng.normal(size=(n_centres, 6))[np.arange(n_rows) % n_centres] * 60 + rng.normal(size=(n_rows, 6))


@pytest.mark.parametrize("max_clusters", [1, 2, 8, 9, 17, 20, 97, 100])
def test_more_clear_clusters_than_are_allowed(max_clusters):
    model = CRAFT(max_clusters=max_clusters, n_init=1, random_state=0).fit(centres())
    assert 1 <= model.n_clusters_ <= max_clusters
    assert set(model.labels_) == set(range(model.n_clusters_))
    assert np.isfinite(model.objective_)


# ---- tables built by hand ----

SCHEMA = MixedTable.from_data(pd.DataFrame({"a": [1.0, 2.0], "b": ["x", "y"]})).schema
NUMERIC, CODES = np.zeros((4, 1)), np.zeros((4, 1), np.uint8)


@pytest.mark.parametrize(
    ("numeric", "codes", "error", "message"),
    [
        (NUMERIC, np.full((4, 1), 60000, np.uint16), ValueError, "'b' has 2 levels.*contains 60000"),
        (NUMERIC, np.full((4, 1), 3, np.uint8), ValueError, "contains 3"),
        (NUMERIC[:1], CODES, ValueError, "1 rows and codes has 4"),
        (NUMERIC, CODES.astype(np.int64), TypeError, "uint8 or uint16, got int64"),
        (NUMERIC.astype(np.float32), CODES, TypeError, "float64, got float32"),
        (NUMERIC.tolist(), CODES, TypeError, "got list"),
        (np.zeros((4, 2)), CODES, ValueError, r"shape \(n_rows, 1\).*\(4, 2\)"),
        (NUMERIC, CODES[:, 0], ValueError, r"\(4,\)"),
        (np.zeros((8, 1))[::2], CODES, ValueError, "C-contiguous"),
        (np.array([[0.0], [np.inf], [1.0], [2.0]]), CODES, ValueError, "'a'"),
    ],
)
def test_blocks_that_do_not_fit_the_schema(numeric, codes, error, message):
    with pytest.raises(error, match=message):
        MixedTable(numeric, codes, SCHEMA)


def test_a_schema_is_needed():
    with pytest.raises(TypeError, match="Schema, got dict"):
        MixedTable(NUMERIC, CODES, {})


def test_the_code_of_a_missing_cell_is_allowed():
    table = MixedTable(NUMERIC, np.full((4, 1), 2, np.uint8), SCHEMA)
    assert table.take([0, 2]).codes.tolist() == [[2], [2]]


# ---- numbers whose squares cannot be represented ----


@pytest.mark.parametrize("model", ["likelihood", "paper", "paper-fixed"])
@pytest.mark.parametrize(
    ("scale", "word"), [(1e300, "down"), (1e160, "down"), (1e-160, "up"), (1e-300, "up")]
)
def test_columns_of_extreme_scale_are_refused(model, scale, word):
    X = np.random.default_rng(0).integers(0, 3, (8, 1)) * scale
    with pytest.raises(ValueError, match=f"'x0' ranges from.*scale it {word}"):
        PaperCRAFT(2, cluster_price=0.0, model=model, n_init=1, random_state=0).fit(X)


@pytest.mark.parametrize("model", ["likelihood", "paper", "paper-fixed"])
@pytest.mark.parametrize("scale", [1e130, 1e-130])
def test_columns_of_large_scale_are_fitted(model, scale):
    X = np.random.default_rng(0).integers(0, 3, (30, 2)) * scale
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the paper's model may cycle
        fitted = PaperCRAFT(2, cluster_price=0.0, model=model, n_init=1, random_state=0).fit(X)
    assert np.isfinite(fitted.objective_)
    assert np.isfinite(fitted.centers_).all()


@pytest.mark.parametrize("estimator", [CRAFT(), PaperCRAFT(model="paper-fixed")], ids=str)
@pytest.mark.parametrize("scale", [1e18, 1e100, 1e299])
def test_weights_beyond_what_can_be_counted_are_refused(estimator, scale):
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match=r"sample_weight sums to.*scale the weights down"):
        clone(estimator).set_params(n_init=1, random_state=0).fit(
            rng.normal(size=(25, 5)), sample_weight=rng.random(25) * scale
        )


@pytest.mark.filterwarnings("ignore:sample_weight counts repeated rows:UserWarning")
@pytest.mark.parametrize("scale", [1e9, 1e12, 1e14, 7e14])
def test_searches_end_with_large_weights(scale):
    rng = np.random.default_rng(0)
    model = CRAFT(n_init=1, random_state=0).fit(
        rng.normal(size=(25, 5)), sample_weight=rng.random(25) * scale
    )
    assert np.isfinite(model.objective_)


@pytest.mark.parametrize("weight", [1e-300, 1e-160])
def test_weights_that_vanish_are_refused(weight):
    with pytest.raises(ValueError, match="scale the weights up"):
        DPMeans(0.0).fit([[1.0, 2.0]], sample_weight=[weight])


# ---- threads ----


def test_threads_are_capped():
    openmp = parallel.openmp()
    assert (
        effective_n_threads(100_000) == effective_n_threads(10**10) == (max_useful_threads() if openmp else 1)
    )
    assert effective_n_threads(7) == (7 if openmp else 1)
    X = np.random.default_rng(0).normal(size=(60_000, 4))
    few, many = (DPMeans(5.0, max_iter=2, n_threads=n).set_params(random_state=0) for n in (2, 100_000))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        np.testing.assert_array_equal(few.fit(X).labels_, many.fit(X).labels_)


@pytest.mark.parametrize("n_threads", [np.inf, np.nan, 2.5, "2", True])
def test_what_is_no_number_of_threads(n_threads):
    with pytest.raises(ValueError, match="n_threads must be None or a whole number"):
        DPMeans(5.0, n_threads=n_threads).fit([[1.0], [2.0]])


def test_threads_of_the_environment_are_capped():
    code = (
        "import numpy as np; from craftc import DPMeans; "
        "print(DPMeans(5.0, max_iter=2).fit(np.random.rand(50000, 9)).n_clusters_)"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "100000"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= 1


# ---- Hessians that vanish ----


def test_cholesky_ends():
    np.testing.assert_allclose(cholesky(np.zeros((2, 2)), 4.0), np.eye(2) * 2e-9)
    np.testing.assert_allclose(cholesky(np.eye(2) * 9.0, 4.0), np.eye(2) * 3.0)
    with pytest.raises(ValueError, match="not finite"):
        cholesky(np.full((2, 2), np.nan), 4.0)


@pytest.mark.slow_except(2)
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("sparsity", [0.0, 0.5])
@pytest.mark.parametrize("outlier", [False, True])
def test_covariates_of_any_scale(seed, sparsity, outlier):
    """Fitted probabilities are nearly all 0 or 1 on the way, where steps of the intercept alone may be of any
    size.
    """
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(40, 5)), rng.integers(0, 2 + seed % 2, 40)
    if outlier:
        X[rng.integers(40), rng.integers(5)] *= 10.0 ** rng.integers(3, 17)
    else:
        X *= 10.0 ** rng.integers(-15, 16, size=5)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        model = ConvexCovariateClustering(40.0 * 0.7 ** np.arange(20), sparsity=sparsity, max_iter=1000).fit(
            X, y
        )
    assert not [each.message for each in said if issubclass(each.category, RuntimeWarning)]
    assert np.isfinite(model.coef_).all()
    assert np.abs(model.intercept_).max() < 1e6


@pytest.mark.slow_except(3)
@pytest.mark.parametrize("seed", [5, 8])
@pytest.mark.parametrize("scale", [1e6, 1e15])
@pytest.mark.parametrize("options", [{"ridge": 0.0, "max_iter": 200}, {}, {"sparsity": 0.5}], ids=str)
def test_covariates_of_very_different_scales(seed, scale, options):
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(12, 3)), np.arange(12) % 2
    X[:, 1] *= scale
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        model = ConvexCovariateClustering(**options).fit(X, y)
    assert not [each.message for each in said if issubclass(each.category, RuntimeWarning)]
    assert model.n_iter_ < 1000  # steps from a point that is no number never end
    assert np.isfinite(model.coef_).all()
    assert np.isfinite(model.predict_proba(X)).all()


def weights_of_very_different_scales(seed):
    """A model, and the arguments of its fit."""
    rng = np.random.default_rng(seed)
    X, y, weight = 1e6 * rng.integers(0, 3, (30, 2)), rng.integers(0, 2, 30), 10.0 ** rng.uniform(-25, 30, 30)
    return ConvexCovariateClustering(10.0, solver="admm", tol=0.2, max_iter=30), (X, y, weight)


@pytest.mark.parametrize("seed", [7, 9])
def test_weights_of_very_different_scales(seed):
    model, arguments = weights_of_very_different_scales(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        with pytest.raises(ValueError, match=r"no finite result at .*weights .* scale them"):
            model.fit(*arguments)


def test_weights_whose_result_depends_on_rounding():
    """On some processors BLAS rounds to a finite result, on others it is refused."""
    model, arguments = weights_of_very_different_scales(23)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        try:
            model.fit(*arguments)
            refused = ""
        except ValueError as error:
            refused = str(error)
    if refused:
        assert re.search("no finite result at .*weights .* scale them", refused)
    else:
        assert np.isfinite(model.coef_).all()
        assert np.isfinite(model.intercept_).all()


@pytest.mark.parametrize("threshold", [1e300, ("absolute", 1e300)])
def test_thresholds_that_no_feature_reaches(threshold):
    X = 1e6 * np.random.default_rng(0).normal(size=(30, 2))
    model = PaperCRAFT(model="paper-fixed", numeric_threshold=threshold, n_init=1, random_state=0).fit(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(model.predict(X)) == 30


NEW_ROWS = [
    (BPMeans(), "score", 1e155),
    (KFeatures(2), "score", 1e300),
    (DPMeans(), "score", 1e200),
    (DPMeans(), "score", 1.7e308),
    (KPrototypes(2), "predict", 1e160),
    (KPrototypes(2), "transform", 1e155),
    (KPrototypes(2), "score", 1.7e308),
    (KPrototypes(2), "transform", np.float32(1e25)),
    (PaperCRAFT(2, n_init=1), "transform", np.float32(1e25)),
    (GraphSpectralFeatures(2), "transform", np.float32(3e38)),
]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(("model", "method", "number"), NEW_ROWS, ids=str)
def test_new_rows_whose_squares_overflow(model, method, number):
    X = np.random.default_rng(0).normal(0.0, 0.01, (20, 3)).astype(getattr(number, "dtype", np.float64))
    model = clone(model).set_params(random_state=0).fit(X)
    X[0, 0], X[1, 1] = number, -number
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(
            ValueError, match=rf"no finite result .* too large for ({X.dtype}|float64); check"
        ):
            getattr(model, method)(X)
        assert np.isfinite(getattr(model, method)(X[2:])).all()


def test_scores_and_inverses_that_overflow():
    X = np.random.default_rng(0).normal(size=(20, 3))
    far = np.vstack([X[1:], np.full(3, 1e200)])
    sums = BPMeans(feature_penalty=0.1, random_state=0).fit(X)
    graph = GraphSpectralFeatures(2).fit(
        pd.DataFrame(X, columns=list("abc")).assign(word=np.array(["a", "b"])[np.arange(20) % 2])
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for call in (
            lambda: DPMeans(random_state=0).fit(X).score(far, sample_weight=np.r_[np.ones(19), 0]),
            lambda: sums.inverse_transform(np.full((2, sums.n_features_), 1.7e308)),
            lambda: graph.inverse_transform(np.full((2, 2), 1.7e308)),
        ):
            with pytest.raises(ValueError, match="no finite result for these rows"):
                call()
