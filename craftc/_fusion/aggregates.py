"""Aggregates of nearby nodes inside large clusters: flows reach distant parts of a cluster in few steps."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from craftc._common.typing import Edges, Floats, Labels
from craftc._kernels import covariates as _kernel

MIN_NODES = 64  # nodes of the smallest cluster with aggregates
_MOST = 150  # most aggregates of a cluster
_SHIFT = 1e-10  # relative enlargement of the diagonal, which keeps the Laplacian regular


class Aggregates(NamedTuple):
    """Aggregates of the nodes of clusters, and the inverse of each cluster's Laplacian on them."""

    label: Labels  # (d,) aggregate of every node, numbered within its cluster
    parts: NDArray[np.intp]  # (C,) number of aggregates; 0: none
    inverse: Floats  # (sum of parts^2,)

    @staticmethod
    def of(edge: Edges, radius: Floats, cluster: Labels, first_node: NDArray[np.intp]) -> Aggregates:
        """Join nodes along their strongest edges until every cluster has at most `_MOST` aggregates.

        `edge` (l, 2) and `radius` (l,) are the edges inside clusters, cluster after cluster; `cluster`
        (d + 1,) has the zero node's last; `first_node` (C + 1,) bounds the clusters in the order of nodes.
        """
        d, size = len(cluster) - 1, np.diff(first_node)
        if not (size >= MIN_NODES).any():
            return Aggregates(np.zeros(d, np.int32), np.zeros(len(size), np.intp), np.empty(0))
        free = (edge < d).all(axis=1)
        group = np.arange(d, dtype=np.int32)
        while True:
            count = np.bincount(cluster[:-1][np.unique(group, return_index=True)[1]], minlength=len(size))
            pair = group[edge[free]]
            apart = (pair[:, 0] != pair[:, 1]) & (count > _MOST)[cluster[edge[free, 0]]]
            if not apart.any():
                break
            group = _joined(group, pair[apart], radius[free][apart])
        # aggregates numbered within their clusters
        owner = cluster[:-1][np.unique(group, return_index=True)[1]]
        order = np.argsort(owner, kind="stable")
        first = np.searchsorted(owner[order], np.arange(len(size)))
        place = np.empty(len(owner), np.int32)
        place[order] = np.arange(len(owner)) - first[owner[order]]
        parts = np.where(size >= MIN_NODES, count, 0).astype(np.intp)
        weight, label = _weights(edge, radius, d), place[group]
        large = np.flatnonzero(parts).tolist()
        inverse = [_inverse(edge, weight, label, cluster, c, int(parts[c])) for c in large]
        return Aggregates(label, parts, np.concatenate([np.empty(0), *inverse]))


def _joined(group: Labels, pair: Edges, weight: Floats) -> Labels:
    """Groups joined along the strongest of the edges between each and the others."""
    ends, both = pair.T.ravel(), np.tile(weight, 2)
    order = np.lexsort((both, ends))
    strongest = order[np.append(np.diff(ends[order]) > 0, True)] % len(pair)
    joined = np.zeros(len(pair), np.uint8)
    joined[strongest] = 1
    label, _ = _kernel.components(int(group.max()) + 1, np.ascontiguousarray(pair), joined)
    return np.asarray(label[group])


def _weights(edge: Edges, radius: Floats, d: int) -> Floats:
    """The step sizes of the flows."""
    capacity = np.bincount(edge.ravel(), np.repeat(radius, 2), minlength=d + 1)
    capacity[d] = 0.0
    both = capacity[edge].sum(axis=1)
    return np.asarray(np.divide(radius, both, where=both > 0, out=np.zeros(len(radius))))


def _inverse(edge: Edges, weight: Floats, group: Labels, cluster: Labels, own: int, parts: int) -> Floats:
    """The inverse of the Laplacian of one cluster's aggregates, flattened."""
    some = cluster[edge[:, 0]] == own
    (i, j), weight = edge[some].T, weight[some]
    to_zero_node = j == len(group)
    a, b = group[i], group[np.where(to_zero_node, i, j)]
    apart = a != b
    laplacian = np.zeros((parts, parts))
    np.add.at(laplacian, (a[apart], b[apart]), -weight[apart])
    laplacian += laplacian.T
    diagonal = np.bincount(a, weight * (apart | to_zero_node), minlength=parts)
    diagonal += np.bincount(b, weight * apart, minlength=parts)
    laplacian[np.diag_indices(parts)] = (1.0 + _SHIFT) * diagonal + 1e-300
    if not to_zero_node.any():
        laplacian += diagonal.mean() / parts  # its null space are the constants
    return np.asarray(np.linalg.inv(laplacian), dtype=np.float64).ravel()
