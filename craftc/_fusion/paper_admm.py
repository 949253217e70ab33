"""The paper's own ADMM, with copies of both ends of every edge, and its stopping rule."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize

from craftc._common.typing import Floats
from craftc._fusion.graph import lengths
from craftc._fusion.problem import SolverResult, Subproblem, project_onto_balls

RHO = 1.0
EPS = 1e-5
_MIN_ITER = 11  # least iterations: a warm start can meet the stopping rule without a move


class PaperAdmm:
    """Keeps B, the copies z and the multipliers u from one penalty to the next.

    z and u have an entry (2, l, q) for both ends of the l edges; the entry of the zero node stays zero.
    """

    on_clusters = False

    def __init__(self, max_iter: int) -> None:
        self.max_iter, self.n_iter, self.theta = max_iter, 0, np.empty((0, 0))
        self.z = self.u = np.empty((2, 0, 0))
        self.exhausted = False  # whether the stopping rule was not met at some penalty

    def solve(self, subproblem: Subproblem, theta: Floats, dual: Floats) -> SolverResult:
        """Iterate until |z - b| and rho |z - z_old| are at most sqrt(c (d + 2 l)) eps."""
        coarsening, datafit = subproblem.coarsening, subproblem.coarsening.datafit
        d, edge, q = coarsening.m, coarsening.edge, datafit.q
        group_lasso = edge[:, 1] == d
        zero_end = group_lasso[None, :, None] & np.array([False, True])[:, None, None]
        degree = np.bincount(edge.ravel(), minlength=d + 1)[:d]
        if self.theta.shape != theta.shape or self.z.shape[1] != len(edge):
            self.theta = theta
            self.z = np.where(zero_end, 0.0, np.append(theta[:d], np.zeros((1, q)), axis=0)[edge.T])
            self.u = np.zeros_like(self.z)
        threshold = np.sqrt((q + 1) * (d + 2 * len(edge))) * EPS
        for k in range(1, self.max_iter + 1):
            target = np.zeros((d + 1, q))
            np.add.at(target, edge.T, self.z + self.u)
            target[-1] = 0.0
            self.theta = self._minimise(subproblem, target, np.append(degree, 0.0)[:, None])
            b = np.where(zero_end, 0.0, np.append(self.theta[:d], np.zeros((1, q)), axis=0)[edge.T])
            m = b - self.u
            h = lengths(m[0] - m[1])
            # only one end of a group lasso edge moves: the distance to close is h, not 2 h
            whole = np.where(group_lasso, 1.0, 2.0) * subproblem.radius / RHO
            fused = (h <= whole) & (subproblem.radius > 0)
            change = np.where(fused, 1.0, whole / np.where(h > 0, h, 1.0))[:, None] * (m[0] - m[1])
            share = np.where(group_lasso, 1.0, 0.5)[:, None]
            z = np.where(zero_end, 0.0, np.stack([m[0] - share * change, m[1] + share * change]))
            self.u = np.where(zero_end, 0.0, self.u + z - b)
            primal, dual_residual = np.sqrt(((z - b) ** 2).sum()), np.sqrt(RHO * ((z - self.z) ** 2).sum())
            self.z = z
            if k >= _MIN_ITER and max(primal, dual_residual) <= threshold:
                break
        else:
            self.exhausted = True
        point = datafit.at(coarsening.X, self.theta)
        theta, point = datafit.with_best_intercept(coarsening.X, self.theta, point)
        dual = -RHO * self.u[0]
        project_onto_balls(dual, subproblem.radius)
        self.n_iter += k
        return SolverResult(theta, point, dual, fused.astype(np.uint8), k, True)

    def _minimise(self, subproblem: Subproblem, target: Floats, degree: Floats) -> Floats:
        """argmin data fit + ridge |B|^2 + rho / 2 sum over copies |z + u - b|^2, by L-BFGS."""
        X, datafit = subproblem.coarsening.X, subproblem.coarsening.datafit
        weight = subproblem.weight + RHO * degree

        def objective(flat: Floats) -> tuple[float, Floats]:
            theta = flat.reshape(self.theta.shape)
            point = datafit.at(X, theta)
            value = point.value + float((0.5 * weight * theta**2 - RHO * target * theta).sum())
            return value, (datafit.gradient(X, point) + weight * theta - RHO * target).ravel()

        found = minimize(objective, self.theta.ravel(), jac=True, method="L-BFGS-B")
        return np.asarray(found.x.reshape(self.theta.shape))
