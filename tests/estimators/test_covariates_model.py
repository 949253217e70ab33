"""Convex covariate clustering as an estimator: evidence, rows, frames, sparse tables, threads, bad input."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.cluster import SpectralClustering
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import StratifiedKFold

from craftc import ConvexCovariateClustering
from craftc._fusion.datafits import Multinomial, column_sums
from craftc.covariates import correlation_similarity, knn_similarity
from craftc.covariates.evidence import SIGMAS, log_evidence, map_fit, sigma_by_folds
from craftc.covariates.similarity import graph_of
from tests.common import ROOT
from tests.estimators.test_covariates import assert_same_bits, check_state, model_of
from tests.reference import covariates as ref
from tests.reference import covariates_evidence as ref_evidence

# ---- evidence ----


@pytest.mark.parametrize("sigma", [1e-3, 0.1, 1.0, 10.0])
@pytest.mark.parametrize("seed", range(3))
def test_evidence_equals_the_reference(seed, sigma):
    rng = np.random.default_rng(seed)
    X, y, _ = ref.recipe("chain", 9, 70, 2 + seed, seed)
    labels = ref.canonical(rng.integers(0, 4, 9)).astype(np.int32)
    m, loss = int(labels.max()) + 1, Multinomial(y, y.max() + 1)
    columns = column_sums(X, labels, m)
    np.testing.assert_allclose(columns, ref.with_ones(X @ ref.expansion(labels)), rtol=0, atol=1e-13)
    ours, theirs = map_fit(columns, loss, sigma), ref_evidence.map_fit(X, y, labels, sigma)
    # a Newton step that promises less than 1e-10 of the objective is not taken: its length is of the order of
    # 1e-5
    np.testing.assert_allclose(
        loss.basis @ ours.theta[:-1].T, theirs.B, rtol=0, atol=1e-4 * np.abs(theirs.B).max()
    )
    np.testing.assert_allclose(loss.basis @ ours.theta[-1], theirs.beta0, rtol=0, atol=1e-4)
    for kind in ("diagonal", "full"):
        evidence = log_evidence(columns, loss, ours, sigma, kind == "full")
        assert evidence == pytest.approx(ref_evidence.log_evidence(X, y, labels, sigma, kind), rel=1e-6)


def test_a_warm_start_finds_the_same_map():
    X, y, _ = ref.recipe("chain", 6, 70, 3, 0)
    columns, loss = ref.with_ones(X), Multinomial(y, 3)
    cold = map_fit(columns, loss, 1.0)
    warm = map_fit(columns, loss, 1.0, map_fit(columns, loss, 0.01).theta)
    np.testing.assert_allclose(warm.theta, cold.theta, rtol=0, atol=1e-4)


@pytest.mark.parametrize("n", [30, 80])
def test_sigma_by_folds_equals_the_reference(n):
    X, y, _ = ref.recipe("chain", 5, n, 4, 1)
    k = 5 if n / 20 >= 2 else 2
    folds = np.empty(n, int)
    for fold, (_, left) in enumerate(StratifiedKFold(k, shuffle=True, random_state=0).split(X, y)):
        folds[left] = fold
    expected = ref_evidence.sigma_by_cv(X, y, np.arange(5), SIGMAS, folds=folds)
    assert sigma_by_folds(ref.with_ones(X), y, 4) == expected.sigma


def test_classes_too_rare_to_leave_out():
    X, y, S = ref.recipe("chain", 5, 40, 2, 0)
    y[:] = 0
    y[0] = 1
    model = model_of([5.0, 0.5, 0.05], S).fit(X, y)
    assert model.sigma_ == 1.0
    check_state(model, X)


# ---- rows ----


@pytest.mark.parametrize("c", [2, 4])
@pytest.mark.parametrize("nu", [2.0, [8.0, 2.0, 0.5]])
def test_scores_probabilities_and_sums_agree(c, nu):
    X, y, S = ref.recipe("dense", 10, 80, c, 4)
    names = np.array(["ash", "birch", "cedar", "date"])
    model = model_of(nu, S).fit(X, names[y])
    assert model.classes_.tolist() == names[:c].tolist()
    proba, scores, sums = model.predict_proba(X), model.decision_function(X), model.transform(X)
    assert (proba.shape, sums.shape) == ((80, c), (80, model.n_clusters_))
    np.testing.assert_allclose(proba.sum(axis=1), 1.0, rtol=1e-13)
    np.testing.assert_array_equal(model.predict(X), names[proba.argmax(axis=1)])
    full = X @ model.coef_.T + model.intercept_
    np.testing.assert_allclose(
        np.log(proba), full - np.log(np.exp(full).sum(axis=1, keepdims=True)), rtol=0, atol=1e-10
    )
    np.testing.assert_allclose(scores, full[:, 1] - full[:, 0] if c == 2 else full, rtol=0, atol=1e-12)
    if c == 2:
        np.testing.assert_array_equal(model.predict(X) == "birch", scores > 0)
    np.testing.assert_allclose(sums, X @ ref.expansion(model.covariate_labels_), rtol=0, atol=1e-12)
    first = np.unique(model.covariate_labels_, return_index=True)[1]
    np.testing.assert_allclose(sums @ model.coef_[:, first].T + model.intercept_, full, rtol=0, atol=1e-10)
    assert model.score(X, names[y]) == pytest.approx((names[y] == model.predict(X)).mean())


def test_pickle_clone_and_refit():
    X, y, S = ref.recipe("dense", 10, 80, 3, 4)
    model = model_of([8.0, 2.0, 0.5], S).fit(X, y)
    for twice in (
        pickle.loads(pickle.dumps(model)),
        clone(model).fit(X, y),
        model_of([8.0, 2.0, 0.5], S).fit(X.tolist(), y.tolist()),
    ):
        assert_same_bits(twice, model)
        np.testing.assert_array_equal(twice.predict_proba(X), model.predict_proba(X))
        assert twice.path_["evidence"].tolist() == model.path_["evidence"].tolist()
    assert_same_bits(model.set_params(fusion_penalty=2.0).fit(X, y), model_of(2.0, S).fit(X, y))


def test_data_frames_and_names():
    X, y, S = ref.recipe("dense", 6, 60, 3, 4)
    frame = pd.DataFrame(X, columns=list("abcdef"))
    model = model_of(1.0, S).fit(frame, pd.Series(y))
    assert model.feature_names_in_.tolist() == list("abcdef")
    plain = model_of(1.0, S).fit(X, y)
    assert_same_bits(model, plain)
    np.testing.assert_array_equal(model.predict(frame), plain.predict(X))
    np.testing.assert_array_equal(model.predict(frame[list("fedcba")]), plain.predict(X))
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[list("fedcb")])


@pytest.mark.parametrize("dtype", [np.float32, np.int64])
def test_other_numbers(dtype):
    X, y, S = ref.recipe("dense", 6, 60, 3, 4)
    X = (4 * X).astype(dtype)
    assert_same_bits(model_of(1.0, S).fit(X, y), model_of(1.0, S).fit(np.asfortranarray(X, np.float64), y))


def test_verbose_prints_a_line_per_penalty(capsys):
    X, y, S = ref.recipe("dense", 6, 60, 3, 4)
    model_of([4.0, 1.0], S, verbose=1).fit(X, y)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines] == ["penalty 4", "penalty 1"]
    model_of([4.0, 1.0], S).fit(X, y)
    assert capsys.readouterr().out == ""


@pytest.mark.slow
def test_the_same_bits_whatever_the_threads():
    script = (
        "import hashlib, numpy as np; from craftc import ConvexCovariateClustering as C; from "
        "tests.reference.covariates import recipe\n"
        "X, y, S = recipe('dense', 60, 400, 3, 1)\n"
        "for similarity in (S, None, 'knn'):\n"
        "    m = C(np.geomspace(40, 1, 5), similarity=similarity).fit(X, y)\n"
        "    print(hashlib.sha1(m.coef_.tobytes() + m.intercept_.tobytes()).hexdigest(), "
        "m.objective_.hex(), m.covariate_labels_.tolist())"
    )
    seen = set()
    for threads in ("1", "2"):
        blas = (
            threads if np.lib.NumpyVersion(np.__version__) >= "2.0.0" else "1"
        )  # older ones bring a BLAS that adds in another order
        environment = {
            **os.environ,
            "OPENBLAS_NUM_THREADS": blas,
            "OMP_NUM_THREADS": threads,
            "PYTHONPATH": str(ROOT),
        }
        done = subprocess.run(
            [sys.executable, "-c", script],
            env=environment,
            check=True,
            capture_output=True,
            text=True,
            cwd=ROOT,
        )
        seen.add(done.stdout)
    assert len(seen) == 1


# ---- bad input ----

BAD = np.ones((4, 4))
ASYMMETRIC, NEGATIVE, WITH_NAN, ENDLESS = BAD.copy(), BAD.copy(), BAD.copy(), BAD.copy()
ASYMMETRIC[0, 1] = 2.0
NEGATIVE[0, 1] = NEGATIVE[1, 0] = -1.0
WITH_NAN[0, 1] = WITH_NAN[1, 0] = np.nan
ENDLESS[0, 1] = ENDLESS[1, 0] = np.inf
ONE_WAY = np.diag([1.0, 0.0, 1.0], 1)
SPARSE_ASYMMETRIC = sparse.csr_array(ASYMMETRIC)

PARAMETERS = [
    (
        {"similarity": ASYMMETRIC},
        r"similarity must be symmetric, got a difference of .* to its transpose; pass \(S \+ S.T\) / 2",
    ),
    ({"similarity": ONE_WAY}, "similarity must be symmetric"),
    ({"similarity": SPARSE_ASYMMETRIC}, "similarity must be symmetric"),
    ({"similarity": NEGATIVE}, "similarity must be finite and >= 0"),
    ({"similarity": WITH_NAN}, "similarity must be finite and >= 0"),
    ({"similarity": sparse.csr_array(WITH_NAN)}, "similarity must be finite and >= 0"),
    ({"similarity": ENDLESS}, "similarity must be finite and >= 0"),
    (
        {"similarity": BAD[:3]},
        r"similarity must have shape \(4, 4\), one row and column for every covariate, got \(3, 4\)",
    ),
    ({"similarity": np.ones((5, 5))}, r"similarity must have shape \(4, 4\).*got \(5, 5\)"),
    ({"similarity": np.ones(4)}, r"similarity must have shape \(4, 4\).*got \(4,\)"),
    ({"similarity": lambda X: X}, r"similarity must have shape \(4, 4\)"),
    ({"similarity": BAD.astype(str)}, "similarity must hold numbers"),
    ({"similarity": BAD + 0j}, "similarity must hold numbers"),
    (
        {"similarity": "cosine"},
        r"similarity must be one of 'correlation', 'knn' or a callable, or an array \(d, d\), got 'cosine'",
    ),
    ({"fusion_penalty": -1.0}, "fusion_penalty must be a finite number >= 0 or an array of them"),
    ({"fusion_penalty": np.nan}, "fusion_penalty must be a finite number >= 0"),
    ({"fusion_penalty": np.inf}, "fusion_penalty must be a finite number >= 0"),
    ({"fusion_penalty": []}, "fusion_penalty must be a finite number >= 0"),
    ({"fusion_penalty": [[2.0, 1.0]]}, "fusion_penalty must be a finite number >= 0"),
    ({"fusion_penalty": [2.0, -1.0]}, "fusion_penalty must be a finite number >= 0"),
    (
        {"fusion_penalty": [1.0, 2.0]},
        "fusion_penalty must decrease along a path.*Sort them, the largest first",
    ),
    ({"fusion_penalty": [2.0, 2.0]}, "fusion_penalty must decrease along a path"),
    ({"ridge": -0.1}, "ridge must be a number >= 0"),
    ({"ridge": np.nan}, "ridge must be a number >= 0"),
    ({"ridge": "some"}, "ridge must be a number >= 0"),
    ({"sparsity": -1}, "sparsity must be a finite number >= 0"),
    ({"sparsity": np.inf}, "sparsity must be a finite number >= 0"),
    ({"sparsity": None}, "sparsity must be a finite number >= 0"),
    ({"solver": "magic"}, "solver must be one of 'certified'"),
    ({"solver": None}, "solver must be one of"),
    ({"selection": "luck"}, "selection must be one of 'evidence', 'evidence-full', got 'luck'"),
    ({"tol": 0}, "tol must be a number > 0"),
    ({"tol": "fine"}, "tol must be a number > 0"),
    ({"max_iter": 0}, "max_iter must be a whole number >= 1"),
    ({"max_iter": 1.5}, "max_iter must be a whole number"),
    ({"verbose": -1}, "verbose must be a whole number >= 0"),
]
ROWS = np.random.default_rng(0).normal(size=(20, 4))
CLASSES = np.arange(20) % 2


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    PARAMETERS,
    ids=[f"{k}-{next(iter(p))}" for k, (p, _) in enumerate(PARAMETERS)],
)
def test_bad_parameters(parameters, sentence):
    model = ConvexCovariateClustering(**{"fusion_penalty": 1.0, "similarity": BAD, **parameters})
    with pytest.raises((ValueError, TypeError), match=sentence):
        model.fit(ROWS, CLASSES)
    assert not hasattr(model, "coef_")


@pytest.mark.parametrize(
    ("X", "y", "sentence"),
    [
        (
            ROWS,
            np.zeros(20, int),
            r"y must hold at least two classes, got one class: 0; a classifier needs two",
        ),
        (ROWS, ["only"] * 20, "y must hold at least two classes, got one class: .*only"),
        (ROWS, np.linspace(0, 1, 20), "Unknown label type"),
        (ROWS, CLASSES[:19], "inconsistent numbers of samples"),
    ],
)
def test_bad_classes(X, y, sentence):
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


def test_the_best_is_the_point_whose_evidence_is_highest():
    X, y, S = ref.recipe("blocks", 12, 60, 3, 0)
    model = model_of([20.0, 2.0, 0.5, 0.1], S).fit(X, y)
    frame = model.path_
    row = frame.iloc[int(frame["evidence"].argmax())]
    assert (model.best_.fusion_penalty, model.best_.n_clusters, model.best_.evidence) == (
        row.fusion_penalty,
        row.n_clusters,
        row.evidence,
    )
    np.testing.assert_array_equal(model.best_.labels, model.covariate_labels_)
    assert model.best_.coefficients.shape == (model.n_clusters_, 3)


def test_no_path_before_a_fit():
    with pytest.raises(NotFittedError):
        _ = ConvexCovariateClustering().path_


def test_input_is_left_as_it_is():
    X, y, S = ref.recipe("dense", 6, 60, 3, 4)
    kept = X.copy(), y.copy(), S.copy()
    near = sparse.csr_array(S)
    model_of([4.0, 1.0], S, sparsity=0.5).fit(X, y)
    model_of([4.0, 1.0], near).fit(X, y)
    for ours, before in zip((X, y, S), kept, strict=True):
        np.testing.assert_array_equal(ours, before)
    np.testing.assert_array_equal(near.toarray(), S)


# ---- selection before clustering ----


def of_few(seed=0, d=12):
    """Two groups of three covariates that matter, and others that do not."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(400, d))
    weight = np.r_[np.full(3, 1.5), np.full(3, -1.5), np.zeros(d - 6)]
    return X, (X @ weight + rng.logistic(size=400) > 0).astype(int), np.ones((d, d)) - np.eye(d)


