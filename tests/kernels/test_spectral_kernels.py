"""The kernels of graph spectral features against plain loops: a pass over the rows, and its constants."""

from __future__ import annotations

import os
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.special import logsumexp

from craftc._kernels import spectral as kernel
from craftc._kernels.spectral import CUT, LANES, MISSING, Conditionals
from tests.common import ROOT
from tests.reference.spectral import grid, similarity

EPS = 0.2
NAMES = ("log_z", "node", "pair", "node_table", "bias", "bias_table", "cross")


def scale_of(values, multiple):
    """Sizes, inverses and the three rows of signs, padded with zeros."""
    out = np.zeros((5, -(-max(len(values), 1) // multiple) * multiple))
    size = np.maximum(np.abs(values), EPS)
    out[:2, : len(values)] = size, 1.0 / size
    for row, other in enumerate((-1.0, 0.0, 1.0), 2):
        out[row, : len(values)] = np.sign(similarity(values, other, EPS))
    return out


def joints_of(rng, levels):
    """(joint, stride, first_row): some variables share tables, whose rows are the combinations of their
    cells.
    """
    joint, stride, rooms = [], [], []
    for count in levels:
        fitting = [j for j, room in enumerate(rooms) if room * (count + 1) <= 100]
        j = int(rng.choice([*fitting, len(rooms)]))
        rooms += [1] * (j == len(rooms))
        joint.append(j)
        stride.append(rooms[j])
        rooms[j] *= count + 1
    return joint, stride, np.append(0, np.cumsum(rooms)).astype(int)


def case(
    seed,
    n,
    p1,
    levels,
    *,
    dense=False,
    softmax=True,
    dtype=np.float64,
    p_missing=0.1,
    runs=1,
    m=16,
    sd=0.5,
    wide=False,
    spare=2,
    few=0,
):
    """Conditionals of random rows and weights, and all that a loop needs to know.

    Some columns of the blocks are not used; a variable of two levels has one indicator, and one level of a
    variable of more than three was never seen and is missing.
    """
    rng = np.random.default_rng(seed)
    P = len(levels)
    block = rng.uniform(-1, 1, (n, p1 + spare)) * 10.0 ** rng.integers(-2, 3, p1 + spare)
    column = np.sort(rng.permutation(p1 + spare)[:p1])
    block[rng.random(block.shape) < p_missing] = np.nan
    block = block.astype(dtype)
    centre = rng.normal(0, 0.1, p1)
    used = block[:, column].astype(np.float64) - centre
    scale = 2.0 / np.nanmax(np.abs(np.vstack([used, np.ones(p1)])), axis=0)
    variable = np.sort(rng.permutation(P + spare)[:P])
    codes = np.empty((n, P + spare), np.uint16 if wide or max(levels, default=0) > 255 else np.uint8)
    codes[:] = rng.integers(0, 2, codes.shape)
    first, indicator, first_state = [0], [], [0]
    for v, count in enumerate(levels):
        codes[:, variable[v]] = np.where(rng.random(n) < p_missing, count, rng.integers(0, count, n))
        shown = np.arange(1 if count == 2 else 0, count)
        cells = np.full(count + 1, MISSING)
        cells[:count] = -1
        cells[shown] = first[-1] + np.arange(len(shown))
        if count > 3:
            cells[1:count] = np.append(MISSING, first[-1] + 1 + np.arange(count - 2))
        first.append(cells.max() + 1)
        indicator += cells.tolist()
        first_state.append(len(indicator))
    p2, C = first[-1], len(indicator)
    joint, stride, first_row = joints_of(rng, levels)
    R = first_row[-1]
    low_rank = rng.uniform(-2, 2, (n, p1 + p2)) if dense else None
    code = rng.uniform(-1, 1, (p2, 2))
    u, w = grid(2.0, EPS, m)
    # the last `few` numeric columns have nodes of their own, the others share the grid
    own = [np.sort(rng.uniform(-2, 2, 2 + 7 * j)) for j in range(few)]
    parts = [scale_of(each, LANES) for each in (u, *own)]
    at = np.cumsum([0] + [part.shape[1] for part in parts])
    which = np.concatenate([np.zeros(p1 - few, int), 1 + np.arange(few)])
    first_node, n_nodes = at[which], np.diff(at)[which]
    seen_nodes = [(u, *own)[j] for j in which]
    nodes, minus, plus = np.hstack(parts), scale_of(code[:, 0], LANES), scale_of(code[:, 1], LANES)
    M, L, seen = n_nodes.max(initial=0), plus.shape[1], p1 + p2 if dense else p1
    weights = {
        "unary": np.full((p1, M), -np.inf),
        "pair": rng.normal(0, sd, (p1, seen)),
        "node_table": None if dense else np.zeros((R, p1, M)),
        "bias": np.zeros(L),
        "bias_table": np.zeros((R, L)),
        "cross": np.zeros((p1, L)),
    }
    for s, mine in enumerate(seen_nodes):
        weights["unary"][s, : len(mine)] = (np.log(w) if which[s] == 0 else 0.0) + rng.normal(
            0, sd, len(mine)
        )
        if not dense:
            weights["node_table"][:, s, : len(mine)] = rng.normal(0, sd, (R, len(mine)))
    for name, shape in (("bias", ()), ("bias_table", (R,)), ("cross", (p1,))):
        weights[name][..., :p2] = rng.normal(0, sd, (*shape, p2))
    parts = (
        column,
        variable,
        first_state[:-1],
        first,
        indicator,
        joint,
        stride,
        first_row,
        first_node,
        n_nodes,
    )
    columns = [np.array(part, np.intp) for part in parts]
    return SimpleNamespace(
        n=n,
        p1=p1,
        p2=p2,
        P=P,
        C=C,
        R=R,
        M=M,
        L=L,
        nodes=seen_nodes,
        code=code,
        weights=weights,
        softmax=softmax,
        low_rank=low_rank,
        seen=seen,
        block=block,
        codes=codes,
        centre=centre,
        scale=scale,
        columns=columns,
        grids=(nodes, minus, plus),
        runs=runs,
    )


def conditionals_of(t, **changes):
    column, variable, first_state, first, indicator, joint, stride, first_row, first_node, n_nodes = t.columns
    arguments = {
        "numeric": t.block,
        "column": column,
        "centre": t.centre,
        "scale": t.scale,
        "codes": t.codes,
        "variable": variable,
        "first_state": first_state,
        "first": first,
        "joint": joint,
        "stride": stride,
        "first_row": first_row,
        "indicator": indicator,
        "low_rank": t.low_rank,
        "first_node": first_node,
        "n_nodes": n_nodes,
        "grid": t.grids[0],
        "minus": t.grids[1],
        "plus": t.grids[2],
        "eps": EPS,
        "softmax": t.softmax,
        "runs": t.runs,
    }
    return Conditionals(**{**arguments, **changes})


def sums_of(t, n_threads=1, **changes):
    """The seven sums by name; the lanes of `pair` added up, the padding cut off."""
    out = dict(zip(NAMES, conditionals_of(t, **changes).sums(**t.weights, n_threads=n_threads), strict=True))
    out["pair"] = out["pair"].sum(axis=2)
    for name in ("bias", "bias_table", "cross"):
        out[name] = out[name][..., : t.p2]
    return out


def rows_of(t):
    """Of every row: its numbers by column, the numbers that others see, its cells, its rows of the tables."""
    column, variable, first_state, first, indicator, joint, stride, first_row = t.columns[:8]
    for i in range(t.n):
        x = (t.block[i, column].astype(np.float64) - t.centre) * t.scale
        cells = first_state + t.codes[i, variable]
        shown = x
        if t.low_rank is not None:
            known = np.repeat(indicator[cells] != MISSING, np.diff(first))
            shown = np.append(x, np.where(known, t.low_rank[i, t.p1 :], np.nan))
        rows = first_row[:-1].copy()
        np.add.at(rows, joint, stride * t.codes[i, variable])
        yield i, x, shown, cells, rows


def sums_by_loops(t):
    first, indicator = t.columns[3:5]
    w = SimpleNamespace(**t.weights)
    out = {
        "log_z": np.zeros(1),
        "node": np.zeros((t.p1, t.M)),
        "pair": np.zeros((t.p1, t.seen)),
        "node_table": np.zeros((t.R, t.p1, t.M)),
        "bias": np.zeros(t.p2),
        "bias_table": np.zeros((t.R, t.p2)),
        "cross": np.zeros((t.p1, t.p2)),
    }
    for i, x, shown, cells, rows in rows_of(t):
        for s in np.flatnonzero(~np.isnan(x)):
            there = np.flatnonzero(~np.isnan(shown) & (np.arange(len(shown)) != s))
            M, g = len(t.nodes[s]), similarity(t.nodes[s], shown[there, None], EPS)
            energy = w.unary[s, :M] + w.pair[s, there] @ g
            if w.node_table is not None:
                energy = energy + w.node_table[rows, s, :M].sum(axis=0)
            out["log_z"] += logsumexp(energy)
            q = np.exp(energy - logsumexp(energy))
            out["node"][s, :M] += q
            out["pair"][s, there] += g @ q
            if w.node_table is not None:
                out["node_table"][rows, s, :M] += q
        known = np.flatnonzero(~np.isnan(x))
        lit = (x if t.low_rank is None else t.low_rank[i])[known]
        lift = similarity(lit[:, None], t.code[:, 1], EPS) - similarity(lit[:, None], t.code[:, 0], EPS)
        energy = (
            w.bias[: t.p2]
            + w.bias_table[rows, : t.p2].sum(axis=0)
            + (lift * w.cross[known, : t.p2]).sum(axis=0)
        )
        left = np.zeros(t.p2)
        for v in range(t.P):
            mine, on = np.arange(first[v], first[v + 1]), indicator[cells[v]]
            if on == MISSING:
                continue
            if t.softmax and len(mine) > 1:
                away = np.exp(np.clip(energy[mine] - energy[on], -CUT, CUT))
                out["log_z"] += np.log(away.sum())
                left[mine] = (mine == on) - away / away.sum()
            else:
                F = np.clip(energy[mine], -CUT, CUT)
                out["log_z"] += np.logaddexp(0.0, np.where(mine == on, -F, F)).sum()
                left[mine] = (mine == on) - 1.0 / (1.0 + np.exp(-F))
        out["bias"] += left
        out["bias_table"][rows] += left
        out["cross"][known] += left * lift
    return out


SHAPES = [
    (0, 2, [2, 3]),
    (1, 2, [2, 3]),
    (3, 4, [2, 3, 2, 2, 5]),
    (1, 1, []),
    (1, 0, [3]),
    (7, 3, [3, 2, 5]),
    (20, 0, [2, 4, 3]),
    (20, 4, []),
    (5, 1, [2]),
    (5, 1, [9]),
    (40, 2, [8]),
    (40, 2, [9, 8, 2]),
    (33, 9, [2, 2]),
    (17, 3, [40]),
    (9, 2, [300]),
    (25, 1, [2] * 17),
]


@pytest.mark.parametrize("softmax", [True, False])
@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize(("n", "p1", "levels"), SHAPES)
def test_sums(n, p1, levels, dense, softmax):
    for seed, dtype, p_missing in ((0, np.float64, 0.0), (1, np.float32, 0.2)):
        t = case(seed, n, p1, levels, dense=dense, softmax=softmax, dtype=dtype, p_missing=p_missing)
        found, expected = sums_of(t), sums_by_loops(t)
        for name in NAMES:
            np.testing.assert_allclose(
                found[name], expected[name], rtol=1e-11, atol=1e-12 * max(1, n), err_msg=name
            )


@pytest.mark.parametrize("dense", [False, True])
def test_numbers_that_repeat(dense):
    """Similarities to former numbers are kept, between calls too."""
    t = case(3, 300, 4, [3, 2], few=1, dense=dense)
    t.block[:] = np.round(t.block, 1)
    conditionals, expected = conditionals_of(t), sums_by_loops(t)
    first, again = (conditionals.sums(**t.weights, n_threads=n_threads) for n_threads in (2, 1))
    for name, one, two in zip(NAMES, first, again, strict=True):
        np.testing.assert_array_equal(one, two, err_msg=name)
        one = (
            one.sum(axis=2)
            if name == "pair"
            else one[..., : t.p2]
            if name in ("bias", "bias_table", "cross")
            else one
        )
        np.testing.assert_allclose(one, expected[name], rtol=1e-11, atol=1e-10, err_msg=name)


def test_no_similarity_is_kept_of_many_nodes():
    t = case(4, 3, 60, [2], few=50)
    assert t.grids[0].shape[1] * t.p1 > 2**18
    found, expected = sums_of(t), sums_by_loops(t)
    for name in NAMES:
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-11, atol=1e-11, err_msg=name)


@pytest.mark.parametrize("m", [2, 3, 4, 19, 20, 60])
def test_grids_of_any_size(m):
    t = case(2, 12, 3, [3, 2], m=m)
    found, expected = sums_of(t), sums_by_loops(t)
    for name in NAMES:
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-11, atol=1e-11, err_msg=name)


@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize(("p1", "few", "m"), [(1, 1, 16), (3, 1, 20), (8, 8, 2), (5, 3, 40)])
def test_columns_with_nodes_of_their_own(p1, few, m, dense):
    t = case(5, 40, p1, [3, 2, 5], dense=dense, m=m, few=few, p_missing=0.2)
    found, expected = sums_of(t), sums_by_loops(t)
    for name in NAMES:
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-11, atol=1e-11, err_msg=name)
    for n_threads in (2, 5):
        t.runs = 7
        one, many = sums_of(t), sums_of(t, n_threads)
        for name in NAMES:
            np.testing.assert_array_equal(many[name], one[name], err_msg=name)


