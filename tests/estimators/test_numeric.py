"""How numeric columns enter the model: every rule on columns made for it, the same cells later."""

import dataclasses
import json
import pickle
import tracemalloc

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats
from scipy.special import ndtri

from craftc import MixedTable
from craftc import _numeric as module
from craftc._numeric import NumericEncoding
from tests.common import examples, random_table

MODES = ("auto", "rank", "raw")


def table_of(*columns, dtype=None):
    """A table of numeric columns x0, x1, ..."""
    return MixedTable.from_data(np.column_stack(columns).astype(float), dtype=dtype, categorical=[])


def fit(*columns, weight=None, mode="auto", dtype=None):
    return NumericEncoding.fit(table_of(*columns, dtype=dtype), weight, mode)


def words(*columns, **options):
    """What is said of the first column."""
    return fit(*columns, **options).describe()[0][1]


def later(encoding, *columns):
    """The derived table of new rows."""
    return encoding.apply(encoding.input_schema.encode(np.column_stack(columns)))


def decode(table):
    """Derived columns by name; categorical ones as lists of levels, None where missing."""
    out = {name: table.numeric[:, d] for d, name in enumerate(table.numeric_names)}
    for d, (name, levels) in enumerate(zip(table.categorical_names, table.levels, strict=True)):
        out[name] = [(*levels, None)[code] for code in table.codes[:, d]]
    return out


def assert_same_table(a, b):
    assert a.schema == b.schema
    assert a.numeric.dtype == b.numeric.dtype
    assert a.codes.dtype == b.codes.dtype
    np.testing.assert_array_equal(a.numeric, b.numeric)
    np.testing.assert_array_equal(a.codes, b.codes)


def assert_same_encoding(a, b):
    assert a.to_dict() == b.to_dict()
    assert a.schema == b.schema
    np.testing.assert_array_equal(a.source, b.source)


def bell(n, scale=1.0):
    """n numbers as normal as can be."""
    return scale * ndtri((np.arange(n) + 0.5) / n)


def any_column(rng, n):
    """A column of a random kind: levels, spikes and a tail, a bell, holes in all of them."""
    kind = rng.integers(4)
    if kind == 0:
        x = rng.integers(0, rng.integers(1, 25), n).astype(float)
    elif kind == 1:
        x = np.where(rng.random(n) < 0.4, 0.0, rng.lognormal(size=n).round(2))
    elif kind == 2:
        x = rng.normal(size=n).round(1)
    else:
        spiked = rng.random(n)
        x = rng.standard_t(3, n)
        x[spiked < 0.7], x[spiked < 0.4] = -1.0, 2.0
    x[rng.random(n) < 0.1] = np.nan
    x[0] = 1.0
    return x


# ---------------------------------------------------------------- the rules


@pytest.mark.parametrize("mode", ["auto", "rank"])
def test_ten_values_are_categories_and_eleven_are_not(mode):
    ten, eleven = np.tile(np.arange(10), 11), np.tile(np.arange(11), 10)
    encoding = fit(ten, eleven, mode=mode)
    assert encoding.describe() == [
        ("x0", "10 values: categories"),
        ("x1", "as numbers" if mode == "auto" else "by rank"),
    ]
    derived = encoding.apply(table_of(ten, eleven))
    assert derived.schema.columns == ("x0", "x1")
    assert derived.levels == (tuple(range(10)),)
    np.testing.assert_array_equal(derived.codes[:, 0], ten)


def test_categories_are_the_values_in_order():
    x = np.array([2.5, -1.0, np.nan, 2.5, 0.0])
    derived = fit(x).apply(table_of(x))
    assert derived.levels == ((-1.0, 0.0, 2.5),)
    assert decode(derived) == {"x0": [2.5, -1.0, None, 2.5, 0.0]}


