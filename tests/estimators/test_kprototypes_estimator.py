"""KModes and KPrototypes: input, parameters, weights, missing cells, results; see
test_kprototypes_against_reference.py for the passes.
"""

from __future__ import annotations

import pickle
import warnings
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from craftc import KModes, KPrototypes, MixedTable
from craftc._common.validation import integer_weights
from craftc.describe.statistics import column_statistics
from craftc.kprototypes.init import cao_modes
from craftc.kprototypes.problem import MATCHING, Problem
from craftc.table.moments import integer_grid
from tests.common import random_table

pytestmark = pytest.mark.filterwarnings("ignore:Columns differ in scale")
RNG = np.random.default_rng(0)
GROUP = RNG.integers(0, 3, 200)
LEVELS = np.where(RNG.random((200, 4)) < 0.7, GROUP[:, None], RNG.integers(0, 4, (200, 4)))
FRAME = pd.DataFrame(
    {
        "age": RNG.normal(size=200) + 4.0 * GROUP,
        "town": np.array(["Bern", "Basel", "Chur", "Zug"])[LEVELS[:, 0]],
        "size": RNG.normal(size=200) - 3.0 * GROUP,
        "colour": np.array(["red", "green", "blue", "grey"])[LEVELS[:, 1]],
    }
)
OBJECTS = FRAME.to_numpy(object)
MODELS = [KModes(3, random_state=0), KPrototypes(3, n_init=2, random_state=0)]
UPDATES = ("online", "batch")


def same(a, b):
    np.testing.assert_array_equal(a.labels_, b.labels_)
    assert (a.cost_, a.epoch_costs_, a.n_iter_) == (b.cost_, b.epoch_costs_, b.n_iter_)


def test_numbers_and_text_in_one_array():
    model = KPrototypes(3, random_state=0).fit(OBJECTS, categorical=[1, 3])
    same(model, KPrototypes(3, random_state=0, categorical=[1, 3]).fit(OBJECTS))
    same(model, KPrototypes(3, random_state=0).fit(FRAME))
    np.testing.assert_array_equal(model.predict(OBJECTS, categorical=[1, 3]), model.labels_)
    np.testing.assert_array_equal(model.predict(OBJECTS), model.labels_)
    np.testing.assert_array_equal(
        KPrototypes(3, random_state=0).fit_predict(OBJECTS, categorical=[1, 3]), model.labels_
    )
    assert model.cluster_centroids_.shape == (3, 4)
    assert [type(value) for value in model.cluster_centroids_[0]] == [
        float,
        float,
        str,
        str,
    ]  # numbers first, as kmodes has them


def test_frames_of_all_libraries():
    model = KPrototypes(3, n_init=2, random_state=0).fit(FRAME)
    for table in (
        pl.from_pandas(FRAME),
        pa.Table.from_pandas(FRAME),
        FRAME.to_dict("list"),
        MixedTable.from_data(FRAME),
    ):
        other = KPrototypes(3, n_init=2, random_state=0).fit(table)
        same(model, other)
        np.testing.assert_array_equal(model.predict(table), model.labels_)
    assert isinstance(
        KPrototypes(3, n_init=1, random_state=0).fit(pl.from_pandas(FRAME)).centroids(), pl.DataFrame
    )
    np.testing.assert_array_equal(model.predict(FRAME[["colour", "size", "town", "age"]]), model.labels_)
    assert model.feature_names_in_.tolist() == list(FRAME)


def test_one_categorical_column_by_position_or_name():
    same(
        KPrototypes(3, random_state=0).fit(OBJECTS[:, :2], categorical=1),
        KPrototypes(3, random_state=0).fit(FRAME[["age", "town"]]),
    )
    named = KPrototypes(3, random_state=0).fit(FRAME[["age", "town"]], categorical=["town"])
    same(named, KPrototypes(3, random_state=0).fit(FRAME[["age", "town"]]))
    with pytest.raises(ValueError, match=r"must name the categorical columns of fit, \['town'\], got \[0\]"):
        named.predict(FRAME[["age", "town"]], categorical=[0])


