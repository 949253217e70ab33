"""Clusters with covariances (Appendix E) equal their reference implementation, and say so where they cannot
be had.
"""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.datasets import load_wine
from sklearn.metrics import adjusted_rand_score
from sklearn.preprocessing import scale

from craftc import DPMeans
from craftc._common.dense_data import DenseData
from craftc.dpmeans import gaussian
from craftc.dpmeans.seeding import k_means_labels
from tests.reference import dpmeans as ref


def clouds(seed, n=60, D=2, K=3):
    """Stretched clouds."""
    rng = np.random.default_rng(seed)
    X = (
        rng.normal(size=(n, D)) @ rng.normal(size=(D, D))
        + 7.0 * rng.normal(size=(K, D))[rng.integers(0, K, n)]
    )
    return X, rng


@pytest.mark.filterwarnings("ignore:.*clusters have at most")
@pytest.mark.parametrize("weights", [None, "whole", "real"])
@pytest.mark.parametrize("covariance", ["full", "full-sized", "known"])
@pytest.mark.parametrize("seed", range(10))
def test_against_the_reference(seed, covariance, weights):
    D = 1 + seed % 3
    X, rng = clouds(seed, D=D)
    X = X.astype(np.float32) if seed % 2 else X
    weight = {None: None, "whole": rng.integers(1, 4, 60).astype(float), "real": rng.uniform(0.1, 2.0, 60)}[
        weights
    ]
    penalty, phi = float(rng.uniform(0.5, 40.0)), (None, float(rng.uniform(0.01, 3.0)))[seed % 2]
    start = DPMeans(n_clusters=4, mode="serial", n_threads=1).fit(X, sample_weight=weight).labels_
    fixed = {
        "init": start,
        "max_clusters": 1,
        "n_threads": 1,
    }  # no cluster opens: spherical sweeps, then those with covariances
    start = DPMeans(penalty, **fixed).fit(X, sample_weight=weight).labels_
    known = None
    if covariance == "known":
        root = rng.normal(size=(start.max() + 1, D, D))
        known = root @ root.transpose(0, 2, 1) + 0.3 * np.eye(D)
    ours = DPMeans(
        penalty, covariance=covariance if known is None else known, covariance_prior=phi, **fixed
    ).fit(X, sample_weight=weight)
    sized = covariance == "full-sized"
    theirs = ref.fit_gaussian(
        X, start, penalty, phi=phi, sized=sized, covariances=known, weight=weight, max_iter=300
    )
    np.testing.assert_array_equal(ours.labels_, theirs.labels)
    assert ours.objective_ == pytest.approx(theirs.objective, rel=1e-9, abs=1e-9 * len(X))
    np.testing.assert_allclose(ours.objective_path_, theirs.path, rtol=1e-9, atol=1e-9 * len(X))
    alive = theirs.n_clusters
    np.testing.assert_allclose(ours.cluster_centers_, theirs.means[:alive], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(ours.covariances_, theirs.covariances[:alive], rtol=1e-8, atol=1e-9)
    assert (ours.n_clusters_, ours.n_iter_, ours.converged_) == (alive, theirs.n_iter, theirs.converged)
    assert (np.diff(ours.objective_path_) <= 1e-9 * (1.0 + np.abs(ours.objective_path_[:-1]))).all()
    assert (
        len(ours.cluster_centers_) == len(ours.covariances_) == len(ours.cluster_sizes_) == ours.n_clusters_
    )


@pytest.mark.filterwarnings("ignore:.*clusters have at most")
@pytest.mark.parametrize("covariance", ["full", "full-sized", "known"])
@pytest.mark.parametrize("seed", range(5))
def test_new_rows(seed, covariance):
    X, _ = clouds(seed)
    K = DPMeans(20.0).fit(X).n_clusters_
    shape = np.array([[[2.0, 0.5], [0.5, 1.0]]] * K) if covariance == "known" else covariance
    model = DPMeans(20.0, covariance=shape, random_state=0).fit(X)
    assert model.converged_
    np.testing.assert_array_equal(model.predict(X), model.labels_)
    distances = model.transform(X)
    for k in range(model.n_clusters_):
        expected = [ref.mahalanobis2(x, model.cluster_centers_[k], model.covariances_[k]) ** 0.5 for x in X]
        np.testing.assert_allclose(distances[:, k], expected, rtol=1e-9)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.transform(X), distances)
    with pytest.raises(ValueError, match="open_cluster=True"):
        model.predict(X, open_cluster=True)
    with pytest.raises(AttributeError, match="partial_fit"):
        model.partial_fit(X)


