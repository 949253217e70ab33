"""Convex covariate clustering word for word: the reference implementation.

Andrade, Fukumizu & Okajima, "Convex Covariate Clustering for Classification", arXiv 1903.01680.
Nothing here is fast: Hessians are dense, every B has all c rows, every edge its own dual vector.

The objective of weights B (c, d) with columns b_i and an intercept beta0 (c,) is

    J = sum_s [lse(B x_s + beta0) - (B x_s + beta0)_{y_s}]
        + ridge |B|^2 + nu sum_{i<j} S_ij |b_i - b_j| + gamma sum_i |b_i|

over the rows x_s of X (n, d) with labels y_s in 0..c-1. S (d, d) is symmetric and nonnegative, dense
or sparse, its diagonal is ignored; the edges are the pairs i < j with S_ij > 0, in order of (i, j).
Duals of the edges are columns of lam (c, l), those of the group lasso columns of t (c, d).

Internally both penalties are one: sum_e radius_e |(D b)_e|, where the rows of the sparse matrix D
are e_i - e_j (edges) and, if gamma > 0, e_i (columns). Weights and intercept are kept in one
array theta (c, d + 1), the intercept last.
"""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
from scipy import sparse
from scipy.linalg import cho_factor, cho_solve
from scipy.sparse.csgraph import connected_components
from scipy.special import logsumexp

EQUAL = 1e-6  # columns closer than this, relative to the longest, are proposed as one cluster
FEASIBLE = 1e-12  # relative excess of a dual's norm over its radius that rounding may cause


# ----------------------------------------------------------------------------------------
# Data, edges, labels
# ----------------------------------------------------------------------------------------


def as_data(X, y):
    """X (n, d) as float64, y as ints, and the one-hot labels (n, c); every class must occur."""
    X, y = np.asarray(X, dtype=np.float64), np.asarray(y)
    if X.ndim != 2 or y.shape != (len(X),) or not np.isfinite(X).all():
        raise ValueError("X must be a finite table with one label per row")
    c = int(y.max()) + 1
    if c < 2 or not np.array_equal(np.unique(y), np.arange(c)):
        raise ValueError("the labels must be 0..c-1, each of them present, and at least two")
    return X, y.astype(np.int64), np.eye(c)[y]


def edge_list(S):
    """Edges of S: arrays i < j and S_ij > 0, in order of (i, j) (section 1)."""
    S = S.toarray() if sparse.issparse(S) else np.asarray(S, dtype=np.float64)
    if (
        S.ndim != 2
        or S.shape[0] != S.shape[1]
        or not np.isfinite(S).all()
        or (S < 0.0).any()
        or not np.array_equal(S, S.T)
    ):
        raise ValueError("S must be square, finite, nonnegative and exactly symmetric")
    i, j = np.nonzero(np.triu(S, 1))
    return i, j, S[i, j]


def difference_matrix(i, j, d):
    """D (l, d): (D b)_e = b_i - b_j."""
    e = np.arange(len(i))
    return sparse.csr_array(
        (np.repeat([1.0, -1.0], len(i)), (np.tile(e, 2), np.concatenate([i, j]))), shape=(len(i), d)
    )


def canonical(labels):
    """Clusters numbered by their smallest member."""
    shown = list(dict.fromkeys(np.asarray(labels).tolist()))
    return np.array([shown.index(k) for k in np.asarray(labels).tolist()], dtype=np.int64)


def components(i, j, joined, d):
    """Canonical labels of the connected components of the edges that are joined."""
    graph = sparse.coo_array((np.ones(int(joined.sum())), (i[joined], j[joined])), shape=(d, d))
    return canonical(connected_components(graph, directed=False)[1])


def expansion(labels, zero=None):
    """E (d, m) of zeros and ones: B E^T of the clusters' columns gives all columns; X E sums columns."""
    labels = np.asarray(labels)
    E = np.eye(int(labels.max()) + 1)[labels]
    if zero is not None:
        E[zero] = 0.0
    return E[:, E.any(axis=0)]


# ----------------------------------------------------------------------------------------
# Section 1: the problem
# ----------------------------------------------------------------------------------------


def log_likelihood_terms(theta, X1, y):
    """Negative log-likelihood and probabilities P (n, c)."""
    scores = X1 @ theta.T
    lse = logsumexp(scores, axis=1)
    return float((lse - scores[np.arange(len(y)), y]).sum()), np.exp(scores - lse[:, None])


