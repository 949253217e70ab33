"""The search for the weights of a graph by way of a sample of the rows: the same optimum, whatever the
sample.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import craftc.spectral
from craftc import GraphSpectralFeatures
from craftc._common.random import spread
from craftc.spectral.encoding import Encoding
from craftc.spectral.factorization import Factoriser, default_factors
from craftc.spectral.preconditioner import GraphPreconditioner
from craftc.spectral.pseudo_likelihood import Objective, PseudoLikelihood
from craftc.spectral.solvers import fit_weights
from craftc.table import MixedTable


def large(n=17_000, seed=0):
    """Rows enough for a sample; columns that depend on each other, a rare level, some missing cells."""
    rng = np.random.default_rng(seed)
    common = rng.normal(size=n)
    X = pd.DataFrame(
        {
            "a": common + rng.normal(size=n),
            "b": np.exp(0.5 * common + 0.5 * rng.normal(size=n)),
            "c": rng.normal(size=n),
        }
    )
    X["d"] = np.where(common + rng.normal(size=n) > 0, "high", "low")
    X["e"] = np.array(["u", "v", "w", "rare"])[
        np.where(rng.random(n) < 2e-4, 3, np.digitize(X["c"] + rng.normal(size=n), [-0.5, 0.5]))
    ]
    return X.mask(rng.random(X.shape) < 0.02)


OPTIONS = {
    "default": {},
    "dense": {"conditionals": "dense"},
    "logistic": {"groups": "logistic", "unary": False},
    "sparse": {"l1": 0.02, "l2": 0.0},
}


@pytest.mark.slow_except(1)
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_a_sample_leads_to_the_optimum_of_all_rows(monkeypatch, options):
    X = large()
    options = {"factorization": "svd", "tol": 1e-6, **options}  # factors that do not depend on a sample
    by_sample = GraphSpectralFeatures(**options).fit(X)
    monkeypatch.setattr(craftc.spectral.factorization, "SAMPLE_ROWS", 10**9)
    alone = GraphSpectralFeatures(**options).fit(X)
    assert by_sample.converged_
    assert alone.converged_
    assert by_sample.n_iter_ < alone.n_iter_
    assert (np.diff(by_sample.objective_path_) <= 1e-12).all()
    assert by_sample.objective_ == pytest.approx(alone.objective_, abs=1e-9)
    np.testing.assert_allclose(by_sample.graph_, alone.graph_, atol=1e-4)


def test_a_sample_gives_the_same_bits_on_any_number_of_threads():
    one, two, three = (GraphSpectralFeatures(random_state=0, n_threads=n).fit(large()) for n in (1, 2, 3))
    for other in (two, three):
        np.testing.assert_array_equal(one.graph_, other.graph_)
        np.testing.assert_array_equal(one.objective_path_, other.objective_path_)


def test_factors_by_way_of_a_sample_fit_as_well():
    table = MixedTable.from_data(large(3000))
    factoriser = Factoriser(Encoding.of(table, 2.0), table, 1.0, 1)
    found, alone = factoriser.hals_by_sample(4, 0, spread(3000, 200, 0)), factoriser.hals(4, 0)
    assert 5 * len(found.residual) == len(alone.residual)
    assert (np.diff(found.residual) <= 1e-14).all()
    assert found.residual[-1] <= 1.02 * alone.residual[-1]
    assert min(found.scores.min(), found.loadings.min()) >= 0.0


def test_codes_of_a_long_table_are_those_of_factors_by_way_of_a_sample():
    X = large()
    table, model = MixedTable.from_data(X), GraphSpectralFeatures(random_state=0, tol=0.1).fit(X)
    encoding = Encoding.of(table, 2.0)
    factors = Factoriser(encoding, table, 1.0, 1).hals_by_sample(
        default_factors(encoding.p), 0, spread(17_000, 17_000 // 16, 0)
    )
    np.testing.assert_array_equal(model.codes_[encoding.p1 :], factors.approximation(2.0).codes(encoding))


def test_the_result_of_a_solver_is_not_computed_again(monkeypatch):
    table = MixedTable.from_data(large(500))
    encoding = Encoding.of(table, 2.0)
    objective = objective_of(
        encoding, table, Factoriser(encoding, table, 1.0, 1).svd(5).approximation(2.0).codes(encoding)
    )
    vector = np.random.default_rng(0).normal(size=len(objective))
    value, other = objective(vector)[0], objective(2.0 * vector)[0]
    monkeypatch.setattr(objective, "likelihood", None)  # whoever calls it now, raises
    assert objective(2.0 * vector)[0] == other != value
    with pytest.raises(TypeError):
        objective(vector)


def objective_of(encoding, table, codes):
    settings = {"beta": 2.0, "eps": 0.2, "grid_size": 16, "softmax": True, "low_rank": None, "n_threads": 1}
    return Objective(PseudoLikelihood(encoding, table, codes, **settings), 0.1, True)


@pytest.mark.slow_except(1)
@pytest.mark.parametrize("sampled", ["few", "one row many times", "other columns' order"])
def test_a_sample_that_misleads_costs_steps_only(sampled):
    X = large(2000)
    table = MixedTable.from_data(X)
    encoding = Encoding.of(table, 2.0)
    codes = Factoriser(encoding, table, 1.0, 1).svd(5).approximation(2.0).codes(encoding)
    if sampled == "few":
        rows = table.take(np.arange(5))
    elif sampled == "one row many times":
        rows = table.take(np.zeros(50, np.intp))
    else:
        rows = MixedTable(np.ascontiguousarray(table.numeric[:, ::-1]), table.codes, table.schema)
    objective, sample = objective_of(encoding, table, codes), objective_of(encoding, rows, codes)
    preconditioner = GraphPreconditioner(objective, table, 0.2, True)
    search = {"tol": 1e-6, "max_iter": 3000, "callback": lambda *step: None}
    found, alone = (
        fit_weights(objective, preconditioner, sample, **search),
        fit_weights(objective, preconditioner, None, **search),
    )
    assert found.converged
    assert alone.converged
    np.testing.assert_allclose(found.parameters.theta, alone.parameters.theta, atol=1e-4)


def test_coordinates_keep_the_gradient():
    """`gradient` is the transpose of `vector`, which is linear."""
    table = MixedTable.from_data(large(500))
    encoding = Encoding.of(table, 2.0)
    codes = Factoriser(encoding, table, 1.0, 1).svd(5).approximation(2.0).codes(encoding)
    objective = objective_of(encoding, table, codes)
    preconditioner = GraphPreconditioner(objective, table, 0.2, True)
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, len(objective)))
    assert preconditioner.vector(a) @ b == pytest.approx(a @ preconditioner.gradient(b), rel=1e-12)
    np.testing.assert_allclose(
        preconditioner.vector(2.0 * a - b),
        2.0 * preconditioner.vector(a) - preconditioner.vector(b),
        atol=1e-12,
    )


def test_a_spike_that_fills_the_sample_has_a_scale():
    """Without a ridge, columns whose few other values the search's rows miss."""
    X = pd.DataFrame({"a": np.zeros(3000), "b": np.ones(3000), "c": np.arange(3000) % 2})
    X.loc[[1, 3], "a"], X.loc[[5, 7], "b"] = (1.0, 2.0), (2.0, 3.0)  # rows 0, 6, 12, ... are looked at
    model = GraphSpectralFeatures(l2=0.0, tol=1e-2, factorization="svd").fit(X)
    assert np.isfinite(model.graph_).all()
