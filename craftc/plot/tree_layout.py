"""The tree of a regularization path: which nodes form one cluster, down to which penalty, and its drawing.

Covariates of `ConvexCovariateClustering`, or rows of `ConvexClustering`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from craftc._common.typing import Floats, Ints
from craftc.plot.cluster_view import HALO

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

WIDTH, ROW, AROUND = 7.5, 0.175, 1.4  # inches: width of the figure, height of a leaf, height around the tree
FONT = 8.0  # points
DASHED = (0, (4, 3))
_FILL = 0.75  # height of the letters relative to a row
_STUB = 0.03  # of the width: branches extend beyond the ends of the path
_ROOM = 0.1  # of the width, right of the largest penalty
_LONG = 32  # characters of a name
_LINE = 100  # characters of a line of the legend


class Node(NamedTuple):
    """A cluster of the tree."""

    members: Ints  # covariates or rows
    parent: int  # node that contains it; -1: a root
    # point of the path with the smallest penalty at which it is one cluster; its children merge there
    point: int
    height: float  # vertical position of its branch; that of a leaf is its row


class Path(Protocol):
    """A regularization path as nested partitions."""

    penalties: Floats  # (T,) falling
    chosen: int  # point of the path
    levels: Ints  # (T, n) nested partitions


class FusionBranch(NamedTuple):
    """How a branch is drawn."""

    colour: str
    style: str = "-"
    width: float = 1.3  # points


class BranchLabel(NamedTuple):
    """Text where a branch crosses the line of the chosen penalty or, in italics, where it begins."""

    text: str
    colour: str
    chosen: bool = True


def nested(path: NDArray[np.integer], chosen: int) -> Ints:
    """Nested partitions (T, d) from the labels (T, d) of a path, on which separated nodes may merge again.

    Separated nodes stay separate. The chosen point keeps its clusters: at larger penalties each of them is
    kept together, in the cluster that contains most of its members.
    """
    levels = np.asarray(path, np.intp).copy()
    cluster = levels[chosen].copy()
    for t in range(chosen):
        m = levels[t].max() + 1
        pair, count = np.unique(cluster * m + levels[t], return_counts=True)
        # sorted so that the most frequent label of a cluster comes last and wins in the dict
        place = dict(zip(*divmod(pair[np.lexsort((-pair, count))], m), strict=True))
        levels[t] = np.array([place[k] for k in range(cluster.max() + 1)])[cluster]
    for t in range(1, len(levels)):
        levels[t] = np.unique(levels[t - 1] * (levels[t].max() + 1) + levels[t], return_inverse=True)[1]
    return levels


def subtree(levels: Ints, named: Ints | None, chosen: int) -> NDArray[np.bool_]:
    """Mask of the smallest cluster, of at least two, that contains the chosen clusters of the named nodes; if
    no single root does, of all roots that contain one. None: all nodes.
    """
    if named is None:
        return np.ones(levels.shape[1], bool)
    for t in range(chosen, -1, -1):
        inside = np.isin(levels[t], levels[t, named])
        if len(np.unique(levels[t, named])) == 1 and inside.sum() > 1:
            break
    return np.asarray(inside)


def build_tree(levels: Ints, shown: Ints, rank: Floats) -> list[Node]:
    """The nodes of the tree, parents before their children, leaves in the order of their rows.

    `levels` (T, d) are nested partitions, coarsest first. Leaves in one cluster at the end of the path are
    siblings, sorted by the mean rank (d,) of their members.
    """
    nodes: list[Node] = []
    rows = 0
    pending = [(part, -1) for part in _parts(shown, levels[0, shown], rank)]
    while pending:
        members, parent = pending.pop()
        together = (levels[:, members] == levels[:, members[:1]]).all(axis=1)
        point = int(together.sum()) - 1  # nested partitions: separated covariates never merge again
        leaf = len(members) == 1
        if not leaf:
            below = levels[point + 1, members] if point + 1 < len(levels) else np.arange(len(members))
            pending += [(part, len(nodes)) for part in _parts(members, below, rank)]
        nodes.append(Node(members, parent, point, float(rows) if leaf else np.nan))
        rows += leaf
    ends: list[list[float]] = [[] for _ in nodes]
    for k in range(len(nodes) - 1, -1, -1):  # children before their parents
        if ends[k]:
            nodes[k] = nodes[k]._replace(height=(min(ends[k]) + max(ends[k])) / 2)
        if nodes[k].parent >= 0:
            ends[nodes[k].parent].append(nodes[k].height)
    return nodes


def _parts(members: Ints, label: Ints, rank: Floats) -> list[Ints]:
    """Members by label; lowest mean rank last, because the caller pops from the end."""
    parts = [members[label == k] for k in np.unique(label)]
    return sorted(parts, key=lambda part: (-float(rank[part].mean()), -int(part[0])))


# ---- drawing ----


def draw_tree(
    ax: Axes,
    path: Path,
    nodes: Sequence[Node],
    names: Sequence[str],
    branch_of: Callable[[Node, Node | None, bool], FusionBranch],
    label_of: Callable[[Node, Node | None, bool], BranchLabel | None],
) -> None:
    """Draw the tree: leaves on the left with their names, larger penalties on the right.

    `branch_of` also gets whether the line is the vertical one that joins parts; `label_of`, whether there are
    parts.
    """
    from matplotlib.collections import LineCollection

    place, low, high = positions_of_penalties(path, nodes)
    height = ax.get_position().height * ax.figure.bbox.height / ax.figure.dpi * 72
    font = float(np.clip(_FILL * height / len(names), 2.0, FONT))  # fits the height of a row
    lines: list[list[tuple[float, float]]] = []
    branches: list[FusionBranch] = []
    parts: list[list[float]] = [[] for _ in nodes]
    for node in nodes:
        if node.parent >= 0:
            parts[node.parent].append(node.height)
    for node, heights in zip(nodes, parts, strict=True):
        parent = nodes[node.parent] if node.parent >= 0 else None
        start, end = place[node.point] if heights else low, high if parent is None else place[parent.point]
        lines.append([(start, node.height), (end, node.height)])
        branches.append(branch_of(node, parent, False))
        if heights:
            lines.append([(start, min(heights)), (start, max(heights))])
            branches.append(branch_of(node, parent, True))
        label = label_of(node, parent, bool(heights))
        if label is not None:
            ax.annotate(
                label.text,
                (place[path.chosen] if label.chosen else start, node.height),
                xytext=(3, 0.8),
                textcoords="offset points",
                va="bottom",
                fontsize=font - 1,
                style="normal" if label.chosen else "italic",
                color=label.colour,
                bbox=HALO,
                zorder=4,
            )
    ax.add_collection(
        LineCollection(
            lines,
            colors=[branch.colour for branch in branches],
            linestyles=[branch.style for branch in branches],
            linewidths=[branch.width for branch in branches],
            zorder=2,
        )
    )
    ax.axvline(place[path.chosen], color="0.45", linewidth=1.0, linestyle=DASHED, zorder=1)
    ax.set(xscale="log", xlim=(low, high))
    name_leaves(ax, names, font)
    if path.penalties[-1] == 0:
        mark_zero(ax, place, high)
    ax.tick_params(axis="x", labelsize=FONT)
    ax.spines[["left", "top", "right"]].set_visible(False)


def leaves_of(nodes: Sequence[Node]) -> list[int]:
    """The leaves from the top down."""
    return [int(node.members[0]) for node in nodes if len(node.members) == 1]


def is_chosen(path: Path, node: Node, parent: Node | None) -> bool:
    """Whether a node is a cluster of the chosen point."""
    return (parent is None or parent.point < path.chosen) and path.chosen <= node.point


def draw_legend(ax: Axes, path: Path, handles: Sequence[Line2D], what: str, notes: Sequence[str]) -> None:
    """Explain the lines, the chosen penalty and `what` stands at it, above the tree."""
    from matplotlib.lines import Line2D

    K = int(path.levels[path.chosen].max()) + 1
    label = f"chosen: ν = {path.penalties[path.chosen]:.3g}, {K} cluster{'' if K == 1 else 's'}{what}"
    shown = [*handles, Line2D([], [], color="0.45", linewidth=1, linestyle=DASHED, label=label)]
    long = [len(str(handle.get_label())) + 9 for handle in shown]  # 9: the line in front of the label
    ax.legend(
        handles=shown,
        loc="lower left",
        bbox_to_anchor=(0, 1),
        ncols=len(shown) if sum(long) <= _LINE else max(1, _LINE // max(long)),
        frameon=False,
        fontsize=FONT,
        title="\n".join(notes) or None,
        title_fontsize=FONT,
        alignment="left",
        borderaxespad=0.2,
    )


def positions_of_penalties(path: Path, nodes: Sequence[Node]) -> tuple[Floats, float, float]:
    """Positions of the penalties on the logarithmic axis, nu = 0 one step left of the others, and its limits:
    the right one where a single root starts, or the chosen penalty if that is larger.
    """
    penalties = path.penalties
    some = penalties[penalties > 0]
    place = np.where(penalties > 0, penalties, some[-1] / max(float(some[0] / some[-1]) ** _ROOM, 2.0))
    last = 0 if sum(node.parent < 0 for node in nodes) > 1 else min(nodes[0].point, path.chosen)
    span = max(float(place[last] / place[-1]), 10.0)
    return place, float(place[-1] / span**_STUB), float(place[last] * span**_ROOM)


def name_leaves(ax: Axes, names: Sequence[str], font: float) -> None:
    """Names of the leaves, from the top down, on the left of the tree."""
    short = [name if len(name) <= _LONG else name[: _LONG - 1] + "…" for name in names]
    ax.set_yticks(range(len(names)), [name.replace("$", r"\$") for name in short], fontsize=font)
    ax.tick_params(axis="y", length=0, pad=2)
    ax.set_ylim(len(names) - 0.4, -0.8)


def mark_zero(ax: Axes, place: Floats, high: float) -> None:
    """Label the tick of the penalty 0 as 0, although its position on the logarithmic axis is positive."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullLocator

    ticks = [tick for tick in LogLocator().tick_values(place[-2], high) if place[-2] / 1.01 <= tick <= high]
    ax.xaxis.set_major_locator(FixedLocator([place[-1], *ticks]))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter(
        FuncFormatter(lambda x, _: "0" if x < place[-2] / 1.01 else f"$10^{{{round(math.log10(x))}}}$")
    )