@pytest.mark.parametrize("softmax", [True, False])
@pytest.mark.parametrize("sd", [20.0, 200.0, 3000.0])
def test_large_energies_are_cut_and_stay_finite(sd, softmax):
    """A probability may be 1 then; ln of one stays finite, at -700 the least for an indicator."""
    t = case(3, 30, 3, [3, 2, 5], sd=sd, softmax=softmax)
    found, expected = sums_of(t), sums_by_loops(t)
    for name in NAMES:
        assert np.isfinite(found[name]).all()
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-10, atol=1e-9, err_msg=name)


@pytest.mark.parametrize("shift", [-300.0, 40.0, 300.0])
def test_energies_that_cancel(shift):
    """Of many rows: what is added to all nodes and taken by all rows of a table changes nothing."""
    t = case(11, 1000, 2, [3, 2], p_missing=0.0)
    expected = sums_of(t)
    nodes = len(t.nodes[0])
    t.weights["unary"][:, :nodes] += shift
    shared = slice(*t.columns[7][:2])
    t.weights["node_table"][shared, :, :nodes] -= shift
    for name, array in sums_of(t).items():
        np.testing.assert_allclose(array, expected[name], rtol=1e-9, atol=1e-9, err_msg=name)
    t.weights["node_table"][shared, :, :nodes] -= 200.0
    assert sums_of(t)["log_z"][0] == pytest.approx(expected["log_z"][0] - 2 * 1000 * 200.0, rel=1e-12)