def with_ones(X):
    """X with a last column of ones, for the intercept."""
    return np.column_stack([X, np.ones(len(X))])


def norms(V):
    """Lengths of the columns."""
    return np.sqrt((V**2).sum(axis=0))


def project(V, radius):
    """Columns shortened to their radius, and which of them were short enough."""
    h = norms(V)
    inside = h <= radius
    return V * np.where(inside, 1.0, radius / np.where(inside, 1.0, h)), inside


def objective(B, beta0, X, y, S, nu, ridge, gamma=0.0):
    """J of section 1."""
    X, y, _ = as_data(X, y)
    i, j, s = edge_list(S)
    nll, _ = log_likelihood_terms(np.column_stack([B, beta0]), with_ones(X), y)
    return nll + ridge * (B**2).sum() + nu * (s * norms(B[:, i] - B[:, j])).sum() + gamma * norms(B).sum()


def solve(H, g):
    """H^-1 g, the shortest least-squares solution if H is not positive definite."""
    try:
        return cho_solve(cho_factor(H), g)
    except np.linalg.LinAlgError:
        return np.linalg.lstsq(H, g, rcond=1e-13)[0]


def newton(model, theta, tol, max_iter=200):
    """Damped Newton steps until no entry of the gradient exceeds tol.

    ``model(theta)`` gives the value, the gradient and a function that gives the Hessian. Once the value
    no longer resolves a step, the step is taken if it shortens the gradient.
    """
    value, gradient, hessian = model(theta)
    for _ in range(max_iter):
        if np.abs(gradient).max() <= tol:
            break
        step = -solve(hessian(), gradient.ravel()).reshape(theta.shape)
        slope, t = float((gradient * step).sum()), 1.0
        while t > 1e-12:
            new = model(theta + t * step)
            blurred = new[0] <= value + 1e-13 * (1.0 + abs(value))
            if new[0] <= value + 1e-4 * t * slope and -t * slope > 1e-12 * abs(value):
                break
            if blurred and np.linalg.norm(new[1]) < np.linalg.norm(gradient):
                break
            t /= 2
        else:
            break
        theta, (value, gradient, hessian) = theta + t * step, new
    return theta


def logistic_hessian(P, X1):
    """Hessian (c, d + 1, c, d + 1): blocks X1^T diag(p_a (delta_ab - p_b)) X1.

    One vector added to all rows of theta changes no probability; the term 1 1^T x I makes that
    direction regular and leaves the steps of centred arrays as they are.
    """
    c, k = P.shape[1], X1.shape[1]
    H = np.zeros((c, k, c, k))
    for a in range(c):
        for b in range(c):
            H[a, :, b, :] = X1.T @ (X1 * (P[:, a] * (float(a == b) - P[:, b]))[:, None]) + np.eye(k)
    return H


def edge_hessian(D, straight, curved, v):
    """sum_e D_e^T (straight_e I + curved_e (I - v_e v_e^T)) D_e as an array (c, d, c, d)."""
    c, d = len(v), D.shape[1]
    H = np.zeros((c, d, c, d))
    for a in range(c):
        for b in range(c):
            weight = float(a == b) * (straight + curved) - curved * v[a] * v[b]
            H[a, :, b, :] = (D.T @ (D * weight[:, None])).toarray()
    return H


def smooth_part(theta, X1, y, Y, a):
    """nll + sum_i a_i |b_i|^2: value, gradient, Hessian (as a function)."""
    nll, P = log_likelihood_terms(theta, X1, y)
    a1 = np.append(a, 0.0)

    def hessian():
        H = logistic_hessian(P, X1)
        for row in range(len(theta)):
            H[row, :, row, :] += np.diag(2.0 * a1)
        return H

    return nll + float((a1 * theta**2).sum()), (P - Y).T @ X1 + 2.0 * a1 * theta, hessian


def square(H):
    """Hessian as a matrix."""
    return H.reshape(H.shape[0] * H.shape[1], -1)


def start_intercept(y):
    """Centred log frequencies of the classes."""
    beta0 = np.log(np.bincount(y))
    return beta0 - beta0.mean()


