"""The picture of a graph between columns and that of its spectrum: what is drawn, where, and how bad input is
rejected.
"""

from __future__ import annotations

import subprocess
import sys
from itertools import combinations

import numpy as np
import pytest

from craftc import BPMeans, GraphSpectralFeatures, plot
from craftc.datasets import load_heart
from tests.common import ROOT

pyplot = pytest.importorskip("matplotlib.pyplot")
pytest.importorskip("networkx")
pyplot.switch_backend("agg")

BLUE, ORANGE = "#0072b2", "#d55e00"


@pytest.fixture(autouse=True)
def _close():
    yield
    pyplot.close("all")


def model_of(graph, levels=(), *, names=None, n_numeric=None):
    """A model with this graph (p, p): numbers n0, n1, ..., and variables of these encoded columns."""
    graph = np.asarray(graph, float)
    n_numeric = len(graph) - sum(levels) if n_numeric is None else n_numeric
    columns = np.concatenate(
        [np.arange(n_numeric), n_numeric + np.repeat(np.arange(len(levels)), levels)]
    ).astype(np.intp)
    model = GraphSpectralFeatures()
    model.graph_, model.n_numeric_, model.encoded_columns_ = graph, n_numeric, columns
    own = [f"n{i}" for i in range(n_numeric)] + [
        f"v{k}={level}" for k, size in enumerate(levels) for level in range(size)
    ]
    model.encoded_names_ = np.array(own if names is None else names, object)
    return model


def random_graph(n_numeric, levels, seed=0):
    """Weights between all columns but those of one variable."""
    p = n_numeric + sum(levels)
    owner = np.concatenate([np.arange(n_numeric), n_numeric + np.repeat(np.arange(len(levels)), levels)])
    graph = np.triu(np.random.default_rng(seed).normal(size=(p, p)), 1)
    return (graph + graph.T) * (owner[:, None] != owner)


def strongest(model, top):
    """{pair of names: weight}, word for word."""
    graph, names = model.graph_, model.encoded_names_
    pairs = sorted(combinations(range(len(graph)), 2), key=lambda pair: -abs(graph[pair]))
    return {frozenset((names[i], names[j])): graph[i, j] for i, j in pairs[:top] if graph[i, j] != 0}


def parts(axes, gid):
    """(pair of names, colour, width, dashes) of the lines of the picture."""
    from matplotlib.colors import to_hex

    (collection,) = [one for one in axes.collections if one.get_gid() == gid]
    places = {text.get_position(): text.get_text().replace("\n= ", "=") for text in axes.texts}
    lines = collection.get_segments()
    colours, widths, styles = (
        collection.get_colors(),
        collection.get_linewidths(),
        collection.get_linestyles(),
    )
    widths, styles = np.resize(widths, len(lines)), [styles[k % len(styles)][1] for k in range(len(lines))]
    return [
        (frozenset(places[tuple(end)] for end in line), to_hex(colour), width, style is not None)
        for line, colour, width, style in zip(lines, colours, widths, styles, strict=True)
    ]


def frames(axes):
    """Boxes of the framed labels and of the legend, in pixels."""
    axes.figure.canvas.draw()
    return [text.get_bbox_patch().get_window_extent() for text in axes.texts] + [
        axes.get_legend().get_window_extent()
    ]


def words(axes):
    return [text.get_text() for text in axes.texts]


def legend(axes):
    return [text.get_text() for text in axes.get_legend().get_texts()]


# ---- what is drawn ----