@pytest.mark.parametrize(
    ("similarity", "solver"),
    [
        ("array", "certified"),
        ("sparse", "certified"),
        ("callable", "certified"),
        ("sparse", "admm"),
        pytest.param("array", "paper", marks=pytest.mark.slow),
    ],
)
def test_selection_before_clustering(similarity, solver):
    X, y, S = of_few()
    given = {
        "array": S,
        "sparse": sparse.csr_array(S),
        "callable": lambda X: np.ones((X.shape[1], X.shape[1])),
    }[similarity]
    gammas = 64.0 * 2.0 ** -np.arange(0, 12, 3 if solver == "paper" else 1)
    nus = (
        None if solver == "certified" else 400.0 * 2.0 ** -np.arange(9)
    )  # the usual 81 would take the others long
    model = ConvexCovariateClustering(nus, similarity=given, sparsity=gammas, solver=solver).fit(X, y)
    frame = model.sparsity_path_
    assert frame.columns.tolist() == ["sparsity", "n_covariates", "objective", "gap", "evidence"]
    np.testing.assert_array_equal(frame.sparsity, gammas)
    assert model.sparsity_ == gammas[frame.evidence.to_numpy().argmax()]
    assert (model.coef_[:, 6:] == 0).all()
    assert (model.coef_[:, :6] != 0).all()
    assert model.covariate_labels_.tolist() == [0, 0, 0, 1, 1, 1] + [2] * 6
    assert all((labels[6:] == labels[6]).all() for labels in model.path_.labels)
    alone = ConvexCovariateClustering(0.0, similarity=S, sparsity=model.sparsity_).fit(X, y)
    assert np.flatnonzero(alone.coef_[0]).tolist() == list(range(6))
    point = frame[frame.sparsity == model.sparsity_].iloc[0]
    assert alone.objective_ == pytest.approx(point.objective, rel=1e-4 if solver == "paper" else 1e-6)
    again = ConvexCovariateClustering(
        model.path_.fusion_penalty.to_numpy(), similarity=S[:6, :6], solver=solver
    ).fit(X[:, :6], y)
    np.testing.assert_array_equal(again.coef_, model.coef_[:, :6])
    assert model.transform(X).shape == (400, 3)
    names = [f"convexcovariateclustering{k}" for k in range(3)]
    assert model.get_feature_names_out().tolist() == names
    assert model.set_output(transform="pandas").transform(X).columns.tolist() == names


