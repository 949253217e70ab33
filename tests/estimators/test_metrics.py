"""Agreement measures against their definitions, and the sentences for labels that are none."""

from collections import Counter
from math import log

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import f1_score, normalized_mutual_info_score

from craftc.metrics import cluster_label_entropy, contingency, macro_f1, nmi, purity

MEASURES = (cluster_label_entropy, contingency, macro_f1, nmi, purity)
pairs = st.lists(st.tuples(st.sampled_from("abc"), st.integers(-2, 3)), min_size=1, max_size=40)


@given(pairs)
def test_measures_follow_their_definitions(rows):
    true, pred = zip(*rows, strict=True)
    n, cells, sizes = len(rows), Counter(rows), Counter(pred)
    majority = {k: min((-cells[c, k], c) for c in set(true))[1] for k in sizes}
    assert purity(true, pred) == pytest.approx(sum(cells[majority[k], k] for k in sizes) / n)
    assert cluster_label_entropy(true, pred) == pytest.approx(
        sum(count * log(sizes[k] / count) for (_, k), count in cells.items()) / n
    )
    voted = [majority[k] for k in pred]
    classes = sorted(set(true))
    assert macro_f1(true, pred) == pytest.approx(
        f1_score(true, voted, average="macro", labels=classes, zero_division=0)
    )
    assert nmi(true, pred) == pytest.approx(
        normalized_mutual_info_score(true, pred, average_method="geometric")
    )


@given(pairs)
def test_contingency_counts_every_pair(rows):
    true, pred = zip(*rows, strict=True)
    matrix, classes, clusters = contingency(true, pred)
    assert matrix.dtype == np.int64
    assert classes.tolist() == sorted(set(true))
    assert clusters.tolist() == sorted(set(pred))
    counts = Counter(rows)
    for i, c in enumerate(classes):
        for k, cluster in enumerate(clusters):
            assert matrix[i, k] == counts[c, cluster]


@given(pairs)
def test_names_of_clusters_do_not_matter(rows):
    true, pred = zip(*rows, strict=True)
    renamed = [f"cluster {7 - k}" for k in pred]
    for measure in (cluster_label_entropy, macro_f1, nmi, purity):
        assert measure(true, renamed) == pytest.approx(measure(true, pred))


def test_perfect_and_useless_clusters():
    classes = np.repeat(["x", "y"], 50)
    assert purity(classes, classes) == macro_f1(classes, classes) == 1.0
    assert nmi(classes, classes) == pytest.approx(1.0)
    assert cluster_label_entropy(classes, classes) == 0.0
    one = np.zeros(100, int)
    assert purity(classes, one) == 0.5
    assert nmi(classes, one) == 0.0
    assert cluster_label_entropy(classes, one) == pytest.approx(log(2))
    assert macro_f1(classes, one) == pytest.approx(1 / 3)


def test_a_skewed_table_by_hand():
    """Purity .75 with two equal classes in two equal clusters: NMI = 1 - h(.75) / log 2."""
    true = [0, 0, 0, 1, 1, 1, 1, 0]
    pred = [0, 0, 0, 0, 1, 1, 1, 1]
    h = -(0.75 * log(0.75) + 0.25 * log(0.25))
    assert purity(true, pred) == 0.75
    assert nmi(true, pred) == pytest.approx(1 - h / log(2))
    assert cluster_label_entropy(true, pred) == pytest.approx(h)
    assert macro_f1(true, pred) == 0.75


@pytest.mark.parametrize(
    "labels",
    [
        ["a", "b", "a"],
        ("a", "b", "a"),
        np.array(["a", "b", "a"], dtype=object),
        pd.Series(["a", "b", "a"]),
        pd.Series(["a", "b", "a"], dtype="category"),
        pd.Series([1, 2, 1], dtype="Int64"),
        np.array([1.0, 2.0, 1.0]),
        np.array([True, False, True]),
        np.array([1, 2, 1], dtype=np.uint8),
    ],
)
def test_kinds_of_labels(labels):
    assert nmi(labels, [5, 6, 5]) == pytest.approx(1.0)
    assert purity([5, 6, 5], labels) == 1.0


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize(
    ("labels", "sentence"),
    [
        ([], "is empty; pass one label per row"),
        ([0, 1, 1], "labels_true has 2 labels and labels_pred has 3; both need one label per row"),
        ([[0, 1]], r"must be one-dimensional, got an array of shape \(1, 2\)"),
        (0, r"must be one-dimensional, got an array of shape \(\)"),
        ([0.0, float("nan")], "missing values"),
        (np.array([0.0, np.nan]), "NaN or infinite"),
        (["a", None], "missing values"),
        (["a", float("nan")], "missing values"),
        (pd.Series(["a", pd.NA], dtype=object), "missing values"),
        ([0.5, 1.0], "holds fractions such as 0.5; labels must be strings or integers"),
        (["a", 1], "mixes strings and other labels"),
        ([1j, 2j], "dtype complex128; labels must be strings or integers"),
    ],
)
def test_bad_labels_get_a_sentence(measure, labels, sentence):
    with pytest.raises(ValueError, match=sentence):
        measure([0, 1], labels)
