"""Convex covariate clustering: optima against the reference and frozen references, certificates,
similarities, paths, invariances.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from scipy.sparse.csgraph import connected_components
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import adjusted_mutual_info_score

from craftc import ConvexCovariateClustering
from craftc.covariates import correlation_similarity, estimator, knn_similarity
from craftc.covariates.evidence import SIGMAS, log_evidence
from tests.common import examples
from tests.reference import covariates as ref
from tests.reference import covariates_evidence as ref_evidence

FROZEN = [instance for instance in ref.frozen() if instance["ridge"] > 0]
every_frozen = pytest.mark.parametrize(
    "stored",
    FROZEN,
    ids=[f"{k}-{f['recipe']['kind']}-{f['recipe']['d']}-{f['nu']:.3g}" for k, f in enumerate(FROZEN)],
)
KINDS = ("dense", "blocks", "knn", "flat", "chain")


def model_of(nu, S, **more):
    """An unfitted model with a tight certificate."""
    return ConvexCovariateClustering(nu, similarity=S, **{"tol": 1e-9, **more})


def objective_of(model, X, y, S, nu):
    """J by the reference."""
    return ref.objective(model.coef_, model.intercept_, X, y, S, nu, model.ridge, model.sparsity)


def small(seed, kind=None):
    """X, y, S and nu of a small problem: between everything fused and everything alone, with two to four
    classes.
    """
    rng = np.random.default_rng(seed)
    kind = kind or KINDS[int(rng.integers(len(KINDS)))]
    c, d, n = int(rng.integers(2, 5)), int(rng.integers(2, 13)), int(rng.integers(12, 50))
    return *ref.recipe(kind, d, n, c, seed), float(10 ** rng.uniform(-2, 1.5))


def check_state(model, X):
    """Labels in order of appearance, columns of a cluster equal to the last bit, everything centred over the
    classes.
    """
    labels = model.covariate_labels_
    assert (labels.dtype, labels.shape) == (np.int32, (X.shape[1],))
    np.testing.assert_array_equal(labels, ref.canonical(labels))
    assert model.n_clusters_ == labels.max() + 1
    assert (model.coef_.shape, model.intercept_.shape) == (
        (len(model.classes_), X.shape[1]),
        (len(model.classes_),),
    )
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
    assert (a.objective_, a.duality_gap_, a.fusion_penalty_) == (
        b.objective_,
        b.duality_gap_,
        b.fusion_penalty_,
    )


# ---- the optimum ----


@every_frozen
def test_frozen_instances(stored):
    X, y, S = ref.build(stored["recipe"])
    model = model_of(stored["nu"], S, ridge=stored["ridge"], sparsity=stored["gamma"]).fit(X, y)
    check_state(model, X)
    assert model.objective_ == pytest.approx(stored["objective"], rel=1e-9)
    assert model.objective_ == pytest.approx(objective_of(model, X, y, S, stored["nu"]), rel=1e-12)
    assert -1e-9 <= model.duality_gap_ <= 1e-9
    np.testing.assert_array_equal(model.covariate_labels_, stored["labels"])
    np.testing.assert_array_equal(np.flatnonzero(~model.coef_.any(axis=0)), stored["zero"])


@every_frozen
def test_frozen_instances_at_the_end_of_a_path(stored):
    X, y, S = ref.build(stored["recipe"])
    path = stored["nu"] * 2.0 ** np.arange(4, -1, -1)
    frame = model_of(path, S, ridge=stored["ridge"], sparsity=stored["gamma"]).fit(X, y).path_
    assert frame["fusion_penalty"].tolist() == path.tolist()
    assert frame["gap"].between(-1e-9, 1e-9).all()
    assert frame["objective"].iloc[-1] == pytest.approx(stored["objective"], rel=1e-9)
    np.testing.assert_array_equal(frame["labels"].iloc[-1], stored["labels"])


@examples(30)
@given(seed=st.integers(0, 10**6), ridge=st.sampled_from([0.02, 0.1, 1.0]))
def test_random_problems_equal_the_reference(seed, ridge):
    X, y, S, nu = small(seed)
    check_against_reference(X, y, S, nu, ridge, 0.0)


@examples(30)
@given(
    seed=st.integers(0, 10**6),
    ridge=st.sampled_from([0.02, 0.1, 1.0]),
    sparsity=st.sampled_from([0.3, 1.5, 6.0]),
)
def test_random_problems_with_sparsity_equal_the_reference(seed, ridge, sparsity):
    X, y, S, nu = small(seed)
    check_against_reference(X, y, S, nu, ridge, sparsity)


def check_against_reference(X, y, S, nu, ridge, sparsity):
    """The same optimum; the same partition where the reference's is certain."""
    reference = ref.reference_solution(X, y, S, nu, ridge, sparsity)
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


