"""Features of PaperCRAFT between local and global selection.

In the prior of the paper a column is selected with a probability of mean m and variance rho. Where all
clusters have the same probability, with s = rho / (m (1 - m)), a given set of c of K clusters selects the
column with the beta-binomial probability

    B(c) = prod_{i<c} (m (1 - s) + i s) prod_{i<K-c} ((1 - m) (1 - s) + i s) / prod_{i<K} (1 - s + i s) .

PaperCRAFT already charges F_Delta for every selection. What is left to charge is the excess of - log B(c)
over the straight line from c = 0 to c = K,

    e(c) = - log B(c) + (c / K) log B(K) + (1 - c / K) log B(0) ,

which is 0 at s = 0, so that the selection is local, and infinite for 0 < c < K at s = 1, so that it is
global. It is never negative, because log B is convex in c, and never rises where a cluster disappears.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from craftc._common.typing import Floats, Mask
from craftc._kernels.craft_price import Pricing
from craftc.craft.background import choose_features
from craftc.craft.parameters import ModelSpec

_LEAST_FALL = 1e-9  # nats; what another mask must save, relative to the cost of the masks


def excess(n_clusters: int, spec: ModelSpec) -> Floats:
    """(K + 1,) e(c) in nats of a column that c of K clusters select, for 0 <= s < 1."""
    m, s, i = spec.fraction, spec.feature_sharing, np.arange(n_clusters)
    selected, others = m * (1.0 - s) + i * s, (1.0 - m) * (1.0 - s) + i * s
    log_set = np.append(0.0, np.cumsum(np.log(selected)))
    log_set += np.append(0.0, np.cumsum(np.log(others)))[::-1]
    line = np.linspace(log_set[0], log_set[-1], n_clusters + 1)
    out: Floats = np.maximum(line - log_set, 0.0)
    out[[0, -1]] = 0.0
    return out


def cost_of_columns(mask: Mask, spec: ModelSpec) -> float:
    """Sum of e(c) over the columns of masks (K, D), nats."""
    if not spec.couples:
        return 0.0
    return float(excess(len(mask), spec)[mask.sum(axis=0, dtype=np.intp)].sum())


def next_prices(mask: Mask, spec: ModelSpec) -> tuple[Floats, float]:
    """What a cluster more costs by its features: (D,) e(c + 1) - e(c) of K + 1 clusters if it selects a
    column, and what it costs without features, nats.
    """
    others = mask.sum(axis=0, dtype=np.intp)
    after = excess(len(mask) + 1, spec)
    return after[others + 1] - after[others], float(after[others].sum()) - cost_of_columns(mask, spec)


def global_mask(pricing: Pricing, spec: ModelSpec, gains: Floats) -> Mask:
    """(K, D) the one mask of all clusters of least cost."""
    summed = gains.sum(axis=0, keepdims=True)
    chosen, _ = choose_features(
        pricing, spec.selection, summed if spec.selection == "fixed" else summed / len(gains)
    )
    return np.repeat(chosen, len(gains), axis=0)


def coupled_mask(pricing: Pricing, spec: ModelSpec, gains: Floats, starts: list[Mask]) -> Mask:
    """(K, D) masks of low cost: from every start, each cluster in turn selects the features of least cost,
    given those of the others, until no cluster changes. Ties: the earlier start.
    """
    costs = [_descend(pricing, spec, gains, start) for start in starts]
    best = min(range(len(starts)), key=lambda i: costs[i][1])
    return costs[best][0]


def _descend(pricing: Pricing, spec: ModelSpec, gains: Floats, start: Mask) -> tuple[Mask, float]:
    mask, prices = start.copy(), excess(len(start), spec)
    counts: NDArray[np.intp] = mask.sum(axis=0, dtype=np.intp)

    def cost_of(k: int, features: Mask, others: NDArray[np.intp]) -> float:
        own = float(((spec.f_delta - gains[k]) * features).sum())
        return own + float(prices[others + features].sum())

    moved = True
    while moved:
        moved = False
        for k in range(len(mask)):
            others = counts - mask[k]
            found, _ = choose_features(
                pricing, spec.selection, (gains[k] - prices[others + 1] + prices[others])[None]
            )
            now = cost_of(k, mask[k], others)
            if cost_of(k, found[0], others) < now - _LEAST_FALL * max(1.0, abs(now)):
                mask[k], counts, moved = found[0], others + found[0], True
    total = float(((spec.f_delta - gains) * mask).sum()) + float(prices[counts].sum())
    return mask, total
