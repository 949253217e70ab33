"""Convex covariate clustering: optima against the twin and frozen references, certificates, paths, evidence, bad input."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.sparse.csgraph import connected_components
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import adjusted_mutual_info_score
from sklearn.model_selection import StratifiedKFold

from craftc import ConvexCovariateClustering
from craftc import covariates as estimator
from craftc._covariates_evidence import SIGMAS, log_evidence, map_fit, sigma_by_folds
from craftc._covariates_loss import Loss, column_sums
from craftc.covariates import correlation_similarity, knn_similarity
from tests.conftest import ROOT
from tests.twins import covariates as twin

FROZEN = [instance for instance in twin.frozen() if instance["ridge"] > 0]
every_frozen = pytest.mark.parametrize(
    "stored", FROZEN, ids=[f"{k}-{f['recipe']['kind']}-{f['recipe']['d']}-{f['nu']:.3g}" for k, f in enumerate(FROZEN)]
)
KINDS = ("dense", "blocks", "knn", "flat", "chain")


def model_of(nu, S, **more):
    """An unfitted model with a tight certificate."""
    return ConvexCovariateClustering(nu, similarity=S, **{"tol": 1e-9, **more})


def objective_of(model, X, y, S, nu):
    """J by the twin."""
    return twin.objective(model.coef_, model.intercept_, X, y, S, nu, model.ridge, model.sparsity)


def small(seed, kind=None):
    """X, y, S and nu of a small problem: between everything fused and everything alone, with two to four classes."""
    rng = np.random.default_rng(seed)
    kind = kind or KINDS[int(rng.integers(len(KINDS)))]
    c, d, n = int(rng.integers(2, 5)), int(rng.integers(2, 13)), int(rng.integers(12, 50))
    return *twin.recipe(kind, d, n, c, seed), float(10 ** rng.uniform(-2, 1.5))


def check_state(model, X):
    """Labels in order of appearance, columns of a cluster equal to the last bit, everything centred over the classes."""
    labels = model.covariate_labels_
    assert (labels.dtype, labels.shape) == (np.int32, (X.shape[1],))
    np.testing.assert_array_equal(labels, twin.canonical(labels))
    assert model.n_clusters_ == labels.max() + 1
    assert (model.coef_.shape, model.intercept_.shape) == ((len(model.classes_), X.shape[1]), (len(model.classes_),))
    first = np.unique(labels, return_index=True)[1]
    np.testing.assert_array_equal(model.coef_, model.coef_[:, first][:, labels])
    size = max(np.abs(model.coef_).max(), np.abs(model.intercept_).max(), 1e-300)
    assert np.abs(model.coef_.sum(axis=0)).max() <= 1e-13 * size
    assert abs(model.intercept_.sum()) <= 1e-13 * size
    assert model.n_features_in_ == X.shape[1]


def assert_same_bits(a, b):
    """Two fitted models agree to the last bit."""
    for attribute in ("covariate_labels_", "coef_", "intercept_", "classes_"):
        np.testing.assert_array_equal(getattr(a, attribute), getattr(b, attribute), err_msg=attribute)
    assert (a.objective_, a.duality_gap_, a.fusion_penalty_) == (b.objective_, b.duality_gap_, b.fusion_penalty_)


# ---- the optimum ----


@every_frozen
def test_frozen_instances(stored):
    X, y, S = twin.build(stored["recipe"])
    model = model_of(stored["nu"], S, ridge=stored["ridge"], sparsity=stored["gamma"]).fit(X, y)
    check_state(model, X)
    assert model.objective_ == pytest.approx(stored["objective"], rel=1e-9)
    assert model.objective_ == pytest.approx(objective_of(model, X, y, S, stored["nu"]), rel=1e-12)
    assert -1e-9 <= model.duality_gap_ <= 1e-9
    np.testing.assert_array_equal(model.covariate_labels_, stored["labels"])
    np.testing.assert_array_equal(np.flatnonzero(~model.coef_.any(axis=0)), stored["zero"])


@every_frozen
def test_frozen_instances_at_the_end_of_a_path(stored):
    X, y, S = twin.build(stored["recipe"])
    path = stored["nu"] * 2.0 ** np.arange(4, -1, -1)
    frame = model_of(path, S, ridge=stored["ridge"], sparsity=stored["gamma"]).fit(X, y).path_
    assert frame["fusion_penalty"].tolist() == path.tolist()
    assert frame["gap"].between(-1e-9, 1e-9).all()
    assert frame["objective"].iloc[-1] == pytest.approx(stored["objective"], rel=1e-9)
    np.testing.assert_array_equal(frame["labels"].iloc[-1], stored["labels"])


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6), ridge=st.sampled_from([0.02, 0.1, 1.0]))
def test_random_problems_equal_the_twin(seed, ridge):
    X, y, S, nu = small(seed)
    check_against_twin(X, y, S, nu, ridge, 0.0)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6), ridge=st.sampled_from([0.02, 0.1, 1.0]), sparsity=st.sampled_from([0.3, 1.5, 6.0]))
def test_random_problems_with_sparsity_equal_the_twin(seed, ridge, sparsity):
    X, y, S, nu = small(seed)
    check_against_twin(X, y, S, nu, ridge, sparsity)


def check_against_twin(X, y, S, nu, ridge, sparsity):
    """The same optimum; the same partition where the twin's is certain."""
    reference = twin.reference_solution(X, y, S, nu, ridge, sparsity)
    model = model_of(nu, S, ridge=ridge, sparsity=sparsity).fit(X, y)
    check_state(model, X)
    assert model.objective_ == pytest.approx(reference.objective, rel=1e-9, abs=1e-12)
    assert model.objective_ == pytest.approx(objective_of(model, X, y, S, nu), rel=1e-12)
    # J is strongly convex: a gap bounds the distance to the optimum
    bound = np.sqrt(2e-9 * model.objective_ / ridge)
    np.testing.assert_allclose(model.coef_, reference.B, rtol=0, atol=2 * bound)
    if reference.separation > 4 * bound:
        np.testing.assert_array_equal(model.covariate_labels_, reference.labels)
        np.testing.assert_array_equal(~model.coef_.any(axis=0), reference.zero)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6), tol=st.sampled_from([1e-2, 1e-4, 1e-6, 1e-8]), sparsity=st.sampled_from([0.0, 0.0, 1.5]))
