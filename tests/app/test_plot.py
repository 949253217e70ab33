"""Pictures of features and tables: how many there are, how they are shown, and how bad input is rejected."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from craftc import CRAFT, BPMeans, DPMeans, FeatureSelectionMixture, KFeatures, plot
from craftc.plot.tile_table import _OF_LEVELS
from tests.common import ROOT

pyplot = pytest.importorskip("matplotlib.pyplot")
pyplot.switch_backend("agg")
to_rgb = pytest.importorskip("matplotlib.colors").to_rgb


@pytest.fixture(autouse=True)
def _close():
    yield
    pyplot.close("all")


def model_of(pictures, n=40, seed=0):
    """A model whose rows are sums of the pictures."""
    pictures = np.asarray(pictures, float).reshape(len(pictures), -1)
    Z = np.random.default_rng(seed).integers(0, 2, (n, len(pictures)))
    Z[: len(pictures)] = np.eye(len(pictures))
    return KFeatures(init=Z).fit(Z @ pictures)


def test_one_picture_per_feature_and_its_rows():
    model = model_of(np.random.default_rng(1).random((7, 3, 4)))
    figure = plot.features(model, (3, 4), columns=3)
    assert [axes.get_title() for axes in figure.axes] == [
        f"feature {k}: {n} rows" for k, n in enumerate(model.assignments_.sum(axis=0))
    ]
    assert figure.axes[0].get_gridspec().get_geometry() == (3, 3)
    np.testing.assert_array_equal(figure.axes[2].images[0].get_array(), model.features_[2].reshape(3, 4))
    figure.canvas.draw()


def test_names_and_a_figure_of_the_caller():
    mine = pyplot.figure()
    left, _ = mine.subfigures(1, 2)
    assert (
        plot.features(model_of(np.eye(4).reshape(4, 2, 2)), (2, 2), names=list("abcd"), figure=left) is left
    )
    assert left.axes[3].get_title().startswith("d: ")


def test_differences_are_symmetric_and_pictures_are_not():
    model = model_of([[[2.0, 0], [1, 1]], [[-4.0, 0], [0, 1]]])
    picture, difference = (axes.images[0] for axes in plot.features(model, (2, 2)).axes)
    assert picture.get_cmap().name == "gray"
    np.testing.assert_allclose(picture.get_clim(), (0, 2))
    assert difference.get_cmap().name == "RdBu_r"
    np.testing.assert_allclose(difference.get_clim(), (-4, 4))
    for wanted, cmap in ((True, "RdBu_r"), (False, "gray")):
        assert {
            axes.images[0].get_cmap().name for axes in plot.features(model, (2, 2), difference=wanted).axes
        } == {cmap}


def test_colours():
    picture, difference = np.zeros((2, 2, 2, 3))
    picture[0, 0], difference[1, 1] = (4, 2, 0), (-1, 0, 0.5)
    shown = [
        axes.images[0].get_array() for axes in plot.features(model_of([picture, difference]), (2, 2, 3)).axes
    ]
    np.testing.assert_allclose(shown[0][0, 0], (1, 0.5, 0), atol=1e-12)
    np.testing.assert_allclose(shown[1][1, 1], (0, 0.5, 0.75), atol=1e-12)
    np.testing.assert_allclose(shown[1][0], 0.5, atol=1e-12)


def test_scores_become_pixels():
    scores = np.random.default_rng(2).normal(size=(3, 5))
    model, matrix = model_of(scores), np.random.default_rng(3).normal(size=(5, 6))
    expected = model.features_ @ matrix
    for to_pixels, more in (
        (matrix, 0),
        ((matrix, np.arange(6.0)), np.arange(6.0)),
        (lambda table: (table @ matrix).reshape(3, 2, 3), 0),
    ):
        figure = plot.features(model, (2, 3), to_pixels=to_pixels)
        np.testing.assert_allclose(
            [axes.images[0].get_array().ravel() for axes in figure.axes], expected + more
        )


def test_a_feature_of_zeros_can_be_drawn():
    model = model_of(np.eye(2)[:, None])
    model.features_ = np.zeros_like(model.features_)
    plot.features(model, (1, 2)).canvas.draw()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"shape": (2, 3)}, r"shape \(2, 3\) has 6 pixels, but a feature has 4"),
        ({"shape": 4}, "shape must be"),
        ({"shape": (1, 1, 4)}, "shape must be"),
        ({"shape": (2, 2), "names": ["a"]}, r"one name per feature \(2\), got 1"),
        ({"shape": (2, 2), "columns": 0}, "columns must be at least 1"),
        ({"shape": (2, 2), "to_pixels": np.eye(3)}, "one row for each of the model's 4 columns"),
        ({"shape": (2, 2), "to_pixels": np.ones((4, 5))}, "to_pixels returns 5;"),
    ],
)
def test_bad_input_is_rejected(arguments, message):
    with pytest.raises(ValueError, match=message):
        plot.features(model_of(np.eye(4)[:2]), **arguments)


def test_models_without_features():
    with pytest.raises(TypeError, match="DPMeans has none"):
        plot.features(DPMeans(1.0).fit(np.eye(4)), (2, 2))
    with pytest.raises(ValueError, match="no features"):
        plot.features(BPMeans(100.0).fit(np.eye(4)), (2, 2))


def test_without_matplotlib(monkeypatch):
    model = model_of(np.eye(4))
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"pip install 'craftc\[app\]'"):
        plot.features(model, (2, 2))


@pytest.mark.slow
def test_the_module_is_light():
    script = "import sys, craftc; craftc.plot; print('matplotlib' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "False"


# ---- tiles ----


def blocks(n=60, missing=False):
    """Two clusters: one owns columns 0 and 1, the other 1 and 2; columns 3 to 9 are nobody's."""
    rng = np.random.default_rng(0)
    X = rng.normal(0, 3, (2 * n, 10))
    X[::2, :2], X[1::2, 1:3] = rng.normal(-6, 0.3, (n, 2)), rng.normal(6, 0.3, (n, 2))
    if missing:
        X[::7, 3] = np.nan
    return X


