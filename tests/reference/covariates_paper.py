"""The ADMM of the paper for convex covariate clustering, as printed and with one vector per edge."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
from scipy.optimize import minimize

from tests.reference.covariates import (
    as_data,
    components,
    difference_matrix,
    edge_list,
    newton,
    norms,
    project,
    smooth_part,
    square,
    start_intercept,
    with_ones,
)


def b_step(theta, linear, quadratic, X1, y, Y, ridge, inner_tol):
    """argmin nll + ridge |B|^2 + <linear, B> + 1/2 sum_i quadratic_i |b_i|^2, by L-BFGS from theta.

    The values of L-BFGS resolve B only to about 1e-8; a smaller inner_tol is reached by Newton steps.
    """
    a = ridge + quadratic / 2.0
    pull = np.column_stack([linear, np.zeros(len(linear))])

    def model(theta):
        value, gradient, hessian = smooth_part(theta, X1, y, Y, a)
        return value + float((pull * theta).sum()), gradient + pull, lambda: square(hessian())

    def flat(x):
        value, gradient, _ = model(x.reshape(theta.shape))
        return value, gradient.ravel()

    found = minimize(
        flat,
        theta.ravel(),
        jac=True,
        method="L-BFGS-B",
        options={"gtol": inner_tol, "ftol": 1e-15, "maxiter": 5000},
    )
    return newton(model, found.x.reshape(theta.shape), inner_tol)


def paper_admm(
    X,
    y,
    S,
    nu,
    ridge,
    rho=1.0,
    eps=1e-5,
    max_iter=10000,
    inner_tol=1e-5,
    start=None,
    min_iter=11,
    iterates=False,
):
    """Section 2: the ADMM of the paper with all its copies z and multipliers u.

    Each edge has two copies, z[0] of b_i and z[1] of b_j, arrays (c, l). Per iteration B, then
    z, then u; stops when |z - b| and sqrt(rho) |z - z_old| are at most sqrt(c (d + 2 l)) eps.

    Parameters
    ----------
    start : SimpleNamespace, optional
        An earlier result, whose B, beta0, z and u are continued; otherwise B = 0, z = b, u = 0.

    Returns
    -------
    SimpleNamespace
        ``B``, ``beta0``, ``z``, ``u`` (2, c, l), ``fused`` (l,) and ``labels`` by these flags,
        ``n_iter``, ``converged``, ``iterates`` (every B, if asked for).
    """
    X, y, Y = as_data(X, y)
    i, j, s = edge_list(S)
    c, d, n_edges = Y.shape[1], X.shape[1], len(s)
    X1, degree = with_ones(X), np.bincount(np.concatenate([i, j]), minlength=d)
    if start is None:
        theta = np.column_stack([np.zeros((c, d)), start_intercept(y)])
        z, u = np.zeros((2, c, n_edges)), np.zeros((2, c, n_edges))
    else:
        theta, z, u = np.column_stack([start.B, start.beta0]), start.z, start.u
    threshold, path, converged, k = np.sqrt(c * (d + 2 * n_edges)) * eps, [], False, 0
    fused = np.zeros(n_edges, dtype=bool)
    while k < max_iter and not converged:
        k += 1
        Q = np.zeros((c, d))
        np.add.at(Q.T, i, (z[0] + u[0]).T)
        np.add.at(Q.T, j, (z[1] + u[1]).T)
        theta = b_step(theta, -rho * Q, rho * degree, X1, y, Y, ridge, inner_tol)
        b = np.stack([theta[:, i], theta[:, j]])
        m = b - u
        h = norms(m[0] - m[1])
        # theta = 1/2 is remembered as a flag, recomputed copies need not agree to the last bit
        fused = (h <= 2.0 * nu * s / rho) & (nu * s > 0.0)
        share = np.where(fused, 0.5, 1.0 - nu * s / (rho * np.where(h > 0.0, h, 1.0)))
        z_old, z = z, np.stack([share * m[0] + (1.0 - share) * m[1], (1.0 - share) * m[0] + share * m[1]])
        u = u + z - b
        r, dual = np.sqrt(((z - b) ** 2).sum()), np.sqrt(rho * ((z - z_old) ** 2).sum())
        converged = bool(k >= min_iter and r <= threshold and dual <= threshold)
        if iterates:
            path.append(theta[:, :d].copy())
    B, beta0 = theta[:, :d], theta[:, d]
    return SimpleNamespace(
        B=B - B.mean(axis=0),
        beta0=beta0 - beta0.mean(),
        z=z,
        u=u,
        fused=fused,
        labels=components(i, j, fused, d),
        n_iter=k,
        converged=converged,
        iterates=path,
    )


def edge_admm(
    X,
    y,
    S,
    nu,
    ridge,
    rho=1.0,
    eps=1e-5,
    max_iter=10000,
    inner_tol=1e-5,
    start=None,
    min_iter=11,
    iterates=False,
    weights="uniform",
    relax=1.0,
    rule="node",
):
    """Section 3: one dual vector per edge instead of four.

    With lam_e = -rho u_ij = rho u_ji the paper's iteration is

        B     = argmin nll + ridge |B|^2 + <2 G(lam) - G(lam_old), B> + rho/2 sum_i D_i |b_i - b_i^old|^2
        lam_e = Proj_{nu S_e}(lam_e + (rho_e / 2) (b_i - b_j))

    with G_i the signed sum of lam at node i, rho_e = rho (uniform) or rho S_e / mean(S), D_i = sum_e rho_e /
    rho. Over-relaxation moves B and lam together, old + relax (new - old); flags come from the projection.

    Parameters
    ----------
    rule : {"node", "paper"}
        Residuals of section 3, sqrt(sum |dlam_e|^2 / (rho_e / 2)) and sqrt(rho sum D_i |db_i|^2), or those of
        the paper, which need lam of the last two iterations (uniform weights, no relaxation).

    Returns
    -------
    SimpleNamespace
        ``B``, ``beta0``, ``lam`` (c, l), feasible, ``fused``, ``labels``, ``n_iter``, ``converged``,
        ``iterates``, ``state``.
    """
    X, y, Y = as_data(X, y)
    i, j, s = edge_list(S)
    c, d, n_edges = Y.shape[1], X.shape[1], len(s)
    if weights not in ("uniform", "S") or rule not in ("node", "paper"):
        raise ValueError("weights are uniform or S, the rule is node or paper")
    if rule == "paper" and (weights != "uniform" or relax != 1.0):
        raise ValueError("the paper's residuals are those of uniform weights without relaxation")
    rho_e = np.full(n_edges, float(rho)) if weights == "uniform" or n_edges == 0 else rho * s / s.mean()
    D, X1, radius = difference_matrix(i, j, d), with_ones(X), nu * s
    step = np.bincount(np.concatenate([i, j]), np.tile(rho_e, 2), minlength=d)
    if start is None:
        theta = np.column_stack([np.zeros((c, d)), start_intercept(y)])
        centre, base, lam = theta[:, :d], np.zeros((c, n_edges)), np.zeros((c, n_edges))
    else:
        theta = np.column_stack([start.B, start.beta0])
        centre, base, lam = start.state
    dlam_old, threshold, path, converged, k = lam - base, np.sqrt(c * (d + 2 * n_edges)) * eps, [], False, 0
    fused = np.zeros(n_edges, dtype=bool)
    while k < max_iter and not converged:
        k += 1
        theta = b_step(theta, (2.0 * lam - base) @ D - step * centre, step, X1, y, Y, ridge, inner_tol)
        db = theta[:, :d] - centre
        centre, base = centre + relax * db, base + relax * (lam - base)
        lam, fused = project(base + (rho_e / 2.0) * (centre @ D.T), radius)
        fused = fused & (radius > 0.0)
        dlam = lam - base
        if rule == "node":
            r, dual = np.sqrt((dlam**2 / (rho_e / 2.0)).sum()), np.sqrt((step * db**2).sum())
        else:
            # z_ij - b_i = -dlam / rho at i and dlam / rho at j
            dz = [db[:, i] - (dlam - dlam_old) / rho, db[:, j] + (dlam - dlam_old) / rho]
            r, dual = (
                np.sqrt(2.0 * (dlam**2).sum()) / rho,
                np.sqrt(rho * ((dz[0] ** 2).sum() + (dz[1] ** 2).sum())),
            )
        dlam_old = dlam
        converged = bool(k >= min_iter and r <= threshold and dual <= threshold)
        if iterates:
            path.append(theta[:, :d].copy())
    B, beta0 = theta[:, :d], theta[:, d]
    return SimpleNamespace(
        B=B - B.mean(axis=0),
        beta0=beta0 - beta0.mean(),
        lam=lam,
        fused=fused,
        labels=components(i, j, fused, d),
        n_iter=k,
        converged=converged,
        iterates=path,
        state=(centre, base, lam),
    )
