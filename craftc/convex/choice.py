"""The point of a path of clusterings with the shortest description."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from craftc._common.cluster_moments import (
    ROWS_PER_CLUSTER,
    clearer_choice,
    consistent_choice,
    description_length,
    effective_dimensions,
)
from craftc._common.typing import Floats, Labels

_FEWEST = 2 * ROWS_PER_CLUSTER  # median rows of clusters whose cuts are compared with their merges
_CLEAR = 8.0  # median cost of merges in median gains of cuts: 8 for equal pieces of a line


def shortest(parts: Sequence[Labels], spread: Floats, weight: Floats) -> int:
    """The point whose clusters have the smallest description length, at most one for every five rows.

    `parts`: labels (n,) at every point. `spread` (n, D): the rows less their mean. `weight` (n,).
    """
    counts = [int(part.max()) + 1 for part in parts]
    scatter = float((weight[:, None] * spread**2).sum())
    allowed = max(1, int(weight.sum() / ROWS_PER_CLUSTER))

    def length(point: int, dimensions: float) -> float:
        if counts[point] > allowed:
            return np.inf
        return row_description_length(spread, parts[point], scatter, dimensions, weight)

    def choose(dimensions: float) -> int:
        return int(np.argmin([length(point, dimensions) for point in range(len(parts))]))

    def dimensions_of(point: int) -> float:
        return effective_dimensions(spread - _means(spread, parts[point], weight)[parts[point]], weight)

    chosen = consistent_choice(choose, dimensions_of, effective_dimensions(spread, weight))
    finest = int(np.argmax([count if count <= allowed else 0 for count in counts]))
    return clearer_choice(
        chosen,
        (dimensions_of(chosen), dimensions_of(finest)),
        choose,
        length,
        lambda point: is_clear(spread, parts[point], weight),
    )


def is_clear(spread: Floats, label: Labels, weight: Floats) -> bool:
    """Whether, in the median, the cheapest merge of a cluster costs much more than its cut across the longest
    axis gains. Clusters of few rows, such as those of equal numbers, say little about that.
    """
    sizes, means = np.bincount(label, weight).astype(np.float64), _means(spread, label, weight)
    if len(sizes) < 2 or np.median(sizes) < _FEWEST:
        return False
    squares = (means**2).sum(axis=1)
    merges = np.maximum(squares[:, None] + squares - 2.0 * means @ means.T, 0.0)
    merges *= sizes[:, None] * sizes / (sizes[:, None] + sizes)
    np.fill_diagonal(merges, np.inf)
    gains = [_cut(spread[label == k] - means[k], weight[label == k]) for k in range(len(sizes))]
    return bool(np.median(merges.min(axis=1)) > _CLEAR * np.median(gains))


def _cut(rows: Floats, weight: Floats) -> float:
    """What the cut of a cluster at its mean, across its longest axis, lowers the sum of squares."""
    axis = np.linalg.svd(rows * np.sqrt(weight)[:, None], full_matrices=False)[2][0]
    side = rows @ axis > 0
    if side.all() or not side.any():
        return 0.0
    one, other = weight[side].sum(), weight[~side].sum()
    step = weight[side] @ rows[side] / one - weight[~side] @ rows[~side] / other
    return float(one * other / (one + other) * (step @ step))


def row_description_length(
    spread: Floats, label: Labels, scatter: float, dimensions: float, weight: Floats
) -> float:
    """Description length of the rows, in nats, under clusters around their means."""
    sizes, means = np.bincount(label, weight).astype(np.float64), _means(spread, label, weight)
    within = scatter - float((means**2 * sizes[:, None]).sum())
    return description_length(sizes, dimensions, within, scatter)


def _means(spread: Floats, label: Labels, weight: Floats) -> Floats:
    """(K, D) means of the clusters."""
    sums = np.stack([np.bincount(label, weight * column) for column in spread.T], axis=1)
    return np.asarray(sums / np.bincount(label, weight)[:, None])
