"""Large subproblems: the paper's ADMM with one vector per edge, and accelerated dual ascent (AMA) for convex
clustering.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from craftc._common.threads import threads_for
from craftc._common.typing import Floats
from craftc._fusion.conjugate_gradients import Preconditioner, newton_direction
from craftc._fusion.datafits import Squares
from craftc._fusion.graph import with_zero_node
from craftc._fusion.problem import SolverResult, Subproblem, node_gap, project_onto_balls
from craftc._kernels import covariates as _kernel

OVER_RELAXATION = 1.7
_CHECK_EVERY = 10  # iterations between two evaluations of the gap, and two updates of the penalty
_MAX_CHANGE = 2.0  # of the penalty at once
_RANGE = 1e4  # of the penalty, around one radius per scale of the coefficients
_DAMPED = 100  # iterations after which the penalty changes less and less
_INNER = 0.1  # of the residuals: the gradient that a minimisation over B may leave
_NEWTON_STEPS = 3  # of such a minimisation
_PRODUCTS = 50  # conjugate gradients of a Newton step
_MAX_BLOCKS = 16  # of edges, each with its own node sums


class EdgeDuals:
    """The dual variables of a subproblem's edges, with the buffers of the edge pass."""

    def __init__(self, subproblem: Subproblem, dual: Floats) -> None:
        coarsening = subproblem.coarsening
        self.subproblem, self.lam = subproblem, dual
        project_onto_balls(self.lam, subproblem.radius)
        self.fused = np.zeros(len(coarsening.edge), np.uint8)
        # the node sums of a block must not cost more than its edges
        blocks = min(max(len(coarsening.edge) // (2 * (coarsening.m + 1)), 1), _MAX_BLOCKS)
        self.work = np.empty((blocks, coarsening.m + 1, dual.shape[1]))
        self.n_threads = threads_for(subproblem.n_threads, 10.0 * dual.size)

    def edge_pass(self, b: Floats, step: Floats, relax: float) -> tuple[Floats, float]:
        """Move lam by `relax` times its distance to Proj(lam + step (b_i - b_j)).

        Returns the node sums (m, q) of the projections, and the sum of |change|^2 / step.
        """
        sums = np.empty((len(b) + 1, b.shape[1]))
        moved = _kernel.edge_pass(
            with_zero_node(b),
            self.subproblem.coarsening.edge,
            self.subproblem.radius,
            step,
            relax,
            self.lam,
            self.fused,
            sums,
            self.work,
            self.n_threads,
        )
        return sums[:-1], moved

    def node_sums(self) -> Floats:
        """(m, q) signed sums of the dual variables at every node."""
        out = np.zeros((self.subproblem.coarsening.m + 1, self.lam.shape[1]))
        np.add.at(out, self.subproblem.coarsening.edge[:, 0], self.lam)
        np.subtract.at(out, self.subproblem.coarsening.edge[:, 1], self.lam)
        return out[:-1]


class EdgeAdmm:
    """The paper's ADMM (Section 3), exactly, reduced to one vector per edge, with penalties rho_e.

        lam_e <- Proj(lam_e + rho_e / 2 (b_i - b_j))
        B     <- argmin data fit + ridge |B|^2 + <2 G_new - G_old, B> + 1/2 sum_i D_i |b_i - b_i_old|^2,   D_i
        = sum_e rho_e

    G are the node sums of lam.

    Parameters
    ----------
    subproblem : Subproblem
    theta, dual : ndarray
        Start; `dual` is changed.
    rho : ndarray (edges,)
    """

    def __init__(self, subproblem: Subproblem, theta: Floats, dual: Floats, rho: Floats) -> None:
        self.subproblem, self.X, self.datafit = (
            subproblem,
            subproblem.coarsening.X,
            subproblem.coarsening.datafit,
        )
        self.edges = EdgeDuals(subproblem, dual)
        self.relaxed = theta.copy()
        self.sums = self.edges.node_sums()
        self.theta, self.point = theta, self.datafit.at(self.X, theta)
        self.gradient = self.datafit.gradient(self.X, self.point)  # of the data fit, there
        self.preconditioner = Preconditioner(self.datafit, self.X, self.point)
        self.set_rho(rho)

    def set_rho(self, rho: Floats) -> None:
        """Change the penalties."""
        m, edge = self.subproblem.coarsening.m, self.subproblem.coarsening.edge
        self.rho = rho
        self.damping = np.append(degrees(edge, rho, m), 0.0)[:, None]
        self.scale = self.preconditioner.scale(self.subproblem.weight + self.damping)

    def iterate(self, relax: float, inner: float) -> tuple[float, float]:
        """One iteration, whose step in B may leave a gradient of norm `inner`; the distances B and lam moved,
        each in its own metric.
        """
        m, relaxed = self.subproblem.coarsening.m, self.relaxed
        sums, moved = self.edges.edge_pass(relaxed[:m], 0.5 * self.rho, relax)
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
        """theta <- argmin data fit + 1/2 sum_i (weight_i + D_i) |theta_i|^2 + <linear, theta>, by Newton
        steps of conjugate gradients.
        """
        X, datafit, weight = self.X, self.datafit, self.subproblem.weight + self.damping
        theta, point, data_gradient = self.theta, self.point, self.gradient
        value = point.value + float((0.5 * weight * theta**2 + linear * theta).sum())
        for step in range(_NEWTON_STEPS):
            gradient = data_gradient + weight * theta + linear
            size = float(np.sqrt((gradient**2).sum()))
            if (
                step and size <= tolerance
            ):  # always one step: if B did not move, the balance of the penalty would be misled
                break
            goal = max(0.5 * tolerance, 1e-3 * size)
            direction = newton_direction(datafit, X, point, weight, self.scale, gradient, goal, _PRODUCTS)
            slope, t = float((gradient * direction).sum()), 1.0
            while True:
                trial = theta + t * direction
                point = datafit.at(X, trial)
                new = point.value + float((0.5 * weight * trial**2 + linear * trial).sum())
                if new <= value + 1e-4 * t * slope + 1e-14 * abs(value) or t < 1e-8:
                    break
                t *= 0.5
            theta, value, data_gradient = trial, new, datafit.gradient(X, point)
        self.theta, self.point, self.gradient = theta, point, data_gradient

    def gap(self) -> float:
        """Duality gap, valid after an iteration without relaxation."""
        subproblem, m = self.subproblem, self.subproblem.coarsening.m
        self.theta, self.point = self.datafit.with_best_intercept(self.X, self.theta, self.point)
        self.gradient = self.datafit.gradient(self.X, self.point)
        residual = (self.gradient + subproblem.weight * self.theta)[:m] + self.projected_sums
        size, scale = subproblem.coarsening.size, subproblem.coefficient_scale
        return subproblem.edge_gap(self.theta, self.edges.lam) + node_gap(
            residual, self.theta[:m], subproblem.ridge, size, scale
        )


class Admm:
    """Over-relaxed ADMM until the duality gap is small; its penalties rho_e = stiffness * radius_e are
    balanced as it proceeds.

    Parameters
    ----------
    max_iter : int
        Iterations at every penalty.
    """

    on_clusters = False

    def __init__(self, max_iter: int) -> None:
        self.max_iter, self.n_iter = max_iter, 0
        self.stiffness: float | None = None  # as the last call left it

    def converged(self, gap: float, tol: float) -> bool:
        return gap <= tol

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
            value = (
                admm.point.value
                + 0.5 * float((subproblem.weight * admm.theta**2).sum())
                + subproblem.penalty(admm.theta)
            )
            if (
                gap <= subproblem.accuracy * max(abs(value), subproblem.objective_floor)
                or value - gap > subproblem.limit
            ):
                break
            if moved.min() > 0:
                # towards the penalty at which B and lam move equally far, by ever smaller changes, so that
                # the iteration converges
                change = np.clip((moved[1] / moved[0]) ** 0.25, 1 / _MAX_CHANGE, _MAX_CHANGE)
                natural = 1.0 / subproblem.scale(admm.theta)
                stiffness = float(
                    np.clip(stiffness * change ** min(1.0, _DAMPED / k), natural / _RANGE, natural * _RANGE)
                )
                admm.set_rho(stiffness * subproblem.radius)
            moved[:] = 0.0
        self.stiffness = stiffness
        self.n_iter += k
        return SolverResult(admm.theta, admm.point, admm.edges.lam, admm.edges.fused, k, k >= self.max_iter)


class Ama:
    """Convex clustering by accelerated projected gradients on its dual, with restarts (Chi & Lange).

    Parameters
    ----------
    max_iter : int
        Iterations at every penalty.
    """

    on_clusters = False

    def __init__(self, max_iter: int) -> None:
        self.max_iter, self.n_iter = max_iter, 0

    def converged(self, gap: float, tol: float) -> bool:
        return gap <= tol

    def solve(self, subproblem: Subproblem, theta: Floats, dual: Floats) -> SolverResult:
        coarsening, datafit = subproblem.coarsening, subproblem.coarsening.datafit
        if not isinstance(datafit, Squares):
            raise TypeError("The dual of this data fit has no gradient in closed form.")
        m, edge, weight = coarsening.m, coarsening.edge, subproblem.weight[:-1]
        linear = coarsening.X[:, :m].T
        # steps r_e / (R_i / w_i + R_j / w_j), R_i the sum of radii at a node: below the inverse of the dual's
        # curvature
        load = degrees(edge, subproblem.radius, m) / weight[:, 0]
        step = subproblem.radius / (load[edge[:, 0]] + load[edge[:, 1]])
        edges = EdgeDuals(subproblem, dual)
        lam, t = edges.lam.copy(), 1.0
        sums = extrapolated = edges.node_sums()
        for k in range(1, self.max_iter + 1):
            before = edges.lam.copy()
            new, _ = edges.edge_pass((linear - extrapolated) / weight, step, 1.0)
            if k % _CHECK_EVERY == 0 or k == self.max_iter:
                b = (linear - new) / weight
                value = (
                    float((0.5 * weight * b**2 - linear * b).sum())
                    + datafit.half_squares
                    + subproblem.penalty(b)
                )
                if subproblem.edge_gap(b, edges.lam) <= subproblem.accuracy * max(
                    abs(value), subproblem.objective_floor
                ):
                    break
            next_t = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * t * t))
            momentum, t = (t - 1.0) / next_t, next_t
            if (
                float(((before - edges.lam) * (edges.lam - lam)).sum()) > 0
            ):  # the step goes against the momentum: restart
                momentum, t = 0.0, 1.0
            change, change_of_sums = edges.lam - lam, new - sums
            lam, sums = edges.lam.copy(), new
            edges.lam += momentum * change
            extrapolated = new + momentum * change_of_sums
        theta = with_zero_node((linear - new) / weight)
        self.n_iter += k
        return SolverResult(
            theta, datafit.at(coarsening.X, theta), edges.lam, edges.fused, k, k >= self.max_iter
        )


def degrees(edge: NDArray[np.int32], weight: Floats, m: int) -> Floats:
    """(m,) weighted degrees of the nodes, without the zero node."""
    both = np.bincount(edge[:, 0], weight, minlength=m + 1) + np.bincount(edge[:, 1], weight, minlength=m + 1)
    return np.asarray(both[:m], dtype=np.float64)
