"""Certified optima along a decreasing fusion penalty: coarsen, solve, certify, split."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from craftc._common.estimator import warn_not_converged
from craftc._common.typing import Bits, Flags, Floats, Labels
from craftc._fusion.admm import Admm
from craftc._fusion.datafits import Datafit, Evaluation, Matrix
from craftc._fusion.graph import Graph, components, differences, lengths, with_zero_node, zero_node_last
from craftc._fusion.newton import Newton
from craftc._fusion.paper_admm import PaperAdmm
from craftc._fusion.problem import (
    Coarsening,
    Solver,
    SolverResult,
    Subproblem,
    node_gap,
    outside_balls,
    project_onto_balls,
)
from craftc._kernels import covariates as _kernel

_ROUNDS = 60  # most splits at one penalty
_FLOW_STEPS = 4000  # most FISTA steps of a certificate's flows
_APART = 0.05  # difference of residuals of a cut edge, relative to the largest in the cluster
_CLOSE = 1e-6  # distance of columns that are tried as one, relative to the largest coefficient
_SHARE = 0.1  # share of the tolerance that a subproblem may use
_EXACT = 1e-3  # factor of `_SHARE` for optima whose objectives are compared
_CLOSER = 0.1  # factor of the accuracy of such an optimum if the last one does not decide
_NEARER = 0.03  # second distance at which clusters are tried as one, relative to the largest possible
_ROUNDING = 1e-14  # smallest accuracy of a solver, relative to the objective


class Optimum(NamedTuple):
    """An optimum at one penalty: theta (m + 1, q), the intercept last, on a partition."""

    nu: float
    label: Labels  # (d + 1,)
    theta: Floats
    objective: float
    dual_bound: float
    objective_floor: float  # smallest bound that a gap is relative to

    @property
    def gap(self) -> float:
        """Duality gap."""
        return max(self.objective - self.dual_bound, 0.0)

    @property
    def relative_gap(self) -> float:
        """Duality gap relative to the dual bound."""
        return (self.objective - self.dual_bound) / max(abs(self.dual_bound), self.objective_floor)

    @property
    def n_clusters(self) -> int:
        """Number of clusters, with that of zero coefficients if it has members."""
        return len(np.unique(self.label[:-1]))

    def columns(self) -> Floats:
        """(d, q) coefficients of every node."""
        return np.asarray(with_zero_node(self.theta[:-1])[self.label[:-1]])


class Flows(NamedTuple):
    """The state of the flows inside clusters."""

    saturated: Flags  # (edges,) whether the last projection shrank the edge
    residual: Floats  # (d + 1, q) load and flows
    potential: Floats  # (d + 1, q) the residual; where steps used aggregates, preconditioned
    status: Labels  # (m + 1,)


class Certified:
    """Newton's method, or ADMM where the subproblem is too large for it."""

    on_clusters = True

    def __init__(self, newton: Newton, admm: Admm) -> None:
        self.newton, self.admm = newton, admm

    @property
    def n_iter(self) -> int:
        """Newton steps and ADMM iterations of the whole path."""
        return self.newton.n_iter + self.admm.n_iter

    def solve(self, subproblem: Subproblem, theta: Floats, dual: Floats) -> SolverResult:
        if self.newton.fits(subproblem) or not len(dual):
            return self.newton.solve(subproblem, theta, dual)
        return self.admm.solve(subproblem, theta, dual)._replace(final=self.newton.exhausted)


