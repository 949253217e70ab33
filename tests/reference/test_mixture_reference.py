"""The reference of the mixture against integrals, chains of predictions and draws of SciPy."""

import numpy as np
import pytest
from scipy import integrate, stats

from tests.reference import mixture as ref
from tests.reference import mixture_densities as ref_densities

SELECTIONS = ("local", "global", "shared")


def random_case(seed, component="gaussian", missing=0.15):
    """A table and responsibilities of its rows."""
    rng = np.random.default_rng(seed)
    n, D, K = int(rng.integers(2, 25)), int(rng.integers(1, 6)), int(rng.integers(1, 6))
    if component == "poisson":
        X = rng.poisson(rng.gamma(1.0, 5.0, (3, D))[rng.integers(0, 3, n)]).astype(float)
    else:
        X = rng.normal(size=(n, D)) + rng.normal(0, 3, (3, D))[rng.integers(0, 3, n)]
    X[rng.random((n, D)) < missing] = np.nan
    return X, rng.dirichlet(np.full(K, 0.5), n)


def test_divergences_are_integrals():
    p, q = stats.beta(2.3, 0.7), stats.beta(1.1, 4.0)
    expected, _ = integrate.quad(lambda x: p.pdf(x) * (p.logpdf(x) - q.logpdf(x)), 0, 1)
    assert ref_densities.kl_beta(2.3, 0.7, 1.1, 4.0) == pytest.approx(expected, rel=1e-6)
    p, q = stats.gamma(2.3, scale=1 / 1.7), stats.gamma(1.1, scale=1 / 0.4)
    expected, _ = integrate.quad(lambda x: p.pdf(x) * (p.logpdf(x) - q.logpdf(x)), 0, 60)
    assert ref_densities.kl_gamma(2.3, 1.7, 1.1, 0.4) == pytest.approx(expected, rel=1e-6)


def student(a, b, kappa, mean):
    return stats.t(2 * a, mean, np.sqrt(b * (1 + 1 / kappa) / a))


def test_the_evidence_of_a_normal_column_is_a_chain_of_predictions():
    x = np.random.default_rng(0).normal(1, 2, 9)
    kappa, mean, a, b, expected = 0.1, 0.0, 1.0, 0.5, 0.0
    for cell in x:
        expected += student(a, b, kappa, mean).logpdf(cell)
        b += kappa / (kappa + 1) * (cell - mean) ** 2 / 2
        mean, kappa, a = (kappa * mean + cell) / (kappa + 1), kappa + 1, a + 0.5
    density = ref_densities.NormalGamma(x[:, None], np.ones((9, 1)), 0.1, 1.0, 0.5)
    assert density.evidence(np.ones((9, 1)))[0] == pytest.approx(expected, rel=1e-12)


def test_the_evidence_of_counts_is_a_chain_of_predictions():
    rng = np.random.default_rng(0)
    x, e = rng.poisson(4.0, 9).astype(float), rng.uniform(0.5, 2.0, 9)
    a, b, expected = 1.0, 0.3, 0.0
    for cell, exposure in zip(x, e, strict=True):
        expected += stats.nbinom(a, b / (b + exposure)).logpmf(cell)
        a, b = a + cell, b + exposure
    density = ref_densities.PoissonGamma(x[:, None], np.ones((9, 1)), e, 1.0, np.array([0.3]))
    assert density.evidence(np.ones((9, 1)))[0] == pytest.approx(expected, rel=1e-12)


def test_the_evidence_of_columns_with_a_covariance_is_a_chain_of_predictions():
    x = np.random.default_rng(0).normal(1, 2, (9, 3))
    kappa, mean, nu, Psi, expected = 0.1, np.zeros(3), 2.0 + 2, np.eye(3), 0.0
    for row in x:
        shape = Psi * (kappa + 1) / (kappa * (nu - 2))
        expected += stats.multivariate_t(mean, shape, nu - 2).logpdf(row)
        Psi = Psi + kappa / (kappa + 1) * np.outer(row - mean, row - mean)
        mean, kappa, nu = (kappa * mean + row) / (kappa + 1), kappa + 1, nu + 1
    density = ref_densities.NormalWishart(x, 0.1, 2, 1.0)
    assert density.evidence(np.ones(9), np.ones(3, bool)) == pytest.approx(expected, rel=1e-12)


