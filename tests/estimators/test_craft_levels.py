"""Models at the steps of a merge path: `CRAFT.at`, merged pairs, and the sums along the path."""

from __future__ import annotations

import numpy as np
import pytest

from craftc import CRAFT, MixedTable, load_model, save_model
from craftc._common.merge_path import MergePath
from craftc.craft.fitted import CarriedSums
from craftc.datasets import load_heart
from craftc.table.moments import Moments


def mixed(seed, n=240):
    """A table with missing cells, a column with a spike, a skewed column and one of few values: every kind of
    encoding.
    """
    rng = np.random.default_rng(seed)
    group = np.arange(n) % 4
    X = {
        "skewed": np.exp(rng.normal(group, 0.5)),
        "spike": np.where(rng.random(n) < 0.15 + 0.2 * group, 0.0, rng.normal(5.0, 1.0, n)),
        "few": rng.integers(0, 3, n) + 2.0 * (group > 1),
        "plain": rng.normal(3.0 * (group == 2), 1.0),
        "noise": rng.normal(size=n),
        "level": np.array(["a", "b", "c", "d"])[np.where(rng.random(n) < 0.8, group, rng.integers(0, 4, n))],
        "other": np.array(["u", "v"])[rng.integers(0, 2, n)],
    }
    X["plain"][rng.random(n) < 0.05] = np.nan
    return X


