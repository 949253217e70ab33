"""The picture of a fusion tree."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from craftc._common.typing import Floats, Ints
from craftc.plot.tree_layout import Node, nested, subtree, tree

_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")  # told apart by the colour-blind
_STYLES: tuple[Literal["-", "--", ":"], ...] = ("-", "--", ":")  # more classes than colours
_NOBODY = "0.6"  # the colour of coefficients of zero
_FEW = 12  # leaves up to which every cluster gets its odds ratio
_WIDTH, _ROW, _AROUND = 7.5, 0.175, 1.4  # inches: of the picture, of a leaf, of all above and below the tree
_FONT = 8.0  # points
_FILL = 0.75  # of a row is its letters
_STUB = 0.03  # of the width: branches go beyond the ends of the path
_ROOM = 0.1  # of the width, right of the largest penalty
_LONG = 32  # characters of a name
_LINE = 100  # characters of a line of the legend
_DASHED = (0, (4, 3))
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


class Reading:
    """What the picture says of a model: the tree's partitions, and of every covariate the coefficients and the class."""

    def __init__(self, model: Any) -> None:
        self.points = model._points
        self.penalties = np.array([point.fusion_penalty for point in self.points])
        self.chosen = int(np.argmin(np.abs(self.penalties - model.fusion_penalty_)))
        self.levels = nested(np.array([point.labels for point in self.points]), self.chosen)
        everyone = np.arange(self.levels.shape[1])
        # the refit, whose coefficients are the model's, knows no zeros; the optimum does
        zero = (self.of_path(self.chosen, everyone) == 0).all(axis=1)
        self.refit = np.where(zero[:, None], 0.0, model.coef_.T)
        self.of_class = speaks_for(self.refit)
        self.strength = np.abs(self.refit).max(axis=1), np.abs(self.of_path(-1, everyone)).max(axis=1)

    def of_path(self, t: int, members: Ints) -> Floats:
        """(members, c) coefficients at a point of the path."""
        return np.asarray(self.points[t].coefficients[self.points[t].labels[members]])

    def of_node(self, node: Node, parent: Node | None) -> tuple[Floats, bool]:
        """Coefficients (c,), and whether it is a chosen cluster."""
        if (parent is None or parent.point < self.chosen) and self.chosen <= node.point:
            return self.refit[node.members[0]], True
        return self.of_path(node.point, node.members).mean(axis=0), False

    def leaves(self, named: Ints | None, class_index: int | None, most: int) -> tuple[Ints, int]:
        """Covariates to show, the strongest if there are more than `most`; and how many there were."""
        among = np.ones(self.levels.shape[1], bool) if named is None else subtree(self.levels, named, self.chosen)
        if class_index is not None:
            among &= self.of_class == class_index
        some = np.flatnonzero(among)
        wanted = np.isin(some, [] if named is None else named)
        strongest = np.lexsort((-self.strength[1][some], -self.strength[0][some], ~wanted))
        return np.sort(some[strongest[:most]]), len(some)


def speaks_for(coefficients: Floats) -> Ints:
    """Class of the largest coefficient in every row, -1 where all are zero."""
    return np.where((coefficients != 0).any(axis=1), coefficients.argmax(axis=1), -1)


def odds_ratio(b: Floats) -> str:
    """exp(b_1 - b_0) of two classes; else of the class it speaks for against the others' mean. Two digits, or one and a power of ten."""
    k = 1 if len(b) == 2 else int(b.argmax())
    log = float(b[k] - np.delete(b, k).mean()) / math.log(10.0)
    if -2.0 <= log < 4.0:
        return f"{float(f'{10.0**log:.2g}'):g}"
    digit, power = f"{10.0 ** (log - math.floor(log)):.0f}", math.floor(log)
    if digit == "10":
        digit, power = "1", power + 1
    return f"{digit}·10{str(power).translate(_RAISED)}"


