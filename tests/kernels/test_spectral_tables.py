"""Tables of combinations of states, and loadings of a factorisation, against plain loops."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from craftc._kernels.spectral import LANES, hals_loadings
from tests.common import ROOT
from tests.kernels.test_spectral_kernels import SHAPES, case, conditionals_of


def terms_case(seed, n, p1, levels, **more):
    """(case, terms, off, rise): random terms of every combination, similarities of every node; 0 in the padding."""
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
    weight, visits, theta = rng.normal(size=(p1, t.p2)), rng.random((t.R, p1, t.M)), rng.normal(size=(t.P + t.p2, t.p2))
    energy, similar = np.zeros((t.R, p1, t.M)), np.zeros((p1, t.p2))
    table, sums = np.zeros((t.R, t.p2)), np.zeros((t.P + t.p2, t.p2))
    by_row = rng.normal(size=(t.R, t.p2))
    for r in range(t.R):
        for index in term[start[r] : start[r + 1]]:
            table[r] += theta[index]
            sums[index] += by_row[r]
            mine, values = (range(first[index], first[index + 1]), off) if index < t.P else ([index - t.P], rise)
            for s in range(p1):
                for indicator in mine:
                    at = nodes_of(t, s, values[indicator])
                    energy[r, s, : n_nodes[s]] += weight[s, indicator] * at
                    similar[s, indicator] += at @ visits[r, s, : n_nodes[s]]
    model = conditionals_of(t)
    out = np.zeros((t.R, p1, t.M))
    model.combine(start, term, off, rise, weight, out)
    np.testing.assert_allclose(out, energy, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(model.visited(start, term, off, rise, visits), similar, rtol=1e-10, atol=1e-12)
    wide = np.full((t.R, t.p2 + 3), 7.0)
    model.spread(start, term, theta, wide)
    np.testing.assert_allclose(wide[:, : t.p2], table, rtol=1e-10, atol=1e-12)
    assert (wide[:, t.p2 :] == 7.0).all()
    np.testing.assert_allclose(model.collect(start, term, by_row), sums, rtol=1e-10, atol=1e-12)


def test_terms_that_do_not_fit():
    t, (start, term), off, rise, _ = terms_case(4, 5, 2, [3, 2, 4])
    model, out, weight = conditionals_of(t), np.zeros((t.R, 2, t.M)), np.zeros((2, t.p2))
    right = {"start": start, "term": term, "off": off, "rise": rise, "weight": weight, "out": out}
    model.combine(**right)
    beyond, falling = term.copy(), start.copy()
    beyond[0] = t.P + t.p2
    falling[1] = falling[-1] + 1
    wrong = {
        "start": [start[:-1], falling, start + 1], "term": [term[:-1], beyond, -1 - term], "off": [off[1:], off[:, LANES:]],
        "rise": [rise[1:]], "weight": [weight[:, 1:], weight[1:]], "out": [out[1:], out[:, :, LANES:]],
    }  # fmt: skip
    for name, values in wrong.items():
        for value in values:
            with pytest.raises(ValueError, match="kernel"):
                model.combine(**(right | {name: np.ascontiguousarray(value)}))
    with pytest.raises(ValueError, match="kernel"):
        model.visited(start, term, off, rise, out[1:])
    with pytest.raises(ValueError, match="kernel"):
        model.spread(start, term, np.zeros((t.P, 3)), np.zeros((t.R, 3)))
    with pytest.raises(ValueError, match="kernel"):
        model.spread(start, term, np.zeros((t.P + t.p2, 3)), np.zeros((t.R, 2)))
    with pytest.raises(ValueError, match="kernel"):
        model.collect(start, term, np.zeros((t.R + 1, 3)))


def loadings_case(seed, p, k):
    rng = np.random.default_rng(seed)
    scores = rng.random((k + 3, k))
    gram = scores.T @ scores
    if k > 2:
        gram[1] = gram[:, 1] = 0.0  # a factor without scores stays where it is
    return rng.normal(size=(p, k)), gram, rng.random((p, k))


@pytest.mark.parametrize("k", [0, 1, 3, 8, 20])
@pytest.mark.parametrize("p", [0, 1, 7, 8, 23])
def test_loadings_of_a_sweep(p, k):
    product, gram, loadings = loadings_case(5, p, k)
    expected = loadings.copy()
    for j in range(k):
        if gram[j, j] > 0.0:
            expected[:, j] = np.maximum(0.0, expected[:, j] + (product[:, j] - expected @ gram[j]) / gram[j, j])
    before = loadings.copy()
    hals_loadings(product, gram, loadings)
    np.testing.assert_allclose(loadings, expected, rtol=1e-9, atol=1e-10)
    assert k < 3 or np.array_equal(loadings[:, 1], before[:, 1])
    for wrong in ((product[1:], gram, loadings), (product, gram[1:], loadings)) if p and k else ():
        with pytest.raises(ValueError, match="kernel"):
            hals_loadings(*wrong)


@pytest.mark.slow
def test_the_same_bits_on_every_instruction_set():
    script = (
        "import hashlib, numpy as np\n"
        "from tests.kernels.test_spectral_tables import SHAPES, conditionals_of, hals_loadings, loadings_case, terms_case\n"
        "h = hashlib.sha256()\n"
        "for seed, (n, p1, levels) in enumerate(SHAPES):\n"
        "    t, terms, off, rise, rng = terms_case(seed, n, p1, levels, few=min(p1, seed % 2))\n"
        "    out = np.zeros((t.R, p1, t.M))\n"
        "    conditionals_of(t).combine(*terms, off, rise, rng.normal(size=(p1, t.p2)), out)\n"
        "    h.update(out.tobytes() + conditionals_of(t).visited(*terms, off, rise, rng.random(out.shape)).tobytes())\n"
        "    product, gram, loadings = loadings_case(seed, 3 * seed, 1 + seed)\n"
        "    hals_loadings(product, gram, loadings)\n"
        "    h.update(loadings.tobytes())\n"
        "from craftc._kernels import parallel\n"
        "print(h.hexdigest(), parallel.simd())\n"
    )
    found = {}
    for level in ("baseline", "v3", "v4"):
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "CRAFTC_SIMD": level}
        done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, cwd=ROOT, timeout=120)
        assert done.returncode == 0, done.stderr
        bits, ran = done.stdout.split()
        found[ran] = bits
    assert len(set(found.values())) == 1
    assert "baseline" in found
