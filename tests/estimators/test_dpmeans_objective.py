"""The objective of DP-means: exact sums of the rows, whatever their order, and accurate where columns are
badly scaled.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from craftc import DPMeans
from craftc._common import dense_data
from craftc._common import threads as parallel
from craftc._common.dense_data import DenseData


def table(seed, n, D, dtype):
    """Rows in groups, columns of very different ranges, every other one far from 0; labels."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 5, n).astype(np.int32)
    rows = rng.normal(size=(n, D)) + 4.0 * rng.normal(size=(5, D))[labels]
    scale = 10.0 ** rng.uniform(-6.0, 6.0, D)
    offset = np.where(np.arange(D) % 2, 1e8, 0.0) * (1.0 if dtype == np.float64 else scale * 1e-5)
    return (rows * scale + offset).astype(dtype), labels


def by_fsum(X, labels, w, centers=None):
    """Weighted sum of squared distances to the means, or to centres; differences from a row of the column are
    exact, or nearly so.
    """
    terms = []
    for k in np.unique(labels):
        inside = np.flatnonzero(labels == k)
        for d in range(X.shape[1]):
            step = X[inside, d].astype(np.float64) - float(X[inside[0], d])
            centre = (
                math.fsum(w[inside] * step) / math.fsum(w[inside])
                if centers is None
                else centers[k, d] - float(X[inside[0], d])
            )
            terms.append(math.fsum(w[inside] * (step - centre) ** 2))
    return np.array(terms)


def weights(kind, n, seed):
    rng = np.random.default_rng(seed)
    return {
        "none": None,
        "whole": rng.integers(1, 5, n).astype(float),
        "fractions": rng.uniform(0.01, 3.0, n),
    }[kind]


@pytest.mark.parametrize("kind", ["none", "whole", "fractions"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("D", [1, 2, 7, 16, 64])
def test_every_column_is_as_accurate_as_fsum(D, dtype, kind):
    X, labels = table(D, 300, D, dtype)
    w = weights(kind, 300, D)
    moments = DenseData(X, w, 1).moments(labels, 5)
    ones = np.ones(300) if w is None else w
    expected = by_fsum(X, labels, ones)
    np.testing.assert_allclose(
        moments.scatters.ravel(), expected, rtol=1e-10 if kind == "fractions" else 1e-14
    )
    assert moments.inertia() == pytest.approx(
        math.fsum(expected), rel=1e-10 if kind == "fractions" else 1e-14
    )
    centers = X[:5].astype(np.float64)
    assert moments.inertia(centers) == pytest.approx(math.fsum(by_fsum(X, labels, ones, centers)), rel=1e-9)
    np.testing.assert_allclose(moments.sizes, np.bincount(labels, ones), rtol=1e-12)


@pytest.mark.parametrize("offset", [0.0, 1e8])
def test_a_narrow_column_far_from_nought(offset):
    """A range of 1e-6 at 1e8 is 70 steps of float64; centres that are rounded to float64 do not enter the
    objective.
    """
    X = np.round(np.random.default_rng(0).uniform(0.0, 1e-6, (400, 2)) * 2**26) / 2**26 + offset
    model = DPMeans(np.inf).fit(X)
    assert model.inertia_ == pytest.approx(math.fsum(by_fsum(X, model.labels_, np.ones(400))), rel=1e-12)


@pytest.mark.parametrize("kind", ["none", "whole", "fractions"])
def test_the_order_of_the_rows_changes_no_bit(kind, monkeypatch):
    X, labels = table(1, 5000, 6, np.float64)
    w = weights(kind, 5000, 1)
    expected = DenseData(X, w, 1).moments(labels, 5)
    order = np.random.default_rng(0).permutation(5000)
    monkeypatch.setattr(parallel, "SMALL_WORK", 0)
    for words, n_threads in ((1 << 22, 3), (1, 1), (70, 2)):  # clusters in one pass, or one or two a pass
        monkeypatch.setattr(dense_data, "_GROUP_WORDS", words)
        found = DenseData(X[order], None if w is None else w[order], n_threads).moments(labels[order], 5)
        for name in ("sizes", "origin", "offsets", "scatters"):
            np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))


def test_rows_of_weight_nought_and_empty_clusters_add_nothing():
    X, labels = table(2, 60, 3, np.float64)
    plain = DenseData(X, np.ones(60), 1).moments(labels, 5)
    wide = np.vstack([X, np.full((1, 3), 1e200)])
    moments = DenseData(wide, np.r_[np.ones(60), 0.0], 1).moments(np.r_[labels, np.int32(6)], 7)
    assert moments.inertia() == plain.inertia()
    assert moments.sizes[5:].tolist() == [0.0, 0.0]
    assert not moments.offsets[5:].any()
    assert not moments.around(moments.offsets).variances[5:].any()


@pytest.mark.parametrize("seed", range(4))
def test_a_weight_of_two_is_a_repeated_row_to_the_last_bit(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(90, 3)) + 5.0 * rng.normal(size=(4, 3))[rng.integers(0, 4, 90)]
    twice = DPMeans(25.0).fit(X, sample_weight=np.full(90, 2.0))
    repeated = DPMeans(25.0).fit(np.repeat(X, 2, axis=0))
    assert (twice.objective_, twice.inertia_) == (repeated.objective_, repeated.inertia_)
    np.testing.assert_array_equal(twice.objective_path_, repeated.objective_path_)


def test_the_summary_has_the_same_moments():
    X, _ = table(3, 200, 2, np.float64)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    for model in (DPMeans(3.0).fit(X), DPMeans(3.0, covariance=np.diag([2.0, 0.5])).fit(X)):
        for k in range(model.n_clusters_):
            rows = X[model.labels_ == k]
            np.testing.assert_allclose(model._moments.variances[k], rows.var(axis=0), rtol=1e-9, atol=1e-20)
            np.testing.assert_allclose(model._moments.means[k], rows.mean(axis=0), rtol=1e-9, atol=1e-12)