def draw(axes: Any, reading: Reading, shown: Ints, total: int, names: Sequence[str], classes: Sequence[str]) -> None:
    """The tree of the covariates shown; leaves left, larger penalties right."""
    from matplotlib.collections import LineCollection
    from matplotlib.patheffects import withStroke

    nodes = tree(reading.levels, shown, reading.refit @ np.arange(len(classes), dtype=np.float64))
    place, low, high = _places(reading, nodes)
    font = _font(axes, len(shown))
    lines: list[list[tuple[float, float]]] = []
    of_line: list[int] = []
    parts: list[list[float]] = [[] for _ in nodes]
    for node in nodes:
        if node.parent >= 0:
            parts[node.parent].append(node.height)
    for node, heights in zip(nodes, parts, strict=True):
        parent = nodes[node.parent] if node.parent >= 0 else None
        b, chosen = reading.of_node(node, parent)
        own = int(speaks_for(b[None])[0])
        start = place[node.point] if heights else low
        lines.append([(start, node.height), (high if parent is None else place[parent.point], node.height)])
        of_line.append(own)
        if heights:
            lines.append([(start, min(heights)), (start, max(heights))])
            of_line.append(own)
        if own >= 0 and (chosen or (heights and len(shown) <= _FEW)):
            axes.annotate(
                odds_ratio(b),
                (place[reading.chosen] if chosen else start, node.height),
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
    axes.axvline(place[reading.chosen], color="0.45", linewidth=1.0, linestyle=_DASHED, zorder=1)
    order = [int(node.members[0]) for node in nodes if len(node.members) == 1]
    axes.set(xscale="log", xlim=(low, high), ylim=(len(order) - 0.4, -0.8))
    axes.set_xlabel("fusion penalty ν from which on covariates are one cluster", fontsize=_FONT)
    _name_leaves(axes, [names[i] for i in order], reading.of_class[order], font)
    if reading.penalties[-1] == 0:
        _mark_zero(axes, place, high)
    axes.tick_params(axis="x", labelsize=_FONT)
    axes.spines[["left", "top", "right"]].set_visible(False)
    _legend(axes, classes, set(of_line) | set(reading.of_class[order].tolist()), reading, len(shown), total)


def _colour(k: int) -> str:
    return _NOBODY if k < 0 else _COLOURS[k % len(_COLOURS)]


def _style(k: int) -> Literal["-", "--", ":"]:
    return _STYLES[max(k, 0) // len(_COLOURS) % len(_STYLES)]


def _places(reading: Reading, nodes: Sequence[Node]) -> tuple[Floats, float, float]:
    """Where penalties stand on the logarithmic axis, and its ends. nu = 0 stands a step left of the others.

    Right of a single root's start there is nothing to see: no more of that is shown than the chosen penalty asks for.
    """
    penalties = reading.penalties
    some = penalties[penalties > 0]
    place = np.where(penalties > 0, penalties, some[-1] / max(float(some[0] / some[-1]) ** _ROOM, 2.0))
    last = 0 if sum(node.parent < 0 for node in nodes) > 1 else min(nodes[0].point, reading.chosen)
    span = max(float(place[last] / place[-1]), 10.0)
    return place, float(place[-1] / span**_STUB), float(place[last] * span**_ROOM)


def _font(axes: Any, rows: int) -> float:
    """Points of a letter that fits into a row."""
    height = axes.get_position().height * axes.figure.bbox.height / axes.figure.dpi * 72
    return float(np.clip(_FILL * height / rows, 2.0, _FONT))


def _name_leaves(axes: Any, names: Sequence[str], of_class: Ints, font: float) -> None:
    short = [name if len(name) <= _LONG else name[: _LONG - 1] + "…" for name in names]
    axes.set_yticks(range(len(names)), [name.replace("$", r"\$") for name in short], fontsize=font)
    for label, k in zip(axes.get_yticklabels(), of_class, strict=True):
        label.set_color(_colour(int(k)))
    axes.tick_params(axis="y", length=0, pad=2)


def _mark_zero(axes: Any, place: Floats, high: float) -> None:
    """The tick of the penalty 0 says so, not where it stands."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullLocator

    ticks = [tick for tick in LogLocator().tick_values(place[-2], high) if place[-2] / 1.01 <= tick <= high]
    axes.xaxis.set_major_locator(FixedLocator([place[-1], *ticks]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: "0" if x < place[-2] / 1.01 else f"$10^{{{round(math.log10(x))}}}$"))


def _legend(axes: Any, classes: Sequence[str], used: set[int], reading: Reading, shown: int, total: int) -> None:
    """Classes, the line and what the numbers are, above the tree."""
    from matplotlib.lines import Line2D

    handles = [Line2D([], [], color=_colour(k), linestyle=_style(k), linewidth=2, label=classes[k]) for k in sorted(used - {-1})]
    if -1 in used:
        handles.append(Line2D([], [], color=_NOBODY, linewidth=2, label="no class: coefficients 0"))
    K = int(reading.levels[reading.chosen].max()) + 1
    label = f"chosen: ν = {reading.penalties[reading.chosen]:.3g}, {K} cluster{'' if K == 1 else 's'}"
    handles.append(Line2D([], [], color="0.45", linewidth=1, linestyle=_DASHED, label=label))
    against = f", {classes[1]} against {classes[0]}" if len(classes) == 2 else " of the class against the others"
    notes = [f"Numbers at the line: odds ratios{against}" + ("; in italics: by shrunk coefficients" if shown <= _FEW else "")]
    if shown < total:
        notes.insert(0, f"The {shown} strongest of {total} covariates")
    long = [len(str(handle.get_label())) + 9 for handle in handles]  # with the line before it
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


def names_of(model: Any, names: Sequence[str] | None, d: int) -> list[str]:
    """A name for every covariate."""
    words = [str(name) for name in (getattr(model, "feature_names_in_", range(d)) if names is None else names)]
    if len(words) != d:
        raise ValueError(f"names must have one name per covariate, {d}, got {len(words)}.")
    return words


def named(only: int | str | Sequence[int | str], names: Sequence[str]) -> Ints:
    """Numbers of the covariates asked for."""
    asked = list(only) if isinstance(only, Iterable) and not isinstance(only, str) else [only]
    if not asked:
        raise ValueError("only must name at least one covariate, got none.")
    found: list[int] = []
    for one in asked:
        if isinstance(one, str):
            places = [i for i, name in enumerate(names) if name == one]
        elif isinstance(one, (int, np.integer)) and not isinstance(one, bool):
            places = [int(one)] if 0 <= one < len(names) else []
        else:
            raise TypeError(f"only must hold names or numbers of covariates, got {one!r}.")
        if not places:
            raise ValueError(f"only asks for the covariate {one!r}, which is not there: {len(names)} covariates, {names[0]!r} the first.")
        found += places
    return np.unique(found)


def class_index(classes: NDArray[Any], of_class: Any) -> int | None:
    """Place of a class among the model's."""
    if of_class is None:
        return None
    known: list[Any] = classes.tolist()
    if of_class not in known:
        raise ValueError(f"of_class must be a class of the model, got {of_class!r}; the classes are {', '.join(map(repr, known))}.")
    return known.index(of_class)


def size(rows: int) -> tuple[float, float]:
    """Inches of a picture."""
    return _WIDTH, _AROUND + _ROW * max(rows, 4)
