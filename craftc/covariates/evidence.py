"""The evidence of the class labels under a clustering of the covariates, by Laplace's approximation."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
from scipy.linalg import lapack
from sklearn.model_selection import StratifiedKFold

from craftc._common.threads import parallel_map, threads_for
from craftc._common.typing import Floats, Ints, Labels
from craftc._fusion.conjugate_gradients import Preconditioner, cholesky, line_search, newton_direction
from craftc._fusion.datafits import Evaluation, Matrix, Multinomial, gram, squares
from craftc._fusion.graph import with_zero_node

#: Positions of rows, and their weights.
Rows: TypeAlias = "tuple[Ints, Floats | None]"
SIGMAS = 10.0 ** np.arange(-3.0, 2.0, 0.5)
_FOLDS = 5
_COPIES = 10**7  # rows that whole weights count up to which every copy goes into a fold of its own
_STEPS = 100  # most Newton steps
_LARGE = 200  # coefficients above which Newton steps use conjugate gradients
_INNER, _PRODUCTS = 0.03, 300  # share of the gradient that these leave; most products with the Hessian
_MIN_DECREASE = 0.3  # predicted decrease, relative to the last one, above which a factor is replaced
_TOL = 1e-11  # predicted decrease of the last Newton step, relative to the objective
_FOLD_TOL = 1e-8  # the same for fits to folds, which choose between distant values of sigma


class MapFit(NamedTuple):
    """MAP coefficients (m + 1, c - 1) in the basis, the intercept last, under a Gaussian prior."""

    theta: Floats
    proba: Floats
    value: float  # -ln p(y | B)


def map_fit(
    X: Matrix, datafit: Multinomial, sigma: float, theta: Floats | None = None, tol: float = _TOL
) -> MapFit:
    """min -ln p(y | B) + |B|^2 / (2 sigma^2), the intercept free; X (n, m + 1) with ones last."""
    weight = np.append(np.full(X.shape[1] - 1, sigma**-2), 0.0)[:, None]
    if theta is None:
        theta = datafit.start(X.shape[1])

    def objective(theta: Floats) -> tuple[float, Evaluation]:
        point = datafit.at(X, theta)
        return point.value + 0.5 * float((weight * theta**2).sum()), point

    value, point = objective(theta)
    max_curvature = datafit.max_curvature(X)
    factor, last_decrease, inexact = None, np.inf, theta.size > _LARGE
    for _ in range(_STEPS):
        gradient = datafit.gradient(X, point) + weight * theta
        if inexact:
            size = float(np.sqrt((gradient**2).sum()))
            scale = Preconditioner(datafit, X, point).scale(weight)
            direction = newton_direction(datafit, X, point, weight, scale, gradient, _INNER * size, _PRODUCTS)
        elif factor is None:
            hessian = datafit.hessian(X, point)
            extra = np.repeat(weight[:, 0], datafit.q) + 1e-12 * hessian.diagonal().max()
            hessian[np.diag_indices(len(hessian))] += extra
            factor = cholesky(hessian, max_curvature)
        if factor is not None:
            direction = -lapack.dpotrs(factor, gradient.ravel(), lower=1)[0].reshape(theta.shape)
        decrease = -float((gradient * direction).sum())
        # an inexact step leaves about _INNER^2 of the decrease that it predicts
        last = decrease <= (tol / _INNER**2 if inexact else tol) * max(value, 1e-12)
        if last and not inexact:
            break
        t, _, trial, (new, point) = line_search(objective, theta, direction, value, decrease, rounding=0.0)
        theta, value = trial, new
        if last or t < 1e-8:
            break  # the rest is rounding
        if t < 1.0 or decrease > _MIN_DECREASE * last_decrease:
            factor = None
        last_decrease = decrease
    return MapFit(theta, point.proba, point.value)


def carried(theta: Floats, before: Labels, now: Labels) -> Floats:
    """Coefficients as a start on other clusters: every new cluster gets the mean of its covariates."""
    columns = with_zero_node(theta[:-1])[before[:-1]]
    m, own = int(now[-1]), now[:-1] < now[-1]
    out = np.zeros((m + 1, theta.shape[1]))
    np.add.at(out, now[:-1][own], columns[own])
    out[:-1] /= np.maximum(np.bincount(now[:-1][own], minlength=m), 1)[:, None]
    out[-1] = theta[-1]
    return out


def log_evidence(X: Matrix, datafit: Multinomial, fit: MapFit, sigma: float, full: bool) -> float:
    """ln p(y | X, clustering, beta0) by Laplace's approximation around the MAP; `full`: all covariances."""
    c, m = datafit.c, X.shape[1] - 1
    columns, proba = X[:, :m], fit.proba
    length = float((fit.theta[:-1] ** 2).sum())
    if full:
        hessian = np.zeros((c, m, c, m))
        for a in range(c):
            for b in range(a, c):
                weight = datafit.weighted(proba[:, a] * ((a == b) - proba[:, b]))
                hessian[a, :, b] = gram(columns, weight)
                hessian[b, :, a] = hessian[a, :, b].T
        hessian = hessian.reshape(c * m, c * m)
        hessian[np.diag_indices(c * m)] += sigma**-2
        log_det = float(np.linalg.slogdet(hessian)[1])
    else:
        curvature = squares(columns).T @ datafit.weighted(proba * (1.0 - proba))
        log_det = float(np.log(curvature + sigma**-2).sum())
    return float(-fit.value - 0.5 * length / sigma**2 - c * m * float(np.log(sigma)) - 0.5 * log_det)


