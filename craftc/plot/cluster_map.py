"""The map of clusters: rows as dots, clusters as areas with their names."""

from __future__ import annotations

from textwrap import wrap
from typing import TYPE_CHECKING

import numpy as np
from sklearn.utils.validation import check_is_fitted

from craftc._common.typing import Bits, Floats, FrameInput, Ints, Labels
from craftc.craft.base import CraftBase
from craftc.describe.cluster_map import BETWEEN, COLOURS, WIDTH, ClusterMap, cluster_map, sampled_rows
from craftc.describe.words import percent
from craftc.distributed.collections import is_collection
from craftc.plot.cluster_view import HALO, ClusterModel, DrawnClusters, inches, new_figure
from craftc.table.frames import open_source

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_WIDE = 6.4  # inches of the picture
_FONT = 7.5
_MOST_NAMES = 12  # clusters; with more, the picture has numbers and the legend names
_LINE, _MOST_LINES = 22, 3  # characters and lines of a name in the picture
_LETTER, _LEADING = 0.98, 2.1  # units of the picture: width of a letter, height of a line
_REACH, _WAYS = (0.0, 4.0, 8.0, 12.0, 17.0, 23.0, 30.0), 12  # how far and in which directions a name may move
_FAR = 5.0  # distance from which a line leads from a name to its cluster
_INK = "#1A1F26"


def map(model: ClusterModel, X: FrameInput, *, ax: Axes | None = None) -> Axes:
    """Draw rows as dots, and clusters as areas that hold 90 % of them.

    The closer two clusters are, the harder they are to tell apart: their distance is that of two normal
    distributions with the same typical margins. A row lies midway between two clusters if both describe it
    equally well, and near the middle of its own if its margin is typical. So areas overlap where rows may
    belong to either; dark dots are rows whose probability is below 60 %, and an x is an outlier of a model
    with `outlier_price`, in its cheapest cluster. Axes have no unit, and the map is a
    summary in two dimensions: distances between far clusters are approximate.

    With two clusters, the horizontal place of a row is its margin and the vertical one how unusual it is;
    with one cluster, the width is only a spread.

    Parameters
    ----------
    model : CRAFT or FeatureSelectionMixture
        Fitted. ``model.at(k)`` of a fitted `CRAFT` gives fewer clusters.
    X : frame, dict of columns or array (n, D)
        Rows with the columns of `fit`; their clusters are predicted. Of more than 16 384 rows, a sample of
        this size is mapped, the same in every call.
    ax : matplotlib Axes, optional
        Where to draw; None: a new figure.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    TypeError, ValueError
        X is a Dask collection, has no rows or lacks columns.

    Examples
    --------
    >>> from craftc import CRAFT, plot
    >>> from craftc.datasets import load_heart
    >>> heart = load_heart().data
    >>> ax = plot.map(CRAFT(random_state=0).fit(heart), heart)
    >>> [text.get_text().split("\\n")[0] for text in ax.texts]
    ['1: high max_hr, slope', '0: slope 2, low']
    """
    drawn = DrawnClusters(model, "map")
    if is_collection(X):
        raise TypeError(
            "plot.map reads the rows of one machine, but X is a Dask collection; pass a part of its rows "
            "with X.compute()."
        )
    costs, labels = _costs(model, X)
    outlier = labels < 0
    labels = np.where(outlier, costs.argmin(axis=1), labels)
    if not len(costs):
        raise ValueError("plot.map needs rows, but X has none.")
    order = drawn.view.order
    place = np.empty(len(order), np.int32)
    place[order] = np.arange(len(order))
    found = cluster_map(costs[:, order], place[labels])
    names = [drawn.labels[k] for k in order]
    if ax is None:
        legend = inches(names) + 0.5 if len(names) > _MOST_NAMES else 0.0
        ax = new_figure((_WIDE + legend, 0.35 + _WIDE * found.height / WIDTH)).add_subplot()
    _areas(ax, found)
    x, y = found.points[outlier[found.rows]].T
    ax.scatter(x, y, s=18.0, marker="x", color=_INK, linewidths=0.8, zorder=3)
    if len(names) > _MOST_NAMES:
        _numbers(ax, found, names, order)
    else:
        _names(ax, found, names)
    ax.set(xlim=(0, WIDTH), ylim=(found.height, 0), xticks=[], yticks=[], aspect="equal")
    ax.spines[:].set_visible(False)
    ax.set_xlabel(_caption(found, outlier), fontsize=_FONT)
    if len(found.drawn) <= 2:
        ax.set_ylabel("← unusual rows", fontsize=_FONT, loc="bottom")
    return ax


