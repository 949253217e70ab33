"""The problem on clusters of covariates, small enough to be solved."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from craftc._common.typing import Edges, Floats, Labels
from craftc._fusion.datafits import Loss, Point, Squares
from craftc._kernels import covariates as _kernel


@dataclass(frozen=True)
class Graph:
    """Covariates, and the edges along which they may be fused.

    edge (l, 2) of int32, i < j, sorted; weight (l,) > 0. `bound` edges (to the ground: node d, the zero vector) have a radius of their
    own, which the fusion penalty leaves alone.
    """

    d: int
    edge: Edges
    weight: Floats
    bound: NDArray[np.bool_]

    def radius(self, nu: float) -> Floats:
        return np.where(self.bound, self.weight, nu * self.weight)


def components(graph: Graph, joined: NDArray[np.uint8] | None = None) -> Labels:
    """(d + 1,) connected components over the joined edges (None: all), that of the ground last."""
    label, _ = _kernel.components(graph.d + 1, graph.edge, np.ones(len(graph.edge), np.uint8) if joined is None else joined)
    return ground_last(label)


class Reduced:
    """Clusters of covariates, the edges between them, and those inside.

    Parameters
    ----------
    X : array or sparse array (n, d)
    loss : Loss or Squares
    graph : Graph
    label : ndarray (d + 1,) of int32
        Cluster of every covariate, and of the ground, which has the last.
    """

    def __init__(self, X: Any, loss: Loss | Squares, graph: Graph, label: Labels) -> None:
        m = int(label[-1])
        self.m, self.label, self.graph, self.loss = m, label, graph, loss
        own = label[:-1]
        free = own < m
        self.size = np.bincount(own[free], minlength=m)[:m].astype(np.float64)
        self.X = loss.columns(X, own, m)
        order = np.argsort(own, kind="stable")
        first = np.searchsorted(own[order], np.arange(m + 1))
        ends = label[graph.edge]
        inside = ends[:, 0] == ends[:, 1]
        low, high = ends.min(axis=1), ends.max(axis=1)
        between = np.flatnonzero(~inside)
        pair, place = np.unique(low[between].astype(np.int64) * (m + 1) + high[between], return_inverse=True)
        self.edge = np.stack([pair // (m + 1), pair % (m + 1)], axis=1).astype(np.int32)
        self.between, self.place = between, place
        self.sign = np.where(ends[between, 0] == low[between], 1.0, -1.0)[:, None]
        self.inside = np.flatnonzero(inside)
        # edges and nodes inside clusters, cluster after cluster
        cluster = ends[self.inside, 0]
        self.inside = self.inside[np.argsort(cluster, kind="stable")]
        self.first_edge = np.searchsorted(np.sort(cluster), np.arange(m + 2)).astype(np.intp)
        self.node, self.first_node = order.astype(np.int32), np.append(first, graph.d).astype(np.intp)
        self.inner_edge = np.ascontiguousarray(graph.edge[self.inside])
        self.curvature: Floats | None = None  # the loss's Hessian, and the factor of the whole, as a solver left them
        self.factor: Floats | None = None
        self.stiffness = 1.0

    def radius(self, radius: Floats) -> Floats:
        """Radii of the edges between clusters: sums of those they stand for."""
        return np.asarray(np.bincount(self.place, radius[self.between], minlength=len(self.edge)), dtype=np.float64)

    def gather(self, lam: Floats) -> Floats:
        """Dual variables (l, q) summed over the edges that an edge between clusters stands for."""
        out = np.zeros((len(self.edge), lam.shape[1]))
        np.add.at(out, self.place, self.sign * lam[self.between])
        return out

    def spread(self, flow: Floats, radius: Floats, lam: Floats) -> None:
        """The other way: every edge between clusters takes its share by radius."""
        share = radius[self.between] / np.maximum(self.radius(radius)[self.place], 1e-300)
        lam[self.between] = self.sign * share[:, None] * flow[self.place]


class Found(NamedTuple):
    """What a solver of a reduced problem returns."""

    theta: Floats  # (m + 1, q) coefficients, the intercept last
    point: Point  # the loss there
    flow: Floats  # (edges, q) dual variables of the edges, inside their balls
    fused: NDArray[np.uint8]  # (edges,) whether the last projection changed nothing
    steps: int


@dataclass(frozen=True)
class Task:
    """A reduced problem at one penalty, to be solved to a relative accuracy.

    The optimum over theta of loss + 1/2 sum_i weight_i |theta_i|^2 + sum_e radius_e |theta_i - theta_j|.
    """

    reduced: Reduced
    radius: Floats
    ridge: float
    unit: float  # what counts as a coefficient's size where all are zero
    accuracy: float  # of the objective, relative
    least: float  # smallest objective that an accuracy is relative to
    n_threads: int

    @property
    def weight(self) -> Floats:
        """(m + 1, 1) of the ridge, nothing on the intercept."""
        return np.append(2.0 * self.ridge * self.reduced.size, 0.0)[:, None]

    def scale(self, theta: Floats) -> float:
        return max(float(np.abs(theta[: self.reduced.m]).max(initial=0.0)), self.unit)

    def penalty(self, theta: Floats) -> float:
        """sum_e radius_e |theta_i - theta_j|."""
        return float((self.radius * lengths(differences(theta[: self.reduced.m], self.reduced.edge))).sum())

    def slack(self, theta: Floats, flow: Floats) -> float:
        """What the penalty is above the product with the flow: 0 where the two belong together."""
        apart = differences(theta[: self.reduced.m], self.reduced.edge)
        return float((self.radius * lengths(apart)).sum() - (flow * apart).sum())


def gap_of(rest: Floats, theta: Floats, ridge: float, size: Floats, unit: float) -> float:
    """The duality gap beside the slack: of what forces `rest` (m, q) are left at the nodes.

    Without a ridge no bound is known; then it is what the objective could fall by if the optimum were no larger than `theta`.
    """
    if ridge > 0:
        return float((rest**2 / size[:, None]).sum()) / (4.0 * ridge)
    return 2.0 * float(np.sqrt((rest**2).sum())) * max(float(np.sqrt((size[:, None] * theta**2).sum())), unit)


def ground_last(label: Labels) -> Labels:
    """Labels by first appearance, but for the cluster of the last node, which gets the last number."""
    last = label[-1]
    out = label - (label > last)
    out[label == last] = label.max()
    return np.asarray(out.astype(np.int32))


def grounded(rows: Floats) -> Floats:
    """Rows of the nodes, and zeros for the ground behind them."""
    return np.concatenate([rows, np.zeros((1, rows.shape[1]))])


def differences(theta: Floats, edge: Edges) -> Floats:
    padded = grounded(theta)
    return np.asarray(padded[edge[:, 0]] - padded[edge[:, 1]])


def lengths(rows: Floats) -> Floats:
    return np.asarray(np.sqrt((rows**2).sum(axis=1)))


def shrink(flow: Floats, radius: Floats) -> None:
    """Onto the balls."""
    norm = lengths(flow)
    outside = norm > radius
    flow[outside] *= (radius[outside] / norm[outside])[:, None]
