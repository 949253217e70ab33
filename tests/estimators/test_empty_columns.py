"""`unusable="drop"` leaves out a column without a value, whatever its type."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from craftc import CRAFT

N = 40
X = np.random.default_rng(0).normal(size=N)
PANDAS = {
    "categories": pd.Categorical([None] * N),
    "declared categories": pd.Categorical([None] * N, ["a", "b"]),
    "ordered categories": pd.Categorical([None] * N, ["a", "b"], ordered=True),
    "booleans": pd.Series([pd.NA] * N, dtype="boolean"),
    "strings": pd.Series([pd.NA] * N, dtype="string"),
    "objects": np.array([None] * N, object),
    "integers": pd.Series([pd.NA] * N, dtype="Int64"),
    "dates": pd.Series([pd.NaT] * N),
    "dictionary": pd.Series(pd.array([None] * N, pd.ArrowDtype(pa.dictionary(pa.int8(), pa.string())))),
    "arrow booleans": pd.Series(pd.array([None] * N, pd.ArrowDtype(pa.bool_()))),
}
POLARS = [
    pl.Categorical,
    pl.Enum(["a"]),
    pl.Boolean,
    pl.String,
    pl.Null,
    getattr(pl, "Int128", pl.Int64),
    pl.Date,
    pl.List(pl.Int8),
]
ARROW = [pa.dictionary(pa.int8(), pa.string()), pa.bool_(), pa.null(), pa.string(), pa.decimal256(50, 2)]
FRAMES = {
    **{f"pandas {kind}": pd.DataFrame({"x": X, "d": column}) for kind, column in PANDAS.items()},
    **{f"polars {kind}": pl.DataFrame({"x": X, "d": pl.Series([None] * N, dtype=kind)}) for kind in POLARS},
    **{f"arrow {kind}": pa.table({"x": X, "d": pa.array([None] * N, kind)}) for kind in ARROW},
    "dict": {"x": X, "d": [None] * N},
}


@pytest.mark.parametrize("kind", FRAMES)
@pytest.mark.parametrize("categorical", ["auto", []])
def test_columns_without_a_value(kind, categorical):
    frame = FRAMES[kind]
    with pytest.warns(UserWarning, match="'d': no value in any row"):
        model = CRAFT(unusable="drop", categorical=categorical, random_state=0, n_init=1).fit(frame)
    assert model.n_features_in_ == 1
    assert model.predict(frame).tolist() == model.labels_.tolist()


@pytest.mark.parametrize("kind", ["pandas categories", "pandas booleans", "polars Boolean", "dict"])
def test_declared_columns_without_a_value(kind):
    with pytest.warns(UserWarning, match="'d': no value in any row"):
        model = CRAFT(unusable="drop", categorical=["d"], random_state=0, n_init=1).fit(FRAMES[kind])
    assert model.n_features_in_ == 1
