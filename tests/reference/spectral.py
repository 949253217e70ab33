"""Graph spectral features word for word: the reference implementation.

Sahoo & Chakraborty, "Graph Spectral Feature Learning for Mixed Data of Categorical and Numerical Type",
arXiv 2005.02817. Sections are those of the specification. Nothing here is fast: every similarity of
every row, node of the grid and pair of variables is stored.

A table has p columns: the ``p1`` numeric ones first, scaled to [-beta, beta], then the +-1 indicators,
variable by variable. ``groups`` has one index array per categorical variable (length one for two
levels). An edge is a pair s < t of columns that are not of one group; theta (p, p) is symmetric and
zero elsewhere. Choices that the specification leaves open have a comment.
"""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, logsumexp
from scipy.stats import rankdata

UNARY = 1e-4  # ridge of the unary terms
ROUND = 10  # decimals of the sign rule

# ----------------------------------------------------------------------------------------
# Section 2: encoding and scaling
# ----------------------------------------------------------------------------------------


def scale(D, beta):
    """beta (x - mean) / max|x - mean| column by column; a constant column becomes 0."""
    D = np.asarray(D, dtype=np.float64)
    centred = D - D.mean(axis=0)
    centred[:, D.max(axis=0) == D.min(axis=0)] = 0.0
    largest = np.abs(centred).max(axis=0)
    return beta * centred / np.where(largest > 0.0, largest, 1.0)


def is_missing(cell):
    """None and NaN."""
    return cell is None or (isinstance(cell, float) and np.isnan(cell))


def levels_of(column):
    """Sorted levels, as text where they do not compare; None, the missing level, last."""
    seen = {cell for cell in column if not is_missing(cell)}
    try:
        levels = sorted(seen)
    except TypeError:
        levels = sorted(seen, key=str)
    return levels + [None] * any(is_missing(cell) for cell in column)


def encode(numeric, categorical, beta=2.0):
    """The table of section 2.

    Parameters
    ----------
    numeric : (n, p1) floats, NaN where missing
    categorical : (n, P) objects, None or NaN where missing

    Returns
    -------
    SimpleNamespace
        ``x`` (n, p), ``p1``, ``groups``, ``names`` (``(variable, None)`` or ``(variable, level)``, variables
        counted numeric ones first), ``dropped`` (names of constant columns), ``D_num`` (n, p1) min-max
        scaled and ``D_cat`` (n, p - p1) of zeros and ones, ``beta``.
    """
    numeric, categorical = np.array(numeric, dtype=np.float64), np.asarray(categorical, dtype=object)
    n, p_numeric = numeric.shape
    D_num, names, dropped = [], [], []
    for j, column in enumerate(numeric.T):
        here = column[~np.isnan(column)]
        if not len(here) or here.min() == here.max():
            dropped.append((j, None))
            continue
        filled = np.where(np.isnan(column), here.mean(), column)
        D_num.append((filled - here.min()) / (here.max() - here.min()))
        names.append((j, None))
    p1, D_cat, groups = len(names), [], []
    for j, column in enumerate(categorical.T, p_numeric):
        levels = levels_of(column)
        if len(levels) < 2:
            dropped += [(j, level) for level in levels]
            continue
        shown = levels[1:] if len(levels) == 2 else levels
        groups.append(np.arange(len(names), len(names) + len(shown)))
        for level in shown:
            D_cat.append([is_missing(cell) if level is None else cell == level for cell in column])
            names.append((j, level))
    D_num, D_cat = (
        np.array(D_num).reshape(p1, n).T,
        np.array(D_cat, dtype=np.float64).reshape(len(names) - p1, n).T,
    )
    x = np.column_stack([scale(D_num, beta), 2.0 * D_cat - 1.0])
    return SimpleNamespace(
        x=x, p1=p1, groups=groups, names=names, dropped=dropped, D_num=D_num, D_cat=D_cat, beta=beta
    )


