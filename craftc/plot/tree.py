"""The tree of the merges of covariates, or rows, along a regularization path."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np
from sklearn.utils.validation import check_is_fitted

from craftc._common.typing import Floats, Ints
from craftc._common.validation import check_number
from craftc.convex.estimator import ConvexClustering
from craftc.covariates.estimator import ConvexCovariateClustering
from craftc.plot.cluster_view import CLUSTER, new_figure
from craftc.plot.tree_layout import (
    AROUND,
    FONT,
    ROW,
    WIDTH,
    BranchLabel,
    FusionBranch,
    Node,
    build_tree,
    draw_legend,
    draw_tree,
    is_chosen,
    leaves_of,
    names_of,
    nested,
    positions_in,
    subtree,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# a palette for colour-blind readers
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_STYLES: tuple[Literal["-", "--", ":"], ...] = ("-", "--", ":")  # for more classes than colours
_NO_CLASS = "0.6"  # colour of clusters whose coefficients are zero
_FEW = 12  # number of leaves up to which every cluster has its odds ratio
_THICK, _THIN = 2.0, 0.8  # points: branches of rows beyond the chosen penalty, and before it
_FINE = "#7C8590"  # colour of thin branches
Names: TypeAlias = Sequence[str] | None
Only: TypeAlias = int | str | Sequence[int | str] | None
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def fusion_tree(
    model: ConvexCovariateClustering | ConvexClustering,
    *,
    names: Names = None,
    only: Only = None,
    of_class: object = None,
    leaves: int = 60,
    ax: Axes | None = None,
) -> Axes:
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
    ax : matplotlib Axes, optional
        Where to draw; None: a new figure.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    ValueError
        The path has a single penalty, or a covariate or class does not exist.

    Examples
    --------
    >>> import numpy as np
    >>> from craftc import ConvexCovariateClustering, plot
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat(["ham", "spam"], 50)
    >>> X = rng.normal(size=(100, 4)) + (y == "spam")[:, None] * [0, 0, 2, 2]
    >>> model = ConvexCovariateClustering([100, 10, 1, 0.1], similarity=np.ones((4, 4))).fit(X, y)
    >>> ax = plot.fusion_tree(model, names=["the", "and", "prize", "winner"], of_class="spam")
    >>> sorted(label.get_text() for label in ax.get_yticklabels())
    ['prize', 'winner']
    """
    check_is_fitted(model)
    if not isinstance(model, ConvexClustering | ConvexCovariateClustering):
        kinds = "ConvexCovariateClustering and ConvexClustering"
        raise TypeError(f"plot.fusion_tree draws the path of {kinds}; {type(model).__name__} has none.")
    if len(model._points) < 2:
        raise ValueError(
            "plot.fusion_tree needs a path, but the model has one penalty; fit it with a decreasing array "
            "as fusion_penalty."
        )
    check_number("leaves", leaves, least=1, whole=True)
    if isinstance(model, ConvexClustering):
        if of_class is not None:
            reason = "the rows of ConvexClustering have no class"
            raise ValueError(f"of_class is for ConvexCovariateClustering; {reason}, got {of_class!r}.")
        return _rows_tree(model, names, only, leaves, ax)
    return _covariates_tree(model, names, only, of_class, leaves, ax)


def _new_axes(ax: Axes | None, leaves: int) -> Axes:
    return new_figure((WIDTH, AROUND + ROW * max(leaves, 4))).add_subplot() if ax is None else ax


# ---- covariates ----


class FusionPath:
    """The path as nested partitions, with the coefficients and the class of every covariate."""

    def __init__(self, model: ConvexCovariateClustering) -> None:
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
        if is_chosen(self, node, parent):
            return self.refit[node.members[0]], True
        return self.of_path(node.point, node.members).mean(axis=0), False

    def leaves(self, requested: Ints | None, class_index: int | None, most: int) -> tuple[Ints, int]:
        """Covariates to draw, at most `most` of the strongest, and the number of candidates."""
        candidate = subtree(self.levels, requested, self.chosen)
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
    """Odds ratio as text: exp(b_1 - b_0), or the largest coefficient against the mean of the others."""
    k = 1 if len(b) == 2 else int(b.argmax())
    log = float(b[k] - np.delete(b, k).mean()) / math.log(10.0)
    if -2.0 <= log < 4.0:
        return f"{float(f'{10.0**log:.2g}'):g}"
    digit, power = f"{10.0 ** (log - math.floor(log)):.0f}", math.floor(log)
    if digit == "10":
        digit, power = "1", power + 1
    return f"{digit}·10{str(power).translate(_RAISED)}"


