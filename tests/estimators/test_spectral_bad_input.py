"""Bad input to graph spectral features gets a sentence and changes nothing."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

from craftc import GraphSpectralFeatures, MixedTable

RNG = np.random.default_rng(0)
X = RNG.normal(size=(20, 3))
WITH_NAN = X.copy()
WITH_NAN[3, 1] = np.nan
FRAME = pd.DataFrame(
    {"a": X[:, 0], "b": X[:, 1], "c": ["u", "v"] * 10, "d": ["x", "y", "z", "y"] * 5}
)  # p = 6


def model_of(**parameters):
    return GraphSpectralFeatures(**{"n_components": 2, "random_state": 0, "n_threads": 1, **parameters})


PARAMETERS = [
    ({"n_components": 0}, "n_components must be a whole number >= 1, got 0"),
    ({"n_components": 2.0}, "n_components must be a whole number >= 1, got 2.0"),
    ({"n_components": True}, "n_components must be a whole number"),
    ({"n_components": None}, "n_components must be a whole number"),
    ({"n_components": "all"}, "n_components must be a whole number"),
    ({"laplacian": "unsigned"}, "laplacian must be one of 'signed', 'abs', got 'unsigned'"),
    ({"conditionals": "hat"}, "conditionals must be one of 'codes', 'dense', got 'hat'"),
    ({"groups": "probit"}, "groups must be one of 'softmax', 'logistic', got 'probit'"),
    ({"factorization": "nmf"}, "factorization must be one of 'hals', 'svd', got 'nmf'"),
    ({"unknown": "guess"}, "unknown must be one of 'ignore', 'error', got 'guess'"),
    ({"missing": "drop"}, "missing must be one of 'ignore', 'category', 'error', got 'drop'"),
    ({"l2": -0.1}, "l2 must be a number >= 0, got -0.1"),
    ({"l2": np.nan}, "l2 must be a number >= 0"),
    ({"l2": np.inf}, "l2 must be a number >= 0"),
    ({"l2": "auto"}, "l2 must be a number >= 0"),
    ({"l2": None}, "l2 must be a number >= 0"),
    ({"l1": -1}, "l1 must be a number >= 0, got -1"),
    ({"l1": "lasso"}, "l1 must be a number >= 0"),
    ({"beta": 0}, "beta must be a number >= 1e-100 and <= 1e.100, got 0"),
    ({"beta": -2.0}, "beta must be a number >= 1e-100"),
    ({"beta": np.inf}, "beta must be a number >= 1e-100"),
    ({"beta": None}, "beta must be a number >= 1e-100"),
    ({"eps": 0.0}, "eps must be a number > 0 and < 2 = beta, got 0.0"),
    ({"eps": 1e-320}, "eps=1e-320 is less than 1e-100 of beta"),
    ({"eps": 2.0}, "eps must be a number > 0 and < 2 = beta, got 2.0"),
    ({"eps": 0.6, "beta": 0.5}, "eps must be a number > 0 and < 0.5 = beta, got 0.6"),
    ({"eps": "tenth"}, "eps must be a number"),
    ({"grid_size": 1}, "grid_size must be a whole number >= 2 and <= 200, got 1"),
    ({"grid_size": 201}, "grid_size must be a whole number >= 2 and <= 200"),
    ({"grid_size": 16.0}, "grid_size must be a whole number"),
    ({"indicator_weight": 0.0}, "indicator_weight must be a number > 0"),
    ({"indicator_weight": -1.0}, "indicator_weight must be a number > 0"),
    ({"beta": 1e101}, "beta must be a number >= 1e-100 and <= 1e.100, got 1e.101"),
    ({"beta": 1e-101}, "beta must be a number >= 1e-100"),
    ({"tol": 0.0}, "tol must be a number > 0"),
    ({"tol": -1e-4}, "tol must be a number > 0"),
    ({"tol": "fine"}, "tol must be a number > 0"),
    ({"max_iter": 0}, "max_iter must be a whole number >= 1"),
    ({"max_iter": 1.5}, "max_iter must be a whole number >= 1"),
    ({"max_iter": None}, "max_iter must be a whole number >= 1"),
    ({"normalized": 1}, "normalized must be True or False, got 1"),
    ({"normalized": "yes"}, "normalized must be True or False"),
    ({"skip_first": None}, "skip_first must be True or False"),
    ({"unary": 0}, "unary must be True, False or 'free'"),
    ({"graph": "paper"}, r"graph must have shape \(6, 6\), a symmetric array of numbers.*, got \(\)"),
    ({"graph": np.ones((5, 5))}, r"graph must have shape \(6, 6\).*, got \(5, 5\)"),
    ({"graph": [[1.0], [1.0, 2.0]]}, "graph must be a symmetric array of numbers.*, which is no array"),
    ({"graph": np.full((6, 6), "one")}, "graph must be a symmetric array of numbers.*, got <U3"),
    ({"graph": np.full((6, 6), np.nan)}, "graph must have finite weights of at most 1e.100 in size, got nan"),
    ({"graph": np.full((6, 6), 1e101)}, "graph must have finite weights of at most 1e.100 in size"),
    ({"graph": np.triu(np.ones((6, 6)))}, "graph must be symmetric, got a difference of 1 to its transpose"),
    (
        {"graph": pd.DataFrame(np.ones((6, 6)), columns=list("abcdef"))},
        "graph must have the encoded columns of the table in their order, got 'c' at position 2, .*'c=v'",
    ),
    ({"n_factors": 0}, "n_factors must be a whole number >= 1"),
    ({"n_factors": 2.0}, "n_factors must be a whole number >= 1"),
    ({"random_state": "monday"}, "random_state must be None, a whole number"),
    ({"random_state": -1}, "random_state must be None"),
    ({"n_threads": 0}, "n_threads=0"),
    ({"n_threads": 1.5}, "n_threads must be None or a whole number"),
    ({"n_threads": "all"}, "n_threads must be"),
    ({"verbose": "loud"}, "verbose must be a whole number"),
    ({"verbose": -1}, "verbose must be a whole number >= 0"),
    ({"verbose": None}, "verbose must be a whole number"),
    (
        {"categorical": "some"},
        "categorical must be 'auto' or a list of column names, of positions, or of booleans, got 'some'",
    ),
    ({"categorical": None}, "categorical must be 'auto' or a list"),
    (
        {"categorical": ["nobody"]},
        "categorical names column 'nobody', but X has the columns 'a', 'b', 'c', 'd'",
    ),
    ({"categorical": [7]}, "categorical names position 7, but X has 4 columns"),
    ({"categorical": [True, False]}, "categorical is a mask of length 2, but X has 4 columns"),
    (
        {"categorical": [False, False, True, False]},
        "Column 'd' contains .* values where numbers are expected",
    ),
    # what the table is too small for: p = 6
    ({"n_components": 7}, "n_components must be at most 6, got 7: the table has p = 6 encoded columns"),
    (
        {"n_components": 6, "skip_first": True},
        "n_components must be at most 5, got 6.* p = 6 .*, and skip_first leaves one out",
    ),
    ({"n_factors": 7}, "n_factors must be at most p = 6, the number of encoded columns, got 7"),
]


@pytest.mark.parametrize(("parameters", "sentence"), PARAMETERS)
def test_parameters(parameters, sentence):
    model = model_of(**parameters)
    with pytest.raises((ValueError, TypeError), match=sentence):
        model.fit(FRAME)
    assert not any(
        hasattr(model, name) for name in ("graph_", "codes_", "components_", "objective_", "n_iter_")
    )


def test_the_largest_sizes_that_a_table_allows():
    assert model_of(n_components=6, n_factors=6).fit_transform(FRAME).shape == (20, 6)
    assert model_of(n_components=5, skip_first=True).fit_transform(FRAME).shape == (20, 5)
    assert model_of(eps=1.999, grid_size=2).fit_transform(FRAME).shape == (20, 2)


TABLES = [
    (np.array([["a", "b"], ["c", "d"]]), "The array contains text"),
    (X[:1], r"A graph needs at least two rows, got 1 sample \(n_samples = 1\)"),
    (FRAME[:1], "A graph needs at least two rows, got 1 sample"),
    (
        X[:, :1],
        r"at least two columns that vary, got 1 among 1 feature\(s\) \(n_features = 1\); constant columns "
        r"do not count",
    ),
    (FRAME.assign(b=np.where(np.arange(20) == 4, -np.inf, 1.0)), "infinity: column 'b'"),
    (FRAME.assign(e=[f"row {i}" for i in range(20)]), "Column 'e' has a different text in every row"),
    (
        FRAME.assign(e=pd.Categorical(range(20))),
        "Column 'e' must have fewer levels than rows, got 20 levels in 20 rows.*drop it or merge its levels",
    ),
    (FRAME.assign(e=np.nan), "Column 'e' has no value in any of its 20 row"),
    (FRAME.assign(e=[None] * 20), "Column 'e'"),
    (FRAME.assign(e=pd.date_range("2020-01-01", periods=20)), "Column 'e' has dtype .*, which is neither"),
    (FRAME.assign(e=[[1]] * 20), "Column 'e'"),
    (pd.concat([FRAME, FRAME[["a"]]], axis=1), "names must be unique"),
]


@pytest.mark.parametrize(("table", "sentence"), TABLES)
def test_tables(table, sentence):
    model = model_of()
    with pytest.raises((ValueError, TypeError), match=sentence):
        model.fit(table)
    assert not hasattr(model, "graph_")


@pytest.mark.parametrize(
    ("table", "usable"),
    [
        (FRAME[["a"]].assign(k=1.0, l="same"), 1),
        (FRAME[["d"]].assign(k=2), 1),  # three encoded columns, but of one variable
        (pd.DataFrame({"k": [1.0] * 4, "l": ["same"] * 4}), 0),
    ],
)
def test_constant_columns_do_not_count(table, usable):
    model, n = model_of(), table.shape[1]
    with (
        pytest.warns(UserWarning, match="Constant columns .* are left out: .*'k'"),
        pytest.raises(
            ValueError,
            match=rf"needs at least two columns that vary, got {usable} among {n} feature\(s\) \(n_features "
            rf"= {n}\)",
        ),
    ):
        model.fit(table)
    assert not hasattr(model, "graph_")


def test_missing_cells_where_there_may_be_none():
    with pytest.raises(
        ValueError, match=r"Column 'x1' has 1 missing value\(s\) \(NaN or null\); impute them"
    ):
        model_of(missing="error").fit(WITH_NAN)
    model = model_of(missing="error").fit(X)
    for call in (model.transform, model.score):
        with pytest.raises(ValueError, match=r"Column 'x1' has 1 missing value"):
            call(WITH_NAN)


def test_a_table_built_for_something_else():
    ready = MixedTable.from_data(FRAME)
    with pytest.raises(ValueError, match="built with missing='ignore', which differs"):
        model_of(missing="category").fit(ready)
    with pytest.raises(ValueError, match="built with categorical="):
        model_of(categorical=["a"]).fit(ready)
    model = model_of().fit(FRAME)
    with pytest.raises(ValueError, match="has another schema"):
        model.transform(MixedTable.from_data(FRAME[["a", "b"]]))


@pytest.mark.parametrize("n_constant", [1, 5, 8])
def test_constant_columns_are_said_once_by_name(n_constant):
    table = FRAME.assign(**{f"k{j}": float(j) for j in range(n_constant)})
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = model_of().fit(table)
        model.transform(table)
        model.score(table)
    names = ", ".join(f"'k{j}'" for j in range(min(5, n_constant))) + (
        f" and {n_constant - 5} more" if n_constant > 5 else ""
    )
    assert [str(w.message) for w in caught] == [
        f"Constant columns carry no information about dependence and are left out: {names}."
    ]
    assert caught[0].category is UserWarning
    assert caught[0].filename == __file__


# ---- new rows, and none before a fit ----


def test_new_rows():
    model = model_of().fit(FRAME)
    before = model.transform(FRAME)
    for call in (model.transform, model.score):
        with pytest.raises(ValueError, match=r"(?s)feature names should match.*now missing:\n- d"):
            call(FRAME[["a", "b", "c"]])
        with pytest.raises(ValueError, match=r"(?s)feature names should match.*unseen at fit time:\n- e"):
            call(FRAME.assign(e=1))
        with (
            pytest.warns(UserWarning, match="does not have valid feature names"),
            pytest.raises(ValueError, match="X has 3 features, but GraphSpectralFeatures is expecting 4"),
        ):
            call(FRAME.to_numpy(object)[:, :3])
        with pytest.raises(ValueError, match="infinity"):
            call(FRAME.assign(a=np.inf))
        with pytest.raises(ValueError, match="0 sample"):
            call(FRAME[:0])
        with pytest.raises(TypeError, match=r"Column 'a' contains .* values where numbers are expected"):
            call(FRAME.assign(a="text"))
        call(FRAME[:1])
    strict = model_of(unknown="error").fit(FRAME)
    message = (
        r"Column 'c' contains 1 level\(s\) that did not occur in fit: 'w'; "
        "remove the rows, or pass unknown='ignore'"
    )
    with pytest.raises(ValueError, match=message):
        strict.transform(FRAME.assign(c="w"))
    np.testing.assert_array_equal(model.transform(FRAME), before)


@pytest.mark.parametrize("wild", [1e25, 1e150, 1e300])
def test_a_wild_row_disturbs_no_other(wild):
    model = model_of().fit(FRAME)
    table = pd.concat([FRAME, FRAME[:2].assign(a=[wild, -wild])], ignore_index=True)
    features = model.transform(table)
    np.testing.assert_array_equal(features[:20], model.transform(FRAME))
    assert np.isfinite(features).all()
    assert np.isfinite(model.score(table))


@pytest.mark.parametrize(
    "wrong",
    [np.zeros((4, 3)), np.zeros((4, 1)), np.zeros(2), np.zeros((1, 4, 2)), np.zeros((0,)), 3.0, [[1.0]]],
)
def test_the_inverse_needs_features(wrong):
    model = model_of().fit(FRAME)
    sentence = f"inverse_transform needs 2 features for every row, got shape {np.shape(wrong)}"
    with pytest.raises(ValueError, match=re.escape(sentence) if np.ndim(wrong) == 2 else "2D array|dim 3"):
        model.inverse_transform(wrong)


@pytest.mark.parametrize(
    ("top", "error"), [(-1, ValueError), (2.0, TypeError), ("all", TypeError), (True, TypeError)]
)
def test_how_many_edges(top, error):
    with pytest.raises(error, match="top must be a whole number >= 0, got"):
        model_of().fit(FRAME).edges(top)


METHODS = {
    "transform": (FRAME,),
    "inverse_transform": (X[:, :2],),
    "score": (FRAME,),
    "edges": (),
    "get_feature_names_out": (),
}


@pytest.mark.parametrize("method", METHODS)
def test_nothing_before_a_fit(method):
    with pytest.raises(NotFittedError, match="not fitted yet"):
        getattr(GraphSpectralFeatures(), method)(*METHODS[method])


def test_a_failed_refit_keeps_the_old_result():
    model = model_of().fit(FRAME)
    before, score = model.transform(FRAME), model.score(FRAME)
    good = model.get_params()
    for parameters in (
        {"laplacian": "unsigned"},
        {"n_components": 7},
        {"n_factors": 7},
        {"verbose": "loud"},
        {"n_threads": 0},
    ):
        with pytest.raises((ValueError, TypeError), match=r"must|n_threads"):
            model.set_params(**parameters).fit(FRAME)
        model.set_params(**good)
    for table, sentence in ((FRAME.assign(a=np.inf), "infinity"), (FRAME[:1], "two rows")):
        with pytest.raises(ValueError, match=sentence):
            model.fit(table)
    np.testing.assert_array_equal(model.transform(FRAME), before)
    assert model.score(FRAME) == score
