"""The tree of a path of covariate clusterings: its structure on paths made by hand, and what the picture
shows of it.
"""

from __future__ import annotations

import sys
from itertools import pairwise

import numpy as np
import pytest

from craftc import BPMeans, ConvexClustering, ConvexCovariateClustering, plot
from craftc.convex.estimator import RowsPoint
from craftc.covariates.estimator import PathPoint
from craftc.plot.tree import odds_ratio
from craftc.plot.tree_layout import build_tree, nested, subtree

pyplot = pytest.importorskip("matplotlib.pyplot")
pyplot.switch_backend("agg")


@pytest.fixture(autouse=True)
def _close():
    yield
    pyplot.close("all")


def model_of(penalties, labels, chosen, coefficients, classes=("a", "b")):
    """A model with this path; `coefficients` (d, c) are the refit, and, averaged over clusters, those of the
    path.
    """
    labels, coefficients = np.asarray(labels, np.int32), np.asarray(coefficients, float)
    points = []
    for nu, label in zip(penalties, labels, strict=True):
        means = np.array([coefficients[label == k].mean(axis=0) for k in range(label.max() + 1)])
        points.append(PathPoint(nu, len(means), label, 0.0, 0.0, 0.0, means))
    model = ConvexCovariateClustering(list(penalties))
    model._points, model.fusion_penalty_, model.classes_ = points, penalties[chosen], np.asarray(classes)
    model.covariate_labels_, model.n_clusters_ = labels[chosen], points[chosen].n_clusters
    model.coef_ = points[chosen].coefficients[labels[chosen]].T
    return model


def two_class(b):
    """Coefficients (d, 2) whose odds ratio is exp(b)."""
    return np.outer(b, [-0.5, 0.5])


def model_six(chosen=1, **more):
    """Covariates 0 to 3: 0 1 | 2 3 part first, then 2 | 3; and 4 5, which share no edge with
    them.
    """
    path = [[0, 0, 0, 0, 1, 1], [0, 0, 1, 1, 2, 2], [0, 0, 1, 2, 3, 3]]
    return model_of([10.0, 1.0, 0.1], path, chosen, two_class([-2, -2, 1, 1, 3, 3]), **more)


def names_of(axes):
    return [label.get_text() for label in axes.get_yticklabels()]


def numbers_of(axes):
    return [text.get_text() for text in axes.texts]


# ---- the tree ----


def test_nodes_join_at_the_last_penalty_at_which_they_are_one():
    levels = np.array([[0, 0, 0, 0, 1, 1], [0, 0, 1, 1, 2, 2], [0, 0, 1, 2, 3, 3]])
    nodes = build_tree(levels, np.arange(6), np.arange(6.0))
    found = [(node.members.tolist(), node.parent, node.point, node.height) for node in nodes]
    assert found == [
        ([0, 1, 2, 3], -1, 0, 1.5),
        ([0, 1], 0, 2, 0.5),
        ([0], 1, 2, 0.0),
        ([1], 1, 2, 1.0),
        ([2, 3], 0, 1, 2.5),
        ([2], 4, 2, 2.0),
        ([3], 4, 2, 3.0),
        ([4, 5], -1, 2, 4.5),
        ([4], 7, 2, 4.0),
        ([5], 7, 2, 5.0),
    ]


def test_parts_come_by_rank_and_hidden_covariates_leave_no_trace():
    levels = np.array([[0, 0, 0, 0], [0, 0, 1, 2], [0, 1, 2, 3]])
    nodes = build_tree(levels, np.array([0, 1, 3]), np.array([5.0, 4.0, 0.0, 1.0]))
    assert [(node.members.tolist(), node.point) for node in nodes] == [
        ([0, 1, 3], 0),
        ([3], 2),
        ([0, 1], 1),
        ([1], 2),
        ([0], 2),
    ]


def test_a_path_that_is_a_tree_stays_as_it_is():
    levels = np.array([[0, 0, 0, 1], [0, 0, 1, 2], [0, 1, 2, 3]])
    for chosen in range(3):
        np.testing.assert_array_equal(nested(levels, chosen), levels)


