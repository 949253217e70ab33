"""The reference implementation of graph spectral features has the properties that the specification proves
and the figures it gives.
"""

from itertools import pairwise, product

import numpy as np
import pytest
from scipy.integrate import quad

from craftc.datasets import load_heart
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


@pytest.mark.parametrize("a", [-0.9, -0.3, 0.2, 1.0, 0.05, -0.05])
def test_the_only_jump_of_the_similarity(a):
    eps, tiny = 0.1, 1e-12
    for cut in (-1, 1):
        jump = ref.similarity(cut * (eps - tiny), a, eps) - ref.similarity(cut * (eps + tiny), a, eps)
        expected = 2 * eps / abs(a) if cut == -np.sign(a) and abs(a) > eps else 0.0
        assert jump == pytest.approx(expected, abs=1e-9)


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


def test_hals_never_rises_and_codes_have_opposite_signs():
    for seed in range(3):
        data, x_hat = table(seed, 40)
        W, H, path = ref.hals(np.column_stack([data.D_num, data.D_cat]), 2, 60, seed)
        assert min(W.min(), H.min()) >= 0.0
        assert (np.diff(path) <= 1e-15).all()
        assert path[-1] < path[0]
        np.testing.assert_allclose(x_hat.mean(axis=0), 0.0, atol=1e-13)
        np.testing.assert_allclose(np.abs(x_hat).max(axis=0), data.beta)
        share = (data.x[:, data.p1 :] > 0).mean(axis=0)
        low, high = ref.codes(data.x, x_hat, data.p1)[data.p1 :].T
        np.testing.assert_allclose(share * high + (1 - share) * low, 0.0, atol=1e-13)
        assert (low * high < 0).all()


def test_the_svd_of_full_rank_gives_the_table_back():
    data, _ = table(0)
    p = data.x.shape[1]
    x_hat = ref.factorise(data.D_num, data.D_cat, p, "svd", weight=3.0, beta=data.beta)
    np.testing.assert_allclose(x_hat[:, : data.p1], data.x[:, : data.p1], atol=1e-12)
    np.testing.assert_allclose(x_hat[:, data.p1 :], ref.scale(data.D_cat, data.beta), atol=1e-12)
    assert [ref.rank(p) for p in (2, 5, 22, 90)] == [2, 2, 11, 20]


def test_grid_and_pieces_have_the_length_of_the_interval():
    u, w = ref.grid(2.0, 0.2, 16)
    assert len(u) == 33
    assert (np.diff(u) > 0).all()
    assert u[16] == 0
    assert w[16] == 0.4
    assert w.sum() == pytest.approx(4.0, rel=1e-14)
    seen = np.random.default_rng(0).uniform(-2, 2, (9, 5))
    u, w = ref.pieces(seen, 2.0, 0.2)
    np.testing.assert_allclose(w.sum(axis=1), 4.0, rtol=1e-14)
    np.testing.assert_allclose((w * u**2).sum(axis=1), 16 / 3, rtol=1e-14)


@pytest.mark.parametrize(
    ("sd", "errors"),
    [(0.3, {8: 8e-3, 16: 1e-3, 32: 8e-4, 64: 1e-4}), (2.0, {8: 7e-2, 16: 8e-3, 32: 5e-3, 64: 3e-4})],
)
def test_the_error_of_the_grid_is_of_the_size_in_the_table(sd, errors):
    """The largest error of d/d theta, within a factor of eight of section 4."""
    numeric, categorical, _ = ref.gibbs("hard", 0, sweeps=20)
    data = ref.encode(numeric[:60], categorical[:60], beta=1.0)
    x_hat, rng = ref.factorise(data.D_num, data.D_cat, beta=1.0), np.random.default_rng(0)
    s, t = ref.edges(12, data.groups)
    state = ref.matrix(rng.normal(0, sd, len(s)), s, t, 12), np.zeros(6), np.zeros((6, 2))
    exact = ref.pseudo_value_gradient(model_of(data, x_hat, exact=True), *state)[1]
    found = [
        np.abs(ref.pseudo_value_gradient(model_of(data, x_hat, m=m), *state)[1] - exact).max() for m in errors
    ]
    assert (np.diff(found) < 0).all()
    for error, printed in zip(found, errors.values(), strict=True):
        assert printed / 8 <= error <= printed * 8


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