def test_the_gap_bounds_the_excess(seed, tol, sparsity):
    X, y, S, nu = small(seed)
    model = model_of(nu, S, sparsity=sparsity, tol=tol).fit(X, y)
    reference = twin.reference_solution(X, y, S, nu, 0.1, sparsity)
    dual = model.objective_ / (1.0 + model.duality_gap_)
    assert -1e-9 <= model.duality_gap_ <= tol
    assert reference.objective - model.objective_ <= 1e-9 * reference.objective
    assert model.objective_ - reference.objective <= model.duality_gap_ * dual + max(reference.gap, 0.0) + 1e-9 * reference.objective


def test_a_search_cut_short_says_so():
    X, y, S = twin.build(FROZEN[1]["recipe"])
    with pytest.warns(ConvergenceWarning, match=r"did not reach every optimum: the largest relative gap is .*, tol=1e-09"):
        model = model_of(FROZEN[1]["nu"], S, max_iter=2).fit(X, y)
    assert model.duality_gap_ > 1e-9
    assert model.objective_ >= FROZEN[1]["objective"]


# ---- invariances and extremes ----


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("sparsity", [0.0, 1.0])
def test_order_of_covariates_and_classes_and_scale_of_the_similarity(seed, sparsity):
    X, y, S, nu = small(seed)
    rng = np.random.default_rng(seed)
    order, names = rng.permutation(X.shape[1]), rng.permutation(y.max() + 1)
    model = model_of(nu, S, sparsity=sparsity).fit(X, y)
    near = {"rtol": 0, "atol": 2e-5 * max(np.abs(model.coef_).max(), 1.0)}
    moved = model_of(nu, S[np.ix_(order, order)], sparsity=sparsity).fit(X[:, order], y)
    np.testing.assert_array_equal(moved.covariate_labels_, twin.canonical(model.covariate_labels_[order]))
    np.testing.assert_allclose(moved.coef_, model.coef_[:, order], **near)
    renamed = model_of(nu, S, sparsity=sparsity).fit(X, names[y])
    np.testing.assert_array_equal(renamed.covariate_labels_, model.covariate_labels_)
    np.testing.assert_allclose(renamed.coef_[names], model.coef_, **near)
    np.testing.assert_allclose(renamed.intercept_[names], model.intercept_, **near)
    scaled = model_of(nu / 3.7, 3.7 * S, sparsity=sparsity).fit(X, y)
    np.testing.assert_array_equal(scaled.covariate_labels_, model.covariate_labels_)
    np.testing.assert_allclose(scaled.coef_, model.coef_, **near)
    for other in (moved, renamed, scaled):
        assert other.objective_ == pytest.approx(model.objective_, rel=2e-9)