def test_covariates_that_meet_again_stay_parted_but_chosen_clusters_are_kept():
    path = np.array([[0, 0, 0, 0, 0], [0, 0, 0, 1, 1], [0, 0, 1, 0, 1], [0, 0, 0, 1, 1]])
    np.testing.assert_array_equal(
        nested(path, 1), [[0, 0, 0, 0, 0], [0, 0, 0, 1, 1], [0, 0, 1, 2, 3], [0, 0, 1, 2, 3]]
    )
    # 0 1 3 is where 0 and 1 are; of 2 4, in two places, the first
    np.testing.assert_array_equal(
        nested(path, 2), [[0, 0, 0, 0, 0], [0, 0, 0, 0, 0], [0, 0, 1, 0, 1], [0, 0, 2, 1, 3]]
    )


@pytest.mark.parametrize("seed", range(20))
def test_any_path_becomes_nested_with_the_chosen_clusters(seed):
    rng = np.random.default_rng(seed)
    d = int(rng.integers(1, 12))
    path = np.array(
        [np.unique(rng.integers(0, k, d), return_inverse=True)[1] for k in rng.integers(1, d + 1, 6)]
    )
    chosen = int(rng.integers(6))
    levels = nested(path, chosen)
    for coarse, fine in pairwise(levels):
        assert len(np.unique(np.stack([coarse, fine]), axis=1).T) == fine.max() + 1
    assert ((levels[chosen][:, None] == levels[chosen]) == (path[chosen][:, None] == path[chosen])).all()
    nodes = build_tree(levels, np.arange(d), rng.random(d))
    leaves = [node for node in nodes if len(node.members) == 1]
    assert sorted(node.members[0] for node in leaves) == list(range(d))
    assert [node.height for node in leaves] == list(range(d))
    for k, node in enumerate(nodes):
        parts = [other for other in nodes if other.parent == k]
        assert sorted(
            np.concatenate([part.members for part in parts]).tolist() if parts else node.members
        ) == sorted(node.members)
        assert all(part.point >= node.point + (len(part.members) > 1 and node.point < 5) for part in parts)


def test_subtrees():
    levels = np.array([[0, 0, 0, 0, 1, 2], [0, 0, 0, 1, 2, 3], [0, 0, 1, 2, 3, 4]])
    expected = {(0,): [0, 1], (0, 2): [0, 1, 2], (3,): [0, 1, 2, 3], (4,): [4], (3, 4): [0, 1, 2, 3, 4]}
    for named, members in expected.items():
        assert np.flatnonzero(subtree(levels, np.array(named), 2)).tolist() == members
    assert np.flatnonzero(subtree(levels, np.array([1]), 1)).tolist() == [0, 1, 2]


# ---- the picture ----


def test_joins_colours_and_odds_ratios():
    axes = plot.fusion_tree(model_six(), names=list("uvwxyz"))
    axes.figure.canvas.draw()
    assert names_of(axes) == list("uvwxyz")
    assert [label.get_color() for label in axes.get_yticklabels()] == ["#0072B2"] * 2 + ["#D55E00"] * 4
    upright = [text.get_text() for text in axes.texts if text.get_style() == "normal"]
    assert upright == ["0.14", "2.7", "20"]
    assert [text.get_text() for text in axes.texts if text.get_style() == "italic"] == ["0.61"]
    joins = {
        (line[0, 0], line[0, 1], line[1, 1])
        for line in axes.collections[0].get_segments()
        if line[0, 0] == line[1, 0]
    }
    assert joins == {(10.0, 0.5, 2.5), (0.1, 0.0, 1.0), (1.0, 2.0, 3.0), (0.1, 4.0, 5.0)}
    assert axes.lines[0].get_xdata()[0] == 1.0
    assert [text.get_text() for text in axes.get_legend().get_texts()] == [
        "a",
        "b",
        "chosen: ν = 1, 3 clusters",
    ]
    assert "b against a" in axes.get_legend().get_title().get_text()