def test_text_that_is_not_named():
    unnamed = KPrototypes(3, random_state=0).fit(OBJECTS)
    same(unnamed, KPrototypes(3, random_state=0).fit(OBJECTS, categorical=unnamed.schema_.categorical_names))


def test_numbers_are_levels_to_k_modes():
    model = KModes(3, random_state=0).fit(LEVELS)
    same(model, KModes(3, random_state=0).fit(LEVELS.astype(str)))
    assert model.cluster_centroids_.dtype == np.int64
    assert KModes(3, random_state=0).fit(LEVELS.astype(str)).cluster_centroids_.dtype.kind == "U"
    same(model, KModes(3, random_state=0).fit(LEVELS, categorical=[0, 1, 2, 3]))
    with pytest.raises(
        ValueError, match=r"categorical=\[0\] leaves out 'x1'; pass these columns alone, or use KPrototypes"
    ):
        KModes(3).fit(LEVELS, categorical=[0])


def test_neither_categories_nor_numbers():
    numbers = FRAME[["age", "size"]]
    for update in UPDATES:
        model = KPrototypes(3, n_init=5, random_state=0, update=update).fit(numbers)
        means = np.array([numbers[model.labels_ == k].mean() for k in range(3)])
        np.testing.assert_allclose(model.cluster_centroids_, means, rtol=1e-6)
    same(
        KPrototypes(3, init="Cao", gamma=1.0, random_state=0).fit(FRAME[["town", "colour"]]),
        KModes(3).fit(FRAME[["town", "colour"]]),
    )


def test_gamma():
    model = KPrototypes(3, n_init=1, random_state=0).fit(FRAME)
    assert model.gamma_ == pytest.approx(0.5 * FRAME[["age", "size"]].std(ddof=0).mean(), rel=1e-9)
    assert model.gamma is None  # kmodes overwrites the parameter
    assert KPrototypes(3, gamma=2, n_init=1, random_state=0).fit(FRAME).gamma_ == 2.0
    assert KPrototypes(2, n_init=1, random_state=0).fit(FRAME.assign(age=1.0, size=2.0)).gamma_ == 1.0
    for gamma in (-1.0, np.nan, np.inf, "auto"):
        with pytest.raises((ValueError, TypeError), match="gamma must be"):
            KPrototypes(3, gamma=gamma).fit(FRAME)


@pytest.mark.parametrize("missing", ["ignore", "category"])
@pytest.mark.parametrize("update", UPDATES)
def test_missing_cells(update, missing):
    gaps = FRAME.mask(np.random.default_rng(1).random(FRAME.shape) < 0.2)
    model = KPrototypes(3, n_init=3, update=update, missing=missing, random_state=0).fit(gaps)
    assert np.isfinite(model.cost_)
    np.testing.assert_array_equal(model.predict(gaps), model.labels_)
    nothing = model.predict(
        pd.DataFrame({"age": [np.nan], "town": [None], "size": [np.nan], "colour": [None]})
    )
    assert missing == "category" or nothing[0] == 0  # all prototypes are equally near
    modes = KModes(3, missing=missing, update=update).fit(gaps[["town", "colour"]])
    assert ("(missing)" in modes.schema_.levels[0]) == (missing == "category")


def test_missing_cells_may_be_an_error():
    gaps = FRAME.mask(np.random.default_rng(1).random(FRAME.shape) < 0.2)
    for model in MODELS:
        with pytest.raises(ValueError, match="missing value"):
            type(model)(3, missing="error").fit(gaps)
    with pytest.raises(ValueError, match="missing value"):
        KModes(3, missing="error").fit(FRAME).predict(gaps)


def test_a_missing_cell_costs_nothing():
    rows = pd.DataFrame({"a": ["x", "x", "y", "y", "y"], "b": ["u", "u", "v", "v", None]})
    model = KModes(2, random_state=0).fit(rows)
    assert model.cost_ == 0.0
    assert len(np.unique(model.labels_[2:])) == 1


