"""PaperCRAFT equals its reference implementation in NumPy: J to 1e-9, labels and masks exactly, for every
selection and model.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from craftc import PaperCRAFT
from craftc.craft import cluster_price, price_terms
from tests.common import random_table
from tests.reference import craft as ref

SELECTIONS = {  # local and global selection
    "fixed": {"selection": "fixed"},
    "free": {"selection": "free"},
    "threshold": {"selection": "threshold"},
    "global": {"selection": "fixed", "sharing": 1.0},
    "free, global": {"selection": "free", "sharing": 1.0},
}
MODELS = ("likelihood", "paper", "paper-relative", "paper-fixed")


def fit_both(table, labels, weight=None, seed=0, **parameters):
    """(PaperCRAFT, reference) from the same start labels."""
    names = {
        "fraction": "feature_fraction",
        "prior_variance": "feature_variance",
        "price": "cluster_price",
        "cap": "max_clusters",
        "sharing": "feature_sharing",
    }
    parameters = {"selection": "fixed", "model": "likelihood", **parameters}
    ours = PaperCRAFT(
        numeric="raw",
        init=labels,
        random_state=seed,
        n_threads=1,
        **{names.get(name, name): value for name, value in parameters.items()},
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ours.fit(table, sample_weight=weight)
    theirs = ref.fit(
        table.numeric,
        table.codes,
        [len(levels) for levels in table.levels],
        labels,
        weight=weight,
        seed=seed,
        **parameters,
    )
    return ours, theirs


def assert_same(ours, theirs, table):
    np.testing.assert_array_equal(ours.labels_, theirs.labels)
    kernel_order = np.concatenate([table.schema.numeric_index, table.schema.categorical_index])
    np.testing.assert_array_equal(ours.feature_mask_[:, kernel_order], theirs.mask)
    np.testing.assert_allclose(ours.feature_gains_[:, kernel_order], theirs.gains, rtol=1e-8, atol=1e-8)
    assert ours.objective_ == pytest.approx(theirs.objective, rel=1e-9, abs=1e-9)
    np.testing.assert_allclose(ours.objective_path_, theirs.path, rtol=1e-9, atol=1e-9)
    assert (ours.n_iter_, ours.converged_) == (theirs.n_iter, theirs.converged)


@pytest.mark.slow_except(20)
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("selection", SELECTIONS)
@pytest.mark.parametrize("seed", range(12))
def test_every_selection_and_model(selection, model, seed):
    table = random_table(1000 + seed)
    rng = np.random.default_rng(seed)
    parameters = {
        "price": float(rng.choice([2.0, 5.0, 10.0, 30.0])),
        "fraction": float(rng.choice([0.3, 0.5, 0.8, 1.0])),
        "cap": int(rng.choice([3, 8, 100])),
        "max_iter": 30,
    }
    labels = rng.integers(0, min(3, parameters["cap"]), len(table))
    ours, theirs = fit_both(table, labels, model=model, seed=seed, **SELECTIONS[selection], **parameters)
    assert_same(ours, theirs, table)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("seed", range(8))
def test_thresholds_shared_and_absolute(model, seed):
    table = random_table(4000 + seed)
    labels = np.random.default_rng(seed).integers(0, 3, len(table))
    for threshold in (0.6, ("absolute", 0.6)):
        parameters = {
            "numeric_threshold": threshold,
            "categorical_threshold": 0.2,
            "price": 8.0,
            "model": model,
            "max_iter": 30,
        }
        ours, theirs = fit_both(table, labels, selection="threshold", seed=seed, **parameters)
        assert_same(ours, theirs, table)


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("kind", ["whole", "zeros", "real"])
def test_weights(seed, kind):
    table = random_table(2000 + seed)
    rng = np.random.default_rng(seed)
    weight = {
        "whole": rng.integers(1, 4, len(table)).astype(float),
        "zeros": rng.integers(0, 3, len(table)).astype(float),
        "real": rng.random(len(table)) * 2,
    }[kind]
    weight[0] = 1.0
    ours, theirs = fit_both(table, rng.integers(0, 3, len(table)), weight=weight, price=8.0)
    assert_same(ours, theirs, table)


@pytest.mark.parametrize("seed", range(10))
def test_parameters_and_row_costs(seed):
    table = random_table(3000 + seed)
    ours, theirs = fit_both(table, np.arange(len(table)) % 3, price=6.0)
    present = np.isfinite(ours.centers_)
    np.testing.assert_allclose(ours.centers_[present], theirs.centers[present], rtol=1e-9, atol=1e-8)
    np.testing.assert_allclose(ours.variances_[present], theirs.variances[present], rtol=1e-8)
    for mine, his in zip(ours.level_probabilities_, theirs.level_probabilities, strict=True):
        np.testing.assert_allclose(mine, his, rtol=1e-12)
    expected = ref.row_costs(table.numeric, table.codes, theirs)
    np.testing.assert_allclose(ours.transform(table), expected, rtol=1e-9, atol=1e-8)
    np.testing.assert_array_equal(ours.predict(table), expected.argmin(axis=1))
    assert ours.score(table) == pytest.approx(-expected.min(axis=1).sum(), rel=1e-9)


@pytest.mark.parametrize("fraction", [0.02, 1 / 3, 0.5, 0.8, 0.9, 0.99, 1.0])
def test_price_terms(fraction):
    np.testing.assert_allclose(price_terms(fraction), ref.price_terms(fraction, None), atol=1e-12)


@pytest.mark.parametrize(("m", "rho"), [(0.3, None), (0.3, 0.1), (0.5, 0.2), (0.8, None)])
def test_price_of_the_papers_lambda(m, rho):
    """lambda + F_0 for every feature left out + F_1 for every feature selected is Lambda + F_Delta per
    selected feature.
    """
    D, (f_0, f_1, f_delta) = 9, ref.price_terms(m, rho)
    price = cluster_price(7.0, D, feature_fraction=m, feature_variance=rho)
    for q in range(D + 1):
        assert price + q * f_delta == pytest.approx(7.0 + (D - q) * f_0 + q * f_1, rel=1e-12)
    np.testing.assert_allclose(price_terms(m, rho), (f_0, f_1, f_delta), atol=1e-12)