def test_the_codes_model_has_a_joint_density_and_dense_has_not():
    """Section 4: with codes both nodes of an edge see the same h, up to a constant of the other's."""
    data, x_hat = table(4)
    for mixed, same in (("codes", True), ("dense", False)):
        model, p1 = model_of(data, x_hat, mixed=mixed), data.p1
        code = ref.codes(data.x, x_hat, p1)
        lift = np.stack(
            [
                [ref.similarity(data.x[:, s], code[j, k], 0.1) for s in range(p1)]
                for j in range(p1, 7)
                for k in (0, 1)
            ]
        )
        lift = (lift[1::2] - lift[::2]).transpose(2, 0, 1)
        assert np.allclose(model.lift[:, :, :p1], lift) == same


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


def top_curvature(model, free):
    """Largest eigenvalue of the Hessian of -PL/n, from differences of the gradient."""
    step = 1e-5 * np.eye(len(free))
    H = np.array(
        [
            (ref.penalised(model, free + h, 0.0, False)[1] - ref.penalised(model, free - h, 0.0, False)[1])
            / 2e-5
            for h in step
        ]
    )
    return np.linalg.eigvalsh((H + H.T) / 2)[-1]


def test_softmax_nodes_bend_more_than_the_printed_lipschitz_constant():
    """2 (p - 1) holds for single columns, not for groups: four nearly constant variables of three levels."""
    categorical = np.full((100, 4), "a", dtype=object)
    for j in range(4):
        categorical[2 * j, j], categorical[2 * j + 1, j] = "b", "c"
    data = ref.encode(np.zeros((100, 0)), categorical, beta=1.0)
    p, (s, t) = data.x.shape[1], ref.edges(12, data.groups)
    steep = np.where((s % 3 == 2) & (t % 3 == 2), 3.0, 0.0)
    for kind in ("softmax", "logistic"):
        model = model_of(data, data.x, categorical=kind)
        tops = [top_curvature(model, free) for free in (0.0 * steep, steep)]
        assert (max(tops) > 2.0 * (p - 1)) == (kind == "softmax")
        assert max(tops) <= 4.0 * (p - 1)


def test_the_heart_table_of_the_specification():
    """Sections 1 to 4: 216 edges, 67.0% negative, a centred H of rank 172, and a factorisation of that
    quality.
    """
    heart = load_heart()
    numeric, categorical = (
        np.column_stack([np.asarray(heart.data[c], dtype=kind) for c in names])
        for names, kind in ((heart.numeric_names, float), (heart.categorical_names, object))
    )
    data = ref.encode(numeric, categorical, beta=1.0)
    assert data.x.shape == (270, 22)
    assert len(ref.edges(22, data.groups)[0]) == 216
    assert (data.x[data.x < 0] ** 2).sum() / (data.x**2).sum() == pytest.approx(0.670, abs=5e-4)
    path = ref.hals(np.column_stack([data.D_num, data.D_cat]), 10, 50, 0)[2]
    assert path[10] == pytest.approx(0.1339, rel=0.15)
    assert path[50] == pytest.approx(0.1076, rel=0.15)
    h = ref.observed_similarities(
        data.x, 6, data.groups, ref.factorise(data.D_num, data.D_cat, 10, beta=1.0), 0.1
    )
    assert np.linalg.matrix_rank(h - h.mean(axis=0)) == 172


def observed_case(seed=0):
    data, x_hat = table(seed, 80)
    return ref.observed_similarities(data.x, data.p1, data.groups, x_hat, 0.1 * data.beta)


