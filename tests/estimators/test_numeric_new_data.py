"""The numeric encoding applied: later rows, the derived table, files."""

import dataclasses
import json
import pickle
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from scipy.special import ndtri

from craftc import MixedTable
from craftc.table import numeric_encoding as module
from craftc.table.bins import tally
from craftc.table.numeric_encoding import NumericEncoding
from tests.common import examples, random_table
from tests.estimators.numeric_cases import (
    MODES,
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
    monkeypatch.setattr(module, "SLICE_ROWS", 7)
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


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [1, 32768, 32769, 70_000])
def test_the_tally_of_a_long_column_and_its_knots(n, dtype):
    rng = np.random.default_rng(n)
    for x in (
        rng.lognormal(size=n),
        np.round(rng.normal(size=n), 2),
        np.where(rng.random(n) < 0.5, np.nan, rng.normal(size=n) ** 3),
    ):
        cells = x.astype(dtype)
        given = cells.copy()
        values, counts = tally(cells, None)
        np.testing.assert_array_equal(cells, given)
        expected, number = np.unique(cells[cells == cells], return_counts=True)
        assert len(values) == len(expected)
        if not len(values):
            continue
        assert values.dtype == dtype
        assert not np.signbit(values[values == 0.0]).any()
        np.testing.assert_array_equal(values, expected)
        np.testing.assert_array_equal(counts, number)
        knots, scores = module._knots(values, counts)
        exact = ndtri((np.cumsum(number) - number / 2) / number.sum())
        nearest = np.arange(len(expected))
        if len(expected) > module.MAX_KNOTS:
            distance = np.abs(exact[:, None] - np.linspace(exact[0], exact[-1], module.MAX_KNOTS)[None, ::64])
            assert set(distance.argmin(axis=0).tolist()) <= set(np.searchsorted(expected, knots).tolist())
            nearest = np.searchsorted(expected, knots)
        np.testing.assert_array_equal(knots, expected[nearest])
        np.testing.assert_allclose(scores, exact[nearest], rtol=0, atol=1e-12)


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
