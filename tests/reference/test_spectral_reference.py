"""The reference of graph spectral features against quadrature, differences and conditions of optimality."""

from itertools import pairwise, product

import numpy as np
import pytest
from scipy.integrate import quad

from tests.reference import spectral as ref

ALL = list(product(["codes", "dense"], ["softmax", "logistic"], [True, False]))


def table(seed, n=14, beta=1.0):
    """A small table of three numeric columns, a two-level and a three-level variable, and x_hat."""
    rng = np.random.default_rng(seed)
    numeric = rng.normal(size=(n, 3)) @ rng.normal(size=(3, 3))
    categorical = np.empty((n, 2), dtype=object)
    categorical[:, 0] = np.where(numeric[:, 0] + rng.normal(size=n) > 0, "yes", "no")
    categorical[:, 1] = rng.choice(["a", "b", "c"], n)
    categorical[:3, 1] = ["a", "b", "c"]
    categorical[:2, 0] = ["yes", "no"]
    data = ref.encode(numeric, categorical, beta=beta)
    return data, ref.factorise(data.D_num, data.D_cat, seed=seed, beta=beta)


def model_of(data, x_hat, **options):
    return ref.pseudo_model(data.x, data.p1, data.groups, x_hat, beta=data.beta, **options)


def sentences(u, a, eps):
    """g(u, a) as section 4 tells it."""
    if abs(a) <= eps:
        return 1.0 if abs(u) <= eps else eps / abs(u)
    if abs(u) <= eps:
        return eps / abs(a)
    return u / a if abs(u) <= abs(a) else a / u


def test_the_similarity_is_what_the_sentences_say():
    rng = np.random.default_rng(0)
    eps = 0.1
    values = np.concatenate([rng.uniform(-1, 1, 60), rng.uniform(-0.2, 0.2, 30), [0.0, eps, -eps, 1.0, -1.0]])
    g = ref.similarity(values[:, None], values, eps)
    np.testing.assert_allclose(g, [[sentences(u, a, eps) for a in values] for u in values], rtol=1e-15)
    np.testing.assert_array_equal(g, g.T)
    assert np.abs(g).max() <= 1.0
    assert (np.diag(g) == 1.0).all()
    far = np.abs(values) > eps
    u, a = np.meshgrid(values[far], values[far])
    np.testing.assert_allclose(
        g[np.ix_(far, far)],
        np.sign(u * a) * np.exp(-np.abs(np.log(np.abs(u)) - np.log(np.abs(a)))),
        rtol=1e-13,
    )
    np.testing.assert_allclose(ref.similarity(3 * values[:, None], 3 * values, 3 * eps), g, rtol=1e-14)


def test_encoding():
    numeric = np.array(
        [
            [1.0, 5.0, np.nan, np.nan],
            [2.0, 5.0, 4.0, np.nan],
            [6.0, 5.0, 8.0, np.nan],
            [np.nan, 5.0, 0.0, np.nan],
        ]
    )
    categorical = np.array(
        [
            ["u", "k", "b", None, 2],
            ["v", "k", "a", None, 10],
            [None, "k", "a", "z", 2],
            ["u", "k", "b", "z", 10],
        ],
        "O",
    )
    data = ref.encode(numeric, categorical, beta=2.0)
    assert data.dropped == [(1, None), (3, None), (5, "k")]
    assert data.names == [(0, None), (2, None), (4, "u"), (4, "v"), (4, None), (6, "b"), (7, None), (8, 10)]
    assert [g.tolist() for g in data.groups] == [[2, 3, 4], [5], [6], [7]]
    np.testing.assert_allclose(data.x[:, :2], 2 * np.array([[-2, 0], [-1, 0], [3, 4], [0, -4]]) / [3, 4])
    np.testing.assert_array_equal(data.x[:, 2:5], 2 * np.eye(3)[[0, 1, 2, 0]] - 1)
    np.testing.assert_array_equal(data.x[:, 5:], [[1, 1, -1], [-1, 1, 1], [-1, -1, -1], [1, -1, 1]])
    np.testing.assert_allclose(data.D_num, [[0, 0.5], [0.2, 0.5], [1, 1], [0.4, 0]])
    np.testing.assert_array_equal(data.D_cat, (data.x[:, 2:] + 1) / 2)
    s, t = ref.edges(8, data.groups)
    assert len(s) == 8 * 7 / 2 - 3
    assert not any({i, j} <= {2, 3, 4} for i, j in zip(s, t, strict=True))


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize(("mixed", "categorical", "unary"), [*ALL, ("codes", "softmax", "free")])
def test_gradients_by_differences(mixed, categorical, unary, exact):
    data, x_hat = table(1)
    free, unary = {"free": True, "m": 4, "few": 8} if unary == "free" else {}, bool(unary)
    data.x[:, 0] = np.round(data.x[:, 0])  # a column of few values
    model = model_of(data, x_hat, mixed=mixed, categorical=categorical, exact=exact, **free)
    free = np.random.default_rng(2).normal(0, 0.5, ref.n_free(model, unary))
    step = 1e-5 * np.eye(len(free))
    slope = [
        (ref.penalised(model, free + h, 0.1, unary)[0] - ref.penalised(model, free - h, 0.1, unary)[0]) / 2e-5
        for h in step
    ]
    np.testing.assert_allclose(ref.penalised(model, free, 0.1, unary)[1], slope, rtol=0, atol=1e-7)


