"""Certified optima along a decreasing fusion penalty: coarsen, solve small, certify, split."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from craftc._common.typing import Flags, Floats, Labels
from craftc._fusion.datafits import Loss, Point, Squares
from craftc._fusion.first_order import admm, ama
from craftc._fusion.newton import MOST, SPARSE, WIDEST, newton
from craftc._fusion.paper_admm import PaperAdmm
from craftc._fusion.problem import Found, Graph, Reduced, Task, components, differences, gap_of, ground_last, grounded, lengths
from craftc._kernels import covariates as _kernel

_ROUNDS = 60  # of splits at one penalty
_PASSES = 4000  # of the flows of a certificate
_APART = 0.05  # of the widest difference of residuals in a cluster
_CLOSE = 1e-6  # of the largest coefficient: nearer columns are tried as one
_EXACT = 1e-3  # of that share, for what is to be compared with it
_NEARER = 0.03  # of the distance at which columns may still be one: tried where those at that distance are not
_ROUNDING = 1e-14  # of the objective: no solver is asked for more
_SHARE = 0.1  # of the tolerance that the reduced problem may use


class Solution(NamedTuple):
    """An optimum at one penalty: theta (m + 1, q) with the intercept last, on a partition; J, the dual bound."""

    nu: float
    label: Labels  # (d + 1,)
    theta: Floats
    objective: float
    dual: float
    least: float  # smallest bound that a gap is relative to

    @property
    def relative_gap(self) -> float:
        """Duality gap beside the dual bound."""
        return (self.objective - self.dual) / max(abs(self.dual), self.least)

    def columns(self) -> Floats:
        """(d, q) coefficients of every covariate."""
        return np.asarray(grounded(self.theta[:-1])[self.label[:-1]])


@dataclass
class Walker:
    """Goes down a path of penalties, each optimum the start of the next.

    Parameters
    ----------
    X : array or sparse array (n, d)
    loss : Loss or Squares
    graph : Graph
    ridge : float
        0: there is no dual bound; the gap is then an estimate (:func:`gap_of`).
    tol : float
        Relative duality gap.
    most_steps : int
        Newton steps of the whole path; of the other solvers, iterations at every penalty.
    solver : {"certified", "admm", "ama", "paper"}
        "certified" solves on clusters, the others on all covariates, whose clusters the merge test then finds.
    n_threads : int
    """

    X: Any
    loss: Loss | Squares
    graph: Graph
    ridge: float
    tol: float
    most_steps: int
    solver: str = "certified"
    n_threads: int = 1
    newton_steps: int = field(default=0, init=False)
    iterations: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        edges = len(self.graph.edge)
        self.label = components(self.graph, np.full(edges, self.solver == "certified", np.uint8))
        self.lam = np.zeros((edges, self.loss.q))
        self.theta = self.loss.start(int(self.label[-1]) + 1)
        self.reduced = Reduced(self.X, self.loss, self.graph, self.label)
        self.unit, self.least = self.loss.unit(self.X), self.loss.least
        self.nu = np.inf
        self.before: tuple[float, Floats, Labels] | None = None  # penalty, coefficients and partition of the optimum before the last
        self.stiffness: float | None = None
        self.paper = PaperAdmm(self.most_steps)

    def step(self, nu: float) -> Solution:
        """The optimum at a penalty no larger than the one before."""
        if nu == 0.0 and not self.graph.bound.all():
            self._cut()
        radius = self.graph.radius(nu)
        if self.solver != "certified":
            self._refine(np.arange(self.graph.d + 1, dtype=np.int32))
        if np.isfinite(self.nu):
            self.lam[~self.graph.bound] *= nu / self.nu if self.nu > 0 else 0.0
            self._look_ahead(nu)
        self.nu = nu
        share = _SHARE
        for _ in range(_ROUNDS):
            found, task = self._solve(radius, share, self.solver)
            objective = self._objective(found.point, task)
            dual, split = self._certify(found.point, radius, objective, share)
            if split is not None:
                self._refine(split)
            elif objective - dual <= self.tol * max(abs(dual), self.least) or share < _SHARE * 1e-6 or self._spent(found):
                break
            else:
                share *= 1e-2
        solution = Solution(nu, self.label, self.theta, objective, dual, self.least)
        fewer = self._fewer(found.fused, radius, solution)
        while fewer is not None:
            solution, fused = fewer
            fewer = self._fewer(fused, radius, solution)
        return solution

    def _spent(self, found: Found) -> bool:
        """Whether no more steps may be made at this penalty."""
        return self.solver == "paper" or (self.newton_steps if self.solver == "certified" else found.steps) >= self.most_steps

    def _cut(self) -> None:
        """Without a penalty there are no edges but those to the ground."""
        graph, kept = self.graph, self.graph.bound
        self.graph = Graph(graph.d, np.ascontiguousarray(graph.edge[kept]), graph.weight[kept], graph.bound[kept])
        self.lam = self.lam[kept]
        zero = self.label[self.graph.edge[:, 0]] == self.label[-1]
        self._refine(components(self.graph, zero.astype(np.uint8)))

    def _look_ahead(self, nu: float) -> None:
        """On an unchanged partition the optimum moves smoothly: start where the last two point to."""
        last = self.nu, self.theta, self.label
        if self.before is not None and np.array_equal(self.before[2], self.label):
            self.theta = self.theta + (self.theta - self.before[1]) * ((nu - self.nu) / (self.nu - self.before[0]))
        self.before = last

    def _fewer(self, fused: Flags, radius: Floats, found: Solution) -> tuple[Solution, Flags] | None:
        """The merge test: clusters that are close, or whose edges did not tear, are one if the optimum on fewer columns is as good."""
        reduced = self.reduced
        apart = lengths(differences(self.theta[: reduced.m], reduced.edge))
        size = max(float(np.abs(self.theta[: reduced.m]).max(initial=0.0)), self.unit)
        gap = max(found.objective - found.dual, 0.0)
        # J - J* >= ridge |B - B*|^2: columns farther apart than this are not one at the optimum
        possible = float(np.sqrt(2.0 * gap / self.ridge if self.ridge > 0 else size**2 * gap / max(found.objective, self.least)))
        near = (apart <= _CLOSE * size) | (fused > 0)
        # solved on clusters, few are in doubt and what is wrong is left; solved on all covariates, every cluster has yet to be found
        certified = self.solver == "certified"
        for joined in (apart <= possible, apart <= _NEARER * possible, near) if certified else (near | (apart <= possible),):
            group, count = _kernel.components(reduced.m + 1, reduced.edge, joined.astype(np.uint8))
            if count <= reduced.m:
                merged = self._merged(ground_last(group), radius, found, 1 if certified else _ROUNDS)
                if merged is not None:
                    return merged
        return None

    def _merged(self, group: Labels, radius: Floats, found: Solution, rounds: int) -> tuple[Solution, Flags] | None:
        """The optimum on clusters of clusters, if flows hold them together (or their parts, after a round) and it is as good."""
        kept = self.label, self.theta, self.reduced, self.lam.copy()
        share = _EXACT * _SHARE
        slack = 2.0 * share * self.tol * max(abs(found.objective), self.least)
        self._coarsen(group)
        for _ in range(rounds):
            merged, task = self._solve(radius, share, "certified")
            objective = self._objective(merged.point, task)
            if rounds == 1 and objective > found.objective + slack:
                break
            dual, split = self._certify(merged.point, radius, objective, _SHARE, sure=True)
            if split is not None:
                self._refine(split)
            elif self.label[-1] < kept[0][-1] and objective <= found.objective + slack:
                return Solution(found.nu, self.label, self.theta, objective, max(dual, found.dual), self.least), merged.fused
            else:
                break
        self.label, self.theta, self.reduced, self.lam = kept
        return None

    def _coarsen(self, group: Labels) -> None:
        """Clusters of clusters, each where its members are on average."""
        size = np.append(self.reduced.size, 1.0)[:, None]
        theta = np.zeros((int(group[-1]) + 1, self.theta.shape[1]))
        np.add.at(theta, group, size * grounded(self.theta[:-1]))
        theta /= np.bincount(group, size[:, 0], minlength=len(theta))[:, None]
        theta[-1] = self.theta[-1]
        self.theta, self.label = theta, group[self.label]
        self.reduced = Reduced(self.X, self.loss, self.graph, self.label)

    # ---- the reduced problem ----

    def _solve(self, radius: Floats, share: float, solver: str) -> tuple[Found, Task]:
        """theta becomes the optimum on the partition, lam the flow of its edges."""
        reduced = self.reduced
        task = Task(reduced, reduced.radius(radius), self.ridge, self.unit, max(share * self.tol, _ROUNDING), self.least, self.n_threads)
        flow = reduced.gather(self.lam)
        most = SPARSE if sparse.issparse(reduced.X) else MOST
        small = len(self.theta) * self.loss.q <= most and self.loss.q <= WIDEST
        if solver == "paper":
            found = self.paper.solve(task, self.theta)
            self.iterations += found.steps
        elif solver == "ama":
            found = ama(task, flow, self.most_steps)
            self.iterations += found.steps
        elif solver == "certified" and small:
            found = newton(task, self.theta, flow, self.most_steps - self.newton_steps)
            self.newton_steps += found.steps
        else:
            if self.stiffness is None:
                self.stiffness = 1.0 / task.scale(self.theta)
            found, self.stiffness = admm(task, self.theta, flow, self.most_steps, self.stiffness)
            self.iterations += found.steps
        self.theta = found.theta
        reduced.spread(found.flow, radius, self.lam)
        return found, task

    def _objective(self, point: Point, task: Task) -> float:
        return point.value + 0.5 * float((task.weight * self.theta**2).sum()) + task.penalty(self.theta)

    # ---- the certificate ----

    def _certify(self, point: Point, radius: Floats, scale: float, share: float, sure: bool = False) -> tuple[float, Labels | None]:
        """The dual bound, and a finer partition where flows inside the clusters cannot hold them together.

        Where that is not known after so many passes, they are parted, too, unless `sure`.
        """
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
        goal = 5.0 * share * self.tol * max(abs(scale), self.least)
        if self.ridge > 0:
            least = sizes * (4.0 * self.ridge * goal / d)
        else:
            least = sizes * ((0.5 * goal / max(float(np.sqrt((columns**2).sum())), self.unit)) ** 2 / d)
        inner = np.ascontiguousarray(self.lam[reduced.inside])
        saturated, residual = np.zeros(len(inner), np.uint8), grounded(load)
        verdict = np.zeros(clusters, np.int32)
        work, step = np.empty((2 * len(inner) + 1, load.shape[1])), np.empty(len(inner) + d + 1)
        _kernel.flows(load, reduced.inner_edge, radius[reduced.inside], reduced.first_edge, reduced.node, reduced.first_node, least,
                      _PASSES, inner, saturated, residual, verdict, work, step)
        self.lam[reduced.inside] = inner
        rest = residual[:-1]
        if self.ridge > 0:
            dual = point.entropy - float(((rest - 2.0 * self.ridge * columns) ** 2).sum()) / (4.0 * self.ridge)
        else:
            apart = differences(columns, self.graph.edge)
            slack = float((radius * lengths(apart)).sum() - (self.lam * apart).sum())
            dual = scale - slack - gap_of(rest, columns, 0.0, np.ones(d), self.unit)
        cluster = reduced.label[reduced.inner_edge[:, 0]]
        torn = (verdict == 1 if sure else verdict > 0)[cluster]
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
        self.reduced = Reduced(self.X, self.loss, self.graph, label)
