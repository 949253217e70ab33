"""What every number of clusters saves, and what clusters save by chance."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from sklearn.utils.validation import check_is_fitted

from craftc._common.merge_path import objectives_of
from craftc.craft.answers.path import NullTest
from craftc.craft.estimator import CRAFT
from craftc.describe.words import count, nats, plural
from craftc.plot.cluster_view import CLUSTER, TABLE, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SIZE = 5.2, 3.2  # inches
_FONT = 8.0


def path(model: CRAFT, null_test: NullTest | None = None, *, ax: Axes | None = None) -> Axes:
    """Draw the nats that every number of clusters on the merge path saves over one cluster.

    The curve rises as long as clusters pay for themselves; where it bends, further ones add little. The dot
    is the number of clusters of the model. The band shows what clusters save in tables with permuted columns,
    hence by chance.

    Parameters
    ----------
    model : CRAFT
        Fitted under the automatic price.
    null_test : NullTest, optional
        The result of ``model.null_test(X)``, which draws the band. If its tables are samples, their savings
        are multiplied up to the rows of the fit.
    ax : matplotlib Axes, optional
        Where to draw; None: a new figure.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    TypeError, ValueError
        The model is no CRAFT, has no merge path, or the null test is of other clusters.

    Examples
    --------
    >>> from craftc import CRAFT, plot
    >>> from sklearn.datasets import load_wine
    >>> wine = load_wine().data
    >>> model = CRAFT(random_state=0).fit(wine)
    >>> ax = plot.path(model, model.null_test(wine, n=3))
    >>> ax.texts[0].get_text().split(":")[0], ax.get_legend().texts[0].get_text()
    ('3 clusters', '3 tables with permuted columns')
    """
    if not isinstance(model, CRAFT):
        raise TypeError(f"plot.path draws the merge_path_ of CRAFT; {type(model).__name__} has none.")
    check_is_fitted(model)
    objectives = sorted(objectives_of(model.merge_path_))
    if not objectives:
        raise ValueError(
            "plot.path needs a merge path, which a fit has where the number of clusters is estimated."
        )
    if null_test is not None:
        _check(null_test, model)
    K = np.array([n_clusters for n_clusters, _ in objectives])
    saved = objectives[0][1] - np.array([objective for _, objective in objectives])
    ax = new_figure(_SIZE).add_subplot() if ax is None else ax
    from matplotlib.ticker import MaxNLocator

    if null_test is not None:
        _band(ax, null_test, float(model.cluster_sizes_.sum()))
    ax.plot(K, saved, color=CLUSTER, linewidth=1.6, marker="o", markersize=3.5, label="this table")
    chosen = int(np.searchsorted(K, model.n_clusters_))
    ax.plot(K[chosen], saved[chosen], "o", color=CLUSTER, markersize=9, markeredgecolor="white")
    ax.annotate(
        f"{plural(int(K[chosen]), 'cluster')}: {nats(float(saved[chosen]))} nats",
        (float(K[chosen]), float(saved[chosen])),
        xytext=(0, 8),
        textcoords="offset points",
        ha="right" if 2 * chosen >= len(K) else "left",
        fontsize=_FONT,
        color=CLUSTER,
    )
    ax.margins(x=0.04, y=0.14)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    ax.yaxis.set_major_formatter("{x:,.12g}")
    ax.set_xlabel("number of clusters", fontsize=_FONT)
    ax.set_ylabel("nats saved over one cluster", fontsize=_FONT)
    ax.tick_params(labelsize=_FONT)
    ax.spines[["top", "right"]].set_visible(False)
    if null_test is not None:
        ax.legend(frameon=False, fontsize=_FONT, loc="lower left", bbox_to_anchor=(0, 1), borderaxespad=0.2)
    return ax


def _check(null_test: NullTest, model: CRAFT) -> None:
    if not isinstance(null_test, NullTest):
        raise TypeError(
            f"null_test must be the result of model.null_test(X), got a {type(null_test).__name__}."
        )
    if not null_test.sampled and null_test.n_clusters != model.n_clusters_:
        raise ValueError(
            f"The model has {model.n_clusters_} clusters, null_test is of {null_test.n_clusters}; pass the "
            "null test of this model."
        )


def _band(ax: Axes, null_test: NullTest, n_rows: float) -> None:
    """The range of the savings of tables without structure."""
    label, times = plural(len(null_test.null_savings), "table") + " with permuted columns", 1.0
    if null_test.sampled:
        label += f", from samples of {count(null_test.n_rows)} rows"
        times = n_rows / null_test.n_rows
    low, high = times * float(null_test.null_savings.min()), times * float(null_test.null_savings.max())
    # the edge shows a band of no height
    ax.axhspan(low, high, facecolor=TABLE, edgecolor=TABLE, linewidth=3.0, label=label, zorder=0)
