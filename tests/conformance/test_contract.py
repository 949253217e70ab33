"""What all estimators have in common: errors for tables that they cannot read, fits that change all or
nothing, and finite results.
"""

from __future__ import annotations

import os
import re
import time
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy.sparse import csr_matrix
from sklearn.base import clone

import craftc
from craftc import ConvexClustering, ConvexCovariateClustering, DPMeans, FeatureSelectionMixture
from craftc._common.validation import Choice, Number
from tests.common import fixed_price
from tests.fuzz.invariants import copied, difference
from tests.registry import (
    ESTIMATORS,
    SHORT_ARGUMENTS,
    constraints,
    fit,
    methods,
    modes,
    name_of,
    needs_classes,
    new,
    reads_categories,
    suited,
    takes_weights,
)

Y = np.arange(24) % 2
X = np.random.default_rng(0).normal(size=(24, 3)) + 6.0 * Y[:, None]
NUMBERS_ONLY = [name for name in ESTIMATORS if not reads_categories(name)]
MODES = modes()

# ---- tables ----

INFINITE = np.where(np.arange(72).reshape(24, 3) == 10, np.inf, X)
MISSING = np.where(np.isinf(INFINITE), np.nan, X)
#: Tables that no estimator takes, and what the error says.
BAD_TABLES = {
    "no rows": (np.empty((0, 3)), "0 sample"),
    "no columns": (np.empty((5, 0)), "0 feature"),
    "infinity": (INFINITE, "inf"),
    "minus infinity, float32": (-INFINITE.astype(np.float32), "inf"),
    "complex": (X.astype(complex), "Complex data not supported"),
    "one dimension": (X[:, 0], "2D array"),
    "three dimensions": (X[None], "dim 3|3 dimensions|3D"),
    "sparse": (csr_matrix(X), "[Ss]parse"),
    "None": (None, "got None"),
    "ragged": ([[1, 2], [3]], "equal length"),
    "two tables": ([X[:, :1], X], "one table"),
}
NULLS = pd.DataFrame(X, columns=list("abc")).astype(object).mask(X[3, 1] == X, pd.NA)
FITS = ("fit", "fit_predict", "fit_transform", "partial_fit", "penalty_path")


def refuses(mode, table, sentence):
    """Every method that fits refuses the table and sets no fitted attribute."""
    classes = [np.arange(24) % 2] if needs_classes(name_of(MODES[mode])) else []
    for method in FITS:
        model = clone(MODES[mode])
        if hasattr(model, method):
            call = getattr(model, method)
            with pytest.raises((ValueError, TypeError), match=sentence):
                call(table, *classes)
            assert not [name for name in vars(model) if name.endswith("_") and not name.startswith("_")], (
                method
            )


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", BAD_TABLES)
def test_bad_tables(kind, mode):
    table, sentence = BAD_TABLES[kind]
    model = MODES[mode]
    if kind == "sparse" and model.__sklearn_tags__().input_tags.sparse:
        assert clone(model).fit(table, Y).n_features_in_ == 3
    else:
        refuses(mode, table, f"{sentence}|needs counts")


@pytest.mark.parametrize(
    "mode", [mode for mode in MODES if not MODES[mode].__sklearn_tags__().input_tags.allow_nan]
)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_missing_cells_where_there_is_no_model_of_them(dtype, mode):
    refuses(mode, MISSING.astype(dtype), "NaN")
    refuses(mode, pd.DataFrame({"a": [1.0, None, 2.0] * 8}), "NaN")


def frame(**columns):
    return pd.DataFrame({"a": np.arange(6.0), **columns})


