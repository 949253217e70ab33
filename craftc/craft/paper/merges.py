"""Merges and closings of PaperCRAFT's clusters at a fixed price, where passes end.

Passes move rows, and never a whole cluster: a start with many clusters would keep them at any price.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from craftc._common.labels import chunks, join, numbering
from craftc._common.typing import Floats, Integers, Labels, Mask
from craftc._kernels import moments as moments_kernel
from craftc.craft.paper.clusters import PaperClusters
from craftc.craft.search import FitConfig
from craftc.table.moments import Moments

_TRIED = 16  # merges that are priced with all clusters where their features depend on each other

Config = FitConfig[Labels, NDArray[np.signedinteger]]


def merge_while_cheaper(
    config: Config, moments: Moments, labels: Labels, clusters: PaperClusters
) -> PaperClusters:
    """Merge the pair of clusters that lowers J most as long as J falls, or all clusters into one; moments and
    labels change in place. The clusters themselves are returned where nothing is gained.
    """
    pairs, spec = _Pairs(config, moments), config.spec
    tried = _TRIED if spec.is_global or spec.couples else 1
    while moments.n_clusters > 1:
        candidates = pairs.cheapest(tried)
        joined = [(_after(moments, k, j), _mask_after(clusters, k, j)) for k, j in candidates]
        prices = [PaperClusters(after, config.background, spec, mask).objective for after, mask in joined]
        best = int(np.argmin(prices))
        found = PaperClusters.after(joined[best][0], config.background, spec, joined[best][1])
        if not _is_lower(found, clusters):
            break
        k, j = candidates[best]
        number = numbering(moments.n_clusters)
        join(number, k, j)
        config.rows.renumbered(labels, number)
        moments.groups[k] = _sum(moments, k, j)
        moments.keep(np.delete(np.arange(moments.n_clusters), j))
        clusters = found
        pairs.merge(moments, k, j)
    if moments.n_clusters > 1:
        total = moments.total()
        one = PaperClusters(total, config.background, spec)
        if _is_lower(one, clusters):
            labels[labels > 0] = 0
            moments.groups[0] = total.groups[0]
            moments.keep(np.arange(1))
            clusters = one
    return clusters


def close_while_cheaper(
    config: Config, moments: Moments, labels: Labels, clusters: PaperClusters
) -> PaperClusters:
    """Close the cluster whose rows, at their second cheapest cluster, cost least more, as long as that is
    less than its price: the reverse of an opening. Its rows move there.

    Used where J does not compare partitions (see `comparable_objective`).
    """
    price = config.spec.price or 0.0
    while moments.n_clusters > 1:
        rise, second = _rise_without(config, labels, clusters)
        k = int(rise.argmin())
        if not rise[k] < price - 1e-9 * max(1.0, price):
            break
        np.copyto(labels, second, where=labels == k)
        number = numbering(moments.n_clusters)
        number[k + 1 : -1] -= 1
        config.rows.renumbered(labels, number)
        found = config.moments(labels, moments.n_clusters - 1)
        moments.groups[: found.n_clusters] = found.groups
        moments.keep(np.arange(found.n_clusters))
        clusters = PaperClusters(moments, config.background, config.spec)
    return clusters


def _rise_without(config: Config, labels: Labels, clusters: PaperClusters) -> tuple[Floats, Labels]:
    """(K,) by how much the costs of the rows of every cluster rise at their cheapest other cluster, and (n,)
    that cluster.
    """
    table, K = config.table, len(clusters.mask)
    rise, second = np.zeros(K), np.empty(len(table), np.int32)
    for rows in chunks(len(table)):
        costs = clusters.full_costs(table.take(np.arange(rows.start, rows.stop)))
        own, at = np.maximum(labels[rows], 0), np.arange(len(costs))  # rows of weight 0 may have no cluster
        before = costs[at, own]
        costs[at, own] = np.inf
        second[rows] = costs.argmin(axis=1)
        weight = config.weight[rows] * config.background.count_weight if len(config.weight) else 1.0
        rise += np.bincount(own, (costs.min(axis=1) - before) * weight, K)
    return rise, second


def _is_lower(found: PaperClusters, now: PaperClusters) -> bool:
    return found.objective < now.objective - 1e-9 * max(1.0, abs(now.objective))


def _sum(moments: Moments, k: int, j: int) -> Integers:
    """(width,) integers of two clusters together."""
    both: Integers = moments.groups[k].copy()
    moments_kernel.merge(both, moments.groups[j], 1, moments.grid.first_numeric)
    return both


def _after(moments: Moments, k: int, j: int) -> Moments:
    """The moments after a merge of j into k < j."""
    after = moments.select(np.delete(np.arange(moments.n_clusters), j))
    after.groups[k] = _sum(moments, k, j)
    return after


def _mask_after(clusters: PaperClusters, k: int, j: int) -> Mask:
    """(K - 1, D) features from which those after a merge are sought: the two clusters share theirs."""
    mask = clusters.mask.copy()
    mask[k] |= mask[j]
    return np.delete(mask, j, axis=0)


class _Pairs:
    """What the merge of every pair of clusters saves if clusters select their features alone."""

    def __init__(self, config: Config, moments: Moments) -> None:
        self._config, self._spec = config, replace(config.spec, feature_sharing=0.0)
        self._costs = self._alone(moments.select(np.arange(moments.n_clusters)))
        K = moments.n_clusters
        self._saved = np.full((K, K), -np.inf)  # above the diagonal
        for k in range(K - 1):
            self._price(moments, k, np.arange(k + 1, K))

    def _alone(self, moments: Moments) -> Floats:
        """(K,) costs of clusters."""
        return PaperClusters(moments, self._config.background, self._spec).costs

    def _price(self, moments: Moments, k: int, others: NDArray[np.intp]) -> None:
        if not len(others):
            return
        both = moments.select(others)
        for at, j in enumerate(others.tolist()):
            both.groups[at] = _sum(moments, k, j)
        saved = self._costs[k] + self._costs[others] - self._alone(both)
        self._saved[np.minimum(k, others), np.maximum(k, others)] = saved

    def merge(self, moments: Moments, k: int, j: int) -> None:
        """Follow a merge of j into k < j, which the moments have made."""
        self._costs = np.delete(self._costs, j)
        self._saved = np.delete(np.delete(self._saved, j, 0), j, 1)
        self._costs[k] = self._alone(moments.select(np.array([k])))[0]
        self._price(moments, k, np.delete(np.arange(moments.n_clusters), k))

    def cheapest(self, most: int) -> list[tuple[int, int]]:
        """Up to `most` pairs k < j that save most, the best first; ties: the first clusters."""
        order = np.argsort(-self._saved, axis=None, kind="stable")[: min(most, self._saved.size)]
        k, j = np.unravel_index(order, self._saved.shape)
        return [(a, b) for a, b in zip(k.tolist(), j.tolist(), strict=True) if a < b]
