"""A penalty of convex clustering at which everything is fused, from a flow along the edges."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csc_array, diags_array
from scipy.sparse.csgraph import breadth_first_order, reverse_cuthill_mckee
from scipy.sparse.linalg import splu

from craftc._common.typing import Floats, Labels
from craftc._fusion.datafits import SparseMatrix
from craftc._fusion.graph import Graph, components, lengths

_PRODUCTS = 5e8  # d times the squared bandwidth up to which a factorisation is fast
_TOLERANCE, _MOST_STEPS = 1e-9, 1000  # of conjugate gradients; a tree carries the remaining load


def fusing_penalty(graph: Graph, spread: Floats) -> float:
    """A penalty at which every connected component is fused; `spread` (d, p) are the rows less their mean.

    Flows f along the edges that move every row, times its weight, to the mean of its component prove that all
    rows of a component are equal at the optimum, if no |f_ij| exceeds the penalty times w_ij. Nearly all of
    the flow is w_ij (phi_i - phi_j) with L phi = the weighted rows less the mean, where L is the Laplacian of
    the graph.
    """
    if not len(graph.edge):
        return 1.0
    label = components(graph)[:-1]
    sizes = graph.sizes[:, None]
    sums = np.stack([np.bincount(label, column) for column in (sizes * spread).T], axis=1)
    load = sizes * (spread - (sums / np.bincount(label, sizes[:, 0])[:, None])[label])
    i, j = graph.edge.T
    places = np.append(i, j), np.append(j, i)
    adjacency = coo_array((np.append(graph.weight, graph.weight), places), (graph.d, graph.d)).tocsr()
    if graph.d * bandwidth(adjacency) ** 2 < _PRODUCTS:
        potential = factorised(adjacency, label, load)
        return float(lengths(potential[i] - potential[j]).max()) or 1.0
    potential, left = conjugate_gradients(adjacency, load)
    parent, along_tree = tree_flow(adjacency, label, left)
    below = np.flatnonzero(parent >= 0)
    of_tree = lengths(along_tree[below]) / np.asarray(adjacency[below, parent[below]]).ravel()
    return float(lengths(potential[i] - potential[j]).max() + of_tree.max()) or 1.0


def bandwidth(adjacency: SparseMatrix) -> float:
    """The furthest that two neighbours are apart in an order that brings neighbours together."""
    order = reverse_cuthill_mckee(adjacency, symmetric_mode=True)
    place = np.empty(len(order), np.intp)
    place[order] = np.arange(len(order))
    near = coo_array(adjacency)
    return float(np.abs(place[near.coords[0]] - place[near.coords[1]]).max())


def factorised(adjacency: SparseMatrix, label: Labels, load: Floats) -> Floats:
    """Potentials phi (d, p) with L phi = load."""
    degree = np.asarray(adjacency.sum(axis=1)).ravel()
    held = np.zeros(len(label))
    # one row of every component has potential 0, which makes the system regular
    held[np.unique(label, return_index=True)[1]] = 1.0
    held *= np.where(degree > 0, degree, 1.0)
    potential: Floats = splu(csc_array(diags_array(degree + held) - adjacency)).solve(load)
    return potential


def conjugate_gradients(adjacency: SparseMatrix, load: Floats) -> tuple[Floats, Floats]:
    """Potentials phi (d, p) with L phi near the load, and the remaining load; the degrees scale the system.

    A factorisation takes half a minute for the nearest neighbours of 8 000 rows in 6 columns, and no
    interrupt ends it. The sums avoid BLAS, whose bits may depend on the number of threads.
    """
    degree = np.asarray(adjacency.sum(axis=1)).reshape(-1, 1)
    scale = np.where(degree > 0, degree, 1.0)
    potential, left = np.zeros_like(load), load.copy()
    towards = left / scale
    direction, size = towards, (left * towards).sum(axis=0)
    enough = _TOLERANCE**2 * size
    for _ in range(_MOST_STEPS):
        going = size > enough
        if not going.any():
            break
        image = degree * direction - adjacency @ direction
        curvature = (direction * image).sum(axis=0)
        step = np.divide(size, curvature, out=np.zeros_like(size), where=going & (curvature > 0))
        potential += step * direction
        left = left - step * image
        towards = left / scale
        before, size = size, (left * towards).sum(axis=0)
        direction = towards + np.divide(size, before, out=np.zeros_like(size), where=before > 0) * direction
    return potential, left


def tree_flow(adjacency: SparseMatrix, label: Labels, load: Floats) -> tuple[NDArray[np.int64], Floats]:
    """The next row towards the root of a spanning tree, -1 at a root, and the flow (d, p) along that edge."""
    parent, flow = np.full(len(label), -1), load.copy()
    for root in np.unique(label, return_index=True)[1]:
        order, before = breadth_first_order(adjacency, root, directed=False)
        parent[order[1:]] = before[order[1:]]
        for row in order[:0:-1]:
            flow[parent[row]] += flow[row]
    return parent, flow
