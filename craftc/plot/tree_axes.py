"""Axes of a tree of a regularization path, and the arguments that choose its leaves."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import numpy as np

from craftc._common.typing import Floats, Ints
from craftc.plot.tree_layout import Node

WIDTH, ROW, AROUND = (
    7.5,
    0.175,
    1.4,
)  # inches: width of the figure, height of a leaf, height above and below the tree
FONT = 8.0  # points
DASHED = (0, (4, 3))
_FILL = 0.75  # height of the letters relative to a row
_STUB = 0.03  # of the width: branches extend beyond the ends of the path
_ROOM = 0.1  # of the width, right of the largest penalty
_LONG = 32  # characters of a name


class Path(Protocol):
    """A regularization path as nested partitions."""

    penalties: Floats  # (T,) falling
    chosen: int  # point of the path
    levels: Ints  # (T, n) nested partitions


def positions_of_penalties(path: Path, nodes: Sequence[Node]) -> tuple[Floats, float, float]:
    """Positions of the penalties on the logarithmic axis, and its limits; nu = 0 is one step left of the
    others.

    The axis ends where a single root starts, or at the chosen penalty if that is larger.
    """
    penalties = path.penalties
    some = penalties[penalties > 0]
    place = np.where(penalties > 0, penalties, some[-1] / max(float(some[0] / some[-1]) ** _ROOM, 2.0))
    last = 0 if sum(node.parent < 0 for node in nodes) > 1 else min(nodes[0].point, path.chosen)
    span = max(float(place[last] / place[-1]), 10.0)
    return place, float(place[-1] / span**_STUB), float(place[last] * span**_ROOM)


def font_of(axes: Any, rows: int) -> float:
    """Font size in points that fits the height of a row."""
    height = axes.get_position().height * axes.figure.bbox.height / axes.figure.dpi * 72
    return float(np.clip(_FILL * height / rows, 2.0, FONT))


def name_leaves(axes: Any, names: Sequence[str], font: float) -> None:
    """Names of the leaves, from the top down, on the left of the tree."""
    short = [name if len(name) <= _LONG else name[: _LONG - 1] + "…" for name in names]
    axes.set_yticks(range(len(names)), [name.replace("$", r"\$") for name in short], fontsize=font)
    axes.tick_params(axis="y", length=0, pad=2)
    axes.set_ylim(len(names) - 0.4, -0.8)


def mark_zero(axes: Any, place: Floats, high: float) -> None:
    """Label the tick of the penalty 0 as 0, although its position on the logarithmic axis is positive."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullLocator

    ticks = [tick for tick in LogLocator().tick_values(place[-2], high) if place[-2] / 1.01 <= tick <= high]
    axes.xaxis.set_major_locator(FixedLocator([place[-1], *ticks]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(
        FuncFormatter(lambda x, _: "0" if x < place[-2] / 1.01 else f"$10^{{{round(math.log10(x))}}}$")
    )


def names_of(names: Sequence[Any], d: int, leaf: str) -> list[str]:
    """A name for every covariate or row."""
    labels = [str(name) for name in names]
    if len(labels) != d:
        raise ValueError(f"names must have one name per {leaf} ({d}), got {len(labels)}.")
    return labels


def positions_in(only: int | str | Sequence[int | str], names: Sequence[str], leaf: str) -> Ints:
    """Positions of the covariates or rows in `only`."""
    requested = list(only) if isinstance(only, Iterable) and not isinstance(only, str) else [only]
    if not requested:
        raise ValueError(f"only must name at least one {leaf}, got none.")
    found: list[int] = []
    for one in requested:
        if isinstance(one, str):
            places = [i for i, name in enumerate(names) if name == one]
        elif isinstance(one, (int, np.integer)) and not isinstance(one, bool):
            places = [int(one)] if 0 <= one < len(names) else []
        else:
            raise TypeError(f"only must contain names or numbers of {leaf}s, got {one!r}.")
        if not places:
            raise ValueError(
                f"only contains the unknown {leaf} {one!r}; the model has {len(names)}, the first is "
                f"{names[0]!r}."
            )
        found += places
    return np.unique(found)