def tables():
    text = frame(kind=list("xyzxyz"))
    dates = pd.DataFrame({"day": pd.date_range("2020", periods=6)})
    return {
        "text": (text, TypeError, r"'kind' cannot be read as numbers.*got 'x'; \w+ takes numbers only"),
        "polars text": (pl.from_pandas(text), TypeError, r"'kind' cannot be read as numbers.*got 'x'"),
        "Arrow text": (pa.Table.from_pandas(text), TypeError, r"'kind' cannot be read as numbers.*got 'x'"),
        "array of text": (
            np.array([["a", "b"]] * 6),
            TypeError,
            r"'x0' cannot be read as numbers.*got '?np.str_\('a'\)|got 'a'",
        ),
        "categories": (frame(c=pd.Categorical(list("ababab"))), TypeError, "'c' cannot be read as numbers"),
        "dates": (dates, TypeError, "'day' cannot be read as numbers"),
        "dates and numbers": (
            frame(day=pd.date_range("2020", periods=6)),
            TypeError,
            "'day' cannot be read as numbers: it holds dates",
        ),
        "array of dates": (dates.to_numpy(), TypeError, "'x0' cannot be read as numbers.*datetime64"),
        "objects": (
            np.array([[{}, 1]] * 6, dtype=object),
            TypeError,
            "'x0' cannot be read as numbers.*got {}",
        ),
        "complex": (frame(c=[1j] * 6), TypeError, "'c' cannot be read as numbers"),
        "ragged": (
            [[1, 2], [3], [4, 5]],
            ValueError,
            r"equal length, got 2 cell\(s\) in row 0 and 1 in row 1",
        ),
        "two columns of one name": (
            pd.DataFrame(np.ones((6, 2)), columns=["a", "a"]),
            ValueError,
            r"unique, got \['a', 'a'\]",
        ),
        "dict of texts": (
            {"a": [1.0] * 20, "b": ["x"] * 20},
            TypeError,
            r"Column 'b' cannot be read as numbers.*got 'x'",
        ),
    }


@pytest.mark.filterwarnings("ignore:X has feature names")
@pytest.mark.parametrize("name", NUMBERS_ONLY)
@pytest.mark.parametrize("kind", tables())
def test_tables_that_are_not_numbers(kind, name):
    table, error, sentence = tables()[kind]
    with pytest.raises(error, match=sentence):
        fit(new(name), table)
    fitted = fit(new(name), X[:, :2])
    for method in ("predict", "transform"):
        if hasattr(fitted, method):
            with pytest.raises((error, ValueError)):
                getattr(fitted, method)(table)


def test_nullable_columns_and_others():
    """pandas converts these to objects with NA."""
    table = pd.DataFrame(
        {
            "a": pd.array([1, None, 3, 4] * 5, dtype="Int64"),
            "b": [True, False, True, True] * 5,
            "c": np.arange(20.0),
        }
    )
    as_floats = table.astype(object).where(table.notna(), np.nan).astype(float)
    model = FeatureSelectionMixture(2, n_init=1, random_state=0)
    np.testing.assert_array_equal(
        model.fit(table).feature_probabilities_, model.fit(as_floats).feature_probabilities_
    )
    with pytest.raises(ValueError, match="NaN"):
        DPMeans(1.0).fit(table)


# ---- all or nothing ----

REFUSED = {
    "a wider table with infinity": lambda: np.full((24, 5), np.inf),
    "other names": lambda: pd.DataFrame(np.full((24, 2), np.inf), columns=["p", "q"]),
    "text": lambda: pd.DataFrame({"p": [{}] * 24, "q": [1.0] * 24}),
    "no rows": lambda: np.ones((0, 2)),
}


@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.parametrize("table", REFUSED)
def test_a_refused_fit_changes_nothing(table, name):
    fitted = fit(new(name), pd.DataFrame(X, columns=["a", "b", "c"]))
    before = copied(vars(fitted))
    with pytest.raises((ValueError, TypeError)):
        fit(fitted, REFUSED[table]())
    assert difference(vars(fitted), before) is None
    method = (
        "predict"
        if hasattr(fitted, "predict")
        else "transform"
        if hasattr(fitted, "transform")
        else "summary"
    )
    getattr(fitted, method)(*([] if method == "summary" else [pd.DataFrame(X, columns=["a", "b", "c"])]))


#: Weights that no estimator takes, and what the error says.
BAD_WEIGHTS = [
    (-np.ones(24), "finite and >= 0"),
    (np.full(24, np.nan), "finite and >= 0"),
    (np.full(24, np.inf), "finite and >= 0"),
    (np.zeros(24), "zero"),
    (np.ones(23), r"\(23,\), expected \((24|3),\): one weight for every row"),
    (np.ones((24, 1)), "1D"),
    (["heavy"] * 24, "numbers"),
    (np.full(24, 1e300), "weight"),
]


