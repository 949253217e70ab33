"""CRAFT as a mixture: probabilities of levels that sum to one, densities of PaperCRAFT that integrate to one,
probabilities of clusters, margins.
"""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.special import softmax
from sklearn.base import clone

from craftc import CRAFT, MixedTable, PaperCRAFT
from craftc.datasets import load_heart
from tests.common import fixed_price


def groups(seed=0, n=300):
    """Two numeric and two categorical columns, three groups."""
    rng = np.random.default_rng(seed)
    target = rng.integers(0, 3, n)
    X = rng.normal(size=(n, 2)) * [1.0, 20.0] + np.array([[0.0, 0.0], [6.0, 0.0], [0.0, 150.0]])[target]
    chance = np.array([[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6]])
    a = np.array([rng.choice(3, p=chance[z]) for z in target])
    b = (rng.random(n) < np.array([0.1, 0.5, 0.9])[target]).astype(int)
    frame = pd.DataFrame(
        {"x": X[:, 0], "a": pd.Categorical.from_codes(a, ["u", "v", "w"]), "y": X[:, 1], "b": b.astype(bool)}
    )
    return frame, target


def grid(frame, x, y):
    """Every combination of the cells (x, y) with the levels of the categorical columns."""
    rows = list(itertools.product(x, ["u", "v", "w"], y, [False, True]))
    table = pd.DataFrame(rows, columns=list(frame.columns))
    return table.astype({"a": frame["a"].dtype, "b": bool})


X_GRID, Y_GRID = np.linspace(-9.0, 15.0, 193), np.linspace(-200.0, 350.0, 221)
STEP = (X_GRID[1] - X_GRID[0]) * (Y_GRID[1] - Y_GRID[0])
SETTINGS = {
    "all features": fixed_price(cluster_price=20.0, selection="fixed", feature_fraction=1.0),
    "numeric price": fixed_price(cluster_price=20.0, selection="free"),
    "no price": fixed_price(3, cluster_price=0.0, selection="fixed"),
}


def numbers_of(model, name):
    """The numbers that stand for the levels of a column."""
    return model._fitted.encoding.numbers[list(model.numeric_features_in_).index(name)].values


@pytest.mark.parametrize("model", [CRAFT(), CRAFT(4), CRAFT(1)], ids=["automatic", "given", "one cluster"])
def test_probabilities_of_levels_sum_to_one(model):
    frame, _ = groups()
    model = clone(model).set_params(covariance="diagonal", random_state=0).fit(frame)
    rows = grid(frame, numbers_of(model, "x"), numbers_of(model, "y"))
    assert np.exp(model.score_samples(rows)).sum() == pytest.approx(1.0, rel=1e-9)


@pytest.mark.parametrize("setting", SETTINGS)
def test_densities_of_mixed_rows_sum_to_one(setting):
    frame, _ = groups()
    model = clone(SETTINGS[setting]).set_params(numeric="raw", random_state=0).fit(frame)
    assert np.exp(model.score_samples(grid(frame, X_GRID, Y_GRID))).sum() * STEP == pytest.approx(
        1.0, abs=1e-3
    )


def test_densities_of_numbers_integrate_to_one():
    X = groups()[0][["x", "y"]].to_numpy()
    model = clone(SETTINGS["numeric price"]).set_params(numeric="raw", random_state=0).fit(X)
    assert model.n_clusters_ > 1
    rows = np.stack(np.meshgrid(X_GRID, Y_GRID, indexing="ij"), axis=-1).reshape(-1, 2)
    assert np.exp(model.score_samples(rows)).sum() * STEP == pytest.approx(1.0, abs=1e-3)


@pytest.mark.filterwarnings("ignore:Column .* has no value in any of these rows")
def test_a_missing_cell_is_integrated_out():
    frame, _ = groups()
    frame.loc[::9, "x"] = np.nan
    frame.loc[4::11, "a"] = np.nan
    model = CRAFT(covariance="diagonal", random_state=0).fit(frame)
    whole = grid(frame, [-1.0, 0.5, 6.0], numbers_of(model, "y"))
    probability = np.exp(model.score_samples(whole))
    for keys, hidden in ((["x", "a", "b"], ["y"]), (["x", "y", "b"], ["a"]), (["x", "b"], ["a", "y"])):
        marginal = whole.assign(p=probability).groupby(keys, observed=True)["p"].sum().reset_index()
        rows = marginal.drop(columns="p").assign(**dict.fromkeys(hidden, np.nan))[list(frame.columns)]
        rows["a"] = rows["a"].astype(frame["a"].dtype)
        np.testing.assert_allclose(np.exp(model.score_samples(rows)), marginal["p"], rtol=1e-6)
    nothing = pd.DataFrame(
        {
            "x": [np.nan],
            "a": pd.Categorical([None], ["u", "v", "w"]),
            "y": [np.nan],
            "b": pd.array([None], "boolean"),
        }
    )
    assert model.score_samples(nothing)[0] == pytest.approx(0.0, abs=1e-12)


def test_the_density_is_the_mixture_by_hand():
    X = groups()[0][["x", "y"]].to_numpy()
    model = fixed_price(numeric="raw", selection="free", cluster_price=20.0, random_state=0).fit(X)
    own = [
        [stats.norm(m, np.sqrt(v)) for m, v in zip(*row, strict=True)]
        for row in zip(model.centers_, model.variances_, strict=True)
    ]
    every = [stats.norm(x.mean(), x.std()) for x in X.T]
    parts = [
        np.prod(
            [(own[k][d] if model.feature_mask_[k, d] else every[d]).pdf(X[:, d]) for d in range(2)], axis=0
        )
        / model.n_clusters_  # a fixed price does not include the labels: equal weights
        for k in range(model.n_clusters_)
    ]
    assert model.n_clusters_ > 1
    np.testing.assert_allclose(model.score_samples(X), np.log(np.sum(parts, axis=0)), rtol=1e-8)
    np.testing.assert_allclose(
        model.predict_proba(X), np.transpose(parts / np.sum(parts, axis=0)), rtol=1e-7, atol=1e-12
    )