@pytest.mark.parametrize(
    ("n_numeric", "levels", "top"),
    [(6, (4, 3, 1), 1), (6, (4, 3, 1), 9), (0, (3, 3), 4), (5, (), 99), (2, (2, 5, 1, 7), 30)],
)
def test_the_strongest_edges_and_the_columns_that_have_one(n_numeric, levels, top):
    model = model_of(random_graph(n_numeric, levels), levels)
    expected = strongest(model, top)
    axes = plot.dependence_graph(model, top=top)
    drawn = {pair: (colour, dashed) for pair, colour, _, dashed in parts(axes, "edges")}
    assert drawn == {
        pair: (BLUE, False) if weight > 0 else (ORANGE, True) for pair, weight in expected.items()
    }
    touched = frozenset().union(*expected)
    assert words(axes) == [name for name in model.encoded_names_ if name in touched]
    axes.figure.canvas.draw()


def test_strong_edges_are_wide_and_on_top():
    model = model_of(random_graph(4, (3,)), (3,))
    expected = strongest(model, 8)
    lines = parts(plot.dependence_graph(model, top=8), "edges")
    weights = np.abs([expected[pair] for pair, *_ in lines])
    widths = np.array([width for _, _, width, _ in lines])
    assert (np.diff(weights) >= 0).all()
    assert (np.diff(widths) > 0).all()
    np.testing.assert_allclose(
        (widths - widths[0]) / (widths[-1] - widths[0]), (weights - weights[0]) / (weights[-1] - weights[0])
    )


def test_equal_weights_come_in_order_of_the_columns():
    axes = plot.dependence_graph(model_of(1.0 - np.eye(4)), top=2)
    assert {pair for pair, *_ in parts(axes, "edges")} == {frozenset(("n0", "n1")), frozenset(("n0", "n2"))}


def test_weights_of_zero_are_no_edges():
    graph = np.zeros((5, 5))
    graph[0, 3] = graph[3, 0] = -0.2
    axes = plot.dependence_graph(model_of(graph), top=30)
    assert words(axes) == ["n0", "n3"]
    assert axes.get_legend().get_title().get_text() == "The only edge"
    assert len(parts(axes, "edges")) == 1


def test_the_legend_says_what_occurs():
    model = model_of(random_graph(3, (3, 1)), (3, 1))
    axes = plot.dependence_graph(model, top=12)
    assert legend(axes) == ["positive weight", "negative weight", "numeric", "level", "same variable"]
    assert axes.get_legend().get_title().get_text().startswith("The 12 strongest of 18 edges")
    assert plot.dependence_graph(model).get_legend().get_title().get_text().startswith("All 18 edges")
    assert legend(plot.dependence_graph(model_of(np.abs(random_graph(3, ()))))) == [
        "positive weight",
        "numeric",
    ]
    assert legend(plot.dependence_graph(model_of(-np.abs(random_graph(0, (1, 1, 1))), (1, 1, 1)))) == [
        "negative weight",
        "level",
    ]


def test_numbers_are_round_and_levels_of_a_variable_have_its_colour():
    levels = (3, 2, 1)
    axes = plot.dependence_graph(model_of(random_graph(2, levels), levels), top=99)
    boxes = [text.get_bbox_patch() for text in axes.texts]
    assert [type(box.get_boxstyle()).__name__ for box in boxes] == ["Round"] * 2 + ["Square"] * 6
    colours = [box.get_facecolor() for box in boxes]
    groups = [{colours[i] for i in some} for some in ((0, 1), (2, 3, 4), (5, 6), (7,))]
    assert [len(group) for group in groups] == [1, 1, 1, 1]
    assert len(set.union(*groups)) == 4
    bands = [(pair, colour) for pair, colour, *_ in parts(axes, "variables")]
    assert sorted(sorted({name[:2] for name in pair}) for pair, _ in bands) == [["v0"], ["v0"], ["v1"]]
    assert len(frozenset().union(*(pair for pair, _ in bands))) == 5
    assert len({colour for _, colour in bands}) == 2


def test_more_variables_than_colours():
    levels = (2,) * 12
    axes = plot.dependence_graph(model_of(random_graph(0, levels), levels), top=999)
    assert len(parts(axes, "variables")) == 12


# ---- where ----


