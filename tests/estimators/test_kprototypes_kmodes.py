"""KModes and KPrototypes against kmodes 0.12, live: from equal starts, equal labels, costs and centroids.

kmodes draws a random row where a cluster becomes empty, and which row depends on how often it drew before.
Tables where that happens are compared by the other properties of the estimators only. ``Draws`` notices them.
"""

import numpy as np
import pytest
from sklearn.datasets import load_iris

from craftc import KModes, KPrototypes

kmodes = pytest.importorskip("kmodes", reason="kmodes is not installed")
from kmodes import kmodes as their_modes  # noqa: E402
from kmodes import kprototypes as their_prototypes  # noqa: E402
from kmodes.util import dissim, init_methods  # noqa: E402

TABLES = 10  # per block
DISSIMILARITIES = {
    "matching": dissim.matching_dissim,
    "ng": dissim.ng_dissim,
    "jaccard": dissim.jaccard_dissim_binary,
    "jaccard-label": dissim.jaccard_dissim_label,
}


class Draws(np.random.RandomState):
    """A stream that notes whether a row was chosen."""

    used = False

    def choice(self, *arguments, **options):
        Draws.used = True
        return super().choice(*arguments, **options)


@pytest.fixture
def draws(monkeypatch):
    def stream(seed):
        return seed if isinstance(seed, np.random.RandomState) else Draws(seed)

    monkeypatch.setattr(their_modes, "check_random_state", stream)
    monkeypatch.setattr(their_prototypes, "check_random_state", stream)
    Draws.used = False
    return Draws


def categories(rng, rows, columns, levels):
    """Codes 0, 1, ...

    Every column has all levels up to its largest; rows of a few groups are alike.
    """
    groups = rng.integers(0, levels, (3, columns))
    X = np.where(
        rng.random((rows, columns)) < 0.6,
        groups[rng.integers(0, 3, rows)],
        rng.integers(0, levels, (rows, columns)),
    )
    return np.column_stack([np.unique(column, return_inverse=True)[1] for column in X.T])


def distinct(rng, X):
    """Positions of the distinct rows, shuffled."""
    first = np.unique(X, axis=0, return_index=True)[1]
    return rng.permutation(first)


def fitted(model, refusal, *arguments, **options):
    """Whether a model of kmodes could be fitted, or raised an error with these words."""
    try:
        model.fit(*arguments, **options)
    except ValueError as error:
        if refusal not in str(error):
            raise
        return False
    return True


def assert_same(ours, theirs, rtol=0.0):
    np.testing.assert_array_equal(ours.labels_, theirs.labels_)
    assert ours.n_iter_ == theirs.n_iter_
    np.testing.assert_allclose(ours.cost_, theirs.cost_, rtol=rtol)
    np.testing.assert_allclose(ours.epoch_costs_, theirs.epoch_costs_, rtol=rtol)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("weighted", [False, True])
def test_kmodes(seed, weighted, draws):
    rng, compared = np.random.default_rng([1, seed]), 0
    for _ in range(TABLES):
        rows, columns, levels = rng.integers(10, 70), rng.integers(1, 8), rng.integers(2, 6)
        X = categories(rng, rows, columns, levels)
        order = distinct(rng, X)
        K = int(rng.integers(1, max(2, min(7, len(order)))))
        start = X[order[:K]]
        weight = rng.integers(1, 9, rows) / 4 if weighted else None
        draws.used = False
        theirs = their_modes.KModes(K, init=start.copy(), n_init=1, random_state=0).fit(
            X, sample_weight=weight
        )
        if draws.used or len(order) <= K:
            continue
        ours = KModes(K, init=start, n_init=1).fit(X, sample_weight=weight)
        assert_same(ours, theirs)
        np.testing.assert_array_equal(ours.cluster_centroids_, theirs.cluster_centroids_)
        np.testing.assert_array_equal(ours.predict(X), theirs.predict(X))
        compared += 1
    assert compared >= TABLES // 3


@pytest.mark.parametrize("seed", range(12))
def test_kprototypes(seed, draws):
    rng, compared = np.random.default_rng([2, seed]), 0
    for _ in range(TABLES):
        rows, numeric, columns, levels = (
            rng.integers(10, 70),
            rng.integers(1, 5),
            rng.integers(1, 6),
            rng.integers(2, 6),
        )
        codes = categories(rng, rows, columns, levels)
        numbers = rng.normal(size=(rows, numeric)) * rng.uniform(0.5, 3, numeric) + 2 * codes[:, :1]
        place = rng.permutation(numeric + columns)
        X = np.empty((rows, numeric + columns))
        X[:, np.sort(place[:numeric])], X[:, np.sort(place[numeric:])] = numbers, codes
        categorical = np.sort(place[numeric:]).tolist()
        K = int(rng.integers(1, 7))
        chosen = rng.choice(rows, K, replace=False)
        gamma = None if rng.random() < 0.5 else float(rng.uniform(0.2, 3))
        draws.used = False
        theirs = their_prototypes.KPrototypes(
            K, init=[numbers[chosen], codes[chosen].copy()], gamma=gamma, n_init=1, random_state=0
        )
        if (
            not fitted(theirs, "could not initialize", X, categorical=categorical) or draws.used
        ):  # a cluster of the start is empty
            continue
        ours = KPrototypes(K, init=[numbers[chosen], codes[chosen]], gamma=gamma, n_init=1).fit(
            X, categorical=categorical
        )
        assert_same(ours, theirs, rtol=1e-9)
        assert ours.gamma_ == pytest.approx(theirs.gamma, rel=1e-12)
        np.testing.assert_allclose(
            ours.cluster_centroids_.astype(float),
            theirs.cluster_centroids_.astype(float),
            rtol=1e-9,
            atol=1e-10,
        )
        np.testing.assert_array_equal(
            ours.predict(X, categorical=categorical), theirs.predict(X, categorical=categorical)
        )
        compared += 1
    assert compared >= TABLES // 3


