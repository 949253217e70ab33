"""Free unary terms: a numeric column of any shape, so that no edge has to explain it."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from scipy.special import ndtri

from craftc import GraphSpectralFeatures
from craftc.spectral.encoding import Encoding
from craftc.spectral.factorization import Factoriser
from craftc.spectral.pseudo_likelihood import HatBasis, Parameters, PseudoLikelihood, log_grid
from craftc.table import MixedTable
from tests.reference import spectral as ref

BETA, EPS = 2.0, 0.2


def odd_columns(n=1500, seed=0):
    """Independent columns: a spike with a tail, a long tail, two humps, and two categories."""
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "rain": np.where(rng.random(n) < 0.9, 0.0, rng.exponential(size=n)),
            "price": np.exp(rng.normal(size=n)),
            "humps": rng.choice([-1.0, 1.0], n) + 0.1 * rng.normal(size=n),
            "open": np.where(rng.random(n) < 0.85, "yes", "no"),
            "town": rng.choice(list("abc"), n),
            "rooms": rng.choice([1.0, 2.0, 3.0, 7.0], n, p=[0.5, 0.2, 0.2, 0.1]),
            "doors": rng.choice([-1.5, 0.25], n),
        }
    )


def fitted(X, **options):
    return GraphSpectralFeatures(factorization="svd", **options).fit(X)


def test_hats_are_one_at_their_node_and_share_what_lies_between():
    grid = log_grid(BETA, EPS, 5)
    hats = HatBasis(grid, EPS)
    np.testing.assert_allclose(hats(grid.nodes), np.eye(11), atol=1e-12)
    x = np.linspace(-BETA, BETA, 401)
    values = hats(x)
    assert values.min() >= 0.0
    np.testing.assert_allclose(values.sum(axis=1), 1.0)
    assert ((values > 0.0).sum(axis=1) <= 2).all()
    np.testing.assert_array_equal(hats(np.array([-0.9 * EPS, 0.0, EPS]))[:, 5], 1.0)
    between = np.array([np.sqrt(grid.nodes[7] * grid.nodes[8])])  # half way as ln x goes
    np.testing.assert_allclose(hats(between)[0, 7:9], 0.5)


ODD, FEW = ("rain", "price", "humps", "open", "town"), ("rooms", "doors", "price", "open", "town")


def case(columns=ODD, few=0, conditionals="codes"):
    X = odd_columns(120)[list(columns)]
    numeric = X.select_dtypes("number").shape[1]
    table = MixedTable.from_data(X)
    encoding = Encoding.of(table, BETA, few)
    assert sum(map(len, encoding.values)) == (6 if columns[0] == "rooms" and few else 0)
    approximation = Factoriser(encoding, table, 1.0, 1).svd(4).approximation(BETA)
    codes = approximation.codes(encoding)
    likelihood = PseudoLikelihood(
        encoding,
        table,
        codes,
        beta=BETA,
        eps=EPS,
        grid_size=6,
        softmax=True,
        low_rank=approximation if conditionals == "dense" else None,
        n_threads=1,
        free=True,
    )
    data = ref.encode(X.iloc[:, :numeric].to_numpy(float), X.iloc[:, numeric:].to_numpy(object), BETA)
    model = ref.pseudo_model(
        data.x,
        data.p1,
        data.groups,
        approximation.table(),
        eps=EPS,
        beta=BETA,
        m=6,
        mixed=conditionals,
        free=True,
        few=few,
    )
    theta, b, c = ref.unpack(model, 0.5 * np.random.default_rng(3).normal(size=ref.n_free(model, True)), True)
    return likelihood, model, Parameters(theta, b, c)


@pytest.mark.parametrize("conditionals", ["codes", "dense"])
@pytest.mark.parametrize(
    ("columns", "few"), [(ODD, 0), (ODD, 4), (FEW, 4), (FEW, 0), (ODD[:3], 0), (FEW[:2], 4), (ODD[3:], 0)]
)
def test_value_and_gradient_are_those_of_the_reference(columns, few, conditionals):
    likelihood, model, at = case(columns, few, conditionals)
    value, gradient = likelihood(at)
    expected, *slopes = ref.pseudo_value_gradient(model, *at)
    assert value == pytest.approx(expected, rel=1e-12)
    s, t = model.edges
    np.testing.assert_allclose(gradient.theta[s, t], slopes[0][s, t], rtol=0, atol=1e-12)
    np.testing.assert_allclose(gradient.b, slopes[1], rtol=0, atol=1e-12)
    np.testing.assert_allclose(gradient.c, slopes[2], rtol=0, atol=1e-12)


def test_the_gradient_is_that_of_finite_differences():
    likelihood, model, at = case(FEW, 4)
    _, gradient = likelihood(at)
    for s in range(3):
        for m in range(13):
            sides = []
            for step in (1e-5, -1e-5):
                c = at.c.copy()
                c[s, m] += step
                sides.append(likelihood(at._replace(c=c))[0])
            assert gradient.c[s, m] == pytest.approx((sides[0] - sides[1]) / 2e-5, abs=1e-7)
    s, t = (part[::7] for part in model.edges)
    for i, j in zip(s, t, strict=True):
        sides = []
        for step in (1e-5, -1e-5):
            theta = at.theta.copy()
            theta[i, j] += step
            theta[j, i] += step
            sides.append(likelihood(at._replace(theta=theta))[0])
        assert gradient.theta[i, j] == pytest.approx((sides[0] - sides[1]) / 2e-5, abs=1e-7)


@pytest.mark.parametrize("seed", [0, 1])
def test_the_shape_of_a_column_is_no_dependence(seed):
    X = odd_columns(seed=seed)
    assert fitted(X, unary="free").edges(1).weight.abs().max() < 0.12
    assert fitted(X, unary=True).edges(1).weight.abs().max() > 0.4  # which is what it is for


def test_dependences_stay():
    X = odd_columns()
    X["late"] = np.where(X["humps"] + 0.5 * np.random.default_rng(1).normal(size=len(X)) > 0, "late", "early")
    strongest = fitted(X, unary="free").edges(1).iloc[0]
    assert {strongest["source"], strongest["target"]} == {"humps", "late=late"}
    assert strongest["sign"] == 1


def test_the_graph_does_not_depend_on_beta():
    X = odd_columns(400)
    graphs = [fitted(X, unary="free", beta=beta, tol=1e-6).graph_ for beta in (0.01, 2.0, 50.0)]
    for graph in graphs[::2]:
        np.testing.assert_allclose(graph, graphs[1], atol=1e-4)


def test_it_goes_with_everything_else():
    X = odd_columns(300).mask(np.random.default_rng(0).random((300, 7)) < 0.1)
    model = fitted(X, unary="free")
    assert model.converged_
    assert (np.diff(model.objective_path_) <= 1e-12).all()
    assert np.isfinite(model.transform(X)).all()
    assert np.isfinite(model.score(X))
    assert fitted(X, unary="free", conditionals="dense").converged_
    assert fitted(X, unary="free", groups="logistic", missing="category").converged_
    one, two = (fitted(X, unary="free", n_threads=n).graph_ for n in (1, 2))
    np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("conditionals", ["codes", "dense"])
def test_the_graph_equals_the_reference(conditionals):
    """With columns of few values, at the same grid and threshold."""
    X = odd_columns(60)[["rooms", "price", "open", "town"]]
    model = fitted(X, l2=0.3, grid_size=4, conditionals=conditionals, tol=1e-7)
    data = ref.encode(X.iloc[:, :2].to_numpy(float), X.iloc[:, 2:].to_numpy(object), BETA)
    x_hat = ref.factorise(data.D_num, data.D_cat, None, "svd", beta=BETA)
    found = ref.fit(
        ref.pseudo_model(data.x, data.p1, data.groups, x_hat, m=4, mixed=conditionals, free=True, few=4),
        0.3,
        gtol=1e-7,
    )
    assert [len(values) for values in model._encoding.values] == [4, 0]
    np.testing.assert_allclose(model.graph_, found.theta, rtol=0, atol=1e-5)
    assert model.objective_ == pytest.approx(found.objective, abs=1e-9)


def test_few_values_are_at_most_the_root_of_the_rows_and_the_size_of_the_grid():
    X = pd.DataFrame(
        {
            "ten": np.arange(120) % 10.0,
            "eleven": np.arange(120) % 11.0,
            "open": np.where(np.arange(120) % 7, "yes", "no"),
        }
    )
    assert [len(values) for values in fitted(X)._encoding.values] == [10, 0]
    assert [len(values) for values in fitted(X, grid_size=9)._encoding.values] == [0, 0]
    assert [len(values) for values in fitted(X.iloc[:99])._encoding.values] == [0, 0]
    assert [len(values) for values in fitted(X, unary=True)._encoding.values] == [0, 0]
    np.testing.assert_array_equal(fitted(X.astype({"ten": np.float32}))._encoding.values[0], np.arange(10.0))


def log_density(model, column, x, **others):
    """ln p of scaled numbers given the other cells of their row, which has no further cells: the normaliser
    is that of one score.
    """
    encoding, schema = model._encoding, model._encoding.schema
    s = list(model.encoded_names_).index(column)
    values = (encoding.values[s] - encoding.centre[s]) * encoding.scale[s]
    at = values[-1] if len(values) else 0.9 * BETA

    def energy(x):
        if len(values):
            out = model._parameters.c[s, np.searchsorted(values, x)]
        elif model.unary == "free":
            out = ref.hats(x, log_grid(BETA, EPS, model.grid_size).nodes, EPS) @ model._parameters.c[s]
        else:
            out = np.stack([x, x**2], axis=1) @ model._parameters.c[s]
        for t, seen in indicators:
            out = out + model.graph_[s, t] * ref.similarity(x, seen, EPS)
        return out

    cells = {name: [np.nan if d in schema.numeric_index else None] for d, name in enumerate(schema.columns)}
    cells |= {column: [at / encoding.scale[s] + encoding.centre[s]]} | {
        name: [value] for name, value in others.items()
    }
    row = pd.DataFrame(cells).astype(dict.fromkeys(others, object))
    own, indicators = (
        model._likelihood(encoding, schema.encode(row), None, refine=True)(model._parameters)[0],
        [],
    )
    for name, value in others.items():  # variables of two levels: their own terms are left out
        t = next(t for t, encoded in enumerate(model.encoded_names_) if encoded.startswith(f"{name}="))
        on = int(model.encoded_names_[t] == f"{name}={value}")
        indicators.append((t, model.codes_[t, on]))
        F = (
            model._parameters.b[t - encoding.p1]
            + model.graph_[s, t] * np.diff(ref.similarity(at, model.codes_[t], EPS))[0]
        )
        own += np.logaddexp(0.0, -F if on else F)
    return energy(x) - energy(np.array([at]))[0] + own


@pytest.mark.parametrize("options", [{}, {"grid_size": 3}, {"unary": True}, {"unary": False}])
def test_scores_are_densities(options):
    """They integrate to 1 over [-beta, beta], or sum to 1 over few values, alone and given another column."""
    X = odd_columns(800)
    X["late"] = np.where(X["humps"] + np.random.default_rng(1).normal(size=len(X)) > 0, "late", "early")
    model = fitted(X, **options)
    # Gauss-Legendre in ln|u| between all points where a hat or a similarity bends
    bends = {EPS, BETA, *log_grid(BETA, EPS, model.grid_size).nodes[model.grid_size + 1 :]}
    bends |= set(np.clip(np.abs(model.codes_[np.isfinite(model.codes_)]), EPS, BETA))
    ends, (z, weight) = np.log(sorted(bends)), np.polynomial.legendre.leggauss(6)
    half = np.diff(ends)[:, None] / 2.0
    side = np.exp(ends[:-1, None] + half * (1.0 + z))
    u = np.concatenate([-side.ravel(), [0.0], side.ravel()])
    w = np.concatenate([(half * weight * side).ravel(), [2.0 * EPS], (half * weight * side).ravel()])
    for column in ("rain", "price", "humps", "rooms"):
        for others in ({}, {"late": "late"}):
            values = model._encoding.values[list(model.encoded_names_).index(column)]
            if len(values):
                s = list(model.encoded_names_).index(column)
                at, weights = (
                    (values - model._encoding.centre[s]) * model._encoding.scale[s],
                    np.ones(len(values)),
                )
            else:
                at, weights = u, w
            total = weights @ np.exp(log_density(model, column, at, **others))
            assert total == pytest.approx(1.0, abs=1e-3 if others else 1e-4), (column, others)


def test_numbers_between_few_values_count_as_the_nearest():
    X = odd_columns(400)
    model = fitted(X)
    moved = X.assign(rooms=X["rooms"] + 0.3, doors=X["doors"] - 0.1)
    assert model.score(moved) == model.score(X)
    assert model.score(X.assign(rooms=np.where(X["rooms"] == 7.0, 9.0, X["rooms"]))) == model.score(X)


@pytest.mark.parametrize("missing", ["ignore", "category"])
def test_missing_cells(missing):
    """A column with many missing cells: its terms are those of the observed ones, and its own score does not
    change.
    """
    X = odd_columns(600)
    with_missing = X.assign(
        price=X["price"].where(np.arange(600) % 3 == 0), rooms=X["rooms"].where(np.arange(600) % 2 == 0)
    )
    model = fitted(with_missing, missing=missing, tol=1e-6)
    assert model.converged_
    assert np.isfinite(model.score(with_missing))
    rooms = model._encoding.values[list(model.encoded_names_).index("rooms")]
    seen = [1.0, 2.0, 3.0, 7.0]
    assert rooms.tolist() == (seen if missing == "ignore" else sorted([*seen, with_missing["rooms"].mean()]))
    steps = fitted(X, tol=1e-6).n_iter_
    assert model.n_iter_ < 2 * steps


def test_normal_scores():
    X = odd_columns(900)
    model = fitted(X, scaling="normal", n_components=9)
    stretched = X.assign(price=np.exp(3.0 * X["price"]), rain=X["rain"] ** 3)
    np.testing.assert_array_equal(fitted(stretched, scaling="normal", n_components=9).graph_, model.graph_)
    encoded = model.transform(X) @ model.components_
    ranks = X["price"].rank()
    scores = ndtri((ranks - 0.5) / len(X))
    s = list(model.encoded_names_).index("price")
    np.testing.assert_allclose(
        encoded[:, s], BETA * (scores - scores.mean()) / np.abs(scores - scores.mean()).max(), atol=1e-12
    )
    assert np.corrcoef(encoded[:, s], ranks)[0, 1] > 0.95


def test_normal_scores_of_new_rows():
    X = odd_columns(900)
    model = fitted(X, scaling="normal", n_components=9)
    price = np.sort(X["price"])
    new = X.iloc[:4].assign(price=[price[3], (price[3] + price[4]) / 2.0, 1e9, -1e9])
    s = list(model.encoded_names_).index("price")
    at = (model.transform(new) @ model.components_)[:, s]
    known = np.sort((model.transform(X) @ model.components_)[:, s])
    np.testing.assert_allclose(at, [known[3], (known[3] + known[4]) / 2.0, known[-1], known[0]], atol=1e-12)
    back = model.inverse_transform(model.transform(X))
    pd.testing.assert_frame_equal(back, X, check_dtype=False, rtol=1e-6)
    assert np.isfinite(model.score(new))
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.transform(new), model.transform(new))
    with pytest.raises(ValueError, match="scaling must be"):
        fitted(X, scaling="rank")


def test_normal_scores_with_missing_cells_and_constant_columns():
    X = odd_columns(300).mask(np.random.default_rng(0).random((300, 7)) < 0.2).assign(same=4.0)
    with pytest.warns(UserWarning, match="Constant columns"):
        model = fitted(X, scaling="normal", n_components=9)
    assert model.converged_
    back = model.inverse_transform(model.transform(X))
    assert (back["same"] == 4.0).all()
    seen = X["price"].notna()
    np.testing.assert_allclose(back["price"][seen], X["price"][seen], rtol=1e-6)


@pytest.mark.parametrize("unary", ["any", 2, None])
def test_other_words_are_refused(unary):
    with pytest.raises(TypeError, match="unary must be True, False or 'free', got"):
        fitted(odd_columns(50), unary=unary)


def test_the_lasso_with_free_unary_terms_meets_its_conditions():
    """In few steps, although the curvatures of the unary terms differ by orders of magnitude."""
    X = odd_columns(400)
    model = fitted(X, l1=0.02, l2=0.0, tol=1e-6, max_iter=500)
    assert model.converged_
    assert (np.diff(model.objective_path_) <= 1e-12).all()
    assert model.objective_ <= model.objective_path_[-1] + 1e-12
    encoding = model._encoding
    _, (theta, b, c) = model._likelihood(encoding, model._new_rows(X), None)(model._parameters)
    s, t = encoding.edges()
    weight, slope = model.graph_[s, t], -theta[s, t]
    assert 0 < np.count_nonzero(weight) < len(weight)
    np.testing.assert_allclose(slope[weight != 0.0], -0.02 * np.sign(weight[weight != 0.0]), atol=2e-6)
    assert np.abs(slope).max() <= 0.02 + 2e-6
    np.testing.assert_allclose(b, 1e-4 * model._parameters.b, atol=2e-6)
    np.testing.assert_allclose(c, 1e-4 * model._parameters.c, atol=2e-6)