def test_the_bracket_of_the_masks_is_the_evidence():
    """E loglik - KL at the optimum of theta."""
    X, R = random_case(3)
    weights, present = R[:, :1], ~np.isnan(X)
    gaussian = ref_densities.NormalGamma(X, present, 0.1, 1.0, 0.5)
    counts = ref_densities.PoissonGamma(
        np.rint(abs(X)), present, np.linspace(0.5, 2.0, len(X)), 1.0, np.ones(X.shape[1])
    )
    for density in (gaussian, counts):
        q = density.posterior(weights)
        bracket = (weights * density.expected(q)).sum(axis=0) - density.kl(q)
        np.testing.assert_allclose(bracket, density.evidence(weights), rtol=1e-10)
    full = ref_densities.NormalWishart(np.where(present, X, 0.0), 0.1, 2, 1.0)
    S = np.arange(X.shape[1]) % 2 == 0
    q = full.posterior(R[:, 0], S)
    assert R[:, 0] @ full.expected(q) - full.kl(q) == pytest.approx(full.evidence(R[:, 0], S), rel=1e-10)


@pytest.mark.parametrize("size", [1, 3])
def test_the_expected_density_is_a_mean_over_draws(size):
    """200 000 draws from q(mu, Sigma): a standard error of about 0.002."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(7, size))
    density = ref_densities.NormalWishart(x, 0.1, 2, 1.0)
    q = density.posterior(np.full(7, 0.8), np.ones(size, bool))
    covariances = np.reshape(stats.invwishart(q.nu, q.Psi).rvs(200_000, random_state=1), (-1, size, size))
    away = (
        x[0]
        - q.mean
        - np.einsum("nij,nj->ni", np.linalg.cholesky(covariances / q.kap), rng.normal(size=(200_000, size)))
    )
    squares = (away * np.linalg.solve(covariances, away[..., None])[..., 0]).sum(axis=1)
    logs = -(size * np.log(2 * np.pi) + np.linalg.slogdet(covariances)[1] + squares) / 2
    assert density.expected(q)[0] == pytest.approx(logs.mean(), abs=0.02)


def test_a_covariance_of_one_column_is_a_variance():
    rng = np.random.default_rng(1)
    x, w = rng.normal(2, 3, (12, 1)), rng.random(12)
    full, diagonal = (
        ref_densities.NormalWishart(x, 0.1, 2, 1.0),
        ref_densities.NormalGamma(x, np.ones((12, 1)), 0.1, 1.0, 0.5),
    )
    one, q = np.ones(1, bool), full.posterior(w, np.ones(1, bool))
    theirs = diagonal.posterior(w[:, None])
    assert full.evidence(w, one) == pytest.approx(diagonal.evidence(w[:, None])[0], rel=1e-12)
    assert full.kl(q) == pytest.approx(diagonal.kl(theirs)[0], rel=1e-12)
    np.testing.assert_allclose(full.expected(q), diagonal.expected(theirs)[:, 0], rtol=1e-12)


@pytest.mark.parametrize("selection", SELECTIONS)
@pytest.mark.parametrize("component", ["gaussian", "poisson"])
def test_the_gain_of_a_merge_is_what_the_bound_gains(component, selection):
    """With hard labels, lambda, m and the noise held, exactly: theta and y follow, sizes are in order.

    Shared masks are held too.
    """
    X, _ = random_case(2, component)
    R = np.eye(4)[np.arange(len(X)) % 4]
    model = ref.ReferenceMixture(X, R, component=component, selection=selection)
    model.sweep()
    model.R = R
    updates = ("theta", "sticks") if selection == "shared" else ("theta", "masks", "sticks")
    before = model.apply(*updates)[-1][1]
    expected = model.merge_gain(1, 3)
    joined = R.copy()
    joined[:, 1], joined[:, 3] = R[:, 1] + R[:, 3], 0.0
    order = np.argsort(-joined.sum(axis=0), kind="stable")
    model.R, model.p = joined[:, order], model.p[order]
    assert model.apply(*updates)[-1][1] - before == pytest.approx(expected, rel=1e-9, abs=1e-9)