@pytest.mark.slow_except(3)
@pytest.mark.parametrize(
    ("n_numeric", "levels", "top"),
    [(6, (4, 3, 3, 3, 1, 1, 1), 30), (6, (8, 16, 7, 14, 6, 5, 1, 41), 60), (2, (1,), 3), (1, (1,), 1)],
)
@pytest.mark.parametrize("seed", range(3))
def test_no_label_lies_on_another_or_on_the_legend_or_outside(n_numeric, levels, top, seed):
    axes = plot.dependence_graph(model_of(random_graph(n_numeric, levels, seed), levels), top=top)
    boxes = frames(axes)
    for one, other in combinations(boxes, 2):
        assert min(one.x1, other.x1) <= max(one.x0, other.x0) or min(one.y1, other.y1) <= max(
            one.y0, other.y0
        )
    for box in boxes:
        assert axes.bbox.x0 <= box.x0 <= box.x1 <= axes.bbox.x1
        assert axes.bbox.y0 <= box.y0 <= box.y1 <= axes.bbox.y1
    assert {text.get_fontsize() for text in axes.texts} == {8.0}


def test_the_picture_is_the_same_every_time():
    model = model_of(random_graph(5, (4, 4)), (4, 4))
    first, second = (plot.dependence_graph(model) for _ in range(2))
    assert [text.get_position() for text in first.texts] == [text.get_position() for text in second.texts]
    np.testing.assert_array_equal(first.collections[1].get_segments(), second.collections[1].get_segments())


def test_levels_of_a_variable_are_near_each_other():
    graph = np.zeros((8, 8))
    for i in range(4):  # each level of the one goes with its own of the other
        graph[i, 4 + i] = graph[4 + i, i] = 1.0
    axes = plot.dependence_graph(model_of(graph, (4, 4)))
    places = np.array([text.get_position() for text in axes.texts])
    distances = np.linalg.norm(places[:, None] - places, axis=2)
    kin = np.arange(8)[:, None] // 4 == np.arange(8) // 4
    assert distances[kin].sum() / (2 * 4 * 3) < 0.75 * distances[~kin].mean()


def test_a_label_moves_out_from_under_the_line_of_others():
    from craftc.plot.graph import spread

    # the third of four on a line is under the line from the second to the fourth
    places = np.array([[0.0, 0.0], [1.0, 0.0], [2.0, 0.0], [3.0, 0.0]])
    moved, fits = spread(
        places, np.full((4, 2), [40.0, 15.0]), np.array([400.0, 300.0]), np.array([[0, 1], [1, 3]])
    )
    line, middle = moved[3] - moved[1], moved[2] - moved[1]
    assert fits
    assert abs(line[0] * middle[1] - line[1] * middle[0]) / np.hypot(*line) > 15 / 2


def test_labels_without_room_say_so():
    from craftc.plot.graph import spread

    sizes = np.full((9, 2), [40.0, 15.0])
    places = np.random.default_rng(0).normal(size=(9, 2))
    pairs = np.array([[0, 1]])
    assert spread(places, sizes, np.array([200.0, 100.0]), pairs)[1]
    assert not spread(places, sizes, np.array([80.0, 40.0]), pairs)[1]
    assert not spread(places, sizes, np.array([10.0, 10.0]), pairs)[1]


def test_axes_of_the_caller():
    model = model_of(random_graph(6, (4, 3)), (4, 3))
    left, right = pyplot.figure(figsize=(4, 2), layout="constrained").subfigures(1, 2)
    mine = left.add_subplot()
    assert plot.dependence_graph(model, ax=mine, top=20) is mine
    assert 4.0 <= mine.texts[0].get_fontsize() < 8.0
    assert len(right.axes) == 0
    wide = pyplot.figure(figsize=(12, 8)).add_subplot()
    assert plot.dependence_graph(model, ax=wide, top=20).texts[0].get_fontsize() == 8.0
    pyplot.figure(figsize=(0.5, 0.4)).add_subplot()
    plot.dependence_graph(model, ax=pyplot.gca()).figure.canvas.draw()


