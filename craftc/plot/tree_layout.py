"""The tree of a regularization path: which covariates form one cluster, down to which fusion penalty.

NumPy only, no drawing.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from craftc._common.typing import Floats, Ints


class Node(NamedTuple):
    """A cluster of the tree."""

    members: Ints  # covariates
    parent: int  # node that contains it; -1: a root
    # point of the path with the smallest penalty at which it is one cluster; its children merge there
    point: int
    height: float  # vertical position of its branch; that of a leaf is its row


def nested(path: NDArray[np.integer], chosen: int) -> Ints:
    """Nested partitions from those of a path, on which separated covariates may merge again.

    Covariates that have separated stay separate towards smaller penalties. The chosen point keeps its
    clusters: at larger penalties each of them is kept together, in the cluster that contains most of its
    members.

    Parameters
    ----------
    path : ndarray (T, d)
        Labels, largest penalty first.
    chosen : int
        A point of the path.

    Returns
    -------
    ndarray (T, d)
    """
    levels = np.asarray(path, np.intp).copy()
    cluster = levels[chosen].copy()
    for t in range(chosen):
        m = levels[t].max() + 1
        pair, count = np.unique(cluster * m + levels[t], return_counts=True)
        # sorted so that the most frequent label of a cluster comes last and wins in the dict
        place = dict(zip(*divmod(pair[np.lexsort((-pair, count))], m), strict=True))
        levels[t] = np.array([place[k] for k in range(cluster.max() + 1)])[cluster]
    for t in range(1, len(levels)):
        levels[t] = np.unique(levels[t - 1] * (levels[t].max() + 1) + levels[t], return_inverse=True)[1]
    return levels


def subtree(levels: Ints, named: Ints, chosen: int) -> NDArray[np.bool_]:
    """Mask of the covariates in the smallest cluster of the tree that contains the chosen clusters of the
    named covariates.

    The cluster has at least two covariates. If no single root contains all named covariates, the mask covers
    all roots that contain one.
    """
    for t in range(chosen, -1, -1):
        inside = np.isin(levels[t], levels[t, named])
        if len(np.unique(levels[t, named])) == 1 and inside.sum() > 1:
            break
    return np.asarray(inside)


def build_tree(levels: Ints, shown: Ints, rank: Floats) -> list[Node]:
    """The nodes of the tree, parents before their children, leaves in the order of their rows.

    Parameters
    ----------
    levels : ndarray (T, d)
        Nested partitions, coarsest first.
    shown : ndarray of int
        The covariates drawn as leaves. Those in one cluster at the end of the path are siblings.
    rank : ndarray (d,)
        Siblings are sorted by the mean rank of their members.

    Returns
    -------
    list of Node
    """
    nodes: list[Node] = []
    rows = 0
    pending = [(part, -1) for part in _parts(shown, levels[0, shown], rank)]
    while pending:
        members, parent = pending.pop()
        together = (levels[:, members] == levels[:, members[:1]]).all(axis=1)
        point = int(together.sum()) - 1  # nested partitions: separated covariates never merge again
        leaf = len(members) == 1
        if not leaf:
            below = levels[point + 1, members] if point + 1 < len(levels) else np.arange(len(members))
            pending += [(part, len(nodes)) for part in _parts(members, below, rank)]
        nodes.append(Node(members, parent, point, float(rows) if leaf else np.nan))
        rows += leaf
    ends: list[list[float]] = [[] for _ in nodes]
    for k in range(len(nodes) - 1, -1, -1):  # children before their parents
        if ends[k]:
            nodes[k] = nodes[k]._replace(height=(min(ends[k]) + max(ends[k])) / 2)
        if nodes[k].parent >= 0:
            ends[nodes[k].parent].append(nodes[k].height)
    return nodes


def _parts(members: Ints, label: Ints, rank: Floats) -> list[Ints]:
    """Members by label; lowest mean rank last, because the caller pops from the end."""
    parts = [members[label == k] for k in np.unique(label)]
    return sorted(parts, key=lambda part: (-float(rank[part].mean()), -int(part[0])))
