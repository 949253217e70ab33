"""How far every cluster comes back in refits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from craftc.craft.answers.stability import Stability
from craftc.craft.base import CraftBase
from craftc.describe.structure import FIRM
from craftc.describe.words import plural
from craftc.plot.cluster_view import CLUSTER, TABLE_LINE, DrawnClusters, inches, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_WIDTH, _ROW, _AROUND = 4.2, 0.26, 0.9  # inches: width of the axes, height of a cluster, height around them
_FONT = 8.0
_SPREAD = 0.26  # of a line, over which dots are spread


def stability(result: Stability, model: CraftBase | None = None, *, ax: Axes | None = None) -> Axes:
    """Draw the overlaps of every cluster with the most similar cluster of every refit.

    A small dot is a refit on 80 % of the rows, a large one the mean. The dashed line is at .75, from which a
    refit counts as having found the cluster.

    Parameters
    ----------
    result : Stability
        What ``model.stability(X)`` returns.
    model : CRAFT, optional
        The model of the result, whose clusters it names and sorts, the largest first. None: numbers.
    ax : matplotlib Axes, optional
        Where to draw; None: a new figure.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    TypeError, ValueError
        The result is none of ``model.stability(X)``, or the model has another number of clusters.

    Examples
    --------
    >>> from craftc import CRAFT, plot
    >>> from craftc.datasets import load_heart
    >>> heart = load_heart().data
    >>> result = CRAFT(random_state=0).fit(heart).stability(heart, n=4, n_seeds=0)
    >>> [label.get_text() for label in plot.stability(result).get_yticklabels()]
    ['cluster 0', 'cluster 1']
    """
    if not isinstance(result, Stability):
        raise TypeError(
            f"plot.stability draws the result of model.stability(X), got a {type(result).__name__}."
        )
    n, K = result.overlap.shape
    order, labels = np.arange(K), [f"cluster {k}" for k in range(K)]
    if model is not None:
        drawn = DrawnClusters(model, "stability")
        order = drawn.view.order
        if len(order) != K:
            raise ValueError(f"The model has {len(order)} clusters, the stability is of {K}.")
        labels = [drawn.labels[k] for k in order]
    if ax is None:
        ax = new_figure((_WIDTH + inches(labels), _AROUND + _ROW * max(K, 2))).add_subplot()
    ax.axvline(FIRM, color=TABLE_LINE, linewidth=1.0, linestyle="--")
    overlap = result.overlap[:, order].T  # of refits that have a row of the cluster
    lines = np.arange(K)[:, None] + np.linspace(-_SPREAD, _SPREAD, n) * (n > 1)
    known = ~np.isnan(overlap)
    ax.scatter(overlap[known], lines[known], s=9.0, color=TABLE_LINE, linewidths=0)
    ax.scatter(result.mean[order], range(K), s=42.0, color=CLUSTER, edgecolor="white", zorder=3)
    ax.set_yticks(range(K), labels, fontsize=_FONT)
    ax.set(xlim=(-0.02, 1.02), ylim=(K - 0.4, -0.6))
    ax.set_xlabel(
        f"overlap (Jaccard) in {plural(n, 'refit')} on 80 % of the rows", fontsize=_FONT, loc="left"
    )
    ax.tick_params(axis="x", labelsize=_FONT)
    ax.tick_params(axis="y", length=0)
    ax.spines[["left", "top", "right"]].set_visible(False)
    return ax