@pytest.mark.parametrize("name", list(filter(takes_weights, ESTIMATORS)))
@pytest.mark.parametrize(("weight", "sentence"), BAD_WEIGHTS)
def test_refused_weights_change_nothing(weight, sentence, name):
    fitted = fit(new(name), X)
    before = copied(vars(fitted))
    classes = {"y": np.arange(24) % 2} if needs_classes(name) else {}
    for method in ("fit", "partial_fit", "penalty_path"):
        if hasattr(fitted, method):
            with pytest.raises(ValueError, match=sentence):
                getattr(fitted, method)(X, sample_weight=weight, **classes)
    assert difference(vars(fitted), before) is None


@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_method_of_a_table_takes_that_of_the_fit_and_warns_once(name):
    model = new(name, n_threads=1)
    rows = suited(model, X)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit(model, rows)
    for method, arguments in methods(name).items():
        if "X" not in arguments or not hasattr(model, method):
            continue
        for table in (rows, pd.DataFrame(rows, columns=list("abc")), NULLS):
            given = [{"X": table, "k": 2}[kind] for kind in arguments]
            with warnings.catch_warnings(record=True) as warned:
                warnings.simplefilter("always")
                try:
                    getattr(copied(model), method)(*given, **SHORT_ARGUMENTS.get(method, {}))
                except ValueError as error:
                    expected = table is not rows and re.search("NaN|table of fit", str(error))
                    if not expected:
                        raise
            said = [str(each.message) for each in warned]
            assert len(said) == len(set(said)), method


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ESTIMATORS)
def test_numbers_of_numpy_as_parameters_give_the_bits_of_those_of_python(name):
    def number_of(constraint):
        while isinstance(constraint, Choice):
            constraint = constraint.other
        return constraint if isinstance(constraint, Number) and not constraint.whole else None

    for parameter, constraint in constraints(name).items():
        if (number := number_of(constraint)) is None:
            continue
        ends = [bound for bound in (number.most, number.below, 2.0) if bound is not None]
        value = 0.5 * min(ends)  # float32 has it
        fitted = []
        for given in (value, np.float32(value)):
            model = new(name, n_threads=1, **{parameter: given})
            fit(model, suited(model, X))
            fitted.append({key: each for key, each in vars(model).items() if key.endswith("_")})
        assert difference(*fitted) is None, parameter


def test_an_interrupted_fit_changes_nothing(monkeypatch):
    model = DPMeans(10.0).fit(X)
    before = copied(vars(model))

    def interrupt(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(DPMeans, "_set_spherical_state", interrupt)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X[:, :1])
    assert difference(vars(model), before) is None


# ---- model files ----


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning", "ignore::UserWarning")
@pytest.mark.parametrize("mode", MODES)
def test_a_model_file_gives_the_same_results(mode, tmp_path):
    model = clone(MODES[mode])
    rows = suited(model, X)
    fit(model, rows)
    craftc.save_model(model, tmp_path / "model")
    again = craftc.load_model(tmp_path / "model")
    assert type(again) is type(model)
    for method in ("predict", "predict_proba", "decision_function", "transform", "score_samples", "margins"):
        if hasattr(model, method):
            found, expected = getattr(again, method)(rows), getattr(model, method)(rows)
            np.testing.assert_array_equal(found, expected, err_msg=method, strict=True)
    if hasattr(model, "summary"):
        pd.testing.assert_frame_equal(again.summary(), model.summary(), check_exact=True)


# ---- results are finite ----


@pytest.mark.parametrize("name", NUMBERS_ONLY)
@pytest.mark.parametrize("scale", [1e155, 1e200, 1e300])
def test_tables_whose_squares_overflow(scale, name):
    with pytest.raises(ValueError, match=r"Column 'x0' ranges from.*scale it down"):
        fit(new(name), X * scale)


@pytest.mark.parametrize("name", NUMBERS_ONLY)
@pytest.mark.parametrize("scale", [1e-160, 1e-300])
def test_tables_whose_squares_underflow(scale, name):
    with pytest.raises(ValueError, match=r"scale it up"):
        fit(new(name), X * scale)


