"""Results for a row depend on that row alone: the same bits for the row alone as in a table."""

from __future__ import annotations

import numpy as np
import pytest

from craftc._common.products import row_products, row_sums
from tests.registry import fit, modes, new, suited

_rng = np.random.default_rng(0)
GROUPS = _rng.integers(0, 3, 120)
ROWS = _rng.normal(size=(120, 11)) + 2.0 * GROUPS[:, None] * (_rng.random(11) < 0.6)
CORRELATED = ROWS[:, :5] @ (np.eye(5) + _rng.normal(size=(5, 5)) / 3)
COUNTS = _rng.poisson(3.0 + 3.0 * GROUPS[:, None] * (_rng.random(11) < 0.6)).astype(float)
METHODS = ("predict", "predict_proba", "decision_function", "transform", "score_samples", "margins")
METHODS += ("outlier_scores",)

#: The modes of all estimators that answer for new rows, and fits with full covariances.
CASES = {
    name: (model, suited(model, ROWS))
    for name, model in modes().items()
    if any(hasattr(type(model), method) for method in METHODS)
} | {
    "CRAFT, covariances": (new("CRAFT", n_clusters=3, covariance="full"), CORRELATED),
    "DPMeans, known covariance": (new("DPMeans", n_clusters=3, covariance=np.cov(ROWS.T)), ROWS),
    "FeatureSelectionMixture, covariances": (new("FeatureSelectionMixture", covariance="full"), CORRELATED),
    "KPrototypes, categories": (new("KPrototypes", n_clusters=9, categorical=[0, 3, 4]), COUNTS),
}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning", "ignore::UserWarning")
@pytest.mark.parametrize("name", CASES)
def test_a_row_alone(name):
    model, rows = CASES[name]
    fit(model, rows)
    for method in filter(lambda method: hasattr(model, method), METHODS):
        whole = getattr(model, method)(rows)[::3]
        alone = np.concatenate([getattr(model, method)(rows[i : i + 1]) for i in range(0, len(rows), 3)])
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
