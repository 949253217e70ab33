"""The summaries of clusterings of numbers, against NumPy, in the frame library of the table."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.exceptions import NotFittedError

from craftc import BPMeans, ConvexClustering, DPMeans, FeatureSelectionMixture, KFeatures
from craftc.describe.words import mean_and_deviation

RNG = np.random.default_rng(0)
LABELS = np.repeat([0, 1, 2], [30, 20, 10])
BLOBS = RNG.normal(size=(60, 3)) + np.array([[0, 0, 0], [9, 0, 1], [0, 20, 1]])[LABELS]
FRAME = pd.DataFrame(BLOBS, columns=["low", "high", "noise"])
WEIGHT = np.linspace(0.5, 3.0, 60)


def expected(X, labels, weight):
    """(mean, standard deviation) of every cluster and of the whole table."""

    def moments(rows):
        mean = np.average(X[rows], axis=0, weights=weight[rows])
        return mean, np.sqrt(np.average((X[rows] - mean) ** 2, axis=0, weights=weight[rows]))

    return [moments(labels == k) for k in range(labels.max() + 1)], moments(slice(None))


def check_summary(frame, X, labels, weight, names):
    clusters, (mean, deviation) = expected(X, labels, weight)
    assert len(frame) == len(clusters) * X.shape[1]
    for k, part in frame.groupby("cluster"):
        inside = weight[labels == k].sum()
        assert part["rows"].tolist() == pytest.approx([inside] * X.shape[1])
        assert part["share"].tolist() == pytest.approx([inside / weight.sum()] * X.shape[1])
        assert (part["difference"].abs().diff().dropna() <= 0).all()
        for line in part.to_dict("records"):
            d = names.index(line["feature"])
            own, spread = clusters[k][0][d], clusters[k][1][d]
            assert line["difference"] == pytest.approx((own - mean[d]) / deviation[d])
            assert line["in the cluster"] == mean_and_deviation(own, spread)
            assert line["in the whole table"] == mean_and_deviation(mean[d], deviation[d])


@pytest.mark.parametrize("weight", [None, WEIGHT])
@pytest.mark.parametrize(
    "parameters", [{}, {"covariance": "full-sized"}, {"covariance": np.diag([1.0, 2.0, 3.0])}]
)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_dp_means(parameters, weight, dtype):
    model = DPMeans(60.0, random_state=0, **parameters).fit(FRAME.astype(dtype), sample_weight=weight)
    assert model.n_clusters_ > 1
    cells = BLOBS.astype(dtype).astype(np.float64)
    check_summary(
        model.summary(), cells, model.labels_, np.ones(60) if weight is None else weight, list(FRAME)
    )


def test_dp_means_after_more_rows():
    model = DPMeans(60.0).partial_fit(FRAME, sample_weight=WEIGHT)
    labels = [model.labels_]
    for part in (BLOBS[10:40] + 0.5, BLOBS[:25] + 40.0):
        labels.append(model.partial_fit(pd.DataFrame(part, columns=list(FRAME))).labels_)
    weight = np.concatenate([WEIGHT, np.ones(55)])
    rows = np.concatenate([BLOBS, BLOBS[10:40] + 0.5, BLOBS[:25] + 40.0])
    check_summary(model.summary(), rows, np.concatenate(labels), weight, list(FRAME))


def test_convex_clustering():
    model = ConvexClustering(n_clusters=3).fit(BLOBS)
    assert model.n_clusters_ == 3
    check_summary(model.summary(), BLOBS, model.labels_, np.ones(60), ["x0", "x1", "x2"])


def test_a_constant_column_differs_by_nothing():
    frame = DPMeans(60.0).fit(FRAME.assign(constant=0.1)).summary()
    lines = frame[frame["feature"] == "constant"]
    assert lines["difference"].tolist() == [0.0] * len(lines)
    assert set(lines["in the cluster"]) == set(lines["in the whole table"]) == {"0.1 ± 0"}


@pytest.mark.parametrize("method", [KFeatures, BPMeans])
def test_features(method):
    Z = np.random.default_rng(1).integers(0, 2, (80, 2))
    A = np.array([[0.0, -5.0, 2.0, 0.0, 0.5], [3.0, 0.0, 0.0, 0.0, 0.0]])
    frame = pd.DataFrame(Z @ A, columns=list("abcde"))
    parameters = {"n_features": 2} if method is KFeatures else {"feature_penalty": 5.0}
    model = method(base="none", random_state=0, **parameters).fit(frame)
    summary = model.summary().sort_values("rows")
    largest = dict(zip(summary["rows"], summary["largest values"], strict=True))
    assert largest == {Z[:, 0].sum(): "b -5, c 2, e 0.5", Z[:, 1].sum(): "a 3"}


@pytest.mark.parametrize(
    "model",
    [
        DPMeans(60.0),
        ConvexClustering(n_clusters=3),
        KFeatures(2, random_state=0),
        BPMeans(200.0, random_state=0),
        FeatureSelectionMixture(4, random_state=0),
    ],
    ids=lambda model: type(model).__name__,
)
def test_the_frame_is_of_the_library_of_the_table(model):
    with pytest.raises(NotFittedError):
        model.summary()
    table = pl.DataFrame({name: FRAME[name].to_numpy() for name in FRAME})
    summary = model.fit(table).summary()
    assert isinstance(summary, pl.DataFrame)
    other = model.fit(FRAME).summary()
    assert isinstance(other, pd.DataFrame)
    assert summary.to_dict(as_series=False) == other.to_dict("list")
    assert isinstance(model.fit(BLOBS).summary(), pd.DataFrame)
