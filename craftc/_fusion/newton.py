"""Small reduced problems: an augmented Lagrangian whose minima semismooth Newton steps find."""

from __future__ import annotations

import numpy as np
from scipy.linalg import lapack

from craftc._common.typing import Floats
from craftc._fusion.datafits import Point
from craftc._fusion.problem import Found, Task, gap_of, shrink
from craftc._kernels import covariates as _kernel

MOST = 800  # unknowns at most
SPARSE = 150  # of a sparse X, whose products are cheap beside a factor
WIDEST = 64  # numbers of a node at most
_NEWTON = 60  # steps of a minimisation
_SLOWER = 0.4  # a step on an old factor that promises more of the last one's fall asks for a new factor
_NEAR = 1e-2  # of the objective: a step that promises no more than this is near enough for an old factor
_STEEPER = 5.0  # sigma grows so where the dual lags
_SOFTER = 100.0  # and falls so where every step ends at the next kink, as it does far from the optimum
_LAST = 0.05  # of the goal: a step that promises no more is not made
_STIFFEST = 1e4  # times that: more would drown the loss in rounding
_OUTER = 40  # changes of the multipliers
_SHIFTS = 30  # of the diagonal, each ten times the one before
_STIFF = 1e4  # sigma = so many radii per size of the coefficients


def newton(task: Task, theta: Floats, flow: Floats, most_steps: int) -> Found:
    """The optimum from a start, whose dual variables `flow` are brought into their balls and changed."""
    reduced, loss = task.reduced, task.reduced.loss
    X, m, edge, r, weight = reduced.X, reduced.m, reduced.edge, task.radius, task.weight
    shrink(flow, r)
    sigma = r * (reduced.stiffness * _STIFF / task.scale(theta))
    after, fused = np.empty_like(flow), np.zeros(len(edge), np.uint8)
    none = np.empty((1, 1))
    curvature, factor, steps = reduced.curvature, reduced.factor, 0

    def look(theta: Floats) -> tuple[float, Floats, Point]:
        point = loss.at(X, theta)
        gradient = X.T @ point.residual + weight * theta
        value = point.value + 0.5 * float((weight * theta * theta).sum())
        value += _kernel.newton_terms(theta[:m], edge, r, sigma, flow, after, fused, gradient, none)
        return value, gradient, point

    for _ in range(_OUTER):
        value, gradient, point = look(theta)
        promised, before, settled = 0.0, np.inf, False
        for _ in range(_NEWTON):
            if factor is None:
                if curvature is None:
                    curvature = loss.hessian(X, point)
                hessian = curvature.copy()
                hessian[np.diag_indices(len(hessian))] += np.repeat(weight[:, 0], loss.q)
                _kernel.newton_terms(theta[:m], edge, r, sigma, flow, after, fused, np.zeros_like(gradient), hessian)
                factor = cholesky(hessian, loss.steepest(X))
                steps += 1
            move = -lapack.dpotrs(factor, gradient.ravel(), lower=1)[0].reshape(gradient.shape)
            fall = -float((gradient * move).sum())
            goal = task.accuracy * max(abs(value), task.least)
            # where sigma is large a small fall says little of the forces that are left: they are to fall until they cannot
            rest = gap_of(gradient[:m], theta[:m], task.ridge, reduced.size, task.unit)
            settled = fall <= _LAST * goal and (rest <= goal or (fall <= 1e-4 * goal and rest > 0.5 * before))
            if settled or steps >= most_steps:
                break
            before = rest
            t = 1.0
            while True:
                there = theta + t * move
                new, new_gradient, new_point = look(there)
                if new <= value - 1e-4 * t * fall + 1e-14 * abs(value) or t < 1e-10:
                    break
                t *= 0.5
            theta, value, gradient, point = there, new, new_gradient, new_point
            # the old factor serves as long as every step promises much less than the one before; that of the loss also the next penalty
            if t < 1.0 or fall > (_SLOWER * promised if promised else _NEAR * abs(value)):
                factor = curvature = None
            promised = fall
        flow[:] = after
        if steps >= most_steps or (settled and task.slack(theta, flow) <= goal):
            break
        if not settled:
            sigma /= _SOFTER
            reduced.stiffness /= _SOFTER
            factor = None
        elif reduced.stiffness < _STIFFEST:
            sigma *= _STEEPER
            reduced.stiffness *= _STEEPER
            factor = None
    reduced.curvature, reduced.factor = curvature, factor
    theta, point = loss.balanced(X, theta, point)
    return Found(theta, point, flow, fused, steps)


def cholesky(matrix: Floats, steepest: float) -> Floats:
    """Lower Cholesky factor of a Hessian; one that is not positive definite in rounding gets a larger diagonal.

    `steepest` is the largest curvature the loss can have. Where the fitted probabilities are all 0 or 1 the Hessian itself is 0, and
    the diagonal is enlarged by a share of that.

    Raises
    ------
    FloatingPointError
        The Hessian is not finite.
    """
    extra = 0.0
    for _ in range(_SHIFTS):
        factor, info = lapack.dpotrf(matrix, lower=1)
        if info == 0 and np.isfinite(factor[-1, -1]):
            return np.asarray(factor)
        extra = max(10.0 * extra, 1e-14 * float(matrix.diagonal().max()), 1e-18 * steepest)
        matrix[np.diag_indices(len(matrix))] += extra
    raise FloatingPointError("The Hessian of the loss is not finite: scale the covariates, or raise ridge.")