def test_the_evidence_of_a_selection_is_that_of_its_covariates():
    X, y, S = of_few()
    model = ConvexCovariateClustering(1.0, similarity=S, sparsity=np.array([40.0, 4.0, 0.4])).fit(X, y)
    datafit = Multinomial(y, 2)
    scores = []
    for gamma in (40.0, 4.0, 0.4):
        own = np.flatnonzero(ConvexCovariateClustering(0.0, similarity=S, sparsity=gamma).fit(X, y).coef_[0])
        columns = np.column_stack([X[:, own], np.ones(400)])
        scores.append((own, columns))
    sigma = sigma_by_folds(scores[-1][1], y, 2, False)
    evidence = [
        log_evidence(columns, datafit, map_fit(columns, datafit, sigma), sigma, False)
        for _, columns in scores
    ]
    np.testing.assert_allclose(model.sparsity_path_.evidence, evidence, rtol=1e-6)
    assert model.sparsity_path_.n_covariates.tolist() == [len(own) for own, _ in scores]


def test_selections_that_cannot_be():
    X, y, S = of_few()
    with pytest.raises(
        ValueError, match="No covariate has a coefficient at sparsity=1000, the smallest value"
    ):
        ConvexCovariateClustering(similarity=S, sparsity=[2000.0, 1000.0]).fit(X, y)
    with pytest.raises(ValueError, match="sparsity must decrease along a path"):
        ConvexCovariateClustering(similarity=S, sparsity=[1.0, 2.0]).fit(X, y)
    with pytest.raises(AttributeError, match="sparsity_path_ exists only where sparsity is an array"):
        model_of(1.0, S).fit(X, y).sparsity_path_  # noqa: B018


