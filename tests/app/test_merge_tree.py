"""The tree of a merge path: its structure on paths made by hand, and what the picture shows of a fitted
model.
"""

from __future__ import annotations

import sys
import warnings
from itertools import pairwise

import numpy as np
import pytest

from craftc import CRAFT, FeatureSelectionMixture, PaperCRAFT, plot
from craftc._common.merge_path import Merge, leaves_of, merges_of
from craftc.datasets import load_heart, make_mixed
from craftc.plot.merge_tree import heights_of

pyplot = pytest.importorskip("matplotlib.pyplot")
pyplot.switch_backend("agg")


@pytest.fixture(autouse=True)
def _close():
    yield
    pyplot.close("all")


def blobs(centres, n=30):
    """Rows around some centres in the plane, both coordinates twice."""
    rng = np.random.default_rng(0)
    return np.concatenate([rng.normal([*centre, *centre], 1.0, (n, 4)) for centre in centres])


@pytest.fixture(scope="module")
def four():
    model = CRAFT(random_state=0).fit(make_mixed(400, 4, shift=3.0, random_state=0).data)
    assert model.n_clusters_ == 4
    return model


# ---- structure ----


def test_merges_and_their_parts():
    heirs = [np.array([0, 1, 0, 2]), np.array([0, 1, 1]), np.array([0, 0])]
    assert merges_of(heirs)[0] == [Merge((0, 2), 1), Merge((1, 3), 2), Merge((4, 5), 3)]


def test_a_step_may_lose_two_clusters():
    assert merges_of([np.array([0, 0, 1, 1]), np.array([0, 0])])[0] == [
        Merge((0, 1), 1),
        Merge((2, 3), 1),
        Merge((4, 5), 2),
    ]
    assert merges_of([np.array([0, 0, 0])]) == ([Merge((0, 1, 2), 1)], [[0, 1, 2], [3]])


def test_heights_never_fall():
    np.testing.assert_array_equal(heights_of([10.0, 7.0, 9.0, 15.0, 12.0, 30.0]), [0, 0, 0, 5, 5, 20])


def test_larger_parts_come_first_and_nothing_crosses():
    merges = [Merge((0, 2), 1), Merge((1, 3), 2), Merge((4, 5), 3)]
    assert leaves_of(merges, np.array([1.0, 5.0, 2.0, 3.0])) == [1, 3, 2, 0]
    assert leaves_of(merges, np.array([1.0, 1.0, 1.0, 1.0])) == [0, 2, 1, 3]


# ---- picture ----


def segments(axes):
    """Lines of the tree as ((x, y), (x, y)), with their widths."""
    collection = axes.collections[0]
    return list(zip(collection.get_segments(), collection.get_linewidths(), strict=True))


def crossed(axes, x):
    return sum(min(a[0], b[0]) < x < max(a[0], b[0]) for (a, b), _ in segments(axes))


def cut_of(axes):
    (line,) = [line for line in axes.lines if line.get_linestyle() == "--"]
    return line.get_xdata()[0]


def test_branches_meet_at_the_nats_of_the_path(four):
    axes = plot.merge_tree(four)
    joints = sorted(a[0] for (a, b), _ in segments(axes) if a[0] == b[0])
    nats = [step.objective - four.objective_ for step in four.merge_path_][1:]
    assert np.all(np.diff([0.0, *nats]) > 0)
    np.testing.assert_allclose(joints, nats)
    leaves = [label.get_text() for label in axes.get_yticklabels()]
    merges, _ = merges_of([step.heirs for step in four.merge_path_][1:])
    order = leaves_of(merges, four.cluster_sizes_)
    assert leaves == [f"{k}: {four.cluster_names_[k]} ({four.cluster_sizes_[k] / 4:.0f} %)" for k in order]
    assert axes.get_ylim()[0] > axes.get_ylim()[1]