@pytest.mark.parametrize("c", [2, 3, 4])
@pytest.mark.parametrize("without", ["penalty", "edges"])
def test_without_fusion_it_is_ridge_logistic_regression(c, without):
    X, y, S = twin.recipe("dense", 8, 60, c, 3)
    model = model_of(0.0, S, ridge=0.3) if without == "penalty" else model_of(5.0, np.zeros_like(S), ridge=0.3)
    model.fit(X, y)
    # two classes: one weight vector w = b_1 - b_0, whose |w|^2 is 2 |B|^2
    peer = LogisticRegression(C=1 / 0.3 if c == 2 else 1 / 0.6, tol=1e-10, max_iter=10000).fit(X, y)
    assert model.covariate_labels_.tolist() == list(range(8))
    np.testing.assert_allclose(model.predict_proba(X), peer.predict_proba(X), rtol=0, atol=2e-5)
    ours = model.coef_[1:] - model.coef_[:1] if c == 2 else model.coef_
    np.testing.assert_allclose(ours, peer.coef_, rtol=0, atol=2e-4 * np.abs(peer.coef_).max())


@pytest.mark.parametrize("sparsity", [0.0, 1.5])
def test_a_path_may_end_without_fusion(sparsity):
    X, y, S = twin.recipe("dense", 8, 60, 3, 3)
    frame = model_of([4.0, 0.5, 0.0], S, sparsity=sparsity).fit(X, y).path_
    reference = twin.reference_solution(X, y, S, 0.0, 0.1, sparsity)
    assert frame["objective"].iloc[-1] == pytest.approx(reference.objective, rel=1e-9)
    np.testing.assert_array_equal(frame["labels"].iloc[-1], reference.labels)
    single = model_of(0.0, S, sparsity=sparsity).fit(X, y)
    np.testing.assert_array_equal(single.covariate_labels_, reference.labels)


@pytest.mark.parametrize("seed", range(6))
def test_a_huge_penalty_gives_the_components(seed):
    rng = np.random.default_rng(seed)
    X, y, _, _ = small(seed)
    d = X.shape[1]
    S = np.triu(rng.random((d, d)) * (rng.random((d, d)) < 1.5 / d), 1)
    S += S.T
    model = model_of(1e5, S).fit(X, y)
    np.testing.assert_array_equal(model.covariate_labels_, twin.canonical(connected_components(S)[1]))
    sums = X @ twin.expansion(model.covariate_labels_)
    alone = model_of(0.0, np.zeros((sums.shape[1],) * 2)).fit(sums / np.sqrt(np.bincount(model.covariate_labels_)), y)
    assert model.objective_ == pytest.approx(alone.objective_, rel=1e-8)


def test_a_covariate_without_edges_stays_alone():
    X, y, S = twin.recipe("flat", 6, 60, 3, 0)
    S[2] = S[:, 2] = 0.0
    assert model_of(1e4, S).fit(X, y).covariate_labels_.tolist() == [0, 0, 1, 0, 0, 0]


@pytest.mark.parametrize("similarity", [None, "knn", "correlation", [[1.0]]])
@pytest.mark.parametrize("nu", [0.0, 3.0, None])
def test_one_covariate(similarity, nu):
    X, y, _ = twin.recipe("chain", 4, 40, 3, 0)
    model = model_of(nu, similarity).fit(X[:, :1], y)
    check_state(model, X[:, :1])
    assert model.covariate_labels_.tolist() == [0]
    assert model.transform(X[:, :1]).tolist() == X[:, :1].tolist()


def test_enough_sparsity_leaves_the_intercept():
    X, y, S = twin.recipe("dense", 8, 60, 3, 0)
    model = model_of(1.0, S, sparsity=1e4).fit(X, y)
    assert not model.coef_.any()
    assert model.covariate_labels_.tolist() == [0] * 8
    share = np.bincount(y) / len(y)
    np.testing.assert_allclose(model.predict_proba(X[:2]), [share, share], rtol=1e-6)
    assert model.objective_ == pytest.approx(-(np.bincount(y) * np.log(share)).sum(), rel=1e-9)


def test_constant_and_copied_columns():
    X, y, _ = twin.recipe("chain", 6, 60, 3, 1)
    X[:, 0], X[:, 3] = 0.0, X[:, 2]
    for similarity in (None, "knn"):
        check_state(model_of(1.0, similarity).fit(X, y), X)
    labels = model_of(0.1, np.ones((6, 6))).fit(X, y).covariate_labels_
    assert labels[2] == labels[3]


# ---- similarities ----