@pytest.mark.parametrize(
    ("kind", "missing"), [(FeatureSelectionMixture, False), (FeatureSelectionMixture, True), (CRAFT, False)]
)
def test_tiles_are_coloured_where_a_cluster_selects(kind, missing):
    X = blocks(missing=missing)
    model = kind(random_state=0).fit(X)
    axes = plot.tiles(model, X)
    mask = model._fitted.differs if kind is CRAFT else model.feature_mask_
    assert mask.any(axis=1).all()  # both clusters, although only one of two selects a feature in CRAFT
    picture, selected = axes.images[0].get_array(), mask[np.sort(model.labels_)]
    grey = (picture[..., 0] == picture[..., 1]) & (picture[..., 1] == picture[..., 2])
    np.testing.assert_array_equal(grey, ~selected | np.isnan(X[np.argsort(model.labels_, kind="stable")]))
    assert (picture[np.isnan(X[np.argsort(model.labels_, kind="stable")])] == 255).all()
    assert [word.get_text() for word in axes.get_yticklabels()] == [
        "cluster 0: 60 rows",
        "cluster 1: 60 rows",
    ]
    assert [line.get_ydata()[0] for line in axes.lines] == [59.5]
    legend = [text.get_text() for text in axes.get_legend().get_texts()]
    assert legend == ["low", "high", "as in the whole table"] + ["missing"] * missing
    axes.figure.canvas.draw()


def test_columns_of_the_same_clusters_come_together():
    X = blocks()[:, [2, 3, 0, 4, 1, 5, 6, 7, 8, 9]]
    model = FeatureSelectionMixture(random_state=0).fit(X)
    expected = [4, 2, 0, 1, 3, 5, 6, 7, 8, 9]  # of both, of the first, of the second, of none
    axes = plot.tiles(model, X, order="selection")
    assert [int(word.get_text()) for word in axes.get_xticklabels()] == expected
    np.testing.assert_array_equal(
        axes.images[0].get_array(), plot.tiles(model, X).images[0].get_array()[:, expected]
    )


def test_new_rows_names_and_axes_of_the_caller():
    pandas = pytest.importorskip("pandas")
    X = pandas.DataFrame(blocks(), columns=list("abcdefghij"))
    model = FeatureSelectionMixture(6, random_state=0).fit(X)
    mine = pyplot.figure().add_subplot()
    assert plot.tiles(model, X[::2], ax=mine) is mine
    assert mine.get_legend() is None
    assert [word.get_text() for word in mine.get_xticklabels()] == list("abcdefghij")
    assert [word.get_text() for word in mine.get_yticklabels()] == ["cluster 0: 60 rows"]


def test_small_clusters_and_most_columns_of_a_wide_table_are_not_named():
    X = np.repeat(blocks(), 25, axis=1)
    model = FeatureSelectionMixture(2, n_init=1, random_state=0).fit(X)
    rows = np.r_[0, np.arange(1, 120, 2)]  # one of the first cluster, sixty of the second
    axes = plot.tiles(model, X[rows])
    assert len(axes.get_xticklabels()) <= 40
    assert [word.get_text() for word in axes.get_yticklabels()] == ["cluster 1: 60 rows"]


@pytest.mark.filterwarnings("ignore:Columns without variance")
def test_columns_without_variance_or_cells_can_be_drawn():
    X = blocks()
    X[:, 3] = 7.0
    model = FeatureSelectionMixture(6, random_state=0).fit(X)
    plot.tiles(model, X).figure.canvas.draw()
    X[:, 3] = np.nan
    plot.tiles(model, X).figure.canvas.draw()


