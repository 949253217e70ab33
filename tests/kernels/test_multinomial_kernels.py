"""The kernels of the multinomial loss against NumPy and the reference implementation."""

from __future__ import annotations

import hashlib
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from scipy.special import logsumexp

from craftc._fusion.datafits import Multinomial
from craftc._kernels import multinomial as kernel
from tests.common import assert_same_bits
from tests.reference import covariates as ref


def padded(rows):
    """Numbers of the classes, then zeros."""
    return np.pad(rows, ((0, 0), (0, -rows.shape[1] % kernel.TILE)))


def problem(seed, n, m, c, density=0.3, size=1.0):
    rng = np.random.default_rng(seed)
    X = np.where(rng.random((n, m)) < density, rng.normal(size=(n, m)), 0.0)
    table = sparse.csr_array(X)
    entries = table.indptr.astype(np.intp), table.indices.astype(np.int32), table.data
    beta = size * rng.normal(size=(m, c))
    y, direction = rng.integers(c, size=n).astype(np.int32), rng.normal(size=(m, c))
    return SimpleNamespace(X=X, entries=entries, beta=beta, y=y, c=c, direction=direction)


def results(p, blocks=1, n_threads=1):
    """Value, entropy, probabilities, gradient, product with the Hessian; arrays hold rubbish before."""
    (n, m), width = p.X.shape, padded(p.beta).shape[1]
    proba = np.full((n, p.c), 7.0)
    gradient, product, curvature = (np.full((m, width), 7.0) for _ in range(3))
    work = np.full((blocks, m + 2, width), -5.0)
    value, entropy = kernel.evaluate(
        *p.entries, padded(p.beta), p.y, proba, np.full((blocks, 2, width), -5.0), n_threads
    )
    kernel.gradient(*p.entries, p.y, proba, gradient, work, n_threads)
    kernel.hessian_product(*p.entries, proba, padded(p.direction), product, work, n_threads)
    first, column, x = p.entries
    kernel.class_curvature(first, column, x * x, proba, curvature, work, n_threads)
    assert not curvature[:, p.c :].any()
    assert not gradient[:, p.c :].any()
    assert not product[:, p.c :].any()
    return value, entropy, proba, gradient[:, : p.c], product[:, : p.c], curvature[:, : p.c]


def expected(p):
    value, proba = ref.log_likelihood_terms(p.beta.T, p.X, p.y)
    logits = p.X @ p.beta
    logp = logits - logsumexp(logits, axis=1, keepdims=True)
    change = p.X @ p.direction
    curved = proba * (change - (proba * change).sum(axis=1, keepdims=True))
    gradient = p.X.T @ (proba - np.eye(p.c)[p.y])
    return value, -(proba * logp).sum(), proba, gradient, p.X.T @ curved, (p.X**2).T @ (proba * (1.0 - proba))


@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(0, 40),
    m=st.integers(1, 9),
    c=st.integers(1, 70),
    blocks=st.integers(1, 5),
)
def test_numpy(seed, n, m, c, blocks):
    p = problem(seed, n, m, c)
    for found, right in zip(results(p, blocks), expected(p), strict=True):
        np.testing.assert_allclose(found, right, rtol=1e-12, atol=1e-12 * max(1, n))


@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(0, 40),
    c=st.integers(1, 12),
    size=st.sampled_from([1e-3, 1.0, 1e3]),
    weighted=st.booleans(),
)
def test_softmax(seed, n, c, size, weighted):
    rng = np.random.default_rng(seed)
    logits, y = size * rng.normal(size=(c, n)), rng.integers(c, size=n).astype(np.int32)
    weight = rng.random(n) if weighted else None
    out = logits.copy()
    value, entropy = kernel.softmax(out, y, weight)
    logp = logits - logsumexp(logits, axis=0)
    w, proba = np.ones(n) if weight is None else weight, np.exp(logp)
    np.testing.assert_allclose(out, proba, rtol=1e-11, atol=1e-300)
    assert value == pytest.approx(-(w * logp[y, np.arange(n)]).sum(), rel=1e-12, abs=1e-12)
    assert entropy == pytest.approx(-(w * proba * logp).sum(), rel=1e-9, abs=1e-12)


def test_softmax_of_a_row_does_not_depend_on_the_others():
    rng = np.random.default_rng(0)
    logits, y = rng.normal(size=(4, 29)), rng.integers(4, size=29).astype(np.int32)
    together = logits.copy()
    kernel.softmax(together, y)
    for s in range(29):
        alone = logits[:, s:].copy()
        kernel.softmax(alone, y[s:])
        np.testing.assert_array_equal(alone, together[:, s:])


def test_softmax_of_no_number_and_of_wrong_arguments():
    logits, y = np.zeros((3, 11)), np.zeros(11, np.int32)
    logits[1, 9] = np.nan
    assert np.isnan(kernel.softmax(logits, y)).all()
    assert np.isnan(logits[:, 9]).all()
    assert np.isfinite(np.delete(logits, 9, axis=1)).all()
    for wrong in (
        (logits[:0], y),
        (logits, y[:-1]),
        (logits, y + 3),
        (logits, y - 1),
        (logits, y, np.ones(10)),
    ):
        with pytest.raises(ValueError, match=r"fit|needs"):
            kernel.softmax(*wrong)


def digest():
    """The bits of softmax with and without weights."""
    rng, found = np.random.default_rng(0), hashlib.sha256()
    for c, n in ((2, 100), (4, 37), (11, 5)):
        logits, y = 10.0 * rng.normal(size=(c, n)), rng.integers(c, size=n).astype(np.int32)
        for weight in (None, rng.random(n)):
            out = logits.copy()
            sums = kernel.softmax(out, y, weight)
            found.update(out.tobytes() + np.array(sums).tobytes())
    return found.hexdigest()