def by_loops(data, x_hat, theta, b, c, mixed, categorical):
    """PL / n: every conditional written out, integrals by adaptive quadrature."""
    x, p1, eps, total = data.x, data.p1, 0.1 * data.beta, 0.0
    p, code = x.shape[1], ref.codes(x, x_hat, p1)

    def h(s, value, row, t):
        """What node s at this value makes of t in a row."""
        if s < p1 and t < p1:
            return sentences(value, x[row, t], eps)
        if s >= p1 and t >= p1:
            return value * x[row, t]
        if s < p1:
            return sentences(value, x_hat[row, t] if mixed == "dense" else code[t, int(x[row, t] > 0)], eps)
        return sentences(x_hat[row, t] if mixed == "dense" else x[row, t], code[s, int(value > 0)], eps)

    def energy(s, value, row):
        own = b[s - p1] * (value > 0) if s >= p1 else c[s, 0] * value + c[s, 1] * value**2
        return own + sum(theta[s, t] * h(s, value, row, t) for t in range(p) if t != s)

    sets = data.groups if categorical == "softmax" else [[j] for j in range(p1, p)]
    for row in range(len(x)):
        for s in range(p1):
            size = [abs(code[t, int(x[row, t] > 0)]) if t >= p1 else abs(x[row, t]) for t in range(p)]
            size = (
                size
                if mixed == "codes"
                else [abs(x[row, t]) if t < p1 else abs(x_hat[row, t]) for t in range(p)]
            )
            cuts = sorted(
                {sign * v for v in [eps, data.beta, *np.clip(size, eps, data.beta)] for sign in (-1, 1)}
            )
            z = sum(
                quad(lambda u, s=s, row=row: np.exp(energy(s, u, row)), lo, hi)[0]
                for lo, hi in pairwise(cuts)
            )
            total += energy(s, x[row, s], row) - np.log(z)
        for group in sets:
            if len(group) == 1:
                states = [{group[0]: -1.0}, {group[0]: 1.0}]
            else:
                states = [{j: 1.0 if j == on else -1.0 for j in group} for on in group]
            energies = [sum(energy(j, value, row) for j, value in state.items()) for state in states]
            seen = [all(x[row, j] == value for j, value in state.items()) for state in states].index(True)
            total += energies[seen] - np.log(np.exp(energies).sum())
    return total / len(x)


@pytest.mark.parametrize("categorical", ["softmax", "logistic"])
@pytest.mark.parametrize("mixed", ["codes", "dense"])
def test_the_value_is_the_product_of_the_conditionals(mixed, categorical):
    data, x_hat = table(3, 8)
    model = model_of(data, x_hat, mixed=mixed, categorical=categorical, exact=True)
    theta, b, c = ref.unpack(model, np.random.default_rng(1).normal(0, 0.7, ref.n_free(model, True)), True)
    value = ref.pseudo_value_gradient(model, theta, b, c)[0]
    assert value == pytest.approx(by_loops(data, x_hat, theta, b, c, mixed, categorical), abs=1e-9)