# ---- one known covariance ----


@pytest.mark.parametrize("seed", range(4))
def test_the_identity_says_what_spherical_says(seed):
    X, _ = clouds(seed, D=3)
    spherical = DPMeans(30.0, polish=True).fit(X)
    known = DPMeans(30.0, polish=True, covariance=np.eye(3)).fit(X)
    np.testing.assert_array_equal(spherical.labels_, known.labels_)
    np.testing.assert_array_equal(spherical.cluster_centers_, known.cluster_centers_)
    assert known.objective_ == spherical.objective_


@pytest.mark.parametrize("weights", [None, "real"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("seed", range(6))
def test_a_known_covariance_opens_clusters(seed, dtype, weights):
    """Serial DP-means of the reference on the rows times inv(L)', Sigma = L L'; distances are Mahalanobis
    distances of the rows.
    """
    D = 2 + seed % 2
    X, rng = clouds(seed, D=D)
    weight = None if weights is None else rng.uniform(1.0, 2.0, 60)
    root = rng.normal(size=(D, D))
    covariance = root @ root.T + 0.3 * np.eye(D)
    X, penalty = X.astype(dtype), float(rng.uniform(4.0, 40.0))
    model = DPMeans(penalty, covariance=covariance).fit(X, sample_weight=weight)
    theirs = ref.fit(
        np.linalg.solve(np.linalg.cholesky(covariance), X.T.astype(float)).T, penalty, weight=weight
    )
    slack = 1e-5 if dtype == np.float32 else 1e-9
    np.testing.assert_array_equal(model.labels_, theirs.labels)
    assert model.n_clusters_ > 1
    assert model.objective_ == pytest.approx(theirs.objective, rel=slack)
    w = np.ones(60) if weight is None else weight
    for k in range(model.n_clusters_):
        rows = model.labels_ == k
        mean = np.average(X[rows].astype(float), axis=0, weights=w[rows])
        np.testing.assert_allclose(model.cluster_centers_[k], mean, rtol=slack, atol=slack)
    distances = np.array(
        [[ref.mahalanobis2(x, m, covariance) for m in model.cluster_centers_] for x in X.astype(float)]
    )
    np.testing.assert_allclose(model.transform(X) ** 2, distances, rtol=100 * slack, atol=100 * slack)
    np.testing.assert_array_equal(model.predict(X), distances.argmin(axis=1))
    far = X[:1] + np.asarray(1e3, dtype)
    assert model.predict(far, open_cluster=True).tolist() == [-1]
    assert model.partial_fit(np.vstack([X[:5], far])).n_clusters_ == theirs.n_clusters + 1
    np.testing.assert_allclose(model.cluster_centers_[-1], far[0], rtol=1e-4)


# ---- starts, warnings, K varying ----


def wine():
    data = load_wine()
    return scale(data.data), data.target


def test_full_covariances_start_from_k_means():
    """The serial spherical start of Wine has clusters of 177 rows and 1 row."""
    X, kinds = wine()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = DPMeans(n_clusters=3, covariance="full", random_state=0).fit(X)
        again = DPMeans(n_clusters=3, covariance="full", init="auto", random_state=0, n_threads=2).fit(X)
    assert model.n_clusters_ == 3
    assert adjusted_rand_score(kinds, model.labels_) > 0.95
    np.testing.assert_array_equal(model.labels_, again.labels_)


def test_k_means_labels_are_a_low_optimum():
    X, _ = wine()
    labels = k_means_labels(DenseData(X, None, 1), 3, 0, 300)
    error = sum(np.square(X[labels == k] - X[labels == k].mean(axis=0)).sum() for k in range(3))
    assert error == pytest.approx(KMeans(3, n_init=20, random_state=0).fit(X).inertia_, rel=1e-9)


@pytest.mark.parametrize("n", [1, 2, 5])
def test_k_means_labels_of_few_rows(n):
    assert k_means_labels(DenseData(np.ones((n, 2)), None, 1), n, 0, 300).tolist() == [0] * n
    assert sorted(k_means_labels(DenseData(np.arange(2.0 * n).reshape(n, 2), None, 1), n, 0, 300)) == list(
        range(n)
    )


def test_clusters_of_few_rows_are_reported():
    X, _ = wine()
    with pytest.warns(UserWarning, match=r"2 of 5 clusters have at most D = 13 rows \(4, 3\)"):
        DPMeans(mode="serial", covariance="full", random_state=0).fit(X)


@pytest.mark.slow
def test_a_price_of_clusters_with_covariances():
    """More than half a cluster saves: made clusters of unequal shape are found from ten clusters and from
    one; J never rises.
    """
    rng = np.random.default_rng(0)
    kinds = np.repeat([0, 1, 2], 150)
    roots = rng.normal(size=(3, 2, 2))
    X = (
        np.einsum("nij,nj->ni", roots[kinds], rng.normal(size=(450, 2)))
        + np.array([[0, 0], [9, 0], [0, 9]])[kinds]
    )
    price = 1.5 * 150.0  # times lambda^2 = 1
    sized = {"covariance": "full-sized", "covariance_price": price}
    for most in (10, 1):
        model = DPMeans(1.0, init=np.zeros(450, int), max_clusters=most, covariance="full-sized").fit(X)
        assert model.n_clusters_ == most
        model = DPMeans(1.0, init=model.labels_, max_clusters=10, **sized).fit(X)
        assert adjusted_rand_score(kinds, model.labels_) > 0.98
        own = DPMeans(1.0, init=model.labels_, max_clusters=3, covariance="full-sized").fit(X)
        assert model.objective_ == pytest.approx(own.objective_ + 2 * price, rel=1e-9)
        assert model.objective_path_[-1] == model.objective_
        assert (np.diff(model.objective_path_) <= 1e-9 * np.abs(model.objective_path_[0])).all()
    assert DPMeans(1.0, init=np.zeros(450, int), max_clusters=2, **sized).fit(X).n_clusters_ == 2
    assert (
        DPMeans(1.0, init=kinds, max_clusters=10, covariance="full-sized", covariance_price=1e9)
        .fit(X)
        .n_clusters_
        == 1
    )
    with pytest.warns(UserWarning, match="covariance_price=2.0 is ignored"):
        DPMeans(20.0, covariance_price=2.0).fit(X)


def test_wine_has_three_clusters_at_a_price_above_that_of_normal_halves():
    X, kinds = load_wine(return_X_y=True)
    X = scale(X)
    priced = {"n_clusters": 3, "covariance": "full-sized", "random_state": 0}
    model = DPMeans(covariance_price=80_000.0, **priced).fit(X)
    assert model.n_clusters_ == 3
    assert adjusted_rand_score(kinds, model.labels_) > 0.89
    assert model.cluster_penalty_ * 178 < 80_000.0


@pytest.mark.parametrize(
    ("n", "D", "price", "most"),
    [(178, 13, 1e-3, 12), (178, 13, 900.0, 12), (40, 3, 0.0, 10), (60, 2, 1e-3, 20), (5, 8, 0.0, 1)],
)
@pytest.mark.parametrize("covariance", ["full", "full-sized"])
def test_a_price_too_low_ends_at_clusters_of_more_rows_than_columns(n, D, price, most, covariance):
    X = np.random.default_rng(n + D).normal(size=(n, D))
    given = {"init": np.zeros(n, int), "covariance": covariance, "covariance_price": price}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = DPMeans(1.0, **given).fit(X)
    assert model.n_clusters_ <= most
    limited = [str(one.message) for one in caught if "It splits normal clusters" in str(one.message)]
    assert len(limited) == (model.n_clusters_ == most > 1)
    assert (np.diff(model.objective_path_) <= 1e-9 * (1 + np.abs(model.objective_path_).max())).all()


@pytest.mark.parametrize("seed", range(3))
def test_no_trial_split_without_a_determinant_ends_the_search(seed):
    """Without a prior, halves of few rows have no covariance: such moves are left out."""
    X, _ = clouds(seed)
    given = {"covariance": "full-sized", "covariance_prior": 0.0, "covariance_price": 1e-3}
    model = DPMeans(1e6, init=np.zeros(60, int), max_clusters=10, **given).fit(X)
    assert np.isfinite(model.objective_)
    assert model.cluster_sizes_.min() > 2


@pytest.mark.parametrize("seed", range(4))
def test_lambda_moves_no_label_once_the_start_is_given(seed):
    X, _ = clouds(seed)
    labels = np.argsort(np.argsort(X[:, 0])) // 20
    fits = [
        DPMeans(penalty, init=labels, max_clusters=1, mode="delayed", covariance="full").fit(X)
        for penalty in (1e3, 1e6)
    ]
    np.testing.assert_array_equal(fits[0].labels_, fits[1].labels_)
    np.testing.assert_allclose(fits[0].covariances_, 1e3 * fits[1].covariances_, rtol=1e-9)


def test_clouds_of_unequal_width_are_told_apart():
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(150, 2)) * 0.4, rng.normal(size=(150, 2)) * 2.0 + [5.0, 0.0]])
    truth = np.repeat([0, 1], 150)
    spherical, sized = (
        np.mean(DPMeans(1e4, init=truth, max_clusters=1, covariance=covariance).fit(X).labels_ == truth)
        for covariance in ("spherical", "full-sized")
    )
    assert spherical < 0.96
    assert sized > 0.98