@pytest.mark.parametrize("instructions", ["v3", "v4"])
def test_softmax_has_the_same_bits_for_any_instruction_set(instructions):
    assert_same_bits(__name__, instructions)


@pytest.mark.parametrize("n_threads", [2, 7])
def test_same_bits_for_any_number_of_threads(n_threads):
    p = problem(0, 501, 30, 20)
    for one, many in zip(results(p, 16), results(p, 16, n_threads), strict=True):
        np.testing.assert_array_equal(one, many)


def test_logits_far_apart():
    """Probabilities underflow no further than 1e-304, and the loss keeps every digit."""
    p = problem(1, 50, 8, 11, size=1e4)
    for found, right in zip(results(p), expected(p), strict=True):
        np.testing.assert_allclose(found, right, rtol=1e-9, atol=1e-11)


def test_what_is_no_number_stays_none():
    p = problem(2, 20, 5, 6, density=1.0)
    p.beta[2, 3] = np.nan
    proba = np.empty((20, 6))
    value, entropy = kernel.evaluate(*p.entries, padded(p.beta), p.y, proba, np.empty((1, 2, 8)), 1)
    assert np.isnan(value)
    assert np.isnan(entropy)
    assert np.isnan(proba).any()


@pytest.mark.parametrize("shape", [(0, 3), (40, 1), (200, 25)])
def test_weighted_gram(shape):
    p = problem(3, *shape, 4)
    weight = np.random.default_rng(0).random((shape[0], 1))
    out = np.full((shape[1], shape[1]), 7.0)
    kernel.weighted_gram(*p.entries, weight, out)
    np.testing.assert_allclose(out, p.X.T @ (p.X * weight), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("c", [2, 5, 20])
def test_the_data_fit_is_that_of_the_dense_table(c):
    """From five classes on a sparse table is the kernels' work."""
    p = problem(4, 120, 12, c)
    loss, table = Multinomial(p.y.astype(np.intp), c), sparse.csr_array(p.X)
    theta, direction = p.beta @ loss.basis, p.direction @ loss.basis
    thin, dense = loss.at(table, theta), loss.at(p.X, theta)
    np.testing.assert_allclose(thin[:2], dense[:2], rtol=1e-12)
    np.testing.assert_allclose(thin.proba, dense.proba, rtol=1e-11)
    np.testing.assert_allclose(loss.gradient(table, dense), loss.gradient(p.X, dense), atol=1e-11)
    np.testing.assert_allclose(
        loss.hessian_product(table, thin, direction), loss.hessian_product(p.X, dense, direction), atol=1e-11
    )
    np.testing.assert_allclose(loss.hessian(table, thin), loss.hessian(p.X, dense), atol=1e-11)
    for mean, right in zip(
        loss.mean_hessian(table, thin)[:2], loss.mean_hessian(p.X, dense)[:2], strict=True
    ):
        np.testing.assert_allclose(mean, right, atol=1e-11)


@pytest.mark.parametrize("c", [2, 5, 20])
def test_the_hessian_is_that_of_its_products(c):
    p = problem(5, 60, 7, c)
    loss = Multinomial(p.y.astype(np.intp), c)
    point = loss.at(p.X, p.beta @ loss.basis)
    hessian = loss.hessian(p.X, point)
    products = [
        loss.hessian_product(p.X, point, unit.reshape(7, c - 1)).ravel() for unit in np.eye(7 * (c - 1))
    ]
    np.testing.assert_allclose(hessian, products, atol=1e-11)
    # diagonal and mean by the coefficients of the classes
    classes = np.stack(
        [(p.X**2 * (point.proba * (1.0 - point.proba))[:, [a]]).sum(axis=0) for a in range(c)], axis=1
    )
    np.testing.assert_allclose(loss.mean_hessian(p.X, point).diagonal, classes, atol=1e-11)
    mean = sum(hessian.reshape(7, c - 1, 7, c - 1)[:, a, :, a] for a in range(c - 1)) / (c - 1)
    np.testing.assert_allclose(loss.mean_hessian(p.X, point).mean, mean, atol=1e-11)


def test_arguments_that_do_not_fit_are_refused():
    p = problem(5, 30, 6, 5)
    first, column, x = p.entries
    beta, proba, work = padded(p.beta), np.full((30, 5), 0.2), np.zeros((2, 2, 8))
    good = [first, column, x, beta, p.y, proba, work, 1]

    def refused(at, wrong, message=r"fit|needs|n_threads"):
        arguments = list(good)
        arguments[at] = wrong
        with pytest.raises(ValueError, match=message):
            kernel.evaluate(*arguments)

    kernel.evaluate(*good)
    refused(0, first[:-1])
    refused(0, first[::-1].copy())
    refused(1, column + 6)
    refused(1, column - 7)
    refused(2, x[:-1])
    refused(3, p.beta)
    refused(4, p.y + 5)
    refused(4, p.y[:-1])
    refused(5, proba[:, :0].copy())
    refused(6, work[:0])
    refused(6, work[:, :1].copy())
    refused(7, 0)
    out, work = np.zeros((6, 8)), np.zeros((2, 8, 8))
    for some in (out[:, :5].copy(), out[:5]):
        with pytest.raises(ValueError, match=r"fit|needs"):
            kernel.gradient(first, column, x, p.y, proba, some, work, 1)
        with pytest.raises(ValueError, match=r"fit|needs"):
            kernel.hessian_product(first, column, x, proba, beta, some, work, 1)
    with pytest.raises(ValueError, match="out"):
        kernel.weighted_gram(first, column, x, np.ones((30, 1)), np.zeros((6, 5)))
