"""The map of clusters, the plot of the path and that of the stability: geometry, contents, bad input."""

from __future__ import annotations

import re

import numpy as np
import pytest

from craftc import CRAFT, DPMeans, FeatureSelectionMixture, plot
from craftc.craft.answers.path import NullTest
from craftc.craft.answers.stability import Stability
from craftc.datasets import load_heart
from craftc.describe.cluster_map import WIDTH, cluster_map, contours, sampled_rows
from craftc.describe.words import percent

pyplot = pytest.importorskip("matplotlib.pyplot")
pyplot.switch_backend("agg")
Path = pytest.importorskip("matplotlib.path").Path


@pytest.fixture(autouse=True)
def _close():
    yield
    pyplot.close("all")


@pytest.fixture(scope="module")
def heart():
    table = load_heart().data
    return CRAFT(3, random_state=0).fit(table), table


def costs_of(centres, n=300, seed=0):
    """Costs of rows of normal distributions of variance 1, and their clusters."""
    rng, centres = np.random.default_rng(seed), np.asarray(centres, float)
    own = rng.integers(0, len(centres), n)
    rows = centres[own] + rng.normal(size=(n, centres.shape[1]))
    costs = ((rows[:, None] - centres) ** 2).sum(axis=2) / 2
    return costs, costs.argmin(axis=1)


def inside(found, k, points):
    """Whether points lie in the area of a cluster; an outline inside another ends it."""
    hits = [Path(ring).contains_points(points) for ring in found.areas[k]]
    return np.sum(hits, axis=0) % 2 == 1


# ---- geometry ----


def test_distances_are_those_of_normal_clusters():
    centres = np.array([[0.0, 0.0], [4.0, 0.0], [0.0, 4.0], [4.5, 4.5]])
    found = cluster_map(*costs_of(centres, 4000))

    def between(places):
        lengths = np.sqrt(((places[:, None] - places) ** 2).sum(axis=2))
        return lengths / lengths.max()

    assert between(found.centres) == pytest.approx(between(centres), abs=0.15)


def test_rows_that_two_clusters_describe_equally_well_lie_midway():
    costs, labels = costs_of([[0, 0], [4, 0], [0, 4]], 2000)
    costs[:3] = [[2, 2, 12], [2, 12, 2], [12, 2, 2]]
    labels[:3] = [0, 0, 1]
    found = cluster_map(costs, labels)
    of_row = dict(zip(found.rows.tolist(), found.points, strict=True))
    centre = np.array([np.median(found.points[found.labels == k], axis=0) for k in range(3)])
    for row, (k, j) in enumerate([(0, 1), (0, 2), (1, 2)]):
        if row in of_row:
            along = (of_row[row] - centre[k]) @ (centre[j] - centre[k]) / ((centre[j] - centre[k]) ** 2).sum()
            assert along == pytest.approx(0.5, abs=0.12)
            assert found.between[found.rows.tolist().index(row)]


@pytest.mark.parametrize("n_clusters", [1, 2, 3, 7, 25])
def test_all_rows_and_areas_lie_in_the_picture(n_clusters):
    centres = np.random.default_rng(n_clusters).normal(0, 4, (n_clusters, 5))
    found = cluster_map(*costs_of(centres, 1500))
    for points in (found.points, *(ring for rings in found.areas for ring in rings)):
        assert (points >= 0).all()
        assert (points <= [WIDTH, found.height]).all()
    shares = [inside(found, k, found.points[found.labels == k]).mean() for k in found.drawn]
    assert np.mean(shares) > 0.8
    assert len(found.points) <= 2000 + 25 * n_clusters
    again = cluster_map(*costs_of(centres, 1500))
    assert np.array_equal(found.points, again.points)


def test_clusters_that_overlap_share_an_area_and_others_do_not():
    near, far = (
        cluster_map(*costs_of([[0.0], [1.5], [9.0]], 3000)),
        cluster_map(*costs_of([[0.0], [9.0]], 3000)),
    )
    grid = np.argwhere(np.ones((100, 80))).astype(float)
    common = inside(near, 0, grid) & inside(near, 1, grid)
    assert common.sum() > 100
    assert near.neighbours(0) == [1]
    assert re.fullmatch(r"also in question: 2 for \d\d % of its rows", near.words(0))
    assert not (inside(far, 0, grid) & inside(far, 1, grid)).any()
    assert far.words(0) == "apart from all others"


