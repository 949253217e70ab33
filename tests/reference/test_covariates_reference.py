"""The reference implementation of convex covariate clustering has the properties proved in the paper, and
those of the frozen instances.
"""

import numpy as np
import pytest
from scipy import sparse

from tests.reference import covariates as ref
from tests.reference import covariates_evidence as ref_evidence
from tests.reference import covariates_paper as ref_paper
from tests.reference import covariates_points as ref_points

FROZEN = ref.frozen()
SMALL = [f for f in FROZEN if f["recipe"]["d"] <= 24 and f["nu"] < 100]


def small_case(seed, kind="dense", gamma=0.0):
    """X, y, S, nu, ridge and gamma of a problem that every solver here does at once."""
    return *ref.recipe(kind, 6 + seed % 3, 40, 2 + seed % 3, seed), 1.0, 0.1, gamma


def name(stored):
    return f"{stored['recipe']['kind']}-{stored['recipe']['d']}-{stored['nu']:.3g}-{stored['gamma']:g}"


@pytest.mark.parametrize("stored", FROZEN, ids=name)
def test_the_frozen_file_is_consistent(stored):
    X, y, S = ref.build(stored["recipe"])
    d = X.shape[1]
    assert np.abs(X).sum() == pytest.approx(stored["x_sum"], rel=1e-12)
    assert stored["objective"] == pytest.approx(stored["conic"], rel=2e-9, abs=1e-9)
    assert stored["gap"] is None if stored["ridge"] == 0 else 0 <= stored["gap"] <= 1e-9
    labels = np.array(stored["labels"])
    np.testing.assert_array_equal(labels, ref.canonical(labels))
    assert len(labels) == d
    assert stored["inner"] < 1.0
    assert stored["separation"] is None or stored["separation"] > 1e-5
    # zero columns are a whole cluster, and clusters without zeros hang together along the edges
    zero = np.isin(np.arange(d), stored["zero"])
    assert zero.any() <= (stored["gamma"] > 0)
    assert len(np.unique(labels[zero])) <= 1
    assert not np.isin(labels[~zero], labels[zero]).any()
    i, j, _ = ref.edge_list(S)
    joined = (labels[i] == labels[j]) & ~zero[i]
    np.testing.assert_array_equal(
        ref.components(i, j, joined, d)[~zero],
        ref.canonical(np.where(zero, -np.arange(d) - 1, labels))[~zero],
    )
    restricted = ref.restricted_fit(
        X, y, labels, S, stored["nu"], stored["ridge"], stored["gamma"], zero, tol=1e-9
    )
    assert restricted.objective == pytest.approx(stored["objective"], rel=1e-8)


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


@pytest.mark.slow_except(1)
@pytest.mark.parametrize("seed", range(3))
def test_both_forms_of_the_admm_take_the_same_steps(seed):
    X, y, S, nu, ridge, _ = small_case(seed)
    options = {"rho": 1.0, "max_iter": 25, "inner_tol": 1e-11, "eps": 0.0, "iterates": True}
    paper, edges = (
        ref_paper.paper_admm(X, y, S, nu, ridge, **options),
        ref_paper.edge_admm(X, y, S, nu, ridge, **options),
    )
    for ours, theirs in zip(edges.iterates, paper.iterates, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-8)
    np.testing.assert_allclose(paper.u[0], -paper.u[1], rtol=0, atol=1e-13)


@pytest.mark.parametrize("options", [{}, {"weights": "S"}, {"relax": 1.7}, {"rule": "paper"}])
def test_the_admm_comes_near_the_reference(options):
    X, y, S, nu, ridge, _ = small_case(1)
    best = ref.reference_solution(X, y, S, nu, ridge).objective
    found = ref_paper.edge_admm(X, y, S, nu, ridge, eps=1e-6, inner_tol=1e-7, **options)
    assert found.converged
    assert best <= ref.objective(found.B, found.beta0, X, y, S, nu, ridge) <= best * (1 + 1e-4)


def test_extremes():
    X, y, S, _, ridge, _ = small_case(2)
    d = X.shape[1]
    assert ref.reference_solution(X, y, S, 0.0, ridge).labels.tolist() == list(range(d))
    assert not ref.reference_solution(X, y, S, 1e4, ridge).labels.any()
    nothing = ref.reference_solution(X, y, S, 1.0, ridge, 1e4)
    assert nothing.zero.all()
    assert not nothing.B.any()
    share = np.bincount(y) / len(y)
    assert nothing.objective == pytest.approx(-(np.bincount(y) * np.log(share)).sum(), rel=1e-10)


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


@pytest.mark.parametrize("kind", ["dense", "blocks", "flat", "knn", "chain"])
def test_recipes_and_edges(kind):
    X, y, S = ref.recipe(kind, 9, 30, 3, 0)
    again = ref.recipe(kind, 9, 30, 3, 0)
    assert all(np.array_equal(a, b) for a, b in zip((X, y, S), again, strict=True))
    assert sorted(set(y)) == [0, 1, 2]
    i, j, s = ref.edge_list(S)
    assert (i < j).all()
    assert sorted(zip(i, j, strict=True)) == list(zip(i, j, strict=True))
    for ours, theirs in zip(ref.edge_list(sparse.csr_array(S)), (i, j, s), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    B = np.random.default_rng(0).normal(size=(3, 9))
    np.testing.assert_allclose(B @ ref.difference_matrix(i, j, 9).T, B[:, i] - B[:, j], rtol=0, atol=1e-15)


def test_convex_clustering_of_points():
    rng = np.random.default_rng(0)
    P = np.concatenate([rng.normal(size=(5, 2)), rng.normal(size=(5, 2)) + 9.0])
    W = np.exp(-0.5 * ((P[:, None] - P) ** 2).sum(axis=2))
    W = (W + W.T) / 2
    apart, together = ref_points.convex_clustering(P, W, 0.0), ref_points.convex_clustering(P, W, 50.0)
    np.testing.assert_array_equal(apart.U, P)
    assert apart.labels.tolist() == list(range(10))
    for found in (apart, together):
        assert -1e-12 <= found.gap <= 1e-11 * max(found.objective, 1.0)
    assert len(set(together.labels[:5])) == len(set(together.labels[5:])) == 1
    np.testing.assert_allclose(together.U.sum(axis=0), P.sum(axis=0), rtol=1e-12)