@pytest.mark.parametrize(
    ("b", "word"),
    [
        ([0.0, 0.0], "1"),
        (np.log([1.0, 0.05]), "0.05"),
        (np.log([1.0, 3456.0]), "3500"),
        (np.log([1.0, 7e9]), "7·10⁹"),
        (np.log([1.0, 9.96e-12]), "1·10⁻¹¹"),
        ([-1.0, np.log(2.0) - 1, -1.0], "2"),
        ([900.0, -900.0], "2·10⁻⁷⁸²"),
    ],
)
def test_odds_ratios_are_short(b, word):
    assert odds_ratio(np.asarray(b)) == word


def test_three_classes_against_the_mean_of_the_others():
    b = np.array([[2.0, -1, -1], [-1, 2, -1], [-1, 1, 0], [-1, 1, 0]])
    axes = plot.fusion_tree(model_of([1.0, 0.5], [[0, 0, 0, 0], [0, 1, 2, 2]], 1, b, classes=(10, 20, 30)))
    assert names_of(axes) == ["0", "1", "2", "3"]
    assert numbers_of(axes)[1:] == ["20", "20", "4.5"]
    assert [text.get_text() for text in axes.get_legend().get_texts()][:-1] == ["10", "20"]


def test_zero_coefficients_are_grey_and_have_no_odds_ratio():
    model = model_of([9.0, 1.0, 0.1], [[0, 0, 0, 0], [0, 0, 1, 1], [0, 1, 2, 3]], 1, two_class([0, 0, 1, 1]))
    model.coef_[:, :2] += 0.01  # as a refit, which knows no zeros
    axes = plot.fusion_tree(model)
    assert [label.get_color() for label in axes.get_yticklabels()] == ["0.6"] * 2 + ["#D55E00"] * 2
    assert numbers_of(axes) == ["1.6", "2.7"]
    assert "no class: coefficients 0" in [text.get_text() for text in axes.get_legend().get_texts()]
    assert names_of(plot.fusion_tree(model, of_class="b")) == ["2", "3"]


@pytest.mark.parametrize("penalties", [(100.0, 0.5, 0.0), (3.0, 2.0, 0.0), (0.02, 1e-5, 0.0)])
def test_a_penalty_of_zero_stands_at_the_edge(penalties):
    path = [[0, 0, 0, 0], [0, 0, 1, 2], [0, 0, 1, 2]]
    axes = plot.fusion_tree(model_of(penalties, path, 1, two_class([1, 1, 2, 3])))
    axes.figure.canvas.draw()
    ticks = dict(zip([label.get_text() for label in axes.get_xticklabels()], axes.get_xticks(), strict=True))
    assert 0 < axes.get_xlim()[0] < ticks["0"] < penalties[1]
    assert any(line[0, 0] == line[1, 0] == ticks["0"] for line in axes.collections[0].get_segments())
    plot.fusion_tree(model_of((5.0, 0.0), path[:2], 1, two_class([1, 1, 2, 3]))).figure.canvas.draw()


def test_a_single_root_needs_no_room_at_its_right():
    path = [[0, 0], [0, 0], [0, 0], [0, 1]]
    assert plot.fusion_tree(model_of((1e4, 1e3, 1.0, 0.1), path, 3, two_class([1, 2]))).get_xlim()[1] < 10
    assert plot.fusion_tree(model_of((1e4, 1e3, 1.0, 0.1), path, 0, two_class([1, 2]))).get_xlim()[1] > 1e4
    apart = plot.fusion_tree(model_of((1e4, 1e3, 1.0, 0.1), [[0, 1]] * 4, 3, two_class([1, 2])))
    assert apart.get_xlim()[1] > 1e4


def test_only_a_subtree():
    model = model_six(chosen=2)
    model.feature_names_in_ = np.array(list("uvwxyz"), object)
    assert names_of(plot.fusion_tree(model, only="w")) == ["w", "x"]
    assert names_of(plot.fusion_tree(model, only=["v", 3])) == ["u", "v", "w", "x"]
    assert names_of(plot.fusion_tree(model, only=np.int64(5))) == ["y", "z"]
    assert names_of(plot.fusion_tree(model, only=("w", "z"), of_class="b")) == ["w", "x", "y", "z"]
    assert names_of(plot.fusion_tree(model, names=list("123456"), only="2")) == ["1", "2"]


