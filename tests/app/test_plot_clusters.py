"""Plots of clusters: contents of heat map, sizes and distributions, and how bad input is refused."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from craftc import CRAFT, DPMeans, FeatureSelectionMixture, load_model, plot, save_model
from craftc.datasets import load_heart
from craftc.plot.heatmap import _SHADES
from tests.common import fixed_price

pyplot = pytest.importorskip("matplotlib.pyplot")
pyplot.switch_backend("agg")
to_rgb = pytest.importorskip("matplotlib.colors").to_rgb
to_hex = pytest.importorskip("matplotlib.colors").to_hex


@pytest.fixture(autouse=True)
def _close():
    yield
    pyplot.close("all")


def three_groups():
    """Groups of 20, 40 and 30 rows: a number, a level, a spread, noise, and a number that two share; some
    cells are missing.
    """
    rng = np.random.default_rng(0)
    group = np.repeat([0, 1, 2], [20, 40, 30])
    table = {
        "height": rng.normal(np.array([0.0, 10.0, 20.0])[group], 1.0),
        "colour": np.array(["red", "green", "blue"], object)[group],
        "spread": rng.normal(0.0, np.array([0.05, 3.0, 3.0])[group]),
        "noise": rng.normal(0.0, 1.0, len(group)),
        "side": np.array([0.0, 8.0, 8.0])[group] + np.arange(len(group)) % 7 / 4,
    }
    table["height"][::9] = np.nan
    table["colour"][::11] = None
    return table, group


@pytest.fixture(scope="module")
def fitted():
    table, group = three_groups()
    model = CRAFT(3, random_state=0).fit(table)
    np.testing.assert_array_equal(model.labels_, group)
    return model, table


@pytest.fixture(scope="module")
def heart():
    return CRAFT(random_state=0).fit(load_heart().data)


def texts(labels):
    return [label.get_text() for label in labels]


# ---- heat map ----


def test_rows_by_size_and_columns_by_gain(fitted):
    model, _ = fitted
    axes = plot.heatmap(model)
    assert [int(text.split(":")[0].removeprefix("cluster ")) for text in texts(axes.get_yticklabels())] == [
        1,
        2,
        0,
    ]
    gains = np.where(model._fitted.differs, model.feature_gains_, 0).sum(axis=0)
    assert texts(axes.get_xticklabels()) == [
        model.schema_.columns[d] for d in np.argsort(-gains, kind="stable")
    ]
    assert texts(plot.heatmap(model, n_features=2).get_xticklabels()) == texts(axes.get_xticklabels())[:2]


def cell(axes, model, cluster, feature):
    """Colour of a cell, and marker and filling of its symbol."""
    rows = [int(text.split(":")[0].removeprefix("cluster ")) for text in texts(axes.get_yticklabels())]
    row, column = rows.index(cluster), texts(axes.get_xticklabels()).index(feature)
    symbols = []
    for group in axes.collections:
        if (np.asarray(group.get_offsets()) == [column, row]).all(axis=1).any():
            points = len(group.get_paths()[0].vertices)
            symbols.append((points, len(group.get_facecolor()) > 0))
    return to_hex(axes.images[0].get_array()[row, column]).upper(), symbols


def test_colour_and_symbol_say_the_direction_and_the_gain(fitted):
    model, _ = fitted
    axes = plot.heatmap(model)
    per_row = model.feature_gains_ / model.cluster_sizes_[:, None]
    depth = (per_row[..., None] >= (0.03, 0.1, 0.3, 0.8)).sum(axis=2)
    assert (depth[[0, 2, 0, 0], [0, 0, 1, 2]] >= 3).all()
    differs = model._fitted.differs
    for k in range(3):
        for d, name in enumerate(model.schema_.columns):
            colour, symbols = cell(axes, model, k, name)
            assert len(symbols) == differs[k, d]
            if not differs[k, d]:
                assert colour == "#FFFFFF"
                continue
            assert colour in {shades[depth[k, d]] for shades in _SHADES}
    deepest = {shades[-1] for shades in _SHADES}
    assert len(deepest) == 3
    low, high = (cell(axes, model, k, "height") for k in (0, 2))
    levels = cell(axes, model, 0, "colour")
    narrow = cell(axes, model, 0, "spread")
    assert low[0] == _SHADES[1][depth[0, 0]]
    assert high[0] == _SHADES[0][depth[2, 0]]
    assert levels[0] == _SHADES[2][depth[0, 1]]
    assert narrow[0] == _SHADES[3][depth[0, 2]]
    assert len({each[1][0][0] for each in (low, levels, narrow)}) == 3  # triangle, circle, diamond
    assert not differs[:, 3].any()  # noise


def test_a_shared_distribution_has_an_outline(fitted):
    model, _ = fitted
    axes = plot.heatmap(model)
    d = model.schema_.columns.index("side")
    assert model.feature_mask_[:, d].tolist() == [True, False, False]
    assert model._fitted.differs[:, d].all()
    assert [cell(axes, model, k, "side")[1][0][1] for k in range(3)] == [True, False, False]
    assert "Outlined symbol" in axes.get_legend().get_title().get_text()


def test_the_legend_explains_what_is_drawn(heart):
    axes = plot.heatmap(heart, n_features=4)
    legend = axes.get_legend()
    assert legend.get_title().get_text() == "Compared with the whole table; 4 of 13 features"
    assert texts(legend.get_texts()) == [
        "higher",
        "≥ 0.03",
        "lower",
        "≥ 0.1",
        "other levels",
        "≥ 0.3",
        "other spread",
        "≥ 0.8 nats per row",
    ]


def test_the_mixture_is_drawn_by_its_mask():
    table, _ = three_groups()
    X = np.nan_to_num(np.column_stack([table[name] for name in ("height", "spread", "noise")]))
    model = FeatureSelectionMixture(3, random_state=0).fit(X)
    axes = plot.heatmap(model)
    symbols = sum(len(group.get_offsets()) for group in axes.collections)
    assert symbols == model.feature_mask_.sum()
    assert texts(axes.get_yticklabels()) == [
        f"cluster {k}" for k in np.argsort(-model.cluster_sizes_, kind="stable")
    ]


def test_one_cluster_and_hostile_names():
    X = {
        "$\\frac{a}$": np.random.default_rng(0).normal(size=40),
        "b" * 200: np.random.default_rng(1).normal(size=40),
    }
    model = CRAFT(1, random_state=0).fit(X)
    for axes in (
        plot.heatmap(model),
        plot.sizes(model),
        plot.distribution(model, 0),
        plot.distribution(model, 1, X),
    ):
        axes.figure.canvas.draw()
    assert max(map(len, texts(plot.heatmap(model).get_xticklabels()))) <= 26


# ---- sizes ----


def test_sizes_are_bars(fitted):
    model, _ = fitted
    axes = plot.sizes(model)
    assert [bar.get_width() for bar in axes.patches] == [40, 30, 20]
    assert texts(axes.texts) == ["40 (44 %)", "30 (33 %)", "20 (22 %)"]
    assert axes.get_ylim()[0] > axes.get_ylim()[1]  # the largest on top
    mine = pyplot.figure().add_subplot()
    assert plot.sizes(model, ax=mine) is mine


def test_sizes_of_weighted_rows():
    X = np.repeat([0.0, 9.0], 30)[:, None] + np.random.default_rng(0).normal(size=(60, 4))
    model = CRAFT(2, random_state=0).fit(X, sample_weight=np.full(60, 0.75))
    assert model.cluster_sizes_.tolist() == [22.5, 22.5]
    assert texts(plot.sizes(model).texts) == ["22.5 (50 %)", "22.5 (50 %)"]


# ---- distributions ----


def test_means_and_deviations_of_a_number(fitted):
    model, table = fitted
    axes = plot.distribution(model, "height")
    bars = axes.containers[0]
    means = bars.lines[0].get_xdata()
    for row, k in enumerate([1, 2, 0]):
        own = table["height"][model.labels_ == k]
        np.testing.assert_allclose(means[row], np.nanmean(own), rtol=1e-9)
        (left, _), (right, _) = bars.lines[2][0].get_segments()[row]
        np.testing.assert_allclose((right - left) / 2, np.nanstd(own), rtol=1e-9)
    centre = np.nanmean(table["height"])
    assert [line.get_xdata()[0] for line in axes.lines if len(set(line.get_xdata())) == 1] == [
        pytest.approx(centre)
    ]
    band = axes.patches[0].get_extents().transformed(axes.transData.inverted())
    np.testing.assert_allclose(
        [band.x0, band.x1], centre + np.nanstd(table["height"]) * np.array([-1, 1]), rtol=1e-6
    )


def test_histograms_have_the_area_of_one(fitted):
    model, table = fitted
    axes = plot.distribution(model, "height", table)
    steps = [patch.get_data() for patch in axes.patches]
    assert len(steps) == 3 * 3  # the table, and the cluster filled and outlined
    whole = np.histogram(
        table["height"][~np.isnan(table["height"])].clip(steps[0].edges[0], steps[0].edges[-1]),
        steps[0].edges,
    )[0]
    for row, k in enumerate([1, 2, 0]):
        own = table["height"][(model.labels_ == k) & ~np.isnan(table["height"])].clip(
            steps[0].edges[0], steps[0].edges[-1]
        )
        counts = np.histogram(own, steps[0].edges)[0]
        of_table, filled, line = (each.baseline - each.values for each in steps[3 * row : 3 * row + 3])
        np.testing.assert_allclose(filled, line)
        np.testing.assert_allclose(filled / filled.sum(), counts / counts.sum())
        np.testing.assert_allclose(of_table / of_table.sum(), whole / whole.sum())
        np.testing.assert_allclose(filled.sum(), of_table.sum())
        assert max(filled.max(), of_table.max()) == pytest.approx(0.86)


def test_shares_of_levels(fitted):
    model, table = fitted
    axes = plot.distribution(model, "colour")
    colours = [value for value in table["colour"] if value is not None]
    names = texts(axes.get_xticklabels())
    assert names == sorted(set(colours), key=lambda level: -colours.count(level))
    widths = np.array([[bar.get_width() for bar in group] for group in axes.containers])
    scale = widths[0, 0] / (colours.count(names[0]) / len(colours))
    for place, name in enumerate(names):
        np.testing.assert_allclose(widths[2 * place], scale * colours.count(name) / len(colours))
        own = [
            [v for v, k in zip(table["colour"], model.labels_, strict=True) if k == cluster and v is not None]
            for cluster in (1, 2, 0)
        ]
        np.testing.assert_allclose(
            widths[2 * place + 1], [scale * each.count(name) / len(each) for each in own]
        )
    with_rows = plot.distribution(model, "colour", table)
    np.testing.assert_allclose([[bar.get_width() for bar in group] for group in with_rows.containers], widths)


def test_rare_levels_share_a_bar():
    rng = np.random.default_rng(0)
    table = {
        "city": np.array([f"c{i}" for i in range(20)])[np.minimum(rng.geometric(0.2, 300) - 1, 19)],
        "x": rng.normal(size=300),
    }
    axes = plot.distribution(CRAFT(2, random_state=0).fit(table), "city")
    shown = texts(axes.get_xticklabels())
    assert len(shown) == 8
    assert shown[-1].endswith(" others")
    bars = np.array([[bar.get_width() for bar in group] for group in axes.containers])
    np.testing.assert_allclose(
        bars[1::2].sum(axis=0), bars[1::2].sum(axis=0)[0]
    )  # shares of every cluster sum to 1


def test_chosen_clusters_and_positions(fitted):
    model, _ = fitted
    axes = plot.distribution(model, 0, clusters=[2, 0])
    assert [text.split(":")[0].removeprefix("cluster ") for text in texts(axes.get_yticklabels())] == [
        "2",
        "0",
    ]
    assert axes.get_xlabel() == "height"
    assert len(plot.distribution(model, 0, clusters=1).get_yticklabels()) == 1


@pytest.mark.filterwarnings("error")
def test_a_cluster_without_values_has_no_mark():
    table, _ = three_groups()
    table["height"][:20] = np.nan
    table["colour"][:20] = None
    table["place"] = table["noise"][::-1] + np.repeat([0.0, 20.0, 40.0], [20, 40, 30])
    model = CRAFT(3, random_state=0).fit(table)
    assert model.cluster_sizes_.tolist() == [20, 40, 30]
    assert np.isnan(model.centers_[0, 0])
    assert len(plot.distribution(model, "height").containers[0].lines[0].get_xdata()) == 2
    for axes in (
        plot.distribution(model, "colour"),
        plot.distribution(model, "colour", table),
        plot.distribution(model, "height", table),
    ):
        axes.figure.canvas.draw()
    assert [len(group) for group in plot.distribution(model, "colour").containers] == [2] * 4


@pytest.mark.parametrize("feature", ["width", 5, -1, True, None])
def test_unknown_features_are_rejected(fitted, feature):
    with pytest.raises(ValueError, match=r"the columns are 'height', 'colour', 'spread', 'noise', 'side'\."):
        plot.distribution(fitted[0], feature)


@pytest.mark.parametrize("clusters", [3, [0, 3], [-1], [], [0.5], "all"])
def test_unknown_clusters_are_rejected(fitted, clusters):
    with pytest.raises(ValueError, match="clusters must be numbers of clusters from 0 to 2"):
        plot.distribution(fitted[0], "height", clusters=clusters)


def test_other_models_are_rejected(monkeypatch, heart):
    other = DPMeans(500.0).fit(np.eye(4))
    for draw in (plot.heatmap, plot.sizes, lambda model: plot.distribution(model, 0)):
        with pytest.raises(
            TypeError, match="draws the clusters of CRAFT and FeatureSelectionMixture, got DPMeans"
        ):
            draw(other)
    with pytest.raises(ValueError, match="n_features must be a whole number >= 1, got 0"):
        plot.heatmap(heart, n_features=0)
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    for draw in (plot.heatmap, plot.sizes, lambda model: plot.distribution(model, 0)):
        with pytest.raises(ImportError, match=r"pip install 'craftc\[app\]'"):
            draw(heart)


def test_a_saved_model_and_a_level_can_be_drawn(fitted, tmp_path):
    model, _ = fitted
    save_model(model, tmp_path / "model.craftc")
    again = load_model(tmp_path / "model.craftc")
    for feature in ("height", "colour"):
        axes, other = plot.distribution(model, feature), plot.distribution(again, feature)
        assert texts(axes.get_yticklabels()) == texts(other.get_yticklabels())
        assert texts(axes.texts) == texts(other.texts)
    np.testing.assert_array_equal(
        plot.heatmap(model).images[0].get_array(), plot.heatmap(again).images[0].get_array()
    )
    two = model.at(2)
    assert [bar.get_width() for bar in plot.sizes(two).patches] == sorted(two.cluster_sizes_, reverse=True)
    assert plot.heatmap(two).images[0].get_array().shape[0] == 2


def test_a_numeric_price_and_missing_cells_as_a_level():
    table = load_heart().data
    table.loc[::5, "thal"] = None
    model = fixed_price(3, cluster_price=20.0, missing="category", random_state=0).fit(table)
    assert "(missing)" in texts(plot.distribution(model, "thal").get_xticklabels())
    assert len(plot.heatmap(model).get_yticklabels()) == model.n_clusters_
    picture = plot.tiles(model, table).images[0].get_array()
    assert (picture < 255).any(axis=-1).all()  # no cell is white
