"""The solvers of convex covariate clustering: ADMM, the paper's own, no ridge, large reduced problems, sparse
tables, threads.
"""

from __future__ import annotations

import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning

from craftc import ConvexCovariateClustering
from craftc._common import threads
from craftc._fusion import admm, newton, paper_admm
from craftc._fusion.admm import EdgeAdmm
from craftc._fusion.datafits import Multinomial
from craftc._fusion.paper_admm import PaperAdmm
from craftc._fusion.problem import Coarsening, Subproblem
from craftc.covariates.similarity import graph_of
from tests.common import examples
from tests.estimators.test_covariates import (
    assert_same_bits,
    check_state,
    every_frozen,
    model_of,
    objective_of,
    small,
)
from tests.reference import covariates as ref
from tests.reference import covariates_evidence as ref_evidence
from tests.reference import covariates_paper as ref_paper

NO_RIDGE = next(instance for instance in ref.frozen() if instance["ridge"] == 0)
SPARSITY = [instance for instance in ref.frozen() if instance["gamma"] > 0]
PLAIN = [instance for instance in ref.frozen() if instance["gamma"] == 0 and instance["ridge"] > 0]
SOLVERS = ("certified", "admm")


def problem(X, y, S, nu, ridge, sparsity=0.0):
    """The problem on all covariates, its first coefficients, and dual variables of zero."""
    datafit, graph = Multinomial(y, int(y.max()) + 1), graph_of(S, X, sparsity)
    coarsening = Coarsening(X, datafit, graph, np.arange(graph.d + 1, dtype=np.int32))
    radius, scale = coarsening.radius(graph.radius(nu)), datafit.coefficient_scale(X)
    subproblem = Subproblem(coarsening, radius, ridge, scale, 1e-9, datafit.objective_floor, 1)
    return subproblem, datafit.start(graph.d + 1), np.zeros((len(graph.edge), datafit.q))


def in_classes(subproblem, theta):
    """B (c, d) of coefficients in the basis."""
    return subproblem.coarsening.datafit.basis @ theta[:-1].T


def fitted(stored, **more):
    """A model of a stored instance, and its data."""
    X, y, S = ref.build(stored["recipe"])
    return (
        ConvexCovariateClustering(
            stored["nu"], similarity=S, ridge=stored["ridge"], sparsity=stored["gamma"], **more
        ).fit(X, y),
        X,
        y,
        S,
    )


# ---- the merge test and the ADMM with one vector per edge ----


@pytest.mark.slow_except(5)
@pytest.mark.parametrize("solver", SOLVERS)
@every_frozen
def test_the_true_partition_at_the_usual_tolerance(stored, solver):
    model, X, y, S = fitted(stored, solver=solver)
    check_state(model, X)
    assert -1e-9 <= model.duality_gap_ <= 1e-6
    assert model.objective_ == pytest.approx(stored["objective"], rel=1e-6)
    assert model.objective_ == pytest.approx(objective_of(model, X, y, S, stored["nu"]), rel=1e-12)
    np.testing.assert_array_equal(model.covariate_labels_, stored["labels"])
    np.testing.assert_array_equal(np.flatnonzero(~model.coef_.any(axis=0)), stored["zero"])


@pytest.mark.slow_except(5)
@pytest.mark.parametrize("solver", SOLVERS)
@every_frozen
def test_the_true_partition_at_the_end_of_a_path(stored, solver):
    X, y, S = ref.build(stored["recipe"])
    path = stored["nu"] * 2.0 ** np.arange(4, -1, -1)
    model = ConvexCovariateClustering(
        path, similarity=S, ridge=stored["ridge"], sparsity=stored["gamma"], solver=solver
    ).fit(X, y)
    last = model.path_.iloc[-1]
    assert model.path_["gap"].between(-1e-9, 1e-6).all()
    assert last["objective"] == pytest.approx(stored["objective"], rel=1e-6)
    np.testing.assert_array_equal(last["labels"], stored["labels"])


