"""The pictures of a graph between columns and of its spectrum."""

from __future__ import annotations

import importlib
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from craftc._common.typing import Floats, Ints

_TOGETHER, _AVOID = "#0072B2", "#D55E00"  # told apart by the colour-blind; dashes tell them apart in print
_DASHED = (0, (2.2, 0.8))
_THIN, _THICK = 0.8, 5.0  # points of the line of weight 0 and of the largest
_TINTS = ("#CFE8D5", "#E3D3EA", "#FBE9A9", "#CDE3E8", "#F3D0DC", "#DAD7C8", "#D5E8A8")  # of the indicators of one variable
_ALONE = "#E8E8E8"  # of the only one that is shown
_BAND = 15.0  # points of the band that joins the indicators of one variable
_FONT, _SMALLEST = 8.0, 4.0  # points
_SHRINK = 0.85  # of the letters, where the labels have no room
_PAD = 0.4  # of a letter's height, from a label to its frame
_GAP, _SEEN = 8.0, 16.0  # points between two labels, and more where a line between them is to be seen
_SHORT = 11  # characters up to which "variable=level" stays on one line
_LONG = 22  # characters of a line
_KIN = 0.75  # distance of two indicators of one variable; that of an edge is 1
_STEPS = 400  # of moving labels apart
_PUSH = 0.25  # of the way out from under a line, in a step
_DAMPED = 0.6
_FIGURE = 3.2, 1.15, 0.7  # inches: the width of a picture without columns, of the root of their number, height of width
SPECTRUM = (6.4, 3.8)  # inches


@dataclass
class Picture:
    """The columns and edges to draw: m columns that have an edge, E edges, strongest first."""

    pairs: Ints  # (E, 2), numbers of the m columns
    weights: Floats  # (E,)
    total: int  # edges of the whole graph
    labels: list[str]  # (m,)
    numeric: NDArray[np.bool_]  # (m,)
    variables: Ints  # (m,) columns of the table they come from


def picture(model: Any, top: int, names: Sequence[str] | None) -> Picture:
    """The strongest edges, in order of the columns where they are equal."""
    graph = np.asarray(model.graph_, np.float64)
    words = names_of(model, names)
    s, t = np.triu_indices(len(graph), 1)
    weights = graph[s, t]
    total = int(np.count_nonzero(weights))
    if total == 0:
        raise ValueError(
            "The graph has no edge: all its weights are 0, so there is nothing to show. Fit it with a smaller penalty, or to other columns."
        )
    strongest = np.argsort(-np.abs(weights), kind="stable")[: min(top, total)]
    shown, places = np.unique(np.stack([s[strongest], t[strongest]], axis=1), return_inverse=True)
    return Picture(
        places.reshape(-1, 2),
        weights[strongest],
        total,
        [words[i] for i in shown],
        shown < model.n_numeric_,
        np.asarray(model.encoded_columns_, np.intp)[shown],
    )


def names_of(model: Any, names: Sequence[str] | None) -> list[str]:
    """A label for every encoded column: at most two lines."""
    p = len(model.graph_)
    if names is not None:
        words = [str(name) for name in names]
        if len(words) != p:
            raise ValueError(f"names must have one name per encoded column, {p} (see encoded_names_), got {len(words)}.")
        return [_wrapped(word) for word in words]
    inputs = getattr(model, "feature_names_in_", None)
    labels = []
    for i, word in enumerate(map(str, model.encoded_names_)):
        if i < model.n_numeric_ or len(word) <= _SHORT:
            labels.append(_wrapped(word))
            continue
        # a variable's own name may hold "="
        variable = word.partition("=")[0] if inputs is None else str(inputs[model.encoded_columns_[i]])
        is_level = word.startswith(f"{variable}=")
        labels.append(f"{_shortened(variable)}\n= {_shortened(word[len(variable) + 1 :])}" if is_level else _wrapped(word))
    return labels


def _shortened(word: str) -> str:
    """Both ends of a long word: long names often differ in their last letters."""
    return word if len(word) <= _LONG else f"{word[: _LONG * 2 // 3]}…{word[-(_LONG - 1 - _LONG * 2 // 3) :]}"


