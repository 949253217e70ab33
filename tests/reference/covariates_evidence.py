"""Model selection for convex covariate clustering: evidence of a partition, and the width of the prior by
cross-validation.
"""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

from tests.reference.covariates import (
    as_data,
    canonical,
    expansion,
    log_likelihood_terms,
    newton,
    smooth_part,
    square,
    start_intercept,
    with_ones,
)


def map_fit(X, y, labels, sigma):
    """MAP of the summed columns with b ~ N(0, sigma^2 I), intercept unpenalised: B (c, m) and beta0."""
    X, y, Y = as_data(X, y)
    Z = X @ expansion(canonical(labels))
    Z1, a = with_ones(Z), np.full(Z.shape[1], 1.0 / (2.0 * sigma**2))
    theta = np.column_stack([np.zeros((Y.shape[1], Z.shape[1])), start_intercept(y)])

    def model(theta):
        value, gradient, hessian = smooth_part(theta, Z1, y, Y, a)
        return value, gradient, lambda: square(hessian())

    theta = newton(model, theta, 1e-11 * len(y))
    theta = theta - theta.mean(axis=0)
    return SimpleNamespace(B=theta[:, :-1], beta0=theta[:, -1])


def log_evidence(X, y, labels, sigma, kind="diagonal"):
    """Laplace approximation of log p(y | X, C, beta0) over all c rows of B.

    -nll - |B|^2 / (2 sigma^2) - c m log sigma - 1/2 log |H|, H the Hessian of nll + |B|^2 / (2 sigma^2) in B,
    or its diagonal.
    """
    fitted = map_fit(X, y, labels, sigma)
    X, y, _ = as_data(X, y)
    Z = X @ expansion(canonical(labels))
    c, m = fitted.B.shape
    nll, P = log_likelihood_terms(np.column_stack([fitted.B, fitted.beta0]), with_ones(Z), y)
    if kind == "diagonal":
        log_determinant = np.log((P * (1.0 - P)).T @ Z**2 + 1.0 / sigma**2).sum()
    elif kind == "full":
        H = np.zeros((c * m, c * m))
        for a in range(c):
            for b in range(c):
                H[a * m : (a + 1) * m, b * m : (b + 1) * m] = Z.T @ (
                    Z * (P[:, a] * (float(a == b) - P[:, b]))[:, None]
                )
        log_determinant = np.linalg.slogdet(H + np.eye(c * m) / sigma**2)[1]
    else:
        raise ValueError(f"kind {kind!r} is neither diagonal nor full")
    return float(
        -nll - (fitted.B**2).sum() / (2.0 * sigma**2) - c * m * np.log(sigma) - log_determinant / 2.0
    )


def sigma_grid():
    """10^-3, 10^-2.5, ..., 10^1.5."""
    return 10.0 ** np.arange(-3.0, 1.75, 0.5)


def stratified_folds(y, k=None):
    """Fold of every row: the rows of a class are dealt out in turn; 5 folds, 2 if n / (5 c) < 2."""
    y = np.asarray(y)
    if k is None:
        k = 5 if len(y) / (5 * (y.max() + 1)) >= 2 else 2
    folds = np.empty(len(y), dtype=np.int64)
    for label in np.unique(y):
        rows = np.nonzero(y == label)[0]
        folds[rows] = np.arange(len(rows)) % k
    return folds


def sigma_by_cv(X, y, labels, grid=None, scoring="log_probability", folds=None):
    """The sigma of the highest held-out score, the smallest among equals, and all scores.

    The score is the mean over all rows, each held out once, of log p or of being right.
    """
    if scoring not in ("log_probability", "accuracy"):
        raise ValueError("the score is log_probability or accuracy")
    X, y, _ = as_data(X, y)
    grid = np.sort(sigma_grid() if grid is None else np.asarray(grid, dtype=np.float64))
    folds = stratified_folds(y) if folds is None else np.asarray(folds)
    Z1 = with_ones(X @ expansion(canonical(labels)))
    scores = []
    for sigma in grid:
        rows = np.zeros(len(y))
        for fold in np.unique(folds):
            out = folds == fold
            fitted = map_fit(X[~out], y[~out], labels, sigma)
            _, P = log_likelihood_terms(np.column_stack([fitted.B, fitted.beta0]), Z1[out], y[out])
            rows[out] = (
                np.log(P[np.arange(len(P)), y[out]])
                if scoring == "log_probability"
                else P.argmax(axis=1) == y[out]
            )
        scores.append(rows.mean())
    return SimpleNamespace(sigma=float(grid[int(np.argmax(scores))]), grid=grid, scores=np.array(scores))