@dataclass
class RegularizationPath:
    """Optima along decreasing penalties, each the start of the next."""

    X: Matrix  # (n, d)
    datafit: Datafit
    graph: Graph
    ridge: float  # 0: there is no dual bound; the gap is then an estimate (`node_gap`)
    tol: float  # relative duality gap
    max_iter: int  # Newton steps of the whole path; of the other solvers, iterations at every penalty
    solver: str = "certified"  # "paper" takes the clusters from its own flags; others end with a merge test
    n_threads: int = 1
    label: Labels = field(init=False)
    theta: Floats = field(init=False)
    dual: Floats = field(init=False)

    def __post_init__(self) -> None:
        admm = Admm(self.max_iter)
        self._certified = Certified(Newton(self.max_iter), admm)  # also of the merge test
        solvers: dict[str, Callable[[], Solver]] = {
            "certified": lambda: self._certified,
            "admm": lambda: admm,
            "paper": lambda: PaperAdmm(self.max_iter),
        }
        self._solver = solvers[self.solver]()
        edges = len(self.graph.edge)
        self.label = components(self.graph, np.full(edges, self._solver.on_clusters, np.uint8))
        self.dual = np.zeros((edges, self.datafit.q))
        self.theta = self.datafit.start(int(self.label[-1]) + 1)
        self.coarsening = Coarsening(self.X, self.datafit, self.graph, self.label)
        self.coefficient_scale = self.datafit.coefficient_scale(self.X)
        self.objective_floor = self.datafit.objective_floor
        self.nu = np.inf
        self._last: Optimum | None = None
        # penalty, coefficients and partition of the optimum before the last
        self._previous: tuple[float, Floats, Labels] | None = None

    @property
    def n_iter(self) -> int:
        """Newton steps and iterations of the whole path."""
        separate = self._solver not in (self._certified, self._certified.admm)
        return self._certified.n_iter + (self._solver.n_iter if separate else 0)

    def converged(self, optima: list[Optimum]) -> bool:
        """Whether the duality gap, or the stopping rule of the solver, holds for these optima."""
        if isinstance(self._solver, PaperAdmm):
            return not self._solver.exhausted
        return max(optimum.relative_gap for optimum in optima) <= self.tol

    def step(self, nu: float) -> Optimum:
        """The optimum at a penalty no larger than the last one."""
        if nu == 0.0 and not self.graph.group_lasso_edges.all():
            self._remove_fusion_edges()
            self._last = None
        radius = self.graph.radius(nu)
        if self._last is not None and self._holds(self._last, radius):
            self._last = self._last._replace(nu=nu)
        else:
            self._last = self._optimum(nu, radius)
        return self._last

    def _holds(self, optimum: Optimum, radius: Floats) -> bool:
        """Whether the last optimum and its certificate hold with these radii, too: no edge joins two
        clusters, and the flows inside clusters fit.
        """
        if not self._solver.on_clusters or len(self.coarsening.between):
            return False
        return optimum.relative_gap <= self.tol and not outside_balls(self.dual, radius).any()

    def _optimum(self, nu: float, radius: Floats) -> Optimum:
        if not self._solver.on_clusters:
            self._refine(np.arange(self.graph.d + 1, dtype=np.int32))
        if np.isfinite(self.nu):
            # between clusters duals lie on spheres, which shrink; inside, duals that still fit hold the
            # cluster together
            between = self.coarsening.between[~self.graph.group_lasso_edges[self.coarsening.between]]
            self.dual[between] *= nu / self.nu if self.nu > 0 else 0.0
            project_onto_balls(self.dual, radius)
            self._extrapolate(nu)
        self.nu = nu
        share = _SHARE
        for _ in range(_ROUNDS):
            found, subproblem = self._solve(self._solver, radius, share)
            objective = self._objective(found.point, subproblem)
            bound, split = self._certify(found.point, radius, objective, share)
            if split is not None:
                self._refine(split)
            elif (
                objective - bound <= self.tol * max(abs(bound), self.objective_floor)
                or share < _SHARE * 1e-6
                or found.final
            ):
                break
            else:
                share *= 1e-2
        if isinstance(self._solver, PaperAdmm):
            return self._flagged(found.fused, radius, bound)
        optimum = Optimum(nu, self.label, self.theta, objective, bound, self.objective_floor)
        merged: tuple[Optimum, Flags] | None = optimum, found.fused
        while merged is not None:
            optimum, fused, gap = self._more_exact(*merged, radius)
            merged = self._merge_test(fused, radius, optimum, gap)
        return optimum

    def _remove_fusion_edges(self) -> None:
        """Without a fusion penalty only the group lasso edges remain."""
        graph, kept = self.graph, self.graph.group_lasso_edges
        edge = np.ascontiguousarray(graph.edge[kept])
        self.graph = Graph(graph.d, edge, graph.weight[kept], kept[kept], graph.node_weight)
        self.dual = self.dual[kept]
        zero = self.label[self.graph.edge[:, 0]] == self.label[-1]
        self._refine(components(self.graph, zero.astype(np.uint8)))

    def _extrapolate(self, nu: float) -> None:
        """Start from the linear extrapolation of the last two optima if they share the partition."""
        last = self.nu, self.theta, self.label
        if self._previous is not None and np.array_equal(self._previous[2], self.label):
            before, theta, _ = self._previous
            self.theta = self.theta + (self.theta - theta) * ((nu - self.nu) / (self.nu - before))
        self._previous = last

    def _flagged(self, fused: Flags, radius: Floats, bound: float) -> Optimum:
        """Mean coefficients of the components of fused edges; `bound` is that of the iterate on all nodes."""
        group, _ = _kernel.components(self.coarsening.m + 1, self.coarsening.edge, fused)
        self._coarsen(zero_node_last(group))
        point = self.datafit.at(self.coarsening.X, self.theta)
        self.theta, point = self.datafit.with_best_intercept(self.coarsening.X, self.theta, point)
        objective = self._objective(point, self._subproblem(radius, _SHARE))
        return Optimum(self.nu, self.label, self.theta, objective, bound, self.objective_floor)

    def _more_exact(self, optimum: Optimum, fused: Flags, radius: Floats) -> tuple[Optimum, Flags, float]:
        """The optimum, the edges between its clusters that stayed fused, and its gap as an optimum on these
        clusters; more exact where clusters may be one.

        A few Newton steps with the last factor are cheaper than a merge that is rejected.
        """
        gap, coarsening = optimum.gap, self.coarsening
        if not (self._bounds_merges and self._certified.newton.fits(self._subproblem(radius, _SHARE))):
            return optimum, fused, gap
        if not (self._apart() <= self._possible(gap)).any():
            return optimum, fused, gap
        dual = self.dual.copy()
        found, subproblem = self._solve(self._certified, radius, _EXACT * _SHARE)
        objective = self._objective(found.point, subproblem)
        if not objective <= optimum.objective:  # scales differ widely: the rest is rounding
            self.theta, self.dual = optimum.theta, dual
            return optimum, fused, gap
        optimum = optimum._replace(theta=self.theta, objective=objective)
        gradient = self.datafit.gradient(coarsening.X, found.point)
        sums = coarsening.node_sums(found.dual)
        return optimum, found.fused, subproblem.gap(gradient, sums, self.theta, found.dual)

    @property
    def _bounds_merges(self) -> bool:
        """Whether a gap bounds the distance of an optimum on clusters: J - J* >= ridge |B - B*|^2."""
        return self._solver.on_clusters and self.ridge > 0

    def _apart(self) -> Floats:
        """Distances of the clusters that edges join."""
        return lengths(differences(self.theta[: self.coarsening.m], self.coarsening.edge))

    def _possible(self, gap: float) -> float:
        """Clusters farther apart than this are not one at the optimum."""
        return float(np.sqrt(2.0 * gap / self.ridge))

    def _merge_test(
        self, fused: Flags, radius: Floats, optimum: Optimum, gap: float
    ) -> tuple[Optimum, Flags] | None:
        """Merge clusters that are close or whose edges stayed fused, if that does not raise the objective;
        `gap` of the optimum on its clusters.
        """
        coarsening, apart = self.coarsening, self._apart()
        size = max(float(np.abs(self.theta[: coarsening.m]).max(initial=0.0)), self.coefficient_scale)
        if self.ridge > 0:
            possible = self._possible(gap)
        else:
            possible = float(np.sqrt(size**2 * gap / max(optimum.objective, self.objective_floor)))
        near = (apart <= _CLOSE * size) | (fused > 0)
        if self._solver.on_clusters:  # few merges are possible, and a wrong one is rejected at once
            candidates: tuple[Bits, ...] = (apart <= possible, apart <= _NEARER * possible, near)
        else:  # the merge test finds every cluster
            candidates = (near | (apart <= possible),)
        rejected = np.empty(0, np.int32)
        for joined in candidates:
            group, count = _kernel.components(coarsening.m + 1, coarsening.edge, joined.astype(np.uint8))
            if count <= coarsening.m and not np.array_equal(group, rejected):
                merged = self._merged(zero_node_last(group), radius, optimum, gap)
                if merged is not None:
                    return merged
                rejected = group
        return None

    def _merged(
        self, group: Labels, radius: Floats, optimum: Optimum, gap: float
    ) -> tuple[Optimum, Flags] | None:
        """The optimum on groups of clusters, or on parts of groups that flows hold together, if as good."""
        floor, n_clusters = self.objective_floor, int(self.label[-1])
        slack = 2.0 * _EXACT * _SHARE * self.tol * max(abs(optimum.objective), floor)
        bounded = self._bounds_merges
        # J - J* >= ridge |B - B*|^2 bounds the distance of the optimum from an equally good one on groups
        if bounded and self._distance(group) > 2.0 * np.sqrt((gap + slack) / self.ridge):
            return None
        kept = self.label, self.theta, self.coarsening, self.dual.copy()
        self._coarsen(group)
        # a wrong merge is visible long before its optimum is exact; a ridge is needed to bound that optimum
        limit = optimum.objective + slack if bounded else np.inf
        large = bounded and not self._certified.newton.fits(self._subproblem(radius, _SHARE))
        share = _SHARE if large else _EXACT * _SHARE
        for _ in range(1 if self._solver.on_clusters and not bounded else _ROUNDS):
            merged, subproblem = self._solve(self._certified, radius, share, limit)
            objective = self._objective(merged.point, subproblem)
            if objective > limit + subproblem.goal(objective):
                break
            bound, split = self._certify(merged.point, radius, objective, _SHARE, proved_only=True)
            if split is not None:
                self._refine(split)
            elif objective <= optimum.objective + slack:
                bound = max(bound, optimum.dual_bound)
                return Optimum(optimum.nu, self.label, self.theta, objective, bound, floor), merged.fused
            elif share > _EXACT * _SHARE:
                share *= _CLOSER
            else:
                break
            if self.label[-1] >= n_clusters:
                break
        self.label, self.theta, self.coarsening, self.dual = kept
        return None

    def _means(self, group: Labels) -> Floats:
        """(groups, q) mean coefficients of the nodes in groups of clusters; 0 in the last, the zero node."""
        size = self.coarsening.size[:, None]
        means = np.zeros((int(group[-1]) + 1, self.theta.shape[1]))
        np.add.at(means, group[:-1], size * self.theta[:-1])
        means[:-1] /= np.bincount(group[:-1], size[:, 0], minlength=len(means))[:-1, None]
        means[-1] = 0.0
        return means

    def _distance(self, group: Labels) -> float:
        """The smallest distance of B from coefficients that are equal inside groups of clusters."""
        away = self.theta[:-1] - self._means(group)[group[:-1]]
        return float(np.sqrt((self.coarsening.size[:, None] * away**2).sum()))

    def _coarsen(self, group: Labels) -> None:
        """Groups of clusters, each at the mean of its members."""
        theta = self._means(group)
        theta[-1] = self.theta[-1]
        self.theta, self.label = theta, group[self.label]
        hessian = self.coarsening.merged_hessian(group)
        self.coarsening = Coarsening(self.X, self.datafit, self.graph, self.label)
        self.coarsening.hessian = hessian

    # ---- the subproblem ----

    def _solve(
        self, solver: Solver, radius: Floats, share: float, limit: float = np.inf
    ) -> tuple[SolverResult, Subproblem]:
        """theta becomes the optimum on the partition, and `dual` that of its edges."""
        coarsening, subproblem = self.coarsening, self._subproblem(radius, share, limit)
        found = solver.solve(subproblem, self.theta, coarsening.gather(self.dual))
        self.theta = found.theta
        coarsening.spread(found.dual, radius, self.dual)
        return found, subproblem

    def _subproblem(self, radius: Floats, share: float, limit: float = np.inf) -> Subproblem:
        coarsening, scale, floor = self.coarsening, self.coefficient_scale, self.objective_floor
        radius, accuracy = coarsening.radius(radius), max(share * self.tol, _ROUNDING)
        return Subproblem(coarsening, radius, self.ridge, scale, accuracy, floor, self.n_threads, limit)

    def _objective(self, point: Evaluation, subproblem: Subproblem) -> float:
        return subproblem.objective(point, self.theta)

    # ---- the certificate ----

    def _certify(
        self, point: Evaluation, radius: Floats, objective: float, share: float, proved_only: bool = False
    ) -> tuple[float, Labels | None]:
        """The dual bound, and a finer partition where flows inside the clusters cannot hold them together, or
        do not decide it in `_FLOW_STEPS`, unless `proved_only`.
        """
        coarsening, d = self.coarsening, self.graph.d
        columns = with_zero_node(self.theta[:-1])[coarsening.label[:-1]]
        weight = 2.0 * self.ridge * self.graph.sizes[:, None]
        whole = with_zero_node(self.datafit.gradient(self.X, point) + weight * columns)
        ends = self.graph.edge[coarsening.between]
        np.add.at(whole, ends[:, 0], self.dual[coarsening.between])
        np.subtract.at(whole, ends[:, 1], self.dual[coarsening.between])
        tolerance = self._flow_tolerance(columns, objective, share)
        inner, flows = self._flows(np.ascontiguousarray(whole[:-1]), radius, tolerance)
        self.dual[coarsening.inside] = inner
        nodes = flows.residual[:-1]
        if self.ridge > 0:
            bound = point.entropy - 0.5 * float(((nodes - weight * columns) ** 2 / weight).sum())
        else:
            apart = differences(columns, self.graph.edge)
            edge_gap = float((radius * lengths(apart)).sum() - (self.dual * apart).sum())
            bound = objective - edge_gap - node_gap(nodes, columns, 0.0, np.ones(d), self.coefficient_scale)
        torn = flows.status == _kernel.NO_FLOW if proved_only else flows.status != _kernel.FLOW_FOUND
        return bound, self._split(torn, flows.saturated > 0, flows.potential)

    def _flows(self, load: Floats, radius: Floats, tolerance: Floats) -> tuple[Floats, Flows]:
        """The dual variables inside clusters whose flows come closest to cancelling the load."""
        coarsening = self.coarsening
        inside = radius[coarsening.inside]
        inner = np.ascontiguousarray(self.dual[coarsening.inside])
        saturated, status = np.zeros(len(inner), np.uint8), np.zeros(coarsening.m + 1, np.int32)
        flows = Flows(saturated, with_zero_node(load), with_zero_node(load), status)
        graph = coarsening.inner_edge, inside, coarsening.first_edge, coarsening.node, coarsening.first_node
        work = np.empty((2, *inner.shape)), np.empty(len(inner)), np.empty(len(load) + 1)
        found = inner, saturated, flows.residual, status
        aggregates = coarsening.aggregates(inside)
        _kernel.flows(load, *graph, tolerance, _FLOW_STEPS, *found, *work, *aggregates, flows.potential)
        return inner, flows

    def _flow_tolerance(self, columns: Floats, objective: float, share: float) -> Floats:
        """(m + 1,) squared residuals of the clusters' flows that the duality gap may contain."""
        coarsening, d = self.coarsening, self.graph.d
        sizes = np.maximum(np.bincount(coarsening.label[:-1], minlength=coarsening.m + 1), 1.0)
        sizes *= self.graph.sizes.min(initial=1.0)  # a residual of a light node costs most
        goal = 5.0 * share * self.tol * max(abs(objective), self.objective_floor)
        if self.ridge > 0:
            return np.asarray(sizes * (4.0 * self.ridge * goal / d))
        length = max(float(np.sqrt((columns**2).sum())), self.coefficient_scale)
        return np.asarray(sizes * ((0.5 * goal / length) ** 2 / d))

    def _split(self, torn: Bits, saturated: Bits, residual: Floats) -> Labels | None:
        """A finer partition, without the saturated edges of the torn clusters; None if nothing splits."""
        coarsening, clusters = self.coarsening, self.coarsening.m + 1
        edge = coarsening.inner_edge
        cluster = coarsening.label[edge[:, 0]]
        cut = torn[cluster]
        if not cut.any():
            return None
        # at the least residual, an edge that could carry more leaves no difference between its ends; a
        # saturated one need not leave any. Where the flow is not that exact yet, cut all edges with a large
        # difference; the merge test joins again what belongs together
        apart = np.sqrt(((residual[edge[:, 0]] - residual[edge[:, 1]]) ** 2).sum(axis=1))
        largest = np.zeros(clusters)
        np.maximum.at(largest, cluster, apart)
        far = apart > _APART * largest[cluster]
        for broken in (saturated & far, far):
            label, count = _kernel.components(self.graph.d + 1, edge, (~(cut & broken)).astype(np.uint8))
            if count > clusters:
                return zero_node_last(label)
        return None

    def _refine(self, label: Labels) -> None:
        """A finer partition; new clusters start at the coefficients of the old one."""
        old = with_zero_node(self.theta[:-1])
        m = int(label[-1])
        theta = np.empty((m + 1, self.theta.shape[1]))
        theta[-1] = self.theta[-1]
        free = label < m
        theta[label[free]] = old[self.coarsening.label[free]]
        self.theta, self.label = theta, label
        self.coarsening = Coarsening(self.X, self.datafit, self.graph, label)