def test_a_spherical_refit_forgets_the_covariances():
    X, _ = clouds(0)
    model = DPMeans(20.0, covariance="full").fit(X)
    assert hasattr(model, "covariances_")
    model.set_params(covariance="spherical").fit(X)
    assert not hasattr(model, "covariances_")
    np.testing.assert_array_equal(model.predict(X), DPMeans(20.0).fit(X).labels_)


@pytest.mark.filterwarnings("ignore:.*clusters have at most")
def test_rows_of_weight_nought_have_a_label_and_no_say():
    X, _ = clouds(1)
    wide = np.vstack([X, X[:3] + 100.0])
    plain = DPMeans(20.0, covariance="full", random_state=0).fit(X)
    model = DPMeans(20.0, covariance="full", random_state=0).fit(
        wide, sample_weight=np.r_[np.ones(60), np.zeros(3)]
    )
    np.testing.assert_array_equal(model.labels_[:60], plain.labels_)
    np.testing.assert_allclose(model.covariances_, plain.covariances_, rtol=1e-9)
    np.testing.assert_array_equal(model.predict(wide), model.labels_)


BAD = [
    ({"covariance": "full", "cluster_penalty": 0.0}, "Full covariances need"),
    ({"covariance": "full", "cluster_penalty": np.inf}, "Full covariances need"),
    ({"covariance": "full", "covariance_prior": 0.0, "cluster_penalty": 1e-6}, "no determinant"),
    ({"covariance": np.eye(3)}, "covariance must be finite and symmetric"),
    ({"covariance": np.full((2, 2), np.nan)}, "covariance must be finite"),
    ({"covariance": np.array([np.eye(2)] * 40)}, "with K = "),
    ({"covariance_price": -1.0}, "covariance_price must be"),
    ({"covariance": -np.eye(2)}, "not positive definite"),
    ({"covariance": "diagonal"}, "covariance must be one of"),
    ({"covariance": None}, "covariance must be"),
    ({"covariance": np.array([[2.0, 1.0], [0.0, 2.0]])}, "symmetric"),
    ({"covariance_prior": -1.0}, "covariance_prior must be"),
    ({"covariance_prior": np.nan}, "covariance_prior must be"),
]