def test_whole_numbers_are_read_as_such_and_float32_in_few_digits():
    whole = fit([3.0, 1.0]).schema.levels[0]
    assert [*map(repr, whole)] == ["1", "3"]
    assert fit([0.1, 0.3], dtype=np.float32).schema.levels == ((0.1, 0.3),)
    assert fit([1e300, 0.0]).schema.levels == ((0.0, 1e300),)


def test_a_constant_column_is_one_level():
    encoding = fit([7.0, 7.0, np.nan])
    assert encoding.describe() == [("x0", "1 value: constant")]
    assert encoding.schema.levels == ((7,),)
    assert decode(later(encoding, [7.0, 8.0])) == {"x0": [7, None]}


@pytest.mark.parametrize(("zeros", "spike"), [(25, True), (24, False)])
def test_a_spike_holds_a_fifth_of_the_present_cells(zeros, spike):
    x = np.concatenate([np.zeros(zeros), bell(100), np.full(50, np.nan)])  # 25 of 125 is a fifth
    assert words(x) == ("value 0 set apart (20 %), rest as numbers" if spike else "as numbers")


def test_the_second_spike_is_a_fifth_of_what_remains():
    x = np.concatenate([np.zeros(400), np.full(25, 9.0), bell(100)])  # 25 of 525 cells, of 125 left
    encoding = fit(x)
    assert encoding.describe()[0][1] == "values 0, 9 set apart (76, 5 %), rest as numbers"
    assert encoding.schema.columns == ("x0 = 0", "x0 = 9", "x0 (rest)")
    assert encoding.source.tolist() == [0, 0, 0]


def test_at_most_three_spikes_four_columns():
    spikes = [np.full(40 * 3**k, 5.0 + k) for k in range(5)]
    encoding = fit(np.concatenate([*spikes, bell(100)]))
    assert encoding.schema.columns == ("x0 = 9", "x0 = 8", "x0 = 7", "x0 (rest)")


def test_of_equal_spikes_the_lowest_comes_first():
    x = np.concatenate([np.full(90, 4.0), np.full(90, -4.0), bell(50)])
    assert fit(x).schema.columns[:2] == ("x0 = -4", "x0 = 4")


def test_what_was_set_apart_is_missing_from_then_on():
    x = np.concatenate([[0.0, 9.0, 0.25, np.nan], np.zeros(400), np.full(30, 9.0), bell(100)])
    derived = decode(fit(x).apply(table_of(x)))
    assert derived["x0 = 0"][:4] == [True, False, False, None]
    assert derived["x0 = 9"][:4] == [None, True, False, None]
    np.testing.assert_array_equal(derived["x0 (rest)"][:4], [np.nan, np.nan, 0.25, np.nan])


def test_a_rest_of_few_values_is_categorical():
    x = np.concatenate([np.zeros(100), np.tile(np.arange(1, 11), 3)])  # 11 values, one a spike
    encoding = fit(x)
    assert encoding.describe()[0][1] == "value 0 set apart (77 %), rest of 10 values: categories"
    assert encoding.schema.levels == ((False, True), tuple(range(1, 11)))
    derived = decode(later(encoding, [0.0, 3.0, 3.5, np.nan]))
    assert derived["x0 = 0"] == [True, False, False, None]
    assert derived["x0 (rest)"] == [None, 3, None, None]


def test_the_rest_decides_whether_it_is_ranked():
    tail = np.exp(bell(200))
    assert words(tail) == words(-tail) == "by rank"
    spiked = np.concatenate([np.full(300, 50.0), bell(200)])
    assert words(spiked) == "value 50 set apart (60 %), rest as numbers"
    zeros = np.concatenate([np.zeros(300), tail])
    assert words(zeros) == "value 0 set apart (60 %), rest by rank"


