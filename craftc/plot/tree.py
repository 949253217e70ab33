"""The tree of the merges of covariates along a regularization path."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from craftc._common.typing import Floats, Ints
from craftc._common.validation import check_number
from craftc.convex.estimator import ConvexClustering
from craftc.covariates.estimator import ConvexCovariateClustering
from craftc.plot.figures import new_figure
from craftc.plot.rows_tree import rows_tree
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
from craftc.plot.tree_layout import Node, build_tree, nested, subtree

_COLOURS = (
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#CC79A7",
    "#E69F00",
    "#56B4E9",
    "#000000",
)  # a palette for colour-blind readers
_STYLES: tuple[Literal["-", "--", ":"], ...] = ("-", "--", ":")  # for more classes than colours
_NO_CLASS = "0.6"  # colour of clusters whose coefficients are zero
_FEW = 12  # number of leaves up to which every cluster has its odds ratio
_LINE = 100  # characters of a line of the legend
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def fusion_tree(
    model: Any,
    *,
    names: Sequence[str] | None = None,
    only: int | str | Sequence[int | str] | None = None,
    of_class: Any = None,
    leaves: int = 60,
    axes: Any = None,
) -> Any:
    """Draw the tree of a regularization path: the fusion penalty at which covariates, or rows, merge.

    The leaves are covariates. Two branches meet at the smallest penalty at which their covariates form one
    cluster; they meet at the left edge if they are one cluster on the whole path. Branches that never meet
    are not connected by similarities. The colour of a branch is the class with the largest coefficient of its
    cluster (grey: all coefficients are zero); the colour of a name is that of its chosen cluster.

    The vertical line is the chosen penalty. The numbers at the line are the odds ratios of the chosen
    clusters for one unit of a covariate, computed from `coef_`: exp(b_1 - b_0) for two classes; for more, the
    class of the cluster against the mean of the others. Choose units that are meaningful. In trees of up to
    twelve leaves the other clusters have odds ratios in italics, from the coefficients on the path, which the
    penalty shrinks.

    On a path, separated covariates may merge again at a smaller penalty. A tree cannot represent this, so
    they stay separate. The chosen clusters are exact: at larger penalties each is kept together, in the
    cluster that contains most of its members.

    The tree of `ConvexClustering` has rows as leaves. A table of more than `leaves` rows has clusters as
    leaves: those at the smallest penalty with so few, or the largest of the chosen ones. Numbers at the line
    are the rows of the chosen clusters, and branches beyond it are thick.

    Parameters
    ----------
    model : ConvexCovariateClustering or ConvexClustering
        Fitted with a path of penalties.
    names : sequence of str, optional
        A name for every covariate or row; None: column names, or numbers.
    only : int, str or sequence of them, optional
        Numbers or names of covariates or rows: draw the smallest subtree that contains their chosen clusters.
    of_class : a class, optional
        Draw only covariates whose chosen cluster has its largest coefficient for this class.
    leaves : int, default=60
        Maximum number of leaves. Covariates in `only` come first, then the largest in `coef_`, then those at
        the smallest penalty.
    axes : matplotlib Axes, optional
        Where to draw; None: a new figure.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    TypeError
        The model has no path.
    ValueError
        The path has a single penalty, or a covariate or class does not exist.
    ImportError
        matplotlib is not installed.

    Examples
    --------
    >>> import numpy as np
    >>> from craftc import ConvexCovariateClustering, plot
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat(["ham", "spam"], 50)
    >>> X = rng.normal(size=(100, 4)) + (y == "spam")[:, None] * [0, 0, 2, 2]
    >>> model = ConvexCovariateClustering([100, 10, 1, 0.1], similarity=np.ones((4, 4))).fit(X, y)
    >>> axes = plot.fusion_tree(model, names=["the", "and", "prize", "winner"], of_class="spam")
    >>> sorted(label.get_text() for label in axes.get_yticklabels())
    ['prize', 'winner']
    """
    check_is_fitted(model)
    rows = isinstance(model, ConvexClustering)
    if not rows and not isinstance(model, ConvexCovariateClustering):
        kinds = "ConvexCovariateClustering and ConvexClustering"
        raise TypeError(f"plot.fusion_tree draws the path of {kinds}; {type(model).__name__} has none.")
    if len(model._points) < 2:
        raise ValueError(
            "plot.fusion_tree needs a path, but the model has one penalty; fit it with a decreasing array "
            "as fusion_penalty."
        )
    check_number("leaves", leaves, least=1, whole=True)
    if rows:
        if of_class is not None:
            raise ValueError(
                "of_class is for ConvexCovariateClustering; the rows of ConvexClustering have no class, "
                f"got {of_class!r}."
            )
        return rows_tree(model, names, only, leaves, axes)
    d, classes = model.coef_.shape[1], [str(name) for name in model.classes_]
    labels = names_of(
        getattr(model, "feature_names_in_", range(d)) if names is None else names, d, "covariate"
    )
    path = FusionPath(model)
    requested = None if only is None else positions_in(only, labels, "covariate")
    shown, total = path.leaves(requested, _class_index(model.classes_, of_class), leaves)
    if total == 0:
        where = " of this subtree" if only is not None else ""
        raise ValueError(
            f"No chosen cluster{where} has its largest coefficient for of_class={of_class!r}; pass another "
            "class or None."
        )
    if axes is None:
        axes = new_figure((WIDTH, AROUND + ROW * max(len(shown), 4))).add_subplot()
    _draw(axes, path, shown, total, labels, classes)
    return axes


class FusionPath:
    """The path of a fitted model as nested partitions, with the coefficients and the class of every
    covariate.
    """

    def __init__(self, model: Any) -> None:
        self.points = model._points
        self.penalties = np.array([point.fusion_penalty for point in self.points])
        self.chosen = int(np.argmin(np.abs(self.penalties - model.fusion_penalty_)))
        self.levels = nested(np.array([point.labels for point in self.points]), self.chosen)
        everyone = np.arange(self.levels.shape[1])
        # coef_ comes from a refit without zeros; the penalized optimum says which clusters are zero
        zero = (self.of_path(self.chosen, everyone) == 0).all(axis=1)
        self.refit = np.where(zero[:, None], 0.0, model.coef_.T)
        self.of_class = _dominant_class(self.refit)
        self.strength = np.abs(self.refit).max(axis=1), np.abs(self.of_path(-1, everyone)).max(axis=1)

    def of_path(self, t: int, members: Ints) -> Floats:
        """Coefficients (members, c) at a point of the path."""
        return np.asarray(self.points[t].coefficients[self.points[t].labels[members]])

    def of_node(self, node: Node, parent: Node | None) -> tuple[Floats, bool]:
        """Coefficients (c,) of a node, and whether it is a chosen cluster."""
        if (parent is None or parent.point < self.chosen) and self.chosen <= node.point:
            return self.refit[node.members[0]], True
        return self.of_path(node.point, node.members).mean(axis=0), False

    def leaves(self, requested: Ints | None, class_index: int | None, most: int) -> tuple[Ints, int]:
        """Covariates to draw, at most `most` of the strongest, and the number of candidates."""
        candidate = (
            np.ones(self.levels.shape[1], bool)
            if requested is None
            else subtree(self.levels, requested, self.chosen)
        )
        if class_index is not None:
            candidate &= self.of_class == class_index
        candidates = np.flatnonzero(candidate)
        first = np.isin(candidates, [] if requested is None else requested)
        strongest = np.lexsort((-self.strength[1][candidates], -self.strength[0][candidates], ~first))
        return np.sort(candidates[strongest[:most]]), len(candidates)


def _dominant_class(coefficients: Floats) -> Ints:
    """Class of the largest coefficient in every row, -1 where all are zero."""
    return np.where((coefficients != 0).any(axis=1), coefficients.argmax(axis=1), -1)


def odds_ratio(b: Floats) -> str:
    """Odds ratio of a cluster as text: two digits, or one digit and a power of ten.

    It is exp(b_1 - b_0) for two classes; for more, the largest coefficient against the mean of the others.
    """
    k = 1 if len(b) == 2 else int(b.argmax())
    log = float(b[k] - np.delete(b, k).mean()) / math.log(10.0)
    if -2.0 <= log < 4.0:
        return f"{float(f'{10.0**log:.2g}'):g}"
    digit, power = f"{10.0 ** (log - math.floor(log)):.0f}", math.floor(log)
    if digit == "10":
        digit, power = "1", power + 1
    return f"{digit}·10{str(power).translate(_RAISED)}"


def _draw(
    axes: Any, path: FusionPath, shown: Ints, total: int, names: Sequence[str], classes: Sequence[str]
) -> None:
    """Draw the tree: leaves on the left, larger penalties on the right."""
    from matplotlib.collections import LineCollection
    from matplotlib.patheffects import withStroke

    nodes = build_tree(path.levels, shown, path.refit @ np.arange(len(classes), dtype=np.float64))
    place, low, high = positions_of_penalties(path, nodes)
    font = font_of(axes, len(shown))
    lines: list[list[tuple[float, float]]] = []
    of_line: list[int] = []
    parts: list[list[float]] = [[] for _ in nodes]
    for node in nodes:
        if node.parent >= 0:
            parts[node.parent].append(node.height)
    for node, heights in zip(nodes, parts, strict=True):
        parent = nodes[node.parent] if node.parent >= 0 else None
        b, chosen = path.of_node(node, parent)
        own = int(_dominant_class(b[None])[0])
        start = place[node.point] if heights else low
        lines.append([(start, node.height), (high if parent is None else place[parent.point], node.height)])
        of_line.append(own)
        if heights:
            lines.append([(start, min(heights)), (start, max(heights))])
            of_line.append(own)
        if own >= 0 and (chosen or (heights and len(shown) <= _FEW)):
            axes.annotate(
                odds_ratio(b),
                (place[path.chosen] if chosen else start, node.height),
                xytext=(3, 0.8),
                textcoords="offset points",
                va="bottom",
                fontsize=font - 1,
                style="normal" if chosen else "italic",
                color=_colour(own),
                path_effects=[withStroke(linewidth=1.5, foreground="white")],
                zorder=4,
            )
    axes.add_collection(
        LineCollection(
            lines,
            colors=[_colour(k) for k in of_line],
            linestyles=[_style(k) for k in of_line],
            linewidths=1.3,
            zorder=2,
        )
    )
    axes.axvline(place[path.chosen], color="0.45", linewidth=1.0, linestyle=DASHED, zorder=1)
    order = [int(node.members[0]) for node in nodes if len(node.members) == 1]
    axes.set(xscale="log", xlim=(low, high))
    axes.set_xlabel("fusion penalty ν at which covariates merge", fontsize=FONT)
    name_leaves(axes, [names[i] for i in order], font)
    for label, k in zip(axes.get_yticklabels(), path.of_class[order], strict=True):
        label.set_color(_colour(int(k)))
    if path.penalties[-1] == 0:
        mark_zero(axes, place, high)
    axes.tick_params(axis="x", labelsize=FONT)
    axes.spines[["left", "top", "right"]].set_visible(False)
    _legend(axes, classes, set(of_line) | set(path.of_class[order].tolist()), path, len(shown), total)


def _colour(k: int) -> str:
    return _NO_CLASS if k < 0 else _COLOURS[k % len(_COLOURS)]


def _style(k: int) -> Literal["-", "--", ":"]:
    return _STYLES[max(k, 0) // len(_COLOURS) % len(_STYLES)]


def _legend(
    axes: Any, classes: Sequence[str], used: set[int], path: FusionPath, shown: int, total: int
) -> None:
    """Explain the classes, the line and the numbers above the tree."""
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], color=_colour(k), linestyle=_style(k), linewidth=2, label=classes[k])
        for k in sorted(used - {-1})
    ]
    if -1 in used:
        handles.append(Line2D([], [], color=_NO_CLASS, linewidth=2, label="no class: coefficients 0"))
    K = int(path.levels[path.chosen].max()) + 1
    label = f"chosen: ν = {path.penalties[path.chosen]:.3g}, {K} cluster{'' if K == 1 else 's'}"
    handles.append(Line2D([], [], color="0.45", linewidth=1, linestyle=DASHED, label=label))
    against = (
        f", {classes[1]} against {classes[0]}" if len(classes) == 2 else " of the class against the others"
    )
    notes = [
        f"Numbers at the line: odds ratios{against}"
        + ("; in italics: from shrunk coefficients" if shown <= _FEW else "")
    ]
    if shown < total:
        notes.insert(0, f"The {shown} strongest of {total} covariates")
    long = [len(str(handle.get_label())) + 9 for handle in handles]  # 9: the line in front of the label
    axes.legend(
        handles=handles,
        loc="lower left",
        bbox_to_anchor=(0, 1),
        ncols=len(handles) if sum(long) <= _LINE else max(1, _LINE // max(long)),
        frameon=False,
        fontsize=FONT,
        title="\n".join(notes),
        title_fontsize=FONT,
        alignment="left",
        borderaxespad=0.2,
    )


# ---- arguments ----


def _class_index(classes: NDArray[Any], of_class: Any) -> int | None:
    """Position of a class in `classes_`."""
    if of_class is None:
        return None
    known: list[Any] = classes.tolist()
    if of_class not in known:
        raise ValueError(
            f"of_class must be a class of the model, got {of_class!r}; the classes are "
            f"{', '.join(map(repr, known))}."
        )
    return known.index(of_class)
