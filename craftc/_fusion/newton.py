"""Small subproblems: an augmented Lagrangian, minimised by semismooth Newton steps."""

from __future__ import annotations

import numpy as np
from scipy import sparse
from scipy.linalg import lapack

from craftc._common.typing import Floats
from craftc._fusion.conjugate_gradients import Preconditioner, cholesky, line_search, newton_direction
from craftc._fusion.datafits import Evaluation
from craftc._fusion.problem import Curvature, SolverResult, Subproblem, project_onto_balls
from craftc._kernels import covariates as _kernel

MAX_UNKNOWNS = 800  # unknowns of a dense factorisation
MAX_UNKNOWNS_SPARSE = 150  # the same for a sparse X, whose products are cheaper than a factorisation
MAX_WIDTH = 64  # numbers of a node
_NEWTON_STEPS = 60  # most Newton steps of one minimisation
_MIN_DECREASE = 0.4  # predicted decrease, relative to the last one, above which a factor is replaced
_NEAR = 1e-2  # predicted decrease, relative to the objective, up to which the first step keeps a factor
_GROW_SIGMA = 5.0  # factor of sigma where the dual lags
_SHRINK_SIGMA = 100.0  # divisor of sigma where every step ends at the next kink, far from the optimum
_LAST_STEP = 0.05  # predicted decrease, relative to the goal, that ends the minimisation
_INEXACT = 0.3  # largest share of the gradient that conjugate gradients leave, without edges
_PRODUCTS = 300  # most products of conjugate gradients, without edges
_MAX_SIGMA_SCALE = 1e4  # above, rounding of sigma's terms exceeds the data fit
_MIN_SIGMA_SCALE = 1e-12  # below, the dual variables no longer move
_SHORT_STEP = 1e-3  # step below which the objective must fall
_SHORTEST_STEP = 1e-10  # step that ends a line search
_MULTIPLIER_UPDATES = 40
_SIGMA = 1e4  # initial sigma, in radii per scale of the coefficients