@pytest.mark.slow_except(5)
@every_frozen
def test_admm_is_as_exact_as_asked(stored):
    model, X, _, _ = fitted(stored, solver="admm", tol=1e-9)
    check_state(model, X)
    assert -1e-9 <= model.duality_gap_ <= 1e-9
    assert model.objective_ == pytest.approx(stored["objective"], rel=1e-9)
    np.testing.assert_array_equal(model.covariate_labels_, stored["labels"])


@pytest.mark.parametrize("stored", SPARSITY, ids=["dense", "blocks"])
def test_admm_is_as_exact_along_a_path(stored):
    """Where the optimal duals are not unique, they may go on moving when the coefficients no longer do."""
    X, y, S = ref.build(stored["recipe"])
    path = stored["nu"] * 2.0 ** np.arange(4, -1, -1)
    model = model_of(path, S, sparsity=stored["gamma"], solver="admm", max_iter=2000).fit(X, y)
    assert model.path_["gap"].between(-1e-9, 1e-9).all()
    assert model.path_["objective"].iloc[-1] == pytest.approx(stored["objective"], rel=1e-9)


@pytest.mark.slow
@examples(40)
@given(
    seed=st.integers(0, 10**6),
    sparsity=st.sampled_from([0.0, 0.0, 1.5]),
    ridge=st.sampled_from([0.02, 0.1, 1.0]),
)
def test_admm_finds_the_certified_optimum(seed, sparsity, ridge):
    X, y, S, nu = small(seed)
    admm, certified = (
        model_of(nu, S, solver=solver, sparsity=sparsity, ridge=ridge).fit(X, y)
        for solver in ("admm", "certified")
    )
    check_state(admm, X)
    assert -1e-9 <= admm.duality_gap_ <= 1e-9
    assert admm.objective_ == pytest.approx(certified.objective_, rel=2e-9, abs=1e-12)
    bound = np.sqrt(4e-9 * certified.objective_ / ridge)
    np.testing.assert_allclose(admm.coef_, certified.coef_, rtol=0, atol=2 * bound)


@pytest.mark.parametrize("sparsity", [0.0, 1.0])
def test_a_warm_path_equals_cold_fits(sparsity):
    X, y, S = ref.recipe("dense", 12, 80, 3, 4)
    path = np.geomspace(40, 0.01, 9)
    frame = model_of(path, S, sparsity=sparsity, solver="admm").fit(X, y).path_
    for k, nu in enumerate(path):
        cold = model_of(nu, S, sparsity=sparsity).fit(X, y)
        assert frame["objective"][k] == pytest.approx(cold.objective_, rel=2e-9)
        np.testing.assert_array_equal(frame["labels"][k], cold.covariate_labels_)


@pytest.mark.parametrize("solver", ["admm", "paper"])
@pytest.mark.parametrize("without", ["penalty", "edges", "covariates"])
@pytest.mark.parametrize("sparsity", [0.0, 1.5])
def test_extremes_of_the_iterations(solver, without, sparsity):
    X, y, S = ref.recipe("dense", 8, 60, 2, 3)
    nu = 2.0
    if without == "penalty":
        nu = 0.0
    elif without == "edges":
        S = np.zeros_like(S)
    else:
        X, S = X[:, :1], S[:1, :1]
    ours, certified = (
        model_of(nu, S, sparsity=sparsity, solver=name).fit(X, y) for name in (solver, "certified")
    )
    check_state(ours, X)
    assert ours.objective_ == pytest.approx(certified.objective_, rel=1e-9 if solver == "admm" else 1e-4)
    np.testing.assert_array_equal(ours.covariate_labels_, certified.covariate_labels_)


@pytest.mark.parametrize("solver", ["admm", "paper"])
def test_paths_of_the_iterations_may_end_without_fusion(solver):
    X, y, S = ref.recipe("dense", 8, 60, 3, 3)
    frame = model_of([4.0, 0.5, 0.0], S, solver=solver).fit(X, y).path_
    reference = ref.reference_solution(X, y, S, 0.0, 0.1)
    assert frame["objective"].iloc[-1] == pytest.approx(reference.objective, rel=1e-6)
    assert frame["labels"].iloc[-1].tolist() == list(range(8))


