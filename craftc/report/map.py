"""The map of clusters as a page draws it: areas and dots as paths, numbers and names as HTML."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from craftc._common.typing import Floats, Ints, Labels
from craftc.describe.cluster_map import COLOURS, WIDTH, cluster_map, sampled_rows
from craftc.table import MixedTable

if TYPE_CHECKING:
    from craftc.craft.base import CraftBase


@dataclass
class MappedCluster:
    """A cluster of the map: its colour, area, dots and number, whose place is in per cent of the picture."""

    k: int  # counted from 1
    colour: str
    area: str
    dots: str
    left: float
    top: float
    words: str  # where it overlaps


@dataclass
class PageMap:
    """The map of a page."""

    height: float  # the width is 100
    clusters: list[MappedCluster]
    between: str  # dots of the rows between clusters
    outliers: str  # crosses
    share_between: float
    n_dots: int


def page_map(model: CraftBase, table: MixedTable, labels: Labels, order: Ints) -> PageMap:
    """The map of a table; `labels` (n,) and `order` are those of the page."""
    rows = sampled_rows(len(table))
    costs = np.asarray(model.transform(table.take(rows)), np.float64)[:, order]
    found = cluster_map(costs, labels[rows])
    clusters = []
    for k in found.drawn:
        left, top = 100.0 * found.centres[k] / (WIDTH, found.height)
        clusters.append(
            MappedCluster(
                k + 1,
                COLOURS[k % len(COLOURS)],
                "".join(_outline(ring) for ring in found.areas[k]),
                _dots(found.points[(found.labels == k) & ~found.between]),
                round(float(left), 1),
                round(float(top), 1),
                found.words(k),
            )
        )
    between = _dots(found.points[found.between])
    outlier = np.asarray(model.labels_)[rows][found.rows] < 0
    share = float(found.between.mean())
    return PageMap(
        round(found.height, 1), clusters, between, _crosses(found.points[outlier]), share, len(found.rows)
    )


def _outline(ring: Floats) -> str:
    """A closed path, without the points that lie on a straight line at the precision of the page."""
    points = np.round(ring, 1)
    before, after = points - np.roll(points, 1, axis=0), np.roll(points, -1, axis=0) - points
    bends = np.abs(before[:, 0] * after[:, 1] - before[:, 1] * after[:, 0]) > 0.02
    shown = points[bends] if bends.sum() > 2 else points
    return f"M{'L'.join(_place(point) for point in shown)}Z"


def _dots(points: Floats) -> str:
    """Lines of no length, whose round ends are dots."""
    return "".join(f"M{_place(point)}h0" for point in points)


def _crosses(points: Floats) -> str:
    return "".join(f"M{_place(point - 0.7)}l1.4 1.4m0 -1.4l-1.4 1.4" for point in points)


def _place(point: Floats) -> str:
    return " ".join(f"{x:.1f}".removesuffix(".0") for x in point.tolist())
