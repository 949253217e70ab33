"""Tables of numbers that are read as they are: the same array and the same checks as by scikit-learn."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.utils.validation import validate_data

from craftc import DPMeans
from craftc.table.numbers import read_numbers, read_with_target

BOTH = [np.float64, np.float32]
TABLE = np.arange(12.0).reshape(4, 3)
ARRAYS = {
    "float64": TABLE,
    "float32": TABLE.astype(np.float32),
    "int": TABLE.astype(int),
    "half": TABLE.astype(np.float16),
    "other byte order": TABLE.astype(TABLE.dtype.newbyteorder()),
    "by column": np.asfortranarray(TABLE),
    "stepped": np.repeat(TABLE, 2, 0)[::2],
    "read-only": np.broadcast_to(TABLE, TABLE.shape),
    "not aligned": np.frombuffer(b"x" + TABLE.tobytes(), offset=1).reshape(4, 3),
    "matrix": TABLE.view(np.matrix),
}


@pytest.mark.parametrize("dtype", [np.float64, BOTH], ids=["one", "both"])
@pytest.mark.parametrize("name", ARRAYS)
def test_what_is_read_is_what_scikit_learn_reads(name, dtype):
    X, found = ARRAYS[name], []
    for read in (read_numbers, lambda model, X, **options: validate_data(model, X, order="C", **options)):
        try:
            found.append(read(DPMeans(), X, reset=True, dtype=dtype))
        except TypeError as error:  # a matrix
            found.append(str(error))
    ours, theirs = found
    if isinstance(theirs, str):
        assert ours == theirs
        return
    assert (ours is X) == (theirs is X and X.flags.aligned)  # scikit-learn keeps arrays that are not aligned
    assert ours.flags.aligned
    assert (ours.dtype, ours.flags.c_contiguous) == (theirs.dtype, theirs.flags.c_contiguous)
    np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (3,), (2, 2, 2)])
def test_arrays_of_other_shapes_are_refused(shape):
    with pytest.raises(ValueError, match=r"array|sample|feature"):
        read_numbers(DPMeans(), np.zeros(shape), reset=True)


def test_columns_are_compared_with_those_of_fit():
    model = DPMeans(2.0).fit(TABLE)
    assert model.n_features_in_ == 3
    with pytest.raises(ValueError, match="X has 2 features, but DPMeans is expecting 3"):
        model.predict(np.ascontiguousarray(TABLE[:, :2]))
    assert read_numbers(model, TABLE[:, :2].copy(), reset=None).shape == (4, 2)


def test_an_array_after_a_frame_has_no_names():
    model = DPMeans(2.0).fit(pd.DataFrame(TABLE, columns=["a", "b", "c"]))
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    model.fit(TABLE[:, :2].copy())
    assert not hasattr(model, "feature_names_in_")
    assert model.n_features_in_ == 2


@pytest.mark.parametrize("dtype", [float, int])
def test_too_few_rows(dtype):
    with pytest.raises(ValueError, match="minimum of 5 is required"):
        read_numbers(DPMeans(), TABLE.astype(dtype), reset=True, min_rows=5)
    assert read_numbers(DPMeans(), TABLE.astype(dtype), reset=True, min_rows=4).shape == (4, 3)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_numbers_that_are_not_finite_are_refused(bad):
    X = TABLE.copy()
    X[2, 1] = bad
    with pytest.raises(ValueError, match="contains"):
        read_numbers(DPMeans(), X, reset=True)
    with pytest.raises(ValueError, match="contains"):
        DPMeans(2.0).fit(X)


@pytest.mark.parametrize(
    "other", [True, pd.array([1, 2, 3, 4], dtype="Int64"), "7", pd.Categorical([1.0] * 4)]
)
def test_levels_without_rows_are_no_cells(other):
    levels = pd.Categorical(["2", "1.5", "1e3", "2"], categories=["2", "1.5", "many", "1e3"])
    with pytest.warns(
        UserWarning, match="DPMeans takes numbers only and reads the texts or categories of 'x'"
    ):
        rows = read_numbers(DPMeans(), pd.DataFrame({"x": levels}).assign(y=other), reset=True)
    assert rows[:, 0].tolist() == [2.0, 1.5, 1000.0, 2.0]
    assert rows[:, 1].tolist() == pd.Series(other, index=range(4)).astype(float).tolist()


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame])
def test_texts_and_categories_of_numbers_are_a_warning(make):
    frame = make({"a": [0.5, 1.5, 4.0], "b": [True, False, True]})
    read_numbers(DPMeans(), frame, reset=True)  # truth values are 0 and 1
    with pytest.warns(UserWarning, match="reads the texts or categories of 'c' as numbers"):
        read_numbers(DPMeans(), make({"a": [0.5, 1.5, 4.0], "c": ["1", "2", "4"]}), reset=True)
    with pytest.warns(UserWarning, match="reads the texts or categories of 'c' as numbers"):
        read_with_target(DPMeans(), make({"c": ["1", "2", "4"]}), [0, 1, 1])