@pytest.mark.parametrize("sign", [1, -1])
def test_skewness_and_kurtosis_against_scipy(sign):
    rng = np.random.default_rng(0)
    seen = set()
    for power in np.linspace(0.2, 1.8, 60):
        z = rng.normal(size=400)
        x = 1e6 + sign * (np.exp(0.3 * power * z) if power < 1 else np.sign(z) * np.abs(z) ** power)
        far = abs(stats.skew(x)) > 1 or stats.kurtosis(x) > 2
        assert words(x) == ("by rank" if far else "as numbers")
        seen.add(far)
    assert seen == {True, False}


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize(("wanted", "said"), [(0.95, "as numbers"), (1.05, "by rank")])
def test_skewness_alone_is_enough(sign, wanted, said):
    x = stats.gamma(4 / wanted**2).ppf((np.arange(20_000) + 0.5) / 20_000)
    assert abs(stats.skew(x) - wanted) < 0.02
    assert stats.kurtosis(x) < 1.9
    assert words(sign * x) == said


def test_ranks_are_normal_scores_of_midranks():
    rng = np.random.default_rng(1)
    x = np.round(rng.lognormal(sigma=1.5, size=500), 1)  # ties
    x[rng.random(500) < 0.1] = np.nan
    derived = fit(x).apply(table_of(x))
    assert derived.numeric_names == ("x0",)
    present = ~np.isnan(x)
    expected = ndtri((stats.rankdata(x[present]) - 0.5) / present.sum())
    np.testing.assert_allclose(derived.numeric[present, 0], expected, rtol=0, atol=1e-13)
    assert np.isnan(derived.numeric[~present, 0]).all()


def test_ranks_of_the_rest_only():
    x = np.concatenate([np.zeros(300), np.exp(bell(200))])
    derived = fit(x).apply(table_of(x))
    assert np.isnan(derived.numeric[:300, 0]).all()
    np.testing.assert_allclose(derived.numeric[300:, 0], bell(200), rtol=0, atol=1e-12)


def test_rank_always_ranks_and_raw_never_does():
    x, few = bell(60), np.tile([1.0, 2.0], 30)
    assert fit(x, few, mode="rank").describe() == [
        ("x0", "by rank"),
        ("x1", "2 values: categories"),
    ]
    assert fit(np.exp(x), few, mode="raw").describe() == [
        ("x0", "as numbers"),
        ("x1", "as numbers"),
    ]


def test_a_mode_that_is_none():
    with pytest.raises(ValueError, match="numeric must be 'auto', 'rank' or 'raw', got 'best'"):
        fit(bell(20), mode="best")


def test_a_column_without_weight_is_left_alone():
    encoding = fit([1.0, 2.0, np.nan], [np.nan, np.nan, 5.0], weight=np.array([1.0, 1.0, 0.0]))
    assert encoding.describe() == [("x0", "2 values: categories"), ("x1", "as numbers")]


def test_the_noise_of_real_tables():
    rng = np.random.default_rng(2)
    n = 1000
    tail = rng.lognormal(size=n)
    columns = {
        "by rank": [tail, rng.standard_t(3, n), rng.exponential(size=n)],
        "as numbers": [rng.uniform(size=n), rng.normal(size=n), 1e9 + rng.normal(size=n)],
        "value 0 set apart (50 %), rest by rank": [np.where(np.arange(n) % 2, tail, 0.0)],
        "7 values: categories": [rng.integers(0, 7, n)],
    }
    for expected, columns_of_kind in columns.items():
        for x in columns_of_kind:
            assert words(x) == expected


# ---------------------------------------------------------------- exactness


def category_cost(codes, n_levels):
    """Minus log-likelihood of a column of codes under its own frequencies."""
    counts = np.bincount(codes[codes < n_levels], minlength=n_levels)
    return -sum(c * np.log(c / counts.sum()) for c in counts if c)


