"""The sizes of clusters, and one feature in every cluster compared with the whole table."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from craftc._common.typing import Array, Floats, FrameInput, Ints, Labels
from craftc.describe.columns import CategoricalColumn, CodesColumn, NumericColumn, OrderedColumn, described
from craftc.describe.statistics import bin_edges, level_shares
from craftc.describe.words import count, distinct, percent
from craftc.plot.cluster_view import (
    CLUSTER,
    TABLE,
    TABLE_LINE,
    ClusterModel,
    DrawnClusters,
    inches,
    new_figure,
    plain,
    read_rows,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_TICKS = 7  # of an axis of dates, at most
_WIDTH, _ROW, _AROUND = 5.6, 0.24, 1.1  # inches: width of the axes, height of a cluster, height around them
_TALL = 0.42  # inches of a cluster with a histogram
_FONT = 8.0
_MOST_LEVELS = 7  # levels with bars of their own
_BAR = 0.68  # width of the longest bar of a level; 1 is the distance of two levels
_LONG = 48  # characters of the name of the column
_LINE = 80  # characters of the levels on one line


def sizes(model: ClusterModel, *, ax: Axes | None = None) -> Axes:
    """Draw the number of rows of every cluster, the largest first.

    Parameters
    ----------
    model : CRAFT or FeatureSelectionMixture
        Fitted. ``model.at(k)`` of a fitted `CRAFT` gives fewer clusters.
    ax : matplotlib Axes, optional
        Where to draw; None: a new figure.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> from craftc import CRAFT, plot
    >>> from craftc.datasets import load_heart
    >>> ax = plot.sizes(CRAFT(random_state=0).fit(load_heart().data))
    >>> [label.get_text() for label in ax.texts]
    ['141 (52 %)', '129 (48 %)']
    """
    drawn = DrawnClusters(model, "sizes")
    view = drawn.view
    ax = _axes(ax, view.order, drawn, _ROW)
    shown = view.sizes[view.order]
    ax.barh(range(len(shown)), shown, height=0.7, color=CLUSTER)
    for row, k in enumerate(view.order):
        text = f"{count(view.sizes[k])} ({percent(view.shares[k])})"
        ax.annotate(
            text, (view.sizes[k], row), xytext=(3, 0), textcoords="offset points", va="center", fontsize=_FONT
        )
    ax.set_xlim(0, 1.16 * shown.max())  # room for the figures
    ax.set_xlabel("rows", fontsize=_FONT, loc="left")
    ax.xaxis.set_major_formatter("{x:,.12g}")
    return ax


def distribution(
    model: ClusterModel,
    feature: str | int,
    X: FrameInput | None = None,
    *,
    clusters: ArrayLike | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw a feature in every cluster, compared with the whole table in grey on the same axes.

    Every cluster is a line of the plot, the largest first. Of a number, it shows the mean of the cluster and
    a standard deviation on both sides of it; with `X`, the histogram of the cluster. Both histograms have the
    same area, every line has its own scale, and the outer bins contain the values beyond the axis. Of a
    categorical feature, the bars are the shares of its levels. Missing cells do not count.

    Parameters
    ----------
    model : CRAFT or FeatureSelectionMixture
        Fitted. ``model.at(k)`` of a fitted `CRAFT` gives fewer clusters.
    feature : str or int
        Name of a column, or its position among the columns of the table.
    X : frame, dict of columns or array (n, D), optional
        Rows with the columns of `fit`; their clusters are predicted. None: the statistics of the rows of
        `fit`.
    clusters : int or sequence of int, optional
        Clusters to draw, in this order; None: all.
    ax : matplotlib Axes, optional
        Where to draw; None: a new figure.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    ValueError
        The model has no such column or cluster.

    Examples
    --------
    >>> from craftc import CRAFT, plot
    >>> from craftc.datasets import load_heart
    >>> model = CRAFT(random_state=0).fit(load_heart().data)
    >>> ax = plot.distribution(model, "slope")
    >>> [label.get_text() for label in ax.get_xticklabels()]
    ['1', '2', '3']
    """
    drawn = DrawnClusters(model, "distribution", by_input=True)
    d, chosen = drawn.position(feature), drawn.chosen(clusters)
    of, name = drawn.view.statistics[d], drawn.columns(_LONG)[d]
    column = described(of)
    if isinstance(column, CategoricalColumn):
        if X is not None:
            cells, labels = read_rows(model, X)
            codes = of.coded(cells[d].values) if isinstance(of, CodesColumn) else cells[d].values
            column = _counted(column, codes, labels)
        ax = _axes(ax, chosen, drawn, _ROW)
        _levels(ax, column, chosen)
        name += ": share of every level"
    elif X is not None:
        cells, labels = read_rows(model, X)
        ax = _axes(ax, chosen, drawn, _TALL)
        _histograms(ax, cells[d].values, labels, chosen)
    else:
        ax = _axes(ax, chosen, drawn, _ROW)
        _intervals(ax, column, chosen)
    if isinstance(column, NumericColumn) and column.style == "day":
        from matplotlib.dates import AutoDateLocator

        places = AutoDateLocator(minticks=3, maxticks=_TICKS)  # type: ignore[no-untyped-call]
        ax.xaxis.set_major_locator(places)  # counts days since 1970-01-01, too
        ax.xaxis.set_major_formatter(lambda x, _: column.text(x))
    ax.set_xlabel(name, fontsize=_FONT, loc="left")
    _legend(ax, column, X is None)
    return ax