def test_more_columns_get_a_larger_figure():
    model = model_of(random_graph(30, ()))
    small, large = (plot.dependence_graph(model, top=top).figure.get_size_inches() for top in (2, 60))
    assert (small < large).all()


# ---- names ----


def test_names_of_the_caller():
    graph = random_graph(2, (1,))
    axes = plot.dependence_graph(model_of(graph, (1,)), names=["age", "pulse at rest, per minute", "men"])
    assert words(axes) == ["age", "pulse at rest, per\nminute", "men"]
    axes = plot.dependence_graph(model_of(graph, (1,)), names=np.array(["$a$", "x_1", "50% of $"]))
    axes.figure.canvas.draw()
    assert words(axes) == ["$a$", "x_1", "50% of $"]
    assert not any(text.get_parse_math() for text in axes.texts)


def test_long_names_are_shortened_to_two_lines():
    names = [
        "a number with a long name, in words, and also in milligrams",
        "y" * 60,
        "v=" + "long level " * 6 + "A",
        "v=" + "long level " * 6 + "B",
    ]
    graph = np.zeros((4, 4))
    graph[:2, 2:], graph[2:, :2] = 1.0, 1.0
    axes = plot.dependence_graph(model_of(graph, (2,), names=names))
    assert len(set(words(axes))) == 4
    for word in words(axes):
        lines = word.split("\n")
        assert len(lines) == 2
        assert max(map(len, lines)) <= 24
        assert "…" in word


def test_a_variable_whose_name_holds_an_equals_sign():
    model = model_of(
        random_graph(0, (2, 2)), (2, 2), names=["ratio=a/b=low", "ratio=a/b=high", "short=1", "other=a=b=c=d"]
    )
    model.feature_names_in_ = np.array(["ratio=a/b", "short"], object)
    assert words(plot.dependence_graph(model)) == [
        "ratio=a/b\n= low",
        "ratio=a/b\n= high",
        "short=1",
        "other=a=b=c=d",
    ]
    del model.feature_names_in_
    assert words(plot.dependence_graph(model)) == [
        "ratio\n= a/b=low",
        "ratio\n= a/b=high",
        "short=1",
        "other\n= a=b=c=d",
    ]


# ---- a fitted model ----


@pytest.fixture(scope="module")
def heart():
    pytest.importorskip("pandas")
    return GraphSpectralFeatures(4, random_state=0).fit(load_heart().data)


@pytest.mark.parametrize("top", [1, 12, 30])
def test_a_fitted_model_shows_its_edges(heart, top):
    table = heart.edges(top)
    axes = plot.dependence_graph(heart, top=top)
    drawn = {pair: colour for pair, colour, *_ in parts(axes, "edges")}
    assert drawn == {
        frozenset((row.source, row.target)): BLUE if row.sign > 0 else ORANGE
        for row in table.itertuples(index=False)
    }
    axes.figure.canvas.draw()


def test_a_fitted_model_shows_its_spectrum(heart):
    axes = plot.spectrum(heart)
    kept = axes.lines[-1]
    assert legend(axes)[0] == f"kept: 4 of {len(heart.spectrum_)}"
    np.testing.assert_array_equal(kept.get_ydata(), heart.spectrum_[:4])
    np.testing.assert_allclose(kept.get_ydata(), heart.eigenvalues_, atol=1e-12)
    axes.figure.canvas.draw()


# ---- the spectrum ----


def model_with(spectrum, kept, skip_first=False):
    model = GraphSpectralFeatures(kept, skip_first=skip_first)
    model.spectrum_ = np.asarray(spectrum, float)
    model.eigenvalues_ = model.spectrum_[int(skip_first) : int(skip_first) + kept]
    return model