def test_factors_of_two_spikes_and_a_rest_of_levels():
    rng = np.random.default_rng(3)
    x = rng.choice(np.arange(12.0), size=2000, p=[0.5, 0.3, *[0.02] * 10])
    x[:100] = np.nan
    derived = fit(x).apply(table_of(x))
    assert derived.n_levels.tolist() == [2, 2, 10]
    factors = sum(map(category_cost, derived.codes.T, derived.n_levels))
    direct = category_cost(np.where(np.isnan(x), 12, x).astype(int), 12)
    assert factors == pytest.approx(direct, rel=1e-13)


def test_factors_of_two_spikes_and_a_rest_of_numbers():
    rng = np.random.default_rng(4)
    x = rng.normal(size=2000)
    x[:1200], x[1200:1500], x[1500:1550] = 0.0, 7.0, np.nan
    rng.shuffle(x)
    derived = fit(x).apply(table_of(x))
    rest = derived.numeric[~np.isnan(derived.numeric[:, 0]), 0]
    density = stats.norm(rest.mean(), rest.std())
    factors = sum(map(category_cost, derived.codes.T, derived.n_levels))
    factors -= density.logpdf(rest).sum()
    seen = x[~np.isnan(x)]
    zero, seven = (seen == 0).mean(), (seen == 7).mean()
    direct = 0.0
    for value in seen:  # the mixture of two atoms and a normal density
        if value in (0.0, 7.0):
            direct -= np.log(zero if value == 0.0 else seven)
        else:
            direct -= np.log(1 - zero - seven) + density.logpdf(value)
    assert factors == pytest.approx(direct, rel=1e-12)


@examples(60)
@given(seed=st.integers(0, 10**6))
def test_every_cell_can_be_told_from_its_pieces(seed):
    x = any_column(np.random.default_rng(seed), 150)
    encoding = fit(x)
    derived = decode(encoding.apply(table_of(x)))
    names = list(encoding.schema.columns)
    spikes, rest = encoding.recipes[0].spikes, derived[names[-1]]
    assert len(names) == len(spikes) + 1 <= 4
    for i, value in enumerate(x):
        seen = [derived[name][i] for name in names[:-1]]
        missing = rest[i] is None or rest[i] != rest[i]
        if np.isnan(value):
            assert seen == [None] * len(spikes)
            assert missing
        elif value in spikes:
            k = spikes.index(value)
            assert seen == [False] * k + [True] + [None] * (len(spikes) - k - 1)
            assert missing
        else:
            assert seen == [False] * len(spikes)
            assert not missing


# ---------------------------------------------------------------- weights, order


@examples(60)
@given(seed=st.integers(0, 10**6), mode=st.sampled_from(["auto", "rank"]))
def test_a_weight_is_so_many_rows(seed, mode):
    rng = np.random.default_rng(seed)
    weight = rng.integers(0, 4, 120)
    assume(weight[0] > 0)
    X = np.column_stack([any_column(rng, 120) for _ in range(3)])
    weighted = fit(*X.T, weight=weight.astype(float), mode=mode)
    repeated = fit(*np.repeat(X, weight, axis=0).T, mode=mode)
    assert_same_encoding(weighted, repeated)
    # a common factor changes nothing, whole or not
    assert_same_encoding(weighted, fit(*X.T, weight=0.125 * weight, mode=mode))


def test_fractional_weights_move_the_ranks():
    x = np.exp(bell(50))
    weight = np.linspace(0.3, 1.7, 50)
    encoding = fit(x, weight=weight, mode="rank")
    below = np.cumsum(weight) - weight
    np.testing.assert_allclose(
        encoding.recipes[0].scores, ndtri((below + weight / 2) / weight.sum()), rtol=0, atol=1e-9
    )


def test_rows_of_weight_zero_are_not_looked_at_but_encoded():
    x = np.concatenate([np.arange(10.0), [77.0]])
    weight = np.ones(11)
    weight[10] = 0.0
    derived = fit(x, weight=weight).apply(table_of(x))
    assert derived.levels == (tuple(range(10)),)
    assert decode(derived)["x0"][-1] is None


