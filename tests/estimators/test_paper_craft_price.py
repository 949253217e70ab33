"""A number as cluster_price counts in every selection, start and model of PaperCRAFT: clusters that do not
pay are merged or closed.
"""

from __future__ import annotations

import numpy as np
import pytest

from craftc import PaperCRAFT
from craftc.datasets import load_heart
from tests.common import random_table

MODELS = ("paper", "paper-relative", "paper-fixed", "likelihood")
SELECTIONS = ("fixed", "free", "threshold", "priced")
STARTS = {
    "auto": "auto",
    "single": "single",
    "random": "random",
    "farthest": "farthest",
    "labels": np.arange(270) % 20,
    "several labels": [np.arange(270) % 9, np.arange(270) // 30],
}
CASES = [
    (model, selection, sharing)
    for model in MODELS
    for selection in SELECTIONS
    for sharing in (0.0, 0.5, 1.0)
    if (model == "likelihood" or (selection != "priced" and sharing != 0.5))
    and (sharing == 0.0 or selection in ("fixed", "free"))
]


@pytest.fixture(scope="module")
def heart():
    return load_heart().data


def model_of(price, **parameters):
    return PaperCRAFT(cluster_price=price, n_init=2, random_state=0, n_threads=1, **parameters)


@pytest.mark.slow_except(40)
@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize(("model", "selection", "sharing"), CASES)
def test_a_high_price_leaves_one_cluster(model, selection, sharing, start, heart):
    fitted = model_of(1e7, model=model, selection=selection, feature_sharing=sharing, init=STARTS[start]).fit(
        heart
    )
    assert fitted.n_clusters_ == 1
    assert fitted.converged_
    assert fitted.objective_ > 1e7


@pytest.mark.filterwarnings("ignore:.*max_iter:sklearn.exceptions.ConvergenceWarning")
@pytest.mark.slow_except(12)
@pytest.mark.parametrize("price", [5.0, 20.0, 100.0])
@pytest.mark.parametrize("start", ["auto", "random", "labels"])
@pytest.mark.parametrize(("selection", "sharing"), [case[1:] for case in CASES if case[0] == "likelihood"])
def test_no_merge_lowers_the_objective(selection, sharing, price, start, heart):
    parameters = {"model": "likelihood", "selection": selection, "feature_sharing": sharing}
    fitted = model_of(price, **parameters, init=STARTS[start]).fit(heart)
    K, labels = fitted.n_clusters_, fitted.labels_
    partitions = [np.zeros(270, np.int32)]
    pairs = [(k, j) for k in range(K) for j in range(k + 1, K)]
    for k, j in pairs[:: max(1, len(pairs) // 6)]:
        partitions.append(np.where(labels == j, k, labels))
    for partition in partitions:
        other = model_of(price, **parameters, init=partition, max_iter=1).fit(heart)
        assert other.objective_path_[0] >= fitted.objective_ - 1e-6
    path = fitted.objective_path_
    if selection != "threshold":
        assert (np.diff(path) <= 1e-9 * np.abs(path[:-1])).all()


def test_weights_and_rows_of_weight_zero(heart):
    weight = np.random.default_rng(0).integers(0, 3, 270).astype(float)
    labels = np.arange(270) % 12
    for model in MODELS:
        fitted = model_of(20.0, model=model, init=labels).fit(heart, sample_weight=weight)
        rows = np.repeat(np.arange(270), weight.astype(int))
        repeated = model_of(20.0, model=model, init=labels[rows]).fit(heart.iloc[rows])
        assert fitted.n_clusters_ == repeated.n_clusters_
        assert fitted.objective_ == pytest.approx(repeated.objective_, rel=1e-12)


def test_the_papers_start_from_one_cluster_closes_none(heart):
    """Only clusters that pay for themselves open there, as printed."""
    fitted = model_of(10.0, model="paper", n_clusters=None).fit(heart)
    assert fitted.n_clusters_ > 50


@pytest.mark.parametrize("sharing", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("weight", ["none", "whole", "real"])
def test_one_cluster_selects_nothing(weight, sharing):
    """Features cost nothing at feature_fraction 0.5: rounding would select them."""
    for seed in range(4):
        table, rng = random_table(7000 + seed, n=300, p=4, q=4), np.random.default_rng(seed)
        weights = {"none": None, "whole": rng.integers(0, 4, 300) + 0.0, "real": rng.random(300) * 2}
        fitted = model_of(
            1e7, model="likelihood", selection="free", feature_sharing=sharing, numeric="raw"
        ).fit(table, sample_weight=weights[weight])
        assert fitted.n_clusters_ == 1
        assert not fitted.feature_gains_.any()
        assert not fitted.feature_mask_.any()
