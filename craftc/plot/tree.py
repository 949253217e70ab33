"""The tree of the merges of covariates along a regularization path."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from craftc._common.typing import Floats, Ints
from craftc._common.validation import check_number
from craftc.plot.figures import new_figure
from craftc.plot.tree_layout import Node, build_tree, nested, subtree

_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")  # a palette for colour-blind readers
_STYLES: tuple[Literal["-", "--", ":"], ...] = ("-", "--", ":")  # for more classes than colours
_NO_CLASS = "0.6"  # colour of clusters whose coefficients are zero
_FEW = 12  # number of leaves up to which every cluster has its odds ratio
_WIDTH, _ROW, _AROUND = 7.5, 0.175, 1.4  # inches: width of the figure, height of a leaf, height above and below the tree
_FONT = 8.0  # points
_FILL = 0.75  # height of the letters relative to a row
_STUB = 0.03  # of the width: branches extend beyond the ends of the path
_ROOM = 0.1  # of the width, right of the largest penalty
_LONG = 32  # characters of a name
_LINE = 100  # characters of a line of the legend
_DASHED = (0, (4, 3))
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
    """Draw the tree of a regularization path: the fusion penalty at which covariates merge.

    The leaves are covariates. Two branches meet at the smallest penalty at which their covariates form one cluster; they meet at the left
    edge if they are one cluster on the whole path. Branches that never meet are not connected by similarities. The colour of a branch is
    the class with the largest coefficient of its cluster (grey: all coefficients are zero); the colour of a name is that of its chosen
    cluster.

    The vertical line is the chosen penalty. The numbers at the line are the odds ratios of the chosen clusters for one unit of a covariate,
    computed from `coef_`: exp(b_1 - b_0) for two classes; for more, the class of the cluster against the mean of the others. Choose units
    that are meaningful. In trees of up to twelve leaves the other clusters have odds ratios in italics, from the coefficients on the path,
    which the penalty shrinks.

    On a path, separated covariates may merge again at a smaller penalty. A tree cannot represent this, so they stay separate. The chosen
    clusters are exact: at larger penalties each is kept together, in the cluster that contains most of its members.

    Parameters
    ----------
    model : ConvexCovariateClustering
        Fitted with a path of penalties.
    names : sequence of str, optional
        A name for every covariate; None: column names, or numbers.
    only : int, str or sequence of them, optional
        Numbers or names of covariates: draw the smallest subtree that contains their chosen clusters.
    of_class : a class, optional
        Draw only covariates whose chosen cluster has its largest coefficient for this class.
    leaves : int, default=60
        Maximum number of leaves. Covariates in `only` come first, then the largest in `coef_`, then those at the smallest penalty.
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
    if not hasattr(model, "covariate_labels_") or not hasattr(model, "_points"):
        raise TypeError(f"plot.fusion_tree draws the path of ConvexCovariateClustering; {type(model).__name__} has none.")
    if len(model._points) < 2:
        raise ValueError("plot.fusion_tree needs a path, but the model has one penalty; fit it with a decreasing array as fusion_penalty.")
    check_number("leaves", leaves, least=1, whole=True)
    d, classes = model.coef_.shape[1], [str(name) for name in model.classes_]
    labels = _names(model, names, d)
    path = FusionPath(model)
    requested = None if only is None else _positions(only, labels)
    shown, total = path.leaves(requested, _class_index(model.classes_, of_class), leaves)
    if total == 0:
        where = " of this subtree" if only is not None else ""
        raise ValueError(f"No chosen cluster{where} has its largest coefficient for of_class={of_class!r}; pass another class or None.")
    if axes is None:
        axes = new_figure((_WIDTH, _AROUND + _ROW * max(len(shown), 4))).add_subplot()
    _draw(axes, path, shown, total, labels, classes)
    return axes


class FusionPath:
    """The path of a fitted model as nested partitions, with the coefficients and the class of every covariate."""

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
        candidate = np.ones(self.levels.shape[1], bool) if requested is None else subtree(self.levels, requested, self.chosen)
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


def _draw(axes: Any, path: FusionPath, shown: Ints, total: int, names: Sequence[str], classes: Sequence[str]) -> None:
    """Draw the tree: leaves on the left, larger penalties on the right."""
    from matplotlib.collections import LineCollection
    from matplotlib.patheffects import withStroke

    nodes = build_tree(path.levels, shown, path.refit @ np.arange(len(classes), dtype=np.float64))
    place, low, high = _positions_of_penalties(path, nodes)
    font = _font(axes, len(shown))
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
        LineCollection(lines, colors=[_colour(k) for k in of_line], linestyles=[_style(k) for k in of_line], linewidths=1.3, zorder=2)
    )
    axes.axvline(place[path.chosen], color="0.45", linewidth=1.0, linestyle=_DASHED, zorder=1)
    order = [int(node.members[0]) for node in nodes if len(node.members) == 1]
    axes.set(xscale="log", xlim=(low, high), ylim=(len(order) - 0.4, -0.8))
    axes.set_xlabel("fusion penalty ν at which covariates merge", fontsize=_FONT)
    _name_leaves(axes, [names[i] for i in order], path.of_class[order], font)
    if path.penalties[-1] == 0:
        _mark_zero(axes, place, high)
    axes.tick_params(axis="x", labelsize=_FONT)
    axes.spines[["left", "top", "right"]].set_visible(False)
    _legend(axes, classes, set(of_line) | set(path.of_class[order].tolist()), path, len(shown), total)


