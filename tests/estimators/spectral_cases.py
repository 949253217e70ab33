"""Models and tables of the tests of graph spectral features."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from craftc import GraphSpectralFeatures

MODELS = {
    "default": {},
    "singular": {"factorization": "svd"},
    "dense": {"conditionals": "dense"},
    "logistic": {"groups": "logistic", "unary": False},
    "sparse": {"l1": 0.05},
    "absolute": {"laplacian": "abs", "normalized": False, "skip_first": True},
}
PLAIN = {"factorization": "svd", "tol": 1e-7}
every_model = pytest.mark.parametrize("name", MODELS)
quiet = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
FITTED = (
    "graph_",
    "encoded_names_",
    "components_",
    "eigenvalues_",
    "spectrum_",
    "codes_",
    "objective_path_",
    "encoded_columns_",
)


def model_of(name="default", n_components=3, **parameters):
    """An unfitted model by name, its seed 0."""
    return GraphSpectralFeatures(
        n_components, **{"random_state": 0, "n_threads": 1, **MODELS[name], **parameters}
    )


def table(seed=0, n=120, p1=3, P=2, p_missing=0.0, dtype=np.float64):
    """Numeric columns that go together, and variables of 2 to 4 levels that each follow one of them."""
    rng = np.random.default_rng(seed)
    hidden = rng.normal(size=(n, max(p1, 1)))
    numeric = (hidden @ rng.normal(size=(max(p1, 1), max(p1, 1))))[:, :p1] * 10.0 ** rng.integers(
        -3, 4, p1
    ) + rng.normal(0, 3, p1)
    numeric[rng.random((n, p1)) < p_missing] = np.nan
    columns = {f"n{j}": numeric[:, j].astype(dtype) for j in range(p1)}
    for d in range(P):
        m = 2 + d % 3
        code = np.clip(np.rint(hidden[:, d % max(p1, 1)] + rng.normal(0, 1, n)) + m // 2, 0, m - 1).astype(
            int
        )
        code[rng.permutation(n)[:m]] = np.arange(m)
        cells = np.array(list("abcd"), dtype=object)[code]
        cells[rng.random(n) < p_missing] = None
        columns[f"c{d}"] = cells
    return pd.DataFrame(columns)


def assert_same_bits(a, b):
    """Two fitted models agree to the last bit."""
    for attribute in FITTED:
        np.testing.assert_array_equal(getattr(a, attribute), getattr(b, attribute), err_msg=attribute)
    assert (a.objective_, a.n_iter_, a.converged_, a.n_numeric_) == (
        b.objective_,
        b.n_iter_,
        b.converged_,
        b.n_numeric_,
    )


def encoded(model, X):
    """The encoded columns, by features of a model that has as many as them."""
    return model.transform(X) @ model.components_