def test_rows_without_a_cell_count_nothing():
    t = case(4, 6, 2, [3, 2], p_missing=0.0)
    variable, first_state, _, indicator = t.columns[1:5]
    expected = sums_of(t)
    empty = np.full_like(t.block[:3], np.nan)
    codes = np.zeros_like(t.codes[:3])
    codes[:, variable] = np.append(first_state[1:], len(indicator)) - 1 - first_state
    t.block, t.codes, t.n = np.concatenate([t.block, empty]), np.concatenate([t.codes, codes]), 9
    found = sums_of(t)
    for name in NAMES:
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-13, atol=1e-14, err_msg=name)


@pytest.mark.parametrize("dense", [False, True])
def test_one_pass_says_nothing_of_the_next(dense):
    t = case(5, 50, 3, [3, 2], dense=dense, runs=3)
    conditionals = conditionals_of(t)
    before = conditionals.sums(**t.weights, n_threads=1)
    other = {name: None if array is None else 0.5 * array for name, array in t.weights.items()}
    changed = conditionals.sums(**other, n_threads=2)
    assert changed[0] != before[0]
    for a, b in zip(conditionals.sums(**t.weights, n_threads=1), before, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.slow_except(3)
@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize("runs", [1, 2, 7])
def test_sums_have_the_same_bits_on_any_number_of_threads(runs, dense):
    t = case(6, 300, 4, [3, 2, 6], dense=dense, runs=runs)
    one = sums_of(t)
    for n_threads in (2, 3, 8):
        for name, array in sums_of(t, n_threads).items():
            np.testing.assert_array_equal(array, one[name])
    for name, array in sums_by_loops(t).items():  # runs that are longer by one row or not
        np.testing.assert_allclose(one[name], array, rtol=1e-9, atol=1e-9)
    for mine, other in zip(conditionals_of(t).observed(1), conditionals_of(t).observed(3), strict=True):
        np.testing.assert_array_equal(mine, other)


@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize(("n", "p1", "levels"), SHAPES)
def test_what_no_parameter_enters(n, p1, levels, dense):
    for dtype, p_missing in ((np.float64, 0.0), (np.float32, 0.2)):
        t = case(7, n, p1, levels, dense=dense, dtype=dtype, p_missing=p_missing)
        first, indicator = t.columns[3:5]
        powers, own = np.zeros((p1, 3)), np.zeros((p1, p1 + t.p2))
        for _, x, shown, cells, _ in rows_of(t):
            sees = np.full(p1 + t.p2, np.nan)
            sees[: len(shown)] = shown
            if not dense:
                for v in range(t.P):
                    for j in range(first[v], first[v + 1]):
                        if indicator[cells[v]] != MISSING:
                            sees[p1 + j] = t.code[j, int(indicator[cells[v]] == j)]
            for s in np.flatnonzero(~np.isnan(x)):
                powers[s] += 1.0, x[s], x[s] ** 2
                own[s] += np.where(np.isnan(sees), 0.0, similarity(x[s], np.nan_to_num(sees), EPS))
        found = conditionals_of(t).observed(1)
        np.testing.assert_allclose(found[0], powers, rtol=1e-13, atol=1e-13)
        np.testing.assert_allclose(found[1], own, rtol=1e-12, atol=1e-12)


def test_codes_of_two_sizes_and_blocks_that_may_not_be_written_to():
    narrow = case(8, 60, 3, [3, 2, 4], dtype=np.float32)
    expected = sums_of(narrow)
    for block, codes in (
        (narrow.block, narrow.codes.astype(np.uint16)),
        (narrow.block.astype(np.float64), narrow.codes),
        (narrow.block.astype(np.float64), narrow.codes.astype(np.uint16)),
    ):
        for array in (block, codes, *narrow.columns, narrow.centre, narrow.scale, *narrow.grids):
            array.flags.writeable = False
        for name, array in sums_of(narrow, numeric=block, codes=codes).items():
            np.testing.assert_array_equal(array, expected[name])


WRONG = [
    (
        {"numeric": np.zeros((60, 5), np.float16)},
        TypeError,
        "numeric must be float64 or float32, got float16",
    ),
    ({"codes": np.zeros((60, 5), np.int64)}, TypeError, "codes must be uint8 or uint16, got int64"),
    ({"numeric": np.zeros((5, 60)).T}, ValueError, "contiguous"),
    ({"numeric": np.zeros(60)}, ValueError, "two-dimensional"),
    ({"numeric": np.zeros((61, 5))}, ValueError, "equally many rows, got 61 and 60"),
    ({"first_state": np.zeros(2, np.intp)}, ValueError, "one entry per variable, got 2 for 3"),
    ({"centre": np.zeros(2)}, ValueError, "do not fit"),
    ({"scale": np.zeros(4)}, ValueError, "do not fit"),
    ({"first": np.array([0, 3, 4], np.intp)}, ValueError, "do not fit"),
    ({"joint": np.zeros(2, np.intp)}, ValueError, "do not fit"),
    ({"stride": np.ones(4, np.intp)}, ValueError, "do not fit"),
    ({"low_rank": np.zeros((60, 9))}, ValueError, "low_rank must have shape"),
    ({"grid": np.zeros((5, LANES + 1))}, ValueError, "padded to multiples"),
    ({"first_node": np.zeros(2, np.intp)}, ValueError, "one entry per numeric column, got 2 and 3"),
    ({"n_nodes": np.full(4, LANES)}, ValueError, "one entry per numeric column, got 3 and 4"),
    (
        {"n_nodes": np.array([LANES, 0, LANES])},
        ValueError,
        "must be multiples of 8 within the grid, got 0 from 0",
    ),
    ({"n_nodes": np.array([LANES, LANES, LANES + 1])}, ValueError, "must be multiples of 8"),
    ({"n_nodes": np.array([LANES, LANES, 100 * LANES])}, ValueError, "must be multiples of 8"),
    ({"first_node": np.array([0, -LANES, 0])}, ValueError, "must be multiples of 8"),
    ({"first_node": np.array([0, 100 * LANES, 0])}, ValueError, "must be multiples of 8"),
    ({"plus": np.zeros((5, 2 * LANES))}, ValueError, "padded to multiples"),
    (
        {"minus": np.zeros((5, LANES + 1)), "plus": np.zeros((5, LANES + 1))},
        ValueError,
        "padded to multiples",
    ),
]


@pytest.mark.parametrize(("change", "error", "sentence"), WRONG)
def test_arrays_that_do_not_fit(change, error, sentence):
    t = case(8, 60, 3, [3, 2, 4])
    with pytest.raises(error, match=sentence):
        conditionals_of(t, **change)


@pytest.mark.parametrize("name", ["unary", "pair", "node_table", "bias", "bias_table", "cross"])
def test_weights_that_do_not_fit(name):
    t = case(8, 60, 3, [3, 2, 4])
    t.weights[name] = np.zeros([size + 1 for size in t.weights[name].shape])
    with pytest.raises(ValueError, match=r"weights must have shape \(.*\), got \("):
        conditionals_of(t).sums(**t.weights, n_threads=1)


# ---- instruction sets ----


@pytest.mark.slow
def test_the_same_bits_on_every_instruction_set():
    script = (
        "import hashlib, numpy as np\n"
        "from tests.kernels.test_spectral_kernels import SHAPES, case, conditionals_of, sums_of\n"
        "h = hashlib.sha256()\n"
        "for seed, (n, p1, levels) in enumerate(SHAPES):\n"
        "    more = {'dense': seed % 3 == 2, 'softmax': seed % 2 == 0, 'dtype': [np.float32, "
        "np.float64][seed % 2]}\n"
        "    t = case(seed, 3 * n, p1, levels, p_missing=0.1, runs=1 + seed % 3, sd=[0.5, 5.0, 300.0][seed % "
        "3], **more)\n"
        "    for array in (*sums_of(t).values(), *conditionals_of(t).observed(1)):\n"
        "        h.update(np.ascontiguousarray(array).tobytes())\n"
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


def test_names_of_the_module():
    """What the likelihood lays its tables out by."""
    assert kernel.MISSING < -1
    assert np.exp(kernel.CUT) < np.finfo(float).max
    assert LANES > 0