def cloud(seed, n=300):
    rng = np.random.default_rng(seed)
    slanted = rng.multivariate_normal([0, 0, 0], [[1, 0.9, 0], [0.9, 1, 0], [0, 0, 1]], n)
    slanted[: n // 3, 2] += 6.0
    return slanted


TABLES = [
    (mixed(0), {"n_clusters": 6}),
    (mixed(1), {"n_clusters": 5, "covariance": "diagonal", "price_factor": 1}),
    (mixed(2), {"n_clusters": 5, "missing": "category"}),
    (cloud(3), {"n_clusters": 5}),
    (cloud(4), {"n_clusters": 4, "covariance": "full"}),
]


@pytest.mark.slow_except(5)
@pytest.mark.parametrize(("X", "parameters"), TABLES)
@pytest.mark.parametrize("weighted", [False, True])
def test_every_step_is_a_fitted_model(X, parameters, weighted, tmp_path):
    source = MixedTable.from_data(X, missing=parameters.get("missing", "ignore"))
    n = len(source)
    weight = np.random.default_rng(7).integers(0, 4, n).astype(float) if weighted else None
    model = CRAFT(**parameters, n_init=2, random_state=0).fit(X, sample_weight=weight)
    assert len(model.merge_path_) > 2
    path = [(step.n_clusters, step.objective) for step in model.merge_path_]
    for step in model.merge_path_:
        k = step.n_clusters
        at = model.at(k)
        assert at.n_clusters == at.n_clusters_ == k
        assert at.objective_ == pytest.approx(step.objective, rel=1e-12)
        np.testing.assert_array_equal(at.labels_, step.labels)
        assert [(later.n_clusters, later.objective) for later in at.merge_path_] == path[
            -len(at.merge_path_) :
        ]
        # the sums in original units are those of the labels
        counts = np.ones(n, np.int64) if weight is None else weight.astype(np.int64)
        grid = model._fitted.original_moments.grid
        expected = Moments.of_partition(grid, 1.0, source, counts, step.labels, k)
        np.testing.assert_array_equal(at._fitted.original.groups, expected.groups)
        np.testing.assert_array_equal(at.at(1).labels_, 0)
        save_model(at, tmp_path / "m.craftc")
        again = load_model(tmp_path / "m.craftc")
        np.testing.assert_array_equal(again.predict(X), at.predict(X))
        assert again.objective_ == at.objective_
        assert again.at(max(k - 1, 1)).objective_ == at.at(max(k - 1, 1)).objective_
        assert again.cluster_names_ == at.cluster_names_


def test_margins_and_rows_need_the_rows():
    heart = load_heart().data
    model = CRAFT(5, random_state=0).fit(heart)
    at = model.at(3)
    assert not hasattr(at, "margins_")
    with pytest.raises(ValueError, match="pass them as X"):
        at.representatives()
    with_rows = model.at(3, heart)
    np.testing.assert_array_equal(with_rows.margins_, at.margins(heart).astype(np.float32))
    assert [rows.tolist() for rows in with_rows.representatives()] == [
        rows.tolist() for rows in at.representatives(3, heart)
    ]
    assert hasattr(model, "margins_")
    assert model.n_clusters == 5
    assert model.n_clusters_ == 5


def test_rows_of_weight_zero_stay_out():
    heart = load_heart().data
    weight = np.random.default_rng(1).integers(0, 2, 270).astype(float)
    model = CRAFT(4, random_state=0).fit(heart, sample_weight=weight)
    same = model.at(4, heart, weight)
    np.testing.assert_array_equal(same.cluster_margins_, model.cluster_margins_)
    at = model.at(2, heart, sample_weight=weight)
    assert (weight[at.outliers(20)] == 1).all()
    assert all((weight[rows] == 1).all() for rows in at.representatives(5))
    with pytest.raises(ValueError, match="pass the sample_weight of fit"):
        model.at(2, heart)
    with pytest.raises(ValueError, match="X has 10 rows, but the model was fitted on 270"):
        model.at(2, heart.head(10))


def test_refusals():
    model = CRAFT(6, random_state=0).fit(load_heart().data)
    for k, message in ((7, "has 6 clusters, fewer than 7"), (0, "n_clusters"), ("best", "n_clusters")):
        with pytest.raises((ValueError, TypeError), match=message):
            model.at(k)


def test_merged_pairs_and_heirs():
    model = CRAFT(6, random_state=0).fit(mixed(5))
    first, *later = model.merge_path_
    assert first.merged is None
    assert first.heirs is None
    n_clusters, objective, labels, *_ = first
    assert (n_clusters, objective, len(labels)) == (6, model.objective_, 240)
    before = first
    for step in later:
        i, j = step.merged
        assert 0 <= i < j < before.n_clusters
        assert step.heirs[i] == step.heirs[j]
        assert sorted(set(step.heirs.tolist())) == list(range(step.n_clusters))
        if step.n_clusters == before.n_clusters - 1:  # all others continue one to one
            assert len(set(step.heirs.tolist())) == step.n_clusters
        before = step


def test_heirs_follow_the_rows():
    before = np.array([0] * 5 + [1] * 5 + [2] * 5 + [3] * 5, np.int32)
    after = np.array(
        [0] * 5 + [1] * 5 + [0] * 5 + [1] * 3 + [2] * 2, np.int32
    )  # 0 and 2 are one; most rows of 3 went to 1
    path = MergePath(before, 4, 10.0)
    path.append(3, 11.0, before, after, (0, 2))
    assert path[1].heirs.tolist() == [0, 1, 0, 2]
    np.testing.assert_array_equal(path[1].labels, after)
    path = MergePath(before, 4, 10.0)
    path.append(3, 11.0, before, after)  # an older file does not name the pair
    assert path[1].merged in ((0, 2), (1, 3))


def test_carried_sums():
    rng = np.random.default_rng(0)
    first = rng.integers(0, 9, (4, 3))

    steps = [
        (np.array([0, 1, 0, 2], np.int32), None),
        (np.array([1, 0, 0], np.int32), np.array([[1, 2, 3], [4, 5, 6]])),
    ]
    sums, expected, groups = CarriedSums(first, first.shape[1]), [first], first
    for place, given in steps:
        carried = np.zeros((place.max() + 1, 3), np.int64)
        np.add.at(carried, place, groups)
        groups = carried if given is None else given
        sums.append(place, groups)
        expected.append(groups)
    for i, groups in enumerate(expected):
        np.testing.assert_array_equal(sums.at(i), groups)
        for j, later in enumerate(expected[i:]):
            np.testing.assert_array_equal(sums.after(i).at(j), later)
    assert len(sums._changes[0][1]) == 0  # nothing is stored for a merge