@pytest.mark.filterwarnings("ignore:Column .* has no value in any of these rows")
def test_levels_that_fit_has_not_seen():
    model = KPrototypes(3, random_state=0).fit(FRAME)
    new = FRAME.assign(town="Genf")
    with pytest.warns(UserWarning, match="'town': no value of these rows occurred in fit"):
        labels = model.predict(new)
    np.testing.assert_array_equal(labels, model.predict(FRAME.assign(town=None)))
    with pytest.raises(ValueError, match=r"'town' contains 1 level\(s\) that did not occur in fit: 'Genf'"):
        KPrototypes(3, unknown="error", n_init=1, random_state=0).fit(FRAME).predict(new)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("update", UPDATES)
def test_means_to_the_last_digit(update, weighted, dtype):
    """Against fractions: decimals, numbers far from 0, of a wide range, and columns with gaps."""
    rng = np.random.default_rng(2)
    X = np.array([[0.2, 1e6, 738.5, -2.0]], dtype) + (10.0 ** rng.normal(size=(90, 4))).round(2)
    X[:, 3] *= 10.0 ** rng.integers(-3, 3, 90)
    X[rng.random(X.shape) < 0.1] = np.nan
    X = X.astype(dtype)
    weight = rng.integers(0, 9, 90) / 4 if weighted else None
    model = KPrototypes(3, n_init=3, random_state=0, update=update)
    model.fit(X, sample_weight=weight)
    assert model.converged_
    np.testing.assert_array_equal(model.labels_, model.predict(X))
    assert model.epoch_costs_[-1] == model.cost_
    for k, d in np.ndindex(model.cluster_centroids_.shape):
        own = (model.labels_ == k) & ~np.isnan(X[:, d])
        counts = [Fraction(float(v)) for v in (np.ones(90) if weight is None else weight)[own]]
        if total := sum(counts):
            mean = sum(v * Fraction(float(x)) for v, x in zip(counts, X[own, d], strict=True)) / total
            np.testing.assert_array_max_ulp(model.cluster_centroids_[k, d], np.float64(float(mean)))


def test_arguments_of_fit_by_position():
    """Those of kmodes."""
    weight = np.arange(len(FRAME)) % 3
    named, placed = KModes(3).fit(LEVELS, sample_weight=weight), KModes(3).fit(LEVELS, None, weight)
    same(placed, named)
    model = KPrototypes(3, n_init=1, random_state=0).fit(OBJECTS, None, [1, 3], weight)
    same(model, clone(model).fit(OBJECTS, categorical=[1, 3], sample_weight=weight))


@pytest.mark.parametrize("kind", ["matching", "ng", "jaccard-label"])
@pytest.mark.parametrize("init", ["Huang", "Cao", "random"])
@pytest.mark.parametrize("missing", [0.0, 0.1])
def test_weights_are_repeated_rows(init, kind, missing):
    """From the same draws: rows are drawn in proportion to their weights.

    With "online" a row of weight 2 moves at once, not one copy after the other, which dissimilarities other
    than "matching" can show.
    """
    table = random_table(4, n=120, p=2, q=3, missing=missing)
    weight = np.random.default_rng(3).integers(0, 4, 120)
    repeated = table.take(np.repeat(np.arange(120), weight))
    for update in UPDATES if kind == "matching" else ("batch",):
        model = KPrototypes(4, init=init, cat_dissim=kind, n_init=2, update=update, random_state=0).fit(
            table, sample_weight=weight
        )
        again = KPrototypes(4, init=init, cat_dissim=kind, n_init=2, update=update, random_state=0).fit(
            repeated
        )
        np.testing.assert_array_equal(np.repeat(model.labels_, weight), again.labels_)
        assert model.epoch_costs_ == again.epoch_costs_
        assert model.cluster_centroids_.tolist() == again.cluster_centroids_.tolist()


def test_rows_without_weight():
    weight = np.ones(200)
    weight[150:] = 0.0
    model = KPrototypes(3, init="Cao", n_init=2, random_state=0).fit(FRAME, sample_weight=weight)
    assert (model.labels_[150:] == model.predict(FRAME[150:])).all()
    assert model.cluster_sizes_.sum() == 150
    small = KPrototypes(3, init="Cao", n_init=2, random_state=0).fit(FRAME, sample_weight=weight * 0.5)
    np.testing.assert_array_equal(small.labels_, model.labels_)
    assert small.cost_ == pytest.approx(model.cost_ / 2, rel=1e-9)
    for bad in (-weight, weight[:5], np.zeros(200), np.full(200, np.nan)):
        with pytest.raises(ValueError, match="ample"):
            KModes(3).fit(LEVELS, sample_weight=bad)