def test_a_row_of_weight_nought_must_be_representable_too():
    with pytest.raises(ValueError, match=r"ranges from 0 to 1e\+200"):
        DPMeans(1.0).fit([[0.0], [1.0], [1e200]], sample_weight=[1, 1, 0])


@pytest.mark.filterwarnings("ignore:Columns differ in scale")
def test_a_column_of_denormal_numbers_among_others():
    rng = np.random.default_rng(0)
    table = np.c_[X, rng.integers(0, 9, 24) * 5e-324]
    np.testing.assert_array_equal(DPMeans(10.0).fit(table).labels_, DPMeans(10.0).fit(X).labels_)


@pytest.mark.filterwarnings("ignore:DPMeans stopped")
def test_a_price_beyond_float64_is_no_result():
    with pytest.raises(ValueError, match=r"no finite result for this input: objective_ would contain inf"):
        DPMeans(1.7e308, init=np.arange(24) % 3, max_iter=1).fit(
            np.repeat([[0.0], [1e149], [-1e149]], 8, axis=0)
        )


def test_weights_that_sums_would_lose():
    with pytest.raises(
        ValueError, match=r"sample_weight ranges from 1e-30 to 1, .* below 9e-10 of the largest to 0"
    ):
        DPMeans(10.0).fit(X, sample_weight=np.where(Y == 1, 1.0, 1e-30))
    light = DPMeans(1e-6, init=Y).fit(X, sample_weight=np.where(Y == 1, 1.0, 1e-8))
    np.testing.assert_allclose(light.cluster_centers_[0], X[light.labels_ == 0].mean(axis=0), rtol=1e-3)
    DPMeans(10.0).fit(X, sample_weight=np.where(Y == 1, 2.0**40, 1.0))


def test_distances_to_rows_whose_squares_overflow():
    model = DPMeans(10.0).fit(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        distances = model.transform(np.vstack([X, np.full((1, 3), 1e200)]))
    np.testing.assert_array_equal(distances[:-1], model.transform(X))
    np.testing.assert_allclose(distances[-1], np.sqrt(3.0) * 1e200)


def test_rows_of_weight_nought_count_for_the_order_of_the_clusters():
    weight = np.r_[0.0, np.ones(23)]
    labels = FeatureSelectionMixture(3, n_init=1, random_state=0).fit(X[::-1], sample_weight=weight).labels_
    first = np.unique(labels, return_index=True)[1]
    assert (np.diff(first) > 0).all()


# ---- after a fork ----


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize(
    "model", [ConvexClustering(0.1), ConvexCovariateClustering(1.0, similarity="knn")], ids=name_of
)
def test_nearest_neighbours_in_a_child(model):
    fit(model, X)
    child = os.fork()
    if child == 0:
        try:
            warnings.simplefilter("ignore")  # one thread, where the parent had several
            fit(model, X)
            os._exit(0)
        finally:
            os._exit(1)
    for _ in range(600):
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            assert status == 0
            return
        time.sleep(0.05)
    os.kill(child, 9)
    os.waitpid(child, 0)
    pytest.fail("the child hangs")


# ---- rows of weight 0 whose cluster is dropped ----


@pytest.mark.filterwarnings("ignore:PaperCRAFT stopped")
def test_only_rows_that_lost_their_cluster_are_assigned_again():
    """After two passes the rows of weight > 0 are not yet in their cheapest clusters."""
    rng = np.random.default_rng(0)
    for seed in range(40):
        table, weight = rng.normal(size=(58, 2)), rng.integers(0, 3, 58)
        model = fixed_price(
            cluster_price=100.0, numeric="raw", n_init=1, max_iter=1, init="random", random_state=seed
        )
        model.fit(table, sample_weight=weight)
        np.testing.assert_array_equal(
            np.bincount(model.labels_, weight, model.n_clusters_), model.cluster_sizes_
        )


def test_a_covariance_that_overflows():
    with pytest.raises(ValueError, match="covariance of cluster 0 overflows"):
        DPMeans(1e-60, covariance="full", covariance_prior=1e300, init=Y).fit(X)
