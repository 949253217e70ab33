"""Newton directions by preconditioned conjugate gradients, and the factors of small systems."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeVar

import numpy as np
from scipy.linalg import lapack

from craftc._common.typing import Floats
from craftc._fusion.datafits import Datafit, Evaluation, Matrix

_MANY_NUMBERS = 4  # numbers of a node from which one factor for all classes is cheaper than products
_FACTORED = 1000  # nodes up to which such a factor pays
_SHIFTS = 30  # most enlargements of a diagonal, each ten times the last

Found = TypeVar("Found", bound="tuple[float, *tuple[object, ...]]")


class Preconditioner:
    """An approximate Hessian: its diagonal or, with many numbers at a node, its mean over the classes.

    The mean is scaled to the diagonal of every class: where a column belongs to few classes, the curvatures
    of the classes differ by orders of magnitude.
    """

    def __init__(self, datafit: Datafit, X: Matrix, point: Evaluation) -> None:
        pays = datafit.q >= _MANY_NUMBERS and X.shape[1] <= _FACTORED
        self.mean = datafit.mean_hessian(X, point) if pays else None
        self.diagonal = datafit.hessian_diagonal(X, point) if self.mean is None else np.empty(0)

    def scale(self, weight: Floats) -> Callable[[Floats], Floats]:
        """Multiplication by the inverse of the approximation + diag(weight)."""
        tiny = np.finfo(np.float64).tiny  # squares of columns may underflow
        if self.mean is None:
            inverse = 1.0 / np.maximum(self.diagonal + weight, tiny)
            return lambda residual: inverse * residual
        system, basis = self.mean.mean.copy(), self.mean.basis
        system[np.diag_indices(len(system))] += weight[:, 0]
        unit = 1.0 / np.sqrt(np.maximum(system.diagonal(), tiny))
        factor = cholesky(unit[:, None] * system * unit, 1.0)
        classes = 1.0 / np.sqrt(np.maximum(self.mean.diagonal + weight, tiny))

        def scaled(residual: Floats) -> Floats:
            solution = lapack.dpotrs(factor, (residual @ basis.T) * classes, lower=1)[0]
            return np.asarray(np.ascontiguousarray(solution * classes) @ basis)

        return scaled


def newton_direction(
    datafit: Datafit,
    X: Matrix,
    point: Evaluation,
    weight: Floats,
    scale: Callable[[Floats], Floats],
    gradient: Floats,
    tolerance: float,
    max_products: int,
) -> Floats:
    """-(H + diag(weight))^-1 gradient by conjugate gradients, until the residual is below the tolerance;
    `scale` multiplies by an approximate inverse of H + diag(weight).
    """
    solution, residual = np.zeros_like(gradient), -gradient
    scaled = scale(residual)
    direction, product = scaled, float(np.vdot(residual, scaled))
    for _ in range(max_products if 0 < product < math.inf else 0):
        image = datafit.hessian_product(X, point, direction) + weight * direction
        curvature = float(np.vdot(direction, image))
        if not 0 < curvature < math.inf:  # underflow: no gain is left; overflow: scales differ widely
            break
        alpha = product / curvature
        if not alpha * float(np.abs(direction).max()) < math.inf:
            break
        solution = solution + alpha * direction
        residual = residual - alpha * image
        if math.sqrt(np.vdot(residual, residual)) <= tolerance:
            break
        scaled = scale(residual)
        product, last = float(np.vdot(residual, scaled)), product
        if not 0 < product < math.inf:
            break
        direction = scaled + (product / last) * direction
    return solution


def cholesky(matrix: Floats, max_curvature: float) -> Floats:
    """Lower Cholesky factor of a finite Hessian; the diagonal of one that rounding spoils is enlarged.

    Where the fitted probabilities are all 0 or 1 the Hessian is 0, and the diagonal is enlarged by a share of
    `max_curvature`, which bounds the curvature of the data fit.
    """
    extra = 0.0
    for _ in range(_SHIFTS):
        factor, info = lapack.dpotrf(matrix, lower=1)
        if info == 0 and np.isfinite(factor[-1, -1]):
            return np.asarray(factor)
        extra = max(10.0 * extra, 1e-14 * float(matrix.diagonal().max()), 1e-18 * max_curvature)
        matrix[np.diag_indices(len(matrix))] += extra
    raise ValueError("The Hessian of the loss is not finite: scale the covariates, or raise ridge.")


def line_search(
    evaluate: Callable[[Floats], Found],
    theta: Floats,
    direction: Floats,
    value: float,
    decrease: float,
    *,
    shortest: float = 1e-8,
    rounding: float = 1e-14,
) -> tuple[float, bool, Floats, Found]:
    """The first step t of 1, 1/2, ... that lowers the objective enough, or the last one: t, whether it does,
    theta + t direction, and what `evaluate` returns there (`value` at theta; `decrease` predicted for t = 1).
    """
    t = 1.0
    while True:
        trial = theta + t * direction
        found = evaluate(trial)
        lower = bool(found[0] <= value - 1e-4 * t * decrease + rounding * abs(value))
        if lower or t < shortest:
            return t, lower, trial, found
        t *= 0.5
