"""Weights of rows in convex clustering: a row of weight v is v equal rows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from craftc import ConvexClustering, load_model, save_model
from tests.common import examples
from tests.reference import covariates_points as ref_points

SOLVERS = ("certified", "admm")


def problem(seed):
    """Distinct rows in three groups, whole weights, weights of edges, and a penalty."""
    rng = np.random.default_rng(seed)
    n, D = int(rng.integers(3, 14)), int(rng.integers(1, 4))
    X = 3.0 * rng.normal(size=(3, D))[np.arange(n) % 3] + 0.5 * rng.normal(size=(n, D))
    W = np.exp(-0.1 * ((X[:, None] - X) ** 2).sum(axis=2))
    return X, rng.integers(1, 5, n), W, float(10 ** rng.uniform(-2.5, 0.0))


@pytest.mark.parametrize("solver", SOLVERS)
@examples(15)
@given(seed=st.integers(0, 10**6))
def test_weights_equal_the_reference_on_repeated_rows(solver, seed):
    X, weight, W, penalty = problem(seed)
    at = np.repeat(np.arange(len(X)), weight)
    reference = ref_points.convex_clustering(X[at], W[np.ix_(at, at)], penalty, max_iter=20000)
    model = ConvexClustering(penalty, weights=W, solver=solver, tol=1e-8).fit(X, sample_weight=weight)
    floor = 1e-9 * ((X[at] - X[at].mean(axis=0)) ** 2).sum()
    away = 2e-8 * max(reference.objective, floor) + max(reference.gap, 0.0)
    assert abs(model.objective_ - reference.objective) <= away + floor
    U = model.cluster_centers_[model.labels_]
    # J - J* >= sum_i v_i |u_i - u_i*|^2 / 2
    assert np.sqrt((weight[:, None] * (U - reference.U[np.cumsum(weight) - 1]) ** 2).sum()) <= 4.0 * np.sqrt(
        away
    )


@pytest.mark.parametrize("parameters", [{}, {"n_clusters": 4}, {"fusion_penalty": 0.02}], ids=str)
def test_weights_are_repeated_rows_of_the_default_graph(parameters):
    """To the last bit, as equal rows are one node: path, choice, and statistics."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(30, 3)) + 4.0 * np.eye(3)[np.arange(30) % 3]
    weight = rng.integers(1, 4, 30)
    at = rng.permutation(np.repeat(np.arange(30), weight))
    first = np.unique(at, return_index=True)[1].argsort()  # nodes are in the order of their first rows
    weighted = ConvexClustering(**parameters).fit(X[first], sample_weight=weight[first])
    repeated = ConvexClustering(**parameters).fit(X[at])
    np.testing.assert_array_equal(repeated.labels_, weighted.labels_[first.argsort()[at]])
    for name in ("objective_", "duality_gap_", "fusion_penalty_", "n_clusters_", "n_iter_"):
        assert getattr(repeated, name) == getattr(weighted, name)
    np.testing.assert_array_equal(repeated.cluster_centers_, weighted.cluster_centers_)
    np.testing.assert_array_equal(
        repeated.path_.drop(columns="labels").to_numpy(), weighted.path_.drop(columns="labels").to_numpy()
    )
    assert repeated.summary().astype(str).equals(weighted.summary().astype(str))


@pytest.mark.parametrize("weights", ["gaussian-knn", "array", "callable"])
def test_rows_of_weight_0_only_get_labels(weights):
    rng = np.random.default_rng(2)
    X = rng.normal(size=(24, 2)) + 8.0 * np.array([[0, 0], [1, 0], [0, 1]])[np.arange(24) % 3]
    weight = np.where(np.isin(np.arange(24), (0, 7, 8)), 0.0, 1.5)
    present = weight > 0

    def gaussian(rows):
        return np.exp(-0.1 * ((rows[:, None] - rows) ** 2).sum(axis=2))

    given = {"gaussian-knn": weights, "array": gaussian(X), "callable": gaussian}[weights]
    rest = {"array": gaussian(X[present])}.get(weights, given)
    model = ConvexClustering(n_clusters=3, weights=given).fit(X, sample_weight=weight)
    without = ConvexClustering(n_clusters=3, weights=rest).fit(X[present], sample_weight=weight[present])
    assert model.objective_ == without.objective_
    np.testing.assert_array_equal(model.labels_, np.arange(24) % 3)
    np.testing.assert_array_equal(np.sort(model.cluster_centers_, 0), np.sort(without.cluster_centers_, 0))
    assert model.summary()["rows"].sum() == without.summary()["rows"].sum()


@pytest.mark.filterwarnings("ignore:ConvexClustering chose 40 clusters of equal rows")  # of weight 1e9
def test_weights_of_very_different_sizes_are_certified():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(40, 3))
    for weight in (10.0 ** rng.integers(-4, 5, 40), np.full(40, 1e-9), np.full(40, 1e9)):
        model = ConvexClustering().fit(X, sample_weight=weight)
        assert model.duality_gap_ <= 1e-6
        assert np.isfinite(model.cluster_centers_).all()


def test_heavy_rows_move_less():
    """Two rows and one edge: the centres move towards each other by g w / v, times the other weight."""
    X = np.array([[0.0], [10.0]])
    model = ConvexClustering(0.5, weights=np.ones((2, 2))).fit(X, sample_weight=[4.0, 1.0])
    # the flow on the edge is g v_1 v_2 w = 2; row i moves by 2 / v_i
    np.testing.assert_allclose(model.cluster_centers_, [[0.5], [8.0]], rtol=1e-6)


def test_a_model_of_weighted_rows_is_read_again(tmp_path):
    rng = np.random.default_rng(4)
    X = rng.normal(size=(30, 2)) + 8.0 * (np.arange(30) % 2)[:, None]
    model = ConvexClustering(n_clusters=2).fit(X, sample_weight=rng.uniform(0.5, 3.0, 30))
    save_model(model, tmp_path / "model.craftc")
    again = load_model(tmp_path / "model.craftc")
    np.testing.assert_array_equal(again.labels_, model.labels_)
    assert again.summary().equals(model.summary())
