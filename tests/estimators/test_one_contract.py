"""What all estimators have in common: errors for tables that they cannot read, fits that change all or
nothing, and finite results.
"""

from __future__ import annotations

import os
import time
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

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
)
from tests.fuzz.invariants import copied, difference

Y = np.arange(24) % 2
X = np.random.default_rng(0).normal(size=(24, 3)) + 6.0 * Y[:, None]
NUMBERS_ONLY = [
    DPMeans(10.0),
    KFeatures(1, n_init=1, random_state=0),
    BPMeans(10.0, n_init=1, random_state=0),
    FeatureSelectionMixture(3, n_init=1, random_state=0),
    ConvexCovariateClustering(1.0),
    ConvexClustering(0.1),
]
PROTOTYPES = [KModes(2), KPrototypes(2, n_init=1, random_state=0)]
ALL = [*NUMBERS_ONLY, CRAFT(random_state=0, n_init=1), GraphSpectralFeatures(2, random_state=0), *PROTOTYPES]


def name_of(model):
    return type(model).__name__


def fit(model, table):
    return (
        model.fit(table, Y[: len(table)])
        if isinstance(model, ConvexCovariateClustering)
        else model.fit(table)
    )


def frame(**columns):
    return pd.DataFrame({"a": np.arange(6.0), **columns})


def tables():
    text = frame(kind=list("xyzxyz"))
    dates = pd.DataFrame({"day": pd.date_range("2020", periods=6)})
    return {
        "text": (text, TypeError, r"'kind' cannot be read as numbers.*got 'x'; \w+ takes numbers only"),
        "polars text": (pl.from_pandas(text), TypeError, r"'kind' cannot be read as numbers.*got 'x'"),
        "Arrow text": (pa.Table.from_pandas(text), TypeError, r"'kind' cannot be read as numbers.*got 'x'"),
        "array of text": (
            np.array([["a", "b"]] * 6),
            TypeError,
            r"'x0' cannot be read as numbers.*got '?np.str_\('a'\)|got 'a'",
        ),
        "categories": (frame(c=pd.Categorical(list("ababab"))), TypeError, "'c' cannot be read as numbers"),
        "dates": (dates, TypeError, "'day' cannot be read as numbers"),
        "dates and numbers": (
            frame(day=pd.date_range("2020", periods=6)),
            TypeError,
            "'day' cannot be read as numbers.*Timestamp",
        ),
        "array of dates": (dates.to_numpy(), TypeError, "'x0' cannot be read as numbers.*datetime64"),
        "objects": (
            np.array([[{}, 1]] * 6, dtype=object),
            TypeError,
            "'x0' cannot be read as numbers.*got {}",
        ),
        "complex": (frame(c=[1j] * 6), TypeError, "'c' cannot be read as numbers"),
        "ragged": (
            [[1, 2], [3], [4, 5]],
            ValueError,
            r"equal length, got 2 cell\(s\) in row 0 and 1 in row 1",
        ),
        "two columns of one name": (
            pd.DataFrame(np.ones((6, 2)), columns=["a", "a"]),
            ValueError,
            r"unique, got \['a', 'a'\]",
        ),
        "dict": (
            {"a": [1.0, 2.0]},
            TypeError,
            r"an array or a data frame, got dict; pass pandas.DataFrame\(X\)",
        ),
    }


@pytest.mark.filterwarnings("ignore:X has feature names")
@pytest.mark.parametrize("model", NUMBERS_ONLY, ids=name_of)
@pytest.mark.parametrize("kind", tables())
def test_tables_that_are_not_numbers(kind, model):
    table, error, sentence = tables()[kind]
    with pytest.raises(error, match=sentence):
        fit(model, table)
    fitted = fit(model, X[:, :2])
    for method in ("predict", "transform"):
        if hasattr(fitted, method):
            with pytest.raises((error, ValueError)):
                getattr(fitted, method)(table)


