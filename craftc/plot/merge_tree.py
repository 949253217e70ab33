"""The tree of the merges from the clusters of a fitted CRAFT down to one cluster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from sklearn.utils.validation import check_is_fitted

from craftc._common.merge_path import Merge, MergePath, leaves_of, merges_of, objectives_of
from craftc._common.typing import Floats
from craftc.craft.estimator import CRAFT
from craftc.describe.words import percent, plural
from craftc.plot.cluster_view import CLUSTER, DrawnClusters, inches, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_WIDTH, _ROW, _AROUND = 5.2, 0.19, 1.2  # inches: width of the tree, height of a leaf, height around the tree
_LEFT = 0.3  # most width left of 0, relative to the last merge
_FONT = 8.0
_THICK, _THIN = 2.4, 0.8  # points
_ROOM = 0.04  # free width at both ends, and width of a merge that lowers J, relative to the last merge
_FINE = "#7C8590"
_CUT = "#8A4B00"


def merge_tree(model: CRAFT, *, n_clusters: int | None = None, ax: Axes | None = None) -> Axes:
    """Draw the merges from the clusters of a model down to one cluster, with heights in nats.

    The leaves are the clusters of the model, larger branches first. Two branches meet where the merge path
    merges their clusters: at the nats by which J then exceeds J of all clusters of the model. The horizontal
    distance between two merges is what the second costs; where J falls along the path, the branches meet at
    the largest value so far. If `n_clusters` of the fit exceeds the best number, the first merges lower J:
    these are left of 0, at equal distances. A merge also moves single rows between clusters; the tree follows
    whole clusters.

    The dashed line is a cut: the branches that it crosses are the clusters of ``model.at(n_clusters)``.
    Merges beyond it are thick.

    Parameters
    ----------
    model : CRAFT
        Fitted under the automatic price, with at least two clusters.
    n_clusters : int, optional
        Where to cut: from 1 to `n_clusters_`; None: no cut. If the path skips that number, the cut is at the
        next smaller one.
    ax : matplotlib Axes, optional
        Where to draw; None: a new figure.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    ValueError
        The model has one cluster or no merge path, or fewer clusters than the cut.

    Examples
    --------
    >>> from craftc import CRAFT, plot
    >>> from sklearn.datasets import load_wine
    >>> model = CRAFT(random_state=0).fit(load_wine().data)
    >>> ax = plot.merge_tree(model, n_clusters=2)
    >>> model.n_clusters_, [text.get_text() for text in ax.texts]
    (3, ['2 clusters'])
    """
    if not isinstance(model, CRAFT):
        raise TypeError(f"plot.merge_tree draws the merge_path_ of CRAFT; {type(model).__name__} has none.")
    check_is_fitted(model)
    cut = model._step(1 if n_clusters is None else n_clusters)
    if model.n_clusters_ == 1:
        raise ValueError("plot.merge_tree needs two clusters, but the model has one.")
    drawn = DrawnClusters(model, "merge_tree")
    path, objectives = model.merge_path_, objectives_of(model.merge_path_)
    merges, _ = merges_of([change.heirs for change in path.changes()] if isinstance(path, MergePath) else [])
    heights = heights_of([objective for _, objective in objectives])
    leaves = leaves_of(merges, drawn.view.sizes)
    labels = [f"{drawn.labels[k]} ({percent(drawn.view.shares[k])})" for k in leaves]
    if ax is None:
        ax = new_figure((_WIDTH + inches(labels), _AROUND + _ROW * max(len(leaves), 4))).add_subplot()
    n_free = int(np.count_nonzero(heights[1:] <= 0.0))
    places, end = places_of(heights, n_free)
    _draw(ax, merges, places, leaves, None if n_clusters is None else cut)
    if n_clusters is not None:
        place = (places[cut] + np.append(places, end)[cut + 1]) / 2
        _mark_cut(ax, place, plural(objectives[cut][0], "cluster"))
    ax.set_yticks(range(len(leaves)), labels, fontsize=_FONT)
    ax.set(xlim=(places[0], end), ylim=(len(leaves) - 0.4, -0.6))
    ax.xaxis.set_major_formatter("{x:,.12g}")
    ax.set_xticks([tick for tick in ax.get_xticks() if 0 <= tick <= end])
    note = "; left of 0: merges that save nats" if n_free else ""
    ax.set_xlabel(f"nats lost by merging the {len(leaves)} clusters{note}", fontsize=_FONT)
    ax.tick_params(axis="x", labelsize=_FONT)
    ax.tick_params(axis="y", length=0)
    ax.spines[["left", "top", "right"]].set_visible(False)
    return ax


def heights_of(objectives: Sequence[float]) -> Floats:
    """Nats above the first step, which never fall along the path."""
    nats = np.asarray(objectives) - objectives[0]
    return np.maximum.accumulate(np.maximum(nats, 0.0))


def places_of(heights: Floats, n_free: int) -> tuple[Floats, float]:
    """Horizontal places of the steps, whose first `n_free` merges cost nothing, and the end of the axis."""
    span = float(heights[-1]) or 1.0
    places = heights.copy()
    places[: n_free + 1] = min(_ROOM, _LEFT / (n_free + 1)) * span * np.arange(-n_free - 1, 0)
    return places, float(heights[-1]) + _ROOM * span


def _draw(ax: Axes, merges: Sequence[Merge], places: Floats, leaves: Sequence[int], cut: int | None) -> None:
    """The branches: thick beyond the cut."""
    from matplotlib.collections import LineCollection

    rows = dict(zip(leaves, map(float, range(len(leaves))), strict=True))
    at = dict.fromkeys(leaves, float(places[0]))
    lines: list[list[tuple[float, float]]] = []
    thick: list[bool] = []
    for node, merge in enumerate(merges, len(leaves)):
        height = float(places[merge.step])
        ends = [rows[part] for part in merge.parts]
        new = [[(at[part], rows[part]), (height, rows[part])] for part in merge.parts]
        lines += [*new, [(height, min(ends)), (height, max(ends))]]
        thick += [cut is not None and merge.step > cut] * (len(new) + 1)
        rows[node], at[node] = (min(ends) + max(ends)) / 2, height
    widths = np.where(thick, _THICK, _THIN if any(thick) else (_THICK + _THIN) / 2)
    colours = [CLUSTER if wide or cut is None else _FINE for wide in thick]
    ax.add_collection(LineCollection(lines, linewidths=widths, colors=colours, capstyle="projecting"))


def _mark_cut(ax: Axes, place: float, text: str) -> None:
    """A dashed line between the merge that leads to the clusters of the cut and the next."""
    ax.axvline(place, color=_CUT, linewidth=1.0, linestyle="--")
    ax.annotate(
        text,
        (place, 1),
        xycoords=("data", "axes fraction"),
        xytext=(0, 2),
        textcoords="offset points",
        ha="center",
        fontsize=_FONT,
        color=_CUT,
    )
