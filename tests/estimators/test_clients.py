"""What clients of kmodes and of scikit-learn expect: bytes, verbose=True, transform, score, warnings."""

from __future__ import annotations

import io
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline, make_union

from craftc import (
    CRAFT,
    BPMeans,
    ConvexClustering,
    DPMeans,
    FeatureSelectionMixture,
    GraphSpectralFeatures,
    KFeatures,
    KModes,
    KPrototypes,
    PaperCRAFT,
)

RNG = np.random.default_rng(0)
LABELS = np.repeat([0, 1, 2], 20)
NUMBERS = RNG.normal(size=(60, 3)) + 5.0 * LABELS[:, None]
LEVELS = np.where(RNG.random((60, 3)) < 0.9, LABELS[:, None], RNG.integers(0, 3, (60, 3)))
MIXED = pd.DataFrame({"x": NUMBERS[:, 0], "y": NUMBERS[:, 1], "a": np.array(list("pqr"))[LEVELS[:, 0]]})
PEOPLE = "male,4.2,1.5,london female,3.1,2.5,paris male,4.0,1.4,london female,3.3,2.6,paris male,4.1,1.6,rome"

# ---- the example programs of kmodes ----


def test_people_and_stocks():
    """np.genfromtxt reads a file as bytes; a cell has one meaning as bytes and as text."""
    X = np.genfromtxt(io.BytesIO(PEOPLE.replace(" ", "\n").encode()), dtype=object, delimiter=",")
    assert type(X[0, 0]) is bytes
    X[:, 1] = X[:, 1].astype(float)
    X[:, 2] = X[:, 2].astype(float)
    model = KPrototypes(n_clusters=2, init="Cao", verbose=True, random_state=0)
    labels = model.fit_predict(X, categorical=[0, 3])
    assert labels.tolist() in ([0, 1, 0, 1, 0], [1, 0, 1, 0, 1])
    assert sorted(model.cluster_centroids_[:, 2]) == ["female", "male"]
    text = np.array([[cell.decode() if type(cell) is bytes else cell for cell in row] for row in X], object)
    assert model.predict(text, categorical=[0, 3]).tolist() == labels.tolist()
    assert KPrototypes(2, init="Cao").fit(text, categorical=[0, 3]).cost_ == model.cost_


@pytest.mark.parametrize("dtype", ["S8", object])
@pytest.mark.parametrize(
    "estimator", [KModes(2, n_init=2, random_state=0), CRAFT(categorical=[0, 1], n_init=1)]
)
def test_bytes(estimator, dtype):
    X = np.array([["é".encode(), b"x"], [b"b", b"y"], [b"b", b"x"]] * 10, dtype=dtype)
    plain = np.char.decode(X.astype("S8"), "utf-8").astype(object)
    ours, theirs = (clone(estimator).fit(each) for each in (X, plain))
    assert ours.labels_.tolist() == theirs.labels_.tolist() == ours.predict(X).tolist()
    as_dict = {"a": X[:, 0], "b": X[:, 1]}
    if isinstance(estimator, KModes):
        assert clone(estimator).fit(as_dict).labels_.tolist() == ours.labels_.tolist()
    with pytest.raises(TypeError, match="Column 'a' holds bytes; make text of them"):
        clone(estimator).fit(pd.DataFrame(as_dict).astype(object))
    with pytest.raises(TypeError, match="bytes that are not UTF-8"):
        clone(estimator).fit(np.array([[b"\xff", b"x"], [b"b", b"y"]], dtype=dtype))


ALL = [
    CRAFT(n_init=1),
    PaperCRAFT(n_init=1),
    DPMeans(),
    KFeatures(2, n_init=1, random_state=0),
    BPMeans(n_init=1, random_state=0),
    KModes(2, n_init=1),
    KPrototypes(2, n_init=1),
    FeatureSelectionMixture(n_init=1),
    ConvexClustering(),
    GraphSpectralFeatures(2),
]


@pytest.mark.parametrize("estimator", ALL, ids=lambda model: type(model).__name__)
def test_verbose_may_be_a_flag(estimator, capsys):
    said = {}
    for verbose in (False, 0, True, 1, np.True_):
        clone(estimator).set_params(verbose=verbose).fit(NUMBERS)
        said[type(verbose), bool(verbose)] = len(capsys.readouterr().out.splitlines())
    assert said[bool, False] == said[int, False] == 0
    assert said[bool, True] == said[int, True] == said[np.bool_, True] > 0
    with pytest.raises((TypeError, ValueError), match="verbose"):
        clone(estimator).set_params(verbose="yes").fit(NUMBERS)


# ---- steps of pipelines ----