@pytest.mark.parametrize(("parameters", "sentence"), BAD)
def test_bad_input_gets_a_sentence_and_changes_nothing(parameters, sentence):
    X, _ = clouds(0)
    model = DPMeans(**{"cluster_penalty": 20.0, **parameters})
    with pytest.raises((ValueError, TypeError), match=sentence):
        model.fit(X)
    assert not hasattr(model, "labels_")


def test_a_cluster_is_split_once(monkeypatch):
    """Moves change few clusters; the others are not split again."""
    X, _ = clouds(0, n=400, K=5)
    split, seen = gaussian._split, []

    def recorded(*arguments):
        seen.append(arguments[4].tobytes())
        return split(*arguments)

    monkeypatch.setattr(gaussian, "_split", recorded)
    model = DPMeans(1.0, covariance="full-sized", covariance_price=60.0, random_state=0).fit(X)
    assert model.n_clusters_ > 5
    assert model.n_clusters_ < len(seen) < 1.3 * len(set(seen))  # some come back


@pytest.mark.parametrize("covariance", ["full", "full-sized"])
@pytest.mark.parametrize("weights", [None, "real"])
def test_removals(covariance, weights):
    """What the rows of a cluster cost elsewhere, at the shapes of the other clusters."""
    X, rng = clouds(3, n=90, K=4)
    w = None if weights is None else rng.random(90) * (rng.random(90) < 0.8)
    model = gaussian.model_of(covariance, 2.0, 0.1, 4, 2)
    fit = gaussian.descend(X, w, rng.integers(0, 4, 90).astype(np.int32), model, 50)
    cost, v = gaussian.costs(X, fit.shapes, model), np.ones(90) if w is None else w
    for gain, k in gaussian._removals(X, w, fit):
        own = (fit.labels == k) & (v > 0)
        lowered = v[own] @ (cost[own, k] - np.delete(cost[own], k, axis=1).min(axis=1))
        lowered += 0.0 if model.sized else 2.0 * fit.shapes.log_det[k]
        assert gain == pytest.approx(lowered, rel=1e-9, abs=1e-9)


