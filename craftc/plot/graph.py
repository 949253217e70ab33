"""The graph between the columns of a table, and the spectrum of its Laplacian."""

from __future__ import annotations

import importlib
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from craftc._common.typing import Floats, Ints
from craftc._common.validation import check_number
from craftc.describe.words import shortened
from craftc.plot.cluster_view import new_figure
from craftc.spectral.estimator import GraphSpectralFeatures

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# distinguishable for colour-blind readers; dashes distinguish them without colour
_POSITIVE, _NEGATIVE = "#0072B2", "#D55E00"
_DASHED = (0, (2.2, 0.8))
_THIN, _THICK = 0.8, 5.0  # line width in points at weight 0 and at the largest weight
# colours of the indicators of one variable
_TINTS = ("#CFE8D5", "#E3D3EA", "#FBE9A9", "#CDE3E8", "#F3D0DC", "#DAD7C8", "#D5E8A8")
_SINGLE = "#E8E8E8"  # of a variable with one indicator in the plot
_BAND = 15.0  # width in points of the band between the indicators of one variable
_FONT, _SMALLEST = 8.0, 4.0  # points
_SHRINK = 0.85  # factor of the font size while the labels overlap
_PAD = 0.4  # between a label and its frame, in units of the font size
_GAP, _SEEN = 8.0, 16.0  # points between two labels; additional points where they have an edge
_SHORT = 11  # characters up to which "variable=level" stays on one line
_LONG = 22  # characters of a line
_SAME_VARIABLE = 0.75  # length between two indicators of one variable; the length of an edge is 1
_STEPS = 400  # iterations that move labels apart
_PUSH = 0.25  # share of the overlap with a line that one step removes
_DAMPED = 0.6
# inches: width without columns, growth with the root of their number; height relative to the width
_FIGURE = 3.2, 1.15, 0.7
_SPECTRUM = (6.4, 3.8)  # inches


