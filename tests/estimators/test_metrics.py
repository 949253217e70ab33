"""Metrics of clusters and features compared with their definitions, and the rejection of invalid labels and
features.
"""

from collections import Counter
from decimal import Decimal
from itertools import permutations
from math import log

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from sklearn.metrics import adjusted_rand_score, f1_score, normalized_mutual_info_score

from craftc import CRAFT, metrics
from craftc.datasets import load_heart
from craftc.metrics import (
    adjusted_rand_index,
    chance_rand_index,
    cluster_label_entropy,
    contingency,
    eigen_diffusion,
    macro_f1,
    nmi,
    purity,
    rand_index,
    separability,
    total_cluster_label_entropy,
)
from tests.common import examples
from tests.reference import spectral as ref

NUMBERS = (
    adjusted_rand_index,
    chance_rand_index,
    cluster_label_entropy,
    macro_f1,
    nmi,
    purity,
    rand_index,
    total_cluster_label_entropy,
)
MEASURES = (contingency, *NUMBERS)
pairs = st.lists(st.tuples(st.sampled_from("abc"), st.integers(-2, 3)), min_size=1, max_size=40)


@st.composite
def tables(draw, least_columns=1):
    """Features of up to five columns, tied and of unlike widths, and labels of up to four clusters.

    No direction is so narrow within the clusters that rounding would show.
    """
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, columns = draw(st.integers(12, 40)), draw(st.integers(least_columns, 5))
    ties = (
        np.linalg.qr(rng.normal(size=(columns, columns)))[0] * 10 ** rng.uniform(-1.0, 1.0, columns)[:, None]
    )
    labels = rng.integers(0, draw(st.integers(1, 4)), n)
    distance = draw(st.sampled_from([0.0, 1.0, 5.0]))
    features = (
        rng.normal(size=(n, columns)) @ ties
        + distance * np.eye(4, columns)[labels]
        + rng.normal(size=columns)
    )
    assume(np.linalg.cond(features - np.array([features[labels == k].mean(axis=0) for k in labels])) < 1e3)
    return features, labels


def share_treated_alike(true, pred):
    """Rand index pair by pair."""
    true, pred = np.asarray(true), np.asarray(pred)
    above = np.triu_indices(len(true), 1)
    return np.mean(((true[:, None] == true) == (pred[:, None] == pred))[above])


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
    for measure in NUMBERS:
        assert measure(true, renamed) == pytest.approx(measure(true, pred))
    for measure in (adjusted_rand_index, chance_rand_index, nmi, rand_index):
        assert measure(pred, true) == pytest.approx(measure(true, pred))


@given(pairs)
def test_rand_and_total_entropy_are_those_of_the_reference(rows):
    true, pred = zip(*rows, strict=True)
    total = total_cluster_label_entropy(true, pred)
    assert total == pytest.approx(ref.label_entropy(pred, true))
    assert 0.0 <= total <= len(set(pred)) * log(len(set(true))) + 1e-12
    assume(len(rows) > 1)
    chance = chance_rand_index(true, pred)
    assert rand_index(true, pred) == pytest.approx(ref.rand(pred, true))
    assert rand_index(true, pred) == pytest.approx(share_treated_alike(true, pred))
    assert chance == pytest.approx(
        ref.chance_rand(list(Counter(pred).values()), list(Counter(true).values()))
    )
    assert 0.0 <= chance <= 1.0
    adjusted = adjusted_rand_index(true, pred)
    assert adjusted == pytest.approx(adjusted_rand_score(true, pred))
    if chance < 1.0:  # the adjusted index takes the same chance off
        assert (rand_index(true, pred) - chance) / (1.0 - chance) == pytest.approx(adjusted)


@examples(30)
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3)), min_size=2, max_size=6))
def test_chance_is_the_mean_over_all_permutations(rows):
    true, pred = zip(*rows, strict=True)
    mean = np.mean([share_treated_alike(true, shuffled) for shuffled in permutations(pred)])
    assert chance_rand_index(true, pred) == pytest.approx(mean)


def test_rand_by_hand():
    """Of the six pairs, rows 0-1 stay together and 0-3, 1-3 apart."""
    assert rand_index(list("aabb"), [0, 0, 0, 1]) == 0.5
    assert chance_rand_index(list("aabb"), [0, 0, 0, 1]) == pytest.approx(1 - 1 / 2 - 1 / 3 + 2 / 6)
    assert rand_index(["a", "b"], [0, 0]) == chance_rand_index(["a", "b"], [0, 0]) == 0.0