@pytest.mark.parametrize("model", [CRAFT(), GraphSpectralFeatures()], ids=name_of)
def test_ragged_rows_of_mixed_tables(model):
    with pytest.raises(ValueError, match="equal length"):
        model.fit([[1, 2], [3]])


def test_nullable_columns_beside_others():
    """pandas converts these to objects with NA."""
    table = pd.DataFrame(
        {
            "a": pd.array([1, None, 3, 4] * 5, dtype="Int64"),
            "b": [True, False, True, True] * 5,
            "c": np.arange(20.0),
        }
    )
    as_floats = table.astype(object).where(table.notna(), np.nan).astype(float)
    model = FeatureSelectionMixture(2, n_init=1, random_state=0)
    np.testing.assert_array_equal(
        model.fit(table).feature_probabilities_, model.fit(as_floats).feature_probabilities_
    )
    with pytest.raises(ValueError, match="NaN"):
        DPMeans(1.0).fit(table)


# ---- all or nothing ----

REFUSED = {
    "a wider table with infinity": lambda: np.full((24, 5), np.inf),
    "other names": lambda: pd.DataFrame(np.full((24, 2), np.inf), columns=["p", "q"]),
    "text": lambda: pd.DataFrame({"p": [{}] * 24, "q": [1.0] * 24}),
    "no rows": lambda: np.ones((0, 2)),
}


@pytest.mark.parametrize("model", ALL, ids=name_of)
@pytest.mark.parametrize("table", REFUSED)
def test_a_refused_fit_changes_nothing(table, model):
    fitted = fit(model, pd.DataFrame(X, columns=["a", "b", "c"]))
    before = copied(vars(fitted))
    with pytest.raises((ValueError, TypeError)):
        fit(fitted, REFUSED[table]())
    assert difference(vars(fitted), before) is None
    method = (
        "predict"
        if hasattr(fitted, "predict")
        else "transform"
        if hasattr(fitted, "transform")
        else "summary"
    )
    getattr(fitted, method)(*([] if method == "summary" else [pd.DataFrame(X, columns=["a", "b", "c"])]))


@pytest.mark.parametrize(
    "model",
    [CRAFT(random_state=0, n_init=1), DPMeans(10.0), FeatureSelectionMixture(3, n_init=1)],
    ids=name_of,
)
@pytest.mark.parametrize(
    "weight",
    [-np.ones(24), np.full(24, np.nan), np.zeros(24), np.ones(3), np.full(24, "x"), np.full(24, 1e300)],
)
def test_refused_weights_change_nothing(weight, model):
    fitted = model.fit(X)
    before = copied(vars(fitted))
    with pytest.raises(ValueError, match=r"weight"):
        fitted.fit(X[:, :2], sample_weight=weight)
    assert difference(vars(fitted), before) is None


def test_an_interrupted_fit_changes_nothing(monkeypatch):
    model = DPMeans(10.0).fit(X)
    before = copied(vars(model))

    def interrupt(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(DPMeans, "_set_spherical_state", interrupt)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X[:, :1])
    assert difference(vars(model), before) is None


# ---- results are finite ----


@pytest.mark.parametrize("model", NUMBERS_ONLY, ids=name_of)
@pytest.mark.parametrize("scale", [1e155, 1e200, 1e300])
def test_tables_whose_squares_overflow(scale, model):
    with pytest.raises(ValueError, match=r"Column 'x0' ranges from.*scale it down"):
        fit(model, X * scale)


@pytest.mark.parametrize("model", NUMBERS_ONLY, ids=name_of)
@pytest.mark.parametrize("scale", [1e-160, 1e-300])
def test_tables_whose_squares_underflow(scale, model):
    with pytest.raises(ValueError, match=r"scale it up"):
        fit(model, X * scale)


def test_a_row_of_weight_nought_must_be_representable_too():
    with pytest.raises(ValueError, match=r"ranges from 0 to 1e\+200"):
        DPMeans(1.0).fit([[0.0], [1.0], [1e200]], sample_weight=[1, 1, 0])