def test_kept_eigenvalues_and_the_gap_behind_them():
    mine = pyplot.figure().add_subplot()
    assert plot.spectrum(model_with([0.0, 0.1, 0.2, 0.7, 0.8], 3), ax=mine) is mine
    everyone, _, left_out, kept = mine.lines
    np.testing.assert_array_equal(everyone.get_xydata(), [[1, 0], [2, 0.1], [3, 0.2], [4, 0.7], [5, 0.8]])
    np.testing.assert_array_equal(kept.get_xydata(), [[1, 0], [2, 0.1], [3, 0.2]])
    np.testing.assert_array_equal(left_out.get_xydata(), [[4, 0.7], [5, 0.8]])
    (band,) = mine.patches
    extent = band.get_extents().transformed(mine.transData.inverted())  # a polygon before matplotlib 3.9
    np.testing.assert_allclose([extent.y0, extent.y1], [0.2, 0.7])
    assert legend(mine) == ["kept: 3 of 5", "not kept", "gap after the last kept: 0.5"]
    assert mine.get_xlabel()
    assert mine.get_ylabel()


def test_a_first_component_left_out():
    axes = plot.spectrum(model_with([0.0, 0.1, 0.2, 0.7, 0.8], 2, skip_first=True))
    *_, left_out, kept = axes.lines
    np.testing.assert_array_equal(kept.get_xdata(), [2, 3])
    np.testing.assert_array_equal(left_out.get_xdata(), [1, 4, 5])
    assert legend(axes)[-1] == "gap after the last kept: 0.5"


def test_all_kept_or_equal_eigenvalues():
    axes = plot.spectrum(model_with([0.0, 1.0, 1.0], 3))
    assert legend(axes) == ["kept: 3 of 3"]
    assert not axes.patches
    assert legend(plot.spectrum(model_with([0.0, 1.0, 1.0 + 2e-16], 2)))[-1] == "gap after the last kept: 0"
    plot.spectrum(model_with([0.0], 1)).figure.canvas.draw()


# ---- bad input ----


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"names": ["a"]}, r"one name per encoded column \(5, see encoded_names_\), got 1"),
        ({"top": 0}, "top must be a whole number >= 1, got 0"),
    ],
)
def test_bad_input_is_rejected(arguments, message):
    with pytest.raises(ValueError, match=message):
        plot.dependence_graph(model_of(random_graph(5, ())), **arguments)


def test_a_graph_without_edges_is_rejected():
    with pytest.raises(ValueError, match="The graph has no edge: all its weights are 0"):
        plot.dependence_graph(model_of(np.zeros((3, 3))))
    with pytest.raises(ValueError, match="no edge"):
        plot.dependence_graph(model_of(np.zeros((1, 1))))


def test_wrong_types_are_rejected():
    with pytest.raises(TypeError, match="top must be a whole number"):
        plot.dependence_graph(model_of(random_graph(5, ())), top=2.5)
    fitted = BPMeans(1.0).fit(np.random.default_rng(0).normal(size=(20, 3)))
    with pytest.raises(
        TypeError, match=r"plot\.dependence_graph draws the graph_ of GraphSpectralFeatures; BPMeans has none"
    ):
        plot.dependence_graph(fitted)
    with pytest.raises(
        TypeError, match=r"plot\.spectrum draws the spectrum_ of GraphSpectralFeatures; BPMeans has none"
    ):
        plot.spectrum(fitted)


def test_without_networkx_or_matplotlib(monkeypatch):
    model = model_of(random_graph(5, ()))
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "networkx", None)
        with pytest.raises(ImportError, match=r"networkx: pip install 'craftc\[app\]'"):
            plot.dependence_graph(model)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"matplotlib: pip install 'craftc\[app\]'"):
        plot.dependence_graph(model)
    with pytest.raises(ImportError, match=r"matplotlib: pip install 'craftc\[app\]'"):
        plot.spectrum(model_with([0.0, 1.0], 1))


def test_the_module_is_light():
    script = "import sys, craftc; craftc.plot; print('networkx' in sys.modules, 'matplotlib' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "False False"
