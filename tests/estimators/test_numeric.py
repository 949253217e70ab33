"""Numeric columns in the model: every rule on columns made for it, exactness of the factors, weights and
order.
"""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats
from scipy.special import ndtri

from tests.common import examples
from tests.estimators.numeric_cases import (
    any_column,
    assert_same_encoding,
    assert_same_table,
    bell,
    decode,
    fit,
    later,
    table_of,
    words,
)

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
def test_every_value_can_be_recovered_from_its_columns(seed):
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
    assert_same_table(encoding.apply(table_of(*X.T)).take(order), shuffled.apply(table_of(*X[order].T)))


def test_negative_zero_is_zero():
    zeros = np.where(np.arange(100) % 2, -0.0, 0.0)
    encoding = fit(np.concatenate([zeros, bell(100)]))
    assert encoding.schema.columns[0] == "x0 = 0"
    assert decode(later(encoding, [-0.0, 0.0]))["x0 = 0"] == [True, True]
    assert fit([-0.0, 0.0, 1.0]).schema.levels == ((0, 1),)