@examples(30)
@given(
    seed=st.integers(0, 10**6),
    tol=st.sampled_from([1e-2, 1e-4, 1e-6, 1e-8]),
    sparsity=st.sampled_from([0.0, 0.0, 1.5]),
)
def test_the_gap_bounds_the_excess(seed, tol, sparsity):
    X, y, S, nu = small(seed)
    model = model_of(nu, S, sparsity=sparsity, tol=tol).fit(X, y)
    reference = ref.reference_solution(X, y, S, nu, 0.1, sparsity)
    dual = model.objective_ / (1.0 + model.duality_gap_)
    assert -1e-9 <= model.duality_gap_ <= tol
    assert reference.objective - model.objective_ <= 1e-9 * reference.objective
    assert (
        model.objective_ - reference.objective
        <= model.duality_gap_ * dual + max(reference.gap, 0.0) + 1e-9 * reference.objective
    )


def test_a_search_cut_short_says_so():
    X, y, S = ref.build(FROZEN[1]["recipe"])
    with pytest.warns(
        ConvergenceWarning, match=r"before convergence; the largest relative duality gap is .* with tol=1e-09"
    ):
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
    np.testing.assert_array_equal(moved.covariate_labels_, ref.canonical(model.covariate_labels_[order]))
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
    X, y, S = ref.recipe("dense", 8, 60, c, 3)
    model = (
        model_of(0.0, S, ridge=0.3) if without == "penalty" else model_of(5.0, np.zeros_like(S), ridge=0.3)
    )
    model.fit(X, y)
    # two classes: one weight vector w = b_1 - b_0, whose |w|^2 is 2 |B|^2
    peer = LogisticRegression(C=1 / 0.3 if c == 2 else 1 / 0.6, tol=1e-10, max_iter=10000).fit(X, y)
    assert model.covariate_labels_.tolist() == list(range(8))
    np.testing.assert_allclose(model.predict_proba(X), peer.predict_proba(X), rtol=0, atol=2e-5)
    ours = model.coef_[1:] - model.coef_[:1] if c == 2 else model.coef_
    np.testing.assert_allclose(ours, peer.coef_, rtol=0, atol=2e-4 * np.abs(peer.coef_).max())


@pytest.mark.parametrize("sparsity", [0.0, 1.5])
def test_a_path_may_end_without_fusion(sparsity):
    X, y, S = ref.recipe("dense", 8, 60, 3, 3)
    frame = model_of([4.0, 0.5, 0.0], S, sparsity=sparsity).fit(X, y).path_
    reference = ref.reference_solution(X, y, S, 0.0, 0.1, sparsity)
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
    np.testing.assert_array_equal(model.covariate_labels_, ref.canonical(connected_components(S)[1]))
    sums = X @ ref.expansion(model.covariate_labels_)
    alone = model_of(0.0, np.zeros((sums.shape[1],) * 2)).fit(
        sums / np.sqrt(np.bincount(model.covariate_labels_)), y
    )
    assert model.objective_ == pytest.approx(alone.objective_, rel=1e-8)


def test_a_covariate_without_edges_stays_alone():
    X, y, S = ref.recipe("flat", 6, 60, 3, 0)
    S[2] = S[:, 2] = 0.0
    assert model_of(1e4, S).fit(X, y).covariate_labels_.tolist() == [0, 0, 1, 0, 0, 0]


@pytest.mark.parametrize("similarity", [None, "knn", "correlation", [[1.0]]])
@pytest.mark.parametrize("nu", [0.0, 3.0, None])
def test_one_covariate(similarity, nu):
    X, y, _ = ref.recipe("chain", 4, 40, 3, 0)
    model = model_of(nu, similarity).fit(X[:, :1], y)
    check_state(model, X[:, :1])
    assert model.covariate_labels_.tolist() == [0]
    assert model.transform(X[:, :1]).tolist() == X[:, :1].tolist()