def edges(p, groups):
    """Arrays s < t of the pairs that are not inside a group, in order of (s, t)."""
    owner = np.arange(p)
    for group in groups:
        owner[group] = group[0]
    s, t = np.triu_indices(p, 1)
    kept = owner[s] != owner[t]
    return s[kept], t[kept]


def matrix(values, s, t, p):
    """Symmetric (p, p) of one value per edge."""
    theta = np.zeros((p, p))
    theta[s, t] = theta[t, s] = values
    return theta


# ----------------------------------------------------------------------------------------
# Section 4: the similarity, as the normaliser describes it
# ----------------------------------------------------------------------------------------


def similarity(u, a, eps):
    """g(u, a) = sign min(U, A) / max(U, A), U = max(|u|, eps), A = max(|a|, eps).

    The sign is that of u a where both are beyond the floor, |u| > eps and |a| > eps, and + otherwise.
    """
    u, a = np.asarray(u, dtype=np.float64), np.asarray(a, dtype=np.float64)
    U, A = np.maximum(np.abs(u), eps), np.maximum(np.abs(a), eps)
    opposite = (np.abs(u) > eps) & (np.abs(a) > eps) & ((u > 0.0) != (a > 0.0))
    return np.where(opposite, -1.0, 1.0) * np.minimum(U, A) / np.maximum(U, A)


# ----------------------------------------------------------------------------------------
# Section 3: collective factorisation, and the codes of section 4
# ----------------------------------------------------------------------------------------


