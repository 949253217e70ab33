"""Levels of columns (`craftc.table.levels`) against the reference."""

from __future__ import annotations

import numpy as np
import pytest

from craftc import MixedTable
from craftc.table.bins import tally
from craftc.table.levels import LevelEncoding, NumberLevels
from tests.level_cases import Case, mixed_case
from tests.reference import levels

N = 700


def columns(n=N):
    """Columns of many shapes."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=n)
    return {
        "normal": x,
        "skewed": np.exp(2.0 * x),
        "few": rng.integers(0, 64, n) / 4.0,
        "more": rng.integers(0, 65, n) * 1.0,
        "counts": rng.poisson(9.0, n) ** 2.0,
        "zeros": np.where(rng.random(n) < 0.4, 0.0, x),
        "spikes": np.where(rng.random(n) < 0.5, rng.choice([-1.0, 0.0, 0.25, 3.0], n), x),
        "ends": np.clip(x, -1.0, 1.5),
        "adjacent": 1.0 + rng.integers(0, 90, n) * np.finfo(float).eps,
        "huge": rng.choice([-1e300, 1e300], n) * rng.random(n),
        "tiny": rng.integers(0, 200, n) * 5e-324,
        "two": rng.integers(0, 2, n) * 1.0,
        "one": np.full(n, -3.5),
        "groups": x + 9.0 * (np.arange(n) % 4),
        "groups, overlapping": np.where(np.arange(n) % 3, x, 0.3 * x + 4.5),
        "signed zeros": np.where(rng.random(n) < 0.5, -0.0, 0.0),
        "missing": np.where(rng.random(n) < 0.6, np.nan, x),
        "none": np.full(n, np.nan),
    }


COLUMNS = columns()


def new_values(x, seed=1):
    """Values of a column, between them, beyond them, next to them, and missing ones."""
    there = np.unique(x[~np.isnan(x)])
    if not len(there):
        return np.array([0.0, np.nan, -np.inf])
    gap = there[1:] / 2 - there[:-1] / 2
    between = [there[:-1] + gap * share for share in (0.7, 1.3)]
    near = np.concatenate([np.nextafter(there, np.inf), np.nextafter(there, -np.inf)])
    far = [np.nan, -np.inf, np.inf, -1e308, 1e308]
    return np.concatenate([there, *between, np.random.default_rng(seed).permutation(near), far])


def both(x, weight=None, period=0.0):
    """The levels by the package and by the reference."""
    own = NumberLevels.of_values(*tally(x.copy(), weight), period)
    return own, levels.of_numbers(x, weight, period=period or None)


def assert_levels_agree(own, made, tolerance=1e-12):
    T = len(made.low)
    assert own.values.shape == own.shares.shape == (T,)
    np.testing.assert_array_equal(np.rint(own.shares * made.weight.sum()), made.weight)
    scale = np.abs(made.value).max(initial=1e-300)
    np.testing.assert_allclose(own.values / scale, made.value / scale, rtol=tolerance, atol=tolerance)
    np.testing.assert_array_equal(own.values[made.single], made.low[made.single])
    if not own.period:
        assert ((made.low <= own.values) & (own.values <= made.high)).all()
        np.testing.assert_array_equal(own.bounds.shape, (max(T - 1, 0),))
        # between two levels, on neither side of them
        assert ((made.high[:-1] <= own.bounds) & (own.bounds < made.low[1:])).all()


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("shape", COLUMNS)
def test_levels_of_numbers(shape, dtype, weighted):
    with np.errstate(over="ignore"):
        x = COLUMNS[shape].astype(dtype)
    x[np.isinf(x)] = 3e38
    weight = np.random.default_rng(3).integers(0, 5, N) if weighted else None
    own, made = both(x, weight)
    assert_levels_agree(own, made)
    np.testing.assert_array_equal(own.apply(x), levels.codes_of_numbers(made, x))


def test_no_level_has_values_of_two_groups_far_apart():
    rng = np.random.default_rng(0)
    group = rng.integers(0, 5, 3000)
    x = rng.normal(size=3000) + 20.0 * group
    own, _ = both(x)
    codes = own.apply(x)
    assert len(own.values) <= 64 + 4
    assert all(len({*group[codes == level].tolist()}) == 1 for level in range(len(own.values)))


@pytest.mark.parametrize("shape", sorted(set(COLUMNS) - {"huge", "adjacent", "tiny"}))
def test_codes_of_new_values(shape):
    """The nearest level by its ends, the lower one halfway, the outermost one beyond all."""
    x = COLUMNS[shape]
    own, made = both(x)
    new = new_values(x)
    if shape in ("few", "more", "counts", "two"):  # whose middles are exact
        new = np.append(new, np.unique(x)[1:] / 2 + np.unique(x)[:-1] / 2)
    some = np.isfinite(new) | np.isnan(new)
    np.testing.assert_array_equal(own.apply(new[some]), levels.codes_of_numbers(made, new[some]))
    T = len(made.low)
    if T:
        np.testing.assert_array_equal(own.apply(np.array([-np.inf, np.inf])), [0, T - 1])


@pytest.mark.parametrize("shape", ["huge", "adjacent", "tiny"])
def test_codes_next_to_extreme_values(shape):
    """Values keep their levels, whatever rounding does to the middles; codes rise with values."""
    x = COLUMNS[shape]
    own, made = both(x)
    new = np.sort(new_values(x))
    codes = own.apply(new[~np.isnan(new)])
    assert (np.diff(codes) >= 0).all()
    assert (codes[0], codes[-1]) == (0, len(made.low) - 1)
    for ends in (made.low, made.high):
        np.testing.assert_array_equal(own.apply(ends), np.arange(len(ends)))


@pytest.mark.parametrize("seed", range(20))
def test_random_columns(seed):
    """Mixtures of frequent values and runs of any length, with weights."""
    rng = np.random.default_rng(seed)
    n, spikes = int(rng.integers(65, 2000)), rng.normal(size=rng.integers(1, 40))
    x = np.where(rng.random(n) < rng.random(), rng.choice(spikes, n), rng.standard_cauchy(n))
    x = np.rint(x * 64) / 64  # middles are exact
    x[rng.random(n) < 0.2] = np.nan
    weight = rng.integers(0, 4, n) if seed % 2 else None
    own, made = both(x, weight)
    assert_levels_agree(own, made)
    assert len(own.values) <= 254
    new = np.concatenate([x, new_values(x)[:-4]])
    np.testing.assert_array_equal(own.apply(new), levels.codes_of_numbers(made, new))


def test_frequent_values_are_levels():
    """A value with a 64th of the cells is a level, one with fewer is not."""
    run = 1.0 + np.arange(640 - 10 - 9) / 1e4
    x = np.concatenate([np.full(10, 0.5), np.full(9, 1.03), run])
    own, made = both(x)
    assert_levels_agree(own, made)
    level = own.apply(np.array([0.5, 1.03]))
    assert own.values[level[0]] == 0.5
    assert own.shares[level[0]] == 10 / 640
    assert own.shares[level[1]] > 9 / 640


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("period", [24.0, 1.0, 360.0, 7.0])
def test_levels_of_periods(period, weighted):
    rng = np.random.default_rng(int(period))
    weight = rng.integers(0, 3, N) if weighted else None
    for x in (
        rng.normal(size=N) * period,
        (rng.random(N) * period).round(1) - period,
        rng.normal(size=N) * period / 9.0,
        np.array([0.0, -1e-20, period, np.nan, period / 2.0] * (N // 5)),
    ):
        own, made = both(x, weight, period)
        assert_levels_agree(own, made, 1e-9)
        np.testing.assert_array_equal(own.apply(x), levels.codes_of_numbers(made, x))
        new = rng.normal(size=500) * 3.0 * period
        np.testing.assert_array_equal(own.apply(new), levels.codes_of_numbers(made, new))


def test_a_period_has_no_ends():
    own, _ = both(np.array([1.0, 12.0, 23.5]), None, 24.0)
    np.testing.assert_array_equal(own.apply(np.array([0.0, 0.2, 0.3, 24.3, -0.6, 23.9])), [2, 2, 0, 0, 2, 2])


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("seed", range(15))
def test_tables_of_every_kind(seed, weighted):
    """Codes, scores up to their unit, levels that occur."""
    case = mixed_case(seed, weighted=weighted, n=300).case
    codes, n_levels, scores = case.reference()
    np.testing.assert_array_equal(case.encoded.codes, codes)
    assert case.encoded.codes.dtype == np.uint8
    assert [len(own) for own in case.encoding.schema.levels] == n_levels
    for d, raw in enumerate(case.encoding.statistics):
        assert (raw is None) == (scores[d] is None)
        if raw is not None and case.background.tilts.tilted[d]:
            b = levels.shares(codes[:, d], n_levels[d], case.weight if weighted else None)
            n_parameters = levels.statistics(scores[d], b).shape[1]
            assert case.background.n_parameters[d] == n_parameters
            own, z = case.statistics(d), scores[d]
            atom = np.isnan(z) if z.ndim == 1 else np.zeros(len(b), bool)
            np.testing.assert_array_equal(own[:, 2], atom)
            others = (b > 0) & ~atom
            expected = levels.statistics(z[others], b[others] / b[others].sum())
            assert expected.shape[1] == n_parameters - atom.any()
            np.testing.assert_allclose(own[others, : expected.shape[1]], expected, rtol=1e-8, atol=1e-6)
            assert not own[atom, :2].any()


def test_threads_strides_and_types_do_not_change_codes():
    case = mixed_case(2, n=9000, q=6, missing=0.2).case
    expected = case.encoded.codes
    for n_threads in (2, 5):
        np.testing.assert_array_equal(case.encoding.apply(case.table, n_threads=n_threads).codes, expected)
    for rows in (slice(0, 1), slice(4095, 4097), slice(100, 100)):
        part = case.encoding.apply(case.table.take(rows))
        np.testing.assert_array_equal(part.codes, expected[rows])
    strided = MixedTable.from_data(np.asfortranarray(case.X), kinds=case.declared)
    np.testing.assert_array_equal(case.encoding.apply(strided).codes, expected)


def test_many_levels_need_two_bytes():
    """Of a category; numbers never have as many."""
    rng = np.random.default_rng(0)
    wide = np.concatenate([np.arange(300.0), rng.integers(0, 300, 400)])
    case = Case([rng.normal(size=700), wide], ["number", "category"])
    assert case.encoded.codes.dtype == np.uint16
    codes, n_levels, _ = case.reference()
    np.testing.assert_array_equal(case.encoded.codes, codes)
    assert n_levels[0] == 64
    assert case.encoding.schema.n_levels[1] == 300


def test_columns_that_only_rows_of_weight_zero_have():
    """Such a column has no levels; its cells are missing, also those of new rows."""
    weight = np.array([0, 0, 1, 1, 2, 1, 1, 1, 1])
    gone = np.full(9, np.nan)
    gone[:2] = 1.0, 2.0
    case = Case([np.arange(9) % 4.0, np.full(9, 3.0), gone], ["number"] * 3, weight=weight)
    assert case.encoding.schema.n_levels.tolist() == [4, 1, 0]
    assert not case.encoded.codes[:, 1:].any()
    np.testing.assert_array_equal(case.background.usable, [1, 0, 0])
    counts = weight @ np.eye(4)[np.arange(9) % 4]
    assert case.background.cost == pytest.approx(-counts @ np.log(counts / 8))


def test_levels_are_restored_from_what_models_hold():
    case = mixed_case(3, n=300, q=6).case
    again = LevelEncoding.from_dict(case.encoding.to_dict(), case.table.schema)
    np.testing.assert_array_equal(again.apply(case.table).codes, case.encoded.codes)
    for own, other in zip(case.encoding.numbers, again.numbers, strict=True):
        for name in ("values", "bounds", "shares"):
            np.testing.assert_array_equal(getattr(own, name), getattr(other, name))


@pytest.mark.parametrize("shape", ["normal", "skewed", "zeros", "few"])
@pytest.mark.parametrize("scale", [2.0**-40, -1.0, 2.0**50])
def test_levels_do_not_depend_on_the_unit(shape, scale):
    """Scales by powers of two give the same codes and statistics; the other sign mirrors the order."""
    x = COLUMNS[shape]
    plain, scaled = Case([x], ["number"]), Case([x * scale], ["number"])
    if scale > 0:
        np.testing.assert_array_equal(scaled.encoded.codes, plain.encoded.codes)
        np.testing.assert_array_equal(scaled.statistics(0), plain.statistics(0))
    else:
        T = len(plain.encoding.numbers[0].values)
        assert len(scaled.encoding.numbers[0].values) == T
        if shape == "few":
            np.testing.assert_array_equal(scaled.encoded.codes, T - 1 - plain.encoded.codes)


@pytest.mark.parametrize("period", [0.1, 0.3, 0.7, 1.1, 2.4, 7.0, 360.0])
def test_decimal_fractions_a_period_apart_are_one_level(period):
    """However the floats are rounded."""
    values = np.array([round(period * (i / 4 + turn), 9) for i in range(4) for turn in range(-20, 60)])
    number = NumberLevels.of_values(*np.unique(values, return_counts=True), period)
    assert len(number.values) == 4
    np.testing.assert_allclose(number.values, period * np.arange(4) / 4, atol=1e-12)
    assert number.apply(values).tolist() == np.repeat(np.arange(4), 80).tolist()


def groups_and_tails(seed, n=400):
    """A column of groups that lie apart, or that has a long tail."""
    rng = np.random.default_rng(seed)
    if seed % 3 == 0:
        return np.exp(rng.normal(size=n) * rng.uniform(0.2, 2.0))
    few = rng.uniform(0.03, 0.3)
    group = rng.choice(3, n, p=[few, few / 2.0, 1.0 - 1.5 * few])
    return np.array([rng.uniform(4.0, 40.0), -rng.uniform(0.0, 9.0), 0.0])[group] + rng.normal(size=n)


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("seed", range(24))
def test_normal_scores_are_for_tails_and_not_for_groups_that_lie_apart(seed, sign):
    values, counts = np.unique(sign * groups_and_tails(seed), return_counts=True)
    own = NumberLevels.of_values(values, counts)
    skewed = levels.is_skewed(own.values, own.shares)
    expected = own.normal_scores if skewed else own.values
    np.testing.assert_allclose(own.statistics[:, 0], expected, rtol=1e-12)


def test_a_column_with_a_small_group_far_away_keeps_its_values():
    rng = np.random.default_rng(0)
    x = rng.normal(size=600) + 30.0 * (np.arange(600) < 60)
    own = NumberLevels.of_values(*np.unique(x, return_counts=True))
    np.testing.assert_array_equal(own.statistics[:, 0], own.values)
    tail = NumberLevels.of_values(*np.unique(np.exp(2.0 * x[60:]), return_counts=True))
    np.testing.assert_array_equal(tail.statistics[:, 0], tail.normal_scores)
