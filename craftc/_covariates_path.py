"""Certified optima along a decreasing fusion penalty: coarsen, solve small, certify, split (spec: covariates, sections 4 to 6)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack

from craftc._covariates_loss import Loss, Point, column_sums
from craftc._kernels import covariates as _kernel
from craftc._labels import Labels
from craftc._moments import Floats

_ROUNDS = 60  # of splits at one penalty
_PASSES = 4000  # of the flows of a certificate
_NEWTON = 60  # steps of a minimisation
_SLOWER = 0.05  # a step on an old factor that promises more of the last one's fall asks for a new factor
_NEAR = 1e-5  # of the objective: a step that promises no more than this is near enough for an old factor
_APART = 0.05  # of the widest difference of residuals in a cluster
_STEEPER = 5.0  # sigma grows so where the dual lags
_OUTER = 40  # changes of the multipliers
_STIFF = 1e4  # sigma = so many radii per size of the coefficients
_UNIT = 1e-3  # of the coefficient that moves a logit by one: what counts as a coefficient's size where all are zero
_LEAST = 1e-12
_CLOSE = 1e-6  # of the largest coefficient: nearer columns are tried as one
_SHARE = 0.1  # of the tolerance that the reduced problem may use


@dataclass(frozen=True)
class Graph:
    """Covariates, and the edges along which they may be fused.

    edge (l, 2) of int32, i < j, sorted; weight (l,) > 0. `bound` edges (to the ground: node d, the zero vector) have a radius of their
    own, which the fusion penalty leaves alone.
    """

    d: int
    edge: NDArray[np.int32]
    weight: Floats
    bound: NDArray[np.bool_]

    def radius(self, nu: float) -> Floats:
        return np.where(self.bound, self.weight, nu * self.weight)


class Reduced:
    """The problem on clusters of covariates.

    Parameters
    ----------
    X : ndarray (n, d)
    graph : Graph
    label : ndarray (d + 1,) of int32
        Cluster of every covariate, and of the ground.
    """

    def __init__(self, X: Floats, graph: Graph, label: Labels) -> None:
        m = int(label[-1])  # the ground's cluster comes last
        self.label, self.m, self.graph = label, m, graph
        own = label[:-1]
        free = own < m
        self.size = np.bincount(own[free], minlength=m)[:m].astype(np.float64)
        self.X = column_sums(X, own, m)
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


class Solution(NamedTuple):
    """An optimum at one penalty: theta (m + 1, q) with the intercept last, on a partition; J, the dual bound."""

    nu: float
    label: Labels  # (d + 1,)
    theta: Floats
    objective: float
    dual: float

    @property
    def relative_gap(self) -> float:
        """Duality gap beside the dual bound."""
        return (self.objective - self.dual) / max(abs(self.dual), _LEAST)

    def columns(self) -> Floats:
        """(d, q) coefficients of every covariate."""
        return np.asarray(grounded(self.theta[:-1])[self.label[:-1]])


@dataclass
class Walker:
    """Goes down a path of penalties, each optimum the start of the next.

    Parameters
    ----------
    X : ndarray (n, d) of float64
    loss : Loss
    graph : Graph
    ridge : float
    tol : float
        Relative duality gap.
    most_steps : int
        Newton steps of the whole path.
    """

    X: Floats
    loss: Loss
    graph: Graph
    ridge: float
    tol: float
    most_steps: int
    newton_steps: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        d, q = self.graph.d, self.loss.c - 1
        label, _ = _kernel.components(d + 1, self.graph.edge, np.ones(len(self.graph.edge), np.uint8))
        self.label = ground_last(label)
        self.lam = np.zeros((len(self.graph.edge), q))
        self.theta = self.loss.start(int(self.label[-1]) + 1)
        self.reduced = Reduced(self.X, self.graph, self.label)
        self.unit = _UNIT / max(float(np.sqrt(np.einsum("nd,nd->d", self.X, self.X).max() / len(self.X))), _LEAST)
        self.nu = np.inf
        self.before: tuple[float, Floats, Labels] | None = None  # penalty, coefficients and partition of the optimum before the last

    def step(self, nu: float) -> Solution:
        """The optimum at a penalty no larger than the one before."""
        if nu == 0.0 and not self.graph.bound.all():
            self._cut()
        radius = self.graph.radius(nu)
        if np.isfinite(self.nu):
            self.lam[~self.graph.bound] *= nu / self.nu if self.nu > 0 else 0.0
            self._look_ahead(nu)
        self.nu = nu
        share = _SHARE
        for _ in range(_ROUNDS):
            fused, point, r = self._solve(radius, share)
            objective = self._objective(point, r)
            dual, split = self._certify(point, radius, objective, share)
            if split is not None:
                self._refine(split)
            elif objective - dual <= self.tol * max(abs(dual), _LEAST) or share < _SHARE * 1e-6:
                break
            else:
                share *= 1e-2
        return self._fuse(fused, radius, Solution(nu, self.label, self.theta, objective, dual))

    def _cut(self) -> None:
        """Without a penalty there are no edges but those to the ground."""
        graph, kept = self.graph, self.graph.bound
        self.graph = Graph(graph.d, np.ascontiguousarray(graph.edge[kept]), graph.weight[kept], graph.bound[kept])
        self.lam = self.lam[kept]
        zero = self.label[self.graph.edge[:, 0]] == self.label[-1]
        label, _ = _kernel.components(graph.d + 1, self.graph.edge, zero.astype(np.uint8))
        self._refine(ground_last(label))

    def _look_ahead(self, nu: float) -> None:
        """On an unchanged partition the optimum moves smoothly: start where the last two point to."""
        last = self.nu, self.theta, self.label
        if self.before is not None and np.array_equal(self.before[2], self.label):
            self.theta = self.theta + (self.theta - self.before[1]) * ((nu - self.nu) / (self.nu - self.before[0]))
        self.before = last

    def _fuse(self, fused: NDArray[np.uint8], radius: Floats, found: Solution) -> Solution:
        """The merge test: clusters whose edges did not tear are one if the optimum on fewer columns is within the certified gap."""
        reduced = self.reduced
        apart = np.sqrt((_differences(self.theta[: reduced.m], reduced.edge) ** 2).sum(axis=1))
        close = apart <= _CLOSE * max(float(np.abs(self.theta[: reduced.m]).max(initial=0.0)), self.unit)
        joined = (close | (fused > 0)).astype(np.uint8)
        if not joined.any():
            return found
        group, _ = _kernel.components(reduced.m + 1, reduced.edge, joined)
        kept = self.label, self.theta, self.reduced, self.lam.copy()
        coarse = ground_last(group)
        label = coarse[self.label]
        size = np.append(reduced.size, 1.0)[:, None]
        old = grounded(self.theta[:-1])
        theta = np.zeros((int(coarse[-1]) + 1, old.shape[1]))
        np.add.at(theta, coarse, size * old)
        theta /= np.bincount(coarse, size[:, 0], minlength=len(theta))[:, None]
        theta[-1] = self.theta[-1]
        self.label, self.theta, self.reduced = label, theta, Reduced(self.X, self.graph, label)
        _, point, r = self._solve(radius, _SHARE)
        objective = self._objective(point, r)
        if objective - found.dual <= self.tol * max(abs(found.dual), _LEAST):
            return Solution(found.nu, label, self.theta, objective, found.dual)
        self.label, self.theta, self.reduced, self.lam = kept
        return found

    # ---- the reduced problem ----

    def _solve(self, radius: Floats, share: float) -> tuple[NDArray[np.uint8], Point, Floats]:
        """Augmented Lagrangian with semismooth Newton steps: theta becomes the optimum on the partition; what the edges did, their flow."""
        reduced, q = self.reduced, self.loss.c - 1
        m, edge, r = reduced.m, reduced.edge, reduced.radius(radius)
        flow = reduced.gather(self.lam)
        _shrink(flow, r)
        sigma = r * (_STIFF / max(float(np.abs(self.theta[:m]).max(initial=0.0)), self.unit))
        after, fused = np.empty_like(flow), np.zeros(len(edge), np.uint8)
        weight = np.append(2.0 * self.ridge * reduced.size, 0.0)[:, None]
        none = np.empty((1, 1))
        theta = self.theta

        def look(theta: Floats) -> tuple[float, Floats, Point]:
            point = self.loss.at(reduced.X, theta)
            gradient = reduced.X.T @ point.residual + weight * theta
            value = point.value + 0.5 * float((weight * theta * theta).sum())
            value += _kernel.newton_terms(theta[:m], edge, r, sigma, flow, after, fused, gradient, none)
            return value, gradient, point

        for _ in range(_OUTER):
            value, gradient, point = look(theta)
            factor, promised = None, 0.0
            for _ in range(_NEWTON):
                if factor is None:
                    hessian = self.loss.hessian(reduced.X, point)
                    hessian[np.diag_indices(len(hessian))] += np.repeat(weight[:, 0], q)
                    _kernel.newton_terms(theta[:m], edge, r, sigma, flow, after, fused, np.zeros_like(gradient), hessian)
                    factor = _factor(hessian)
                    self.newton_steps += 1
                move = -lapack.dpotrs(factor, gradient.ravel(), lower=1)[0].reshape(gradient.shape)
                fall = -float((gradient * move).sum())
                goal = share * self.tol * max(abs(value), _LEAST)
                if fall <= 1e-4 * goal or self.newton_steps >= self.most_steps:
                    break
                t = 1.0
                while True:
                    there = theta + t * move
                    new, new_gradient, new_point = look(there)
                    if new <= value - 1e-4 * t * fall + 1e-14 * abs(value) or t < 1e-10:
                        break
                    t *= 0.5
                theta, value, gradient, point = there, new, new_gradient, new_point
                if fall <= 1e-2 * goal and t == 1.0:
                    break
                # the old factor serves as long as every step promises much less than the one before
                if t < 1.0 or fall > (_SLOWER * promised if promised else _NEAR * abs(value)):
                    factor = None
                promised = fall
            flow[:] = after
            apart = _differences(theta[:m], edge)
            lag = float((r * np.sqrt((apart**2).sum(axis=1))).sum() - (flow * apart).sum())
            if lag <= goal:
                break
            sigma *= _STEEPER
        self.theta, point = self.loss.balanced(reduced.X, theta, point)
        reduced.spread(flow, radius, self.lam)
        return fused, point, r

    def _objective(self, point: Point, r: Floats) -> float:
        m = self.reduced.m
        apart = _differences(self.theta[:m], self.reduced.edge)
        ridge = self.ridge * float((self.reduced.size[:, None] * self.theta[:m] ** 2).sum())
        return point.value + ridge + float((r * np.sqrt((apart**2).sum(axis=1))).sum())

    # ---- the certificate ----

    def _certify(self, point: Point, radius: Floats, scale: float, share: float) -> tuple[float, Labels | None]:
        """The dual bound, and a finer partition where flows inside the clusters cannot hold them together."""
        reduced, d = self.reduced, self.graph.d
        columns = grounded(self.theta[:-1])[reduced.label[:-1]]
        load = self.X.T @ point.residual + 2.0 * self.ridge * columns
        ends = self.graph.edge[reduced.between]
        forces = self.lam[reduced.between]
        whole = grounded(load)
        np.add.at(whole, ends[:, 0], forces)
        np.subtract.at(whole, ends[:, 1], forces)
        load = np.ascontiguousarray(whole[:-1])
        clusters = reduced.m + 1
        sizes = np.maximum(np.append(reduced.size, d - reduced.size.sum()), 1.0)
        least = sizes * (20.0 * share * self.ridge * self.tol * scale / d)
        inner = np.ascontiguousarray(self.lam[reduced.inside])
        saturated, residual = np.zeros(len(inner), np.uint8), grounded(load)
        verdict = np.zeros(clusters, np.int32)
        work, step = np.empty((2 * len(inner) + 1, load.shape[1])), np.empty(len(inner) + d + 1)
        _kernel.flows(load, reduced.inner_edge, radius[reduced.inside], reduced.first_edge, reduced.node, reduced.first_node, least,
                      _PASSES, inner, saturated, residual, verdict, work, step)
        self.lam[reduced.inside] = inner
        rest = residual[:-1]
        dual = point.entropy - float(((rest - 2.0 * self.ridge * columns) ** 2).sum()) / (4.0 * self.ridge)
        cluster = reduced.label[reduced.inner_edge[:, 0]]
        torn = verdict[cluster] > 0
        if not torn.any():
            return dual, None
        # at the least residual, edges that could carry more leave none between their ends; where that cannot be seen yet, ends that
        # are drawn apart are parted, and the merge test joins what was one
        apart = np.sqrt(((residual[reduced.inner_edge[:, 0]] - residual[reduced.inner_edge[:, 1]]) ** 2).sum(axis=1))
        widest = np.zeros(clusters)
        np.maximum.at(widest, cluster, apart)
        for broken in (saturated > 0, apart > _APART * widest[cluster]):
            label, count = _kernel.components(d + 1, reduced.inner_edge, (~(torn & broken)).astype(np.uint8))
            if count > clusters:
                return dual, ground_last(label)
        return dual, None

    def _refine(self, label: Labels) -> None:
        """A finer partition; new clusters start where the old one was."""
        old = grounded(self.theta[:-1])
        m = int(label[-1])
        theta = np.empty((m + 1, self.theta.shape[1]))
        theta[-1] = self.theta[-1]
        free = label < m
        theta[label[free]] = old[self.reduced.label[free]]
        self.theta, self.label = theta, label
        self.reduced = Reduced(self.X, self.graph, label)


def ground_last(label: Labels) -> Labels:
    """Labels by first appearance, but for the cluster of the last node, which gets the last number."""
    last = label[-1]
    out = label - (label > last)
    out[label == last] = label.max()
    return np.asarray(out.astype(np.int32))


def grounded(rows: Floats) -> Floats:
    """Rows of the nodes, and zeros for the ground behind them."""
    return np.concatenate([rows, np.zeros((1, rows.shape[1]))])


def _differences(theta: Floats, edge: NDArray[np.int32]) -> Floats:
    padded = grounded(theta)
    return np.asarray(padded[edge[:, 0]] - padded[edge[:, 1]])


def _shrink(flow: Floats, radius: Floats) -> None:
    """Onto the balls."""
    norm = np.sqrt((flow**2).sum(axis=1))
    outside = norm > radius
    flow[outside] *= (radius[outside] / norm[outside])[:, None]


def _factor(matrix: Floats) -> Floats:
    """Lower Cholesky factor; a matrix that is not positive in rounding gets a little more on its diagonal."""
    extra = 0.0
    while True:
        factor, info = lapack.dpotrf(matrix, lower=1)
        if info == 0:
            return np.asarray(factor)
        extra = max(10.0 * extra, 1e-14 * float(matrix.diagonal().max()))
        matrix[np.diag_indices(len(matrix))] += extra