class Newton:
    """Method of multipliers by semismooth Newton steps, at most `max_iter` on the whole path."""

    on_clusters = True

    def __init__(self, max_iter: int) -> None:
        self.max_iter, self.n_iter = max_iter, 0

    @staticmethod
    def fits(subproblem: Subproblem) -> bool:
        """Whether the subproblem is small enough for a dense factorisation."""
        coarsening, q = subproblem.coarsening, subproblem.coarsening.datafit.q
        most = MAX_UNKNOWNS_SPARSE if sparse.issparse(coarsening.X) else MAX_UNKNOWNS
        return (coarsening.m + 1) * q <= most and q <= MAX_WIDTH

    @property
    def exhausted(self) -> bool:
        """Whether all steps of the path are used up."""
        return self.n_iter >= self.max_iter

    def solve(self, subproblem: Subproblem, theta: Floats, dual: Floats) -> SolverResult:
        if not len(dual):
            return self._without_edges(subproblem, theta, dual)
        coarsening, datafit = subproblem.coarsening, subproblem.coarsening.datafit
        X, m, edge = coarsening.X, coarsening.m, coarsening.edge
        r, weight = subproblem.radius, subproblem.weight
        project_onto_balls(dual, r)
        sigma = r * (coarsening.sigma_scale * _SIGMA / subproblem.scale(theta))
        projected, fused = np.empty_like(dual), np.zeros(len(edge), np.uint8)
        no_hessian = np.empty((1, 1))
        hessian, factor = coarsening.hessian, coarsening.factor
        steps, max_steps = 0, self.max_iter - self.n_iter

        def lagrangian(theta: Floats) -> tuple[float, Floats, Evaluation]:
            point = datafit.at(X, theta)
            gradient = datafit.gradient(X, point) + weight * theta
            value = point.value + 0.5 * float((weight * theta * theta).sum())
            value += _kernel.newton_terms(
                theta[:m], edge, r, sigma, dual, projected, fused, gradient, no_hessian
            )
            return value, gradient, point

        for _ in range(_MULTIPLIER_UPDATES):
            value, gradient, point = lagrangian(theta)
            last_decrease, last_gap, converged = 0.0, np.inf, False
            for _ in range(_NEWTON_STEPS):
                if factor is None:
                    if hessian is None or hessian.outdated(point):
                        hessian = Curvature(datafit.hessian(X, point), point.entropy)
                    hessian.factors += 1
                    system = hessian.matrix.copy()
                    system[np.diag_indices(len(system))] += np.repeat(weight[:, 0], datafit.q)
                    _kernel.newton_terms(
                        theta[:m], edge, r, sigma, dual, projected, fused, np.zeros_like(gradient), system
                    )
                    factor = cholesky(system, coarsening.max_curvature)
                    steps += 1
                direction = -lapack.dpotrs(factor, gradient.ravel(), lower=1)[0].reshape(gradient.shape)
                decrease = -float((gradient * direction).sum())
                goal = subproblem.goal(value)
                # where sigma is large, a small decrease says little about the residuals: continue until they
                # no longer fall
                gap = subproblem.node_gap(gradient, theta)
                converged = decrease <= _LAST_STEP * goal and (
                    gap <= goal or (decrease <= 1e-4 * goal and gap > 0.5 * last_gap)
                )
                if converged or steps >= max_steps:
                    break
                last_gap = gap
                t, _, trial, (new, new_gradient, new_point) = line_search(
                    lagrangian, theta, direction, value, decrease, shortest=_SHORTEST_STEP
                )
                if t < _SHORT_STEP and not new < value:  # scales differ widely: the rest is rounding
                    lagrangian(theta)  # resets `projected` and `fused`, which belong to the trial
                    factor = hessian = None
                    break
                theta, value, gradient, point = trial, new, new_gradient, new_point
                # keep the old factor while steps converge fast with it; where they do not, edges have mostly
                # reached or left their balls, and the Hessian of the data fit is the same
                if t < 1.0 or decrease > (
                    _MIN_DECREASE * last_decrease if last_decrease else _NEAR * abs(value)
                ):
                    factor = None
                last_decrease = decrease
            dual[:] = projected
            if steps >= max_steps or (converged and subproblem.edge_gap(theta, dual) <= goal):
                break
            if not converged:
                if coarsening.sigma_scale < _MIN_SIGMA_SCALE:
                    break
                sigma /= _SHRINK_SIGMA
                coarsening.sigma_scale /= _SHRINK_SIGMA
                factor = None
            elif coarsening.sigma_scale < _MAX_SIGMA_SCALE:
                sigma *= _GROW_SIGMA
                coarsening.sigma_scale *= _GROW_SIGMA
                factor = None
        coarsening.hessian, coarsening.factor = hessian, factor
        theta, point = datafit.with_best_intercept(X, theta, point)
        self.n_iter += steps
        return SolverResult(theta, point, dual, fused, steps, self.exhausted)

    def _without_edges(self, subproblem: Subproblem, theta: Floats, dual: Floats) -> SolverResult:
        """The smooth problem that remains, by Newton steps of conjugate gradients, inexact at first."""
        coarsening, datafit, weight = subproblem.coarsening, subproblem.coarsening.datafit, subproblem.weight
        X, steps, start = coarsening.X, 0, 0.0

        def objective(theta: Floats) -> tuple[float, Evaluation]:
            point = datafit.at(X, theta)
            return point.value + 0.5 * float((weight * theta * theta).sum()), point

        value, point = objective(theta)
        while steps < self.max_iter - self.n_iter:
            gradient = datafit.gradient(X, point) + weight * theta
            goal = subproblem.goal(value)
            gap = subproblem.node_gap(gradient, theta)
            if gap <= goal and subproblem.ridge > 0:
                # the dual bound needs the best intercept, which changes the other gradients
                best, best_point = datafit.with_best_intercept(X, theta, point)
                gap = subproblem.node_gap(datafit.gradient(X, best_point) + weight * best, best)
                if gap <= goal:
                    theta, point = best, best_point
                    break
            size = float(np.sqrt((gradient**2).sum()))
            start = start or size
            share = min(_INEXACT, float(np.sqrt(size / max(start, np.finfo(np.float64).tiny))))
            scale = Preconditioner(datafit, X, point).scale(weight)
            direction = newton_direction(datafit, X, point, weight, scale, gradient, share * size, _PRODUCTS)
            steps += 1
            decrease = -float((gradient * direction).sum())
            if decrease <= _LAST_STEP * goal and (gap <= goal or decrease <= 1e-4 * goal):
                break
            _, lower, trial, (new, new_point) = line_search(
                objective, theta, direction, value, decrease, shortest=_SHORTEST_STEP
            )
            if not lower:  # columns of very different scales: rounding is larger than what is left to gain
                break
            theta, value, point = trial, new, new_point
        theta, point = datafit.with_best_intercept(X, theta, point)
        self.n_iter += steps
        return SolverResult(theta, point, dual, np.zeros(0, np.uint8), steps, self.exhausted)