def _covariates_tree(
    model: ConvexCovariateClustering,
    names: Names,
    only: Only,
    of_class: object,
    leaves: int,
    ax: Axes | None,
) -> Axes:
    known: list[object] = model.classes_.tolist()
    if of_class is not None and of_class not in known:
        raise ValueError(
            f"of_class must be a class of the model, got {of_class!r}; the classes are "
            f"{', '.join(map(repr, known))}."
        )
    class_index = None if of_class is None else known.index(of_class)
    d, classes = model.coef_.shape[1], [str(name) for name in model.classes_]
    given = getattr(model, "feature_names_in_", range(d)) if names is None else names
    labels = names_of(given, d, "covariate")
    path = FusionPath(model)
    shown, total = path.leaves(positions_in(only, labels, "covariate"), class_index, leaves)
    if total == 0 and class_index is not None:
        where = " of this subtree" if only is not None else ""
        raise ValueError(
            f"No chosen cluster{where} has its largest coefficient for of_class={known[class_index]!r}; pass "
            "another class or None."
        )
    ax = _new_axes(ax, len(shown))
    nodes = build_tree(path.levels, shown, path.refit @ np.arange(len(classes), dtype=np.float64))
    used = set(path.of_class[leaves_of(nodes)].tolist())

    def branch_of(node: Node, parent: Node | None, _: bool) -> FusionBranch:
        own = int(_dominant_class(path.of_node(node, parent)[0][None])[0])
        used.add(own)
        return FusionBranch(_colour(own), _style(own))

    def label_of(node: Node, parent: Node | None, parts: bool) -> BranchLabel | None:
        b, chosen = path.of_node(node, parent)
        own = int(_dominant_class(b[None])[0])
        if own < 0 or not (chosen or (parts and len(shown) <= _FEW)):
            return None
        return BranchLabel(odds_ratio(b), _colour(own), chosen)

    order = leaves_of(nodes)
    draw_tree(ax, path, nodes, [labels[i] for i in order], branch_of, label_of)
    ax.set_xlabel("fusion penalty ν at which covariates merge", fontsize=FONT)
    for label, k in zip(ax.get_yticklabels(), path.of_class[order], strict=True):
        label.set_color(_colour(int(k)))
    _explain_classes(ax, path, classes, used, len(shown), total)
    return ax


def _colour(k: int) -> str:
    return _NO_CLASS if k < 0 else _COLOURS[k % len(_COLOURS)]


def _style(k: int) -> Literal["-", "--", ":"]:
    return _STYLES[max(k, 0) // len(_COLOURS) % len(_STYLES)]


def _explain_classes(
    ax: Axes, path: FusionPath, classes: Sequence[str], used: set[int], shown: int, total: int
) -> None:
    """Explain the classes and the numbers above the tree."""
    from matplotlib.lines import Line2D

    names = {**dict(enumerate(classes)), -1: "no class: coefficients 0"}
    handles = [
        Line2D([], [], color=_colour(k), linestyle=_style(k), linewidth=2, label=names[k])
        for k in sorted(used, key=lambda k: k % len(names))  # -1 last
    ]
    two = len(classes) == 2
    against = f", {classes[1]} against {classes[0]}" if two else " of the class against the others"
    italics = "; in italics: from shrunk coefficients" if shown <= _FEW else ""
    notes = [f"The {shown} strongest of {total} covariates"] if shown < total else []
    draw_legend(ax, path, handles, "", [*notes, f"Numbers at the line: odds ratios{against}{italics}"])


# ---- rows ----


class RowsPath:
    """The path as nested partitions, of the subtree of the requested rows, cut off at `most` leaves."""

    def __init__(self, model: ConvexClustering, requested: Ints | None, most: int) -> None:
        points = model._points
        penalties: Floats = np.array([point.fusion_penalty for point in points])
        self.chosen = int(np.argmin(np.abs(penalties - model.fusion_penalty_)))
        levels = nested(np.array([point.labels for point in points]), self.chosen)
        inside = np.flatnonzero(subtree(levels, requested, self.chosen))
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


def _rows_tree(model: ConvexClustering, names: Names, only: Only, leaves: int, ax: Axes | None) -> Axes:
    n = len(model.labels_)
    labels = names_of(range(n) if names is None else names, n, "row")
    path = RowsPath(model, positions_in(only, labels, "row"), leaves)
    ax = _new_axes(ax, len(path.shown))
    size = dict(zip(path.shown.tolist(), path.sizes.tolist(), strict=True))
    nodes = build_tree(path.levels, path.shown, np.arange(path.levels.shape[1], dtype=np.float64))

    def branch_of(node: Node, parent: Node | None, joins: bool) -> FusionBranch:
        left = node if joins else parent
        beyond = left is None or left.point < path.chosen
        return FusionBranch(CLUSTER, width=_THICK) if beyond else FusionBranch(_FINE, width=_THIN)

    def label_of(node: Node, parent: Node | None, _: bool) -> BranchLabel | None:
        n_rows = sum(size[row] for row in node.members.tolist())
        return BranchLabel(f"{n_rows:,}", CLUSTER) if is_chosen(path, node, parent) else None

    rows = leaves_of(nodes)
    texts = [labels[i] if size[i] == 1 else f"{labels[i]} and {size[i] - 1:,} more" for i in rows]
    draw_tree(ax, path, nodes, texts, branch_of, label_of)
    ax.set_xlabel("fusion penalty ν at which rows merge", fontsize=FONT)
    drawn = len(path.shown)
    notes = [f"The {drawn} largest of {path.n_groups} clusters"] if drawn < path.n_groups else []
    draw_legend(ax, path, [], "; numbers at the line: their rows", notes)
    return ax