@examples(30)
@given(seed=st.integers(0, 10**6), weighted=st.booleans())
def test_the_order_of_the_rows_does_not_matter(seed, weighted):
    rng = np.random.default_rng(seed)
    X = np.column_stack([any_column(rng, 150) for _ in range(3)])
    weight = rng.random(150) if weighted else None
    order = rng.permutation(150)
    encoding = fit(*X.T, weight=weight)
    shuffled = fit(*X[order].T, weight=None if weight is None else weight[order])
    assert_same_encoding(encoding, shuffled)
    assert_same_table(
        encoding.apply(table_of(*X.T)).take(order), shuffled.apply(table_of(*X[order].T))
    )


def test_negative_zero_is_zero():
    zeros = np.where(np.arange(100) % 2, -0.0, 0.0)
    encoding = fit(np.concatenate([zeros, bell(100)]))
    assert encoding.schema.columns[0] == "x0 = 0"
    assert decode(later(encoding, [-0.0, 0.0]))["x0 = 0"] == [True, True]
    assert fit([-0.0, 0.0, 1.0]).schema.levels == ((0, 1),)


# ---------------------------------------------------------------- later rows


def test_later_numbers_go_between_the_knots_and_stop_at_the_ends():
    x = np.exp(bell(40))
    encoding = fit(x)
    values, scores = encoding.recipes[0].values, encoding.recipes[0].scores
    middle = (values[1:] + values[:-1]) / 2
    got = later(encoding, [*middle, -5.0, 1e300, np.nan]).numeric[:, 0]
    np.testing.assert_allclose(got[:39], (scores[1:] + scores[:-1]) / 2, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(got[39:], [scores[0], scores[-1], np.nan])


def test_only_the_very_value_is_the_spike():
    x = np.concatenate([np.full(100, 0.3), np.exp(bell(99))])
    encoding = fit(x)
    got = decode(later(encoding, [0.3, np.nextafter(0.3, 1), np.nan]))
    assert got["x0 = 0.3"] == [True, False, None]
    assert np.isnan(got["x0 (rest)"][[0, 2]]).all()
    assert -2 < got["x0 (rest)"][1] < 0


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@examples(40)
@given(seed=st.integers(0, 10**6))
def test_a_row_depends_on_itself_alone(dtype, seed):
    rng = np.random.default_rng(seed)
    table = table_of(*(any_column(rng, 80) for _ in range(4)), dtype=dtype)
    encoding = NumericEncoding.fit(table, None, "auto")
    whole = encoding.apply(table)
    assert_same_table(encoding.apply(table), whole)
    for i in rng.integers(0, 80, 5):
        assert_same_table(encoding.apply(table.take([i])), whole.take([i]))


def test_rows_across_the_slices(monkeypatch):
    rng = np.random.default_rng(5)
    table = random_table(6, n=101, p=3, q=2)
    encoding = NumericEncoding.fit(table, rng.random(101), "rank")
    whole = encoding.apply(table)
    monkeypatch.setattr(module, "_ROWS", 7)
    assert_same_table(encoding.apply(table), whole)
    assert_same_table(encoding.apply(table.take(slice(0, 0))), whole.take(slice(0, 0)))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_many_values_are_ranked_by_knots(dtype):
    rng = np.random.default_rng(7)
    x = rng.lognormal(sigma=2, size=50_000).astype(dtype)
    x[:9000] = x[0]  # a tie that is no spike
    table = table_of(x, dtype=dtype)
    encoding = NumericEncoding.fit(table, None, "auto")
    recipe = encoding.recipes[0]
    assert encoding.describe()[0][1] == "by rank"
    assert 2000 < len(recipe.values) <= module.MAX_KNOTS  # tails and ties need few
    assert (recipe.values[0], recipe.values[-1]) == (x.min(), x.max())
    assert (np.diff(recipe.values) > 0).all()
    derived = encoding.apply(table).numeric[:, 0]
    assert derived.dtype == dtype
    exact = ndtri((stats.rankdata(x) - 0.5) / len(x))
    step = (exact.max() - exact.min()) / (module.MAX_KNOTS - 1)
    assert np.abs(derived - exact).max() < 3 * step < 0.01
    order = np.argsort(x)
    assert (np.diff(derived[order]) >= 0).all()


def test_the_very_number_of_knots_is_kept_whole():
    x = np.exp(bell(module.MAX_KNOTS))
    recipe = fit(x).recipes[0]
    np.testing.assert_array_equal(recipe.values, x)
    recipe = fit(np.exp(bell(module.MAX_KNOTS + 1))).recipes[0]
    assert len(recipe.values) <= module.MAX_KNOTS


@pytest.mark.parametrize("scale", [1e-320, 1e-300, 1.0, 1e300])
def test_no_range_is_too_small_or_too_large(scale):
    x = np.concatenate([np.arange(-20, 20), [9000, 9000.5]]) * scale
    derived = fit(x).apply(table_of(x)).numeric[:, 0]
    assert np.isfinite(derived).all()
    assert words(x) == "by rank"
    top = np.finfo(float).max
    wide = fit(np.concatenate([bell(30), [-top, top]]))
    assert np.isfinite(later(wide, [-top, 0.0, top / 3, 5e-324]).numeric).all()


def test_knots_next_to_nothing_apart():
    close = 5e-324 * np.array([0, 2])  # the slope between them overflows
    encoding = fit(np.concatenate([close, np.exp(bell(30))]))
    lower, between, upper = later(encoding, [0.0, 5e-324, 1e-323]).numeric[:, 0]
    assert lower < upper
    assert np.isfinite(between)


def test_tables_of_another_schema_are_refused():
    encoding = fit(np.exp(bell(20)))
    with pytest.raises(ValueError, match="another schema"):
        encoding.apply(table_of(bell(20), bell(20)))


# ---------------------------------------------------------------- the derived table


def mixed(n=60, dtype=np.float64):
    """Spiked, city, bell, tail, few: the second column is categorical."""
    tail = np.exp(bell(n))
    X = [np.where(np.arange(n) % 2, tail, 0.0), np.arange(n) % 3, bell(n), tail, np.arange(n) % 4]
    return MixedTable.from_data(np.column_stack(X).astype(dtype), categorical=[1])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_derived_columns_stand_where_their_sources_stood(dtype):
    table = mixed(dtype=dtype)
    encoding = NumericEncoding.fit(table, None, "auto")
    derived = encoding.apply(table)
    assert derived.schema is encoding.schema
    assert derived.schema.columns == ("x0 = 0", "x0 (rest)", "x1", "x2", "x3", "x4")
    assert derived.numeric_names == ("x0 (rest)", "x2", "x3")
    assert derived.categorical_names == ("x0 = 0", "x1", "x4")
    assert encoding.source.dtype == np.intp
    assert encoding.source.tolist() == [0, 2, 3, 0, 1, 4]
    assert [name for name, _ in encoding.describe()] == ["x0", "x2", "x3", "x4"]
    assert derived.numeric.dtype == derived.schema.dtype == dtype
    assert derived.codes.dtype == np.uint8
    for block in (derived.numeric, derived.codes):
        assert block.flags.c_contiguous
    assert (derived.codes <= derived.n_levels).all()
    np.testing.assert_array_equal(derived.codes[:, 1], table.codes[:, 0])
    np.testing.assert_array_equal(derived.numeric[:, 1], table.numeric[:, 1])
    assert derived.levels[1] is table.levels[0]
    assert derived.schema.missing == table.schema.missing


def test_wide_codes_stay_wide():
    n = 600
    table = MixedTable.from_data(
        np.column_stack([np.arange(n) % 300, np.arange(n) % 2, np.exp(bell(n))]), categorical=[0]
    )
    assert table.codes.dtype == np.uint16
    derived = NumericEncoding.fit(table, None, "auto").apply(table)
    assert derived.codes.dtype == np.uint16
    np.testing.assert_array_equal(derived.codes, [[i % 300, i % 2] for i in range(n)])


def test_float32_is_decided_as_its_own_values():
    x = np.concatenate([np.full(50, 0.1), np.exp(bell(50))]).astype(np.float32)
    encoding = fit(x, dtype=np.float32)
    assert encoding.schema.columns == ("x0 = 0.1", "x0 (rest)")
    got = later(encoding, np.array([0.1, 0.25], np.float32))
    assert got.numeric.dtype == np.float32
    assert decode(got)["x0 = 0.1"] == [True, False]


@pytest.mark.parametrize("mode", MODES)
def test_nothing_to_do_is_no_copy(mode):
    numbers = table_of(bell(50))
    encoding = NumericEncoding.fit(numbers, None, mode)
    assert encoding.identity == (mode != "rank")
    assert (encoding.apply(numbers) is numbers) == encoding.identity
    levels = random_table(1, n=30, p=0, q=3)
    encoding = NumericEncoding.fit(levels, None, mode)
    assert encoding.identity
    assert encoding.apply(levels) is levels
    assert encoding.describe() == []
    assert encoding.source.tolist() == [0, 1, 2]


def test_raw_is_the_identity_of_any_table():
    table = mixed()
    encoding = NumericEncoding.fit(table, np.ones(len(table)), "raw")
    assert encoding.identity
    assert encoding.apply(table) is table
    assert encoding.schema is table.schema
    assert encoding.source.tolist() == [0, 2, 3, 4, 1]


def test_the_table_of_the_fit_is_not_written_on():
    table = mixed()
    numeric, codes = table.numeric.copy(), table.codes.copy()
    for block in (table.numeric, table.codes):
        block.flags.writeable = False
    NumericEncoding.fit(table, np.ones(len(table)), "auto").apply(table)
    np.testing.assert_array_equal(table.numeric, numeric)
    np.testing.assert_array_equal(table.codes, codes)


def test_memory_is_the_derived_table_and_little_more():
    rng = np.random.default_rng(8)
    table = MixedTable.from_data(rng.lognormal(size=(100_000, 8)))
    encoding = NumericEncoding.fit(table, None, "auto")
    tracemalloc.start()
    derived = encoding.apply(table)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < derived.nbytes + 3 * 2**20


# ---------------------------------------------------------------- files


@examples(40)
@given(seed=st.integers(0, 10**6), dtype=st.sampled_from([np.float32, np.float64]))
def test_through_json_and_pickle_to_the_last_bit(seed, dtype):
    rng = np.random.default_rng(seed)
    table = table_of(*(any_column(rng, 90) for _ in range(3)), dtype=dtype)
    encoding = NumericEncoding.fit(table, rng.random(90), "auto")
    text = json.dumps(encoding.to_dict(), allow_nan=False)
    copies = (
        NumericEncoding.from_dict(json.loads(text), table.schema),
        pickle.loads(pickle.dumps(encoding)),
    )
    for again in copies:
        assert_same_encoding(again, encoding)
        assert again.describe() == encoding.describe()
        for a, b in zip(again.recipes, encoding.recipes, strict=True):
            for part in dataclasses.fields(a):
                np.testing.assert_array_equal(getattr(a, part.name), getattr(b, part.name))
        assert_same_table(again.apply(table), encoding.apply(table))


def test_an_encoding_of_other_columns_is_refused():
    state = fit(bell(20)).to_dict()
    with pytest.raises(ValueError, match=r"1 numeric column\(s\) and the schema 2"):
        NumericEncoding.from_dict(state, table_of(bell(20), bell(20)).schema)