def test_chance_of_single_rows_and_of_one_cluster():
    """Such clusters say nothing of the classes, and R is its own chance."""
    classes = np.repeat(["x", "y", "z"], [50, 30, 20])
    inside = (50 * 49 + 30 * 29 + 20 * 19) / (100 * 99)
    for clusters, share in ((np.arange(100), 1 - inside), (np.zeros(100, int), inside)):
        assert rand_index(classes, clusters) == pytest.approx(share)
        assert chance_rand_index(classes, clusters) == pytest.approx(share)


def test_one_row_has_no_pairs():
    assert rand_index(["a"], [3]) == chance_rand_index(["a"], [3]) == 1.0
    assert total_cluster_label_entropy(["a"], [3]) == 0.0


def test_total_entropy_grows_with_the_number_of_clusters():
    """Clusters that know nothing: K times the entropy of the classes, whose weighted mean stays."""
    classes, columns = np.tile([0, 0, 0, 1], 12), np.repeat(np.arange(12), 4)
    h = -(0.75 * log(0.75) + 0.25 * log(0.25))
    for k in (1, 2, 6, 12):
        assert total_cluster_label_entropy(classes, columns % k) == pytest.approx(k * h)
        assert cluster_label_entropy(classes, columns % k) == pytest.approx(h)


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
    assert total_cluster_label_entropy(true, pred) == pytest.approx(2 * h)
    assert rand_index(true, pred) == pytest.approx((28 + 2 * 6 - 12 - 12) / 28)


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
        np.array([b"a", b"b", b"a"]),
    ],
)
def test_kinds_of_labels(labels):
    assert nmi(labels, [5, 6, 5]) == pytest.approx(1.0)
    assert purity([5, 6, 5], labels) == 1.0
    assert rand_index(labels, [5, 6, 5]) == 1.0
    assert chance_rand_index(labels, [5, 6, 5]) == pytest.approx(1 - 1 / 3 - 1 / 3 + 2 / 9)
    assert total_cluster_label_entropy([5, 6, 5], labels) == 0.0
    assert separability([[0.0], [9.0], [2.0]], labels) == pytest.approx(
        separability([[0.0], [9.0], [2.0]], [5, 6, 5])
    )


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize(
    ("labels", "message"),
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
        ([0.5, 1.0], "contains fractions such as 0.5; labels must be strings or integers"),
        (["a", 1], "mixes strings and other labels"),
        ([1j, 2j], "dtype complex128; labels must be strings or integers"),
    ],
)
def test_bad_labels_are_rejected(measure, labels, message):
    with pytest.raises(ValueError, match=message):
        measure([0, 1], labels)


@given(tables())
def test_eigen_diffusion_is_that_of_the_reference(table):
    features, _ = table
    alpha = eigen_diffusion(features)
    assert 1.0 / features.shape[1] <= alpha <= 1.0
    assert alpha == pytest.approx(ref.alpha(features))


@given(tables())
def test_separability_is_that_of_the_reference(table):
    features, labels = table
    J = separability(features, labels)
    assert 0.0 <= J <= 1.0
    np.testing.assert_allclose(J, ref.separability(features, labels), rtol=1e-9, atol=1e-12)


@given(tables(least_columns=2), st.integers(0, 2**32 - 1), st.sampled_from([-3.0, 1e-9, 1e200, 1e-200]))
def test_rotation_scale_shift_and_order_change_neither(table, seed, factor):
    features, labels = table
    rng = np.random.default_rng(seed)
    rotation = np.linalg.qr(rng.normal(size=(features.shape[1],) * 2))[0]
    order = rng.permutation(len(features))
    moved = factor * ((features + 3.0) @ rotation)[order]
    assert eigen_diffusion(moved) == pytest.approx(eigen_diffusion(features), rel=1e-9)
    assert separability(moved, labels[order]) == pytest.approx(
        separability(features, labels), rel=1e-9, abs=1e-12
    )


@given(tables())
def test_separability_rises_when_a_cluster_is_split(table):
    features, labels = table
    J = separability(features, labels)
    assert separability(features, [f"cluster {9 - k}" for k in labels]) == pytest.approx(
        J, rel=1e-9, abs=1e-12
    )
    assert separability(features, 2 * labels + np.arange(len(labels)) % 2) >= J - 1e-12


