"""Warnings of numbers of clusters or features that say more of the table's values than of its groups."""

import warnings

import numpy as np
import pandas as pd
import pytest

from craftc import BPMeans, ConvexClustering, DPMeans, KFeatures, KModes, KPrototypes, PaperCRAFT
from craftc.distributed import Partitions

ANSWERS = (np.random.default_rng(0).random((300, 5)) < 0.4).astype(float)  # noise of 32 different rows


@pytest.mark.parametrize(
    ("method", "chose"),
    [
        (DPMeans(), "DPMeans chose 32 clusters of equal rows"),
        (ConvexClustering(), "ConvexClustering chose 32 clusters of equal rows"),
        (KFeatures(random_state=0), "KFeatures chose 5 features"),
        (BPMeans(random_state=0), "BPMeans chose 5 features"),
    ],
)
def test_a_choice_without_residuals(method, chose):
    with pytest.warns(UserWarning, match=f"{chose}, which leave no residuals: a table of few different rows"):
        method.fit(ANSWERS)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        method.fit(ANSWERS + 0.1 * np.random.default_rng(1).normal(size=ANSWERS.shape))
        method.fit(np.ones((9, 2)))


def test_numbers_that_are_asked_for_are_no_choice():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        DPMeans(n_clusters=32).fit(ANSWERS)
        KFeatures(5, random_state=0).fit(ANSWERS)
        ConvexClustering(n_clusters=32).fit(ANSWERS)


def test_a_choice_without_residuals_in_partitions():
    with pytest.warns(UserWarning, match="DPMeans chose 32 clusters of equal rows"):
        DPMeans().fit(Partitions([ANSWERS[:100], ANSWERS[100:]]))


def test_very_many_clusters():
    rng = np.random.default_rng(0)
    rows = np.repeat(100 * rng.normal(size=(130, 4)), 8, axis=0) + rng.normal(size=(1040, 4))
    with pytest.warns(UserWarning, match="DPMeans chose 130 clusters for 1040 rows: .* has 8 rows for each"):
        DPMeans(random_state=0).fit(rows)
    with pytest.warns(
        UserWarning, match=r"DPMeans opened \d+ clusters for 1040 rows: lambda\^2 = 0.5 is not"
    ):
        DPMeans(0.5).fit(rows)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert DPMeans(n_clusters=150).fit(rows).n_clusters_ == 150


def test_the_most_clusters_of_a_curved_sheet():
    rng = np.random.default_rng(0)
    angles = rng.random((1500, 2)) * 2 * np.pi
    rows = np.sin(angles @ rng.normal(size=(2, 40))) + 0.05 * rng.normal(size=(1500, 40))
    with pytest.warns(
        UserWarning, match="DPMeans chose 128 clusters, the most that it tries .* coarser answer"
    ):
        assert DPMeans(random_state=0).fit(rows).n_clusters_ == 128
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert DPMeans(max_clusters=128, random_state=0).fit(rows).n_clusters_ == 128


def test_fewer_features_than_asked_for():
    rows = np.random.default_rng(0).normal(size=(60, 4))
    with pytest.warns(
        UserWarning, match=r"KFeatures found 1 feature\(s\), fewer than n_features=3: they leave"
    ):
        KFeatures(3, random_state=0).fit(np.ones((9, 2)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        KFeatures(3, random_state=0).fit(rows)


@pytest.mark.parametrize(
    "method", [KFeatures(random_state=0), BPMeans(random_state=0), BPMeans(9.0)], ids=str
)
def test_features_of_a_table_far_from_0(method):
    rows = np.random.default_rng(0).normal(size=(60, 4)) + np.repeat([[0.0], [9.0]], 30, axis=0)
    with pytest.warns(
        UserWarning, match=r"The columns lie 2\.\de\+07 times their spread away from 0, too far"
    ):
        method.fit(rows + 1e8)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        method.fit(rows + 1e5)


def test_levels_of_single_rows():
    rng = np.random.default_rng(0)
    marks = pd.DataFrame({"mark": rng.normal(size=60), "grade": rng.integers(1, 6, 60), "id": range(60)})
    with pytest.warns(
        UserWarning, match="Most rows have a level of their own in 'mark', 'id'; KModes compares"
    ):
        KModes(3, random_state=0).fit(marks)
    names = marks.assign(id=pd.Categorical([f"no {k}" for k in marks["id"]]))
    with pytest.warns(UserWarning, match="level of their own in 'id'; KPrototypes compares .* Leave out id"):
        KPrototypes(3, random_state=0).fit(names)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        KModes(3, random_state=0).fit(marks[["grade"]], sample_weight=np.arange(60))
        KModes(3, random_state=0).fit(marks[:19])


def test_a_price_of_the_paper_that_is_too_low():
    rows = np.random.default_rng(0).normal(size=(40, 2)) + np.repeat([[0.0], [9.0]], 20, axis=0)
    with pytest.warns(UserWarning, match=r"PaperCRAFT opened 1\d clusters for 40 rows: the farthest-first"):
        PaperCRAFT(random_state=0).fit(rows)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        PaperCRAFT(cluster_price=20.0, random_state=0).fit(rows)