def intercept(B, X, y):
    """The beta0 that minimises J given B, centred over classes (sections 1 and 4).

    With it the columns of P sum to those of Y, which the dual value needs.
    """
    X, y, Y = as_data(X, y)
    scores, one = X @ np.asarray(B).T, np.ones((len(X), 1))

    def model(beta):
        shifted = scores + beta.T
        lse = logsumexp(shifted, axis=1)
        P = np.exp(shifted - lse[:, None])
        value = float((lse - shifted[np.arange(len(y)), y]).sum())
        return value, (P - Y).T @ one, lambda: square(logistic_hessian(P, one))

    beta0 = newton(model, start_intercept(y)[:, None], 1e-14 * len(X))[:, 0]
    return beta0 - beta0.mean()


# ----------------------------------------------------------------------------------------
# Section 4: the duality gap
# ----------------------------------------------------------------------------------------


def dual_value(lam, P, X, y, S, nu, ridge, t=None, gamma=0.0):
    """sum_s entropy(P_s) - |M|^2 / (4 ridge), M = (P - Y)^T X + G + t, a lower bound of J.

    Needs |lam_e| <= nu S_e, |t_i| <= gamma, columns of P that sum to those of Y, and ridge > 0.
    """
    X, y, Y = as_data(X, y)
    i, j, s = edge_list(S)
    lam = np.asarray(lam, dtype=np.float64)
    if lam.shape != (Y.shape[1], len(s)) or not (norms(lam) <= nu * s * (1.0 + FEASIBLE)).all():
        raise ValueError("lam is not feasible: one column per edge, no longer than nu S_e")
    t = np.zeros((Y.shape[1], X.shape[1])) if t is None else np.asarray(t, dtype=np.float64)
    if not (norms(t) <= gamma * (1.0 + FEASIBLE)).all():
        raise ValueError("t is not feasible: one column per covariate, no longer than gamma")
    if np.abs((P - Y).sum(axis=0)).max() > 1e-9 * len(X):
        raise ValueError("the intercept is not the best one: the columns of P do not sum to those of Y")
    if not ridge > 0.0:
        raise ValueError("the bound needs ridge > 0")
    M = (P - Y).T @ X + lam @ difference_matrix(i, j, X.shape[1]) + t
    entropy = -np.where(P > 0.0, P * np.log(np.where(P > 0.0, P, 1.0)), 0.0).sum()
    return float(entropy - (M**2).sum() / (4.0 * ridge))


def duality_gap(B, lam, X, y, S, nu, ridge, t=None, gamma=0.0):
    """J(B, its best beta0) - dual value, never negative but for rounding."""
    beta0 = intercept(B, X, y)
    _, P = log_likelihood_terms(
        np.column_stack([B, beta0]), with_ones(np.asarray(X, dtype=np.float64)), np.asarray(y)
    )
    return objective(B, beta0, X, y, S, nu, ridge, gamma) - dual_value(lam, P, X, y, S, nu, ridge, t, gamma)


# ----------------------------------------------------------------------------------------
# Section 6: the optimum by a semismooth Newton augmented Lagrangian; section 5: the partition
# ----------------------------------------------------------------------------------------


def as_problem(X, y, S, nu, ridge, gamma=0.0):
    """min nll + sum_i a_i |b_i|^2 + sum_e radius_e |(D b)_e|; edges first, then columns if gamma > 0."""
    X, y, Y = as_data(X, y)
    i, j, s = edge_list(S)
    d = X.shape[1]
    D, radius = difference_matrix(i, j, d), nu * s
    if gamma > 0.0:
        D, radius = (
            sparse.vstack([D, sparse.eye_array(d)]).tocsr(),
            np.append(radius, np.full(d, float(gamma))),
        )
    return SimpleNamespace(X=X, X1=with_ones(X), y=y, Y=Y, D=D, radius=radius, a=np.full(d, float(ridge)))


def contract(problem, E):
    """The problem restricted to B = B_C E^T: columns of X are summed, |b_i|^2 counts |C| times.

    Edges inside a cluster have (D E)_e = 0 and drop out; those between two clusters remain side by side,
    which is the sum of their weights.
    """
    X, D = problem.X @ E, problem.D @ E
    kept = (D != 0.0).any(axis=1)
    small = SimpleNamespace(
        X=X,
        X1=with_ones(X),
        y=problem.y,
        Y=problem.Y,
        D=sparse.csr_array(D[kept]),
        radius=problem.radius[kept],
    )
    small.a = problem.a @ E
    return small, kept