@pytest.mark.parametrize("name", ["ng", "jaccard", "jaccard-label"])
@pytest.mark.parametrize("seed", range(5))
def test_dissimilarities(seed, name, draws):
    rng, compared = np.random.default_rng([3, seed]), 0
    for _ in range(TABLES):
        rows, columns = rng.integers(10, 40), rng.integers(2, 7)
        X = categories(rng, rows, columns, 2 if name == "jaccard" else 4)
        X = X[X.any(axis=1)] if name == "jaccard" else X
        order = distinct(rng, X)
        K = int(rng.integers(1, 5))
        if len(order) <= K:
            continue
        draws.used = False
        theirs = their_modes.KModes(
            K, init=X[order[:K]].copy(), n_init=1, cat_dissim=DISSIMILARITIES[name], random_state=0
        )
        if (
            not fitted(theirs, "union is 0", X) or draws.used
        ):  # kmodes refuses a row and a mode of zeros alone
            continue
        ours = KModes(K, init=X[order[:K]], n_init=1, cat_dissim=name).fit(X)
        assert_same(ours, theirs, rtol=1e-12)
        np.testing.assert_array_equal(ours.cluster_centroids_, theirs.cluster_centroids_)
        compared += 1
    assert compared >= TABLES // 3


@pytest.mark.parametrize("seed", range(5))
def test_start_of_cao(seed, draws):
    rng, compared = np.random.default_rng([4, seed]), 0
    for _ in range(TABLES):
        X = categories(rng, rng.integers(10, 70), rng.integers(2, 8), 4)
        K = int(rng.integers(1, 6))
        draws.used = False
        theirs = their_modes.KModes(K, init="Cao", random_state=0).fit(X)
        if draws.used or len(distinct(rng, X)) <= K:
            continue
        assert_same(KModes(K).fit(X), theirs)
        compared += 1
    assert compared >= TABLES // 3


def test_strings_and_levels():
    rng = np.random.default_rng(5)
    X = np.array(["red", "green", "blue", "grey"], dtype=object)[categories(rng, 60, 5, 4)]
    theirs, ours = their_modes.KModes(3, init="Cao").fit(X), KModes(3, init="Cao").fit(X)
    assert_same(ours, theirs)
    np.testing.assert_array_equal(ours.cluster_centroids_, theirs.cluster_centroids_)
    np.testing.assert_array_equal(ours.predict(X[:7]), theirs.predict(X[:7]))


@pytest.mark.parametrize("seed", range(3))
def test_iris_with_its_species_as_a_category(seed, draws):
    """An example program of kmodes: a float64 table, whose last column is a category; 15 digits."""
    X, y = load_iris(return_X_y=True)
    rows = np.random.default_rng(seed).choice(len(X), 3, replace=False)
    start = [X[rows], y[rows, None]]
    table, arguments = np.c_[X, y], {"n_clusters": 3, "n_init": 1, "gamma": 1.0, "verbose": False}
    theirs = their_prototypes.KPrototypes(init=[each.copy() for each in start], **arguments)
    theirs.fit(table, categorical=[4])
    ours = KPrototypes(init=start, **arguments).fit(table, categorical=[4])
    assert not draws.used
    assert_same(ours, theirs, rtol=1e-12)
    assert ours.cluster_centroids_.dtype == theirs.cluster_centroids_.dtype == np.float64
    np.testing.assert_allclose(ours.cluster_centroids_, theirs.cluster_centroids_, rtol=1e-14)


@pytest.mark.parametrize("factor", [1, 1.0, 0.25, -2.5])
def test_codes_may_be_numbers_of_any_kind(factor):
    X = categories(np.random.default_rng(8), 60, 4, 4) * factor
    theirs, ours = their_modes.KModes(3, init="Cao").fit(X), KModes(3, init="Cao").fit(X)
    assert_same(ours, theirs)
    assert ours.cluster_centroids_.dtype == theirs.cluster_centroids_.dtype == X.dtype
    np.testing.assert_array_equal(ours.cluster_centroids_, theirs.cluster_centroids_)
    np.testing.assert_array_equal(ours.predict(X[:7]), theirs.predict(X[:7]))


@pytest.mark.parametrize("estimator", [their_modes.KModes, their_prototypes.KPrototypes])
def test_parameters_have_the_names_of_kmodes(estimator):
    ours = {"KModes": KModes, "KPrototypes": KPrototypes}[estimator.__name__]
    assert set(estimator().get_params()) - {"n_jobs"} <= set(ours().get_params())


@pytest.mark.parametrize("seed", range(20))
def test_start_of_huang(seed):
    """For the same draws, where equally near rows are taken in their order: kmodes leaves that order to
    NumPy's unstable sort.
    """
    rng = np.random.default_rng([6, seed])
    X = categories(rng, 40, 5, 4)
    K = int(rng.integers(2, 5))

    def by_row(table, centroid, **_):
        return dissim.matching_dissim(table, centroid) * len(table) + np.arange(len(table))

    draw = np.random.RandomState(seed).randint(np.iinfo(np.int32).max, size=1)[0]
    start = init_methods.init_huang(X, K, by_row, np.random.RandomState(draw)).astype(int)
    ours = KModes(K, init="Huang", n_init=1, random_state=seed).fit(X)
    given = KModes(K, init=start, n_init=1).fit(X)
    np.testing.assert_array_equal(ours.labels_, given.labels_)
    assert ours.cost_ == given.cost_