def test_forms_of_a_similarity_are_equal():
    X, y, S = twin.recipe("knn", 12, 60, 3, 1)
    model = model_of(1.0, S).fit(X, y)
    diagonal = S + np.diag(np.arange(12.0))
    stored = sparse.csr_array(S), sparse.csc_matrix(S), sparse.coo_array(S), S.tolist(), pd.DataFrame(S), np.asfortranarray(S)
    for form in (*stored, diagonal, lambda table: S):
        assert_same_bits(model_of(1.0, form).fit(X, y), model)
    np.testing.assert_array_equal(model_of(1.0, (S > 0)).fit(X, y).coef_, model_of(1.0, (S > 0).astype(int)).fit(X, y).coef_)


def test_similarities_by_name():
    X, y, _ = twin.recipe("chain", 14, 60, 3, 1)
    X += X[:, :1]
    standard = (X - X.mean(axis=0)) / X.std(axis=0)
    assert_same_bits(model_of(1.0, None).fit(X, y), model_of(1.0, "correlation").fit(X, y))
    assert_same_bits(model_of(1.0, correlation_similarity).fit(X, y), model_of(1.0, "correlation").fit(X, y))
    assert_same_bits(model_of(1.0, knn_similarity(standard.T)).fit(X, y), model_of(1.0, "knn").fit(X, y))


