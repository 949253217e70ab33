"""Independent columns of any shape give one cluster; what must not change a fit on columns of every kind."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from craftc import CRAFT
from craftc._common import threads as parallel
from craftc.distributed import Partitions
from tests.distributed.same_fit import cut, differences, even, outcome

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def hours(rng, n):
    return np.where(rng.random(n) < 0.5, rng.normal(8.0, 1.5, n), rng.normal(18.0, 2.5, n)).round() % 24.0


def money(rng, n):
    return np.where(rng.random(n) < 0.35, 0.0, np.exp(rng.normal(5.0, 1.5, n)).round(2))


def category(rng, n):
    return rng.choice(list("abcdefg"), n, p=rng.dirichlet(np.full(7, 1.0)))


def answers(rng, n):
    scale = ["never", "seldom", "often", "always"]
    return pd.Categorical(rng.choice(scale, n, p=rng.dirichlet(np.ones(4))), scale, ordered=True)


SHAPES = {
    "ratings": lambda rng, n: rng.binomial(10, rng.choice([0.3, 0.5, 0.8]), n) * 1.0,
    "counts": lambda rng, n: rng.geometric(0.15, n) - 1.0,
    "uniform": lambda rng, n: rng.random(n),
    "two humps": lambda rng, n: rng.normal(rng.choice([-3.0, 3.0], n), 1.0),
    "hours": hours,
    "zeros": money,
    "heavy tails": lambda rng, n: rng.standard_t(1.2, n),
    "rounded": lambda rng, n: (rng.normal(120.0, 15.0, n) / 10.0).round() * 10.0,
    "category": category,
    "answers": answers,
}


def independent(name, seed):
    """Columns of one shape, or of all shapes, that know nothing of each other."""
    rng = np.random.default_rng([seed, len(name)])
    n = int(rng.integers(200, 600))
    shapes = SHAPES.values() if name == "mixed" else [SHAPES[name]] * int(rng.integers(4, 9))
    frame = pd.DataFrame({f"x{d}": shape(rng, n) for d, shape in enumerate(shapes)})
    for column in frame:
        if seed % 2:
            frame.loc[rng.random(n) < 0.1, column] = None
    return frame


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", [*SHAPES, "mixed"])
def test_independent_columns_give_one_cluster(name, seed):
    frame = independent(name, seed)
    model = CRAFT(random_state=seed).fit(frame)
    assert model.n_clusters_ == 1


@pytest.mark.parametrize("seed", range(2))
def test_independent_periodic_columns_give_one_cluster(seed):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({f"x{d}": hours(rng, 400) for d in range(5)})
    kinds = dict.fromkeys(frame, ("periodic", 24.0))
    assert CRAFT(kinds=kinds, random_state=seed).fit(frame).n_clusters_ == 1


# ----------------------------------------------------------------------------------------
# Tables with clusters
# ----------------------------------------------------------------------------------------

KINDS = {"hour": ("periodic", 24.0)}


def clustered(seed, n=360):
    """(table of every kind of column, groups): three clusters, columns that depend on each other, missing
    cells.
    """
    rng = np.random.default_rng(seed)
    group = rng.integers(3, size=n)
    z = rng.normal(size=(n, 2)) @ np.array([[1.0, 0.9], [0.0, 0.4]])
    frame = pd.DataFrame(
        {
            "a": np.rint(256 * (z[:, 0] + 4.0 * group)) / 256,
            "b": np.rint(256 * (z[:, 1] - 4.0 * group)) / 256,
            "c": np.rint(256 * rng.normal(3.0 * (group == 1), 1.0)) / 256,
            "score": rng.binomial(10, np.array([0.2, 0.5, 0.9])[group]) * 1.0,
            "zeros": np.where(
                rng.random(n) < 0.3 + 0.3 * (group == 2), 0.0, np.rint(rng.gamma(2.0, 99.0, n))
            ),
            "hour": np.rint(rng.normal(np.array([23.0, 7.0, 15.0])[group], 2.0)) % 24,
            "level": np.where(
                rng.random(n) < 0.7, np.array(["u", "v", "w"])[group], rng.choice(["u", "z"], n)
            ),
            "answer": pd.Categorical.from_codes(
                np.clip(group + rng.integers(-1, 3, n), 0, 3),
                ["no", "rather not", "rather", "yes"],
                ordered=True,
            ),
        }
    )
    for column in ("score", "hour", "level"):
        frame.loc[rng.random(n) < 0.05, column] = None
    return frame, group


def fitted(frame, weight=None, **options):
    options = {"kinds": KINDS, "random_state": 0, "n_init": 2} | options
    return CRAFT(**options).fit(frame, sample_weight=weight)


def assert_same_fit(a, b, rows=slice(None)):
    """To the last bit; `rows` of a are those of b."""
    assert a.objective_ == b.objective_
    np.testing.assert_array_equal(np.asarray(a.labels_)[rows], b.labels_)
    np.testing.assert_array_equal(a.feature_mask_, b.feature_mask_)
    np.testing.assert_array_equal(a.feature_gains_, b.feature_gains_)
    assert [step.objective for step in a.merge_path_] == [step.objective for step in b.merge_path_]


@pytest.fixture(scope="module")
def model():
    model = fitted(clustered(0)[0])
    assert model.n_clusters_ >= 3
    assert any(own is not None for own in model.covariances_)
    return model


@pytest.mark.parametrize("covariance", ["auto", "diagonal"])
@pytest.mark.parametrize("seed", range(3))
def test_weights_are_repeated_rows(seed, covariance):
    """Bit for bit, from the same start partition."""
    frame, group = clustered(seed)
    weight = np.random.default_rng(seed).integers(1, 3, len(frame))
    start = np.where(np.random.default_rng(seed).random(len(frame)) < 0.2, 0, group)
    rows = np.repeat(np.arange(len(frame)), weight)
    weighted = fitted(frame, weight, init=start, covariance=covariance)
    repeated = fitted(frame.iloc[rows].reset_index(drop=True), init=start[rows], covariance=covariance)
    assert_same_fit(weighted, repeated, rows)


@pytest.mark.parametrize("covariance", ["auto", "diagonal"])
@pytest.mark.parametrize("seed", range(3))
def test_order_of_rows_and_columns(seed, covariance):
    frame, group = clustered(seed)
    rng = np.random.default_rng(seed)
    rows, columns = rng.permutation(len(frame)), rng.permutation(frame.columns)
    plain = fitted(frame, init=group, covariance=covariance)
    other = fitted(frame.iloc[rows][columns].reset_index(drop=True), init=group[rows], covariance=covariance)
    assert other.objective_ == pytest.approx(plain.objective_, rel=1e-10)
    same = fitted(frame.iloc[rows].reset_index(drop=True), init=group[rows], covariance=covariance)
    assert same.objective_ == pytest.approx(plain.objective_, rel=1e-14, abs=0)
    if covariance == "diagonal":
        assert same.objective_ == plain.objective_
    pairs = np.unique(np.stack([plain.labels_[rows], same.labels_]), axis=1)
    assert pairs.shape[1] == plain.n_clusters_  # the same clusters, by other names


@pytest.mark.parametrize("scale", [2.0**-30, 0.5, 2.0**40])
@pytest.mark.parametrize("shift", [0.0, 1024.0])
def test_units_of_columns(model, scale, shift):
    """Powers of two, which leave the values exact, change no label and no bit of J."""
    frame = clustered(0)[0]
    frame[["a", "b", "c", "zeros"]] = (frame[["a", "b", "c", "zeros"]] + shift) * scale
    other = fitted(frame)
    assert_same_fit(other, model)


def test_float32(model):
    frame = clustered(0)[0]
    for column in ("a", "b", "c", "score", "zeros", "hour"):
        frame[column] = frame[column].astype(np.float32)
    assert_same_fit(fitted(frame), model)


@pytest.mark.parametrize("n_threads", [2, 5])
def test_threads(model, n_threads, monkeypatch):
    monkeypatch.setattr(parallel, "SMALL_WORK", 0)
    assert_same_fit(fitted(clustered(0)[0], n_threads=n_threads), model)


@pytest.mark.parametrize("parts", [1, 2, 5])
def test_partitions(model, parts):
    frame = clustered(0)[0]
    far, _ = outcome(lambda: fitted(Partitions(cut(frame, even(len(frame), parts)))))
    assert differences(far, model) == []


# ----------------------------------------------------------------------------------------
# Tables at the edge
# ----------------------------------------------------------------------------------------


def test_one_row():
    model = CRAFT(unusable="drop").fit(np.array([[1.0, 2.0]]))
    assert model.n_clusters_ == 1
    assert model.labels_.tolist() == [0]


@pytest.mark.parametrize("n", [2, 3, 9])
def test_few_rows(n):
    model = CRAFT(random_state=0).fit(np.random.default_rng(n).normal(size=(n, 3)))
    assert 1 <= model.n_clusters_ <= n
    assert np.isfinite(model.objective_)


def test_missing_and_constant_columns():
    frame, _ = clustered(0)
    plain = fitted(frame)
    frame = frame.assign(gone=np.nan, constant=3.0, word="x")
    with pytest.raises(ValueError, match="gone"):
        fitted(frame)
    model = fitted(frame, unusable="drop")
    assert model.objective_ == plain.objective_
    np.testing.assert_array_equal(model.labels_, plain.labels_)


def test_columns_that_only_rows_of_weight_zero_have():
    frame, _ = clustered(0)
    weight = np.ones(len(frame))
    weight[:40] = 0.0
    frame = frame.assign(early=np.where(np.arange(len(frame)) < 40, np.arange(len(frame)) * 1.0, np.nan))
    model, plain = fitted(frame, weight), fitted(frame.drop(columns="early"), weight)
    assert model.objective_ == plain.objective_
    np.testing.assert_array_equal(model.labels_, plain.labels_)
    assert model.predict(frame).shape == (len(frame),)


def test_constant_columns_alone():
    model = CRAFT(unusable="drop").fit(np.full((20, 2), 7.0))
    assert model.n_clusters_ == 1


def test_more_clusters_than_rows():
    X = np.random.default_rng(0).normal(size=(12, 3))
    with pytest.raises(ValueError, match=r"n_clusters=13 is more than the 12"):
        CRAFT(13).fit(X)
    twice = np.concatenate([X[:5], X[:5]])
    with pytest.raises(ValueError, match=r"n_clusters=6 is more than the 5 distinct rows"):
        CRAFT(6).fit(twice)
    assert CRAFT(12, random_state=0).fit(X).n_clusters_ == 12
