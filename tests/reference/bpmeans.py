"""BP-means, K-features and collapsed BP-means word for word: the reference implementation of the kernels.

Broderick, Kulis & Jordan, "MAD-Bayes: MAP-based Asymptotic Derivations from Bayes", ICML 2013,
sections 3 and 5 and appendices C and F. Nothing here is fast: one row at a time, residuals are
taken as x - z A whenever they are needed, owners are counted anew, ranks are exact fractions.

The rows x_n are sums of features: z_nk says whether row n owns feature k, A_k is the feature.
K is the number of columns of Z, and the objective is

    J = |X - Z A|^2 + K penalty

(K-features: K fixed, penalty 0). A row changes its bits only if its cost falls by more than the
rounding of the formulas, 2^-44 (|x_n|^2 + |A|^2); the present bits win anything closer. A row that
gives up a feature nobody else owns gains the penalty, since the feature goes.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations
from typing import NamedTuple

import numpy as np

MONOTONE = 1e-12  # rise of J, relative to |X|^2 + J, that rounding may cause
ROUNDING = 2.0**-44  # of |x_n|^2 + |A|^2: a smaller fall of the cost changes no bit
COLLAPSED_SLACK = 1e-10  # of |X|^2: a smaller fall of J changes no row of collapsed BP-means
EXACT_MOST = 16  # features up to which all codes of a row are compared
PROPOSAL_SLACK = 1e-12  # of |X|^2: proposals nearer than this are equally good, and the first is taken
ZERO_MEAN = 1e-20  # of |X|^2: a smaller n |mean|^2 is rounding of centred data
ZERO_RESIDUAL = 1e-14  # of |X|^2: a smaller residual is not worth a feature


class Fit(NamedTuple):
    """What a fit returns: features, their least-squares values, J, J after every sweep, number of sweeps,
    whether it ended.
    """

    Z: np.ndarray
    A: np.ndarray
    objective: float
    path: list
    n_iter: int
    converged: bool


# ----------------------------------------------------------------------------------------
# Rows, features, objective
# ----------------------------------------------------------------------------------------


def square(v):
    """|v|^2 of a vector or a table."""
    return float((v * v).sum())


def squares(R):
    """|r_n|^2 of every row."""
    return (R * R).sum(axis=1)


def price(K, penalty):
    """What K features cost; none cost nothing, even at an infinite penalty."""
    return K * float(penalty) if K else 0.0


def lstsq(Z, X):
    """Minimum-norm least-squares features."""
    if Z.shape[1] == 0:
        return np.zeros((0, X.shape[1]))
    return np.linalg.lstsq(Z.astype(np.float64), X, rcond=None)[0]


def objective(X, Z, A, penalty):
    """J from scratch."""
    return square(X - Z @ A) + price(Z.shape[1], penalty)


def check_falls(new, old, X):
    """J never rises."""
    assert new <= old + MONOTONE * (square(X) + old), f"the objective rises from {old!r} to {new!r}"


def all_codes(K):
    """The 2^K possible rows of Z; bit k of the row number is feature k."""
    return (np.arange(2**K)[:, None] >> np.arange(K) & 1).astype(bool)


def code_of(z):
    """The number of a row of Z."""
    return sum(1 << k for k, bit in enumerate(z) if bit)


def with_column(Z, column):
    """Z and one more feature, the last."""
    return np.column_stack([Z, column])


def unit(N, n):
    """The column of a feature that row n alone owns."""
    return np.arange(N) == n


def redundancy(Z):
    """Columns to keep: from left to right, each that raises the rank, in exact arithmetic."""
    pivots, kept = [], []
    rows = sorted({tuple(row) for row in Z.tolist()})
    for k in range(Z.shape[1]):
        v = [Fraction(int(row[k])) for row in rows]
        for i, p in pivots:
            if v[i]:
                factor = v[i] / p[i]
                v = [a - factor * b for a, b in zip(v, p, strict=True)]
        if any(v):
            pivots.append((next(i for i, a in enumerate(v) if a), v))
            kept.append(k)
    return kept


def distinct(Z):
    """Columns to keep: those with rows, the first of equal ones (appendix F)."""
    return [
        k
        for k in range(Z.shape[1])
        if Z[:, k].any() and not any((Z[:, j] == Z[:, k]).all() for j in range(k))
    ]


# ----------------------------------------------------------------------------------------
# Sweep
# ----------------------------------------------------------------------------------------


def sole(Z, n):
    """The features that row n owns and nobody else does."""
    return Z[n] & (Z.sum(axis=0) == 1)


def bits_in_turn(x, z, alone, A, penalty, margin):
    """One pass over the features, each flipped if that lowers the cost; every flip is seen by the next."""
    z = z.copy()
    for k in range(len(z)):
        r = x - z @ A
        change = square(r + A[k] if z[k] else r - A[k]) - square(r)
        if alone[k]:
            change -= penalty
        if change < -margin:
            z[k] = not z[k]
    return z


def bits_at_once(x, z, alone, A, penalty, margin):
    """The best of all codes; the features that only this row owns are paid for."""
    codes = all_codes(len(z))
    costs = squares(x - codes @ A) + [price(int(K), penalty) for K in (codes & alone).sum(axis=1)]
    if not costs[code_of(z)] - costs.min() > margin:
        return z.copy()
    return codes[int(np.argmax(costs <= costs.min() + margin))]


def sweep(X, Z, A, penalty, cap, order=None, exact=False, births=True, deaths=True):
    """Row after row: choose its bits, delete what nobody owns any more, perhaps make a feature of its
    residual.

    Returns
    -------
    Z, A : arrays (N, K), (K, D)
        A row of A is as it was, or the residual at which the feature was born.
    changed : bool
        A bit, or the features.
    """
    Z, A, changed = Z.copy(), A.copy(), False
    for n in range(len(X)) if order is None else order:
        x, K = X[n], Z.shape[1]
        margin = ROUNDING * (square(x) + square(A))
        choose = bits_at_once if exact and K <= EXACT_MOST else bits_in_turn
        z = choose(x, Z[n], sole(Z, n), A, penalty, margin)
        changed |= bool((z != Z[n]).any())
        Z[n] = z
        if deaths:
            owned = Z.any(axis=0)
            changed |= not owned.all()
            Z, A = Z[:, owned], A[owned]
        r = x - Z[n] @ A
        if births and square(r) - penalty > ROUNDING * (square(X[n]) + square(A)) and Z.shape[1] < cap:
            Z, A, changed = with_column(Z, unit(len(X), n)), np.vstack([A, r]), True
    return Z, A, changed


# ----------------------------------------------------------------------------------------
# Fits
# ----------------------------------------------------------------------------------------


def start(X, Z0, A0, kept):
    """Float rows and the state to start from: without values the columns are thinned and the values are those
    of least squares.
    """
    X, Z = np.asarray(X, dtype=np.float64), np.asarray(Z0, dtype=bool)
    if A0 is None:
        Z = Z[:, kept(Z)]
        return X, Z, lstsq(Z, X)
    return X, Z, np.asarray(A0, dtype=np.float64)


def descend(X, Z, A, penalty, step, max_iter, first=True):
    """Steps (Z, A) -> (Z, changed) and least squares until a step changes nothing, but not on the first
    sweep.

    The values at the start need not be the least-squares values, so a first sweep without a change says
    nothing; with ``first=False`` it does.
    """
    J, path, converged = objective(X, Z, A, penalty), [], False
    while len(path) < max_iter and not converged:
        Z, changed = step(Z, A)
        A = lstsq(Z, X)
        path.append(objective(X, Z, A, penalty))
        check_falls(path[-1], J, X)
        J = path[-1]
        converged = not changed and (len(path) > 1 or not first)
    return Fit(Z, A, J, path, len(path), converged)


def bp_means(X, Z0, A0, penalty, cap=64, exact=False, order=None, max_iter=1000, kept=redundancy):
    """BP-means: sweep, drop redundant features, least squares.

    Parameters
    ----------
    X : array (N, D)
    Z0 : bool array (N, K)
    A0 : array (K, D) or None
        None: redundant columns of Z0 go and the values are those of least squares.
    penalty : float
        lambda squared; 0 and infinity are legal.
    cap : int
        Most features; at this number none is born.
    exact : bool
        Choose all bits of a row at once (up to 16 features).
    kept : callable
        Columns that stay: `redundancy`, or `distinct` as printed.
    """
    X, Z, A = start(X, Z0, A0, kept)

    def step(Z, A):
        Z, _, changed = sweep(X, Z, A, penalty, cap, order, exact)
        stay = kept(Z)
        return Z[:, stay], changed or len(stay) < Z.shape[1]

    return descend(X, Z, A, penalty, step, max_iter)


def k_features(X, Z0, A0, exact=True, empty="drop", max_iter=1000, order=None):
    """K-features: no births, dependent features stay, those without owner go or are reseeded.

    Within a sweep a feature that has lost its owners may find new ones. A reseeded feature is owned by
    the row of the largest residual after the sweep, the next one by the second worst; those beyond the
    number of rows go.
    """
    if empty not in ("drop", "reseed"):
        raise ValueError(f"empty {empty!r} is neither drop nor reseed")
    X, Z, A = start(X, Z0, A0, lambda Z: Z.any(axis=0))

    def step(Z, A):
        Z, A, changed = sweep(X, Z, A, 0.0, 0, order, exact, births=False, deaths=False)
        if empty == "reseed":
            worst_first = np.argsort(-squares(X - Z @ A), kind="stable")
            for k, n in zip(np.flatnonzero(~Z.any(axis=0)), worst_first, strict=False):
                Z[n, k] = changed = True
        owned = Z.any(axis=0)
        return Z[:, owned], changed or not owned.all()

    return descend(X, Z, A, 0.0, step, max_iter)


# ----------------------------------------------------------------------------------------
# Collapsed BP-means
# ----------------------------------------------------------------------------------------


def increase(X_others, Z_others, x):
    """How much the SSE rises if a row x is put back with bits z: |x - z B|^2 / (1 + z H z').

    H = (Z'Z)^-1 and B = H Z'X are those of the other rows, whose features must be independent.
    """
    F = Z_others.astype(np.float64)
    H = np.linalg.inv(F.T @ F)
    B = H @ F.T @ X_others
    return lambda z: square(x - z @ B) / (1.0 + float(z @ H @ z))


def best_bits(f, z, exact, margin):
    """The bits of smallest f: of all codes, or one pass of flips from the present bits z."""
    if exact and len(z) <= EXACT_MOST:
        codes = all_codes(len(z))
        costs = np.array([f(code) for code in codes])
        return codes[int(np.argmax(costs <= costs.min() + margin))] if f(z) - costs.min() > margin else z
    for k in range(len(z)):
        flipped = z.copy()
        flipped[k] = not z[k]
        if f(z) - f(flipped) > margin:
            z = flipped
    return z


def collapsed_sweep(X, Z, penalty, cap, exact=False, order=None):
    """Row after row: take it out, put it back where J is smallest; the features follow every move.

    If the others' features are dependent, the row alone keeps one of them alive: as things stand it
    costs the penalty and the row is fitted exactly. Else a feature of its own would do the same.
    """
    Z, changed, margin = Z.copy(), False, COLLAPSED_SLACK * square(X)
    for n in range(len(X)) if order is None else order:
        others = ~unit(len(X), n)
        kept = redundancy(Z[others])
        f = increase(X[others], Z[others][:, kept], X[n])
        z = best_bits(f, Z[n, kept], exact, margin)
        if len(kept) < Z.shape[1]:
            if f(z) < penalty - margin:
                Z, changed = Z[:, kept], True
                Z[n] = z
        elif f(z) > penalty + margin and Z.shape[1] < cap:
            if f(Z[n]) - penalty > margin:
                Z[n] = z
                Z, changed = with_column(Z, unit(len(X), n)), True
        elif f(Z[n]) - f(z) > margin:
            Z[n], changed = z, True
    return Z, changed


def collapsed(X, Z0, penalty, cap=64, exact=False, order=None, max_iter=1000):
    """Collapsed BP-means: sweeps until one changes nothing. See `bp_means`."""
    X, Z, A = start(X, Z0, None, redundancy)

    def step(Z, A):
        return collapsed_sweep(X, Z, penalty, cap, exact, order)

    return descend(X, Z, A, penalty, step, max_iter, first=False)


# ----------------------------------------------------------------------------------------
# Start
# ----------------------------------------------------------------------------------------


def proposal(X, R, u):
    """A feature that is the residual of a drawn row, owned by all rows that it brings nearer: column, value,
    SSE.
    """
    running = np.cumsum(squares(R))
    n = int(np.argmax(running > u * running[-1]))
    a = R[n]
    column = squares(R) - squares(R - a) > ROUNDING * (squares(X) + square(a))
    column[n] = True
    return column, a, square(R - np.outer(column, a))


def greedy_init(X, K, penalty, cap, base, draws, n_trials):
    """Features one after the other, each the residual of a row drawn by its square; none is refitted.

    Parameters
    ----------
    K : int or None
        None: until a feature no longer lowers J.
    base : {"mean", "none"}
        Whether everybody owns the mean to begin with.
    draws : array (cap, trials)
        Uniform numbers; those of row k choose feature k.
    n_trials : int or callable
        Proposals per feature, perhaps a function of k; the lowest SSE is taken.

    Returns
    -------
    Z, A
    """
    if base not in ("mean", "none"):
        raise ValueError(f"base {base!r} is neither mean nor none")
    X = np.asarray(X, dtype=np.float64)
    limit = cap if K is None else min(K, cap)
    nothing = np.zeros((len(X), 0), dtype=bool), np.zeros((0, X.shape[1]))
    mean = X.mean(axis=0)
    zero = base == "mean" and len(X) * square(mean) <= ZERO_MEAN * square(X)
    if base == "none" or limit == 0 or (zero and K == 1):
        Z, A = nothing
    else:
        # the mean of centred data is rounding: rows would be separated by its sign
        Z, A = np.ones((len(X), 1), dtype=bool), (np.zeros_like(mean) if zero else mean)[None, :]
    while Z.shape[1] < limit:
        k, R = Z.shape[1], X - Z @ A
        if square(R) <= ZERO_RESIDUAL * square(X):
            break
        trials = n_trials(k) if callable(n_trials) else n_trials
        column, a, sse = proposal(X, R, draws[k, 0])
        for other in (proposal(X, R, u) for u in draws[k, 1:trials]):
            if other[2] < sse - PROPOSAL_SLACK * square(X):
                column, a, sse = other
        if K is None and not sse + price(k + 1, penalty) < square(R) + price(
            k, penalty
        ) - PROPOSAL_SLACK * square(X):
            break
        Z, A = with_column(Z, column), np.vstack([A, a])
    return nothing if zero and K is None and Z.shape[1] == 1 else (Z, A)


# ----------------------------------------------------------------------------------------
# Brute force
# ----------------------------------------------------------------------------------------


def every_table(N, most):
    """All Z of at most `most` columns, without empty or repeated ones, which never help."""
    if N > 5 or most > 3:
        raise ValueError("brute force is meant for at most 5 rows and 3 features")
    columns = all_codes(N)[1:]
    for K in range(min(most, len(columns)) + 1):
        for chosen in combinations(columns, K):
            yield np.array(chosen, dtype=bool).reshape(K, N).T


def lowest_errors(X, most):
    """The lowest SSE of all Z of no, one, ... features."""
    errors = [np.inf] * (most + 1)
    for Z in every_table(len(X), most):
        errors[Z.shape[1]] = min(errors[Z.shape[1]], objective(X, Z, lstsq(Z, X), 0.0))
    return errors


def lowest_objective(errors, penalty):
    """The lowest J, given the lowest SSE of no, one, ... features."""
    return min(error + price(K, penalty) for K, error in enumerate(errors))


def optimum(X, penalty, most):
    """The lowest J of all Z of at most `most` features."""
    return lowest_objective(lowest_errors(X, most), penalty)


def k_optimum(X, K):
    """The lowest SSE of all Z of K features."""
    return optimum(X, 0.0, K)