def rank(p):
    """k = min(20, max(2, p // 2))."""
    return min(20, max(2, p // 2))


def hals(A, k, sweeps, seed):
    """W (n, k), H (k, p) >= 0 and the relative squared residuals before and after every sweep.

    Open in the specification: uniform start of the mean of A, W before H, columns in order.
    """
    rng = np.random.default_rng(seed)
    size = np.sqrt(A.mean() / k) * 2.0
    W, H = size * rng.random((len(A), k)), size * rng.random((k, A.shape[1]))

    def residual():
        return float(((A - W @ H) ** 2).sum() / (A**2).sum())

    path = [residual()]
    for _ in range(sweeps):
        for left, right, target in ((W, H, A), (H.T, W.T, A.T)):
            for j in range(k):
                square = right[j] @ right[j]
                if square > 0.0:
                    left[:, j] = np.maximum(
                        0.0, left[:, j] + (target @ right[j] - left @ (right @ right[j])) / square
                    )
        path.append(residual())
    return W, H, path


def factorise(D_num, D_cat, k=None, method="hals", seed=0, sweeps=50, weight=1.0, beta=2.0):
    """x_hat (n, p): the rank-k approximation of [D_num, sqrt(w) D_cat], centred and scaled as x.

    D_num in [0, 1], D_cat of zeros and ones. Open: the weight w (1), the number of sweeps (50).
    Scaling undoes sqrt(w).
    """
    A = np.column_stack([D_num, np.sqrt(weight) * D_cat])
    k = rank(A.shape[1]) if k is None else k
    if method == "hals":
        W, H, _ = hals(A, k, sweeps, seed)
        return scale(W @ H, beta)
    U, values, V = np.linalg.svd(A, full_matrices=False)
    return scale((U[:, :k] * values[:k]) @ V[:k], beta)


def codes(x, x_hat, p1):
    """(p, 2): mean of x_hat_t over the samples at -1 and at +1; NaN for numeric t."""
    table = np.full((x.shape[1], 2), np.nan)
    for t in range(p1, x.shape[1]):
        table[t] = x_hat[x[:, t] < 0.0, t].mean(), x_hat[x[:, t] > 0.0, t].mean()
    return table


# ----------------------------------------------------------------------------------------
# Section 4: the normaliser
# ----------------------------------------------------------------------------------------


def grid(beta, eps, m=16):
    """Nodes and weights (2 m + 1,), ascending: u = 0 of weight 2 eps, m nodes in log|u| per side."""
    z, w = np.polynomial.legendre.leggauss(m)
    half = np.log(beta / eps) / 2.0
    u = np.exp(np.log(eps) + half * (1.0 + z))
    return np.concatenate([-u[::-1], [0.0], u]), np.concatenate(
        [(half * w * u)[::-1], [2.0 * eps], half * w * u]
    )


def pieces(seen, beta, eps, order=16):
    """Nodes and weights (n, M) that integrate over [-beta, beta] piece by piece between the cuts of each row.

    The cuts are +-eps and +-|a_t|; in log|u| the integrand of a piece is entire, so that Gauss-Legendre
    of 16 nodes is exact to rounding.
    """
    z, w = np.polynomial.legendre.leggauss(order)
    n = len(seen)
    ends = np.column_stack([np.full(n, eps), np.clip(np.abs(seen), eps, beta), np.full(n, beta)])
    v = np.sort(np.log(ends), axis=1)
    half = np.diff(v, axis=1)[:, :, None] / 2.0
    u = np.exp(v[:, :-1, None] + half * (1.0 + z))
    weights = (half * w * u).reshape(n, -1)
    u = u.reshape(n, -1)
    inner = np.tile(eps * z, (n, 1)), np.tile(eps * w, (n, 1))
    return np.column_stack([-u, inner[0], u]), np.column_stack([weights, inner[1], weights])


# ----------------------------------------------------------------------------------------
# Section 4: the pseudo-likelihood
# ----------------------------------------------------------------------------------------


def hats(x, u, eps):
    """(..., nodes): one hat function per node, 1 at it and 0 at its neighbours, linear in ln|x|; -eps to eps
    count as 0.
    """

    def place(x):
        return np.sign(x) * np.log(np.maximum(np.abs(x), eps) / eps)

    return np.stack([np.interp(place(x), place(u), one) for one in np.eye(len(u))], axis=-1)


def pseudo_model(
    x,
    p1,
    groups,
    x_hat,
    *,
    eps=None,
    beta=2.0,
    m=16,
    mixed="codes",
    categorical="softmax",
    exact=False,
    free=False,
    few=0,
):
    """Everything the conditionals of all nodes see.

    Unary terms of numeric nodes: c1 x + c2 x^2, or, if they are free, hats at the nodes of the grid. A free
    node of at most ``few`` distinct values has one term per value, and its conditional is a probability of
    these values: nodes there, of weight 1.

    Open: a numeric pair is g(x_s, x_t) in 'dense' too, which changes numeric-categorical edges only;
    'logistic' has no edges inside a group either.

    Returns
    -------
    SimpleNamespace
        ``own`` (n, p1, p) h(x_s, t), and lists over numeric s: ``weights`` (n, M) of the nodes u, ``table``
        (n, M, p) h(u, t), ``terms`` (n, B) and ``terms_at`` (n, M, B), the unary basis at x_s and at u;
        ``lift`` (n, p2, p) h(+1, t) - h(-1, t), ``hit`` (n, p2) 1[x_l = +1], for categorical l; ``nodes``,
        the index arrays into 0..p2-1 of the columns that are normalised together.
    """
    eps = 0.1 * beta if eps is None else eps
    n, p = x.shape
    table = codes(x, x_hat, p1)
    seen, shown = x.copy(), x.copy()  # what a numeric node sees of t, what a categorical node sees of t
    if mixed == "dense":
        seen[:, p1:], shown[:, :p1] = x_hat[:, p1:], x_hat[:, :p1]
    else:
        for t in range(p1, p):
            seen[:, t] = np.where(x[:, t] > 0.0, table[t, 1], table[t, 0])
    if exact:
        u, weights = pieces(seen, beta, eps)
    else:
        u, weights = (np.tile(part, (n, 1)) for part in grid(beta, eps, m))
    lift = np.empty((n, p - p1, p))
    for j in range(p1, p):
        for t in range(p):
            if t < p1:
                lift[:, j - p1, t] = similarity(shown[:, t], table[j, 1], eps) - similarity(
                    shown[:, t], table[j, 0], eps
                )
            else:
                lift[:, j - p1, t] = 2.0 * x[:, t]
    places, weights_of, terms, terms_at = [], [], [], []
    width = 2 * m + 1 if free else 2
    for s in range(p1):
        values, at, weight = np.unique(x[:, s]), u, weights
        if free and len(values) <= few:
            at, weight = np.tile(values, (n, 1)), np.ones((n, len(values)))
            basis = [
                np.pad(each[..., None] == values, [(0, 0)] * each.ndim + [(0, width - len(values))])
                for each in (x[:, s], at)
            ]
        elif free:
            basis = [hats(each, grid(beta, eps, m)[0], eps) for each in (x[:, s], at)]
        else:
            basis = [np.stack([each, each**2], axis=-1) for each in (x[:, s], at)]
        for out, each in zip((places, weights_of, terms, terms_at), (at, weight, *basis), strict=True):
            out.append(each)
    nodes = [g - p1 for g in groups] if categorical == "softmax" else [np.array([j]) for j in range(p - p1)]
    return SimpleNamespace(
        x=x,
        p1=p1,
        p=p,
        groups=groups,
        edges=edges(p, groups),
        own=similarity(x[:, :p1, None], seen[:, None, :], eps),
        table=[similarity(at[:, :, None], seen[:, None, :], eps) for at in places],
        weights=weights_of,
        terms=terms,
        terms_at=terms_at,
        width=width,
        lift=lift,
        hit=(x[:, p1:] > 0.0).astype(np.float64),
        nodes=nodes,
    )


def pseudo(model, theta, b, c):
    """PL / n, R (p, p) of section 4, d PL / n d b and d c; row s of theta belongs to the conditional of s.

    theta must be zero on the diagonal and inside groups; b (p2,), c (p1, B).
    """
    n, p, p1 = len(model.x), model.p, model.p1
    value, R, db, dc = 0.0, np.zeros((p, p)), np.zeros(p - p1), np.zeros((p1, model.width))
    for s in range(p1):
        energy = model.table[s] @ theta[s] + model.terms_at[s] @ c[s]
        log_z = logsumexp(energy, b=model.weights[s], axis=1)
        q = model.weights[s] * np.exp(energy - log_z[:, None])
        value += (model.own[:, s] @ theta[s] + model.terms[s] @ c[s] - log_z).sum()
        R[s] = (model.own[:, s] - (q[:, :, None] * model.table[s]).sum(axis=1)).sum(axis=0)
        dc[s] = model.terms[s].sum(axis=0) - (q[:, :, None] * model.terms_at[s]).sum(axis=(0, 1))
    for node in model.nodes:
        F = b[node] + np.column_stack([model.lift[:, j] @ theta[p1 + j] for j in node])
        hit = model.hit[:, node]
        if len(node) == 1:
            q = expit(F)
            value += (hit * F - np.logaddexp(0.0, F)).sum()
        else:
            log_z = logsumexp(F, axis=1, keepdims=True)
            q = np.exp(F - log_z)
            value += (hit * (F - log_z)).sum()
        for j, residual in zip(node, (hit - q).T, strict=True):
            R[p1 + j] = residual @ model.lift[:, j]
            db[j] = residual.sum()
    return value / n, R / n, db / n, dc / n


def pseudo_value_gradient(model, theta, b, c):
    """PL / n and its gradient: R + R^T on the edges, d/db, d/dc."""
    value, R, db, dc = pseudo(model, theta, b, c)
    s, t = model.edges
    return value, matrix((R + R.T)[s, t], s, t, model.p), db, dc


def unpack(model, free, unary):
    """theta, b, c of the vector (theta_st for the edges, b_l, the terms c_s of each s)."""
    s, t = model.edges
    p2, shape = model.p - model.p1, (model.p1, model.width)
    b, c = (
        (free[len(s) : len(s) + p2], free[len(s) + p2 :].reshape(shape))
        if unary
        else (np.zeros(p2), np.zeros(shape))
    )
    return matrix(free[: len(s)], s, t, model.p), b, c


def n_free(model, unary):
    """Length of that vector."""
    return len(model.edges[0]) + unary * (model.p - model.p1 + model.width * model.p1)


def penalised(model, free, l2, unary=True):
    """-PL/n + l2/2 sum_{s<t} theta^2 + 1e-4/2 |unary|^2 and its gradient."""
    theta, b, c = unpack(model, free, unary)
    value, G, db, dc = pseudo_value_gradient(model, theta, b, c)
    gradient = np.concatenate([G[model.edges]] + [db, dc.ravel()] * unary)
    ridge = np.full(len(free), UNARY)
    ridge[: len(model.edges[0])] = l2
    return -value + (ridge * free**2).sum() / 2.0, ridge * free - gradient


def fit(model, l2=0.1, unary=True, gtol=1e-4, max_iter=20000, start=None):
    """L-BFGS (memory 10) from 0 until no entry of the gradient exceeds gtol (the norm is open)."""
    start = np.zeros(n_free(model, unary)) if start is None else start
    options = {"maxcor": 10, "gtol": gtol, "ftol": 0.0, "maxiter": max_iter, "maxfun": 2 * max_iter}
    found = minimize(
        lambda free: penalised(model, free, l2, unary), start, jac=True, method="L-BFGS-B", options=options
    )
    theta, b, c = unpack(model, found.x, unary)
    return SimpleNamespace(
        theta=theta,
        b=b,
        c=c,
        free=found.x,
        objective=found.fun,
        gradient=np.abs(found.jac).max(),
        n_iter=found.nit,
    )


def fit_l1(model, l1, tol=1e-6, max_iter=20000):
    """FISTA on -PL/n + l1 sum_{s<t} |theta|, no unary terms.

    Steps 1 / L with L = 2 (p - 1); this bounds the curvature of single columns (|h| <= 1, two nodes per
    edge), while a softmax node bends up to twice as much (a variance <= sum_k v_k^2 / 2 of 2 v_k), so with
    one L is doubled. Restarts the momentum when it points uphill; stops when no entry of L (y - prox(y))
    exceeds tol.
    """
    L = 2.0 * (model.p - 1) * (1.0 + any(len(node) > 1 for node in model.nodes))
    old = y = np.zeros(n_free(model, False))
    momentum = 1.0
    for _ in range(max_iter):
        moved = y - penalised(model, y, 0.0, False)[1] / L
        new = np.sign(moved) * np.maximum(np.abs(moved) - l1 / L, 0.0)
        size = L * np.abs(y - new).max()
        if size <= tol:
            break
        if (y - new) @ (new - old) > 0.0:
            momentum = 1.0
        following = (1.0 + np.sqrt(1.0 + 4.0 * momentum**2)) / 2.0
        y = new + (momentum - 1.0) / following * (new - old)
        old, momentum = new, following
    objective = penalised(model, new, 0.0, False)[0] + l1 * np.abs(new).sum()
    return SimpleNamespace(theta=unpack(model, new, False)[0], free=new, objective=objective, gradient=size)


# ----------------------------------------------------------------------------------------
# Section 1: objective (5) to (7), mode "observed"
# ----------------------------------------------------------------------------------------


def observed_similarities(x, p1, groups, x_hat, eps):
    """h (n, edges): g(x_s, x_t), x_s x_t, or g(x_hat_s, x_hat_t) for a numeric and a categorical column."""
    s, t = edges(x.shape[1], groups)
    h = np.empty((len(x), len(s)))
    for e, (i, j) in enumerate(zip(s, t, strict=True)):
        if j < p1:
            h[:, e] = similarity(x[:, i], x[:, j], eps)
        elif i >= p1:
            h[:, e] = x[:, i] * x[:, j]
        else:
            h[:, e] = similarity(x_hat[:, i], x_hat[:, j], eps)
    return h


def observed_value_gradient(theta, h):
    """(5) and (7) per sample: f = logL / n + log n <= 0 and mean(h) - sum_i softmax(s)_i h_i."""
    s = h @ theta
    log_sum = logsumexp(s)
    return s.mean() - log_sum + np.log(len(h)), h.mean(axis=0) - np.exp(s - log_sum) @ h


def observed(h, sign=-1, theta0=1.0, rate=None, n_steps=None, rescale=True):
    """n_steps of theta += sign rate gradient from the constant theta0: sign -1 as printed, +1 maximises.

    Open: the pairs (rate, n_steps) are read as (1, 20) for -1 and (0.5, 50) for +1.
    """
    rate = {-1: 1.0, 1: 0.5}[sign] if rate is None else rate
    n_steps = {-1: 20, 1: 50}[sign] if n_steps is None else n_steps
    theta = start = np.full(h.shape[1], float(theta0))
    for _ in range(n_steps):
        theta = theta + sign * rate * observed_value_gradient(theta, h)[1]
    norm = np.linalg.norm(theta)
    return theta * np.linalg.norm(start) / norm if rescale and norm > 0.0 else theta


# ----------------------------------------------------------------------------------------
# Section 5: Laplacian, basis, features
# ----------------------------------------------------------------------------------------


def laplacian(theta, kind="signed", normalised=True):
    """D - Theta ('signed') or D - |Theta| ('abs'), D the row sums of |Theta|, Theta symmetrised, its diagonal
    0.

    Open: D^-1/2 is 0 for a variable without edges, which is then a null vector of its own.
    """
    theta = (theta + theta.T) / 2.0
    theta = theta - np.diag(np.diag(theta))
    degree = np.abs(theta).sum(axis=1)
    L = np.diag(degree) - (theta if kind == "signed" else np.abs(theta))
    if not normalised:
        return L
    root = np.where(degree > 0.0, 1.0 / np.sqrt(np.where(degree > 0.0, degree, 1.0)), 0.0)
    return root[:, None] * L * root


def basis(L, n_components=5, skip_first=False):
    """Eigenvalues ascending and eigenvectors (p, l); the first of their largest entries is positive."""
    values, vectors = np.linalg.eigh(L)
    kept = slice(int(skip_first), int(skip_first) + min(n_components, len(L)))
    values, vectors = values[kept], vectors[:, kept].copy()
    for v in vectors.T:
        v *= np.sign(v[np.argmax(np.round(np.abs(v), ROUND))])
    return values, vectors


def features(x, vectors):
    """phi(x) = Phi_l^T x for every row."""
    return x @ vectors


# ----------------------------------------------------------------------------------------
# Section 4: samples of a known graph
# ----------------------------------------------------------------------------------------

SETTINGS = {"hard": (250, 0.15, 0.5), "easy": (1000, 0.5, 1.0)}


def gibbs(setting="hard", seed=0, p1=6, p2=6, n_edges=14, code=0.5, eps=0.1, n_grid=200, sweeps=100):
    """Independent Gibbs chains of the codes model with beta = 1 and a random graph.

    Open in the specification: the unary terms (0), the codes (+-0.5), signs (fair coins), the place of
    the edges (uniform over all pairs), |theta| (uniform). Numeric conditionals live on n_grid equispaced
    midpoints of [-1, 1], a categorical column is +-1.

    Returns
    -------
    numeric (n, p1), categorical (n, p2) of 'a' (-1) and 'b' (+1), theta (p, p)
    """
    n, low, high = SETTINGS[setting]
    rng = np.random.default_rng(seed)
    p = p1 + p2
    s, t = np.triu_indices(p, 1)
    chosen = rng.choice(len(s), n_edges, replace=False)
    theta = matrix(
        rng.uniform(low, high, n_edges) * rng.choice([-1.0, 1.0], n_edges), s[chosen], t[chosen], p
    )
    u = (np.arange(n_grid) + 0.5) / n_grid * 2.0 - 1.0
    values = [u] * p1 + [np.array([-1.0, 1.0])] * p2
    codes_of = [u] * p1 + [np.array([-code, code])] * p2

    def h(s, t):
        """Similarities (levels of s, levels of t)."""
        if s >= p1 and t >= p1:
            return np.outer(values[s], values[t])
        return similarity(codes_of[s][:, None], codes_of[t], eps)

    tables = {(s, t): theta[s, t] * h(s, t) for s in range(p) for t in range(p) if theta[s, t] != 0.0}
    state = np.column_stack([rng.integers(len(v), size=n) for v in values])
    for _ in range(sweeps):
        for s in range(p):
            energy = np.zeros((n, len(values[s])))
            for t in np.flatnonzero(theta[s]):
                energy += tables[s, t].T[state[:, t]]
            # the largest of energy + Gumbel noise is a draw from the softmax
            state[:, s] = np.argmax(energy + rng.gumbel(size=energy.shape), axis=1)
    return u[state[:, :p1]], np.array(["a", "b"], dtype=object)[state[:, p1:]], theta


def auc(weights, truth):
    """Area under the curve of |weights| against truth, one value per edge; ties count half."""
    ranks, positive = rankdata(np.abs(weights)), np.asarray(truth, dtype=bool)
    n1, n0 = positive.sum(), (~positive).sum()
    return float((ranks[positive].sum() - n1 * (n1 + 1) / 2) / (n1 * n0))


def alpha(phi):
    """Section IV-A1 of the paper: (sum lambda)^2 / (l sum lambda^2), lambda the eigenvalues of the features'
    covariance.
    """
    values = np.linalg.eigvalsh(np.atleast_2d(np.cov(phi, rowvar=False)))
    return float(values.sum() ** 2 / (len(values) * (values**2).sum()))


def separability(phi, labels):
    """Section IV-A2 of the paper: J = Tr S_B / Tr S_T."""
    labels, mean = np.asarray(labels), phi.mean(axis=0)
    between, total = np.zeros((phi.shape[1],) * 2), (phi - mean).T @ (phi - mean)
    for k in np.unique(labels):
        away = phi[labels == k].mean(axis=0) - mean
        between += (labels == k).sum() * np.outer(away, away)
    return float(np.trace(between) / np.trace(total))


def counts(labels, classes):
    """Contingency table."""
    a, b = np.unique(labels, return_inverse=True)[1], np.unique(classes, return_inverse=True)[1]
    table = np.zeros((a.max() + 1, b.max() + 1), dtype=np.int64)
    np.add.at(table, (a, b), 1)
    return table


def pairs(sizes):
    """Number of pairs inside sets of these sizes."""
    sizes = np.asarray(sizes, dtype=np.float64)
    return float((sizes * (sizes - 1.0)).sum() / 2.0)


def rand(labels, classes):
    """Share of the pairs of rows that both partitions treat alike."""
    table = counts(labels, classes)
    total = pairs([table.sum()])
    return (total + 2.0 * pairs(table.ravel()) - pairs(table.sum(axis=1)) - pairs(table.sum(axis=0))) / total


def chance_rand(sizes, class_sizes):
    """Mean of the Rand index over all permutations of the labels: 1 - a - b + 2 a b, a and b the shares of
    pairs inside.
    """
    total = pairs([np.sum(sizes)])
    a, b = pairs(sizes) / total, pairs(class_sizes) / total
    return 1.0 - a - b + 2.0 * a * b


def label_entropy(labels, classes):
    """E: entropy of the classes in each cluster in nats, summed over clusters without weights."""
    total = 0.0
    for row in counts(labels, classes):
        q = row[row > 0] / row.sum()
        total -= float((q * np.log(q)).sum())
    return total
