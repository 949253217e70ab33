"""Tables of combinations of states, and sweeps of a factorisation, against plain loops."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from craftc._kernels.spectral import LANES
from craftc._kernels.spectral_factor import hals
from tests.common import ROOT
from tests.kernels.test_spectral_kernels import SHAPES, case, conditionals_of


def terms_case(seed, n, p1, levels, **more):
    """(case, terms, off, rise): random terms of every combination, similarities of every node; 0 in the
    padding.
    """
    t, rng = case(seed, n, p1, levels, **more), np.random.default_rng(seed)
    sizes = rng.integers(0, 4, t.R) if t.P else np.zeros(t.R, int)
    start = np.concatenate([[0], np.cumsum(sizes)]).astype(np.intp)
    term = rng.integers(0, t.P + t.p2, start[-1]).astype(np.intp) if start[-1] else np.empty(0, np.intp)
    off, rise = rng.normal(size=(2, t.p2, t.grids[0].shape[1]))
    return t, (start, term), off, rise, rng


def nodes_of(t, s, values):
    """Of values (..., all nodes) those of a numeric column."""
    first_node, n_nodes = t.columns[8:]
    return values[..., first_node[s] : first_node[s] + n_nodes[s]]


@pytest.mark.parametrize("few", [0, 1])
@pytest.mark.parametrize(("n", "p1", "levels"), SHAPES)
def test_tables_of_nodes_and_indicators(n, p1, levels, few):
    t, (start, term), off, rise, rng = terms_case(3, n, p1, levels, few=min(few, p1))
    first, n_nodes = t.columns[3], t.columns[9]
    weight, theta, by_row = (
        rng.normal(size=(p1, t.p2)),
        rng.normal(size=(t.P + t.p2, t.p2)),
        rng.normal(size=(t.R, t.p2)),
    )
    energy, similar = np.zeros((t.R, p1, t.M)), np.zeros((p1, t.p2))
    table, sums = np.zeros((t.R, t.p2)), np.zeros((t.P + t.p2, t.p2))
    model = conditionals_of(t)
    visits, similarities = model.sums(**t.weights, n_threads=2, terms=(start, term, off, rise, weight))[3::4]
    for r in range(t.R):
        for index in term[start[r] : start[r + 1]]:
            table[r] += theta[index]
            sums[index] += by_row[r]
            mine, values = (
                (range(first[index], first[index + 1]), off) if index < t.P else ([index - t.P], rise)
            )
            for s in range(p1):
                for indicator in mine:
                    at = nodes_of(t, s, values[indicator])
                    energy[r, s, : n_nodes[s]] += weight[s, indicator] * at
                    similar[s, indicator] += at @ visits[r, s, : n_nodes[s]]
    for s in range(p1):
        np.testing.assert_allclose(
            t.weights["node_table"][:, s, : n_nodes[s]], energy[:, s, : n_nodes[s]], rtol=1e-10, atol=1e-12
        )
    np.testing.assert_allclose(similarities, similar, rtol=1e-10, atol=1e-10)
    for plain in conditionals_of(t).sums(**t.weights, n_threads=1)[3:4]:  # of the same tables, given
        np.testing.assert_array_equal(plain, visits)
    wide = np.full((t.R, t.p2 + 3), 7.0)
    model.spread(start, term, theta, wide)
    np.testing.assert_allclose(wide[:, : t.p2], table, rtol=1e-10, atol=1e-12)
    assert (wide[:, t.p2 :] == 7.0).all()
    np.testing.assert_allclose(model.collect(start, term, by_row), sums, rtol=1e-10, atol=1e-12)


def test_terms_that_do_not_fit():
    t, (start, term), off, rise, _ = terms_case(4, 5, 2, [3, 2, 4])
    model, weight = conditionals_of(t), np.zeros((2, t.p2))
    right = {"start": start, "term": term, "off": off, "rise": rise, "mixed": weight}
    model.sums(**t.weights, n_threads=1, terms=tuple(right.values()))
    beyond, falling = term.copy(), start.copy()
    beyond[0] = t.P + t.p2
    falling[1] = falling[-1] + 1
    wrong = {
        "start": [start[:-1], falling, start + 1],
        "term": [term[:-1], beyond, -1 - term],
        "off": [off[1:], off[:, LANES:]],
        "rise": [rise[1:]],
        "mixed": [weight[:, 1:], weight[1:]],
    }
    for name, values in wrong.items():
        for value in values:
            with pytest.raises(ValueError, match="kernel"):
                model.sums(
                    **t.weights,
                    n_threads=1,
                    terms=tuple((right | {name: np.ascontiguousarray(value)}).values()),
                )
    with pytest.raises(ValueError, match="kernel"):
        model.sums(**(t.weights | {"node_table": None}), n_threads=1, terms=tuple(right.values()))
    with pytest.raises(ValueError, match="kernel"):
        model.spread(start, term, np.zeros((t.P, 3)), np.zeros((t.R, 3)))
    with pytest.raises(ValueError, match="kernel"):
        model.spread(start, term, np.zeros((t.P + t.p2, 3)), np.zeros((t.R, 2)))
    with pytest.raises(ValueError, match="kernel"):
        model.collect(start, term, np.zeros((t.R + 1, 3)))


def factor_case(seed, n, p1, levels, k, **more):
    """(case, arguments of hals up to the root, scores, loadings)."""
    t, rng = case(seed, n, p1, levels, **more), np.random.default_rng(seed)
    column, variable, first_state, first, indicator = t.columns[:5]
    state_of = np.flatnonzero(indicator >= 0)[np.argsort(indicator[indicator >= 0], kind="stable")]
    missing = np.append(first_state[1:], t.C)[: t.P] - 1
    low, scale, fill, shares = rng.normal(size=p1), rng.gamma(2.0, 1.0, p1), rng.random(p1), rng.random(t.p2)
    arguments = (
        t.block,
        column,
        low,
        scale,
        fill,
        t.codes,
        variable,
        first_state,
        first,
        state_of,
        missing,
        shares,
        0.7,
    )
    loadings = rng.random((p1 + t.p2, k))
    if k > 2:
        loadings[:, 1] = 0.0  # a factor that nothing loads on keeps its scores in the first sweep
    return t, arguments, rng.random((n, k)), loadings


def hals_by_loops(t, arguments, W, H):
    """One sweep: scores, loadings, sums of the kernel, squared error less the sum of squares of the table."""
    block, column, low, scale, fill, codes, variable, first_state, first, state_of, missing, shares, root = (
        arguments
    )
    p1, k = len(column), W.shape[1]
    x = (block[:, column].astype(np.float64) - low) * scale
    of_state = np.zeros((t.C, t.p2))
    of_state[state_of, np.arange(t.p2)] = root
    for v, state in enumerate(missing):
        of_state[state, first[v] : first[v + 1]] = root * shares[first[v] : first[v + 1]]
    states = first_state + codes[:, variable]
    A = np.hstack([np.where(np.isnan(x), fill, x), of_state[states].sum(axis=1)])
    W, H = W.copy(), H.copy()
    for factors, other, products in ((W, H, A), (H, W, A.T)):
        for a in range(k):
            own = other[:, a] @ other[:, a]
            if own > 0.0:
                left = products @ other[:, a] - factors @ (other.T @ other[:, a])
                factors[:, a] = np.maximum(0.0, factors[:, a] + left / own)
    by_state = np.zeros((t.C, k))
    np.add.at(by_state, states, W[:, None])
    return (
        W,
        H,
        np.concatenate([W.T @ W, A[:, :p1].T @ W, by_state]),
        ((A - W @ H.T) ** 2).sum() - (A**2).sum(),
    )


@pytest.mark.parametrize("k", [1, 3, 8, 20, 43])
@pytest.mark.parametrize(("n", "p1", "levels"), SHAPES)
def test_sweeps_of_the_factors(n, p1, levels, k):
    for dtype, runs in ((np.float64, 1), (np.float32, min(3, max(n, 1)))):
        t, arguments, scores, loadings = factor_case(9, n, p1, levels, k, dtype=dtype, p_missing=0.2)
        W, H, expected, error = hals_by_loops(t, arguments, scores, loadings)
        before, sums, errors = scores.copy(), np.empty((k + p1 + t.C, k)), np.empty(1)
        hals(*arguments, scores, loadings, sums, errors, runs, 1)
        np.testing.assert_allclose(scores, W, rtol=1e-8, atol=1e-9)
        np.testing.assert_allclose(sums, expected, rtol=1e-8, atol=1e-8)
        assert k < 3 or np.array_equal(scores[:, 1], before[:, 1])
        if n > k:  # few rows: scores of factors that nearly coincide
            np.testing.assert_allclose(loadings, H, rtol=1e-6, atol=1e-7)
            np.testing.assert_allclose(errors[0], error, rtol=1e-7, atol=1e-7)


def test_many_sweeps_are_single_ones_on_any_number_of_threads():
    t, arguments, scores, loadings = factor_case(10, 999, 3, [3, 2, 6], 5)
    sums, errors, results = np.empty((5 + 3 + t.C, 5)), np.empty(4), []
    for n_threads in (1, 2, 3, 8):
        out = scores.copy(), loadings.copy()
        hals(*arguments, *out, sums, errors, 7, n_threads)
        results.append((*out, sums.copy(), errors.copy()))
    out = scores.copy(), loadings.copy()
    for sweep in range(4):
        hals(*arguments, *out, sums, errors[sweep : sweep + 1], 7, 1)
    for result in results:
        for mine, other in zip(result, (*out, sums, errors), strict=True):
            np.testing.assert_array_equal(mine, other)
    assert (np.diff(errors) < 0.0).all()


@pytest.mark.slow
def test_the_same_bits_on_every_instruction_set():
    script = (
        "import hashlib, numpy as np\n"
        "from tests.kernels.test_spectral_tables import SHAPES, conditionals_of, factor_case, hals, "
        "terms_case\n"
        "h = hashlib.sha256()\n"
        "for seed, (n, p1, levels) in enumerate(SHAPES):\n"
        "    t, terms, off, rise, rng = terms_case(seed, n, p1, levels, few=min(p1, seed % 2))\n"
        "    weight = rng.normal(size=(p1, t.p2))\n"
        "    for array in conditionals_of(t).sums(**t.weights, n_threads=1, terms=(*terms, off, rise, "
        "weight)):\n"
        "        h.update(np.ascontiguousarray(array).tobytes())\n"
        "    for k in (1, 2, 3, 4, 7, 8, 9, 20):\n"
        "        t, arguments, *factors = factor_case(seed, n, p1, levels, k, dtype=[np.float32, "
        "np.float64][seed % 2])\n"
        "        sums, errors = np.empty((k + p1 + t.C, k)), np.empty(2)\n"
        "        hals(*arguments, *factors, sums, errors, min(2, max(n, 1)), 1)\n"
        "        for array in (*factors, sums, errors):\n"
        "            h.update(array.tobytes())\n"
        "from craftc._kernels import parallel\n"
        "print(h.hexdigest(), parallel.simd())\n"
    )
    found = {}
    for level in ("baseline", "v3", "v4"):
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "CRAFTC_SIMD": level}
        done = subprocess.run(
            [sys.executable, "-c", script],
            env=environment,
            capture_output=True,
            text=True,
            cwd=ROOT,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        bits, ran = done.stdout.split()
        found[ran] = bits
    assert len(set(found.values())) == 1
    assert "baseline" in found
