"""What a fitted model says of a row depends on that row alone: its bits are the same for the row alone as in
a table.
"""

from __future__ import annotations

import numpy as np
import pytest

from craftc import (
    CRAFT,
    BPMeans,
    ConvexCovariateClustering,
    DPMeans,
    FeatureSelectionMixture,
    GraphSpectralFeatures,
    KFeatures,
    KModes,
    KPrototypes,
)
from craftc._common.products import row_products, row_sums

_rng = np.random.default_rng(0)
GROUPS = _rng.integers(0, 3, 120)
ROWS = _rng.normal(size=(120, 11)) + 2.0 * GROUPS[:, None] * (_rng.random(11) < 0.6)
CORRELATED = ROWS[:, :5] @ (np.eye(5) + _rng.normal(size=(5, 5)) / 3)
COUNTS = _rng.poisson(3.0 + 3.0 * GROUPS[:, None] * (_rng.random(11) < 0.6)).astype(float)

CASES = {
    "craft": (CRAFT(n_init=1, random_state=0), ROWS),
    "craft, covariances": (CRAFT(3, covariance="full", n_init=1, random_state=0), CORRELATED),
    "dp-means": (DPMeans(n_clusters=3), ROWS),
    "dp-means, full": (DPMeans(n_clusters=3, covariance="full-sized"), ROWS),
    "dp-means, known": (DPMeans(n_clusters=3, covariance=np.cov(ROWS.T)), ROWS),
    "bp-means": (BPMeans(n_init=1, random_state=0), ROWS),
    "k-features": (KFeatures(3, n_init=1, random_state=0), ROWS),
    "k-modes": (KModes(4, n_init=1, random_state=0), COUNTS),
    "k-prototypes": (KPrototypes(9, categorical=[0, 3, 4], n_init=1, random_state=0), COUNTS),
    "mixture": (FeatureSelectionMixture(4, n_init=1, random_state=0), ROWS),
    "mixture, full": (
        FeatureSelectionMixture(4, covariance="full", n_init=1, max_iter=20, tol=1e-3, random_state=0),
        CORRELATED,
    ),
    "mixture, counts": (FeatureSelectionMixture(4, component="poisson", n_init=1, random_state=0), COUNTS),
    "covariates": (ConvexCovariateClustering(1.0), ROWS),
    "spectral": (GraphSpectralFeatures(4, random_state=0), ROWS),
}


@pytest.mark.parametrize("name", CASES)
def test_a_row_alone(name):
    model, rows = CASES[name]
    model.fit(rows, GROUPS)
    methods = ("predict", "predict_proba", "decision_function", "transform", "score_samples", "margins")
    for method in filter(lambda method: hasattr(model, method), methods):
        whole = getattr(model, method)(rows)
        alone = np.concatenate([getattr(model, method)(rows[i : i + 1]) for i in range(len(rows))])
        np.testing.assert_array_equal(alone, whole, err_msg=method, strict=True)


@pytest.mark.parametrize("D", [0, 1, 9, 70])
def test_products_of_rows(D):
    rows, factor = (
        np.random.default_rng(1).normal(size=(5000, D)),
        np.random.default_rng(2).normal(size=(D, 3)),
    )
    whole = row_products(rows, factor)
    np.testing.assert_allclose(whole, rows @ factor, atol=1e-12)
    for some in (slice(17, 18), slice(3, 4000)):
        np.testing.assert_array_equal(row_products(np.asfortranarray(rows[some]), factor), whole[some])
        np.testing.assert_array_equal(row_sums(np.asfortranarray(rows[some])), row_sums(rows)[some])