@pytest.mark.parametrize("neighbours", [1, 3, 30])
def test_correlation_similarity(neighbours):
    X = np.random.default_rng(0).normal(size=(40, 12))
    X += X[:, :1]
    X[:, 5] = 2.0
    S = correlation_similarity(X, neighbours).toarray()
    rest = np.delete(np.arange(12), 5)
    with np.errstate(invalid="ignore", divide="ignore"):
        expected = np.maximum(np.corrcoef(X[:, rest].T), 0.0)
    np.fill_diagonal(expected, 0.0)
    near = expected >= np.sort(expected, axis=1)[:, [-min(neighbours, 11)]]
    np.testing.assert_array_equal(S, S.T)
    assert not S[5].any()
    np.testing.assert_allclose(S[np.ix_(rest, rest)], np.where(near | near.T, expected, 0.0), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("neighbours", [1, 3, 30])
def test_knn_similarity(neighbours):
    vectors = np.random.default_rng(0).normal(size=(12, 3))
    S = knn_similarity(vectors, neighbours)
    k = min(neighbours, 11)
    distance = np.sqrt(((vectors[:, None] - vectors) ** 2).sum(axis=2))
    np.fill_diagonal(distance, np.inf)
    last = np.sort(distance, axis=1)[:, k - 1]
    near = distance <= last[:, None]
    expected = np.where(near | near.T, np.exp(-0.5 * (distance / np.median(last)) ** 2), 0.0)
    dense = S.toarray()
    np.testing.assert_array_equal(dense, dense.T)
    assert not dense.diagonal().any()
    np.testing.assert_allclose(dense, expected, rtol=1e-10)


def test_knn_similarity_of_equal_vectors_and_of_one():
    assert knn_similarity(np.zeros((4, 2)), 3).toarray().tolist() == (1.0 - np.eye(4)).tolist()
    assert knn_similarity([[1.0, 2.0]]).nnz == 0


@pytest.mark.parametrize("embedding", [[1.0, 2.0], [[np.nan], [1.0]], [[np.inf], [1.0]], np.zeros((2, 2, 2))])
def test_knn_similarity_of_nonsense(embedding):
    with pytest.raises(ValueError, match="embedding must be finite, with a row for every covariate"):
        knn_similarity(embedding)


# ---- the path ----


def test_the_default_path_ends_where_all_are_alone():
    X, y, S = twin.recipe("dense", 8, 60, 3, 2)
    frame = ConvexCovariateClustering(similarity=S).fit(X, y).path_
    assert frame["fusion_penalty"].to_numpy() == pytest.approx(60 * 2.0 ** (-0.1 * np.arange(len(frame))))
    assert frame["n_clusters"].tolist()[-3:] == [8, 8, 8]
    alone = (frame["n_clusters"] == 8).to_numpy()
    assert not (alone[:-3] & alone[1:-2] & alone[2:-1]).any()
    assert len(frame) < 300
    given_path = 60 * 2.0 ** (-0.1 * np.arange(len(frame) + 5))
    assert len(ConvexCovariateClustering(given_path, similarity=S).fit(X, y).path_) == len(given_path)


@pytest.mark.parametrize("sparsity", [0.0, 1.0])
def test_the_frame_of_a_path(sparsity):
    X, y, S = twin.recipe("dense", 12, 80, 3, 4)
    path = np.geomspace(40, 0.01, 25)
    model = model_of(path, S, sparsity=sparsity).fit(X, y)
    frame = model.path_
    assert isinstance(frame, pd.DataFrame)
    assert list(frame.columns) == ["fusion_penalty", "n_clusters", "labels", "objective", "gap", "evidence", "coefficients"]
    assert frame["fusion_penalty"].tolist() == path.tolist()
    assert (np.diff(frame["objective"]) <= 1e-9).all()
    assert frame["gap"].between(-1e-9, 1e-9).all()
    assert [int(labels.max()) + 1 for labels in frame["labels"]] == frame["n_clusters"].tolist()
    for k in range(0, 25, 6):
        alone = model_of(path[k], S, sparsity=sparsity).fit(X, y)
        assert frame["objective"][k] == pytest.approx(alone.objective_, rel=2e-9)
        np.testing.assert_array_equal(frame["labels"][k], alone.covariate_labels_)
    best = frame.loc[frame["evidence"].idxmax()]
    np.testing.assert_array_equal(model.covariate_labels_, best["labels"])
    assert (model.fusion_penalty_, model.objective_, model.duality_gap_) == (best["fusion_penalty"], best["objective"], best["gap"])


def test_one_penalty_has_one_point_and_no_evidence():
    X, y, S = twin.recipe("dense", 8, 60, 3, 2)
    single, listed = (model_of(nu, S).fit(X, y) for nu in (1.0, [1.0]))
    assert_same_bits(single, listed)
    assert len(single.path_) == 1
    assert single.path_["evidence"].isna().all()
    assert not hasattr(single, "sigma_")


def test_every_clustering_is_scored_once(monkeypatch):
    scored = []

    def counted(X, loss, fit, sigma, full):
        scored.append(X.shape[1] - 1)
        return log_evidence(X, loss, fit, sigma, full)

    monkeypatch.setattr(estimator, "log_evidence", counted)
    X, y, S = twin.recipe("dense", 12, 80, 3, 4)
    frame = ConvexCovariateClustering(similarity=S).fit(X, y).path_
    keys = [labels.tobytes() for labels in frame["labels"]]
    assert len(scored) == len(set(keys)) < len(keys)
    assert len(set(zip(keys, frame["evidence"], strict=True))) == len(scored)


@pytest.mark.parametrize("selection", ["evidence", "evidence-full", "evidence-accuracy"])
def test_a_path_returns_the_map_fit_whose_evidence_is_highest(selection):
    X, y, S = twin.recipe("dense", 10, 80, 3, 4)
    model = model_of(np.geomspace(40, 0.01, 15), S, selection=selection).fit(X, y)
    check_state(model, X)
    fitted = twin.map_fit(X, y, model.covariate_labels_, model.sigma_)
    np.testing.assert_allclose(model.coef_, fitted.B[:, model.covariate_labels_], rtol=0, atol=1e-4 * np.abs(fitted.B).max())
    kind = "full" if selection == "evidence-full" else "diagonal"
    for labels, evidence in zip(model.path_["labels"], model.path_["evidence"], strict=True):
        assert evidence == pytest.approx(twin.log_evidence(X, y, labels, model.sigma_, kind), rel=1e-5, abs=1e-4)


@pytest.mark.parametrize("agree", [True, False])
def test_synthetic_groups_are_found(agree):
    X, y, S, truth = twin.synthetic(40, 40, agree, 1)
    for selection, least in (("evidence-accuracy", 1.0), ("evidence", 0.9)):
        model = ConvexCovariateClustering(similarity=S, selection=selection).fit(X, y)
        assert any(np.array_equal(labels, truth) for labels in model.path_["labels"])
        found = adjusted_mutual_info_score(truth, model.covariate_labels_, average_method="max")
        assert found >= least - 1e-9
        assert model.sigma_ in SIGMAS


# ---- evidence ----


@pytest.mark.parametrize("sigma", [1e-3, 0.1, 1.0, 10.0])
@pytest.mark.parametrize("seed", range(3))
def test_evidence_equals_the_twin(seed, sigma):
    rng = np.random.default_rng(seed)
    X, y, _ = twin.recipe("chain", 9, 70, 2 + seed, seed)
    labels = twin.canonical(rng.integers(0, 4, 9)).astype(np.int32)
    m, loss = int(labels.max()) + 1, Loss(y, y.max() + 1)
    columns = column_sums(X, labels, m)
    np.testing.assert_allclose(columns, twin.with_ones(X @ twin.expansion(labels)), rtol=0, atol=1e-13)
    ours, theirs = map_fit(columns, loss, sigma), twin.map_fit(X, y, labels, sigma)
    # a Newton step that promises less than 1e-10 of the objective is not taken: its length is of the order of 1e-5
    np.testing.assert_allclose(loss.basis @ ours.theta[:-1].T, theirs.B, rtol=0, atol=1e-4 * np.abs(theirs.B).max())
    np.testing.assert_allclose(loss.basis @ ours.theta[-1], theirs.beta0, rtol=0, atol=1e-4)
    for kind in ("diagonal", "full"):
        evidence = log_evidence(columns, loss, ours, sigma, kind == "full")
        assert evidence == pytest.approx(twin.log_evidence(X, y, labels, sigma, kind), rel=1e-6)


def test_a_warm_start_finds_the_same_map():
    X, y, _ = twin.recipe("chain", 6, 70, 3, 0)
    columns, loss = twin.with_ones(X), Loss(y, 3)
    cold = map_fit(columns, loss, 1.0)
    warm = map_fit(columns, loss, 1.0, map_fit(columns, loss, 0.01).theta)
    np.testing.assert_allclose(warm.theta, cold.theta, rtol=0, atol=1e-4)


@pytest.mark.parametrize("accuracy", [True, False])
@pytest.mark.parametrize("n", [30, 80])
def test_sigma_by_folds_equals_the_twin(accuracy, n):
    X, y, _ = twin.recipe("chain", 5, n, 4, 1)
    k = 5 if n / 20 >= 2 else 2
    folds = np.empty(n, int)
    for fold, (_, left) in enumerate(StratifiedKFold(k, shuffle=True, random_state=0).split(X, y)):
        folds[left] = fold
    expected = twin.sigma_by_cv(X, y, np.arange(5), SIGMAS, "accuracy" if accuracy else "log_probability", folds)
    assert sigma_by_folds(twin.with_ones(X), y, 4, accuracy) == expected.sigma


def test_classes_too_rare_to_leave_out():
    X, y, S = twin.recipe("chain", 5, 40, 2, 0)
    y[:] = 0
    y[0] = 1
    model = model_of([5.0, 0.5, 0.05], S).fit(X, y)
    assert model.sigma_ == 1.0
    check_state(model, X)


# ---- rows ----


@pytest.mark.parametrize("c", [2, 4])
@pytest.mark.parametrize("nu", [2.0, [8.0, 2.0, 0.5]])
def test_scores_probabilities_and_sums_agree(c, nu):
    X, y, S = twin.recipe("dense", 10, 80, c, 4)
    names = np.array(["ash", "birch", "cedar", "date"])
    model = model_of(nu, S).fit(X, names[y])
    assert model.classes_.tolist() == names[:c].tolist()
    proba, scores, sums = model.predict_proba(X), model.decision_function(X), model.transform(X)
    assert (proba.shape, sums.shape) == ((80, c), (80, model.n_clusters_))
    np.testing.assert_allclose(proba.sum(axis=1), 1.0, rtol=1e-13)
    np.testing.assert_array_equal(model.predict(X), names[proba.argmax(axis=1)])
    full = X @ model.coef_.T + model.intercept_
    np.testing.assert_allclose(np.log(proba), full - np.log(np.exp(full).sum(axis=1, keepdims=True)), rtol=0, atol=1e-10)
    np.testing.assert_allclose(scores, full[:, 1] - full[:, 0] if c == 2 else full, rtol=0, atol=1e-12)
    if c == 2:
        np.testing.assert_array_equal(model.predict(X) == "birch", scores > 0)
    np.testing.assert_allclose(sums, X @ twin.expansion(model.covariate_labels_), rtol=0, atol=1e-12)
    first = np.unique(model.covariate_labels_, return_index=True)[1]
    np.testing.assert_allclose(sums @ model.coef_[:, first].T + model.intercept_, full, rtol=0, atol=1e-10)
    assert model.score(X, names[y]) == pytest.approx((names[y] == model.predict(X)).mean())


def test_pickle_clone_and_refit():
    X, y, S = twin.recipe("dense", 10, 80, 3, 4)
    model = model_of([8.0, 2.0, 0.5], S).fit(X, y)
    for twice in (pickle.loads(pickle.dumps(model)), clone(model).fit(X, y), model_of([8.0, 2.0, 0.5], S).fit(X.tolist(), y.tolist())):
        assert_same_bits(twice, model)
        np.testing.assert_array_equal(twice.predict_proba(X), model.predict_proba(X))
        assert twice.path_["evidence"].tolist() == model.path_["evidence"].tolist()
    assert_same_bits(model.set_params(fusion_penalty=2.0).fit(X, y), model_of(2.0, S).fit(X, y))


def test_data_frames_and_names():
    X, y, S = twin.recipe("dense", 6, 60, 3, 4)
    frame = pd.DataFrame(X, columns=list("abcdef"))
    model = model_of(1.0, S).fit(frame, pd.Series(y))
    assert model.feature_names_in_.tolist() == list("abcdef")
    plain = model_of(1.0, S).fit(X, y)
    assert_same_bits(model, plain)
    np.testing.assert_array_equal(model.predict(frame), plain.predict(X))
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[list("fedcba")])


