"""Tilts of groups of cells (craft_shared.pyx) against the reference, and codes of levels (levels.pyx)."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from craftc._kernels import craft_shared as kernel
from craftc._kernels.moments import Grid, write_levels
from craftc.craft import background
from tests.common import assert_same_bits
from tests.kernels.test_craft_buffers import guarded, untouched
from tests.reference import levels

RARE = 1e-6


def column(kind, T, seed, rare=False):
    """(b, scores of the reference, what the package computes statistics from) of a column of T levels."""
    rng = np.random.default_rng([seed, T])
    b = rng.dirichlet(np.full(T, 1.5))
    if rare:
        b[[0, T // 2]] = RARE
    b /= b.sum()
    if kind == "ordered":
        return b, levels.scores_of_order(b), np.arange(float(T))[:, None]
    if kind in ("number", "atom"):
        values = np.sort(rng.lognormal(sigma=1.0, size=T))
        if kind == "atom":
            at = (0, T // 2, T - 1)[T % 3]
            b[at] = 1.0 + 0.5 * (seed % 2)
            b /= b.sum()
            values[at] = np.nan
            z = np.full(T, np.nan)
            others = np.arange(T) != at
            z[others] = levels.clipped(values[others], b[others] / b[others].sum())
            return b, z, values[:, None]
        return b, levels.clipped(values, b), values[:, None]
    scores = levels.scores_of_period(np.sort(rng.random(T)) * 24.0, 24.0)
    return b, scores, scores


def groups_of(b, seed):
    """(K, T) counts: random cells, single levels, both ends, one cell of the rarest level, no cell."""
    rng, T = np.random.default_rng(seed), len(b)
    counts = [rng.multinomial(n, b) for n in (1, 7, 400, 10**6)]
    counts += [np.eye(T, dtype=int)[level] * n for level in (0, T // 2, T - 1) for n in (1, 50)]
    counts += [np.eye(T, dtype=int)[level] * 10**6 for level in (0, T - 1)]
    counts += [rng.multinomial(300, rng.dirichlet(np.full(T, 0.1))) for _ in range(4)]
    ends = np.zeros(T, int)
    ends[[0, -1]] = 40, 60
    return np.array([*counts, ends, np.eye(T, dtype=int)[b.argmin()], np.zeros(T, int)], np.int64)


def grid_of(*starts):
    """A grid of columns of levels, which end at the last of these numbers."""
    return Grid(np.empty(0), np.empty(0), np.array(starts[:-1], np.intp), starts[-1])


def orthonormal(raw, b):
    """The statistics (2, T) of one column, (3, T) with an atom."""
    grid = grid_of(0, len(raw) + 1)
    made = background.tilts_of(grid, [raw], np.append(b, 0.0), np.array([3]), np.ones(1)).statistics[:, :-1]
    return made if made[2].any() else made[:2]


def tilts_of(b, s):
    """The tilts of one column, whose last level is the missing one; s (2, T), or (3, T) with an atom."""
    three = np.zeros((3, len(b) + 1))
    three[: len(s), :-1] = s
    grid = grid_of(0, len(b) + 1)
    nothing = np.full(len(b) + 1, np.nan)
    return kernel.Tilts(grid, np.ones(1, np.uint8), np.append(b, 0.0), three, nothing, np.ones(1))


def fitted(b, s, counts, count_weight=1.0):
    """(gains, log ratios) by the kernel."""
    counts = np.column_stack([counts, np.arange(len(counts))])  # missing cells do not count
    gain, ratio = np.empty(len(counts)), np.zeros(counts.shape)
    kernel.log_ratios(np.ascontiguousarray(counts), count_weight, tilts_of(b, s), gain, ratio)
    assert not ratio[:, -1].any()
    return gain, ratio[:, :-1]


@pytest.mark.parametrize("count_weight", [1.0, 0.25])
@pytest.mark.parametrize("rare", [False, True])
@pytest.mark.parametrize("T", [3, 5, 64, 254])
@pytest.mark.parametrize("kind", ["number", "ordered", "periodic", "atom"])
def test_gains_and_log_ratios(kind, T, rare, count_weight):
    b, scores, raw = column(kind, T, 0, rare)
    s = orthonormal(raw, b)
    counts = groups_of(b, T)
    gain, ratio = fitted(b, s, counts, count_weight)
    # with the same statistics, which the package rounds
    cells = counts * count_weight
    s = np.stack([*s[:2], *(s[2:] - s[2:] @ b[:, None])])
    n, expected = cells.sum(axis=1), levels.gain(b, s.T, cells)
    theta, A = levels.fit(b, s.T, cells)
    ratios = levels.log_ratios(s.T, theta, A)
    # a fit ends within 1e-10 nats of each cell
    assert (np.abs(gain - expected) <= 1e-9 * expected + 1e-10 * (n + 1.0)).all()
    p, some = b * np.exp(ratio), n > 0
    np.testing.assert_allclose(p[some], (b * np.exp(ratios))[some], rtol=1e-4, atol=1e-9)
    np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=1e-9)
    moments = cells @ s.T / (n + 1.0)[:, None]
    np.testing.assert_allclose((p @ s.T)[some], moments[some], rtol=1e-5, atol=1e-5)
    # the statistics of the reference span the same tilts, but for the rounding
    own = levels.statistics(scores, b)
    np.testing.assert_allclose(gain, levels.gain(b, own, cells), rtol=5e-3, atol=1e-3)
    # no cells: the distribution of the table
    assert gain[-1] == 0.0
    assert not ratio[-1].any()


@pytest.mark.parametrize("rare", [False, True])
@pytest.mark.parametrize("T", [3, 4, 64, 254])
@pytest.mark.parametrize("kind", ["number", "ordered", "periodic"])
def test_statistics_are_orthonormal(kind, T, rare):
    for seed in range(4):
        b, scores, raw = column(kind, T, seed, rare)
        s = orthonormal(raw, b)
        np.testing.assert_allclose(s @ b, 0.0, atol=1e-6)
        expected = levels.statistics(scores, b).T
        new = [True, len(expected) == 2]  # two rare levels may both be 8 deviations away
        np.testing.assert_allclose((s * b) @ s.T, np.diag(new), atol=1e-5)
        assert (s * 2**20 == np.rint(s * 2**20)).all()  # their sums are exact
        np.testing.assert_allclose(s[new], expected, rtol=1e-9, atol=1e-6)


@pytest.mark.parametrize("T", [4, 64, 254])
def test_an_atom_leaves_the_tilt_of_the_other_levels_alone(T):
    """Without cells at the atom the others have the tilt that they have without it, of less than one row of
    prior; with four levels the shares are free.
    """
    b, _, raw = column("atom", T, 2)
    s = orthonormal(raw, b)
    atom = s[2] > 0
    assert atom.sum() == 1
    assert not s[:2, atom].any()
    rest = b[~atom] / b[~atom].sum()
    np.testing.assert_array_equal(s[:2, ~atom], orthonormal(raw[~atom], rest))
    counts = groups_of(b, 7)
    gain, ratio = fitted(b, s, counts)
    if T == 4:
        free = (counts + b) / (counts.sum(axis=1, keepdims=True) + 1.0)
        np.testing.assert_allclose(b * np.exp(ratio), free, rtol=1e-4, atol=1e-9)
    inside = counts * ~atom
    prior = b[~atom].sum()  # rows: all cells weigh this much more
    alone, _ = fitted(rest, s[:2, ~atom], inside[:, ~atom], 1.0 / prior)
    n = counts.sum(axis=1)
    shares = np.stack([counts[:, atom][:, 0] + b[atom], inside.sum(axis=1) + prior])
    own = (shares * np.log(shares / (n + 1.0) / np.array([b[atom][0], prior])[:, None])).sum(axis=0)
    np.testing.assert_allclose(gain, own + prior * alone, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("scale", [2.0**-1060, 2.0**-30, 1.0, 2.0**1000])
def test_statistics_do_not_depend_on_the_unit(scale):
    b, _, raw = column("number", 20, 3)
    raw = np.rint(raw * 2.0**10)  # that many bits are left of the smallest numbers
    np.testing.assert_array_equal(orthonormal(raw * scale, b), orthonormal(raw, b))


def test_a_statistic_that_says_nothing_new_is_zero():
    far = np.array([0.0, 1e6, 2e6])
    b = np.array([10_000.0, 1.0, 1.0]) / 10_002
    first, second = orthonormal(far[:, None], b)  # both far values are 8 deviations away
    assert first.any()
    assert not second.any()
    counts = np.array([[5, 1, 0], [0, 0, 1], [3, 0, 0]])
    s = levels.statistics(levels.clipped(far, b), b)
    assert s.shape == (3, 1)
    gain, ratio = fitted(b, np.stack([first, second]), counts)
    np.testing.assert_allclose(gain, levels.gain(b, s, counts), rtol=1e-4)
    np.testing.assert_allclose(ratio, levels.log_ratios(s, *levels.fit(b, s, counts)), rtol=1e-5, atol=1e-6)
    # a period whose sine alone varies; one that does not vary
    near = np.stack([np.ones(3), np.array([-1e-12, 0.0, 1e-12])], axis=1)
    first, second = orthonormal(near, np.full(3, 1 / 3))
    np.testing.assert_allclose(first, [-np.sqrt(1.5), 0.0, np.sqrt(1.5)], atol=1e-6)
    assert not second.any()
    assert not orthonormal(np.ones((3, 2)), np.full(3, 1 / 3)).any()


@pytest.mark.parametrize("T", [3, 64, 254])
def test_gains_are_those_of_level_shares_at_most(T):
    """And of three levels exactly those."""
    b, _, raw = column("number", T, 1)
    counts = groups_of(b, 5)
    gain, _ = fitted(b, orthonormal(raw, b), counts)
    free = (counts + b) / (counts.sum(axis=1, keepdims=True) + 1.0)
    ceiling = (counts.sum(axis=1) + 1.0) * (free * np.log(free / b)).sum(axis=1)
    assert (gain >= 0.0).all()
    assert (gain <= ceiling * (1 + 1e-6) + 1e-5).all()
    if T == 3:
        np.testing.assert_allclose(gain, ceiling, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("T", "occurring"), [(7, 3), (30, 4), (254, 3), (254, 40)])
def test_levels_that_do_not_occur(T, occurring):
    """They do not change a fit, however far they are; their ratios are those of the tilt."""
    b = np.zeros(T)
    b[:occurring] = np.random.default_rng(0).dirichlet(np.ones(occurring))
    s = orthonormal(np.arange(float(T))[:, None], b)
    counts = np.zeros((6, T), np.int64)
    for row, (level, n) in enumerate([(0, 5), (0, 500), (occurring - 1, 500), (1, 9), (occurring - 2, 40)]):
        counts[row, level] = n
    gain, ratio = fitted(b, s, counts)
    alone, own = fitted(b[:occurring], s[:, :occurring], counts[:, :occurring])
    np.testing.assert_allclose(gain, alone, rtol=1e-12)
    np.testing.assert_allclose(gain, levels.gain(b, s.T, counts), rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(ratio[:, :occurring], own, rtol=1e-9, atol=1e-9)
    theta, A = levels.fit(b, s.T, counts)
    np.testing.assert_allclose(ratio, levels.log_ratios(s.T, theta, A), rtol=1e-4, atol=1e-4)


def test_columns_of_shares_are_left_out():
    b, s = np.array([0.2, 0.3, 0.5]), np.array([[-1.0, 0.0, 0.5], [1.0, -1.0, 0.0]])
    b2, *both = (np.tile(np.append(each, 0.0), 2) for each in (b, *s, np.zeros(3)))
    tilted, nothing = np.array([0, 1], np.uint8), np.full(8, np.nan)
    tilts = kernel.Tilts(grid_of(0, 4, 8), tilted, b2, np.stack(both), nothing, np.ones(2))
    gain, ratio = np.empty(1), np.full((1, 8), 7.0)
    kernel.log_ratios(np.array([[9, 0, 0, 0, 9, 0, 0, 0]]), 1.0, tilts, gain, ratio)
    assert (ratio[0, [0, 1, 2, 3, 7]] == 7.0).all()
    alone, own = fitted(b, s, np.array([[9, 0, 0]]))
    assert gain[0] == alone[0]
    np.testing.assert_array_equal(ratio[0, 4:7], own[0])


def test_wrong_arguments_of_tilts():
    b, grid, one = np.array([0.2, 0.3, 0.5, 0.0]), grid_of(0, 4), np.ones(1, np.uint8)
    s = np.stack([b, b, 0.0 * b])
    for arrays in (
        (b[:3], s, b),
        (b, s[:, :3], b),
        (b, s[:2], b),
        (b, s, b[:3]),
        (b, s * np.nan, b),
        (b, np.tile(b, (3, 1)), b),  # two atoms
        (b, np.stack([b, b, [0.0, 1.0, 0.0, 0.0]]), b),  # an atom with another statistic
    ):
        with pytest.raises(ValueError, match=r"frequency|statistics|phase|length"):
            kernel.Tilts(grid, one, *arrays, np.ones(1))
    with pytest.raises(ValueError, match="tilted"):
        kernel.Tilts(grid, np.ones(2, np.uint8), b, s, b, np.ones(1))
    with pytest.raises(ValueError, match="weight"):
        kernel.Tilts(grid, one, b, s, b, np.ones(2))
    tilts = kernel.Tilts(grid, one, b, s, np.full(4, np.nan), np.ones(1))
    good = np.zeros((2, 4), np.int64), np.empty(2), np.empty((2, 4))
    for at, wrong, name in (
        (0, np.zeros((2, 3), np.int64), "counts"),
        (1, np.empty(1), "gain"),
        (2, np.empty((2, 5)), "log_ratio"),
    ):
        counts, gain, ratio = (wrong if i == at else own for i, own in enumerate(good))
        with pytest.raises(ValueError, match=name):
            kernel.log_ratios(counts, 1.0, tilts, gain, ratio)


# ----------------------------------------------------------------------------------------
# Instruction sets
# ----------------------------------------------------------------------------------------


def digest():
    """Bits of gains and log ratios of many columns."""
    made = hashlib.sha256()
    for kind in ("number", "ordered", "periodic", "atom"):
        for T in (3, 8, 9, 64, 254):
            b, _, raw = column(kind, T, 4, rare=True)
            for part in fitted(b, orthonormal(raw, b), groups_of(b, 6)):
                made.update(np.ascontiguousarray(part).tobytes())
    return made.hexdigest()


@pytest.mark.slow_except(1)
@pytest.mark.parametrize("instructions", ["v3", "v4"])
def test_instruction_sets_give_the_same_bits(instructions):
    assert_same_bits(__name__, instructions)


# ----------------------------------------------------------------------------------------
# Codes of levels
# ----------------------------------------------------------------------------------------


def bounds_of(seed, sizes):
    """(bounds, first) of columns with these numbers of bounds."""
    rng = np.random.default_rng(seed)
    own = [np.sort(rng.normal(size=size).round(2)) for size in sizes]
    return np.concatenate([*own, np.empty(0)]), np.cumsum([0, *sizes], dtype=np.intp)


def expected_codes(X, bounds, first):
    """(n, p) by NumPy, in 64 bits: 1.0 and a bound between two floats of 32 bits differ."""
    codes = np.empty(X.shape, int)
    for d, cells in enumerate(X.T.astype(float)):
        own = bounds[first[d] : first[d + 1]]
        codes[:, d] = np.where(np.isnan(cells), len(own) + 1, np.searchsorted(own, cells))
    return codes


@pytest.mark.parametrize("n_threads", [1, 3])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("code", [np.uint8, np.uint16])
@pytest.mark.parametrize("n", [0, 1, 4097])
def test_codes_are_those_of_numpy(n, code, dtype, n_threads):
    sizes = [0, 1, 2, 63, 64, 253] + [500] * (code == np.uint16)
    bounds, first = bounds_of(0, sizes)
    rng = np.random.default_rng(1)
    X = rng.normal(size=(n, len(sizes))).round(2).astype(dtype)
    X[rng.random(X.shape) < 0.1] = np.nan
    X[rng.random(X.shape) < 0.02] = np.inf
    X[rng.random(X.shape) < 0.02] = -np.inf
    codes, block = guarded(n * (len(sizes) + 1), code)
    codes = codes.reshape(n, len(sizes) + 1)
    codes[:, 2] = 9
    place = np.array([1, 0, *range(3, len(sizes) + 1)], np.intp)
    write_levels(X, bounds, first, place, codes, n_threads)
    np.testing.assert_array_equal(codes[:, place], expected_codes(X, bounds, first))
    assert (codes[:, 2] == 9).all()
    assert untouched(codes.reshape(-1), block)


def test_columns_may_be_left_out():
    bounds, first = bounds_of(0, [3, 3])
    X, codes = np.zeros((5, 2)), np.full((5, 1), 77, np.uint8)
    write_levels(X, bounds, first, np.array([-1, -1]), codes, 1)
    assert (codes == 77).all()
    write_levels(X, bounds, first, np.array([-1, 0]), codes, 1)
    assert (codes == np.searchsorted(bounds[3:], 0.0)).all()
    write_levels(np.empty((5, 0)), np.empty(0), np.zeros(1, np.intp), np.empty(0, np.intp), codes, 2)


def test_wrong_arguments_of_codes():
    bounds, first = bounds_of(0, [3, 3])
    good = {
        "X": np.zeros((5, 2)),
        "bounds": bounds,
        "first": first,
        "place": np.arange(2),
        "codes": np.empty((5, 2), np.uint8),
        "n_threads": 1,
    }
    wide = np.zeros(256), np.array([0, 253, 256])
    for wrong, message in (
        ({"X": np.zeros((4, 2))}, "X"),
        ({"X": np.zeros((5, 3))}, "X"),
        ({"first": np.array([0, 3])}, "first"),
        ({"first": np.array([0, 3, 5])}, "first"),
        ({"first": np.array([1, 3, 6])}, "first"),
        ({"first": np.array([0, 7, 6])}, "first"),
        ({"place": np.array([0, 2])}, "place"),
        ({"place": np.array([-2, 1])}, "place"),
        ({"place": np.arange(3)}, "X"),
        ({"bounds": np.zeros(257), "first": np.array([0, 255, 257])}, "bounds"),
        ({"n_threads": 0}, "n_threads"),
    ):
        with pytest.raises(ValueError, match=message):
            write_levels(**(good | wrong))
    write_levels(**(good | dict(zip(("bounds", "first"), wide, strict=True))))
    fixed = np.empty((5, 2), np.uint8)
    fixed.flags.writeable = False
    for codes in (fixed, np.empty((5, 2), np.int32), np.empty((2, 5), np.uint8).T):
        with pytest.raises((ValueError, TypeError)):
            write_levels(**(good | {"codes": codes}))
    for name in ("X", "bounds", "codes"):
        with pytest.raises(TypeError):
            write_levels(**(good | {name: None}))
