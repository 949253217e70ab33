"""How probable the labels are under a clustering of the covariates: Laplace's approximation."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve
from sklearn.model_selection import StratifiedKFold

from craftc._common.typing import Floats, Labels
from craftc._fusion.datafits import Loss, gram, newton_move, squares
from craftc._fusion.newton import cholesky
from craftc._fusion.problem import grounded

SIGMAS = 10.0 ** np.arange(-3.0, 2.0, 0.5)
_FOLDS = 5
_STEPS = 100
_LARGE = 200  # coefficients from which on Newton steps are made by conjugate gradients
_INNER, _PRODUCTS = 0.03, 300  # they leave so much of the gradient, after so many products at most
_SLOWER = 0.3  # a step on an old factor that promises more of the last one's fall asks for a new factor
_TOL = 1e-11  # of the objective: what a last Newton step may still promise


class Fit(NamedTuple):
    """MAP coefficients (m + 1, c - 1) in the basis, the intercept last, of sums of covariates under a Gaussian prior."""

    theta: Floats
    proba: Floats
    value: float  # -ln p(y | B)


def map_fit(X: Any, loss: Loss, sigma: float, theta: Floats | None = None) -> Fit:
    """min -ln p(y | B) + |B|^2 / (2 sigma^2), the intercept free; X (n, m + 1) with ones last."""
    q = loss.c - 1
    weight = np.append(np.full(X.shape[1] - 1, sigma**-2), 0.0)[:, None]
    if theta is None:
        theta = loss.start(X.shape[1])
    point = loss.at(X, theta)
    value = point.value + 0.5 * float((weight * theta**2).sum())
    factor, before = None, np.inf
    for _ in range(_STEPS):
        gradient = X.T @ point.residual + weight * theta
        if theta.size > _LARGE:
            size = float(np.sqrt((gradient**2).sum()))
            move = newton_move(loss, X, point, weight, loss.diagonal(X, point), gradient, _INNER * size, _PRODUCTS)
        elif factor is None:
            hessian = loss.hessian(X, point)
            hessian[np.diag_indices(len(hessian))] += np.repeat(weight[:, 0], q) + 1e-12 * hessian.diagonal().max()
            factor = cholesky(hessian, loss.steepest(X))
        if factor is not None:
            move = -cho_solve((factor, True), gradient.ravel()).reshape(theta.shape)
        fall, t = -float((gradient * move).sum()), 1.0
        if fall <= _TOL * max(value, 1e-12):
            break
        while True:
            there = theta + t * move
            point = loss.at(X, there)
            new = point.value + 0.5 * float((weight * there**2).sum())
            if new <= value - 1e-4 * t * fall or t < 1e-8:
                break
            t *= 0.5
        theta, value = there, new
        if t < 1e-8:
            break  # what is left is rounding
        if t < 1.0 or fall > _SLOWER * before:
            factor = None
        before = fall
    return Fit(theta, point.proba, point.value)


def carried(theta: Floats, before: Labels, now: Labels) -> Floats:
    """Coefficients (m + 1, c - 1) of other clusters: every new cluster starts where its covariates were on average."""
    columns = grounded(theta[:-1])[before[:-1]]
    m, own = int(now[-1]), now[:-1] < now[-1]
    out = np.zeros((m + 1, theta.shape[1]))
    np.add.at(out, now[:-1][own], columns[own])
    out[:-1] /= np.maximum(np.bincount(now[:-1][own], minlength=m), 1)[:, None]
    out[-1] = theta[-1]
    return out


def log_evidence(X: Any, loss: Loss, fit: Fit, sigma: float, full: bool) -> float:
    """ln p(y | X, clustering, beta0) by Laplace's approximation around the MAP, over all c rows of B; `full`: with all covariances."""
    c, m = loss.c, X.shape[1] - 1
    columns, proba = X[:, :m], fit.proba
    length = float((fit.theta[:-1] ** 2).sum())
    if full:
        hessian = np.zeros((c, m, c, m))
        for a in range(c):
            for b in range(a, c):
                weight = proba[:, a] * ((a == b) - proba[:, b])
                hessian[a, :, b] = gram(columns, weight)
                hessian[b, :, a] = hessian[a, :, b].T
        hessian = hessian.reshape(c * m, c * m)
        hessian[np.diag_indices(c * m)] += sigma**-2
        log_det = float(np.linalg.slogdet(hessian)[1])
    else:
        log_det = float(np.log(squares(columns).T @ (proba * (1.0 - proba)) + sigma**-2).sum())
    return float(-fit.value - 0.5 * length / sigma**2 - c * m * float(np.log(sigma)) - 0.5 * log_det)


def sigma_by_folds(X: Any, y: NDArray[np.intp], c: int, accuracy: bool) -> float:
    """The prior's sigma of the best mean log-probability (or accuracy, as in the paper) of left-out rows; ties: the smallest."""
    folds = _FOLDS if len(y) / (_FOLDS * c) >= 2 else 2
    if np.bincount(y, minlength=c).min() < folds:
        return 1.0  # too few rows of a class to leave any out
    parts = list(StratifiedKFold(folds, shuffle=True, random_state=0).split(X, y))
    score = np.zeros(len(SIGMAS))
    for learnt, left in parts:
        loss, held, theta = Loss(y[learnt], c), Loss(y[left], c), None
        for k, sigma in enumerate(SIGMAS):
            theta = map_fit(X[learnt], loss, sigma, theta).theta
            proba = held.at(X[left], theta).proba
            own = proba[held.row, held.y]
            score[k] += float((own >= proba.max(axis=1)).sum() if accuracy else np.log(np.maximum(own, 1e-300)).sum())
    return float(SIGMAS[int(np.argmax(score))])
