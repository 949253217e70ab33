"""Convex clustering of points."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

from tests.reference.covariates import EQUAL, components, difference_matrix, edge_list, norms, project


def convex_clustering(P, W, g, tol=1e-12, max_iter=200000):
    """min 1/2 |P - U|^2 + g sum_{i<j} w_ij |u_i - u_j| over rows u_i, by AMA (Chi & Lange, section 9).

    Accelerated projected gradient on the duals, step 1 / max(d_i + d_j), restarted when the dual value falls.

    Returns
    -------
    SimpleNamespace
        ``U``, ``labels``, ``objective``, ``gap`` (at most tol max(J, 1) unless the iterations ran out),
        ``lam`` (p, l), ``separation``.
    """
    P = np.asarray(P, dtype=np.float64)
    i, j, w = edge_list(W)
    D, radius, p = difference_matrix(i, j, len(P)), g * w, P.T
    degree = np.bincount(np.concatenate([i, j]), minlength=len(P))
    step = 1.0 / (degree[i] + degree[j]).max(initial=1)
    lam = ahead = np.zeros((len(p), len(w)))
    U, momentum, J, gap, dual = p, 1.0, np.inf, np.inf, -np.inf
    for _ in range(max_iter):
        new, _ = project(ahead + step * ((p - ahead @ D) @ D.T), radius)
        U = p - new @ D
        pressed = U @ D.T
        # |P - U|^2 / 2 + penalty - |P|^2 / 2 + |U|^2 / 2, without the cancellation
        gap = float((radius * norms(pressed)).sum() - (new * pressed).sum())
        J = float(((p - U) ** 2).sum() / 2.0 + (radius * norms(pressed)).sum())
        if gap <= tol * max(J, 1.0):
            lam = new
            break
        if J - gap < dual:
            momentum, ahead = 1.0, lam
        following = (1.0 + np.sqrt(1.0 + 4.0 * momentum**2)) / 2.0
        ahead = new + (momentum - 1.0) / following * (new - lam)
        lam, momentum, dual = new, following, J - gap
    # U is within sqrt(2 gap) of the optimum, closer columns cannot be separated
    apart = norms(U @ D.T)
    joined = (
        apart <= max(EQUAL * norms(U - U.mean(axis=1, keepdims=True)).max(), 2.0 * np.sqrt(max(gap, 0.0)))
    ) & (radius > 0.0)
    labels = components(i, j, joined, len(P))
    separation = apart[labels[i] != labels[j]].min(initial=np.inf)
    return SimpleNamespace(U=U.T, labels=labels, objective=J, gap=gap, lam=lam, separation=separation)