# ---- arguments ----


def names_of(names: Iterable[object], d: int, leaf: str) -> list[str]:
    """A name for every covariate or row."""
    labels = [str(name) for name in names]
    if len(labels) != d:
        raise ValueError(f"names must have one name per {leaf} ({d}), got {len(labels)}.")
    return labels


def positions_in(
    only: int | str | Sequence[int | str] | None, names: Sequence[str], leaf: str
) -> Ints | None:
    """Positions of the covariates or rows in `only`; None: all."""
    if only is None:
        return None
    requested = list(only) if isinstance(only, Iterable) and not isinstance(only, str) else [only]
    if not requested:
        raise ValueError(f"only must name at least one {leaf}, got none.")
    found: list[int] = []
    for one in requested:
        if isinstance(one, str):
            places = [i for i, name in enumerate(names) if name == one]
        elif isinstance(one, (int, np.integer)) and not isinstance(one, bool):
            places = [int(one)] if 0 <= one < len(names) else []
        else:
            raise TypeError(f"only must contain names or numbers of {leaf}s, got {one!r}.")
        if not places:
            known = f"the model has {len(names)}, the first is {names[0]!r}"
            raise ValueError(f"only contains the unknown {leaf} {one!r}; {known}.")
        found += places
    return np.unique(found)