def _colour(k: int) -> str:
    return _NO_CLASS if k < 0 else _COLOURS[k % len(_COLOURS)]


def _style(k: int) -> Literal["-", "--", ":"]:
    return _STYLES[max(k, 0) // len(_COLOURS) % len(_STYLES)]


def _positions_of_penalties(path: FusionPath, nodes: Sequence[Node]) -> tuple[Floats, float, float]:
    """Positions of the penalties on the logarithmic axis, and its limits; nu = 0 is one step left of the others.

    The axis ends where a single root starts, or at the chosen penalty if that is larger.
    """
    penalties = path.penalties
    some = penalties[penalties > 0]
    place = np.where(penalties > 0, penalties, some[-1] / max(float(some[0] / some[-1]) ** _ROOM, 2.0))
    last = 0 if sum(node.parent < 0 for node in nodes) > 1 else min(nodes[0].point, path.chosen)
    span = max(float(place[last] / place[-1]), 10.0)
    return place, float(place[-1] / span**_STUB), float(place[last] * span**_ROOM)


def _font(axes: Any, rows: int) -> float:
    """Font size in points that fits the height of a row."""
    height = axes.get_position().height * axes.figure.bbox.height / axes.figure.dpi * 72
    return float(np.clip(_FILL * height / rows, 2.0, _FONT))


def _name_leaves(axes: Any, names: Sequence[str], of_class: Ints, font: float) -> None:
    short = [name if len(name) <= _LONG else name[: _LONG - 1] + "…" for name in names]
    axes.set_yticks(range(len(names)), [name.replace("$", r"\$") for name in short], fontsize=font)
    for label, k in zip(axes.get_yticklabels(), of_class, strict=True):
        label.set_color(_colour(int(k)))
    axes.tick_params(axis="y", length=0, pad=2)


def _mark_zero(axes: Any, place: Floats, high: float) -> None:
    """Label the tick of the penalty 0 as 0, although its position on the logarithmic axis is positive."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullLocator

    ticks = [tick for tick in LogLocator().tick_values(place[-2], high) if place[-2] / 1.01 <= tick <= high]
    axes.xaxis.set_major_locator(FixedLocator([place[-1], *ticks]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: "0" if x < place[-2] / 1.01 else f"$10^{{{round(math.log10(x))}}}$"))


def _legend(axes: Any, classes: Sequence[str], used: set[int], path: FusionPath, shown: int, total: int) -> None:
    """Explain the classes, the line and the numbers above the tree."""
    from matplotlib.lines import Line2D

    handles = [Line2D([], [], color=_colour(k), linestyle=_style(k), linewidth=2, label=classes[k]) for k in sorted(used - {-1})]
    if -1 in used:
        handles.append(Line2D([], [], color=_NO_CLASS, linewidth=2, label="no class: coefficients 0"))
    K = int(path.levels[path.chosen].max()) + 1
    label = f"chosen: ν = {path.penalties[path.chosen]:.3g}, {K} cluster{'' if K == 1 else 's'}"
    handles.append(Line2D([], [], color="0.45", linewidth=1, linestyle=_DASHED, label=label))
    against = f", {classes[1]} against {classes[0]}" if len(classes) == 2 else " of the class against the others"
    notes = [f"Numbers at the line: odds ratios{against}" + ("; in italics: from shrunk coefficients" if shown <= _FEW else "")]
    if shown < total:
        notes.insert(0, f"The {shown} strongest of {total} covariates")
    long = [len(str(handle.get_label())) + 9 for handle in handles]  # 9: the line in front of the label
    axes.legend(
        handles=handles,
        loc="lower left",
        bbox_to_anchor=(0, 1),
        ncols=len(handles) if sum(long) <= _LINE else max(1, _LINE // max(long)),
        frameon=False,
        fontsize=_FONT,
        title="\n".join(notes),
        title_fontsize=_FONT,
        alignment="left",
        borderaxespad=0.2,
    )


# ---- arguments ----


def _names(model: Any, names: Sequence[str] | None, d: int) -> list[str]:
    """A name for every covariate."""
    labels = [str(name) for name in (getattr(model, "feature_names_in_", range(d)) if names is None else names)]
    if len(labels) != d:
        raise ValueError(f"names must have one name per covariate ({d}), got {len(labels)}.")
    return labels


def _positions(only: int | str | Sequence[int | str], names: Sequence[str]) -> Ints:
    """Positions of the covariates in `only`."""
    requested = list(only) if isinstance(only, Iterable) and not isinstance(only, str) else [only]
    if not requested:
        raise ValueError("only must name at least one covariate, got none.")
    found: list[int] = []
    for one in requested:
        if isinstance(one, str):
            places = [i for i, name in enumerate(names) if name == one]
        elif isinstance(one, (int, np.integer)) and not isinstance(one, bool):
            places = [int(one)] if 0 <= one < len(names) else []
        else:
            raise TypeError(f"only must contain names or numbers of covariates, got {one!r}.")
        if not places:
            raise ValueError(f"only contains the unknown covariate {one!r}; the model has {len(names)}, the first is {names[0]!r}.")
        found += places
    return np.unique(found)


def _class_index(classes: NDArray[Any], of_class: Any) -> int | None:
    """Position of a class in `classes_`."""
    if of_class is None:
        return None
    known: list[Any] = classes.tolist()
    if of_class not in known:
        raise ValueError(f"of_class must be a class of the model, got {of_class!r}; the classes are {', '.join(map(repr, known))}.")
    return known.index(of_class)
