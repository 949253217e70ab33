"""The reference of convex covariate clustering against a conic solver, perturbations and differences."""

import numpy as np
import pytest

from tests.reference import covariates as ref
from tests.reference import covariates_evidence as ref_evidence

FROZEN = ref.frozen()
SMALL = [f for f in FROZEN if f["recipe"]["d"] <= 24 and f["nu"] < 100]


def small_case(seed, kind="dense", gamma=0.0):
    """X, y, S, nu, ridge and gamma of a problem that every solver here does at once."""
    return *ref.recipe(kind, 6 + seed % 3, 40, 2 + seed % 3, seed), 1.0, 0.1, gamma


def name(stored):
    return f"{stored['recipe']['kind']}-{stored['recipe']['d']}-{stored['nu']:.3g}-{stored['gamma']:g}"


@pytest.mark.parametrize("stored", SMALL, ids=name)
def test_the_reference_solution_of_small_frozen_instances(stored):
    X, y, S = ref.build(stored["recipe"])
    found = ref.reference_solution(X, y, S, stored["nu"], stored["ridge"], stored["gamma"])
    assert found.objective == pytest.approx(stored["objective"], rel=1e-9)
    assert found.labels.tolist() == stored["labels"]
    assert np.flatnonzero(found.zero).tolist() == stored["zero"]


@pytest.mark.parametrize("gamma", [0.0, 1.0])
@pytest.mark.parametrize("seed", range(4))
def test_nothing_is_below_the_reference_and_no_bound_above(seed, gamma):
    X, y, S, nu, ridge, _ = small_case(seed)
    rng = np.random.default_rng(seed)
    found = ref.reference_solution(X, y, S, nu, ridge, gamma)
    assert found.objective == pytest.approx(
        ref.objective(found.B, found.beta0, X, y, S, nu, ridge, gamma), rel=1e-12
    )
    assert -1e-11 * found.objective <= found.gap <= 1e-9 * found.objective
    assert np.abs(found.B.sum(axis=0)).max() <= 1e-12
    _, _, s = ref.edge_list(S)
    for size in (1e-4, 1e-2, 1.0):
        B = found.B + size * rng.normal(size=found.B.shape)
        assert (
            ref.objective(B, found.beta0 + size * rng.normal(size=len(B)), X, y, S, nu, ridge, gamma)
            > found.objective
        )
        lam, _ = ref.project(found.lam + size * rng.normal(size=found.lam.shape), nu * s)
        t = (
            None
            if found.t is None
            else ref.project(found.t + size * rng.normal(size=found.t.shape), np.full(X.shape[1], gamma))[0]
        )
        P = ref.log_likelihood_terms(np.column_stack([B, ref.intercept(B, X, y)]), ref.with_ones(X), y)[1]
        assert ref.dual_value(lam, P, X, y, S, nu, ridge, t, gamma) <= found.objective
        assert ref.duality_gap(B, lam, X, y, S, nu, ridge, t, gamma) >= 0.0


@pytest.mark.parametrize("kind", ["diagonal", "full"])
def test_evidence_by_differences(kind):
    """The curvature of the posterior at the MAP, taken by differences."""
    X, y, _, _, _, _ = small_case(1)
    labels, sigma = ref.canonical(np.arange(X.shape[1]) % 3), 0.7
    fitted = ref_evidence.map_fit(X, y, labels, sigma)
    Z1, c, m = ref.with_ones(X @ ref.expansion(labels)), *fitted.B.shape

    def posterior(b):
        B = b.reshape(c, m)
        return ref.log_likelihood_terms(np.column_stack([B, fitted.beta0]), Z1, y)[0] + (B**2).sum() / (
            2 * sigma**2
        )

    b, step = fitted.B.ravel(), 1e-3 * np.eye(c * m)
    slope = [(posterior(b + s) - posterior(b - s)) / 2e-3 for s in step]
    np.testing.assert_allclose(slope, 0.0, atol=1e-3)

    def curve(s, t):
        return (
            posterior(b + s + t) - posterior(b + s - t) - posterior(b - s + t) + posterior(b - s - t)
        ) / 4e-6

    hessian = [[curve(s, t) for s in step] for t in step]
    log_determinant = np.log(np.diag(hessian)).sum() if kind == "diagonal" else np.linalg.slogdet(hessian)[1]
    expected = -posterior(b) - c * m * np.log(sigma) - log_determinant / 2
    assert ref_evidence.log_evidence(X, y, labels, sigma, kind) == pytest.approx(expected, rel=1e-5)