def test_eigen_diffusion_by_hand():
    """The paper's (sum of lambda)^2 / (l sum of lambda^2)."""
    assert eigen_diffusion([[2.0, 0.0], [-2.0, 0.0], [0.0, 1.0], [0.0, -1.0]]) == pytest.approx(
        25.0 / (2.0 * 17.0)
    )
    signs = np.array([[1, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]])
    assert eigen_diffusion(signs) == pytest.approx(1.0)
    assert eigen_diffusion(signs * np.sqrt([8.0, 1.0, 8.0])) == pytest.approx(17.0**2 / (3.0 * 129.0))
    assert eigen_diffusion(np.outer(np.arange(5.0), [1.0, 2.0, -1.0])) == pytest.approx(1.0 / 3.0)
    assert eigen_diffusion(np.arange(5.0)[:, None]) == 1.0


def test_eigen_diffusion_counts_features_that_do_not_vary():
    features = np.random.default_rng(0).normal(size=(30, 2)) * [3.0, 1.0]
    for constant in (0.1, 1e9):
        both = np.hstack([features, np.full((30, 1), constant)])
        assert eigen_diffusion(both) == pytest.approx(2.0 / 3.0 * eigen_diffusion(features))


@pytest.mark.parametrize(
    "measure", [eigen_diffusion, lambda features: separability(features, [0, 0, 1, 1, 1])], ids=["alpha", "J"]
)
def test_features_that_do_not_vary_are_rejected(measure):
    with pytest.raises(
        ValueError,
        match=r"needs at least one feature that varies, got equal rows of 3 feature\(s\); pass others",
    ):
        measure(np.full((5, 3), 0.1))


def test_separability_by_hand():
    assert separability([[0], [2], [10], [12]], list("aabb")) == pytest.approx(25.0 / 26.0)
    assert separability([[0], [2], [10], [12]], list("abba")) == pytest.approx(0.0, abs=1e-12)
    assert separability([[0], [2], [10], [12]], [1, 1, 1, 1]) == pytest.approx(0.0, abs=1e-12)
    # unequal sizes: mean 3, S_B = (2 * 2^2 + 4^2) / 3, S_T = (3^2 + 1^2 + 4^2) / 3
    assert separability([[0], [2], [7]], [0, 0, 1]) == pytest.approx(24.0 / 26.0)


@pytest.mark.parametrize("last_bits", [0.0, 1e-16])
def test_separability_of_single_points_is_1(last_bits):
    labels = np.repeat(np.arange(3), 1000)
    points = np.array([[0.1, 0.7], [0.3, -0.2], [1.1, 0.9]])[labels]
    points *= 1.0 + last_bits * np.random.default_rng(2).integers(-2, 3, points.shape)
    assert separability(points, labels) == pytest.approx(1.0)
    assert separability(points, np.arange(3000)) == pytest.approx(1.0)
    assert separability(points, labels) <= 1.0


def test_narrow_clusters_far_apart():
    """Widths of 1e-6 at a distance of 1."""
    features = np.array([[0.0], [2e-6], [1.0], [1.0 + 2e-6]])
    assert 1.0 - separability(features, [0, 0, 1, 1]) == pytest.approx(4e-12, rel=1e-3)


def frames():
    values = np.random.default_rng(3).integers(-9, 9, size=(8, 2))
    mixed = pd.DataFrame(values, columns=["a", "b"])
    yield values.tolist()
    for dtype in (np.int8, np.float16, np.float32, np.float64, np.longdouble, object):
        yield values.astype(dtype)
    yield np.asfortranarray(values)
    yield mixed
    yield mixed.astype({"a": "Int64", "b": "Float32"})
    yield pl.DataFrame(values, schema=["a", "b"], orient="row")
    yield [[Decimal(int(cell)) for cell in row] for row in values]


@pytest.mark.parametrize("features", list(frames()))
def test_kinds_of_features(features):
    plain = next(frames())
    labels = [0, 0, 1, 1, 1, 2, 2, 2]
    before = np.array(features)
    assert eigen_diffusion(features) == pytest.approx(ref.alpha(np.array(plain, float)))
    assert separability(features, labels) == pytest.approx(ref.separability(np.array(plain, float), labels))
    assert (np.array(features) == before).all()


def test_features_of_extreme_size():
    features = np.random.default_rng(4).normal(size=(20, 3))
    labels = np.arange(20) % 2
    for exponent in (-1000, 1000):
        extreme = np.ldexp(features, exponent)
        assert eigen_diffusion(extreme) == pytest.approx(eigen_diffusion(features))
        assert separability(extreme, labels) == pytest.approx(separability(features, labels))
    widest = np.array([[1.7e308, 0.0], [-1.7e308, 0.0], [0.0, 1.7e308], [0.0, -1.7e308]])
    assert eigen_diffusion(widest) == pytest.approx(1.0)