# ---- weights and missing cells ----


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("c", [2, 6])
@pytest.mark.parametrize(
    "parameters",
    [
        {"fusion_penalty": 1.0},
        {"fusion_penalty": [8.0, 4.0, 1.0, 0.2], "selection": "evidence-full"},
        {"fusion_penalty": 0.5, "sparsity": 0.5, "similarity": None},
        {"fusion_penalty": [2.0, 0.5], "sparsity": [8.0, 2.0], "similarity": None},
        {"fusion_penalty": 1.0, "solver": "admm"},
    ],
)
def test_a_weight_is_a_number_of_rows(parameters, c, form):
    X, y, S = ref.recipe("chain", 8, 60, c, 3)
    X[np.abs(X) < 0.3] = 0.0
    weight = np.random.default_rng(1).integers(0, 4, 60)
    weight[[np.flatnonzero(y == k)[0] for k in range(c)]] = 2
    at = np.repeat(np.arange(60), weight)
    model = ConvexCovariateClustering(**{"similarity": S, "tol": 1e-9, **parameters})
    ours, theirs = model.fit(form(X), y, sample_weight=weight), clone(model).fit(form(X[at]), y[at])
    np.testing.assert_array_equal(ours.covariate_labels_, theirs.covariate_labels_)
    assert ours.duality_gap_ <= 1e-9
    assert ours.objective_ == pytest.approx(theirs.objective_, rel=1e-8)
    np.testing.assert_allclose(ours.path_.evidence, theirs.path_.evidence, rtol=1e-6)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=0, atol=1e-4 * np.abs(theirs.coef_).max())