def test_summary_of_a_cluster_without_weight():
    """A prototype that no row of weight is nearest to."""
    model = KPrototypes(2, init="Cao", random_state=0).fit(FRAME)
    moments = model._prototypes.sums.moments()
    moments.groups[1] = 0
    number = column_statistics(moments, model.schema_)[0]
    assert number.missing.tolist() == [0.0, 0.0, 0.0]
    assert np.isnan(number.means[1])


def test_cao_starts_at_a_row_with_weight():
    """The densest levels may stand together in a row that counts for nothing."""

    def modes(rows, weight):
        table, (integers, unit) = MixedTable.from_data(rows, categorical=[0, 1]), integer_weights(weight)
        problem = Problem(table, integers, unit, integer_grid(table, integers), MATCHING, None, 1)
        return cao_modes(problem, 2).tolist()

    rows = np.array([["u", "v"], *[["u", "x"]] * 3, *[["y", "v"]] * 3, ["z", "z"]], dtype=object)
    assert modes(rows, np.r_[0.0, np.ones(7)]) == modes(rows[1:], np.ones(7)) != modes(rows, np.ones(8))


@pytest.mark.filterwarnings("ignore:.*fewer than n_clusters:UserWarning")
@pytest.mark.parametrize("K", [4, 5, 100, 10**6])
def test_more_clusters_than_distinct_rows(K):
    rows = pd.DataFrame({"x": [1.0, 1.0, 2.0, 2.0, 1.0] * 3, "c": list("aabba") * 3})
    rows.loc[14] = [3.0, "b"]
    rows.loc[13, "c"] = "a"
    for model in (KPrototypes(K, random_state=0), KModes(K)):
        model.fit(rows)
        assert (model.n_clusters_, model.cost_, model.n_iter_, model.epoch_costs_) == (4, 0.0, 0, [0.0])
        assert model.converged_
        assert len(np.unique(model.labels_)) == 4
        np.testing.assert_array_equal(model.predict(rows), model.labels_)
        pd.testing.assert_frame_equal(
            model.centroids().iloc[model.labels_].reset_index(drop=True), rows, check_dtype=False
        )


def test_one_cluster_and_one_row():
    for model in (KPrototypes(1, random_state=0), KModes(1)):
        assert (model.fit(FRAME).labels_ == 0).all()
        assert model.fit(FRAME[:1]).cost_ == 0.0


