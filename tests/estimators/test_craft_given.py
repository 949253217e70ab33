"""Starts of CRAFT that are a fitted model or descriptions of clusters."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.cluster import KMeans

from craftc import CRAFT, MixedTable, read_table
from craftc.craft.given import described_labels
from craftc.datasets import load_heart

pd = pytest.importorskip("pandas", reason="columns are named by frames")

DESCRIBED = {"strained": {"chest_pain": "4", "exang": "1"}, "fit": {"max_hr": (">", 160)}}


def heart():
    return load_heart().data


def craft(init, **parameters):
    return CRAFT(init=init, random_state=0, covariance="diagonal", **parameters)


def labels_of(frame, **descriptions):
    return described_labels(descriptions, MixedTable.from_data(frame)).tolist()


FRAME = pd.DataFrame(
    {
        "age": [20.0, 35.0, np.nan, 70.0],
        "city": pd.Categorical(["A", "B", None, "C"]),
        "size": pd.Categorical(["S", "L", "M", None], ["S", "M", "L"], ordered=True),
    }
)


@pytest.mark.parametrize(
    ("condition", "rows"),
    [
        ({"age": 35}, [1]),
        ({"age": [20, 70.0]}, [0, 3]),
        ({"age": ("<", 40)}, [0, 1]),
        ({"age": ("!=", 20)}, [1, 3]),
        ({"age": [(">=", 30), ("<", 70)]}, [1]),
        ({"city": "A"}, [0]),
        ({"city": ["A", "C"]}, [0, 3]),
        ({"city": ("!=", "A")}, [1, 3]),
        ({"size": ("<=", "M")}, [0, 2]),
        ({"size": [(">", "S"), ("<", "L")]}, [2]),
        ({"age": (">", 30), "city": ["B", "A"]}, [1]),
        ([3, 1], [1, 3]),
        (np.array([2]), [2]),
    ],
)
def test_rows_of_a_description(condition, rows):
    assert np.flatnonzero(np.array(labels_of(FRAME, a=condition)) == 0).tolist() == rows


def test_numbers_of_float32_columns():
    frame = pd.DataFrame({"x": np.array([0.1, 0.2, 0.3], np.float32)})
    for condition, rows in ((0.1, [0]), (("==", 0.2), [1]), (("<=", 0.2), [0, 1]), (("<", 1e300), [0, 1, 2])):
        found = described_labels({"a": {"x": condition}}, MixedTable.from_data(frame))
        assert np.flatnonzero(found == 0).tolist() == rows


def test_a_row_belongs_to_the_first_description():
    assert labels_of(FRAME, old={"age": (">", 30)}, any={"age": (">", 0)}) == [1, 0, -1, 0]


def test_dates_are_texts():
    table = read_table(pd.DataFrame({"when": ["2020-01-01", "2021-05-01", "2022-01-01"] * 5, "v": range(15)}))
    kinds = table.attrs["kinds"]
    found = described_labels({"a": {"when": ("<", "2021-05-01")}}, MixedTable.from_data(table, kinds=kinds))
    assert np.flatnonzero(found == 0).tolist() == list(range(0, 15, 3))


def test_clusters_that_keep_their_rows_keep_their_names():
    model = craft(DESCRIBED).fit(heart())
    assert sorted(model.cluster_names_) == ["fit", "strained"]
    named = heart().loc[model.labels_ == model.cluster_names_.index("fit"), "max_hr"]
    assert (named > 160).mean() > 0.4


def test_a_fitted_model_is_a_start():
    base = CRAFT(3, random_state=0, covariance="diagonal").fit(heart())
    again = craft(base, n_clusters=3).fit(heart())
    assert again.objective_ <= base.objective_
    labels = craft(base.labels_, n_clusters=3).fit(heart())
    assert again.labels_.tobytes() == labels.labels_.tobytes()


def test_a_model_of_another_package_is_a_start():
    X = heart()[["age", "chol", "max_hr"]].to_numpy()
    kmeans = KMeans(3, random_state=0, n_init=1).fit(X)
    model = craft(kmeans, n_clusters=3).fit(X)
    assert model.labels_.tobytes() == craft(kmeans.predict(X), n_clusters=3).fit(X).labels_.tobytes()


def test_rows_without_weight_describe_nothing():
    weight = np.where(heart()["max_hr"] > 160, 0.0, 1.0)
    model = craft(DESCRIBED, n_clusters=2).fit(heart(), sample_weight=weight)
    assert model.n_clusters_ == 2


def test_sizes_hold_from_a_start_of_descriptions():
    model = craft(DESCRIBED, n_clusters=2, min_cluster_size=0.5).fit(heart())
    assert model.cluster_sizes_.tolist() == [135, 135]


@pytest.mark.parametrize(
    ("init", "message"),
    [
        ({}, "init has no descriptions"),
        ({"a": {}}, "'a' has no conditions"),
        ({"a": {"agee": 3}}, "'a' names 'agee', but the columns are 'age'"),
        ({"a": {"age": ("<", 0)}}, "'a' describes no row; change or remove it"),
        ({"a": {"age": ("<", 90)}, "b": {"age": 50}}, "'b' describes no row that no earlier description has"),
        ({"a": {"chest_pain": ("<", "3")}}, "levels have no order, so '<' has no meaning"),
        ({"a": {"chest_pain": 77}}, "77 is no level; the levels are '1', '2'"),
        ({"a": [1, 900]}, "names row 900, but the rows are 0 to 269"),
        ({"a": [-1]}, "names row -1"),
        (KMeans(3), "init must be a fitted model, but this KMeans is not fitted"),
        ("nonsense", "or labels, a fitted model or descriptions of clusters, got 'nonsense'"),
    ],
)
def test_starts_that_cannot_be(init, message):
    with pytest.raises(ValueError, match=message):
        craft(init).fit(heart())


@pytest.mark.parametrize("condition", ["x", ("<", "x"), [("<", 3), 5], [], ("<", True), {"<": 3}])
def test_conditions_that_cannot_be(condition):
    with pytest.raises(TypeError, match=r"'a', column 'age': the .*condition must be a value"):
        craft({"a": {"age": condition}}).fit(heart())


@pytest.mark.parametrize("rows", ["x", 3, [], [0.5], [[1]], None])
def test_examples_that_cannot_be(rows):
    with pytest.raises(
        TypeError, match="must map 'a' to a mapping of columns to conditions, or to positions"
    ):
        craft({"a": rows}).fit(heart())


def test_partitions_take_no_descriptions():
    from craftc.distributed import Partitions

    with pytest.raises(ValueError, match="needs init='auto'"):
        craft(DESCRIBED).fit(Partitions([heart()[:20], heart()[20:40]]))
