"""A map of clusters: rows in two dimensions from their costs, and the areas in which clusters lie.

Every two clusters get a distance: that of two normal distributions of variance 1 whose rows have their
typical margins. The clusters are placed by scaling these distances (SMACOF, with relative errors), and a row
lies around its cluster where its margins place it: midway between two clusters if both describe it equally
well, at its own cluster if its margin is typical.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from craftc._common.random import SAMPLE_ROWS, CraftStream, spread, uniform
from craftc._common.typing import Bits, Floats, Ints, Labels
from craftc.describe.words import listing, percent

#: Colours of clusters, in the order of their numbers, in which they return: readable on white and on black.
COLOURS = (
    *("#3b7dc4", "#c96a10", "#2f8f46", "#d0454c", "#8a63c9"),
    *("#17909b", "#c75596", "#7d8420", "#9a6b4f", "#7c8590"),
)
WIDTH = 100.0  # of the picture, in its own units
BETWEEN = 0.6  # probability below which a row lies between clusters
_FLATTEST, _TALLEST = 45.0, 80.0  # heights of the picture
_EDGE = 3.0  # free space around the rows
_FAR = 5.0  # deviations from which distances grow by their logarithm
_STEPS = 200  # of SMACOF
_BETTER = 0.99  # of the stress of the circle that another start has to undercut
_NEAR = 0.25  # margin, relative to a typical one, by which a cluster counts e times less than the next one
_RIDGE = 0.02
_TURNS = 36  # directions among which the flattest picture is sought
_GRID = 96  # cells of the density along the picture
_THIN, _THICK = 1.2, 3.0  # deviations of the blur
_INSIDE = 0.9  # share of a cluster in its area
_MOST_DOTS, _FEWEST_DOTS = 2000, 25  # of the map, and of a cluster that has them
_ASIDE = 0.1  # probability from which another cluster comes into question for a row
_MOST_NEIGHBOURS = 3  # of a cluster, in words


@dataclass(frozen=True)
class ClusterMap:
    """Rows and areas in a picture of `WIDTH` by `height`, whose y grows downwards."""

    height: float
    rows: Ints  # (m,) positions of the rows that are drawn, among all of the map
    points: Floats  # (m, 2) their places
    labels: Labels  # (m,) their clusters
    between: Bits  # (m,) whether they lie between clusters
    centres: Floats  # (K, 2) the middle of every cluster; NaN without rows
    areas: list[list[Floats]]  # (K) outlines of the densest part with 90 % of a cluster, each (m, 2)
    shared: Floats  # (K, K) share of the rows of a cluster for which another one comes into question

    @property
    def drawn(self) -> list[int]:
        """Clusters with rows."""
        return np.flatnonzero(~np.isnan(self.centres[:, 0])).tolist()

    def neighbours(self, k: int) -> list[int]:
        """The clusters that come into question for most rows of a cluster, at most three."""
        order = np.argsort(-self.shared[k], kind="stable").tolist()
        return [j for j in order[:_MOST_NEIGHBOURS] if self.shared[k, j] >= 0.005]

    def words(self, k: int) -> str:
        """For how many of its rows other clusters come into question."""
        near = [f"{j + 1} for {percent(float(self.shared[k, j]))}" for j in self.neighbours(k)]
        return f"also in question: {listing(near)} of its rows" if near else "apart from all others"


def sampled_rows(n: int) -> Ints:
    """Positions of the rows of a table from which its map is made."""
    return np.arange(n) if n <= SAMPLE_ROWS else spread(n, SAMPLE_ROWS, 0, CraftStream.MAP_SAMPLE)


def cluster_map(costs: Floats, labels: Labels) -> ClusterMap:
    """The map of rows with these costs (n, K) in nats and clusters (n,)."""
    K = costs.shape[1]
    present, own = np.unique(labels, return_inverse=True)
    costs = np.asarray(costs[:, present], np.float64)
    each = np.arange(len(costs))
    margins = costs - costs[each, own][:, None]
    if len(present) > 2:
        points = _placed(margins, own)
    else:
        points = np.column_stack([_along(margins, own, costs[:, 0]), _unusual(costs[each, own])])
    likelihood = np.exp(costs.min(axis=1, keepdims=True) - costs)
    probability = likelihood / likelihood.sum(axis=1, keepdims=True)
    points, height = _in_picture(points, own, turn=len(present) > 2)
    sizes = np.bincount(own)
    dots = np.sort(np.concatenate([_some(np.flatnonzero(own == k), len(own)) for k in range(len(sizes))]))
    centres, areas = np.full((K, 2), np.nan), [list[Floats]() for _ in range(K)]
    shared = np.zeros((K, K))
    for k, label in enumerate(present.tolist()):
        centres[label], areas[label] = _area(points, probability[:, k], height)
        shared[label, present] = (probability[own == k] >= _ASIDE).mean(axis=0)
    np.fill_diagonal(shared, 0.0)
    return ClusterMap(
        height,
        dots,
        points[dots],
        np.asarray(labels[dots], np.int32),
        probability[each, own][dots] < BETWEEN,
        centres,
        areas,
        shared,
    )


def _some(rows: Ints, n: int) -> Ints:
    """Rows of a cluster that are drawn, from all parts of the table."""
    most = max(round(_MOST_DOTS * len(rows) / max(n, _MOST_DOTS)), min(_FEWEST_DOTS, len(rows)))
    return rows[np.linspace(0, len(rows) - 1, most).round().astype(np.intp)]


# ---- places of rows ----


def _placed(margins: Floats, own: Ints) -> Floats:
    """(n, 2) rows around the places of at least three clusters."""
    K = margins.shape[1]
    typical = np.array([np.median(margins[own == k], axis=0) for k in range(K)])
    typical = np.maximum(typical, 0.5)  # rows with given clusters may have negative margins
    np.fill_diagonal(typical, 0.0)
    distances = np.sqrt(typical + typical.T)
    distances = np.where(distances > _FAR, _FAR * (1 + np.log(np.maximum(distances, _FAR) / _FAR)), distances)
    places = _scaled(distances)
    apart = places[:, None] - places[None]
    lengths = np.sqrt((apart**2).sum(axis=2))
    towards = apart / np.maximum(lengths, 1e-12)[:, :, None]
    ratio = margins / np.maximum(typical[own], 1e-12)
    ratio[np.arange(len(own)), own] = np.inf
    weight = (np.maximum(ratio, 0.0) + _NEAR) ** -2.0
    weight /= weight.sum(axis=1, keepdims=True)
    ratio[np.arange(len(own)), own] = 1.0
    half = lengths[own] / 2
    wanted = np.where(ratio > 1, half * np.tanh(ratio - 1), half * np.maximum(ratio - 1, -2.0))
    E = towards[own]
    normal = np.einsum("ij,ija,ijb->iab", weight, E, E) + _RIDGE * np.eye(2)
    right = np.einsum("ij,ija->ia", weight * wanted, E)
    return places[own] + np.linalg.solve(normal, right[:, :, None])[:, :, 0]


def _scaled(distances: Floats) -> Floats:
    """(K, 2) places with these distances: the better of the results from two starts.

    A circle on which the next cluster is the nearest one left is kept unless the principal axes of the
    distances, which rounding decides where they are equally long, are clearly better.
    """
    K = len(distances)
    ring, left = [0], list(range(1, K))
    while left:
        ring.append(left.pop(int(np.argmin(distances[ring[-1], left]))))
    angle = np.empty(K)
    angle[ring] = 2 * np.pi * np.arange(K) / K
    radius = distances.mean()
    centred = np.eye(K) - 1 / K
    values, axes = np.linalg.eigh(-0.5 * centred @ distances**2 @ centred)
    principal = axes[:, :-3:-1] * np.sqrt(np.maximum(values[:-3:-1], 1e-12))
    first, other = (
        _smacof(start, distances)
        for start in (radius * np.column_stack([np.cos(angle), np.sin(angle)]), principal)
    )
    return other[0] if other[1] < _BETTER * first[1] else first[0]


def _smacof(places: Floats, distances: Floats) -> tuple[Floats, float]:
    """Places that minimise the squared relative errors of the distances, and their sum (de Leeuw 1977)."""
    off = ~np.eye(len(distances), dtype=bool)
    weight = np.zeros_like(distances)
    weight[off] = distances[off] ** -2.0
    inverse = np.linalg.pinv(np.diag(weight.sum(axis=1)) - weight)
    for _ in range(_STEPS):
        lengths = _lengths(places)
        ratio = weight * distances / np.maximum(lengths, 1e-12)
        places = inverse @ ((np.diag(ratio.sum(axis=1)) - ratio) @ places)
    return places, float((weight * (_lengths(places) - distances) ** 2).sum())


def _lengths(places: Floats) -> Floats:
    return np.asarray(np.sqrt(((places[:, None] - places[None]) ** 2).sum(axis=2)))


def _along(margins: Floats, own: Ints, costs: Floats) -> Floats:
    """(n,) places of the rows of two clusters, with their border at 0; of one, wider for usual rows."""
    if margins.shape[1] == 1:
        rank = np.argsort(np.argsort(costs, kind="stable"), kind="stable") / max(len(costs), 1)
        side = uniform(0, CraftStream.MAP_SAMPLE, np.arange(len(costs))) - 0.5
        return np.asarray(4.0 * side * np.sqrt(np.maximum(1.0 - rank, 0.02)))
    odds = np.where(own == 0, -1.0, 1.0) * margins[np.arange(len(own)), 1 - own]
    unit = max(float(np.median(np.abs(odds))), 1e-9)
    return np.asarray(2.0 * np.arcsinh(odds / unit))


def _unusual(costs: Floats) -> Floats:
    """(n,) heights: rows that their cluster describes in more nats lie lower."""
    low, middle, high = np.quantile(costs, (0.25, 0.5, 0.75)) if len(costs) else (0.0, 0.0, 1.0)
    return np.asarray(2.0 * np.arcsinh((costs - middle) / max(high - low, 1e-9)))


def _in_picture(points: Floats, own: Ints, *, turn: bool) -> tuple[Floats, float]:
    """The rows in the picture, and its height: turned so that it is flat, the largest cluster above left."""
    largest = own == np.bincount(own).argmax()
    if turn:
        angles = np.pi * np.arange(_TURNS) / _TURNS
        spans = []
        for angle in angles:
            across = points @ np.array([-np.sin(angle), np.cos(angle)])
            spans.append(float(np.subtract(*np.quantile(across, (0.995, 0.005)))))
        flattest = int(np.flatnonzero(np.array(spans) <= 1.01 * min(spans))[0])
        c, s = np.cos(angles[flattest]), np.sin(angles[flattest])
        points = points @ np.array([[c, -s], [s, c]])
        middle = (points.min(axis=0) + points.max(axis=0)) / 2
        points = points * np.where(points[largest].mean(axis=0) > middle, -1.0, 1.0)
    low, high = np.quantile(points, (0.002, 0.998), axis=0)
    points = np.clip(points, low, high)  # single far rows lie at the edge
    span = np.maximum(high - low, 1e-9)
    scale = (WIDTH - 2 * _EDGE) / span[0]
    height = float(np.clip(scale * span[1] + 2 * _EDGE, _FLATTEST, _TALLEST))
    scales = (
        np.minimum(scale, (height - 2 * _EDGE) / span[1])
        if turn
        else (np.array([WIDTH, height]) - 2 * _EDGE) / span
    )
    return np.array([WIDTH, height]) / 2 + (points - (low + high) / 2) * scales, height


# ---- areas ----


def _area(points: Floats, weight: Floats, height: float) -> tuple[Floats, list[Floats]]:
    """The densest place of a cluster, and the outlines of its densest part; rows count by probability."""
    cell = WIDTH / _GRID
    shape = (_GRID, int(np.ceil(height / cell)))
    at = np.minimum((points / cell).astype(np.intp), np.array(shape) - 1)
    counts = np.bincount(at[:, 0] * shape[1] + at[:, 1], weight, shape[0] * shape[1])
    mass = counts.astype(np.float64).reshape(shape)
    total = max(float(weight.sum()), 1e-300)
    mean = weight @ points / total
    deviation = float(np.sqrt((weight @ (points - mean) ** 2 / total).mean()))
    width = float(np.clip(0.9 * deviation * max(total, 1.0) ** (-1 / 6), _THIN, _THICK))
    density = _smoothed(_smoothed(mass, width / cell).T, width / cell).T
    order = np.sort(density, axis=None)[::-1]
    reached = int(np.searchsorted(np.cumsum(order), _INSIDE * order.sum()))
    least = float(order[min(reached, len(order) - 1)])
    top = np.array(np.unravel_index(int(density.argmax()), shape))
    outlines = [(ring + 0.5) * cell for ring in contours(density, max(least, 1e-300))]
    return np.asarray((top + 0.5) * cell), [np.clip(ring, 0.0, (WIDTH, height)) for ring in outlines]


def _smoothed(cells: Floats, width: float) -> Floats:
    """Cells blurred along the first axis by a normal distribution with this deviation."""
    place = np.arange(len(cells))
    kernel = np.exp(-0.5 * ((place[:, None] - place) / width) ** 2)
    return np.asarray(np.einsum("ij,jk->ik", kernel, cells))


def contours(density: Floats, least: float) -> list[Floats]:
    """Closed outlines of the places above a density, by linear interpolation between the cells.

    Marching squares: the outline crosses the edges between a cell above and a cell below, and in every square
    of four cells leads from one crossing to the next, the higher cells on its left.
    """
    high = np.pad(density, 1, constant_values=0.0)
    above = high >= least
    following: dict[tuple[int, int, int, int], tuple[int, int, int, int]] = {}
    corners = ((0, 0), (1, 0), (1, 1), (0, 1))  # around a square
    mixed = above[:-1, :-1].astype(int) + above[1:, :-1] + above[1:, 1:] + above[:-1, 1:]
    for x, y in np.argwhere((mixed > 0) & (mixed < 4)).tolist():
        cells = [(x + dx, y + dy) for dx, dy in corners]
        up = [bool(above[cell]) for cell in cells]
        # crossings of the edges, from a cell above to one below: in at a rise, out at a fall
        rises = [i for i in range(4) if not up[i] and up[(i + 1) % 4]]
        falls = [i for i in range(4) if up[i] and not up[(i + 1) % 4]]
        for rise in rises:
            fall = next(i % 4 for i in range(rise + 1, rise + 5) if i % 4 in falls)
            start, end = (cells[(rise + 1) % 4] + cells[rise]), (cells[fall] + cells[(fall + 1) % 4])
            following[start] = end
    rings = []
    while following:
        first, edge = (start := next(iter(following))), following.pop(start)
        ring = [first]
        while edge != first:
            ring.append(edge)
            edge = following.pop(edge)
        inside, outside = np.array(ring).reshape(-1, 2, 2).swapaxes(0, 1)
        own, beyond = high[tuple(inside.T)], high[tuple(outside.T)]
        share = (own - least) / np.maximum(own - beyond, 1e-300)
        rings.append(inside + share[:, None] * (outside - inside) - 1.0)
    return rings
