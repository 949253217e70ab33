"""Solvers of the weights of a graph: L-BFGS with a ridge penalty, optionally by way of a sample; L-BFGS with bounds for an l1 penalty."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import Bounds, minimize

from craftc._common.estimator import FitResult
from craftc._common.typing import Floats
from craftc.spectral.preconditioner import Preconditioner
from craftc.spectral.pseudo_likelihood import Objective, Parameters

MEMORY = 10
_FIRST_TOL, _SHARE = 1e-3, 0.1  # gradients at which a minimisation over the sample ends: the first, and a share of that over all rows
_ARMIJO, _HALVINGS, _SLOW = 1e-4, 5, 0.7  # sufficient decrease; halvings of a step; reduction of the gradient below which a round is slow

Callback = Callable[[int, float, float], None]
Value = Callable[[Floats], tuple[float, Floats, float]]  # value, gradient, and the size of the gradient that decides convergence


@dataclass
class SpectralFit(FitResult):
    """The result of a solver.

    Parameters
    ----------
    parameters : Parameters
    gradient : float
        Its largest absolute entry at the end.
    """

    parameters: Parameters
    gradient: float


def ridge_fit(
    objective: Objective,
    preconditioner: Preconditioner,
    sample: Objective | None,
    *,
    tol: float,
    max_iter: int,
    callback: Callback,
) -> SpectralFit:
    """L-BFGS from 0 until no entry of the gradient exceeds tol, first by way of a sample of the rows if one is given.

    Parameters
    ----------
    objective : Objective
    preconditioner : Preconditioner
        Steps are taken in its coordinates; convergence is decided by the gradient of the objective itself.
    sample : Objective or None
        The same objective for some of the rows.
    tol : float
    max_iter : int
        Maximum number of steps.
    callback : callable
        Called after every step over all rows with its number, the objective, and the largest entry of the gradient.
    """
    path: list[float] = []

    def step(value: float, largest: float) -> None:
        path.append(value)
        callback(len(path), value, largest)

    def value(z: Floats) -> tuple[float, Floats, float]:
        f, gradient = objective(preconditioner.vector(z))
        return f, preconditioner.gradient(gradient), _largest(gradient)

    if sample is not None:
        z, largest = _by_sample(value, sample, preconditioner, tol, max_iter, step)
    else:
        z = np.zeros(len(objective))
        largest = value(z)[2]
    if len(path) < max_iter and largest > tol:
        z = _lbfgs(value, z, tol, max_iter - len(path), step)
    vector = preconditioner.vector(z)
    f, gradient = objective(vector)
    return SpectralFit(f, path, len(path), _largest(gradient) <= tol, objective.parameters(vector), _largest(gradient))


def _by_sample(
    value: Value, sample: Objective, preconditioner: Preconditioner, tol: float, max_iter: int, step: Callable[[float, float], None]
) -> tuple[Floats, float]:
    """Minimise the objective of a sample plus a linear term that corrects its gradient to that of all rows; repeat (DANE).

    The Hessian of the sample is close to that of all rows, so that each round leaves a fraction of the gradient for one pass over all rows
    (Shamir, Srebro & Zhang, ICML 2014). Ends at tol, or when a round gains too little; returns the point and the size of its gradient.
    """

    def corrected(linear: Floats) -> Value:
        def of_sample(z: Floats) -> tuple[float, Floats, float]:
            f, gradient = sample(preconditioner.vector(z))
            g = preconditioner.gradient(gradient) + linear
            return f + float(linear @ z), g, _largest(g)

        return of_sample

    zero = np.zeros(len(sample))
    z = _lbfgs(corrected(zero), zero, _FIRST_TOL, max_iter)
    f, g, largest = value(z)
    step(f, largest)
    for _ in range(max_iter - 1):
        if largest <= tol:
            break
        linear = g - corrected(zero)(z)[1]
        move = _lbfgs(corrected(linear), z, _SHARE * _largest(g), max_iter) - z
        for _ in range(_HALVINGS):
            f_new, g_new, new = value(z + move)
            if f_new <= f + _ARMIJO * float(g @ move):
                break
            move = move / 2.0
        else:
            break
        slow = new > _SLOW * largest
        z, f, g, largest = z + move, f_new, g_new, new
        step(f, largest)
        if slow:
            break
    return z, largest


def _lbfgs(
    value: Value, z: Floats, tol: float, max_iter: int, step: Callable[[float, float], None] | None = None, least: Floats | None = None
) -> Floats:
    """L-BFGS, over z >= `least` if that is given, until the size of the gradient is at most tol."""
    last: list[float] = []

    def plain(z: Floats) -> tuple[float, Floats]:
        f, gradient, size = value(z)
        last[:] = f, size
        return f, gradient

    def stop(z: Floats) -> None:
        if step is not None:
            step(last[0], last[1])
        if last[1] <= tol:
            raise StopIteration

    options = {"maxcor": MEMORY, "gtol": 0.0, "ftol": 0.0, "maxiter": max_iter, "maxfun": 20 * max_iter}
    bounds = None if least is None else Bounds(least, np.inf)
    return np.asarray(minimize(plain, z, jac=True, method="L-BFGS-B", bounds=bounds, callback=stop, options=options).x)


def _largest(values: Floats) -> float:
    return float(np.abs(values).max(initial=0.0))


def lasso_fit(
    objective: Objective, preconditioner: Preconditioner, l1: float, *, tol: float, max_iter: int, callback: Callback
) -> SpectralFit:
    """L-BFGS-B on the objective + l1 sum over edges of |theta|, from 0, until no entry of the smallest subgradient exceeds tol.

    Every weight is the difference of two parts >= 0, whose sum l1 multiplies: a smooth problem with bounds, on which weak edges end at
    exact zeros. The values on the path, those of this problem, are upper bounds of the penalised objective, and equal it where one of two
    parts is 0.
    """
    path: list[float] = []
    n, size = objective.n_edges, len(objective)
    weight = l1 / preconditioner.scale[:n]

    def vector(parts: Floats) -> Floats:
        return preconditioner.vector(np.concatenate([parts[:n] - parts[size:], parts[n:size]]))

    def value(parts: Floats) -> tuple[float, Floats, float]:
        at = vector(parts)
        f, gradient = objective(at)
        g = preconditioner.gradient(gradient)
        slopes = np.concatenate([g[:n] + weight, g[n:], weight - g[:n]])
        return f + float(weight @ (parts[:n] + parts[size:])), slopes, _largest(_smallest_subgradient(at, gradient, l1, n))

    def step(value: float, largest: float) -> None:
        path.append(value)
        callback(len(path), value, largest)

    least = np.concatenate([np.zeros(n), np.full(size - n, -np.inf), np.zeros(n)])
    at = vector(_lbfgs(value, np.zeros(size + n), tol, max_iter, step, least))
    f, gradient = objective(at)
    largest = _largest(_smallest_subgradient(at, gradient, l1, n))
    f += l1 * float(np.abs(at[:n]).sum())
    return SpectralFit(f, path, len(path), largest <= tol, objective.parameters(at), largest)


def _smallest_subgradient(at: Floats, gradient: Floats, l1: float, n: int) -> Floats:
    """Of the penalised objective: its gradient where the n edges are not 0; at 0, what the penalty leaves of it."""
    edges, g = at[:n], gradient[:n]
    left = np.where(edges == 0.0, np.sign(g) * np.maximum(np.abs(g) - l1, 0.0), g + l1 * np.sign(edges))
    return np.concatenate([left, gradient[n:]])