def test_the_observed_objective_is_degenerate():
    """Section 1: 0 is a stationary point and the maximum, ascent ends there, descent on one sample."""
    h = observed_case()
    value, gradient = ref.observed_value_gradient(np.zeros(h.shape[1]), h)
    assert abs(value) < 1e-14
    assert np.abs(gradient).max() < 1e-15
    rng = np.random.default_rng(1)
    assert (
        max(
            ref.observed_value_gradient(rng.normal(0, size, h.shape[1]), h)[0]
            for size in (0.01, 0.1, 1, 10)
            for _ in range(100)
        )
        < 0
    )
    centred = h - h.mean(axis=0)
    null = np.linalg.svd(centred)[2][-1]
    theta = rng.normal(size=h.shape[1])
    shifted = [ref.observed_value_gradient(theta + a * null, h)[0] for a in (0.0, 1.0)]
    assert np.ptp(shifted) <= 1e-12 + np.abs(centred @ null).max()
    sizes = [
        np.linalg.norm(centred @ ref.observed(h, 1, n_steps=k, rescale=False)) for k in (0, 10, 100, 2000)
    ]
    assert (np.diff(sizes) < 0).all()
    assert sizes[-1] < 0.05 * sizes[0]
    falls = [
        ref.observed_value_gradient(ref.observed(h, -1, n_steps=k, rescale=False), h)[0]
        for k in (10, 100, 1000)
    ]
    assert falls[0] > falls[1] > falls[2]
    assert falls[2] / falls[1] == pytest.approx(10, rel=0.2)
    theta = ref.observed(h, -1, theta0=1e-3, n_steps=3000)
    cosines = centred @ theta / np.linalg.norm(centred, axis=1) / np.linalg.norm(theta)
    assert cosines.max() > 1 - 1e-6


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


def test_entropy_separability_and_alpha():
    assert ref.label_entropy([0, 0, 0, 0, 1, 1], ["a", "b", "a", "b", "a", "a"]) == pytest.approx(np.log(2))
    # section 6: two clusters, 82% pure, are 0.94 nats or 1.36 bits
    labels, classes = np.repeat([0, 1], 100), np.r_[np.repeat([0, 1], [82, 18]), np.repeat([1, 0], [82, 18])]
    assert ref.rand(labels, classes) == pytest.approx(0.701, abs=5e-3)
    assert ref.label_entropy(labels, classes) == pytest.approx(0.955, abs=0.02)
    rng = np.random.default_rng(0)
    phi, labels = rng.normal(size=(90, 3)), np.arange(90) % 3
    near, far = ref.separability(phi, labels), ref.separability(phi + 9.0 * labels[:, None], labels)
    assert 0 < near < 0.1 < 0.9 < far < 1
    rotation = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    assert ref.separability(7.0 * phi @ rotation + 5.0, labels) == pytest.approx(near)
    assert ref.separability(np.array([[0.0], [2.0], [10.0], [12.0]]), [0, 0, 1, 1]) == pytest.approx(25 / 26)
    z = rng.normal(size=(50, 2))
    z = np.linalg.qr(z - z.mean(axis=0))[0]
    assert ref.alpha(z * [2.0, 1.0]) == pytest.approx(25 / 34)
    assert ref.alpha(7.0 * z) == pytest.approx(1.0)


def test_gibbs_samples_follow_their_model():
    """One edge of each kind: the sampled mean of h against its integral."""
    numeric, categorical, theta = ref.gibbs("easy", 0, p1=2, p2=0, n_edges=1, sweeps=20)
    u, w = ref.grid(1.0, 0.1, 64)
    h = ref.similarity(u[:, None], u, 0.1)
    density = np.outer(w, w) * np.exp(theta[0, 1] * h)
    assert ref.similarity(*numeric.T, 0.1).mean() == pytest.approx(
        (density * h).sum() / density.sum(), abs=0.07
    )
    _, categorical, theta = ref.gibbs("easy", 0, p1=0, p2=2, n_edges=1, sweeps=20)
    assert (2.0 * (categorical[:, 0] == categorical[:, 1]) - 1).mean() == pytest.approx(
        np.tanh(theta[0, 1]), abs=0.08
    )
    numeric, categorical, theta = ref.gibbs("easy", 1, p1=1, p2=1, n_edges=1, sweeps=20)
    h = np.stack([ref.similarity(u, code, 0.1) for code in (-0.5, 0.5)])
    density = w * np.exp(theta[0, 1] * h)
    sampled = ref.similarity(numeric[:, 0], np.where(categorical[:, 0] == "b", 0.5, -0.5), 0.1)
    assert sampled.mean() == pytest.approx((density * h).sum() / density.sum(), abs=0.07)
