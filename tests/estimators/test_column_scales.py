"""The warning about columns of different scale: where it must be given, and where it must not."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris, load_wine
from sklearn.decomposition import PCA
from sklearn.preprocessing import StandardScaler

from craftc import BPMeans, ConvexClustering, ConvexCovariateClustering, DPMeans, KFeatures, KPrototypes
from craftc._common.ranges import warn_of_unscaled_columns
from craftc.datasets import load_heart

RNG = np.random.default_rng(0)
METHODS = [DPMeans(), KFeatures(2), BPMeans(), ConvexClustering()]
UNITS = pd.DataFrame(
    {
        "bill": RNG.normal(44.0, 5.0, 60),
        "depth": RNG.normal(17.0, 2.0, 60),
        "mass": RNG.normal(4200.0, 800.0, 60),
    }
)
NUMBERS = {
    "wine": load_wine().data,
    "cancer": load_breast_cancer().data,
    "diabetes": load_diabetes(scaled=False).data,
    "heart": load_heart().data.select_dtypes("number").to_numpy(),
    "one of many": np.column_stack([RNG.normal(5.0, 1.0, (200, 40)), RNG.normal(900.0, 80.0, 200)]),
    "tiny units": RNG.normal(5.0, 1.0, (50, 2)) * [1e-200, 1e-198],
    "huge units": RNG.normal(5.0, 1.0, (50, 2)) * [1e300, 1e302],
    "money and indicators": np.column_stack(
        [RNG.normal(500.0, 90.0, 80), RNG.normal(5.0, 1.0, 80), RNG.integers(0, 2, (80, 6))]
    ),
}
ONE_UNIT = {
    "iris": load_iris().data,
    "digits": load_digits().data,
    "counts": RNG.negative_binomial(1, [0.9, 0.5, 0.01], (500, 3)),
    "indicators": RNG.random((3000, 5)) < [0.5, 0.1, 0.001, 0.0005, 0.3],
    "scaled and indicators": np.column_stack([RNG.normal(size=(3000, 3)), RNG.random((3000, 4)) < 0.002]),
    "scores": PCA().fit_transform(load_wine().data),
    "scores of some rows": PCA().fit_transform(load_breast_cancer().data)[::5],
    "scaled": StandardScaler().fit_transform(load_wine().data),
    "a narrow pixel": np.column_stack([RNG.normal(9.0, 1.0, (90, 30)), RNG.normal(9.0, 0.01, 90)]),
    "constant": np.column_stack([RNG.normal(9.0, 1.0, (90, 2)), np.full(90, 1e9)]),
    "one column": RNG.normal(size=(90, 1)),
    "few rows": UNITS[:19],
}


@pytest.mark.slow_except(2)
@pytest.mark.parametrize("method", METHODS, ids=lambda model: type(model).__name__)
def test_the_methods_warn(method):
    wide, narrow = UNITS["mass"].std(ddof=0), UNITS["depth"].std(ddof=0)
    words = (
        rf"deviation of 'mass' is {wide:.4g}, that of 'depth' {narrow:.4g}\. "
        rf"{type(method).__name__} compares .*StandardScaler"
    )
    with pytest.warns(UserWarning, match=words) as found:
        method.fit(UNITS)
    assert [warning.filename for warning in found] == [__file__]
    with pytest.warns(UserWarning, match=r"deviation of column 2 is .*, that of column 1 "):
        method.fit(UNITS.to_numpy())
    method.fit(StandardScaler().fit_transform(UNITS))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Columns differ in scale")
        method.fit(UNITS)


def test_coefficients_of_columns_of_different_units():
    classes = (UNITS["bill"] > 44.0).map({True: "long", False: "short"})
    method = ConvexCovariateClustering(1.0)
    with pytest.warns(
        UserWarning, match=r"of 'mass' is .*, that of 'depth' .* ConvexCovariateClustering comp"
    ):
        method.fit(UNITS, classes)
    method.fit(StandardScaler().fit_transform(UNITS), classes)
    method.fit(csr_array(UNITS), classes)  # counts


def test_covariances_know_the_scale():
    DPMeans(3.0, covariance=np.diag([25.0, 4.0, 64e4])).fit(UNITS)
    DPMeans(9.0, covariance="full-sized", n_clusters=None).fit(UNITS)


def test_kprototypes_compares_numbers_in_their_own_units():
    mixed = UNITS.assign(kind=["a", "b"] * (len(UNITS) // 2) + ["a"] * (len(UNITS) % 2))
    gaps = mixed.assign(depth=mixed["depth"].where(np.arange(len(mixed)) % 7 > 0))
    for table in (mixed, gaps, mixed[["kind", *UNITS]]):
        with pytest.warns(UserWarning, match=r"of 'mass' is .*, that of 'depth' .* KPrototypes compares"):
            KPrototypes(2, n_init=1, random_state=0).fit(table)
    scaled = pd.DataFrame(StandardScaler().fit_transform(UNITS), columns=UNITS.columns)
    KPrototypes(2, n_init=1, random_state=0).fit(scaled.assign(kind=mixed["kind"]))
    KPrototypes(2, n_init=1, random_state=0).fit(mixed[["depth", "kind"]])


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_columns_of_different_units(name, dtype):
    if dtype is np.float32 and "units" in name:
        pytest.skip("beyond the range of float32")
    with pytest.warns(UserWarning, match="Columns differ in scale"):
        warn_of_unscaled_columns(DPMeans(), NUMBERS[name].astype(dtype))


@pytest.mark.parametrize("name", ONE_UNIT)
def test_columns_of_one_unit(name):
    warn_of_unscaled_columns(DPMeans(), np.asarray(ONE_UNIT[name], np.float64))


def test_a_long_table_is_sampled():
    X = np.zeros((200_000, 2))
    X[:, 0], X[:, 1] = np.arange(200_000) % 7 + 1, 1000.0 * (np.arange(200_000) % 3)
    with pytest.warns(UserWarning, match=r"deviation of column 1 is 8.*, that of column 0 "):
        warn_of_unscaled_columns(DPMeans(), X)