def value_of(theta, p):
    """J of a problem."""
    return smooth_part(theta, p.X1, p.y, p.Y, p.a)[0] + float((p.radius * norms(theta[:, :-1] @ p.D.T)).sum())


def bound_of(theta, lam, p):
    """Dual value of a problem whose columns all have a_i > 0; theta with its best intercept."""
    _, P = log_likelihood_terms(theta, p.X1, p.y)
    M = (P - p.Y).T @ p.X + lam @ p.D
    entropy = -np.where(P > 0.0, P * np.log(np.where(P > 0.0, P, 1.0)), 0.0).sum()
    return float(entropy - (M**2 / (4.0 * p.a)).sum())


def best_intercept(theta, p):
    """theta with the best intercept for its weights."""
    return np.column_stack([theta[:, :-1], intercept(theta[:, :-1], p.X, p.y)])


def augmented_model(lam, sigma, p):
    """F(B) + sum_e Moreau envelope of radius_e |.| at (D b + lam / sigma); gradient grad F + D^T Proj."""

    def model(theta):
        value, gradient, hessian = smooth_part(theta, p.X1, p.y, p.Y, p.a)
        q = lam + sigma * (theta[:, :-1] @ p.D.T)
        projected, inside = project(q, p.radius)
        value += float(((q**2).sum() - ((q - projected) ** 2).sum() - (lam**2).sum()) / (2.0 * sigma))
        gradient = gradient + np.column_stack([projected @ p.D, np.zeros(len(theta))])

        def full():
            H, h = hessian(), np.maximum(norms(q), 1e-300)
            H[:, :-1, :, :-1] += edge_hessian(
                p.D, sigma * inside, sigma * np.where(inside, 0.0, p.radius / h), q / h
            )
            return square(H)

        return value, gradient, full

    return model


def augmented_lagrangian(p, tol, max_iter=60, theta=None, lam=None):
    """SSNAL of section 6: theta and feasible lam with gap <= tol max(|dual|, 1), or with ridge 0 a residual
    so small.
    """
    c, d = p.Y.shape[1], p.X.shape[1]
    theta = np.column_stack([np.zeros((c, d)), start_intercept(p.y)]) if theta is None else theta
    lam = np.zeros((c, len(p.radius))) if lam is None else lam
    sigma, best = 1.0, None
    for _ in range(max_iter):
        theta = newton(augmented_model(lam, sigma, p), theta, 1e-11 * len(p.y))
        theta = best_intercept(theta, p)
        difference = theta[:, :-1] @ p.D.T
        lam, _ = project(lam + sigma * difference, p.radius)
        if (p.a > 0.0).all():
            bound = bound_of(theta, lam, p)
            gap, scale = value_of(theta, p) - bound, max(abs(bound), 1.0)
        else:
            stationary = smooth_part(theta, p.X1, p.y, p.Y, p.a)[1][:, :-1] + lam @ p.D
            slack = (p.radius * norms(difference)).sum() - (lam * difference).sum()
            gap, scale = max(float(np.abs(stationary).max()), float(slack)), 1.0
        if best is None or gap < best[0]:
            best = gap, theta, lam
        if gap <= tol * scale:
            break
        sigma = min(3.0 * sigma, 1e7)
    return best[1], best[2]


def newton_on_partition(theta, p):
    """Newton on J itself, smooth as long as no (D b)_e is zero."""

    def model(theta):
        value, gradient, hessian = smooth_part(theta, p.X1, p.y, p.Y, p.a)
        difference = theta[:, :-1] @ p.D.T
        h = np.maximum(norms(difference), 1e-300)
        v = difference / h
        gradient = gradient + np.column_stack([(p.radius * v) @ p.D, np.zeros(len(theta))])

        def full():
            H = hessian()
            H[:, :-1, :, :-1] += edge_hessian(p.D, np.zeros(len(h)), p.radius / h, v)
            return square(H)

        return value + float((p.radius * h).sum()), gradient, full

    return newton(model, theta, 1e-12 * len(p.y))


