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
FEWEST_OWN_COLUMNS = 12  # of the covariances of single clusters; of fewer, all correlations cost little
_MOST_FACTORS, _COLUMNS_OF_A_FACTOR = 3, 6  # of few columns; of many
_STEPS = 8  # of the principal factors, each with new uniquenesses
_LEAST = 0.01  # uniqueness
_MANY_COLUMNS = 32  # above which BLAS could share a matrix among threads, so that bits depend on these


class CommonFactors(NamedTuple):
    """Covariances of g groups of rows with common factors."""

    matrix: Floats  # (g, m, m)
    uniqueness: Floats  # (g, m) Psi, shares of the variances
    r: NDArray[np.intp]  # (g,) numbers of factors; 0: none shortens the description

    def columns(self, weight: Floats, rise: Floats, h: float) -> Mask:
        """(g, m) columns that factors of all make shorter, although normal densities lengthen the description
        by `rise` (g, m); none if they are few.
        """
        saved = -0.5 * (weight + 1.0)[:, None] * np.log(self.uniqueness) - (self.r * h)[:, None]
        chosen = (saved > rise) & (self.r > 0)[:, None]
        enough: Mask = (chosen & (chosen.sum(axis=1) >= FEWEST_COLUMNS)[:, None]).astype(np.uint8)
        return enough

    def savings(self, block: Mask, S: Floats, weight: Floats, prior: Floats, h: float) -> Floats:
        """(g,) nats that the factors save over independent columns of blocks (g, m), as
        `craftc._kernels.craft_covariance.block_savings` has them for covariances; -inf without factors.
        """
        m = block.sum(axis=1)
        held, own = _within(self.matrix, block), _within(S, block)
        variances = np.log(np.diagonal(own, axis1=1, axis2=2)).sum(axis=1)
        apart = np.trace(np.linalg.solve(held, own), axis1=1, axis2=2) - block.shape[1]
        fit = variances - np.linalg.slogdet(held)[1] - apart
        saved = 0.5 * ((weight + 1.0) * fit + np.linalg.slogdet(_within(prior, block))[1])
        saved -= (self.r * m - self.r * (self.r - 1) // 2) * h
        return np.where((self.r > 0) & (m >= FEWEST_COLUMNS), saved, -np.inf)


def common_factors(S: Floats, weight: Floats, h: float) -> CommonFactors | None:
    """The factors behind every S (g, m, m) that shorten the description of rows of the weight (g,), at h nats
    a parameter; None: there are none.
    """
    m, deviation = S.shape[1], np.sqrt(np.diagonal(S, axis1=1, axis2=2))
    units = deviation[:, :, None] * deviation[:, None]
    most = min(max(_MOST_FACTORS, m // _COLUMNS_OF_A_FACTOR), m)
    rho, price = S / units, (m - np.arange(most)) * h  # of the first factor, the second, ...
    with one_blas_thread() if m > _MANY_COLUMNS else nullcontext():
        uniqueness, vectors = 1.0 / np.diagonal(np.linalg.inv(rho), axis1=1, axis2=2), None
        for _ in range(_STEPS):
            scale = np.sqrt(uniqueness)
            values, vectors = _largest(rho / (scale[:, :, None] * scale[:, None]), 2 * most, vectors)
            theta = np.maximum(values[:, :most], 1.0)
            pays = 0.5 * (weight + 1.0)[:, None] * (theta - 1.0 - np.log(theta)) > price
            used = np.logical_and.accumulate(pays, axis=1)
            if not used.any():
                return None
            length = np.sqrt(np.where(used, theta - 1.0, 0.0))
            loadings = scale[:, :, None] * vectors[:, :, :most] * length[:, None]
            uniqueness = np.maximum(1.0 - (loadings * loadings).sum(axis=2), _LEAST)
        matrix = loadings @ loadings.swapaxes(1, 2)
    every = np.arange(m)
    matrix[:, every, every] += uniqueness
    return CommonFactors(matrix * units, uniqueness, used.sum(axis=1))


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