@pytest.mark.parametrize("name", ["correlation", "knn"])
def test_built_in_similarities_count_weights(name):
    rng = np.random.default_rng(0)
    X, weight = rng.normal(size=(40, 6)) @ rng.normal(size=(6, 6)), rng.integers(0, 3, 40)
    kept = X[weight > 0], weight[weight > 0].astype(float)
    ours = graph_of(name, kept[0], 0.0, None, kept[1])
    theirs = graph_of(name, np.repeat(X, weight, axis=0), 0.0)
    np.testing.assert_array_equal(ours.edge, theirs.edge)
    np.testing.assert_allclose(ours.weight, theirs.weight, rtol=1e-12)
    assert not np.allclose(ours.weight, graph_of(name, kept[0], 0.0).weight[: len(ours.weight)], rtol=1e-6)


def test_scikit_learn_reads_similarities():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 18)) + rng.normal(size=(40, 1))
    for S in (knn_similarity(X.T), correlation_similarity(X)):
        found = SpectralClustering(3, affinity="precomputed", random_state=0).fit(S)
        assert len(found.labels_) == 18


def test_weights_that_are_not_whole():
    X, y, S = ref.recipe("dense", 8, 60, 3, 4)
    weight = np.random.default_rng(1).uniform(0.2, 3.0, 60)
    plain, model = model_of(2.0, S).fit(X, y), model_of(2.0, S).fit(X, y, sample_weight=weight)
    assert model.duality_gap_ <= model.tol
    logits = X @ model.coef_.T + model.intercept_
    loss = np.log(np.exp(logits).sum(axis=1)) - logits[np.arange(60), y]
    apart = np.linalg.norm(model.coef_[:, :, None] - model.coef_[:, None], axis=0)
    penalty = (S * apart).sum() + model.ridge * (model.coef_**2).sum()
    assert model.objective_ == pytest.approx(weight @ loss + penalty, rel=1e-9)
    assert not np.allclose(model.coef_, plain.coef_, atol=1e-3)
    assert_same_bits(model_of(2.0, S).fit(X, y, sample_weight=np.ones(60)), plain)
    path = model_of([4.0, 1.0, 0.2], S).fit(X, y, sample_weight=weight)
    assert (path.path_.gap <= path.tol).all()
    assert path.sigma_ in SIGMAS
    for bad in (weight[:5], -weight, np.zeros(60), np.full(60, np.nan)):
        with pytest.raises(ValueError, match="ample"):
            model_of(2.0, S).fit(X, y, sample_weight=bad)
    with pytest.raises(ValueError, match="at least two classes, got one class: 1"):
        model_of(2.0, S).fit(X, y, sample_weight=y == 1)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array, pd.DataFrame])