class _Fold(NamedTuple):
    """Rows to fit and rows left out, with their weights (None: 1)."""

    training: Rows
    test: Rows


def sigma_by_folds(X: Matrix, y: Ints, c: int, n_threads: int = 1, weight: Floats | None = None) -> float:
    """The smallest sigma of the prior whose cross-validated log-probability is largest."""
    parts = _folds(y, c, weight)
    if not parts:
        return 1.0  # a class has too few rows to leave any out

    def scores(fold: _Fold) -> Floats:
        (training, weight), (test, test_weight) = fold
        datafit, theta = Multinomial(y[training], c, weight=weight), None
        left_out = Multinomial(y[test], c, weight=test_weight)
        rows, new_rows, out, before = X[training], X[test], np.empty(len(SIGMAS)), None
        for k, sigma in enumerate(SIGMAS):
            # of separated classes the coefficients grow with ln sigma
            start = theta if theta is None or before is None else theta + (theta - before)
            before, theta = theta, map_fit(rows, datafit, sigma, start, _FOLD_TOL).theta
            proba = left_out.at(new_rows, theta).proba
            own = proba[left_out.row, left_out.y]
            out[k] = float(left_out.weighted(np.log(np.maximum(own, 1e-300))).sum())
        return out

    threads = threads_for(n_threads, 1.0 * X.shape[0] * X.shape[1] * c)
    return float(SIGMAS[int(np.argmax(np.sum(parallel_map(scores, parts, threads), axis=0)))])


def _folds(y: Ints, c: int, weight: Floats | None) -> list[_Fold]:
    """Folds of the rows, whose classes are shared out evenly; none if a class has too few rows.

    The copies that a whole weight counts go into folds one by one, as those of repeated rows do.
    """
    counted = weight is not None and weight.sum() <= _COPIES and bool((weight == np.floor(weight)).all())
    row = np.arange(len(y))
    if weight is not None and counted:
        row = np.repeat(row, weight.astype(np.intp))
    n_folds = _FOLDS if len(row) / (_FOLDS * c) >= 2 else 2
    if np.bincount(y[row], minlength=c).min() < n_folds:
        return []

    def rows_of(some: Ints) -> Rows:
        if weight is None:
            return some, None
        found, copies = np.unique(row[some], return_counts=True)
        return found, copies.astype(np.float64) if counted else weight[found]

    splitter = StratifiedKFold(n_folds, shuffle=True, random_state=0)
    return [_Fold(*map(rows_of, parts)) for parts in splitter.split(row, y[row])]
