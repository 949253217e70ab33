"""Graph spectral features equal their reference implementation: encoding, factors, likelihood, fits,
Laplacians, features.
"""

from __future__ import annotations

import warnings
from itertools import product

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import logsumexp
from sklearn.base import clone

from craftc import GraphSpectralFeatures, MixedTable
from craftc.spectral import factorization, observed_graph
from craftc.spectral.encoding import Encoding
from craftc.spectral.estimator import basis, laplacian
from craftc.spectral.factorization import Factoriser, default_factors
from craftc.spectral.observed import Observed
from craftc.spectral.preconditioner import GraphPreconditioner
from craftc.spectral.pseudo_likelihood import Objective, Parameters, PseudoLikelihood, log_grid, similarity
from tests.common import examples
from tests.reference import spectral as ref

ALL = list(product(["codes", "dense"], ["softmax", "logistic"], [True, False]))
every_kind = pytest.mark.parametrize(("conditionals", "groups", "unary"), ALL)
LEVELS = [["no", "yes"], ["a", "b", "c"], [3, 1, 22], ["p", "q", "r", "s", "t"]]


def raw(seed, n=40, p1=3, P=3, p_missing=0.0):
    """(numeric, categorical): columns that go together, and variables of 2, 3, 3 and 5 levels, each tied to
    one of them.
    """
    rng = np.random.default_rng(seed)
    numeric = rng.normal(size=(n, p1)) @ rng.normal(size=(p1, p1)) * 10.0 ** rng.integers(
        -2, 3, p1
    ) + rng.normal(0, 5, p1)
    categorical = np.empty((n, P), dtype=object)
    for d in range(P):
        m = len(LEVELS[d])
        tied = numeric[:, d % p1].argsort().argsort() * m // n if p1 else np.arange(n) % m
        code = np.where(rng.random(n) < 0.5, tied, rng.integers(0, m, n))
        code[rng.permutation(n)[:m]] = np.arange(m)
        categorical[:, d] = np.array(LEVELS[d], dtype=object)[code]
    numeric[rng.random((n, p1)) < p_missing] = np.nan
    categorical[rng.random((n, P)) < p_missing] = None
    return numeric, categorical


def frame_of(numeric, categorical):
    """The frame that the library reads, and the names of its categorical columns."""
    columns = {f"n{j}": column for j, column in enumerate(numeric.T)}
    names = [f"c{d}" for d in range(categorical.shape[1])]
    frame = pd.DataFrame(
        {**columns, **dict(zip(names, categorical.T, strict=True))}, index=range(len(numeric))
    )
    return frame.astype(dict.fromkeys(names, object)), names


def both(seed, beta=2.0, missing="ignore", **shape):
    """(table, its encoding, the reference's data)."""
    numeric, categorical = raw(seed, **shape)
    frame, names = frame_of(numeric, categorical)
    table = MixedTable.from_data(frame, categorical=names, missing=missing)
    encoding = Encoding.of(table, beta)
    if missing == "category":
        table = encoding.filled(table)
    return table, encoding, ref.encode(numeric, categorical, beta)


def approximation(encoding, table, seed=0, k=None):
    return (
        Factoriser(encoding, table, 1.0, 1)
        .hals(default_factors(encoding.p) if k is None else k, seed)
        .approximation(encoding.beta)
    )


def likelihood_of(encoding, table, hat, conditionals="codes", groups="softmax", eps=None, m=16):
    return PseudoLikelihood(
        encoding,
        table,
        hat.codes(encoding),
        beta=encoding.beta,
        eps=0.1 * encoding.beta if eps is None else eps,
        grid_size=m,
        softmax=groups == "softmax",
        low_rank=hat if conditionals == "dense" else None,
        n_threads=1,
    )


def random_parameters(encoding, seed, sd=0.5, unary=True):
    rng = np.random.default_rng(seed)
    s, t = encoding.edges()
    theta = ref.matrix(rng.normal(0, sd, len(s)), s, t, encoding.p)
    b, c = rng.normal(0, sd, encoding.p2), rng.normal(0, sd, (encoding.p1, 2))
    return Parameters(theta, b * unary, c * unary)