def _wrapped(word: str) -> str:
    if len(word) <= _LONG:
        return word
    lines = textwrap.wrap(word, _LONG)
    return "\n".join(lines if len(lines) <= 2 else [lines[0], _shortened(word[len(lines[0]) :].strip())])


# ---- places ----


def need_networkx() -> Any:
    """networkx, or a sentence that says how to get it."""
    try:
        return importlib.import_module("networkx")
    except ImportError as error:
        raise ImportError("The picture of a graph needs networkx: pip install 'craftc[app]'.") from error


def layout(networkx: Any, shown: Picture) -> Floats:
    """(m, 2) places whose distances follow the edges, the indicators of a variable near each other; wider than high."""
    m = len(shown.labels)
    graph = networkx.Graph()
    graph.add_nodes_from(range(m))
    kin = shown.variables[:, None] == shown.variables
    graph.add_edges_from(np.argwhere(np.triu(kin, 1)).tolist(), length=_KIN)
    graph.add_edges_from(shown.pairs.tolist(), length=1.0)
    paths = dict(networkx.all_pairs_dijkstra_path_length(graph, weight="length"))
    far = max(2.0, max(max(path.values()) for path in paths.values()))  # of columns that no path joins
    distances = {i: {j: paths[i].get(j, far) for j in range(m)} for i in range(m)}
    found = networkx.kamada_kawai_layout(graph, dist=distances)
    places: Floats = np.array([found[i] for i in range(m)], np.float64)
    places -= places.mean(axis=0)
    turned: Floats = places @ np.linalg.svd(places, full_matrices=False)[2].T
    return turned


