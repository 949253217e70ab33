"""Columns and checks of the tests of numeric columns."""

import numpy as np
from scipy.special import ndtri

from craftc import MixedTable
from craftc.table.numeric_encoding import NumericEncoding

MODES = ("auto", "rank", "raw")


def table_of(*columns, dtype=None):
    """A table of numeric columns x0, x1, ..."""
    return MixedTable.from_data(np.column_stack(columns).astype(float), dtype=dtype, categorical=[])


def fit(*columns, weight=None, mode="auto", dtype=None):
    return NumericEncoding.fit(table_of(*columns, dtype=dtype), weight, mode)


def words(*columns, **options):
    """The encoding of the first column."""
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
    """A column of a random kind: levels, spikes and a tail, a bell, missing cells in all of them."""
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