def test_tiles_rejects_bad_input():
    X = blocks()
    model = FeatureSelectionMixture(6, random_state=0).fit(X)
    with pytest.raises(ValueError, match='order must be "given" or "selection", got \'rows\''):
        plot.tiles(model, X, order="rows")
    with pytest.raises(TypeError, match="DPMeans has none"):
        plot.tiles(DPMeans(500.0).fit(X), X)
    with pytest.raises(ValueError, match="8 features"):
        plot.tiles(model, X[:, :8])


def mixed_rows(n=60):
    """Two clusters of one numeric, one text and one boolean column, and a text column that is nobody's; every
    seventh text is missing.
    """
    half = np.arange(2 * n) % 2
    rng = np.random.default_rng(0)
    colour = np.where(half == 0, np.where(np.arange(2 * n) % 10 < 8, "red", "blue"), "green").astype(object)
    colour[::7] = None
    nobody = rng.choice(["x", "y"], 2 * n)
    return {"size": rng.normal(10.0 * half, 1.0), "colour": colour, "large": half == 1, "nobody": nobody}


@pytest.mark.parametrize("frame", ["dict", "pandas.DataFrame", "polars.DataFrame", "pyarrow.table"])
def test_levels_are_tiles_by_their_frequency(frame):
    columns = mixed_rows()
    if frame != "dict":
        module, function = frame.split(".")
        columns = {name: list(values) for name, values in columns.items()}
        table = getattr(pytest.importorskip(module), function)(columns)
    else:
        table = columns
    model = CRAFT(random_state=0).fit(table)
    axes = plot.tiles(model, table)
    rows = np.argsort(model.labels_, kind="stable")
    picture = axes.images[0].get_array()
    assert picture.shape == (120, 4, 3)
    colour = np.array(columns["colour"], object)[rows]
    assert (picture[colour == None, 1] == 255).all()  # noqa: E711 (missing cells of an array of objects)
    frequent = ["green", "red", "blue"]
    for rank, level in enumerate(frequent):
        shown = np.unique(picture[colour == level, 1], axis=0)
        np.testing.assert_array_equal(shown, [np.rint(255 * np.array(to_rgb(_OF_LEVELS[rank])))])
    nobody = picture[:, 3].astype(int)
    assert (nobody.max(axis=1) == nobody.min(axis=1)).all()  # grey
    assert nobody.max() <= 222  # not white
    assert len(np.unique(picture[:, 2], axis=0)) == 2  # a boolean column has two levels
    legend = [text.get_text() for text in axes.get_legend().get_texts()]
    assert legend == ["low", "high", "frequent level", "rare level", "as in the whole table", "missing"]
    assert [word.get_text() for word in axes.get_xticklabels()] == list(mixed_rows())


def test_no_level_has_a_colour_of_the_numbers_or_of_missing_cells():
    numbers = pyplot.colormaps["viridis"](np.arange(256))[:, :3]
    for colour in _OF_LEVELS:
        apart = np.abs(numbers - to_rgb(colour)).max(axis=1).min()
        assert apart > 0.15, colour
        assert min(to_rgb(colour)) < 0.75, colour


def test_the_rows_of_a_long_table_are_subsampled():
    columns = {name: np.tile(np.asarray(values), 50) for name, values in mixed_rows().items()}
    model = CRAFT(2, random_state=0, n_init=1).fit(columns)
    axes = plot.tiles(model, columns)
    sizes = np.bincount(model.predict(columns))
    assert axes.images[0].get_array().shape == (2000, 4, 3)
    assert [line.get_ydata()[0] for line in axes.lines] == list(np.cumsum(sizes)[:-1] - 0.5)
    assert axes.get_ylim() == (5999.5, -0.5)
    share = (axes.images[0].get_array()[:, 2] == axes.images[0].get_array()[0, 2]).all(axis=1).mean()
    assert share == pytest.approx(sizes[0] / 6000, abs=1e-3)


def test_new_columns_are_ignored_where_the_model_drops_them():
    columns = mixed_rows() | {"always": np.ones(120)}
    with pytest.warns(UserWarning, match="always"):
        model = CRAFT(random_state=0, unusable="drop").fit(columns)
    assert plot.tiles(model, columns).images[0].get_array().shape == (120, 4, 3)


def test_names_are_text_in_tiles():
    X = {"$\\frac{a}$": blocks()[:, 0], "b" * 200: blocks()[:, 1], "c": blocks()[:, 4]}
    axes = plot.tiles(CRAFT(2, random_state=0).fit(X), X)
    axes.figure.canvas.draw()
    assert [len(word.get_text()) for word in axes.get_xticklabels()] == [12, 32, 1]