@pytest.mark.parametrize("kind", ["matching", "ng"])
def test_transform_of_modes(kind):
    model = KModes(3, cat_dissim=kind, random_state=0, n_init=2).fit(LEVELS)
    distances = model.transform(LEVELS)
    assert distances.shape == (60, 3)
    assert distances.argmin(axis=1).tolist() == model.predict(LEVELS).tolist()
    if kind == "matching":
        modes = model.cluster_centroids_.astype(int)
        np.testing.assert_array_equal(distances, (LEVELS[:, None] != modes).sum(axis=2))
        assert distances[np.arange(60), model.labels_].sum() == model.cost_
    weight = RNG.uniform(size=60)
    assert model.score(LEVELS) == pytest.approx(-distances.min(axis=1).sum())
    assert model.score(LEVELS, sample_weight=weight) == pytest.approx(-weight @ distances.min(axis=1))
    assert model.get_feature_names_out().tolist() == ["kmodes0", "kmodes1", "kmodes2"]


def test_transform_of_prototypes():
    model = KPrototypes(3, random_state=0, n_init=2).fit(MIXED)
    numbers = (
        (MIXED[["x", "y"]].to_numpy()[:, None] - model.cluster_centroids_[:, :2].astype(float)) ** 2
    ).sum(2)
    levels = MIXED["a"].to_numpy()[:, None] != model.cluster_centroids_[:, 2]
    np.testing.assert_allclose(model.transform(MIXED), numbers + model.gamma_ * levels, atol=1e-9)
    assert -model.score(MIXED) == pytest.approx(model.cost_)
    frame = model.set_output(transform="pandas").transform(MIXED)
    assert frame.columns.tolist() == ["kprototypes0", "kprototypes1", "kprototypes2"]


def test_transform_of_the_mixture():
    model = FeatureSelectionMixture(random_state=0).fit(NUMBERS)
    np.testing.assert_array_equal(model.transform(NUMBERS), model.predict_proba(NUMBERS))


def test_scores_of_numbers():
    weight = RNG.uniform(size=60)
    means = DPMeans(n_clusters=3).fit(NUMBERS)
    assert -means.score(NUMBERS) == pytest.approx(means.inertia_)
    nearest = ((NUMBERS[:, None] - means.cluster_centers_) ** 2).sum(axis=2).min(axis=1)
    assert -means.score(NUMBERS, sample_weight=weight) == pytest.approx(weight @ nearest)
    features = KFeatures(3, random_state=0, n_init=2).fit(NUMBERS)
    assert -features.score(NUMBERS) == pytest.approx(((NUMBERS - features.reconstruct(NUMBERS)) ** 2).sum())


@pytest.mark.filterwarnings("ignore:.*fewer than n_clusters:UserWarning")
@pytest.mark.parametrize(
    ("estimator", "X"),
    [
        (KModes(random_state=0, n_init=1), LEVELS),
        (KPrototypes(random_state=0, n_init=1), MIXED),
        (DPMeans(), NUMBERS),
        (KFeatures(random_state=0, n_init=1), NUMBERS),
    ],
    ids=lambda value: type(value).__name__,
)
def test_grid_search_needs_no_scoring(estimator, X):
    name = "n_features" if isinstance(estimator, KFeatures) else "n_clusters"
    search = GridSearchCV(estimator, {name: [1, 3]}, cv=2).fit(X)
    assert search.best_params_ == {name: 3}


def test_pipelines():
    union = make_union(KModes(3, random_state=0, n_init=1), KModes(2, random_state=1, n_init=1))
    model = make_pipeline(union, LogisticRegression()).fit(LEVELS, LABELS)
    assert model.score(LEVELS, LABELS) > 0.9
    for step in (KPrototypes(3, random_state=0, n_init=1), CRAFT(n_init=1, random_state=0)):
        assert (
            make_pipeline(step, LogisticRegression(max_iter=5000)).fit(MIXED, LABELS).score(MIXED, LABELS)
            > 0.9
        )
    mixture = make_pipeline(FeatureSelectionMixture(random_state=0), LogisticRegression())
    assert mixture.fit(NUMBERS, LABELS).score(NUMBERS, LABELS) > 0.6


# ---- fewer clusters than asked for ----


@pytest.mark.parametrize(
    "estimator",
    [DPMeans(n_clusters=4), DPMeans(n_clusters=4, mode="lowest"), KModes(4), KPrototypes(4, categorical=[1])],
    ids=str,
)
@pytest.mark.parametrize("n_distinct", [1, 2, 3, 4])
def test_fewer_clusters_than_asked_for(estimator, n_distinct):
    X = np.c_[np.arange(20) % n_distinct, np.arange(20) % n_distinct].astype(float)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        assert clone(estimator).fit(X).n_clusters_ == n_distinct
    said = [str(each.message) for each in warned if "fewer than n_clusters=4" in str(each.message)]
    assert len(said) == (n_distinct < 4)
