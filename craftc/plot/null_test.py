"""Savings of the clusters of a table, and of tables with permuted columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from craftc.craft.answers.path import NullTest
from craftc.describe.words import nats, number, plural
from craftc.plot.cluster_view import CLUSTER, TABLE_LINE, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SIZE = 5.2, 1.6  # inches
_FONT = 8.0


def null_test(result: NullTest, *, ax: Axes | None = None) -> Axes:
    """Draw what the clusters of a table save, and what clusters of tables with permuted columns save.

    Parameters
    ----------
    result : NullTest
        What ``CRAFT.null_test`` returns.
    ax : matplotlib Axes, optional
        Where to draw; None: a new figure.

    Returns
    -------
    matplotlib Axes
        A dot for every table, equal ones above each other; the line is the saving in the table itself.

    Examples
    --------
    >>> from craftc import CRAFT, plot
    >>> from craftc.datasets import load_heart
    >>> heart = load_heart().data
    >>> result = CRAFT(random_state=0).fit(heart).null_test(heart, n=4)
    >>> [text.get_text() for text in plot.null_test(result).texts]
    ['2 clusters: 107 nats']
    """
    if not isinstance(result, NullTest):
        raise TypeError(f"plot.null_test draws the result of CRAFT.null_test, got a {type(result).__name__}.")
    ax = new_figure(_SIZE).add_subplot() if ax is None else ax
    values = np.sort(result.null_savings)
    span = float(max(values[-1], result.saving, 0.0) - min(values[0], result.saving, 0.0)) or 1.0
    column = np.rint(60 * values / span)  # dots of one column touch
    first = np.searchsorted(column, column)
    ax.scatter(column * span / 60, np.arange(len(values)) - first, s=16, color=TABLE_LINE)
    ax.axvline(result.saving, color=CLUSTER, linewidth=2.0)
    text = f"{plural(result.n_clusters, 'cluster')}: {nats(result.saving)} nats"
    ax.annotate(
        text,
        (result.saving, 1),
        xycoords=("data", "axes fraction"),
        xytext=(0, 2),
        textcoords="offset points",
        ha="right" if result.saving > values.mean() else "left",
        fontsize=_FONT,
        color=CLUSTER,
    )
    ax.margins(x=0.05)
    ax.set_ylim(-0.8, max(float((np.arange(len(values)) - first).max()) + 1.0, 3.0))
    tables = plural(len(values), "table")
    ax.set_xlabel(
        f"nats saved over one cluster; dots: {tables} with permuted columns; p = {number(result.p_value)}",
        fontsize=_FONT,
    )
    ax.tick_params(axis="x", labelsize=_FONT)
    ax.xaxis.set_major_formatter("{x:,.12g}")
    ax.set_yticks([])
    ax.spines[["left", "top", "right"]].set_visible(False)
    return ax