@pytest.mark.parametrize("dtype", [np.float32, np.int64])
def test_other_numbers(dtype):
    X, y, S = twin.recipe("dense", 6, 60, 3, 4)
    X = (4 * X).astype(dtype)
    assert_same_bits(model_of(1.0, S).fit(X, y), model_of(1.0, S).fit(np.asfortranarray(X, np.float64), y))


def test_verbose_prints_a_line_per_penalty(capsys):
    X, y, S = twin.recipe("dense", 6, 60, 3, 4)
    model_of([4.0, 1.0], S, verbose=1).fit(X, y)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines] == ["nu 4", "nu 1"]
    model_of([4.0, 1.0], S).fit(X, y)
    assert capsys.readouterr().out == ""


def test_the_same_bits_whatever_the_threads():
    script = (
        "import hashlib, numpy as np; from craftc import ConvexCovariateClustering as C; from tests.twins.covariates import recipe\n"
        "X, y, S = recipe('dense', 60, 400, 3, 1)\n"
        "for similarity in (S, None, 'knn'):\n"
        "    m = C(np.geomspace(40, 1, 5), similarity=similarity).fit(X, y)\n"
        "    print(hashlib.sha1(m.coef_.tobytes() + m.intercept_.tobytes()).hexdigest(), m.objective_.hex(), m.covariate_labels_.tolist())"
    )
    seen = set()
    for threads in ("1", "2"):
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": threads, "OMP_NUM_THREADS": threads, "PYTHONPATH": str(ROOT)}
        done = subprocess.run([sys.executable, "-c", script], env=environment, check=True, capture_output=True, text=True, cwd=ROOT)
        seen.add(done.stdout)
    assert len(seen) == 1