def test_only_a_class():
    assert names_of(plot.fusion_tree(model_six(), of_class="a")) == ["0", "1"]
    assert names_of(plot.fusion_tree(model_six(classes=(False, True)), of_class=True)) == ["2", "3", "4", "5"]


def test_the_strongest_leaves_and_first_those_asked_for():
    model = model_six(chosen=2)
    axes = plot.fusion_tree(model, leaves=4)
    assert names_of(axes) == ["0", "1", "4", "5"]
    assert axes.get_legend().get_title().get_text().startswith("The 4 strongest of 6 covariates")
    assert names_of(plot.fusion_tree(model, leaves=2, only=[0, 3])) == ["0", "3"]
    assert names_of(plot.fusion_tree(model, leaves=1)) == ["4"]


def test_long_names_axes_of_the_caller_and_many_classes():
    mine = pyplot.figure(figsize=(4, 1)).add_subplot()
    d = 22
    b = np.eye(d) - 1 / d
    path = [np.zeros(d, int), np.arange(d)]
    model = model_of([1.0, 0.1], path, 1, b, classes=[f"class {k}" for k in range(d)])
    assert plot.fusion_tree(model, names=["x_$1$ and so on " * 4] * d, ax=mine) is mine
    assert max(map(len, names_of(mine))) < 40
    assert mine.get_yticklabels()[0].get_fontsize() < 3
    assert len({(line.get_color(), line.get_linestyle()) for line in mine.get_legend().get_lines()}) == 22
    mine.figure.canvas.draw()


def test_a_fitted_model():
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], 40)
    X = rng.normal(size=(120, 9)) + 1.5 * np.repeat(np.eye(3), 3, axis=1)[y]
    for sparsity in (0.0, 2.0):
        path = np.append(np.geomspace(100, 0.1, 12), 0.0)
        model = ConvexCovariateClustering(path, similarity=np.ones((9, 9)), sparsity=sparsity).fit(X, y)
        axes = plot.fusion_tree(model)
        axes.figure.canvas.draw()
        assert sorted(names_of(axes)) == [str(i) for i in range(9)]
        assert axes.lines[0].get_xdata()[0] == model.fusion_penalty_


# ---- bad input ----


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"names": ["a"]}, r"one name per covariate \(6\), got 1"),
        ({"only": "w"}, "unknown covariate 'w'; the model has 6, the first is '0'"),
        ({"only": 6}, "unknown covariate 6; the model has 6"),
        ({"only": -1}, "unknown covariate -1"),
        ({"only": []}, "only must name at least one covariate"),
        ({"of_class": "c"}, "must be a class of the model, got 'c'; the classes are 'a', 'b'"),
        (
            {"of_class": "a", "only": 5},
            "No chosen cluster of this subtree has its largest coefficient for of_class='a'",
        ),
        ({"leaves": 0}, "leaves must be a whole number >= 1, got 0"),
    ],
)
def test_bad_input_is_rejected(arguments, message):
    with pytest.raises(ValueError, match=message):
        plot.fusion_tree(model_six(), **arguments)


def test_wrong_types_are_rejected():
    for only in (2.5, True, [None]):
        with pytest.raises(TypeError, match="only must contain names or numbers of covariates"):
            plot.fusion_tree(model_six(), only=only)
    with pytest.raises(TypeError, match="leaves must be a whole number"):
        plot.fusion_tree(model_six(), leaves=2.5)


def test_models_without_a_path():
    X = np.random.default_rng(0).normal(size=(20, 3))
    with pytest.raises(TypeError, match="BPMeans has none"):
        plot.fusion_tree(BPMeans(1.0).fit(X))
    with pytest.raises(ValueError, match="fit it with a decreasing array"):
        plot.fusion_tree(ConvexCovariateClustering(1.0).fit(X, np.arange(20) % 2))


