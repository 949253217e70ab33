"""Frames and checks of the tests of the mixed table."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

from craftc.table import MixedTable

from_data = MixedTable.from_data

CONTENT = {
    "age": [31.5, None, 54.0, 20.0, 44.0],
    "city": ["Bern", "", None, "Basel", "Bern"],
    "member": [True, False, True, None, False],
    "visits": [3, 1, 4, 1, 2],
}
CODES = np.array([[2, 1], [0, 0], [3, 1], [1, 2], [2, 0]])


def pandas_frame(**extra):
    return pd.DataFrame(CONTENT | extra)


def decode(table):
    """Return the categorical columns as lists of values, None where missing."""
    lookup = [(*levels, None) for levels in table.levels]
    return [[values[c] for c in column] for values, column in zip(lookup, table.codes.T, strict=True)]


def frames(content):
    return [pd.DataFrame(content), pl.DataFrame(content), pa.table(content)]


def assert_blocks(table):
    """Check what every kernel relies on."""
    assert table.numeric.flags.c_contiguous
    assert table.codes.flags.c_contiguous
    assert table.numeric.dtype in (np.float32, np.float64)
    assert table.numeric.dtype == table.schema.dtype
    assert table.numeric.dtype.isnative
    assert table.codes.dtype in (np.uint8, np.uint16)
    assert table.numeric.shape == (len(table), len(table.numeric_names))
    assert table.codes.shape == (len(table), len(table.categorical_names))
    assert (table.codes <= table.n_levels).all()
