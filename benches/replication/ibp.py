"""A collapsed Gibbs sampler of the Indian buffet process with normal features: the baseline of the MAD-Bayes
paper.

Griffiths & Ghahramani, "The Indian Buffet Process", JMLR 12 (2011): X = Z A + noise, Z an Indian buffet
process of strength alpha, A normal with variance a2 and integrated out, noise of variance s2. Given the other
rows, a row of memberships z has the normal predictive density with mean z B and variance s2 (1 + z M z'), M =
inv(Z'Z + s2 / a2), B = M Z'X.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

_MOST_NEW = 4  # features that a row opens at once
_STEP = 0.1  # of the random walk of log s2 and log a2


class Sample(NamedTuple):
    """Features and memberships after one sweep, and the squared error of the least squares features."""

    n_features: int
    error: float


def log_evidence(X: NDArray[np.float64], Z: NDArray[np.float64], s2: float, a2: float) -> float:
    """Log p(X | Z, s2, a2)."""
    n, D = X.shape
    M = Z.T @ Z + s2 / a2 * np.eye(Z.shape[1])
    fitted = np.linalg.solve(M, Z.T @ X)
    rest = float((X * X).sum() - ((Z.T @ X) * fitted).sum())
    determinant = np.linalg.slogdet(M)[1] + Z.shape[1] * np.log(a2 / s2)
    return -0.5 * (n * D * np.log(2 * np.pi * s2) + D * determinant + rest / s2)


def _log_density(
    x: NDArray[np.float64],
    z: NDArray[np.float64],
    M: NDArray[np.float64],
    B: NDArray[np.float64],
    s2: float,
    extra: float,
) -> float:
    """Log p(x | z, the other rows); extra: variance of new features, in units of s2."""
    variance = s2 * (1.0 + float(z @ M @ z) + extra)
    left = x - z @ B
    return -0.5 * (len(x) * np.log(2 * np.pi * variance) + float(left @ left) / variance)


def sample(X: NDArray[np.float64], n_sweeps: int, seed: int, alpha: float = 1.0) -> list[Sample]:
    """Sweeps from one feature of every row; s2 and a2 start at half the variance of the table and follow a
    random walk.
    """
    rng = np.random.default_rng(seed)
    n = len(X)
    Z, s2, a2 = np.ones((n, 1)), 0.5 * X.var(), 0.5 * X.var()
    new_prior = np.array(
        [k * np.log(alpha / n) - sum(np.log(np.arange(1, k + 1))) for k in range(_MOST_NEW + 1)]
    )
    found = []
    for _ in range(n_sweeps):
        for i in range(n):
            others = np.delete(Z, i, 0)
            shared = others.any(axis=0)
            Z, others = Z[:, shared], others[:, shared]
            M = np.linalg.inv(others.T @ others + s2 / a2 * np.eye(Z.shape[1]))
            B = M @ others.T @ np.delete(X, i, 0)
            count, z = others.sum(axis=0), Z[i].copy()
            for k in range(len(z)):
                pair = []
                for value in (0.0, 1.0):
                    z[k] = value
                    pair.append(
                        _log_density(X[i], z, M, B, s2, 0.0) + np.log(count[k] if value else n - count[k])
                    )
                z[k] = float(np.log(rng.random()) < pair[1] - np.logaddexp(*pair))
            costs = new_prior + [_log_density(X[i], z, M, B, s2, k * a2 / s2) for k in range(_MOST_NEW + 1)]
            new = int(rng.choice(_MOST_NEW + 1, p=np.exp(costs - np.logaddexp.reduce(costs))))
            Z[i] = z
            Z = np.column_stack([Z, np.zeros((n, new))])
            Z[i, len(z) :] = 1.0
        now = log_evidence(X, Z, s2, a2)
        for which in (0, 1):
            proposed = np.array([s2, a2])
            proposed[which] *= np.exp(_STEP * rng.normal())
            then = log_evidence(X, Z, *proposed)
            if np.log(rng.random()) < then - now:
                (s2, a2), now = proposed, then
        left = X - Z @ np.linalg.lstsq(Z, X, rcond=None)[0]
        found.append(Sample(Z.shape[1], float((left * left).sum())))
    return found
