"""The tree of the merges of rows along the regularization path of convex clustering."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from craftc._common.typing import Floats, Ints
from craftc.plot.cluster_view import CLUSTER
from craftc.plot.figures import new_figure
from craftc.plot.tree_axes import (
    AROUND,
    DASHED,
    FONT,
    ROW,
    WIDTH,
    font_of,
    mark_zero,
    name_leaves,
    names_of,
    positions_in,
    positions_of_penalties,
)
from craftc.plot.tree_layout import build_tree, nested, subtree

_THICK, _THIN = 2.0, 0.8  # points
_FINE = "#7C8590"


class RowsPath:
    """The path of a fitted `ConvexClustering` as nested partitions, cut off where it has more clusters than
    leaves.

    Parameters
    ----------
    model : ConvexClustering
    requested : ndarray of int or None
        Rows whose subtree is drawn.
    most : int
        Leaves.
    """

    def __init__(self, model: Any, requested: Ints | None, most: int) -> None:
        points = model._points
        penalties: Floats = np.array([point.fusion_penalty for point in points])
        self.chosen = int(np.argmin(np.abs(penalties - model.fusion_penalty_)))
        levels = nested(np.array([point.labels for point in points]), self.chosen)
        inside = np.flatnonzero(
            np.ones(levels.shape[1], bool) if requested is None else subtree(levels, requested, self.chosen)
        )
        if len(inside) > most:
            counts = np.array([len(np.unique(level[inside])) for level in levels])
            last = max(int(np.flatnonzero(counts <= most).max(initial=0)), self.chosen)
            groups, first, of_group = np.unique(levels[last, inside], return_index=True, return_inverse=True)
            sizes = np.bincount(of_group, minlength=len(groups))
            kept = np.sort(np.argsort(-sizes, kind="stable")[:most])
            self.shown, self.sizes, self.n_groups = inside[first[kept]], sizes[kept], len(groups)
        else:
            last = len(points) - 1
            self.shown, self.sizes, self.n_groups = inside, np.ones(len(inside), np.intp), len(inside)
        self.penalties, self.levels = penalties[: last + 1], levels[: last + 1]


def rows_tree(model: Any, names: Sequence[str] | None, only: Any, leaves: int, axes: Any) -> Any:
    """The axes of `fusion_tree` for the path of a `ConvexClustering`."""
    n = len(model.labels_)
    labels = names_of(range(n) if names is None else names, n, "row")
    path = RowsPath(model, None if only is None else positions_in(only, labels, "row"), leaves)
    if axes is None:
        axes = new_figure((WIDTH, AROUND + ROW * max(len(path.shown), 4))).add_subplot()
    _draw(axes, path, labels)
    return axes


def _draw(axes: Any, path: RowsPath, names: Sequence[str]) -> None:
    """Leaves on the left, larger penalties on the right."""
    from matplotlib.collections import LineCollection
    from matplotlib.lines import Line2D
    from matplotlib.patheffects import withStroke

    size = dict(zip(path.shown.tolist(), path.sizes.tolist(), strict=True))
    nodes = build_tree(path.levels, path.shown, np.arange(path.levels.shape[1], dtype=np.float64))
    place, low, high = positions_of_penalties(path, nodes)
    font = font_of(axes, len(path.shown))
    lines: list[list[tuple[float, float]]] = []
    thick: list[bool] = []
    parts: list[list[float]] = [[] for _ in nodes]
    for node in nodes:
        if node.parent >= 0:
            parts[node.parent].append(node.height)
    for node, heights in zip(nodes, parts, strict=True):
        parent = nodes[node.parent] if node.parent >= 0 else None
        start = place[node.point] if heights else low
        lines.append([(start, node.height), (high if parent is None else place[parent.point], node.height)])
        thick.append(parent is None or parent.point < path.chosen)
        if heights:
            lines.append([(start, min(heights)), (start, max(heights))])
            thick.append(node.point < path.chosen)
        if (parent is None or parent.point < path.chosen) and path.chosen <= node.point:
            text = f"{sum(size[row] for row in node.members.tolist()):,}"
            axes.annotate(
                text,
                (place[path.chosen], node.height),
                xytext=(3, 0.8),
                textcoords="offset points",
                va="bottom",
                fontsize=font - 1,
                color=CLUSTER,
                path_effects=[withStroke(linewidth=2, foreground="white")],
                zorder=4,
            )
    widths, colours = np.where(thick, _THICK, _THIN), [CLUSTER if wide else _FINE for wide in thick]
    axes.add_collection(LineCollection(lines, colors=colours, linewidths=widths, zorder=2))
    axes.axvline(place[path.chosen], color="0.45", linewidth=1.0, linestyle=DASHED, zorder=1)
    axes.set(xscale="log", xlim=(low, high))
    axes.set_xlabel("fusion penalty ν at which rows merge", fontsize=FONT)
    order = [int(node.members[0]) for node in nodes if len(node.members) == 1]
    name_leaves(
        axes,
        [names[row] if size[row] == 1 else f"{names[row]} and {size[row] - 1:,} more" for row in order],
        font,
    )
    if path.penalties[-1] == 0:
        mark_zero(axes, place, high)
    axes.tick_params(axis="x", labelsize=FONT)
    axes.spines[["left", "top", "right"]].set_visible(False)
    K = int(path.levels[path.chosen].max()) + 1
    label = f"chosen: ν = {path.penalties[path.chosen]:.3g}, {K} cluster{'' if K == 1 else 's'}; numbers at the line: their rows"
    title = (
        None
        if len(path.shown) == path.n_groups
        else f"The {len(path.shown)} largest of {path.n_groups} clusters"
    )
    axes.legend(
        handles=[Line2D([], [], color="0.45", linewidth=1, linestyle=DASHED, label=label)],
        loc="lower left",
        bbox_to_anchor=(0, 1),
        frameon=False,
        fontsize=FONT,
        title=title,
        title_fontsize=FONT,
        alignment="left",
        borderaxespad=0.2,
    )