# ---- bad input ----

BAD = np.ones((4, 4))
ASYMMETRIC, NEGATIVE, HOLE, ENDLESS = BAD.copy(), BAD.copy(), BAD.copy(), BAD.copy()
ASYMMETRIC[0, 1] = 2.0
NEGATIVE[0, 1] = NEGATIVE[1, 0] = -1.0
HOLE[0, 1] = HOLE[1, 0] = np.nan
ENDLESS[0, 1] = ENDLESS[1, 0] = np.inf
ONE_WAY = np.diag([1.0, 0.0, 1.0], 1)
SPARSE_ASYMMETRIC = sparse.csr_array(ASYMMETRIC)

PARAMETERS = [
    ({"similarity": ASYMMETRIC}, r"similarity must be symmetric: S_ij == S_ji; \(S \+ S.T\) / 2 is"),
    ({"similarity": ONE_WAY}, "similarity must be symmetric"),
    ({"similarity": SPARSE_ASYMMETRIC}, "similarity must be symmetric"),
    ({"similarity": NEGATIVE}, "similarity must be finite and >= 0"),
    ({"similarity": HOLE}, "similarity must be finite and >= 0"),
    ({"similarity": sparse.csr_array(HOLE)}, "similarity must be finite and >= 0"),
    ({"similarity": ENDLESS}, "similarity must be finite and >= 0"),
    ({"similarity": BAD[:3]}, r"similarity must have shape \(4, 4\), one row and column for every covariate, got \(3, 4\)"),
    ({"similarity": np.ones((5, 5))}, r"similarity must have shape \(4, 4\).*got \(5, 5\)"),
    ({"similarity": np.ones(4)}, r"similarity must have shape \(4, 4\).*got \(4,\)"),
    ({"similarity": lambda X: X}, r"similarity must have shape \(4, 4\)"),
    ({"similarity": BAD.astype(str)}, "similarity must hold numbers"),
    ({"similarity": BAD + 0j}, "similarity must hold numbers"),
    ({"similarity": "cosine"}, r"similarity must be one of 'correlation', 'knn' or a callable, or an array \(d, d\), got 'cosine'"),
    ({"fusion_penalty": -1.0}, "fusion_penalty must be a finite number >= 0 or an array of them"),
    ({"fusion_penalty": np.nan}, "fusion_penalty must be a finite number >= 0"),
    ({"fusion_penalty": np.inf}, "fusion_penalty must be a finite number >= 0"),
    ({"fusion_penalty": []}, "fusion_penalty must be a finite number >= 0"),
    ({"fusion_penalty": [[2.0, 1.0]]}, "fusion_penalty must be a finite number >= 0"),
    ({"fusion_penalty": [2.0, -1.0]}, "fusion_penalty must be a finite number >= 0"),
    ({"fusion_penalty": [1.0, 2.0]}, "A path of fusion penalties must decrease.*Sort them, the largest first"),
    ({"fusion_penalty": [2.0, 2.0]}, "A path of fusion penalties must decrease"),
    ({"ridge": -0.1}, "ridge must be a number >= 0"),
    ({"ridge": np.nan}, "ridge must be a number >= 0"),
    ({"ridge": "some"}, "ridge must be a number >= 0"),
    ({"sparsity": -1}, "sparsity must be a number >= 0"),
    ({"sparsity": np.inf}, "sparsity must be a number >= 0"),
    ({"sparsity": None}, "sparsity must be a number >= 0"),
    ({"solver": "magic"}, "solver must be one of 'certified'"),
    ({"solver": None}, "solver must be one of"),
    ({"selection": "luck"}, "selection must be one of 'evidence', 'evidence-full', 'evidence-accuracy'"),
    ({"tol": 0}, "tol must be a number > 0"),
    ({"tol": "fine"}, "tol must be a number > 0"),
    ({"max_iter": 0}, "max_iter must be a whole number >= 1"),
    ({"max_iter": 1.5}, "max_iter must be a whole number"),
    ({"verbose": -1}, "verbose must be a whole number >= 0"),
]
ROWS = np.random.default_rng(0).normal(size=(20, 4))
CORNER = np.zeros((20, 4))
CORNER[3, 1] = 1.0
CLASSES = np.arange(20) % 2


