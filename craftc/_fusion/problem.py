"""The problem on clusters of nodes, its solution at one penalty, and the protocol of its solvers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np

from craftc._common.typing import Bits, Flags, Floats, Labels
from craftc._fusion.aggregates import Aggregates
from craftc._fusion.datafits import Datafit, Evaluation, Matrix
from craftc._fusion.graph import Graph, differences, lengths

_CHANGED = 0.05  # change of the entropy, relative, from which the data fit has another Hessian
_FACTORS = 4  # most factorisations with one Hessian of the data fit


@dataclass
class Curvature:
    """The Hessian of a data fit at a point of this entropy, kept for other points."""

    matrix: Floats  # ((m + 1) q, (m + 1) q)
    entropy: float
    factors: int = 0  # factorisations with it

    def outdated(self, point: Evaluation) -> bool:
        """Whether the Hessian at a point is probably another."""
        changed = abs(point.entropy - self.entropy) > _CHANGED * abs(self.entropy)
        return changed or self.factors >= _FACTORS


class Coarsening:
    """Clusters `label` (d + 1,) of nodes, the zero node's last: sums of columns, edges between, inside."""

    def __init__(self, X: Matrix, datafit: Datafit, graph: Graph, label: Labels) -> None:
        m = int(label[-1])
        self.m, self.label, self.graph, self.datafit = m, label, graph, datafit
        own = label[:-1]
        free = own < m
        self.size = np.bincount(own[free], graph.sizes[free], minlength=m)[:m].astype(np.float64)
        self.X = datafit.columns(X, own, m)
        order = np.argsort(own, kind="stable")
        first = np.searchsorted(own[order], np.arange(m + 1))
        ends = label[graph.edge]
        inside = ends[:, 0] == ends[:, 1]
        low, high = ends.min(axis=1), ends.max(axis=1)
        between = np.flatnonzero(~inside)
        pair, merged = np.unique(low[between].astype(np.int64) * (m + 1) + high[between], return_inverse=True)
        self.edge = np.stack([pair // (m + 1), pair % (m + 1)], axis=1).astype(np.int32)
        self.between, self.merged = between, merged
        self.sign = np.where(ends[between, 0] == low[between], 1.0, -1.0)[:, None]
        self.inside = np.flatnonzero(inside)
        # edges and nodes inside clusters, cluster after cluster
        cluster = ends[self.inside, 0]
        self.inside = self.inside[np.argsort(cluster, kind="stable")]
        self.first_edge = np.searchsorted(np.sort(cluster), np.arange(m + 2)).astype(np.intp)
        self.node, self.first_node = order.astype(np.int32), np.append(first, graph.d).astype(np.intp)
        self.inner_edge = np.ascontiguousarray(graph.edge[self.inside])
        # Newton's method keeps these from one penalty to the next
        self.hessian: Curvature | None = None
        self.factor: Floats | None = None
        self.sigma_scale = 1.0
        self._aggregates: Aggregates | None = None

    @cached_property
    def max_curvature(self) -> float:
        """That of the data fit on the sums of columns."""
        return self.datafit.max_curvature(self.X)

    def aggregates(self, radius: Floats) -> Aggregates:
        """Aggregates of the nodes inside large clusters, for edges inside clusters of these radii."""
        # without a group lasso, radii change by a common factor only
        if self._aggregates is None or self.graph.group_lasso_edges.any():
            self._aggregates = Aggregates.of(self.inner_edge, radius, self.label, self.first_node)
        return self._aggregates

    def merged_hessian(self, group: Labels) -> Curvature | None:
        """The Hessian of the data fit for groups of clusters: sums of blocks; None if not known."""
        if self.hessian is None:
            return None
        q, m = self.datafit.q, int(group[-1])
        # the last column is the intercept's; clusters joined to the zero node have none
        place = np.append(group[:-1], m)
        _, first = np.unique(np.append(group[:-1], m + 1), return_index=True)
        first = np.append(first[:m], self.m)
        entries = np.arange(q)
        kept = (first[:, None] * q + entries).ravel()
        matrix = self.hessian.matrix
        out = matrix[:, kept]
        rest = [i for i in np.setdiff1d(np.arange(self.m), first) if group[i] < m]
        for i in rest:
            out[:, place[i] * q + entries] += matrix[:, i * q + entries]
        rows = out[kept]
        for i in rest:
            rows[place[i] * q + entries] += out[i * q + entries]
        return Curvature(rows, self.hessian.entropy)

    def radius(self, radius: Floats) -> Floats:
        """Radii of the edges between clusters: sums of the radii of the graph's edges that they merge."""
        return np.bincount(self.merged, radius[self.between], minlength=len(self.edge)).astype(np.float64)

    def gather(self, dual: Floats) -> Floats:
        """Dual variables of the edges between clusters: sums of the duals (l, q) of the graph's edges."""
        out = np.zeros((len(self.edge), dual.shape[1]))
        np.add.at(out, self.merged, self.sign * dual[self.between])
        return out

    def node_sums(self, dual: Floats) -> Floats:
        """(m, q) signed sums of dual variables of the edges between clusters, at every cluster."""
        out = np.zeros((self.m + 1, dual.shape[1]))
        np.add.at(out, self.edge[:, 0], dual)
        np.subtract.at(out, self.edge[:, 1], dual)
        return out[:-1]

    def spread(self, coarse: Floats, radius: Floats, dual: Floats) -> None:
        """The inverse of `gather`: each of the graph's edges between clusters gets its share by radius."""
        share = radius[self.between] / np.maximum(self.radius(radius)[self.merged], 1e-300)
        dual[self.between] = self.sign * share[:, None] * coarse[self.merged]


@dataclass(frozen=True)
class Subproblem:
    """The problem on a coarsening at one penalty, to be solved to a relative accuracy.

    Minimise over theta: data fit + 1/2 sum_i weight_i |theta_i|^2 + sum_e radius_e |theta_i - theta_j|.
    """

    coarsening: Coarsening
    radius: Floats
    ridge: float
    coefficient_scale: float  # scale of the coefficients where all are zero
    accuracy: float  # of the objective, relative
    objective_floor: float  # smallest objective that an accuracy refers to
    n_threads: int
    limit: float = np.inf  # objective above which a solver may give up

    @property
    def weight(self) -> Floats:
        """(m + 1, 1) of the ridge; the intercept has none."""
        return np.append(2.0 * self.ridge * self.coarsening.size, 0.0)[:, None]

    def scale(self, theta: Floats) -> float:
        """The largest coefficient, at least `coefficient_scale`."""
        return max(float(np.abs(theta[: self.coarsening.m]).max(initial=0.0)), self.coefficient_scale)

    def penalty(self, theta: Floats) -> float:
        """sum_e radius_e |theta_i - theta_j|."""
        apart = differences(theta[: self.coarsening.m], self.coarsening.edge)
        return float((self.radius * lengths(apart)).sum())

    def objective(self, point: Evaluation, theta: Floats) -> float:
        """The objective at theta, where the data fit is `point`."""
        return point.value + 0.5 * float((self.weight * theta**2).sum()) + self.penalty(theta)

    def goal(self, value: float) -> float:
        """The duality gap to be reached at an objective of this value."""
        return self.accuracy * max(abs(value), self.objective_floor)

    def node_gap(self, residual: Floats, theta: Floats) -> float:
        """`node_gap` of residuals (m + 1, q) at theta."""
        size, m = self.coarsening.size, self.coarsening.m
        return node_gap(residual[:m], theta[:m], self.ridge, size, self.coefficient_scale)

    def gap(self, gradient: Floats, sums: Floats, theta: Floats, dual: Floats) -> float:
        """Duality gap at theta with the best intercept, where the data fit has this gradient and the dual
        variables these sums at the nodes.
        """
        residual = gradient + self.weight * theta
        residual[:-1] += sums
        return self.edge_gap(theta, dual) + self.node_gap(residual, theta)

    def edge_gap(self, theta: Floats, dual: Floats) -> float:
        """The edges' part of the duality gap: penalty less the inner product with the dual variables."""
        apart = differences(theta[: self.coarsening.m], self.coarsening.edge)
        return float((self.radius * lengths(apart)).sum() - (dual * apart).sum())


def node_gap(residual: Floats, theta: Floats, ridge: float, size: Floats, coefficient_scale: float) -> float:
    """The nodes' part of the duality gap, from the residuals (m, q) of the stationarity conditions.

    Without a ridge: an estimate, how far the objective can fall if the optimum is no larger than `theta`.
    """
    if ridge > 0:
        return float((residual**2 / size[:, None]).sum()) / (4.0 * ridge)
    length = max(float(np.sqrt((size[:, None] * theta**2).sum())), coefficient_scale)
    return 2.0 * float(np.sqrt((residual**2).sum())) * length


def outside_balls(dual: Floats, radius: Floats) -> Bits:
    """Which dual variables are outside their balls."""
    return lengths(dual) > radius


def project_onto_balls(dual: Floats, radius: Floats) -> None:
    """Shrink the dual variables that are outside their balls, in place."""
    outside = outside_balls(dual, radius)
    if outside.any():
        dual[outside] *= (radius[outside] / lengths(dual[outside]))[:, None]


class SolverResult(NamedTuple):
    """The last iterate of a solver."""

    theta: Floats  # (m + 1, q) coefficients, the intercept last
    point: Evaluation  # the data fit there
    dual: Floats  # (edges, q) dual variables of the edges, inside their balls
    fused: Flags  # (edges,) whether the last projection changed nothing
    n_iter: int
    final: bool  # another call at the same penalty cannot be more accurate


class Solver(Protocol):
    """Solves the subproblems of a path, each from the solution of the one before; may keep state."""

    # True: subproblems are on clusters of nodes; False: on all nodes, and the merge test finds the clusters
    on_clusters: bool

    @property
    def n_iter(self) -> int:
        """Iterations of the whole path."""

    def solve(self, subproblem: Subproblem, theta: Floats, dual: Floats) -> SolverResult:
        """The optimum from a start; `dual` may be changed."""
