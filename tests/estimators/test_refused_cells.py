"""Missing cells and infinities where numbers are needed: an error names the column, the row and a remedy."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array

from craftc import (
    BPMeans,
    ConvexClustering,
    ConvexCovariateClustering,
    DPMeans,
    FeatureSelectionMixture,
    KFeatures,
)

X = np.random.default_rng(0).normal(size=(30, 3))
Y = np.array(["leak", "sound"])[(X[:, 0] > 0).astype(int)]
NAMES = ["age", "weight", "height"]
GAPS, ENDLESS = X.copy(), X.copy()
GAPS[4, 1] = GAPS[9, 0] = np.nan
ENDLESS[5, 2] = np.inf
METHODS = [DPMeans(), DPMeans(2.0), KFeatures(2), BPMeans(9.0), ConvexClustering(0.1)]
FORMS = {
    "array": np.asarray,
    "frame": lambda rows: pd.DataFrame(rows, columns=NAMES),
    "dict": lambda rows: dict(zip(NAMES, rows.T, strict=True)),
}


def first_of(form, d):
    return f"x{d}" if form == "array" else NAMES[d]


@pytest.mark.parametrize("method", METHODS, ids=str)
@pytest.mark.parametrize("form", FORMS)
def test_missing_cells(method, form):
    words = (
        rf"contains NaN: 2 missing cell\(s\), the first in column '{first_of(form, 1)}', row 4 \(counted "
        rf"from 0\)\. {type(method).__name__} needs every cell: drop .* impute .* use CRAFT"
    )
    with pytest.raises(ValueError, match=words):
        method.fit(FORMS[form](GAPS))
    fitted = method.fit(FORMS[form](X))
    if hasattr(fitted, "predict"):
        with pytest.raises(ValueError, match=words):
            fitted.predict(FORMS[form](GAPS))


@pytest.mark.parametrize("method", [*METHODS, FeatureSelectionMixture(3)], ids=str)
@pytest.mark.parametrize("form", FORMS)
def test_infinities(method, form):
    unknown = ", or by NaN if it is unknown" if isinstance(method, FeatureSelectionMixture) else ""
    words = (
        f"contains infinity: column '{first_of(form, 2)}' contains inf.*; replace it by a number{unknown}.$"
    )
    with pytest.raises(ValueError, match=words):
        method.fit(FORMS[form](ENDLESS))


def test_infinities_of_a_sparse_table():
    with pytest.raises(ValueError, match=r"contains infinity: column 'x2' .* or by NaN"):
        ConvexCovariateClustering(1.0).fit(csr_array(np.where(ENDLESS > 0.5, ENDLESS, 0.0)), Y)


def test_columns_of_files(tmp_path):
    file = tmp_path / "rows.parquet"
    pd.DataFrame(GAPS, columns=NAMES).to_parquet(file)
    for method in (DPMeans(), KFeatures(2)):
        with pytest.raises(ValueError, match="the first in column 'weight', row 4"):
            method.fit(file)


def test_columns_of_another_table_than_that_of_the_fit():
    model = KFeatures(2, random_state=0).fit(pd.DataFrame(X, columns=NAMES))
    with pytest.raises(ValueError, match="the first in column 'x1', row 0"):
        model.inverse_transform([[1.0, np.nan]])
    with pytest.raises(ValueError, match="the first in column 'b', row 4"):
        DPMeans().penalty_path(pd.DataFrame(GAPS, columns=["a", "b", "c"]))


@pytest.mark.parametrize(
    "missing",
    [
        lambda: [None, *Y[1:]],
        lambda: pd.Series([np.nan, *Y[1:]]),
        lambda: pd.Series([pd.NA, *Y[1:]], dtype="string"),
        lambda: pd.Series([None, *Y[1:]], dtype="category"),
        lambda: np.where(np.arange(30) == 0, np.nan, X[:, 0] > 0),
        lambda: pd.Series([pd.NA, *(X[1:, 0] > 0)], dtype="boolean"),
    ],
)
def test_missing_targets(missing):
    with pytest.raises(ValueError, match=r"y contains NaN: 1 of 30 targets are missing, the first in row 0"):
        ConvexCovariateClustering(1.0).fit(X, missing())