def test_units_change_densities_and_not_probabilities():
    X, target = groups()[0][["x", "y"]].to_numpy(), groups()[1]
    near, far = (CRAFT(init=target).fit(unit * X) for unit in (1.0, 8.0))
    np.testing.assert_allclose(far.score_samples(8.0 * X), near.score_samples(X), rtol=1e-9)
    np.testing.assert_allclose(far.predict_proba(8.0 * X), near.predict_proba(X), rtol=1e-9)
    near, far = (fixed_price(numeric="raw", init=target).fit(unit * X) for unit in (1.0, 8.0))
    np.testing.assert_allclose(far.score_samples(8.0 * X), near.score_samples(X) - 2 * np.log(8.0), rtol=1e-9)
    np.testing.assert_allclose(far.predict_proba(8.0 * X), near.predict_proba(X), rtol=1e-9)


def test_a_column_that_is_constant_counts_nothing():
    frame, target = groups()
    model = CRAFT(init=target).fit(frame)
    more = frame.assign(same=3.0, one=pd.Categorical(["p"] * len(frame)))
    np.testing.assert_array_equal(
        CRAFT(init=target).fit(more).score_samples(more), model.score_samples(frame)
    )


def test_frequent_values_have_probabilities_and_the_others_a_density():
    rng = np.random.default_rng(0)
    target = np.arange(400) % 2
    x = np.where(rng.random(400) < np.where(target, 0.7, 0.2), 0.0, rng.normal(5.0, 1.0, 400) + 4.0 * target)
    few = rng.integers(0, 4, 400) * (1 + target)
    X = np.column_stack([x, few])
    model = fixed_price(init=target).fit(X)
    assert [text for _, text in model._fitted.encoding.describe()] == [
        "value 0 set apart (42 %), rest as numbers",
        "6 values: categories",
    ]
    values, line = np.unique(few), np.linspace(-15.0, 30.0, 4501) + 1e-7
    at_zero = np.exp(model.score_samples(np.column_stack([np.zeros(len(values)), values]))).sum()
    others = np.exp(model.score_samples(np.array(list(itertools.product(line, values))))).sum() * (
        line[1] - line[0]
    )
    assert 0.3 < at_zero < 0.5
    assert at_zero + others == pytest.approx(1.0, abs=1e-3)


def test_ranks_have_the_density_of_their_normal_scores():
    rng = np.random.default_rng(0)
    target = np.arange(400) % 2
    X = np.exp(rng.normal(size=(400, 3)) + target[:, None])
    model = fixed_price(numeric="rank", init=target).fit(X)
    scores = model._fitted.encoding.apply(MixedTable.from_data(X))
    raw = fixed_price(numeric="raw", init=target).fit(scores.numeric)
    np.testing.assert_array_equal(model.labels_, raw.labels_)
    np.testing.assert_array_equal(model.score_samples(X), raw.score_samples(scores.numeric))


def test_probabilities_agree_with_costs_labels_and_margins():
    heart = load_heart().data
    model = CRAFT(3, random_state=0).fit(heart)
    probability = model.predict_proba(heart)
    assert probability.shape == (270, 3)
    np.testing.assert_allclose(probability.sum(axis=1), 1.0, rtol=1e-14)
    np.testing.assert_array_equal(probability.argmax(axis=1), model.predict(heart))
    np.testing.assert_allclose(probability, softmax(-model.transform(heart), axis=1), rtol=1e-12)
    ordered = np.sort(probability, axis=1)
    np.testing.assert_allclose(np.log(ordered[:, 2] / ordered[:, 1]), model.margins(heart), rtol=1e-8)
    np.testing.assert_allclose(model.margins(heart), model.margins_, rtol=1e-6)


def test_a_row_has_its_density_whatever_rows_are_scored_with_it():
    heart = load_heart().data
    model = CRAFT(3, random_state=0).fit(heart)
    for name in ("score_samples", "predict_proba", "margins"):
        method = getattr(model, name)
        np.testing.assert_array_equal(
            np.concatenate([method(heart.iloc[[i]]) for i in range(9)]), method(heart)[:9]
        )


def test_an_extreme_row_has_a_finite_density():
    X = groups()[0][["x", "y"]].to_numpy()
    model = CRAFT(random_state=0).fit(X)
    far = np.array([[1e60, 0.0], [-1e60, 1e60]])
    assert np.isfinite(model.score_samples(far)).all()
    np.testing.assert_allclose(model.predict_proba(far).sum(axis=1), 1.0)


@pytest.mark.parametrize("name", ["paper", "paper-relative", "paper-fixed"])
def test_the_paper_s_models_have_no_density(name):
    model = PaperCRAFT(2, cluster_price=0.0, model=name, random_state=0).fit(groups()[0])
    for method in ("predict_proba", "score_samples"):
        assert not hasattr(model, method)
        with pytest.raises(AttributeError, match="has no attribute") as error:
            getattr(model, method)
        assert "use model='likelihood'" in str(error.value.__cause__)
    assert len(model.margins(groups()[0])) == 300