def dependence_graph(
    model: GraphSpectralFeatures,
    *,
    top: int = 30,
    names: Sequence[str] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the strongest edges of the learned graph between the columns of a mixed table.

    Every label is an encoded column: a numeric column has a round frame, a level of a categorical column a
    square one. A variable with two levels has one column; the other level is its opposite. Levels of the same
    variable share a colour and are joined by a pale band, which is not an edge. Columns without a drawn edge
    are omitted.

    A solid blue line is a positive edge: given all other columns, both are high or low together, or the
    levels occur together. A dashed orange line is a negative edge: one is high or present where the other is
    low or absent. The line width is proportional to the weight. Columns with few edges between them are close
    to each other; positions have no other meaning. The layout is deterministic.

    Parameters
    ----------
    model : GraphSpectralFeatures
        Fitted.
    top : int, default=30
        Number of edges to draw, by decreasing ``|weight|``. A weight of 0 is not an edge.
    names : sequence of str (p,), optional
        A name for every encoded column; None: `encoded_names_`. Long names are shortened.
    ax : matplotlib Axes, optional
        Where to draw; None: a new figure whose size grows with the number of columns. The font shrinks until
        the labels fit.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    ValueError
        All weights of the graph are 0, or `names` does not have one name per encoded column.

    See Also
    --------
    craftc.GraphSpectralFeatures.edges : The same edges as a table.

    Examples
    --------
    >>> from craftc import GraphSpectralFeatures, plot
    >>> from craftc.datasets import load_heart
    >>> model = GraphSpectralFeatures(random_state=0).fit(load_heart().data)
    >>> ax = plot.dependence_graph(model, top=1)
    >>> [label.get_text() for label in ax.texts]
    ['oldpeak', 'slope=1']
    """
    check_is_fitted(model)
    if not hasattr(model, "graph_") or not hasattr(model, "encoded_names_"):
        kind = type(model).__name__
        raise TypeError(f"plot.dependence_graph draws the graph_ of GraphSpectralFeatures; {kind} has none.")
    check_number("top", top, least=1, whole=True)
    shown = _strongest_edges(model, top, names)
    networkx = _need_networkx()
    if ax is None:
        ax = new_figure(_size(len(shown.labels))).add_subplot()
    _draw(ax, networkx, shown)
    return ax


def spectrum(model: GraphSpectralFeatures, *, ax: Axes | None = None) -> Axes:
    """Draw the eigenvalues of the graph's Laplacian, and which components the model keeps.

    Components are numbered from 1, the smoothest: columns joined by a strong edge have similar entries. A
    large gap after the last kept component supports their number; without a gap a slightly different table
    may exchange the components on both sides.

    Parameters
    ----------
    model : GraphSpectralFeatures
        Fitted.
    ax : matplotlib Axes, optional
        Where to draw; None: a new figure.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> from craftc import GraphSpectralFeatures, plot
    >>> from craftc.datasets import load_heart
    >>> ax = plot.spectrum(GraphSpectralFeatures(4, random_state=0).fit(load_heart().data))
    >>> ax.get_legend().get_texts()[0].get_text()
    'kept: 4 of 22'
    """
    check_is_fitted(model)
    if not hasattr(model, "spectrum_") or not hasattr(model, "eigenvalues_"):
        raise TypeError(
            f"plot.spectrum draws the spectrum_ of GraphSpectralFeatures; {type(model).__name__} has none."
        )
    ax = new_figure(_SPECTRUM).add_subplot() if ax is None else ax
    first = int(model.skip_first)
    _draw_spectrum(ax, model.spectrum_, slice(first, first + len(model.eigenvalues_)))
    return ax


@dataclass
class _Subgraph:
    """The part of the graph to draw: E edges, strongest first, and their m columns."""

    pairs: Ints  # (E, 2) positions among the m columns
    weights: Floats  # (E,)
    total: int  # number of edges of the whole graph
    labels: list[str]  # (m,)
    numeric: NDArray[np.bool_]  # (m,)
    variables: Ints  # (m,) column of the input table that each comes from


def _strongest_edges(model: GraphSpectralFeatures, top: int, names: Sequence[str] | None) -> _Subgraph:
    """The strongest edges; ties are in column order."""
    graph = np.asarray(model.graph_, np.float64)
    labels = _labels(model, names)
    s, t = np.triu_indices(len(graph), 1)
    weights = graph[s, t]
    total = int(np.count_nonzero(weights))
    if total == 0:
        raise ValueError(
            "The graph has no edge: all its weights are 0. Fit the model with a smaller penalty, or to "
            "other columns."
        )
    strongest = np.argsort(-np.abs(weights), kind="stable")[: min(top, total)]
    shown, places = np.unique(np.stack([s[strongest], t[strongest]], axis=1), return_inverse=True)
    return _Subgraph(
        places.reshape(-1, 2),
        weights[strongest],
        total,
        [labels[i] for i in shown],
        shown < model.n_numeric_,
        np.asarray(model.encoded_columns_, np.intp)[shown],
    )


def _labels(model: GraphSpectralFeatures, names: Sequence[str] | None) -> list[str]:
    """A label of at most two lines for every encoded column."""
    p = len(model.graph_)
    if names is not None:
        words = [str(name) for name in names]
        if len(words) != p:
            raise ValueError(
                f"names must have one name per encoded column ({p}, see encoded_names_), got {len(words)}."
            )
        return [_wrapped(word) for word in words]
    inputs = getattr(model, "feature_names_in_", None)
    labels = []
    for i, word in enumerate(map(str, model.encoded_names_)):
        if i < model.n_numeric_ or len(word) <= _SHORT:
            labels.append(_wrapped(word))
            continue
        # the name of the variable may contain "="
        variable = word.partition("=")[0] if inputs is None else str(inputs[model.encoded_columns_[i]])
        is_level = word.startswith(f"{variable}=")
        parts = f"{shortened(variable, _LONG)}\n= {shortened(word[len(variable) + 1 :], _LONG)}"
        labels.append(parts if is_level else _wrapped(word))
    return labels


def _wrapped(word: str) -> str:
    if len(word) <= _LONG:
        return word
    lines = textwrap.wrap(word, _LONG)
    return "\n".join(
        lines if len(lines) <= 2 else [lines[0], shortened(word[len(lines[0]) :].strip(), _LONG)]
    )


# ---- layout ----


def _need_networkx() -> ModuleType:
    """The networkx module, or ImportError with the command that installs it."""
    try:
        return importlib.import_module("networkx")
    except ImportError as error:
        raise ImportError("Plots of a graph need networkx: pip install 'craftc[app]'.") from error


def _layout(networkx: ModuleType, shown: _Subgraph) -> Floats:
    """Positions (m, 2), wider than high, whose distances follow the edges; levels of a variable are close."""
    m = len(shown.labels)
    graph = networkx.Graph()
    graph.add_nodes_from(range(m))
    same_variable = shown.variables[:, None] == shown.variables
    graph.add_edges_from(np.argwhere(np.triu(same_variable, 1)).tolist(), length=_SAME_VARIABLE)
    graph.add_edges_from(shown.pairs.tolist(), length=1.0)
    paths = dict(networkx.all_pairs_dijkstra_path_length(graph, weight="length"))
    # for columns without a path between them
    far = max(2.0, max(max(path.values()) for path in paths.values()))
    distances = {i: {j: paths[i].get(j, far) for j in range(m)} for i in range(m)}
    found = networkx.kamada_kawai_layout(graph, dist=distances)
    places: Floats = np.array([found[i] for i in range(m)], np.float64)
    places -= places.mean(axis=0)
    turned: Floats = places @ np.linalg.svd(places, full_matrices=False)[2].T
    return turned


def spread(places: Floats, sizes: Floats, room: Floats, pairs: Ints) -> tuple[Floats, bool]:
    """Positions (m, 2) in an area (2,) at which labels of these sizes do not overlap, and whether found.

    The first half of the steps also moves labels off the lines of other edges and keeps lines visible.
    """
    half = (sizes + _GAP) / 2
    more = np.zeros((len(places), len(places)))
    more[pairs[:, 0], pairs[:, 1]] = more[pairs[:, 1], pairs[:, 0]] = _SEEN
    low, high = np.minimum(half, room / 2), np.maximum(room - half, room / 2)
    span = np.ptp(places, axis=0)
    middle = (places.max(axis=0) + places.min(axis=0)) / 2
    places = room / 2 + (places - middle) / np.where(span > 1e-9, span, 1.0) * (high - low).min(axis=0)
    for step in range(_STEPS):
        first = step < _STEPS // 2
        move = _apart(places, half, more if first else None)
        if first:
            move += _off_lines(places, half, pairs)
        if not move.any():
            return places, True
        places = np.clip(places + _DAMPED * move, low, high)
    return places, not _apart(places, half - _GAP / 2).any()


def _apart(places: Floats, half: Floats, more: Floats | None = None) -> Floats:
    """Moves that separate overlapping labels, or closer than `more` (m, m), along the smaller overlap."""
    away = places[:, None] - places
    depth = half[:, None] + half - np.abs(away)
    if more is not None:
        depth += more[:, :, None]
    move = np.zeros_like(places)
    i, j = np.nonzero(np.triu((depth > 1e-6).all(axis=2), 1))
    axis = (depth[i, j, 1] <= depth[i, j, 0]).astype(np.intp)
    step = (depth[i, j, axis] / 2 + 0.01) * np.where(away[i, j, axis] >= 0, 1.0, -1.0)
    np.add.at(move, (i, axis), step)
    np.add.at(move, (j, axis), -step)
    return move


def _off_lines(places: Floats, half: Floats, pairs: Ints) -> Floats:
    """Moves that separate labels and the lines of other edges that cross them."""
    start, along = places[pairs[:, 0]], places[pairs[:, 1]] - places[pairs[:, 0]]
    length = np.maximum(np.hypot(*along.T), 1e-9)[:, None]
    normal = np.stack([-along[:, 1], along[:, 0]], axis=1) / length
    from_start = places - start[:, None]
    share = np.einsum("emk,ek->em", from_start, along) / length**2
    off = np.einsum("emk,ek->em", from_start, normal)
    depth = np.abs(normal) @ half.T - np.abs(off)
    under = (share > 0) & (share < 1) & (depth > 0)
    under[np.arange(len(pairs))[:, None], pairs] = False
    push = np.where(under, _PUSH * depth * np.where(off >= 0, 1.0, -1.0), 0.0)
    move: Floats = np.einsum("em,ek->mk", push, normal)
    for end, part in ((0, 1 - share), (1, share)):
        np.add.at(move, pairs[:, end], -0.5 * normal * (push * part).sum(axis=1, keepdims=True))
    return move


# ---- the graph ----


def _size(columns: int) -> tuple[float, float]:
    """Size of a figure in inches."""
    least, more, height = _FIGURE
    width = least + more * columns**0.5
    return width, height * width


def _draw(ax: Axes, networkx: ModuleType, shown: _Subgraph) -> None:
    """Draw columns as framed labels and edges as lines."""
    from matplotlib.collections import LineCollection

    ax.set_axis_off()
    variables, counts = np.unique(shown.variables, return_counts=True)
    tints = {int(v): _TINTS[k % len(_TINTS)] for k, v in enumerate(variables[counts > 1])}
    scale = 72 / ax.figure.dpi
    # layout engines position the axes when they draw; ax.figure may be a subfigure, canvas.figure is the
    # whole figure
    ax.figure.canvas.figure.draw_without_rendering()
    below = _legend(ax, shown, bool(tints))
    room = np.array([ax.bbox.width * scale, max(ax.bbox.height * scale - below, 1.0)])
    ax.set(xlim=(0, room[0]), ylim=(-below, room[1]))  # points
    texts = []
    for label, numeric, variable in zip(shown.labels, shown.numeric, shown.variables, strict=True):
        shape = f"round,pad={_PAD},rounding_size=0.8" if numeric else f"square,pad={_PAD}"
        face = "white" if numeric else tints.get(int(variable), _SINGLE)
        edge, width = ("0.2", 0.9) if numeric else ("0.6", 0.6)
        frame = {"boxstyle": shape, "facecolor": face, "edgecolor": edge, "linewidth": width}
        style = {"ha": "center", "va": "center", "linespacing": 1.0, "parse_math": False, "zorder": 4}
        texts.append(ax.text(0, 0, label, style, bbox=frame))
    initial, font, fits = _layout(networkx, shown), _FONT, False
    while not fits:
        for text in texts:
            text.set_fontsize(font)
        sizes = np.array([text.get_window_extent().size for text in texts]) * scale + 2 * _PAD * font
        places, fits = spread(initial, sizes, room, shown.pairs)
        fits, font = fits or font * _SHRINK < _SMALLEST, font * _SHRINK
    for text, place in zip(texts, places, strict=True):
        text.set_position(place)
    bands = [
        (edge, tint)
        for v, tint in tints.items()
        for edge in _tree(networkx, np.flatnonzero(shown.variables == v), places)
    ]
    ax.add_collection(
        LineCollection(
            [places[edge] for edge, _ in bands],
            colors=[tint for _, tint in bands],
            linewidths=_BAND,
            alpha=0.7,
            capstyle="round",
            zorder=1,
            gid="variables",
        ),
        autolim=False,
    )
    strength = np.abs(shown.weights) / np.abs(shown.weights).max()
    ax.add_collection(
        LineCollection(
            list(places[shown.pairs[::-1]]),  # strongest last, so that it is on top
            colors=[_colour(w) for w in shown.weights[::-1]],
            linestyles=[_style(w) for w in shown.weights[::-1]],
            linewidths=_THIN + (_THICK - _THIN) * strength[::-1],
            alpha=0.85,
            capstyle="butt",
            zorder=2,
            gid="edges",
        ),
        autolim=False,
    )


def _tree(networkx: ModuleType, members: Ints, places: Floats) -> list[list[int]]:
    """The edges of the minimum spanning tree of some columns."""
    graph = networkx.Graph()
    for k, i in enumerate(members.tolist()):
        for j in members[:k].tolist():
            graph.add_edge(i, j, weight=float(np.hypot(*(places[i] - places[j]))))
    return [list(edge) for edge in networkx.minimum_spanning_edges(graph, data=False)]


def _colour(weight: float) -> str:
    return _POSITIVE if weight > 0 else _NEGATIVE


def _style(weight: float) -> Literal["-"] | tuple[float, tuple[float, ...]]:
    return "-" if weight > 0 else _DASHED


def _legend(ax: Axes, shown: _Subgraph, bands: bool) -> float:
    """Draw the legend of lines and frames at the bottom; returns its height in points."""
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], color=_colour(sign), linestyle=_style(sign), linewidth=3, label=label)
        for sign, label in ((1.0, "positive weight"), (-1.0, "negative weight"))
        if (shown.weights * sign > 0).any()
    ]
    kinds = ((shown.numeric, "o", "white", "0.2", "numeric"), (~shown.numeric, "s", _SINGLE, "0.6", "level"))
    for occurs, marker, face, edge, label in kinds:
        if occurs.any():
            handle = Line2D([], [], linestyle="", marker=marker, markersize=8, label=label)
            handle.set(markerfacecolor=face, markeredgecolor=edge)
            handles.append(handle)
    if bands:
        band = Line2D([], [], color=_TINTS[0], linewidth=8, solid_capstyle="butt", label="same variable")
        handles.append(band)
    edges, total = len(shown.weights), shown.total
    number = f"The {edges} strongest of {total} edges" if edges < total else f"All {total} edges"
    title = [number, "line width: |weight|"]
    if edges == 1:
        title = ["The only edge" if total == 1 else f"The strongest of {total} edges"]
    extent = ax.bbox
    for columns in range(len(handles), 0, -1):
        extent = ax.legend(
            handles=handles,
            loc="lower center",
            ncols=columns,
            frameon=False,
            fontsize=_FONT,
            title=("; " if columns == len(handles) else "\n").join(title),
            title_fontsize=_FONT,
            borderaxespad=0.2,
        ).get_window_extent()
        if extent.width <= ax.bbox.width:
            break
    return float(extent.height) * 72 / float(ax.figure.dpi)


# ---- the spectrum ----


def _draw_spectrum(ax: Axes, spectrum: Floats, kept: slice) -> None:
    """Draw the eigenvalues in order, the kept ones filled, and the gap after them."""
    from matplotlib.ticker import MaxNLocator

    number = np.arange(1, len(spectrum) + 1)
    ax.plot(number, spectrum, color="0.75", linewidth=1, zorder=1)
    inside = np.zeros(len(spectrum), bool)
    inside[kept] = True
    if kept.stop < len(spectrum):
        low, high = spectrum[kept.stop - 1], spectrum[kept.stop]
        gap = max(round(float(high - low), 10), 0.0)  # equal eigenvalues differ by rounding errors
        label = f"gap after the last kept: {gap:.2g}"
        ax.axhspan(low, high, color=_TINTS[2], linewidth=0, zorder=0, label=label)
        ax.axvline(kept.stop + 0.5, color="0.45", linewidth=1, linestyle=(0, (4, 3)), zorder=0)
    if not inside.all():
        left = ax.plot(number[~inside], spectrum[~inside], "o", markersize=4, color="0.5", label="not kept")
        left[0].set(markerfacecolor="white", zorder=2)
    label = f"kept: {inside.sum()} of {len(inside)}"
    ax.plot(number[inside], spectrum[inside], "o", markersize=5, color=_POSITIVE, zorder=3, label=label)
    ax.set_xlabel("component, smoothest first")
    ax.set_ylabel("eigenvalue of the Laplacian")
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.spines[["top", "right"]].set_visible(False)
    handles, labels = ax.get_legend_handles_labels()
    ax.legend(handles[::-1], labels[::-1], framealpha=0.9, edgecolor="none")