@pytest.mark.filterwarnings("ignore:Columns differ in scale")
def test_a_column_of_denormal_numbers_among_others():
    rng = np.random.default_rng(0)
    table = np.c_[X, rng.integers(0, 9, 24) * 5e-324]
    np.testing.assert_array_equal(DPMeans(10.0).fit(table).labels_, DPMeans(10.0).fit(X).labels_)


@pytest.mark.filterwarnings("ignore:DPMeans stopped")
def test_a_price_beyond_float64_is_no_result():
    with pytest.raises(ValueError, match=r"no finite result for this input: objective_ would contain inf"):
        DPMeans(1.7e308, init=np.arange(24) % 3, max_iter=1).fit(
            np.repeat([[0.0], [1e149], [-1e149]], 8, axis=0)
        )


def test_weights_that_sums_would_lose():
    with pytest.raises(
        ValueError, match=r"sample_weight ranges from 1e-30 to 1, .* below 9e-10 of the largest to 0"
    ):
        DPMeans(10.0).fit(X, sample_weight=np.where(Y == 1, 1.0, 1e-30))
    light = DPMeans(1e-6, init=Y).fit(X, sample_weight=np.where(Y == 1, 1.0, 1e-8))
    np.testing.assert_allclose(light.cluster_centers_[0], X[light.labels_ == 0].mean(axis=0), rtol=1e-3)
    DPMeans(10.0).fit(X, sample_weight=np.where(Y == 1, 2.0**40, 1.0))


def test_distances_to_rows_whose_squares_overflow():
    model = DPMeans(10.0).fit(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        distances = model.transform(np.vstack([X, np.full((1, 3), 1e200)]))
    np.testing.assert_array_equal(distances[:-1], model.transform(X))
    np.testing.assert_allclose(distances[-1], np.sqrt(3.0) * 1e200)


def test_rows_of_weight_nought_count_for_the_order_of_the_clusters():
    weight = np.r_[0.0, np.ones(23)]
    labels = FeatureSelectionMixture(3, n_init=1, random_state=0).fit(X[::-1], sample_weight=weight).labels_
    first = np.unique(labels, return_index=True)[1]
    assert (np.diff(first) > 0).all()


# ---- after a fork ----


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize(
    "model", [ConvexClustering(0.1), ConvexCovariateClustering(1.0, similarity="knn")], ids=name_of
)
def test_nearest_neighbours_in_a_child(model):
    fit(model, X)
    child = os.fork()
    if child == 0:
        try:
            warnings.simplefilter("ignore")  # one thread, where the parent had several
            fit(model, X)
            os._exit(0)
        finally:
            os._exit(1)
    for _ in range(600):
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            assert status == 0
            return
        time.sleep(0.05)
    os.kill(child, 9)
    os.waitpid(child, 0)
    pytest.fail("the child hangs")


# ---- rows of weight 0 whose cluster is dropped ----


@pytest.mark.filterwarnings("ignore:CRAFT stopped")
def test_only_rows_that_lost_their_cluster_are_assigned_again():
    """After two passes the rows of weight > 0 are not yet in their cheapest clusters."""
    rng = np.random.default_rng(0)
    for seed in range(40):
        table, weight = rng.normal(size=(58, 2)), rng.integers(0, 3, 58)
        model = CRAFT(
            cluster_price=100.0, numeric="raw", n_init=1, max_iter=1, init="random", random_state=seed
        )
        model.fit(table, sample_weight=weight)
        np.testing.assert_array_equal(
            np.bincount(model.labels_, weight, model.n_clusters_), model.cluster_sizes_
        )


def test_a_covariance_that_overflows():
    with pytest.raises(ValueError, match="covariance of cluster 0 overflows"):
        DPMeans(1e-60, covariance="full", covariance_prior=1e300, init=Y).fit(X)