# ---- encoding ----


@examples(60)
@given(
    seed=st.integers(0, 10**6),
    p1=st.integers(0, 3),
    P=st.integers(0, 4),
    p_missing=st.sampled_from([0.0, 0.1]),
    beta=st.sampled_from([0.5, 2.0]),
)
def test_encoding(seed, p1, P, p_missing, beta):
    """Names, columns that are left out, and values: transform by all p components is a rotation of them.

    A missing cell is a level, or a mean.
    """
    rng = np.random.default_rng(seed)
    numeric, categorical = raw(seed, int(rng.integers(8, 40)), p1, P, p_missing)
    if rng.random() < 0.3 and p1 > 1:
        numeric[:, 1] = 4.0
    if rng.random() < 0.3 and P > 1:
        categorical[:, 1] = "a"
    frame, names = frame_of(numeric, categorical)
    data = ref.encode(numeric, categorical, beta)
    options = {"categorical": names, "missing": "category", "beta": beta}
    usable = data.p1 + len(data.groups)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if usable < 2:
            with pytest.raises(
                ValueError, match=f"at least two columns that vary, got {usable}" if p1 + P else "feature"
            ):
                observed_graph(frame, **options)
            return
        graph = observed_graph(frame, n_steps=0, random_state=0, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = GraphSpectralFeatures(data.x.shape[1], graph=graph, **options).fit(frame)
    spelt = {None: "(missing)"}
    assert model.encoded_names_.tolist() == [
        frame.columns[j] if j < p1 else f"{frame.columns[j]}={spelt.get(level, level)}"
        for j, level in data.names
    ]
    assert model.encoded_columns_.tolist() == [j for j, _ in data.names]
    assert model.n_numeric_ == data.p1
    dropped = ", ".join(repr(frame.columns[j]) for j, _ in data.dropped)
    assert [str(w.message).partition(": ")[2] for w in caught] == [dropped + "."] * bool(dropped)
    np.testing.assert_allclose(model.transform(frame) @ model.components_, data.x, rtol=0, atol=1e-9)
    s, t = ref.edges(len(data.names), data.groups)
    np.testing.assert_array_equal(np.argwhere(np.triu(model.graph_)), np.column_stack([s, t]))


# ---- factors and codes ----


@pytest.mark.parametrize(
    ("seed", "p1", "P", "k"), [(0, 3, 3, 4), (1, 0, 3, 2), (2, 3, 0, 1), (3, 3, 4, 8), (4, 2, 1, 3)]
)
@pytest.mark.parametrize("weight", [1.0, 0.3])
@pytest.mark.parametrize("p_missing", [0.0, 0.1])
def test_hals_from_the_same_start(seed, p1, P, k, weight, p_missing):
    table, encoding, data = both(seed, p1=p1, P=P, p_missing=p_missing)
    factoriser = Factoriser(encoding, table, weight, 1)
    A = np.column_stack([data.D_num, np.sqrt(weight) * data.D_cat])
    if p_missing:  # the reference has none: a missing cell is the mean of its column
        A = factoriser.dense(slice(None))
        x = encoding.project(table, np.eye(encoding.p))
        np.testing.assert_allclose(A[:, p1:], np.sqrt(weight) * (x[:, p1:] + 1.0) / 2.0, atol=1e-14)
        np.testing.assert_allclose(
            A[:, :p1],
            (x[:, :p1] / encoding.scale + encoding.centre - encoding.low) * factoriser.scale,
            atol=1e-12,
        )
    np.testing.assert_allclose(factoriser.dense(slice(None)), A, atol=1e-14)
    rng = np.random.default_rng(seed)
    size = np.sqrt(A.mean() / k) * 2.0
    start = size * rng.random((len(A), k)), size * rng.random((k, A.shape[1])).T
    W, H, path = ref.hals(A, k, 50, seed)
    found = factoriser.hals(k, 0, start)
    np.testing.assert_allclose(found.scores, W, atol=1e-8)
    np.testing.assert_allclose(found.loadings, H.T, atol=1e-8)
    np.testing.assert_allclose(found.residual, path[1:], rtol=1e-9)
    x_hat = ref.scale(W @ H, encoding.beta)
    np.testing.assert_allclose(found.approximation(encoding.beta).table(), x_hat, atol=1e-7)
    np.testing.assert_array_equal(
        start[0], size * np.random.default_rng(seed).random((len(A), k))
    )  # the start is left as it was


def test_hals_of_its_own_start_falls_and_a_larger_k_fits_better():
    table, encoding, _ = both(5, n=200, P=4)
    factoriser, last = Factoriser(encoding, table, 1.0, 1), 1.0
    for k in (1, 3, 8):
        found = factoriser.hals(k, 0)
        assert found.scores.min() >= 0.0
        assert found.loadings.min() >= 0.0
        assert (np.diff(found.residual) <= 1e-14).all()
        assert found.residual[-1] < last
        last = found.residual[-1]
        again = factoriser.hals(k, 1)
        assert not np.array_equal(found.scores, again.scores)
        assert found.residual[-1] == pytest.approx(again.residual[-1], rel=0.2)


@pytest.mark.parametrize(("p1", "P"), [(3, 3), (0, 3), (3, 0)])
@pytest.mark.parametrize("weight", [1.0, 3.0])
def test_singular_vectors(p1, P, weight):
    table, encoding, data = both(1, p1=p1, P=P)
    for k in range(1, encoding.p + 1):
        found = Factoriser(encoding, table, weight, 1).svd(k)
        A = np.column_stack([data.D_num, np.sqrt(weight) * data.D_cat])
        values = np.linalg.svd(A, compute_uv=False) ** 2
        assert found.residual[0] == pytest.approx(values[k:].sum() / values.sum(), abs=1e-12)
        if k < encoding.p and values[k - 1] - values[k] < 1e-3 * values[0]:
            continue  # which of two equal ones is left out is not defined
        x_hat = ref.factorise(data.D_num, data.D_cat, k, "svd", weight=weight, beta=encoding.beta)
        hat = found.approximation(encoding.beta)
        np.testing.assert_allclose(hat.table(), x_hat, atol=1e-9)
        np.testing.assert_allclose(hat.codes(encoding), ref.codes(data.x, x_hat, p1)[p1:], atol=1e-9)


@pytest.mark.parametrize("missing", ["ignore", "category"])
@pytest.mark.parametrize("p_missing", [0.0, 0.15])
def test_codes(p_missing, missing):
    """Means over the rows at a level; rows where the variable is not known belong to no side."""
    table, encoding, data = both(3, p_missing=p_missing, missing=missing, P=4)
    hat = approximation(encoding, table)
    x_hat, found = hat.table(), hat.codes(encoding)
    np.testing.assert_allclose(x_hat.mean(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(np.abs(x_hat).max(axis=0), encoding.beta, rtol=1e-12)
    if missing == "category" or not p_missing:
        np.testing.assert_allclose(found, ref.codes(data.x, x_hat, data.p1)[data.p1 :], atol=1e-12)
        return
    frame = [
        table.levels[d][c] if c < len(table.levels[d]) else None for d in range(4) for c in table.codes[:, d]
    ]
    cells = np.array(frame, dtype=object).reshape(4, -1)
    for j, name in enumerate(encoding.names[encoding.p1 :]):
        d, level = int(name[1]), name.partition("=")[2]
        on = np.array([cell is not None and str(cell) == level for cell in cells[d]])
        off = np.array([cell is not None for cell in cells[d]]) & ~on
        np.testing.assert_allclose(
            found[j], [x_hat[side, encoding.p1 + j].mean() for side in (off, on)], atol=1e-12
        )


# ---- similarity, grid ----


def test_similarity_and_grid():
    rng = np.random.default_rng(0)
    eps = 0.1
    values = np.concatenate(
        [rng.uniform(-1, 1, 60), rng.uniform(-0.2, 0.2, 30), [0.0, -0.0, eps, -eps, 1.0, -1.0, 1e-300]]
    )
    np.testing.assert_allclose(
        similarity(values[:, None], values, eps), ref.similarity(values[:, None], values, eps), rtol=3e-16
    )
    for beta, floor, m in ((2.0, 0.2, 16), (1.0, 0.3, 2), (5.0, 1e-6, 64)):
        grid, (u, w) = log_grid(beta, floor, m), ref.grid(beta, floor, m)
        np.testing.assert_array_equal(grid.nodes, u)
        np.testing.assert_array_equal(grid.weights, w)


# ---- the pseudo-likelihood ----

SHAPES = [(3, 3), (2, 4), (3, 0), (0, 3), (1, 1)]


@pytest.mark.parametrize(("p1", "P"), SHAPES)
@every_kind
def test_value_and_gradient(conditionals, groups, unary, p1, P):
    for seed, eps, m, sd in ((0, None, 16, 0.5), (1, 0.05, 7, 2.0)):
        table, encoding, data = both(seed, p1=p1, P=P, n=33)
        hat = approximation(encoding, table)
        model = ref.pseudo_model(
            data.x,
            data.p1,
            data.groups,
            hat.table(),
            eps=eps,
            beta=data.beta,
            m=m,
            mixed=conditionals,
            categorical=groups,
        )
        at = random_parameters(encoding, seed, sd, unary)
        value, gradient = likelihood_of(encoding, table, hat, conditionals, groups, eps, m)(at)
        expected, *slopes = ref.pseudo_value_gradient(model, *at)
        assert value == pytest.approx(expected, rel=1e-12)
        s, t = encoding.edges()
        np.testing.assert_allclose(gradient.theta[s, t], slopes[0][s, t], rtol=0, atol=1e-11)
        np.testing.assert_array_equal(gradient.theta, gradient.theta.T)
        np.testing.assert_allclose(gradient.b, slopes[1], rtol=0, atol=1e-11)
        np.testing.assert_allclose(gradient.c, slopes[2], rtol=0, atol=1e-11)


def differences(function, x, step=1e-5):
    return np.array([(function(x + d)[0] - function(x - d)[0]) / (2 * step) for d in step * np.eye(len(x))])


@pytest.mark.parametrize("p_missing", [0.0, 0.2])
@every_kind
def test_gradients_by_differences(conditionals, groups, unary, p_missing):
    """In the preconditioner of the objective, and in those of the search."""
    table, encoding, _ = both(2, n=21, P=2, p_missing=p_missing)
    hat = approximation(encoding, table)
    objective = Objective(likelihood_of(encoding, table, hat, conditionals, groups), 0.1, unary)
    x = np.random.default_rng(0).normal(0, 0.5, len(objective))
    assert len(x) == len(encoding.edges()[0]) + unary * (encoding.p2 + 2 * encoding.p1)
    np.testing.assert_allclose(objective(x)[1], differences(objective, x), rtol=0, atol=1e-7)
    preconditioner = GraphPreconditioner(objective, table, 0.2, groups == "softmax")
    slope = preconditioner.gradient(objective(preconditioner.vector(x))[1])
    np.testing.assert_allclose(
        slope, differences(lambda z: objective(preconditioner.vector(z)), x), rtol=0, atol=1e-7
    )
    np.testing.assert_array_equal(objective.vector(objective.parameters(x)), x)


def by_loops(table, encoding, hat, at, conditionals, groups, m=16):
    """The value per row, conditional by conditional: a missing cell has none and adds nothing to others."""
    p1, eps = encoding.p1, 0.1 * encoding.beta
    u, w = ref.grid(encoding.beta, eps, m)
    x, x_hat, code = encoding.scaled(table), hat.table(), hat.codes(encoding)
    total = 0.0
    for i in range(table.n_rows):
        levels = {}  # of the indicators that are known: off 0, on 1
        for v, d in enumerate(encoding.variable):
            name, known = table.categorical_names[d], table.levels[d]
            if table.codes[i, d] < len(known):
                for j in range(encoding.first[v], encoding.first[v + 1]):
                    levels[j] = int(encoding.names[p1 + j] == f"{name}={known[table.codes[i, d]]}")
        numbers = [t for t in range(p1) if not np.isnan(x[i, t])]
        for s in numbers:

            def energy(y, i=i, s=s, numbers=numbers, levels=levels):
                out = at.c[s, 0] * y + at.c[s, 1] * y**2
                for t in numbers:
                    out = out + at.theta[s, t] * ref.similarity(y, x[i, t], eps)
                for j, on in levels.items():
                    seen = x_hat[i, p1 + j] if conditionals == "dense" else code[j, on]
                    out = out + at.theta[s, p1 + j] * ref.similarity(y, seen, eps)
                return out

            total += energy(x[i, s]) - logsumexp(energy(u), b=w)
        F = {}
        for j in levels:
            F[j] = at.b[j] + sum(2.0 * at.theta[p1 + j, p1 + k] * (2 * on - 1) for k, on in levels.items())
            for t in numbers:
                shown = x_hat[i, t] if conditionals == "dense" else x[i, t]
                F[j] += at.theta[p1 + j, t] * (
                    ref.similarity(shown, code[j, 1], eps) - ref.similarity(shown, code[j, 0], eps)
                )
        for v in range(len(encoding.variable)):
            mine = [j for j in range(encoding.first[v], encoding.first[v + 1]) if j in levels]
            if len(mine) > 1 and groups == "softmax":
                total += sum(F[j] for j in mine if levels[j]) - logsumexp([F[j] for j in mine])
            else:
                total += sum(levels[j] * F[j] - np.logaddexp(0.0, F[j]) for j in mine)
    return total / table.n_rows


@every_kind
def test_missing_cells_leave_out_their_terms(conditionals, groups, unary):
    for seed, p_missing, shape in ((0, 0.2, (3, 3)), (1, 0.6, (2, 4)), (2, 0.3, (3, 0)), (3, 0.3, (0, 3))):
        table, encoding, _ = both(seed, n=18, p1=shape[0], P=shape[1], p_missing=p_missing)
        hat, at = approximation(encoding, table), random_parameters(encoding, seed, unary=unary)
        value = likelihood_of(encoding, table, hat, conditionals, groups)(at)[0]
        assert value == pytest.approx(by_loops(table, encoding, hat, at, conditionals, groups), rel=1e-12)


# ---- fits ----


def model_of(**parameters):
    names = [f"c{d}" for d in range(4)]
    plain = {"categorical": names, "factorization": "svd", "unary": True, "grid_size": 16, "n_threads": 1}
    return GraphSpectralFeatures(**{**plain, **parameters})


def fitted(seed, n=30, p1=3, P=2, **parameters):
    """(model, frame, the reference's data, its x_hat)."""
    numeric, categorical = raw(seed, n, p1, P)
    frame, names = frame_of(numeric, categorical)
    beta = parameters.get("beta", 2.0)
    data = ref.encode(numeric, categorical, beta)
    return (
        model_of(categorical=names, **parameters).fit(frame),
        frame,
        data,
        ref.factorise(data.D_num, data.D_cat, None, "svd", beta=beta),
    )


def reference_model(data, x_hat, conditionals="codes", groups="softmax"):
    return ref.pseudo_model(
        data.x, data.p1, data.groups, x_hat, beta=data.beta, mixed=conditionals, categorical=groups
    )


@every_kind
def test_the_graph_equals_the_reference(conditionals, groups, unary):
    model, _, data, x_hat = fitted(0, conditionals=conditionals, groups=groups, unary=unary, tol=1e-7)
    found = ref.fit(reference_model(data, x_hat, conditionals, groups), 0.1, unary, gtol=1e-7)
    assert found.gradient <= 1e-7
    assert model.converged_
    np.testing.assert_allclose(model.graph_, found.theta, rtol=0, atol=1e-5)
    assert model.objective_ == pytest.approx(found.objective, abs=1e-9)
    np.testing.assert_allclose(model.codes_, ref.codes(data.x, x_hat, data.p1), atol=1e-9)


@pytest.mark.parametrize(
    ("seed", "p1", "P", "l2", "beta"),
    [(1, 2, 3, 0.3, 1.0), (2, 3, 0, 0.03, 2.0), (3, 0, 4, 0.1, 2.0), (4, 1, 1, 1.0, 0.5)],
)
def test_graphs_of_other_tables(seed, p1, P, l2, beta):
    model, _, data, x_hat = fitted(seed, 40, p1, P, l2=l2, beta=beta, tol=1e-7)
    found = ref.fit(reference_model(data, x_hat), l2, gtol=1e-7)
    np.testing.assert_allclose(model.graph_, found.theta, rtol=0, atol=1e-5)
    assert model.objective_ == pytest.approx(found.objective, abs=1e-9)


@pytest.mark.slow_except(3)
@every_kind
def test_the_graph_by_way_of_a_sample_equals_the_reference(conditionals, groups, unary, monkeypatch):
    monkeypatch.setattr(factorization, "SAMPLE_ROWS", 30)
    monkeypatch.setattr(factorization, "SHARE", 2)
    model, _, data, x_hat = fitted(0, conditionals=conditionals, groups=groups, unary=unary, tol=1e-7)
    found = ref.fit(reference_model(data, x_hat, conditionals, groups), 0.1, unary, gtol=1e-7)
    assert model.converged_
    np.testing.assert_allclose(model.graph_, found.theta, rtol=0, atol=1e-5)


@pytest.mark.parametrize("conditionals", ["codes", "dense"])
def test_every_parameter_of_the_model_counts(conditionals):
    """None is left at its default."""
    numeric, categorical = raw(11, 40)
    frame, names = frame_of(numeric, categorical)
    data = ref.encode(numeric, categorical, 1.5)
    x_hat = ref.factorise(data.D_num, data.D_cat, 3, "svd", weight=2.5, beta=1.5)
    model = ref.pseudo_model(
        data.x,
        data.p1,
        data.groups,
        x_hat,
        eps=0.3,
        beta=1.5,
        m=5,
        mixed=conditionals,
        categorical="logistic",
    )
    found = ref.fit(model, 0.25, unary=False, gtol=1e-7)
    options = {
        "beta": 1.5,
        "eps": 0.3,
        "grid_size": 5,
        "n_factors": 3,
        "indicator_weight": 2.5,
        "l2": 0.25,
        "unary": False,
    }
    ours = model_of(categorical=names, conditionals=conditionals, groups="logistic", tol=1e-7, **options).fit(
        frame
    )
    np.testing.assert_allclose(ours.graph_, found.theta, rtol=0, atol=1e-5)
    for name in options:
        default = GraphSpectralFeatures().get_params()[name]
        other = clone(ours).set_params(**{name: default}).fit(frame)
        assert np.abs(other.graph_ - ours.graph_).max() > (1e-4 if name != "beta" else 1e-6), name


@pytest.mark.parametrize("groups", ["softmax", "logistic"])
@pytest.mark.parametrize("conditionals", ["codes", "dense"])
def test_the_sparse_graph_equals_the_reference(conditionals, groups):
    model, _, data, x_hat = fitted(5, conditionals=conditionals, groups=groups, l1=0.1, l2=0.0, tol=1e-7)
    found = ref.fit_l1(reference_model(data, x_hat, conditionals, groups), 0.1, tol=1e-7)
    assert model.converged_
    np.testing.assert_allclose(model.graph_, found.theta, rtol=0, atol=1e-5)
    assert model.objective_ == pytest.approx(found.objective, abs=1e-9)
    s, t = ref.edges(len(data.names), data.groups)
    assert 0 < np.count_nonzero(model.graph_[s, t]) < len(s)
    np.testing.assert_array_equal(model.graph_ != 0.0, found.theta != 0.0)


@pytest.mark.filterwarnings("ignore:The graph has no edges")
def test_no_edge_is_left_where_the_penalty_is_the_slope_at_zero():
    _, _, data, x_hat = fitted(6)
    model = reference_model(data, x_hat)
    slope = np.abs(ref.penalised(model, np.zeros(len(model.edges[0])), 0.0, False)[1]).max()
    empty, some = (fitted(6, l1=factor * slope, l2=0.0, tol=1e-7)[0] for factor in (1.001, 0.99))
    assert not empty.graph_.any()
    assert np.count_nonzero(some.graph_) == 2


def test_both_penalties_together():
    """The elastic net meets its conditions at the reference's gradient."""
    model, _, data, x_hat = fitted(7, l1=0.05, l2=0.2, tol=1e-7)
    s, t = ref.edges(len(data.names), data.groups)
    free = model.graph_[s, t]
    gradient = ref.penalised(reference_model(data, x_hat), free, 0.2, False)[1]
    on = free != 0.0
    assert 0 < on.sum() < len(on)
    np.testing.assert_allclose(gradient[on], -0.05 * np.sign(free[on]), rtol=0, atol=2e-7)
    assert np.abs(gradient).max() <= 0.05 + 2e-7


# ---- observed_graph ----


@pytest.mark.parametrize("p1P", [(3, 2), (3, 0), (0, 3)])
@pytest.mark.parametrize(
    ("sign", "more"),
    [(-1, {}), (1, {}), (-1, {"theta0": 1e-3, "n_steps": 10}), (1, {"rate": 0.1, "n_steps": 7})],
)
def test_observed_steps(sign, more, p1P):
    numeric, categorical = raw(8, 35, *p1P)
    frame, names = frame_of(numeric, categorical)
    data = ref.encode(numeric, categorical, 2.0)
    x_hat = ref.factorise(data.D_num, data.D_cat, None, "svd", beta=2.0)
    graph = observed_graph(frame, sign=sign, categorical=names, factorization="svd", **more)
    h = ref.observed_similarities(data.x, data.p1, data.groups, x_hat, 0.1 * data.beta)
    s, t = ref.edges(len(data.names), data.groups)
    theta = ref.observed(h, sign, **more)
    np.testing.assert_allclose(
        graph.weights, ref.matrix(theta, s, t, len(data.names)), rtol=0, atol=1e-8 * np.abs(theta).max()
    )
    n_steps = more.get("n_steps", {-1: 20, 1: 50}[sign])
    steps = [ref.observed(h, sign, **{**more, "n_steps": k + 1}, rescale=False) for k in range(n_steps)]
    values = [ref.observed_value_gradient(step, h)[0] for step in steps]
    np.testing.assert_allclose(graph.objective_path, -np.array(values), rtol=1e-8, atol=1e-12)
    assert graph.objective == pytest.approx(-ref.observed_value_gradient(theta, h)[0], rel=1e-8)


def test_value_and_gradient_of_the_observed_objective():
    """With missing cells too, where a similarity is 0; more rows than a block."""
    for p_missing in (0.0, 0.2):
        table, encoding, data = both(9, n=700, p_missing=p_missing)
        hat = approximation(encoding, table).table()
        x = encoding.project(table, np.eye(encoding.p))
        there = np.column_stack(
            [
                ~np.isnan(table.numeric),
                (table.codes[:, encoding.variable] < table.n_levels)[:, encoding.owner],
            ]
        )
        h = ref.observed_similarities(
            x, data.p1, [np.flatnonzero(encoding.owner == v) + 3 for v in range(3)], hat, 0.2
        )
        s, t = encoding.edges()
        h *= there[:, s] & there[:, t]
        theta = np.random.default_rng(0).normal(size=len(s))
        f, gradient = Observed(encoding, table, hat, 0.2)(ref.matrix(theta, s, t, encoding.p))
        expected, slope = ref.observed_value_gradient(theta, h)
        assert f == pytest.approx(expected, rel=1e-11)
        np.testing.assert_allclose(gradient, ref.matrix(slope, s, t, encoding.p), rtol=0, atol=1e-12)


# ---- Laplacians, bases, features ----


@pytest.mark.parametrize("normalized", [True, False])
@pytest.mark.parametrize("kind", ["signed", "abs"])
@pytest.mark.parametrize("isolated", [False, True])
def test_laplacians_and_bases(kind, normalized, isolated):
    rng = np.random.default_rng(0)
    theta = np.triu(rng.normal(size=(9, 9)), 1)
    theta += theta.T
    if isolated:
        theta[[2, 5]] = theta[:, [2, 5]] = 0.0
    L = laplacian(theta, kind, normalized)
    np.testing.assert_allclose(L, ref.laplacian(theta, kind, normalized), rtol=0, atol=1e-14)
    values, rows = basis(L)
    expected, columns = ref.basis(L, 9)
    np.testing.assert_allclose(values, expected, rtol=0, atol=1e-13)
    np.testing.assert_allclose(rows @ rows.T, np.eye(9), atol=1e-12)
    assert (np.diff(values) >= 0).all()
    for gap in (
        np.flatnonzero(np.diff(values) > 1e-6) + 1
    ):  # spaces, as vectors of equal eigenvalues are not defined
        np.testing.assert_allclose(
            rows[:gap].T @ rows[:gap], columns[:, :gap] @ columns[:, :gap].T, atol=1e-9
        )
    for row in rows:
        assert row[np.abs(row).round(10).argmax()] > 0


def test_the_first_of_equal_entries_is_positive():
    values, rows = basis(np.array([[1.0, -1.0, 0.0], [-1.0, 1.0, 0.0], [0.0, 0.0, 5.0]]))
    np.testing.assert_allclose(values, [0.0, 2.0, 5.0], atol=1e-15)
    np.testing.assert_allclose(
        rows,
        [[np.sqrt(0.5), np.sqrt(0.5), 0.0], [np.sqrt(0.5), -np.sqrt(0.5), 0.0], [0.0, 0.0, 1.0]],
        atol=1e-15,
    )


@pytest.mark.parametrize("turn", [-1e-12, 1e-12])
def test_entries_equal_up_to_rounding_are_equal(turn):
    """So that the sign of a vector does not hang on its last bits."""
    angle = np.pi / 4 + turn
    vectors = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    rows = basis(vectors.T @ np.diag([1.0, 2.0]) @ vectors)[1]
    assert (rows[:, 0] > 0).all()
    np.testing.assert_allclose(np.abs(rows), np.sqrt(0.5), atol=1e-11)


@pytest.mark.parametrize("skip_first", [False, True])
@pytest.mark.parametrize("normalized", [True, False])
@pytest.mark.parametrize("kind", ["signed", "abs"])
def test_features(kind, normalized, skip_first):
    """From the graph on everything equals the reference: spectrum, basis, and rows times basis."""
    model, frame, data, _ = fitted(
        10, 40, laplacian=kind, normalized=normalized, skip_first=skip_first, n_components=3
    )
    L = ref.laplacian(model.graph_, kind, normalized)
    values, vectors = ref.basis(L, 3, skip_first)
    np.testing.assert_allclose(model.eigenvalues_, values, atol=1e-13)
    np.testing.assert_allclose(model.spectrum_, np.linalg.eigvalsh(L), atol=1e-13)
    np.testing.assert_allclose(model.components_.T @ model.components_, vectors @ vectors.T, atol=1e-9)
    np.testing.assert_allclose(
        model.components_, vectors.T, atol=1e-7
    )  # simple eigenvalues here, and the same sign rule
    np.testing.assert_allclose(model.transform(frame), ref.features(data.x, model.components_.T), atol=1e-12)
    assert model.spectrum_[0] > -1e-12
    assert not normalized or model.spectrum_[-1] <= 2 + 1e-12
    if kind == "abs":
        assert abs(model.spectrum_[0]) < 1e-12
        if not normalized and not skip_first:
            np.testing.assert_allclose(model.components_[0], len(data.names) ** -0.5, atol=1e-9)