def test_without_matplotlib(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"pip install 'craftc\[app\]'"):
        plot.fusion_tree(model_six())


# ---- rows of ConvexClustering ----


def model_of_rows(chosen=1):
    """Rows 0 to 3: 0 1 | 2 3 part first, then 2 | 3; and 4 5, which share no edge with them."""
    path = np.array([[0, 0, 0, 0, 1, 1], [0, 0, 1, 1, 2, 2], [0, 0, 1, 2, 3, 3]], np.int32)
    model = ConvexClustering()
    model._points = [
        RowsPoint(nu, int(label.max()) + 1, label, 0.0, 0.0)
        for nu, label in zip([10.0, 1.0, 0.1], path, strict=True)
    ]
    model.labels_, model.fusion_penalty_, model.n_clusters_ = (
        path[chosen],
        model._points[chosen].fusion_penalty,
        3,
    )
    return model


def branches(axes):
    """Where each vertical line is, its rows, and its width."""
    (group,) = axes.collections
    pairs = zip(group.get_segments(), group.get_linewidths(), strict=True)
    return {
        (round(float(line[0, 0]), 9), *sorted(line[:, 1].tolist())): width
        for line, width in pairs
        if line[0, 0] == line[1, 0]
    }


def test_rows_merge_at_their_penalties():
    axes = plot.fusion_tree(model_of_rows())
    assert names_of(axes) == ["0", "1", "2", "3", "4", "5"]
    assert numbers_of(axes) == ["2", "2", "2"]  # rows of the chosen clusters
    found = branches(axes)
    assert set(found) == {(0.1, 0.0, 1.0), (1.0, 2.0, 3.0), (10.0, 0.5, 2.5), (0.1, 4.0, 5.0)}
    assert [width for place, width in sorted(found.items()) if width > 1] == [found[10.0, 0.5, 2.5]]
    assert axes.lines[0].get_xdata()[0] == 1.0
    assert "3 clusters" in axes.get_legend().get_texts()[0].get_text()


def test_clusters_are_the_leaves_of_many_rows():
    axes = plot.fusion_tree(model_of_rows(), leaves=4)
    assert names_of(axes) == ["0 and 1 more", "2", "3", "4 and 1 more"]
    assert numbers_of(axes) == ["2", "2", "2"]
    axes = plot.fusion_tree(model_of_rows(), leaves=3, names=list("abcdef"))
    assert names_of(axes) == ["a and 1 more", "c and 1 more", "e and 1 more"]
    axes = plot.fusion_tree(model_of_rows(chosen=2), leaves=2)
    assert names_of(axes) == ["0 and 1 more", "4 and 1 more"]
    assert axes.get_legend().get_title().get_text() == "The 2 largest of 4 clusters"


def test_a_subtree_of_rows():
    assert names_of(plot.fusion_tree(model_of_rows(), only=[3])) == ["2", "3"]
    assert names_of(plot.fusion_tree(model_of_rows(), only=["b", "c"], names=list("abcdef"))) == list("abcd")


def test_a_fitted_path_of_rows():
    X = np.concatenate([np.random.default_rng(0).normal(centre, 0.3, (12, 2)) for centre in (0, 4, 8)])
    model = ConvexClustering(n_clusters=3).fit(X)
    axes = plot.fusion_tree(model)
    axes.figure.canvas.draw()
    assert sorted(map(int, names_of(axes))) == list(range(36))
    assert sorted(map(int, numbers_of(axes))) == sorted(np.bincount(model.labels_))


def test_arguments_of_rows_are_checked():
    with pytest.raises(ValueError, match="of_class is for ConvexCovariateClustering"):
        plot.fusion_tree(model_of_rows(), of_class="spam")
    with pytest.raises(ValueError, match=r"one name per row \(6\), got 1"):
        plot.fusion_tree(model_of_rows(), names=["a"])
    with pytest.raises(ValueError, match="unknown row 6"):
        plot.fusion_tree(model_of_rows(), only=6)
    with pytest.raises(ValueError, match="needs a path"):
        plot.fusion_tree(ConvexClustering(1.0).fit(np.eye(4)))