def solve_restricted(p, E, tol, theta=None, lam=None):
    """The best B of the form B_C E^T: all columns, the clusters' columns and the duals of all edges."""
    small, kept = contract(p, E)
    c = p.Y.shape[1]
    lam = np.zeros((c, len(p.radius))) if lam is None else lam.copy()
    found, lam[:, kept] = augmented_lagrangian(small, tol, theta=theta, lam=lam[:, kept])
    apart = norms(found[:, :-1] @ small.D.T)
    if len(apart) and apart.min() > EQUAL * max(norms(found[:, :-1]).max(), 1e-300):
        found = best_intercept(newton_on_partition(found, small), small)
        pressed = found[:, :-1] @ small.D.T
        exact = lam.copy()
        exact[:, kept], _ = project(small.radius * pressed / norms(pressed), small.radius)
        full = np.column_stack([found[:, :-1] @ E.T, found[:, -1]])
        if (p.a > 0.0).all() and bound_of(full, exact, p) >= bound_of(full, lam, p):
            lam = exact
    found = found - found.mean(axis=0)
    return np.column_stack([found[:, :-1] @ E.T, found[:, -1]]), found, lam


def proposed(B, X, S, nu, gamma):
    """Section 5(a, b): edges whose columns agree are joined; with gamma all zero columns are one group."""
    i, j, s = edge_list(S)
    # the floor is for a B that is zero but for rounding
    small = EQUAL * max(norms(B).max(), 1e-3 / np.sqrt(np.mean(np.square(X)) + 1e-300))
    joined = (norms(B[:, i] - B[:, j]) <= small) & (nu * s > 0.0)
    labels = components(i, j, joined, B.shape[1])
    zero = np.isin(labels, labels[norms(B) <= small]) if gamma > 0.0 else np.zeros(B.shape[1], dtype=bool)
    return canonical(np.where(zero, -1, labels)), zero


def reference_solution(X, y, S, nu, ridge, gamma=0.0, tol=1e-10):
    """The optimum with a certified gap, and the partition of its columns (sections 5 and 6).

    Columns that agree to 1e-6 are made equal and the problem is solved again on them; the result is kept if
    its gap is no larger than the tolerance (with ridge 0 there is no bound and it is kept if J does not
    rise).

    Returns
    -------
    SimpleNamespace
        ``B``, ``beta0``, ``objective``, ``gap`` (nan with ridge 0), ``lam``, ``t`` (None without gamma),
        ``labels``, ``zero``, ``separation`` (the shortest |b_i - b_j| of an edge between clusters and, with
        gamma, |b_i| not zero; inf if none) and ``radius`` = sqrt(gap / ridge): |B - B_opt| is no larger, so a
        separation beyond sqrt(2) radius is real.
    """
    p = as_problem(X, y, S, nu, ridge, gamma)
    i, j, s = edge_list(S)
    theta, lam = augmented_lagrangian(p, tol)
    theta = theta - theta.mean(axis=0)
    labels, zero = np.full(p.X.shape[1], -1), np.zeros(p.X.shape[1], dtype=bool)

    def gap_of(theta, lam):
        return value_of(theta, p) - bound_of(theta, lam, p) if ridge > 0.0 else np.nan

    while True:
        labels_new, zero_new = proposed(theta[:, :-1], X, S, nu, gamma)
        if np.array_equal(labels_new, labels) and np.array_equal(zero_new, zero):
            break
        E = expansion(labels_new, zero_new)
        theta_new, _, lam_new = solve_restricted(p, E, tol / 10.0, lam=lam)
        if ridge > 0.0:
            allowed = max(gap_of(theta, lam), tol * max(abs(bound_of(theta, lam, p)), 1.0))
            accepted = gap_of(theta_new, lam_new) <= allowed
        else:
            accepted = value_of(theta_new, p) <= value_of(theta, p) + tol
        if not accepted:
            labels = np.arange(p.X.shape[1]) if labels[0] < 0 else labels
            break
        theta, lam, labels, zero = theta_new, lam_new, labels_new, zero_new
    B, gap = theta[:, :-1], gap_of(theta, lam)
    apart = norms(B[:, i] - B[:, j])[(labels[i] != labels[j]) & (nu * s > 0.0)]
    if gamma > 0.0:
        apart = np.append(apart, norms(B)[~zero])
    return SimpleNamespace(
        B=B,
        beta0=theta[:, -1],
        objective=value_of(theta, p),
        gap=gap,
        lam=lam[:, : len(s)],
        t=lam[:, len(s) :] if gamma > 0.0 else None,
        labels=labels,
        zero=zero,
        separation=float(apart.min(initial=np.inf)),
        radius=np.sqrt(max(gap, 0.0) / ridge) if ridge > 0.0 else np.nan,
    )