def test_the_fit_is_the_minimum():
    data, x_hat = table(5, 40)
    model = model_of(data, x_hat)
    found = ref.fit(model, 0.1, gtol=1e-7)
    assert found.gradient <= 1e-7
    again = ref.fit(model, 0.1, gtol=1e-7, start=np.random.default_rng(0).normal(size=len(found.free)))
    np.testing.assert_allclose(found.free, again.free, atol=1e-2)
    np.testing.assert_allclose(found.theta, again.theta, atol=1e-5)
    np.testing.assert_array_equal(found.theta, found.theta.T)
    group = data.groups[1]
    assert not found.theta[np.ix_(group, group)].any()
    assert ref.fit(model, 0.1).objective <= found.objective + 1e-5
    assert np.abs(ref.fit(model, 1e4).theta).max() < 1e-3


@pytest.mark.parametrize("categorical", ["softmax", "logistic"])
def test_the_sparse_fit_meets_its_conditions(categorical):
    data, x_hat = table(6, 40)
    model = model_of(data, x_hat, categorical=categorical)
    slope = np.abs(ref.penalised(model, np.zeros(len(model.edges[0])), 0.0, False)[1]).max()
    assert not ref.fit_l1(model, slope * 1.001).free.any()
    l1 = 0.3 * slope
    found = ref.fit_l1(model, l1, tol=1e-8)
    gradient = ref.penalised(model, found.free, 0.0, False)[1]
    on = found.free != 0.0
    assert 0 < on.sum() < len(on)
    np.testing.assert_allclose(gradient[on], -l1 * np.sign(found.free[on]), atol=1e-7)
    assert np.abs(gradient).max() <= l1 + 1e-7


def observed_case(seed=0):
    data, x_hat = table(seed, 80)
    return ref.observed_similarities(data.x, data.p1, data.groups, x_hat, 0.1 * data.beta)


def test_observed_steps():
    h = observed_case(1)
    theta = np.random.default_rng(0).normal(size=h.shape[1])
    step = 1e-6 * np.eye(len(theta))
    slope = [
        (ref.observed_value_gradient(theta + d, h)[0] - ref.observed_value_gradient(theta - d, h)[0]) / 2e-6
        for d in step
    ]
    np.testing.assert_allclose(ref.observed_value_gradient(theta, h)[1], slope, atol=1e-8)
    for sign in (-1, 1):
        assert np.linalg.norm(ref.observed(h, sign)) == pytest.approx(np.sqrt(h.shape[1]))
        np.testing.assert_allclose(ref.observed(h, sign, n_steps=0), 1.0)
        np.testing.assert_array_equal(ref.observed(h, sign, theta0=0.0)[:1].round(12), 0.0)


@pytest.mark.parametrize("kind", ["signed", "abs"])
@pytest.mark.parametrize("normalised", [True, False])
def test_laplacians_and_bases(kind, normalised):
    rng = np.random.default_rng(0)
    theta = rng.normal(size=(7, 7))
    L = ref.laplacian(theta, kind, normalised)
    values, vectors = ref.basis(L, 7)
    assert values[0] > -1e-12
    assert not normalised or values[-1] <= 2 + 1e-12
    np.testing.assert_allclose(vectors @ np.diag(values) @ vectors.T, L, atol=1e-12)
    np.testing.assert_array_equal(ref.laplacian((theta + theta.T) / 2, kind, normalised), L)
    for v in vectors.T:
        assert v[np.argmax(np.abs(v).round(10))] > 0
    assert (abs(values[0]) < 1e-12) == (kind == "abs")
    if kind == "abs":
        degree = np.abs(theta + theta.T - 2 * np.diag(np.diag(theta))).sum(axis=1)
        first = np.sqrt(degree) if normalised else np.ones(7)
        np.testing.assert_allclose(vectors[:, 0], first / np.linalg.norm(first), atol=1e-12)
    np.testing.assert_array_equal(ref.basis(L, 3, skip_first=True)[1], vectors[:, 1:4])
    # all p features are a rotation
    x = rng.normal(size=(9, 7))
    phi = ref.features(x, vectors)
    np.testing.assert_allclose(phi @ phi.T, x @ x.T, atol=1e-12)
    assert ref.basis(L)[1].shape == (7, 5)