def test_missing_cells_become_the_mean_of_their_column(form):
    X, y, S = ref.recipe("dense", 8, 60, 3, 4)
    rng = np.random.default_rng(0)
    X[np.abs(X) < 0.2] = 0.0
    gone, weight = rng.random(X.shape) < 0.1, rng.integers(0, 3, 60) + (np.arange(60) < 9)
    gaps = np.where(gone, np.nan, X)
    means = np.ma.average(np.ma.array(X, mask=gone), axis=0, weights=weight).data
    complete = np.where(gone, means, X)
    nus = [4.0, 1.0, 0.2]
    given = form(gaps)
    model = model_of(nus, S, missing="mean").fit(given, y, sample_weight=weight)
    expected = model_of(nus, S).fit(complete, y, sample_weight=weight)
    np.testing.assert_allclose(model.coef_, expected.coef_, rtol=0, atol=1e-8)
    assert model.duality_gap_ <= model.tol
    np.testing.assert_array_equal(model.predict(given), expected.predict(complete))
    np.testing.assert_allclose(
        model.predict_proba(form(gaps[:9])), expected.predict_proba(complete[:9]), rtol=0, atol=1e-8
    )
    sums = model.transform(given)
    np.testing.assert_allclose(
        sums.toarray() if sparse.issparse(sums) else sums, expected.transform(complete), atol=1e-12
    )
    np.testing.assert_array_equal(np.isnan(given.toarray() if sparse.issparse(given) else given), gone)


def test_missing_cells_are_an_error_unless_asked_for():
    X, y, S = ref.recipe("dense", 8, 60, 3, 4)
    gaps = X.copy()
    gaps[3, 2] = gaps[4, 2] = np.nan
    model = model_of(2.0, S)
    with pytest.raises(ValueError, match=r"contains NaN: 2 missing cell\(s\); pass missing='mean'"):
        model.fit(gaps, y)
    model.fit(X, y)
    for method in (model.predict, model.transform, model.decision_function):
        with pytest.raises(ValueError, match=r"contains NaN: 2 missing cell\(s\)"):
            method(gaps)
    gaps[:, 2] = np.nan
    with pytest.raises(ValueError, match="Column 'x2' has no value"):
        model.set_params(missing="mean").fit(gaps, y)
    gaps[0, 1] = np.inf
    with pytest.raises(ValueError, match="infinity"):
        model.fit(gaps, y)
