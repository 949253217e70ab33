"""Large subproblems: the paper's ADMM with one vector per edge."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from craftc._common.threads import threads_for
from craftc._common.typing import Floats
from craftc._fusion.conjugate_gradients import Preconditioner, line_search, newton_direction
from craftc._fusion.datafits import Evaluation
from craftc._fusion.graph import with_zero_node
from craftc._fusion.problem import SolverResult, Subproblem, project_onto_balls
from craftc._kernels import covariates as _kernel

OVER_RELAXATION = 1.7
_CHECK_EVERY = 10  # iterations between two evaluations of the gap, and two updates of the penalty
_MAX_CHANGE = 2.0  # largest factor of one update of the penalty
_RANGE = 1e4  # largest factor of the penalty, around one radius per scale of the coefficients
_DAMPED = 100  # iterations after which updates of the penalty shrink
_INNER = 0.1  # gradient that a minimisation over B may leave, relative to the residuals
_NEWTON_STEPS = 3  # most Newton steps of such a minimisation
_PRODUCTS = 50  # most products of conjugate gradients of a Newton step
_MAX_BLOCKS = 16  # most blocks of edges, each with its own node sums


class EdgeAdmm:
    """The paper's ADMM (Section 3), exactly, reduced to one vector per edge, with penalties rho_e.

        lam_e <- Proj(lam_e + rho_e / 2 (b_i - b_j))
        B     <- argmin data fit + ridge |B|^2 + <2 G_new - G_old, B> + 1/2 sum_i D_i |b_i - b_i_old|^2

    G are the node sums of lam, D_i = sum_e rho_e. The start `dual` (edges, q) is changed.
    """

    def __init__(self, subproblem: Subproblem, theta: Floats, dual: Floats, rho: Floats) -> None:
        coarsening = subproblem.coarsening
        self.subproblem, self.X, self.datafit = subproblem, coarsening.X, coarsening.datafit
        self.edge, self.lam = coarsening.edge, dual
        project_onto_balls(self.lam, subproblem.radius)
        self.fused = np.zeros(len(self.edge), np.uint8)
        # the node sums of a block must not cost more than its edges
        blocks = min(max(len(self.edge) // (2 * (coarsening.m + 1)), 1), _MAX_BLOCKS)
        self.work = np.empty((blocks, coarsening.m + 1, dual.shape[1]))
        self.n_threads = threads_for(subproblem.n_threads, 10.0 * dual.size)
        self.sums = coarsening.node_sums(self.lam)
        self.relaxed = theta.copy()
        self.theta, self.point = theta, self.datafit.at(self.X, theta)
        self.gradient = self.datafit.gradient(self.X, self.point)  # of the data fit, there
        self.preconditioner = Preconditioner(self.datafit, self.X, self.point)
        self.set_rho(rho)

    def set_rho(self, rho: Floats) -> None:
        """Change the penalties."""
        self.rho = rho
        self.damping = np.append(degrees(self.edge, rho, self.subproblem.coarsening.m), 0.0)[:, None]
        self.scale = self.preconditioner.scale(self.subproblem.weight + self.damping)

    def iterate(self, relax: float, inner: float) -> tuple[float, float]:
        """One iteration, that leaves a gradient of norm `inner`; the distances B and lam moved."""
        relaxed, step, radius = self.relaxed, 0.5 * self.rho, self.subproblem.radius
        nodes = with_zero_node(relaxed[:-1])
        sums = np.empty_like(nodes)
        moved = _kernel.edge_pass(
            nodes, self.edge, radius, step, relax, self.lam, self.fused, sums, self.work, self.n_threads
        )
        sums = sums[:-1]  # of the projections
        linear = with_zero_node(2.0 * sums - self.sums) - self.damping * relaxed
        self.residual = float(np.sqrt(((sums - self.sums) ** 2).sum()))
        self._minimise(linear, inner)
        change = self.theta - relaxed
        self.relaxed = relaxed + relax * change
        self.sums = self.sums + relax * (sums - self.sums)
        self.projected_sums = sums
        self.residual = max(self.residual, float(np.sqrt(((self.damping * change) ** 2).sum())))
        return float(np.sqrt((self.damping * change**2).sum())), float(np.sqrt(2.0 * moved))

    def _minimise(self, linear: Floats, tolerance: float) -> None:
        """theta <- argmin data fit + 1/2 sum_i (weight_i + D_i) |theta_i|^2 + <linear, theta>, by Newton."""
        X, datafit, weight = self.X, self.datafit, self.subproblem.weight + self.damping
        theta, point, data_gradient = self.theta, self.point, self.gradient

        def objective(theta: Floats) -> tuple[float, Evaluation]:
            point = datafit.at(X, theta)
            return point.value + float((0.5 * weight * theta**2 + linear * theta).sum()), point

        value = point.value + float((0.5 * weight * theta**2 + linear * theta).sum())
        for step in range(_NEWTON_STEPS):
            gradient = data_gradient + weight * theta + linear
            size = float(np.sqrt((gradient**2).sum()))
            if step and size <= tolerance:  # one step at least: an update of the penalty compares moves
                break
            goal = max(0.5 * tolerance, 1e-3 * size)
            direction = newton_direction(datafit, X, point, weight, self.scale, gradient, goal, _PRODUCTS)
            decrease = -float((gradient * direction).sum())
            _, _, trial, (new, point) = line_search(objective, theta, direction, value, decrease)
            theta, value, data_gradient = trial, new, datafit.gradient(X, point)
        self.theta, self.point, self.gradient = theta, point, data_gradient

    def gap(self) -> float:
        """Duality gap, valid after an iteration without relaxation."""
        self.theta, self.point = self.datafit.with_best_intercept(self.X, self.theta, self.point)
        self.gradient = self.datafit.gradient(self.X, self.point)
        return self.subproblem.gap(self.gradient, self.projected_sums, self.theta, self.lam)


class Admm:
    """Over-relaxed ADMM with balanced penalties, at most `max_iter` iterations at every fusion penalty."""

    on_clusters = False

    def __init__(self, max_iter: int) -> None:
        self.max_iter, self.n_iter = max_iter, 0
        self.stiffness: float | None = None  # as the last call left it

    def solve(self, subproblem: Subproblem, theta: Floats, dual: Floats) -> SolverResult:
        stiffness = 1.0 / subproblem.scale(theta) if self.stiffness is None else self.stiffness
        admm = EdgeAdmm(subproblem, theta, dual, stiffness * subproblem.radius)
        inner, moved = np.inf, np.zeros(2)
        for k in range(1, self.max_iter + 1):
            check = k % _CHECK_EVERY == 0 or k == self.max_iter
            moved += np.square(admm.iterate(1.0 if check else OVER_RELAXATION, inner))
            inner = _INNER * admm.residual
            if not check:
                continue
            gap = admm.gap()
            value = subproblem.objective(admm.point, admm.theta)
            if gap <= subproblem.goal(value) or value - gap > subproblem.limit:
                break
            if moved.min() > 0:
                # towards the penalty at which B and lam move equally far, by ever smaller changes, so that
                # the iteration converges
                change = np.clip((moved[1] / moved[0]) ** 0.25, 1 / _MAX_CHANGE, _MAX_CHANGE)
                natural = 1.0 / subproblem.scale(admm.theta)
                balanced = stiffness * change ** min(1.0, _DAMPED / k)
                stiffness = float(np.clip(balanced, natural / _RANGE, natural * _RANGE))
                admm.set_rho(stiffness * subproblem.radius)
            moved[:] = 0.0
        self.stiffness = stiffness
        self.n_iter += k
        return SolverResult(admm.theta, admm.point, admm.lam, admm.fused, k, k >= self.max_iter)


def degrees(edge: NDArray[np.int32], weight: Floats, m: int) -> Floats:
    """(m,) weighted degrees of the nodes, without the zero node."""
    out, into = (np.bincount(ends, weight, minlength=m + 1)[:m] for ends in edge.T)
    return np.asarray(out + into, dtype=np.float64)