def _axes(ax: Axes | None, chosen: Ints, drawn: DrawnClusters, height: float) -> Axes:
    """Axes with one line per cluster."""
    labels = [drawn.labels[k] for k in chosen]
    if ax is None:
        ax = new_figure((_WIDTH + inches(labels), _AROUND + height * max(len(chosen), 2))).add_subplot()
    ax.set_yticks(range(len(chosen)), labels, fontsize=_FONT)
    ax.set_ylim(len(chosen) - 0.4, -0.6)
    ax.tick_params(axis="y", length=0)
    ax.tick_params(axis="x", labelsize=_FONT)
    ax.spines[["top", "right", "left"]].set_visible(False)
    return ax


def _intervals(ax: Axes, column: NumericColumn, chosen: Ints) -> None:
    """Means and standard deviations; those of the whole table as a line and a band."""
    mean, deviation = column.means[-1], column.deviations[-1]
    ax.axvspan(mean - deviation, mean + deviation, color=TABLE, alpha=0.6, linewidth=0)
    ax.axvline(mean, color=TABLE_LINE, linewidth=1.2)
    x, xerr = column.means[chosen], column.deviations[chosen]
    y = np.flatnonzero(~np.isnan(x))
    ax.errorbar(x[y], y, xerr=xerr[y], fmt="o", color=CLUSTER, markersize=4, linewidth=1.6, capsize=2)


def _histograms(ax: Axes, values: Array, labels: Labels, chosen: Ints) -> None:
    """A histogram per cluster in front of that of the whole table, both on the scale of the higher one."""
    values, labels = values[~np.isnan(values)], labels[~np.isnan(values)]
    edges = bin_edges(values)
    inside = np.clip(values, edges[0], edges[-1])
    width = np.diff(edges)

    def density(of: Array) -> Floats:
        return np.histogram(of, edges)[0] / max(len(of), 1) / width

    whole = density(inside)
    own = [density(inside[labels == k]) for k in chosen]
    for row, each in enumerate(own):
        floor, scale = row + 0.43, 0.86 / max(whole.max(), each.max())
        ax.stairs(floor - scale * whole, edges, baseline=floor, fill=True, color=TABLE)
        ax.stairs(floor - scale * each, edges, baseline=floor, fill=True, color=CLUSTER, alpha=0.35)
        ax.stairs(floor - scale * each, edges, baseline=floor, color=CLUSTER, linewidth=1.2)
    ax.set_xlim(edges[0], edges[-1])


def _counted(column: CategoricalColumn, codes: Array, labels: Labels) -> CategoricalColumn:
    """The shares of the levels among other rows."""
    K, T = len(column.shares) - 1, len(column.levels)
    present = codes < T
    cells = np.bincount(labels[present] * T + codes[present], minlength=K * T).reshape(K, T)
    return replace(column, shares=level_shares(np.vstack([cells, cells.sum(axis=0)])))


def _levels(ax: Axes, column: CategoricalColumn, chosen: Ints) -> None:
    """Bars of the shares of the most frequent levels, side by side; the others share one."""
    order = np.argsort(-column.shares[-1], kind="stable")
    shown = order if len(order) <= _MOST_LEVELS + 1 else order[:_MOST_LEVELS]
    rest = order[len(shown) :]
    if isinstance(column, OrderedColumn):
        shown = np.sort(shown)
    shares = column.shares[:, shown]
    names = distinct([column.texts[t] for t in shown], _LINE // (len(shown) + bool(len(rest))))
    names = [plain(name) for name in names]
    if len(rest):
        shares = np.column_stack([shares, column.shares[:, rest].sum(axis=1)])
        names.append(f"{len(rest)} others")
    for place, (of_clusters, of_table) in enumerate(zip(shares[chosen].T, shares[-1], strict=True)):
        rows = np.flatnonzero(~np.isnan(of_clusters))
        ax.barh(rows, np.full(len(rows), _BAR * of_table), left=place, height=0.82, color=TABLE)
        ax.barh(rows, _BAR * of_clusters[rows], left=place, height=0.44, color=CLUSTER)
        for row in rows:
            end = place + _BAR * max(float(of_clusters[row]), float(of_table))
            text = percent(float(of_clusters[row]))
            ax.annotate(
                text, (end, row), xytext=(2, 0), textcoords="offset points", va="center", fontsize=_FONT - 1.5
            )
        ax.axvline(place, color="0.8", linewidth=0.8)
    ax.set_xlim(0, len(names))
    ax.set_xticks(np.arange(len(names)) + 0.02, names, fontsize=_FONT, ha="left")
    ax.xaxis.tick_top()
    ax.tick_params(axis="x", length=0)
    ax.spines["bottom"].set_visible(False)


def _legend(ax: Axes, column: NumericColumn | CategoricalColumn, without_rows: bool) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    above = isinstance(column, NumericColumn)  # names of levels are above the others
    intervals = above and without_rows
    point = Line2D([], [], color=CLUSTER, marker="o", markersize=4)
    labels = ["cluster: mean ± sd", "whole table: mean ± sd"] if intervals else ["cluster", "whole table"]
    ax.legend(
        [point if intervals else Patch(color=CLUSTER), Patch(color=TABLE)],
        labels,
        ncols=2,
        loc="lower right" if above else "upper right",
        bbox_to_anchor=(1, 1 if above else 0),
        frameon=False,
        fontsize=_FONT,
        borderaxespad=0.2,
    )