def follow(
    path: RegularizationPath,
    penalties: Iterable[float],
    ends: Callable[[list[int]], bool],
    *,
    verbose: int,
    estimator: object,
    name: str = "penalty",
) -> list[Optimum]:
    """Optima along penalties, until `ends` accepts their numbers of clusters; warn unless all are reached.

    Raises ValueError where an optimum is not finite.
    """
    optima: list[Optimum] = []
    counts: list[int] = []
    for nu in penalties:
        with np.errstate(over="ignore", invalid="ignore"):
            optimum = path.step(float(nu))
        if not np.isfinite(optimum.objective):
            raise ValueError(
                f"{type(estimator).__name__} has no finite result at {name}={nu:.6g}: numbers, weights or "
                "parameters are too large or too small for float64; scale them."
            )
        optima.append(optimum)
        counts.append(optimum.n_clusters)
        if verbose:
            reached = f"J {optimum.objective:.6g}, relative gap {optimum.relative_gap:.1e}"
            print(f"{name} {nu:.6g}: {counts[-1]} clusters, {reached}")
        if ends(counts):
            break
    if not path.converged(optima):
        gap = max(optimum.relative_gap for optimum in optima)
        remedy = f"the largest relative duality gap is {gap:.1e} with tol={path.tol:g}: raise max_iter or tol"
        warn_not_converged(estimator, path.n_iter, "iterations", remedy)
    return optima
