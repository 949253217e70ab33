"""Convex clustering of rows: optima against the reference, solvers, paths, invariances, bad input."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from scipy.sparse.csgraph import connected_components
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics import adjusted_rand_score

from craftc import ConvexClustering
from craftc._common import threads
from craftc.convex.choice import is_clear
from craftc.convex.estimator import gaussian_weights
from craftc.covariates import knn_similarity
from tests.common import examples
from tests.reference import covariates as ref
from tests.reference import covariates_points as ref_points

SOLVERS = ("certified", "admm")
KINDS = ("gaussian", "flat", "knn", "chain")


def rows_of(seed, kind=None):
    """Rows in three groups, weights and a penalty between everything fused and everything alone."""
    rng = np.random.default_rng(seed)
    kind = kind or KINDS[int(rng.integers(len(KINDS)))]
    n, p = int(rng.integers(3, 25)), int(rng.integers(1, 5))
    X = 3.0 * rng.normal(size=(3, p))[np.arange(n) * 3 // n] + 0.5 * rng.normal(size=(n, p))
    square = ((X[:, None] - X) ** 2).sum(axis=2)
    W = {
        "gaussian": np.exp(-0.1 * square),
        "flat": np.full((n, n), 1.0 / n),
        "knn": knn_similarity(X, 3).toarray(),
        "chain": np.eye(n, k=1) + np.eye(n, k=-1),
    }[kind]
    return X, (W + W.T) / 2, float(10 ** rng.uniform(-1.5, 0.8))


def blobs(seed=0, each=15, k=3):
    rng = np.random.default_rng(seed)
    truth = np.repeat(np.arange(k), each)
    return 6.0 * np.eye(k)[truth] + 0.6 * rng.normal(size=(k * each, k)), truth


def model_of(penalty, W, **more):
    """An unfitted model with a tight certificate."""
    return ConvexClustering(penalty, weights=W, **{"tol": 1e-8, **more})


def objective_of(X, U, W, penalty):
    i, j, w = ref.edge_list(W)
    return 0.5 * ((X - U) ** 2).sum() + penalty * (w * np.linalg.norm(U[i] - U[j], axis=1)).sum()


def check_state(model, X):
    labels = model.labels_
    assert (labels.dtype, labels.shape) == (np.int32, (len(X),))
    np.testing.assert_array_equal(labels, ref.canonical(labels))
    assert model.n_clusters_ == labels.max() + 1
    assert model.cluster_centers_.shape == (model.n_clusters_, X.shape[1])
    assert np.isfinite(model.cluster_centers_).all()
    assert model.n_features_in_ == X.shape[1]
    # flows along edges sum to nothing
    np.testing.assert_allclose(
        model.cluster_centers_[labels].mean(axis=0), X.mean(axis=0), rtol=1e-6, atol=1e-4
    )


def assert_same_bits(a, b):
    for attribute in ("labels_", "cluster_centers_"):
        np.testing.assert_array_equal(getattr(a, attribute), getattr(b, attribute), err_msg=attribute)
    assert (a.objective_, a.duality_gap_, a.fusion_penalty_) == (
        b.objective_,
        b.duality_gap_,
        b.fusion_penalty_,
    )


# ---- the optimum ----


@pytest.mark.parametrize("solver", SOLVERS)
@examples(25)
@given(seed=st.integers(0, 10**6))
def test_random_problems_equal_the_reference(solver, seed):
    X, W, penalty = rows_of(seed)
    reference = ref_points.convex_clustering(X, W, penalty, max_iter=20000)
    model = model_of(penalty, W, solver=solver).fit(X)
    check_state(model, X)
    floor = 1e-9 * 0.5 * ((X - X.mean(axis=0)) ** 2).sum()
    assert -1e-8 <= model.duality_gap_ <= 1e-8
    assert (
        abs(model.objective_ - reference.objective)
        <= 2e-8 * max(reference.objective, floor) + reference.gap + 1e-3 * floor
    )
    U = model.cluster_centers_[model.labels_]
    assert model.objective_ == pytest.approx(objective_of(X, U, W, penalty), rel=1e-9, abs=1e-3 * floor)
    # J - J* >= |U - U*|^2 / 2
    bound = np.sqrt(2e-8 * max(reference.objective, floor)) + np.sqrt(2 * max(reference.gap, 0.0))
    assert np.linalg.norm(U - reference.U) <= 2 * bound
    if reference.separation > 4 * bound:
        np.testing.assert_array_equal(model.labels_, reference.labels)


def test_a_chain_whose_minimisation_starts_far_away():
    """All rows are fused at first; with multipliers for a nearby optimum every Newton step would end at the
    next kink.
    """
    X, W, penalty = rows_of(655367)
    reference = ref_points.convex_clustering(X, W, penalty, max_iter=20000)
    model = model_of(penalty, W).fit(X)
    assert model.duality_gap_ <= 1e-8
    np.testing.assert_array_equal(model.labels_, reference.labels)


@pytest.mark.parametrize("seed", range(8))
def test_the_solvers_agree(seed):
    X, W, penalty = rows_of(100 + seed, KINDS[seed % 4])
    certified, *others = (ConvexClustering(penalty, weights=W, solver=solver).fit(X) for solver in SOLVERS)
    for other in others:
        assert other.objective_ == pytest.approx(certified.objective_, rel=2e-6)
        np.testing.assert_array_equal(other.labels_, certified.labels_)


@pytest.mark.parametrize("solver", SOLVERS)
def test_blocks_of_a_similarity(solver):
    """Rows of the similarity of covariates as points: its blocks are found."""
    _, _, S, _ = ref.synthetic(40, 40, False, 1)
    model = ConvexClustering(
        [1.0, 0.3, 0.1], weights=lambda P: np.exp(-0.5 * ((P[:, None] - P) ** 2).sum(axis=2)), solver=solver
    ).fit(S)
    blocks = ref.canonical(connected_components(S)[1])
    assert any(np.array_equal(labels, blocks) for labels in model.path_["labels"])


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_search_cut_short_says_so(solver):
    X, W, _ = rows_of(3, "gaussian")
    with pytest.warns(
        ConvergenceWarning, match=r"before convergence; the largest relative duality gap is .* with tol=1e-08"
    ):
        model = model_of(0.3, W, solver=solver, max_iter=1).fit(X)
    assert model.duality_gap_ > 1e-8


# ---- invariances and extremes ----


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("seed", range(4))
def test_order_place_and_scale(seed, solver):
    X, W, penalty = rows_of(seed, KINDS[seed])
    rng = np.random.default_rng(seed)
    model = model_of(penalty, W, solver=solver).fit(X)
    order, turn = rng.permutation(len(X)), np.linalg.qr(rng.normal(size=(X.shape[1],) * 2))[0]
    near = {"rtol": 0, "atol": 4 * np.sqrt(2e-8 * max(model.objective_, 1e-9))}
    centers = model.cluster_centers_[model.labels_]
    for other, expected, back in (
        (
            model_of(penalty, W[np.ix_(order, order)], solver=solver).fit(X[order]),
            model.labels_[order],
            centers[order],
        ),
        (model_of(penalty, W, solver=solver).fit(X + 100.0), model.labels_, centers + 100.0),
        (model_of(penalty, W, solver=solver).fit(X @ turn), model.labels_, centers @ turn),
        (model_of(penalty / 3.7, 3.7 * W, solver=solver).fit(X), model.labels_, centers),
    ):
        np.testing.assert_array_equal(other.labels_, ref.canonical(expected))
        np.testing.assert_allclose(other.cluster_centers_[other.labels_], back, **near)
        assert other.objective_ == pytest.approx(model.objective_, rel=1e-7)
    scaled = model_of(5.0 * penalty, W, solver=solver).fit(5.0 * X)
    np.testing.assert_array_equal(scaled.labels_, model.labels_)
    assert scaled.objective_ == pytest.approx(25.0 * model.objective_, rel=1e-7)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("without", ["penalty", "edges"])
def test_without_fusion_every_row_is_its_own(solver, without):
    X, W, _ = rows_of(1, "gaussian")
    model = (
        model_of(0.0, W, solver=solver)
        if without == "penalty"
        else model_of(2.0, np.zeros_like(W), solver=solver)
    )
    model.fit(X)
    assert model.labels_.tolist() == list(range(len(X)))
    np.testing.assert_allclose(model.cluster_centers_, X, rtol=1e-12, atol=1e-12)
    assert model.objective_ == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_huge_penalty_gives_the_components(solver):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20, 3))
    W = np.triu(rng.random((20, 20)) * (rng.random((20, 20)) < 0.08), 1)
    W += W.T
    model = model_of(1e4, W, solver=solver).fit(X)
    parts = ref.canonical(connected_components(W)[1])
    assert 1 < parts.max() < 15
    np.testing.assert_array_equal(model.labels_, parts)
    E = ref.expansion(parts)
    np.testing.assert_allclose(model.cluster_centers_, (E / E.sum(axis=0)).T @ X, rtol=0, atol=1e-6)


@pytest.mark.filterwarnings("ignore:ConvexClustering chose 2 clusters of equal rows")
@pytest.mark.parametrize("penalty", [None, 1.0, [2.0, 1.0]])
@pytest.mark.parametrize("solver", SOLVERS)
def test_few_and_equal_rows(penalty, solver):
    for X in (
        np.array([[1.0, 2.0]]),
        np.array([[1.0], [4.0]]),
        np.full((6, 2), 3.0),
        np.repeat([[0.0], [9.0]], 5, axis=0),
    ):
        model = ConvexClustering(penalty, solver=solver).fit(X)
        check_state(model, X)
        for same in (np.flatnonzero((row == X).all(axis=1)) for row in X):
            # equal rows that an edge joins are one
            if penalty is not None or len(X) == 6:
                assert len(set(model.labels_[same].tolist())) == 1


# ---- the path ----


@pytest.mark.parametrize("solver", SOLVERS)
def test_the_frame_of_a_path(solver):
    X, W, _ = rows_of(7, "gaussian")
    path = np.geomspace(5, 0.01, 12)
    model = model_of(path, W, solver=solver).fit(X)
    check_state(model, X)
    frame = model.path_
    assert frame.columns.tolist() == ["fusion_penalty", "n_clusters", "labels", "objective", "gap"]
    assert frame["fusion_penalty"].tolist() == path.tolist()
    assert (np.diff(frame["objective"]) <= 1e-9).all()
    assert frame["gap"].between(-1e-8, 1e-8).all()
    assert [int(labels.max()) + 1 for labels in frame["labels"]] == frame["n_clusters"].tolist()
    for k in (0, 4, 8, 11):
        alone = model_of(path[k], W).fit(X)
        assert frame["objective"][k] == pytest.approx(alone.objective_, rel=2e-8)
        np.testing.assert_array_equal(frame["labels"][k], alone.labels_)
    assert model.fusion_penalty_ in path


@pytest.mark.slow_except(3)
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("kind", KINDS)
def test_the_default_path_begins_with_the_components(kind, solver):
    X, W, _ = rows_of(12, kind)
    frame = ConvexClustering(weights=W, solver=solver, n_clusters=len(X)).fit(X).path_
    np.testing.assert_array_equal(frame["labels"][0], ref.canonical(connected_components(W)[1]))
    assert (frame["fusion_penalty"] > 0).all()
    assert (np.diff(frame["fusion_penalty"]) < 0).all()
    assert len(frame) <= 200


@pytest.mark.slow
@pytest.mark.parametrize("solver", SOLVERS)
def test_groups_are_found(solver):
    X, truth = blobs(each=15 if solver == "certified" else 8)  # a path of first-order steps takes long
    for model in (
        ConvexClustering(solver=solver).fit(X),
        ConvexClustering(n_clusters=3, solver=solver).fit(X),
    ):
        check_state(model, X)
        assert adjusted_rand_score(truth, model.labels_) == 1.0


@pytest.mark.parametrize("far", [15.0, 40.0, 90.0])
def test_a_row_far_from_all_others(far):
    """Its edges weigh next to nothing: the path must not be spent on them."""
    X, truth = blobs()
    X, truth = np.vstack([X, np.full((1, 3), far)]), np.append(truth, 3)
    model = ConvexClustering(n_clusters=4).fit(X)
    assert np.isfinite(model.path_["fusion_penalty"]).all()
    assert adjusted_rand_score(truth, model.labels_) == 1.0
    with pytest.warns(UserWarning, match="fewer than n_clusters=8: its path goes on with"):
        assert ConvexClustering(n_clusters=8).fit(X).n_clusters_ == 4


@pytest.mark.filterwarnings("ignore:Columns differ in scale")
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("size", [1e6, 1e10, 1e14])
def test_an_outlier_costs_few_steps(seed, size):
    """Next to it the other coordinates are rounding, which no step makes smaller."""
    X = np.random.default_rng(seed).normal(size=(25, 7))
    X[3, 2] *= size
    model = ConvexClustering().fit(X)
    assert model.n_iter_ < 200
    assert max(model.path_["gap"]) <= model.tol
    assert (model.labels_ == np.where(np.arange(25) == 3, 1, 0)).all()


@pytest.mark.filterwarnings("ignore:ConvexClustering found")
@pytest.mark.parametrize("wanted", [1, 2, 3, 5, 45, 99])
def test_so_many_clusters(wanted):
    X, _ = blobs()
    near = np.exp(-0.05 * ((X[:, None] - X) ** 2).sum(axis=2))
    model = ConvexClustering(n_clusters=wanted, weights=near).fit(X)
    counts = model.path_["n_clusters"].to_numpy()
    assert model.n_clusters_ == counts[counts <= wanted].max()
    assert (counts[:-1] <= wanted).sum() > 0
    assert counts[-1] >= min(wanted, 45)
    assert (np.diff(model.path_["fusion_penalty"]) < 0).all()
    given_path = ConvexClustering([50.0, 1.0, 0.001], n_clusters=wanted, weights=near).fit(X)
    counts = given_path.path_["n_clusters"].to_numpy()
    assert given_path.n_clusters_ == (
        counts[counts <= wanted].max() if (counts <= wanted).any() else counts.min()
    )


def test_another_number_than_the_one_asked_for():
    X, _ = blobs()
    with pytest.warns(
        UserWarning, match=r"found 45 cluster\(s\), fewer than n_clusters=99, the most of its path"
    ):
        ConvexClustering(n_clusters=99).fit(X)
    with pytest.warns(UserWarning, match=r"fewer than n_clusters=20: its path goes on with \d+ clusters at"):
        model = ConvexClustering([9.0, 0.001], n_clusters=20).fit(X)
    assert model.n_clusters_ == model.path_["n_clusters"].min()
    with pytest.warns(
        UserWarning, match=r"more than n_clusters=2, the fewest .* larger values of fusion_penalty"
    ):
        model = ConvexClustering([0.3, 0.001], n_clusters=2).fit(X)
    assert model.n_clusters_ == model.path_["n_clusters"].min() < model.path_["n_clusters"].max()
    with pytest.warns(UserWarning, match=r"found 45 .* more than n_clusters=2.* pass other weights"):
        ConvexClustering(n_clusters=2, weights=np.zeros((45, 45))).fit(X)


def test_weights_of_near_rows():
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(8, 2)), 50.0 + rng.normal(size=(6, 2)), [[-900.0, 0.0]]])
    W = gaussian_weights(X, 2).toarray()
    distance = np.sqrt(((X[:, None] - X) ** 2).sum(axis=2))
    order = np.argsort(distance + np.diag(np.full(15, np.inf)), axis=1)[:, :2]
    near = np.zeros((15, 15), bool)
    near[np.arange(15)[:, None], order] = True
    size = np.median(np.take_along_axis(distance, order, axis=1)[:, -1])
    expected = np.where(near | near.T, np.maximum(np.exp(-0.5 * (distance / size) ** 2), 0.01), 0.0)
    extra = (W > 0) & ~(near | near.T)
    np.testing.assert_allclose(np.where(extra, 0.0, W), expected, rtol=1e-12)
    # groups that near rows leave apart are joined, each where it is nearest
    assert groups(W) == 1
    assert (W[extra] == 0.01).all()
    assert extra.sum() == 2 * (groups(near | near.T) - 1)


def groups(W):
    i, j = np.nonzero(np.triu(W))
    return ref.components(i, j, np.ones(len(i), bool), len(W)).max() + 1


# ---- weights, tables, threads ----


def test_forms_of_the_weights_are_equal():
    X, W, penalty = rows_of(2, "knn")
    model = model_of(penalty, W).fit(X)
    stored = (
        sparse.csr_array(W),
        sparse.csc_matrix(W),
        sparse.coo_array(W),
        W.tolist(),
        pd.DataFrame(W),
        W + np.diag(np.ones(len(W))),
    )
    for form in (*stored, lambda rows: W):
        assert_same_bits(model_of(penalty, form).fit(X), model)
    for k in (2, 8, 99):
        assert_same_bits(
            ConvexClustering(0.5, n_neighbors=k).fit(X),
            ConvexClustering(0.5, weights=gaussian_weights(X, k)).fit(X),
        )


def test_pickle_clone_frames_and_refit():
    X, W, _ = rows_of(4, "gaussian")
    frame = pd.DataFrame(X, columns=[f"x{k}" for k in range(X.shape[1])])
    model = model_of([2.0, 0.5, 0.1], W).fit(X)
    for twice in (
        pickle.loads(pickle.dumps(model)),
        clone(model).fit(X),
        clone(model).fit(X.tolist()),
        clone(model).fit(frame),
    ):
        assert_same_bits(twice, model)
        assert twice.path_["objective"].tolist() == model.path_["objective"].tolist()
    assert clone(model).fit(frame).feature_names_in_.tolist() == list(frame.columns)
    np.testing.assert_array_equal(clone(model).fit_predict(X), model.labels_)
    single = X.astype(np.float32)
    assert_same_bits(clone(model).fit(single), clone(model).fit(single.astype(np.float64)))


def test_verbose_prints_a_line_per_penalty(capsys):
    X, W, _ = rows_of(4, "gaussian")
    ConvexClustering([4.0, 1.0], weights=W, verbose=1).fit(X)
    assert [line.split(":")[0] for line in capsys.readouterr().out.splitlines()] == ["penalty 4", "penalty 1"]
    ConvexClustering([4.0, 1.0], weights=W).fit(X)
    assert capsys.readouterr().out == ""


def test_the_same_bits_on_more_threads(monkeypatch):
    monkeypatch.setattr(threads, "SMALL_WORK", 0)
    X, _ = blobs()
    near = np.exp(-0.05 * ((X[:, None] - X) ** 2).sum(axis=2))
    one, two, three = (
        ConvexClustering([1.0, 0.2], weights=near, solver="admm", n_threads=k).fit(X) for k in (1, 2, 3)
    )
    assert_same_bits(one, two)
    assert_same_bits(one, three)


def test_input_is_left_as_it_is():
    X, W, _ = rows_of(4, "gaussian")
    kept = X.copy(), W.copy()
    for solver in SOLVERS:
        ConvexClustering([1.0, 0.1], weights=W, solver=solver).fit(X)
    np.testing.assert_array_equal(X, kept[0])
    np.testing.assert_array_equal(W, kept[1])


# ---- bad input ----

ROWS = np.random.default_rng(0).normal(size=(4, 2))
ONES = np.ones((4, 4))
ASYMMETRIC, NEGATIVE, WITH_NAN = ONES.copy(), ONES.copy(), ONES.copy()
ASYMMETRIC[0, 1] = 2.0
NEGATIVE[0, 1] = NEGATIVE[1, 0] = -1.0
WITH_NAN[0, 1] = WITH_NAN[1, 0] = np.nan
PARAMETERS = [
    ({"weights": ASYMMETRIC}, "weights must be symmetric"),
    ({"weights": sparse.csr_array(ASYMMETRIC)}, "weights must be symmetric"),
    ({"weights": NEGATIVE}, "weights must be finite and >= 0"),
    ({"weights": WITH_NAN}, "weights must be finite and >= 0"),
    ({"weights": ONES[:3]}, r"weights must have shape \(4, 4\).*row.*got \(3, 4\)"),
    ({"weights": lambda X: X}, r"weights must have shape \(4, 4\)"),
    ({"weights": ONES.astype(str)}, "weights must hold numbers"),
    (
        {"weights": "uniform"},
        r"weights must be one of 'gaussian-knn' or a callable, or an array \(n, n\), got 'uniform'",
    ),
    ({"fusion_penalty": -1.0}, "fusion_penalty must be a finite number >= 0 or an array of them"),
    ({"fusion_penalty": np.nan}, "fusion_penalty must be a finite number >= 0"),
    ({"fusion_penalty": []}, "fusion_penalty must be a finite number >= 0"),
    ({"fusion_penalty": [1.0, 2.0]}, "must decrease.*Sort them, the largest first"),
    ({"n_clusters": 0}, "n_clusters must be a whole number >= 1"),
    ({"n_clusters": 2.5}, "n_clusters must be a whole number"),
    ({"n_neighbors": 0}, "n_neighbors must be a whole number >= 1"),
    ({"solver": "paper"}, "solver must be one of 'certified', 'admm', got 'paper'"),
    ({"tol": 0}, "tol must be a number > 0"),
    ({"max_iter": 0}, "max_iter must be a whole number >= 1"),
    ({"n_threads": 0}, "n_threads=0 is not a number of threads; pass None"),
    ({"verbose": -1}, "verbose must be a whole number >= 0"),
]


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    PARAMETERS,
    ids=[f"{k}-{next(iter(p))}" for k, (p, _) in enumerate(PARAMETERS)],
)
def test_bad_parameters(parameters, sentence):
    model = ConvexClustering(**{"fusion_penalty": 1.0, "weights": ONES, **parameters})
    with pytest.raises((ValueError, TypeError), match=sentence):
        model.fit(ROWS)
    assert not hasattr(model, "labels_")


def test_no_path_before_a_fit():
    with pytest.raises(NotFittedError):
        _ = ConvexClustering().path_


def test_weights_whose_sums_overflow_are_refused():
    with pytest.raises(
        ValueError,
        match=r"weights must be at most 1e\+100, or their sums overflow, got 1e\+300; scale them down",
    ):
        ConvexClustering(1.0, weights=np.full((3, 3), 1e300)).fit(np.eye(3))


@pytest.mark.parametrize("kind", ["nearest", "weights", "absent"])
def test_more_columns_than_rows(kind, monkeypatch):
    """Rows span few dimensions, in which they are clustered; a rotation changes no distance."""
    X, _ = blobs()
    X = np.vstack([X, X[:3]])
    turn = np.linalg.qr(np.random.default_rng(0).normal(size=(200, X.shape[1])))[0]
    wide = X @ turn.T
    wide[-3:] = wide[:3]
    near = np.exp(-0.05 * ((X[:, None] - X) ** 2).sum(axis=2))
    parameters = {} if kind == "nearest" else {"weights": near}
    weight = np.where(np.arange(len(X)) % 7 == 2, 0.0, 1.5) if kind == "absent" else None
    narrow = ConvexClustering(**parameters).fit(X, sample_weight=weight)
    widths, new_path = [], ConvexClustering._new_path

    def recorded(self, spread, graph):
        widths.append(spread.shape)
        return new_path(self, spread, graph)

    monkeypatch.setattr(ConvexClustering, "_new_path", recorded)
    model = ConvexClustering(**parameters).fit(wide, sample_weight=weight)
    assert all(m >= D for m, D in widths)
    np.testing.assert_array_equal(model.labels_, narrow.labels_)
    np.testing.assert_allclose(model.cluster_centers_, narrow.cluster_centers_ @ turn.T, atol=1e-4)
    assert model.objective_ == pytest.approx(narrow.objective_, rel=1e-6)
    assert model.duality_gap_ <= model.tol


@pytest.mark.parametrize(("D", "step"), [(300, 1.0), (300, 2.0), (50, 2.0), (2000, 1.0)])
def test_clusters_that_differ_in_one_direction_and_scatter_in_many(D, step):
    """The dimensions of the whole table are few and hide them; those within many clusters show them."""
    truth = np.repeat([0, 1, 2], 20)
    X = np.random.default_rng(0).normal(size=(60, D)) + step * truth[:, None]
    assert adjusted_rand_score(truth, ConvexClustering().fit(X).labels_) == 1.0
    line = 9.0 * np.random.default_rng(1).random((60, 1)) + np.random.default_rng(2).normal(size=(60, D)) / 4
    assert ConvexClustering().fit(line).n_clusters_ < 10


@pytest.mark.parametrize(("each", "step", "clear"), [(20, 100.0, True), (20, 3.0, False), (5, 100.0, False)])
def test_clear_clusters(each, step, clear):
    """Clusters of few rows, such as those of equal numbers of a rounded column, are no evidence."""
    labels = np.repeat(np.arange(12, dtype=np.int32), each)
    X = np.random.default_rng(0).normal(size=(len(labels), 3))
    X[:, 0] += step * labels
    assert is_clear(X - X.mean(axis=0), labels, np.ones(len(X))) == clear


@pytest.mark.parametrize("scale", [1e3, 1e9, 1e12, 1e18])
def test_the_objective_where_the_penalty_is_small_against_the_numbers(scale):
    """J(s X, g) = s^2 J(X, g / s), and no optimum is above J at U = X."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3)) + 6.0 * rng.normal(size=(2, 3))[np.repeat([0, 1], 20)]
    distance = np.sqrt(np.square(X[:, None] - X).sum(axis=2))
    weights = np.exp(-np.square(distance) / 20.0) * ~np.eye(40, dtype=bool)
    model = ConvexClustering(1.0, weights=weights).fit(scale * X)
    at_rows = scale * 0.5 * (weights * distance).sum()
    assert 0.99 * at_rows < model.objective_ <= (1.0 + 1e-5) * at_rows
    assert model.duality_gap_ >= 0.0
    U = model.cluster_centers_[model.labels_]
    apart = np.sqrt(np.square(U[:, None] - U).sum(axis=2))
    by_hand = 0.5 * np.square(scale * X - U).sum() + 0.5 * (weights * apart).sum()
    assert model.objective_ == pytest.approx(by_hand, rel=1e-6)
    alone = ConvexClustering(0.0).fit(X)
    assert (alone.objective_, alone.duality_gap_) == (0.0, 0.0)