@pytest.mark.parametrize("n_clusters", [1, 2, 3, 4])
def test_the_cut_crosses_the_branches_of_its_clusters(four, n_clusters):
    axes = plot.merge_tree(four, n_clusters=n_clusters)
    wanted = four.at(n_clusters).n_clusters_
    root = axes.get_xlim()[1]
    assert crossed(axes, cut_of(axes)) == (wanted if wanted > 1 else 0)
    assert cut_of(axes) < root
    assert [each.get_text() for each in axes.texts] == [f"{wanted} cluster{'s' if wanted > 1 else ''}"]
    for (a, b), width in segments(axes):
        assert (width > 2) == (max(a[0], b[0]) > cut_of(axes))


def test_without_a_cut_all_branches_are_alike(four):
    axes = plot.merge_tree(four, n_clusters=None)
    assert axes.lines[:] == []
    assert axes.texts[:] == []
    assert len({width for _, width in segments(axes)}) == 1


def test_merges_that_save_nats_are_left_of_zero():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = CRAFT(4, random_state=0).fit(blobs([(0, 0), (30, 30)]))
    saved = [step.objective - model.objective_ for step in model.merge_path_][1:]
    assert min(saved[:-1]) < 0 < saved[-1]
    axes = plot.merge_tree(model, n_clusters=2)
    *left, last = sorted(a[0] for (a, b), _ in segments(axes) if a[0] == b[0])
    assert max(left) < 0
    assert last == pytest.approx(saved[-1])
    assert "left of 0" in axes.get_xlabel()
    assert crossed(axes, cut_of(axes)) == 2
    assert min(axes.get_xticks()) >= 0


def test_a_path_that_only_saves_nats():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = CRAFT(4, random_state=0).fit(np.random.default_rng(0).normal(size=(30, 2)))
    assert all(step.objective < model.objective_ for step in model.merge_path_[1:])
    axes = plot.merge_tree(model, n_clusters=1)
    axes.figure.canvas.draw()
    assert [text.get_text() for text in axes.texts] == ["1 cluster"]
    shown = [label.get_text() for label in axes.get_xticklabels()]
    assert shown[0] == "0"
    assert len(set(shown)) == len(shown)
    assert all(a[0] < 0 for (a, b), _ in segments(axes))


def test_a_level_of_a_model_is_a_smaller_tree(four):
    axes = plot.merge_tree(four.at(3), n_clusters=2)
    assert len(axes.get_yticklabels()) == 3
    assert sum(a[0] == b[0] for (a, b), _ in segments(axes)) == 2


@pytest.mark.slow
def test_sixty_clusters_fit_in_the_picture():
    table = make_mixed(
        3000, 60, n_numeric=10, n_categorical=8, n_irrelevant=0, shift=6.0, random_state=0
    ).data
    model = CRAFT(60, price_factor=1, random_state=0, n_init=1).fit(table)
    axes = plot.merge_tree(model)
    axes.figure.canvas.draw()
    boxes = [label.get_window_extent() for label in axes.get_yticklabels()]
    assert len(boxes) == 60
    boxes.sort(key=lambda box: box.y0)
    assert all(low.y1 <= high.y0 + 0.5 for low, high in pairwise(boxes))
    assert all(box.x0 >= 0 for box in boxes)


def test_bad_input_is_rejected(four, monkeypatch):
    with pytest.raises(TypeError, match="merge_path_ of CRAFT; FeatureSelectionMixture has none"):
        plot.merge_tree(FeatureSelectionMixture(2).fit(blobs([(0, 0), (9, 9)])))
    with pytest.raises((ValueError, TypeError), match="needs two clusters, but the model has one"):
        plot.merge_tree(four.at(1))
    with pytest.raises(TypeError, match="merge_path_ of CRAFT; PaperCRAFT has none"):
        plot.merge_tree(PaperCRAFT(2, random_state=0).fit(blobs([(0, 0), (9, 9)])))
    with pytest.raises((ValueError, TypeError), match="has 4 clusters, fewer than 5"):
        plot.merge_tree(four, n_clusters=5)
    with pytest.raises((ValueError, TypeError), match="n_clusters must be"):
        plot.merge_tree(four, n_clusters="best")
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"pip install 'craftc\[app\]'"):
        plot.merge_tree(CRAFT(random_state=0).fit(load_heart().data))