@pytest.mark.parametrize(("parameters", "sentence"), PARAMETERS, ids=[f"{k}-{next(iter(p))}" for k, (p, _) in enumerate(PARAMETERS)])
def test_bad_parameters(parameters, sentence):
    model = ConvexCovariateClustering(**{"fusion_penalty": 1.0, "similarity": BAD, **parameters})
    with pytest.raises((ValueError, TypeError), match=sentence):
        model.fit(ROWS, CLASSES)
    assert not hasattr(model, "coef_")


@pytest.mark.parametrize(
    ("X", "y", "sentence"),
    [
        (ROWS, np.zeros(20, int), r"y must hold at least two classes, got one class: .*0.*There is nothing to tell apart"),
        (ROWS, ["only"] * 20, "y must hold at least two classes, got one class: .*only"),
        (ROWS, np.linspace(0, 1, 20), "Unknown label type"),
        (ROWS, CLASSES[:19], "inconsistent numbers of samples"),
        (np.where(CORNER > 0, np.nan, ROWS), CLASSES, "contains NaN"),
        (np.where(CORNER > 0, np.inf, ROWS), CLASSES, "infinity"),
        (ROWS[:, 0], CLASSES, "Expected 2D array"),
        (ROWS[:0], CLASSES[:0], "0 sample"),
        (ROWS[:, :0], CLASSES, "0 feature"),
    ],
)
def test_bad_tables(X, y, sentence):
    with pytest.raises((ValueError, TypeError), match=sentence):
        ConvexCovariateClustering(1.0, similarity=BAD).fit(X, y)


@pytest.mark.parametrize("method", ["predict", "predict_proba", "decision_function", "transform"])
def test_bad_rows(method):
    model = ConvexCovariateClustering(1.0, similarity=BAD)
    with pytest.raises(NotFittedError):
        getattr(model, method)(ROWS)
    model.fit(ROWS, CLASSES)
    with pytest.raises(ValueError, match="expecting 4 features"):
        getattr(model, method)(ROWS[:, :3])
    with pytest.raises(ValueError, match="NaN"):
        getattr(model, method)(np.full((1, 4), np.nan))


def test_no_path_before_a_fit():
    with pytest.raises(NotFittedError):
        _ = ConvexCovariateClustering().path_


def test_input_is_left_as_it_is():
    X, y, S = twin.recipe("dense", 6, 60, 3, 4)
    kept = X.copy(), y.copy(), S.copy()
    near = sparse.csr_array(S)
    model_of([4.0, 1.0], S, sparsity=0.5).fit(X, y)
    model_of([4.0, 1.0], near).fit(X, y)
    for ours, before in zip((X, y, S), kept, strict=True):
        np.testing.assert_array_equal(ours, before)
    np.testing.assert_array_equal(near.toarray(), S)
