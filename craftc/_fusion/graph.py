"""The graph of a fusion penalty: nodes, edges between them, and the zero node."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from craftc._common.messages import array_of
from craftc._common.typing import Edges, Floats, Labels
from craftc._kernels import covariates as _kernel

N_NEIGHBORS = 8  # of a nearest-neighbour graph
_LARGEST = 1e100  # largest weight of an edge
_ROUNDING = 1e-12  # asymmetry, relative to the largest weight, that is averaged away


@dataclass(frozen=True)
class Graph:
    """Nodes 0..d-1 (covariates or rows) and edges along which they fuse; node d is the zero node."""

    d: int
    edge: Edges  # (l, 2) pairs i < j, sorted
    weight: Floats  # (l,) > 0
    group_lasso_edges: NDArray[np.bool_]  # (l,) edges to the zero node; nu does not multiply their weight
    node_weight: Floats | None = None  # (d,) > 0 of the ridge on each node; None: 1

    @property
    def sizes(self) -> Floats:
        """(d,) weights of the nodes."""
        return np.ones(self.d) if self.node_weight is None else self.node_weight

    def radius(self, nu: float) -> Floats:
        """(l,) radii of the balls of the dual variables at the fusion penalty nu."""
        return np.where(self.group_lasso_edges, self.weight, nu * self.weight)


def edges_of(matrix: Any, d: int, name: str, node: str) -> tuple[NDArray[np.intp], Floats]:
    """Pairs i < j with S_ij > 0, sorted, and their S_ij; raise unless S is symmetric, finite and >= 0."""
    matrix = matrix if sparse.issparse(matrix) else array_of(name, matrix, "a square array of numbers >= 0")
    if matrix.shape != (d, d):
        raise ValueError(
            f"{name} must have shape ({d}, {d}), one row and column for every {node}, got {matrix.shape}."
        )
    if matrix.dtype.kind not in "fiub":
        raise ValueError(f"{name} must hold numbers, got {matrix.dtype}.")
    if sparse.issparse(matrix):
        matrix = sparse.coo_array(matrix, dtype=np.float64)
        matrix.sum_duplicates()
        values = matrix.data
    else:
        matrix = values = np.asarray(matrix, np.float64)
    wrong = values[~(np.isfinite(values) & (values >= 0))]
    if len(wrong):
        raise ValueError(f"{name} must be finite and >= 0 (0: no edge), got {wrong[0]}.")
    if values.size and values.max() > _LARGEST:
        raise ValueError(
            f"{name} must be at most {_LARGEST:g}, or their sums overflow, got {values.max():.3g}; scale "
            "them down."
        )
    difference = float(abs(matrix - matrix.T).max()) if d else 0.0
    if 0 < difference <= _ROUNDING * float(values.max()):
        matrix = (matrix + matrix.T) / 2
    elif difference > 0:
        raise ValueError(
            f"{name} must be symmetric, got a difference of {difference:.3g} to its transpose; pass (S + "
            "S.T) / 2."
        )
    if not sparse.issparse(matrix):
        row, column = np.nonzero(np.triu(matrix, 1))
        return np.stack([row, column], axis=1), matrix[row, column]
    upper = sparse.triu(matrix, 1, format="coo")
    some = upper.data > 0
    row, column, weight = upper.row[some], upper.col[some], upper.data[some]
    order = np.lexsort((column, row))
    return np.stack([row[order], column[order]], axis=1), weight[order]


def components(graph: Graph, joined: NDArray[np.uint8] | None = None) -> Labels:
    """(d + 1,) connected components over the joined edges (None: all); that of the zero node is the last."""
    joined = np.ones(len(graph.edge), np.uint8) if joined is None else joined
    return zero_node_last(_kernel.components(graph.d + 1, graph.edge, joined)[0])


def zero_node_last(label: Labels) -> Labels:
    """Labels by first appearance, except that the cluster of the zero node gets the largest number."""
    last = label[-1]
    out = label - (label > last)
    out[label == last] = label.max()
    return np.asarray(out.astype(np.int32))


def with_zero_node(rows: Floats) -> Floats:
    """Rows of the nodes, and zeros for the zero node after them."""
    return np.concatenate([rows, np.zeros((1, rows.shape[1]))])


def differences(theta: Floats, edge: Edges) -> Floats:
    """(l, q) theta_i - theta_j of every edge."""
    padded = with_zero_node(theta)
    return np.asarray(padded[edge[:, 0]] - padded[edge[:, 1]])


def lengths(rows: Floats) -> Floats:
    """Euclidean norms of rows."""
    return np.asarray(np.sqrt((rows**2).sum(axis=1)))