def test_one_group_far_from_the_origin():
    """The best intercept changes the gradients of the coefficients: a gap before it says little."""
    for seed in range(12, 24):
        rng = np.random.default_rng(seed)
        y = np.repeat([0, 1], 40)
        X = 3 + 2 * y[:, None] + rng.normal(size=(80, 2))
        for tol in 10.0 ** -np.arange(4, 10):
            model = ConvexCovariateClustering(1e3, tol=tol).fit(
                sparse.csr_array(X), y
            )  # a dense table is centred
            assert model.duality_gap_ <= tol
            assert model.n_iter_ < 20


@pytest.mark.slow_except(4)
@pytest.mark.parametrize(
    "options",
    [{"fusion_penalty": 0.5}, {"fusion_penalty": 0.5, "sparsity": 0.5}, {"sparsity": [8.0, 1.0]}, {}],
)
@pytest.mark.parametrize("solver", ["certified", "admm"])
def test_columns_far_from_the_origin(solver, options):
    """Such as times and numbers of accounts: the intercept makes up for where the columns lie."""
    X, y, S = ref.recipe("dense", 6, 60, 3, 0)
    X -= X.mean(axis=0)
    far = np.array([0.0, 1e3, 1e6, 1e9, -1e9, 3.0])
    options = {"similarity": S, "tol": 1e-12, "solver": solver, **options}
    near, model = (ConvexCovariateClustering(**options).fit(rows, y) for rows in (X, X + far))
    assert model.duality_gap_ <= 1e-12
    assert model.path_.n_clusters.tolist() == near.path_.n_clusters.tolist()
    np.testing.assert_allclose(model.path_.objective, near.path_.objective, rtol=1e-6)
    if "fusion_penalty" in options:  # evidence depends on where the columns lie
        np.testing.assert_allclose(model.coef_, near.coef_, rtol=0, atol=1e-5)
        np.testing.assert_allclose(model.predict_proba(X + far), near.predict_proba(X), rtol=0, atol=1e-4)


def test_enough_sparsity_leaves_the_intercept():
    X, y, S = ref.recipe("dense", 8, 60, 3, 0)
    model = model_of(1.0, S, sparsity=1e4).fit(X, y)
    assert not model.coef_.any()
    assert model.covariate_labels_.tolist() == [0] * 8
    share = np.bincount(y) / len(y)
    np.testing.assert_allclose(model.predict_proba(X[:2]), [share, share], rtol=1e-6)
    assert model.objective_ == pytest.approx(-(np.bincount(y) * np.log(share)).sum(), rel=1e-9)


def test_constant_and_copied_columns():
    X, y, _ = ref.recipe("chain", 6, 60, 3, 1)
    X[:, 0], X[:, 3] = 0.0, X[:, 2]
    for similarity in (None, "knn"):
        check_state(model_of(1.0, similarity).fit(X, y), X)
    labels = model_of(0.1, np.ones((6, 6))).fit(X, y).covariate_labels_
    assert labels[2] == labels[3]


# ---- similarities ----


def test_forms_of_a_similarity_are_equal():
    X, y, S = ref.recipe("knn", 12, 60, 3, 1)
    model = model_of(1.0, S).fit(X, y)
    diagonal = S + np.diag(np.arange(12.0))
    stored = (
        sparse.csr_array(S),
        sparse.csc_matrix(S),
        sparse.coo_array(S),
        S.tolist(),
        pd.DataFrame(S),
        np.asfortranarray(S),
    )
    for form in (*stored, diagonal, lambda table: S):
        assert_same_bits(model_of(1.0, form).fit(X, y), model)
    np.testing.assert_array_equal(
        model_of(1.0, (S > 0)).fit(X, y).coef_, model_of(1.0, (S > 0).astype(int)).fit(X, y).coef_
    )


def test_similarities_by_name():
    X, y, _ = ref.recipe("chain", 14, 60, 3, 1)
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
    np.testing.assert_allclose(
        S[np.ix_(rest, rest)], np.where(near | near.T, expected, 0.0), rtol=1e-12, atol=1e-14
    )