def test_equal_rows_have_no_covariance():
    with pytest.raises(ValueError, match=r"got 0\.0, which is lambda\^2 where all rows are equal"):
        DPMeans(covariance="full").fit(np.ones((9, 2)))


def test_a_failed_refit_keeps_the_old_result():
    X, _ = clouds(0)
    model = DPMeans(20.0, covariance="full").fit(X)
    labels, J = model.labels_.copy(), model.objective_
    with pytest.raises(ValueError, match="Full covariances need"):
        model.set_params(cluster_penalty=np.inf).fit(X)
    np.testing.assert_array_equal(model.labels_, labels)
    np.testing.assert_array_equal(model.predict(X), labels)
    assert model.objective_ == J


def test_rows_in_a_plane_without_a_prior():
    X = np.column_stack([np.arange(12.0), 2.0 * np.arange(12.0)])
    with pytest.raises(ValueError, match="is not positive definite"):
        DPMeans(1e4, covariance="full", covariance_prior=0.0).fit(X)
    assert np.isfinite(DPMeans(1e4, covariance="full").fit(X).objective_)


@pytest.mark.parametrize("covariance", ["full", "full-sized"])
def test_a_penalty_by_which_covariances_overflow_is_refused(covariance):
    X, _ = clouds(0)
    with pytest.raises(ValueError, match=r"cluster_penalty=1e-200 is less than 1e-100 of the variance"):
        DPMeans(1e-200, covariance=covariance).fit(X)
