"""The tree of a path of clusterings: who is one cluster with whom, down to which fusion penalty. No picture, only NumPy."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from craftc._common.typing import Floats, Ints


class Node(NamedTuple):
    """A cluster of the tree."""

    members: Ints  # covariates
    parent: int  # the node whose part it is; -1: a root
    point: int  # the finest point of the path at which it is one cluster: there its parts become one
    height: float  # place of its branch among the rows; that of a leaf is its row


def nested(path: NDArray[np.integer], chosen: int) -> Ints:
    """Partitions each of which refines the one before, from those of a path, where parted covariates may meet again.

    What has been parted stays parted, from the largest penalty on. The chosen point keeps its clusters nevertheless: at larger penalties
    each of them is kept whole, and is where most of its members are.

    Parameters
    ----------
    path : ndarray (T, d)
        Labels, of the largest penalty first.
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
        # of a cluster the most frequent comes last, and stays
        place = dict(zip(*divmod(pair[np.lexsort((-pair, count))], m), strict=True))
        levels[t] = np.array([place[k] for k in range(cluster.max() + 1)])[cluster]
    for t in range(1, len(levels)):
        levels[t] = np.unique(levels[t - 1] * (levels[t].max() + 1) + levels[t], return_inverse=True)[1]
    return levels


def subtree(levels: Ints, named: Ints, chosen: int) -> NDArray[np.bool_]:
    """The covariates of the smallest cluster of the tree that holds the chosen clusters of those named, and not one covariate only.

    Of roots where no single one holds them all.
    """
    for t in range(chosen, -1, -1):
        inside = np.isin(levels[t], levels[t, named])
        if len(np.unique(levels[t, named])) == 1 and inside.sum() > 1:
            break
    return np.asarray(inside)


def tree(levels: Ints, shown: Ints, rank: Floats) -> list[Node]:
    """The nodes, parents before their parts, leaves in the order of their rows.

    Parameters
    ----------
    levels : ndarray (T, d)
        Nested partitions, the coarsest first.
    shown : ndarray of int
        The covariates that are the leaves. Those that are one cluster at the end of the path are its parts side by side.
    rank : ndarray (d,)
        Parts come in the order of their members' mean rank.

    Returns
    -------
    list of Node
    """
    nodes: list[Node] = []
    rows = 0
    ahead = [(part, -1) for part in _parts(shown, levels[0, shown], rank)]
    while ahead:
        members, parent = ahead.pop()
        together = (levels[:, members] == levels[:, members[:1]]).all(axis=1)
        point = int(together.sum()) - 1  # nested: once parted, parted for good
        leaf = len(members) == 1
        if not leaf:
            below = levels[point + 1, members] if point + 1 < len(levels) else np.arange(len(members))
            ahead += [(part, len(nodes)) for part in _parts(members, below, rank)]
        nodes.append(Node(members, parent, point, float(rows) if leaf else np.nan))
        rows += leaf
    ends: list[list[float]] = [[] for _ in nodes]
    for k in range(len(nodes) - 1, -1, -1):  # parts before their parents
        if ends[k]:
            nodes[k] = nodes[k]._replace(height=(min(ends[k]) + max(ends[k])) / 2)
        if nodes[k].parent >= 0:
            ends[nodes[k].parent].append(nodes[k].height)
    return nodes


def _parts(members: Ints, label: Ints, rank: Floats) -> list[Ints]:
    """Members by label; the lowest mean rank last, as the list is taken from its end."""
    parts = [members[label == k] for k in np.unique(label)]
    return sorted(parts, key=lambda part: (-float(rank[part].mean()), -int(part[0])))