@pytest.mark.parametrize("origin", [0.0, 3.0, 100.0])
def test_correlations_of_sparse_columns_are_those_of_dense_ones(origin):
    """Sums of products less the product of the means: none of it may be left out where means are not 0."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3))[:, rng.integers(0, 3, 9)] + rng.normal(size=(40, 9)) + origin
    X[:, 0] = np.where(rng.random(40) < 0.5, 0.0, X[:, 0])
    dense, thin = (correlation_similarity(each, 4).toarray() for each in (X, sparse.csr_array(X)))
    np.testing.assert_allclose(thin, dense, atol=1e-9)
    assert (dense > 0).sum() > 9


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


@pytest.mark.parametrize("similarity", [correlation_similarity, knn_similarity])
@pytest.mark.parametrize("wrong", [0, -1, 1.5, "a", None, True])
def test_numbers_of_neighbours_are_checked(similarity, wrong):
    X = np.random.default_rng(0).normal(size=(9, 4))
    with pytest.raises((TypeError, ValueError), match=r"n_neighbors must be a whole number >= 1, got"):
        similarity(X, wrong)


def test_forms_of_the_columns_of_correlations():
    X = np.random.default_rng(0).normal(size=(30, 4)) + np.arange(30)[:, None] / 10.0
    expected = correlation_similarity(X, 2).toarray()
    for form in (X.tolist(), pd.DataFrame(X, columns=list("abcd")), pl.DataFrame(X), dict(enumerate(X.T))):
        np.testing.assert_array_equal(correlation_similarity(form, 2).toarray(), expected)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda X: X[:, 0], "Expected 2D array, got 1D array"),
        (lambda X: [["a", "b"], ["c", "d"]], "Column 'x0' cannot be read as numbers"),
        (lambda X: np.where(X[2, 1] == X, np.nan, X), "1 missing cell.*in column 'x1', row 2.*drop these"),
        (lambda X: sparse.csr_array(np.where(X[2, 1] == X, np.nan, X)), "1 missing cell.*'x1', row 2"),
        (lambda X: np.where(X[2, 1] == X, np.inf, X), "contains infinity: column 'x1'"),
        (lambda X: X * 1e200, "Column 'x0' ranges from .*scale it down"),
    ],
)
def test_columns_without_correlations(change, words):
    X = np.random.default_rng(0).normal(size=(9, 3))
    with pytest.raises((TypeError, ValueError), match=words):
        correlation_similarity(change(X))


# ---- the path ----


def test_the_default_path_ends_where_all_are_alone():
    X, y, S = ref.recipe("dense", 8, 60, 3, 2)
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
    X, y, S = ref.recipe("dense", 12, 80, 3, 4)
    path = np.geomspace(40, 0.01, 25)
    model = model_of(path, S, sparsity=sparsity).fit(X, y)
    frame = model.path_
    assert isinstance(frame, pd.DataFrame)
    assert list(frame.columns) == [
        "fusion_penalty",
        "n_clusters",
        "labels",
        "objective",
        "gap",
        "evidence",
        "coefficients",
    ]
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
    assert (model.fusion_penalty_, model.objective_, model.duality_gap_) == (
        best["fusion_penalty"],
        best["objective"],
        best["gap"],
    )


def test_one_penalty_has_one_point_and_no_evidence():
    X, y, S = ref.recipe("dense", 8, 60, 3, 2)
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
    X, y, S = ref.recipe("dense", 12, 80, 3, 4)
    frame = ConvexCovariateClustering(similarity=S).fit(X, y).path_
    keys = [labels.tobytes() for labels in frame["labels"]]
    assert len(scored) == len(set(keys)) < len(keys)
    assert len(set(zip(keys, frame["evidence"], strict=True))) == len(scored)


@pytest.mark.parametrize("selection", ["evidence", "evidence-full"])
def test_a_path_returns_the_map_fit_whose_evidence_is_highest(selection):
    X, y, S = ref.recipe("dense", 10, 80, 3, 4)
    model = model_of(np.geomspace(40, 0.01, 15), S, selection=selection).fit(X, y)
    check_state(model, X)
    fitted = ref_evidence.map_fit(X, y, model.covariate_labels_, model.sigma_)
    np.testing.assert_allclose(
        model.coef_, fitted.B[:, model.covariate_labels_], rtol=0, atol=1e-4 * np.abs(fitted.B).max()
    )
    kind = "full" if selection == "evidence-full" else "diagonal"
    for labels, evidence in zip(model.path_["labels"], model.path_["evidence"], strict=True):
        assert evidence == pytest.approx(
            ref_evidence.log_evidence(X, y, labels, model.sigma_, kind), rel=1e-5, abs=1e-4
        )


@pytest.mark.parametrize("agree", [True, False])
def test_synthetic_groups_are_found(agree):
    X, y, S, truth = ref.synthetic(40, 40, agree, 1)
    model = ConvexCovariateClustering(similarity=S).fit(X, y)
    assert any(np.array_equal(labels, truth) for labels in model.path_["labels"])
    assert adjusted_mutual_info_score(truth, model.covariate_labels_, average_method="max") >= 0.9
    assert model.sigma_ in SIGMAS