@pytest.mark.parametrize(
    ("costs", "labels"),
    [
        (np.zeros((1, 1)), [0]),
        (np.zeros((1, 5)), [3]),
        (np.zeros((4, 3)), [0, 1, 2, 2]),  # rows that all clusters describe equally well
        (np.tile([0.0, 1e6, 1e6], (9, 1)), [0] * 9),
        (
            np.array([[0.0, 1e7, 9.0], [1e7, 0.0, 9.0], [5.0, 4.0, 9.0]]),
            [0, 1, 2],
        ),  # not the cheapest cluster
        (np.array([[0.0, 3.0], [3.0, 0.0]]), [1, 0]),
    ],
)
def test_awkward_rows(costs, labels):
    found = cluster_map(costs, np.array(labels))
    assert np.isfinite(found.points).all()
    assert found.drawn == sorted(set(labels))
    assert all(found.areas[k] for k in found.drawn)


def test_contours_of_a_disc_and_of_a_ring():
    x, y = np.mgrid[-20:21, -20:21]
    radius = np.hypot(x, y)
    (disc,) = contours(np.maximum(20.0 - radius, 0.0), 10.0)
    assert np.hypot(*(disc - 20).T) == pytest.approx(np.full(len(disc), 10.0), abs=0.1)
    assert len(contours(10.0 - np.abs(radius - 10.0), 6.0)) == 2
    corner = np.zeros((3, 3))
    corner[0, 0] = corner[1, 1] = 1.0  # cells that touch at a corner
    assert len(contours(corner, 0.5)) == 2


def test_the_sample_is_the_same_in_every_call():
    assert len(sampled_rows(100)) == 100
    rows = sampled_rows(100_000)
    assert len(rows) == 16_384
    assert np.array_equal(rows, sampled_rows(100_000))
    assert (np.diff(rows) >= 0).all()


# ---- the plot ----


def test_map_names_clusters_and_counts_rows(heart):
    model, table = heart
    axes = plot.map(model, table)
    names = [text.get_text().replace("\n", " ") for text in axes.texts]
    assert [name.split(":")[0] for name in names] == [str(k) for k in np.argsort(-model.cluster_sizes_)]
    assert axes.get_xlabel().startswith("270 rows; dark: between clusters, probability below 60 %")
    assert len(axes.patches) == 3
    assert sum(len(dots.get_offsets()) for dots in axes.collections[:3]) == 270


def test_map_of_few_and_of_many_clusters(heart):
    model, table = heart
    for k in (1, 2):
        axes = plot.map(model.at(k), table)
        assert len(axes.patches) == len(axes.texts) == k
        assert axes.get_ylabel() == "← unusual rows"
    rng = np.random.default_rng(0)
    group = np.repeat(np.arange(15), 20)
    X = rng.normal(size=(300, 3)) + 30 * np.array([rng.permutation(15)[group] for _ in range(3)]).T
    model = CRAFT(15, n_init=1, random_state=0).fit(X)
    axes = plot.map(model, X)
    legend = [text.get_text() for text in axes.get_legend().texts]
    assert len(legend) == len(axes.texts) == 15


def test_map_of_rows_of_one_cluster_and_of_a_mixture(heart):
    model, table = heart
    axes = plot.map(model, table[model.labels_ == 0])
    assert axes.get_xlabel().endswith("2 clusters without rows")
    X = np.random.default_rng(0).normal(size=(90, 2)) + 8 * np.repeat([[0, 0], [0, 1], [1, 0]], 30, axis=0)
    mixture = FeatureSelectionMixture(3, random_state=0).fit(X)
    assert len(plot.map(mixture, X).patches) == len(set(mixture.predict(X)))


def test_outliers_are_marked_in_the_cluster_that_describes_them_best():
    table = load_heart().data
    model = CRAFT(outlier_price=-1.0, random_state=0).fit(table)
    outliers = int((model.labels_ == -1).sum())
    assert 0 < outliers < 200
    axes = plot.map(model, table)
    assert len(axes.patches) == model.n_clusters_
    crosses = axes.collections[-1]
    assert len(crosses.get_offsets()) == outliers
    assert axes.get_xlabel().endswith(f"; x: outliers ({percent(outliers / 270)})")
    other = CRAFT(random_state=0).fit(table)
    marked, whole = (plot.tiles(each, table).images[0].get_array() for each in (model, other))
    assert np.array_equal(marked, whole)
    assert len(plot.distribution(model, "slope", table).patches) > 0