@pytest.mark.parametrize("update", UPDATES)
@pytest.mark.parametrize("init", ["Huang", "Cao", "random"])
def test_the_same_bits_for_any_number_of_threads(init, update, monkeypatch):
    monkeypatch.setattr("craftc._common.threads.SMALL_WORK", 0)
    table = random_table(1, n=3000, p=4, q=4)
    for n_init in (1, 4):
        one, two = (
            KPrototypes(9, init=init, n_init=n_init, update=update, random_state=0, n_threads=n, max_iter=5)
            for n in (1, 3)
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            same(one.fit(table), two.fit(table))
        assert one.cluster_centroids_.tolist() == two.cluster_centroids_.tolist()
        again = pickle.loads(pickle.dumps(one))
        np.testing.assert_array_equal(again.predict(table), one.labels_)


@pytest.mark.parametrize("kind", ["matching", "ng", "jaccard-label"])
def test_batch_never_raises_the_cost(kind):
    for seed in range(20):
        table = random_table(seed, n=60, p=seed % 3, q=4)
        model = KPrototypes(
            4, update="batch", init="random", n_init=1, cat_dissim=kind, random_state=seed
        ).fit(table)
        assert (np.diff(model.epoch_costs_) <= 0).all()
        np.testing.assert_array_equal(model.predict(table), model.labels_)


def test_the_best_start_is_kept():
    costs = [KPrototypes(4, n_init=1, random_state=0, init=start).fit(FRAME).cost_ for start in starts()]
    assert len(set(costs)) > 1
    model = KPrototypes(4, n_init=20, random_state=0).fit(FRAME)
    assert model.cost_ <= min(costs) + 1e-9


def starts():
    for seed in range(8):
        rng = np.random.default_rng(seed)
        yield [rng.normal(size=(4, 2)), rng.integers(0, 4, (4, 2))]


def test_initial_centroids_as_codes_or_levels():
    towns, colours = sorted(set(FRAME["town"])), sorted(set(FRAME["colour"]))
    codes = np.array([[0, 1], [2, 2], [3, 0]])
    levels = np.array([[towns[a], colours[b]] for a, b in codes])
    means = np.array([[0.0, 0.0], [4.0, -3.0], [8.0, -6.0]])
    model = KPrototypes(3, init=[means, codes], random_state=0).fit(FRAME)
    same(model, KPrototypes(3, init=(means.tolist(), levels), random_state=0).fit(FRAME))
    same(
        KModes(3, init=codes).fit(FRAME[["town", "colour"]]),
        KModes(3, init=levels).fit(FRAME[["town", "colour"]]),
    )
    same(KModes(3, init=codes[:, 0]).fit(FRAME[["town"]]), KModes(3, init=codes[:, :1]).fit(FRAME[["town"]]))
    assert codes.tolist() == [[0, 1], [2, 2], [3, 0]]
    assert means[0].tolist() == [0.0, 0.0]  # kmodes writes into them
    for bad, message in (
        (codes[:2], r"init must have shape \(3, 2\)"),
        (codes + 3, "init must be codes"),
        (codes + 0.5, "init must be codes"),
        (levels[:, ::-1], "column 'town' has no level '"),
        ("best", "init must be one of 'Huang'"),
        (codes[0, 0], "init must have shape"),
    ):
        with pytest.raises(ValueError, match=message):
            KModes(3, init=bad).fit(FRAME[["town", "colour"]])
    for bad, message in (
        ([means], "a list of two arrays"),
        ([means, codes[:2]], r"init\[1\] must have shape"),
        ([means[:2], codes], r"init\[0\] must"),
        ([means * np.nan, codes], r"init\[0\] must be finite"),
        ([levels, codes], r"init\[0\] must be finite"),
        ([np.array([["a", 1]] * 3, object), codes], r"init\[0\] must be finite"),
        (means, "a list of two arrays"),
    ):
        with pytest.raises(ValueError, match=message):
            KPrototypes(3, init=bad).fit(FRAME)


def test_starts_that_leave_clusters_empty():
    far = [np.array([[0.0, 0.0], [1e6, 1e6], [2e6, 2e6]]), np.zeros((3, 2), int)]
    for update in UPDATES:
        model = KPrototypes(3, init=far, update=update, random_state=0).fit(FRAME)  # random rows instead
        assert len(np.unique(model.labels_)) == 3
        again = KModes(3, init=np.zeros((3, 2), int), update=update, random_state=0).fit(
            FRAME[["town", "colour"]]
        )
        assert len(np.unique(again.labels_)) == 3
        rare = pd.DataFrame({"x": np.r_[np.zeros(500), 1.0, 2.0], "c": ["a"] * 502})
        found = KPrototypes(2, gamma=0.0, update=update, random_state=0).fit(rare)
        assert len(np.unique(found.labels_)) == 2


def test_missing_cells_can_leave_distinct_rows_equally_near():
    rows = pd.DataFrame({"a": ["x", None, "x", None], "b": ["u", "u", None, None]})
    for K in (2, 3, 4):
        assert KModes(K, random_state=0).fit(rows).cost_ == 0.0
        assert KPrototypes(K, random_state=0).fit(rows.assign(x=1.0)).cost_ == 0.0


def test_dissimilarities_of_kmodes_by_function():
    dissim = pytest.importorskip("kmodes.util.dissim")
    named = KPrototypes(3, cat_dissim="ng", n_init=2, random_state=0).fit(FRAME)
    same(
        named,
        KPrototypes(
            3, cat_dissim=dissim.ng_dissim, num_dissim=dissim.euclidean_dissim, n_init=2, random_state=0
        ).fit(FRAME),
    )

    def matching_dissim(a, b):
        return (a != b).sum()

    for function in (matching_dissim, len, "manhattan"):
        with pytest.raises(
            ValueError,
            match="cat_dissim must be one of 'matching', 'ng', 'jaccard', 'jaccard-label' or the function of",
        ):
            KModes(3, cat_dissim=function).fit(LEVELS)


def test_jaccard_needs_two_levels():
    with pytest.raises(
        ValueError,
        match=r"cat_dissim='jaccard' needs columns of two levels, but column 'x0' has 4; encode its levels",
    ):
        KModes(3, cat_dissim="jaccard").fit(LEVELS)
    model = KModes(3, cat_dissim="jaccard", random_state=0).fit(LEVELS > 1)
    assert model.cost_ <= 200.0


def test_parameters_of_kmodes():
    one = KModes(3, max_iter=50, n_init=2, init="huang", random_state=0, n_jobs=1).fit(LEVELS)
    same(one, KModes(3, init="Huang", n_init=2, random_state=0).fit(LEVELS))
    same(one, KModes(3, init="Huang", n_init=2, random_state=np.random.RandomState(0)).fit(LEVELS))
    for name, value in {
        "update": "minibatch",
        "n_clusters": 0,
        "n_init": 0,
        "max_iter": 0,
        "missing": "level",
        "unknown": "drop",
        "init": "k-means++",
        "verbose": -1,
    }.items():
        with pytest.raises(ValueError, match=f"{name} must be"):
            KModes(3).set_params(**{name: value}).fit(LEVELS)
    with pytest.raises(ValueError, match="n_threads=0 is not a number of threads"):
        KModes(3, n_jobs=0).fit(LEVELS)


def test_a_fit_that_stops_early():
    with pytest.warns(
        ConvergenceWarning,
        match=r"KPrototypes stopped after 1 passes before convergence; raise max_iter \(now 1\)",
    ):
        model = KPrototypes(5, init="random", n_init=1, max_iter=1, random_state=0).fit(FRAME)
    assert (model.n_iter_, model.converged_, len(model.epoch_costs_)) == (1, False, 2)


def test_a_refused_fit_changes_nothing():
    for model in MODELS:
        model.fit(FRAME)
        before = dict(vars(model))
        with pytest.raises(TypeError):
            model.fit(pd.DataFrame({"a": pd.date_range("2020", periods=9)}))
        assert vars(model) == before


def test_a_pipeline():
    pipeline = make_pipeline(FunctionTransformer(), KPrototypes(3, n_init=1, random_state=0))
    np.testing.assert_array_equal(pipeline.fit_predict(FRAME), pipeline.predict(FRAME))


def test_centroids_and_summary():
    model = KPrototypes(3, n_init=2, random_state=0).fit(FRAME)
    centroids = model.centroids()
    assert list(centroids) == list(FRAME)
    for k in range(3):
        own = FRAME[model.labels_ == k]
        assert centroids["age"][k] == pytest.approx(own["age"].mean(), rel=1e-9)
        assert centroids["town"][k] == own["town"].mode()[0]
    summary = model.summary()
    assert list(summary) == [
        "cluster",
        "rows",
        "share",
        "feature",
        "difference",
        "in the cluster",
        "in the whole table",
    ]
    assert len(summary) == 12
    line = summary[(summary["cluster"] == 1) & (summary["feature"] == "town")].iloc[0]
    own = FRAME["town"][model.labels_ == 1].value_counts(normalize=True)
    distance = own.sub(FRAME["town"].value_counts(normalize=True), fill_value=0).abs().sum() / 2
    assert line["difference"] == pytest.approx(distance)
    assert line["in the cluster"].startswith(f"{own.index[0]} {100 * own.iloc[0]:.0f} %")
    assert (summary.groupby("cluster")["rows"].first() == model.cluster_sizes_).all()
    assert isinstance(KModes(2).fit(pl.from_pandas(FRAME[["town", "colour"]])).summary(), pl.DataFrame)


def test_lines_while_it_fits(capsys):
    KModes(3, init="Huang", n_init=2, random_state=0, verbose=2, n_threads=1).fit(LEVELS)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("start 0, pass 1: cost ")
    assert sum(" passes" in line for line in lines) == 2