def _costs(model: ClusterModel, X: FrameInput) -> tuple[Floats, Labels]:
    """The costs in nats of rows, of many those of a sample, and their clusters."""
    check_is_fitted(model)
    if isinstance(model, CraftBase):
        table = model._read_columns(X)
        table = table.take(sampled_rows(len(table)))
        return np.asarray(model.transform(table), np.float64), model.predict(table)
    rows = open_source(X).numbers(np.arange(model.n_features_in_), np.dtype(np.float64))
    rows = rows[sampled_rows(len(rows))]
    chances = np.maximum(model.predict_proba(rows), np.finfo(np.float64).tiny)
    return -np.log(chances) - model.score_samples(rows)[:, None], model.predict(rows)


def _areas(ax: Axes, found: ClusterMap) -> None:
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    for k in found.drawn:
        colour, own = COLOURS[k % len(COLOURS)], found.labels == k
        rings = [np.vstack([ring, ring[:1]]) for ring in found.areas[k]]
        codes = [Path.MOVETO, Path.LINETO, Path.CLOSEPOLY]
        of_rings = [np.repeat(codes, (1, len(ring) - 2, 1)) for ring in rings]
        outline = Path(np.concatenate(rings), np.concatenate(of_rings))
        ax.add_patch(PathPatch(outline, facecolor=f"{colour}38", edgecolor=colour, linewidth=1.0))
        ax.scatter(found.points[own, 0], found.points[own, 1], s=3.0, color=colour, linewidths=0)
    x, y = found.points[found.between].T
    ax.scatter(x, y, s=7.0, color=_INK, linewidths=0, zorder=3)


def _numbers(ax: Axes, found: ClusterMap, names: list[str], order: Ints) -> None:
    """Labels of the clusters in the picture, and their names in a legend."""
    from matplotlib.lines import Line2D

    for k in found.drawn:
        box = {"boxstyle": "round,pad=0.2", "facecolor": "white", "edgecolor": COLOURS[k % len(COLOURS)]}
        ax.text(
            found.centres[k, 0],
            found.centres[k, 1],
            str(order[k]),
            fontsize=_FONT,
            ha="center",
            va="center",
            bbox=box,
        )
    dots = [
        Line2D([], [], marker="o", linestyle="", color=COLOURS[k % len(COLOURS)], label=names[k])
        for k in found.drawn
    ]
    ax.legend(
        handles=dots,
        loc="center left",
        bbox_to_anchor=(1, 0.5),
        frameon=False,
        fontsize=_FONT,
        handletextpad=0.1,
    )


def _names(ax: Axes, found: ClusterMap, names: list[str]) -> None:
    """Names of the clusters at their densest places, moved where they would overlap."""
    taken: list[Floats] = []
    for k in found.drawn:
        lines = wrap(names[k], _LINE)
        if len(lines) > _MOST_LINES:
            lines = [*lines[: _MOST_LINES - 1], lines[_MOST_LINES - 1][: _LINE - 2] + " …"]
        half = np.array([_LETTER * max(len(line) for line in lines), _LEADING * len(lines)]) / 2
        at = _free_place(found, found.centres[k], half, taken)
        taken.append(np.concatenate([at - half, at + half]))
        leads = bool(np.hypot(*(at - found.centres[k])) > _FAR)
        ax.annotate(
            "\n".join(lines),
            (float(found.centres[k, 0]), float(found.centres[k, 1])),
            xytext=(float(at[0]), float(at[1])),
            ha="center",
            va="center",
            fontsize=_FONT,
            color=_INK,
            arrowprops={"arrowstyle": "-", "color": _INK, "linewidth": 0.6} if leads else None,
            bbox=HALO,
            zorder=4,
        )


def _free_place(found: ClusterMap, centre: Floats, half: Floats, taken: list[Floats]) -> Floats:
    """The place nearest to the centre of a cluster where its name overlaps no other name."""
    low, high = half, np.array([WIDTH, found.height]) - half
    angles = 2 * np.pi * np.arange(_WAYS) / _WAYS
    for reach in _REACH:
        for angle in angles[: 1 if reach == 0.0 else None]:
            at = np.clip(
                centre + reach * np.array([np.sin(angle), -np.cos(angle)]), low, np.maximum(low, high)
            )
            if all(np.any(at + half <= box[:2]) or np.any(at - half >= box[2:]) for box in taken):
                return np.asarray(at)
    return np.clip(centre, low, np.maximum(low, high))


def _caption(found: ClusterMap, outlier: Bits) -> str:
    n_rows = len(outlier)
    share = float(found.between.mean())
    parts = [f"{len(found.rows):,} of {n_rows:,} rows" if len(found.rows) < n_rows else f"{n_rows:,} rows"]
    if len(found.drawn) > 1:
        parts.append(f"dark: between clusters, probability below {percent(BETWEEN)} ({percent(share)})")
    if outlier.any():
        parts.append(f"x: outliers ({percent(float(outlier.mean()))})")
    if missing := len(found.centres) - len(found.drawn):
        parts.append(f"{missing} clusters without rows")
    return "; ".join(parts)
