"""Free unary terms: a numeric column of any shape, so that no edge has to explain it."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.special import logsumexp

from craftc import GraphSpectralFeatures
from craftc.spectral.encoding import Encoding
from craftc.spectral.factorization import Factoriser
from craftc.spectral.pseudo_likelihood import HatBasis, Parameters, PseudoLikelihood, log_grid
from craftc.table import MixedTable
from tests.reference import spectral as ref

BETA, EPS = 2.0, 0.2


def odd_columns(n=1500, seed=0):
    """Independent columns: a spike with a tail, a long tail, two humps, and two categories."""
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "rain": np.where(rng.random(n) < 0.9, 0.0, rng.exponential(size=n)),
            "price": np.exp(rng.normal(size=n)),
            "humps": rng.choice([-1.0, 1.0], n) + 0.1 * rng.normal(size=n),
            "open": np.where(rng.random(n) < 0.85, "yes", "no"),
            "town": rng.choice(list("abc"), n),
        }
    )


def fitted(X, **options):
    return GraphSpectralFeatures(factorization="svd", **options).fit(X)


def test_hats_are_one_at_their_node_and_share_what_lies_between():
    grid = log_grid(BETA, EPS, 5)
    hats = HatBasis(grid, EPS)
    np.testing.assert_allclose(hats(grid.nodes), np.eye(11), atol=1e-12)
    x = np.linspace(-BETA, BETA, 401)
    values = hats(x)
    assert values.min() >= 0.0
    np.testing.assert_allclose(values.sum(axis=1), 1.0)
    assert ((values > 0.0).sum(axis=1) <= 2).all()
    np.testing.assert_array_equal(hats(np.array([-0.9 * EPS, 0.0, EPS]))[:, 5], 1.0)
    between = np.array([np.sqrt(grid.nodes[7] * grid.nodes[8])])  # half way as ln x goes
    np.testing.assert_allclose(hats(between)[0, 7:9], 0.5)


def case():
    X = odd_columns(120)
    table = MixedTable.from_data(X)
    encoding = Encoding.of(table, BETA)
    approximation = Factoriser(encoding, table, 1.0, 1).svd(4).approximation(BETA)
    codes = approximation.codes(encoding, table)
    likelihood = PseudoLikelihood(
        encoding, table, codes, beta=BETA, eps=EPS, grid_size=6, softmax=True, low_rank=None, n_threads=1, free=True
    )
    data = ref.encode(X.iloc[:, :3].to_numpy(float), X.iloc[:, 3:].to_numpy(object), BETA)
    model = ref.pseudo_model(data.x, data.p1, data.groups, approximation.table(), eps=EPS, beta=BETA, m=6)
    rng = np.random.default_rng(3)
    theta, b, _ = ref.unpack(model, 0.5 * rng.normal(size=ref.n_free(model, True)), True)
    return likelihood, model, Parameters(theta, b, rng.normal(size=(3, 13)))


def test_the_value_is_that_of_the_reference_with_other_unary_terms():
    likelihood, model, at = case()
    hats = HatBasis(log_grid(BETA, EPS, 6), EPS)
    value = ref.pseudo(model, at.theta, at.b, np.zeros((3, 2)))[0]
    for s in range(3):
        flat = logsumexp(model.table @ at.theta[s], b=model.weights, axis=1)
        bent = logsumexp(model.table @ at.theta[s] + at.c[s], b=model.weights, axis=1)
        value += (hats(model.x[:, s]) @ at.c[s] - bent + flat).mean()
    assert likelihood(at)[0] == pytest.approx(value, rel=1e-12)


def test_the_gradient_is_that_of_finite_differences():
    likelihood, model, at = case()
    _, gradient = likelihood(at)
    for s in range(3):
        for m in range(13):
            sides = []
            for step in (1e-5, -1e-5):
                c = at.c.copy()
                c[s, m] += step
                sides.append(likelihood(at._replace(c=c))[0])
            assert gradient.c[s, m] == pytest.approx((sides[0] - sides[1]) / 2e-5, abs=1e-7)
    s, t = (part[::7] for part in model.edges)
    for i, j in zip(s, t, strict=True):
        sides = []
        for step in (1e-5, -1e-5):
            theta = at.theta.copy()
            theta[i, j] += step
            theta[j, i] += step
            sides.append(likelihood(at._replace(theta=theta))[0])
        assert gradient.theta[i, j] == pytest.approx((sides[0] - sides[1]) / 2e-5, abs=1e-7)


@pytest.mark.parametrize("seed", [0, 1])
def test_the_shape_of_a_column_is_no_dependence(seed):
    X = odd_columns(seed=seed)
    assert fitted(X, unary="free").edges(1).weight.abs().max() < 0.12
    assert fitted(X).edges(1).weight.abs().max() > 0.4  # which is what it is for


def test_dependences_stay():
    X = odd_columns()
    X["late"] = np.where(X["humps"] + 0.5 * np.random.default_rng(1).normal(size=len(X)) > 0, "late", "early")
    strongest = fitted(X, unary="free").edges(1).iloc[0]
    assert {strongest["source"], strongest["target"]} == {"humps", "late=late"}
    assert strongest["sign"] == 1


def test_the_graph_does_not_depend_on_beta():
    X = odd_columns(400)
    graphs = [fitted(X, unary="free", beta=beta, tol=1e-6).graph_ for beta in (0.01, 2.0, 50.0)]
    for graph in graphs[::2]:
        np.testing.assert_allclose(graph, graphs[1], atol=1e-4)


def test_it_goes_with_everything_else():
    X = odd_columns(300).mask(np.random.default_rng(0).random((300, 5)) < 0.1)
    model = fitted(X, unary="free")
    assert model.converged_
    assert (np.diff(model.objective_path_) <= 1e-12).all()
    assert np.isfinite(model.transform(X)).all()
    assert np.isfinite(model.score(X))
    assert fitted(X, unary="free", conditionals="dense").converged_
    assert fitted(X, unary="free", groups="logistic", missing="category").converged_
    one, two = (fitted(X, unary="free", n_threads=n).graph_ for n in (1, 2))
    np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("unary", ["any", 2, None])
def test_other_words_are_refused(unary):
    with pytest.raises(TypeError, match="unary must be True, False or 'free', got"):
        fitted(odd_columns(50), unary=unary)