@pytest.mark.slow_except(1)
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("c", [12, 70])
def test_many_classes(solver, c):
    X, y, S = ref.recipe("flat", 5, 3 * c, c, 0)
    y = np.tile(np.arange(c), 3)
    X = X + np.random.default_rng(1).normal(size=(c, 2)).repeat([2, 3], axis=1)[y]
    for nu in (0.5, 1e3):
        model = model_of(nu, S, solver=solver).fit(X, y)
        check_state(model, X)
        assert -1e-9 <= model.duality_gap_ <= 1e-9
        assert model.objective_ == pytest.approx(objective_of(model, X, y, S, nu), rel=1e-12)
    assert model.n_clusters_ == 1
    assert model.predict_proba(X).shape == (3 * c, c)


def test_admm_cut_short_says_so():
    with pytest.warns(
        ConvergenceWarning, match=r"before convergence; the largest relative duality gap is .* with tol=1e-06"
    ):
        model, X, _, _ = fitted(PLAIN[1], solver="admm", max_iter=3)
    assert model.duality_gap_ > 1e-6
    assert model.objective_ >= PLAIN[1]["objective"]
    check_state(model, X)


# ---- the paper's iteration ----


@pytest.mark.slow_except(1)
@pytest.mark.parametrize(("kind", "nu"), [("dense", 1.0), ("dense", 4.0), ("knn", 1.0), ("blocks", 0.2)])
def test_the_paper_takes_clusters_from_its_flags(kind, nu):
    """No merge test: the components of the edges with z_ij = z_ji, at the mean of their coefficients."""
    X, y, S = ref.recipe(kind, 12, 60, 3, 2)
    theirs = ref_paper.paper_admm(X, y, S, nu, 0.1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = model_of(nu, S, solver="paper").fit(X, y)
    np.testing.assert_array_equal(model.covariate_labels_, ref.canonical(theirs.labels))
    for group in range(model.n_clusters_):
        mean = theirs.B[:, theirs.labels == theirs.labels[np.argmax(model.covariate_labels_ == group)]].mean(
            axis=1
        )
        np.testing.assert_allclose(
            model.coef_[:, np.argmax(model.covariate_labels_ == group)], mean - mean.mean(), atol=2e-4
        )
    assert model.objective_ == pytest.approx(objective_of(model, X, y, S, nu), rel=1e-12)


def synthetic(seed, d=40, n=40):
    """The paper's table whose similarity disagrees with the classes: 13 groups."""
    cluster, half = np.repeat(np.arange(10), d // 10), d // 20
    block = cluster + 1
    block[:half], block[half : 3 * half], block[3 * half : 5 * half] = 0, 1, 2
    S = np.where(block[:, None] == block, 0.9, 0.0) + 0.1 * np.eye(d)
    y = np.repeat(np.arange(4), n // 4)
    means = np.where(cluster % 4 == np.arange(4)[:, None], 5.0, 0.0)
    X = means[y] + np.random.default_rng(seed).normal(size=(n, d)) @ np.linalg.cholesky(S).T
    return X, y, S, np.unique(100 * cluster + block, return_inverse=True)[1]


@pytest.mark.slow_except(1)
@pytest.mark.parametrize("seed", range(2))
def test_the_papers_own_setting_finds_its_groups(seed):
    """ridge=0, its stopping rule, its flags and sigma by accuracy: without any of them another clustering is
    chosen.
    """
    X, y, S, groups = synthetic(seed)
    with pytest.warns(UserWarning, match="optimum may not exist"):
        model = ConvexCovariateClustering(
            40 * 2.0 ** (-0.2 * np.arange(130)), similarity=S, ridge=0, solver="paper"
        ).fit(X, y)
    distinct = list({labels.tobytes(): labels for labels in model.path_.labels}.values())
    finest = max(distinct, key=lambda labels: labels.max())
    sigma = ref_evidence.sigma_by_cv(X, y, finest, scoring="accuracy").sigma
    chosen = max(distinct, key=lambda labels: ref_evidence.log_evidence(X, y, labels, sigma, "diagonal"))
    np.testing.assert_array_equal(chosen, ref.canonical(groups))


@pytest.mark.parametrize("seed", range(2))
def test_a_path_without_ridge_on_separable_classes_ends_quietly(seed):
    """One warning; coefficients stay small, and the gap is relative to the loss of guessing."""
    X, y, S, _ = synthetic(seed)
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        model = ConvexCovariateClustering(similarity=S, ridge=0).fit(X, y)
    assert [str(warning.message)[:33] for warning in heard] == ["The classes are linearly separabl"]
    assert model.path_.gap.max() <= 1e-6
    assert max(np.abs(c).max() for c in model.path_.coefficients) < 10.0
    assert model.path_.objective.max() < 1e-6 * 40 * np.log(4)


@pytest.mark.slow_except(1)
@pytest.mark.parametrize(
    ("kind", "c", "weights", "relax"),
    [
        ("dense", 3, "uniform", 1.0),
        ("chain", 2, "uniform", 1.0),
        ("flat", 2, "S", 1.0),
        ("chain", 3, "S", 1.7),
        ("knn", 4, "S", 1.7),
    ],
)
def test_one_vector_per_edge_goes_the_papers_way(monkeypatch, kind, c, weights, relax):
    monkeypatch.setattr(admm, "_NEWTON_STEPS", 40)
    monkeypatch.setattr(admm, "_PRODUCTS", 1000)
    X, y, S = ref.recipe(kind, 6, 40, c, 1)
    nu, times = 1.5, 30
    subproblem, theta, dual = problem(X, y, S, nu, 0.1)
    _, _, s = ref.edge_list(S)
    rho = np.ones(len(s)) if weights == "uniform" else s / s.mean()
    solver = EdgeAdmm(subproblem, theta, dual, rho)
    ours = []
    for _ in range(times):
        solver.iterate(relax, 1e-11)
        ours.append(in_classes(subproblem, solver.theta))
    options = {"max_iter": times, "min_iter": times, "inner_tol": 1e-12, "iterates": True}
    theirs = [ref_paper.edge_admm(X, y, S, nu, 0.1, weights=weights, relax=relax, **options)]
    if weights == "uniform" and relax == 1.0:
        theirs.append(ref_paper.paper_admm(X, y, S, nu, 0.1, **options))
    for other in theirs:
        assert len(other.iterates) == times
        np.testing.assert_allclose(ours, other.iterates, rtol=0, atol=1e-8)


def tightly(look, start, **more):
    """L-BFGS as far as it goes."""
    return minimize(
        look, start, **more, options={"gtol": 1e-11, "ftol": 1e-16, "maxiter": 5000, "maxcor": 30}
    )


@pytest.mark.slow_except(1)
@pytest.mark.parametrize(
    ("kind", "c", "nu"), [("dense", 3, 0.3), ("chain", 2, 1.0), ("blocks", 3, 0.5), ("knn", 4, 0.3)]
)
def test_the_iteration_of_the_paper_equals_the_reference(monkeypatch, kind, c, nu):
    X, y, S = ref.recipe(kind, 6, 40, c, 1)
    theirs = ref_paper.paper_admm(X, y, S, nu, 0.1, inner_tol=1e-10)
    subproblem, theta, dual = problem(X, y, S, nu, 0.1)
    usual = PaperAdmm(10000).solve(subproblem, theta, dual)
    monkeypatch.setattr(paper_admm, "minimize", tightly)
    found = PaperAdmm(10000).solve(subproblem, theta, dual)
    assert found.n_iter == theirs.n_iter > 11
    np.testing.assert_allclose(in_classes(subproblem, found.theta), theirs.B, rtol=0, atol=1e-6)
    np.testing.assert_array_equal(found.fused > 0, theirs.fused)
    assert abs(usual.n_iter - theirs.n_iter) <= 0.1 * theirs.n_iter + 2
    np.testing.assert_allclose(in_classes(subproblem, usual.theta), theirs.B, rtol=0, atol=1e-3)


@pytest.mark.slow
def test_the_warm_start_equals_the_reference(monkeypatch):
    monkeypatch.setattr(paper_admm, "minimize", tightly)
    X, y, S = ref.recipe("dense", 6, 40, 3, 1)
    paper, warm = PaperAdmm(10000), None
    for nu in (1.0, 0.5, 0.45):
        subproblem, theta, dual = problem(X, y, S, nu, 0.1)
        found, warm = (
            paper.solve(subproblem, theta, dual),
            ref_paper.paper_admm(X, y, S, nu, 0.1, inner_tol=1e-10, start=warm),
        )
        assert found.n_iter == warm.n_iter
        np.testing.assert_allclose(in_classes(subproblem, found.theta), warm.B, rtol=0, atol=1e-6)


def test_eleven_iterations_are_forced():
    X, y, S = ref.recipe("dense", 6, 60, 3, 1)
    subproblem, theta, dual = problem(X, y, S, 0.5, 0.1)
    paper = PaperAdmm(10000)
    assert paper.solve(subproblem, theta, dual).n_iter > 11
    assert paper.solve(subproblem, theta, dual).n_iter == 11
    assert not paper.exhausted


@pytest.mark.slow_except(3)
@every_frozen
def test_the_papers_solver_on_frozen_instances(stored):
    model, X, y, S = fitted(stored, solver="paper")
    check_state(model, X)
    assert model.n_iter_ >= 11
    assert model.duality_gap_ >= -1e-9
    # gamma: 1e-4 as asked of the copies of the group lasso; else the accuracy of the paper's own stopping
    # rule
    assert model.objective_ == pytest.approx(stored["objective"], rel=1e-4)
    assert model.objective_ == pytest.approx(objective_of(model, X, y, S, stored["nu"]), rel=1e-12)
    if stored["gamma"] > 0:
        np.testing.assert_array_equal(np.flatnonzero(~model.coef_.any(axis=0)), stored["zero"])


def test_the_papers_solver_cut_short_says_so():
    with pytest.warns(ConvergenceWarning, match="before convergence; the largest relative duality gap"):
        fitted(PLAIN[0], solver="paper", max_iter=20)


# ---- without a ridge ----


@pytest.mark.parametrize("solver", [*SOLVERS, "paper"])
def test_without_a_ridge(solver):
    model, X, y, S = fitted(NO_RIDGE, solver=solver)
    check_state(model, X)
    assert model.objective_ == pytest.approx(NO_RIDGE["objective"], rel=1e-4 if solver == "paper" else 1e-6)
    assert model.objective_ == pytest.approx(objective_of(model, X, y, S, NO_RIDGE["nu"]), rel=1e-12)
    np.testing.assert_array_equal(model.covariate_labels_, NO_RIDGE["labels"])
    if solver != "paper":
        assert -1e-9 <= model.duality_gap_ <= 1e-6


@pytest.mark.slow_except(2)
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("sparsity", [0.0, 1.5])
def test_no_ridge_is_the_limit_of_small_ones(seed, solver, sparsity):
    X, y, S = ref.recipe("dense", 6, 80, 3, seed)
    model = ConvexCovariateClustering(
        1.0, similarity=S, ridge=0, sparsity=sparsity, solver=solver, tol=1e-7
    ).fit(X, y)
    reference = ref.reference_solution(X, y, S, 1.0, 0.0, sparsity)
    assert model.objective_ == pytest.approx(reference.objective, rel=1e-7)
    assert model.duality_gap_ <= 1e-7
    near = model_of(1.0, S, ridge=1e-9, sparsity=sparsity, tol=1e-7).fit(X, y)
    assert model.objective_ == pytest.approx(near.objective_, rel=2e-7)
    np.testing.assert_array_equal(model.covariate_labels_, near.covariate_labels_)
    np.testing.assert_allclose(model.coef_, reference.B, rtol=0, atol=1e-3)


@pytest.mark.slow_except(1)
@pytest.mark.parametrize("solver", [*SOLVERS, "paper"])
@pytest.mark.parametrize("nu", [0.5, [1.0, 0.1]])
def test_classes_that_sums_tell_apart(solver, nu):
    X, y, S, _ = ref.synthetic(20, 40, True, 1)
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        model = ConvexCovariateClustering(nu, similarity=S, ridge=0, solver=solver, max_iter=300).fit(X, y)
    assert any(
        "ridge=0" in str(warning.message) and "optimum may not exist" in str(warning.message)
        for warning in heard
    )
    assert {warning.category for warning in heard} <= {UserWarning, ConvergenceWarning}
    check_state(model, X)
    assert np.isfinite([model.objective_, model.duality_gap_, *model.coef_.ravel(), *model.intercept_]).all()
    assert model.score(X, y) == 1.0


# ---- reduced problems that are too large for Newton steps ----


@pytest.mark.slow_except(1)
@pytest.mark.parametrize("sparsity", [0.0, 1.5])
@pytest.mark.parametrize("kind", ["dense", "knn"])
def test_large_reduced_problems(monkeypatch, kind, sparsity):
    X, y, S = ref.recipe(kind, 16, 80, 3, 4)
    path = np.geomspace(20, 0.05, 8)
    usual = ConvexCovariateClustering(path, similarity=S, sparsity=sparsity).fit(X, y)
    monkeypatch.setattr(newton, "MAX_UNKNOWNS", 10)
    large = ConvexCovariateClustering(path, similarity=S, sparsity=sparsity).fit(X, y)
    assert large.path_["n_clusters"].max() > 5
    for ours, theirs in zip(large._points, usual._points, strict=True):
        assert -1e-9 <= ours.gap <= 1e-6
        assert ours.objective == pytest.approx(theirs.objective, rel=1e-6)
        np.testing.assert_array_equal(ours.labels, theirs.labels)
    np.testing.assert_array_equal(large.covariate_labels_, usual.covariate_labels_)


def test_large_reduced_problems_of_sparse_tables(monkeypatch):
    X, y = counts()
    path = np.geomspace(10, 0.1, 5)
    usual = ConvexCovariateClustering(path).fit(X, y)
    monkeypatch.setattr(newton, "MAX_UNKNOWNS_SPARSE", 10)
    large = ConvexCovariateClustering(path).fit(sparse.csr_array(X), y)
    assert large.path_["n_clusters"].max() > 5
    for ours, theirs in zip(large._points, usual._points, strict=True):
        assert -1e-9 <= ours.gap <= 1e-6
        assert ours.objective == pytest.approx(theirs.objective, rel=1e-6)
        np.testing.assert_array_equal(ours.labels, theirs.labels)


# ---- sparsity on a path, and the points of a path ----


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("sparsity", [0.0, 4.0])
def test_points_of_a_path(solver, sparsity):
    X, y, S = ref.build(SPARSITY[0]["recipe"])
    path = SPARSITY[0]["nu"] * np.array([4.0, 2.0, 1.0, 0.5])
    model = model_of(path, S, sparsity=sparsity, solver=solver).fit(X, y)
    check_state(model, X)
    for nu, point in zip(path, model._points, strict=True):
        alone = model_of(nu, S, sparsity=sparsity).fit(X, y)
        assert point.coefficients.shape == (alone.n_clusters_, 3)
        np.testing.assert_array_equal(point.labels, alone.covariate_labels_)
        np.testing.assert_allclose(point.coefficients[point.labels].T, alone.coef_, rtol=0, atol=2e-3)
        np.testing.assert_array_equal(point.coefficients[point.labels].any(axis=1), alone.coef_.any(axis=0))
    chosen = next(point for point in model._points if point.fusion_penalty == model.fusion_penalty_)
    zero = ~chosen.coefficients.any(axis=1)
    assert zero.any() == (sparsity > 0)
    np.testing.assert_array_equal(~model.coef_.any(axis=0), zero[chosen.labels])


# ---- sparse tables ----


def counts(seed=0, n=90, d=40, c=3):
    """A table like counts of words: one cell in nine is other than zero; the classes use some groups of
    columns more.
    """
    rng = np.random.default_rng(seed)
    y = np.arange(n) % c
    rate = np.where((np.arange(d) * 8 // d)[None, :] % c == y[:, None], 0.3, 0.05)
    X = rng.poisson(rate).astype(float)
    X[0] = 1.0  # no column is empty
    return X, y


SPARSE = {"csr": sparse.csr_array, "csc": sparse.csc_matrix, "dok": sparse.dok_array}


@pytest.mark.slow_except(4)
@pytest.mark.parametrize("form", SPARSE)
@pytest.mark.parametrize("similarity", [None, "correlation", "given"])
@pytest.mark.parametrize("solver", SOLVERS)
def test_sparse_tables_equal_dense_ones(form, similarity, solver):
    X, y = counts()
    S = ref.recipe("knn", X.shape[1], 10, 2, 0)[2] if similarity == "given" else similarity
    table = SPARSE[form](X)
    dense, ours = (
        ConvexCovariateClustering(0.5, similarity=S, solver=solver).fit(rows, y) for rows in (X, table)
    )
    assert 1 < dense.n_clusters_ < X.shape[1]
    check_state(ours, X)
    np.testing.assert_array_equal(ours.covariate_labels_, dense.covariate_labels_)
    # the sums differ in their last bits, and a solver may stop at another point within the tolerance
    near = {"rtol": 0, "atol": 1e-6}
    np.testing.assert_allclose(ours.coef_, dense.coef_, **near)
    np.testing.assert_allclose(ours.intercept_, dense.intercept_, **near)
    assert ours.objective_ == pytest.approx(dense.objective_, rel=1e-7)
    sums = ours.transform(table)
    assert sparse.issparse(sums)
    assert sums.format == "csr"
    np.testing.assert_allclose(sums.toarray(), dense.transform(X), rtol=0, atol=1e-12)
    np.testing.assert_array_equal(ours.predict(table), dense.predict(X))
    np.testing.assert_allclose(ours.predict_proba(table), ours.predict_proba(X), rtol=0, atol=1e-12)
    np.testing.assert_allclose(ours.decision_function(table), ours.decision_function(X), rtol=0, atol=1e-12)


@pytest.mark.slow_except(1)
@pytest.mark.parametrize("selection", ["evidence", "evidence-full"])
def test_a_path_of_a_sparse_table(selection):
    X, y = counts()
    path = np.geomspace(20, 0.02, 8)
    dense, ours = (
        ConvexCovariateClustering(path, selection=selection).fit(rows, y) for rows in (X, sparse.csr_array(X))
    )
    np.testing.assert_array_equal(ours.covariate_labels_, dense.covariate_labels_)
    np.testing.assert_allclose(ours.coef_, dense.coef_, rtol=0, atol=1e-9)
    assert ours.sigma_ == dense.sigma_
    for one, other in zip(ours._points, dense._points, strict=True):
        np.testing.assert_array_equal(one.labels, other.labels)
        assert one.objective == pytest.approx(other.objective, rel=1e-6)
        assert one.evidence == pytest.approx(other.evidence, rel=1e-7)
        np.testing.assert_allclose(one.coefficients, other.coefficients, rtol=0, atol=1e-5)


@pytest.mark.slow
def test_sparse_tables_of_other_numbers():
    X, y = counts()
    for table in (
        sparse.csr_array(X.astype(np.float32)),
        sparse.csr_array(X.astype(np.int64)),
        sparse.csr_matrix(X),
    ):
        assert_same_bits(
            ConvexCovariateClustering(0.5).fit(table, y),
            ConvexCovariateClustering(0.5).fit(sparse.csr_array(X), y),
        )
    half = sparse.csr_array((X / 3).astype(np.float32))
    ours, dense = (ConvexCovariateClustering(0.5).fit(rows, y) for rows in (half, half.toarray()))
    np.testing.assert_array_equal(ours.covariate_labels_, dense.covariate_labels_)
    np.testing.assert_allclose(ours.coef_, dense.coef_, rtol=0, atol=1e-6)


@pytest.mark.slow_except(1)
@pytest.mark.parametrize("tol", [1e-7, 1e-9, 1e-11])
def test_sparse_tables_are_certified_as_asked(tol):
    X, y = counts()
    for table in (sparse.csr_array(X), sparse.csr_array(X / 3)):
        model = ConvexCovariateClustering(0.5, tol=tol).fit(table, y)
        assert -1e-9 <= model.duality_gap_ <= tol


def test_sparse_tables_stay_as_they_are():
    X, y = counts()
    table = sparse.csc_array(X)
    kept = table.copy()
    ConvexCovariateClustering([2.0, 0.5], sparsity=0.5).fit(table, y).transform(table)
    for part in ("data", "indices", "indptr"):
        np.testing.assert_array_equal(getattr(table, part), getattr(kept, part))


def test_sparse_tables_have_no_vectors_for_knn():
    X, y = counts()
    with pytest.raises(
        ValueError,
        match=r"similarity='knn' takes columns as vectors and needs a dense X.*similarity='correlation'",
    ):
        ConvexCovariateClustering(1.0, similarity="knn").fit(sparse.csr_array(X), y)
    with_nan = sparse.csr_array(np.where(X > 2, np.nan, X))
    with pytest.raises(ValueError, match="NaN"):
        ConvexCovariateClustering(1.0).fit(with_nan, y)


@pytest.mark.parametrize("sparsity", [0.5, 3.0])
def test_sparsity_on_a_sparse_table(sparsity):
    X, y = counts()
    dense, ours = (
        ConvexCovariateClustering(0.5, sparsity=sparsity, tol=1e-12).fit(rows, y)
        for rows in (X, sparse.csr_array(X))
    )
    assert not dense.coef_.all()
    np.testing.assert_array_equal(ours.coef_ == 0, dense.coef_ == 0)
    np.testing.assert_allclose(ours.coef_, dense.coef_, rtol=0, atol=1e-6)


# ---- threads ----


@pytest.mark.parametrize("solver", SOLVERS)
def test_the_same_bits_on_more_threads(monkeypatch, solver):
    """Sums of blocks of edges are added in one order, whoever made them."""
    monkeypatch.setattr(threads, "SMALL_WORK", 0)
    monkeypatch.setattr(newton, "MAX_UNKNOWNS", 10)
    blocks = []
    made = admm.EdgeAdmm.__init__

    def counted(solver, *given):
        made(solver, *given)
        blocks.append(SimpleNamespace(blocks=len(solver.work), n_threads=solver.n_threads))

    monkeypatch.setattr(admm.EdgeAdmm, "__init__", counted)
    X, y, S = ref.build(PLAIN[2]["recipe"])
    models = []
    for n_threads in (1, 2, 3):
        blocks.clear()
        models.append(
            ConvexCovariateClustering([4.0, 1.0], similarity=S, solver=solver, n_threads=n_threads).fit(X, y)
        )
        assert {one.n_threads for one in blocks} == {threads.effective_n_threads(n_threads)}
        assert max(one.blocks for one in blocks) > (8 if solver == "admm" else 0)
    for model in models[1:]:
        assert_same_bits(model, models[0])
        assert model.path_["objective"].tolist() == models[0].path_["objective"].tolist()