@pytest.mark.parametrize(
    "measure", [eigen_diffusion, lambda features: separability(features, [0, 1])], ids=["alpha", "J"]
)
@pytest.mark.parametrize(
    ("features", "message"),
    [
        (
            [1.0, 2.0],
            r"must be two-dimensional, got an array of shape \(2,\); pass one row per observation and one "
            r"column per feature",
        ),
        (np.zeros((2, 2, 2)), r"must be two-dimensional, got an array of shape \(2, 2, 2\)"),
        (3.0, r"must be two-dimensional, got an array of shape \(\)"),
        ([[1.0, 2.0]], r"needs at least two rows and one column, got shape \(1, 2\); pass one row"),
        (np.zeros((2, 0)), r"needs at least two rows and one column, got shape \(2, 0\)"),
        ([[1.0, 2.0], [3.0]], "has rows of different lengths; pass one row per observation"),
        (
            [[1.0, np.nan], [0.0, 1.0]],
            "contains NaN or infinite values; drop these rows or impute the values",
        ),
        ([[1.0, np.inf], [0.0, 1.0]], "contains NaN or infinite values"),
        (
            pd.DataFrame({"a": [1, None], "b": [0, 1]}, dtype="Int64"),
            "contains NaN or other missing values; drop these rows",
        ),
        ([[1.0, None], [0.0, 1.0]], "contains NaN or other missing values"),
        ([[10**400, 1], [1, 2]], "contains integers beyond the range of float64; scale these columns down"),
        ([["1", "2"], ["3", "4"]], "has dtype <U1 but must contain real numbers; encode other columns first"),
        (
            pd.DataFrame({"a": ["x", "y"], "b": [0, 1]}),
            r"contains non-numeric values \(str\); encode these columns first",
        ),
        ([[1j, 2.0], [3.0, 4.0]], "has dtype complex128 but must contain real numbers"),
    ],
)
def test_bad_features_are_rejected(measure, features, message):
    with pytest.raises(ValueError, match=f"features {message}"):
        measure(features)


@pytest.mark.skipif(
    np.finfo(np.longdouble).max == np.finfo(np.float64).max, reason="long double is float64 here"
)
def test_wider_floats_beyond_float64_are_rejected():
    with pytest.raises(ValueError, match="features contains NaN or infinite values"):
        eigen_diffusion(np.array([[1, 2], [3, np.finfo(np.longdouble).max]], dtype=np.longdouble))


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([0, 1, 1], "features has 2 rows and labels has 3 labels; pass one label per row"),
        ([], "labels is empty; pass one label per row"),
        ([0, None], "labels contains missing values"),
        ([0.5, 1.0], "labels contains fractions such as 0.5"),
        ([[0, 1]], r"labels must be one-dimensional, got an array of shape \(1, 2\)"),
    ],
)
def test_separability_rejects_bad_labels(labels, message):
    with pytest.raises(ValueError, match=message):
        separability([[0.0], [1.0]], labels)


def test_cost_silhouette_against_its_formula():
    table = load_heart().data
    model = CRAFT(4, random_state=0).fit(table)
    costs, labels, weight = model.transform(table), model.labels_, np.arange(len(table)) % 3
    s = np.empty(len(table))
    for i, k in enumerate(labels.tolist()):
        a, b = costs[i, k], np.delete(costs[i], k).min()
        s[i] = (b - a) / max(a, b)
    found = metrics.cost_silhouette(model, table, labels=labels, sample_weight=weight)
    assert found == pytest.approx((s * weight).sum() / weight.sum())
    worse = metrics.cost_silhouette(model, table, labels=(labels + 1) % 4)
    assert -1 <= worse < 0 < metrics.cost_silhouette(model, table) <= 1


def test_cost_silhouette_refuses():
    table = load_heart().data
    model = CRAFT(1, random_state=0).fit(table)
    with pytest.raises(ValueError, match="one cluster"):
        metrics.cost_silhouette(model, table)
    numbers = np.random.default_rng(0).normal(size=(60, 2))
    with pytest.raises(ValueError, match="is negative"):
        metrics.cost_silhouette(_Fixed(np.array([[-1.0, 2.0]])), numbers[:1])
    for labels in ([0], [0, 9], [0.5, 1.0]):
        with pytest.raises(ValueError, match="labels must hold one of 0 to 1 for each of the 2 rows"):
            metrics.cost_silhouette(_Fixed(np.ones((2, 2))), numbers[:2], labels=labels)
    assert metrics.cost_silhouette(_Fixed(np.zeros((2, 2))), numbers[:2]) == 0.0


class _Fixed:
    """A model of fixed costs."""

    def __init__(self, costs):
        self.costs = costs

    def transform(self, X):
        return self.costs