def test_figures_are_saved_with_text_as_text_at_300_dpi(heart, tmp_path):
    model, table = heart
    figure = plot.map(model, table).figure
    figure.savefig(tmp_path / "map.svg")
    assert "probability below 60" in re.sub("<[^>]*>", "", (tmp_path / "map.svg").read_text(encoding="utf-8"))
    figure.savefig(tmp_path / "map.png")
    height, width = pyplot.imread(tmp_path / "map.png").shape[:2]
    assert [width, height] == pytest.approx(300 * figure.get_size_inches(), abs=1)
    figure.savefig(tmp_path / "small.png", dpi=50)
    assert pyplot.imread(tmp_path / "small.png").shape[1] == pytest.approx(50 * figure.get_figwidth(), abs=1)


def test_map_refuses_other_models_and_tables(heart):
    model, table = heart
    with pytest.raises(TypeError, match=r"plot\.map draws the clusters of CRAFT and FeatureSelectionMixture"):
        plot.map(DPMeans(), table)
    with pytest.raises(ValueError, match="age"):
        plot.map(model, table.drop(columns="age"))


# ---- path and stability ----


def span_of(band):
    """The lower and the upper end, of a rectangle or a polygon."""
    heights = band.get_patch_transform().transform(band.get_path().vertices)[:, 1]
    return [heights.min(), heights.max()]


def test_path_shows_savings_and_the_band(heart):
    table = heart[1]
    model = CRAFT(random_state=0).fit(table)
    null = NullTest(100.0, 2, np.array([-3.0, 7.0]), np.array([2, 2]), 270, False)
    axes = plot.path(model, null)
    J = dict(model.merge_path_.objectives())
    assert axes.lines[0].get_xdata().tolist() == [1, 2]
    assert axes.lines[0].get_ydata() == pytest.approx([0.0, J[1] - J[2]])
    (band,) = axes.patches
    assert span_of(band) == pytest.approx([-3.0, 7.0])
    sampled = NullTest(50.0, 2, np.array([1.0, 2.0]), np.array([2, 2]), 135, True)
    (band,) = plot.path(model, sampled).patches
    assert span_of(band) == pytest.approx([2.0, 4.0])
    assert plot.path(model).get_legend() is None
    one = plot.path(model.at(1))
    assert one.lines[0].get_xdata().tolist() == [1]
    assert all(tick.is_integer() for tick in one.get_xticks())


def test_path_refuses_what_has_none(heart):
    model = heart[0]
    with pytest.raises(TypeError, match="the merge_path_ of CRAFT; DPMeans has none"):
        plot.path(DPMeans())
    with pytest.raises(TypeError, match=r"the result of model\.null_test\(X\), got a float"):
        plot.path(model, 3.0)
    with pytest.raises(ValueError, match="has 3 clusters, null_test is of 2"):
        plot.path(model, NullTest(1.0, 2, np.zeros(1), np.ones(1, int), 270, False))


def test_stability_shows_every_refit_and_names(heart):
    model = heart[0]
    overlap = np.array([[0.9, 0.5, np.nan], [0.8, 0.7, 0.6]])
    result = Stability(overlap, np.array([3, 3]), np.empty(0))
    axes = plot.stability(result, model)
    dots, means = (np.asarray(dots.get_offsets()) for dots in axes.collections)
    assert len(dots) == 5
    order = np.argsort(-model.cluster_sizes_)
    assert means[:, 0] == pytest.approx(np.array([0.85, 0.6, 0.6])[order])
    assert [label.get_text()[0] for label in axes.get_yticklabels()] == [str(k) for k in order]
    assert plot.stability(result).get_yticklabels()[2].get_text() == "cluster 2"
    with pytest.raises(TypeError, match="got a CRAFT"):
        plot.stability(model)
    with pytest.raises(ValueError, match="has 2 clusters, the stability is of 3"):
        plot.stability(result, model.at(2))
