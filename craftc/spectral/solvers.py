"""The solver of the weights of a graph: L-BFGS, with bounds for an l1 penalty, and a start on a sample."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.linalg.blas import daxpy
from scipy.optimize import Bounds, minimize

from craftc._common.estimator import FitResult
from craftc._common.typing import Floats
from craftc.spectral.preconditioner import GraphPreconditioner
from craftc.spectral.pseudo_likelihood import Objective, Parameters

MEMORY = 10  # pairs of L-BFGS over all rows
_PAIRS = 30  # pairs of L-BFGS over the sample, where an evaluation costs more than products with all of them
_SHARE = 0.1  # gradient that ends a minimisation over the sample, relative to the gradient over all rows
_ARMIJO = 1e-4  # share of the predicted decrease that a step must achieve
_HALVINGS = 5  # most halvings of a step over all rows
_SLOW = 0.7  # ratio of the gradients after and before a round above which the round is slow
_TRIALS = 20  # most step sizes tried over the sample

Callback = Callable[[int, float, float], None]
Pairs = deque[tuple[Floats, Floats, float]]  # steps, changes of the gradient, and their products
# value, gradient, and the size of the gradient that decides convergence
Value = Callable[[Floats], tuple[float, Floats, float]]


@dataclass
class SpectralFit(FitResult):
    """The result of a solver."""

    parameters: Parameters
    gradient: float  # its largest absolute entry at the end


def fit_weights(
    objective: Objective,
    preconditioner: GraphPreconditioner,
    sample: Objective | None = None,
    l1: float = 0.0,
    *,
    tol: float,
    max_iter: int,
    callback: Callback,
) -> SpectralFit:
    """L-BFGS from 0 on the objective + l1 sum |theta|, until the smallest subgradient is at most tol.

    With l1, every weight is the difference of two parts >= 0, whose sum l1 multiplies: a smooth problem with
    bounds, on which weak edges end at exact zeros. The values on the path are upper bounds of the penalised
    objective. Steps use the coordinates of the preconditioner. The search begins on `sample`, the same
    objective for some of the rows; `callback` gets number, objective and gradient of every later step.
    """
    path: list[float] = []
    n, size, split = objective.n_edges, len(objective), l1 > 0.0
    weight = l1 / preconditioner.scale[:n]

    def vector(x: Floats) -> Floats:
        return preconditioner.vector(np.concatenate([x[:n] - x[size:], x[n:size]]) if split else x)

    def value_of(objective: Objective) -> Value:
        def value(x: Floats) -> tuple[float, Floats, float]:
            at = vector(x)
            f, gradient = objective(at)
            g = preconditioner.gradient(gradient)
            if split:
                f += float(weight @ (x[:n] + x[size:]))
                g = np.concatenate([g[:n] + weight, g[n:], weight - g[:n]])
            return f, g, _largest(_smallest_subgradient(at, gradient, l1, n))

        return value

    def step(value: float, largest: float) -> None:
        path.append(value)
        callback(len(path), value, largest)

    value = value_of(objective)
    least = np.full(size + n * split, -np.inf)
    if split:
        least[:n] = least[size:] = 0.0
    x = np.zeros(len(least))
    if sample is None:
        largest = value(x)[2]
    else:
        error = 1.0 / np.sqrt(sample.likelihood.n)
        x, largest = _by_sample(value, value_of(sample), error, x, least, tol, max_iter, step)
    if len(path) < max_iter and largest > tol:
        x = _lbfgs(value, x, least, tol, max_iter - len(path), step)
    at = vector(x)
    f, gradient = objective(at)
    largest = _largest(_smallest_subgradient(at, gradient, l1, n))
    f += l1 * float(np.abs(at[:n]).sum())
    return SpectralFit(f, path, len(path), largest <= tol, objective.parameters(at), largest)


def _smallest_subgradient(at: Floats, gradient: Floats, l1: float, n: int) -> Floats:
    """Gradient of the penalised objective; for the n edges at 0, its smallest subgradient."""
    if l1 == 0.0:
        return gradient
    edges, g = at[:n], gradient[:n]
    left = np.where(edges == 0.0, np.sign(g) * np.maximum(np.abs(g) - l1, 0.0), g + l1 * np.sign(edges))
    return np.concatenate([left, gradient[n:]])


def _by_sample(
    value: Value,
    of_sample: Value,
    error: float,
    x: Floats,
    least: Floats,
    tol: float,
    max_iter: int,
    step: Callable[[float, float], None],
) -> tuple[Floats, float]:
    """Minimise the objective of a sample, with a linear term that corrects its gradient; repeat (DANE).

    Each round leaves a fraction of the gradient for one pass over all rows (Shamir, Srebro & Zhang, ICML
    2014). The first minimisation, without the term, ends at the standard error of the sample's gradient,
    about 1 / sqrt(rows) in the coordinates of the preconditioner. Ends at tol, or when a round gains too
    little; returns the point and the size of its gradient.
    """

    def corrected(linear: Floats) -> Value:
        def plus_linear(x: Floats) -> tuple[float, Floats, float]:
            f, gradient, _ = of_sample(x)
            g = gradient + linear
            return f + float(linear @ x), g, _largest(_feasible(x, g, least))

        return plus_linear

    pairs: Pairs = deque(maxlen=_PAIRS)

    def minimise(linear: Floats, x: Floats, tol: float) -> Floats:
        if np.isfinite(least).any():
            return _lbfgs(corrected(linear), x, least, tol, max_iter)
        return _from_pairs(corrected(linear), x, pairs, tol, max_iter)

    x = minimise(np.zeros(len(x)), x, error)
    f, g, largest = value(x)
    step(f, largest)
    for _ in range(max_iter - 1):
        if largest <= tol:
            break
        linear = g - of_sample(x)[1]
        move = minimise(linear, x, _SHARE * _largest(_feasible(x, g, least))) - x
        for _ in range(_HALVINGS):
            f_new, g_new, new = value(x + move)
            if f_new <= f + _ARMIJO * float(g @ move):
                break
            move = move / 2.0
        else:
            break
        slow = new > _SLOW * largest
        x, f, g, largest = x + move, f_new, g_new, new
        step(f, largest)
        if slow:
            break
    return x, largest


def _feasible(x: Floats, g: Floats, least: Floats) -> Floats:
    """The gradient without the entries that point beyond a bound that x has reached."""
    return np.where(x > least, g, np.minimum(g, 0.0))


def _lbfgs(
    value: Value,
    x: Floats,
    least: Floats,
    tol: float,
    max_iter: int,
    step: Callable[[float, float], None] | None = None,
) -> Floats:
    """L-BFGS over x >= least until the size of the gradient is at most tol."""
    last: list[float] = []

    def plain(x: Floats) -> tuple[float, Floats]:
        f, gradient, size = value(x)
        last[:] = f, size
        return f, gradient

    def stop(x: Floats) -> None:
        if step is not None:
            step(last[0], last[1])
        if last[1] <= tol:
            raise StopIteration

    options = {"maxcor": MEMORY, "gtol": 0.0, "ftol": 0.0, "maxiter": max_iter, "maxfun": 20 * max_iter}
    # SciPy converts bounds in a loop over variables
    bounds = Bounds(least, np.inf) if np.isfinite(least).any() else None
    found = minimize(plain, x, jac=True, method="L-BFGS-B", bounds=bounds, callback=stop, options=options)
    return np.asarray(found.x)


def _from_pairs(value: Value, x: Floats, pairs: Pairs, tol: float, max_iter: int) -> Floats:
    """L-BFGS that starts with the pairs of former minimisations, which SciPy's cannot, and adds its own."""
    f, g, size = value(x)
    for _ in range(max_iter):
        if size <= tol:
            break
        d = _direction(g, pairs)
        slope, t = float(g @ d), 1.0 if pairs else min(1.0, 1.0 / float(np.linalg.norm(g)))
        for _ in range(_TRIALS):
            f_new, g_new, size = value(x + t * d)
            if f_new <= f + _ARMIJO * t * slope:
                break
            t *= min(max(-slope * t / (2.0 * (f_new - f - slope * t)), 0.1), 0.5)
        else:
            break
        move, change = t * d, g_new - g
        if (curvature := float(move @ change)) > 0.0:
            pairs.append((move, change, curvature))
        x, f, g = x + t * d, f_new, g_new
    return x


def _direction(g: Floats, pairs: Pairs) -> Floats:
    """-H g, H the inverse Hessian that the pairs approximate (Nocedal & Wright, algorithm 7.4)."""
    d, shares = -g, []
    for s, y, curvature in reversed(pairs):
        shares.append(float(s @ d) / curvature)
        daxpy(y, d, a=-shares[-1])
    if pairs:
        s, y, curvature = pairs[-1]
        d *= curvature / float(y @ y)
    for (s, y, curvature), share in zip(pairs, reversed(shares), strict=True):
        daxpy(s, d, a=share - float(y @ d) / curvature)
    return d


def _largest(values: Floats) -> float:
    return float(np.abs(values).max(initial=0.0))