def spread(places: Floats, sizes: Floats, room: Floats, pairs: Ints) -> tuple[Floats, bool]:
    """Places (m, 2) in a room (2,) at which labels of these sizes (m, 2) do not overlap, and whether there are such.

    The first half of the steps also takes labels out from under the lines of others and leaves lines long enough to be seen, as far as
    that is possible.
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
    """Moves that take labels that overlap, or are nearer than `more` (m, m), apart the short way."""
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
    """Moves that take labels out from under the lines of others, and these lines away from them."""
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


def size(columns: int) -> tuple[float, float]:
    """Inches of a picture."""
    least, more, height = _FIGURE
    width = least + more * columns**0.5
    return width, height * width


def draw(axes: Any, networkx: Any, shown: Picture) -> None:
    """Columns as framed labels, edges as lines between them."""
    from matplotlib.collections import LineCollection

    axes.set_axis_off()
    variables, counts = np.unique(shown.variables, return_counts=True)
    tints = {int(v): _TINTS[k % len(_TINTS)] for k, v in enumerate(variables[counts > 1])}
    scale = 72 / axes.figure.dpi
    # a layout engine gives the axes their place only when it draws; the canvas knows the whole figure, the axes perhaps a part of it
    axes.figure.canvas.figure.draw_without_rendering()
    below = _legend(axes, shown, bool(tints))
    room = np.array([axes.bbox.width * scale, max(axes.bbox.height * scale - below, 1.0)])
    axes.set(xlim=(0, room[0]), ylim=(-below, room[1]))  # points
    texts = [
        axes.text(
            0,
            0,
            label,
            ha="center",
            va="center",
            linespacing=1.0,
            parse_math=False,
            zorder=4,
            bbox={
                "boxstyle": f"round,pad={_PAD},rounding_size=0.8" if numeric else f"square,pad={_PAD}",
                "facecolor": "white" if numeric else tints.get(int(variable), _ALONE),
                "edgecolor": "0.2" if numeric else "0.6",
                "linewidth": 0.9 if numeric else 0.6,
            },
        )
        for label, numeric, variable in zip(shown.labels, shown.numeric, shown.variables, strict=True)
    ]
    at_first, font, fits = layout(networkx, shown), _FONT, False
    while not fits:
        for text in texts:
            text.set_fontsize(font)
        sizes = np.array([text.get_window_extent().size for text in texts]) * scale + 2 * _PAD * font
        places, fits = spread(at_first, sizes, room, shown.pairs)
        fits, font = fits or font * _SHRINK < _SMALLEST, font * _SHRINK
    for text, place in zip(texts, places, strict=True):
        text.set_position(place)
    bands = [(edge, tint) for v, tint in tints.items() for edge in _tree(networkx, np.flatnonzero(shown.variables == v), places)]
    axes.add_collection(
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
    axes.add_collection(
        LineCollection(
            list(places[shown.pairs[::-1]]),  # the strongest last, on top
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


def _tree(networkx: Any, members: Ints, places: Floats) -> list[list[int]]:
    """The shortest tree that joins some columns."""
    graph = networkx.Graph()
    for k, i in enumerate(members.tolist()):
        graph.add_weighted_edges_from((i, j, float(np.hypot(*(places[i] - places[j])))) for j in members[:k].tolist())
    return [list(edge) for edge in networkx.minimum_spanning_edges(graph, data=False)]


def _colour(weight: float) -> str:
    return _TOGETHER if weight > 0 else _AVOID


def _style(weight: float) -> Any:
    return "-" if weight > 0 else _DASHED


def _legend(axes: Any, shown: Picture, kin: bool) -> float:
    """What lines and frames mean, at the bottom; points of its height."""
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], color=_colour(sign), linestyle=_style(sign), linewidth=3, label=label)
        for sign, label in ((1.0, "go together"), (-1.0, "avoid each other"))
        if (shown.weights * sign > 0).any()
    ]
    kinds = ((shown.numeric, "o", "white", "0.2", "number"), (~shown.numeric, "s", _ALONE, "0.6", "category"))
    for occurs, marker, face, edge, label in kinds:
        if occurs.any():
            handles.append(
                Line2D([], [], linestyle="", marker=marker, markerfacecolor=face, markeredgecolor=edge, markersize=8, label=label)
            )
    if kin:
        handles.append(Line2D([], [], color=_TINTS[0], linewidth=8, solid_capstyle="butt", label="of one variable"))
    edges, total = len(shown.weights), shown.total
    told = [f"The {edges} strongest of {total} ties" if edges < total else f"All {total} ties", "a thicker line is a stronger one"]
    if edges == 1:
        told = ["The only tie" if total == 1 else f"The strongest of {total} ties"]
    extent = axes.bbox
    for columns in range(len(handles), 0, -1):
        extent = axes.legend(
            handles=handles,
            loc="lower center",
            ncols=columns,
            frameon=False,
            fontsize=_FONT,
            title=(", " if columns == len(handles) else "\n").join(told),
            title_fontsize=_FONT,
            borderaxespad=0.2,
        ).get_window_extent()
        if extent.width <= axes.bbox.width:
            break
    return float(extent.height) * 72 / float(axes.figure.dpi)


# ---- the spectrum ----


def draw_spectrum(axes: Any, spectrum: Floats, kept: slice) -> None:
    """Eigenvalues over their number, those of `kept` filled, and the gap behind them."""
    from matplotlib.ticker import MaxNLocator

    number = np.arange(1, len(spectrum) + 1)
    axes.plot(number, spectrum, color="0.75", linewidth=1, zorder=1)
    inside = np.zeros(len(spectrum), bool)
    inside[kept] = True
    if kept.stop < len(spectrum):
        low, high = spectrum[kept.stop - 1], spectrum[kept.stop]
        gap = max(round(float(high - low), 10), 0.0)  # equal eigenvalues differ by rounding
        axes.axhspan(low, high, color=_TINTS[2], linewidth=0, zorder=0, label=f"gap behind the last kept: {gap:.2g}")
        axes.axvline(kept.stop + 0.5, color="0.45", linewidth=1, linestyle=(0, (4, 3)), zorder=0)
    if not inside.all():
        axes.plot(number[~inside], spectrum[~inside], "o", markersize=4, markerfacecolor="white", color="0.5", zorder=2, label="left out")
    told = f"kept: {inside.sum()} of {len(inside)}"
    axes.plot(number[inside], spectrum[inside], "o", markersize=5, color=_TOGETHER, zorder=3, label=told)
    axes.set_xlabel("number of the component, smoothest first")
    axes.set_ylabel("eigenvalue: how much tied\ncolumns differ in it")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.spines[["top", "right"]].set_visible(False)
    handles, words = axes.get_legend_handles_labels()
    axes.legend(handles[::-1], words[::-1], framealpha=0.9, edgecolor="none")
