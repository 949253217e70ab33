"""The map of clusters and features: which feature makes which cluster, in which direction and by how much."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from craftc._common.typing import Bits, Floats, Ints
from craftc._common.validation import check_number
from craftc.describe.facts import STEPS
from craftc.describe.view import ClusterView
from craftc.plot.cluster_view import ClusterModel, DrawnClusters, inches, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_WAYS = ("higher", "lower", "mix", "other")  # of a fact
_NAMES = ("higher", "lower", "other levels", "other spread")
_MARKERS = "^voD"
_SHADES = (
    ("#FFFFFF", "#FDEEE2", "#F9CFAB", "#F0A264", "#A8480A"),
    ("#FFFFFF", "#E6F0FB", "#B9D5F3", "#79B0E6", "#195A9E"),
    ("#FFFFFF", "#F0EBF9", "#D5C7EF", "#B49BE0", "#5F3AA3"),
    ("#FFFFFF", "#F0EBF9", "#D5C7EF", "#B49BE0", "#5F3AA3"),
)
_GREYS = ("#FFFFFF", "#EDEEF0", "#D3D7DC", "#A9B0B8", "#545D69")  # of the legend, which explains the depth
_ON_DARK = "#FFFFFF"
_ON_PALE = ("#A8480A", "#195A9E", "#5F3AA3", "#5F3AA3")
_CELL = 0.27, 0.23  # inches of a cell
_NARROWEST = 4.6  # inches of the map, as wide as the legend
_ABOVE = 0.9  # inches of the legend
_FONT = 8.0
_MARKER = 18.0  # area in square points
_LONG = 24  # characters of the name of a column


def heatmap(model: ClusterModel, *, n_features: int = 30, ax: Axes | None = None) -> Axes:
    """Draw which features make which cluster: one row per cluster, one column per feature.

    A cell is coloured where the cluster differs from the whole table in the feature, as in ``summary()``.
    Orange with a triangle that points up: the values are higher, by at least 0.2 standard deviations of the
    table, in normal scores if the model encodes the column by rank. Blue with a triangle that points down:
    lower. Violet with a dot: other levels of a categorical feature; with a diamond: a number with another
    spread around a similar mean. The symbol is an outline where the cluster shares the distribution of the
    feature with other clusters. The colour is the darker the more the feature gains per row of the cluster,
    in steps at 0.03, 0.1, 0.3 and 0.8 nats. Clusters are ordered by size, features by their summed gains.

    Parameters
    ----------
    model : CRAFT or FeatureSelectionMixture
        Fitted. ``model.at(k)`` of a fitted `CRAFT` gives fewer clusters.
    n_features : int, default=30
        The largest number of features to draw.
    ax : matplotlib Axes, optional
        Where to draw; None: a new figure.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    ValueError
        `n_features` is not a whole number >= 1.

    Examples
    --------
    >>> from craftc import CRAFT, plot
    >>> from craftc.datasets import load_heart
    >>> model = CRAFT(random_state=0).fit(load_heart().data)
    >>> ax = plot.heatmap(model, n_features=3)
    >>> [label.get_text() for label in ax.get_xticklabels()]
    ['max_hr', 'slope', 'oldpeak']
    """
    drawn = DrawnClusters(model, "heatmap")
    view = drawn.view
    check_number("n_features", n_features, least=1, whole=True)
    columns = np.argsort(-view.importances, kind="stable")[:n_features]
    shortened = drawn.columns(_LONG)
    names = [shortened[d] for d in columns]
    shape = len(view.order), len(columns)
    if ax is None:
        width, height = max(_CELL[0] * shape[1], _NARROWEST), _CELL[1] * max(shape[0], 3)
        ax = new_figure((width + inches(drawn.labels) + 0.3, height + inches(names) + _ABOVE)).add_subplot()
    way, depth = ways(drawn, columns)[view.order], depths(view, columns)[view.order]
    shared = (view.shared[:, columns])[view.order]
    ax.imshow(_colours(way, depth), aspect="auto", interpolation="nearest")
    _mark(ax, way, depth, shared)
    ax.set_yticks(range(shape[0]), [drawn.labels[k] for k in view.order], fontsize=_FONT)
    ax.set_xticks(range(shape[1]), names, fontsize=_FONT, rotation=90 if shape[1] > 3 else 0)
    ax.set_xticks(np.arange(shape[1] + 1) - 0.5, minor=True)
    ax.set_yticks(np.arange(shape[0] + 1) - 0.5, minor=True)
    ax.grid(which="minor", color="#D5DAE1", linewidth=0.5)
    ax.tick_params(which="both", length=0)
    ax.spines[:].set_visible(False)
    _legend(ax, bool((shared & (way >= 0)).any()), shape[1], len(view.columns))
    return ax


def ways(drawn: DrawnClusters, columns: Ints) -> Ints:
    """(K, n) ways in which the clusters differ from the whole table in some columns, -1 where they do not."""
    differs = drawn.view.differs[:, columns]
    found = np.full(differs.shape, -1)
    for k, i in np.argwhere(differs).tolist():
        found[k, i] = _WAYS.index(drawn.facts.of(k, int(columns[i])).way)
    return found


def depths(view: ClusterView, columns: Ints) -> Ints:
    """(K, n) steps of the gain per row, from 0 to 4."""
    return np.searchsorted(STEPS, view.per_row[:, columns], side="right")


def _colours(way: Ints, depth: Ints) -> Floats:
    """Colours (K, n, 3) of the cells."""
    from matplotlib.colors import to_rgb

    palette = np.array([[to_rgb(shade) for shade in shades] for shades in _SHADES])
    return np.where(way[..., None] >= 0, palette[way, depth], 1.0)


def _mark(ax: Axes, way: Ints, depth: Ints, shared: Bits) -> None:
    """A symbol in every coloured cell, for readers without colours; an outline where clusters share it."""
    for (kind, marker), dark, outline in product(enumerate(_MARKERS), (False, True), (False, True)):
        cells = (way == kind) & ((depth == len(STEPS)) == dark) & (shared == outline)
        if cells.any():
            y, x = np.nonzero(cells)
            edge = _ON_DARK if dark else _ON_PALE[kind]
            face = "none" if outline else edge
            ax.scatter(x, y, _MARKER, marker=marker, facecolor=face, edgecolor=edge, linewidths=0.8)


def _legend(ax: Axes, outlines: bool, n_shown: int, n_columns: int) -> None:
    """Explain symbols and shades, above the map."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    kinds = [
        Line2D([], [], color=_ON_PALE[kind], marker=_MARKERS[kind], linestyle="", markersize=5, label=way)
        for kind, way in enumerate(_NAMES)
    ]
    shades = [
        Patch(facecolor=_GREYS[i + 1], edgecolor="0.7", label=f"≥ {step:g}") for i, step in enumerate(STEPS)
    ]
    shades[-1].set_label(f"{shades[-1].get_label()} nats per row")
    note = "Compared with the whole table"
    if n_shown < n_columns:
        note += f"; {n_shown} of {n_columns} features"
    if outlines:
        note += "\nOutlined symbol: shared with other clusters"
    ax.legend(
        handles=[handle for pair in zip(kinds, shades, strict=True) for handle in pair],
        ncols=4,
        loc="lower left",
        bbox_to_anchor=(0, 1.0),
        frameon=False,
        fontsize=_FONT,
        title=note,
        title_fontsize=_FONT,
        alignment="left",
        columnspacing=1.0,
        handlelength=1.0,
        handletextpad=0.4,
        borderaxespad=0.2,
    )
