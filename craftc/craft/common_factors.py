"""Covariances with few common factors: the size behind measures, the level behind answers.

A covariance of m columns has m (m - 1) / 2 parameters besides its variances, more than a table of many
columns and few rows pays for. With r factors of the loadings Lambda (m, r),

    Sigma = D^(1/2) (Lambda Lambda^T + Psi) D^(1/2),        D = diag(S), Psi diagonal,

it has r m - r (r - 1) / 2. S is an estimate from rows of the weight N and one row of prior, rho its
correlations: a factor of the eigenvalue theta of Psi^(-1/2) rho Psi^(-1/2) saves (N + 1) / 2 (theta - 1 - log
theta) nats. Lambda and Psi are those of the principal factors.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from craftc._common.threads import one_blas_thread
from craftc._common.typing import Floats, Mask

FEWEST_COLUMNS = 5  # one factor has at most half of the parameters of all their correlations
FEWEST_OWN_COLUMNS = 8  # of the covariances of single clusters; of fewer, all correlations cost little
_MOST_FACTORS, _CELLS_OF_A_FACTOR = 3, 6  # of few columns; columns and rows of each of many
STEPS, RANKING_STEPS = 8, 2  # of the principal factors, each with new uniquenesses; where groups are ranked
_LEAST = 0.01  # uniqueness
_MANY_COLUMNS = 32  # above which BLAS could share a matrix among threads, so that bits depend on these


class CommonFactors(NamedTuple):
    """Covariances of g groups of rows with common factors."""

    matrix: Floats  # (g, m, m); S without factors
    uniqueness: Floats  # (g, m) Psi, shares of the variances
    r: NDArray[np.intp]  # (g,) numbers of factors; 0: none shortens the description

    def columns(self, weight: Floats, rise: Floats, h: float) -> Mask:
        """(g, m) columns that the factors of all columns describe more shortly than independence does, after
        the `rise` (g, m) of normal densities; none if they are few.
        """
        saved = -0.5 * (weight + 1.0)[:, None] * np.log(self.uniqueness) - (self.r * h)[:, None]
        chosen = (saved > rise) & (self.r > 0)[:, None]
        enough: Mask = (chosen & (chosen.sum(axis=1) >= FEWEST_COLUMNS)[:, None]).astype(np.uint8)
        return enough

    def savings(self, block: Mask, S: Floats, weight: Floats, prior: Floats, h: float) -> Floats:
        """(g,) nats that the factors save over independent columns of blocks (g, m), as
        `craftc._kernels.craft_covariance.block_savings` has them for covariances; -inf without factors.
        """
        saved = np.full(len(block), -np.inf)
        some = np.flatnonzero((self.r > 0) & (block.sum(axis=1) >= FEWEST_COLUMNS))
        if len(some):
            block, r = block[some], self.r[some]
            held, own = _within(self.matrix[some], block), _within(S[some], block)
            variances = np.log(np.diagonal(own, axis1=1, axis2=2)).sum(axis=1)
            apart = np.trace(np.linalg.solve(held, own), axis1=1, axis2=2) - block.shape[1]
            fit = variances - np.linalg.slogdet(held)[1] - apart
            saved[some] = 0.5 * ((weight[some] + 1.0) * fit + np.linalg.slogdet(_within(prior, block))[1])
            saved[some] -= (r * block.sum(axis=1) - r * (r - 1) // 2) * h
        return saved


def common_factors(S: Floats, weight: Floats, h: float, n_steps: int = STEPS) -> CommonFactors | None:
    """The factors behind every S (g, m, m) that shorten the description of rows of the weight (g,), at h nats
    a parameter, after steps of the principal factors; None: there are none.
    """
    (g, m), deviation = S.shape[:2], np.sqrt(np.diagonal(S, axis1=1, axis2=2))
    most = min(max(_MOST_FACTORS, m // _CELLS_OF_A_FACTOR), m)
    # of the first factor, the second, ...; nearly as many factors as rows describe any table of many columns
    price = np.where(
        np.arange(most) < (weight // _CELLS_OF_A_FACTOR)[:, None], (m - np.arange(most)) * h, np.inf
    )
    rho, half, some = S / (deviation[:, :, None] * deviation[:, None]), 0.5 * (weight + 1.0), np.arange(g)
    with one_blas_thread() if m > _MANY_COLUMNS else nullcontext():
        uniqueness, vectors = 1.0 / np.diagonal(np.linalg.inv(rho), axis1=1, axis2=2), None
        for _ in range(n_steps):
            scale = np.sqrt(uniqueness)
            values, vectors = _largest(rho / (scale[:, :, None] * scale[:, None]), 2 * most, vectors)
            theta = np.maximum(values[:, :most], 1.0)
            fit = half[some, None] * (theta - 1.0 - np.log(theta))
            used = np.logical_and.accumulate(fit > price[some], axis=1)
            paid = used[:, 0]
            if not paid.any():
                return None
            if not paid.all():  # the others have none
                some, rho, scale, vectors = some[paid], rho[paid], scale[paid], vectors[paid]
                theta, used = theta[paid], used[paid]
            length = np.sqrt(np.where(used, theta - 1.0, 0.0))
            loadings = scale[:, :, None] * vectors[:, :, :most] * length[:, None]
            uniqueness = np.maximum(1.0 - (loadings * loadings).sum(axis=2), _LEAST)
        common = loadings @ loadings.swapaxes(1, 2)
    every = np.arange(m)
    common[:, every, every] += uniqueness
    found = CommonFactors(S.copy(), np.ones((g, m)), np.zeros(g, np.intp))
    found.matrix[some] = common * deviation[some, :, None] * deviation[some, None]
    found.uniqueness[some], found.r[some] = uniqueness, used.sum(axis=1)
    return found


def _largest(matrix: Floats, r: int, near: Floats | None) -> tuple[Floats, Floats]:
    """The r largest eigenvalues (g, r), descending, and their vectors (g, m, r); of many columns from the
    vectors of `near` matrices by one step of subspace iteration.
    """
    if near is None or matrix.shape[1] <= _MANY_COLUMNS:
        values, vectors = np.linalg.eigh(matrix)
    else:
        basis = np.linalg.qr(matrix @ near)[0]
        values, vectors = np.linalg.eigh(basis.swapaxes(1, 2) @ matrix @ basis)
        vectors = basis @ vectors
    return values[:, : -r - 1 : -1], vectors[:, :, : -r - 1 : -1]


def _within(matrix: Floats, block: Mask) -> Floats:
    """(g, m, m) matrices with the rows and columns of the identity outside blocks (g, m)."""
    return np.where((block[:, :, None] & block[:, None, :]).astype(bool), matrix, np.eye(block.shape[1]))
