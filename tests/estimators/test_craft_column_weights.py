"""Weights of columns of CRAFT: a column of weight w is w independent copies of it."""

from __future__ import annotations

from itertools import product
from math import ceil, lgamma, log

import numpy as np
import pandas as pd
import pytest

import craftc
from craftc import CRAFT
from craftc.distributed import Partitions
from tests.reference.automatic import priced_shares

WEIGHTS = {"num0": 3, "num1": 0, "cat0": 2, "cat1": 0.5}


def mixed(seed, n=150, missing=0.0):
    """Numbers and categories of some groups that overlap."""
    rng = np.random.default_rng(seed)
    group = rng.integers(0, rng.integers(2, 5), n)
    frame = {}
    for j in range(rng.integers(2, 5)):
        means = group * rng.uniform(0.3, 2.5) * rng.choice([-1, 1])
        frame[f"num{j}"] = np.where(rng.random(n) < missing, np.nan, np.round(rng.normal(means), 2))
    for j in range(rng.integers(2, 5)):
        T = int(rng.integers(2, 6))
        shares = rng.dirichlet(np.full(T, 0.7), group.max() + 1)
        cells = [None if rng.random() < missing else str(rng.choice(T, p=shares[k])) for k in group]
        frame[f"cat{j}"] = pd.Categorical(cells)
    return pd.DataFrame(frame)


def repeated(frame, weights):
    """The table with every column as often as its weight says."""
    return pd.DataFrame(
        {f"{name} {i}": frame[name] for name in frame for i in range(int(weights.get(name, 1)))}
    )