# ----------------------------------------------------------------------------------------
# Data
# ----------------------------------------------------------------------------------------


def synthetic(d, n, agree=True, seed=0):
    """Section 7: X, y, S and the true groups.

    Ten clusters of d / 10 covariates; cluster g has weight 5 in class g mod 4; x | y ~ N(B_y, S) with n / 4
    rows per class. S has blocks of 0.9 with a diagonal of 1. If they disagree, two blocks straddle clusters
    0, 1 and 2: the true groups are then the common refinement.
    """
    if d % 10 or n % 4 or (not agree and d % 20):
        raise ValueError("d must be a multiple of 10 (of 20 to disagree) and n of 4")
    k = d // 10
    cluster, block = np.repeat(np.arange(10), k), np.repeat(np.arange(10), k)
    if not agree:
        half = k // 2
        block = block + 1
        block[:half] = 0
        block[half : k + half] = 1
        block[k + half : 2 * k + half] = 2
    S = np.where(block[:, None] == block[None, :], 0.9, 0.0)
    np.fill_diagonal(S, 1.0)
    B = np.where(cluster[None, :] % 4 == np.arange(4)[:, None], 5.0, 0.0)
    y = np.repeat(np.arange(4), n // 4)
    X = B[y] + np.random.default_rng(seed).standard_normal((n, d)) @ np.linalg.cholesky(S).T
    return X, y, S, canonical(cluster * 100 + block)


def recipe(kind, d, n, c, seed):
    """X, y and S of a small instance with noisy classes.

    Covariates belong to four groups with one weight vector each. S is "dense": exp(-distance^2 / 2) of random
    points near their group's point; "blocks": 0.9 in a group and 0.1 between, a complete graph whose optimal
    duals are not unique; "flat": all ones; "knn": the three nearest neighbours of "dense"; "chain":
    neighbours in order of index.
    """
    rng = np.random.default_rng(seed)
    group = np.arange(d) * min(4, d) // d
    X = rng.standard_normal((n, d))
    scores = X @ rng.standard_normal((c, 4))[:, group].T
    y = (scores + rng.gumbel(size=scores.shape)).argmax(axis=1)
    y[:c] = np.arange(c)
    points = 2.0 * rng.standard_normal((4, 3))[group] + 0.5 * rng.standard_normal((d, 3))
    dense = np.exp(-((points[:, None] - points[None, :]) ** 2).sum(axis=2) / 2.0)
    if kind == "dense":
        S = dense
    elif kind == "blocks":
        S = np.where(group[:, None] == group[None, :], 0.9, 0.1)
    elif kind == "flat":
        S = np.ones((d, d))
    elif kind == "knn":
        S = np.zeros((d, d))
        for row in range(d):
            nearest = [column for column in np.argsort(-dense[row], kind="stable") if column != row][:3]
            S[row, nearest] = dense[row, nearest]
        S = np.maximum(S, S.T)
    elif kind == "chain":
        S = np.eye(d, k=1) + np.eye(d, k=-1)
    else:
        raise ValueError(f"no recipe {kind!r}")
    return X, y, np.maximum(S, S.T)


def build(recipe_of):
    """X, y and S of a stored recipe."""
    names = dict(recipe_of)
    kind = names.pop("kind")
    return synthetic(**names)[:3] if kind == "synthetic" else recipe(kind, **names)


def frozen():
    """Stored instances: optimum and partition, confirmed by the conic solver that the file names.

    Each has ``recipe``, ``nu``, ``ridge``, ``gamma``; ``x_sum`` = sum |X|, which tells that the generator
    still gives the same data; ``objective`` and its ``gap`` (None with ridge 0), ``conic`` (the solver's
    objective), ``labels``, ``zero`` (covariates whose column is zero) and two numbers by which the partition
    is certain: ``separation`` as in `reference_solution`, and ``inner``, the smallest max |lam_e| / (nu S_e)
    of duals that hold the clusters together: below 1 their columns are exactly equal.
    """
    with open(Path(__file__).with_name("covariates_reference.json"), encoding="utf-8") as file:
        return json.load(file)["instances"]