@pytest.mark.filterwarnings(
    "ignore:Columns .* are near-duplicates", "ignore:More than 10 pairs", "ignore:n_clusters=3 is more"
)
@pytest.mark.slow_except(3)
@pytest.mark.parametrize("seed", range(60))
def test_a_weight_is_that_many_copies(seed):
    rng, frame = np.random.default_rng(seed + 1000), mixed(seed, missing=0.1 * (seed % 2))
    weights = {name: int(rng.integers(0, 4)) for name in frame if rng.random() < 0.6}
    weights[frame.columns[0]] = 2
    options = {
        "null": ["marginals", "normal"][seed // 4 % 2],
        "feature_sharing": [0.0, 0.0, 0.3, 1.0][seed % 4],
        "n_clusters": [None, None, 3][seed % 3],
        "covariance": "diagonal",  # a covariance describes copies by one of them
        "random_state": 0,
    }
    model, copies = CRAFT(column_weights=weights, **options).fit(frame), repeated(frame, weights)
    other = CRAFT(**options).fit(copies)
    np.testing.assert_array_equal(model.labels_, other.labels_)
    np.testing.assert_array_equal(model.predict(frame), other.predict(copies))
    np.testing.assert_allclose(model.score_samples(frame), other.score_samples(copies), atol=1e-8)
    np.testing.assert_allclose(model.margins_, other.margins_, atol=1e-4)
    one, two = ([(s.n_clusters, s.objective) for s in m.merge_path_] for m in (model, other))
    np.testing.assert_allclose(one, two, rtol=1e-10)
    assert model.bic_ == pytest.approx(other.bic_)
    first = [list(copies).index(f"{name} 0") for name in frame if weights.get(name, 1)]
    used = [j for j, name in enumerate(frame) if weights.get(name, 1)]
    np.testing.assert_array_equal(model.feature_mask_[:, used], other.feature_mask_[:, first])


def test_a_column_of_weight_0_is_shown_but_not_used():
    frame = mixed(3)
    frame["answer"] = np.where(np.arange(len(frame)) % 2, "yes", "no")
    model = CRAFT(column_weights={"answer": 0}, n_init=2, random_state=0).fit(frame)
    without = frame.drop(columns="answer")
    other = CRAFT(n_init=2, random_state=0).fit(without)
    np.testing.assert_array_equal(model.labels_, other.labels_)
    assert model.objective_ == pytest.approx(other.objective_, rel=1e-14)
    np.testing.assert_array_equal(model.transform(frame), other.transform(without))
    assert not model.feature_mask_[:, -1].any()
    assert model.feature_importances_[-1] == 0.0
    assert "answer" in str(model.profile(frame))
    assert "Weights of columns: 'answer' 0 (shown, not used)." in model.summary().attrs["notes"]
    assert not any("answer" in pair for pair in model.column_links_)


def smoothed(counts, b):
    return (counts + b) / (counts.sum() + 1.0)


def gain(counts, b):
    """(S + 1) KL of a group's shares, with one row of prior, from those of the table."""
    eta = smoothed(counts, b)
    return (counts.sum() + 1.0) * float((eta * np.log(eta / b)).sum())


def naming(D, q):
    """log C(D, q), linear between ceil(D) + 1 values of q."""

    def choices(x):
        return lgamma(D + 1) - lgamma(x + 1) - lgamma(max(D - x, 0.0) + 1)

    n = ceil(D)
    nodes = np.arange(n + 1) * (D / n)
    return float(np.interp(q, nodes, [choices(x) for x in nodes]))


@pytest.mark.parametrize("weights", [(1, 1, 1, 1), (2, 1, 3, 1), (0.3, 1, 1.7, 0), (0.25, 0.125, 0.5, 0.5)])
def test_the_objective_and_the_costs_by_hand(weights):
    """Categories: the least J of all masks, and the costs of rows, from counts alone."""
    rng = np.random.default_rng(1)
    group = rng.integers(0, 2, 400)
    codes = np.column_stack(
        [(rng.random(400) < 0.2 + 0.6 * (group == 1)) + 2 * (rng.random(400) < p) for p in (0.1, 0.4, 0.5)]
        + [rng.integers(0, 3, 400)]
    )
    frame = pd.DataFrame(codes.astype(str), columns=list("abcd"))
    model = CRAFT(2, column_weights=dict(zip("abcd", weights, strict=True)), random_state=0).fit(frame)
    w, mask, labels, N = np.array(weights, float), model.feature_mask_, model.labels_, 400
    h, D, S = 0.5 * log(N), float(w.sum()), np.bincount(labels)
    counts = [
        np.array([np.bincount(x[labels == k], minlength=x.max() + 1) for k in range(2)]) for x in codes.T
    ]

    def objective(mask):
        J = 2 * (h + log(D + 1)) - (S * np.log(S / N)).sum()
        J += sum(naming(D, w[own].sum()) for own in mask)
        for d, n in enumerate(counts):
            b, price, rest = n.sum(axis=0) / N, priced_shares(n.shape[1], N) * h, ~mask[:, d]
            J -= w[d] * (n.sum(axis=0) @ np.log(b))
            J += w[d] * sum(price - gain(own, b) for own in n[mask[:, d]])
            J -= w[d] * (gain(n[rest].sum(axis=0), b) if rest.any() else price)
        return J

    every = [np.array(bits).reshape(2, 4) for bits in product([False, True], repeat=8)]
    used = [each for each in every if not each[:, w == 0].any()]
    assert model.objective_ == pytest.approx(objective(mask), rel=1e-9)
    assert model.objective_ == pytest.approx(min(map(objective, used)), rel=1e-9)
    costs = np.repeat(-np.log(S / N)[None], N, axis=0)
    for d, n in enumerate(counts):
        b, rest = n.sum(axis=0) / N, ~mask[:, d]
        shared = smoothed(n[rest].sum(axis=0), b)
        for k in range(2):
            share = smoothed(n[k], b) if mask[k, d] else shared
            costs[:, k] -= w[d] * np.log(share[codes[:, d]])
    own = costs[np.arange(N), model.predict(frame)]
    np.testing.assert_allclose(model.margins_, costs.max(axis=1) - own, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(model.score_samples(frame), np.logaddexp(*-costs.T), rtol=1e-9)
    if min(w) > 0 and len(set(weights)) > 1:
        other = CRAFT(2, random_state=0).fit(frame)
        assert not np.allclose(other.margins_, model.margins_)


def test_a_weighted_column_is_in_no_covariance():
    rng = np.random.default_rng(0)
    base = rng.normal(size=(400, 1))
    frame = pd.DataFrame(np.hstack([base + 0.3 * rng.normal(size=(400, 3)), rng.normal(size=(400, 1))]))
    frame.columns = list("abcd")
    options = {"n_init": 1, "random_state": 0}
    plain = CRAFT(**options).fit(frame)
    assert any(0 in held.columns for held in plain.covariances_ if held is not None)
    model = CRAFT(column_weights={"a": 2}, **options).fit(frame)
    assert any(held is not None for held in model.covariances_)
    assert not any(0 in held.columns for held in model.covariances_ if held is not None)
    assert np.isfinite(model.score_samples(frame)).all()


def test_everywhere_the_same_bits(tmp_path):
    """Files, partitions, saved models and other engines know the weights."""
    frame = mixed(9, n=200)
    model = CRAFT(column_weights=WEIGHTS, n_init=2, random_state=0).fit(frame)
    frame.to_parquet(tmp_path / "t.parquet")
    far = CRAFT(column_weights=WEIGHTS, n_init=2, random_state=0)
    for X in (tmp_path / "t.parquet", Partitions([frame[:100], frame[100:]])):
        np.testing.assert_array_equal(np.asarray(far.fit(X).labels_), model.labels_)
        assert far.objective_ == model.objective_
    craftc.save_model(model, tmp_path / "m.craftc")
    again = craftc.load_model(tmp_path / "m.craftc")
    np.testing.assert_array_equal(again.transform(frame), model.transform(frame))
    assert again.summary().attrs["notes"] == model.summary().attrs["notes"]
    explained = model.explain(frame)
    assert (explained["num1"] == 0.0).all()
    np.testing.assert_allclose(
        explained.drop(columns=["cluster", "next"]).sum(axis=1), model.margins_, atol=1e-3
    )
    assert model.refit(frame[:150]).feature_mask_[:, 1].sum() == 0
    assert model.null_test(frame[:150], n=1).n_rows == 150
    model.partial_fit(frame[150:])
    assert not model.feature_mask_[:, 1].any()
    assert model.cluster_sizes_.sum() == 200


def test_set_aside_columns_need_no_weight():
    frame = mixed(4).assign(id=[f"row {i}" for i in range(150)])
    model = CRAFT(column_weights={"id": 0, "num0": 2}, unusable="drop", n_init=2, random_state=0)
    with pytest.warns(UserWarning, match="not used"):
        model.fit(frame)
    other = CRAFT(column_weights={"num0": 2}, n_init=2, random_state=0).fit(frame.drop(columns="id"))
    np.testing.assert_array_equal(model.labels_, other.labels_)


@pytest.mark.parametrize(
    ("weights", "error", "message"),
    [
        ([1, 2], TypeError, "must be a mapping"),
        ({1.5: 2}, TypeError, "by position"),
        ({"num0": "2"}, TypeError, "a number"),
        ({"num0": True}, TypeError, "a number"),
        ({"num0": -1}, ValueError, r"from 0.001 to 1000, got -1"),
        ({"num0": np.nan}, ValueError, "from 0.001"),
        ({"num0": 1e-9}, ValueError, "from 0.001"),
        ({"num0": np.inf}, ValueError, "from 0.001"),
        ({"age": 2}, ValueError, "names column 'age', but X has the columns 'num0'"),
        ({0: 2}, ValueError, "names column 0, but X"),
        (dict.fromkeys(("num0", "num1", "cat0", "cat1"), 0), ValueError, "0 for all columns"),
    ],
)
def test_bad_weights(weights, error, message):
    frame = mixed(4)[["num0", "num1", "cat0", "cat1"]]
    with pytest.raises(error, match=message):
        CRAFT(column_weights=weights).fit(frame)


def test_columns_of_arrays_by_position_and_ignored_ones():
    X = np.random.default_rng(0).normal(size=(60, 3))
    model = CRAFT(column_weights={0: 2, "x1": 0}, random_state=0).fit(X)
    assert model.summary().attrs["notes"] == ["Weights of columns: 'x0' 2, 'x1' 0 (shown, not used)."]
    with pytest.raises(ValueError, match="twice"):
        CRAFT(column_weights={0: 2, "x0": 1}).fit(X)
    with pytest.raises(ValueError, match="which kinds ignores"):
        CRAFT(column_weights={0: 2}, kinds={0: "ignore"}).fit(X)
